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
#define WINDOW 64 /* sentences that are sorted by length */

#if defined(__AVX512F__)
#define BYTES 64
#define GROUP_IN_LANES 8 /* rows of lanes that the registers hold */
#define MOST_IN_LANES 48 /* states for which lanes pay */
#elif defined(__AVX__)
#define BYTES 32
#define GROUP_IN_LANES 4
#define MOST_IN_LANES 32
#else
#define BYTES 16
#define GROUP_IN_LANES 4
#define MOST_IN_LANES 32
#endif
#define W (BYTES / (int)sizeof(REAL))
#define IN_LAYOUT(name, n, ...) \
    ((n) > 1 ? NAMED(name)(1, __VA_ARGS__) : NAMED(name)(0, __VA_ARGS__))
#define UNIT (W < 4 ? 4 : W)
#define MOST_LANES (BYTES / (int)sizeof(float))

/* The spans whose probabilities are wanted. */
typedef struct {
    const fc_span_reading *reading;
    const int64_t *ends; /* [B] running total, from sentence `first` on */
    int64_t first;
    const int32_t *span;   /* [spans][3] */
    double *probability;   /* [spans] */
    const int64_t *bounds; /* the states of type k: mine[bounds[k]] .. mine[bounds[k + 1] - 1] */
    const int32_t *mine;
} span_job;

typedef struct {
    double value; /* score or log Z */
    int exact;    /* the precision suffices, and there is a path */
    int fine;     /* the scores are numbers */
} outcome;

static inline double number_at(const fc_rows *r, int64_t at) {
    return r->narrow != NULL ? (double)r->narrow[at] : r->wide[at];
}

static inline void set_number(const fc_emission_sums *sums, int64_t at, double x) {
    if (sums->narrow != NULL) sums->narrow[at] = (float)x;
    if (sums->wide != NULL) sums->wide[at] = x;
}

static inline void add_number(const fc_emission_sums *sums, int64_t at, double x) {
    if (sums->narrow != NULL) sums->narrow[at] += (float)x;
    if (sums->wide != NULL) sums->wide[at] += x;
}

/* out[k][l] = in[l][k], of 4 rows of 4 numbers. */
FC_INLINE void transpose_narrow(float *const *in, float *const *out) {
#if defined(__SSE__)
    __m128 row[4];
    for (int k = 0; k < 4; k++) row[k] = _mm_loadu_ps(in[k]);
    _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
    for (int k = 0; k < 4; k++) _mm_storeu_ps(out[k], row[k]);
#else
    for (int k = 0; k < 4; k++)
        for (int l = 0; l < 4; l++) out[k][l] = in[l][k];
#endif
}

FC_INLINE void transpose_wide(double *const *in, double *const *out) {
    for (int k = 0; k < 4; k++)
        for (int l = 0; l < 4; l++) out[k][l] = in[l][k];
}

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

int64_t fc_emission_work(const fc_emitter *m, const fc_rows *r, int64_t first, int64_t last) {
    const int64_t longest = longest_between(r, first, last), n = last - first;
    return work_narrow(m, longest, r->narrow != NULL ? n : 0) +
           work_wide(m, longest, r->narrow != NULL ? 1 : n) + FC_LANES;
}

typedef struct {
    emitter_narrow narrow;
    emitter_wide wide;
} both;

static both laid_out(const fc_emitter *m, const fc_rows *r, int64_t first, int64_t last,
                     double *work) {
    const int64_t own = work_narrow(m, longest_between(r, first, last), last - first);
    return (both){laid_out_narrow(m, r, work),
                  laid_out_wide(m, r, work + (r->narrow != NULL ? own : 0))};
}

/* Sentences in groups of similar lengths. */
typedef struct {
    int64_t next, last, size, at;
    int64_t order[WINDOW];
} groups;

/* Sets the numbers of the next sentences to be processed together, and returns how many; 0 at the end. */
static int next_group(const fc_emitter *m, const fc_rows *r, int alone, groups *g, int64_t *group) {
    if (g->at == g->size) { /* the next window, longest first */
        for (g->size = g->at = 0; g->next < g->last && g->size < WINDOW; g->next++) {
            if (r->length[g->next] == 0) continue;
            int64_t k = g->size++;
            for (; k > 0 && r->length[g->order[k - 1]] < r->length[g->next]; k--)
                g->order[k] = g->order[k - 1];
            g->order[k] = g->next;
        }
    }
    const int64_t *own = g->order + g->at, left = g->size - g->at;
    const int lanes = r->narrow != NULL ? sentences_narrow : sentences_wide;
    int64_t tokens = 0, n = left < lanes ? left : lanes;
    for (int64_t k = 0; k < n; k++) tokens += r->length[own[k]];
    /* Lanes without a token cost as much as the others. */
    if (n > 1 && (alone || m->S > MOST_IN_LANES || r->length[own[0]] > BLOCK ||
                  2 * tokens < lanes * r->length[own[0]]))
        n = 1;
    for (int64_t k = 0; k < n; k++) group[k] = own[k];
    g->at += n;
    return (int)n;
}

