/* SPDX-License-Identifier: Apache-2.0
 *
 * Probabilities of spans of one axis. A span is opened by an arc, carried by arcs and closed by any other
 * arc (or the end), so with the recursion of recursion.h, F' being F after token t has been read,
 *
 *   U_s       = F'_{s-1} along the arcs that open a span        (at the beginning: initial)
 *   U_{t+1}   = U'_t along the arcs that carry one
 *   C_t       = G_{t+1} back along the arcs that do not carry   (at the end: final)
 *   P(s .. t open) = U_t (x) G_t / Z      P(s .. t) = U'_t (x) C_t / Z    in cells in which a span may
 *                                         end
 *
 * Spans that are open at a token exclude each other, so at most 1/p of them have the probability p.
 * They are processed in lanes, see lanes.h. */

#include "checks.h"
#include "lanes.h"

/* --- Along a sentence ------------------------------------------------------------------------ */

/* Whether a relevant span may begin at token t: s->likely marks its types. m->row has the shares of the
 * cells. */
static int may_begin(follower *s, const fc_segment_search *f, const tensor *m, int64_t t) {
    int any = 0;
    if (f->mode == FC_ASKED) {
        for (int64_t k = 0; k < s->labels->types; k++) s->likely[k] = 0;
        for (int64_t c = s->cursor; c < f->asked && f->span[3 * c] == t; c++, any = 1)
            s->likely[f->span[3 * c + 2]] = 1;
        return any;
    }
    for (int64_t k = 0; k < s->labels->types; k++) {
        double share = 0.0;
        for (int64_t i = s->base[k]; i < s->base[k] + s->count[k]; i++) share += m->row[s->cell[i]];
        s->likely[k] = share > f->floor * SLACK;
        any |= s->likely[k] != 0;
    }
    return any;
}

static void open_lane(follower *s, int64_t k, int64_t t, int64_t next, int64_t stop) {
    const int64_t lane = s->open[k]++, place = k * s->W + lane;
    double *x = s->x + s->base[k] * s->W + lane;
    for (int64_t i = 0; i < s->count[k]; i++) x[i * s->W] = s->begun[s->cell[s->base[k] + i]];
    s->start[place] = t;
    s->next[place] = next;
    s->stop[place] = stop;
}

