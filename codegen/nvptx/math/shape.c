/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes: other names for registers. The verifier's rules of layouts make sure
 * that an element of the result is in the same thread as the operand's, so the
 * registers of lane 0 of warp 0 give those of all threads.
 */
#include "codegen/nvptx/emit.h"
#include "ir/parts.h"

bool tc_nvptx_splat(tc_gen *g, const tc_op *op)
{
    LLVMValueRef x = tc_gen_scalar(g, op->in[0]);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned r = 0; r < tc_gen_registers(op->out[0]->type); r++)
        to[r] = x;
    return true;
}

bool tc_nvptx_range(tc_gen *g, const tc_op *op)
{
    tc_coords lanes = tc_coords_get(g, op->out[0]->type->layout, 0);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned r = 0; r < tc_gen_registers(op->out[0]->type); r++)
        to[r] = tc_coords_at(g, &lanes, r);
    return true;
}

/* start + step * (thread's part) + step * (register's part): the second
 * product has a constant in it, and the first sum is the thread's. */
bool tc_nvptx_ramp(tc_gen *g, const tc_op *op)
{
    tc_coords lanes = tc_coords_get(g, op->out[0]->type->layout, 0);
    LLVMValueRef start = tc_gen_scalar(g, op->in[0]);
    LLVMValueRef step = tc_gen_scalar(g, op->in[1]);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned r = 0; r < tc_gen_registers(op->out[0]->type); r++) {
        bool add;
        uint32_t c = tc_coords_constant(&lanes, r, &add);
        LLVMValueRef at = add ? lanes.thread : tc_coords_at(g, &lanes, r);
        at = LLVMBuildSIToFP(g->b, at, g->f32, "");
        LLVMValueRef in[] = {at, step, start};
        to[r] = tc_gen_intrinsic(g, "fma", 1, &g->f32, 3, in);
        if (!add || c == 0)
            continue;
        LLVMValueRef more[] = {LLVMConstReal(g->f32, c), step, to[r]};
        to[r] = tc_gen_intrinsic(g, "fma", 1, &g->f32, 3, more);
    }
    return true;
}

/* From coordinates of the result to those of the operand. */
typedef void source_fn(const tc_op *op, const int32_t *of, int32_t *from);

static bool rename_registers(tc_gen *g, const tc_op *op, source_fn *source)
{
    const tc_layout *l = op->out[0]->type->layout;
    tc_held held = tc_held_new(g, op->in[0]->type->layout);
    LLVMValueRef *x = tc_gen_get(g, op->in[0]);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned r = 0; r < tc_gen_registers(op->out[0]->type); r++) {
        int32_t coord[TC_MAX_RANK], from[TC_MAX_RANK];
        tc_coords_first(l, r, coord);
        source(op, coord, from);
        int64_t found = tc_held_find(&held, from);
        if (found < 0)
            return tc_gen_error(g, op,
                                "its layout moves elements between threads");
        to[r] = x[found];
    }
    return true;
}

static void reshaped(const tc_op *op, const int32_t *of, int32_t *from)
{
    const tc_layout *to = op->out[0]->type->layout,
                    *l = op->in[0]->type->layout;
    int64_t at = 0;
    for (unsigned i = 0; i < to->rank; i++)
        at = at * to->shape[i] + of[i];
    for (unsigned i = l->rank; i-- > 0;) {
        from[i] = (int32_t)(at % l->shape[i]);
        at /= l->shape[i];
    }
}

bool tc_nvptx_reshape(tc_gen *g, const tc_op *op)
{
    return rename_registers(g, op, reshaped);
}

bool tc_nvptx_expand_dims(tc_gen *g, const tc_op *op)
{
    return rename_registers(g, op, reshaped);
}

static void broadcasted(const tc_op *op, const int32_t *of, int32_t *from)
{
    const tc_layout *l = op->in[0]->type->layout;
    for (unsigned i = 0; i < l->rank; i++)
        from[i] = l->shape[i] == 1 ? 0 : of[i];
}

bool tc_nvptx_broadcast(tc_gen *g, const tc_op *op)
{
    return rename_registers(g, op, broadcasted);
}

/* Axis i of the result is axis perm[i] of the operand. */
static void transposed(const tc_op *op, const int32_t *of, int32_t *from)
{
    unsigned rank = op->in[0]->type->rank;
    const tc_attr *perm = tc_op_attr(op, "perm");
    for (unsigned i = 0; i < rank; i++)
        from[i] = of[i];
    if (perm->kind == TC_ATTR_INTS) {
        for (unsigned i = 0; i < rank; i++)
            from[perm->ints[i]] = of[i];
    } else {
        from[rank - 1] = of[rank - 2];
        from[rank - 2] = of[rank - 1];
    }
}

bool tc_nvptx_trans(tc_gen *g, const tc_op *op)
{
    return rename_registers(g, op, transposed);
}

/* ---- Parts ---- */

bool tc_nvptx_parts(tc_gen *g, const tc_op *op)
{
    const tc_layout *l = op->out[0]->type->layout;
    tc_held *held = tc_arena_array(g->arena, tc_held, op->nin);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned i = 0; i < op->nin; i++)
        held[i] = tc_held_new(g, op->in[i]->type->layout);
    for (unsigned r = 0; r < tc_gen_registers(op->out[0]->type); r++) {
        int32_t coord[TC_MAX_RANK], from[TC_MAX_RANK];
        tc_coords_first(l, r, coord);
        unsigned i = tc_op_part_source(op, coord, from);
        int64_t found = tc_held_find(&held[i], from);
        if (found < 0)
            return tc_gen_error(g, op,
                                "its layout moves elements between threads");
        to[r] = tc_gen_get(g, op->in[i])[found];
    }
    return true;
}
