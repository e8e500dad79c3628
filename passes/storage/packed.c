/* SPDX-License-Identifier: Apache-2.0
 *
 *   %w = load (block %t[%n +: 64, %k +: 128]) : tile<64x128 x i4>
 *   ->
 *   %b = load (block %t[%n +: 64, %k / 2 +: 64]) : tile<64x64 x i8>
 *   %w = interleave (%b << 4 >> 4), (%b >> 4) axis(1)
 */
#include "passes/storage/packed.h"

#include "passes/analysis/match.h"
#include "passes/storage/codes.h"

/* ---- What can be packed ---- */

static bool check_even(const tc_axis_analysis *a, const tc_op *op,
                       const tc_value *offset, unsigned index, unsigned dim)
{
    if (tc_axis_divisor(tc_axis_info_of(a, offset)) % 2 == 0)
        return true;
    return tc_error(
        tc_op_context(op), tc_op_in_loc(op, index),
        "%s: the offset along dim %u of %s may be odd, expected one "
        "that is even by how it is computed, as `2 * %%i`: a byte "
        "holds two elements",
        tc_op_name(op), dim, tc_op_in_type(op, 0));
}

static bool check_side(const tc_op *op, const tc_dim *side, unsigned dim)
{
    int64_t n = tc_dim_value(side);
    if (n == 2 || n == 4 || n == 8 || n % 16 == 0)
        return true;
    return tc_error(
        tc_op_context(op), op->loc,
        "block: side %lld along dim %u of %s, expected 2, 4, 8 or a "
        "multiple of 16: a byte holds two elements",
        (long long)n, dim, tc_op_in_type(op, 0));
}

static bool check_block(const tc_axis_analysis *a, const tc_op *op)
{
    unsigned dim = tc_type_contiguous(op->in[0]->type);
    const tc_dim *side = tc_op_attr(op, "sides")->dims[dim];
    if (!side)
        return tc_error(tc_op_context(op), tc_op_in_loc(op, 1 + dim),
                        "block: dim %u of %s has no side, expected "
                        "`offset +: side`: a byte holds two elements (single "
                        "ones are read by indices for all dims)",
                        dim, tc_op_in_type(op, 0));
    return check_side(op, side, dim) &&
           check_even(a, op, op->in[1 + dim], 1 + dim, dim);
}

static bool check_advance(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_op *block = tc_block_of(op->in[0]);
    unsigned dim = tc_type_contiguous(block->in[0]->type);
    return check_even(a, op, op->in[1 + dim], 1 + dim, dim);
}

bool tc_packed_is_whole(const tc_axis_analysis *a, const tc_op *op)
{
    return op->code == TC_BLOCK ? check_block(a, op) : check_advance(a, op);
}

/* ---- Bytes and codes ---- */

const tc_dim *tc_packed_bytes(tc_context *cx, const tc_dim *elements)
{
    return elements ? tc_dim_const(cx, tc_dim_value(elements) / 2) : NULL;
}

void tc_packed_halve_offset(tc_op *op, unsigned index)
{
    tc_builder b = tc_builder_before(op);
    tc_op_set_in(op, index, tc_build_with(&b, TC_DIV, op->in[index], 2));
}

static tc_value *high_bits(tc_builder *b, tc_value *bytes, tc_kind kind)
{
    return tc_build_with(b, kind == TC_I4 ? TC_SHR : TC_SHRU, bytes, 4);
}

tc_value *tc_packed_unpack(tc_builder *b, tc_value *bytes, unsigned axis,
                           tc_kind kind)
{
    tc_value *both[] = {tc_stored_of_low_bits(b, bytes, kind),
                        high_bits(b, bytes, kind)};
    tc_op *op = tc_op_new(b->func, TC_INTERLEAVE, b->loc, 2, both, 0);
    tc_op_set_int(op, "axis", axis);
    return tc_build_op(b, op, NULL);
}

static tc_value *every_other(tc_builder *b, tc_value *v, unsigned axis,
                             int64_t first)
{
    tc_context *cx = b->func->module->cx;
    const tc_dim *at = tc_dim_const(cx, first);
    const tc_dim *side = tc_packed_bytes(cx, v->type->dims[axis]);
    tc_op *op = tc_op_new(b->func, TC_SLICE, b->loc, 1, &v, 0);
    tc_op_set_int(op, "axis", axis);
    tc_op_set_dims(op, "at", 1, &at);
    tc_op_set_dims(op, "side", 1, &side);
    tc_op_set_int(op, "step", 2);
    return tc_build_op(b, op, NULL);
}

tc_value *tc_packed_pack(tc_builder *b, tc_value *codes, unsigned axis)
{
    tc_value *low =
        tc_build_with(b, TC_AND, every_other(b, codes, axis, 0), 15);
    tc_value *high =
        tc_build_with(b, TC_SHL, every_other(b, codes, axis, 1), 4);
    return tc_build_binary(b, TC_OR, low, high);
}

tc_value *tc_packed_select(tc_builder *b, tc_value *bytes, tc_value *index,
                           tc_kind kind)
{
    tc_value *by =
        tc_build_with(b, TC_SHL, tc_build_with(b, TC_AND, index, 1), 2);
    by = tc_build(b, TC_CAST, 1, &by, bytes->type);
    tc_value *bits = tc_build_binary(b, TC_SHRU, bytes, by);
    return tc_stored_of_low_bits(b, bits, kind);
}
