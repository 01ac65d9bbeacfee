/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a tensor. Between two tokens it is advanced axis by axis; at a token the potentials of
 * the joint states are multiplied in and the residual automaton reads the labels. Elimination of one
 * axis at a time is exact because the arcs of an axis see the present states of earlier axes only:
 *
 *   forward   x[.., i, ..] -> y[.., j, ..] = (+)_i x[.., i, ..] (x) arc_c[i -> j]     c = 0, 1, ...
 *   backward  the same with the ends of the arcs exchanged                            c = ..., 1, 0
 *
 * In FST terms the tapes are interleaved, and only one of them moves at each step.
 *
 * Rows that cannot win. In the maxima of two tapes, one label of the first tape may lead another by
 * more than any arc can recover, whatever the second tape does. The smallest lead of one label's arcs
 * over the other's is a table, computed once; the largest lead of one row over the other costs a few
 * subtractions. Pruned rows take part in neither axis' step; the maxima, and hence all results, are the
 * same. Sums are not pruned. We did not build a bound for whole paths from the taggers' max-marginals
 * and a known path: its slack adds up over the sentence.
 */
#ifndef FSTCRF_ADVANCE_H
#define FSTCRF_ADVANCE_H

#include "rest.h"

typedef enum { FORWARD = 0, BACKWARD = 1 } direction;

FC_APART void product_max(const block *b) { product(MAX_PLUS, b); }
FC_APART void product_sum(const block *b) { product(SUM_TIMES, b); }

FC_APART void row_max(int64_t n, int64_t lanes, const double *s, const double *V, double *C) {
    row_product(MAX_PLUS, n, lanes, s, 1, V, lanes, C);
}
FC_APART void row_sum(int64_t n, int64_t lanes, const double *s, const double *V, double *C) {
    row_product(SUM_TIMES, n, lanes, s, 1, V, lanes, C);
}

typedef enum { WHOLE, SHIFTED } part; /* LOG_PLUS: SHIFTED adds exp(. - best) to the output. */

/* One axis whose arcs are listed: [S][W] cells from x to y, W a multiple of FC_LANES; 1 if there is no
 * rest. `weight`: the table of its arcs, if there is no rest. */
FC_APART void listed_step(semiring K, part p, const loaded_axis *a, direction d, int64_t W,
                          const double *weight, const double *x, double *y, const double *best) {
    spokes s = spokes_into(a, d == FORWARD);
    if (!a->full) s.weight = weight;
    if (d == FORWARD && !a->indexed)
        scattered_row(K, a, weight, x, y); /* of a short sentence */
    else if (p == SHIFTED && a->full)
        rest_exps(&s, W, x, best, y, a->listed_value);
    else if (p == SHIFTED)
        listed_exps(&s, W, x, best, y);
    else if (!a->full)
        listed_step_in(K, &s, W, x, y);
    else if (K == SUM_TIMES)
        rest_sums(&s, W, x, y);
    else
        rest_maxima(&s, W, x, y, &(others_list){a->listed_row, a->listed_lane, a->listed_value});
}

#define FEW_ROWS 3 /* fewer rows are faster one by one */

/* The same for the rows of a last axis, whose states are contiguous. */
FC_APART void listed_rows(semiring K, part p, const loaded_axis *a, direction d, int64_t P,
                          int64_t rows, const double *weight, const double *x, double *y,
                          const double *best) {
    double *in = a->lanes[0], *out = a->lanes[1], *less = a->lanes[2];
    for (int64_t r = 0, n; r < rows; r += n) {
        n = rows - r < FC_LANES ? rows - r : FC_LANES;
        if (!a->full && n < FEW_ROWS) {
            n = 1;
            listed_step(K, p, a, d, 1, weight, x + r * P, y + r * P, best + r * P);
        } else {
            turn_rows(n, P, FC_LANES, none(K), x + r * P, in);
            if (p == SHIFTED) {
                turn_rows(n, P, FC_LANES, 0.0, best + r * P, less);
                turn_rows(n, P, FC_LANES, 0.0, y + r * P, out);
            }
            listed_step(K, p, a, d, FC_LANES, weight, in, out, less);
            double *row[FC_LANES];
            for (int64_t k = 0; k < n; k++) row[k] = y + (r + k) * P;
            lanes_to_rows(P, n, out, row);
        }
        if (p == WHOLE)
            for (int64_t k = r; k < r + n; k++) fc_fill(P - a->S, none(K), y + k * P + a->S);
    }
}

