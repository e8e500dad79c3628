/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared memory, byte by byte.
 *
 * The threads of a block may run as far apart as barriers and mbarriers allow.
 * A byte remembers its last write and the last read of each component of the
 * clocks (sync.h), with the time of that component; a later access must know
 * that these are over, else it is a race. smem_store, smem_load and mma may
 * move data between lanes (ldmatrix, stmatrix), so nothing in them counts as
 * done by the same thread; a thread's copies do, and loads of what it copied.
 *
 * Every byte that is read must have been written, and through the same buffer:
 * bytes that no op wrote, or that another buffer in the same place wrote, are
 * poison.
 */
#include "codegen/interp/state.h"

#include "ir/parts.h"
#include "passes/sync/shared_memory.h"

#include <string.h>

/* ---- Buffers ---- */

static bool interp_shared_place(tc_interp *it, const tc_op *op, bool finished)
{
    const tc_type *t = op->out[0]->type;
    bool is_smem = t->kind == TC_SMEM;
    unsigned bytes = is_smem ? tc_smem_bytes(t) : 8 * t->slots;
    unsigned align = is_smem ? TC_SMEM_ALIGN : 8;
    int64_t at = tc_op_int(op, "offset");
    if (!finished) /* allocate-shared has not run: all side by side */
        at = (it->nbytes + 1023) / 1024 * 1024;
    tc_iop_of(op)->offset = (unsigned)at;
    if (finished && at + bytes > it->f->shared_bytes)
        return tc_error(it->cx, op->loc,
                        "%s: bytes %lld to %lld are outside of the kernel's "
                        "shared(%u)",
                        tc_op_name(op), (long long)at,
                        (long long)at + bytes - 1, it->f->shared_bytes);
    if (at % align)
        return tc_error(it->cx, op->loc,
                        "%s: offset %lld, expected a multiple of %u",
                        tc_op_name(op), (long long)at, align);
    if (it->nbytes < at + bytes)
        it->nbytes = (unsigned)(at + bytes);
    return true;
}

static bool is_alloc(const tc_op *op)
{
    return op->code == TC_SMEM_ALLOC || op->code == TC_MBARRIER_ALLOC;
}

bool tc_interp_shared_new(tc_interp *it)
{
    bool finished = false, ok = true;
    for (unsigned i = 1; i <= it->nops; i++)
        finished |=
            is_alloc(it->ops[i]) && tc_op_has_attr(it->ops[i], "offset");
    for (unsigned i = 1; i <= it->nops; i++)
        if (is_alloc(it->ops[i]))
            ok &= interp_shared_place(it, it->ops[i], finished);
    if (ok && it->nbytes)
        it->bytes = tc_arena_array(&it->arena, tc_ibyte, it->nbytes);
    return ok;
}

void tc_interp_shared_reset(tc_interp *it)
{
    if (!it->nbytes)
        return;
    memset(it->bytes, 0, it->nbytes * sizeof *it->bytes);
    memset(it->reads, 0,
           (size_t)it->nbytes * it->sync.nreaders * sizeof *it->reads);
}

bool tc_interp_smem_alloc(tc_interp *it, const tc_op *op)
{
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    out->at = tc_iop_of(op)->offset;
    out->alloc = tc_iop_of(op)->id;
    return true;
}

bool tc_interp_smem_index(tc_interp *it, const tc_op *op)
{
    const tc_ivalue *ring = tc_ivalue_of(op->in[0]);
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    tc_inum slot;
    if (!tc_interp_decide(it, op, 1, &slot))
        return false;
    if (slot.i < 0 || slot.i >= op->in[0]->type->slots)
        return tc_interp_find(it, op, NULL, NULL, "slot %lld of a ring of %u",
                              (long long)slot.i, op->in[0]->type->slots) &&
               false;
    out->at = ring->at + (uint32_t)slot.i * tc_smem_slot_bytes(op->in[0]->type);
    out->alloc = ring->alloc;
    return true;
}

