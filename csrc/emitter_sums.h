/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of the sentences of emitter.h, which includes this. */

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

/* y[j] = sum_i x[i] M[i][j], of V registers: two independent chains hide latency. */
FC_INLINE void NAMED(sum_group)(const int lanes, const int V, int64_t S, int64_t Q, const REAL *M,
                                const REAL *x, REAL *y) {
    VEC even[GROUP], odd[GROUP];
#define ADD(sum, adds, i)                                       \
    for (int v = 0; v < V; v++)                                 \
        if (lanes)                                              \
            sum[v] adds CONST_AT(x + (i) * W) * M[(i) * Q + v]; \
        else                                                    \
            sum[v] adds x[i] * CONST_AT(M + (i) * Q + v * W);
    ADD(even, =, 0)
    ADD(odd, =, 1) /* the padding is zero */
    for (const REAL *const end = M + S * Q; M + 2 * Q < end;) {
        M += 2 * Q;
        x += lanes ? 2 * W : 2;
        ADD(even, +=, 0)
        ADD(odd, +=, 1)
    }
#undef ADD
    for (int v = 0; v < V; v++) AT(y + v * W) = even[v] + odd[v];
}

FC_APART void NAMED(product_in_lanes)(const NAMED(emitter) * w, const REAL *M, const REAL *x,
                                      REAL *y) {
    int64_t at = 0;
    for (; GROUP_IN_LANES > 4 && at + 8 <= w->P; at += 8)
        NAMED(sum_group)(1, 8, w->S, w->Q, M + at, x, y + at * W);
    for (; at < w->P; at += 4) NAMED(sum_group)(1, 4, w->S, w->Q, M + at, x, y + at * W);
}

FC_INLINE void NAMED(product)(const int lanes, const NAMED(emitter) * w, const REAL *M,
                              const REAL *x, REAL *y) {
#define BODY(V) NAMED(sum_group)(0, V, w->S, w->Q, M + at * W, x, y + at * W)
    if (lanes)
        NAMED(product_in_lanes)(w, M, x, y);
    else
        IN_GROUPS(w->Q / W, at, BODY);
#undef BODY
}

static void NAMED(load_sums)(NAMED(emitter) * w, const span_job *job) {
    const fc_emitter *m = w->m;
    const int64_t S = w->S, Q = w->Q, L = m->L;
    const double begin = finite_or_zero(fc_largest(S, m->initial)),
                 end = finite_or_zero(fc_largest(S, m->final));
    w->shift = finite_or_zero(fc_largest(S * S, m->arc));
    w->ends = begin + end;
    for (int64_t i = 0; i < Q; i++)
        for (int64_t j = 0; j < Q; j++) {
            const double score = i < S && j < S ? m->arc[i * S + j] : FC_NEVER;
            const REAL share = (REAL)fc_exp(score - w->shift);
            w->from[i * Q + j] = share;
            w->into[j * Q + i] = share;
            w->open[i * Q + j] = score > FC_NEVER;
            w->opening[j * Q + i] = w->closing[i * Q + j] = 0;
            w->total[i * Q + j] = 0.0;
            if (job == NULL || i >= S || j >= S) continue;
            const int64_t pair = m->label[i] * L + m->label[j];
            if (job->reading->begins[pair]) w->opening[j * Q + i] = share;
            if (!job->reading->continues[pair]) w->closing[i * Q + j] = share;
        }
    for (int64_t j = 0; j < Q; j++) {
        w->initial[j] = j < S ? (REAL)fc_exp(m->initial[j] - begin) : 0;
        w->final[j] = j < S ? (REAL)fc_exp(m->final[j] - end) : 0;
        w->begun[j] = w->ended[j] = 0.0;
    }
    w->used = 1;
}

/* States that can be reached at token t, whose scores are `row`. Returns 1 if they will remain the same
 * until a row forbids a label. */
FC_INLINE int NAMED(reached)(const int lanes, const NAMED(emitter) * w, int64_t t, const REAL *row,
                             int never) {
    const int64_t N = NAMED(cells)(lanes, w);
    MASK changed = (MASK){0};
    for (int64_t k = 0; k < N && t == 0; k++) {
        const int64_t j = lanes ? k / W : k;
        w->y[k] = j < w->S && w->m->initial[j] > FC_NEVER;
    }
    if (t > 0) NAMED(product)(lanes, w, w->open, w->reach, w->y);
    for (int64_t j = 0; j < N; j += W) {
        const MASK now =
            (CONST_AT(w->y + j) > (VEC){0}) & (CONST_AT(row + j) > ALL((REAL)FC_NEVER));
        const VEC reach = NAMED(chosen)(now, ALL((REAL)1), (VEC){0});
        changed |= reach != CONST_AT(w->reach + j);
        AT(w->reach + j) = reach;
    }
    return t > 0 && !never && NAMED(holds)(0, ~changed, 0);
}

