/* SPDX-License-Identifier: Apache-2.0
 *
 * insert-barriers: a barrier wherever threads would otherwise see shared
 * memory too early or change it too early, and nowhere else.
 *
 *   for .. {                               for .. {
 *     async_wait pending(1)                  async_wait pending(1)
 *     async_copy .., %free                   barrier
 *     async_commit                becomes    async_copy .., %free
 *     %d = mma %x, %slot, ..                 async_commit
 *   }                                        %d = mma %x, %slot, ..
 *                                          }
 *
 * That one barrier shows the copies to all threads, and lets the next copy into
 * the slot that all have read a step before. hazards.h finds what needs a
 * barrier and the latest place for it. The first such place, in the innermost
 * loop, is taken: no other place is better, since all that come before it do
 * not help there. Then the question is asked again, and at last, which of the
 * barriers are no longer needed.
 *
 * All control flow here is the same for all threads of a block, so a barrier
 * may stand anywhere. Tests: test/ir/passes/insert-barriers.
 */
#include "passes/effects.h"
#include "passes/hazards.h"

/* Positions of ops, to compare places. */
static unsigned number(tc_region *r, unsigned n)
{
    tc_each_op (op, r) {
        op->data = (void *)(uintptr_t)n++;
        for (unsigned i = 0; i < op->nregions; i++)
            n = number(op->regions[i], n);
    }
    return n;
}

static unsigned depth_of(const tc_op *op)
{
    unsigned depth = 0;
    for (op = tc_loop_around(op); op; op = tc_loop_around(op))
        depth++;
    return depth;
}

static uintptr_t position_of(const tc_op *op)
{
    return (uintptr_t)op->data;
}

/* The first place in the innermost loop. NULL: no barrier is needed. */
static const tc_hazard *choose(tc_func *f, const tc_hazards *all)
{
    const tc_hazard *best = NULL;
    number(f->body, 0);
    for (unsigned i = 0; i < all->n; i++) {
        const tc_hazard *h = &all->of[i];
        if (!h->before)
            continue;
        unsigned depth = depth_of(h->before);
        unsigned most = best ? depth_of(best->before) : 0;
        if (!best || depth > most ||
            (depth == most &&
             position_of(h->before) < position_of(best->before)))
            best = h;
    }
    return best;
}

/* A barrier that was put in, for this reason. */
struct inserted {
    tc_op *barrier, *from, *to;
    struct inserted *next;
};

static struct inserted *insert(tc_pass_env *env, const tc_hazard *h)
{
    struct inserted *i = tc_arena_new(env->scratch, struct inserted);
    tc_op *before = h->before;
    i->barrier = tc_op_new(before->func, TC_BARRIER, h->to->loc, 0, NULL, 0);
    i->from = h->from;
    i->to = h->to;
    tc_op_insert(i->barrier, before->parent, before);
    tc_forget_speculatable(before->parent);
    return i;
}

static bool needs_barrier(tc_pass_env *env, tc_func *f)
{
    tc_hazards all = tc_find_hazards(env->scratch, f);
    return choose(f, &all) != NULL;
}

static void explain(tc_pass_env *env, const struct inserted *i)
{
    tc_remark(env->cx, i->to->loc, "insert-barriers",
              "a barrier before %s: another thread's %s of line %u comes first",
              tc_op_infos[i->to->code].name, tc_op_infos[i->from->code].name,
              i->from->loc.line);
}

/* The barriers without which nothing is missing go. */
static void thin_out(tc_pass_env *env, tc_func *f, const struct inserted *list)
{
    for (const struct inserted *i = list; i; i = i->next) {
        tc_region *r = i->barrier->parent;
        tc_op *before = i->barrier->next;
        tc_op_remove(i->barrier);
        if (!needs_barrier(env, f))
            continue;
        tc_op_insert(i->barrier, r, before);
        explain(env, i);
    }
}

static bool check_copies(tc_pass_env *env, const tc_hazards *all)
{
    bool ok = true;
    for (unsigned i = 0; i < all->n; i++) {
        const tc_hazard *h = &all->of[i];
        if (!h->copy)
            continue;
        ok = tc_error(env->cx, h->to->loc,
                      "%s touches shared memory that an async_copy may still "
                      "be writing, expected an async_wait between them",
                      tc_op_infos[h->to->code].name);
        tc_note(env->cx, h->copy->loc, "the async_copy");
    }
    return ok;
}

tc_change tc_pass_insert_barriers(tc_func *f, tc_pass_env *env)
{
    struct inserted *list = NULL, **end = &list;
    tc_hazards all = tc_find_hazards(env->scratch, f);
    if (!check_copies(env, &all))
        return TC_FAILED;
    for (const tc_hazard *h = choose(f, &all); h; h = choose(f, &all)) {
        *end = insert(env, h);
        end = &(*end)->next;
        all = tc_find_hazards(env->scratch, f);
    }
    thin_out(env, f, list);
    return list ? TC_CHANGED : TC_UNCHANGED;
}
