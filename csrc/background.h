/* SPDX-License-Identifier: Apache-2.0
 *
 * The sweep of sweep.h for axes in which most pairs of states have one weight, the *rest*, and few have
 * their own arc. A row of transitions is constant except for its exceptions:
 *
 *   y_j = r sum_i x_i  +  sum over arcs i -> j of (w_ij - r) x_i
 *
 * ABREAST sentences are processed side by side, a lane each: x is [S][ABREAST]. An arc then costs a
 * multiplication of whole registers, whereas gathering the x_i of one sentence would cost more than the
 * dense product. Sentences of a group have about the same length: longest first. A finished sentence
 * has zeros in its lane.
 *
 * The rest may apply to some pairs only, whose states are of one class; the other pairs do not exist. A
 * tagging scheme has one class: labels that may end a span, and labels that may begin one. If states
 * are pairs of labels, the states of a class share a label. Sums are then computed per class.
 *
 * Where w_ij < r, the two sums may cancel. They are float64 sums of float32 numbers: down to CANCELS of
 * the first sum they are exact to the last bit of a float. A cell below that is summed again, without a
 * subtraction. */
#ifndef FSTCRF_BACKGROUND_H
#define FSTCRF_BACKGROUND_H

#include "sweep.h"

#define ABREAST 16

#define HALF (WIDE / 2)
#define PARTS (ABREAST / HALF)
#define SINGLES (ABREAST / WIDE)
typedef double wide_double
    __attribute__((vector_size(8 * HALF), aligned(8), may_alias)); /* WIDE bytes as a `wide` */
typedef int64_t wide_double_mask __attribute__((vector_size(8 * HALF), aligned(8), may_alias));
typedef float half __attribute__((vector_size(4 * HALF), aligned(4), may_alias));

typedef struct {
    exceptions into, out;
    double rest;
    int64_t classes;   /* 1: the rest applies to all pairs */
    int always;        /* every state can be reached at every token */
    int64_t *order;    /* [B] sentences, longest first */
    float *emission;   /* [T][S][ABREAST] exp(potential), then c e b */
    float *alpha;      /* [T][S][ABREAST] */
    float *beta, *row; /* [S][ABREAST] */
    float *scale;      /* [T][ABREAST] */
    float *token;      /* [ABREAST][Q] states of a token of each sentence */
    float *slots;      /* [ABREAST][P] slots of these tokens */
    double *x;         /* [S][ABREAST] the numbers to be summed, */
    /* [classes + 2][ABREAST] ... per class; then 0 for states without a class, and the sum of states
     * that no class counts */
    double *share;
    float *lift;   /* [S] masks the states that no sentence can reach */
    double *alone; /* [S] a lane of x */
    float *sum;    /* [A][ABREAST] sums of outer products of a group */
    float *square; /* ... sums of their squares, or NULL */
    double *total; /* [A] the same for all groups */
    double *squares;
} abreast;

/* The sentences of a group: lane l has sentence b[l]. */
typedef struct {
    int64_t n, longest; /* lanes in use; tokens of the first */
    int64_t b[ABREAST], first[ABREAST], T[ABREAST];
    double weight[ABREAST];
    fc_total log_z[ABREAST], gold[ABREAST];
    int lost[ABREAST]; /* float32 cannot represent it */
} group;

/* --- Layout ----------------------------------------------------------------------------------- */

/* Tokens of the longest group: longer sentences would take too much memory side by side. Sentences of
 * ordinary length are always grouped, whatever the number of states. */
static int64_t longest_abreast(const fc_machine *g, const fc_shard *s) {
    const int64_t most = (int64_t)64 << 20, row = g->S * ABREAST * (int64_t)sizeof(float);
    const int64_t T = most / row > 100 ? most / row : 100;
    return T < s->longest ? T : s->longest;
}