/* Forward rows. */
FC_INLINE void NAMED(forward)(const int lanes, NAMED(emitter) * w) {
    const int64_t N = NAMED(cells)(lanes, w), T = w->T[0];
    VEC sum = ALL((REAL)1);
    int settled = 0;
    for (int l = 0; l < w->n; l++) {
        w->product_of_sums[l] = 1.0;
        w->log_z[l] = (fc_total){0};
    }
    NAMED(read)(lanes, w, 0, -(REAL)1e30, w->e);
    for (int64_t t = 0; t < T; t++) {
        REAL *const a = w->a + t * N, *const e = w->e + t * N;
        if (t + 1 < T) NAMED(read)(lanes, w, t + 1, -(REAL)1e30, e + N);
        if (t > 0)
            NAMED(product)(lanes, w, w->from, a - N, a);
        else if (lanes)
            for (int64_t j = 0; j < w->P; j++) AT(a + j * W) = ALL(w->initial[j]);
        else
            memcpy(a, w->initial, (size_t)N * sizeof *a);
        uint64_t never = 0;
        for (int64_t j = 0; j < N; j += W) never |= NAMED(equal)(CONST_AT(e + j), (REAL)FC_NEVER);
        if (!settled || never) settled = NAMED(reached)(lanes, w, t, e, never != 0);
        const int n = lanes ? NAMED(alive)(w, t) : 1;
        const MASK alive = NAMED(first_lanes)(lanes ? n : W);
        const VEC top = NAMED(top)(lanes, w, e);
        /* Scaled by the previous sum, so that no operation waits for the sum of this token. */
        const VEC c = NAMED(inverse)(lanes, sum);
        for (int64_t j = 0; j < N && lanes; j += W) AT(e + j) -= top;
        const REAL less = lanes ? 0 : top[0];
        for (int64_t j = 0; j < N; j++) e[j] = EXP(e[j] - less);
        for (int64_t j = 0; j < N; j += W) {
            const VEC now = NAMED(larger)(CONST_AT(a + j) * (CONST_AT(e + j) * c),
                                          CONST_AT(w->reach + j) * LEAST);
            AT(a + j) = lanes ? (VEC)((MASK)now & alive) : now;
        }
        for (int l = 0; l < n; l++) {
            double *const product = w->product_of_sums + l;
            *product *= (double)sum[l];
            if (*product < 1e-100 || *product > 1e100) {
                fc_add(w->log_z + l, log(*product));
                *product = 1.0;
            }
            fc_add(w->log_z + l, (double)top[l]);
        }
        sum = NAMED(sum)(lanes, w, a, NULL);
        w->held &=
            ~alive | ((sum > ALL(FAINT)) & (top > ALL(-(REAL)1e29)) & (top < ALL((REAL)1e29)));
        if (lanes)
            AT(w->scale + t * W) = c;
        else
            w->scale[t] = c[0];
    }
}

/* Begins the backward pass of sentence l: its log Z, and b of its last token. */
FC_INLINE void NAMED(turn_back)(const int lanes, NAMED(emitter) * w, int l) {
    const int64_t S = w->S, T = w->T[l];
    const REAL *const a = w->a + (T - 1) * NAMED(cells)(lanes, w) + l;
    REAL *const row = w->row;
    for (int64_t j = 0; j < w->Q; j++) row[j] = j < S ? a[lanes ? j * W : j] : 0;
    const REAL last = NAMED(sum)(0, w, row, w->final)[0];
    fc_total *const log_z = w->log_z + l;
    fc_add(log_z, log(w->product_of_sums[l]) + log((double)last) + w->ends);
    fc_add(log_z, (double)(T - 1) * w->shift);
    if (!(last > FAINT)) w->held[l] = 0;
    for (int64_t j = 0; j < (lanes ? S : w->Q); j++) {
        const int64_t at = lanes ? j * W + l : j;
        w->b[at] = w->most[at] = w->final[j] / last;
        w->ending[j] = w->b[at];
    }
}

