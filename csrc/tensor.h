/* SPDX-License-Identifier: Apache-2.0
 *
 * A machine prepared for a computation: its layout over scratch, and its weights in the form of the
 * semiring.
 *
 * A tensor [Q][outer][P] holds one number a joint state (P: the states of the last axis, padded with
 * the zero of the semiring). Seen from axis c it is [Q * pre][S_c][post]. */
#ifndef FSTCRF_TENSOR_H
#define FSTCRF_TENSOR_H

#include "checks.h"
#include "semiring.h"

/* An axis with its arc weights: scores, or exp(score - shift). */
typedef struct {
    const fc_axis *axis;
    int64_t S, arcs, size; /* size: doubles of one table of weights */
    int64_t pre, post;     /* the tensor seen from here: [Q * pre][S][post] */
    int last, dense;
    double *weight; /* [contexts][S][S], [contexts][S][P] on the last axis, or [contexts][A] */
    double *turned; /* the same by target, dense last axis only */
    double shift;
    /* Listed arcs, by target: their sources, and their places by source. Scratch of a step (rest.h). */
    int indexed;
    int64_t listed;      /* E: number of arcs, or of the pairs that differ from the rest */
    int64_t *into;       /* [S + 1] */
    int32_t *from, *arc; /* [E] */
    double *lanes[3];    /* [P][FC_LANES] */
    /* If most pairs have one weight, the rest: the weights of the other pairs by source and by target,
     * and the same minus the rest. */
    int full;
    double rest;
    double *outward, *inward, *outward_over, *inward_over; /* [E] */
    int32_t *listed_row, *listed_lane;                     /* [S * FC_LANES] */
    double *listed_value;
} loaded_axis;

typedef struct {
    const fc_machine *machine;
    int64_t n, Q, outer, S, P, plane, full;
    loaded_axis axis[FC_MAX_AXES];
    int64_t asked, out; /* pruned: rows tested, and rows left out */
    int pruned;         /* backward maxima of two axes skip states that cannot win */
    double *cross;      /* [S + post][P_c] of an axis: F (x) G at a token, and G turned */
    double *lead_by;    /* [S_0][S_0] pruned: the least by which arcs into i exceed arcs into j */
    int32_t *kept;      /* [Q][1 + S_0] pruned: the remaining states */
    double *columns;    /* [S_0][S_0] pruned: scratch for the arcs into the remaining states */
    int single;         /* one axis and no residual automaton: a tensor is a row of states */
    int plain;          /* ... whose node potentials are one row a token */
    int whole;          /* weights of all arcs are needed, even if an axis has a rest */
    int forgets;        /* no forward pass follows: one row of node potentials suffices */
    int brief;  /* single: sentences so short that an index of the arcs costs more than it saves */
    int loaded; /* static weights: 0 not loaded, else 1 + the semiring */
    int64_t kind;      /* of the token that the residual reads, if there are kinds */
    double *begun;     /* [longest][P] single: F_t (x) node_t, the sources of paths into t + 1 */
    double *outer_sum; /* single: sums of outer products along arcs, laid out like weights */
    double *outer_one; /* ... of one sentence; else [arcs] of an axis at a token */
    double *before;    /* else sums of the arcs of all axes before a sentence */
    double *norm;      /* [longest] sums (LOG_PLUS: their logs) of F_t (x) G_t */
    double *initial;   /* [plane] */
    double *final;     /* [plane] */
    double *edge;      /* [E][rows][P or 1] of the residual */
    double *ends[2];   /* [Q] initial and final of the residual */
    double shift;      /* of initial, final and the residual's ends together */
    double edge_shift;
    int64_t lost;        /* finite scores of this sentence that the linear domain rounded to zero */
    int64_t static_lost; /* ... in the parts that do not depend on the token */
    double *node;        /* [longest][plane] */
    double *suffix;      /* [longest][full] G: continuations from this token on */
    double *x, *y, *best;        /* [full] */
    double *row, *lead, *shared; /* [full], [outer + 2 * widest axis] of one state's successors */
} tensor;

#define BRIEF 4 /* tokens */

/* Pointer arithmetic on integers: NULL, with which sizes are computed, must not be added to. */
static inline double *take(double **work, int64_t n) {
    double *found = *work;
    *work = (double *)((uintptr_t)found + (uintptr_t)fc_padded(n) * sizeof *found);
    return found;
}

