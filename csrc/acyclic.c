/* SPDX-License-Identifier: Apache-2.0
 *
 * Acyclic machines: any acyclic acceptor as flat arrays. States are numbered in topological order, so
 * one pass from the last state to the first computes the score of the best continuation of each state
 * (or the log of the sum over all): its *suffix*. Everything else reads the suffixes. A choice at a
 * state is one of its arcs, or to end there. */

#include <math.h>
#include <string.h>

#include "arcs.h"
#include "checks.h"
#include "heap.h"

#define STOP (-1) /* the choice to end; before all arcs */

/* --- Which states matter, and their order ------------------------------------------------------ */

/* `acyclic`: arcs lead to higher states. */
static fc_status check_arcs(int64_t S, const int64_t *row, const int32_t *target, int acyclic,
                            int64_t *where) {
    if (S < 1 || S > INT32_MAX) return FC_EINVAL;
    const fc_status status = check_rows(S, row, where);
    if (status != FC_OK) return status;
    for (int64_t s = 0; s < S; s++)
        for (int64_t a = row[s]; a < row[s + 1]; a++) {
            *where = a;
            if (target[a] < 0 || target[a] >= S || (acyclic && target[a] <= s)) return FC_EINVAL;
        }
    return FC_OK;
}

/* Marks with `bit` the states reachable from the `size` states in `stack`, which are marked already. */
static void spread(const int64_t *row, const int32_t *next, uint8_t bit, int32_t *stack,
                   int64_t size, uint8_t *mark) {
    while (size > 0) {
        const int32_t s = stack[--size];
        for (int64_t a = row[s]; a < row[s + 1]; a++) {
            if (mark[next[a]] & bit) continue;
            mark[next[a]] |= bit;
            stack[size++] = next[a];
        }
    }
}

/* The same arcs, by target: the arcs into t have the sources source[row[t]] .. source[row[t + 1] -
   1]. */
static void turn_round(int64_t S, const int64_t *row, const int32_t *target, int64_t *turned,
                       int32_t *source) {
    memset(turned, 0, (size_t)(S + 1) * sizeof *turned);
    for (int64_t a = 0; a < row[S]; a++) turned[target[a] + 1]++;
    for (int64_t s = 0; s < S; s++) turned[s + 1] += turned[s];
    for (int64_t s = 0; s < S; s++)
        for (int64_t a = row[s]; a < row[s + 1]; a++) source[turned[target[a]]++] = (int32_t)s;
    for (int64_t s = S; s > 0; s--) turned[s] = turned[s - 1];
    turned[0] = 0;
}

fc_status fc_connected(int64_t S, const int64_t *row, const int32_t *target, int64_t start,
                       const uint8_t *ends, uint8_t *keep, int64_t *turned, int32_t *work,
                       int64_t *where) {
    const fc_status status = check_arcs(S, row, target, 0, where);
    if (status != FC_OK) return status;
    memset(keep, 0, (size_t)S);
    if (start < 0 || start >= S) return FC_OK;
    int32_t *stack = work, *source = work + S;
    keep[start] = 1;
    stack[0] = (int32_t)start;
    spread(row, target, 1, stack, 1, keep);
    turn_round(S, row, target, turned, source);
    int64_t size = 0;
    for (int64_t s = 0; s < S; s++)
        if (ends[s]) {
            keep[s] |= 2;
            stack[size++] = (int32_t)s;
        }
    spread(turned, source, 2, stack, size, keep);
    for (int64_t s = 0; s < S; s++) keep[s] = keep[s] == 3;
    return FC_OK;
}

/* A state on a cycle, among the states without a number: each of them has a predecessor among them. */
static int64_t on_cycle(int64_t S, const int64_t *row, const int32_t *target, const int32_t *number,
                        int32_t *before) {
    int64_t s = -1;
    for (int64_t i = 0; i < S; i++) {
        if (number[i] >= 0) continue;
        for (int64_t a = row[i]; a < row[i + 1]; a++) before[target[a]] = (int32_t)i;
        s = i;
    }
    for (int64_t k = 0; s >= 0 && k < S; k++) s = before[s];
    return s;
}

