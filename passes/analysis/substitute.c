/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/substitute.h"

static void substitute_attr(tc_context *cx, tc_arena *a, tc_attr *attr,
                            const tc_bindings *b)
{
    if (attr->kind != TC_ATTR_DIMS)
        return;
    const tc_dim **dims = tc_arena_array(a, const tc_dim *, attr->n);
    for (unsigned i = 0; i < attr->n; i++)
        dims[i] = tc_dim_substitute(cx, attr->dims[i], b);
    attr->dims = dims;
}

static void substitute(tc_op *op, const tc_bindings *b)
{
    tc_module *m = op->func->module;
    unsigned nattrs = tc_op_nattrs(op->code);
    for (unsigned i = 0; i < nattrs; i++)
        substitute_attr(m->cx, &m->arena, &op->attrs[i], b);
    for (unsigned i = 0; i < op->nout; i++)
        op->out[i]->type = tc_type_substitute(m->cx, op->out[i]->type, b);
    for (unsigned i = 0; i < op->nregions; i++)
        tc_substitute_region(op->regions[i], b);
}

void tc_substitute_region(tc_region *r, const tc_bindings *b)
{
    tc_context *cx = r->func->module->cx;
    for (unsigned i = 0; i < r->nargs; i++)
        r->args[i]->type = tc_type_substitute(cx, r->args[i]->type, b);
    tc_each_op (op, r)
        substitute(op, b);
}
