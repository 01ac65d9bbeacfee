/* --- Words of unspaced text ----------------------------------------------------------------------
 *
 * Dictionaries as MeCab compiles them, read where they lie in memory: a double array whose values are
 * (first entry << 8 | entries), entries with the numbers of their contexts, what two neighbours
 * cost, and kinds of characters, from which words that no dictionary has are made. Memory may be a
 * file that somebody writes to: every index is looked at where it is used. Costs are integers; the
 * lower the better. */
typedef struct {
    int32_t base;
    uint32_t check;
} fc_unit;

typedef struct {
    uint16_t left, right; /* context that a word is for the word before it, and for the one behind */
    uint16_t part;
    int16_t cost;
    uint32_t feature, compound;
} fc_entry_cost;

typedef struct {
    int64_t units, entries, first; /* the numbers of its words begin at `first` */
    const fc_unit *unit;
    const fc_entry_cost *entry;
} fc_dictionary;

/* A character: 18 bits of kinds, 8 bits its own kind, 4 bits the lengths to try, 1 bit whether a run of
 * the kind is a word, 1 bit whether it may be one beside words of a dictionary. */
typedef struct {
    int64_t dictionaries;
    const fc_dictionary *dictionary;
    int64_t characters; /* code points at or above have the kinds of the first */
    const uint32_t *character;
    int64_t kinds, unknowns, first; /* the numbers of unknown words begin at `first` */
    const int64_t *unknown;         /* [kinds + 1] entries of each kind */
    const fc_entry_cost *unknown_entry;
    int64_t rights, lefts;
    const int16_t *matrix; /* [lefts][rights] cost of a right and a left context */
    int64_t longest_run;   /* characters; a longer run of one kind is no word */
} fc_lexicon;

/* A word at text[start] .. text[end - 1]. Blanks, which belong to no word, may lie between `from`, where
 * a word before it ends, and its start. */
typedef struct {
    int32_t from, start, end, word;
    int32_t before, next; /* on the best way to it, -1: none; of those with the same end */
    int64_t total;        /* cost of the best way to it, its own included */
} fc_word;

/* The words that lie on ways through a text: sorted by `from`; no index leaves the lexicon.
 *   boundary [size + 1]  NULL, or of each byte 1: a word begins here, 2: none does, 0: unknown
 *   words    [room] out
 *   head     [size + 1]  scratch
 *   last     out  where the last words end, if nothing but blanks follows; -1: there is no way
 * FC_EFULL: more room. FC_EINVAL: *where is a word (or unit) of a damaged lexicon. */
fc_status fc_find_words(const fc_lexicon *lexicon, int64_t size, const uint8_t *text,
                        const uint8_t *boundary, int64_t room, fc_word *words, int32_t *head,
                        int64_t *count, int64_t *last, int64_t *where);

/* The cheapest way through each of B texts, of `text` at offsets[b] .. offsets[b + 1] - 1; b from *done on.
 *   path     [N] out  words as numbers; N: bytes; start, end [N] out  their bytes in `text`
 *   row      [B + 1] out, from the 0 of the first text on  words of text b are row[b] .. row[b + 1] - 1
 *   cost     [B] out  INT64_MAX: there is no way
 *   words [room], head [longest + 1], group [2][room], slot [rights + lefts] zeros: scratch
 * Ties: as MeCab breaks them, so that its answers come out.
 * FC_EFULL: *done texts are done; more room, and call again. */
fc_status fc_best_words(const fc_lexicon *lexicon, int64_t B, const int64_t *offsets,
                        const uint8_t *text, const uint8_t *boundary, int64_t room, fc_word *words,
                        int32_t *head, int32_t *group, int32_t *slot, int64_t *row, int32_t *path,
                        int32_t *start, int32_t *end, int64_t *cost, int64_t *done, int64_t *where);

/* A double array of n keys, which are sorted by bytes, distinct and not empty.
 *   unit [room] out, zeros    used [room] zeros, stack [4 (n + 257)]  scratch
 *   size out  units
 * FC_EFULL: more room, and zeros again. FC_EINVAL: *where is a key out of order. */
fc_status fc_build_trie(int64_t n, const int64_t *offsets, const uint8_t *text,
                        const int32_t *value, int64_t room, fc_unit *unit, uint8_t *used,
                        int64_t *stack, int64_t *size, int64_t *where);

/* The keys that begin a text, shortest first: lengths and values, at most `room`. */
fc_status fc_find_prefixes(int64_t units, const fc_unit *unit, int64_t size, const uint8_t *text,
                           int64_t room, int32_t *length, int32_t *value, int64_t *count);