fc_status fc_topological(int64_t S, const int64_t *row, const int32_t *target, int32_t *number,
                         int64_t *cycle, int32_t *work, int64_t *where) {
    const fc_status status = check_arcs(S, row, target, 0, where);
    if (status != FC_OK) return status;
    int32_t *entering = work, *line = work + S;
    memset(entering, 0, (size_t)S * sizeof *entering);
    for (int64_t a = 0; a < row[S]; a++) {
        if (entering[target[a]] == INT32_MAX) return FC_EINVAL;
        entering[target[a]]++;
    }
    int64_t size = 0;
    for (int64_t s = 0; s < S; s++) {
        number[s] = -1;
        if (entering[s] == 0) line[size++] = (int32_t)s;
    }
    for (int64_t k = 0; k < size; k++) {
        const int32_t s = line[k];
        number[s] = (int32_t)k;
        for (int64_t a = row[s]; a < row[s + 1]; a++)
            if (--entering[target[a]] == 0) line[size++] = target[a];
    }
    *cycle = size == S ? -1 : on_cycle(S, row, target, number, work);
    return FC_OK;
}

/* --- Suffixes ---------------------------------------------------------------------------------- */

fc_status fc_check_acyclic(const fc_acyclic *m, int64_t *where) {
    *where = m->S; /* before targets are read up to row[S] */
    if (m->S < 1 || m->A > INT32_MAX || m->row[m->S] != m->A) return FC_EINVAL;
    const fc_status status = check_arcs(m->S, m->row, m->target, 1, where);
    if (status != FC_OK) return status;
    for (int64_t b = 0; b < m->B; b++) {
        *where = m->S;
        if (m->begins[b] < 0 || m->begins[b] >= m->S) return FC_EINVAL;
    }
    *where = fc_first_invalid(m->A, m->score);
    if (*where < 0) *where = fc_first_invalid(m->S, m->final);
    return *where < 0 ? FC_OK : FC_ENUMERIC;
}

fc_status fc_acyclic_lengths(const fc_acyclic *m, const int32_t *label, int32_t *shortest,
                             int32_t *longest) {
    for (int64_t s = 0; s < m->S; s++) shortest[s] = longest[s] = -1;
    for (int64_t b = 0; b < m->B; b++) shortest[m->begins[b]] = longest[m->begins[b]] = 0;
    for (int64_t s = 0; s < m->S; s++) {
        if (longest[s] < 0) continue;
        for (int64_t a = m->row[s]; a < m->row[s + 1]; a++) {
            const int32_t step = label == NULL || label[a] >= 0 ? 1 : 0, t = m->target[a];
            const int32_t least = shortest[s] + step, most = longest[s] + step;
            if (longest[t] < 0 || least < shortest[t]) shortest[t] = least;
            if (most > longest[t]) longest[t] = most;
        }
    }
    return FC_OK;
}

/* Each suffix is stored with its rounding error: the suffix of the first state is as exact as one
 * addition. */
fc_status fc_acyclic_suffix(const fc_acyclic *m, double *suffix, double *lost, double *stop,
                            double *share) {
    const arc_list arcs = {m->score, m->target, suffix, lost};
    int coarse = 0;
    for (int64_t s = m->S - 1; s >= m->first; s--) {
        const int64_t begin = m->row[s], end = m->row[s + 1];
        const double final = m->final[s], best = best_arc_score(&arcs, begin, end, final);
        suffix[s] = best;
        if (share == NULL) continue;
        const double rest = sum_arcs(&arcs, begin, end, final, best, coarse, share, stop + s);
        fc_keep(best, rest, suffix + s, lost + s);
        coarse |= fabs(lost[s]) > FC_MOST_LOST;
    }
    return FC_OK;
}

/* --- Sums and maxima of arcs ------------------------------------------------------------------- */

fc_status fc_acyclic_marginals(const fc_acyclic *m, const double *suffix, const double *stop,
                               const double *share, double *node, double *arc, double *end) {
    for (int64_t s = 0; s < m->S; s++) node[s] = 0.0;
    for (int64_t b = 0; b < m->B; b++)
        node[m->begins[b]] = suffix[m->begins[b]] == FC_NEVER ? 0.0 : 1.0;
    for (int64_t s = 0; s < m->S; s++) {
        end[s] = node[s] * stop[s];
        for (int64_t a = m->row[s]; a < m->row[s + 1]; a++) {
            arc[a] = node[s] * share[a];
            node[m->target[a]] += arc[a];
        }
    }
    return FC_OK;
}

