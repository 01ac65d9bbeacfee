/* --- Acyclic machines composed with a transducer -------------------------------------------------
 *
 * A state of the composition is a state of the lattice, one of the transducer, and a bit: the lattice
 * has moved without a label, so the transducer may not move alone until both have read one. The
 * transducer's moves without input come before the lattice's moves without a label, so that every
 * pair of paths is one path. A state Q of the transducer stands behind its ends. */
typedef struct {
    int64_t Q, E, L, start;
    const int32_t *index;  /* [Q (L + 1) + 1] moves of q that read l - 1, or nothing where l is 0,
                              are index[q (L + 1) + l] up to the next; sorted by state and input */
    const int32_t *input;  /* [E] -1: nothing */
    const int32_t *target; /* [E] above the state that a move without input leaves */
    const uint8_t *ends;   /* [Q] 1: a path may end here */
} fc_transducer;

/* What is written, and what is kept between two calls; all counts are 0 at first. */
typedef struct {
    int64_t state_room, arc_room, tables;
    int64_t node, row, states, numbered, arcs, spare; /* how far it has come; tables to be had */
    int32_t
        *table; /* [tables][2 (Q + 1)]  -1: state of the composition by that of the transducer */
    int32_t *spares;              /* [tables]  numbers of tables to be had, `spare` of them */
    int32_t *slot;                /* [S]  -1: the table of a state of the lattice */
    int32_t *head;                /* [S]  -1: its last state of the composition */
    int32_t *here;                /* [2 (Q + 1)] */
    int32_t *first;               /* [B]  state where each row begins */
    int32_t *key, *next, *number; /* [state_room]  of states in the order in which they are met */
    int32_t *place;               /* [state_room]  state of the lattice, by number */
    int32_t *source, *target;     /* [arc_room]  numbers; met states until they are trimmed */
    int32_t *of, *by; /* [arc_room]  arc of the lattice, move of the transducer, E + q where
                                     a path ends at q; -1: none */
} fc_transduced;

/* The label that comes next behind each arc of a lattice, where that is one; dead arcs have scores of
 * -inf.
 *   label [A]          -1: none
 *   ahead [A], only [S] out  -1: none or several; -2: the arc is dead
 *   rises [S]          out  1: all arcs of a state have a label ahead, in ascending order */
fc_status fc_look_ahead(const fc_acyclic *lattice, const int32_t *label, int32_t *ahead,
                        int32_t *only, uint8_t *rises);

/* Checks a transducer once. */
fc_status fc_check_transducer(const fc_transducer *machine, int64_t *where);

/* Writes the composition, a state of the lattice after the other.
 * FC_EFULL: there is not enough room for states, arcs or tables: give more, and call again.
 * FC_EINVAL: a label is not below L. */
fc_status fc_transduce(const fc_acyclic *lattice, const int32_t *label, const int32_t *ahead,
                       const uint8_t *rises, const fc_transducer *machine, fc_transduced *made);

/* Leaves out what lies on no path, and joins plain arcs, which say nothing, with those before or behind.
 *   plain [A]        1: an arc of the lattice that says nothing
 *   work  [4 n + 1]  n: states numbered; what fc_transduced_arcs reads
 *   count [2]        out  states and arcs that are left */
fc_status fc_trim_transduced(const fc_transducer *machine, const uint8_t *plain,
                             fc_transduced *made, int32_t *work, int64_t *count);

/* The arcs that are left, sorted by source.
 *   gain   [E + Q]  scores of moves and ends of the transducer
 *   place  [states] out  state of the lattice      begins [B] out
 *   row    [states + 1] out
 *   source, target, before, of, by, score [arcs] out  before: the plain arc that was joined, or -1 */
fc_status fc_transduced_arcs(const fc_acyclic *lattice, const double *gain,
                             const fc_transduced *made, const int32_t *work, int32_t *place,
                             int64_t *begins, int64_t *row, int32_t *source, int32_t *target,
                             int32_t *before, int32_t *of, int32_t *by, double *score);
