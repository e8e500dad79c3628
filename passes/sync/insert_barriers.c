/* SPDX-License-Identifier: Apache-2.0
 *
 * insert-barriers: inserts a barrier wherever threads would otherwise read
 * shared memory too early or overwrite it too early, and nowhere else.
 *
 *   for .. {                               for .. {
 *     async_wait pending(1)                  async_wait pending(1)
 *     async_copy .., %free                   barrier
 *     async_commit                becomes    async_copy .., %free
 *     %d = mma %x, %slot, ..                 async_commit
 *   }                                        %d = mma %x, %slot, ..
 *                                          }
 *
 * That one barrier makes the copies visible to all threads, and allows the next
 * copy into the slot that all threads have read a step earlier. hazards.h finds
 * the hazards and the latest place for a barrier of each. The first such place,
 * in the innermost loop, is taken: no other place is better, since earlier
 * places do not resolve that hazard. Then the hazards are computed again;
 * finally, barriers that are no longer needed are removed.
 *
 * All control flow here is the same for all threads of a block (of a role), so
 * a barrier may stand anywhere. Barriers before mma of warp groups get a fence
 * (insert_fences.c). A barrier of a warp group shortly before a barrier of all
 * threads becomes one of all threads. Tests: test/ir/passes/insert-barriers.
 */
#include "passes/analysis/effects.h"
#include "passes/instructions/mma.h"
#include "passes/sync/hazards.h"

/* The barriers that are put in, and why. */
struct chosen {
    tc_hazard why;
    struct chosen *next;
};

static unsigned deepest(const tc_hazards *all)
{
    unsigned depth = 0;
    for (unsigned i = 0; i < all->n; i++)
        if (all->of[i].before && all->of[i].depth > depth)
            depth = all->of[i].depth;
    return depth;
}

/* The hazard of a loop to resolve next, after the barrier `last` (NULL: none
 * yet), which resolves all hazards from before it or from an earlier step. */
static const tc_hazard *next_in_loop(const tc_hazards *all, const tc_op *loop,
                                     const tc_hazard *last)
{
    const tc_hazard *next = NULL;
    for (unsigned i = 0; i < all->n; i++) {
        const tc_hazard *h = &all->of[i];
        if (!h->before || h->loop != loop ||
            (next && next->position <= h->position))
            continue;
        if (!last || (!h->carried && h->from_position >= last->position &&
                      h->position > last->position))
            next = h;
    }
    return next;
}

static struct chosen **choose_in_loop(tc_pass_env *env, const tc_hazards *all,
                                      const tc_op *loop, struct chosen **end)
{
    const tc_hazard *last = NULL;
    while ((last = next_in_loop(all, loop, last))) {
        tc_module_spend(last->to->func->module, all->n);
        tc_assume_barrier(last->before, true);
        *end = tc_arena_new(env->scratch, struct chosen);
        (*end)->why = *last;
        end = &(*end)->next;
    }
    return end;
}

/* Barriers for the innermost loops that need some. */
static struct chosen **insert_barriers_choose(tc_pass_env *env,
                                              const tc_hazards *all,
                                              struct chosen **end)
{
    unsigned depth = deepest(all);
    for (unsigned i = 0; i < all->n; i++) {
        const tc_hazard *h = &all->of[i];
        tc_module_spend(h->to->func->module, i);
        bool first = h->before && h->depth == depth;
        for (unsigned k = 0; k < i && first; k++)
            first = !all->of[k].before || all->of[k].loop != h->loop;
        if (first)
            end = choose_in_loop(env, all, h->loop, end);
    }
    return end;
}

/* Between order_wait and order_arrive, where the other groups are not. */
static bool is_in_turn(const tc_op *op)
{
    for (; op; op = op->parent->op)
        for (const tc_op *p = op->prev; p && p->code != TC_ORDER_ARRIVE;
             p = p->prev)
            if (p->code == TC_ORDER_WAIT)
                return true;
    return false;
}

