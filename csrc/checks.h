/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that the entry points share. */
#ifndef FSTCRF_CHECKS_H
#define FSTCRF_CHECKS_H

#include <stddef.h>
#include <string.h>

#include "fstcrf.h"

static inline int64_t arcs_of(const fc_axis *a) { return a->A == 0 ? a->S * a->S : a->A; }

static inline fc_status fail(fc_status status, int64_t place, int64_t *where) {
    *where = place;
    return status;
}

/* Offsets begin at 0 and every sentence has a token. */
static inline fc_status check_bounds(int64_t B, const int64_t *offsets, int64_t *where) {
    *where = 0;
    if (B < 0 || offsets[0] != 0) return FC_EINVAL;
    for (int64_t b = 0; b < B; b++)
        if (offsets[b] >= offsets[b + 1]) return fail(FC_EINVAL, b, where);
    return FC_OK;
}

/* Offsets begin at 0 and do not fall: sentences may be empty. */
static inline fc_status check_rows(int64_t B, const int64_t *offsets, int64_t *where) {
    *where = 0;
    if (B < 0 || offsets[0] != 0) return FC_EINVAL;
    for (int64_t b = 0; b < B; b++)
        if (offsets[b] > offsets[b + 1]) return fail(FC_EINVAL, b, where);
    return FC_OK;
}

/* Every index is at least `least`, and below the limit. */
static inline fc_status check_within(int64_t n, const int32_t *index, int64_t least, int64_t limit,
                                     int64_t *where) {
    for (int64_t i = 0; i < n; i++)
        if (index[i] < least || index[i] >= limit) return fail(FC_EINVAL, i, where);
    return FC_OK;
}

/* Every number of an order is below B. */
static inline fc_status check_order(int64_t n, const int64_t *order, int64_t B, int64_t *where) {
    for (int64_t k = 0; k < n; k++)
        if (order[k] < 0 || order[k] >= B) return fail(FC_EINVAL, k, where);
    return FC_OK;
}

static inline fc_status check_offsets(const fc_batch *batch, int64_t *where) {
    *where = 0;
    if (batch == NULL) return FC_EINVAL;
    return check_bounds(batch->B, batch->offsets, where);
}

/* Sentences, longest first; order [B + longest + 2] is filled from 0 to B - 1. */
static inline void by_length(int64_t B, const int64_t *offsets, int64_t longest, int64_t *order) {
    int64_t *start = order + B; /* [longest + 2] per length */
    memset(start, 0, (size_t)(longest + 2) * sizeof *start);
    for (int64_t b = 0; b < B; b++) start[longest - (offsets[b + 1] - offsets[b]) + 1]++;
    for (int64_t k = 0; k <= longest; k++) start[k + 1] += start[k];
    for (int64_t b = 0; b < B; b++) order[start[longest - (offsets[b + 1] - offsets[b])]++] = b;
}

static inline int64_t longest_of(int64_t B, const int64_t *offsets) {
    int64_t longest = 0;
    for (int64_t b = 0; b < B; b++) {
        const int64_t T = offsets[b + 1] - offsets[b];
        longest = T > longest ? T : longest;
    }
    return longest;
}

/* Whether a machine has one axis: learners, samplers and the sweep need this. If its node potentials
 * are read, they are one row a token. */
static inline int is_line(const fc_machine *m) {
    return m->axes == 1 && m->residual == NULL && m->axis->contexts == 1;
}

/* The same, and a rest applies to all pairs. */
static inline int is_chain(const fc_machine *m) { return is_line(m) && m->axis->leave == NULL; }

static inline int has_arc(const fc_axis *g, int32_t i, int32_t j) {
    if (g->A == 0 || g->rest != NULL) return 1;
    for (int64_t a = g->row[i]; a < g->row[i + 1]; a++)
        if (g->target[a] == j) return 1;
    return 0;
}

static inline int has_rest(const fc_axis *g, int64_t i, int64_t j) {
    return g->leave == NULL || (g->leave->of[i] >= 0 && g->leave->of[i] == g->enter->of[j]);
}

static inline int domain_known(fc_domain domain) {
    return domain == FC_AUTO || domain == FC_LINEAR || domain == FC_LOG;
}

#endif
