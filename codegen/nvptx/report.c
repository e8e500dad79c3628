/* SPDX-License-Identifier: Apache-2.0
 *
 * assert, exit_if, assume.
 *
 * A failed assert writes its number and its program's into a record that the
 * launch gave, unless another assert was first, and goes on: the launch reads
 * the record after the kernel's end.
 */
#include "codegen/nvptx/emit.h"

LLVMValueRef tc_gen_reported_id(tc_gen *g, const tc_op *op, unsigned axis)
{
    unsigned n = tc_op_nreported(op);
    if (n < op->nin)
        return tc_gen_scalar(g, op->in[n + axis]);
    const char *name =
        tc_arena_printf(g->arena, "nvvm.read.ptx.sreg.ctaid.%c", "xyz"[axis]);
    return tc_gen_intrinsic(g, name, 0, NULL, 0, NULL);
}

static LLVMValueRef all_lanes(tc_gen *g, const tc_value *v)
{
    LLVMValueRef *x = tc_gen_get(g, v), all = x[0];
    for (unsigned r = 1; r < tc_gen_registers(v->type); r++)
        all = LLVMBuildAnd(g->b, all, x[r], "");
    return all;
}

/* tc_device_report: set, program. No branch: threads stay together. */
static const char report_text[] =
    "{ .reg .pred first_report; .reg .b32 old_report;\n"
    "mov.b32 old_report, 1;\n"
    "@$1 atom.relaxed.sys.global.cas.b32 old_report, [$0], 0, $2;\n"
    "setp.eq.s32 first_report, old_report, 0;\n"
    "@first_report st.global.b32 [$0+4], $3;\n"
    "@first_report st.global.b32 [$0+8], $4;\n"
    "@first_report st.global.b32 [$0+12], $5; }";

bool tc_nvptx_assert(tc_gen *g, const tc_op *op)
{
    LLVMValueRef bad = LLVMBuildNot(g->b, all_lanes(g, op->in[0]), "");
    if (op->in[0]->type->kind != TC_TILE)
        bad = LLVMBuildAnd(g->b, bad, tc_gen_first_thread(g), "");
    LLVMValueRef args[] = {g->report, bad,  tc_gen_i32(g, ++g->nasserts),
                           NULL,      NULL, NULL};
    for (unsigned i = 0; i < 3; i++)
        args[3 + i] = tc_gen_reported_id(g, op, i);
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), report_text,
               "l,b,r,r,r,r,~{memory}", 6, args);
    return !g->failed;
}

bool tc_nvptx_exit_if(tc_gen *g, const tc_op *op)
{
    LLVMBasicBlockRef end = tc_gen_block_new(g, "exit");
    LLVMBasicBlockRef go_on = tc_gen_block_new(g, "go_on");
    LLVMBuildCondBr(g->b, tc_gen_scalar(g, op->in[0]), end, go_on);
    LLVMPositionBuilderAtEnd(g->b, end);
    LLVMBuildRetVoid(g->b);
    LLVMPositionBuilderAtEnd(g->b, go_on);
    return true;
}

bool tc_nvptx_assume(tc_gen *g, const tc_op *op)
{
    if (op->in[0]->type->kind == TC_TILE)
        return true;
    LLVMValueRef ok = tc_gen_scalar(g, op->in[0]);
    tc_gen_intrinsic(g, "assume", 0, NULL, 1, &ok);
    return true;
}
