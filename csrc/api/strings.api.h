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

/* How sentences are written: forms one after the other, each for a token or for several of them. Bytes are
 * UTF-8; places are characters. */
typedef struct {
    int64_t S, M, N, n_forms, n_text, n_scratch;
    const int64_t *surface;      /* [S + 1] first form of each sentence */
    const int64_t *start;        /* [S + 1] first token of each sentence */
    const int64_t *begin, *size; /* [M] bytes of the form */
    const int64_t *covered;      /* [M] tokens that it stands for */
    const uint8_t *spaced;       /* [M] a space follows */
    const uint8_t *forms;        /* [n_forms] */
    const int64_t *text_begin,
        *text_size;       /* [S] the sentence's text; size < 0: that of the forms */
    const uint8_t *text;  /* [n_text] */
    const uint8_t *opens; /* [S] the sentence opens a document */
    uint8_t
        *scratch; /* [n_scratch] bytes of the longest sentence's forms, and one for each of them */
    int64_t position; /* of the next sentence in its document */
    int32_t *chars;   /* [N][2] start and end of each token */
} fc_surface;

/* Finds every form in the text of its sentence, whose end is a line feed: -1 for all tokens of a
 * sentence where one is not there, or where the forms stand for other tokens than it has. FC_EINVAL:
 * *where is a sentence of impossible offsets; FC_EFULL: one that ends beyond 2^31 - 1. */
fc_status fc_locate_forms(fc_surface *surface, int64_t *where);

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
