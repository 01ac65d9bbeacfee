/* SPDX-License-Identifier: Apache-2.0
 *
 * Semi-Markov chains, and sweeps over documents. */

#include "input.h"

static int valid(int64_t n, const double *x) { return fc_first_invalid(n, x) < 0; }

/* --- Semi-Markov chains
 * -------------------------------------------------------------------------------- */

/* Segments tile the sentence. */
static void check_tiles(const fc_semimarkov *m, int64_t T, const int32_t *label) {
    for (int64_t t = 0; t < T; t++)
        must(label[t] >= -1 && label[t] < m->L && (t > 0 || label[t] >= 0), "not the segments");
}

void semimarkov(void) {
    fc_semimarkov m = {.L = 1 + below(4), .P = 8, .D = 1 + below(4)};
    fc_segment_text x = {.B = 1 + below(3), .V = below(5)};
    int64_t where = 0;
    x.offset = sentences(x.B, 6), x.N = x.offset[x.B];
    int32_t *longest = indices(m.L, m.D);
    for (int64_t l = 0; l < m.L; l++) longest[l] += longest[l] < INT32_MAX;
    m.longest = longest;
    m.length = values((m.D + 2) * m.P), m.initial = values(m.P), m.final = values(m.P);
    double *pair = values(m.L * m.P), *turned = NEW(double, m.L *m.P);
    for (int64_t i = 0; i < m.L; i++)
        for (int64_t j = 0; j < m.P; j++)
            turned[i * m.P + j] = j < m.L ? pair[j * m.P + i] : -INFINITY;
    m.pair = pair, m.turned = turned;
    const int64_t extras = below(6), room_of = fc_semimarkov_room(6, m.P, m.D);
    x.extra = starts(x.B, extras), x.cell = indices(extras, 6 * m.D * m.P);
    x.what = indices(extras, x.V), x.value = values(x.V);
    double *token = finite_values(3 * m.P);
    double *all = NEW(double, x.N * 3 * m.P);
    for (int64_t n = 0; n < x.N; n++) memcpy(all + 3 * n * m.P, token, (size_t)(3 * m.P) * 8);
    for (int64_t k = below(6); k > 0; k--) all[below(x.N) * 3 * m.P + below(3 * m.P)] = value();
    x.token = all;
    if (!valid((m.D + 2) * m.P, m.length) || !valid(m.P, m.initial) || !valid(m.P, m.final) ||
        !valid(m.L * m.P, pair) || !valid(x.N * 3 * m.P, all) || !valid(x.V, x.value))
        return;
    double *work = NEW(double, room_of), *score = NEW(double, x.B);
    int32_t *label = NEW(int32_t, x.N);
    fc_semimarkov_sums(&m, &x, score, NEW(double, x.N * 3 * m.P), ZEROS(double, x.V),
                       ZEROS(double, (m.D + 2) * m.P), ZEROS(double, m.L *m.P), ZEROS(double, m.P),
                       ZEROS(double, m.P), room_of, work, &where);
    if (fc_semimarkov_best(&m, &x, score, label, room_of, work, &where) != FC_OK) return;
    for (int64_t b = 0; b < x.B; b++)
        if (score[b] > -INFINITY)
            check_tiles(&m, x.offset[b + 1] - x.offset[b], label + x.offset[b]);
}

/* --- Documents
 * ----------------------------------------------------------------------------------------- */

/* States follow from labels: the first state of a label, or none of them. */
static void draw_labelling(fc_labelling *lab, int64_t S) {
    const int direct = (int)below(2);
    lab->L = direct ? S : 1 + below(S);
    int32_t *label = NEW(int32_t, S), *next = NEW(int32_t, (S + 1) * lab->L);
    for (int64_t s = 0; s < S; s++) label[s] = direct ? (int32_t)s : index_below(lab->L);
    for (int64_t k = 0; k < (S + 1) * lab->L; k++) {
        const int64_t wanted = k % lab->L, from = below(S);
        next[k] = direct ? (int32_t)wanted : -1;
        for (int64_t i = 0; i < S && next[k] < 0; i++)
            if (label[(from + i) % S] == wanted) next[k] = (int32_t)((from + i) % S);
        if (!direct && below(16) == 15) next[k] = -1;
    }
    lab->label = label, lab->next = next;
    lab->turned = direct && below(2) ? finite_values(S * S) : NULL;
}

