/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward-backward of one sentence in float32 with float64 totals: the core of training.
 *
 * The recursions are the ones of recursion.h with Rabiner's scaling. The backward rows use the scales
 * c_t of the forward rows, so that a_t(j) b_t(j) is the posterior:
 *
 *   a_t = c_t (A' a_{t-1}) * e_t        sum_j a_t(j) = 1
 *   n_t = c_t  e_t * b_t                b_{t-1} = A n_t
 *   P(s_t = j) = a_t(j) b_t(j)          P(s_{t-1} = i, s_t = j) = a_{t-1}(i) A(i, j) n_t(j)
 *
 * Why one guard is enough. Every reachable a_t(j) is at least FAINT before scaling. Then no b_t(j)
 * exceeds 1 / a_t(j), and a term that underflows in the backward pass belongs to a state whose
 * posterior is below the smallest float. Arcs that underflow in A carry less than 1e-38 / FAINT of
 * their target. A sentence that fails the guard is done in float64 by recursion.h, in the log domain if
 * need be.
 *
 * The sum of a_t b_t is one up to the rounding errors of the tokens after t, which accumulate: every
 * FC_EVEN tokens b_t is divided by the sum. */
#ifndef FSTCRF_SWEEP_H
#define FSTCRF_SWEEP_H

#include "shard.h"

#define FAINT 1e-28f

/* Whether every pair of states has a weight: its own, or the rest of all pairs or of some classes. */
static int is_full_chain(const fc_machine *m) {
    return is_line(m) && (m->axis->A == 0 || m->axis->rest != NULL) && !m->axis->moving;
}

/* The arcs by the state that sums them: by target in the forward pass, by source in the backward
   pass. */
typedef struct {
    int64_t *row;   /* [S + 1] */
    int32_t *state; /* [S] state of each row; sorted by length, so that branches are predictable. Or
                     * NULL: they are in order */
    int32_t *arc;   /* [A] number of each arc, */
    float *value;   /* [A] and w by this number */
    int32_t *other; /* [A] the state that is summed */
    double *over;   /* [A] w - r, or w if the pair has no rest */
    double *weight; /* [A] w = exp(score - shift); or NULL: all are positive */
    const fc_classes *from,
        *at; /* of the states that are summed, and of the summing ones; or NULL */
} exceptions;

/* A difference of sums below this share of them has cancelled; see background.h. */
#define CANCELS 0x1p-22

typedef struct {
    const fc_shard *shard;
    const fc_machine *machine;
    int64_t S, Q; /* states; the same, padded */
    int curved;   /* the diagonal of the Hessian is computed, not the gradient */
    double shift, initial_shift, final_shift;
    float *forward;          /* [Q4][Q] exp(arc - shift) by source; Q4 = S rounded up to 4 */
    float *backward;         /* [Q4][Q] by target */
    float *initial;          /* [Q] exp, 0 in the padding */
    float *final;            /* [Q] */
    float *pad;              /* [Q] 0, and in the padding a potential that cannot win */
    float *faint;            /* [Q] guard of each state: FAINT, or -1 if it cannot be reached */
    uint8_t *open;           /* [S][Q] 1 if the arc exists */
    uint8_t *reach;          /* [2][Q] */
    shard_sums sums;         /* outputs for the caller */
    float *slots;            /* [longest][P] potentials of slots, then their posteriors */
    float *emission;         /* [longest][Q] */
    float *alpha;            /* [longest][Q] */
    float *scale;            /* [longest] */
    float *beta;             /* [2][Q] */
    double *total, *squares; /* [Q4][Q] sums of outer products, and of their squares */
    double *begin, *end;     /* [S] posteriors of first and last states */
    double *node;            /* [longest][S] for a sentence in float64 */
    double *posterior;       /* [longest][S] */
    double *arc;             /* [S * S] expectations of its arcs */
    exceptions *into, *out;  /* for a single sentence, instead of the matrices; or NULL */
    double remainder;        /* the weight of all other pairs */
    double *one;             /* [S] the row that is summed */
    double *share;           /* [classes + 2], at least [3]: its sums by class */
    fc_axis whole;         /* all arcs as a list, for a sentence in float64 if there are classes */
    int64_t *whole_row;    /* [S + 1] */
    int32_t *whole_source; /* [whole.A] */
    int32_t *whole_target;
    double *whole_score, *whole_sum;
    int64_t *whole_place; /* [A] index of each arc in the list */
    double *rest;         /* scratch of fc_machine_marginals */
} sweep;

/* Allocates parts of the scratch; without memory, counts. */
typedef struct {
    char *base;
    int64_t used;
} arena;

static void *take(arena *a, int64_t count, int64_t width) {
    const int64_t at = a->used;
    a->used += (count * width + 63) / 64 * 64;
    return a->base == NULL ? NULL : a->base + at;
}

static int64_t padded(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* Number of arcs, and of pairs that have the rest instead. */
static int64_t whole_arcs(const fc_axis *g) {
    int64_t n = 0;
    for (int64_t c = 0; c < g->leave->n; c++)
        n += (g->leave->row[c + 1] - g->leave->row[c]) * (g->enter->row[c + 1] - g->enter->row[c]);
    for (int64_t k = 0; k < g->A; k++) n += !has_rest(g, g->source[k], g->target[k]);
    return n;
}

/* Room for a single sentence in float64: fc_machine_marginals knows no classes. */
static void lay_out_whole(sweep *w, const fc_machine *g, int64_t T, arena *a) {
    const int classed = g->axis->leave != NULL;
    const int64_t f = sizeof(float), d = sizeof(double), A = classed ? g->axis->A : 0;
    fc_machine alone = *g;
    w->whole = *g->axis;
    if (classed) {
        w->whole = (fc_axis){.S = g->S, .A = whole_arcs(g->axis), .contexts = 1};
        alone.axis = &w->whole;
    }
    const int64_t all = classed ? w->whole.A : 0;
    w->whole_row = take(a, classed ? g->S + 1 : 0, d);
    w->whole_source = take(a, all, f);
    w->whole_target = take(a, all, f);
    w->whole_score = take(a, all, d);
    w->whole_sum = take(a, all, d);
    w->whole_place = take(a, A, d);
    w->rest = take(a, fc_machine_work(&alone, 1, T), d);
}

/* Room for the rows of one sentence; background.h lays out sentences side by side. */
static int64_t lay_out(sweep *w, const fc_machine *g, const fc_shard *s, int curved, double *work) {
    const int64_t S = g->S, Q = padded(S), T = s->longest, A = arcs_of(g->axis);
    const int dense = g->axis->A == 0;
    const int64_t matrix = dense ? (S + 3) / 4 * 4 * Q : 0, rows = dense ? T : 1;
    arena a = {(char *)work, 0};
    if (work != NULL) a.base += (64 - (uintptr_t)work % 64) % 64; /* whole cache lines */
    const int64_t f = sizeof(float), d = sizeof(double);
    w->shard = s;
    w->machine = g;
    w->curved = curved;
    w->S = S;
    w->Q = Q;
    w->into = w->out = NULL;
    float **part[] = {&w->forward, &w->backward, &w->initial, &w->final, &w->pad, &w->faint,
                      &w->slots,   &w->emission, &w->alpha,   &w->scale, &w->beta};
    const int64_t size[] = {matrix, matrix, Q, Q, Q, Q, T * s->P, rows * Q, rows * Q, T, 2 * Q};
    for (int k = 0; k < 11; k++) *part[k] = take(&a, size[k], f);
    double **whole[] = {&w->total, &w->squares, &w->node, &w->posterior, &w->arc};
    const int64_t width[] = {matrix, w->curved ? matrix : 0, T * S, T * S, A};
    for (int k = 0; k < 5; k++) *whole[k] = take(&a, width[k], d);
    lay_out_whole(w, g, T, &a);
    w->open = take(&a, dense ? S * Q : 0, 1);
    w->reach = take(&a, 2 * Q, 1);
    return (a.used + 64) / d;
}

/* initial and final, from the scores of ends. */
static void exp_ends(sweep *w) {
    const fc_machine *g = w->machine;
    w->initial_shift = finite_or_zero(fc_largest(w->S, g->initial));
    w->final_shift = finite_or_zero(fc_largest(w->S, g->final));
    for (int64_t j = 0; j < w->Q; j++) {
        w->initial[j] = j < w->S ? (float)fc_exp(g->initial[j] - w->initial_shift) : 0.0f;
        w->final[j] = j < w->S ? (float)fc_exp(g->final[j] - w->final_shift) : 0.0f;
    }
}

/* Sets the guards for graphs in which every state is reachable. */
static void open_guards(const sweep *w) {
    for (int64_t j = 0; j < w->Q; j++) {
        w->pad[j] = j < w->S ? 0.0f : -1e30f;
        w->faint[j] = j < w->S ? FAINT : -1.0f;
    }
}

/* Fills the matrices; returns 1 if every state can be reached at every token. */
static int load_dense(sweep *w) {
    const fc_machine *g = w->machine;
    const double *score = g->axis->score;
    const int64_t S = w->S, Q = w->Q;
    w->shift = finite_or_zero(fc_largest(S * S, score));
    /* forward and backward are adjacent, and so are total and squares */
    memset(w->forward, 0, (size_t)(w->initial - w->forward) * sizeof *w->forward);
    memset(w->open, 0, (size_t)S * (size_t)Q);
    for (int64_t i = 0; i < S; i++) {
        for (int64_t j = 0; j < S; j++) {
            const float a = (float)fc_exp(score[i * S + j] - w->shift);
            w->forward[i * Q + j] = a;
            w->backward[j * Q + i] = a;
            w->open[i * Q + j] = score[i * S + j] > FC_NEVER;
        }
    }
    memset(w->total, 0, (size_t)(w->node - w->total) * sizeof *w->total);
    int always = 1;
    for (int64_t a = 0; a < S * S; a++) always &= score[a] > FC_NEVER;
    for (int64_t j = 0; j < S; j++) always &= g->initial[j] > FC_NEVER;
    return always;
}

/* Sets the guards for the states that can be reached at token t, the second row of w->reach. Returns 1
 * once they are the same as before, and so will not change again. */
static int keep_reached(sweep *w, int64_t t) {
    uint8_t *now = w->reach, *then = w->reach + w->Q;
    const int same = t > 0 && memcmp(now, then, (size_t)w->Q) == 0;
    memcpy(now, then, (size_t)w->Q);
    for (int64_t j = 0; j < w->Q; j++) w->faint[j] = now[j] ? FAINT : -1.0f;
    return same;
}

FC_APART int guard_dense(sweep *w, int64_t t) {
    const uint8_t *now = w->reach;
    uint8_t *then = w->reach + w->Q;
    memset(then, 0, (size_t)w->Q);
    for (int64_t j = 0; t == 0 && j < w->S; j++) then[j] = w->machine->initial[j] > FC_NEVER;
    for (int64_t i = 0; t > 0 && i < w->S; i++)
        if (now[i])
            for (int64_t j = 0; j < w->Q; j++) then[j] |= w->open[i * w->Q + j];
    return keep_reached(w, t);
}

/* The same over exceptions. */
FC_APART int guard_listed(sweep *w, const exceptions *e, int64_t t) {
    const fc_classes *from = e->from, *at = e->at;
    const int64_t n = from == NULL ? 1 : from->n;
    const uint8_t *now = w->reach;
    uint8_t *then = w->reach + w->Q;
    double *open = w->share; /* number of reachable states per class */
    memset(then, 0, (size_t)w->Q);
    memset(open, 0, (size_t)(n + 2) * sizeof *open);
    for (int64_t i = 0; i < w->S && t > 0; i++)
        if (now[i]) open[from == NULL ? 0 : from->of[i] < 0 ? n + 1 : from->of[i]] += 1.0;
    for (int64_t r = 0; r < w->S; r++) {
        const int64_t j = e->state == NULL ? r : e->state[r];
        double reached = t > 0 ? open[at == NULL      ? 0
                                      : at->of[j] < 0 ? n
                                                      : at->of[j]]
                               : w->machine->initial[j] > FC_NEVER;
        const int sure = e->weight == NULL && reached > 0.0; /* no arc takes it away */
        for (int64_t k = e->row[r]; t > 0 && !sure && k < e->row[r + 1]; k++) {
            const int64_t i = e->other[k];
            if (!now[i]) continue;
            reached -= has_rest(w->machine->axis, i, j);
            reached += e->weight == NULL || e->weight[k] > 0.0;
        }
        then[j] = reached > 0.0;
    }
    return keep_reached(w, t);
}

/* Potentials of states from potentials of slots. */
static void to_states(const sweep *w, const float *restrict u, float *restrict e) {
    const fc_shard *s = w->shard;
    if (s->K == 0) { /* the padding of u is zero; stores are as wide as the loads that follow */
        for (int64_t j = 0; j < w->Q; j += WIDE) {
            wide sum = *(const wide *)(w->pad + j);
            if (j + WIDE <= s->P)
                sum += *(const wide *)(u + j);
            else if (j < s->P)
                sum += widened(u + j);
            *(wide *)(e + j) = sum;
        }
        return;
    }
    for (int64_t j = w->S; j < w->Q; j++) e[j] = w->pad[j];
    for (int64_t j = 0; j < w->S; j++) {
        float sum = 0.0f;
        for (int64_t k = 0; k < s->K; k++) sum += u[s->slot[j * s->K + k]];
        e[j] = sum;
    }
}

/* Potentials of the gold states of a sentence, from potentials of slots: rounded as in to_states, so
 * that they never exceed the potentials in log Z. */
static double gold_potentials(const sweep *w, int64_t first, int64_t T) {
    const fc_shard *s = w->shard;
    fc_total total = {0};
    for (int64_t t = 0; s->gold != NULL && t < T; t++) {
        const float *u = w->slots + t * s->P;
        const int64_t j = s->gold[first + t];
        float sum = s->K == 0 ? u[j] : 0.0f;
        for (int64_t k = 0; k < s->K; k++) sum += u[s->slot[j * s->K + k]];
        fc_add(&total, (double)sum);
    }
    return fc_value(total);
}

/* Posteriors of slots from posteriors of states, times the sentence's weight. */
static void to_slots(const sweep *w, const float *restrict p, float weight, float *restrict u) {
    const fc_shard *s = w->shard;
    if (s->K == 0) {
        for (int64_t j = 0; j < s->P; j++) u[j] = weight * p[j];
        return;
    }
    memset(u, 0, (size_t)s->P * sizeof *u);
    for (int64_t j = 0; j < w->S; j++)
        for (int64_t k = 0; k < s->K; k++) u[s->slot[j * s->K + k]] += weight * p[j];
}

typedef double two_doubles __attribute__((vector_size(16), aligned(8), may_alias));

/* One cell without a subtraction; see sum_rows. */
FC_APART double sum_others(const sweep *w, const exceptions *e, int64_t r, const float *x) {
    double sum = 0.0;
    for (int64_t k = e->row[r]; k < e->row[r + 1]; k++) w->one[e->other[k]] = 0.0;
    if (e->from == NULL) {
        for (int64_t i = 0; i < w->S; i++) sum += w->one[i];
    } else { /* of one class: rows without a class do not cancel */
        const int64_t c = e->at->of[e->state[r]];
        for (int64_t i = e->from->row[c]; i < e->from->row[c + 1]; i++)
            sum += w->one[e->from->state[i]];
    }
    sum *= w->remainder;
    for (int64_t k = e->row[r]; k < e->row[r + 1]; k++) {
        w->one[e->other[k]] = (double)x[e->other[k]];
        sum += (double)e->value[e->arc[k]] * w->one[e->other[k]];
    }
    return sum;
}

FC_INLINE two_doubles two_of(const double *x, const int32_t *at) {
    uint64_t both;
    memcpy(&both, at, sizeof both);
    return (two_doubles){x[both & UINT32_MAX], x[both >> 32]};
}

static double sum_of_doubles(int64_t n, const double *x) {
    double lane[8] = {0}, total = 0.0;
    for (int64_t i = 0; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) lane[l] += x[i + l];
    for (int64_t i = n / 8 * 8; i < n; i++) lane[0] += x[i];
    for (int l = 0; l < 8; l++) total += lane[l];
    return total;
}

/* Sums of the states of each class, times `by`; the last place but one is for states without a
   class. */
static void sum_classes(const fc_classes *c, int64_t S, double by, const double *restrict x,
                        double *restrict sum) {
    memset(sum, 0, (size_t)(c->n + 2) * sizeof *sum);
    for (int64_t i = 0; i < S; i++) sum[c->of[i] < 0 ? c->n + 1 : c->of[i]] += x[i];
    for (int64_t k = 0; k < c->n; k++) sum[k] *= by;
}

static double class_share(const double *sum, const fc_classes *c, int64_t j) {
    return sum[c->of[j] < 0 ? c->n : c->of[j]];
}

/* Rows `r` to `end`, of n arcs each: a constant n leaves no loop. */
FC_INLINE void sum_equal_rows(const int classed, const int64_t n, const sweep *w,
                              const exceptions *e, int64_t r, int64_t end, double total,
                              const float *restrict x, float *restrict y) {
    const double *restrict over = e->over + e->row[r], *restrict one = w->one;
    const int32_t *restrict other = e->other + e->row[r];
    for (; r < end; r++, over += n, other += n) {
        const int32_t j = e->state[r];
        if (classed) total = class_share(w->share, e->at, j);
        /* of even and of odd arcs: this needs two loads an arc, not three */
        two_doubles sums = {total, 0.0};
        for (int64_t k = 0; k + 2 <= n; k += 2)
            sums += *(const two_doubles *)(over + k) * two_of(one, other + k);
        if (n % 2) sums[0] += over[n - 1] * one[other[n - 1]];
        const double sum = sums[0] + sums[1];
        y[j] = (float)(sum < CANCELS * total ? sum_others(w, e, r, x) : sum);
    }
}

/* y_j = r sum_i x_i + sum of (w - r) x_i over exceptions: the product of background.h for a single
 * sentence. */
FC_INLINE void sum_rows_of(const int classed, const sweep *w, const exceptions *e,
                           const float *restrict x, float *restrict y) {
    const int64_t S = w->S, *restrict row = e->row;
    double total = 0.0;
    for (int64_t i = 0; i < S; i++) w->one[i] = (double)x[i];
    if (classed)
        sum_classes(e->from, S, w->remainder, w->one, w->share);
    else
        total = w->remainder * sum_of_doubles(S, w->one);
    for (int64_t r = 0, end; r < S; r = end) {
        const int64_t n = row[r + 1] - row[r];
        for (end = r + 1; end < S && row[end + 1] - row[end] == n;) end++;
#define EQUAL(N) \
    case N: sum_equal_rows(classed, N, w, e, r, end, total, x, y); break
#define FOUR_EQUAL(N) \
    EQUAL(N);         \
    EQUAL(N + 1);     \
    EQUAL(N + 2);     \
    EQUAL(N + 3)
        switch (n) {
            FOUR_EQUAL(1);
            FOUR_EQUAL(5);
            FOUR_EQUAL(9);
            default: sum_equal_rows(classed, n, w, e, r, end, total, x, y);
        }
#undef FOUR_EQUAL
#undef EQUAL
    }
    for (int64_t j = S; j < w->Q; j++) y[j] = 0.0f;
}

static void sum_rows(const sweep *w, const exceptions *e, const float *restrict x,
                     float *restrict y) {
    if (e->from == NULL)
        sum_rows_of(0, w, e, x, y);
    else
        sum_rows_of(1, w, e, x, y);
}

/* A difference that rounding may have made negative; NaN remains NaN, so that it is noticed. */
FC_INLINE double not_negative(double x) { return x < 0.0 ? 0.0 : x; }

/* x = c x (1 - x) of n posteriors, and of one */
static void spread_of(int64_t n, float c, float *x) {
    for (int64_t j = 0; j < n; j++) {
        const float y = x[j] * (1.0f - x[j]);
        x[j] = y < 0.0f ? 0.0f : c * y;
    }
}

static double variance(double weight, double p) { return weight * not_negative(p * (1.0 - p)); }

static void add_ends(int64_t n, double weight, int curved, const float *p, double *sum) {
    for (int64_t j = 0; j < n; j++)
        sum[j] += curved ? variance(weight, (double)p[j]) : weight * (double)p[j];
}

/* Adds the log of a product of sums to a total, when it is far from one or the `last`. */
FC_INLINE void add_sum(fc_total *total, double *product_of_sums, double sum, int last) {
    *product_of_sums *= sum;
    if (!last && *product_of_sums >= 1e-200 && *product_of_sums <= 1e200) return;
    fc_add(total, log(*product_of_sums));
    *product_of_sums = 1.0;
}

/* Forward rows of the sentence; 0 when a state is too faint. log Z without the shifts of arcs. */
static int forward_rows(sweep *w, int64_t T, int64_t always, double *log_z) {
    const int64_t S = w->S, Q = w->Q;
    fc_total total = {0};
    double product_of_sums = 1.0;
    int settled = 0;
    for (int64_t t = 0; t < T; t++) {
        float *restrict a = w->alpha + t * Q, *restrict e = w->emission + t * Q;
        to_states(w, w->slots + t * w->shard->P, e);
        const float top = max_of(Q, e);
        if (!(top > -1e29f && top < 1e29f)) return 0;
        for (int64_t j = 0; j < Q; j++) e[j] = expf_fast(e[j] - top);
        if (t == 0) {
            memcpy(a, w->initial, (size_t)Q * sizeof *a);
        } else if (w->into != NULL) {
            sum_rows(w, w->into, a - Q, a);
        } else {
            product(S, Q, w->forward, a - Q, a);
        }
        if (!always && !settled)
            settled = w->into == NULL ? guard_dense(w, t) : guard_listed(w, w->into, t);
        float sum;
        if (times_row(Q, e, w->faint, a, &sum) || !(sum > 0.0f)) return 0;
        const float c = 1.0f / sum;
        for (int64_t j = 0; j < Q; j++) a[j] *= c;
        w->scale[t] = c;
        fc_add(&total, (double)top);
        add_sum(&total, &product_of_sums, (double)sum, t == T - 1);
    }
    *log_z = fc_value(total);
    return 1;
}

/* Backward rows, posteriors into w->slots, arcs into w->total; 0 when the end is too faint. `weight`: of
 * the sentence; if curved, it is in the variances of the ends only. */
static int backward_rows(sweep *w, int64_t T, int always, double weight, double *log_z) {
    const int64_t S = w->S, Q = w->Q, P = w->shard->P;
    const double own = w->curved ? 1.0 : weight;
    float *b = w->beta, *other = w->beta + Q;
    float last = 0.0f;
    for (int64_t j = 0; j < Q; j++) last += w->alpha[(T - 1) * Q + j] * w->final[j];
    if (!(last > FAINT)) return 0;
    *log_z += log((double)last);
    for (int64_t j = 0; j < Q; j++) b[j] = w->final[j] / last;
    const float scaled = (float)own;
    for (int64_t t = T - 1; t >= 0; t--) {
        float *restrict a = w->alpha + t * Q, *restrict n = w->emission + t * Q;
        float *restrict p = other;
        for (int64_t j = 0; j < Q; j++) p[j] = a[j] * b[j];
        if (t % FC_EVEN == 0) {
            const float by = 1.0f / sum_of(Q, p);
            for (int64_t j = 0; j < Q; j++) b[j] *= by;
            for (int64_t j = 0; j < Q; j++) p[j] *= by;
        }
        to_slots(w, p, scaled, w->slots + t * P);
        if (t == T - 1) add_ends(S, weight, w->curved, p, w->end);
        if (t == 0) {
            add_ends(S, weight, w->curved, p, w->begin);
            break;
        }
        const float c = w->scale[t];
        for (int64_t j = 0; j < Q; j++) n[j] *= c * b[j];
        if (w->out != NULL) {
            sum_rows(w, w->out, n, other);
        } else {
            product(S, Q, w->backward, n, other);
        }
        if (!always) /* if a is 0, b may overflow, and 0 * inf is not a posterior */
            for (int64_t j = 0; j < Q; j++) other[j] = a[j - Q] > 0.0f ? other[j] : 0.0f;
        float *swap = b;
        b = other;
        other = swap;
    }
    if (own != 1.0)
        for (int64_t k = 0; k < (T - 1) * Q; k++) w->alpha[k] *= scaled;
    if (w->total != NULL && !w->curved) outer(T - 1, S, Q, w->alpha, w->emission + Q, w->total);
    return 1;
}

/* Lists all arcs, including pairs that have the rest. */
static const fc_axis *list_all(sweep *w) {
    const fc_axis *g = w->machine->axis;
    int64_t n = 0;
    for (int64_t i = 0; i < w->S; i++) {
        const int32_t c = g->leave->of[i];
        int64_t k = g->row[i], m = c < 0 ? 0 : g->enter->row[c];
        const int64_t last = c < 0 ? 0 : g->enter->row[c + 1];
        w->whole_row[i] = n;
        while (k < g->row[i + 1] || m < last) {
            const int32_t own = k < g->row[i + 1] ? g->target[k] : INT32_MAX,
                          other = m < last ? g->enter->state[m] : INT32_MAX;
            w->whole_source[n] = (int32_t)i;
            w->whole_target[n] = own < other ? own : other;
            w->whole_score[n] = own <= other ? g->score[k] : *g->rest;
            m += other <= own;
            if (own <= other) w->whole_place[k++] = n;
            n++;
        }
    }
    w->whole_row[w->S] = n;
    w->whole.row = w->whole_row;
    w->whole.source = w->whole_source;
    w->whole.target = w->whole_target;
    w->whole.score = w->whole_score;
    return &w->whole;
}

/* The same in float64, for a sentence that float32 cannot represent. */
static fc_status in_double(sweep *w, int64_t T, double weight, double *log_z) {
    const int64_t S = w->S, P = w->shard->P;
    for (int64_t t = 0; t < T; t++) {
        to_states(w, w->slots + t * P, w->emission);
        for (int64_t j = 0; j < S; j++) w->node[t * S + j] = (double)w->emission[j];
    }
    const int64_t offsets[2] = {0, T};
    const fc_factor factor = {.rows = 1, .width = S, .moving = 1, .value = w->node};
    fc_machine one = *w->machine;
    one.factors = 1;
    one.factor = &factor;
    const int classed = w->machine->axis->leave != NULL;
    if (classed) one.axis = list_all(w);
    double *const node[] = {w->posterior}, *const sum[] = {classed ? w->whole_sum : w->arc};
    int64_t where;
    const double own = w->curved ? 1.0 : weight;
    const fc_status status = fc_machine_marginals(&one, 1, offsets, FC_AUTO, &own, log_z, node,
                                                  NULL, sum, NULL, w->rest, &where);
    if (status != FC_OK) return status;
    for (int64_t k = 0; classed && k < w->machine->axis->A; k++)
        w->arc[k] = w->whole_sum[w->whole_place[k]];
    for (int64_t t = 0; t < T; t++) {
        for (int64_t j = 0; j < w->Q; j++)
            w->beta[j] = j < S ? (float)w->posterior[t * S + j] : 0.0f;
        to_slots(w, w->beta, 1.0f, w->slots + t * P);
    }
    for (int64_t j = 0; j < S; j++) {
        const double first = w->posterior[j], last = w->posterior[(T - 1) * S + j];
        w->begin[j] += w->curved ? variance(weight, first) : first;
        w->end[j] += w->curved ? variance(weight, last) : last;
    }
    return FC_OK;
}

#endif
