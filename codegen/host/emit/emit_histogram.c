/* SPDX-License-Identifier: Apache-2.0
 *
 * Histograms: zeros, then a loop over the elements. Those that are not counted
 * add 0 to the first counter: no branch.
 *
 *   inside = x < N                 unsigned: negative ones are beyond the end
 *   counters[inside ? x : 0] += inside
 */
#include "codegen/host/emit/emit.h"

static void clear(tc_emit *e, const tc_value *v)
{
    tc_walk w = tc_walk_new(e, NULL, v->type, e->width, 1);
    tc_walk_outer(&w);
    tc_walk_inner(&w);
    LLVMValueRef zero = LLVMConstInt(LLVMInt32TypeInContext(e->llvm), 0, false);
    tc_buffer_store(e, tc_buffer_of(v), v->type, &w.index[0],
                    tc_splat(e, zero, w.index[0].width));
    tc_walk_end_inner(&w);
    tc_walk_end_outer(&w);
}

static void count(tc_emit *e, const tc_value *v, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMInt32TypeInContext(e->llvm);
    LLVMValueRef at = tc_to_i64(e, x), side = tc_i64(e, tc_side(v->type, 0));
    LLVMValueRef inside = LLVMBuildICmp(e->b, LLVMIntULT, at, side, "");
    at = LLVMBuildSelect(e->b, inside, at, tc_i64(e, 0), "");
    LLVMValueRef p =
        tc_element(e, type, tc_buffer_address(e, tc_buffer_of(v)), at);
    LLVMValueRef one = LLVMBuildZExt(e->b, inside, type, "");
    LLVMValueRef before = LLVMBuildLoad2(e->b, type, p, "");
    LLVMBuildStore(e->b, LLVMBuildAdd(e->b, before, one, ""), p);
}

void tc_emit_histogram(tc_emit *e, tc_op *op)
{
    clear(e, op->out[0]);
    tc_walk w = tc_walk_new(e, NULL, op->in[0]->type, 1, 1);
    tc_walk_outer(&w);
    tc_walk_inner(&w);
    LLVMValueRef x = tc_eval_full(&w.nest, op->in[0], &w.index[0]);
    count(e, op->out[0], x);
    tc_walk_end_inner(&w);
    tc_walk_end_outer(&w);
}
