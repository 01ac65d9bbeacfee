/* --- Strings and column files --------------------------------------------------------------------
 *
 * Distinct strings, numbered in the order in which they came. The caller gives more memory when a
 * function says FC_EFULL, then calls fc_hash_strings. */
typedef struct {
    int64_t slots;       /* a power of two above `room` */
    int64_t room, space; /* strings and bytes that there is memory for */
    int64_t count;       /* strings that are there */
    uint64_t *slot;      /* [slots] */
    int64_t *offset;     /* [room + 1] string k is text[offset[k] .. offset[k + 1] - 1] */
    uint8_t *text;       /* [space] */
} fc_strings;

/* Fills the slots. FC_EINVAL with *where = k if string k is there twice. */
fc_status fc_hash_strings(fc_strings *strings, int64_t *where);

/* The number of each of n strings (which lie in `size` bytes), -1 for unknown ones. */
fc_status fc_find_strings(const fc_strings *strings, int64_t n, const int64_t *offset,
                          const uint8_t *text, int64_t size, int64_t *number);

/* Where a reader of lines stands. */
typedef enum { FC_BETWEEN = 0, FC_SENTENCE = 1, FC_BEHIND = 2 } fc_inside;

/* Lines of C fields, blank lines between sentences, and lines that open a document: those whose
 * first field is `mark`. All zero where reading begins, and carried on by fc_read_lines. */
typedef struct {
    int64_t size, lines, C, n_separator, n_mark;
    const uint8_t *text;      /* [size] `lines` lines, each with its \n */
    const uint8_t *separator; /* [n_separator]; none: any run of blanks and tabs */
    const uint8_t *mark;      /* [n_mark]; none: no line opens a document */
    int64_t at, line;         /* byte and line that come next */
    int64_t tokens, sentences, headers;
    int64_t found; /* FC_EROW: fields of the row, or ~(a field that is empty) */
    fc_inside inside;
    fc_strings *strings; /* [C] */
    int32_t *ids;        /* [C][lines] number of each token's string */
    int64_t *token_line; /* [lines] line of each token */
    int64_t *start;      /* [lines] first token of each sentence */
    int32_t *blank;      /* [lines] blank lines behind each sentence */
    int64_t *header;     /* [lines] lines that open a document */
} fc_lines;

/* Reads on to the end. FC_EFULL, FC_EROW: stands at the line that was not read. */
fc_status fc_read_lines(fc_lines *lines);

/* A column of N tokens: strings by number. */
typedef struct {
    int64_t count, size;
    const int32_t *ids;    /* [N] below count */
    const int64_t *offset; /* [count + 1] */
    const uint8_t *text;   /* [size] */
} fc_column;

/* The bytes that the next function writes. FC_EINVAL: *where is a token with an id that is none, a
 * string outside the text, or a negative break; both functions look. */
fc_status fc_rows_size(int64_t N, int64_t C, const fc_column *columns, int64_t n_separator,
                       const int32_t *breaks, int64_t *size, int64_t *where);

/* Writes a line for each token, and breaks[n] empty lines behind it. */
fc_status fc_write_rows(int64_t N, int64_t C, const fc_column *columns, int64_t n_separator,
                        const uint8_t *separator, const int32_t *breaks, int64_t size,
                        uint8_t *out);
