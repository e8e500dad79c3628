/* SPDX-License-Identifier: Apache-2.0
 *
 * for, if, while. Carried values are phis: tiles never leave the registers.
 *
 *   for:  count = trips; n = 0;
 *         while (n < count) { i = lo + n * step; ...; n++ }
 *
 * Conditions and bounds are scalars, so all threads of a block go the same way.
 */
#include "codegen/nvptx/emit.h"

#include <llvm-c/DebugInfo.h>

#include <string.h>

/* Elements of 8 or 16 bits go round in words: phis of their own would take them
 * out of those that conversions give and products read. 0: no such value. */
static unsigned count_words(const tc_value *v)
{
    if (v->type->kind != TC_TILE || v->type->elem->kind == TC_I1)
        return 0;
    unsigned bytes = tc_type_bytes(v->type->elem), n = tc_gen_parts(v);
    return bytes < 4 && n * bytes % 4 == 0 ? n * bytes / 4 : 0;
}

/* The LLVM values that go into the phis of a value, computed in the current
 * block. */
static LLVMValueRef *carried_parts(tc_gen *g, const tc_value *v)
{
    unsigned nwords = count_words(v);
    LLVMValueRef *x = tc_gen_get(g, v);
    if (nwords == 0)
        return x;
    LLVMValueRef *words = tc_arena_array(g->arena, LLVMValueRef, nwords);
    tc_gen_pack(g, v->type->elem, tc_gen_parts(v), x, words);
    return words;
}

/* The parts of n values that come in, and the phis that they go into. */
typedef struct carried {
    unsigned n;
    tc_value *const *args;
    LLVMValueRef **init, **phis;
} carried;

static unsigned count_phis(const carried *c, unsigned i)
{
    unsigned nwords = count_words(c->args[i]);
    return nwords ? nwords : tc_gen_parts(c->args[i]);
}

static carried begin_carry(tc_gen *g, tc_value *const *init,
                           tc_value *const *args, unsigned n)
{
    carried c = {n, args, tc_arena_array(g->arena, LLVMValueRef *, n),
                 tc_arena_array(g->arena, LLVMValueRef *, n)};
    for (unsigned i = 0; i < n; i++)
        c.init[i] = carried_parts(g, init[i]);
    return c;
}

/* Rebuilds the values from their phis. */
static void set_carried(tc_gen *g, const carried *c)
{
    for (unsigned i = 0; i < c->n; i++) {
        const tc_value *arg = c->args[i];
        LLVMValueRef *x = tc_gen_set(g, arg);
        if (count_words(arg))
            tc_gen_unpack(g, arg->type->elem, tc_gen_parts(arg), x, c->phis[i]);
        else
            memcpy(x, c->phis[i], count_phis(c, i) * sizeof *x);
    }
}

/* Phis in the current block, which has no other ops yet. */
static void carry(tc_gen *g, const carried *c, LLVMBasicBlockRef from)
{
    for (unsigned i = 0; i < c->n; i++) {
        unsigned n = count_phis(c, i);
        c->phis[i] = tc_arena_array(g->arena, LLVMValueRef, n);
        for (unsigned r = 0; r < n; r++) {
            LLVMValueRef x = c->init[i][r];
            c->phis[i][r] = LLVMBuildPhi(g->b, LLVMTypeOf(x), "");
            LLVMAddIncoming(c->phis[i][r], &x, &from, 1);
        }
    }
    set_carried(g, c);
}

static void come_back(tc_gen *g, const carried *c, const tc_op *yield)
{
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->b);
    for (unsigned i = 0; i < c->n; i++) {
        LLVMValueRef *x = carried_parts(g, yield->in[i]);
        for (unsigned r = 0; r < count_phis(c, i); r++)
            LLVMAddIncoming(c->phis[i][r], &x[r], &from, 1);
    }
}

/* A loop's results are what its head carries when it ends. */
static void give_results(tc_gen *g, const tc_op *loop, tc_value *const *args)
{
    for (unsigned i = 0; i < loop->nout; i++)
        tc_map_set(&g->values, loop->out[i], tc_gen_get(g, args[i]));
}

