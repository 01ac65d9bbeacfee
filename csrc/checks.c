/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of the input: sizes, order, indices, numbers. Compiled once. */

#include "checks.h"
#include "vec.h"

/* Beyond this, a sum over a sentence could become infinite. */
#define LARGEST 1e300

static inline int allowed(double x) { return (x <= LARGEST) & ((x >= -LARGEST) | (x == FC_NEVER)); }

/* Index of the first invalid potential, or -1. Works in blocks, so that valid input is checked with
 * vector instructions. */
int64_t fc_first_invalid(int64_t n, const double *x) {
    for (int64_t start = 0; start < n; start += 256) {
        const int64_t end = start + 256 < n ? start + 256 : n;
        int bad = 0;
        for (int64_t i = start; i < end; i++) bad |= !allowed(x[i]);
        for (int64_t i = start; bad && i < end; i++)
            if (!allowed(x[i])) return i;
    }
    return -1;
}

fc_status fc_check_rows(int64_t N, int64_t R, int64_t n_index, const int64_t *indptr,
                        const int32_t *index, int64_t *where) {
    const fc_status status = check_rows(N, indptr, where);
    if (status != FC_OK) return status;
    if (R < 0 || R > INT32_MAX || indptr[N] != n_index) return FC_EINVAL;
    return check_within(n_index, index, 0, R, where);
}

/* --- Compositions -------------------------------------------------------------------------- */

static int places_ok(int64_t n, int64_t rows, const int32_t *place) {
    int bad = rows < 1 || rows > INT32_MAX;
    for (int64_t i = 0; place != NULL && i < n; i++) bad |= place[i] < 0 || place[i] >= rows;
    return !bad;
}

/* Lists of arcs, sorted by source (and ascending targets, if required), with both ends in range. */
static int arcs_ok(int64_t S, int64_t A, const int64_t *row, const int32_t *source,
                   const int32_t *target, int rising) {
    if (row == NULL || source == NULL || target == NULL || row[0] != 0 || row[S] != A) return 0;
    for (int64_t i = 0; i < S; i++) {
        if (row[i] > row[i + 1] || row[i + 1] > A) return 0;
        for (int64_t a = row[i]; a < row[i + 1]; a++) {
            if (source[a] != i || target[a] < 0 || target[a] >= S) return 0;
            if (rising && a > row[i] && target[a - 1] >= target[a]) return 0;
        }
    }
    return 1;
}

/* Ascending targets of each source, below S. */
static int lists_ok(int64_t S, const int64_t *row, const int32_t *target) {
    if (row == NULL || target == NULL || row[0] != 0) return 0;
    for (int64_t i = 0; i < S; i++) {
        if (row[i] > row[i + 1] || row[i + 1] > row[S]) return 0;
        for (int64_t k = row[i]; k < row[i + 1]; k++)
            if (target[k] < 0 || target[k] >= S || (k > row[i] && target[k - 1] >= target[k]))
                return 0;
    }
    return 1;
}

/* Whether at most one state begins, and no labels have two edges: searches would follow the first, sums
   both. */
static int deterministic(const fc_residual *r) {
    int64_t begins = 0;
    for (int64_t q = 0; q < r->Q; q++) begins += r->initial[q] > FC_NEVER;
    if (begins > 1) return 0;
    const int64_t cells = r->rows * r->width;
    for (int64_t q = 0; q < r->Q; q++)
        for (int64_t c = 0; c < cells; c++) {
            int64_t open = 0;
            for (int64_t e = r->row[q]; e < r->row[q + 1]; e++)
                open += r->value[e * cells + c] > FC_NEVER;
            if (open > 1) return 0;
        }
    return 1;
}

/* Each state is listed once, in its class. */
static int classes_ok(int64_t S, const fc_classes *c) {
    if (c->n < 0 || c->of == NULL || c->row == NULL || c->state == NULL) return 0;
    int64_t listed = 0;
    for (int64_t j = 0; j < S; j++) {
        if (c->of[j] < -1 || c->of[j] >= c->n) return 0;
        listed += c->of[j] >= 0;
    }
    if (c->row[0] != 0 || c->row[c->n] != listed) return 0;
    for (int64_t k = 0; k < c->n; k++)
        if (c->row[k] > c->row[k + 1]) return 0;
    for (int64_t k = 0; k < c->n; k++)
        for (int64_t i = c->row[k]; i < c->row[k + 1]; i++) {
            if (c->state[i] < 0 || c->state[i] >= S || c->of[c->state[i]] != k) return 0;
            if (i > c->row[k] && c->state[i - 1] >= c->state[i]) return 0;
        }
    return 1;
}

static fc_status check_classes(const fc_axis *a) {
    if (a->leave == NULL && a->enter == NULL) return FC_OK;
    if (a->leave == NULL || a->enter == NULL || a->rest == NULL || a->A == 0) return FC_EINVAL;
    const int same = a->leave->n == a->enter->n;
    return same && classes_ok(a->S, a->leave) && classes_ok(a->S, a->enter) ? FC_OK : FC_EINVAL;
}

