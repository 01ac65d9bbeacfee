/* SPDX-License-Identifier: Apache-2.0
 *
 * FC_LANES sentences side by side, over a single axis whose arcs are the same at every token. Rows are
 * [P][FC_LANES], a lane each; sentences of a group have about the same length. The recursion and its
 * results are the same as in recursion.h, for each sentence. Sentences that linear sums cannot
 * represent are left to recursion.h, and so are few sentences whose axis has no rest (rest.h): their
 * results are the same to the bit. Best paths over a rest, their scores and max-marginals equal the
 * results of a dense axis to the bit. */
#ifndef FSTCRF_ABREAST_H
#define FSTCRF_ABREAST_H

#include "recursion.h"

typedef struct {
    int64_t most;         /* tokens of the longest sentence that is processed in a group */
    int64_t fewest;       /* sentences of a group; of a matrix, lanes in use on average */
    int matrix;           /* is_matrix */
    double *suffix;       /* [most][P][FC_LANES] */
    double *node, *begun; /* same shape: potentials, and scaled F after them */
    double *top;          /* [most][FC_LANES] the largest of each row, */
    int64_t *best;        /* ... and its first position */
    double *x, *y;        /* [P][FC_LANES] */
    double *sum;          /* [E][FC_LANES] sums of outer products along arcs */
    int64_t *order;       /* [B + longest + 2] */
} side_by_side;

/* Lane l holds sentence b[l]. */
typedef struct {
    int64_t n, longest; /* lanes in use, tokens of the first sentence */
    int64_t b[FC_LANES], first[FC_LANES], T[FC_LANES];
    fc_total total[FC_LANES]; /* log Z, or the best score */
    double weight[FC_LANES];
    int lost[FC_LANES]; /* the linear domain cannot represent it */
} group;

/* --- Groups ------------------------------------------------------------------------------------ */

/* Whether sentences of a machine with one row of potentials a token can be processed side by side. */
static inline int fixed_chain(const fc_machine *machine) {
    const fc_axis *g = machine->axis;
    const int rows = REG == 2 && g->A == 0 && g->rest == NULL; /* rows are faster */
    return is_chain(machine) && !g->moving && !rows;
}

static inline int full_chain(const fc_machine *machine) {
    const fc_factor *f = machine->factor;
    return fixed_chain(machine) && machine->factors == 1 && f->width == machine->S && f->rows == 1;
}

/* Whether an axis has an own weight for every pair, so that a step is a matrix product. */
static inline int is_matrix(const loaded_axis *a) { return a->dense && !a->full; }

/* The number of sentences for which lanes are faster than rows one by one. */
static inline int64_t fewest_lanes(const loaded_axis *a) {
    return a->full ? 1 : !a->dense ? FEW_ROWS : a->S < 16 ? 4 : 6;
}

static inline int64_t lay_out_side_by_side(side_by_side *w, const tensor *m, int64_t B,
                                           int64_t longest, double *work) {
    double *const start = work = next_line(work);
    const int64_t cells = m->P * FC_LANES;
    const int64_t room = ((int64_t)16 << 20) / (cells * (int64_t)sizeof(double)) + 1;
    const int64_t T = w->most = room < longest ? room : longest;
    w->matrix = is_matrix(m->axis);
    w->fewest = fewest_lanes(m->axis);
    w->suffix = take(&work, T * cells);
    w->node = take(&work, T * cells);
    w->begun = take(&work, T * cells);
    w->top = take(&work, T * FC_LANES);
    w->best = (int64_t *)take(&work, T * FC_LANES);
    w->x = take(&work, cells);
    w->y = take(&work, cells);
    w->sum = take(&work, m->axis[0].full ? m->axis[0].listed * FC_LANES : 0);
    w->order = (int64_t *)take(&work, B + longest + 2);
    return work - start + FC_LANES;
}

/* The group that begins at place `at` of the order; 0: a sentence too long, or with few neighbours of
 * its length. */
