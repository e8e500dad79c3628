/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/match.h"

#include <math.h>
#include <string.h>

tc_kind tc_lane_kind(const tc_value *v)
{
    tc_kind k = tc_type_elem(v->type)->kind;
    return k <= TC_F64 ? k : TC_KIND_COUNT;
}

bool tc_has_int_lanes(const tc_value *v)
{
    return tc_lane_kind(v) <= TC_I64;
}

bool tc_has_float_lanes(const tc_value *v)
{
    return tc_kind_is_float(tc_lane_kind(v));
}

bool tc_match_const(const tc_value *v, tc_scalar *x)
{
    if (tc_match_op(v, TC_SPLAT))
        v = v->def->in[0];
    return v->def && v->def->nin == 0 && tc_lane_kind(v) != TC_KIND_COUNT &&
           tc_eval_op(v->def, NULL, x);
}

bool tc_match_int(const tc_value *v, int64_t i)
{
    tc_scalar x;
    return tc_has_int_lanes(v) && tc_match_const(v, &x) && x.i == i;
}

bool tc_match_float(const tc_value *v, double f)
{
    tc_scalar x;
    return tc_has_float_lanes(v) && tc_match_const(v, &x) && x.f == f &&
           signbit(x.f) == signbit(f);
}

tc_op *tc_match_op(const tc_value *v, tc_opcode code)
{
    return v->def && v->def->code == code ? v->def : NULL;
}

tc_value *tc_match_unbroadcast(tc_value *v)
{
    while (v->def && v->type->kind == TC_TILE &&
           (v->def->code == TC_BROADCAST || v->def->code == TC_SPLAT))
        v = v->def->in[0];
    return v;
}

bool tc_match_same_int(const tc_value *a, const tc_value *b)
{
    tc_scalar x, y;
    return a == b ||
           (tc_match_const(a, &x) && tc_match_const(b, &y) && x.i == y.i);
}

bool tc_cast_is_exact(tc_kind from, tc_kind to)
{
    const tc_scalar_info *f = &tc_scalar_infos[from], *t = &tc_scalar_infos[to];
    if (f->is_float)
        return t->is_float && t->exponent_bits >= f->exponent_bits &&
               t->mantissa_bits >= f->mantissa_bits;
    if (from == TC_I1)
        return true;
    if (!t->is_float)
        return t->bits >= f->bits;
    /* f->bits - 1 bits and the sign; the range of f16 holds an i16, and what
     * has fewer bits of exponent has no room in the mantissa either. */
    return t->mantissa_bits + 1 >= f->bits - 1;
}

tc_value *tc_build_const(tc_builder *b, const tc_type *type, tc_scalar x)
{
    const tc_type *elem = tc_type_elem(type);
    tc_value *v = tc_scalar_infos[elem->kind].is_float
                      ? tc_build_float(b, elem, x.f)
                      : tc_build_int(b, elem, x.i);
    return type == elem ? v : tc_build(b, TC_SPLAT, 1, &v, type);
}

tc_value *tc_build_int_const(tc_builder *b, const tc_type *type, int64_t i)
{
    return tc_build_const(b, type, (tc_scalar){.i = i});
}

tc_value *tc_build_i32(tc_builder *b, int64_t i)
{
    return tc_build_int(b, tc_type_scalar(b->func->module->cx, TC_I32), i);
}

tc_value *tc_build_i64(tc_builder *b, int64_t i)
{
    return tc_build_int(b, tc_type_scalar(b->func->module->cx, TC_I64), i);
}

tc_value *tc_build_like(tc_builder *b, const tc_op *op, tc_value *const *in,
                        const tc_type *type)
{
    tc_op *like = tc_op_new(b->func, op->code, b->loc, op->nin, in, 0);
    unsigned nattrs = tc_op_nattrs(op->code);
    if (nattrs)
        memcpy(like->attrs, op->attrs, nattrs * sizeof *like->attrs);
    tc_op_set_results(like, 1, &type);
    tc_op_insert(like, b->region, b->before);
    return like->out[0];
}

tc_value *tc_build_unary(tc_builder *b, tc_opcode code, tc_value *x)
{
    return tc_build(b, code, 1, &x, NULL);
}

tc_value *tc_build_binary(tc_builder *b, tc_opcode code, tc_value *x,
                          tc_value *y)
{
    tc_value *in[] = {x, y};
    return tc_build(b, code, 2, in, NULL);
}

tc_value *tc_build_with(tc_builder *b, tc_opcode code, tc_value *x, int64_t i)
{
    return tc_build_binary(b, code, x, tc_build_int_const(b, x->type, i));
}

