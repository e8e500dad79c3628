/* SPDX-License-Identifier: Apache-2.0
 *
 * pingpong: ping-pong scheduling: warp groups issue products one group after
 * another, as `pingpong(..)` says: `once` of a product, that one;
 * `each_issue` of a loop, those of each step, or `each_result`, the same until
 * the first of them have ended. plan-schedule has the reasons; overlap-mma
 * hands `once` of a loop on to the product before it.
 *
 *   order_wait                          (once)
 *   %f0 = mma %q, %k0, %zero instr(m64k16) async(true) pingpong(once)
 *   %f = mma_wait %f0 pending(0)
 *   order_arrive
 *   ..
 *   for .. schedule(modulo) {
 *     mbarrier_wait %k.full, ..
 *     order_wait                        (each step)
 *     %s0 = mma %q, %k, %zero instr(m64k16) async(true)
 *     mbarrier_wait %v.full, ..
 *     %acc0 = mma %p0, %v, %a0 instr(m64k16) async(true)
 *     order_arrive                      (each_issue)
 *     %s = mma_wait %s0 pending(1)
 *     order_arrive                      (each_result)
 *     ..
 *
 * All groups take the same turns, also for steps that they skip: those have
 * theirs already (trim-warpgroups). Loops that have turns stay as they are.
 * Tests: test/ir/passes/pingpong.
 */
#include "passes/analysis/match.h"
#include "passes/analysis/roles.h"
#include "passes/instructions/mma.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"
#include "passes/warpspec/trim_warpgroups.h"

static const char pass[] = "pingpong";

static bool is_flying(const tc_op *op)
{
    return tc_is_group_mma(op) && tc_op_int(op, "async");
}

static void insert(tc_opcode code, const tc_op *at, tc_op *before)
{
    tc_op_insert(tc_op_new(before->func, code, at->loc, 0, NULL, 0),
                 before->parent, before);
}

static tc_op *after_wait(tc_op *op)
{
    while (op->code != TC_MMA_WAIT)
        op = op->next;
    return op->next;
}

/* ---- The first of a loop ---- */

/* Groups that skip the loop pass their turn on, too. */
static void build_begin(tc_op *product, const tc_op *wait)
{
    insert(TC_ORDER_WAIT, product, product);
    insert(TC_ORDER_ARRIVE, product, wait->next);
    for (const tc_region *r = product->parent; r->op->code == TC_IF;
         r = r->op->parent) {
        tc_region *other = r->op->regions[r == r->op->regions[0]];
        tc_builder b = tc_builder_before(other->first);
        tc_build_turn(&b);
    }
}

static bool visit_begin(tc_pass_env *env, tc_op *product)
{
    const tc_op *wait = product;
    while (wait && wait->code != TC_MMA_WAIT)
        wait = wait->next;
    if (!wait) {
        tc_missed(env->cx, product->loc, pass,
                  "groups of warps begin together: no mma_wait follows the "
                  "product in its region");
        return false;
    }
    if (wait->next->code == TC_ORDER_ARRIVE)
        return false;
    build_begin(product, wait);
    tc_remark(env->cx, product->loc, pass,
              "groups of warps begin one after the other, so that the "
              "products of one run while another computes");
    return true;
}

/* ---- The loop ---- */

typedef struct issue {
    tc_op *first, *last;
} issue;

/* The products that a step begins with, up to the first wait for one; false:
 * there are none. */
static bool find_issue(const tc_op *loop, issue *x)
{
    *x = (issue){0};
    tc_each_op (op, loop->regions[0]) {
        if (op->code == TC_MMA_WAIT)
            break;
        if (!is_flying(op))
            continue;
        x->first = x->first ? x->first : op;
        x->last = op;
    }
    return x->first;
}

static bool visit_steps(tc_pass_env *env, tc_op *loop)
{
    issue x;
    if (tc_region_has_op(loop->regions[0], TC_ORDER_WAIT))
        return false;
    if (!find_issue(loop, &x)) {
        tc_missed(env->cx, loop->loc, pass,
                  "groups of warps take no turns: a step waits before it "
                  "begins a product");
        return false;
    }
    bool late = tc_op_is_word(loop, "pingpong", "each_result");
    insert(TC_ORDER_WAIT, x.first, x.first);
    insert(TC_ORDER_ARRIVE, x.last, late ? after_wait(x.last) : x.last->next);
    tc_remark(env->cx, loop->loc, pass,
              "groups of warps begin their products one after the other, so "
              "that one's run while another computes");
    return true;
}

/* ---- Steps that groups skip ---- */

static bool is_skipped_with_turn(const tc_op *op)
{
    return op->code == TC_FOR &&
           (tc_op_is_word(op, "schedule", "drain_first") ||
            tc_op_is_word(op, "schedule", "drain_last")) &&
           tc_region_has_op(op->regions[0], TC_ORDER_WAIT);
}

static bool is_trimmed(const tc_op *op)
{
    return op->code == TC_FOR && tc_op_is_word(op, "trim", "groups");
}

static bool lacks_turns(const tc_op *op)
{
    issue x;
    return is_trimmed(op) &&
           !(tc_takes_turns(op) && tc_op_is_word(op, "schedule", "modulo") &&
             find_issue(op, &x));
}

static bool drop_turns(tc_pass_env *env, tc_op *op)
{
    if (is_trimmed(op)) {
        tc_missed(env->cx, op->loc, pass,
                  "groups of warps take no turns: they skip steps of a loop "
                  "whose other steps have none");
        tc_op_set_word(op, "pingpong", "none");
    }
    if (op->code == TC_ORDER_WAIT || op->code == TC_ORDER_ARRIVE)
        tc_op_erase(op);
    return true;
}

tc_change tc_pass_pingpong(tc_func *f, tc_pass_env *env)
{
    const tc_op *roles = tc_roles_of(f);
    if (!roles || tc_warpgroups(f->warps) < 2)
        return TC_UNCHANGED;
    /* Turns of all steps, or of none: also of those that groups skip. */
    tc_region *r = tc_consumers(roles);
    bool changed = tc_region_any(r, lacks_turns) &&
                   tc_region_any(r, is_skipped_with_turn) &&
                   tc_visit_ops(f, env, drop_turns) == TC_CHANGED;
    tc_each_nested_first (op, r) {
        if (is_flying(op) && tc_op_is_word(op, "pingpong", "once"))
            changed |= visit_begin(env, op);
        if (op->code == TC_FOR && tc_takes_turns(op) &&
            tc_op_is_word(op, "schedule", "modulo"))
            changed |= visit_steps(env, op);
    }
    return changed ? TC_CHANGED : TC_UNCHANGED;
}
