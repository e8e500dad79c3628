/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/plan.h"
#include "ir/given.h"

#include <string.h>

tc_func *tc_launch_kernel(const tc_op *launch)
{
    const char *callee = tc_op_word(launch, "callee");
    tc_func *f = callee && *callee == '@'
                     ? tc_func_find(launch->func->module, callee + 1)
                     : NULL;
    return f && f->is_kernel ? f : NULL;
}

unsigned tc_kernel_own_args(const tc_func *kernel)
{
    unsigned n = kernel->body->nargs;
    while (n && kernel->body->args[n - 1]->name &&
           strchr(kernel->body->args[n - 1]->name, '.'))
        n--;
    return n;
}

tc_func *tc_kernel_copy(tc_func *f)
{
    tc_module *m = f->module;
    const char *name = f->name;
    for (unsigned i = 1; tc_func_find(m, name); i++)
        name = tc_arena_printf(&m->arena, "%s_%u", f->name, i);
    tc_func *copy = tc_func_clone(f, name);
    tc_func_append(m, copy);
    return copy;
}

/* ---- What follows from the arguments ---- */

static int param_of(const tc_bindings *b, const char *name)
{
    for (unsigned i = 0; i < b->n; i++)
        if (strcmp(b->names[i], name) == 0)
            return (int)i;
    return -1;
}

/* A size that the plan does not know fits any: the launch will look. */
static bool match_dim(tc_context *cx, const tc_dim *pattern,
                      const tc_dim *actual, tc_bindings *b)
{
    if (!pattern || !actual)
        return true;
    int at = pattern->kind == TC_DIM_PARAM ? param_of(b, pattern->name) : -1;
    if (at >= 0 && !b->dims[at]) {
        b->dims[at] = actual;
        return true;
    }
    pattern = tc_dim_substitute(cx, pattern, b);
    return pattern->kind != TC_DIM_CONST || actual->kind != TC_DIM_CONST ||
           pattern == actual;
}

/* Nothing that must match: it says what is worth expecting. */
static void match_contiguous(tc_context *cx, const tc_type *pattern,
                             const tc_type *actual, tc_bindings *b)
{
    const tc_dim *d = actual->contiguous;
    if (pattern->contiguous && actual->rank)
        match_dim(cx, pattern->contiguous,
                  d ? d : tc_dim_const(cx, (int64_t)actual->rank - 1), b);
}

static bool match_elem(tc_context *cx, const tc_type *pattern,
                       const tc_type *actual, tc_bindings *b)
{
    int at = pattern->kind == TC_TYPE_PARAM ? param_of(b, pattern->name) : -1;
    if (at >= 0 && !b->types[at]) {
        b->types[at] = actual;
        return true;
    }
    pattern = tc_type_substitute(cx, pattern, b);
    return pattern == actual || tc_type_is_generic(pattern) ||
           tc_type_is_generic(actual);
}

static bool match(tc_context *cx, const tc_type *pattern, const tc_type *actual,
                  tc_bindings *b)
{
    if (pattern->kind != TC_TENSOR && pattern->kind != TC_PTR)
        return match_elem(cx, pattern, actual, b);
    if (pattern->kind != actual->kind || pattern->rank != actual->rank)
        return false;
    for (unsigned i = 0; i < pattern->rank; i++)
        if (!match_dim(cx, pattern->dims[i], actual->dims[i], b))
            return false;
    match_contiguous(cx, pattern, actual, b);
    return match_elem(cx, pattern->elem, actual->elem, b);
}

/* ---- All of it ---- */

bool tc_launch_bind(const tc_op *launch, const tc_func *kernel, tc_bindings *b)
{
    tc_context *cx = launch->func->module->cx;
    tc_given_bind(launch, kernel, b);
    bool ok = true;
    for (unsigned i = 0; i < launch->nin && i < kernel->body->nargs; i++) {
        const tc_value *arg = kernel->body->args[i];
        if (match(cx, arg->type, launch->in[i]->type, b))
            continue;
        ok = tc_error(cx, launch->loc,
                      "launch: argument %u of @%s (%%%s) is %s, expected %s", i,
                      kernel->name, arg->name ? arg->name : "?",
                      tc_type_name(cx, launch->in[i]->type),
                      tc_type_name(cx, tc_type_substitute(cx, arg->type, b)));
        if (arg->loc.file)
            tc_note(cx, arg->loc, "the parameter is here");
    }
    return ok;
}
