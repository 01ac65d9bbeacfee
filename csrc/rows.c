/* SPDX-License-Identifier: Apache-2.0
 *
 * Sparse rows times a table of padded rows: potentials, and gradients through the transposed design.
 * The next row is prefetched while this one is added: rows are scattered over the table, and cache
 * misses are most of the cost. */

#include "checks.h"
#include "vec.h"

#define AHEAD 8 /* rows of prefetch */

FC_INLINE void gather_tile(const int L, int64_t W, int64_t begin, int64_t end,
                           const int32_t *restrict index, const float *restrict value,
                           const double *restrict table, double *restrict out) {
    double acc[32] = {0};
    for (int64_t k = begin; k < end; k++) {
        const double *restrict row = table + index[k] * W;
        const double v = value == NULL ? 1.0 : (double)value[k];
        for (int l = 0; l < L; l++) acc[l] += v * row[l];
    }
    for (int l = 0; l < L; l++) out[l] = acc[l];
}

fc_status fc_gather(int64_t N, int64_t R, int64_t W, const int64_t *indptr, const int32_t *index,
                    const float *value, const double *table, double *out) {
    if (N < 0 || R < 0 || W < FC_LANES || W % FC_LANES != 0) return FC_EINVAL;
    const int64_t last = indptr[N];
    for (int64_t n = 0; n < N; n++) {
        const int64_t begin = indptr[n], end = indptr[n + 1];
        double *to = out + n * W;
        for (int64_t k = end; k < end + AHEAD && k < last; k++)
            for (int64_t l = 0; l < W; l += 8) __builtin_prefetch(table + index[k] * W + l);
        int64_t j = 0;
        for (; j + 32 <= W; j += 32)
            gather_tile(32, W, begin, end, index, value, table + j, to + j);
        switch (W - j) {
            case 24: gather_tile(24, W, begin, end, index, value, table + j, to + j); break;
            case 16: gather_tile(16, W, begin, end, index, value, table + j, to + j); break;
            case 8: gather_tile(8, W, begin, end, index, value, table + j, to + j); break;
            default: break;
        }
    }
    return FC_OK;
}

FC_INLINE void ask_for_cells(int64_t W, int64_t begin, int64_t end, const int32_t *index,
                             int64_t from, int64_t to, const int32_t *slot, const double *table) {
    for (int64_t k = begin; k < end && k < begin + AHEAD; k++)
        for (int64_t c = from; c < to && c < from + AHEAD; c++)
            __builtin_prefetch(table + index[k] * W + slot[c]);
}

fc_status fc_gather_cells(int64_t N, int64_t R, int64_t W, const int64_t *indptr,
                          const int32_t *index, const float *value, const double *table,
                          const int64_t *first, const int32_t *slot, double *out, double *sum,
                          int64_t *where) {
    *where = 0;
    if (N < 0 || R < 0 || W < FC_LANES || W % FC_LANES != 0) return FC_EINVAL;
    fc_status status = check_rows(N, first, where);
    if (status == FC_OK) status = check_within(first[N], slot, 0, W, where);
    if (status != FC_OK) return status;
    for (int64_t n = 0; n < N; n++) {
        const int64_t soon = n + AHEAD / 2;
        if (soon < N)
            ask_for_cells(W, indptr[soon], indptr[soon + 1], index, first[soon], first[soon + 1],
                          slot, table);
        const int64_t from = first[n], to = first[n + 1];
        if ((to - from) * FC_LANES > W) {
            status = fc_gather(1, R, W, indptr + n, index, value, table, sum);
            if (status != FC_OK) return status;
            for (int64_t c = from; c < to; c++) out[c] = sum[slot[c]];
            continue;
        }
        for (int64_t c = from; c < to; c++) {
            double total = 0.0;
            for (int64_t k = indptr[n]; k < indptr[n + 1]; k++)
                total += (value == NULL ? 1.0 : (double)value[k]) * table[index[k] * W + slot[c]];
            out[c] = total;
        }
    }
    return FC_OK;
}

fc_status fc_scatter(int64_t K, const int64_t *token, const int64_t *slot, const double *mass,
                     int64_t N, int64_t R, int64_t W, const int64_t *indptr, const int32_t *index,
                     const float *value, const int32_t *place, int64_t size, double *out,
                     int64_t *where) {
    *where = 0;
    if (K < 0 || N < 0 || R < 0 || W < 1) return FC_EINVAL;
    for (int64_t k = 0; k < K; k++) {
        *where = k;
        if (token[k] < 0 || token[k] >= N || slot[k] < 0 || slot[k] >= W) return FC_EINVAL;
    }
    for (int64_t k = 0; k < K; k++) {
        if (k + 1 < K) /* prefetch the next token's places while this token's are read */
            for (int64_t e = indptr[token[k + 1]]; e < indptr[token[k + 1] + 1]; e++)
                __builtin_prefetch(place + index[e] * W + slot[k + 1]);
        for (int64_t e = indptr[token[k]]; e < indptr[token[k] + 1]; e++) {
            const int32_t to = place[index[e] * W + slot[k]];
            if (to < 0) continue;
            if (to >= size) return fail(FC_EINVAL, k, where);
            out[to] += value == NULL ? mass[k] : mass[k] * (double)value[e];
        }
    }
    return FC_OK;
}
