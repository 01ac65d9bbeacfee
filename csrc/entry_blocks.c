/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of long sentences, and of spans. */

#include "entry.h"

static int block_ok(const fc_block *b) {
    const int known = b->kind == FC_BEST || b->kind == FC_SUM || b->kind == FC_LOGS;
    return known && b->first >= 0 && b->n >= 1 && b->t >= 0;
}

int64_t fc_block_cells(const fc_machine *machine) { return dispatch_table()->block_cells(machine); }

int64_t fc_block_work(const fc_machine *machine, int64_t n) {
    return dispatch_table()->block_work(machine, n);
}

fc_status fc_block_suffix(const fc_machine *machine, const fc_block *block, double *suffix,
                          double *total, double *work) {
    if (!block_ok(block)) return FC_EINVAL;
    return dispatch_table()->block_suffix(machine, block, suffix, total, work);
}

fc_status fc_block_best(const fc_machine *machine, const fc_block *block, int32_t *path,
                        int32_t *residual, double *work) {
    if (!block_ok(block) || block->kind != FC_BEST) return FC_EINVAL;
    return dispatch_table()->block_best(machine, block, path, residual, work);
}

fc_status fc_block_sample(const fc_machine *machine, const fc_block *block, int64_t n,
                          int64_t stride, const double *uniform, int32_t *path, int32_t *residual,
                          double *work) {
    if (!block_ok(block) || block->kind == FC_BEST || n < 0 || stride < block->n) return FC_EINVAL;
    return dispatch_table()->block_sample(machine, block, n, stride, uniform, path, residual, work);
}

fc_status fc_block_marginals(const fc_machine *machine, const fc_block *block, double log_z,
                             double *const *node, double *const *arc, double *entropy,
                             double *work) {
    if (!block_ok(block)) return FC_EINVAL;
    return dispatch_table()->block_marginals(machine, block, log_z, node, arc, entropy, work);
}

/* --- Spans ----------------------------------------------------------------------------------- */

/* Types of the ends of arcs agree with what the arcs do, and every type has a state. */
static int segments_ok(const fc_machine *machine, const fc_segments *g) {
    if (g->axis < 0 || g->axis >= machine->axes || g->types < 1) return 0;
    const fc_axis *a = &machine->axis[g->axis];
    if (g->types > a->S) return 0;
    for (int64_t k = 0; k < g->types; k++) {
        int64_t i = 0;
        while (i < a->S && g->type[i] != k) i++;
        if (i == a->S) return 0;
    }
    for (int64_t i = 0; i < a->S; i++)
        if (g->type[i] < -1 || g->type[i] >= g->types) return 0;
    const int64_t arcs = a->A == 0 ? a->S * a->S : a->A;
    for (int64_t k = 0, i = 0, j = 0; k < arcs; k++, j++) {
        if (j == a->S) {
            i++;
            j = 0;
        }
        const int32_t from = g->type[a->A == 0 ? i : a->source[k]];
        const int32_t to = g->type[a->A == 0 ? j : a->target[k]];
        if (g->arc[k] > FC_CARRIES || (g->arc[k] == FC_OPENS && to < 0)) return 0;
        if (g->arc[k] == FC_CARRIES && (from < 0 || from != to)) return 0;
    }
    return 1;
}

static int search_ok(const fc_segments *g, const fc_segment_search *f, int64_t begin, int64_t end) {
    if (f->lanes < 1 || f->room < 0 || f->found < 0 || !(f->floor >= 0.0)) return 0;
    if (f->mode != FC_ASKED) return f->mode == FC_ABOVE || f->mode == FC_COUNTED;
    if (begin < 0 || begin > end || end > f->room) return 0;
    for (int64_t i = begin; i < end; i++) {
        const int32_t *s = f->span + 3 * i;
        if (s[0] < 0 || s[0] >= s[1] || s[2] < 0 || s[2] >= g->types) return 0;
        if (i == begin || s[-3] < s[0]) continue;
        if (s[-3] > s[0] || s[-1] > s[2] || (s[-1] == s[2] && s[-2] >= s[1])) return 0;
    }
    return 1;
}

int64_t fc_segment_memory(const fc_machine *machine, const fc_segments *labels, int64_t lanes) {
    return dispatch_table()->segment_memory(machine, labels, lanes);
}

int64_t fc_segment_work(const fc_machine *machine, const fc_segments *labels, int64_t lanes,
                        int64_t n) {
    return dispatch_table()->segment_work(machine, labels, lanes, n);
}

fc_status fc_machine_segments(const fc_machine *machine, int64_t B, const int64_t *offsets,
                              const fc_segments *labels, const int64_t *asked,
                              fc_segment_search *search, int64_t *ends, double *log_z,
                              double *memory, double *work, int64_t *where) {
    const fc_status status = check_bounds(B, offsets, where);
    if (status != FC_OK) return status;
    if (!segments_ok(machine, labels) || (search->mode == FC_ASKED) != (asked != NULL))
        return FC_EINVAL;
    for (int64_t b = 0; b < B; b++)
        if (!search_ok(labels, search, asked == NULL ? 0 : asked[b],
                       asked == NULL ? 0 : asked[b + 1]))
            return fail(FC_EINVAL, b, where);
    return dispatch_table()->machine_segments(machine, B, offsets, labels, asked, search, ends,
                                              log_z, memory, work);
}

fc_status fc_block_segments(const fc_machine *machine, const fc_block *block,
                            const fc_segments *labels, fc_segment_search *search, double *memory,
                            double *work) {
    if (!block_ok(block) || block->kind == FC_BEST || !segments_ok(machine, labels) ||
        !search_ok(labels, search, search->cursor, search->asked))
        return FC_EINVAL;
    return dispatch_table()->block_segments(machine, block, labels, search, memory, work);
}
