/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: sweeps over shards, stochastic steps, learners of one sentence at a time, rewards, vectors. */

#include "input.h"

static int64_t *order_of(int64_t n, int64_t B) {
    int64_t *order = NEW(int64_t, n);
    for (int64_t k = 0; k < n; k++) order[k] = index_below(B);
    return order;
}

static int64_t arcs_of_axis(const fc_axis *a) { return a->A == 0 ? a->S * a->S : a->A; }

/* --- Shards
 * -------------------------------------------------------------------------------------------- */

static float *values_or_ones(int64_t n) { return below(2) ? narrow_values(n) : NULL; }

static void draw_shard(fc_shard *s, fc_layout *l, int64_t S) {
    const int64_t entries = below(10), singles = below(8);
    *s = (fc_shard){
        .B = 1 + below(3), .R = below(4), .M = below(6), .K = below(2) ? 0 : 1 + below(2)};
    s->offsets = sentences(s->B, 6), s->N = s->offsets[s->B];
    s->P = s->K > 0 ? 8 * (1 + below(2)) : (S + 7) / 8 * 8;
    s->longest = longest_sentence(s->B, s->offsets);
    s->slot = indices(S * s->K, s->P), s->weight = finite_values(s->B);
    s->row_ptr = starts(s->N, entries), s->row = indices(entries, s->R);
    s->row_value = values_or_ones(entries);
    s->single_ptr = starts(s->N, singles), s->single = indices(singles, s->M);
    uint16_t *slot = NEW(uint16_t, singles);
    for (int64_t k = 0; k < singles; k++) slot[k] = (uint16_t)index_below(s->P);
    s->single_slot = slot, s->single_value = values_or_ones(singles);
    *l = (fc_layout){.attributes = 1 + below(4), .parameters = 1 + below(12)};
    l->ptr = starts(l->attributes, l->parameters);
    slot = NEW(uint16_t, l->parameters);
    for (int64_t k = 0; k < l->parameters; k++) slot[k] = (uint16_t)index_below(s->P);
    l->slot = slot;
    s->rows = indices(s->R, l->attributes), s->singles = indices(s->M, l->parameters);
    s->frequent_rows = below(s->R + 1), s->frequent_singles = below(s->M + 1);
}

/* Classes of states, mostly as they should be. */
static fc_classes *draw_classes(int64_t S, int64_t n) {
    fc_classes *c = NEW(fc_classes, 1);
    int32_t *of = NEW(int32_t, S), *state = NEW(int32_t, S);
    int64_t *row = ZEROS(int64_t, n + 1), listed = 0;
    for (int64_t j = 0; j < S; j++) of[j] = index_below(n + 1), of[j] = of[j] == n ? -1 : of[j];
    for (int64_t k = 0; k < n; k++, row[k] = listed)
        for (int64_t j = 0; j < S; j++)
            if (of[j] == k) state[listed++] = (int32_t)j;
    *c = (fc_classes){.n = n, .of = of, .row = row, .state = state};
    return c;
}

/* A chain whose arcs are all there, or whose other pairs have a rest. */
static int draw_trained(fc_machine *m, int64_t S, int64_t N) {
    if (!draw_chain(m, S, N, MAY_BE_SPARSE | MAY_REST)) return 0;
    fc_axis *a = NEW(fc_axis, 1);
    *a = *m->axis, m->axis = a;
    if (a->rest == NULL || below(2)) return 1;
    const int64_t n = 1 + below(3);
    int64_t where = 0;
    a->leave = draw_classes(S, n), a->enter = draw_classes(S, n);
    return fc_check_machine(m, &where) == FC_OK;
}

