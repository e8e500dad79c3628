/* SPDX-License-Identifier: Apache-2.0
 *
 * TMA copies. A load starts to write to shared memory when it is issued, and is
 * over for every clock that knows the end of its mbarrier's phase; the order of
 * a run chooses when, in between, its bytes arrive. A store reads shared memory
 * until the thread that started it has waited for it. Both go through the
 * asynchronous proxy, which sees the writes of threads only after their
 * fence_async.
 */
#include "codegen/interp/state.h"

#include "passes/instructions/tma.h"

#include <string.h>

/* ---- Which copies there are ---- */

/* The hardware copies of the op; NULL: a finding was reported. */
static const tc_tma *plan_of(tc_interp *it, const tc_op *op)
{
    tc_iop *info = tc_iop_of(op);
    const char *why = NULL;
    if (info->plan)
        return info->plan;
    tc_tma *plan = tc_arena_new(&it->arena, tc_tma);
    if (!tc_tma_of_op(op, plan, &why))
        return (void)!tc_interp_find(it, op, NULL, NULL,
                                     "no TMA copy does it: %s", why),
               NULL;
    info->plan = plan;
    return plan;
}

static bool check_place(tc_interp *it, const tc_op *op, const tc_tma *plan)
{
    uint32_t at = tc_ivalue_of(op->in[1])->at;
    unsigned align = plan->swizzle ? 8 * plan->swizzle : 128;
    tc_ipoison poison = tc_ivalue_of(op->in[0])->poison[0];
    if (at % align)
        return tc_interp_find(it, op, NULL, NULL,
                              "a buffer at byte %u, expected a multiple of %u",
                              at, align) &&
               false;
    return !poison ||
           (tc_interp_poisoned(it, op, poison, "where it copies") && false);
}

/* ---- To shared memory ---- */

/* An element of a window; NULL: outside of its tensor. */
static uint8_t *element_of(tc_interp *it, unsigned tensor,
                           const int64_t *offset, const int *axis,
                           const int32_t *coord)
{
    const tc_launch_arg *arg = &it->args[tensor];
    const tc_type *t = it->tensors[tensor]->type;
    int64_t at = 0;
    for (unsigned i = 0; i < t->rank; i++) {
        int64_t x = offset[i] + (axis[i] < 0 ? 0 : coord[axis[i]]);
        if (x < 0 || x >= arg->sizes[i])
            return NULL;
        at += x * arg->strides[i];
    }
    return (uint8_t *)arg->data + at * (int64_t)tc_type_bytes(t->elem);
}

/* The element of the window that a copy brings to the element of its buffer;
 * NULL: none, or it lies outside. *brings: there is one. */
static const uint8_t *brought_to(tc_interp *it, const tc_iflight *f,
                                 const int32_t *coord, bool *brings)
{
    int32_t at[TC_MAX_RANK];
    const tc_op *op = f->op;
    memcpy(at, coord, sizeof at);
    at[0] -= (int32_t)tc_op_int(op, "row");
    *brings = at[0] >= 0 && at[0] < tc_dim_value(op->in[0]->type->dims[0]);
    return *brings ? element_of(it, f->tensor, f->offset, f->axis, at) : NULL;
}

/* Writes the copy's bytes. */
static bool land(tc_interp *it, tc_iflight *f)
{
    const tc_type *t = f->op->in[1]->type;
    const uint32_t *offsets = tc_interp_offsets(it, t->layout);
    uint32_t n = (uint32_t)tc_layout_size(t->layout, TC_OFFSET);
    unsigned bytes = tc_type_bytes(t->elem);
    int32_t sides[TC_MAX_RANK], coord[TC_MAX_RANK];
    tc_type_sides(t, sides);
    f->landed = true;
    for (uint32_t e = 0; e < n; e++) {
        bool brings;
        tc_interp_decode(sides, t->rank, e, coord);
        const uint8_t *from = brought_to(it, f, coord, &brings);
        if (!brings)
            continue;
        if (from && !tc_interp_global_bulk_read(it, f->op, from))
            return false;
        tc_ibyte *to = &it->bytes[f->at + offsets[e] * bytes];
        for (unsigned i = 0; i < bytes; i++)
            to[i].value = from ? from[i] : 0;
    }
    return tc_interp_mbarrier_landed(it, f->mbarrier, f->bytes);
}

