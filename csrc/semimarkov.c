/* SPDX-License-Identifier: Apache-2.0
 *
 * Semi-Markov chains. With S the scores of segments, and labels l as lanes,
 *
 *   alpha_t[l]  segments that end before token t with l     gamma_t[l]  pasts that label l may follow
 *                                                           there
 *   beta_t[l]   segments that begin with l at token t       after_t[l]  futures that may follow l there
 *
 *   alpha_e = sum over d of  gamma_{e - d} + S[e - d, d]    gamma_t = alpha_t along the pairs
 *   beta_s  = sum over d of  S[s, d] + after_{s + d}        after_t = beta_t along the pairs
 *
 * A segment that is longer than its label's longest is a head of that length, open at its end, followed
 * by tokens that continue it. All values are logs; pairs are summed in the linear domain, as in
 * paired.c.
 *
 * In sums, w_t is subtracted from every segment that covers token t. This keeps rows small, and long
 * sentences as exact as short ones: w_t is the largest of beta_{t + 1}, log Z = total + sum w. */

#include <math.h>
#include <string.h>

#include "along.h"
#include "checks.h"
#include "semiring.h"

typedef struct {
    int64_t T, L, P, D;
    const fc_semimarkov *m;
    const double *token; /* [T][3][P] */
    double *S;           /* [T][D][P] scores of segments */
    double *heads;       /* [T][P] scores of long segments up to their label's longest */
    double *w;           /* [T] amounts subtracted at a token */
    double *C;           /* [T + 1][P] changes along the sentence of the expected `inside` scores */
    double *alpha, *gamma, *beta, *after, *open, *ahead; /* [T + 1][P] */
    double *linear;                                      /* [L][P] exp(pair - top) */
    double *around;                                      /* [L][P] the same, turned */
    double *meet;      /* [L][P] expected pairs, before weighting */
    double *row, *sum; /* [P] */
    double *opening,
        *carrying; /* [P] scores of long segments: of being long, of each token of a tail; -inf: the
                      label has no tail */
    int tails;     /* some label has a tail */
    double top;
} sentence;

/* --- Checks and room ----------------------------------------------------------------------------- */

int64_t fc_semimarkov_room(int64_t T, int64_t P, int64_t D) {
    if (T < 0 || P < 1 || D < 1 || T > INT32_MAX || P > INT32_MAX || D > INT32_MAX) return -1;
    const double room = ((double)T * (double)D + 9.0 * ((double)T + 1.0) + 3.0 * (double)P + 8.0);
    if (room * (double)P > 4e9) return -1;
    return T * D * P + 8 * (T + 1) * P + T + 3 * P * P + 8 * P;
}

static fc_status check_text(const fc_semimarkov *m, const fc_segment_text *x, int64_t room,
                            int64_t *where) {
    *where = -1;
    if (m->L < 1 || m->P != fc_padded(m->L) || m->D < 1 || x->B < 0) return FC_EINVAL;
    for (int64_t l = 0; l < m->L; l++)
        if (m->longest[l] < 1 || m->longest[l] > m->D) return FC_EINVAL;
    if (x->offset[0] != 0 || x->offset[x->B] != x->N || x->extra[0] != 0) return FC_EINVAL;
    if (fc_first_invalid(x->V, x->value) >= 0) return FC_ENUMERIC;
    for (int64_t b = 0; b < x->B; b++) {
        *where = b;
        if (x->offset[b + 1] < x->offset[b] || x->offset[b + 1] > x->N) return FC_EINVAL;
        if (x->extra[b + 1] < x->extra[b] || x->extra[b + 1] > x->extra[x->B]) return FC_EINVAL;
        const int64_t T = x->offset[b + 1] - x->offset[b];
        const int64_t needed = fc_semimarkov_room(T, m->P, m->D);
        if (needed < 0 || needed > room) return FC_EFULL;
        const int64_t first = x->offset[b] * 3 * m->P;
        if (fc_first_invalid(T * 3 * m->P, x->token + first) >= 0) return FC_ENUMERIC;
        for (int64_t k = x->extra[b]; k < x->extra[b + 1]; k++) {
            if (x->cell[k] < 0 || x->cell[k] >= T * m->D * m->P) return FC_EINVAL;
            if (x->what[k] < 0 || x->what[k] >= x->V) return FC_EINVAL;
        }
    }
    return FC_OK;
}

