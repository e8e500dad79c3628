/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules that hold for every elementwise op.
 *
 *   add (const 2), (const 3)                  const 5
 *   add (const 2), %x                         add %x, (const 2)
 *   exp (splat %s) : tile                     splat (exp %s)
 *   add (broadcast %a), (broadcast %b)        broadcast (add %a, %b)
 *                                             %a, %b of one shape;
 *                                             expand_dims alike
 */
#include "passes/simplify/fold.h"

enum { MOST_OPERANDS = 3 }; /* of an elementwise op */

static tc_value *fold_constants(tc_builder *b, tc_op *op)
{
    tc_scalar in[MOST_OPERANDS], out;
    if (op->nin == 0 || op->nin > MOST_OPERANDS)
        return NULL;
    for (unsigned i = 0; i < op->nin; i++)
        if (!tc_match_const(op->in[i], &in[i]))
            return NULL;
    if (!tc_eval_op(op, in, &out))
        return NULL;
    return tc_build_const(b, op->out[0]->type, out);
}

static tc_value *constant_to_the_right(tc_builder *b, tc_op *op)
{
    tc_scalar x;
    tc_value *left = op->in[0], *right = op->nin == 2 ? op->in[1] : NULL;
    if (!right || !tc_op_has(op, TC_COMMUTES) || !tc_match_const(left, &x) ||
        tc_match_const(right, &x))
        return NULL;
    tc_op_set_in(op, 0, right);
    tc_op_set_in(op, 1, left);
    return op->out[0];
}

/* The operands of `op` as scalars, where each is a splat (or, as a condition,
 * a scalar). */
static bool all_splats(const tc_op *op, tc_value **in)
{
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_op *splat = tc_match_op(op->in[i], TC_SPLAT);
        if (!splat && op->in[i]->type->kind == TC_TILE)
            return false;
        in[i] = splat ? splat->in[0] : op->in[i];
    }
    return true;
}

static tc_value *op_on_splats(tc_builder *b, tc_op *op)
{
    tc_value *in[MOST_OPERANDS];
    const tc_type *type = op->out[0]->type;
    if (type->kind != TC_TILE || op->nin > MOST_OPERANDS || !all_splats(op, in))
        return NULL;
    tc_value *x = tc_build_like(b, op, in, type->elem);
    return tc_build(b, TC_SPLAT, 1, &x, type);
}

/* The op that spreads all operands (but splats) over their shape, `code` each,
 * from one narrower shape; NULL. */
static const tc_op *common_spread(tc_context *cx, const tc_op *op,
                                  tc_opcode code)
{
    const tc_op *common = NULL;
    const tc_type *narrow = NULL, *i1 = tc_type_scalar(cx, TC_I1);
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_op *def = op->in[i]->def;
        if (op->in[i]->type->kind != TC_TILE || (def && def->code == TC_SPLAT))
            continue;
        if (!def || def->code != code)
            return NULL;
        const tc_type *from = tc_type_with_elem(cx, def->in[0]->type, i1);
        if (common && (narrow != from ||
                       (code == TC_EXPAND_DIMS &&
                        tc_op_int(common, "axis") != tc_op_int(def, "axis"))))
            return NULL;
        common = def;
        narrow = from;
    }
    return common;
}

static tc_value *op_before(tc_builder *b, tc_op *op, tc_opcode code)
{
    tc_context *cx = op->func->module->cx;
    const tc_type *type = op->out[0]->type;
    tc_value *in[MOST_OPERANDS];
    const tc_op *spread;
    if (type->kind != TC_TILE || op->nin > MOST_OPERANDS ||
        !(spread = common_spread(cx, op, code)))
        return NULL;
    const tc_type *narrow = spread->in[0]->type;
    for (unsigned i = 0; i < op->nin; i++) {
        tc_op *def = op->in[i]->def;
        in[i] = op->in[i]->type->kind == TC_TILE ? def->in[0] : op->in[i];
        if (op->in[i]->type->kind == TC_TILE && def->code == TC_SPLAT)
            in[i] = tc_build(b, TC_SPLAT, 1, &in[i],
                             tc_type_with_elem(cx, narrow, in[i]->type));
    }
    tc_value *x =
        tc_build_like(b, op, in, tc_type_with_elem(cx, narrow, type->elem));
    return tc_build_like(b, spread, &x, type);
}

static tc_value *op_on_broadcasts(tc_builder *b, tc_op *op)
{
    return op_before(b, op, TC_BROADCAST);
}

static tc_value *op_on_expanded(tc_builder *b, tc_op *op)
{
    return op_before(b, op, TC_EXPAND_DIMS);
}

tc_rule *const tc_lane_rules[TC_MAX_RULES] = {
    fold_constants,   constant_to_the_right, op_on_splats,
    op_on_broadcasts, op_on_expanded,
};
