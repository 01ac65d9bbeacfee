/* --- Composition of two machines, which may have cycles ------------------------------------------
 *
 * The first machine writes labels, and the second one reads them. A state of the composition is a state
 * of the first, a state of the second, and a bit. The bit is set when the first has moved without a
 * label: then the second may not move without a label until both move together. So moves of the second
 * precede moves of the first, and every pair of paths is exactly one path. */
typedef struct {
    int64_t S, A;
    const int64_t *row;     /* [S + 1] arcs of state s: row[s] .. row[s + 1] - 1 */
    const int32_t *label;   /* [A] -1: no label; -2: a label that the other machine does not have */
    const int32_t *target;  /* [A] */
    const int32_t *order;   /* [A] arcs by state, then by label: those of fc_sort_arcs */
    const int32_t *ordered; /* [A] the label of each arc of `order`; INT32_MAX for -2 */
    const int64_t *loud;    /* [S] where the arcs with labels begin in `order` */
} fc_operand;

/* The output, and what is kept between two calls. The table has at least 2 state_room slots. */
typedef struct {
    int64_t state_room, arc_room, slots;
    int64_t states, arcs, hashed; /* 0 at first; hashed: states in the table, 0 for a new table */
    int64_t next;                 /* the first state without arcs; 0 at first */
    int64_t wanted;               /* out: the number of arcs for which there must be room */
    int32_t *slot;                /* [slots] states; -1: free; slots is a power of two */
    int32_t *first, *second;      /* [state_room] state of each machine; 2 s + bit of the second */
    int64_t *row;                 /* [state_room + 1] */
    int32_t *target, *of, *by;    /* [arc_room] arcs of the machines; -1: the machine stays */
} fc_composition;

/* Checks the arcs of a machine, and sorts them for fc_operand.
 *   source [A]  rising      labels  labels are below this number
 *   row [S + 1], order, ordered [A], loud [S]  out
 *   work [A + max(labels, S) + 3]  scratch */
fc_status fc_sort_arcs(int64_t S, int64_t A, int64_t labels, const int32_t *source,
                       const int32_t *label, const int32_t *target, int64_t *row, int32_t *order,
                       int32_t *ordered, int64_t *loud, int64_t *work, int64_t *where);

/* Builds the composition from the pair of states 0. Arcs of a state: those of the second machine, of the
 * first, and of both, each by arc of the first, then by label and arc of the second.
 *   steps  arcs to look at in this call
 * FC_EFULL: enlarge the states and the table, or the arcs up to `wanted`, and call again. FC_EPAUSED:
 * call again. */
fc_status fc_compose(const fc_operand *first, const fc_operand *second, int64_t steps,
                     fc_composition *made);

/* Writes the arcs between kept states, by source.
 *   number [made->states]  new numbers; -1: not kept
 *   place  [states]        the kept states, by new number
 *   source, target, of, by  out  as many as there are such arcs */
fc_status fc_composed_arcs(const fc_composition *made, const int32_t *number, const int32_t *place,
                           int64_t states, int32_t *source, int32_t *target, int32_t *of,
                           int32_t *by);
