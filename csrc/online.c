/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning one sentence at a time: averaged perceptron, stochastic gradient descent. */

#include "sentence.h"
#include "target.h"

typedef struct {
    const fc_learner *learner;
    fc_graph graph; /* the caller's structure over the parameters of the moment */
    workspace w;
    double *slots;   /* [longest][W] potentials of slots, then their gradient */
    double *node;    /* [longest][S] */
    double *out;     /* [longest][S] posteriors */
    double *arc;     /* [arcs] scaled potentials, then expectations */
    double *ends;    /* [2][S] scaled potentials */
    double *arc_out; /* [arcs] */
} online;

static void prepare(online *o, const fc_graph *graph, const fc_batch *batch,
                    const fc_learner *learner, double *work) {
    int64_t longest = 0;
    for (int64_t b = 0; b < batch->B; b++) {
        const int64_t T = batch->offsets[b + 1] - batch->offsets[b];
        longest = T > longest ? T : longest;
    }
    const int64_t arcs = graph->A == 0 ? graph->S * graph->S : graph->A;
    o->learner = learner;
    o->graph = *graph;
    o->slots = work;
    o->node = o->slots + longest * learner->W;
    o->out = o->node + longest * graph->S;
    o->arc = o->out + longest * graph->S;
    o->arc_out = o->arc + arcs;
    o->ends = o->arc_out + arcs;
    lay_out(&o->w, &o->graph, longest, o->ends + 2 * graph->S);
    o->graph.score = o->arc;
    o->graph.initial = o->ends;
    o->graph.final = o->ends + graph->S;
}

/* node[t][s] = scale * sum_k (design x table)[t][slot[s][k]] */
static void potentials(online *o, int64_t first, int64_t T, const fc_parameters *theta,
                       double scale) {
    const fc_learner *r = o->learner;
    const int64_t S = o->graph.S;
    memset(o->slots, 0, (size_t)(T * r->W) * sizeof *o->slots);
    for (int64_t t = 0; t < T; t++) {
        double *u = o->slots + t * r->W;
        for (int64_t k = r->indptr[first + t]; k < r->indptr[first + t + 1]; k++)
            fc_axpy(r->W, r->value == NULL ? 1.0 : (double)r->value[k],
                    theta->table + r->index[k] * r->W, u);
        for (int64_t s = 0; s < S; s++) {
            double sum = 0.0;
            for (int64_t k = 0; k < r->K; k++) sum += u[r->slot[s * r->K + k]];
            o->node[t * S + s] = scale * sum;
        }
    }
    for (int64_t a = 0; a < o->w.m.arcs; a++) o->arc[a] = scale * theta->arc[a];
    for (int64_t s = 0; s < S; s++) {
        o->ends[s] = scale * theta->initial[s];
        o->ends[S + s] = scale * theta->final[s];
    }
    o->w.m.state = NOT_LOADED;
}

/* The arc from i to j; every gold and best path has one. */
static int64_t arc_of(const fc_graph *g, int32_t i, int32_t j) {
    if (g->A == 0) return i * g->S + j;
    int64_t a = g->row[i];
    while (g->target[a] != j) a++;
    return a;
}

static double path_score(const online *o, int64_t T, const int32_t *path) {
    const fc_graph *g = &o->graph;
    double score = g->initial[path[0]] + g->final[path[T - 1]];
    for (int64_t t = 0; t < T; t++) score += o->node[t * g->S + path[t]];
    for (int64_t t = 1; t < T; t++) score += g->score[arc_of(g, path[t - 1], path[t])];
    return score;
}

/* parameters += rate * features of one state at one token */
static void add_state(const fc_learner *r, int64_t n, int32_t state, double rate, double *table) {
    for (int64_t k = r->indptr[n]; k < r->indptr[n + 1]; k++) {
        const int64_t row = r->index[k] * r->W;
        const double v = r->value == NULL ? rate : rate * (double)r->value[k];
        for (int64_t i = 0; i < r->K; i++) {
            const int64_t cell = row + r->slot[state * r->K + i];
            if (r->mask[cell]) table[cell] += v;
        }
    }
}

static void add_path_ends(const online *o, int64_t T, const int32_t *path, double rate,
                          fc_parameters *p) {
    const fc_learner *r = o->learner;
    for (int64_t t = 1; t < T; t++) {
        const int64_t a = arc_of(&o->graph, path[t - 1], path[t]);
        if (r->arc_mask[a]) p->arc[a] += rate;
    }
    if (r->ends) {
        p->initial[path[0]] += rate;
        p->final[path[T - 1]] += rate;
    }
}

