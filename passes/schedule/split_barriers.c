/* SPDX-License-Identifier: Apache-2.0
 *
 * split-barriers: splits a barrier that warp groups reach once a step, for
 * their stores to a ring with barrier(split), into arrive and wait. The wait
 * comes a step later, where the ring is used next: each group can be ahead of
 * the others by most of a step, and compute while their products run.
 *
 *   barrier                           barrier
 *   for .. {                          mbarrier_arrive %met, 0 scope(warp)
 *     mbarrier_wait %full, %slot, ..  for .. {
 *     ..                                mbarrier_wait %full, %slot, ..
 *     smem_store %mine, %x              ..
 *     %d = mma %earlier, ..             mbarrier_wait %met, 0, %slot
 *     ..                      becomes   smem_store %mine, %x by_mbarrier(true)
 *     mma_wait %d                       %d = mma %earlier, ..
 *     fence_async                       ..
 *     barrier                           mma_wait %d
 *     ..                                fence_async
 *   }                                   barrier scope(group)
 *   mbarrier_wait %full, %last, ..      mbarrier_arrive %met, 0 scope(warp)
 *   smem_store %mine, %y                ..
 *                                     }
 *                                     mbarrier_wait %full, %last, ..
 *                                     barrier
 *                                     mbarrier_wait %met, 0, %last
 *                                     smem_store %mine, %y
 *
 * A slot of %full is awaited as often as the groups arrive, in the loop and
 * once after it: the slot's number says which phase of %met comes next. Test:
 * test/ir/passes/split-barriers.
 */
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/analysis/roles.h"
#include "passes/sync/hazards.h"
#include "passes/target/machine_model.h"

static const char pass[] = "split-barriers";

struct meeting {
    tc_func *f;
    tc_op *loop;
    tc_op *barrier; /* the only one of all groups in a step */
    tc_op *store;   /* the store that the barrier is for */
    const tc_op *ring;
    tc_op *first, *after; /* that touch the ring, in the loop, after it */
    /* Waits for copies, in the loop and after it. */
    tc_op *full, *full_after;
};

static bool is_of_all(const tc_op *op)
{
    return op->code == TC_BARRIER && !tc_op_is_word(op, "scope", "group");
}

/* The op or one within it. */
static bool touches(const tc_op *op, const tc_op *ring)
{
    tc_buffer all[TC_MAX_BUFFERS];
    for (unsigned i = 0; i < op->nin; i++) {
        unsigned n = op->in[i]->type->kind == TC_SMEM && !tc_is_buffer_view(op)
                         ? tc_trace_buffers(op->in[i], all)
                         : 0;
        if (n > TC_MAX_BUFFERS)
            return true;
        for (unsigned k = 0; k < n; k++)
            if (all[k].alloc == ring)
                return true;
    }
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            if (touches(inner, ring))
                return true;
    return false;
}

static tc_op *first_touch(tc_op *from, const tc_op *end, const tc_op *ring)
{
    for (tc_op *op = from; op && op != end; op = op->next)
        if (touches(op, ring))
            return op;
    return NULL;
}

/* ---- What there has to be ---- */

static bool find_barriers(struct meeting *m)
{
    const tc_op *before = m->loop->prev;
    while (before && tc_op_has(before, TC_PURE))
        before = before->prev;
    if (!before || !is_of_all(before))
        return false;
    tc_each_op (op, m->loop->regions[0]) {
        if (tc_op_any(op, is_of_all) && (op->nregions || m->barrier))
            return false;
        if (is_of_all(op))
            m->barrier = op;
    }
    return m->barrier;
}

/* The step's store to a ring with barrier(split), unless mbarriers order it. */
static bool find_store(struct meeting *m)
{
    for (tc_op *op = m->loop->regions[0]->first; op != m->barrier && !m->store;
         op = op->next) {
        if (op->code != TC_SMEM_STORE || !tc_match_op(op->in[0], TC_SMEM_INDEX))
            continue;
        m->ring = tc_match_op(op->in[0]->def->in[0], TC_SMEM_ALLOC);
        if (m->ring && tc_op_is_word(m->ring, "barrier", "split"))
            m->store = op;
    }
    return m->store && !tc_op_int(m->store, "by_mbarrier");
}

