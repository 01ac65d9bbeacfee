/* SPDX-License-Identifier: Apache-2.0
 *
 * The recursion of recursion.h over a part of a sentence. Two rows pass from block to block: G of the
 * token after the block, and F of the first token. Both are passed unchanged, so the rows of a block
 * are, bit for bit, the rows of the whole sentence. Memory holds the rows between blocks and the rows
 * of one block. */
#ifndef FSTCRF_BLOCKS_H
#define FSTCRF_BLOCKS_H

#include "recursion.h"

static inline int64_t lay_out_block(tensor *m, const fc_machine *machine, int64_t n, double *work) {
    return lay_out_tensor(m, machine, n + 1, work);
}

static inline int sentence_ends(const fc_block *b) { return b->after == NULL; }

/* suffix[i] = G of the block's token i, up to the token after the block. Adds the logs of the scales to
 * *total, which at the first token of a sentence becomes log Z (MAX_PLUS: the best score). */
static inline outcome block_backward(tensor *m, semiring K, const fc_block *b, fc_total *total) {
    load_static(m, K);
    m->lost = m->static_lost;
    forget_underflow();
    double step = 0.0; /* of the arcs into the next token */
    if (sentence_ends(b)) {
        *total = (fc_total){m->shift, 0.0};
        spread_ends(m, K, m->final, m->ends[1], m->x);
    } else {
        memcpy(m->suffix + b->n * m->full, b->after, (size_t)m->full * sizeof *b->after);
        step = m->step[b->n] = load_arcs(m, K, b->first + b->n);
        all_axes(m, K, BACKWARD, m->suffix + b->n * m->full);
    }
    for (int64_t i = b->n - 1; i >= 0; i--) {
        fc_add(total, step + read_token(m, K, b->first, i, b->n));
        if (total->sum == FC_NEVER) return K == SUM_TIMES && any_lost(m) ? LOST : NO_PATH;
        if (i == 0) break;
        step = m->step[i] = load_arcs(m, K, b->first + i);
        all_axes(m, K, BACKWARD, m->suffix + i * m->full);
    }
    if (K == SUM_TIMES && any_lost(m)) return LOST;
    if (b->t > 0) return DONE;
    first_row(m, K, m->row);
    const double z = row_total(m, K);
    if (K == SUM_TIMES && (any_lost(m) || (z > 0.0 && z < FAINT))) return LOST;
    fc_add(total, K == SUM_TIMES ? log(z) : z);
    return total->sum > FC_NEVER ? DONE : NO_PATH;
}

/* m->x = F of the block's first token. */
static inline void block_enter(tensor *m, semiring K, const fc_block *b) {
    if (b->t == 0) {
        spread_ends(m, K, m->initial, m->ends[0], m->x);
    } else {
        memcpy(m->x, b->before, (size_t)m->full * sizeof *m->x);
    }
}

static inline int block_ok(const fc_block *b) {
    const int known = b->kind == FC_BEST || b->kind == FC_SUM || b->kind == FC_LOGS;
    return known && b->first >= 0 && b->n >= 1 && b->t >= 0;
}

#endif
