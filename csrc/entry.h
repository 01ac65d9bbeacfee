/* SPDX-License-Identifier: Apache-2.0
 *
 * What the entry points share. Each of them (entry_*.c) checks what it is given, then calls the hot
 * function of the variant in use. */
#ifndef FSTCRF_ENTRY_H
#define FSTCRF_ENTRY_H

#include "checks.h"
#include "target.h"

/* The hot functions of the variant in use. */
const fc_table *dispatch_table(void);

static inline int domain_known(fc_domain domain) {
    return domain == FC_AUTO || domain == FC_LINEAR || domain == FC_LOG;
}

/* Sentences, slots and their order, for whatever learns one sentence at a time. */
fc_status check_learner(const fc_graph *graph, const fc_batch *batch, const fc_learner *learner,
                        int64_t n_order, const int64_t *order, int64_t *where);

#endif
