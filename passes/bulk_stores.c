/* SPDX-License-Identifier: Apache-2.0
 *
 * bulk-stores: accumulators go to global memory through shared memory, from
 * where one bulk copy takes them while the next tile is under way.
 *
 *   for %tile = .. {                        %s = smem_alloc
 *     ...                                   for %tile = .. {
 *     %w = block %o[..]                       ...
 *     %y = convert_layout %x                  %w = block %o[..]
 *     store %w, %y               becomes      tma_store_wait pending(0)
 *   }                                         barrier
 *                                             smem_store %s, %x
 *                                             fence_async
 *                                             barrier
 *                                             tma_store %w, %s
 *                                           }
 *                                           tma_store_wait pending(0)
 *
 * Of a tile in the layout of m64 products, whose rows lie in short pieces in
 * every thread's registers; its buffer is one that stmatrix writes and bulk
 * copies read without conflicts. Where the buffer does not fit into a block's
 * shared memory beside two slots for each load of the hot loop, it lives from
 * the smem_store to the end of the copy only, which is then waited for; or, if
 * not even that fits, nothing is done.
 * What a step of an inner loop adds goes the same way, its buffer waited for
 * in the next step; where it does not fit beside what comes behind the loop,
 * its copies have ended there.
 * Tests: test/ir/passes/bulk-stores.
 */
#include "passes/axis_info.h"
#include "passes/effects.h"
#include "passes/hazards.h"
#include "passes/match.h"
#include "passes/shared_memory.h"
#include "passes/tile_order.h"
#include "passes/tma.h"
#include "passes/wgmma.h"

#include "ir/layout.h"
#include "passes/mma.h"

static const char pass[] = "bulk-stores";

/* Smaller tiles are not worth two barriers; whole sectors of global memory are
 * written well as it is. */
enum { FEW_BYTES = 1024, SECTOR = 32 };
/* mbarriers and mailboxes that are still to come; beside a buffer in use in a
 * loop, where one slot less for its loads would cost more than a copy that is
 * waited for. */
enum { RESERVED = 1024, RESERVED_BESIDE = 3072 };
/* Of loads in the hot loop, if no fewer are asked for. */
enum { SLOTS = 2 };

/* Of a tile that warp groups hold. */
typedef struct parts {
    bool by_group; /* each group stores its own */
    unsigned axis; /* along which they lie */
} parts;

struct bulk {
    tc_pass_env *env;
    tc_func *f;
    tc_op *tiles; /* the loop over tiles, or NULL */
    bool changed, waits_at_end;
    /* From where a loop adds to a tensor: what is added behind it goes there,
     * too. */
    tc_value *added_from;
    const tc_value *added_to;
};

/* ---- Which stores ---- */

static const unsigned swap[] = {1, 0};

/* What is stored, without a conversion that takes it through shared memory; it
 * may be transposed behind that. */
static tc_value *source_of(struct bulk *s, const tc_op *store)
{
    tc_value *v = store->in[1];
    const tc_op *trans = tc_match_op(v, TC_TRANS);
    const tc_op *convert =
        tc_match_op(trans ? trans->in[0] : v, TC_CONVERT_LAYOUT);
    if (convert && tc_layout_conversion(
                       s->env->cx, convert->in[0]->type->layout,
                       convert->out[0]->type->layout) == TC_CONVERT_SHARED)
        return convert->in[0];
    return v;
}

static bool is_transposed(const tc_op *store, const tc_value *source)
{
    return source != store->in[1] && tc_match_op(store->in[1], TC_TRANS);
}

/* Of what is stored, in the layout that it has then. */
static const tc_type *stored_type(struct bulk *s, const tc_op *store)
{
    tc_context *cx = s->env->cx;
    const tc_value *from = source_of(s, store);
    if (!is_transposed(store, from))
        return from->type;
    return tc_type_with_layout(cx, store->in[1]->type,
                               tc_layout_trans(cx, from->type->layout, swap));
}

