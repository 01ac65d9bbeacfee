/* SPDX-License-Identifier: Apache-2.0
 *
 * The attributes of tokens: string ids, packed into keys, looked up.
 *
 * An attribute of one family is a tuple of string ids, packed with the first term highest:
 *
 *   key = (((c_1 << w_2) | c_2) << w_3) | c_3 ...          c_m = code[column_m][token + offset_m]
 *
 * Waiting for memory is most of the cost of a lookup, and the waits of different lookups are
 * independent. So a run of tokens is processed twice for all families: first to make the keys and
 * prefetch their slots, then to read them. */

#include "checks.h"
#include "slots.h"
#include "vec.h"

#define RUN 256     /* tokens */
#define TOGETHER 16 /* families; the slots of a run stay in the first-level cache */

/* A run of tokens: first .. first + size - 1, or tokens of a list, with the number of tokens before and
 * after each in its sentence. */
typedef struct {
    int64_t first, size;
    const int64_t *token; /* NULL, or listed tokens, whose own codes are in a separate array */
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

/* String ids: [K][stride], of the tokens begin .. end - 1; own: [K][M] ids of the listed tokens. */
typedef struct {
    const int32_t *code, *own;
    int64_t stride, M, begin, end;
} all_codes;

/* Codes of one term at successive tokens; -1 outside the batch. */
FC_INLINE void successive(const run *r, const fc_term *term, const all_codes *codes,
                          int32_t *restrict c) {
    const int32_t *code = codes->code + term->column * codes->stride;
    const int64_t from = r->first + term->offset;
    const int64_t lowest = from < codes->begin ? codes->begin - from : 0;
    const int64_t highest = from + r->size > codes->end ? codes->end - from : r->size;
    for (int64_t i = 0; i < lowest && i < r->size; i++) c[i] = -1;
    for (int64_t i = lowest; i < highest; i++) c[i] = code[from + i];
    for (int64_t i = highest > 0 ? highest : 0; i < r->size; i++) c[i] = -1;
}

/* The same at listed tokens; arbitrary outside the sentence. */
FC_INLINE void listed(const run *r, const fc_term *term, const all_codes *codes,
                      const int32_t *margin, int32_t step, int32_t *restrict c) {
    const int32_t *code = codes->code + term->column * codes->stride + term->offset;
    const int32_t *own = codes->own + term->column * codes->M + r->first;
    for (int64_t i = 0; i < r->size; i++)
        c[i] = step == 0 ? own[i] : margin[i] >= step ? code[r->token[i]] : -1;
}

/* Appends the codes of one term to the keys; `absent` becomes negative if the code is missing. Codes
 * outside the sentence: the pads before it have the numbers 0, 1, .. by distance, the pads after it
 * follow from `reach` on. */
FC_INLINE void append(const run *r, const fc_term *term, const all_codes *codes, int64_t reach,
                      uint64_t *restrict key, int32_t *restrict absent) {
    const int32_t step = (int32_t)(term->offset < 0 ? -term->offset : term->offset);
    const int32_t *margin = term->offset < 0 ? r->before : r->after;
    const int32_t pad = (int32_t)(term->offset < 0 ? 0 : reach) + step - 1;
    const int32_t drop = term->pads ? 0 : -1; /* or'ed to codes outside the sentence */
    int32_t c[RUN];
    if (r->token == NULL) {
        successive(r, term, codes, c);
    } else {
        listed(r, term, codes, margin, step, c);
    }
    for (int64_t i = 0; i < r->size; i++)
        c[i] = margin[i] >= step ? c[i] : ((pad - margin[i]) | drop);
    for (int64_t i = 0; i < r->size; i++) {
        absent[i] |= c[i];
        key[i] = key[i] << term->width | (uint32_t)c[i];
    }
}

/* Excludes tokens at which the family does not fire. */
FC_INLINE void restrain(const run *r, fc_firing firing, int32_t *restrict absent) {
    for (int64_t i = 0; i < r->size; i++) {
        const int32_t first = r->before[i] == 0, last = r->after[i] == 0;
        absent[i] = -(firing == FC_FIRST   ? !first
                      : firing == FC_LAST  ? !last
                      : firing == FC_INNER ? first
                                           : 0);
    }
}

/* The row of a key in sorted lists; in bounds even if these are damaged. */
static int32_t listed_row(const fc_family *f, uint64_t key) {
    const uint64_t *from = f->key;
    if (f->size == 0) return -1;
    for (int64_t n = f->size; n > 1; n -= n / 2) from += from[n / 2] <= key ? n / 2 : 0;
    return *from == key ? f->row[from - f->key] : -1;
}

FC_INLINE int32_t row_of(const fc_family *f, uint64_t key) {
    if (f->direct != NULL) return key < (uint64_t)f->size ? f->direct[key] : -1;
    if (f->slot == NULL) return listed_row(f, key);
    return (int32_t)row_in_slots(f->slot, f->size, f->shift, key);
}

FC_INLINE void ask(const fc_family *f, uint64_t key) {
    if (f->direct != NULL)
        __builtin_prefetch(f->direct + (key < (uint64_t)f->size ? key : 0));
    else if (f->slot != NULL)
        __builtin_prefetch(f->slot + home(key, f->shift));
}

/* Rows of the families at the tokens of a run: all of its keys, then all of its slots. */
static void find_run(const run *r, const all_codes *codes, int64_t reach, int64_t F,
                     const fc_family *families, int32_t *rows) {
    for (int64_t f0 = 0; f0 < F; f0 += TOGETHER) {
        const int64_t n = F - f0 < TOGETHER ? F - f0 : TOGETHER;
        uint64_t key[TOGETHER][RUN];
        int32_t absent[TOGETHER][RUN];
        for (int64_t k = 0; k < n; k++) {
            const fc_family *f = families + f0 + k;
            restrain(r, f->firing, absent[k]);
            for (int64_t i = 0; i < r->size; i++) key[k][i] = 0;
            for (int64_t m = 0; m < f->M; m++)
                append(r, f->term + m, codes, reach, key[k], absent[k]);
            for (int64_t i = 0; i < r->size; i++) ask(f, key[k][i]);
        }
        for (int64_t k = 0; k < n; k++) {
            int32_t *to = rows + f0 + k;
            for (int64_t i = 0; i < r->size; i++)
                to[i * F] = absent[k][i] < 0 ? -1 : row_of(families + f0 + k, key[k][i]);
        }
    }
}

/* Drops the entries of rows [N][F] that are -1, in place. */
static void compact(int64_t N, int64_t F, int32_t *rows, int64_t *indptr) {
    int64_t at = indptr[0] = 0;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            const int32_t row = rows[n * F + f];
            rows[at] = row;
            at += row >= 0;
        }
        indptr[n + 1] = at;
    }
}

