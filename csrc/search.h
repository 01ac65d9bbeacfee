/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths out of a machine, when the backward scores of every token are known: the best one, the n best
 * and samples. All are walks from the first token to the last. A *row* holds, for every joint state of
 * the next token, the weight of the step to it times the weight of its best continuation (or of all
 * continuations):
 *
 *   row[k'] = arc[k -> k'] (x) suffix[t][q][k']          row[k'] = initial (x) suffix[0] at the first
 *
 * The maximum of a row is the score of the best completion, so best-first search never takes a useless
 * state. The queue holds, for each token of each path found, the best deviation not yet taken; when it
 * is taken, its next sibling replaces it. */
#ifndef FSTCRF_SEARCH_H
#define FSTCRF_SEARCH_H

#include "advance.h"
#include "heap.h"

/* Weights of the arcs that leave state i under a context, as a row of S. For comparisons, scores are
 * read in place, whatever token is loaded; for sums they are shifted, and must have been loaded. */
FC_INLINE const double *arc_row(const tensor *m, semiring K, const loaded_axis *a, int64_t token,
                                int64_t context, int64_t i, double *scratch) {
    const fc_axis *axis = a->axis;
    const double *table;
    int64_t stride = a->S;
    if (a->full && K != MAX_PLUS) {
        table = a->outward;
    } else if (K != MAX_PLUS) {
        table = a->weight + context * a->size;
        if (a->last) stride = m->P;
    } else {
        table = axis->score + ((axis->moving ? token * axis->contexts : 0) + context) * a->arcs;
    }
    if (a->dense && !(a->full && K != MAX_PLUS)) return table + i * stride;
    const double other = !a->full ? none(K) : K == MAX_PLUS ? *axis->rest : a->rest;
    fc_fill(a->S, other, scratch);
    for (int64_t k = axis->row[i]; k < axis->row[i + 1]; k++) scratch[axis->target[k]] = table[k];
    return scratch;
}

/* Weight of the arcs of all axes but the last, for every outer index: m->lead. */
static inline const double *lead_row(const tensor *m, semiring K, int64_t token, int64_t o) {
    double *now = m->lead, *next = m->lead + m->outer;
    double *scratch = m->lead + 2 * m->outer;
    now[0] = K == SUM_TIMES ? 1.0 : 0.0;
    int64_t below = m->outer; /* cells of the axes from here on, the last one left out */
    for (int64_t c = 0; c + 1 < m->n; c++) {
        const loaded_axis *a = &m->axis[c];
        below /= a->S;
        const int64_t i = o / below % a->S;
        int64_t known = -1;
        const double *arcs = NULL;
        for (int64_t p = 0; p < a->pre; p++) {
            const int64_t context = a->axis->place == NULL ? 0 : a->axis->place[p];
            if (context != known) arcs = arc_row(m, K, a, token, context, i, scratch);
            known = context;
            for (int64_t j = 0; j < a->S; j++) next[p * a->S + j] = times(K, now[p], arcs[j]);
        }
        fc_swap(&now, &next);
    }
    return now;
}

FC_INLINE void successor_row(const tensor *m, semiring K, int64_t token, int64_t state,
                             const double *suffix, double *row) {
    const loaded_axis *a = &m->axis[m->n - 1];
    const int64_t S = m->S, P = m->P;
    const int64_t outer = m->n == 1 ? 0 : state / S, inner = state - outer * S;
    const double *lead = lead_row(m, K, token, outer);
    double *arcs = m->lead + 2 * m->outer, *scratch = arcs + P;
    int64_t known = -1;
    fc_fill(P - S, none(K), arcs + S);
    for (int64_t o = 0; o < m->outer; o++, suffix += P, row += P) {
        const int64_t context = a->axis->place == NULL ? 0 : a->axis->place[o];
        if (context != known)
            memcpy(arcs, arc_row(m, K, a, token, context, inner, scratch),
                   (size_t)S * sizeof *arcs);
        known = context;
        const double factor = lead[o];
        for (int64_t j = 0; j < P; j++) row[j] = times(K, times(K, factor, arcs[j]), suffix[j]);
    }
}

static inline void first_row(const tensor *m, semiring K, double *row) {
    spread_ends(m, K, m->initial, m->ends[0], row);
    for (int64_t j = 0; j < m->full; j++) row[j] = times(K, row[j], m->suffix[j]);
}

