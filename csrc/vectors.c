/* SPDX-License-Identifier: Apache-2.0
 *
 * The vector work of L-BFGS: inner products with, and linear combinations of, many stored vectors.
 *
 * Two-loop recursion reads each stored vector twice and depends on itself at every step. Written in
 * coordinates over the stored vectors and the gradient, it needs their inner products only: one
 * pass over the store for those, a second one to form the direction, and in between arithmetic on
 * a few dozen numbers (Chen, Wang and Zhou 2014). The store is float32, which halves what has to be
 * moved; sums are float64. */

#include "checks.h"
#include "vec.h"

#define BLOCK 1024 /* doubles of one vector that stay in cache while the store streams by */

static double dot_mixed(int64_t n, const float *restrict a, const double *restrict x) {
    double lane[4 * FC_LANES] = {0};
    int64_t j = 0;
    for (; j + 4 * FC_LANES <= n; j += 4 * FC_LANES)
        for (int l = 0; l < 4 * FC_LANES; l++) lane[l] += (double)a[j + l] * x[j + l];
    double sum = 0.0;
    for (; j < n; j++) sum += (double)a[j] * x[j];
    for (int l = 0; l < 4 * FC_LANES; l++) sum += lane[l];
    return sum;
}

fc_status fc_dots(int64_t m, int64_t k, int64_t n, int64_t stride, const float *rows,
                  int64_t x_stride, const double *x, double *out) {
    if (m < 0 || k < 1 || n < 0 || stride < n || x_stride < n) return FC_EINVAL;
    for (int64_t i = 0; i < m * k; i++) out[i] = 0.0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t length = start + BLOCK < n ? BLOCK : n - start;
        for (int64_t i = 0; i < m; i++)
            for (int64_t v = 0; v < k; v++)
                out[i * k + v] +=
                    dot_mixed(length, rows + i * stride + start, x + v * x_stride + start);
    }
    return FC_OK;
}

fc_status fc_combine(int64_t m, int64_t n, int64_t stride, const float *rows,
                     const double *coefficient, double *out) {
    if (m < 0 || n < 0 || stride < n) return FC_EINVAL;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t length = start + BLOCK < n ? BLOCK : n - start;
        double *restrict y = out + start;
        for (int64_t i = 0; i < m; i++) {
            const float *restrict a = rows + i * stride + start;
            const double c = coefficient[i];
            for (int64_t j = 0; j < length; j++) y[j] += c * (double)a[j];
        }
    }
    return FC_OK;
}

fc_status fc_inner(int64_t n, const double *x, const double *y, double *out) {
    if (n < 0) return FC_EINVAL;
    const int64_t whole = n / (4 * FC_LANES) * (4 * FC_LANES);
    double lane[4 * FC_LANES] = {0};
    for (int64_t j = 0; j < whole; j += 4 * FC_LANES)
        for (int l = 0; l < 4 * FC_LANES; l++) lane[l] += x[j + l] * y[j + l];
    double sum = 0.0;
    for (int64_t j = whole; j < n; j++) sum += x[j] * y[j];
    for (int l = 0; l < 4 * FC_LANES; l++) sum += lane[l];
    *out = sum;
    return FC_OK;
}
