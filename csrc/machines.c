/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences over one composition: in batches, in blocks if their rows do not fit in memory, and with an
 * automaton whose steps are counted. */

#include "abreast.h"
#include "rescore.h"
#include "checks.h"

int64_t fc_machine_work(const fc_machine *machine, int64_t B, int64_t longest) {
    tensor m;
    side_by_side w;
    /* with the residual states of a path */
    const int64_t alone = lay_out_tensor(&m, machine, longest, NULL) + longest;
    if (B == 0 || !fixed_chain(machine)) return alone;
    const int64_t abreast = lay_out_side_by_side(&w, &m, B, longest, NULL);
    return alone + (B < w.fewest ? 0 : abreast);
}

/* The sentences of a batch that have tokens: in groups by length, computed together or not, or one by
 * one. The tensor, the lanes and the group are separate variables: a call that gets the address of one
 * cannot change the others. */
typedef struct {
    int abreast, together; /* groups; this one is computed together */
    int64_t end, at, n;
    const int64_t *offsets;
} batch;

FC_INLINE int64_t length_of(const batch *v, int64_t b) { return v->offsets[b + 1] - v->offsets[b]; }

/* Scores sentences without tokens, unless score is NULL; returns the first free double. */
static double *begin_batch(batch *v, tensor *m, const fc_machine *machine, int64_t B,
                           const int64_t *offsets, double *score, double *work) {
    *v = (batch){.end = B, .offsets = offsets};
    for (int64_t b = 0; b < B && score != NULL; b++)
        if (offsets[b] == offsets[b + 1]) score[b] = machine->empty;
    return work + lay_out_tensor(m, machine, longest_of(B, offsets), work);
}

/* Processes sentences side by side if the machine has lanes. */
static void take_abreast(batch *v, side_by_side *w, tensor *m, semiring K, double *work) {
    const int64_t B = v->end, longest = longest_of(B, v->offsets);
    if (!full_chain(m->machine) || B < fewest_lanes(m->axis)) return;
    if (is_matrix(m->axis) && K == MAX_PLUS && m->forgets) return; /* best paths: rows are faster */
    lay_out_side_by_side(w, m, B, longest, work + fc_machine_work(m->machine, 0, longest));
    v->abreast = 1;
    m->brief = 0;
    load_static(m, K);
    by_length(B, v->offsets, longest, w->order); /* sentences without tokens are last */
    while (v->end > 0 && length_of(v, w->order[v->end - 1]) == 0) v->end--;
}

/* The next group; 0: no group is left. */
FC_INLINE int next_group(batch *v, const side_by_side *w, group *g) {
    v->at += v->n;
    if (!v->abreast)
        while (v->at < v->end && length_of(v, v->at) == 0) v->at++;
    if (v->at >= v->end) return 0;
    if (v->abreast) {
        v->together = make_group(w, v->end, v->offsets, v->at, g);
    } else {
        g->n = 1;
        g->b[0] = v->at;
        g->first[0] = v->offsets[v->at];
        g->T[0] = length_of(v, v->at);
        g->weight[0] = 1.0;
    }
    v->n = g->n;
    return 1;
}

fc_status fc_machine_best(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int32_t *path, double *score, double *work) {
    int64_t where;
    const fc_status status = check_rows(B, offsets, &where);
    if (status != FC_OK) return status;
    batch v;
    tensor m;
    side_by_side w;
    group g;
    int32_t *q = (int32_t *)begin_batch(&v, &m, machine, B, offsets, score, work);
    m.forgets = 1;
    take_abreast(&v, &w, &m, MAX_PLUS, work);
    while (next_group(&v, &w, &g)) {
        if (v.together) backward_lanes(&w, &m, MAX_PLUS, &g, 0);
        for (int64_t l = 0; l < g.n; l++) {
            int32_t *own = path + g.first[l];
            double top;
            if (!v.together) backward(&m, MAX_PLUS, g.first[l], g.T[l], &top);
            score[g.b[l]] = v.together ? walk_lane(&w, &m, &g, l, own)
                                       : walk_best(&m, g.first[l], g.T[l], own, q);
        }
    }
    return FC_OK;
}

int64_t fc_queue_size(const fc_machine *machine, int64_t n, int64_t longest) {
    tensor m;
    queue h;
    lay_out_tensor(&m, machine, longest, NULL);
    return lay_out_queue(&h, &m, n, longest, NULL);
}