/* Residual state after reading a cell [o][s] of the plane; -1: the automaton refuses it. */
static inline int64_t next_state(const tensor *m, int64_t q, int64_t cell) {
    const fc_residual *r = m->machine->residual;
    if (r == NULL) return 0;
    const int64_t o = m->n == 1 ? 0 : cell / m->P, s = r->width == 1 ? 0 : cell - o * m->P;
    const int64_t row = r->place == NULL ? 0 : r->place[o];
    for (int64_t e = r->row[q]; e < r->row[q + 1]; e++)
        if (r->value[(e * r->rows + row) * r->width + s] > FC_NEVER) return r->target[e];
    return -1;
}

/* Divisions cost as much as a whole row: one axis needs no divisions. */
static inline int32_t joint_state(const tensor *m, int64_t cell) {
    if (m->n == 1) return (int32_t)cell;
    return (int32_t)(cell / m->P * m->S + cell % m->P);
}

/* First of n numbers that equals `value`, or -1. The position is unpredictable: no branches within 64
 * numbers. */
static inline int64_t first_equal(int64_t n, const double *x, double value) {
    for (int64_t start = 0; start < n; start += 64) {
        const int64_t end = n - start < 64 ? n - start : 64;
        uint64_t found = 0;
        for (int64_t j = 0; j < end; j += REG)
            found |= reg_equal(*(const reg *)(x + start + j), value) << j;
        if (found != 0) return start + __builtin_ctzll(found);
    }
    return -1;
}

/* First best of n cells of x + y, and its value; -1 if all are -inf. */
static inline int64_t first_best(int64_t n, const double *x, const double *y, double *top) {
    reg best = (reg){0} + FC_NEVER;
    for (int64_t j = 0; j < n; j += REG)
        best = reg_max(*(const reg *)(x + j) + *(const reg *)(y + j), best);
    *top = reg_largest(best);
    for (int64_t start = 0; *top > FC_NEVER && start < n; start += 64) {
        const int64_t end = n - start < 64 ? n - start : 64;
        uint64_t found = 0;
        for (int64_t j = 0; j < end; j += REG) {
            const reg sum = *(const reg *)(x + start + j) + *(const reg *)(y + start + j);
            found |= reg_equal(sum, *top) << j;
        }
        if (found != 0) return start + __builtin_ctzll(found);
    }
    return -1;
}

/* Whether the machine has a single dense axis whose loaded arcs are the same at every token. */
static inline int table_at_hand(const tensor *m) {
    return m->single && m->axis[0].dense && !m->axis[0].full && !m->axis[0].axis->moving;
}

/* Cells of the row into a token of a path: all residual states at the first token, one later. */
FC_INLINE int64_t row_into(const tensor *m, semiring K, int64_t first, int64_t t,
                           const int32_t *path, const int32_t *q, double *row) {
    if (t == 0) {
        first_row(m, K, row);
        return m->full;
    }
    if (K == MAX_PLUS && table_at_hand(m)) {
        const double *arcs = m->axis[0].weight + path[t - 1] * m->P, *suffix = m->suffix + t * m->P;
        for (int64_t j = 0; j < m->P; j++) row[j] = arcs[j] + suffix[j];
        return m->P;
    }
    successor_row(m, K, first + t, path[t - 1], m->suffix + t * m->full + q[t - 1] * m->plane, row);
    return m->plane;
}

/* Moves to a cell of the row into token t. */
static inline void step_to(const tensor *m, int64_t t, int64_t cell, int32_t *path, int32_t *q) {
    const int64_t from = t > 0 ? q[t - 1] : m->Q == 1 ? 0 : cell / m->plane;
    const int64_t place = t > 0 ? cell : cell - from * m->plane;
    path[t] = joint_state(m, place);
    const int64_t to = next_state(m, from, place);
    q[t] = to < 0 ? 0 : (int32_t)to; /* rejected only if scores have changed meanwhile */
}

/* The same for a single dense axis whose arcs are loaded. */
static inline double walk_single(const tensor *m, int64_t T, int32_t *path) {
    const int64_t P = m->P;
    double score, top;
    int64_t state = first_best(P, m->initial, m->suffix, &score);
    for (int64_t t = 0; t < T; t++) {
        path[t] = (int32_t)state;
        if (t + 1 < T && state >= 0)
            state = first_best(P, m->axis[0].weight + state * P, m->suffix + (t + 1) * P, &top);
    }
    return score;
}

