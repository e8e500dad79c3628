/* SPDX-License-Identifier: Apache-2.0
 *
 * skip-row-max: skips the running row maximum when scores are provably bounded:
 * exponentials are relative to the maximum of the loop's first steps, if the
 * program permits that many powers of two of slack (max_slack). Later steps
 * compute no maximum.
 *
 *   for .. carry(%top0 = ..) {
 *     %x = %c * tanh(%y)
 *     %s = if %full { yield %x } else { yield select(%m, %x, -inf) }
 *     %top = max(%top0, max(%s, axis=1, max_slack=80))
 *     %p = exp2(%s + (-%top)[:, none])
 *     ..
 *     yield %top ..
 *   }
 * becomes
 *   %small = abs(%c) <= 80
 *   %low = select(%small, abs(%c) - 80, -inf)
 *   for .. carry(%top0 = .., %known0 = false) {
 *     %top, %p = if %full {
 *       yield if %known0 {
 *         yield %top0, exp2(%c * tanh(%y) + (-%top0)[:, none])
 *       } else {
 *         %x = %c * tanh(%y)
 *         %most = max(%top0, max(%x, axis=1))
 *         %top = select(%most < %low, %most + 80, %most)
 *         yield %top, exp2(%x + (-%top)[:, none])
 *       }
 *     } else { .. }
 *     ..
 *     yield %top .., %known0 or %full and %small
 *   }
 *
 * A step in which a mask hides nothing gives each row a maximum. If that is at
 * least %low, no exponential relative to it is above 2^80. A smaller maximum is
 * raised by exactly 80 powers of two: exponentials that are all alike stay
 * powers of two, which no rounding changes. split-index-sets moves the test of
 * masks out of the loop; steps with a mask compute maxima as usual.
 *
 * Exponentials that need not wait for a maximum are computed together with
 * their arguments (codegen/nvptx/math/tanh.c). Claim skip-row-max.
 *
 * Tests: test/ir/passes/skip-row-max.
 */
#include "passes/softmax/skip_row_max.h"

#include "ir/fastmath.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"

#include <math.h>

static const char pass[] = "skip-row-max";

/* ---- Dependents ---- */

bool tc_row_max_depends(const tc_row_max *x, const tc_op *op)
{
    for (unsigned i = 0; i < x->ndependents; i++)
        if (x->dependents[i] == op)
            return true;
    return false;
}

/* Adds op and its dependents in the region; false: too many. */
static bool add_dependents(tc_row_max *x, tc_op *op)
{
    if (tc_row_max_depends(x, op))
        return true;
    if (x->ndependents == TC_MOST_NEAR)
        return false;
    x->dependents[x->ndependents++] = op;
    for (unsigned i = 0; i < op->nout; i++)
        tc_each_use (u, op->out[i])
            if (!add_dependents(x, tc_ancestor_in(op->parent, u->op)))
                return false;
    return true;
}

/* ---- What there is ---- */

static bool is_minus_infinity(const tc_value *v)
{
    tc_scalar c;
    return tc_match_const(v, &c) && isinf(c.f) && c.f < 0;
}

/* The scalar c of v = f * c, where f is from -1 to 1; NULL: v has no such
 * form. */
static tc_value *match_multiple(const tc_value *v)
{
    const tc_op *mul = tc_match_op(v, TC_MUL);
    const tc_op *splat = mul ? tc_match_op(mul->in[1], TC_SPLAT) : NULL;
    return splat && tc_match_op(mul->in[0], TC_TANH) ? splat->in[0] : NULL;
}

/* The same for an `if` between two ways to compute v. */
static bool match_bounded(tc_row_max *x, tc_value *v)
{
    const tc_op *branch = tc_match_op(v, TC_IF);
    x->bounded = v;
    x->bound = match_multiple(v);
    if (branch && branch->nout == 1) {
        const tc_value *arms[2];
        for (unsigned i = 0; i < 2; i++)
            arms[i] = tc_region_terminator(branch->regions[i])->in[0];
        x->fits = branch->in[0];
        x->bound = match_multiple(arms[0]);
        if (match_multiple(arms[1]) != x->bound ||
            !tc_value_is_visible(x->fits, x->loop))
            return false;
    }
    return x->bound && v->def->parent == x->body &&
           tc_value_is_visible(x->bound, x->loop);
}

