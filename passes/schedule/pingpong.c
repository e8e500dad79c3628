/* SPDX-License-Identifier: Apache-2.0
 *
 * pingpong: ping-pong scheduling: warp groups issue products one group after
 * another: the first product of a loop, or those of each step.
 *
 *   order_wait
 *   %f0 = mma %q, %k0, %zero instr(m64k16) async(true)
 *   %f = mma_wait %f0 pending(0)
 *   order_arrive
 *   ..
 *   for .. schedule(modulo) {
 *     mbarrier_wait %k.full, ..
 *     order_wait                        (the one or the other)
 *     %s0 = mma %q, %k, %zero instr(m64k16) async(true)
 *     mbarrier_wait %v.full, ..
 *     %acc0 = mma %p0, %v, %a0 instr(m64k16) async(true)
 *     order_arrive
 *     %s = mma_wait %s0 pending(1)
 *     ..
 *
 * Groups that start together get their products together, and then all compute
 * the operands of the next ones at the same time, while the tensor cores are
 * idle. With ping-pong scheduling one group computes while the products of
 * another run.
 *
 * Two groups that started in turn stay apart, and turns in each step would cost
 * them time (claim pingpong-begin). Loops whose length differs from tile to
 * tile lose if only their first products are in turn (claim pingpong-causal):
 * they have turns in each step, or none.
 *
 * Those loops, and three groups, have turns in each step if the special
 * functions of a step take between 40 % and 250 % of the cycles of its products
 * (claim pingpong-sfu): with more, a group always needs the units for special
 * functions. 8-bit products must take 1152 cycles (claim pingpong-narrow).
 *
 * If three groups add a product to the first one, a linear bias
 * (linear_bias.c), each ends its turn after the wait for both (claim
 * pingpong-ramp).
 *
 * All groups take the same turns, also for steps that they skip
 * (trim-warpgroups). Loops that have turns stay as they are. Tests:
 * test/ir/passes/pingpong.
 */
#include "passes/analysis/match.h"
#include "passes/analysis/roles.h"
#include "passes/instructions/mma.h"
#include "passes/schedule/overlap_mma.h"
#include "passes/target/machine_model.h"

static const char pass[] = "pingpong";

/* ---- What a step costs ---- */

static bool is_special(const tc_op *op)
{
    switch (op->code) {
    case TC_EXP:
    case TC_EXP2:
    case TC_LOG:
    case TC_LOG2:
    case TC_SQRT:
    case TC_RSQRT:
    case TC_RCP:
    case TC_SIN:
    case TC_COS:
    case TC_DIV: return true;
    case TC_TANH: return !tc_op_int(op, "absolute");
    default: return false;
    }
}

/* Of a branch, its first region's. */
static int64_t special_cycles(const tc_target *t, const tc_region *r)
{
    int64_t sum = 0;
    tc_each_op (op, r) {
        if (is_special(op) && op->out[0]->type->kind == TC_TILE)
            sum += tc_type_count(op->out[0]->type) / t->special_per_cycle;
        if (op->nregions)
            sum += special_cycles(t, op->regions[0]);
    }
    return sum;
}

static int64_t product_cycles(const tc_target *t, const tc_op *mma)
{
    const tc_type *a = mma->in[0]->type;
    int64_t k = tc_dim_value(a->dims[a->rank - 1]);
    unsigned bits = tc_scalar_infos[a->elem->kind].bits;
    return tc_type_count(mma->out[0]->type) * k * bits / 16 /
           t->products_per_cycle;
}

/* ---- The walk ---- */

static bool is_flying(const tc_op *op)
{
    return tc_is_group_mma(op) && tc_op_int(op, "async");
}

static bool is_narrow(const tc_op *mma)
{
    return tc_scalar_infos[mma->in[0]->type->elem->kind].bits == 8;
}

/* Of a step. */
typedef struct cycles {
    int64_t special, products;
    bool narrow; /* products of 8 bits */
} cycles;

static cycles cycles_of(const tc_target *t, const tc_region *r)
{
    cycles c = {.special = special_cycles(t, r)};
    tc_each_op (op, r)
        if (is_flying(op)) {
            c.products += product_cycles(t, op);
            c.narrow |= is_narrow(op);
        }
    return c;
}

/* There is always somebody who wants the special functions. */
static bool wants_special(const cycles *c)
{
    return 100 * c->special > TC_PINGPONG_MAX_PERCENT * c->products;
}

static bool is_worth_it(const cycles *c)
{
    return 100 * c->special >= TC_PINGPONG_MIN_PERCENT * c->products &&
           !wants_special(c) &&
           (!c->narrow || c->products >= TC_PINGPONG_MIN_CYCLES_8BIT);
}

static void insert(tc_opcode code, const tc_op *at, tc_op *before)
{
    tc_op_insert(tc_op_new(before->func, code, at->loc, 0, NULL, 0),
                 before->parent, before);
}

/* The op with regions before this one, or after it. */
static tc_op *sibling_of(const tc_op *op, bool after)
{
    do
        op = after ? op->next : op->prev;
    while (op && op->nregions == 0);
    return (tc_op *)op;
}