fc_status fc_emission_best(const fc_emitter *m, const fc_rows *r, int64_t first, int64_t last,
                           const int64_t *offsets, int32_t *path, double *score, double *work,
                           int64_t *where) {
    if (!within(r, first, last)) return FC_EINVAL;
    both w = laid_out(m, r, first, last, work);
    const int narrow = r->narrow != NULL;
    groups g = {.next = first, .last = last};
    int64_t group[MOST_LANES], wrong = last;
    outcome found[MOST_LANES];
    for (int64_t b = first; b < last; b++) score[b] = 0.0;
    for (int n; wrong == last && (n = next_group(m, r, 0, &g, group)) > 0;) {
        if (narrow)
            best_narrow(&w.narrow, n, group, offsets, path, found);
        else
            best_wide(&w.wide, n, group, offsets, path, found);
        for (int k = 0; k < n; k++) {
            const int64_t b = group[k];
            if (narrow && found[k].fine && !found[k].exact)
                best_wide(&w.wide, 1, &b, offsets, path, found + k);
            score[b] = found[k].exact ? found[k].value : FC_NEVER;
            for (int64_t t = 0; t < r->length[b] && !found[k].exact; t++) path[offsets[b] + t] = -1;
            if (!found[k].fine && b < wrong) wrong = b;
        }
    }
    return wrong < last ? fail(FC_ENUMERIC, wrong, where) : FC_OK;
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

static void leave_out(const fc_rows *r, int64_t b, const fc_emission_sums *sums,
                      const span_job *job) {
    sums->left[b] = 1;
    sums->log_z[b] = NAN;
    clear_rows(r, b, sums);
    if (job == NULL) return;
    for (int64_t n = b > job->first ? job->ends[b - 1] : 0; n < job->ends[b]; n++)
        job->probability[n] = NAN;
}

static fc_status sums_of(const fc_emitter *m, const fc_rows *r, int64_t first, int64_t last,
                         const fc_emission_sums *sums, const span_job *job, double *work,
                         int64_t *where) {
    both w = laid_out(m, r, first, last, work);
    const int narrow = r->narrow != NULL;
    groups g = {.next = first, .last = last};
    int64_t group[MOST_LANES], wrong = last;
    outcome found[MOST_LANES];
    for (int64_t b = first; b < last; b++) sums->log_z[b] = sums->left[b] = 0;
    for (int n; wrong == last && (n = next_group(m, r, job != NULL, &g, group)) > 0;) {
        if (narrow)
            sums_narrow(&w.narrow, n, group, sums, job, found);
        else
            sums_wide(&w.wide, n, group, sums, job, found);
        for (int k = 0; k < n; k++) {
            if (narrow && found[k].fine && !found[k].exact)
                sums_wide(&w.wide, 1, group + k, sums, job, found + k);
            if (!found[k].exact) leave_out(r, group[k], sums, job);
            if (!found[k].fine && group[k] < wrong) wrong = group[k];
        }
    }
    if (wrong < last) return fail(FC_ENUMERIC, wrong, where);
    if (sums->arc != NULL) {
        hand_over_narrow(&w.narrow, sums);
        hand_over_wide(&w.wide, sums);
    }
    return FC_OK;
}

fc_status fc_emission_total(const fc_emitter *m, const fc_rows *r, int64_t first, int64_t last,
                            const fc_emission_sums *sums, double *work, int64_t *where) {
    if (!sums_fit(r, first, last, sums)) return FC_EINVAL;
    return sums_of(m, r, first, last, sums, NULL, work, where);
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
    int64_t bounds[FC_MAX_EMITTERS + 1], n = 0;
    int32_t mine[FC_MAX_EMITTERS];
    states_by_type(m, g, bounds, mine);
    for (int64_t b = first; b < last; b++) {
        const int32_t *y = path + offsets[b];
        if (r->length[b] > 0 && y[0] >= 0) n += spans_of(g, y, r->length[b], span + 3 * n);
        ends[b] = n;
    }
    const span_job job = {g, ends, first, span, probability, bounds, mine};
    return sums_of(m, r, first, last, sums, &job, work, where);
}

/* --- Given labels ---------------------------------------------------------------------------- */

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
        add_number(sums, sums->start[b] + t * sums->stride + label, -1.0);
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
