/* SPDX-License-Identifier: Apache-2.0
 *
 * for, if, while. Carried scalars (and the parts of block pointers) are phis,
 * carried tiles are in the buffers of the plan.
 */
#include "codegen/host/emit/emit.h"

#include <stdlib.h>
#include <string.h>

/* ---- Tiles at the end of a region ---- */

typedef struct copy {
    tc_host_buffer *from, *to;
} copy;

/* Copies all tiles of one size together, 64 bytes of each at a time: the target
 * of one copy may be the source of another (a loop that swaps). */
static void emit_copies(tc_emit *e, const copy *list, unsigned n)
{
    LLVMTypeRef type = LLVMVectorType(e->i32, 16);
    tc_nest nest = tc_nest_new(e, NULL);
    tc_host_loop l = tc_loop_begin(&nest, (int64_t)list[0].to->bytes / 64, 1);
    LLVMValueRef *x = tc_arena_array(e->arena, LLVMValueRef, n);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef p = tc_buffer_address(e, list[i].from);
        x[i] = LLVMBuildLoad2(e->b, type, tc_element(e, type, p, l.at), "");
    }
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef p = tc_buffer_address(e, list[i].to);
        LLVMBuildStore(e->b, x[i], tc_element(e, type, p, l.at));
    }
    tc_loop_end(&nest, &l);
}

/* The tiles that a loop's yield gives, to where the loop carries them. */
static void yield_tiles(tc_emit *e, const tc_op *loop, const tc_op *yield)
{
    copy *list = tc_arena_array(e->arena, copy, yield->nin);
    unsigned n = 0;
    for (unsigned i = 0; i < yield->nin; i++) {
        if (!tc_is_tile(yield->in[i]))
            continue;
        copy c = {tc_buffer_of(yield->in[i]), tc_buffer_of(loop->out[i])};
        if (c.from != c.to)
            list[n++] = c;
    }
    while (n > 0) {
        /* Moves the copies with the size of the first one to the front. */
        unsigned m = 0;
        for (unsigned i = 0; i < n; i++)
            if (list[i].to->bytes == list[0].to->bytes) {
                copy c = list[i];
                list[i] = list[m];
                list[m++] = c;
            }
        emit_copies(e, list, m);
        list += m;
        n -= m;
    }
}

static void init_tiles(tc_emit *e, tc_op *loop, tc_value *const *init)
{
    for (unsigned i = 0; i < loop->nout; i++)
        if (tc_is_tile(loop->out[i]))
            tc_emit_into(e, init[i], tc_buffer_of(loop->out[i]));
}

/* ---- Scalars ---- */

/* Phis in the current block for the carried scalars, which are what `args`
 * (and later the results) stand for. */
static void carry_scalars(tc_emit *e, tc_value *const *init,
                          tc_value *const *args, unsigned n,
                          LLVMBasicBlockRef from)
{
    for (unsigned i = 0; i < n; i++) {
        if (tc_is_tile(args[i]))
            continue;
        const tc_place *p = tc_place_of(init[i]);
        tc_place *a = tc_place_of(args[i]);
        a->nparts = p->nparts;
        a->parts = tc_arena_array(e->arena, LLVMValueRef, p->nparts);
        for (unsigned j = 0; j < p->nparts; j++) {
            a->parts[j] = LLVMBuildPhi(e->b, LLVMTypeOf(p->parts[j]), "");
            LLVMAddIncoming(a->parts[j], &p->parts[j], &from, 1);
        }
    }
}

static void next_scalars(tc_emit *e, tc_value *const *init,
                         tc_value *const *args, const tc_op *yield,
                         LLVMBasicBlockRef from)
{
    for (unsigned i = 0; i < yield->nin; i++) {
        if (!tc_check_carried_view(e, yield, i, init[i]))
            return;
        const tc_place *a = tc_place_of(args[i]);
        const tc_place *p = tc_place_of(yield->in[i]);
        for (unsigned j = 0; !tc_is_tile(args[i]) && j < a->nparts; j++)
            LLVMAddIncoming(a->parts[j], &p->parts[j], &from, 1);
    }
}

static void give_results(const tc_op *loop, tc_value *const *args)
{
    for (unsigned i = 0; i < loop->nout; i++) {
        if (tc_is_tile(loop->out[i]))
            continue;
        tc_place_of(loop->out[i])->nparts = tc_place_of(args[i])->nparts;
        tc_place_of(loop->out[i])->parts = tc_place_of(args[i])->parts;
    }
}

/* ---- The ops ---- */

/* ceil((hi - lo) / step), 0 unless lo < hi and step > 0; exact in 64 bits. */
static LLVMValueRef trip_count(tc_emit *e, LLVMValueRef lo, LLVMValueRef hi,
                               LLVMValueRef step)
{
    LLVMValueRef zero = tc_i64(e, 0), one = tc_i64(e, 1);
    LLVMValueRef positive = LLVMBuildICmp(e->b, LLVMIntSGT, step, zero, "");
    LLVMValueRef runs = LLVMBuildAnd(
        e->b, LLVMBuildICmp(e->b, LLVMIntSLT, lo, hi, ""), positive, "");
    LLVMValueRef by = LLVMBuildSelect(e->b, positive, step, one, "");
    LLVMValueRef span =
        LLVMBuildSub(e->b, LLVMBuildSub(e->b, hi, lo, ""), one, "");
    LLVMValueRef count =
        LLVMBuildAdd(e->b, LLVMBuildUDiv(e->b, span, by, ""), one, "");
    return LLVMBuildSelect(e->b, runs, count, zero, "");
}