void sweep(void) {
    const int64_t S = 1 + below(below(4) ? 5 : 20);
    fc_shard s;
    fc_layout l;
    fc_machine m;
    int64_t where = 0, rescued = 0;
    draw_shard(&s, &l, S);
    s.gold = below(2) ? indices(s.N, S) : NULL;
    if (!draw_trained(&m, S, s.N) || fc_check_shard(&m, &s, &l, &where) != FC_OK) return;
    const int64_t size = s.R * s.P + s.M, arcs = arcs_of_axis(m.axis);
    const int64_t words = s.B + s.longest + 2 + 2 * (s.frequent_rows + s.frequent_singles);
    fc_flushes(&m, &s, &s.flushes, NULL, NULL, NEW(int64_t, words));
    int64_t *after = NEW(int64_t, s.flushes);
    int32_t *what = NEW(int32_t, s.flushes);
    fc_flushes(&m, &s, &s.flushes, after, what, NEW(int64_t, words));
    s.flush_after = after, s.flush_what = what;
    float *weight = NEW(float, size), *theta = narrow_values(l.parameters);
    float *gradient = ZEROS(float, size), *square = s.row_value ? NEW(float, s.row_ptr[s.N]) : NULL;
    float *single = s.single_value ? NEW(float, s.single_ptr[s.N]) : NULL;
    if (below(4) == 3) theta[below(l.parameters)] = (float)fmax(fmin(value(), 1e38), -1e38);
    for (int64_t k = 0; square != NULL && k < s.row_ptr[s.N]; k++)
        square[k] = s.row_value[k] * s.row_value[k];
    for (int64_t k = 0; single != NULL && k < s.single_ptr[s.N]; k++)
        single[k] = s.single_value[k] * s.single_value[k];
    for (int64_t i = 0; i < size; i++) weight[i] = 0.0F;
    double loss = 0.0, *arc = NEW(double, arcs), *begin = NEW(double, S), *end = NEW(double, S);
    double *work = NEW(double, fc_sweep_work(&m, &s, 0));
    fc_spread(&s, &l, theta, weight);
    double *frequent = ZEROS(double, s.frequent_rows *s.P + s.frequent_singles);
    if (fc_sweep(&m, &s, NULL, weight, gradient, frequent, &loss, arc, begin, end, &rescued,
                 work) != FC_OK)
        return;
    fc_collect(&s, &l, gradient, frequent, ZEROS(double, l.parameters));
    fc_shard squared = s;
    squared.row_value = square, squared.single_value = single;
    fc_sweep(&m, &s, &squared, weight, gradient, frequent, &loss, arc, begin, end, &rescued,
             NEW(double, fc_sweep_work(&m, &s, 1)));
}

/* Arcs with a weight, ascending. */
static void draw_steps(fc_stochastic *t, const fc_machine *m, int64_t N, const fc_shard *s) {
    const int64_t arcs = arcs_of_axis(m->axis);
    *t = (fc_stochastic){.D = below(8), .gold = indices(N, m->S)};
    int32_t *slot = indices(arcs, t->D + 1), *ends[2];
    for (int64_t k = 0; k < arcs; k++) slot[k] = slot[k] == t->D ? -1 : slot[k];
    for (int64_t e = 0; e < 2; e++) {
        ends[e] = indices(m->S, t->D + 1);
        for (int64_t i = 0; i < m->S; i++) ends[e][i] = ends[e][i] == t->D ? -1 : ends[e][i];
    }
    const int all = (int)below(2); /* slots with a weight */
    uint8_t *mask = NEW(uint8_t, s->R * s->P / 8);
    for (int64_t i = 0; i < s->R * s->P / 8; i++) mask[i] = (uint8_t)grab(1);
    t->mask = all ? NULL : mask;
    t->arc_slot = slot, t->initial = ends[0], t->final = ends[1];
}

