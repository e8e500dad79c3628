/* SPDX-License-Identifier: Apache-2.0
 *
 * A multiple of tanh in the argument of an exponential that gets rounded:
 *
 *   %c * tanh(%d * %f)
 * becomes
 *   if abs(%c) < 256.0 {
 *     yield fma(rcp(exp2(%d * (%f * 2.885390)) + 1.0), -2.0 * %c, %c)
 *   } else {
 *     yield %c * tanh(%d * %f)
 *   }
 *
 * tanh(x) = 1 - 2 / (e^2x + 1). An accurate tanh takes another way near 0,
 * where this one loses digits: relatively, not absolutely. It is off by 2^-21
 * (2^-22 from exp2, of which a half counts, its argument's rounding and the
 * sum's), so the argument by 2^-13 where |c| is below 256; beyond, and where c
 * is NaN, it is computed as it was (but that the factors of x are multiplied
 * first). Infinities and NaNs of x come out alike.
 */
#include "passes/exponents.h"
#include "passes/match.h"

#include <math.h>

static const double LARGEST_SCALE = 256;

/* The scalar in all lanes of an operand of the product v; NULL: it is none. */
static tc_value *factor_of(const tc_value *v, tc_value **other)
{
    const tc_op *mul = tc_match_op(v, TC_MUL);
    for (unsigned i = 0; mul && i < 2; i++)
        if (tc_match_op(mul->in[i], TC_SPLAT)) {
            *other = mul->in[1 - i];
            return mul->in[i]->def->in[0];
        }
    return NULL;
}

/* v as factors * base; NULL: no factors. */
static tc_value *all_factors(tc_builder *b, tc_value *v, tc_value **base)
{
    tc_value *product = NULL, *f;
    *base = v;
    while ((f = factor_of(*base, base)))
        product = product ? tc_build_binary(b, TC_MUL, product, f) : f;
    return product;
}

static tc_value *splat_like(tc_builder *b, tc_value *scalar, const tc_value *v)
{
    return tc_build(b, TC_SPLAT, 1, &scalar, v->type);
}

static tc_value *times(tc_builder *b, tc_value *v, tc_value *scalar)
{
    return scalar ? tc_build_binary(b, TC_MUL, v, splat_like(b, scalar, v)) : v;
}

static tc_value *scalar_times(tc_builder *b, tc_value *scalar, double by)
{
    return tc_build_binary(b, TC_MUL, scalar,
                           tc_build_float(b, scalar->type, by));
}

/* Of 1 or more. */
static tc_value *reciprocal(tc_builder *b, tc_value *v)
{
    tc_op *rcp = tc_op_new(b->func, TC_RCP, b->loc, 1, &v, 0);
    tc_op_set_attr(rcp, "approx", (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
    tc_op_set_attr(rcp, "from_one", (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
    return tc_build_op(b, rcp, NULL);
}

static tc_value *by_exponential(tc_builder *b, tc_value *base, tc_value *factor,
                                tc_value *scale)
{
    tc_value *e = tc_build_unary(b, TC_EXP2, times(b, base, factor));
    tc_value *one = tc_build_const(b, e->type, (tc_scalar){.f = 1});
    tc_value *in[] = {reciprocal(b, tc_build_binary(b, TC_ADD, e, one)),
                      splat_like(b, scalar_times(b, scale, -2), e),
                      splat_like(b, scale, e)};
    return tc_build(b, TC_FMA, 3, in, NULL);
}

/* if abs(scale) < LARGEST_SCALE, then by regions 0 and 1. */
static tc_op *build_branch(tc_builder *b, tc_value *scale, const tc_type *type)
{
    tc_value *size = tc_build_unary(b, TC_ABS, scale);
    tc_value *limit = tc_build_float(b, scale->type, LARGEST_SCALE);
    tc_value *small = tc_build_cmp(b, "lt", size, limit);
    tc_op *branch = tc_op_new(b->func, TC_IF, b->loc, 1, &small, 2);
    tc_op_set_results(branch, 1, &type);
    tc_op_insert(branch, b->region, b->before);
    return branch;
}

tc_value *tc_build_tanh(tc_builder *b, const tc_op *tanh, tc_value *scale)
{
    const tc_type *type = tanh->out[0]->type;
    tc_value *base, *factor = all_factors(b, tanh->in[0], &base);
    if (tc_op_int(tanh, "approx")) {
        tc_value *x = times(b, base, factor);
        return times(b, tc_build_like(b, tanh, &x, type), scale);
    }
    const tc_type *f32 = tc_type_elem(type);
    scale = scale ? scale : tc_build_float(b, f32, 1);
    factor = factor ? factor : tc_build_float(b, f32, 1);
    tc_value *both = scalar_times(b, factor, 2 / M_LN2);
    tc_op *branch = build_branch(b, scale, type);
    tc_builder arm = tc_builder_at_end(branch->regions[0], b->loc);
    tc_value *v = by_exponential(&arm, base, both, scale);
    tc_build_yield(&arm, 1, &v);
    arm = tc_builder_at_end(branch->regions[1], b->loc);
    v = times(&arm, base, factor);
    v = times(&arm, tc_build_like(&arm, tanh, &v, type), scale);
    tc_build_yield(&arm, 1, &v);
    return branch->out[0];
}
