/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of the kernel for libFuzzer, without Python: ten thousand inputs a second and more. An
 * input is read as choices, sizes and numbers, zeros behind its end; every array has the very size that
 * the contract asks for, so that AddressSanitizer sees one step beyond it. What a caller has to check
 * first (`fc_check_...`) is asked first. FSTCRF_ENTRY says which entry; with FSTCRF_ALONE it is a program
 * of its own. */

#include <math.h>
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fstcrf.h"

static const uint8_t *data;
static size_t left;

/* --- Choices, sizes and numbers
 * ---------------------------------------------------------------- */

static uint64_t take(size_t bytes) {
    uint64_t found = 0;
    const size_t n = bytes < left ? bytes : left;
    if (n > 0) memcpy(&found, data, n);
    data += n;
    left -= n;
    return found;
}

/* A number below a limit of at most 256. */
static int64_t below(int64_t limit) { return limit > 1 ? (int64_t)take(1) % limit : 0; }

static double magnitude; /* of all that was drawn: rounding is a share of it */

static double drawn_value(void) {
    static const double odd[] = {0.0,   -INFINITY, 1e300, -1e300,   5e-324,    1e-300,
                                 700.0, -750.0,    NAN,   INFINITY, -INFINITY, 1.0};
    const uint64_t kind = take(1);
    if (kind < 224) return ((double)kind - 112.0) / 8.0;
    if (kind < 252) return odd[(kind - 224) % (sizeof odd / sizeof *odd)];
    const uint64_t bits = take(8);
    double found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

static double value(void) {
    const double found = drawn_value();
    if (isfinite(found)) magnitude += fabs(found) / 16.0;
    return found;
}

/* Memory of one input. AddressSanitizer's own allocator takes more time than most calls: here pieces lie
 * in one place, and what lies between them and behind them must not be touched. */
enum { GAP = 64 };
static _Alignas(64) uint8_t memory[1 << 22];
static size_t used;

static void *room(int64_t n, size_t size) {
    const size_t bytes = (size_t)n * size, next = used + (bytes + GAP + 15) / 16 * 16;
    if (n < 0 || next > sizeof memory) abort();
    void *found = memory + used;
    ASAN_UNPOISON_MEMORY_REGION(found, bytes);
    used = next;
    return found;
}

static void clear(void) {
    ASAN_POISON_MEMORY_REGION(memory, used);
    used = 0;
}

#define NEW(type, n) ((type *)room(n, sizeof(type)))

static double *values(int64_t n) {
    double *x = NEW(double, n);
    for (int64_t i = 0; i < n; i++) x[i] = value();
    return x;
}

/* Now and then an index that is none. */
static int32_t index_below(int64_t limit) {
    static const int32_t odd[] = {-1, INT32_MAX, INT32_MIN, 255, 65536};
    const uint64_t kind = take(1);
    if (kind < 250) return (int32_t)(kind % (uint64_t)(limit > 0 ? limit : 1));
    return odd[kind - 250 < 5 ? kind - 250 : 0];
}

/* Where parts begin; mostly in order. */
static int64_t *starts(int64_t parts, int64_t total) {
    int64_t *row = NEW(int64_t, parts + 1);
    row[0] = 0;
    for (int64_t i = 1; i < parts; i++) {
        const int64_t more = row[i - 1] + below(1 + 2 * total / (parts ? parts : 1));
        row[i] = more < total ? more : total;
    }
    row[parts] = total;
    if (parts > 0 && take(1) == 255) row[below(parts)] = (int64_t)take(8);
    return row;
}

static double *uniform(int64_t n) {
    double *x = NEW(double, n);
    for (int64_t i = 0; i < n; i++) x[i] = (double)take(1) / 256.0;
    return x;
}

static void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "wrong: %s\n", what);
    abort();
}

