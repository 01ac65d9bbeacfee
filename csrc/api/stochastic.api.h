/* --- Averaged stochastic gradient descent, one sentence a step -----------------------------------
 *
 * A shard (sweep.api.h) that holds all sentences, and what is trained beside its attributes: the
 * weights of arcs and ends, D numbers, one after the other. */
typedef struct {
    const uint8_t *mask;     /* [R][P / 8] bits of the slots with a weight, or NULL: all have one */
    const int32_t *gold;     /* [N]        gold states */
    const int32_t *arc_slot; /* [arcs]     place among the D weights; -1: none */
    const int32_t *initial;  /* [S]        the same of beginning in a state */
    const int32_t *final;    /* [S]        and of ending in it */
    int64_t D, n;
    const int32_t *trained; /* [n]  arcs with a weight, ascending; where they begin and end: */
    const int32_t *source;  /* [n] */
    const int32_t *target;  /* [n] */
} fc_stochastic;

/* Weights and their average on the way. Steps move u and v; the weights are scale * u, their mean
 * over `steps` steps is (mass * u + v) / steps. Of each row the P weights u lie before the P sums v,
 * of single entries u before v: [R][2][P], then [M][2]. Steps that are small beside a float are not
 * lost where they are many: of the shard's frequent rows and single entries there follows what has
 * been rounded off, in the same form. */
typedef struct {
    float *table;
    double *dense; /* [2][D] u, then v, of arcs and ends */
    double scale, mass, steps;
} fc_averaged;

/* Checks all indices once, and that gold paths exist. The graph is dense or sparse, not moving; its
 * potentials are those of what has no weight: 0 or -inf. Where it is sparse and other pairs have a rest,
 * that is 0, and so are all potentials. */
fc_status fc_check_stochastic(const fc_machine *machine, const fc_shard *shard,
                              const fc_layout *layout, const fc_stochastic *steps, int64_t *where);

/* Steps on  weight_b (log Z_b - score(gold_b)) + decay / 2 |weights|^2  over the sentences
 * order[0 .. n_order - 1], with rate[k] for the k-th, in float32: rows of the next sentence are asked
 * for while one is done, and its rows are written once.
 *   averaging 1: the weights after each step go into the mean
 *   loss     [1] out  sum of weight_b * (log Z_b - score(gold_b)), each before its own step
 *   rescued  [1] out  sentences that were done in float64: those that float32 could not hold, or all
 *                     of a sparse graph whose other pairs do not exist
 *   work         fc_asgd_work doubles
 * The shard's attributes have passed fc_check_stochastic; all else that is an index is checked.
 * FC_EINVAL: *where is the place of what is out of range, in its own array.
 * FC_ENUMERIC with *where = k when a step leaves the finite numbers.
 * Source: Polyak and Juditsky (1992); Xu (2011), section 4, for the sums; Bottou (2010). */
fc_status fc_asgd(const fc_machine *machine, const fc_shard *shard, const fc_stochastic *steps,
                  int64_t n_order, const int64_t *order, const double *rate, double decay,
                  int averaging, fc_averaged *weights, double *loss, int64_t *rescued, double *work,
                  int64_t *where);
int64_t fc_asgd_work(const fc_machine *machine, const fc_shard *shard, const fc_stochastic *steps);

/* u = theta, v = 0; and theta = a * u + b * v, of attributes. */
fc_status fc_asgd_spread(const fc_shard *shard, const fc_layout *layout, const double *theta,
                         float *table);
fc_status fc_asgd_collect(const fc_shard *shard, const fc_layout *layout, double a, double b,
                          const float *table, double *theta);
