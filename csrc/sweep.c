/* SPDX-License-Identifier: Apache-2.0
 *
 * Training at full speed: potentials, forward-backward and gradient of one shard in a single sweep
 * (sweep.h). A sentence's posteriors go into the gradient while they are still in cache. If few pairs
 * of states have separate weights, sentences are processed side by side: background.h.
 *
 * The diagonal of the Hessian of log Z by the same recursions: the entry of a weight is the sum over
 * tokens of x^2 p (1 - p), p the posterior of its slot. For arcs, p is a product of a forward and a
 * backward row, so the sum of its squares is one outer product of squared rows:
 *
 *   sum_t p_t (1 - p_t) = A(i, j) sum_t a(i) n(j)  -  A(i, j)^2 sum_t a(i)^2 n(j)^2 */

#include "background.h"
#include "flushes.h"
#include "stochastic.h"

fc_status fc_check_shard(const fc_machine *machine, const fc_shard *s, const fc_layout *l,
                         int64_t *where) {
    *where = 0;
    if (!is_full_chain(machine)) return FC_EINVAL;
    return check_attributes(machine, s, l, where);
}

/* total += weight a n, squares += weight a^2 n^2, from the rows of a sentence, which are
   overwritten. */
static void add_arcs(sweep *w, int64_t T, double weight, double *total, double *squares) {
    const int64_t Q = w->Q;
    const float c = (float)weight, less = c < FLT_MIN ? 0.0f : 1.0f / c;
    float *restrict a = w->alpha, *restrict n = w->emission;
    for (int64_t k = 0; k < (T - 1) * Q; k++) a[k] *= c;
    outer(T - 1, w->S, Q, a, n + Q, total);
    for (int64_t k = 0; k < (T - 1) * Q; k++) a[k] *= a[k] * less;
    for (int64_t k = Q; k < T * Q; k++) n[k] *= n[k];
    outer(T - 1, w->S, Q, a, n + Q, squares);
}

/* fc_sweep over a dense axis; `curved`: fc_curvature, with the squared `values`. */
static fc_status sweep_rows(const fc_machine *machine, const fc_shard *s, const fc_shard *values,
                            int curved, const float *weight, float *gradient, double *frequent,
                            double *loss, double *arc, double *begin, double *end, int64_t *rescued,
                            double *work) {
    sweep w;
    double *const squares = work + lay_out(&w, machine, s, work);
    w.sums = (shard_sums){.part = gradient, .total = frequent};
    const int always = load(&w);
    const int64_t S = w.S, Q = w.Q, P = s->P;
    double *const total = w.total;
    fc_total losses = {0};
    memset(arc, 0, (size_t)(S * S) * sizeof *arc);
    if (curved) {
        memset(begin, 0, (size_t)S * sizeof *begin);
        memset(end, 0, (size_t)S * sizeof *end);
        memset(squares, 0, (size_t)((S + 3) / 4 * 4 * Q) * sizeof *squares);
        w.total = NULL;
    }
    for (int64_t b = 0; b < s->B; b++) {
        const int64_t first = s->offsets[b], T = s->offsets[b + 1] - first;
        const double own = curved ? 1.0 : s->weight[b];
        double log_z = 0.0;
        if (curved && !(s->weight[b] > 0.0)) {
            w.sums.tokens += T;
            continue;
        }
        slot_potentials(s, first, T, weight, w.slots);
        const double gold = gold_potentials(&w, first, T);
        if (forward_rows(&w, T, always, &log_z) && backward_rows(&w, T, always, own, &log_z)) {
            log_z += (double)(T - 1) * w.shift + w.initial_shift + w.final_shift;
            if (curved) add_arcs(&w, T, s->weight[b], total, squares);
        } else { /* curved: the expectation of arcs, an upper bound */
            slot_potentials(s, first, T, weight, w.slots);
            const fc_status status = in_double(&w, T, own, &log_z);
            if (status != FC_OK) return status;
            const double by = curved ? s->weight[b] : 1.0;
            for (int64_t a = 0; a < S * S; a++) arc[a] += by * w.arc[a];
            *rescued += 1;
        }
        fc_add(&losses, s->weight[b] * (log_z - gold));
        for (int64_t j = 0; curved && j < S; j++) {
            begin[j] += variance(s->weight[b], w.begin[j]);
            end[j] += variance(s->weight[b], w.end[j]);
            w.begin[j] = w.end[j] = 0.0;
        }
        for (int64_t t = 0; t < T; t++) {
            if (curved) spread_of(P, (float)s->weight[b], w.slots + t * P);
            scatter(values, first + t, first + t + 1, w.slots + t * P, &w.sums);
        }
    }
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < S; j++) {
            const int64_t k = i * Q + j;
            const double x = (double)w.forward[k];
            arc[i * S + j] +=
                curved ? not_negative(x * total[k] - x * x * squares[k]) : total[k] * x;
        }
    if (!curved) memcpy(begin, w.begin, (size_t)S * sizeof *begin);
    if (!curved) memcpy(end, w.end, (size_t)S * sizeof *end);
    *loss = fc_value(losses);
    return FC_OK;
}

