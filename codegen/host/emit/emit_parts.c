/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles made of parts, and parts that are no run of elements: loops that copy
 * from the one index to the other. (Other parts are read where they lie.)
 */
#include "codegen/host/emit/emit.h"
#include "ir/parts.h"

/* The index in the whole of an index in a part. */
static tc_index index_in_whole(tc_emit *e, const tc_index *index,
                               tc_tile_part part)
{
    tc_index to = *index;
    LLVMValueRef *at = &to.at[part.axis];
    *at = LLVMBuildMul(e->b, *at, tc_i64(e, part.step), "");
    *at = LLVMBuildAdd(e->b, *at, tc_i64(e, part.at), "");
    return to;
}

/* Over the elements of the part: of a run by vectors. */
static void begin_walk(tc_walk *w, tc_emit *e, const tc_type *t,
                       tc_tile_part part)
{
    bool apart = part.step > 1 && (int)part.axis == tc_vector_axis(t);
    *w = tc_walk_new(e, NULL, t, apart ? 1 : e->width, 4);
    tc_walk_outer(w);
    tc_walk_inner(w);
    tc_walk_spread(w);
}

static void end_walk(tc_walk *w)
{
    tc_walk_end_inner(w);
    tc_walk_end_outer(w);
}

void tc_emit_slice(tc_emit *e, tc_op *op)
{
    tc_value *v = op->out[0];
    tc_tile_part part = tc_op_part(op, 0);
    tc_walk w;
    begin_walk(&w, e, v->type, part);
    for (unsigned u = 0; u < w.count; u++) {
        tc_index from = index_in_whole(e, &w.index[u], part);
        LLVMValueRef x = tc_eval_full(&w.nest, op->in[0], &from);
        tc_buffer_store(e, tc_buffer_of(v), v->type, &w.index[u], x);
    }
    end_walk(&w);
}

static void store_operand(tc_emit *e, tc_op *op, unsigned i)
{
    tc_value *v = op->out[0];
    tc_tile_part part = tc_op_part(op, i);
    tc_walk w;
    begin_walk(&w, e, op->in[i]->type, part);
    for (unsigned u = 0; u < w.count; u++) {
        LLVMValueRef x = tc_eval_full(&w.nest, op->in[i], &w.index[u]);
        tc_index to = index_in_whole(e, &w.index[u], part);
        tc_buffer_store(e, tc_buffer_of(v), v->type, &to, x);
    }
    end_walk(&w);
}

void tc_emit_join(tc_emit *e, tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        store_operand(e, op, i);
}
