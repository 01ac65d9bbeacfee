/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of Gibbs sampling: states of labels, penalties of spans. */

#include <math.h>

#include "entry.h"
#include "sampler.h"

int64_t fc_gibbs_work(const fc_graph *graph, const fc_labelling *lab, int64_t longest) {
    return sampler_room(graph, lab, longest);
}

static fc_status check_fields(int64_t N, const fc_agreement *a, int64_t *where) {
    if (a->F < 0 || a->V < 0 || a->M < 0 || a->W < 0) return fail(FC_EINVAL, 0, where);
    for (int64_t y = 0; y < a->Y; y++) {
        if (a->F > 0 && (a->table[y] < -1 || a->table[y] >= a->F)) return fail(FC_EINVAL, y, where);
        if (a->F > 0 && !isfinite(a->differ[y])) return fail(FC_ENUMERIC, y, where);
        if (a->W > 0 && !isfinite(a->every[y])) return fail(FC_ENUMERIC, y, where);
    }
    for (int64_t k = 0; k < a->F * N * a->M; k++)
        if (a->value[k] < -1 || a->value[k] >= a->V) return fail(FC_EINVAL, k, where);
    for (int64_t n = 0; a->W > 0 && n < N; n++)
        if (a->word[n] < -2 || a->word[n] >= a->W) return fail(FC_EINVAL, n, where);
    return FC_OK;
}

static fc_status check_agreement(const fc_batch *batch, const fc_labelling *lab,
                                 const fc_agreement *a, int64_t *where) {
    const int64_t N = batch->offsets[batch->B];
    if (a->Y < 0 || a->K < 0) return fail(FC_EINVAL, 0, where);
    if (a->Y == 0) return FC_OK;
    for (int64_t c = 0; c < lab->L; c++)
        if (a->type[c] < -1 || a->type[c] >= a->Y) return fail(FC_EINVAL, c, where);
    for (int64_t c = 0; c < (lab->L + 1) * lab->L; c++) /* what starts has a type */
        if (a->starts[c] && a->type[c % lab->L] < 0) return fail(FC_EINVAL, c, where);
    if (a->first[0] != 0) return fail(FC_EINVAL, 0, where);
    for (int64_t n = 0; n < N; n++)
        if (a->first[n + 1] < a->first[n]) return fail(FC_EINVAL, n, where);
    for (int64_t k = 0; k < a->first[N]; k++)
        if (a->sequence[k] < 0 || a->sequence[k] >= a->K) return fail(FC_EINVAL, k, where);
    for (int64_t k = 0; k < a->Y * a->Y; k++)
        if (!isfinite(a->same[k]) || !isfinite(a->within[k])) return fail(FC_ENUMERIC, k, where);
    return check_fields(N, a, where);
}

static fc_status check_labelling(const fc_graph *graph, const fc_labelling *lab, int64_t *where) {
    if (graph->A > 0 || lab->L < 1) return fail(FC_EINVAL, 0, where);
    for (int64_t s = 0; s < graph->S; s++)
        if (lab->label[s] < 0 || lab->label[s] >= lab->L) return fail(FC_EINVAL, s, where);
    for (int64_t k = 0; k < (graph->S + 1) * lab->L; k++)
        if (lab->next[k] < -1 || lab->next[k] >= graph->S) return fail(FC_EINVAL, k, where);
    return FC_OK;
}

fc_status fc_gibbs(const fc_graph *graph, const fc_batch *batch, const fc_labelling *lab,
                   const fc_agreement *agree, int64_t sweeps, const double *temperature,
                   const uint8_t *whole, const double *uniform, int32_t *path, double *score,
                   int32_t *best, double *best_score, double *work, int64_t *where) {
    fc_status status = check_labelling(graph, lab, where);
    if (status == FC_OK) status = check_agreement(batch, lab, agree, where);
    for (int64_t k = 0; status == FC_OK && k < sweeps; k++)
        if (!(temperature[k] >= 0.0)) status = fail(FC_ENUMERIC, k, where);
    for (int64_t n = 0; status == FC_OK && n < batch->offsets[batch->B]; n++)
        if (path[n] < 0 || path[n] >= graph->S) status = fail(FC_EINVAL, n, where);
    if (status == FC_OK)
        dispatch_table()->gibbs(graph, batch, lab, agree, sweeps, temperature, whole, uniform, path,
                                score, best, best_score, work);
    return status;
}
