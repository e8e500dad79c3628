/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts to text. A name is found by trial: the parameters of a candidate name
 * such as `#mma(...)`, `#blocked(...)` are read from the modes, and the name
 * fits if building it gives the same layout. layout_parse.c is the inverse.
 */
#include "ir/types/layout.h"

#include <string.h>

/* Orders of axes to try: the last axis fastest first. */
typedef struct orders {
    unsigned n;
    unsigned order[6][TC_MAX_RANK];
} orders;

static void add_order(orders *o, unsigned rank, const unsigned *order)
{
    memcpy(o->order[o->n++], order, rank * sizeof *order);
}

static orders orders_of(unsigned rank)
{
    static const unsigned two[][2] = {{1, 0}, {0, 1}};
    static const unsigned three[][3] = {{2, 1, 0}, {1, 2, 0}, {2, 0, 1},
                                        {0, 2, 1}, {1, 0, 2}, {0, 1, 2}};
    orders o = {0};
    unsigned last[TC_MAX_RANK];
    for (unsigned i = 0; i < rank; i++)
        last[i] = rank - 1 - i;
    if (rank == 2)
        for (int i = 0; i < 2; i++)
            add_order(&o, rank, two[i]);
    else if (rank == 3)
        for (int i = 0; i < 6; i++)
            add_order(&o, rank, three[i]);
    else
        add_order(&o, rank, last);
    return o;
}

static bool is_default_order(unsigned rank, const unsigned *order)
{
    for (unsigned i = 0; i < rank; i++)
        if (order[i] != rank - 1 - i)
            return false;
    return true;
}

static void put_order(tc_text *out, unsigned rank, const unsigned *order)
{
    tc_text_add(out, "order(");
    for (unsigned i = 0; i < rank; i++)
        tc_text_printf(out, "%s%u", i ? ", " : "", order[i]);
    tc_text_add(out, ")");
}

static void put_sides(tc_text *out, unsigned rank, const int32_t *sides)
{
    for (unsigned i = 0; i < rank; i++)
        tc_text_printf(out, "%s%d", i ? "x" : "", (int)sides[i]);
}

/* ---- Matrix fragments ---- */

static bool put_grid(tc_text *out, const char *name, int m, int n)
{
    tc_text_printf(out, "#%s(%dx%d)", name, m, n);
    return true;
}

/* `strict`: a grid that one would choose, without idle warps unless along a
 * side of 1. */
static bool put_mma(tc_text *out, const tc_layout *l, unsigned bits, int m,
                    int n, bool strict)
{
    tc_context *cx = l->cx;
    const int32_t *s = l->shape;
    bool operands = bits == 8 || bits == 16 || bits == 32;
    bool rows = !strict || s[0] == 1 || tc_layout_mma_fits(s[0], 8 * n, m, n);
    bool columns =
        !strict || s[1] == 1 || tc_layout_mma_fits(16 * m, s[1], m, n);
    if (rows && columns && tc_layout_mma_c(cx, s, m, n) == l)
        return put_grid(out, "mma", m, n);
    if (operands && rows && tc_layout_mma_a(cx, s, m, n, bits) == l)
        return put_grid(out, "mma_a", m, n);
    return operands && columns && tc_layout_mma_b(cx, s, m, n, bits) == l &&
           put_grid(out, "mma_b", m, n);
}

static bool put_wgmma(tc_text *out, const tc_layout *l, unsigned bits, int m,
                      int n)
{
    tc_context *cx = l->cx;
    bool operands = bits == 8 || bits == 16 || bits == 32;
    if (tc_layout_wgmma_c(cx, l->shape, m, n) == l)
        return put_grid(out, "wgmma", m, n);
    return operands && tc_layout_wgmma_a(cx, l->shape, m, n, bits) == l &&
           put_grid(out, "wgmma_a", m, n);
}

/* Lanes of a fragment count 1, 2, 4 along one axis last, or hold copies. */
static bool may_be_fragment(const tc_layout *l)
{
    if (l->rank != 2 || l->nmodes[TC_LANE] != 5)
        return false;
    const tc_mode *lanes = l->modes[TC_LANE];
    for (int i = 0; i < 3; i++)
        if (lanes[2 + i].count != 2 ||
            (lanes[2 + i].image[0] | lanes[2 + i].image[1]) & ~(1 << i))
            return false;
    return true;
}

