/* SPDX-License-Identifier: Apache-2.0
 *
 * The public entry points: checks, then the chosen variant. Compiled once. */

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "checks.h"
#include "difference.h"
#include "target.h"
#include "vec.h"

extern const fc_table fc_table_base;
#ifdef FC_X86_64
extern const fc_table fc_table_v3, fc_table_v4;
#endif

static const fc_table *table = &fc_table_base;
static const char *variant = "base";

const char *fc_text(fc_status status) {
    switch (status) {
        case FC_OK: return "done";
        case FC_EINVAL: return "a size or index is outside what it may be";
        case FC_ENUMERIC: return "NaN or +inf where a potential is expected";
        case FC_ERANGE: return "a sentence cannot be represented in the linear domain";
        case FC_ETARGET: return "this machine or build lacks the kernel variant";
        case FC_EFULL: return "no room for another string";
        case FC_EROW: return "a line has other fields than it must have";
        case FC_EPAUSED: return "not yet done: call again";
    }
    return "unknown status";
}

const char *fc_variant(void) { return variant; }

static fc_status choose(const fc_table *chosen, const char *name) {
    table = chosen;
    variant = name;
    return FC_OK;
}

fc_status fc_use(const char *name) {
    if (name == NULL) return FC_EINVAL;
    const int automatic = strcmp(name, "auto") == 0;
#ifdef FC_X86_64
    __builtin_cpu_init();
    if (automatic || strcmp(name, "v4") == 0) {
        if (__builtin_cpu_supports("x86-64-v4")) return choose(&fc_table_v4, "v4");
        if (!automatic) return FC_ETARGET;
    }
    if (automatic || strcmp(name, "v3") == 0) {
        if (__builtin_cpu_supports("x86-64-v3")) return choose(&fc_table_v3, "v3");
        if (!automatic) return FC_ETARGET;
    }
#endif
    if (automatic || strcmp(name, "base") == 0) return choose(&fc_table_base, "base");
    return FC_ETARGET;
}

/* --- Entry points -------------------------------------------------------------------------- */

int64_t fc_work_size(const fc_graph *g, int64_t longest) {
    const int64_t P = fc_padded(g->S);
    const int64_t size = g->A == 0 ? g->S * P : fc_padded(g->A);
    return 3 * size + 2 * (fc_padded(size) / 8) + 3 * longest * P + longest + 4 * P +
           fc_padded(2 * P) / 8;
}

int64_t fc_learner_work(const fc_graph *g, const fc_learner *learner, int64_t longest) {
    return longest * (learner->W + 2 * g->S) + 2 * arcs_of(g) + 2 * g->S + fc_work_size(g, longest);
}

int64_t fc_difference_work(const fc_graph *g, const fc_batch *batch, const fc_learner *learner) {
    int64_t where, longest = 0;
    if (check_offsets(batch, &where) != FC_OK) return 0;
    for (int64_t b = 0; b < batch->B; b++) {
        const int64_t T = batch->offsets[b + 1] - batch->offsets[b];
        longest = T > longest ? T : longest;
    }
    return fc_learner_work(g, learner, longest) + difference_room(most_cells(batch, learner));
}

static int domain_known(fc_domain domain) {
    return domain == FC_AUTO || domain == FC_LINEAR || domain == FC_LOG;
}

fc_status fc_log_partition(const fc_graph *graph, const fc_batch *batch, fc_domain domain,
                           double *log_z, double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_offsets(batch, where);
    if (status != FC_OK) return status;
    return table->log_partition(graph, batch, domain, log_z, work, where);
}

fc_status fc_forward_backward(const fc_graph *graph, const fc_batch *batch, fc_domain domain,
                              const double *weight, double *log_z, double *node, double *arc,
                              double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_offsets(batch, where);
    if (status != FC_OK) return status;
    return table->forward_backward(graph, batch, domain, weight, log_z, node, arc, work, where);
}

fc_status fc_viterbi(const fc_graph *graph, const fc_batch *batch, int32_t *path, double *score,
                     double *work) {
    int64_t where;
    const fc_status status = check_offsets(batch, &where);
    if (status == FC_OK) table->viterbi(graph, batch, path, score, work);
    return status;
}

fc_status fc_max_marginals(const fc_graph *graph, const fc_batch *batch, double *out,
                           double *work) {
    int64_t where;
    const fc_status status = check_offsets(batch, &where);
    if (status == FC_OK) table->max_marginals(graph, batch, out, work);
    return status;
}

