/* --- Scores of labels from anywhere --------------------------------------------------------------
 *
 * Decoding and sums for score arrays: batches of sentences as arrays of float32 or float64, read in
 * place, under a chain whose S states each have one of L labels:
 *
 *   score = initial[s_0] + final[s_{T-1}] + sum_t row_t[label[s_t]] + sum_{t>0} arc[s_{t-1}][s_t]
 *
 * float32 rows are computed in float32 and renormalised at every token; sums of scores are float64. A
 * sentence that float32 cannot represent is recomputed in float64. A sentence that float64 cannot
 * represent is left to the caller: `left` is 1 for it. The result of a sentence does not depend on the
 * other sentences. */
typedef struct {
    const float *narrow;   /* the scores, or NULL */
    const double *wide;    /* exactly one of both is set */
    int64_t size;          /* number of scores */
    const int64_t *start;  /* [B] index of a sentence's first row */
    int64_t stride;        /* distance from a row to the next one */
    const int64_t *length; /* [B] tokens, possibly 0 */
    int64_t B, L;
} fc_rows;

typedef struct {
    int64_t S, L;                  /* at most FC_MAX_EMITTERS states */
    const int32_t *label;          /* [S] */
    const double *arc;             /* [S][S] from row to column; -inf: no arc */
    const double *initial, *final; /* [S] */
} fc_emitter;

enum { FC_MAX_EMITTERS = 2048 };

/* Outputs of sums; NULL: not wanted. */
typedef struct {
    double *log_z; /* [B] out -inf if no path exists */
    uint8_t *left; /* [B] out 1: not computed; log_z is NaN and the other outputs are untouched */
    float
        *narrow;  /* out probability of each label, in rows laid out like the scores: float32 ... */
    double *wide; /*      ... or float64; 0 in sentences without a path */
    int64_t size;
    const int64_t *start; /* [B] */
    int64_t stride;
    double *arc;         /* [S][S] in/out  expected numbers of arcs are added */
    double *begin, *end; /* [S] in/out expected numbers of first and last states are added */
} fc_emission_sums;

/* How labels are read as spans. */
typedef struct {
    int64_t L, types;
    const int32_t *type;      /* [L] type of the spans that a label belongs to, or -1 */
    const uint8_t *begins;    /* [L][L] a span begins at the second label if it follows the first */
    const uint8_t *continues; /* [L][L] a span continues */
    const uint8_t *first;     /* [L] ... begins at the first token */
    const uint8_t *last;      /* [L] a span may end with the label */
} fc_span_reading;

/* Doubles of scratch for the sentences first .. last - 1. */
int64_t fc_emission_work(const fc_emitter *emitter, const fc_rows *rows, int64_t first,
                         int64_t last);

/* Checks sizes and indices once; the other functions do not repeat the checks. */
fc_status fc_check_emissions(const fc_emitter *emitter, const fc_rows *rows, int64_t *where);

/* Best labels of the sentences first .. last - 1. Ties: the smaller state, at the earliest token where
 * they differ.
 *   offsets [B]  in   place of a sentence in `path`
 *   path    out  labels; -1 throughout a sentence that has no path
 *   score   [B] out  -inf if no path exists; 0 for a sentence without tokens
 * FC_ENUMERIC: sentence *where has a score that is NaN, +inf or beyond 1e300. */
fc_status fc_emission_best(const fc_emitter *emitter, const fc_rows *rows, int64_t first,
                           int64_t last, const int64_t *offsets, int32_t *path, double *score,
                           double *work, int64_t *where);

/* Sums of the sentences first .. last - 1. FC_ENUMERIC as above. */
fc_status fc_emission_total(const fc_emitter *emitter, const fc_rows *rows, int64_t first,
                            int64_t last, const fc_emission_sums *sums, double *work,
                            int64_t *where);

/* The spans of given labels with their probabilities.
 *   path        in   labels, places by `offsets`; sentences that begin with -1 have no spans
 *   ends        [B] out  running total of spans, from sentence `first` on
 *   span        [tokens][3] out  start and end within the sentence, type; there are at most `tokens`
 *                                spans
 *   probability [tokens] out
 *   sums: log_z and left, as above. */
fc_status fc_emission_spans(const fc_emitter *emitter, const fc_rows *rows, int64_t first,
                            int64_t last, const int64_t *offsets, const int32_t *path,
                            const fc_span_reading *reading, int64_t *ends, int32_t *span,
                            double *probability, const fc_emission_sums *sums, double *work,
                            int64_t *where);

/* Scores of given labels. Subtracts the best path with these labels from the sums, as if it were
 * certain.
 *   tag   in   labels of a sentence from place[b] on
 *   score [B] out  -inf if the labels are not legal: then the sums stay as they are
 *   sums: narrow or wide, arc, begin and end in/out; log_z and left are not written. Sentences with
 *         left[b] = 1 are scored, but not subtracted. */
fc_status fc_emission_given(const fc_emitter *emitter, const fc_rows *rows, int64_t first,
                            int64_t last, const int64_t *place, const int32_t *tag, double *score,
                            const fc_emission_sums *sums, double *work, int64_t *where);