static tc_value *build_stored(struct bulk *s, tc_builder *b, const tc_op *store)
{
    tc_value *from = source_of(s, store);
    return is_transposed(store, from) ? tc_build(b, TC_TRANS, 1, &from, NULL)
                                      : from;
}

static uint32_t bytes_of(const tc_type *t)
{
    return (uint32_t)tc_type_count(t) * tc_type_bytes(t->elem);
}

static bool adds(const tc_op *store)
{
    return tc_op_is_word(store, "kind", "add");
}

/* Of m64 products, or of the transposed tile. */
static bool is_accumulator(tc_context *cx, const tc_type *t)
{
    int m, n;
    return tc_wgmma_grid(t->layout, &m, &n) ||
           tc_wgmma_grid(tc_layout_trans(cx, t->layout, swap), &m, &n);
}

/* Accumulators of m64 products, in pieces of a sector or less, or added. */
static bool is_candidate(struct bulk *s, const tc_op *op)
{
    if (op->code != TC_STORE || op->nin != 2 ||
        op->in[0]->type->kind != TC_BLOCK_PTR ||
        op->in[1]->type->kind != TC_TILE)
        return false;
    const tc_type *t = stored_type(s, op);
    if (!t->layout || t->rank != 2 || bytes_of(t) < FEW_BYTES ||
        !is_accumulator(s->env->cx, t))
        return false;
    if (adds(op))
        return t->elem->kind == TC_F32;
    /* Four lanes side by side hold two elements each. */
    return 8 * tc_type_bytes(t->elem) < SECTOR;
}

/* ---- Other accesses ---- */

/* In different branches of one `if`. */
static bool exclude_each_other(const tc_op *a, const tc_op *b)
{
    for (const tc_region *r = a->parent; r; r = r->op ? r->op->parent : NULL)
        for (const tc_region *q = b->parent; q;
             q = q->op ? q->op->parent : NULL)
            if (r != q && r->op && r->op == q->op && r->op->code == TC_IF)
                return true;
    return false;
}

/* Behind it in the same step: then it can be waited for. */
static bool comes_later(const tc_op *store, tc_op *op)
{
    const tc_op *at = tc_ancestor_in(store->parent, op);
    const tc_op *next = at ? store->next : NULL;
    while (next && next != at)
        next = next->next;
    return next != NULL;
}

/* A bulk copy's writes come when it likes: nothing else of the program may need
 * them, or have written there. */
static const char *why_ordered(tc_op *op, const tc_op *store)
{
    bool atomic = op->code == TC_ATOMIC || op->code == TC_ATOMIC_CAS;
    if (atomic && !tc_op_is_word(op, "order", "relaxed"))
        return "an atomic may tell others that it is done";
    bool reads = tc_reads_global(op);
    if (op->code == TC_STORE && adds(op) && adds(store))
        return NULL; /* in any order */
    if (op == store || (!reads && !tc_writes_global(op)))
        return NULL;
    const tc_value *x = tc_accessed_tensor(store), *y = tc_accessed_tensor(op);
    if (x && y && !x->def && !y->def && x != y)
        return NULL;
    if (reads)
        return "the kernel reads that tensor too, or what it reads is not "
               "known";
    if (exclude_each_other(op, store) ||
        (x && x == y && comes_later(store, op)))
        return NULL;
    return "the kernel writes that tensor before";
}

static const char *why_ordered_in(const tc_region *r, const tc_op *store)
{
    const char *why = NULL;
    tc_each_op (op, r) {
        if (op->nregions == 0)
            why = why_ordered(op, store);
        for (unsigned i = 0; i < op->nregions && !why; i++)
            why = why_ordered_in(op->regions[i], store);
        if (why)
            return why;
    }
    return NULL;
}

/* ---- The buffer ---- */

/* Words of one bank that an access of the smem_store hits; *by_matrix. 0: it
 * cannot be written. */
