/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of sentences under a grammar that is not expanded. */

#include "lazy.h"

#include "checks.h"

enum { FRESH, SEARCHING, GIVING_UP, HANDED_OVER };

/* Cells of the product that count as one step. */
#define CELLS_A_STEP 512

/* The product that decodes if a search takes too long; laid out at its first use. */
typedef struct {
    const fc_product *given;
    int ready;
    tensor m;
    queue h;
    int32_t *q;
} stand_in;

static void no_paths(const explorer *s, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        s->score[k] = FC_NEVER;
        for (int64_t t = 0; t < s->T; t++) s->path[k * s->N + s->first + t] = -1;
    }
}

/* Scores of paths, added up token by token; 0: a path has numbers that are not joint states. */
static int score_paths(const explorer *s, const int32_t *paths, int64_t n, int scored,
                       uint64_t *states, double *score) {
    const int64_t joint = s->m->outer * s->m->S;
    for (int64_t k = 0; k < n; k++)
        for (int64_t t = 0; t < s->T; t++)
            if (paths[k * s->N + t] < 0 || paths[k * s->N + t] >= joint) return 0;
    machine_scores(s, paths, n, score);
    for (int64_t k = 0; k < n && scored; k++)
        score[k] += grammar_score(s, paths + k * s->N, states);
    return 1;
}

static void lay_out_product(stand_in *w, int64_t n) {
    const fc_product *g = w->given;
    w->q = (int32_t *)(g->work + lay_out_tensor(&w->m, g->machine, g->longest, g->work));
    w->m.forgets = 1;
    if (n > 1) lay_out_queue(&w->h, &w->m, n, g->longest, g->queue);
    w->ready = 1;
}

/* The n best paths of a sentence by the product, scored like paths of the search. */
static fc_status over_product(explorer *s, stand_in *w, int64_t *steps, int64_t *proven,
                              double *bound) {
    fc_arena *a = s->a;
    double top;
    if (w->given == NULL) return FC_EPRODUCT;
    if (s->T > w->given->longest) return FC_EINVAL;
    if (*steps <= 0) return FC_EPAUSED;
    if (!w->ready) lay_out_product(w, s->n);
    *steps -= 1 + s->T * w->m.full / CELLS_A_STEP;
    no_paths(s, s->n);
    a->found = 0;
    if (backward(&w->m, MAX_PLUS, s->first, s->T, &top) == DONE) {
        w->h.stamp = a->sentence + 1;
        w->h.floor = FC_NEVER;
        if (s->n == 1) walk_best(&w->m, s->first, s->T, s->path + s->first, w->q);
        a->found =
            s->n == 1 ? 1 : walk_nbest(&w->m, &w->h, s->first, s->T, s->n, s->N, s->path, s->score);
    }
    /* The states of visits are free scratch, because the search is over. */
    if (!score_paths(s, s->path + s->first, a->found, w->given->scored, a->states, s->score))
        return FC_ENUMERIC; /* scores have changed meanwhile */
    /* Rounding may make a path better than the previous one. */
    for (int64_t k = 1; k < a->found; k++)
        if (s->score[k] > s->score[k - 1]) s->score[k] = s->score[k - 1];
    *proven = a->found;
    *bound = FC_NEVER;
    return FC_OK;
}

/* Begins a search: returns the best path of the machine if the grammar accepts it, else queues the
   candidates along it. */
static fc_status begin(explorer *s, int64_t limit, int give_up, int64_t *proven, double *bound) {
    fc_arena *a = s->a;
    double top;
    const int walks = s->n == 1 && !give_up && s->T <= limit;
    a->visits = a->queued = 0;
    if (!has_room(a, walks ? s->T + 3 : 3)) return FC_EFULL;
    no_paths(s, s->n);
    a->found = a->popped = a->work = a->tokens = a->breaches = 0;
    a->aim = (double)NAN;
    a->stamp++;
    *proven = 0;
    *bound = FC_NEVER;
    if (backward(s->m, MAX_PLUS, s->first, s->T, &top) != DONE) return FC_OK;
    begin_search(s);
    if (a->visit[0].ahead == FC_NEVER) return FC_OK;
    const int64_t last = walks ? walk_down(s) : 0;
    if (a->visit[last].token == s->T - 1) {
        write_path(s, last);
        *proven = 1;
        return FC_OK;
    }
    a->phase = HANDED_OVER;
    if (is_handed_over(s) && give_up < 2) a->breaches = count_breaches(s, last);
    return FC_OK;
}

