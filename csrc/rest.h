/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps along an axis whose arcs are listed, by the state that they are summed in:
 *
 *   y_j = (+) over arcs of w_ij (x) x_i
 *
 * and along an axis with few arcs whose other pairs all have one weight, the rest r:
 *
 *   sums    y_j = r sum_i x_i  +  sum over arcs of (w_ij - r) x_i
 *   maxima  y_j = max(max over arcs of w_ij + x_i,  r + the largest x_i without an arc into j)
 *
 * Cells are stored in rows of W, a multiple of FC_LANES, and processed FC_LANES at a time: an arc costs
 * one multiplication, or one addition and one maximum, for a whole register. Rows of the last axis,
 * whose states are contiguous, are transposed first.
 *
 * Where w_ij < r, the two sums may cancel. A cell below CANCELLED of the first sum is summed again, without
 * a subtraction. The search for the largest x_i without an arc begins at the largest x, which usually
 * has no arc. Each lane is computed from that lane only: no result depends on its neighbours. */
#ifndef FSTCRF_REST_H
#define FSTCRF_REST_H

#include "tensor.h"

#define LANE_REGS (FC_LANES / REG)
#define CANCELLED 0x1p-10
#define RANKS 6 /* places of a row to search in lanes */
#define FAR_BELOW 600.0

/* Arcs grouped by the state that they are summed in, with an index by the state at the other end. */
typedef struct {
    int64_t S;
    double rest;
    const int64_t *row;
    const int32_t *other;        /* rising in a row */
    const int32_t *arc;          /* places of their weights; NULL: in this order */
    const double *weight, *over; /* over: weight - rest, of sums */
    const int64_t *back;
    const int32_t *reached; /* rising in a row of back */
} spokes;

static inline spokes spokes_into(const loaded_axis *a, int forward) {
    const fc_axis *g = a->axis;
    const spokes into = {.S = a->S,
                         .rest = a->rest,
                         .row = a->into,
                         .other = a->from,
                         .arc = a->full ? NULL : a->arc,
                         .weight = a->inward,
                         .over = a->inward_over,
                         .back = g->row,
                         .reached = g->target};
    const spokes out = {.S = a->S,
                        .rest = a->rest,
                        .row = g->row,
                        .other = g->target,
                        .weight = a->outward,
                        .over = a->outward_over,
                        .back = a->into,
                        .reached = a->from};
    return forward ? into : out;
}

/* The position of state i in row j; -1: not in the row. */
static inline int64_t spoke_of(const spokes *s, int64_t j, int64_t i) {
    int64_t low = s->row[j], high = s->row[j + 1];
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (s->other[mid] < i) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < s->row[j + 1] && s->other[low] == i ? low : -1;
}

/* --- Listed arcs ------------------------------------------------------------------------------- */

/* One row [S]; `sorted`: weights are in the order of the arcs. Terms are added in the order of
 * listed_lanes, so that both have the same bits. */
FC_INLINE void listed_row(const semiring K, const int sorted, const spokes *s,
                          const double *restrict x, double *restrict y) {
    for (int64_t j = 0; j < s->S; j++) {
        double sum = none(K);
        for (int64_t k = s->row[j]; k < s->row[j + 1]; k++) {
            const double v = times(K, x[s->other[k]], s->weight[sorted ? k : s->arc[k]]);
            sum = K == SUM_TIMES ? sum + v : v > sum ? v : sum;
        }
        y[j] = sum;
    }
}

/* FC_LANES lanes of rows of W. */
FC_INLINE void listed_lanes(const semiring K, const int sorted, const spokes *s, int64_t W,
                            const double *x, double *y) {
    for (int64_t j = 0; j < s->S; j++) {
        reg sum[LANE_REGS], other[LANE_REGS];
        UNROLLED for (int g = 0; g < LANE_REGS; g++) sum[g] = other[g] = (reg){0} + none(K);
        int64_t k = s->row[j];
        for (; K == MAX_PLUS && k + 1 < s->row[j + 1]; k++) { /* two chains, in any order */
            const reg *v = (const reg *)(x + s->other[k] * W);
            UNROLLED for (int g = 0; g < LANE_REGS; g++) other[g] =
                fold(K, other[g], s->weight[sorted ? k : s->arc[k]], v[g]);
            v = (const reg *)(x + s->other[++k] * W);
            UNROLLED for (int g = 0; g < LANE_REGS; g++) sum[g] =
                fold(K, sum[g], s->weight[sorted ? k : s->arc[k]], v[g]);
        }
        for (; k < s->row[j + 1]; k++) {
            const reg *v = (const reg *)(x + s->other[k] * W);
            UNROLLED for (int g = 0; g < LANE_REGS; g++) sum[g] =
                fold(K, sum[g], s->weight[sorted ? k : s->arc[k]], v[g]);
        }
        UNROLLED for (int g = 0; g < LANE_REGS; g++)((reg *)(y + j * W))[g] =
            K == MAX_PLUS ? reg_max(sum[g], other[g]) : sum[g];
    }
}

