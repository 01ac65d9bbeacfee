/* --- Phrases -------------------------------------------------------------------------------------
 *
 * A trie over sequences of string ids. Node 0 is the root; a hash table maps any other node and a
 * string to the next node (key node * strings + string). A phrase adds weights to labels of its tokens:
 * extras of semi-Markov chains. */
typedef struct {
    int64_t strings, nodes, weights;
    const int32_t *first;  /* [strings] from the root; 0: no edge */
    int64_t size, shift;   /* of the hash table, which has a free slot: size = 2^(64 - shift) */
    const fc_slot *slot;   /* [size] */
    const int64_t *row;    /* [nodes + 1] weights of each node */
    const int32_t *label;  /* [weights] label that each weight is for */
    const int32_t *weight; /* [weights] */
} fc_phrases;

/* Finds the phrases of up to D tokens in K tries.
 *   offset [B + 1]     sentences
 *   token  [K][N]      id of each token's string, below 0: unknown
 *   node   [K][N][D]   out  node of the d tokens from a token on, at d - 1; 0: not a phrase
 *   extra  [B + 1]     out  cumulative number of weights that the phrases add */
fc_status fc_find_phrases(int64_t K, const fc_phrases *phrases, int64_t B, const int64_t *offset,
                          const int32_t *token, int64_t D, int32_t *node, int64_t *extra,
                          int64_t *where);

/* The weights of the phrases that fc_find_phrases found; one trie after the other, from first token to
 * last.
 *   cell [extra[B]] out  (s * D + d - 1) * P + label within a sentence
 *   what [extra[B]] out
 * FC_EINVAL: a bad node, or a label that is not below P. */
fc_status fc_phrase_weights(int64_t K, const fc_phrases *phrases, int64_t B, const int64_t *offset,
                            int64_t D, int64_t P, const int32_t *node, const int64_t *extra,
                            int32_t *cell, int32_t *what, int64_t *where);
