/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's contract, one file for each topic. contract.py joins them, in this order, for cffi. */
#ifndef FSTCRF_H
#define FSTCRF_H

#include <stdint.h>

#ifdef FC_TARGET /* base, v3 or v4: the source is compiled for several instruction sets */
#define FC_JOIN2(a, b) a##_##b
#define FC_JOIN(a, b) FC_JOIN2(a, b)
#define FC_NAME(name) FC_JOIN(name, FC_TARGET)
#include "variant.h" /* made by contract.py: #define fc_inner FC_NAME(fc_inner) ... */
#endif

#include "api/status.api.h"
#include "api/machines.api.h"
#include "api/blocks.api.h"
#include "api/segments.api.h"
#include "api/words.api.h"
#include "api/search.api.h"
#include "api/acyclic.api.h"
#include "api/paired.api.h"
#include "api/transduce.api.h"
#include "api/compose.api.h"
#include "api/semimarkov.api.h"
#include "api/counting.api.h"
#include "api/emissions.api.h"
#include "api/rows.api.h"
#include "api/attributes.api.h"
#include "api/phrases.api.h"
#include "api/strings.api.h"
#include "api/sweep.api.h"
#include "api/stochastic.api.h"
#include "api/vectors.api.h"
#include "api/learning.api.h"
#include "api/feedback.api.h"
#include "api/documents.api.h"

#ifdef __FAST_MATH__
#error "-ffast-math breaks exp, -inf and NaN: build without it"
#endif

#endif
