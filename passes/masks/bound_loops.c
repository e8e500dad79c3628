/* SPDX-License-Identifier: Apache-2.0
 *
 * bound-loops: bounds a loop to the steps in which its guard may hold.
 *
 *   for %i = 0 to %n step 64 carry(%a = %x) {
 *     %c = any(%i + range(64) <= %q)             (of many mask)
 *     %b = if %c speculatable { ... } else { yield %a }
 *     yield %b
 *   }
 * becomes
 *   %end = min(%n, %q + 1)
 *   for %i = 0 to %end step 64 carry(%a = %x) { ... }
 *
 * The whole body must be that `if`, and its second region must change nothing.
 * mask_truth.h finds the steps in which the condition may hold: exactly, or as
 * a range that contains all of them; a lower end is rounded up to the next
 * step. If the `if` is speculatable the condition itself is removed; or, if the
 * steps are no single range, it becomes a condition on the index. If part of
 * the condition is unknown (a gather), the rest bounds the loop, and the
 * condition stays. Remarks say what was done, or why not. Tests:
 * test/ir/passes/bound-loops, test/numerics/masks.c, ranges.c.
 */
#include "passes/analysis/int_range.h"
#include "passes/analysis/mask_truth.h"
#include "passes/analysis/match.h"
#include "passes/masks/guarded_step.h"
#include "passes/passes.h"

#include <math.h>

/* ---- The loop's ends ---- */

static void set_end(tc_loop *l, unsigned index, tc_value *v)
{
    const tc_type *type = l->op->in[index]->type;
    v = tc_build(&l->before, TC_CAST, 1, &v, type);
    v->name = index ? "end" : "start";
    tc_op_set_in(l->op, index, v);
}

/* Narrows the loop to the hull; the result lies between the old ends, so an i32
 * holds it. The first step is one of the old steps. */
static void cut(tc_loop *l, tc_hull hull)
{
    tc_builder *b = &l->before;
    tc_value *lo = tc_build_cast(b, l->op->in[0], TC_I64),
             *hi = tc_build_cast(b, l->op->in[1], TC_I64);
    if (hull.high)
        set_end(l, 1,
                tc_build_binary(b, TC_MIN, hi,
                                tc_build_binary(b, TC_MAX, hull.high, lo)));
    if (!hull.low)
        return;
    tc_value *first = tc_build_binary(
        b, TC_MAX, tc_build_binary(b, TC_MIN, hull.low, hi), lo);
    /* Rounds the lower end up to the next step; beyond the end no step is
     * left. */
    tc_value *step = tc_build_cast(b, l->op->in[2], TC_I64);
    tc_value *most = tc_build_with(b, TC_SUB, step, 1);
    tc_value *n = tc_build_binary(b, TC_SUB, first, lo);
    n = tc_build_binary(b, TC_DIV, tc_build_binary(b, TC_ADD, n, most), step);
    tc_value *start =
        tc_build_binary(b, TC_ADD, lo, tc_build_binary(b, TC_MUL, n, step));
    set_end(
        l, 0,
        tc_build_binary(b, TC_MIN, start, tc_build_binary(b, TC_MAX, hi, lo)));
}

/* ---- The question ---- */

/* Is `part` equal to v, or one of the conditions whose conjunction v is? */
static bool has_part(const tc_value *v, const tc_value *part)
{
    const tc_op *op = tc_match_op(v, TC_AND);
    return v == part ||
           (op && (has_part(op->in[0], part) || has_part(op->in[1], part)));
}

static const tc_op *match_any(const tc_value *v)
{
    const tc_op *op = tc_match_op(v, TC_REDUCE);
    return op && tc_op_is_word(op, "kind", "or") ? op : NULL;
}

/* Is v used by nothing but the guard and `all`? */
static bool is_part_only(const tc_value *v, const tc_value *all,
                         const tc_op *question)
{
    tc_each_use (u, v) {
        bool part =
            u->op->code == TC_AND && is_part_only(u->op->out[0], all, question);
        if (v != all && u->op != question && !part)
            return false;
    }
    return true;
}

