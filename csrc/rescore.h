/* SPDX-License-Identifier: Apache-2.0
 *
 * Rescores a sentence with other potentials at a few tokens: the recursion restarts at the first of
 * them and is joined to the known suffix after the last.
 *
 *   Z' = (+) F'_{b+1} (x) G_{b+1},   F' = F up to the first changed token a, then stepped to b + 1
 *
 * A variant costs the tokens a .. b, not the sentence. */
#ifndef FSTCRF_RESCORE_H
#define FSTCRF_RESCORE_H

#include "recursion.h"

/* Forward rows of a sentence, scaled, and the logs of their scales before each token, and of the scales
 * of the suffix rows after it. */
typedef struct {
    double *forward; /* [T][full] F_t, before token t is read */
    double *before;  /* [T] log scale of F_t */
    double *behind;  /* [T] log scale of G_t */
    double *changed; /* [P] */
} trace;

/* Reads token t (its node potentials in `node`) and advances m->x to token t + 1, or past the end;
 * returns the log of the scale. */
static inline double read_and_step(tensor *m, semiring K, int64_t first, int64_t t, int64_t T,
                                   const double *node) {
    double scale = 0.0;
    times_plane(m, K, m->x, node, m->x);
    move_residual(m, K);
    if (m->machine->residual != NULL) scale += m->edge_shift;
    scale += normalise(m, K, m->x);
    if (t + 1 < T) {
        scale += load_arcs(m, K, first + t + 1);
        all_axes(m, K, FORWARD, m->x);
    }
    return scale;
}

/* (+) m->x (x) the suffix of token t, or the ends. */
static inline double joined(tensor *m, semiring K, int64_t t, int64_t T) {
    if (t < T) {
        for (int64_t j = 0; j < m->full; j++)
            m->row[j] = times(K, m->x[j], m->suffix[t * m->full + j]);
    } else {
        spread_ends(m, K, m->final, m->ends[1], m->row);
        for (int64_t j = 0; j < m->full; j++) m->row[j] = times(K, m->row[j], m->x[j]);
    }
    if (K == SUM_TIMES) return log(fc_sum(m->full, m->row));
    const double top = fc_max(m->full, m->row);
    if (K == MAX_PLUS || top == FC_NEVER) return top;
    double sum = 0.0;
    for (int64_t j = 0; j < m->full; j++) sum += fc_exp(m->row[j] - top);
    return top + log(sum);
}

/* Suffixes (backward) of a sentence, and forward rows up to its token `last`. */
static inline outcome trace_sentence(tensor *m, semiring K, int64_t first, int64_t T, int64_t last,
                                     trace *w, double *total) {
    const outcome result = backward(m, K, first, T, total);
    if (result != DONE) return result;
    fc_total behind = {0};
    for (int64_t t = T - 1; t >= 0; t--) {
        if (t + 1 < T) fc_add(&behind, m->step[t + 1]);
        fc_add(&behind, m->read[t]);
        w->behind[t] = fc_value(behind);
    }
    spread_ends(m, K, m->initial, m->ends[0], m->x);
    fc_total scale = {0};
    for (int64_t t = 0; t <= last; t++) {
        memcpy(w->forward + t * m->full, m->x, (size_t)m->full * sizeof *m->x);
        w->before[t] = fc_value(scale);
        if (t < last)
            fc_add(&scale, m->shifts[t] + read_and_step(m, K, first, t, T, m->node + t * m->plane));
    }
    return K == SUM_TIMES && any_lost(m) ? LOST : DONE;
}

/* Node potentials of a changed token, in the form of the semiring; returns the shift. */
static inline double changed_node(tensor *m, semiring K, const double *row, double *out) {
    memcpy(out, row, (size_t)m->S * sizeof *row);
    fc_fill(m->P - m->S, FC_NEVER, out + m->S);
    if (K != SUM_TIMES) return 0.0;
    const double shift = finite_or_zero(fc_max(m->P, out));
    m->lost += exp_scores(m->P, shift, out, out);
    return shift;
}

/* Total of a sentence with the rows `node` at `n` tokens, rising. */
static inline double variant_total(tensor *m, semiring K, int64_t first, int64_t T, const trace *w,
                                   int64_t n, const int32_t *token, const double *node) {
    const int64_t a = token[0], b = token[n - 1];
    fc_total scale = {w->before[a], 0.0};
    memcpy(m->x, w->forward + a * m->full, (size_t)m->full * sizeof *m->x);
    int64_t k = 0;
    for (int64_t t = a; t <= b; t++) {
        const double *plane = m->node + t * m->plane;
        double shift = m->shifts[t];
        if (token[k] == t) {
            shift = changed_node(m, K, node + k * m->S, w->changed);
            plane = w->changed;
            k++;
        }
        fc_add(&scale, shift + read_and_step(m, K, first, t, T, plane));
    }
    fc_add(&scale, joined(m, K, b + 1, T));
    if (b + 1 < T) fc_add(&scale, w->behind[b + 1]);
    fc_add(&scale, m->shift);
    return fc_value(scale);
}

/* Totals of the variants from .. to of one sentence; in the log domain if the linear one fails. */
static inline outcome variants(tensor *m, semiring K, int64_t first, int64_t T, trace *w,
                               int64_t from, int64_t to, const int64_t *ptr, const int32_t *token,
                               const double *node, double *total) {
    double whole;
    int64_t last = -1; /* last token at which a variant begins to differ */
    for (int64_t c = from; c < to; c++)
        if (ptr[c] < ptr[c + 1] && token[ptr[c]] > last) last = token[ptr[c]];
    outcome result = trace_sentence(m, K, first, T, last, w, &whole);
    if (result == LOST && K == SUM_TIMES) {
        K = LOG_PLUS;
        result = trace_sentence(m, K, first, T, last, w, &whole);
    }
    for (int64_t c = from; c < to; c++) {
        const int64_t n = ptr[c + 1] - ptr[c];
        total[c] = result == DONE ? whole : FC_NEVER;
        if (n == 0) continue;
        if (result != DONE) return result;
        m->lost = m->static_lost;
        forget_underflow();
        total[c] = variant_total(m, K, first, T, w, n, token + ptr[c], node + ptr[c] * m->S);
        if (K == SUM_TIMES && (any_lost(m) || !(total[c] > FC_NEVER))) {
            K = LOG_PLUS;
            result = trace_sentence(m, K, first, T, last, w, &whole);
            c--; /* again */
        }
    }
    return DONE;
}

#endif
