/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/masks/mask_branch.h"

#include "passes/analysis/effects.h"

tc_op *tc_mask_loop(const tc_op *op)
{
    tc_op *owner = op->parent->op;
    while (owner && owner->code != TC_FOR) {
        if (owner->code == TC_WHILE || tc_op_combines(owner))
            return NULL;
        owner = owner->parent->op;
    }
    return owner;
}

static bool only_used_in(const tc_op *op, const tc_region *r)
{
    for (unsigned i = 0; i < op->nout; i++)
        tc_each_use (u, op->out[i])
            if (!tc_region_contains(r, u->op))
                return false;
    return true;
}

/* Pure, or a read that cannot fail, of memory that the steps leave alone. */
static bool may_sink(const tc_op *op, bool stores)
{
    bool reads = op->code == TC_GATHER || op->code == TC_BISECT;
    return tc_op_is_pure(op) || (reads && !stores);
}

/* Ops before `branch` that only its region `r` needs go there. */
static void sink(tc_op *branch, tc_region *r)
{
    bool stores = tc_region_effects(branch->parent).stores;
    for (tc_op *op = branch->prev, *prev; op; op = prev) {
        prev = op->prev;
        if (!may_sink(op, stores) || op->nout == 0 || !only_used_in(op, r))
            continue;
        tc_op_remove(op);
        tc_op_insert(op, r, r->first);
    }
}

void tc_mask_branch(tc_op *op, tc_value *question, tc_value *x)
{
    tc_builder b = tc_builder_before(op);
    tc_op *branch = tc_build_if(&b, question, 1, &op->out[0]->type);
    branch->out[0]->name = op->out[0]->name;
    branch->out[0]->loc = op->out[0]->loc;
    tc_value_replace(op->out[0], branch->out[0]);
    tc_op_remove(op);
    tc_op_insert(op, branch->regions[1], NULL);
    b = tc_builder_at_end(branch->regions[0], op->loc);
    tc_build_yield(&b, 1, &x);
    b = tc_builder_at_end(branch->regions[1], op->loc);
    tc_build_yield(&b, 1, op->out);
    sink(branch, branch->regions[1]);
}
