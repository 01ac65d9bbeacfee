/* SPDX-License-Identifier: Apache-2.0
 *
 * Rescores sentences with other potentials at a few tokens. The recursion restarts at the first of
 * them, a, and is joined to the known continuations after the last, b:
 *
 *   Z' = (+) F'_b (x) node'_b (x) B_b,   F'_a = F_a
 *
 * where B_b are the continuations after token b. A variant costs the steps from a to b, not the
 * sentence. The rows of several sentences, or variants, are stepped together, and each row has the same
 * bits in any company. */
#ifndef FSTCRF_RESCORE_H
#define FSTCRF_RESCORE_H

#include "recursion.h"

#define GROUP 32         /* sentences */
#define GROUP_TOKENS 512 /* a group of several sentences has at most as many */

/* A row of the recursion: the place of its sentence in the group, or of its variant. */
typedef struct {
    int64_t job, s, t, change;
    fc_total scale;
} runner;

typedef struct {
    int64_t first, T, from, to; /* tokens, and variants */
    int64_t at;                 /* of its first token in the arrays of the group */
    int64_t last;               /* the last token at which a variant begins to differ, or -1 */
    double total;
} rescored;

typedef struct {
    tensor *m;
    semiring K;
    int together; /* one table of arcs for all rows */
    int64_t sentences, n;
    rescored sentence[GROUP];
    runner row[FC_LANES];
    double *x, *y;                   /* [FC_LANES][full] */
    double *forward, *after, *node;  /* [tokens][full]: F_t, B_t; [tokens][plane] */
    double *shift, *before, *behind; /* [tokens] logs of scales: of node, F_t and B_t */
    double *changed;                 /* [plane] */
    const int64_t *ptr;
    const int32_t *token;
    const double *potentials;
    double *total;
} rescoring;

static inline int64_t lay_out_rescoring(rescoring *w, tensor *m, int64_t tokens, double *work) {
    double *const start = work, **each[] = {&w->x, &w->y, &w->forward, &w->after};
    for (int k = 0; k < 4; k++) *each[k] = take(&work, (k < 2 ? FC_LANES : tokens) * m->full);
    w->node = take(&work, tokens * m->plane);
    double **log[] = {&w->shift, &w->before, &w->behind};
    for (int k = 0; k < 3; k++) *log[k] = take(&work, tokens);
    w->changed = take(&work, m->plane);
    w->m = m;
    return work - start;
}

static inline double *row_of(const rescoring *w, int64_t r) { return w->x + r * w->m->full; }

static inline runner *add_row(rescoring *w, int64_t job, int64_t s, int64_t t) {
    w->row[w->n] = (runner){job, s, t, 0, {0.0, 0.0}};
    return &w->row[w->n++];
}

/* Ends a row; the last row takes its place. */
static inline void end_row(rescoring *w, int64_t r) {
    w->n--;
    w->row[r] = w->row[w->n];
    memcpy(row_of(w, r), row_of(w, w->n), (size_t)w->m->full * sizeof *w->x);
}

/* Steps rows that share a table. Sums add the arcs in the same order for every number of rows. */
static inline void step_together(rescoring *w, direction d) {
    const tensor *m = w->m;
    const loaded_axis *a = &m->axis[0];
    const int64_t P = m->P;
    if (a->dense && !a->full) {
        if (w->n % 2 == 1) fc_fill(P, none(w->K), row_of(w, w->n)); /* a last row adds otherwise */
        const block b = block_of(w->n + w->n % 2, m->S, P, w->x, P, 1,
                                 d == FORWARD ? a->weight : a->turned, w->y);
        (w->K == SUM_TIMES ? product_sum : product_max)(&b);
        return;
    }
    turn_rows(w->n, P, FC_LANES, none(w->K), w->x, a->lanes[0]);
    listed_step(w->K, WHOLE, a, d, FC_LANES, a->weight, a->lanes[0], a->lanes[1], a->lanes[0]);
    double *row[FC_LANES];
    for (int64_t r = 0; r < w->n; r++) row[r] = w->y + r * P;
    lanes_to_rows(m->S, w->n, a->lanes[1], row);
    for (int64_t r = 0; r < w->n; r++) fc_fill(P - m->S, none(w->K), row[r] + m->S);
}