/* Do all reads of the ring in a step come before its barrier? */
static bool is_read_before(const struct meeting *m)
{
    const tc_region *step = m->loop->regions[0];
    if (first_touch(m->barrier, NULL, m->ring))
        return false;
    for (const tc_op *op = step->first; op != m->barrier; op = op->next) {
        if (!touches(op, m->ring) || op == m->store)
            continue;
        const tc_use *use = op->nout ? op->out[0]->uses : NULL;
        if (op->code != TC_MMA || !use || use->next ||
            use->op->code != TC_MMA_WAIT || use->op->parent != step)
            return false;
        const tc_op *wait = use->op;
        while (wait && wait != m->barrier)
            wait = wait->next;
        if (!wait)
            return false;
    }
    return true;
}

/* Of the consumers. */
static unsigned count_waits(const tc_func *f, const tc_value *mbarrier)
{
    const tc_op *roles = tc_roles_of(f);
    unsigned n = 0;
    tc_each_nested (op, roles ? tc_consumers(roles) : f->body)
        n += op->code == TC_MBARRIER_WAIT && op->in[0] == mbarrier;
    return n;
}

static tc_op *wait_of(tc_op *from, const tc_op *end, const tc_value *mbarrier)
{
    for (tc_op *op = from; op && op != end; op = op->next)
        if (op->code == TC_MBARRIER_WAIT && op->in[0] == mbarrier)
            return op;
    return NULL;
}

/* A ring of two slots, or one, that is waited for once a step. */
static bool find_full(struct meeting *m)
{
    for (tc_op *op = m->loop->regions[0]->first; op != m->first;
         op = op->next) {
        if (op->code != TC_MBARRIER_WAIT || op->in[0]->type->slots > 2 ||
            count_waits(m->f, op->in[0]) != 2)
            continue;
        m->full = op;
        m->full_after = wait_of(m->loop->next, m->after, op->in[0]);
        if (m->full_after)
            return true;
    }
    return false;
}

static bool split_barriers_find(struct meeting *m)
{
    if (!find_barriers(m) || !find_store(m) || !is_read_before(m))
        return false;
    m->first = first_touch(m->loop->regions[0]->first, NULL, m->ring);
    m->after = first_touch(m->loop->next, NULL, m->ring);
    return m->after && find_full(m);
}

/* ---- Building ---- */

static void set_group(tc_op *barrier, bool group)
{
    tc_attr word = {.kind = TC_ATTR_NONE};
    tc_op_set_attr(barrier, "scope", word);
    if (group)
        tc_op_set_word(barrier, "scope", "group");
}

static void set_by_mbarrier(tc_op *store, bool is)
{
    tc_attr no = {.kind = TC_ATTR_NONE}, yes = {.kind = TC_ATTR_BOOL, .i = 1};
    tc_op_set_attr(store, "by_mbarrier", is ? yes : no);
}

static tc_op *meet(tc_op *before)
{
    tc_op *op = tc_op_new(before->func, TC_BARRIER, before->loc, 0, NULL, 0);
    tc_op_insert(op, before->parent, before);
    return op;
}

/* Does the loop then need no other barrier? The one after it stays. */
static bool is_all(struct meeting *m, tc_pass_env *env)
{
    tc_op *after = meet(m->after);
    set_group(m->barrier, true);
    set_by_mbarrier(m->store, true);
    if (!tc_needs_barrier(tc_hazard_finder_new(env->scratch, m->f)))
        return true;
    set_group(m->barrier, false);
    set_by_mbarrier(m->store, false);
    tc_op_erase(after);
    tc_missed(env->cx, m->barrier->loc, pass,
              "all warp groups wait for each other in each iteration: this "
              "barrier also orders accesses to another buffer than %s",
              tc_value_name(env->cx, m->ring->out[0]));
    return false;
}

