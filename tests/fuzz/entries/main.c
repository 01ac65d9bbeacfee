/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of the kernel for libFuzzer, without Python: ten thousand inputs a second and more. What a
 * caller has to check first (`fc_check_...`) is asked first. FSTCRF_ENTRY says which entry; with
 * FSTCRF_ALONE it is a program of its own. */

#include <time.h>

#include "input.h"

#define ENTRY(name) {#name, name}
static const struct {
    const char *name;
    void (*run)(void);
} entries[] = {
    ENTRY(acyclic),  ENTRY(machines), ENTRY(emissions),  ENTRY(blocks), ENTRY(spans), ENTRY(search),
    ENTRY(counting), ENTRY(paired),   ENTRY(rows),       ENTRY(lines),  ENTRY(forms), ENTRY(words),
    ENTRY(lookup),   ENTRY(phrases),  ENTRY(semimarkov), ENTRY(gibbs),  ENTRY(sweep), ENTRY(steps),
    ENTRY(learners), ENTRY(feedback), ENTRY(vectors)};
static void (*run)(void);

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    const char *wanted = getenv("FSTCRF_ENTRY");
    for (size_t k = 0; k < sizeof entries / sizeof *entries; k++)
        if (wanted != NULL && strcmp(wanted, entries[k].name) == 0) run = entries[k].run;
    if (run == NULL) {
        fprintf(stderr, "FSTCRF_ENTRY names nothing that is here\n");
        exit(2);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const clock_t begun = clock();
    input_begin(bytes, size);
    run();
    input_end();
    must((double)(clock() - begun) <= 2.0 * (double)CLOCKS_PER_SEC, "it takes too long");
    return 0;
}

#ifdef FSTCRF_ALONE /* without libFuzzer: so many random inputs */
int main(int argc, char **argv) {
    LLVMFuzzerInitialize(&argc, &argv);
    const long runs = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
    uint64_t x = 88172645463325252u;
    for (long i = 0; i < runs; i++) {
        uint8_t bytes[160];
        for (size_t k = 0; k < sizeof bytes; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            /* potentials that are equal now and then, and few that are odd */
            bytes[k] = (uint8_t)((x >> 40) % 3 ? (x >> 50) % 224 : 104 + (x >> 50) % 3 * 8);
        }
        LLVMFuzzerTestOneInput(bytes, sizeof bytes);
    }
    printf("%ld inputs\n", runs);
    return 0;
}
#endif
