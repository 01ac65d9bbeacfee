/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads spans off the sampler's current labels. A stretch of tokens enters and leaves the counts of
 * agreement.h as a whole; its bounds are between spans. */
#ifndef FSTCRF_SPANS_H
#define FSTCRF_SPANS_H

#include "agreement.h"
#include "sampler.h"

typedef struct {
    int64_t first, end; /* bounds of the stretch */
    int64_t begin;      /* first token of the sentence */
    int64_t changed;    /* a token with another label than its state has, or -1 */
    int32_t label;      /* that label */
} stretch;

static inline int32_t label_at(const sampler *g, const stretch *s, int64_t t) {
    return t == s->changed ? s->label : g->lab->label[g->path[t]];
}

/* Next span from *at on; 0 if there is no further span. */
static inline int next_span(const sampler *g, const stretch *s, int64_t *at, int64_t *length,
                            int32_t *type) {
    const int64_t L = g->lab->L;
    const uint8_t *starts = g->agree->starts, *inside = g->agree->inside;
    for (int64_t t = *at; t < s->end; t++) {
        int32_t before = t > s->begin ? label_at(g, s, t - 1) : (int32_t)L;
        int32_t label = label_at(g, s, t);
        if (!starts[before * L + label]) continue;
        *at = t;
        *type = g->agree->type[label];
        for (t++; t < s->end; t++) {
            before = label;
            label = label_at(g, s, t);
            if (!inside[before * L + label]) break;
        }
        *length = t - *at;
        return 1;
    }
    return 0;
}

/* Counts the spans of a stretch; returns their cost together with all other spans. */
static inline double enter(const sampler *g, const stretch *s) {
    double total = 0.0;
    int64_t at = s->first, length;
    int32_t type;
    while (next_span(g, s, &at, &length, &type)) {
        total += span_cost(g->agree, g->N, at, length, type);
        count_span(g->agree, g->N, at, length, type, 1);
        at += length;
    }
    return total;
}

static inline void leave(const sampler *g, const stretch *s) {
    int64_t at = s->first, length;
    int32_t type;
    while (next_span(g, s, &at, &length, &type)) {
        count_span(g->agree, g->N, at, length, type, -1);
        at += length;
    }
}

static inline int goes_on(const sampler *g, int64_t t) {
    const int32_t *label = g->lab->label, *p = g->path;
    return g->agree->inside[label[p[t - 1]] * g->lab->L + label[p[t]]];
}

/* The tokens whose spans may change with the label of token t. */
static inline stretch stretch_around(const sampler *g, int64_t begin, int64_t end, int64_t t) {
    const int32_t *type = g->agree->type, *label = g->lab->label, *p = g->path;
    stretch s = {t, t + 1, begin, t, label[p[t]]};
    if (t > begin && type[label[p[t - 1]]] >= 0) {
        s.first = t - 1;
        while (s.first > begin && goes_on(g, s.first)) s.first--;
    }
    if (t + 1 < end && type[label[p[t + 1]]] >= 0) {
        s.end = t + 2;
        while (s.end < end && goes_on(g, s.end)) s.end++;
    }
    return s;
}

#endif