static fc_status check_families(int64_t K, int64_t reach, int64_t F, const fc_family *families,
                                int64_t *where) {
    for (int64_t f = 0; f < F; f++) {
        const fc_family *family = families + f;
        if (family->slot != NULL && (family->shift < 1 || family->shift > 63 ||
                                     family->size != (int64_t)1 << (64 - family->shift)))
            return fail(FC_EINVAL, f, where);
        const int lists = family->size == 0 || (family->key != NULL && family->row != NULL);
        if (family->size < 0 || (family->direct == NULL && family->slot == NULL && !lists))
            return fail(FC_EINVAL, f, where);
        for (int64_t m = 0; m < family->M; m++) {
            const fc_term *term = family->term + m;
            if (term->column < 0 || term->column >= K || term->width < 0 || term->width > 63 ||
                (term->pads && reach < (term->offset < 0 ? -term->offset : term->offset)))
                return fail(FC_EINVAL, f, where);
        }
    }
    return FC_OK;
}

fc_status fc_find_rows(int64_t B, const int64_t *offsets, int64_t K, int64_t stride,
                       const int32_t *codes, int64_t reach, int64_t F, const fc_family *families,
                       int32_t *rows, int64_t *indptr, int64_t *where) {
    *where = 0;
    if (B < 0 || reach < 0 || offsets[0] < 0 || offsets[B] > stride) return FC_EINVAL;
    for (int64_t b = 0; b < B; b++)
        if (offsets[b] > offsets[b + 1]) return fail(FC_EINVAL, b, where);
    const fc_status status = check_families(K, reach, F, families, where);
    if (status != FC_OK) return status;
    const all_codes all = {.code = codes, .stride = stride, .begin = offsets[0], .end = offsets[B]};
    int64_t sentence = 0;
    run r = {.token = NULL};
    for (r.first = all.begin; r.first < all.end; r.first += RUN) {
        r.size = all.end - r.first < RUN ? all.end - r.first : RUN;
        measure(&r, offsets, &sentence);
        find_run(&r, &all, reach, F, families, rows + (r.first - all.begin) * F);
    }
    if (indptr != NULL) compact(all.end - all.begin, F, rows, indptr);
    return FC_OK;
}

