/* --- Patterns that are counted -------------------------------------------------------------------
 *
 * A chain and an automaton that reads its labels and the kind of each token, one of C. State q reads
 * label l at a token of kind c and moves to target[c][q][l]; -1 rejects the label. The step scores
 * step[c][q][l], and ending in q scores end[q]. Counts of patterns are sums of expected steps. A pair
 * of chain states without an arc scores -inf. Scores are natural logs. */
typedef struct {
    int64_t S, L, Q, C;
    const int32_t *label;  /* [S] label of each state of the chain */
    int64_t moving;        /* 1: arc is [N][S][S], row t for the arcs into token t; else [S][S] */
    const double *arc;     /* from row to column */
    const double *initial; /* [S] */
    const double *final;   /* [S] */
    const int32_t *target; /* [C][Q][L] */
    const double *step;    /* [C][Q][L] not read if the target is -1 */
    const double *end;     /* [Q] */
} fc_counter;

/* Room that the function below needs for sentences of up to T tokens, in doubles; -1: too much. */
int64_t fc_counter_room(int64_t T, int64_t S, int64_t Q);

/* log Z of each sentence, -inf if no path exists. Expected counts are added to the arrays.
 *   node [N][S] in    kind [N] in      log_z [B] out
 *   read [C][Q][L] += steps            ended [Q] += ends
 *   state [N][S] out, or NULL          posteriors of the chain's states, 0 without a path
 *   pair [S][S] +=, or NULL            expected arcs; [N][S][S] +=, like arc, if `moving`
 * *where: the sentence at which it stops. */
fc_status fc_counter_sums(const fc_counter *counter, int64_t B, const int64_t *offsets,
                          const double *node, const int32_t *kind, double *log_z, double *read,
                          double *ended, double *state, double *pair, int64_t room, double *work,
                          int64_t *where);
