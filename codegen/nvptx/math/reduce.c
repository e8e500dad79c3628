/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions within a thread and a warp.
 *
 *   1  A thread combines the registers that differ along the axis alone,
 *      pairwise, so that sums round little and steps don't wait for another.
 *   2  Lanes whose bits lie in the axis exchange what they have (shfl.bfly), a
 *      bit at a time; then all of them have the result. Of i1 the whole warp
 * may vote.
 *
 * Warps must not lie in the axis, or the reduction is one within(warp), which
 * leaves their part of the axis in place; within(thread) stops after step 1.
 */
#include "codegen/nvptx/math/combine.h"

#include <string.h>

typedef struct reduction {
    tc_gen *g;
    const tc_op *op;
    const tc_layout *from;
    unsigned axis;
    tc_combiner c;
    bool partial; /* lanes and warps in the axis keep their parts apart: */
    bool alone;   /* lanes, too */
} reduction;

/* Neighbours first: the tree is balanced. One side is done before the other
 * begins, so that few results wait. */
static tc_tuple combine_list(const reduction *r, const tc_tuple *list,
                             unsigned n)
{
    unsigned half = 1;
    if (n == 1)
        return list[0];
    while (2 * half < n)
        half *= 2;
    tc_tuple left = combine_list(r, list, half);
    return tc_tuple_combine(&r->c, left,
                            combine_list(r, list + half, n - half));
}

/* ---- Registers ---- */

/* Where the elements of register `reg` go: a coordinate of the result. */
static void target_of(const reduction *r, uint32_t reg, int32_t *to)
{
    int32_t coord[TC_MAX_RANK];
    tc_coords_first(r->from, reg, coord);
    unsigned n = 0;
    for (unsigned i = 0; i < r->from->rank; i++)
        if (i != r->axis)
            to[n++] = coord[i];
        else if (r->partial)
            to[n++] = 0;
}

/* For each register of the operands that of the result; those that repeat
 * others: -1. NULL: reported. */
static int64_t *find_targets(const reduction *r)
{
    tc_gen *g = r->g;
    const tc_layout *to = r->op->out[0]->type->layout;
    uint32_t n = tc_layout_size(r->from, TC_REGISTER);
    int64_t *target = tc_arena_array(g->arena, int64_t, n);
    tc_held held = {0}, own = tc_held_new(g, r->from);
    if (to)
        held = tc_held_new(g, to);
    for (uint32_t reg = 0; reg < n; reg++) {
        int32_t coord[TC_MAX_RANK];
        tc_coords_first(r->from, reg, coord);
        if (tc_held_find(&own, coord) != reg) {
            target[reg] = -1;
            continue;
        }
        target_of(r, reg, coord);
        target[reg] = to ? tc_held_find(&held, coord) : 0;
        if (target[reg] < 0) {
            tc_gen_error(g, r->op, "its result is held by other threads");
            return NULL;
        }
    }
    return target;
}

/* ---- Lanes ---- */

/* Lane bits that lie in the axis; false: reported. */
static bool lanes_in_axis(const reduction *r, uint32_t *bits)
{
    const tc_layout *l = r->from;
    *bits = 0;
    if (r->alone)
        return true;
    for (unsigned i = 0; i < l->nmodes[TC_LANE]; i++) {
        const tc_mode *m = &l->modes[TC_LANE][i];
        bool elsewhere = false;
        for (unsigned a = 0; a < l->rank; a++)
            elsewhere |= a != r->axis && m->image[a];
        if (m->image[r->axis] && elsewhere)
            return tc_gen_error(r->g, r->op,
                                "lanes lie in the axis and in another one");
        if (m->image[r->axis])
            *bits |= 1u << i;
    }
    for (unsigned i = 0; !r->partial && i < l->nmodes[TC_WARP]; i++)
        if (l->modes[TC_WARP][i].image[r->axis])
            return tc_gen_error(r->g, r->op,
                                "warps lie in the axis, and nothing was made "
                                "to exchange their parts");
    return true;
}

/* A region may round otherwise when its sides are swapped: the lower lane's is
 * the left one, so that all lanes get the same. */
static void order_sides(const reduction *r, uint32_t bit, tc_tuple *a,
                        tc_tuple *b)
{
    tc_gen *g = r->g;
    LLVMValueRef own = LLVMBuildAnd(g->b, g->lane, tc_gen_i32(g, bit), "");
    LLVMValueRef lower =
        LLVMBuildICmp(g->b, LLVMIntEQ, own, tc_gen_i32(g, 0), "");
    for (unsigned i = 0; i < r->c.n; i++) {
        LLVMValueRef x = a->x[i], y = b->x[i];
        a->x[i] = LLVMBuildSelect(g->b, lower, x, y, "");
        b->x[i] = LLVMBuildSelect(g->b, lower, y, x, "");
    }
}

