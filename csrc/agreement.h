/* SPDX-License-Identifier: Apache-2.0
 *
 * Penalties of spans that disagree across the sentences of a document. Spans are counted by their
 * tokens, so the penalties of one more span cost a look at its own tokens only, whatever the size of
 * the document.
 *
 * Counts. Penalties are sums over pairs of spans, and a document may have thousands. The kernel never
 * enumerates pairs. Token sequences that occur twice or more are numbered once
 * (`ext/documents/document.py`), as are values of fields and words. For each number and type the kernel
 * counts the spans with this sequence and the longer spans that contain it. The cost of one more span
 * follows from the counts of its tokens. To try a label (`csrc/single_site.h`), the spans around
 * the token are subtracted from the counts and the new ones added; the time does not depend on the
 * document. `Consistency` and `Fields` also count in Python, for use with models in Python. Tests check
 * that both agree, and that the frequencies of long runs match probabilities computed from all
 * labellings.
 */
#ifndef FSTCRF_AGREEMENT_H
#define FSTCRF_AGREEMENT_H

#include "fstcrf.h"

/* --- Token sequences ------------------------------------------------------------------------- */

/* The number of a span's token sequence, -1: it occurs once. */
static inline int32_t sequence_of(const fc_agreement *a, int64_t start, int64_t length) {
    const int64_t first = a->first[start];
    return length <= a->first[start + 1] - first ? a->sequence[first + length - 1] : -1;
}

/* Spans of the same sequence, and longer ones that contain it. */
static inline double outer_cost(const fc_agreement *a, int64_t start, int64_t length,
                                int32_t type) {
    const int64_t Y = a->Y;
    const int32_t own = sequence_of(a, start, length);
    if (own < 0) return 0.0;
    const int32_t *same = a->whole + own * Y, *around = a->part + own * Y;
    double sum = 0.0;
    for (int64_t y = 0; y < Y; y++)
        sum += same[y] * a->same[type * Y + y] + around[y] * a->within[y * Y + type];
    return (double)length * sum;
}

/* The first token at which a repeated sequence begins that ends with the span, or after it. */
static inline int64_t first_around(const fc_agreement *a, int64_t start, int64_t end) {
    int64_t s = start;
    while (s > 0 && a->first[s] - a->first[s - 1] >= end - s + 1) s--;
    return s;
}

/* Cost of spans of longer sequences that occur around this one, and of spans that are shorter than this
   sequence. */
static inline double incomplete_cost(const fc_agreement *a, int64_t start, int64_t length,
                                     int32_t type) {
    const int64_t Y = a->Y, end = start + length;
    const int32_t own = sequence_of(a, start, length);
    double total = 0.0;
    if (own < 0) return total; /* then longer sequences around it occur only once as well */
    for (int64_t y = 0; y < Y; y++)
        total += (double)a->short_of[own * Y + y] * a->incomplete[type * Y + y];
    for (int64_t s = first_around(a, start, end); s <= start; s++) {
        const int64_t room = a->first[s + 1] - a->first[s];
        for (int64_t n = end - s; n <= room; n++) {
            const int32_t *around = a->whole + a->sequence[a->first[s] + n - 1] * Y;
            for (int64_t y = 0; y < Y; y++)
                total += (double)(n - length) * around[y] * a->incomplete[y * Y + type];
        }
    }
    return total;
}

static inline void count_incomplete(const fc_agreement *a, int64_t start, int64_t length,
                                    int32_t type, int32_t by) {
    const int64_t Y = a->Y, end = start + length;
    if (sequence_of(a, start, length) < 0) return;
    for (int64_t s = first_around(a, start, end); s <= start; s++) {
        const int64_t room = a->first[s + 1] - a->first[s];
        for (int64_t n = end - s; n <= room; n++)
            a->short_of[a->sequence[a->first[s] + n - 1] * Y + type] += by * (int32_t)(n - length);
    }
}

static inline double sequence_cost(const fc_agreement *a, int64_t start, int64_t length,
                                   int32_t type) {
    const int64_t Y = a->Y;
    double total = outer_cost(a, start, length, type);
    if (a->cuts) total += incomplete_cost(a, start, length, type);
    for (int64_t s = start; s < start + length; s++) {
        const int64_t room = a->first[s + 1] - a->first[s];
        for (int64_t n = 1; n <= room && s + n <= start + length && n < length; n++) {
            const int32_t *inner = a->whole + a->sequence[a->first[s] + n - 1] * Y;
            double sum = 0.0;
            for (int64_t y = 0; y < Y; y++) sum += inner[y] * a->within[type * Y + y];
            total += (double)n * sum;
        }
    }
    return total;
}

