/* SPDX-License-Identifier: Apache-2.0
 *
 * skip-rescale: a warp skips the multiplication of accumulators by row factors
 * if all of them are 1.
 *
 *   %top = select %kept, %top0, %new
 *   %alpha = exp2(%top0 * %c - %top * %c)
 *   .. broadcast of %alpha ..                     ..
 *   %acc1 = mul %acc, %factors           =>       %acc1 = mul %acc, %factors
 *                                                     skip_rescale(true)
 *
 * Such a factor is exactly 1 wherever the old maximum was kept, also by a
 * branch (skip_row_max.c). The code tests all rows of a warp, and branches
 * (codegen/nvptx). In a step of attention in 8 bits the multiplication is one
 * instruction in six at D=128, one in three at D=256. Three groups gain, and so
 * do heads of 256 (claim skip-rescale); two groups at D=128 lose: the kernel's
 * author chooses. Tests: test/ir/passes/skip-rescale.
 */
#include "passes/analysis/match.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"

#include "ir/types/layout.h"

static const char pass[] = "skip-rescale";

static bool may_be_same(const tc_value *x, const tc_value *y, unsigned depth);

/* In one of its branches. */
static bool may_branch_be_same(const tc_value *x, const tc_op *branch,
                               unsigned result, unsigned depth)
{
    for (unsigned i = 0; i < branch->nregions; i++) {
        const tc_op *yield = tc_region_terminator(branch->regions[i]);
        if (may_be_same(x, yield->in[result], depth))
            return true;
    }
    return false;
}

/* May x equal y because y is a choice between x and another value? A maximum
 * does not count: among 16 rows there is mostly one that grows. */
static bool may_be_same(const tc_value *x, const tc_value *y, unsigned depth)
{
    enum { DEEPEST = 6 };
    if (x == y)
        return true;
    const tc_op *a = x->def, *b = y->def;
    if (!b || depth++ == DEEPEST)
        return false;
    if (b->code == TC_SELECT)
        return may_be_same(x, b->in[1], depth) ||
               may_be_same(x, b->in[2], depth);
    if (b->code == TC_IF)
        return may_branch_be_same(x, b, y->index, depth);
    if (b->code == TC_MAX) /* .. except for one with a bound */
        return (b->in[0] != x && may_be_same(x, b->in[0], depth)) ||
               (b->in[1] != x && may_be_same(x, b->in[1], depth));
    if (!a || a->code != b->code || a->nin != b->nin || a->nin == 0 ||
        a->nregions || !tc_op_is_pure(a))
        return false;
    for (unsigned i = 0; i < a->nin; i++)
        if (!may_be_same(a->in[i], b->in[i], depth))
            return false;
    return true;
}

/* 2 (or e) to a difference that may be 0. */
static bool may_be_one(const tc_value *v)
{
    const tc_op *power = v->def;
    if (!power || (power->code != TC_EXP2 && power->code != TC_EXP))
        return false;
    const tc_op *sub = tc_match_op(power->in[0], TC_SUB);
    return sub && may_be_same(sub->in[0], sub->in[1], 0);
}

/* A factor for each row, the same in all columns. */
static bool is_of_rows(const tc_value *v)
{
    const tc_op *op = tc_match_op(v, TC_BROADCAST);
    op = op ? tc_match_op(op->in[0], TC_EXPAND_DIMS) : NULL;
    return op && tc_op_int(op, "axis") == 1 && may_be_one(op->in[0]);
}

/* The tile is large enough to be worth the test. */
static bool is_large(const tc_type *t)
{
    return t->kind == TC_TILE && t->layout && t->elem->kind == TC_F32 &&
           tc_layout_size(t->layout, TC_REGISTER) >= TC_RESCALE_MIN_REGISTERS;
}

static bool visit_mul(tc_pass_env *env, tc_op *mul)
{
    if (tc_op_has_attr(mul, "skip_rescale") || !is_large(mul->out[0]->type))
        return false;
    unsigned rows = is_of_rows(mul->in[1]);
    if (!rows && !is_of_rows(mul->in[0]))
        return false;
    tc_value *tile = mul->in[!rows], *factors = mul->in[rows];
    tc_op_set_in(mul, 0, tile);
    tc_op_set_in(mul, 1, factors);
    tc_op_set_attr(mul, "skip_rescale",
                   (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
    tc_remark(env->cx, mul->loc, pass,
              "warps whose factors are all 1 branch around this product");
    return true;
}

static bool skip_rescale_visit(tc_pass_env *env, tc_region *r, bool in_loop)
{
    bool changed = false;
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nregions; i++)
            changed |= skip_rescale_visit(env, op->regions[i],
                                          in_loop || op->code == TC_FOR);
        if (in_loop && op->code == TC_MUL)
            changed |= visit_mul(env, op);
    }
    return changed;
}

tc_change tc_pass_skip_rescale(tc_func *f, tc_pass_env *env)
{
    return env->target->wgmma && skip_rescale_visit(env, f->body, false)
               ? TC_CHANGED
               : TC_UNCHANGED;
}
