/* The kernel's whole contract. It has declarations only and no preprocessor line, so the C compiler and
 * cffi read the same file.
 *
 * The kernel is a calculator: no I/O, no threads, no allocation, and no state but the chosen variant.
 * The caller owns every buffer and passes every size. Buffers never overlap. Potentials are natural-log
 * scores; -inf forbids; NaN, +inf and numbers beyond 1e300 either way are errors. Names of sizes:
 *
 *   B  sentences of a batch      N  tokens of the batch     S  states      A  arcs
 *   R  rows of a weight table    W  width of a row (slots, padded)
 *
 * Every function returns a status. If the error has a place (a sentence, a token, an entry), its index
 * is in *where. Outputs are unspecified unless the status is FC_OK. */

typedef enum {
    FC_OK = 0,
    FC_EINVAL = 1,   /* a size or index out of range; *where: which argument or entry */
    FC_ENUMERIC = 2, /* NaN or +inf in the input; *where: index of the entry */
    FC_ERANGE = 3,   /* FC_LINEAR was forced, but sentence *where cannot be represented in it */
    FC_ETARGET = 4,  /* this machine or build lacks the variant */
    FC_EFULL = 5,    /* a buffer is too small: enlarge it and call again */
    FC_EROW = 6,     /* a line has the wrong number of fields */
    FC_EPAUSED = 7,  /* the steps of this call are done: call again to continue */
    FC_EPRODUCT = 8  /* a search takes too long: pass the product, or raise its limits */
} fc_status;

/* Text of a status; never NULL. */
const char *fc_text(fc_status status);

/* Selects a variant: the same sources are compiled several times. "auto" takes the best one that the
 * processor runs, else "base", "v3" (x86-64-v3: AVX2, FMA) or "v4" (x86-64-v4: AVX-512). Do not call it
 * while another thread is inside the kernel. fc_variant returns the name of the active one. */
fc_status fc_use(const char *variant);
const char *fc_variant(void);
