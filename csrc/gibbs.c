/* SPDX-License-Identifier: Apache-2.0
 *
 * Gibbs sampling of the labels of a document: a graph scores each sentence, a table of penalties
 * the spans that disagree across sentences. Spans are counted by what they say, so that the
 * penalties of one more span cost a look at its own tokens, whatever the document has. */

#include "target.h"
#include "vec.h"

typedef struct {
    const fc_graph *graph;
    const fc_batch *batch;
    const fc_labelling *lab;
    const fc_agreement *agree;
    int32_t *path;
    double *arc;    /* [S][P] arc potentials over the temperature, padded with -inf */
    double *alpha;  /* [longest][P] */
    double *top;    /* [P] */
    double *sum;    /* [P] */
    double *local;  /* [L] */
    double *score;  /* [L] */
    double *turned; /* [S][S] arc potentials from column to row */
    int32_t *old;   /* [longest] */
    int64_t P, N;
    int direct; /* states are labels, arcs do not move */
} sampler;

static const double *arcs_into(const fc_graph *g, int64_t token) {
    return g->moving ? g->score + token * g->S * g->S : g->score;
}

/* --- Penalties of spans ---------------------------------------------------------------------- */

static int32_t sequence(const fc_agreement *a, int64_t start, int64_t length) {
    const int64_t first = a->first[start];
    return length <= a->first[start + 1] - first ? a->sequence[first + length - 1] : -1;
}

static double sequence_cost(const fc_agreement *a, int64_t start, int64_t length, int32_t type) {
    const int64_t Y = a->Y;
    double total = 0.0;
    const int32_t own = sequence(a, start, length);
    if (own >= 0) {
        const int32_t *same = a->whole + own * Y, *around = a->part + own * Y;
        double sum = 0.0;
        for (int64_t y = 0; y < Y; y++)
            sum += same[y] * a->same[type * Y + y] + around[y] * a->within[y * Y + type];
        total += (double)length * sum;
    }
    for (int64_t s = start; s < start + length; s++) {
        const int64_t room = a->first[s + 1] - a->first[s];
        for (int64_t n = 1; n <= room && s + n <= start + length; n++) {
            if (n == length) break;
            const int32_t *inner = a->whole + a->sequence[a->first[s] + n - 1] * Y;
            double sum = 0.0;
            for (int64_t y = 0; y < Y; y++) sum += inner[y] * a->within[type * Y + y];
            total += (double)n * sum;
        }
    }
    return total;
}

/* The value of a span, -1: it has none and agrees with all. */
static int32_t value_of(const fc_agreement *a, int64_t N, int64_t start, int64_t length,
                        int32_t type) {
    if (a->F == 0 || a->table[type] < 0 || length > a->M) return -1;
    return a->value[(a->table[type] * N + start) * a->M + length - 1];
}

static double value_cost(const fc_agreement *a, int32_t value, int64_t length, int32_t type) {
    if (value < 0) return 0.0;
    const int64_t own = value * a->Y + type, all = a->V * a->Y + type;
    const int64_t spans = a->spans[all] - a->spans[own], tokens = a->tokens[all] - a->tokens[own];
    return a->differ[type] * (double)(length * spans + tokens);
}

/* The number of the last word of a span; -1 where it is there once, or the span has none. */
static int32_t last_word(const fc_agreement *a, int64_t start, int64_t length) {
    for (int64_t t = start + length - 1; t >= start; t--)
        if (a->word[t] > -2) return a->word[t];
    return -1;
}