fc_status fc_machine_nbest(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                           const double *floor, double within, int32_t *path, double *score,
                           int64_t *count, double *work, double *scratch) {
    int64_t where;
    if (n < 1 || n > INT32_MAX || !(within >= 0.0)) return FC_EINVAL;
    const fc_status status = check_rows(B, offsets, &where);
    if (status != FC_OK) return status;
    batch v;
    tensor m;
    side_by_side w;
    group g;
    queue h;
    const int64_t N = offsets[B], longest = longest_of(B, offsets);
    begin_batch(&v, &m, machine, B, offsets, NULL, work);
    lay_out_queue(&h, &m, n, longest, scratch);
    h.within = within;
    for (int64_t i = 0; i < n * N; i++) path[i] = -1;
    for (int64_t i = 0; i < n * B; i++) score[i] = FC_NEVER;
    for (int64_t b = 0; b < B; b++) {
        if (offsets[b] == offsets[b + 1]) score[b * n] = machine->empty;
        count[b] = offsets[b] == offsets[b + 1] && machine->empty > FC_NEVER;
    }
    m.forgets = 1;
    take_abreast(&v, &w, &m, MAX_PLUS, work);
    while (next_group(&v, &w, &g)) {
        if (v.together) backward_lanes(&w, &m, MAX_PLUS, &g, 0);
        for (int64_t l = 0; l < g.n; l++) {
            const int64_t b = g.b[l], first = g.first[l], T = g.T[l];
            double top;
            h.stamp = b + 1;
            h.floor = floor == NULL ? FC_NEVER : floor[b];
            if (v.together) suffix_of(&w, &m, MAX_PLUS, l, T);
            if (v.together || backward(&m, MAX_PLUS, first, T, &top) == DONE)
                count[b] = walk_nbest(&m, &h, first, T, n, N, path, score + b * n);
        }
    }
    return FC_OK;
}

fc_status fc_machine_log_partition(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   fc_domain domain, double *log_z, double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_rows(B, offsets, where);
    if (status != FC_OK) return status;
    batch v;
    tensor m;
    side_by_side w;
    group g;
    semiring K;
    begin_batch(&v, &m, machine, B, offsets, log_z, work);
    m.forgets = 1;
    if (domain != FC_LOG) take_abreast(&v, &w, &m, SUM_TIMES, work);
    while (next_group(&v, &w, &g)) {
        if (v.together) load_static(&m, SUM_TIMES);
        if (v.together) backward_lanes(&w, &m, SUM_TIMES, &g, 0);
        for (int64_t l = 0; l < g.n; l++) {
            *where = g.b[l];
            if (v.together) log_z[*where] = fc_value(g.total[l]);
            if (v.together && !g.lost[l]) continue;
            if (backward_sums(&m, g.first[l], g.T[l], domain, &K, log_z + *where) == LOST)
                return FC_ERANGE;
        }
    }
    return FC_OK;
}

/* Points the outputs of a sentence into the outputs of the batch. */
static void sentence_answers(const tensor *m, int64_t first, double *const *node,
                             double *const *arc, double *const *sum, answers *out) {
    for (int64_t c = 0; c < m->n; c++) {
        out->node[c] = node[c] + first * m->axis[c].S;
        out->arc[c] = arc == NULL || arc[c] == NULL ? NULL : arc[c] + first * m->axis[c].arcs;
        out->sum[c] = sum == NULL ? NULL : sum[c];
    }
}

static int any_of(double *const *rows, int64_t n) {
    for (int64_t c = 0; c < n && rows != NULL; c++)
        if (rows[c] != NULL) return 1;
    return 0;
}

