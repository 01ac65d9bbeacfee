/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of a batch of sentences, which scratch is laid out by. */
#ifndef FSTCRF_BATCH_H
#define FSTCRF_BATCH_H

#include "fstcrf.h"

/* Tokens of the longest sentence. */
static inline int64_t batch_longest(const fc_batch *batch) {
    int64_t longest = 0;
    for (int64_t b = 0; b < batch->B; b++) {
        const int64_t T = batch->offsets[b + 1] - batch->offsets[b];
        longest = T > longest ? T : longest;
    }
    return longest;
}

#endif
