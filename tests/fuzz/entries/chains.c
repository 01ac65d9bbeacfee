/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of chains and compositions beyond their sums and best paths: long sentences in blocks,
 * spans, searches under acceptors, patterns that are counted, arcs with pair scores. */

#include "input.h"
#include "lazy.h"

/* --- Blocks
 * -------------------------------------------------------------------------------------------- */

static int same_doubles(int64_t n, const double *x, const double *y) {
    for (int64_t i = 0; i < n; i++)
        if (x[i] < y[i] || x[i] > y[i]) return 0;
    return 1;
}

/* Numbers in a row of joint states. */
static int64_t cells_of(const fc_machine *m) {
    return (m->residual == NULL ? 1 : m->residual->Q) * m->outer * ((m->S + 7) / 8 * 8);
}

/* A sentence in blocks of `size` tokens, whose suffixes are there: the best path, samples, posteriors. */
static void ask_blocks(const fc_machine *m, int64_t T, int64_t size, fc_kind kind, double *suffix,
                       double *work) {
    const int64_t cells = cells_of(m), n = 1 + below(3), blocks = (T + size - 1) / size;
    double *before = NEW(double, cells), *node[FC_MAX_AXES], *arc[FC_MAX_AXES], entropy = 0.0;
    int32_t *path = NEW(int32_t, n *T), *residual = ZEROS(int32_t, n);
    const double *numbers = uniform(n * T);
    for (int64_t c = 0; c < m->axes; c++) {
        const fc_axis *a = &m->axis[c];
        node[c] = NEW(double, T * a->S);
        arc[c] = NEW(double, (T + 1) * (a->A == 0 ? a->S * a->S : a->A));
    }
    for (int64_t k = 0; k < blocks; k++) {
        const int64_t t = k * size, end = t + size < T ? t + size : T;
        const fc_block b = {t, end - t, t, kind, end < T ? suffix + (k + 1) * cells : NULL, before};
        if (fc_block_paths(m, &b, n, T, numbers + t, path + t, residual, work) != FC_OK) return;
    }
    if (kind == FC_BEST) { /* the bits of the whole sentence */
        const int64_t offsets[2] = {0, T};
        int32_t *whole = NEW(int32_t, T);
        double score = 0.0;
        fc_machine_best(m, 1, offsets, whole, &score, NEW(double, fc_machine_work(m, 1, T)));
        must(memcmp(whole, path, (size_t)T * sizeof *path) == 0, "blocks have another best path");
    }
    for (int64_t k = 0; k < blocks; k++) {
        const int64_t t = k * size, end = t + size < T ? t + size : T;
        const fc_block b = {t, end - t, t, kind, end < T ? suffix + (k + 1) * cells : NULL, before};
        double *rows[FC_MAX_AXES], *arcs[FC_MAX_AXES];
        for (int64_t c = 0; c < m->axes; c++) {
            const fc_axis *a = &m->axis[c];
            rows[c] = node[c] + t * a->S;
            arcs[c] = arc[c] + t * (a->A == 0 ? a->S * a->S : a->A);
        }
        if (fc_block_marginals(m, &b, rows, kind == FC_BEST ? NULL : arcs,
                               kind == FC_BEST ? NULL : &entropy, work) != FC_OK)
            return;
    }
}

void blocks(void) {
    const int64_t T = 1 + below(12), size = 1 + below(T);
    const fc_kind kind = (fc_kind)below(3);
    fc_machine m;
    if (!draw_machine(&m, T)) return;
    const int64_t cells = cells_of(&m), blocks = (T + size - 1) / size;
    double *work = NEW(double, fc_machine_work(&m, 0, size + 1)), total[2] = {0.0, 0.0};
    double *suffix = NEW(double, blocks *cells);
    for (int64_t k = blocks - 1; k >= 0; k--) {
        const int64_t t = k * size, end = t + size < T ? t + size : T;
        const fc_block b = {t, end - t, t, kind, end < T ? suffix + (k + 1) * cells : NULL, NULL};
        if (fc_block_suffix(&m, &b, suffix + k * cells, total, work) != FC_OK) return;
    }
    if (kind == FC_BEST) {
        const int64_t offsets[2] = {0, T};
        double score = 0.0;
        fc_machine_best(&m, 1, offsets, NEW(int32_t, T), &score,
                        NEW(double, fc_machine_work(&m, 1, T)));
        must(same_doubles(1, &score, total), "blocks have another best score");
        if (total[0] == -INFINITY) return;
    }
    ask_blocks(&m, T, size, kind, suffix, work);
}

