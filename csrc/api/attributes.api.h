/* --- Attributes of tokens ------------------------------------------------------------------------
 *
 * A family of attributes packs string ids into keys. It has a row for each key that it knows. The rows
 * are in one of three tables: an array over all keys; a hash table (linear probing,
 * `size` = 2^(64 - shift) slots of which some are free, row < 0); or sorted lists, which need no
 * construction and log2(size) steps a look-up. */
typedef struct {
    uint64_t key;
    int64_t row;
} fc_slot;

typedef enum { FC_EVERY = 0, FC_FIRST = 1, FC_LAST = 2, FC_INNER = 3 } fc_firing;

typedef struct {
    int64_t column; /* of the codes */
    int64_t offset; /* relative to the token */
    int64_t pads;   /* 1: outside the sentence the term reads a pad; 0: the row is missing */
    int64_t width;  /* bits */
} fc_term;

typedef struct {
    fc_firing firing; /* fires at every token, the first or last ones only, or all but first ones */
    int64_t M;
    const fc_term *term; /* [M] */
    int64_t size, shift;
    const int32_t *direct; /* [size], or NULL: */
    const fc_slot *slot;   /* [size], or NULL: */
    const uint64_t *key;   /* [size] increasing, and */
    const int32_t *row;    /* [size] */
} fc_family;

/* Fills a hash table with n < size keys, all different. */
fc_status fc_fill_slots(int64_t n, const uint64_t *key, const int32_t *row, int64_t size,
                        int64_t shift, fc_slot *slot);

/* Keys increase, and each packs M numbers below their limits, the last one in the lowest bits.
 *   width, limit [M]    bits of each number, 1 + the largest one; without any, M = 0, keys are free */
fc_status fc_check_keys(int64_t n, const uint64_t *key, int64_t M, const int64_t *width,
                        const int64_t *limit, int64_t *where);

/* The row of each family at each token. It is -1 if a string is missing or the attribute unknown. With
 * `indptr`, these entries are dropped: token n has the rows indptr[n] .. indptr[n + 1] - 1.
 *   offsets [B + 1]        sentences, as in fc_batch, but from any token on
 *   codes   [K][stride]    string id of each token in K columns, -1 if unknown. Ids below 2 * reach are
 *                          pads: first the pads before the sentence, by distance, then the pads after
 *                          it
 *   rows    [tokens][F]    out
 *   indptr  [tokens + 1]   out, or NULL */
fc_status fc_find_rows(int64_t B, const int64_t *offsets, int64_t K, int64_t stride,
                       const int32_t *codes, int64_t reach, int64_t F, const fc_family *families,
                       int32_t *rows, int64_t *indptr, int64_t *where);

/* The same for the listed tokens. Each brings its own string ids in place of the ids in `codes`; its
 * neighbours keep theirs.
 *   token  [M]       tokens of the codes; any order, any number of times
 *   before [M]       number of tokens before it in its sentence
 *   after  [M]       number of tokens after it in its sentence
 *   own    [K][M]    string ids of the token
 *   rows   [M][F]    out */
fc_status fc_find_rows_at(int64_t M, const int64_t *token, const int32_t *before,
                          const int32_t *after, const int32_t *own, int64_t K, int64_t stride,
                          const int32_t *codes, int64_t reach, int64_t F, const fc_family *families,
                          int32_t *rows, int64_t *indptr, int64_t *where);
