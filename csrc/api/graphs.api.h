/* --- Graphs and batches ------------------------------------------------------------------------
 *
 * A graph is what a topology looks like to the kernel: S states, arcs between them, one potential
 * an arc. Every token has one state; a path is a state per token:
 *
 *   score(s) = initial[s_0] + sum_t node[t][s_t] + sum_{t>0} arc[s_{t-1} -> s_t] + final[s_{T-1}]
 *
 * Dense (A = 0): every pair of states is an arc, arc number i * S + j leads from i to j.
 * Sparse (A > 0): arc a leads from source[a] to target[a], sorted by source; the arcs that leave i
 * are row[i] .. row[i + 1] - 1.
 * Moving (moving = 1): each token has its own arc potentials, score[n] belongs to the arcs that
 * lead *into* token n; rows of first tokens are not read. */
typedef struct {
    int64_t S;
    int64_t A;
    int64_t moving;
    const int64_t *row;    /* [S + 1]  sparse only */
    const int32_t *source; /* [A]      sparse only */
    const int32_t *target; /* [A]      sparse only */
    const double *score;   /* [A or S * S], or [N][A or S * S] when moving */
    const double *initial; /* [S] */
    const double *final;   /* [S] */
} fc_graph;

/* B sentences, one after the other: sentence b has the tokens offsets[b] .. offsets[b + 1] - 1,
 * at least one. */
typedef struct {
    int64_t B;
    const int64_t *offsets; /* [B + 1], offsets[0] = 0 */
    const double *node;     /* [N][S] */
} fc_batch;

/* In which domain sums are taken. FC_AUTO: linear, scaled at every token; a sentence in which a
 * reachable state underflows is done again in the log domain. */
typedef enum { FC_AUTO = 0, FC_LINEAR = 1, FC_LOG = 2 } fc_domain;

/* Checks a graph once: sizes, order, indices; arc potentials (those of N tokens when moving),
 * initial and final potentials. The other functions take it for granted. */
fc_status fc_check_graph(const fc_graph *graph, int64_t N, int64_t *where);

/* Checks a batch: offsets; node potentials. */
fc_status fc_check_batch(const fc_graph *graph, const fc_batch *batch, int64_t *where);

/* Number of doubles that the functions below need as scratch for sentences of up to `longest`
 * tokens; the contents are irrelevant. */
int64_t fc_work_size(const fc_graph *graph, int64_t longest);

/* log Z of each sentence; -inf where no path exists.
 *   log_z [B] out
 * Cost: N * arcs multiply-adds, N * S exponentials. */
fc_status fc_log_partition(const fc_graph *graph, const fc_batch *batch, fc_domain domain,
                           double *log_z, double *work, int64_t *where);

/* log Z and posterior probabilities, each times the weight of its sentence.
 *   weight [B]         in
 *   log_z  [B]         out  unweighted; -inf where no path exists, whose posteriors are then 0
 *   node   [N][S]      out  weight * P(state at token)
 *   arc    [arcs]      out  sum over tokens and sentences of weight * P(arc into token), or
 *          [N][arcs]   out  each of them, when moving (rows of first tokens are 0)
 * Cost: 3 * N * arcs multiply-adds. Source: Rabiner (1989) V.A for the scaling. */
fc_status fc_forward_backward(const fc_graph *graph, const fc_batch *batch, fc_domain domain,
                              const double *weight, double *log_z, double *node, double *arc,
                              double *work, int64_t *where);

/* Best path of each sentence. Ties: the smaller state, at the earliest token where they differ.
 *   path  [N] out  states; -1 throughout a sentence that has no path
 *   score [B] out  -inf where no path exists */
fc_status fc_viterbi(const fc_graph *graph, const fc_batch *batch, int32_t *path, double *score,
                     double *work);

/* Max-marginals: the score of the best path through each (token, state); -inf where there is none.
 *   out [N][S] */
fc_status fc_max_marginals(const fc_graph *graph, const fc_batch *batch, double *out, double *work);

/* Best paths, max-marginals and both halves of these, in one go: what competitors are read off.
 *   path [N], score [B]  out  as of fc_viterbi
 *   marginal [N][S]      out  as of fc_max_marginals
 *   forward  [N][S]      out  score of the best beginning that ends in a state, its own included
 *   ahead    [N][S]      out  score of a state and the best of what can follow it */
fc_status fc_maxima(const fc_graph *graph, const fc_batch *batch, int32_t *path, double *score,
                    double *marginal, double *forward, double *ahead, double *work);

/* Checks that gold states [N] are states and that consecutive ones of a sentence have an arc. */
fc_status fc_check_path(const fc_graph *graph, const fc_batch *batch, const int32_t *path,
                        int64_t *where);
