/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/windows/element_at.h"

#include "passes/analysis/match.h"

/* ---- What has elements ---- */

enum { MOST_OPS = 64 };

static bool count_ops(const tc_value *v, unsigned *n)
{
    const tc_op *op = v->def;
    if (v->type->kind != TC_TILE)
        return true;
    if (!op || ++*n > MOST_OPS)
        return false;
    bool fits;
    switch (op->code) {
    case TC_SPLAT:
    case TC_RANGE: return true;
    case TC_EXPAND_DIMS:
    case TC_BROADCAST:
    case TC_TRANS:
    case TC_RESHAPE:
    case TC_GATHER: fits = true; break;
    case TC_CONVERT_LAYOUT: return count_ops(op->in[0], n);
    case TC_LOAD:
        return op->nin == 1 && tc_match_op(op->in[0], TC_BLOCK) &&
               !tc_block_index(op->in[0]->def);
    default: fits = tc_op_has(op, TC_ELEMENTWISE) && op->nout == 1;
    }
    for (unsigned i = 0; fits && i < op->nin; i++)
        fits = op->in[i]->type->kind == TC_TENSOR || count_ops(op->in[i], n);
    return fits;
}

bool tc_has_elements(const tc_value *v)
{
    unsigned n = 0;
    return count_ops(v, &n);
}

/* ---- Positions ---- */

static bool are_const(const tc_value *x, const tc_value *y, int64_t *a,
                      int64_t *b)
{
    tc_scalar s, t;
    if (!tc_match_const(x, &s) || !tc_match_const(y, &t))
        return false;
    *a = s.i;
    *b = t.i;
    return true;
}

tc_value *tc_build_position(tc_builder *b, tc_opcode code, tc_value *x,
                            tc_value *y)
{
    int64_t m, n;
    if (are_const(x, y, &m, &n) && m >= 0 && n > 0) {
        int64_t all = code == TC_ADD   ? m + n
                      : code == TC_MUL ? m * n
                      : code == TC_DIV ? m / n
                                       : m % n;
        if (all <= INT32_MAX)
            return tc_build_int_const(b, x->type, all);
    }
    if (code == TC_ADD && tc_match_int(x, 0))
        return y;
    if (code == TC_ADD && tc_match_int(y, 0))
        return x;
    if ((code == TC_MUL || code == TC_DIV) && tc_match_int(y, 1))
        return x;
    if (code == TC_REM && tc_match_int(y, 1))
        return tc_build_int_const(b, x->type, 0);
    return tc_build_binary(b, code, x, y);
}

static tc_value *by(tc_builder *b, tc_opcode code, tc_value *x, int64_t n)
{
    return tc_build_position(b, code, x, tc_build_int_const(b, x->type, n));
}

void tc_positions_before_reshape(tc_builder *b, const tc_type *from,
                                 const tc_type *to, tc_value *const *at,
                                 tc_value **before)
{
    /* Leading axes that both have stay. */
    unsigned same = 0;
    while (same < from->rank && same < to->rank &&
           from->dims[same] == to->dims[same])
        same++;
    for (unsigned i = 0; i < same; i++)
        before[i] = at[i];
    tc_value *linear = NULL;
    for (unsigned i = same; i < to->rank; i++) {
        if (linear)
            linear = by(b, TC_MUL, linear, tc_dim_value(to->dims[i]));
        linear = linear ? tc_build_position(b, TC_ADD, linear, at[i]) : at[i];
    }
    int64_t stride = 1;
    for (unsigned i = from->rank; i-- > same;) {
        int64_t side = tc_dim_value(from->dims[i]);
        tc_value *x = linear ? linear : tc_build_int_const(b, at[0]->type, 0);
        x = by(b, TC_DIV, x, stride);
        before[i] = i == same ? x : by(b, TC_REM, x, side);
        stride *= side;
    }
}

/* ---- The ops again ---- */

static tc_builder builder_for(const tc_elements *e, tc_op *op)
{
    tc_builder b = e->in_place ? tc_builder_before(op) : *e->b;
    b.loc = op->loc;
    return b;
}

static tc_value *leaf(const tc_elements *e, tc_value *v)
{
    return e->leaf ? e->leaf(e->user, v) : v;
}