/* Writes the probabilities of labels at a token for n sentences. */
FC_INLINE void NAMED(write)(const int lanes, const NAMED(emitter) * w, int64_t t, int n, REAL *p,
                            const fc_emission_sums *sums) {
    const int64_t S = w->S, by = lanes ? W : 1;
    REAL *const same = w->identity ? SOURCE_OF(sums) : NULL;
    for (int l = 0; l < n;) {
        int64_t at[4];
        REAL *own[4] = {0};
        for (int k = l; k < n && k < l + 4; k++) {
            at[k - l] = sums->start[w->number[k]] + t * sums->stride;
            own[k - l] = same != NULL ? same + at[k - l] : NULL;
        }
        if (lanes && same != NULL && S >= 4 && l + 4 <= n) {
            NAMED(turn)(0, S, own, p + l);
            l += 4;
            continue;
        }
        for (int64_t j = 0; j < w->m->L && same == NULL; j++) set_number(sums, at[0] + j, 0.0);
        for (int64_t j = 0; j < S && same == NULL; j++)
            add_number(sums, at[0] + w->m->label[j], (double)p[j * by + l]);
        for (int64_t j = 0; j < S && same != NULL; j++) own[0][j] = p[j * by + l];
        l++;
    }
}

/* Backward rows and posteriors. */
FC_INLINE void NAMED(backward)(const int lanes, NAMED(emitter) * w, const fc_emission_sums *sums) {
    const int64_t N = NAMED(cells)(lanes, w);
    const int wanted = sums->narrow != NULL || sums->wide != NULL;
    REAL *const b = w->b, *const most = w->most, *const p = w->p;
    for (int64_t j = 0; j < N; j++) b[j] = most[j] = 0;
    int n = 0;
    for (int64_t t = w->T[0] - 1;; t--) {
        const REAL *const a = w->a + t * N, *const e = w->e + t * N;
        const int before = n;
        while (n < w->n && w->T[n] - 1 == t) NAMED(turn_back)(lanes, w, n++);
        const MASK alive = NAMED(first_lanes)(lanes ? n : W);
        if (t % FC_EVEN == 0) { /* as in sweep.h */
            const VEC by = NAMED(inverse)(lanes, NAMED(sum)(lanes, w, a, b));
            for (int64_t j = 0; j < N; j += W) AT(b + j) *= by;
        }
        if (wanted || t == 0 || n > before)
            for (int64_t j = 0; j < N; j += W) AT(p + j) = CONST_AT(a + j) * CONST_AT(b + j);
        for (int l = before; l < n; l++)
            for (int64_t j = 0; j < w->S; j++)
                w->last[lanes ? j * W + l : j] = p[lanes ? j * W + l : j];
        if (wanted) {
            const VEC norm = NAMED(inverse)(lanes, NAMED(sum)(lanes, w, p, NULL));
            for (int64_t j = 0; j < N; j += W) AT(w->y + j) = CONST_AT(p + j) * norm;
            NAMED(write)(lanes, w, t, n, w->y, sums);
        }
        if (t == 0) break;
        const VEC c = lanes ? CONST_AT(w->scale + t * W) : ALL(w->scale[t]);
        REAL *const n_t = w->n_t + t * N;
        for (int64_t j = 0; j < N; j += W) {
            const VEC next = c * CONST_AT(e + j) * CONST_AT(b + j);
            AT(n_t + j) = lanes ? (VEC)((MASK)next & alive) : next;
        }
        NAMED(product)(lanes, w, w->into, n_t, b);
        for (int64_t j = 0; j < N; j += W) {
            AT(b + j) = (VEC)(*(const MASK *)(b + j) & (CONST_AT(a - N + j) > (VEC){0}));
            AT(most + j) = NAMED(larger)(CONST_AT(b + j), CONST_AT(most + j));
        }
    }
    for (int64_t j = 0; j < N; j += W) w->held &= CONST_AT(most + j) < ALL(MOST);
}

/* total[i][j] += sum_t a[t][i] n[t][j] for 4 rows i and V columns, in lanes, or registers of columns,
 * summed in registers. */
FC_INLINE void NAMED(outer_group)(const int lanes, const int V, int64_t T, int64_t N, int64_t Q,
                                  const REAL *a, const REAL *n, double *restrict total) {
    VEC sum[4][4];
    for (int k = 0; k < 4; k++)
        for (int v = 0; v < V; v++) sum[k][v] = (VEC){0};
    for (int64_t t = 0; t < T; t++, a += N, n += N)
        for (int k = 0; k < 4; k++)
            for (int v = 0; v < V; v++)
                if (lanes)
                    sum[k][v] += CONST_AT(a + k * W) * CONST_AT(n + v * W);
                else
                    sum[k][v] += a[k] * CONST_AT(n + v * W);
    for (int k = 0; k < 4; k++)
        for (int v = 0; v < V; v++) {
            double part[W];
            for (int l = 0; l < W; l++) part[l] = (double)sum[k][v][l];
            for (int h = W / 2; lanes && h > 0; h /= 2)
                for (int l = 0; l < h; l++) part[l] += part[l + h];
            for (int l = 0; l < (lanes ? 1 : W); l++)
                total[k * Q + v * (lanes ? 1 : W) + l] += part[l];
        }
}

