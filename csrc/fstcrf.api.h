/* The kernel's whole contract. Declarations only and no preprocessor line, so that the C compiler
 * and cffi read this very file.
 *
 * The kernel is a calculator: no I/O, no threads, no allocation, no state but the chosen variant.
 * The caller owns every buffer and passes every size. Buffers never overlap. Potentials are
 * natural-log scores; -inf forbids; NaN, +inf and numbers beyond 1e300 are errors. Names of sizes:
 *
 *   B  sentences of a batch      N  tokens of the batch     S  states      A  arcs
 *   R  rows of a weight table    W  width of a row (slots, padded)
 *
 * Every function returns a status; where a status has a place (a sentence, a token, an entry), its
 * index goes to *where. Outputs are unspecified unless the status is FC_OK. */

typedef enum {
    FC_OK = 0,
    FC_EINVAL = 1,   /* a size or index outside what it may be; *where: which argument or entry */
    FC_ENUMERIC = 2, /* NaN or +inf came in; *where: index of the entry */
    FC_ERANGE = 3,   /* FC_LINEAR was forced, but sentence *where cannot be represented in it */
    FC_ETARGET = 4,  /* this machine or build lacks the variant */
    FC_EFULL = 5,    /* no room for another string: give more and call again */
    FC_EROW = 6,     /* a line has other fields than it must have */
    FC_EPAUSED = 7   /* the steps of this call are done: call again to go on */
} fc_status;

/* Text of a status; never NULL. */
const char *fc_text(fc_status status);

/* Variants: one file compiled several times. "auto" takes the best that the processor runs, else
 * "base", "v3" (x86-64-v3: AVX2, FMA) or "v4" (x86-64-v4: AVX-512). Not to be called while another
 * thread is inside the kernel. fc_variant names the one in use. */
fc_status fc_use(const char *variant);
const char *fc_variant(void);

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

/* --- Sparse rows times a table -----------------------------------------------------------------
 *
 *   out[n] = sum_{k = indptr[n]}^{indptr[n + 1] - 1} value[k] * table[index[k]],   n < N
 *
 * Potentials are design matrix x weights; the gradient is the transposed design x posteriors: the
 * same sum with the roles of tokens and attributes exchanged. Rows of `out` are independent, so any
 * split over threads gives the same bits.
 *   value may be NULL: all ones.  W is a multiple of 8. */
fc_status fc_gather(int64_t N, int64_t R, int64_t W, const int64_t *indptr, const int32_t *index,
                    const float *value, const double *table, double *out);

/* Adds the attributes of single tokens to parameters, the transposed product for few slots:
 *
 *   out[place[index[e] * W + slot[k]]] += mass[k] * value[e]      e: entries of row token[k], k < K
 *
 *   token, slot [K]   in      below N and W
 *   place [R][W]      in      number of a parameter, taken for granted; negative where there is none
 *   out   [parameters] in/out
 * FC_EINVAL: *where is the k of a token or slot out of range. */
fc_status fc_scatter(int64_t K, const int64_t *token, const int64_t *slot, const double *mass,
                     int64_t N, int64_t R, int64_t W, const int64_t *indptr, const int32_t *index,
                     const float *value, const int32_t *place, double *out, int64_t *where);

/* Checks indptr [N + 1] (from 0, not falling, ending at n_index) and index (below R) once. */
fc_status fc_check_rows(int64_t N, int64_t R, int64_t n_index, const int64_t *indptr,
                        const int32_t *index, int64_t *where);

/* Checks that gold states [N] are states and that consecutive ones of a sentence have an arc. */
fc_status fc_check_path(const fc_graph *graph, const fc_batch *batch, const int32_t *path,
                        int64_t *where);

/* --- Training one sentence at a time -----------------------------------------------------------
 *
 * What an online learner needs to know of a tagger. Node potentials of a state are the sum of K
 * slots of the token's row: node[n][s] = sum_k U[n][slot[s][k]], U = design x table. An arc's
 * potential is the parameter of its slot; initial and final potentials are parameters of their own. A
 * parameter is trained where its mask is 1. */
typedef struct {
    int64_t R, W, K, M;
    const int32_t *slot;     /* [S][K]   slots of a state */
    const int32_t *arc_slot; /* [arcs]   slot of an arc, below M */
    const int32_t *label;    /* [S]      label of a state: what counts as wrong */
    const int64_t *indptr;   /* [N + 1]  design */
    const int32_t *index;    /* [nnz] */
    const float *value;      /* [nnz] or NULL: all ones */
    const uint8_t *mask;     /* [R][W] */
    const uint8_t *arc_mask; /* [M] */
    int64_t ends;            /* 1: initial and final potentials are trained, too */
} fc_learner;

/* The parameters (or anything of their shape). */
typedef struct {
    double *table;   /* [R][W] */
    double *arc;     /* [M] */
    double *initial; /* [S] */
    double *final;   /* [S] */
} fc_parameters;

/* One epoch of the averaged perceptron over the sentences order[0 .. n_order - 1]:
 *   theta += rate_b * (features(gold) - features(best path)), where they differ, and
 *   sums  += step * (the same), so that the average over all steps is theta - sums / step.
 * The potentials of `graph` and `batch` are not read: structure and offsets are; scores come from
 * theta, where -inf forbids. The graph must not move. gold has passed fc_check_path.
 *   gold   [N]  in      states
 *   weight [B]  in      rate of each sentence
 *   step   [1]  in/out  sentences seen so far, from 1
 *   errors [1]  out     tokens whose label was wrong
 *   loss   [1]  out     sum of rate_b * (wrong labels / tokens)
 *   work        fc_learner_work doubles */
