/* --- Long sentences ------------------------------------------------------------------------------
 *
 * A sentence whose rows would take too much memory is processed in blocks. One backward pass keeps the
 * suffix of every block's first token. A forward pass then recomputes the rows of one block at a time.
 * The results have the same bits as for the whole sentence. A row has `cells` numbers:
 * [Q][outer][S], S rounded up to a multiple of 8. Scratch: fc_machine_work for n + 1 tokens. FC_ERANGE: the linear domain cannot hold
 * the sentence (take logs), or there is no path. */
/* Maxima; sums in the linear domain; their logs. */
typedef enum { FC_BEST, FC_SUM, FC_LOGS } fc_kind;

typedef struct {
    int64_t first, n; /* tokens within the batch */
    int64_t t;        /* position of the first token in its sentence */
    fc_kind kind;
    const double *after; /* [cells] suffix of the token after the block; NULL: the sentence ends */
    double *before; /* [cells] in: prefix of the first token; out: of the token after the block */
} fc_block;

/* The suffix of the block's first token.
 *   suffix [cells] out
 *   total   [2]    in, out  factors that were divided out, as a log, and the rounding error of their
 *                           sum. After a sentence's first block: log Z, or the best score, and zero */
fc_status fc_block_suffix(const fc_machine *machine, const fc_block *block, double *suffix,
                          double *total, double *work);

/* FC_BEST: the best path through the block, n times; otherwise n samples. Rows of uniform and path are
 * `stride` apart. If t > 0, the elements before `path` hold the states of the previous block.
 *   uniform  [n][stride]  NULL with FC_BEST
 *   path     [n][stride]  joint states
 *   residual [n]          in, out */
fc_status fc_block_paths(const fc_machine *machine, const fc_block *block, int64_t n,
                         int64_t stride, const double *uniform, int32_t *path, int32_t *residual,
                         double *work);

/* As fc_machine_marginals, of the block's tokens; FC_BEST: as fc_machine_max_marginals.
 *   arc      or NULL  rows of all tokens of the block but the first, and of the token after the block
 *   entropy  or NULL  in, out  of the blocks so far */
fc_status fc_block_marginals(const fc_machine *machine, const fc_block *block, double *const *node,
                             double *const *arc, double *entropy, double *work);
