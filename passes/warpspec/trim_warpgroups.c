/* SPDX-License-Identifier: Apache-2.0
 *
 * trim-warpgroups: warp groups skip the first and the last steps of a loop in
 * which its masks hide all keys from their rows.
 *
 *   %r = for %n0 = %lo to %hi step 128 carry(%x = %x0, %count = %c0) {
 *     mbarrier_wait %full.k, ..
 *     %s0 = mma %q, %k, ..
 *     mbarrier_arrive %empty.k, ..
 *     %s = if %n0 < %b { yield %s0 } else {
 *       yield select range(128) <= %limit - %n0, %s0, -inf
 *     }
 *     ..
 *   }
 *
 * becomes
 *
 *   %from, %to, %b of %limit at the group's own rows  (warpgroup_row)
 *   %c1 = for %n0 = %lo to %from step 128 carry(%count = %c0)
 *       schedule(drain_first) {
 *     mbarrier_wait %full.k, ..
 *     barrier scope(group)
 *     mbarrier_arrive %empty.k, ..
 *   }
 *   %r = for %n0 = %from to %to step 128 carry(%x = %x0, %count = %c1) {
 *     the same
 *   }
 *   the rest, up to %hi, as the first ones: schedule(drain_last)
 *
 * So three groups of 64 rows visit 9 of the 10 blocks of 128 keys that 192 rows
 * of a window of 1024 see, and mask 2 of them and not 4. All groups go through
 * the same mbarriers and turns (`pingpong(each_..)`) as before, and each runs
 * at least one step.
 *
 * `trim(groups)` of the loop asks for it (plan-schedule, where tc_can_trim).
 * Limits are those of limit-masks, and do not fall from row to row. The loop
 * states that a step leaves a row unchanged if masks hide all of it (`by_rows`,
 * of bound-loops), and nothing in it goes from group to group. Not if a step is
 * as long as all rows together: the groups then see nearly the same steps, and
 * a tile would begin and end later without gain (claim trim-long-steps). Tests:
 * test/ir/passes/trim-warpgroups.
 */
#include "passes/warpspec/trim_warpgroups.h"

#include "ir/parts.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/analysis/roles.h"
#include "passes/instructions/mma.h"
#include "passes/passes.h"
#include "passes/sync/shared_memory.h"
#include "passes/target/machine_model.h"

#include <math.h>

static const char pass[] = "trim-warpgroups";

enum { MOST_MASKS = 4, MOST_DEPTH = 16 };

/* select (range(side) <= limit - counter), x, -inf. `range` is of i32, so the
 * counter is too. */
typedef struct mask {
    tc_op *branch; /* the `if` that guards the mask alone; or NULL */
    tc_value *limit;
    int64_t side;
    bool upper;
} mask;

typedef struct own {
    tc_pass_env *env;
    tc_func *f;
    tc_op *loop;
    int64_t step, rows;
    unsigned nmasks;
    mask masks[MOST_MASKS];
    tc_builder b;           /* before the loop */
    tc_value *first, *last; /* of the group's rows */
} own;

/* ---- Limits ---- */

/* Is it the same in all rows, and computed from a number that the caller gives?
 * That may be anything. */
static bool is_given(const tc_value *v, unsigned depth)
{
    const tc_op *op = v->def;
    if (v->type->kind > TC_I64 && !tc_match_op(v, TC_SPLAT))
        return false;
    if (!op || depth == MOST_DEPTH)
        return op || v->region->op == NULL;
    for (unsigned i = 0; i < op->nin; i++)
        if (is_given(op->in[i], depth + 1))
            return true;
    return false;
}

/* Positions, which a row's number is added to, do not wrap. */
static bool may_wrap(const tc_op *op)
{
    return tc_type_elem(op->out[0]->type)->kind != TC_I64 &&
           !tc_match_op(op->in[0], TC_RANGE) &&
           !tc_match_op(op->in[1], TC_RANGE) &&
           (is_given(op->in[0], 0) || is_given(op->in[1], 0));
}

