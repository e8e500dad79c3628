/* SPDX-License-Identifier: Apache-2.0
 *
 * What is added to a later product is computed before an earlier one is issued.
 *
 *   %d = mul %c, %x                    accumulators, from registers
 *   %s = mma %a, %b, .. async(true)    what is emitted here: {} with %d tied
 *   if .. { .. }                       LLVM would sink the mul below the branch
 *   %e = mma %p, %q, %d async(true)
 *
 * The registers of %c and %d are those of products. Touched while another
 * product is in flight they make ptxas wait for it first (C7517). The empty
 * assembly uses the values, so LLVM cannot compute them later. Test:
 * test/ir/nvptx/wgmma-settled.tile.
 */
#include "codegen/nvptx/emit.h"

#include <string.h>

static bool is_of_warp_groups(const tc_op *op)
{
    return op->code == TC_MMA &&
           strncmp(tc_op_word(op, "instr"), "m64", 3) == 0;
}

static bool is_before(const tc_op *a, const tc_op *b)
{
    for (const tc_op *op = b->prev; op; op = op->prev)
        if (op == a)
            return true;
    return false;
}

/* Computed in the step, before the product, and by no product. */
static bool is_computed(const tc_value *v, const tc_op *mma)
{
    const tc_op *def = v->def;
    return def && def->parent == mma->parent && def->code != TC_MMA &&
           def->code != TC_MMA_WAIT && !def->nregions &&
           v->type->elem->kind == TC_F32 && is_before(def, mma);
}

static bool is_constant(const LLVMValueRef *x, unsigned n)
{
    unsigned i = 0;
    while (i < n && LLVMIsConstant(x[i]))
        i++;
    return i == n;
}

static void settle(tc_gen *g, const tc_value *v)
{
    unsigned n = tc_gen_registers(v->type);
    const LLVMValueRef *x = tc_gen_get(g, v);
    if (is_constant(x, n))
        return;
    tc_text constraints = {.arena = g->arena};
    LLVMTypeRef *types = tc_arena_array(g->arena, LLVMTypeRef, n);
    LLVMValueRef *in = tc_arena_array(g->arena, LLVMValueRef, n);
    for (unsigned i = 0; i < n; i++) {
        types[i] = g->f32;
        in[i] = x[i];
        tc_text_add(&constraints, "=f,");
    }
    for (unsigned i = 0; i < n; i++)
        tc_text_printf(&constraints, i + 1 < n ? "%u," : "%u", i);
    LLVMTypeRef all = LLVMStructTypeInContext(g->llvm, types, n, false);
    LLVMValueRef same = tc_gen_asm(g, all, "", constraints.data, n, in);
    LLVMValueRef *out = tc_gen_set(g, v);
    for (unsigned i = 0; i < n; i++)
        out[i] = LLVMBuildExtractValue(g->b, same, i, "");
}

void tc_gen_settle(tc_gen *g, const tc_op *mma)
{
    for (const tc_op *op = mma->next; op; op = op->next)
        if (is_of_warp_groups(op) && is_computed(op->in[2], mma))
            settle(g, op->in[2]);
}
