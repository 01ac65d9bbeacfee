/* SPDX-License-Identifier: Apache-2.0
 *
 * One step along the arcs of a graph, forward or backward, in three semirings. Everything that runs
 * along a sentence (chains.c) is written once on top of these, for dense and sparse graphs alike.
 *
 *   sum   y[j] = sum_i x[i] * w[i -> j]                 linear domain
 *   log   y[j] = log sum_i exp(x[i] + w[i -> j])        log domain
 *   max   y[j] = max_i (x[i] + w[i -> j])
 *
 * Backward exchanges the ends of the arcs. A dense graph keeps its matrix twice, by source and by
 * target, so that both directions run the same loop over contiguous destinations. */
#ifndef FSTCRF_STEPS_H
#define FSTCRF_STEPS_H

#include "fstcrf.h"
#include "vec.h"

typedef enum { FORWARD = 0, BACKWARD = 1 } direction;
typedef enum { NOT_LOADED = 0, LINEAR = 1, SCORES = 2 } loaded;

/* A graph made ready to run: padded copies of its arc weights in scratch. */
typedef struct {
    const fc_graph *graph;
    int64_t S, P;       /* states; the same, padded */
    int64_t arcs, size; /* arcs; doubles of one copy of their weights */
    int dense;
    double *weight[2]; /* [S][P] by source and by target (dense), or [A] twice the same (sparse) */
    uint8_t *open[2];  /* the same layout: 1 where the arc is not forbidden */
    double *outer;     /* [S][P] or [A] sums of outer products */
    double shift;      /* LINEAR: weight = exp(score - shift) */
    loaded state;      /* which weights are loaded */
    int full;          /* every pair of states has an arc, and none is forbidden */
} machine;

FC_INLINE void tile_sum(const int W, int64_t S, int64_t P, const double *restrict M,
                        const double *restrict x, double *restrict y) {
    double acc[32] = {0};
    for (int64_t i = 0; i < S; i++)
        for (int l = 0; l < W; l++) acc[l] += x[i] * M[i * P + l];
    for (int l = 0; l < W; l++) y[l] = acc[l];
}

FC_INLINE void tile_max(const int W, int64_t S, int64_t P, const double *restrict M,
                        const double *restrict x, double *restrict y) {
    double acc[32];
    for (int l = 0; l < W; l++) acc[l] = FC_NEVER;
    for (int64_t i = 0; i < S; i++)
        for (int l = 0; l < W; l++) {
            const double c = x[i] + M[i * P + l];
            acc[l] = c > acc[l] ? c : acc[l];
        }
    for (int l = 0; l < W; l++) y[l] = acc[l];
}

/* Tiles of constant width stay in registers. */
#define FC_TILED(tile, S, P, M, x, y)                                       \
    do {                                                                    \
        int64_t j = 0;                                                      \
        for (; j + 32 <= (P); j += 32) tile(32, S, P, (M) + j, x, (y) + j); \
        switch ((P) - j) {                                                  \
            case 24: tile(24, S, P, (M) + j, x, (y) + j); break;            \
            case 16: tile(16, S, P, (M) + j, x, (y) + j); break;            \
            case 8: tile(8, S, P, (M) + j, x, (y) + j); break;              \
            default: break;                                                 \
        }                                                                   \
    } while (0)

FC_INLINE const int32_t *arc_from(const machine *m, direction d) {
    return d == FORWARD ? m->graph->source : m->graph->target;
}

FC_INLINE const int32_t *arc_to(const machine *m, direction d) {
    return d == FORWARD ? m->graph->target : m->graph->source;
}

static inline void step_sum(const machine *m, direction d, const double *restrict x,
                            double *restrict y) {
    const double *restrict w = m->weight[d];
    if (m->dense) {
        FC_TILED(tile_sum, m->S, m->P, w, x, y);
        return;
    }
    const int32_t *from = arc_from(m, d), *to = arc_to(m, d);
    fc_fill(m->P, 0.0, y);
    for (int64_t a = 0; a < m->arcs; a++) y[to[a]] += x[from[a]] * w[a];
}

static inline void step_max(const machine *m, direction d, const double *restrict x,
                            double *restrict y) {
    const double *restrict w = m->weight[d];
    if (m->dense) {
        FC_TILED(tile_max, m->S, m->P, w, x, y);
        return;
    }
    const int32_t *from = arc_from(m, d), *to = arc_to(m, d);
    fc_fill(m->P, FC_NEVER, y);
    for (int64_t a = 0; a < m->arcs; a++) {
        const double c = x[from[a]] + w[a];
        if (c > y[to[a]]) y[to[a]] = c;
    }
}

