/* SPDX-License-Identifier: Apache-2.0
 *
 * What entry points are made of: an input is read as choices, sizes and numbers, zeros behind its end;
 * every array has the very size that the contract asks for, so that AddressSanitizer sees one step beyond
 * it. See main.c. */
#ifndef FSTCRF_ENTRIES_INPUT_H
#define FSTCRF_ENTRIES_INPUT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fstcrf.h"

void input_begin(const uint8_t *bytes, size_t size);
void input_end(void); /* what was drawn is gone */

/* --- Choices, sizes and numbers --------------------------------------------------------------- */

/* The bytes that come next, as a number; what is left of them, and room that is used. */
uint64_t grab(size_t bytes);
const uint8_t *input_rest(size_t *size);
size_t room_used(void);

/* A number below a limit of at most 256; a potential; an index, now and then one that is none. */
int64_t below(int64_t limit);
double value(void);
int32_t index_below(int64_t limit);

/* --- Arrays -------------------------------------------------------------------------------------- */

enum { ROOM = 1 << 22 };
void *room(int64_t n, size_t size);
#define NEW(type, n) ((type *)room(n, sizeof(type)))
#define ZEROS(type, n) ((type *)memset(NEW(type, n), 0, (size_t)(n) * sizeof(type)))

double *values(int64_t n);
double *finite_values(int64_t n); /* multiples of 1/8, between -8 and 8 */
float *narrow_values(int64_t n);  /* the same */
double *uniform(int64_t n);       /* in [0, 1) */
int32_t *indices(int64_t n, int64_t limit);
uint8_t *bits(int64_t n);

/* Where parts begin, the end behind them; mostly in order. */
int64_t *starts(int64_t parts, int64_t total);
/* The same, for structures that hold the total themselves: even the last may be wrong. */
int64_t *counted_starts(int64_t parts, int64_t total);

/* Where sentences begin, each of 1 .. most tokens. */
int64_t *sentences(int64_t B, int64_t most);
int64_t longest_sentence(int64_t B, const int64_t *offsets);

/* --- Machines ------------------------------------------------------------------------------------ */

/* What an axis may be. */
enum { MAY_MOVE = 1, MAY_BE_SPARSE = 2, MAY_REST = 4 };
void draw_axis(fc_axis *axis, int64_t S, int64_t N, int kinds);

/* A machine of an axis, or of up to two and a residual automaton, with potentials of N tokens. 0: what
 * checks it refuses it. */
int draw_chain(fc_machine *m, int64_t S, int64_t N, int kinds);
int draw_machine(fc_machine *m, int64_t N);

/* --- What must hold -------------------------------------------------------------------------------- */

extern double magnitude; /* of all that was drawn: rounding is a share of it */
void must(int holds, const char *what);

/* Best first but for rounding, each path once. */
void check_paths(int64_t n, int64_t stride, const int32_t *path, const double *score);

/* --- Entries: what is called with an input ----------------------------------------------------------- */

void acyclic(void);
void machines(void);
void emissions(void);
void blocks(void);
void spans(void);
void search(void);
void counting(void);
void paired(void);
void rows(void);
void lines(void);
void forms(void);
void words(void);
void lookup(void);
void phrases(void);
void semimarkov(void);
void gibbs(void);
void sweep(void);
void steps(void);
void learners(void);
void feedback(void);
void vectors(void);

#endif
