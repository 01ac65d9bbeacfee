/* SPDX-License-Identifier: Apache-2.0
 *
 * Which variant of the hot files runs: chosen by name, or the best that the processor has. Compiled
 * once, as are all entry points. */

#include <stddef.h>
#include <string.h>

#include "entry.h"

extern const fc_table fc_table_base;
#ifdef FC_X86_64
extern const fc_table fc_table_v3, fc_table_v4;
#endif

static const fc_table *table = &fc_table_base;
static const char *variant = "base";

const fc_table *dispatch_table(void) { return table; }

const char *fc_variant(void) { return variant; }

static fc_status choose(const fc_table *chosen, const char *name) {
    table = chosen;
    variant = name;
    return FC_OK;
}

fc_status fc_use(const char *name) {
    if (name == NULL) return FC_EINVAL;
    const int automatic = strcmp(name, "auto") == 0;
#ifdef FC_X86_64
    __builtin_cpu_init();
    if (automatic || strcmp(name, "v4") == 0) {
        if (__builtin_cpu_supports("x86-64-v4")) return choose(&fc_table_v4, "v4");
        if (!automatic) return FC_ETARGET;
    }
    if (automatic || strcmp(name, "v3") == 0) {
        if (__builtin_cpu_supports("x86-64-v3")) return choose(&fc_table_v3, "v3");
        if (!automatic) return FC_ETARGET;
    }
#endif
    if (automatic || strcmp(name, "base") == 0) return choose(&fc_table_base, "base");
    return FC_ETARGET;
}
