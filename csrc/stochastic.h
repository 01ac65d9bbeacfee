/* SPDX-License-Identifier: Apache-2.0
 *
 * Stochastic gradient descent by the recursions of sweep.h, one sentence a step, with the running mean
 * of all weights (averaged.h).
 *
 * In a corpus with many labels, most arcs have no weight. A step touches only the arcs with one: their
 * potentials are written into the matrices. The other cells change only if the common shift of arcs
 * does. If few arcs have weights, there are no matrices: rows are summed over exceptions. */
#ifndef FSTCRF_STOCHASTIC_H
#define FSTCRF_STOCHASTIC_H

#include "averaged.h"
#include "background.h"

#define SHIFT_STEP 10.0 /* arcs shift by multiples: e^10 is far from the limits of FAINT */
#define LEAST_SCALE 0.05
#define LENGTHS 64 /* longer rows share a class: they are few */

typedef struct {
    sweep w;
    const fc_stochastic *steps;
    fc_averaged *weights;
    fc_machine machine; /* the caller's structure over the current potentials */
    fc_axis axis;       /* its only one */
    int dense;          /* float32 supports dense graphs, */
    int full;           /* and sparse ones whose other pairs have a weight */
    exceptions into, out;
    float *a, *n; /* [S][ABREAST] rows of some tokens */
    int always;   /* every state can be reached at every token */
    int outer;    /* expectations of arcs are cheaper by whole outer products */
    int straight; /* trained arc k has weight k */
    int64_t arcs; /* with a weight: `trained`, ascending, from `source` to `target` */
    int32_t *trained, *source, *target;
    double *score;  /* [arcs] */
    double *ends;   /* [2][S] */
    double *change; /* [D] gradient of arcs and ends */
    float *own;     /* [n] weights of trained arcs */
    float *sum;     /* [n] then their expectations */
} stepper;

static int64_t lay_out_steps(stepper *e, const fc_machine *g, const fc_shard *s,
                             const fc_stochastic *steps, double *work) {
    sweep *w = &e->w;
    const int64_t S = g->S, Q = padded(S), Q4 = (S + 3) / 4 * 4, T = s->longest,
                  A = arcs_of(g->axis);
    arena a = {(char *)work, 0};
    if (work != NULL) a.base += (64 - (uintptr_t)work % 64) % 64;
    const int64_t f = sizeof(float), d = sizeof(double);
    w->shard = s;
    w->machine = &e->machine;
    w->curved = 0;
    w->S = S;
    w->Q = Q;
    e->steps = steps;
    e->arcs = 0;
    for (int64_t k = 0; k < A; k++) e->arcs += steps->arc_slot[k] >= 0;
    e->machine = *g;
    e->axis = *g->axis;
    e->machine.axis = &e->axis;
    e->dense = g->axis->A == 0;
    e->full = g->axis->rest != NULL;
    w->into = e->full ? &e->into : NULL;
    w->out = e->full ? &e->out : NULL;
    exceptions *side[] = {&e->into, &e->out};
    for (int k = 0; k < 2; k++) {
        side[k]->from = k == 0 ? g->axis->leave : g->axis->enter;
        side[k]->at = k == 0 ? g->axis->enter : g->axis->leave;
    }
    w->share = take(&a, g->axis->leave == NULL ? 3 : g->axis->leave->n + 2, d);
    const int64_t listed = e->full ? A : 0, more = e->full ? ABREAST : 1;
    for (int k = 0; k < 2; k++) {
        side[k]->row = take(&a, e->full ? S + 1 : 0, d);
        side[k]->state = take(&a, e->full ? S : 0, f);
        side[k]->arc = take(&a, listed, f);
        side[k]->other = take(&a, listed, f);
        side[k]->over = take(&a, listed, d);
        side[k]->weight = NULL;
    }
    w->one = take(&a, e->full ? S : 0, d);
    e->a = take(&a, e->full ? S * ABREAST : 0, f);
    e->n = take(&a, e->full ? S * ABREAST : 0, f);
    /* one multiply-add a token for each arc, or for all arcs in whole registers */
    e->outer = e->dense && e->arcs * 8 > S * Q;
    const int64_t matrix = e->dense ? Q4 * Q : 0;
    w->forward = take(&a, matrix, f);
    w->backward = take(&a, matrix, f);
    w->open = take(&a, e->dense ? S * Q : 0, 1);
    w->total = e->outer ? take(&a, matrix, d) : NULL;
    float **row[] = {&w->initial, &w->final, &w->pad, &w->faint};
    for (int k = 0; k < 4; k++) *row[k] = take(&a, Q, f);
    w->reach = take(&a, 2 * Q, 1);
    w->slots = take(&a, T * s->P, f);
    w->emission = take(&a, (T + more) * Q, f);
    w->alpha = take(&a, (T + more) * Q, f); /* outer products read whole groups of four rows */
    w->scale = take(&a, T, f);
    w->beta = take(&a, 2 * Q, f);
    w->begin = take(&a, Q, d);
    w->end = take(&a, Q, d);
    w->node = take(&a, T * S, d);
    w->posterior = take(&a, T * S, d);
    w->arc = take(&a, A, d);
    e->score = take(&a, A, d);
    e->ends = take(&a, 2 * S, d);
    e->change = take(&a, steps->D, d);
    e->own = e->into.value = e->out.value = take(&a, e->full ? A : e->arcs, f);
    e->sum = take(&a, e->full ? A : e->arcs, f);
    int32_t **list[] = {&e->trained, &e->source, &e->target};
    for (int k = 0; k < 3; k++) *list[k] = take(&a, e->arcs, sizeof(int32_t));
    lay_out_whole(w, g, T, &a);
    e->axis.score = e->score;
    e->machine.initial = e->ends;
    e->machine.final = e->ends == NULL ? NULL : e->ends + S;
    return a.used + 64;
}