void tc_gen_forbid_unrolling(tc_gen *g, LLVMValueRef branch)
{
    static const char text[] = "llvm.loop.unroll.disable";
    static const char kind[] = "llvm.loop";
    LLVMMetadataRef name =
        LLVMMDStringInContext2(g->llvm, text, sizeof text - 1);
    LLVMMetadataRef disable = LLVMMDNodeInContext2(g->llvm, &name, 1);
    /* A loop's node is its own: the first operand is the node itself. */
    LLVMMetadataRef self = LLVMTemporaryMDNode(g->llvm, NULL, 0);
    LLVMMetadataRef parts[] = {self, disable};
    LLVMMetadataRef loop = LLVMMDNodeInContext2(g->llvm, parts, 2);
    LLVMMetadataReplaceAllUsesWith(self, loop);
    LLVMSetMetadata(branch,
                    LLVMGetMDKindIDInContext(g->llvm, kind, sizeof kind - 1),
                    LLVMMetadataAsValue(g->llvm, loop));
}

/* ceil((hi - lo) / step), 0 unless lo < hi and step > 0. The difference fits
 * the unsigned type. */
static LLVMValueRef trip_count(tc_gen *g, LLVMValueRef lo, LLVMValueRef hi,
                               LLVMValueRef step)
{
    LLVMTypeRef type = LLVMTypeOf(lo);
    LLVMValueRef zero = LLVMConstInt(type, 0, false);
    LLVMValueRef one = LLVMConstInt(type, 1, false);
    LLVMValueRef positive = LLVMBuildICmp(g->b, LLVMIntSGT, step, zero, "");
    LLVMValueRef runs = LLVMBuildAnd(
        g->b, LLVMBuildICmp(g->b, LLVMIntSLT, lo, hi, ""), positive, "");
    LLVMValueRef by = LLVMBuildSelect(g->b, positive, step, one, "");
    LLVMValueRef span =
        LLVMBuildSub(g->b, LLVMBuildSub(g->b, hi, lo, ""), one, "");
    LLVMValueRef count =
        LLVMBuildAdd(g->b, LLVMBuildUDiv(g->b, span, by, ""), one, "");
    return LLVMBuildSelect(g->b, runs, count, zero, "");
}

/* A loop after which thread-dependent values are computed again: the kernel's
 * main loops, in the consumer those in its loop over tiles too, or an `if`
 * around them. */
static bool ends_phase(const tc_gen *g, const tc_op *op)
{
    const tc_region *r = op->parent;
    if (g->role != TC_ROLE_CONSUMER)
        return r == g->f->body && op->code == TC_FOR;
    bool outer = r->op == g->groups ||
                 (r->op->code != TC_IF && r->op->parent->op == g->groups);
    bool loops = op->code == TC_FOR;
    for (unsigned i = 0; !loops && i < op->nregions; i++)
        loops = tc_region_any(op->regions[i], tc_op_is_loop);
    return outer && loops;
}

/* An edge that is hardly ever taken gets a block of its own, which holds the
 * copies for phis. LLVM would remove an empty block, and copy before the
 * branch. */
static void keep_block(tc_gen *g)
{
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), "", "", 0, NULL);
}

/* The first of two loops over blocks, of which the second one begins with what
 * this one carries: accumulators. (After a loop ptxas wants the operands of
 * products where they were.) */
static bool has_sequel(const tc_op *loop)
{
    if (loop->nout == 0 || !tc_op_is_word(loop, "schedule", "modulo"))
        return false;
    tc_each_use (u, loop->out[loop->nout - 1])
        if (u->op->code == TC_FOR && u->op->parent == loop->parent &&
            tc_op_is_word(u->op, "schedule", "modulo"))
            return true;
    return false;
}

/* Continues in the block for a loop that has steps; returns the block for a
 * loop that has none. */
static LLVMBasicBlockRef build_guard(tc_gen *g, LLVMValueRef count)
{
    LLVMBasicBlockRef some = tc_gen_block_new(g, "for.some");
    LLVMBasicBlockRef none = tc_gen_block_new(g, "for.none");
    LLVMValueRef zero = LLVMConstInt(LLVMTypeOf(count), 0, false);
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntNE, count, zero, ""), some,
                    none);
    LLVMPositionBuilderAtEnd(g->b, none);
    keep_block(g);
    LLVMPositionBuilderAtEnd(g->b, some);
    return none;
}

/* The results: what the head carries when the loop ends, or what it would have
 * begun with. */
