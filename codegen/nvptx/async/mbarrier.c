/* SPDX-License-Identifier: Apache-2.0
 *
 * mbarriers: 8 bytes each in shared memory, a ring of them contiguous. As a
 * value a ring is the offset of its first one.
 */
#include "codegen/nvptx/memory/shared.h"

static bool check_target(tc_gen *g, const tc_op *op)
{
    return g->target->tma ||
           tc_gen_error(g, op, "%s has no mbarriers for it", g->target->name);
}

static LLVMValueRef to_i32(tc_gen *g, LLVMValueRef x)
{
    unsigned bits = LLVMGetIntTypeWidth(LLVMTypeOf(x));
    return bits > 32   ? LLVMBuildTrunc(g->b, x, g->i32, "")
           : bits < 32 ? LLVMBuildZExt(g->b, x, g->i32, "")
                       : x;
}

LLVMValueRef tc_mbarrier_address(tc_gen *g, const tc_value *ring,
                                 const tc_value *slot, LLVMValueRef *immediate)
{
    LLVMValueRef offset = LLVMBuildMul(g->b, to_i32(g, tc_gen_scalar(g, slot)),
                                       tc_gen_i32(g, TC_MBARRIER_BYTES), "");
    offset = LLVMBuildAdd(g->b, offset, tc_gen_scalar(g, ring), "");
    return tc_shared_address(g, offset, immediate);
}

/* The fence, after the last of several: what comes from outside of the thread,
 * such as TMA copies, finds them initialised. */
bool tc_nvptx_mbarrier_alloc(tc_gen *g, const tc_op *op)
{
    if (!check_target(g, op))
        return false;
    if (!tc_shared_place(g, op, TC_MBARRIER_BYTES * op->out[0]->type->slots,
                         TC_MBARRIER_BYTES))
        return false;
    LLVMValueRef offset = tc_gen_get(g, op->out[0])[0];
    LLVMValueRef args[4] = {[2] = tc_gen_i32(g, tc_op_int(op, "arrivals")),
                            [3] = tc_gen_first_thread(g)};
    args[0] = tc_shared_address(g, offset, &args[1]);
    tc_text text = {.arena = g->arena};
    for (unsigned i = 0; i < op->out[0]->type->slots; i++)
        tc_text_printf(&text,
                       "@$3 mbarrier.init.shared::cta.b64 [$0+$1+%u], "
                       "$2;\n",
                       i * TC_MBARRIER_BYTES);
    if (!op->next || op->next->code != TC_MBARRIER_ALLOC)
        tc_text_add(&text, "@$3 fence.mbarrier_init.release.cluster;");
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text.data,
               "r,n,n,b,~{memory}", 4, args);
    return true;
}

/* PTX ISA, mbarrier.try_wait: it may give up, for a time that the hardware
 * knows. */
static const char wait_text[] =
    "{ .reg .pred done;\n"
    "again: mbarrier.try_wait.parity.shared::cta.b64 done, [$0+$1], $2;\n"
    "@!done bra again; }";

bool tc_nvptx_mbarrier_wait(tc_gen *g, const tc_op *op)
{
    if (!check_target(g, op))
        return false;
    LLVMValueRef args[3] = {[2] = to_i32(g, tc_gen_scalar(g, op->in[2]))};
    args[0] = tc_mbarrier_address(g, op->in[0], op->in[1], &args[1]);
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), wait_text, "r,n,r,~{memory}",
               3, args);
    return true;
}

/* i1: the first thread of each group of four warps. */
static LLVMValueRef leads_group(tc_gen *g)
{
    LLVMValueRef warp = LLVMBuildAnd(g->b, g->warp, tc_gen_i32(g, 3), "");
    return LLVMBuildICmp(g->b, LLVMIntEQ, LLVMBuildOr(g->b, warp, g->lane, ""),
                         tc_gen_i32(g, 0), "");
}

/* i1: the threads that arrive. The first thread of a warp arrives for the
 * others: their work comes before. */
static LLVMValueRef arrives(tc_gen *g, const tc_op *op)
{
    if (!tc_op_is_word(op, "scope", "warp"))
        return leads_group(g);
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), "bar.warp.sync -1;",
               "~{memory}", 0, NULL);
    return LLVMBuildICmp(g->b, LLVMIntEQ, g->lane, tc_gen_i32(g, 0), "");
}

bool tc_nvptx_mbarrier_arrive(tc_gen *g, const tc_op *op)
{
    if (!check_target(g, op))
        return false;
    int64_t bytes = tc_op_int(op, "bytes");
    LLVMValueRef args[4];
    unsigned n = 2;
    tc_text text = {.arena = g->arena}, constraints = {.arena = g->arena};
    args[0] = tc_mbarrier_address(g, op->in[0], op->in[1], &args[1]);
    tc_text_add(&constraints, "r,n");
    if (g->role != TC_ROLE_PRODUCER) {
        args[n] = arrives(g, op);
        tc_text_printf(&text, "@$%u ", n++);
        tc_text_add(&constraints, ",b");
    }
    tc_text_printf(&text, "mbarrier.arrive%s.shared::cta.b64 _, [$0+$1]",
                   bytes ? ".expect_tx" : "");
    if (bytes) {
        args[n] = tc_gen_i32(g, bytes);
        tc_text_printf(&text, ", $%u", n++);
        tc_text_add(&constraints, ",n");
    }
    tc_text_add(&text, ";");
    tc_text_add(&constraints, ",~{memory}");
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text.data, constraints.data,
               n, args);
    return true;
}