static int slope(const tc_value *v, unsigned depth);

static int either(const tc_op *op, unsigned depth)
{
    int a = slope(op->in[0], depth), b = slope(op->in[1], depth);
    return a < 0 || b < 0 ? -1 : a | b;
}

/* How an int of rows depends on `range`: 0, it is the same for all rows; 1, it
 * does not fall from row to row; -1, unknown. */
static int slope(const tc_value *v, unsigned depth)
{
    const tc_op *op = v->def;
    if (v->type->kind != TC_TILE)
        return 0;
    if (!op || depth++ == MOST_DEPTH)
        return -1;
    switch (op->code) {
    case TC_SPLAT: return 0;
    case TC_RANGE: return 1;
    case TC_CAST:
        return tc_has_int_lanes(op->in[0]) ? slope(op->in[0], depth) : -1;
    case TC_MIN:
    case TC_MAX: return either(op, depth);
    case TC_ADD: return may_wrap(op) ? -1 : either(op, depth);
    case TC_SUB:
        return slope(op->in[1], depth) == 0 && !may_wrap(op)
                   ? slope(op->in[0], depth)
                   : -1;
    default: return -1;
    }
}

/* ---- Masks ---- */

static tc_value *bare(tc_value *v)
{
    const tc_op *op;
    while ((op = v->def) &&
           (op->code == TC_BROADCAST || op->code == TC_EXPAND_DIMS))
        v = op->in[0];
    return v;
}

/* The `if` that is there for the mask alone. */
static tc_op *branch_around(const tc_op *select)
{
    const tc_region *r = select->parent;
    tc_op *op = r->op;
    bool alone = op->code == TC_IF && r == op->regions[1] && op->nout == 1 &&
                 tc_match_op(op->in[0], TC_CMP) &&
                 tc_region_terminator(r)->in[0] == select->out[0] &&
                 tc_region_terminator(op->regions[0])->in[0] == select->in[1];
    return alone ? op : NULL;
}

static bool match_mask(const own *o, tc_op *select, mask *m)
{
    const tc_op *cmp = tc_match_op(select->in[0], TC_CMP);
    if (!cmp || !tc_has_float_lanes(select->in[2]) ||
        !tc_match_float(select->in[2], -INFINITY))
        return false;
    const tc_value *at = bare(cmp->in[0]), *by = bare(cmp->in[1]);
    const tc_op *sub = tc_match_op(by, TC_SUB);
    const tc_op *base = sub ? tc_match_op(sub->in[1], TC_SPLAT) : NULL;
    bool upper = tc_op_is_word(cmp, "pred", "le");
    if (!tc_match_op(at, TC_RANGE) || !base ||
        base->in[0] != o->loop->regions[0]->args[0] ||
        !(upper || tc_op_is_word(cmp, "pred", "ge")) || by->type->rank != 1 ||
        tc_dim_value(by->type->dims[0]) != o->rows ||
        !tc_value_is_visible(sub->in[0], o->loop) || slope(sub->in[0], 0) < 0)
        return false;
    *m = (mask){branch_around(select), sub->in[0],
                tc_dim_value(at->type->dims[0]), upper};
    return true;
}

/* ---- Loops ---- */

static bool is_sync(const tc_op *op)
{
    return op->code == TC_MBARRIER_WAIT || op->code == TC_MBARRIER_ARRIVE;
}

static bool has_rows(const own *o, const tc_type *t)
{
    return t->kind == TC_TILE && t->rank > 0 &&
           tc_dim_value(t->dims[0]) == o->rows;
}

/* Does each group compute its own rows only, and wait and arrive in each step?
 * (A group that skips steps runs ahead of the others: the ring needs at least
 * two slots.) */
