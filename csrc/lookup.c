/* SPDX-License-Identifier: Apache-2.0
 *
 * The attributes of tokens: numbers of strings, packed into keys, looked up.
 *
 * An attribute of one family is a tuple of string numbers, packed first term highest:
 *
 *   key = (((c_1 << w_2) | c_2) << w_3) | c_3 ...          c_m = code[column_m][token + offset_m]
 *
 * Waiting for memory is most of the cost of a lookup, and the waits of different lookups are
 * independent. So a run of tokens is taken through all families twice: once to make the keys and to
 * ask for their slots, once to read them. */

#include "checks.h"
#include "vec.h"

#define RUN 256     /* tokens */
#define TOGETHER 16 /* families; the places of a run stay in the first-level cache */

/* Fibonacci hashing: the highest bits of key / golden ratio. */
FC_INLINE uint64_t home(uint64_t key, int64_t shift) {
    return ((key ^ (key >> 31)) * 0x9E3779B97F4A7C15u) >> shift;
}

/* A run: tokens first .. first + size - 1, and how many tokens of its sentence stand before and
 * after each of them. */
typedef struct {
    int64_t first, size;
    int32_t before[RUN], after[RUN];
} run;

static void measure(run *r, const int64_t *offsets, int64_t *sentence) {
    for (int64_t i = 0; i < r->size; i++) {
        const int64_t n = r->first + i;
        while (n >= offsets[*sentence + 1]) ++*sentence;
        r->before[i] = (int32_t)(n - offsets[*sentence]);
        r->after[i] = (int32_t)(offsets[*sentence + 1] - 1 - n);
    }
}

/* Appends the codes of one term to the keys; `absent` gets a negative number where there is none.
 * Codes outside the sentence: the pads before it have the numbers 0, 1, .. by distance, those
 * behind it follow from `reach` on. Tokens of the batch are first_of_all .. end_of_all - 1. */
FC_INLINE void append(const run *r, const fc_term *term, const int32_t *code, int64_t reach,
                      int64_t first_of_all, int64_t end_of_all, uint64_t *restrict key,
                      int32_t *restrict absent) {
    const int32_t step = (int32_t)(term->offset < 0 ? -term->offset : term->offset);
    const int32_t *margin = term->offset < 0 ? r->before : r->after;
    const int32_t pad = (int32_t)(term->offset < 0 ? 0 : reach) + step - 1;
    const int32_t drop = term->pads ? 0 : -1; /* or'ed to what is outside */
    const int64_t from = r->first + term->offset;
    const int64_t lowest = from < first_of_all ? first_of_all - from : 0;
    const int64_t highest = from + r->size > end_of_all ? end_of_all - from : r->size;
    int32_t c[RUN];
    for (int64_t i = 0; i < lowest && i < r->size; i++) c[i] = -1;
    for (int64_t i = lowest; i < highest; i++) c[i] = code[from + i];
    for (int64_t i = highest > 0 ? highest : 0; i < r->size; i++) c[i] = -1;
    for (int64_t i = 0; i < r->size; i++)
        c[i] = margin[i] >= step ? c[i] : ((pad - margin[i]) | drop);
    for (int64_t i = 0; i < r->size; i++) {
        absent[i] |= c[i];
        key[i] = key[i] << term->width | (uint32_t)c[i];
    }
}

/* Where a family has attributes at all. */
FC_INLINE void restrain(const run *r, fc_firing firing, int32_t *restrict absent) {
    for (int64_t i = 0; i < r->size; i++) {
        const int32_t first = r->before[i] == 0, last = r->after[i] == 0;
        absent[i] = -(firing == FC_FIRST   ? !first
                      : firing == FC_LAST  ? !last
                      : firing == FC_INNER ? first
                                           : 0);
    }
}

FC_INLINE int32_t row_of(const fc_family *f, uint64_t key) {
    if (f->direct != NULL) return key < (uint64_t)f->size ? f->direct[key] : -1;
    const uint64_t mask = (uint64_t)f->size - 1;
    uint64_t i = home(key, f->shift);
    while (f->slot[i].row >= 0 && f->slot[i].key != key) i = (i + 1) & mask;
    return (int32_t)f->slot[i].row;
}

FC_INLINE void ask(const fc_family *f, uint64_t key) {
    if (f->direct != NULL)
        __builtin_prefetch(f->direct + (key < (uint64_t)f->size ? key : 0));
    else
        __builtin_prefetch(f->slot + home(key, f->shift));
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
    const int64_t begin = offsets[0], end = offsets[B];
    int64_t sentence = 0;
    run r;
    for (r.first = begin; r.first < end; r.first += RUN) {
        r.size = end - r.first < RUN ? end - r.first : RUN;
        measure(&r, offsets, &sentence);
        for (int64_t f0 = 0; f0 < F; f0 += TOGETHER) {
            const int64_t n = F - f0 < TOGETHER ? F - f0 : TOGETHER;
            uint64_t key[TOGETHER][RUN];
            int32_t absent[TOGETHER][RUN];
            for (int64_t k = 0; k < n; k++) {
                const fc_family *f = families + f0 + k;
                restrain(&r, f->firing, absent[k]);
                for (int64_t i = 0; i < r.size; i++) key[k][i] = 0;
                for (int64_t m = 0; m < f->M; m++)
                    append(&r, f->term + m, codes + f->term[m].column * stride, reach, begin, end,
                           key[k], absent[k]);
                for (int64_t i = 0; i < r.size; i++) ask(f, key[k][i]);
            }
            for (int64_t k = 0; k < n; k++) {
                int32_t *to = rows + (r.first - begin) * F + f0 + k;
                for (int64_t i = 0; i < r.size; i++)
                    to[i * F] = absent[k][i] < 0 ? -1 : row_of(families + f0 + k, key[k][i]);
            }
        }
    }
    return FC_OK;
}

fc_status fc_fill_slots(int64_t n, const uint64_t *key, const int32_t *row, int64_t size,
                        int64_t shift, fc_slot *slot) {
    if (n < 0 || shift < 1 || shift > 63 || size != (int64_t)1 << (64 - shift) || n >= size)
        return FC_EINVAL;
    const uint64_t mask = (uint64_t)size - 1;
    for (int64_t i = 0; i < size; i++) slot[i] = (fc_slot){0, -1};
    for (int64_t k = 0; k < n; k++) {
        uint64_t i = home(key[k], shift);
        while (slot[i].row >= 0) i = (i + 1) & mask;
        slot[i] = (fc_slot){key[k], row[k]};
    }
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
