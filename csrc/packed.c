/* SPDX-License-Identifier: Apache-2.0
 *
 * Sparse rows times a table most of whose rows hold one or two weights (rows.c has the full table).
 * Padded, they would take 8 W bytes each, nearly all zeros, and each would be a cache miss. So rows
 * with many weights are padded, and summed in registers; the others are lists of (weight, slot), which
 * are summed entry by entry.
 *
 * Two memory accesses depend on each other: the place of a row, and its contents. Both are
 * prefetched. */

#include "checks.h"
#include "vec.h"

#define NEAR 24    /* entries ahead: the contents */
#define FAR 64     /* entries ahead: the place */
#define SEGMENT 64 /* entries of a token that are summed at a time */

/* sum += value * (the weights at ~place) */
FC_INLINE void add_entries(const fc_entry *restrict e, double value, double *restrict sum) {
    for (; e->slot >= 0; e++) sum[e->slot] += value * e->weight;
    sum[~e->slot] += value * e->weight;
}

FC_INLINE void add_tile(const int L, int64_t W, int64_t n, const int32_t *restrict row,
                        const double *restrict value, const double *restrict table,
                        double *restrict sum) {
    double acc[32];
    for (int l = 0; l < L; l++) acc[l] = sum[l];
    for (int64_t k = 0; k < n; k++) {
        const double *restrict from = table + row[k] * W;
        for (int l = 0; l < L; l++) acc[l] += value[k] * from[l];
    }
    for (int l = 0; l < L; l++) sum[l] = acc[l];
}

FC_INLINE void add_rows(int64_t W, int64_t n, const int32_t *row, const double *value,
                        const double *table, double *sum) {
    int64_t j = 0;
    for (; j + 32 <= W; j += 32) add_tile(32, W, n, row, value, table + j, sum + j);
    switch (W - j) {
        case 24: add_tile(24, W, n, row, value, table + j, sum + j); break;
        case 16: add_tile(16, W, n, row, value, table + j, sum + j); break;
        case 8: add_tile(8, W, n, row, value, table + j, sum + j); break;
        default: break;
    }
}

FC_INLINE void ask(const fc_packed *packed, int32_t p) {
    const char *at =
        p < 0 ? (const char *)(packed->entry + ~p) : (const char *)(packed->table + p * packed->W);
    const int64_t step = p < 0 ? 0 : 64;
    for (int64_t l = 0; l < packed->W; l += 8, at += step) __builtin_prefetch(at);
}

fc_status fc_gather_packed(int64_t N, const fc_packed *packed, const int64_t *indptr,
                           const int32_t *index, const float *value, int64_t S, int reversed,
                           double *out, double *sum) {
    if (N < 0 || packed->W < FC_LANES || packed->W % FC_LANES != 0 || S < 0 || S > packed->W)
        return FC_EINVAL;
    const int64_t W = packed->W, last = indptr[N];
    const int32_t *place = packed->place;
    for (int64_t n = 0; n < N; n++) {
        fc_fill(W, 0.0, sum);
        for (int64_t k = indptr[n]; k < indptr[n + 1];) {
            const int64_t stop = indptr[n + 1] - k < SEGMENT ? indptr[n + 1] : k + SEGMENT;
            int32_t row[SEGMENT], list[SEGMENT];
            double factor[SEGMENT], scale[SEGMENT];
            int64_t rows = 0, lists = 0;
            for (; k < stop; k++) {
                __builtin_prefetch(place + index[k + FAR < last ? k + FAR : k]);
                ask(packed, place[index[k + NEAR < last ? k + NEAR : k]]);
                const int32_t p = place[index[k]];
                row[rows] = p;
                list[lists] = ~p;
                factor[rows] = scale[lists] = value == NULL ? 1.0 : (double)value[k];
                rows += p >= 0;
                lists += p < 0;
            }
            for (int64_t j = 0; j < lists; j++) add_entries(packed->entry + list[j], scale[j], sum);
            add_rows(W, rows, row, factor, packed->table, sum);
        }
        memcpy(out + (reversed ? N - 1 - n : n) * S, sum, (size_t)S * sizeof *out);
    }
    return FC_OK;
}
