/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a Gibbs sampler stands: the labels of a document, as one path of a dense graph for each
 * sentence. Scores of paths, and what they would be with another label at one token. */
#ifndef FSTCRF_SAMPLER_H
#define FSTCRF_SAMPLER_H

#include "batch.h"
#include "vec.h"

typedef struct {
    const fc_graph *graph;
    const fc_batch *batch;
    const fc_labelling *lab;
    const fc_agreement *agree;
    int32_t *path;
    double *arc;    /* [S][P] arc potentials over the temperature, padded with -inf */
    double *alpha;  /* [longest][P] */
    double *top;    /* [P] */
    double *sum;    /* [P] */
    double *local;  /* [L] */
    double *score;  /* [L] */
    double *turned; /* [S][S] arc potentials from column to row */
    int32_t *old;   /* [longest] */
    int64_t P, N;
    int direct; /* states are labels, arcs do not move */
} sampler;

/* --- Scratch --------------------------------------------------------------------------------- */

/* Doubles that a sampler needs. */
static inline int64_t sampler_room(const fc_graph *graph, const fc_labelling *lab,
                                   int64_t longest) {
    const int64_t P = fc_padded(graph->S);
    return graph->S * (P + graph->S) + longest * P + 2 * P + 2 * lab->L + longest;
}

static inline void sampler_lay_out(sampler *g, double *work) {
    const int64_t S = g->graph->S, P = fc_padded(S), longest = batch_longest(g->batch);
    g->P = P;
    g->N = g->batch->offsets[g->batch->B];
    g->arc = work;
    g->alpha = g->arc + S * P;
    g->top = g->alpha + longest * P;
    g->sum = g->top + P;
    g->local = g->sum + P;
    g->score = g->local + g->lab->L;
    g->turned = g->score + g->lab->L;
    g->old = (int32_t *)(g->turned + S * S);
}

/* Arcs that leave a label side by side, where states are labels. */
static inline void turn_arcs(sampler *g) {
    const fc_graph *graph = g->graph;
    const int64_t S = graph->S;
    g->direct = !graph->moving && S == g->lab->L;
    for (int64_t i = 0; i < S; i++) g->direct &= g->lab->label[i] == i;
    for (int64_t i = 0; g->direct && i < S; i++)
        for (int64_t j = 0; j < S; j++) g->turned[j * S + i] = graph->score[i * S + j];
}

/* --- Paths ----------------------------------------------------------------------------------- */

static inline const double *arcs_into(const fc_graph *g, int64_t token) {
    return g->moving ? g->score + token * g->S * g->S : g->score;
}

static inline double path_score(const sampler *g, int64_t first, int64_t end) {
    const int64_t S = g->graph->S;
    const int32_t *p = g->path;
    double total = g->graph->initial[p[first]] + g->graph->final[p[end - 1]];
    for (int64_t t = first; t < end; t++) {
        total += g->batch->node[t * S + p[t]];
        if (t > first) total += arcs_into(g->graph, t)[p[t - 1] * S + p[t]];
    }
    return total;
}

/* --- Another label at one token -------------------------------------------------------------- */

/* Its score less that of what is there; -inf: no such path. States behind t follow from the labels,
 * up to where they are what they were. */
static inline double difference(const sampler *g, int64_t first, int64_t end, int64_t t,
                                int32_t label) {
    const fc_graph *graph = g->graph;
    const int64_t S = graph->S, L = g->lab->L;
    const int32_t *p = g->path, *next = g->lab->next;
    int32_t was = t > first ? p[t - 1] : (int32_t)S, now = was;
    double total = 0.0;
    for (int64_t n = t; n < end; n++) {
        const int32_t old = p[n];
        const int32_t new = next[now * L + (n == t ? label : g->lab->label[old])];
        if (new < 0) return FC_NEVER;
        if (n == first) {
            total += graph->initial[new] - graph->initial[old];
        } else {
            const double *arc = arcs_into(graph, n);
            total += arc[now * S + new] - arc[was * S + old];
        }
        if (new == old &&n > t) return total;
        total += g->batch->node[n * S + new] - g->batch->node[n * S + old];
        if (n == end - 1) return total + graph->final[new] - graph->final[old];
        was = old;
        now = new;
    }
    return total;
}

/* The same where states are labels and nothing moves behind t: local[c] for all labels. */
static inline void direct_differences(const sampler *g, int64_t first, int64_t end, int64_t t,
                                      int32_t now) {
    const int64_t S = g->graph->S, L = g->lab->L;
    const int32_t *p = g->path;
    double *restrict local = g->local;
    const double *restrict node = g->batch->node + t * S;
    const double *restrict in = t > first ? g->graph->score + p[t - 1] * S : g->graph->initial;
    const double *restrict out = t + 1 < end ? g->turned + p[t + 1] * S : g->graph->final;
    for (int64_t c = 0; c < L; c++) local[c] = node[c] + in[c] + out[c];
    const double is = local[now];
    for (int64_t c = 0; c < L; c++) local[c] -= is;
    local[now] = 0.0;
}

/* local[c]: the graph's score with label c at token t, less that of what it has. */
static inline void differences(const sampler *g, int64_t first, int64_t end, int64_t t,
                               int32_t now) {
    if (g->direct) {
        direct_differences(g, first, end, t, now);
        return;
    }
    for (int64_t c = 0; c < g->lab->L; c++)
        g->local[c] = c == now ? 0.0 : difference(g, first, end, t, (int32_t)c);
}

static inline void relabel(const sampler *g, int64_t first, int64_t end, int64_t t, int32_t label) {
    const int64_t L = g->lab->L;
    int32_t *p = g->path;
    int32_t now = t > first ? p[t - 1] : (int32_t)g->graph->S;
    for (int64_t n = t; n < end; n++) {
        const int32_t old = p[n];
        now = g->lab->next[now * L + (n == t ? label : g->lab->label[old])];
        p[n] = now;
        if (now == old && n > t) return;
    }
}

#endif