fc_status fc_perceptron(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                        int64_t n_order, const int64_t *order, const int32_t *gold,
                        const double *weight, fc_parameters *theta, fc_parameters *sums,
                        double *step, int64_t *errors, double *loss, double *work);

/* How far a passive-aggressive step goes, for the loss l and the squared norm n of the difference of
 * features, with aggressiveness C:  l / n,  min(C, l / n),  l / (n + 1 / (2 C)). */
typedef enum { FC_PA = 0, FC_PA_I = 1, FC_PA_II = 2 } fc_pa;

/* One epoch of the passive-aggressive algorithm, for sentences whose best path is wrong:
 *   d     = features(gold) - features(best path), of what is trained
 *   l     = score(best path) - score(gold) + cost,   cost = sqrt(wrong labels), or 1
 *   theta += weight_b * step(l, |d|^2) * d           sums and step as above
 *   errors_count 1: the cost counts wrong labels
 *   loss [1] out  sum of weight_b * l
 *   work          fc_difference_work doubles
 * FC_ENUMERIC with *where = k when the loss of the k-th of order is not finite.
 * Source: Crammer et al. (2006), figures 1 and 4, with the best path for the prediction. */
fc_status fc_passive_aggressive(const fc_graph *graph, const fc_batch *batch,
                                const fc_learner *learner, int64_t n_order, const int64_t *order,
                                const int32_t *gold, const double *weight, fc_pa kind,
                                double aggressiveness, int errors_count, fc_parameters *theta,
                                fc_parameters *sums, double *step, double *loss, double *work,
                                int64_t *where);

/* One epoch of adaptive regularisation of weights, for sentences whose best path is wrong, with a
 * variance v for each parameter:
 *   d = weight_b * (features(gold) - features(best path)), of what is trained
 *   l = score(best path) - score(gold) + wrong labels
 *   theta_i += l / (gamma + sum_j v_j d_j^2) * v_i d_i,   then   1 / v_i += d_i^2 / gamma
 *   loss [1] out  sum of weight_b * l
 *   work          fc_difference_work doubles
 * FC_ENUMERIC as above. Source: Crammer, Kulesza and Dredze (2009), with a diagonal covariance. */
fc_status fc_arow(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                  int64_t n_order, const int64_t *order, const int32_t *gold, const double *weight,
                  double gamma, fc_parameters *theta, fc_parameters *variance, double *loss,
                  double *work, int64_t *where);

/* One epoch of stochastic gradient descent on  weight_b (log Z_b - score(gold_b)) + decay/2 |theta|^2,
 * one sentence a step, with rate[k] for the k-th of order. The decay is kept in one factor: the true
 * parameters are scale[0] * theta.
 *   scale [1] in/out
 *   loss  [1] out     sum of weight_b * (log Z_b - score(gold_b)), each before its own step
 * FC_ENUMERIC with *where = k when a step leaves the finite numbers.
 * Source: Shalev-Shwartz, Singer and Srebro (2007), Pegasos; Bottou (2010). */
fc_status fc_sgd(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                 int64_t n_order, const int64_t *order, const int32_t *gold, const double *weight,
                 const double *rate, double decay, fc_parameters *theta, double *scale,
                 double *loss, double *work, int64_t *where);

/* Doubles of scratch for the perceptron and gradient descent; for the two that need a sentence's
 * difference of features; 0 where a size is outside what it may be. */
int64_t fc_learner_work(const fc_graph *graph, const fc_learner *learner, int64_t longest);
int64_t fc_difference_work(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner);

/* --- Learning from rewards -----------------------------------------------------------------------
 *
 * A sentence is labelled by a sample, somebody says how good that is (a reward in [0, 1]), and theta
 * moves. One step, with the sample y of p_w, features f and their expectation E:
 *
 *   theta <- (1 - rate * decay) theta - rate * (signal - control) * (f(y) - E_w f)
 *            (with momentum m: rate * decay / (1 - m))
 *
 *   expected loss   signal = 1 - reward
 *   cross-entropy   signal = -reward / max(p_w(y), clip)
 *   preference      pairs: y of p_w, z of p_-w; the reward says how far y is ahead of z
 *                   signal = 1 - reward, along f(y) - f(z) - (E_w f - E_-w f)
 *                   (with `alike`, both of p_w: along f(y) - f(z))
 *
 * The control variate is known before the sample is: it changes the variance of a step, not its mean.
 * (The first sample of all is its own control, and moves nothing.)
 * Source: Sokolov, Kreutzer, Lo and Riezler (2016); controls: Greensmith, Bartlett and Baxter (2004). */
typedef enum { FC_EXPECTED_LOSS = 0, FC_PREFERENCE = 1, FC_CROSS_ENTROPY = 2 } fc_aim;
typedef enum { FC_NO_CONTROL = 0, FC_RUNNING_MEAN = 1, FC_SENTENCE_MEAN = 2 } fc_control;

typedef struct {
    fc_aim objective;
    fc_control control;
    double clip;                  /* 0: nothing is clipped */
    double temperature;           /* potentials are divided by it */
    double common_rate, own_rate; /* how fast the running means of signals follow, in (0, 1] */
    int64_t alike;                /* preference: both of a pair come from p_w */
} fc_bandit;

/* Running means of signals: [0] of all sentences, [1 + b] of sentence b. */
typedef struct {
    double *mean;  /* [1 + B] */
    double *count; /* [1 + B] */
} fc_baseline;