/* The same as listed_row with arcs by source, in the order of the list. */
static inline void scattered_row(semiring K, const loaded_axis *a, const double *weight,
                                 const double *restrict x, double *restrict y) {
    const int32_t *from = a->axis->source, *to = a->axis->target;
    fc_fill(a->S, none(K), y);
    for (int64_t k = 0; K == SUM_TIMES && k < a->arcs; k++) y[to[k]] += x[from[k]] * weight[k];
    for (int64_t k = 0; K != SUM_TIMES && k < a->arcs; k++) {
        const double v = x[from[k]] + weight[k];
        if (v > y[to[k]]) y[to[k]] = v;
    }
}

/* [S][W] cells from x to y; W is 1 or a multiple of FC_LANES. */
FC_INLINE void listed_cells(const semiring K, const int sorted, const spokes *s, int64_t W,
                            const double *x, double *y) {
    if (W == 1) listed_row(K, sorted, s, x, y);
    for (int64_t l = 0; l + FC_LANES <= W; l += FC_LANES)
        listed_lanes(K, sorted, s, W, x + l, y + l);
}

FC_APART void listed_step_in(semiring K, const spokes *s, int64_t W, const double *x, double *y) {
    if (K == SUM_TIMES && s->arc == NULL)
        listed_cells(SUM_TIMES, 1, s, W, x, y);
    else if (K == SUM_TIMES)
        listed_cells(SUM_TIMES, 0, s, W, x, y);
    else if (s->arc == NULL)
        listed_cells(MAX_PLUS, 1, s, W, x, y);
    else
        listed_cells(MAX_PLUS, 0, s, W, x, y);
}

/* y_j += sum over arcs of exp(x_i + w_ij - best_j) */
FC_APART void listed_exps(const spokes *s, int64_t W, const double *x, const double *best,
                          double *y) {
    for (int64_t j = 0; j < s->S; j++, best += W, y += W)
        for (int64_t k = s->row[j]; k < s->row[j + 1]; k++) {
            const double w = s->weight[s->arc == NULL ? k : s->arc[k]], *in = x + s->other[k] * W;
            for (int64_t l = 0; l < W; l++) y[l] += fc_exp(in[l] + w - best[l]);
        }
}

/* --- The largest cells of lanes ---------------------------------------------------------------- */

/* The next largest of each lane after (top, best), the first of equal ones. */
static inline void next_rank(int64_t S, int64_t W, const double *x, const double *top,
                             const int64_t *best, double *next, int64_t *at) {
    for (int g = 0; g < LANE_REGS; g++) {
        const reg limit = ((const reg *)top)[g];
        const reg_mask behind = ((const reg_mask *)best)[g];
        reg most = (reg){0} + FC_NEVER;
        reg_mask where = (reg_mask){0} - 1, place = (reg_mask){0};
        for (int64_t i = 0; i < S; i++, place += 1) {
            const reg v = ((const reg *)(x + i * W))[g];
            const reg_mask open = (v < limit) | ((v == limit) & (place > behind));
            const reg_mask better = open & (v > most);
            most = (reg)(((reg_mask)v & better) | ((reg_mask)most & ~better));
            where = (place & better) | (where & ~better);
        }
        ((reg *)next)[g] = most;
        ((reg_mask *)at)[g] = where;
    }
}

/* The largest of each lane, and its first position; -1: all are -inf. */
static inline void first_rank(int64_t S, int64_t W, const double *x, double *top, int64_t *at) {
    for (int g = 0; g < LANE_REGS; g++) {
        reg most = (reg){0} + FC_NEVER;
        reg_mask where = (reg_mask){0} - 1, place = (reg_mask){0};
        for (int64_t i = 0; i < S; i++, place += 1) {
            const reg v = ((const reg *)(x + i * W))[g];
            const reg_mask better = v > most;
            most = reg_max(most, v);
            where = (place & better) | (where & ~better);
        }
        ((reg *)top)[g] = most;
        ((reg_mask *)at)[g] = where;
    }
}

