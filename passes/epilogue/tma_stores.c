/* SPDX-License-Identifier: Apache-2.0
 *
 * tma-stores: accumulators go to global memory through shared memory, from
 * where a TMA store copies them while the next tile is computed.
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
 * The tile is in the layout of m64 products, whose rows lie in short pieces in
 * every thread's registers; its buffer is one that stmatrix writes and TMA
 * reads without bank conflicts. If the buffer does not fit into a block's
 * shared memory next to two slots for each load of the hot loop, it lives only
 * from the smem_store to the end of the copy, which is then awaited; if not
 * even that fits, the store stays as it is. Accumulating stores in an inner
 * loop (tc_tma_store_adds; dq) also use TMA, with reduce-add; their staging
 * buffer is awaited one step later. So is that of other stores in an inner
 * loop; if steps may write the same elements, until it has written. If it
 * cannot coexist with the buffers used after the loop, its copies end before
 * them. A tile that a step stores for a product of its own too is copied from
 * the operand's buffer. A store after a `follow` needs a buffer of its own:
 * codegen leaves it to store warps, which wait. Tests:
 * test/ir/passes/tma-stores.
 */
#include "passes/epilogue/tma_stores.h"

#include "passes/analysis/axis_info.h"
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/analysis/tile_loop.h"
#include "passes/instructions/hints.h"
#include "passes/instructions/tma.h"
#include "passes/instructions/wgmma.h"
#include "passes/sync/hazards.h"
#include "passes/sync/shared_memory.h"

#include "ir/types/layout.h"
#include "passes/instructions/mma.h"
#include "passes/target/machine_model.h"

static const char pass[] = "tma-stores";

/* A store of a tile that warp groups hold. */
typedef struct parts {
    bool by_group; /* each group stores its own part */
    unsigned axis; /* axis along which the groups' parts lie */
    bool front;    /* whole boxes may lie before the tensor */
} parts;

/* ---- Which stores ---- */

static const unsigned swap[] = {1, 0};

/* The reshape that gives the stored tile its sides, and leaves its rows as they
 * are; NULL: none. */
static const tc_op *reshape_of(const tc_op *store)
{
    const tc_op *op = tc_match_op(store->in[1], TC_RESHAPE);
    const tc_type *from = op ? op->in[0]->type : NULL;
    const tc_type *to = store->in[1]->type;
    return from && from->rank == 2 && to->rank > 2 &&
                   from->dims[1] == to->dims[to->rank - 1]
               ? op
               : NULL;
}

tc_value *tc_tma_store_source(tc_tma_stores *s, const tc_op *store)
{
    const tc_op *reshape = reshape_of(store);
    tc_value *v = reshape ? reshape->in[0] : store->in[1];
    const tc_op *trans = tc_match_op(v, TC_TRANS);
    const tc_op *convert =
        tc_match_op(trans ? trans->in[0] : v, TC_CONVERT_LAYOUT);
    if (convert && tc_layout_conversion(
                       s->env->cx, convert->in[0]->type->layout,
                       convert->out[0]->type->layout) == TC_CONVERT_SHARED)
        return convert->in[0];
    return v;
}

bool tc_tma_store_is_transposed(const tc_op *store, const tc_value *source)
{
    return source != store->in[1] && tc_match_op(store->in[1], TC_TRANS);
}

/* The type of the stored tile, with the layout that it has when it is
 * stored. */
static const tc_type *stored_type(tc_tma_stores *s, const tc_op *store)
{
    tc_context *cx = s->env->cx;
    const tc_value *from = tc_tma_store_source(s, store);
    if (!tc_tma_store_is_transposed(store, from))
        return from->type;
    return tc_type_with_layout(cx, store->in[1]->type,
                               tc_layout_trans(cx, from->type->layout, swap));
}

static tc_value *build_stored(tc_tma_stores *s, tc_builder *b,
                              const tc_op *store)
{
    tc_value *from = tc_tma_store_source(s, store);
    return tc_tma_store_is_transposed(store, from)
               ? tc_build(b, TC_TRANS, 1, &from, NULL)
               : from;
}