#define RUN 32 /* tokens whose posteriors are added in REAL; see wide.h */

FC_INLINE void NAMED(count)(const int lanes, NAMED(emitter) * w) {
    const int64_t N = NAMED(cells)(lanes, w), Q = w->Q, T = w->T[0], by = lanes ? W : 1;
    for (int l = 0; l < w->n; l++) {
        if (NAMED(holds)(lanes, w->held & w->numbers, l)) {
            for (int64_t j = 0; j < w->S; j++) {
                w->begun[j] += (double)w->p[j * by + l];
                w->ended[j] += (double)w->last[j * by + l];
            }
        } else {
            for (int64_t k = l; k < T * N; k += by) w->a[k] = w->n_t[k] = 0;
        }
    }
    for (int64_t first = 0; first < T - 1; first += RUN) {
        const int64_t many = T - 1 - first < RUN ? T - 1 - first : RUN;
        const REAL *const a = w->a + first * N, *const n = w->n_t + (first + 1) * N;
        for (int64_t i = 0; i < w->S; i += 4)
            for (int64_t at = 0; at < N / W;) {
                double *const total = w->total + i * Q + at * (lanes ? 1 : W);
                const REAL *const x = a + i * by, *const y = n + at * W;
                if (lanes)
                    NAMED(outer_group)(1, 4, many, N, Q, x, y, total);
                else if (at + 2 <= N / W)
                    NAMED(outer_group)(0, 2, many, N, Q, x, y, total);
                else
                    NAMED(outer_group)(0, 1, many, N, Q, x, y, total);
                at += lanes ? 4 : 2;
            }
    }
}

static void NAMED(hand_over)(const NAMED(emitter) * w, const fc_emission_sums *sums) {
    if (!w->used) return;
    const int64_t S = w->S, Q = w->Q;
    for (int64_t i = 0; i < S; i++) {
        for (int64_t j = 0; j < S; j++)
            sums->arc[i * S + j] += w->total[i * Q + j] * (double)w->from[i * Q + j];
        sums->begin[i] += w->begun[i];
        sums->end[i] += w->ended[i];
    }
}

/* --- Spans of given labels ------------------------------------------------------------------- */

/* P of the span start .. end - 1 of the states `mine` of its type. */
static double NAMED(span)(const NAMED(emitter) * w, const fc_span_reading *r, int64_t start,
                          int64_t end, int64_t many, const int32_t *mine) {
    const int64_t Q = w->Q;
    const int32_t *label = w->m->label;
    REAL v[FC_MAX_EMITTERS], next[FC_MAX_EMITTERS];
    for (int64_t k = 0; k < many; k++) {
        const int64_t j = mine[k];
        const REAL into = start > 0
                              ? NAMED(sum)(0, w, w->a + (start - 1) * Q, w->opening + j * Q)[0]
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
        const REAL after = end < w->T[0] ? NAMED(sum)(0, w, w->closing + j * Q, w->n_t + end * Q)[0]
                                         : w->ending[j];
        total += (double)v[k] * (double)after;
    }
    return total < 1.0 ? total : 1.0;
}

static void NAMED(probabilities)(const NAMED(emitter) * w, const span_job *job) {
    int64_t n = w->number[0] > job->first ? job->ends[w->number[0] - 1] : 0;
    for (; n < job->ends[w->number[0]]; n++) {
        const int32_t *one = job->span + 3 * n;
        const int64_t mine = job->bounds[one[2]], many = job->bounds[one[2] + 1] - mine;
        job->probability[n] = NAMED(span)(w, job->reading, one[0], one[1], many, job->mine + mine);
    }
}

/* Sentences, forward and backward; the backward pass checks that no significant term has underflowed. */
FC_INLINE void NAMED(sums_in)(const int lanes, NAMED(emitter) * w, const fc_emission_sums *sums) {
    NAMED(forward)(lanes, w);
    NAMED(backward)(lanes, w, sums);
    if (sums->arc != NULL) NAMED(count)(lanes, w);
}

static void NAMED(sums)(NAMED(emitter) * w, int n, const int64_t *numbers,
                        const fc_emission_sums *sums, const span_job *job, outcome *found) {
    if (!w->used) NAMED(load_sums)(w, job);
    NAMED(take_up)(w, n, numbers);
    IN_LAYOUT(sums_in, n, w, sums);
    for (int l = 0; l < n; l++) {
        found[l].value = sums->log_z[numbers[l]] = fc_value(w->log_z[l]);
        found[l].exact = NAMED(holds)(n > 1, w->held, l);
        found[l].fine = NAMED(holds)(n > 1, w->numbers, l);
    }
    if (job != NULL && found->exact && found->fine) NAMED(probabilities)(w, job);
}
