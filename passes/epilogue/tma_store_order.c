/* SPDX-License-Identifier: Apache-2.0
 *
 * Other accesses of the memory that a TMA store would write: an access before
 * the store prevents it; an access after the store waits for it.
 */
#include "passes/epilogue/tma_stores.h"

#include "passes/analysis/axis_info.h"
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/sync/hazards.h"

/* In different branches of one `if`. */
static bool exclude_each_other(const tc_op *a, const tc_op *b)
{
    for (const tc_region *r = a->parent; r; r = r->op ? r->op->parent : NULL)
        for (const tc_region *q = b->parent; q;
             q = q->op ? q->op->parent : NULL)
            if (r != q && r->op && r->op == q->op && r->op->code == TC_IF)
                return true;
    return false;
}

/* After it in the same step: then it can be waited for. */
static bool comes_later(const tc_op *store, tc_op *op)
{
    const tc_op *at = tc_ancestor_in(store->parent, op);
    const tc_op *next = at ? store->next : NULL;
    while (next && next != at)
        next = next->next;
    return next != NULL;
}

/* A TMA store of this pass too, or one that the program has. */
static bool writes(const tc_op *op)
{
    return tc_writes_global(op) || op->code == TC_TMA_STORE;
}

static bool adds(const tc_op *op)
{
    return (op->code == TC_STORE || op->code == TC_TMA_STORE) &&
           tc_tma_store_adds(op);
}

static const char *why_ordered(tc_op *op, const tc_op *store)
{
    bool atomic = op->code == TC_ATOMIC || op->code == TC_ATOMIC_CAS;
    if (atomic && !tc_op_is_word(op, "order", "relaxed"))
        return "an atomic may tell others that it is done";
    bool reads = tc_reads_global(op);
    if (adds(op) && adds(store))
        return NULL; /* in any order */
    if (op == store || (!reads && !writes(op)))
        return NULL;
    const tc_value *x = tc_accessed_tensor(store), *y = tc_accessed_tensor(op);
    if (x && y && !x->def && !y->def && x != y)
        return NULL;
    if (reads)
        return "the kernel reads that tensor too, or what it reads is not "
               "known";
    /* A TMA store that comes first has been waited for. */
    if (exclude_each_other(op, store) ||
        (x && x == y && comes_later(store, op)) ||
        (x && x == y && op->code == TC_TMA_STORE &&
         comes_later(op, (tc_op *)store)))
        return NULL;
    return "the kernel writes that tensor before";
}

const char *tc_tma_store_why_ordered(const tc_region *r, const tc_op *store)
{
    tc_each_nested (op, r) {
        const char *why = op->nregions ? NULL : why_ordered(op, store);
        if (why)
            return why;
    }
    return NULL;
}

bool tc_tma_store_is_mixed(const tc_tma_stores *s, const tc_op *store)
{
    const tc_op *loop = tc_tma_store_whole_loop(s, store);
    const tc_value *x = tc_accessed_tensor(store);
    for (unsigned i = 0; loop && i < loop->nregions; i++)
        tc_each_nested (op, loop->regions[i]) {
            bool other = !op->nregions && op != store && writes(op);
            const tc_value *y = other ? tc_accessed_tensor(op) : NULL;
            if (other && (!x || !y || x->def || y->def || x == y))
                return true;
        }
    return false;
}

/* May the access touch elements that `store` writes? Two atomic adds may come
 * in any order. */
static bool writes_there(const tc_op *op, const tc_op *store,
                         const tc_value *tensor)
{
    if (op->nregions == 0)
        return writes(op) && tc_accessed_tensor(op) == tensor &&
               !(adds(op) && adds(store)) && !tc_surely_apart(op, store);
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            if (writes_there(inner, store, tensor))
                return true;
    return false;
}

/* Waits in all threads for the stores of all groups. */
static void build_written(tc_builder b)
{
    tc_op *op = tc_tma_store_build_wait(&b);
    tc_op_set_attr(op, "written", (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
    op = tc_build_effect(&b, TC_BARRIER, 0, NULL);
    tc_op_set_word(op, "guards", "stores");
    tc_forget_speculatable(b.region);
}

static bool is_written_in(const tc_region *r, const tc_op *store,
                          const tc_value *tensor)
{
    tc_each_op (op, r)
        if (writes_there(op, store, tensor))
            return true;
    return false;
}

void tc_tma_store_wait_before_writers(const tc_op *store,
                                      const tc_value *tensor)
{
    for (tc_op *op = store->next; op; op = op->next) {
        bool branch = op->code == TC_IF;
        for (unsigned i = 0; branch && i < op->nregions; i++) {
            tc_region *r = op->regions[i];
            if (is_written_in(r, store, tensor))
                build_written((tc_builder){.func = store->func,
                                           .region = r,
                                           .before = r->first,
                                           .loc = op->loc});
        }
        if (!branch && writes_there(op, store, tensor))
            build_written(tc_builder_before(op));
    }
}