static double word_cost(const fc_agreement *a, int64_t start, int64_t length, int32_t type) {
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

/* What one more span would cost, beside those that are counted. */
static double cost(const sampler *g, int64_t start, int64_t length, int32_t type) {
    const fc_agreement *a = g->agree;
    double total = a->K ? sequence_cost(a, start, length, type) : 0.0;
    total += value_cost(a, value_of(a, g->N, start, length, type), length, type);
    return total + word_cost(a, start, length, type);
}

static void count_fields(const sampler *g, int64_t start, int64_t length, int32_t type,
                         int32_t by) {
    const fc_agreement *a = g->agree;
    const int64_t Y = a->Y;
    const int32_t value = value_of(a, g->N, start, length, type);
    const int64_t rows[2] = {value, a->V};
    for (int64_t k = 0; value >= 0 && k < 2; k++) {
        a->spans[rows[k] * Y + type] += by;
        a->tokens[rows[k] * Y + type] += by * (int32_t)length;
    }
    if (a->W == 0) return;
    const int32_t last = last_word(a, start, length);
    if (last >= 0) a->ending[last * Y + type] += by;
    for (int64_t t = start; t < start + length; t++)
        if (a->word[t] >= 0) a->labelled[a->word[t] * Y + type] += by;
}

/* The most that spans in a stretch can gain: places of last words that get the wanted label. */
static double most_gain(const fc_agreement *a, int64_t first, int64_t end) {
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

static void count(const sampler *g, int64_t start, int64_t length, int32_t type, int32_t by) {
    const fc_agreement *a = g->agree;
    const int64_t Y = a->Y;
    count_fields(g, start, length, type, by);
    if (a->K == 0) return;
    const int32_t own = sequence(a, start, length);
    if (own >= 0) a->whole[own * Y + type] += by;
    for (int64_t s = start; s < start + length; s++) {
        const int64_t room = a->first[s + 1] - a->first[s];
        for (int64_t n = 1; n <= room && s + n <= start + length && n < length; n++)
            a->part[a->sequence[a->first[s] + n - 1] * Y + type] += by;
    }
}

/* --- Spans of labels ------------------------------------------------------------------------- */

typedef struct {
    int64_t first, end; /* tokens that are read */
    int64_t begin;      /* of the sentence */
    int64_t changed;    /* a token with another label than its state says, -1: none */
    int32_t label;      /* that label */
} stretch;

static int32_t label_at(const sampler *g, const stretch *s, int64_t t) {
    return t == s->changed ? s->label : g->lab->label[g->path[t]];
}

/* Next span at or behind *at; 0 if there is none. A stretch begins and ends between spans. */
static int next_span(const sampler *g, const stretch *s, int64_t *at, int64_t *length,
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

/* Counts the spans of a stretch; returns what they cost together with all others. */
static double enter(const sampler *g, const stretch *s) {
    double total = 0.0;
    int64_t at = s->first, length;
    int32_t type;
    while (next_span(g, s, &at, &length, &type)) {
        total += cost(g, at, length, type);
        count(g, at, length, type, 1);
        at += length;
    }
    return total;
}

static void leave(const sampler *g, const stretch *s) {
    int64_t at = s->first, length;
    int32_t type;
    while (next_span(g, s, &at, &length, &type)) {
        count(g, at, length, type, -1);
        at += length;
    }
}

/* The tokens whose spans may change with the label of token t. */
static stretch around(const sampler *g, int64_t begin, int64_t end, int64_t t) {
    const int64_t L = g->lab->L;
    const int32_t *type = g->agree->type;
    const uint8_t *inside = g->agree->inside;
    stretch s = {t, t + 1, begin, t, 0};
    if (t > begin && type[g->lab->label[g->path[t - 1]]] >= 0) {
        s.first = t - 1;
        while (s.first > begin &&
               inside[g->lab->label[g->path[s.first - 1]] * L + g->lab->label[g->path[s.first]]])
            s.first--;
    }
    if (t + 1 < end && type[g->lab->label[g->path[t + 1]]] >= 0) {
        s.end = t + 2;
        while (s.end < end &&
               inside[g->lab->label[g->path[s.end - 1]] * L + g->lab->label[g->path[s.end]]])
            s.end++;
    }
    return s;
}

/* --- Scores of paths ------------------------------------------------------------------------- */

static double path_score(const sampler *g, int64_t first, int64_t end) {
    const int64_t S = g->graph->S;
    const int32_t *p = g->path;
    double total = g->graph->initial[p[first]] + g->graph->final[p[end - 1]];
    for (int64_t t = first; t < end; t++) {
        total += g->batch->node[t * S + p[t]];
        if (t > first) total += arcs_into(g->graph, t)[p[t - 1] * S + p[t]];
    }
    return total;
}

/* Score of token t having another label, less that of what it has; -inf: no such path. States
 * behind t follow from the labels, up to where they are what they were. */
static double difference(const sampler *g, int64_t first, int64_t end, int64_t t, int32_t label) {
    const fc_graph *graph = g->graph;
    const int64_t S = graph->S, L = g->lab->L;
    const int32_t *p = g->path, *next = g->lab->next;
    int32_t was = t > first ? p[t - 1] : (int32_t)S, now = was;
    double total = 0.0;
    for (int64_t n = t; n < end; n++) {
        const int32_t old = p[n];
        const int32_t new = next[now * L + (n == t ? label : g->lab->label[old])];
        if (new < 0) return FC_NEVER;
        if (n == first) {
            total += graph->initial[new] - graph->initial[old];
        } else {
            const double *arc = arcs_into(graph, n);
            total += arc[now * S + new] - arc[was * S + old];
        }
        if (new == old && n > t) return total;
        total += g->batch->node[n * S + new] - g->batch->node[n * S + old];
        if (n == end - 1) return total + graph->final[new] - graph->final[old];
        was = old;
        now = new;
    }
    return total;
}

static void relabel(const sampler *g, int64_t first, int64_t end, int64_t t, int32_t label) {
    const int64_t L = g->lab->L;
    int32_t *p = g->path;
    int32_t now = t > first ? p[t - 1] : (int32_t)g->graph->S;
    for (int64_t n = t; n < end; n++) {
        const int32_t old = p[n];
        now = g->lab->next[now * L + (n == t ? label : g->lab->label[old])];
        p[n] = now;
        if (now == old && n > t) return;
    }
}

/* --- One token at a time --------------------------------------------------------------------- */

#define NEGLIGIBLE 37.0 /* e^-37 is less than what doubles near 1 tell apart */

/* One of L labels by its score; at temperature 0 the best, what is there before others. */
static int32_t draw(int64_t L, double *score, int32_t now, double temperature, double u) {
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
    double wanted = u * total - score[now]; /* what is there comes first: see `stays` */
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
 * raise those of the others by no more than `gain`. */
static int stays(const sampler *g, int64_t L, double penalty, double gain, int32_t now,
                 double temperature, double u) {
    const double *restrict local = g->local;
    double *restrict score = g->score;
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

static int agreed_upon(const fc_agreement *a, int64_t first, int64_t end) {
    if (a->Y == 0) return 1;
    return a->F == 0 && a->W == 0 && a->first[first] == a->first[end];
}

/* local[c]: the graph's score with label c at token t, less that of what it has. */
static void differences(const sampler *g, int64_t first, int64_t end, int64_t t, int32_t now) {
    const int64_t S = g->graph->S, L = g->lab->L;
    double *restrict local = g->local;
    if (!g->direct) {
        for (int64_t c = 0; c < L; c++)
            local[c] = c == now ? 0.0 : difference(g, first, end, t, (int32_t)c);
        return;
    }
    const int32_t *p = g->path;
    const double *restrict node = g->batch->node + t * S;
    const double *restrict in = t > first ? g->graph->score + p[t - 1] * S : g->graph->initial;
    const double *restrict out = t + 1 < end ? g->turned + p[t + 1] * S : g->graph->final;
    for (int64_t c = 0; c < L; c++) local[c] = node[c] + in[c] + out[c];
    const double is = local[now];
    for (int64_t c = 0; c < L; c++) local[c] -= is;
    local[now] = 0.0;
}

/* Resamples a token; returns by how much the score of the document has changed. */
static double token(sampler *g, int64_t first, int64_t end, int64_t t, double temperature,
                    double u) {
    const int64_t L = g->lab->L;
    const int32_t now = g->lab->label[g->path[t]];
    double *local = g->local, *score = g->score;
    differences(g, first, end, t, now);
    stretch s = {t, t + 1, first, t, now};
    if (g->agree->Y) s = around(g, first, end, t);
    s.label = now;
    const int free = agreed_upon(g->agree, s.first, s.end);
    const int none = free || (s.end == s.first + 1 && g->agree->type[now] < 0);
    double is = 0.0;
    if (!none) {
        leave(g, &s);
        is = enter(g, &s);
    }
    const double gain = free || !g->agree->lowers ? 0.0 : most_gain(g->agree, s.first, s.end);
    if ((free || g->agree->lowers) && stays(g, L, is, gain, now, temperature, u)) return 0.0;
    double best = is;
    memcpy(score, local, (size_t)L * sizeof *score);
    score[now] = is;
    if (!free) {
        leave(g, &s);
        for (int32_t c = 0; c < L; c++) {
            if (c == now || !(local[c] > FC_NEVER)) continue;
            if (g->agree->lowers && local[c] + gain - best < -NEGLIGIBLE * temperature) {
                score[c] = FC_NEVER;
                continue;
            }
            s.label = c;
            score[c] = local[c] + enter(g, &s);
            leave(g, &s);
            if (score[c] > best) best = score[c];
        }
    }
    memcpy(local, score, (size_t)L * sizeof *score);
    const int32_t drawn = draw(L, score, now, temperature, u);
    if (drawn != now) relabel(g, first, end, t, drawn);
    if (!free) {
        s.label = drawn;
        enter(g, &s);
    }
    return local[drawn] - is;
}

/* --- One sentence at a time ------------------------------------------------------------------ */

static void tempered_arcs(sampler *g, int64_t t, double by) {
    const int64_t S = g->graph->S, P = g->P;
    const double *from = arcs_into(g->graph, t);
    for (int64_t i = 0; i < S; i++) {
        for (int64_t j = 0; j < S; j++) g->arc[i * P + j] = from[i * S + j] * by;
        for (int64_t j = S; j < P; j++) g->arc[i * P + j] = FC_NEVER;
    }
}

/* alpha[t][j]: log of the sum (or the maximum) over all beginnings that end in j at t. */
static void filter(sampler *g, int64_t first, int64_t end, double by, int best) {
    const int64_t S = g->graph->S, P = g->P;
    for (int64_t t = first; t < end; t++) {
        double *restrict a = g->alpha + (t - first) * P;
        const double *node = g->batch->node + t * S;
        double *restrict top = g->top, *restrict sum = g->sum;
        if (t == first) {
            for (int64_t j = 0; j < S; j++) a[j] = (g->graph->initial[j] + node[j]) * by;
        } else {
            const double *restrict b = a - P;
            if (g->graph->moving) tempered_arcs(g, t, by);
            fc_fill(P, FC_NEVER, top);
            for (int64_t i = 0; i < S; i++) {
                const double *restrict arc = g->arc + i * P;
                const double before = b[i];
                for (int64_t j = 0; j < P; j++) {
                    const double x = before + arc[j];
                    top[j] = x > top[j] ? x : top[j];
                }
            }
            fc_fill(P, 0.0, sum);
            for (int64_t i = 0; !best && i < S; i++) {
                const double *restrict arc = g->arc + i * P;
                const double before = b[i];
                for (int64_t j = 0; j < P; j++) {
                    const double high = top[j] > FC_NEVER ? top[j] : 0.0;
                    sum[j] += fc_exp(before + arc[j] - high);
                }
            }
            for (int64_t j = 0; j < S; j++) {
                const double into = !(top[j] > FC_NEVER) ? FC_NEVER
                                    : best               ? top[j]
                                                         : top[j] + log(sum[j]);
                a[j] = into + node[j] * by;
            }
        }
        for (int64_t j = S; j < P; j++) a[j] = FC_NEVER;
    }
}

/* Draws a path of the sentence into g->path, or finds the best one. */
static void trace(sampler *g, int64_t first, int64_t end, double by, int best,
                  const double *uniform) {
    const int64_t S = g->graph->S, P = g->P;
    int32_t next = -1;
    for (int64_t t = end - 1; t >= first; t--) {
        const double *a = g->alpha + (t - first) * P;
        const double *arc = t + 1 < end ? arcs_into(g->graph, t + 1) : NULL;
        int32_t peak = 0;
        for (int64_t i = 0; i < S; i++) {
            g->top[i] = a[i] + by * (arc == NULL ? g->graph->final[i] : arc[i * S + next]);
            if (g->top[i] > g->top[peak]) peak = (int32_t)i;
        }
        next = draw(S, g->top, peak, best ? 0.0 : 1.0, uniform[t - first]);
        g->path[t] = next;
    }
}

/* Proposes a sentence from the graph alone; the penalties say whether it is taken. */
static double sentence(sampler *g, int64_t first, int64_t end, double temperature,
                       const double *uniform, double u) {
    const int best = temperature == 0.0;
    const double by = best ? 1.0 : 1.0 / temperature;
    const size_t bytes = (size_t)(end - first) * sizeof *g->path;
    const stretch s = {first, end, first, -1, 0};
    const int free = agreed_upon(g->agree, first, end);
    double penalty = 0.0;
    const double was = path_score(g, first, end);
    filter(g, first, end, by, best);
    if (!free) {
        leave(g, &s);
        penalty = -enter(g, &s);
        leave(g, &s);
    }
    memcpy(g->old, g->path + first, bytes);
    trace(g, first, end, by, best, uniform);
    const double gain = path_score(g, first, end) - was;
    if (free) {
        if (best && !(gain > 0.0)) {
            memcpy(g->path + first, g->old, bytes);
            return 0.0;
        }
        return gain;
    }
    penalty += enter(g, &s);
    const int taken = best ? gain + penalty > 0.0 : log(u) * temperature < penalty;
    if (taken) return gain + penalty;
    leave(g, &s);
    memcpy(g->path + first, g->old, bytes);
    enter(g, &s);
    return 0.0;
}

/* --- Sweeps ---------------------------------------------------------------------------------- */

static double score_all(sampler *g) {
    const fc_agreement *a = g->agree;
    memset(a->whole, 0, (size_t)(a->K * a->Y) * sizeof *a->whole);
    memset(a->part, 0, (size_t)(a->K * a->Y) * sizeof *a->part);
    if (a->F) {
        memset(a->spans, 0, (size_t)((a->V + 1) * a->Y) * sizeof *a->spans);
        memset(a->tokens, 0, (size_t)((a->V + 1) * a->Y) * sizeof *a->tokens);
    }
    if (a->W) {
        memset(a->ending, 0, (size_t)(a->W * a->Y) * sizeof *a->ending);
        memset(a->labelled, 0, (size_t)(a->W * a->Y) * sizeof *a->labelled);
    }
    double total = 0.0;
    for (int64_t b = 0; b < g->batch->B; b++) {
        const int64_t first = g->batch->offsets[b], end = g->batch->offsets[b + 1];
        const stretch s = {first, end, first, -1, 0};
        total += path_score(g, first, end);
        if (a->Y) total += enter(g, &s);
    }
    return total;
}

/* Keeps the labels if they are the best so far; the tolerance is that of sums kept up to date. */
static void remember(const sampler *g, double total, int32_t *best, double *best_score) {
    if (!(total > *best_score + 1e-9)) return;
    *best_score = total;
    memcpy(best, g->path, (size_t)g->N * sizeof *best);
}

void FC_NAME(fc_gibbs)(const fc_graph *graph, const fc_batch *batch, const fc_labelling *lab,
                       const fc_agreement *agree, int64_t sweeps, const double *temperature,
                       const uint8_t *whole, const double *uniform, int32_t *path, double *score,
                       int32_t *best, double *best_score, double *work) {
    const int64_t N = batch->offsets[batch->B], B = batch->B, P = fc_padded(graph->S);
    int64_t longest = 0;
    for (int64_t b = 0; b < B; b++) {
        const int64_t T = batch->offsets[b + 1] - batch->offsets[b];
        longest = T > longest ? T : longest;
    }
    sampler g = {.graph = graph, .batch = batch, .lab = lab, .agree = agree, .path = path};
    g.P = P;
    g.N = N;
    g.arc = work;
    g.alpha = g.arc + graph->S * P;
    g.top = g.alpha + longest * P;
    g.sum = g.top + P;
    g.local = g.sum + P;
    g.score = g.local + lab->L;
    g.turned = g.score + lab->L;
    g.old = (int32_t *)(g.turned + graph->S * graph->S);
    g.direct = !graph->moving && graph->S == lab->L;
    for (int64_t i = 0; i < graph->S; i++) g.direct &= lab->label[i] == i;
    for (int64_t i = 0; g.direct && i < graph->S; i++)
        for (int64_t j = 0; j < graph->S; j++)
            g.turned[j * graph->S + i] = graph->score[i * graph->S + j];
    double total = score_all(&g);
    remember(&g, total, best, best_score);
    for (int64_t k = 0; k < sweeps; k++, uniform += N + B) {
        if (whole[k] && !graph->moving)
            tempered_arcs(&g, 0, temperature[k] == 0.0 ? 1.0 : 1.0 / temperature[k]);
        for (int64_t b = 0; b < B; b++) {
            const int64_t first = batch->offsets[b], end = batch->offsets[b + 1];
            if (whole[k]) {
                total += sentence(&g, first, end, temperature[k], uniform + first, uniform[N + b]);
                continue;
            }
            for (int64_t t = first; t < end; t++)
                total += token(&g, first, end, t, temperature[k], uniform[t]);
        }
        score[k] = total;
        remember(&g, total, best, best_score);
    }
}