/* Opens a lane for the spans that begin at token t, if their probability exceeds the floor. */
FC_INLINE void open_above(follower *s, semiring K, double floor, int64_t t,
                          const double *restrict G, double mass) {
    const double share = 1.0 / mass;
    for (int64_t k = 0; k < s->labels->types; k++) {
        const int64_t *restrict cell = s->cell + s->base[k];
        double sum = 0.0;
        if (!s->likely[k]) continue;
        for (int64_t i = 0; i < s->count[k]; i++) {
            const double u = s->begun[cell[i]], g = G[cell[i]];
            sum += K == SUM_TIMES ? u * g : fc_exp(u + g - mass);
        }
        if (K == SUM_TIMES) sum *= share;
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

/* Adds all open spans of a type in one lane: they are counted, not distinguished. */
FC_INLINE void open_merged(follower *s, semiring K) {
    for (int64_t k = 0; k < s->labels->types; k++) {
        double *x = s->x + s->base[k] * s->W;
        if (!s->likely[k]) continue;
        for (int64_t i = 0; i < s->count[k]; i++) {
            const double u = s->begun[s->cell[s->base[k] + i]];
            double *cell = x + i * s->W;
            *cell = s->open[k] == 0 ? u : K == SUM_TIMES ? *cell + u : log_add(*cell, u);
        }
        s->open[k] = 1;
    }
}

FC_INLINE void open_spans(follower *s, semiring K, const fc_segment_search *f, int64_t t,
                          const double *G, double mass) {
    if (f->mode == FC_ABOVE) {
        open_above(s, K, f->floor, t, G, mass);
    } else if (f->mode == FC_ASKED) {
        open_asked(s, f, t);
    } else {
        open_merged(s, K);
    }
}

/* Whether spans are open, and for given spans whether one ends before token `end`. */
static int may_end(const follower *s, const fc_segment_search *f, int64_t end) {
    int open = 0, counts = f->mode != FC_ASKED;
    for (int64_t k = 0; k < s->labels->types; k++) {
        open |= s->open[k] > 0;
        for (int64_t l = k * s->W; !counts && l < k * s->W + s->open[k]; l++)
            counts = f->span[3 * s->next[l] + 1] == end;
    }
    return open && counts;
}

static inline double at_most_one(double p) { return p > 1.0 ? 1.0 : p; }

/* Writes the spans of a type that end before token `end`: their shares are in s->value. */
static fc_status write_spans(follower *s, fc_segment_search *f, int64_t k, int64_t end) {
    for (int64_t l = 0; l < s->open[k]; l++) {
        const int64_t place = k * s->W + l;
        if (f->mode == FC_COUNTED) {
            f->probability[k] += s->value[l];
        } else if (f->mode == FC_ASKED) {
            if (f->span[3 * s->next[place] + 1] == end)
                f->probability[s->next[place]++] = at_most_one(s->value[l]);
        } else if (at_most_one(s->value[l]) > f->floor) {
            if (f->found == f->room) return FC_EFULL;
            f->probability[f->found] = at_most_one(s->value[l]);
            f->span[3 * f->found] = (int32_t)s->start[place];
            f->span[3 * f->found + 1] = (int32_t)end;
            f->span[3 * f->found++ + 2] = (int32_t)k;
        }
    }
    return FC_OK;
}

/* A step of all axes with other weights of the spans' axis: x -> m->x. */
static void masked_axes(follower *s, tensor *m, semiring K, direction d, const double *x) {
    loaded_axis *a = &m->axis[s->labels->axis];
    double *weight = a->weight, *turned = a->turned;
    const int full = a->full;
    a->weight = d == FORWARD ? s->begin : s->close;
    if (turned != NULL) a->turned = s->turned;
    a->full = 0;
    all_axes(m, K, d, x);
    a->weight = weight;
    a->turned = turned;
    a->full = full;
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

/* F' from F; returns the scale of the row. */
static double read_row(tensor *m, semiring K, const double *node) {
    times_plane(m, K, m->x, node, m->x);
    move_residual(m, K);
    if (K != SUM_TIMES) return 0.0;
    const double sum = fc_sum(m->full, m->x);
    FC_ASSERT(!isnan(sum) || any_lost(m));
    if (!(sum > 0.0)) return 1.0;
    fc_scale(m->full, 1.0 / sum, m->x);
    return 1.0 / sum;
}

/* The last token of a sentence: all open spans end there. */
FC_INLINE fc_status end_sentence(follower *s, tensor *m, semiring K, fc_segment_search *f,
                                 int64_t T, const double *node, double scale) {
    double mass;
    memcpy(s->read, m->x, (size_t)m->full * sizeof *m->x);
    spread_ends(m, K, m->final, m->ends[1], s->ahead);
    if (!cell_posteriors(m, K, s->read, s->ahead, &mass)) return FC_ERANGE;
    for (int64_t k = 0; k < s->labels->types; k++) {
        if (s->open[k] == 0) continue;
        read_lanes(s, m, K, k, node, scale);
        weigh_lanes(s, K, k, s->ahead, mass, 1, s->value);
        const fc_status status = write_spans(s, f, k, T);
        if (status != FC_OK) return status;
    }
    return FC_OK;
}

/* State between two tokens. */
typedef struct {
    int64_t t;          /* position of the second one */
    const double *node; /* potentials of the first one, and the scale of F there */
    double scale;
    const double *before; /* suffix of the first one, and 1 / its F (x) G */
    double passing;
    const double *G; /* suffix of the second one, its F (x) G, and 1 / it */
    double mass, share;
    int ends;            /* spans may end between them */
    const double *close; /* weights of spans that end there, unless the machine is plain */
} between;

/* --- One axis, linear, no residual automaton ------------------------------------------------------
 *
 * Reading, stepping and weighing are one linear map of a type's few states. The share that ends or
 * begins between two tokens is the total minus the carried share:
 *
 *   ends in i     U_t[i] (G_t[i] / mass_t - sum over carrying arcs i -> j)
 *   begins in j   F_{t+1}[j] - sum over carrying arcs i -> j of F'_t[i]
 *
 * If most is carried, the difference would be rounding error, and the other arcs are summed instead. */
#define MOST 0.5

static int is_plain(const tensor *m, semiring K) {
    return m->n == 1 && K == SUM_TIMES && m->machine->residual == NULL;
}

static inline const double *plain_weights(const tensor *m) {
    const loaded_axis *a = &m->axis[0];
    return a->weight + (a->axis->place == NULL ? 0 : a->axis->place[0]) * a->size;
}

/* Sum over the arcs that open a span in a state, or the arcs that leave it and do not carry; x: weights
 * of their other ends. */
static double sum_arcs(follower *s, const tensor *m, int64_t state, int opening, const double *x) {
    const loaded_axis *a = &m->axis[0];
    const uint8_t *kind = s->labels->arc;
    const double *weight = plain_weights(m);
    double sum = 0.0;
    if (a->dense) {
        const int64_t first = opening ? state : state * a->S, step = opening ? a->S : 1;
        memcpy(s->token, (opening ? a->turned : weight) + state * m->P, (size_t)m->P * sizeof sum);
        for (int64_t i = 0; i < a->S; i++) {
            const uint8_t own = kind[first + i * step];
            s->token[i] = (opening ? own == FC_OPENS : own != FC_CARRIES) ? s->token[i] : 0.0;
        }
        return fc_dot(m->P, s->token, x);
    }
    const int64_t *row = a->axis->row + state;
    for (int64_t k = opening ? 0 : row[0]; k < (opening ? a->arcs : row[1]); k++) {
        if (!opening && kind[k] != FC_CARRIES) sum += weight[k] * x[a->axis->target[k]];
        if (opening && a->axis->target[k] == state && kind[k] == FC_OPENS)
            sum += weight[k] * x[a->axis->source[k]];
    }
    return sum;
}

/* s->begun: the likely spans that begin at the second of two tokens; F' of the first, F of the second. */
static void begin_plain(follower *s, const tensor *m, const double *read, const double *ahead) {
    const double *restrict weight = plain_weights(m);
    const int64_t *restrict into = s->into, *restrict from = s->from, *restrict arc = s->arc;
    double *restrict begun = s->begun;
    for (int64_t k = 0; k < s->labels->types; k++) {
        const int64_t first = s->base[k], size = s->count[k], *restrict cell = s->cell + first;
        if (!s->likely[k]) continue;
        for (int64_t i = 0; i < size; i++) {
            const double all = ahead[cell[i]];
            double carried = 0.0;
            for (int64_t e = into[first + i]; e < into[first + i + 1]; e++)
                carried += read[cell[from[e]]] * weight[arc[e]];
            begun[cell[i]] = s->only[first + i] && carried <= MOST * all
                                 ? all - carried
                                 : sum_arcs(s, m, cell[i], 1, read);
        }
    }
}

/* s->along, s->on, s->shut: weights of carrying arcs, and shares that continue and that end. */
static void weigh_plain(follower *s, const tensor *m, int64_t k, const between *w) {
    const double *restrict weight = plain_weights(m), *restrict G = w->G;
    const int64_t first = s->base[k], size = s->count[k], *restrict cell = s->cell + first;
    const int64_t *restrict leave = s->leave + first, *restrict order = s->order;
    double *restrict along = s->along, *restrict on = s->on, *restrict shut = s->shut;
    for (int64_t i = 0; i < size; i++) {
        const double read = w->node[cell[i]] * w->scale, all = w->before[cell[i]] * w->passing;
        double goes = 0.0;
        for (int64_t x = leave[i]; x < leave[i + 1]; x++) {
            const int64_t e = order[x];
            along[e] = read * weight[s->arc[e]];
            goes += along[e] * G[cell[s->to[e]]];
        }
        on[i] = goes *= w->share;
        shut[i] = 0.0;
        if (!w->ends || !s->ends[first + i]) continue;
        shut[i] = goes <= MOST * all ? all - goes : read * w->share * sum_arcs(s, m, cell[i], 0, G);
    }
}

typedef double eight __attribute__((vector_size(8 * FC_LANES), aligned(8), may_alias));

/* s->value, s->mass: shares of the spans that end and of the spans that continue. */
static void carry_plain(follower *s, const tensor *m, int64_t k, const between *w) {
    const int64_t first = s->base[k], size = s->count[k], W = s->W;
    const int64_t *restrict into = s->into + first, *restrict from = s->from;
    const double *restrict along = s->along, *restrict on = s->on, *restrict shut = s->shut;
    weigh_plain(s, m, k, w);
    for (int64_t l = 0; l < s->open[k]; l += FC_LANES) {
        const double *restrict x = s->x + first * W + l;
        double *restrict y = s->y + first * W + l;
        eight ends = {0}, goes = {0};
        for (int64_t i = 0; i < size; i++) {
            const eight u = *(const eight *)(x + i * W);
            ends += u * shut[i];
            goes += u * on[i];
        }
        *(eight *)(s->value + l) = ends;
        *(eight *)(s->mass + l) = goes;
        for (int64_t j = 0; j < size; j++) {
            eight sum = {0};
            for (int64_t e = into[j]; e < into[j + 1]; e++)
                sum += *(const eight *)(x + from[e] * W) * along[e];
            *(eight *)(y + j * W) = sum;
        }
    }
}

/* --- Any machine ------------------------------------------------------------------------------- */

/* The same for any machine; afterwards lanes are in s->x, which is the scratch if the number of axes is
   odd. */
FC_INLINE void carry_any(follower *s, const tensor *m, semiring K, int64_t k, const between *w) {
    double *const x = s->x, *const y = s->y;
    read_lanes(s, m, K, k, w->node, w->scale);
    if (w->close != NULL) weigh_lanes(s, K, k, w->close, w->mass, 1, s->value);
    for (int64_t d = 0; d < m->n; d++) {
        step_lanes(s, m, K, k, d);
        fc_swap(&s->x, &s->y);
    }
    weigh_lanes(s, K, k, w->G, w->mass, 0, s->mass);
    s->x = x;
    s->y = y;
}

FC_INLINE fc_status carry(follower *s, const tensor *m, semiring K, fc_segment_search *f,
                          const between *w) {
    const int plain = is_plain(m, K);
    const double floor = f->mode == FC_ABOVE ? f->floor * SLACK : -1.0;
    for (int64_t k = 0; k < s->labels->types; k++) {
        if (s->open[k] == 0) continue;
        if (plain) {
            carry_plain(s, m, k, w);
        } else {
            carry_any(s, m, K, k, w);
        }
        const fc_status status = w->ends ? write_spans(s, f, k, w->t) : FC_OK;
        if (status != FC_OK) return status;
        if (f->mode != FC_COUNTED) keep_lanes(s, k, floor, m->n % 2 == 1 ? s->y : s->x);
    }
    if (m->n % 2 == 1) {
        fc_swap(&s->x, &s->y);
    }
    return FC_OK;
}

/* From token t, which has been read, to the next one, whose G is known. */
FC_INLINE fc_status next_token(follower *s, tensor *m, semiring K, fc_segment_search *f,
                               int64_t token, between *w) {
    const size_t bytes = (size_t)m->full * sizeof *m->x;
    const int plain = is_plain(m, K); /* one step exchanges x and y */
    load_arcs(m, K, token + 1);
    if (!plain) memcpy(s->read, m->x, bytes);
    if (!plain && m->axis[s->labels->axis].axis->moving) part_weights(s, m, K);
    all_axes(m, K, FORWARD, plain ? m->x : s->read);
    if (!plain) memcpy(s->ahead, m->x, bytes);
    if (K == SUM_TIMES && any_lost(m)) return FC_ERANGE;
    if (!cell_posteriors(m, K, m->x, w->G, &w->mass)) return FC_ERANGE;
    w->share = 1.0 / w->mass;
    const int begins = may_begin(s, f, m, w->t);
    w->ends = may_end(s, f, w->t);
    if (w->ends && !plain) {
        masked_axes(s, m, K, BACKWARD, w->G);
        memcpy(s->token, m->x, bytes);
        w->close = s->token;
    }
    const fc_status status = carry(s, m, K, f, w);
    if (status != FC_OK) return status;
    if (begins && plain) begin_plain(s, m, m->y, m->x);
    if (begins && !plain) {
        masked_axes(s, m, K, FORWARD, s->read);
        memcpy(s->begun, m->x, bytes);
    }
    if (begins) open_spans(s, K, f, w->t, w->G, w->mass);
    if (!plain) memcpy(m->x, s->ahead, bytes);
    return FC_OK;
}

static void keep_for_next(follower *s, const tensor *m) {
    memcpy(s->before, m->x, (size_t)m->full * sizeof *m->x);
    if (s->x == s->kept) return;
    for (int64_t k = 0; k < s->labels->types; k++)
        for (int64_t i = s->base[k]; i < s->base[k] + s->count[k]; i++)
            memcpy(s->kept + i * s->W, s->x + i * s->W, (size_t)s->open[k] * sizeof *s->x);
}

/* F of the first token, its F (x) G, and the spans open there. */
static fc_status enter_block(follower *s, tensor *m, semiring K, const fc_block *b,
                             const fc_segment_search *f, double *mass) {
    if (!is_plain(m, K)) part_weights(s, m, K);
    fc_fill(s->cells * s->W, none(K), s->y);
    if (b->t > 0) {
        memcpy(m->x, s->before, (size_t)m->full * sizeof *m->x);
        return cell_posteriors(m, K, m->x, m->suffix, mass) ? FC_OK : FC_ERANGE;
    }
    for (int64_t k = 0; k < s->labels->types; k++) s->open[k] = 0;
    fc_fill(s->cells * s->W, none(K), s->x);
    spread_ends(m, K, m->initial, m->ends[0], m->x);
    first_spans(s, m, K);
    if (!cell_posteriors(m, K, m->x, m->suffix, mass)) return FC_ERANGE;
    may_begin(s, f, m, 0);
    open_spans(s, K, f, 0, m->suffix, *mass);
    return FC_OK;
}

/* The block's tokens, whose suffixes are known. */
FC_INLINE fc_status follow_in(follower *s, tensor *m, const semiring K, const fc_block *b,
                              fc_segment_search *f) {
    double mass = 0.0;
    fc_status status = enter_block(s, m, K, b, f, &mass);
    for (int64_t i = 0; status == FC_OK && i < b->n; i++) {
        const double *node = m->node + i * m->plane, *G = m->suffix + i * m->full;
        forget_underflow(); /* an underflow in a lane is harmless */
        const double scale = read_row(m, K, node);
        if (i + 1 == b->n && sentence_ends(b))
            return end_sentence(s, m, K, f, b->t + b->n, node, scale);
        between w = {.t = b->t + i + 1,
                     .node = node,
                     .scale = scale,
                     .before = G,
                     .passing = 1.0 / mass,
                     .G = G + m->full};
        status = next_token(s, m, K, f, b->first + i, &w);
        mass = w.mass;
    }
    if (status == FC_OK) keep_for_next(s, m);
    return status;
}

FC_APART fc_status follow(follower *s, tensor *m, semiring K, const fc_block *b,
                          fc_segment_search *f) {
    return K == SUM_TIMES ? follow_in(s, m, SUM_TIMES, b, f) : follow_in(s, m, LOG_PLUS, b, f);
}

static void prepare(follower *s, tensor *m, const fc_machine *machine, const fc_segments *labels,
                    int64_t n, int64_t lanes, double *work) {
    lay_out_block(m, machine, n, NULL); /* its sizes: persistent memory is first */
    work += lay_out_lanes(s, m, labels, lanes, work);
    work += lay_out_block(m, machine, n, work);
    m->whole = 1;
    work += lay_out_scratch(s, m, work);
    const loaded_axis *a = &m->axis[labels->axis];
    sort_states(s, a, m->P, take_longs(&work, a->S));
    list_cells(s, m);
}

/* --- Entry points --------------------------------------------------------------------------------- */

/* Whether the kind of an arc contradicts the types of its ends. */
FC_INLINE int arc_odd(int32_t kind, int32_t from, int32_t to) {
    return (kind > FC_CARRIES) | ((kind == FC_OPENS) & (to < 0)) |
           ((kind == FC_CARRIES) & ((from < 0) | (from != to)));
}

/* Whether the kinds of arcs agree with the types of their ends, and every type has a state. */
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
    int bad = 0;
    for (int64_t i = 0; a->A == 0 && i < a->S; i++)
        for (int64_t j = 0; j < a->S; j++)
            bad |= arc_odd(g->arc[i * a->S + j], g->type[i], g->type[j]);
    for (int64_t k = 0; k < a->A; k++)
        bad |= arc_odd(g->arc[k], g->type[a->source[k]], g->type[a->target[k]]);
    return !bad;
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

int64_t fc_segment_work(const fc_machine *machine, const fc_segments *labels, int64_t lanes,
                        int64_t n) {
    tensor m;
    follower s;
    int64_t size = lay_out_block(&m, machine, n, NULL);
    size += lay_out_lanes(&s, &m, labels, lanes, NULL);
    return size + lay_out_scratch(&s, &m, NULL) + fc_padded(m.axis[labels->axis].S);
}

fc_status fc_block_segments(const fc_machine *machine, const fc_block *b, const fc_segments *labels,
                            fc_segment_search *f, double *work) {
    if (!block_ok(b) || b->kind == FC_BEST || !segments_ok(machine, labels) ||
        !search_ok(labels, f, f->cursor, f->asked))
        return FC_EINVAL;
    tensor m;
    follower s = {0};
    fc_total total = {0};
    const semiring K = b->kind == FC_SUM ? SUM_TIMES : LOG_PLUS;
    prepare(&s, &m, machine, labels, b->n, f->lanes, work);
    s.cursor = f->cursor;
    if (block_backward(&m, K, b, &total) != DONE) return FC_ERANGE;
    const fc_status status = follow(&s, &m, K, b, f);
    f->cursor = s.cursor;
    return status;
}

static fc_status follow_whole(follower *s, tensor *m, semiring K, const fc_block *b,
                              fc_segment_search *f, double *log_z) {
    fc_total total = {0};
    const outcome result = block_backward(m, K, b, &total);
    *log_z = fc_value(total);
    if (result == LOST) return FC_ERANGE;
    return result == NO_PATH ? FC_OK : follow(s, m, K, b, f);
}

fc_status fc_machine_segments(const fc_machine *machine, int64_t B, const int64_t *offsets,
                              const fc_segments *labels, const int64_t *asked, fc_segment_search *f,
                              int64_t *ends, double *log_z, double *work, int64_t *where) {
    const fc_status bounds = check_rows(B, offsets, where);
    if (bounds != FC_OK) return bounds;
    if (!segments_ok(machine, labels) || (f->mode == FC_ASKED) != (asked != NULL)) return FC_EINVAL;
    for (int64_t b = 0; b < B; b++)
        if (!search_ok(labels, f, asked == NULL ? 0 : asked[b], asked == NULL ? 0 : asked[b + 1]))
            return fail(FC_EINVAL, b, where);
    tensor m;
    follower s = {0};
    const int64_t longest = longest_of(B, offsets);
    prepare(&s, &m, machine, labels, longest > 0 ? longest : 1, f->lanes, work);
    for (int64_t i = 0; i < B; i++) {
        const fc_block b = whole_sentence(offsets[i], offsets[i + 1] - offsets[i]);
        fc_segment_search own = *f;
        fc_status status = b.n > 0 ? FC_ERANGE : FC_OK;
        log_z[i] = machine->empty;
        for (int K = SUM_TIMES; K <= LOG_PLUS && status == FC_ERANGE; K++) {
            own = *f;
            own.asked = asked == NULL ? 0 : asked[i + 1];
            s.cursor = asked == NULL ? 0 : asked[i];
            if (f->mode == FC_COUNTED) {
                own.probability = f->probability + i * labels->types;
                fc_fill(labels->types, 0.0, own.probability);
            }
            status = follow_whole(&s, &m, (semiring)K, &b, &own, log_z + i);
        }
        if (status != FC_OK) return status;
        f->found = ends[i] = own.found;
    }
    return FC_OK;
}
