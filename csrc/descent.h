/* SPDX-License-Identifier: Apache-2.0
 *
 * One sparse step along the features of a sentence: constant rate, momentum or ADADELTA, each with L2
 * as decay. True parameters are scale * theta, so that decay costs nothing. What a dense method would
 * do to a row between two visits is done at the next one, exactly:
 *
 *   momentum   v_{t+n} = r^n v_t        theta_{t+n} = theta_t + v_t (r + r^2 + ... + r^n)
 *   ADADELTA   both means decay by rho^n; a gradient of zero moves nothing */
#ifndef FSTCRF_DESCENT_H
#define FSTCRF_DESCENT_H

#include "fstcrf.h"
#include "vec.h"

/* What a step leaves of the weights. A gradient moves them by rate / (1 - momentum) in all, so decay
 * does, too: the penalty is the same for every momentum. */
static inline double kept(const fc_descent *d) {
    return 1.0 - d->rate * d->decay / (d->rule == FC_MOMENTUM ? 1.0 - d->momentum : 1.0);
}

/* In units of theta, velocities decay by less than the momentum where theta itself decays. */
static inline double velocity_ratio(const fc_descent *d) { return d->momentum / kept(d); }

/* Brings one row of weights and velocities up to a step. */
static inline void catch_up(int64_t W, double r, int64_t n, double *restrict x,
                            double *restrict v) {
    const double fallen = pow(r, (double)n), gone = r * (1.0 - fallen) / (1.0 - r);
    for (int64_t j = 0; j < W; j++) {
        x[j] += v[j] * gone;
        v[j] *= fallen;
    }
}

/* Before the weights of a sentence are read. */
static inline void catch_up_rows(const fc_learner *l, fc_descent *d, int64_t first, int64_t T) {
    if (d->rule != FC_MOMENTUM) return;
    const double r = velocity_ratio(d);
    for (int64_t k = l->indptr[first]; k < l->indptr[first + T]; k++) {
        const int64_t row = l->index[k], n = *d->step - d->touched[row];
        if (n == 0) continue;
        catch_up(l->W, r, n, d->theta->table + row * l->W, d->first->table + row * l->W);
        d->touched[row] = *d->step;
    }
}

/* One step of n parameters with gradient g; `absent`: steps since their last one, this one excluded. */
static inline void step_momentum(int64_t n, double r, double rate, const double *restrict g,
                                 double *restrict x, double *restrict v) {
    for (int64_t j = 0; j < n; j++) {
        v[j] = r * v[j] - rate * g[j];
        x[j] += v[j];
    }
}

static inline void step_adadelta(int64_t n, const fc_descent *d, double rate, int64_t absent,
                                 const double *restrict g, double *restrict x,
                                 double *restrict squares, double *restrict changes) {
    const double fallen = absent == 0 ? 1.0 : pow(d->rho, (double)absent);
    for (int64_t j = 0; j < n; j++) {
        const double a = d->rho * fallen * squares[j] + (1.0 - d->rho) * g[j] * g[j];
        const double b = fallen * changes[j];
        const double change = sqrt((b + d->epsilon) / (a + d->epsilon)) * g[j];
        squares[j] = a;
        changes[j] = d->rho * b + (1.0 - d->rho) * change * change;
        x[j] -= rate * change;
    }
}

/* Parameters that take part in every step: arcs and ends. */
static inline void step_dense(const fc_descent *d, int64_t n, double rate, const double *g,
                              double *x, double *first, double *second) {
    if (d->rule == FC_MOMENTUM) {
        step_momentum(n, velocity_ratio(d), rate, g, x, first);
    } else if (d->rule == FC_ADADELTA) {
        step_adadelta(n, d, rate, 0, g, x, first, second);
    } else {
        for (int64_t j = 0; j < n; j++) x[j] -= rate * g[j];
    }
}