/* The first cache line from `work` on: registers of numbers that cross two lines take twice the time. */
static inline double *next_line(double *work) {
    return (double *)(((uintptr_t)work + 63) / 64 * 64);
}

static inline void lay_out_lists(loaded_axis *a, double **work) {
    const int64_t S = a->full || !a->dense ? a->S : 0;
    const int64_t E = !a->dense ? a->axis->A : a->full ? a->axis->row[S] : 0;
    const int64_t cells = fc_padded(S) * FC_LANES, pairs = a->full ? E : 0;
    a->indexed = 0;
    a->listed = E;
    a->into = (int64_t *)take(work, S > 0 ? S + 1 : 0);
    a->from = (int32_t *)take(work, E);
    a->arc = (int32_t *)take(work, E);
    for (int k = 0; k < 3; k++) a->lanes[k] = take(work, cells);
    double **each[] = {&a->outward, &a->inward, &a->outward_over, &a->inward_over};
    for (int k = 0; k < 4; k++) *each[k] = take(work, pairs);
    if (!a->dense) a->outward = a->weight;
    a->listed_row = (int32_t *)take(work, a->full ? cells : 0);
    a->listed_lane = (int32_t *)take(work, a->full ? cells : 0);
    a->listed_value = take(work, a->full ? cells : 0);
}

/* Whether the posteriors of an axis' arcs are computed by matrix products, over all pairs of states. */
static inline int has_products(const loaded_axis *a) {
    return a->dense || 8 * a->arcs >= a->S * a->S;
}

/* Lays a machine out over scratch; returns the doubles it takes, wherever the scratch begins. */
static inline int64_t lay_out_tensor(tensor *m, const fc_machine *machine, int64_t longest,
                                     double *work) {
    double *const start = work = next_line(work);
    m->machine = machine;
    m->n = machine->axes;
    m->outer = machine->outer;
    m->S = machine->S;
    m->P = fc_padded(m->S);
    m->Q = machine->residual == NULL ? 1 : machine->residual->Q;
    m->plane = m->outer * m->P;
    m->full = m->Q * m->plane;
    m->loaded = 0;
    m->forgets = m->whole = 0;
    m->lost = m->static_lost = 0;
    int64_t pre = 1, widest = 0, arcs = 0, all = 0, cross = 0;
    for (int64_t c = 0; c < m->n; c++) {
        loaded_axis *a = &m->axis[c];
        a->axis = &machine->axis[c];
        a->S = a->axis->S;
        a->arcs = arcs_of(a->axis);
        a->dense = a->axis->A == 0;
        a->last = c == m->n - 1;
        a->pre = pre;
        pre *= a->S;
        a->post = a->last ? 1 : m->outer / pre * m->P;
        a->size = a->dense && a->last ? a->S * m->P : a->arcs;
        a->weight = take(&work, a->axis->contexts * a->size);
        a->turned = a->dense && a->last ? take(&work, a->axis->contexts * a->size) : NULL;
        a->full = a->axis->rest != NULL;
        lay_out_lists(a, &work);
        widest = a->S > widest ? a->S : widest;
        arcs = a->size > arcs ? a->size : arcs;
        const int64_t pairs = has_products(a) ? (a->S + a->post) * fc_padded(a->S) : 0;
        cross = pairs > cross ? pairs : cross;
        all += a->arcs;
    }
    m->initial = take(&work, m->plane);
    m->final = take(&work, m->plane);
    m->ends[0] = take(&work, m->Q);
    m->ends[1] = take(&work, m->Q);
    const fc_residual *r = machine->residual;
    m->edge = take(&work, r == NULL ? 0 : r->E * r->rows * (r->width == 1 ? 1 : m->P));
    m->node = take(&work, longest * m->plane);
    m->suffix = take(&work, longest * m->full);
    double **full[] = {&m->x, &m->y, &m->best, &m->row};
    for (int k = 0; k < 4; k++) *full[k] = take(&work, m->full);
    m->lead = take(&work, 2 * m->outer + 2 * fc_padded(widest));
    m->shared = take(&work, m->P + m->outer);
    const loaded_axis *one = &m->axis[0], *two = &m->axis[m->n - 1];
    m->pruned = m->n == 2 && one->dense && two->dense && !one->axis->moving &&
                one->axis->contexts == 1 && two->axis->contexts == 1;
    m->single = m->n == 1 && r == NULL && machine->axis->contexts == 1;
    const fc_factor *f = machine->factor;
    m->brief = m->single && longest <= BRIEF;
    m->plain = m->single && machine->factors == 1 && f->width == m->S && f->rows == 1;
    m->begun = take(&work, m->single ? longest * m->P : 0);
    m->outer_sum = take(&work, m->single ? arcs : 0);
    m->outer_one = take(&work, arcs);
    m->cross = take(&work, m->single ? 0 : cross);
    m->before = take(&work, m->single ? 0 : all);
    m->norm = take(&work, longest);
    m->asked = m->out = 0;
    m->lead_by = take(&work, m->pruned ? one->S * one->S : 0);
    m->kept = (int32_t *)take(&work, m->pruned ? m->Q * (one->S + 1) : 0);
    m->columns = take(&work, m->pruned ? one->S * one->S : 0);
    return work - start + FC_LANES;
}

