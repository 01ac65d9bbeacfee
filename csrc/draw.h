/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws of one of L labels by its score over the temperature. The current label takes the lowest
 * uniform numbers, so that draws often keep it before all scores are known. */
#ifndef FSTCRF_DRAW_H
#define FSTCRF_DRAW_H

#include "fstcrf.h"
#include "vec.h"

/* At temperature 0 the best label, and the current one if it is a best one. Overwrites the scores. */
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

/* Whether a draw keeps the current label, judged by the graph's scores without penalties: these add
 * `penalty` to the current label, and raise the others by at most `gain`. */
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