/* Best first but for rounding, each path once. */
static void check_paths(int64_t n, int64_t stride, const int32_t *path, const double *score) {
    for (int64_t i = 1; i < n; i++)
        must(score[i] <= score[i - 1] + 1e-11 * magnitude, "paths are not best first");
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            must(memcmp(path + i * stride, path + j * stride, (size_t)stride * sizeof *path) != 0,
                 "a path is there twice");
}

/* --- Acyclic machines
 * -------------------------------------------------------------------------- */

static void acyclic(void) {
    const int64_t S = 1 + below(12), A = below(24), n = 1 + below(6);
    fc_acyclic m = {.S = S, .A = A};
    int64_t where = 0, cycle = 0;
    int64_t *row = starts(S, A);
    int32_t *target = NEW(int32_t, A);
    for (int64_t a = 0; a < A; a++) target[a] = index_below(S);
    if (take(1) % 4) /* in order, as most machines are */
        for (int64_t s = 0; s + 1 < S; s++)
            for (int64_t a = row[s]; a >= 0 && a < A && a < row[s + 1]; a++)
                target[a] = (int32_t)(s + 1 + (target[a] & 7) % (S - s - 1));
    uint8_t *ends = NEW(uint8_t, S), *keep = NEW(uint8_t, S);
    for (int64_t s = 0; s < S; s++) ends[s] = (uint8_t)take(1) & 1;
    fc_topological(S, row, target, NEW(int32_t, S), &cycle, NEW(int32_t, 2 * S), &where);
    fc_connected(S, row, target, index_below(S), ends, keep, NEW(int64_t, S + 1),
                 NEW(int32_t, S + A), &where);
    m.row = row, m.target = target, m.score = values(A), m.final = values(S);
    if (fc_check_acyclic(&m, &where) != FC_OK) return;
    int32_t *shortest = NEW(int32_t, S), *longest = NEW(int32_t, S);
    double *best = NEW(double, S), *sum = NEW(double, S), *node = NEW(double, S);
    double *arc = NEW(double, A), *score = NEW(double, n);
    int64_t length = 0, width = 0, count = 0;
    fc_acyclic_lengths(&m, NULL, shortest, longest);
    for (int64_t s = 0; s < S; s++) width = longest[s] > width ? longest[s] : width;
    fc_acyclic_best_suffix(&m, best);
    fc_acyclic_sum_suffix(&m, sum);
    fc_acyclic_marginals(&m, sum, node, arc);
    fc_acyclic_max_marginals(&m, best, node, arc);
    fc_acyclic_best(&m, best, NEW(int32_t, S - 1), &length);
    int32_t *path = NEW(int32_t, n *width);
    const int64_t steps = n * width, heap = n * (width + 1) + 1;
    const fc_status status = fc_acyclic_nbest(&m, best, n, width, steps, NEW(fc_step, steps), heap,
                                              NEW(fc_deviation, heap), path, score, &count);
    must(status == FC_OK, "there is not enough room for paths");
    check_paths(count, width, path, score);
    fc_acyclic_sample(&m, sum, n, width, uniform(n * width), path, NEW(double, S + A));
}

/* --- Chains and compositions
 * ------------------------------------------------------------------- */

static void draw_axis(fc_axis *a, int64_t S, int64_t N) {
    *a = (fc_axis){.S = S, .contexts = 1, .moving = below(4) == 3};
    if (below(3) == 2) {
        a->A = 1 + below(2 * S + 2);
        int64_t *row = starts(S, a->A);
        int32_t *source = NEW(int32_t, a->A), *target = NEW(int32_t, a->A);
        for (int64_t k = 0; k < a->A; k++) source[k] = 0, target[k] = index_below(S);
        for (int64_t s = 0; s < S; s++)
            for (int64_t k = row[s]; k >= 0 && k < a->A && k < row[s + 1]; k++) {
                source[k] = (int32_t)s; /* mostly in order */
                target[k] = k > row[s] && below(8) ? target[k - 1] + 1 : target[k];
            }
        a->row = row, a->source = source, a->target = target;
    }
    const int64_t arcs = a->A == 0 ? S * S : a->A;
    a->score = values(a->moving ? N * arcs : arcs);
    if (!a->moving && a->A > 0 && below(3) == 2) a->rest = values(1);
}

