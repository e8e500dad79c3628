/* SPDX-License-Identifier: Apache-2.0
 *
 * An integer that is extended gets a copy of its own, by LLVM's freeze:
 *
 *   %w = sext i32 %x to i64      ->   %y = freeze i32 %x
 *                                     %w = sext i32 %y to i64
 *
 * If %x is of the same block and has further uses in others, LLVM's
 * CodeGenPrepare would replace these uses by truncations of %w, because those
 * are free. It rewrites one use in a walk over the whole function and then
 * walks again: a causal mask's bound, which each element of a tile is compared
 * with, took half of the time of code generation. A frozen value has no further
 * uses.
 */
#include "codegen/nvptx/emit.h"

/* Few uses are left alone. */
enum { FEW_USES = 4 };

static bool has_many_uses(LLVMValueRef v)
{
    unsigned n = 0;
    for (LLVMUseRef u = LLVMGetFirstUse(v); u && n <= FEW_USES;
         u = LLVMGetNextUse(u))
        n++;
    return n > FEW_USES;
}

static bool is_extension(LLVMValueRef v)
{
    LLVMOpcode code = LLVMGetInstructionOpcode(v);
    return code == LLVMSExt || code == LLVMZExt;
}

static void freeze_operands(LLVMBuilderRef b, LLVMBasicBlockRef block)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i;
         i = LLVMGetNextInstruction(i)) {
        LLVMValueRef x = is_extension(i) ? LLVMGetOperand(i, 0) : NULL;
        if (!x || !LLVMIsAInstruction(x) ||
            LLVMGetInstructionParent(x) != block || !has_many_uses(x))
            continue;
        LLVMPositionBuilderBefore(b, i);
        LLVMSetOperand(i, 0, LLVMBuildFreeze(b, x, ""));
    }
}

void tc_gen_freeze_extended(tc_gen *g)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(g->module); f;
         f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block;
             block = LLVMGetNextBasicBlock(block))
            freeze_operands(g->b, block);
}
