/* SPDX-License-Identifier: Apache-2.0
 *
 * Gibbs sampling of the labels of a document: sweeps over its tokens or its sentences. A graph scores
 * each sentence, a table of penalties the spans that disagree across sentences. */

#include "blocked.h"
#include "single_site.h"
#include "checks.h"

/* Counts all spans; returns the score of the document. */
static double score_all(const sampler *g) {
    count_none(g->agree);
    double total = 0.0;
    for (int64_t b = 0; b < g->batch->B; b++) {
        const int64_t first = g->batch->offsets[b], end = g->batch->offsets[b + 1];
        const stretch s = {first, end, first, -1, 0};
        total += path_score(g, first, end);
        if (g->agree->Y) total += enter(g, &s);
    }
    return total;
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

int64_t fc_gibbs_work(const fc_machine *machine, const fc_labelling *lab, int64_t longest) {
    return sampler_room(machine, lab, longest);
}

static fc_status check_fields(int64_t N, const fc_agreement *a, int64_t *where) {
    if (a->F < 0 || a->V < 0 || a->M < 0 || a->W < 0) return fail(FC_EINVAL, 0, where);
    for (int64_t y = 0; y < a->Y; y++) {
        if (a->F > 0 && (a->table[y] < -1 || a->table[y] >= a->F)) return fail(FC_EINVAL, y, where);
        if (a->F > 0 && !isfinite(a->differ[y])) return fail(FC_ENUMERIC, y, where);
        if (a->W > 0 && !isfinite(a->every[y])) return fail(FC_ENUMERIC, y, where);
    }
    for (int64_t k = 0; k < a->F * N * a->M; k++)
        if (a->value[k] < -1 || a->value[k] >= a->V) return fail(FC_EINVAL, k, where);
    for (int64_t n = 0; a->W > 0 && n < N; n++)
        if (a->word[n] < -2 || a->word[n] >= a->W) return fail(FC_EINVAL, n, where);
    return FC_OK;
}

static fc_status check_agreement(const fc_batch *batch, const fc_labelling *lab,
                                 const fc_agreement *a, int64_t *where) {
    const int64_t N = batch->offsets[batch->B];
    if (a->Y < 0 || a->K < 0) return fail(FC_EINVAL, 0, where);
    if (a->Y == 0) return FC_OK;
    for (int64_t c = 0; c < lab->L; c++)
        if (a->type[c] < -1 || a->type[c] >= a->Y) return fail(FC_EINVAL, c, where);
    for (int64_t c = 0; c < (lab->L + 1) * lab->L; c++) /* a label that starts a span has a type */
        if (a->starts[c] && a->type[c % lab->L] < 0) return fail(FC_EINVAL, c, where);
    if (a->first[0] != 0) return fail(FC_EINVAL, 0, where);
    for (int64_t n = 0; n < N; n++)
        if (a->first[n + 1] < a->first[n]) return fail(FC_EINVAL, n, where);
    for (int64_t k = 0; k < a->first[N]; k++)
        if (a->sequence[k] < 0 || a->sequence[k] >= a->K) return fail(FC_EINVAL, k, where);
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
    for (int64_t s = 0; s < machine->S; s++)
        if (lab->label[s] < 0 || lab->label[s] >= lab->L) return fail(FC_EINVAL, s, where);
    for (int64_t k = 0; k < (machine->S + 1) * lab->L; k++)
        if (lab->next[k] < -1 || lab->next[k] >= machine->S) return fail(FC_EINVAL, k, where);
    return FC_OK;
}

fc_status fc_gibbs(const fc_machine *machine, const fc_batch *batch, const fc_labelling *lab,
                   const fc_agreement *agree, int64_t sweeps, const double *temperature,
                   const uint8_t *whole, const double *uniform, int32_t *path, double *score,
                   int32_t *best, double *best_score, double *work, int64_t *where) {
    fc_status status = check_labelling(machine, lab, where);
    if (status == FC_OK) status = check_agreement(batch, lab, agree, where);
    for (int64_t k = 0; status == FC_OK && k < sweeps; k++)
        if (!(temperature[k] >= 0.0)) status = fail(FC_ENUMERIC, k, where);
    for (int64_t n = 0; status == FC_OK && n < batch->offsets[batch->B]; n++)
        if (path[n] < 0 || path[n] >= machine->S) status = fail(FC_EINVAL, n, where);
    if (status != FC_OK) return status;
    sampler g = {.machine = machine,
                 .axis = machine->axis,
                 .node = machine->factor->value,
                 .batch = batch,
                 .lab = lab,
                 .agree = agree,
                 .path = path};
    sampler_lay_out(&g, work);
    turn_arcs(&g);
    double total = score_all(&g);
    remember(&g, total, best, best_score);
    for (int64_t k = 0; k < sweeps; k++, uniform += g.N + batch->B) {
        total = whole[k] ? sweep_sentences(&g, total, temperature[k], uniform)
                         : sweep_tokens(&g, total, temperature[k], uniform);
        score[k] = total;
        remember(&g, total, best, best_score);
    }
    return FC_OK;
}
