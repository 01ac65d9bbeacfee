/* SPDX-License-Identifier: Apache-2.0
 *
 * Probabilities of spans of one axis. A span is opened by an arc, carried by arcs and closed by any other
 * arc (or the end), so with the recursion of recursion.h, F' being F after token t has been read,
 *
 *   U_s       = F'_{s-1} along the arcs that open a span        (at the beginning: initial)
 *   U_{t+1}   = U'_t along the arcs that carry one
 *   C_t       = G_{t+1} back along the arcs that do not carry   (at the end: final)
 *   P(s .. t open) = U_t (x) G_t / Z      P(s .. t) = U'_t (x) C_t / Z    cells where a span may end
 *
 * Spans that are open at a token exclude each other, so at most 1/p of them have the probability p. An
 * open span has weights in the cells of its type alone. They lie side by side, a *lane* each: cells x
 * lanes, so that a step is a few rows of multiplications however many are open. Rows are scaled with F, of
 * which they are parts: what underflows in them is no share of Z. */

#include "blocks.h"
#include "checks.h"

/* Sums are rounded: a span is given up a little below the floor. */
#define SLACK (1.0 - 1e-9)

typedef struct {
    const fc_segments *labels;
    int64_t W;             /* lanes of a type */
    int64_t cells;         /* of all types */
    int64_t *count, *base; /* [types] cells of a type, and the first of them */
    int64_t *cell, *spot;  /* [cells] their places in a tensor, and in a plane */
    uint8_t *ends;         /* [cells] a span may end there */
    int64_t *states;       /* [types + 1] the states of a type: mine[states[k]] ... */
    int64_t *mine;         /* [S] */
    int64_t *carries;      /* [types + 1] arcs that carry: from[carries[k]] ... */
    int64_t *from, *to,
        *arc;       /* [arcs that carry] ends among the states of the type; the weight's place */
    double *x, *y;  /* [cells][W] lanes, and scratch */
    double *kept;   /* [cells][W] where lanes are kept from block to block */
    int64_t *open;  /* [types] lanes in use */
    int64_t *start; /* [types][W] first tokens */
    int64_t *next, *stop;   /* [types][W] spans asked for that begin there */
    double *before, *begun; /* [full] F and U of new spans */
    double *value, *token;  /* [W], [full]: masses of lanes; weights of a token's cells */
    double *read, *ahead;   /* [full] F' and the next F */
    double *begin, *close,
        *turned;    /* weights of the arcs that open, and of those that do not carry */
    int64_t cursor; /* of the spans asked for */
} follower;

static int64_t *take_longs(double **work, int64_t n) { return (int64_t *)take(work, n); }

/* What is kept from block to block. */
static int64_t lay_out_lanes(follower *s, const tensor *m, const fc_segments *labels, int64_t lanes,
                             double *memory) {
    double *const start = memory;
    const int64_t types = labels->types, S = m->axis[labels->axis].S;
    int64_t states = 0;
    for (int64_t i = 0; i < S; i++) states += labels->type[i] >= 0;
    s->labels = labels;
    s->W = lanes;
    s->cells = m->Q * m->outer * m->S / S * states;
    s->open = take_longs(&memory, types);
    s->start = take_longs(&memory, types * lanes);
    s->next = take_longs(&memory, types * lanes);
    s->stop = take_longs(&memory, types * lanes);
    s->before = take(&memory, m->full);
    s->begun = take(&memory, m->full);
    s->x = s->kept = take(&memory, s->cells * lanes);
    return memory - start;
}

static int64_t lay_out_scratch(follower *s, const tensor *m, double *work) {
    double *const start = work;
    const int64_t types = s->labels->types;
    const loaded_axis *a = &m->axis[s->labels->axis];
    const int64_t weights = a->axis->contexts * a->size;
    int64_t carries = 0;
    for (int64_t k = 0; k < a->arcs; k++) carries += s->labels->arc[k] == FC_CARRIES;
    s->count = take_longs(&work, types);
    s->base = take_longs(&work, types + 1);
    s->cell = take_longs(&work, s->cells);
    s->spot = take_longs(&work, s->cells);
    s->ends = (uint8_t *)take(&work, s->cells / 8 + 1);
    s->states = take_longs(&work, types + 1);
    s->mine = take_longs(&work, a->S);
    s->carries = take_longs(&work, types + 1);
    s->from = take_longs(&work, carries);
    s->to = take_longs(&work, carries);
    s->arc = take_longs(&work, carries);
    s->y = take(&work, s->cells * s->W);
    s->value = take(&work, s->W);
    double **full[] = {&s->token, &s->read, &s->ahead};
    for (int k = 0; k < 3; k++) *full[k] = take(&work, m->full);
    s->begin = take(&work, weights);
    s->close = take(&work, weights);
    s->turned = take(&work, weights);
    return work - start;
}

