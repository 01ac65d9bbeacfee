/* SPDX-License-Identifier: Apache-2.0
 *
 * Machines: acyclic ones, chains and compositions, scores of labels from anywhere. */

#include "input.h"

/* --- Acyclic machines
 * -------------------------------------------------------------------------- */

void acyclic(void) {
    const int64_t S = 1 + below(12), A = below(24), n = 1 + below(6);
    fc_acyclic m = {.S = S, .A = A};
    int64_t where = 0, cycle = 0;
    int64_t *row = starts(S, A);
    int32_t *target = NEW(int32_t, A);
    for (int64_t a = 0; a < A; a++) target[a] = index_below(S);
    if (grab(1) % 4) /* in order, as most machines are */
        for (int64_t s = 0; s + 1 < S; s++)
            for (int64_t a = row[s]; a >= 0 && a < A && a < row[s + 1]; a++)
                target[a] = (int32_t)(s + 1 + (target[a] & 7) % (S - s - 1));
    uint8_t *ends = NEW(uint8_t, S), *keep = NEW(uint8_t, S);
    for (int64_t s = 0; s < S; s++) ends[s] = (uint8_t)grab(1) & 1;
    fc_topological(S, row, target, NEW(int32_t, S), &cycle, NEW(int32_t, 2 * S), &where);
    fc_connected(S, row, target, index_below(S), ends, keep, NEW(int64_t, S + 1),
                 NEW(int32_t, S + A), &where);
    if (grab(1) == 255) row[S] = A + 1 + below(3); /* A is told from here on */
    m.row = row, m.target = target, m.score = values(A), m.final = values(S);
    const int64_t B = 1 + below(3);
    int64_t *begins = NEW(int64_t, B);
    for (int64_t b = 0; b < B; b++) begins[b] = index_below(S);
    m.B = B, m.begins = begins;
    if (fc_check_acyclic(&m, &where) != FC_OK) return;
    int32_t *shortest = NEW(int32_t, S), *longest = NEW(int32_t, S);
    double *best = NEW(double, S), *sum = NEW(double, S), *node = NEW(double, S);
    double *stop = NEW(double, S), *share = NEW(double, A);
    double *arc = NEW(double, A), *score = NEW(double, B *n);
    int64_t width = 0, row_done = 0, *count = NEW(int64_t, B);
    fc_acyclic_lengths(&m, NULL, shortest, longest);
    for (int64_t s = 0; s < S; s++) width = longest[s] > width ? longest[s] : width;
    fc_acyclic_suffix(&m, best, NULL, NULL, NULL);
    fc_acyclic_suffix(&m, sum, NEW(double, S), stop, share);
    fc_acyclic_marginals(&m, sum, stop, share, node, arc, NEW(double, S));
    fc_acyclic_max_marginals(&m, best, node, arc);
    fc_acyclic_best(&m, best, B * S, NEW(int32_t, B *S), NEW(int64_t, B + 1));
    int32_t *path = NEW(int32_t, B * n * width);
    const int64_t steps = n * width, heap = n * (width + 1) + 1;
    const fc_status status =
        fc_acyclic_nbest(&m, best, n, width, steps, NEW(fc_step, steps), heap,
                         NEW(fc_deviation, heap), path, score, count, &row_done);
    must(status == FC_OK, "there is not enough room for paths");
    for (int64_t b = 0; b < B; b++)
        check_paths(count[b], width, path + b * n * width, score + b * n);
    fc_acyclic_sample(&m, stop, share, n, width, uniform(B * n * width), path);
}

/* --- Chains and compositions
 * ------------------------------------------------------------------- */