static fc_residual *draw_residual(int64_t S) {
    fc_residual *r = NEW(fc_residual, 1);
    const int64_t Q = 1 + below(3), E = below(8);
    int32_t *source = NEW(int32_t, E), *target = NEW(int32_t, E);
    int64_t *row = starts(Q, E);
    double *x = NEW(double, E *S), *initial = NEW(double, Q);
    for (int64_t e = 0; e < E; e++) source[e] = 0, target[e] = index_below(Q);
    for (int64_t q = 0; q < Q; q++)
        for (int64_t e = row[q]; e >= 0 && e < E && e < row[q + 1]; e++) source[e] = (int32_t)q;
    for (int64_t i = 0; i < E * S; i++) x[i] = take(1) % 3 ? -INFINITY : value();
    for (int64_t q = 0; q < Q; q++) initial[q] = q ? -INFINITY : 0.0;
    *r = (fc_residual){.Q = Q, .E = E, .rows = 1, .width = S};
    r->row = row, r->source = source, r->target = target;
    r->value = x, r->initial = initial, r->final = values(Q);
    return r;
}

static void ask_machine(const fc_machine *m, int64_t B, const int64_t *offsets) {
    const int64_t N = offsets[B], n = 1 + below(5);
    int64_t longest = 0, where = 0, cells = 0;
    for (int64_t b = 0; b < B; b++)
        longest = offsets[b + 1] - offsets[b] > longest ? offsets[b + 1] - offsets[b] : longest;
    double *work = NEW(double, fc_machine_batch_work(m, B, longest));
    double *log_z = NEW(double, B), *score = NEW(double, B *n);
    int32_t *path = NEW(int32_t, n *N);
    int64_t *count = NEW(int64_t, B);
    double *node[2] = {0}, *arc[2] = {0}, *sum[2] = {0};
    int moving = 0;
    for (int64_t c = 0; c < m->axes; c++) moving |= m->axis[c].moving != 0;
    for (int64_t c = 0; c < m->axes; c++) {
        const fc_axis *a = &m->axis[c];
        cells = a->A == 0 ? a->S * a->S : a->A;
        node[c] = NEW(double, N * a->S), arc[c] = NEW(double, N *cells),
        sum[c] = NEW(double, cells);
    }
    const fc_domain domain = (fc_domain)below(3);
    fc_machine_log_partition(m, B, offsets, domain, log_z, work, &where);
    fc_machine_marginals(m, B, offsets, domain, NULL, log_z, node, below(2) ? arc : NULL,
                         moving ? NULL : sum, below(2) ? score : NULL, work, &where);
    fc_machine_best(m, B, offsets, path, score, work);
    fc_machine_max_marginals(m, B, offsets, node, path, score, NULL, NULL, work);
    fc_machine_dead(m, B, offsets, count, work);
    double *scratch = NEW(double, fc_queue_size(m, n, longest));
    if (fc_machine_nbest(m, B, offsets, n, NULL, INFINITY, path, score, count, work, scratch) ==
        FC_OK)
        for (int64_t b = 0; b < B; b++) {
            int32_t *own = NEW(int32_t, n *(offsets[b + 1] - offsets[b]));
            const int64_t T = offsets[b + 1] - offsets[b];
            for (int64_t k = 0; k < n; k++)
                memcpy(own + k * T, path + k * N + offsets[b], (size_t)T * sizeof *own);
            check_paths(count[b], T, own, score + b * n);
        }
    fc_machine_sample(m, B, offsets, n, uniform(n * N), path, work);
}