/* Sorts states by type, and arcs that carry; `local` [S] is scratch. */
static void sort_states(follower *s, const loaded_axis *a, int64_t P, int64_t *local) {
    const fc_segments *g = s->labels;
    int64_t n = 0, arcs = 0;
    for (int64_t k = 0; k < g->types; k++) {
        s->states[k] = n;
        for (int64_t i = 0; i < a->S; i++)
            if (g->type[i] == k) {
                local[i] = n - s->states[k];
                s->mine[n++] = i;
            }
    }
    s->states[g->types] = n;
    for (int64_t k = 0; k <= g->types; k++) s->carries[k] = 0;
    for (int64_t k = 0; k < a->arcs; k++)
        if (g->arc[k] == FC_CARRIES)
            s->carries[g->type[a->dense ? k / a->S : a->axis->source[k]]]++;
    for (int64_t k = 0; k <= g->types; k++) { /* counts become ends, then starts */
        arcs += s->carries[k];
        s->carries[k] = arcs;
    }
    for (int64_t k = a->arcs - 1; k >= 0; k--) {
        if (g->arc[k] != FC_CARRIES) continue;
        const int64_t i = a->dense ? k / a->S : a->axis->source[k];
        const int64_t j = a->dense ? k % a->S : a->axis->target[k];
        const int64_t place = --s->carries[g->type[i]];
        s->from[place] = local[i];
        s->to[place] = local[j];
        s->arc[place] = a->dense && a->last ? i * P + j : k;
    }
}

/* Lists the cells of each type: the tensor with the states of the type alone on the axis. */
static void list_cells(follower *s, const tensor *m) {
    const loaded_axis *a = &m->axis[s->labels->axis];
    const int64_t post = a->last ? 1 : m->outer / a->pre / a->S * m->S;
    int64_t n = 0;
    for (int64_t k = 0; k < s->labels->types; k++) {
        s->base[k] = n;
        for (int64_t r = 0; r < m->Q * a->pre; r++)
            for (int64_t i = s->states[k]; i < s->states[k + 1]; i++)
                for (int64_t l = 0; l < post; l++) {
                    const int64_t joint = (r * a->S + s->mine[i]) * post + l;
                    s->cell[n] = joint / m->S * m->P + joint % m->S;
                    s->spot[n] = s->cell[n] % m->plane;
                    s->ends[n++] = s->labels->last[s->mine[i]];
                }
        s->count[k] = n - s->base[k];
    }
}

/* The weights of the arcs that open, and of those that do not carry, into the token that is loaded. */
static void part_weights(follower *s, const tensor *m, semiring K) {
    const loaded_axis *a = &m->axis[s->labels->axis];
    const int64_t contexts = a->axis->contexts;
    const uint8_t *kind = s->labels->arc;
    memcpy(s->begin, a->weight, (size_t)(contexts * a->size) * sizeof *s->begin);
    memcpy(s->close, a->weight, (size_t)(contexts * a->size) * sizeof *s->close);
    if (a->turned != NULL)
        memcpy(s->turned, a->turned, (size_t)(contexts * a->size) * sizeof *s->turned);
    for (int64_t c = 0; c < contexts; c++)
        for (int64_t k = 0; k < a->arcs; k++) {
            const int64_t i = a->turned == NULL ? 0 : k / a->S,
                          j = a->turned == NULL ? k : k % a->S;
            const int64_t place = c * a->size + (a->turned == NULL ? k : i * m->P + j);
            if (kind[k] != FC_OPENS) s->begin[place] = none(K);
            if (kind[k] == FC_CARRIES) s->close[place] = none(K);
            if (kind[k] == FC_CARRIES && a->turned != NULL)
                s->turned[c * a->size + j * m->P + i] = none(K);
        }
}