static bool is_by_rows(own *o, tc_region *r)
{
    tc_each_op (op, r) {
        bool fits = tc_op_has(op, TC_PURE) || tc_op_has(op, TC_TERMINATOR) ||
                    op->code == TC_MMA || op->code == TC_IF ||
                    (is_sync(op) && r->op == o->loop);
        if (tc_op_combines(op) || op->code == TC_CONVERT_LAYOUT ||
            op->code == TC_TAKE || op->code == TC_HISTOGRAM)
            fits = tc_exchange_bytes(o->env->cx, op) == 0;
        if (op->code == TC_MBARRIER_WAIT)
            fits &= op->in[0]->type->slots > 1;
        if (op->code == TC_MMA)
            fits = tc_is_group_mma(op) && has_rows(o, op->out[0]->type);
        if (!fits || op->code == TC_TRANS || tc_op_is_parts(op))
            return false;
        if (op->code == TC_SELECT && o->nmasks < MOST_MASKS &&
            match_mask(o, op, &o->masks[o->nmasks]))
            o->nmasks++;
        if (op->code == TC_IF)
            for (unsigned i = 0; i < op->nregions; i++)
                if (!is_by_rows(o, op->regions[i]))
                    return false;
    }
    return true;
}

static bool carries_rows(const own *o)
{
    for (unsigned i = 0; i < o->loop->nout; i++) {
        const tc_type *t = o->loop->out[i]->type;
        if (t->kind > TC_I64 && !has_rows(o, t))
            return false;
    }
    return true;
}

/* ---- Bounds ---- */

static tc_value *int_of(own *o, int64_t x)
{
    return tc_build_int(&o->b, tc_type_scalar(o->env->cx, TC_I32), x);
}

static tc_value *binary(own *o, tc_opcode code, tc_value *x, tc_value *y)
{
    return tc_build_binary(&o->b, code, x, y);
}

static tc_value *warpgroup_row(own *o, bool last)
{
    tc_op *op = tc_op_new(o->f, TC_WARPGROUP_ROW, o->loop->loc, 0, NULL, 0);
    tc_op_set_int(op, "rows", o->rows);
    tc_op_set_attr(op, "last", (tc_attr){.kind = TC_ATTR_BOOL, .i = last});
    return tc_build_op(&o->b, op, NULL);
}

/* The limit at a row. */
static tc_value *limit_at(own *o, tc_value *limit, tc_value *row)
{
    const tc_op *op = limit->def;
    if (op->code == TC_SPLAT)
        return op->in[0];
    if (op->code == TC_RANGE)
        return row;
    tc_value *in[2];
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = limit_at(o, op->in[i], row);
    return tc_build_like(&o->b, op, in, tc_type_elem(limit->type));
}

/* The strictest limit on one side; NULL: there is none. */
static tc_value *strictest(own *o, bool upper, tc_value *row)
{
    tc_value *v = NULL;
    for (unsigned i = 0; i < o->nmasks; i++)
        if (o->masks[i].upper == upper) {
            tc_value *x = limit_at(o, o->masks[i].limit, row);
            v = v ? binary(o, upper ? TC_MIN : TC_MAX, v, x) : x;
        }
    return v;
}

/* The counter after as many whole steps from `from` on as n has; none if n is
 * below 0. */
static tc_value *after_steps(own *o, tc_value *from, tc_value *n)
{
    n = binary(o, TC_MAX, n, int_of(o, 0));
    n = binary(o, TC_DIV, n, int_of(o, o->step));
    return binary(o, TC_ADD, from, binary(o, TC_MUL, n, int_of(o, o->step)));
}

/* The first step: leaves out those that end below the lower limit, but never
 * the last step. */
static tc_value *build_from(own *o, tc_value *limit)
{
    tc_value *lo = o->loop->in[0], *hi = o->loop->in[1];
    tc_value *last = binary(o, TC_SUB, hi, int_of(o, 1));
    return after_steps(o, lo,
                       binary(o, TC_SUB, binary(o, TC_MIN, limit, last), lo));
}

/* The end: keeps the steps that begin up to the upper limit; if the loop has
 * any step, at least one. */
static tc_value *build_to(own *o, tc_value *limit)
{
    tc_value *from = o->loop->in[0], *hi = o->loop->in[1];
    tc_value *last = binary(o, TC_SUB, hi, int_of(o, 1));
    last = binary(o, TC_MIN, binary(o, TC_MAX, limit, from), last);
    tc_value *n = binary(o, TC_SUB, last, from);
    return after_steps(o, from, binary(o, TC_ADD, n, int_of(o, o->step)));
}