fc_status fc_find_rows_at(int64_t M, const int64_t *token, const int32_t *before,
                          const int32_t *after, const int32_t *own, int64_t K, int64_t stride,
                          const int32_t *codes, int64_t reach, int64_t F, const fc_family *families,
                          int32_t *rows, int64_t *indptr, int64_t *where) {
    *where = 0;
    if (M < 0 || reach < 0) return FC_EINVAL;
    for (int64_t i = 0; i < M; i++)
        if (token[i] < 0 || token[i] >= stride || before[i] < 0 || before[i] > token[i] ||
            after[i] < 0 || after[i] >= stride - token[i])
            return fail(FC_EINVAL, i, where);
    const fc_status status = check_families(K, reach, F, families, where);
    if (status != FC_OK) return status;
    const all_codes all = {.code = codes, .own = own, .stride = stride, .M = M};
    run r;
    for (r.first = 0; r.first < M; r.first += RUN) {
        r.size = M - r.first < RUN ? M - r.first : RUN;
        r.token = token + r.first;
        memcpy(r.before, before + r.first, (size_t)r.size * sizeof *before);
        memcpy(r.after, after + r.first, (size_t)r.size * sizeof *after);
        find_run(&r, &all, reach, F, families, rows + r.first * F);
    }
    if (indptr != NULL) compact(M, F, rows, indptr);
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

fc_status fc_check_keys(int64_t n, const uint64_t *key, int64_t M, const int64_t *width,
                        const int64_t *limit, int64_t *where) {
    int64_t bits = 0;
    *where = 0;
    if (n < 0 || M < 0) return FC_EINVAL;
    for (int64_t m = 0; m < M; m++) {
        if (width[m] < 0 || width[m] > 63 || limit[m] < 0) return fail(FC_EINVAL, m, where);
        bits += width[m];
    }
    if (bits > 63) return FC_EINVAL;
    for (int64_t k = 1; k < n; k++)
        if (key[k] <= key[k - 1]) return fail(FC_EINVAL, k, where);
    if (M > 0 && n > 0 && key[n - 1] >> bits) return fail(FC_EINVAL, n - 1, where);
    int64_t shift = 0;
    for (int64_t m = M - 1; m >= 0; shift += width[m--]) {
        const uint64_t mask = ((uint64_t)1 << width[m]) - 1, end = (uint64_t)limit[m];
        int64_t beyond = 0;
        for (int64_t k = 0; k < n; k++) beyond += (key[k] >> shift & mask) >= end;
        if (beyond) return fail(FC_EINVAL, m, where);
    }
    return FC_OK;
}
