/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights of a shard's attributes in stochastic steps, and their mean. Decay is one factor: the weights
 * are s u. With d_r the change of u at step r and c_r = s_1 + ... + s_r, the sum of the weights of steps
 * 1 .. n is
 *
 *   sum_t s_t u_t = c_n u_n + v,    v = sum_r c_{r-1} d_r,    u_r = u_{r-1} - d_r
 *
 * so a step changes u and v of the rows of its sentence only. A row stores both, 2 P numbers. When s
 * has become small, both are rebuilt.
 *
 * A change below half an ulp of u leaves no trace in float32. For small posteriors such changes are the
 * rule, and the weight of an attribute that occurs c times loses up to c 2^-25 of itself. So the
 * frequent rows and single entries accumulate the rounding errors until they matter (Kahan 1965): the
 * weight is u minus its error, the sum is v plus its error. */
#ifndef FSTCRF_AVERAGED_H
#define FSTCRF_AVERAGED_H

#include "shard.h"

#define ASKED 256 /* numbers of a row to prefetch; the hardware prefetches the rest of a long row */

/* u = sum of the rows of one token, over V vectors. */
FC_INLINE void sum_pairs(const int V, const fc_shard *s, int64_t begin, int64_t end,
                         const float *table, float *u) {
    narrow acc[8];
    for (int v = 0; v < V; v++) acc[v] = (narrow){0};
    for (int64_t k = begin; k < end; k++) {
        const narrow *row = (const narrow *)(table + s->row[k] * 2 * s->P);
        if (s->row_value == NULL)
            for (int v = 0; v < V; v++) acc[v] += row[v];
        else
            for (int v = 0; v < V; v++) acc[v] += s->row_value[k] * row[v];
    }
    for (int v = 0; v < V; v++) ((narrow *)u)[v] = acc[v];
}

static void slot_sums(const fc_shard *s, int64_t n, const fc_averaged *x, float *u) {
    const int64_t begin = s->row_ptr[n], end = s->row_ptr[n + 1];
#define BODY(V) sum_pairs(V, s, begin, end, x->table + at * NARROW, u + at * NARROW)
    IN_GROUPS(s->P / NARROW, at, BODY);
#undef BODY
    const float *single = x->table + 2 * s->R * s->P, scale = (float)x->scale;
    for (int64_t k = s->single_ptr[n]; k < s->single_ptr[n + 1]; k++) {
        const float v = s->single_value == NULL ? 1.0f : s->single_value[k];
        u[s->single_slot[k]] += v * single[2 * (int64_t)s->single[k]];
    }
    for (int64_t j = 0; j < s->P; j++) u[j] *= scale;
}

FC_INLINE void prefetch_token(const fc_shard *s, int64_t n, const float *table) {
    const int64_t most = 2 * s->P < ASKED ? 2 * s->P : ASKED;
    for (int64_t k = s->row_ptr[n]; k < s->row_ptr[n + 1]; k++)
        for (int64_t l = 0; l < most; l += LANES)
            __builtin_prefetch(table + s->row[k] * 2 * s->P + l, 1);
    for (int64_t k = s->single_ptr[n]; k < s->single_ptr[n + 1]; k++)
        __builtin_prefetch(table + 2 * (s->R * s->P + s->single[k]), 1);
}

/* Bits of a mask as lanes of ones. */
FC_INLINE narrow_mask lanes_of(uint8_t bits, int first) {
    narrow_mask bit;
    for (int l = 0; l < NARROW; l++) bit[l] = 1 << (first + l);
    return (((narrow_mask){0} + (int32_t)bits) & bit) != 0;
}

/* Rounding errors of row r, or of a single entry, laid out like u and v in the table. */
FC_INLINE float *lost_of_row(const fc_shard *s, const fc_averaged *x, int64_t r) {
    return x->table + 2 * (s->R * s->P + s->M) + 2 * r * s->P;
}

FC_INLINE float *lost_of_single(const fc_shard *s, const fc_averaged *x, int64_t i) {
    return x->table + 2 * ((s->R + s->frequent_rows) * s->P + s->M + i);
}

/* u -= d + lost, v += mass d + lost; the new rounding errors are stored in lost. */
FC_INLINE void move_exactly(const int V, float mass, const narrow *d, narrow *u, narrow *v,
                            narrow *lost_u, narrow *lost_v) {
    for (int i = 0; i < V; i++) {
        const narrow by = d[i] + lost_u[i], old = u[i];
        u[i] = old - by;
        lost_u[i] = by - (old - u[i]);
    }
    for (int i = 0; i < V && mass != 0.0f; i++) {
        const narrow by = mass * d[i] + lost_v[i], old = v[i];
        v[i] = old + by;
        lost_v[i] = by - (v[i] - old);
    }
}

/* u -= d, v += mass d over V vectors of a row. */
FC_INLINE void move_vectors(const int V, float mass, const narrow *d, narrow *u, narrow *v) {
    for (int i = 0; i < V; i++) u[i] -= d[i];
    if (mass != 0.0f)
        for (int i = 0; i < V; i++) v[i] += mass * d[i];
}