static void ask_machine(const fc_machine *m, int64_t B, const int64_t *offsets) {
    const int64_t N = offsets[B], n = 1 + below(5);
    int64_t longest = 0, where = 0, cells = 0;
    longest = longest_sentence(B, offsets);
    double *work = NEW(double, fc_machine_work(m, B, longest));
    double *log_z = NEW(double, B), *score = NEW(double, B *n);
    int32_t *path = NEW(int32_t, n *N);
    int64_t *count = NEW(int64_t, B);
    double *node[2] = {0}, *arc[2] = {0}, *sum[2] = {0};
    int moving = 0;
    for (int64_t c = 0; c < m->axes; c++) moving |= m->axis[c].moving != 0;
    for (int64_t c = 0; c < m->axes; c++) {
        const fc_axis *a = &m->axis[c];
        cells = a->A == 0 ? a->S * a->S : a->A;
        node[c] = NEW(double, N * a->S), arc[c] = NEW(double, N *cells),
        sum[c] = NEW(double, cells);
    }
    const fc_domain domain = (fc_domain)below(3);
    fc_machine_log_partition(m, B, offsets, domain, log_z, work, &where);
    fc_machine_marginals(m, B, offsets, domain, NULL, log_z, node, below(2) ? arc : NULL,
                         moving ? NULL : sum, below(2) ? score : NULL, work, &where);
    fc_machine_best(m, B, offsets, path, score, work);
    fc_machine_max_marginals(m, B, offsets, node, path, score, NULL, NULL, work);
    double *scratch = NEW(double, fc_queue_size(m, n, longest));
    if (fc_machine_nbest(m, B, offsets, n, NULL, INFINITY, path, score, count, work, scratch) ==
        FC_OK)
        for (int64_t b = 0; b < B; b++) {
            int32_t *own = NEW(int32_t, n *(offsets[b + 1] - offsets[b]));
            const int64_t T = offsets[b + 1] - offsets[b];
            for (int64_t k = 0; k < n; k++)
                memcpy(own + k * T, path + k * N + offsets[b], (size_t)T * sizeof *own);
            check_paths(count[b], T, own, score + b * n);
        }
    fc_machine_sample(m, B, offsets, n, uniform(n * N), path, work);
}

void machines(void) {
    const int64_t B = (grab(1), 1 + below(4)); /* a byte that says nothing: older inputs have it */
    const int64_t *offsets = sentences(B, 6);
    fc_machine m;
    if (draw_machine(&m, offsets[B])) ask_machine(&m, B, offsets);
}

/* --- Scores of labels from anywhere
 * ------------------------------------------------------------ */

void emissions(void) {
    const int64_t S = 1 + below(9), L = 1 + below(6), B = 1 + below(4), T = 1 + below(6);
    const int wide = below(2) == 0;
    int32_t *label = NEW(int32_t, S);
    int64_t *start = NEW(int64_t, B), *length = NEW(int64_t, B), *place = NEW(int64_t, B),
            where = 0;
    for (int64_t s = 0; s < S; s++) label[s] = index_below(L);
    for (int64_t b = 0; b < B; b++) {
        start[b] = grab(1) == 255 ? (int64_t)grab(8) : b * T * L;
        length[b] = grab(1) == 255 ? (int64_t)grab(8) : below(T + 1);
        place[b] = 0;
    }
    fc_rows rows = {
        .size = B * T * L, .start = start, .stride = L, .length = length, .B = B, .L = L};
    double *x = values(rows.size);
    float *narrow = NEW(float, rows.size);
    for (int64_t i = 0; i < rows.size; i++) narrow[i] = (float)fmax(fmin(x[i], 1e38), -1e38);
    rows.wide = wide ? x : NULL, rows.narrow = wide ? NULL : narrow;
    fc_emitter e = {.S = S, .L = L, .label = label, .arc = values(S * S)};
    e.initial = values(S), e.final = values(S);
    if (fc_check_emissions(&e, &rows, &where) != FC_OK) return;
    for (int64_t b = 0, tokens = 0; b < B; b++) place[b] = tokens, tokens += length[b];
    double *work = NEW(double, fc_emission_work(&e, &rows, 0, B)), *score = NEW(double, B);
    int32_t *path = NEW(int32_t, B *T);
    fc_emission_best(&e, &rows, 0, B, place, path, score, work, &where);
    fc_emission_sums sums = {.log_z = score, .left = NEW(uint8_t, B), .size = rows.size};
    if (wide)
        sums.wide = NEW(double, rows.size);
    else
        sums.narrow = NEW(float, rows.size);
    sums.start = start, sums.stride = L;
    sums.arc = NEW(double, S *S), sums.begin = NEW(double, S), sums.end = NEW(double, S);
    memset(sums.arc, 0, (size_t)(S * S) * sizeof(double));
    memset(sums.begin, 0, (size_t)S * sizeof(double));
    memset(sums.end, 0, (size_t)S * sizeof(double));
    fc_emission_total(&e, &rows, 0, B, &sums, work, &where);
}