tc_value *tc_build_both(tc_builder *b, tc_value *x, tc_value *y)
{
    return x && y ? tc_build_binary(b, TC_AND, x, y) : x ? x : y;
}

tc_value *tc_build_cmp(tc_builder *b, const char *pred, tc_value *x,
                       tc_value *y)
{
    tc_op *op = tc_op_new(b->func, TC_CMP, b->loc, 2, (tc_value *[]){x, y}, 0);
    tc_op_set_word(op, "pred", pred);
    return tc_build_op(b, op, NULL);
}

tc_value *tc_build_select(tc_builder *b, tc_value *condition, tc_value *x,
                          tc_value *y)
{
    tc_value *in[] = {condition, x, y};
    return tc_build(b, TC_SELECT, 3, in, NULL);
}

const tc_type *tc_build_type(const tc_builder *b, const tc_type *like,
                             tc_kind elem)
{
    tc_context *cx = b->func->module->cx;
    return tc_type_with_elem(cx, like, tc_type_scalar(cx, elem));
}

const tc_type *tc_bits_type(tc_context *cx, const tc_type *t)
{
    const tc_type *elem = tc_type_elem(t);
    if (!tc_scalar_infos[elem->kind].is_float)
        return t;
    static const tc_kind kinds[] = {
        [1] = TC_I8, [2] = TC_I16, [4] = TC_I32, [8] = TC_I64};
    return tc_type_with_elem(cx, t,
                             tc_type_scalar(cx, kinds[tc_type_bytes(elem)]));
}

tc_value *tc_build_cast(tc_builder *b, tc_value *v, tc_kind elem)
{
    const tc_type *type = tc_build_type(b, v->type, elem);
    return v->type == type ? v : tc_build(b, TC_CAST, 1, &v, type);
}

tc_value *tc_build_bitcast(tc_builder *b, tc_value *v, const tc_type *type)
{
    return v->type == type ? v : tc_build(b, TC_BITCAST, 1, &v, type);
}

tc_value *tc_build_spread(tc_builder *b, tc_value *v, const tc_type *like)
{
    if (like->kind != TC_TILE)
        return v;
    tc_context *cx = b->func->module->cx;
    return tc_build(b, TC_SPLAT, 1, &v, tc_type_with_elem(cx, like, v->type));
}

tc_value *tc_build_at(tc_builder *b, tc_opcode code, tc_value *v,
                      const char *attr, int64_t i)
{
    tc_op *op = tc_op_new(b->func, code, b->loc, v ? 1 : 0, &v, 0);
    tc_op_set_int(op, attr, i);
    return tc_build_op(b, op, NULL);
}

tc_value *tc_build_reduce(tc_builder *b, tc_value *v, unsigned axis,
                          const char *kind)
{
    tc_op *op = tc_op_new(b->func, TC_REDUCE, b->loc, 1, &v, 0);
    tc_op_set_int(op, "axis", axis);
    tc_op_set_word(op, "kind", kind);
    return tc_build_op(b, op, NULL);
}

tc_value *tc_build_range(tc_builder *b, const tc_dim *n)
{
    tc_context *cx = b->func->module->cx;
    const tc_type *i32 = tc_type_scalar(cx, TC_I32);
    return tc_build(b, TC_RANGE, 0, NULL,
                    tc_type_shaped(cx, TC_TILE, 1, &n, i32));
}

tc_value *tc_build_along(tc_builder *b, tc_value *line, unsigned axis,
                         const tc_type *like)
{
    const tc_type *type =
        tc_type_with_elem(b->func->module->cx, like, tc_type_elem(line->type));
    for (unsigned i = 0; i < like->rank; i++)
        if (i != axis)
            line = tc_build_at(b, TC_EXPAND_DIMS, line, "axis", i);
    return line->type == type ? line
                              : tc_build(b, TC_BROADCAST, 1, &line, type);
}

tc_value *tc_build_smem_index(tc_builder *b, tc_value *ring, tc_value *index)
{
    tc_value *in[] = {ring, index};
    return tc_build(b, TC_SMEM_INDEX, 2, in, NULL);
}

tc_op *tc_build_assert(tc_builder *b, tc_value *condition, const char *message)
{
    tc_op *op = tc_build_effect(b, TC_ASSERT, 1, &condition);
    tc_attr text = {.kind = TC_ATTR_STRING,
                    .s = tc_string_get(b->func->module->cx, message)};
    tc_op_set_attr(op, "message", text);
    return op;
}