static void lay_out(sentence *v, double *work) {
    const int64_t row = (v->T + 1) * v->P;
    v->S = work;
    work += v->T * v->D * v->P;
    double **each[] = {&v->heads, &v->alpha, &v->gamma, &v->beta, &v->after, &v->open, &v->ahead};
    for (int k = 0; k < 7; k++, work += row) *each[k] = work;
    v->w = work;
}

/* --- Scores -------------------------------------------------------------------------------------- */

/* Scores of the segments from token s. Sums of inside scores restart at every token: a score of -inf,
 * or a very large one, affects only the segments that cover it. */
static void fill_from(sentence *v, int64_t s) {
    const int64_t P = v->P, D = v->D, T = v->T;
    const double *restrict first = v->token + 3 * s * P;
    double *restrict within = v->row, *restrict heads = v->heads + s * P;
    fc_fill(P, 0.0, within);
    fc_fill(P, FC_NEVER, heads);
    for (int64_t d = 1; d <= D; d++) {
        double *restrict S = v->S + (s * D + d - 1) * P;
        if (s + d > T) {
            fc_fill(P, FC_NEVER, S);
            continue;
        }
        const double *restrict inside = v->token + (3 * (s + d - 1) + 1) * P;
        const double *restrict last = inside + P, *restrict length = v->m->length + (d - 1) * P;
        for (int64_t l = 0; l < P; l++) within[l] += inside[l];
        for (int64_t l = 0; l < P; l++) S[l] = first[l] + within[l] + last[l] + length[l];
        for (int64_t l = 0; v->tails && l < v->L; l++)
            if (v->m->longest[l] == d) heads[l] = first[l] + within[l] + v->opening[l];
    }
}

static void fill(sentence *v, const fc_segment_text *x, int64_t b) {
    fc_fill(v->T, 0.0, v->w);
    for (int64_t s = 0; s < v->T; s++) fill_from(v, s);
    for (int64_t k = x->extra[b]; k < x->extra[b + 1]; k++)
        v->S[x->cell[k]] += x->value[x->what[k]];
}

/* Subtracts w from the segments from token s. */
static void lower(sentence *v, int64_t s) {
    const int64_t P = v->P, D = v->D;
    double by = 0.0;
    for (int64_t d = 1; d <= D && s + d <= v->T; d++) {
        double *restrict S = v->S + (s * D + d - 1) * P;
        by += v->w[s + d - 1];
        for (int64_t l = 0; l < P; l++) S[l] -= by;
        for (int64_t l = 0; v->tails && l < v->L; l++)
            if (v->m->longest[l] == d) v->heads[s * P + l] -= by;
    }
}

/* Loads sentence b and computes its scores. */
static void take(sentence *v, const fc_segment_text *x, int64_t b, double *work) {
    v->T = x->offset[b + 1] - x->offset[b];
    v->token = x->token + x->offset[b] * 3 * v->P;
    lay_out(v, work);
    fill(v, x, b);
}

/* Scores of long segments that token t continues, [P]. */
static void carried(const sentence *v, int64_t t, double *restrict y) {
    const double *restrict inside = v->token + (3 * t + 1) * v->P;
    for (int64_t l = 0; l < v->P; l++) y[l] = inside[l] + v->carrying[l] - v->w[t];
}

/* Heads that begin with token t, with their futures, or that end before it, with their pasts, [P]. */
static void heads(const sentence *v, int64_t t, int begin, double *restrict y) {
    fc_fill(v->P, FC_NEVER, y);
    for (int64_t l = 0; l < v->L; l++) {
        const int64_t s = begin ? t : t - v->m->longest[l], e = s + v->m->longest[l];
        if (s < 0 || (begin && e >= v->T)) continue;
        y[l] = v->heads[s * v->P + l] + (begin ? v->ahead[e * v->P + l] : v->gamma[s * v->P + l]);
    }
}

