/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/masks/guarded_step.h"

#include "passes/analysis/effects.h"
#include "passes/analysis/loop_slots.h"

static bool is_quiet(tc_effects e)
{
    return !e.stores && !e.other;
}

/* Without this step, would the carried values be the same where the condition
 * is false? */
static bool else_changes_nothing(const tc_op *loop, const tc_op *branch)
{
    const tc_op *next = tc_slot_yield(loop);
    const tc_op *no = tc_region_terminator(branch->regions[1]);
    for (unsigned i = 0; i < next->nin; i++) {
        const tc_value *v = next->in[i], *arg = tc_slot_arg(loop, i);
        if (v->def == branch)
            v = no->in[v->index];
        if (v != arg)
            return false;
    }
    return is_quiet(tc_region_effects(branch->regions[1]));
}

tc_op *tc_guarded_step_of(const tc_op *loop)
{
    if (loop->code != TC_FOR)
        return NULL;
    tc_op *found = NULL;
    tc_each_op (op, loop->regions[0]) {
        if (op->code == TC_IF && else_changes_nothing(loop, op))
            found = op;
    }
    tc_each_op (op, loop->regions[0])
        if (op != found && !tc_op_has(op, TC_TERMINATOR) &&
            !is_quiet(tc_op_effects(op)))
            return NULL;
    return found;
}

void tc_guarded_step_unguard(tc_op *branch)
{
    tc_region *then = branch->regions[0];
    const tc_op *yield = tc_region_terminator(then);
    tc_region_move_before(then, branch);
    for (unsigned i = 0; i < branch->nout; i++)
        tc_value_replace(branch->out[i], yield->in[i]);
    tc_op_erase(branch);
}