static tc_iflight *new_flight(tc_interp *it)
{
    tc_isync *s = &it->sync;
    if (s->nflights == s->room_flights) {
        size_t room = 2 * s->room_flights + 16;
        tc_iflight *more = tc_arena_array(&it->arena, tc_iflight, room);
        if (s->nflights)
            memcpy(more, s->flights, s->nflights * sizeof *more);
        s->flights = more;
        s->room_flights = room;
    }
    return &s->flights[s->nflights++];
}

static bool claim_bytes(tc_interp *it, const tc_op *op, uint32_t mbarrier,
                        uint32_t phase, uint32_t at, uint32_t bytes)
{
    const tc_iwriter w = {.actor = TC_ACTOR_PRODUCER,
                          .component = tc_clock_mbarrier(&it->sync, mbarrier),
                          .is_bulk = true};
    if (!tc_interp_shared_claim(it, op, at, bytes, &w))
        return false;
    tc_interp_shared_stamp(it, op, at, bytes, &w, 0);
    for (uint32_t i = 0; i < bytes; i++) {
        it->bytes[at + i].value = 0xa5;
        it->bytes[at + i].write_epoch = phase + 1;
    }
    return true;
}

/* The buffer, or the boxes of its rows. */
static bool claim_buffer(tc_interp *it, const tc_op *op, uint32_t mbarrier,
                         uint32_t phase, const tc_tma *plan)
{
    uint32_t at = tc_ivalue_of(op->in[1])->at;
    if (!tc_op_has_attr(op, "row"))
        return claim_bytes(it, op, mbarrier, phase, at, plan->bytes);
    uint32_t box = tc_tma_box_bytes(plan, tc_type_bytes(op->in[1]->type->elem));
    for (unsigned i = 0; i < plan->ncopies; i++)
        if (!claim_bytes(it, op, mbarrier, phase, at + plan->copies[i].byte,
                         box))
            return false;
    return true;
}

bool tc_interp_tma_load(tc_interp *it, const tc_op *op)
{
    const tc_tma *plan = plan_of(it, op);
    if (!plan || !check_place(it, op, plan))
        return false;
    if (it->agent->role != TC_ROLE_PRODUCER)
        return tc_interp_find(it, op, NULL, NULL,
                              "not in the producer, expected one thread to "
                              "start it") &&
               false;
    tc_imbarrier *b = tc_interp_mbarrier_of(it, op, 2);
    if (!b)
        return false;
    unsigned number = (unsigned)(b - it->sync.mbarriers);
    if (!claim_buffer(it, op, number, b->phase, plan))
        return false;
    const tc_ivalue *window = tc_ivalue_of(op->in[0]);
    tc_iflight *f = new_flight(it);
    *f = (tc_iflight){.op = op,
                      .at = tc_ivalue_of(op->in[1])->at,
                      .mbarrier = number,
                      .phase = b->phase,
                      .bytes = plan->bytes,
                      .tensor = window->tensor};
    memcpy(f->offset, window->offset, sizeof f->offset);
    memcpy(f->axis, window->axis, sizeof f->axis);
    b->load = op;
    return it->options->order != TC_INTERP_EARLY || land(it, f);
}

bool tc_interp_tma_prefetch(tc_interp *it, const tc_op *op)
{
    const tc_tma *plan = plan_of(it, op);
    return plan && check_place(it, op, plan);
}

bool tc_interp_bulk_land(tc_interp *it, bool *none)
{
    tc_isync *s = &it->sync;
    size_t n = s->nflights, first = 0;
    if (it->options->order == TC_INTERP_RANDOM && n)
        first = tc_interp_random(it) % n;
    for (size_t i = 0; i < n; i++) {
        size_t k = (first + i) % n;
        if (it->options->order == TC_INTERP_NEWEST)
            k = n - 1 - k;
        if (!s->flights[k].landed)
            return land(it, &s->flights[k]);
    }
    *none = true;
    return true;
}

