/* --- Acyclic machines composed with a transducer -------------------------------------------------
 *
 * A state of the composition is a state of the lattice, a state of the transducer, and a bit. The bit
 * is set when the lattice has taken an arc without a label: then the transducer may not move without
 * input until both have read a label. The transducer's moves without input precede the lattice's arcs
 * without a label, so that every pair of paths is exactly one path. The state Q of the transducer is a
 * final state after its ends. */
typedef struct {
    int64_t Q, E, L, start;
    const int32_t
        *index; /* [Q (L + 1) + 1] moves of q that read l - 1 (no input if l is 0) begin at
                              index[q (L + 1) + l]; sorted by state and input */
    const int32_t *input;  /* [E] -1: no input */
    const int32_t *target; /* [E] higher than the source of a move without input */
    const uint8_t *ends;   /* [Q] 1: a path may end here */
} fc_transducer;

/* The output, and the state that is kept between two calls; all counts are 0 at first. */
typedef struct {
    int64_t state_room, arc_room, tables;
    int64_t node, row, states, numbered, arcs, spare; /* progress, and the number of free tables */
    int32_t *
        table; /* [tables][2 (Q + 1)] composed state for a state of the transducer; -1: not reached */
    int32_t *spares; /* [tables] numbers of the free tables, `spare` of them */
    int32_t *slot;   /* [S] table of a state of the lattice; -1: it has no table */
    int32_t *head;   /* [S] last composed state of a lattice state; -1: not reached */
    int32_t *here;   /* [2 (Q + 1)] */
    int32_t *first;  /* [B]  state where each row begins */
    int32_t *key, *next,
        *number;              /* [state_room] per state, in the order in which states are reached */
    int32_t *place;           /* [state_room]  state of the lattice, by number */
    int32_t *source, *target; /* [arc_room] state numbers; before trimming, states as discovered */
    int32_t *of,
        *by; /* [arc_room] arc of the lattice; move of the transducer, or E + q for ending at
                         q; -1: neither */
} fc_transduced;

/* The next label on or after each arc of a lattice, if it is unique; dead arcs have scores of -inf.
 *   label [A]          -1: no label
 *   ahead [A], only [S] out  -1: no unique label; -2: the arc is dead
 *   rises [S]          out  1: all arcs of a state have a next label, in ascending order */
fc_status fc_look_ahead(const fc_acyclic *lattice, const int32_t *label, int32_t *ahead,
                        int32_t *only, uint8_t *rises);

/* Checks a transducer once. */
fc_status fc_check_transducer(const fc_transducer *machine, int64_t *where);

/* Builds the composition, one state of the lattice after the other. FC_EFULL: too little memory for
 * states, arcs or tables: enlarge it and call again. FC_EINVAL: a label is not below L. */
fc_status fc_transduce(const fc_acyclic *lattice, const int32_t *label, const int32_t *ahead,
                       const uint8_t *rises, const fc_transducer *machine, fc_transduced *made);

/* Drops states and arcs that are on no path. Plain arcs, which carry no label, are joined with the arc
 * before or after.
 *   plain [A]        1: an arc of the lattice without labels
 *   work  [4 n + 1]  n: number of states; read by fc_transduced_arcs
 *   count [2]        out  remaining states and arcs */
fc_status fc_trim_transduced(const fc_transducer *machine, const uint8_t *plain,
                             fc_transduced *made, int32_t *work, int64_t *count);

/* The remaining arcs, sorted by source.
 *   gain   [E + Q]  scores of moves and ends of the transducer
 *   place  [states] out  state of the lattice      begins [B] out
 *   row    [states + 1] out
 *   source, target, before, of, by, score [arcs] out  before: the plain arc that was joined, or -1 */
fc_status fc_transduced_arcs(const fc_acyclic *lattice, const double *gain,
                             const fc_transduced *made, const int32_t *work, int32_t *place,
                             int64_t *begins, int64_t *row, int32_t *source, int32_t *target,
                             int32_t *before, int32_t *of, int32_t *by, double *score);
