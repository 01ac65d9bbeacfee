/* --- Scores of labels from anywhere --------------------------------------------------------------
 *
 * Batches of sentences as arrays of float32 or float64, read where they lie, under a chain whose S
 * states each have one of L labels:
 *
 *   score = initial[s_0] + final[s_{T-1}] + sum_t row_t[label[s_t]] + sum_{t>0} arc[s_{t-1}][s_t]
 *
 * float32 rows are computed in float32, renormalised at every token, sums of scores in float64. A
 * sentence that float32 cannot hold is done in float64, one that float64 cannot is left to the
 * caller: `left` says so. What a sentence gets does not depend on the others. */
typedef struct {
    const float *narrow;   /* the numbers, or NULL */
    const double *wide;    /* one of both */
    int64_t size;          /* numbers there are */
    const int64_t *start;  /* [B] place of a sentence's first row */
    int64_t stride;        /* from a row to the next one */
    const int64_t *length; /* [B] tokens, 0 too */
    int64_t B, L;
} fc_rows;

typedef struct {
    int64_t S, L;                  /* at most FC_MAX_EMITTERS states */
    const int32_t *label;          /* [S] */
    const double *arc;             /* [S][S] from row to column; -inf: there is none */
    const double *initial, *final; /* [S] */
} fc_emitter;

enum { FC_MAX_EMITTERS = 256 };

/* What sums are asked for; NULL: nothing. */
typedef struct {
    double *log_z; /* [B] out  -inf where no path exists */
    uint8_t *left; /* [B] out  1: not done, log_z is NaN and nothing else is written */
    float *narrow; /* out  probability of each label, in rows as the scores are: float32 ... */
    double *wide;  /*      ... or float64; 0 in sentences without a path */
    int64_t size;
    const int64_t *start; /* [B] */
    int64_t stride;
    double *arc;         /* [S][S] in/out  expected numbers of arcs are added */
    double *begin, *end; /* [S]    in/out  and those of first and last states */
} fc_emission_sums;

/* How labels are read as spans. */
typedef struct {
    int64_t L, types;
    const int32_t *type;      /* [L] type of the spans that a label belongs to, or -1 */
    const uint8_t *begins;    /* [L][L] a span begins at the second label behind the first one */
    const uint8_t *continues; /* [L][L] a span goes on */
    const uint8_t *first;     /* [L] ... begins at the first token */
    const uint8_t *last;      /* [L] a span may end with the label */
} fc_span_reading;

/* Doubles of scratch for sentences of up to `longest` tokens. */
int64_t fc_emission_work(const fc_emitter *emitter, int64_t longest);

/* Checks sizes and indices once; the others take them for granted. */
fc_status fc_check_emissions(const fc_emitter *emitter, const fc_rows *rows, int64_t *where);

/* Best labels of the sentences first .. last - 1. Ties: the smaller state, at the earliest token where
 * they differ.
 *   offsets [B]  in   place of a sentence in `path`
 *   path    out  labels; -1 throughout a sentence that has no path
 *   score   [B] out  -inf where no path exists, 0 of a sentence without tokens
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
 *   ends        [B] out  spans of the sentences first .. up to the end of each
 *   span        [tokens][3] out  start and end within the sentence, type; as many as there may be
 *   probability [tokens] out
 *   sums: log_z and left, as above. */
fc_status fc_emission_spans(const fc_emitter *emitter, const fc_rows *rows, int64_t first,
                            int64_t last, const int64_t *offsets, const int32_t *path,
                            const fc_span_reading *reading, int64_t *ends, int32_t *span,
                            double *probability, const fc_emission_sums *sums, double *work,
                            int64_t *where);

/* Scores of given labels, the best path that has them; it is taken from the sums as one that is certain.
 *   tag   in   labels of a sentence from place[b] on
 *   score [B] out  -inf where they are not legal: then nothing is taken off
 *   sums: narrow or wide, arc, begin and end in/out; log_z and left are not written. Sentences with
 *         left[b] = 1 are scored, and nothing is taken off. */
fc_status fc_emission_given(const fc_emitter *emitter, const fc_rows *rows, int64_t first,
                            int64_t last, const int64_t *place, const int32_t *tag, double *score,
                            const fc_emission_sums *sums, double *work, int64_t *where);
