/* SPDX-License-Identifier: Apache-2.0
 *
 * Composition of two machines, breadth first. Labels are matched from the side with fewer arcs: each of
 * its labels is searched among the sorted labels of the other side. A hash table finds the state for a
 * pair of states. If memory runs out, the arcs of the current state are dropped, and the next call
 * repeats the state; states that were discovered remain. */

#include <limits.h>
#include <string.h>

#include "checks.h"

enum { NONE = -1, UNKNOWN = -2 };

/* A label of the first machine costs as much as this many arcs of the second one, searched and sorted. */
#define NARROWER 4

fc_status fc_sort_arcs(int64_t S, int64_t A, int64_t labels, const int32_t *source,
                       const int32_t *label, const int32_t *target, int64_t *row, int32_t *order,
                       int32_t *ordered, int64_t *loud, int64_t *work, int64_t *where) {
    if (S < 1 || S > INT32_MAX / 2 || A > INT32_MAX || labels < 0 || labels >= INT32_MAX)
        return fail(FC_EINVAL, 0, where);
    int64_t *by_label = work, *at = work + A;
    memset(row, 0, (size_t)(S + 1) * sizeof *row);
    memset(at, 0, (size_t)(labels + 3) * sizeof *at);
    for (int64_t a = 0; a < A; a++) {
        if (source[a] < (a > 0 ? source[a - 1] : 0) || source[a] >= S || target[a] < 0 ||
            target[a] >= S || label[a] < UNKNOWN || label[a] >= labels)
            return fail(FC_EINVAL, a, where);
        row[source[a] + 1]++;
        at[label[a] == UNKNOWN ? labels + 2 : label[a] + 2]++;
    }
    for (int64_t s = 0; s < S; s++) row[s + 1] += row[s];
    for (int64_t k = 0; k < labels + 2; k++) at[k + 1] += at[k];
    for (int64_t a = 0; a < A; a++)
        by_label[at[label[a] == UNKNOWN ? labels + 1 : label[a] + 1]++] = a;
    for (int64_t s = 0; s < S; s++) loud[s] = at[s] = row[s];
    for (int64_t k = 0; k < A; k++) {
        const int64_t a = by_label[k], s = source[a], place = at[s]++;
        order[place] = (int32_t)a;
        ordered[place] = label[a] == UNKNOWN ? INT32_MAX : label[a];
        loud[s] += label[a] == NONE;
    }
    return FC_OK;
}

/* --- States -------------------------------------------------------------------------------------- */

/* The slot of a pair of states, or the free slot for it. Pairs with neighbouring states of the second
   machine share a line of memory. */
static inline int32_t *slot_of(const fc_composition *c, int32_t p, int32_t q) {
    const uint64_t mask = (uint64_t)c->slots - 1;
    uint64_t h = ((uint64_t)(uint32_t)p << 32 | (uint32_t)q >> 4) * 0x9E3779B97F4A7C15u;
    h = ((h >> 32) << 4 | ((uint32_t)q & 15)) & mask;
    for (;; h = (h + 1) & mask) {
        const int32_t s = c->slot[h];
        if (s < 0 || (c->first[s] == p && c->second[s] == q)) return c->slot + h;
    }
}

/* The state of the composition; -1: there is no room for another one. */
static inline int32_t met(const fc_operand *b, fc_composition *c, int32_t p, int32_t q, int moved) {
    /* if the second machine has no move without a label, the bit makes no difference */
    const int32_t key = 2 * q + (moved && b->loud[q] > b->row[q]);
    int32_t *slot = slot_of(c, p, key);
    if (*slot < 0) {
        if (c->states == c->state_room) return NONE;
        *slot = (int32_t)c->states;
        c->first[c->states] = p;
        c->second[c->states] = key;
        c->hashed = ++c->states;
    }
    return *slot;
}

/* --- Arcs ---------------------------------------------------------------------------------------- */