static void draw_agreement(fc_agreement *a, const fc_labelling *lab, int64_t N) {
    *a = (fc_agreement){.Y = below(3), .K = below(4), .cuts = (int)below(2), .F = below(3)};
    a->V = below(3), a->M = below(4), a->W = below(4);
    const int64_t Y = a->Y, L = lab->L, listed = below(3 * N + 1);
    int32_t *type = indices(L, Y + 1);
    uint8_t *start = bits((L + 1) * L), *inside = bits((L + 1) * L);
    for (int64_t c = 0; c < L; c++)
        if (type[c] == Y) type[c] = -1;
    for (int64_t c = 0; c < (L + 1) * L; c++)
        if (type[c % L] < 0 && below(16)) start[c] = inside[c] = 0;
    a->starts = start, a->inside = inside, a->type = type;
    a->first = starts(N, listed), a->sequence = indices(listed, a->K);
    a->same = finite_values(Y * Y), a->within = finite_values(Y * Y);
    a->incomplete = finite_values(Y * Y);
    a->whole = ZEROS(int32_t, a->K *Y), a->part = ZEROS(int32_t, a->K *Y);
    a->short_of = ZEROS(int32_t, a->K *Y);
    int32_t *table = indices(Y, a->F + 1), *field = indices(a->F * N * a->M, a->V + 1);
    for (int64_t y = 0; y < Y; y++) table[y] = table[y] == a->F ? -1 : table[y];
    for (int64_t k = 0; k < a->F * N * a->M; k++) field[k] = field[k] == a->V ? -1 : field[k];
    a->table = table, a->value = field, a->differ = finite_values(Y), a->apart = bits(Y);
    a->distinct = ZEROS(int32_t, Y), a->spans = ZEROS(int32_t, (a->V + 1) * Y);
    a->tokens = ZEROS(int32_t, (a->V + 1) * Y);
    int32_t *word = indices(N, a->W + 2);
    for (int64_t n = 0; n < N; n++)
        if (word[n] >= a->W && word[n] < a->W + 2) word[n] = (int32_t)(a->W - 1 - word[n]);
    a->word = word, a->occurs = indices(a->W, 9), a->every = finite_values(Y);
    a->ending = ZEROS(int32_t, a->W *Y), a->labelled = ZEROS(int32_t, a->W *Y);
    a->lowers = 1;
    for (int64_t i = 0; i < Y * Y; i++)
        a->lowers &= !(a->same[i] > 0.0 || a->within[i] > 0.0 || a->incomplete[i] > 0.0);
    for (int64_t y = 0; y < Y; y++) a->lowers &= !(a->differ[y] > 0.0 || a->every[y] > 0.0);
}

void gibbs(void) {
    fc_batch given = {.B = 1 + below(3)};
    given.offsets = sentences(given.B, 5);
    const int64_t N = given.offsets[given.B], S = 1 + below(4), sweeps = 1 + below(3);
    fc_machine m;
    fc_labelling lab;
    fc_agreement agree;
    int64_t where = 0;
    if (!draw_chain(&m, S, N, MAY_MOVE | MAY_BE_SPARSE)) return;
    draw_labelling(&lab, S);
    draw_agreement(&agree, &lab, N);
    double *temperature = NEW(double, sweeps), best_score = -INFINITY;
    for (int64_t k = 0; k < sweeps; k++)
        temperature[k] = below(4) ? (double)below(9) / 4.0 : value();
    int32_t *path = indices(N, S), *best = NEW(int32_t, N);
    memcpy(best, path, (size_t)N * sizeof *best);
    const uint8_t *whole = bits(sweeps);
    const double *numbers = uniform(sweeps * (N + given.B));
    double *score = NEW(double, sweeps), *work = NULL;
    fc_status status = FC_OK;
    for (int64_t turn = 0; turn < 2 && status == FC_OK; turn++) {
        status = fc_gibbs(&m, &given, &lab, &agree, sweeps, temperature, whole, numbers, path,
                          score, best, &best_score, work, &where);
        if (status == FC_OK && work == NULL) work = NEW(double, where);
    }
    for (int64_t n = 0; status == FC_OK && n < N; n++)
        must(path[n] >= 0 && path[n] < S && best[n] >= 0 && best[n] < S, "no states");
}
