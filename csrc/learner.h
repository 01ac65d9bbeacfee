/* SPDX-License-Identifier: Apache-2.0
 *
 * Code shared by the epochs of online learning: a sentence under the current parameters. */
#ifndef FSTCRF_LEARNER_H
#define FSTCRF_LEARNER_H

#include "checks.h"
#include "recursion.h"

#define FC_AHEAD 8 /* rows of prefetch */

typedef struct {
    const fc_learner *learner;
    /* The caller's structure with the current parameters. */
    fc_machine machine;
    fc_axis axis;
    fc_factor factor;
    tensor m;
    int64_t S, arcs;
    double *slots;   /* [longest][W] potentials of slots, then their gradient */
    double *node;    /* [longest][S] */
    double *out;     /* [longest][S] posteriors */
    double *arc;     /* [arcs] scaled potentials, then expectations */
    double *ends;    /* [2][S] scaled potentials */
    double *arc_out; /* [arcs] */
} online;

/* Checks sentences, slots and their order, for learners that process one sentence at a time. */
static inline fc_status check_learner(const fc_machine *machine, const fc_batch *batch,
                                      const fc_learner *learner, int64_t n_order,
                                      const int64_t *order, int64_t *where) {
    fc_status status = check_offsets(batch, where);
    if (status != FC_OK) return status;
    if (!is_chain(machine) || machine->axis->moving || machine->axis->rest != NULL ||
        learner->K < 1 || learner->W < FC_LANES || learner->W % FC_LANES != 0)
        return FC_EINVAL;
    status = check_within(machine->S * learner->K, learner->slot, 0, learner->W, where);
    if (status == FC_OK)
        status = check_within(arcs_of(machine->axis), learner->arc_slot, 0, learner->M, where);
    return status == FC_OK ? check_order(n_order, order, batch->B, where) : status;
}

/* Doubles of scratch of an epoch. */
static inline int64_t learner_room(const fc_machine *machine, const fc_learner *learner,
                                   int64_t longest) {
    return longest * (learner->W + 2 * machine->S) + 2 * arcs_of(machine->axis) + 2 * machine->S +
           fc_machine_work(machine, 0, longest);
}

/* Lays out the scratch of an epoch; returns the first free double after it. */
static inline double *prepare(online *o, const fc_machine *machine, const fc_batch *batch,
                              const fc_learner *learner, double *work) {
    const int64_t longest = longest_of(batch->B, batch->offsets), S = machine->S;
    const int64_t arcs = arcs_of(machine->axis);
    o->learner = learner;
    o->S = S;
    o->arcs = arcs;
    o->slots = work;
    o->node = o->slots + longest * learner->W;
    o->out = o->node + longest * S;
    o->arc = o->out + longest * S;
    o->arc_out = o->arc + arcs;
    o->ends = o->arc_out + arcs;
    o->axis = *machine->axis;
    o->axis.score = o->arc;
    o->factor = (fc_factor){.rows = 1, .width = S, .moving = 1, .value = o->node};
    o->machine = *machine;
    o->machine.factors = 1;
    o->machine.axis = &o->axis;
    o->machine.factor = &o->factor;
    o->machine.initial = o->ends;
    o->machine.final = o->ends + S;
    lay_out_tensor(&o->m, &o->machine, longest, o->ends + 2 * S);
    return work + learner_room(machine, learner, longest);
}

static inline void prefetch_row(int64_t W, const double *x) {
    for (int64_t j = 0; j < W; j += FC_LANES) __builtin_prefetch(x + j, 1);
}

/* u[t] = sum of the weights of the attributes of token t. Loops over common widths are compiled
 * separately. */
FC_INLINE void sum_weights(int64_t W, const fc_learner *r, int64_t first, int64_t T,
                           const double *restrict table, double *restrict u) {
    const int64_t end = r->indptr[first + T];
    fc_fill(T * W, 0.0, u);
    for (int64_t t = 0; t < T; t++, u += W)
        for (int64_t k = r->indptr[first + t]; k < r->indptr[first + t + 1]; k++) {
            prefetch_row(W, table + r->index[k + FC_AHEAD < end ? k + FC_AHEAD : k] * W);
            fc_axpy(W, r->value == NULL ? 1.0 : (double)r->value[k], table + r->index[k] * W, u);
        }
}

/* node[t][s] = scale * sum_k (design x table)[t][slot[s][k]] */
static inline void potentials(online *o, int64_t first, int64_t T, const fc_parameters *theta,
                              double scale) {
    const fc_learner *r = o->learner;
    const int64_t S = o->S;
    if (r->W == 8)
        sum_weights(8, r, first, T, theta->table, o->slots);
    else if (r->W == 16)
        sum_weights(16, r, first, T, theta->table, o->slots);
    else
        sum_weights(r->W, r, first, T, theta->table, o->slots);
    for (int64_t t = 0; t < T; t++) {
        const double *u = o->slots + t * r->W;
        for (int64_t s = 0; s < S; s++) {
            double sum = 0.0;
            for (int64_t k = 0; k < r->K; k++) sum += u[r->slot[s * r->K + k]];
            o->node[t * S + s] = scale * sum;
        }
    }
    for (int64_t a = 0; a < o->arcs; a++) o->arc[a] = scale * theta->arc[r->arc_slot[a]];
    for (int64_t s = 0; s < S; s++) {
        o->ends[s] = scale * theta->initial[s];
        o->ends[S + s] = scale * theta->final[s];
    }
    o->m.loaded = 0;
}

/* The arc from i to j; every gold and best path has one. */
static inline int64_t arc_of(const fc_axis *g, int32_t i, int32_t j) {
    if (g->A == 0) return i * g->S + j;
    int64_t a = g->row[i];
    while (g->target[a] != j) a++;
    return a;
}

static inline double path_score(const online *o, int64_t T, const int32_t *path) {
    double score = o->machine.initial[path[0]] + o->machine.final[path[T - 1]];
    for (int64_t t = 0; t < T; t++) score += o->node[t * o->S + path[t]];
    for (int64_t t = 1; t < T; t++) score += o->arc[arc_of(&o->axis, path[t - 1], path[t])];
    return score;
}

/* The best path under the current parameters; returns its score. There is no residual automaton, whose
 * states would be stored after the path. */
static inline double best_path(online *o, int64_t T, int32_t *path) {
    double top;
    o->m.forgets = 1;
    backward(&o->m, MAX_PLUS, 0, T, &top);
    return walk_best(&o->m, 0, T, path, path + T);
}

/* Posteriors into o->out, and into o->arc_out all sums of arcs that collect_outer does not add. */
static inline outcome posteriors(online *o, int64_t T, double *log_z) {
    const answers out = {.weight = 1.0, .node = {o->out}, .sum = {o->arc_out}};
    fc_fill(o->arcs, 0.0, o->arc_out);
    fc_fill(o->m.axis[0].size, 0.0, o->m.outer_sum);
    return sentence_marginals(&o->m, 0, T, FC_AUTO, log_z, &out);
}

static inline int64_t wrong_labels(const fc_learner *r, int64_t T, const int32_t *path,
                                   const int32_t *gold) {
    int64_t wrong = 0;
    for (int64_t t = 0; t < T; t++) wrong += r->label[path[t]] != r->label[gold[t]];
    return wrong;
}

#endif