static inline int make_group(const side_by_side *w, int64_t B, const int64_t *offsets, int64_t at,
                             group *g) {
    g->n = B - at < FC_LANES ? B - at : FC_LANES;
    for (int64_t l = 0; l < FC_LANES; l++) {
        const int64_t b = g->b[l] = l < g->n ? w->order[at + l] : -1;
        g->first[l] = b < 0 ? 0 : offsets[b];
        g->T[l] = b < 0 ? 0 : offsets[b + 1] - offsets[b];
        g->weight[l] = 1.0;
    }
    g->longest = g->T[0];
    int64_t held = 0;
    for (int64_t l = 0; l < g->n; l++) held += w->matrix ? g->T[l] : g->longest;
    if (g->longest <= w->most && held >= w->fewest * g->longest) return 1;
    g->n = 1;
    return 0;
}

/* --- Backward ---------------------------------------------------------------------------------- */

/* Sums of lanes over S rows, in the order of fc_sum, so that scaled rows equal the rows of recursion.h
 * to the bit. */
static inline void sum_lanes(int64_t S, const double *x, double *total) {
    for (int g = 0; g < LANE_REGS; g++) {
        reg eighth[FC_LANES];
        int64_t j = 0;
        for (int k = 0; k < FC_LANES; k++) eighth[k] = (reg){0};
        for (; j + FC_LANES <= S; j += FC_LANES)
            for (int k = 0; k < FC_LANES; k++)
                eighth[k] += ((const reg *)(x + (j + k) * FC_LANES))[g];
        for (int k = 0; k < FC_LANES; k++)
            if (j + k < S) eighth[k] += ((const reg *)(x + (j + k) * FC_LANES))[g];
        ((reg *)total)[g] = ((eighth[0] + eighth[4]) + (eighth[1] + eighth[5])) +
                            ((eighth[2] + eighth[6]) + (eighth[3] + eighth[7]));
    }
}

/* The largest of each lane of S rows. */
static inline void lane_largest(int64_t S, const double *x, double *top) {
    for (int g = 0; g < LANE_REGS; g++) {
        reg most = (reg){0} + FC_NEVER;
        for (int64_t i = 0; i < S; i++) most = reg_max(most, ((const reg *)(x + i * FC_LANES))[g]);
        ((reg *)top)[g] = most;
    }
}

/* Node potentials of token t of each lane in the form of the semiring, and their shifts; w->y is
 * scratch. Lanes without the token repeat the first lane: their cells are zero (x), whatever these are. */
static inline void node_lanes(const side_by_side *w, const tensor *m, semiring K, group *g,
                              int64_t t, double *lanes, double *shifts) {
    const int64_t S = m->S, P = m->P;
    const double *row[FC_LANES] = {plain_row(m, g->first[0] + t)};
    int64_t lost[FC_LANES] = {0};
    const int few = g->n < 6; /* exponentials of rows are faster */
    for (int64_t l = 0; l < FC_LANES; l++) {
        row[l] = t < g->T[l] ? plain_row(m, g->first[l] + t) : row[0];
        if (K == MAX_PLUS || !few || t >= g->T[l]) continue;
        double *own = w->y + l * P;
        memcpy(own, row[l], (size_t)S * sizeof *own);
        fc_fill(P - S, FC_NEVER, own + S);
        shifts[l] = finite_or_zero(fc_max(P, own));
        lost[l] = exp_scores(P, shifts[l], own, own);
        row[l] = own;
    }
    rows_to_lanes(S, row, lanes);
    if (K == SUM_TIMES && !few) {
        lane_largest(S, lanes, shifts);
        for (int l = 0; l < FC_LANES; l++) shifts[l] = finite_or_zero(shifts[l]);
        for (int64_t j = 0; j < S; j++)
            for (int l = 0; l < FC_LANES; l++) {
                const double score = lanes[j * FC_LANES + l] - shifts[l];
                lost[l] += score < -700.0 && score > FC_NEVER;
                lanes[j * FC_LANES + l] = fc_exp(score);
            }
    }
    for (int64_t l = 0; l < g->n && t < g->T[l]; l++) g->lost[l] |= lost[l] > 0;
}