bool tc_interp_smem_trans(tc_interp *it, const tc_op *op)
{
    tc_interp_copy(tc_ivalue_of(op->out[0]), tc_ivalue_of(op->in[0]));
    return true;
}

bool tc_interp_smem_slice(tc_interp *it, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    tc_tile_part p = tc_op_part(op, 0);
    uint32_t first;
    (void)tc_layout_run(it->cx, t->layout, &p, &first);
    tc_interp_copy(tc_ivalue_of(op->out[0]), tc_ivalue_of(op->in[0]));
    tc_ivalue_of(op->out[0])->at += first * tc_type_bytes(t->elem);
    return true;
}

/* ---- Accesses ---- */

static const tc_op *writer(const tc_interp *it, const tc_ibyte *b)
{
    return it->ops[b->write_op];
}

static tc_iread *reads_of(const tc_interp *it, const tc_ibyte *b)
{
    return it->reads + (size_t)(b - it->bytes) * it->sync.nreaders;
}

/* The kind of the last write, by its component. */
static bool by_group(const tc_interp *it, const tc_ibyte *b)
{
    return b->writer >= tc_clock_group(0) &&
           b->writer < tc_clock_group(it->sync.ngroups);
}
static bool by_bulk(const tc_interp *it, const tc_ibyte *b)
{
    return b->writer >= tc_clock_mbarrier(&it->sync, 0);
}

/* A byte in flight: it is read or written too early. */
static bool find_in_flight(tc_interp *it, const tc_op *op, const tc_ibyte *b,
                           const char *verb)
{
    const tc_op *copy = writer(it, b);
    unsigned before = it->nfindings;
    bool go_on = tc_interp_find(
        it, op, copy, "the copy starts here",
        "%s shared memory that a copy of thread %u is still writing", verb,
        b->write_thread);
    if (it->nfindings > before && it->wait)
        tc_note(it->cx, it->wait->loc,
                "the last wait before leaves groups in flight");
    return go_on;
}

static bool find_mbarrier(tc_interp *it, const tc_op *op, const tc_ibyte *b)
{
    return tc_interp_find(it, op, writer(it, b), "they are here",
                          "touches bytes of mbarriers") &&
           false;
}

/* A byte whose last write the reader does not know of: only a thread that wrote
 * it itself can be sure to see it. */
static bool find_unseen(tc_interp *it, const tc_op *op, const tc_ibyte *b)
{
    unsigned before = it->nfindings;
    if (by_bulk(it, b))
        return tc_interp_find(it, op, writer(it, b), "the copy starts here",
                              "reads shared memory that a TMA copy may still "
                              "be writing: its mbarrier was not waited for");
    if (!by_group(it, b))
        return tc_interp_find(it, op, writer(it, b), "written here",
                              "race: reads what the producer has written, and "
                              "has waited for no mbarrier that it arrived on "
                              "since");
    bool go_on = tc_interp_find(it, op, writer(it, b), "written here",
                                "race: reads what thread %u has written with "
                                "no barrier in between",
                                b->write_thread);
    if (it->nfindings > before && writer(it, b)->code == TC_ASYNC_COPY)
        tc_note(it->cx, it->wait->loc,
                "each thread has waited here for its "
                "own copies only");
    return go_on;
}

/* The asynchronous proxy sees writes of threads after their fence. */
static bool check_fence(tc_interp *it, const tc_op *op, const tc_ibyte *b,
                        unsigned actor, const char *verb)
{
    if (b->state != TC_BYTE_FULL || !by_group(it, b))
        return true;
    unsigned group = b->writer - tc_clock_group(0);
    return tc_interp_knows(it, actor, tc_clock_fences(&it->sync, group),
                           b->write_fence) ||
           tc_interp_find(it, op, writer(it, b), "written here",
                          "%s asynchronously what threads have written, with "
                          "no fence_async of theirs before the barrier",
                          verb);
}