fc_status fc_machine_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                               fc_domain domain, const double *weight, double *log_z,
                               double *const *node, double *const *arc, double *const *sum,
                               double *entropy, double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_rows(B, offsets, where);
    if (status != FC_OK) return status;
    batch v;
    tensor m;
    side_by_side w;
    group g;
    begin_batch(&v, &m, machine, B, offsets, log_z, work);
    for (int64_t c = 0; c < m.n && sum != NULL; c++)
        if (sum[c] != NULL) fc_fill(m.axis[c].arcs, 0.0, sum[c]);
    if (entropy != NULL) fc_fill(B, 0.0, entropy);
    if (m.single) fc_fill(m.axis[0].size, 0.0, m.outer_sum);
    m.whole = any_of(arc, m.n) || any_of(sum, m.n);
    /* lanes have posteriors of states, and sums of the arcs that differ from a rest */
    if (!any_of(arc, m.n) && entropy == NULL && domain != FC_LOG &&
        (!any_of(sum, m.n) || (m.axis[0].full && !m.axis[0].dense)))
        take_abreast(&v, &w, &m, SUM_TIMES, work);
    while (next_group(&v, &w, &g)) {
        for (int64_t l = 0; l < g.n && weight != NULL; l++) g.weight[l] = weight[g.b[l]];
        if (v.together) load_static(&m, SUM_TIMES);
        if (v.together) posteriors_of_group(&w, &m, &g, node[0], sum == NULL ? NULL : sum[0]);
        for (int64_t l = 0; l < g.n; l++) {
            const int64_t b = *where = g.b[l];
            if (v.together) log_z[b] = fc_value(g.total[l]);
            if (v.together && !g.lost[l]) continue;
            answers out = {.weight = g.weight[l], .entropy = entropy == NULL ? NULL : entropy + b};
            sentence_answers(&m, g.first[l], node, arc, sum, &out);
            for (int64_t c = 0; c < m.n; c++) /* first tokens have no arcs into them */
                if (out.arc[c] != NULL) fc_fill(m.axis[c].arcs, 0.0, out.arc[c]);
            if (sentence_marginals(&m, g.first[l], g.T[l], domain, log_z + b, &out) == LOST)
                return FC_ERANGE;
        }
    }
    if (m.single && sum != NULL && sum[0] != NULL && !m.axis[0].axis->moving)
        collect_outer(&m, sum[0]);
    return FC_OK;
}

/* Max-marginals of a sentence; with `path`, also its best path. */
static void max_alone(tensor *m, const fc_block *b, const answers *out, int32_t *path,
                      double *score, int32_t *q) {
    double top;
    const outcome result = backward(m, MAX_PLUS, b->first, b->n, &top);
    if (path != NULL) *score = walk_best(m, b->first, b->n, path + b->first, q);
    if (result == DONE || out->begun != NULL) forward(m, MAX_PLUS, b, out);
    if (result != DONE) fill_answers(m, b->n, FC_NEVER, out);
}

fc_status fc_machine_max_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   double *const *node, int32_t *path, double *score, double *begun,
                                   double *ahead, double *work) {
    int64_t where;
    const fc_status status = check_rows(B, offsets, &where);
    if (status != FC_OK) return status;
    batch v;
    tensor m;
    side_by_side w;
    group g;
    int32_t *q =
        (int32_t *)begin_batch(&v, &m, machine, B, offsets, path == NULL ? NULL : score, work);
    const int64_t cells = m.Q * m.outer * m.S;
    if (begun == NULL && ahead == NULL) take_abreast(&v, &w, &m, MAX_PLUS, work);
    while (next_group(&v, &w, &g)) {
        if (v.together) backward_lanes(&w, &m, MAX_PLUS, &g, 1);
        for (int64_t l = 0; l < g.n; l++) {
            const fc_block b = whole_sentence(g.first[l], g.T[l]);
            double *top = path == NULL ? NULL : score + g.b[l];
            if (!v.together) {
                answers out = {.weight = 1.0,
                               .begun = begun == NULL ? NULL : begun + b.first * cells,
                               .ahead = ahead == NULL ? NULL : ahead + b.first * cells};
                sentence_answers(&m, b.first, node, NULL, NULL, &out);
                max_alone(&m, &b, &out, path, top, q);
            } else if (path != NULL) {
                int32_t *own = path + b.first;
                if (w.matrix) suffix_of(&w, &m, MAX_PLUS, l, b.n);
                *top =
                    w.matrix ? walk_best(&m, b.first, b.n, own, q) : walk_lane(&w, &m, &g, l, own);
            }
        }
        if (v.together) forward_lanes(&w, &m, MAX_PLUS, &g, 0, node[0]);
    }
    return FC_OK;
}