/* --- Lanes ----------------------------------------------------------------------------------- */

static inline double log_add(double x, double y) {
    const double top = x > y ? x : y, least = x > y ? y : x;
    return top == FC_NEVER ? top : top + log1p(exp(least - top));
}

/* y (+)= x (x) w */
static inline void add_lanes(semiring K, int64_t n, double w, const double *restrict x,
                             double *restrict y) {
    if (K == SUM_TIMES) {
        for (int64_t l = 0; l < n; l++) y[l] += x[l] * w;
    } else {
        for (int64_t l = 0; l < n; l++) y[l] = log_add(y[l], x[l] + w);
    }
}

/* x (x)= w */
static inline void scale_lanes(semiring K, int64_t n, double w, double *restrict x) {
    for (int64_t l = 0; l < n; l++) x[l] = times(K, x[l], w);
}

/* s->value[lane] = the sum of its weights times those of a tensor, divided by `mass`. A tensor of
 * what closes counts where a span may end. */
static void weigh_lanes(follower *s, semiring K, int64_t k, const double *row, double mass,
                        int closing) {
    const int64_t n = s->open[k], first = s->base[k];
    const double *x = s->x + first * s->W;
    double *restrict value = s->value;
    fc_fill(n, 0.0, value);
    for (int64_t i = first; i < first + s->count[k]; i++, x += s->W) {
        if (closing && !s->ends[i]) continue;
        const double w = row[s->cell[i]];
        if (w == none(K)) continue;
        if (K == SUM_TIMES) {
            for (int64_t l = 0; l < n; l++) value[l] += x[l] * w;
        } else {
            for (int64_t l = 0; l < n; l++) value[l] += fc_exp(x[l] + w - mass);
        }
    }
    if (K == SUM_TIMES) fc_scale(n, 1.0 / mass, value);
}

/* Keeps the lanes of a type with a value above a floor, or with spans asked for. */
static void keep_lanes(follower *s, int64_t k, double floor) {
    const int64_t n = s->open[k];
    int64_t *start = s->start + k * s->W, *next = s->next + k * s->W, *stop = s->stop + k * s->W;
    int64_t kept = 0;
    for (int64_t l = 0; l < n; l++) {
        if (!(floor < 0.0 ? next[l] < stop[l] : s->value[l] > floor)) continue;
        if (kept < l) {
            double *x = s->x + s->base[k] * s->W;
            for (int64_t i = 0; i < s->count[k]; i++, x += s->W) x[kept] = x[l];
            start[kept] = start[l];
            next[kept] = next[l];
            stop[kept] = stop[l];
        }
        kept++;
    }
    s->open[k] = kept;
}

/* The token is read: its potentials, the scale of F, the residual automaton. */
static void read_lanes(follower *s, const tensor *m, semiring K, int64_t k, const double *node,
                       double scale) {
    const int64_t n = s->open[k], W = s->W, plane = s->count[k] / m->Q;
    const int64_t *cell = s->cell + s->base[k];
    double *x = s->x + s->base[k] * W, *y = s->y + s->base[k] * W;
    for (int64_t i = 0; i < s->count[k]; i++)
        scale_lanes(K, n, times(K, node[s->spot[s->base[k] + i]], scale), x + i * W);
    const fc_residual *r = m->machine->residual;
    if (r == NULL) return;
    for (int64_t i = 0; i < s->count[k]; i++) fc_fill(n, none(K), y + i * W);
    for (int64_t e = 0; e < r->E; e++)
        for (int64_t i = 0; i < plane; i++) {
            const int64_t o = cell[i] / m->P, j = cell[i] % m->P, wide = r->width > 1;
            const int64_t row = e * r->rows + (r->place == NULL ? 0 : r->place[o]);
            const double w = m->edge[wide ? row * m->P + j : row];
            if (w == none(K)) continue;
            add_lanes(K, n, w, x + (r->source[e] * plane + i) * W,
                      y + (r->target[e] * plane + i) * W);
        }
    for (int64_t i = 0; i < s->count[k]; i++) memcpy(x + i * W, y + i * W, (size_t)n * sizeof *x);
}

