/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of shapes, views and memory.
 *
 *   trans (trans %x)            %x
 *   broadcast (splat %s)        splat %s
 *   expand_dims (splat %s)      splat %s
 *   slice (join %a, %b)         %b, or a slice of it
 *   reduce max (splat %s)       splat %s
 *   size %q dim(3)              const 64, where the tensor's type says so
 */
#include "ir/parts.h"
#include "passes/simplify/fold.h"

static tc_value *to_same_type(tc_builder *b, tc_op *op)
{
    return op->in[0]->type == op->out[0]->type ? op->in[0] : NULL;
}

/* Any rearrangement of a tile that has one value everywhere. */
static tc_value *of_splat(tc_builder *b, tc_op *op)
{
    tc_op *splat = tc_match_op(op->in[0], TC_SPLAT);
    return splat ? tc_build(b, TC_SPLAT, 1, splat->in, op->out[0]->type) : NULL;
}

/* broadcast (broadcast %x), reshape (reshape %x), reshape (expand_dims %x) */
static tc_value *of_same_op(tc_builder *b, tc_op *op)
{
    tc_op *inner = tc_match_op(op->in[0], op->code);
    if (!inner && op->code == TC_RESHAPE)
        inner = tc_match_op(op->in[0], TC_EXPAND_DIMS);
    return inner ? tc_build(b, op->code, 1, inner->in, op->out[0]->type) : NULL;
}

/* Axis `axis` of the result is this one of the operand. */
static unsigned permuted(const tc_op *trans, unsigned axis)
{
    const tc_attr *perm = tc_op_attr(trans, "perm");
    unsigned rank = trans->in[0]->type->rank;
    if (perm->kind != TC_ATTR_NONE)
        return (unsigned)perm->ints[axis];
    return axis + 2 < rank ? axis : 2 * rank - 3 - axis;
}

static tc_value *trans_of_nothing(tc_builder *b, tc_op *op)
{
    for (unsigned i = 0; i < op->in[0]->type->rank; i++)
        if (permuted(op, i) != i)
            return NULL;
    return op->in[0];
}

/* Is it what `trans` does without a perm? */
static bool is_default_perm(const int64_t *perm, unsigned rank)
{
    for (unsigned i = 0; i + 2 < rank; i++)
        if (perm[i] != i)
            return false;
    return rank >= 2 && perm[rank - 1] == rank - 2 &&
           perm[rank - 2] == rank - 1;
}

static tc_value *trans_of_trans(tc_builder *b, tc_op *op)
{
    tc_op *inner = tc_match_op(op->in[0], TC_TRANS);
    if (!inner)
        return NULL;
    unsigned rank = op->out[0]->type->rank;
    int64_t perm[TC_MAX_RANK];
    for (unsigned i = 0; i < rank; i++)
        perm[i] = permuted(inner, permuted(op, i));
    tc_op *both = tc_op_new(b->func, TC_TRANS, b->loc, 1, inner->in, 0);
    if (!is_default_perm(perm, rank))
        tc_op_set_ints(both, "perm", rank, perm);
    return tc_build_op(b, both, NULL);
}

/* One way to write a perm: a swap of the last two axes is left out. */
static tc_value *trans_without_perm(tc_builder *b, tc_op *op)
{
    const tc_attr *perm = tc_op_attr(op, "perm");
    if (perm->kind == TC_ATTR_NONE || !is_default_perm(perm->ints, perm->n))
        return NULL;
    tc_op_set_attr(op, "perm", (tc_attr){0});
    return op->out[0];
}

/* ---- Parts ---- */

static tc_value *build_slice(tc_builder *b, const tc_op *like, tc_value *v,
                             tc_tile_part p)
{
    tc_context *cx = b->func->module->cx;
    const tc_dim *at = tc_dim_const(cx, p.at);
    const tc_dim *side = tc_dim_const(cx, p.side);
    tc_op *op = tc_op_new(b->func, TC_SLICE, like->loc, 1, &v, 0);
    tc_op_set_int(op, "axis", p.axis);
    if (p.at)
        tc_op_set_dims(op, "at", 1, &at);
    tc_op_set_dims(op, "side", 1, &side);
    if (p.step > 1)
        tc_op_set_int(op, "step", p.step);
    return tc_build_op(b, op, NULL);
}

