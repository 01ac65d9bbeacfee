/* --- Training one sentence at a time -----------------------------------------------------------
 *
 * Features and parameters of a tagger, as an online learner sees them. The node potential of a state is
 * the sum of K slots of the token's row: node[n][s] = sum_k U[n][slot[s][k]], U = design x table. An
 * arc's potential is the parameter of its slot; initial and final potentials are separate parameters.
 * Only parameters whose mask is 1 are trained. */
typedef struct {
    int64_t R, W, K, M;
    const int32_t *slot;     /* [S][K]   slots of a state */
    const int32_t *arc_slot; /* [arcs]   slot of an arc, below M */
    const int32_t *label;    /* [S] label of a state; an error is a wrong label */
    const int64_t *indptr;   /* [N + 1]  design */
    const int32_t *index;    /* [nnz] */
    const float *value;      /* [nnz] or NULL: all ones */
    const uint8_t *mask;     /* [R][W] */
    const uint8_t *arc_mask; /* [M] */
    int64_t ends;            /* 1: initial and final potentials are trained as well */
} fc_learner;

/* The parameters, or an array of the same shape. */
typedef struct {
    double *table;   /* [R][W] */
    double *arc;     /* [M] */
    double *initial; /* [S] */
    double *final;   /* [S] */
} fc_parameters;

/* One epoch of the averaged perceptron over the sentences order[0 .. n_order - 1]:
 *   theta += rate_b * (features(gold) - features(best path)), for the parameters that are trained
 *   sums  += step * (the same), so that the average over all steps is theta - sums / step.
 * The kernel reads the structure of the machine, not its potentials; scores are computed from theta, in
 * which -inf forbids. The machine has one axis, which does not move. gold has passed fc_check_path.
 *   gold   [N]  in      states
 *   weight [B]  in      rate of each sentence
 *   step   [1]  in/out  sentences seen so far, from 1
 *   errors [1]  out     tokens whose label was wrong
 *   loss   [1]  out     sum of rate_b * (wrong labels / tokens)
 *   work        fc_learner_work doubles */
fc_status fc_perceptron(const fc_machine *machine, const fc_batch *batch, const fc_learner *learner,
                        int64_t n_order, const int64_t *order, const int32_t *gold,
                        const double *weight, fc_parameters *theta, fc_parameters *sums,
                        double *step, int64_t *errors, double *loss, double *work);

/* Size of a passive-aggressive step, for the loss l and the squared norm n of the difference of
 * features, with aggressiveness C: l / n, min(C, l / n), l / (n + 1 / (2 C)). */
typedef enum { FC_PA = 0, FC_PA_I = 1, FC_PA_II = 2 } fc_pa;

/* One epoch of the passive-aggressive algorithm, for sentences whose best path is wrong:
 *   d     = features(gold) - features(best path), of the trained parameters
 *   l     = score(best path) - score(gold) + cost,   cost = sqrt(wrong labels), or 1
 *   theta += weight_b * step(l, |d|^2) * d           sums and step as above
 *   errors_count 1: the cost counts wrong labels
 *   loss [1] out  sum of weight_b * l
 *   work          fc_learner_work doubles, with `differences`
 * FC_ENUMERIC with *where = k when the loss of the k-th of order is not finite.
 * Source: Crammer et al. (2006), figures 1 and 4, with the best path for the prediction. */
fc_status fc_passive_aggressive(const fc_machine *machine, const fc_batch *batch,
                                const fc_learner *learner, int64_t n_order, const int64_t *order,
                                const int32_t *gold, const double *weight, fc_pa kind,
                                double aggressiveness, int errors_count, fc_parameters *theta,
                                fc_parameters *sums, double *step, double *loss, double *work,
                                int64_t *where);

/* One epoch of adaptive regularisation of weights, for sentences whose best path is wrong, with a
 * variance v for each parameter:
 *   d = weight_b * (features(gold) - features(best path)), of the trained parameters
 *   l = score(best path) - score(gold) + wrong labels
 *   theta_i += l / (gamma + sum_j v_j d_j^2) * v_i d_i,   then   1 / v_i += d_i^2 / gamma
 *   loss [1] out  sum of weight_b * l
 *   work          fc_learner_work doubles, with `differences`
 * FC_ENUMERIC as above. Source: Crammer, Kulesza and Dredze (2009), with a diagonal covariance. */
fc_status fc_arow(const fc_machine *machine, const fc_batch *batch, const fc_learner *learner,
                  int64_t n_order, const int64_t *order, const int32_t *gold, const double *weight,
                  double gamma, fc_parameters *theta, fc_parameters *variance, double *loss,
                  double *work, int64_t *where);

/* Doubles of scratch for the perceptron; with `differences`, for passive-aggressive steps and AROW. 0 if
 * a size is out of range. */
int64_t fc_learner_work(const fc_machine *machine, const fc_batch *batch, const fc_learner *learner,
                        int differences);
