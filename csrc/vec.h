/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops that a compiler vectorises on every target: branch-free bodies over restrict rows, widths
 * that are multiples of FC_LANES, exp without libm. */
#ifndef FSTCRF_VEC_H
#define FSTCRF_VEC_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define FC_LANES 8 /* doubles in the widest vector register; rows are padded to a multiple */
#define FC_APART static __attribute__((noinline))
#define FC_INLINE static inline __attribute__((always_inline))

/* Checks an invariant, in builds with the option FSTCRF_ASSERT. */
#ifdef FC_ASSERTS
#include <assert.h>
#define FC_ASSERT(x) assert(x)
#else
#define FC_ASSERT(x) ((void)0)
#endif

/* Tokens after which backward rows in float32 are renormalised. Their products with the forward rows
 * sum to one up to rounding errors, which have the same sign at each of a run of similar tokens. */
#define FC_EVEN 8

#define FC_NEVER ((double)-INFINITY) /* the score of a forbidden label or arc */

FC_INLINE int64_t fc_padded(int64_t n) { return (n + FC_LANES - 1) / FC_LANES * FC_LANES; }

FC_INLINE void fc_swap(double **x, double **y) {
    double *const was = *x;
    *x = *y;
    *y = was;
}

/* 2^n of the integer n in the low bits of `shifted`, which a shift by 52 makes an exponent. */
FC_INLINE double fc_power_of_two(double shifted) {
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 52) + ((uint64_t)1023 << 52);
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* The series of exp(r) from r^6 on, p the higher terms: for double, and for float. */
#define END_OF_EXP(real, p, r)   \
    p = p * r + (real)1.0 / 720; \
    p = p * r + (real)1.0 / 120; \
    p = p * r + (real)1.0 / 24;  \
    p = p * r + (real)1.0 / 6;   \
    p = p * r + (real)0.5;       \
    p = p * r + (real)1.0;       \
    p = p * r + (real)1.0

/* exp(x) for x <= 709, to 3e-16 relative; 0 below -708, hence exp(-inf) = 0.
 *
 *   n = round(x / ln 2), r = x - n ln 2 in two parts (Cody and Waite), |r| <= 0.3466
 *   exp(x) = 2^n * sum_{k <= 13} r^k / k!          (remainder 4e-18)
 *
 * Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits. */
FC_INLINE double fc_exp(double x) {
    const double magic = 6755399441055744.0;
    const double c = x < -708.0 ? -708.0 : x;
    const double shifted = c * 1.4426950408889634074 + magic;
    const double n = shifted - magic;
    const double r = (c - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    END_OF_EXP(double, p, r);
    const double y = p * fc_power_of_two(shifted);
    return x < -708.0 ? 0.0 : y;
}

/* log(x) for normal x > 0, to 4e-16 of the larger of |log x| and 1; NaN of NaN and of infinity.
 *
 *   x = 2^n * m, m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1)
 *   log(m) = 2 * sum_{k <= 10} s^(2k + 1) / (2k + 1)        (remainder 2e-18) */
FC_INLINE double fc_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t shifted = bits - 0x3fe6a09e667f3bcdULL; /* sqrt(1/2) */
    const uint64_t power = (shifted >> 52) ^ 0x800;        /* n + 2048: never negative */
    const uint64_t wide = 0x4330000000000000ULL | power;
    double n, m;
    memcpy(&n, &wide, sizeof n);
    n -= 4503599627370496.0 + 2048.0;
    bits -= shifted & 0xfff0000000000000ULL;
    memcpy(&m, &bits, sizeof m);
    const double s = (m - 1.0) / (m + 1.0), t = s * s;
    double p = 1.0 / 21.0;
    p = p * t + 1.0 / 19.0;
    p = p * t + 1.0 / 17.0;
    p = p * t + 1.0 / 15.0;
    p = p * t + 1.0 / 13.0;
    p = p * t + 1.0 / 11.0;
    p = p * t + 1.0 / 9.0;
    p = p * t + 1.0 / 7.0;
    p = p * t + 1.0 / 5.0;
    p = p * t + 1.0 / 3.0;
    const double low = n * 1.90821492927058770002e-10 + 2.0 * s * t * p;
    return n * 6.93147180369123816490e-01 + (2.0 * s + low) + (x - x);
}