/* Rows of arcs by their number of arcs: `at` is the state that sums each arc, `from` the other one. */
static void sort_rows(const fc_axis *g, const int32_t *at, const int32_t *from, int64_t *next,
                      exceptions *to) {
    const int64_t S = g->S;
    int64_t start[LENGTHS + 1] = {0}, arcs = 0;
    memset(next, 0, (size_t)S * sizeof *next);
    for (int64_t k = 0; k < g->A; k++) next[at[k]]++;
    for (int64_t j = 0; j < S; j++) start[(next[j] < LENGTHS ? next[j] : LENGTHS - 1) + 1]++;
    for (int n = 0; n < LENGTHS; n++) start[n + 1] += start[n];
    for (int64_t j = 0; j < S; j++)
        to->state[start[next[j] < LENGTHS ? next[j] : LENGTHS - 1]++] = (int32_t)j;
    for (int64_t r = 0; r < S; r++) {
        const int64_t n = next[to->state[r]];
        to->row[r] = next[to->state[r]] = arcs;
        arcs += n;
    }
    to->row[S] = arcs;
    for (int64_t k = 0; k < g->A; k++) {
        const int64_t place = next[at[k]]++;
        to->arc[place] = (int32_t)k;
        to->other[place] = from[k];
    }
}

static void begin_steps(stepper *e, const fc_machine *g) {
    sweep *w = &e->w;
    const int64_t S = w->S, Q = w->Q, A = arcs_of(g->axis);
    memcpy(e->score, g->axis->score, (size_t)A * sizeof *e->score);
    memcpy(e->ends, g->initial, (size_t)S * sizeof *e->ends);
    memcpy(e->ends + S, g->final, (size_t)S * sizeof *e->ends);
    open_guards(w);
    w->shift = NAN; /* the first step makes the matrices */
    e->always = 1;
    for (int64_t i = 0; i < S; i++) e->always &= g->initial[i] > FC_NEVER;
    if (g->axis->leave != NULL) e->always = 0;
    e->straight = !e->full || e->arcs == A;
    for (int64_t a = 0, k = 0; a < A; a++) {
        if (e->steps->arc_slot[a] < 0) continue;
        e->straight &= e->steps->arc_slot[a] == k;
        e->trained[k] = (int32_t)a;
        e->source[k] = (int32_t)(g->axis->A == 0 ? a / S : g->axis->source[a]);
        e->target[k++] = (int32_t)(g->axis->A == 0 ? a % S : g->axis->target[a]);
    }
    if (e->full) {
        int64_t *next = (int64_t *)w->one; /* scratch that is free at this point */
        sort_rows(g->axis, g->axis->target, g->axis->source, next, &e->into);
        sort_rows(g->axis, g->axis->source, g->axis->target, next, &e->out);
    }
    if (!e->dense) return;
    memset(w->forward, 0, (size_t)(w->open - (uint8_t *)w->forward));
    memset(w->open, 0, (size_t)S * (size_t)Q);
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < S; j++) {
            w->open[i * Q + j] = g->axis->score[i * S + j] > FC_NEVER;
            e->always &= w->open[i * Q + j];
        }
}

