/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that a loop with wgmma loads, such as a number for each column of an
 * accumulator: every thread needs some of them, in an order that no load has.
 * They go through shared memory, where the producer thread can prefetch them.
 *
 *   %l = load %w : tile<64 x f32, #slice(0 of 128, #mma(8x1))>
 *
 *   %r = load %w : tile<64 x f32, #blocked(..)>
 *   %b = smem_alloc : smem<64 x f32, #rows>
 *   smem_store %b, %r
 *   %l = smem_load %b : tile<64 x f32, #slice(0 of 128, #mma(8x1))>
 *                                                 before the first use of %l
 *
 * If an operand is computed from the row too, a buffer holds it already.
 */
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/layout/assign_layouts.h"
#include "passes/sync/shared_memory.h"
#include "passes/target/machine_model.h"

static const char pass[] = "assign-layouts";

static bool loop_has_groups(const tc_placing *s, const tc_op *loop)
{
    for (const tc_dot *d = s->dots; d; d = d->next)
        if (loop && d->loop == loop && tc_dot_is_group(d))
            return true;
    return false;
}

/* Elements outside of the tensor read 0. */
static bool pads_with_zero(const tc_op *load)
{
    const tc_attr *pad = tc_op_attr(load, "pad");
    return pad->kind == TC_ATTR_NONE ||
           (pad->number.is_float ? pad->number.f == 0 : pad->number.i == 0);
}

static bool is_candidate(const tc_placing *s, const tc_op *op)
{
    if (op->code != TC_LOAD || op->nin != 1 ||
        !tc_is_read_in_registers(op->out[0]) ||
        !tc_match_op(op->in[0], TC_BLOCK) || !pads_with_zero(op))
        return false;
    const tc_type *t = op->out[0]->type;
    const tc_value *tensor = tc_accessed_tensor(op);
    return t->kind == TC_TILE && t->rank == 1 &&
           tc_type_count(t) * tc_type_bytes(t->elem) % TC_VECTOR_BYTES == 0 &&
           tensor && !tensor->def && tensor->index < 64 &&
           s->axes->aligned >> tensor->index & 1 &&
           loop_has_groups(s, tc_layout_loop(op)) &&
           op->parent->op == tc_layout_loop(op);
}

static tc_op *first_use_in(const tc_region *r, const tc_value *v,
                           const tc_op *but)
{
    tc_each_op (op, r)
        tc_each_use (u, v)
            if (u->op != but && tc_ancestor_in(r, u->op) == op)
                return op;
    return NULL;
}

/* Stores the row into a buffer of its own, right after the load. */
static tc_op *hold(tc_placing *s, tc_op *load)
{
    tc_value *row = load->out[0];
    const unsigned order[] = {0};
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(row->type, sides);
    const tc_layout *rows = tc_layout_swizzled(
        s->cx, 1, sides, order, 8 * tc_type_bytes(row->type->elem), 0);
    tc_builder b = tc_builder_after(s->f, row, load->loc);
    tc_value *buffer = tc_build(&b, TC_SMEM_ALLOC, 0, NULL,
                                tc_type_smem(s->cx, row->type, rows, 0));
    tc_value *in[] = {buffer, row};
    return tc_build_effect(&b, TC_SMEM_STORE, 2, in);
}

static void stage(tc_placing *s, tc_op *load)
{
    tc_value *row = load->out[0];
    const tc_type *held = row->type;
    tc_op *store = tc_early_store(load);
    tc_builder b = tc_builder_before(first_use_in(load->parent, row, store));
    b.loc = load->loc;
    if (!store)
        store = hold(s, load);
    tc_value *read = tc_build(&b, TC_SMEM_LOAD, 1, &store->in[0], held);
    const tc_type *plain = tc_type_with_layout(s->cx, held, NULL);
    tc_value_replace(row, read);
    tc_op_set_in(store, 1, row);
    row->type = tc_type_with_layout(s->cx, plain, tc_layout_default(s, plain));
    read->name = row->name;
    row->name = NULL;
    tc_forget_speculatable(load->parent);
    s->f->aligned |= (uint64_t)1 << tc_accessed_tensor(load)->index;
    tc_remark(s->cx, load->loc, pass,
              "load: through shared memory, so that it can be copied ahead");
}

void tc_rows_stage(tc_placing *s, tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (s->target->tma && is_candidate(s, op))
            stage(s, op);
    }
}
