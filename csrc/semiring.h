/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products in three semirings: every step of a composition is one.
 *
 *   C[r][l] = (+)_i s[r][i] (x) V[i][l]          MAX_PLUS   max_i (s + V)
 *                                                SUM_TIMES  sum_i (s * V)
 *                                                LOG_PLUS   log sum_i exp(s + V)
 *
 * Scalars s have any strides, rows of V and C are contiguous lanes. A tile of rows x registers stays
 * in registers over all i, so that a step costs one addition and one maximum (or one fused
 * multiply-add) a lane and a pair of states, and little else. */
#ifndef FSTCRF_SEMIRING_H
#define FSTCRF_SEMIRING_H

#include "vec.h"

#if defined(__AVX512F__) || defined(__AVX__)
#include <immintrin.h>
#endif

typedef enum { MAX_PLUS, SUM_TIMES, LOG_PLUS } semiring;

#if defined(__AVX512F__)
#define REG 8 /* doubles in a register */
#elif defined(__AVX__)
#define REG 4
#else
#define REG 2
#endif
#define TILE_ROWS 4
#if REG == 8
#define TILE_REGS 4
#else
#define TILE_REGS 2 /* sixteen registers hold no more */
#endif

typedef double reg __attribute__((vector_size(8 * REG), aligned(8), may_alias));
typedef int64_t reg_mask __attribute__((vector_size(8 * REG), aligned(8), may_alias));

FC_INLINE reg reg_max(reg a, reg b) {
#if defined(__AVX512F__)
    return (reg)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX__)
    return (reg)_mm256_max_pd((__m256d)a, (__m256d)b);
#else
    const reg_mask larger = a > b;
    return (reg)(((reg_mask)a & larger) | ((reg_mask)b & ~larger));
#endif
}

/* Zero of the semiring: what an empty sum is. */
FC_INLINE double none(const semiring K) { return K == SUM_TIMES ? 0.0 : FC_NEVER; }

FC_INLINE double times(const semiring K, double a, double b) {
    return K == SUM_TIMES ? a * b : a + b;
}

typedef struct {
    int64_t rows, n, lanes;
    const double *s;
    int64_t s_row, s_in; /* strides of the scalars: from row to row, from i to i */
    const double *V;
    int64_t v_in;
    double *C;
    int64_t c_row;
} block;

FC_INLINE reg fold(const semiring K, reg acc, double s, reg v) {
    if (K == MAX_PLUS) return reg_max(acc, s + v);
    return acc + s * v;
}

/* R rows times G registers. One row alone would wait for its own additions: it takes two chains. */
FC_INLINE void tile(const semiring K, const int R, const int G, const block *b, int64_t row,
                    int64_t lane) {
    reg acc[TILE_ROWS][TILE_REGS], odd[TILE_REGS];
    const reg zero = (reg){0} + none(K);
    for (int r = 0; r < R; r++)
        for (int g = 0; g < G; g++) acc[r][g] = zero;
    for (int g = 0; g < G; g++) odd[g] = zero;
    const double *s = b->s + row * b->s_row, *V = b->V + lane;
    int64_t i = 0;
    if (R == 1)
        for (; i + 2 <= b->n; i += 2, s += 2 * b->s_in, V += 2 * b->v_in)
            for (int g = 0; g < G; g++) {
                acc[0][g] = fold(K, acc[0][g], s[0], ((const reg *)V)[g]);
                odd[g] = fold(K, odd[g], s[b->s_in], ((const reg *)(V + b->v_in))[g]);
            }
    for (; i < b->n; i++, s += b->s_in, V += b->v_in)
        for (int r = 0; r < R; r++)
            for (int g = 0; g < G; g++)
                acc[r][g] = fold(K, acc[r][g], s[r * b->s_row], ((const reg *)V)[g]);
    double *C = b->C + row * b->c_row + lane;
    for (int r = 0; r < R; r++)
        for (int g = 0; g < G; g++) {
            reg sum = acc[r][g];
            if (R == 1 && K == MAX_PLUS) sum = reg_max(sum, odd[g]);
            if (R == 1 && K == SUM_TIMES) sum = sum + odd[g];
            ((reg *)(C + r * b->c_row))[g] = sum;
        }
}

FC_INLINE void tile_rows(const semiring K, const int G, const block *b, int64_t lane) {
    int64_t row = 0;
    for (; row + TILE_ROWS <= b->rows; row += TILE_ROWS) tile(K, TILE_ROWS, G, b, row, lane);
    if (row + 2 <= b->rows) {
        tile(K, 2, G, b, row, lane);
        row += 2;
    }
    if (row < b->rows) tile(K, 1, G, b, row, lane);
}

/* C = s (x) V for MAX_PLUS and SUM_TIMES; lanes are a multiple of FC_LANES. */
FC_INLINE void product(const semiring K, const block *b) {
    int64_t lane = 0;
#if TILE_REGS == 4
    for (; lane + 4 * REG <= b->lanes; lane += 4 * REG) tile_rows(K, 4, b, lane);
    switch ((b->lanes - lane) / REG) {
        case 3: tile_rows(K, 3, b, lane); break;
        case 2: tile_rows(K, 2, b, lane); break;
        case 1: tile_rows(K, 1, b, lane); break;
        default: break;
    }
#else
    for (; lane < b->lanes; lane += 2 * REG) tile_rows(K, 2, b, lane);
#endif
}

/* C += exp(s (x) V - best): the second half of LOG_PLUS, after `best` has the maxima. */
FC_INLINE void product_exp(const block *b, const double *best) {
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t i = 0; i < b->n; i++) {
            const double s = b->s[r * b->s_row + i * b->s_in];
            if (s == FC_NEVER) continue;
            const double *V = b->V + i * b->v_in, *top = best + r * b->c_row;
            double *C = b->C + r * b->c_row;
            for (int64_t l = 0; l < b->lanes; l++) C[l] += fc_exp(s + V[l] - top[l]);
        }
}

#endif
