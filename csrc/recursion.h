/* SPDX-License-Identifier: Apache-2.0
 *
 * The recursion along a sentence. Backward, G_t holds for every residual state before token t and every
 * joint state of token t the sum (or maximum) over all continuations from there, token t included:
 *
 *   G_t = node_t (x) residual'(B_t)      B_{T-1} = final      B_{t-1} = axes'(G_t)
 *   Z   = (+) initial (x) G_0
 *
 * and every question about a sentence is a walk over G (search.h) or the forward recursion
 *
 *   F_0 = initial     F_{t+1} = axes(residual(node_t (x) F_t))     P(q, k at t) = F_t (x) G_t / Z
 *
 * Summed potentials are shifted by their largest, and rows of G and F are scaled: to a sum of one in
 * the linear domain, to a largest of zero in the log domain. In the linear domain all terms are
 * products and sums of positive numbers, so each is exact to a few last bits *unless it underflows*;
 * the processor raises a flag at an underflow. A sentence in which the flag was raised, or a finite
 * potential was taken for zero, is done again in the log domain. */
#ifndef FSTCRF_RECURSION_H
#define FSTCRF_RECURSION_H

#include <fenv.h>

#include "search.h"

#if defined(__SSE2__)
#include <immintrin.h>
#define UNDERFLOWN 0x10u
FC_INLINE void forget_underflow(void) { _mm_setcsr(_mm_getcsr() & ~UNDERFLOWN); }
FC_INLINE int underflown(void) { return (_mm_getcsr() & UNDERFLOWN) != 0; }
#else
FC_INLINE void forget_underflow(void) { feclearexcept(FE_UNDERFLOW); }
FC_INLINE int underflown(void) { return fetestexcept(FE_UNDERFLOW) != 0; }
#endif
/* Keeps the compiler from moving arithmetic across this line. */
#define SETTLE() __asm__ volatile("" ::: "memory")

/* Below this, terms of a normaliser may have been lost. */
#define FAINT 1e-250

typedef enum { DONE, NO_PATH, LOST } outcome;

/* Scales a tensor of sums: to a sum of one, or logs to a largest of zero. Returns the log of the scale,
 * -inf for an empty tensor. */
static inline double normalise(const tensor *m, semiring K, double *x) {
    if (K == MAX_PLUS) return 0.0;
    if (K == LOG_PLUS) {
        const double top = fc_max(m->full, x);
        if (top > FC_NEVER)
            for (int64_t j = 0; j < m->full; j++) x[j] -= top;
        return top;
    }
    const double sum = fc_sum(m->full, x);
    if (!(sum > 0.0)) return FC_NEVER; /* NaN as well: the caller reports weights that diverge */
    fc_scale(m->full, 1.0 / sum, x);
    return log(sum);
}

static inline int any_lost(const tensor *m) {
    SETTLE();
    return m->lost > 0 || underflown();
}

/* The (+) of the cells of m->row. */
static inline double row_total(const tensor *m, semiring K) {
    if (K == SUM_TIMES) return fc_sum(m->full, m->row);
    const double top = fc_max(m->full, m->row);
    if (K == MAX_PLUS || top == FC_NEVER) return top;
    double sum = 0.0;
    for (int64_t j = 0; j < m->full; j++) sum += fc_exp(m->row[j] - top);
    return top + log(sum);
}

/* Computes G_t from B_t, which is in m->x; returns the log of the scale. */
FC_INLINE double read_token(tensor *m, semiring K, int64_t first, int64_t t, int64_t T) {
    const int64_t token = first + t;
    if (m->plain) ask_for_row(m, first + 2 * T - 1 - t); /* of the next sentence */
    double *G = m->suffix + t * m->full, *node = m->node + (m->forgets ? 0 : t * m->plane);
    if (K == MAX_PLUS && m->plain && m->forgets) { /* read in place */
        const double *restrict value = plain_row(m, token), *restrict x = m->x;
        for (int64_t j = 0; j < m->S; j++) G[j] = x[j] + value[j];
        fc_fill(m->P - m->S, FC_NEVER, G + m->S);
        return 0.0;
    }
    double shift = load_node(m, K, token, node);
    if (m->machine->residual == NULL) {
        times_plane(m, K, m->x, node, G);
    } else {
        read_kind(m, token);
        residual_step(m, K, BACKWARD, m->x, G);
        times_plane(m, K, G, node, G);
        shift += m->edge_shift;
    }
    return shift + normalise(m, K, G);
}