static void join_results(tc_gen *g, const tc_op *loop, const carried *c,
                         LLVMBasicBlockRef none)
{
    LLVMBasicBlockRef from[] = {LLVMGetInsertBlock(g->b), none};
    LLVMBasicBlockRef both = tc_gen_block_new(g, "for.both");
    LLVMPositionBuilderAtEnd(g->b, none);
    LLVMBuildBr(g->b, both);
    LLVMPositionBuilderAtEnd(g->b, from[0]);
    tc_gen_enter(g, both);
    carried joined = {c->n, loop->out, NULL,
                      tc_arena_array(g->arena, LLVMValueRef *, c->n)};
    for (unsigned i = 0; i < c->n; i++) {
        joined.phis[i] =
            tc_arena_array(g->arena, LLVMValueRef, count_phis(c, i));
        for (unsigned r = 0; r < count_phis(c, i); r++) {
            LLVMValueRef x[] = {c->phis[i][r], c->init[i][r]};
            joined.phis[i][r] = LLVMBuildPhi(g->b, LLVMTypeOf(x[0]), "");
            LLVMAddIncoming(joined.phis[i][r], x, from, 2);
        }
    }
    set_carried(g, &joined);
}

/* Other values that a loop counts. */
enum { MOST_COUNTERS = 8 };
struct tc_counters {
    LLVMBasicBlockRef before, head;
    unsigned n;
    LLVMValueRef phis[MOST_COUNTERS], by[MOST_COUNTERS];
};

bool tc_gen_go_before(tc_gen *g, LLVMBasicBlockRef *here)
{
    const tc_counters *c = g->counters;
    if (!c || c->n == MOST_COUNTERS)
        return false;
    *here = LLVMGetInsertBlock(g->b);
    LLVMPositionBuilderBefore(g->b, LLVMGetBasicBlockTerminator(c->before));
    return true;
}

LLVMValueRef tc_gen_count(tc_gen *g, LLVMBasicBlockRef here, LLVMValueRef start,
                          LLVMValueRef by)
{
    tc_counters *c = g->counters;
    LLVMPositionBuilderBefore(g->b, LLVMGetFirstInstruction(c->head));
    LLVMValueRef phi = LLVMBuildPhi(g->b, LLVMTypeOf(start), "");
    LLVMAddIncoming(phi, &start, &c->before, 1);
    LLVMPositionBuilderAtEnd(g->b, here);
    c->by[c->n] = by;
    c->phis[c->n++] = phi;
    /* LLVM would count from elsewhere, and add that in each step. */
    return tc_gen_pure_asm(g, LLVMTypeOf(phi), "mov.b64 $0, $1;", "=l,l", 1,
                           &phi);
}

static void count_on(tc_gen *g, const tc_counters *c)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
    for (unsigned i = 0; i < c->n; i++) {
        LLVMValueRef by = c->by[i];
        LLVMValueRef next = LLVMBuildGEP2(g->b, g->i8, c->phis[i], &by, 1, "");
        LLVMAddIncoming(c->phis[i], &next, &here, 1);
    }
}

bool tc_nvptx_for(tc_gen *g, const tc_op *op)
{
    const tc_region *body = op->regions[0];
    LLVMValueRef lo = tc_gen_scalar(g, op->in[0]);
    LLVMValueRef step = tc_gen_scalar(g, op->in[2]);
    LLVMTypeRef type = LLVMTypeOf(lo);
    LLVMValueRef count = trip_count(g, lo, tc_gen_scalar(g, op->in[1]), step);
    LLVMValueRef zero = LLVMConstInt(type, 0, false);
    LLVMValueRef one = LLVMConstInt(type, 1, false);

    carried c = begin_carry(g, op->in + 3, body->args + 1, op->nout);
    LLVMBasicBlockRef none = has_sequel(op) ? build_guard(g, count) : NULL;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef head = tc_gen_block_new(g, "for");
    LLVMBasicBlockRef inside = tc_gen_block_new(g, "for.body");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "for.end");
    tc_gen_enter(g, head);
    LLVMValueRef n = LLVMBuildPhi(g->b, type, "n");
    LLVMAddIncoming(n, &zero, &before, 1);
    carry(g, &c, before);
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntULT, n, count, ""), inside,
                    after);

    LLVMPositionBuilderAtEnd(g->b, inside);
    *tc_gen_set(g, body->args[0]) =
        LLVMBuildAdd(g->b, lo, LLVMBuildMul(g->b, n, step, ""), "");
    tc_phase outer = tc_gen_phase(g);
    tc_counters *around = g->counters;
    tc_counters counters = {.before = before, .head = head};
    g->counters = &counters;
    if (!tc_nvptx_region(g, body))
        return false;
    g->counters = around;
    tc_gen_resume(g, &outer);
    tc_gen_locate(g, op->loc);
    count_on(g, &counters);
    LLVMValueRef next = LLVMBuildAdd(g->b, n, one, "");
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->b);
    LLVMAddIncoming(n, &next, &end, 1);
    come_back(g, &c, body->last);
    tc_gen_forbid_unrolling(g, LLVMBuildBr(g->b, head));
    LLVMPositionBuilderAtEnd(g->b, after);
    if (none)
        join_results(g, op, &c, none);
    else
        give_results(g, op, body->args + 1);
    tc_gen_hold_operands(g, op);
    if (ends_phase(g, op))
        tc_gen_enter_again(g);
    return true;
}

