/* --- Strings and column files --------------------------------------------------------------------
 *
 * Distinct strings, numbered in the order of their first occurrence. When a function returns FC_EFULL,
 * the caller enlarges the memory and calls fc_hash_strings. */
typedef struct {
    int64_t slots;       /* a power of two above `room` */
    int64_t room, space; /* capacity in strings and in bytes */
    int64_t count;       /* number of strings */
    uint64_t *slot;      /* [slots] */
    int64_t *offset;     /* [room + 1] string k is text[offset[k] .. offset[k + 1] - 1] */
    uint8_t *text;       /* [space] */
} fc_strings;

/* Fills the slots. FC_EINVAL with *where = k if string k occurs twice. */
fc_status fc_hash_strings(fc_strings *strings, int64_t *where);

/* Finds the id of each of n strings, which are in `size` bytes; -1 for an unknown one. */
fc_status fc_find_strings(const fc_strings *strings, int64_t n, const int64_t *offset,
                          const uint8_t *text, int64_t size, int64_t *number);

/* State of a reader of lines: between sentences, in one, or after one. */
typedef enum { FC_BETWEEN = 0, FC_SENTENCE = 1, FC_BEHIND = 2 } fc_inside;

/* Lines of C fields, blank lines between sentences, and lines that open a document: their first field
 * is `mark`. All zero before the first call, and updated by fc_read_lines. */
typedef struct {
    int64_t size, lines, C, n_separator, n_mark;
    const uint8_t *text;      /* [size] `lines` lines, each with its \n */
    const uint8_t *separator; /* [n_separator]; empty: any run of blanks and tabs */
    const uint8_t *mark;      /* [n_mark]; empty: no line opens a document */
    int64_t at, line;         /* next byte and line */
    int64_t tokens, sentences, headers;
    int64_t found; /* FC_EROW: number of fields in the row, or ~(index of an empty field) */
    fc_inside inside;
    fc_strings *strings; /* [C] */
    int32_t *ids;        /* [C][lines] number of each token's string */
    int64_t *token_line; /* [lines] line of each token */
    int64_t *start;      /* [lines] first token of each sentence */
    int32_t *blank;      /* [lines] blank lines after each sentence */
    int64_t *header;     /* [lines] lines that open a document */
} fc_lines;

/* Reads on to the end of the text. FC_EFULL, FC_EROW: `at` and `line` are at the line that was not
   read. */
fc_status fc_read_lines(fc_lines *lines);

/* The surface text of sentences: consecutive forms, each of one token or of several. Bytes are UTF-8;
 * positions are in characters. */
typedef struct {
    int64_t S, M, N, n_forms, n_text, n_scratch;
    const int64_t *surface;      /* [S + 1] first form of each sentence */
    const int64_t *start;        /* [S + 1] first token of each sentence */
    const int64_t *begin, *size; /* [M] bytes of the form */
    const int64_t *covered;      /* [M] number of tokens that the form covers */
    const uint8_t *spaced;       /* [M] a space follows */
    const uint8_t *forms;        /* [n_forms] */
    const int64_t *text_begin,
        *text_size;       /* [S] the sentence's text; size < 0: the text is the forms */
    const uint8_t *text;  /* [n_text] */
    const uint8_t *opens; /* [S] the sentence opens a document */
    uint8_t
        *scratch; /* [n_scratch] bytes of the longest sentence's forms + number of these forms */
    int64_t position; /* position of the next sentence in its document */
    int32_t *chars;   /* [N][2] start and end of each token */
} fc_surface;

/* Finds every form in the text of its sentence, which ends with a line feed. All tokens of a sentence
 * get -1 if a form is missing, or if the forms cover another number of tokens than the sentence has.
 * FC_EINVAL: *where is a sentence of impossible offsets; FC_EFULL: a sentence that ends beyond
 * 2^31 - 1. */
fc_status fc_locate_forms(fc_surface *surface, int64_t *where);

/* A column of N tokens: strings by number. */
typedef struct {
    int64_t count, size;
    const int32_t *ids;    /* [N] below count */
    const int64_t *offset; /* [count + 1] */
    const uint8_t *text;   /* [size] */
} fc_column;

/* Writes a line for each token, and breaks[n] empty lines after it: `size` bytes. Without `out`, only
 * `size` is written. FC_EINVAL: *where is a token with a bad id, a string outside the text, a negative
 * break, or one for which there is no room. */
fc_status fc_write_rows(int64_t N, int64_t C, const fc_column *columns, int64_t n_separator,
                        const uint8_t *separator, const int32_t *breaks, int64_t *size,
                        uint8_t *out, int64_t *where);