/* Part of a sentence: two rows pass from block to block, G of the token after the block and F of the
 * first token. Both are passed unchanged, so the rows of a block are, bit for bit, the rows of the whole
 * sentence. Memory holds the rows between blocks and the rows of one block. */
static inline int64_t lay_out_block(tensor *m, const fc_machine *machine, int64_t n, double *work) {
    return lay_out_tensor(m, machine, n + 1, work);
}

static inline int block_ok(const fc_block *b) {
    const int known = b->kind == FC_BEST || b->kind == FC_SUM || b->kind == FC_LOGS;
    return known && b->first >= 0 && b->n >= 1 && b->t >= 0;
}

static inline int sentence_ends(const fc_block *b) { return b->after == NULL; }

static inline fc_block whole_sentence(int64_t first, int64_t T) {
    return (fc_block){.first = first, .n = T};
}

/* suffix[i] = G of the block's token i, up to the token after the block. Adds the logs of the scales to
 * *total, which at the first token of a sentence becomes log Z (MAX_PLUS: the best score). For sums, rows
 * are scaled, and node potentials are kept for the forward recursion. */
static inline outcome block_backward(tensor *m, semiring K, const fc_block *b, fc_total *total) {
    load_static(m, K);
    m->lost = m->static_lost;
    forget_underflow();
    double step = 0.0; /* of the arcs into the next token */
    if (sentence_ends(b)) {
        *total = (fc_total){m->shift, 0.0};
        spread_ends(m, K, m->final, m->ends[1], m->x);
    } else {
        memcpy(m->suffix + b->n * m->full, b->after, (size_t)m->full * sizeof *b->after);
        step = load_arcs(m, K, b->first + b->n);
        all_axes(m, K, BACKWARD, m->suffix + b->n * m->full);
    }
    for (int64_t i = b->n - 1; i >= 0; i--) {
        fc_add(total, step + read_token(m, K, b->first, i, b->n));
        if (total->sum == FC_NEVER) return K == SUM_TIMES && any_lost(m) ? LOST : NO_PATH;
        if (i == 0) break;
        step = load_arcs(m, K, b->first + i);
        all_axes(m, K, BACKWARD, m->suffix + i * m->full);
    }
    if (b->t > 0) return K == SUM_TIMES && any_lost(m) ? LOST : DONE;
    first_row(m, K, m->row);
    const double z = row_total(m, K); /* (+) initial (x) G_0 */
    if (K == SUM_TIMES && (any_lost(m) || (z > 0.0 && z < FAINT))) return LOST;
    fc_add(total, K == SUM_TIMES ? log(z) : z);
    return total->sum > FC_NEVER ? DONE : NO_PATH;
}

/* The same of a whole sentence. */
static inline outcome backward(tensor *m, semiring K, int64_t first, int64_t T, double *log_z) {
    const fc_block whole = whole_sentence(first, T);
    fc_total total;
    const outcome result = block_backward(m, K, &whole, &total);
    *log_z = result == LOST ? FC_NEVER : fc_value(total);
    return result;
}

/* Moves to token i of the block: to the best cell, or for sums to the one that u draws. Returns 0 if
 * no cell is possible: scores have changed meanwhile. */
