/* SPDX-License-Identifier: Apache-2.0
 *
 * dot and the transposition of its operands, on buffers.
 *
 * The accumulator is computed where the product starts from it, element by
 * element: `acc * alpha` has no loop of its own.
 */
#include "codegen/host/emit.h"

#include "codegen/host/dot.h"

typedef struct product {
    tc_emit *e;
    tc_op *op;
} product;

static tc_index index_of(LLVMValueRef row, LLVMValueRef col, unsigned width)
{
    return (tc_index){.rank = 2,
                      .width = width,
                      .vector = width > 1 ? 1 : -1,
                      .at = {row, col}};
}

static LLVMValueRef start_value(void *user, LLVMValueRef row, LLVMValueRef col,
                                unsigned width)
{
    const product *p = user;
    /* A nest without loops: the microkernel has its own. */
    tc_nest nest = tc_nest_new(p->e, NULL);
    tc_index index = index_of(row, col, width);
    return tc_eval_full(&nest, p->op->in[2], &index);
}

static void end_value(void *user, LLVMValueRef row, LLVMValueRef col,
                      LLVMValueRef x)
{
    const product *p = user;
    const tc_value *v = p->op->out[0];
    unsigned width = tc_is_vector(x) ? LLVMGetVectorSize(LLVMTypeOf(x)) : 1;
    tc_index index = index_of(row, col, width);
    tc_buffer_store(p->e, tc_buffer_of(v), v->type, &index, x);
}

void tc_emit_dot_op(tc_emit *e, tc_op *op)
{
    const tc_type *a = op->in[0]->type, *b = op->in[1]->type;
    bool wide = a->elem->kind == TC_F64;
    product p = {e, op};
    tc_host_dot dot = {
        .b = e->b,
        .fn = e->fn,
        .m = tc_side(a, 0),
        .n = tc_side(b, 1),
        .k = tc_side(a, 1),
        .elem = wide ? e->f64 : e->f32,
        .a = tc_buffer_address(e, tc_buffer_of(op->in[0])),
        .lda = tc_side(a, 1),
        .bmat = tc_buffer_address(e, tc_buffer_of(op->in[1])),
        .ldb = tc_side(b, 1),
        .init = op->nin > 2 ? start_value : NULL,
        .done = end_value,
        .user = &p,
        .vector_width = wide ? e->width / 2 : e->width,
        .nregs = e->nregs,
    };
    tc_host_emit_dot(&dot);
}

void tc_emit_trans_op(tc_emit *e, tc_op *op)
{
    const tc_type *from = op->in[0]->type;
    unsigned rows = tc_side(from, 0), cols = tc_side(from, 1);
    LLVMValueRef src = tc_buffer_address(e, tc_buffer_of(op->in[0]));
    LLVMValueRef dst = tc_buffer_address(e, tc_buffer_of(op->out[0]));
    tc_host_emit_transpose(e->b, e->fn, src, rows, cols, cols, dst, rows,
                           tc_scratch_type(e, from->elem), e->width);
}