/* --- Loading --------------------------------------------------------------------------------- */

/* y = exp(x - shift) of n scores; returns how often a finite score became zero. */
static inline int64_t exp_scores(int64_t n, double shift, const double *x, double *y) {
    int64_t lost = 0;
    for (int64_t i = 0; i < n; i++) {
        const double score = x[i] - shift;
        lost += score < -700.0 && score > FC_NEVER;
        y[i] = fc_exp(score);
    }
    return lost;
}

/* The shift of scores that are summed: their largest. */
static inline double shift_of(semiring K, int64_t n, const double *x) {
    return K == MAX_PLUS ? 0.0 : finite_or_zero(fc_largest(n, x));
}

/* y: scores in the form of the semiring: unchanged, shifted, or exp(score - shift). */
FC_INLINE void copy_scores(tensor *m, semiring K, int64_t n, double shift, const double *x,
                           double *y) {
    if (K == SUM_TIMES) {
        m->lost += exp_scores(n, shift, x, y);
    } else {
        for (int64_t i = 0; i < n; i++) y[i] = x[i] - shift;
    }
}

static inline void copy_rows(tensor *m, semiring K, int64_t rows, int64_t width, int64_t padded,
                             double shift, const double *x, double *y) {
    for (int64_t r = 0; r < rows; r++, x += width, y += padded) {
        copy_scores(m, K, width, shift, x, y);
        fc_fill(padded - width, none(K), y + width);
    }
}

/* Sorts the listed arcs of an axis by target. */
static inline void index_arcs(loaded_axis *a) {
    const fc_axis *g = a->axis;
    const int64_t S = a->S;
    int64_t *into = a->into;
    a->indexed = 1;
    memset(into, 0, (size_t)(S + 1) * sizeof *into);
    for (int64_t k = 0; k < a->listed; k++)
        if (g->target[k] + 1 < S) into[g->target[k] + 2]++;
    for (int64_t j = 2; j <= S; j++) into[j] += into[j - 1];
    for (int64_t i = 0; i < S; i++)
        for (int64_t k = g->row[i]; k < g->row[i + 1]; k++) {
            const int64_t place = into[g->target[k] + 1]++; /* into[j + 1]: the next of j */
            a->from[place] = (int32_t)i;
            a->arc[place] = (int32_t)k;
        }
}

/* The arcs of an axis that differ from its rest, by source and by target. */
static inline void load_rest(tensor *m, semiring K, loaded_axis *a) {
    const fc_axis *g = a->axis;
    const int64_t S = a->S;
    for (int64_t i = 0; i < S; i++)
        for (int64_t k = g->row[i]; k < g->row[i + 1]; k++)
            a->outward[k] = g->score[a->dense ? i * S + g->target[k] : k];
    if (K != MAX_PLUS) a->shift = fmax(fc_largest(a->listed, a->outward), *g->rest);
    copy_scores(m, K, a->listed, a->shift, a->outward, a->outward);
    copy_scores(m, K, 1, a->shift, g->rest, &a->rest);
    for (int64_t k = 0; k < a->listed; k++) a->outward_over[k] = a->outward[k] - a->rest;
    for (int64_t k = 0; k < a->listed; k++) {
        a->inward[k] = a->outward[a->arc[k]];
        a->inward_over[k] = a->outward_over[a->arc[k]];
    }
}

