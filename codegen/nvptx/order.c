/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that wait for each other: await, announce.
 *
 *   ld.relaxed.gpu.global.b32 %seen, [%word];
 *   ..
 *   %again:  @(%seen >= %value) bra %done;
 *            ld.relaxed.gpu.global.b32 %seen, [%word];  bra %again;
 *
 * One thread waits, or announces, for all: they meet behind its wait, or before
 * what it announces, which its fence passes on with what they have stored.
 * Where the first thread, or that of each group, does it alone, it orders what
 * this thread itself adds by bulk copies. It has waited until they are written
 * (tma_store_wait: until this thread can see it), which a store that releases
 * tells others; a relaxed one was measured to be too early at times. It reads
 * the word before it starts the next copy. The group waits with it, which is
 * one branch that is rarely taken, and has looked at the word already where it
 * announced something: that takes a while.
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

static LLVMValueRef look_at(tc_gen *g, LLVMValueRef p)
{
    return tc_gen_asm(g, g->i32, "ld.relaxed.gpu.global.b32 $0, [$1];",
                      "=r,l,~{memory}", 1, &p);
}

/* seen: what the word was before, or NULL. */
static void wait_for(tc_gen *g, LLVMValueRef p, LLVMValueRef value,
                     LLVMValueRef seen)
{
    LLVMBasicBlockRef again = tc_gen_block_new(g, "await");
    LLVMBasicBlockRef done = tc_gen_block_new(g, "awaited");
    if (seen) {
        LLVMValueRef less = LLVMBuildICmp(g->b, LLVMIntSLT, seen, value, "");
        LLVMBuildCondBr(g->b, less, again, done);
        LLVMPositionBuilderAtEnd(g->b, again);
    } else {
        tc_gen_enter(g, again);
    }
    LLVMValueRef now = look_at(g, p);
    LLVMValueRef less = LLVMBuildICmp(g->b, LLVMIntSLT, now, value, "");
    LLVMBuildCondBr(g->b, less, again, done);
    LLVMPositionBuilderAtEnd(g->b, done);
}

/* Where `only`, if it is not NULL. */
static void write_to(tc_gen *g, LLVMValueRef p, LLVMValueRef value,
                     LLVMValueRef only)
{
    LLVMValueRef args[] = {p, value, only};
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm),
               only ? "@$2 st.release.gpu.global.b32 [$0], $1;"
                    : "st.relaxed.gpu.global.b32 [$0], $1;",
               only ? "l,r,b,~{memory}" : "l,r,~{memory}", only ? 3 : 2, args);
}

static unsigned words_of(const tc_op *op)
{
    return tc_op_has_attr(op, "words") ? (unsigned)tc_op_int(op, "words") : 1;
}

static bool is_of(const tc_op *op, const char *scope)
{
    return tc_op_is_word(op, "scope", scope);
}

/* The words that a thread deals with, all or its group's. */
static LLVMValueRef word_of(tc_gen *g, const tc_op *op, unsigned i)
{
    LLVMValueRef p = tc_gen_get(g, op->in[0])[0];
    return word_at(
        g, p, is_of(op, "group") ? tc_gen_warp_group(g) : tc_gen_i32(g, i));
}

static unsigned number_of(const tc_op *op)
{
    return is_of(op, "group") ? 1 : words_of(op);
}

/* Of what a group of threads announces: the await behind it, if where that
 * looks is known here. */
static const tc_op *next_await(const tc_op *announce)
{
    const tc_op *op = announce->next;
    while (op && op->code != TC_AWAIT)
        op = op->next;
    if (!op || !is_of(announce, "group") || !is_of(op, "group"))
        return NULL;
    for (const tc_op *at = announce; at != op; at = at->next)
        if (at == op->in[0]->def)
            return NULL;
    return op;
}

static tc_one first_thread(tc_gen *g)
{
    LLVMBasicBlockRef chosen = tc_gen_block_new(g, "one");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "all");
    LLVMBuildCondBr(g->b, tc_gen_first_thread(g), chosen, after);
    LLVMPositionBuilderAtEnd(g->b, chosen);
    return (tc_one){after};
}

bool tc_nvptx_await(tc_gen *g, const tc_op *op)
{
    LLVMValueRef value = tc_gen_get(g, op->in[1])[0];
    if (g->role == TC_ROLE_PRODUCER)
        return tc_gen_error(g, op, "in the producer, which stores nothing");
    if (!is_of(op, "all")) {
        for (unsigned i = 0; i < number_of(op); i++)
            wait_for(g, word_of(g, op, i), value,
                     g->awaits == op ? g->seen : NULL);
        return true;
    }
    tc_one one = first_thread(g);
    for (unsigned i = 0; i < number_of(op); i++)
        wait_for(g, word_of(g, op, i), value, NULL);
    fence(g);
    tc_gen_join(g, one);
    tc_gen_barrier(g);
    return true;
}

bool tc_nvptx_announce(tc_gen *g, const tc_op *op)
{
    LLVMValueRef value = tc_gen_get(g, op->in[1])[0];
    if (g->role == TC_ROLE_PRODUCER)
        return tc_gen_error(g, op, "in the producer, which stores nothing");
    if (!is_of(op, "all")) {
        LLVMValueRef only = tc_gen_elected(g, is_of(op, "group"));
        for (unsigned i = 0; i < number_of(op); i++)
            write_to(g, word_of(g, op, i), value, only);
        g->awaits = next_await(op);
        if (g->awaits)
            g->seen = look_at(g, word_of(g, g->awaits, 0));
        return true;
    }
    tc_gen_barrier(g);
    tc_one one = first_thread(g);
    fence(g);
    for (unsigned i = 0; i < number_of(op); i++)
        write_to(g, word_of(g, op, i), value, NULL);
    tc_gen_join(g, one);
    return true;
}
