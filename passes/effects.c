/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/effects.h"

/* Ops that write take what they write to first: `m` or `p` in ops.def. Those
 * without (assert, print, assume) leave memory alone. */
static bool has_memory_operand(const tc_op *op)
{
    char first = tc_op_infos[op->code].in[0];
    return first == 'm' || first == 'p';
}

tc_effects tc_op_effects(const tc_op *op)
{
    tc_effects e = {0};
    bool writes = tc_op_has(op, TC_WRITES);
    e.reads = tc_op_has(op, TC_READS) || op->code == TC_CALL;
    e.stores = (writes && has_memory_operand(op)) || op->code == TC_CALL;
    e.other = (writes && !has_memory_operand(op)) || op->code == TC_CALL ||
              op->code == TC_WHILE;
    for (unsigned i = 0; i < op->nregions; i++) {
        tc_effects inner = tc_region_effects(op->regions[i]);
        e.reads |= inner.reads;
        e.stores |= inner.stores;
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
        e.other |= inner.other;
    }
    return e;
}
