/* SPDX-License-Identifier: Apache-2.0
 *
 * pingpong: ping-pong scheduling: warp groups issue products one group after
 * another, as `pingpong(..)` of the loop says: `once`, the first product
 * before the loop, `each_issue`, those of each step, or `each_result`, the
 * same until the first of them have ended. plan-schedule has the reasons.
 *
 *   order_wait                          (once)
 *   %f0 = mma %q, %k0, %zero instr(m64k16) async(true)
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
 * All groups take the same turns, also for steps that they skip
 * (trim-warpgroups). Loops that have turns stay as they are. Tests:
 * test/ir/passes/pingpong.
 */
#include "passes/analysis/match.h"
#include "passes/analysis/roles.h"
#include "passes/instructions/mma.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"

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

/* The steps that some groups skip before a loop (`first`), or after it: the
 * next op with regions; NULL: there are none. */
static tc_op *drain_next_to(const tc_op *at, bool first)
{
    do
        at = first ? at->prev : at->next;
    while (at && at->nregions == 0);
    const char *drain = first ? "drain_first" : "drain_last";
    bool fits =
        at && at->code == TC_FOR && tc_op_is_word(at, "schedule", drain);
    return fits ? (tc_op *)at : NULL;
}

static void build_turn(tc_builder *b)
{
    tc_build_effect(b, TC_ORDER_WAIT, 0, NULL);
    tc_build_effect(b, TC_ORDER_ARRIVE, 0, NULL);
}

/* Builds a turn before b that is taken only if `smaller` is less than
 * `larger`. */
static void build_turn_if(tc_builder *b, tc_value *smaller, tc_value *larger)
{
    tc_value *c = tc_build_cmp(b, "lt", smaller, larger);
    tc_builder then;
    tc_build_when(b, c, &then);
    build_turn(&then);
}

/* A group takes its turns for steps that it skips too, before it waits for
 * anything that may need another group's turn. The first step of all has no
 * turn, nor has the first step that a group executes: a group that begins later
 * is one step ahead, and has one more turn at the end. */
static void make_up_for(tc_op *loop)
{
    tc_op *at = loop;
    tc_op *first = drain_next_to(at, true), *last = drain_next_to(at, false);
    if (!first && !last && loop->parent->op->code == TC_IF) {
        at = loop->parent->op;
        first = drain_next_to(at, true);
        last = drain_next_to(at, false);
    }
    if (last) {
        tc_builder b = tc_builder_before(last->regions[0]->first);
        build_turn(&b);
    }
    if (first) {
        tc_builder b = tc_builder_before(first->regions[0]->first);
        build_turn_if(&b, first->in[0], first->regions[0]->args[0]);
        b = tc_builder_before((last ? last : at)->next);
        build_turn_if(&b, first->in[0], first->in[1]);
    }
}

static tc_op *after_wait(tc_op *op)
{
    while (op->code != TC_MMA_WAIT)
        op = op->next;
    return op->next;
}

/* ---- The first of a loop ---- */

typedef struct begin {
    tc_op *product, *wait;
} begin;

/* The prologue's product before the loop, and its wait; false: there is
 * none. */
static bool find_begin(const tc_op *loop, begin *out)
{
    *out = (begin){0};
    for (tc_op *op = loop->prev; op && !tc_op_is_loop(op); op = op->prev) {
        if (op->code == TC_MMA_WAIT)
            out->wait = op;
        if (is_flying(op)) {
            out->product = op;
            return out->wait != NULL;
        }
    }
    return false;
}

/* Groups that skip the loop pass their turn on, too. */
static void build_begin(const begin *x)
{
    insert(TC_ORDER_WAIT, x->product, x->product);
    insert(TC_ORDER_ARRIVE, x->product, x->wait->next);
    for (const tc_region *r = x->product->parent; r->op->code == TC_IF;
         r = r->op->parent) {
        tc_region *other = r->op->regions[r == r->op->regions[0]];
        tc_builder b = tc_builder_before(other->first);
        build_turn(&b);
    }
}

static bool visit_begin(tc_pass_env *env, const tc_op *loop)
{
    begin x;
    if (!find_begin(loop, &x)) {
        tc_missed(env->cx, loop->loc, pass,
                  "groups of warps begin together: no product before the loop "
                  "is waited for");
        return false;
    }
    if (x.wait->next->code == TC_ORDER_ARRIVE)
        return false;
    build_begin(&x);
    tc_remark(env->cx, loop->loc, pass,
              "groups of warps begin one after the other, so that the "
              "products of one run while another computes");
    return true;
}

/* ---- The loop ---- */

/* The products that a step begins with, up to the first wait for one. */
static bool visit_steps(tc_pass_env *env, tc_op *loop)
{
    tc_op *first = NULL, *last = NULL;
    tc_each_op (op, loop->regions[0]) {
        if (op->code == TC_ORDER_WAIT)
            return false;
        if (op->code == TC_MMA_WAIT)
            break;
        if (!is_flying(op))
            continue;
        first = first ? first : op;
        last = op;
    }
    if (!first) {
        tc_missed(env->cx, loop->loc, pass,
                  "groups of warps take no turns: a step waits before it "
                  "begins a product");
        return false;
    }
    bool late = tc_op_is_word(loop, "pingpong", "each_result");
    insert(TC_ORDER_WAIT, first, first);
    insert(TC_ORDER_ARRIVE, last, late ? after_wait(last) : last->next);
    make_up_for(loop);
    tc_remark(env->cx, loop->loc, pass,
              "groups of warps begin their products one after the other, so "
              "that one's run while another computes");
    return true;
}

static bool visit_loop(tc_pass_env *env, tc_op *loop)
{
    if (tc_op_is_word(loop, "pingpong", "once"))
        return visit_begin(env, loop);
    bool steps = tc_op_is_word(loop, "pingpong", "each_issue") ||
                 tc_op_is_word(loop, "pingpong", "each_result");
    return steps && visit_steps(env, loop);
}

static bool pingpong_visit(tc_pass_env *env, tc_region *r)
{
    bool changed = false;
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nregions; i++)
            changed |= pingpong_visit(env, op->regions[i]);
        if (op->code == TC_FOR && tc_op_is_word(op, "schedule", "modulo"))
            changed |= visit_loop(env, op);
    }
    return changed;
}

tc_change tc_pass_pingpong(tc_func *f, tc_pass_env *env)
{
    const tc_op *roles = tc_roles_of(f);
    if (!roles || tc_warpgroups(f->warps) < 2)
        return TC_UNCHANGED;
    return pingpong_visit(env, tc_consumers(roles)) ? TC_CHANGED : TC_UNCHANGED;
}