fc_status fc_acyclic_max_marginals(const fc_acyclic *m, const double *suffix, double *prefix,
                                   double *arc) {
    for (int64_t s = 0; s < m->S; s++) prefix[s] = FC_NEVER;
    for (int64_t b = 0; b < m->B; b++) prefix[m->begins[b]] = 0.0;
    for (int64_t s = 0; s < m->S; s++)
        for (int64_t a = m->row[s]; a < m->row[s + 1]; a++) {
            const int32_t t = m->target[a];
            const double value = prefix[s] + m->score[a];
            prefix[t] = value > prefix[t] ? value : prefix[t];
            arc[a] = value + suffix[t];
        }
    return FC_OK;
}

/* --- Best paths -------------------------------------------------------------------------------- */

FC_INLINE double value_of(const fc_acyclic *m, const double *suffix, int64_t s, int64_t choice) {
    return choice == STOP ? m->final[s] : m->score[choice] + suffix[m->target[choice]];
}

typedef struct {
    double value;
    int64_t choice;
} option;

/* The next-best choice at s after another one; ties: the smaller choice. A value of -inf means that
 * there is no further choice. */
static option next_option(const fc_acyclic *m, const double *suffix, int64_t s, option last) {
    option found = {FC_NEVER, STOP};
    const int64_t begin = m->row[s] - 1;
    for (int64_t k = begin; k < m->row[s + 1]; k++) {
        const int64_t choice = k == begin ? STOP : k;
        const double value = value_of(m, suffix, s, choice);
        const int later = value < last.value || (value == last.value && choice > last.choice);
        if (later && value > found.value) found = (option){value, choice};
    }
    return found;
}

static option first_option(const fc_acyclic *m, const double *suffix, int64_t s) {
    return next_option(m, suffix, s, (option){INFINITY, STOP});
}

/* A step is a prefix of a known path: its last arc, and the prefix before that, -1 for the empty one. A
 * prefix that several paths share is one step. */
typedef struct {
    fc_step *step;
    int64_t steps, step_room;
    fc_deviation *heap;
    int64_t size, heap_room;
} search;

FC_INLINE int64_t depth_of(const search *h, int64_t prefix) {
    return prefix < 0 ? 0 : h->step[prefix].depth;
}

/* Whether path a takes the smaller choice at the point where the two paths separate; neither is a
   prefix of the other. */
static int smaller(const search *h, const fc_deviation *a, const fc_deviation *b) {
    int64_t p = a->prefix, q = b->prefix, left = a->choice, right = b->choice;
    while (p != q) {
        const int64_t deep = depth_of(h, p), other = depth_of(h, q);
        if (deep >= other) {
            left = h->step[p].arc;
            p = h->step[p].prefix;
        }
        if (other >= deep) {
            right = h->step[q].arc;
            q = h->step[q].prefix;
        }
    }
    return left < right;
}

static int before(const search *h, const fc_deviation *a, const fc_deviation *b) {
    return a->priority != b->priority ? a->priority > b->priority : smaller(h, a, b);
}

FC_HEAP(deviations, const search *, fc_deviation, before)

static fc_status push(search *h, fc_deviation d) {
    if (h->size == h->heap_room) return FC_EFULL;
    deviations_push(h, h->heap, &h->size, d);
    return FC_OK;
}

FC_INLINE double prefix_score(const search *h, int64_t prefix) {
    return prefix < 0 ? 0.0 : h->step[prefix].score;
}

static fc_status queue(search *h, int64_t prefix, option o) {
    if (o.value == FC_NEVER) return FC_OK;
    const double priority = prefix_score(h, prefix) + o.value;
    return push(h, (fc_deviation){priority, o.value, o.choice, prefix});
}

/* Extends a prefix by one choice and then by the best choices to the end; queues the second-best choice
 * of every new state. The complete path is *prefix. */
static fc_status walk(const fc_acyclic *m, const double *suffix, search *h, int64_t *prefix,
                      option o) {
    while (o.choice != STOP) {
        if (h->steps == h->step_room) return FC_EFULL;
        h->step[h->steps] = (fc_step){.score = prefix_score(h, *prefix) + m->score[o.choice],
                                      .arc = (int32_t)o.choice,
                                      .prefix = (int32_t)*prefix,
                                      .depth = (int32_t)depth_of(h, *prefix) + 1};
        *prefix = h->steps++;
        const int64_t s = m->target[o.choice];
        o = first_option(m, suffix, s);
        const fc_status status = queue(h, *prefix, next_option(m, suffix, s, o));
        if (status != FC_OK) return status;
    }
    return FC_OK;
}

