/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs as choices, sizes, numbers and arrays; machines that are made of them. */

#include "input.h"

#include <sanitizer/asan_interface.h>

static const uint8_t *data;
static size_t left;

/* --- Choices, sizes and numbers
 * ---------------------------------------------------------------- */

uint64_t grab(size_t bytes) {
    uint64_t found = 0;
    const size_t n = bytes < left ? bytes : left;
    if (n > 0) memcpy(&found, data, n);
    data += n;
    left -= n;
    return found;
}

/* A number below a limit of at most 256. */
int64_t below(int64_t limit) { return limit > 1 ? (int64_t)grab(1) % limit : 0; }

double magnitude;

static double drawn_value(void) {
    static const double odd[] = {0.0,   -INFINITY, 1e300, -1e300,   5e-324,    1e-300,
                                 700.0, -750.0,    NAN,   INFINITY, -INFINITY, 1.0};
    const uint64_t kind = grab(1);
    if (kind < 224) return ((double)kind - 112.0) / 8.0;
    if (kind < 252) return odd[(kind - 224) % (sizeof odd / sizeof *odd)];
    const uint64_t bits = grab(8);
    double found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

double value(void) {
    const double found = drawn_value();
    if (isfinite(found)) magnitude += fabs(found) / 16.0;
    return found;
}

/* Memory of one input. AddressSanitizer's own allocator takes more time than most calls: here pieces lie
 * in one place, and what lies between them and behind them must not be touched. */
enum { GAP = 64 };
static _Alignas(64) uint8_t memory[ROOM];
static size_t used;

void *room(int64_t n, size_t size) {
    const size_t bytes = (size_t)n * size, next = used + (bytes + GAP + 15) / 16 * 16;
    if (n < 0 || next > sizeof memory) abort();
    void *found = memory + used;
    ASAN_UNPOISON_MEMORY_REGION(found, bytes);
    used = next;
    return found;
}

void input_begin(const uint8_t *bytes, size_t size) {
    static int ready;
    if (!ready) ASAN_POISON_MEMORY_REGION(memory, sizeof memory);
    ready = 1;
    data = bytes, left = size, magnitude = 0.0;
}

void input_end(void) {
    ASAN_POISON_MEMORY_REGION(memory, used);
    used = 0;
}

double *values(int64_t n) {
    double *x = NEW(double, n);
    for (int64_t i = 0; i < n; i++) x[i] = value();
    return x;
}

/* Now and then an index that is none. */
int32_t index_below(int64_t limit) {
    static const int32_t odd[] = {-1, INT32_MAX, INT32_MIN, 255, 65536};
    const uint64_t kind = grab(1);
    if (kind < 250) return (int32_t)(kind % (uint64_t)(limit > 0 ? limit : 1));
    return odd[kind - 250 < 5 ? kind - 250 : 0];
}

/* Where parts begin; mostly in order. */
int64_t *starts(int64_t parts, int64_t total) {
    int64_t *row = NEW(int64_t, parts + 1);
    row[0] = 0;
    for (int64_t i = 1; i < parts; i++) {
        const int64_t more = row[i - 1] + below(1 + 2 * total / (parts ? parts : 1));
        row[i] = more < total ? more : total;
    }
    row[parts] = total;
    if (parts > 0 && grab(1) == 255) row[below(parts)] = (int64_t)grab(8);
    return row;
}

int64_t *counted_starts(int64_t parts, int64_t total) {
    int64_t *row = starts(parts, total);
    if (grab(1) == 255) row[parts] = grab(1) % 2 ? total + 1 : (int64_t)grab(8);
    return row;
}

const uint8_t *input_rest(size_t *size) {
    *size = left;
    return data;
}

size_t room_used(void) { return used; }

double *finite_values(int64_t n) {
    double *x = NEW(double, n);
    for (int64_t i = 0; i < n; i++) x[i] = (double)(below(128) - 64) / 8.0;
    return x;
}

float *narrow_values(int64_t n) {
    float *x = NEW(float, n);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(below(128) - 64) / 8.0F;
    return x;
}

int32_t *indices(int64_t n, int64_t limit) {
    int32_t *x = NEW(int32_t, n);
    for (int64_t i = 0; i < n; i++) x[i] = index_below(limit);
    return x;
}

uint8_t *bits(int64_t n) {
    uint8_t *x = NEW(uint8_t, n);
    for (int64_t i = 0; i < n; i++) x[i] = (uint8_t)grab(1) & 1;
    return x;
}

int64_t *sentences(int64_t B, int64_t most) {
    int64_t *offsets = NEW(int64_t, B + 1);
    offsets[0] = 0;
    for (int64_t b = 0; b < B; b++) offsets[b + 1] = offsets[b] + 1 + below(most);
    return offsets;
}

int64_t longest_sentence(int64_t B, const int64_t *offsets) {
    int64_t longest = 0;
    for (int64_t b = 0; b < B; b++)
        longest = offsets[b + 1] - offsets[b] > longest ? offsets[b + 1] - offsets[b] : longest;
    return longest;
}

double *uniform(int64_t n) {
    double *x = NEW(double, n);
    for (int64_t i = 0; i < n; i++) x[i] = (double)grab(1) / 256.0;
    return x;
}

void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "wrong: %s\n", what);
    abort();
}

/* Best first but for rounding, each path once. */
void check_paths(int64_t n, int64_t stride, const int32_t *path, const double *score) {
    for (int64_t i = 1; i < n; i++)
        must(score[i] <= score[i - 1] + 1e-11 * magnitude, "paths are not best first");
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            must(memcmp(path + i * stride, path + j * stride, (size_t)stride * sizeof *path) != 0,
                 "a path is there twice");
}

