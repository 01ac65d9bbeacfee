/* SPDX-License-Identifier: Apache-2.0
 *
 * Stochastic gradient descent by the recursions of sweep.c, one sentence a step, with the mean of all
 * weights on the way. Decay is one factor: the weights are s u. With d_r the change of u at step r and
 * c_r = s_1 + ... + s_r, the sum of the weights of steps 1 .. n is
 *
 *   sum_t s_t u_t = c_n u_n + v,    v = sum_r c_{r-1} d_r,    u_r = u_{r-1} - d_r
 *
 * so a step changes u and v of its own rows alone. Where s has become small, both are made anew.
 *
 * Most arcs of a corpus with many labels have no weight; a step looks at those that have: their
 * potentials go into the matrices, whose other cells change with the common shift of arcs alone. */
#ifndef FSTCRF_STOCHASTIC_H
#define FSTCRF_STOCHASTIC_H

#define SHIFT_STEP 10.0 /* arcs are shifted by multiples: e^10 is far from the limits of FAINT */
#define LEAST_SCALE 0.05

typedef struct {
    sweep w;
    const fc_stochastic *steps;
    fc_averaged *weights;
    fc_machine machine; /* the caller's structure over potentials of the moment */
    fc_axis axis;       /* its only one */
    int dense;          /* float32 takes dense graphs alone */
    int always;         /* every state can be reached at every token */
    int outer;          /* expectations of arcs are cheaper by whole outer products */
    double *score;      /* [arcs] */
    double *ends;       /* [2][S] */
    double *change;     /* [D] gradient of arcs and ends */
    float *own;         /* [n] potentials of trained arcs, then their expectations */
} stepper;

/* Hands out parts of the scratch; without any, counts. */
typedef struct {
    char *base;
    int64_t used;
} arena;

static void *take(arena *a, int64_t count, int64_t width) {
    const int64_t at = a->used;
    a->used += (count * width + 63) / 64 * 64;
    return a->base == NULL ? NULL : a->base + at;
}

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
    w->S = S;
    w->Q = Q;
    e->steps = steps;
    e->machine = *g;
    e->axis = *g->axis;
    e->machine.axis = &e->axis;
    e->dense = g->axis->A == 0;
    /* T multiply-adds for an arc, one after the other, or for all in whole registers */
    e->outer = e->dense && steps->n * 8 > S * Q;
    const int64_t matrix = e->dense ? Q4 * Q : 0;
    w->forward = take(&a, matrix, f);
    w->backward = take(&a, matrix, f);
    w->open = take(&a, e->dense ? S * Q : 0, 1);
    w->total = e->outer ? take(&a, matrix, d) : NULL;
    float **row[] = {&w->initial, &w->final, &w->pad, &w->faint};
    for (int k = 0; k < 4; k++) *row[k] = take(&a, Q, f);
    w->reach = take(&a, 2 * Q, 1);
    w->slots = take(&a, T * s->P, f);
    w->emission = take(&a, (T + 1) * Q, f);
    w->alpha = take(&a, (T + 1) * Q, f); /* outer products read whole groups of four rows */
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
    e->own = take(&a, steps->n, f);
    w->rest = take(&a, fc_machine_work(g, T), d);
    e->axis.score = e->score;
    e->machine.initial = e->ends;
    e->machine.final = e->ends + S;
    return a.used + 64;
}

int64_t fc_asgd_work(const fc_machine *machine, const fc_shard *shard, const fc_stochastic *steps) {
    stepper e;
    return lay_out_steps(&e, machine, shard, steps, NULL) / (int64_t)sizeof(double);
}

/* What does not change from step to step. */
static void begin_steps(stepper *e, const fc_machine *g) {
    sweep *w = &e->w;
    const int64_t S = w->S, Q = w->Q, A = arcs_of(g->axis);
    memcpy(e->score, g->axis->score, (size_t)A * sizeof *e->score);
    memcpy(e->ends, g->initial, (size_t)S * sizeof *e->ends);
    memcpy(e->ends + S, g->final, (size_t)S * sizeof *e->ends);
    memset(w->initial, 0, (size_t)Q * sizeof *w->initial);
    memset(w->final, 0, (size_t)Q * sizeof *w->final);
    for (int64_t j = 0; j < Q; j++) {
        w->pad[j] = j < S ? 0.0f : -1e30f;
        w->faint[j] = j < S ? FAINT : -1.0f;
    }
    w->shift = NAN; /* the matrices are made at the first step */
    if (!e->dense) return;
    memset(w->forward, 0, (size_t)(w->open - (uint8_t *)w->forward));
    memset(w->open, 0, (size_t)S * (size_t)Q);
    e->always = 1;
    for (int64_t i = 0; i < S; i++) {
        for (int64_t j = 0; j < S; j++) {
            w->open[i * Q + j] = g->axis->score[i * S + j] > FC_NEVER;
            e->always &= w->open[i * Q + j];
        }
        e->always &= g->initial[i] > FC_NEVER;
    }
}