int64_t fc_sweep_work(const fc_machine *g, const fc_shard *s, int curved) {
    sweep v;
    abreast w;
    const int64_t size = lay_out(&v, g, s, NULL);
    if (g->axis->A > 0) return size + lay_out_abreast(&w, g, s, curved, NULL);
    return size + (curved ? (g->S + 3) / 4 * 4 * padded(g->S) : 0);
}

fc_status fc_sweep(const fc_machine *machine, const fc_shard *s, const float *weight,
                   float *gradient, double *frequent, double *loss, double *arc, double *begin,
                   double *end, int64_t *rescued, double *work) {
    if (!is_full_chain(machine)) return FC_EINVAL;
    *rescued = 0;
    return (machine->axis->A > 0 ? sweep_abreast : sweep_rows)(
        machine, s, s, 0, weight, gradient, frequent, loss, arc, begin, end, rescued, work);
}

fc_status fc_curvature(const fc_machine *machine, const fc_shard *s, const float *weight,
                       const float *row_square, const float *single_square, float *variance_sum,
                       double *frequent, double *arc, double *begin, double *end, double *work) {
    if (!is_full_chain(machine)) return FC_EINVAL;
    fc_shard squared = *s;
    squared.row_value = row_square;
    squared.single_value = single_square;
    double loss = 0.0;
    int64_t rescued = 0;
    return (machine->axis->A > 0 ? sweep_abreast : sweep_rows)(machine, s, &squared, 1, weight,
                                                               variance_sum, frequent, &loss, arc,
                                                               begin, end, &rescued, work);
}

/* --- Between the parameter vector and a shard's weights ------------------------------------- */

fc_status fc_spread(const fc_shard *s, const fc_layout *l, const float *theta, float *weight) {
    memset(weight, 0, (size_t)(s->R * s->P) * sizeof *weight);
    for (int64_t r = 0; r < s->R; r++) {
        float *row = weight + r * s->P;
        for (int64_t k = l->ptr[s->rows[r]]; k < l->ptr[s->rows[r] + 1]; k++)
            row[l->slot[k]] = theta[k];
    }
    float *single = weight + s->R * s->P;
    for (int64_t i = 0; i < s->M; i++) single[i] = theta[s->singles[i]];
    return FC_OK;
}

fc_status fc_collect(const fc_shard *s, const fc_layout *l, const float *gradient,
                     const double *frequent, double *theta) {
    for (int64_t r = 0; r < s->R; r++) {
        const float *row = gradient + r * s->P;
        const double *flushed = r < s->frequent_rows ? frequent + r * s->P : NULL;
        for (int64_t k = l->ptr[s->rows[r]]; k < l->ptr[s->rows[r] + 1]; k++) {
            const uint16_t slot = l->slot[k];
            theta[k] += (double)row[slot] + (flushed == NULL ? 0.0 : flushed[slot]);
        }
    }
    const float *single = gradient + s->R * s->P;
    const double *flushed = frequent + s->frequent_rows * s->P;
    for (int64_t i = 0; i < s->M; i++)
        theta[s->singles[i]] += (double)single[i] + (i < s->frequent_singles ? flushed[i] : 0.0);
    return FC_OK;
}
