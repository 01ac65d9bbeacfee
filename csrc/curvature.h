/* SPDX-License-Identifier: Apache-2.0
 *
 * The diagonal of the Hessian of log Z, by the recursions of sweep.h: the entry of a weight is the sum
 * over tokens of x^2 p (1 - p), p the posterior of its slot. For arcs, p is a product of a forward and
 * a backward row, so the sum of its squares is one outer product of squared rows:
 *
 *   sum_t p_t (1 - p_t) = A(i, j) sum_t a(i) n(j)  -  A(i, j)^2 sum_t a(i)^2 n(j)^2 */
#ifndef FSTCRF_CURVATURE_H
#define FSTCRF_CURVATURE_H

#include "background.h"

int64_t fc_curvature_work(const fc_machine *g, const fc_shard *s) {
    sweep v;
    abreast w;
    const int64_t size = lay_out(&v, g, s, NULL);
    return size + (g->axis->A == 0 ? (g->S + 3) / 4 * 4 * padded(g->S)
                                   : lay_out_abreast(&w, g, s, 1, NULL));
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

fc_status fc_curvature(const fc_machine *machine, const fc_shard *s, const float *weight,
                       const float *row_square, const float *single_square, float *variance_sum,
                       double *frequent, double *arc, double *begin, double *end, double *work) {
    if (!is_full_chain(machine)) return FC_EINVAL;
    fc_shard squared = *s;
    squared.row_value = row_square;
    squared.single_value = single_square;
    if (machine->axis->A > 0) {
        double loss = 0.0;
        int64_t rescued = 0;
        return sweep_abreast(machine, s, &squared, 1, weight, variance_sum, frequent, &loss, arc,
                             begin, end, &rescued, work);
    }
    sweep w;
    double *const squares = work + lay_out(&w, machine, s, work);
    w.sums = (shard_sums){.part = variance_sum, .total = frequent};
    const int always = load(&w);
    const int64_t S = w.S, Q = w.Q, P = s->P, cells = (S + 3) / 4 * 4 * Q;
    double *total = w.total;
    memset(arc, 0, (size_t)(S * S) * sizeof *arc);
    memset(begin, 0, (size_t)S * sizeof *begin);
    memset(end, 0, (size_t)S * sizeof *end);
    memset(squares, 0, (size_t)cells * sizeof *squares);
    w.total = NULL;
    for (int64_t b = 0; b < s->B; b++) {
        const int64_t first = s->offsets[b], T = s->offsets[b + 1] - first;
        double log_z;
        if (!(s->weight[b] > 0.0)) {
            w.sums.tokens += T;
            continue;
        }
        memset(w.begin, 0, (size_t)Q * sizeof *w.begin);
        memset(w.end, 0, (size_t)Q * sizeof *w.end);
        slot_potentials(s, first, T, weight, w.slots);
        if (forward_rows(&w, T, always, &log_z) && backward_rows(&w, T, always, 1.0, &log_z)) {
            add_arcs(&w, T, s->weight[b], total, squares);
        } else { /* arcs: the expectation, an upper bound */
            memset(w.begin, 0, (size_t)Q * sizeof *w.begin);
            memset(w.end, 0, (size_t)Q * sizeof *w.end);
            slot_potentials(s, first, T, weight, w.slots);
            const fc_status status = in_double(&w, T, 1.0, &log_z);
            if (status != FC_OK) return status;
            for (int64_t a = 0; a < S * S; a++) arc[a] += s->weight[b] * w.arc[a];
        }
        for (int64_t j = 0; j < S; j++) {
            begin[j] += variance(s->weight[b], w.begin[j]);
            end[j] += variance(s->weight[b], w.end[j]);
        }
        const float c = (float)s->weight[b];
        for (int64_t t = 0; t < T; t++) {
            spread_of(P, c, w.slots + t * P);
            scatter(&squared, first + t, first + t + 1, w.slots + t * P, &w.sums);
        }
    }
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < S; j++) {
            const double x = (double)w.forward[i * Q + j];
            arc[i * S + j] += not_negative(x * total[i * Q + j] - x * x * squares[i * Q + j]);
        }
    return FC_OK;
}

#endif