static unsigned ways_of(struct bulk *s, const tc_type *tile,
                        const tc_layout *shared, bool *by_matrix)
{
    tc_context *cx = s->env->cx;
    unsigned bits = 8 * tc_type_bytes(tile->elem);
    tc_matrix_access m;
    *by_matrix = s->env->target->stmatrix &&
                 tc_layout_matrix_access(cx, shared, tile->layout, bits, &m);
    if (*by_matrix)
        return m.ways;
    const tc_layout *offsets = tc_layout_offsets(cx, shared, tile->layout);
    return offsets ? tc_layout_stagger(offsets, bits).ways : 0;
}

/* The type of the buffer with the fewest conflicts, then the widest swizzle.
 * NULL: no bulk copy takes it. */
static const tc_type *choose_buffer(struct bulk *s, const tc_op *store,
                                    const tc_type *tile, const parts *p,
                                    const char **why)
{
    tc_context *cx = s->env->cx;
    const tc_type *best = NULL;
    unsigned bits = 8 * tc_type_bytes(tile->elem), least = 0;
    static const unsigned orders[2][2] = {{0, 1}, {1, 0}};
    const unsigned *order =
        orders[tc_contiguous_axis(tc_block_of(store->in[0])) != 0];
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(tile, sides);
    for (unsigned w = tc_layout_widest_swizzle(sides[order[0]], bits);;
         w /= 2) {
        tc_tma t;
        bool by_matrix;
        w = w < 32 ? 0 : w;
        const tc_layout *l =
            tc_layout_swizzled(cx, tile->rank, sides, order, bits, w);
        const tc_type *type = tc_type_smem(cx, tile, l, 0);
        unsigned groups = p->by_group ? s->f->warps / 4 : 1;
        unsigned ways =
            tc_tma_of_groups(store->in[0], type, p->axis, groups, &t, why)
                ? ways_of(s, tile, l, &by_matrix)
                : 0;
        ways = 2 * ways - (ways && by_matrix);
        if (ways && (!best || ways < least)) {
            best = type;
            least = ways;
        }
        if (!w)
            return best;
    }
}

/* ---- Room for it ---- */

static const tc_op *loop_around(const struct bulk *s, const tc_op *op)
{
    const tc_op *loop = tc_loop_around(op);
    return loop == s->tiles ? NULL : loop;
}

static unsigned hot_slots(const struct bulk *s)
{
    return s->env->options->stages == 1 ? 1 : SLOTS;
}

/* Slots of the buffer that a bulk copy may fill ahead, 0: none will. */
static unsigned slots_of(const struct bulk *s, const tc_op *alloc)
{
    const tc_op *store = NULL;
    tc_each_use (u, alloc->out[0])
        if (u->op->code == TC_SMEM_STORE && tc_match_op(u->op->in[1], TC_LOAD))
            store = u->op;
    if (!store)
        return 0;
    for (const tc_op *op = store->parent->op; op; op = op->parent->op)
        if (op->code == TC_IF)
            return 0;
    const tc_op *loop = loop_around(s, store);
    return loop && tc_region_any(loop->regions[0], tc_is_group_mma)
               ? hot_slots(s)
               : 1;
}

struct room {
    struct bulk *s;
    tc_lifetimes all;
    uint64_t rings;       /* bytes of what is filled ahead: always in use */
    const tc_op *convert; /* will go */
};

static uint64_t others_at(const struct room *m, const tc_op *op)
{
    uint64_t sum = op == m->convert ? 0 : tc_exchange_bytes(m->s->env->cx, op);
    for (unsigned i = 0; i < m->all.n; i++)
        if (!slots_of(m->s, m->all.of[i].alloc) &&
            tc_is_in_use_at(&m->all.of[i], op))
            sum += m->all.of[i].bytes;
    return sum;
}

static uint64_t most_others(const struct room *m, const tc_region *r)
{
    uint64_t most = 0;
    tc_each_op (op, r) {
        bool leaf = op->nregions == 0 || op->code == TC_REDUCE;
        uint64_t here = leaf ? others_at(m, op) : 0;
        for (unsigned i = 0; i < op->nregions && !leaf; i++) {
            uint64_t inner = most_others(m, op->regions[i]);
            here = inner > here ? inner : here;
        }
        most = here > most ? here : most;
    }
    return most;
}