/* Gradient of the slots of one token. */
static inline void slot_gradient(const fc_graph *graph, const fc_learner *l, double c,
                                 const double *restrict node, double *restrict g) {
    fc_fill(l->W, 0.0, g);
    for (int64_t s = 0; s < graph->S; s++)
        for (int64_t k = 0; k < l->K; k++) g[l->slot[s * l->K + k]] += c * node[s];
}

/* x += v * g, where a weight is trained. */
static inline void add_row(const fc_learner *l, int64_t row, double v, const double *restrict g,
                           double *restrict x) {
    if (l->mask == NULL) {
        fc_axpy(l->W, v, g, x);
        return;
    }
    const uint8_t *restrict mask = l->mask + row * l->W;
    for (int64_t j = 0; j < l->W; j++) x[j] += v * g[j] * (double)mask[j];
}

/* The constant rate needs no sums over the tokens of a row. */
static inline void step_rows(const fc_graph *graph, const fc_learner *l, fc_descent *d,
                             int64_t first, int64_t T, double c, const double *node, double *g) {
    for (int64_t t = 0; t < T; t++) {
        slot_gradient(graph, l, c, node + t * graph->S, g);
        for (int64_t k = l->indptr[first + t]; k < l->indptr[first + t + 1]; k++)
            add_row(l, l->index[k], l->value == NULL ? -1.0 : -(double)l->value[k], g,
                    d->theta->table + l->index[k] * l->W);
    }
}

/* Sums the gradient of each row in d->sums, then steps each row once. d->place [R] and d->rows list
 * the rows: row x is the k-th when place[x] = k and rows[k] = x, whatever else place holds. */
static inline void step_summed_rows(const fc_graph *graph, const fc_learner *l, fc_descent *d,
                                    int64_t first, int64_t T, double c, double rate,
                                    const double *node, double *g) {
    const int64_t W = l->W;
    int64_t used = 0;
    for (int64_t t = 0; t < T; t++) {
        slot_gradient(graph, l, c, node + t * graph->S, g);
        for (int64_t k = l->indptr[first + t]; k < l->indptr[first + t + 1]; k++) {
            const int32_t row = l->index[k];
            int64_t at = d->place[row];
            if (at >= used || d->rows[at] != row) {
                at = used++;
                d->place[row] = (int32_t)at;
                d->rows[at] = row;
                fc_fill(W, 0.0, d->sums + at * W);
            }
            add_row(l, row, l->value == NULL ? 1.0 : (double)l->value[k], g, d->sums + at * W);
        }
    }
    const double r = velocity_ratio(d);
    for (int64_t k = 0; k < used; k++) {
        const int64_t row = d->rows[k] * W, absent = *d->step - d->touched[d->rows[k]];
        double *x = d->theta->table + row, *v = d->first->table + row;
        if (d->rule == FC_MOMENTUM) {
            if (absent > 0) catch_up(W, r, absent, x, v);
            step_momentum(W, r, rate, d->sums + k * W, x, v);
        } else {
            step_adadelta(W, d, rate, absent, d->sums + k * W, x, v, d->second->table + row);
        }
        d->touched[d->rows[k]] = *d->step + 1;
    }
}

/* Whether a step can be made for a signal, less any control that came from finite signals. */
static inline int step_is_finite(const fc_descent *d, double signal) {
    const double scale = *d->scale * kept(d);
    return scale > 1e-200 && fabs(signal) < 1e290 && isfinite(d->rate / scale * signal);
}

/* The step itself: true parameters lose rate * decay of themselves, then move along -c * direction.
 *   node [T][S], arc [M]  the direction
 *   g    [T][W]           scratch */
static inline void descend_along(const fc_graph *graph, const fc_learner *l, fc_descent *d,
                                 int64_t first, int64_t T, double c, const double *node,
                                 const double *arc, double *g) {
    const double scale = *d->scale * kept(d), rate = d->rate / scale;
    const int64_t S = graph->S;
    double *arcs = d->small;
    *d->scale = scale;
    if (d->rule == FC_CONSTANT)
        step_rows(graph, l, d, first, T, rate * c, node, g);
    else
        step_summed_rows(graph, l, d, first, T, c, rate, node, g);
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
