/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of sentences over one composition. */

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

/* Prepares for sentences side by side; 0: not possible for this machine. */
static int take_abreast(side_by_side *w, tensor *m, semiring K, int64_t B, const int64_t *offsets,
                        double *work) {
    const int64_t longest = longest_of(B, offsets);
    if (!full_chain(m->machine) || B < fewest_lanes(m->axis)) return 0;
    if (is_matrix(m->axis) && K == MAX_PLUS && m->forgets)
        return 0; /* best paths: rows are faster */
    lay_out_side_by_side(w, m, B, longest, work + fc_machine_work(m->machine, 0, longest));
    m->brief = 0;
    load_static(m, K);
    by_length(B, offsets, longest, w->order);
    return 1;
}

/* Scores sentences without tokens; returns the number of the others, which are first in the order by
   length. */
static int64_t score_empty(const fc_machine *machine, int64_t B, const int64_t *offsets,
                           double *score) {
    int64_t full = 0;
    for (int64_t b = 0; b < B; b++) {
        const int has_tokens = offsets[b] < offsets[b + 1];
        full += has_tokens;
        if (!has_tokens && score != NULL) score[b] = machine->empty;
    }
    return full;
}

static void best_alone(tensor *m, int64_t first, int64_t T, int32_t *path, double *score,
                       int32_t *q) {
    double top;
    backward(m, MAX_PLUS, first, T, &top);
    *score = walk_best(m, first, T, path + first, q);
}