/* Steps all rows to their tokens t, from the token before it or after it. */
static inline void step_rows(rescoring *w, direction d) {
    tensor *m = w->m;
    if (w->n > 0 && w->together) step_together(w, d);
    for (int64_t r = 0; r < w->n; r++) {
        runner *row = &w->row[r];
        if (!w->together) {
            load_arcs(m, w->K, w->sentence[row->s].first + row->t + (d == BACKWARD));
            all_axes(m, w->K, d, row_of(w, r));
            memcpy(w->y + r * m->full, m->x, (size_t)m->full * sizeof *w->y);
        }
        fc_add(&row->scale, m->axis[0].shift);
    }
    fc_swap(&w->x, &w->y);
}

/* x: (x) the node potentials of a token, scaled. */
static inline void read_node(rescoring *w, int64_t r, direction d, const double *plane,
                             double shift) {
    tensor *m = w->m;
    double *x = row_of(w, r);
    if (m->machine->residual == NULL) {
        times_plane(m, w->K, x, plane, x);
    } else if (d == FORWARD) {
        times_plane(m, w->K, x, plane, m->y);
        residual_step(m, w->K, FORWARD, m->y, x);
    } else {
        residual_step(m, w->K, BACKWARD, x, m->y);
        times_plane(m, w->K, m->y, plane, x);
    }
    fc_add(&w->row[r].scale, shift + (m->machine->residual == NULL ? 0.0 : m->edge_shift));
    fc_add(&w->row[r].scale, normalise(m, w->K, x));
}

/* (+) x (x) y over all cells, as a score. */
static inline double joined(tensor *m, semiring K, const double *x, const double *y) {
    for (int64_t j = 0; j < m->full; j++) m->row[j] = times(K, x[j], y[j]);
    const double total = row_total(m, K);
    return K == SUM_TIMES ? log(total) : total;
}

/* Continuations after each token, and the total of each sentence. */
static inline void continuations(rescoring *w) {
    tensor *m = w->m;
    for (int64_t s = 0; w->n > 0 || s < w->sentences; step_rows(w, BACKWARD)) {
        for (; w->n < FC_LANES && s < w->sentences; s++) {
            spread_ends(m, w->K, m->final, m->ends[1], row_of(w, w->n));
            add_row(w, s, s, w->sentence[s].T - 1);
        }
        for (int64_t r = 0; r < w->n;) {
            runner *row = &w->row[r];
            rescored *sentence = &w->sentence[row->s];
            const int64_t place = sentence->at + row->t;
            double *x = row_of(w, r), *node = w->node + place * m->plane;
            memcpy(w->after + place * m->full, x, (size_t)m->full * sizeof *x);
            w->behind[place] = fc_value(row->scale);
            w->shift[place] = load_node(m, w->K, sentence->first + row->t, node);
            read_node(w, r, BACKWARD, node, w->shift[place]);
            sentence->total = FC_NEVER;
            if (row->scale.sum > FC_NEVER && row->t-- > 0) {
                r++;
                continue;
            }
            if (row->scale.sum > FC_NEVER) {
                spread_ends(m, w->K, m->initial, m->ends[0], m->best);
                const double z = joined(m, w->K, m->best, x);
                if (w->K == SUM_TIMES && z > FC_NEVER && z < log(FAINT)) m->lost++;
                fc_add(&row->scale, z);
                fc_add(&row->scale, m->shift);
                sentence->total = fc_value(row->scale);
            }
            end_row(w, r);
        }
    }
}

/* Forward rows, up to the last token at which a variant begins to differ. */
static inline void beginnings(rescoring *w) {
    tensor *m = w->m;
    for (int64_t s = 0; w->n > 0 || s < w->sentences; step_rows(w, FORWARD)) {
        for (; w->n < FC_LANES && s < w->sentences; s++) {
            if (w->sentence[s].last < 0 || !(w->sentence[s].total > FC_NEVER)) continue;
            spread_ends(m, w->K, m->initial, m->ends[0], row_of(w, w->n));
            add_row(w, s, s, 0);
        }
        for (int64_t r = 0; r < w->n;) {
            runner *row = &w->row[r];
            const int64_t place = w->sentence[row->s].at + row->t;
            memcpy(w->forward + place * m->full, row_of(w, r), (size_t)m->full * sizeof *w->x);
            w->before[place] = fc_value(row->scale);
            if (row->t++ == w->sentence[row->s].last) {
                end_row(w, r);
            } else {
                read_node(w, r++, FORWARD, w->node + place * m->plane, w->shift[place]);
            }
        }
    }
}

