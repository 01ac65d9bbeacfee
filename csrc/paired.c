/* SPDX-License-Identifier: Apache-2.0
 *
 * Acyclic machines with pair scores between neighbouring arcs. With x an exit slot, j an entry slot of
 * the same node, and (+) a maximum or a sum of exponentials,
 *
 *   entry_j = (+) over arcs of j of     score + exit[end of the arc]
 *   exit_x  = final_x (+) over j of     pair[x, j] + entry_j
 *
 * Values are logs. The second step is done in the linear domain, entry_j shifted by their maximum:
 * terms that underflow there are below 1e-308 of the largest. If the sum is small, the step is repeated
 * for that slot with logs. */

#include <math.h>
#include <string.h>

#include "arcs.h"
#include "checks.h"

#define FAINT_SUM 1e-200
#define FAINT_LOG 460.0 /* -log(FAINT_SUM), rounded down */

/* --- Checks -------------------------------------------------------------------------------------- */

static int ascends(int64_t n, const int64_t *row, int64_t last) {
    int64_t where;
    return check_rows(n, row, &where) == FC_OK && row[n] == last;
}

/* Whether classes are below `size`, and ascend at every node. */
static int sorted_classes(int64_t M, const int64_t *row, const int32_t *class, int64_t size,
                          int64_t *where) {
    for (int64_t n = 0; n < M; n++)
        for (int64_t i = row[n]; i < row[n + 1]; i++) {
            *where = i;
            if (class[i] < 0 || class[i] >= size) return 0;
            if (i > row[n] && class[i] <= class[i - 1]) return 0;
        }
    return 1;
}

fc_status fc_check_paired(const fc_paired *m, int64_t *where) {
    *where = 0;
    if (m->M < 1 || m->M > INT32_MAX || m->A > INT32_MAX || m->X > INT32_MAX) return FC_EINVAL;
    if (m->K < 1 || m->R < 1 || m->L < 1) return FC_EINVAL;
    if (!ascends(m->M, m->entry_row, m->I) || !ascends(m->M, m->exit_row, m->X)) return FC_EINVAL;
    if (!ascends(m->I, m->arc_row, m->A)) return FC_EINVAL;
    if (!sorted_classes(m->M, m->entry_row, m->left, m->L, where)) return FC_EINVAL;
    if (!sorted_classes(m->M, m->exit_row, m->right, m->R, where)) return FC_EINVAL;
    for (int64_t n = 0; n < m->M; n++) {
        *where = n;
        if (m->table != NULL && (m->table[n] < 0 || m->table[n] >= m->K)) return FC_EINVAL;
        for (int64_t j = m->entry_row[n]; j < m->entry_row[n + 1]; j++)
            for (int64_t a = m->arc_row[j]; a < m->arc_row[j + 1]; a++) {
                *where = a;
                if (m->exit[a] < m->exit_row[n + 1] || m->exit[a] >= m->X) return FC_EINVAL;
            }
    }
    *where = fc_first_invalid(m->A, m->score);
    if (*where < 0) *where = fc_first_invalid(m->X, m->final);
    if (*where < 0) *where = fc_first_invalid(m->K * m->R * m->L, m->pair);
    return *where < 0 ? FC_OK : FC_ENUMERIC;
}

/* --- A node -------------------------------------------------------------------------------------- */

/* The slots of a node. Consecutive classes are read without an index. */
typedef struct {
    int64_t x, exits, j, entries; /* first slots and their numbers */
    int64_t shift;                /* of the node's pair table */
    const int32_t *right, *left;
    int right_runs, left_runs;
} node;

static node node_of(const fc_paired *m, int64_t n) {
    node v = {.x = m->exit_row[n], .j = m->entry_row[n]};
    v.exits = m->exit_row[n + 1] - v.x;
    v.entries = m->entry_row[n + 1] - v.j;
    v.shift = m->table == NULL ? 0 : m->table[n] * m->R * m->L;
    v.right = m->right + v.x;
    v.left = m->left + v.j;
    v.right_runs = v.exits > 0 && v.right[v.exits - 1] - v.right[0] == v.exits - 1;
    v.left_runs = v.entries > 0 && v.left[v.entries - 1] - v.left[0] == v.entries - 1;
    return v;
}

FC_INLINE double pair_of(const fc_paired *m, const node *v, int64_t x, int64_t j) {
    return m->pair[v->shift + v->right[x] * m->L + v->left[j]];
}

/* The class of slot x. `runs` is constant in a loop: compilers make two loops of it. */
FC_INLINE int64_t class_of(const int32_t *class, int runs, int64_t x) {
    return runs ? class[0] + x : class[x];
}