/* `best` receives the maxima by which the sums are shifted. */
static inline void step_log(const machine *m, direction d, const double *restrict x,
                            double *restrict y, double *restrict best) {
    const double *restrict w = m->weight[d];
    step_max(m, d, x, best);
    for (int64_t j = 0; j < m->P; j++) best[j] = best[j] > FC_NEVER ? best[j] : 0.0;
    fc_fill(m->P, 0.0, y);
    if (m->dense) {
        for (int64_t i = 0; i < m->S; i++) {
            const double xi = x[i];
            if (xi == FC_NEVER) continue;
            for (int64_t j = 0; j < m->P; j++) y[j] += fc_exp(xi + w[i * m->P + j] - best[j]);
        }
    } else {
        const int32_t *from = arc_from(m, d), *to = arc_to(m, d);
        for (int64_t a = 0; a < m->arcs; a++) y[to[a]] += fc_exp(x[from[a]] + w[a] - best[to[a]]);
    }
    for (int64_t j = 0; j < m->S; j++) y[j] = best[j] + log(y[j]); /* log 0 = -inf */
    for (int64_t j = m->S; j < m->P; j++) y[j] = FC_NEVER;
}

/* Which states can be reached at all: the Boolean shadow of the steps above. */
static inline void step_reach(const machine *m, direction d, const uint8_t *restrict x,
                              uint8_t *restrict y) {
    const uint8_t *restrict open = m->open[d];
    memset(y, 0, (size_t)m->P);
    if (m->dense) {
        for (int64_t i = 0; i < m->S; i++)
            if (x[i])
                for (int64_t j = 0; j < m->P; j++) y[j] |= open[i * m->P + j];
        return;
    }
    const int32_t *from = arc_from(m, d), *to = arc_to(m, d);
    for (int64_t a = 0; a < m->arcs; a++) y[to[a]] |= (uint8_t)(x[from[a]] & open[a]);
}

/* outer[i -> j] += x[i] * y[j] along every arc */
static inline void step_outer(const machine *m, const double *restrict x,
                              const double *restrict y) {
    double *restrict outer = m->outer;
    if (m->dense) {
        for (int64_t i = 0; i < m->S; i++) fc_axpy(m->P, x[i], y, outer + i * m->P);
        return;
    }
    const int32_t *source = m->graph->source, *target = m->graph->target;
    for (int64_t a = 0; a < m->arcs; a++) outer[a] += x[source[a]] * y[target[a]];
}

/* Loads the arc weights that lead into token n (any n when the graph does not move): scores as they
 * are, or exp(score - shift) with the largest score as shift, so that no weight exceeds 1. */
static inline void load(machine *m, int64_t n, loaded want) {
    if (m->state == want && !m->graph->moving) return;
    const double *score = m->graph->score + (m->graph->moving ? n * m->arcs : 0);
    double top = FC_NEVER;
    int full = 1;
    for (int64_t a = 0; a < m->arcs; a++) {
        top = score[a] > top ? score[a] : top;
        full &= score[a] > FC_NEVER;
    }
    m->shift = want == LINEAR && top > FC_NEVER ? top : 0.0;
    m->full = full && m->arcs == m->S * m->S;
    m->state = want;
    if (m->dense) {
        const int64_t S = m->S, P = m->P;
        const double pad = want == LINEAR ? 0.0 : FC_NEVER;
        for (int64_t i = 0; i < S; i++) {
            double *row = m->weight[FORWARD] + i * P;
            fc_fill(P, FC_NEVER, row);
            memcpy(row, score + i * S, (size_t)S * sizeof *row);
            if (want == LINEAR)
                for (int64_t j = 0; j < P; j++) row[j] = fc_exp(row[j] - m->shift);
        }
        for (int64_t j = 0; j < S; j++)
            for (int64_t i = 0; i < P; i++)
                m->weight[BACKWARD][j * P + i] = i < S ? m->weight[FORWARD][i * P + j] : pad;
        for (int64_t i = 0; i < S; i++)
            for (int64_t j = 0; j < P; j++) {
                m->open[FORWARD][i * P + j] = j < S && score[i * S + j] > FC_NEVER;
                m->open[BACKWARD][i * P + j] = j < S && score[j * S + i] > FC_NEVER;
            }
        return;
    }
    for (int64_t a = 0; a < m->arcs; a++) {
        m->weight[FORWARD][a] = want == LINEAR ? fc_exp(score[a] - m->shift) : score[a];
        m->open[FORWARD][a] = score[a] > FC_NEVER;
    }
}

#endif