/* The first few places of each lane, computed on demand. */
typedef struct {
    int64_t known;
    double top[RANKS][FC_LANES];
    int64_t place[RANKS][FC_LANES];
} ranking;

FC_APART void rank_next(ranking *r, int64_t S, int64_t W, const double *x) {
    const int64_t k = r->known++;
    if (k == 0) {
        first_rank(S, W, x, r->top[0], r->place[0]);
    } else {
        next_rank(S, W, x, r->top[k - 1], r->place[k - 1], r->top[k], r->place[k]);
    }
}

/* --- Sums -------------------------------------------------------------------------------------- */

/* All cells of a row without a subtraction. */
static inline void plain_cells(const spokes *s, int64_t j, int64_t W, const double *x, double *y) {
    reg listed[LANE_REGS] = {{0}}, others[LANE_REGS] = {{0}};
    int64_t i = 0;
    for (int64_t k = s->row[j]; k <= s->row[j + 1]; k++) {
        const int last = k == s->row[j + 1];
        const int64_t to = last ? s->S : s->other[k];
        for (; i < to; i++)
            for (int g = 0; g < LANE_REGS; g++) others[g] += ((const reg *)(x + i * W))[g];
        for (int g = 0; g < LANE_REGS && !last; g++)
            listed[g] += s->weight[k] * ((const reg *)(x + i * W))[g];
        i++;
    }
    for (int g = 0; g < LANE_REGS; g++) ((reg *)y)[g] = listed[g] + s->rest * others[g];
}

/* Sums the cancelled cells of row j again. */
FC_APART void sum_again(const spokes *s, int64_t j, int64_t W, const double *x, const double *floor,
                        double *y) {
    double plain[FC_LANES];
    plain_cells(s, j, W, x, plain);
    for (int64_t l = 0; l < FC_LANES; l++) y[l] = y[l] < floor[l] ? plain[l] : y[l];
}

static inline void lane_totals(int64_t S, int64_t W, const double *x, double *total) {
    for (int g = 0; g < LANE_REGS; g++) {
        reg even = {0}, odd = {0};
        int64_t i = 0;
        for (; i + 2 <= S; i += 2) {
            even += ((const reg *)(x + i * W))[g];
            odd += ((const reg *)(x + (i + 1) * W))[g];
        }
        if (i < S) even += ((const reg *)(x + i * W))[g];
        ((reg *)total)[g] = even + odd;
    }
}

/* y = r total + sum of (w - r) x of row j. */
FC_INLINE void row_sums(const spokes *s, int64_t j, int64_t W, const double *x, const reg *base,
                        reg *y) {
    reg even[LANE_REGS], odd[LANE_REGS];
    UNROLLED for (int g = 0; g < LANE_REGS; g++) {
        even[g] = base[g];
        odd[g] = (reg){0};
    }
    const int64_t last = s->row[j + 1];
    int64_t k = s->row[j];
    for (; k + 2 <= last; k += 2) {
        const reg *u = (const reg *)(x + s->other[k] * W),
                  *v = (const reg *)(x + s->other[k + 1] * W);
        UNROLLED for (int g = 0; g < LANE_REGS; g++) {
            even[g] += s->over[k] * u[g];
            odd[g] += s->over[k + 1] * v[g];
        }
    }
    if (k < last) {
        const reg *u = (const reg *)(x + s->other[k] * W);
        UNROLLED for (int g = 0; g < LANE_REGS; g++) even[g] += s->over[k] * u[g];
    }
    UNROLLED for (int g = 0; g < LANE_REGS; g++) y[g] = even[g] + odd[g];
}

static inline void lane_sums(const spokes *s, int64_t W, const double *x, double *y) {
    double total[FC_LANES], floor[FC_LANES];
    reg base[LANE_REGS], least[LANE_REGS], cell[LANE_REGS];
    lane_totals(s->S, W, x, total);
    for (int g = 0; g < LANE_REGS; g++) {
        base[g] = s->rest * ((const reg *)total)[g];
        least[g] = CANCELLED * base[g];
        ((reg *)floor)[g] = least[g];
    }
    for (int64_t j = 0; j < s->S; j++) {
        uint64_t low = 0;
        row_sums(s, j, W, x, base, cell);
        UNROLLED for (int g = 0; g < LANE_REGS; g++) {
            ((reg *)(y + j * W))[g] = cell[g];
            low |= reg_below(cell[g], least[g]);
        }
        if (low) sum_again(s, j, W, x, floor, y + j * W);
    }
}

