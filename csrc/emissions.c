/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of score arrays: best labels, sums and spans, in float32 if that suffices. */

#include "checks.h"

#include "vec.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define GROUP 8
#define BLOCK 512 /* tokens whose rows are kept at once */

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define W (BYTES / (int)sizeof(REAL))

/* --- float32 --------------------------------------------------------------------------------- */
#define REAL float
#define INTEGER int32_t
#define NAMED(x) x##_narrow
#define SOURCE_OF(r) (r)->narrow
#define OTHER_OF(r) (r)->wide
#define EXP(x) expf_fast(x)
#define LARGEST INFINITY
#define COARSE 512.0f /* from here on rounding errors of float32 would be visible */
#define FAINT 1e-12f
#define LEAST 1e-37f
#define MOST 1e15f
#define M512 __m512
#define M256 __m256
#define MM512(x) _mm512_##x##_ps
#define MM256(x) _mm256_##x##_ps
#define MM512MASK _mm512_cmp_ps_mask
#include "emitter.h"
#undef REAL
#undef INTEGER
#undef NAMED
#undef SOURCE_OF
#undef OTHER_OF
#undef EXP
#undef LARGEST
#undef COARSE
#undef FAINT
#undef LEAST
#undef MOST
#undef M512
#undef M256
#undef MM512
#undef MM256
#undef MM512MASK

/* --- float64 --------------------------------------------------------------------------------- */
#define REAL double
#define INTEGER int64_t
#define NAMED(x) x##_wide
#define SOURCE_OF(r) (r)->wide
#define OTHER_OF(r) (r)->narrow
#define EXP(x) fc_exp(x)
#define LARGEST 1e300
#define COARSE HUGE_VAL
#define FAINT 1e-140
#define LEAST 1e-300
#define MOST 1e140
#define M512 __m512d
#define M256 __m256d
#define MM512(x) _mm512_##x##_pd
#define MM256(x) _mm256_##x##_pd
#define MM512MASK _mm512_cmp_pd_mask
#include "emitter.h"

/* --- Both ------------------------------------------------------------------------------------ */

int64_t fc_emission_work(const fc_emitter *m, int64_t longest) {
    return work_narrow(m, longest) + work_wide(m, longest) + FC_LANES;
}

fc_status fc_check_emissions(const fc_emitter *m, const fc_rows *r, int64_t *where) {
    *where = -1;
    if (m->S < 1 || m->S > FC_MAX_EMITTERS || m->L < 1 || r->L != m->L) return FC_EINVAL;
    if ((r->narrow == NULL) == (r->wide == NULL) || r->B < 0 || r->stride < r->L) return FC_EINVAL;
    for (int64_t j = 0; j < m->S; j++)
        if (m->label[j] < 0 || m->label[j] >= m->L) return FC_EINVAL;
    if (fc_first_invalid(m->S * m->S, m->arc) >= 0) return FC_ENUMERIC;
    if (fc_first_invalid(m->S, m->initial) >= 0 || fc_first_invalid(m->S, m->final) >= 0)
        return FC_ENUMERIC;
    for (int64_t b = 0; b < r->B; b++) {
        const int64_t T = r->length[b];
        if (T < 0 || (T > 0 && (r->start[b] < 0 || r->start[b] > r->size - r->L ||
                                (r->size - r->L - r->start[b]) / r->stride < T - 1)))
            return fail(FC_EINVAL, b, where);
    }
    return FC_OK;
}

static int64_t longest_between(const fc_rows *r, int64_t first, int64_t last) {
    int64_t longest = 0;
    for (int64_t b = first; b < last; b++)
        longest = r->length[b] > longest ? r->length[b] : longest;
    return longest;
}

static int within(const fc_rows *r, int64_t first, int64_t last) {
    return first >= 0 && first <= last && last <= r->B;
}

typedef struct {
    emitter_narrow narrow;
    emitter_wide wide;
    int loaded; /* of wide */
} both;

static both laid_out(const fc_emitter *m, const fc_rows *r, int64_t first, int64_t last,
                     double *work) {
    const int64_t longest = longest_between(r, first, last);
    both w = {.narrow = laid_out_narrow(m, r, longest, work), .loaded = 0};
    w.wide = laid_out_wide(m, r, longest, work + work_narrow(m, longest));
    return w;
}