static inline int take_step(tensor *m, semiring K, const fc_block *b, int64_t i, double u,
                            int32_t *path, int32_t *q) {
    const int begins = b->t + i == 0;
    const int64_t cells = begins ? m->full : m->plane;
    if (begins)
        first_row(m, K, m->row);
    else
        successor_row(m, K, b->first + i, path[i - 1], m->suffix + i * m->full + *q * m->plane,
                      m->row);
    const double top = K == SUM_TIMES ? 0.0 : fc_max(cells, m->row);
    for (int64_t j = 0; K == LOG_PLUS && j < cells; j++)
        m->row[j] = top > FC_NEVER ? fc_exp(m->row[j] - top) : 0.0;
    const int64_t cell = K != MAX_PLUS    ? drawn(cells, m->row, u)
                         : top > FC_NEVER ? first_equal(cells, m->row, top)
                                          : -1;
    if (cell < 0) return 0;
    const int64_t from = begins ? cell / m->plane : *q;
    const int64_t place = begins ? cell - from * m->plane : cell;
    path[i] = joint_state(m, place);
    const int64_t to = next_state(m, from, place);
    *q = to < 0 ? 0 : (int32_t)to;
    return 1;
}

/* --- Posteriors ------------------------------------------------------------------------------ */

/* Outputs for one sentence; each may be NULL except the first. */
typedef struct {
    double weight;             /* factor of all probabilities */
    double *node[FC_MAX_AXES]; /* [T][S_c] for every axis */
    double *arc[FC_MAX_AXES];  /* [T][arcs] */
    double *sum[FC_MAX_AXES];  /* [arcs] added to */
    double *entropy;           /* of the paths */
    int keeps_cells;           /* posteriors of cells replace the suffixes */
    double *begun, *ahead;     /* [T][Q][outer][S] MAX_PLUS: F (x) node, and G */
} answers;

/* m->row = F (x) G, normalised to probabilities for sums, and its norm. Returns 0 if a sum is zero or
 * lost a significant term. */
static inline int cell_posteriors(tensor *m, semiring K, const double *F, const double *G,
                                  double *norm) {
    double top = 0.0;
    for (int64_t j = 0; j < m->full; j++) m->row[j] = times(K, F[j], G[j]);
    if (K == MAX_PLUS) return 1;
    if (K == LOG_PLUS) {
        top = fc_max(m->full, m->row);
        for (int64_t j = 0; j < m->full; j++) m->row[j] = fc_exp(m->row[j] - top);
    }
    const double mass = fc_sum(m->full, m->row);
    *norm = K == LOG_PLUS ? top + log(mass) : mass;
    if (!(mass > FAINT)) return 0;
    fc_scale(m->full, 1.0 / mass, m->row);
    return 1;
}

/* Adds the cells of m->row up (or takes their maximum) over everything but one axis. */
FC_APART void project(const tensor *m, semiring K, int64_t t, const answers *out) {
    if (m->single) {
        double *restrict node = out->node[0] + t * m->S;
        for (int64_t j = 0; j < m->S; j++) node[j] = m->row[j] * out->weight;
        return;
    }
    const double zero = K == MAX_PLUS ? FC_NEVER : 0.0;
    double *last = m->best; /* [P] */
    for (int64_t c = 0; c < m->n; c++) fc_fill(m->axis[c].S, zero, out->node[c] + t * m->axis[c].S);
    fc_fill(m->P, zero, last);
    for (int64_t r = 0; r < m->Q * m->outer; r++) {
        const double *restrict x = m->row + r * m->P;
        double *restrict y = last;
        if (K == MAX_PLUS) {
            for (int64_t j = 0; j < m->P; j++) y[j] = x[j] > y[j] ? x[j] : y[j];
        } else {
            for (int64_t j = 0; j < m->P; j++) y[j] += x[j];
        }
        if (m->n == 1) continue;
        const double value = K == MAX_PLUS ? fc_max(m->P, x) : fc_sum(m->P, x);
        int64_t below = m->outer;
        for (int64_t c = 0; c + 1 < m->n; c++) {
            below /= m->axis[c].S;
            double *cell = out->node[c] + t * m->axis[c].S + r % m->outer / below % m->axis[c].S;
            *cell = K == MAX_PLUS ? (value > *cell ? value : *cell) : *cell + value;
        }
    }
    memcpy(out->node[m->n - 1] + t * m->S, last, (size_t)m->S * sizeof *last);
    for (int64_t c = 0; c < m->n && out->weight != 1.0; c++)
        fc_scale(m->axis[c].S, out->weight, out->node[c] + t * m->axis[c].S);
}

