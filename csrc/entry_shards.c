/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of training over shards: the fused sweep, weights on their way in, gradients on their
 * way out. */

#include "entry.h"
#include "vec.h"

static fc_status check_ptr(int64_t n, const int64_t *ptr, int64_t *where) {
    if (ptr[0] != 0) return fail(FC_EINVAL, 0, where);
    for (int64_t i = 0; i < n; i++)
        if (ptr[i] > ptr[i + 1]) return fail(FC_EINVAL, i, where);
    return FC_OK;
}

static fc_status check_below(int64_t n, const int32_t *index, int64_t limit, int64_t *where) {
    for (int64_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= limit) return fail(FC_EINVAL, i, where);
    return FC_OK;
}

fc_status fc_check_shard(const fc_graph *graph, const fc_shard *s, const fc_layout *l,
                         int64_t *where) {
    *where = 0;
    if (graph->A != 0 || graph->moving || s->P < 8 || s->P % 8 != 0 || s->R < 0 || s->M < 0)
        return FC_EINVAL;
    if (s->K < 0 || (s->K == 0 && fc_padded(graph->S) != s->P)) return FC_EINVAL;
    const fc_batch batch = {s->B, s->offsets, NULL};
    fc_status status = check_offsets(&batch, where);
    if (status == FC_OK && s->offsets[s->B] != s->N) status = FC_EINVAL;
    for (int64_t b = 0; status == FC_OK && b < s->B; b++)
        if (s->offsets[b + 1] - s->offsets[b] > s->longest) status = fail(FC_EINVAL, b, where);
    if (status == FC_OK) status = check_ptr(s->N, s->row_ptr, where);
    if (status == FC_OK) status = check_ptr(s->N, s->single_ptr, where);
    if (status == FC_OK) status = check_ptr(l->attributes, l->ptr, where);
    if (status == FC_OK && l->ptr[l->attributes] > l->parameters) status = FC_EINVAL;
    if (status == FC_OK) status = check_below(s->row_ptr[s->N], s->row, s->R, where);
    if (status == FC_OK) status = check_below(s->single_ptr[s->N], s->single, s->M, where);
    if (status == FC_OK) status = check_below(s->R, s->rows, l->attributes, where);
    if (status == FC_OK) status = check_below(s->M, s->singles, l->parameters, where);
    if (status == FC_OK) status = check_below(graph->S * s->K, s->slot, s->P, where);
    for (int64_t k = 0; status == FC_OK && k < s->single_ptr[s->N]; k++)
        if (s->single_slot[k] >= s->P) status = fail(FC_EINVAL, k, where);
    for (int64_t k = 0; status == FC_OK && k < l->ptr[l->attributes]; k++)
        if (l->slot[k] >= s->P) status = fail(FC_EINVAL, k, where);
    return status;
}

int64_t fc_sweep_work(const fc_graph *graph, const fc_shard *shard) {
    return dispatch_table()->sweep_work(graph, shard);
}

fc_status fc_sweep(const fc_graph *graph, const fc_shard *shard, const float *weight,
                   float *gradient, double *loss, double *arc, double *begin, double *end,
                   int64_t *rescued, double *work) {
    if (graph->A != 0 || graph->moving) return FC_EINVAL;
    dispatch_table()->sweep(graph, shard, weight, gradient, loss, arc, begin, end, rescued, work);
    return FC_OK;
}

fc_status fc_spread(const fc_shard *shard, const fc_layout *layout, const double *theta,
                    float *weight) {
    dispatch_table()->spread(shard, layout, theta, weight);
    return FC_OK;
}

static int within(int64_t m, const int64_t *runs, int64_t size) {
    for (int64_t i = 0; i < m; i++)
        if (runs[2 * i] < 0 || runs[2 * i] > runs[2 * i + 1] || runs[2 * i + 1] > size) return 0;
    return m >= 0;
}

fc_status fc_collect(const fc_shard *shard, const fc_layout *layout, int64_t m,
                     const int64_t *row_runs, int64_t k, const int64_t *single_runs,
                     const float *gradient, double *theta) {
    if (!within(m, row_runs, shard->R) || !within(k, single_runs, shard->M)) return FC_EINVAL;
    dispatch_table()->collect(shard, layout, m, row_runs, k, single_runs, gradient, theta);
    return FC_OK;
}
