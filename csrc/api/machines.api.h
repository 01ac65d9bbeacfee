/* --- Compositions --------------------------------------------------------------------------------
 *
 * A composition, compiled for the kernel: the chains of several tapes (axes), read side by side, and a
 * residual automaton that reads their labels. Its state is a cell of a tensor
 *
 *   [Q residual states][outer][S]      S: states of the last axis; outer: states of all earlier axes,
 *                                      numbered row by row, the first axis slowest
 *
 * and a path is a joint state o * S + s per token:
 *
 *   score = initial[k_0] + final[k_{T-1}] + sum_t sum of factors at (t, k_t)
 *         + sum_{t>0} sum over axes of arc[k_{t-1} -> k_t]
 *         + residual: initial, one edge a token, final
 *
 * Potentials that depend on other tapes' labels are tables with several rows; `place` maps an outer
 * index to its row. Axis c is advanced after the axes before it, so that its arcs may depend on their
 * *present* states: a step costs S_c arcs a cell for each axis, not their product. */
typedef struct {
    int64_t n;
    const int32_t *of;    /* [S] class of each state; -1: no class */
    const int64_t *row;   /* [n + 1] states of class c: row[c] .. row[c + 1] - 1 */
    const int32_t *state; /* [row[n]] ascending in each class */
} fc_classes;

typedef struct {
    int64_t S, A;     /* states; arcs, or 0: every pair, arc i * S + j leads from i to j */
    int64_t contexts; /* number of tables of arc potentials */
    int64_t moving;   /* 1: each token has its own tables, for the arcs that lead into it */
    const int32_t
        *place;         /* [product of the earlier axes] table of an outer index; NULL: the first */
    const int64_t *row; /* [S + 1] arcs that leave i: row[i] .. row[i + 1] - 1; sparse only */
    const int32_t *source, *target; /* [A] sorted by source, then target; sparse only */
    const double *score;            /* [contexts][arcs] or [N][contexts][arcs] */
    /* [1] or NULL. Sparse: score of every pair without an arc; NULL: these pairs do not exist. Dense:
     * score of every pair that row and target do not list; steps visit the listed pairs only. One
     * table, not moving. */
    const double *rest;
    /* or NULL. Sparse, with a rest, for training only: the rest is the score of a pair i, j if the
     * class of i in `leave` is the class of j in `enter`; other pairs without an arc do not exist. */
    const fc_classes *leave, *enter;
} fc_axis;

/* Potentials that are added at every token. width: S, or 1 if all states of the last axis have the same
 * potential. */
typedef struct {
    int64_t rows, width, moving;
    const int32_t *place; /* [outer]; NULL: the first row */
    const double *value;  /* [rows][width] or [N][rows][width] */
} fc_factor;

/* Edge e leads from source[e] to target[e] where value[e][place[o]][s] is not -inf. With kinds of tokens,
 * for fc_counts only: `row`, `source`, `target` and `place` are not read; E is Q, and `edge' q leads from q
 * to reached[q][kind of the token][s], or nowhere if that is -1. */
typedef struct {
    int64_t Q, E, rows, width;
    const int64_t *row;             /* [Q + 1] edges that leave q */
    const int32_t *source, *target; /* [E], sorted by source */
    const int32_t *place;           /* [outer]; NULL: the first row */
    const double *value;            /* [E][rows][width] */
    const double *initial, *final;  /* [Q] before the first token, after the last */
    const int32_t *kind;            /* [N] below rows; NULL: no kinds */
    const int32_t *reached;         /* [Q][rows][S] */
} fc_residual;

/* At most FC_MAX_AXES axes. */
enum { FC_MAX_AXES = 8 };

typedef struct {
    int64_t axes, factors, outer, S;
    const fc_axis *axis;         /* [axes] */
    const fc_factor *factor;     /* [factors] */
    const fc_residual *residual; /* or NULL */
    const double *initial;       /* [outer][S] */
    const double *final;         /* [outer][S] */
    double empty;                /* score of a sentence without tokens; -inf: no path */
} fc_machine;

/* Sentences, one after the other: sentence b has the tokens offsets[b] .. offsets[b + 1] - 1, at least
 * one. */
typedef struct {
    int64_t B;
    const int64_t *offsets; /* [B + 1], offsets[0] = 0 */
} fc_batch;

/* Domain of sums. FC_AUTO: linear, scaled at every token; a sentence in which a
 * reachable state underflows is repeated in the log domain. */
typedef enum { FC_AUTO = 0, FC_LINEAR = 1, FC_LOG = 2 } fc_domain;

/* Checks a machine once: sizes, indices, static potentials; the other functions do not repeat the
 * checks. *where: the number of the axis, 100 + the number of the factor, 200 the residual, 300 the
 * ends. */