/* The outer index of row r of an axis behind that of the spans. */
static int64_t outer_index(const follower *s, const tensor *m, int64_t k, int64_t d, int64_t r) {
    const loaded_axis *a = &m->axis[s->labels->axis];
    const int64_t size = s->states[k + 1] - s->states[k], mid = m->axis[d].pre / a->pre / a->S;
    const int64_t i = r / mid % size, above = r / mid / size % a->pre;
    return (above * a->S + s->mine[s->states[k] + i]) * mid + r % mid;
}

/* Goes along one axis: the arcs that carry on that of the spans, all arcs on the others. */
static void step_lanes(follower *s, const tensor *m, semiring K, int64_t k, int64_t d) {
    const loaded_axis *a = &m->axis[d];
    const int64_t own = s->labels->axis, n = s->open[k], W = s->W;
    const int64_t size = s->states[k + 1] - s->states[k];
    const int64_t S = d == own ? size : a->S;
    const int64_t rows = m->Q * (d > own ? a->pre / m->axis[own].S * size : a->pre);
    const int64_t post = s->count[k] / rows / S;
    const double *x = s->x + s->base[k] * W;
    double *y = s->y + s->base[k] * W;
    for (int64_t i = 0; i < s->count[k]; i++) fc_fill(n, none(K), y + i * W);
    const int64_t first = d == own ? s->carries[k] : 0;
    const int64_t end = d == own ? s->carries[k + 1] : a->arcs;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t o = d > own ? outer_index(s, m, k, d, r) : r % a->pre;
        const double *weight =
            a->weight + (a->axis->place == NULL ? 0 : a->axis->place[o]) * a->size;
        for (int64_t e = first; e < end; e++) {
            const int64_t i = d == own ? s->from[e] : a->dense ? e / a->S : a->axis->source[e];
            const int64_t j = d == own ? s->to[e] : a->dense ? e % a->S : a->axis->target[e];
            const double w = weight[d == own ? s->arc[e] : a->dense && a->last ? i * m->P + j : e];
            if (w == none(K)) continue;
            const double *in = x + (r * S + i) * post * W;
            double *out = y + (r * S + j) * post * W;
            for (int64_t l = 0; l < post; l++) add_lanes(K, n, w, in + l * W, out + l * W);
        }
    }
}

/* --- Along a sentence ------------------------------------------------------------------------ */

/* F (x) G summed up, its log in the log domain; m->row has the shares of the cells. 0: lost. */
static int share_out(tensor *m, semiring K, const double *F, const double *G, double *mass) {
    double top = 0.0;
    for (int64_t j = 0; j < m->full; j++) m->row[j] = times(K, F[j], G[j]);
    if (K == LOG_PLUS) {
        top = fc_max(m->full, m->row);
        if (top == FC_NEVER) return 0;
        for (int64_t j = 0; j < m->full; j++) m->row[j] = fc_exp(m->row[j] - top);
    }
    const double sum = fc_sum(m->full, m->row);
    if (!(sum > FAINT)) return 0;
    fc_scale(m->full, 1.0 / sum, m->row);
    *mass = K == LOG_PLUS ? top + log(sum) : sum;
    return 1;
}

/* May a span of some type that begins at token t be of interest? m->row has the shares of its cells. */
static int may_begin(const follower *s, const fc_segment_search *f, const tensor *m, int64_t t) {
    if (f->mode == FC_ASKED) return s->cursor < f->asked && f->span[3 * s->cursor] == t;
    for (int64_t k = 0; k < s->labels->types; k++) {
        double share = 0.0;
        for (int64_t i = s->base[k]; i < s->base[k] + s->count[k]; i++) share += m->row[s->cell[i]];
        if (share > f->floor * SLACK) return 1;
    }
    return 0;
}

static void open_lane(follower *s, int64_t k, int64_t t, int64_t next, int64_t stop) {
    const int64_t lane = s->open[k]++, place = k * s->W + lane;
    double *x = s->x + s->base[k] * s->W + lane;
    for (int64_t i = 0; i < s->count[k]; i++) x[i * s->W] = s->begun[s->cell[s->base[k] + i]];
    s->start[place] = t;
    s->next[place] = next;
    s->stop[place] = stop;
}

