/* SPDX-License-Identifier: Apache-2.0
 *
 * One label at a time, drawn given all others: single-site Gibbs sampling. To try a label, the spans
 * around the token are subtracted from the counts and the new spans are added. */
#ifndef FSTCRF_SINGLE_SITE_H
#define FSTCRF_SINGLE_SITE_H

#include "draw.h"
#include "spans.h"

#define NEGLIGIBLE 37.0 /* e^-37 is below the precision of doubles near 1 */

/* score[c] = local[c] + penalties of label c; the counts exclude the spans of the stretch. Labels that
 * cannot win, whatever the penalties, are left out. */
static inline void weigh(const sampler *g, stretch *s, int32_t now, double gain,
                         double temperature) {
    const double *local = g->local;
    double *score = g->score, best = score[now];
    for (int32_t c = 0; c < g->lab->L; c++) {
        if (c == now || !(local[c] > FC_NEVER)) continue;
        if (g->agree->lowers && local[c] + gain - best < -NEGLIGIBLE * temperature) {
            score[c] = FC_NEVER;
            continue;
        }
        s->label = c;
        score[c] = local[c] + enter(g, s);
        leave(g, s);
        if (score[c] > best) best = score[c];
    }
}

/* Resamples a token; returns the change of the document's score. */
static inline double resample_token(sampler *g, int64_t first, int64_t end, int64_t t,
                                    double temperature, double u) {
    const fc_agreement *agree = g->agree;
    const int64_t L = g->lab->L;
    const int32_t now = g->lab->label[g->path[t]];
    double *local = g->local, *score = g->score, is = 0.0;
    differences(g, first, end, t, now);
    stretch s = {t, t + 1, first, t, now};
    if (agree->Y) s = stretch_around(g, first, end, t);
    const int free = agreed_upon(agree, s.first, s.end);
    const int none = free || (s.end == s.first + 1 && agree->type[now] < 0);
    if (!none) {
        leave(g, &s);
        is = enter(g, &s);
    }
    const double gain = free || !agree->lowers ? 0.0 : most_gain(agree, s.first, s.end);
    if ((free || agree->lowers) && stays(L, local, score, now, is, gain, temperature, u))
        return 0.0;
    memcpy(score, local, (size_t)L * sizeof *score);
    score[now] = is;
    if (!free) {
        leave(g, &s);
        weigh(g, &s, now, gain, temperature);
    }
    memcpy(local, score, (size_t)L * sizeof *score); /* a draw overwrites them */
    const int32_t drawn = draw(L, score, now, temperature, u);
    if (drawn != now) relabel(g, first, end, t, drawn);
    if (!free) {
        s.label = drawn;
        enter(g, &s);
    }
    return local[drawn] - is;
}

#endif
