/* SPDX-License-Identifier: Apache-2.0
 *
 * Expected steps of an automaton that reads the labels of a chain, and the kinds of its tokens. They are
 * the posteriors of the cells of the recursion, each a state of the automaton before a token and the
 * chain's state at it: a step follows from both. */

#include "recursion.h"

static fc_status check_kinds(const fc_machine *m, int64_t N) {
    const fc_residual *r = m->residual;
    if (m->axes != 1 || r == NULL || r->kind == NULL || r->width != m->S) return FC_EINVAL;
    if (r->Q < 1 || r->E != r->Q || r->rows < 1) return FC_EINVAL;
    for (int64_t t = 0; t < N; t++)
        if (r->kind[t] < 0 || r->kind[t] >= r->rows) return FC_EINVAL;
    for (int64_t k = 0; k < r->Q * r->rows * m->S; k++)
        if (r->reached[k] < -1 || r->reached[k] >= r->Q) return FC_EINVAL;
    return FC_OK;
}

fc_status fc_counts(const fc_machine *machine, int64_t B, const int64_t *offsets, double *log_z,
                    double *state, double *sum, double *arc, double *read, double *last,
                    double *work, int64_t *where) {
    fc_status status = check_bounds(B, offsets, where);
    if (status == FC_OK) status = check_kinds(machine, offsets[B]);
    if (status != FC_OK) return status;
    tensor m;
    lay_out_tensor(&m, machine, longest_of(B, offsets), work);
    m.whole = sum != NULL || arc != NULL;
    const int64_t S = m.S, arcs = m.axis[0].arcs, kinds = machine->residual->rows;
    for (int64_t b = 0; b < B; b++) {
        const int64_t first = offsets[b], T = offsets[b + 1] - first;
        const answers out = {.weight = 1.0,
                             .node = {state + first * S},
                             .arc = {arc == NULL ? NULL : arc + first * arcs},
                             .sum = {sum},
                             .keeps_cells = 1};
        *where = b;
        if (arc != NULL) fc_fill(arcs, 0.0, out.arc[0]); /* no arc leads into the first token */
        const outcome found = sentence_marginals(&m, first, T, FC_AUTO, log_z + b, &out);
        if (isnan(log_z[b]) || log_z[b] == (double)INFINITY) return FC_ENUMERIC;
        if (found == LOST) return FC_ERANGE;
        for (int64_t t = 0; found == DONE && t < T; t++)
            for (int64_t q = 0; q < m.Q; q++) {
                const double *cell = m.suffix + t * m.full + q * m.P;
                const int64_t row = (q * kinds + machine->residual->kind[first + t]) * S;
                fc_axpy(S, 1.0, cell, read + row);
                if (t + 1 == T) fc_axpy(S, 1.0, cell, last + row);
            }
    }
    return FC_OK;
}
