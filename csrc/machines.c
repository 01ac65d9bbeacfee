/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of sentences over one composition. */

#include "rescore.h"
#include "checks.h"

#define MOST_CHOICES 500000

int64_t fc_machine_work(const fc_machine *machine, int64_t longest) {
    tensor m;
    /* With the residual states of a path, or the trace of a sentence. */
    return lay_out_tensor(&m, machine, longest, NULL) + longest * (m.full + 3) + m.P;
}

fc_status fc_machine_best(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int32_t *path, double *score, double *work) {
    int64_t where;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    const int64_t longest = longest_of(B, offsets);
    int32_t *q = (int32_t *)(work + lay_out_tensor(&m, machine, longest, work));
    m.forgets = 1;
    for (int64_t b = 0; b < B; b++) {
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        double top;
        backward(&m, MAX_PLUS, first, T, &top);
        score[b] = walk_best(&m, first, T, path + first, q);
    }
    return FC_OK;
}

/* Rows that n best search remembers: none where that would take more memory than the search. */
static int64_t choices_of(const tensor *m, int64_t longest) {
    const int64_t rows = longest * m->Q * m->outer * m->S;
    return rows <= MOST_CHOICES ? rows : 0;
}

int64_t fc_queue_size(const fc_machine *machine, int64_t n, int64_t longest) {
    tensor m;
    lay_out_tensor(&m, machine, longest, NULL);
    /* A deviation is four doubles, a residual state half a one, a choice four. */
    return 5 * (n * (longest + 1) + 1) + 4 * choices_of(&m, longest);
}

fc_status fc_machine_nbest(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                           int32_t *path, double *score, int64_t *count, double *work,
                           double *scratch) {
    int64_t where;
    if (n < 1 || n > INT32_MAX) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    const int64_t N = offsets[B], longest = longest_of(B, offsets);
    lay_out_tensor(&m, machine, longest, work);
    queue h = {.heap = (deviation *)scratch, .longest = longest};
    h.q = (int32_t *)(h.heap + n * (longest + 1) + 1);
    const int64_t choices = choices_of(&m, longest);
    if (choices > 0) {
        h.choices = (choice *)(scratch + 5 * (n * (longest + 1) + 1));
        for (int64_t i = 0; i < choices; i++) h.choices[i].stamp = 0;
    }
    for (int64_t i = 0; i < n * N; i++) path[i] = -1;
    for (int64_t i = 0; i < n * B; i++) score[i] = FC_NEVER;
    m.forgets = 1;
    for (int64_t b = 0; b < B; b++) {
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        double top;
        count[b] = 0;
        h.stamp = b + 1;
        if (backward(&m, MAX_PLUS, first, T, &top) == DONE)
            count[b] = walk_nbest(&m, &h, first, T, n, N, path, score + b * n);
    }
    return FC_OK;
}

fc_status fc_machine_log_partition(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   fc_domain domain, double *log_z, double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, where);
    if (status != FC_OK) return status;
    tensor m;
    lay_out_tensor(&m, machine, longest_of(B, offsets), work);
    m.forgets = 1;
    for (int64_t b = 0; b < B; b++) {
        semiring K;
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        *where = b;
        if (backward_sums(&m, first, T, domain, &K, log_z + b) == LOST) return FC_ERANGE;
    }
    return FC_OK;
}

/* The answers of a sentence are part of those of the batch. */
static void sentence_answers(const tensor *m, int64_t first, double *const *node,
                             double *const *arc, double *const *sum, answers *out) {
    for (int64_t c = 0; c < m->n; c++) {
        out->node[c] = node[c] + first * m->axis[c].S;
        out->arc[c] = arc == NULL || arc[c] == NULL ? NULL : arc[c] + first * m->axis[c].arcs;
        out->sum[c] = sum == NULL ? NULL : sum[c];
    }
}

fc_status fc_machine_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                               fc_domain domain, const double *weight, double *log_z,
                               double *const *node, double *const *arc, double *const *sum,
                               double *entropy, double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, where);
    if (status != FC_OK) return status;
    tensor m;
    lay_out_tensor(&m, machine, longest_of(B, offsets), work);
    for (int64_t c = 0; c < m.n && sum != NULL; c++)
        if (sum[c] != NULL) fc_fill(m.axis[c].arcs, 0.0, sum[c]);
    if (m.single) fc_fill(m.axis[0].size, 0.0, m.outer_sum);
    for (int64_t b = 0; b < B; b++) {
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        answers out = {.weight = weight == NULL ? 1.0 : weight[b],
                       .entropy = entropy == NULL ? NULL : entropy + b};
        sentence_answers(&m, first, node, arc, sum, &out);
        for (int64_t c = 0; c < m.n; c++) /* no arc leads into a first token */
            if (out.arc[c] != NULL) fc_fill(m.axis[c].arcs, 0.0, out.arc[c]);
        *where = b;
        if (sentence_marginals(&m, first, T, domain, log_z + b, &out) == LOST) return FC_ERANGE;
    }
    if (m.single && sum != NULL && sum[0] != NULL && !m.axis[0].axis->moving)
        collect_outer(&m, sum[0]);
    return FC_OK;
}