/* Rewards from gold labels. step[before][now]: 1 a span begins at `now`, 2 one goes on, 0 neither; label
 * L stands for both ends. The reward is the F of spans (1 where there is none on either side), or
 * the share of right labels where step is NULL. */
typedef struct {
    int64_t L;
    const uint8_t *step; /* [L + 1][L + 1] */
    const int32_t *type; /* [L + 1] */
    const int32_t *gold; /* [N] labels */
    int64_t graded;      /* pairs: by how much the first is ahead; 0: 1 where it is */
} fc_judge;

typedef enum { FC_CONSTANT = 0, FC_MOMENTUM = 1, FC_ADADELTA = 2 } fc_rule;

/* The true parameters are scale * theta; velocities are in units of theta. Rows that a step does not
 * touch are brought up to date when they are next read; `touched` says up to which step they are. */
typedef struct {
    fc_rule rule;
    double rate, decay;
    double momentum;     /* below 1 */
    double rho, epsilon; /* ADADELTA: the memory of its means, and what keeps them above zero */
    double *scale;       /* [1] in/out */
    int64_t *step;       /* [1] in/out  steps so far */
    fc_parameters *theta;
    fc_parameters *first;  /* velocities, or means of squared gradients */
    fc_parameters *second; /* means of squared changes */
    int64_t *touched;      /* [R]  not for the constant rate */
    int32_t *place;        /* [R]  scratch that keeps what it holds; likewise */
    int32_t *rows;         /* [most] scratch; most: attributes of a sentence */
    double *sums;          /* [most][W] scratch */
    double *small;         /* [max(M, 2 S)] scratch */
} fc_descent;

/* Samples for sentences order[0 .. n_order - 1], all at the parameters of now. `mask` of the learner
 * may be NULL: every weight is trained.
 *   uniform [tokens] in  numbers in [0, 1); for pairs first those of y, then those of z, a sentence
 *   path, other [tokens] out  states of y, and of z for pairs
 *   node  [tokens][S]    out  direction: y less the posteriors (for pairs, less the same of z)
 *   arc   [n_order][M]   out  ... of arc slots
 *   log_p [n_order]      out  log p_w(y)
 * FC_ENUMERIC with *where = k when the k-th has no path, or potentials that are not finite. */
fc_status fc_propose(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                     int64_t n_order, const int64_t *order, const fc_bandit *bandit,
                     fc_descent *descent, const double *uniform, int32_t *path, int32_t *other,
                     double *node, double *arc, double *log_p, double *work, int64_t *where);

/* Rewards of samples.
 *   reward [n_order] out */
fc_status fc_judge_paths(const fc_batch *batch, const fc_learner *learner, int64_t n_order,
                         const int64_t *order, const fc_bandit *bandit, const fc_judge *judge,
                         const int32_t *path, const int32_t *other, double *reward);

/* A step for each proposal, in their order.
 *   coefficient [n_order] out  signal - control
 * FC_ENUMERIC with *where = k when the k-th step is not finite; it and what follows are not done. */
fc_status fc_reinforce(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                       int64_t n_order, const int64_t *order, const fc_bandit *bandit,
                       fc_baseline *baseline, fc_descent *descent, const double *reward,
                       const double *log_p, const double *node, const double *arc,
                       double *coefficient, double *work, int64_t *where);

/* All three in turn, one sentence after the other. */
fc_status fc_feedback_epoch(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                            int64_t n_order, const int64_t *order, const fc_bandit *bandit,
                            const fc_judge *judge, fc_baseline *baseline, fc_descent *descent,
                            const double *uniform, double *reward, double *log_p,
                            double *coefficient, double *work, int64_t *where);

/* Doubles of scratch for the functions above. */
int64_t fc_feedback_work(const fc_graph *graph, const fc_learner *learner, int64_t longest);

/* --- Training at full speed ----------------------------------------------------------------------
 *
 * A shard: a fixed run of sentences with attributes numbered for itself. Row attributes have padded
 * rows of weights; single attributes have entries (slot, weight). Its weights are one float array:
 * R * P for the rows, then M for the singles. P is a multiple of 8. */
typedef struct {
    int64_t B, N, R, M, P, longest; /* longest: tokens of the longest sentence */
    int64_t K;                      /* slots a state sums; 0: states are slots */
    const int32_t *slot;            /* [S][K], K > 0 only */
    const int64_t *offsets;         /* [B + 1] */
    const double *weight;           /* [B] of sentences */
    const int64_t *row_ptr;         /* [N + 1] */
    const int32_t *row;             /* row attributes of tokens, below R */
    const float *row_value;         /* or NULL: all ones */
    const int64_t *single_ptr;      /* [N + 1] */
    const int32_t *single;          /* entries of single attributes, below M */
    const uint16_t *single_slot;    /* their slots */
    const float *single_value;      /* or NULL: all ones */
    const int32_t *rows;            /* [R] attribute of each row, in the layout */
    const int32_t *singles;         /* [M] place of each entry in the parameter vector */
} fc_shard;

/* Where the parameters of each attribute are: theta[ptr[a] .. ptr[a + 1] - 1], their slots. */
typedef struct {
    int64_t attributes, parameters;
    const int64_t *ptr;   /* [attributes + 1] */
    const uint16_t *slot; /* [parameters] */
} fc_layout;

/* Checks a shard and a layout once: every index within its size. */
fc_status fc_check_shard(const fc_graph *graph, const fc_shard *shard, const fc_layout *layout,
                         int64_t *where);

