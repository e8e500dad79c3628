/* SPDX-License-Identifier: Apache-2.0
 *
 * How a tile is converted from one distributed layout to another. The memory
 * that it may need for that is in layout_scratch.c.
 */
#include "ir/types/layout.h"

/* `x` is tc_layout_solve's: is every digit of an input of `to` the same digit
 * of that input of `from`, which depends on nothing else? */
static bool stays(const tc_layout *x, const tc_layout *to, tc_input in)
{
    int32_t stride = 1;
    for (unsigned i = 0; i < to->nmodes[in]; i++) {
        if (x->modes[in][i].image[in] != stride)
            return false;
        stride *= (int32_t)to->modes[in][i].count;
    }
    for (tc_input other = TC_REGISTER; other <= TC_WARP; other++)
        for (unsigned i = 0; other != in && i < to->nmodes[other]; i++)
            if (x->modes[other][i].image[in])
                return false;
    return stride == x->shape[in];
}

/* In how many bits (digits) the register to take depends on lane and warp. */
static unsigned register_choices(const tc_layout *x)
{
    uint32_t basis[32] = {0};
    unsigned n = 0;
    for (tc_input in = TC_LANE; in <= TC_WARP; in++)
        for (unsigned i = 0; i < x->nmodes[in]; i++) {
            uint32_t v = (uint32_t)x->modes[in][i].image[TC_REGISTER];
            while (v && basis[__builtin_clz(v)])
                v ^= basis[__builtin_clz(v)];
            if (v) {
                basis[__builtin_clz(v)] = v;
                n += x->modes[in][i].count - 1;
            }
        }
    return n;
}

tc_conversion tc_layout_conversion(tc_context *cx, const tc_layout *from,
                                   const tc_layout *to)
{
    if (from == to)
        return TC_CONVERT_NOTHING;
    const tc_layout *x = tc_layout_solve(cx, from, to);
    if (!x || !stays(x, to, TC_WARP))
        return TC_CONVERT_SHARED;
    unsigned choices = register_choices(x);
    if (choices == 0 && stays(x, to, TC_LANE))
        return stays(x, to, TC_REGISTER) ? TC_CONVERT_NOTHING
                                         : TC_CONVERT_REGISTERS;
    /* A shuffle for each register that a lane may need: beyond two, shared
     * memory is cheaper. */
    return choices < 2 ? TC_CONVERT_SHUFFLES : TC_CONVERT_SHARED;
}
