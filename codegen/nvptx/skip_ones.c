/* SPDX-License-Identifier: Apache-2.0
 *
 * mul skip_ones(true): a warp whose second factors are all 1 branches around
 * the products, and keeps the first ones as they are.
 *
 *     p = f0 == 1 and f1 == 1
 *     if vote.all p goto behind
 *     y0 = x0 * f0;  y1 = x1 * f0;  y2 = x2 * f1;  ..
 *   behind:
 *     z0 = phi x0, y0;  ..
 *
 * add skip_zeros(true): likewise of sums.
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

/* i1: in all lanes of the warp all of them are that. */
static LLVMValueRef are_all(tc_gen *g, const LLVMValueRef *x, unsigned n,
                            double number)
{
    LLVMValueRef all = NULL;
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef is =
            LLVMBuildFCmp(g->b, LLVMRealOEQ, x[i],
                          LLVMConstReal(LLVMTypeOf(x[i]), number), "");
        all = all ? LLVMBuildAnd(g->b, all, is, "") : is;
    }
    LLVMValueRef args[] = {tc_gen_i32(g, -1), all};
    return tc_gen_intrinsic(g, "nvvm.vote.all.sync", 0, NULL, 2, args);
}

bool tc_gen_skipping(tc_gen *g, const tc_op *op)
{
    enum { MOST = 4 };
    bool adds = op->code == TC_ADD;
    bool skips = adds ? tc_op_int(op, "skip_zeros")
                      : op->code == TC_MUL && tc_op_int(op, "skip_ones");
    const tc_type *t = op->out[0]->type;
    if (!skips)
        return false;
    unsigned n = tc_gen_registers(t);
    LLVMValueRef *x = tc_gen_get(g, op->in[0]), *y = tc_gen_get(g, op->in[1]);
    LLVMValueRef others[MOST];
    unsigned nothers = t->kind == TC_TILE && t->elem->kind == TC_F32
                           ? different(y, n, MOST, others)
                           : 0;
    if (nothers == 0)
        return false;
    LLVMValueRef skip = are_all(g, others, nothers, !adds);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef compute = tc_gen_block_new(g, "compute");
    LLVMBasicBlockRef behind = tc_gen_block_new(g, "behind");
    LLVMBuildCondBr(g->b, skip, behind, compute);
    LLVMPositionBuilderAtEnd(g->b, compute);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned r = 0; r < n; r++)
        to[r] = adds ? LLVMBuildFAdd(g->b, x[r], y[r], "")
                     : LLVMBuildFMul(g->b, x[r], y[r], "");
    tc_gen_enter(g, behind);
    for (unsigned r = 0; r < n; r++) {
        LLVMValueRef result = to[r];
        to[r] = LLVMBuildPhi(g->b, LLVMTypeOf(result), "");
        LLVMAddIncoming(to[r], (LLVMValueRef[]){x[r], result},
                        (LLVMBasicBlockRef[]){from, compute}, 2);
    }
    return true;
}
