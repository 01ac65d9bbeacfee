/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of compositions: inference over one machine, multiplied out or searched lazily. */

#include "entry.h"

int64_t fc_machine_work(const fc_machine *machine, int64_t longest) {
    return dispatch_table()->machine_work(machine, longest);
}

int64_t fc_queue_size(const fc_machine *machine, int64_t n, int64_t longest) {
    return dispatch_table()->queue_size(machine, n, longest);
}

fc_status fc_machine_best(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int32_t *path, double *score, double *work) {
    int64_t where;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status == FC_OK) dispatch_table()->machine_best(machine, B, offsets, path, score, work);
    return status;
}

fc_status fc_machine_nbest(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                           int32_t *path, double *score, int64_t *count, double *work,
                           double *queue) {
    int64_t where;
    if (n < 1 || n > INT32_MAX) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status == FC_OK)
        dispatch_table()->machine_nbest(machine, B, offsets, n, path, score, count, work, queue);
    return status;
}

fc_status fc_machine_log_partition(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   fc_domain domain, double *log_z, double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, where);
    if (status != FC_OK) return status;
    return dispatch_table()->machine_log_partition(machine, B, offsets, domain, log_z, work, where);
}

fc_status fc_machine_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                               fc_domain domain, double *log_z, double *const *node,
                               double *const *arc, double *entropy, double *work, int64_t *where) {
    *where = 0;
    if (!domain_known(domain)) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, where);
    if (status != FC_OK) return status;
    return dispatch_table()->machine_marginals(machine, B, offsets, domain, log_z, node, arc,
                                               entropy, work, where);
}

fc_status fc_machine_max_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   double *const *node, double *work) {
    int64_t where;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status == FC_OK) dispatch_table()->machine_max_marginals(machine, B, offsets, node, work);
    return status;
}

fc_status fc_machine_dead(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int64_t *position, double *work) {
    int64_t where;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status == FC_OK) dispatch_table()->machine_dead(machine, B, offsets, position, work);
    return status;
}

fc_status fc_machine_sample(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                            const double *uniform, int32_t *path, double *work) {
    int64_t where;
    if (n < 0) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status == FC_OK)
        dispatch_table()->machine_sample(machine, B, offsets, n, uniform, path, work);
    return status;
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
    return dispatch_table()->machine_rescore(machine, B, offsets, C, sentence, ptr, token, node,
                                             best, total, work, where);
}

fc_status fc_lazy_nbest(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                        const int64_t *offsets, int64_t n, int64_t limit, int64_t width,
                        int64_t steps, int give_up, fc_arena *arena, int32_t *path, double *score,
                        int64_t *count, int64_t *proven, double *bound, int64_t *popped,
                        double *work) {
    int64_t where;
    const fc_arena *a = arena;
    if (n < 1 || n > INT32_MAX || width < 1 || width > INT32_MAX || steps < 1) return FC_EINVAL;
    if (a->visit_room > INT32_MAX || a->slots < 2 * a->visit_room || a->queue_room < 2 ||
        (a->slots & (a->slots - 1)) != 0 || a->sentence < 0 || a->sentence > B || a->stamp < 0 ||
        a->stamp + B - a->sentence > INT32_MAX)
        return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status != FC_OK) return status;
    return dispatch_table()->lazy_nbest(machine, grammar, B, offsets, n, limit, width, steps,
                                        give_up, arena, path, score, count, proven, bound, popped,
                                        work);
}

fc_status fc_path_scores(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                         const int64_t *offsets, int64_t n, const int32_t *path,
                         const int64_t *count, uint64_t *states, double *score, double *work) {
    int64_t where;
    if (n < 1 || n > INT32_MAX) return FC_EINVAL;
    const fc_status status = check_bounds(B, offsets, &where);
    if (status != FC_OK) return status;
    return dispatch_table()->path_scores(machine, grammar, B, offsets, n, path, count, states,
                                         score, work);
}