/* --- The weights as a sentence sees them --------------------------------------------------------- */

static void fill_background(sweep *w, double shift) {
    const float a = (float)fc_exp(-shift);
    w->shift = shift;
    for (int64_t i = 0; i < w->S; i++)
        for (int64_t j = 0; j < w->S; j++) {
            const float x = w->open[i * w->Q + j] ? a : 0.0f;
            w->forward[i * w->Q + j] = x;
            w->backward[j * w->Q + i] = x;
        }
}

/* The largest potential, or `top`. */
static float top_arc(int64_t n, const float *restrict x, float top) {
    float most[LANES];
    for (int l = 0; l < LANES; l++) most[l] = top;
    for (int64_t k = 0; k + LANES <= n; k += LANES)
        for (int l = 0; l < LANES; l++) most[l] = x[k + l] > most[l] ? x[k + l] : most[l];
    for (int64_t k = n / LANES * LANES; k < n; k++) most[0] = x[k] > most[0] ? x[k] : most[0];
    for (int l = 0; l < LANES; l++) top = most[l] > top ? most[l] : top;
    return top;
}

/* Weights minus the rest. */
static void spread_weights(const fc_axis *g, double rest, exceptions *to) {
    const float *restrict weight = to->value;
    const int32_t *restrict arc = to->arc;
    double *restrict over = to->over;
    if (g->leave == NULL)
        for (int64_t k = 0; k < g->A; k++) over[k] = (double)weight[arc[k]] - rest;
    else
        for (int64_t k = 0; k < g->A; k++)
            over[k] = (double)weight[arc[k]] -
                      (has_rest(g, g->source[arc[k]], g->target[arc[k]]) ? rest : 0.0);
}

/* Potentials of all arcs of a list, including arcs without a weight: the rest is 0. */
static void own_potentials(const stepper *e, float scale) {
    const int32_t *restrict slot = e->steps->arc_slot;
    const double *restrict u = e->weights->dense;
    for (int64_t k = 0; k < e->axis.A; k++)
        e->own[k] = slot[k] < 0 ? 0.0f : scale * (float)u[slot[k]];
}

static void load_arcs(stepper *e) {
    const fc_stochastic *s = e->steps;
    sweep *w = &e->w;
    const double *u = e->weights->dense;
    const float scale = (float)e->weights->scale;
    const int64_t n = e->full ? e->axis.A : e->arcs;
    if (e->straight)
        for (int64_t k = 0; k < e->arcs; k++) e->own[k] = scale * (float)u[k];
    else if (e->full)
        own_potentials(e, scale);
    else
        for (int64_t k = 0; k < e->arcs; k++)
            e->own[k] = scale * (float)u[s->arc_slot[e->trained[k]]];
    const float top = top_arc(n, e->own, n < w->S * w->S ? 0.0f : -1e30f);
    const double shift = SHIFT_STEP * floor((double)top / SHIFT_STEP);
    if (e->full) {
        w->shift = isfinite(shift) ? shift : 0.0;
        w->remainder = fc_exp(-w->shift);
        const float by = (float)w->shift;
        for (int64_t k = 0; k < n; k++) e->own[k] = expf_fast(e->own[k] - by);
        spread_weights(&e->axis, w->remainder, &e->out);
        spread_weights(&e->axis, w->remainder, &e->into);
        return;
    }
    if (!(shift == w->shift)) fill_background(w, isfinite(shift) ? shift : 0.0);
    const float less = (float)w->shift;
    for (int64_t k = 0; k < e->arcs; k++) e->own[k] = expf_fast(e->own[k] - less);
    for (int64_t k = 0; k < e->arcs; k++) {
        w->forward[e->source[k] * w->Q + e->target[k]] = e->own[k];
        w->backward[e->target[k] * w->Q + e->source[k]] = e->own[k];
    }
}

