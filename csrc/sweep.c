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

/* A sentence over a dense axis. */
static void sweep_rows(sweep *v, group *g, int always, const fc_shard *values,
                       const float *weight) {
    const fc_shard *s = v->shard;
    const int64_t first = g->first[0], T = g->T[0], P = s->P;
    double log_z;
    slot_potentials(s, first, T, weight, v->slots);
    g->gold[0].sum = gold_potentials(v, first, T);
    g->lost[0] =
        !forward_rows(v, T, always, &log_z) || !backward_rows(v, T, always, g->weight[0], &log_z);
    if (g->lost[0]) {
        v->sums.tokens += T;
        return;
    }
    g->log_z[0].sum = log_z;
    if (v->curved) add_arcs(v, T, g->weight[0], v->total, v->squares);
    for (int64_t t = 0; t < T; t++) {
        if (v->curved) spread_of(P, (float)g->weight[0], v->slots + t * P);
        scatter(values, first + t, first + t + 1, v->slots + t * P, &v->sums);
    }
}

/* A sentence that float32 or the memory cannot hold. If curved, its arcs count by their expectation, an
 * upper bound. */
static fc_status alone_in_double(sweep *v, const group *g, int64_t l, const fc_shard *values,
                                 const float *weight, double *log_z, double *gold, double *arc) {
    const fc_shard *s = v->shard;
    const int64_t first = g->first[l], T = g->T[l], P = s->P;
    slot_potentials(s, first, T, weight, v->slots);
    *gold = gold_potentials(v, first, T);
    const fc_status status = in_double(v, T, g->weight[l], log_z);
    if (status != FC_OK) return status;
    const double by = v->curved ? g->weight[l] : 1.0;
    for (int64_t k = 0; k < arcs_of(v->machine->axis); k++) arc[k] += by * v->arc[k];
    for (int64_t t = 0; t < T; t++) {
        if (v->curved) spread_of(P, (float)g->weight[l], v->slots + t * P);
        scatter_apart(values, first + t, v->slots + t * P, &v->sums);
    }
    return FC_OK;
}

fc_status fc_sweep(const fc_machine *machine, const fc_shard *s, const fc_shard *squared,
                   const float *weight, float *gradient, double *frequent, double *loss,
                   double *arc, double *begin, double *end, int64_t *rescued, double *work) {
    const fc_shard *values = squared == NULL ? s : squared;
    const int curved = squared != NULL;
    if (!is_full_chain(machine)) return FC_EINVAL;
    sweep v;
    abreast w = {.order = NULL};
    group g;
    const int dense = machine->axis->A == 0;
    double *const more = work + lay_out(&v, machine, s, curved, work);
    if (!dense) lay_out_abreast(&w, machine, s, curved, more);
    v.sums = (shard_sums){.part = gradient, .total = frequent};
    exp_ends(&v);
    open_guards(&v);
    const int always = dense && load_dense(&v);
    if (!dense) load_abreast(&w, &v);
    if (!dense) by_length(s->B, s->offsets, s->longest, w.order);
    const int64_t arcs = arcs_of(machine->axis);
    const int64_t most = dense ? s->longest : longest_abreast(machine, s);
    fc_total losses = {0};
    memset(arc, 0, (size_t)arcs * sizeof *arc);
    v.begin = begin;
    v.end = end;
    memset(begin, 0, (size_t)v.S * sizeof *begin);
    memset(end, 0, (size_t)v.S * sizeof *end);
    *rescued = 0;
    for (int64_t at = 0; at < s->B;) {
        at = next_group(s, &w, at, most, &g);
        if (g.longest > most || (dense && curved && !(g.weight[0] > 0.0))) {
            g.lost[0] = g.longest > most;
            v.sums.tokens += g.longest;
        } else if (dense) {
            sweep_rows(&v, &g, always, values, weight);
        } else {
            forward_abreast(&v, &w, &g, weight);
            backward_abreast(&v, &w, &g, values);
            arcs_abreast(&v, &w, &g);
        }
        for (int64_t l = 0; l < g.n; l++) {
            fc_add(g.log_z + l, (double)(g.T[l] - 1) * v.shift + v.initial_shift + v.final_shift);
            double log_z = fc_value(g.log_z[l]), gold = fc_value(g.gold[l]);
            if (g.lost[l]) {
                const fc_status status =
                    alone_in_double(&v, &g, l, values, weight, &log_z, &gold, arc);
                if (status != FC_OK) return status;
                *rescued += 1;
            }
            fc_add(&losses, g.weight[l] * (log_z - gold));
        }
    }
    const double *total = dense ? v.total : w.total, *squares = dense ? v.squares : w.squares;
    for (int64_t k = 0; k < arcs; k++) {
        const int64_t i = dense ? k / v.S * v.Q + k % v.S : k;
        const double x = dense ? (double)v.forward[i] : w.out.weight[i];
        arc[k] += curved ? not_negative(x * total[i] - x * x * squares[i]) : x * total[i];
    }
    *loss = fc_value(losses);
    return FC_OK;
}