FC_APART void rest_sums(const spokes *s, int64_t W, const double *x, double *y) {
    for (int64_t l = 0; l < W; l += FC_LANES) lane_sums(s, W, x + l, y + l);
}

/* --- Maxima ------------------------------------------------------------------------------------ */

/* Cells for which the other pairs' maximum is not the largest of their lane, and their maxima. */
typedef struct {
    int32_t *row, *lane; /* [S * FC_LANES] */
    double *value;
} others_list;

/* The largest x_i without an arc into j, or -inf. */
FC_APART double largest_other(const spokes *s, int64_t j, int64_t W, const double *x) {
    double top = FC_NEVER;
    int64_t i = 0;
    for (int64_t k = s->row[j]; k < s->row[j + 1]; k++, i++)
        for (; i < s->other[k]; i++) top = x[i * W] > top ? x[i * W] : top;
    for (; i < s->S; i++) top = x[i * W] > top ? x[i * W] : top;
    return top;
}

/* Cells whose largest x has an arc worse than the rest: returns their number. */
static inline int64_t other_maxima(const spokes *s, int64_t W, const double *x, ranking *r,
                                   const double *y, const others_list *list) {
    int64_t n = 0;
    for (int64_t l = 0; l < FC_LANES; l++) {
        const int64_t best = r->place[0][l];
        const double top = r->top[0][l] + s->rest;
        if (best < 0) continue;
        for (int64_t e = s->back[best]; e < s->back[best + 1]; e++) {
            const int64_t j = s->reached[e];
            const double listed = y[j * W + l];
            if (!(listed < top)) continue;
            double other = FC_NEVER;
            int64_t k = 1;
            for (; k < RANKS; k++) {
                if (k == r->known) rank_next(r, s->S, W, x);
                other = r->top[k][l] + s->rest;
                if (r->place[k][l] < 0 || listed >= other || spoke_of(s, j, r->place[k][l]) < 0)
                    break;
            }
            if (k == RANKS) other = largest_other(s, j, W, x + l) + s->rest;
            list->row[n] = (int32_t)j;
            list->lane[n] = (int32_t)l;
            list->value[n++] = other > listed ? other : listed;
        }
    }
    return n;
}

/* FC_LANES lanes; r: the largest cells of x. */
static inline void lane_maxima(const spokes *s, int64_t W, const double *x, double *y,
                               const others_list *list, ranking *r) {
    r->known = 0;
    rank_next(r, s->S, W, x);
    listed_lanes(MAX_PLUS, 1, s, W, x, y);
    const int64_t n = other_maxima(s, W, x, r, y, list);
    reg other[LANE_REGS];
    UNROLLED for (int g = 0; g < LANE_REGS; g++) other[g] = ((const reg *)r->top[0])[g] + s->rest;
    for (int64_t j = 0; j < s->S; j++) {
        reg *cell = (reg *)(y + j * W);
        UNROLLED for (int g = 0; g < LANE_REGS; g++) cell[g] = reg_max(cell[g], other[g]);
    }
    for (int64_t k = 0; k < n; k++) y[list->row[k] * W + list->lane[k]] = list->value[k];
}

FC_APART void rest_maxima(const spokes *s, int64_t W, const double *x, double *y,
                          const others_list *list) {
    ranking r;
    for (int64_t l = 0; l < W; l += FC_LANES) lane_maxima(s, W, x + l, y + l, list, &r);
}

/* --- Logs -------------------------------------------------------------------------------------- */

/* sum of exp(x_i + w - best_j) over all pairs of a cell */
FC_APART double plain_exps(const spokes *s, int64_t j, int64_t W, const double *x, double less) {
    double sum = 0.0;
    int64_t k = s->row[j];
    for (int64_t i = 0; i < s->S; i++) {
        const int listed = k < s->row[j + 1] && s->other[k] == i;
        const double w = listed ? s->weight[k] : s->rest;
        k += listed;
        if (x[i * W] > FC_NEVER) sum += fc_exp(x[i * W] + w - less);
    }
    return sum;
}