/* Are its sides and places numbers, as tc_op_part wants them? */
static bool has_known_parts(const tc_op *op)
{
    const tc_attr *at = op->code == TC_SLICE ? tc_op_attr(op, "at") : NULL;
    bool known =
        !at || at->kind == TC_ATTR_NONE || at->dims[0]->kind == TC_DIM_CONST;
    for (unsigned i = 0; i < op->nin; i++)
        known &= !tc_type_is_generic(op->in[i]->type);
    return known && !tc_type_is_generic(op->out[0]->type);
}

/* slice (slice %x) */
static tc_value *slice_of_slice(tc_builder *b, tc_op *op)
{
    tc_op *inner = tc_match_op(op->in[0], TC_SLICE);
    if (!inner || !has_known_parts(op) || !has_known_parts(inner))
        return NULL;
    tc_tile_part p = tc_op_part(op, 0), q = tc_op_part(inner, 0);
    if (p.axis != q.axis)
        return NULL;
    p.at = q.at + p.at * q.step;
    p.step *= q.step;
    return build_slice(b, op, inner->in[0], p);
}

/* Of join and interleave: a part that is one operand, or a part of one. */
static tc_value *slice_of_parts(tc_builder *b, tc_op *op)
{
    tc_op *parts = op->in[0]->def;
    if (!parts || (parts->code != TC_JOIN && parts->code != TC_INTERLEAVE) ||
        !has_known_parts(op) || !has_known_parts(parts))
        return NULL;
    tc_tile_part p = tc_op_part(op, 0);
    for (unsigned i = 0; i < parts->nin; i++) {
        tc_tile_part q = tc_op_part(parts, i);
        int32_t at = p.at - q.at, last = at + (p.side - 1) * p.step;
        if (p.axis != q.axis || p.step % q.step || at < 0 || at % q.step ||
            last / q.step >= q.side)
            continue;
        p.at = at / q.step;
        p.step /= q.step;
        return p.side == q.side ? parts->in[i]
                                : build_slice(b, op, parts->in[i], p);
    }
    return NULL;
}

/* The size that the tensor's type states. */
static tc_value *size_of_static_dim(tc_builder *b, tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    const tc_dim *dim = t->dims[tc_op_int(op, "dim")];
    if (!dim)
        return NULL;
    if (dim->kind == TC_DIM_CONST)
        return tc_build_int(b, op->out[0]->type, dim->value);
    tc_op *generic = tc_op_new(b->func, TC_DIM, b->loc, 0, NULL, 0);
    tc_op_set_dims(generic, "value", 1, &dim);
    return tc_build_op(b, generic, NULL);
}

/* What a tensor was made of (ir/ops.def, `tensor`). */
static tc_value *size_of_made(tc_builder *b, tc_op *op)
{
    tc_op *made = tc_match_op(op->in[0], TC_MAKE_TENSOR);
    return made ? tc_made_tensor_size(made, (unsigned)tc_op_int(op, "dim"))
                : NULL;
}

static tc_value *stride_of_made(tc_builder *b, tc_op *op)
{
    tc_op *made = tc_match_op(op->in[0], TC_MAKE_TENSOR);
    if (!made)
        return NULL;
    tc_value *s = tc_made_tensor_stride(made, (unsigned)tc_op_int(op, "dim"));
    const tc_type *wide = op->out[0]->type;
    return s->type == wide ? s : tc_build(b, TC_CAST, 1, &s, wide);
}

static tc_value *base_of_made(tc_builder *b, tc_op *op)
{
    tc_op *made = tc_match_op(op->in[0], TC_MAKE_TENSOR);
    return made ? made->in[0] : NULL;
}

