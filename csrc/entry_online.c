/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of online learning: epochs over sentences in a given order. */

#include "batch.h"
#include "difference.h"
#include "entry.h"
#include "vec.h"

int64_t fc_learner_work(const fc_graph *g, const fc_learner *learner, int64_t longest) {
    return longest * (learner->W + 2 * g->S) + 2 * arcs_of(g) + 2 * g->S + fc_work_size(g, longest);
}

int64_t fc_difference_work(const fc_graph *g, const fc_batch *batch, const fc_learner *learner) {
    int64_t where;
    if (check_offsets(batch, &where) != FC_OK) return 0;
    return fc_learner_work(g, learner, batch_longest(batch)) +
           difference_room(most_cells(batch, learner));
}

fc_status check_learner(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                        int64_t n_order, const int64_t *order, int64_t *where) {
    const fc_status status = check_offsets(batch, where);
    if (status != FC_OK) return status;
    if (graph->moving || learner->K < 1 || learner->W < FC_LANES || learner->W % FC_LANES != 0)
        return FC_EINVAL;
    for (int64_t i = 0; i < graph->S * learner->K; i++)
        if (learner->slot[i] < 0 || learner->slot[i] >= learner->W)
            return fail(FC_EINVAL, i, where);
    for (int64_t a = 0; a < arcs_of(graph); a++)
        if (learner->arc_slot[a] < 0 || learner->arc_slot[a] >= learner->M)
            return fail(FC_EINVAL, a, where);
    for (int64_t k = 0; k < n_order; k++)
        if (order[k] < 0 || order[k] >= batch->B) return fail(FC_EINVAL, k, where);
    return FC_OK;
}

fc_status fc_perceptron(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                        int64_t n_order, const int64_t *order, const int32_t *gold,
                        const double *weight, fc_parameters *theta, fc_parameters *sums,
                        double *step, int64_t *errors, double *loss, double *work) {
    int64_t where;
    const fc_status status = check_learner(graph, batch, learner, n_order, order, &where);
    if (status == FC_OK)
        dispatch_table()->perceptron(graph, batch, learner, n_order, order, gold, weight, theta,
                                     sums, step, errors, loss, work);
    return status;
}

fc_status fc_passive_aggressive(const fc_graph *graph, const fc_batch *batch,
                                const fc_learner *learner, int64_t n_order, const int64_t *order,
                                const int32_t *gold, const double *weight, fc_pa kind,
                                double aggressiveness, int errors_count, fc_parameters *theta,
                                fc_parameters *sums, double *step, double *loss, double *work,
                                int64_t *where) {
    const fc_status status = check_learner(graph, batch, learner, n_order, order, where);
    if (status != FC_OK) return status;
    if ((kind != FC_PA && kind != FC_PA_I && kind != FC_PA_II) || !(aggressiveness > 0.0))
        return FC_EINVAL;
    return dispatch_table()->passive_aggressive(graph, batch, learner, n_order, order, gold, weight,
                                                kind, aggressiveness, errors_count, theta, sums,
                                                step, loss, work, where);
}

fc_status fc_arow(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                  int64_t n_order, const int64_t *order, const int32_t *gold, const double *weight,
                  double gamma, fc_parameters *theta, fc_parameters *variance, double *loss,
                  double *work, int64_t *where) {
    const fc_status status = check_learner(graph, batch, learner, n_order, order, where);
    if (status != FC_OK) return status;
    if (!(gamma > 0.0)) return FC_EINVAL;
    return dispatch_table()->arow(graph, batch, learner, n_order, order, gold, weight, gamma, theta,
                                  variance, loss, work, where);
}

fc_status fc_sgd(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                 int64_t n_order, const int64_t *order, const int32_t *gold, const double *weight,
                 const double *rate, double decay, fc_parameters *theta, double *scale,
                 double *loss, double *work, int64_t *where) {
    const fc_status status = check_learner(graph, batch, learner, n_order, order, where);
    if (status != FC_OK) return status;
    return dispatch_table()->sgd(graph, batch, learner, n_order, order, gold, weight, rate, decay,
                                 theta, scale, loss, work, where);
}
