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

/* i1, of the shape of t: is the position along the axis the index? */
static tc_value *is_at(tc_builder *b, const tc_type *t, unsigned axis,
                       tc_value *index)
{
    tc_value *at = tc_build_range(b, t->dims[axis]);
    index = tc_build_spread(b, tc_build_cast(b, index, TC_I32), at->type);
    return tc_build_along(b, tc_build_cmp(b, "eq", at, index), axis, t);
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
    const tc_type *bits = tc_bits_type(env->cx, t);
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    tc_value *index = op->in[1], *wide = tc_build_cast(&b, index, TC_I64);
    tc_value *x = tc_build_bitcast(&b, op->in[0], bits);
    x = tc_build_select(&b, is_at(&b, t, axis, index), x,
                        tc_build_int_const(&b, bits, 0));
    x = tc_build_bitcast(&b, tc_build_reduce(&b, x, axis, "or"), to);
    tc_value *side = tc_build_i64(&b, tc_dim_value(t->dims[axis]));
    tc_value *inside =
        tc_build_spread(&b, tc_build_cmp(&b, "ult", wide, side), to);
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