/* G = x (x) node, scaled to a sum of one in sum semirings. */
static inline void suffix_lanes(const tensor *m, semiring K, group *g, int64_t t, const double *x,
                                const double *node, const double *shifts, double *G) {
    const int64_t cells = m->S * FC_LANES;
    const double step = m->axis[0].shift; /* of the arcs into the next token */
    double sum[FC_LANES], by[FC_LANES];
    for (int64_t k = 0; k < cells; k++) G[k] = times(K, x[k], node[k]);
    if (K == MAX_PLUS) return;
    sum_lanes(m->S, G, sum);
    for (int64_t l = 0; l < FC_LANES; l++) {
        FC_ASSERT(!isnan(sum[l]) || g->lost[l] || any_lost(m));
        by[l] = sum[l] > 0.0 ? 1.0 / sum[l] : 0.0;
        if (l < g->n && t < g->T[l])
            fc_add(g->total + l, (t + 1 < g->T[l] ? step : 0.0) + (shifts[l] + log(sum[l])));
    }
    for (int64_t j = 0; j < m->S; j++)
        for (int64_t l = 0; l < FC_LANES; l++) G[j * FC_LANES + l] *= by[l];
}

#if defined(__GNUC__) && !defined(__clang__)
#define UNROLLED_ROWS _Pragma("GCC unroll 16")
#else
#define UNROLLED_ROWS
#endif
#define MATRIX_ROWS (REG == 8 ? 12 : 3) /* rows of y whose sums remain in registers */

/* R rows of y: two sums a row, of even and of odd i, as in row_product. */
FC_INLINE void matrix_rows(const semiring K, const int R, int64_t S, const double *s,
                           int64_t stride, const double *x, double *y) {
    reg sum[2][MATRIX_ROWS][LANE_REGS];
    const double *odd = s + stride;
    int64_t i = 0;
#define EACH_SUM() \
    UNROLLED_ROWS for (int r = 0; r < R; r++) UNROLLED_ROWS for (int g = 0; g < LANE_REGS; g++)
#define ADD(k, s, x) EACH_SUM() sum[k][r][g] = fold(K, sum[k][r][g], s[r], ((const reg *)(x))[g])
    EACH_SUM() sum[0][r][g] = sum[1][r][g] = (reg){0} + none(K);
    for (; i + 2 <= S; i += 2, s += 2 * stride, odd += 2 * stride, x += 2 * FC_LANES) {
        ADD(0, s, x);
        ADD(1, odd, x + FC_LANES);
    }
    if (i < S) ADD(0, s, x);
    EACH_SUM() {
        const reg a = sum[0][r][g], b = sum[1][r][g];
        if (K == MAX_PLUS)
            ((reg *)y)[r * LANE_REGS + g] = reg_max(a, b);
        else
            ((reg *)y)[r * LANE_REGS + g] = a + b;
    }
#undef ADD
#undef EACH_SUM
}

/* y_j = (+)_i x_i (x) M_ij in every lane. */
FC_INLINE void matrix_step_in(const semiring K, int64_t S, const double *M, int64_t stride,
                              const double *x, double *y) {
    int64_t j = 0;
#define ROWS(n) \
    for (; j + (n) <= S; j += (n)) matrix_rows(K, n, S, M + j, stride, x, y + j * FC_LANES)
    ROWS(MATRIX_ROWS);
    if (MATRIX_ROWS > 4) ROWS(4);
    ROWS(2);
    ROWS(1);
#undef ROWS
}

FC_APART void matrix_step(semiring K, int64_t S, const double *M, int64_t stride, const double *x,
                          double *y) {
    if (K == SUM_TIMES)
        matrix_step_in(SUM_TIMES, S, M, stride, x, y);
    else
        matrix_step_in(MAX_PLUS, S, M, stride, x, y);
}