static inline void load_axis(tensor *m, semiring K, loaded_axis *a, int64_t token) {
    const int64_t contexts = a->axis->contexts, n = contexts * a->arcs;
    const double *score = a->axis->score + (a->axis->moving ? token * n : 0);
    if (a->full) {
        const int64_t lost = m->lost;
        a->shift = 0.0;
        load_rest(m, K, a);
        if (!a->dense || !(m->whole || (m->pruned && K == MAX_PLUS && !a->last))) return;
        m->lost = lost; /* all scores are loaded next, including these */
    } else {
        a->shift = shift_of(K, n, score);
    }
    if (a->turned == NULL) {
        copy_scores(m, K, n, a->shift, score, a->weight);
        return;
    }
    copy_rows(m, K, contexts * a->S, a->S, m->P, a->shift, score, a->weight);
    for (int64_t k = 0; k < contexts; k++) {
        const double *from = a->weight + k * a->size;
        double *to = a->turned + k * a->size;
        for (int64_t j = 0; j < a->S; j++)
            for (int64_t i = 0; i < m->P; i++)
                to[j * m->P + i] = i < a->S ? from[i * m->P + j] : none(K);
    }
}

static inline void load_residual(tensor *m, semiring K) {
    const fc_residual *r = m->machine->residual;
    const int64_t values = r->E * r->rows;
    m->edge_shift = shift_of(K, values * r->width, r->value);
    copy_rows(m, K, values, r->width, r->width == 1 ? 1 : m->P, m->edge_shift, r->value, m->edge);
    const double *ends[] = {r->initial, r->final};
    for (int e = 0; e < 2; e++) {
        const double shift = shift_of(K, m->Q, ends[e]);
        copy_scores(m, K, m->Q, shift, ends[e], m->ends[e]);
        m->shift += shift;
    }
}

/* A lower bound of the leads of an axis that has a rest: arcs into j are also compared with the
   rest. */
static inline void load_few_leads(tensor *m, const loaded_axis *a) {
    const int64_t S = a->S;
    const double *arc = a->weight;
    double *restrict least = m->columns; /* [S] rest - arc[h -> j], at most 0 */
    fc_fill(S, 0.0, least);
    for (int64_t k = 0; k < a->listed; k++) {
        const int32_t j = a->axis->target[k];
        const double by = a->rest - a->outward[k];
        least[j] = by < least[j] ? by : least[j];
    }
    for (int64_t i = 0; i < S; i++) {
        double *restrict lead = m->lead_by + i * S;
        memcpy(lead, least, (size_t)S * sizeof *lead);
        for (int64_t k = a->into[i]; k < a->into[i + 1]; k++) {
            const double *restrict row = arc + a->from[k] * S, own = a->inward[k];
            for (int64_t j = 0; j < S; j++) {
                const double by = own - row[j];
                lead[j] = by < lead[j] ? by : lead[j];
            }
        }
    }
}

/* lead_by[i][j] = min over h of arc[h -> i] - arc[h -> j]; sources for which both are forbidden do not
   count. */
static inline void load_leads(tensor *m) {
    const int64_t S = m->axis[0].S;
    const double *arc = m->axis[0].weight;
    if (m->axis[0].full) {
        load_few_leads(m, &m->axis[0]);
        return;
    }
    for (int64_t i = 0; i < S; i++) {
        double *restrict lead = m->lead_by + i * S;
        fc_fill(S, (double)INFINITY, lead);
        for (int64_t h = 0; h < S; h++)
            for (int64_t j = 0; j < S; j++) {
                const double by = arc[h * S + i] - arc[h * S + j];
                lead[j] = by < lead[j] ? by : lead[j];
            }
    }
}

static inline void load_static(tensor *m, semiring K) {
    const fc_machine *f = m->machine;
    const fc_residual *r = f->residual;
    const int64_t cells = m->outer * m->S;
    if (m->loaded == 1 + (int)K) return;
    m->loaded = 1 + (int)K;
    m->lost = 0;
    for (int64_t c = 0; c < m->n; c++) {
        loaded_axis *a = &m->axis[c];
        /* Backward, listed arcs are summed by source, in their order. */
        const int by_target = !a->dense && !m->forgets && (!m->brief || K == LOG_PLUS);
        if (!a->indexed && (a->full || by_target)) index_arcs(a);
        if (!a->axis->moving) load_axis(m, K, a, 0);
    }
    const double first = shift_of(K, cells, f->initial), last = shift_of(K, cells, f->final);
    copy_rows(m, K, m->outer, m->S, m->P, first, f->initial, m->initial);
    copy_rows(m, K, m->outer, m->S, m->P, last, f->final, m->final);
    m->shift = first + last;
    m->edge_shift = 0.0;
    if (r != NULL) load_residual(m, K);
    if (r == NULL) m->ends[0][0] = m->ends[1][0] = K == SUM_TIMES ? 1.0 : 0.0;
    m->static_lost = m->lost;
    if (m->pruned && K == MAX_PLUS) load_leads(m);
}

