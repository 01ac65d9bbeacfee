/* SPDX-License-Identifier: Apache-2.0
 *
 * Open spans, as segments.c follows them. An open span has weights only in the cells of its type. Spans
 * are stored side by side, a *lane* each: cells x lanes. A step is then a few rows of multiplications,
 * for any number of open spans. Rows are scaled with F, of which they are parts: a term that underflows
 * in them has no share of Z. */
#ifndef FSTCRF_LANES_H
#define FSTCRF_LANES_H

#include "recursion.h"

/* Sums have rounding errors: a span is dropped a little below the floor. */
#define SLACK (1.0 - 1e-9)

typedef struct {
    const fc_segments *labels;
    int64_t W;             /* lanes of a type */
    int64_t cells;         /* of all types */
    int64_t *count, *base; /* [types] cells of a type, and the first of them */
    int64_t *cell, *spot;  /* [cells] their places in a tensor, and in a plane */
    uint8_t *ends;         /* [cells] a span may end there */
    int64_t *states;       /* [types + 1] the states of a type: mine[states[k]] ... */
    int64_t *mine;         /* [S] */
    int64_t *into;         /* [S + 1] continuing arcs into the states of `mine` */
    int64_t *from, *to; /* [arcs that carry] their source and target among the states of the type */
    int64_t *arc, *back; /* [arcs that carry] positions of their weights, and of the transposed ones
                               */
    int64_t *leave, *order; /* [S + 1], [arcs that carry] the same by their sources */
    double *along;          /* [arcs that carry] their weights at a token, one axis */
    double *shut, *on;      /* [S] shares of spans that end in a state, and that continue from it */
    double *x, *y;          /* [cells][W] lanes, and scratch */
    double *kept;           /* [cells][W] or in memory, if lanes persist from block to block */
    int64_t *open, *likely; /* [types] lanes in use; whether spans may begin at a token */
    int64_t *start;         /* [types][W] first tokens */
    int64_t *next, *stop;   /* [types][W] given spans that begin there */
    double *before, *begun; /* [full] F and U of new spans */
    double *value, *mass;   /* [W] shares of lanes: that end, that continue */
    double *token;          /* [full] the spans that close at a token */
    double *read, *ahead;   /* [full] F' and the next F */
    double *begin, *close,
        *turned;    /* weights of the opening arcs, and of the arcs that do not carry */
    uint8_t *only;  /* [S] all arcs into a state of `mine` open a span or carry one */
    int64_t cursor; /* of the spans asked for */
} follower;

static int64_t *take_longs(double **work, int64_t n) { return (int64_t *)take(work, n); }

/* Lays out the memory that persists from block to block. */
static int64_t lay_out_lanes(follower *s, const tensor *m, const fc_segments *labels, int64_t lanes,
                             double *memory) {
    double *const start = memory;
    const int64_t types = labels->types, S = m->axis[labels->axis].S;
    int64_t states = 0;
    for (int64_t i = 0; i < S; i++) states += labels->type[i] >= 0;
    s->labels = labels;
    lanes = fc_padded(lanes);
    s->W = lanes;
    s->cells = m->Q * m->outer * m->S / S * states;
    s->open = take_longs(&memory, types);
    s->start = take_longs(&memory, types * lanes);
    s->next = take_longs(&memory, types * lanes);
    s->stop = take_longs(&memory, types * lanes);
    s->before = take(&memory, m->full);
    s->begun = take(&memory, m->full);
    s->x = s->kept = take(&memory, s->cells * lanes);
    return memory - start;
}

static int64_t lay_out_scratch(follower *s, const tensor *m, double *work) {
    double *const start = work;
    const int64_t types = s->labels->types;
    const loaded_axis *a = &m->axis[s->labels->axis];
    const int64_t weights = a->axis->contexts * a->size;
    int64_t carries = 0;
    for (int64_t k = 0; k < a->arcs; k++) carries += s->labels->arc[k] == FC_CARRIES;
    int64_t **types_of[] = {&s->count, &s->likely, &s->base, &s->states};
    for (int k = 0; k < 4; k++) *types_of[k] = take_longs(&work, types + 1);
    s->cell = take_longs(&work, s->cells);
    s->spot = take_longs(&work, s->cells);
    s->ends = (uint8_t *)take(&work, s->cells / 8 + 1);
    int64_t **states[] = {&s->mine, &s->into, &s->leave};
    for (int k = 0; k < 3; k++) *states[k] = take_longs(&work, a->S + 1);
    s->shut = take(&work, a->S);
    s->on = take(&work, a->S);
    s->along = take(&work, carries);
    int64_t **arcs[] = {&s->from, &s->to, &s->arc, &s->back, &s->order};
    for (int k = 0; k < 5; k++) *arcs[k] = take_longs(&work, carries);
    s->y = take(&work, s->cells * s->W);
    s->value = take(&work, s->W);
    s->mass = take(&work, s->W);
    double **full[] = {&s->token, &s->read, &s->ahead};
    for (int k = 0; k < 3; k++) *full[k] = take(&work, m->full);
    double **tables[] = {&s->begin, &s->close, &s->turned};
    for (int k = 0; k < 3; k++) *tables[k] = take(&work, weights);
    s->only = (uint8_t *)take(&work, a->S / 8 + 1);
    return work - start;
}