/* One step along the axis: x -> y; for maxima over a rest also the largest x and its position. */
static inline void step_lanes(const tensor *m, semiring K, direction d, const double *x, double *y,
                              double *top, int64_t *best) {
    const loaded_axis *a = &m->axis[0];
    const spokes s = spokes_into(a, d == FORWARD);
    if (is_matrix(a)) {
        matrix_step(K, m->S, d == FORWARD ? a->weight : a->turned, m->P, x, y);
        return;
    }
    if (K == SUM_TIMES || !a->full) {
        listed_step(K, WHOLE, a, d, FC_LANES, a->weight, x, y, NULL);
        return;
    }
    ranking r;
    const others_list list = {a->listed_row, a->listed_lane, a->listed_value};
    lane_maxima(&s, FC_LANES, x, y, &list, &r);
    memcpy(top, r.top[0], sizeof r.top[0]);
    memcpy(best, r.place[0], sizeof r.place[0]);
}

/* (+) initial (x) G_0 of each lane, SUM_TIMES. */
static inline void end_sums(const side_by_side *w, const tensor *m, group *g) {
    double z[FC_LANES];
    for (int64_t j = 0; j < m->S; j++)
        for (int64_t l = 0; l < FC_LANES; l++)
            w->x[j * FC_LANES + l] = m->initial[j] * w->suffix[j * FC_LANES + l];
    sum_lanes(m->S, w->x, z);
    for (int64_t l = 0; l < g->n; l++) {
        g->lost[l] |= z[l] > 0.0 && z[l] < FAINT;
        fc_add(g->total + l, log(z[l]));
    }
}

/* Backward rows of a group; for sums also log Z of each lane, or that the lane is lost. `kept`: node
 * potentials of all tokens are kept. Scores are loaded. */
static inline void backward_lanes(const side_by_side *w, tensor *m, semiring K, group *g,
                                  int kept) {
    const int64_t cells = m->P * FC_LANES;
    for (int64_t l = 0; l < FC_LANES; l++) {
        g->total[l] = (fc_total){m->shift, 0.0};
        g->lost[l] = K == SUM_TIMES && m->static_lost > 0;
    }
    if (K == SUM_TIMES) forget_underflow();
    fc_fill(cells, none(K), w->x);
    double shifts[FC_LANES] = {0};
    for (int64_t t = g->longest - 1; t >= 0; t--) {
        double *G = w->suffix + t * cells, *node = w->node + (kept ? t * cells : 0);
        if (t + 1 < g->longest) {
            step_lanes(m, K, BACKWARD, G + cells, w->x, w->top + (t + 1) * FC_LANES,
                       w->best + (t + 1) * FC_LANES);
        }
        for (int64_t l = 0; l < g->n; l++)
            for (int64_t j = 0; t == g->T[l] - 1 && j < m->S; j++)
                w->x[j * FC_LANES + l] = m->final[j];
        node_lanes(w, m, K, g, t, node, shifts);
        suffix_lanes(m, K, g, t, w->x, node, shifts, G);
    }
    if (K != SUM_TIMES) return;
    end_sums(w, m, g);
    SETTLE();
    for (int64_t l = 0; l < g->n && underflown(); l++) g->lost[l] = 1;
}

/* Copies the backward rows of a lane to the layout of a tensor. */
static inline void suffix_of(const side_by_side *w, tensor *m, semiring K, int64_t l, int64_t T) {
    for (int64_t t = 0; t < T; t++) {
        const double *G = w->suffix + t * m->P * FC_LANES + l;
        double *row = m->suffix + t * m->P;
        for (int64_t j = 0; j < m->S; j++) row[j] = G[j * FC_LANES];
        fc_fill(m->P - m->S, none(K), row + m->S);
    }
}

/* --- Best paths -------------------------------------------------------------------------------- */

