/* --- Compositions --------------------------------------------------------------------------------
 *
 * A machine is what a composition looks like to the kernel: the chains of several tapes (axes), read
 * side by side, and a residual automaton that reads their labels. Its state is a cell of a tensor
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
 * Potentials that depend on other tapes' labels are tables with several rows; `place` says which row
 * belongs to an outer index. Axis c is advanced when the axes before it have been, so that its arcs may
 * depend on their *present* states: a step costs S_c arcs a cell for each axis, not their product. */
typedef struct {
    int64_t n;
    const int32_t *of;    /* [S] class of each state; -1: none */
    const int64_t *row;   /* [n + 1] states of class c: row[c] .. row[c + 1] - 1 */
    const int32_t *state; /* [row[n]] rising in a class */
} fc_classes;

typedef struct {
    int64_t S, A;     /* states; arcs, or 0: every pair, arc i * S + j leads from i to j */
    int64_t contexts; /* tables of arc potentials */
    int64_t moving;   /* 1: each token has its own, for the arcs that lead into it */
    const int32_t
        *place;         /* [product of the earlier axes] table of an outer index; NULL: the first */
    const int64_t *row; /* [S + 1] arcs that leave i: row[i] .. row[i + 1] - 1; sparse only */
    const int32_t *source, *target; /* [A] sorted by source, then target; sparse only */
    const double *score;            /* [contexts][arcs] or [N][contexts][arcs] */
    /* [1] or NULL. Sparse: score of every pair that has no arc; else those do not exist. Dense: score of
     * every pair that row and target do not list; steps go over the others. One table, not moving. */
    const double *rest;
    /* or NULL. Sparse, with a rest, for training alone: the rest is the score of the pairs i, j where
     * the class of i among `leave` is that of j among `enter`; other pairs without an arc do not exist. */
    const fc_classes *leave, *enter;
} fc_axis;

/* Potentials that are added at every token. width: S, or 1 where they are the same for all states of
 * the last axis. */
typedef struct {
    int64_t rows, width, moving;
    const int32_t *place; /* [outer]; NULL: the first row */
    const double *value;  /* [rows][width] or [N][rows][width] */
} fc_factor;

/* Edge e leads from source[e] to target[e] where value[e][place[o]][s] is not -inf. */
typedef struct {
    int64_t Q, E, rows, width;
    const int64_t *row;             /* [Q + 1] edges that leave q */
    const int32_t *source, *target; /* [E], sorted by source */
    const int32_t *place;           /* [outer]; NULL: the first row */
    const double *value;            /* [E][rows][width] */
    const double *initial, *final;  /* [Q] before the first token, after the last */
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
    double empty;                /* score of a sentence without tokens; -inf: it has no path */
} fc_machine;

/* Sentences, one after the other: sentence b has the tokens offsets[b] .. offsets[b + 1] - 1, at least
 * one. */
typedef struct {
    int64_t B;
    const int64_t *offsets; /* [B + 1], offsets[0] = 0 */
} fc_batch;

/* In which domain sums are taken. FC_AUTO: linear, scaled at every token; a sentence in which a
 * reachable state underflows is done again in the log domain. */
typedef enum { FC_AUTO = 0, FC_LINEAR = 1, FC_LOG = 2 } fc_domain;

/* Checks a machine once: sizes, indices, static potentials; the other functions take it for granted.
 * *where: the number of the axis, 100 + the number of the factor, 200 the residual, 300 the ends. */
fc_status fc_check_machine(const fc_machine *machine, int64_t *where);

/* Index of the first of n potentials that is NaN, +inf or beyond 1e300 either way, or -1. */
int64_t fc_first_invalid(int64_t n, const double *x);

/* Doubles of scratch for sentences of up to `longest` tokens. */
int64_t fc_machine_work(const fc_machine *machine, int64_t longest);

/* Best paths. Ties: the smaller joint state, at the earliest token where they differ.
 *   path  [N] out  joint states; -1 throughout a sentence that has no path
 *   score [B] out  -inf where no path exists */