fc_status fc_maxima(const fc_graph *graph, const fc_batch *batch, int32_t *path, double *score,
                    double *marginal, double *forward, double *ahead, double *work) {
    int64_t where;
    const fc_status status = check_offsets(batch, &where);
    if (status == FC_OK) table->maxima(graph, batch, path, score, marginal, forward, ahead, work);
    return status;
}

fc_status fc_scatter(int64_t K, const int64_t *token, const int64_t *slot, const double *mass,
                     int64_t N, int64_t R, int64_t W, const int64_t *indptr, const int32_t *index,
                     const float *value, const int32_t *place, double *out, int64_t *where) {
    *where = 0;
    if (K < 0 || N < 0 || R < 0 || W < 1) return FC_EINVAL;
    for (int64_t k = 0; k < K; k++) {
        *where = k;
        if (token[k] < 0 || token[k] >= N || slot[k] < 0 || slot[k] >= W) return FC_EINVAL;
    }
    table->scatter(K, token, slot, mass, W, indptr, index, value, place, out);
    return FC_OK;
}

fc_status fc_gather(int64_t N, int64_t R, int64_t W, const int64_t *indptr, const int32_t *index,
                    const float *value, const double *weights, double *out) {
    if (N < 0 || R < 0 || W < FC_LANES || W % FC_LANES != 0) return FC_EINVAL;
    table->gather(N, W, indptr, index, value, weights, out);
    return FC_OK;
}

static fc_status check_learner(const fc_graph *graph, const fc_batch *batch,
                               const fc_learner *learner, int64_t n_order, const int64_t *order,
                               int64_t *where) {
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
        table->perceptron(graph, batch, learner, n_order, order, gold, weight, theta, sums, step,
                          errors, loss, work);
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
    return table->passive_aggressive(graph, batch, learner, n_order, order, gold, weight, kind,
                                     aggressiveness, errors_count, theta, sums, step, loss, work,
                                     where);
}

fc_status fc_arow(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                  int64_t n_order, const int64_t *order, const int32_t *gold, const double *weight,
                  double gamma, fc_parameters *theta, fc_parameters *variance, double *loss,
                  double *work, int64_t *where) {
    const fc_status status = check_learner(graph, batch, learner, n_order, order, where);
    if (status != FC_OK) return status;
    if (!(gamma > 0.0)) return FC_EINVAL;
    return table->arow(graph, batch, learner, n_order, order, gold, weight, gamma, theta, variance,
                       loss, work, where);
}

fc_status fc_sgd(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                 int64_t n_order, const int64_t *order, const int32_t *gold, const double *weight,
                 const double *rate, double decay, fc_parameters *theta, double *scale,
                 double *loss, double *work, int64_t *where) {
    const fc_status status = check_learner(graph, batch, learner, n_order, order, where);
    if (status != FC_OK) return status;
    return table->sgd(graph, batch, learner, n_order, order, gold, weight, rate, decay, theta,
                      scale, loss, work, where);
}

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
    return table->propose(graph, batch, learner, n_order, order, bandit, descent, uniform, path,
                          other, node, arc, log_p, work, where);
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
        table->judge_paths(batch, learner, n_order, order, bandit, judge, path, other, reward);
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
    return table->reinforce(graph, batch, learner, n_order, order, bandit, baseline, descent,
                            reward, log_p, node, arc, coefficient, work, where);
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
    return table->feedback_epoch(graph, batch, learner, n_order, order, bandit, judge, baseline,
                                 descent, uniform, reward, log_p, coefficient, work, where);
}

int64_t fc_gibbs_work(const fc_graph *graph, const fc_labelling *lab, int64_t longest) {
    const int64_t P = fc_padded(graph->S);
    return graph->S * (P + graph->S) + longest * P + 2 * P + 2 * lab->L + longest;
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
        table->gibbs(graph, batch, lab, agree, sweeps, temperature, whole, uniform, path, score,
                     best, best_score, work);
    return status;
}

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
    return table->sweep_work(graph, shard);
}

fc_status fc_sweep(const fc_graph *graph, const fc_shard *shard, const float *weight,
                   float *gradient, double *loss, double *arc, double *begin, double *end,
                   int64_t *rescued, double *work) {
    if (graph->A != 0 || graph->moving) return FC_EINVAL;
    table->sweep(graph, shard, weight, gradient, loss, arc, begin, end, rescued, work);
    return FC_OK;
}

fc_status fc_spread(const fc_shard *shard, const fc_layout *layout, const double *theta,
                    float *weight) {
    table->spread(shard, layout, theta, weight);
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
    table->collect(shard, layout, m, row_runs, k, single_runs, gradient, theta);
    return FC_OK;
}

