/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule by which a sweep flushes the sums of frequent attributes of a shard (shard.h). It is
 * computed once: counting during a sweep would cost a tenth of its time. A sum of n numbers in float32
 * loses up to n 2^-24 of itself. The sum of an attribute that occurs c times is flushed after 4 N / c
 * additions, so that its total loss does not grow with c, but at most at every eighth one. */
#ifndef FSTCRF_FLUSHES_H
#define FSTCRF_FLUSHES_H

#include "background.h"

#define LEAST_RUN 8

typedef struct {
    const fc_shard *s;
    int64_t *order; /* [B + longest + 2] */
    int64_t *run;   /* [frequent_rows + frequent_singles] occurrences between two flushes, */
    int64_t *left;  /* ... and until the next one */
    int64_t tokens, count;
    int64_t *after;
    int32_t *what;
} flushes;

static void count_times(const int32_t *index, int64_t entries, int64_t n, int64_t *times) {
    for (int64_t k = 0; k < entries; k++)
        if (index[k] < n) times[index[k]]++;
}

static void choose_runs(flushes *v) {
    const fc_shard *s = v->s;
    const int64_t rows = s->frequent_rows, all = rows + s->frequent_singles;
    memset(v->run, 0, (size_t)all * sizeof *v->run);
    count_times(s->row, s->row_ptr[s->N], rows, v->run);
    count_times(s->single, s->single_ptr[s->N], s->frequent_singles, v->run + rows);
    for (int64_t k = 0; k < all; k++) {
        const int64_t run = v->run[k] > 0 ? 4 * s->N / v->run[k] : FC_RUN;
        v->run[k] = run < LEAST_RUN ? LEAST_RUN : run > FC_RUN ? FC_RUN : run;
        v->left[k] = v->run[k];
    }
}

FC_INLINE void occur(flushes *v, int64_t place, int64_t what) {
    if (--v->left[place] > 0) return;
    v->left[place] = v->run[place];
    if (v->what != NULL) {
        v->after[v->count] = v->tokens;
        v->what[v->count] = (int32_t)what;
    }
    v->count++;
}

static void take_token(flushes *v, int64_t n) {
    const fc_shard *s = v->s;
    v->tokens++;
    for (int64_t k = s->row_ptr[n]; k < s->row_ptr[n + 1]; k++)
        if (s->row[k] < s->frequent_rows) occur(v, s->row[k], s->row[k]);
    for (int64_t k = s->single_ptr[n]; k < s->single_ptr[n + 1]; k++)
        if (s->single[k] < s->frequent_singles)
            occur(v, s->frequent_rows + s->single[k], s->R + s->single[k]);
}

/* Visits the tokens in the order of sweep_abreast. */
static void take_abreast(flushes *v, const fc_machine *machine) {
    const fc_shard *s = v->s;
    const abreast w = {.order = v->order};
    const int64_t most = longest_abreast(machine, s);
    group g;
    by_length(s->B, s->offsets, s->longest, v->order);
    for (int64_t at = 0; at < s->B;) {
        at = next_group(s, &w, at, most, &g);
        for (int64_t t = g.longest - 1; t >= 0; t--)
            for (int64_t l = 0; l < g.n; l++)
                if (t < g.T[l]) take_token(v, g.first[l] + t);
    }
}

fc_status fc_flushes(const fc_machine *machine, const fc_shard *s, int64_t *count, int64_t *after,
                     int32_t *what, int64_t *work) {
    if (!is_full_chain(machine)) return FC_EINVAL;
    flushes v = {.s = s, .order = work, .after = after, .what = what};
    v.run = v.order + s->B + s->longest + 2;
    v.left = v.run + s->frequent_rows + s->frequent_singles;
    choose_runs(&v);
    if (machine->axis->A > 0)
        take_abreast(&v, machine);
    else
        for (int64_t n = 0; n < s->N; n++) take_token(&v, n);
    *count = v.count;
    return FC_OK;
}

#endif
