/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws of one of L labels by its score over the temperature. The label that is there takes the lowest
 * uniform numbers, so that it is often seen to stay before all scores are known. */
#ifndef FSTCRF_DRAW_H
#define FSTCRF_DRAW_H

#include "fstcrf.h"
#include "vec.h"

/* At temperature 0 the best, what is there before others. Scores are spent. */
static inline int32_t draw(int64_t L, double *score, int32_t now, double temperature, double u) {
    int32_t best = now;
    for (int64_t c = 0; c < L; c++)
        if (score[c] > score[best]) best = (int32_t)c;
    if (temperature == 0.0) return best;
    const double top = score[best], by = 1.0 / temperature;
    double total = 0.0;
    for (int64_t c = 0; c < L; c++) {
        score[c] = fc_exp((score[c] - top) * by);
        total += score[c];
    }
    double wanted = u * total - score[now];
    if (wanted < 0.0) return now;
    int32_t last = best;
    for (int64_t c = 0; c < L; c++) {
        if (c == now || !(score[c] > 0.0)) continue;
        last = (int32_t)c;
        wanted -= score[c];
        if (wanted < 0.0) break;
    }
    return last;
}

/* Whether a draw is what is there already, as can be told from the graph's scores alone: penalties
 * give `penalty` to what is there, and raise the others by no more than `gain`. */
static inline int stays(int64_t L, const double *restrict local, double *restrict score,
                        int32_t now, double penalty, double gain, double temperature, double u) {
    if (temperature == 0.0) {
        for (int64_t c = 0; c < L; c++)
            if (c != now && local[c] + gain > penalty) return 0;
        return 1;
    }
    const double by = 1.0 / temperature;
    for (int64_t c = 0; c < L; c++) {
        const double x = (local[c] + gain) * by;
        score[c] = fc_exp(x < 700.0 ? x : 700.0);
    }
    const double is = fc_exp(penalty * by);
    double others = -score[now];
    for (int64_t c = 0; c < L; c++) others += score[c];
    return u * (is + others) < is;
}

#endif