static void load_ends(stepper *e, const fc_machine *g) {
    sweep *w = &e->w;
    const int64_t S = w->S;
    const double *u = e->weights->dense, scale = e->weights->scale;
    for (int64_t j = 0; j < S; j++) {
        const int32_t first = e->steps->initial[j], last = e->steps->final[j];
        e->ends[j] = first < 0 ? g->initial[j] : scale * u[first];
        e->ends[S + j] = last < 0 ? g->final[j] : scale * u[last];
    }
    exp_ends(w);
}

static void load_scores(stepper *e) {
    const fc_stochastic *s = e->steps;
    for (int64_t k = 0; k < e->arcs; k++) {
        const int32_t a = e->trained[k];
        e->score[a] = e->weights->scale * e->weights->dense[s->arc_slot[a]];
    }
}

/* --- One step -------------------------------------------------------------------------------- */

static int64_t arc_between(const fc_axis *g, int32_t i, int32_t j) {
    if (g->A == 0) return i * g->S + j;
    int64_t a = g->row[i];
    while (a < g->row[i + 1] && g->target[a] != j) a++;
    return a < g->row[i + 1] ? a : -1;
}

/* Score of the gold path, from the potentials of slots; subtracts its counts from e->change. */
static double leave_gold(stepper *e, int64_t first, int64_t T) {
    const fc_shard *s = e->w.shard;
    const fc_stochastic *k = e->steps;
    const int32_t *gold = k->gold + first;
    const double *u = e->weights->dense, scale = e->weights->scale;
    double score = e->ends[gold[0]] + e->ends[e->w.S + gold[T - 1]], arcs = 0.0;
    for (int64_t t = 0; t < T; t++) {
        const float *x = e->w.slots + t * s->P;
        if (s->K == 0) score += (double)x[gold[t]];
        for (int64_t i = 0; i < s->K; i++) score += (double)x[s->slot[gold[t] * s->K + i]];
    }
    for (int64_t t = 1; t < T; t++) {
        const int64_t arc = arc_between(&e->axis, gold[t - 1], gold[t]);
        const int32_t m = arc < 0 ? -1 : k->arc_slot[arc];
        if (m < 0) continue;
        arcs += u[m];
        e->change[m] -= 1.0;
    }
    if (k->initial[gold[0]] >= 0) e->change[k->initial[gold[0]]] -= 1.0;
    if (k->final[gold[T - 1]] >= 0) e->change[k->final[gold[T - 1]]] -= 1.0;
    return score + scale * arcs;
}

/* Products of an arc's two rows, `quads` times four tokens to four sums; unused tokens are zeros. */
FC_INLINE quad products_of_arc(const int quads, const stepper *e, int64_t k) {
    const quad *a = (const quad *)(e->a + (int64_t)e->axis.source[k] * ABREAST),
               *n = (const quad *)(e->n + (int64_t)e->axis.target[k] * ABREAST);
    const quad none = {0};
    if (quads == 1) return a[0] * n[0];
    if (quads == 2) return a[0] * n[0] + a[1] * n[1];
    if (quads == 3) return (a[0] * n[0] + a[1] * n[1]) + (a[2] * n[2] + none);
    return (a[0] * n[0] + a[1] * n[1]) + (a[2] * n[2] + a[3] * n[3]);
}