/* Checks a byte's contents only, not its order; gives its poison. */
static bool read_content(tc_interp *it, const tc_op *op, const tc_ibyte *b,
                         uint16_t alloc, tc_ipoison *poison)
{
    if (b->state == TC_BYTE_MBARRIER)
        return find_mbarrier(it, op, b);
    if (b->state == TC_BYTE_EMPTY)
        *poison = tc_interp_reason(
            it, op, "this reads shared memory that was never written", NULL);
    else if (b->alloc != alloc)
        *poison = tc_interp_reason(it, op,
                                   "this reads a buffer whose place another "
                                   "buffer has taken",
                                   writer(it, b));
    else if (b->poison)
        *poison = b->poison;
    if (b->state != TC_BYTE_IN_FLIGHT)
        return true;
    *poison = tc_interp_reason(it, op, "this reads a copy that is in flight",
                               writer(it, b));
    return find_in_flight(it, op, b, "reads");
}

/* A reader, as clocks know it. */
typedef struct reading {
    unsigned actor, component;
    uint32_t epoch, fence;
    bool is_async;
} reading;

static bool read_byte(tc_interp *it, const tc_op *op, tc_ibyte *b,
                      const reading *r, tc_ipoison *poison)
{
    bool ok = true;
    bool own = b->state == TC_BYTE_FULL && tc_is_own_copy(writer(it, b), op);
    if (b->state == TC_BYTE_FULL && !own &&
        !tc_interp_knows(it, r->actor, b->writer, b->write_epoch)) {
        ok = find_unseen(it, op, b);
        if (by_bulk(it, b))
            *poison = tc_interp_reason(
                it, op, "this reads a TMA copy that is in flight",
                writer(it, b));
    } else if (r->is_async) {
        ok = check_fence(it, op, b, r->actor, "reads");
    }
    /* A read of others since the last barrier is the one to remember. */
    tc_iread *last = &reads_of(it, b)[r->component];
    if (!own || last->epoch != r->epoch)
        *last = (tc_iread){r->epoch, r->fence, tc_iop_of(op)->id};
    return ok;
}

static reading reading_of(const tc_interp *it, tc_ireader reader,
                          unsigned group)
{
    const tc_isync *s = &it->sync;
    reading r = {.actor = tc_actor_group(group),
                 .component = tc_clock_group(group)};
    if (reader == TC_READ_PRODUCTS) {
        r.component = tc_clock_products(s, group);
    } else if (reader == TC_READ_STORE || reader == TC_READ_STORES) {
        r.actor = tc_actor_first(s, group);
        r.component = tc_clock_stores(s, group);
    } else if (reader == TC_READ_PRODUCER) {
        r.actor = TC_ACTOR_PRODUCER;
        r.component = tc_clock_producer();
    }
    r.epoch = s->now[r.component];
    r.is_async = reader == TC_READ_PRODUCTS || reader == TC_READ_STORE ||
                 reader == TC_READ_STORES;
    if (reader == TC_READ_THREADS)
        r.fence = s->now[tc_clock_fences(s, group)] + 1;
    return r;
}

/* Element e of what the op reads, as an element of the buffer: smem_load may
 * read a part of it. */
static uint32_t element_of(const tc_op *op, const tc_type *buffer, uint32_t e)
{
    if (op->code != TC_SMEM_LOAD || !tc_op_has_attr(op, "at"))
        return e;
    const tc_type *part = op->out[0]->type;
    const tc_attr *at = tc_op_attr(op, "at");
    int32_t coord[TC_MAX_RANK];
    tc_interp_decode(part->layout->shape, part->rank, e, coord);
    for (unsigned i = 0; i < part->rank; i++)
        coord[i] += (int32_t)at->ints[i];
    return tc_interp_encode(buffer->layout->shape, buffer->rank, coord);
}

