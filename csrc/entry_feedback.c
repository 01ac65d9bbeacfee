/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of learning from rewards: proposals, their judges, steps along rewards. */

#include "entry.h"

int64_t fc_feedback_work(const fc_graph *g, const fc_learner *learner, int64_t longest) {
    return fc_learner_work(g, learner, longest) + longest * (g->S + 1) + learner->M;
}

static fc_status check_bandit(const fc_graph *graph, const fc_batch *batch,
                              const fc_learner *learner, int64_t n_order, const int64_t *order,
                              const fc_bandit *bandit, int64_t *where) {
    const fc_status status = check_learner(graph, batch, learner, n_order, order, where);
    if (status != FC_OK) return status;
    if (bandit->objective != FC_EXPECTED_LOSS && bandit->objective != FC_PREFERENCE &&
        bandit->objective != FC_CROSS_ENTROPY)
        return FC_EINVAL;
    return bandit->temperature > 0.0 && bandit->clip >= 0.0 ? FC_OK : FC_EINVAL;
}

static fc_status check_descent(const fc_descent *d) {
    if (!(d->rate > 0.0) || !(d->decay >= 0.0) || !(d->rate * d->decay < 1.0)) return FC_EINVAL;
    if (d->rule == FC_CONSTANT) return FC_OK;
    if (d->rule == FC_MOMENTUM) {
        const double kept = 1.0 - d->rate * d->decay / (1.0 - d->momentum);
        return d->momentum >= 0.0 && d->momentum < 1.0 && d->momentum < kept ? FC_OK : FC_EINVAL;
    }
    return d->rule == FC_ADADELTA && d->rho > 0.0 && d->rho < 1.0 && d->epsilon > 0.0 ? FC_OK
                                                                                      : FC_EINVAL;
}

static fc_status check_judge(const fc_batch *batch, const fc_learner *learner, int64_t n_states,
                             const fc_judge *judge, int64_t *where) {
    const int64_t N = batch->offsets[batch->B];
    for (int64_t s = 0; s < n_states; s++)
        if (learner->label[s] < 0 || learner->label[s] >= judge->L)
            return fail(FC_EINVAL, s, where);
    for (int64_t n = 0; n < N; n++)
        if (judge->gold[n] < 0 || judge->gold[n] >= judge->L) return fail(FC_EINVAL, n, where);
    return FC_OK;
}

fc_status fc_propose(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                     int64_t n_order, const int64_t *order, const fc_bandit *bandit,
                     fc_descent *descent, const double *uniform, int32_t *path, int32_t *other,
                     double *node, double *arc, double *log_p, double *work, int64_t *where) {
    fc_status status = check_bandit(graph, batch, learner, n_order, order, bandit, where);
    if (status == FC_OK) status = check_descent(descent);
    if (status == FC_OK && bandit->objective == FC_PREFERENCE && other == NULL) status = FC_EINVAL;
    if (status != FC_OK) return status;
    return dispatch_table()->propose(graph, batch, learner, n_order, order, bandit, descent,
                                     uniform, path, other, node, arc, log_p, work, where);
}

fc_status fc_judge_paths(const fc_batch *batch, const fc_learner *learner, int64_t n_order,
                         const int64_t *order, const fc_bandit *bandit, const fc_judge *judge,
                         const int32_t *path, const int32_t *other, double *reward) {
    int64_t where;
    fc_status status = check_offsets(batch, &where);
    if (status == FC_OK) status = check_judge(batch, learner, 0, judge, &where);
    for (int64_t k = 0; status == FC_OK && k < n_order; k++)
        if (order[k] < 0 || order[k] >= batch->B) status = FC_EINVAL;
    if (status == FC_OK && bandit->objective == FC_PREFERENCE && other == NULL) status = FC_EINVAL;
    if (status == FC_OK)
        dispatch_table()->judge_paths(batch, learner, n_order, order, bandit, judge, path, other,
                                      reward);
    return status;
}

fc_status fc_reinforce(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                       int64_t n_order, const int64_t *order, const fc_bandit *bandit,
                       fc_baseline *baseline, fc_descent *descent, const double *reward,
                       const double *log_p, const double *node, const double *arc,
                       double *coefficient, double *work, int64_t *where) {
    fc_status status = check_bandit(graph, batch, learner, n_order, order, bandit, where);
    if (status == FC_OK) status = check_descent(descent);
    if (status != FC_OK) return status;
    return dispatch_table()->reinforce(graph, batch, learner, n_order, order, bandit, baseline,
                                       descent, reward, log_p, node, arc, coefficient, work, where);
}

fc_status fc_feedback_epoch(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                            int64_t n_order, const int64_t *order, const fc_bandit *bandit,
                            const fc_judge *judge, fc_baseline *baseline, fc_descent *descent,
                            const double *uniform, double *reward, double *log_p,
                            double *coefficient, double *work, int64_t *where) {
    fc_status status = check_bandit(graph, batch, learner, n_order, order, bandit, where);
    if (status == FC_OK) status = check_descent(descent);
    if (status == FC_OK) status = check_judge(batch, learner, graph->S, judge, where);
    if (status != FC_OK) return status;
    return dispatch_table()->feedback_epoch(graph, batch, learner, n_order, order, bandit, judge,
                                            baseline, descent, uniform, reward, log_p, coefficient,
                                            work, where);
}
