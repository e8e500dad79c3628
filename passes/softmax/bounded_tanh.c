/* SPDX-License-Identifier: Apache-2.0
 *
 * A multiple of tanh that becomes the argument of a rounded exponential,
 * multiplied by l (log2(e), or 1):
 *
 *   %c * tanh(%d * %f)
 * becomes
 *   %g = %f * (-1 where %c < 0, else 1)
 *   %h = abs(%c) * l
 *   %t = if abs(%c) < 256.0 { yield tanh(%d * %g, absolute=true) * %h }
 *        else { yield tanh(%d * %g) * %h }
 *   %t * (1 / l)
 *
 * An accurate tanh is exact in its digits near 0. The absolute one has an error
 * of 2^-21, so the argument one of 2^-13 if |c| is below 256; beyond that, and
 * if c is NaN, the tanh stays accurate (except that the factors of x are
 * multiplied first). Such a tanh gives a multiple at no extra cost
 * (codegen/nvptx/math/tanh.c), and the remaining factor, 1 / l * l, is 1.
 */
#include "passes/analysis/match.h"
#include "passes/target/exponents.h"

#include <math.h>

static const double LARGEST_SCALE = 256;

/* The scalar factor of the product v, which is in all lanes of one operand;
 * NULL: v is no such product. */
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

static tc_value *times(tc_builder *b, tc_value *v, tc_value *scalar)
{
    return scalar ? tc_build_binary(b, TC_MUL, v,
                                    tc_build_spread(b, scalar, v->type))
                  : v;
}

/* 1, -1 or NaN. */
static tc_value *sign_of(tc_builder *b, tc_value *v)
{
    tc_value *zero = tc_build_float(b, v->type, 0),
             *one = tc_build_float(b, v->type, 1),
             *minus = tc_build_float(b, v->type, -1);
    tc_value *positive =
        tc_build_select(b, tc_build_cmp(b, "ge", v, zero), one, v);
    return tc_build_select(b, tc_build_cmp(b, "lt", v, zero), minus, positive);
}

/* tanh(x f) * scale in both arms of a branch: absolute where size is small. */
static tc_value *build_branch(tc_builder *b, const tc_op *tanh, tc_value *x,
                              tc_value *f, tc_value *size, tc_value *scale)
{
    tc_value *limit = tc_build_float(b, size->type, LARGEST_SCALE);
    tc_value *small = tc_build_cmp(b, "lt", size, limit);
    tc_op *branch = tc_build_if(b, small, 1, &x->type);
    for (unsigned i = 0; i < 2; i++) {
        tc_builder arm = tc_builder_at_end(branch->regions[i], b->loc);
        tc_value *scaled = times(&arm, x, f);
        tc_value *v = tc_build_like(&arm, tanh, &scaled, x->type);
        if (i == 0)
            tc_op_set_attr(v->def, "absolute",
                           (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
        v = times(&arm, v, scale);
        tc_build_yield(&arm, 1, &v);
    }
    return branch->out[0];
}

tc_value *tc_build_tanh(tc_builder *b, const tc_op *tanh, tc_value *scale,
                        double l)
{
    tc_value *base, *factor = all_factors(b, tanh->in[0], &base);
    if (tc_op_int(tanh, "approx")) {
        tc_value *x = times(b, base, factor);
        return times(b, tc_build_like(b, tanh, &x, x->type), scale);
    }
    const tc_type *f32 = tc_type_elem(base->type);
    scale = scale ? scale : tc_build_float(b, f32, 1);
    factor = factor ? factor : tc_build_float(b, f32, 1);
    factor = tc_build_binary(b, TC_MUL, factor, sign_of(b, scale));
    tc_value *size = tc_build_unary(b, TC_ABS, scale);
    scale = tc_build_binary(b, TC_MUL, size, tc_build_float(b, f32, l));
    tc_value *t = build_branch(b, tanh, base, factor, size, scale);
    return times(b, t, tc_build_float(b, f32, 1 / l));
}