/* Node potentials of a changed token, in the form of the semiring; returns the shift. */
static inline double changed_node(tensor *m, semiring K, const double *row, double *out) {
    memcpy(out, row, (size_t)m->S * sizeof *row);
    fc_fill(m->P - m->S, FC_NEVER, out + m->S);
    if (K == MAX_PLUS) return 0.0;
    const double shift = finite_or_zero(fc_max(m->P, out));
    copy_scores(m, K, m->P, shift, out, out);
    return shift;
}

/* Reads token t of a variant; returns 1 after its last change, when its total is known. */
static inline int read_variant(rescoring *w, int64_t r) {
    tensor *m = w->m;
    runner *row = &w->row[r];
    const int64_t place = w->sentence[row->s].at + row->t, end = w->ptr[row->job + 1];
    const double *plane = w->node + place * m->plane;
    double shift = w->shift[place];
    if (w->token[row->change] == row->t) {
        shift = changed_node(m, w->K, w->potentials + row->change++ * m->S, w->changed);
        plane = w->changed;
    }
    read_node(w, r, FORWARD, plane, shift);
    row->t++;
    if (row->change < end) return 0;
    fc_add(&row->scale, joined(m, w->K, row_of(w, r), w->after + place * m->full));
    fc_add(&row->scale, w->behind[place]);
    fc_add(&row->scale, m->shift);
    w->total[row->job] = fc_value(row->scale);
    if (w->K == SUM_TIMES && !(w->total[row->job] > FC_NEVER)) m->lost++;
    return 1;
}

/* Totals of the variants of the group. */
static inline void variants(rescoring *w) {
    tensor *m = w->m;
    const int64_t end = w->sentence[w->sentences - 1].to;
    for (int64_t c = w->sentence[0].from, s = 0; w->n > 0 || c < end; step_rows(w, FORWARD)) {
        for (; w->n < FC_LANES && c < end; c++) {
            while (c >= w->sentence[s].to) s++;
            w->total[c] = w->sentence[s].total;
            if (w->ptr[c] == w->ptr[c + 1] || !(w->total[c] > FC_NEVER)) continue;
            const int64_t t = w->token[w->ptr[c]], place = w->sentence[s].at + t;
            memcpy(row_of(w, w->n), w->forward + place * m->full, (size_t)m->full * sizeof *w->x);
            runner *row = add_row(w, c, s, t);
            row->change = w->ptr[c];
            row->scale.sum = w->before[place];
        }
        for (int64_t r = 0; r < w->n;) {
            if (read_variant(w, r)) {
                end_row(w, r);
            } else {
                r++;
            }
        }
    }
}

/* Totals of all variants of the sentences of a group. */
static inline outcome rescore_group(rescoring *w, semiring K) {
    tensor *m = w->m;
    w->K = K;
    w->n = 0;
    load_static(m, K);
    w->together = m->single && !m->axis[0].axis->moving && K != LOG_PLUS;
    m->lost = m->static_lost;
    forget_underflow();
    for (int64_t s = 0, at = 0; s < w->sentences; at += w->sentence[s++].T) w->sentence[s].at = at;
    continuations(w);
    beginnings(w);
    variants(w);
    return K == SUM_TIMES && any_lost(m) ? LOST : DONE;
}

/* Computes a group. If sums lose a term, its sentence is repeated alone, in the log domain. */
static inline void rescore_sentences(rescoring *w, semiring K) {
    const int64_t n = w->sentences;
    if (rescore_group(w, K) == DONE) return;
    rescored all[GROUP];
    memcpy(all, w->sentence, (size_t)n * sizeof *all);
    w->sentences = 1;
    for (int64_t s = 0; s < n; s++) {
        w->sentence[0] = all[s];
        if (n == 1 || rescore_group(w, K) == LOST) rescore_group(w, LOG_PLUS);
    }
}

#endif