fc_status fc_machine_best(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int32_t *path, double *score, double *work);
/* Scratch of a batch: that of fc_machine_work, and rows of sentences that go side by side (abreast.h). */
int64_t fc_machine_batch_work(const fc_machine *machine, int64_t B, int64_t longest);

/* The n best paths of each sentence, best first: exact best-first search over the backward scores,
 * in which a path's siblings are made when it is taken from the queue.
 *   floor [B]    in, or NULL  paths that do not score more are left out, but for the first
 *   within                    and those that are so far below the first, or farther
 *   path  [n][N] out  -1 beyond the paths there are
 *   score [B][n] out  -inf beyond them
 *   count [B]    out
 *   scratch           fc_queue_size doubles */
fc_status fc_machine_nbest(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                           const double *floor, double within, int32_t *path, double *score,
                           int64_t *count, double *work, double *scratch);
int64_t fc_queue_size(const fc_machine *machine, int64_t n, int64_t longest);

/* log Z; -inf where no path exists. */
fc_status fc_machine_log_partition(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   fc_domain domain, double *log_z, double *work, int64_t *where);

/* log Z and posterior probabilities, 0 where no path exists, times the weight of the sentence.
 *   weight [B] in, or NULL: 1
 *   log_z  [B] out  unweighted
 *   node  [axes] of [N][S_c] out
 *   arc   [axes] of [N][arcs of c] out, or NULL; rows of first tokens are 0; summed over contexts
 *   sum   [axes] of [arcs of c] out, or NULL: the same summed over all tokens
 *   entropy [B] out, or NULL: of the paths, in nats; costs a row of joint states for each of them
 * Sums of one axis cost as much as a step; of several, and single tokens, an arc at a time. */
fc_status fc_machine_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                               fc_domain domain, const double *weight, double *log_z,
                               double *const *node, double *const *arc, double *const *sum,
                               double *entropy, double *work, int64_t *where);

/* Score of the best path through each state of every axis, -inf where there is none; and what
 * competitors are read off: best paths, and both halves of the scores of joint states.
 *   node  [axes] of [N][S_c] out
 *   path [N], score [B]      out, or NULL  as of fc_machine_best
 *   begun [N][Q][outer][S]   out, or NULL  score of the best beginning that ends in a joint state, its
 *                                          own potentials included; Q before it is read
 *   ahead [N][Q][outer][S]   out, or NULL  ... of a joint state and the best of what can follow it */
fc_status fc_machine_max_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   double *const *node, int32_t *path, double *score, double *begun,
                                   double *ahead, double *work);

/* Totals of C variants of sentences: log Z, or the best score where `best` is 1, with other node
 * potentials at some tokens. The machine has one axis. A variant without changes is the sentence itself.
 * Costs a pass over each sentence, and for a variant the tokens from its first change to its last.
 * Where a sentence itself has no path, its variants count as having none.
 *   sentence [C]           in  not falling
 *   ptr      [C + 1]       in  changes of each variant
 *   token    [ptr[C]]      in  places in the sentence, rising within a variant
 *   node     [ptr[C]][S]   in  all node potentials of that token
 *   total    [C]           out */
fc_status fc_machine_rescore(const fc_machine *machine, int64_t B, const int64_t *offsets,
                             int64_t C, const int64_t *sentence, const int64_t *ptr,
                             const int32_t *token, const double *node, int best, double *total,
                             double *work, int64_t *where);

/* First token of each sentence at which every path has died; the last one where only the end is shut
 * or paths are left. */
fc_status fc_machine_dead(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int64_t *position, double *work);

/* Independent exact samples from the distribution over paths.
 *   uniform [n][N] in   numbers in [0, 1), one for each choice
 *   path    [n][N] out  -1 throughout a sentence that has no path */
fc_status fc_machine_sample(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                            const double *uniform, int32_t *path, double *work);

/* Checks for a machine of one axis that gold states [N] are states and that consecutive ones of a sentence have an arc. */
fc_status fc_check_path(const fc_machine *machine, const fc_batch *batch, const int32_t *path,
                        int64_t *where);