/* The first place from `low` on, before `high`, whose label is not below this one. */
static inline int64_t place_of(const int32_t *label, int64_t low, int64_t high, int32_t wanted) {
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (label[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Writes the arcs of both machines with a label; the places of the second are `from` .. `end` - 1. */
static inline int both_move(const fc_operand *b, fc_composition *c, int32_t way, int64_t from,
                            int64_t end) {
    c->wanted += end - from;
    if (c->wanted > c->arc_room) return 0;
    for (int64_t k = from; k < end; k++) {
        c->of[c->arcs] = way;
        c->by[c->arcs++] = b->order[k];
    }
    return 1;
}

/* Matches the labels of each arc of the first machine. */
static void match_first(const fc_operand *a, const fc_operand *b, fc_composition *c, int64_t p,
                        int64_t from, int64_t end) {
    for (int64_t w = a->row[p]; w < a->row[p + 1]; w++) {
        const int32_t label = a->label[w];
        if (label < 0) continue;
        const int64_t k = place_of(b->ordered, from, end, label);
        int64_t last = k;
        while (last < end && b->ordered[last] == label) last++;
        both_move(b, c, (int32_t)w, k, last);
    }
}

/* Sorts arcs by the arc of the first machine; those of one such arc, which have one label, by arc. */
static void sort_ways(int32_t *of, int32_t *by, int64_t n) {
    int64_t gap = 1;
    while (gap < n / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (int64_t i = gap; i < n; i++) {
            const int32_t way = of[i], arc = by[i];
            int64_t j = i;
            for (; j >= gap && (of[j - gap] > way || (of[j - gap] == way && by[j - gap] > arc));
                 j -= gap) {
                of[j] = of[j - gap];
                by[j] = by[j - gap];
            }
            of[j] = way;
            by[j] = arc;
        }
}

/* Matches each label of the second machine, whose arcs with labels are `from` .. `end` - 1. */
static void match_second(const fc_operand *a, const fc_operand *b, fc_composition *c, int64_t p,
                         int64_t from, int64_t end) {
    const int64_t begun = c->arcs, stop = a->row[p + 1];
    int64_t low = a->loud[p], labels = 0;
    for (int64_t k = from, last; k < end && b->ordered[k] < INT32_MAX; k = last) {
        const int32_t label = b->ordered[k];
        for (last = k + 1; last < end && b->ordered[last] == label; last++) continue;
        low = place_of(a->ordered, low, stop, label);
        labels += low < stop && a->ordered[low] == label;
        for (; low < stop && a->ordered[low] == label; low++)
            both_move(b, c, a->order[low], k, last);
    }
    if (labels > 1) sort_ways(c->of + begun, c->by + begun, c->arcs - begun);
}

static fc_status expand(const fc_operand *a, const fc_operand *b, fc_composition *c,
                        int64_t *steps) {
    const int32_t p = c->first[c->next], q = c->second[c->next] / 2;
    const int64_t begun = c->arcs, from = b->loud[q], end = b->row[q + 1];
    const int64_t quiet = c->second[c->next] % 2 ? 0 : from - b->row[q];
    const int64_t ways = a->row[p + 1] - a->loud[p], silent = a->loud[p] - a->row[p];
    c->wanted = c->arcs + quiet + silent;
    if (c->wanted > c->arc_room) return FC_EFULL;
    for (int64_t k = 0; k < quiet; k++) {
        c->of[c->arcs] = NONE;
        c->by[c->arcs++] = b->order[b->row[q] + k];
    }
    for (int64_t k = 0; k < silent; k++) {
        c->of[c->arcs] = a->order[a->row[p] + k];
        c->by[c->arcs++] = NONE;
    }
    if (ways / NARROWER <= end - from) {
        match_first(a, b, c, p, from, end);
        *steps -= ways;
    } else {
        match_second(a, b, c, p, from, end);
        *steps -= end - from;
    }
    *steps -= 1 + c->wanted - begun;
    if (c->wanted > c->arc_room) return FC_EFULL;
    for (int64_t k = begun; k < c->arcs; k++) {
        const int32_t of = c->of[k], by = c->by[k];
        c->target[k] = met(b, c, of < 0 ? p : a->target[of], by < 0 ? q : b->target[by], by < 0);
        if (c->target[k] < 0) return FC_EFULL;
    }
    return FC_OK;
}

fc_status fc_compose(const fc_operand *first, const fc_operand *second, int64_t steps,
                     fc_composition *c) {
    if (c->state_room < 1 || c->state_room > INT32_MAX || c->arc_room > INT32_MAX ||
        c->slots < 16 || c->slots < 2 * c->state_room || (c->slots & (c->slots - 1)) != 0)
        return FC_EINVAL;
    for (; c->hashed < c->states; c->hashed++)
        *slot_of(c, c->first[c->hashed], c->second[c->hashed]) = (int32_t)c->hashed;
    if (c->states == 0) met(second, c, 0, 0, 0);
    for (; c->next < c->states; c->next++) {
        if (steps <= 0) return FC_EPAUSED;
        const int64_t arcs = c->row[c->next] = c->arcs;
        const fc_status status = expand(first, second, c, &steps);
        if (status != FC_OK) {
            c->arcs = arcs;
            return status;
        }
    }
    c->row[c->states] = c->arcs;
    return FC_OK;
}

/* --- The result ---------------------------------------------------------------------------------- */

fc_status fc_composed_arcs(const fc_composition *c, const int32_t *number, const int32_t *place,
                           int64_t states, int32_t *source, int32_t *target, int32_t *of,
                           int32_t *by) {
    int64_t arcs = 0;
    for (int64_t s = 0; s < states; s++)
        for (int64_t k = c->row[place[s]]; k < c->row[place[s] + 1]; k++) {
            if (number[c->target[k]] < 0) continue;
            source[arcs] = (int32_t)s;
            target[arcs] = number[c->target[k]];
            of[arcs] = c->of[k];
            by[arcs++] = c->by[k];
        }
    return FC_OK;
}
