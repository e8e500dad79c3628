/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters in a buffer: an atomic an element, by the thread that owns it, of
 * those whose index is inside.
 *
 *   setp.lt.u32 %p, %index, 256;
 *   @%p red.shared.add.u32 [%buffer+4 %index], 1;
 */
#include "codegen/nvptx/memory/shared.h"

/* As i32, of a register; *inside: i1. */
static LLVMValueRef index_of(tc_gen *g, LLVMValueRef x, int64_t side,
                             LLVMValueRef *inside)
{
    unsigned bits = LLVMGetIntTypeWidth(LLVMTypeOf(x));
    if (bits < 32)
        x = LLVMBuildSExt(g->b, x, g->i32, "");
    /* Unsigned: negative ones are beyond the end. */
    *inside =
        LLVMBuildICmp(g->b, LLVMIntULT, x,
                      LLVMConstInt(LLVMTypeOf(x), (uint64_t)side, false), "");
    return bits > 32 ? LLVMBuildTrunc(g->b, x, g->i32, "") : x;
}

bool tc_nvptx_smem_count(tc_gen *g, const tc_op *op)
{
    const tc_type *t = op->in[1]->type;
    int64_t side = tc_dim_value(op->in[0]->type->dims[0]);
    const LLVMValueRef *x = tc_gen_get(g, op->in[1]);
    LLVMValueRef owner = tc_coords_owner(g, t->layout), immediate;
    LLVMValueRef base =
        tc_shared_address(g, tc_gen_get(g, op->in[0])[0], &immediate);
    tc_held held = tc_held_new(g, t->layout);
    for (unsigned r = 0; r < tc_gen_registers(t); r++) {
        int32_t coord[TC_MAX_RANK];
        tc_coords_first(t->layout, r, coord);
        if (tc_held_find(&held, coord) != r)
            continue; /* counted already */
        LLVMValueRef on, at = index_of(g, x[r], side, &on);
        if (owner)
            on = LLVMBuildAnd(g->b, on, owner, "");
        at = LLVMBuildShl(g->b, at, tc_gen_i32(g, 2), "");
        LLVMValueRef args[] = {LLVMBuildAdd(g->b, base, at, ""), immediate, on};
        tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm),
                   "@$2 red.shared.add.u32 [$0+$1], 1;", "r,n,b,~{memory}", 3,
                   args);
    }
    return !g->failed;
}
