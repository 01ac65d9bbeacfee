/* SPDX-License-Identifier: Apache-2.0
 *
 * Rescores sentences with other potentials at a few tokens. The recursion restarts at the first of
 * them, a, and is joined to the known continuations after the last, b:
 *
 *   Z' = (+) F'_b (x) node'_b (x) B_b,   F'_a = F_a
 *
 * where B_b are the continuations after token b. A variant costs the steps from a to b, not the
 * sentence. Variants with the same first changes share the steps up to the first change that
 * differs: a later variant copies the row at that token. The rows of several sentences, or variants, are
 * stepped together, and each row has the same bits in any company. */
#ifndef FSTCRF_RESCORE_H
#define FSTCRF_RESCORE_H

#include "recursion.h"

#define GROUP 64          /* sentences */
#define GROUP_TOKENS 1024 /* a group of several sentences has at most as many */
#define WAITING 64        /* rows of variants that have branched off */

/* A variant in the tree of variants: it branches off from a variant before it, its parent. */
typedef struct {
    int64_t s, shared;              /* its sentence; the number of changes shared with its parent */
    int64_t parent, branches, next; /* branches: the first variant that branches off; next: the next
                                     * branch of the parent; or -1 */
} branching;

/* A row of the recursion: the place of its sentence in the group, or of its variant. */
typedef struct {
    int64_t job, s, t, change;
    fc_total scale;
} runner;

typedef struct {
    int64_t first, T, from, to; /* tokens, and variants */
    int64_t at;                 /* of its first token in the arrays of the group */
    int64_t last;               /* the last token at which a variant begins to differ, or -1 */
    double total;
} rescored;

#define BEGINS 1 /* a variant has its first change at this token */
#define ENDS 2   /* a variant has its last change at this token */

typedef struct {
    tensor *m;
    semiring K;
    int together; /* one table of arcs for all rows */
    int64_t sentences, n;
    rescored sentence[GROUP];
    runner row[FC_LANES];
    double *x, *y;                   /* [FC_LANES][full] */
    double *forward, *after, *node;  /* [tokens][full]: F_t, B_t; [tokens][plane] */
    double *shift, *before, *behind; /* [tokens] logs of scales: of node, F_t and B_t */
    double *changed;                 /* [plane] */
    double *alone;                   /* [full] */
    uint8_t *marks;                  /* [tokens] */
    branching *variant;              /* [C] */
    int64_t waits, late;             /* waiting rows; variants that start anew, or -1 */
    runner waiting[WAITING];
    double *waiting_row; /* [WAITING][full] */
    const int64_t *order, *ptr;
    const int32_t *token, *place;
    const double *potentials;
    double *total;
} rescoring;

static inline int64_t lay_out_rescoring(rescoring *w, tensor *m, int64_t tokens, int64_t C,
                                        double *work) {
    double *const start = work, **each[] = {&w->x, &w->y, &w->forward, &w->after};
    for (int k = 0; k < 4; k++) *each[k] = take(&work, (k < 2 ? FC_LANES : tokens) * m->full);
    w->node = take(&work, tokens * m->plane);
    double **log[] = {&w->shift, &w->before, &w->behind};
    for (int k = 0; k < 3; k++) *log[k] = take(&work, tokens);
    w->changed = take(&work, m->plane);
    w->alone = take(&work, m->full);
    w->waiting_row = take(&work, WAITING * m->full);
    w->marks = (uint8_t *)take(&work, tokens / 8 + 1);
    w->variant = (branching *)take(&work, C * (int64_t)(sizeof *w->variant / sizeof *work));
    w->m = m;
    return work - start;
}

static inline double *row_of(const rescoring *w, int64_t r) { return w->x + r * w->m->full; }

/* Ends a row; the last row takes its place. */
static inline void end_row(rescoring *w, int64_t r) {
    w->n--;
    w->row[r] = w->row[w->n];
    memcpy(row_of(w, r), row_of(w, w->n), (size_t)w->m->full * sizeof *w->x);
}

/* Steps rows that share a table. Sums add the arcs in the same order for every number of rows. */
static inline void step_together(rescoring *w, direction d) {
    const tensor *m = w->m;
    const loaded_axis *a = &m->axis[0];
    const int64_t P = m->P;
    if (a->dense && !a->full) {
        if (w->n % 2 == 1) fc_fill(P, none(w->K), row_of(w, w->n)); /* a last row adds otherwise */
        const block b = block_of(w->n + w->n % 2, m->S, P, w->x, P, 1,
                                 d == FORWARD ? a->weight : a->turned, w->y);
        (w->K == SUM_TIMES ? product_sum : product_max)(&b);
        return;
    }
    turn_rows(w->n, P, FC_LANES, none(w->K), w->x, a->lanes[0]);
    listed_step(w->K, WHOLE, a, d, FC_LANES, a->weight, a->lanes[0], a->lanes[1], a->lanes[0]);
    double *row[FC_LANES];
    for (int64_t r = 0; r < w->n; r++) row[r] = w->y + r * P;
    lanes_to_rows(m->S, w->n, a->lanes[1], row);
    for (int64_t r = 0; r < w->n; r++) fc_fill(P - m->S, none(w->K), row[r] + m->S);
}