/* y[l] = log(exp(a[l]) + exp(b[l])) of FC_LANES numbers; without branches, so that it is vectorised */
FC_INLINE void plus(const double *a, const double *b, double *y) {
    double sum[FC_LANES];
    for (int l = 0; l < FC_LANES; l++) {
        const double top = a[l] > b[l] ? a[l] : b[l], low = a[l] > b[l] ? b[l] : a[l];
        const double base = top > -1e305 ? top : -1e305; /* exp(-inf - base) = 0 */
        sum[l] = top + fc_log(1.0 + fc_exp(low - base));
    }
    for (int l = 0; l < FC_LANES; l++) y[l] = sum[l];
}

/* --- Sums ---------------------------------------------------------------------------------------- */

/* y[l] = log of the sum over n rows of exp(a_i[l] + b_i[l]), or the best of a_i[l] + b_i[l]; a and b have
 * separate strides. */
FC_INLINE void join_rows(const int best, int64_t P, int64_t n, const double *a, int64_t step_a,
                         const double *b, int64_t step_b, double *restrict y) {
    for (int64_t j = 0; j < P; j += FC_LANES) {
        double top[FC_LANES], sum[FC_LANES];
        for (int l = 0; l < FC_LANES; l++) top[l] = best ? FC_NEVER : -1e305;
        for (int l = 0; l < FC_LANES; l++) sum[l] = 0.0;
        for (int64_t i = 0; i < n; i++) {
            const double *restrict p = a + i * step_a + j, *restrict q = b + i * step_b + j;
            for (int l = 0; l < FC_LANES; l++) top[l] = p[l] + q[l] > top[l] ? p[l] + q[l] : top[l];
        }
        if (best) {
            memcpy(y + j, top, sizeof top);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            const double *restrict p = a + i * step_a + j, *restrict q = b + i * step_b + j;
            for (int l = 0; l < FC_LANES; l++) sum[l] += fc_exp(p[l] + q[l] - top[l]);
        }
        for (int l = 0; l < FC_LANES; l++) {
            const double value = top[l] + fc_log(sum[l] != 0.0 ? sum[l] : 1.0);
            y[j + l] = sum[l] != 0.0 ? value : FC_NEVER;
        }
    }
}

/* Long segments that are open before token e, and segments that end there. */
static void open_tails(sentence *v, int64_t e) {
    const int64_t P = v->P;
    const double *restrict before = v->open + (e - 1) * P;
    const double *restrict last = v->token + (3 * (e - 1) + 2) * P;
    double *restrict open = v->open + e * P, *restrict alpha = v->alpha + e * P;
    double *restrict begin = v->row, *restrict on = v->sum;
    heads(v, e, 0, begin);
    carried(v, e - 1, on);
    for (int64_t j = 0; j < P; j += FC_LANES) {
        double end[FC_LANES];
        for (int l = 0; l < FC_LANES; l++) on[j + l] += before[j + l];
        for (int l = 0; l < FC_LANES; l++) end[l] = on[j + l] + last[j + l];
        plus(begin + j, on + j, open + j);
        plus(alpha + j, end, alpha + j);
    }
}

static void forward(sentence *v) {
    const int64_t P = v->P, D = v->D, T = v->T, L = v->L;
    fc_fill(P, FC_NEVER, v->alpha);
    fc_fill(P, FC_NEVER, v->open);
    memcpy(v->gamma, v->m->initial, (size_t)P * sizeof *v->gamma);
    for (int64_t l = L; l < P; l++) v->gamma[l] = FC_NEVER;
    for (int64_t e = 1; e <= T; e++) {
        const int64_t n = e < D ? e : D;
        double *alpha = v->alpha + e * P;
        join_rows(0, P, n, v->gamma + (e - 1) * P, -P, v->S + (e - 1) * D * P, -(D - 1) * P, alpha);
        if (v->tails) open_tails(v, e);
        fc_along(v->L, P, v->top, v->m->pair, v->linear, alpha, v->row, v->sum, v->gamma + e * P);
    }
}

FC_INLINE void larger(const double *a, const double *b, double *y) {
    for (int l = 0; l < FC_LANES; l++) y[l] = a[l] > b[l] ? a[l] : b[l];
}

/* Scores of long segments that token s continues, and of segments that begin there: their sums, or the
 * best ones. */