/* ---- Steps that are left out ---- */

static void erase_dead(tc_region *r)
{
    for (tc_op *op = r->last, *prev; op; op = prev) {
        prev = op->prev;
        if (!is_sync(op) && !tc_op_has(op, TC_TERMINATOR) && !tc_op_is_used(op))
            tc_op_erase(op);
    }
}

/* After all waits, and when all warps of the group have been through these. */
static void arrive_last(tc_region *r)
{
    tc_builder b = tc_builder_before(tc_region_terminator(r));
    tc_op *barrier = tc_build_effect(&b, TC_BARRIER, 0, NULL);
    tc_op_set_word(barrier, "scope", "group");
    for (tc_op *op = r->first, *next; op != barrier; op = next) {
        next = op->next;
        if (op->code != TC_MBARRIER_ARRIVE)
            continue;
        tc_op_remove(op);
        tc_op_insert(op, r, b.before);
    }
}

/* A loop of idle steps from lo to hi, before `at`: it only waits and arrives,
 * and carries the loop's ints and mbarriers on to the loop or the ops after
 * it. */
static tc_op *build_idle(own *o, const char *schedule, tc_value *lo,
                         tc_value *hi, tc_op *at)
{
    tc_op *loop = o->loop;
    bool *drop = tc_arena_array(o->env->scratch, bool, loop->nout + 1);
    tc_region_clear_data(o->f->body);
    tc_op *idle = tc_op_clone(o->f, loop);
    tc_region_clear_data(o->f->body);
    tc_op_insert(idle, loop->parent, at);
    tc_op_set_in(idle, 0, lo);
    tc_op_set_in(idle, 1, hi);
    for (unsigned i = 0; i < loop->nout; i++)
        drop[i] = loop->out[i]->type->kind > TC_I64;
    tc_slots_unyield(idle, drop);
    erase_dead(idle->regions[0]);
    arrive_last(idle->regions[0]);
    idle = tc_slots_remove(idle, drop);
    tc_op_set_word(idle, "schedule", schedule);
    tc_op_set_word(idle, "pingpong", "auto");
    tc_op_set_word(idle, "trim", "auto");
    return idle;
}

/* ---- Their turns ---- */

bool tc_takes_turns(const tc_op *loop)
{
    return tc_op_is_word(loop, "pingpong", "each_issue") ||
           tc_op_is_word(loop, "pingpong", "each_result");
}

void tc_build_turn(tc_builder *b)
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
    tc_build_turn(&then);
}

/* A group takes its turns for steps that it skips too, before it waits for
 * anything that may need another group's turn. The first step of all has no
 * turn, nor has the first step that a group executes: a group that begins later
 * is one step ahead, and has one more turn at the end. first, last: the steps
 * that are skipped, or NULL. */
static void build_turns(const own *o, const tc_op *first, tc_op *last)
{
    if (last) {
        tc_builder b = tc_builder_before(last->regions[0]->first);
        tc_build_turn(&b);
    }
    if (first) {
        tc_builder b = tc_builder_before(first->regions[0]->first);
        build_turn_if(&b, first->in[0], first->regions[0]->args[0]);
        b = tc_builder_before((last ? last : o->loop)->next);
        build_turn_if(&b, first->in[0], first->in[1]);
    }
}

static tc_op *build_first(own *o, tc_value *from)
{
    tc_op *idle = build_idle(o, "drain_first", o->loop->in[0], from, o->loop);
    unsigned n = 0;
    for (unsigned i = 0; i < o->loop->nout; i++)
        if (o->loop->out[i]->type->kind <= TC_I64)
            tc_op_set_in(o->loop, 3 + i, idle->out[n++]);
    tc_op_set_in(o->loop, 0, from);
    return idle;
}

