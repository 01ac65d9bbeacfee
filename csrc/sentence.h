/* SPDX-License-Identifier: Apache-2.0
 *
 * Dynamic programs along one sentence: forward-backward and best paths.
 *
 * Linear domain. Emissions are shifted by their largest potential, arcs likewise, and every forward
 * row is scaled to sum to one:
 *
 *   e_t(j) = exp(node[t][j] - m_t)             A(i, j) = exp(arc[i -> j] - M)
 *   a_0(j) = c_0 exp(initial[j] - m_i) e_0(j)  a_t(j) = c_t sum_i a_{t-1}(i) A(i, j) e_t(j)
 *   log Z  = sum_t (m_t - log c_t) + (T - 1) M + m_i + m_f + log sum_j a_{T-1}(j) f(j)
 *
 * Backward rows b_t are scaled to a largest value of one, with a scale of their own; posteriors are
 * normalised token by token, so those scales never meet:
 *
 *   P(s_t = j)            = a_t(j) b_t(j) / sum_j' a_t(j') b_t(j')
 *   P(s_{t-1}=i, s_t = j) = a_{t-1}(i) A(i, j) e_t(j) b_t(j) / (the same summed over i and j)
 *
 * Scaling cannot help where two parts of a graph do not communicate and drift apart. Therefore the
 * set of reachable states is tracked beside the numbers, and a reachable state whose value falls
 * below FC_TINY sends the sentence to the log domain, whose rows are shifted by their maximum.
 * What is lost below that is harmless: a dropped arc carries less than e^-300 of its target.
 *
 * Best paths run backward first and are traced forward, without back-pointers: at each token the
 * first state that attains the maximum is taken, hence the tie rule of the contract. */

#ifndef FSTCRF_SENTENCE_H
#define FSTCRF_SENTENCE_H

#include "steps.h"

typedef struct {
    machine m;
    double *emission; /* [longest][P] exp(node - m_t), or node itself */
    double *alpha;    /* [longest][P] */
    double *beta;     /* [longest][P] */
    double *scale;    /* [longest] of the backward rows */
    double *next;     /* [P] log domain: emission * beta of the token behind */
    double *spare;    /* [P] */
    double *initial;  /* [P] as the domain wants them */
    double *final;    /* [P] */
    uint8_t *reach;   /* [2][P] */
} workspace;

/* Lays the workspace out over `work`; its size is fc_work_size (entry_chains.c). */
static inline void lay_out(workspace *w, const fc_graph *graph, int64_t longest, double *work) {
    machine *m = &w->m;
    const int64_t S = graph->S, P = fc_padded(S);
    m->graph = graph;
    m->S = S;
    m->P = P;
    m->dense = graph->A == 0;
    m->arcs = m->dense ? S * S : graph->A;
    m->size = m->dense ? S * P : fc_padded(graph->A);
    m->state = NOT_LOADED;
    const int64_t open = fc_padded(m->size) / 8;
    m->weight[FORWARD] = work;
    m->weight[BACKWARD] = m->dense ? work + m->size : work;
    m->outer = work + 2 * m->size;
    m->open[FORWARD] = (uint8_t *)(work + 3 * m->size);
    m->open[BACKWARD] = m->dense ? (uint8_t *)(work + 3 * m->size + open) : m->open[FORWARD];
    double *rest = work + 3 * m->size + 2 * open;
    w->emission = rest;
    w->alpha = rest + longest * P;
    w->beta = rest + 2 * longest * P;
    w->scale = rest + 3 * longest * P;
    rest += 3 * longest * P + longest;
    double **row[] = {&w->next, &w->spare, &w->initial, &w->final};
    for (int k = 0; k < 4; k++) *row[k] = rest + k * P;
    w->reach = (uint8_t *)(rest + 4 * P);
}

/* Copies a row of S potentials, padded with -inf; returns its maximum. */
static inline double copy_row(const workspace *w, const double *restrict x, double *restrict y) {
    fc_fill(w->m.P, FC_NEVER, y);
    memcpy(y, x, (size_t)w->m.S * sizeof *y);
    return fc_max(w->m.P, y);
}

/* y = exp(x - max x) of a padded row; returns max x, or 0 for a row of -inf. */
static inline double exp_row(const workspace *w, const double *restrict x, double *restrict y) {
    const double top = copy_row(w, x, y);
    const double shift = top > FC_NEVER ? top : 0.0;
    for (int64_t j = 0; j < w->m.P; j++) y[j] = fc_exp(y[j] - shift);
    return shift;
}

/* --- Linear domain ------------------------------------------------------------------------- */

static inline void mark_open(const workspace *w, const double *restrict x,
                             uint8_t *restrict reach) {
    for (int64_t j = 0; j < w->m.P; j++) reach[j] = j < w->m.S ? x[j] > FC_NEVER : 0;
}

