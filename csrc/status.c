/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of statuses, and the choice of the variant: by name, or the best that the processor supports.
 * Compiled once. */

#include <stddef.h>
#include <string.h>

#include "fstcrf.h"

int fc_target = 0; /* 0 base, 1 v3, 2 v4: the variant that dispatch.c calls */

static fc_status choose(int target) {
    fc_target = target;
    return FC_OK;
}

const char *fc_variant(void) {
    static const char *const names[] = {"base", "v3", "v4"};
    return names[fc_target];
}

fc_status fc_use(const char *name) {
    if (name == NULL) return FC_EINVAL;
    const int automatic = strcmp(name, "auto") == 0;
#ifdef FC_X86_64
    __builtin_cpu_init();
    if (automatic || strcmp(name, "v4") == 0) {
        if (__builtin_cpu_supports("x86-64-v4")) return choose(2);
        if (!automatic) return FC_ETARGET;
    }
    if (automatic || strcmp(name, "v3") == 0) {
        if (__builtin_cpu_supports("x86-64-v3")) return choose(1);
        if (!automatic) return FC_ETARGET;
    }
#endif
    return automatic || strcmp(name, "base") == 0 ? choose(0) : FC_ETARGET;
}

const char *fc_text(fc_status status) {
    switch (status) {
        case FC_OK: return "done";
        case FC_EINVAL: return "a size or index is outside what it may be";
        case FC_ENUMERIC: return "NaN or +inf where a potential is expected";
        case FC_ERANGE: return "a sentence cannot be represented in the linear domain";
        case FC_ETARGET: return "this machine or build lacks the kernel variant";
        case FC_EFULL: return "no room for another string";
        case FC_EROW: return "a line has other fields than it must have";
        case FC_EPAUSED: return "not yet done: call again";
        case FC_EPRODUCT: return "a search takes too long, and there is no product";
    }
    return "unknown status";
}
