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

#if defined(__SSE2__)
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
/* gcc does not unroll some short loops by default, and then keeps register arrays in memory. */
#if defined(__GNUC__) && !defined(__clang__)
#define UNROLLED _Pragma("GCC unroll 4")
#else
#define UNROLLED
#endif
#define TILE_ROWS 4
#if REG == 8
#define TILE_REGS 4
#else
#define TILE_REGS 2 /* the limit with sixteen registers */
#endif

typedef double reg __attribute__((vector_size(8 * REG), aligned(8), may_alias));
typedef int64_t reg_mask __attribute__((vector_size(8 * REG), aligned(8), may_alias));

FC_INLINE reg reg_max(reg a, reg b) {
#if defined(__AVX512F__)
    return (reg)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX__)
    return (reg)_mm256_max_pd((__m256d)a, (__m256d)b);
#elif defined(__SSE2__)
    return (reg)_mm_max_pd((__m128d)a, (__m128d)b);
#else
    const reg_mask larger = a > b;
    return (reg)(((reg_mask)a & larger) | ((reg_mask)b & ~larger));
#endif
}

FC_INLINE double reg_largest(reg a) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_pd((__m512d)a);
#else
    double best = a[0];
    for (int l = 1; l < REG; l++) best = a[l] > best ? a[l] : best;
    return best;
#endif
}

/* One bit for each number of a register that equals `value`. */
FC_INLINE uint64_t reg_equal(reg a, double value) {
#if defined(__AVX512F__)
    return _mm512_cmp_pd_mask((__m512d)a, _mm512_set1_pd(value), _CMP_EQ_OQ);
#elif defined(__AVX__)
    const __m256d v = _mm256_set1_pd(value);
    return (uint64_t)_mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, v, _CMP_EQ_OQ));
#elif defined(__SSE2__)
    return (uint64_t)_mm_movemask_pd(_mm_cmpeq_pd((__m128d)a, _mm_set1_pd(value)));
#else
    return (uint64_t)(a[0] == value) | (uint64_t)(a[1] == value) << 1;
#endif
}

/* One bit for each lane in which a is less than b. */
FC_INLINE uint64_t reg_below(reg a, reg b) {
#if defined(__AVX512F__)
    return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ);
#elif defined(__AVX__)
    return (uint64_t)_mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_LT_OQ));
#elif defined(__SSE2__)
    return (uint64_t)_mm_movemask_pd(_mm_cmplt_pd((__m128d)a, (__m128d)b));
#else
    return (uint64_t)(a[0] < b[0]) | (uint64_t)(a[1] < b[1]) << 1;
#endif
}

/* Zero of the semiring: the value of an empty sum. */
FC_INLINE double none(const semiring K) { return K == SUM_TIMES ? 0.0 : FC_NEVER; }

FC_INLINE double times(const semiring K, double a, double b) {
    return K == SUM_TIMES ? a * b : a + b;
}

static inline double log_add(double x, double y) {
    const double top = x > y ? x : y, least = x > y ? y : x;
    return top == FC_NEVER ? top : top + log1p(exp(least - top));
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

/* A product whose rows of V and C are `lanes` apart. */
FC_INLINE block block_of(int64_t rows, int64_t n, int64_t lanes, const double *s, int64_t s_row,
                         int64_t s_in, const double *V, double *C) {
    return (block){rows, n, lanes, s, s_row, s_in, V, lanes, C, lanes};
}

FC_INLINE reg fold(const semiring K, reg acc, double s, reg v) {
    if (K == MAX_PLUS) return reg_max(acc, s + v);
    return acc + s * v;
}

/* R rows times G registers. */
FC_INLINE void tile(const semiring K, const int R, const int G, const block *b, int64_t row,
                    int64_t lane) {
    reg acc[TILE_ROWS][TILE_REGS];
    UNROLLED for (int r = 0; r < R; r++) UNROLLED for (int g = 0; g < G; g++) acc[r][g] =
        (reg){0} + none(K);
    const double *s = b->s + row * b->s_row, *V = b->V + lane;
    for (int64_t i = 0; i < b->n; i++, s += b->s_in, V += b->v_in)
        UNROLLED for (int r = 0; r < R; r++) UNROLLED for (int g = 0; g < G; g++) acc[r][g] =
            fold(K, acc[r][g], s[r * b->s_row], ((const reg *)V)[g]);
    double *C = b->C + row * b->c_row + lane;
    UNROLLED for (int r = 0; r < R; r++)
        UNROLLED for (int g = 0; g < G; g++)((reg *)(C + r * b->c_row))[g] = acc[r][g];
}

/* A single row would wait for each addition, so it uses two chains, and the registers that the rows of
 * a tile share. */
#define ROW_REGS 4

FC_INLINE void row_tile(const semiring K, const int G, int64_t n, const double *s, int64_t s_in,
                        const double *V, int64_t v_in, double *C) {
    reg even[ROW_REGS], odd[ROW_REGS];
    UNROLLED for (int g = 0; g < G; g++) even[g] = odd[g] = (reg){0} + none(K);
    int64_t i = 0;
    for (; i + 2 <= n; i += 2, s += 2 * s_in, V += 2 * v_in) UNROLLED for (int g = 0; g < G; g++) {
            even[g] = fold(K, even[g], s[0], ((const reg *)V)[g]);
            odd[g] = fold(K, odd[g], s[s_in], ((const reg *)(V + v_in))[g]);
        }
    if (i < n)
        UNROLLED for (int g = 0; g < G; g++) even[g] = fold(K, even[g], s[0], ((const reg *)V)[g]);
    UNROLLED for (int g = 0; g < G; g++) {
        if (K == MAX_PLUS) {
            ((reg *)C)[g] = reg_max(even[g], odd[g]);
        } else {
            ((reg *)C)[g] = even[g] + odd[g];
        }
    }
}

/* C[l] = (+)_i s[i] (x) V[i][l] for MAX_PLUS and SUM_TIMES; lanes are a multiple of FC_LANES. */
FC_INLINE void row_product(const semiring K, int64_t n, int64_t lanes, const double *s,
                           int64_t s_in, const double *V, int64_t v_in, double *C) {
    int64_t l = 0;
    for (; l + ROW_REGS * REG <= lanes; l += ROW_REGS * REG)
        row_tile(K, ROW_REGS, n, s, s_in, V + l, v_in, C + l);
    switch ((lanes - l) / REG) {
        case 3: row_tile(K, 3, n, s, s_in, V + l, v_in, C + l); break;
        case 2: row_tile(K, 2, n, s, s_in, V + l, v_in, C + l); break;
        case 1: row_tile(K, 1, n, s, s_in, V + l, v_in, C + l); break;
        default: break;
    }
}

FC_INLINE void tile_rows(const semiring K, const int G, const block *b, int64_t lane) {
    int64_t row = 0;
    for (; row + TILE_ROWS <= b->rows; row += TILE_ROWS) tile(K, TILE_ROWS, G, b, row, lane);
    if (row + 2 <= b->rows) tile(K, 2, G, b, row, lane);
}

/* C = s (x) V for MAX_PLUS and SUM_TIMES; lanes are a multiple of FC_LANES. */
FC_INLINE void product(const semiring K, const block *b) {
    const int64_t last = b->rows - 1;
    int64_t lane = 0;
    if (b->rows % 2 == 1)
        row_product(K, b->n, b->lanes, b->s + last * b->s_row, b->s_in, b->V, b->v_in,
                    b->C + last * b->c_row);
    if (b->rows < 2) return;
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