/* FC_LANES lanes; e [S][FC_LANES] = exp(x - top). */
static inline void lane_exps(const spokes *s, int64_t W, const double *x, const double *best,
                             double *y, double *e) {
    double top[FC_LANES], total[FC_LANES];
    int64_t place[FC_LANES];
    first_rank(s->S, W, x, top, place);
    for (int64_t l = 0; l < FC_LANES; l++) top[l] = finite_or_zero(top[l]);
    for (int64_t i = 0; i < s->S; i++)
        for (int64_t l = 0; l < FC_LANES; l++) e[i * FC_LANES + l] = fc_exp(x[i * W + l] - top[l]);
    lane_totals(s->S, FC_LANES, e, total);
    for (int64_t j = 0; j < s->S; j++) {
        double listed[FC_LANES] = {0}, taken[FC_LANES] = {0};
        const double *less = best + j * W;
        for (int64_t k = s->row[j]; k < s->row[j + 1]; k++) {
            const int64_t i = s->other[k];
            for (int64_t l = 0; l < FC_LANES; l++) {
                listed[l] += fc_exp(x[i * W + l] + s->weight[k] - less[l]);
                taken[l] += e[i * FC_LANES + l];
            }
        }
        for (int64_t l = 0; l < FC_LANES; l++) {
            const double others = total[l] - taken[l], by = s->rest + top[l] - less[l];
            y[j * W + l] += others < CANCELLED * total[l] || by > FAR_BELOW
                                ? plain_exps(s, j, W, x + l, less[l])
                                : listed[l] + others * fc_exp(by);
        }
    }
}

/* y_j += sum_i exp(x_i + w - best_j) over all pairs; e [S][FC_LANES] is scratch. */
FC_APART void rest_exps(const spokes *s, int64_t W, const double *x, const double *best, double *y,
                        double *e) {
    for (int64_t l = 0; l < W; l += FC_LANES) lane_exps(s, W, x + l, best + l, y + l, e);
}

/* --- Rows turned into lanes -------------------------------------------------------------------- */

typedef double four __attribute__((vector_size(32), aligned(8), may_alias));

FC_INLINE void turn_four(four a, four b, four c, four d, double *to, double *to_b, double *to_c,
                         double *to_d) {
    const four ab = __builtin_shufflevector(a, b, 0, 4, 2, 6),
               AB = __builtin_shufflevector(a, b, 1, 5, 3, 7),
               cd = __builtin_shufflevector(c, d, 0, 4, 2, 6),
               CD = __builtin_shufflevector(c, d, 1, 5, 3, 7);
    *(four *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(four *)to_b = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
    *(four *)to_c = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(four *)to_d = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
}

/* n rows of P numbers, a multiple of 4, as [P][L]; columns beyond n are `none`. */
static inline void turn_rows(int64_t n, int64_t P, int64_t L, double none, const double *rows,
                             double *lanes) {
    const four empty = (four){0} + none;
    for (int64_t l = 0; l < L; l += 4) {
        const double *row = rows + l * P;
        double *to = lanes + l;
        for (int64_t j = 0; j < P; j += 4, to += 4 * L)
            turn_four(l < n ? *(const four *)(row + j) : empty,
                      l + 1 < n ? *(const four *)(row + P + j) : empty,
                      l + 2 < n ? *(const four *)(row + 2 * P + j) : empty,
                      l + 3 < n ? *(const four *)(row + 3 * P + j) : empty, to, to + L, to + 2 * L,
                      to + 3 * L);
    }
}

/* A row of S numbers for each lane, as [S][FC_LANES]. */
static inline void rows_to_lanes(int64_t S, const double *const *row, double *lanes) {
    int64_t j = 0;
    for (; j + 4 <= S; j += 4)
        for (int l = 0; l < FC_LANES; l += 4) {
            double *to = lanes + j * FC_LANES + l;
            turn_four(*(const four *)(row[l] + j), *(const four *)(row[l + 1] + j),
                      *(const four *)(row[l + 2] + j), *(const four *)(row[l + 3] + j), to,
                      to + FC_LANES, to + 2 * FC_LANES, to + 3 * FC_LANES);
        }
    for (; j < S; j++)
        for (int l = 0; l < FC_LANES; l++) lanes[j * FC_LANES + l] = row[l][j];
}

/* The first n lanes back to their rows. */
static inline void lanes_to_rows(int64_t S, int64_t n, const double *lanes, double *const *row) {
    for (int64_t l = 0; l < n; l += 4) {
        const double *from = lanes + l;
        int64_t j = 0;
        for (; j + 4 <= S && l + 4 <= n; j += 4, from += 4 * FC_LANES)
            turn_four(*(const four *)from, *(const four *)(from + FC_LANES),
                      *(const four *)(from + 2 * FC_LANES), *(const four *)(from + 3 * FC_LANES),
                      row[l] + j, row[l + 1] + j, row[l + 2] + j, row[l + 3] + j);
        for (; j < S; j++, from += FC_LANES)
            for (int64_t k = l; k < n && k < l + 4; k++) row[k][j] = from[k - l];
    }
}

#endif
