/* SPDX-License-Identifier: Apache-2.0
 *
 * Which branch runs a tile later, so that warp groups need not meet to decide
 * it: one at the end of a tile whose condition all warps have a say in.
 *
 *   %all = reduce %x kind(and)
 *   if %all {} else { B }           becomes   if %all epilogue(defer) ..
 *
 * defer-branches obeys, if there is room. Tests: test/ir/passes/defer-branches.
 */
#include "passes/schedule/plan.h"

#include "ir/types/layout.h"

static bool only_yields(const tc_region *r)
{
    return tc_op_has(r->first, TC_TERMINATOR);
}

/* ---- Votes ---- */

tc_op *tc_vote_reduce(const tc_value *v, bool *turned)
{
    tc_op *op = v->def;
    if (!op)
        return NULL;
    if (op->code == TC_NOT) {
        *turned = !*turned;
        return tc_vote_reduce(op->in[0], turned);
    }
    if (op->code == TC_AND || op->code == TC_OR) {
        bool other = *turned;
        tc_op *x = tc_vote_reduce(op->in[0], turned);
        tc_op *y = tc_vote_reduce(op->in[1], &other);
        *turned = x ? *turned : other;
        return x && y ? NULL : x ? x : y;
    }
    bool fits =
        op->code == TC_REDUCE && op->nin == 1 && v->type->kind == TC_I1 &&
        (tc_op_is_word(op, "kind", "and") || tc_op_is_word(op, "kind", "or")) &&
        tc_op_is_word(op, "within", "block");
    return fits ? op : NULL;
}

/* One vote of each warp. */
static bool is_of_all_warps(const tc_op *reduce)
{
    const tc_layout *from = reduce->in[0]->type->layout;
    const tc_layout *parts =
        from && from->rank == 1
            ? tc_layout_partial(reduce->func->module->cx, from, 0, TC_WARP)
            : NULL;
    return parts && parts->shape[0] == (int32_t)reduce->func->warps;
}

bool tc_find_vote(const tc_op *branch, tc_vote *out)
{
    bool second = only_yields(branch->regions[0]), turned = second;
    if (branch->nout || second == only_yields(branch->regions[1]))
        return false;
    out->taken = branch->regions[second];
    out->reduce = tc_vote_reduce(branch->in[0], &turned);
    if (!out->reduce || !is_of_all_warps(out->reduce))
        return false;
    bool is_and = tc_op_is_word(out->reduce, "kind", "and");
    out->kind = is_and != turned ? "and" : "or";
    return true;
}

/* ---- The branch at the end ---- */

/* Releases, and other ops that may come before the branch as well as after
 * it. */
static bool may_come_first(const tc_op *op)
{
    switch (op->code) {
    case TC_FENCE_ASYNC:
    case TC_BARRIER:
    case TC_MBARRIER_ARRIVE:
    case TC_MBARRIER_WAIT:
    case TC_TMA_STORE_WAIT:
    case TC_SMEM_LOAD_SCALAR: return true;
    default: return tc_op_is_pure(op) || tc_op_has(op, TC_TERMINATOR);
    }
}

bool tc_plan_branch(const tc_op *tiles)
{
    tc_vote vote;
    tc_op *op = tiles->regions[tiles->nregions - 1]->last;
    while (op && (op->code != TC_IF || op->nout) && may_come_first(op))
        op = op->prev;
    if (!op || op->code != TC_IF || !tc_op_is_word(op, "epilogue", "auto") ||
        !tc_find_vote(op, &vote))
        return false;
    tc_op_set_word(op, "epilogue", "defer");
    return true;
}
