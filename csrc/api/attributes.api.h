/* --- Attributes of tokens ------------------------------------------------------------------------
 *
 * A family of attributes packs the numbers of strings into keys, and has a row for each key that it
 * knows: in an array over all keys; in a hash table (linear probing, `size` = 2^(64 - shift) slots
 * of which some are free, row < 0); or in sorted lists, which need no making and log2(size) steps. */
typedef struct {
    uint64_t key;
    int64_t row;
} fc_slot;

typedef enum { FC_EVERY = 0, FC_FIRST = 1, FC_LAST = 2, FC_INNER = 3 } fc_firing;

typedef struct {
    int64_t column; /* of the codes */
    int64_t offset; /* relative to the token */
    int64_t pads;   /* 1: outside the sentence there is a pad; 0: there is nothing */
    int64_t width;  /* bits */
} fc_term;

typedef struct {
    fc_firing firing; /* every token, first or last tokens only, or all but first ones */
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

/* Each of 0 .. n - 1 is there once.
 *   seen [n] scratch, zeros */
fc_status fc_check_permutation(int64_t n, const int32_t *row, uint8_t *seen, int64_t *where);

/* The row of each family at each token, -1 where there is none: no string, or no known attribute.
 *   offsets [B + 1]        sentences, as in fc_batch, but from any token on
 *   codes   [K][stride]    number of each token's string in K columns, -1 where it is unknown;
 *                          numbers below 2 * reach are pads: those before the sentence by distance,
 *                          then those behind it
 *   rows    [tokens][F]    out */
fc_status fc_find_rows(int64_t B, const int64_t *offsets, int64_t K, int64_t stride,
                       const int32_t *codes, int64_t reach, int64_t F, const fc_family *families,
                       int32_t *rows, int64_t *where);

/* The same at listed tokens, each of which has its own numbers instead of those that lie there; its
 * neighbours keep theirs.
 *   token  [M]       tokens of the codes; any order, any number of times
 *   before [M]       how many tokens of its sentence stand before it
 *   after  [M]       and behind it
 *   own    [K][M]    its numbers
 *   rows   [M][F]    out */
fc_status fc_find_rows_at(int64_t M, const int64_t *token, const int32_t *before,
                          const int32_t *after, const int32_t *own, int64_t K, int64_t stride,
                          const int32_t *codes, int64_t reach, int64_t F, const fc_family *families,
                          int32_t *rows, int64_t *where);

/* The same as sparse rows: drops what is -1.
 *   indptr [N + 1] out    index [indptr[N]] out, room for N * F */
fc_status fc_compact_rows(int64_t N, int64_t F, const int32_t *rows, int64_t *indptr,
                          int32_t *index);