static inline int any_forbidden(int64_t S, const double *x) {
    int any = 0;
    for (int64_t j = 0; j < S; j++) any |= x[j] == FC_NEVER;
    return any;
}

/* Does every state that can be reached still have a value? */
static inline int represented(const workspace *w, const double *restrict x, const uint8_t *reach) {
    int64_t lost = 0;
    if (reach == NULL) {
        for (int64_t j = 0; j < w->m.S; j++) lost += !(x[j] >= FC_TINY);
        return lost == 0;
    }
    for (int64_t j = 0; j < w->m.S; j++) lost += reach[j] && !(x[j] >= FC_TINY);
    return lost == 0;
}

/* Advances reach over one step and masks it with the row `x` of potentials. */
static inline void advance_reach(const workspace *w, direction d, const double *x) {
    uint8_t *now = w->reach, *then = w->reach + w->m.P;
    step_reach(&w->m, d, now, then);
    if (x != NULL)
        for (int64_t j = 0; j < w->m.S; j++) then[j] &= x[j] > FC_NEVER;
    memcpy(now, then, (size_t)w->m.P);
}

typedef enum { DONE, NO_PATH, LOST } outcome;

/* Forward rows; `sparse_support` says whether anything in the sentence is forbidden. */
static inline outcome linear_forward(workspace *w, const double *node, int64_t first, int64_t T,
                                     int *sparse_support, double *log_z) {
    machine *m = &w->m;
    const int64_t S = m->S, P = m->P;
    const fc_graph *g = m->graph;
    double total = exp_row(w, g->initial, w->initial) + exp_row(w, g->final, w->final);
    int tracked = any_forbidden(S, g->initial) || any_forbidden(S, g->final);
    tracked |= any_forbidden(T * S, node);
    if (T > 1) {
        for (int64_t t = 1; t < T && (t == 1 || g->moving); t++) {
            load(m, first + t, LINEAR);
            tracked |= !m->full;
        }
    }
    *sparse_support = tracked;
    for (int64_t t = 0; t < T; t++) {
        double *restrict a = w->alpha + t * P, *restrict e = w->emission + t * P;
        total += exp_row(w, node + t * S, e);
        if (t == 0) {
            for (int64_t j = 0; j < P; j++) a[j] = w->initial[j] * e[j];
            if (tracked) {
                mark_open(w, g->initial, w->reach);
                for (int64_t j = 0; j < S; j++) w->reach[j] &= node[j] > FC_NEVER;
            }
        } else {
            load(m, first + t, LINEAR);
            total += m->shift;
            step_sum(m, FORWARD, a - P, a);
            for (int64_t j = 0; j < P; j++) a[j] *= e[j];
            if (tracked) advance_reach(w, FORWARD, node + t * S);
        }
        if (!represented(w, a, tracked ? w->reach : NULL)) return LOST;
        const double sum = fc_sum(P, a);
        if (!(sum > 0.0)) return NO_PATH;
        fc_scale(P, 1.0 / sum, a);
        total += log(sum);
    }
    const double end = fc_dot(P, w->alpha + (T - 1) * P, w->final);
    if (!(end > 0.0)) {
        for (int64_t j = 0; j < S; j++)
            if (g->final[j] > FC_NEVER && w->alpha[(T - 1) * P + j] > 0.0) return LOST;
        return NO_PATH;
    }
    *log_z = total + log(end);
    return DONE;
}

/* The end of a sentence in which some final potential is too small beside another is LOST, too. */
static inline int final_represented(workspace *w, int tracked) {
    if (tracked) mark_open(w, w->m.graph->final, w->reach);
    return represented(w, w->final, tracked ? w->reach : NULL);
}

/* Backward rows, scaled; leaves e_t b_t in place of the emissions and the scales in w->scale. */
static inline outcome linear_backward(workspace *w, const double *node, int64_t first, int64_t T,
                                      int tracked) {
    machine *m = &w->m;
    const int64_t S = m->S, P = m->P;
    if (!final_represented(w, tracked)) return LOST;
    memcpy(w->beta + (T - 1) * P, w->final, (size_t)P * sizeof *w->beta);
    for (int64_t t = T - 1; t > 0; t--) {
        double *restrict e = w->emission + t * P, *restrict b = w->beta + t * P;
        for (int64_t j = 0; j < P; j++) e[j] *= b[j];
        load(m, first + t, LINEAR);
        step_sum(m, BACKWARD, e, b - P);
        if (tracked) {
            for (int64_t j = 0; j < S; j++) w->reach[j] &= node[t * S + j] > FC_NEVER;
            advance_reach(w, BACKWARD, NULL);
        }
        if (!represented(w, b - P, tracked ? w->reach : NULL)) return LOST;
        w->scale[t - 1] = fc_max(P, b - P);
        fc_scale(P, 1.0 / w->scale[t - 1], b - P);
    }
    return DONE;
}

