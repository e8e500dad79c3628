/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/given.h"

#include <string.h>

static int find(const tc_attr *names, const char *name, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(names->strings[i], name) == 0)
            return (int)i;
    return -1;
}

int tc_given_index(const tc_op *op, const char *param)
{
    if (tc_op_attr_index(op->code, "params") < 0)
        return -1;
    const tc_attr *names = tc_op_attr(op, "params");
    return find(names, param, names->n);
}

const char *tc_given_func(const tc_op *op, const char *param)
{
    int i = tc_given_index(op, param);
    return i < 0 ? NULL : tc_op_attr(op, "words")->strings[i];
}

tc_func *tc_given_callee(const tc_op *op, const tc_param *param)
{
    const char *word =
        param->kind == TC_PARAM_FUNC ? tc_given_func(op, param->name) : NULL;
    return word && *word == '@' ? tc_func_find(op->func->module, word + 1)
                                : NULL;
}

/* ---- Checks ---- */

static bool is_param_of_kind(const tc_func *f, const char *name,
                             tc_param_kind kind)
{
    const tc_param *p = tc_func_param(f, name);
    return p && p->kind == kind;
}

static bool is_func(const tc_func *caller, const char *word)
{
    const tc_func *f =
        *word == '@' ? tc_func_find(caller->module, word + 1) : NULL;
    return (f && !f->is_kernel && !f->is_plan) ||
           is_param_of_kind(caller, word, TC_PARAM_FUNC);
}

static bool is_type(const tc_func *caller, const char *word)
{
    return tc_kind_parse(word, strlen(word)) != TC_KIND_COUNT ||
           is_param_of_kind(caller, word, TC_PARAM_TYPE);
}

/* The expected kind of value, if value i is not of the parameter's kind; NULL:
 * it is right. */
static const char *value_problem(const tc_op *op, const tc_param *p, unsigned i)
{
    bool is_size = tc_op_attr(op, "sizes")->dims[i] != NULL;
    const char *word = tc_op_attr(op, "words")->strings[i];
    switch (p->kind) {
    case TC_PARAM_INT: return is_size ? NULL : "a size";
    case TC_PARAM_TYPE:
        return !is_size && is_type(op->func, word) ? NULL : "an element type";
    default: return !is_size && is_func(op->func, word) ? NULL : "a func";
    }
}

static const char *nearest_param(tc_arena *a, const tc_func *f,
                                 const char *name)
{
    const char **names = tc_arena_array(a, const char *, f->nparams);
    for (unsigned i = 0; i < f->nparams; i++)
        names[i] = f->params[i].name;
    const char *near = tc_nearest_name(name, names, f->nparams);
    return near ? tc_arena_printf(a, "; did you mean `%s`?", near) : "";
}

static const char *nearest_func(tc_context *cx, const tc_module *m,
                                const char *name)
{
    unsigned n = 0;
    tc_each_func (f, m)
        n++;
    const char **names = tc_arena_array(&cx->diag_arena, const char *, n);
    n = 0;
    tc_each_func (f, m)
        if (!f->is_kernel && !f->is_plan)
            names[n++] = f->name;
    const char *near = tc_nearest_name(name, names, n);
    return near
               ? tc_arena_printf(&cx->diag_arena, "; did you mean `@%s`?", near)
               : "";
}

static bool check_one(const tc_op *op, const tc_func *f, unsigned i)
{
    tc_context *cx = tc_op_context(op);
    const tc_attr *names = tc_op_attr(op, "params");
    const char *name = names->strings[i];
    const tc_param *p = tc_func_param(f, name);
    if (!p)
        return tc_error(cx, op->loc,
                        "%s: @%s has no compile-time parameter `%s`%s",
                        tc_op_name(op), f->name, name,
                        nearest_param(&cx->diag_arena, f, name));
    if (find(names, name, i) >= 0)
        return tc_error(cx, op->loc, "%s: `%s` is given twice", tc_op_name(op),
                        name);
    const char *word = tc_op_attr(op, "words")->strings[i];
    if (p->kind == TC_PARAM_FUNC && *word == '@' &&
        !tc_func_find(f->module, word + 1))
        return tc_error(cx, op->loc,
                        "%s: there is no func %s for `%s` of @%s%s",
                        tc_op_name(op), word, name, f->name,
                        nearest_func(cx, f->module, word + 1));
    const char *problem = value_problem(op, p, i);
    if (!problem)
        return true;
    tc_error(cx, op->loc, "%s: `%s` of @%s: expected %s", tc_op_name(op), name,
             f->name, problem);
    if (p->loc.file)
        tc_note(cx, p->loc, "the parameter is here");
    return false;
}

bool tc_given_check(const tc_op *op, const tc_func *f)
{
    unsigned n = tc_op_attr(op, "params")->n;
    if (tc_op_attr(op, "sizes")->n != n || tc_op_attr(op, "words")->n != n)
        return tc_error(tc_op_context(op), op->loc,
                        "%s: params, sizes and words differ in number",
                        tc_op_name(op));
    bool ok = true;
    for (unsigned i = 0; i < n; i++)
        ok &= check_one(op, f, i);
    return ok;
}

/* ---- Values ---- */

static const tc_type *type_of_word(tc_context *cx, const char *word)
{
    tc_kind kind = tc_kind_parse(word, strlen(word));
    return kind != TC_KIND_COUNT ? tc_type_scalar(cx, kind)
                                 : tc_type_param(cx, word);
}

void tc_given_bind(const tc_op *op, const tc_func *f, tc_bindings *b)
{
    tc_context *cx = tc_op_context(op);
    for (unsigned i = 0; i < f->nparams; i++) {
        int at = tc_given_index(op, f->params[i].name);
        if (at < 0)
            continue;
        if (f->params[i].kind == TC_PARAM_INT)
            b->dims[i] = tc_op_attr(op, "sizes")->dims[at];
        else if (f->params[i].kind == TC_PARAM_TYPE)
            b->types[i] =
                type_of_word(cx, tc_op_attr(op, "words")->strings[at]);
    }
}
