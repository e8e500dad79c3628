/* SPDX-License-Identifier: Apache-2.0
 *
 * How a tile gets from one distributed layout to another, and through which
 * shared memory when it has to.
 */
#include "ir/layout.h"

#include <string.h>

/* ---- Which kind ---- */

/* `x` is tc_layout_solve's: do the modes of an input stay what they are, with
 * nothing of the other coordinates in `and_not` and in no other input? */
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

/* Does every thread take the same registers? */
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

/* ---- Scratch memory ---- */

/* Turns of the banks that all accesses of a warp take; 0: not expressible. */
static uint64_t turns(tc_context *cx, const tc_layout *shared,
                      const tc_layout *tile, unsigned bits)
{
    const tc_layout *offsets = tc_layout_offsets(cx, shared, tile);
    if (!offsets)
        return 0;
    tc_access a = tc_layout_access(offsets, bits);
    uint64_t bytes = (uint64_t)a.vector * (bits < 8 ? 8 : bits) / 8;
    uint64_t phases = bytes > 4 ? bytes / 4 : 1;
    return tc_layout_size(tile, TC_REGISTER) / a.vector * phases * a.ways;
}

typedef struct search {
    tc_context *cx;
    const tc_layout *from, *to, *best;
    unsigned bits;
    uint64_t least, goal;
} search;

/* True: nothing can be better. Of equal ones the first is kept. */
static bool try(search *s, const tc_layout *shared)
{
    uint64_t store = turns(s->cx, shared, s->from, s->bits);
    uint64_t load = turns(s->cx, shared, s->to, s->bits);
    if (store && load && (!s->best || store + load < s->least)) {
        s->best = shared;
        s->least = store + load;
    }
    return s->best && s->least <= s->goal;
}

/* Every bank busy in every turn. */
static uint64_t fewest_turns(const tc_layout *tile, unsigned bits)
{
    uint64_t bytes =
        (uint64_t)tc_layout_size(tile, TC_REGISTER) * (bits < 8 ? 8 : bits) / 8;
    return (bytes + 3) / 4;
}

static bool try_xors(search *s, const unsigned *order)
{
    const tc_layout *l = s->from;
    unsigned widest = s->bits >= 128 ? 1 : 128 / (s->bits < 8 ? 8 : s->bits);
    for (unsigned per = 1; per <= 4; per *= 2)
        for (unsigned vec = widest; vec >= 1; vec /= 2)
            for (unsigned phases = 32; phases >= 2; phases /= 2)
                if (try(s, tc_layout_xor(s->cx, l->rank, l->shape, order, vec,
                                         per, phases)))
                    return true;
    return false;
}

static bool try_order(search *s, const unsigned *order)
{
    const tc_layout *l = s->from;
    unsigned bits = s->bits < 8 ? 8 : s->bits;
    unsigned widest = tc_layout_widest_swizzle(l->shape[order[0]], bits);
    if (try(s, tc_layout_swizzled(s->cx, l->rank, l->shape, order, bits, 0)))
        return true;
    for (unsigned swizzle = widest; swizzle >= 32; swizzle /= 2)
        if (try(s, tc_layout_swizzled(s->cx, l->rank, l->shape, order, bits,
                                      swizzle)))
            return true;
    return l->rank > 1 && try_xors(s, order);
}

const tc_layout *tc_layout_scratch(tc_context *cx, const tc_layout *from,
                                   const tc_layout *to, unsigned bits)
{
    search s = {.cx = cx, .from = from, .to = to, .bits = bits};
    s.goal = fewest_turns(from, bits) + fewest_turns(to, bits);
    unsigned rank = from->rank, order[TC_MAX_RANK];
    /* Each axis as the fastest, the last one first. */
    for (unsigned fastest = rank; fastest-- > 0;) {
        unsigned n = 0;
        order[n++] = fastest;
        for (unsigned a = rank; a-- > 0;)
            if (a != fastest)
                order[n++] = a;
        if (try_order(&s, order))
            break;
    }
    return s.best;
}
