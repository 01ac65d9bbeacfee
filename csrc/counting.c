/* SPDX-License-Identifier: Apache-2.0
 *
 * Expected steps of an automaton that reads the labels of a chain. With q its states and s the chain's,
 *
 *   F_t[q, s]  paths that end in s at token t, with the automaton in q before it reads the token
 *   X_t[q, s]  the same after it has read it        F_{t+1} = X_t along the arcs
 *   B_t[q, s]  continuations after X_t              G_t[q, s] = continuations of F_t, token t included
 *
 * All values are logs of sums; arcs are summed in the linear domain if no precision is lost. */

#include <limits.h>
#include <math.h>
#include <string.h>

#include "along.h"
#include "checks.h"
#include "vec.h"

#define STEEP 600.0 /* exp of more may overflow */

typedef struct {
    const fc_counter *m;
    int64_t S, P, Q, plane;      /* plane: Q rows of P states */
    double *F, *X;               /* [T][Q][P] */
    double *B, *G, *top, *sum;   /* [Q][P] */
    double *arc, *linear;        /* [S][P] logs, and exp(arc - highest) */
    double *row, *column, *lane; /* [P] */
    double *w;                   /* [T] amount subtracted at a token, which keeps rows small */
    double highest;
} counting;

int64_t fc_counter_room(int64_t T, int64_t S, int64_t Q) {
    if (T < 0 || S < 1 || Q < 1 || T > INT32_MAX || S > INT32_MAX || Q > INT32_MAX) return -1;
    const double P = (double)S + FC_LANES;
    if ((2.0 * (double)T + 4.0) * (double)Q * P + (double)T + 2.0 * P * P > 4e9) return -1;
    const int64_t wide = fc_padded(S);
    return (2 * T + 4) * Q * wide + 2 * S * wide + 3 * wide + T;
}

static void lay_out(counting *v, const fc_counter *m, int64_t T, double *work) {
    v->m = m;
    v->S = m->S;
    v->P = fc_padded(m->S);
    v->Q = m->Q;
    v->plane = v->Q * v->P;
    v->F = work;
    v->X = v->F + T * v->plane;
    v->B = v->X + T * v->plane;
    v->G = v->B + v->plane;
    v->top = v->G + v->plane;
    v->sum = v->top + v->plane;
    v->arc = v->sum + v->plane;
    v->linear = v->arc + v->S * v->P;
    v->row = v->linear + v->S * v->P;
    v->column = v->row + v->P;
    v->lane = v->column + v->P;
    v->w = v->lane + v->P;
}

static void load_arcs(counting *v, int64_t token) {
    const int64_t S = v->S, P = v->P;
    const double *arc = v->m->arc + (v->m->moving ? token * S * S : 0);
    double highest = FC_NEVER;
    for (int64_t k = 0; k < S * S; k++) highest = arc[k] > highest ? arc[k] : highest;
    v->highest = highest == FC_NEVER ? 0.0 : highest;
    fc_fill(S * P, FC_NEVER, v->arc);
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < S; j++) v->arc[i * P + j] = arc[i * S + j];
    for (int64_t k = 0; k < S * P; k++) v->linear[k] = fc_exp(v->arc[k] - v->highest);
}

/* y[j] = log sum over i of exp(x[i] + arc[i][j]). The automaton usually knows the previous label: then
 * one i is alive, and no sum is needed. */
static void along(counting *v, const double *x, double *restrict y) {
    const int64_t P = v->P;
    int64_t alive = 0, i = 0;
    for (int64_t s = 0; s < v->S; s++)
        if (x[s] != FC_NEVER) {
            alive++;
            i = s;
        }
    if (alive > 1) {
        fc_along(v->S, P, v->highest, v->arc, v->linear, x, v->row, v->lane, y);
        return;
    }
    const double value = alive == 1 ? x[i] : FC_NEVER;
    for (int64_t j = 0; j < P; j++) y[j] = value + v->arc[i * P + j];
}

