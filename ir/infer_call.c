/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call gives: of a function by its name, or of a function parameter.
 */
#include "ir/infer.h"

#include <string.h>

static tc_context *context_of(const tc_op *op)
{
    return op->func->module->cx;
}

static const char *type_of(const tc_op *op, unsigned i)
{
    return tc_type_name(context_of(op), op->in[i]->type);
}

static bool is_scalar_func(unsigned nins, const tc_type *const *ins)
{
    for (unsigned i = 0; i < nins; i++)
        if (ins[i]->kind == TC_TILE)
            return false;
    return true;
}

/* The shape that a call of a scalar function is applied in: that of the tile
 * arguments, which must agree; NULL for scalars only. Reports. */
static bool lanes_of_call(const tc_op *op, unsigned nins,
                          const tc_type *const *ins, const tc_type **lanes)
{
    *lanes = NULL;
    if (!is_scalar_func(nins, ins))
        return true;
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_type *t = op->in[i]->type;
        if (t->kind != TC_TILE)
            continue;
        if (*lanes && !tc_type_same_shape(t, *lanes))
            return tc_error(context_of(op), op->loc,
                            "call: arguments are %s and %s, expected one "
                            "shape",
                            type_of(op, i),
                            tc_type_name(context_of(op), *lanes));
        *lanes = t;
    }
    return true;
}

static bool call_results(const tc_op *op, unsigned nins,
                         const tc_type *const *ins, unsigned nouts,
                         const tc_type *const *outs, tc_bindings *b,
                         tc_results *r)
{
    tc_context *cx = context_of(op);
    const char *callee = tc_op_word(op, "callee");
    const tc_type *lanes;
    unsigned npositional = op->nin - tc_op_attr(op, "names")->n;
    if (npositional != nins)
        return tc_error(cx, op->loc, "call: %s takes %u argument%s, found %u",
                        callee, nins, nins == 1 ? "" : "s", npositional);
    if (!lanes_of_call(op, nins, ins, &lanes))
        return false;
    bool ok = true;
    for (unsigned i = 0; i < nins; i++) {
        const tc_type *got = op->in[i]->type;
        if (lanes && ins[i]->kind != TC_TENSOR)
            got = tc_type_elem(got);
        if (!tc_type_unify(cx, ins[i], got, b))
            ok = tc_error(cx, op->loc,
                          "call: argument %u of %s is %s, expected %s", i,
                          callee, type_of(op, i),
                          tc_type_name(cx, tc_type_substitute(cx, ins[i], b)));
    }
    for (unsigned i = 0; ok && i < nouts; i++) {
        const tc_type *t = tc_type_substitute(cx, outs[i], b);
        tc_results_add(r, lanes ? tc_type_with_elem(cx, lanes, t) : t);
    }
    return ok;
}

const tc_param *tc_infer_callee(const tc_func *f, const char *name)
{
    for (unsigned i = 0; i < f->nparams; i++)
        if (strcmp(f->params[i].name, name) == 0)
            return &f->params[i];
    return NULL;
}

static bool call_of_func(const tc_op *op, const tc_func *f, tc_results *r)
{
    tc_arena *a = &op->func->module->arena;
    tc_bindings b = {f->nparams, tc_arena_array(a, const char *, f->nparams),
                     tc_arena_array(a, const tc_dim *, f->nparams),
                     tc_arena_array(a, const tc_type *, f->nparams)};
    for (unsigned i = 0; i < f->nparams; i++)
        b.names[i] = f->params[i].name;
    unsigned nins = f->body->nargs;
    const tc_type **ins = tc_arena_array(a, const tc_type *, nins);
    for (unsigned i = 0; i < nins; i++)
        ins[i] = f->body->args[i]->type;
    return call_results(op, nins, ins, f->nresults, f->results, &b, r);
}

bool tc_infer_call(const tc_op *op, tc_results *r)
{
    tc_context *cx = context_of(op);
    const char *callee = tc_op_word(op, "callee");
    if (callee[0] != '@') {
        const tc_param *p = tc_infer_callee(op->func, callee);
        tc_bindings none = {0};
        if (!p || p->kind != TC_PARAM_FUNC)
            return tc_error(cx, op->loc,
                            "call: %s is no function parameter of @%s (a "
                            "function is called as @%s)",
                            callee, op->func->name, callee);
        return call_results(op, p->nins, p->ins, p->nouts, p->outs, &none, r);
    }
    const tc_func *f = tc_func_find(op->func->module, callee + 1);
    if (!f || f->is_kernel)
        return tc_error(cx, op->loc,
                        f ? "call: %s is a kernel, expected a func"
                          : "call: there is no function %s",
                        callee);
    if (tc_op_has_attr(op, "names"))
        return tc_error(cx, op->loc,
                        "call: named arguments are for function parameters, "
                        "%s takes its arguments by position",
                        callee);
    return call_of_func(op, f, r);
}
