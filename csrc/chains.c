/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of sentences over one graph. */

#include "sentence.h"
#include "checks.h"

static int64_t longest_sentence(const fc_batch *batch) {
    int64_t longest = 0;
    for (int64_t b = 0; b < batch->B; b++) {
        const int64_t T = batch->offsets[b + 1] - batch->offsets[b];
        longest = T > longest ? T : longest;
    }
    return longest;
}

int64_t fc_work_size(const fc_graph *g, int64_t longest) {
    const int64_t P = fc_padded(g->S);
    const int64_t size = g->A == 0 ? g->S * P : fc_padded(g->A);
    return 3 * size + 2 * (fc_padded(size) / 8) + 3 * longest * P + longest + 4 * P +
           fc_padded(2 * P) / 8;
}

fc_status fc_log_partition(const fc_graph *graph, const fc_batch *batch, fc_domain domain,
                           double *log_z, double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_offsets(batch, where);
    if (status != FC_OK) return status;
    workspace w;
    lay_out(&w, graph, longest_sentence(batch), work);
    for (int64_t b = 0; b < batch->B; b++) {
        const int64_t first = batch->offsets[b], T = batch->offsets[b + 1] - first;
        fc_domain used;
        int tracked;
        if (forward(&w, batch->node + first * graph->S, first, T, domain, &used, &tracked,
                    log_z + b) == LOST) {
            *where = b;
            return FC_ERANGE;
        }
    }
    return FC_OK;
}

fc_status fc_forward_backward(const fc_graph *graph, const fc_batch *batch, fc_domain domain,
                              const double *weight, double *log_z, double *node, double *arc,
                              double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_offsets(batch, where);
    if (status != FC_OK) return status;
    workspace w;
    machine *m = &w.m;
    lay_out(&w, graph, longest_sentence(batch), work);
    const int64_t N = batch->offsets[batch->B], S = m->S;
    memset(m->outer, 0, (size_t)m->size * sizeof *m->outer);
    memset(arc, 0, (size_t)((graph->moving ? N : 1) * m->arcs) * sizeof *arc);
    for (int64_t b = 0; b < batch->B; b++) {
        const int64_t first = batch->offsets[b], T = batch->offsets[b + 1] - first;
        if (forward_backward(&w, batch->node + first * S, first, T, domain, weight[b], log_z + b,
                             node + first * S, arc) == LOST) {
            *where = b;
            return FC_ERANGE;
        }
    }
    if (!graph->moving) {
        load(m, 0, LINEAR);
        collect_arcs(m, arc);
    }
    return FC_OK;
}

fc_status fc_viterbi(const fc_graph *graph, const fc_batch *batch, int32_t *path, double *score,
                     double *work) {
    int64_t where;
    const fc_status status = check_offsets(batch, &where);
    if (status != FC_OK) return status;
    workspace w;
    lay_out(&w, graph, longest_sentence(batch), work);
    for (int64_t b = 0; b < batch->B; b++) {
        const int64_t first = batch->offsets[b];
        score[b] = best_path(&w, batch->node + first * graph->S, first,
                             batch->offsets[b + 1] - first, path + first);
    }
    return FC_OK;
}

/* Best scores through each state, and those of the beginnings that end in it, from the rows that
 * max_backward left. */
static void max_forward(workspace *w, const double *node, int64_t first, int64_t T,
                        double *marginal, double *forward) {
    machine *m = &w->m;
    const int64_t S = m->S, P = m->P;
    copy_row(w, m->graph->initial, w->beta); /* best score of what precedes token t */
    for (int64_t t = 0; t < T; t++) {
        const double *v = w->emission + t * P;
        for (int64_t j = 0; j < S; j++) marginal[t * S + j] = w->beta[j] + v[j];
        if (t == T - 1 && forward == NULL) break;
        copy_row(w, node + t * S, w->spare);
        for (int64_t j = 0; j < P; j++) w->spare[j] += w->beta[j];
        if (forward != NULL) memcpy(forward + t * S, w->spare, (size_t)S * sizeof *forward);
        if (t == T - 1) break;
        load(m, first + t + 1, SCORES);
        step_max(m, FORWARD, w->spare, w->beta);
    }
}

fc_status fc_max_marginals(const fc_graph *graph, const fc_batch *batch, double *out,
                           double *work) {
    int64_t where;
    const fc_status status = check_offsets(batch, &where);
    if (status != FC_OK) return status;
    workspace w;
    lay_out(&w, graph, longest_sentence(batch), work);
    for (int64_t b = 0; b < batch->B; b++) {
        const int64_t first = batch->offsets[b], T = batch->offsets[b + 1] - first;
        const double *node = batch->node + first * graph->S;
        max_backward(&w, node, first, T);
        max_forward(&w, node, first, T, out + first * graph->S, NULL);
    }
    return FC_OK;
}

fc_status fc_maxima(const fc_graph *graph, const fc_batch *batch, int32_t *path, double *score,
                    double *marginal, double *forward, double *ahead, double *work) {
    int64_t where;
    const fc_status status = check_offsets(batch, &where);
    if (status != FC_OK) return status;
    workspace w;
    lay_out(&w, graph, longest_sentence(batch), work);
    const int64_t S = graph->S;
    for (int64_t b = 0; b < batch->B; b++) {
        const int64_t first = batch->offsets[b], T = batch->offsets[b + 1] - first;
        const double *node = batch->node + first * S;
        score[b] = best_path(&w, node, first, T, path + first);
        for (int64_t t = 0; t < T; t++)
            memcpy(ahead + (first + t) * S, w.emission + t * w.m.P, (size_t)S * sizeof *ahead);
        max_forward(&w, node, first, T, marginal + first * S, forward + first * S);
    }
    return FC_OK;
}
