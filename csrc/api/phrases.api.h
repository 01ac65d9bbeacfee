/* --- Phrases -------------------------------------------------------------------------------------
 *
 * Sequences of strings, which are known by number, as a trie: node 0 is the root; a hash table leads
 * from a node other than that, over a string, to the next (key node * strings + string). A stretch of
 * tokens that is a phrase brings weights to labels: extras of semi-Markov chains. */
typedef struct {
    int64_t strings, nodes, weights;
    const int32_t *first;  /* [strings] from the root; 0: nowhere */
    int64_t size, shift;   /* of the hash table, which has a free slot: size = 2^(64 - shift) */
    const fc_slot *slot;   /* [size] */
    const int64_t *row;    /* [nodes + 1] weights of each node */
    const int32_t *label;  /* [weights] of its labels */
    const int32_t *weight; /* [weights] */
} fc_phrases;

/* Checks a trie once: sizes and nodes. The functions below take it for granted. */
fc_status fc_check_phrases(const fc_phrases *phrases, int64_t *where);

/* The stretches of up to D tokens that are phrases, of each of K tries.
 *   offset [B + 1]     sentences
 *   token  [K][N]      number of each token's string, below 0: none that is known
 *   node   [K][N][D]   out  of the stretch of d tokens from a token on, at d - 1; 0: it is none
 *   extra  [B + 1]     out  how many weights they bring, summed up */
fc_status fc_find_phrases(int64_t K, const fc_phrases *phrases, int64_t B, const int64_t *offset,
                          const int32_t *token, int64_t D, int32_t *node, int64_t *extra,
                          int64_t *where);

/* The weights of what fc_find_phrases found; one trie after the other, from first token to last.
 *   cell [extra[B]] out  (s * D + d - 1) * P + label of a sentence
 *   what [extra[B]] out
 * FC_EINVAL: a node, or a label that is not below P. */
fc_status fc_phrase_weights(int64_t K, const fc_phrases *phrases, int64_t B, const int64_t *offset,
                            int64_t D, int64_t P, const int32_t *node, const int64_t *extra,
                            int32_t *cell, int32_t *what, int64_t *where);