bool tc_interp_bulk_land_some(tc_interp *it)
{
    bool none;
    return it->options->order != TC_INTERP_RANDOM || tc_interp_random(it) % 4 ||
           tc_interp_bulk_land(it, &none);
}

bool tc_interp_bulk_phase(tc_interp *it, unsigned mbarrier)
{
    tc_isync *s = &it->sync;
    const tc_imbarrier *b = &s->mbarriers[mbarrier];
    size_t left = 0;
    bool ok = true;
    for (size_t i = 0; i < s->nflights; i++) {
        tc_iflight *f = &s->flights[i];
        bool counted = f->mbarrier == mbarrier && f->phase == b->phase;
        if (ok && counted && !f->landed)
            ok = tc_interp_find(it, b->arrive ? b->arrive : b->alloc, f->op,
                                "this copy is in flight",
                                "expects fewer bytes than are copied: the "
                                "phase ends too early");
        if (!f->landed || s->keep_flights)
            s->flights[left++] = *f;
    }
    s->nflights = left;
    return ok;
}

/* Whether a copy reads the element at p. */
static bool reads(tc_interp *it, const tc_iflight *f, const uint8_t *p)
{
    const tc_type *t = f->op->in[1]->type;
    int32_t sides[TC_MAX_RANK], coord[TC_MAX_RANK];
    int64_t n = tc_type_count(t);
    tc_type_sides(t, sides);
    for (int64_t e = 0; e < n; e++) {
        bool brings;
        tc_interp_decode(sides, t->rank, (uint32_t)e, coord);
        if (brought_to(it, f, coord, &brings) == p)
            return true;
    }
    return false;
}

bool tc_interp_bulk_stored(tc_interp *it, const tc_op *op, const void *p,
                           unsigned thread)
{
    tc_isync *s = &it->sync;
    unsigned actor = tc_actor_group(tc_interp_group_of(it, thread));
    if (it->agent->role == TC_ROLE_PRODUCER)
        actor = TC_ACTOR_PRODUCER;
    for (size_t i = 0; s->keep_flights && i < s->nflights; i++) {
        const tc_iflight *f = &s->flights[i];
        tc_irange r = tc_interp_extent(it->tensors[f->tensor]->type,
                                       &it->args[f->tensor]);
        if ((uintptr_t)p < r.from || (uintptr_t)p >= r.to ||
            tc_interp_knows(it, actor, tc_clock_mbarrier(s, f->mbarrier),
                            f->phase + 1) ||
            !reads(it, f, p))
            continue;
        if (!tc_interp_find(it, op, f->op, "the copy starts here",
                            "race: overwrites global memory that a TMA copy "
                            "may still read"))
            return false;
    }
    return true;
}

/* ---- From shared memory ---- */

/* groups: as of groups_of. */
static bool store_all(tc_interp *it, const tc_op *op, const uint8_t *groups,
                      tc_inum *x, const tc_ipoison *poison)
{
    const tc_type *t = op->in[1]->type;
    const tc_ivalue *w = tc_ivalue_of(op->in[0]);
    int32_t sides[TC_MAX_RANK], coord[TC_MAX_RANK];
    uint32_t n = (uint32_t)tc_layout_size(t->layout, TC_OFFSET);
    tc_type_sides(t, sides);
    for (uint32_t e = 0; e < n; e++) {
        tc_interp_decode(sides, t->rank, e, coord);
        uint8_t *p = element_of(it, w->tensor, w->offset, w->axis, coord);
        if (!p)
            continue;
        if (poison[e])
            return tc_interp_poisoned(it, op, poison[e], "what is stored");
        if (tc_op_is_word(op, "kind", "add"))
            x[e].f = tc_round_to(t->elem->kind,
                                 x[e].f + tc_interp_read(t->elem->kind, p).f);
        tc_interp_write(t->elem->kind, p, x[e]);
        unsigned group = 0;
        while (groups && !(groups[e] >> group & 1))
            group++;
        if (!tc_interp_global_bulk_write(it, op, p, group))
            return false;
    }
    return true;
}