/* sum over W cells of F (x) arc (x) G for one arc of an axis, F before its step and G after it; logs
 * minus `top`, or their largest if K is MAX_PLUS. */
static inline double arc_mass(semiring K, int64_t W, double weight, double top, const double *x,
                              const double *y) {
    double sum = none(K == MAX_PLUS ? MAX_PLUS : SUM_TIMES);
    if (K == SUM_TIMES) return weight * (W == 1 ? x[0] * y[0] : fc_dot(W, x, y));
    for (int64_t l = 0; l < W; l++) {
        if (K == LOG_PLUS) sum += fc_exp(x[l] + weight + y[l] - top);
        if (K == MAX_PLUS && x[l] + weight + y[l] > sum) sum = x[l] + weight + y[l];
    }
    return sum;
}

/* out[k] (+)= the mass of each arc of an axis: probabilities, after division by their sum, or maxima of
 * scores. */
FC_APART void arc_masses(const tensor *m, semiring K, semiring loaded, const loaded_axis *a,
                         double top, const double *F, const double *G, double *restrict out) {
    const int64_t W = a->post, row = a->last ? m->P : a->S * W;
    fc_fill(a->arcs, none(K == MAX_PLUS ? MAX_PLUS : SUM_TIMES), out);
    for (int64_t r = 0; r < m->Q * a->pre; r++, F += row, G += row) {
        const int64_t context = a->axis->place == NULL ? 0 : a->axis->place[r % a->pre];
        const double *weight = a->weight + context * a->size;
        for (int64_t k = 0; k < a->arcs; k++) {
            const int64_t i = a->dense ? k / a->S : a->axis->source[k];
            const int64_t j = a->dense ? k % a->S : a->axis->target[k];
            const double w = weight[a->dense && a->last ? i * m->P + j : k];
            if (w == none(loaded)) continue;
            const double mass = arc_mass(K, W, w, top, F + i * W, G + j * W);
            out[k] = K != MAX_PLUS ? out[k] + mass : mass > out[k] ? mass : out[k];
        }
    }
}

/* The same for SUM_TIMES: F and G of all pairs of states by matrix products, times the arcs. */
FC_APART void arc_products(const tensor *m, const loaded_axis *a, const double *F, const double *G,
                           double *restrict out) {
    const int64_t S = a->S, P = fc_padded(S), W = a->post, rows = m->Q * a->pre;
    const int32_t *place = a->axis->place;
    double *C = m->cross, *turned = C + S * P;
    fc_fill(a->arcs, 0.0, out);
    for (int64_t r = 0, run; r < rows; r += run) {
        const int64_t context = place == NULL ? 0 : place[r % a->pre];
        run = a->last && place == NULL ? rows : 1;
        while (a->last && r + run < rows && place[(r + run) % a->pre] == context) run++;
        if (!a->last) turn_rows(S, W, P, 0.0, G + r * S * W, turned);
        const block b = a->last ? block_of(S, run, P, F + r * P, 1, P, G + r * P, C)
                                : block_of(S, W, P, F + r * S * W, W, 1, turned, C);
        product_sum(&b);
        const double *weight = a->weight + context * a->size;
        for (int64_t i = 0; i < S && a->dense; i++)
            for (int64_t j = 0; j < S; j++)
                out[i * S + j] += C[i * P + j] * weight[i * (a->size / S) + j];
        for (int64_t k = 0; k < a->arcs && !a->dense; k++)
            out[k] += C[a->axis->source[k] * P + a->axis->target[k]] * weight[k];
    }
}