/* --- The weights as a sentence sees them --------------------------------------------------------- */

/* Arcs without a weight. */
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

static void load_arcs(stepper *e) {
    const fc_stochastic *s = e->steps;
    sweep *w = &e->w;
    const double *u = e->weights->dense;
    const float scale = (float)e->weights->scale;
    float top = s->n < w->S * w->S ? 0.0f : -1e30f;
    for (int64_t k = 0; k < s->n; k++) {
        const float x = scale * (float)u[s->arc_slot[s->trained[k]]];
        e->own[k] = x;
        top = x > top ? x : top;
    }
    const double shift = SHIFT_STEP * floor((double)top / SHIFT_STEP);
    if (!(shift == w->shift)) fill_background(w, isfinite(shift) ? shift : 0.0);
    const float less = (float)w->shift;
    for (int64_t k = 0; k < s->n; k++) e->own[k] = expf_fast(e->own[k] - less);
    for (int64_t k = 0; k < s->n; k++) {
        w->forward[s->source[k] * w->Q + s->target[k]] = e->own[k];
        w->backward[s->target[k] * w->Q + s->source[k]] = e->own[k];
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
    w->initial_shift = top_of(S, e->ends);
    w->final_shift = top_of(S, e->ends + S);
    for (int64_t j = 0; j < S; j++) {
        w->initial[j] = (float)fc_exp(e->ends[j] - w->initial_shift);
        w->final[j] = (float)fc_exp(e->ends[S + j] - w->final_shift);
    }
}

/* Potentials of arcs for a sentence in float64. */
static void load_scores(stepper *e) {
    const fc_stochastic *s = e->steps;
    for (int64_t k = 0; k < s->n; k++) {
        const int32_t a = s->trained[k];
        e->score[a] = e->weights->scale * e->weights->dense[s->arc_slot[a]];
    }
}

/* u = sum of the rows of one token, over V vectors; rows are 2 P wide. */
FC_INLINE void sum_pairs(const int V, const fc_shard *s, int64_t begin, int64_t end,
                         const float *table, float *u) {
    narrow acc[8];
    for (int v = 0; v < V; v++) acc[v] = (narrow){0};
    for (int64_t k = begin; k < end; k++) {
        const narrow *row = (const narrow *)(table + s->row[k] * 2 * s->P);
        if (s->row_value == NULL)
            for (int v = 0; v < V; v++) acc[v] += row[v];
        else
            for (int v = 0; v < V; v++) acc[v] += s->row_value[k] * row[v];
    }
    for (int v = 0; v < V; v++) ((narrow *)u)[v] = acc[v];
}

/* Potentials of the slots of token n. */
static void slot_sums(const fc_shard *s, int64_t n, const fc_averaged *x, float *u) {
    const int64_t begin = s->row_ptr[n], end = s->row_ptr[n + 1];
#define BODY(V) sum_pairs(V, s, begin, end, x->table + at * NARROW, u + at * NARROW)
    IN_GROUPS(s->P / NARROW, at, BODY);
#undef BODY
    const float *single = x->table + 2 * s->R * s->P, scale = (float)x->scale;
    for (int64_t k = s->single_ptr[n]; k < s->single_ptr[n + 1]; k++) {
        const float v = s->single_value == NULL ? 1.0f : s->single_value[k];
        u[s->single_slot[k]] += v * single[2 * (int64_t)s->single[k]];
    }
    for (int64_t j = 0; j < s->P; j++) u[j] *= scale;
}

/* Asks for the weights of token n, which are scattered over the table. */
FC_INLINE void prefetch_token(const fc_shard *s, int64_t n, const float *table) {
    for (int64_t k = s->row_ptr[n]; k < s->row_ptr[n + 1]; k++)
        for (int64_t l = 0; l < 2 * s->P; l += LANES)
            __builtin_prefetch(table + s->row[k] * 2 * s->P + l, 1);
    for (int64_t k = s->single_ptr[n]; k < s->single_ptr[n + 1]; k++)
        __builtin_prefetch(table + 2 * (s->R * s->P + s->single[k]), 1);
}

/* --- One step -------------------------------------------------------------------------------- */

/* Bits of a mask as lanes of ones. */
FC_INLINE narrow_mask lanes_of(uint8_t bits, int first) {
    narrow_mask bit;
    for (int l = 0; l < NARROW; l++) bit[l] = 1 << (first + l);
    return (((narrow_mask){0} + (int32_t)bits) & bit) != 0;
}

/* u -= value g, v += mass value g of the rows of one token where they have weights, over V vectors. */
FC_INLINE void move_rows(const int V, const fc_shard *s, const uint8_t *mask, int64_t at,
                         int64_t begin, int64_t end, float mass, const float *g, float *table) {
    narrow own[8];
    for (int v = 0; v < V; v++) own[v] = ((const narrow *)g)[at + v];
    for (int64_t k = begin; k < end; k++) {
        const int64_t r = s->row[k];
        narrow *u = (narrow *)(table + r * 2 * s->P) + at, *sum = u + s->P / NARROW;
        const float value = s->row_value == NULL ? 1.0f : s->row_value[k];
        for (int v = 0; v < V; v++) {
            narrow d = value * own[v];
            if (mask != NULL) {
                const int64_t slot = (at + v) * NARROW;
                d = (narrow)((narrow_mask)d &
                             lanes_of(mask[(r * s->P + slot) / 8], (int)(slot % 8)));
            }
            u[v] -= d;
            if (mass != 0.0f) sum[v] += mass * d;
        }
    }
}

/* Moves the weights of token n's attributes against the gradient g of its slots. */
static void move_token(const stepper *e, int64_t n, const float *g) {
    const fc_shard *s = e->w.shard;
    float *table = e->weights->table;
    const float mass = (float)e->weights->mass;
    const int64_t begin = s->row_ptr[n], end = s->row_ptr[n + 1];
    if (e->steps->mask == NULL) {
#define BODY(V) move_rows(V, s, NULL, at, begin, end, mass, g, table)
        IN_GROUPS(s->P / NARROW, at, BODY);
#undef BODY
    } else {
#define BODY(V) move_rows(V, s, e->steps->mask, at, begin, end, mass, g, table)
        IN_GROUPS(s->P / NARROW, at, BODY);
#undef BODY
    }
    float *single = table + 2 * s->R * s->P;
    for (int64_t k = s->single_ptr[n]; k < s->single_ptr[n + 1]; k++) {
        const float v = s->single_value == NULL ? 1.0f : s->single_value[k];
        const float d = v * g[s->single_slot[k]];
        float *u = single + 2 * (int64_t)s->single[k];
        u[0] -= d;
        u[1] += mass * d;
    }
}

static int64_t arc_between(const fc_axis *g, int32_t i, int32_t j) {
    if (g->A == 0) return i * g->S + j;
    int64_t a = g->row[i];
    while (a < g->row[i + 1] && g->target[a] != j) a++;
    return a < g->row[i + 1] ? a : -1;
}

/* Score of the gold path, from the potentials of slots; its counts go out of e->change. */
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
        const int32_t m = k->arc_slot[arc_between(&e->axis, gold[t - 1], gold[t])];
        if (m < 0) continue;
        arcs += u[m];
        e->change[m] -= 1.0;
    }
    if (k->initial[gold[0]] >= 0) e->change[k->initial[gold[0]]] -= 1.0;
    if (k->final[gold[T - 1]] >= 0) e->change[k->final[gold[T - 1]]] -= 1.0;
    return score + scale * arcs;
}

