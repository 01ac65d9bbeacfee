/* --- Vectors -------------------------------------------------------------------------------------
 *
 * Inner products of m stored vectors with k others:  out[i][v] = sum_j rows[i][j] * x[v][j]
 *   rows [m][stride], x [k][x_stride], of which n are used;  out [m][k] */
fc_status fc_dots(int64_t m, int64_t k, int64_t n, int64_t stride, const float *rows,
                  int64_t x_stride, const double *x, double *out);

/* out [n] += sum_i coefficient[i] * rows[i] */
fc_status fc_combine(int64_t m, int64_t n, int64_t stride, const float *rows,
                     const double *coefficient, double *out);

/* Inner product of two vectors, summed in an order that depends on n alone: out[0] = sum_j x[j] y[j] */
fc_status fc_inner(int64_t n, const double *x, const double *y, double *out);
