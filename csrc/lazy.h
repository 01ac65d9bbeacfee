/* SPDX-License-Identifier: Apache-2.0
 *
 * Best-first search (A*) over the product of a machine and acceptors that are too many to multiply
 * out. States of the product are made as they are met; a *visit* is one of them with the way to it.
 *
 *   priority = core + gain + ahead
 *
 * core: the best path of the machine alone through the visit, from the backward maxima (recursion.h).
 * gain: what the acceptors have scored so far. ahead: the most that each acceptor may still score in
 * the tokens that are left, whatever their labels; -inf where it cannot end. Each part is the exact
 * best of a relaxed problem, so no path through the visit scores more (the search is exact), and it
 * never rises along a path (the first visit of a state is the best one). Where the acceptors agree
 * with the best path of the machine, the search walks straight down that path.
 *
 * The successors of a visit are cells of a row (search.h), best first: the queue holds only the best
 * one not yet looked at, with the visit's own `gain` and `ahead` as its bound. */
#ifndef FSTCRF_LAZY_H
#define FSTCRF_LAZY_H

#include "heap.h"
#include "recursion.h"

typedef struct {
    tensor *m;
    const fc_conjunction *g;
    fc_arena *a;
    int64_t first, T, n, N;
    int32_t *path;
    double *score;
} explorer;

/* What a search does is counted in operations: 80 and one a cell for a row of successors, with what
 * belongs to it, and 5 for a comparison, as measured once. They take a nanosecond each, roughly, as do
 * those in which the product is counted before it is run. To hand a sentence over to the product takes
 * as long as some more. */
enum { ROW = 80, COMPARISON = 5, HANDING_OVER = 16384 };

/* --- Order ----------------------------------------------------------------------------------- */

/* The last step of a candidate's path: a visit's own, or the one to a cell that is not yet a visit. */
typedef struct {
    int32_t visit, parent, state, depth;
} tip;

static inline tip step_of(const fc_arena *a, int32_t visit) {
    const fc_visit *v = &a->visit[visit];
    return (tip){visit, v->parent, v->state, v->token};
}

static inline tip candidate_step(const explorer *s, const fc_candidate *c) {
    if (c->cell < 0) return step_of(s->a, c->visit);
    const int32_t depth = s->a->visit[c->visit].token + 1;
    const int64_t cell = depth == 0 ? c->cell % s->m->plane : c->cell;
    return (tip){-1, c->visit, joint_state(s->m, cell), depth};
}

/* Of equal priorities, the smaller state at the first token where the paths differ. */
static inline int smaller_path(const explorer *s, const fc_candidate *x, const fc_candidate *y) {
    s->a->work += COMPARISON;
    tip p = candidate_step(s, x), q = candidate_step(s, y);
    int32_t left = p.state, right = q.state;
    while (p.depth != q.depth || p.parent != q.parent) {
        s->a->work += COMPARISON;
        const int up = p.depth >= q.depth, other_up = q.depth >= p.depth;
        if (up) p = step_of(s->a, p.parent);
        if (other_up) q = step_of(s->a, q.parent);
        left = p.state;
        right = q.state;
    }
    return left < right;
}

static inline int sooner(const explorer *s, const fc_candidate *x, const fc_candidate *y) {
    s->a->work += COMPARISON;
    return x->priority != y->priority ? x->priority > y->priority : smaller_path(s, x, y);
}

FC_HEAP(candidates, const explorer *, fc_candidate, sooner)

static inline void enqueue(explorer *s, double priority, double value, int64_t visit,
                           int64_t cell) {
    candidates_push(s, s->a->queue, &s->a->queued,
                    (fc_candidate){priority, value, (int32_t)visit, (int32_t)cell});
}

static inline double priority_of(const fc_visit *v) { return v->core + v->gain + v->ahead; }

/* --- Successors ------------------------------------------------------------------------------ */

static inline int64_t row_behind(const explorer *s, const fc_visit *v) {
    const tensor *m = s->m;
    if (v->token < 0) {
        first_row(m, MAX_PLUS, m->row);
        return m->full;
    }
    const int64_t t = v->token + 1;
    successor_row(m, MAX_PLUS, s->first + t, v->state,
                  m->suffix + t * m->full + v->residual * m->plane, m->row);
    return m->plane;
}