fc_status fc_machine_sample(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                            const double *uniform, int32_t *path, double *work) {
    int64_t where;
    if (n < 0) return FC_EINVAL;
    const fc_status status = check_rows(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    const int64_t N = offsets[B], longest = longest_of(B, offsets);
    int32_t *q = (int32_t *)(work + lay_out_tensor(&m, machine, longest, work));
    m.forgets = 1;
    for (int64_t b = 0; b < B; b++) {
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        semiring K;
        double log_z;
        if (T == 0) continue;
        const fc_block whole = whole_sentence(first, T);
        const int alive = backward_sums(&m, first, T, FC_AUTO, &K, &log_z) == DONE;
        for (int64_t k = 0; k < n; k += longest) { /* residual states of `longest` samples fit */
            const int64_t end = n - k < longest ? n : k + longest;
            for (int64_t t = 0; t < T; t++) {
                if (alive && t > 0) load_arcs(&m, K, first + t);
                for (int64_t i = k; i < end; i++) {
                    int32_t *one = path + i * N + first;
                    const double u = uniform[i * N + first + t];
                    const int goes_on = alive && (t == 0 || one[t - 1] >= 0);
                    if (!goes_on || !take_step(&m, K, &whole, t, u, one, q + i - k)) one[t] = -1;
                }
            }
        }
    }
    return FC_OK;
}

/* Whether the changes of variant v do not exceed the changes of variant u in lexicographic order, by token
 * and then by place. */
static int falls(const int64_t *ptr, const int32_t *token, const int32_t *place, int64_t u,
                 int64_t v) {
    for (int64_t k = ptr[u], l = ptr[v]; l < ptr[v + 1]; k++, l++) {
        if (k == ptr[u + 1]) return 0;
        if (token[k] != token[l]) return token[l] < token[k];
        if (place[k] != place[l]) return place[l] < place[k];
    }
    return 1;
}

/* Variants are in order, and their changed tokens ascend within a sentence. */
static int variants_ok(int64_t B, const int64_t *offsets, int64_t C, const int64_t *order,
                       const int64_t *sentence, const int64_t *ptr, const int32_t *token,
                       const int32_t *place, int64_t rows) {
    for (int64_t c = 0; c < C; c++) {
        const int64_t v = order[c], s = sentence[v];
        if (s < 0 || s >= B || ptr[v] > ptr[v + 1]) return 0;
        const int64_t T = offsets[s + 1] - offsets[s];
        for (int64_t k = ptr[v]; k < ptr[v + 1]; k++) {
            if (token[k] < 0 || token[k] >= T || place[k] < 0 || place[k] >= rows) return 0;
            if (k > ptr[v] && token[k - 1] >= token[k]) return 0;
        }
        if (c == 0) continue;
        const int64_t before = sentence[order[c - 1]];
        if (before > s || (before == s && !falls(ptr, token, place, order[c - 1], v))) return 0;
    }
    return 1;
}

/* Takes the sentences of the next variants, from c on, into the group; returns the variant after them. */
static int64_t gather(rescoring *w, const int64_t *offsets, int64_t C, const int64_t *sentence,
                      int64_t c, int64_t room) {
    w->sentences = 0;
    for (int64_t tokens = 0; c < C && w->sentences < GROUP;) {
        const int64_t b = sentence[w->order[c]], T = offsets[b + 1] - offsets[b];
        if (w->sentences > 0 && tokens + T > room) break;
        rescored *s = &w->sentence[w->sentences];
        *s = (rescored){offsets[b], T, c, c, 0, -1, FC_NEVER};
        for (; c < C && sentence[w->order[c]] == b; c++) {
            const int64_t k = first_change(w, c);
            if (k < end_of_changes(w, c) && w->token[k] > s->last) s->last = w->token[k];
        }
        s->to = c;
        if (T == 0) {
            for (int64_t k = s->from; k < c; k++) w->total[w->order[k]] = w->m->machine->empty;
            break; /* a group has only sentences with tokens */
        }
        w->sentences++;
        tokens += T;
    }
    return c;
}

fc_status fc_machine_rescore(const fc_machine *machine, int64_t B, const int64_t *offsets,
                             int64_t C, const int64_t *order, const int64_t *sentence,
                             const int64_t *ptr, const int32_t *token, const int32_t *place,
                             int64_t rows, const double *node, int best, double *total,
                             double *work, int64_t *where) {
    const fc_status status = check_rows(B, offsets, where);
    if (status != FC_OK) return status;
    if (machine->axes != 1 || C < 0) return FC_EINVAL;
    if (!variants_ok(B, offsets, C, order, sentence, ptr, token, place, rows)) return FC_EINVAL;
    tensor m;
    rescoring w;
    const int64_t longest = longest_of(B, offsets);
    const int64_t room = longest > GROUP_TOKENS ? longest : GROUP_TOKENS;
    *where = lay_out_tensor(&m, machine, longest, work);
    double *rest = (double *)((uintptr_t)work + (uintptr_t)*where * sizeof *work);
    *where += lay_out_rescoring(&w, &m, room, C, rest);
    if (work == NULL) return FC_OK;
    m.brief = 0;
    w.order = order;
    w.ptr = ptr;
    w.token = token;
    w.place = place;
    w.potentials = node;
    w.total = total;
    for (int64_t c = 0; c < C;) {
        c = gather(&w, offsets, C, sentence, c, room);
        if (w.sentences > 0) rescore_sentences(&w, best ? MAX_PLUS : SUM_TIMES);
    }
    return FC_OK;
}

/* --- Blocks of long sentences ------------------------------------------------------------------ */

static semiring kind_of(const fc_block *b) {
    return b->kind == FC_BEST ? MAX_PLUS : b->kind == FC_SUM ? SUM_TIMES : LOG_PLUS;
}

fc_status fc_block_suffix(const fc_machine *machine, const fc_block *b, double *suffix,
                          double *total, double *work) {
    if (!block_ok(b)) return FC_EINVAL;
    tensor m;
    lay_out_block(&m, machine, b->n, work);
    m.forgets = 1;
    fc_total sum = {total[0], total[1]};
    if (block_backward(&m, kind_of(b), b, &sum) == LOST) return FC_ERANGE;
    const int whole = b->t == 0;
    total[0] = whole ? fc_value(sum) : sum.sum;
    total[1] = whole ? 0.0 : sum.lost;
    memcpy(suffix, m.suffix, (size_t)m.full * sizeof *suffix);
    return FC_OK;
}

fc_status fc_block_paths(const fc_machine *machine, const fc_block *b, int64_t n, int64_t stride,
                         const double *uniform, int32_t *path, int32_t *residual, double *work) {
    if (!block_ok(b) || n < 0 || stride < b->n) return FC_EINVAL;
    tensor m;
    const semiring K = kind_of(b);
    fc_total total = {0};
    lay_out_block(&m, machine, b->n, work);
    m.forgets = 1;
    if (block_backward(&m, K, b, &total) != DONE) return FC_ERANGE;
    for (int64_t i = 0; i < b->n; i++) {
        if (K != MAX_PLUS && b->t + i > 0) load_arcs(&m, K, b->first + i);
        for (int64_t k = 0; k < n; k++) {
            const double u = K == MAX_PLUS ? 0.0 : uniform[k * stride + i];
            if (!take_step(&m, K, b, i, u, path + k * stride, residual + k)) return FC_ERANGE;
        }
    }
    return FC_OK;
}

fc_status fc_block_marginals(const fc_machine *machine, const fc_block *b, double *const *node,
                             double *const *arc, double *entropy, double *work) {
    if (!block_ok(b)) return FC_EINVAL;
    tensor m;
    const semiring K = kind_of(b);
    fc_total total = {0};
    answers out = {.weight = 1.0, .entropy = entropy};
    lay_out_block(&m, machine, b->n, work);
    for (int64_t c = 0; c < m.n; c++) {
        out.node[c] = node[c];
        out.arc[c] = arc == NULL ? NULL : arc[c];
        m.whole |= out.arc[c] != NULL;
    }
    if (block_backward(&m, K, b, &total) != DONE) return FC_ERANGE;
    return forward(&m, K, b, &out) == DONE ? FC_OK : FC_ERANGE;
}

/* --- Counts of steps -----------------------------------------------------------------------------
 *
 * Expected steps of an automaton that reads labels and kinds of tokens are the posteriors of the cells of
 * the recursion, each a state of the automaton before a token and the chain's state at it: a step follows
 * from both. */

static fc_status check_kinds(const fc_machine *m, int64_t N) {
    const fc_residual *r = m->residual;
    if (m->axes != 1 || r == NULL || r->kind == NULL || r->width != m->S) return FC_EINVAL;
    if (r->Q < 1 || r->E != r->Q || r->rows < 1) return FC_EINVAL;
    for (int64_t t = 0; t < N; t++)
        if (r->kind[t] < 0 || r->kind[t] >= r->rows) return FC_EINVAL;
    for (int64_t k = 0; k < r->Q * r->rows * m->S; k++)
        if (r->reached[k] < -1 || r->reached[k] >= r->Q) return FC_EINVAL;
    return FC_OK;
}

fc_status fc_counts(const fc_machine *machine, int64_t B, const int64_t *offsets, double *log_z,
                    double *state, double *sum, double *arc, double *read, double *last,
                    double *work, int64_t *where) {
    fc_status status = check_bounds(B, offsets, where);
    if (status == FC_OK) status = check_kinds(machine, offsets[B]);
    if (status != FC_OK) return status;
    tensor m;
    lay_out_tensor(&m, machine, longest_of(B, offsets), work);
    m.whole = sum != NULL || arc != NULL;
    const int64_t S = m.S, arcs = m.axis[0].arcs, kinds = machine->residual->rows;
    for (int64_t b = 0; b < B; b++) {
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        const answers out = {.weight = 1.0,
                             .node = {state + first * S},
                             .arc = {arc == NULL ? NULL : arc + first * arcs},
                             .sum = {sum},
                             .keeps_cells = 1};
        *where = b;
        if (arc != NULL) fc_fill(arcs, 0.0, out.arc[0]); /* no arc leads into the first token */
        const outcome found = sentence_marginals(&m, first, T, FC_AUTO, log_z + b, &out);
        if (isnan(log_z[b]) || log_z[b] == (double)INFINITY) return FC_ENUMERIC;
        if (found == LOST) return FC_ERANGE;
        for (int64_t t = 0; found == DONE && t < T; t++)
            for (int64_t q = 0; q < m.Q; q++) {
                const double *cell = m.suffix + t * m.full + q * m.P;
                const int64_t row = (q * kinds + machine->residual->kind[first + t]) * S;
                fc_axpy(S, 1.0, cell, read + row);
                if (t + 1 == T) fc_axpy(S, 1.0, cell, last + row);
            }
    }
    return FC_OK;
}

/* --- One sentence ----------------------------------------------------------------------------- */

_Static_assert(sizeof(tensor) <= FC_HEAD * sizeof(double),
               "the memory of a sentence has its tensors");

/* The tensor of paths or of sums, with the tables of the machine. */
static tensor *kept_tensor(fc_sentence *s, int sums) {
    tensor *m = (tensor *)(void *)s->work[sums];
    double *after = s->work[sums] + FC_HEAD + s->room;
    if (!s->loaded[sums]) lay_out_tensor(m, s->machine, s->room, after);
    s->loaded[sums] = 1;
    m->forgets = !sums;
    return m;
}

fc_status fc_ask_sentence(fc_sentence *s, int64_t N, int64_t n_index, const int64_t *indptr,
                          const int32_t *index, const float *value, int64_t wanted, int reversed) {
    const fc_machine *machine = s->machine;
    s->where = 0;
    if (N < 0 || N > s->room || !is_line(machine) || machine->factors != 1) return FC_EINVAL;
    fc_status status = fc_check_rows(N, s->packed->R, n_index, indptr, index, &s->where);
    if (status == FC_OK)
        status = fc_gather_packed(N, s->packed, indptr, index, value, machine->S, reversed, s->node,
                                  s->posterior);
    if (status == FC_OK && fc_first_invalid(N * machine->S, s->node) >= 0) status = FC_ENUMERIC;
    s->total[0] = s->total[1] = machine->empty;
    if (status != FC_OK || N == 0) return status;
    const answers out = {.weight = 1.0, .node = {s->posterior}};
    semiring K;
    double top;
    outcome sums = DONE;
    if (wanted & FC_PATH) {
        tensor *m = kept_tensor(s, 0);
        backward(m, MAX_PLUS, 0, N, &top);
        s->total[0] = walk_best(m, 0, N, s->path, (int32_t *)(s->work[0] + FC_HEAD));
    }
    if (wanted & FC_POSTERIOR)
        sums = sentence_marginals(kept_tensor(s, 1), 0, N, FC_AUTO, s->total + 1, &out);
    else if (wanted & FC_LOG_Z)
        sums = backward_sums(kept_tensor(s, 1), 0, N, FC_AUTO, &K, s->total + 1);
    return sums == LOST ? FC_ERANGE : FC_OK;
}
