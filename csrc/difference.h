/* SPDX-License-Identifier: Apache-2.0
 *
 * The difference of the features of two paths: a sparse vector over the parameters, of which a sentence
 * touches few. Open addressing; touched slots are listed, so that clearing them is as cheap as
 * filling. */
#ifndef FSTCRF_DIFFERENCE_H
#define FSTCRF_DIFFERENCE_H

#include "fstcrf.h"

#define FC_NO_CELL ((int64_t)-1)

typedef struct {
    int64_t slots; /* a power of two, at least twice the cells of any sentence */
    int shift;     /* 64 - log2 slots */
    int64_t used;
    int apart;       /* cells are listed as often as they are added, which is quicker */
    int64_t *cell;   /* [slots] */
    double *value;   /* [slots] */
    int64_t *listed; /* [slots / 2] places of the cells, in order of insertion */
} difference;

/* The most cells that a sentence of the batch can touch: attributes, arcs and ends of two paths. */
static inline int64_t most_cells(const fc_batch *batch, const fc_learner *r) {
    int64_t most = 0;
    for (int64_t b = 0; b < batch->B; b++) {
        const int64_t first = batch->offsets[b], end = batch->offsets[b + 1];
        const int64_t cells = 2 * ((r->indptr[end] - r->indptr[first]) * r->K + end - first + 1);
        most = cells > most ? cells : most;
    }
    return most;
}

static inline int64_t difference_slots(int64_t cells) {
    int64_t slots = 2;
    while (slots < 2 * cells) slots *= 2;
    return slots;
}

/* Doubles that a difference of up to `cells` cells needs. */
static inline int64_t difference_room(int64_t cells) {
    const int64_t slots = difference_slots(cells);
    return 2 * slots + slots / 2;
}

static inline void difference_lay_out(difference *d, int64_t cells, int apart, double *work) {
    d->slots = difference_slots(cells);
    d->apart = apart;
    d->shift = 64;
    for (int64_t n = d->slots; n > 1; n /= 2) d->shift--;
    d->used = 0;
    d->value = work;
    d->cell = (int64_t *)(work + d->slots);
    d->listed = d->cell + d->slots;
    for (int64_t i = 0; i < d->slots; i++) d->cell[i] = FC_NO_CELL;
}

static inline void difference_add(difference *d, int64_t cell, double value) {
    uint64_t i = d->apart ? (uint64_t)d->used : ((uint64_t)cell * 0x9E3779B97F4A7C15u) >> d->shift;
    while (d->cell[i] != cell && d->cell[i] != FC_NO_CELL) i = (i + 1) & (uint64_t)(d->slots - 1);
    if (d->cell[i] == FC_NO_CELL) {
        d->cell[i] = cell;
        d->value[i] = 0.0;
        d->listed[d->used++] = (int64_t)i;
    }
    d->value[i] += value;
}

static inline void difference_clear(difference *d) {
    for (int64_t k = 0; k < d->used; k++) d->cell[d->listed[k]] = FC_NO_CELL;
    d->used = 0;
}

#endif
