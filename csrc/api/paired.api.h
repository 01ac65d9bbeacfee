/* --- Arcs with pair scores -----------------------------------------------------------------------
 *
 * An acyclic machine in which neighbouring arcs score as pairs of classes: lattices of segments, of
 * words, of frames. An arc has a left class and a right one; at a node, the right class of the incoming
 * arc is paired with the left class of the outgoing arc. Arcs that leave a node with the same left
 * class share an entry slot, arcs that reach it with the same right class share an exit slot. A node
 * thus costs exits * entries, however many arcs it has:
 *
 *   score of a path = sum over its arcs of  pair[table][right class before][left class] + score
 *                     + final[last exit slot]
 *
 * A path begins in a separate exit slot, whose right class marks beginnings. So one machine holds
 * several lattices, each with a begin. Nodes are numbered in topological order, slots and arcs are
 * sorted by node: exits of node n are exit_row[n] .. exit_row[n + 1] - 1, by class. */
typedef struct {
    int64_t M, A, I, X;       /* nodes, arcs, entry slots, exit slots */
    int64_t K, R, L;          /* pair tables, right and left classes */
    const int64_t *entry_row; /* [M + 1] */
    const int64_t *exit_row;  /* [M + 1] */
    const int64_t *arc_row;   /* [I + 1] arcs of each entry slot */
    const int32_t *left;      /* [I] ascending at each node */
    const int32_t *right;     /* [X] ascending at each node */
    const int32_t *exit;      /* [A] exit slot that the arc leads to, at a higher node */
    const double *score;      /* [A] */
    const double *final;      /* [X] -inf: no path ends here */
    const int32_t *table;     /* [M] which pair table, NULL: the only one */
    const double *pair;       /* [K][R][L] */
    const double *turned;     /* [K][L][R] the same */
    const double *linear;     /* [K][R][L] exp(pair - top) */
    const double *around;     /* [K][L][R] the same, turned */
    double top;               /* the largest pair score; 0 if all are -inf */
} fc_paired;

/* Checks a machine once: sizes, indices, order, scores. The functions below do not repeat the
   checks. */
fc_status fc_check_paired(const fc_paired *machine, int64_t *where);

/* Score of the best path from each slot to an end, or the log of the sum over all such paths.
 *   entry [I] out    exit [X] out
 *   lost  [I + X] out  rounding errors of entry and exit
 *   share [A] out      probability of an arc, given a path that continues by its entry slot
 *   work  [I + X]
 * Cost: arcs + sum over nodes of exits * entries; the sum takes an exponential an arc and slot. */
fc_status fc_paired_best(const fc_paired *machine, double *entry, double *exit);
fc_status fc_paired_sums(const fc_paired *machine, double *entry, double *exit, double *lost,
                         double *share, double *work);

/* The best path from each of B begins; entry and exit are outputs of fc_paired_best. Ties: the path
 * that ends first, then the smaller left class, then the arc with the smaller index, at the earliest
 * node where paths differ.
 *   begin  [B] in   exit slots
 *   path   [room] out  arcs, paths concatenated
 *   offset [B + 1] out
 * FC_EFULL: the paths have more than `room` arcs. */
fc_status fc_paired_paths(const fc_paired *machine, const double *entry, const double *exit,
                          int64_t B, const int64_t *begin, int64_t room, int32_t *path,
                          int64_t *offset, int64_t *where);

/* Posterior probabilities, 0 without a path; entry, exit, lost and share are outputs of fc_paired_sums.
 *   begin [B]        in   the exit slot in which each lattice begins
 *   arc   [A]        out
 *   end   [X]        out  of ending in each exit slot
 *   count [K][R][L]  out  expected number of each pair of neighbouring classes; NULL: not wanted
 *   work  [4 * I + X] */
fc_status fc_paired_marginals(const fc_paired *machine, const double *entry, const double *exit,
                              const double *lost, const double *share, int64_t B,
                              const int64_t *begin, double *arc, double *end, double *count,
                              double *work, int64_t *where);
