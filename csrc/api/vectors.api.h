/* --- Vectors -------------------------------------------------------------------------------------
 *
 * Inner products of m stored vectors with k others:  out[i][v] = sum_j rows[i][j] * x[v][j]
 *   half  0: rows are float; 1: they have 16 bits, uint16_t, which hold the values divided by 2^power
 *   rows [m][stride], x [k][x_stride], of which n are used;  out [m][k] */
fc_status fc_dots(int64_t m, int64_t k, int64_t n, int64_t stride, int half, const void *rows,
                  int64_t x_stride, const double *x, double *out);

/* out [n] += sum_i coefficient[i] * rows[i] */
fc_status fc_combine(int64_t m, int64_t n, int64_t stride, int half, const void *rows,
                     const double *coefficient, double *out);

/* Converts a row to 16 bits, 11 of which are digits; values below 2^-29 of the largest become 0.
 *   largest      upper bound of |x|; at most 1e200
 *   x    [n]     in/out  becomes the value that the row represents
 *   half [n]     out
 *   power        out  depends on `largest` only */
fc_status fc_narrow(int64_t n, double largest, double *x, uint16_t *half, int32_t *power);

/* Inner product of two vectors, summed in an order that depends on n only: out[0] = sum_j x[j] y[j] */
fc_status fc_inner(int64_t n, const double *x, const double *y, double *out);