/* y[x] = max(y[x], row[class of x] + c) */
static void raise_row(int64_t n, const int32_t *class, int runs, const double *row, double c,
                      double *restrict y) {
    for (int64_t x = 0; x < n; x++) {
        const double value = row[class_of(class, runs, x)] + c;
        y[x] = value > y[x] ? value : y[x];
    }
}

/* y[x] += row[class of x] * c */
static void add_row(int64_t n, const int32_t *class, int runs, const double *row, double c,
                    double *restrict y) {
    for (int64_t x = 0; x < n; x++) y[x] += row[class_of(class, runs, x)] * c;
}

/* --- Suffixes ------------------------------------------------------------------------------------ */

fc_status fc_paired_best(const fc_paired *m, double *entry, double *exit) {
    const arc_list arcs = {m->score, m->exit, exit, NULL};
    for (int64_t n = m->M - 1; n >= 0; n--) {
        const node v = node_of(m, n);
        for (int64_t j = v.j; j < v.j + v.entries; j++)
            entry[j] = best_arc_score(&arcs, m->arc_row[j], m->arc_row[j + 1], FC_NEVER);
        memcpy(exit + v.x, m->final + v.x, (size_t)v.exits * sizeof *exit);
        if (v.exits == 0) continue;
        for (int64_t j = 0; j < v.entries; j++) {
            const double *row = m->turned + v.shift + v.left[j] * m->R;
            if (entry[v.j + j] > FC_NEVER)
                raise_row(v.exits, v.right, v.right_runs, row, entry[v.j + j], exit + v.x);
        }
    }
    return FC_OK;
}

/* Suffixes with their rounding errors: long lattices are as exact as short ones. */
typedef struct {
    const double *entry, *exit, *entry_lost, *exit_lost;
} suffixes;

/* Entry j and its rounding error; `share` of its arcs, given a path through the entry. */
FC_INLINE void sum_entry(const fc_paired *m, const arc_list *arcs, int64_t j, int coarse,
                         double *entry, double *lost, double *restrict share) {
    const int64_t begin = m->arc_row[j], end = m->arc_row[j + 1];
    const double best = best_arc_score(arcs, begin, end, FC_NEVER);
    double rest = 0.0, none;
    if (end - begin == 1) {
        rest = worth(arcs, begin, best);
        share[begin] = best > FC_NEVER ? 1.0 : 0.0;
    } else {
        rest = sum_arcs(arcs, begin, end, FC_NEVER, best, coarse, share, &none);
    }
    fc_keep(best, rest, entry + j, lost + j);
}

/* Score of the continuations of exit x by entry j, minus `top`. */
FC_INLINE double onwards(const fc_paired *m, const node *v, const suffixes *f, int64_t x, int64_t j,
                         double top) {
    return fc_plus(pair_of(m, v, x, j), f->entry[v->j + j], f->entry_lost[v->j + j], top);
}

/* exit_x, term by term. */
static void join_by_logs(const fc_paired *m, const node *v, int64_t x, const suffixes *f,
                         double *exit, double *lost) {
    const double stop = m->final[v->x + x];
    double best = stop, most = FC_NEVER, sum = 0.0;
    for (int64_t j = 0; j < v->entries; j++) {
        const double value = pair_of(m, v, x, j) + f->entry[v->j + j];
        best = value > best ? value : best;
    }
    if (best == FC_NEVER) {
        fc_keep(best, 0.0, exit, lost);
        return;
    }
    for (int64_t j = 0; j < v->entries; j++) most = fc_larger(most, onwards(m, v, f, x, j, best));
    most = fc_larger(most, stop - best);
    for (int64_t j = 0; j < v->entries; j++) sum += fc_exp(onwards(m, v, f, x, j, best) - most);
    sum += fc_exp(stop - best - most);
    fc_keep(best, most + fc_log(sum), exit, lost);
}

/* Adds the score of ending, log(exp(end) + exp(*sum + *lost)). */
static void log_add(double end, double *sum, double *lost) {
    const double gap = end - *sum - *lost;
    if (gap > 0.0) {
        fc_keep(end, log1p(exp(-gap)), sum, lost);
    } else {
        fc_keep(*sum, *lost + log1p(exp(gap)), sum, lost);
    }
}

/* exit_x of a node: its final score plus its continuations, exp(c + top) times `sum`. */
static void join_sums(const fc_paired *m, const node *v, double c, const double *restrict sum,
                      const suffixes *f, double *restrict exit, double *restrict lost) {
    const double *restrict final = m->final + v->x;
    for (int64_t x = 0; x < v->exits; x++)
        lost[x] = m->top + fc_log(sum[x] < FAINT_SUM ? 1.0 : sum[x]);
    for (int64_t x = 0; x < v->exits; x++) fc_keep(c, lost[x], exit + x, lost + x);
    for (int64_t x = 0; x < v->exits; x++) {
        if (sum[x] < FAINT_SUM)
            join_by_logs(m, v, x, f, exit + x, lost + x);
        else if (final[x] > FC_NEVER)
            log_add(final[x], exit + x, lost + x);
    }
}

