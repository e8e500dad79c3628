/* SPDX-License-Identifier: Apache-2.0
 *
 * branch-masks: branches on the parts of a mask that are the same for all
 * lanes, or surely hold for all lanes of a step.
 *
 *   %s = select (%full or %c), %x, -inf       %s = if %full {
 *                                               yield %x
 *                                     becomes } else {
 *                                               %0 = select %c, %x, -inf
 *                                               yield %0
 *                                             }
 *
 *   %in = %i + range(64) < %n                 %0 = select %c, %x, -inf
 *   %c = %ids[%i + range(64)] == %id          %s = if %i + 63 < %n {
 *   %s = select (%c and %in), %x, -inf          yield %0
 *                                     becomes } else {
 *                                               %1 = select %in, %0, -inf
 *                                               yield %1
 *                                             }
 *
 * elide-masks has branched around masks whose parts all surely hold; here are
 * masks with a part that depends on data. For large tiles only, as in
 * elide-masks. Tests: test/ir/passes/branch-masks, test/machine/kernels.c
 * (documents, lists, bwd_lists).
 */
#include "passes/analysis/mask_truth.h"
#include "passes/analysis/match.h"
#include "passes/masks/mask_branch.h"
#include "passes/masks/uniform_axis.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"

enum { MOST_PARTS = 16 };

/* Conditions of which all hold where the mask does. */
struct parts {
    tc_value *all[MOST_PARTS];
    unsigned n;
};

static bool is_candidate(const tc_op *op)
{
    return op->code == TC_SELECT && op->in[0]->type->kind == TC_TILE &&
           tc_type_count(op->out[0]->type) >= TC_MASK_MIN_ELEMENTS &&
           tc_mask_loop(op);
}

/* ---- A scalar among the conditions ---- */

/* The other operand of `code` if one is a scalar of this step, not of all. */
static tc_value *beside_scalar(const tc_op *select, tc_opcode code,
                               tc_value **scalar)
{
    const tc_op *op = tc_match_op(select->in[0], code);
    for (unsigned i = 0; op && i < 2; i++) {
        const tc_op *splat = tc_match_op(op->in[i], TC_SPLAT);
        tc_scalar c;
        if (!splat || tc_match_const(splat->in[0], &c))
            continue;
        *scalar = splat->in[0];
        return op->in[!i];
    }
    return NULL;
}

static bool branch_on_scalar(tc_op *select)
{
    tc_value *scalar, *rest = beside_scalar(select, TC_OR, &scalar);
    if (!rest)
        return false;
    tc_op_set_in(select, 0, rest);
    tc_mask_branch(select, scalar, select->in[1]);
    return true;
}

/* ---- Conditions that surely hold ---- */

static void add_parts(struct parts *p, tc_value *v)
{
    const tc_op *op = tc_match_op(v, TC_AND);
    if (op && p->n + 2 <= MOST_PARTS) {
        add_parts(p, op->in[0]);
        add_parts(p, op->in[1]);
    } else if (p->n < MOST_PARTS) {
        p->all[p->n++] = v;
    } else {
        p->n = MOST_PARTS + 1; /* too many */
    }
}

/* base + range(n) < limit, or <=, along one axis: the comparison. */
static const tc_op *match_below(tc_value *v, tc_positions *at)
{
    for (unsigned axis = 0; axis < 2; axis++) {
        tc_value *one = tc_match_repeated(v, axis);
        const tc_op *cmp = one ? tc_match_op(one, TC_CMP) : NULL;
        if (cmp && tc_op_word(cmp, "pred")[0] == 'l' &&
            tc_match_positions(cmp->in[0], axis, at) && at->base && !at->most &&
            tc_match_op(cmp->in[1], TC_SPLAT))
            return cmp;
    }
    return NULL;
}

/* Does v hold in all lanes because its last position is below the limit, which
 * i64 tells without wrapping? Positions before it do not wrap then. NULL: v is
 * no such comparison. */
static tc_value *last_is_below(tc_builder *b, tc_value *v)
{
    tc_positions at;
    const tc_op *cmp = match_below(v, &at);
    if (!cmp)
        return NULL;
    tc_value *last = tc_build_cast(b, at.base, TC_I64);
    last = tc_build_with(b, TC_ADD, last, at.n - 1);
    return tc_build_cmp(b, tc_op_word(cmp, "pred"), last,
                        tc_build_cast(b, cmp->in[1]->def->in[0], TC_I64));
}

/* An i1: v holds in all lanes. NULL: nothing is known of v. */
static tc_value *question_of(tc_loop *l, tc_builder *b, tc_value *v)
{
    tc_mask m = tc_mask_of(l, v);
    if (m.all->kind != TC_TRUTH_NEVER)
        return tc_truth_value(l, m.all, b);
    return last_is_below(b, v);
}

/* A comparison of floats, before it is repeated. They come with masks that
 * hold for most rows, where a second select costs more than it saves. */
static bool is_of_floats(const tc_value *v)
{
    while (tc_match_op(v, TC_BROADCAST) || tc_match_op(v, TC_EXPAND_DIMS))
        v = v->def->in[0];
    const tc_op *cmp = tc_match_op(v, TC_CMP);
    return cmp && tc_has_float_lanes(cmp->in[0]);
}

static bool branch_on_sure(tc_pass_env *env, tc_op *select)
{
    tc_loop l;
    const char *why;
    struct parts parts = {.n = 0};
    add_parts(&parts, select->in[0]);
    /* Outside of partial blocks the loop would be split where it changes: twice
     * the code, for one comparison an element. */
    if (select->parent->op->code != TC_IF)
        return false;
    if (parts.n < 2 || parts.n > MOST_PARTS ||
        !tc_loop_open(&l, tc_mask_loop(select), env->scratch, &why))
        return false;
    l.asks_here = true;
    tc_builder b = tc_builder_before(select);
    tc_value *question = NULL, *sure = NULL, *rest = NULL;
    for (unsigned i = 0; i < parts.n; i++) {
        tc_value *q = question_of(&l, &b, parts.all[i]);
        if (!q && is_of_floats(parts.all[i]))
            return false; /* what was built is dead */
        if (q)
            question = tc_build_both(&b, question, q);
        tc_value **to = q ? &sure : &rest;
        *to = tc_build_both(&b, *to, parts.all[i]);
    }
    if (!sure || !rest)
        return false; /* what was built is dead */
    tc_value *x = tc_build_select(&b, rest, select->in[1], select->in[2]);
    tc_op_set_in(select, 0, sure);
    tc_op_set_in(select, 1, x);
    tc_mask_branch(select, question, x);
    return true;
}

/* ---- The walk ---- */

static bool branch_masks_visit(tc_pass_env *env, tc_op *op)
{
    if (!is_candidate(op))
        return false;
    bool by_scalar = branch_on_scalar(op);
    bool by_sure = branch_on_sure(env, op);
    if (by_scalar || by_sure)
        tc_remark(env->cx, op->loc, "branch-masks",
                  "conditions that hold in all lanes of a step are tested "
                  "once a step");
    return by_scalar || by_sure;
}

tc_change tc_pass_branch_masks(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, branch_masks_visit);
}
