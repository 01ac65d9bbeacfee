/* SPDX-License-Identifier: Apache-2.0
 *
 * One sentence at a time: blocked Gibbs sampling. The graph proposes a path, by forward filtering and
 * backward sampling; a Metropolis-Hastings step accepts or rejects it by the penalties.
 *
 * Whole sentences are proposed by the tagger without penalties, and accepted with the probability
 * min(1, ratio of penalties): Metropolis-Hastings, in which the tagger's scores cancel. At temperature
 * c both sides are divided by c; at 0 the tagger's best sentence is taken if it raises the score of the
 * document. Sweeps over sentences reach labellings that token sweeps cannot reach, under schemes in
 * which no label can change without its neighbours.
 */
#ifndef FSTCRF_BLOCKED_H
#define FSTCRF_BLOCKED_H

#include "along.h"
#include "draw.h"
#include "semiring.h"
#include "spans.h"

/* --- Proposals ------------------------------------------------------------------------------- */

static inline void tempered_arcs(sampler *g, int64_t t, double by) {
    const int64_t S = g->machine->S, P = g->P;
    const double *from = arcs_into(g->axis, t);
    for (int64_t i = 0; i < S; i++) {
        for (int64_t j = 0; j < S; j++) g->arc[i * P + j] = from[i * S + j] * by;
        for (int64_t j = S; j < P; j++) g->arc[i * P + j] = FC_NEVER;
    }
    g->highest = fc_weigh(S, P, g->arc, g->linear);
}

/* alpha[t][j]: log of the sum (or the maximum) over all beginnings that end in j at t. */
static inline void filter(sampler *g, int64_t first, int64_t end, double by, int best) {
    const int64_t S = g->machine->S, P = g->P;
    for (int64_t t = first; t < end; t++) {
        double *a = g->alpha + (t - first) * P;
        const double *node = g->node + t * S;
        if (t > first && g->axis->moving) tempered_arcs(g, t, by);
        if (t == first)
            for (int64_t j = 0; j < S; j++) a[j] = g->machine->initial[j] * by;
        else if (best)
            row_product(MAX_PLUS, S, P, a - P, 1, g->arc, P, a);
        else
            fc_along(S, P, g->highest, g->arc, g->linear, a - P, g->top, g->sum, a);
        for (int64_t j = 0; j < S; j++) a[j] += node[j] * by;
        fc_fill(P - S, FC_NEVER, a + S);
    }
}

/* Draws a path of the sentence into g->path, or finds the best one. */
static inline void trace(sampler *g, int64_t first, int64_t end, double by, int best,
                         const double *uniform) {
    const int64_t S = g->machine->S, P = g->P;
    int32_t next = -1;
    for (int64_t t = end - 1; t >= first; t--) {
        const double *a = g->alpha + (t - first) * P;
        const double *arc = t + 1 < end ? arcs_into(g->axis, t + 1) : NULL;
        int32_t peak = 0;
        for (int64_t i = 0; i < S; i++) {
            g->top[i] = a[i] + by * (arc == NULL ? g->machine->final[i] : arc[i * S + next]);
            if (g->top[i] > g->top[peak]) peak = (int32_t)i;
        }
        next = draw(S, g->top, peak, best ? 0.0 : 1.0, uniform[t - first]);
        g->path[t] = next;
    }
}

/* --- Metropolis-Hastings --------------------------------------------------------------------- */

/* Resamples a sentence; returns the change of the document's score. */
static inline double resample_sentence(sampler *g, int64_t first, int64_t end, double temperature,
                                       const double *uniform, double u) {
    const int best = temperature == 0.0;
    const double by = best ? 1.0 : 1.0 / temperature;
    const size_t bytes = (size_t)(end - first) * sizeof *g->path;
    const stretch s = {first, end, first, -1, 0};
    const int free = agreed_upon(g->agree, first, end);
    const double was = path_score(g, first, end);
    double penalty = 0.0;
    filter(g, first, end, by, best);
    if (!free) {
        leave(g, &s);
        penalty = -enter(g, &s);
        leave(g, &s);
    }
    memcpy(g->old, g->path + first, bytes);
    trace(g, first, end, by, best, uniform);
    const double gain = path_score(g, first, end) - was;
    if (!free) penalty += enter(g, &s);
    const int taken = best ? gain + penalty > 0.0 : free || log(u) * temperature < penalty;
    if (taken) return gain + penalty;
    if (!free) leave(g, &s);
    memcpy(g->path + first, g->old, bytes);
    if (!free) enter(g, &s);
    return 0.0;
}

#endif