FC_INLINE void add_products(const int quads, const stepper *e, int64_t arcs) {
    int64_t k = 0;
    for (; k + 4 <= arcs; k += 4) { /* the sums of four arcs are turned, and added as one vector */
        quad sum[4], part[4];
        for (int l = 0; l < 4; l++) sum[l] = products_of_arc(quads, e, k + l);
        turn((const float *)sum, 4, (float *)part, 4);
        *(quad *)(e->sum + k) += (part[0] + part[1]) + (part[2] + part[3]);
    }
    for (; k < arcs; k++) {
        const quad sum = products_of_arc(quads, e, k);
        e->sum[k] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
}

/* Expectations of arcs from the tokens first to end - 1, for rows that are summed over exceptions:
 * ABREAST tokens at a time, at most FC_RUN. */
static void expect_exceptions(stepper *e, int64_t first, int64_t end) {
    const sweep *w = &e->w;
    const fc_stochastic *s = e->steps;
    const int64_t S = w->S, Q = w->Q, A = e->axis.A;
    memset(e->sum, 0, (size_t)A * sizeof *e->sum);
    for (int64_t t = first; t < end; t += ABREAST) {
        rows_to_lanes(S, Q, w->alpha + t * Q, e->a);
        rows_to_lanes(S, Q, w->emission + (t + 1) * Q, e->n);
        const int64_t pairs = end - t;
        if (pairs <= 4)
            add_products(1, e, A);
        else if (pairs <= 8)
            add_products(2, e, A);
        else if (pairs <= 12)
            add_products(3, e, A);
        else
            add_products(4, e, A);
    }
    double *restrict change = e->change;
    const float *restrict sum = e->sum, *restrict weight = e->own;
    if (e->straight)
        for (int64_t k = 0; k < A; k++) change[k] += (double)sum[k] * (double)weight[k];
    else
        for (int64_t k = 0; k < A; k++)
            if (s->arc_slot[k] >= 0) change[s->arc_slot[k]] += (double)sum[k] * (double)weight[k];
}

/* The same with matrices, for trained arcs only. */
static void expect_listed(stepper *e, int64_t first, int64_t end) {
    const sweep *w = &e->w;
    const fc_stochastic *s = e->steps;
    const int64_t Q = w->Q;
    float *sum = e->sum;
    memset(sum, 0, (size_t)e->arcs * sizeof *sum);
    for (int64_t t = first; t < end; t++) {
        const float *a = w->alpha + t * Q, *n = w->emission + (t + 1) * Q;
        for (int64_t k = 0; k < e->arcs; k++) sum[k] += a[e->source[k]] * n[e->target[k]];
    }
    for (int64_t k = 0; k < e->arcs; k++) {
        const float x = w->forward[e->source[k] * Q + e->target[k]];
        e->change[s->arc_slot[e->trained[k]]] += (double)(sum[k] * x);
    }
}

static void expect_arcs(stepper *e, int64_t T) {
    const sweep *w = &e->w;
    const fc_stochastic *s = e->steps;
    const int64_t Q = w->Q;
    double *change = e->change;
    if (e->outer) {
        for (int64_t k = 0; k < e->arcs; k++) {
            const int64_t cell = e->source[k] * Q + e->target[k];
            change[s->arc_slot[e->trained[k]]] += w->total[cell] * (double)w->forward[cell];
        }
        return;
    }
    if (e->full) { /* lanes after the last token must be empty */
        const int64_t behind = (T - 1 + ABREAST - 1) / ABREAST * ABREAST - (T - 1);
        memset(w->alpha + (T - 1) * Q, 0, (size_t)(behind * Q) * sizeof *w->alpha);
        memset(w->emission + T * Q, 0, (size_t)(behind * Q) * sizeof *w->emission);
    }
    for (int64_t first = 0; first < T - 1; first += FC_RUN) {
        const int64_t end = first + FC_RUN < T - 1 ? first + FC_RUN : T - 1;
        if (e->full)
            expect_exceptions(e, first, end);
        else
            expect_listed(e, first, end);
    }
}

/* Returns log Z, NaN if the sentence has no posteriors. Posteriors of slots are in w->slots,
 * expectations of arcs and ends in e->change. */
static double expect(stepper *e, int64_t first, int64_t T, int64_t *rescued) {
    sweep *w = &e->w;
    const fc_shard *s = w->shard;
    const fc_stochastic *k = e->steps;
    double log_z = 0.0;
    memset(w->begin, 0, (size_t)w->Q * sizeof *w->begin);
    memset(w->end, 0, (size_t)w->Q * sizeof *w->end);
    if (e->outer) memset(w->total, 0, (size_t)((w->S + 3) / 4 * 4 * w->Q) * sizeof *w->total);
    if ((e->dense || e->full) && forward_rows(w, T, e->always, &log_z) &&
        backward_rows(w, T, e->always, 1.0, &log_z)) {
        log_z += (double)(T - 1) * w->shift + w->initial_shift + w->final_shift;
        expect_arcs(e, T);
    } else {
        for (int64_t t = 0; t < T; t++) slot_sums(s, first + t, e->weights, w->slots + t * s->P);
        load_scores(e);
        memset(w->begin, 0, (size_t)w->Q * sizeof *w->begin);
        memset(w->end, 0, (size_t)w->Q * sizeof *w->end);
        if (in_double(w, T, 1.0, &log_z) != FC_OK) return NAN;
        for (int64_t i = 0; i < e->arcs; i++)
            e->change[k->arc_slot[e->trained[i]]] += w->arc[e->trained[i]];
        *rescued += 1;
    }
    for (int64_t j = 0; j < w->S; j++) {
        if (k->initial[j] >= 0) e->change[k->initial[j]] += w->begin[j];
        if (k->final[j] >= 0) e->change[k->final[j]] += w->end[j];
    }
    return log_z;
}

/* Moves all weights of a sentence; meanwhile the rows of the next one are prefetched. */
static void move(stepper *e, int64_t first, int64_t T, double step, int64_t next, int64_t next_T) {
    const fc_shard *s = e->w.shard;
    const fc_stochastic *k = e->steps;
    const int32_t *gold = k->gold + first;
    fc_averaged *x = e->weights;
    const float factor = (float)step;
    for (int64_t t = 0; t < T; t++) {
        float *g = e->w.slots + t * s->P;
        if (s->K == 0) g[gold[t]] -= 1.0f;
        for (int64_t i = 0; i < s->K; i++) g[s->slot[gold[t] * s->K + i]] -= 1.0f;
        for (int64_t j = 0; j < s->P; j++) g[j] *= factor;
        move_token(s, k->mask, x, first + t, g);
        if (t < next_T) prefetch_token(s, next + t, x->table);
    }
    for (int64_t t = T; t < next_T; t++) prefetch_token(s, next + t, x->table);
    double *restrict u = x->dense, *restrict v = x->dense + k->D;
    const double *restrict change = e->change, mass = x->mass;
    for (int64_t m = 0; m < k->D; m++) {
        const double d = step * change[m];
        u[m] -= d;
        v[m] += mass * d;
    }
}

/* --- Checks -------------------------------------------------------------------------------------- */

static fc_status check_gold(const fc_machine *g, const fc_shard *s, const int32_t *gold,
                            int64_t *where) {
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t n = s->offsets[b]; n < s->offsets[b + 1]; n++) {
            if (gold[n] < 0 || gold[n] >= g->S) return fail(FC_EINVAL, n, where);
            if (n == s->offsets[b]) continue;
            const int64_t a = arc_between(g->axis, gold[n - 1], gold[n]);
            if (a < 0 && g->axis->rest != NULL && has_rest(g->axis, gold[n - 1], gold[n])) continue;
            if (a < 0 || !(g->axis->score[a] > FC_NEVER)) return fail(FC_EINVAL, n, where);
        }
    return FC_OK;
}

