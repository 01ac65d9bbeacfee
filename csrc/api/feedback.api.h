/* --- Learning from rewards -----------------------------------------------------------------------
 *
 * Learning from rewards: the learner draws a labelling of a sentence, receives a reward in [0, 1] for
 * it, and changes theta. One step, with the sample y of p_w, features f and their expectation E:
 *
 *   theta <- (1 - rate * decay) theta - rate * (signal - control) * (f(y) - E_w f)
 *            (with momentum m: rate * decay / (1 - m))
 *
 *   expected loss   signal = 1 - reward
 *   cross-entropy   signal = -reward / max(p_w(y), clip)
 *   preference      pairs: y of p_w, z of p_-w; the reward is how far y is ahead of z
 *                   signal = 1 - reward, along f(y) - f(z) - (E_w f - E_-w f) (with `alike`, both of
 *                   p_w: along f(y) - f(z))
 *   logistic        pairs, both of p_w; the reward is the certainty that y is better, 1/2 for a tie
 *                   signal = beta * (1 / (1 + exp(-beta * (log p_w(y) - log p_w(z)))) - reward), along
 *                   f(y) - f(z): the gradient of the logistic loss of the margin
 *
 * Samples of a log were drawn under other weights, with the log-probabilities `drawn`:
 *
 *   expected loss   signal = (1 - reward) * min(p_w(y) / exp(drawn), cap)
 *   cross-entropy   signal = -reward / max(exp(drawn), clip)
 *
 * The control variate is fixed before the sample is drawn: it changes the variance of a step, not its
 * mean. (The very first sample is its own control, so its step is zero.) Leave one out: of `draws`
 * samples of a sentence, all from the same weights, each is compared with the mean signal of the
 * others. Sources: Sokolov, Kreutzer, Lo and Riezler (2016); controls: Greensmith, Bartlett and Baxter
 * (2004); leave one out: Kool, van Hoof and Welling (2019); logistic: Rafailov et al. (2023), whose
 * reference here gives all labellings the same score; logs: Swaminathan and Joachims (2015). */
typedef enum {
    FC_EXPECTED_LOSS = 0,
    FC_PREFERENCE = 1,
    FC_CROSS_ENTROPY = 2,
    FC_LOGISTIC = 3
} fc_aim;
typedef enum {
    FC_NO_CONTROL = 0,
    FC_RUNNING_MEAN = 1,
    FC_SENTENCE_MEAN = 2,
    FC_LEAVE_ONE_OUT = 3
} fc_control;

typedef struct {
    fc_aim objective;
    fc_control control;
    double clip;                  /* 0: no clipping */
    double temperature;           /* potentials are divided by it */
    double common_rate, own_rate; /* update rates of the running means of signals, in (0, 1] */
    int64_t alike;                /* preference: both samples of a pair are drawn from p_w */
    double beta;                  /* logistic: factor of the margin */
    double cap;                   /* logs: largest ratio of probabilities; 0: unlimited */
    int64_t draws;                /* leave one out: samples of a group, at least 2; else 1 */
} fc_bandit;

/* Running means of signals: [0] of all sentences, [1 + b] of sentence b. */
typedef struct {
    double *mean;  /* [1 + B] */
    double *count; /* [1 + B] */
} fc_baseline;

/* Rewards from gold labels. step[before][now]: 1 a span begins at `now`, 2 a span continues, 0 neither;
 * label L is both ends of a sentence. The reward is the F1 of spans (1 if neither side has a span), or
 * the share of correct labels if step is NULL. */
typedef struct {
    int64_t L;
    const uint8_t *step; /* [L + 1][L + 1] */
    const int32_t *type; /* [L + 1] */
    const int32_t *gold; /* [N] labels */
    int64_t graded;      /* pairs: 1: reward the difference in worth; 0: reward 1 for the better */
    int64_t steps;       /* single samples: rewards are multiples of 1 / steps; 0: not rounded */
    const double *error; /* [n_order][2] added to the worth of both samples, or NULL */
    const double *slip;  /* [n_order] replaces the reward if not negative, or NULL */
} fc_judge;

typedef enum { FC_CONSTANT = 0, FC_MOMENTUM = 1, FC_ADADELTA = 2 } fc_rule;

/* The true parameters are scale * theta; velocities are in units of theta. Rows that a step does not
 * touch are updated when they are next read; `touched` is the step up to which each row is current. */
typedef struct {
    fc_rule rule;
    double rate, decay;
    double momentum; /* below 1 */
    double rho,
        epsilon;   /* ADADELTA: decay of its means, and the constant that keeps them above zero */
    double *scale; /* [1] in/out */
    int64_t *step; /* [1] in/out  steps so far */
    fc_parameters *theta;
    fc_parameters *first;  /* velocities, or means of squared gradients */
    fc_parameters *second; /* means of squared changes */
    int64_t *touched;      /* [R]  not for the constant rate */
    int32_t *place;        /* [R] scratch that persists between calls; not for the constant rate */
    int32_t *rows;         /* [most] scratch; most: attributes of a sentence */
    double *sums;          /* [most][W] scratch */
    double *small;         /* [max(M, 2 S)] scratch */
} fc_descent;

/* A call draws a sample for each of the sentences order[0 .. n_order - 1], or reads it from a log,
 * rewards it, and makes a step, one sentence after the other. Samples and directions have the same
 * order; if they are not to be kept, their arrays have room for one sentence. */
typedef struct {
    int64_t keeps;         /* 1: samples and directions of all sentences are kept */
    const double *uniform; /* [tokens] in [0, 1), or NULL: no draws; for pairs, the numbers of y of
                              each sentence precede the numbers of z */
    const int64_t *start;  /* [n_order] places in `path` of the samples of a log, or NULL */
    int32_t *path, *other; /* [tokens] states of y, and of z for pairs */
    double *node;  /* [tokens][S] direction: y minus the posteriors (for pairs, minus the same
                              of z); given if samples are neither drawn nor of a log */
    double *arc;   /* [n_order][M] ... of arc slots */
    double *log_p; /* [n_order] log p_w(y); logistic: minus log p_w(z) */
    const fc_judge *judge; /* or NULL: rewards are given */
    double *reward;        /* [n_order] */
    const double *drawn;   /* [n_order] log-probabilities of a log, or NULL: log_p */
    fc_baseline *baseline; /* or NULL: no steps */
    double *coefficient;   /* [n_order] signal - control */
} fc_turns;

/* Proposes, judges, makes steps. `mask` of the learner may be NULL: every weight is trained. Samples of
 * a log are not pairs. To leave one out, samples of a group are consecutive, and all are drawn before
 * steps are made.
 *   descent  NULL if the call only rewards
 *   work     NULL: the call only writes the number of doubles that it needs to *where
 * With *where = k, of the k-th sentence: FC_ENUMERIC when it has no path, potentials or a step that are
 * not finite (its step and all later ones are not made); FC_EINVAL when the machine does not accept its
 * sample of a log. */
fc_status fc_feedback(const fc_machine *machine, const fc_batch *batch, const fc_learner *learner,
                      int64_t n_order, const int64_t *order, const fc_bandit *bandit,
                      fc_descent *descent, const fc_turns *turns, double *work, int64_t *where);