static inline void count_sequences(const fc_agreement *a, int64_t start, int64_t length,
                                   int32_t type, int32_t by) {
    const int64_t Y = a->Y;
    const int32_t own = sequence_of(a, start, length);
    if (own >= 0) a->whole[own * Y + type] += by;
    if (a->cuts) count_incomplete(a, start, length, type, by);
    for (int64_t s = start; s < start + length; s++) {
        const int64_t room = a->first[s + 1] - a->first[s];
        for (int64_t n = 1; n <= room && s + n <= start + length && n < length; n++)
            a->part[a->sequence[a->first[s] + n - 1] * Y + type] += by;
    }
}

/* --- Values of fields ------------------------------------------------------------------------ */

/* The value of a span, -1: it has no value and agrees with all spans. */
static inline int32_t value_of(const fc_agreement *a, int64_t N, int64_t start, int64_t length,
                               int32_t type) {
    if (a->F == 0 || a->table[type] < 0 || length > a->M) return -1;
    return a->value[(a->table[type] * N + start) * a->M + length - 1];
}

static inline double value_cost(const fc_agreement *a, int32_t value, int64_t length,
                                int32_t type) {
    if (value < 0) return 0.0;
    const int64_t own = value * a->Y + type, all = a->V * a->Y + type;
    const int64_t spans = a->spans[all] - a->spans[own], tokens = a->tokens[all] - a->tokens[own];
    if (a->apart[type]) {
        const int64_t others = a->distinct[type] - (a->spans[own] > 0);
        /* A new value counts as one more value for each existing span. */
        const int64_t more = a->spans[own] > 0 ? 0 : a->tokens[all];
        return a->differ[type] * (double)(length * others + more);
    }
    return a->differ[type] * (double)(length * spans + tokens);
}

static inline void count_value(const fc_agreement *a, int32_t value, int64_t length, int32_t type,
                               int32_t by) {
    const int64_t rows[2] = {value, a->V};
    if (value >= 0) {
        const int32_t there = a->spans[value * a->Y + type];
        a->distinct[type] += (there + by > 0) - (there > 0);
    }
    for (int64_t k = 0; value >= 0 && k < 2; k++) {
        a->spans[rows[k] * a->Y + type] += by;
        a->tokens[rows[k] * a->Y + type] += by * (int32_t)length;
    }
}

/* --- Places of last words -------------------------------------------------------------------- */

/* The number of the last word of a span; -1 if it occurs once, or the span has no word. */
static inline int32_t last_word(const fc_agreement *a, int64_t start, int64_t length) {
    for (int64_t t = start + length - 1; t >= start; t--)
        if (a->word[t] > -2) return a->word[t];
    return -1;
}

static inline double word_cost(const fc_agreement *a, int64_t start, int64_t length, int32_t type) {
    const int64_t Y = a->Y;
    if (a->W == 0 || a->every[type] == 0.0) return 0.0;
    const int32_t last = last_word(a, start, length);
    int64_t places = last < 0 ? 0 : a->occurs[last] - a->labelled[last * Y + type];
    for (int64_t t = start; t < start + length; t++) {
        const int32_t w = a->word[t];
        if (w >= 0) places -= a->ending[w * Y + type] + (w == last);
    }
    return a->every[type] * (double)places;
}

static inline void count_words(const fc_agreement *a, int64_t start, int64_t length, int32_t type,
                               int32_t by) {
    const int32_t last = last_word(a, start, length);
    if (last >= 0) a->ending[last * a->Y + type] += by;
    for (int64_t t = start; t < start + length; t++)
        if (a->word[t] >= 0) a->labelled[a->word[t] * a->Y + type] += by;
}

/* The largest gain of spans in a stretch: places of last words that get the wanted label. */
static inline double most_gain(const fc_agreement *a, int64_t first, int64_t end) {
    double total = 0.0;
    for (int64_t t = first; a->W > 0 && t < end; t++) {
        double most = 0.0;
        for (int64_t y = 0; a->word[t] >= 0 && y < a->Y; y++) {
            const double gain = -a->every[y] * a->ending[a->word[t] * a->Y + y];
            most = gain > most ? gain : most;
        }
        total += most;
    }
    return total;
}

/* --- All of them ----------------------------------------------------------------------------- */

static inline double span_cost(const fc_agreement *a, int64_t N, int64_t start, int64_t length,
                               int32_t type) {
    double total = a->K ? sequence_cost(a, start, length, type) : 0.0;
    total += value_cost(a, value_of(a, N, start, length, type), length, type);
    return total + word_cost(a, start, length, type);
}

/* Not inline: next to span_cost, inlining would change how the compiler rounds a cost. */
static void count_span(const fc_agreement *a, int64_t N, int64_t start, int64_t length,
                       int32_t type, int32_t by) {
    count_value(a, value_of(a, N, start, length, type), length, type, by);
    if (a->W) count_words(a, start, length, type, by);
    if (a->K) count_sequences(a, start, length, type, by);
}

/* No span of these tokens can cost anything. */
static inline int agreed_upon(const fc_agreement *a, int64_t first, int64_t end) {
    if (a->Y == 0) return 1;
    return a->F == 0 && a->W == 0 && a->first[first] == a->first[end];
}

#endif
