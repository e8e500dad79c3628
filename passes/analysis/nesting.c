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

static const tc_region *region_of(const tc_value *v)
{
    return v->def ? v->def->parent : v->region;
}

bool tc_is_defined_in(const tc_value *v, const tc_op *op)
{
    const tc_region *r = region_of(v);
    while (r && r->op != op)
        r = r->op ? r->op->parent : NULL;
    return r != NULL;
}

bool tc_is_defined_under(const tc_value *v, const tc_region *r)
{
    const tc_region *at = region_of(v);
    while (at && at != r)
        at = at->op ? at->op->parent : NULL;
    return at != NULL;
}

tc_builder tc_builder_after(tc_func *f, tc_value *v, tc_loc loc)
{
    tc_region *r = v->def ? v->def->parent : v->region;
    return (tc_builder){.func = f,
                        .region = r,
                        .before = v->def ? v->def->next : r->first,
                        .loc = loc};
}

bool tc_is_known_ahead(const tc_op *loop, const tc_value *v)
{
    const tc_region *r = loop->regions[0];
    if (!v->def)
        return v->region != r || v->index == 0;
    if (v->def->parent != r)
        return true;
    if (!tc_op_has(v->def, TC_PURE) || v->def->nregions || v->def->nout != 1)
        return false;
    for (unsigned i = 0; i < v->def->nin; i++)
        if (!tc_is_known_ahead(loop, v->def->in[i]))
            return false;
    return true;
}

tc_op *tc_break_in(const tc_region *r)
{
    tc_each_op (op, r)
        if (op->code == TC_BREAK_IF)
            return op;
    return NULL;
}