FC_INLINE void close_tails(sentence *v, int64_t s, const int best) {
    const int64_t P = v->P;
    const double *restrict behind = v->after + (s + 1) * P, *restrict next = v->ahead + (s + 1) * P;
    const double *restrict last = v->token + (3 * s + 2) * P;
    double *restrict ahead = v->ahead + s * P, *restrict beta = v->beta + s * P;
    carried(v, s, ahead);
    for (int64_t j = 0; j < P; j += FC_LANES) {
        double end[FC_LANES], on[FC_LANES];
        for (int l = 0; l < FC_LANES; l++) end[l] = last[j + l] + behind[j + l];
        (best ? larger : plus)(end, next + j, on);
        for (int l = 0; l < FC_LANES; l++) ahead[j + l] += on[l];
    }
    heads(v, s, 1, v->row);
    for (int64_t j = 0; j < P; j += FC_LANES)
        (best ? larger : plus)(v->row + j, beta + j, beta + j);
}

/* The futures of every token: their sums, or the best ones. */
FC_INLINE void backward(sentence *v, const int best) {
    const int64_t P = v->P, D = v->D, T = v->T, end = T * P;
    memcpy(v->after + end, v->m->final, (size_t)P * sizeof *v->after);
    for (int64_t l = v->L; l < P; l++) v->after[end + l] = FC_NEVER;
    fc_fill(P, FC_NEVER, v->beta + end);
    fc_fill(P, FC_NEVER, v->ahead + end);
    for (int64_t s = T - 1; s >= 0; s--) {
        const int64_t n = T - s < D ? T - s : D;
        double *beta = v->beta + s * P, *after = v->after + s * P;
        const double top = best ? FC_NEVER : fc_max(P, beta + P);
        if (top > FC_NEVER) v->w[s] = top;
        if (!best) lower(v, s);
        join_rows(best, P, n, after + P, P, v->S + s * D * P, P, beta);
        if (v->tails) close_tails(v, s, best);
        if (best)
            row_product(MAX_PLUS, v->L, P, beta, 1, v->m->turned, P, after);
        else
            fc_along(v->L, P, v->top, v->m->turned, v->around, beta, v->row, v->sum, after);
    }
}

/* --- Expected counts ---------------------------------------------------------------------------- */

typedef struct {
    double *token, *length, *pair; /* token: of the sentence */
} expected;

/* Posteriors of segments replace their scores in S; their sums are added to the outputs. Inside scores
 * are first stored as changes along the sentence: +p at the beginning of a segment, -p after its
 * end. */
static void expect_segments(sentence *v, const expected *g, double log_z) {
    const int64_t P = v->P, D = v->D, T = v->T;
    for (int64_t s = 0; s < T; s++) {
        const int64_t most = T - s < D ? T - s : D;
        for (int64_t j = 0; j < P; j += FC_LANES) {
            double begun[FC_LANES] = {0}, before[FC_LANES];
            for (int l = 0; l < FC_LANES; l++) before[l] = v->gamma[s * P + j + l];
            for (int64_t d = 1; d <= most; d++) {
                double *restrict S = v->S + (s * D + d - 1) * P + j;
                const double *restrict behind = v->after + (s + d) * P + j;
                double *restrict last = g->token + (3 * (s + d - 1) + 2) * P + j;
                double *restrict length = g->length + (d - 1) * P + j;
                for (int l = 0; l < FC_LANES; l++) {
                    const double p = fc_exp(before[l] + S[l] + behind[l] - log_z);
                    S[l] = p;
                    begun[l] += p;
                    last[l] += p;
                    length[l] += p;
                }
            }
            for (int l = 0; l < FC_LANES; l++) g->token[3 * s * P + j + l] += begun[l];
        }
    }
    for (int64_t t = 0; t < T; t++) {
        const double *restrict first = g->token + 3 * t * P, *restrict last = first + 2 * P;
        double *restrict begins = v->C + t * P, *restrict ends = begins + P;
        for (int64_t l = 0; l < P; l++) {
            begins[l] += first[l];
            ends[l] -= last[l];
        }
    }
}