static uint32_t bytes_of(const tc_type *t)
{
    return (uint32_t)tc_type_count(t) * tc_type_bytes(t->elem);
}

bool tc_tma_store_adds(const tc_op *store)
{
    return tc_op_is_word(store, "kind", "add");
}

/* In each step of a loop within a tile, and not in any order. */
static bool is_repeated(const tc_tma_stores *s, const tc_op *store)
{
    return tc_tma_store_loop(s, store) && !tc_tma_store_adds(store);
}

/* The layout of an accumulator of m64 products, or of its transpose. */
static bool is_accumulator(tc_context *cx, const tc_type *t)
{
    int m, n;
    return tc_wgmma_grid(t->layout, &m, &n) ||
           tc_wgmma_grid(tc_layout_trans(cx, t->layout, swap), &m, &n);
}

/* Stores that gain by TMA: accumulators of m64 products whose pieces are a
 * sector or less, and stores of kind(add). */
static bool is_candidate(tc_tma_stores *s, const tc_op *op)
{
    if (op->code != TC_STORE || op->nin != 2 ||
        op->in[0]->type->kind != TC_BLOCK_PTR ||
        op->in[1]->type->kind != TC_TILE || tc_op_is_word(op, "tma", "none"))
        return false;
    const tc_type *t = stored_type(s, op);
    if (!t->layout || t->rank != 2 || bytes_of(t) < TC_STAGED_MIN_BYTES ||
        !is_accumulator(s->env->cx, t))
        return false;
    if (tc_tma_store_adds(op))
        return t->elem->kind == TC_F32;
    /* Four lanes side by side hold two elements each; whole sectors are written
     * well as it is. */
    return 8 * tc_type_bytes(t->elem) < TC_SECTOR_BYTES;
}

/* ---- The buffer ---- */

/* Words of one bank that an access of the smem_store hits; *by_matrix. 0: it
 * cannot be written. */
