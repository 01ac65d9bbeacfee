/* SPDX-License-Identifier: Apache-2.0
 *
 * Phrases in sentences. All stretches of a sentence grow by a token at a time: memory accesses of
 * different lookups are independent. */

#include "checks.h"
#include "slots.h"
#include "vec.h"

#define AHEAD 8 /* lookups that are prefetched */

FC_INLINE uint64_t key_of(const fc_phrases *p, int32_t node, int32_t string) {
    return (uint64_t)node * (uint64_t)p->strings + (uint64_t)string;
}

FC_INLINE int known(const fc_phrases *p, int32_t string) {
    return string >= 0 && string < p->strings;
}

/* Whether the stretch of d - 1 tokens from s on may grow, at node `at`, over token s + d - 1. */
FC_INLINE int grows(const fc_phrases *p, int32_t at, int32_t string) {
    return at > 0 && known(p, string);
}

static void ask_for(const fc_phrases *p, int32_t at, int32_t string) {
    if (grows(p, at, string)) __builtin_prefetch(p->slot + home(key_of(p, at, string), p->shift));
}

/* The phrases of one sentence of T tokens; returns the number of their weights. */
static int64_t find_in(const fc_phrases *p, int64_t T, const int32_t *token, int64_t D,
                       int32_t *node) {
    int64_t found = 0;
    for (int64_t s = 0; s < T; s++) {
        const int32_t at = known(p, token[s]) ? p->first[token[s]] : 0;
        node[s * D] = at;
        if (at > 0) found += p->row[at + 1] - p->row[at];
    }
    for (int64_t d = 2; d <= D; d++) {
        const int64_t last = T - d; /* first token of the last stretch */
        for (int64_t s = 0; s <= last && s < AHEAD; s++)
            ask_for(p, node[s * D + d - 2], token[s + d - 1]);
        for (int64_t s = 0; s < T; s++) {
            int32_t *grown = node + s * D + d - 1;
            if (s + AHEAD <= last) ask_for(p, grown[AHEAD * D - 1], token[s + AHEAD + d - 1]);
            *grown = 0;
            if (s > last || !grows(p, grown[-1], token[s + d - 1])) continue;
            const int64_t next =
                row_in_slots(p->slot, p->size, p->shift, key_of(p, grown[-1], token[s + d - 1]));
            if (next < 1) continue;
            *grown = (int32_t)next;
            found += p->row[next + 1] - p->row[next];
        }
    }
    return found;
}

fc_status fc_find_phrases(int64_t K, const fc_phrases *phrases, int64_t B, const int64_t *offset,
                          const int32_t *token, int64_t D, int32_t *node, int64_t *extra,
                          int64_t *where) {
    if (K < 0 || D < 1) return fail(FC_EINVAL, -1, where);
    const fc_status status = check_rows(B, offset, where);
    if (status != FC_OK) return status;
    const int64_t N = offset[B];
    extra[0] = 0;
    for (int64_t b = 0; b < B; b++) {
        const int64_t s = offset[b], T = offset[b + 1] - s;
        extra[b + 1] = extra[b];
        for (int64_t k = 0; k < K; k++)
            extra[b + 1] += find_in(phrases + k, T, token + k * N + s, D, node + (k * N + s) * D);
    }
    return FC_OK;
}

fc_status fc_phrase_weights(int64_t K, const fc_phrases *phrases, int64_t B, const int64_t *offset,
                            int64_t D, int64_t P, const int32_t *node, const int64_t *extra,
                            int32_t *cell, int32_t *what, int64_t *where) {
    if (K < 0 || D < 1 || P < 1 || B < 0) return fail(FC_EINVAL, -1, where);
    const int64_t N = offset[B];
    int64_t at = 0;
    for (int64_t b = 0; b < B; b++) {
        const int64_t cells = (offset[b + 1] - offset[b]) * D;
        if (cells * P > INT32_MAX) return fail(FC_EFULL, b, where);
        for (int64_t k = 0; k < K; k++) {
            const fc_phrases *p = phrases + k;
            const int32_t *own = node + (k * N + offset[b]) * D;
            for (int64_t i = 0; i < cells; i++) {
                if (own[i] == 0) continue;
                if (own[i] < 0 || own[i] >= p->nodes) return fail(FC_EINVAL, b, where);
                const int64_t from = p->row[own[i]], end = p->row[own[i] + 1];
                if (end - from > extra[b + 1] - at) return fail(FC_EINVAL, b, where);
                for (int64_t w = from; w < end; w++, at++) {
                    if (p->label[w] < 0 || p->label[w] >= P) return fail(FC_EINVAL, b, where);
                    cell[at] = (int32_t)(i * P) + p->label[w];
                    what[at] = p->weight[w];
                }
            }
        }
        if (at != extra[b + 1]) return fail(FC_EINVAL, b, where);
    }
    return FC_OK;
}
