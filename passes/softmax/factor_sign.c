/* SPDX-License-Identifier: Apache-2.0
 *
 * A factor of scores whose sign is unknown, such as the scale of attention that
 * a kernel takes as an argument:
 *
 *   %x = %d * %f
 * becomes
 *   %g = select(%f == 0.0, 1e-37, abs(%f))
 *   %e = if %f < 0.0 { yield -%d } else { yield %d }
 *   %x = %e * %g
 *
 * %g keeps the order of what it multiplies, so it can go past masks and maxima
 * (fuse_exp2_scale.c). With the flag nneg there is no branch, and %e is %d: the
 * branch costs 2 to 10 % of a step of attention, less than a product or select
 * an element. An element below 1e30 times 1e-37 is 0 as
 * an exponent, whose power is 1. If %f is an infinity or NaN, so is %g, and
 * elements that a mask has made -inf may become NaN; reassoc permits that, as
 * for a factor that is distributed over a sum.
 */
#include "passes/analysis/match.h"
#include "passes/target/exponents.h"

static const double TINY = 1e-37;

/* select(f == 0, TINY, abs(f)) */
bool tc_is_magnitude(const tc_value *v)
{
    tc_scalar x;
    const tc_op *select = tc_match_op(v, TC_SELECT);
    const tc_op *zero = select ? tc_match_op(select->in[0], TC_CMP) : NULL;
    const tc_op *abs = select ? tc_match_op(select->in[2], TC_ABS) : NULL;
    return abs && zero && tc_op_is_word(zero, "pred", "eq") &&
           zero->in[0] == abs->in[0] && tc_match_float(zero->in[1], 0) &&
           tc_match_const(select->in[1], &x) && x.f > 0;
}

static tc_value *magnitude(tc_builder *b, tc_value *f)
{
    tc_value *zero = tc_build_float(b, f->type, 0);
    tc_value *tiny = tc_build_float(b, f->type, TINY);
    return tc_build_select(b, tc_build_cmp(b, "eq", f, zero), tiny,
                           tc_build_unary(b, TC_ABS, f));
}

static tc_value *with_sign_of(tc_builder *b, tc_value *f, tc_value *d)
{
    tc_value *zero = tc_build_float(b, f->type, 0);
    tc_value *negative = tc_build_cmp(b, "lt", f, zero);
    tc_op *branch = tc_build_if(b, negative, 1, &d->type);
    for (unsigned i = 0; i < 2; i++) {
        tc_builder arm = tc_builder_at_end(branch->regions[i], b->loc);
        tc_value *v = i == 0 ? tc_build_unary(&arm, TC_NEG, d) : d;
        tc_build_yield(&arm, 1, &v);
    }
    return branch->out[0];
}

tc_value *tc_build_by_magnitude(tc_builder *b, tc_value *d, tc_value *f,
                                bool is_signed)
{
    tc_value *g = magnitude(b, f), *e = is_signed ? with_sign_of(b, f, d) : d;
    return tc_build_binary(b, TC_MUL, e, tc_build(b, TC_SPLAT, 1, &g, e->type));
}
