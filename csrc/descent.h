/* SPDX-License-Identifier: Apache-2.0
 *
 * One sparse step along the features of a sentence: constant rate, momentum or ADADELTA, each with L2
 * as decay. True parameters are scale * theta, so that decay is free. A row is updated lazily: the
 * changes that a dense method would make between two visits are made at the next visit, exactly:
 *
 *   momentum   v_{t+n} = r^n v_t        theta_{t+n} = theta_t + v_t (r + r^2 + ... + r^n)
 *   ADADELTA   both means decay by rho^n; a gradient of zero has no other effect */
#ifndef FSTCRF_DESCENT_H
#define FSTCRF_DESCENT_H

#include "learner.h"

#define FC_BLOCK 64 /* rows whose decay is computed at a time */

/* The factor by which a step shrinks the weights. A gradient moves them by rate / (1 - momentum) in
 * total, and so does decay: the penalty is the same for every momentum. */
static inline double kept(const fc_descent *d) {
    return 1.0 - d->rate * d->decay / (d->rule == FC_MOMENTUM ? 1.0 - d->momentum : 1.0);
}

/* In units of theta, velocities decay by less than the momentum if theta itself decays. */
static inline double velocity_ratio(const fc_descent *d) { return d->momentum / kept(d); }

/* Remaining share of a row's means or velocities at a step: ratio^(steps without it), from its log. */
static inline void faded(int64_t n, double log_ratio, int64_t step, const int64_t *touched,
                         const int32_t *rows, double *restrict left) {
    for (int64_t k = 0; k < n; k++) left[k] = (double)(step - touched[rows[k]]);
    for (int64_t k = 0; k < n; k++) left[k] = left[k] > 0.0 ? fc_exp(log_ratio * left[k]) : 1.0;
}

static inline void prefetch_rows(const fc_descent *d, int64_t W, int64_t row) {
    prefetch_row(W, d->theta->table + row * W);
    if (d->rule == FC_CONSTANT) return;
    prefetch_row(W, d->first->table + row * W);
    if (d->rule == FC_ADADELTA) prefetch_row(W, d->second->table + row * W);
    __builtin_prefetch(d->touched + row, 1);
    __builtin_prefetch(d->place + row, 1);
}

/* Brings one row of weights and velocities up to a step, given r^n. */
FC_INLINE void catch_up(int64_t W, double r, double fallen, double *restrict x,
                        double *restrict v) {
    const double gone = r * (1.0 - fallen) / (1.0 - r);
    for (int64_t j = 0; j < W; j++) {
        x[j] += v[j] * gone;
        v[j] *= fallen;
    }
}

FC_INLINE void catch_up_rows(int64_t W, const fc_learner *l, fc_descent *d, int64_t first,
                             int64_t T) {
    const double r = velocity_ratio(d), log_r = log(r);
    const int64_t start = l->indptr[first], end = l->indptr[first + T];
    double fallen[FC_BLOCK];
    for (int64_t k = start; k < end; k++) {
        const int64_t place = (k - start) % FC_BLOCK;
        if (place == 0) {
            const int64_t n = end - k < FC_BLOCK ? end - k : FC_BLOCK;
            faded(n, log_r, *d->step, d->touched, l->index + k, fallen);
        }
        prefetch_rows(d, W, l->index[k + FC_AHEAD < end ? k + FC_AHEAD : k]);
        const int64_t row = l->index[k];
        if (d->touched[row] == *d->step) continue;
        catch_up(W, r, fallen[place], d->theta->table + row * W, d->first->table + row * W);
        d->touched[row] = *d->step;
    }
}

/* Must be called before the weights of a sentence are read. Loops over common widths are compiled
   separately. */
static inline void catch_up_tokens(const fc_learner *l, fc_descent *d, int64_t first, int64_t T) {
    if (d->rule != FC_MOMENTUM) return;
    if (l->W == 8)
        catch_up_rows(8, l, d, first, T);
    else if (l->W == 16)
        catch_up_rows(16, l, d, first, T);
    else
        catch_up_rows(l->W, l, d, first, T);
}

