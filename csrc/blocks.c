/* SPDX-License-Identifier: Apache-2.0
 *
 * Long sentences, block by block: the functions of machines.c for sentences whose rows do not fit in
 * memory. */

#include "recursion.h"

int64_t fc_block_work(const fc_machine *machine, int64_t n) {
    tensor m;
    return lay_out_block(&m, machine, n, NULL);
}

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
    if (block_backward(&m, K, b, &total) == LOST) return FC_ERANGE;
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