/* Expectations of the trained arcs of a sentence in float32. */
static void expect_arcs(stepper *e, int64_t T) {
    const sweep *w = &e->w;
    const fc_stochastic *s = e->steps;
    const int64_t Q = w->Q;
    double *change = e->change;
    if (e->outer) {
        for (int64_t k = 0; k < s->n; k++) {
            const int64_t cell = s->source[k] * Q + s->target[k];
            change[s->arc_slot[s->trained[k]]] += w->total[cell] * (double)w->forward[cell];
        }
        return;
    }
    float *sum = e->own;
    memset(sum, 0, (size_t)s->n * sizeof *sum);
    for (int64_t t = 1; t < T; t++) {
        const float *a = w->alpha + (t - 1) * Q, *n = w->emission + t * Q;
        for (int64_t k = 0; k < s->n; k++) sum[k] += a[s->source[k]] * n[s->target[k]];
    }
    for (int64_t k = 0; k < s->n; k++) {
        const float x = w->forward[s->source[k] * Q + s->target[k]];
        change[s->arc_slot[s->trained[k]]] += (double)(sum[k] * x);
    }
}

/* log Z; posteriors of slots into w->slots, expectations of arcs and ends into e->change. */
static double expect(stepper *e, int64_t first, int64_t T, int64_t *rescued) {
    sweep *w = &e->w;
    const fc_shard *s = w->shard;
    const fc_stochastic *k = e->steps;
    double log_z = 0.0;
    memset(w->begin, 0, (size_t)w->Q * sizeof *w->begin);
    memset(w->end, 0, (size_t)w->Q * sizeof *w->end);
    if (e->outer) memset(w->total, 0, (size_t)((w->S + 3) / 4 * 4 * w->Q) * sizeof *w->total);
    if (e->dense && forward_rows(w, T, e->always, &log_z) &&
        backward_rows(w, T, e->always, 1.0, &log_z)) {
        log_z += (double)(T - 1) * w->shift + w->initial_shift + w->final_shift;
        expect_arcs(e, T);
    } else {
        for (int64_t t = 0; t < T; t++) slot_sums(s, first + t, e->weights, w->slots + t * s->P);
        load_scores(e);
        memset(w->begin, 0, (size_t)w->Q * sizeof *w->begin);
        memset(w->end, 0, (size_t)w->Q * sizeof *w->end);
        in_double(w, T, 1.0, &log_z);
        for (int64_t i = 0; i < k->n; i++)
            e->change[k->arc_slot[k->trained[i]]] += w->arc[k->trained[i]];
        *rescued += 1;
    }
    for (int64_t j = 0; j < w->S; j++) {
        if (k->initial[j] >= 0) e->change[k->initial[j]] += w->begin[j];
        if (k->final[j] >= 0) e->change[k->final[j]] += w->end[j];
    }
    return log_z;
}

