/* SPDX-License-Identifier: Apache-2.0
 *
 * Choices between arcs, for acyclic machines and for those with pair scores: the best score of an arc and
 * its continuations, or the log of their sum, and the share of each arc in it. */
#ifndef FSTCRF_ARCS_H
#define FSTCRF_ARCS_H

#include "vec.h"

/* Arcs, and the score of the continuations of each, with its rounding error: long machines are as exact as
 * short ones. */
typedef struct {
    const double *score;
    const int32_t *to;
    const double *suffix, *lost;
} arc_list;

/* Score of arc a and all its continuations, minus `top`. */
FC_INLINE double worth(const arc_list *v, int64_t a, double top) {
    const int32_t t = v->to[a];
    return fc_plus(v->score[a], v->suffix[t], v->lost[t], top);
}

/* The best score of the arcs from `begin` to `end`, or of ending instead. */
FC_INLINE double best_arc_score(const arc_list *v, int64_t begin, int64_t end, double final) {
    double best = final;
    for (int64_t a = begin; a < end; a++) {
        const double value = v->score[a] + v->suffix[v->to[a]];
        best = value > best ? value : best;
    }
    return best;
}

#define FEW 4 /* arcs: below this, vectors of exponentials are slower */

/* Log of the sum of these arcs and of ending, minus the best score of them; the shares of the arcs, and
 * of ending. Shares are divided by their sum: at many similar places, its distance from one would have
 * the same sign. `coarse`: see FC_MOST_LOST. */
FC_INLINE double sum_arcs(const arc_list *v, int64_t begin, int64_t end, double final, double best,
                          int coarse, double *restrict share, double *stop) {
    double sum = 0.0, shift = 0.0;
    *stop = 0.0;
    if (best == FC_NEVER) {
        for (int64_t a = begin; a < end; a++) share[a] = 0.0;
        return 0.0;
    }
    if (coarse) {
        shift = final - best;
        for (int64_t a = begin; a < end; a++) shift = fc_larger(shift, worth(v, a, best));
    }
    if (end - begin < FEW) {
        for (int64_t a = begin; a < end; a++) {
            const double weight = fc_exp(worth(v, a, best) - shift);
            sum += weight;
            share[a] = weight;
        }
    } else {
        for (int64_t a = begin; a < end; a++) share[a] = fc_exp(worth(v, a, best) - shift);
        for (int64_t a = begin; a < end; a++) sum += share[a];
    }
    if (final > FC_NEVER) sum += *stop = fc_exp(final - best - shift);
    const double each = 1.0 / sum;
    for (int64_t a = begin; a < end; a++) share[a] *= each;
    *stop *= each;
    return shift + log(sum);
}

#endif
