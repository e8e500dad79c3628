/* SPDX-License-Identifier: Apache-2.0
 *
 * Fences for ops that read shared memory through the asynchronous proxy, as TMA
 * does: mma of warp groups and TMA stores. A thread that wrote there has to
 * fence its writes before the barrier that makes them visible to others.
 *
 *   smem_store %a, %x                      smem_store %a, %x
 *   barrier                    becomes     fence_async
 *   %d = mma %a, .. instr(m64k16)          barrier
 *                                          %d = mma %a, .. instr(m64k16)
 *
 * A copy (async_copy) is a write of its thread at the time of that thread's
 * wait.
 *
 * A thread needs a fence, too, if it reads into registers the memory that the
 * next TMA load overwrites:
 *
 *   %x = smem_load %a                      %x = smem_load %a
 *   barrier scope(group)       becomes     fence_async
 *   mbarrier_arrive %empty, ..             barrier scope(group)
 *                                          mbarrier_arrive %empty, ..
 *
 * A barrier does not wait until loaded values have arrived; a thread's own
 * writes queue after its loads, but a TMA load may overtake them. (Rows of q
 * were lost where float atomics delayed the loads: attention_bwd_captured.) A
 * finished wgmma and an awaited TMA store have fenced their reads. Part of
 * insert-barriers.
 */
#include "ir/base/map.h"
#include "passes/analysis/effects.h"
#include "passes/analysis/roles.h"
#include "passes/sync/hazards.h"
#include "passes/sync/shared_memory.h"

/* The accesses that have not been fenced, on some path to here. */
struct state {
    const tc_op *written; /* by this; NULL: nothing */
    const tc_op *copying; /* in flight */
    const tc_op *loaded;  /* by this, from where TMA copies come */
};

struct fencer {
    tc_pass_env *env;
    tc_map read;    /* buffers (smem_alloc) that the asynchronous proxy reads */
    tc_map written; /* ... and those that threads write */
    tc_map filled;  /* buffers that TMA copies fill */
    bool all;       /* ... and unknown others */
    bool insert, changed;
};

static void add_buffers(struct fencer *s, tc_map *to, tc_value *smem)
{
    tc_buffer buffers[TC_MAX_BUFFERS];
    unsigned n = tc_trace_buffers(smem, buffers);
    s->all |= n > TC_MAX_BUFFERS;
    for (unsigned k = 0; k < n && k < TC_MAX_BUFFERS; k++)
        tc_map_set(to, buffers[k].alloc, buffers[k].alloc);
}

static void find_buffers(struct fencer *s, const tc_region *r)
{
    tc_each_nested_first (op, r) {
        for (unsigned i = 0; i < op->nin && tc_reads_as_bulk(op); i++)
            if (op->in[i]->type->kind == TC_SMEM)
                add_buffers(s, &s->read, op->in[i]);
        if (op->code == TC_SMEM_STORE)
            add_buffers(s, &s->written, op->in[0]);
        if (op->code == TC_ASYNC_COPY)
            add_buffers(s, &s->written, op->in[1]);
        if (op->code == TC_TMA_LOAD)
            add_buffers(s, &s->filled, op->in[1]);
    }
}

static bool is_among(const struct fencer *s, const tc_map *map, tc_value *smem)
{
    tc_buffer buffers[TC_MAX_BUFFERS];
    unsigned n = tc_trace_buffers(smem, buffers);
    bool among = s->all || n > TC_MAX_BUFFERS;
    for (unsigned k = 0; !among && k < n; k++)
        among = tc_map_get(map, buffers[k].alloc) != NULL;
    return among;
}

static bool is_read(const struct fencer *s, tc_value *smem)
{
    return is_among(s, &s->read, smem);
}

static bool reads_written(const struct fencer *s, const tc_op *op)
{
    for (unsigned i = 0; i < op->nin && tc_reads_as_bulk(op); i++)
        if (op->in[i]->type->kind == TC_SMEM &&
            is_among(s, &s->written, op->in[i]))
            return true;
    return false;
}

/* Does it read into registers what a TMA copy has brought? */
static bool loads_filled(const struct fencer *s, const tc_op *op)
{
    bool may = s->filled.nused && !tc_reads_as_bulk(op);
    for (unsigned i = 0; i < op->nin && may; i++)
        if (tc_buffer_use_of(op, i) == TC_BUFFER_READ &&
            is_among(s, &s->filled, op->in[i]))
            return true;
    return false;
}

/* No mbarrier says before the next barrier that the buffer was read: the fence
 * goes to that barrier. */