/* out[arc] = outer[arc] * weight[arc], added to what is there */
static inline void collect_arcs(const machine *m, double *restrict out) {
    const double *restrict outer = m->outer, *restrict w = m->weight[FORWARD];
    if (!m->dense) {
        for (int64_t a = 0; a < m->arcs; a++) out[a] += outer[a] * w[a];
        return;
    }
    for (int64_t i = 0; i < m->S; i++)
        for (int64_t j = 0; j < m->S; j++)
            out[i * m->S + j] += outer[i * m->P + j] * w[i * m->P + j];
}

/* Posteriors from the forward and backward rows. */
static inline void linear_posteriors(workspace *w, int64_t first, int64_t T, double weight,
                                     double *posterior, double *arc) {
    machine *m = &w->m;
    const int64_t S = m->S, P = m->P;
    for (int64_t t = 0; t < T; t++) {
        double *restrict a = w->alpha + t * P;
        const double *restrict b = w->beta + t * P;
        const double mass = weight / fc_dot(P, a, b);
        for (int64_t j = 0; j < S; j++) posterior[t * S + j] = a[j] * b[j] * mass;
        if (t == T - 1) break;
        if (m->graph->moving) memset(m->outer, 0, (size_t)m->size * sizeof *m->outer);
        fc_scale(P, mass / w->scale[t], a);
        step_outer(m, a, w->emission + (t + 1) * P);
        if (m->graph->moving) {
            load(m, first + t + 1, LINEAR);
            collect_arcs(m, arc + (first + t + 1) * m->arcs);
        }
    }
}

/* --- Log domain ---------------------------------------------------------------------------- */

/* x -= max x over a padded row; returns the maximum, or -inf for a dead row. */
static inline double shift_row(int64_t P, double *restrict x) {
    const double top = fc_max(P, x);
    if (top > FC_NEVER)
        for (int64_t j = 0; j < P; j++) x[j] -= top;
    return top;
}

static inline outcome log_forward(workspace *w, const double *node, int64_t first, int64_t T,
                                  double *log_z) {
    machine *m = &w->m;
    const int64_t S = m->S, P = m->P;
    double total = 0.0;
    copy_row(w, m->graph->initial, w->initial);
    copy_row(w, m->graph->final, w->final);
    for (int64_t t = 0; t < T; t++) {
        double *restrict a = w->alpha + t * P, *restrict e = w->emission + t * P;
        copy_row(w, node + t * S, e);
        if (t == 0) {
            memcpy(a, w->initial, (size_t)P * sizeof *a);
        } else {
            load(m, first + t, SCORES);
            step_log(m, FORWARD, a - P, a, w->spare);
        }
        for (int64_t j = 0; j < P; j++) a[j] += e[j];
        const double top = shift_row(P, a);
        if (top == FC_NEVER) return NO_PATH;
        total += top;
    }
    const double *a = w->alpha + (T - 1) * P;
    for (int64_t j = 0; j < P; j++) w->spare[j] = a[j] + w->final[j];
    const double top = shift_row(P, w->spare);
    if (top == FC_NEVER) return NO_PATH;
    double sum = 0.0;
    for (int64_t j = 0; j < P; j++) sum += fc_exp(w->spare[j]);
    *log_z = total + top + log(sum);
    return DONE;
}

/* arc[i -> j] += weight * exp(a[i] + score + y[j] - norm) */
static inline void log_arcs(const machine *m, const double *a, const double *y, double norm,
                            double weight, double *restrict arc) {
    const double *w = m->weight[FORWARD];
    if (!m->dense) {
        const int32_t *source = m->graph->source, *target = m->graph->target;
        for (int64_t k = 0; k < m->arcs; k++)
            arc[k] += weight * fc_exp(a[source[k]] + w[k] + y[target[k]] - norm);
        return;
    }
    for (int64_t i = 0; i < m->S; i++)
        for (int64_t j = 0; j < m->S; j++)
            arc[i * m->S + j] += weight * fc_exp(a[i] + w[i * m->P + j] + y[j] - norm);
}