static tc_op *build_last(own *o, tc_value *to)
{
    tc_op *loop = o->loop;
    tc_op *idle = build_idle(o, "drain_last", to, loop->in[1], loop->next);
    unsigned n = 0;
    for (unsigned i = 0; i < loop->nout; i++)
        if (loop->out[i]->type->kind <= TC_I64) {
            tc_value_replace(loop->out[i], idle->out[n]);
            tc_op_set_in(idle, 3 + n, loop->out[i]);
            n++;
        }
    tc_op_set_in(loop, 1, to);
    return idle;
}

/* ---- The whole ---- */

/* The `if` around a mask tests the group's own rows: from which step on, or up
 * to which, the mask hides nothing from them. */
static void ask_own(own *o, const mask *m)
{
    tc_value *counter = o->loop->regions[0]->args[0];
    tc_value *bound = limit_at(o, m->limit, m->upper ? o->first : o->last);
    tc_builder b = tc_builder_before(m->branch);
    if (m->upper)
        bound = binary(o, TC_SUB, bound, int_of(o, m->side - 2));
    tc_op_set_in(m->branch, 0,
                 tc_build_cmp(&b, m->upper ? "lt" : "ge", counter, bound));
}

static void expand(own *o)
{
    o->b = tc_builder_before(o->loop);
    o->first = warpgroup_row(o, false);
    o->last = warpgroup_row(o, true);
    for (unsigned i = 0; i < o->nmasks; i++)
        if (o->masks[i].branch)
            ask_own(o, &o->masks[i]);
    tc_value *lower = strictest(o, false, o->first);
    tc_value *upper = strictest(o, true, o->last);
    tc_op *first = lower ? build_first(o, build_from(o, lower)) : NULL;
    o->b = tc_builder_before(o->loop);
    tc_op *last = upper ? build_last(o, build_to(o, upper)) : NULL;
    if (tc_takes_turns(o->loop))
        build_turns(o, first, last);
}

static own start(tc_pass_env *env, tc_op *loop)
{
    tc_func *f = loop->func;
    return (own){.env = env,
                 .f = f,
                 .loop = loop,
                 .rows = (int64_t)tc_warpgroups(f->warps) * TC_WARPGROUP_ROWS};
}

static bool can_trim(own *o)
{
    tc_scalar step;
    if (!tc_op_int(o->loop, "by_rows") ||
        !tc_match_const(o->loop->in[2], &step) || step.i <= 0 ||
        step.i >= o->rows || !carries_rows(o) ||
        !is_by_rows(o, o->loop->regions[0]))
        return false;
    o->step = step.i;
    return o->nmasks > 0;
}

bool tc_can_trim(tc_pass_env *env, tc_op *loop)
{
    own o = start(env, loop);
    return can_trim(&o);
}

static bool visit_loop(tc_pass_env *env, tc_op *loop, bool *changed)
{
    own o = start(env, loop);
    if (!tc_op_is_word(loop, "trim", "groups") || !tc_op_int(loop, "by_rows"))
        return true;
    if (!can_trim(&o))
        return tc_error(
            env->cx, loop->loc,
            "for: trim(groups) needs steps of fewer rows than the block has, "
            "masks `range <= limit - counter` or `>=`, rings of two slots or "
            "more, and nothing that goes from row to row: write trim(none)");
    tc_op_set_attr(loop, "by_rows", (tc_attr){0}); /* this has been done */
    expand(&o);
    tc_remark(env->cx, loop->loc, pass,
              "each warp group does the steps in which its own rows see "
              "something");
    *changed = true;
    return true;
}

tc_change tc_pass_trim_warpgroups(tc_func *f, tc_pass_env *env)
{
    const tc_op *roles = tc_roles_of(f);
    bool changed = false;
    if (!roles || tc_warpgroups(f->warps) < 2)
        return TC_UNCHANGED;
    tc_each_nested_first (op, tc_consumers(roles))
        if (op->code == TC_FOR && !visit_loop(env, op, &changed))
            return TC_FAILED;
    return changed ? TC_CHANGED : TC_UNCHANGED;
}