/* One sweep: log Z and gradient of a shard over a dense graph that does not move.
 *   weight   [R * P + M] in
 *   gradient [R * P + M] in/out  posterior counts are added
 *   loss     [1]         out     sum of weight_b * log Z_b
 *   arc      [S * S]     out     expected arcs
 *   begin, end [S]       out     expected first and last states
 *   rescued  [1]         out     sentences that float32 could not hold and were done in float64 */
fc_status fc_sweep(const fc_graph *graph, const fc_shard *shard, const float *weight,
                   float *gradient, double *loss, double *arc, double *begin, double *end,
                   int64_t *rescued, double *work);
int64_t fc_sweep_work(const fc_graph *graph, const fc_shard *shard);

/* weight = the shard's view of theta. */
fc_status fc_spread(const fc_shard *shard, const fc_layout *layout, const double *theta,
                    float *weight);

/* theta += the shard's gradient, of some of its rows and single entries: half-open runs
 *   row_runs [m][2] of 0 .. R,  single_runs [k][2] of 0 .. M */
fc_status fc_collect(const fc_shard *shard, const fc_layout *layout, int64_t m,
                     const int64_t *row_runs, int64_t k, const int64_t *single_runs,
                     const float *gradient, double *theta);

/* --- Vectors -------------------------------------------------------------------------------------
 *
 * Inner products of m stored vectors with k others:  out[i][v] = sum_j rows[i][j] * x[v][j]
 *   rows [m][stride], x [k][x_stride], of which n are used;  out [m][k] */
fc_status fc_dots(int64_t m, int64_t k, int64_t n, int64_t stride, const float *rows,
                  int64_t x_stride, const double *x, double *out);

/* out [n] += sum_i coefficient[i] * rows[i] */
fc_status fc_combine(int64_t m, int64_t n, int64_t stride, const float *rows,
                     const double *coefficient, double *out);

/* --- Rows times a table that is mostly empty -----------------------------------------------------
 *
 * Rows with at least `least` weights are padded rows of a small table, the others lists of entries.
 * Row r is at place[r]: row p >= 0 of the table, or the entries from ~p on up to the first whose
 * slot is negative, which is the last and stands for slot ~slot. */
typedef struct {
    double weight;
    int64_t slot;
} fc_entry;

typedef struct {
    int64_t R, W, rows, entries;
    const int32_t *place;  /* [R] */
    const double *table;   /* [rows][W] */
    const fc_entry *entry; /* [entries] */
} fc_packed;

/* Checks cells once, the places of M weights in the full table: rising, below R * W. Counts the
 * padded rows and the entries that they need. */
fc_status fc_packed_size(int64_t R, int64_t W, int64_t M, const int64_t *cells, int64_t least,
                         int64_t *rows, int64_t *entries, int64_t *where);

/* Fills place [R], table [rows][W] and entry [entries] of the sizes that fc_packed_size found. */
fc_status fc_pack(int64_t R, int64_t W, int64_t M, const int64_t *cells, const double *weight,
                  int64_t least, int32_t *place, double *table, fc_entry *entry);

/* The sums of fc_gather, of which the first S <= W columns are kept.
 *   out [N][S]
 *   sum [W]     scratch */
fc_status fc_gather_packed(int64_t N, const fc_packed *packed, const int64_t *indptr,
                           const int32_t *index, const float *value, int64_t S, double *out,
                           double *sum);

/* --- Attributes of tokens ------------------------------------------------------------------------
 *
 * A family of attributes packs the numbers of strings into keys, and has a row for each key that it
 * knows: in an array over all keys, or in a hash table (linear probing, `size` = 2^(64 - shift)
 * slots of which some are free, row < 0). */
typedef struct {
    uint64_t key;
    int64_t row;
} fc_slot;

typedef enum { FC_EVERY = 0, FC_FIRST = 1, FC_LAST = 2, FC_INNER = 3 } fc_firing;

typedef struct {
    int64_t column; /* of the codes */
    int64_t offset; /* relative to the token */
    int64_t pads;   /* 1: outside the sentence there is a pad; 0: there is nothing */
    int64_t width;  /* bits */
} fc_term;

typedef struct {
    fc_firing firing; /* every token, first or last tokens only, or all but first ones */
    int64_t M;
    const fc_term *term; /* [M] */
    int64_t size, shift;
    const int32_t *direct; /* [size], or NULL: */
    const fc_slot *slot;   /* [size] */
} fc_family;

/* Fills a hash table with n < size keys, all different. */
fc_status fc_fill_slots(int64_t n, const uint64_t *key, const int32_t *row, int64_t size,
                        int64_t shift, fc_slot *slot);

/* The row of each family at each token, -1 where there is none: no string, or no known attribute.
 *   offsets [B + 1]        sentences, as in fc_batch, but from any token on
 *   codes   [K][stride]    number of each token's string in K columns, -1 where it is unknown;
 *                          numbers below 2 * reach are pads: those before the sentence by distance,
 *                          then those behind it
 *   rows    [tokens][F]    out */
fc_status fc_find_rows(int64_t B, const int64_t *offsets, int64_t K, int64_t stride,
                       const int32_t *codes, int64_t reach, int64_t F, const fc_family *families,
                       int32_t *rows, int64_t *where);

/* The same as sparse rows: drops what is -1.
 *   indptr [N + 1] out    index [indptr[N]] out, room for N * F */
fc_status fc_compact_rows(int64_t N, int64_t F, const int32_t *rows, int64_t *indptr,
                          int32_t *index);