/* Lanes outside of the axis repeat what those in it have: the warp agrees. */
static bool is_vote(const reduction *r, uint32_t bits)
{
    const tc_layout *l = r->from;
    if (!r->c.kind || tc_combiner_elem(&r->c, 0)->kind != TC_I1 || !bits ||
        strcmp(r->c.kind, "xor") == 0)
        return false;
    for (unsigned i = 0; i < l->nmodes[TC_LANE]; i++)
        for (unsigned a = 0; a < l->rank; a++)
            if (a != r->axis && l->modes[TC_LANE][i].image[a])
                return false;
    return true;
}

static tc_tuple vote(const reduction *r, tc_tuple t)
{
    bool all = strcmp(r->c.kind, "and") == 0;
    LLVMValueRef args[] = {tc_gen_i32(r->g, -1), t.x[0]};
    t.x[0] = tc_gen_intrinsic(r->g,
                              all ? "nvvm.vote.all.sync" : "nvvm.vote.any.sync",
                              0, NULL, 2, args);
    return t;
}

static tc_tuple combine_lanes(const reduction *r, tc_tuple t, uint32_t bits)
{
    if (is_vote(r, bits))
        return vote(r, t);
    for (; bits; bits &= bits - 1) {
        uint32_t bit = bits & -bits;
        tc_tuple own = tc_tuple_copy(&r->c, t);
        tc_tuple other = tc_tuple_shuffled(&r->c, t, bit);
        if (!r->c.kind)
            order_sides(r, bit, &own, &other);
        t = tc_tuple_combine(&r->c, own, other);
    }
    return t;
}

/* ---- The op ---- */

static bool reduce_into(const reduction *r, LLVMValueRef **in,
                        LLVMValueRef **out, unsigned nresults)
{
    uint32_t lanes, nregs = tc_layout_size(r->from, TC_REGISTER);
    int64_t *target = find_targets(r);
    if (!target || !lanes_in_axis(r, &lanes))
        return false;
    tc_tuple *list = tc_arena_array(r->g->arena, tc_tuple, nregs);
    for (unsigned to = 0; to < nresults; to++) {
        unsigned n = 0;
        for (uint32_t reg = 0; reg < nregs; reg++)
            if (target[reg] == to)
                list[n++] = tc_tuple_of(&r->c, in, reg);
        if (!n)
            continue;
        tc_tuple t = combine_lanes(r, combine_list(r, list, n), lanes);
        tc_tuple_put(&r->c, t, out, to);
    }
    return !r->g->failed;
}

/* Registers of the result that repeat others. */
static void repeat_registers(const reduction *r, LLVMValueRef **out,
                             unsigned nresults)
{
    const tc_layout *l = r->op->out[0]->type->layout;
    if (!l)
        return;
    tc_held held = tc_held_new(r->g, l);
    for (unsigned to = 0; to < nresults; to++) {
        int32_t coord[TC_MAX_RANK];
        tc_coords_first(l, to, coord);
        for (unsigned i = 0; i < r->c.n; i++)
            out[i][to] = out[i][tc_held_find(&held, coord)];
    }
}

bool tc_nvptx_reduce(tc_gen *g, const tc_op *op)
{
    reduction r = {.g = g,
                   .op = op,
                   .from = op->in[0]->type->layout,
                   .axis = (unsigned)tc_op_int(op, "axis"),
                   .c = tc_combiner_of(g, op),
                   .partial = !tc_op_is_word(op, "within", "block"),
                   .alone = tc_op_is_word(op, "within", "thread")};
    LLVMValueRef **in = tc_arena_array(g->arena, LLVMValueRef *, op->nin);
    LLVMValueRef **out = tc_arena_array(g->arena, LLVMValueRef *, op->nin);
    for (unsigned i = 0; i < op->nin; i++) {
        in[i] = tc_gen_get(g, op->in[i]);
        out[i] = tc_gen_set(g, op->out[i]);
    }
    unsigned nresults = tc_gen_registers(op->out[0]->type);
    if (!reduce_into(&r, in, out, nresults))
        return false;
    repeat_registers(&r, out, nresults);
    return true;
}