/* Decodes one sentence, continuing the search that is stored in the arena. */
static fc_status sentence(explorer *s, stand_in *w, int64_t limit, int64_t width, int64_t *steps,
                          int give_up, int64_t *proven, double *bound) {
    fc_arena *a = s->a;
    fc_status status;
    if (a->phase == FRESH) {
        status = begin(s, limit, give_up, proven, bound);
        if (status != FC_OK || a->phase == FRESH) return status;
    }
    if (a->phase == HANDED_OVER) {
        if (a->breaches >= MANY && is_handed_over(s) && give_up < 2)
            return over_product(s, w, steps, proven, bound);
        queue_others(s, a->visits - 1);
        a->phase = SEARCHING;
    }
    if (a->phase == SEARCHING) {
        verdict over = give_up ? AT_THE_LIMIT : ON;
        status = give_up ? FC_OK : explore(s, limit, steps, &over);
        if (status != FC_OK) return status;
        *proven = a->found;
        *bound = over ? bound_of(a) : FC_NEVER;
        if (*bound > FC_NEVER && is_handed_over(s) && give_up < 2)
            return over_product(s, w, steps, proven, bound);
        if (over != AT_THE_LIMIT || a->found > 0 || *bound == FC_NEVER) return FC_OK;
        a->phase = GIVING_UP;
    }
    return beam(s, width);
}

fc_status fc_lazy_nbest(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                        const int64_t *offsets, int64_t n, int64_t limit, int64_t width,
                        int64_t steps, int give_up, const fc_product *product, fc_arena *arena,
                        int32_t *path, double *score, int64_t *count, int64_t *proven,
                        double *bound, int64_t *popped, double *work) {
    int64_t where;
    const fc_arena *a = arena;
    if (n < 1 || n > INT32_MAX || width < 1 || width > INT32_MAX || steps < 1) return FC_EINVAL;
    if (a->visit_room > INT32_MAX || a->slots < 2 * a->visit_room || a->queue_room < 2 ||
        (a->slots & (a->slots - 1)) != 0 || a->sentence < 0 || a->sentence > B || a->stamp < 0 ||
        a->stamp + B - a->sentence > INT32_MAX)
        return FC_EINVAL;
    const fc_status status = check_rows(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    /* Cells of a row and tokens have 32-bit numbers. */
    const int64_t rows = machine->residual == NULL ? 1 : machine->residual->Q;
    if (rows > INT32_MAX / (machine->outer * fc_padded(machine->S))) return FC_EINVAL;
    if (longest_of(B, offsets) >= INT32_MAX) return FC_EINVAL;
    lay_out_tensor(&m, machine, longest_of(B, offsets), work);
    m.forgets = 1;
    load_static(&m, MAX_PLUS);
    explorer s = {.m = &m, .g = grammar, .a = arena, .n = n, .N = offsets[B], .path = path};
    stand_in w = {.given = product};
    for (int again = arena->phase == SEARCHING; arena->sentence < B; arena->sentence++) {
        const int64_t b = arena->sentence;
        s.first = offsets[b];
        s.T = offsets[b + 1] - s.first;
        s.score = score + b * n;
        if (s.T == 0) {
            no_paths(&s, n);
            score[b * n] = machine->empty;
            count[b] = proven[b] = machine->empty > FC_NEVER;
            bound[b] = FC_NEVER;
            popped[b] = 0;
            continue;
        }
        if (again) fill_table(&s);
        again = 0;
        const fc_status found =
            sentence(&s, &w, limit, width, &steps, give_up, proven + b, bound + b);
        if (found != FC_OK) return found;
        count[b] = arena->found;
        popped[b] = arena->popped;
        arena->phase = FRESH;
        if (give_up == 1) give_up = 0;
    }
    return FC_OK;
}
