/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning from rewards: samples a labelling, receives its reward, makes a step. Exact samples are
 * drawn by forward filtering and backward sampling. */

#include "descent.h"
#include "learner.h"
#include "checks.h"

static int64_t sentence_length(const fc_batch *batch, int64_t b) {
    return batch->offsets[b + 1] - batch->offsets[b];
}

/* --- Samples --------------------------------------------------------------------------------- */

/* m->row[i] proportional to P(state i at token t | state j at t + 1), from the forward rows */
static void predecessors(tensor *m, int64_t t, int32_t j) {
    const loaded_axis *a = &m->axis[0];
    const int logs = m->loaded == 1 + LOG_PLUS;
    const double *restrict F = m->begun + t * m->P;
    double *restrict p = m->row;
    if (a->dense) {
        const double *restrict into = a->turned + j * m->P;
        for (int64_t i = 0; i < m->P; i++) p[i] = logs ? F[i] + into[i] : F[i] * into[i];
    } else {
        fc_fill(m->P, logs ? FC_NEVER : 0.0, p);
        for (int64_t k = 0; k < a->arcs; k++) {
            if (a->axis->target[k] != j) continue;
            const int32_t i = a->axis->source[k];
            p[i] = logs ? F[i] + a->weight[k] : F[i] * a->weight[k];
        }
    }
    if (!logs) return;
    const double top = fc_max(m->P, p);
    for (int64_t i = 0; i < m->P; i++) p[i] = fc_exp(p[i] - top);
}

/* An exact sample of a sentence whose forward rows and posteriors are known. */
static int draw_path(tensor *m, int64_t T, const double *posterior, const double *uniform,
                     int32_t *path) {
    const int64_t S = m->S;
    path[T - 1] = (int32_t)drawn(S, posterior + (T - 1) * S, uniform[T - 1]);
    for (int64_t t = T - 1; t > 0 && path[t] >= 0; t--) {
        predecessors(m, t - 1, path[t]);
        path[t - 1] = (int32_t)drawn(S, m->row, uniform[t - 1]);
        if (path[t - 1] < 0) return 0;
    }
    return path[T - 1] >= 0;
}

/* --- Proposals ------------------------------------------------------------------------------- */

/* The potentials of p_{-w}; a forbidden label or arc remains forbidden. */
static void negate(online *o, int64_t T) {
    for (int64_t k = 0; k < T * o->S; k++) o->node[k] = -o->node[k];
    for (int64_t a = 0; a < o->arcs; a++) o->arc[a] = o->arc[a] > FC_NEVER ? -o->arc[a] : FC_NEVER;
    for (int64_t s = 0; s < 2 * o->S; s++)
        o->ends[s] = o->ends[s] > FC_NEVER ? -o->ends[s] : FC_NEVER;
    o->m.loaded = 0;
}

/* Draws a path, or takes the given one if uniform is NULL, and adds sign * (its features - their
 * expectation) to the direction. */
static int sample(online *o, int64_t T, double sign, const double *uniform, int32_t *path,
                  double *node, double *arc, double *log_p) {
    const int64_t S = o->S;
    double log_z;
    if (posteriors(o, T, &log_z) != DONE) return 0;
    if (uniform != NULL && !draw_path(&o->m, T, o->out, uniform, path)) return 0;
    collect_outer(&o->m, o->arc_out);
    *log_p = path_score(o, T, path) - log_z;
    if (!isfinite(*log_p)) return 0;
    for (int64_t k = 0; k < T * S; k++) node[k] -= sign * o->out[k];
    for (int64_t t = 0; t < T; t++) node[t * S + path[t]] += sign;
    for (int64_t t = 1; t < T; t++) o->arc_out[arc_of(&o->axis, path[t - 1], path[t])] -= 1.0;
    for (int64_t a = 0; a < o->arcs; a++) arc[o->learner->arc_slot[a]] -= sign * o->arc_out[a];
    return 1;
}

static int of_pairs(const fc_bandit *bandit) {
    return bandit->objective == FC_PREFERENCE || bandit->objective == FC_LOGISTIC;
}

