/* SPDX-License-Identifier: Apache-2.0
 *
 * hoist-reciprocals: divides a tile by few numbers, each repeated, as a product
 * with their reciprocals: one division a row instead of one an element.
 *
 *   %d = broadcast %sum[:, none] : tile<64x128 x f32>
 *   %o = div %acc, %d
 * becomes
 *   %r = rcp %sum : tile<64 x f32>
 *   %d = broadcast %r[:, none] : tile<64x128 x f32>
 *   %o = mul %acc, %d
 *
 * The result has an error of up to 1.5 units in the last place instead of half
 * a one, and where the reciprocal is too large for a number it is infinite: the
 * division must have the flag arcp. Tests: test/ir/passes/hoist-reciprocals.
 */
#include "ir/fastmath.h"
#include "passes/analysis/match.h"
#include "passes/softmax/permits.h"

static const char pass[] = "hoist-reciprocals";

/* The op that repeats a smaller value; NULL. */
static tc_op *repeats(const tc_value *v)
{
    static const tc_opcode codes[] = {TC_BROADCAST, TC_EXPAND_DIMS, TC_SPLAT};
    for (unsigned i = 0; i < sizeof codes / sizeof *codes; i++) {
        tc_op *op = tc_match_op(v, codes[i]);
        if (op)
            return op;
    }
    return NULL;
}

/* 1 / v, computed as small as v is. */
static tc_value *reciprocal(tc_builder *b, tc_value *v)
{
    const tc_op *op = repeats(v);
    if (!op)
        return tc_build_unary(b, TC_RCP, v);
    tc_value *small = reciprocal(b, op->in[0]);
    return tc_build_like(b, op, &small, v->type);
}

static int64_t count_before(const tc_value *v)
{
    const tc_op *op;
    while ((op = repeats(v)))
        v = op->in[0];
    return v->type->kind == TC_TILE ? tc_type_count(v->type) : 1;
}

static bool visit(tc_pass_env *env, tc_op *div)
{
    if (div->code != TC_DIV || div->out[0]->type->kind != TC_TILE ||
        tc_lane_kind(div->out[0]) != TC_F32 ||
        count_before(div->in[1]) >= tc_type_count(div->out[0]->type) ||
        !tc_permits(env, pass, div, TC_ARCP,
                    "each element is divided by a number of its row"))
        return false;
    tc_builder b = tc_builder_before(div);
    tc_value *in[] = {div->in[0], reciprocal(&b, div->in[1])};
    b.fastmath = tc_op_own_fastmath(div) & ~(unsigned)TC_ARCP;
    tc_value *product = tc_build(&b, TC_MUL, 2, in, NULL);
    product->name = div->out[0]->name;
    tc_remark(env->cx, div->loc, pass,
              "a product with the reciprocal, which is computed once for all "
              "elements that share it");
    tc_value_replace(div->out[0], product);
    tc_op_erase(div);
    return true;
}

tc_change tc_pass_hoist_reciprocals(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, visit);
}
