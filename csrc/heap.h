/* SPDX-License-Identifier: Apache-2.0
 *
 * Binary heaps. The caller owns the memory. before(context, &a, &b) decides which of two items is
 * popped first. */
#ifndef FSTCRF_HEAP_H
#define FSTCRF_HEAP_H

#include "fstcrf.h"

/* Defines item NAME_pop(context, heap, &size) and void NAME_push(context, heap, &size, item). */
#define FC_HEAP(NAME, CONTEXT, ITEM, BEFORE)                                                \
    static inline void NAME##_push(CONTEXT context, ITEM *heap, int64_t *size, ITEM item) { \
        int64_t i = (*size)++;                                                              \
        for (; i > 0 && BEFORE(context, &item, &heap[(i - 1) / 2]); i = (i - 1) / 2)        \
            heap[i] = heap[(i - 1) / 2];                                                    \
        heap[i] = item;                                                                     \
    }                                                                                       \
    static inline ITEM NAME##_pop(CONTEXT context, ITEM *heap, int64_t *size) {             \
        const ITEM top = heap[0], last = heap[--*size];                                     \
        int64_t i = 0;                                                                      \
        for (int64_t child; (child = 2 * i + 1) < *size; i = child) {                       \
            child += child + 1 < *size && BEFORE(context, &heap[child + 1], &heap[child]);  \
            if (!BEFORE(context, &heap[child], &last)) break;                               \
            heap[i] = heap[child];                                                          \
        }                                                                                   \
        heap[i] = last;                                                                     \
        return top;                                                                         \
    }

#endif