static bool put_fragment(tc_text *out, const tc_layout *l, unsigned bits)
{
    int warps = (int)tc_layout_size(l, TC_WARP);
    if (!may_be_fragment(l))
        return false;
    for (int strict = 1; strict >= 0; strict--)
        for (int m = warps; m >= 1; m--)
            if (warps % m == 0 && put_mma(out, l, bits, m, warps / m, strict))
                return true;
    for (int m = warps / 4; m >= 1; m--)
        if (warps % (4 * m) == 0 && put_wgmma(out, l, bits, m, warps / 4 / m))
            return true;
    return false;
}

/* ---- Blocked ---- */

/* Parameters of a blocked layout. */
typedef struct blocks {
    int32_t per_thread[TC_MAX_RANK], lanes[TC_MAX_RANK], warps[TC_MAX_RANK];
    unsigned free_axes; /* bit set: all in registers */
} blocks;

/* The only axis of an image; rank: none, or more than one. */
static unsigned axis_of(const tc_layout *l, const tc_mode *m)
{
    unsigned axis = l->rank;
    for (unsigned a = 0; a < l->rank; a++)
        if (m->image[a]) {
            if (axis != l->rank)
                return l->rank;
            axis = a;
        }
    return axis;
}

/* Counts along each axis; broadcasts count on the slowest one. */
static void count_along(const tc_layout *l, tc_input in, unsigned slowest,
                        int32_t *counts, int32_t *least)
{
    for (unsigned a = 0; a < l->rank; a++)
        counts[a] = 1;
    for (unsigned i = 0; i < l->nmodes[in]; i++) {
        const tc_mode *m = &l->modes[in][i];
        unsigned axis = axis_of(l, m);
        counts[axis == l->rank ? slowest : axis] *= (int32_t)m->count;
        if (axis < l->rank && m->image[axis] < least[axis])
            least[axis] = m->image[axis];
    }
}

static blocks blocks_of(const tc_layout *l, const unsigned *order)
{
    blocks b = {.free_axes = 0};
    unsigned slowest = order[l->rank - 1];
    for (unsigned a = 0; a < l->rank; a++)
        b.per_thread[a] = INT32_MAX;
    count_along(l, TC_LANE, slowest, b.lanes, b.per_thread);
    count_along(l, TC_WARP, slowest, b.warps, b.per_thread);
    for (unsigned a = 0; a < l->rank; a++) {
        int32_t power = l->shape[a] & -l->shape[a];
        if (b.per_thread[a] >= power) {
            b.per_thread[a] = 1;
            b.free_axes |= power > 1 ? 1u << a : 0;
        }
    }
    return b;
}

static bool put_blocks(tc_text *out, const tc_layout *l, const blocks *b,
                       const unsigned *order)
{
    if (tc_layout_blocked(l->cx, l->rank, l->shape, b->per_thread, b->lanes,
                          b->warps, order) != l)
        return false;
    tc_text_add(out, "#blocked(");
    put_sides(out, l->rank, b->per_thread);
    tc_text_add(out, ", ");
    put_sides(out, l->rank, b->lanes);
    tc_text_add(out, ", ");
    put_sides(out, l->rank, b->warps);
    if (!is_default_order(l->rank, order)) {
        tc_text_add(out, ", ");
        put_order(out, l->rank, order);
    }
    tc_text_add(out, ")");
    return true;
}

static bool put_blocked(tc_text *out, const tc_layout *l)
{
    orders o = orders_of(l->rank);
    for (unsigned i = 0; l->rank && i < o.n; i++) {
        blocks b = blocks_of(l, o.order[i]);
        if (put_blocks(out, l, &b, o.order[i]))
            return true;
        /* Of an axis that is all in registers, is it the first in there? */
        for (unsigned a = 0; a < l->rank; a++)
            if (b.free_axes >> a & 1)
                b.per_thread[a] = l->shape[a] & -l->shape[a];
        if (b.free_axes && put_blocks(out, l, &b, o.order[i]))
            return true;
    }
    return false;
}

/* ---- Slices ---- */

/* The parent of a slice of rank 1 is searched among the layouts that reductions
 * meet; its other side is the least with the same slice. */
static const tc_layout *sliced_from(const tc_layout *l, unsigned axis,
                                    const tc_layout *parent)
{
    return tc_layout_slice(l->cx, parent, axis) == l ? parent : NULL;
}

