/* SPDX-License-Identifier: Apache-2.0
 *
 * choose-ctas: how many CTAs share a multiprocessor, so that one computes while
 * another waits for memory. The assembler limits registers to what so many
 * leave; where the text says `ctas(..)` that stays.
 *
 *   kernel @sums(..) warps(8) ..         kernel @sums(..) warps(8) ctas(2)
 *     for .. carry(%sum = ..) {    ->      ..
 *       %x = load ..
 *       yield %sum + %x
 */
#include "ir/types/layout.h"
#include "passes/analysis/roles.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"

/* Does every path through the region run a loop? */
static bool always_loops(const tc_region *r)
{
    tc_each_op (op, r) {
        bool all = op->code == TC_IF;
        for (unsigned i = 0; all && i < op->nregions; i++)
            all = always_loops(op->regions[i]);
        if (all || tc_op_is_loop(op))
            return true;
    }
    return false;
}

static unsigned registers_of(const tc_type *t)
{
    return t->kind == TC_TILE ? tc_layout_size(t->layout, TC_REGISTER) : 1;
}

/* The registers that a thread carries round the loops of the region, in the one
 * that carries most. */
static unsigned most_carried(const tc_region *r)
{
    unsigned most = 0;
    tc_each_nested (op, r) {
        unsigned n = 0;
        for (unsigned i = 0; tc_op_is_loop(op) && i < op->nout; i++)
            n += registers_of(op->out[i]->type);
        most = most > n ? most : n;
    }
    return most;
}

/* Registers of the largest tile. */
static unsigned most_held(const tc_region *r)
{
    unsigned most = 0;
    tc_each_nested (op, r)
        for (unsigned i = 0; i < op->nout; i++) {
            const tc_type *t = op->out[i]->type;
            unsigned n = t->kind == TC_TILE ? registers_of(t) : 0;
            most = most > n ? most : n;
        }
    return most;
}

/* Loops that read memory and add up: CTAs wait for it in turns, if what they
 * carry and three tiles of a step leave room. */
static bool loops_add_up(const tc_func *f, const tc_target *target)
{
    enum { TILES = 3 };
    unsigned carried = most_carried(f->body);
    unsigned held = carried + TILES * most_held(f->body);
    return always_loops(f->body) && !tc_region_has_op(f->body, TC_MMA) &&
           carried &&
           held + TC_SPARE_SUMS_REGISTERS <=
               tc_max_registers(target, TC_SUMS_CTAS * f->warps);
}

/* Loops that a program may leave out: what it does always is to move memory,
 * and what the loops carry leaves room for several CTAs, whatever a branch that
 * is rarely taken could use. */
static bool loops_are_rare(const tc_region *body)
{
    return tc_region_any(body, tc_op_is_loop) && !always_loops(body) &&
           most_carried(body) <= TC_SHARING_MAX_REGISTERS;
}

static unsigned choose(const tc_func *f, const tc_target *target)
{
    if (f->warps <= TC_DEFAULT_WARPS)
        return loops_are_rare(f->body) ? TC_MOVING_CTAS : 0;
    return f->warps == TC_DEFAULT_MAX_WARPS && loops_add_up(f, target)
               ? TC_SUMS_CTAS
               : 0;
}

/* May so many share one? */
static bool can_share(const tc_func *f, const tc_op *roles, tc_pass_env *env)
{
    if (f->ctas > 1 && roles && tc_op_has_attr(roles, "registers"))
        return tc_error(env->cx, f->loc,
                        "@%s: ctas(%u), but its roles share out the registers "
                        "of a multiprocessor: expected ctas(1) or no clause",
                        f->name, f->ctas);
    unsigned left = tc_max_registers(env->target, f->ctas * f->warps);
    return left >= TC_CTA_MIN_REGISTERS ||
           tc_error(env->cx, f->loc,
                    "@%s: ctas(%u) of %u warps leave a thread %u registers, "
                    "expected at least %d: take fewer CTAs, or fewer warps",
                    f->name, f->ctas, f->warps, left, TC_CTA_MIN_REGISTERS);
}

tc_change tc_pass_choose_ctas(tc_func *f, tc_pass_env *env)
{
    const tc_op *roles = tc_roles_of(f);
    if (!f->is_kernel || !f->warps)
        return TC_UNCHANGED;
    if (f->ctas)
        return can_share(f, roles, env) ? TC_UNCHANGED : TC_FAILED;
    f->ctas = roles ? 0 : choose(f, env->target);
    return f->ctas ? TC_CHANGED : TC_UNCHANGED;
}