fc_status fc_dots(int64_t m, int64_t k, int64_t n, int64_t stride, const float *rows,
                  int64_t x_stride, const double *x, double *out) {
    if (m < 0 || k < 1 || n < 0 || stride < n || x_stride < n) return FC_EINVAL;
    table->dots(m, k, n, stride, rows, x_stride, x, out);
    return FC_OK;
}

fc_status fc_combine(int64_t m, int64_t n, int64_t stride, const float *rows,
                     const double *coefficient, double *out) {
    if (m < 0 || n < 0 || stride < n) return FC_EINVAL;
    table->combine(m, n, stride, rows, coefficient, out);
    return FC_OK;
}

fc_status fc_packed_size(int64_t R, int64_t W, int64_t M, const int64_t *cells, int64_t least,
                         int64_t *rows, int64_t *entries, int64_t *where) {
    *where = 0;
    if (R < 0 || R >= INT32_MAX || M < 0 || M >= INT32_MAX || least < 1 || W < FC_LANES ||
        W % FC_LANES != 0)
        return FC_EINVAL;
    for (int64_t k = 0; k < M; k++)
        if (cells[k] < (k > 0 ? cells[k - 1] + 1 : 0) || cells[k] >= R * W)
            return fail(FC_EINVAL, k, where);
    table->packed_size(W, M, cells, least, rows, entries);
    return FC_OK;
}

fc_status fc_pack(int64_t R, int64_t W, int64_t M, const int64_t *cells, const double *weight,
                  int64_t least, int32_t *place, double *padded, fc_entry *entry) {
    if (R < 0 || M < 0 || least < 1 || W < FC_LANES || W % FC_LANES != 0) return FC_EINVAL;
    table->pack(R, W, M, cells, weight, least, place, padded, entry);
    return FC_OK;
}

fc_status fc_gather_packed(int64_t N, const fc_packed *packed, const int64_t *indptr,
                           const int32_t *index, const float *value, int64_t S, double *out,
                           double *sum) {
    if (N < 0 || packed->W < FC_LANES || packed->W % FC_LANES != 0 || S < 0 || S > packed->W)
        return FC_EINVAL;
    table->gather_packed(N, packed, indptr, index, value, S, out, sum);
    return FC_OK;
}

fc_status fc_fill_slots(int64_t n, const uint64_t *key, const int32_t *row, int64_t size,
                        int64_t shift, fc_slot *slot) {
    if (n < 0 || shift < 1 || shift > 63 || size != (int64_t)1 << (64 - shift) || n >= size)
        return FC_EINVAL;
    table->fill_slots(n, key, row, size, shift, slot);
    return FC_OK;
}

fc_status fc_find_rows(int64_t B, const int64_t *offsets, int64_t K, int64_t stride,
                       const int32_t *codes, int64_t reach, int64_t F, const fc_family *families,
                       int32_t *rows, int64_t *where) {
    *where = 0;
    if (B < 0 || reach < 0 || offsets[0] < 0 || offsets[B] > stride) return FC_EINVAL;
    for (int64_t b = 0; b < B; b++)
        if (offsets[b] > offsets[b + 1]) return fail(FC_EINVAL, b, where);
    for (int64_t f = 0; f < F; f++) {
        const fc_family *family = families + f;
        if (family->direct == NULL && (family->shift < 1 || family->shift > 63 ||
                                       family->size != (int64_t)1 << (64 - family->shift)))
            return fail(FC_EINVAL, f, where);
        for (int64_t m = 0; m < family->M; m++) {
            const fc_term *term = family->term + m;
            if (term->column < 0 || term->column >= K || term->width < 0 || term->width > 63 ||
                (term->pads && reach < (term->offset < 0 ? -term->offset : term->offset)))
                return fail(FC_EINVAL, f, where);
        }
    }
    table->find_rows(B, offsets, stride, codes, reach, F, families, rows);
    return FC_OK;
}

fc_status fc_compact_rows(int64_t N, int64_t F, const int32_t *rows, int64_t *indptr,
                          int32_t *index) {
    int64_t at = 0;
    if (N < 0 || F < 0) return FC_EINVAL;
    indptr[0] = 0;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            index[at] = rows[n * F + f];
            at += rows[n * F + f] >= 0;
        }
        indptr[n + 1] = at;
    }
    return FC_OK;
}