static inline void run_block(semiring K, part p, const block *b, const double *best) {
    if (p == SHIFTED) {
        product_exp(b, best);
    } else if (K == SUM_TIMES) {
        product_sum(b);
    } else {
        product_max(b);
    }
}

/* Rows of the last axis that share a table: all of them, or runs of equal context. */
static inline void last_step(semiring K, part p, const tensor *m, const loaded_axis *a, direction d,
                             const double *x, double *y, const double *best) {
    const int32_t *place = a->axis->place;
    const int64_t P = m->P, rows = m->Q * m->outer;
    for (int64_t r = 0, run; r < rows; r += run) {
        const int64_t context = place == NULL ? 0 : place[r % m->outer];
        run = place == NULL ? rows : 1;
        while (r + run < rows && place != NULL && place[(r + run) % m->outer] == context) run++;
        if (!a->dense || a->full) {
            listed_rows(K, p, a, d, P, run, a->weight + context * a->size, x + r * P, y + r * P,
                        best + r * P);
            continue;
        }
        const block b =
            block_of(run, a->S, P, x + r * P, P, 1,
                     (d == FORWARD ? a->weight : a->turned) + context * a->size, y + r * P);
        run_block(K, p, &b, best + r * P);
    }
}

static inline void inner_step(semiring K, part p, const tensor *m, const loaded_axis *a,
                              direction d, const double *x, double *y, const double *best) {
    const int64_t cells = a->S * a->post;
    for (int64_t r = 0; r < m->Q * a->pre; r++) {
        const int64_t context = a->axis->place == NULL ? 0 : a->axis->place[r % a->pre];
        const double *M = a->weight + context * a->size;
        if (!a->dense || a->full) {
            listed_step(K, p, a, d, a->post, M, x + r * cells, y + r * cells, best + r * cells);
            continue;
        }
        const block b = block_of(a->S, a->S, a->post, M, d == FORWARD ? 1 : a->S,
                                 d == FORWARD ? a->S : 1, x + r * cells, y + r * cells);
        run_block(K, p, &b, best + r * cells);
    }
}

FC_APART void any_step(semiring K, part p, const tensor *m, const loaded_axis *a, direction d,
                       const double *x, double *y, const double *best) {
    if (a->last) {
        last_step(K, p, m, a, d, x, y, best);
    } else {
        inner_step(K, p, m, a, d, x, y, best);
    }
}

/* A maximum to subtract before exp: 0 if everything is forbidden. */
static inline void clear_never(int64_t n, double *best) {
    for (int64_t j = 0; j < n; j++) best[j] = best[j] > FC_NEVER ? best[j] : 0.0;
}

/* y = best + log y */
static inline void finish_log(int64_t n, const double *best, double *y) {
    for (int64_t j = 0; j < n; j++) {
        FC_ASSERT(!isnan(y[j]));
        y[j] = y[j] > 0.0 ? best[j] + log(y[j]) : FC_NEVER;
    }
}

FC_INLINE void axis_step(tensor *m, semiring K, int64_t c, direction d, const double *x,
                         double *y) {
    const loaded_axis *a = &m->axis[c];
    if (K != LOG_PLUS && m->single && a->dense && !a->full) {
        (K == SUM_TIMES ? row_sum : row_max)(m->S, m->P, x, d == FORWARD ? a->weight : a->turned,
                                             y);
        return;
    }
    if (K != LOG_PLUS) {
        any_step(K, WHOLE, m, a, d, x, y, x);
        return;
    }
    any_step(MAX_PLUS, WHOLE, m, a, d, x, m->best, x);
    clear_never(m->full, m->best);
    fc_fill(m->full, 0.0, y);
    any_step(LOG_PLUS, SHIFTED, m, a, d, x, y, m->best);
    finish_log(m->full, m->best, y);
}

static inline void pruned_axes(tensor *m, const double *x);

/* Steps all axes; the result is in m->x, which `x` may be. */
FC_INLINE void all_axes(tensor *m, semiring K, direction d, const double *x) {
    /* If few rows are pruned, the test costs more than it saves. */
    const int pays = m->pruned && (m->asked < 8 * m->axis[0].S || 2 * m->out > m->asked);
    if (pays && K == MAX_PLUS && d == BACKWARD && x != m->x) {
        pruned_axes(m, x);
        return;
    }
    for (int64_t k = 0; k < m->n; k++) {
        axis_step(m, K, d == FORWARD ? k : m->n - 1 - k, d, x, m->y);
        fc_swap(&m->x, &m->y);
        x = m->x;
    }
}

