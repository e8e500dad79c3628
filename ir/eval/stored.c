/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/eval/stored.h"

#include "ir/eval/eval.h"

#include <math.h>

/* NaN, or a power of two from 2^-127 to 2^127. */
static bool code_of_e8m0(double x, int64_t *code)
{
    int exponent;
    if (isnan(x)) {
        *code = -1;
        return true;
    }
    if (!(x > 0) || isinf(x) || frexp(x, &exponent) != 0.5)
        return false;
    *code = tc_int_wrap(TC_I8, exponent - 1 + 127);
    return exponent >= -126 && exponent <= 128;
}

static bool code_of_e2m1(double x, int64_t *code)
{
    static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (int i = 0; i < 8; i++)
        if (fabs(x) == magnitudes[i]) {
            *code = i | (signbit(x) ? 8 : 0);
            return true;
        }
    return false;
}

bool tc_stored_code(tc_kind kind, tc_number n, int64_t *code)
{
    double x = n.is_float ? n.f : (double)n.i;
    if (kind == TC_F8E8M0)
        return code_of_e8m0(x, code);
    if (kind == TC_F4E2M1)
        return code_of_e2m1(x, code);
    int64_t low = kind == TC_I4 ? -8 : 0;
    int64_t count = (int64_t)1 << tc_scalar_infos[kind].bits;
    *code = tc_int_wrap(tc_scalar_infos[kind].code, n.i);
    return !n.is_float && n.i >= low && n.i < low + count;
}

int8_t tc_stored_twice(int64_t code)
{
    return (int8_t)(uint8_t)((code & 15) * 17);
}