/* Checks the trained parameters of arcs and ends, and the gold paths. */
static fc_status check_steps(const fc_machine *machine, const fc_shard *shard,
                             const fc_stochastic *steps, int64_t *where) {
    *where = 0;
    if (!is_line(machine) || machine->axis->moving || steps->D < 0) return FC_EINVAL;
    const fc_axis *axis = machine->axis; /* arcs without a weight have the rest */
    if (axis->rest != NULL && (axis->A == 0 || *axis->rest < 0.0 || *axis->rest > 0.0))
        return FC_EINVAL;
    for (int64_t k = 0; axis->rest != NULL && k < axis->A; k++)
        if (axis->score[k] < 0.0 || axis->score[k] > 0.0) return fail(FC_EINVAL, k, where);
    fc_status status = check_within(arcs_of(machine->axis), steps->arc_slot, -1, steps->D, where);
    if (status == FC_OK) status = check_within(machine->S, steps->initial, -1, steps->D, where);
    if (status == FC_OK) status = check_within(machine->S, steps->final, -1, steps->D, where);
    if (status == FC_OK) status = check_gold(machine, shard, steps->gold, where);
    return status;
}

fc_status fc_check_stochastic(const fc_machine *machine, const fc_shard *shard,
                              const fc_layout *layout, const fc_stochastic *steps, int64_t *where) {
    const fc_status status = check_attributes(machine, shard, layout, where);
    return status == FC_OK ? check_steps(machine, shard, steps, where) : status;
}

