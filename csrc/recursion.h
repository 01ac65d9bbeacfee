/* SPDX-License-Identifier: Apache-2.0
 *
 * The recursion along a sentence. Backward, G_t holds for every residual state before token t and every
 * joint state of token t the sum (or maximum) over all ways to go on from there, token t included:
 *
 *   G_t = node_t (x) residual'(B_t)      B_{T-1} = final      B_{t-1} = axes'(G_t)
 *   Z   = (+) initial (x) G_0
 *
 * and everything that is asked of a sentence is a walk over G (search.h) or the forward recursion
 *
 *   F_0 = initial     F_{t+1} = axes(residual(node_t (x) F_t))     P(q, k at t) = F_t (x) G_t / Z
 *
 * Linear domain. Potentials are shifted by their largest, rows of G and F scaled to sum to one. All
 * terms are products and sums of positive numbers, so each is exact to a few last bits *unless it
 * underflows*, and the processor notices underflow by itself: it raises a flag. A sentence in which the
 * flag was raised, or a finite potential was taken for zero, is done again in the log domain. */
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
/* Arithmetic before this line is done before what follows it. */
#define SETTLE() __asm__ volatile("" ::: "memory")

/* Below, terms of a normaliser may have been lost. */
#define FAINT 1e-250

typedef enum { DONE, NO_PATH, LOST } outcome;

/* Scales a tensor to sum to one; returns the log of its sum, -inf for none. */
static inline double normalise(const tensor *m, double *x) {
    const double sum = fc_sum(m->full, x);
    if (!(sum > 0.0)) return FC_NEVER;
    fc_scale(m->full, 1.0 / sum, x);
    return log(sum);
}

/* Has anything been lost since the sentence began? */
static inline int any_lost(const tensor *m) {
    SETTLE();
    return m->lost > 0 || underflown();
}

/* z = (+) initial (x) G_0 */
static inline double total_score(tensor *m, semiring K) {
    first_row(m, K, m->row);
    if (K == SUM_TIMES) return fc_sum(m->full, m->row);
    const double top = fc_max(m->full, m->row);
    if (K == MAX_PLUS || top == FC_NEVER) return top;
    double sum = 0.0;
    for (int64_t j = 0; j < m->full; j++) sum += fc_exp(m->row[j] - top);
    return top + log(sum);
}

/* G_t from B_t, which lies in m->x; returns the log of what was divided out. */
static inline double read_token(tensor *m, semiring K, int64_t token, int64_t t) {
    double *G = m->suffix + t * m->full, *node = m->node + (m->forgets ? 0 : t * m->plane);
    double shift = m->shifts[t] = load_node(m, K, token, node);
    if (m->machine->residual == NULL) {
        times_plane(m, K, m->x, node, G);
    } else {
        residual_step(m, K, BACKWARD, m->x, G);
        times_plane(m, K, G, node, G);
        shift += m->edge_shift;
    }
    return m->read[t] = K == SUM_TIMES ? shift + normalise(m, G) : shift;
}

/* suffix[t] = G_t for every token, and log Z (MAX_PLUS: the best score). In the linear domain rows are
 * scaled, and node potentials are kept as the forward recursion wants them. */
static inline outcome backward(tensor *m, semiring K, int64_t first, int64_t T, double *log_z) {
    load_static(m, K);
    m->lost = m->static_lost;
    forget_underflow();
    double total = m->shift;
    spread_ends(m, K, m->final, m->ends[1], m->x);
    *log_z = FC_NEVER;
    for (int64_t t = T - 1; t >= 0; t--) {
        total += read_token(m, K, first + t, t);
        if (total == FC_NEVER) return any_lost(m) ? LOST : NO_PATH;
        if (t == 0) break;
        total += m->step[t] = load_arcs(m, K, first + t);
        all_axes(m, K, BACKWARD, m->suffix + t * m->full);
    }
    const double z = total_score(m, K);
    if (K == SUM_TIMES && (any_lost(m) || (z > 0.0 && z < FAINT))) return LOST;
    *log_z = K == SUM_TIMES ? total + log(z) : z;
    return *log_z > FC_NEVER ? DONE : NO_PATH;
}

/* --- Posteriors ------------------------------------------------------------------------------ */

/* Where the answers of one sentence go: for every axis [T][S_c], and [T][arcs] or NULL; the entropy of
 * its paths, or NULL. */
typedef struct {
    double *node[FC_MAX_AXES], *arc[FC_MAX_AXES], *entropy;
} answers;

/* m->row = F (x) G, normalised to probabilities where those are sums. 0: what a sum lost matters. */
static inline int cell_posteriors(tensor *m, semiring K, const double *G) {
    for (int64_t j = 0; j < m->full; j++) m->row[j] = times(K, m->x[j], G[j]);
    if (K == MAX_PLUS) return 1;
    if (K == LOG_PLUS) {
        const double top = fc_max(m->full, m->row); /* log Z, but for rounding */
        for (int64_t j = 0; j < m->full; j++) m->row[j] = fc_exp(m->row[j] - top);
    }
    const double mass = fc_sum(m->full, m->row);
    if (!(mass > FAINT)) return 0;
    fc_scale(m->full, 1.0 / mass, m->row);
    return 1;
}

/* Adds the cells of m->row up (or takes their maximum) over everything but one axis. */
static inline void project(const tensor *m, semiring K, int64_t t, const answers *out) {
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
}