/* --- Strings and column files --------------------------------------------------------------------
 *
 * Distinct strings, numbered in the order in which they came. The caller gives more memory when a
 * function says FC_EFULL, then calls fc_hash_strings. */
typedef struct {
    int64_t slots;       /* a power of two above `room` */
    int64_t room, space; /* strings and bytes that there is memory for */
    int64_t count;       /* strings that are there */
    uint64_t *slot;      /* [slots] */
    int64_t *offset;     /* [room + 1] string k is text[offset[k] .. offset[k + 1] - 1] */
    uint8_t *text;       /* [space] */
} fc_strings;

/* Fills the slots. FC_EINVAL with *where = k if string k is there twice. */
fc_status fc_hash_strings(fc_strings *strings, int64_t *where);

/* The number of each of n strings (which lie in `size` bytes), -1 for unknown ones. */
fc_status fc_find_strings(const fc_strings *strings, int64_t n, const int64_t *offset,
                          const uint8_t *text, int64_t size, int64_t *number);

/* Where a reader of lines stands. */
typedef enum { FC_BETWEEN = 0, FC_SENTENCE = 1, FC_BEHIND = 2 } fc_inside;

/* Lines of C fields, blank lines between sentences, and lines that open a document: those whose
 * first field is `mark`. All zero where reading begins, and carried on by fc_read_lines. */
typedef struct {
    int64_t size, lines, C, n_separator, n_mark;
    const uint8_t *text;      /* [size] `lines` lines, each with its \n */
    const uint8_t *separator; /* [n_separator]; none: any run of blanks and tabs */
    const uint8_t *mark;      /* [n_mark]; none: no line opens a document */
    int64_t at, line;         /* byte and line that come next */
    int64_t tokens, sentences, headers;
    int64_t found; /* FC_EROW: fields of the row, or ~(a field that is empty) */
    fc_inside inside;
    fc_strings *strings; /* [C] */
    int32_t *ids;        /* [C][lines] number of each token's string */
    int64_t *token_line; /* [lines] line of each token */
    int64_t *start;      /* [lines] first token of each sentence */
    int32_t *blank;      /* [lines] blank lines behind each sentence */
    int64_t *header;     /* [lines] lines that open a document */
} fc_lines;

/* Reads on to the end. FC_EFULL, FC_EROW: stands at the line that was not read. */
fc_status fc_read_lines(fc_lines *lines);

/* A column of N tokens: strings by number. */
typedef struct {
    int64_t count;
    const int32_t *ids;    /* [N] below count */
    const int64_t *offset; /* [count + 1] */
    const uint8_t *text;
} fc_column;

/* Checks ids and breaks once; the bytes that the next function writes. */
fc_status fc_rows_size(int64_t N, int64_t C, const fc_column *columns, int64_t n_separator,
                       const int32_t *breaks, int64_t *size, int64_t *where);

/* Writes a line for each token, and breaks[n] empty lines behind it. */
fc_status fc_write_rows(int64_t N, int64_t C, const fc_column *columns, int64_t n_separator,
                        const uint8_t *separator, const int32_t *breaks, int64_t size,
                        uint8_t *out);

/* Inner product of two vectors, summed in an order that depends on n alone: out[0] = sum_j x[j] y[j] */
fc_status fc_inner(int64_t n, const double *x, const double *y, double *out);

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
    int64_t S, A;     /* states; arcs, or 0: every pair, arc i * S + j leads from i to j */
    int64_t contexts; /* tables of arc potentials */
    int64_t moving;   /* 1: each token has its own, for the arcs that lead into it */
    const int32_t
        *place;         /* [product of the earlier axes] table of an outer index; NULL: the first */
    const int64_t *row; /* [S + 1] arcs that leave i: row[i] .. row[i + 1] - 1; sparse only */
    const int32_t *source, *target; /* [A] sorted by source, then target; sparse only */
    const double *score;            /* [contexts][arcs] or [N][contexts][arcs] */
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
} fc_machine;

/* Checks a machine once: sizes, indices, static potentials; the other functions take it for granted.
 * *where: the number of the axis, 100 + the number of the factor, 200 the residual, 300 the ends. */
fc_status fc_check_machine(const fc_machine *machine, int64_t *where);

/* Index of the first of n potentials that is NaN, +inf or beyond 1e300, or -1. */
int64_t fc_first_invalid(int64_t n, const double *x);

/* Doubles of scratch for sentences of up to `longest` tokens. */
int64_t fc_machine_work(const fc_machine *machine, int64_t longest);

/* Best paths. Ties: the smaller joint state, at the earliest token where they differ.
 *   path  [N] out  joint states; -1 throughout a sentence that has no path
 *   score [B] out  -inf where no path exists */
fc_status fc_machine_best(const fc_machine *machine, int64_t B, const int64_t *offsets,
                          int32_t *path, double *score, double *work);

/* The n best paths of each sentence, best first: exact best-first search over the backward scores,
 * in which a path's siblings are made when it is taken from the queue.
 *   path  [n][N] out  -1 beyond the paths there are
 *   score [B][n] out  -inf beyond them
 *   count [B]    out
 *   queue             fc_queue_size doubles of scratch */
fc_status fc_machine_nbest(const fc_machine *machine, int64_t B, const int64_t *offsets, int64_t n,
                           int32_t *path, double *score, int64_t *count, double *work,
                           double *queue);
int64_t fc_queue_size(const fc_machine *machine, int64_t n, int64_t longest);

/* log Z; -inf where no path exists. */
fc_status fc_machine_log_partition(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   fc_domain domain, double *log_z, double *work, int64_t *where);

