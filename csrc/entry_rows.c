/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of sparse rows times a table, padded or packed: potentials and gradients. */

#include "entry.h"
#include "vec.h"

fc_status fc_scatter(int64_t K, const int64_t *token, const int64_t *slot, const double *mass,
                     int64_t N, int64_t R, int64_t W, const int64_t *indptr, const int32_t *index,
                     const float *value, const int32_t *place, double *out, int64_t *where) {
    *where = 0;
    if (K < 0 || N < 0 || R < 0 || W < 1) return FC_EINVAL;
    for (int64_t k = 0; k < K; k++) {
        *where = k;
        if (token[k] < 0 || token[k] >= N || slot[k] < 0 || slot[k] >= W) return FC_EINVAL;
    }
    dispatch_table()->scatter(K, token, slot, mass, W, indptr, index, value, place, out);
    return FC_OK;
}

fc_status fc_gather(int64_t N, int64_t R, int64_t W, const int64_t *indptr, const int32_t *index,
                    const float *value, const double *weights, double *out) {
    if (N < 0 || R < 0 || W < FC_LANES || W % FC_LANES != 0) return FC_EINVAL;
    dispatch_table()->gather(N, W, indptr, index, value, weights, out);
    return FC_OK;
}

fc_status fc_packed_size(int64_t R, int64_t W, int64_t M, const int64_t *cells, int64_t least,
                         int64_t *rows, int64_t *entries, int64_t *where) {
    *where = 0;
    if (R < 0 || R >= INT32_MAX || M < 0 || M >= INT32_MAX || least < 1 || W < FC_LANES ||
        W % FC_LANES != 0)
        return FC_EINVAL;
    for (int64_t k = 0; k < M; k++)
        if (cells[k] < (k > 0 ? cells[k - 1] + 1 : 0) || cells[k] >= R * W)
            return fail(FC_EINVAL, k, where);
    dispatch_table()->packed_size(W, M, cells, least, rows, entries);
    return FC_OK;
}

fc_status fc_pack(int64_t R, int64_t W, int64_t M, const int64_t *cells, const double *weight,
                  int64_t least, int32_t *place, double *padded, fc_entry *entry) {
    if (R < 0 || M < 0 || least < 1 || W < FC_LANES || W % FC_LANES != 0) return FC_EINVAL;
    dispatch_table()->pack(R, W, M, cells, weight, least, place, padded, entry);
    return FC_OK;
}

fc_status fc_gather_packed(int64_t N, const fc_packed *packed, const int64_t *indptr,
                           const int32_t *index, const float *value, int64_t S, double *out,
                           double *sum) {
    if (N < 0 || packed->W < FC_LANES || packed->W % FC_LANES != 0 || S < 0 || S > packed->W)
        return FC_EINVAL;
    dispatch_table()->gather_packed(N, packed, indptr, index, value, S, out, sum);
    return FC_OK;
}
