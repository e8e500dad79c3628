/* SPDX-License-Identifier: Apache-2.0
 *
 * dot and the transposition of its operands, on buffers.
 *
 * The code is long and depends on the shapes alone, so it stands in functions
 * of its own that all dots of a shape share: that halves the time to compile
 * attention. The accumulator is computed into the result's buffer first, in
 * place if the plan allows it.
 */
#include "codegen/host/emit/emit.h"

#include "codegen/host/emit/dot.h"

typedef struct product {
    tc_emit *e;
    LLVMTypeRef elem;
    const tc_type *result; /* elements, to which sums are rounded */
    LLVMValueRef c;
    unsigned n;
} product;

static LLVMValueRef element_at(const product *p, LLVMValueRef row,
                               LLVMValueRef col)
{
    LLVMBuilderRef b = p->e->b;
    LLVMValueRef at = LLVMBuildMul(b, row, tc_i64(p->e, p->n), "");
    return tc_element(p->e, p->elem, p->c, LLVMBuildAdd(b, at, col, ""));
}

static unsigned bytes_of(const product *p)
{
    return p->elem == p->e->f64 ? 8 : 4;
}

static LLVMValueRef start_value(void *user, LLVMValueRef row, LLVMValueRef col,
                                unsigned width)
{
    const product *p = user;
    LLVMValueRef x = LLVMBuildLoad2(p->e->b, tc_vector_of(p->elem, width),
                                    element_at(p, row, col), "");
    LLVMSetAlignment(x, bytes_of(p));
    return x;
}

static void end_value(void *user, LLVMValueRef row, LLVMValueRef col,
                      LLVMValueRef x)
{
    const product *p = user;
    x = tc_rounded(p->e, p->result, x);
    LLVMValueRef store = LLVMBuildStore(p->e->b, x, element_at(p, row, col));
    LLVMSetAlignment(store, bytes_of(p));
}

/* The function void (a, b, c): c = a b, or c += a b. Sums of f16 are f32 in
 * registers, and rounded at the end. */
static LLVMValueRef dot_function(tc_emit *e, const tc_op *op)
{
    const tc_type *a = op->in[0]->type, *b = op->in[1]->type;
    bool wide = a->elem->kind == TC_F64, adds = op->nin > 2;
    bool ints = a->elem->kind == TC_I8;
    tc_host_dot dot = {
        .b = e->b,
        .m = tc_side(a, 0),
        .n = tc_side(b, 1),
        .k = tc_side(a, 1),
        .elem = ints   ? e->i32
                : wide ? e->f64
                       : e->f32,
        .from = ints   ? e->i8
                : wide ? e->f64
                       : e->f32,
        .a_unsigned = tc_dot_is_unsigned(op, 0),
        .b_unsigned = tc_dot_is_unsigned(op, 1),
        .lda = tc_side(a, 1),
        .ldb = tc_side(b, 1),
        .done = end_value,
        .vector_width = wide && e->width > 1 ? e->width / 2 : e->width,
        .nregs = e->nregs,
    };
    const tc_type *result = op->out[0]->type->elem;
    const char *name = tc_arena_printf(
        e->arena, "dot_%ux%ux%u_%s%s%s", dot.m, dot.n, dot.k,
        ints   ? tc_arena_printf(e->arena, "i8_%s", tc_op_word(op, "unsigned"))
        : wide ? "f64"
               : "f32",
        adds ? "_add" : "", result->kind == TC_F16 ? "_f16" : "");
    LLVMTypeRef types[] = {e->ptr, e->ptr, e->ptr};
    tc_function f;
    if (!tc_function_begin(e, &f, name, 3, types))
        return f.fn;
    product p = {e, dot.elem, result, LLVMGetParam(f.fn, 2), dot.n};
    dot.fn = f.fn;
    dot.a = LLVMGetParam(f.fn, 0);
    dot.bmat = LLVMGetParam(f.fn, 1);
    dot.init = adds ? start_value : NULL;
    dot.user = &p;
    tc_host_emit_dot(&dot);
    tc_function_end(e, &f);
    return f.fn;
}

void tc_emit_dot_op(tc_emit *e, tc_op *op)
{
    tc_host_buffer *c = tc_buffer_of(op->out[0]);
    if (op->nin > 2)
        tc_emit_into(e, op->in[2], c);
    LLVMValueRef args[] = {tc_buffer_address(e, tc_buffer_of(op->in[0])),
                           tc_buffer_address(e, tc_buffer_of(op->in[1])),
                           tc_buffer_address(e, c)};
    tc_function_call(e, dot_function(e, op), 3, args);
}

/* void (from, to) */
static LLVMValueRef trans_function(tc_emit *e, const tc_type *from)
{
    unsigned rows = tc_side(from, 0), cols = tc_side(from, 1);
    unsigned bytes = tc_scratch_bytes(from->elem);
    const char *name = tc_arena_printf(e->arena, "trans_%ux%u_%u_%u", rows,
                                       cols, bytes, from->elem->kind);
    LLVMTypeRef types[] = {e->ptr, e->ptr};
    tc_function f;
    if (!tc_function_begin(e, &f, name, 2, types))
        return f.fn;
    tc_host_emit_transpose(e->b, f.fn, LLVMGetParam(f.fn, 0), rows, cols, cols,
                           LLVMGetParam(f.fn, 1), rows,
                           tc_scratch_type(e, from->elem), e->width);
    tc_function_end(e, &f);
    return f.fn;
}

void tc_emit_trans_op(tc_emit *e, tc_op *op)
{
    LLVMValueRef args[] = {tc_buffer_address(e, tc_buffer_of(op->in[0])),
                           tc_buffer_address(e, tc_buffer_of(op->out[0]))};
    tc_function_call(e, trans_function(e, op->in[0]->type), 2, args);
}
