/* SPDX-License-Identifier: Apache-2.0
 *
 * Best-first search (A*) over the product of a machine and acceptors that is too large to expand.
 * States of the product are created when they are reached; a *visit* is a state with the path to it.
 *
 *   priority = core + gain + ahead
 *
 * core: the best path of the machine through the visit, without the acceptors, from the backward maxima
 * (recursion.h). gain: score of the acceptors so far. ahead: upper bound of each acceptor's score over
 * the remaining tokens, whatever their labels; -inf if it cannot end. Each part is the exact best of a
 * relaxed problem, so no path through the visit scores more (the search is exact), and it never rises
 * along a path (the first visit of a state is the best one). As long as the acceptors agree with the
 * best path of the machine, the search walks straight along that path.
 *
 * The successors of a visit are cells of a row (search.h), best first. The queue holds only the best
 * cell not yet taken, with the visit's `gain` and `ahead` as its bound. */
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

/* Costs of a search in operations of about a nanosecond, the unit in which the cost of the product is
 * estimated beforehand. ROW: a row of successors, plus half an operation a cell, plus AXIS for each of
 * several axes and for their joint states. STEP: a token of the walk, plus a quarter a cell. READ: an
 * acceptor reads a label. Each new visit costs one operation for every 2^FAR visits, because visits are
 * then rarely in cache. */
enum { ROW = 40, AXIS = 25, STEP = 12, COMPARISON = 3, READ = 2, FAR = 7 };

/* MANY: number of breaches from which a search almost always takes longer than a product. REFUSED:
 * rejected successors of a visit that the walk to a legal path skips. */
enum { MANY = 7, REFUSED = 64 };

/* Progress of an n-best search when its first path is found. */
#define FIRST_SHARE 0.3

/* Marks a candidate whose next sibling has not been looked up. */
enum { UNKNOWN = -2 };

/* --- Order ----------------------------------------------------------------------------------- */

/* The last step of a candidate's path: the visit itself, or the step to a cell that is not yet a
   visit. */
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

/* Ties: the smaller state at the first token where the paths differ. */
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

static inline double priority_of(const fc_visit *v) { return v->core + v->gain + v->ahead; }

static inline void enqueue(explorer *s, fc_candidate c) {
    candidates_push(s, s->a->queue, &s->a->queued, c);
}

static inline void enqueue_visit(explorer *s, int64_t visit) {
    const double priority = priority_of(&s->a->visit[visit]);
    enqueue(s, (fc_candidate){.priority = priority, .visit = (int32_t)visit, .cell = -1});
}

/* --- Successors ------------------------------------------------------------------------------ */

static inline int64_t row_behind(const explorer *s, const fc_visit *v) {
    const tensor *m = s->m;
    if (v->token < 0) {
        first_row(m, MAX_PLUS, m->row);
        return m->full;
    }
    const int64_t t = v->token + 1;
    if (table_at_hand(m)) {
        const double *arcs = m->axis[0].weight + v->state * m->P, *suffix = m->suffix + t * m->P;
        for (int64_t j = 0; j < m->P; j++) m->row[j] = arcs[j] + suffix[j];
        return m->P;
    }
    successor_row(m, MAX_PLUS, s->first + t, v->state,
                  m->suffix + t * m->full + v->residual * m->plane, m->row);
    return m->plane;
}

static inline int64_t row_operations(const explorer *s, int64_t cells) {
    const tensor *m = s->m;
    const int64_t several = m->n == 1 ? 0 : AXIS * (m->n - 1) + m->outer * 3 / 2;
    return ROW + cells / 2 + several;
}

/* The best successor of a visit; 0: it has no successor. Scores that have changed meanwhile may be NaN:
 * then no cell is the best. */
static inline int best_behind(explorer *s, int64_t visit, fc_candidate *best) {
    const fc_visit *v = &s->a->visit[visit];
    const int64_t cells = row_behind(s, v);
    s->a->work += row_operations(s, cells);
    choice c = {.second = FC_NEVER};
    find_choice(s->m, cells, &c);
    *best = (fc_candidate){.priority = priority_of(v),
                           .value = c.top,
                           .second = c.second,
                           .visit = (int32_t)visit,
                           .cell = c.cell,
                           .other = c.other};
    return c.cell >= 0;
}