/* Of a load that the tile is done with before the store: where there is no room
 * otherwise the next one waits, and its memory is free (specialise-warps). */
static uint64_t lent_bytes(const struct room *m, tc_op *store)
{
    tc_op *tiles = m->s->tiles;
    uint64_t most = 0;
    for (unsigned i = 0; tiles && i < m->all.n; i++) {
        const tc_lifetime *l = &m->all.of[i];
        const tc_region *r = tiles->regions[tiles->code == TC_WHILE];
        if (slots_of(m->s, l->alloc) != 1 || l->alloc->parent != r)
            continue;
        const tc_op *last = tc_ancestor_in(r, l->last_op);
        const tc_op *op = tc_ancestor_in(r, store);
        while (op && op != last)
            op = op->prev;
        if (op && !tc_is_in_use_at(l, store) && l->bytes > most)
            most = l->bytes;
    }
    return most;
}

/* NOWHERE: not even while it is written and copied. */
enum place { NOWHERE, WHILE_COPIED, IN_LOOP, SHARED, ALWAYS };

/* The outermost one around the op, within that over the tiles. */
static tc_op *whole_loop(const struct bulk *s, const tc_op *op)
{
    tc_op *whole = NULL;
    for (tc_op *loop = tc_loop_around(op); loop && loop != s->tiles;
         loop = tc_loop_around(loop))
        whole = loop;
    return whole;
}

static enum place find_place(struct bulk *s, tc_op *store,
                             const tc_type *buffer)
{
    struct room m = {.s = s,
                     .all = tc_find_lifetimes(s->env->scratch, s->f, false)};
    if (source_of(s, store) != store->in[1] && !store->in[1]->uses->next)
        m.convert = is_transposed(store, source_of(s, store))
                        ? store->in[1]->def->in[0]->def
                        : store->in[1]->def;
    for (unsigned i = 0; i < m.all.n; i++)
        m.rings += (uint64_t)m.all.of[i].bytes * slots_of(s, m.all.of[i].alloc);
    uint64_t bytes = m.rings + tc_smem_bytes(buffer) +
                     (s->added_from ? RESERVED_BESIDE : RESERVED);
    uint32_t limit = tc_shared_limit(s->env->target);
    if (s->tiles && bytes + most_others(&m, s->f->body) <= limit)
        return ALWAYS;
    const tc_op *loop = whole_loop(s, store);
    if (loop) {
        const tc_region *body = loop->regions[loop->nregions - 1];
        return bytes + most_others(&m, body) <= limit ? IN_LOOP : NOWHERE;
    }
    bytes += others_at(&m, store);
    return bytes <= limit + lent_bytes(&m, store) ? WHILE_COPIED : NOWHERE;
}

/* ---- Building ---- */

static void build(tc_builder *b, tc_opcode code, unsigned nin,
                  tc_value *const *in)
{
    tc_op_insert(tc_op_new(b->func, code, b->loc, nin, in, 0), b->region,
                 b->before);
}

static tc_op *build_wait(tc_builder *b)
{
    tc_op *op = tc_op_new(b->func, TC_TMA_STORE_WAIT, b->loc, 0, NULL, 0);
    tc_op_set_int(op, "pending", 0);
    tc_op_insert(op, b->region, b->before);
    return op;
}

/* parts: each warp group stores its own, and need not meet the others. */
static void build_barrier(tc_builder *b, const parts *p)
{
    tc_op *op = tc_op_new(b->func, TC_BARRIER, b->loc, 0, NULL, 0);
    if (p->by_group)
        tc_op_set_word(op, "scope", "group");
    tc_op_insert(op, b->region, b->before);
}