static int best_of(both *w, int64_t b, int32_t *path, double *score, int *fine) {
    if (w->narrow.rows->narrow != NULL && best_narrow(&w->narrow, b, path, score, fine)) return 1;
    if (w->narrow.rows->narrow != NULL && !*fine) return 0;
    if (!w->loaded) load_scores_wide(&w->wide);
    w->loaded = 1;
    return best_wide(&w->wide, b, path, score, fine);
}

fc_status fc_emission_best(const fc_emitter *m, const fc_rows *r, int64_t first, int64_t last,
                           const int64_t *offsets, int32_t *path, double *score, double *work,
                           int64_t *where) {
    if (!within(r, first, last)) return FC_EINVAL;
    both w = laid_out(m, r, first, last, work);
    if (r->narrow != NULL) load_scores_narrow(&w.narrow);
    for (int64_t b = first; b < last; b++) {
        int fine = 1;
        score[b] = 0.0;
        if (r->length[b] > 0) best_of(&w, b, path + offsets[b], score + b, &fine);
        if (!fine) return fail(FC_ENUMERIC, b, where);
    }
    return FC_OK;
}

static void clear_rows(const fc_rows *r, int64_t b, const fc_emission_sums *sums) {
    for (int64_t t = 0; t < r->length[b]; t++) {
        if (sums->narrow != NULL)
            memset(sums->narrow + sums->start[b] + t * sums->stride, 0,
                   (size_t)r->L * sizeof(float));
        if (sums->wide != NULL)
            memset(sums->wide + sums->start[b] + t * sums->stride, 0,
                   (size_t)r->L * sizeof(double));
    }
}

/* 1: in float32, 2: in float64, 0: left. */
static int sums_of(both *w, int64_t b, const fc_emission_sums *sums, int *fine) {
    const fc_rows *r = w->narrow.rows;
    sums->left[b] = 0;
    if (r->narrow != NULL && sums_narrow(&w->narrow, b, sums, fine)) return 1;
    if (r->narrow == NULL || *fine) {
        if (!w->loaded) load_sums_wide(&w->wide);
        w->loaded = 1;
        if (sums_wide(&w->wide, b, sums, fine)) return 2;
    }
    sums->left[b] = 1;
    sums->log_z[b] = NAN;
    clear_rows(r, b, sums);
    return 0;
}

static int sums_fit(const fc_rows *r, int64_t first, int64_t last, const fc_emission_sums *s) {
    if (!within(r, first, last) || s->log_z == NULL || s->left == NULL) return 0;
    if ((s->arc == NULL) != (s->begin == NULL) || (s->arc == NULL) != (s->end == NULL)) return 0;
    if (s->narrow == NULL && s->wide == NULL) return 1;
    if (s->stride < r->L || s->start == NULL) return 0;
    for (int64_t b = first; b < last; b++) {
        const int64_t T = r->length[b];
        if (T > 0 && (s->start[b] < 0 || s->start[b] > s->size - r->L ||
                      (s->size - r->L - s->start[b]) / s->stride < T - 1))
            return 0;
    }
    return 1;
}

fc_status fc_emission_total(const fc_emitter *m, const fc_rows *r, int64_t first, int64_t last,
                            const fc_emission_sums *sums, double *work, int64_t *where) {
    if (!sums_fit(r, first, last, sums)) return FC_EINVAL;
    both w = laid_out(m, r, first, last, work);
    if (r->narrow != NULL) load_sums_narrow(&w.narrow);
    for (int64_t b = first; b < last; b++) {
        int fine = 1;
        sums->log_z[b] = 0.0;
        sums->left[b] = 0;
        if (r->length[b] > 0) sums_of(&w, b, sums, &fine);
        if (!fine) return fail(FC_ENUMERIC, b, where);
    }
    if (sums->arc != NULL) {
        if (r->narrow != NULL) hand_over_narrow(&w.narrow, sums);
        if (w.loaded) hand_over_wide(&w.wide, sums);
    }
    return FC_OK;
}

