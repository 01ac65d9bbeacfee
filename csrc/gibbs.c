/* SPDX-License-Identifier: Apache-2.0
 *
 * Gibbs sampling of the labels of a document: sweeps over its tokens or its sentences. A graph scores
 * each sentence, a table of penalties the spans that disagree across sentences. */

#include "blocked.h"
#include "single_site.h"
#include "target.h"

/* Counts all spans; returns the score of the document. */
static double score_all(const sampler *g) {
    count_none(g->agree);
    double total = 0.0;
    for (int64_t b = 0; b < g->batch->B; b++) {
        const int64_t first = g->batch->offsets[b], end = g->batch->offsets[b + 1];
        const stretch s = {first, end, first, -1, 0};
        total += path_score(g, first, end);
        if (g->agree->Y) total += enter(g, &s);
    }
    return total;
}

/* Keeps the labels if they are the best so far; the tolerance is that of sums kept up to date. */
static void remember(const sampler *g, double total, int32_t *best, double *best_score) {
    if (!(total > *best_score + 1e-9)) return;
    *best_score = total;
    memcpy(best, g->path, (size_t)g->N * sizeof *best);
}

/* Both sweeps keep the score of the document up to date. */
static double sweep_tokens(sampler *g, double total, double temperature, const double *uniform) {
    for (int64_t b = 0; b < g->batch->B; b++) {
        const int64_t first = g->batch->offsets[b], end = g->batch->offsets[b + 1];
        for (int64_t t = first; t < end; t++)
            total += resample_token(g, first, end, t, temperature, uniform[t]);
    }
    return total;
}

static double sweep_sentences(sampler *g, double total, double temperature, const double *uniform) {
    const double *accept = uniform + g->N;
    if (!g->graph->moving) tempered_arcs(g, 0, temperature == 0.0 ? 1.0 : 1.0 / temperature);
    for (int64_t b = 0; b < g->batch->B; b++) {
        const int64_t first = g->batch->offsets[b], end = g->batch->offsets[b + 1];
        total += resample_sentence(g, first, end, temperature, uniform + first, accept[b]);
    }
    return total;
}

void FC_NAME(fc_gibbs)(const fc_graph *graph, const fc_batch *batch, const fc_labelling *lab,
                       const fc_agreement *agree, int64_t sweeps, const double *temperature,
                       const uint8_t *whole, const double *uniform, int32_t *path, double *score,
                       int32_t *best, double *best_score, double *work) {
    sampler g = {.graph = graph, .batch = batch, .lab = lab, .agree = agree, .path = path};
    sampler_lay_out(&g, work);
    turn_arcs(&g);
    double total = score_all(&g);
    remember(&g, total, best, best_score);
    for (int64_t k = 0; k < sweeps; k++, uniform += g.N + batch->B) {
        total = whole[k] ? sweep_sentences(&g, total, temperature[k], uniform)
                         : sweep_tokens(&g, total, temperature[k], uniform);
        score[k] = total;
        remember(&g, total, best, best_score);
    }
}