/* Posteriors of the arcs of an axis into token t, times the weight of the sentence. */
FC_APART void axis_arcs(const tensor *m, semiring K, int64_t c, int64_t t, const double *F,
                        const double *G, const answers *out) {
    const loaded_axis *a = &m->axis[c];
    double *restrict row = out->arc[c] == NULL ? m->outer_one : out->arc[c] + t * a->arcs;
    double top = 0.0;
    if (K == LOG_PLUS) {
        arc_masses(m, MAX_PLUS, K, a, top, F, G, row);
        top = finite_or_zero(fc_largest(a->arcs, row));
    }
    if (K == SUM_TIMES && has_products(a))
        arc_products(m, a, F, G, row);
    else
        arc_masses(m, K, K, a, top, F, G, row);
    const int64_t whole = a->arcs / FC_LANES * FC_LANES;
    double sum = fc_sum(whole, row);
    for (int64_t k = whole; k < a->arcs; k++) sum += row[k];
    FC_ASSERT(!isnan(sum) || any_lost(m));
    const double by = sum > 0.0 ? out->weight / sum : 0.0;
    for (int64_t k = 0; k < a->arcs; k++) row[k] *= by;
    for (int64_t k = 0; out->sum[c] != NULL && k < a->arcs; k++) out->sum[c][k] += row[k];
}

/* --- Arcs of a single axis: when all rows are known -------------------------------------------- */

/* to += weight * P(arc into t): F of t - 1 in m->begun, G of t, arcs as loaded. */
static inline void add_arcs(const tensor *m, semiring K, int64_t t, double weight, double *to) {
    const loaded_axis *a = &m->axis[0];
    const int64_t S = m->S, P = m->P;
    const double *F = m->begun + (t - 1) * P, *G = m->suffix + t * P;
    const double norm = m->norm[t], by = weight / norm;
    for (int64_t k = 0; k < a->arcs && !a->dense; k++) {
        const double x = F[a->axis->source[k]], y = G[a->axis->target[k]];
        to[k] += K == SUM_TIMES ? by * x * a->weight[k] * y
                                : weight * fc_exp(x + a->weight[k] + y - norm);
    }
    for (int64_t i = 0; i < S && a->dense; i++) {
        const double *restrict w = a->weight + i * P;
        double *restrict out = to + i * S;
        if (K == SUM_TIMES) {
            for (int64_t j = 0; j < S; j++) out[j] += by * F[i] * w[j] * G[j];
        } else {
            for (int64_t j = 0; j < S; j++) out[j] += weight * fc_exp(F[i] + w[j] + G[j] - norm);
        }
    }
}

/* m->outer_sum += sum over tokens of weight / norm * F (x) G: all of a sentence, but for the weights of
 * the arcs. Scales m->begun. */
static inline void add_outer(tensor *m, int64_t T, double weight) {
    const loaded_axis *a = &m->axis[0];
    const int64_t P = m->P;
    for (int64_t t = 1; t < T; t++) fc_scale(P, weight / m->norm[t], m->begun + (t - 1) * P);
    if (!a->dense) {
        const int32_t *source = a->axis->source, *target = a->axis->target;
        for (int64_t t = 1; t < T; t++) {
            const double *restrict F = m->begun + (t - 1) * P, *restrict G = m->suffix + t * P;
            for (int64_t k = 0; k < a->arcs; k++) m->outer_sum[k] += F[source[k]] * G[target[k]];
        }
        return;
    }
    const block b = block_of(m->S, T - 1, P, m->begun, 1, P, m->suffix + P, m->outer_one);
    product_sum(&b);
    for (int64_t k = 0; k < a->size; k++) m->outer_sum[k] += m->outer_one[k];
}

/* sum += weights of arcs * m->outer_sum. */
static inline void collect_outer(tensor *m, double *sum) {
    const loaded_axis *a = &m->axis[0];
    load_static(m, SUM_TIMES);
    for (int64_t k = 0; k < a->arcs && !a->dense; k++) sum[k] += m->outer_sum[k] * a->weight[k];
    for (int64_t i = 0; i < m->S && a->dense; i++)
        for (int64_t j = 0; j < m->S; j++)
            sum[i * m->S + j] += m->outer_sum[i * m->P + j] * a->weight[i * m->P + j];
}

static inline void single_arcs(tensor *m, semiring K, int64_t first, int64_t T,
                               const answers *out) {
    double *arc = out->arc[0], *sum = out->sum[0];
    const int64_t arcs = m->axis[0].arcs;
    if (arc == NULL && sum == NULL) return;
    if (arc == NULL && K == SUM_TIMES && !m->axis[0].axis->moving) {
        add_outer(m, T, out->weight);
        return;
    }
    for (int64_t t = 1; t < T; t++) {
        double *row = arc == NULL ? sum : arc + t * arcs;
        load_arcs(m, K, first + t);
        if (arc != NULL) fc_fill(arcs, 0.0, row);
        add_arcs(m, K, t, out->weight, row);
        for (int64_t k = 0; arc != NULL && sum != NULL && k < arcs; k++) sum[k] += row[k];
    }
}