void steps(void) {
    const int64_t S = 1 + below(5), n_order = below(6);
    fc_shard s;
    fc_layout l;
    fc_machine m;
    fc_stochastic t;
    int64_t where = 0, rescued = 0;
    draw_shard(&s, &l, S);
    if (!draw_trained(&m, S, s.N)) return;
    fc_axis *a = (fc_axis *)m.axis; /* what has no weight scores 0, or is forbidden */
    double *flat = ZEROS(double, arcs_of_axis(a)), *rest = ZEROS(double, 1);
    for (int64_t k = 0; a->A == 0 && k < S * S; k++) flat[k] = below(8) ? 0.0 : -INFINITY;
    a->score = flat;
    if (a->rest != NULL) a->rest = rest;
    draw_steps(&t, &m, s.N, &s);
    if (fc_check_stochastic(&m, &s, &l, &t, &where) != FC_OK) return;
    const int64_t rows = s.R + s.frequent_rows, singles = s.M + s.frequent_singles;
    fc_averaged w = {.table = narrow_values(2 * (rows * s.P + singles)), .scale = 1.0};
    w.dense = ZEROS(double, 2 * t.D);
    const int64_t *order = order_of(n_order, s.B);
    double loss = 0.0, *rate = NEW(double, n_order), *work = NULL;
    for (int64_t k = 0; k < n_order; k++) rate[k] = below(8) ? (double)grab(1) / 64.0 : value();
    const double decay = (double)below(8) / 16.0;
    const int averaging = (int)below(2);
    for (int64_t turn = 0; turn < 2; turn++) {
        if (fc_asgd(&m, &s, &t, n_order, order, rate, decay, averaging, &w, &loss, &rescued, work,
                    &where) != FC_OK)
            return;
        if (work == NULL) work = NEW(double, where);
    }
}

/* --- Learners of one sentence at a time
 * ----------------------------------------------------------------- */

typedef struct {
    fc_machine m;
    fc_batch batch;
    fc_learner learner;
    int64_t N, longest, entries, n_order;
    int64_t *order;
} lesson;

static fc_parameters *draw_parameters(const lesson *x, int zeros) {
    const int64_t table = x->learner.R * x->learner.W, M = x->learner.M, S = x->m.S;
    fc_parameters *p = NEW(fc_parameters, 1);
    double *all = zeros ? ZEROS(double, table + M + 2 * S) : finite_values(table + M + 2 * S);
    p->table = NEW(double, table), p->arc = NEW(double, M);
    p->initial = NEW(double, S), p->final = NEW(double, S);
    memcpy(p->table, all, (size_t)table * sizeof *all);
    memcpy(p->arc, all + table, (size_t)M * sizeof *all);
    memcpy(p->initial, all + table + M, (size_t)S * sizeof *all);
    memcpy(p->final, all + table + M + S, (size_t)S * sizeof *all);
    if (!zeros && below(4) == 3) p->table[below(table)] = value();
    if (!zeros && below(4) == 3) p->initial[below(S)] = -INFINITY;
    return p;
}

static int draw_lesson(lesson *x) {
    const int64_t S = 1 + below(5), kinds = MAY_BE_SPARSE, *indptr;
    int64_t where = 0, *offsets;
    fc_learner *r = &x->learner;
    x->batch.B = 1 + below(3), x->batch.offsets = offsets = sentences(x->batch.B, 5);
    x->N = offsets[x->batch.B], x->longest = longest_sentence(x->batch.B, offsets);
    if (!draw_chain(&x->m, S, x->N, (int)kinds)) return 0;
    x->entries = below(12), x->n_order = below(6), x->order = order_of(x->n_order, x->batch.B);
    *r = (fc_learner){.R = 1 + below(3), .W = 8 * (1 + below(3)), .K = 1 + below(2)};
    r->M = 1 + below(4), r->ends = below(2);
    r->slot = indices(S * r->K, r->W), r->arc_slot = indices(arcs_of_axis(x->m.axis), r->M);
    r->label = indices(S, 4), r->value = values_or_ones(x->entries);
    r->indptr = indptr = starts(x->N, x->entries), r->index = indices(x->entries, r->R);
    r->mask = memset(NEW(uint8_t, r->R * r->W), 1, (size_t)(r->R * r->W));
    r->arc_mask = bits(r->M);
    return fc_check_rows(x->N, r->R, x->entries, indptr, r->index, &where) == FC_OK;
}