bool tc_nvptx_while(tc_gen *g, const tc_op *op)
{
    const tc_region *test = op->regions[0], *body = op->regions[1];
    carried c = begin_carry(g, op->in, test->args, op->nout);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef head = tc_gen_block_new(g, "while");
    LLVMBasicBlockRef inside = tc_gen_block_new(g, "while.body");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "while.end");
    tc_gen_enter(g, head);
    carry(g, &c, before);
    if (!tc_nvptx_region(g, test))
        return false;
    LLVMBuildCondBr(g->b, tc_gen_scalar(g, test->last->in[0]), inside, after);
    LLVMPositionBuilderAtEnd(g->b, inside);
    tc_phase outer = tc_gen_phase(g);
    if (!tc_nvptx_region(g, body))
        return false;
    tc_gen_resume(g, &outer);
    come_back(g, &c, body->last);
    tc_gen_forbid_unrolling(g, LLVMBuildBr(g->b, head));
    LLVMPositionBuilderAtEnd(g->b, after);
    give_results(g, op, test->args);
    tc_gen_hold_operands(g, op);
    return true;
}

/* Does nothing where the other branch has loops. */
static bool skips_loops(const tc_op *op, unsigned which)
{
    const tc_region *r = op->regions[which];
    return op->nout && r->first == r->last &&
           tc_region_any(op->regions[1 - which], tc_op_is_loop);
}

/* One branch of `if`; the block it ends in, NULL where it failed. What the
 * loops in it need is computed in it: one that is hardly ever taken costs the
 * others nothing. */
static LLVMBasicBlockRef emit_branch(tc_gen *g, const tc_op *op, unsigned which,
                                     LLVMBasicBlockRef start,
                                     LLVMBasicBlockRef after)
{
    LLVMPositionBuilderAtEnd(g->b, start);
    bool there = which < op->nregions && op->regions[which]->first;
    tc_phase outer = tc_gen_phase(g);
    if (there && g->role == TC_ROLE_CONSUMER &&
        tc_region_any(op->regions[which], tc_op_is_loop))
        tc_gen_enter_again(g);
    if (there && !tc_nvptx_region(g, op->regions[which]))
        return NULL;
    tc_gen_resume(g, &outer);
    if (there && skips_loops(op, which))
        keep_block(g);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, after);
    return end;
}

static void merge_results(tc_gen *g, const tc_op *op, LLVMBasicBlockRef *ends)
{
    for (unsigned i = 0; i < op->nout; i++) {
        LLVMValueRef *phi = tc_gen_set(g, op->out[i]);
        LLVMValueRef *from[2];
        for (unsigned j = 0; j < 2; j++)
            from[j] = tc_gen_get(g, op->regions[j]->last->in[i]);
        for (unsigned r = 0; r < tc_gen_registers(op->out[i]->type); r++) {
            phi[r] = LLVMBuildPhi(g->b, LLVMTypeOf(from[0][r]), "");
            for (unsigned j = 0; j < 2; j++)
                LLVMAddIncoming(phi[r], &from[j][r], &ends[j], 1);
        }
    }
}

bool tc_nvptx_if(tc_gen *g, const tc_op *op)
{
    LLVMBasicBlockRef start[2] = {tc_gen_block_new(g, "then"),
                                  tc_gen_block_new(g, "else")};
    LLVMBasicBlockRef after = tc_gen_block_new(g, "endif"), ends[2];
    LLVMBuildCondBr(g->b, tc_gen_scalar(g, op->in[0]), start[0], start[1]);
    for (unsigned i = 0; i < 2; i++) {
        ends[i] = emit_branch(g, op, i, start[i], after);
        if (!ends[i])
            return false;
    }
    LLVMPositionBuilderAtEnd(g->b, after);
    merge_results(g, op, ends);
    if (ends_phase(g, op))
        tc_gen_enter_again(g);
    return true;
}