void FC_NAME(fc_perceptron)(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                            int64_t n_order, const int64_t *order, const int32_t *gold,
                            const double *weight, fc_parameters *theta, fc_parameters *sums,
                            double *step, int64_t *errors, double *work) {
    online o;
    prepare(&o, graph, batch, learner, work);
    int32_t *path = (int32_t *)o.out;
    *errors = 0;
    for (int64_t k = 0; k < n_order; k++, *step += 1.0) {
        const int64_t b = order[k], first = batch->offsets[b], T = batch->offsets[b + 1] - first;
        const int32_t *right = gold + first;
        potentials(&o, first, T, theta, 1.0);
        best_path(&o.w, o.node, 0, T, path);
        int64_t wrong = 0;
        for (int64_t t = 0; t < T; t++) wrong += path[t] != right[t];
        *errors += wrong;
        if (wrong == 0 || path[0] < 0) continue;
        const double rate = weight[b], late = rate * *step;
        for (int64_t t = 0; t < T; t++) {
            if (path[t] == right[t]) continue;
            add_state(learner, first + t, right[t], rate, theta->table);
            add_state(learner, first + t, path[t], -rate, theta->table);
            add_state(learner, first + t, right[t], late, sums->table);
            add_state(learner, first + t, path[t], -late, sums->table);
        }
        add_path_ends(&o, T, right, rate, theta);
        add_path_ends(&o, T, path, -rate, theta);
        add_path_ends(&o, T, right, late, sums);
        add_path_ends(&o, T, path, -late, sums);
    }
}

/* theta -= rate * (expected - observed) of one sentence, from the posteriors in o->out, o->arc_out */
static void descend(online *o, int64_t first, int64_t T, const int32_t *gold, double rate,
                    fc_parameters *theta) {
    const fc_learner *r = o->learner;
    const int64_t S = o->graph.S, W = r->W;
    for (int64_t t = 0; t < T; t++) o->out[t * S + gold[t]] -= 1.0;
    for (int64_t t = 1; t < T; t++) o->arc_out[arc_of(&o->graph, gold[t - 1], gold[t])] -= 1.0;
    for (int64_t t = 0; t < T; t++) {
        double *g = o->slots + t * W;
        fc_fill(W, 0.0, g);
        for (int64_t s = 0; s < S; s++)
            for (int64_t k = 0; k < r->K; k++) g[r->slot[s * r->K + k]] += rate * o->out[t * S + s];
        for (int64_t k = r->indptr[first + t]; k < r->indptr[first + t + 1]; k++) {
            double *restrict row = theta->table + r->index[k] * W;
            const uint8_t *restrict mask = r->mask + r->index[k] * W;
            const double v = r->value == NULL ? 1.0 : (double)r->value[k];
            for (int64_t j = 0; j < W; j++) row[j] -= v * g[j] * (double)mask[j];
        }
    }
    for (int64_t a = 0; a < o->w.m.arcs; a++)
        if (r->arc_mask[a]) theta->arc[a] -= rate * o->arc_out[a];
    for (int64_t s = 0; s < S && r->ends; s++) {
        theta->initial[s] -= rate * o->out[s];
        theta->final[s] -= rate * o->out[(T - 1) * S + s];
    }
}

fc_status FC_NAME(fc_sgd)(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                          int64_t n_order, const int64_t *order, const int32_t *gold,
                          const double *weight, const double *rate, double decay,
                          fc_parameters *theta, double *scale, double *loss, double *work,
                          int64_t *where) {
    online o;
    machine *m = &o.w.m;
    prepare(&o, graph, batch, learner, work);
    *loss = 0.0;
    for (int64_t k = 0; k < n_order; k++) {
        const int64_t b = order[k], first = batch->offsets[b], T = batch->offsets[b + 1] - first;
        double log_z;
        potentials(&o, first, T, theta, *scale);
        memset(m->outer, 0, (size_t)m->size * sizeof *m->outer);
        memset(o.arc_out, 0, (size_t)m->arcs * sizeof *o.arc_out);
        const outcome result =
            forward_backward(&o.w, o.node, 0, T, FC_AUTO, 1.0, &log_z, o.out, o.arc_out);
        const double nll = log_z - path_score(&o, T, gold + first);
        if (result != DONE || !isfinite(nll)) {
            *where = k;
            return FC_ENUMERIC;
        }
        load(m, 0, LINEAR);
        collect_arcs(m, o.arc_out);
        *loss += weight[b] * nll;
        *scale *= 1.0 - rate[k] * decay;
        const double step = rate[k] * weight[b] / *scale;
        if (!(*scale > 0.0) || !isfinite(step)) {
            *where = k;
            return FC_ENUMERIC;
        }
        descend(&o, first, T, gold + first, step, theta);
    }
    return FC_OK;
}