/* max, min, and, or of equal values are that value. */
static tc_value *reduce_splat(tc_builder *b, tc_op *op)
{
    tc_op *splat = op->nin == 1 ? tc_match_op(op->in[0], TC_SPLAT) : NULL;
    bool idempotent =
        tc_op_is_word(op, "kind", "max") || tc_op_is_word(op, "kind", "min") ||
        tc_op_is_word(op, "kind", "and") || tc_op_is_word(op, "kind", "or");
    if (!splat || !idempotent)
        return NULL;
    if (op->out[0]->type->kind != TC_TILE)
        return splat->in[0];
    return tc_build(b, TC_SPLAT, 1, splat->in, op->out[0]->type);
}

/* Along an axis of side 1 there is nothing to combine. */
static tc_value *reduce_one(tc_builder *b, tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    if (op->nin != 1 || op->out[0]->type->kind != TC_TILE ||
        !tc_dim_is(t->dims[tc_op_int(op, "axis")], 1))
        return NULL;
    return tc_build(b, TC_RESHAPE, 1, op->in, op->out[0]->type);
}

static tc_value *advance_by_zero(tc_builder *b, tc_op *op)
{
    for (unsigned i = 1; i < op->nin; i++)
        if (!tc_match_int(op->in[i], 0))
            return NULL;
    return op->in[0];
}

/* advance (block %q[a, b +: 64]), c, d = block %q[a + c, b + d +: 64] */
static tc_value *advance_of_block(tc_builder *b, tc_op *op)
{
    tc_op *block = tc_match_op(op->in[0], TC_BLOCK);
    if (!block || block->nin != op->nin)
        return NULL;
    for (unsigned i = 1; i < op->nin; i++)
        if (op->in[i]->type != block->in[i]->type)
            return NULL;
    tc_value *in[1 + TC_MAX_RANK] = {block->in[0]};
    for (unsigned i = 1; i < op->nin; i++)
        in[i] = tc_build_binary(b, TC_ADD, block->in[i], op->in[i]);
    return tc_build_like(b, block, in, op->out[0]->type);
}

/* A mask that is true everywhere is none; one that is false everywhere reads
 * nothing but the other value (the pad where that is not given). */
static tc_value *load_masked(tc_builder *b, tc_op *op)
{
    tc_scalar mask, pad = {0};
    if (op->nin < 2 || !tc_match_const(op->in[1], &mask))
        return NULL;
    if (mask.i) {
        tc_op *plain = tc_op_new(b->func, TC_LOAD, b->loc, 1, op->in, 0);
        tc_op_set_attr(plain, "boundary", *tc_op_attr(op, "boundary"));
        tc_op_set_attr(plain, "pad", *tc_op_attr(op, "pad"));
        tc_op_copy_hints(plain, op);
        return tc_build_op(b, plain, NULL);
    }
    if (op->nin == 3)
        return op->in[2];
    tc_kind kind = tc_lane_kind(op->out[0]);
    if (kind == TC_KIND_COUNT)
        return NULL;
    if (tc_op_has_attr(op, "pad"))
        pad = tc_number_value(tc_op_attr(op, "pad")->number, kind);
    return tc_build_const(b, op->out[0]->type, pad);
}

tc_rule_table tc_shape_rules = {
    [TC_BROADCAST] = {to_same_type, of_splat, of_same_op},
    [TC_EXPAND_DIMS] = {of_splat},
    [TC_RESHAPE] = {to_same_type, of_splat, of_same_op},
    [TC_TRANS] = {trans_of_nothing, of_splat, trans_of_trans,
                  trans_without_perm},
    [TC_SLICE] = {to_same_type, of_splat, slice_of_slice, slice_of_parts},
    [TC_SIZE] = {size_of_static_dim, size_of_made},
    [TC_STRIDE] = {stride_of_made},
    [TC_BASE] = {base_of_made},
    [TC_REDUCE] = {reduce_splat, reduce_one},
    [TC_ADVANCE] = {advance_by_zero, advance_of_block},
    [TC_LOAD] = {load_masked},
};