bool tc_interp_shared_read(tc_interp *it, const tc_op *op, unsigned operand,
                           tc_ireader reader, const uint8_t *groups, tc_inum *x,
                           tc_ipoison *poison)
{
    const tc_type *t = op->in[operand]->type;
    const tc_ivalue *v = tc_ivalue_of(op->in[operand]);
    const uint32_t *offsets = tc_interp_offsets(it, t->layout);
    unsigned bytes = tc_type_bytes(t->elem), nreadings = 1;
    uint32_t n = op->code == TC_SMEM_LOAD
                     ? tc_interp_places(it, op->out[0]->type->layout)->count
                     : (uint32_t)tc_layout_size(t->layout, TC_OFFSET);
    reading readings[TC_MAX_GROUPS];
    unsigned first = tc_first_group(&it->sync, it->agent->role);
    if (reader == TC_READ_THREADS || reader == TC_READ_PRODUCTS ||
        reader == TC_READ_STORES)
        nreadings = 1 + tc_last_group(&it->sync, it->agent->role) - first;
    for (unsigned g = 0; g < nreadings && g < TC_MAX_GROUPS; g++)
        readings[g] = reading_of(it, reader, first + g);
    for (uint32_t e = 0; e < n; e++) {
        tc_ibyte *b = &it->bytes[v->at + offsets[element_of(op, t, e)] * bytes];
        uint8_t value[8];
        poison[e] = 0;
        for (unsigned i = 0; i < bytes; i++) {
            value[i] = b[i].value;
            if (!read_content(it, op, &b[i], v->alloc, &poison[e]))
                return false;
            for (unsigned g = 0; g < nreadings; g++)
                if ((!groups || groups[e] >> g & 1) &&
                    !read_byte(it, op, &b[i], &readings[g], &poison[e]))
                    return false;
        }
        x[e] = tc_interp_read(t->elem->kind, value);
    }
    return true;
}

static bool is_transposer(const tc_interp *it, unsigned group)
{
    return group >= it->sync.nconsumers;
}

static const char *role_of_writer(const tc_interp *it, const tc_iwriter *w)
{
    return w->actor == TC_ACTOR_PRODUCER                     ? "producer"
           : is_transposer(it, w->actor - tc_actor_group(0)) ? "transposer"
                                                             : "consumer";
}

/* Of a component of threads. */
static const char *role_of(const tc_interp *it, unsigned component)
{
    return component == tc_clock_producer()                   ? "producer"
           : is_transposer(it, component - tc_clock_group(0)) ? "transposer"
                                                              : "consumer";
}

static bool find_read(tc_interp *it, const tc_op *op, const tc_iwriter *w,
                      unsigned component, const tc_op *read)
{
    const tc_isync *s = &it->sync;
    const char *role = role_of_writer(it, w);
    if (component >= tc_clock_stores(s, 0))
        return tc_interp_find(it, op, read, "it starts here",
                              "race: overwrites what a TMA store may still "
                              "read: no tma_store_wait and barrier in between");
    if (component >= tc_clock_products(s, 0))
        return tc_interp_find(it, op, read, "it starts here",
                              "race: overwrites what an asynchronous mma may "
                              "still read: no mma_wait of it in between%s%s%s",
                              *role == 'c' ? ""
                                           : ", followed by an mbarrier_arrive "
                                             "that the ",
                              *role == 'c' ? "" : role,
                              *role == 'c' ? "" : " waited for");
    if (strcmp(role, role_of(it, component)) != 0)
        return tc_interp_find(it, op, read, "read here",
                              "race: overwrites what the %s may still read: no "
                              "barrier after that, followed by an "
                              "mbarrier_arrive that the %s waited for",
                              role_of(it, component), role);
    return tc_interp_find(it, op, read, "read here",
                          "race: thread %u overwrites what other threads may "
                          "still read, with no barrier in between",
                          w->thread);
}

static bool find_written(tc_interp *it, const tc_op *op, const tc_iwriter *w,
                         const tc_ibyte *b)
{
    if (by_bulk(it, b))
        return tc_interp_find(it, op, writer(it, b), "the copy starts here",
                              "race: overwrites what a TMA copy may still be "
                              "writing");
    if (strcmp(role_of_writer(it, w), role_of(it, b->writer)) != 0)
        return tc_interp_find(it, op, writer(it, b), "written here",
                              "race: overwrites what the other role has "
                              "written: no mbarrier in between");
    return tc_interp_find(it, op, writer(it, b), "written here",
                          "race: thread %u overwrites what thread %u has "
                          "written with no barrier in between",
                          w->thread, b->write_thread);
}