/* Lists the spans of T labels: start, end, type. Returns their number. */
static int64_t spans_of(const fc_span_reading *g, const int32_t *y, int64_t T, int32_t *span) {
    int64_t n = 0, open = g->first[y[0]] && g->type[y[0]] >= 0 ? 0 : -1;
    for (int64_t t = 1; t <= T; t++) {
        const int64_t pair = t < T ? (int64_t)y[t - 1] * g->L + y[t] : 0;
        if (open >= 0 && (t == T || !g->continues[pair])) {
            if (g->last[y[t - 1]]) {
                span[3 * n] = (int32_t)open;
                span[3 * n + 1] = (int32_t)t;
                span[3 * n++ + 2] = g->type[y[open]];
            }
            open = -1;
        }
        if (t < T && g->begins[pair] && g->type[y[t]] >= 0) open = t;
    }
    return n;
}

/* The states of each type, concatenated: bounds[k] .. bounds[k + 1] - 1. */
static void states_by_type(const fc_emitter *m, const fc_span_reading *g, int64_t *bounds,
                           int32_t *mine) {
    int64_t n = 0;
    for (int64_t k = 0; k < g->types; k++) {
        bounds[k] = n;
        for (int64_t j = 0; j < m->S; j++)
            if (g->type[m->label[j]] == k) mine[n++] = (int32_t)j;
    }
    bounds[g->types] = n;
}

static int reading_fits(const fc_emitter *m, const fc_rows *r, const fc_span_reading *g,
                        int64_t first, int64_t last, const int64_t *offsets, const int32_t *path) {
    if (g->L != m->L || g->types < 0 || g->types > FC_MAX_EMITTERS) return 0;
    for (int64_t k = 0; k < g->L; k++)
        if (g->type[k] < -1 || g->type[k] >= g->types) return 0;
    for (int64_t b = first; b < last; b++) {
        const int32_t *y = path + offsets[b];
        if (r->length[b] == 0 || y[0] < 0) continue;
        for (int64_t t = 0; t < r->length[b]; t++)
            if (y[t] < 0 || y[t] >= m->L) return 0;
    }
    return 1;
}

fc_status fc_emission_spans(const fc_emitter *m, const fc_rows *r, int64_t first, int64_t last,
                            const int64_t *offsets, const int32_t *path, const fc_span_reading *g,
                            int64_t *ends, int32_t *span, double *probability,
                            const fc_emission_sums *sums, double *work, int64_t *where) {
    if (!sums_fit(r, first, last, sums)) return FC_EINVAL;
    if (!reading_fits(m, r, g, first, last, offsets, path)) return FC_EINVAL;
    both w = laid_out(m, r, first, last, work);
    int64_t bounds[FC_MAX_EMITTERS + 1];
    int32_t mine[FC_MAX_EMITTERS];
    states_by_type(m, g, bounds, mine);
    if (r->narrow != NULL) {
        load_sums_narrow(&w.narrow);
        load_spans_narrow(&w.narrow, g);
    }
    int parted = 0;
    int64_t n = 0;
    for (int64_t b = first; b < last; b++) {
        const int64_t T = r->length[b];
        const int32_t *y = path + offsets[b];
        int fine = 1, how = 0;
        sums->log_z[b] = 0.0;
        sums->left[b] = 0;
        if (T > 0) how = sums_of(&w, b, sums, &fine);
        if (!fine) return fail(FC_ENUMERIC, b, where);
        if (how == 2 && !parted) load_spans_wide(&w.wide, g);
        parted |= how == 2;
        const int64_t many = T > 0 && y[0] >= 0 ? spans_of(g, y, T, span + 3 * n) : 0;
        for (const int64_t end = n + many; n < end; n++) {
            const int32_t *one = span + 3 * n, *own = mine + bounds[one[2]];
            const int64_t states = bounds[one[2] + 1] - bounds[one[2]];
            probability[n] = how == 0   ? (double)NAN
                             : how == 1 ? span_narrow(&w.narrow, g, T, one[0], one[1], states, own)
                                        : span_wide(&w.wide, g, T, one[0], one[1], states, own);
        }
        ends[b] = n;
    }
    return FC_OK;
}