/* X of a token from its F. */
static void read_token(counting *v, const double *F, const double *node, int64_t kind, double *X) {
    const fc_counter *m = v->m;
    const int64_t S = v->S, P = v->P;
    fc_fill(v->plane, FC_NEVER, v->top);
    fc_fill(v->plane, 0.0, v->sum);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t q = 0; q < v->Q; q++) {
            const double *restrict f = F + q * P;
            double *restrict row = v->row;
            if (fc_max(P, f) == FC_NEVER) continue;
            const int32_t *target = m->target + (kind * m->Q + q) * m->L;
            const double *step = m->step + (kind * m->Q + q) * m->L;
            fc_fill(P, FC_NEVER, row);
            for (int64_t s = 0; s < S; s++) {
                const int32_t l = m->label[s], to = target[l];
                if (to < 0 || f[s] == FC_NEVER || node[s] == FC_NEVER) continue;
                const double value = f[s] + node[s] + step[l];
                double *top = v->top + to * P + s;
                if (pass == 0) *top = fc_larger(*top, value);
                row[s] = value - *top;
            }
            if (pass == 0) continue;
            for (int64_t s = 0; s < P; s++) row[s] = fc_exp(row[s]);
            for (int64_t s = 0; s < S; s++)
                if (row[s] != 0.0) v->sum[target[m->label[s]] * P + s] += row[s];
        }
    }
    for (int64_t k = 0; k < v->plane; k++)
        X[k] = v->sum[k] != 0.0 ? v->top[k] + fc_log(v->sum[k]) : FC_NEVER;
}

/* Subtracts the largest of a token's X. */
static void lower(counting *v, int64_t t) {
    double *X = v->X + t * v->plane;
    const double top = fc_max(v->plane, X);
    v->w[t] = top > FC_NEVER ? top : 0.0;
    for (int64_t k = 0; k < v->plane; k++) X[k] -= v->w[t];
}

/* log Z without the subtracted amounts. */
static double forward(counting *v, int64_t first, int64_t T, const double *node,
                      const int32_t *kind) {
    const int64_t S = v->S, P = v->P;
    fc_fill(v->plane, FC_NEVER, v->F);
    for (int64_t s = 0; s < S; s++) v->F[s] = v->m->initial[s];
    for (int64_t t = 0; t < T; t++) {
        double *X = v->X + t * v->plane;
        read_token(v, v->F + t * v->plane, node + (first + t) * S, kind[first + t], X);
        lower(v, t);
        if (t + 1 == T) break;
        if (v->m->moving) load_arcs(v, first + t + 1);
        for (int64_t q = 0; q < v->Q; q++) along(v, X + q * P, v->F + (t + 1) * v->plane + q * P);
    }
    fc_fill(v->plane, FC_NEVER, v->B);
    for (int64_t q = 0; q < v->Q; q++)
        for (int64_t s = 0; s < S; s++) v->B[q * P + s] = v->m->final[s] + v->m->end[q];
    return fc_log_sum(v->plane, v->X + (T - 1) * v->plane, v->B);
}

/* B of a token from G of the next, in one state of the automaton, only at states in which X is alive.
 * Unless NULL, pair += expected arcs between them. */
static void follow(counting *v, const double *X, const double *G, double log_z, double *restrict B,
                   double *restrict pair) {
    const int64_t S = v->S, P = v->P;
    const double cg = fc_max(P, G);
    fc_fill(P, FC_NEVER, B);
    if (cg == FC_NEVER || fc_max(P, X) == FC_NEVER) return;
    double *restrict column = v->column;
    for (int64_t j = 0; j < P; j++) column[j] = fc_exp(G[j] - cg);
    for (int64_t i = 0; i < S; i++) {
        if (X[i] == FC_NEVER) continue;
        const double *restrict linear = v->linear + i * P, *restrict arc = v->arc + i * P;
        const double sum = fc_dot(P, linear, column), scale = X[i] + cg + v->highest - log_z;
        const int plain = sum > FAINT_SUM;
        B[i] = plain ? cg + v->highest + fc_log(sum) : fc_log_sum(S, arc, G);
        if (pair == NULL || B[i] == FC_NEVER) continue;
        double *restrict own = pair + i * S;
        if (plain && scale < STEEP) {
            const double weight = fc_exp(scale);
            for (int64_t j = 0; j < S; j++) own[j] += weight * linear[j] * column[j];
        } else {
            for (int64_t j = 0; j < S; j++) own[j] += fc_exp(X[i] + arc[j] + G[j] - log_z);
        }
    }
}

typedef struct {
    double *read, *ended, *state, *pair;
} expected;