/* One proposal: path, and `other` for a pair; the direction in node [T][S] and arc [M]. */
static int propose(online *o, const fc_bandit *bandit, fc_descent *descent, int64_t first,
                   int64_t T, const double *uniform, int32_t *path, int32_t *other, double *node,
                   double *arc, double *log_p) {
    catch_up_tokens(o->learner, descent, first, T);
    potentials(o, first, T, descent->theta, *descent->scale / bandit->temperature);
    fc_fill(T * o->S, 0.0, node);
    fc_fill(o->learner->M, 0.0, arc);
    if (!sample(o, T, 1.0, uniform, path, node, arc, log_p)) return 0;
    if (!of_pairs(bandit)) return 1;
    double rest;
    if (bandit->objective == FC_PREFERENCE && !bandit->alike) negate(o, T);
    if (!sample(o, T, -1.0, uniform + T, other, node, arc, &rest)) return 0;
    if (bandit->objective == FC_LOGISTIC) *log_p -= rest;
    return 1;
}

static int legal(const online *o, int64_t T, const int32_t *path) {
    for (int64_t t = 0; t < T; t++) {
        if (path[t] < 0 || path[t] >= o->S) return 0;
        if (t > 0 && !has_arc(&o->axis, path[t - 1], path[t])) return 0;
    }
    return 1;
}

/* --- Checks ---------------------------------------------------------------------------------- */

static fc_status check_bandit(const fc_bandit *bandit) {
    if (bandit->objective != FC_EXPECTED_LOSS && bandit->objective != FC_CROSS_ENTROPY &&
        !of_pairs(bandit))
        return FC_EINVAL;
    if (bandit->draws < 1 || (bandit->draws > 1) != (bandit->control == FC_LEAVE_ONE_OUT))
        return FC_EINVAL;
    return bandit->temperature > 0.0 && bandit->clip >= 0.0 && bandit->cap >= 0.0 &&
                   bandit->beta > 0.0
               ? FC_OK
               : FC_EINVAL;
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
    const fc_status status = check_within(n_states, learner->label, 0, judge->L, where);
    if (status != FC_OK) return status;
    return check_within(batch->offsets[batch->B], judge->gold, 0, judge->L, where);
}

/* Groups are whole, each of one sentence. */
static fc_status check_groups(const fc_bandit *bandit, int64_t n_order, const int64_t *order,
                              int64_t *where) {
    const int64_t n = bandit->draws;
    if (n_order % n != 0) return FC_EINVAL;
    for (int64_t k = 0; k < n_order; k++)
        if (order[k] != order[k / n * n]) return fail(FC_EINVAL, k, where);
    return FC_OK;
}

static fc_status check_turns(const fc_machine *machine, const fc_batch *batch,
                             const fc_learner *learner, int64_t n_order, const int64_t *order,
                             const fc_bandit *bandit, const fc_descent *descent,
                             const fc_turns *turns, int64_t *where) {
    const int draws = turns->uniform != NULL, logged = turns->start != NULL;
    const int steps = turns->baseline != NULL, judged = turns->judge != NULL;
    fc_status status = check_bandit(bandit);
    if (status == FC_OK && (draws || logged || steps))
        status = descent == NULL ? FC_EINVAL : check_descent(descent);
    if (status == FC_OK && judged)
        status = check_judge(batch, learner, machine->S, turns->judge, where);
    if (status == FC_OK && (draws || judged) && of_pairs(bandit) && turns->other == NULL)
        status = FC_EINVAL;
    if (status == FC_OK && logged && (draws || of_pairs(bandit))) status = FC_EINVAL;
    if (status == FC_OK && steps && bandit->draws > 1)
        status = draws || logged ? FC_EINVAL : check_groups(bandit, n_order, order, where);
    return status;
}

/* --- Rewards --------------------------------------------------------------------------------- */

