/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole registers of float32, and the few dense products of the sweep. */
#ifndef FSTCRF_WIDE_H
#define FSTCRF_WIDE_H

#include "fstcrf.h"
#include "vec.h"

#define LANES 16 /* floats in the widest register; rows of states are padded to a multiple */

/* Whole registers, of any alignment: plain loops over small arrays end up in memory. WIDE is for rows
 * of states, NARROW for rows of weights, which are padded to 8 only, to need fewer cache lines. */
#if defined(__AVX512F__)
#define WIDE 16
#define NARROW 8
#elif defined(__AVX__)
#define WIDE 8
#define NARROW 8
#else
#define WIDE 4
#define NARROW 4
#endif
typedef float wide __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef int32_t wide_mask __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t quad_mask __attribute__((vector_size(16), aligned(4), may_alias));
typedef float narrow __attribute__((vector_size(4 * NARROW), aligned(4), may_alias));
typedef int32_t narrow_mask __attribute__((vector_size(4 * NARROW), aligned(4), may_alias));
typedef double narrow_double __attribute__((vector_size(8 * NARROW), aligned(8), may_alias));

/* The first NARROW numbers of a register; the others are zero, if there are any. */
FC_INLINE wide widened(const float *x) {
    const narrow own = *(const narrow *)x;
#if WIDE == 16
    return __builtin_shufflevector(own, (narrow){0}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
                                   14, 15);
#else
    return own;
#endif
}

FC_INLINE wide wide_max(wide a, wide b) {
    const wide_mask larger = a > b;
    return (wide)(((wide_mask)a & larger) | ((wide_mask)b & ~larger));
}

FC_INLINE float max_of(int64_t Q, const float *x) {
    wide best = *(const wide *)x;
    for (int64_t j = WIDE; j < Q; j += WIDE) best = wide_max(best, *(const wide *)(x + j));
    quad four[WIDE / 4];
    memcpy(four, &best, sizeof four);
    for (int k = 1; k < WIDE / 4; k++) {
        const quad_mask larger = four[k] > four[0];
        four[0] = (quad)(((quad_mask)four[k] & larger) | ((quad_mask)four[0] & ~larger));
    }
    const float a = four[0][0] > four[0][1] ? four[0][0] : four[0][1];
    const float b = four[0][2] > four[0][3] ? four[0][2] : four[0][3];
    return a > b ? a : b;
}

FC_INLINE float sum_of_lanes(wide x) {
    quad four[WIDE / 4];
    memcpy(four, &x, sizeof four);
    for (int h = WIDE / 8; h > 0; h /= 2)
        for (int k = 0; k < h; k++) four[k] += four[k + h];
    return (four[0][0] + four[0][2]) + (four[0][1] + four[0][3]);
}

FC_INLINE float sum_of(int64_t Q, const float *x) {
    wide total = *(const wide *)x;
    for (int64_t j = WIDE; j < Q; j += WIDE) total += *(const wide *)(x + j);
    return sum_of_lanes(total);
}

FC_INLINE int any_of_lanes(wide_mask x) {
    int64_t lane[WIDE / 2], any = 0;
    memcpy(lane, &x, sizeof lane);
    for (int l = 0; l < WIDE / 2; l++) any |= lane[l];
    return any != 0;
}

/* y *= x, and the sum; returns whether any number is below its bound. */
FC_INLINE int times_row(int64_t Q, const float *restrict x, const float *restrict bound,
                        float *restrict y, float *sum) {
    wide total = *(wide *)y *= *(const wide *)x;
    wide_mask below = total < *(const wide *)bound;
    for (int64_t j = WIDE; j < Q; j += WIDE) {
        const wide own = *(wide *)(y + j) *= *(const wide *)(x + j);
        total += own;
        below |= own < *(const wide *)(bound + j);
    }
    *sum = sum_of_lanes(total);
    return any_of_lanes(below);
}

/* y = sum_i x[i] M[i] over V vectors: two independent chains of additions hide latency. */
FC_INLINE void product_group(const int V, int64_t S, int64_t Q, const float *M, const float *x,
                             float *y) {
    wide even[8], odd[8];
    for (int v = 0; v < V; v++) even[v] = odd[v] = (wide){0};
    int64_t i = 0;
    for (; i + 2 <= S; i += 2, M += 2 * Q) {
        const wide *first = (const wide *)M, *second = (const wide *)(M + Q);
        for (int v = 0; v < V; v++) even[v] += x[i] * first[v];
        for (int v = 0; v < V; v++) odd[v] += x[i + 1] * second[v];
    }
    if (i < S)
        for (int v = 0; v < V; v++) even[v] += x[i] * ((const wide *)M)[v];
    for (int v = 0; v < V; v++) ((wide *)y)[v] = even[v] + odd[v];
}

FC_INLINE void product(int64_t S, int64_t Q, const float *M, const float *x, float *y) {
#define BODY(V) product_group(V, S, Q, M + at * WIDE, x, y + at * WIDE)
    IN_GROUPS(Q / WIDE, at, BODY);
#undef BODY
}

/* Adds float32 sums to float64 totals and resets them. A sum of FC_RUN nonnegative numbers has lost
 * less than FC_RUN * 2^-24 of itself. */
FC_INLINE void flush(int64_t n, float *restrict part, double *restrict total) {
    int64_t i = 0;
    for (; i + NARROW <= n; i += NARROW) {
        narrow *own = (narrow *)(part + i);
        *(narrow_double *)(total + i) += __builtin_convertvector(*own, narrow_double);
        *own = (narrow){0};
    }
    for (; i < n; i++) {
        total[i] += (double)part[i];
        part[i] = 0.0f;
    }
}

/* total[i] += sum_t a[t][i] n[t] for 4 rows i and V vectors, summed in registers. */
FC_INLINE void outer_group(const int V, int64_t T, int64_t Q, const float *a, const float *n,
                           double *restrict total) {
    wide acc[4][2];
    for (int k = 0; k < 4; k++)
        for (int v = 0; v < V; v++) acc[k][v] = (wide){0};
    for (int64_t t = 0; t < T; t++, a += Q, n += Q)
        for (int k = 0; k < 4; k++)
            for (int v = 0; v < V; v++) acc[k][v] += a[k] * ((const wide *)n)[v];
    for (int k = 0; k < 4; k++)
        for (int v = 0; v < V; v++)
            for (int l = 0; l < WIDE; l++) total[k * Q + v * WIDE + l] += (double)acc[k][v][l];
}

/* The same of at most FC_RUN / 2 tokens and all rows. */
static void outer_run(int64_t T, int64_t S, int64_t Q, const float *a, const float *n,
                      double *total) {
    const int64_t vectors = Q / WIDE;
    for (int64_t i = 0; i < S; i += 4) {
        int64_t at = 0;
        for (; at + 2 <= vectors; at += 2)
            outer_group(2, T, Q, a + i, n + at * WIDE, total + i * Q + at * WIDE);
        if (at < vectors) outer_group(1, T, Q, a + i, n + at * WIDE, total + i * Q + at * WIDE);
    }
}

/* total += a' n over T tokens; S is rounded up to 4, rows beyond it are padding. If tokens are similar,
 * all rounding errors have the same sign: half a run keeps their sum below a millionth. */
static void outer(int64_t T, int64_t S, int64_t Q, const float *a, const float *n, double *total) {
    for (int64_t t = 0; t < T; t += FC_RUN / 2)
        outer_run(T - t < FC_RUN / 2 ? T - t : FC_RUN / 2, S, Q, a + t * Q, n + t * Q, total);
}

#endif
