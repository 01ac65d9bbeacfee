/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSTCRF_H
#define FSTCRF_H

#include <stdint.h>

#include "fstcrf.api.h"

#ifdef __FAST_MATH__
#error "-ffast-math breaks exp, -inf and NaN: build without it"
#endif

#endif
