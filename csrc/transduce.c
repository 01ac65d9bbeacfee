/* SPDX-License-Identifier: Apache-2.0
 *
 * Composition of an acyclic machine with a transducer. States of the lattice are processed in
 * topological order. Each state that may be reached has a table from states of the transducer to states
 * of the composition. The table is reused after its state: no hash is needed. If memory runs out, the
 * arcs written for the current state are dropped, and the next call repeats the state; states that were
 * discovered remain. */

#include <limits.h>
#include <math.h>
#include <string.h>

#include "fstcrf.h"
#include "vec.h"

enum { DEAD = -2, NONE = -1 };

/* Fate of a state in trimming: dropped, joined with its only arc in, or with its only arc out. */
enum { DROPPED = -1, WITH_IN = -2, WITH_OUT = -3 };

fc_status fc_look_ahead(const fc_acyclic *m, const int32_t *label, int32_t *ahead, int32_t *only,
                        uint8_t *rises) {
    for (int64_t s = m->S; s-- > 0;) {
        int32_t next = NONE, last = NONE;
        int alike = 1, rising = m->row[s] < m->row[s + 1];
        for (int64_t a = m->row[s]; a < m->row[s + 1]; a++) {
            if (m->score[a] == FC_NEVER) {
                ahead[a] = DEAD;
                rising = 0;
                continue;
            }
            if (label[a] < 0 || (next >= 0 && label[a] != next)) alike = 0;
            next = label[a];
            ahead[a] = label[a] >= 0 ? label[a] : only[m->target[a]];
            if (ahead[a] < 0 || ahead[a] < last) rising = 0;
            last = ahead[a];
        }
        only[s] = alike && !(m->final[s] > FC_NEVER) ? next : NONE;
        rises[s] = (uint8_t)rising;
    }
    return FC_OK;
}

fc_status fc_check_transducer(const fc_transducer *m, int64_t *where) {
    *where = 0;
    if (m->Q < 1 || m->Q > INT32_MAX / 4 || m->L < 0 || m->E > INT32_MAX - m->Q) return FC_EINVAL;
    if (m->start < 0 || m->start >= m->Q || m->index[0] != 0) return FC_EINVAL;
    const int64_t width = m->L + 1;
    for (int64_t q = 0; q < m->Q; q++)
        for (int64_t l = 0; l < width; l++) {
            const int32_t first = m->index[q * width + l], end = m->index[q * width + l + 1];
            *where = first;
            if (first > end || end > m->E) return FC_EINVAL;
            for (int32_t e = first; e < end; e++) {
                *where = e;
                if (m->input[e] != l - 1 || m->target[e] < 0 || m->target[e] >= m->Q)
                    return FC_EINVAL;
                if (l == 0 && m->target[e] <= q) return FC_EINVAL;
            }
        }
    return m->index[m->Q * width] == m->E ? FC_OK : FC_EINVAL;
}

/* --- Writing it ---------------------------------------------------------------------------------- */

/* The state of the composition; -1: no room for another one. */
static int32_t met(const fc_transducer *m, fc_transduced *c, int64_t p, int64_t q, int waits) {
    /* if the transducer has no move without input, the bit makes no difference */
    const int64_t width = m->L + 1;
    if (waits && m->index[q * width] == m->index[q * width + 1]) waits = 0;
    const int32_t key = (int32_t)(2 * q) + waits;
    if (c->slot[p] < 0) {
        if (c->spare == 0) return -1;
        c->slot[p] = c->spares[--c->spare];
    }
    int32_t *cell = c->table + c->slot[p] * 2 * (m->Q + 1) + key;
    if (*cell < 0) {
        if (c->states == c->state_room) return -1;
        const int32_t s = (int32_t)c->states++;
        c->key[s] = key;
        c->next[s] = c->head[p];
        c->head[p] = *cell = s;
    }
    return *cell;
}