/* F1 of the spans of a path; 1 if neither side has a span. */
static double span_reward(const fc_judge *judge, const fc_learner *r, int64_t T,
                          const int32_t *path, const int32_t *gold) {
    const int64_t L = judge->L;
    int64_t right = 0, both = 0, before = L, before_gold = L;
    int matching = 0;
    for (int64_t t = 0; t <= T; t++) {
        const int64_t now = t < T ? r->label[path[t]] : L, now_gold = t < T ? gold[t] : L;
        const uint8_t found = judge->step[before * (L + 1) + now];
        const uint8_t wanted = judge->step[before_gold * (L + 1) + now_gold];
        if (found != 2 || wanted != 2) {
            right += matching && found != 2 && wanted != 2;
            matching = 0;
        }
        both += (found == 1) + (wanted == 1);
        if (found == 1 && wanted == 1 && judge->type[now] == judge->type[now_gold]) matching = 1;
        before = now;
        before_gold = now_gold;
    }
    return both == 0 ? 1.0 : 2.0 * (double)right / (double)both;
}

static double label_reward(const fc_learner *r, int64_t T, const int32_t *path,
                           const int32_t *gold) {
    int64_t right = 0;
    for (int64_t t = 0; t < T; t++) right += r->label[path[t]] == gold[t];
    return (double)right / (double)T;
}

/* A rater's value of a path, including the rater's error. */
static double rating(const fc_judge *judge, const fc_learner *r, int64_t first, int64_t T,
                     const int32_t *path, double error) {
    const int32_t *gold = judge->gold + first;
    return error + (judge->step != NULL ? span_reward(judge, r, T, path, gold)
                                        : label_reward(r, T, path, gold));
}

/* The reward of a pair whose first path is ahead by `ahead`. */
static double preferred(const fc_judge *judge, const fc_bandit *bandit, double ahead) {
    if (bandit->objective == FC_LOGISTIC) {
        const double share =
            judge->graded ? 0.5 + 0.5 * ahead : (ahead > 0.0) + 0.5 * (ahead == 0.0);
        return share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
    }
    if (!(ahead > 0.0)) return 0.0;
    return judge->graded && ahead < 1.0 ? ahead : 1.0;
}

/* The reward of a single path, rounded if rewards are graded. */
static double scaled(const fc_judge *judge, double worth) {
    const double inside = worth < 0.0 ? 0.0 : worth > 1.0 ? 1.0 : worth;
    if (judge->steps == 0) return inside;
    return floor(inside * (double)judge->steps + 0.5) / (double)judge->steps;
}

/* The reward of the k-th proposal; for a pair, how far the first is ahead. */
static double reward_of(const fc_judge *judge, const fc_bandit *bandit, const fc_learner *r,
                        int64_t k, int64_t first, int64_t T, const int32_t *path,
                        const int32_t *other) {
    if (judge->slip != NULL && judge->slip[k] >= 0.0) return judge->slip[k];
    const double *error = judge->error == NULL ? NULL : judge->error + 2 * k;
    const double worth = rating(judge, r, first, T, path, error == NULL ? 0.0 : error[0]);
    if (!of_pairs(bandit)) return scaled(judge, worth);
    const double against = rating(judge, r, first, T, other, error == NULL ? 0.0 : error[1]);
    return preferred(judge, bandit, worth - against);
}

/* --- Steps ----------------------------------------------------------------------------------- */

/* The factor of the direction, before the control variate is subtracted. */
static double signal_of(const fc_bandit *bandit, const fc_turns *h, int64_t k) {
    const double reward = h->reward[k], log_p = h->log_p[k];
    const double drawn = h->drawn == NULL ? log_p : h->drawn[k];
    if (bandit->objective == FC_CROSS_ENTROPY) {
        const double floor = log(bandit->clip); /* -inf: no clipping */
        return -reward * exp(-(drawn > floor ? drawn : floor));
    }
    if (bandit->objective == FC_LOGISTIC)
        return bandit->beta * (1.0 / (1.0 + exp(-bandit->beta * log_p)) - reward);
    if (h->drawn == NULL) return 1.0 - reward;
    const double ratio = exp(log_p - drawn);
    return (1.0 - reward) * (bandit->cap > 0.0 && ratio > bandit->cap ? bandit->cap : ratio);
}