/* --- Spans
 * --------------------------------------------------------------------------------------------- */

static void draw_spans(const fc_machine *m, fc_segments *g) {
    *g = (fc_segments){.axis = below(m->axes), .types = 1 + below(3)};
    const fc_axis *a = &m->axis[g->axis];
    const int64_t arcs = a->A == 0 ? a->S * a->S : a->A;
    int32_t *type = NEW(int32_t, a->S);
    uint8_t *arc = NEW(uint8_t, arcs);
    for (int64_t s = 0; s < a->S; s++) {
        type[s] = s < g->types ? (int32_t)s : index_below(g->types + 1);
        if (type[s] == g->types) type[s] = -1;
    }
    for (int64_t k = 0; k < arcs; k++) { /* mostly what the types of its ends allow */
        const int64_t i = a->A == 0 ? k / a->S : a->source[k];
        const int64_t j = a->A == 0 ? k % a->S : a->target[k];
        arc[k] = (uint8_t)below(3);
        if (below(16) == 15) continue;
        if (type[j] < 0 || (arc[k] == FC_CARRIES && type[i] != type[j])) arc[k] = 0;
    }
    g->type = type, g->arc = arc, g->first = bits(a->S), g->last = bits(a->S);
}

void spans(void) {
    const int64_t B = 1 + below(3);
    const int64_t *offsets = sentences(B, 7);
    fc_machine m;
    fc_segments g;
    if (!draw_machine(&m, offsets[B])) return;
    draw_spans(&m, &g);
    const int64_t longest = longest_sentence(B, offsets), room_of = below(24);
    fc_segment_search f = {.mode = (fc_segment_mode)below(3), .lanes = 1 + below(9)};
    f.floor = (double)grab(1) / 256.0;
    f.room = f.mode == FC_COUNTED ? 0 : room_of;
    f.span = NEW(int32_t, 3 * f.room);
    f.probability = ZEROS(double, f.mode == FC_COUNTED ? B * g.types : f.room);
    int64_t *asked = f.mode == FC_ASKED ? starts(B, f.room) : NULL, where = 0;
    for (int64_t i = 0; i < 3 * f.room; i++) f.span[i] = index_below(8);
    for (int64_t i = 1; i < f.room; i++) /* in order, now and then */
        if (below(4)) f.span[3 * i] = (f.span[3 * i] & 7) + (f.span[3 * i - 3] & 7);
    const fc_status status =
        fc_machine_segments(&m, B, offsets, &g, asked, &f, NEW(int64_t, B), NEW(double, B),
                            NEW(double, fc_segment_work(&m, &g, f.lanes, longest)), &where);
    if (status != FC_OK && status != FC_EFULL) return;
    for (int64_t i = 0; f.mode == FC_ABOVE && i < f.found; i++)
        must(f.probability[i] > f.floor && f.probability[i] <= 1.0, "a span is below the floor");
}

/* --- Searches under acceptors
 * -------------------------------------------------------------------------- */

/* The most that each state may still score, by the tokens that are left. */
static const double *draw_ahead(const fc_acceptor *a, int64_t T) {
    double *ahead = NEW(double, (T + 1) * a->Q);
    for (int64_t q = 0; q < a->Q; q++) ahead[q] = below(4) ? 0.0 : below(2) ? -INFINITY : value();
    for (int64_t r = 1; r <= T; r++)
        for (int64_t q = 0; q < a->Q; q++) {
            double most = -INFINITY;
            for (int64_t c = 0; c < a->classes; c++) {
                const int32_t to = a->target[q * a->classes + c];
                if (to < 0 || to >= a->Q) continue;
                const double step = a->score == NULL ? 0.0 : a->score[q * a->classes + c];
                most = fmax(most, step + ahead[(r - 1) * a->Q + to]);
            }
            ahead[r * a->Q + q] = most;
        }
    return ahead;
}

static void draw_acceptors(fc_conjunction *g, const fc_machine *m, int64_t T) {
    fc_acceptor *a = NEW(fc_acceptor, 2);
    *g = (fc_conjunction){.acceptors = 1 + (below(3) == 2), .words = 1 + below(2), .acceptor = a};
    for (int64_t i = 0; i < g->acceptors; i++) {
        a[i] = (fc_acceptor){.Q = 1 + below(4), .classes = 1 + below(3), .rows = T + 1};
        a[i].word = i < g->words ? i : 0, a[i].shift = 8 * i + below(8), a[i].bits = 1 + below(4);
        a[i].place = indices(m->outer * m->S, a[i].classes);
        int32_t *target = indices(a[i].Q * a[i].classes, a[i].Q);
        for (int64_t k = 0; k < a[i].Q * a[i].classes; k++)
            if (below(6) == 5) target[k] = -1;
        a[i].target = target;
        if (below(2)) a[i].score = values(a[i].Q * a[i].classes);
        a[i].ahead = draw_ahead(&a[i], T);
    }
}

