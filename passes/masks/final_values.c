/* SPDX-License-Identifier: Apache-2.0
 *
 * final-values: final value replacement. What a loop counts, and the step that
 * it picks by its count, in closed form.
 *
 *   %n, %at = for %i = %lo to %hi step 64 carry(%a = 0, %b = %none) {
 *     %a1 = add %a, 64
 *     %b1 = select %a == %x, %i, %b
 *     yield %a1, %b1
 *   }
 * becomes
 *   %steps = max(cdiv(%hi - %lo, 64), 0)
 *   %n = %steps * 64
 *   %j = %x / 64
 *   %at = select(%j * 64 == %x and %j >= 0 and %j < %steps,
 *                %lo + %j * 64, %none)
 *
 * A step may be a speculatable `if`, whose condition is then not asked: after
 * bound-loops and skip-gaps the loop visits few steps without need. Loops that
 * carry anything else stay. Functions without loops are lifted to tiles lane by
 * lane: lib/kvcache/kvcache_reach.c is what needs that. Tests:
 * test/ir/passes/final-values.
 */
#include "passes/analysis/effects.h"
#include "passes/analysis/int_range.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/masks/guarded_step.h"
#include "passes/passes.h"

#include "ir/base/map.h"

struct loop {
    tc_op *op;
    tc_builder before;
    const tc_type *type; /* in which nothing overflows */
    tc_value *first, *trips;
    int64_t step;
    const tc_op *branch; /* all that a step does, asked or not; or NULL */
};

/* ---- What a step carries ---- */

/* That slot i has after a step. */
static tc_value *next_of(const struct loop *l, unsigned i)
{
    tc_value *v = tc_slot_yield(l->op)->in[i];
    return v->def && v->def == l->branch
               ? tc_region_terminator(l->branch->regions[0])->in[v->index]
               : v;
}

static bool is_counter(const struct loop *l, unsigned i, int64_t *by)
{
    const tc_op *add = tc_match_op(next_of(l, i), TC_ADD);
    const tc_value *arg = tc_slot_arg(l->op, i);
    tc_scalar x;
    if (!add || (add->in[0] != arg && add->in[1] != arg) ||
        !tc_match_const(add->in[add->in[0] == arg], &x))
        return false;
    *by = x.i;
    return true;
}

/* A counter from 0 that has no value twice: it wraps after the last step. */
static bool is_injective(const struct loop *l, unsigned i, int64_t *by)
{
    return is_counter(l, i, by) && *by > 0 && *by <= l->step &&
           tc_match_int(tc_slot_init(l->op, i), 0) &&
           tc_int_range_of(l->op->in[0]).low >= 0;
}

/* select(counter == which, value, arg) */
struct pick {
    tc_value *which, *value;
    int64_t by;
};

static bool is_pick(const struct loop *l, unsigned i, struct pick *p)
{
    const tc_op *select = tc_match_op(next_of(l, i), TC_SELECT);
    const tc_op *equal = select ? tc_match_op(select->in[0], TC_CMP) : NULL;
    if (!equal || select->in[2] != tc_slot_arg(l->op, i) ||
        !tc_op_is_word(equal, "pred", "eq"))
        return false;
    p->value = select->in[1];
    for (unsigned j = 0; j < l->op->nout; j++)
        for (unsigned side = 0; side < 2; side++) {
            p->which = equal->in[!side];
            if (equal->in[side] == tc_slot_arg(l->op, j) &&
                tc_value_is_visible(p->which, l->op) &&
                is_injective(l, j, &p->by))
                return true;
        }
    return false;
}

/* ---- In closed form ---- */

static tc_value *number(struct loop *l, int64_t x)
{
    return tc_build_int(&l->before, l->type, x);
}

/* Counts of steps between indices that are not negative fit in 32 bits. */
static const tc_type *type_of(const struct loop *l)
{
    tc_context *cx = l->before.func->module->cx;
    tc_int_range lo = tc_int_range_of(l->op->in[0]),
                 hi = tc_int_range_of(l->op->in[1]);
    bool fits = lo.low >= 0 && hi.low >= 0 && hi.high <= INT32_MAX - l->step;
    for (unsigned i = 0; i < l->op->nout; i++)
        fits &= l->op->out[i]->type->kind != TC_I64;
    return tc_type_scalar(cx, fits ? TC_I32 : TC_I64);
}

static tc_value *cast(struct loop *l, tc_value *v, const tc_type *type)
{
    return tc_build(&l->before, TC_CAST, 1, &v, type);
}

static tc_value *binary(struct loop *l, tc_opcode code, tc_value *x,
                        tc_value *y)
{
    return tc_build_binary(&l->before, code, x, y);
}