/* An op on lanes: scalars among its operands stay such. */
static tc_value *lanes_again(const tc_elements *e, tc_op *op,
                             tc_value *const *at)
{
    tc_value *in[4];
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = op->in[i]->type->kind == TC_TILE
                    ? tc_element_at(e, op->in[i], at)
                    : leaf(e, op->in[i]);
    tc_builder b = builder_for(e, op);
    bool folds = op->code == TC_ADD || op->code == TC_MUL ||
                 op->code == TC_DIV || op->code == TC_REM;
    if (folds && in[0]->type->kind == TC_I32)
        return tc_build_position(&b, op->code, in[0], in[1]);
    return tc_build_like(&b, op, in,
                         tc_type_with_elem(op->func->module->cx, at[0]->type,
                                           op->out[0]->type->elem));
}

static tc_value *gather_again(const tc_elements *e, tc_op *op,
                              tc_value *const *at)
{
    tc_value *in[1 + TC_MAX_RANK] = {op->in[0]};
    for (unsigned i = 1; i < op->nin; i++)
        in[i] = tc_element_at(e, op->in[i], at);
    tc_builder b = builder_for(e, op);
    return tc_build_like(&b, op, in,
                         tc_type_with_elem(op->func->module->cx, at[0]->type,
                                           op->out[0]->type->elem));
}

/* A window's element is a gather: outside of the tensor both give the pad. */
static tc_value *load_again(const tc_elements *e, tc_op *op,
                            tc_value *const *at)
{
    tc_context *cx = op->func->module->cx;
    const tc_op *block = op->in[0]->def;
    const tc_attr *sides = tc_op_attr(block, "sides");
    tc_builder b = builder_for(e, op);
    tc_value *in[1 + TC_MAX_RANK] = {block->in[0]};
    unsigned axis = 0;
    for (unsigned i = 0; i < sides->n; i++) {
        tc_value *offset = leaf(e, block->in[1 + i]);
        tc_value *x = tc_build_spread(&b, offset, at[0]->type);
        if (sides->dims[i]) {
            tc_value *along = at[axis++];
            if (offset->type->kind == TC_I64)
                along =
                    tc_build(&b, TC_CAST, 1, &along,
                             tc_type_with_elem(cx, along->type, offset->type));
            x = tc_build_position(&b, TC_ADD, x, along);
        }
        in[1 + i] = x;
    }
    tc_op *gather = tc_op_new(b.func, TC_GATHER, op->loc, 1 + sides->n, in, 0);
    tc_op_set_attr(gather, "pad", *tc_op_attr(op, "pad"));
    tc_op_copy_hints(gather, op);
    return tc_build_op(&b, gather, NULL);
}

static void positions_in_operand(const tc_elements *e, const tc_op *op,
                                 tc_value *const *at, tc_value **in)
{
    const tc_type *from = op->in[0]->type, *to = op->out[0]->type;
    tc_builder b = *e->b;
    const tc_attr *perm = op->code == TC_TRANS ? tc_op_attr(op, "perm") : NULL;
    unsigned axis =
        op->code == TC_EXPAND_DIMS ? (unsigned)tc_op_int(op, "axis") : 0;
    if (op->code == TC_RESHAPE) {
        tc_positions_before_reshape(&b, from, to, at, in);
        return;
    }
    for (unsigned i = 0; i < from->rank; i++) {
        if (op->code == TC_EXPAND_DIMS)
            in[i] = at[i + (i >= axis)];
        else if (op->code == TC_BROADCAST)
            in[i] = from->dims[i] == to->dims[i]
                        ? at[i]
                        : tc_build_int_const(&b, at[i]->type, 0);
        else if (perm->kind != TC_ATTR_NONE)
            in[perm->ints[i]] = at[i];
        else
            in[i + 2 < from->rank ? i : 2 * from->rank - 3 - i] = at[i];
    }
}

tc_value *tc_element_at(const tc_elements *e, tc_value *v, tc_value *const *at)
{
    tc_op *op = v->def;
    tc_value *in[TC_MAX_RANK];
    tc_builder b = builder_for(e, op);
    switch (op->code) {
    case TC_SPLAT: return tc_build_spread(&b, leaf(e, op->in[0]), at[0]->type);
    case TC_RANGE: return at[0];
    case TC_EXPAND_DIMS:
    case TC_BROADCAST:
    case TC_TRANS:
    case TC_RESHAPE:
        positions_in_operand(e, op, at, in);
        return tc_element_at(e, op->in[0], in);
    case TC_CONVERT_LAYOUT: return tc_element_at(e, op->in[0], at);
    case TC_LOAD: return load_again(e, op, at);
    case TC_GATHER: return gather_again(e, op, at);
    default: return lanes_again(e, op, at);
    }
}
