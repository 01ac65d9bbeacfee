/* SPDX-License-Identifier: Apache-2.0
 *
 * The attributes of a shard: from their weights to the potentials of slots, and back to a gradient.
 *
 * A shard is a small separate problem: its attributes are numbered by their frequency in it, so that
 * the frequent weights stay in cache. Attributes have two layouts:
 *
 *   rows     weights of all slots in one row, padded to whole registers: an occurrence costs P / 16
 *            vector additions, for any number of labels
 *   singles  attributes with few slots, as (slot, weight) entries of a token: a few bytes each; a padded
 *            row has 4 P
 *
 * The gradient is float32, which halves the memory traffic. Frequent cells are an exception: a large
 * cell would swallow small posteriors. Rows and singles that occur more than FC_RUN times, which have
 * the lowest numbers, are flushed to float64 after every FC_RUN occurrences, and the most frequent ones
 * more often (sweep.c). */
#ifndef FSTCRF_SHARD_H
#define FSTCRF_SHARD_H

#include "checks.h"
#include "wide.h"

/* Prefetches the rows of token n, which are scattered over the table. */
FC_INLINE void prefetch_rows(const fc_shard *s, int64_t n, const float *table) {
    if (n < 0 || n >= s->N) return;
    for (int64_t k = s->row_ptr[n]; k < s->row_ptr[n + 1]; k++)
        for (int64_t l = 0; l < s->P; l += LANES)
            __builtin_prefetch(table + s->row[k] * s->P + l, 1);
}

/* u = sum of the rows of one token, and rows of one token += p, both over V vectors. */
#define ROWS_OF(vector, add_rows, add_to_rows)                                                   \
    FC_INLINE void add_rows(const int V, const fc_shard *s, int64_t begin, int64_t end,          \
                            const float *weight, float *u) {                                     \
        const int64_t P = s->P;                                                                  \
        vector acc[8];                                                                           \
        for (int v = 0; v < V; v++) acc[v] = (vector){0};                                        \
        for (int64_t k = begin; k < end && s->row_value == NULL; k++)                            \
            for (int v = 0; v < V; v++) acc[v] += ((const vector *)(weight + s->row[k] * P))[v]; \
        for (int64_t k = begin; k < end && s->row_value != NULL; k++)                            \
            for (int v = 0; v < V; v++)                                                          \
                acc[v] += s->row_value[k] * ((const vector *)(weight + s->row[k] * P))[v];       \
        for (int v = 0; v < V; v++) ((vector *)u)[v] = acc[v];                                   \
    }                                                                                            \
    FC_INLINE void add_to_rows(const int V, const fc_shard *s, int64_t begin, int64_t end,       \
                               const float *p, float *gradient) {                                \
        const int32_t *const row = s->row;                                                       \
        const float *const value = s->row_value;                                                 \
        const int64_t P = s->P;                                                                  \
        vector own[8];                                                                           \
        for (int v = 0; v < V; v++) own[v] = ((const vector *)p)[v];                             \
        for (int64_t k = begin; k < end && value == NULL; k++)                                   \
            for (int v = 0; v < V; v++) ((vector *)(gradient + row[k] * P))[v] += own[v];        \
        for (int64_t k = begin; k < end && value != NULL; k++)                                   \
            for (int v = 0; v < V; v++)                                                          \
                ((vector *)(gradient + row[k] * P))[v] += value[k] * own[v];                     \
    }
ROWS_OF(narrow, add_rows, add_to_rows)
ROWS_OF(wide, add_wide_rows, add_to_wide_rows)

