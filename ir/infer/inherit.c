/* SPDX-License-Identifier: Apache-2.0
 *
 *   func @step[N: int, BM: int, mod: func(f32) -> f32](%x: tile<N x f32>)
 *   kernel @k[BM: int, mod: func(f32) -> f32] .. { @step(%y) .. }
 *
 * A call of @step binds N by the type of %y, and BM and mod to those of @k.
 */
#include "ir/infer/inherit.h"

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

static const tc_param *find(const tc_func *f, const char *name)
{
    for (unsigned i = 0; i < f->nparams; i++)
        if (strcmp(f->params[i].name, name) == 0)
            return &f->params[i];
    return NULL;
}

static bool is_same(unsigned n, const tc_type *const *a, unsigned m,
                    const tc_type *const *b)
{
    bool same = n == m;
    for (unsigned i = 0; same && i < n; i++)
        same = a[i] == b[i];
    return same;
}

static bool fits(const tc_param *wanted, const tc_param *found)
{
    return found && found->kind == wanted->kind &&
           is_same(wanted->nins, wanted->ins, found->nins, found->ins) &&
           is_same(wanted->nouts, wanted->outs, found->nouts, found->outs);
}

static bool missing(const tc_op *call, const tc_func *f, const tc_param *p,
                    const tc_param *found)
{
    static const char *const kinds[] = {"an int", "a type", "a func"};
    tc_context *cx = f->module->cx;
    tc_error(cx, call->loc,
             "call: @%s inherits `%s`, but @%s has %s; expected %s parameter "
             "`%s` there, or an argument whose type determines it",
             f->name, p->name, call->func->name,
             found ? "another one of that name" : "none", kinds[p->kind],
             p->name);
    tc_note(cx, p->loc, "parameter `%s` of @%s", p->name, f->name);
    return false;
}

bool tc_inherit(const tc_op *call, const tc_func *f, tc_bindings *b)
{
    tc_context *cx = f->module->cx;
    for (unsigned i = 0; i < f->nparams; i++) {
        const tc_param *p = &f->params[i];
        if (!tc_param_is_inherited(f, p))
            continue;
        const tc_param *found = find(call->func, p->name);
        if (!fits(p, found))
            return missing(call, f, p, found);
        if (p->kind == TC_PARAM_INT)
            b->dims[i] = tc_dim_param(cx, p->name);
        if (p->kind == TC_PARAM_TYPE)
            b->types[i] = tc_type_param(cx, p->name);
    }
    return true;
}
