/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of a buffer by index: an access each, at an address that the thread
 * computes. An index outside reads the first element of its line, and gives the
 * pad: no branch.
 *
 *   setp.lt.u32 %p, %index, 64;
 *   selp.b32 %i, %index, 0, %p;
 *   ld.shared.b32 %x, [%line+4 %i];
 */
#include "codegen/nvptx/memory/shared.h"

/* The index of register r as i32, 0 if it is outside; *inside: i1. */
static LLVMValueRef index_at(tc_gen *g, const tc_op *op, unsigned r,
                             LLVMValueRef *inside)
{
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    LLVMValueRef x = tc_gen_get(g, op->in[1])[r];
    unsigned bits = LLVMGetIntTypeWidth(LLVMTypeOf(x));
    if (bits < 32)
        x = LLVMBuildSExt(g->b, x, g->i32, "");
    LLVMTypeRef type = LLVMTypeOf(x);
    int64_t side = tc_dim_value(op->in[0]->type->dims[axis]);
    /* Unsigned: negative ones are beyond the end. */
    *inside = LLVMBuildICmp(g->b, LLVMIntULT, x,
                            LLVMConstInt(type, (uint64_t)side, false), "");
    if (bits > 32)
        x = LLVMBuildTrunc(g->b, x, g->i32, "");
    return LLVMBuildSelect(g->b, *inside, x, tc_gen_i32(g, 0), "");
}

LLVMValueRef tc_shared_element(tc_gen *g, const tc_type *elem,
                               LLVMValueRef address, LLVMValueRef immediate)
{
    unsigned bits = 8 * tc_type_bytes(elem);
    bool two = bits > 32;
    LLVMTypeRef both[] = {g->i32, g->i32};
    LLVMValueRef args[] = {address, immediate}, words[2], x;
    const char *text =
        two ? "ld.shared.v2.b32 {$0, $1}, [$2+$3];"
            : tc_arena_printf(g->arena, "ld.shared.b%u $0, [$1+$2];", bits);
    LLVMValueRef all = tc_gen_asm(
        g, two ? LLVMStructTypeInContext(g->llvm, both, 2, false) : g->i32,
        text, two ? "=r,=r,r,n,~{memory}" : "=r,r,n,~{memory}", 2, args);
    words[0] = two ? LLVMBuildExtractValue(g->b, all, 0, "") : all;
    words[1] = two ? LLVMBuildExtractValue(g->b, all, 1, "") : NULL;
    tc_words_unpack(g, elem, 1, &x, words);
    return x;
}

bool tc_nvptx_smem_take(tc_gen *g, const tc_op *op)
{
    const tc_type *t = op->in[0]->type, *to = op->out[0]->type;
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    tc_coords lanes[TC_MAX_RANK];
    for (unsigned a = 0; a < t->rank; a++)
        lanes[a] = tc_coords_get(g, to->layout, a);
    tc_number pad = {0};
    if (tc_op_has_attr(op, "pad"))
        pad = tc_op_attr(op, "pad")->number;
    LLVMValueRef immediate, other = tc_gen_literal(g, t->elem, pad);
    LLVMValueRef base =
        tc_shared_address(g, tc_gen_get(g, op->in[0])[0], &immediate);
    LLVMValueRef *x = tc_gen_set(g, op->out[0]);
    for (unsigned r = 0; r < tc_gen_registers(to); r++) {
        LLVMValueRef inside = NULL, at = tc_gen_i32(g, 0);
        for (unsigned a = 0; a < t->rank; a++) {
            LLVMValueRef i = a == axis ? index_at(g, op, r, &inside)
                                       : tc_coords_at(g, &lanes[a], r);
            i = LLVMBuildMul(g->b, i,
                             tc_gen_i32(g, (int32_t)tc_type_stride(t, a)), "");
            at = LLVMBuildAdd(g->b, at, i, "");
        }
        at = LLVMBuildMul(g->b, at, tc_gen_i32(g, tc_type_bytes(t->elem)), "");
        at = LLVMBuildAdd(g->b, base, at, "");
        x[r] = LLVMBuildSelect(g->b, inside,
                               tc_shared_element(g, t->elem, at, immediate),
                               other, "");
    }
    return !g->failed;
}
