/* --- Words of unspaced text ----------------------------------------------------------------------
 *
 * Dictionaries as MeCab compiles them, read in place: a double array whose values are (first entry << 8
 * | entries), entries with their context numbers, costs of two neighbours, and kinds of characters,
 * from which unknown words are made. The memory may be a file that another program writes to: every
 * index is checked when it is used. Costs are integers; lower is better. */
typedef struct {
    int32_t base;
    uint32_t check;
} fc_unit;

typedef struct {
    uint16_t left,
        right; /* context number towards the word before it, and towards the word after it */
    uint16_t part;
    int16_t cost;
    uint32_t feature, compound;
} fc_entry_cost;

typedef struct {
    int64_t units, entries, first; /* the word numbers of this dictionary begin at `first` */
    const fc_unit *unit;
    const fc_entry_cost *entry;
} fc_dictionary;

/* A character: 18 bits of kinds, 8 bits its own kind, 4 bits the lengths to try, 1 bit whether a run of
 * the kind is a word, 1 bit whether unknown words are made even if a dictionary has a word there. */
typedef struct {
    int64_t dictionaries;
    const fc_dictionary *dictionary;
    int64_t characters; /* code points from here on have the kinds of the first one */
    const uint32_t *character;
    int64_t kinds, unknowns, first; /* the word numbers of unknown words begin at `first` */
    const int64_t *unknown;         /* [kinds + 1] entries of each kind */
    const fc_entry_cost *unknown_entry;
    int64_t rights, lefts;
    const int16_t *matrix; /* [lefts][rights] cost of a right context followed by a left one */
    int64_t longest_run;   /* in characters; a longer run of one kind is not a word */
} fc_lexicon;

/* A word at text[start] .. text[end - 1]. Blanks, which belong to no word, may separate `from`, the end
 * of the previous word, from its start. */
typedef struct {
    int32_t from, start, end, word;
    int32_t before,
        next;      /* previous word on the best path, -1: first; next word with the same end */
    int64_t total; /* cost of the best path to the word, including the word */
} fc_word;

/* The words on paths through a text: sorted by `from`; every index is within the lexicon.
 *   boundary [size + 1]  NULL, or for each byte 1: a word begins here, 2: no word begins, 0: unknown
 *   words    [room] out
 *   head     [size + 1]  scratch
 *   last     out  end of the last words, if only blanks follow; -1: no path exists
 * FC_EFULL: more room. FC_EINVAL: *where is a word (or unit) of a damaged lexicon. */
fc_status fc_find_words(const fc_lexicon *lexicon, int64_t size, const uint8_t *text,
                        const uint8_t *boundary, int64_t room, fc_word *words, int32_t *head,
                        int64_t *count, int64_t *last, int64_t *where);

/* The cheapest path through each of B texts, of `text` at offsets[b] .. offsets[b + 1] - 1; b from
 * *done on.
 *   path     [N] out  words as numbers; N: bytes; start, end [N] out  their bytes in `text`
 *   row      [B + 1] out, from the 0 of the first text on  words of text b are row[b] .. row[b + 1] - 1
 *   cost     [B] out  INT64_MAX: no path exists
 *   words [room], head [longest + 1], group [2][room], slot [rights + lefts] zeros: scratch
 * Ties: as MeCab breaks them, so that the results agree. FC_EFULL: *done texts are done; enlarge the
 * memory and call again. */
fc_status fc_best_words(const fc_lexicon *lexicon, int64_t B, const int64_t *offsets,
                        const uint8_t *text, const uint8_t *boundary, int64_t room, fc_word *words,
                        int32_t *head, int32_t *group, int32_t *slot, int64_t *row, int32_t *path,
                        int32_t *start, int32_t *end, int64_t *cost, int64_t *done, int64_t *where);

/* A double array of n keys, which are sorted by bytes, distinct and not empty.
 *   unit [room] out, zeros    used [room] zeros, stack [4 (n + 257)]  scratch
 *   size out  units
 * FC_EFULL: enlarge unit and used, zero them, and call again. FC_EINVAL: *where is a key out of
 * order. */
fc_status fc_build_trie(int64_t n, const int64_t *offsets, const uint8_t *text,
                        const int32_t *value, int64_t room, fc_unit *unit, uint8_t *used,
                        int64_t *stack, int64_t *size, int64_t *where);