static bool has_room(const struct meeting *m, tc_pass_env *env, uint32_t offset)
{
    if (offset + TC_MBARRIER_BYTES <= tc_shared_limit(env->target))
        return true;
    tc_missed(env->cx, m->barrier->loc, pass,
              "all warp groups wait for each other in each iteration: an "
              "mbarrier takes %d bytes more than there is of shared memory, "
              "use fewer stages or a smaller tile",
              TC_MBARRIER_BYTES);
    return false;
}

static tc_op *last_mbarrier(const tc_func *f)
{
    tc_op *last = NULL;
    tc_each_op (op, f->body)
        if (op->code == TC_MBARRIER_ALLOC)
            last = op;
    return last;
}

struct met {
    tc_value *mbarrier, *zero;
};

static void arrive(tc_op *before, struct met met)
{
    tc_builder b = tc_builder_before(before);
    tc_value *in[] = {met.mbarrier, met.zero};
    tc_op *op = tc_op_new(b.func, TC_MBARRIER_ARRIVE, b.loc, 2, in, 0);
    tc_op_set_word(op, "scope", "warp");
    tc_op_insert(op, b.region, b.before);
}

/* full: what is waited for as often. */
static void wait(tc_op *before, struct met met, const tc_op *full)
{
    tc_builder b = tc_builder_before(before);
    tc_value *phase = full->in[full->in[0]->type->slots == 2 ? 1 : 2];
    tc_value *in[] = {met.mbarrier, met.zero, phase};
    tc_op_insert(tc_op_new(b.func, TC_MBARRIER_WAIT, b.loc, 3, in, 0), b.region,
                 b.before);
}

static void split_barriers_build(struct meeting *m, tc_op *last,
                                 uint32_t offset)
{
    tc_context *cx = m->f->module->cx;
    tc_builder b = {.func = m->f,
                    .region = last->parent,
                    .before = last->next,
                    .loc = m->barrier->loc};
    tc_op *op = tc_op_new(m->f, TC_MBARRIER_ALLOC, b.loc, 0, NULL, 0);
    const tc_type *type = tc_type_mbarrier(cx, 1);
    tc_op_set_int(op, "arrivals", m->f->warps);
    tc_op_set_int(op, "offset", offset);
    tc_op_set_results(op, 1, &type);
    tc_op_insert(op, b.region, b.before);
    op->out[0]->name = "met";
    struct met met = {op->out[0],
                      tc_build_int(&b, tc_type_scalar(cx, TC_I32), 0)};
    arrive(m->loop, met);
    wait(m->first, met, m->full);
    arrive(m->barrier->next, met);
    wait(m->after, met, m->full_after);
    m->f->shared_bytes = offset + TC_MBARRIER_BYTES;
    tc_forget_speculatable(m->loop->parent);
}

static bool split_barriers_visit(tc_func *f, tc_pass_env *env, tc_region *r)
{
    bool changed = false;
    tc_each_nested_first (op, r) {
        struct meeting m = {.f = f, .loop = op};
        tc_op *last = last_mbarrier(f);
        uint32_t offset = (f->shared_bytes + TC_MBARRIER_BYTES - 1) /
                          TC_MBARRIER_BYTES * TC_MBARRIER_BYTES;
        if (op->code != TC_FOR || !last || !split_barriers_find(&m) ||
            !has_room(&m, env, offset) || !is_all(&m, env))
            continue;
        tc_remark(env->cx, m.barrier->loc, pass,
                  "warp groups wait for each other a step later, where %s is "
                  "used next",
                  tc_value_name(env->cx, m.ring->out[0]));
        split_barriers_build(&m, last, offset);
        changed = true;
    }
    return changed;
}

tc_change tc_pass_split_barriers(tc_func *f, tc_pass_env *env)
{
    bool any = tc_warpgroups(f->warps) > 1 && f->shared_bytes &&
               split_barriers_visit(f, env, f->body);
    return any ? TC_CHANGED : TC_UNCHANGED;
}
