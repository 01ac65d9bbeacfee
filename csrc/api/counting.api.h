/* --- Patterns that are counted -------------------------------------------------------------------
 *
 * A chain, and as its residual an automaton that also reads the kind of each token. The score of a step
 * is `value`, the score of ending `final`. Counts of patterns are sums of expected steps. */

/* log Z of each sentence, -inf if no path exists. Expected steps are added to the arrays.
 *   state [N][S] out           posteriors of the chain's states, 0 without a path
 *   sum   [arcs] +=, or NULL   expected arcs
 *   arc   [N][arcs] out, or NULL  the same for each token
 *   read  [Q][kinds][S] +=     steps from each state of the automaton
 *   last  [Q][kinds][S] +=     the same at last tokens
 *   work                       fc_machine_work doubles
 * *where: the sentence at which it stops. */
fc_status fc_counts(const fc_machine *machine, int64_t B, const int64_t *offsets, double *log_z,
                    double *state, double *sum, double *arc, double *read, double *last,
                    double *work, int64_t *where);
