/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks at run time, print, and ordered accumulation (`follow`): calls of
 * runtime.c.
 */
#include "codegen/host/emit/emit.h"

#include <string.h>

static unsigned new_site(tc_emit *e)
{
    /* Powers of two: grow only when the count reaches one. */
    unsigned n = e->nsites;
    if ((n & (n - 1)) == 0) {
        tc_site *more = tc_arena_array(e->arena, tc_site, n ? 2 * n : 1);
        if (n)
            memcpy(more, e->sites, n * sizeof *more);
        e->sites = more;
    }
    return e->nsites++;
}

unsigned tc_site_new(tc_emit *e, const tc_op *op, const char *message)
{
    unsigned site = new_site(e);
    e->sites[site] = (tc_site){.loc = op->loc, .message = message};
    return site;
}

static LLVMValueRef call_runtime(tc_emit *e, LLVMTypeRef result,
                                 const char *name, unsigned n,
                                 LLVMTypeRef *types, LLVMValueRef *args)
{
    LLVMTypeRef type = LLVMFunctionType(result, types, n, false);
    LLVMValueRef fn = LLVMGetNamedFunction(e->module, name);
    if (!fn)
        fn = LLVMAddFunction(e->module, name, type);
    return LLVMBuildCall2(e->b, type, fn, args, n, "");
}

void tc_emit_check(tc_emit *e, LLVMValueRef ok, unsigned site, unsigned nvalues,
                   LLVMValueRef *values)
{
    LLVMBasicBlockRef fail = tc_block_new(e, "fail");
    LLVMBasicBlockRef go_on = tc_block_new(e, "checked");
    LLVMBuildCondBr(e->b, ok, go_on, fail);
    LLVMPositionBuilderAtEnd(e->b, fail);
    LLVMTypeRef types[] = {e->ptr, e->i32, e->i64, e->i64, e->i64, e->i64};
    LLVMValueRef args[6] = {e->thread, tc_i32(e, site)};
    for (unsigned i = 0; i < 4; i++)
        args[2 + i] = i < nvalues ? values[i] : tc_i64(e, 0);
    call_runtime(e, e->none, "tc_host_rt_fail", 6, types, args);
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, go_on);
}

/* Memory of this call of the kernel, allocated where it is entered. */
static LLVMValueRef frame_cell(tc_emit *e, LLVMTypeRef type)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(e->fn);
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    if (first)
        LLVMPositionBuilderBefore(e->b, first);
    LLVMValueRef cell = LLVMBuildAlloca(e->b, type, "");
    LLVMPositionBuilderAtEnd(e->b, here);
    return cell;
}

/* All lanes of a tile of i1. */
static LLVMValueRef all_lanes(tc_emit *e, tc_value *v)
{
    tc_walk w = tc_walk_new(e, NULL, v->type, e->width, 1);
    unsigned width = w.index[0].width;
    LLVMTypeRef type = tc_vector_of(e->i1, width);
    LLVMValueRef cell = frame_cell(e, type);
    LLVMBuildStore(e->b, LLVMConstAllOnes(type), cell);
    tc_walk_outer(&w);
    tc_walk_inner(&w);
    LLVMValueRef x = tc_eval_full(&w.nest, v, &w.index[0]);
    LLVMValueRef so_far = LLVMBuildLoad2(e->b, type, cell, "");
    LLVMBuildStore(e->b, LLVMBuildAnd(e->b, x, so_far, ""), cell);
    tc_walk_end_inner(&w);
    tc_walk_end_outer(&w);
    LLVMValueRef all = LLVMBuildLoad2(e->b, type, cell, "");
    if (width == 1)
        return all;
    return tc_intrinsic(e, "llvm.vector.reduce.and", 1, &type, 1, &all);
}

/* `%` of a user's message is no format. */
static const char *escaped(tc_emit *e, const char *s)
{
    char *out = tc_arena_alloc(e->arena, 2 * strlen(s) + 1), *to = out;
    for (; *s; s++) {
        if (*s == '%')
            *to++ = '%';
        *to++ = *s;
    }
    return out;
}

