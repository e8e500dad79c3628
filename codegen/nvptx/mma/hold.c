/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands A of wgmma that a loop does not change keep their registers.
 *
 *   %q = smem_load ..                       mma_a in registers
 *   for .. {
 *     mma %q ..
 *     if %c { .. }
 *     mma %p ..
 *   }
 *   @never st.shared [0], %q                what is emitted here
 *
 * Where a step has branches, ptxas 12.9 and 13.0 may take the product for the
 * last use of %q, though the next step reads it again, and give %p the same
 * registers if it has as many. An instruction after the loop that would read
 * them, and is never run, is a use that they count. Tests:
 * test/ir/nvptx/wgmma-held.tile, test/nvptx/operands.py.
 */
#include "codegen/nvptx/emit.h"

#include <string.h>

enum { WORDS = 4 }; /* of a store */

/* `never` is the sign of an address in shared memory. */
static void read_words(tc_gen *g, LLVMValueRef *words, unsigned n)
{
    tc_text text = {.arena = g->arena};
    LLVMValueRef args[WORDS + 1] = {
        LLVMBuildPtrToInt(g->b, g->shared, g->i32, "")};
    tc_text_add(&text, "{ .reg .pred never;\n\t"
                       "setp.lt.s32 never, $0, 0;\n\t"
                       "@never st.shared");
    tc_text_add(&text, n == WORDS ? ".v4.b32 [$0], {$1, $2, $3, $4}; }"
                                  : ".b32 [$0], $1; }");
    for (unsigned i = 0; i < n; i++)
        args[1 + i] = words[i];
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text.data,
               n == WORDS ? "r,r,r,r,r" : "r,r", 1 + n, args);
}

static void hold(tc_gen *g, const tc_value *a)
{
    unsigned n = tc_gen_parts(a);
    unsigned count = n * tc_type_bytes(a->type->elem) / 4;
    LLVMValueRef *words = tc_arena_array(g->arena, LLVMValueRef, count);
    tc_gen_pack(g, a->type->elem, n, tc_gen_get(g, a), words);
    for (unsigned i = 0; i < count;) {
        unsigned some = count - i < WORDS ? 1 : WORDS;
        read_words(g, words + i, some);
        i += some;
    }
}

static bool is_held(const tc_op *op, const tc_op *loop)
{
    return op->code == TC_MMA && op->in[0]->type->kind == TC_TILE &&
           strncmp(tc_op_word(op, "instr"), "m64", 3) == 0 &&
           tc_value_is_visible(op->in[0], loop);
}

static bool branches(const tc_op *op)
{
    return op->code == TC_IF || tc_op_is_loop(op);
}

static void hold_in(tc_gen *g, const tc_region *r, const tc_op *loop,
                    tc_map *held)
{
    tc_each_op (op, r) {
        if (is_held(op, loop) && !tc_map_get(held, op->in[0])) {
            tc_map_set(held, op->in[0], op);
            hold(g, op->in[0]);
        }
        for (unsigned i = 0; i < op->nregions; i++)
            hold_in(g, op->regions[i], loop, held);
    }
}

void tc_gen_hold_operands(tc_gen *g, const tc_op *loop)
{
    tc_map held = {.arena = g->arena};
    for (unsigned i = 0; i < loop->nregions; i++)
        if (tc_region_any(loop->regions[i], branches))
            hold_in(g, loop->regions[i], loop, &held);
}
