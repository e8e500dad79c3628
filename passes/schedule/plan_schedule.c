/* SPDX-License-Identifier: Apache-2.0
 *
 * plan-schedule: decides the schedule of the loops in which warp groups
 * multiply, and writes it down as attributes of the loops. Later passes obey.
 *
 *   for %n0 = %lo to %hi step 128 by_rows(true) {
 *     %s = mma %q, %k, %zero instr(m64k16)
 *     ..
 *
 * becomes
 *
 *   for %n0 = %lo to %hi step 128 pingpong(once) trim(none) by_rows(true) {
 *
 * What the text says already stays. trim: trim-warpgroups. pingpong:
 *
 * Groups that start together get their products together, and then all compute
 * the operands of the next ones at the same time, while the tensor cores are
 * idle. With ping-pong scheduling one group computes while the products of
 * another run.
 *
 * `once`: two groups that started in turn stay apart, and turns in each step
 * would cost them time (claim pingpong-begin). Loops whose length differs from
 * tile to tile lose if only their first products are in turn (claim
 * pingpong-causal): they have turns in each step, or none.
 *
 * `each_issue`: those loops, and three groups, have turns in each step if the
 * special functions of a step take between 40 % and 250 % of the cycles of its
 * products (claim pingpong-sfu): with more, a group always needs the units for
 * special functions. 8-bit products must take 1152 cycles (claim
 * pingpong-narrow).
 *
 * `each_result`: if three groups add a product to the first one, a linear bias
 * (linear_bias.c), each ends its turn after the wait for both (claim
 * pingpong-ramp).
 *
 * Tests: test/ir/passes/plan-schedule, pingpong, trim-warpgroups.
 */
#include "passes/analysis/match.h"
#include "passes/analysis/roles.h"
#include "passes/analysis/tile_loop.h"
#include "passes/passes.h"
#include "passes/persistent/prefetch_tile.h"
#include "passes/schedule/cost.h"
#include "passes/schedule/plan.h"
#include "passes/warpspec/trim_warpgroups.h"

/* ---- Ping-pong ---- */

static bool has_three_groups(const tc_op *loop)
{
    return tc_warpgroups(loop->func->warps) >= TC_PINGPONG_THREE_GROUPS;
}

/* At this load some group always wants the special functions. */
static bool wants_special(const tc_step_cost *c)
{
    return 100 * c->special > TC_PINGPONG_MAX_PERCENT * c->products;
}

static bool is_worth_it(const tc_step_cost *c)
{
    return 100 * c->special >= TC_PINGPONG_MIN_PERCENT * c->products &&
           !wants_special(c) &&
           (!c->narrow || c->products >= TC_PINGPONG_MIN_CYCLES_8BIT);
}

/* Is it computed from what is known before the roles begin? */
static bool is_same_in_all(const tc_value *v, const tc_op *roles)
{
    const tc_op *op = v->def;
    if (tc_value_is_visible(v, roles))
        return true;
    if (!op || !tc_op_is_pure(op) || op->nregions)
        return false;
    for (unsigned i = 0; i < op->nin; i++)
        if (!is_same_in_all(op->in[i], roles))
            return false;
    return true;
}

/* Has it as many steps in all tiles? */
static bool is_same_in_tiles(const tc_op *loop)
{
    const tc_op *roles = tc_roles_around(loop);
    return is_same_in_all(loop->in[0], roles) &&
           is_same_in_all(loop->in[1], roles);
}

static bool begins_in_turn(const tc_op *loop, const tc_step_cost *c)
{
    bool may_differ = !c->narrow && !is_worth_it(c);
    return !has_three_groups(loop) &&
           100 * c->special >= TC_PINGPONG_BEGIN_MIN_PERCENT * c->products &&
           !wants_special(c) && (may_differ || is_same_in_tiles(loop));
}

/* The step's next product, unless it waits for one before; `op` counts. */
static const tc_op *next_product(const tc_op *op)
{
    while (op && op->code != TC_MMA_WAIT && !tc_is_running_product(op))
        op = op->next;
    return op && op->code != TC_MMA_WAIT ? op : NULL;
}

/* Three groups whose steps begin with the product of a linear bias and the one
 * that is added to it pass their turns later. */
static bool passes_late(const tc_op *loop, const tc_op *first)
{
    const tc_op *next = next_product(first->next);
    return has_three_groups(loop) && next && tc_op_int(next, "linear_bias") &&
           !tc_op_is_word(loop, "trim", "groups");
}

static bool may_overlap(const tc_op *loop)
{
    return tc_op_is_word(loop, "schedule", "auto") ||
           tc_op_is_word(loop, "schedule", "modulo");
}

static const char *choose_turns(const tc_op *loop, const tc_step_cost *c)
{
    const tc_op *first = next_product(loop->regions[0]->first);
    if (!first || !may_overlap(loop))
        return "none";
    if (begins_in_turn(loop, c))
        return "once";
    if (!is_worth_it(c))
        return "none";
    return passes_late(loop, first) ? "each_result" : "each_issue";
}

/* ---- The pass ---- */

static bool is_open(const tc_op *loop, const char *name)
{
    return tc_op_is_word(loop, name, "auto");
}

static bool plan_trimming(tc_pass_env *env, tc_op *loop)
{
    if (!tc_op_int(loop, "by_rows") || !is_open(loop, "trim"))
        return false;
    tc_op_set_word(loop, "trim", tc_can_trim(env, loop) ? "groups" : "none");
    return true;
}

static bool plan_turns(tc_pass_env *env, tc_op *loop)
{
    const tc_target *t = tc_machine(env->target);
    tc_step_cost c = tc_cost_of_step(t, loop->regions[0]);
    if (c.products == 0 || !is_open(loop, "pingpong"))
        return false;
    tc_op_set_word(loop, "pingpong", choose_turns(loop, &c));
    return true;
}

/* Trimming first: turns depend on it. */
static bool plan_loop(tc_pass_env *env, tc_op *loop)
{
    bool trims = plan_trimming(env, loop);
    return plan_turns(env, loop) || trims;
}

static bool plan_schedule_visit(tc_pass_env *env, tc_op *op)
{
    if (op->code == TC_NEXT_TILE)
        return tc_plan_request(env, op);
    const tc_op *roles = tc_roles_around(op);
    if (!roles || tc_warpgroups(op->func->warps) < 2 || !tc_op_is_loop(op) ||
        !tc_region_contains(tc_consumers(roles), op))
        return false;
    bool planned = op->code == TC_FOR && plan_loop(env, op);
    return (tc_is_tile_loop(op) && tc_plan_branch(op)) || planned;
}

tc_change tc_pass_plan_schedule(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, plan_schedule_visit);
}