/* Whether a state is one, and the axis has the arc that leads to it; before < 0: none does. */
static int has_gold(const fc_axis *a, int64_t before, int64_t state) {
    if (state < 0 || state >= a->S) return 0;
    if (before < 0 || a->A == 0) return 1;
    int64_t k = a->row[before];
    while (k < a->row[before + 1] && a->target[k] != state) k++;
    return k < a->row[before + 1];
}

void learners(void) {
    lesson x;
    int64_t where = 0, errors = 0;
    if (!draw_lesson(&x)) return;
    const int32_t *gold = indices(x.N, x.m.S);
    for (int64_t b = 0; b < x.batch.B; b++)
        for (int64_t n = x.batch.offsets[b]; n < x.batch.offsets[b + 1]; n++) {
            const int64_t before = n > x.batch.offsets[b] ? gold[n - 1] : -1;
            if (!has_gold(x.m.axis, before, gold[n])) return;
        }
    fc_parameters *theta = draw_parameters(&x, 0), *sums = draw_parameters(&x, 1);
    const double *weight = finite_values(x.batch.B);
    double step = 1.0, loss = 0.0, factor = below(4) ? 1.0 : value();
    const fc_update rule = (fc_update)below(5);
    if (rule == FC_AROW) sums = draw_parameters(&x, 0);
    const int errors_count = (int)below(2);
    double *work = NULL;
    for (int64_t turn = 0; turn < 2; turn++) {
        if (fc_online(&x.m, &x.batch, &x.learner, x.n_order, x.order, gold, weight, rule, factor,
                      errors_count, theta, sums, &step, &errors, &loss, work, &where) != FC_OK)
            return;
        if (work == NULL) work = NEW(double, where);
    }
}

/* --- Rewards
 * ------------------------------------------------------------------------------------------- */

static void draw_bandit(fc_bandit *b) {
    *b = (fc_bandit){.objective = (fc_aim)below(4), .control = (fc_control)below(4), .draws = 1};
    b->clip = (double)below(4) / 4.0, b->temperature = 1.0 + (double)below(4);
    b->common_rate = 0.5, b->own_rate = 0.25, b->alike = below(2), b->beta = 1.0;
    b->cap = (double)below(4);
    if (b->control == FC_LEAVE_ONE_OUT && below(8)) b->draws = 2;
    if (below(16) == 15) b->temperature = value();
    if (below(16) == 15) b->beta = value();
}

static void draw_descent(fc_descent *d, const lesson *x) {
    const fc_learner *r = &x->learner;
    int64_t most = 0;
    for (int64_t b = 0; b < x->batch.B; b++) {
        const int64_t *at = x->batch.offsets + b, n = r->indptr[at[1]] - r->indptr[at[0]];
        most = n > most ? n : most;
    }
    *d = (fc_descent){.rule = (fc_rule)below(3), .rate = (double)(1 + below(8)) / 8.0};
    d->decay = (double)below(4) / 16.0, d->momentum = (double)below(4) / 8.0;
    d->rho = 0.9, d->epsilon = 1e-6;
    if (below(16) == 15) d->rate = value();
    d->scale = NEW(double, 1), *d->scale = 1.0, d->step = ZEROS(int64_t, 1);
    d->theta = draw_parameters(x, 0), d->first = draw_parameters(x, 1);
    d->second = draw_parameters(x, 1);
    d->touched = ZEROS(int64_t, r->R), d->place = ZEROS(int32_t, r->R);
    d->rows = NEW(int32_t, most), d->sums = NEW(double, most * r->W);
    d->small = NEW(double, r->M > 2 * x->m.S ? r->M : 2 * x->m.S);
}

static void draw_judge(fc_judge *j, const lesson *x) {
    *j = (fc_judge){.L = 4, .gold = indices(x->N, 4), .graded = below(2), .steps = below(4)};
    uint8_t *step = NEW(uint8_t, 25);
    for (int64_t k = 0; k < 25; k++) step[k] = (uint8_t)below(3);
    j->step = below(2) ? step : NULL, j->type = indices(5, 3);
    j->error = below(2) ? finite_values(2 * x->n_order) : NULL;
    j->slip = below(4) == 3 ? finite_values(x->n_order) : NULL;
}