void tc_emit_assert(tc_emit *e, tc_op *op)
{
    LLVMValueRef ok = tc_is_tile(op->in[0]) ? all_lanes(e, op->in[0])
                                            : tc_scalar_of(e, op->in[0]);
    const char *message = tc_op_word(op, "message");
    message = tc_arena_printf(e->arena, "assertion failed: %s",
                              escaped(e, message ? message : ""));
    tc_emit_check(e, ok, tc_site_new(e, op, message), 0, NULL);
}

void tc_emit_exit_if(tc_emit *e, tc_op *op)
{
    LLVMBasicBlockRef end = tc_block_new(e, "exit");
    LLVMBasicBlockRef go_on = tc_block_new(e, "go_on");
    LLVMBuildCondBr(e->b, tc_scalar_of(e, op->in[0]), end, go_on);
    LLVMPositionBuilderAtEnd(e->b, end);
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, go_on);
}

void tc_emit_assume(tc_emit *e, tc_op *op)
{
    if (tc_is_tile(op->in[0]))
        return;
    LLVMValueRef ok = tc_scalar_of(e, op->in[0]);
    tc_intrinsic(e, "llvm.assume", 0, NULL, 1, &ok);
}

/* ---- print ---- */

static void describe_value(tc_emit *e, const tc_value *v,
                           struct tc_site_value *out)
{
    out->kind = tc_type_elem(v->type)->kind;
    out->rank = tc_is_tile(v) ? v->type->rank : 0;
    for (unsigned i = 0; i < out->rank; i++)
        out->sides[i] = tc_side(v->type, i);
}

/* As 64 bits: ints sign-extended, floats as double, a tile's address. */
static LLVMValueRef printed_word(tc_emit *e, const tc_value *v)
{
    if (tc_is_tile(v))
        return tc_buffer_address(e, tc_buffer_of(v));
    /* (Of a tensor or block pointer: the address of its first element.) */
    LLVMValueRef x = tc_scalar_of(e, v);
    if (v->type->kind >= TC_F64)
        return x;
    if (v->type->kind == TC_I1)
        return LLVMBuildZExt(e->b, x, e->i64, "");
    return tc_scalar_infos[v->type->kind].is_float
               ? LLVMBuildFPExt(e->b, x, e->f64, "")
               : tc_to_i64(e, x);
}

void tc_emit_print(tc_emit *e, tc_op *op)
{
    const char *message = tc_op_word(op, "message");
    unsigned site = tc_site_new(e, op, message ? message : "");
    unsigned n = tc_op_nreported(op);
    struct tc_site_value *values =
        tc_arena_array(e->arena, struct tc_site_value, n);
    LLVMValueRef cell = frame_cell(e, LLVMArrayType(e->i64, n ? n : 1));
    for (unsigned i = 0; i < n; i++) {
        describe_value(e, op->in[i], &values[i]);
        LLVMBuildStore(e->b, printed_word(e, op->in[i]),
                       tc_element(e, e->i64, cell, tc_i64(e, i)));
    }
    e->sites[site].nvalues = n;
    e->sites[site].values = values;
    LLVMTypeRef types[] = {e->ptr, e->i32, e->ptr};
    LLVMValueRef args[] = {e->thread, tc_i32(e, site), cell};
    call_runtime(e, e->none, "tc_host_rt_print", 3, types, args);
}

/* ---- Programs that follow others ---- */

/* One word says how far a program is. */
void tc_emit_follow(tc_emit *e, tc_op *op)
{
    bool end = op->code == TC_FOLLOW_END;
    LLVMTypeRef types[] = {e->ptr, e->ptr, e->ptr, e->i32};
    LLVMValueRef step = end ? tc_i32(e, INT32_MAX) : tc_scalar_of(e, op->in[2]);
    LLVMValueRef args[] = {e->thread, tc_scalar_of(e, op->in[0]),
                           tc_scalar_of(e, op->in[1]), step};
    LLVMValueRef ok = call_runtime(e, LLVMInt1TypeInContext(e->llvm),
                                   "tc_host_rt_follow", 4, types, args);
    LLVMBasicBlockRef stop = tc_block_new(e, "stop");
    LLVMBasicBlockRef go_on = tc_block_new(e, "followed");
    LLVMBuildCondBr(e->b, ok, go_on, stop);
    LLVMPositionBuilderAtEnd(e->b, stop);
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, go_on);
}
