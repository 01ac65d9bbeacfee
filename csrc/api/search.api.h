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

/* What to look at: a visit (cell -1), or a cell of the row of its successors and the one that comes
 * behind it there (other; -1: none, -2: not yet known). */
typedef struct {
    double priority, value, second;
    int32_t visit, cell, other;
} fc_candidate;

/* Memory of a search, the caller's; and where it stands. To give it more room, copy what is there and
 * set `table` to zeros. All counts zero at first; `sentence` and `phase` again for another batch. */
typedef struct {
    int64_t visit_room, queue_room, slots; /* slots: a power of two, at least 2 * visit_room */
    fc_visit *visit;                       /* [visit_room] */
    uint64_t *states;                      /* [visit_room][words] */
    fc_candidate *queue;                   /* [queue_room] */
    fc_candidate next;                     /* what is taken before the queue, if `ready` */
    int64_t *table;                        /* [slots] stamp and visit + 1 */
    int64_t stamp; /* of the sentence; rises as long as the memory is used, below 2^31 */
    int64_t sentence, found, visits, queued, popped;
    int64_t least, most; /* the caller's: operations a token that a search may do, see below */
    int64_t longest;     /* the caller's: tokens up to which they bind it, where `hands_over` */
    int64_t work;        /* of the sentence: operations done */
    int64_t tokens;      /* of the longest path that was taken */
    int64_t breaches;    /* places where the grammar breaks with the machine's best path, see lazy.h */
    double aim;          /* what a legal path scores that is found at once; NaN: not yet looked for */
    int hands_over;      /* the caller's: a search that takes too long is answered by a product */
    int ready;
    int phase; /* 0 at a new sentence, 1 searching, 2 giving up */
} fc_arena;

/* The same composition with its grammar multiplied out, over the same potentials of tokens. */
typedef struct {
    const fc_machine *machine; /* it differs in its residual alone */
    int64_t longest;           /* tokens of the longest sentence that there is room for */
    int scored;                /* whether paths take scores from the grammar */
    double *work;              /* [fc_machine_work(machine, longest)] */
    double *queue;             /* [fc_queue_size(machine, n, longest)], n > 1 only */
} fc_product;

/* The n best paths that a machine and a grammar accept, by best-first search over states that are made
 * as they are met. A sentence for which `limit` states have been taken from the queue gets what a beam
 * of `width` states finds, if nothing has been found; so does the present one with `give_up` 1, and it
 * and all later ones with 2. A sentence is left without a beam, its bound that of the queue, where its
 * search has done more operations than it may: for each token `least` of the arena, and `most` when it is
 * near its end, in between as far as it has come: of the way from the best score that there might be to
 * that of a legal path; of several paths, by how many have been found, and tokens of the longest one (the
 * first path is 0.3 of the way); most 0: any number. An operation is a nanosecond's work, roughly; lazy.h
 * says what counts how much. With `hands_over`, sentences of up to
 * `longest` tokens are left to the product instead, also those whose search ends at its `limit`, and those
 * with many breaches without a search; where it is NULL, FC_EPRODUCT asks for it. Longer ones may do any
 * number of operations.
 *   path   [n][N] out  joint states; -1 beyond the paths found
 *   score  [B][n] out  falling; -inf beyond them
 *   count  [B]    out  paths found
 *   proven [B]    out  ... of which so many are the best ones
 *   bound  [B]    out  no path that is not proven scores more; -inf: there is none
 *   popped [B]    out  states taken from the queue
 * FC_EFULL: there is not enough room; FC_EPAUSED: `steps` states have been taken in this call. Call
 * again, with the same arguments but for room, `give_up`, the product and what it binds. */
fc_status fc_lazy_nbest(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                        const int64_t *offsets, int64_t n, int64_t limit, int64_t width,
                        int64_t steps, int give_up, const fc_product *product, fc_arena *arena,
                        int32_t *path, double *score, int64_t *count, int64_t *proven,
                        double *bound, int64_t *popped, double *work);

/* Scores of paths, added up token by token: `count` paths of each sentence. Without a grammar (NULL), what
 * the machine alone scores. A residual of the machine is not read.
 *   path   [n][N] in
 *   count  [B]    in   at most n
 *   states [2][words]  scratch
 *   score  [B][n] out  -inf for what machine or grammar refuse, and beyond the paths there are */
fc_status fc_path_scores(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                         const int64_t *offsets, int64_t n, const int32_t *path,
                         const int64_t *count, uint64_t *states, double *score, double *work);