static bool insert(tc_pass_env *env, const tc_hazard *h)
{
    tc_op *before = h->before;
    if (is_in_turn(before)) {
        tc_error(env->cx, h->to->loc,
                 "%s: needs a barrier before it, which all groups meet, but is "
                 "in the turn of one: expected the %s of line %u before "
                 "order_wait",
                 tc_op_infos[h->to->code].name, tc_op_infos[h->from->code].name,
                 h->from->loc.line);
        return false;
    }
    tc_op *barrier =
        tc_op_new(before->func, TC_BARRIER, h->to->loc, 0, NULL, 0);
    tc_op_insert(barrier, before->parent, before);
    tc_forget_speculatable(before->parent);
    tc_remark(env->cx, h->to->loc, "insert-barriers",
              "a barrier before %s: another thread's %s of line %u comes first",
              tc_op_infos[h->to->code].name, tc_op_infos[h->from->code].name,
              h->from->loc.line);
    return true;
}

/* Inserts the chosen barriers, except for those without which no hazard is
 * left. */
static bool insert_needed(tc_pass_env *env, tc_hazard_finder *finder,
                          const struct chosen *list)
{
    bool ok = true;
    for (const struct chosen *c = list; c; c = c->next) {
        tc_assume_barrier(c->why.before, false);
        bool needed = tc_needs_barrier(finder);
        tc_assume_barrier(c->why.before, needed);
        if (needed)
            ok &= insert(env, &c->why);
    }
    return ok;
}

/* ---- Groups that meet shortly before all do ---- */

static bool is_barrier(const tc_op *op, bool of_group)
{
    return op->code == TC_BARRIER &&
           tc_op_is_word(op, "scope", "group") == of_group;
}

/* A product that each warp does for itself, from shared memory. */
static bool reads_by_warps(const tc_op *op)
{
    bool reads = false;
    for (unsigned i = 0; i < op->nin; i++)
        reads |= op->in[i]->type->kind == TC_SMEM;
    return op->code == TC_MMA && reads && !tc_is_group_mma(op);
}

/* The warps have met, and have not touched shared memory since. */
static bool have_just_met(const tc_op *barrier)
{
    for (const tc_op *op = barrier->prev; op; op = op->prev) {
        if (op->code == TC_BARRIER)
            return true;
        bool apart = op->code == TC_MMA || op->code == TC_MMA_WAIT ||
                     op->code == TC_TMA_STORE ||
                     op->code == TC_MBARRIER_ARRIVE ||
                     op->code == TC_MBARRIER_WAIT;
        if (op->nregions || reads_by_warps(op) ||
            !(apart || tc_op_has(op, TC_PURE)))
            return false;
    }
    return false;
}

/* Until the next barrier of all no op tells other groups what the group has
 * done. */
static bool all_meet_soon(const tc_op *barrier)
{
    for (const tc_op *op = barrier->next; op; op = op->next) {
        if (is_barrier(op, false))
            return true;
        if (op->nregions ||
            !(tc_op_has(op, TC_PURE) || op->code == TC_SMEM_LOAD ||
              op->code == TC_FENCE_ASYNC || is_barrier(op, true)))
            return false;
    }
    return false;
}

static bool is_needed(tc_pass_env *env, tc_func *f, tc_op *barrier)
{
    tc_region *r = barrier->parent;
    tc_op *next = barrier->next;
    tc_op_remove(barrier);
    bool needed = tc_needs_barrier(tc_hazard_finder_new(env->scratch, f));
    tc_op_insert(barrier, r, next);
    return needed;
}

static bool merge_barriers(tc_func *f, tc_pass_env *env, tc_region *r)
{
    bool merged = false;
    tc_each_nested_first (op, r) {
        if (!is_barrier(op, true) ||
            !(all_meet_soon(op) || have_just_met(op)) || is_needed(env, f, op))
            continue;
        tc_op_erase(op);
        merged = true;
    }
    return merged;
}

/* ---- A group's barrier as one of all ---- */