/* Arc weights of the arcs into a token; returns the sum of their shifts. */
static inline double load_arcs(tensor *m, semiring K, int64_t token) {
    double shift = 0.0;
    for (int64_t c = 0; c < m->n; c++) {
        if (m->axis[c].axis->moving) load_axis(m, K, &m->axis[c], token);
        shift += m->axis[c].shift;
    }
    return shift;
}

/* y[o] += table row of o. Reads rows P wide if the table continues after them: the lanes beyond S hold
 * -inf already, and do not change. */
static inline void add_rows(const tensor *m, const fc_factor *f, const double *table, double *y) {
    const int64_t S = m->S, P = m->P, safe = f->rows * S - P;
    for (int64_t o = 0; o < m->outer; o++, y += P) {
        const int64_t start = (f->place == NULL ? 0 : f->place[o]) * S;
        const double *restrict x = table + start;
        double *restrict sum = y;
        if (start <= safe) {
            for (int64_t j = 0; j < P; j++) sum[j] += x[j];
        } else {
            for (int64_t j = 0; j < S; j++) sum[j] += x[j];
        }
    }
}

/* The row of node potentials, if it is one row a token. */
static inline const double *plain_row(const tensor *m, int64_t token) {
    const fc_factor *f = m->machine->factor;
    return f->value + (f->moving ? token * m->S : 0);
}

/* Prefetches this row; it need not exist. */
static inline void ask_for_row(const tensor *m, int64_t token) {
    const fc_factor *f = m->machine->factor;
    const uintptr_t row = (uintptr_t)f->value + (uintptr_t)(f->moving ? token * m->S * 8 : 0);
    for (int64_t at = 0; at < m->S * 8; at += 64)
        __builtin_prefetch((const void *)(row + (uintptr_t)at));
}

static inline void read_kind(tensor *m, int64_t token) {
    const fc_residual *r = m->machine->residual;
    if (r != NULL && r->kind != NULL) m->kind = r->kind[token];
}

/* Potentials of the joint states of a token, [plane], as scores: first the parts common to all rows and
 * the parts constant along a row, then the tables. */
static inline void node_scores(const tensor *m, int64_t token, double *out) {
    const fc_machine *f = m->machine;
    const int64_t S = m->S, P = m->P;
    if (m->plain) {
        memcpy(out, plain_row(m, token), (size_t)S * sizeof *out);
        fc_fill(P - S, FC_NEVER, out + S);
        return;
    }
    double *shared = m->shared, *offset = m->shared + P;
    fc_fill(S, 0.0, shared);
    fc_fill(P - S, FC_NEVER, shared + S);
    fc_fill(m->outer, 0.0, offset);
    for (int64_t k = 0; k < f->factors; k++) {
        const fc_factor *a = &f->factor[k];
        const double *x = a->value + (a->moving ? token * a->rows * a->width : 0);
        if (a->width == S && a->rows == 1) {
            for (int64_t j = 0; j < S; j++) shared[j] += x[j];
        } else if (a->width == 1) {
            for (int64_t o = 0; o < m->outer; o++)
                offset[o] += x[a->place == NULL ? 0 : a->place[o]];
        }
    }
    for (int64_t o = 0; o < m->outer; o++)
        for (int64_t j = 0; j < P; j++) out[o * P + j] = shared[j] + offset[o];
    for (int64_t k = 0; k < f->factors; k++) {
        const fc_factor *a = &f->factor[k];
        if (a->width == S && a->width > 1 && a->rows > 1)
            add_rows(m, a, a->value + (a->moving ? token * a->rows * S : 0), out);
    }
}

/* The same in the form of the semiring; returns the shift. */
static inline double load_node(tensor *m, semiring K, int64_t token, double *out) {
    node_scores(m, token, out);
    if (K == MAX_PLUS) return 0.0;
    const double shift = finite_or_zero(fc_max(m->plane, out));
    copy_scores(m, K, m->plane, shift, out, out);
    return shift;
}

#endif