/* Checks sizes and sentences of a shard, and all indices of an epoch except the attributes: checking
 * these takes as long as the epoch, and fc_check_stochastic has done it. */
static fc_status check_epoch(const fc_machine *machine, const fc_shard *shard,
                             const fc_stochastic *steps, int64_t n_order, const int64_t *order,
                             int64_t *where) {
    fc_status status = check_sentences(machine, shard, where);
    if (status == FC_OK) status = check_steps(machine, shard, steps, where);
    if (status == FC_OK && n_order < 0) return FC_EINVAL;
    return status == FC_OK ? check_order(n_order, order, shard->B, where) : status;
}

fc_status fc_asgd(const fc_machine *machine, const fc_shard *shard, const fc_stochastic *steps,
                  int64_t n_order, const int64_t *order, const double *rate, double decay,
                  int averaging, fc_averaged *weights, double *loss, int64_t *rescued, double *work,
                  int64_t *where) {
    const fc_status status = check_epoch(machine, shard, steps, n_order, order, where);
    if (status != FC_OK) return status;
    stepper e;
    const int64_t *offsets = shard->offsets;
    const int64_t bytes = lay_out_steps(&e, machine, shard, steps, work);
    if (work == NULL) {
        *where = bytes / (int64_t)sizeof *work;
        return FC_OK;
    }
    e.weights = weights;
    begin_steps(&e, machine);
    fc_total losses = {0};
    *rescued = 0;
    for (int64_t k = 0; k < n_order; k++) {
        const int64_t b = order[k], first = offsets[b], T = offsets[b + 1] - first;
        const int64_t c = order[k + 1 < n_order ? k + 1 : k], next = offsets[c];
        for (int64_t t = 0; t < T; t++)
            slot_sums(shard, first + t, weights, e.w.slots + t * shard->P);
        if (e.dense || e.full) load_arcs(&e);
        load_ends(&e, machine);
        memset(e.change, 0, (size_t)steps->D * sizeof *e.change);
        const double score = leave_gold(&e, first, T);
        const double nll = expect(&e, first, T, rescued) - score;
        if (!isfinite(nll)) return fail(FC_ENUMERIC, k, where);
        fc_add(&losses, shard->weight[b] * nll);
        weights->scale *= 1.0 - rate[k] * decay;
        const double step = rate[k] * shard->weight[b] / weights->scale;
        if (!(weights->scale > 0.0) || !isfinite(step) || fabs(step) > 1e30)
            return fail(FC_ENUMERIC, k, where);
        move(&e, first, T, step, next, offsets[c + 1] - next);
        if (averaging) {
            weights->mass += weights->scale;
            weights->steps += 1.0;
        }
        if (weights->scale < LEAST_SCALE) settle(shard, steps->D, weights);
    }
    *loss = fc_value(losses);
    return FC_OK;
}

#endif