static bool needs_in(const tc_hazards *all, const tc_op *loop)
{
    for (unsigned i = 0; i < all->n; i++)
        if (all->of[i].before && all->of[i].loop == loop)
            return true;
    return false;
}

static bool may_widen(const tc_op *barrier)
{
    return is_barrier(barrier, true) && !have_just_met(barrier);
}

static bool has_one_to_widen(const tc_region *r)
{
    tc_each_op (op, r)
        if (may_widen(op))
            return true;
    return false;
}

/* Widens the last of the loop's barriers that makes all others superfluous: a
 * warp that waits there has issued as much work as it can. */
static bool widen_in(tc_func *f, tc_pass_env *env, tc_op *loop)
{
    tc_region *r = loop->regions[0];
    if (!has_one_to_widen(r))
        return false;
    tc_hazards all = tc_find_hazards(tc_hazard_finder_new(env->scratch, f));
    for (tc_op *op = r->last; op && needs_in(&all, loop); op = op->prev) {
        if (!may_widen(op))
            continue;
        tc_attr scope = *tc_op_attr(op, "scope");
        tc_op_set_attr(op, "scope", (tc_attr){.kind = TC_ATTR_NONE});
        tc_hazards left =
            tc_find_hazards(tc_hazard_finder_new(env->scratch, f));
        if (!needs_in(&left, loop)) {
            tc_remark(env->cx, op->loc, "insert-barriers",
                      "all warp groups meet here, once a step");
            return true;
        }
        tc_op_set_attr(op, "scope", scope);
    }
    return false;
}

static bool widen_barriers(tc_func *f, tc_pass_env *env, tc_region *r)
{
    bool any = false;
    tc_each_nested_first (op, r) {
        any |= op->code == TC_FOR && widen_in(f, env, op);
    }
    return any;
}

static const char *with_article(tc_context *cx, tc_opcode code)
{
    const char *name = tc_op_infos[code].name;
    return tc_arena_printf(&cx->diag_arena, "%s %s",
                           name[0] == 'a' ? "an" : "a", name);
}

static bool check_waits(tc_pass_env *env, const tc_hazards *all)
{
    tc_context *cx = env->cx;
    bool ok = true;
    for (unsigned i = 0; i < all->n; i++) {
        const tc_hazard *h = &all->of[i];
        if (h->from == h->to && !h->carried)
            ok = tc_error(cx, h->to->loc,
                          "%s: reads and writes the same bytes of shared "
                          "memory, expected buffers apart from each other",
                          tc_op_infos[h->to->code].name);
        if (!h->in_flight)
            continue;
        tc_opcode code = h->in_flight->code;
        ok = tc_error(cx, h->to->loc,
                      "%s touches shared memory that %s may still be %s, "
                      "expected %s between them",
                      tc_op_infos[h->to->code].name, with_article(cx, code),
                      code == TC_ASYNC_COPY ? "writing" : "reading",
                      with_article(cx, tc_waited_for_by(h->in_flight)));
        tc_note(cx, h->in_flight->loc, "the %s", tc_op_infos[code].name);
    }
    return ok;
}

tc_change tc_pass_insert_barriers(tc_func *f, tc_pass_env *env)
{
    struct chosen *list = NULL, **end = &list;
    bool widened = widen_barriers(f, env, f->body);
    tc_hazard_finder *finder = tc_hazard_finder_new(env->scratch, f);
    tc_hazards all = tc_find_hazards(finder);
    if (!check_waits(env, &all))
        return TC_FAILED;
    for (struct chosen **before = NULL; before != end;
         all = tc_find_hazards(finder)) {
        before = end;
        end = insert_barriers_choose(env, &all, end);
    }
    if (!insert_needed(env, finder, list))
        return TC_FAILED;
    bool merged = merge_barriers(f, env, f->body);
    bool fenced = tc_insert_fences(f, env);
    return list || widened || merged || fenced ? TC_CHANGED : TC_UNCHANGED;
}
