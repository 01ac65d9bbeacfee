/* --- Acyclic machines ----------------------------------------------------------------------------
 *
 * Any acyclic acceptor. Arcs are sorted by source: the arcs of state s are row[s] .. row[s + 1] - 1. A
 * path of row b is a sequence of arcs from the state begins[b]:
 *
 *   score = sum of its arcs' scores + final[last state]
 *
 * States are numbered in topological order: every arc leads to a state above its own. Rows share no
 * states that are on a path, except possibly one in which all their paths end. */
typedef struct {
    int64_t S, A, B;
    int64_t first;         /* suffixes of the states before are not computed */
    const int64_t *begins; /* [B] */
    const int64_t *row;    /* [S + 1] */
    const int32_t *target; /* [A] */
    const double *score;   /* [A] */
    const double *final;   /* [S] -inf: no path ends here */
} fc_acyclic;

/* Memory of the search for the n best paths: prefixes, and arcs on which a path leaves another. */
typedef struct {
    double score;
    int32_t arc, prefix, depth;
} fc_step;

typedef struct {
    double priority, value;
    int64_t choice, prefix;
} fc_deviation;

/* Marks the states on a path from `start` to a final state; the machine may have cycles.
 *   start         a state; any other number means that the machine has no start
 *   ends   [S]    1: a path may end here
 *   keep   [S]    out  1 or 0
 *   turned [S + 1], work [S + A]  scratch
 * Cost: linear. *where: a state or arc with a bad index. */
fc_status fc_connected(int64_t S, const int64_t *row, const int32_t *target, int64_t start,
                       const uint8_t *ends, uint8_t *keep, int64_t *turned, int32_t *work,
                       int64_t *where);

/* Numbers states in topological order.
 *   number [S]   out
 *   cycle        out  -1, or a state on a cycle; number is then unspecified
 *   work   [2S]  scratch */
fc_status fc_topological(int64_t S, const int64_t *row, const int32_t *target, int32_t *number,
                         int64_t *cycle, int32_t *work, int64_t *where);

/* Checks a machine once: sizes, indices, order, scores. The functions below take it for granted. */
fc_status fc_check_acyclic(const fc_acyclic *machine, int64_t *where);

/* Labels on the shortest and the longest path from a begin to each state; -1 if no path leads there.
 *   label [A]  an arc counts if its label is not negative; NULL: every arc counts */
fc_status fc_acyclic_lengths(const fc_acyclic *machine, const int32_t *label, int32_t *shortest,
                             int32_t *longest);

/* Score of the best path from each state to an end, or the log of the sum over all such paths; -inf if
 * no path ends. suffix[begins[b]] is the score, or log Z, of row b.
 *   suffix [S] out
 *   lost   [S] out  rounding error of the suffix
 *   stop   [S] out  probability that a path in the state ends there
 *   share  [A] out  probability of the arc, given a path in its source state; NULL: the best score is
 *                   wanted, and suffix is the only output
 * Cost: A additions; A exponentials and S logarithms for the sum. */
fc_status fc_acyclic_suffix(const fc_acyclic *machine, double *suffix, double *lost, double *stop,
                            double *share);

/* Posterior probabilities of states, of arcs, and of ending in each state, 0 in rows without a path;
 * suffix, stop and share are outputs of fc_acyclic_suffix.
 *   node [S] out    arc [A] out    end [S] out */
fc_status fc_acyclic_marginals(const fc_acyclic *machine, const double *suffix, const double *stop,
                               const double *share, double *node, double *arc, double *end);

/* Score of the best path through each arc, -inf if no path uses it; `suffix` of best
 * scores.
 *   prefix [S] out  score of the best path to each state    arc [A] out */
fc_status fc_acyclic_max_marginals(const fc_acyclic *machine, const double *suffix, double *prefix,
                                   double *arc);

/* The best path of each row, concatenated; `suffix` of best scores. Ties: the path that
 * ends first, then the smaller arc, at the earliest state where paths differ.
 *   path   [room]  out  arcs; S are always enough if rows share no states
 *   offset [B + 1] out  a row without a path has no arcs
 * FC_EFULL: path is too small. */
fc_status fc_acyclic_best(const fc_acyclic *machine, const double *suffix, int64_t room,
                          int32_t *path, int64_t *offset);

/* The n best paths of the rows from *b on, best first, with ties as above. The search is exact and
 * best-first: it makes the siblings of a path when it takes the path from the queue. *b is then the row
 * for which the memory was too small, or B.
 *   width            arcs of the longest path
 *   path  [B][n][width] out  arcs, then -1 up to the end of the row
 *   score [B][n]        out
 *   count [B]           out  paths found
 *   steps, heap              scratch; n * width and n * (width + 1) + 1 always suffice
 * FC_EFULL: steps or heap are too small. */
fc_status fc_acyclic_nbest(const fc_acyclic *machine, const double *suffix, int64_t n,
                           int64_t width, int64_t step_room, fc_step *steps, int64_t heap_room,
                           fc_deviation *heap, int32_t *path, double *score, int64_t *count,
                           int64_t *b);

/* Independent exact samples of each row; stop and share are outputs of fc_acyclic_suffix.
 *   uniform [B][n][width] in   numbers in [0, 1); width: arcs of the longest path
 *   path    [B][n][width] out  arcs, then -1; only -1 if the row has no path */
fc_status fc_acyclic_sample(const fc_acyclic *machine, const double *stop, const double *share,
                            int64_t n, int64_t width, const double *uniform, int32_t *path);
