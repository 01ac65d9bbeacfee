/* SPDX-License-Identifier: Apache-2.0
 *
 * The recursions of emissions.c in float32 or float64. emissions.c includes it once for each, with
 * REAL, W (numbers of a register), NAMED(x) and other macros.
 *
 * Each recursion is written once for two layouts: a register holds a number
 * of W sentences (`lanes`, a constant), or W states of one sentence. A row of states has N numbers: P registers, or
 * Q numbers. Both layouts add in the same order, so that a sentence has the same bits in both. */

typedef REAL NAMED(vec)
    __attribute__((vector_size(W * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
typedef INTEGER NAMED(mask)
    __attribute__((vector_size(W * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
#if defined(__AVX512F__) /* others convert them one by one */
typedef int8_t NAMED(back);
#else
typedef INTEGER NAMED(back);
#endif
typedef NAMED(back) NAMED(backs)
    __attribute__((vector_size(W * sizeof(NAMED(back))), aligned(sizeof(NAMED(back))), may_alias));
#define VEC NAMED(vec)
#define MASK NAMED(mask)
#define BACK_AT(x) (*(NAMED(backs) *)(x))
#define TO_BACK(x) __builtin_convertvector(x, NAMED(backs))
#define AT(x) (*(VEC *)(x))
#define CONST_AT(x) (*(const VEC *)(x))
#define ALL(x) NAMED(spread)(x)

/* --- Registers ------------------------------------------------------------------------------- */

FC_INLINE VEC NAMED(spread)(REAL x) { return x - (VEC){0}; }

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
    return MM512MASK((M512)a, (M512)ALL(x), _CMP_EQ_OQ);
#elif defined(__AVX__)
    return (uint64_t)MM256(movemask)(MM256(cmp)((M256)a, (M256)ALL(x), _CMP_EQ_OQ));
#else
    uint64_t bits = 0;
    for (int l = 0; l < W; l++) bits |= (uint64_t)(a[l] == x) << l;
    return bits;
#endif
}

FC_INLINE VEC NAMED(chosen)(MASK which, VEC a, VEC b) {
    return (VEC)(((MASK)a & which) | ((MASK)b & ~which));
}

/* Whether a condition holds for sentence l. */
FC_INLINE int NAMED(holds)(const int lanes, MASK condition, int l) {
    INTEGER all = condition[lanes ? l : 0];
    for (int k = 1; k < W && !lanes; k++) all &= condition[k];
    return all != 0;
}

/* --- Sentences in progress ------------------------------------------------------------------- */

typedef struct {
    const fc_emitter *m;
    const fc_rows *rows;
    int64_t S, P, Q; /* states; padded to fours, and to whole registers */
    int identity;    /* states are labels */
    MASK edge;       /* of the last register of a row: which are states */
    REAL *into;      /* [Q][Q] scores of the arcs into each state, by source */
    REAL *from;      /* [Q][Q] the scores of arcs from each state */
    REAL *initial;   /* [Q] */
    REAL *final;     /* [Q] */
    int used;        /* these are loaded */
    /* For sums: exponentials, of arcs, ends and rows less their largest. */
    double shift; /* of arcs and ends of a sentence, T - 1 times and once */
    double ends;
    REAL *open;            /* [Q][Q] 1 if the arc exists, from each state */
    REAL *opening;         /* [Q][Q] arcs into each state that begin a span */
    REAL *closing;         /* [Q][Q] arcs from each state that do not continue a span */
    double *total;         /* [Q][Q] sums of outer products */
    double *begun, *ended; /* [Q] sums of the posteriors of first and last states */
    /* The sentences, longest first. */
    int n;
    int64_t number[W], start[W], T[W];
    int64_t state[W], before[W]; /* of the present token and of the one before, on the best path */
    MASK numbers, held;          /* the scores are numbers; sums can be represented */
    REAL *tokens;                /* memory of the next four */
    REAL *a, *e, *n_t;           /* [T][N] */
    REAL *scale;                 /* [T], in lanes [T][W] */
    REAL *y, *row;               /* [N] */
    REAL *reach;                 /* [N] 1 if a state can be reached */
    REAL *b, *most;              /* [N] */
    REAL *p, *last;              /* [N] posteriors of a token, and of the last one */
    REAL *ending;                /* [Q] b of the last token */
    double product_of_sums[W];
    fc_total log_z[W];
} NAMED(emitter);

enum { NAMED(sentences) = W };

/* Numbers of a row. */
FC_INLINE int64_t NAMED(cells)(const int lanes, const NAMED(emitter) * w) {
    return lanes ? w->P * W : w->Q;
}

/* Takes up sentences with these numbers. */
static void NAMED(take_up)(NAMED(emitter) * w, int n, const int64_t *numbers) {
    w->n = n;
    w->numbers = w->held = (MASK){0} - 1;
    for (int l = 0; l < n; l++) {
        w->number[l] = numbers[l];
        w->start[l] = w->rows->start[numbers[l]];
        w->T[l] = w->rows->length[numbers[l]];
    }
    const int64_t room = (w->T[0] + 1) * NAMED(cells)(n > 1, w);
    w->a = w->tokens;
    w->e = w->a + room;
    w->n_t = n > 1 ? w->e : w->e + room;
    w->scale = w->n_t + room;
}

/* Sentences that have a token t. */
FC_INLINE int NAMED(alive)(const NAMED(emitter) * w, int64_t t) {
    int n = w->n;
    while (w->T[n - 1] <= t) n--;
    return n;
}

FC_INLINE MASK NAMED(first_lanes)(int n) {
    MASK lane;
    for (int l = 0; l < W; l++) lane[l] = l;
    return lane < (MASK){0} + (INTEGER)n;
}

/* Copies rows of four sentences into their lanes in x, or back; the last block may overlap another. */
FC_INLINE void NAMED(turn)(const int into, int64_t S, REAL *const *row, REAL *x) {
    for (int64_t done = 0; done < S; done += 4) {
        const int64_t j = done + 4 <= S ? done : S - 4;
        REAL *own[4], *lane[4];
        for (int k = 0; k < 4; k++) {
            own[k] = row[k] + j;
            lane[k] = x + (j + k) * W;
        }
        NAMED(transpose)(into ? own : lane, into ? lane : own);
    }
}

/* x = the scores of states at token t, `rest` in the padding and after the end of a sentence. */
FC_INLINE void NAMED(read)(const int lanes, NAMED(emitter) * w, int64_t t, REAL rest, REAL *x) {
    const REAL *source = SOURCE_OF(w->rows);
    const int64_t S = w->S, Q = w->Q, N = NAMED(cells)(lanes, w), stride = w->rows->stride;
    const int32_t *label = w->m->label;
    for (int l = 0, n = lanes ? NAMED(alive)(w, t) : 0; l < W && lanes;) {
        REAL *own[4] = {0};
        for (int k = l; k < n && k < l + 4; k++)
            own[k - l] = (REAL *)source + w->start[k] + t * stride;
        if (w->identity && S >= 4 && l + 4 <= n) {
            NAMED(turn)(1, S, own, x + l);
            l += 4;
            continue;
        }
        for (int64_t j = 0; j < S; j++) x[j * W + l] = l < n ? own[0][label[j]] : rest;
        l++;
    }
    const int64_t place = w->start[0] + t * stride;
    if (lanes) {
        for (int64_t j = S * W; j < N; j++) x[j] = rest;
    } else if (source != NULL && w->identity && place + Q <= w->rows->size) {
        /* The memory after the row is readable. */
        for (int64_t j = 0; j + W < Q; j += W) AT(x + j) = CONST_AT(source + place + j);
        AT(x + Q - W) = NAMED(chosen)(w->edge, CONST_AT(source + place + Q - W), ALL(rest));
    } else {
        for (int64_t j = 0; j < Q; j++) x[j] = rest;
        for (int64_t j = 0; j < S; j++) x[j] = (REAL)number_at(w->rows, place + label[j]);
    }
    for (int64_t j = 0; j < N; j += W) w->numbers &= CONST_AT(x + j) < ALL(LARGEST);
}

FC_INLINE VEC NAMED(top)(const int lanes, const NAMED(emitter) * w, const REAL *x) {
    VEC best = CONST_AT(x);
    for (int64_t j = W; j < NAMED(cells)(lanes, w); j += W)
        best = NAMED(larger)(best, CONST_AT(x + j));
    return lanes ? best : ALL(NAMED(top_lane)(best));
}

/* sum_j x[j] y[j], or sum_j x[j] without y. */
FC_INLINE VEC NAMED(sum)(const int lanes, const NAMED(emitter) * w, const REAL *x, const REAL *y) {
    VEC part[W];
    for (int l = 0; l < (lanes ? W : 1); l++) {
        part[l] = (VEC){0};
        for (int64_t j = l * W; j < (lanes ? w->S * W : w->Q); j += lanes ? W * W : W)
            if (y == NULL)
                part[l] += CONST_AT(x + j);
            else
                part[l] += CONST_AT(x + j) * CONST_AT(y + j);
    }
    for (int h = W / 2; lanes && h > 0; h /= 2) /* as lane_sum adds */
        for (int l = 0; l < h; l++) part[l] += part[l + h];
    return lanes ? part[0] : ALL(NAMED(lane_sum)(part[0]));
}

/* 1 / x */
FC_INLINE VEC NAMED(inverse)(const int lanes, VEC x) {
    if (lanes) return 1 / x;
    return ALL(1 / x[0]);
}

/* --- Best labels ----------------------------------------------------------------------------- */

/* y[j] = max_i x[i] + M[i][j] of V registers of states. */
FC_INLINE void NAMED(best_of_row)(const int V, int64_t S, int64_t Q, const REAL *M, const REAL *x,
                                  REAL *y) {
    VEC best[GROUP];
#define BEST(k, v) (x[k] + CONST_AT(M + (k) * Q + (v) * W))
#define BEST_OF_FOUR(v) \
    NAMED(larger)(NAMED(larger)(BEST(0, v), BEST(1, v)), NAMED(larger)(BEST(2, v), BEST(3, v)))
    for (int v = 0; v < V; v++) best[v] = BEST_OF_FOUR(v);
    for (int64_t i = 4; i < S; i += 4) {
        M += 4 * Q;
        x += 4;
        for (int v = 0; v < V; v++) best[v] = NAMED(larger)(best[v], BEST_OF_FOUR(v));
    }
#undef BEST
#undef BEST_OF_FOUR
    for (int v = 0; v < V; v++) AT(y + v * W) = best[v];
}

/* The same of V states of all lanes; back[j] is the smallest best i, below 0 where a_t is coarse. */
FC_INLINE void NAMED(best_in_lanes)(const int V, int64_t S, int64_t Q, const REAL *M, const REAL *x,
                                    REAL *y, NAMED(back) * back) {
    VEC best[GROUP];
    MASK from[GROUP], i = (MASK){0};
    for (int v = 0; v < V; v++) {
        best[v] = CONST_AT(x) + M[v];
        from[v] = i;
    }
    for (const REAL *const end = M + S * Q; M + Q < end;) {
        M += Q;
        x += W;
        i += 1;
        for (int v = 0; v < V; v++) {
            const VEC sum = CONST_AT(x) + M[v];
            const MASK more = sum > best[v];
            best[v] = NAMED(larger)(sum, best[v]);
            from[v] = (more & i) | (~more & from[v]);
        }
    }
    for (int v = 0; v < V; v++) {
        AT(y + v * W) = best[v];
        BACK_AT(back + v * W) = TO_BACK(from[v]);
    }
}

FC_INLINE void NAMED(best_step)(const int lanes, const NAMED(emitter) * w, const REAL *x, REAL *y,
                                NAMED(back) * back) {
    const int64_t S = w->S, Q = w->Q;
#define BODY(V) NAMED(best_of_row)(V, S, Q, w->into + at * W, x, y + at * W)
    if (!lanes) IN_GROUPS(Q / W, at, BODY);
#undef BODY
    int64_t at = 0;
    for (; GROUP_IN_LANES > 4 && lanes && at + 8 <= w->P; at += 8)
        NAMED(best_in_lanes)(8, S, Q, w->into + at, x, y + at * W, back + at * W);
    for (; lanes && at < w->P; at += 4)
        NAMED(best_in_lanes)(4, S, Q, w->into + at, x, y + at * W, back + at * W);
}

/* The smallest j with the largest x[j] + y[j]. */
FC_INLINE int64_t NAMED(largest)(int64_t Q, const REAL *x, const REAL *y) {
    VEC top = CONST_AT(x) + CONST_AT(y);
    for (int64_t j = W; j < Q; j += W) top = NAMED(larger)(top, CONST_AT(x + j) + CONST_AT(y + j));
    const REAL best = NAMED(top_lane)(top);
    for (int64_t first = 0; first < Q; first += 64) {
        uint64_t bits = 0; /* no branch between the registers of 64 states */
        for (int64_t j = first; j < Q && j < first + 64; j += W)
            bits |= NAMED(equal)(CONST_AT(x + j) + CONST_AT(y + j), best) << (j - first);
        if (bits != 0) return first + __builtin_ctzll(bits);
    }
    return 0;
}

static void NAMED(load_scores)(NAMED(emitter) * w) {
    const int64_t S = w->S, Q = w->Q;
    for (int64_t i = 0; i < Q; i++)
        for (int64_t j = 0; j < Q; j++) {
            const REAL score = i < S && j < S ? (REAL)w->m->arc[i * S + j] : (REAL)FC_NEVER;
            w->from[i * Q + j] = w->into[j * Q + i] = score;
        }
    for (int64_t j = 0; j < Q; j++) {
        w->initial[j] = j < S ? (REAL)w->m->initial[j] : (REAL)FC_NEVER;
        w->final[j] = j < S ? (REAL)w->m->final[j] : (REAL)FC_NEVER;
    }
    w->used = 1;
}

/* a_t[i] = row_t[i] + score of the best continuation, minus the largest a_{t+1}. Backward, so that the
 * forward walk meets the earliest tie first. Rows of the tokens first .. end - 1; `after` is the row of
 * `end`, NULL at the sentences' end. */
FC_INLINE void NAMED(best_rows)(const int lanes, NAMED(emitter) * w, int64_t first, int64_t end,
                                const REAL *after) {
    const int64_t N = NAMED(cells)(lanes, w);
    int ended = after == NULL ? 0 : w->n;
    for (int64_t t = end - 1; t >= first; t--) {
        REAL *const a = w->a + (lanes ? t % 2 : t - first) * N, *const y = w->y;
        NAMED(back) *const back = (NAMED(back) *)w->e + (t - first) * N;
        NAMED(read)(lanes, w, t, 0, a);
        REAL less[W] = {0};
        if (after != NULL) {
            NAMED(best_step)(lanes, w, after, y, back);
            const VEC top = NAMED(top)(lanes, w, after);
            AT(less) = NAMED(chosen)(top > ALL((REAL)FC_NEVER), top, (VEC){0});
        } else if (lanes) {
            for (int64_t j = 0; j < N; j++) back[j] = 0;
        }
        for (; ended < w->n && w->T[ended] - 1 == t; ended++) {
            for (int64_t j = 0; j < N; j += lanes ? W : 1)
                y[j + ended] = w->final[lanes ? j / W : j];
            if (lanes) less[ended] = 0;
        }
        for (int64_t j = 0; j < N; j += W) {
            const VEC now = CONST_AT(y + j) + (CONST_AT(a + j) - CONST_AT(less));
            AT(a + j) = now;
            if (lanes)
                BACK_AT(back + j) |= TO_BACK(~((now > ALL(-COARSE)) & (now < ALL(COARSE))) & -128);
        }
        after = a;
    }
}

/* Follows the best states from the tokens `first` to end - 1. */
FC_INLINE void NAMED(follow)(const int lanes, NAMED(emitter) * w, int64_t first, int64_t end,
                             const REAL *after, int32_t *const *path, outcome *found) {
    const fc_emitter *m = w->m;
    const int64_t N = NAMED(cells)(lanes, w), S = w->S, Q = w->Q, stride = w->rows->stride;
    const REAL *a = w->a;
    const NAMED(back) *back = (const NAMED(back) *)w->e;
    for (int64_t t = first; t < end; t++, a += N, back += N)
        for (int l = 0, n = NAMED(alive)(w, t); l < n; l++) {
            const int64_t j = w->state[l] < S ? w->state[l] : 0; /* NaN equals no best */
            found[l].value += t == 0 ? m->initial[j] : m->arc[w->before[l] * S + j];
            found[l].value += number_at(w->rows, w->start[l] + t * stride + m->label[j]);
            path[l][t] = m->label[j];
            w->before[l] = j;
            found[l].exact &= lanes ? back[j * W + l] >= 0 : a[j] > -COARSE && a[j] < COARSE;
            if (lanes)
                w->state[l] = back[j * W + l] & 127;
            else if (t + 1 < w->T[0])
                w->state[0] = NAMED(largest)(Q, t + 1 < end ? a + N : after, w->from + j * Q);
        }
}

/* For a long sentence, only the first row of each block is kept, and blocks are recomputed on the forward
 * walk: rows remain in cache. */
FC_INLINE void NAMED(best_in)(const int lanes, NAMED(emitter) * w, int32_t *const *path,
                              outcome *found) {
    const int64_t N = NAMED(cells)(lanes, w), blocks = (w->T[0] + BLOCK - 1) / BLOCK;
    for (int64_t i = 1 - blocks; i < blocks; i++) {
        const int64_t k = i < 0 ? -i : i, first = k * BLOCK, next = k + 1;
        const int64_t end = next < blocks ? first + BLOCK : w->T[0];
        const REAL *const after = next < blocks ? w->e + next * N : NULL;
        NAMED(best_rows)(lanes, w, first, end, after);
        if (i < 0) memcpy(w->e + k * N, w->a, (size_t)N * sizeof *w->e);
        if (i < 0) continue;
        for (int l = 0; l < w->n && k == 0; l++) {
            for (int64_t j = 0; j < w->Q; j++)
                w->row[j] = j < w->P ? w->a[lanes ? j * W + l : j] : 0;
            w->state[l] = NAMED(largest)(w->Q, w->row, w->initial);
        }
        NAMED(follow)(lanes, w, first, end, after, path, found);
    }
    for (int l = 0; l < w->n; l++) {
        found[l].value += w->m->final[w->before[l]];
        found[l].exact &= found[l].value > FC_NEVER;
    }
}

static void NAMED(best)(NAMED(emitter) * w, int n, const int64_t *numbers, const int64_t *offsets,
                        int32_t *path, outcome *found) {
    int32_t *own[W];
    if (!w->used) NAMED(load_scores)(w);
    NAMED(take_up)(w, n, numbers);
    for (int l = 0; l < n; l++) {
        own[l] = path + offsets[numbers[l]];
        found[l] = (outcome){.value = 0.0, .exact = 1};
    }
    IN_LAYOUT(best_in, n, w, own, found);
    for (int l = 0; l < n; l++) found[l].fine = NAMED(holds)(n > 1, w->numbers, l);
}

#include "emitter_sums.h"

/* --- Memory ---------------------------------------------------------------------------------- */

static int64_t NAMED(work)(const fc_emitter *m, int64_t longest, int64_t sentences) {
    const int64_t Q = (m->S + UNIT - 1) / UNIT * UNIT, P = (m->S + 3) / 4 * 4;
    const int64_t alone = (longest + 1) * (3 * Q + 1);
    const int64_t lanes = ((longest < BLOCK ? longest : BLOCK) + 1) * (2 * P + 1) * W;
    const int64_t tokens = lanes > alone && m->S <= MOST_IN_LANES && sentences > 1 ? lanes : alone;
    const int64_t reals = (5 * Q + 3 + 7 * W) * Q + tokens + 64;
    return (reals * (int64_t)sizeof(REAL) + 7) / 8 + Q * Q + 2 * Q;
}

static NAMED(emitter) NAMED(laid_out)(const fc_emitter *m, const fc_rows *rows, double *work) {
    NAMED(emitter) w = {.m = m, .rows = rows, .S = m->S};
    const int64_t Q = (m->S + UNIT - 1) / UNIT * UNIT;
    w.Q = Q;
    w.P = (m->S + 3) / 4 * 4;
    w.identity = m->S == m->L;
    for (int64_t j = 0; j < m->S; j++) w.identity &= m->label[j] == j;
    for (int l = 0; l < W; l++) w.edge[l] = Q - W + l < m->S ? -1 : 0;
    w.total = work;
    w.begun = w.total + Q * Q;
    w.ended = w.begun + Q;
    REAL *f = (REAL *)(void *)(w.ended + Q);
    f += (64 - (uintptr_t)f % 64) % 64 / sizeof(REAL); /* whole cache lines */
    REAL **part[] = {&w.into,  &w.from,   &w.open, &w.opening, &w.closing, &w.initial,
                     &w.final, &w.ending, &w.y,    &w.row,     &w.reach,   &w.b,
                     &w.most,  &w.p,      &w.last, &w.tokens};
    for (int k = 0; k < 16; k++) {
        *part[k] = f;
        f += k < 5 ? Q * Q : k < 8 ? Q : Q * W;
    }
    return w;
}

#undef VEC
#undef MASK
#undef BACK_AT
#undef TO_BACK
#undef AT
#undef CONST_AT
#undef ALL
