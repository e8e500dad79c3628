/* SPDX-License-Identifier: Apache-2.0
 *
 * Interleaves loads from shared memory and copies that precede a product with
 * its instructions: if several of them come at once, they wait for each other,
 * and the tensor cores for them.
 *
 *   ldmatrix (of the next product)            mma
 *   ldmatrix                                  mma
 *   cp.async                                  ldmatrix
 *   mma, mma, mma, mma, mma, mma   becomes    mma
 *                                             mma
 *                                             ldmatrix
 *                                             ..
 *
 * Loads go with this product; copies, which no instruction awaits, go in equal
 * parts with it and the following products.
 */
#include "codegen/nvptx/mma/interleave.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

enum { MOST = 64 };

/* An instruction, and up to `last` the code between it and the next. */
typedef struct item {
    LLVMValueRef first, last;
} item;

typedef struct queue {
    item items[MOST];
    unsigned n, next;
} queue;

struct tc_interleave {
    queue loads, copies;
    unsigned now;     /* copies that go with this product */
    LLVMValueRef end; /* the last instruction of the product before */
};

/* ---- What there is ---- */

typedef enum kind { PLAIN, LOAD, COPY, COMMIT, OTHER } kind;

static kind kind_of(LLVMValueRef i)
{
    if (!LLVMIsACallInst(i))
        return LLVMIsAStoreInst(i) ? OTHER : PLAIN;
    size_t n;
    LLVMValueRef f = LLVMGetCalledValue(i);
    if (!LLVMIsAInlineAsm(f))
        return OTHER;
    if (!LLVMGetInlineAsmHasSideEffects(f))
        return PLAIN;
    const char *text = LLVMGetInlineAsmAsmString(f, &n);
    if (strstr(text, "ldmatrix"))
        return LOAD;
    if (strstr(text, "cp.async.commit"))
        return COMMIT;
    return strstr(text, "cp.async.c") ? COPY : OTHER;
}

/* The first of the loads and copies at the end of the block; NULL: none. */
static LLVMValueRef first_of(const tc_interleave *x, LLVMBasicBlockRef block)
{
    LLVMValueRef first = NULL;
    for (LLVMValueRef i = LLVMGetLastInstruction(block); i && i != x->end;
         i = LLVMGetPreviousInstruction(i)) {
        kind k = kind_of(i);
        if (k == OTHER)
            break;
        if (k == LOAD || k == COPY)
            first = i;
    }
    return first;
}

static void find_items(tc_interleave *x, LLVMValueRef i)
{
    item *at = NULL;
    for (; i; i = LLVMGetNextInstruction(i)) {
        kind k = kind_of(i);
        queue *q = k == LOAD ? &x->loads : &x->copies;
        if ((k == LOAD || k == COPY) && (q->n < MOST || !at)) {
            at = &q->items[q->n++];
            at->first = i;
        }
        at->last = i;
    }
}

static bool is_copy(const tc_op *op)
{
    return op->code == TC_ASYNC_COPY || op->code == TC_ASYNC_COMMIT;
}

/* Is the product preceded by loads, then copies, and, back to the previous
 * product, by nothing that it needs? A load after a copy stays where it is: its
 * address is computed between the two, and copies go later than loads. */
static bool may_interleave(const tc_op *product)
{
    const tc_op *op = product->prev;
    while (op && is_copy(op))
        op = op->prev;
    if (!op || op->code != TC_SMEM_LOAD)
        return false;
    for (; op && op->code != TC_MMA; op = op->prev) {
        if (is_copy(op))
            return false;
        for (unsigned i = 0; i < product->nin; i++)
            if (product->in[i]->def == op)
                return false;
    }
    return true;
}

/* Products from this one on with no more before them than loads and what is
 * computed for these. Copies and what counts them do not change places. */
static unsigned products_from(const tc_op *op)
{
    unsigned n = 1;
    for (op = op->next; op && (op->code == TC_MMA || op->code == TC_SMEM_LOAD ||
                               (tc_op_has(op, TC_PURE) && !op->nregions));
         op = op->next)
        n += op->code == TC_MMA;
    return n;
}

/* ---- The order ---- */

static void interleave_put(tc_gen *g, queue *q)
{
    item at = q->items[q->next++];
    for (LLVMValueRef i = at.first, next; i; i = next) {
        next = i == at.last ? NULL : LLVMGetNextInstruction(i);
        LLVMMetadataRef place = LLVMInstructionGetDebugLoc(i);
        LLVMInstructionRemoveFromParent(i);
        LLVMInsertIntoBuilder(g->b, i);
        LLVMInstructionSetDebugLoc(i, place);
    }
    if (q->next == q->n)
        q->next = q->n = 0;
}

void tc_interleave_begin(tc_gen *g, const tc_op *product)
{
    if (!g->interleave)
        g->interleave = tc_arena_alloc(g->arena, sizeof *g->interleave);
    tc_interleave *x = g->interleave;
    LLVMValueRef first =
        may_interleave(product) ? first_of(x, LLVMGetInsertBlock(g->b)) : NULL;
    find_items(x, first);
    unsigned left = x->copies.n - x->copies.next;
    unsigned products = products_from(product);
    x->now = (left + products - 1) / products;
}

void tc_interleave_next(tc_gen *g)
{
    tc_interleave *x = g->interleave;
    if (x->loads.n) {
        interleave_put(g, &x->loads);
    } else if (x->now) {
        interleave_put(g, &x->copies);
        x->now--;
    }
}

void tc_interleave_end(tc_gen *g)
{
    tc_interleave *x = g->interleave;
    while (x->loads.n || x->now)
        tc_interleave_next(g);
    x->end = LLVMGetLastInstruction(LLVMGetInsertBlock(g->b));
}
