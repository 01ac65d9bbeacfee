/* --- Grammars too large to multiply out ----------------------------------------------------------
 *
 * Acceptors that are read beside a machine, deterministic, from state 0. The state of the search is a
 * token, a joint state, a residual state of the machine and a state of each acceptor; those are packed
 * into `words` numbers of 64 bits, acceptor i into bits shift .. shift + bits - 1 of its word. */
typedef struct {
    int64_t Q, classes, rows;
    int64_t word, shift, bits;
    const int32_t *place;  /* [outer * S] class, below `classes`, of a joint state */
    const int32_t *target; /* [Q][classes] -1: refused */
    const double *score;   /* [Q][classes] of a step, or NULL: 0 */
    const double *ahead; /* [rows][Q] the most that can still come when r tokens are left, row 0 the
                            * final scores, the last row for more tokens; NULL: 0 */
} fc_acceptor;

typedef struct {
    int64_t acceptors, words;
    const fc_acceptor *acceptor; /* [acceptors] */
} fc_conjunction;

/* Checks sizes, indices and numbers once; *where: the number of the acceptor. */
fc_status fc_check_conjunction(const fc_conjunction *grammar, const fc_machine *machine,
                               int64_t *where);

/* A state that was reached, by the best way to it: the score of the best path through it is at most
 * core + gain + ahead. */
typedef struct {
    double core;  /* of the machine: the best path through this one */
    double gain;  /* of the acceptors: so far */
    double ahead; /* ... and the most that can still come */
    int32_t parent, state, residual, token, visits;
} fc_visit;

/* What to look at: a visit (cell -1), or a cell of the row of its successors. */
typedef struct {
    double priority, value;
    int32_t visit, cell;
} fc_candidate;

/* Memory of a search, the caller's; and where it stands. To give it more room, copy what is there and
 * set `table` to zeros. All counts zero at first; `sentence` and `phase` again for another batch. */
typedef struct {
    int64_t visit_room, queue_room, slots; /* slots: a power of two, at least 2 * visit_room */
    fc_visit *visit;                       /* [visit_room] */
    uint64_t *states;                      /* [visit_room][words] */
    fc_candidate *queue;                   /* [queue_room] */
    int64_t *table;                        /* [slots] stamp and visit + 1 */
    int64_t stamp; /* of the sentence; rises as long as the memory is used, below 2^31 */
    int64_t sentence, found, visits, queued, popped;
    int64_t allowance; /* the caller's: operations a token that a search may do; 0: any number */
    int64_t work;      /* of the sentence: operations done */
    int phase;         /* 0 at a new sentence, 1 searching, 2 giving up */
} fc_arena;

/* The n best paths that a machine and a grammar accept, by best-first search over states that are made
 * as they are met. A sentence for which `limit` states have been taken from the queue gets what a beam
 * of `width` states finds, if nothing has been found; so does the present one with `give_up` 1, and it
 * and all later ones with 2. A sentence whose search has done more operations than the arena allows
 * is left at once, without a beam: its bound is that of the queue. An operation is a nanosecond's
 * work, roughly: a row of successors counts 80 and one a cell, a comparison in the queue 5.
 *   path   [n][N] out  joint states; -1 beyond the paths found
 *   score  [B][n] out  falling; -inf beyond them
 *   count  [B]    out  paths found
 *   proven [B]    out  ... of which so many are the best ones
 *   bound  [B]    out  no path that is not proven scores more; -inf: there is none
 *   popped [B]    out  states taken from the queue
 * FC_EFULL: there is not enough room; FC_EPAUSED: `steps` states have been taken in this call. Call
 * again, with the same arguments but for room and `give_up`. */
fc_status fc_lazy_nbest(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                        const int64_t *offsets, int64_t n, int64_t limit, int64_t width,
                        int64_t steps, int give_up, fc_arena *arena, int32_t *path, double *score,
                        int64_t *count, int64_t *proven, double *bound, int64_t *popped,
                        double *work);

/* Scores of paths, added up token by token: `count` paths of each sentence.
 *   path   [n][N] in
 *   count  [B]    in   at most n
 *   states [2][words]  scratch
 *   score  [B][n] out  -inf for what machine or grammar refuse, and beyond the paths there are */
fc_status fc_path_scores(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                         const int64_t *offsets, int64_t n, const int32_t *path,
                         const int64_t *count, uint64_t *states, double *score, double *work);