/* Entropy of a row of weights (LOG_PLUS: of their logs). */
static inline double row_entropy(semiring K, int64_t cells, double *row) {
    double sum = 0.0, mean = 0.0;
    if (K == LOG_PLUS) {
        const double top = finite_or_zero(fc_max(cells, row));
        for (int64_t j = 0; j < cells; j++) row[j] = fc_exp(row[j] - top);
    }
    for (int64_t j = 0; j < cells; j++) {
        sum += row[j];
        mean += row[j] > 0.0 ? row[j] * log(row[j]) : 0.0;
    }
    FC_ASSERT(!isnan(sum));
    return sum > 0.0 ? log(sum) - mean / sum : 0.0;
}

/* H(path) = H(k_0) + sum_t H(k_{t+1} | k_t): the term of token t + 1, given the posteriors of the cells
 * of token t in m->row. Costs a row a cell. */
static inline double next_entropy(tensor *m, semiring K, int64_t first, int64_t t) {
    double total = 0.0;
    load_arcs(m, K, first + t + 1);
    for (int64_t cell = 0; cell < m->full; cell++) {
        const double p = m->row[cell];
        FC_ASSERT(!isnan(p) || any_lost(m));
        if (!(p > 0.0)) continue;
        const int64_t q = next_state(m, cell / m->plane, cell % m->plane);
        if (q < 0) continue;
        successor_row(m, K, first + t + 1, joint_state(m, cell % m->plane),
                      m->suffix + (t + 1) * m->full + q * m->plane, m->y);
        total += p * row_entropy(K, m->plane, m->y);
    }
    return total;
}

/* Steps F (in m->x) into token t; on the way, posteriors of the arcs into it. */
static inline void advance(tensor *m, semiring K, int64_t first, int64_t t, const answers *out) {
    load_arcs(m, K, first + t);
    for (int64_t c = 0; c < m->n; c++) {
        if (!m->single && (out->arc[c] != NULL || out->sum[c] != NULL)) {
            const int lost = any_lost(m);
            /* G_t stepped back along the later axes: m->row */
            memcpy(m->row, m->suffix + t * m->full, (size_t)m->full * sizeof *m->row);
            for (int64_t d = m->n - 1; d > c; d--) {
                axis_step(m, K, d, BACKWARD, m->row, m->y);
                memcpy(m->row, m->y, (size_t)m->full * sizeof *m->row);
            }
            axis_arcs(m, K, c, t, m->x, m->row, out);
            SETTLE();
            if (!lost) forget_underflow(); /* in the posteriors, which are not summed again */
        }
        axis_step(m, K, c, FORWARD, m->x, m->y);
        fc_swap(&m->x, &m->y);
    }
}

/* Copies a tensor without its padding. */
static inline void copy_cells(const tensor *m, const double *x, double *out) {
    for (int64_t r = 0; r < m->Q * m->outer; r++)
        memcpy(out + r * m->S, x + r * m->P, (size_t)m->S * sizeof *out);
}

/* The forward recursion over a block whose suffixes are known: posteriors, or max-marginals. F of the
 * token after the block is written to b->before. */