/* u = sum of the weights of token n's attributes; `next` is the token after it */
static void potentials(const fc_shard *s, int64_t n, int64_t next, const float *weight, float *u) {
    const int64_t begin = s->row_ptr[n], end = s->row_ptr[n + 1];
    prefetch_rows(s, next, weight);
#define HALVES(V) add_rows(V, s, begin, end, weight + at * NARROW, u + at * NARROW)
#define WHOLES(V) add_wide_rows(V, s, begin, end, weight + at * WIDE, u + at * WIDE)
    if (s->P % WIDE == 0)
        IN_GROUPS(s->P / WIDE, at, WHOLES);
    else
        IN_GROUPS(s->P / NARROW, at, HALVES);
#undef HALVES
#undef WHOLES
    /* Entries of a token are sorted by slot, and most share one slot: a rare attribute has a weight
     * only for the label of its token. */
    const float *single = weight + s->R * s->P;
    const int64_t last = s->single_ptr[n + 1];
    for (int64_t k = s->single_ptr[n]; k < last;) {
        const uint16_t slot = s->single_slot[k];
        float sum = 0.0f;
        for (; k < last && s->single_slot[k] == slot; k++) {
            const float v = s->single_value == NULL ? 1.0f : s->single_value[k];
            sum += v * single[s->single[k]];
        }
        u[slot] += sum;
    }
}

/* A sum over tokens for each weight of a shard. */
typedef struct {
    float *part;             /* [R * P + M] since the last flush */
    double *total;           /* [frequent_rows * P + frequent_singles] before it */
    int64_t tokens, flushes; /* tokens and flushes done so far */
} shard_sums;

/* Called at every token: makes the flushes that are due. */
FC_APART void flush_due(const fc_shard *s, shard_sums *g) {
    for (; g->flushes < s->flushes && s->flush_after[g->flushes] <= g->tokens; g->flushes++) {
        const int64_t what = s->flush_what[g->flushes], single = what - s->R;
        if (single < 0)
            flush(s->P, g->part + what * s->P, g->total + what * s->P);
        else
            flush(1, g->part + s->R * s->P + single, g->total + s->frequent_rows * s->P + single);
    }
    if (g->flushes == s->flushes || s->flush_what[g->flushes] >= s->R) return;
    for (int64_t l = 0; l < s->P; l += 8) /* prefetches the row of the next flush */
        __builtin_prefetch(g->total + s->flush_what[g->flushes] * s->P + l, 1);
}

FC_INLINE void count_token(const fc_shard *s, shard_sums *g) {
    g->tokens++;
    if (g->flushes < s->flushes && s->flush_after[g->flushes] <= g->tokens) flush_due(s, g);
}

/* sums of token n's attributes += p; `next` is the token after it */
static void scatter(const fc_shard *s, int64_t n, int64_t next, const float *p, shard_sums *sums) {
    float *gradient = sums->part;
    const int64_t begin = s->row_ptr[n], end = s->row_ptr[n + 1];
    prefetch_rows(s, next, gradient);
#define HALVES(V) add_to_rows(V, s, begin, end, p + at * NARROW, gradient + at * NARROW)
#define WHOLES(V) add_to_wide_rows(V, s, begin, end, p + at * WIDE, gradient + at * WIDE)
    if (s->P % WIDE == 0)
        IN_GROUPS(s->P / WIDE, at, WHOLES);
    else
        IN_GROUPS(s->P / NARROW, at, HALVES);
#undef HALVES
#undef WHOLES
    float *single = gradient + s->R * s->P;
    for (int64_t k = s->single_ptr[n]; k < s->single_ptr[n + 1]; k++) {
        const float v = s->single_value == NULL ? 1.0f : s->single_value[k];
        single[s->single[k]] += v * p[s->single_slot[k]];
    }
    count_token(s, sums);
}

/* The same for a token outside the order of flushes (count_token): frequent rows and entries are
 * added to their totals at once. */