/* G of a token from its B; adds its expected steps on the way. */
static void expect_token(counting *v, const double *F, const double *node, double w, int64_t kind,
                         int last, double log_z, const expected *out, double *restrict state) {
    const fc_counter *m = v->m;
    const int64_t S = v->S, P = v->P;
    for (int64_t q = 0; q < v->Q; q++) {
        const double *restrict f = F + q * P;
        double *restrict G = v->G + q * P, *restrict p = v->row;
        const int64_t row = (kind * m->Q + q) * m->L;
        fc_fill(P, FC_NEVER, G);
        if (fc_max(P, f) == FC_NEVER) continue;
        for (int64_t s = 0; s < S; s++) {
            const int32_t l = m->label[s], to = m->target[row + l];
            if (to < 0 || node[s] == FC_NEVER) continue;
            G[s] = node[s] - w + m->step[row + l] + v->B[to * P + s];
        }
        for (int64_t s = 0; s < P; s++) p[s] = fc_exp(f[s] + G[s] - log_z);
        for (int64_t s = 0; s < S; s++) {
            FC_ASSERT(!isnan(p[s]));
            if (!(p[s] > 0.0)) continue;
            out->read[row + m->label[s]] += p[s];
            if (state != NULL) state[s] += p[s];
            if (last) out->ended[m->target[row + m->label[s]]] += p[s];
        }
    }
}

static void backward(counting *v, int64_t first, int64_t T, const double *node, const int32_t *kind,
                     double log_z, const expected *out) {
    const int64_t S = v->S, P = v->P;
    for (int64_t t = T - 1; t >= 0; t--) {
        double *state = out->state == NULL ? NULL : out->state + (first + t) * S;
        expect_token(v, v->F + t * v->plane, node + (first + t) * S, v->w[t], kind[first + t],
                     t + 1 == T, log_z, out, state);
        if (t == 0) break;
        if (v->m->moving) load_arcs(v, first + t);
        double *pair = out->pair;
        if (pair != NULL && v->m->moving) pair += (first + t) * S * S;
        for (int64_t q = 0; q < v->Q; q++) {
            const double *X = v->X + (t - 1) * v->plane + q * P;
            follow(v, X, v->G + q * P, log_z, v->B + q * P, pair);
        }
    }
}

static fc_status check_counter(const fc_counter *m, int64_t N, const int32_t *kind) {
    if (m->S < 1 || m->L < 1 || m->Q < 1 || m->C < 1) return FC_EINVAL;
    for (int64_t s = 0; s < m->S; s++)
        if (m->label[s] < 0 || m->label[s] >= m->L) return FC_EINVAL;
    for (int64_t k = 0; k < m->C * m->Q * m->L; k++)
        if (m->target[k] < -1 || m->target[k] >= m->Q) return FC_EINVAL;
    for (int64_t t = 0; t < N; t++)
        if (kind[t] < 0 || kind[t] >= m->C) return FC_EINVAL;
    return FC_OK;
}

fc_status fc_counter_sums(const fc_counter *counter, int64_t B, const int64_t *offsets,
                          const double *node, const int32_t *kind, double *log_z, double *read,
                          double *ended, double *state, double *pair, int64_t room, double *work,
                          int64_t *where) {
    fc_status status = check_bounds(B, offsets, where);
    if (status == FC_OK) status = check_counter(counter, offsets[B], kind);
    if (status != FC_OK) return status;
    const int64_t longest = longest_of(B, offsets);
    const int64_t needed = fc_counter_room(longest, counter->S, counter->Q);
    if (needed < 0 || needed > room) return FC_EFULL;
    counting v;
    lay_out(&v, counter, longest, work);
    if (!counter->moving) load_arcs(&v, 0);
    const expected out = {read, ended, state, pair};
    for (int64_t b = 0; b < B; b++) {
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        *where = b;
        if (state != NULL) fc_fill(T * counter->S, 0.0, state + first * counter->S);
        const double rest = forward(&v, first, T, node, kind);
        log_z[b] = fc_whole(T, v.w, rest);
        if (isnan(log_z[b]) || log_z[b] == (double)INFINITY) return FC_ENUMERIC;
        if (log_z[b] > FC_NEVER) backward(&v, first, T, node, kind, rest, &out);
    }
    return FC_OK;
}