/* u -= value g, v += mass value g for the rows of one token, at slots with weights, over V vectors. */
FC_INLINE void move_rows(const int V, const fc_shard *s, const uint8_t *mask, int64_t at,
                         int64_t begin, int64_t end, const float *g, const fc_averaged *x) {
    const int64_t P = s->P;
    const float mass = (float)x->mass;
    const int bytes =
        V * NARROW / 8; /* of the mask: one for eight slots, and V is even elsewhere */
    const uint64_t all = ~(uint64_t)0 >> (64 - 8 * bytes);
    narrow own[8];
    for (int v = 0; v < V; v++) own[v] = ((const narrow *)g)[at + v];
    for (int64_t k = begin; k < end; k++) {
        const int64_t r = s->row[k];
        narrow *u = (narrow *)(x->table + r * 2 * P) + at, *sum = u + P / NARROW;
        const float value = s->row_value == NULL ? 1.0f : s->row_value[k];
        uint64_t bits = all;
        if (mask != NULL) {
            bits = 0;
            memcpy(&bits, mask + r * (P / 8) + at * NARROW / 8, (size_t)bytes);
            if (bits == 0) continue; /* few labels, and no weight for them */
        }
        narrow d[8];
        for (int v = 0; v < V; v++) d[v] = value * own[v];
        if (bits != all)
            for (int v = 0; v < V; v++) {
                const int slot = v * NARROW;
                const uint8_t byte = (uint8_t)(bits >> (slot / 8 * 8));
                d[v] = (narrow)((narrow_mask)d[v] & lanes_of(byte, slot % 8));
            }
        if (r < s->frequent_rows) {
            narrow *lost = (narrow *)lost_of_row(s, x, r) + at;
            move_exactly(V, mass, d, u, sum, lost, lost + P / NARROW);
        } else {
            move_vectors(V, mass, d, u, sum);
        }
    }
}

/* Moves the weights of token n's attributes against the gradient g of its slots. */
static void move_token(const fc_shard *s, const uint8_t *mask, const fc_averaged *x, int64_t n,
                       const float *g) {
    const float mass = (float)x->mass;
    const int64_t begin = s->row_ptr[n], end = s->row_ptr[n + 1];
    if (mask == NULL) {
#define BODY(V) move_rows(V, s, NULL, at, begin, end, g, x)
        IN_GROUPS(s->P / NARROW, at, BODY);
#undef BODY
    } else {
#define BODY(V) move_rows(V, s, mask, at, begin, end, g, x)
        IN_GROUPS(s->P / NARROW, at, BODY);
#undef BODY
    }
    float *single = x->table + 2 * s->R * s->P;
    for (int64_t k = s->single_ptr[n]; k < s->single_ptr[n + 1]; k++) {
        const float v = s->single_value == NULL ? 1.0f : s->single_value[k];
        const float d = v * g[s->single_slot[k]];
        float *u = single + 2 * (int64_t)s->single[k];
        if (s->single[k] < s->frequent_singles) {
            float *lost = lost_of_single(s, x, s->single[k]);
            const float by = d + lost[0], more = mass * d + lost[1], old = u[0], sum = u[1];
            u[0] = old - by;
            u[1] = sum + more;
            lost[0] = by - (old - u[0]);
            lost[1] = more - (u[1] - sum);
        } else {
            u[0] -= d;
            u[1] += mass * d;
        }
    }
}

/* Multiplies the scale into n numbers u, and adds the sum so far to v. */
FC_INLINE void settle_numbers(int64_t n, int64_t step, const fc_averaged *x, float *restrict u,
                              float *restrict v, float *restrict lost_u, float *restrict lost_v) {
    for (int64_t j = 0; j < n * step; j += step) {
        const double weight = (double)u[j] - (double)lost_u[j],
                     sum = (double)v[j] + (double)lost_v[j] + x->mass * weight;
        u[j] = (float)(x->scale * weight);
        v[j] = (float)sum;
        lost_u[j] = (float)((double)u[j] - x->scale * weight);
        lost_v[j] = (float)(sum - (double)v[j]);
    }
}

/* Multiplies the scale into u, and adds the sum so far to v. */
static void settle(const fc_shard *s, int64_t D, fc_averaged *x) {
    const float scale = (float)x->scale, mass = (float)x->mass;
    const int64_t P = s->P, rows = s->frequent_rows, singles = s->frequent_singles;
    for (int64_t r = 0; r < rows; r++) {
        float *u = x->table + 2 * r * P, *lost = lost_of_row(s, x, r);
        settle_numbers(P, 1, x, u, u + P, lost, lost + P);
    }
    for (int64_t r = rows; r < s->R; r++) {
        float *restrict u = x->table + 2 * r * P, *restrict v = u + P;
        for (int64_t j = 0; j < P; j++) {
            v[j] += mass * u[j];
            u[j] *= scale;
        }
    }
    float *single = x->table + 2 * s->R * P;
    float *lost = lost_of_single(s, x, 0);
    settle_numbers(singles, 2, x, single, single + 1, lost, lost + 1);
    for (int64_t i = singles; i < s->M; i++) {
        single[2 * i + 1] += mass * single[2 * i];
        single[2 * i] *= scale;
    }
    for (int64_t m = 0; m < D; m++) {
        x->dense[D + m] += x->mass * x->dense[m];
        x->dense[m] *= x->scale;
    }
    x->scale = 1.0;
    x->mass = 0.0;
}

#endif