/* Memory of a search, with what there was. */
static void give_room(fc_arena *a, int64_t words, int64_t rooms) {
    fc_arena old = *a;
    a->visit_room = rooms, a->queue_room = 2 * rooms, a->slots = 4;
    while (a->slots < 2 * rooms) a->slots *= 2;
    a->visit = ZEROS(fc_visit, rooms), a->states = ZEROS(uint64_t, rooms *words);
    a->queue = ZEROS(fc_candidate, 2 * rooms), a->table = ZEROS(int64_t, a->slots);
    if (old.visit_room == 0) return;
    memcpy(a->visit, old.visit, (size_t)old.visit_room * sizeof *a->visit);
    memcpy(a->states, old.states, (size_t)(old.visit_room * words) * sizeof *a->states);
    memcpy(a->queue, old.queue, (size_t)old.queue_room * sizeof *a->queue);
}

/* Scores of all paths of a short sentence, the best ones first, [n]; -inf where there are no more. */
static void all_scores(const fc_machine *m, const fc_conjunction *g, int64_t T, int64_t n,
                       double *best, double *work) {
    const int64_t joint = m->outer * m->S;
    int32_t path[4] = {0};
    uint64_t *states = NEW(uint64_t, 2 * g->words);
    for (int64_t k = 0; k < n; k++) best[k] = -INFINITY;
    tensor w;
    lay_out_tensor(&w, m, 1, work);
    load_static(&w, MAX_PLUS);
    const explorer s = {.m = &w, .g = g, .N = T, .T = T};
    for (int more = 1; more;) {
        double score;
        machine_scores(&s, path, 1, &score);
        score += grammar_score(&s, path, states);
        for (int64_t k = n - 1; k >= 0 && score > best[k]; k--) {
            if (k + 1 < n) best[k + 1] = best[k];
            best[k] = score;
        }
        more = 0;
        for (int64_t t = 0; t < T && !more; t++) more = ++path[t] < joint || (path[t] = 0);
    }
}

void search(void) {
    const int64_t T = 1 + below(4), n = 1 + below(4), offsets[2] = {0, T};
    fc_machine m;
    fc_conjunction g;
    fc_arena a = {.aim = (double)NAN};
    int64_t where = 0, count = 0, proven = 0, popped = 0, rooms = 4 + below(8);
    if (!draw_machine(&m, T) || m.outer * m.S > 6) return;
    draw_acceptors(&g, &m, T);
    if (fc_check_conjunction(&g, &m, &where) != FC_OK) return;
    for (int64_t i = 0; i < g.acceptors; i++) /* what may still come bounds it, as callers see to */
        for (int64_t k = 0; k < (T + 1) * g.acceptor[i].Q; k++)
            if (g.acceptor[i].ahead[k] > 1e200 || g.acceptor[i].ahead[k] < -1e200) return;
    const int64_t limit = below(4) ? 1000000 : 1 + below(20), width = 1 + below(4);
    const int64_t steps = below(4) ? 1000000 : 1 + below(5);
    int32_t *path = NEW(int32_t, n *T);
    double *score = NEW(double, n), bound = 0.0, *expected = NEW(double, n);
    double *work = NEW(double, fc_machine_work(&m, 0, T));
    give_room(&a, g.words, rooms);
    fc_status status;
    do {
        status = fc_lazy_nbest(&m, &g, 1, offsets, n, limit, width, steps, 0, NULL, &a, path, score,
                               &count, &proven, &bound, &popped, work);
        if (status == FC_EFULL) give_room(&a, g.words, rooms *= 2);
    } while ((status == FC_EFULL || status == FC_EPAUSED) && room_used() < ROOM / 4);
    if (status != FC_OK) return;
    check_paths(count, T, path, score);
    if (m.residual != NULL) return; /* scores of paths leave it out */
    all_scores(&m, &g, T, n, expected, work);
    for (int64_t k = 0; k < proven; k++)
        must(fabs(score[k] - expected[k]) <= 1e-11 * (1.0 + magnitude), "not the best paths");
    if (limit == 1000000)
        for (int64_t k = count; k < n; k++) must(expected[k] == -INFINITY, "paths are missing");
}

/* --- Patterns that are counted
 * ------------------------------------------------------------------------- */

