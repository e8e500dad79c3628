/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of dots that are views of a loaded tile's buffer: transposed, or a
 * slice of its columns, or with other sides.
 *
 *   %kv = load .. : tile<64x576 x bf16>
 *   %s = dot %q, trans(%kv)                  reads all of the buffer
 *   %v = slice %kv axis(1) side(512)
 *   %o = dot %p, %v                          reads 8 of its 9 panels
 *
 *   %b = smem_alloc : smem<64x576 x bf16, #swizzle128>
 *   %v = smem_slice %b axis(1) side(512)
 *
 *   %x = load .. : tile<8x16x64 x bf16>
 *   %y = dot (reshape %x : tile<128x64 x bf16>), %w
 *
 *   %v = smem_reshape %b : smem<128x64 x bf16, #swizzle128>
 *
 * Buffers of matrices consist of panels of 128, 64 or 32 bytes of each row, one
 * after the other in memory: columns that are whole panels lie in one piece.
 */
#include "ir/parts.h"
#include "passes/analysis/match.h"
#include "passes/layout/assign_layouts.h"
#include "passes/sync/shared_memory.h"

/* The loaded tile, below conversions to other layouts. */
static tc_value *loaded(tc_value *v)
{
    while (tc_match_op(v, TC_CONVERT_LAYOUT))
        v = v->def->in[0];
    return tc_match_op(v, TC_LOAD) ? v : NULL;
}

/* May the buffer of a loaded tile be seen with the sides of the reshape? The
 * rows that lie one after the other in memory stay as they are. */
static bool keeps_rows(const tc_placing *s, const tc_op *reshape,
                       const tc_value *from)
{
    const tc_type *a = from->type, *b = reshape->out[0]->type;
    const tc_op *block = tc_match_op(from->def->in[0], TC_BLOCK);
    return block && !tc_block_index(block) && b->rank == 2 &&
           a->dims[a->rank - 1] == b->dims[1] &&
           tc_tile_fast_axis(s, from) == a->rank - 1;
}

/* Bytes of the widest panels of `from` that the slice begins and ends at; 0:
 * there are none. */
static unsigned panel_bytes(const tc_placing *s, const tc_op *slice,
                            const tc_value *from)
{
    tc_tile_part p = tc_op_part(slice, 0);
    int32_t bits = 8 * (int32_t)tc_type_bytes(from->type->elem);
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(from->type, sides);
    if (from->type->rank != 2 || p.step != 1 ||
        p.axis != tc_tile_fast_axis(s, from))
        return 0;
    unsigned bytes = tc_layout_widest_swizzle(sides[p.axis], (unsigned)bits);
    while (bytes >= 32 && (p.at * bits / 8 % (int32_t)bytes ||
                           p.side * bits / 8 % (int32_t)bytes))
        bytes /= 2;
    return bytes >= 32 ? bytes : 0;
}

tc_operand_view tc_operand_view_of(const tc_placing *s, tc_value *operand)
{
    tc_operand_view v = {.trans = tc_match_op(operand, TC_TRANS),
                         .from = operand};
    if (v.trans)
        v.from = v.trans->in[0];
    const tc_op *reshape = tc_match_op(v.from, TC_RESHAPE);
    tc_value *rows = reshape ? loaded(reshape->in[0]) : NULL;
    if (rows && keeps_rows(s, reshape, rows)) {
        v.reshape = reshape;
        v.from = rows;
        return v;
    }
    const tc_op *slice = tc_match_op(v.from, TC_SLICE);
    tc_value *whole = slice ? loaded(slice->in[0]) : NULL;
    if (s->env->options->no_swizzle || !whole || !panel_bytes(s, slice, whole))
        return v;
    v.slice = slice;
    v.from = whole;
    return v;
}

const tc_layout *tc_operand_view_layout(tc_context *cx,
                                        const tc_operand_view *v,
                                        const tc_layout *l)
{
    if (v->slice) {
        tc_tile_part p = tc_op_part(v->slice, 0);
        l = tc_layout_run(cx, l, &p, &(uint32_t){0});
    }
    if (v->reshape)
        l = tc_layout_of_result(cx, v->reshape, l);
    return l && v->trans ? tc_smem_view_layout(cx, v->trans, l) : l;
}

/* A layout in which the slice can be seen; assign-shared chooses the best. */
static void make_panels(tc_placing *s, const tc_operand_view *v,
                        tc_value *buffer)
{
    const tc_layout *l = buffer->type->layout;
    unsigned fast = tc_tile_fast_axis(s, v->from);
    const unsigned order[] = {fast, 1 - fast};
    int32_t sides[TC_MAX_RANK];
    tc_tile_part p = tc_op_part(v->slice, 0);
    if (tc_layout_run(s->cx, l, &p, &(uint32_t){0}))
        return;
    tc_type_sides(v->from->type, sides);
    l = tc_layout_swizzled(s->cx, 2, sides, order,
                           8 * tc_type_bytes(v->from->type->elem),
                           panel_bytes(s, v->slice, v->from));
    tc_smem_set_layout(s->cx, buffer, l);
}

tc_value *tc_build_operand_view(tc_placing *s, const tc_operand_view *v,
                                tc_value *buffer, tc_op *before)
{
    tc_builder b = tc_builder_before(before);
    if (v->slice) {
        b.loc = v->slice->loc;
        make_panels(s, v, buffer);
        tc_op *view = tc_op_new(s->f, TC_SMEM_SLICE, b.loc, 1, &buffer, 0);
        const char *const attrs[] = {"axis", "at", "side"};
        for (unsigned i = 0; i < 3; i++)
            if (tc_op_has_attr(v->slice, attrs[i]))
                tc_op_set_attr(view, attrs[i], *tc_op_attr(v->slice, attrs[i]));
        buffer = tc_build_op(&b, view, NULL);
    }
    if (v->reshape) {
        b.loc = v->reshape->loc;
        const tc_type *t = v->reshape->out[0]->type;
        const tc_layout *l =
            tc_layout_of_result(s->cx, v->reshape, buffer->type->layout);
        buffer = tc_build(&b, TC_SMEM_RESHAPE, 1, &buffer,
                          tc_type_smem(s->cx, t, l, 0));
    }
    if (!v->trans)
        return buffer;
    b.loc = v->trans->loc;
    tc_op *view = tc_op_new(s->f, TC_SMEM_TRANS, b.loc, 1, &buffer, 0);
    tc_op_set_attr(view, "perm", *tc_op_attr(v->trans, "perm"));
    return tc_build_op(&b, view, NULL);
}
