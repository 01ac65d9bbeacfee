/* --- Long sentences ------------------------------------------------------------------------------
 *
 * A sentence whose rows would take too much memory is taken in blocks: backward once, keeping the suffix
 * of every block's first token, then forward with each block's rows made again. The answers have the bits
 * of those for the whole sentence. FC_ERANGE: the linear domain cannot hold the sentence (take logs), or
 * there is no path. */
/* Maxima; sums in the linear domain; their logs. */
typedef enum { FC_BEST, FC_SUM, FC_LOGS } fc_kind;

typedef struct {
    int64_t first, n; /* tokens within the batch */
    int64_t t;        /* number of the first one within its sentence */
    fc_kind kind;
    const double *after; /* [cells] suffix of the token behind; NULL: the sentence ends */
    double *before;      /* [cells] in, out: prefix of the first token, then of the token behind */
} fc_block;

/* Cells of a row; doubles of scratch for a block of n tokens. */
int64_t fc_block_cells(const fc_machine *machine);
int64_t fc_block_work(const fc_machine *machine, int64_t n);

/* The suffix of the block's first token.
 *   suffix [cells] out
 *   total   [2]    in, out  what was divided out, and what adding it up has rounded off; of a sentence's
 *                           first block log Z, or the best score, and zero */
fc_status fc_block_suffix(const fc_machine *machine, const fc_block *block, double *suffix,
                          double *total, double *work);

/* The best path through the block; where t > 0 the states of the block before stand in front of `path`.
 *   path     [n]         joint states
 *   residual     in, out */
fc_status fc_block_best(const fc_machine *machine, const fc_block *block, int32_t *path,
                        int32_t *residual, double *work);

/* n samples; rows of uniform and path are `stride` apart, before `path` stands what was drawn already.
 *   residual [n]  in, out */
fc_status fc_block_sample(const fc_machine *machine, const fc_block *block, int64_t n,
                          int64_t stride, const double *uniform, int32_t *path, int32_t *residual,
                          double *work);

/* As fc_machine_marginals, of the block's tokens; FC_BEST: as fc_machine_max_marginals.
 *   arc      or NULL  rows of the tokens behind the first one of the block, and of the one behind it
 *   entropy  or NULL  in, out  of the blocks so far */
fc_status fc_block_marginals(const fc_machine *machine, const fc_block *block, double *const *node,
                             double *const *arc, double *entropy, double *work);
