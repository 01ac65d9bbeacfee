/* This many numbers are added in float32, then their sum is added to a float64. */
enum { FC_RUN = 64 };

/* --- Training at full speed ----------------------------------------------------------------------
 *
 * A shard: a fixed run of sentences with its own numbering of attributes. Row attributes have padded
 * rows of weights; single attributes have entries (slot, weight). Its weights are one float array:
 * R * P for the rows, then M for the singles. P is a multiple of 8, at most 2^16. */
typedef struct {
    int64_t B, N, R, M, P, longest; /* longest: tokens of the longest sentence */
    int64_t frequent_rows,
        frequent_singles;        /* the first ones; all that occur more than FC_RUN times */
    int64_t flushes;             /* number of fc_flushes; 0: no flushes */
    const int64_t *flush_after;  /* [flushes] after how many tokens, ascending */
    const int32_t *flush_what;   /* [flushes] the row, or R + the single entry */
    int64_t K;                   /* slots a state sums; 0: states are slots */
    const int32_t *slot;         /* [S][K], K > 0 only */
    const int64_t *offsets;      /* [B + 1] */
    const double *weight;        /* [B] of sentences */
    const int64_t *row_ptr;      /* [N + 1] */
    const int32_t *row;          /* row attributes of tokens, below R */
    const float *row_value;      /* or NULL: all ones */
    const int64_t *single_ptr;   /* [N + 1] */
    const int32_t *single;       /* entries of single attributes, below M */
    const uint16_t *single_slot; /* their slots */
    const float *single_value;   /* or NULL: all ones */
    const int32_t *rows;         /* [R] attribute of each row, in the layout */
    const int32_t *singles;      /* [M] place of each entry in the parameter vector */
    const int32_t *gold;         /* [N] gold states, whose potentials the loss subtracts; or NULL */
} fc_shard;

/* The parameters of each attribute: theta[ptr[a] .. ptr[a + 1] - 1], and their slots. */
typedef struct {
    int64_t attributes, parameters;
    const int64_t *ptr;   /* [attributes + 1] */
    const uint16_t *slot; /* [parameters] */
} fc_layout;

/* Checks a shard and a layout once: every index within its size. */
fc_status fc_check_shard(const fc_machine *machine, const fc_shard *shard, const fc_layout *layout,
                         int64_t *where);

/* Schedule of flushes: when the float32 sums of frequent attributes are added to float64, in the order
 * in which a sweep over such a machine visits tokens. Called twice: `count` becomes the number of
 * flushes; after and what, each [count], are filled if not NULL.
 *   work  [B + longest + 2 + 2 * (frequent_rows + frequent_singles)] */
fc_status fc_flushes(const fc_machine *machine, const fc_shard *shard, int64_t *count,
                     int64_t *after, int32_t *what, int64_t *work);

/* One sweep: log Z and gradient of a shard over one axis that does not move: a dense axis, or a sparse
 * one whose other pairs have a weight (background.h).
 *   weight   [R * P + M] in
 *   gradient [R * P + M] in/out  posterior counts are added,
 *   frequent [frequent_rows * P + frequent_singles] in/out  but for frequent attributes mostly here
 *   loss     [1]         out     sum of weight_b * log Z_b, minus the potentials of gold states
 *   arc      [arcs]      out     expected arcs; S * S if all pairs have one
 *   begin, end [S]       out     expected first and last states
 *   rescued  [1]         out     sentences that float32 cannot represent and that were done in
 *                                float64
 * With `squared`, the shard with the squares of its values, and fc_sweep_work with `curvature` 1: the
 * diagonal of the Hessian of the loss. Then posteriors p are replaced by p (1 - p), but in the arcs of
 * rescued sentences; the loss has no meaning. */
fc_status fc_sweep(const fc_machine *machine, const fc_shard *shard, const fc_shard *squared,
                   const float *weight, float *gradient, double *frequent, double *loss,
                   double *arc, double *begin, double *end, int64_t *rescued, double *work);
int64_t fc_sweep_work(const fc_machine *machine, const fc_shard *shard, int curvature);

/* weight = the shard's view of theta. */
fc_status fc_spread(const fc_shard *shard, const fc_layout *layout, const float *theta,
                    float *weight);

/* theta += the shard's gradient. */
fc_status fc_collect(const fc_shard *shard, const fc_layout *layout, const float *gradient,
                     const double *frequent, double *theta);