/* The largest of n scores, -inf for none. */
static inline double fc_largest(int64_t n, const double *x) {
    double top = FC_NEVER;
    for (int64_t i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

static inline double finite_or_zero(double x) { return x > FC_NEVER ? x : 0.0; }

/* The larger one; NaN where either is: a maximum that drops it would hide it. */
FC_INLINE double fc_larger(double a, double b) { return a > b || isnan(a) ? a : b; }

/* The largest of FC_LANES numbers, with a short chain of dependent steps. */
FC_INLINE double fc_largest_lane(const double *x) {
    double four[4];
    for (int l = 0; l < 4; l++) four[l] = x[l] > x[l + 4] ? x[l] : x[l + 4];
    const double a = four[0] > four[2] ? four[0] : four[2];
    const double b = four[1] > four[3] ? four[1] : four[3];
    return a > b ? a : b;
}

/* max_j x[j], lane by lane first: a scalar reduction would not be vectorised. */
FC_INLINE double fc_max(int64_t P, const double *restrict x) {
    double lane[FC_LANES];
    for (int l = 0; l < FC_LANES; l++) lane[l] = x[l];
    for (int64_t j = FC_LANES; j < P; j += FC_LANES)
        for (int l = 0; l < FC_LANES; l++) lane[l] = x[j + l] > lane[l] ? x[j + l] : lane[l];
    return fc_largest_lane(lane);
}

FC_INLINE double fc_sum(int64_t P, const double *restrict x) {
    double lane[FC_LANES] = {0};
    for (int64_t j = 0; j < P; j += FC_LANES)
        for (int l = 0; l < FC_LANES; l++) lane[l] += x[j + l];
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

FC_INLINE double fc_dot(int64_t P, const double *restrict x, const double *restrict y) {
    double lane[FC_LANES] = {0};
    for (int64_t j = 0; j < P; j += FC_LANES)
        for (int l = 0; l < FC_LANES; l++) lane[l] += x[j + l] * y[j + l];
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

/* x *= c */
FC_INLINE void fc_scale(int64_t P, double c, double *restrict x) {
    for (int64_t j = 0; j < P; j++) x[j] *= c;
}

/* y += x * c */
FC_INLINE void fc_axpy(int64_t P, double c, const double *restrict x, double *restrict y) {
    for (int64_t j = 0; j < P; j++) y[j] += x[j] * c;
}

FC_INLINE void fc_fill(int64_t P, double c, double *restrict y) {
    for (int64_t j = 0; j < P; j++) y[j] = c;
}

/* A sum and its rounding errors: exact to an ulp for any number of additions. */
typedef struct {
    double sum, lost;
} fc_total;

/* Knuth's two-sum. The code has no product that a compiler could fuse, and our flags do not let it
 * reorder additions. Infinity or NaN stays in `sum` and makes `lost` a NaN. */
FC_INLINE void fc_add(fc_total *total, double x) {
    const double sum = total->sum + x, added = sum - total->sum;
    total->lost += (total->sum - (sum - added)) + (x - added);
    total->sum = sum;
}

FC_INLINE double fc_value(fc_total total) {
    return isfinite(total.sum) ? total.sum + total.lost : total.sum;
}

/* Rounding error of sum = x + y. Dekker's form for either order: a chain of two additions, where
 * Knuth's has four, in recursions whose steps depend on each other. */
FC_INLINE double fc_rounded(double x, double y, double sum) {
    const double of_x = x - (sum - y), of_y = y - (sum - x);
    return fabs(x) < fabs(y) ? of_x : of_y;
}

/* Numbers from here on are even integers: their rounding errors are no longer below 1. */
#define FC_COARSE 9007199254740992.0 /* 2^53 */

/* score + suffix + lost - top, where `lost` is the rounding error of suffix; -inf if score or suffix
 * is. The rounding error of score + suffix is included, whichever of the two is larger. For coarse sums
 * it is not: a best path rounds them in the same way, so log Z is never below its score, and the
 * remaining difference is the log of a number of paths. */
FC_INLINE double fc_plus(double score, double suffix, double lost, double top) {
    const double value = score + suffix, rounded = fc_rounded(score, suffix, value);
    const double exact = lost + (fabs(value) < FC_COARSE ? rounded : 0.0);
    return value > FC_NEVER ? value - top + exact : FC_NEVER;
}

/* best + rest, and its rounding error; -inf if `best` is. */
FC_INLINE void fc_keep(double best, double rest, double *sum, double *lost) {
    *sum = best + rest;
    *lost = best > FC_NEVER ? fc_rounded(best, rest, *sum) : 0.0;
}

/* While the rounding error is at most this, sums of exponentials whose largest term is about 1 need no
 * new shift. Beyond it, terms may exceed the range of fc_exp, or all vanish: then their largest log is
 * found and subtracted. */
#define FC_MOST_LOST 0.25

/* Runs body(V) over n vectors in groups of up to 8, V a constant; `at` is the first of the group. */
#define IN_GROUPS(n, at, body)                  \
    do {                                        \
        int64_t at = 0;                         \
        for (; at + 8 <= (n); at += 8) body(8); \
        switch ((n) - at) {                     \
            case 7: body(7); break;             \
            case 6: body(6); break;             \
            case 5: body(5); break;             \
            case 4: body(4); break;             \
            case 3: body(3); break;             \
            case 2: body(2); break;             \
            case 1: body(1); break;             \
            default: break;                     \
        }                                       \
    } while (0)

/* exp(x) for x <= 88, to 2e-7 relative; 0 below -87. As fc_exp, with fewer terms. */
FC_INLINE float expf_fast(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23 */
    const float c = x < -87.0f ? -87.0f : x;
    const float shifted = c * 1.44269504f + magic;
    const float n = shifted - magic;
    const float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    END_OF_EXP(float, p, r);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + ((uint32_t)127 << 23);
    float power;
    memcpy(&power, &bits, sizeof power);
    const float y = p * power;
    return x < -87.0f ? 0.0f : y;
}

#endif