/* The first best state after state i, or at the beginning (i < 0), of a lane. */
static inline int64_t best_after(const side_by_side *w, const tensor *m, int64_t i, int64_t t,
                                 int64_t l, double *value) {
    const spokes s = spokes_into(&m->axis[0], 0);
    const double *x = w->suffix + t * m->P * FC_LANES + l;
    double top = FC_NEVER;
    int64_t state = -1;
    if (i >= 0) {
        for (int64_t k = s.row[i]; k < s.row[i + 1]; k++) {
            const double v = s.weight[k] + x[s.other[k] * FC_LANES];
            if (v > top) {
                top = v;
                state = s.other[k];
            }
        }
        *value = top;
        if (!m->axis[0].full || top > s.rest + w->top[t * FC_LANES + l]) return state;
    }
    top = FC_NEVER;
    state = -1;
    int64_t k = i < 0 ? 0 : s.row[i];
    const int64_t last = i < 0 ? 0 : s.row[i + 1];
    for (int64_t j = 0; j < s.S; j++) {
        double weight = i < 0 ? m->initial[j] : s.rest;
        if (k < last && s.other[k] == j) weight = s.weight[k++];
        const double v = weight + x[j * FC_LANES];
        if (v > top) {
            top = v;
            state = j;
        }
    }
    *value = top;
    return state;
}

/* Best path of a lane whose suffixes are maxima; returns its score. */
static inline double walk_lane(const side_by_side *w, const tensor *m, const group *g, int64_t l,
                               int32_t *path) {
    double score, value;
    int64_t state = best_after(w, m, -1, 0, l, &score);
    for (int64_t t = 0; t < g->T[l]; t++) {
        path[t] = (int32_t)state;
        if (t + 1 < g->T[l] && state >= 0) state = best_after(w, m, state, t + 1, l, &value);
    }
    return score;
}

/* --- Forward ----------------------------------------------------------------------------------- */

/* Posteriors (or max-marginals) of token t of each lane, F in w->x; w->y is scratch. `scale`: weights of
 * the lanes over the sums of F (x) G. */
static inline void posterior_lanes(const side_by_side *w, const tensor *m, semiring K, group *g,
                                   int64_t t, double *node, double *scale) {
    const double *G = w->suffix + t * m->P * FC_LANES;
    double mass[FC_LANES];
    for (int64_t k = 0; k < m->S * FC_LANES; k++) w->y[k] = times(K, w->x[k], G[k]);
    if (K == SUM_TIMES) {
        double by[FC_LANES];
        sum_lanes(m->S, w->y, mass);
        for (int64_t l = 0; l < FC_LANES; l++) {
            const int live = l < g->n && t < g->T[l] && g->total[l].sum > FC_NEVER;
            g->lost[l] |= live && !(mass[l] > FAINT);
            by[l] = live && mass[l] > FAINT ? 1.0 / mass[l] : 0.0;
            scale[l] = by[l] * g->weight[l];
        }
        for (int64_t j = 0; j < m->S; j++)
            for (int64_t l = 0; l < FC_LANES; l++)
                w->y[j * FC_LANES + l] = w->y[j * FC_LANES + l] * by[l] * g->weight[l];
    }
    double *row[FC_LANES];
    int64_t n = 0;
    for (; n < g->n && t < g->T[n]; n++) row[n] = node + (g->first[n] + t) * m->S;
    lanes_to_rows(m->S, n, w->y, row);
}

/* w->y: F of the next token, before the step: sums are scaled to one; finished lanes become empty. */
static inline void read_lanes_on(const side_by_side *w, const tensor *m, semiring K, const group *g,
                                 int64_t t) {
    const double *node = w->node + t * m->P * FC_LANES;
    double sum[FC_LANES], *restrict F = w->y;
    for (int64_t k = 0; k < m->S * FC_LANES; k++) F[k] = times(K, w->x[k], node[k]);
    for (int64_t l = 0; l < g->n; l++)
        for (int64_t j = 0; t + 1 == g->T[l] && j < m->S; j++) F[j * FC_LANES + l] = none(K);
    if (K == MAX_PLUS) return;
    sum_lanes(m->S, F, sum);
    for (int64_t l = 0; l < FC_LANES; l++) {
        FC_ASSERT(!isnan(sum[l]) || g->lost[l] || any_lost(m));
        sum[l] = sum[l] > 0.0 ? 1.0 / sum[l] : 0.0;
    }
    for (int64_t j = 0; j < m->S; j++)
        for (int64_t l = 0; l < FC_LANES; l++) F[j * FC_LANES + l] *= sum[l];
}