/* Opens a lane for what begins at token t, where more than the floor begins. */
static void open_above(follower *s, semiring K, double floor, int64_t t, const double *G,
                       double mass) {
    for (int64_t k = 0; k < s->labels->types; k++) {
        double sum = 0.0;
        for (int64_t i = s->base[k]; i < s->base[k] + s->count[k]; i++) {
            const double u = s->begun[s->cell[i]], g = G[s->cell[i]];
            sum += K == SUM_TIMES ? u * g : fc_exp(u + g - mass);
        }
        if (K == SUM_TIMES) sum /= mass;
        if (sum > floor * SLACK && s->open[k] < s->W) open_lane(s, k, t, 0, 0);
    }
}

static void open_asked(follower *s, const fc_segment_search *f, int64_t t) {
    while (s->cursor < f->asked && f->span[3 * s->cursor] == t) {
        const int32_t k = f->span[3 * s->cursor + 2];
        const int64_t next = s->cursor;
        while (s->cursor < f->asked && f->span[3 * s->cursor] == t &&
               f->span[3 * s->cursor + 2] == k)
            s->cursor++;
        if (s->open[k] < s->W) open_lane(s, k, t, next, s->cursor);
    }
}

/* All that is open is one lane: spans are counted, not told apart. */
static void open_merged(follower *s, semiring K) {
    for (int64_t k = 0; k < s->labels->types; k++) {
        double *x = s->x + s->base[k] * s->W;
        for (int64_t i = 0; i < s->count[k]; i++) {
            const double u = s->begun[s->cell[s->base[k] + i]];
            double *cell = x + i * s->W;
            *cell = s->open[k] == 0 ? u : K == SUM_TIMES ? *cell + u : log_add(*cell, u);
        }
        s->open[k] = 1;
    }
}

/* Gives up what does not go on, and opens what begins at token t. */
static void open_spans(follower *s, semiring K, const fc_segment_search *f, int64_t t,
                       const double *G, double mass, int begins) {
    for (int64_t k = 0; k < s->labels->types; k++) {
        if (f->mode == FC_COUNTED || s->open[k] == 0) continue;
        if (f->mode == FC_ABOVE) weigh_lanes(s, K, k, G, mass, 0);
        keep_lanes(s, k, f->mode == FC_ABOVE ? f->floor * SLACK : -1.0);
    }
    if (!begins) return;
    if (f->mode == FC_ABOVE) {
        open_above(s, K, f->floor, t, G, mass);
    } else if (f->mode == FC_ASKED) {
        open_asked(s, f, t);
    } else {
        open_merged(s, K);
    }
}

/* Does any open span count that ends before token `end`? */
static int may_end(const follower *s, const fc_segment_search *f, int64_t end) {
    for (int64_t k = 0; k < s->labels->types; k++) {
        if (s->open[k] > 0 && f->mode != FC_ASKED) return 1;
        for (int64_t l = k * s->W; l < k * s->W + s->open[k]; l++)
            if (f->span[3 * s->next[l] + 1] == end) return 1;
    }
    return 0;
}

static inline double at_most_one(double p) { return p > 1.0 ? 1.0 : p; }

/* Writes down the spans that end before token `end`; `row` closes them. */
static fc_status close_spans(follower *s, semiring K, fc_segment_search *f, int64_t end,
                             const double *row, double mass) {
    for (int64_t k = 0; k < s->labels->types; k++) {
        if (s->open[k] == 0) continue;
        weigh_lanes(s, K, k, row, mass, 1);
        for (int64_t l = 0; l < s->open[k]; l++) {
            const int64_t place = k * s->W + l;
            if (f->mode == FC_COUNTED) {
                f->probability[k] += s->value[l];
            } else if (f->mode == FC_ASKED) {
                if (f->span[3 * s->next[place] + 1] == end)
                    f->probability[s->next[place]++] = at_most_one(s->value[l]);
            } else if (s->value[l] > f->floor) {
                if (f->found == f->room) return FC_EFULL;
                f->probability[f->found] = at_most_one(s->value[l]);
                f->span[3 * f->found] = (int32_t)s->start[place];
                f->span[3 * f->found + 1] = (int32_t)end;
                f->span[3 * f->found++ + 2] = (int32_t)k;
            }
        }
    }
    return FC_OK;
}