static void expect_heads(sentence *v, const expected *g, double log_z) {
    const int64_t P = v->P, D = v->D;
    for (int64_t s = 0; s < v->T; s++) {
        double *restrict p = v->row, *restrict length = g->length + D * P;
        double *restrict first = g->token + 3 * s * P, *restrict begins = v->C + s * P;
        heads(v, s, 1, p);
        for (int64_t l = 0; l < P; l++) {
            p[l] = fc_exp(v->gamma[s * P + l] + p[l] - log_z);
            first[l] += p[l];
            length[l] += p[l];
            begins[l] += p[l];
        }
        for (int64_t l = 0; l < v->L; l++) {
            const int64_t e = s + v->m->longest[l];
            if (e < v->T) v->C[e * P + l] -= p[l];
        }
    }
}

static void expect_tails(sentence *v, const expected *g, double log_z) {
    const int64_t P = v->P;
    for (int64_t t = 0; t < v->T; t++) {
        const double *restrict open = v->open + t * P, *restrict score = v->token + (3 * t + 2) * P;
        const double *restrict ahead = v->ahead + t * P, *restrict behind = v->after + (t + 1) * P;
        double *restrict on = v->row, *restrict length = g->length + (v->D + 1) * P;
        double *restrict last = g->token + (3 * t + 2) * P;
        double *restrict begins = v->C + t * P, *restrict ends = begins + P;
        carried(v, t, on);
        for (int64_t l = 0; l < P; l++) {
            const double p = fc_exp(open[l] + ahead[l] - log_z);
            length[l] += p;
            begins[l] += p;
            ends[l] -= p;
            last[l] += fc_exp(open[l] + on[l] + score[l] + behind[l] - log_z);
        }
    }
}

static void expect_pairs(sentence *v, const expected *g, int64_t t, double log_z) {
    const int64_t P = v->P, L = v->L;
    const double *alpha = v->alpha + t * P, *beta = v->beta + t * P;
    const double a = fc_max(P, alpha), b = fc_max(P, beta), all = a + b + v->top - log_z;
    if (a == FC_NEVER || b == FC_NEVER) return;
    if (all > 460.0) {
        for (int64_t k = 0; k < L; k++)
            for (int64_t l = 0; l < L; l++)
                g->pair[k * P + l] += fc_exp(alpha[k] + v->m->pair[k * P + l] + beta[l] - log_z);
        return;
    }
    const double scale = fc_exp(all);
    for (int64_t l = 0; l < P; l++) v->row[l] = fc_exp(beta[l] - b);
    for (int64_t k = 0; k < P; k++) v->sum[k] = scale * fc_exp(alpha[k] - a);
    for (int64_t k = 0; k < L; k++) fc_axpy(P, v->sum[k], v->row, v->meet + k * P);
}

static void expect(sentence *v, const expected *g, double *initial, double *final, double log_z) {
    const int64_t P = v->P, T = v->T;
    for (int64_t t = 1; t < T; t++) expect_pairs(v, g, t, log_z);
    for (int64_t l = 0; l < v->L; l++) {
        initial[l] += fc_exp(v->m->initial[l] + v->beta[l] - log_z);
        final[l] += fc_exp(v->alpha[T * P + l] + v->m->final[l] - log_z);
    }
    v->C = v->alpha; /* which has been read */
    memset(v->C, 0, (size_t)((T + 1) * P) * sizeof *v->C);
    expect_segments(v, g, log_z);
    if (v->tails) {
        expect_heads(v, g, log_z);
        expect_tails(v, g, log_z);
    }
    for (int64_t t = 0; t < T; t++) {
        double *restrict inside = g->token + (3 * t + 1) * P;
        const double *restrict c = v->C + t * P;
        double *restrict next = v->C + (t + 1) * P;
        for (int64_t l = 0; l < P; l++) {
            inside[l] = c[l];
            next[l] += c[l];
        }
    }
}

/* Data shared by all sentences, at the end of the room. */
static void begin(sentence *v, const fc_semimarkov *m, int64_t room, double *work) {
    *v = (sentence){.L = m->L, .P = m->P, .D = m->D, .m = m};
    double *end = work + room - (3 * m->P * m->P + 4 * m->P);
    v->linear = end;
    v->around = end + m->P * m->P;
    v->meet = end + 2 * m->P * m->P;
    v->row = end + 3 * m->P * m->P;
    v->sum = v->row + m->P;
    v->opening = v->sum + m->P;
    v->carrying = v->opening + m->P;
    fc_fill(2 * m->P, FC_NEVER, v->opening);
    for (int64_t l = 0; l < m->L; l++) {
        if (m->length[m->D * m->P + l] == FC_NEVER) continue;
        v->opening[l] = m->length[m->D * m->P + l];
        v->carrying[l] = m->length[(m->D + 1) * m->P + l];
        v->tails = 1;
    }
    v->top = fc_weigh(m->L, m->P, m->pair, v->linear);
    fc_weigh(m->L, m->P, m->turned, v->around);
}