FC_INLINE int64_t place_of(const follower *s, const int64_t *local, int64_t state) {
    return s->states[s->labels->type[state]] + local[state];
}

/* The next carrying arc from k on; the number of arcs if no such arc follows. */
FC_INLINE int64_t next_carrying(const follower *s, const loaded_axis *a, int64_t k) {
    const uint8_t *kind = s->labels->arc;
    const uint8_t *found = memchr(kind + k, FC_CARRIES, (size_t)(a->arcs - k));
    return found == NULL ? a->arcs : found - kind;
}

/* Bounds of groups from the size of each: ends first, which become starts as the groups are filled. */
FC_INLINE void add_up(int64_t n, int64_t *bounds) {
    for (int64_t i = 0, sum = 0; i <= n; i++) bounds[i] = sum += bounds[i];
}

/* Sorts the carrying arcs by their targets, in the order of `mine`: into[i] ... into[i + 1] - 1; and
 * their numbers by their sources. */
static void sort_arcs(follower *s, const loaded_axis *a, int64_t P, const int64_t *local) {
    const int64_t n = s->states[s->labels->types], S = a->S;
    for (int64_t i = 0; i <= n; i++) s->into[i] = s->leave[i] = 0;
    for (int64_t pass = 0; pass < 2; pass++) {
        for (int64_t k = next_carrying(s, a, 0); k < a->arcs; k = next_carrying(s, a, k + 1)) {
            const int64_t i = a->dense ? k / S : a->axis->source[k];
            const int64_t j = a->dense ? k % S : a->axis->target[k];
            const int64_t from = place_of(s, local, i), to = place_of(s, local, j);
            if (pass == 0) {
                s->into[to]++;
                s->leave[from]++;
                continue;
            }
            const int64_t place = --s->into[to];
            s->order[--s->leave[from]] = place;
            s->from[place] = local[i];
            s->to[place] = local[j];
            s->arc[place] = a->dense && a->last ? i * P + j : k;
            s->back[place] = j * P + i;
        }
        if (pass == 0) {
            add_up(n, s->into);
            add_up(n, s->leave);
        }
    }
}

/* s->only: states into which all arcs open a span or carry one; `other` [S] is scratch. */
static void find_only(follower *s, const loaded_axis *a, uint8_t *restrict other) {
    const int64_t n = s->states[s->labels->types], S = a->S;
    memset(other, 0, (size_t)S);
    for (int64_t i = 0; a->dense && i < S; i++) {
        const uint8_t *restrict kind = s->labels->arc + i * S;
        for (int64_t j = 0; j < S; j++) other[j] |= kind[j] == 0;
    }
    for (int64_t k = 0; !a->dense && k < a->arcs; k++)
        other[a->axis->target[k]] |= s->labels->arc[k] == 0;
    for (int64_t i = 0; i < n; i++) s->only[i] = !other[s->mine[i]];
}

/* Sorts states by type, and carrying arcs; `local` [S] is scratch. */
static void sort_states(follower *s, const loaded_axis *a, int64_t P, int64_t *local) {
    const fc_segments *g = s->labels;
    int64_t n = 0;
    for (int64_t k = 0; k < g->types; k++) {
        s->states[k] = n;
        for (int64_t i = 0; i < a->S; i++)
            if (g->type[i] == k) {
                local[i] = n - s->states[k];
                s->mine[n++] = i;
            }
    }
    s->states[g->types] = n;
    sort_arcs(s, a, P, local);
    find_only(s, a, (uint8_t *)local);
}

/* Lists the cells of each type: the tensor restricted to the states of the type on the axis. */
static void list_cells(follower *s, const tensor *m) {
    const loaded_axis *a = &m->axis[s->labels->axis];
    const int64_t post = a->last ? 1 : m->outer / a->pre / a->S * m->S;
    int64_t n = 0;
    for (int64_t k = 0; k < s->labels->types; k++) {
        s->base[k] = n;
        for (int64_t r = 0; r < m->Q * a->pre; r++)
            for (int64_t i = s->states[k]; i < s->states[k + 1]; i++)
                for (int64_t l = 0; l < post; l++) {
                    const int64_t joint = (r * a->S + s->mine[i]) * post + l;
                    s->cell[n] = joint / m->S * m->P + joint % m->S;
                    s->spot[n] = s->cell[n] % m->plane;
                    s->ends[n++] = s->labels->last[s->mine[i]];
                }
        s->count[k] = n - s->base[k];
    }
}