int64_t fc_sweep_work(const fc_machine *g, const fc_shard *s, int curved) {
    sweep v;
    abreast w;
    const int64_t size = lay_out(&v, g, s, curved, NULL);
    return size + (g->axis->A > 0 ? lay_out_abreast(&w, g, s, curved, NULL) : 0);
}

/* --- When sums are flushed -------------------------------------------------------------------
 *
 * The schedule by which a sweep flushes the sums of frequent attributes of a shard (shard.h). It is
 * computed once: counting during a sweep would cost a tenth of its time. A sum of n numbers in float32
 * loses up to n 2^-24 of itself. The sum of an attribute that occurs c times is flushed after 4 N / c
 * additions, so that its total loss does not grow with c, but at most at every eighth one. */
#define LEAST_RUN 8

typedef struct {
    const fc_shard *s;
    int64_t *order; /* [B + longest + 2] */
    int64_t *run;   /* [frequent_rows + frequent_singles] occurrences between two flushes, */
    int64_t *left;  /* ... and until the next one */
    int64_t tokens, count;
    int64_t *after;
    int32_t *what;
} flushes;

static void count_times(const int32_t *index, int64_t entries, int64_t n, int64_t *times) {
    for (int64_t k = 0; k < entries; k++)
        if (index[k] < n) times[index[k]]++;
}

static void choose_runs(flushes *v) {
    const fc_shard *s = v->s;
    const int64_t rows = s->frequent_rows, all = rows + s->frequent_singles;
    memset(v->run, 0, (size_t)all * sizeof *v->run);
    count_times(s->row, s->row_ptr[s->N], rows, v->run);
    count_times(s->single, s->single_ptr[s->N], s->frequent_singles, v->run + rows);
    for (int64_t k = 0; k < all; k++) {
        const int64_t run = v->run[k] > 0 ? 4 * s->N / v->run[k] : FC_RUN;
        v->run[k] = run < LEAST_RUN ? LEAST_RUN : run > FC_RUN ? FC_RUN : run;
        v->left[k] = v->run[k];
    }
}

FC_INLINE void occur(flushes *v, int64_t place, int64_t what) {
    if (--v->left[place] > 0) return;
    v->left[place] = v->run[place];
    if (v->what != NULL) {
        v->after[v->count] = v->tokens;
        v->what[v->count] = (int32_t)what;
    }
    v->count++;
}

static void take_token(flushes *v, int64_t n) {
    const fc_shard *s = v->s;
    v->tokens++;
    for (int64_t k = s->row_ptr[n]; k < s->row_ptr[n + 1]; k++)
        if (s->row[k] < s->frequent_rows) occur(v, s->row[k], s->row[k]);
    for (int64_t k = s->single_ptr[n]; k < s->single_ptr[n + 1]; k++)
        if (s->single[k] < s->frequent_singles)
            occur(v, s->frequent_rows + s->single[k], s->R + s->single[k]);
}

/* Visits the tokens in the order of sweep_abreast. */
static void take_abreast(flushes *v, const fc_machine *machine) {
    const fc_shard *s = v->s;
    const abreast w = {.order = v->order};
    const int64_t most = longest_abreast(machine, s);
    group g;
    by_length(s->B, s->offsets, s->longest, v->order);
    for (int64_t at = 0; at < s->B;) {
        at = next_group(s, &w, at, most, &g);
        for (int64_t t = g.longest - 1; t >= 0; t--)
            for (int64_t l = 0; l < g.n; l++)
                if (t < g.T[l]) take_token(v, g.first[l] + t);
    }
}

fc_status fc_flushes(const fc_machine *machine, const fc_shard *s, int64_t *count, int64_t *after,
                     int32_t *what, int64_t *work) {
    if (!is_full_chain(machine)) return FC_EINVAL;
    flushes v = {.s = s, .order = work, .after = after, .what = what};
    v.run = v.order + s->B + s->longest + 2;
    v.left = v.run + s->frequent_rows + s->frequent_singles;
    choose_runs(&v);
    if (machine->axis->A > 0)
        take_abreast(&v, machine);
    else
        for (int64_t n = 0; n < s->N; n++) take_token(&v, n);
    *count = v.count;
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
