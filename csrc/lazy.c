/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of sentences under a grammar that is not multiplied out. */

#include "lazy.h"

#include "checks.h"

enum { FRESH, SEARCHING, GIVING_UP };

static void no_paths(const explorer *s, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        s->score[k] = FC_NEVER;
        for (int64_t t = 0; t < s->T; t++) s->path[k * s->N + s->first + t] = -1;
    }
}

/* One sentence, from where the arena says that its search stands. */
static fc_status sentence(explorer *s, int64_t limit, int64_t width, int64_t *steps, int give_up,
                          int64_t *proven, double *bound) {
    fc_arena *a = s->a;
    if (a->phase == FRESH) {
        double top;
        no_paths(s, s->n);
        a->found = a->popped = a->work = 0;
        a->stamp++;
        *proven = 0;
        *bound = FC_NEVER;
        if (backward(s->m, MAX_PLUS, s->first, s->T, &top) != DONE) return FC_OK;
        begin_search(s);
        if (a->visit[0].ahead == FC_NEVER) return FC_OK;
        queue_successor(s, 0, 0.0, -1);
        a->phase = SEARCHING;
    }
    if (a->phase == SEARCHING) {
        verdict over = give_up ? AT_THE_LIMIT : ON;
        const fc_status status = give_up ? FC_OK : explore(s, limit, steps, &over);
        if (status != FC_OK) return status;
        *proven = a->found;
        *bound = over && a->queued > 0 ? a->queue[0].priority : FC_NEVER;
        if (over != AT_THE_LIMIT || a->found > 0 || *bound == FC_NEVER) return FC_OK;
        a->phase = GIVING_UP;
    }
    return beam(s, width);
}

fc_status fc_lazy_nbest(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                        const int64_t *offsets, int64_t n, int64_t limit, int64_t width,
                        int64_t steps, int give_up, fc_arena *arena, int32_t *path, double *score,
                        int64_t *count, int64_t *proven, double *bound, int64_t *popped,
                        double *work) {
    int64_t where;
    const fc_arena *a = arena;
    if (n < 1 || n > INT32_MAX || width < 1 || width > INT32_MAX || steps < 1) return FC_EINVAL;
    if (a->visit_room > INT32_MAX || a->slots < 2 * a->visit_room || a->queue_room < 2 ||
        (a->slots & (a->slots - 1)) != 0 || a->sentence < 0 || a->sentence > B || a->stamp < 0 ||
        a->stamp + B - a->sentence > INT32_MAX)
        return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    /* Cells of a row and tokens are numbered in 32 bits. */
    const int64_t rows = machine->residual == NULL ? 1 : machine->residual->Q;
    if (rows > INT32_MAX / (machine->outer * fc_padded(machine->S))) return FC_EINVAL;
    if (longest_of(B, offsets) >= INT32_MAX) return FC_EINVAL;
    lay_out_tensor(&m, machine, longest_of(B, offsets), work);
    m.forgets = 1;
    load_static(&m, MAX_PLUS);
    explorer s = {.m = &m, .g = grammar, .a = arena, .n = n, .N = offsets[B], .path = path};
    for (int again = arena->phase == SEARCHING; arena->sentence < B; arena->sentence++) {
        const int64_t b = arena->sentence;
        s.first = offsets[b];
        s.T = offsets[b + 1] - s.first;
        s.score = score + b * n;
        if (again) fill_table(&s);
        again = 0;
        const fc_status found = sentence(&s, limit, width, &steps, give_up, proven + b, bound + b);
        if (found != FC_OK) return found;
        count[b] = arena->found;
        popped[b] = arena->popped;
        arena->phase = FRESH;
        if (give_up == 1) give_up = 0;
    }
    return FC_OK;
}

fc_status fc_path_scores(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                         const int64_t *offsets, int64_t n, const int32_t *path,
                         const int64_t *count, uint64_t *states, double *score, double *work) {
    int64_t where;
    if (n < 1 || n > INT32_MAX) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    lay_out_tensor(&m, machine, 1, work);
    load_static(&m, MAX_PLUS);
    explorer s = {.m = &m, .g = grammar};
    const int64_t N = offsets[B], joint = m.outer * m.S;
    for (int64_t i = 0; i < B * n; i++) score[i] = FC_NEVER;
    for (int64_t b = 0; b < B; b++) {
        s.first = offsets[b];
        s.T = offsets[b + 1] - s.first;
        for (int64_t k = 0; k < count[b] && k < n; k++) {
            const int32_t *one = path + k * N + s.first;
            for (int64_t t = 0; t < s.T; t++)
                if (one[t] < 0 || one[t] >= joint) return FC_EINVAL;
            const double own = machine_score(&m, s.first, s.T, one);
            score[b * n + k] = own + grammar_score(&s, one, states);
        }
    }
    return FC_OK;
}