/* w->sum += scale F (x) G along the arcs into token t. */
static inline void add_lanes(const side_by_side *w, const tensor *m, int64_t t,
                             const double *scale) {
    const fc_axis *g = m->axis[0].axis;
    const int64_t cells = m->P * FC_LANES;
    double *F = w->begun + (t - 1) * cells;
    const double *G = w->suffix + t * cells;
    for (int64_t j = 0; j < m->S; j++)
        for (int64_t l = 0; l < FC_LANES; l++) F[j * FC_LANES + l] *= scale[l];
    for (int64_t i = 0; i < m->S; i++) {
        const double *restrict from = F + i * FC_LANES;
        for (int64_t k = g->row[i]; k < g->row[i + 1]; k++) {
            const double *restrict to = G + (int64_t)g->target[k] * FC_LANES;
            double *restrict sum = w->sum + k * FC_LANES;
            for (int64_t l = 0; l < FC_LANES; l++) sum[l] += from[l] * to[l];
        }
    }
}

/* The forward recursion of a group whose suffixes are known. With `arcs`, w->sum becomes the sums of
 * outer products of the group. */
static inline void forward_lanes(const side_by_side *w, tensor *m, semiring K, group *g, int arcs,
                                 double *node) {
    const int64_t cells = m->P * FC_LANES;
    double scale[FC_LANES], top[FC_LANES];
    int64_t best[FC_LANES];
    for (int64_t j = 0; j < m->S; j++)
        for (int64_t l = 0; l < FC_LANES; l++)
            w->x[j * FC_LANES + l] = l < g->n ? m->initial[j] : none(K);
    if (arcs) fc_fill(m->axis[0].listed * FC_LANES, 0.0, w->sum);
    for (int64_t t = 0; t < g->longest; t++) {
        posterior_lanes(w, m, K, g, t, node, scale);
        if (arcs && t > 0) add_lanes(w, m, t, scale);
        if (t + 1 == g->longest) break;
        if (K == SUM_TIMES) forget_underflow(); /* an underflow in a posterior is harmless */
        read_lanes_on(w, m, K, g, t);
        if (arcs) memcpy(w->begun + t * cells, w->y, (size_t)(m->S * FC_LANES) * sizeof *w->y);
        step_lanes(m, K, FORWARD, w->y, w->x, top, best);
        SETTLE();
        if (K == SUM_TIMES && underflown())
            for (int64_t l = 0; l < g->n; l++) g->lost[l] = 1;
    }
}

/* Sums over lanes times the weights of the arcs, [E], onto `sum`. */
static inline void collect_lanes(const side_by_side *w, const tensor *m, double *sum) {
    const loaded_axis *a = &m->axis[0];
    for (int64_t k = 0; k < a->listed; k++) {
        const double *x = w->sum + k * FC_LANES;
        sum[k] +=
            a->outward[k] * (((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7])));
    }
}

/* Posteriors of a group, but for lost lanes; if sums of arcs are wanted, all lanes or none are lost. */
static inline void posteriors_of_group(const side_by_side *w, tensor *m, group *g, double *node,
                                       double *sum) {
    int64_t lost = 0;
    backward_lanes(w, m, SUM_TIMES, g, 1);
    for (int64_t l = 0; l < g->n; l++) lost += g->lost[l];
    if (lost == g->n) return;
    forward_lanes(w, m, SUM_TIMES, g, sum != NULL, node);
    for (int64_t l = 0; l < g->n; l++) lost += g->lost[l];
    if (lost == 0 && sum != NULL) collect_lanes(w, m, sum);
    for (int64_t l = 0; l < g->n && lost > 0 && sum != NULL; l++) g->lost[l] = 1;
}

#endif
