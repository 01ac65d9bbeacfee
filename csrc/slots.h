/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash tables with linear probing, of 2^(64 - shift) slots; some are free, row < 0. */
#ifndef FSTCRF_SLOTS_H
#define FSTCRF_SLOTS_H

#include "fstcrf.h"
#include "vec.h"

/* Fibonacci hashing: the highest bits of key / golden ratio. */
FC_INLINE uint64_t home(uint64_t key, int64_t shift) {
    return ((key ^ (key >> 31)) * 0x9E3779B97F4A7C15u) >> shift;
}

/* The row of a key; below 0: unknown key. */
FC_INLINE int64_t row_in_slots(const fc_slot *slot, int64_t size, int64_t shift, uint64_t key) {
    const uint64_t mask = (uint64_t)size - 1;
    uint64_t i = home(key, shift);
    while (slot[i].row >= 0 && slot[i].key != key) i = (i + 1) & mask;
    return slot[i].row;
}

#endif