void feedback(void) {
    lesson x;
    fc_bandit bandit;
    fc_descent descent;
    fc_judge judge;
    int64_t where = 0, tokens = 0;
    if (!draw_lesson(&x)) return;
    draw_bandit(&bandit);
    draw_descent(&descent, &x);
    draw_judge(&judge, &x);
    for (int64_t k = 0; k < x.n_order; k++) {
        if (x.order[k] < 0 || x.order[k] >= x.batch.B) return;
        if (bandit.draws > 1) x.order[k] = x.order[k / bandit.draws * bandit.draws];
        tokens += x.batch.offsets[x.order[k] + 1] - x.batch.offsets[x.order[k]];
    }
    fc_baseline base = {ZEROS(double, x.batch.B + 1), ZEROS(double, x.batch.B + 1)};
    const int64_t n = x.n_order;
    fc_turns turns = {.log_p = NEW(double, n), .reward = uniform(n)};
    turns.coefficient = NEW(double, n);
    turns.path = indices(tokens, x.m.S), turns.other = NEW(int32_t, tokens);
    turns.node = NEW(double, tokens *x.m.S), turns.arc = NEW(double, n *x.learner.M);
    if (fc_feedback(&x.m, &x.batch, &x.learner, n, x.order, &bandit, &descent, &turns, NULL,
                    &where) != FC_OK)
        return;
    double *work = NEW(double, where);
    const int64_t kind = below(3);
    turns.keeps = kind == 2;
    if (kind == 1) {
        int64_t *start = NEW(int64_t, n);
        for (int64_t k = 0, at = 0; k < n; k++) {
            start[k] = at;
            at += x.batch.offsets[x.order[k] + 1] - x.batch.offsets[x.order[k]];
        }
        turns.start = start, turns.drawn = finite_values(n);
    } else {
        turns.uniform = uniform(2 * tokens), turns.judge = &judge;
    }
    if (kind < 2) { /* directions of one sentence at a time */
        turns.node = NEW(double, x.longest *x.m.S), turns.arc = NEW(double, x.learner.M);
        if (kind == 0) turns.path = NEW(int32_t, x.longest), turns.other = NEW(int32_t, x.longest);
        turns.baseline = &base;
    }
    const fc_status status = fc_feedback(&x.m, &x.batch, &x.learner, n, x.order, &bandit, &descent,
                                         &turns, work, &where);
    if (kind < 2 || status != FC_OK) return;
    turns.uniform = NULL, turns.judge = NULL, turns.baseline = &base;
    fc_feedback(&x.m, &x.batch, &x.learner, n, x.order, &bandit, &descent, &turns, work, &where);
}

/* --- Vectors
 * ------------------------------------------------------------------------------------------- */

void vectors(void) {
    const int64_t m = below(4), k = below(4), n = below(40), stride = n + below(3);
    int32_t power = 0;
    const float *rows_of = narrow_values(m * stride);
    double *x = values(k * stride), *out = NEW(double, m *k), *sum = ZEROS(double, n);
    uint16_t *half = NEW(uint16_t, m *stride);
    fc_dots(m, k, n, stride, 0, rows_of, stride, x, out);
    fc_combine(m, n, stride, 0, rows_of, finite_values(m), sum);
    for (int64_t i = 0; i < m * stride; i++) half[i] = (uint16_t)grab(2);
    fc_dots(m, k, n, stride, 1, half, stride, x, out);
    fc_combine(m, n, stride, 1, half, finite_values(m), sum);
    double *y = finite_values(n), largest = 0.0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(y[i]));
    fc_narrow(n, largest, y, NEW(uint16_t, n), &power);
    fc_inner(n, y, sum, out = NEW(double, 1));
}