FC_INLINE outcome forward(tensor *m, semiring K, const fc_block *b, const answers *out) {
    const int64_t cells = m->Q * m->outer * m->S;
    if (b->t == 0)
        spread_ends(m, K, m->initial, m->ends[0], m->x);
    else
        memcpy(m->x, b->before, (size_t)m->full * sizeof *m->x);
    if (out->entropy != NULL && b->t == 0) {
        first_row(m, K, m->row);
        *out->entropy = row_entropy(K, m->full, m->row);
    }
    for (int64_t i = 0; i < b->n; i++) {
        const int last = i + 1 == b->n && sentence_ends(b);
        if (!cell_posteriors(m, K, m->x, m->suffix + i * m->full, m->norm + i)) return LOST;
        project(m, K, i, out);
        if (out->keeps_cells)
            memcpy(m->suffix + i * m->full, m->row, (size_t)m->full * sizeof *m->row);
        if (out->ahead != NULL) copy_cells(m, m->suffix + i * m->full, out->ahead + i * cells);
        if (out->entropy != NULL && !last) *out->entropy += next_entropy(m, K, b->first, i);
        if (last && out->begun == NULL) break;
        forget_underflow(); /* an underflow in a posterior is harmless */
        times_plane(m, K, m->x, m->node + i * m->plane, m->x);
        if (out->begun != NULL) copy_cells(m, m->x, out->begun + i * cells);
        if (last) break;
        read_kind(m, b->first + i);
        move_residual(m, K);
        normalise(m, K, m->x);
        if (m->single) memcpy(m->begun + i * m->P, m->x, (size_t)m->P * sizeof *m->x);
        advance(m, K, b->first, i + 1, out);
        if (K == SUM_TIMES && any_lost(m)) return LOST;
    }
    if (!sentence_ends(b)) {
        memcpy(b->before, m->x, (size_t)m->full * sizeof *m->x);
        if (!cell_posteriors(m, K, m->x, m->suffix + b->n * m->full, m->norm + b->n)) return LOST;
    }
    if (m->single) single_arcs(m, K, b->first, b->n + !sentence_ends(b), out);
    return DONE;
}

/* --- Either domain ------------------------------------------------------------------------------ */

/* Backward sums in the domain that can represent the sentence; *K is that domain. */
static inline outcome backward_sums(tensor *m, int64_t first, int64_t T, fc_domain domain,
                                    semiring *K, double *log_z) {
    outcome result = LOST;
    *K = SUM_TIMES;
    if (domain != FC_LOG) result = backward(m, SUM_TIMES, first, T, log_z);
    if (result == LOST && domain != FC_LINEAR) {
        *K = LOG_PLUS;
        result = backward(m, LOG_PLUS, first, T, log_z);
    }
    return result;
}

static inline void fill_answers(const tensor *m, int64_t T, double value, const answers *out) {
    if (out->entropy != NULL) *out->entropy = 0.0;
    for (int64_t c = 0; c < m->n; c++) {
        fc_fill(T * m->axis[c].S, value, out->node[c]);
        if (out->arc[c] != NULL) fc_fill(T * m->axis[c].arcs, 0.0, out->arc[c]);
    }
}

/* Saves the sums of arcs before the forward pass, or restores them if the pass is lost. */
static inline void copy_sums(const tensor *m, const answers *out, int back) {
    double *kept = m->before;
    for (int64_t c = 0; c < m->n && !m->single; c++) {
        const int64_t arcs = m->axis[c].arcs;
        if (out->sum[c] == NULL) continue;
        memcpy(back ? out->sum[c] : kept, back ? kept : out->sum[c], (size_t)arcs * sizeof *kept);
        kept += arcs;
    }
}

/* log Z and posteriors of a sentence in a domain that can represent both. */
static inline outcome sentence_marginals(tensor *m, int64_t first, int64_t T, fc_domain domain,
                                         double *log_z, const answers *out) {
    semiring K;
    const fc_block whole = whole_sentence(first, T);
    outcome result = backward_sums(m, first, T, domain, &K, log_z);
    const int may_lose = domain == FC_AUTO && K == SUM_TIMES;
    if (result == DONE && may_lose) copy_sums(m, out, 0);
    if (result == DONE) result = forward(m, K, &whole, out);
    if (result == LOST && may_lose) { /* lost in the forward pass; the backward sums were linear */
        double again;                 /* log Z must equal fc_machine_log_partition to the bit */
        copy_sums(m, out, 1);
        result = backward(m, LOG_PLUS, first, T, &again);
        if (result == DONE) result = forward(m, LOG_PLUS, &whole, out);
    }
    if (result == NO_PATH) fill_answers(m, T, 0.0, out);
    return result;
}

#endif