static const tc_layout *fragment_parent(const tc_layout *l, unsigned axis)
{
    int warps = (int)tc_layout_size(l, TC_WARP);
    const tc_layout *found = NULL;
    int32_t shape[2] = {l->shape[0], l->shape[0]};
    if (l->nmodes[TC_LANE] != 5)
        return NULL;
    for (int m = warps; m >= 1 && !found; m--) {
        if (warps % m != 0)
            continue;
        shape[axis] = axis == 1 ? 8 * (warps / m) : 16 * m;
        found =
            sliced_from(l, axis, tc_layout_mma_c(l->cx, shape, m, warps / m));
    }
    for (int m = warps / 4; m >= 1 && !found; m--) {
        if (warps % (4 * m) != 0)
            continue;
        shape[axis] = axis == 1 ? 8 * (warps / 4 / m) : 64 * m;
        found = sliced_from(l, axis,
                            tc_layout_wgmma_c(l->cx, shape, m, warps / 4 / m));
    }
    return found;
}

static const tc_layout *blocked_parent(const tc_layout *l, unsigned axis)
{
    unsigned kept = 1 - axis;
    int32_t shape[2], lanes[2] = {1, 1}, warps[2] = {1, 1}, per[2] = {1, 1};
    const unsigned order[2][2] = {{1, 0}, {0, 1}};
    blocks b = blocks_of(l, (const unsigned[]){0});
    for (unsigned i = 0; i < l->nmodes[TC_LANE]; i++)
        lanes[axis_of(l, &l->modes[TC_LANE][i]) ? axis : kept] *=
            (int32_t)l->modes[TC_LANE][i].count;
    for (unsigned i = 0; i < l->nmodes[TC_WARP]; i++)
        warps[axis_of(l, &l->modes[TC_WARP][i]) ? axis : kept] *=
            (int32_t)l->modes[TC_WARP][i].count;
    shape[kept] = l->shape[0];
    shape[axis] = lanes[axis] * warps[axis];
    per[kept] = b.per_thread[0];
    for (int i = 0; i < 2; i++) {
        const tc_layout *parent =
            tc_layout_blocked(l->cx, 2, shape, per, lanes, warps, order[i]);
        if (sliced_from(l, axis, parent))
            return parent;
    }
    return NULL;
}

static bool put_slice(tc_text *out, const tc_layout *l, unsigned bits)
{
    const tc_layout *parent = NULL;
    unsigned axis = 0;
    for (int i = 0; l->rank == 1 && i < 4 && !parent; i++) {
        axis = i % 2 == 0;
        parent = i < 2 ? fragment_parent(l, axis) : blocked_parent(l, axis);
    }
    if (!parent)
        return false;
    tc_text_printf(out, "#slice(%u of %d, ", axis, (int)parent->shape[axis]);
    tc_layout_print(out, parent, bits);
    tc_text_add(out, ")");
    return true;
}

/* A column or row of something: an axis of side 1 that was put there. */
static bool put_expanded(tc_text *out, const tc_layout *l, unsigned bits)
{
    for (unsigned axis = l->rank; l->rank > 1 && axis-- > 0;) {
        if (l->shape[axis] != 1)
            continue;
        const tc_layout *inner = tc_layout_slice(l->cx, l, axis);
        if (tc_layout_expand(l->cx, inner, axis) != l)
            continue;
        tc_text_printf(out, "#expand(%u, ", axis);
        tc_layout_print(out, inner, bits);
        tc_text_add(out, ")");
        return true;
    }
    return false;
}

/* ---- Shared memory ---- */

static bool put_shared(tc_text *out, unsigned rank, const unsigned *order,
                       const char *name)
{
    tc_text_add(out, name);
    if (!is_default_order(rank, order)) {
        tc_text_add(out, "(");
        put_order(out, rank, order);
        tc_text_add(out, ")");
    }
    return true;
}

static bool put_swizzled(tc_text *out, const tc_layout *l, unsigned bits,
                         const unsigned *order)
{
    static const struct {
        unsigned swizzle;
        const char *name;
    } kinds[] = {{0, "#rows"},
                 {128, "#swizzle128"},
                 {64, "#swizzle64"},
                 {32, "#swizzle32"}};
    unsigned widest = tc_layout_widest_swizzle(l->shape[order[0]], bits);
    for (int i = 0; i < 4; i++)
        if (kinds[i].swizzle <= widest &&
            tc_layout_swizzled(l->cx, l->rank, l->shape, order, bits,
                               kinds[i].swizzle) == l)
            return put_shared(out, l->rank, order, kinds[i].name);
    return false;
}

