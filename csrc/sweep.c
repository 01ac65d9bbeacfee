/* SPDX-License-Identifier: Apache-2.0
 *
 * Training at full speed: potentials, forward-backward and gradient of one shard in a single sweep
 * (sweep.h). A sentence's posteriors go into the gradient while they are still in cache. If few pairs
 * of states have separate weights, sentences are processed side by side: background.h. */

#include "sweep.h"

#include "background.h"
#include "curvature.h"
#include "flushes.h"
#include "stochastic.h"

fc_status fc_check_shard(const fc_machine *machine, const fc_shard *s, const fc_layout *l,
                         int64_t *where) {
    *where = 0;
    if (!is_full_chain(machine)) return FC_EINVAL;
    return check_attributes(machine, s, l, where);
}

int64_t fc_sweep_work(const fc_machine *g, const fc_shard *s) {
    sweep v;
    abreast w;
    const int64_t size = lay_out(&v, g, s, NULL);
    return size + (g->axis->A == 0 ? 0 : lay_out_abreast(&w, g, s, 0, NULL));
}

fc_status fc_sweep(const fc_machine *machine, const fc_shard *s, const float *weight,
                   float *gradient, double *frequent, double *loss, double *arc, double *begin,
                   double *end, int64_t *rescued, double *work) {
    if (!is_full_chain(machine)) return FC_EINVAL;
    fc_total losses = {0};
    *rescued = 0;
    if (machine->axis->A > 0)
        return sweep_abreast(machine, s, s, 0, weight, gradient, frequent, loss, arc, begin, end,
                             rescued, work);
    sweep w;
    lay_out(&w, machine, s, work);
    w.sums = (shard_sums){.part = gradient, .total = frequent};
    const int always = load(&w);
    const int64_t S = w.S, Q = w.Q, P = s->P;
    memset(arc, 0, (size_t)(S * S) * sizeof *arc);
    for (int64_t b = 0; b < s->B; b++) {
        const int64_t first = s->offsets[b], T = s->offsets[b + 1] - first;
        double log_z = 0.0;
        slot_potentials(s, first, T, weight, w.slots);
        const double gold = gold_potentials(&w, first, T);
        if (forward_rows(&w, T, always, &log_z) &&
            backward_rows(&w, T, always, s->weight[b], &log_z)) {
            log_z += (double)(T - 1) * w.shift + w.initial_shift + w.final_shift;
        } else {
            slot_potentials(s, first, T, weight, w.slots);
            const fc_status status = in_double(&w, T, s->weight[b], &log_z);
            if (status != FC_OK) return status;
            for (int64_t a = 0; a < S * S; a++) arc[a] += w.arc[a];
            *rescued += 1;
        }
        fc_add(&losses, s->weight[b] * (log_z - gold));
        for (int64_t t = 0; t < T; t++)
            scatter(s, first + t, first + t + 1, w.slots + t * P, &w.sums);
    }
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < S; j++)
            arc[i * S + j] += w.total[i * Q + j] * (double)w.forward[i * Q + j];
    memcpy(begin, w.begin, (size_t)S * sizeof *begin);
    memcpy(end, w.end, (size_t)S * sizeof *end);
    *loss = fc_value(losses);
    return FC_OK;
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