static void build_copy(tc_builder *b, tc_value *window, tc_value *buffer,
                       tc_value *tile, const parts *p, bool add)
{
    tc_value *write[] = {buffer, tile}, *copy[] = {window, buffer};
    build(b, TC_SMEM_STORE, 2, write);
    build(b, TC_FENCE_ASYNC, 0, NULL);
    build_barrier(b, p);
    tc_op *op = tc_op_new(b->func, TC_TMA_STORE, b->loc, 2, copy, 0);
    if (p->by_group)
        tc_op_set_word(op, "scope", "group");
    if (p->by_group && p->axis)
        tc_op_set_int(op, "axis", p->axis);
    if (add)
        tc_op_set_word(op, "kind", "add");
    tc_op_insert(op, b->region, b->before);
}

/* No copy out of the loop is left; its buffer's memory is anybody's. */
static void wait_behind(struct bulk *s, tc_op *loop)
{
    const parts whole = {false, 0};
    tc_builder b = {s->f, loop->parent, loop->next, loop->loc};
    build_wait(&b);
    build_barrier(&b, &whole);
    tc_forget_speculatable(loop->parent);
}

static void erase_unused(tc_op *op)
{
    if (!op || op->out[0]->uses)
        return;
    tc_op *from = op->in[0]->def;
    tc_op_erase(op);
    if (from && from->code == TC_CONVERT_LAYOUT)
        erase_unused(from);
}

/* The buffer from which a loop beside or around it adds there, or NULL. */
static tc_value *shared_buffer(const struct bulk *s, const tc_op *store,
                               const tc_type *type)
{
    tc_value *buffer = s->added_from;
    return buffer && adds(store) && s->added_to == tc_accessed_tensor(store) &&
                   buffer->type == type && tc_value_is_visible(buffer, store) &&
                   loop_around(s, store)
               ? buffer
               : NULL;
}

static void replace(struct bulk *s, tc_op *store, const tc_type *type,
                    const parts *p, enum place place)
{
    tc_builder b = tc_builder_before(store);
    tc_op *loop = place == IN_LOOP  ? whole_loop(s, store)
                  : place == ALWAYS ? s->tiles
                                    : NULL;
    tc_builder top = loop ? tc_builder_before(loop) : b;
    top.loc = store->loc;
    tc_value *buffer = shared_buffer(s, store, type);
    bool shared = buffer != NULL;
    if (!shared)
        buffer = tc_build(&top, TC_SMEM_ALLOC, 0, NULL, type);
    if (adds(store) && loop) {
        s->added_from = buffer;
        s->added_to = tc_accessed_tensor(store);
    }
    if (loop || shared) {
        build_wait(&b);
        build_barrier(&b, p);
    }
    build_copy(&b, store->in[0], buffer, build_stored(s, &b, store), p,
               adds(store));
    if (!loop && !shared) {
        build_wait(&b);
        build_barrier(&b, p);
    }
    if (place == IN_LOOP && !shared)
        wait_behind(s, loop);
    s->waits_at_end |= place == ALWAYS;
    tc_forget_speculatable(store->parent);
    tc_value *stored = store->in[1];
    tc_op_erase(store);
    erase_unused(tc_match_op(stored, TC_TRANS));
    erase_unused(tc_match_op(stored, TC_CONVERT_LAYOUT));
    s->changed = true;
}

/* ---- Who writes there later ---- */

static bool writes_there(const tc_op *op, const tc_value *tensor)
{
    if (op->nregions == 0)
        return tc_writes_global(op) && tc_accessed_tensor(op) == tensor;
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            if (writes_there(inner, tensor))
                return true;
    return false;
}