/* sum over cells of F (x) arc (x) G for one arc of an axis, F before its step and G behind it. */
static inline double arc_mass(const tensor *m, semiring K, const loaded_axis *a, int64_t r,
                              int64_t i, int64_t j, double weight, const double *F,
                              const double *G) {
    const int64_t W = a->last ? 1 : a->post;
    const int64_t row = a->last ? m->P : a->S * a->post;
    const double *x = F + r * row + i * W, *y = G + r * row + j * W;
    double sum = 0.0;
    if (K == SUM_TIMES)
        for (int64_t l = 0; l < W; l++) sum += x[l] * y[l];
    if (K == SUM_TIMES) return sum * weight;
    for (int64_t l = 0; l < W; l++) sum += fc_exp(x[l] + weight + y[l]);
    return sum;
}

static inline void axis_arcs(const tensor *m, semiring K, const loaded_axis *a, const double *F,
                             const double *G, double log_z, double *restrict out) {
    fc_fill(a->arcs, 0.0, out);
    for (int64_t r = 0; r < m->Q * a->pre; r++) {
        const int64_t context = a->axis->place == NULL ? 0 : a->axis->place[r % a->pre];
        const double *weight = a->weight + context * a->size;
        for (int64_t k = 0; k < a->arcs; k++) {
            const int64_t i = a->dense ? k / a->S : a->axis->source[k];
            const int64_t j = a->dense ? k % a->S : a->axis->target[k];
            const double w = weight[a->dense && a->last ? i * m->P + j : k];
            if (w != none(K))
                out[k] += arc_mass(m, K, a, r, i, j, K == SUM_TIMES ? w : w - log_z, F, G);
        }
    }
    double sum = 0.0;
    for (int64_t k = 0; k < a->arcs; k++) sum += out[k];
    if (sum > 0.0)
        for (int64_t k = 0; k < a->arcs; k++) out[k] /= sum;
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
    return sum > 0.0 ? log(sum) - mean / sum : 0.0;
}

/* H(path) = H(k_0) + sum_t H(k_{t+1} | k_t): what the token behind t adds, given the posteriors of the
 * cells of token t in m->row. Costs a row a cell. */
static inline double next_entropy(tensor *m, semiring K, int64_t first, int64_t t) {
    double total = 0.0;
    load_arcs(m, K, first + t + 1);
    for (int64_t cell = 0; cell < m->full; cell++) {
        const double p = m->row[cell];
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
static inline void advance(tensor *m, semiring K, int64_t first, int64_t t, double log_z,
                           const answers *out) {
    load_arcs(m, K, first + t);
    for (int64_t c = 0; c < m->n; c++) {
        const loaded_axis *a = &m->axis[c];
        if (out->arc[c] != NULL) { /* G_t stepped back along the later axes: m->row */
            memcpy(m->row, m->suffix + t * m->full, (size_t)m->full * sizeof *m->row);
            for (int64_t d = m->n - 1; d > c; d--) {
                axis_step(m, K, d, BACKWARD, m->row, m->y);
                memcpy(m->row, m->y, (size_t)m->full * sizeof *m->row);
            }
            axis_arcs(m, K, a, m->x, m->row, log_z, out->arc[c] + t * a->arcs);
        }
        axis_step(m, K, c, FORWARD, m->x, m->y);
        double *swap = m->x;
        m->x = m->y;
        m->y = swap;
    }
}

/* The forward recursion over a sentence whose suffixes are there: posteriors, or max-marginals. */
static inline outcome forward(tensor *m, semiring K, int64_t first, int64_t T, double log_z,
                              const answers *out) {
    spread_ends(m, K, m->initial, m->ends[0], m->x);
    if (out->entropy != NULL) {
        first_row(m, K, m->row);
        *out->entropy = row_entropy(K, m->full, m->row);
    }
    for (int64_t t = 0; t < T; t++) {
        if (!cell_posteriors(m, K, m->suffix + t * m->full)) return LOST;
        project(m, K, t, out);
        if (out->entropy != NULL && t + 1 < T) *out->entropy += next_entropy(m, K, first, t);
        if (t + 1 == T) break;
        forget_underflow(); /* what a posterior loses is harmless */
        times_plane(m, K, m->x, m->node + t * m->plane, m->x);
        if (m->machine->residual != NULL) {
            residual_step(m, K, FORWARD, m->x, m->y);
            double *swap = m->x;
            m->x = m->y;
            m->y = swap;
        }
        if (K == SUM_TIMES) normalise(m, m->x);
        advance(m, K, first, t + 1, log_z, out);
        if (K == SUM_TIMES && any_lost(m)) return LOST;
    }
    return DONE;
}

/* First token at which no path is left; T - 1 where only the end is shut. Scores must be loaded. */
static inline int64_t first_dead(tensor *m, int64_t first, int64_t T) {
    load_static(m, MAX_PLUS);
    spread_ends(m, MAX_PLUS, m->initial, m->ends[0], m->x);
    for (int64_t t = 0; t < T; t++) {
        if (t > 0) {
            load_arcs(m, MAX_PLUS, first + t);
            all_axes(m, MAX_PLUS, FORWARD, m->x);
        }
        load_node(m, MAX_PLUS, first + t, m->node);
        times_plane(m, MAX_PLUS, m->x, m->node, m->x);
        if (m->machine->residual != NULL) {
            residual_step(m, MAX_PLUS, FORWARD, m->x, m->y);
            double *swap = m->x;
            m->x = m->y;
            m->y = swap;
        }
        if (fc_max(m->full, m->x) == FC_NEVER) return t;
    }
    return T - 1;
}

#endif
