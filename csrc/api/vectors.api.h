/* --- Vectors -------------------------------------------------------------------------------------
 *
 * Inner products of m stored vectors with k others:  out[i][v] = sum_j rows[i][j] * x[v][j]
 *   rows [m][stride], x [k][x_stride], of which n are used;  out [m][k] */
fc_status fc_dots(int64_t m, int64_t k, int64_t n, int64_t stride, const float *rows,
                  int64_t x_stride, const double *x, double *out);

/* out [n] += sum_i coefficient[i] * rows[i] */
fc_status fc_combine(int64_t m, int64_t n, int64_t stride, const float *rows,
                     const double *coefficient, double *out);

/* The same with rows of 16 bits, which hold the values divided by 2^power. */
fc_status fc_dots_half(int64_t m, int64_t k, int64_t n, int64_t stride, const uint16_t *rows,
                       int64_t x_stride, const double *x, double *out);
fc_status fc_combine_half(int64_t m, int64_t n, int64_t stride, const uint16_t *rows,
                          const double *coefficient, double *out);

/* Converts a row to 16 bits, 11 of which are digits; values below 2^-29 of the largest become 0.
 *   largest      upper bound of |x|; at most 1e200
 *   x    [n]     in/out  becomes the value that the row represents
 *   half [n]     out
 *   power        out  depends on `largest` only */
fc_status fc_narrow(int64_t n, double largest, double *x, uint16_t *half, int32_t *power);

/* Inner product of two vectors, summed in an order that depends on n only: out[0] = sum_j x[j] y[j] */
fc_status fc_inner(int64_t n, const double *x, const double *y, double *out);