static void machines(void) {
    const int64_t axes = 1 + (below(3) == 2), B = 1 + below(4);
    int64_t *offsets = NEW(int64_t, B + 1), where = 0;
    offsets[0] = 0;
    for (int64_t b = 0; b < B; b++) offsets[b + 1] = offsets[b] + 1 + below(6);
    const int64_t N = offsets[B];
    fc_axis axis[2];
    fc_factor factor[2];
    draw_axis(&axis[0], 1 + below(axes == 2 ? 4 : 10), N);
    const int64_t outer = axes == 2 ? axis[0].S : 1;
    if (axes == 2) draw_axis(&axis[1], 1 + below(5), N);
    const int64_t S = axis[axes - 1].S;
    factor[0] = (fc_factor){.rows = 1, .width = S, .moving = 1, .value = values(N * S)};
    if (axes == 2) {
        int32_t *place = NEW(int32_t, outer);
        for (int64_t o = 0; o < outer; o++) place[o] = (int32_t)o;
        factor[1] = (fc_factor){.rows = outer, .width = 1, .moving = 1, .place = place};
        factor[1].value = values(N * outer);
    }
    fc_machine m = {.axes = axes, .factors = axes, .outer = outer, .S = S};
    m.axis = axis, m.factor = factor;
    m.residual = below(3) == 2 ? draw_residual(S) : NULL;
    m.initial = values(outer * S), m.final = values(outer * S);
    if (fc_check_machine(&m, &where) != FC_OK) return;
    for (int64_t c = 0; c < axes; c++) {
        const int64_t arcs = axis[c].A == 0 ? axis[c].S * axis[c].S : axis[c].A;
        if (axis[c].moving && fc_first_invalid(N * arcs, axis[c].score) >= 0) return;
    }
    for (int64_t k = 0; k < axes; k++)
        if (fc_first_invalid(N * factor[k].rows * factor[k].width, factor[k].value) >= 0) return;
    ask_machine(&m, B, offsets);
}

/* --- Scores of labels from anywhere
 * ------------------------------------------------------------ */

static void emissions(void) {
    const int64_t S = 1 + below(9), L = 1 + below(6), B = 1 + below(4), T = 1 + below(6);
    const int wide = below(2) == 0;
    int32_t *label = NEW(int32_t, S);
    int64_t *start = NEW(int64_t, B), *length = NEW(int64_t, B), *place = NEW(int64_t, B),
            where = 0;
    for (int64_t s = 0; s < S; s++) label[s] = index_below(L);
    for (int64_t b = 0; b < B; b++) {
        start[b] = b * T * L + (take(1) == 255 ? (int64_t)take(8) : 0);
        length[b] = take(1) == 255 ? (int64_t)take(8) : below(T + 1);
        place[b] = 0;
    }
    fc_rows rows = {
        .size = B * T * L, .start = start, .stride = L, .length = length, .B = B, .L = L};
    double *x = values(rows.size);
    float *narrow = NEW(float, rows.size);
    for (int64_t i = 0; i < rows.size; i++) narrow[i] = (float)fmax(fmin(x[i], 1e38), -1e38);
    rows.wide = wide ? x : NULL, rows.narrow = wide ? NULL : narrow;
    fc_emitter e = {.S = S, .L = L, .label = label, .arc = values(S * S)};
    e.initial = values(S), e.final = values(S);
    if (fc_check_emissions(&e, &rows, &where) != FC_OK) return;
    int64_t longest = 0, tokens = 0;
    for (int64_t b = 0; b < B; b++) {
        place[b] = tokens, tokens += length[b];
        longest = length[b] > longest ? length[b] : longest;
    }
    double *work = NEW(double, fc_emission_work(&e, longest)), *score = NEW(double, B);
    int32_t *path = NEW(int32_t, B *T);
    fc_emission_best(&e, &rows, 0, B, place, path, score, work, &where);
    fc_emission_sums sums = {.log_z = score, .left = NEW(uint8_t, B), .size = rows.size};
    if (wide)
        sums.wide = NEW(double, rows.size);
    else
        sums.narrow = NEW(float, rows.size);
    sums.start = start, sums.stride = L;
    sums.arc = NEW(double, S *S), sums.begin = NEW(double, S), sums.end = NEW(double, S);
    memset(sums.arc, 0, (size_t)(S * S) * sizeof(double));
    memset(sums.begin, 0, (size_t)S * sizeof(double));
    memset(sums.end, 0, (size_t)S * sizeof(double));
    fc_emission_total(&e, &rows, 0, B, &sums, work, &where);
}