static int64_t lay_out_abreast(abreast *w, const fc_machine *g, const fc_shard *s, int curved,
                               double *work) {
    const int64_t S = g->S, Q = padded(S), A = g->axis->A, T = longest_abreast(g, s);
    arena a = {(char *)work, 0};
    if (work != NULL) a.base += (64 - (uintptr_t)work % 64) % 64;
    const int64_t f = sizeof(float), d = sizeof(double), cells = S * ABREAST;
    exceptions *side[] = {&w->into, &w->out};
    for (int k = 0; k < 2; k++) {
        side[k]->row = take(&a, S + 1, d);
        side[k]->state = NULL;
        side[k]->other = take(&a, A, f);
        side[k]->over = take(&a, A, d);
        side[k]->weight = take(&a, A, d);
    }
    w->order = take(&a, s->B + s->longest + 2, d);
    w->classes = g->axis->leave == NULL ? 1 : g->axis->leave->n;
    w->square = NULL;
    w->squares = NULL;
    float **part[] = {&w->emission, &w->alpha, &w->beta, &w->row, &w->scale,
                      &w->token,    &w->slots, &w->lift, &w->sum, &w->square};
    const int64_t size[] = {T * cells,   T * cells,      cells, cells,       T * ABREAST,
                            ABREAST * Q, ABREAST * s->P, S,     A * ABREAST, A * ABREAST};
    for (int k = 0; k < 9 + curved; k++) *part[k] = take(&a, size[k], f);
    double **whole[] = {&w->x, &w->share, &w->alone, &w->total, &w->squares};
    const int64_t width[] = {cells, (w->classes + 2) * ABREAST, S, A, A};
    for (int k = 0; k < 4 + curved; k++) *whole[k] = take(&a, width[k], d);
    return (a.used + 64) / (int64_t)sizeof(double);
}

/* Weight of an arc; never zero if the arc exists, because the guard must see it. */
static double arc_weight(double score, double shift) {
    const double weight = fc_exp(score - shift);
    return weight < DBL_MIN && score > FC_NEVER ? DBL_MIN : weight;
}

static void load_abreast(abreast *w, sweep *v) {
    const fc_axis *g = v->machine->axis;
    const int64_t S = v->S, A = g->A;
    double *const at = w->alone; /* next position among the arcs into each state */
    v->shift = fmax(finite_or_zero(fc_largest(A, g->score)), *g->rest);
    v->share = w->share;
    w->rest = fc_exp(*g->rest - v->shift);
    memset(w->into.row, 0, (size_t)(S + 1) * sizeof *w->into.row);
    for (int64_t k = 0; k < A; k++) w->into.row[g->target[k] + 1]++;
    for (int64_t j = 0; j < S; j++) w->into.row[j + 1] += w->into.row[j];
    for (int64_t j = 0; j < S; j++) at[j] = (double)w->into.row[j];
    memcpy(w->out.row, g->row, (size_t)(S + 1) * sizeof *w->out.row);
    for (int64_t k = 0; k < A; k++) {
        const double weight = arc_weight(g->score[k], v->shift);
        const int32_t i = g->source[k], j = g->target[k];
        const int64_t p = (int64_t)at[j];
        at[j] += 1.0;
        w->out.other[k] = j;
        w->into.other[p] = i;
        w->out.weight[k] = w->into.weight[p] = weight;
        w->out.over[k] = w->into.over[p] = weight - (has_rest(g, i, j) ? w->rest : 0.0);
    }
    w->into.from = w->out.at = g->leave;
    w->into.at = w->out.from = g->enter;
    w->always = g->leave == NULL;
    for (int64_t j = 0; j < S; j++) w->always &= v->machine->initial[j] > FC_NEVER;
    for (int64_t k = 0; k < A; k++) w->always &= g->score[k] > FC_NEVER;
    memset(w->total, 0, (size_t)A * sizeof *w->total);
    if (w->squares != NULL) memset(w->squares, 0, (size_t)A * sizeof *w->squares);
}

/* --- Sums ------------------------------------------------------------------------------------ */