static tc_value *count_trips(struct loop *l)
{
    tc_value *step = number(l, l->step);
    tc_value *last = cast(l, l->op->in[1], l->type);
    tc_value *n = binary(l, TC_SUB, last, l->first);
    n = binary(l, TC_ADD, n, number(l, l->step - 1));
    return binary(l, TC_MAX, binary(l, TC_DIV, n, step), number(l, 0));
}

/* v where the index is `at`; NULL: it depends on more than that. */
static tc_value *value_at(struct loop *l, tc_value *v, tc_map *known)
{
    tc_value *found = tc_map_get(known, v);
    tc_value *in[3];
    tc_scalar x;
    if (found)
        return found;
    if (tc_value_is_visible(v, l->op))
        return v;
    if (v->type->kind != TC_TILE && tc_match_const(v, &x))
        return tc_build_const(&l->before, v->type, x);
    if (!v->def || !tc_op_has(v->def, TC_ELEMENTWISE) ||
        v->type->kind == TC_TILE || v->def->nin > 3)
        return NULL;
    for (unsigned i = 0; i < v->def->nin; i++)
        if (!(in[i] = value_at(l, v->def->in[i], known)))
            return NULL;
    found = tc_build_like(&l->before, v->def, in, v->type);
    tc_map_set(known, v, found);
    return found;
}

static tc_value *count(struct loop *l, unsigned i, int64_t by)
{
    tc_value *init = tc_slot_init(l->op, i);
    tc_value *more = binary(l, TC_MUL, l->trips, number(l, by));
    return binary(l, TC_ADD, init, cast(l, more, init->type));
}

static tc_value *picked(struct loop *l, unsigned i, const struct pick *p,
                        tc_arena *scratch)
{
    tc_value *by = number(l, p->by), *index = l->op->regions[0]->args[0];
    tc_value *x = cast(l, p->which, l->type);
    tc_value *j = binary(l, TC_DIV, x, by);
    tc_value *at =
        binary(l, TC_ADD, l->first, binary(l, TC_MUL, j, number(l, l->step)));
    tc_map known = {.arena = scratch};
    tc_map_set(&known, index, cast(l, at, index->type));
    tc_value *value = value_at(l, p->value, &known);
    if (!value)
        return NULL;
    tc_builder *b = &l->before;
    tc_value *is = tc_build_cmp(b, "eq", binary(l, TC_MUL, j, by), x);
    is = binary(l, TC_AND, is, tc_build_cmp(b, "ge", j, number(l, 0)));
    is = binary(l, TC_AND, is, tc_build_cmp(b, "lt", j, l->trips));
    return tc_build_select(b, is, value, tc_slot_init(l->op, i));
}

static bool final_of(struct loop *l, unsigned i, tc_arena *scratch,
                     tc_value **out)
{
    struct pick p;
    int64_t by;
    *out = NULL;
    if (next_of(l, i) == tc_slot_arg(l->op, i))
        *out = tc_slot_init(l->op, i);
    else if (is_counter(l, i, &by))
        *out = count(l, i, by);
    else if (is_pick(l, i, &p))
        *out = picked(l, i, &p, scratch);
    return *out != NULL;
}

/* ---- The pass ---- */

static bool is_quiet(const tc_op *loop)
{
    tc_effects e = tc_op_effects(loop);
    return !e.stores && !e.other;
}

static bool replace(tc_op *op, tc_arena *scratch)
{
    tc_scalar step;
    struct loop l = {.op = op, .before = tc_builder_before(op)};
    if (!tc_match_const(op->in[2], &step) || step.i < 1 || !op->nout)
        return false;
    l.step = step.i;
    l.branch = tc_guarded_step_of(op);
    if (l.branch && !tc_op_int(l.branch, "speculatable"))
        l.branch = NULL;
    l.type = type_of(&l);
    l.first = cast(&l, op->in[0], l.type);
    l.trips = count_trips(&l);
    tc_value **values = tc_arena_array(scratch, tc_value *, op->nout);
    for (unsigned i = 0; i < op->nout; i++)
        if (!final_of(&l, i, scratch, &values[i]))
            return true; /* what was built is dead */
    for (unsigned i = 0; i < op->nout; i++)
        tc_value_replace(op->out[i], values[i]);
    tc_op_erase(op);
    return true;
}

static bool final_values_visit(tc_pass_env *env, tc_op *op)
{
    return op->code == TC_FOR && is_quiet(op) && replace(op, env->scratch);
}

tc_change tc_pass_final_values(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, final_values_visit);
}