/* One step of n parameters with gradient g; `fallen`: the remaining share of their means. */
FC_INLINE void step_momentum(int64_t n, double r, double rate, const double *restrict g,
                             double *restrict x, double *restrict v) {
    for (int64_t j = 0; j < n; j++) {
        v[j] = r * v[j] - rate * g[j];
        x[j] += v[j];
    }
}

FC_INLINE void step_adadelta(int64_t n, const fc_descent *d, double rate, double fallen,
                             const double *restrict g, double *restrict x, double *restrict squares,
                             double *restrict changes) {
    const double rho = d->rho, epsilon = d->epsilon, old = rho * fallen, fresh = 1.0 - rho;
    for (int64_t j = 0; j < n; j++) {
        const double a = old * squares[j] + fresh * g[j] * g[j], b = changes[j];
        const double change = sqrt((fallen * b + epsilon) / (a + epsilon)) * g[j];
        squares[j] = a;
        changes[j] = old * b + fresh * change * change;
        x[j] -= rate * change;
    }
}

static inline void step_dense(const fc_descent *d, int64_t n, double rate, const double *g,
                              double *x, double *first, double *second) {
    if (d->rule == FC_MOMENTUM) {
        step_momentum(n, velocity_ratio(d), rate, g, x, first);
    } else if (d->rule == FC_ADADELTA) {
        step_adadelta(n, d, rate, 1.0, g, x, first, second);
    } else {
        for (int64_t j = 0; j < n; j++) x[j] -= rate * g[j];
    }
}

static inline void slot_gradient(int64_t S, const fc_learner *l, double c,
                                 const double *restrict node, double *restrict g) {
    fc_fill(l->W, 0.0, g);
    for (int64_t s = 0; s < S; s++)
        for (int64_t k = 0; k < l->K; k++) g[l->slot[s * l->K + k]] += c * node[s];
}

/* x += v * g, at trained weights. */
FC_INLINE void add_row(int64_t W, const fc_learner *l, int64_t row, double v,
                       const double *restrict g, double *restrict x) {
    if (l->mask == NULL) {
        fc_axpy(W, v, g, x);
        return;
    }
    const uint8_t *restrict mask = l->mask + row * W;
    for (int64_t j = 0; j < W; j++) x[j] += v * g[j] * (double)mask[j];
}

/* The constant rate needs no sums over the tokens of a row. */
FC_INLINE void step_rows(int64_t W, int64_t S, const fc_learner *l, fc_descent *d, int64_t first,
                         int64_t T, double c, const double *node, double *g) {
    for (int64_t t = 0; t < T; t++) {
        slot_gradient(S, l, c, node + t * S, g);
        for (int64_t k = l->indptr[first + t]; k < l->indptr[first + t + 1]; k++)
            add_row(W, l, l->index[k], l->value == NULL ? -1.0 : -(double)l->value[k], g,
                    d->theta->table + l->index[k] * W);
    }
}

/* Sums the gradient of each row of a sentence in d->sums; returns the number of rows. d->place [R] and
 * d->rows list them: row x is the k-th when place[x] = k and rows[k] = x, whatever else place
 * contains. */
FC_INLINE int64_t sum_rows(int64_t W, int64_t S, const fc_learner *l, const fc_descent *d,
                           int64_t first, int64_t T, double c, const double *node, double *g) {
    int64_t used = 0;
    for (int64_t t = 0; t < T; t++) {
        slot_gradient(S, l, c, node + t * S, g);
        for (int64_t k = l->indptr[first + t]; k < l->indptr[first + t + 1]; k++) {
            const int32_t row = l->index[k];
            int64_t at = d->place[row];
            if (at >= used || d->rows[at] != row) {
                at = used++;
                d->place[row] = (int32_t)at;
                d->rows[at] = row;
                prefetch_rows(d, W, row);
                fc_fill(W, 0.0, d->sums + at * W);
            }
            add_row(W, l, row, l->value == NULL ? 1.0 : (double)l->value[k], g, d->sums + at * W);
        }
    }
    return used;
}