/* --- Two axes, backward, maxima only -----------------------------------------------------------
 *
 * Most labels of a token trail the best one by more than any arc can recover. Row j of the tensor (a
 * state of the first axis) can be skipped without changing the result if some row i beats it whatever
 * the previous state and whatever the second axis does:
 *
 *   max_l (x[j][l] - x[i][l])  <=  min_h (arc[h -> i] - arc[h -> j])
 *
 * The left side also bounds the difference after the step of the second axis, so pruned rows take part
 * in neither step. */

/* Largest lead of row x over row y; cells that are forbidden in both do not count. */
static inline double largest_lead(int64_t P, const double *restrict x, const double *restrict y) {
    double lane[FC_LANES];
    for (int l = 0; l < FC_LANES; l++) lane[l] = FC_NEVER;
    for (int64_t j = 0; j < P; j += FC_LANES)
        for (int l = 0; l < FC_LANES; l++) {
            const double by = x[j + l] - y[j + l];
            lane[l] = by > lane[l] ? by : lane[l];
        }
    double best = lane[0];
    for (int l = 1; l < FC_LANES; l++) best = lane[l] > best ? lane[l] : best;
    return best;
}

/* Copies the rows of x [S][P] that may win to y. Their number and their states are kept[0], kept[1 ..]. */
static inline int64_t keep_rows(tensor *m, const double *x, double *y, int32_t *kept) {
    const loaded_axis *a = &m->axis[0];
    const int64_t S = a->S, P = m->P;
    int64_t top = 0, rows = 0;
    double most = FC_NEVER;
    for (int64_t i = 0; i < S; i++) {
        const double here = fc_max(P, x + i * P);
        if (here > most) {
            most = here;
            top = i;
        }
    }
    kept[0] = 0;
    if (most == FC_NEVER) return 0;
    const double slack = 1e-9 + 1e-12 * fabs(most); /* sums have rounding errors */
    for (int64_t j = 0; j < S; j++) {
        const double *row = x + j * P;
        if (j != top && largest_lead(P, row, x + top * P) + slack <= m->lead_by[top * S + j])
            continue;
        memcpy(y + rows * P, row, (size_t)P * sizeof *y);
        kept[++rows] = (int32_t)j;
    }
    m->asked += S;
    m->out += S - rows;
    kept[0] = (int32_t)rows;
    return rows;
}

/* Steps both axes backward: x -> m->x, which `x` may not be. The last axis is stepped for the rows of all
 * residual states at once. */
static inline void pruned_axes(tensor *m, const double *x) {
    const loaded_axis *one = &m->axis[0], *two = &m->axis[1];
    const int64_t S = one->S, P = m->P;
    int64_t rows = 0, done = 0;
    for (int64_t q = 0; q < m->Q; q++)
        rows += keep_rows(m, x + q * m->plane, m->y + rows * P, m->kept + q * (S + 1));
    if (two->full) {
        listed_rows(MAX_PLUS, WHOLE, two, BACKWARD, P, rows, NULL, m->y, m->best, m->y);
    } else {
        const block last = block_of(rows, m->S, P, m->y, P, 1, two->turned, m->best);
        product_max(&last);
    }
    for (int64_t q = 0; q < m->Q; q++) {
        const int32_t *kept = m->kept + q * (S + 1);
        const int64_t n = kept[0];
        for (int64_t i = 0; i < S; i++) /* the arcs into the kept states */
            for (int64_t k = 0; k < n; k++)
                m->columns[i * n + k] = one->weight[i * S + kept[k + 1]];
        const block first =
            block_of(S, n, P, m->columns, n, 1, m->best + done * P, m->x + q * m->plane);
        product_max(&first);
        done += n;
    }
}