/* Of each element the group that stores it, a bit; NULL: the first thread. */
static const uint8_t *groups_of(tc_interp *it, const tc_op *op)
{
    const tc_type *t = op->in[1]->type;
    uint32_t n = (uint32_t)tc_type_count(t);
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    int32_t sides[TC_MAX_RANK], coord[TC_MAX_RANK];
    if (!tc_op_is_word(op, "scope", "group"))
        return NULL;
    uint8_t *groups = tc_arena_alloc(&it->scratch, n);
    tc_type_sides(t, sides);
    for (uint32_t e = 0; e < n; e++) {
        tc_interp_decode(sides, t->rank, e, coord);
        groups[e] = (uint8_t)(1u << coord[axis] * (int32_t)it->sync.nconsumers /
                                        sides[axis]);
    }
    return groups;
}

bool tc_interp_tma_store(tc_interp *it, const tc_op *op)
{
    tc_isync *s = &it->sync;
    const tc_tma *plan = plan_of(it, op);
    if (!plan || !check_place(it, op, plan) ||
        (op->nin > 2 && !tc_interp_follow_at(it, op, 2)))
        return false;
    if (it->agent->role == TC_ROLE_PRODUCER)
        return tc_interp_find(it, op, NULL, NULL,
                              "in the producer, expected the first thread of "
                              "the consumer") &&
               false;
    uint32_t n = (uint32_t)tc_type_count(op->in[1]->type);
    tc_inum *x = tc_arena_array(&it->scratch, tc_inum, n);
    tc_ipoison *poison = tc_arena_array(&it->scratch, tc_ipoison, n);
    const uint8_t *groups = groups_of(it, op);
    for (unsigned g = 0; g < (groups ? s->nconsumers : 1); g++)
        s->now[tc_clock_stores(s, g)]++;
    s->store = op;
    bool ok = tc_interp_shared_read(it, op, 1,
                                    groups ? TC_READ_STORES : TC_READ_STORE,
                                    groups, x, poison) &&
              store_all(it, op, groups, x, poison);
    tc_arena_reset(&it->scratch);
    return ok;
}

bool tc_interp_tma_store_wait(tc_interp *it, const tc_op *op)
{
    tc_isync *s = &it->sync;
    if (it->agent->role == TC_ROLE_PRODUCER)
        return tc_interp_find(it, op, NULL, NULL,
                              "in the producer, which has no TMA stores") &&
               false;
    for (unsigned g = 0; g < s->ngroups; g++) {
        unsigned stores = tc_clock_stores(s, g);
        uint32_t *known = s->known[tc_actor_first(s, g)];
        int64_t done = (int64_t)s->now[stores] - tc_op_int(op, "pending");
        if (done > known[stores])
            known[stores] = (uint32_t)done;
        if (tc_op_int(op, "written") && done > known[tc_clock_written(s, g)])
            known[tc_clock_written(s, g)] = (uint32_t)done;
    }
    return true;
}

/* ---- The end ---- */

bool tc_interp_bulk_end(tc_interp *it)
{
    tc_isync *s = &it->sync;
    for (size_t i = 0; i < s->nflights; i++)
        if (!s->flights[i].landed &&
            !tc_interp_find(it, s->flights[i].op, NULL, NULL,
                            "still in flight at the end"))
            return false;
    for (unsigned g = 0; s->store && g < s->ngroups; g++) {
        unsigned stores = tc_clock_stores(s, g);
        if (!tc_interp_knows(it, tc_actor_first(s, g), stores, s->now[stores]))
            return tc_interp_find(it, s->store, NULL, NULL,
                                  "may still read shared memory at the end, "
                                  "which then belongs to others");
    }
    return true;
}