/* Queues the best successor that comes behind a cell of this value; cell -1: the best of all. */
static inline void queue_successor(explorer *s, int64_t visit, double value, int64_t cell) {
    const tensor *m = s->m;
    const fc_visit *v = &s->a->visit[visit];
    const int64_t cells = row_behind(s, v);
    s->a->work += ROW + cells;
    const double top = fc_max(cells, m->row);
    double next = top;
    if (cell >= 0) {
        for (int64_t j = 0; j < cells; j++) {
            const int taken = m->row[j] > value || (m->row[j] == value && j <= cell);
            m->row[j] = taken ? FC_NEVER : m->row[j];
        }
        next = fc_max(cells, m->row);
    }
    if (next == FC_NEVER) return;
    const double core = next == top ? v->core : v->core - top + next;
    enqueue(s, core + v->gain + v->ahead, next, visit, first_equal(cells, m->row, next));
}

/* What the acceptors say of one more token: their states, what they score and may still score. */
static inline int read_labels(const explorer *s, const uint64_t *from, int64_t state, int64_t left,
                              uint64_t *to, double *gain, double *ahead) {
    for (int64_t w = 0; w < s->g->words; w++) to[w] = 0;
    for (int64_t i = 0; i < s->g->acceptors; i++) {
        const fc_acceptor *a = &s->g->acceptor[i];
        const int64_t q = (int64_t)(from[a->word] >> a->shift & ~(~UINT64_C(0) << a->bits));
        const int64_t step = q * a->classes + a->place[state];
        const int32_t next = a->target[step];
        if (next < 0) return 0;
        to[a->word] |= (uint64_t)next << a->shift;
        if (a->score != NULL) *gain += a->score[step];
        if (a->ahead == NULL) continue;
        const int64_t row = left < a->rows ? left : a->rows - 1;
        *ahead += a->ahead[row * a->Q + next];
        if (*ahead == FC_NEVER) return 0;
    }
    return 1;
}

/* The visit of a candidate cell; -1: the grammar refuses it. There must be room. */
static inline int64_t make_visit(explorer *s, const fc_candidate *c) {
    fc_arena *a = s->a;
    const fc_visit *v = &a->visit[c->visit];
    const int64_t t = v->token + 1, plane = s->m->plane, words = s->g->words;
    const int64_t q = t == 0 ? c->cell / plane : v->residual,
                  cell = t == 0 ? c->cell % plane : c->cell;
    const int32_t state = joint_state(s->m, cell);
    double gain = v->gain, ahead = 0.0;
    if (!read_labels(s, a->states + c->visit * words, state, s->T - 1 - t,
                     a->states + a->visits * words, &gain, &ahead))
        return -1;
    /* With the parent's own numbers, so that a bound that holds exactly is met exactly. */
    const double core = c->priority == priority_of(v) ? v->core : c->priority - v->gain - v->ahead;
    a->visit[a->visits] = (fc_visit){.core = core,
                                     .gain = gain,
                                     .ahead = ahead,
                                     .parent = c->visit,
                                     .state = state,
                                     .residual = (int32_t)next_state(s->m, q, cell),
                                     .token = (int32_t)t};
    return a->visits++;
}

/* --- States seen ------------------------------------------------------------------------------ */

static inline uint64_t mixed(uint64_t x) {
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 29;
}

static inline int same_state(const explorer *s, int64_t x, int64_t y) {
    const fc_visit *v = &s->a->visit[x], *u = &s->a->visit[y];
    const int64_t words = s->g->words;
    const uint64_t *left = s->a->states + x * words, *right = s->a->states + y * words;
    int same = v->token == u->token && v->state == u->state && v->residual == u->residual;
    for (int64_t w = 0; same && w < words; w++) same = left[w] == right[w];
    return same;
}

/* The slot of a visit's state: that of the first visit of the same state, or a free one. */
static inline int64_t *slot_of(const explorer *s, int64_t visit) {
    const fc_visit *v = &s->a->visit[visit];
    const uint64_t *states = s->a->states + visit * s->g->words;
    uint64_t hash =
        mixed((uint64_t)v->token << 32 ^ (uint64_t)v->state ^ (uint64_t)v->residual << 48);
    for (int64_t w = 0; w < s->g->words; w++) hash = mixed(hash ^ states[w]);
    const uint64_t mask = (uint64_t)s->a->slots - 1;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        int64_t *slot = &s->a->table[i];
        if (*slot >> 32 != s->a->stamp) return slot; /* empty, or of an earlier sentence */
        if (same_state(s, (*slot & INT32_MAX) - 1, visit)) return slot;
    }
}