static fc_status write_arc(fc_transduced *c, int64_t source, int32_t target, int64_t of,
                           int64_t by) {
    if (target < 0 || c->arcs == c->arc_room) return FC_EFULL;
    const int64_t a = c->arcs++;
    c->source[a] = (int32_t)source;
    c->target[a] = target;
    c->of[a] = (int32_t)of;
    c->by[a] = (int32_t)by;
    return FC_OK;
}

/* Adds the states that moves without input reach from states at p. */
static fc_status close_alone(const fc_transducer *m, fc_transduced *c, int64_t p) {
    const int64_t width = m->L + 1;
    int32_t done = -1; /* states down to this one have been processed */
    for (;;) {
        const int32_t top = c->head[p];
        if (top == done) return FC_OK;
        for (int32_t s = top; s != done; s = c->next[s]) {
            const int64_t q = c->key[s] / 2;
            if (c->key[s] % 2 || q == m->Q) continue;
            for (int32_t e = m->index[q * width]; e < m->index[q * width + 1]; e++)
                if (met(m, c, p, m->target[e], 0) < 0) return FC_EFULL;
        }
        done = top;
    }
}

/* Sorts the n keys of the states at p: moves without input lead to higher ones. */
static void sort_keys(int32_t *key, int64_t n) {
    int64_t gap = 1;
    while (gap < n / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (int64_t i = gap; i < n; i++) {
            const int32_t one = key[i];
            int64_t j = i;
            for (; j >= gap && key[j - gap] > one; j -= gap) key[j] = key[j - gap];
            key[j] = one;
        }
}

/* Takes an arc of the lattice from state s, at state q of the transducer. */
static fc_status follow(const fc_acyclic *lattice, const int32_t *label, const int32_t *ahead,
                        const fc_transducer *m, fc_transduced *c, int64_t s, int64_t q, int64_t a) {
    const int32_t *index = m->index + q * (m->L + 1) + 1;
    const int32_t next = ahead[a], p = lattice->target[a];
    if (next == DEAD || (next >= 0 && index[next] == index[next + 1])) return FC_OK;
    if (label[a] < 0) return write_arc(c, s, met(m, c, p, q, 1), a, NONE);
    fc_status status = FC_OK;
    for (int32_t e = index[next]; e < index[next + 1] && status == FC_OK; e++)
        status = write_arc(c, s, met(m, c, p, m->target[e], 0), a, e);
    return status;
}

/* Takes the arcs of p from state s: all of them, or only the arcs whose label the transducer reads. */
static fc_status leave(const fc_acyclic *lattice, const int32_t *label, const int32_t *ahead,
                       int rises, const fc_transducer *m, fc_transduced *c, int64_t p, int64_t s,
                       int64_t q) {
    const int64_t first = lattice->row[p], end = lattice->row[p + 1];
    const int32_t *index = m->index + q * (m->L + 1);
    fc_status status = FC_OK;
    if (!rises || (int64_t)(index[m->L + 1] - index[1]) * 4 >= end - first) {
        for (int64_t a = first; a < end && status == FC_OK; a++)
            status = follow(lattice, label, ahead, m, c, s, q, a);
        return status;
    }
    for (int32_t e = index[1]; e < index[m->L + 1];) {
        const int32_t read = m->input[e];
        int64_t low = first, high = end;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (ahead[middle] < read)
                low = middle + 1;
            else
                high = middle;
        }
        for (; low < end && ahead[low] == read; low++) {
            status = follow(lattice, label, ahead, m, c, s, q, low);
            if (status != FC_OK) return status;
        }
        e = index[read + 2];
    }
    return FC_OK;
}