/* A barrier does not wait until what threads load has come, and a TMA copy
 * does not queue after it. */
static bool check_reads_fenced(tc_interp *it, const tc_op *op,
                               const tc_ibyte *b, const tc_iwriter *w)
{
    const tc_isync *s = &it->sync;
    const tc_iread *reads = &reads_of(it, b)[tc_clock_group(0)];
    for (unsigned g = 0; g < s->ngroups; g++)
        if (!tc_interp_knows(it, w->actor, tc_clock_fences(s, g),
                             reads[g].fence) &&
            !tc_interp_find(it, op, it->ops[reads[g].op], "read here",
                            "race: overwrites asynchronously what threads have "
                            "read, with no fence_async of theirs before the "
                            "barrier"))
            return false;
    return true;
}

/* A thread's own stores are in order, and so are its own copies. */
static bool is_in_order(const tc_interp *it, const tc_op *op, const tc_ibyte *b,
                        const tc_iwriter *w)
{
    tc_opcode kind = w->is_copy ? TC_ASYNC_COPY : TC_SMEM_STORE;
    return !w->is_bulk && op->code == kind && writer(it, b)->code == kind &&
           b->write_thread == w->thread;
}

static bool claim_byte(tc_interp *it, const tc_op *op, const tc_ibyte *b,
                       const tc_iwriter *w)
{
    const uint32_t *known = it->sync.known[w->actor];
    const tc_iread *reads = reads_of(it, b);
    if (b->state == TC_BYTE_IN_FLIGHT)
        return find_in_flight(it, op, b, "writes");
    if (b->state == TC_BYTE_MBARRIER)
        return find_mbarrier(it, op, b);
    for (unsigned i = 0; i < it->sync.nreaders; i++)
        if (reads[i].epoch > known[i] &&
            !(w->is_copy && tc_is_own_copy(op, it->ops[reads[i].op])))
            return find_read(it, op, w, i, it->ops[reads[i].op]);
    if (w->is_bulk && !check_reads_fenced(it, op, b, w))
        return false;
    if (b->state != TC_BYTE_FULL)
        return true;
    if (b->write_epoch > known[b->writer] && !is_in_order(it, op, b, w))
        return find_written(it, op, w, b);
    return !w->is_bulk || check_fence(it, op, b, w->actor, "overwrites");
}

bool tc_interp_shared_claim(tc_interp *it, const tc_op *op, uint32_t at,
                            unsigned bytes, const tc_iwriter *w)
{
    for (unsigned i = 0; i < bytes; i++)
        if (!claim_byte(it, op, &it->bytes[at + i], w))
            return false;
    return true;
}

tc_iwriter tc_interp_thread_writer(const tc_interp *it, unsigned thread)
{
    unsigned group = tc_interp_group_of(it, thread);
    return (tc_iwriter){.actor = tc_actor_group(group),
                        .component = tc_clock_group(group),
                        .thread = thread};
}

void tc_interp_shared_stamp(tc_interp *it, const tc_op *op, uint32_t at,
                            unsigned bytes, const tc_iwriter *w,
                            tc_ipoison poison)
{
    const tc_isync *s = &it->sync;
    unsigned operand = op->code == TC_SMEM_STORE ||
                               op->code == TC_SMEM_STORE_SCALAR ||
                               op->code == TC_SMEM_COUNT
                           ? 0
                           : 1;
    uint32_t fence = 0;
    if (w->actor != TC_ACTOR_PRODUCER)
        fence = s->now[tc_clock_fences(s, w->actor - tc_actor_group(0))] + 1;
    for (unsigned i = 0; i < bytes; i++) {
        tc_ibyte *b = &it->bytes[at + i];
        b->state = TC_BYTE_FULL;
        b->poison = poison;
        b->alloc = tc_ivalue_of(op->in[operand])->alloc;
        b->write_op = tc_iop_of(op)->id;
        b->write_thread = (uint16_t)w->thread;
        b->writer = (uint16_t)w->component;
        b->write_epoch = s->now[w->component];
        b->write_fence = fence;
    }
}

