/* SPDX-License-Identifier: Apache-2.0
 *
 * Long sentences, block by block: the functions of machines.c for sentences whose rows do not fit in
 * memory. */

#include "blocks.h"
#include "checks.h"

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

/* Cells of the row into token i of the block, and the residual state before it. */
static int64_t row_of(tensor *m, semiring K, const fc_block *b, int64_t i, int32_t before,
                      int32_t q) {
    if (b->t + i == 0) {
        first_row(m, K, m->row);
        return m->full;
    }
    successor_row(m, K, b->first + i, before, m->suffix + i * m->full + q * m->plane, m->row);
    return m->plane;
}

/* Moves to a cell of that row. */
static void go_to(const tensor *m, const fc_block *b, int64_t i, int64_t cell, int32_t *path,
                  int32_t *q) {
    const int64_t from = b->t + i > 0 ? *q : cell / m->plane;
    const int64_t place = b->t + i > 0 ? cell : cell - from * m->plane;
    path[i] = joint_state(m, place);
    const int64_t to = next_state(m, from, place);
    *q = to < 0 ? 0 : (int32_t)to; /* rejected only if scores have changed meanwhile */
}

fc_status fc_block_best(const fc_machine *machine, const fc_block *b, int32_t *path,
                        int32_t *residual, double *work) {
    if (!block_ok(b) || b->kind != FC_BEST) return FC_EINVAL;
    tensor m;
    fc_total total = {0};
    lay_out_block(&m, machine, b->n, work);
    m.forgets = 1;
    block_backward(&m, MAX_PLUS, b, &total);
    for (int64_t i = 0; i < b->n; i++) {
        const int32_t before = b->t + i > 0 ? path[i - 1] : 0;
        const int64_t cells = row_of(&m, MAX_PLUS, b, i, before, *residual);
        const double top = fc_max(cells, m.row);
        const int64_t cell = top > FC_NEVER ? first_equal(cells, m.row, top) : -1;
        if (cell < 0) return FC_ERANGE;
        go_to(&m, b, i, cell, path, residual);
    }
    return FC_OK;
}

fc_status fc_block_sample(const fc_machine *machine, const fc_block *b, int64_t n, int64_t stride,
                          const double *uniform, int32_t *path, int32_t *residual, double *work) {
    if (!block_ok(b) || b->kind == FC_BEST || n < 0 || stride < b->n) return FC_EINVAL;
    tensor m;
    const semiring K = kind_of(b);
    fc_total total = {0};
    lay_out_block(&m, machine, b->n, work);
    m.forgets = 1;
    if (block_backward(&m, K, b, &total) == LOST) return FC_ERANGE;
    for (int64_t i = 0; i < b->n; i++) {
        if (b->t + i > 0) load_arcs(&m, K, b->first + i);
        for (int64_t k = 0; k < n; k++) {
            int32_t *one = path + k * stride;
            const int32_t before = b->t + i > 0 ? one[i - 1] : 0;
            const int64_t cells = row_of(&m, K, b, i, before, residual[k]);
            const double top = fc_max(cells, m.row);
            for (int64_t j = 0; K == LOG_PLUS && j < cells; j++)
                m.row[j] = top > FC_NEVER ? fc_exp(m.row[j] - top) : 0.0;
            const int64_t cell = drawn(cells, m.row, uniform[k * stride + i]);
            if (cell < 0) return FC_ERANGE;
            go_to(&m, b, i, cell, one, residual + k);
        }
    }
    return FC_OK;
}

/* Posteriors of the block's tokens; F of the token after the block is written to b->before. */
static outcome block_forward(tensor *m, semiring K, const fc_block *b, const answers *out) {
    block_enter(m, K, b);
    if (out->entropy != NULL && b->t == 0) {
        first_row(m, K, m->row);
        *out->entropy = row_entropy(K, m->full, m->row);
    }
    for (int64_t i = 0; i < b->n; i++) {
        const int last = i + 1 == b->n && sentence_ends(b);
        if (!cell_posteriors(m, K, m->x, m->suffix + i * m->full, m->norm + i)) return LOST;
        project(m, K, i, out);
        if (out->entropy != NULL && !last) *out->entropy += next_entropy(m, K, b->first, i);
        if (last) break;
        forget_underflow(); /* an underflow in a posterior is harmless */
        times_plane(m, K, m->x, m->node + i * m->plane, m->x);
        move_residual(m, K);
        normalise(m, K, m->x);
        if (m->single) memcpy(m->begun + i * m->P, m->x, (size_t)m->P * sizeof *m->x);
        advance(m, K, b->first, i + 1, out);
        if (K == SUM_TIMES && any_lost(m)) return LOST;
    }
    if (!sentence_ends(b)) {
        memcpy(b->before, m->x, (size_t)m->full * sizeof *m->x);
        if (!cell_posteriors(m, K, m->x, m->suffix + b->n * m->full, m->norm + b->n)) return LOST;
    }
    if (m->single) single_arcs(m, K, b->first, b->n + !sentence_ends(b), out);
    return DONE;
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
    return block_forward(&m, K, b, &out) == DONE ? FC_OK : FC_ERANGE;
}