static bool match_masked(tc_row_max *x, tc_value *v)
{
    tc_op *choice = tc_match_op(v, TC_IF);
    if (choice && choice->nout == 1 && choice->parent == x->body) {
        tc_op *as_it_is = tc_region_terminator(choice->regions[0]);
        const tc_op *masked = tc_region_terminator(choice->regions[1]);
        const tc_op *select = tc_match_op(masked->in[0], TC_SELECT);
        if (select && select->in[1] == as_it_is->in[0] &&
            is_minus_infinity(select->in[2]) &&
            choice->regions[0]->first == as_it_is) {
            x->choice = choice;
            x->full = choice->in[0];
            v = as_it_is->in[0];
        }
    }
    return match_bounded(x, v);
}

/* max(old, m), or a choice between that, or more, and old. */
static bool match_now(tc_row_max *x, tc_value *v)
{
    const tc_op *select = tc_match_op(v, TC_SELECT);
    const tc_value *next = select ? select->in[1] : v;
    const tc_op *add = tc_match_op(next, TC_ADD);
    tc_scalar c = {.f = 0};
    if (add && !tc_match_const(add->in[1], &c))
        return false;
    const tc_op *max = tc_match_op(add ? add->in[0] : next, TC_MAX);
    if (!max || (select && select->in[2] != max->in[0]))
        return false;
    x->more = c.f;
    x->old = max->in[0];
    x->step = max->in[1];
    x->now = v;
    return true;
}

/* Finds this step's maximum: the value that the body yields for it. */
static bool find_now(tc_row_max *x)
{
    const tc_op *yield = tc_region_terminator(x->body);
    for (unsigned i = 0; i < yield->nin; i++) {
        tc_value *v = yield->in[i];
        if (v->type == x->reduce->out[0]->type && v->def &&
            tc_row_max_depends(x, v->def) && match_now(x, v))
            return x->old == tc_slot_arg(x->loop, i);
    }
    return false;
}

static tc_op *only_user(const tc_value *v)
{
    return tc_value_has_one_use(v) ? v->uses->op : NULL;
}

/* v - rows[:, none], as textbooks have it, becomes v + (-rows)[:, none]: the
 * same number. */
static void negate_rows(const tc_value *v)
{
    tc_each_use (u, v) {
        tc_op *sub = u->op;
        tc_op *all = sub->code == TC_SUB && u->index == 0
                         ? tc_match_op(sub->in[1], TC_BROADCAST)
                         : NULL;
        tc_op *op = all ? tc_match_op(all->in[0], TC_EXPAND_DIMS) : NULL;
        if (!op)
            continue;
        tc_builder b = tc_builder_before(sub);
        tc_value *rows = tc_build_unary(&b, TC_NEG, op->in[0]);
        rows = tc_build_like(&b, op, &rows, op->out[0]->type);
        rows = tc_build_like(&b, all, &rows, all->out[0]->type);
        b.fastmath = tc_op_own_fastmath(sub);
        tc_value *sum = tc_build_binary(&b, TC_ADD, sub->in[0], rows);
        sum->name = sub->out[0]->name;
        tc_value_replace(sub->out[0], sum);
        tc_op_erase(sub);
        return;
    }
}

/* exp2(v + rows), rows the negative of the maximum times a number. */
static bool match_power(tc_row_max *x, tc_op *sum)
{
    tc_op *power = sum->code == TC_ADD ? only_user(sum->out[0]) : NULL;
    const tc_op *op =
        sum->code == TC_ADD ? tc_match_op(sum->in[1], TC_BROADCAST) : NULL;
    op = op ? tc_match_op(op->in[0], TC_EXPAND_DIMS) : NULL;
    op = op ? tc_match_op(op->in[0], TC_NEG) : NULL;
    if (!op || !power || power->code != TC_EXP2 || power->parent != x->body)
        return false;
    const tc_value *v = op->in[0];
    const tc_op *mul = tc_match_op(v, TC_MUL);
    tc_scalar c = {.f = 1};
    if (mul && !tc_match_const(mul->in[1], &c))
        return false;
    v = mul ? mul->in[0] : v;
    const tc_op *max = v == x->now ? NULL : tc_match_op(v, TC_MAX);
    x->power = power;
    x->rows = sum->in[1];
    x->unit = c.f;
    return (max ? max->in[0] : v) == x->now && c.f > 0;
}