/* b_j = exp(entry_j - c), with c the largest entry. 0: not precise, because numbers are coarse or there
 * is no entry. */
static int weigh_entries(const fc_paired *m, const node *v, const suffixes *f, double c,
                         double *restrict b) {
    const double *entry = f->entry + v->j, *lost = f->entry_lost + v->j;
    int coarse = fabs(c) + fabs(m->top) >= FC_COARSE;
    for (int64_t j = 0; j < v->entries; j++) coarse |= fabs(lost[j]) > FC_MOST_LOST;
    if (c == FC_NEVER || coarse) return 0;
    for (int64_t j = 0; j < v->entries; j++) b[j] = fc_exp(entry[j] - c + lost[j]);
    return 1;
}

fc_status fc_paired_sums(const fc_paired *m, double *entry, double *exit, double *lost,
                         double *share, double *work) {
    double *b = work, *sum = b + m->I, *exit_lost = lost + m->I;
    const suffixes f = {entry, exit, lost, exit_lost};
    const arc_list arcs = {m->score, m->exit, exit, exit_lost};
    int coarse = 0;
    for (int64_t n = m->M - 1; n >= 0; n--) {
        const node v = node_of(m, n);
        for (int64_t j = v.j; j < v.j + v.entries; j++)
            sum_entry(m, &arcs, j, coarse, entry, lost, share);
        memcpy(exit + v.x, m->final + v.x, (size_t)v.exits * sizeof *exit);
        memset(exit_lost + v.x, 0, (size_t)v.exits * sizeof *exit);
        const double c = fc_largest(v.entries, entry + v.j);
        if (c == FC_NEVER || v.exits == 0) continue;
        memset(sum, 0, (size_t)v.exits * sizeof *sum);
        if (weigh_entries(m, &v, &f, c, b))
            for (int64_t j = 0; j < v.entries; j++)
                add_row(v.exits, v.right, v.right_runs, m->around + v.shift + v.left[j] * m->R,
                        b[j], sum);
        join_sums(m, &v, c, sum, &f, exit + v.x, exit_lost + v.x);
        for (int64_t x = v.x; x < v.x + v.exits; x++) coarse |= fabs(exit_lost[x]) > FC_MOST_LOST;
    }
    return FC_OK;
}

/* --- Best paths ---------------------------------------------------------------------------------- */

