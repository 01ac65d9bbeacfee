/* SPDX-License-Identifier: Apache-2.0
 *
 * Coverage of the kernel, for fuzzing: gcc calls `__sanitizer_cov_trace_pc` at every edge, libFuzzer
 * reads counters of 8 bits. Only in builds that are to be fuzzed. */

#include <stdint.h>

#define PLACES 16384 /* a power of two; libFuzzer looks at each after every input */

#define EXPORTED __attribute__((visibility("default")))
void __sanitizer_cov_trace_pc(void);

EXPORTED uint8_t fc_places[PLACES];
EXPORTED uintptr_t
    fc_place_names[2 * PLACES]; /* address and flags of each, in the format of libFuzzer */

void __sanitizer_cov_trace_pc(void) {
    static const char base = 0; /* addresses differ from run to run, distances do not */
    const uintptr_t here = (uintptr_t)__builtin_return_address(0) - (uintptr_t)&base;
    const uintptr_t place = ((here * UINT64_C(0x9E3779B97F4A7C15)) >> 40) & (PLACES - 1);
    fc_places[place]++;
    fc_place_names[2 * place] = (uintptr_t)__builtin_return_address(0);
}