/* log Z and posterior probabilities of the states of every axis, 0 where no path exists.
 *   node  [axes] of [N][S_c] out
 *   arc   [axes] of [N][arcs of c] out, or NULL; rows of first tokens are 0; summed over contexts
 *   entropy [B] out, or NULL: of the paths, in nats; costs a row of joint states for each of them */
fc_status fc_machine_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                               fc_domain domain, double *log_z, double *const *node,
                               double *const *arc, double *entropy, double *work, int64_t *where);

/* Score of the best path through each state of every axis; -inf where there is none.
 *   node  [axes] of [N][S_c] out */
fc_status fc_machine_max_marginals(const fc_machine *machine, int64_t B, const int64_t *offsets,
                                   double *const *node, double *work);

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

/* --- Long sentences ------------------------------------------------------------------------------
 *
 * A sentence whose rows would take too much memory is taken in blocks: backward once, keeping the suffix
 * of every block's first token, then forward with each block's rows made again. The answers have the bits
 * of those for the whole sentence. FC_ERANGE: the linear domain cannot hold the sentence (take logs), or
 * there is no path. */
typedef enum {
    FC_BEST,
    FC_SUM,
    FC_LOGS
} fc_kind; /* maxima; sums in the linear domain; their logs */

typedef struct {
    int64_t first, n; /* tokens within the batch */
    int64_t t;        /* number of the first one within its sentence */
    fc_kind kind;
    const double *after; /* [cells] suffix of the token behind; NULL: the sentence ends */
    double *before;      /* [cells] in, out: prefix of the first token, then of the token behind */
} fc_block;

/* Cells of a row; doubles of scratch for a block of n tokens. */
int64_t fc_block_cells(const fc_machine *machine);
int64_t fc_block_work(const fc_machine *machine, int64_t n);

/* The suffix of the block's first token.
 *   suffix [cells] out
 *   total          in, out  what was divided out; of a sentence's first block log Z, or the best score */
fc_status fc_block_suffix(const fc_machine *machine, const fc_block *block, double *suffix,
                          double *total, double *work);

/* The best path through the block; where t > 0 the states of the block before stand in front of `path`.
 *   path     [n]         joint states
 *   residual     in, out */
fc_status fc_block_best(const fc_machine *machine, const fc_block *block, int32_t *path,
                        int32_t *residual, double *work);

/* n samples; rows of uniform and path are `stride` apart, before `path` stands what was drawn already.
 *   residual [n]  in, out */
fc_status fc_block_sample(const fc_machine *machine, const fc_block *block, int64_t n,
                          int64_t stride, const double *uniform, int32_t *path, int32_t *residual,
                          double *work);

/* As fc_machine_marginals, of the block's tokens; FC_BEST: as fc_machine_max_marginals.
 *   arc      or NULL  rows of the tokens behind the first one of the block, and of the one behind it
 *   entropy  or NULL  in, out  of the blocks so far */
fc_status fc_block_marginals(const fc_machine *machine, const fc_block *block, double log_z,
                             double *const *node, double *const *arc, double *entropy,
                             double *work);

/* --- Spans ---------------------------------------------------------------------------------------
 *
 * Spans of the labels of one axis, as its arcs open and carry them; see segments.c. */
enum { FC_OPENS = 1, FC_CARRIES = 2 };

typedef struct {
    int64_t axis, types;
    const int32_t
        *type; /* [S] of the spans that a state belongs to, or -1; each type has a state */
    const uint8_t *first; /* [S] a sentence that begins with this state begins with a span */
    const uint8_t
        *arc; /* [arcs] FC_OPENS: a span begins at its target; FC_CARRIES: one goes on; 0 */
    const uint8_t *last; /* [S] a span may end with this state */
} fc_segments;

/* FC_ABOVE: all spans with a probability above the floor. FC_ASKED: those that are given, sorted by start
 * and type. FC_COUNTED: the expected number of spans of each type. */
typedef enum { FC_ABOVE, FC_ASKED, FC_COUNTED } fc_segment_mode;

typedef struct {
    fc_segment_mode mode;
    double floor;
    int64_t lanes;         /* spans of a type that may be open at a token */
    int64_t asked, cursor; /* given spans of this sentence: from `cursor` on; their end */
    int64_t room, found;   /* for spans; those found so far */
    int32_t *span;         /* [room][3] start and end within the sentence, type: out, or given */
    double *probability;   /* [room] or, counted, [B][types] from zeros on */
} fc_segment_search;

/* Doubles that are kept from block to block, and of scratch for a block of n tokens. */
int64_t fc_segment_memory(const fc_machine *machine, const fc_segments *labels, int64_t lanes);
int64_t fc_segment_work(const fc_machine *machine, const fc_segments *labels, int64_t lanes,
                        int64_t n);

/* Spans of whole sentences.
 *   asked  [B + 1]     bounds of each sentence's given spans, or NULL
 *   ends   [B] out     spans found up to the end of each sentence
 *   log_z  [B] out     -inf where no path exists, and no span is found
 * FC_EFULL: there is no room for what is found. */
fc_status fc_machine_segments(const fc_machine *machine, int64_t B, const int64_t *offsets,
                              const fc_segments *labels, const int64_t *asked,
                              fc_segment_search *search, int64_t *ends, double *log_z,
                              double *memory, double *work, int64_t *where);

/* Spans that end in a block of a long sentence (FC_SUM or FC_LOGS), one block after the other. */
fc_status fc_block_segments(const fc_machine *machine, const fc_block *block,
                            const fc_segments *labels, fc_segment_search *search, double *memory,
                            double *work);