fc_status fc_machine_max_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   double *const *node, int32_t *path, double *score, double *begun,
                                   double *ahead, double *work) {
    int64_t where;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    const int64_t longest = longest_of(B, offsets);
    int32_t *q = (int32_t *)(work + lay_out_tensor(&m, machine, longest, work));
    const int64_t cells = m.Q * m.outer * m.S;
    for (int64_t b = 0; b < B; b++) {
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        double top;
        answers out = {.weight = 1.0,
                       .begun = begun == NULL ? NULL : begun + first * cells,
                       .ahead = ahead == NULL ? NULL : ahead + first * cells};
        sentence_answers(&m, first, node, NULL, NULL, &out);
        const outcome result = backward(&m, MAX_PLUS, first, T, &top);
        if (path != NULL) score[b] = walk_best(&m, first, T, path + first, q);
        if (result == DONE || begun != NULL) forward(&m, MAX_PLUS, first, T, &out);
        if (result != DONE) fill_answers(&m, T, FC_NEVER, &out);
    }
    return FC_OK;
}

fc_status fc_machine_sample(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                            const double *uniform, int32_t *path, double *work) {
    int64_t where;
    if (n < 0) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    const int64_t N = offsets[B], longest = longest_of(B, offsets);
    int32_t *q = (int32_t *)(work + lay_out_tensor(&m, machine, longest, work));
    m.forgets = 1;
    for (int64_t b = 0; b < B; b++) {
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        semiring K;
        double log_z;
        const outcome result = backward_sums(&m, first, T, FC_AUTO, &K, &log_z);
        for (int64_t k = 0; k < n; k++) {
            int32_t *one = path + k * N + first;
            int alive = result == DONE;
            for (int64_t t = 0; t < T; t++) {
                if (alive && K == SUM_TIMES && t > 0) load_arcs(&m, K, first + t);
                alive = alive && draw_step(&m, K, first, t, uniform[k * N + first + t], one, q);
                if (!alive) one[t] = -1;
            }
        }
    }
    return FC_OK;
}

fc_status fc_machine_dead(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int64_t *position, double *work) {
    int64_t where;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status != FC_OK) return status;
    tensor m;
    lay_out_tensor(&m, machine, longest_of(B, offsets), work);
    for (int64_t b = 0; b < B; b++)
        position[b] = first_dead(&m, offsets[b], offsets[b + 1] - offsets[b]);
    return FC_OK;
}

/* Variants are in order and change tokens of their sentence, rising. */
static int variants_ok(int64_t B, const int64_t *offsets, int64_t C, const int64_t *sentence,
                       const int64_t *ptr, const int32_t *token) {
    if (C < 0 || ptr[0] != 0) return 0;
    for (int64_t c = 0; c < C; c++) {
        if (sentence[c] < 0 || sentence[c] >= B || ptr[c] > ptr[c + 1]) return 0;
        if (c > 0 && sentence[c - 1] > sentence[c]) return 0;
        const int64_t T = offsets[sentence[c] + 1] - offsets[sentence[c]];
        for (int64_t k = ptr[c]; k < ptr[c + 1]; k++)
            if (token[k] < 0 || token[k] >= T || (k > ptr[c] && token[k - 1] >= token[k])) return 0;
    }
    return 1;
}

fc_status fc_machine_rescore(const fc_machine *machine, int64_t B, const int64_t *offsets,
                             int64_t C, const int64_t *sentence, const int64_t *ptr,
                             const int32_t *token, const double *node, int best, double *total,
                             double *work, int64_t *where) {
    const fc_status status = check_bounds(B, offsets, where);
    if (status != FC_OK) return status;
    if (machine->axes != 1 || !variants_ok(B, offsets, C, sentence, ptr, token)) return FC_EINVAL;
    tensor m;
    const int64_t longest = longest_of(B, offsets);
    double *rest = work + lay_out_tensor(&m, machine, longest, work);
    trace w = {.forward = rest, .before = rest + longest * m.full};
    w.behind = w.before + longest;
    w.changed = w.behind + longest;
    for (int64_t c = 0, end; c < C; c = end) {
        const int64_t b = sentence[c], first = offsets[b], T = offsets[b + 1] - first;
        for (end = c + 1; end < C && sentence[end] == b;) end++;
        const outcome result = variants(&m, best ? MAX_PLUS : SUM_TIMES, first, T, &w, c, end, ptr,
                                        token, node, total);
        *where = b;
        if (result == LOST) return FC_ERANGE;
        for (int64_t k = c; result == NO_PATH && k < end; k++) total[k] = FC_NEVER;
    }
    return FC_OK;
}