fc_status fc_inner(int64_t n, const double *x, const double *y, double *out) {
    if (n < 0) return FC_EINVAL;
    *out = table->inner(n, x, y);
    return FC_OK;
}

/* --- Compositions -------------------------------------------------------------------------- */

int64_t fc_machine_work(const fc_machine *machine, int64_t longest) {
    return table->machine_work(machine, longest);
}

int64_t fc_queue_size(const fc_machine *machine, int64_t n, int64_t longest) {
    return table->queue_size(machine, n, longest);
}

fc_status fc_machine_best(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int32_t *path, double *score, double *work) {
    int64_t where;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status == FC_OK) table->machine_best(machine, B, offsets, path, score, work);
    return status;
}

fc_status fc_machine_nbest(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                           int32_t *path, double *score, int64_t *count, double *work,
                           double *queue) {
    int64_t where;
    if (n < 1 || n > INT32_MAX) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status == FC_OK)
        table->machine_nbest(machine, B, offsets, n, path, score, count, work, queue);
    return status;
}

fc_status fc_machine_log_partition(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   fc_domain domain, double *log_z, double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, where);
    if (status != FC_OK) return status;
    return table->machine_log_partition(machine, B, offsets, domain, log_z, work, where);
}

fc_status fc_machine_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                               fc_domain domain, double *log_z, double *const *node,
                               double *const *arc, double *entropy, double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, where);
    if (status != FC_OK) return status;
    return table->machine_marginals(machine, B, offsets, domain, log_z, node, arc, entropy, work,
                                    where);
}

fc_status fc_machine_max_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   double *const *node, double *work) {
    int64_t where;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status == FC_OK) table->machine_max_marginals(machine, B, offsets, node, work);
    return status;
}

fc_status fc_machine_dead(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int64_t *position, double *work) {
    int64_t where;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status == FC_OK) table->machine_dead(machine, B, offsets, position, work);
    return status;
}

fc_status fc_machine_sample(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                            const double *uniform, int32_t *path, double *work) {
    int64_t where;
    if (n < 0) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status == FC_OK) table->machine_sample(machine, B, offsets, n, uniform, path, work);
    return status;
}

/* Variants are in order and change tokens of their sentence, rising. */
static int variants_ok(int64_t B, const int64_t *offsets, int64_t C, const int64_t *sentence,
                       const int64_t *ptr, const int32_t *token) {
    if (C < 0 || ptr[0] != 0) return 0;
    for (int64_t c = 0; c < C; c++) {
        if (sentence[c] < 0 || sentence[c] >= B || ptr[c] > ptr[c + 1]) return 0;
        if (c > 0 && sentence[c - 1] > sentence[c]) return 0;
        const int64_t T = offsets[sentence[c] + 1] - offsets[sentence[c]];
        for (int64_t k = ptr[c]; k < ptr[c + 1]; k++)
            if (token[k] < 0 || token[k] >= T || (k > ptr[c] && token[k - 1] >= token[k])) return 0;
    }
    return 1;
}

fc_status fc_machine_rescore(const fc_machine *machine, int64_t B, const int64_t *offsets,
                             int64_t C, const int64_t *sentence, const int64_t *ptr,
                             const int32_t *token, const double *node, int best, double *total,
                             double *work, int64_t *where) {
    const fc_status status = check_bounds(B, offsets, where);
    if (status != FC_OK) return status;
    if (machine->axes != 1 || !variants_ok(B, offsets, C, sentence, ptr, token)) return FC_EINVAL;
    return table->machine_rescore(machine, B, offsets, C, sentence, ptr, token, node, best, total,
                                  work, where);
}

fc_status fc_lazy_nbest(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                        const int64_t *offsets, int64_t n, int64_t limit, int64_t width,
                        int64_t steps, int give_up, fc_arena *arena, int32_t *path, double *score,
                        int64_t *count, int64_t *proven, double *bound, int64_t *popped,
                        double *work) {
    int64_t where;
    const fc_arena *a = arena;
    if (n < 1 || n > INT32_MAX || width < 1 || width > INT32_MAX || steps < 1) return FC_EINVAL;
    if (a->visit_room > INT32_MAX || a->slots < 2 * a->visit_room || a->queue_room < 2 ||
        (a->slots & (a->slots - 1)) != 0 || a->sentence < 0 || a->sentence > B || a->stamp < 0 ||
        a->stamp + B - a->sentence > INT32_MAX)
        return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status != FC_OK) return status;
    return table->lazy_nbest(machine, grammar, B, offsets, n, limit, width, steps, give_up, arena,
                             path, score, count, proven, bound, popped, work);
}