/* A step of all axes with other weights of the spans' axis: x -> m->x. */
static void masked_axes(follower *s, tensor *m, semiring K, direction d, const double *x) {
    loaded_axis *a = &m->axis[s->labels->axis];
    double *weight = a->weight, *turned = a->turned;
    a->weight = d == FORWARD ? s->begin : s->close;
    if (turned != NULL) a->turned = s->turned;
    all_axes(m, K, d, x);
    a->weight = weight;
    a->turned = turned;
}

/* s->begun of a sentence's first token. */
static void first_spans(follower *s, const tensor *m, semiring K) {
    const fc_segments *g = s->labels;
    spread_ends(m, K, m->initial, m->ends[0], s->begun);
    const loaded_axis *a = &m->axis[g->axis];
    const int64_t post = a->last ? 1 : m->outer / a->pre / a->S * m->S;
    for (int64_t i = 0; i < s->cells; i++) {
        const int64_t cell = s->cell[i], joint = cell / m->P * m->S + cell % m->P;
        if (!g->first[joint / post % a->S]) s->begun[cell] = none(K);
    }
}

/* F' from F; returns what the row was scaled with. */
static double read_row(tensor *m, semiring K, const double *node) {
    times_plane(m, K, m->x, node, m->x);
    if (m->machine->residual != NULL) {
        residual_step(m, K, FORWARD, m->x, m->y);
        double *swap = m->x;
        m->x = m->y;
        m->y = swap;
    }
    if (K != SUM_TIMES) return 0.0;
    const double sum = fc_sum(m->full, m->x);
    if (!(sum > 0.0)) return 1.0;
    fc_scale(m->full, 1.0 / sum, m->x);
    return 1.0 / sum;
}

/* The last token of a sentence: what is open ends with it. */
static fc_status end_sentence(follower *s, tensor *m, semiring K, fc_segment_search *f, int64_t T) {
    double mass;
    memcpy(s->read, m->x, (size_t)m->full * sizeof *m->x);
    spread_ends(m, K, m->final, m->ends[1], s->ahead);
    if (!share_out(m, K, s->read, s->ahead, &mass)) return FC_ERANGE;
    return close_spans(s, K, f, T, s->ahead, mass);
}

/* From token t, which is read, to the next one, of which G is known. */
static fc_status next_token(follower *s, tensor *m, semiring K, fc_segment_search *f, int64_t token,
                            int64_t t, const double *G, double scale, const double *node,
                            double *mass, int *begins) {
    const size_t bytes = (size_t)m->full * sizeof *m->x;
    memcpy(s->read, m->x, bytes);
    load_arcs(m, K, token + 1);
    if (m->axis[s->labels->axis].axis->moving) part_weights(s, m, K);
    all_axes(m, K, FORWARD, s->read);
    if (K == SUM_TIMES && any_lost(m)) return FC_ERANGE;
    memcpy(s->ahead, m->x, bytes);
    if (!share_out(m, K, s->ahead, G, mass)) return FC_ERANGE;
    *begins = may_begin(s, f, m, t + 1);
    for (int64_t k = 0; k < s->labels->types; k++)
        if (s->open[k] > 0) read_lanes(s, m, K, k, node, scale);
    if (may_end(s, f, t + 1)) {
        masked_axes(s, m, K, BACKWARD, G);
        memcpy(s->token, m->x, bytes);
        const fc_status status = close_spans(s, K, f, t + 1, s->token, *mass);
        if (status != FC_OK) return status;
    }
    for (int64_t d = 0; d < m->n; d++) {
        for (int64_t k = 0; k < s->labels->types; k++)
            if (s->open[k] > 0) step_lanes(s, m, K, k, d);
        double *swap = s->x;
        s->x = s->y;
        s->y = swap;
    }
    if (*begins) {
        masked_axes(s, m, K, FORWARD, s->read);
        memcpy(s->begun, m->x, bytes);
    }
    memcpy(m->x, s->ahead, bytes);
    return FC_OK;
}