/* Slots of a row without padding, in half registers: the square roots dominate the time. */
static inline int64_t slots_of(int64_t S, const fc_learner *l) {
    int32_t most = 0;
    for (int64_t k = 0; k < S * l->K; k++) most = l->slot[k] > most ? l->slot[k] : most;
    return (most + FC_LANES / 2) / (FC_LANES / 2) * (FC_LANES / 2);
}

/* Steps each row once, by its sum. */
FC_INLINE void step_summed_rows(int64_t W, int64_t slots, fc_descent *d, int64_t used,
                                double rate) {
    const double r = velocity_ratio(d), log_ratio = log(d->rule == FC_MOMENTUM ? r : d->rho);
    double fallen[FC_BLOCK];
    for (int64_t k = 0; k < used; k++) {
        if (k % FC_BLOCK == 0) {
            const int64_t n = used - k < FC_BLOCK ? used - k : FC_BLOCK;
            faded(n, log_ratio, *d->step, d->touched, d->rows + k, fallen);
        }
        prefetch_rows(d, W, d->rows[k + FC_AHEAD < used ? k + FC_AHEAD : k]);
        const int64_t row = d->rows[k] * W;
        double *x = d->theta->table + row, *v = d->first->table + row;
        const double *g = d->sums + k * W, left = fallen[k % FC_BLOCK];
        if (d->rule == FC_MOMENTUM) {
            if (left < 1.0) catch_up(W, r, left, x, v);
            step_momentum(W, r, rate, g, x, v);
        } else {
            step_adadelta(slots, d, rate, left, g, x, v, d->second->table + row);
        }
        d->touched[d->rows[k]] = *d->step + 1;
    }
}

FC_INLINE void step_tokens(int64_t W, int64_t slots, int64_t S, const fc_learner *l, fc_descent *d,
                           int64_t first, int64_t T, double c, double rate, const double *node,
                           double *g) {
    if (d->rule == FC_CONSTANT)
        step_rows(W, S, l, d, first, T, rate * c, node, g);
    else
        step_summed_rows(W, slots, d, sum_rows(W, S, l, d, first, T, c, node, g), rate);
}

#define FC_LONGEST 1e100 /* a longer step has diverged, and sums lose all precision */

/* Whether a step is possible for a signal, minus any control that came from finite signals. */
static inline int step_is_finite(const fc_descent *d, double signal) {
    const double scale = *d->scale * kept(d);
    return scale > 1e-200 && fabs(signal) < 1e290 && fabs(d->rate / scale * signal) < FC_LONGEST;
}

/* The step itself: true parameters lose rate * decay of themselves, then move along -c * direction.
 *   node [T][S], arc [M]  the direction
 *   g    [T][W]           scratch */
static inline void descend_along(int64_t S, const fc_learner *l, fc_descent *d, int64_t first,
                                 int64_t T, double c, const double *node, const double *arc,
                                 double *g) {
    const double scale = *d->scale * kept(d), rate = d->rate / scale;
    double *arcs = d->small;
    *d->scale = scale;
    const int64_t slots = slots_of(S, l);
    if (l->W == 8 && slots == 4)
        step_tokens(8, 4, S, l, d, first, T, c, rate, node, g);
    else if (l->W == 8)
        step_tokens(8, 8, S, l, d, first, T, c, rate, node, g);
    else if (l->W == 16 && slots == 12)
        step_tokens(16, 12, S, l, d, first, T, c, rate, node, g);
    else if (l->W == 16)
        step_tokens(16, 16, S, l, d, first, T, c, rate, node, g);
    else
        step_tokens(l->W, l->W, S, l, d, first, T, c, rate, node, g);
    const fc_parameters *x = d->theta, *one = d->first, *two = d->second;
    for (int64_t m = 0; m < l->M; m++) arcs[m] = l->arc_mask[m] ? c * arc[m] : 0.0;
    step_dense(d, l->M, rate, arcs, x->arc, one->arc, two->arc);
    if (l->ends) {
        for (int64_t s = 0; s < S; s++) {
            arcs[s] = c * node[s];
            arcs[S + s] = c * node[(T - 1) * S + s];
        }
        step_dense(d, S, rate, arcs, x->initial, one->initial, two->initial);
        step_dense(d, S, rate, arcs + S, x->final, one->final, two->final);
    }
    *d->step += 1;
}

#endif
