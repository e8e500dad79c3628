/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/effects.h"

/* Ops that write take what they write to first: `m`, `p` or `k` in ops.def, a
 * window `w`; others order the writes of all threads: by mbarriers `h`, or
 * without operands (barrier, async_wait). The rest (assert, print, assume)
 * leaves memory alone. */
static bool stores(const tc_op *op)
{
    char first = tc_op_infos[op->code].in[0];
    return tc_op_has(op, TC_WRITES) &&
           (first == 'm' || first == 'p' || first == 'k' || first == 'w' ||
            first == 'h' || first == 0);
}

/* To shared memory, or to nothing at all. */
static bool stores_here(const tc_op *op)
{
    char first = tc_op_infos[op->code].in[0];
    return op->code == TC_ASYNC_COPY || op->code == TC_TMA_LOAD ||
           op->code == TC_TMA_PREFETCH || first == 'k' || first == 'h' ||
           first == 0;
}

tc_effects tc_op_effects(const tc_op *op)
{
    tc_effects e = {0};
    bool writes = tc_op_has(op, TC_WRITES);
    e.reads = tc_op_has(op, TC_READS) || tc_op_is_call(op);
    e.stores = stores(op) || tc_op_is_call(op);
    e.stores_global = e.stores && !stores_here(op);
    e.other =
        (writes && !stores(op)) || tc_op_is_call(op) || op->code == TC_WHILE;
    for (unsigned i = 0; i < op->nregions; i++) {
        tc_effects inner = tc_region_effects(op->regions[i]);
        e.reads |= inner.reads;
        e.stores |= inner.stores;
        e.stores_global |= inner.stores_global;
        e.other |= inner.other;
    }
    return e;
}

tc_effects tc_region_effects(const tc_region *r)
{
    tc_effects e = {0};
    tc_each_op (op, r) {
        tc_effects inner = tc_op_effects(op);
        e.reads |= inner.reads;
        e.stores |= inner.stores;
        e.stores_global |= inner.stores_global;
        e.other |= inner.other;
    }
    return e;
}

void tc_forget_speculatable(tc_region *r)
{
    for (; r && r->op; r = r->op->parent)
        if (r->op->code == TC_IF)
            tc_op_set_attr(r->op, "speculatable", (tc_attr){0});
}