FC_INLINE void turn(const float *from, int64_t step, float *to, int64_t stride) {
    const quad a = *(const quad *)from, b = *(const quad *)(from + step),
               c = *(const quad *)(from + 2 * step), d = *(const quad *)(from + 3 * step);
    const quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
               AB = __builtin_shufflevector(a, b, 2, 6, 3, 7),
               cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
               CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(quad *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(quad *)(to + stride) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(quad *)(to + 2 * stride) = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
    *(quad *)(to + 3 * stride) = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
}

/* x[j][l] -> y[l][j] of n rows of ABREAST numbers; and back. */
static void lanes_to_rows(int64_t n, int64_t stride, const float *restrict x, float *restrict y) {
    int64_t j = 0;
    for (; j + 4 <= n; j += 4)
        for (int64_t l = 0; l < ABREAST; l += 4)
            turn(x + j * ABREAST + l, ABREAST, y + l * stride + j, stride);
    for (; j < n; j++)
        for (int64_t l = 0; l < ABREAST; l++) y[l * stride + j] = x[j * ABREAST + l];
}

static void rows_to_lanes(int64_t n, int64_t stride, const float *restrict y, float *restrict x) {
    int64_t j = 0;
    for (; j + 4 <= n; j += 4)
        for (int64_t l = 0; l < ABREAST; l += 4)
            turn(y + l * stride + j, stride, x + j * ABREAST + l, ABREAST);
    for (; j < n; j++)
        for (int64_t l = 0; l < ABREAST; l++) x[j * ABREAST + l] = y[l * stride + j];
}

/* The sums of a class: the class that row j reads, or the class that j is added to. */
FC_INLINE double *share_of(const abreast *w, const fc_classes *c, int64_t j, int64_t none) {
    const int64_t own = c == NULL ? 0 : c->of[j];
    return w->share + (own < 0 ? w->classes + none : own) * ABREAST;
}

/* x = a, and its sums over the states of each class. */
static void widen(abreast *w, const fc_classes *class, int64_t S, const float *restrict a) {
    double *restrict x = w->x;
    memset(w->share, 0, (size_t)((w->classes + 2) * ABREAST) * sizeof *w->share);
    for (int64_t j = 0; j < S;) {
        wide_double sum[PARTS], *own = (wide_double *)share_of(w, class, j, 1);
        int64_t end = class == NULL ? S : j + 1; /* states of a class are often adjacent */
        while (end < S && class->of[end] == class->of[j]) end++;
        for (int p = 0; p < PARTS; p++) sum[p] = own[p];
        for (; j < end; j++)
            for (int p = 0; p < PARTS; p++) {
                const wide_double v =
                    __builtin_convertvector(((const half *)(a + j * ABREAST))[p], wide_double);
                ((wide_double *)(x + j * ABREAST))[p] = v;
                sum[p] += v;
            }
        for (int p = 0; p < PARTS; p++) own[p] = sum[p];
    }
}

/* Sums the cancelled cells of row j again, without a subtraction. */
FC_APART void sum_anew(const abreast *w, const exceptions *e, int64_t S, int64_t j,
                       const double *total, double *cell) {
    wide_double listed[PARTS] = {{0}}, others[PARTS] = {{0}};
    const int32_t class = e->from == NULL ? -1 : e->at->of[j];
    const int64_t last = e->row[j + 1];
    int64_t i = class < 0 ? 0 : e->from->row[class];
    const int64_t end = class >= 0 ? e->from->row[class + 1] : e->from == NULL ? S : 0;
    for (int64_t k = e->row[j]; i < end; i++) { /* states of the class, and arcs: both ascend */
        const int64_t state = class < 0 ? i : e->from->state[i];
        while (k < last && e->other[k] < state) k++;
        if (k < last && e->other[k] == state) continue;
        for (int p = 0; p < PARTS; p++)
            others[p] += ((const wide_double *)(w->x + state * ABREAST))[p];
    }
    for (int64_t k = e->row[j]; k < last; k++)
        for (int p = 0; p < PARTS; p++)
            listed[p] += e->weight[k] * ((const wide_double *)(w->x + e->other[k] * ABREAST))[p];
    for (int p = 0; p < PARTS; p++) listed[p] += w->rest * others[p];
    for (int l = 0; l < ABREAST; l++)
        cell[l] = cell[l] < CANCELS * total[l] ? listed[l / HALF][l % HALF] : cell[l];
}

/* y_j = r total + sum of (w - r) x over the arcs of j; x and its sums are set by `widen`. */
static void step_abreast(abreast *w, const exceptions *e, int64_t S, float *y) {
    for (int64_t k = 0; k < w->classes * ABREAST; k++) w->share[k] *= w->rest;
    for (int64_t j = 0; j < S; j++) {
        const double *total = share_of(w, e->at, j, 0);
        wide_double even[PARTS], odd[PARTS];
        for (int p = 0; p < PARTS; p++) even[p] = ((const wide_double *)total)[p];
        for (int p = 0; p < PARTS; p++) odd[p] = (wide_double){0};
        const int64_t last = e->row[j + 1];
        int64_t k = e->row[j];
        for (; k + 2 <= last; k += 2) {
            const wide_double *u = (const wide_double *)(w->x + (int64_t)e->other[k] * ABREAST),
                              *v = (const wide_double *)(w->x + (int64_t)e->other[k + 1] * ABREAST);
            for (int p = 0; p < PARTS; p++) even[p] += e->over[k] * u[p];
            for (int p = 0; p < PARTS; p++) odd[p] += e->over[k + 1] * v[p];
        }
        if (k < last) {
            const wide_double *u = (const wide_double *)(w->x + (int64_t)e->other[k] * ABREAST);
            for (int p = 0; p < PARTS; p++) even[p] += e->over[k] * u[p];
        }
        wide_double_mask below = {0};
        for (int p = 0; p < PARTS; p++) {
            even[p] += odd[p];
            below |= even[p] < CANCELS * ((const wide_double *)total)[p];
        }
        int64_t any = 0;
        for (int l = 0; l < HALF; l++) any |= below[l];
        if (any) {
            double cell[ABREAST];
            memcpy(cell, even, sizeof cell);
            sum_anew(w, e, S, j, total, cell);
            memcpy(even, cell, sizeof cell);
        }
        for (int p = 0; p < PARTS; p++)
            ((half *)(y + j * ABREAST))[p] = __builtin_convertvector(even[p], half);
    }
}

/* --- A group ---------------------------------------------------------------------------------- */

/* Potentials of the states at token t, exp(. - top) of each lane into e; top[l]. */
static void read_abreast(const sweep *v, abreast *w, group *g, int64_t t, const float *weight,
                         float *e, float *top) {
    const fc_shard *s = v->shard;
    const int64_t S = v->S, Q = v->Q;
    for (int64_t l = 0; l < ABREAST; l++) {
        float *row = w->token + l * Q;
        top[l] = 0.0f;
        if (l >= g->n || t >= g->T[l]) {
            memset(row, 0, (size_t)Q * sizeof *row);
            continue;
        }
        const int64_t next =
            l + 1 < g->n && t < g->T[l + 1] ? g->first[l + 1] + t : g->first[0] + t + 1;
        potentials(s, g->first[l] + t, next, weight, w->slots);
        to_states(v, w->slots, row);
        if (s->gold != NULL) fc_add(g->gold + l, (double)row[s->gold[g->first[l] + t]]);
        top[l] = max_of(Q, row);
        for (int64_t j = 0; j < Q; j++) row[j] = expf_fast(row[j] - top[l]);
    }
    rows_to_lanes(S, Q, w->token, e);
}

/* a *= e; sums over states, and the smallest reachable cell: lift, or NULL, masks the others. */
FC_INLINE void times_emission(int64_t S, const float *restrict e, const float *lift,
                              float *restrict a, double *sum, float *least) {
    wide low[SINGLES];
    wide_double total[PARTS];
    for (int p = 0; p < SINGLES; p++) low[p] = (wide){0} + 1e30f;
    for (int p = 0; p < PARTS; p++) total[p] = (wide_double){0};
    for (int64_t j = 0; j < S * ABREAST; j += ABREAST) {
        for (int p = 0; p < SINGLES; p++) {
            const wide x = ((const wide *)(a + j))[p] * ((const wide *)(e + j))[p];
            wide shown = x;
            if (lift != NULL) shown += lift[j / ABREAST];
            const wide_mask less = shown < low[p];
            low[p] = (wide)(((wide_mask)shown & less) | ((wide_mask)low[p] & ~less));
            ((wide *)(a + j))[p] = x;
        }
        for (int p = 0; p < PARTS; p++)
            total[p] += __builtin_convertvector(((const half *)(a + j))[p], wide_double);
    }
    for (int p = 0; p < PARTS; p++) ((wide_double *)sum)[p] = total[p];
    for (int p = 0; p < SINGLES; p++) ((wide *)least)[p] = low[p];
}

static void forward_abreast(sweep *v, abreast *w, group *g, const float *weight) {
    const int64_t S = v->S, cells = S * ABREAST;
    double sum[ABREAST], product_of_sums[ABREAST];
    float top[ABREAST], least[ABREAST];
    int settled = 0;
    for (int l = 0; l < ABREAST; l++) {
        g->log_z[l] = (fc_total){0};
        product_of_sums[l] = 1.0;
    }
    for (int64_t t = 0; t < g->longest; t++) {
        float *restrict a = w->alpha + t * cells, *restrict e = w->emission + t * cells;
        float *restrict c = w->scale + t * ABREAST;
        read_abreast(v, w, g, t, weight, e, top);
        if (t == 0) {
            for (int64_t j = 0; j < S; j++)
                for (int l = 0; l < ABREAST; l++) a[j * ABREAST + l] = v->initial[j];
        } else {
            step_abreast(w, &w->into, S, a);
        }
        if (w->always) {
            times_emission(S, e, NULL, a, sum, least);
        } else {
            if (!settled) settled = guard_listed(v, &w->into, t);
            for (int64_t j = 0; j < S; j++) w->lift[j] = v->reach[j] ? 0.0f : 1e30f;
            times_emission(S, e, w->lift, a, sum, least);
        }
        for (int l = 0; l < ABREAST; l++) {
            const int on = l < g->n && t < g->T[l] && !g->lost[l];
            c[l] = 0.0f;
            if (!on) continue;
            g->lost[l] = !(top[l] > -1e29f && top[l] < 1e29f && least[l] >= FAINT && sum[l] < 1e30);
            if (!g->lost[l] && sum[l] > 0.0) c[l] = (float)(1.0 / sum[l]);
            fc_add(g->log_z + l, (double)top[l]);
            add_sum(g->log_z + l, product_of_sums + l, sum[l], t == g->T[l] - 1);
        }
        for (int64_t j = 0; j < cells; j += ABREAST)
            for (int l = 0; l < ABREAST; l++) a[j + l] *= c[l];
        widen(w, w->into.from, S, a);
    }
}

/* At the end of a sentence: b = final / sum of a final. */
static void end_lane(const sweep *v, abreast *w, group *g, int64_t l, int64_t t) {
    const float *a = w->alpha + t * v->S * ABREAST + l;
    double last = 0.0;
    for (int64_t j = 0; j < v->S; j++) last += (double)(a[j * ABREAST] * v->final[j]);
    if (!(last > (double)FAINT)) g->lost[l] = 1;
    fc_add(g->log_z + l, log(last));
    const float by = g->lost[l] ? 0.0f : (float)(1.0 / last);
    for (int64_t j = 0; j < v->S; j++)
        w->beta[j * ABREAST + l] = w->always || a[j * ABREAST] > 0.0f ? by * v->final[j] : 0.0f;
}

/* b /= sum of a b; lanes without a sentence are unchanged. */
static void even_lanes(int64_t S, const float *restrict a, float *restrict b) {
    double sum[ABREAST] = {0};
    float by[ABREAST];
    for (int64_t j = 0; j < S * ABREAST; j += ABREAST)
        for (int l = 0; l < ABREAST; l++) sum[l] += (double)(a[j + l] * b[j + l]);
    for (int l = 0; l < ABREAST; l++) by[l] = sum[l] > 0.0 ? (float)(1.0 / sum[l]) : 1.0f;
    for (int64_t j = 0; j < S * ABREAST; j += ABREAST)
        for (int l = 0; l < ABREAST; l++) b[j + l] *= by[l];
}

/* Posteriors of token t, p = a b, to the gradient; CURVED: p (1 - p). */
static void scatter_abreast(sweep *v, abreast *w, const group *g, int64_t t,
                            const fc_shard *values) {
    const fc_shard *s = v->shard;
    const int64_t S = v->S, Q = v->Q, cells = S * ABREAST;
    const int curved = v->curved;
    const float *restrict a = w->alpha + t * cells, *restrict b = w->beta;
    float *restrict p = w->row;
    for (int64_t j = 0; j < cells; j++) p[j] = a[j] * b[j];
    lanes_to_rows(S, Q, p, w->token);
    for (int64_t l = 0; l < g->n; l++) {
        const float *row = w->token + l * Q;
        if (t >= g->T[l]) continue;
        if (g->lost[l]) { /* alone_in_double adds it instead */
            count_token(values, &v->sums);
            continue;
        }
        if (t == g->T[l] - 1) add_ends(S, g->weight[l], curved, row, v->end);
        if (t == 0) add_ends(S, g->weight[l], curved, row, v->begin);
        to_slots(v, row, curved ? 1.0f : (float)g->weight[l], w->slots);
        if (curved) spread_of(s->P, (float)g->weight[l], w->slots);
        const int64_t next =
            l + 1 < g->n && t < g->T[l + 1] ? g->first[l + 1] + t : g->first[0] + t - 1;
        scatter(values, g->first[l] + t, next, w->slots, &v->sums);
    }
}

static void empty_lane(const sweep *v, const abreast *w, const group *g, int64_t l) {
    const int64_t cells = g->longest * v->S * ABREAST;
    for (int64_t j = l; j < cells; j += ABREAST) w->alpha[j] = w->emission[j] = 0.0f;
}

static void backward_abreast(sweep *v, abreast *w, group *g, const fc_shard *values) {
    const int64_t S = v->S, cells = S * ABREAST;
    for (int64_t l = 0; l < g->n; l++)
        if (g->lost[l]) empty_lane(v, w, g, l);
    memset(w->beta, 0, (size_t)cells * sizeof *w->beta);
    for (int64_t t = g->longest - 1; t >= 0; t--) {
        for (int64_t l = 0; l < g->n; l++)
            if (t == g->T[l] - 1 && !g->lost[l]) end_lane(v, w, g, l, t);
        if (t % FC_EVEN == 0) even_lanes(S, w->alpha + t * cells, w->beta);
        scatter_abreast(v, w, g, t, values);
        if (t == 0) return;
        float *restrict n = w->emission + t * cells;
        const float *restrict b = w->beta, *restrict c = w->scale + t * ABREAST;
        for (int64_t j = 0; j < cells; j += ABREAST)
            for (int l = 0; l < ABREAST; l++) n[j + l] *= c[l] * b[j + l];
        widen(w, w->out.from, S, n);
        step_abreast(w, &w->out, S, w->beta);
        if (!w->always) { /* if a is 0, b may overflow, and 0 * inf is not a posterior */
            const float *restrict a = w->alpha + (t - 1) * cells;
            float *restrict back = w->beta;
            for (int64_t j = 0; j < cells; j++) back[j] = a[j] > 0.0f ? back[j] : 0.0f;
        }
    }
}

/* --- Arcs ------------------------------------------------------------------------------------- */

#if WIDE == 16
#define TOGETHER 8 /* tokens whose a remain in registers */
#else
#define TOGETHER 2
#endif

/* sum += weight a n over some tokens, and weight (a n)^2 if requested. */
FC_INLINE void outer_abreast(const int R, const int curved, const sweep *v, abreast *w, int64_t t,
                             const float *weight) {
    const int64_t S = v->S, cells = S * ABREAST;
    const float *alpha = w->alpha + (t - 1) * cells, *next = w->emission + t * cells;
    for (int64_t i = 0; i < S; i++)
        for (int p = 0; p < SINGLES; p++) {
            const int64_t lane = p * WIDE;
            const wide by = *(const wide *)(weight + lane);
            wide a[TOGETHER];
            for (int r = 0; r < R; r++)
                a[r] = *(const wide *)(alpha + r * cells + i * ABREAST + lane);
            for (int r = 0; r < R && !curved; r++) a[r] *= by;
            for (int64_t k = w->out.row[i]; k < w->out.row[i + 1]; k++) {
                const float *n = next + (int64_t)w->out.other[k] * ABREAST + lane;
                wide *sum = (wide *)(w->sum + k * ABREAST + lane), total = *sum;
                if (!curved) {
                    for (int r = 0; r < R; r++) total += a[r] * *(const wide *)(n + r * cells);
                } else {
                    wide *square = (wide *)(w->square + k * ABREAST + lane), squares = *square;
                    for (int r = 0; r < R; r++) {
                        const wide x = a[r] * *(const wide *)(n + r * cells), y = by * x;
                        total += y;
                        squares += y * x;
                    }
                    *square = squares;
                }
                *sum = total;
            }
        }
}

/* Adds the sums of lanes to the totals. Lost lanes are zeros. */
static void add_lanes(int64_t n, const float *restrict x, double *restrict total) {
    for (int64_t k = 0; k < n; k++, x += ABREAST) {
        double four[4] = {0};
        for (int l = 0; l < ABREAST; l++) FC_ASSERT(!isnan(x[l]));
        for (int l = 0; l < ABREAST; l += 4)
            for (int q = 0; q < 4; q++) four[q] += (double)x[l + q];
        total[k] += (four[0] + four[1]) + (four[2] + four[3]);
    }
}

/* The outer products of the tokens from t to end - 1, at most FC_RUN, into the totals. */
static void add_arcs_abreast(const sweep *v, abreast *w, int64_t t, int64_t end,
                             const float *weight) {
    const int64_t A = v->machine->axis->A;
    const size_t size = (size_t)(A * ABREAST) * sizeof *w->sum;
    memset(w->sum, 0, size);
    if (w->square == NULL) {
        for (; t + TOGETHER <= end; t += TOGETHER) outer_abreast(TOGETHER, 0, v, w, t, weight);
        for (; t < end; t++) outer_abreast(1, 0, v, w, t, weight);
    } else {
        memset(w->square, 0, size);
        for (; t + TOGETHER <= end; t += TOGETHER) outer_abreast(TOGETHER, 1, v, w, t, weight);
        for (; t < end; t++) outer_abreast(1, 1, v, w, t, weight);
        add_lanes(A, w->square, w->squares);
    }
    add_lanes(A, w->sum, w->total);
}

static void arcs_abreast(const sweep *v, abreast *w, const group *g) {
    float weight[ABREAST];
    for (int l = 0; l < ABREAST; l++)
        weight[l] = l < g->n && !g->lost[l] ? (float)g->weight[l] : 0.0f;
    for (int64_t t = 1; t < g->longest; t += FC_RUN)
        add_arcs_abreast(v, w, t, t + FC_RUN < g->longest ? t + FC_RUN : g->longest, weight);
}

/* --- The sentences of a shard ------------------------------------------------------------------ */

/* Sentences from place `from` of the order, or one of them if there is no order; returns the place after
 * them. A group longer than `most` is one sentence, processed in float64. */
static int64_t next_group(const fc_shard *s, const abreast *w, int64_t from, int64_t most,
                          group *g) {
    memset(g, 0, sizeof *g);
    for (; g->n < (w->order == NULL ? 1 : ABREAST) && from < s->B; from++) {
        const int64_t b = w->order == NULL ? from : w->order[from], l = g->n,
                      T = s->offsets[b + 1] - s->offsets[b];
        if (T > most && l > 0) break;
        g->b[l] = b;
        g->first[l] = s->offsets[b];
        g->T[l] = T;
        g->weight[l] = s->weight[b];
        g->n++;
        if (l == 0) g->longest = T;
        if (T > most) return from + 1;
    }
    return from;
}

#endif
