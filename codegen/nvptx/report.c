/* SPDX-License-Identifier: Apache-2.0
 *
 * assert, print, assume.
 *
 * A failed assert writes its number and its program's into a record that the
 * launch gave, unless another assert was first, and goes on: the launch reads
 * the record after the kernel's end. Print uses the driver's printf, a line a
 * program.
 */
#include "codegen/nvptx/emit.h"

#include <string.h>

/* The program that the op is of. */
static LLVMValueRef program_id(tc_gen *g, const tc_op *op, unsigned axis)
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
        args[3 + i] = program_id(g, op, i);
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

/* ---- print ---- */

/* `%` of a user's message is no format. */
static void add_escaped(tc_text *t, const char *s)
{
    for (; *s; s++)
        tc_text_add(t, *s == '%' ? "%%" : (char[]){*s, 0});
}

/* As printf's arguments are laid out: 8 bytes each. */
static LLVMValueRef printed(tc_gen *g, const tc_value *v)
{
    const tc_type *t = v->type;
    LLVMValueRef x = tc_gen_widen(g, t, tc_gen_scalar(g, v));
    if (t->kind == TC_PTR)
        return LLVMBuildPtrToInt(g->b, x, g->i64, "");
    if (t->kind == TC_I1)
        return LLVMBuildZExt(g->b, x, g->i64, "");
    if (!tc_scalar_infos[t->kind].is_float)
        return LLVMBuildSExt(g->b, x, g->i64, "");
    return LLVMBuildFPExt(g->b, x, g->f64, "");
}

static const char *format_of(tc_gen *g, const tc_op *op)
{
    tc_text t = {.arena = g->arena};
    const char *message = tc_op_word(op, "message");
    tc_text_add(&t, "program (%lld, %lld, %lld): ");
    add_escaped(&t, message ? message : "");
    for (unsigned i = 0; i < tc_op_nreported(op); i++) {
        bool real = tc_kind_is_float(op->in[i]->type->kind);
        tc_text_add(&t, real ? " %g" : " %lld");
    }
    tc_text_add(&t, "\n");
    return t.data;
}

static LLVMValueRef generic(tc_gen *g, LLVMValueRef p)
{
    return LLVMBuildAddrSpaceCast(g->b, p, LLVMPointerTypeInContext(g->llvm, 0),
                                  "");
}

static LLVMValueRef string_of(tc_gen *g, const char *s)
{
    LLVMValueRef text = LLVMConstStringInContext2(g->llvm, s, strlen(s), false);
    LLVMValueRef global =
        LLVMAddGlobalInAddressSpace(g->module, LLVMTypeOf(text), "format", 1);
    LLVMSetInitializer(global, text);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMInternalLinkage);
    return generic(g, global);
}

static void call_printf(tc_gen *g, const tc_op *op)
{
    unsigned n = 3 + tc_op_nreported(op);
    LLVMTypeRef p = LLVMPointerTypeInContext(g->llvm, 0);
    LLVMValueRef args = tc_gen_alloca(g, LLVMArrayType2(g->i64, n));
    LLVMSetAlignment(args, 8);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef at = tc_gen_i32(g, i);
        LLVMValueRef x =
            i < 3 ? LLVMBuildZExt(g->b, program_id(g, op, i), g->i64, "")
                  : printed(g, op->in[i - 3]);
        LLVMBuildStore(g->b, x, LLVMBuildGEP2(g->b, g->i64, args, &at, 1, ""));
    }
    LLVMTypeRef types[] = {p, p};
    LLVMTypeRef type = LLVMFunctionType(g->i32, types, 2, false);
    LLVMValueRef fn = LLVMGetNamedFunction(g->module, "vprintf");
    if (!fn)
        fn = LLVMAddFunction(g->module, "vprintf", type);
    LLVMValueRef both[] = {string_of(g, format_of(g, op)), args};
    LLVMBuildCall2(g->b, type, fn, both, 2, "");
}

bool tc_nvptx_print(tc_gen *g, const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->type->kind == TC_TILE)
            return tc_gen_error(g, op,
                                "%s is a tile: GPUs print scalars only, such "
                                "as a reduction of it (the cpu target prints "
                                "both)",
                                tc_value_name(g->cx, op->in[i]));
    enum { DRIVERS_MOST = 32, IDS = 3 };
    if (tc_op_nreported(op) > DRIVERS_MOST - IDS)
        return tc_gen_error(g, op, "%u values, GPUs print %d at once",
                            tc_op_nreported(op), DRIVERS_MOST - IDS);
    LLVMBasicBlockRef inside = tc_gen_block_new(g, "print");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "printed");
    LLVMBuildCondBr(g->b, tc_gen_first_thread(g), inside, after);
    LLVMPositionBuilderAtEnd(g->b, inside);
    call_printf(g, op);
    tc_gen_enter(g, after);
    return !g->failed;
}
