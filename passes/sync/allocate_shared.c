/* SPDX-License-Identifier: Apache-2.0
 *
 * allocate-shared: assigns each buffer an offset in the block's shared memory.
 *
 *   kernel @k() ... warps(4) ... {         kernel @k() ... shared(16384) ... {
 *     %a = smem_alloc : smem<..>             %a = smem_alloc offset(0) : ..
 *     smem_store %a, %x                      smem_store %a, %x
 *     %y = smem_load %a : ..       becomes   %y = smem_load %a : ..
 *     %b = smem_alloc : smem<..>             %b = smem_alloc offset(0) : ..
 *     smem_store %b, %y                      smem_store %b, %y
 *
 * Buffers whose lifetimes do not overlap may share memory, except for small
 * ones and those of one loop: there each shared place would cost barriers in
 * every step. These share only if the buffers do not fit into the block's
 * memory otherwise. Tests: test/ir/passes/allocate-shared.
 */
#include "passes/analysis/roles.h"
#include "passes/sync/shared_memory.h"
#include "passes/target/machine_model.h"

static const char *name_of(tc_context *cx, const tc_lifetime *l)
{
    return tc_value_name(cx, l->alloc->out[0]);
}

static void say_where(tc_pass_env *env, const tc_lifetime *l)
{
    if (!env->cx->want_remarks)
        return;
    if (!l->first_op)
        tc_remark(env->cx, l->alloc->loc, "allocate-shared", "%s is never used",
                  name_of(env->cx, l));
    else
        tc_remark(env->cx, l->alloc->loc, "allocate-shared",
                  "%s: %u bytes at offset %u, in use from %s at line %u to %s "
                  "at line %u",
                  name_of(env->cx, l), l->bytes, l->offset,
                  tc_op_name(l->first_op), l->first_op->loc.line,
                  tc_op_name(l->last_op), l->last_op->loc.line);
}

/* Notes the buffers that are in use at the time when most memory is. */
static void list_buffers(tc_pass_env *env, const tc_lifetimes *all)
{
    uint64_t most = 0;
    const tc_lifetime *peak = NULL;
    for (unsigned i = 0; i < all->n; i++) {
        /* The most is in use where some buffer begins to be. */
        const tc_lifetime *l = &all->of[i];
        uint64_t sum = 0;
        for (unsigned k = 0; k < all->n; k++)
            if (all->of[k].first_op && all->of[k].first <= l->first &&
                l->first <= all->of[k].last)
                sum += all->of[k].bytes;
        if (l->first_op && sum > most) {
            most = sum;
            peak = l;
        }
    }
    for (unsigned k = 0; peak && k < all->n; k++) {
        const tc_lifetime *l = &all->of[k];
        if (l->first_op && l->first <= peak->first && peak->first <= l->last)
            tc_note(env->cx, l->alloc->loc, "%s takes %u bytes: %s",
                    name_of(env->cx, l), l->bytes,
                    tc_type_name(env->cx, l->alloc->out[0]->type));
    }
}

static tc_change too_much(tc_func *f, tc_pass_env *env, const tc_lifetimes *all,
                          uint32_t bytes)
{
    tc_error(env->cx, f->loc,
             "@%s needs %u " TC_TOO_MUCH_SHARED ", a block of %s has "
             "%u: choose smaller tiles, or fewer stages",
             f->name, bytes, env->target->name, tc_shared_limit(env->target));
    list_buffers(env, all);
    return TC_FAILED;
}

static bool set_offsets(const tc_lifetimes *all)
{
    bool changed = false;
    for (unsigned i = 0; i < all->n; i++) {
        tc_op *alloc = all->of[i].alloc;
        if (tc_op_has_attr(alloc, "offset") &&
            tc_op_int(alloc, "offset") == all->of[i].offset)
            continue;
        tc_op_set_int(alloc, "offset", all->of[i].offset);
        changed = true;
    }
    return changed;
}

/* ---- Messages ---- */

/* Does one thread pass the op's result on to the others through shared
 * memory? */
static bool is_told(const tc_op *op)
{
    if (op->code == TC_NEXT_TILE)
        return true;
    return (op->code == TC_ATOMIC || op->code == TC_ATOMIC_CAS) &&
           op->out[0]->uses;
}

/* Is there such an op in the region? `alone`: the producer's region, which is
 * one thread; NULL: there is none. */
static bool tells(const tc_region *r, const tc_region *alone)
{
    tc_each_op (op, r) {
        if (is_told(op) && r != alone)
            return true;
        for (unsigned i = 0; i < op->nregions; i++)
            if (op->regions[i] != alone && tells(op->regions[i], alone))
                return true;
    }
    return false;
}

/* As codegen/nvptx/memory/atomic.c places them: aligned to 16. */
static uint32_t message_bytes(const tc_func *f)
{
    tc_op *roles = tc_roles_of(f);
    if (!tells(f->body, roles ? tc_producer(roles) : NULL))
        return 0;
    return TC_MESSAGE_BYTES * (uint32_t)tc_threads(f->warps) + 15;
}

tc_change tc_pass_allocate_shared(tc_func *f, tc_pass_env *env)
{
    uint32_t limit = tc_shared_limit(env->target), messages = message_bytes(f);
    tc_lifetimes all = tc_find_lifetimes(env->scratch, f, true);
    uint32_t bytes = tc_plan_shared(env->scratch, &all);
    if (bytes + messages > limit) {
        all = tc_find_lifetimes(env->scratch, f, false);
        bytes = tc_plan_shared(env->scratch, &all);
    }
    if (bytes + messages > limit)
        return too_much(f, env, &all, bytes + messages);
    for (unsigned i = 0; i < all.n; i++)
        say_where(env, &all.of[i]);
    bool changed = set_offsets(&all) || f->shared_bytes != bytes;
    f->shared_bytes = bytes;
    return changed ? TC_CHANGED : TC_UNCHANGED;
}