/* --- Grammars too large to multiply out ----------------------------------------------------------
 *
 * Acceptors that are read beside a machine, deterministic, from state 0. The state of the search is a
 * token, a joint state, a residual state of the machine and a state of each acceptor; those are packed
 * into `words` numbers of 64 bits, acceptor i into bits shift .. shift + bits - 1 of its word. */
typedef struct {
    int64_t Q, classes, rows;
    int64_t word, shift, bits;
    const int32_t *place;  /* [outer * S] class, below `classes`, of a joint state */
    const int32_t *target; /* [Q][classes] -1: refused */
    const double *score;   /* [Q][classes] of a step, or NULL: 0 */
    const double *ahead; /* [rows][Q] the most that can still come when r tokens are left, row 0 the
                            * final scores, the last row for more tokens; NULL: 0 */
} fc_acceptor;

typedef struct {
    int64_t acceptors, words;
    const fc_acceptor *acceptor; /* [acceptors] */
} fc_conjunction;

/* Checks sizes, indices and numbers once; *where: the number of the acceptor. */
fc_status fc_check_conjunction(const fc_conjunction *grammar, const fc_machine *machine,
                               int64_t *where);

/* A state that was reached, by the best way to it: the score of the best path through it is at most
 * core + gain + ahead. */
typedef struct {
    double core;  /* of the machine: the best path through this one */
    double gain;  /* of the acceptors: so far */
    double ahead; /* ... and the most that can still come */
    int32_t parent, state, residual, token, visits;
} fc_visit;

/* What to look at: a visit (cell -1), or a cell of the row of its successors. */
typedef struct {
    double priority, value;
    int32_t visit, cell;
} fc_candidate;

/* Memory of a search, the caller's; and where it stands. To give it more room, copy what is there and
 * set `table` to zeros. All counts zero at first; `sentence` and `phase` again for another batch. */
typedef struct {
    int64_t visit_room, queue_room, slots; /* slots: a power of two, at least 2 * visit_room */
    fc_visit *visit;                       /* [visit_room] */
    uint64_t *states;                      /* [visit_room][words] */
    fc_candidate *queue;                   /* [queue_room] */
    int64_t *table;                        /* [slots] stamp and visit + 1 */
    int64_t stamp; /* of the sentence; rises as long as the memory is used, below 2^31 */
    int64_t sentence, found, visits, queued, popped;
    int phase; /* 0 at a new sentence, 1 searching, 2 giving up */
} fc_arena;

/* The n best paths that a machine and a grammar accept, by best-first search over states that are made
 * as they are met. A sentence for which `limit` states have been taken from the queue gets what a beam
 * of `width` states finds, if nothing has been found; so does the present one with `give_up` 1, and it
 * and all later ones with 2.
 *   path   [n][N] out  joint states; -1 beyond the paths found
 *   score  [B][n] out  falling; -inf beyond them
 *   count  [B]    out  paths found
 *   proven [B]    out  ... of which so many are the best ones
 *   bound  [B]    out  no path that is not proven scores more; -inf: there is none
 *   popped [B]    out  states taken from the queue
 * FC_EFULL: there is not enough room; FC_EPAUSED: `steps` states have been taken in this call. Call
 * again, with the same arguments but for room and `give_up`. */
fc_status fc_lazy_nbest(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                        const int64_t *offsets, int64_t n, int64_t limit, int64_t width,
                        int64_t steps, int give_up, fc_arena *arena, int32_t *path, double *score,
                        int64_t *count, int64_t *proven, double *bound, int64_t *popped,
                        double *work);

/* --- Acyclic machines ----------------------------------------------------------------------------
 *
 * Any acyclic acceptor. Arcs are sorted by source: those that leave s are row[s] .. row[s + 1] - 1.
 * A path is a sequence of arcs from state 0:
 *
 *   score = sum of its arcs' scores + final[where it ends]
 *
 * States are numbered in topological order: every arc leads to a state above its own. */
typedef struct {
    int64_t S, A;
    const int64_t *row;    /* [S + 1] */
    const int32_t *target; /* [A] */
    const double *score;   /* [A] */
    const double *final;   /* [S] -inf: no path ends here */
} fc_acyclic;

/* What the search for the n best paths remembers: prefixes, and ways to leave them. */
typedef struct {
    double score;
    int32_t arc, prefix, depth;
} fc_step;

typedef struct {
    double priority, value;
    int64_t choice, prefix;
} fc_deviation;

/* Which states lie on a path from `start` to a state that ends; the machine may have cycles.
 *   start         a state; any other number: there is none
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

/* Labels on the shortest and the longest way from state 0 to each state; -1 where there is none.
 *   label [A]  counts where it is not negative; NULL: every arc counts */
fc_status fc_acyclic_lengths(const fc_acyclic *machine, const int32_t *label, int32_t *shortest,
                             int32_t *longest);

/* Score of the best way to end from each state, and the log of the sum over all of them; -inf where
 * there is none. suffix[0] is that of the machine.
 *   suffix [S] out
 * Cost: A additions; A exponentials and S logarithms for the sum. */
fc_status fc_acyclic_best_suffix(const fc_acyclic *machine, double *suffix);
fc_status fc_acyclic_sum_suffix(const fc_acyclic *machine, double *suffix);

/* Posterior probabilities of states and arcs, 0 where no path exists; `suffix` holds sums.
 *   node [S] out    arc [A] out */
fc_status fc_acyclic_marginals(const fc_acyclic *machine, const double *suffix, double *node,
                               double *arc);

