/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/types/layout_linear.h"

#include <assert.h>
#include <string.h>

void tc_linear_put(tc_linear *r, tc_input in, uint32_t count, uint64_t flips,
                   const int32_t add[TC_MAX_RANK])
{
    tc_mode m = {.count = count};
    for (unsigned i = 0; i < r->ndigits; i++) {
        if (!(flips >> i & 1))
            continue;
        /* Digit after digit of a repeat would have to be flipped. */
        r->fails |= count > 2;
        r->digits[i].users++;
        for (unsigned a = 0; a < r->spec.rank; a++) {
            int32_t v = r->digits[i].value[a], low = r->xored[a] - 1;
            m.image[a] = ((m.image[a] ^ v) & low) | (m.image[a] & ~low);
            m.image[a] += v & ~low;
        }
    }
    r->fails |= r->nadded == TC_MAX_DIGITS;
    if (r->fails)
        return;
    for (unsigned a = 0; a < r->spec.rank; a++) {
        r->added[r->nadded][a] = add[a];
        r->fails |= (add[a] & (r->xored[a] - 1)) != 0;
        m.image[a] += add[a];
    }
    r->nadded++;
    tc_layout_spec_add_mode(&r->spec, in, &m);
}

/* Is `bits` of a value in none of the values before it? */
static bool is_new(int32_t value, int32_t bits, int32_t *seen)
{
    bool disjoint = !(value & bits & *seen);
    *seen |= value & bits;
    return disjoint;
}

/* g xors below `xored`, the result below its period: in between, no two values
 * may share a bit, for then xor and sum are the same. */
static bool axis_is_linear(const tc_linear *r, unsigned axis, int32_t period)
{
    int32_t xored = r->xored[axis], seen = 0;
    int32_t between = (period - 1) ^ (xored - 1);
    for (unsigned i = 0; i < r->ndigits; i++) {
        const tc_digit *d = &r->digits[i];
        if (d->users > 1 && d->value[axis] >= period)
            return false;
        if (d->users && !is_new(d->value[axis], between, &seen))
            return false;
    }
    for (unsigned i = 0; i < r->nadded && xored < period; i++)
        if (!is_new(r->added[i][axis], between, &seen))
            return false;
    return true;
}

const tc_layout *tc_linear_end(tc_linear *r, tc_context *cx)
{
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        r->fails |= r->spec.nmodes[in] > TC_MAX_MODES;
    if (r->fails)
        return NULL;
    const tc_layout *l = tc_layout_get(cx, &r->spec);
    for (unsigned a = 0; a < l->rank; a++)
        if (!axis_is_linear(r, a, l->period[a]))
            return NULL;
    return l;
}

/* ---- Coordinates taken apart ---- */

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

tc_split tc_split_of(const tc_layout *a, const tc_layout *b)
{
    assert(a->rank == b->rank);
    tc_split s = {.rank = a->rank};
    unsigned shift = 0;
    for (unsigned i = 0; i < a->rank; i++) {
        s.period[i] = smaller(a->period[i], b->period[i]);
        s.shift[i] = shift;
        shift += (unsigned)__builtin_ctz((unsigned)s.period[i]);
    }
    assert(shift <= 31);
    return s;
}

uint32_t tc_split_low(const tc_split *s, const int32_t *image)
{
    uint32_t low = 0;
    for (unsigned a = 0; a < s->rank; a++)
        low |= (uint32_t)(image[a] & (s->period[a] - 1)) << s->shift[a];
    return low;
}

int32_t tc_split_high(const tc_split *s, const int32_t *image, unsigned axis)
{
    return image[axis] & ~(s->period[axis] - 1);
}

bool tc_split_is_low(const tc_split *s, const int32_t *image)
{
    for (unsigned a = 0; a < s->rank; a++)
        if (tc_split_high(s, image, a))
            return false;
    return true;
}

bool tc_split_suits(const tc_split *s, const tc_layout *l)
{
    for (unsigned a = 0; a < s->rank; a++) {
        int32_t between = l->period[a] - s->period[a], seen = 0;
        for (int in = 0; in < TC_INPUT_COUNT; in++)
            for (unsigned i = 0; i < l->nmodes[in]; i++)
                if (!is_new(l->modes[in][i].image[a], between, &seen))
                    return false;
    }
    return true;
}