static fc_status expand(const fc_acyclic *lattice, const int32_t *label, const int32_t *ahead,
                        int rises, const fc_transducer *m, fc_transduced *c, int64_t p) {
    const int64_t width = m->L + 1;
    fc_status status = close_alone(m, c, p);
    if (status != FC_OK) return status;
    int64_t n = 0;
    for (int32_t s = c->head[p]; s >= 0; s = c->next[s])
        if (c->key[s] / 2 < m->Q) c->here[n++] = c->key[s];
    sort_keys(c->here, n);
    const int32_t *table = c->table + c->slot[p] * 2 * (m->Q + 1);
    int32_t end = -1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t q = c->here[i] / 2, s = c->numbered++;
        c->number[table[c->here[i]]] = (int32_t)s;
        c->place[s] = (int32_t)p;
        if (m->ends[q] && lattice->final[p] > FC_NEVER) {
            end = met(m, c, p, m->Q, 0);
            status = write_arc(c, s, end, NONE, m->E + q);
        }
        if (c->here[i] % 2 == 0)
            for (int32_t e = m->index[q * width]; e < m->index[q * width + 1]; e++)
                if (status == FC_OK)
                    status = write_arc(c, s, met(m, c, p, m->target[e], 0), NONE, e);
        if (status == FC_OK) status = leave(lattice, label, ahead, rises, m, c, p, s, q);
        if (status != FC_OK) return status;
    }
    if (end >= 0) {
        c->number[end] = (int32_t)c->numbered;
        c->place[c->numbered++] = (int32_t)p;
    }
    return FC_OK;
}

fc_status fc_transduce(const fc_acyclic *lattice, const int32_t *label, const int32_t *ahead,
                       const uint8_t *rises, const fc_transducer *m, fc_transduced *c) {
    if (c->state_room > INT32_MAX || c->arc_room > INT32_MAX) return FC_EINVAL;
    for (int64_t a = 0; a < lattice->A; a++)
        if (label[a] >= m->L) return FC_EINVAL;
    for (; c->node < lattice->S; c->node++) {
        const int64_t p = c->node, arcs = c->arcs, numbered = c->numbered;
        if (c->row < lattice->B && lattice->begins[c->row] == p) {
            const int32_t s = met(m, c, p, m->start, 0);
            if (s < 0) return FC_EFULL;
            c->first[c->row] = s;
        }
        if (c->head[p] >= 0) {
            const fc_status status = expand(lattice, label, ahead, rises[p], m, c, p);
            if (status != FC_OK) {
                c->arcs = arcs;
                c->numbered = numbered;
                return status;
            }
            int32_t *table = c->table + c->slot[p] * 2 * (m->Q + 1);
            for (int32_t s = c->head[p]; s >= 0; s = c->next[s]) table[c->key[s]] = -1;
            c->spares[c->spare++] = c->slot[p];
            c->slot[p] = -1;
        }
        while (c->row < lattice->B && lattice->begins[c->row] == p) c->row++;
    }
    return FC_OK;
}

/* --- Trimming -------------------------------------------------------------------------- */

static int says_nothing(const fc_transduced *c, const uint8_t *plain, int64_t a) {
    return c->by[a] < 0 && plain[c->of[a]];
}

/* Drops arcs to states from which no path ends; `live` [n] marks the states from which one does. */
static void drop_dead(fc_transduced *c, int32_t *live) {
    for (int64_t a = c->arcs; a-- > 0;)
        if (live[c->target[a]]) live[c->source[a]] = 1;
    int64_t left = 0;
    for (int64_t a = 0; a < c->arcs; a++) {
        if (!live[c->target[a]]) continue;
        c->source[left] = c->source[a];
        c->target[left] = c->target[a];
        c->of[left] = c->of[a];
        c->by[left++] = c->by[a];
    }
    c->arcs = left;
}

