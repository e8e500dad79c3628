/* SPDX-License-Identifier: Apache-2.0
 *
 * elide-masks: does not compute a mask in the steps of a loop in which it
 * surely holds in all lanes.
 *
 *   for %i = 0 to %n step 64 {                %full = ...
 *     %c = %i + range(64) <= %q               for %i = 0 to %n step 64 {
 *     %s = select %c, %x, -inf       becomes    %s = if %i < %full {
 *                                                 yield %x
 *                                               } else {
 *                                                 %c = %i + range(64) <= %q
 *                                                 %0 = select %c, %x, -inf
 *                                                 yield %0
 *                                               }
 *
 * A condition on the index decides for all lanes at once (mask_truth.h). Only
 * for large tiles: masking a small tile is faster than the test. Ops that only
 * the mask needs move along. So do counts of a mask's lanes. Tests:
 * test/ir/passes/elide-masks, test/numerics/masks.c.
 */
#include "passes/analysis/mask_truth.h"
#include "passes/analysis/match.h"
#include "passes/masks/mask_branch.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"

/* Has the select been elided already: is it the value of an `if` whose other
 * region yields one of the select's operands? */
static bool is_elided_select(const tc_op *select)
{
    const tc_op *owner = select->parent->op;
    if (!owner || owner->code != TC_IF || owner->nout != 1)
        return false;
    const tc_value *other = tc_region_terminator(owner->regions[0])->in[0];
    return select->parent == owner->regions[1] &&
           (other == select->in[1] || other == select->in[2]);
}

/* The same for a count; the other region yields a constant. */
static bool is_elided_count(const tc_op *count)
{
    const tc_op *owner = count->parent->op;
    tc_scalar c;
    return owner && owner->code == TC_IF && owner->nout == 1 &&
           count->parent == owner->regions[1] &&
           tc_match_const(tc_region_terminator(owner->regions[0])->in[0], &c);
}

/* A count of a mask's lanes along an axis. */
static bool is_count(const tc_op *op)
{
    if (op->code != TC_REDUCE || op->nin != 1 ||
        !tc_op_is_word(op, "kind", "sum"))
        return false;
    const tc_op *cast = tc_match_op(op->in[0], TC_CAST);
    return cast && tc_lane_kind(cast->in[0]) == TC_I1 &&
           tc_type_count(op->in[0]->type) >= TC_MASK_MIN_ELEMENTS &&
           !is_elided_count(op);
}

static bool is_candidate(const tc_op *op)
{
    return op->code == TC_SELECT && op->in[0]->type->kind == TC_TILE &&
           tc_type_count(op->out[0]->type) >= TC_MASK_MIN_ELEMENTS &&
           !is_elided_select(op);
}

/* The same for a count: the side of the axis. */
static bool try_count(tc_pass_env *env, tc_op *count)
{
    tc_loop l;
    const char *why;
    tc_op *loop = tc_mask_loop(count);
    tc_value *mask = count->in[0]->def->in[0];
    if (!loop || tc_value_is_visible(mask, loop) ||
        !tc_loop_open(&l, loop, env->scratch, &why))
        return false;
    tc_mask m = tc_mask_of(&l, mask);
    if (m.all->kind == TC_TRUTH_NEVER)
        return true; /* what was built is dead */
    tc_builder b = tc_builder_before(count);
    tc_value *side = tc_build_int_const(
        &b, count->out[0]->type,
        tc_dim_value(count->in[0]->type->dims[tc_op_int(count, "axis")]));
    tc_mask_branch(count, tc_truth_value(&l, m.all, &b), side);
    tc_remark(
        env->cx, count->loc, "elide-masks",
        "steps in which the mask surely holds in all lanes skip the count");
    return true;
}

/* The steps in which the select surely is one of its operands, and which one.
 * If that operand is a constant nothing is saved: NULL, as if never. */
static const tc_truth *when_surely(tc_loop *l, const tc_op *select,
                                   tc_mask mask, tc_value **x)
{
    tc_scalar c;
    const tc_truth *all[] = {mask.all, tc_truth_not(l, mask.any)};
    for (unsigned i = 0; i < 2; i++) {
        *x = select->in[1 + i];
        if (all[i]->kind != TC_TRUTH_NEVER && !tc_match_const(*x, &c))
            return all[i];
    }
    return NULL;
}

/* Conditions on floats depend on data: they are expected to stay. */
static bool is_of_floats(const tc_value *unknown)
{
    const tc_op *cmp = tc_match_op(unknown, TC_CMP);
    return cmp && tc_has_float_lanes(cmp->in[0]);
}

static void explain(tc_pass_env *env, tc_loop *l, const tc_op *select,
                    tc_mask mask)
{
    if (!mask.unknown)
        tc_missed(env->cx, select->loc, "elide-masks",
                  "the mask is applied in every step: in none it is sure to "
                  "hold in all lanes");
    else if (!is_of_floats(mask.unknown))
        tc_missed(env->cx, mask.unknown->loc, "elide-masks",
                  "the mask is applied in every step: %s",
                  tc_truth_why(l, mask.unknown));
}

static bool try_select(tc_pass_env *env, tc_op *select)
{
    tc_loop l;
    const char *why;
    tc_op *loop = tc_mask_loop(select);
    if (!loop || !is_candidate(select) ||
        tc_value_is_visible(select->in[0], loop))
        return false;
    if (!tc_loop_open(&l, loop, env->scratch, &why)) {
        tc_missed(env->cx, select->loc, "elide-masks",
                  "the mask is applied in every step of the loop: %s", why);
        return false;
    }
    tc_value *x;
    l.asks_here = true;
    tc_mask mask = tc_mask_of(&l, select->in[0]);
    const tc_truth *when = when_surely(&l, select, mask, &x);
    if (!when) {
        explain(env, &l, select, mask);
        return true; /* what was built is dead */
    }
    tc_builder b = tc_builder_before(select);
    tc_mask_branch(select, tc_truth_value(&l, when, &b), x);
    tc_remark(env->cx, select->loc, "elide-masks",
              "steps in which the mask surely holds in all lanes skip it");
    return true;
}

static bool elide_masks_visit(tc_pass_env *env, tc_op *op)
{
    if (op->code == TC_SELECT)
        return try_select(env, op);
    return is_count(op) && try_count(env, op);
}

tc_change tc_pass_elide_masks(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, elide_masks_visit);
}