/* All threads, for what all groups have stored. */
static void build_written(tc_builder b)
{
    tc_op *op = build_wait(&b);
    tc_op_set_attr(op, "written", (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
    build(&b, TC_BARRIER, 0, NULL);
    tc_forget_speculatable(b.region);
}

static bool is_written_in(const tc_region *r, const tc_value *tensor)
{
    tc_each_op (op, r)
        if (writes_there(op, tensor))
            return true;
    return false;
}

/* Others wait until the store is over; a branch does it where it is taken. */
static void wait_before_writers(const tc_op *store, const tc_value *tensor)
{
    for (tc_op *op = store->next; op; op = op->next) {
        bool branch = op->code == TC_IF;
        for (unsigned i = 0; branch && i < op->nregions; i++) {
            tc_region *r = op->regions[i];
            if (is_written_in(r, tensor))
                build_written((tc_builder){store->func, r, r->first, op->loc});
        }
        if (!branch && writes_there(op, tensor))
            build_written(tc_builder_before(op));
    }
}

/* ---- The walk ---- */

/* What the launch must promise of the tensor from now on. */
static bool may_be_aligned(const struct bulk *s, const tc_value *tensor)
{
    return tensor && !tensor->def && tensor->index < 64 &&
           !s->env->options->any_alignment && tc_can_be_aligned(tensor->type);
}

static parts parts_of(const struct bulk *s, const tc_type *tile)
{
    unsigned groups = s->f->warps / 4, axis;
    bool apart = groups > 1 && tc_held_by_groups(tile->layout, groups, &axis);
    return (parts){apart, apart ? axis : 0};
}

static const char *try_store(struct bulk *s, tc_op *store)
{
    if (loop_around(s, store) && !adds(store))
        return "it stands in a loop within that over the tiles";
    if (!tc_match_op(store->in[0], TC_BLOCK))
        return "a bulk copy needs a `block` of a tensor with its offsets here";
    const char *why = why_ordered_in(s->f->body, store);
    if (why)
        return why;
    uint64_t aligned = s->f->aligned;
    const tc_value *tensor = tc_accessed_tensor(store);
    if (may_be_aligned(s, tensor))
        s->f->aligned |= (uint64_t)1 << tensor->index;
    const tc_type *tile = stored_type(s, store);
    const parts whole = {false, 0};
    parts p = parts_of(s, tile);
    const tc_type *type = choose_buffer(s, store, tile, &p, &why);
    if (!type) {
        p = whole;
        type = choose_buffer(s, store, tile, &p, &why);
    }
    enum place place = !type ? NOWHERE
                       : shared_buffer(s, store, type)
                           ? SHARED
                           : find_place(s, store, type);
    if (type && !place)
        why = tc_arena_printf(
            s->env->scratch,
            "its %u bytes of shared memory do not fit beside %u slots for each "
            "load of the loop: smaller tiles take less",
            tc_smem_bytes(type), hot_slots(s));
    if (!place) {
        s->f->aligned = aligned;
        return why;
    }
    tc_remark(s->env->cx, store->loc, pass,
              "store: one bulk copy of %u bytes%s%s", tc_smem_bytes(type),
              p.by_group ? ", a part of it by each warp group" : "",
              loop_around(s, store) ? ", added to what is there"
              : place == ALWAYS
                  ? ", while the next tile is under way"
                  : ", which is waited for: there is no room for a "
                    "buffer of its own");
    wait_before_writers(store, tensor);
    replace(s, store, type, &p, place);
    return NULL;
}

static void visit(struct bulk *s, tc_region *r)
{
    tc_each_op_safe (op, r) {
        for (unsigned i = 0; i < op->nregions && op->code != TC_REDUCE; i++)
            visit(s, op->regions[i]);
        tc_loc loc = op->loc;
        const char *why = is_candidate(s, op) ? try_store(s, op) : NULL;
        if (why)
            tc_remark(s->env->cx, loc, pass, "store: no bulk copy: %s", why);
    }
}

tc_change tc_pass_bulk_stores(tc_func *f, tc_pass_env *env)
{
    struct bulk s = {.env = env, .f = f};
    if (!f->is_kernel || !env->target->tma ||
        !tc_region_any(f->body, tc_is_group_mma))
        return TC_UNCHANGED;
    tc_each_op (op, f->body)
        if (tc_is_tile_loop(op))
            s.tiles = op;
    visit(&s, f->body);
    if (s.waits_at_end) {
        tc_builder b = {f, f->body, s.tiles->next, s.tiles->loc};
        build_wait(&b);
    }
    return s.changed ? TC_CHANGED : TC_UNCHANGED;
}