/* --- Machines
 * ------------------------------------------------------------------------------------ */

/* One more, or 0 where there is no such number. */
static int32_t after(int32_t x) { return x < INT32_MAX ? x + 1 : 0; }

void draw_axis(fc_axis *a, int64_t S, int64_t N, int kinds) {
    *a = (fc_axis){.S = S, .contexts = 1, .moving = kinds & MAY_MOVE ? below(4) == 3 : 0};
    if ((kinds & MAY_BE_SPARSE) && below(3) == 2) {
        a->A = 1 + below(2 * S + 2);
        int64_t *row = counted_starts(S, a->A);
        int32_t *source = NEW(int32_t, a->A), *target = NEW(int32_t, a->A);
        for (int64_t k = 0; k < a->A; k++) source[k] = 0, target[k] = index_below(S);
        for (int64_t s = 0; s < S; s++)
            for (int64_t k = row[s]; k >= 0 && k < a->A && k < row[s + 1]; k++) {
                source[k] = (int32_t)s; /* mostly in order */
                target[k] = k > row[s] && below(8) ? after(target[k - 1]) : target[k];
            }
        a->row = row, a->source = source, a->target = target;
    }
    const int64_t arcs = a->A == 0 ? S * S : a->A;
    a->score = values(a->moving ? N * arcs : arcs);
    if ((kinds & MAY_REST) && !a->moving && a->A > 0 && below(3) == 2) a->rest = values(1);
}

static fc_residual *draw_residual(int64_t S) {
    fc_residual *r = NEW(fc_residual, 1);
    const int64_t Q = 1 + below(3), E = below(8);
    int32_t *source = NEW(int32_t, E), *target = NEW(int32_t, E);
    int64_t *row = counted_starts(Q, E);
    double *x = NEW(double, E *S), *initial = NEW(double, Q);
    for (int64_t e = 0; e < E; e++) source[e] = 0, target[e] = index_below(Q);
    for (int64_t q = 0; q < Q; q++)
        for (int64_t e = row[q]; e >= 0 && e < E && e < row[q + 1]; e++) source[e] = (int32_t)q;
    for (int64_t i = 0; i < E * S; i++) x[i] = grab(1) % 3 ? -INFINITY : value();
    for (int64_t q = 0; q < Q; q++) initial[q] = q ? -INFINITY : 0.0;
    *r = (fc_residual){.Q = Q, .E = E, .rows = 1, .width = S};
    r->row = row, r->source = source, r->target = target;
    r->value = x, r->initial = initial, r->final = values(Q);
    return r;
}

/* Potentials that move are checked by who draws them, as callers do. */
static int potentials_ok(const fc_machine *m, int64_t N) {
    for (int64_t c = 0; c < m->axes; c++) {
        const fc_axis *a = &m->axis[c];
        const int64_t arcs = a->A == 0 ? a->S * a->S : a->A;
        if (a->moving && fc_first_invalid(N * arcs, a->score) >= 0) return 0;
    }
    for (int64_t k = 0; k < m->factors; k++) {
        const fc_factor *f = &m->factor[k];
        if (fc_first_invalid(N * f->rows * f->width, f->value) >= 0) return 0;
    }
    return 1;
}

static fc_factor moving_factor(int64_t rows, int64_t width, int64_t N) {
    return (fc_factor){
        .rows = rows, .width = width, .moving = 1, .value = values(N * rows * width)};
}

int draw_chain(fc_machine *m, int64_t S, int64_t N, int kinds) {
    int64_t where = 0;
    fc_axis *axis = NEW(fc_axis, 1);
    fc_factor *factor = NEW(fc_factor, 1);
    draw_axis(axis, S, N, kinds);
    *factor = moving_factor(1, S, N);
    *m = (fc_machine){.axes = 1, .factors = 1, .outer = 1, .S = S, .axis = axis, .factor = factor};
    m->initial = values(S), m->final = values(S);
    return fc_check_machine(m, &where) == FC_OK && potentials_ok(m, N);
}

int draw_machine(fc_machine *m, int64_t N) {
    const int64_t axes = 1 + (below(3) == 2), all = MAY_MOVE | MAY_BE_SPARSE | MAY_REST;
    int64_t where = 0;
    fc_axis *axis = NEW(fc_axis, 2);
    fc_factor *factor = NEW(fc_factor, 2);
    draw_axis(&axis[0], 1 + below(axes == 2 ? 4 : 10), N, (int)all);
    const int64_t outer = axes == 2 ? axis[0].S : 1;
    if (axes == 2) draw_axis(&axis[1], 1 + below(5), N, (int)all);
    const int64_t S = axis[axes - 1].S;
    factor[0] = moving_factor(1, S, N);
    if (axes == 2) {
        int32_t *place = NEW(int32_t, outer);
        for (int64_t o = 0; o < outer; o++) place[o] = (int32_t)o;
        factor[1] = moving_factor(outer, 1, N);
        factor[1].place = place;
    }
    *m = (fc_machine){.axes = axes, .factors = axes, .outer = outer, .S = S};
    m->axis = axis, m->factor = factor;
    m->residual = below(3) == 2 ? draw_residual(S) : NULL;
    m->initial = values(outer * S), m->final = values(outer * S);
    return fc_check_machine(m, &where) == FC_OK && potentials_ok(m, N);
}
