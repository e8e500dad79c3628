/* SPDX-License-Identifier: Apache-2.0
 *
 * near-maxima: where another number will do for a maximum, none is looked for
 * among elements that are known to be bounded.
 *
 *   %s = select(%m, %c * tanh(%x), -inf)
 *   %t = max(%s, axis=1, near=55)
 * becomes
 *   %t = if abs(%c) <= 55.0 {
 *     yield 0.0
 *   } else {
 *     yield max(%s, axis=1)
 *   }
 *
 * What a mask hides, elements of -inf, does not count. Exponentials are
 * relative to maxima so that they stay in range: with a soft cap a step of
 * attention then takes neither maxima nor what comes of new ones (skip_ones.c):
 * H200, bf16, 4 to 5 % faster at D=128, 11 % at D=64.
 *
 * Tests: test/ir/passes/near-maxima.
 */
#include "passes/match.h"
#include "passes/passes.h"

#include <math.h>

static bool is_minus_infinity(const tc_value *v)
{
    tc_scalar c;
    return tc_match_const(v, &c) && isinf(c.f) && c.f < 0;
}

/* From -1 to 1. */
static bool is_within_one(const tc_op *op)
{
    switch (op->code) {
    case TC_TANH:
    case TC_SIN:
    case TC_COS:
    case TC_ERF: return true;
    default: return false;
    }
}

/* The scalar c of v = c * f, f from -1 to 1; NULL: v is nothing like it. */
static tc_value *find_multiple(const tc_value *v)
{
    const tc_op *product = tc_match_op(v, TC_MUL);
    for (unsigned i = 0; product && i < 2; i++) {
        const tc_op *splat = tc_match_op(product->in[i], TC_SPLAT);
        const tc_op *other = product->in[1 - i]->def;
        if (splat && other && is_within_one(other))
            return splat->in[0];
    }
    return NULL;
}

static tc_value *find_bound(const tc_value *v)
{
    const tc_op *select = tc_match_op(v, TC_SELECT);
    if (select && is_minus_infinity(select->in[2]))
        v = select->in[1];
    return find_multiple(v);
}

static void yield_at_end(tc_region *r, const tc_op *from, tc_value *v)
{
    tc_builder b = tc_builder_at_end(r, from->loc);
    tc_build_yield(&b, 1, &v);
}

/* if |bound| <= near { yield 0 } else { yield the maximum } */
static void branch_around(tc_op *max, tc_value *bound)
{
    tc_builder b = tc_builder_before(max);
    tc_value *most =
        tc_build_float(&b, bound->type, (double)tc_op_int(max, "near"));
    tc_value *small =
        tc_build_cmp(&b, "le", tc_build_unary(&b, TC_ABS, bound), most);
    tc_op *branch = tc_op_new(max->func, TC_IF, max->loc, 1, &small, 2);
    tc_op_set_results(branch, 1, &max->out[0]->type);
    tc_op_insert(branch, max->parent, max);
    branch->out[0]->name = max->out[0]->name;
    tc_value_replace(max->out[0], branch->out[0]);
    tc_op_remove(max);
    tc_op_insert(max, branch->regions[1], NULL);
    yield_at_end(branch->regions[1], max, max->out[0]);
    b = tc_builder_at_end(branch->regions[0], max->loc);
    tc_value *zero = tc_build_const(&b, max->out[0]->type, (tc_scalar){.f = 0});
    tc_build_yield(&b, 1, &zero);
}

static bool visit(tc_pass_env *env, tc_op *op)
{
    if (op->code != TC_REDUCE || !tc_op_int(op, "near"))
        return false;
    tc_value *bound = find_bound(op->in[0]);
    if (bound) {
        branch_around(op, bound);
        tc_remark(env->cx, op->loc, "near-maxima",
                  "0 takes the place of this maximum while what bounds its "
                  "elements is at most so far from it");
    }
    /* Other passes take what is left as it is. */
    tc_op_set_attr(op, "near", (tc_attr){.kind = TC_ATTR_NONE});
    return true;
}

tc_change tc_pass_near_maxima(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, visit);
}