/* Separates the weights of the opening arcs and of the arcs that do not carry, for the loaded token. */
static void part_weights(follower *s, const tensor *m, semiring K) {
    const loaded_axis *a = &m->axis[s->labels->axis];
    const int64_t weights = a->axis->contexts * a->size,
                  carries = s->into[s->states[s->labels->types]];
    const int64_t rows = a->dense ? a->S : 1, width = a->dense ? a->S : a->arcs;
    const int64_t stride = a->turned == NULL ? width : m->P;
    fc_fill(weights, none(K), s->begin);
    memcpy(s->close, a->weight, (size_t)weights * sizeof *s->close);
    if (a->turned != NULL) memcpy(s->turned, a->turned, (size_t)weights * sizeof *s->turned);
    for (int64_t c = 0; c < weights; c += a->size) {
        for (int64_t i = 0; i < rows; i++) {
            const uint8_t *kind = s->labels->arc + i * width;
            const double *w = a->weight + c + i * stride;
            double *begin = s->begin + c + i * stride;
            for (int64_t j = 0; j < width; j++) begin[j] = kind[j] == FC_OPENS ? w[j] : none(K);
        }
        for (int64_t e = 0; e < carries; e++) {
            s->close[c + s->arc[e]] = none(K);
            if (a->turned != NULL) s->turned[c + s->back[e]] = none(K);
        }
    }
}

/* --- Lanes ----------------------------------------------------------------------------------- */

/* Clears lanes in groups of eight; the lanes after the n-th of its group are cleared as well. */
FC_INLINE void clear_lanes(semiring K, int64_t n, double *restrict x) {
    for (int64_t l = 0; l < n; l += FC_LANES)
        for (int64_t i = l; i < l + FC_LANES; i++) x[i] = none(K);
}

/* y (+)= x (x) w */
FC_INLINE void add_lanes(semiring K, int64_t n, double w, const double *restrict x,
                         double *restrict y) {
    for (int64_t l = 0; l < n; l += FC_LANES)
        for (int64_t i = l; i < l + FC_LANES; i++)
            y[i] = K == SUM_TIMES ? y[i] + x[i] * w : log_add(y[i], x[i] + w);
}

/* x (x)= w */
FC_INLINE void scale_lanes(semiring K, int64_t n, double w, double *restrict x) {
    for (int64_t l = 0; l < n; l += FC_LANES)
        for (int64_t i = l; i < l + FC_LANES; i++) x[i] = times(K, x[i], w);
}

/* sum += exp(x + w - mass), linear: x w */
FC_INLINE void weigh_cell(semiring K, int64_t n, double w, double mass, const double *restrict x,
                          double *restrict sum) {
    for (int64_t l = 0; l < n; l += FC_LANES)
        for (int64_t i = l; i < l + FC_LANES; i++)
            sum[i] += K == SUM_TIMES ? x[i] * w : fc_exp(x[i] + w - mass);
}

/* s->value[lane] = sum of its weights times the weights of a tensor, divided by `mass`. With `closing`,
 * only cells count in which a span may end. */
FC_INLINE void weigh_lanes(follower *s, semiring K, int64_t k, const double *row, double mass,
                           int closing, double *restrict value) {
    const int64_t n = s->open[k], first = s->base[k];
    const double *x = s->x + first * s->W;
    clear_lanes(SUM_TIMES, n, value);
    for (int64_t i = first; i < first + s->count[k]; i++, x += s->W) {
        if (closing && !s->ends[i]) continue;
        const double w = row[s->cell[i]];
        if (w == none(K)) continue;
        weigh_cell(K, n, w, mass, x, value);
    }
    if (K == SUM_TIMES) scale_lanes(SUM_TIMES, n, 1.0 / mass, value);
}

/* Keeps the lanes of a type with a value above a floor, or with given spans. */
static void keep_lanes(follower *s, int64_t k, double floor, double *lanes) {
    const int64_t n = s->open[k];
    int64_t *start = s->start + k * s->W, *next = s->next + k * s->W, *stop = s->stop + k * s->W;
    int64_t kept = 0;
    for (int64_t l = 0; l < n; l++) {
        if (!(floor < 0.0 ? next[l] < stop[l] : s->mass[l] > floor)) continue;
        if (kept < l) {
            double *x = lanes + s->base[k] * s->W;
            for (int64_t i = 0; i < s->count[k]; i++, x += s->W) x[kept] = x[l];
            start[kept] = start[l];
            next[kept] = next[l];
            stop[kept] = stop[l];
        }
        kept++;
    }
    s->open[k] = kept;
}