/* --- Sparse rows
 * -------------------------------------------------------------------------------
 */

static void rows(void) {
    const int64_t N = below(8), R = 1 + below(9), W = 8 * (1 + below(2)), entries = below(20);
    const int64_t S = 1 + below(W), M = below(12), least = below(W);
    int64_t where = 0, count = 0, listed = 0;
    int64_t *indptr = starts(N, entries), *cells = NEW(int64_t, M);
    int32_t *index = NEW(int32_t, entries);
    float *x = below(2) ? NEW(float, entries) : NULL;
    for (int64_t k = 0; k < entries; k++) index[k] = index_below(R);
    for (int64_t k = 0; x != NULL && k < entries; k++) x[k] = (float)(below(64) - 32) / 4.0F;
    for (int64_t k = 0; k < M; k++)
        cells[k] = (k ? cells[k - 1] : -1) + 1 + below(12) + (take(1) == 255 ? -20 : 0);
    if (fc_check_rows(N, R, entries, indptr, index, &where) != FC_OK) return;
    fc_gather(N, R, W, indptr, index, x, values(R * W), NEW(double, N *W));
    if (fc_packed_size(R, W, M, cells, least, &count, &listed, &where) != FC_OK) return;
    int32_t *place = NEW(int32_t, R);
    double *table = NEW(double, count *W);
    fc_entry *entry = NEW(fc_entry, listed);
    fc_pack(R, W, M, cells, values(M), least, place, table, entry);
    const fc_packed packed = {.R = R,
                              .W = W,
                              .rows = count,
                              .entries = listed,
                              .place = place,
                              .table = table,
                              .entry = entry};
    fc_gather_packed(N, &packed, indptr, index, x, S, NEW(double, N *S), NEW(double, W));
}

/* --- Texts
 * -------------------------------------------------------------------------------------
 */

static fc_strings draw_strings(const fc_strings *old, int64_t more) {
    fc_strings s = {.room = 4 * (old->count + 1), .space = more + 16, .count = old->count};
    const int64_t used = old->count > 0 ? old->offset[old->count] : 0;
    s.space += 2 * used;
    for (s.slots = 2; s.slots <= 2 * s.room;) s.slots *= 2;
    s.slot = NEW(uint64_t, s.slots), s.offset = NEW(int64_t, s.room + 1);
    s.text = NEW(uint8_t, s.space);
    memset(s.offset, 0, (size_t)(s.room + 1) * sizeof *s.offset);
    if (old->count > 0) {
        memcpy(s.offset, old->offset, (size_t)(old->count + 1) * sizeof *s.offset);
        memcpy(s.text, old->text, (size_t)used);
    }
    int64_t where = 0;
    must(fc_hash_strings(&s, &where) == FC_OK, "a string is there twice");
    return s;
}