/* The mean signal of the others of a group of samples of one sentence. */
static double others_of(const fc_bandit *bandit, const fc_turns *h, int64_t k) {
    const int64_t n = bandit->draws, group = k / n * n;
    double sum = 0.0;
    for (int64_t i = group; i < group + n; i++) sum += i == k ? 0.0 : signal_of(bandit, h, i);
    return sum / (double)(n - 1);
}

/* The control variate of a sentence before its new signal is known; then learns from it. */
static double baseline_of(const fc_bandit *bandit, fc_baseline *base, int64_t b, double signal) {
    if (bandit->control == FC_NO_CONTROL) return 0.0;
    double *all = base->mean, *own = base->mean + 1 + b;
    const double common = base->count[0] > 0.0 ? *all : signal; /* the first step is zero */
    const double before =
        bandit->control == FC_RUNNING_MEAN || base->count[1 + b] == 0.0 ? common : *own;
    base->count[0] += 1.0;
    const double least = 1.0 / base->count[0];
    *all = common + (signal - common) * (bandit->common_rate > least ? bandit->common_rate : least);
    if (bandit->control == FC_SENTENCE_MEAN) {
        base->count[1 + b] += 1.0;
        *own = before + (signal - before) * bandit->own_rate;
    }
    return before;
}

/* Moves theta along -coefficient * direction. 0: the step is not finite, and theta is unchanged. */
static int learn(online *o, const fc_bandit *bandit, fc_descent *descent, const fc_turns *h,
                 int64_t k, int64_t b, int64_t first, int64_t T, const double *node,
                 const double *arc) {
    const double signal = signal_of(bandit, h, k);
    if (!step_is_finite(descent, signal)) return 0;
    const double before = bandit->control == FC_LEAVE_ONE_OUT
                              ? others_of(bandit, h, k)
                              : baseline_of(bandit, h->baseline, b, signal);
    if (!isfinite(before)) return 0;
    h->coefficient[k] = signal - before;
    descend_along(o->S, o->learner, descent, first, T, h->coefficient[k], node, arc, o->slots);
    return 1;
}

fc_status fc_feedback(const fc_machine *machine, const fc_batch *batch, const fc_learner *learner,
                      int64_t n_order, const int64_t *order, const fc_bandit *bandit,
                      fc_descent *descent, const fc_turns *turns, double *work, int64_t *where) {
    fc_status status = check_learner(machine, batch, learner, n_order, order, where);
    if (status != FC_OK) return status;
    if (work == NULL) {
        *where = learner_room(machine, learner, longest_of(batch->B, batch->offsets));
        return FC_OK;
    }
    status = check_turns(machine, batch, learner, n_order, order, bandit, descent, turns, where);
    if (status != FC_OK) return status;
    online o;
    prepare(&o, machine, batch, learner, work);
    const int64_t draws = of_pairs(bandit) ? 2 : 1;
    for (int64_t k = 0, n = 0; k < n_order; k++) {
        const int64_t b = order[k], first = batch->offsets[b], T = sentence_length(batch, b);
        const int64_t at = turns->keeps ? n : 0;
        int32_t *path = turns->path + (turns->start == NULL ? at : turns->start[k]);
        int32_t *other = turns->other == NULL ? NULL : turns->other + at;
        double *node = turns->node + at * machine->S;
        double *arc = turns->arc + (turns->keeps ? k * learner->M : 0);
        const double *uniform = turns->uniform == NULL ? NULL : turns->uniform + draws * n;
        *where = k;
        if (turns->start != NULL && !legal(&o, T, path)) return FC_EINVAL;
        if ((uniform != NULL || turns->start != NULL) &&
            !propose(&o, bandit, descent, first, T, uniform, path, other, node, arc,
                     turns->log_p + k))
            return FC_ENUMERIC;
        if (turns->judge != NULL)
            turns->reward[k] = reward_of(turns->judge, bandit, learner, k, first, T, path, other);
        if (turns->baseline != NULL &&
            !learn(&o, bandit, descent, turns, k, b, first, T, node, arc))
            return FC_ENUMERIC;
        n += T;
    }
    return FC_OK;
}
