/* --- Semi-Markov chains --------------------------------------------------------------------------
 *
 * Segments of labels that tile a sentence, every stretch of up to D tokens under every label, scored by
 * sums over its tokens. P is the number of labels, L, rounded up to a multiple of 8; the columns from L
 * on are ignored. A segment of d tokens from token s under label l scores
 *
 *   first[s, l] + sum of inside[s .. s + d - 1, l] + last[s + d - 1, l] + length[d - 1, l] + extras
 *
 * and a longer one, if its label has a tail, n > longest[l] tokens with
 *
 *   length[D, l] + (n - longest[l]) * length[D + 1, l]
 *
 * in place of the length, and without extras. Scores are natural logs; in `length`, -inf forbids. */
typedef struct {
    int64_t L, P, D;
    const int32_t *longest; /* [L] 1 to D */
    const double *length;   /* [D + 2][P] */
    const double *pair;     /* [L][P] score of a label (column) after another (row) */
    const double *turned;   /* [L][P] the same, turned */
    const double *initial;  /* [P] of the first label */
    const double *final;    /* [P] of the last one */
} fc_semimarkov;

/* Sentences, and extras of single segments: the cell (s * D + d - 1) * P + l of a sentence gets
 * value[what]. */
typedef struct {
    int64_t B, N, V;       /* sentences, tokens, values */
    const int64_t *offset; /* [B + 1] tokens */
    const double *token;   /* [N][3][P] first, inside, last */
    const int64_t *extra;  /* [B + 1] extras of each sentence */
    const int32_t *cell;   /* [extras] */
    const int32_t *what;   /* [extras] */
    const double *value;   /* [V] */
} fc_segment_text;

/* Room that the functions below need for sentences of up to T tokens, in doubles; -1: too much. */
int64_t fc_semimarkov_room(int64_t T, int64_t P, int64_t D);

/* log Z of each sentence. The expected count of each score is added to the arrays.
 *   log_z [B] out    token [N][3][P] out    value [V] += length [D + 2][P] += pair [L][P] +=
 *   initial [P] += final [P] +=             work [room] */
fc_status fc_semimarkov_sums(const fc_semimarkov *machine, const fc_segment_text *text,
                             double *log_z, double *token, double *value, double *length,
                             double *pair, double *initial, double *final, int64_t room,
                             double *work, int64_t *where);

/* The best segments of each sentence. Ties: the smaller label, then the shorter segment, at the
 * earliest token where the candidates differ.
 *   score [B] out    label [N] out  label of the segment that begins at a token, -1: no segment
 *                                   begins */
fc_status fc_semimarkov_best(const fc_semimarkov *machine, const fc_segment_text *text,
                             double *score, int32_t *label, int64_t room, double *work,
                             int64_t *where);
