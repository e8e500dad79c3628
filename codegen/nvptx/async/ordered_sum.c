/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordered accumulation (`follow`). One word says which steps a program, and all
 * programs before it, are done with: one thread reads and writes it for all.
 *
 *   bar.sync                          the program has added what it adds
 *   until: ld.acquire %done, [%ahead] so far, and so have those ahead
 *   @(%done < %step) bra until        (but where that is its own)
 *   st.release [%own], %step
 *   again: ld.acquire %done, [%ahead] not if the value above is enough
 *   @(%done <= %step) bra again
 *   bar.sync
 *
 * The first wait is for steps that the program leaves out: programs after it
 * that wait for one of these wait for those ahead of it, too. A step below 0 is
 * none (defer-atomic-adds).
 *
 * If a store warp does the additions (store_warp.c), it does this, too,
 * concurrently with the warp group.
 */
#include "codegen/nvptx/emit.h"

void tc_gen_announce(tc_gen *g, LLVMValueRef own, LLVMValueRef step)
{
    LLVMValueRef args[] = {own, step};
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm),
               "st.release.gpu.global.b32 [$0], $1;", "l,r,~{memory}", 2, args);
}

void tc_gen_await(tc_gen *g, LLVMValueRef own, LLVMValueRef ahead,
                  LLVMValueRef step, LLVMValueRef seen)
{
    LLVMBasicBlockRef again = tc_gen_block_new(g, "await");
    LLVMBasicBlockRef done = tc_gen_block_new(g, "awaited");
    LLVMValueRef is = LLVMBuildICmp(g->b, LLVMIntEQ, own, ahead, "");
    if (seen) {
        LLVMValueRef last = LLVMBuildLoad2(g->b, g->i32, seen, "");
        last = LLVMBuildICmp(g->b, LLVMIntSGT, last, step, "");
        is = LLVMBuildOr(g->b, is, last, "");
    }
    LLVMBuildCondBr(g->b, is, done, again);
    LLVMPositionBuilderAtEnd(g->b, again);
    LLVMValueRef now =
        tc_gen_asm(g, g->i32, "ld.acquire.gpu.global.b32 $0, [$1];",
                   "=r,l,~{memory}", 1, &ahead);
    if (seen)
        LLVMBuildStore(g->b, now, seen);
    LLVMValueRef less = LLVMBuildICmp(g->b, LLVMIntSLE, now, step, "");
    LLVMBuildCondBr(g->b, less, again, done);
    LLVMPositionBuilderAtEnd(g->b, done);
}

void tc_gen_follow_step(tc_gen *g, LLVMValueRef own, LLVMValueRef ahead,
                        LLVMValueRef step)
{
    LLVMBasicBlockRef is = tc_gen_block_new(g, "step");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "stepped");
    LLVMValueRef seen = tc_gen_alloca(g, g->i32), zero = tc_gen_i32(g, 0);
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSGE, step, zero, ""), is,
                    after);
    LLVMPositionBuilderAtEnd(g->b, is);
    LLVMBuildStore(g->b, tc_gen_i32(g, INT32_MIN), seen);
    LLVMValueRef before = LLVMBuildSub(g->b, step, tc_gen_i32(g, 1), "");
    tc_gen_await(g, own, ahead, before, seen);
    tc_gen_announce(g, own, step);
    tc_gen_await(g, own, ahead, step, seen);
    tc_gen_enter(g, after);
}

/* By one thread. */
static void follow(tc_gen *g, const tc_op *op, LLVMValueRef own,
                   LLVMValueRef ahead)
{
    if (op->code == TC_FOLLOW_END) {
        tc_gen_await(g, own, ahead, tc_gen_i32(g, INT32_MAX - 1), NULL);
        tc_gen_announce(g, own, tc_gen_i32(g, INT32_MAX));
        return;
    }
    tc_gen_follow_step(g, own, ahead, tc_gen_scalar(g, op->in[2]));
}

bool tc_nvptx_follow(tc_gen *g, const tc_op *op)
{
    LLVMValueRef own = tc_gen_scalar(g, op->in[0]);
    LLVMValueRef ahead = tc_gen_scalar(g, op->in[1]);
    if (g->role == TC_ROLE_PRODUCER || g->role == TC_ROLE_TRANSPOSER)
        return tc_gen_error(g, op, "in a role that stores nothing");
    if (g->sent && op->code == TC_FOLLOW)
        return tc_gen_error(g, op, "next to a store of a store warp");
    if (g->sent) {
        tc_gen_send_end(g, own, ahead);
        return true;
    }
    tc_gen_barrier(g);
    LLVMBasicBlockRef chosen = tc_gen_block_new(g, "one");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "all");
    LLVMBuildCondBr(g->b, tc_gen_first_thread(g), chosen, after);
    LLVMPositionBuilderAtEnd(g->b, chosen);
    follow(g, op, own, ahead);
    tc_gen_enter(g, after);
    tc_gen_barrier(g);
    return true;
}