/* v has two uses: the maximum and the exponentials. */
static bool find_power(tc_row_max *x)
{
    tc_each_use (u, x->reduce->in[0])
        if (u->op != x->reduce && (x->power || !match_power(x, u->op)))
            return false;
    return x->power != NULL;
}

/* Maxima that grow keep 24 octaves above the smallest f32. */
static bool has_room(const tc_row_max *x)
{
    enum { OCTAVES = 102 };
    return x->more >= 0 && x->more * x->unit + x->octaves <= OCTAVES;
}

/* Do exponentials scale the maximum by the same factor as the values? */
static bool match_step(const tc_row_max *x)
{
    const tc_value *most = x->reduce->out[0];
    const tc_op *mul = tc_match_op(x->step, TC_MUL);
    tc_scalar c = {.f = 1};
    if (mul && !tc_match_const(mul->in[1], &c))
        return false;
    return (mul ? mul->in[0] : x->step) == most &&
           fabs(c.f * x->unit - 1) < 1e-6;
}

static tc_op *first_of_bounded(const tc_row_max *x)
{
    tc_op *op = x->bounded->def;
    if (op->code == TC_IF)
        return op;
    tc_op *tanh = op->in[0]->def, *mul = tc_match_op(tanh->in[0], TC_MUL);
    if (tanh->parent != x->body)
        return op;
    return mul && mul->parent == x->body ? mul : tanh;
}

static bool are_pure(const tc_row_max *x)
{
    for (const tc_op *op = x->body->first; op != x->power; op = op->next)
        if (tc_row_max_depends(x, op) && !tc_op_is_pure(op))
            return false;
    return true;
}

/* NULL: all is as the picture above has it. Else the reason of the remark. */
static const char *find_all(tc_row_max *x)
{
    x->loop = x->body->op;
    if (!x->loop || x->loop->code != TC_FOR)
        return "it is not in the body of a `for`";
    if (!match_masked(x, x->reduce->in[0]))
        return "its operand has no known bound, expected %c * tanh(..) with "
               "%c from before the loop, or a mask's select of that and -inf";
    if (!add_dependents(x, first_of_bounded(x)))
        return "too many ops of the step depend on its operand";
    if (!find_now(x))
        return "the loop does not carry max(%carried, it)";
    if (!find_power(x))
        return "its operand s is used otherwise than by one "
               "exp2(fma(s, c, -(max * c)[:, none])) or exp2(s - max[:, none]) "
               "of "
               "the carried maximum";
    if (!match_step(x))
        return "the exponential takes its operand times another factor than "
               "the maximum";
    if (!has_room(x))
        return "max_slack, and what is added to the maximum, is more than 102 "
               "powers of two";
    return are_pure(x) ? NULL
                       : "the step has effects between its operand and "
                         "the exponential";
}

/* ---- The pass ---- */

static tc_op *find_near(const tc_region *r)
{
    tc_each_nested (op, r) {
        if (op->code == TC_REDUCE && tc_op_int(op, "max_slack"))
            return op;
    }
    return NULL;
}

tc_change tc_pass_skip_row_max(tc_func *f, tc_pass_env *env)
{
    bool changed = false;
    for (tc_op *op; (op = find_near(f->body)); changed = true) {
        tc_row_max x = {.reduce = op,
                        .body = op->parent,
                        .octaves = (double)tc_op_int(op, "max_slack")};
        /* The attribute goes: other passes take what is left as it is. */
        tc_op_set_attr(op, "max_slack", (tc_attr){.kind = TC_ATTR_NONE});
        if (env->target->wgmma)
            negate_rows(op->in[0]);
        const char *why =
            env->target->wgmma ? find_all(&x) : "this target has no wgmma";
        if (why) {
            tc_missed(env->cx, op->loc, pass,
                      "max_slack has no effect, each step computes the "
                      "maximum: %s",
                      why);
            continue;
        }
        tc_remark(env->cx, op->loc, pass,
                  "later steps skip the row maximum: that of the first steps "
                  "will do");
        tc_row_max_expand(&x);
    }
    return changed ? TC_CHANGED : TC_UNCHANGED;
}
