/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that wait for each other: await, announce.
 *
 *   %again:  ld.relaxed.gpu.global.b32 %seen, [%word];
 *            %p = %seen < %value;   @%p bra %again;
 *
 * One thread waits, or announces, for all: they meet behind its wait, or before
 * what it announces, which its fence passes on with what they have stored.
 * Where the first thread, or that of each group, does it alone, it orders what
 * this thread itself adds by bulk copies. It has waited until they are written
 * (tma_store_wait), and reads the word before it starts the next one; words and
 * sums are in the L2 cache, where both are changed in that order.
 */
#include "codegen/nvptx/emit.h"

static LLVMValueRef word_at(tc_gen *g, LLVMValueRef p, LLVMValueRef i)
{
    return LLVMBuildGEP2(g->b, g->i32, p, &i, 1, "");
}

static void fence(tc_gen *g)
{
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), "fence.acq_rel.gpu;",
               "~{memory}", 0, NULL);
}

static void wait_for(tc_gen *g, LLVMValueRef p, LLVMValueRef value)
{
    LLVMBasicBlockRef again = tc_gen_block_new(g, "await");
    LLVMBasicBlockRef done = tc_gen_block_new(g, "awaited");
    tc_gen_enter(g, again);
    LLVMValueRef seen =
        tc_gen_asm(g, g->i32, "ld.relaxed.gpu.global.b32 $0, [$1];",
                   "=r,l,~{memory}", 1, &p);
    LLVMValueRef less = LLVMBuildICmp(g->b, LLVMIntSLT, seen, value, "");
    LLVMBuildCondBr(g->b, less, again, done);
    LLVMPositionBuilderAtEnd(g->b, done);
}

static void write_to(tc_gen *g, LLVMValueRef p, LLVMValueRef value)
{
    LLVMValueRef args[] = {p, value};
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm),
               "st.relaxed.gpu.global.b32 [$0], $1;", "l,r,~{memory}", 2, args);
}

static void each_word(tc_gen *g, const tc_op *op,
                      void (*one)(tc_gen *, LLVMValueRef, LLVMValueRef))
{
    LLVMValueRef p = tc_gen_get(g, op->in[0])[0];
    LLVMValueRef value = tc_gen_get(g, op->in[1])[0];
    unsigned words =
        tc_op_has_attr(op, "words") ? (unsigned)tc_op_int(op, "words") : 1;
    if (tc_op_is_word(op, "scope", "group"))
        one(g, word_at(g, p, tc_gen_warp_group(g)), value);
    else
        for (unsigned i = 0; i < words; i++)
            one(g, word_at(g, p, tc_gen_i32(g, i)), value);
}

/* The thread that does it; where all meet, on targets of any age. */
static tc_one choose_thread(tc_gen *g, const tc_op *op)
{
    if (!tc_op_is_word(op, "scope", "all"))
        return tc_gen_elect(g, tc_op_is_word(op, "scope", "group"));
    LLVMBasicBlockRef chosen = tc_gen_block_new(g, "one");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "all");
    LLVMBuildCondBr(g->b, tc_gen_first_thread(g), chosen, after);
    LLVMPositionBuilderAtEnd(g->b, chosen);
    return (tc_one){after};
}

bool tc_nvptx_await(tc_gen *g, const tc_op *op)
{
    bool all = tc_op_is_word(op, "scope", "all");
    if (g->role == TC_ROLE_PRODUCER)
        return tc_gen_error(g, op, "in the producer, which stores nothing");
    tc_one one = choose_thread(g, op);
    each_word(g, op, wait_for);
    if (all)
        fence(g);
    tc_gen_join(g, one);
    if (all)
        tc_gen_barrier(g);
    return true;
}

bool tc_nvptx_announce(tc_gen *g, const tc_op *op)
{
    bool all = tc_op_is_word(op, "scope", "all");
    if (g->role == TC_ROLE_PRODUCER)
        return tc_gen_error(g, op, "in the producer, which stores nothing");
    if (all)
        tc_gen_barrier(g);
    tc_one one = choose_thread(g, op);
    if (all)
        fence(g);
    each_word(g, op, write_to);
    tc_gen_join(g, one);
    return true;
}