/* F and the lanes go where the next block finds them. */
static void keep_for_next(follower *s, const tensor *m) {
    memcpy(s->before, m->x, (size_t)m->full * sizeof *m->x);
    if (s->x == s->kept) return;
    for (int64_t k = 0; k < s->labels->types; k++)
        for (int64_t i = s->base[k]; i < s->base[k] + s->count[k]; i++)
            memcpy(s->kept + i * s->W, s->x + i * s->W, (size_t)s->open[k] * sizeof *s->x);
}

/* The block's tokens, whose suffixes are there. */
static fc_status follow(follower *s, tensor *m, semiring K, const fc_block *b,
                        fc_segment_search *f) {
    double mass;
    int begins = 1;
    part_weights(s, m, K);
    if (b->t == 0) {
        spread_ends(m, K, m->initial, m->ends[0], m->x);
        for (int64_t k = 0; k < s->labels->types; k++) s->open[k] = 0;
        first_spans(s, m, K);
    } else {
        memcpy(m->x, s->before, (size_t)m->full * sizeof *m->x);
    }
    if (!share_out(m, K, m->x, m->suffix, &mass)) return FC_ERANGE;
    if (b->t > 0) begins = may_begin(s, f, m, b->t);
    for (int64_t i = 0; i < b->n; i++) {
        const double *node = m->node + i * m->plane;
        open_spans(s, K, f, b->t + i, m->suffix + i * m->full, mass, begins);
        forget_underflow(); /* what a lane loses is harmless */
        const double scale = read_row(m, K, node);
        if (i + 1 == b->n && sentence_ends(b)) {
            for (int64_t k = 0; k < s->labels->types; k++)
                if (s->open[k] > 0) read_lanes(s, m, K, k, node, scale);
            return end_sentence(s, m, K, f, b->t + b->n);
        }
        const double *G = m->suffix + (i + 1) * m->full;
        const fc_status status =
            next_token(s, m, K, f, b->first + i, b->t + i, G, scale, node, &mass, &begins);
        if (status != FC_OK) return status;
    }
    keep_for_next(s, m);
    return FC_OK;
}

static void prepare(follower *s, tensor *m, const fc_machine *machine, const fc_segments *labels,
                    int64_t n, int64_t lanes, double *memory, double *work) {
    work += lay_out_block(m, machine, n, work);
    lay_out_lanes(s, m, labels, lanes, memory);
    work += lay_out_scratch(s, m, work);
    const loaded_axis *a = &m->axis[labels->axis];
    sort_states(s, a, m->P, take_longs(&work, a->S));
    list_cells(s, m);
}

/* --- Entry points --------------------------------------------------------------------------------- */

/* Types of the ends of arcs agree with what the arcs do, and every type has a state. */
static int segments_ok(const fc_machine *machine, const fc_segments *g) {
    if (g->axis < 0 || g->axis >= machine->axes || g->types < 1) return 0;
    const fc_axis *a = &machine->axis[g->axis];
    if (g->types > a->S) return 0;
    for (int64_t k = 0; k < g->types; k++) {
        int64_t i = 0;
        while (i < a->S && g->type[i] != k) i++;
        if (i == a->S) return 0;
    }
    for (int64_t i = 0; i < a->S; i++)
        if (g->type[i] < -1 || g->type[i] >= g->types) return 0;
    const int64_t arcs = a->A == 0 ? a->S * a->S : a->A;
    for (int64_t k = 0; k < arcs; k++) {
        const int32_t from = g->type[a->A == 0 ? k / a->S : a->source[k]];
        const int32_t to = g->type[a->A == 0 ? k % a->S : a->target[k]];
        if (g->arc[k] > FC_CARRIES || (g->arc[k] == FC_OPENS && to < 0)) return 0;
        if (g->arc[k] == FC_CARRIES && (from < 0 || from != to)) return 0;
    }
    return 1;
}

static int search_ok(const fc_segments *g, const fc_segment_search *f, int64_t begin, int64_t end) {
    if (f->lanes < 1 || f->room < 0 || f->found < 0 || !(f->floor >= 0.0)) return 0;
    if (f->mode != FC_ASKED) return f->mode == FC_ABOVE || f->mode == FC_COUNTED;
    if (begin < 0 || begin > end || end > f->room) return 0;
    for (int64_t i = begin; i < end; i++) {
        const int32_t *s = f->span + 3 * i;
        if (s[0] < 0 || s[0] >= s[1] || s[2] < 0 || s[2] >= g->types) return 0;
        if (i == begin || s[-3] < s[0]) continue;
        if (s[-3] > s[0] || s[-1] > s[2] || (s[-1] == s[2] && s[-2] >= s[1])) return 0;
    }
    return 1;
}