/* The node of an exit slot: the last whose slots begin at or before it. */
static int64_t node_at(const fc_paired *m, int64_t slot) {
    int64_t low = 0, high = m->M;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (m->exit_row[middle] <= slot) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The first of the best arcs that leave an exit slot; -1: the path ends. */
static int64_t best_arc(const fc_paired *m, const double *entry, const double *exit, int64_t slot) {
    if (m->final[slot] == exit[slot]) return -1;
    const node v = node_of(m, node_at(m, slot));
    int64_t found = -1;
    double best = FC_NEVER;
    for (int64_t j = 0; j < v.entries; j++) {
        const double value = pair_of(m, &v, slot - v.x, j) + entry[v.j + j];
        if (value > best) {
            best = value;
            found = v.j + j;
        }
    }
    if (found < 0) return -1;
    for (int64_t a = m->arc_row[found]; a < m->arc_row[found + 1]; a++)
        if (m->score[a] + exit[m->exit[a]] == entry[found]) return a;
    return -1;
}

static fc_status check_begins(const fc_paired *m, int64_t B, const int64_t *begin, int64_t *where) {
    for (int64_t k = 0; k < B; k++) {
        *where = k;
        if (begin[k] < 0 || begin[k] >= m->X) return FC_EINVAL;
    }
    return FC_OK;
}

fc_status fc_paired_paths(const fc_paired *m, const double *entry, const double *exit, int64_t B,
                          const int64_t *begin, int64_t room, int32_t *path, int64_t *offset,
                          int64_t *where) {
    const fc_status status = check_begins(m, B, begin, where);
    int64_t size = 0;
    offset[0] = 0;
    for (int64_t k = 0; status == FC_OK && k < B; k++) {
        int64_t slot = begin[k];
        while (exit[slot] > FC_NEVER) {
            const int64_t arc = best_arc(m, entry, exit, slot);
            if (arc < 0) break;
            if (size == room) return FC_EFULL;
            path[size++] = (int32_t)arc;
            slot = m->exit[arc];
        }
        offset[k + 1] = size;
    }
    return status;
}

/* --- Posteriors ---------------------------------------------------------------------------------- */

/* Distributes the probability p of an exit slot over the entries of its node, by logs, if the linear
 * domain is not precise; returns the probability of ending there. */
static double pass_by_logs(const fc_paired *m, const node *v, int64_t x, double p,
                           const suffixes *f, double *restrict share, double *restrict q,
                           double *count) {
    const double top = f->exit[v->x + x], lost = f->exit_lost[v->x + x];
    const double stop = fc_exp(m->final[v->x + x] - top - lost);
    double sum = stop;
    for (int64_t j = 0; j < v->entries; j++) {
        share[j] = fc_exp(onwards(m, v, f, x, j, top) - lost);
        sum += share[j];
    }
    for (int64_t j = 0; j < v->entries; j++) {
        share[j] *= p / sum;
        q[j] += share[j];
        if (count != NULL) count[v->shift + v->right[x] * m->L + v->left[j]] += share[j];
    }
    return stop * (p / sum);
}

static void count_row(const fc_paired *m, const node *v, int64_t x, double f,
                      const double *restrict b, double *count) {
    const double *restrict row = m->linear + v->shift + v->right[x] * m->L;
    double *restrict sum = count + v->shift + v->right[x] * m->L;
    for (int64_t j = 0; j < v->entries; j++) {
        const int64_t k = class_of(v->left, v->left_runs, j);
        sum[k] += f * row[k] * b[j];
    }
}

/* Scales the probabilities that leave a node to the probability that enters it: at many similar nodes,
 * the differences would have the same sign. */
static void even(const node *v, double given, double *restrict end, double *restrict q) {
    double sum = 0.0;
    for (int64_t x = 0; x < v->exits; x++) sum += end[v->x + x];
    for (int64_t j = 0; j < v->entries; j++) sum += q[j];
    if (!(sum > 0.0)) return;
    for (int64_t x = 0; x < v->exits; x++) end[v->x + x] *= given / sum;
    for (int64_t j = 0; j < v->entries; j++) q[j] *= given / sum;
}

/* Probabilities q of the entries of a node, from the probabilities p of its exits. */
static void pass(const fc_paired *m, const node *v, const double *p, const suffixes *f, double *end,
                 double *b, double *q, double *count) {
    const double c = fc_largest(v->entries, f->entry + v->j);
    const int coarse = c > FC_NEVER && !weigh_entries(m, v, f, c, b);
    double *linear = b + v->entries, *share = linear + v->entries, given = 0.0;
    memset(q, 0, (size_t)v->entries * sizeof *q);
    memset(linear, 0, (size_t)v->entries * sizeof *linear);
    for (int64_t x = 0; x < v->exits; x++) {
        const int64_t slot = v->x + x;
        const double lost = f->exit_lost[slot], gap = c + m->top - f->exit[slot];
        end[slot] = 0.0;
        FC_ASSERT(!isnan(p[slot]));
        if (!(p[slot] > 0.0)) continue;
        given += p[slot];
        if (coarse || gap > FAINT_LOG) {
            end[slot] = pass_by_logs(m, v, x, p[slot], f, share, q, count);
            continue;
        }
        if (m->final[slot] > FC_NEVER)
            end[slot] = p[slot] * fc_exp(m->final[slot] - f->exit[slot] - lost);
        if (c == FC_NEVER || gap < -700.0) continue;
        const double factor = p[slot] * fc_exp(gap - lost);
        add_row(v->entries, v->left, v->left_runs, m->linear + v->shift + v->right[x] * m->L,
                factor, linear);
        if (count != NULL) count_row(m, v, x, factor, b, count);
    }
    if (c > FC_NEVER && !coarse)
        for (int64_t j = 0; j < v->entries; j++) q[j] += linear[j] * b[j];
    even(v, given, end, q);
}

fc_status fc_paired_marginals(const fc_paired *m, const double *entry, const double *exit,
                              const double *lost, const double *share, int64_t B,
                              const int64_t *begin, double *arc, double *end, double *count,
                              double *work, int64_t *where) {
    const fc_status status = check_begins(m, B, begin, where);
    if (status != FC_OK) return status;
    const suffixes f = {entry, exit, lost, lost + m->I};
    double *p = work, *q = work + m->X, *b = q + m->I;
    memset(p, 0, (size_t)m->X * sizeof *p);
    if (count != NULL) memset(count, 0, (size_t)(m->K * m->R * m->L) * sizeof *count);
    for (int64_t k = 0; k < B; k++) p[begin[k]] = exit[begin[k]] > FC_NEVER ? 1.0 : 0.0;
    for (int64_t n = 0; n < m->M; n++) {
        const node v = node_of(m, n);
        pass(m, &v, p, &f, end, b, q, count);
        for (int64_t j = v.j; j < v.j + v.entries; j++)
            for (int64_t a = m->arc_row[j]; a < m->arc_row[j + 1]; a++) {
                arc[a] = q[j - v.j] * share[a];
                p[m->exit[a]] += arc[a];
            }
    }
    return FC_OK;
}