fc_status fc_trim_transduced(const fc_transducer *m, const uint8_t *plain, fc_transduced *c,
                             int32_t *work, int64_t *count) {
    const int64_t n = c->numbered;
    int32_t *left = work, *into = left + n, *mixed = into + n, *row = mixed + n;
    for (int64_t s = 0; s < n; s++) left[s] = 0;
    for (int64_t s = 0; s < c->states; s++)
        if (c->key[s] / 2 == m->Q) left[c->number[s]] = 1;
    for (int64_t a = 0; a < c->arcs; a++) c->target[a] = c->number[c->target[a]];
    drop_dead(c, left);
    memset(into, 0, (size_t)n * sizeof *into);
    memset(mixed, 0, (size_t)n * sizeof *mixed);
    memset(row, 0, (size_t)(n + 1) * sizeof *row);
    for (int64_t a = 0; a < c->arcs; a++) {
        const int32_t t = c->target[a];
        into[t]++;
        row[c->source[a] + 1]++;
        if (!says_nothing(c, plain, a)) mixed[t] = 1;
    }
    for (int64_t s = 0; s < n; s++) row[s + 1] += row[s];
    for (int64_t b = 0; b < c->row; b++) { /* the states where rows begin remain */
        const int32_t s = c->number[c->first[b]];
        left[s] = mixed[s] = 1;
    }
    for (int64_t s = 0; s < c->states; s++)
        if (c->key[s] / 2 == m->Q) mixed[c->number[s]] = 1;
    count[0] = count[1] = 0;
    for (int64_t s = 0; s < n; s++) {
        if (!left[s]) {
            left[s] = DROPPED;
            continue;
        }
        left[s] = 0;
        if (!mixed[s] && into[s] == 1) {
            left[s] = WITH_IN;
            for (int32_t a = row[s]; a < row[s + 1]; a++) mixed[c->target[a]] = 1;
        } else if (!mixed[s] && row[s + 1] == row[s] + 1 && !says_nothing(c, plain, row[s])) {
            left[s] = WITH_OUT;
        }
        if (left[s] == 0) left[s] = (int32_t)count[0]++;
    }
    for (int64_t a = 0; a < c->arcs; a++)
        if (left[c->target[a]] != WITH_IN && left[c->source[a]] != WITH_OUT) count[1]++;
    return FC_OK;
}

fc_status fc_transduced_arcs(const fc_acyclic *lattice, const double *gain, const fc_transduced *c,
                             const int32_t *work, int32_t *place, int64_t *begins, int64_t *row,
                             int32_t *source, int32_t *target, int32_t *before, int32_t *of,
                             int32_t *by, double *score) {
    const int64_t n = c->numbered;
    const int32_t *left = work, *first = work + 3 * n;
    int64_t states = 0, arcs = 0;
    for (int64_t b = 0; b < lattice->B; b++) begins[b] = left[c->number[c->first[b]]];
    row[0] = 0;
    for (int64_t s = 0; s < n; s++) {
        if (left[s] < 0) continue;
        for (int32_t a = first[s]; a < first[s + 1]; a++) {
            /* the arcs out of a state that is joined with this arc, its only one in, replace this
               arc */
            const int32_t t = c->target[a];
            const int joined = left[t] == WITH_IN;
            for (int32_t b = joined ? first[t] : a; b < (joined ? first[t + 1] : a + 1); b++) {
                const int behind = left[c->target[b]] == WITH_OUT;
                const int32_t y = behind ? first[c->target[b]] : b;
                source[arcs] = (int32_t)states;
                target[arcs] = left[c->target[y]];
                before[arcs] = joined ? c->of[a] : behind ? c->of[b] : NONE;
                of[arcs] = c->of[y];
                by[arcs] = c->by[y];
                score[arcs] = (before[arcs] < 0 ? 0.0 : lattice->score[before[arcs]]) +
                              (of[arcs] < 0 ? 0.0 : lattice->score[of[arcs]]) +
                              (by[arcs] < 0 ? 0.0 : gain[by[arcs]]);
                arcs++;
            }
        }
        place[states++] = c->place[s];
        row[states] = arcs;
    }
    return FC_OK;
}