static fc_status check_axis(const fc_axis *a, int64_t pre) {
    if (a->S < 1 || a->S > INT32_MAX / 2 || a->A < 0) return FC_EINVAL;
    if (a->A == 0 && a->S > 32768) return FC_EINVAL;
    if (a->A > 0 && !arcs_ok(a->S, a->A, a->row, a->source, a->target, 1)) return FC_EINVAL;
    if (!places_ok(pre, a->contexts, a->place)) return FC_EINVAL;
    if (a->rest != NULL && (a->moving || a->contexts != 1)) return FC_EINVAL;
    if (a->rest != NULL && a->A == 0 && !lists_ok(a->S, a->row, a->target)) return FC_EINVAL;
    if (a->rest != NULL && !(*a->rest > FC_NEVER && allowed(*a->rest))) return FC_ENUMERIC;
    if (check_classes(a) != FC_OK) return FC_EINVAL;
    const int64_t arcs = a->A == 0 ? a->S * a->S : a->A;
    return a->moving || fc_first_invalid(a->contexts * arcs, a->score) < 0 ? FC_OK : FC_ENUMERIC;
}

static fc_status check_factor(const fc_factor *f, int64_t outer, int64_t S) {
    if (f->width != 1 && f->width != S) return FC_EINVAL;
    if (!places_ok(outer, f->rows, f->place)) return FC_EINVAL;
    return f->moving || fc_first_invalid(f->rows * f->width, f->value) < 0 ? FC_OK : FC_ENUMERIC;
}

static fc_status check_residual(const fc_residual *r, int64_t outer, int64_t S) {
    if (r->Q < 1 || r->E < 0 || r->Q > INT32_MAX) return FC_EINVAL;
    if (r->width != 1 && r->width != S) return FC_EINVAL;
    if (!places_ok(outer, r->rows, r->place)) return FC_EINVAL;
    if (!arcs_ok(r->Q, r->E, r->row, r->source, r->target, 0)) return FC_EINVAL;
    const int numeric = fc_first_invalid(r->E * r->rows * r->width, r->value) < 0 &&
                        fc_first_invalid(r->Q, r->initial) < 0 &&
                        fc_first_invalid(r->Q, r->final) < 0;
    if (!numeric) return FC_ENUMERIC;
    return deterministic(r) ? FC_OK : FC_EINVAL;
}

fc_status fc_check_machine(const fc_machine *m, int64_t *where) {
    *where = 0;
    if (m == NULL || m->axes < 1 || m->axes > FC_MAX_AXES || m->factors < 0) return FC_EINVAL;
    int64_t pre = 1;
    for (int64_t c = 0; c < m->axes; c++) {
        const fc_status status = check_axis(&m->axis[c], pre);
        if (status != FC_OK) return fail(status, c, where);
        if (c + 1 < m->axes) pre *= m->axis[c].S;
        if (pre > INT32_MAX) return fail(FC_EINVAL, c, where);
    }
    if (m->outer != pre || m->S != m->axis[m->axes - 1].S) return FC_EINVAL;
    if (m->outer > INT32_MAX / fc_padded(m->S)) return FC_EINVAL;
    for (int64_t k = 0; k < m->factors; k++) {
        const fc_status status = check_factor(&m->factor[k], m->outer, m->S);
        if (status != FC_OK) return fail(status, 100 + k, where);
    }
    if (m->residual != NULL) {
        const fc_status status = check_residual(m->residual, m->outer, m->S);
        if (status != FC_OK) return fail(status, 200, where);
    }
    const int numeric = fc_first_invalid(m->outer * m->S, m->initial) < 0 &&
                        fc_first_invalid(m->outer * m->S, m->final) < 0 &&
                        fc_first_invalid(1, &m->empty) < 0;
    return numeric ? FC_OK : fail(FC_ENUMERIC, 300, where);
}

/* Whether every target state of a step exists, and fits into its bits. */
static fc_status check_acceptor(const fc_acceptor *a, int64_t words, int64_t cells) {
    if (a->Q < 1 || a->classes < 1 || a->rows < 1 || !places_ok(cells, a->classes, a->place))
        return FC_EINVAL;
    if (a->place == NULL || a->target == NULL || a->word < 0 || a->word >= words) return FC_EINVAL;
    if (a->bits < 1 || a->bits > 32 || a->shift < 0 || a->shift + a->bits > 64) return FC_EINVAL;
    if ((a->Q - 1) >> a->bits != 0) return FC_EINVAL;
    const int64_t steps = a->Q * a->classes;
    int bad = 0;
    for (int64_t i = 0; i < steps; i++) bad |= a->target[i] < -1 || a->target[i] >= a->Q;
    if (bad) return FC_EINVAL;
    if (a->score != NULL && fc_first_invalid(steps, a->score) >= 0) return FC_ENUMERIC;
    return a->ahead == NULL || fc_first_invalid(a->rows * a->Q, a->ahead) < 0 ? FC_OK : FC_ENUMERIC;
}

fc_status fc_check_conjunction(const fc_conjunction *grammar, const fc_machine *machine,
                               int64_t *where) {
    *where = 0;
    if (grammar->acceptors < 1 || grammar->words < 1) return FC_EINVAL;
    const fc_acceptor *last = NULL;
    for (int64_t i = 0; i < grammar->acceptors; i++) {
        const fc_acceptor *a = &grammar->acceptor[i];
        const fc_status status = check_acceptor(a, grammar->words, machine->outer * machine->S);
        if (status != FC_OK) return fail(status, i, where);
        /* Bit ranges are in order, so they cannot overlap. */
        const int64_t end = last == NULL ? 0 : last->word * 64 + last->shift + last->bits;
        if (a->word * 64 + a->shift < end) return fail(FC_EINVAL, i, where);
        last = a;
    }
    return FC_OK;
}