void counting(void) {
    const int64_t B = 1 + below(3), *offsets = sentences(B, 5), N = offsets[B];
    const int64_t S = 1 + below(9), Q = 1 + below(4), C = 1 + below(2), moving = below(2);
    const fc_axis axis = {
        .S = S, .contexts = 1, .moving = moving, .score = values(moving ? N * S * S : S * S)};
    const fc_factor factor = {.rows = 1, .width = S, .moving = 1, .value = values(N * S)};
    fc_residual r = {.Q = Q, .E = Q, .rows = C, .width = S, .value = values(Q * C * S)};
    int32_t *reached = indices(Q * C * S, Q);
    for (int64_t k = 0; k < Q * C * S; k++)
        if (below(6) == 5) reached[k] = -1;
    r.reached = reached, r.kind = indices(N, C), r.initial = values(Q), r.final = values(Q);
    const fc_machine m = {.axes = 1,
                          .factors = 1,
                          .outer = 1,
                          .S = S,
                          .axis = &axis,
                          .factor = &factor,
                          .residual = &r,
                          .initial = values(S),
                          .final = values(S)};
    int64_t where = 0;
    fc_counts(&m, B, offsets, NEW(double, B), NEW(double, N *S),
              below(2) ? ZEROS(double, S *S) : NULL, below(2) ? NEW(double, N * S * S) : NULL,
              ZEROS(double, Q * C * S), ZEROS(double, Q * C * S),
              NEW(double, fc_machine_work(&m, 0, longest_sentence(B, offsets))), &where);
}

/* --- Arcs with pair scores
 * ----------------------------------------------------------------------------- */

/* Numbers that rise at each node, mostly. */
static const int32_t *rising(int64_t nodes, const int64_t *row, int64_t size, int64_t limit) {
    int32_t *class = indices(size, limit);
    for (int64_t n = 0; n < nodes; n++)
        for (int64_t i = row[n] < 0 ? 0 : row[n]; i < size - 1 && i < row[n + 1] - 1; i++)
            if (below(8) && class[i] < INT32_MAX) class[i + 1] = class[i] + 1;
    return class;
}

void paired(void) {
    fc_paired m = {.M = 1 + below(6), .A = below(12), .I = below(10), .X = 1 + below(10)};
    m.K = 1 + below(2), m.R = 1 + below(5), m.L = 1 + below(5);
    m.entry_row = counted_starts(m.M, m.I), m.exit_row = counted_starts(m.M, m.X);
    m.arc_row = counted_starts(m.I, m.A);
    m.left = rising(m.M, m.entry_row, m.I, m.L);
    m.right = rising(m.M, m.exit_row, m.X, m.R);
    m.exit = indices(m.A, m.X), m.score = values(m.A), m.final = values(m.X);
    m.table = below(2) ? indices(m.M, m.K) : NULL;
    const int64_t cells = m.K * m.R * m.L, B = 1 + below(3);
    int64_t where = 0;
    double *pair = values(cells), *turned = NEW(double, cells), *linear = NEW(double, cells);
    double *around = NEW(double, cells);
    m.top = -INFINITY;
    for (int64_t i = 0; i < cells; i++) m.top = fmax(m.top, pair[i]);
    if (m.top == -INFINITY) m.top = 0.0;
    for (int64_t k = 0; k < m.K; k++)
        for (int64_t i = 0; i < m.R * m.L; i++) {
            const int64_t at = k * m.R * m.L + i, back = k * m.R * m.L + i % m.L * m.R + i / m.L;
            turned[back] = pair[at], linear[at] = around[back] = exp(pair[at] - m.top);
        }
    m.pair = pair, m.turned = turned, m.linear = linear, m.around = around;
    if (fc_check_paired(&m, &where) != FC_OK) return;
    double *entry = NEW(double, m.I), *exit = NEW(double, m.X), *lost = NEW(double, m.I + m.X),
           *share = NEW(double, m.A), *work = NEW(double, 4 * m.I + m.X);
    int64_t *begin = NEW(int64_t, B), size = below(16);
    for (int64_t b = 0; b < B; b++) begin[b] = index_below(m.X);
    fc_paired_best(&m, entry, exit);
    fc_paired_paths(&m, entry, exit, B, begin, size, NEW(int32_t, size), NEW(int64_t, B + 1),
                    &where);
    fc_paired_sums(&m, entry, exit, lost, share, work);
    fc_paired_marginals(&m, entry, exit, lost, share, B, begin, NEW(double, m.A), NEW(double, m.X),
                        below(2) ? NEW(double, cells) : NULL, work, &where);
}