int64_t fc_segment_memory(const fc_machine *machine, const fc_segments *labels, int64_t lanes) {
    tensor m;
    follower s;
    lay_out_block(&m, machine, 1, NULL);
    return lay_out_lanes(&s, &m, labels, lanes, NULL);
}

int64_t fc_segment_work(const fc_machine *machine, const fc_segments *labels, int64_t lanes,
                        int64_t n) {
    tensor m;
    follower s;
    const int64_t size = lay_out_block(&m, machine, n, NULL);
    lay_out_lanes(&s, &m, labels, lanes, NULL);
    return size + lay_out_scratch(&s, &m, NULL) + fc_padded(m.axis[labels->axis].S);
}

fc_status fc_block_segments(const fc_machine *machine, const fc_block *b, const fc_segments *labels,
                            fc_segment_search *f, double *memory, double *work) {
    if (!block_ok(b) || b->kind == FC_BEST || !segments_ok(machine, labels) ||
        !search_ok(labels, f, f->cursor, f->asked))
        return FC_EINVAL;
    tensor m;
    follower s = {0};
    double total = 0.0;
    const semiring K = b->kind == FC_SUM ? SUM_TIMES : LOG_PLUS;
    prepare(&s, &m, machine, labels, b->n, f->lanes, memory, work);
    s.cursor = f->cursor;
    if (block_backward(&m, K, b, &total) != DONE) return FC_ERANGE;
    const fc_status status = follow(&s, &m, K, b, f);
    f->cursor = s.cursor;
    return status;
}

/* One sentence of a batch, whole. */
static fc_status whole_sentence(follower *s, tensor *m, semiring K, const fc_block *b,
                                fc_segment_search *f, double *log_z) {
    const outcome result = block_backward(m, K, b, log_z);
    if (result == LOST) return FC_ERANGE;
    return result == NO_PATH ? FC_OK : follow(s, m, K, b, f);
}

fc_status fc_machine_segments(const fc_machine *machine, int64_t B, const int64_t *offsets,
                              const fc_segments *labels, const int64_t *asked, fc_segment_search *f,
                              int64_t *ends, double *log_z, double *memory, double *work,
                              int64_t *where) {
    const fc_status bounds = check_bounds(B, offsets, where);
    if (bounds != FC_OK) return bounds;
    if (!segments_ok(machine, labels) || (f->mode == FC_ASKED) != (asked != NULL)) return FC_EINVAL;
    for (int64_t b = 0; b < B; b++)
        if (!search_ok(labels, f, asked == NULL ? 0 : asked[b], asked == NULL ? 0 : asked[b + 1]))
            return fail(FC_EINVAL, b, where);
    tensor m;
    follower s = {0};
    int64_t longest = 1;
    for (int64_t i = 0; i < B; i++)
        longest = offsets[i + 1] - offsets[i] > longest ? offsets[i + 1] - offsets[i] : longest;
    prepare(&s, &m, machine, labels, longest, f->lanes, memory, work);
    for (int64_t i = 0; i < B; i++) {
        const fc_block b = {.first = offsets[i], .n = offsets[i + 1] - offsets[i]};
        const int64_t found = f->found;
        fc_segment_search own = *f;
        own.asked = asked == NULL ? 0 : asked[i + 1];
        s.cursor = asked == NULL ? 0 : asked[i];
        if (f->mode == FC_COUNTED) own.probability = f->probability + i * labels->types;
        fc_status status = whole_sentence(&s, &m, SUM_TIMES, &b, &own, log_z + i);
        if (status == FC_ERANGE) {
            own.found = found;
            s.cursor = asked == NULL ? 0 : asked[i];
            if (f->mode == FC_COUNTED) fc_fill(labels->types, 0.0, own.probability);
            status = whole_sentence(&s, &m, LOG_PLUS, &b, &own, log_z + i);
        }
        if (status != FC_OK) return status;
        f->found = ends[i] = own.found;
    }
    return FC_OK;
}