static bool put_xor(tc_text *out, const tc_layout *l, const unsigned *order)
{
    unsigned vec = 0, per = 0, phases = 1;
    for (unsigned i = 0; l->rank > 1 && i < l->nmodes[TC_OFFSET]; i++) {
        const int32_t *image = l->modes[TC_OFFSET][i].image;
        if (!image[order[0]] || !image[order[1]])
            continue;
        if (phases == 1) {
            vec = (unsigned)image[order[0]];
            per = (unsigned)image[order[1]];
        }
        phases *= 2;
    }
    if (phases == 1 ||
        tc_layout_xor(l->cx, l->rank, l->shape, order, vec, per, phases) != l)
        return false;
    tc_text_printf(out, "#xor(%u, %u, %u", vec, per, phases);
    if (!is_default_order(l->rank, order)) {
        tc_text_add(out, ", ");
        put_order(out, l->rank, order);
    }
    tc_text_add(out, ")");
    return true;
}

static bool put_memory(tc_text *out, const tc_layout *l, unsigned bits)
{
    orders o = orders_of(l->rank);
    for (unsigned i = 0; l->rank && i < o.n; i++)
        if (put_swizzled(out, l, bits, o.order[i]) ||
            put_xor(out, l, o.order[i]))
            return true;
    return false;
}

/* ---- Bases ---- */

static void put_mode(tc_text *out, const tc_layout *l, const tc_mode *m)
{
    if (m->count != 2)
        tc_text_printf(out, "%u*", m->count);
    tc_text_add(out, "(");
    for (unsigned a = 0; a < l->rank; a++)
        tc_text_printf(out, "%s%d", a ? "," : "", (int)m->image[a]);
    tc_text_add(out, ")");
}

static void put_modes(tc_text *out, const tc_layout *l, tc_input in)
{
    static const char *const names[] = {"register", "lane", "warp", "offset"};
    tc_text_printf(out, "%s [", names[in]);
    for (unsigned i = 0; i < l->nmodes[in]; i++) {
        tc_text_add(out, i ? ", " : "");
        put_mode(out, l, &l->modes[in][i]);
    }
    tc_text_add(out, "]");
}

static void put_bases(tc_text *out, const tc_layout *l)
{
    tc_text_add(out, "#bases(");
    if (tc_layout_is_shared(l)) {
        put_modes(out, l, TC_OFFSET);
    } else {
        put_modes(out, l, TC_REGISTER);
        tc_text_add(out, ", ");
        put_modes(out, l, TC_LANE);
        tc_text_add(out, ", ");
        put_modes(out, l, TC_WARP);
    }
    tc_text_add(out, ")");
}

static bool put_named(tc_text *out, const tc_layout *l, unsigned bits)
{
    return tc_layout_is_shared(l)
               ? put_memory(out, l, bits)
               : put_fragment(out, l, bits) || put_blocked(out, l) ||
                     put_slice(out, l, bits) || put_expanded(out, l, bits);
}

/* ---- Orders ---- */

static bool put_reordered(tc_text *out, const tc_layout *l, unsigned axis,
                          const tc_bit_order *o, unsigned bits)
{
    tc_bit_order back = tc_bit_order_inverse(o);
    const tc_layout *plain = tc_layout_reorder(l->cx, l, axis, &back);
    tc_text name = {.arena = out->arena};
    if (!plain || plain == l || !put_named(&name, plain, bits))
        return false;
    tc_text_printf(out, "#reorder(%u,", axis);
    for (unsigned i = 0; i < o->n; i++)
        tc_text_printf(out, " %u", o->to[i]);
    tc_text_printf(out, ", %s)", name.data);
    return true;
}

/* The orders that tc_layout_find_order finds from accumulators to operands of
 * products of 8 and of 32 bits. */
static bool put_any_order(tc_text *out, const tc_layout *l, unsigned bits)
{
    static const tc_bit_order known[] = {{4, {0, 2, 3, 1}}, {3, {2, 0, 1}}};
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        for (unsigned axis = 0; axis < l->rank; axis++)
            if (put_reordered(out, l, axis, &known[i], bits))
                return true;
    return false;
}

void tc_layout_print(tc_text *out, const tc_layout *l, unsigned bits)
{
    if (!put_named(out, l, bits) && !put_any_order(out, l, bits))
        put_bases(out, l);
}
