/* SPDX-License-Identifier: Apache-2.0
 *
 * Gibbs sampling of the labels of a document: sweeps over its tokens or its sentences. A graph scores
 * each sentence, a table of penalties the spans that disagree across sentences. */

#include "blocked.h"
#include "single_site.h"
#include "checks.h"

/* Counts all spans; returns the score of the document. */
static double enter_all(const sampler *g) {
    double total = 0.0;
    for (int64_t b = 0; b < g->batch->B; b++) {
        const int64_t first = g->batch->offsets[b], end = g->batch->offsets[b + 1];
        const stretch s = {first, end, first, -1, 0};
        total += path_score(g, first, end);
        if (g->agree->Y) total += enter(g, &s);
    }
    return total;
}

/* Counts are zeros again. */
static void leave_all(const sampler *g) {
    for (int64_t b = 0; b < g->batch->B && g->agree->Y; b++) {
        const int64_t first = g->batch->offsets[b], end = g->batch->offsets[b + 1];
        const stretch s = {first, end, first, -1, 0};
        leave(g, &s);
    }
}

/* Keeps the labels if they are the best so far; the tolerance covers rounding in running sums. */
static void remember(const sampler *g, double total, int32_t *best, double *best_score) {
    if (!(total > *best_score + 1e-9)) return;
    *best_score = total;
    memcpy(best, g->path, (size_t)g->N * sizeof *best);
}

/* Both sweeps keep the score of the document up to date. */
static double sweep_tokens(sampler *g, double total, double temperature, const double *uniform) {
    for (int64_t b = 0; b < g->batch->B; b++) {
        const int64_t first = g->batch->offsets[b], end = g->batch->offsets[b + 1];
        for (int64_t t = first; t < end; t++)
            total += resample_token(g, first, end, t, temperature, uniform[t]);
    }
    return total;
}

static double sweep_sentences(sampler *g, double total, double temperature, const double *uniform) {
    const double *accept = uniform + g->N;
    if (!g->axis->moving) tempered_arcs(g, 0, temperature == 0.0 ? 1.0 : 1.0 / temperature);
    for (int64_t b = 0; b < g->batch->B; b++) {
        const int64_t first = g->batch->offsets[b], end = g->batch->offsets[b + 1];
        total += resample_sentence(g, first, end, temperature, uniform + first, accept[b]);
    }
    return total;
}

static fc_status check_fields(int64_t N, const fc_agreement *a, int64_t *where) {
    if (a->F < 0 || a->V < 0 || a->M < 0 || a->W < 0) return fail(FC_EINVAL, 0, where);
    for (int64_t y = 0; y < a->Y; y++) {
        if (a->F > 0 && !isfinite(a->differ[y])) return fail(FC_ENUMERIC, y, where);
        if (a->W > 0 && !isfinite(a->every[y])) return fail(FC_ENUMERIC, y, where);
    }
    fc_status status = check_within(a->F > 0 ? a->Y : 0, a->table, -1, a->F, where);
    if (status == FC_OK) status = check_within(a->F * N * a->M, a->value, -1, a->V, where);
    return status == FC_OK ? check_within(a->W > 0 ? N : 0, a->word, -2, a->W, where) : status;
}

static fc_status check_agreement(const fc_batch *batch, const fc_labelling *lab,
                                 const fc_agreement *a, int64_t *where) {
    const int64_t N = batch->offsets[batch->B];
    if (a->Y < 0 || a->K < 0) return fail(FC_EINVAL, 0, where);
    if (a->Y == 0) return FC_OK;
    fc_status status = check_within(lab->L, a->type, -1, a->Y, where);
    if (status == FC_OK) status = check_rows(N, a->first, where);
    if (status == FC_OK) status = check_within(a->first[N], a->sequence, 0, a->K, where);
    if (status != FC_OK) return status;
    for (int64_t c = 0; c < (lab->L + 1) * lab->L; c++) /* a label that starts a span has a type */
        if (a->starts[c] && a->type[c % lab->L] < 0) return fail(FC_EINVAL, c, where);
    for (int64_t k = 0; k < a->Y * a->Y; k++)
        if (!isfinite(a->same[k]) || !isfinite(a->within[k]) ||
            (a->cuts && !isfinite(a->incomplete[k])))
            return fail(FC_ENUMERIC, k, where);
    return check_fields(N, a, where);
}

static fc_status check_labelling(const fc_machine *machine, const fc_labelling *lab,
                                 int64_t *where) {
    const fc_factor *f = machine->factor;
    if (!is_chain(machine) || machine->axis->A > 0 || machine->factors != 1 || !f->moving ||
        f->rows != 1 || f->width != machine->S || lab->L < 1)
        return fail(FC_EINVAL, 0, where);
    if (lab->turned != NULL && (machine->S != lab->L || machine->axis->moving))
        return fail(FC_EINVAL, 0, where);
    const fc_status status = check_within(machine->S, lab->label, 0, lab->L, where);
    if (status != FC_OK) return status;
    return check_within((machine->S + 1) * lab->L, lab->next, -1, machine->S, where);
}

fc_status fc_gibbs(const fc_machine *machine, const fc_batch *batch, const fc_labelling *lab,
                   const fc_agreement *agree, int64_t sweeps, const double *temperature,
                   const uint8_t *whole, const double *uniform, int32_t *path, double *score,
                   int32_t *best, double *best_score, double *work, int64_t *where) {
    fc_status status = check_labelling(machine, lab, where);
    if (status == FC_OK) status = check_agreement(batch, lab, agree, where);
    for (int64_t k = 0; status == FC_OK && k < sweeps; k++)
        if (!(temperature[k] >= 0.0)) status = fail(FC_ENUMERIC, k, where);
    if (status == FC_OK && path != NULL)
        status = check_within(batch->offsets[batch->B], path, 0, machine->S, where);
    if (status == FC_OK && work == NULL)
        *where = sampler_room(machine, lab, longest_of(batch->B, batch->offsets));
    if (status != FC_OK || work == NULL) return status;
    sampler g = {.machine = machine,
                 .axis = machine->axis,
                 .node = machine->factor->value,
                 .batch = batch,
                 .lab = lab,
                 .agree = agree,
                 .path = path};
    sampler_lay_out(&g, work);
    double total = enter_all(&g);
    remember(&g, total, best, best_score);
    for (int64_t k = 0; k < sweeps; k++, uniform += g.N + batch->B) {
        total = whole[k] ? sweep_sentences(&g, total, temperature[k], uniform)
                         : sweep_tokens(&g, total, temperature[k], uniform);
        score[k] = total;
        remember(&g, total, best, best_score);
    }
    leave_all(&g);
    return FC_OK;
}