static bool is_released_later(const tc_op *barrier)
{
    const tc_op *op = barrier->next;
    while (op && !op->nregions && op->code != TC_BARRIER &&
           op->code != TC_MBARRIER_ARRIVE)
        op = op->next;
    return op && op->code == TC_BARRIER;
}

/* Until all threads meet the asynchronous proxy reads nothing: they fence
 * then. */
static bool is_soon_enough(const struct fencer *s, const tc_op *barrier)
{
    for (const tc_op *op = barrier->next; op && !op->nregions; op = op->next) {
        if (op->code == TC_BARRIER)
            return !tc_op_is_word(op, "scope", "group");
        if (reads_written(s, op))
            return false;
    }
    return false;
}

static void insert_fence(struct fencer *s, tc_op *barrier,
                         const struct state *x)
{
    tc_op *fence =
        tc_op_new(barrier->func, TC_FENCE_ASYNC, barrier->loc, 0, NULL, 0);
    tc_op_insert(fence, barrier->parent, barrier);
    tc_forget_speculatable(barrier->parent);
    if (x->written)
        tc_remark(s->env->cx, x->written->loc, "insert-barriers",
                  "a fence before the barrier after %s: products of warp "
                  "groups or TMA stores read what it wrote",
                  tc_op_name(x->written));
    else
        tc_remark(s->env->cx, x->loaded->loc, "insert-barriers",
                  "a fence before the barrier after %s: a TMA copy "
                  "overwrites what it read",
                  tc_op_name(x->loaded));
    s->changed = true;
}

static bool unite(struct state *a, struct state b)
{
    struct state old = *a;
    a->written = a->written ? a->written : b.written;
    a->copying = a->copying ? a->copying : b.copying;
    a->loaded = a->loaded ? a->loaded : b.loaded;
    return a->written != old.written || a->copying != old.copying ||
           a->loaded != old.loaded;
}

static struct state walk(struct fencer *s, const tc_region *r,
                         struct state state);

static struct state walk_step(struct fencer *s, const tc_op *loop,
                              struct state state)
{
    for (unsigned i = 0; i < loop->nregions; i++)
        state = walk(s, loop->regions[i], state);
    return state;
}

static struct state walk_loop(struct fencer *s, const tc_op *loop,
                              struct state state)
{
    bool insert = s->insert;
    s->insert = false;
    while (unite(&state, walk_step(s, loop, state)))
        ;
    s->insert = insert;
    unite(&state, walk_step(s, loop, state));
    return state;
}

static struct state walk_if(struct fencer *s, const tc_op *op,
                            struct state state)
{
    struct state other = walk(s, op->regions[1], state);
    state = walk(s, op->regions[0], state);
    unite(&state, other);
    return state;
}

static struct state walk_op(struct fencer *s, tc_op *op, struct state state)
{
    switch (op->code) {
    case TC_FOR:
    case TC_WHILE: return walk_loop(s, op, state);
    case TC_IF: return walk_if(s, op, state);
    case TC_WARP_GROUPS: return walk(s, tc_consumers(op), state);
    case TC_SMEM_STORE:
        if (is_read(s, op->in[0]))
            state.written = op;
        return state;
    case TC_SMEM_COPY:
        if (is_read(s, op->in[1]))
            state.written = op;
        return state;
    case TC_ASYNC_COPY:
        if (is_read(s, op->in[1]))
            state.copying = op;
        return state;
    case TC_ASYNC_WAIT:
        if (state.copying)
            state.written = op;
        if (tc_op_int(op, "pending") == 0)
            state.copying = NULL;
        return state;
    case TC_BARRIER:
        if ((!state.written || is_soon_enough(s, op)) &&
            (!state.loaded || is_released_later(op)))
            return state;
        if (s->insert)
            insert_fence(s, op, &state);
        state.written = state.loaded = NULL;
        return state;
    case TC_FENCE_ASYNC: state.written = state.loaded = NULL; return state;
    default:
        if (loads_filled(s, op))
            state.loaded = op;
        return state;
    }
}

static struct state walk(struct fencer *s, const tc_region *r,
                         struct state state)
{
    tc_each_op_safe (op, r)
        state = walk_op(s, op, state);
    return state;
}

bool tc_insert_fences(tc_func *f, tc_pass_env *env)
{
    struct fencer s = {.env = env,
                       .read = {.arena = env->scratch},
                       .written = {.arena = env->scratch},
                       .filled = {.arena = env->scratch},
                       .insert = true};
    find_buffers(&s, f->body);
    if (s.read.nused || s.filled.nused || s.all)
        walk(&s, f->body, (struct state){0});
    return s.changed;
}