static inline void remember(const explorer *s, int64_t *slot, int64_t visit) {
    *slot = s->a->stamp << 32 | (visit + 1);
}

/* Counts a visit of a state that is taken from the queue; 0: n better ones have been taken before. */
static inline int worth_taking(explorer *s, int64_t visit) {
    int64_t *slot = slot_of(s, visit);
    if (*slot >> 32 != s->a->stamp) remember(s, slot, visit);
    fc_visit *known = &s->a->visit[(*slot & INT32_MAX) - 1];
    if (known->visits >= s->n) return 0;
    known->visits++;
    return 1;
}

/* After the table was given more room, and emptied. */
static inline void fill_table(explorer *s) {
    for (int64_t v = 0; v < s->a->visits; v++)
        if (s->a->visit[v].visits > 0) remember(s, slot_of(s, v), v);
}

/* --- The search ------------------------------------------------------------------------------ */

/* Writes the path to a visit down as the next one found. */
static inline void write_path(explorer *s, int64_t visit) {
    fc_arena *a = s->a;
    const double priority = priority_of(&a->visit[visit]);
    int32_t *path = s->path + a->found * s->N + s->first;
    double *score = s->score + a->found;
    /* Rounding may put a path a last bit above the one before it. */
    *score = a->found > 0 && priority > score[-1] ? score[-1] : priority;
    for (int64_t v = visit; a->visit[v].token >= 0; v = a->visit[v].parent)
        path[a->visit[v].token] = a->visit[v].state;
    a->found++;
}

static inline void begin_search(explorer *s) {
    fc_arena *a = s->a;
    for (int64_t w = 0; w < s->g->words; w++) a->states[w] = 0;
    a->visits = 1;
    a->queued = 0;
    first_row(s->m, MAX_PLUS, s->m->row);
    a->visit[0] =
        (fc_visit){.core = fc_max(s->m->full, s->m->row), .parent = -1, .state = -1, .token = -1};
    for (int64_t i = 0; i < s->g->acceptors; i++) {
        const fc_acceptor *g = &s->g->acceptor[i];
        const int64_t row = s->T < g->rows ? s->T : g->rows - 1;
        if (g->ahead != NULL) a->visit[0].ahead += g->ahead[row * g->Q];
    }
}

static inline int has_room(const fc_arena *a) {
    return a->visits < a->visit_room && a->queued + 2 <= a->queue_room;
}

/* Takes the best candidate, and queues what comes behind it. Returns its visit; -1: the grammar refuses
 * it, or its turn comes later. */
static inline int64_t take_best(explorer *s) {
    const fc_candidate c = candidates_pop(s, s->a->queue, &s->a->queued);
    if (c.cell < 0) return c.visit;
    queue_successor(s, c.visit, c.value, c.cell);
    const int64_t visit = make_visit(s, &c);
    if (visit < 0) return -1;
    const double priority = priority_of(&s->a->visit[visit]);
    if (priority >= c.priority) return visit;
    enqueue(s, priority, 0.0, visit, -1);
    return -1;
}

static inline int too_long(const explorer *s) {
    return s->a->allowance > 0 && (s->a->work - HANDING_OVER) / s->T >= s->a->allowance;
}

typedef enum { ON, AT_THE_LIMIT, TOO_LONG } verdict;

/* Takes candidates until n paths are found or none is left (FC_OK), room or steps are used up, or
 * `limit` states have been taken or it takes too long: then *over says so. */
static inline fc_status explore(explorer *s, int64_t limit, int64_t *steps, verdict *over) {
    fc_arena *a = s->a;
    while (a->queued > 0 && a->found < s->n) {
        *over = a->popped >= limit ? AT_THE_LIMIT : too_long(s) ? TOO_LONG : ON;
        if (*over != ON) return FC_OK;
        if (!has_room(a)) return FC_EFULL;
        if (*steps == 0) return FC_EPAUSED;
        const int64_t visit = take_best(s);
        if (visit < 0 || !worth_taking(s, visit)) continue;
        a->popped++;
        --*steps;
        if (a->visit[visit].token == s->T - 1) {
            write_path(s, visit);
        } else {
            queue_successor(s, visit, 0.0, -1);
        }
    }
    return FC_OK;
}