static void lines(void) {
    static const char *const separators[] = {"", "\t", " ", "||"}, *const marks[] = {"", "#",
                                                                                     "-D-"};
    const char *separator = separators[below(4)], *mark = marks[below(3)];
    const int64_t C = 1 + below(3);
    fc_strings strings[3];
    const fc_strings none = {0};
    for (int64_t c = 0; c < C; c++) strings[c] = draw_strings(&none, 0);
    const int64_t size = (int64_t)left + 1;
    uint8_t *text = NEW(uint8_t, size);
    memcpy(text, data, left);
    text[left] = '\n';
    fc_lines r = {.size = size, .C = C, .strings = strings};
    for (int64_t i = 0; i < size; i++) r.lines += text[i] == '\n';
    r.text = text;
    r.n_separator = (int64_t)strlen(separator), r.separator = (const uint8_t *)separator;
    r.n_mark = (int64_t)strlen(mark), r.mark = (const uint8_t *)mark;
    r.ids = NEW(int32_t, C *r.lines), r.token_line = NEW(int64_t, r.lines);
    r.start = NEW(int64_t, r.lines), r.blank = NEW(int32_t, r.lines);
    r.header = NEW(int64_t, r.lines);
    fc_status status;
    while ((status = fc_read_lines(&r)) == FC_EFULL && used < sizeof memory / 4)
        for (int64_t c = 0; c < C; c++) strings[c] = draw_strings(&strings[c], size);
    if (status != FC_OK) return;
    fc_column column[3];
    for (int64_t c = 0; c < C; c++)
        column[c] = (fc_column){.count = strings[c].count,
                                .size = strings[c].offset[strings[c].count],
                                .ids = r.ids + c * r.lines,
                                .offset = strings[c].offset,
                                .text = strings[c].text};
    int32_t *breaks = NEW(int32_t, r.tokens);
    for (int64_t n = 0; n < r.tokens; n++) breaks[n] = 0;
    int64_t bytes = 0, where = 0;
    must(fc_rows_size(r.tokens, C, column, 1, breaks, &bytes, &where) == FC_OK, "no rows");
    fc_write_rows(r.tokens, C, column, 1, (const uint8_t *)"\t", breaks, bytes,
                  NEW(uint8_t, bytes));
}

static void words(void) {
    enum { KEYS = 8 };
    const int64_t n = below(KEYS), keys_room = 4 * KEYS;
    uint8_t *keys = NEW(uint8_t, keys_room);
    int64_t *offsets = NEW(int64_t, n + 1), size = 0, where = 0, count = 0, last = 0;
    int32_t *number = NEW(int32_t, n);
    const int64_t entries = 1 + n;
    offsets[0] = 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t length = 1 + below(3);
        for (int64_t i = 0; i < length; i++) keys[offsets[k] + i] = (uint8_t)take(1);
        if (k > 0 && below(8)) keys[offsets[k]] = (uint8_t)(keys[offsets[k - 1]] + 1 + below(4));
        offsets[k + 1] = offsets[k] + length;
        number[k] = (int32_t)(k << 8 | 1);
    }
    const int64_t units_room = 700;
    fc_unit *unit = NEW(fc_unit, units_room);
    uint8_t *used = NEW(uint8_t, units_room);
    memset(unit, 0, (size_t)units_room * sizeof *unit);
    memset(used, 0, (size_t)units_room);
    if (fc_build_trie(n, offsets, keys, number, units_room, unit, used, NEW(int64_t, 4 * (n + 257)),
                      &size, &where) != FC_OK)
        return;
    fc_unit *own =
        NEW(fc_unit, size); /* as a file has it, now and then one that somebody changed */
    memcpy(own, unit, (size_t)size * sizeof *own);
    for (int64_t k = below(4); k > 1 && size > 0; k--) {
        const int64_t place = (int64_t)(take(2) % (uint64_t)size);
        if (k & 1)
            own[place].base = (int32_t)take(4);
        else
            own[place].check = (uint32_t)take(4);
    }
    fc_entry_cost *entry = NEW(fc_entry_cost, entries), *unknown = NEW(fc_entry_cost, 2);
    const int64_t contexts = 1 + below(3);
    for (int64_t k = 0; k < entries; k++)
        entry[k] = (fc_entry_cost){.left = (uint16_t)index_below(contexts),
                                   .right = (uint16_t)index_below(contexts),
                                   .cost = (int16_t)take(2)};
    for (int64_t k = 0; k < 2; k++)
        unknown[k] =
            (fc_entry_cost){.left = (uint16_t)index_below(contexts), .cost = (int16_t)take(2)};
    int16_t *matrix = NEW(int16_t, contexts *contexts);
    for (int64_t k = 0; k < contexts * contexts; k++) matrix[k] = (int16_t)(take(1) - 128);
    uint32_t *character = NEW(uint32_t, 128);
    const uint32_t kinds = (uint32_t)take(4);
    for (int64_t k = 0; k < 128; k++)
        character[k] = kinds ^ (uint32_t)(k == below(128) ? take(4) : 0);
    int64_t *ends = NEW(int64_t, 3);
    ends[0] = 0, ends[1] = 1, ends[2] = 2;
    const fc_dictionary dictionary = {
        .units = size, .entries = entries, .unit = own, .entry = entry};
    const fc_lexicon lexicon = {.dictionaries = 1,
                                .dictionary = &dictionary,
                                .characters = 128,
                                .character = character,
                                .kinds = 2,
                                .unknowns = 2,
                                .first = entries,
                                .unknown = ends,
                                .unknown_entry = unknown,
                                .rights = contexts,
                                .lefts = contexts,
                                .matrix = matrix,
                                .longest_run = 24};
    const int64_t bytes = (int64_t)(left < 48 ? left : 48), room_words = 512;
    uint8_t *text = NEW(uint8_t, bytes), *boundary = NEW(uint8_t, bytes + 1);
    memcpy(text, data, (size_t)bytes);
    for (int64_t i = 0; i <= bytes; i++) boundary[i] = bytes ? text[i % bytes] % 11 == 0 : 0;
    const uint8_t *limits = bytes & 1 ? boundary : NULL;
    int32_t *length = NEW(int32_t, bytes), *found = NEW(int32_t, bytes);
    fc_find_prefixes(size, own, bytes, text, bytes, length, found, &count);
    fc_word *word = NEW(fc_word, room_words);
    fc_find_words(&lexicon, bytes, text, limits, room_words, word, NEW(int32_t, bytes + 1), &count,
                  &last, &where);
    int64_t bounds[2] = {0, bytes}, rows_of[2] = {0, 0}, cost[1], done = 0;
    int32_t *slot = NEW(int32_t, 2 * contexts);
    memset(slot, 0, (size_t)(2 * contexts) * sizeof *slot);
    fc_best_words(&lexicon, 1, bounds, text, limits, room_words, word, NEW(int32_t, bytes + 1),
                  NEW(int32_t, 2 * room_words), slot, rows_of, found, NEW(int32_t, bytes),
                  NEW(int32_t, bytes), cost, &done, &where);
}