/* --- Given labels ---------------------------------------------------------------------------- */

static double number_at(const fc_rows *r, int64_t at) {
    return r->narrow != NULL ? (double)r->narrow[at] : r->wide[at];
}

/* The best states with given labels: state[t], with predecessors before[t][j]. */
static double given_states(const fc_emitter *m, const fc_rows *r, int64_t b, const int32_t *tag,
                           int32_t *state, int32_t *before) {
    const int64_t S = m->S, T = r->length[b], start = r->start[b];
    double now[FC_MAX_EMITTERS], then[FC_MAX_EMITTERS];
    for (int64_t t = 0; t < T; t++) {
        const double own = number_at(r, start + t * r->stride + tag[t]);
        for (int64_t j = 0; j < S; j++) {
            now[j] = FC_NEVER;
            if (m->label[j] != tag[t]) continue;
            double best = t == 0 ? m->initial[j] : FC_NEVER;
            for (int64_t i = 0; t > 0 && i < S; i++)
                if (then[i] + m->arc[i * S + j] > best) {
                    best = then[i] + m->arc[i * S + j];
                    before[t * S + j] = (int32_t)i;
                }
            now[j] = best + own;
        }
        memcpy(then, now, (size_t)S * sizeof *then);
    }
    int64_t s = 0;
    for (int64_t j = 0; j < S; j++) {
        then[j] += m->final[j];
        if (then[j] > then[s]) s = j;
    }
    const double score = then[s];
    for (int64_t t = T - 1; t >= 0 && score > FC_NEVER; t--) {
        state[t] = (int32_t)s;
        if (t > 0) s = before[t * S + s];
    }
    return score;
}

/* The same if states are labels. */
static double given_labels(const fc_emitter *m, const fc_rows *r, int64_t b, const int32_t *tag) {
    const int64_t T = r->length[b], start = r->start[b];
    double score = m->initial[tag[0]];
    for (int64_t t = 0; t < T; t++) {
        if (t > 0) score += m->arc[tag[t - 1] * m->S + tag[t]];
        score += number_at(r, start + t * r->stride + tag[t]);
    }
    return score + m->final[tag[T - 1]];
}

static void take_off(const fc_emitter *m, int64_t b, int64_t T, const int32_t *state,
                     const fc_emission_sums *sums) {
    for (int64_t t = 0; t < T; t++) {
        const int64_t label = m->label[state[t]];
        if (sums->narrow != NULL) sums->narrow[sums->start[b] + t * sums->stride + label] -= 1.0f;
        if (sums->wide != NULL) sums->wide[sums->start[b] + t * sums->stride + label] -= 1.0;
        if (t > 0 && sums->arc != NULL) sums->arc[state[t - 1] * m->S + state[t]] -= 1.0;
    }
    if (sums->arc == NULL) return;
    sums->begin[state[0]] -= 1.0;
    sums->end[state[T - 1]] -= 1.0;
}

fc_status fc_emission_given(const fc_emitter *m, const fc_rows *r, int64_t first, int64_t last,
                            const int64_t *place, const int32_t *tag, double *score,
                            const fc_emission_sums *sums, double *work, int64_t *where) {
    if (!sums_fit(r, first, last, sums)) return FC_EINVAL;
    int identity = m->S == m->L;
    for (int64_t j = 0; j < m->S; j++) identity &= m->label[j] == j;
    int32_t *const state = (int32_t *)(void *)work;
    int32_t *const before = state + longest_between(r, first, last);
    for (int64_t b = first; b < last; b++) {
        const int64_t T = r->length[b];
        const int32_t *own = tag + place[b];
        for (int64_t t = 0; t < T; t++)
            if (own[t] < 0 || own[t] >= m->L) return fail(FC_EINVAL, b, where);
        score[b] = 0.0;
        if (T == 0) continue;
        score[b] =
            identity ? given_labels(m, r, b, own) : given_states(m, r, b, own, state, before);
        if (!(score[b] < HUGE_VAL)) return fail(FC_ENUMERIC, b, where);
        if (score[b] > FC_NEVER && !sums->left[b]) take_off(m, b, T, identity ? own : state, sums);
    }
    return FC_OK;
}
