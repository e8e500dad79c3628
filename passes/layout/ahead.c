/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads that a loop computes with before a product takes the result: they go
 * through shared memory as they are in memory, so that they can be copied
 * ahead, and what is computed on the way is computed from there.
 *
 *   for .. {
 *     %w = load %wp : tile<64x128 x i8, #blocked(1x16, 4x8, 4x1)>
 *     %v = cast %w : tile<64x128 x bf16, ..>
 *     smem_store %b, %v                              operand of a product
 *
 *   for .. {
 *     %r = load %wp : tile<64x128 x i8, #blocked(1x16, 4x8, 4x1)>
 *     %s = smem_alloc : smem<64x128 x i8, #rows>
 *     smem_store %s, %r                              becomes a copy
 *     %w = smem_load %s : tile<64x128 x i8, #blocked(1x16, 4x8, 4x1)>
 *     %v = cast %w : tile<64x128 x bf16, ..>
 *     smem_store %b, %v
 *
 * What is read here and goes to shared memory as it is too has one buffer for
 * both. In a recurrence of matrices nothing hides a load's latency: there loads
 * that are used after a product go the same way.
 *
 * Without products the same is done for rows that each step of a recurrence
 * reads and reduces: there each thread reads what it copied.
 */
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/analysis/tile_loop.h"
#include "passes/layout/assign_layouts.h"
#include "passes/sync/hazards.h"
#include "passes/sync/shared_memory.h"
#include "passes/target/machine_model.h"

static const char pass[] = "assign-layouts";

/* ---- Which ---- */

static bool has_products(const tc_placing *s, const tc_op *loop)
{
    for (const tc_dot *d = s->dots; d; d = d->next)
        if (d->loop == loop && tc_dot_is_mma(d))
            return true;
    return false;
}

static bool is_zero(const tc_attr *pad)
{
    return pad->kind == TC_ATTR_NONE ||
           (pad->number.is_float ? pad->number.f == 0 : pad->number.i == 0);
}

static bool pads_with_zero(const tc_op *load)
{
    return is_zero(tc_op_attr(load, "pad")) &&
           (load->nin < 3 || tc_match_int(load->in[2], 0) ||
            tc_match_float(load->in[2], 0.0));
}

/* Under a condition: it may run rarely, and shared memory is for what always
 * does. */
static bool is_in_branch(const tc_op *loop)
{
    for (const tc_op *op = loop->parent->op; op; op = op->parent->op)
        if (op->code == TC_IF)
            return true;
    return false;
}

/* In each step of a loop of products that no other loop is in. */
static bool is_of_products(const tc_placing *s, const tc_op *load)
{
    const tc_op *loop = tc_layout_loop(load);
    return loop && !is_in_branch(loop) && loop->code == TC_FOR &&
           load->parent->op == loop && has_products(s, loop) &&
           !tc_region_any(loop->regions[0], tc_op_is_loop);
}

/* Is v computed from a product of the loop? */
static bool is_after_product(const tc_value *v, const tc_op *loop)
{
    if (!v->def || v->type->kind != TC_TILE || !tc_is_nested_in(v->def, loop))
        return false;
    if (v->def->code == TC_MMA || v->def->nregions)
        return true;
    for (unsigned i = 0; i < v->def->nin; i++)
        if (is_after_product(v->def->in[i], loop))
            return true;
    return false;
}

/* Does it become an operand of a product, without one on the way? */
static bool feeds_product(const tc_value *v, const tc_op *loop)
{
    tc_each_use (u, v) {
        if (u->op->code == TC_SMEM_STORE ||
            (u->op->code == TC_MMA && u->index < 2))
            return true;
        if (u->op->nout == 1 && !u->op->nregions &&
            u->op->code != TC_SMEM_LOAD && u->op->code != TC_MMA &&
            !is_after_product(u->op->out[0], loop) &&
            feeds_product(u->op->out[0], loop))
            return true;
    }
    return false;
}

bool tc_is_read_in_registers(const tc_value *v)
{
    tc_each_use (u, v)
        if (u->op->code != TC_SMEM_STORE)
            return true;
    return false;
}

/* Bytes side by side in memory: copies move 4 at least. */
static bool is_wide(const tc_placing *s, const tc_op *load)
{
    enum { LEAST = 4 };
    tc_vector v = tc_axis_vector(s->axes, load);
    return v.elements * tc_type_bytes(load->out[0]->type->elem) >= LEAST;
}

/* 8 bits in a loop of products that feed each other: their steps are long
 * enough for a load, and there is no shared memory to spare. */
static bool is_narrow_of_chain(const tc_placing *s, const tc_op *load)
{
    for (const tc_dot *d = s->dots; d; d = d->next)
        if (d->loop == load->parent->op && d->packed)
            return tc_type_bytes(load->out[0]->type->elem) == 1;
    return false;
}

bool tc_load_can_be_ahead(const tc_placing *s, const tc_op *load)
{
    const tc_type *t = load->out[0]->type;
    return s->target->cp_async && t->kind == TC_TILE &&
           tc_type_elem(t)->kind != TC_PTR && pads_with_zero(load) &&
           is_of_products(s, load) && is_wide(s, load) &&
           !is_narrow_of_chain(s, load);
}

static tc_op *first_reader(const tc_region *r, const tc_value *v)
{
    tc_each_op (op, r)
        tc_each_use (u, v)
            if (u->op->code != TC_SMEM_STORE && tc_ancestor_in(r, u->op) == op)
                return op;
    return NULL;
}

/* What stores the tile into a buffer already. */
static tc_op *store_of(const tc_op *load)
{
    tc_each_use (u, load->out[0])
        if (u->op->code == TC_SMEM_STORE && u->op->parent == load->parent &&
            u->op->in[0]->def && u->op->in[0]->def->code == TC_SMEM_ALLOC)
            return u->op;
    return NULL;
}

static bool comes_before(const tc_op *a, const tc_op *b)
{
    tc_each_op (op, a->parent)
        if (op == a || op == b)
            return op == a;
    return false;
}

/* Is the tile read before a buffer holds it? */
static bool is_stored_late(const tc_op *load)
{
    const tc_op *store = store_of(load);
    return store &&
           !comes_before(store, first_reader(load->parent, load->out[0]));
}

tc_op *tc_early_store(const tc_op *load)
{
    return is_stored_late(load) ? NULL : store_of(load);
}

/* ---- Rows of recurrences ---- */

/* In each step all warps meet: none of them can load for the others. */
static bool is_meeting(const tc_placing *s, const tc_region *r)
{
    bool meets = false;
    tc_each_op (op, r) {
        if ((op->nregions && op->code != TC_REDUCE && op->code != TC_IF) ||
            op->code == TC_MMA || op->code == TC_DOT || op->code == TC_ASSERT)
            return false;
        meets |= op->code == TC_REDUCE && tc_exchange_bytes(s->cx, op);
    }
    return meets;
}

static bool is_used_in_step(const tc_value *v)
{
    tc_each_use (u, v)
        if (u->op->code != TC_YIELD)
            return true;
    return false;
}

/* Each thread reads its own part, 8 bytes side by side or more. */
static bool is_shared_out(const tc_type *t)
{
    unsigned n = TC_OWN_COPY_BYTES / tc_type_bytes(t->elem);
    bool wide = false;
    for (unsigned i = 0; i < t->rank; i++)
        wide |= tc_layout_contiguous(t->layout, i, n) == n;
    return wide && !tc_layout_free_bits(t->layout, TC_LANE) &&
           !tc_layout_free_bits(t->layout, TC_WARP);
}

/* A large tile that a step reads and then has to compute with while memory
 * rests. Its ring is read by the threads that fill it: it needs no barriers. */
static bool is_row_of_recurrence(const tc_placing *s, const tc_op *op)
{
    const tc_op *loop = op->parent->op;
    if (op->code != TC_LOAD || op->nin != 1 || !s->target->cp_async)
        return false;
    const tc_type *t = op->out[0]->type;
    return t->kind == TC_TILE && t->layout &&
           tc_match_op(op->in[0], TC_BLOCK) &&
           !tc_block_index(op->in[0]->def) && loop && loop->code == TC_FOR &&
           !is_in_branch(loop) && !tc_is_tile_loop(loop) &&
           tc_type_elem(t)->kind != TC_PTR &&
           tc_type_count(t) * tc_type_bytes(t->elem) >
               TC_PREFETCHED_MOST_BYTES &&
           is_shared_out(t) && pads_with_zero(op) && is_wide(s, op) &&
           is_used_in_step(op->out[0]) && is_meeting(s, loop->regions[0]) &&
           tc_is_known_ahead(loop, op->in[0]) &&
           !tc_may_change_loaded_in(loop->regions[0], op);
}

/* A matrix that steps carry is an operand of a product: each step waits for the
 * one before, and nothing hides a load, wherever in the step it is used. */
static bool is_recurrence(const tc_op *loop)
{
    const tc_region *r = loop->regions[0];
    for (unsigned i = 1; i < r->nargs; i++)
        if (r->args[i]->type->kind == TC_TILE && r->args[i]->type->rank >= 2 &&
            feeds_product(r->args[i], loop))
            return true;
    return false;
}

static bool is_candidate(const tc_placing *s, const tc_op *op)
{
    return op->code == TC_LOAD && op->out[0]->type->rank >= 2 &&
           tc_is_read_in_registers(op->out[0]) && tc_load_can_be_ahead(s, op) &&
           (feeds_product(op->out[0], op->parent->op) ||
            is_recurrence(op->parent->op)) &&
           !is_stored_late(op);
}

/* ---- Through shared memory ---- */

static tc_value *hold(tc_placing *s, tc_op *load)
{
    const tc_type *t = load->out[0]->type;
    unsigned order[TC_MAX_RANK], fast = tc_tile_fast_axis(s, load->out[0]);
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(t, sides);
    for (unsigned i = 0; i < t->rank; i++)
        order[i] = tc_dim_by_stride(t->rank, fast, i);
    const tc_layout *rows = tc_layout_swizzled(s->cx, t->rank, sides, order,
                                               8 * tc_type_bytes(t->elem), 0);
    tc_builder b = tc_builder_after(s->f, load->out[0], load->loc);
    tc_value *buffer =
        tc_build(&b, TC_SMEM_ALLOC, 0, NULL, tc_type_smem(s->cx, t, rows, 0));
    tc_value *in[] = {buffer, load->out[0]};
    tc_build_effect(&b, TC_SMEM_STORE, 2, in);
    return buffer;
}

/* Another one of registers than of the copy: that one is as memory wants it. */
static void load_as_it_lies(tc_placing *s, tc_op *load)
{
    const tc_layout *l = tc_layout_of_load(s, load);
    if (l)
        load->out[0]->type = tc_type_with_layout(s->cx, load->out[0]->type, l);
}

static void stage(tc_placing *s, tc_op *load)
{
    tc_value *v = load->out[0];
    const tc_type *held = v->type;
    tc_op *reader = first_reader(load->parent, v);
    const tc_op *store = store_of(load);
    tc_value *buffer = store ? store->in[0] : hold(s, load);
    tc_builder b = tc_builder_before(reader);
    b.loc = load->loc;
    tc_value *read = tc_build(&b, TC_SMEM_LOAD, 1, &buffer, held);
    tc_use *next;
    for (tc_use *u = v->uses; u; u = next) {
        next = u->next;
        if (u->op->code != TC_SMEM_STORE)
            tc_op_set_in(u->op, u->index, read);
    }
    read->name = v->name;
    v->name = NULL;
    load_as_it_lies(s, load);
    tc_forget_speculatable(load->parent);
    const tc_value *tensor = tc_accessed_tensor(load);
    if (tensor && !tensor->def && tensor->index < 64)
        s->f->aligned |= s->axes->aligned & (uint64_t)1 << tensor->index;
    tc_remark(s->cx, load->loc, pass,
              "load: through shared memory, so that it can be copied ahead; "
              "what is computed from it is computed from there");
}

/* Into a ring of the threads' own. */
static void stage_own(tc_placing *s, tc_op *load)
{
    tc_value *v = load->out[0], *buffer = hold(s, load);
    tc_use *next, *uses = v->uses;
    tc_op *store = store_of(load);
    tc_builder b = tc_builder_before(store->next);
    b.loc = load->loc;
    tc_value *read = tc_build(&b, TC_SMEM_LOAD, 1, &buffer, v->type);
    for (tc_use *u = uses; u; u = next) {
        next = u->next;
        if (u->op != store)
            tc_op_set_in(u->op, u->index, read);
    }
    read->name = v->name;
    v->name = NULL;
    tc_forget_speculatable(load->parent);
    tc_remark(s->cx, load->loc, pass,
              "load: through shared memory, so that it can be copied ahead");
}

/* A row that operands are computed from (operands.c). */
static bool is_row_of_operand(const tc_placing *s, const tc_op *op)
{
    return op->code == TC_LOAD && op->out[0]->type->rank == 1 &&
           op->out[0]->uses && !tc_is_read_in_registers(op->out[0]) &&
           tc_load_can_be_ahead(s, op);
}

void tc_loads_stage(tc_placing *s, tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (is_candidate(s, op))
            stage(s, op);
        else if (is_row_of_recurrence(s, op))
            stage_own(s, op);
        else if (is_row_of_operand(s, op))
            load_as_it_lies(s, op);
    }
}
