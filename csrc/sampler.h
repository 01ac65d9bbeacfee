/* SPDX-License-Identifier: Apache-2.0
 *
 * State of a Gibbs sampler: the labels of a document, as one path of a dense machine for each sentence.
 * Computes scores of paths, and their change if one token gets another label. */
#ifndef FSTCRF_SAMPLER_H
#define FSTCRF_SAMPLER_H

#include "checks.h"
#include "vec.h"

typedef struct {
    const fc_machine *machine; /* one dense axis, one row of node potentials a token */
    const fc_axis *axis;
    const double *node; /* [N][S] */
    const fc_batch *batch;
    const fc_labelling *lab;
    const fc_agreement *agree;
    int32_t *path;
    double *arc;    /* [S][P] arc potentials over the temperature, padded with -inf */
    double *linear; /* [S][P] exp(arc - highest) */
    double highest;
    double *alpha; /* [longest][P] */
    double *top;   /* [P] */
    double *sum;   /* [P] */
    double *local; /* [L] */
    double *score; /* [L] */
    int32_t *old;  /* [longest] */
    int64_t P, N;
} sampler;

/* --- Scratch --------------------------------------------------------------------------------- */

static inline int64_t sampler_room(const fc_machine *machine, const fc_labelling *lab,
                                   int64_t longest) {
    const int64_t P = fc_padded(machine->S);
    return 2 * machine->S * P + longest * P + 2 * P + 2 * lab->L + longest;
}

static inline void sampler_lay_out(sampler *g, double *work) {
    const int64_t S = g->machine->S, P = fc_padded(S),
                  longest = longest_of(g->batch->B, g->batch->offsets);
    g->P = P;
    g->N = g->batch->offsets[g->batch->B];
    g->arc = work;
    g->linear = g->arc + S * P;
    g->alpha = g->linear + S * P;
    g->top = g->alpha + longest * P;
    g->sum = g->top + P;
    g->local = g->sum + P;
    g->score = g->local + g->lab->L;
    g->old = (int32_t *)(g->score + g->lab->L);
}

/* --- Paths ----------------------------------------------------------------------------------- */

static inline const double *arcs_into(const fc_axis *g, int64_t token) {
    return g->moving ? g->score + token * g->S * g->S : g->score;
}

static inline double path_score(const sampler *g, int64_t first, int64_t end) {
    const int64_t S = g->machine->S;
    const int32_t *p = g->path;
    double total = g->machine->initial[p[first]] + g->machine->final[p[end - 1]];
    for (int64_t t = first; t < end; t++) {
        total += g->node[t * S + p[t]];
        if (t > first) total += arcs_into(g->axis, t)[p[t - 1] * S + p[t]];
    }
    return total;
}

/* --- Another label at one token -------------------------------------------------------------- */

/* Score with the new label minus the present score; -inf: no such path. States after t follow from the
 * labels, up to the first that is unchanged. */
static inline double difference(const sampler *g, int64_t first, int64_t end, int64_t t,
                                int32_t label) {
    const fc_machine *machine = g->machine;
    const int64_t S = machine->S, L = g->lab->L;
    const int32_t *p = g->path, *next = g->lab->next;
    int32_t was = t > first ? p[t - 1] : (int32_t)S, now = was;
    double total = 0.0;
    for (int64_t n = t; n < end; n++) {
        const int32_t old = p[n];
        const int32_t new = next[now * L + (n == t ? label : g->lab->label[old])];
        if (new < 0) return FC_NEVER;
        if (n == first) {
            total += machine->initial[new] - machine->initial[old];
        } else {
            const double *arc = arcs_into(g->axis, n);
            total += arc[now * S + new] - arc[was * S + old];
        }
        if (new == old &&n > t) return total;
        total += g->node[n * S + new] - g->node[n * S + old];
        if (n == end - 1) return total + machine->final[new] - machine->final[old];
        was = old;
        now = new;
    }
    return total;
}

/* The same if states are labels and no later state changes: local[c] for all labels. */
static inline void direct_differences(const sampler *g, int64_t first, int64_t end, int64_t t,
                                      int32_t now) {
    const int64_t S = g->machine->S, L = g->lab->L;
    const int32_t *p = g->path;
    double *restrict local = g->local;
    const double *restrict node = g->node + t * S;
    const double *restrict in = t > first ? g->axis->score + p[t - 1] * S : g->machine->initial;
    const double *restrict out = t + 1 < end ? g->lab->turned + p[t + 1] * S : g->machine->final;
    for (int64_t c = 0; c < L; c++) local[c] = node[c] + in[c] + out[c];
    const double is = local[now];
    for (int64_t c = 0; c < L; c++) local[c] -= is;
    local[now] = 0.0;
}

/* local[c]: the graph's score with label c at token t, minus its score with the present label. */
static inline void differences(const sampler *g, int64_t first, int64_t end, int64_t t,
                               int32_t now) {
    if (g->lab->turned != NULL) {
        direct_differences(g, first, end, t, now);
        return;
    }
    for (int64_t c = 0; c < g->lab->L; c++)
        g->local[c] = c == now ? 0.0 : difference(g, first, end, t, (int32_t)c);
}

static inline void relabel(const sampler *g, int64_t first, int64_t end, int64_t t, int32_t label) {
    const int64_t L = g->lab->L;
    int32_t *p = g->path;
    int32_t now = t > first ? p[t - 1] : (int32_t)g->machine->S;
    for (int64_t n = t; n < end; n++) {
        const int32_t old = p[n];
        now = g->lab->next[now * L + (n == t ? label : g->lab->label[old])];
        p[n] = now;
        if (now == old && n > t) return;
    }
}

#endif
