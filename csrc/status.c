/* SPDX-License-Identifier: Apache-2.0
 *
 * Statuses in words. */

#include "fstcrf.h"

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
    }
    return "unknown status";
}