/* Do all selects of a region that hide elements have the mask `seen`? */
static bool hide_alike(const tc_region *r, const tc_value *seen)
{
    tc_each_nested (op, r) {
        if (op->code == TC_SELECT && op->in[0] != seen &&
            (tc_match_float(op->in[1], -INFINITY) ||
             tc_match_float(op->in[2], -INFINITY)))
            return false;
    }
    return true;
}

/* Is the loop's index a position? */
static bool is_in_tensors(const tc_loop *l)
{
    tc_int_range lo = tc_int_range_of(l->op->in[0]),
                 hi = tc_int_range_of(l->op->in[1]);
    return lo.low >= 0 && hi.low >= 0 && hi.high <= TC_MAX_SIZE;
}

/* Does the guard ask whether any row sees something, and does the step give
 * -inf to all elements that are not seen, hiding nothing else? Then each row by
 * itself may skip the steps in which it sees nothing. */
static bool is_by_rows(const tc_loop *l, const tc_op *branch)
{
    const tc_op *any = match_any(branch->in[0]);
    const tc_op *row = any ? match_any(any->in[0]) : NULL;
    if (!row || tc_op_int(row, "axis") != 1 || !is_in_tensors(l))
        return false;
    tc_each_op (op, branch->regions[0])
        if (op->code == TC_SELECT && has_part(op->in[0], row->in[0]) &&
            tc_match_float(op->in[2], -INFINITY))
            return is_part_only(row->in[0], op->in[0], row) &&
                   hide_alike(l->op->regions[0], op->in[0]);
    return false;
}

static const char *settle(tc_loop *l, tc_op *branch, tc_mask mask)
{
    if (mask.unknown)
        return "each step asks for the rest of the condition";
    if (!tc_op_int(branch, "speculatable"))
        return "each step asks, as the `if` is not speculatable";
    if (tc_truth_is_range(mask.any)) {
        if (is_by_rows(l, branch))
            tc_op_set_attr(l->op, "by_rows",
                           (tc_attr){.kind = TC_ATTR_BOOL, .i = true});
        tc_guarded_step_unguard(branch);
        return "no step asks";
    }
    tc_builder b = tc_builder_before(branch);
    tc_op_set_in(branch, 0, tc_truth_value(l, mask.any, &b));
    return "each step asks by its index alone, as they are no single range";
}

static const char *name_of_ends(tc_hull hull)
{
    if (hull.low && hull.high)
        return "at both ends";
    return hull.low ? "at its start" : "at its end";
}

static bool try_loop(tc_pass_env *env, tc_op *loop)
{
    tc_op *branch = tc_guarded_step_of(loop);
    if (!branch)
        return false;
    tc_context *cx = env->cx;
    tc_loop l;
    const char *why;
    tc_loc loc = branch->loc;
    if (!tc_loop_open(&l, loop, env->scratch, &why)) {
        tc_missed(cx, loc, "bound-loops", "the loop visits all steps: %s", why);
        return false;
    }
    tc_mask mask = tc_mask_of(&l, branch->in[0]);
    if (mask.unknown)
        tc_missed(cx, mask.unknown->loc, "bound-loops",
                  "which steps this leaves empty is not known: %s",
                  tc_truth_why(&l, mask.unknown));
    tc_hull hull = tc_truth_hull(&l, mask.any);
    if (!hull.low && !hull.high && mask.unknown)
        return true; /* what was built is dead */
    const char *asked = settle(&l, branch, mask);
    if (!hull.low && !hull.high) {
        tc_remark(cx, loc, "bound-loops",
                  "no step is surely empty at the ends of the loop; %s", asked);
        return true;
    }
    cut(&l, hull);
    tc_remark(cx, loc, "bound-loops",
              "the loop is cut %s, where the condition surely is false; %s",
              name_of_ends(hull), asked);
    return true;
}

tc_change tc_pass_bound_loops(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, try_loop);
}