/* y (+)= x (x) edge over one plane. */
static inline void along_edge(semiring K, part p, const tensor *m, int64_t e,
                              const double *restrict x, double *restrict y, const double *best) {
    const fc_residual *r = m->machine->residual;
    const int64_t P = m->P, width = r->width == 1 ? 1 : P;
    const double *values = m->edge + e * r->rows * width;
    for (int64_t o = 0; o < m->outer; o++, x += P, y += P) {
        const double *w = values + (r->place == NULL ? 0 : r->place[o]) * width;
        const int64_t step = width > 1;
        if (step == 0 && w[0] == none(K)) continue;
        for (int64_t j = 0; j < P; j++) {
            const double c = times(K, x[j], w[j * step]);
            if (p == SHIFTED) {
                y[j] += fc_exp(c - best[o * P + j]);
            } else if (K == SUM_TIMES) {
                y[j] += c;
            } else {
                y[j] = c > y[j] ? c : y[j];
            }
        }
    }
}

static inline void all_edges(semiring K, part p, const tensor *m, direction d, const double *x,
                             double *y, const double *best) {
    const fc_residual *r = m->machine->residual;
    fc_fill(m->full, p == SHIFTED ? 0.0 : none(K), y);
    for (int64_t e = 0; e < r->E; e++) {
        const int64_t from = (d == FORWARD ? r->source : r->target)[e] * m->plane;
        const int64_t to = (d == FORWARD ? r->target : r->source)[e] * m->plane;
        if (K == SUM_TIMES) {
            along_edge(SUM_TIMES, WHOLE, m, e, x + from, y + to, best);
        } else if (p == WHOLE) {
            along_edge(MAX_PLUS, WHOLE, m, e, x + from, y + to, best);
        } else {
            along_edge(LOG_PLUS, SHIFTED, m, e, x + from, y + to, best + to);
        }
    }
}

/* The same for an automaton with kinds of tokens, of which a cell has one edge. */
FC_INLINE void read_cells(const semiring K, const tensor *m, direction d, const double *x,
                          double *y) {
    const fc_residual *r = m->machine->residual;
    const int64_t P = m->P, S = m->S;
    fc_fill(m->full, none(K), y);
    for (int64_t q = 0; q < m->Q; q++) {
        const int64_t row = q * r->rows + m->kind;
        const double *w = m->edge + row * P;
        const int32_t *to = r->reached + row * S;
        if (d == FORWARD && fc_max(P, x + q * P) == none(K)) continue;
        for (int64_t s = 0; s < S; s++) {
            if (to[s] < 0) continue;
            const int64_t here = q * P + s, there = to[s] * P + s;
            if (d == BACKWARD) {
                y[here] = times(K, x[there], w[s]);
            } else {
                const double value = times(K, x[here], w[s]);
                y[there] = K == SUM_TIMES ? y[there] + value : log_add(y[there], value);
            }
        }
    }
}

/* The residual automaton reads the labels of a token: x -> y. The machine must have one. */
static inline void residual_step(tensor *m, semiring K, direction d, const double *x, double *y) {
    if (m->machine->residual->kind != NULL) {
        if (K == SUM_TIMES)
            read_cells(SUM_TIMES, m, d, x, y);
        else
            read_cells(LOG_PLUS, m, d, x, y);
        return;
    }
    if (K != LOG_PLUS) {
        all_edges(K, WHOLE, m, d, x, y, x);
        return;
    }
    all_edges(MAX_PLUS, WHOLE, m, d, x, m->best, x);
    clear_never(m->full, m->best);
    all_edges(LOG_PLUS, SHIFTED, m, d, x, y, m->best);
    finish_log(m->full, m->best, y);
}

/* Moves m->x past the token that its cells have read; without an automaton this is a no-op. */
static inline void move_residual(tensor *m, semiring K) {
    if (m->machine->residual == NULL) return;
    residual_step(m, K, FORWARD, m->x, m->y);
    fc_swap(&m->x, &m->y);
}

/* y[q] = x[q] (x) plane, for every residual state; y may be x. */
FC_APART void times_plane(const tensor *m, semiring K, const double *x, const double *plane,
                          double *y) {
    for (int64_t q = 0; q < m->Q; q++, x += m->plane, y += m->plane)
        for (int64_t j = 0; j < m->plane; j++) y[j] = times(K, x[j], plane[j]);
}

/* y[q] = plane (x) ends[q]: where paths begin, or end. */
static inline void spread_ends(const tensor *m, semiring K, const double *plane, const double *ends,
                               double *y) {
    for (int64_t q = 0; q < m->Q; q++, y += m->plane)
        for (int64_t j = 0; j < m->plane; j++) y[j] = times(K, plane[j], ends[q]);
}

#endif