/* ---- The ops ---- */

bool tc_interp_smem_load(tc_interp *it, const tc_op *op)
{
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    const tc_iplaces *p = tc_interp_places(it, op->out[0]->type->layout);
    tc_iop *info = tc_iop_of(op);
    if (!info->plan)
        info->plan = tc_arena_alloc(
            &it->arena, p->count * (sizeof(tc_inum) + sizeof(tc_ipoison)));
    tc_inum *x = info->plan;
    tc_ipoison *poison = (tc_ipoison *)(x + p->count);
    const uint8_t *groups = tc_interp_groups(it, op->out[0]->type->layout);
    if (!tc_interp_shared_read(it, op, 0, TC_READ_THREADS, groups, x, poison))
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        out->x[i] = x[p->elem[i]];
        out->poison[i] = poison[p->elem[i]];
    }
    return true;
}

static bool store_element(tc_interp *it, const tc_op *op, uint32_t at,
                          const tc_iwriter *w, tc_inum x, tc_ipoison poison)
{
    const tc_type *t = op->in[0]->type;
    unsigned bytes = tc_type_bytes(t->elem);
    uint8_t value[8];
    tc_interp_write(t->elem->kind, value, x);
    if (!tc_interp_shared_claim(it, op, at, bytes, w))
        return false;
    tc_interp_shared_stamp(it, op, at, bytes, w, poison);
    for (unsigned i = 0; i < bytes; i++)
        it->bytes[at + i].value = value[i];
    return true;
}

bool tc_interp_smem_store(tc_interp *it, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    const tc_iplaces *p = tc_interp_places(it, op->in[1]->type->layout);
    const uint32_t *offsets = tc_interp_offsets(it, t->layout);
    tc_iop *info = tc_iop_of(op);
    if (!info->plan)
        info->plan = tc_arena_alloc(
            &it->arena, p->count * (sizeof(tc_inum) + sizeof(tc_ipoison)));
    tc_inum *x = info->plan;
    tc_ipoison *poison = (tc_ipoison *)(x + p->count);
    if (!tc_interp_gather(it, op, 1, x, poison))
        return false;
    uint32_t base = tc_ivalue_of(op->in[0])->at;
    for (uint32_t e = 0; e < p->count; e++) {
        tc_iwriter w = tc_interp_thread_writer(it, p->first[e] / p->nregs);
        if (!store_element(it, op, base + offsets[e] * tc_type_bytes(t->elem),
                           &w, x[e], poison[e]))
            return false;
    }
    return true;
}

/* The IR does not say which thread of the role copies which element: any of
 * them may. */
static tc_iwriter copier(const tc_interp *it, uint32_t element)
{
    const tc_isync *s = &it->sync;
    if (it->agent->role != TC_ROLE_TRANSPOSER)
        return tc_interp_thread_writer(it, element % it->nthreads);
    return (tc_iwriter){.actor = tc_actor_group(s->nconsumers),
                        .component = tc_clock_group(s->nconsumers),
                        .thread = it->nthreads};
}

bool tc_interp_smem_copy(tc_interp *it, const tc_op *op)
{
    const tc_type *t = op->in[1]->type;
    const uint32_t *offsets = tc_interp_offsets(it, t->layout);
    uint32_t n = (uint32_t)tc_type_count(t);
    uint32_t base = tc_ivalue_of(op->in[1])->at;
    tc_inum *x = tc_arena_array(&it->scratch, tc_inum, n);
    tc_ipoison *poison = tc_arena_array(&it->scratch, tc_ipoison, n);
    bool ok =
        tc_interp_shared_read(it, op, 0, TC_READ_THREADS, NULL, x, poison);
    for (uint32_t e = 0; ok && e < n; e++) {
        tc_iwriter w = copier(it, e);
        ok = store_element(it, op, base + offsets[e] * tc_type_bytes(t->elem),
                           &w, x[e], poison[e]);
    }
    tc_arena_reset(&it->scratch);
    return ok;
}