/* Steps all rows to their tokens t, from the token before it or after it. */
static inline void step_rows(rescoring *w, direction d) {
    tensor *m = w->m;
    if (w->n > 0 && w->together) step_together(w, d);
    for (int64_t r = 0; r < w->n; r++) {
        runner *row = &w->row[r];
        if (!w->together) {
            load_arcs(m, w->K, w->sentence[row->s].first + row->t + (d == BACKWARD));
            all_axes(m, w->K, d, row_of(w, r));
            memcpy(w->y + r * m->full, m->x, (size_t)m->full * sizeof *w->y);
        }
        fc_add(&row->scale, m->axis[0].shift);
    }
    fc_swap(&w->x, &w->y);
}

/* x: (x) the node potentials of a token, scaled. */
static inline void read_node(rescoring *w, double *x, fc_total *scale, direction d,
                             const double *plane, double shift) {
    tensor *m = w->m;
    if (m->machine->residual == NULL) {
        times_plane(m, w->K, x, plane, x);
    } else if (d == FORWARD) {
        times_plane(m, w->K, x, plane, m->y);
        residual_step(m, w->K, FORWARD, m->y, x);
    } else {
        residual_step(m, w->K, BACKWARD, x, m->y);
        times_plane(m, w->K, m->y, plane, x);
    }
    fc_add(scale, shift + (m->machine->residual == NULL ? 0.0 : m->edge_shift));
    fc_add(scale, normalise(m, w->K, x));
}

/* (+) x (x) y over all cells, as a score. */
static inline double joined(tensor *m, semiring K, const double *x, const double *y) {
    for (int64_t j = 0; j < m->full; j++) m->row[j] = times(K, x[j], y[j]);
    const double total = row_total(m, K);
    return K == SUM_TIMES ? log(total) : total;
}

/* (+) initial (x) x: the total of a sentence. */
static inline double whole_total(const rescoring *w, const double *x, fc_total scale) {
    tensor *m = w->m;
    spread_ends(m, w->K, m->initial, m->ends[0], m->best);
    const double z = joined(m, w->K, m->best, x);
    if (w->K == SUM_TIMES && z > FC_NEVER && z < log(FAINT)) m->lost++;
    fc_add(&scale, z);
    fc_add(&scale, m->shift);
    return fc_value(scale);
}

/* BACKWARD: continuations after each token, and the total of each sentence. FORWARD: the rows before each
 * token, up to the last token at which a variant begins to differ. */
static inline void pass(rescoring *w, const direction d) {
    tensor *m = w->m;
    const int ahead = d == FORWARD;
    for (int64_t s = 0; w->n > 0 || s < w->sentences; step_rows(w, d)) {
        for (; w->n < FC_LANES && s < w->sentences; s++) {
            const rescored *sentence = &w->sentence[s];
            if (ahead && (sentence->last < 0 || !(sentence->total > FC_NEVER))) continue;
            spread_ends(m, w->K, ahead ? m->initial : m->final, m->ends[d], row_of(w, w->n));
            w->row[w->n++] = (runner){.job = s, .s = s, .t = ahead ? 0 : sentence->T - 1};
        }
        for (int64_t r = 0; r < w->n;) {
            runner *row = &w->row[r];
            rescored *sentence = &w->sentence[row->s];
            const int64_t place = sentence->at + row->t;
            double *x = row_of(w, r), *node = w->node + place * m->plane;
            if (w->marks[place] & (ahead ? BEGINS : ENDS))
                memcpy((ahead ? w->forward : w->after) + place * m->full, x,
                       (size_t)m->full * sizeof *x);
            (ahead ? w->before : w->behind)[place] = fc_value(row->scale);
            int ends = ahead && row->t == sentence->last;
            if (!ahead) w->shift[place] = load_node(m, w->K, sentence->first + row->t, node);
            if (!ends) read_node(w, x, &row->scale, d, node, w->shift[place]);
            if (!ahead) {
                const int alive = row->scale.sum > FC_NEVER;
                ends = row->t == 0 || !alive;
                if (ends) sentence->total = alive ? whole_total(w, x, row->scale) : FC_NEVER;
            }
            row->t += ahead ? 1 : -1;
            if (ends)
                end_row(w, r);
            else
                r++;
        }
    }
}