fc_status fc_machine_best(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int32_t *path, double *score, double *work) {
    int64_t where;
    const fc_status status = check_rows(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    side_by_side w;
    group g;
    int32_t *q = (int32_t *)(work + lay_out_tensor(&m, machine, longest_of(B, offsets), work));
    m.forgets = 1;
    const int64_t full = score_empty(machine, B, offsets, score);
    const int abreast = take_abreast(&w, &m, MAX_PLUS, B, offsets, work);
    for (int64_t b = 0; b < B && !abreast; b++)
        if (offsets[b] < offsets[b + 1])
            best_alone(&m, offsets[b], offsets[b + 1] - offsets[b], path, score + b, q);
    for (int64_t at = 0; at < full && abreast; at += g.n) {
        if (!make_group(&w, full, offsets, at, &g)) {
            best_alone(&m, g.first[0], g.T[0], path, score + g.b[0], q);
            continue;
        }
        backward_lanes(&w, &m, MAX_PLUS, &g, 0);
        for (int64_t l = 0; l < g.n; l++)
            score[g.b[l]] = walk_lane(&w, &m, &g, l, path + g.first[l]);
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
    tensor m;
    const int64_t N = offsets[B], longest = longest_of(B, offsets);
    lay_out_tensor(&m, machine, longest, work);
    queue h;
    lay_out_queue(&h, &m, n, longest, scratch);
    h.within = within;
    for (int64_t i = 0; i < n * N; i++) path[i] = -1;
    for (int64_t i = 0; i < n * B; i++) score[i] = FC_NEVER;
    m.forgets = 1;
    side_by_side w;
    group g;
    const int64_t full = score_empty(machine, B, offsets, NULL);
    const int abreast = take_abreast(&w, &m, MAX_PLUS, B, offsets, work);
    int together = 0;
    for (int64_t b = 0, at = 0; b < B; b++) {
        const int64_t own = abreast ? w.order[b] : b, first = offsets[own];
        const int64_t T = offsets[own + 1] - first;
        if (T == 0) {
            count[own] = machine->empty > FC_NEVER;
            score[own * n] = machine->empty;
            continue;
        }
        if (abreast && b == at) { /* in the order of lengths */
            together = make_group(&w, full, offsets, at, &g);
            if (together) backward_lanes(&w, &m, MAX_PLUS, &g, 0);
            at += g.n;
        }
        double top;
        h.stamp = own + 1;
        h.floor = floor == NULL ? FC_NEVER : floor[own];
        count[own] = 0;
        int found = 1;
        if (together) {
            suffix_of(&w, &m, MAX_PLUS, b - (at - g.n), T);
        } else {
            found = backward(&m, MAX_PLUS, first, T, &top) == DONE;
        }
        if (found) count[own] = walk_nbest(&m, &h, first, T, n, N, path, score + own * n);
    }
    return FC_OK;
}

fc_status fc_machine_log_partition(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   fc_domain domain, double *log_z, double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_rows(B, offsets, where);
    if (status != FC_OK) return status;
    tensor m;
    lay_out_tensor(&m, machine, longest_of(B, offsets), work);
    m.forgets = 1;
    side_by_side w;
    group g;
    semiring K;
    const int64_t full = score_empty(machine, B, offsets, log_z);
    const int abreast = domain != FC_LOG && take_abreast(&w, &m, SUM_TIMES, B, offsets, work);
    for (*where = 0; *where < B && !abreast; ++*where) {
        const int64_t first = offsets[*where], T = offsets[*where + 1] - first;
        if (T == 0) continue;
        if (backward_sums(&m, first, T, domain, &K, log_z + *where) == LOST) return FC_ERANGE;
    }
    for (int64_t at = 0; at < full && abreast; at += g.n) {
        const int together = make_group(&w, full, offsets, at, &g);
        load_static(&m, SUM_TIMES);
        if (together) backward_lanes(&w, &m, SUM_TIMES, &g, 0);
        for (int64_t l = 0; l < g.n; l++) {
            *where = g.b[l];
            log_z[*where] = fc_value(g.total[l]);
            if (together && !g.lost[l]) continue;
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

/* Posteriors of states, and sums of the arcs that differ from a rest, for a batch side by side. */
static fc_status marginals_abreast(const side_by_side *w, tensor *m, int64_t B,
                                   const int64_t *offsets, fc_domain domain, const double *weight,
                                   double *log_z, double *node, double *sum, int64_t *where) {
    group g;
    const int64_t full = score_empty(m->machine, B, offsets, log_z);
    for (int64_t at = 0; at < full; at += g.n) {
        const int together = make_group(w, full, offsets, at, &g);
        for (int64_t l = 0; l < g.n && weight != NULL; l++) g.weight[l] = weight[g.b[l]];
        load_static(m, SUM_TIMES);
        if (together) posteriors_of_group(w, m, &g, node, sum);
        for (int64_t l = 0; l < g.n; l++) {
            *where = g.b[l];
            log_z[*where] = fc_value(g.total[l]);
            if (together && !g.lost[l]) continue;
            const answers out = {
                .weight = g.weight[l], .node = {node + g.first[l] * m->S}, .sum = {sum}};
            if (sentence_marginals(m, g.first[l], g.T[l], domain, log_z + *where, &out) == LOST)
                return FC_ERANGE;
        }
    }
    return FC_OK;
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
    tensor m;
    lay_out_tensor(&m, machine, longest_of(B, offsets), work);
    for (int64_t c = 0; c < m.n && sum != NULL; c++)
        if (sum[c] != NULL) fc_fill(m.axis[c].arcs, 0.0, sum[c]);
    if (m.single) fc_fill(m.axis[0].size, 0.0, m.outer_sum);
    m.whole = any_of(arc, m.n) || any_of(sum, m.n);
    side_by_side w;
    const int few = !any_of(arc, m.n) && entropy == NULL && domain != FC_LOG &&
                    (!any_of(sum, m.n) || (m.axis[0].full && !m.axis[0].dense));
    if (few && take_abreast(&w, &m, SUM_TIMES, B, offsets, work)) {
        const fc_status done = marginals_abreast(&w, &m, B, offsets, domain, weight, log_z, node[0],
                                                 sum == NULL ? NULL : sum[0], where);
        if (done == FC_OK && sum != NULL && sum[0] != NULL) collect_outer(&m, sum[0]);
        return done;
    }
    score_empty(machine, B, offsets, log_z);
    for (int64_t b = 0; b < B; b++) {
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        if (entropy != NULL) entropy[b] = 0.0;
        if (T == 0) continue;
        answers out = {.weight = weight == NULL ? 1.0 : weight[b],
                       .entropy = entropy == NULL ? NULL : entropy + b};
        sentence_answers(&m, first, node, arc, sum, &out);
        for (int64_t c = 0; c < m.n; c++) /* first tokens have no arcs into them */
            if (out.arc[c] != NULL) fc_fill(m.axis[c].arcs, 0.0, out.arc[c]);
        *where = b;
        if (sentence_marginals(&m, first, T, domain, log_z + b, &out) == LOST) return FC_ERANGE;
    }
    if (m.single && sum != NULL && sum[0] != NULL && !m.axis[0].axis->moving)
        collect_outer(&m, sum[0]);
    return FC_OK;
}

/* Max-marginals of a sentence; with `path`, also its best path. */
static void max_alone(tensor *m, int64_t first, int64_t T, const answers *out, int32_t *path,
                      double *score, int32_t *q) {
    double top;
    const outcome result = backward(m, MAX_PLUS, first, T, &top);
    if (path != NULL) *score = walk_best(m, first, T, path + first, q);
    if (result == DONE || out->begun != NULL) forward(m, MAX_PLUS, first, T, out);
    if (result != DONE) fill_answers(m, T, FC_NEVER, out);
}

fc_status fc_machine_max_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   double *const *node, int32_t *path, double *score, double *begun,
                                   double *ahead, double *work) {
    int64_t where;
    const fc_status status = check_rows(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    side_by_side w;
    group g;
    int32_t *q = (int32_t *)(work + lay_out_tensor(&m, machine, longest_of(B, offsets), work));
    const int64_t cells = m.Q * m.outer * m.S;
    const int abreast =
        begun == NULL && ahead == NULL && take_abreast(&w, &m, MAX_PLUS, B, offsets, work);
    const int64_t full = score_empty(machine, B, offsets, path == NULL ? NULL : score);
    for (int64_t b = 0; b < B && !abreast; b++) {
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        if (T == 0) continue;
        answers out = {.weight = 1.0,
                       .begun = begun == NULL ? NULL : begun + first * cells,
                       .ahead = ahead == NULL ? NULL : ahead + first * cells};
        sentence_answers(&m, first, node, NULL, NULL, &out);
        max_alone(&m, first, T, &out, path, path == NULL ? NULL : score + b, q);
    }
    for (int64_t at = 0; at < full && abreast; at += g.n) {
        if (!make_group(&w, full, offsets, at, &g)) {
            const answers out = {.weight = 1.0, .node = {node[0] + g.first[0] * m.S}};
            max_alone(&m, g.first[0], g.T[0], &out, path, path == NULL ? NULL : score + g.b[0], q);
            continue;
        }
        backward_lanes(&w, &m, MAX_PLUS, &g, 1);
        for (int64_t l = 0; l < g.n && path != NULL; l++) {
            int32_t *own = path + g.first[l];
            if (w.matrix) suffix_of(&w, &m, MAX_PLUS, l, g.T[l]);
            score[g.b[l]] = w.matrix ? walk_best(&m, g.first[l], g.T[l], own, q)
                                     : walk_lane(&w, &m, &g, l, own);
        }
        forward_lanes(&w, &m, MAX_PLUS, &g, 0, node[0]);
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
        const int alive = backward_sums(&m, first, T, FC_AUTO, &K, &log_z) == DONE;
        for (int64_t k = 0; k < n; k += longest) { /* residual states of `longest` samples fit */
            const int64_t end = n - k < longest ? n : k + longest;
            for (int64_t t = 0; t < T; t++) {
                if (alive && t > 0) load_arcs(&m, K, first + t);
                for (int64_t i = k; i < end; i++) {
                    int32_t *one = path + i * N + first;
                    const double u = uniform[i * N + first + t];
                    const int goes_on = alive && (t == 0 || one[t - 1] >= 0);
                    if (!goes_on || !draw_step(&m, K, first, t, u, one, q + i - k)) one[t] = -1;
                }
            }
        }
    }
    return FC_OK;
}

fc_status fc_machine_dead(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int64_t *position, double *work) {
    int64_t where;
    const fc_status status = check_rows(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    lay_out_tensor(&m, machine, longest_of(B, offsets), work);
    for (int64_t b = 0; b < B; b++)
        position[b] = offsets[b] < offsets[b + 1]
                          ? first_dead(&m, offsets[b], offsets[b + 1] - offsets[b])
                          : 0;
    return FC_OK;
}

/* Whether change k precedes change l in the order of tokens, or of potentials at one token. */
static int change_before(const int32_t *token, const int32_t *place, int64_t k, int64_t l) {
    return token[k] < token[l] || (token[k] == token[l] && place[k] < place[l]);
}

/* Whether the changes of variant v do not exceed the changes of variant u in lexicographic order. */
static int falls(const int64_t *ptr, const int32_t *token, const int32_t *place, int64_t u,
                 int64_t v) {
    int64_t k = ptr[u], l = ptr[v];
    for (; l < ptr[v + 1]; k++, l++) {
        if (k == ptr[u + 1] || change_before(token, place, k, l)) return 0;
        if (change_before(token, place, l, k)) return 1;
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

_Static_assert(sizeof(tensor) <= FC_HEAD * sizeof(double), "the memory of a sentence has its tensors");

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
    outcome sums = DONE;
    if (wanted & FC_PATH)
        best_alone(kept_tensor(s, 0), 0, N, s->path, s->total, (int32_t *)(s->work[0] + FC_HEAD));
    if (wanted & FC_POSTERIOR)
        sums = sentence_marginals(kept_tensor(s, 1), 0, N, FC_AUTO, s->total + 1, &out);
    else if (wanted & FC_LOG_Z)
        sums = backward_sums(kept_tensor(s, 1), 0, N, FC_AUTO, &K, s->total + 1);
    return sums == LOST ? FC_ERANGE : FC_OK;
}
