/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning one sentence at a time: averaged perceptron, passive-aggressive steps, adaptive
 * regularisation of weights. */

#include "difference.h"
#include "learner.h"
#include "checks.h"

/* --- Steps along the difference of the gold and the best path ------------------------------------
 *
 * Cells number the parameters: table, arcs, initial, final, in this order. */

static double *place_of(const online *o, const fc_parameters *p, int64_t cell) {
    const int64_t table = o->learner->R * o->learner->W, M = o->learner->M, S = o->S;
    if (cell < table) return p->table + cell;
    cell -= table;
    if (cell < M) return p->arc + cell;
    cell -= M;
    return cell < S ? p->initial + cell : p->final + (cell - S);
}

/* d += c * features of one state at one token */
static void differ_state(const fc_learner *r, int64_t n, int32_t state, double c, difference *d) {
    for (int64_t k = r->indptr[n]; k < r->indptr[n + 1]; k++) {
        const int64_t row = r->index[k] * r->W;
        const double v = r->value == NULL ? c : c * (double)r->value[k];
        for (int64_t i = 0; i < r->K; i++) {
            const int64_t cell = row + r->slot[state * r->K + i];
            if (r->mask[cell]) difference_add(d, cell, v);
        }
    }
}

/* d += c * features of the arcs and ends of a path */
static void differ_path_ends(const online *o, int64_t T, const int32_t *path, double c,
                             difference *d) {
    const fc_learner *r = o->learner;
    const int64_t arcs = r->R * r->W, initial = arcs + r->M, final = initial + o->S;
    for (int64_t t = 1; t < T; t++) {
        const int32_t m = r->arc_slot[arc_of(&o->axis, path[t - 1], path[t])];
        if (r->arc_mask[m]) difference_add(d, arcs + m, c);
    }
    if (r->ends) {
        difference_add(d, initial + path[0], c);
        difference_add(d, final + path[T - 1], c);
    }
}

/* d = features(right) - features(path) */
static void differ(const online *o, int64_t first, int64_t T, const int32_t *right,
                   const int32_t *path, difference *d) {
    difference_clear(d);
    for (int64_t t = 0; t < T; t++) {
        if (path[t] == right[t]) continue;
        differ_state(o->learner, first + t, right[t], 1.0, d);
        differ_state(o->learner, first + t, path[t], -1.0, d);
    }
    differ_path_ends(o, T, right, 1.0, d);
    differ_path_ends(o, T, path, -1.0, d);
}

/* Score of the best path minus the gold path's, NaN if no path exists; *wrong counts its wrong
 * labels. */
static double ahead_of_gold(online *o, int64_t first, int64_t T, const int32_t *right,
                            const fc_parameters *theta, int32_t *path, int64_t *wrong) {
    potentials(o, first, T, theta, 1.0);
    const double best = best_path(o, T, path);
    *wrong = path[0] < 0 ? T : wrong_labels(o->learner, T, path, right);
    if (path[0] < 0) return NAN;
    return *wrong == 0 ? 0.0 : best - path_score(o, T, right);
}

/* Size of a step along d for the loss l, which the perceptron does not read. */
static double step_size(fc_update rule, const difference *d, double l, double limit) {
    if (rule == FC_PERCEPTRON) return 1.0;
    double norm2 = 0.0;
    for (int64_t i = 0; i < d->used; i++) norm2 += d->value[d->listed[i]] * d->value[d->listed[i]];
    if (rule == FC_PA_II) return l / (norm2 + 0.5 / limit);
    if (norm2 == 0.0) return 0.0; /* no parameter that differs is trained */
    return rule == FC_PA_I && l / norm2 > limit ? limit : l / norm2;
}

/* theta += rate d, and sums += step * the same. */
static void move_along(const online *o, const difference *d, double rate, double step,
                       const fc_parameters *theta, const fc_parameters *sums) {
    for (int64_t i = 0; i < d->used; i++) {
        const int64_t cell = d->cell[d->listed[i]];
        const double change = rate * d->value[d->listed[i]];
        *place_of(o, theta, cell) += change;
        *place_of(o, sums, cell) += step * change;
    }
}

/* The step of AROW; 0: it is not finite, and is not made. */
static int adapt(const online *o, const difference *d, double weight, double l, double gamma,
                 const fc_parameters *theta, const fc_parameters *variance) {
    double spread = gamma;
    for (int64_t i = 0; i < d->used; i++) {
        double *c = d->value + d->listed[i];
        *c *= weight;
        spread += *c * *c * *place_of(o, variance, d->cell[d->listed[i]]);
    }
    const double rate = l / spread;
    if (!isfinite(rate)) return 0;
    for (int64_t i = 0; i < d->used; i++) {
        const int64_t cell = d->cell[d->listed[i]];
        const double c = d->value[d->listed[i]];
        double *v = place_of(o, variance, cell);
        *place_of(o, theta, cell) += rate * *v * c;
        *v /= 1.0 + *v * c * c / gamma;
    }
    return 1;
}

static double cost_of(fc_update rule, int errors_count, double wrong) {
    return rule == FC_AROW ? wrong : errors_count ? sqrt(wrong) : 1.0;
}

fc_status fc_online(const fc_machine *machine, const fc_batch *batch, const fc_learner *learner,
                    int64_t n_order, const int64_t *order, const int32_t *gold,
                    const double *weight, fc_update rule, double limit, int errors_count,
                    fc_parameters *theta, fc_parameters *other, double *step, int64_t *errors,
                    double *loss, double *work, int64_t *where) {
    const fc_status status = check_learner(machine, batch, learner, n_order, order, where);
    if (status != FC_OK) return status;
    if (rule < FC_PERCEPTRON || rule > FC_AROW || !(limit > 0.0)) return FC_EINVAL;
    if (work == NULL) {
        *where = learner_room(machine, learner, longest_of(batch->B, batch->offsets)) +
                 difference_room(most_cells(batch, learner));
        return FC_OK;
    }
    online o;
    difference d;
    double *rest = prepare(&o, machine, batch, learner, work);
    difference_lay_out(&d, most_cells(batch, learner), rule == FC_PERCEPTRON, rest);
    int32_t *path = (int32_t *)o.out;
    *errors = 0;
    *loss = 0.0;
    for (int64_t k = 0; k < n_order; k++, *step += 1.0) {
        const int64_t b = order[k], first = batch->offsets[b], T = batch->offsets[b + 1] - first;
        int64_t wrong;
        *where = k;
        const double behind = ahead_of_gold(&o, first, T, gold + first, theta, path, &wrong);
        *errors += wrong;
        if (wrong == 0) continue;
        const double l = rule == FC_PERCEPTRON
                             ? (double)wrong / (double)T
                             : behind + cost_of(rule, errors_count, (double)wrong);
        *loss += weight[b] * l;
        if (!isfinite(l)) return FC_ENUMERIC;
        if (path[0] < 0) continue; /* no path: only the perceptron continues */
        differ(&o, first, T, gold + first, path, &d);
        if (rule == FC_AROW) {
            if (!adapt(&o, &d, weight[b], l, limit, theta, other)) return FC_ENUMERIC;
            continue;
        }
        const double rate = weight[b] * step_size(rule, &d, l, limit);
        if (!isfinite(rate)) return FC_ENUMERIC;
        move_along(&o, &d, rate, *step, theta, other);
    }
    return FC_OK;
}