/* Moves all that a sentence has weights of; meanwhile the rows of the next one arrive. */
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
        move_token(e, first + t, g);
        if (t < next_T) prefetch_token(s, next + t, x->table);
    }
    for (int64_t t = T; t < next_T; t++) prefetch_token(s, next + t, x->table);
    double *u = x->dense, *v = x->dense + k->D;
    for (int64_t m = 0; m < k->D; m++) {
        const double d = step * e->change[m];
        u[m] -= d;
        v[m] += x->mass * d;
    }
}

/* Puts the scale into u, and the sum so far into v. */
static void settle(const stepper *e) {
    const fc_shard *s = e->w.shard;
    fc_averaged *x = e->weights;
    const float scale = (float)x->scale, mass = (float)x->mass;
    const int64_t P = s->P, D = e->steps->D;
    for (int64_t r = 0; r < s->R; r++) {
        float *restrict u = x->table + 2 * r * P, *restrict v = u + P;
        for (int64_t j = 0; j < P; j++) {
            v[j] += mass * u[j];
            u[j] *= scale;
        }
    }
    float *single = x->table + 2 * s->R * P;
    for (int64_t i = 0; i < s->M; i++) {
        single[2 * i + 1] += mass * single[2 * i];
        single[2 * i] *= scale;
    }
    for (int64_t m = 0; m < D; m++) {
        x->dense[D + m] += x->mass * x->dense[m];
        x->dense[m] *= x->scale;
    }
    x->scale = 1.0;
    x->mass = 0.0;
}

fc_status fc_asgd(const fc_machine *machine, const fc_shard *shard, const fc_stochastic *steps,
                  int64_t n_order, const int64_t *order, const double *rate, double decay,
                  int averaging, fc_averaged *weights, double *loss, int64_t *rescued, double *work,
                  int64_t *where) {
    stepper e;
    const int64_t *offsets = shard->offsets;
    lay_out_steps(&e, machine, shard, steps, work);
    e.weights = weights;
    begin_steps(&e, machine);
    *loss = 0.0;
    *rescued = 0;
    for (int64_t k = 0; k < n_order; k++)
        if (order[k] < 0 || order[k] >= shard->B) return fail(FC_EINVAL, k, where);
    for (int64_t k = 0; k < n_order; k++) {
        const int64_t b = order[k], first = offsets[b], T = offsets[b + 1] - first;
        const int64_t c = order[k + 1 < n_order ? k + 1 : k], next = offsets[c];
        for (int64_t t = 0; t < T; t++)
            slot_sums(shard, first + t, weights, e.w.slots + t * shard->P);
        if (e.dense) load_arcs(&e);
        load_ends(&e, machine);
        memset(e.change, 0, (size_t)steps->D * sizeof *e.change);
        const double score = leave_gold(&e, first, T);
        const double nll = expect(&e, first, T, rescued) - score;
        if (!isfinite(nll)) return fail(FC_ENUMERIC, k, where);
        *loss += shard->weight[b] * nll;
        weights->scale *= 1.0 - rate[k] * decay;
        const double step = rate[k] * shard->weight[b] / weights->scale;
        if (!(weights->scale > 0.0) || !isfinite(step) || fabs(step) > 1e30)
            return fail(FC_ENUMERIC, k, where);
        move(&e, first, T, step, next, offsets[c + 1] - next);
        if (averaging) {
            weights->mass += weights->scale;
            weights->steps += 1.0;
        }
        if (weights->scale < LEAST_SCALE) settle(&e);
    }
    return FC_OK;
}

