/* --- Sparse rows times a table -----------------------------------------------------------------
 *
 *   out[n] = sum_{k = indptr[n]}^{indptr[n + 1] - 1} value[k] * table[index[k]],   n < N
 *
 * Potentials are design matrix x weights; the gradient is the transposed design x posteriors: the
 * same sum with the roles of tokens and attributes exchanged. Rows of `out` are independent, so any
 * split over threads gives the same bits.
 *   value may be NULL: all ones.  W is a multiple of 8. */
fc_status fc_gather(int64_t N, int64_t R, int64_t W, const int64_t *indptr, const int32_t *index,
                    const float *value, const double *table, double *out);

/* The same sums for selected columns: the columns of row n are slot[first[n]] .. slot[first[n + 1]
 * - 1]. If a row selects few columns, only these are summed.
 *   first [N + 1]     slot [first[N]] below W
 *   out   [first[N]]  sum  [W] scratch */
fc_status fc_gather_cells(int64_t N, int64_t R, int64_t W, const int64_t *indptr,
                          const int32_t *index, const float *value, const double *table,
                          const int64_t *first, const int32_t *slot, double *out, double *sum,
                          int64_t *where);

/* Adds the attributes of single tokens to parameters: the transposed product for few slots.
 *
 *   out[place[index[e] * W + slot[k]]] += mass[k] * value[e]      e: entries of row token[k], k < K
 *
 *   token, slot [K]   in      below N and W
 *   place [R][W]      in      index of a parameter, below `size`; negative: not a parameter
 *   out   [size]      in/out
 * FC_EINVAL: *where is the k of a token or slot out of range, before any addition. A bad place is found
 * when it is used; then *where is its k. */
fc_status fc_scatter(int64_t K, const int64_t *token, const int64_t *slot, const double *mass,
                     int64_t N, int64_t R, int64_t W, const int64_t *indptr, const int32_t *index,
                     const float *value, const int32_t *place, int64_t size, double *out,
                     int64_t *where);

/* Checks indptr [N + 1] (from 0, not falling, ending at n_index) and index (below R) once. */
fc_status fc_check_rows(int64_t N, int64_t R, int64_t n_index, const int64_t *indptr,
                        const int32_t *index, int64_t *where);

/* --- Rows times a table that is mostly empty -----------------------------------------------------
 *
 * Rows with at least `least` weights are padded rows of a small table, the others lists of entries. Row
 * r is at place[r]: row p >= 0 of the table, or a list of entries that begins at ~p. The last entry of
 * a list has a negative slot, which means slot ~slot. */
typedef struct {
    double weight;
    int64_t slot;
} fc_entry;

typedef struct {
    int64_t R, W, rows, entries;
    const int32_t *place;  /* [R] */
    const double *table;   /* [rows][W] */
    const fc_entry *entry; /* [entries] */
} fc_packed;

/* The sums of fc_gather, restricted to the first S <= W columns.
 *   out [N][S]  with `reversed`, from the last row to the first
 *   sum [W]     scratch */
fc_status fc_gather_packed(int64_t N, const fc_packed *packed, const int64_t *indptr,
                           const int32_t *index, const float *value, int64_t S, int reversed,
                           double *out, double *sum);

/* --- One sentence --------------------------------------------------------------------------------- */
typedef struct {
    const fc_machine *machine; /* one axis, and one factor: `node` */
    const fc_packed *packed;
    int64_t room,
        loaded[2];     /* largest N; 0 in the first call: later calls find the tables in `work` */
    double *node;      /* [room][S] sums of rows */
    double *work[2];   /* for paths and for sums: FC_HEAD and fc_machine_work */
    double *posterior; /* [room][S], W or more */
    int32_t *path;     /* [room] */
    double total[2];   /* score of the path; log Z */
    int64_t where;     /* as of fc_check_rows */
} fc_sentence;

typedef enum { FC_PATH = 1, FC_LOG_Z = 2, FC_POSTERIOR = 4, FC_HEAD = 512 } fc_wanted;

/* fc_check_rows, fc_gather_packed, and what is wanted of paths and sums, a sum of fc_wanted. If it is
 * `reversed`, tokens are from the last to the first. FC_ENUMERIC: a potential is invalid. */
fc_status fc_ask_sentence(fc_sentence *sentence, int64_t N, int64_t n_index, const int64_t *indptr,
                          const int32_t *index, const float *value, int64_t wanted, int reversed);
