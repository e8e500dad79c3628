/* SPDX-License-Identifier: Apache-2.0
 *
 * A layout with the coordinates along an axis in another order.
 *
 *                                          lane 0           lane 1
 *   mma_c, columns of a thread in 16       0 1 8 9          2 3 10 11
 *   reorder(1, 0 2 3 1), bit 1 is bit 2    0 1 2 3          4 5 6 7
 *
 * That is the order in which operand A of 8 bits holds 16 columns: a product's
 * result can be the next one's operand unchanged, if the rows of the operand
 * that makes its columns lie in that order in shared memory. An order only
 * moves bits below the period, so that digits stay digits.
 */
#include "ir/types/layout.h"

static int32_t reordered(const tc_bit_order *o, int32_t x)
{
    int32_t low = (1 << o->n) - 1, y = x & ~low;
    for (unsigned i = 0; i < o->n; i++)
        y |= (x >> i & 1) << o->to[i];
    return y;
}

tc_bit_order tc_bit_order_inverse(const tc_bit_order *o)
{
    tc_bit_order back = {.n = o->n};
    for (unsigned i = 0; i < o->n; i++)
        back.to[o->to[i]] = (uint8_t)i;
    return back;
}

const tc_layout *tc_layout_reorder(tc_context *cx, const tc_layout *l,
                                   unsigned axis, const tc_bit_order *o)
{
    tc_layout_spec s;
    if (l->period[axis] % (1 << o->n))
        return NULL;
    tc_layout_spec_of(l, &s);
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < s.nmodes[in]; i++) {
            int32_t *image = &s.modes[in][i].image[axis];
            *image = reordered(o, *image);
        }
    return tc_layout_get(cx, &s);
}

/* ---- Which order ---- */

enum { NOT_YET = TC_MAX_ORDER_BITS };

/* Where bits go to, as far as is known. */
typedef struct finding {
    unsigned to[TC_MAX_ORDER_BITS], from[TC_MAX_ORDER_BITS];
} finding;

static finding begin_finding(void)
{
    finding f;
    for (unsigned i = 0; i < TC_MAX_ORDER_BITS; i++)
        f.to[i] = f.from[i] = NOT_YET;
    return f;
}

static bool is_bit(int32_t x)
{
    return x > 0 && x < 1 << TC_MAX_ORDER_BITS && !(x & (x - 1));
}

/* The image of a mode has to become another. */
static bool learn(finding *f, int32_t from, int32_t to)
{
    if (!is_bit(from) || !is_bit(to))
        return from == to;
    unsigned i = (unsigned)__builtin_ctz((unsigned)from);
    unsigned k = (unsigned)__builtin_ctz((unsigned)to);
    bool known = f->to[i] == k && f->from[k] == i;
    bool fits = f->to[i] == NOT_YET && f->from[k] == NOT_YET;
    f->to[i] = k;
    f->from[k] = i;
    return known || fits;
}

/* Bits of which nothing is known take what is left, in turn; then bits that
 * stay are left out at the top. */
static tc_bit_order end_finding(finding *f)
{
    tc_bit_order o = {.n = TC_MAX_ORDER_BITS};
    unsigned next = 0;
    for (unsigned i = 0; i < TC_MAX_ORDER_BITS; i++) {
        while (next < TC_MAX_ORDER_BITS && f->from[next] != NOT_YET)
            next++;
        o.to[i] = (uint8_t)(f->to[i] == NOT_YET ? next++ : f->to[i]);
    }
    while (o.n && o.to[o.n - 1] == o.n - 1)
        o.n--;
    return o;
}

static bool same_modes(const tc_layout *a, const tc_layout *b, tc_input in)
{
    bool same = a->nmodes[in] == b->nmodes[in];
    for (unsigned i = 0; same && i < a->nmodes[in]; i++)
        same = a->modes[in][i].count == b->modes[in][i].count;
    return same;
}

static bool learn_modes(finding *f, const tc_layout *a, const tc_layout *b,
                        tc_input in, unsigned axis)
{
    bool fits = same_modes(a, b, in);
    for (unsigned i = 0; fits && i < a->nmodes[in]; i++)
        fits =
            learn(f, a->modes[in][i].image[axis], b->modes[in][i].image[axis]);
    return fits;
}

bool tc_layout_order_of(const tc_layout *plain, const tc_layout *l,
                        unsigned axis, tc_bit_order *out)
{
    finding f = begin_finding();
    if (plain->rank != l->rank)
        return false;
    for (tc_input in = TC_REGISTER; in < TC_INPUT_COUNT; in++)
        if (!learn_modes(&f, plain, l, in, axis))
            return false;
    *out = end_finding(&f);
    return tc_layout_reorder(l->cx, plain, axis, out) == l;
}

bool tc_layout_find_order(const tc_layout *from, const tc_layout *to,
                          unsigned axis, tc_bit_order *out)
{
    finding f = begin_finding();
    for (tc_input in = TC_LANE; in <= TC_WARP; in++)
        if (!learn_modes(&f, from, to, in, axis))
            return false;
    *out = end_finding(&f);
    const tc_layout *l = tc_layout_reorder(from->cx, from, axis, out);
    return l && tc_layout_conversion(from->cx, l, to) <= TC_CONVERT_REGISTERS;
}