static unsigned ways_of(tc_tma_stores *s, const tc_type *tile,
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

/* The tile as the window has it, and back. */
static const tc_type *in_window(tc_context *cx, const tc_op *store,
                                const tc_type *tile)
{
    const tc_type *w = store->in[0]->type;
    return tc_type_shaped(cx, TC_TILE, w->rank, w->dims, tile->elem);
}

static const tc_layout *as_tile(tc_context *cx, const tc_type *tile,
                                const tc_layout *l)
{
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(tile, sides);
    return l->rank == tile->rank ? l
                                 : tc_layout_reshape(cx, l, tile->rank, sides);
}

/* The axes from the fastest in memory on. */
static void find_order(const tc_op *store, const tc_type *window,
                       unsigned order[TC_MAX_RANK])
{
    unsigned fast = window->rank > 2
                        ? window->rank - 1
                        : tc_contiguous_axis(tc_block_of(store->in[0]));
    for (unsigned i = 0; i < window->rank; i++)
        order[i] = tc_dim_by_stride(window->rank, fast, i);
}

/* The type of the buffer with the fewest conflicts, then the widest swizzle.
 * NULL: no TMA copy takes it. */
static const tc_type *choose_buffer(tc_tma_stores *s, const tc_op *store,
                                    const tc_type *tile, const parts *p,
                                    const char **why)
{
    tc_context *cx = s->env->cx;
    const tc_type *best = NULL;
    unsigned bits = 8 * tc_type_bytes(tile->elem), least = 0;
    const tc_type *window = in_window(cx, store, tile);
    unsigned order[TC_MAX_RANK];
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(window, sides);
    find_order(store, window, order);
    for (unsigned w = tc_layout_widest_swizzle(sides[order[0]], bits);;
         w /= 2) {
        tc_tma t;
        bool by_matrix;
        w = w < 32 ? 0 : w;
        const tc_layout *l =
            tc_layout_swizzled(cx, window->rank, sides, order, bits, w);
        const tc_layout *view = as_tile(cx, tile, l);
        const tc_type *type = tc_type_smem(cx, window, l, 0);
        unsigned groups = p->by_group ? tc_warpgroups(s->f->warps) : 1;
        unsigned ways = view && tc_tma_of_groups(store->in[0], type, p->axis,
                                                 groups, &t, why)
                            ? ways_of(s, tile, view, &by_matrix)
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

/* ---- Building ---- */

static void set_flag(tc_op *op, const char *name)
{
    tc_op_set_attr(op, name, (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
}

tc_op *tc_tma_store_build_wait(tc_builder *b)
{
    tc_op *op = tc_build_effect(b, TC_TMA_STORE_WAIT, 0, NULL);
    tc_op_set_int(op, "pending", 0);
    return op;
}

/* parts: each warp group stores its own, and need not meet the others. */
static tc_op *build_barrier(tc_builder *b, const parts *p)
{
    tc_op *op = tc_build_effect(b, TC_BARRIER, 0, NULL);
    if (p->by_group)
        tc_op_set_word(op, "scope", "group");
    return op;
}

/* After the wait of the thread that stores: all may write the buffer again. */
static void build_reuse(tc_builder *b, const parts *p)
{
    tc_op_set_word(build_barrier(b, p), "guards", "stores");
}

static void build_write(tc_builder *b, tc_value *buffer, tc_value *tile)
{
    tc_value *write[] = {buffer, tile};
    if (tile->type->rank != buffer->type->rank) {
        tc_context *cx = b->func->module->cx;
        const tc_layout *l = as_tile(cx, tile->type, buffer->type->layout);
        write[0] = tc_build(b, TC_SMEM_RESHAPE, 1, &buffer,
                            tc_type_smem(cx, tile->type, l, 0));
    }
    tc_build_effect(b, TC_SMEM_STORE, 2, write);
}

/* follow: the op before the store that orders it, or NULL */
static tc_op *build_copy(tc_builder *b, tc_op *store, const tc_op *follow,
                         tc_value *buffer, const parts *p)
{
    tc_value *copy[5] = {store->in[0], buffer};
    for (unsigned i = 0; i < 3 && follow; i++)
        copy[2 + i] = follow->in[i];
    tc_build_effect(b, TC_FENCE_ASYNC, 0, NULL);
    build_barrier(b, p);
    tc_op *op = tc_build_effect(b, TC_TMA_STORE, follow ? 5 : 2, copy);
    tc_hints_move(pass, op, store, "a TMA store goes to the L2 cache");
    if (p->by_group)
        tc_op_set_word(op, "scope", "group");
    if (p->by_group && p->axis)
        tc_op_set_int(op, "axis", p->axis);
    if (tc_tma_store_adds(store))
        tc_op_set_word(op, "kind", "add");
    if (p->front)
        set_flag(op, "front");
    return op;
}

/* Waits until no copy out of the loop is outstanding: its buffer's memory may
 * be used for others. */
static void wait_after_loop(tc_tma_stores *s, tc_op *loop)
{
    const parts whole = {false, 0, false};
    tc_builder b = {.func = s->f,
                    .region = loop->parent,
                    .before = loop->next,
                    .loc = loop->loc};
    tc_tma_store_build_wait(&b);
    build_reuse(&b, &whole);
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

/* The buffer from which a loop next to this op, or around it, adds to that
 * tensor (tc_tma_store_adds), or NULL. */
static tc_value *shared_buffer(const tc_tma_stores *s, const tc_op *store,
                               const tc_type *type)
{
    tc_value *buffer = s->added_from;
    return buffer && tc_tma_store_adds(store) &&
                   s->added_to == tc_accessed_tensor(store) &&
                   buffer->type == type && tc_value_is_visible(buffer, store) &&
                   tc_tma_store_loop(s, store)
               ? buffer
               : NULL;
}

static void add_step(tc_tma_stores *s, const tc_op *copy, tc_op *wait)
{
    tc_step_copy *x = tc_arena_array(s->env->scratch, tc_step_copy, 1);
    *x = (tc_step_copy){copy, wait, s->steps};
    s->steps = x;
}

static bool is_before(const tc_op *a, const tc_op *b)
{
    while (b && b != a)
        b = b->prev;
    return b;
}

/* What stores the same tile into a buffer of that type, for a product of the
 * step; NULL: nothing. */
static tc_op *operand_store(tc_tma_stores *s, const tc_op *store,
                            const tc_type *type)
{
    tc_each_use (u, tc_tma_store_source(s, store)) {
        tc_op *op = u->op;
        const tc_op *alloc = op->code == TC_SMEM_STORE ? op->in[0]->def : NULL;
        if (!alloc || u->index != 1 || op->parent != store->parent ||
            alloc->code != TC_SMEM_ALLOC || alloc->parent != store->parent ||
            op->in[0]->type != type || !is_before(op, store))
            continue;
        unsigned writers = 0;
        tc_each_use (v, op->in[0])
            writers += v->op->code != TC_MMA;
        if (writers == 1)
            return op;
    }
    return NULL;
}

/* From the buffer of an operand, which is kept while the copy reads it:
 *
 *   smem_store %b, %x                      tma_store_wait, barrier
 *   store %w, %x              becomes      smem_store %b, %x
 *   mma %a, %b                             fence_async, barrier
 *                                          tma_store %w, %b
 *                                          mma %a, %b
 */
static bool copy_operand(tc_tma_stores *s, tc_op *store, const tc_type *type,
                         const parts *p, tc_tma_store_place place)
{
    tc_op *first = place == TC_TMA_STORE_IN_LOOP && is_repeated(s, store) &&
                           !tc_follow_of(store)
                       ? operand_store(s, store, type)
                       : NULL;
    if (!first)
        return false;
    tc_op *loop = tc_tma_store_whole_loop(s, store), *alloc = first->in[0]->def;
    tc_op_remove(alloc);
    tc_op_insert(alloc, loop->parent, loop);
    tc_builder b = tc_builder_before(first);
    b.loc = store->loc;
    tc_op *wait = tc_tma_store_build_wait(&b);
    if (!tc_tma_store_moves(s, store))
        set_flag(wait, "written");
    build_reuse(&b, p);
    b = tc_builder_before(store);
    add_step(s, build_copy(&b, store, NULL, first->in[0], p), wait);
    wait_after_loop(s, loop);
    tc_remark(s->env->cx, store->loc, pass,
              "store: from the buffer of a product's operand");
    tc_forget_speculatable(store->parent);
    tc_value *stored = store->in[1];
    tc_op_erase(store);
    erase_unused(tc_match_op(stored, TC_CONVERT_LAYOUT));
    s->changed = true;
    return true;
}

static void replace(tc_tma_stores *s, tc_op *store, const tc_type *type,
                    const parts *p, tc_tma_store_place place)
{
    if (copy_operand(s, store, type, p, place))
        return;
    tc_op *follow = tc_follow_of(store);
    tc_builder b = tc_builder_before(store);
    tc_op *loop = place == TC_TMA_STORE_IN_LOOP
                      ? tc_tma_store_whole_loop(s, store)
                  : place == TC_TMA_STORE_ALWAYS ? s->tiles
                                                 : NULL;
    tc_builder top = loop ? tc_builder_before(loop) : b;
    top.loc = store->loc;
    tc_value *buffer = shared_buffer(s, store, type);
    bool shared = buffer != NULL;
    if (!shared)
        buffer = tc_build(&top, TC_SMEM_ALLOC, 0, NULL, type);
    if (tc_tma_store_adds(store) && loop) {
        s->added_from = buffer;
        s->added_to = tc_accessed_tensor(store);
    }
    tc_op *wait = loop || shared ? tc_tma_store_build_wait(&b) : NULL;
    if (wait && follow)
        set_flag(wait, "sent");
    if (is_repeated(s, store) && !tc_tma_store_moves(s, store))
        set_flag(wait, "written");
    if (wait)
        build_reuse(&b, p);
    else if (p->by_group)
        build_barrier(&b, p);
    build_write(&b, buffer, build_stored(s, &b, store));
    tc_op *copy = build_copy(&b, store, follow, buffer, p);
    if (is_repeated(s, store))
        add_step(s, copy, wait);
    if (!loop && !shared) {
        tc_tma_store_build_wait(&b);
        build_reuse(&b, p);
    }
    if (place == TC_TMA_STORE_IN_LOOP && !shared)
        wait_after_loop(s, loop);
    s->waits_at_end |= place == TC_TMA_STORE_ALWAYS;
    tc_forget_speculatable(store->parent);
    tc_value *stored = store->in[1];
    tc_op_erase(store);
    if (follow)
        tc_op_erase(follow);
    erase_unused(tc_match_op(stored, TC_RESHAPE));
    erase_unused(tc_match_op(stored, TC_TRANS));
    erase_unused(tc_match_op(stored, TC_CONVERT_LAYOUT));
    s->changed = true;
}

/* ---- The walk ---- */

/* May the launch be required to pass an aligned tensor? */
static bool may_be_aligned(const tc_tma_stores *s, const tc_value *tensor)
{
    return tensor && !tensor->def && tensor->index < 64 &&
           !s->env->options->any_alignment && tc_can_be_aligned(tensor->type);
}

static parts parts_of(const tc_tma_stores *s, const tc_type *tile)
{
    unsigned groups = tc_warpgroups(s->f->warps), axis;
    bool apart = groups > 1 && tc_held_by_groups(tile->layout, groups, &axis);
    return (parts){apart, apart ? axis : 0, false};
}

/* As far as it can be seen. Where tiles are taken apart, as remainders, there
 * are products around the difference. */
static bool may_be_negative(const tc_value *offset)
{
    const tc_op *op = offset->def;
    if (op && op->code == TC_ADD)
        return may_be_negative(op->in[0]) || may_be_negative(op->in[1]);
    tc_scalar x;
    return op && (op->code == TC_SUB || op->code == TC_NEG ||
                  (tc_match_const(offset, &x) && x.i < 0));
}

/* TMA stores that begin before the tensor are illegal instructions (those
 * that end after it are not, nor are such loads): boxes have to lie there as a
 * whole, and are left out then. */
static bool may_begin_there(tc_tma_stores *s, const tc_op *store,
                            const tc_type *type, parts *p)
{
    const tc_op *block = tc_block_of(store->in[0]);
    const char *why;
    tc_tma t;
    if (!tc_tma_of_groups(store->in[0], type, p->axis,
                          p->by_group ? tc_warpgroups(s->f->warps) : 1, &t,
                          &why))
        return false;
    for (unsigned dim = 0; dim < t.rank; dim++) {
        const tc_value *offset = block->in[1 + dim];
        if (t.box[dim] == 1 || !may_be_negative(offset))
            continue;
        const tc_axis_analysis *a =
            tc_axis_analyse(s->env->scratch, s->f, s->f->aligned);
        if (tc_axis_divisor(tc_axis_info_of(a, offset)) % t.box[dim] != 0)
            return false;
        p->front = true;
    }
    return true;
}

/* The store warp stores: an mbarrier tells it that the buffer is full, another
 * one tells the groups that it may be written again. */
static bool may_be_sent(const parts *p, tc_tma_store_place place)
{
    return p->by_group &&
           (place == TC_TMA_STORE_ALWAYS || place == TC_TMA_STORE_SHARED);
}

static const char *try_store(tc_tma_stores *s, tc_op *store)
{
    if (is_repeated(s, store) && tc_tma_store_is_mixed(s, store))
        return "another store of its loop may write that tensor";
    const tc_op *block = tc_match_op(store->in[0], TC_BLOCK);
    if (!block || tc_block_index(block))
        return "a TMA copy needs a `block` of a tensor with its offsets here, "
               "all scalars";
    const char *why = tc_tma_store_why_ordered(s->f->body, store);
    if (why)
        return why;
    /* Each thread waits for its own copies only. */
    if (is_repeated(s, store) && !tc_tma_store_moves(s, store) &&
        tc_warpgroups(s->f->warps) > 1)
        return "steps of its loop write the same rows, and several warp groups "
               "do not wait for the copies of each other";
    uint64_t aligned = s->f->aligned;
    const tc_value *tensor = tc_accessed_tensor(store);
    if (may_be_aligned(s, tensor))
        s->f->aligned |= (uint64_t)1 << tensor->index;
    const tc_type *tile = stored_type(s, store);
    const parts whole = {false, 0, false};
    parts p = reshape_of(store) ? whole : parts_of(s, tile);
    const tc_type *type = choose_buffer(s, store, tile, &p, &why);
    if (!type) {
        p = whole;
        type = choose_buffer(s, store, tile, &p, &why);
    }
    if (type && !may_begin_there(s, store, type, &p)) {
        why = "it may begin before the tensor, within what is copied";
        type = NULL;
    }
    tc_tma_store_place place = !type ? TC_TMA_STORE_NOWHERE
                               : shared_buffer(s, store, type)
                                   ? TC_TMA_STORE_SHARED
                                   : tc_tma_store_find_place(s, store, type);
    if (type && !place)
        why = tc_arena_printf(s->env->scratch,
                              "its %u bytes of shared memory do not fit next "
                              "to %u slots for each "
                              "load of the loop: smaller tiles take less",
                              tc_smem_bytes(type), tc_tma_store_hot_slots(s));
    if (place && tc_follow_of(store) && !may_be_sent(&p, place)) {
        place = TC_TMA_STORE_NOWHERE;
        why = "it follows other programs, which takes parts of warp groups and "
              "a buffer of its own";
    }
    if (!place) {
        s->f->aligned = aligned;
        return why;
    }
    tc_remark(s->env->cx, store->loc, pass,
              "store: one TMA copy of %u bytes%s%s", tc_smem_bytes(type),
              p.by_group ? ", a part of it by each warp group" : "",
              is_repeated(s, store) ? ", while the next step is computed"
              : tc_tma_store_loop(s, store) ? ", added to what is there"
              : place == TC_TMA_STORE_ALWAYS
                  ? ", while the next tile is computed"
                  : ", which is waited for: there is no room for a "
                    "buffer of its own");
    tc_tma_store_wait_before_writers(store, tensor);
    replace(s, store, type, &p, place);
    return NULL;
}

static void tma_stores_visit(tc_tma_stores *s, tc_region *r)
{
    tc_each_op_safe (op, r) {
        for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
            tma_stores_visit(s, op->regions[i]);
        tc_loc loc = op->loc;
        const char *why = is_candidate(s, op) ? try_store(s, op) : NULL;
        if (why)
            tc_missed(s->env->cx, loc, pass, "store: no TMA copy: %s", why);
    }
}

tc_change tc_pass_tma_stores(tc_func *f, tc_pass_env *env)
{
    tc_tma_stores s = {.env = env, .f = f};
    if (!env->target->tma || !tc_region_any(f->body, tc_is_group_mma))
        return TC_UNCHANGED;
    tc_each_op (op, f->body)
        if (tc_is_tile_loop(op))
            s.tiles = op;
    tma_stores_visit(&s, f->body);
    tc_tma_store_count_waits(&s);
    if (s.waits_at_end) {
        tc_builder b = {.func = f,
                        .region = f->body,
                        .before = s.tiles->next,
                        .loc = s.tiles->loc};
        tc_tma_store_build_wait(&b);
    }
    return s.changed ? TC_CHANGED : TC_UNCHANGED;
}