void tc_emit_for(tc_emit *e, tc_op *op)
{
    tc_region *body = op->regions[0];
    LLVMValueRef lo = tc_to_i64(e, tc_scalar_of(e, op->in[0]));
    LLVMValueRef hi = tc_to_i64(e, tc_scalar_of(e, op->in[1]));
    LLVMValueRef step = tc_to_i64(e, tc_scalar_of(e, op->in[2]));
    LLVMValueRef count = trip_count(e, lo, hi, step);
    init_tiles(e, op, op->in + 3);

    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
    LLVMBasicBlockRef head = tc_block_new(e, "for");
    LLVMBasicBlockRef inside = tc_block_new(e, "for.body");
    LLVMBasicBlockRef after = tc_block_new(e, "for.end");
    tc_enter(e, head);
    LLVMValueRef n = LLVMBuildPhi(e->b, e->i64, "");
    LLVMValueRef zero = tc_i64(e, 0);
    LLVMAddIncoming(n, &zero, &before, 1);
    carry_scalars(e, op->in + 3, body->args + 1, op->nout, before);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntULT, n, count, ""), inside,
                    after);

    LLVMPositionBuilderAtEnd(e->b, inside);
    LLVMValueRef i =
        LLVMBuildAdd(e->b, lo, LLVMBuildMul(e->b, n, step, ""), "");
    tc_set_scalar(e, body->args[0],
                  LLVMBuildTruncOrBitCast(
                      e->b, i, tc_register_type(e, op->in[0]->type), ""));
    tc_emit_schedule(e, tc_op_plan_of(op)->regions[0]);
    if (e->failed)
        return;
    yield_tiles(e, op, body->last);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
    LLVMValueRef next = LLVMBuildAdd(e->b, n, tc_i64(e, 1), "");
    LLVMAddIncoming(n, &next, &end, 1);
    next_scalars(e, op->in + 3, body->args + 1, body->last, end);
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, after);
    give_results(op, body->args + 1);
}

void tc_emit_while(tc_emit *e, tc_op *op)
{
    tc_region *test = op->regions[0], *body = op->regions[1];
    init_tiles(e, op, op->in);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
    LLVMBasicBlockRef head = tc_block_new(e, "while");
    LLVMBasicBlockRef inside = tc_block_new(e, "while.body");
    LLVMBasicBlockRef after = tc_block_new(e, "while.end");
    tc_enter(e, head);
    carry_scalars(e, op->in, test->args, op->nout, before);
    tc_emit_schedule(e, tc_op_plan_of(op)->regions[0]);
    if (e->failed)
        return;
    LLVMBuildCondBr(e->b, tc_scalar_of(e, test->last->in[0]), inside, after);
    LLVMPositionBuilderAtEnd(e->b, inside);
    tc_emit_schedule(e, tc_op_plan_of(op)->regions[1]);
    if (e->failed)
        return;
    yield_tiles(e, op, body->last);
    next_scalars(e, op->in, test->args, body->last, LLVMGetInsertBlock(e->b));
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, after);
    give_results(op, test->args);
}

/* One branch of `if`; returns the block it ends in. */
static LLVMBasicBlockRef emit_branch(tc_emit *e, tc_op *op, unsigned which,
                                     LLVMBasicBlockRef start,
                                     LLVMBasicBlockRef after)
{
    LLVMPositionBuilderAtEnd(e->b, start);
    tc_emit_schedule(e, tc_op_plan_of(op)->regions[which]);
    if (e->failed)
        return start;
    const tc_op *yield = op->regions[which]->last;
    for (unsigned i = 0; i < op->nout; i++)
        if (tc_is_tile(op->out[i]))
            tc_emit_into(e, yield->in[i], tc_buffer_of(op->out[i]));
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, after);
    return end;
}

static void merge_scalars(tc_emit *e, tc_op *op, LLVMBasicBlockRef *ends)
{
    for (unsigned i = 0; i < op->nout; i++) {
        if (tc_is_tile(op->out[i]))
            continue;
        tc_place *p = tc_place_of(op->out[i]);
        const tc_place *from[2];
        for (unsigned j = 0; j < 2; j++)
            from[j] = tc_place_of(op->regions[j]->last->in[i]);
        p->nparts = from[0]->nparts;
        p->parts = tc_arena_array(e->arena, LLVMValueRef, p->nparts);
        for (unsigned k = 0; k < p->nparts; k++) {
            LLVMTypeRef type = LLVMTypeOf(from[0]->parts[k]);
            p->parts[k] = LLVMBuildPhi(e->b, type, "");
            for (unsigned j = 0; j < 2; j++)
                LLVMAddIncoming(p->parts[k], &from[j]->parts[k], &ends[j], 1);
        }
    }
}

void tc_emit_if(tc_emit *e, tc_op *op)
{
    LLVMBasicBlockRef start[2] = {tc_block_new(e, "then"),
                                  tc_block_new(e, "else")};
    LLVMBasicBlockRef after = tc_block_new(e, "endif"), ends[2];
    LLVMBuildCondBr(e->b, tc_scalar_of(e, op->in[0]), start[0], start[1]);
    for (unsigned i = 0; i < 2; i++) {
        if (i < op->nregions && op->regions[i]->first) {
            ends[i] = emit_branch(e, op, i, start[i], after);
        } else {
            LLVMPositionBuilderAtEnd(e->b, start[i]);
            ends[i] = start[i];
            LLVMBuildBr(e->b, after);
        }
        if (e->failed)
            return;
    }
    LLVMPositionBuilderAtEnd(e->b, after);
    merge_scalars(e, op, ends);
}
