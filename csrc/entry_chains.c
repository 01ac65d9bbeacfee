/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of chains: inference in batches of sentences over one graph. */

#include "entry.h"
#include "vec.h"

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
    return dispatch_table()->log_partition(graph, batch, domain, log_z, work, where);
}

fc_status fc_forward_backward(const fc_graph *graph, const fc_batch *batch, fc_domain domain,
                              const double *weight, double *log_z, double *node, double *arc,
                              double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_offsets(batch, where);
    if (status != FC_OK) return status;
    return dispatch_table()->forward_backward(graph, batch, domain, weight, log_z, node, arc, work,
                                              where);
}

fc_status fc_viterbi(const fc_graph *graph, const fc_batch *batch, int32_t *path, double *score,
                     double *work) {
    int64_t where;
    const fc_status status = check_offsets(batch, &where);
    if (status == FC_OK) dispatch_table()->viterbi(graph, batch, path, score, work);
    return status;
}

fc_status fc_max_marginals(const fc_graph *graph, const fc_batch *batch, double *out,
                           double *work) {
    int64_t where;
    const fc_status status = check_offsets(batch, &where);
    if (status == FC_OK) dispatch_table()->max_marginals(graph, batch, out, work);
    return status;
}

fc_status fc_maxima(const fc_graph *graph, const fc_batch *batch, int32_t *path, double *score,
                    double *marginal, double *forward, double *ahead, double *work) {
    int64_t where;
    const fc_status status = check_offsets(batch, &where);
    if (status == FC_OK)
        dispatch_table()->maxima(graph, batch, path, score, marginal, forward, ahead, work);
    return status;
}