/* --- Checks, and the way from and to the parameter vector ---------------------------------------- */

static fc_status check_places(int64_t n, const int32_t *place, int64_t D, int64_t *where) {
    for (int64_t i = 0; i < n; i++)
        if (place[i] < -1 || place[i] >= D) return fail(FC_EINVAL, i, where);
    return FC_OK;
}

static fc_status check_trained(const fc_axis *g, const fc_stochastic *s, int64_t *where) {
    const int64_t arcs = arcs_of(g);
    int64_t before = -1;
    for (int64_t k = 0; k < s->n; k++) {
        const int64_t a = s->trained[k];
        if (a <= before || a >= arcs || s->arc_slot[a] < 0) return fail(FC_EINVAL, k, where);
        const int64_t i = g->A == 0 ? a / g->S : g->source[a];
        const int64_t j = g->A == 0 ? a % g->S : g->target[a];
        if (s->source[k] != i || s->target[k] != j) return fail(FC_EINVAL, k, where);
        before = a;
    }
    return FC_OK;
}

/* Gold states exist, and so do the arcs between them. */
static fc_status check_gold(const fc_machine *g, const fc_shard *s, const int32_t *gold,
                            int64_t *where) {
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t n = s->offsets[b]; n < s->offsets[b + 1]; n++) {
            if (gold[n] < 0 || gold[n] >= g->S) return fail(FC_EINVAL, n, where);
            if (n == s->offsets[b]) continue;
            const int64_t a = arc_between(g->axis, gold[n - 1], gold[n]);
            if (a < 0 || !(g->axis->score[a] > FC_NEVER)) return fail(FC_EINVAL, n, where);
        }
    return FC_OK;
}

fc_status fc_check_stochastic(const fc_machine *machine, const fc_shard *shard,
                              const fc_layout *layout, const fc_stochastic *steps, int64_t *where) {
    *where = 0;
    if (!is_chain(machine) || machine->axis->moving || steps->D < 0 || steps->n < 0)
        return FC_EINVAL;
    fc_status status = check_attributes(machine, shard, layout, where);
    if (status == FC_OK)
        status = check_places(arcs_of(machine->axis), steps->arc_slot, steps->D, where);
    if (status == FC_OK) status = check_places(machine->S, steps->initial, steps->D, where);
    if (status == FC_OK) status = check_places(machine->S, steps->final, steps->D, where);
    if (status == FC_OK) status = check_trained(machine->axis, steps, where);
    if (status == FC_OK) status = check_gold(machine, shard, steps->gold, where);
    return status;
}

fc_status fc_asgd_spread(const fc_shard *s, const fc_layout *l, const double *theta, float *table) {
    memset(table, 0, (size_t)(2 * (s->R * s->P + s->M)) * sizeof *table);
    for (int64_t r = 0; r < s->R; r++)
        for (int64_t k = l->ptr[s->rows[r]]; k < l->ptr[s->rows[r] + 1]; k++)
            table[2 * r * s->P + l->slot[k]] = (float)theta[k];
    float *single = table + 2 * s->R * s->P;
    for (int64_t i = 0; i < s->M; i++) single[2 * i] = (float)theta[s->singles[i]];
    return FC_OK;
}

fc_status fc_asgd_collect(const fc_shard *s, const fc_layout *l, double a, double b,
                          const float *table, double *theta) {
    for (int64_t r = 0; r < s->R; r++) {
        const float *u = table + 2 * r * s->P, *v = u + s->P;
        for (int64_t k = l->ptr[s->rows[r]]; k < l->ptr[s->rows[r] + 1]; k++)
            theta[k] = a * (double)u[l->slot[k]] + b * (double)v[l->slot[k]];
    }
    const float *single = table + 2 * s->R * s->P;
    for (int64_t i = 0; i < s->M; i++)
        theta[s->singles[i]] = a * (double)single[2 * i] + b * (double)single[2 * i + 1];
    return FC_OK;
}

#endif