/* Best path of a sentence whose suffixes are maxima; returns its score. q [T] is scratch. */
static inline double walk_best(const tensor *m, int64_t first, int64_t T, int32_t *path,
                               int32_t *q) {
    double score = FC_NEVER;
    if (table_at_hand(m)) return walk_single(m, T, path);
    for (int64_t t = 0; t < T; t++) {
        const int64_t cells = row_into(m, MAX_PLUS, first, t, path, q, m->row);
        const double top = fc_max(cells, m->row);
        if (t == 0) score = top;
        const int64_t cell = top > FC_NEVER ? first_equal(cells, m->row, top) : -1;
        if (cell < 0) { /* no path, or scores have changed meanwhile */
            for (; t < T; t++) path[t] = -1;
            break;
        }
        step_to(m, t, cell, path, q);
    }
    return score;
}

/* --- n best ---------------------------------------------------------------------------------- */

/* A deviation: the first t states of a known path, then `cell`, then the best completion. */
typedef struct {
    double priority; /* score of the whole path */
    double value;    /* its cell's entry in the row */
    int64_t cell;
    int32_t path, t;
} deviation;

/* The two best cells of a row, cached because many paths pass through it. */
typedef struct {
    double top, second;
    int32_t cell, other;
    int64_t stamp; /* sentence for which they were found, from 1 */
} choice;

typedef struct {
    const tensor *m;
    deviation *heap;
    int64_t size;
    int32_t *q; /* [n][longest] residual states of the paths found */
    int64_t longest;
    const int32_t *paths; /* known paths of this sentence: path k at paths + k * N */
    int64_t N;
    choice *choices; /* [longest][joint states], or NULL if they are too many */
    int64_t stamp;
    double floor;  /* paths after the first must score more than this */
    double within; /* ... and be at most this far below the first */
} queue;

/* Largest number of cached choices: more would take more memory than the search. */
#define MOST_CHOICES 500000

/* Lays out a queue for n paths of sentences of up to `longest` tokens; returns its size in doubles. A
 * deviation takes four doubles, a residual state half a one, a choice four. */
static inline int64_t lay_out_queue(queue *h, const tensor *m, int64_t n, int64_t longest,
                                    double *scratch) {
    const int64_t rows = longest * m->Q * m->outer * m->S, room = n * (longest + 1) + 1;
    const int64_t choices = rows <= MOST_CHOICES ? rows : 0;
    *h = (queue){.longest = longest, .floor = FC_NEVER, .within = (double)INFINITY};
    if (scratch != NULL) {
        h->heap = (deviation *)scratch;
        h->q = (int32_t *)(h->heap + room);
        h->choices = choices > 0 ? (choice *)(scratch + 5 * room) : NULL;
        for (int64_t i = 0; i < choices; i++) h->choices[i].stamp = 0;
    }
    return 5 * room + 4 * choices;
}

static inline int32_t state_at(const queue *h, const deviation *d, int64_t t) {
    if (t < d->t) return h->paths[d->path * h->N + t];
    return joint_state(h->m, d->t > 0 ? d->cell : d->cell % h->m->plane);
}

/* Better first; ties: the smaller state at the first token where they differ, which is at or before the
 * first deviation of the two. */
static inline int before(const queue *h, const deviation *a, const deviation *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    const int64_t last = a->t < b->t ? a->t : b->t;
    for (int64_t t = 0; t <= last; t++) {
        const int32_t i = state_at(h, a, t), j = state_at(h, b, t);
        if (i != j) return i < j;
    }
    return a->t > b->t;
}

FC_HEAP(deviations, const queue *, deviation, before)

static inline void push(queue *h, deviation d) {
    if (!(d.priority <= h->floor)) deviations_push(h, h->heap, &h->size, d);
}

static inline deviation pop(queue *h) { return deviations_pop(h, h->heap, &h->size); }

/* Queues the best cell of m->row; the path's score is `base` + the cell's value. */
static inline int64_t queue_best(const tensor *m, queue *h, int64_t cells, double base,
                                 int64_t path, int64_t t) {
    const double value = fc_max(cells, m->row);
    if (value == FC_NEVER) return -1;
    const int64_t cell = first_equal(cells, m->row, value);
    if (cell < 0) return -1;
    push(h, (deviation){.priority = base + value,
                        .value = value,
                        .cell = cell,
                        .path = (int32_t)path,
                        .t = (int32_t)t});
    return cell;
}

/* Removes from m->row a deviation and all cells before it in order. */
static inline void drop_taken(const tensor *m, int64_t cells, const deviation *d) {
    const double value = d->value;
    for (int64_t j = 0; j < cells; j++) m->row[j] = m->row[j] > value ? FC_NEVER : m->row[j];
    for (int64_t j = 0; j <= d->cell; j++)
        if (m->row[j] == value) m->row[j] = FC_NEVER;
}

