/* SPDX-License-Identifier: Apache-2.0
 *
 * Which digits of registers, lanes and warps count the elements along an axis:
 * a scan goes through them from the lowest to the highest.
 *
 *   #blocked(4, 32, 8) of 2048:  register 0..3, lane 0..31, warp 0..7,
 *                                register 0..1
 *   for a scan:                  register 0..3, lane 0..31, register 0..1,
 *                                warp 0..7
 *
 * With the warps on top each warp holds one piece of the axis, and warps only
 * exchange the totals of their pieces.
 */
#include "ir/types/layout.h"

static bool is_along_only(const tc_layout *l, const tc_mode *m, unsigned axis)
{
    for (unsigned a = 0; a < l->rank; a++)
        if (a != axis && m->image[a])
            return false;
    return true;
}

/* By stride. */
static void insert_digit(tc_axis_digit *digits, unsigned n, tc_axis_digit d)
{
    for (; n > 0 && digits[n - 1].stride > d.stride; n--)
        digits[n] = digits[n - 1];
    digits[n] = d;
}

bool tc_layout_axis_digits(const tc_layout *l, unsigned axis,
                           tc_axis_digits *out)
{
    out->n = 0;
    for (int in = TC_REGISTER; in <= TC_WARP; in++)
        for (unsigned i = 0; i < l->nmodes[in]; i++) {
            const tc_mode *m = &l->modes[in][i];
            if (!m->image[axis])
                continue;
            if (!is_along_only(l, m, axis) || out->n == TC_MAX_AXIS_DIGITS)
                return false;
            tc_axis_digit d = {(tc_input)in, i, m->count, m->image[axis]};
            insert_digit(out->all, out->n++, d);
        }
    int32_t stride = 1;
    for (unsigned i = 0; i < out->n; i++) {
        if (out->all[i].stride != stride)
            return false;
        stride *= (int32_t)out->all[i].count;
    }
    return stride == l->shape[axis];
}

bool tc_layout_can_scan(const tc_layout *l, unsigned axis)
{
    tc_axis_digits d;
    if (!tc_layout_axis_digits(l, axis, &d))
        return false;
    for (unsigned i = 1; i < d.n; i++)
        if (d.all[i - 1].in == TC_WARP && d.all[i].in != TC_WARP)
            return false;
    return true;
}

const tc_layout *tc_layout_for_scan(tc_context *cx, const tc_layout *l,
                                    unsigned axis)
{
    tc_axis_digits d;
    if (!tc_layout_axis_digits(l, axis, &d))
        return NULL;
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    int32_t stride = 1;
    for (unsigned warps = 0; warps < 2; warps++)
        for (unsigned i = 0; i < d.n; i++) {
            const tc_axis_digit *digit = &d.all[i];
            if ((digit->in == TC_WARP) != warps)
                continue;
            s.modes[digit->in][digit->mode].image[axis] = stride;
            stride *= (int32_t)digit->count;
        }
    return tc_layout_check(cx, &s) ? NULL : tc_layout_get(cx, &s);
}