static inline void log_backward(workspace *w, int64_t first, int64_t T, double weight,
                                double *posterior, double *arc) {
    machine *m = &w->m;
    const int64_t S = m->S, P = m->P;
    memcpy(w->beta, w->final, (size_t)P * sizeof *w->beta);
    for (int64_t t = T - 1; t >= 0; t--) {
        const double *restrict a = w->alpha + t * P;
        for (int64_t j = 0; j < P; j++) w->spare[j] = a[j] + w->beta[j];
        const double top = shift_row(P, w->spare);
        double sum = 0.0;
        for (int64_t j = 0; j < P; j++) sum += (w->spare[j] = fc_exp(w->spare[j]));
        for (int64_t j = 0; j < S; j++) posterior[t * S + j] = weight * w->spare[j] / sum;
        if (t < T - 1) { /* the arcs into t + 1, whose normaliser is that of this token */
            load(m, first + t + 1, SCORES);
            log_arcs(m, a, w->next, top + log(sum), weight,
                     arc + (m->graph->moving ? (first + t + 1) * m->arcs : 0));
        }
        if (t == 0) break;
        const double *restrict e = w->emission + t * P;
        for (int64_t j = 0; j < P; j++) w->next[j] = e[j] + w->beta[j];
        shift_row(P, w->next);
        load(m, first + t, SCORES);
        step_log(m, BACKWARD, w->next, w->beta, w->spare);
    }
}

/* --- Either domain ------------------------------------------------------------------------ */

/* log Z in the domain that can hold the sentence; *used says which. */
static inline outcome forward(workspace *w, const double *node, int64_t first, int64_t T,
                              fc_domain domain, fc_domain *used, int *tracked, double *log_z) {
    outcome result = LOST;
    *used = FC_LINEAR;
    if (domain != FC_LOG) {
        result = linear_forward(w, node, first, T, tracked, log_z);
        if (result == DONE && !final_represented(w, *tracked)) result = LOST;
    }
    if (result == LOST && domain != FC_LINEAR) {
        *used = FC_LOG;
        result = log_forward(w, node, first, T, log_z);
    }
    if (result != DONE) *log_z = FC_NEVER;
    return result;
}

/* Posteriors in the domain that can hold them, after and beside log Z. A sentence whose backward
 * rows are LOST has its forward rows taken again in the log domain. */
static inline outcome forward_backward(workspace *w, const double *node, int64_t first, int64_t T,
                                       fc_domain domain, double weight, double *log_z,
                                       double *posterior, double *arc) {
    fc_domain used;
    int tracked = 0;
    outcome result = forward(w, node, first, T, domain, &used, &tracked, log_z);
    if (result == DONE && used == FC_LINEAR) {
        result = linear_backward(w, node, first, T, tracked);
        if (result == DONE) linear_posteriors(w, first, T, weight, posterior, arc);
        if (result == LOST && domain == FC_AUTO) {
            double again; /* log Z stays what fc_log_partition says, to the bit */
            used = FC_LOG;
            result = log_forward(w, node, first, T, &again);
        }
    }
    if (result == DONE && used == FC_LOG) log_backward(w, first, T, weight, posterior, arc);
    if (result == NO_PATH) memset(posterior, 0, (size_t)(T * w->m.S) * sizeof *posterior);
    return result;
}

/* --- Best paths ---------------------------------------------------------------------------- */

/* emission[t] = node[t] + best score of what follows token t, for every t */
static inline void max_backward(workspace *w, const double *node, int64_t first, int64_t T) {
    machine *m = &w->m;
    const int64_t S = m->S, P = m->P;
    copy_row(w, m->graph->final, w->beta);
    for (int64_t t = T - 1; t >= 0; t--) {
        double *restrict v = w->emission + t * P;
        copy_row(w, node + t * S, v);
        for (int64_t j = 0; j < P; j++) v[j] += w->beta[j];
        if (t == 0) break;
        load(m, first + t, SCORES);
        step_max(m, BACKWARD, v, w->beta);
    }
}

/* First state that attains max_j x[j] + y[j]; -1 when all are -inf. */
static inline int32_t first_best(int64_t S, const double *x, const double *y, double *score) {
    int32_t best = -1;
    *score = FC_NEVER;
    for (int64_t j = 0; j < S; j++)
        if (x[j] + y[j] > *score) {
            *score = x[j] + y[j];
            best = (int32_t)j;
        }
    return best;
}

static inline int32_t first_best_arc(const machine *m, int32_t source, const double *y) {
    double score = FC_NEVER;
    if (m->dense) return first_best(m->S, m->weight[FORWARD] + source * m->P, y, &score);
    int32_t best = -1;
    for (int64_t a = m->graph->row[source]; a < m->graph->row[source + 1]; a++) {
        const int32_t target = m->graph->target[a];
        const double c = m->weight[FORWARD][a] + y[target];
        if (c > score) {
            score = c;
            best = target;
        }
    }
    return best;
}

static inline double best_path(workspace *w, const double *node, int64_t first, int64_t T,
                               int32_t *path) {
    machine *m = &w->m;
    double score;
    max_backward(w, node, first, T);
    path[0] = first_best(m->S, m->graph->initial, w->emission, &score);
    for (int64_t t = 1; t < T; t++) {
        if (path[0] >= 0) load(m, first + t, SCORES);
        path[t] = path[0] < 0 ? -1 : first_best_arc(m, path[t - 1], w->emission + t * m->P);
    }
    return score;
}

#endif
