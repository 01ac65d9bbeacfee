/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of the vector work of L-BFGS. */

#include "entry.h"

fc_status fc_dots(int64_t m, int64_t k, int64_t n, int64_t stride, const float *rows,
                  int64_t x_stride, const double *x, double *out) {
    if (m < 0 || k < 1 || n < 0 || stride < n || x_stride < n) return FC_EINVAL;
    dispatch_table()->dots(m, k, n, stride, rows, x_stride, x, out);
    return FC_OK;
}

fc_status fc_combine(int64_t m, int64_t n, int64_t stride, const float *rows,
                     const double *coefficient, double *out) {
    if (m < 0 || n < 0 || stride < n) return FC_EINVAL;
    dispatch_table()->combine(m, n, stride, rows, coefficient, out);
    return FC_OK;
}

fc_status fc_inner(int64_t n, const double *x, const double *y, double *out) {
    if (n < 0) return FC_EINVAL;
    *out = dispatch_table()->inner(n, x, y);
    return FC_OK;
}
