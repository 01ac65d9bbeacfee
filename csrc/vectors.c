/* SPDX-License-Identifier: Apache-2.0
 *
 * The vector work of L-BFGS: inner products with, and linear combinations of, many stored vectors.
 *
 * Two-loop recursion reads each stored vector twice and depends on itself at every step. Written in
 * coordinates over the stored vectors and the gradient, it needs their inner products only: one pass
 * over the store computes them, a second pass forms the direction, and between the passes it calculates
 * with a few dozen numbers (Chen, Wang and Zhou 2014). The store is float32, or 16 bits for long
 * vectors, which halves memory traffic; sums are float64. */

#include "checks.h"
#include "vec.h"

#define BLOCK 1024 /* doubles of one vector that stay in cache while the store streams by */

/* --- Vectors of 16 bits --------------------------------------------------------------------------
 *
 * With many weights, the stored steps are most of the memory. A number x is kept as the top 16 bits of
 * a float, its exponent in the five bits that the largest number of the vector needs: sign, 5 bits of
 * exponent, 10 of fraction. Read as float, a number is 2^-k times its value, with one k for the vector;
 * numbers below 2^-29 of the largest become zero. */

#define HALF_TOP 30 /* exponent of the largest: one more, when it is rounded up, still fits */
#define FLOAT_BIAS 127

FC_INLINE float widened(uint16_t half) {
    const uint32_t bits = ((uint32_t)(half & 0x8000u) << 16) | ((uint32_t)(half & 0x7FFFu) << 13);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounds to the nearest, ties to even. */
FC_INLINE uint16_t narrowed(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t size = bits & 0x7FFFFFFFu;
    const uint32_t rounded = (size + 0x0FFFu + ((size >> 13) & 1u)) >> 13;
    return (uint16_t)(rounded < 0x0400u ? 0 : ((bits >> 16) & 0x8000u) | rounded);
}

fc_status fc_narrow(int64_t n, double largest, double *x, uint16_t *half, int32_t *power) {
    int exponent = 0;
    if (n < 0 || !(largest >= 0.0) || largest > 1e200) return FC_EINVAL;
    (void)frexp(largest, &exponent); /* largest < 2^exponent */
    /* Read as float, the largest gets the exponent HALF_TOP: 2^(HALF_TOP - FLOAT_BIAS) <= it. */
    *power = largest > 0.0 ? HALF_TOP + 1 - FLOAT_BIAS - exponent : 0;
    if (*power > 900) *power = 900;
    const double down = ldexp(1.0, *power), up = ldexp(1.0, -*power);
    for (int64_t j = 0; j < n; j++) {
        half[j] = narrowed((float)(x[j] * down));
        x[j] = (double)widened(half[j]) * up;
    }
    return FC_OK;
}

/* --- Inner products and combinations -------------------------------------------------------------
 *
 * Rows are float, or 16 bits (then values are 2^-power times too small, which the caller corrects). */

enum { FLOATS, HALVES, DOUBLES }; /* kinds of numbers in a row */

FC_INLINE double at(const void *row, int kind, int64_t j) {
    if (kind == DOUBLES) return ((const double *)row)[j];
    return kind ? (double)widened(((const uint16_t *)row)[j]) : (double)((const float *)row)[j];
}

FC_INLINE const void *place(const void *rows, int half, int64_t j) {
    return half ? (const void *)((const uint16_t *)rows + j)
                : (const void *)((const float *)rows + j);
}

FC_INLINE double dot_mixed(int64_t n, const void *restrict a, int half, const double *restrict x) {
    double lane[4 * FC_LANES] = {0};
    int64_t j = 0;
    for (; j + 4 * FC_LANES <= n; j += 4 * FC_LANES)
        for (int l = 0; l < 4 * FC_LANES; l++) lane[l] += at(a, half, j + l) * x[j + l];
    double sum = 0.0;
    for (; j < n; j++) sum += at(a, half, j) * x[j];
    for (int l = 0; l < 4 * FC_LANES; l++) sum += lane[l];
    return sum;
}

FC_INLINE void dots(int64_t m, int64_t k, int64_t n, int64_t stride, const void *rows, int half,
                    int64_t x_stride, const double *x, double *out) {
    for (int64_t i = 0; i < m * k; i++) out[i] = 0.0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t length = start + BLOCK < n ? BLOCK : n - start;
        for (int64_t i = 0; i < m; i++)
            for (int64_t v = 0; v < k; v++)
                out[i * k + v] += dot_mixed(length, place(rows, half, i * stride + start), half,
                                            x + v * x_stride + start);
    }
}

fc_status fc_dots(int64_t m, int64_t k, int64_t n, int64_t stride, int half, const void *rows,
                  int64_t x_stride, const double *x, double *out) {
    if (m < 0 || k < 1 || n < 0 || stride < n || x_stride < n) return FC_EINVAL;
    if (half)
        dots(m, k, n, stride, rows, 1, x_stride, x, out);
    else
        dots(m, k, n, stride, rows, 0, x_stride, x, out);
    return FC_OK;
}

FC_INLINE void combine(int64_t m, int64_t n, int64_t stride, const void *rows, int half,
                       const double *coefficient, double *out) {
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t length = start + BLOCK < n ? BLOCK : n - start;
        double *restrict y = out + start;
        for (int64_t i = 0; i < m; i++) {
            const void *restrict a = place(rows, half, i * stride + start);
            const double c = coefficient[i];
            for (int64_t j = 0; j < length; j++) y[j] += c * at(a, half, j);
        }
    }
}

fc_status fc_combine(int64_t m, int64_t n, int64_t stride, int half, const void *rows,
                     const double *coefficient, double *out) {
    if (m < 0 || n < 0 || stride < n) return FC_EINVAL;
    if (half)
        combine(m, n, stride, rows, 1, coefficient, out);
    else
        combine(m, n, stride, rows, 0, coefficient, out);
    return FC_OK;
}

fc_status fc_inner(int64_t n, const double *x, const double *y, double *out) {
    if (n < 0) return FC_EINVAL;
    *out = dot_mixed(n, x, DOUBLES, y);
    return FC_OK;
}
