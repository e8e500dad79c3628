/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors and block pointers: values that are several LLVM values.
 *
 *   tensor         address, sizes (i64), strides (i64)
 *   block pointer  those of its tensor, then an offset (i64) a dim; 0 where
 *                  the offset is a tile of indices
 */
#include "codegen/host/emit/emit.h"

#include <string.h>

const tc_op *tc_block_origin(const tc_value *v)
{
    const tc_op *op = v->def ? v->def : v->region->op;
    unsigned i = v->index;
    switch (op->code) {
    case TC_BLOCK: return op;
    case TC_ADVANCE: return tc_block_origin(op->in[0]);
    case TC_FOR: return tc_block_origin(op->in[3 + i - !v->def]);
    default: return tc_block_origin(op->in[i]); /* while */
    }
}

bool tc_check_carried_view(tc_emit *e, const tc_op *yield, unsigned i,
                           const tc_value *init)
{
    if (init->type->kind != TC_BLOCK_PTR)
        return true;
    const tc_attr *a = tc_op_attr(tc_block_origin(init), "sides");
    const tc_attr *b = tc_op_attr(tc_block_origin(yield->in[i]), "sides");
    bool same = a->n == b->n;
    for (unsigned j = 0; same && j < a->n; j++)
        same = !a->dims[j] == !b->dims[j];
    if (same)
        return true;
    e->failed = true;
    return tc_error(e->cx, yield->loc,
                    "yield: block pointer %u keeps other dims of its tensor "
                    "than the one that the loop starts with",
                    i);
}

LLVMValueRef tc_tensor_base(const tc_value *tensor)
{
    return tc_place_of(tensor)->parts[0];
}

LLVMValueRef tc_tensor_size(const tc_value *tensor, unsigned dim)
{
    return tc_place_of(tensor)->parts[1 + dim];
}

LLVMValueRef tc_tensor_stride(const tc_value *tensor, unsigned dim)
{
    return tc_place_of(tensor)->parts[1 + tensor->type->rank + dim];
}

static LLVMValueRef *new_parts(tc_emit *e, const tc_value *v, unsigned n)
{
    tc_place *p = tc_place_of(v);
    p->nparts = n;
    p->parts = tc_arena_array(e->arena, LLVMValueRef, n);
    return p->parts;
}

static void emit_block(tc_emit *e, tc_op *op)
{
    const tc_place *tensor = tc_place_of(op->in[0]);
    unsigned rank = op->in[0]->type->rank;
    LLVMValueRef *parts = new_parts(e, op->out[0], tensor->nparts + rank);
    memcpy(parts, tensor->parts, tensor->nparts * sizeof *parts);
    for (unsigned i = 0; i < rank; i++)
        parts[tensor->nparts + i] =
            tc_is_tile(op->in[1 + i])
                ? tc_i64(e, 0)
                : tc_to_i64(e, tc_scalar_of(e, op->in[1 + i]));
}

static void emit_advance(tc_emit *e, tc_op *op)
{
    const tc_place *from = tc_place_of(op->in[0]);
    unsigned n = from->nparts, rank = op->nin - 1;
    LLVMValueRef *parts = new_parts(e, op->out[0], n);
    memcpy(parts, from->parts, n * sizeof *parts);
    for (unsigned i = 0; i < rank; i++) {
        LLVMValueRef *offset = &parts[n - rank + i];
        LLVMValueRef by = tc_to_i64(e, tc_scalar_of(e, op->in[1 + i]));
        *offset = LLVMBuildAdd(e->b, *offset, by, "");
    }
}

/* ---- Tensors made in the kernel ---- */

static LLVMValueRef both(tc_emit *e, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildAnd(e->b, a, b, "");
}

static LLVMValueRef in_vectors(tc_emit *e, LLVMValueRef n, unsigned bytes)
{
    LLVMValueRef x = LLVMBuildMul(e->b, n, tc_i64(e, bytes), "");
    x = LLVMBuildAnd(e->b, x, tc_i64(e, 15), "");
    return LLVMBuildICmp(e->b, LLVMIntEQ, x, tc_i64(e, 0), "");
}

/* The promise aligned(true), on which the code of a GPU relies. */
static void check_aligned(tc_emit *e, const tc_op *op)
{
    const tc_value *v = op->out[0];
    const tc_type *t = v->type;
    unsigned unit = tc_type_contiguous(t), bytes = tc_type_bytes(t->elem);
    LLVMValueRef base = LLVMBuildPtrToInt(e->b, tc_tensor_base(v), e->i64, "");
    LLVMValueRef ok = in_vectors(e, base, 1);
    for (unsigned i = 0; i < t->rank; i++) {
        LLVMValueRef stride = tc_tensor_stride(v, i);
        ok = both(e, ok,
                  i == unit
                      ? LLVMBuildICmp(e->b, LLVMIntEQ, stride, tc_i64(e, 1), "")
                      : in_vectors(e, stride, bytes));
    }
    ok = both(e, ok, in_vectors(e, tc_tensor_size(v, unit), bytes));
    LLVMValueRef over = LLVMBuildAnd(e->b, base, tc_i64(e, 15), "");
    LLVMValueRef found[] = {over, tc_tensor_size(v, unit),
                            tc_tensor_stride(v, unit)};
    const char *message = tc_arena_printf(
        e->arena,
        "tensor is not aligned, as aligned(true) promises: its address is "
        "%%lld bytes beyond a multiple of 16, dim %u has %%lld elements with "
        "stride %%lld, expected multiples of 16 bytes, and stride 1 there",
        unit);
    tc_emit_check(e, ok, tc_site_new(e, op, message), 3, found);
}

static void emit_make_tensor(tc_emit *e, tc_op *op)
{
    const tc_type *t = op->out[0]->type;
    LLVMValueRef *parts = new_parts(e, op->out[0], 1 + 2 * t->rank);
    parts[0] = tc_scalar_of(e, op->in[0]);
    for (unsigned i = 0; i < t->rank; i++) {
        tc_value *size = tc_made_tensor_size(op, i);
        parts[1 + i] = size ? tc_to_i64(e, tc_scalar_of(e, size))
                            : tc_i64(e, tc_dim_value(t->dims[i]));
        parts[1 + t->rank + i] =
            tc_to_i64(e, tc_scalar_of(e, tc_made_tensor_stride(op, i)));
    }
    if (t->rank && tc_op_int(op, "aligned"))
        check_aligned(e, op);
}

void tc_emit_view(tc_emit *e, tc_op *op)
{
    switch (op->code) {
    case TC_BLOCK: emit_block(e, op); break;
    case TC_MAKE_TENSOR: emit_make_tensor(e, op); break;
    default: emit_advance(e, op); break;
    }
}