/* Node potentials of a changed token, in the form of the semiring; returns the shift. */
static inline double changed_node(tensor *m, semiring K, const double *row, double *out) {
    memcpy(out, row, (size_t)m->S * sizeof *row);
    fc_fill(m->P - m->S, FC_NEVER, out + m->S);
    if (K == MAX_PLUS) return 0.0;
    const double shift = finite_or_zero(fc_max(m->P, out));
    copy_scores(m, K, m->P, shift, out, out);
    return shift;
}

/* --- The tree of variants ---------------------------------------------------------------------- */

static inline int64_t first_change(const rescoring *w, int64_t c) { return w->ptr[w->order[c]]; }
static inline int64_t end_of_changes(const rescoring *w, int64_t c) {
    return w->ptr[w->order[c] + 1];
}

/* Changes that a variant shares with the one before it. */
static inline int64_t shared_changes(const rescoring *w, int64_t c) {
    const int64_t k = first_change(w, c), l = first_change(w, c - 1);
    int64_t n = 0;
    while (k + n < end_of_changes(w, c) && l + n < end_of_changes(w, c - 1) &&
           w->token[k + n] == w->token[l + n] && w->place[k + n] == w->place[l + n])
        n++;
    return n;
}

/* Builds the tree of the variants of the group. Since variants are in falling order, a parent passes the
 * tokens of all its branches. The list of branches has the order of these tokens. */
static inline void grow_tree(rescoring *w) {
    memset(w->marks, 0,
           (size_t)(w->sentence[w->sentences - 1].at + w->sentence[w->sentences - 1].T));
    for (int64_t s = 0; s < w->sentences; s++) {
        const rescored *sentence = &w->sentence[s];
        for (int64_t c = sentence->from; c < sentence->to; c++) {
            const int64_t shared = c > sentence->from ? shared_changes(w, c) : 0;
            int64_t parent = shared > 0 ? c - 1 : -1;
            while (parent >= 0 && w->variant[parent].shared >= shared)
                parent = w->variant[parent].parent;
            w->variant[c] = (branching){s, shared, parent, -1, -1};
            if (parent >= 0) {
                w->variant[c].next = w->variant[parent].branches;
                w->variant[parent].branches = c;
            }
            const int64_t first = first_change(w, c), end = end_of_changes(w, c);
            if (first == end) continue;
            w->marks[sentence->at + w->token[first]] |= BEGINS;
            w->marks[sentence->at + w->token[end - 1]] |= ENDS;
        }
    }
}

/* Removes the next branch of a variant from its list, and returns it. Returns -1 if the branch begins at
 * a later change or token; with token -1, if the branch has further changes. */
static inline int64_t take_branch(rescoring *w, int64_t c, int64_t change, int64_t token) {
    const int64_t b = w->variant[c].branches, shared = change - first_change(w, c);
    if (b < 0 || w->variant[b].shared != shared) return -1;
    const int64_t k = first_change(w, b) + shared;
    if (token < 0 ? k < end_of_changes(w, b) : k == end_of_changes(w, b) || w->token[k] != token)
        return -1;
    w->variant[c].branches = w->variant[b].next;
    return b;
}

/* Writes totals of the variants that have no change after this change of variant c. */
static inline void end_variants(rescoring *w, int64_t c, int64_t change, int64_t place,
                                const double *x, fc_total scale) {
    tensor *m = w->m;
    double total = FC_NEVER;
    int known = 0;
    for (int64_t b = change == end_of_changes(w, c) ? c : take_branch(w, c, change, -1); b >= 0;
         b = take_branch(w, c, change, -1)) {
        if (!known) {
            fc_add(&scale, joined(m, w->K, x, w->after + place * m->full));
            fc_add(&scale, w->behind[place]);
            fc_add(&scale, m->shift);
            total = fc_value(scale);
            if (w->K == SUM_TIMES && !(total > FC_NEVER)) m->lost++;
        }
        known = 1;
        w->total[w->order[b]] = total;
    }
}

/* Reads a change, in the row x. */
static inline void read_change(rescoring *w, int64_t change, double *x, fc_total *scale) {
    const double *row = w->potentials + w->place[change] * w->m->S;
    const double shift = changed_node(w->m, w->K, row, w->changed);
    read_node(w, x, scale, FORWARD, w->changed, shift);
}

/* Continues variant c from a change on, given the row x before its token. If the change is the last, its
 * total is known; otherwise the variant waits for a row. */