/* Writes a path from `begin` on; its score is summed from its end, like the suffixes. */
static double spell(const fc_acyclic *m, const search *h, int64_t begin, int64_t prefix,
                    int64_t width, int32_t *path) {
    int64_t t = depth_of(h, prefix);
    for (int64_t k = t; k < width; k++) path[k] = -1;
    double score = m->final[prefix < 0 ? begin : m->target[h->step[prefix].arc]];
    for (; prefix >= 0; prefix = h->step[prefix].prefix) {
        path[--t] = h->step[prefix].arc;
        score = m->score[path[t]] + score;
    }
    return score;
}

static fc_status ranked(const fc_acyclic *m, const double *suffix, search *h, int64_t begin,
                        int64_t n, int64_t width, int32_t *path, double *score, int64_t *count) {
    h->steps = h->size = *count = 0;
    fc_status status = n > 0 ? queue(h, -1, first_option(m, suffix, begin)) : FC_OK;
    while (status == FC_OK && *count < n && h->size > 0) {
        const fc_deviation d = deviations_pop(h, h->heap, &h->size);
        const int64_t s = d.prefix < 0 ? begin : m->target[h->step[d.prefix].arc];
        const option o = {d.value, d.choice};
        int64_t prefix = d.prefix;
        status = queue(h, prefix, next_option(m, suffix, s, o));
        if (status == FC_OK) status = walk(m, suffix, h, &prefix, o);
        if (status != FC_OK) break;
        score[*count] = spell(m, h, begin, prefix, width, path + *count * width);
        ++*count;
    }
    return status;
}

fc_status fc_acyclic_nbest(const fc_acyclic *m, const double *suffix, int64_t n, int64_t width,
                           int64_t step_room, fc_step *steps, int64_t heap_room, fc_deviation *heap,
                           int32_t *path, double *score, int64_t *count, int64_t *b) {
    search h = {.step = steps, .step_room = step_room, .heap = heap, .heap_room = heap_room};
    if (step_room > INT32_MAX) return FC_EINVAL; /* prefixes are numbered in 32 bits */
    for (; *b < m->B; ++*b) {
        const fc_status status = ranked(m, suffix, &h, m->begins[*b], n, width,
                                        path + *b * n * width, score + *b * n, count + *b);
        if (status != FC_OK) return status;
    }
    return FC_OK;
}

fc_status fc_acyclic_best(const fc_acyclic *m, const double *suffix, int64_t room, int32_t *path,
                          int64_t *offset) {
    int64_t length = 0;
    for (int64_t b = 0; b < m->B; b++) {
        offset[b] = length;
        for (int64_t s = m->begins[b]; suffix[s] > FC_NEVER;) {
            const int64_t choice = first_option(m, suffix, s).choice;
            if (choice == STOP) break;
            if (length == room) return FC_EFULL;
            path[length++] = (int32_t)choice;
            s = m->target[choice];
        }
    }
    offset[m->B] = length;
    return FC_OK;
}

/* --- Samples ----------------------------------------------------------------------------------- */

/* The choice at s selected by u; the last possible one, if rounding leaves a gap. */
static int64_t drawn(const fc_acyclic *m, const double *stop, const double *share, int64_t s,
                     double u) {
    double sum = stop[s];
    int64_t last = STOP;
    if (sum > u) return last;
    for (int64_t a = m->row[s]; a < m->row[s + 1]; a++) {
        FC_ASSERT(!isnan(share[a]));
        if (!(share[a] > 0.0)) continue;
        sum += share[a];
        last = a;
        if (sum > u) break;
    }
    return last;
}

fc_status fc_acyclic_sample(const fc_acyclic *m, const double *stop, const double *share, int64_t n,
                            int64_t width, const double *uniform, int32_t *path) {
    for (int64_t k = 0; k < m->B * n; k++, path += width, uniform += width) {
        int64_t s = m->begins[k / n], t = 0;
        for (; t < width; t++) {
            const int64_t choice = drawn(m, stop, share, s, uniform[t]);
            if (choice == STOP) break;
            path[t] = (int32_t)choice;
            s = m->target[choice];
        }
        for (; t < width; t++) path[t] = -1;
    }
    return FC_OK;
}