/* The next-best successor after a candidate in its row; 0: no further one. */
static inline int next_behind(explorer *s, const fc_candidate *c, fc_candidate *next) {
    const fc_visit *v = &s->a->visit[c->visit];
    double value = c->second, top = c->value;
    int32_t cell = c->other;
    if (cell == UNKNOWN) {
        const int64_t cells = row_behind(s, v);
        s->a->work += row_operations(s, cells);
        top = fc_max(cells, s->m->row);
        for (int64_t j = 0; j < cells; j++) {
            double *x = &s->m->row[j];
            *x = *x > c->value || (*x == c->value && j <= c->cell) ? FC_NEVER : *x;
        }
        value = fc_max(cells, s->m->row);
        cell = value > FC_NEVER ? (int32_t)first_equal(cells, s->m->row, value) : -1;
    }
    const double core = value == top ? v->core : v->core - top + value;
    *next = (fc_candidate){.priority = core + v->gain + v->ahead,
                           .value = value,
                           .visit = c->visit,
                           .cell = cell,
                           .other = UNKNOWN};
    return cell >= 0;
}

/* The acceptors read one more token: their new states, their scores and the scores still possible. */
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

/* The visit of a candidate cell; -1: the grammar rejects it. The caller checks that there is room. */
static inline int64_t make_visit(explorer *s, const fc_candidate *c) {
    fc_arena *a = s->a;
    const fc_visit *v = &a->visit[c->visit];
    const int64_t t = v->token + 1, plane = s->m->plane, words = s->g->words;
    const int64_t q = t == 0 ? c->cell / plane : v->residual,
                  cell = t == 0 ? c->cell % plane : c->cell;
    const int32_t state = joint_state(s->m, cell);
    const int64_t residual = next_state(s->m, q, cell);
    double gain = v->gain, ahead = 0.0;
    a->work += READ * s->g->acceptors + (a->visits >> FAR);
    if (residual < 0) return -1; /* only if scores have changed meanwhile */
    if (!read_labels(s, a->states + c->visit * words, state, s->T - 1 - t,
                     a->states + a->visits * words, &gain, &ahead))
        return -1;
    /* Uses the parent's numbers, so that a tight bound is met exactly. */
    const double core = c->priority == priority_of(v) ? v->core : c->priority - v->gain - v->ahead;
    a->visit[a->visits] = (fc_visit){.core = core,
                                     .gain = gain,
                                     .ahead = ahead,
                                     .parent = c->visit,
                                     .state = state,
                                     .residual = (int32_t)residual,
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

/* The slot of a visit's state: the slot of the first visit of the same state, or a free one. */
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

/* Counts a visit of a state that is taken from the queue; 0: n better ones have been taken before. */
static inline int worth_taking(explorer *s, int64_t visit) {
    int64_t *slot = slot_of(s, visit);
    if (*slot >> 32 != s->a->stamp) *slot = s->a->stamp << 32 | (visit + 1);
    fc_visit *known = &s->a->visit[(*slot & INT32_MAX) - 1];
    if (known->visits >= s->n) return 0;
    known->visits++;
    return 1;
}

/* After the table was given more room, and emptied. */
static inline void fill_table(explorer *s) {
    for (int64_t v = 0; v < s->a->visits; v++)
        if (s->a->visit[v].visits > 0) *slot_of(s, v) = s->a->stamp << 32 | (v + 1);
}

/* --- The search ------------------------------------------------------------------------------ */

static inline void write_path(explorer *s, int64_t visit) {
    fc_arena *a = s->a;
    const double priority = priority_of(&a->visit[visit]);
    int32_t *path = s->path + a->found * s->N + s->first;
    double *score = s->score + a->found;
    /* Rounding may make a path one bit better than the previous one. */
    *score = a->found > 0 && priority > score[-1] ? score[-1] : priority;
    for (int64_t v = visit; a->visit[v].token >= 0; v = a->visit[v].parent)
        path[a->visit[v].token] = a->visit[v].state;
    a->found++;
}

static inline void begin_search(explorer *s) {
    fc_arena *a = s->a;
    for (int64_t w = 0; w < s->g->words; w++) a->states[w] = 0;
    a->visits = 1;
    a->queued = a->ready = 0;
    first_row(s->m, MAX_PLUS, s->m->row);
    a->visit[0] =
        (fc_visit){.core = fc_max(s->m->full, s->m->row), .parent = -1, .state = -1, .token = -1};
    for (int64_t i = 0; i < s->g->acceptors; i++) {
        const fc_acceptor *g = &s->g->acceptor[i];
        const int64_t row = s->T < g->rows ? s->T : g->rows - 1;
        if (g->ahead != NULL) a->visit[0].ahead += g->ahead[row * g->Q];
    }
}

static inline int has_room(const fc_arena *a, int64_t visits) {
    return a->visits + visits <= a->visit_room && a->queued + visits + 2 <= a->queue_room;
}

/* Takes a candidate and queues its next sibling. Returns its visit; -1: the grammar rejects it, or it
 * was queued again with a lower priority. */
static inline int64_t take_candidate(explorer *s, const fc_candidate *c) {
    fc_candidate next;
    if (c->cell < 0) return c->visit;
    if (next_behind(s, c, &next)) enqueue(s, next);
    const int64_t visit = make_visit(s, c);
    if (visit < 0 || priority_of(&s->a->visit[visit]) >= c->priority) return visit;
    enqueue_visit(s, visit);
    return -1;
}

static inline int is_bound(const explorer *s) {
    const fc_arena *a = s->a;
    return a->most > 0 && (!a->hands_over || s->T <= a->longest);
}

/* Whether a product takes over when the search exceeds its allowance. */
static inline int is_handed_over(const explorer *s) { return s->a->hands_over && is_bound(s); }

/* Upper bound of the score of all paths not yet found. */
static inline double bound_of(const fc_arena *a) {
    if (a->ready) return a->next.priority;
    return a->queued > 0 ? a->queue[0].priority : FC_NEVER;
}

/* An acceptor that rejects a state rejects all states of its class: takes their cells out of the
   row. */
static inline void pass_over(const explorer *s, const uint64_t *from, int32_t state, int64_t left,
                             int64_t cells) {
    const tensor *m = s->m;
    for (int64_t i = 0; i < s->g->acceptors; i++) {
        const fc_acceptor *a = &s->g->acceptor[i];
        const int64_t q = (int64_t)(from[a->word] >> a->shift & ~(~UINT64_C(0) << a->bits));
        const int32_t class = a->place[state], next = a->target[q * a->classes + class];
        const int64_t row = left < a->rows ? left : a->rows - 1;
        if (next >= 0 && (a->ahead == NULL || a->ahead[row * a->Q + next] > FC_NEVER)) continue;
        for (int64_t k = 0; k < cells; k++)
            if (m->row[k] > FC_NEVER && a->place[joint_state(m, k % m->plane)] == class)
                m->row[k] = FC_NEVER;
        return;
    }
}

/* Score of the path that always takes the best successor that the acceptors accept, from the beginning
 * on; -inf: it ends before the sentence does. Its operations are not counted: when it is called depends
 * on the allowance, but the end of a search must not. The caller provides room for two visits, whose
 * states are scratch. */
static inline double score_at_once(const explorer *s) {
    const fc_arena *a = s->a;
    const int64_t words = s->g->words;
    uint64_t *now = a->states + a->visits * words, *next = now + words;
    fc_visit v = a->visit[0];
    memcpy(now, a->states, (size_t)words * sizeof *now);
    while (v.token < s->T - 1) {
        const int64_t cells = row_behind(s, &v), left = s->T - 2 - v.token;
        const double top = fc_max(cells, s->m->row);
        double value = top, gain, ahead;
        for (int tries = 0;; tries++) {
            const int64_t cell = value > FC_NEVER ? first_equal(cells, s->m->row, value) : -1;
            if (cell < 0 || tries == REFUSED) return FC_NEVER;
            const int64_t place = cell % s->m->plane,
                          q = v.token < 0 ? cell / s->m->plane : v.residual;
            const int64_t residual = next_state(s->m, q, place);
            gain = v.gain;
            ahead = 0.0;
            v.state = joint_state(s->m, place);
            if (residual >= 0 && read_labels(s, now, v.state, left, next, &gain, &ahead)) {
                v.residual = (int32_t)residual;
                break;
            }
            s->m->row[cell] = FC_NEVER;
            if (residual >= 0) pass_over(s, now, v.state, left, cells);
            value = fc_max(cells, s->m->row);
        }
        v.core -= top - value;
        v.gain = gain;
        v.ahead = ahead;
        v.token++;
        uint64_t *swap = now;
        now = next;
        next = swap;
    }
    return priority_of(&v);
}

/* Experience: a search whose bound has fallen by this share of the distance to the greedy path's score
 * ends soon, if it ends at all. */
#define NEAR 0.55

/* Progress of a search for one path; by the longest path's tokens if the greedy walk finds no path. */
static inline double share_come(const explorer *s) {
    fc_arena *a = s->a;
    if (isnan(a->aim)) a->aim = score_at_once(s);
    if (a->aim == FC_NEVER) return (double)a->tokens / (double)s->T;
    const double all = NEAR * (priority_of(&a->visit[0]) - a->aim),
                 fallen = priority_of(&a->visit[0]) - bound_of(a);
    return fallen < all ? fallen / all : 1.0;
}

/* Progress of a search for several paths: paths found, and tokens of the longest path. */
static inline double share_found(const explorer *s) {
    const double found = (double)s->a->found / (double)s->n;
    return (double)s->a->tokens / (double)s->T * (FIRST_SHARE + (1.0 - FIRST_SHARE) * found);
}

/* The allowance grows with the progress of the search. There must be room for two visits. */
static inline int too_long(const explorer *s) {
    const fc_arena *a = s->a;
    const double least = (double)a->least * (double)s->T, most = (double)a->most * (double)s->T;
    if (!is_bound(s) || (double)a->work < least) return 0;
    if (s->n > 1) return (double)a->work >= least + (most - least) * share_found(s);
    return (double)a->work >= most * share_come(s);
}

typedef enum { ON, AT_THE_LIMIT, TOO_LONG } verdict;

/* Moves from a visit to its best successor: at once, unless an entry of the queue has priority. */
static inline void go_on(explorer *s, int64_t visit) {
    fc_arena *a = s->a;
    if (!best_behind(s, visit, &a->next)) return;
    a->ready = a->queued == 0 || sooner(s, &a->next, &a->queue[0]);
    if (!a->ready) enqueue(s, a->next);
}

/* Whether only the last path is missing, and scores too little (a relative distance, from 1 on). */
static inline int is_apart(const explorer *s) {
    const double next = bound_of(s->a);
    return s->a->apart > 0.0 && s->a->found > 0 && s->a->found == s->n - 1 &&
           s->score[s->n - 2] - next > s->a->apart * fmax(1.0, fabs(next));
}

/* Takes candidates until n paths are found or the queue is empty (FC_OK), or until room or steps are
 * used up. *over is set if `limit` states have been taken or the allowance is used up. */
static inline fc_status explore(explorer *s, int64_t limit, int64_t *steps, verdict *over) {
    fc_arena *a = s->a;
    while ((a->ready || a->queued > 0) && a->found < s->n && !is_apart(s)) {
        if (!has_room(a, 2)) return FC_EFULL;
        *over = a->popped >= limit ? AT_THE_LIMIT : too_long(s) ? TOO_LONG : ON;
        if (*over != ON) return FC_OK;
        if (*steps <= 0) return FC_EPAUSED;
        const fc_candidate c = a->ready ? a->next : candidates_pop(s, a->queue, &a->queued);
        a->ready = 0;
        const int64_t visit = take_candidate(s, &c);
        if (visit < 0 || !worth_taking(s, visit)) continue;
        a->popped++;
        --*steps;
        const int64_t token = a->visit[visit].token;
        a->tokens = token < a->tokens ? a->tokens : token + 1;
        if (token == s->T - 1) write_path(s, visit);
        if (token < s->T - 1) go_on(s, visit);
    }
    return FC_OK;
}

/* Follows the best path of the machine until the acceptors lower its bound. It queues no candidates.
 * Returns the last visit. */
static inline int64_t walk_down(explorer *s) {
    fc_arena *a = s->a;
    int64_t visit = 0;
    while (a->visit[visit].token < s->T - 1) {
        const fc_visit *v = &a->visit[visit];
        const int64_t cells = row_behind(s, v);
        a->work += STEP + cells / 4;
        const double top = fc_max(cells, s->m->row);
        const int64_t cell = top > FC_NEVER ? first_equal(cells, s->m->row, top) : -1;
        if (cell < 0) break;
        const fc_candidate best = {.priority = priority_of(v),
                                   .value = top,
                                   .visit = (int32_t)visit,
                                   .cell = (int32_t)cell};
        const int64_t next = make_visit(s, &best);
        if (next < 0) break;
        if (priority_of(&a->visit[next]) < best.priority) {
            a->visits--;
            break;
        }
        visit = next;
        a->popped++;
    }
    return visit;
}

/* Counts the breaches along the best path of the machine, from a visit on. A breach is a run of tokens
 * at which the grammar rejects the label, which then is not read, or lowers the bound of the path.
 * Counts to MANY. There must be room for two visits: their states are scratch. */
static inline int64_t count_breaches(const explorer *s, int64_t visit) {
    fc_arena *a = s->a;
    const int64_t words = s->g->words;
    uint64_t *now = a->states + a->visits * words, *next = now + words;
    fc_visit v = a->visit[visit];
    int64_t found = 0;
    memcpy(now, a->states + visit * words, (size_t)words * sizeof *now);
    for (int broken = 0; v.token < s->T - 1 && found < MANY; v.token++) {
        const int64_t cells = row_behind(s, &v), left = s->T - 2 - v.token;
        a->work += STEP + cells / 4 + READ * s->g->acceptors;
        const double top = fc_max(cells, s->m->row);
        const int64_t cell = top > FC_NEVER ? first_equal(cells, s->m->row, top) : -1;
        if (cell < 0) break;
        const int64_t place = cell % s->m->plane;
        v.state = joint_state(s->m, place);
        v.residual =
            (int32_t)next_state(s->m, v.token < 0 ? cell / s->m->plane : v.residual, place);
        if (v.residual < 0) break;
        double gain = v.gain, ahead = 0.0;
        const int reads = read_labels(s, now, v.state, left, next, &gain, &ahead);
        const int breaks = !reads || gain + ahead < v.gain + v.ahead;
        found += breaks && !broken;
        broken = breaks;
        if (!reads) continue;
        v.gain = gain;
        v.ahead = ahead;
        uint64_t *swap = now;
        now = next;
        next = swap;
    }
    return found;
}

/* Queues the candidates that the search would have queued on the way to a visit, and continues from
   there. */
static inline void queue_others(explorer *s, int64_t last) {
    fc_candidate c, next;
    for (int64_t visit = 0; visit < last; visit++) {
        worth_taking(s, visit + 1);
        if (best_behind(s, visit, &c) && next_behind(s, &c, &next)) enqueue(s, next);
    }
    s->a->tokens = last; /* no longer path has been taken */
    go_on(s, last);
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
    fc_candidate best;
    for (int64_t k = 0; k < n_from; k++)
        if (best_behind(s, from[k], &best)) enqueue(s, best);
    while (a->queued > 0 && *n_to < width) {
        if (!has_room(a, 1)) return FC_EFULL;
        best = candidates_pop(s, a->queue, &a->queued);
        const int64_t visit = take_candidate(s, &best);
        if (visit >= 0 && !among(s, to, *n_to, visit)) to[(*n_to)++] = visit;
    }
    return FC_OK;
}

/* Paths that obey the grammar, though perhaps not the best ones: follows `width` states of every token.
 * Discards the search; the slots of the table hold the two layers. */
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

/* Scores of n paths of the machine, path k at paths + k * N, added up token by token. */
static inline void machine_scores(const explorer *s, const int32_t *paths, int64_t n,
                                  double *score) {
    const tensor *m = s->m;
    const int plain = table_at_hand(m);
    for (int64_t t = 0; t < s->T; t++) {
        node_scores(m, s->first + t, m->node);
        for (int64_t k = 0; k < n; k++) {
            const int32_t *path = paths + k * s->N;
            const int64_t cell = path[t] / m->S * m->P + path[t] % m->S;
            if (t == 0) score[k] = m->initial[cell];
            if (t > 0 && plain) score[k] += m->axis[0].weight[path[t - 1] * m->P + cell];
            if (t > 0 && !plain) score[k] += arcs_between(m, s->first + t, path[t - 1], path[t]);
            score[k] += m->node[cell];
            if (t == s->T - 1) score[k] += m->final[cell];
        }
    }
}

/* The acceptors' score of a path; states [2][words] is scratch. */
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