fc_status fc_semimarkov_sums(const fc_semimarkov *m, const fc_segment_text *x, double *log_z,
                             double *token, double *value, double *length, double *pair,
                             double *initial, double *final, int64_t room, double *work,
                             int64_t *where) {
    const fc_status status = check_text(m, x, room, where);
    if (status != FC_OK) return status;
    sentence v;
    begin(&v, m, room, work);
    memset(v.meet, 0, (size_t)(m->L * m->P) * sizeof *v.meet);
    memset(token, 0, (size_t)(x->N * 3 * m->P) * sizeof *token);
    for (int64_t b = 0; b < x->B; b++) {
        const int64_t first = x->offset[b];
        take(&v, x, b, work);
        backward(&v, 0);
        /* log Z without the subtracted amounts */
        const double rest = v.T == 0 ? 0.0 : fc_log_sum(m->L, m->initial, v.beta);
        log_z[b] = fc_whole(v.T, v.w, rest);
        if (v.T == 0 || log_z[b] == FC_NEVER) continue;
        if (!(fabs(log_z[b]) <= 1e300)) {
            *where = b;
            return FC_ENUMERIC;
        }
        forward(&v);
        expect(&v, &(expected){token + first * 3 * m->P, length, pair}, initial, final, rest);
        for (int64_t k = x->extra[b]; k < x->extra[b + 1]; k++)
            value[x->what[k]] += v.S[x->cell[k]];
    }
    for (int64_t k = 0; k < m->L * m->P; k++) pair[k] += v.meet[k] * v.linear[k];
    return FC_OK;
}

/* --- Best segments ------------------------------------------------------------------------------- */

/* The end of the best segment of label l from token s: the shortest one. */
static int64_t best_end(const sentence *v, int64_t s, int64_t l) {
    const int64_t P = v->P, D = v->D, T = v->T;
    for (int64_t d = 1; d <= D && s + d <= T; d++)
        if (v->S[(s * D + d - 1) * P + l] + v->after[(s + d) * P + l] == v->beta[s * P + l])
            return s + d;
    int64_t t = s + v->m->longest[l];
    while (t + 1 < T) {
        const double end = v->token[(3 * t + 2) * P + l] + v->after[(t + 1) * P + l];
        if (end >= v->ahead[(t + 1) * P + l]) break;
        t++;
    }
    return t + 1;
}

/* Labels of the best segments; returns their score. */
static double trace(const sentence *v, int32_t *label) {
    const double *link = v->m->initial;
    double score = 0.0;
    for (int64_t t = 0; t < v->T; t++) label[t] = -1;
    for (int64_t s = 0; s < v->T;) {
        int64_t found = 0;
        double best = FC_NEVER;
        for (int64_t l = 0; l < v->L; l++) {
            const double value = link[l] + v->beta[s * v->P + l];
            if (value > best || isnan(value)) { /* NaN is returned, not dropped */
                best = value;
                found = l;
            }
        }
        if (s == 0) score = best;
        if (!(best > FC_NEVER)) break;
        label[s] = (int32_t)found;
        link = v->m->pair + found * v->P;
        s = best_end(v, s, found);
    }
    return score;
}

fc_status fc_semimarkov_best(const fc_semimarkov *m, const fc_segment_text *x, double *score,
                             int32_t *label, int64_t room, double *work, int64_t *where) {
    const fc_status status = check_text(m, x, room, where);
    if (status != FC_OK) return status;
    sentence v;
    begin(&v, m, room, work);
    for (int64_t b = 0; b < x->B; b++) {
        take(&v, x, b, work);
        backward(&v, 1);
        score[b] = trace(&v, label + x->offset[b]);
    }
    return FC_OK;
}