/* Reads the token: its potentials, the scale of F, the residual automaton. */
FC_INLINE void read_lanes(follower *s, const tensor *m, semiring K, int64_t k, const double *node,
                          double scale) {
    const int64_t n = s->open[k], W = s->W;
    const int64_t *cell = s->cell + s->base[k];
    double *x = s->x + s->base[k] * W, *y = s->y + s->base[k] * W;
    for (int64_t i = 0; i < s->count[k]; i++)
        scale_lanes(K, n, times(K, node[s->spot[s->base[k] + i]], scale), x + i * W);
    const fc_residual *r = m->machine->residual;
    if (r == NULL) return;
    const int64_t plane = s->count[k] / m->Q;
    for (int64_t i = 0; i < s->count[k]; i++) clear_lanes(K, n, y + i * W);
    for (int64_t e = 0; e < r->E; e++)
        for (int64_t i = 0; i < plane; i++) {
            const int64_t o = cell[i] / m->P, j = cell[i] % m->P, wide = r->width > 1;
            const int64_t row = e * r->rows + (r->place == NULL ? 0 : r->place[o]);
            const double w = m->edge[wide ? row * m->P + j : row];
            if (w == none(K)) continue;
            add_lanes(K, n, w, x + (r->source[e] * plane + i) * W,
                      y + (r->target[e] * plane + i) * W);
        }
    for (int64_t i = 0; i < s->count[k]; i++) memcpy(x + i * W, y + i * W, (size_t)n * sizeof *x);
}

/* The outer index of row r of an axis after the axis of the spans. */
static int64_t outer_index(const follower *s, const tensor *m, int64_t k, int64_t d, int64_t r) {
    const loaded_axis *a = &m->axis[s->labels->axis];
    const int64_t size = s->states[k + 1] - s->states[k], mid = m->axis[d].pre / a->pre / a->S;
    const int64_t i = r / mid % size, above = r / mid / size % a->pre;
    return (above * a->S + s->mine[s->states[k] + i]) * mid + r % mid;
}

/* All arcs of a dense axis, linear: a matrix product for each run of lanes. */
static void dense_lanes(const follower *s, const loaded_axis *a, int64_t P, int64_t k, int64_t post,
                        const double *weight, const double *x, double *y) {
    for (int64_t l = 0; l < post; l++) {
        const block b = {.rows = a->S,
                         .n = a->S,
                         .lanes = fc_padded(s->open[k]),
                         .s = weight,
                         .s_row = 1,
                         .s_in = a->last ? P : a->S,
                         .V = x + l * s->W,
                         .v_in = post * s->W,
                         .C = y + l * s->W,
                         .c_row = post * s->W};
        product_sum(&b);
    }
}

/* Steps along one axis: the carrying arcs on the axis of the spans, all arcs on the others. */
FC_INLINE void step_lanes(follower *s, const tensor *m, semiring K, int64_t k, int64_t d) {
    const loaded_axis *a = &m->axis[d];
    const int64_t own = s->labels->axis, n = s->open[k], W = s->W;
    const int64_t size = s->states[k + 1] - s->states[k];
    const int64_t S = d == own ? size : a->S;
    /* One axis needs no divisions, which would cost more than the rest. */
    const int64_t rows = m->Q * (d > own ? a->pre / m->axis[own].S * size : a->pre);
    const int64_t post = m->n == 1 ? 1 : s->count[k] / rows / S;
    const double *x = s->x + s->base[k] * W;
    double *y = s->y + s->base[k] * W;
    for (int64_t i = 0; i < s->count[k]; i++) clear_lanes(K, n, y + i * W);
    const int64_t first = d == own ? s->into[s->states[k]] : 0;
    const int64_t end = d == own ? s->into[s->states[k + 1]] : a->arcs;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t o = a->axis->place == NULL ? 0
                          : d > own              ? outer_index(s, m, k, d, r)
                                                 : r % a->pre;
        const double *weight =
            a->weight + (a->axis->place == NULL ? 0 : a->axis->place[o]) * a->size;
        if (K == SUM_TIMES && d != own && a->dense) {
            dense_lanes(s, a, m->P, k, post, weight, x + r * S * post * W, y + r * S * post * W);
            continue;
        }
        for (int64_t e = first; e < end; e++) {
            const int64_t i = d == own ? s->from[e] : a->dense ? e / a->S : a->axis->source[e];
            const int64_t j = d == own ? s->to[e] : a->dense ? e % a->S : a->axis->target[e];
            const double w = weight[d == own ? s->arc[e] : a->dense && a->last ? i * m->P + j : e];
            if (w == none(K)) continue;
            const double *in = x + (r * S + i) * post * W;
            double *out = y + (r * S + j) * post * W;
            for (int64_t l = 0; l < post; l++) add_lanes(K, n, w, in + l * W, out + l * W);
        }
    }
}

#endif
