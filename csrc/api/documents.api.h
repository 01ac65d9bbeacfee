/* --- Documents: Gibbs sampling under penalties for spans that disagree ---------------------------
 *
 * The score of a document is the sum of its sentences' path scores, by a machine of one dense axis, and
 * the following penalties. For each two spans
 *
 *   the same token sequence, types y and z      length * same[y][z]
 *   one, of type y, has the other's tokens      length of the inner one * within[y][z]
 *   among its own, of type z, as often as it does
 *   one, of type y, has the tokens of a place   tokens that it has less * incomplete[y][z]
 *   in which the other, of type z, is shorter
 *   both of type y, their values differ         length of both * differ[y]
 *
 * and, for each span of type y, every[y] for each place of its last word that has no label of type y.
 * If apart[y] is set, spans of type y are not compared pairwise: each costs its length * differ[y] for
 * each other value among the spans of the type.
 *
 * Only token sequences that occur more than once have numbers: the sequence of n tokens from t on is
 * sequence[first[t] + n - 1] for n <= first[t + 1] - first[t], any longer one occurs once. Spans are
 * read off neighbouring labels; row L is the beginning of a sentence. */
typedef struct {
    int64_t L;
    const int32_t *label; /* [S] */
    const int32_t *next; /* [S + 1][L] state after (state, label), row S: at the beginning; or -1 */
    /* [S][S] or NULL: arcs from column to row, if states are labels, arcs do not move, and the state
     * after each step is the label wherever it is possible. */
    const double *turned;
} fc_labelling;

typedef struct {
    int64_t Y;               /* types; 0: no penalties, and the fields below are not read */
    int64_t K;               /* token sequences */
    const uint8_t *starts;   /* [L + 1][L] a span starts at the second label */
    const uint8_t *inside;   /* [L + 1][L] a span continues at the second label */
    const int32_t *type;     /* [L] -1 for a label outside of spans */
    const int64_t *first;    /* [N + 1] */
    const int32_t *sequence; /* [first[N]] */
    const double *same;      /* [Y][Y] symmetric, finite */
    const double *within;    /* [Y][Y] finite */
    int32_t *whole;          /* [K][Y] zeros, and zeros again: spans of a sequence */
    int32_t *part; /* [K][Y] zeros, and zeros again: places of a sequence within longer spans */
    const double *incomplete; /* [Y][Y] finite */
    int cuts; /* 1: some incomplete[y][z] is not 0; else it and short_of are not read */
    int32_t *
        short_of; /* [K][Y] zeros, and zeros again: tokens that spans within its places have less */
    int64_t F, V, M;      /* tables of values, values, longest span with a value; 0: no tables */
    const int32_t *table; /* [Y] which table its spans read, or -1 */
    const int32_t *value; /* [F][N][M] of the span of 1, 2, ... tokens from here on, or -1 */
    const double *differ; /* [Y] finite */
    const uint8_t *apart; /* [Y] */
    int32_t *distinct;    /* [Y] zeros, and zeros again: values that its spans have */
    int32_t
        *spans; /* [V + 1][Y] zeros, and zeros again: spans of a value; row V counts all spans */
    int32_t *tokens;       /* [V + 1][Y] zeros, and zeros again: their tokens */
    int64_t W;             /* words that occur more than once; 0: every is not read */
    const int32_t *word;   /* [N] number of the word, -1: it occurs once, -2: not a word */
    const int32_t *occurs; /* [W] */
    const double *every;   /* [Y] finite */
    int32_t *ending;       /* [W][Y] zeros, and zeros again: spans whose last word it is */
    int32_t *labelled;     /* [W][Y] zeros, and zeros again: places within spans */
    int lowers;            /* no penalty is positive */
} fc_agreement;

/* Runs sweeps over a document. At temperature c, tokens are drawn from P(label | all others)^(1/c); at
 * 0 the best label is taken. In a sweep over whole sentences, each sentence is drawn from the machine
 * by forward filtering and backward sampling, and accepted with the probability min(1, ratio of
 * penalties).
 *   temperature [sweeps]
 *   whole       [sweeps]           sentences rather than tokens
 *   uniform     [sweeps][N + B]    in [0, 1): of tokens, then of sentences
 *   path        [N]       in, out  legal states
 *   score       [sweeps]  out      of the document after each sweep
 *   best        [N]       in, out  replaced if a sweep ends with a score above *best_score
 *   work        NULL: the call only writes the number of doubles that it needs to *where; path may be
 *               NULL then */
fc_status fc_gibbs(const fc_machine *machine, const fc_batch *batch, const fc_labelling *lab,
                   const fc_agreement *agree, int64_t sweeps, const double *temperature,
                   const uint8_t *whole, const double *uniform, int32_t *path, double *score,
                   int32_t *best, double *best_score, double *work, int64_t *where);
