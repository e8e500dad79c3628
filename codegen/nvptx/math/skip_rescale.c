/* SPDX-License-Identifier: Apache-2.0
 *
 * mul skip_rescale(true): a warp whose second factors are all 1 branches around
 * the products, and keeps the first factors unchanged.
 *
 *     p = f0 == 1 and f1 == 1
 *     if vote.all p goto after
 *     y0 = x0 * f0;  y1 = x1 * f0;  y2 = x2 * f1;  ..
 *   after:
 *     z0 = phi x0, y0;  ..
 */
#include "codegen/nvptx/emit.h"

/* The different ones of n values; 0: more than that many. */
static unsigned different(const LLVMValueRef *in, unsigned n, unsigned most,
                          LLVMValueRef *out)
{
    unsigned nout = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned at = 0;
        while (at < nout && out[at] != in[i])
            at++;
        if (at < nout)
            continue;
        if (nout == most)
            return 0;
        out[nout++] = in[i];
    }
    return nout;
}

/* i1: in all lanes of the warp all of them are 1. */
static LLVMValueRef are_ones(tc_gen *g, const LLVMValueRef *x, unsigned n)
{
    LLVMValueRef ones = NULL;
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef is = LLVMBuildFCmp(g->b, LLVMRealOEQ, x[i],
                                        LLVMConstReal(LLVMTypeOf(x[i]), 1), "");
        ones = ones ? LLVMBuildAnd(g->b, ones, is, "") : is;
    }
    LLVMValueRef args[] = {tc_gen_i32(g, -1), ones};
    return tc_gen_intrinsic(g, "nvvm.vote.all.sync", 0, NULL, 2, args);
}

bool tc_gen_mul_skipping_ones(tc_gen *g, const tc_op *op)
{
    enum { MOST = 4 };
    const tc_type *t = op->out[0]->type;
    unsigned n = tc_gen_registers(t);
    LLVMValueRef *x = tc_gen_get(g, op->in[0]), *y = tc_gen_get(g, op->in[1]);
    LLVMValueRef factors[MOST];
    unsigned nfactors = t->kind == TC_TILE && t->elem->kind == TC_F32 &&
                                tc_op_int(op, "skip_rescale")
                            ? different(y, n, MOST, factors)
                            : 0;
    if (nfactors == 0)
        return false;
    LLVMValueRef skip = are_ones(g, factors, nfactors);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef multiply = tc_gen_block_new(g, "multiply");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "after");
    LLVMBuildCondBr(g->b, skip, after, multiply);
    LLVMPositionBuilderAtEnd(g->b, multiply);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned r = 0; r < n; r++)
        to[r] = LLVMBuildFMul(g->b, x[r], y[r], "");
    tc_gen_enter(g, after);
    for (unsigned r = 0; r < n; r++) {
        LLVMValueRef product = to[r];
        to[r] = LLVMBuildPhi(g->b, LLVMTypeOf(product), "");
        LLVMAddIncoming(to[r], (LLVMValueRef[]){x[r], product},
                        (LLVMBasicBlockRef[]){from, multiply}, 2);
    }
    return true;
}
