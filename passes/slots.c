/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/slots.h"

#include <assert.h>
#include <string.h>

/* Operands, and arguments of region 0, that come before the carried ones. */
static unsigned operands_before(const tc_op *op)
{
    return op->code == TC_FOR ? 3 : op->code == TC_IF ? 1 : 0;
}

static unsigned args_before(const tc_op *op)
{
    return op->code == TC_FOR ? 1 : 0;
}

tc_value *tc_slot_arg(const tc_op *op, unsigned i)
{
    return op->code == TC_IF ? NULL : op->regions[0]->args[args_before(op) + i];
}

tc_value *tc_slot_init(const tc_op *op, unsigned i)
{
    return op->code == TC_IF ? NULL : op->in[operands_before(op) + i];
}

tc_op *tc_slot_yield(const tc_op *op)
{
    return tc_region_terminator(op->regions[op->code == TC_WHILE]);
}

static void drop_operands(tc_op *yield, const bool *drop)
{
    tc_arena *a = &yield->func->module->arena;
    tc_value **in = tc_arena_array(a, tc_value *, yield->nin);
    unsigned n = 0;
    for (unsigned i = 0; i < yield->nin; i++)
        if (!drop[i])
            in[n++] = yield->in[i];
    tc_builder b = tc_builder_before(yield);
    tc_build_yield(&b, n, in);
    tc_op_erase(yield);
}

void tc_slots_unyield(tc_op *op, const bool *drop)
{
    for (unsigned i = 0; i < op->nregions; i++) {
        tc_op *last = tc_region_terminator(op->regions[i]);
        if (last->code == TC_YIELD)
            drop_operands(last, drop);
    }
}

/* Operands that stay, in a new op that takes over the regions. */
static tc_op *shrink(tc_op *op, const bool *drop)
{
    tc_arena *a = &op->func->module->arena;
    tc_value **in = tc_arena_array(a, tc_value *, op->nin);
    unsigned nin = 0, first = operands_before(op);
    for (unsigned i = 0; i < op->nin; i++)
        if (i < first || !drop[i - first])
            in[nin++] = op->in[i];
    tc_op *now = tc_op_new(op->func, op->code, op->loc, nin, in, op->nregions);
    unsigned nattrs = tc_op_nattrs(op->code);
    if (nattrs)
        memcpy(now->attrs, op->attrs, nattrs * sizeof *now->attrs);
    for (unsigned i = 0; i < op->nregions; i++) {
        now->regions[i] = op->regions[i];
        now->regions[i]->op = now;
    }
    op->nregions = 0;
    return now;
}

static void take_results(tc_op *now, tc_op *op, const bool *drop)
{
    const tc_type **types =
        tc_arena_array(&op->func->module->arena, const tc_type *, op->nout);
    unsigned n = 0;
    for (unsigned i = 0; i < op->nout; i++)
        if (!drop[i])
            types[n++] = op->out[i]->type;
    tc_op_set_results(now, n, types);
    n = 0;
    for (unsigned i = 0; i < op->nout; i++) {
        if (drop[i])
            continue;
        now->out[n]->name = op->out[i]->name;
        now->out[n]->loc = op->out[i]->loc;
        tc_value_replace(op->out[i], now->out[n++]);
    }
}

tc_op *tc_slots_remove(tc_op *op, const bool *drop)
{
    for (unsigned i = op->nout; op->code != TC_IF && i-- > 0;)
        if (drop[i])
            tc_region_remove_arg(op->regions[0], args_before(op) + i);
    tc_op *now = shrink(op, drop);
    tc_op_insert(now, op->parent, op);
    take_results(now, op, drop);
    tc_op_erase(op);
    return now;
}

void tc_region_move_before(tc_region *r, tc_op *op)
{
    tc_each_op_safe (inner, r) {
        if (tc_op_has(inner, TC_TERMINATOR))
            continue;
        tc_op_remove(inner);
        tc_op_insert(inner, op->parent, op);
    }
}
