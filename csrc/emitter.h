/* SPDX-License-Identifier: Apache-2.0
 *
 * The recursions of emissions.c in float32 or float64. emissions.c includes it once for each, with
 * REAL, W (numbers of a register), NAMED(x) and other macros. Rows of states are padded to Q, a
 * multiple of W. */

typedef REAL NAMED(vec)
    __attribute__((vector_size(W * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
typedef INTEGER NAMED(mask)
    __attribute__((vector_size(W * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
#define VEC NAMED(vec)
#define MASK NAMED(mask)

/* --- Registers ------------------------------------------------------------------------------- */

FC_INLINE VEC NAMED(larger)(VEC a, VEC b) {
#if defined(__AVX512F__)
    return (VEC)MM512(max)((M512)a, (M512)b);
#elif defined(__AVX__)
    return (VEC)MM256(max)((M256)a, (M256)b);
#else
    const MASK larger = a > b;
    return (VEC)(((MASK)a & larger) | ((MASK)b & ~larger));
#endif
}

FC_INLINE REAL NAMED(top_lane)(VEC x) {
#if defined(__AVX512F__)
    return MM512(reduce_max)((M512)x);
#else
    REAL top = x[0];
    for (int l = 1; l < W; l++) top = x[l] > top ? x[l] : top;
    return top;
#endif
}

FC_INLINE REAL NAMED(lane_sum)(VEC x) {
#if defined(__AVX512F__)
    return MM512(reduce_add)((M512)x);
#else
    REAL lane[W];
    memcpy(lane, &x, sizeof lane);
    for (int h = W / 2; h > 0; h /= 2)
        for (int l = 0; l < h; l++) lane[l] += lane[l + h];
    return lane[0];
#endif
}

/* One bit for each number that equals x. */
FC_INLINE uint64_t NAMED(equal)(VEC a, REAL x) {
#if defined(__AVX512F__)
    return MM512MASK((M512)a, (M512)((VEC){0} + x), _CMP_EQ_OQ);
#elif defined(__AVX__)
    return (uint64_t)MM256(movemask)(MM256(cmp)((M256)a, (M256)((VEC){0} + x), _CMP_EQ_OQ));
#else
    uint64_t bits = 0;
    for (int l = 0; l < W; l++) bits |= (uint64_t)(a[l] == x) << l;
    return bits;
#endif
}

FC_INLINE int NAMED(any)(MASK some) {
    INTEGER any = some[0];
    for (int l = 1; l < W; l++) any |= some[l];
    return any != 0;
}

FC_INLINE int NAMED(all)(MASK some) { return !NAMED(any)(~some); }

typedef struct {
    const fc_emitter *m;
    const fc_rows *rows;
    int64_t S, Q;
    int identity;  /* states are labels */
    REAL *into;    /* [S][Q] scores of the arcs into each state, by source */
    REAL *from;    /* [S][Q] the scores of arcs from each state */
    REAL *initial; /* [Q] */
    REAL *final;   /* [Q] */
    REAL *row;     /* [Q] scratch */
    REAL *a;       /* [longest][Q] */
    /* For sums: exponentials, of arcs, ends and rows less their largest. */
    double shift; /* of arcs and ends of a sentence, T - 1 times and once */
    double ends;
    REAL *open;             /* [S][Q] 1 if the arc exists, from each state */
    REAL *opening;          /* [S][Q] arcs into each state that begin a span */
    REAL *closing;          /* [S][Q] arcs from each state that do not continue a span */
    REAL *reach, *next;     /* [Q] 1 if a state can be reached */
    REAL *b, *other, *most; /* [Q] */
    REAL *begun, *ended;    /* [Q] posteriors of first and last states */
    REAL *ending;           /* [Q] b of the last token */
    REAL *e;                /* [longest][Q] of rows */
    REAL *n;                /* [longest][Q] */
    REAL *scale;            /* [longest] */
    double *total;          /* [Q4][Q] sums of outer products */
    double *first, *last;   /* [Q] */
    int used;
} NAMED(emitter);

enum { NAMED(rows_of_states) = 11 };

static int64_t NAMED(work)(const fc_emitter *m, int64_t longest) {
    const int64_t Q = (m->S + W - 1) / W * W, Q4 = (m->S + 3) / 4 * 4;
    const int64_t reals = 5 * Q4 * Q + NAMED(rows_of_states) * Q + (longest + 1) * (3 * Q + 1) + 64;
    return (reals * (int64_t)sizeof(REAL) + 7) / 8 + Q4 * Q + 2 * Q + 8;
}

/* --- Rows as they come in -------------------------------------------------------------------- */

/* x = the scores of states at a token, `rest` in the padding. Returns 0 if a score is not a number. */
FC_INLINE MASK NAMED(read)(const NAMED(emitter) * w, int64_t place, REAL rest, REAL *x) {
    const REAL *source = SOURCE_OF(w->rows);
    const int64_t S = w->S, Q = w->Q;
    if (source == NULL || !w->identity) {
        for (int64_t j = 0; j < S; j++) {
            const int64_t at = place + w->m->label[j];
            x[j] = source != NULL ? (REAL)source[at] : (REAL)OTHER_OF(w->rows)[at];
        }
        for (int64_t j = S; j < Q; j++) x[j] = rest;
    } else if (place + Q <= w->rows->size) { /* the memory after the row is readable as well */
        const int64_t whole = S / W * W;
        for (int64_t j = 0; j < whole; j += W) *(VEC *)(x + j) = *(const VEC *)(source + place + j);
        if (whole < S) {
            MASK keep = {0};
            for (int l = 0; l < W; l++) keep[l] = whole + l < S ? -1 : 0;
            const VEC some = *(const VEC *)(source + place + whole);
            *(VEC *)(x + whole) = (VEC)(((MASK)some & keep) | ((MASK)((VEC){0} + rest) & ~keep));
        }
    } else {
        memcpy(x, source + place, (size_t)S * sizeof(REAL));
        for (int64_t j = S; j < Q; j++) x[j] = rest;
    }
    MASK fine = *(const VEC *)x < (VEC){0} + LARGEST;
    for (int64_t j = W; j < Q; j += W) fine &= *(const VEC *)(x + j) < (VEC){0} + LARGEST;
    return fine;
}

FC_INLINE REAL NAMED(top)(int64_t Q, const REAL *x) {
    VEC best = *(const VEC *)x;
    for (int64_t j = W; j < Q; j += W) best = NAMED(larger)(best, *(const VEC *)(x + j));
    return NAMED(top_lane)(best);
}

FC_INLINE REAL NAMED(sum)(int64_t Q, const REAL *x) {
    VEC total = *(const VEC *)x;
    for (int64_t j = W; j < Q; j += W) total += *(const VEC *)(x + j);
    return NAMED(lane_sum)(total);
}

/* --- Best labels ----------------------------------------------------------------------------- */

/* y[i] = max_j x[j] + M[j][i] over V vectors: two independent chains hide latency. */
FC_INLINE void NAMED(best_group)(const int V, int64_t S, int64_t Q, const REAL *M, const REAL *x,
                                 REAL *y) {
    VEC even[GROUP], odd[GROUP];
    for (int v = 0; v < V; v++) even[v] = odd[v] = (VEC){0} + (REAL)FC_NEVER;
    int64_t j = 0;
    for (; j + 2 <= S; j += 2, M += 2 * Q) {
        const VEC *one = (const VEC *)M, *two = (const VEC *)(M + Q);
        for (int v = 0; v < V; v++) even[v] = NAMED(larger)(even[v], x[j] + one[v]);
        for (int v = 0; v < V; v++) odd[v] = NAMED(larger)(odd[v], x[j + 1] + two[v]);
    }
    if (j < S)
        for (int v = 0; v < V; v++) even[v] = NAMED(larger)(even[v], x[j] + ((const VEC *)M)[v]);
    for (int v = 0; v < V; v++) ((VEC *)y)[v] = NAMED(larger)(even[v], odd[v]);
}

FC_INLINE void NAMED(best_product)(int64_t S, int64_t Q, const REAL *M, const REAL *x, REAL *y) {
#define BODY(V) NAMED(best_group)(V, S, Q, M + at * W, x, y + at * W)
    IN_GROUPS(Q / W, at, BODY);
#undef BODY
}

/* The smallest j with the largest x[j] + y[j]; `best` is that sum. */
FC_INLINE int64_t NAMED(largest)(int64_t Q, const REAL *x, const REAL *y, REAL *best) {
    VEC top = *(const VEC *)x + *(const VEC *)y;
    for (int64_t j = W; j < Q; j += W)
        top = NAMED(larger)(top, *(const VEC *)(x + j) + *(const VEC *)(y + j));
    *best = NAMED(top_lane)(top);
    for (int64_t j = 0; j < Q; j += W) {
        const uint64_t equal = NAMED(equal)(*(const VEC *)(x + j) + *(const VEC *)(y + j), *best);
        if (equal != 0) return j + __builtin_ctzll(equal);
    }
    return 0;
}

static void NAMED(load_scores)(NAMED(emitter) * w) {
    const int64_t S = w->S, Q = w->Q;
    for (int64_t k = 0; k < S * Q; k++) w->into[k] = w->from[k] = (REAL)FC_NEVER;
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < S; j++) {
            const REAL score = (REAL)w->m->arc[i * S + j];
            w->from[i * Q + j] = score;
            w->into[j * Q + i] = score;
        }
    for (int64_t j = 0; j < Q; j++) {
        w->initial[j] = j < S ? (REAL)w->m->initial[j] : (REAL)FC_NEVER;
        w->final[j] = j < S ? (REAL)w->m->final[j] : (REAL)FC_NEVER;
    }
}

/* a_t[i] = row_t[i] + score of the best continuation, minus the largest a_{t+1}. Backward, so that the
 * forward walk meets the earliest tie first. Rows of the tokens first .. end - 1; `after` is the row of
 * `end`, NULL at the sentence's end. Returns 0 if a score is not a number. */
static int NAMED(best_rows)(NAMED(emitter) * w, int64_t start, int64_t first, int64_t end,
                            const REAL *after) {
    const int64_t S = w->S, Q = w->Q, stride = w->rows->stride;
    MASK fine = (MASK){0} - 1;
    for (int64_t t = end - 1; t >= first; t--) {
        REAL *a = w->a + (t - first) * Q;
        fine &= NAMED(read)(w, start + t * stride, 0, w->row);
        if (after == NULL) {
            for (int64_t j = 0; j < Q; j += W)
                *(VEC *)(a + j) = *(const VEC *)(w->row + j) + *(const VEC *)(w->final + j);
        } else {
            NAMED(best_product)(S, Q, w->into, after, a);
            const REAL top = NAMED(top)(Q, after), less = top > (REAL)FC_NEVER ? top : 0;
            for (int64_t j = 0; j < Q; j += W) *(VEC *)(a + j) += *(const VEC *)(w->row + j) - less;
        }
        after = a;
    }
    return NAMED(all)(fine);
}

typedef struct {
    int64_t state; /* of the last token, -1 before the first */
    double score;
    int exact; /* 1: no rounding error affects the result */
} NAMED(trace);

static void NAMED(best_path)(const NAMED(emitter) * w, int64_t start, int64_t first, int64_t end,
                             int32_t *path, NAMED(trace) * f) {
    const fc_emitter *m = w->m;
    const int64_t S = w->S, Q = w->Q, stride = w->rows->stride;
    REAL best;
    for (int64_t t = first; t < end; t++) {
        const REAL *a = w->a + (t - first) * Q;
        const int64_t last = f->state;
        const int64_t s = NAMED(largest)(Q, a, last < 0 ? w->initial : w->from + last * Q, &best);
        f->score += last < 0 ? m->initial[s] : m->arc[last * S + s];
        f->exact &= a[s] > -COARSE && a[s] < COARSE;
        const int64_t at = start + t * stride + m->label[s];
        f->score += w->rows->narrow != NULL ? (double)w->rows->narrow[at] : w->rows->wide[at];
        path[t] = m->label[s];
        f->state = s;
    }
}

/* One sentence. Returns 0 if float32 does not suffice, or no path exists. For a long sentence, only the
 * first row of each block is kept, and blocks are recomputed on the forward walk: rows remain in
 * cache. */
static int NAMED(best)(NAMED(emitter) * w, int64_t b, int32_t *path, double *score, int *fine) {
    const int64_t start = w->rows->start[b], T = w->rows->length[b], Q = w->Q;
    const int64_t blocks = (T + BLOCK - 1) / BLOCK;
    NAMED(trace) f = {.state = -1, .score = 0.0, .exact = 1};
    *fine = 1;
    for (int64_t k = blocks - 1; k > 0; k--) {
        const int64_t end = k + 1 < blocks ? (k + 1) * BLOCK : T;
        const REAL *after = k + 1 < blocks ? w->e + (k + 1) * Q : NULL;
        *fine &= NAMED(best_rows)(w, start, k * BLOCK, end, after);
        memcpy(w->e + k * Q, w->a, (size_t)Q * sizeof *w->e);
    }
    for (int64_t k = 0; k < blocks; k++) {
        const int64_t end = k + 1 < blocks ? (k + 1) * BLOCK : T;
        const REAL *after = k + 1 < blocks ? w->e + (k + 1) * Q : NULL;
        *fine &= NAMED(best_rows)(w, start, k * BLOCK, end, after);
        if (!*fine) return 0;
        NAMED(best_path)(w, start, k * BLOCK, end, path, &f);
    }
    *score = f.score + w->m->final[f.state];
    if (*score > FC_NEVER) return f.exact;
    *score = FC_NEVER;
    for (int64_t t = 0; t < T; t++) path[t] = -1;
    return 0;
}

/* --- Sums ------------------------------------------------------------------------------------
 *
 * Rabiner's scaling, as in sweep.h, one token late: e_t exponentials of the row minus its largest,
 *
 *   a_t = c_t (A' a_{t-1}) * e_t        c_t = 1 / sum_j a_{t-1}(j)
 *   n_t = c_t  e_t * b_t                b_{t-1} = A n_t
 *   P(s_t = j) = a_t(j) b_t(j)          P(s_{t-1} = i, s_t = j) = a_{t-1}(i) A(i, j) n_t(j)
 *
 * Terms that underflow in A, in e_t and in the forward pass are less than LEAST, their share of Z less
 * than LEAST c_t b_t(j). So no b_t(j) of a reachable state may exceed MOST, and no c_t 1 / FAINT;
 * otherwise the sentence is done in float64, or left to the caller. The a_t(j) of reachable states is
 * at least LEAST, which distinguishes them from unreachable ones. */

/* y = sum_i x[i] M[i] over V vectors. */
FC_INLINE void NAMED(sum_group)(const int V, int64_t S, int64_t Q, const REAL *M, const REAL *x,
                                REAL *y) {
    VEC even[GROUP], odd[GROUP];
    for (int v = 0; v < V; v++) even[v] = odd[v] = (VEC){0};
    int64_t i = 0;
    for (; i + 2 <= S; i += 2, M += 2 * Q) {
        const VEC *one = (const VEC *)M, *two = (const VEC *)(M + Q);
        for (int v = 0; v < V; v++) even[v] += x[i] * one[v];
        for (int v = 0; v < V; v++) odd[v] += x[i + 1] * two[v];
    }
    if (i < S)
        for (int v = 0; v < V; v++) even[v] += x[i] * ((const VEC *)M)[v];
    for (int v = 0; v < V; v++) ((VEC *)y)[v] = even[v] + odd[v];
}

FC_INLINE void NAMED(sum_product)(int64_t S, int64_t Q, const REAL *M, const REAL *x, REAL *y) {
#define BODY(V) NAMED(sum_group)(V, S, Q, M + at * W, x, y + at * W)
    IN_GROUPS(Q / W, at, BODY);
#undef BODY
}

FC_INLINE REAL NAMED(dot)(int64_t Q, const REAL *x, const REAL *y) {
    VEC total = *(const VEC *)x * *(const VEC *)y;
    for (int64_t j = W; j < Q; j += W) total += *(const VEC *)(x + j) * *(const VEC *)(y + j);
    return NAMED(lane_sum)(total);
}

static void NAMED(load_sums)(NAMED(emitter) * w) {
    const fc_emitter *m = w->m;
    const int64_t S = w->S, Q = w->Q;
    const double begin = finite_or_zero(fc_largest(S, m->initial)),
                 end = finite_or_zero(fc_largest(S, m->final));
    w->shift = finite_or_zero(fc_largest(S * S, m->arc));
    w->ends = begin + end;
    for (int64_t k = 0; k < S * Q; k++) w->into[k] = w->from[k] = w->open[k] = 0;
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < S; j++) {
            const double score = m->arc[i * S + j];
            const REAL share = (REAL)fc_exp(score - w->shift);
            w->from[i * Q + j] = share;
            w->into[j * Q + i] = share;
            w->open[i * Q + j] = score > FC_NEVER;
        }
    for (int64_t j = 0; j < Q; j++) {
        w->initial[j] = j < S ? (REAL)fc_exp(m->initial[j] - begin) : 0;
        w->final[j] = j < S ? (REAL)fc_exp(m->final[j] - end) : 0;
        w->first[j] = w->last[j] = 0.0;
    }
    for (int64_t k = 0; k < (S + 3) / 4 * 4 * Q; k++) w->total[k] = 0.0;
    w->used = 1;
}

/* States that can be reached at token t, whose row is w->row. Returns 1 if they will remain the same
 * until a row forbids a label. */
FC_APART int NAMED(reached)(NAMED(emitter) * w, int64_t t, int never) {
    const int64_t S = w->S, Q = w->Q;
    int same = t > 0 && !never;
    if (t > 0) NAMED(sum_product)(S, Q, w->open, w->reach, w->next);
    for (int64_t j = 0; j < Q; j++) {
        const int from = t > 0 ? w->next[j] > 0 : j < S && w->m->initial[j] > FC_NEVER;
        const REAL now = from && w->row[j] > (REAL)FC_NEVER ? 1 : 0;
        same &= now == w->reach[j];
        w->next[j] = now;
    }
    for (int64_t j = 0; j < Q; j++) w->reach[j] = w->next[j];
    return same;
}

/* Forward rows; 0 if they cannot be represented. `fine`: the scores are numbers. */
static int NAMED(forward)(NAMED(emitter) * w, int64_t start, int64_t T, double *log_z, int *fine) {
    const int64_t S = w->S, Q = w->Q, stride = w->rows->stride;
    fc_total total = {0};
    double product_of_sums = 1.0;
    REAL sum = 1;
    int settled = 0;
    MASK numbers = (MASK){0} - 1;
    for (int64_t t = 0; t < T; t++) {
        REAL *restrict a = w->a + t * Q, *restrict e = w->e + t * Q;
        numbers &= NAMED(read)(w, start + t * stride, -(REAL)1e30, w->row);
        MASK never = *(const VEC *)w->row == (VEC){0} + (REAL)FC_NEVER;
        for (int64_t j = W; j < Q; j += W)
            never |= *(const VEC *)(w->row + j) == (VEC){0} + (REAL)FC_NEVER;
        const REAL top = NAMED(top)(Q, w->row);
        if (!(top > -(REAL)1e29 && top < (REAL)1e29)) break;
        for (int64_t j = 0; j < Q; j++) e[j] = EXP(w->row[j] - top);
        const int forbids = NAMED(any)(never);
        if (!settled || forbids) settled = NAMED(reached)(w, t, forbids);
        /* Scaled by the previous sum, so that no operation waits for the sum of this token. */
        const REAL c = t > 0 ? 1 / sum : 1;
        if (t == 0)
            memcpy(a, w->initial, (size_t)Q * sizeof *a);
        else
            NAMED(sum_product)(S, Q, w->from, a - Q, a);
        for (int64_t j = 0; j < Q; j += W)
            *(VEC *)(a + j) = NAMED(larger)(*(const VEC *)(a + j) * (*(const VEC *)(e + j) * c),
                                            *(const VEC *)(w->reach + j) * LEAST);
        sum = NAMED(sum)(Q, a);
        if (!(sum > FAINT)) break;
        w->scale[t] = c;
        fc_add(&total, (double)top);
        if (t < T - 1) product_of_sums *= (double)sum;
        if (product_of_sums < 1e-100 || product_of_sums > 1e100) {
            fc_add(&total, log(product_of_sums));
            product_of_sums = 1.0;
        }
        if (t < T - 1) continue;
        *fine = NAMED(all)(numbers);
        const REAL last = NAMED(dot)(Q, a, w->final);
        fc_add(&total, log(product_of_sums) + log((double)last) + w->ends);
        fc_add(&total, (double)(T - 1) * w->shift);
        *log_z = fc_value(total);
        for (int64_t j = 0; j < Q; j++) w->b[j] = w->ending[j] = w->final[j] / last;
        return last > FAINT;
    }
    *fine = 1;
    for (int64_t t = 0; t < T; t++)
        *fine &= NAMED(all)(NAMED(read)(w, start + t * stride, -(REAL)1e30, w->row));
    return 0;
}

/* The probabilities of labels at a token, in the caller's rows. */
FC_INLINE void NAMED(write)(const NAMED(emitter) * w, const fc_emission_sums *sums, int64_t place,
                            const REAL *p, REAL norm) {
    const int64_t S = w->S, L = w->m->L;
    const int32_t *label = w->m->label;
    const int identity = w->identity;
#define WRITE(real, to)                                                       \
    real *restrict out = (to) + place;                                        \
    for (int64_t j = 0; j < S && identity; j++) out[j] = (real)(p[j] * norm); \
    for (int64_t k = 0; k < L && !identity; k++) out[k] = 0;                  \
    for (int64_t j = 0; j < S && !identity; j++) out[label[j]] += (real)(p[j] * norm)
    if (sums->narrow != NULL) {
        WRITE(float, sums->narrow);
    } else if (sums->wide != NULL) {
        WRITE(double, sums->wide);
    }
#undef WRITE
}

/* Backward rows and posteriors; 0 if they cannot be represented. */
static int NAMED(backward)(NAMED(emitter) * w, int64_t T, const fc_emission_sums *sums,
                           int64_t place) {
    const int64_t S = w->S, Q = w->Q;
    const int posteriors = sums->narrow != NULL || sums->wide != NULL;
    REAL *b = w->b, *other = w->other, *most = w->most;
    for (int64_t j = 0; j < Q; j++) most[j] = b[j];
    for (int64_t t = T - 1;; t--) {
        const REAL *restrict a = w->a + t * Q, *restrict e = w->e + t * Q;
        REAL *restrict n = w->n + t * Q;
        if (t % FC_EVEN == 0) { /* as in sweep.h */
            const REAL by = 1 / NAMED(dot)(Q, a, b);
            for (int64_t j = 0; j < Q; j++) b[j] *= by;
        }
        if (posteriors || t == T - 1 || t == 0) {
            REAL *restrict p = t == T - 1 ? w->ended : w->begun;
            for (int64_t j = 0; j < Q; j++) p[j] = a[j] * b[j];
            if (t == 0 && T == 1) memcpy(w->begun, p, (size_t)Q * sizeof *p);
            if (posteriors)
                NAMED(write)(w, sums, place + t * sums->stride, p, 1 / NAMED(sum)(Q, p));
        }
        if (t == 0) break;
        const REAL c = w->scale[t];
        for (int64_t j = 0; j < Q; j++) n[j] = c * e[j] * b[j];
        NAMED(sum_product)(S, Q, w->into, n, other);
        const REAL *restrict before = a - Q;
        for (int64_t j = 0; j < Q; j++) other[j] = before[j] > 0 ? other[j] : 0;
        for (int64_t j = 0; j < Q; j++) most[j] = other[j] > most[j] ? other[j] : most[j];
        REAL *const swap = b;
        b = other;
        other = swap;
    }
    int held = 1;
    for (int64_t j = 0; j < S; j++) held &= most[j] < MOST;
    return held;
}

/* total[i] += sum_t a[t][i] n[t] for 4 rows i and V vectors, summed in registers. */
FC_INLINE void NAMED(outer_group)(const int V, int64_t T, int64_t Q, const REAL *a, const REAL *n,
                                  double *restrict total) {
    VEC acc[4][2];
    for (int k = 0; k < 4; k++)
        for (int v = 0; v < V; v++) acc[k][v] = (VEC){0};
    for (int64_t t = 0; t < T; t++, a += Q, n += Q)
        for (int k = 0; k < 4; k++)
            for (int v = 0; v < V; v++) acc[k][v] += a[k] * ((const VEC *)n)[v];
    for (int k = 0; k < 4; k++)
        for (int v = 0; v < V; v++)
            for (int l = 0; l < W; l++) total[k * Q + v * W + l] += (double)acc[k][v][l];
}

#define RUN 32 /* tokens whose posteriors are added in REAL; see wide.h */

static void NAMED(count)(NAMED(emitter) * w, int64_t T) {
    const int64_t Q = w->Q;
    for (int64_t first = 0; first < T - 1; first += RUN) {
        const int64_t many = T - 1 - first < RUN ? T - 1 - first : RUN;
        const REAL *a = w->a + first * Q, *n = w->n + (first + 1) * Q;
        for (int64_t i = 0; i < w->S; i += 4) {
            int64_t at = 0;
            for (; at + 2 * W <= Q; at += 2 * W)
                NAMED(outer_group)(2, many, Q, a + i, n + at, w->total + i * Q + at);
            if (at < Q) NAMED(outer_group)(1, many, Q, a + i, n + at, w->total + i * Q + at);
        }
    }
    for (int64_t j = 0; j < w->S; j++) {
        w->first[j] += (double)w->begun[j];
        w->last[j] += (double)w->ended[j];
    }
}

static void NAMED(hand_over)(const NAMED(emitter) * w, const fc_emission_sums *sums) {
    if (!w->used) return;
    const int64_t S = w->S, Q = w->Q;
    for (int64_t i = 0; i < S && sums->arc != NULL; i++)
        for (int64_t j = 0; j < S; j++)
            sums->arc[i * S + j] += w->total[i * Q + j] * (double)w->from[i * Q + j];
    for (int64_t j = 0; j < S && sums->begin != NULL; j++) {
        sums->begin[j] += w->first[j];
        sums->end[j] += w->last[j];
    }
}

/* One sentence, forward and backward; the backward pass checks that no significant term has
   underflowed. */
static int NAMED(sums)(NAMED(emitter) * w, int64_t b, const fc_emission_sums *sums, int *fine) {
    const int64_t T = w->rows->length[b], place = sums->start != NULL ? sums->start[b] : 0;
    if (!NAMED(forward)(w, w->rows->start[b], T, sums->log_z + b, fine)) return 0;
    if (!NAMED(backward)(w, T, sums, place)) return 0;
    if (sums->arc != NULL) NAMED(count)(w, T);
    return 1;
}

/* --- Spans of given labels ------------------------------------------------------------------- */

static void NAMED(load_spans)(NAMED(emitter) * w, const fc_span_reading *r) {
    const int64_t S = w->S, Q = w->Q, L = r->L;
    const int32_t *label = w->m->label;
    for (int64_t k = 0; k < S * Q; k++) w->opening[k] = w->closing[k] = 0;
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < S; j++) {
            const int64_t pair = label[i] * L + label[j];
            if (r->begins[pair]) w->opening[j * Q + i] = w->into[j * Q + i];
            if (!r->continues[pair]) w->closing[i * Q + j] = w->from[i * Q + j];
        }
}

/* P of the span start .. end - 1 of the states `mine` of its type. */
static double NAMED(span)(const NAMED(emitter) * w, const fc_span_reading *r, int64_t T,
                          int64_t start, int64_t end, int64_t many, const int32_t *mine) {
    const int64_t Q = w->Q;
    const int32_t *label = w->m->label;
    REAL v[FC_MAX_EMITTERS], next[FC_MAX_EMITTERS];
    for (int64_t k = 0; k < many; k++) {
        const int64_t j = mine[k];
        const REAL into = start > 0 ? NAMED(dot)(Q, w->a + (start - 1) * Q, w->opening + j * Q)
                          : r->first[label[j]] ? w->initial[j]
                                               : 0;
        v[k] = into * w->scale[start] * w->e[start * Q + j];
    }
    for (int64_t t = start + 1; t < end; t++) {
        for (int64_t k = 0; k < many; k++) {
            const int64_t j = mine[k];
            REAL sum = 0;
            for (int64_t l = 0; l < many; l++) {
                const int64_t at = mine[l] * Q + j;
                sum += v[l] * (w->from[at] - w->closing[at]);
            }
            next[k] = sum * w->scale[t] * w->e[t * Q + j];
        }
        for (int64_t k = 0; k < many; k++) v[k] = next[k];
    }
    double total = 0.0;
    for (int64_t k = 0; k < many; k++) {
        const int64_t j = mine[k];
        if (!r->last[label[j]] || !(v[k] > 0)) continue;
        const REAL after =
            end < T ? NAMED(dot)(Q, w->closing + j * Q, w->n + end * Q) : w->ending[j];
        total += (double)v[k] * (double)after;
    }
    return total < 1.0 ? total : 1.0;
}

static NAMED(emitter)
    NAMED(laid_out)(const fc_emitter *m, const fc_rows *rows, int64_t longest, double *work) {
    NAMED(emitter) w = {.m = m, .rows = rows, .S = m->S, .Q = (m->S + W - 1) / W * W};
    const int64_t Q = w.Q, whole = (m->S + 3) / 4 * 4 * Q, T = longest + 1;
    w.identity = m->S == m->L;
    for (int64_t j = 0; j < m->S; j++) w.identity &= m->label[j] == j;
    w.total = work;
    w.first = w.total + whole;
    w.last = w.first + Q;
    REAL *f = (REAL *)(void *)(w.last + Q);
    f += (64 - (uintptr_t)f % 64) % 64 / sizeof(REAL); /* whole cache lines */
    REAL **part[] = {&w.into,  &w.from,   &w.open, &w.opening, &w.closing, &w.initial, &w.final,
                     &w.row,   &w.reach,  &w.next, &w.b,       &w.other,   &w.most,    &w.begun,
                     &w.ended, &w.ending, &w.a,    &w.e,       &w.n,       &w.scale};
    for (int k = 0; k < 20; k++) {
        *part[k] = f;
        f += k < 5 ? whole : k < 16 ? Q : k < 19 ? T * Q : T;
    }
    return w;
}

#undef VEC
#undef MASK
