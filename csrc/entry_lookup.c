/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of the lookup of attributes: hash tables, keys, rows. */

#include "entry.h"

fc_status fc_fill_slots(int64_t n, const uint64_t *key, const int32_t *row, int64_t size,
                        int64_t shift, fc_slot *slot) {
    if (n < 0 || shift < 1 || shift > 63 || size != (int64_t)1 << (64 - shift) || n >= size)
        return FC_EINVAL;
    dispatch_table()->fill_slots(n, key, row, size, shift, slot);
    return FC_OK;
}

fc_status fc_find_rows(int64_t B, const int64_t *offsets, int64_t K, int64_t stride,
                       const int32_t *codes, int64_t reach, int64_t F, const fc_family *families,
                       int32_t *rows, int64_t *where) {
    *where = 0;
    if (B < 0 || reach < 0 || offsets[0] < 0 || offsets[B] > stride) return FC_EINVAL;
    for (int64_t b = 0; b < B; b++)
        if (offsets[b] > offsets[b + 1]) return fail(FC_EINVAL, b, where);
    for (int64_t f = 0; f < F; f++) {
        const fc_family *family = families + f;
        if (family->direct == NULL && (family->shift < 1 || family->shift > 63 ||
                                       family->size != (int64_t)1 << (64 - family->shift)))
            return fail(FC_EINVAL, f, where);
        for (int64_t m = 0; m < family->M; m++) {
            const fc_term *term = family->term + m;
            if (term->column < 0 || term->column >= K || term->width < 0 || term->width > 63 ||
                (term->pads && reach < (term->offset < 0 ? -term->offset : term->offset)))
                return fail(FC_EINVAL, f, where);
        }
    }
    dispatch_table()->find_rows(B, offsets, stride, codes, reach, F, families, rows);
    return FC_OK;
}

fc_status fc_compact_rows(int64_t N, int64_t F, const int32_t *rows, int64_t *indptr,
                          int32_t *index) {
    int64_t at = 0;
    if (N < 0 || F < 0) return FC_EINVAL;
    indptr[0] = 0;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            index[at] = rows[n * F + f];
            at += rows[n * F + f] >= 0;
        }
        indptr[n + 1] = at;
    }
    return FC_OK;
}
