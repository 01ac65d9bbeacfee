/* SPDX-License-Identifier: Apache-2.0
 *
 * A row of logs times a table of logs, in the linear domain unless the sum is too small there. */
#ifndef FSTCRF_ALONG_H
#define FSTCRF_ALONG_H

#include "vec.h"

#define FAINT_SUM 1e-200

/* log sum over j of exp(x[j] + y[j]) */
static inline double fc_log_sum(int64_t n, const double *x, const double *y) {
    double best = FC_NEVER, sum = 0.0;
    for (int64_t j = 0; j < n; j++) best = fc_larger(best, x[j] + y[j]);
    if (best == FC_NEVER) return best;
    for (int64_t j = 0; j < n; j++) sum += fc_exp(x[j] + y[j] - best);
    return best + fc_log(sum);
}

/* log Z from the rest that is left after the amounts w were subtracted at n tokens. */
static inline double fc_whole(int64_t n, const double *w, double rest) {
    fc_total sum = {rest, 0.0};
    for (int64_t t = 0; t < n; t++) fc_add(&sum, w[t]);
    return fc_value(sum);
}

/* linear = exp(pair - top) of a table [S][P], 0 in columns from S on; returns the top. */
static inline double fc_weigh(int64_t S, int64_t P, const double *pair, double *linear) {
    double top = FC_NEVER;
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < S; j++) top = fc_larger(top, pair[i * P + j]);
    top = finite_or_zero(top);
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < P; j++)
            linear[i * P + j] = j < S ? fc_exp(pair[i * P + j] - top) : 0.0;
    return top;
}

/* y[j] = log sum over i < S of exp(x[i] + pair[i][j]), j < P; `linear` has exp(pair - top). Columns
 * from S to P are -inf in x, and 0 in `linear`.
 *   row, sum [P]  scratch */
static inline void fc_along(int64_t S, int64_t P, double top, const double *pair,
                            const double *linear, const double *x, double *restrict row,
                            double *restrict sum, double *restrict y) {
    const double c = fc_max(P, x);
    if (c == FC_NEVER) {
        fc_fill(P, fc_sum(P, x), y); /* -inf, or NaN if x has one */
        return;
    }
    fc_fill(P, 0.0, sum);
    for (int64_t i = 0; i < P; i++) row[i] = fc_exp(x[i] - c);
    for (int64_t i = 0; i < S; i++)
        if (row[i] != 0.0) fc_axpy(P, row[i], linear + i * P, sum);
    for (int64_t j = 0; j < P; j++) {
        const double log_sum = c + top + fc_log(sum[j] > FAINT_SUM ? sum[j] : 1.0);
        y[j] = sum[j] > FAINT_SUM ? log_sum : FC_NEVER;
    }
    for (int64_t j = 0; j < S; j++) {
        if (sum[j] > FAINT_SUM) continue;
        double best = FC_NEVER, all = 0.0;
        for (int64_t i = 0; i < S; i++) best = fc_larger(best, x[i] + pair[i * P + j]);
        if (best == FC_NEVER) continue;
        for (int64_t i = 0; i < S; i++) all += fc_exp(x[i] + pair[i * P + j] - best);
        y[j] = best + fc_log(all);
    }
}

#endif