static inline void find_choice(const tensor *m, int64_t cells, choice *c) {
    c->top = fc_max(cells, m->row);
    c->cell = c->top > FC_NEVER ? (int32_t)first_equal(cells, m->row, c->top) : -1;
    c->other = -1;
    if (c->cell < 0) return;
    m->row[c->cell] = FC_NEVER;
    c->second = fc_max(cells, m->row);
    c->other = c->second == FC_NEVER ? -1 : (int32_t)first_equal(cells, m->row, c->second);
}

/* The two best cells of the row into token t of a path; in `spare` if there is no cache. */
static inline const choice *best_two(const tensor *m, queue *h, int64_t first, int64_t t,
                                     const int32_t *path, const int32_t *q, choice *spare) {
    choice *c = spare;
    if (h->choices != NULL && t > 0) {
        const int64_t joint = m->outer * m->S;
        c = h->choices + (t * m->Q + q[t - 1]) * joint + path[t - 1];
        if (c->stamp == h->stamp) return c;
        c->stamp = h->stamp;
    }
    find_choice(m, row_into(m, MAX_PLUS, first, t, path, q, m->row), c);
    return c;
}

/* Continues from token t along the best completion, and queues the second best of every row, unless
 * this is the last path. */
static inline void walk_on(const tensor *m, queue *h, int64_t first, int64_t T, int64_t t,
                           double score, int64_t number, int last, int32_t *path) {
    int32_t *q = h->q + number * h->longest;
    choice spare;
    for (; t < T; t++) {
        const choice *c = best_two(m, h, first, t, path, q, &spare);
        if (c->cell < 0) return; /* scores have changed meanwhile: the path stays -1 */
        if (!last && c->other >= 0)
            push(h, (deviation){.priority = score - c->top + c->second,
                                .value = c->second,
                                .cell = c->other,
                                .path = (int32_t)number,
                                .t = (int32_t)t});
        step_to(m, t, c->cell, path, q);
    }
}

/* The n best paths of a sentence, those after the first above h->floor; path k at paths + k * N.
 * Returns their number. */
static inline int64_t walk_nbest(const tensor *m, queue *h, int64_t first, int64_t T, int64_t n,
                                 int64_t N, int32_t *paths, double *score) {
    h->size = 0;
    h->m = m;
    h->paths = paths + first;
    h->N = N;
    const int64_t cells = row_into(m, MAX_PLUS, first, 0, NULL, NULL, m->row);
    const double floor = h->floor;
    h->floor = FC_NEVER; /* the best path is always returned */
    queue_best(m, h, cells, 0.0, 0, 0);
    const double least = h->size > 0 ? h->heap[0].priority - h->within : floor;
    h->floor = least > floor ? least : floor;
    int64_t found = 0;
    for (; found < n && h->size > 0; found++) {
        const deviation d = pop(h);
        int32_t *path = paths + found * N + first, *q = h->q + found * h->longest;
        const int32_t *old = paths + d.path * N + first, *old_q = h->q + d.path * h->longest;
        if (found > 0) {
            memcpy(path, old, (size_t)d.t * sizeof *path);
            memcpy(q, old_q, (size_t)d.t * sizeof *q);
        }
        if (found + 1 < n) { /* the next sibling */
            const int64_t width = row_into(m, MAX_PLUS, first, d.t, path, q, m->row);
            drop_taken(m, width, &d);
            queue_best(m, h, width, d.priority - d.value, found, d.t);
        }
        /* Rounding may make a path one bit better than the previous one. */
        score[found] = found > 0 && d.priority > score[found - 1] ? score[found - 1] : d.priority;
        step_to(m, d.t, d.cell, path, q);
        walk_on(m, h, first, T, d.t + 1, d.priority, found, found + 1 == n, path);
    }
    return found;
}

/* --- Samples --------------------------------------------------------------------------------- */

/* First cell at which the running sum of a row passes u times its total. */
static inline int64_t drawn(int64_t cells, const double *row, double u) {
    double total = 0.0, sum = 0.0;
    for (int64_t j = 0; j < cells; j++) total += row[j];
    const double wanted = u * total;
    int64_t last = -1;
    for (int64_t j = 0; j < cells; j++) {
        FC_ASSERT(!isnan(row[j]));
        if (!(row[j] > 0.0)) continue;
        sum += row[j];
        last = j;
        if (sum > wanted) return j;
    }
    return last;
}

#endif
