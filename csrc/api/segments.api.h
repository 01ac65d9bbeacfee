/* --- Spans ---------------------------------------------------------------------------------------
 *
 * How spans are read off the labels of one axis: its arcs open and continue them; see segments.c. */
enum { FC_OPENS = 1, FC_CARRIES = 2 };

typedef struct {
    int64_t axis, types;
    const int32_t
        *type; /* [S] type of the spans that a state belongs to, or -1; each type has a state */
    const uint8_t *first; /* [S] a sentence that begins with this state begins with a span */
    const uint8_t *arc;   /* [arcs] FC_OPENS: a span begins at its target; FC_CARRIES; or 0 */
    const uint8_t *last;  /* [S] a span may end with this state */
} fc_segments;

/* FC_ABOVE: all spans with a probability above the floor. FC_ASKED: given spans, sorted by start and
 * type. FC_COUNTED: the expected number of spans of each type. */
typedef enum { FC_ABOVE, FC_ASKED, FC_COUNTED } fc_segment_mode;

typedef struct {
    fc_segment_mode mode;
    double floor;
    int64_t lanes;         /* number of spans of a type that may be open at a token */
    int64_t asked, cursor; /* given spans of this sentence: the next one; their end */
    int64_t room, found;   /* capacity for spans; number found so far */
    int32_t *span;         /* [room][3] start and end within the sentence, type: out, or given */
    double *probability;   /* [room]; with FC_COUNTED [B][types], initially zeros */
} fc_segment_search;

/* Doubles for a block of n tokens. Their values must persist from block to block. */
int64_t fc_segment_work(const fc_machine *machine, const fc_segments *labels, int64_t lanes,
                        int64_t n);

/* Spans of whole sentences.
 *   asked  [B + 1]     bounds of each sentence's given spans, or NULL
 *   ends   [B] out     spans found up to the end of each sentence
 *   log_z  [B] out     -inf if no path exists; such a sentence has no spans
 * FC_EFULL: the arrays of spans are too small. */
fc_status fc_machine_segments(const fc_machine *machine, int64_t B, const int64_t *offsets,
                              const fc_segments *labels, const int64_t *asked,
                              fc_segment_search *search, int64_t *ends, double *log_z, double *work,
                              int64_t *where);

/* Spans that end in a block of a long sentence (FC_SUM or FC_LOGS), one block after the other. */
fc_status fc_block_segments(const fc_machine *machine, const fc_block *block,
                            const fc_segments *labels, fc_segment_search *search, double *work);
