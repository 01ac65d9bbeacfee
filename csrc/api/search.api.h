/* --- Grammars too large to multiply out ----------------------------------------------------------
 *
 * An acceptor that is searched together with a machine: deterministic, from state 0. The state of the
 * search is a token, a joint state, a residual state of the machine and a state of each acceptor. The
 * acceptor states are packed into `words` numbers of 64 bits, acceptor i into bits
 * shift .. shift + bits - 1 of its word. */
typedef struct {
    int64_t Q, classes, rows;
    int64_t word, shift, bits;
    const int32_t *place;  /* [outer * S] class, below `classes`, of a joint state */
    const int32_t *target; /* [Q][classes] -1: rejected */
    const double *score;   /* [Q][classes] of a step, or NULL: 0 */
    const double
        *ahead; /* [rows][Q] bound of the score still possible with r tokens left; row 0: final
                            scores; last row: any higher number of tokens; NULL: 0 */
} fc_acceptor;

typedef struct {
    int64_t acceptors, words;
    const fc_acceptor *acceptor; /* [acceptors] */
} fc_conjunction;

/* Checks sizes, indices and numbers once; *where: the number of the acceptor. */
fc_status fc_check_conjunction(const fc_conjunction *grammar, const fc_machine *machine,
                               int64_t *where);

/* A state that was reached, by its best path so far. The best path through it scores at most
 * core + gain + ahead. */
typedef struct {
    double core;  /* of the machine: the best path through this state */
    double gain;  /* of the acceptors: score so far */
    double ahead; /* of the acceptors: upper bound of the score still possible */
    int32_t parent, state, residual, token, visits;
} fc_visit;

/* An entry of the queue: a visit (cell -1), or a cell in the row of its successors with the next-best
 * cell of the row (other; -1: no other, -2: not yet known). */
typedef struct {
    double priority, value, second;
    int32_t visit, cell, other;
} fc_candidate;

/* Memory of a search, owned by the caller, and the state of the search. To enlarge it, copy the
 * contents and set `table` to zeros. All counts are zero at first; set `sentence` and `phase` to zero
 * again for another batch. */
typedef struct {
    int64_t visit_room, queue_room, slots; /* slots: a power of two, at least 2 * visit_room */
    fc_visit *visit;                       /* [visit_room] */
    uint64_t *states;                      /* [visit_room][words] */
    fc_candidate *queue;                   /* [queue_room] */
    fc_candidate next;                     /* taken before the queue, if `ready` */
    int64_t *table;                        /* [slots] stamp and visit + 1 */
    int64_t stamp; /* of the sentence; increases as long as the memory is used, below 2^31 */
    int64_t sentence, found, visits, queued, popped;
    int64_t least, most; /* set by the caller: operations a token that a search may do, see below */
    int64_t longest;  /* set by the caller: tokens up to which the limits apply, if `hands_over` */
    int64_t work;     /* operations done for the sentence */
    int64_t tokens;   /* tokens of the longest path that was taken */
    int64_t breaches; /* places at which the grammar rejects the machine's best path, see lazy.h */
    double aim;       /* score of a legal path that is found quickly; NaN: not yet looked for */
    double apart;   /* set by the caller: distance from which the last path is left out; 0: none */
    int hands_over; /* set by the caller: a search that takes too long is answered by a product */
    int ready;
    int phase; /* 0 at a new sentence, 1 searching, 2 giving up */
} fc_arena;

/* The same composition with its grammar expanded, over the same potentials of tokens. */
typedef struct {
    const fc_machine *machine; /* differs from the searched machine in its residual only */
    int64_t longest;           /* tokens of the longest sentence that fits */
    int scored;                /* whether the grammar scores paths */
    double *work;              /* of fc_machine_work, for sentences one by one */
    double *queue;             /* of fc_queue_size, n > 1 only */
} fc_product;

/* The n best paths that a machine and a grammar accept, by best-first search over states that are
 * created when they are reached. When `limit` states of a sentence have been taken from the queue
 * before any path was found, the sentence gets the result of a beam of `width` states. `give_up` 1 does
 * the same to the present sentence, 2 to it and all later ones. A search also ends, without a beam,
 * when it exceeds its allowance of operations; the bound is then the bound of the queue. The allowance
 * is `least` operations a token at first and `most` near the end, in between in proportion to the
 * progress. For one path, progress is the way from the best possible score to the score of a legal
 * path. For n paths, it counts the paths found and the tokens of the longest one (the first path is 0.3
 * of the way). most 0: no limit. An operation takes about a nanosecond; lazy.h lists the costs. With
 * `hands_over`, the product decodes sentences of up to `longest` tokens that exceed their allowance or
 * reach `limit`; sentences with many breaches go to it without a search. If product is NULL,
 * FC_EPRODUCT asks for it. Longer sentences have no allowance.
 *   path   [n][N] out  joint states; -1 beyond the paths found
 *   score  [B][n] out  falling; -inf beyond them
 *   count  [B]    out  paths found
 *   proven [B]    out  number of these that are proven to be the best
 *   bound  [B]    out  no unproven path scores more; -inf: no further path exists
 *   popped [B]    out  states taken from the queue
 * FC_EFULL: there is not enough room; FC_EPAUSED: `steps` states have been taken in this call. Call
 * again with the same arguments; only room, `give_up`, the product and its limits may change. */
fc_status fc_lazy_nbest(const fc_machine *machine, const fc_conjunction *grammar, int64_t B,
                        const int64_t *offsets, int64_t n, int64_t limit, int64_t width,
                        int64_t steps, int give_up, const fc_product *product, fc_arena *arena,
                        int32_t *path, double *score, int64_t *count, int64_t *proven,
                        double *bound, int64_t *popped, double *work);