/* Score of the best path through each arc, -inf where there is none; `suffix` holds the best.
 *   prefix [S] out  score of the best way to each state    arc [A] out */
fc_status fc_acyclic_max_marginals(const fc_acyclic *machine, const double *suffix, double *prefix,
                                   double *arc);

/* The best path; `suffix` holds the best. Ties: to end comes first, then the smaller arc, at the
 * earliest state where paths differ.
 *   path   [S - 1] out  arcs
 *   length         out  0 also where no path exists */
fc_status fc_acyclic_best(const fc_acyclic *machine, const double *suffix, int32_t *path,
                          int64_t *length);

/* The n best paths, best first, ties as above: exact best-first search, in which a path's siblings
 * are made when it is taken from the queue.
 *   path  [n][width] out  arcs, -1 behind the last; width: arcs of the longest path
 *   score [n]        out
 *   count            out  paths found
 *   steps, heap           scratch; n * width and n * (width + 1) + 1 always suffice
 * FC_EFULL: there is not enough of it. */
fc_status fc_acyclic_nbest(const fc_acyclic *machine, const double *suffix, int64_t n,
                           int64_t width, int64_t step_room, fc_step *steps, int64_t heap_room,
                           fc_deviation *heap, int32_t *path, double *score, int64_t *count);

/* Independent exact samples; `suffix` holds sums.
 *   uniform [n][width] in   numbers in [0, 1); width: arcs of the longest path
 *   path    [n][width] out  arcs, -1 behind the last, or throughout where no path exists
 *   work    [S + A] */
fc_status fc_acyclic_sample(const fc_acyclic *machine, const double *suffix, int64_t n,
                            int64_t width, const double *uniform, int32_t *path, double *work);

/* --- Documents: Gibbs sampling under penalties for spans that disagree ---------------------------
 *
 * The score of a document is that of its sentences' paths by a dense graph, and for each two spans
 *
 *   the same token sequence, types y and z      length * same[y][z]
 *   one, of type y, has the other's tokens      length of the inner one * within[y][z]
 *   among its own, of type z, as often as it does
 *   both of type y, their values differ         length of both * differ[y]
 *
 * and for each span of type y, for each place of its last word where no label has type y, every[y].
 *
 * Numbers of token sequences stand for those that occur more than once: the sequence of n tokens
 * from t on is sequence[first[t] + n - 1] for n <= first[t + 1] - first[t], any longer one occurs
 * once. Spans are read off neighbouring labels; row L stands for the beginning of a sentence. */
typedef struct {
    int64_t L;
    const int32_t *label; /* [S] */
    const int32_t *next; /* [S + 1][L] state after (state, label), row S: at the beginning; or -1 */
} fc_labelling;

typedef struct {
    int64_t Y;               /* types; 0: no penalties at all, and nothing below is read */
    int64_t K;               /* token sequences */
    const uint8_t *starts;   /* [L + 1][L] a span starts at the second label */
    const uint8_t *inside;   /* [L + 1][L] it goes on there */
    const int32_t *type;     /* [L] -1 where a label is outside of spans */
    const int64_t *first;    /* [N + 1] */
    const int32_t *sequence; /* [first[N]] */
    const double *same;      /* [Y][Y] symmetric, finite */
    const double *within;    /* [Y][Y] finite */
    int32_t *whole;          /* [K][Y] scratch: spans of a sequence */
    int32_t *part;           /* [K][Y] scratch: places of a sequence within longer spans */
    int64_t F, V, M;       /* tables of values, values, longest span with one; 0: there are none */
    const int32_t *table;  /* [Y] which table its spans read, or -1 */
    const int32_t *value;  /* [F][N][M] of the span of 1, 2, ... tokens from here on, or -1 */
    const double *differ;  /* [Y] finite */
    int32_t *spans;        /* [V + 1][Y] scratch: spans of a value, row V: of all */
    int32_t *tokens;       /* [V + 1][Y] scratch: their tokens */
    int64_t W;             /* words that there are more than once; 0: every is not read */
    const int32_t *word;   /* [N] number, -1: there is no other, -2: no word */
    const int32_t *occurs; /* [W] */
    const double *every;   /* [Y] finite */
    int32_t *ending;       /* [W][Y] scratch: spans whose last word it is */
    int32_t *labelled;     /* [W][Y] scratch: places within spans */
    int lowers;            /* no penalty is above 0 */
} fc_agreement;

/* Doubles of scratch for a document whose longest sentence has `longest` tokens. */
int64_t fc_gibbs_work(const fc_graph *graph, const fc_labelling *lab, int64_t longest);

/* Sweeps over a document. At temperature c tokens are drawn from P(label | all others)^(1/c); at 0
 * the best is taken. In a sweep over whole sentences each is drawn from the graph by forward
 * filtering and backward sampling, and taken with the probability min(1, ratio of penalties).
 *   temperature [sweeps]
 *   whole       [sweeps]           sentences rather than tokens
 *   uniform     [sweeps][N + B]    in [0, 1): of tokens, then of sentences
 *   path        [N]       in, out  legal states
 *   score       [sweeps]  out      of the document after each sweep
 *   best        [N]       in, out  replaced where a sweep ends with a score above *best_score */
fc_status fc_gibbs(const fc_graph *graph, const fc_batch *batch, const fc_labelling *lab,
                   const fc_agreement *agree, int64_t sweeps, const double *temperature,
                   const uint8_t *whole, const double *uniform, int32_t *path, double *score,
                   int32_t *best, double *best_score, double *work, int64_t *where);
