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

/* How theta changes after a sentence whose best path is wrong, with
 *
 *   d = features(gold) - features(best path), of the trained parameters
 *   l = score(best path) - score(gold) + cost
 *
 *   perceptron          theta += weight_b * d
 *   passive-aggressive  theta += weight_b * step(l, |d|^2) * d, where step(l, n) with the limit C is
 *                       l / n, min(C, l / n), or l / (n + 1 / (2 C)); the cost is 1
 *   AROW                d is multiplied by weight_b; each parameter has a variance v; the limit is gamma
 *                       theta_i += l / (gamma + sum_j v_j d_j^2) * v_i d_i,
 *                       then 1 / v_i += d_i^2 / gamma; the cost is the number of wrong labels
 *
 * Sources: Crammer et al. (2006), figures 1 and 4, with the best path for the prediction; Crammer,
 * Kulesza and Dredze (2009), with a diagonal covariance. */
typedef enum { FC_PERCEPTRON = 0, FC_PA = 1, FC_PA_I = 2, FC_PA_II = 3, FC_AROW = 4 } fc_update;

/* One epoch over the sentences order[0 .. n_order - 1]. The kernel reads the structure of the machine,
 * not its potentials; scores are computed from theta, in which -inf forbids. The machine has one axis,
 * which does not move. Gold paths follow its arcs.
 *   gold   [N]  in      states
 *   weight [B]  in      rate of each sentence
 *   errors_count        1: the cost of passive-aggressive steps is sqrt(wrong labels)
 *   other       in/out  variances of AROW; else sums += step * the change of theta, so that the
 *                       average over all steps is theta - sums / step
 *   step   [1]  in/out  sentences seen so far, from 1
 *   errors [1]  out     tokens whose label was wrong
 *   loss   [1]  out     sum of weight_b * l; of the perceptron weight_b * (wrong labels / tokens)
 *   work                NULL: the call only writes the number of doubles that it needs to *where
 * FC_ENUMERIC with *where = k when the loss or step of the k-th of order is not finite. */
fc_status fc_online(const fc_machine *machine, const fc_batch *batch, const fc_learner *learner,
                    int64_t n_order, const int64_t *order, const int32_t *gold,
                    const double *weight, fc_update rule, double limit, int errors_count,
                    fc_parameters *theta, fc_parameters *other, double *step, int64_t *errors,
                    double *loss, double *work, int64_t *where);