static inline void branch_off(rescoring *w, int64_t c, int64_t change, const double *x,
                              fc_total scale) {
    const size_t size = (size_t)w->m->full * sizeof *x;
    const int64_t s = w->variant[c].s, t = w->token[change];
    if (change + 1 == end_of_changes(w, c)) {
        memcpy(w->alone, x, size);
        read_change(w, change, w->alone, &scale);
        end_variants(w, c, change + 1, w->sentence[s].at + t, w->alone, scale);
    } else if (w->waits < WAITING) {
        memcpy(w->waiting_row + w->waits * w->m->full, x, size);
        w->waiting[w->waits++] = (runner){c, s, t, change, scale};
    } else {
        w->variant[c].next = w->late;
        w->late = c;
    }
}

/* Reads token t of a variant; returns 1 after its last change, when its total is known. */
static inline int read_variant(rescoring *w, int64_t r) {
    runner *row = &w->row[r];
    const int64_t c = row->job, place = w->sentence[row->s].at + row->t;
    double *x = row_of(w, r);
    for (int64_t b = take_branch(w, c, row->change, row->t); b >= 0;
         b = take_branch(w, c, row->change, row->t))
        branch_off(w, b, first_change(w, b) + w->variant[b].shared, x, row->scale);
    if (w->token[row->change] == row->t) {
        read_change(w, row->change++, x, &row->scale);
        end_variants(w, c, row->change, place, x, row->scale);
    } else {
        read_node(w, x, &row->scale, FORWARD, w->node + place * w->m->plane, w->shift[place]);
    }
    row->t++;
    return row->change == end_of_changes(w, c);
}

/* Starts a variant at its first change. */
static inline void start_variant(rescoring *w, int64_t c) {
    const rescored *sentence = &w->sentence[w->variant[c].s];
    const int64_t change = first_change(w, c);
    if (change == end_of_changes(w, c) || !(sentence->total > FC_NEVER)) return;
    const int64_t place = sentence->at + w->token[change];
    branch_off(w, c, change, w->forward + place * w->m->full, (fc_total){w->before[place], 0.0});
}

/* Totals of the variants of the group. */
static inline void variants(rescoring *w) {
    tensor *m = w->m;
    const int64_t first = w->sentence[0].from, end = w->sentence[w->sentences - 1].to;
    w->waits = 0;
    w->late = -1;
    for (int64_t c = first; c < end; c++)
        w->total[w->order[c]] = w->sentence[w->variant[c].s].total;
    for (int64_t c = first; w->n > 0 || w->waits > 0 || w->late >= 0 || c < end;
         step_rows(w, FORWARD)) {
        while (w->n < FC_LANES && (w->waits > 0 || w->late >= 0 || c < end)) {
            if (w->waits == 0 && w->late >= 0) {
                const int64_t late = w->late;
                w->late = w->variant[late].next;
                start_variant(w, late);
            } else if (w->waits == 0) {
                if (w->variant[c].parent < 0) start_variant(w, c);
                c++;
            }
            if (w->waits == 0) continue;
            w->waits--;
            memcpy(row_of(w, w->n), w->waiting_row + w->waits * m->full,
                   (size_t)m->full * sizeof *w->x);
            w->row[w->n++] = w->waiting[w->waits];
        }
        for (int64_t r = 0; r < w->n;) {
            if (read_variant(w, r)) {
                end_row(w, r);
            } else {
                r++;
            }
        }
    }
}

/* Totals of all variants of the sentences of a group. */
static inline outcome rescore_group(rescoring *w, semiring K) {
    tensor *m = w->m;
    w->K = K;
    w->n = 0;
    load_static(m, K);
    w->together = m->single && !m->axis[0].axis->moving && K != LOG_PLUS;
    m->lost = m->static_lost;
    forget_underflow();
    for (int64_t s = 0, at = 0; s < w->sentences; at += w->sentence[s++].T) w->sentence[s].at = at;
    grow_tree(w);
    pass(w, BACKWARD);
    pass(w, FORWARD);
    variants(w);
    return K == SUM_TIMES && any_lost(m) ? LOST : DONE;
}

/* Computes a group. Repeats a sentence in the log domain if its sums lose a term. */
static inline void rescore_sentences(rescoring *w, semiring K) {
    const int64_t n = w->sentences;
    if (rescore_group(w, K) == DONE) return;
    rescored all[GROUP];
    memcpy(all, w->sentence, (size_t)n * sizeof *all);
    w->sentences = 1;
    for (int64_t s = 0; s < n; s++) {
        w->sentence[0] = all[s];
        if (n == 1 || rescore_group(w, K) == LOST) rescore_group(w, LOG_PLUS);
    }
}

#endif
