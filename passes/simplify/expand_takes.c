/* SPDX-License-Identifier: Apache-2.0
 *
 * expand-takes: an element along an axis by a scalar index becomes a reduction
 * of what is 0 but there, of bits: threads that hold none of the elements
 * contribute 0.
 *
 *   %y = take %x, %j axis(0)       // tile<16x32 x f32>, i32
 *
 *   %here = range(16)[:, none] == %j
 *   %all = reduce (select %here, bitcast(%x, i32), 0) axis(0) kind(or)
 *   %y = select (%j is inside), bitcast(%all, f32), pad
 *
 * With indices in a tile take stays: lower-conversions sends the elements
 * through shared memory.
 *
 * Tests: test/ir/passes/expand-takes, test/numerics/shapes.c.
 */
#include "passes/analysis/match.h"
#include "passes/passes.h"

static const tc_type *bits_type(tc_context *cx, const tc_type *t)
{
    const tc_type *elem = tc_type_elem(t);
    if (!tc_scalar_infos[elem->kind].is_float)
        return t;
    static const tc_kind kinds[] = {
        [1] = TC_I8, [2] = TC_I16, [4] = TC_I32, [8] = TC_I64};
    return tc_type_with_elem(cx, t,
                             tc_type_scalar(cx, kinds[tc_type_bytes(elem)]));
}

static tc_value *as_type(tc_builder *b, tc_value *v, const tc_type *t)
{
    return v->type == t ? v : tc_build(b, TC_BITCAST, 1, &v, t);
}

static tc_value *spread(tc_builder *b, tc_value *v, const tc_type *t)
{
    if (t->kind != TC_TILE)
        return v;
    tc_context *cx = b->func->module->cx;
    return tc_build(b, TC_SPLAT, 1, &v, tc_type_with_elem(cx, t, v->type));
}

/* i1, of the shape of t: is the position along the axis the index? */
static tc_value *is_at(tc_builder *b, const tc_type *t, unsigned axis,
                       tc_value *index)
{
    tc_context *cx = b->func->module->cx;
    const tc_type *i32 = tc_type_scalar(cx, TC_I32);
    const tc_type *line = tc_type_shaped(cx, TC_TILE, 1, &t->dims[axis], i32);
    tc_value *at = tc_build(b, TC_RANGE, 0, NULL, line);
    tc_value *on = tc_build_cmp(b, "eq", at, spread(b, index, line));
    for (unsigned i = 0; i < t->rank; i++) {
        if (i == axis)
            continue;
        tc_op *expand = tc_op_new(b->func, TC_EXPAND_DIMS, b->loc, 1, &on, 0);
        tc_op_set_int(expand, "axis", i);
        on = tc_build_op(b, expand, NULL);
    }
    const tc_type *to = tc_type_with_elem(cx, t, tc_type_scalar(cx, TC_I1));
    return on->type == to ? on : tc_build(b, TC_BROADCAST, 1, &on, to);
}

/* The index as i32, where it is inside. */
static tc_value *narrow(tc_builder *b, tc_value *index)
{
    const tc_type *i32 = tc_type_scalar(b->func->module->cx, TC_I32);
    return index->type == i32 ? index : tc_build(b, TC_CAST, 1, &index, i32);
}

static tc_value *is_inside(tc_builder *b, tc_value *index, int64_t side)
{
    tc_context *cx = b->func->module->cx;
    const tc_type *i64 = tc_type_scalar(cx, TC_I64);
    tc_value *wide =
        index->type == i64 ? index : tc_build(b, TC_CAST, 1, &index, i64);
    return tc_build_cmp(b, "ult", wide, tc_build_int(b, i64, side));
}

static tc_value *or_along(tc_builder *b, tc_value *v, unsigned axis)
{
    tc_op *op = tc_op_new(b->func, TC_REDUCE, b->loc, 1, &v, 0);
    tc_op_set_int(op, "axis", axis);
    tc_op_set_word(op, "kind", "or");
    return tc_build_op(b, op, NULL);
}

static tc_value *pad_of(tc_builder *b, const tc_op *op)
{
    const tc_type *t = op->out[0]->type;
    const tc_attr *pad = tc_op_attr(op, "pad");
    tc_scalar x = {0, 0};
    if (pad->kind != TC_ATTR_NONE)
        x = tc_number_value(pad->number, tc_type_elem(t)->kind);
    return tc_build_const(b, t, x);
}

static bool expand(tc_pass_env *env, tc_op *op)
{
    if (op->code != TC_TAKE || op->in[1]->type->kind == TC_TILE)
        return false;
    tc_builder b = tc_builder_before(op);
    const tc_type *t = op->in[0]->type, *to = op->out[0]->type;
    const tc_type *bits = bits_type(env->cx, t);
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    tc_value *index = op->in[1];
    tc_value *x = as_type(&b, op->in[0], bits);
    tc_value *here = is_at(&b, t, axis, narrow(&b, index));
    x = tc_build_select(&b, here, x, tc_build_int_const(&b, bits, 0));
    x = as_type(&b, or_along(&b, x, axis), to);
    tc_value *inside =
        spread(&b, is_inside(&b, index, tc_dim_value(t->dims[axis])), to);
    x = tc_build_select(&b, inside, x, pad_of(&b, op));
    if (!x->name)
        x->name = op->out[0]->name;
    tc_value_replace(op->out[0], x);
    tc_op_erase(op);
    return true;
}

tc_change tc_pass_expand_takes(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, expand);
}
