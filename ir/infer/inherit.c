/* SPDX-License-Identifier: Apache-2.0
 *
 *   func @step[N: int, BM: int, mod: func(f32) -> f32](%x: tile<N x f32>)
 *   kernel @k[BM: int, mod: func(f32) -> f32] .. { @step(%y) .. }
 *
 * A call of @step binds N by the type of %y, and BM and mod to those of @k. The
 * call @step[BM=32, mod=@g](%y) binds these to 32 and @g.
 */
#include "ir/infer/inherit.h"

#include "ir/given.h"

#include <string.h>

static bool dim_binds(const tc_dim *d, const char *name)
{
    return d && d->kind == TC_DIM_PARAM && d->name == name;
}

static bool type_binds(const tc_type *t, const char *name)
{
    if (!t)
        return false;
    if (t->kind == TC_TYPE_PARAM)
        return t->name == name;
    for (unsigned i = 0; i < t->rank; i++)
        if (dim_binds(t->dims[i], name))
            return true;
    return dim_binds(t->contiguous, name) || type_binds(t->elem, name);
}

bool tc_param_is_inferred(const tc_func *f, const tc_param *p)
{
    for (unsigned i = 0; i < f->body->nargs; i++)
        if (type_binds(f->body->args[i]->type, p->name))
            return true;
    return false;
}

bool tc_param_is_inherited(const tc_func *f, const tc_param *p)
{
    return !f->is_kernel && !f->is_plan && !tc_param_is_inferred(f, p);
}

bool tc_func_inherits(const tc_func *f)
{
    for (unsigned i = 0; i < f->nparams; i++)
        if (tc_param_is_inherited(f, &f->params[i]))
            return true;
    return false;
}

static bool missing(const tc_op *call, const tc_func *f, const tc_param *p,
                    const tc_param *found)
{
    static const char *const kinds[] = {"an int", "a type", "a func"};
    tc_context *cx = f->module->cx;
    const char *remedy =
        tc_op_callee(call) == f
            ? tc_arena_printf(&cx->diag_arena, ", or @%s[%s=..]", f->name,
                              p->name)
            : "";
    tc_error(cx, call->loc,
             "call: @%s inherits `%s`, but @%s has %s; expected %s parameter "
             "`%s` there, or an argument whose type determines it%s",
             f->name, p->name, call->func->name,
             found ? "another one of that name" : "none", kinds[p->kind],
             p->name, remedy);
    tc_note(cx, p->loc, "parameter `%s` of @%s", p->name, f->name);
    return false;
}

/* Parameter i of f. */
static bool inherit(const tc_op *call, const tc_func *f, unsigned i,
                    tc_bindings *b)
{
    tc_context *cx = f->module->cx;
    const tc_param *p = &f->params[i];
    const tc_param *found = tc_func_param(call->func, p->name);
    if (!found || found->kind != p->kind)
        return missing(call, f, p, found);
    if (p->kind == TC_PARAM_INT)
        b->dims[i] = tc_dim_param(cx, p->name);
    if (p->kind == TC_PARAM_TYPE)
        b->types[i] = tc_type_param(cx, p->name);
    return true;
}

bool tc_inherit(const tc_op *call, const tc_func *f, tc_bindings *b)
{
    for (unsigned i = 0; i < f->nparams; i++)
        if (tc_param_is_inherited(f, &f->params[i]) && !inherit(call, f, i, b))
            return false;
    return true;
}

bool tc_bind_call(const tc_op *call, const tc_func *f, tc_bindings *b)
{
    for (unsigned i = 0; i < f->nparams; i++)
        if (tc_param_is_inherited(f, &f->params[i]) &&
            tc_given_index(call, f->params[i].name) < 0 &&
            !inherit(call, f, i, b))
            return false;
    tc_given_bind(call, f, b);
    return true;
}