/* --- The engine
 * --------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    void (*run)(void);
} entries[] = {{"acyclic", acyclic}, {"machines", machines}, {"emissions", emissions},
               {"rows", rows},       {"lines", lines},       {"words", words}};
static void (*run)(void);

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    const char *wanted = getenv("FSTCRF_ENTRY");
    for (size_t k = 0; k < sizeof entries / sizeof *entries; k++)
        if (wanted != NULL && strcmp(wanted, entries[k].name) == 0) run = entries[k].run;
    if (run == NULL) {
        fprintf(stderr, "FSTCRF_ENTRY names nothing that is here\n");
        exit(2);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const clock_t begun = clock();
    data = bytes, left = size, magnitude = 0.0;
    run();
    clear();
    must((double)(clock() - begun) <= 2.0 * (double)CLOCKS_PER_SEC, "it takes too long");
    return 0;
}

#ifdef FSTCRF_ALONE /* for compilers and machines without libFuzzer: so many   \
                       random inputs */
int main(int argc, char **argv) {
    LLVMFuzzerInitialize(&argc, &argv);
    const long runs = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
    uint64_t x = 88172645463325252u;
    for (long i = 0; i < runs; i++) {
        uint8_t bytes[160];
        for (size_t k = 0; k < sizeof bytes; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            /* potentials that are equal now and then, and few that are odd */
            bytes[k] = (uint8_t)((x >> 40) % 3 ? (x >> 50) % 224 : 104 + (x >> 50) % 3 * 8);
        }
        LLVMFuzzerTestOneInput(bytes, sizeof bytes);
    }
    printf("%ld inputs\n", runs);
    return 0;
}
#endif
