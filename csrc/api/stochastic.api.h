/* --- Averaged stochastic gradient descent, one sentence a step -----------------------------------
 *
 * A shard (sweep.api.h) that holds all sentences, and the trained parameters of its arcs and ends, D
 * numbers in a row. */
typedef struct {
    const uint8_t *mask;     /* [R][P / 8] bits of the slots with a weight, or NULL: all have one */
    const int32_t *gold;     /* [N]        gold states */
    const int32_t *arc_slot; /* [arcs] index among the D weights; -1: no weight */
    const int32_t *initial;  /* [S] the same for beginning in a state */
    const int32_t *final;    /* [S] and for ending in it */
    int64_t D;
} fc_stochastic;

/* Weights and their running average. Steps move u and v; the weights are scale * u, their mean over
 * `steps` steps is (mass * u + v) / steps. Each row holds the P weights u before the P sums v; each
 * single entry holds u before v: [R][2][P], then [M][2]. To keep many small steps from being lost in
 * rounding, the rounding errors of frequent rows and single entries are stored after the weights, in
 * the same layout. */
typedef struct {
    float *table;
    double *dense; /* [2][D] u, then v, of arcs and ends */
    double scale, mass, steps;
} fc_averaged;

/* Checks all indices once, and that gold paths exist. The graph is dense or sparse, not moving; its
 * potentials are 0 or -inf, because trained scores are in the weights. If it is sparse and other pairs
 * have a rest, the rest and all potentials are 0. */
fc_status fc_check_stochastic(const fc_machine *machine, const fc_shard *shard,
                              const fc_layout *layout, const fc_stochastic *steps, int64_t *where);

/* Steps on weight_b (log Z_b - score(gold_b)) + decay / 2 |weights|^2 over the sentences
 * order[0 .. n_order - 1], with rate[k] for the k-th, in float32. Rows of the next sentence are
 * prefetched while one is processed; each row is written once.
 *   averaging 1: the weights after each step enter the mean
 *   loss     [1] out  sum of weight_b * (log Z_b - score(gold_b)), each before its own step
 *   rescued  [1] out  sentences that were processed in float64: float32 could not represent them, or
 *                     the graph is sparse and its other pairs do not exist
 *   work         NULL: the call only writes the number of doubles that it needs to *where
 * The shard's attributes have passed fc_check_stochastic; all other indices are checked. FC_EINVAL:
 * *where is the position of the bad entry in its own array. FC_ENUMERIC with *where = k when a step
 * leaves the finite numbers. Source: Polyak and Juditsky (1992); Xu (2011), section 4, for the sums;
 * Bottou (2010). */
fc_status fc_asgd(const fc_machine *machine, const fc_shard *shard, const fc_stochastic *steps,
                  int64_t n_order, const int64_t *order, const double *rate, double decay,
                  int averaging, fc_averaged *weights, double *loss, int64_t *rescued, double *work,
                  int64_t *where);