/* --- Giving up -------------------------------------------------------------------------------- */

static inline int among(const explorer *s, const int64_t *taken, int64_t n, int64_t visit) {
    int found = 0;
    for (int64_t k = 0; k < n && !found; k++) found = same_state(s, taken[k], visit);
    return found;
}

/* From the visits of one token to the best `width` of the next one. */
static inline fc_status beam_step(explorer *s, int64_t width, const int64_t *from, int64_t n_from,
                                  int64_t *to, int64_t *n_to) {
    fc_arena *a = s->a;
    a->queued = 0;
    *n_to = 0;
    for (int64_t k = 0; k < n_from; k++) queue_successor(s, from[k], 0.0, -1);
    while (a->queued > 0 && *n_to < width) {
        if (!has_room(a)) return FC_EFULL;
        const int64_t visit = take_best(s);
        if (visit >= 0 && !among(s, to, *n_to, visit)) to[(*n_to)++] = visit;
    }
    return FC_OK;
}

/* Paths that obey the grammar, though perhaps not the best: `width` states of every token are followed.
 * What was searched is forgotten; the slots of the table hold the two layers. */
static inline fc_status beam(explorer *s, int64_t width) {
    fc_arena *a = s->a;
    if (a->queue_room < width + 2 || a->slots < 2 * width) return FC_EFULL;
    int64_t *from = a->table, *to = a->table + width, n_from = 1, n_to = 1;
    begin_search(s);
    from[0] = 0;
    for (int64_t t = 0; t < s->T && n_from > 0; t++) {
        const fc_status status = beam_step(s, width, from, n_from, to, &n_to);
        if (status != FC_OK) return status;
        int64_t *swap = from;
        from = to;
        to = swap;
        n_from = n_to;
    }
    for (int64_t k = 0; k < n_from && a->found < s->n; k++) write_path(s, from[k]);
    for (int64_t i = 0; i < 2 * width; i++) a->table[i] = 0;
    return FC_OK;
}

/* --- Scores of paths -------------------------------------------------------------------------- */

/* Weight of the arcs from one joint state to another, in the potentials of `token`. */
static inline double arcs_between(const tensor *m, int64_t token, int64_t from, int64_t to) {
    double *scratch = m->lead, total = 0.0;
    int64_t below = m->outer * m->S, before = 0;
    for (int64_t c = 0; c < m->n; c++) {
        const loaded_axis *a = &m->axis[c];
        below /= a->S;
        const int64_t i = from / below % a->S, j = to / below % a->S;
        const int64_t context = a->axis->place == NULL ? 0 : a->axis->place[before];
        total += arc_row(m, MAX_PLUS, a, token, context, i, scratch)[j];
        before = before * a->S + j;
    }
    return total;
}

/* Score of a path of the machine, added up token by token. */
static inline double machine_score(const tensor *m, int64_t first, int64_t T, const int32_t *path) {
    double total = 0.0;
    for (int64_t t = 0; t < T; t++) {
        const int64_t cell = path[t] / m->S * m->P + path[t] % m->S;
        node_scores(m, first + t, m->node);
        if (t == 0) total = m->initial[cell];
        if (t > 0) total += arcs_between(m, first + t, path[t - 1], path[t]);
        total += m->node[cell];
        if (t == T - 1) total += m->final[cell];
    }
    return total;
}

/* What the acceptors add to it; states [2][words] is scratch. */
static inline double grammar_score(const explorer *s, const int32_t *path, uint64_t *states) {
    const int64_t words = s->g->words;
    double gain = 0.0, end = 0.0;
    for (int64_t w = 0; w < words; w++) states[w] = 0;
    for (int64_t t = 0; t < s->T; t++) {
        end = 0.0;
        if (!read_labels(s, states + t % 2 * words, path[t], s->T - 1 - t,
                         states + (t + 1) % 2 * words, &gain, &end))
            return FC_NEVER;
    }
    return gain + end;
}

#endif