static void scatter_apart(const fc_shard *s, int64_t n, const float *p, shard_sums *sums) {
    for (int64_t k = s->row_ptr[n]; k < s->row_ptr[n + 1]; k++) {
        const int64_t row = s->row[k] * s->P;
        const float v = s->row_value == NULL ? 1.0f : s->row_value[k];
        if (s->row[k] < s->frequent_rows)
            for (int64_t j = 0; j < s->P; j++) sums->total[row + j] += (double)v * (double)p[j];
        else
            for (int64_t j = 0; j < s->P; j++) sums->part[row + j] += v * p[j];
    }
    double *total = sums->total + s->frequent_rows * s->P;
    float *part = sums->part + s->R * s->P;
    for (int64_t k = s->single_ptr[n]; k < s->single_ptr[n + 1]; k++) {
        const float x =
            (s->single_value == NULL ? 1.0f : s->single_value[k]) * p[s->single_slot[k]];
        if (s->single[k] < s->frequent_singles)
            total[s->single[k]] += (double)x;
        else
            part[s->single[k]] += x;
    }
}

static void slot_potentials(const fc_shard *s, int64_t first, int64_t T, const float *weight,
                            float *u) {
    for (int64_t t = 0; t < T; t++) potentials(s, first + t, first + t + 1, weight, u + t * s->P);
}

/* --- Checks ----------------------------------------------------------------------------------- */

/* Sizes of a shard, its sentences, and the slots of the states. */
static fc_status check_sentences(const fc_machine *machine, const fc_shard *s, int64_t *where) {
    *where = 0;
    if (s->P < 8 || s->P % 8 != 0 || s->P > UINT16_MAX + 1 || s->R < 0 || s->M < 0)
        return FC_EINVAL;
    if (s->frequent_rows < 0 || s->frequent_rows > s->R || s->frequent_singles < 0 ||
        s->frequent_singles > s->M || s->flushes < 0)
        return FC_EINVAL;
    if (s->K < 0 || (s->K == 0 && fc_padded(machine->S) != s->P)) return FC_EINVAL;
    fc_status status = check_bounds(s->B, s->offsets, where);
    if (status == FC_OK && s->offsets[s->B] != s->N) status = FC_EINVAL;
    for (int64_t b = 0; status == FC_OK && b < s->B; b++)
        if (s->offsets[b + 1] - s->offsets[b] > s->longest) status = fail(FC_EINVAL, b, where);
    if (status == FC_OK) status = check_within(machine->S * s->K, s->slot, 0, s->P, where);
    return status;
}

static fc_status check_attributes(const fc_machine *machine, const fc_shard *s, const fc_layout *l,
                                  int64_t *where) {
    fc_status status = check_sentences(machine, s, where);
    if (status == FC_OK) status = check_rows(s->N, s->row_ptr, where);
    if (status == FC_OK) status = check_rows(s->N, s->single_ptr, where);
    if (status == FC_OK) status = check_rows(l->attributes, l->ptr, where);
    if (status == FC_OK && l->ptr[l->attributes] > l->parameters) status = FC_EINVAL;
    if (status == FC_OK) status = check_within(s->row_ptr[s->N], s->row, 0, s->R, where);
    if (status == FC_OK) status = check_within(s->single_ptr[s->N], s->single, 0, s->M, where);
    if (status == FC_OK) status = check_within(s->R, s->rows, 0, l->attributes, where);
    if (status == FC_OK) status = check_within(s->M, s->singles, 0, l->parameters, where);
    if (status == FC_OK && s->gold != NULL)
        status = check_within(s->N, s->gold, 0, machine->S, where);
    for (int64_t k = 0; status == FC_OK && k < s->flushes; k++) {
        const int64_t what = s->flush_what[k];
        const int64_t bound = what < s->R ? s->frequent_rows : s->R + s->frequent_singles;
        if (what < 0 || what >= bound) status = fail(FC_EINVAL, k, where);
    }
    for (int64_t k = 0; status == FC_OK && k < s->single_ptr[s->N]; k++)
        if (s->single_slot[k] >= s->P) status = fail(FC_EINVAL, k, where);
    for (int64_t k = 0; status == FC_OK && k < l->ptr[l->attributes]; k++)
        if (l->slot[k] >= s->P) status = fail(FC_EINVAL, k, where);
    return status;
}

#endif