/* Does the loop, or one that the `if` is there for, end there? */
static bool ends_at(const tc_op *op, const tc_value *end)
{
    if (op->code == TC_FOR)
        return op->in[1] == end;
    if (op->code == TC_IF)
        tc_each_op (loop, op->regions[0])
            if (loop->code == TC_FOR && loop->in[1] == end)
                return true;
    return false;
}

/* The loop of idle steps before a loop, or after it; NULL: there is none.
 * Those after another loop begin where that ends. */
static tc_op *drain_next_to(const tc_op *at, bool after)
{
    tc_op *idle = sibling_of(at, after);
    if (!idle || idle->code != TC_FOR ||
        !tc_op_is_word(idle, "schedule", "drain"))
        return NULL;
    const tc_op *before = after ? at : sibling_of(idle, false);
    bool ends = before && ends_at(before, idle->in[0]);
    return ends == after ? idle : NULL;
}

static void build_turn(tc_builder *b)
{
    tc_build_effect(b, TC_ORDER_WAIT, 0, NULL);
    tc_build_effect(b, TC_ORDER_ARRIVE, 0, NULL);
}

/* A turn before b where the one is smaller than the other. */
static void build_turn_if(tc_builder *b, tc_value *smaller, tc_value *larger)
{
    tc_value *c = tc_build_cmp(b, "lt", smaller, larger);
    tc_op *branch = tc_op_new(b->func, TC_IF, b->loc, 1, &c, 2);
    tc_op_insert(branch, b->region, b->before);
    for (unsigned i = 0; i < 2; i++) {
        tc_builder in = tc_builder_at_end(branch->regions[i], b->loc);
        if (i == 0)
            build_turn(&in);
        tc_build_yield(&in, 0, NULL);
    }
}

/* Steps that groups leave out have their turns too, before they wait for
 * anything that others may need a turn for. The first step of all has none, nor
 * has the first one that a group does: who begins later is a step ahead, and
 * has a turn more when all is done. */
static void make_up_for(tc_op *loop)
{
    tc_op *at = loop;
    tc_op *first = drain_next_to(at, false), *last = drain_next_to(at, true);
    if (!first && !last && loop->parent->op->code == TC_IF) {
        at = loop->parent->op;
        first = drain_next_to(at, false);
        last = drain_next_to(at, true);
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

static bool has_three_groups(const tc_op *loop)
{
    return tc_warpgroups(loop->func->warps) >= TC_PINGPONG_THREE_GROUPS;
}

static bool leaves_out_steps(const tc_op *loop)
{
    const tc_op *around = loop->parent->op;
    if (around->code == TC_IF &&
        (drain_next_to(around, false) || drain_next_to(around, true)))
        return true;
    return drain_next_to(loop, false) || drain_next_to(loop, true);
}

/* Three groups whose products a step has one more of, which goes on with the
 * sums of the one before, pass their turns later. */
static bool passes_late(const tc_op *loop, const tc_op *first)
{
    const tc_op *next = first->next;
    while (next->code != TC_MMA_WAIT && !is_flying(next))
        next = next->next;
    return has_three_groups(loop) && is_flying(next) &&
           next->in[2] == first->out[0] && !leaves_out_steps(loop);
}

static tc_op *behind_wait(tc_op *op)
{
    while (op->code != TC_MMA_WAIT)
        op = op->next;
    return op->next;
}

/* ---- The first of a loop ---- */

typedef struct begin {
    tc_op *product, *wait;
} begin;

/* What comes before the loop, for its first step; false: nothing. */
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

static bool begins_in_turn(const tc_op *loop, const cycles *c)
{
    bool may_differ = !c->narrow && !is_worth_it(c);
    return !has_three_groups(loop) &&
           100 * c->special >= TC_PINGPONG_BEGIN_MIN_PERCENT * c->products &&
           !wants_special(c) && (may_differ || is_same_in_tiles(loop));
}

/* Groups that do not get there have a turn too. */
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

/* ---- The loop ---- */

/* The products that a step begins with, up to the first wait for one. */
static bool visit_loop(tc_pass_env *env, tc_op *loop)
{
    tc_region *r = loop->regions[0];
    tc_op *first = NULL, *last = NULL;
    begin x;
    tc_each_op (op, r) {
        if (op->code == TC_ORDER_WAIT)
            return false;
        if (op->code == TC_MMA_WAIT)
            break;
        if (!is_flying(op))
            continue;
        first = first ? first : op;
        last = op;
    }
    if (!first)
        return false;
    cycles c = cycles_of(tc_machine(env->target), r);
    if (begins_in_turn(loop, &c) && find_begin(loop, &x)) {
        if (x.wait->next->code == TC_ORDER_ARRIVE)
            return false;
        build_begin(&x);
        tc_remark(env->cx, loop->loc, pass,
                  "groups of warps begin one after the other, so that the "
                  "products of one run while another computes");
        return true;
    }
    if (!is_worth_it(&c))
        return false;
    insert(TC_ORDER_WAIT, first, first);
    insert(TC_ORDER_ARRIVE, last,
           passes_late(loop, first) ? behind_wait(last) : last->next);
    make_up_for(loop);
    tc_remark(env->cx, loop->loc, pass,
              "groups of warps begin their products one after the other, so "
              "that one's run while another computes");
    return true;
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