fc_status fc_check_machine(const fc_machine *machine, int64_t *where);

/* Index of the first of n potentials that is NaN, +inf or beyond 1e300 either way, or -1. */
int64_t fc_first_invalid(int64_t n, const double *x);

/* Doubles of scratch for sentences of up to `longest` tokens. With B > 0, a batch of B sentences may be
 * processed side by side in it (abreast.h); this does not concern best paths over a dense axis, which
 * are searched one by one. */
int64_t fc_machine_work(const fc_machine *machine, int64_t B, int64_t longest);

/* Best paths. Ties: the smaller joint state, at the earliest token where they differ.
 *   path  [N] out  joint states; -1 throughout a sentence that has no path
 *   score [B] out  -inf if no path exists */
fc_status fc_machine_best(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int32_t *path, double *score, double *work);

/* The n best paths of each sentence, best first. The search is exact and best-first over the backward
 * scores: it makes the siblings of a path when it takes the path from the queue.
 *   floor [B]    in, or NULL  paths that do not score more are dropped, except for the first
 *   within                    paths at least this far below the first one are dropped
 *   path  [n][N] out  -1 in rows beyond count
 *   score [B][n] out  -inf beyond count
 *   count [B]    out
 *   scratch           fc_queue_size doubles */
fc_status fc_machine_nbest(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                           const double *floor, double within, int32_t *path, double *score,
                           int64_t *count, double *work, double *scratch);
int64_t fc_queue_size(const fc_machine *machine, int64_t n, int64_t longest);

/* log Z; -inf if no path exists. */
fc_status fc_machine_log_partition(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   fc_domain domain, double *log_z, double *work, int64_t *where);

/* log Z and posterior probabilities, 0 without a path, times the weight of the sentence.
 *   weight [B] in, or NULL: 1
 *   log_z  [B] out  unweighted
 *   node  [axes] of [N][S_c] out
 *   arc   [axes] of [N][arcs of c] out, or NULL; rows of first tokens are 0; summed over contexts
 *   sum   [axes] of [arcs of c] out, or NULL: `arc` summed over all tokens
 *   entropy [B] out, or NULL: entropy of the paths, in nats; needs a row of joint states a token
 * With one axis, sums cost as much as a step. With several axes, or for single tokens, each arc costs
 * one operation. */
fc_status fc_machine_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                               fc_domain domain, const double *weight, double *log_z,
                               double *const *node, double *const *arc, double *const *sum,
                               double *entropy, double *work, int64_t *where);

/* Score of the best path through each state of every axis, -inf if no path uses it. Optionally best
 * paths, and both halves of the scores of joint states, from which competitors are found.
 *   node  [axes] of [N][S_c] out
 *   path [N], score [B]      out, or NULL  as of fc_machine_best
 *   begun [N][Q][outer][S]   out, or NULL  score of the best prefix that ends in a joint state,
 *                                          including the state's potentials; Q before it is read
 *   ahead [N][Q][outer][S]   out, or NULL  score of a joint state and its best continuation */
fc_status fc_machine_max_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   double *const *node, int32_t *path, double *score, double *begun,
                                   double *ahead, double *work);

/* Totals of C variants of sentences, with other node potentials at some tokens: log Z, or the best
 * score if `best` is 1. The machine has one axis. A variant without changes is the sentence itself.
 * Costs two passes over each sentence, and for a variant the steps from its first change to its last,
 * without those that it shares with others. If a sentence has no path, its variants count as having no
 * path. Without `work`, `where` is how many doubles it needs.
 *   order    [C]           in  variants: sentences do not fall; the sequences of changes of a
 *                              sentence do not rise, compared by token and then by place
 *   sentence [.]           in  of each variant
 *   ptr      [. + 1]       in  changes of each variant
 *   token    [changes]     in  places in the sentence, rising within a variant
 *   place    [changes]     in  rows of `node`
 *   node     [rows][S]     in  all node potentials of a token
 *   total    [.]           out of the variants in `order` */
fc_status fc_machine_rescore(const fc_machine *machine, int64_t B, const int64_t *offsets,
                             int64_t C, const int64_t *order, const int64_t *sentence,
                             const int64_t *ptr, const int32_t *token, const int32_t *place,
                             int64_t rows, const double *node, int best, double *total,
                             double *work, int64_t *where);

/* Independent exact samples from the distribution over paths.
 *   uniform [n][N] in   numbers in [0, 1), one for each choice
 *   path    [n][N] out  -1 throughout a sentence that has no path */
fc_status fc_machine_sample(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                            const double *uniform, int32_t *path, double *work);
