/* SPDX-License-Identifier: Apache-2.0
 *
 * Block pointers. As a value one is its offsets, an i32 for each dim of its
 * tensor; the tensor is known, since a block pointer is a window on one.
 *
 * The width of an access follows from the facts along the axes
 * (passes/analysis/axis_info.h) and from the elements that a thread holds
 * together.
 */
#include "codegen/nvptx/emit.h"

/* ---- The ops ---- */

/* As an argument is: address, sizes, strides. */
bool tc_nvptx_make_tensor(tc_gen *g, const tc_op *op)
{
    const tc_type *t = op->out[0]->type;
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    bool aligned = tc_is_aligned(g->axes, op->out[0]);
    to[0] = tc_gen_scalar(g, op->in[0]);
    for (unsigned i = 0; i < t->rank; i++) {
        const tc_value *size = tc_made_tensor_size(op, i);
        LLVMValueRef stride = tc_gen_scalar(g, tc_made_tensor_stride(op, i));
        to[1 + i] = size ? tc_gen_scalar(g, size)
                         : tc_gen_i32(g, tc_dim_value(t->dims[i]));
        to[1 + t->rank + i] = aligned && i == tc_type_contiguous(t)
                                  ? tc_gen_i64(g, 1)
                                  : LLVMBuildSExt(g->b, stride, g->i64, "");
    }
    return true;
}

/* An i64 offset beyond i32 is outside of every tensor, as is the nearest i32:
 * sizes are below 2^31 and sides below 2^24, so comparing the sum without a
 * sign sees it outside even where it wraps. */
static LLVMValueRef offset_of(tc_gen *g, const tc_value *v)
{
    LLVMValueRef x = tc_gen_scalar(g, v);
    if (LLVMTypeOf(x) == g->i32)
        return x;
    LLVMValueRef most[] = {x, tc_gen_i64(g, INT32_MAX)};
    x = tc_gen_intrinsic(g, "smin", 1, &g->i64, 2, most);
    LLVMValueRef floor[] = {x, tc_gen_i64(g, INT32_MIN)};
    x = tc_gen_intrinsic(g, "smax", 1, &g->i64, 2, floor);
    return LLVMBuildTrunc(g->b, x, g->i32, "");
}

bool tc_nvptx_block(tc_gen *g, const tc_op *op)
{
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned i = 1; i < op->nin; i++) {
        if (op->in[i]->type->kind == TC_TILE)
            return tc_gen_error(g, op,
                                "no code for a window by index: run "
                                "expand-windows before assign-layouts, or "
                                "lower-windows after it");
        to[i - 1] = offset_of(g, op->in[i]);
    }
    return true;
}

bool tc_nvptx_advance(tc_gen *g, const tc_op *op)
{
    LLVMValueRef *from = tc_gen_get(g, op->in[0]);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned i = 1; i < op->nin; i++)
        to[i - 1] =
            LLVMBuildAdd(g->b, from[i - 1], offset_of(g, op->in[i]), "");
    return true;
}

tc_gen_block tc_gen_block_of(tc_gen *g, const tc_value *v)
{
    const tc_op *origin = tc_block_of(v);
    const tc_value *tensor = origin->in[0];
    const tc_type *elem = tensor->type->elem;
    unsigned rank = tensor->type->rank;
    LLVMValueRef *parts = tc_gen_get(g, tensor), *offset = tc_gen_get(g, v);
    tc_gen_block w = {.base = parts[0], .unit = -1};
    const tc_attr *sides = tc_op_attr(origin, "sides");
    for (unsigned i = 0; i < rank; i++) {
        LLVMValueRef stride = parts[1 + rank + i];
        if (!sides->dims[i]) {
            LLVMValueRef at = LLVMBuildSExt(g->b, offset[i], g->i64, "");
            at = LLVMBuildMul(g->b, at, stride, "");
            w.base = tc_gen_address(g, elem, w.base, at);
            continue;
        }
        w.offset[w.rank] = offset[i];
        w.size[w.rank] = parts[1 + i];
        w.stride[w.rank] = stride;
        if (tc_is_aligned(g->axes, tensor) &&
            i == tc_type_contiguous(tensor->type))
            w.unit = (int)w.rank;
        w.rank++;
    }
    return w;
}

unsigned tc_gen_vector(tc_gen *g, const tc_op *op, const tc_layout *l)
{
    return tc_access_vector(g->axes, op, l);
}
