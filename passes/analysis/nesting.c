/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/nesting.h"

tc_op *tc_loop_around(const tc_op *op)
{
    tc_op *at = op->parent ? op->parent->op : NULL;
    while (at && !tc_op_is_loop(at))
        at = at->parent ? at->parent->op : NULL;
    return at;
}

tc_op *tc_ancestor_in(const tc_region *r, tc_op *op)
{
    while (op && op->parent != r)
        op = op->parent ? op->parent->op : NULL;
    return op;
}

bool tc_is_nested_in(const tc_op *op, const tc_op *outer)
{
    for (const tc_region *r = op->parent; r; r = r->op ? r->op->parent : NULL)
        if (r->op == outer)
            return true;
    return false;
}

tc_builder tc_builder_after(tc_func *f, tc_value *v, tc_loc loc)
{
    tc_region *r = v->def ? v->def->parent : v->region;
    return (tc_builder){.func = f,
                        .region = r,
                        .before = v->def ? v->def->next : r->first,
                        .loc = loc};
}
