/* SPDX-License-Identifier: Apache-2.0
 *
 * launch @kernel[N=64, T=bf16, mod=@f](%a, %b): the values of compile-time
 * parameters in brackets may be parameters of the plan; the arguments are as of
 * a call. `*` stands for all parameters of the kernel that the plan has by the
 * same name, and that are not given otherwise. A call has the same brackets,
 * without `*`.
 */
#include "ir/infer/inherit.h"
#include "ir/text/parse.h"

#include <string.h>

/* ---- Which kernel ---- */

static bool unknown_kernel(tc_parser *p, const char *name)
{
    unsigned n = 0;
    tc_each_func (f, p->m)
        n++;
    const char **names = tc_arena_array(p->arena, const char *, n);
    n = 0;
    tc_each_func (f, p->m)
        if (f->is_kernel)
            names[n++] = f->name;
    const char *near = tc_nearest_name(name, names, n);
    return tc_error(p->cx, tc_parser_loc(p), "there is no kernel @%s%s%s%s",
                    name, near ? "; did you mean `@" : "", near ? near : "",
                    near ? "`?" : "");
}

/* NULL: reported, now or with its header. */
static const tc_func *find_kernel(tc_parser *p)
{
    const char *name = tc_parser_text(p, tc_parser_peek(p, 0));
    const tc_func *f = tc_map_get(&p->funcs, name);
    if (!f)
        unknown_kernel(p, name);
    if (!f || f == &tc_broken_func || f->is_kernel)
        return f == &tc_broken_func ? NULL : f;
    tc_error(p->cx, tc_parser_loc(p), "launch: @%s is a %s, expected a kernel",
             name, tc_func_word(f));
    return NULL;
}

/* ---- [N=64, T=bf16, mod=@f] ---- */

/* A type or a function, by its name or that of a parameter. */
static bool at_word(const tc_parser *p, const tc_token *t)
{
    return t->kind == TC_TOKEN_NAME &&
           (tc_parser_param_of_kind(p, t, TC_PARAM_TYPE) ||
            tc_parser_param_of_kind(p, t, TC_PARAM_FUNC) ||
            tc_kind_parse(p->tokens.text + t->at, t->len) != TC_KIND_COUNT);
}

enum { MOST_BINDINGS = 256 };

static bool parse_one(tc_parser *p, tc_given *b)
{
    const tc_token *name = tc_parser_peek(p, 0);
    if (!tc_parser_expect(p, TC_TOKEN_NAME) ||
        !tc_parser_expect(p, TC_TOKEN_ASSIGN))
        return false;
    const tc_token *value = tc_parser_peek(p, 0);
    const char *word = tc_parser_text(p, value);
    b->names[b->n] = tc_parser_text(p, name);
    b->words[b->n] = "";
    if (value->kind == TC_TOKEN_FUNC)
        b->words[b->n] =
            tc_string_get(p->cx, tc_arena_printf(p->arena, "@%s", word));
    else if (at_word(p, value))
        b->words[b->n] = word;
    else if (!tc_parse_size(p, &b->sizes[b->n]))
        return false;
    p->at += b->words[b->n][0] != 0;
    b->n++;
    return true;
}

bool tc_parse_given(tc_parser *p, tc_given *b, bool may_star)
{
    if (!tc_parser_accept(p, TC_TOKEN_LBRACKET) ||
        tc_parser_accept(p, TC_TOKEN_RBRACKET))
        return true;
    b->names = tc_arena_array(p->arena, const char *, MOST_BINDINGS);
    b->words = tc_arena_array(p->arena, const char *, MOST_BINDINGS);
    b->sizes = tc_arena_array(p->arena, const tc_dim *, MOST_BINDINGS);
    do {
        if (b->n == MOST_BINDINGS)
            return tc_error(p->cx, tc_parser_loc(p), "more than %d parameters",
                            MOST_BINDINGS);
        if (may_star && tc_parser_accept(p, TC_TOKEN_STAR))
            b->has_star = true;
        else if (!parse_one(p, b))
            return false;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, TC_TOKEN_RBRACKET);
}

void tc_given_set(const tc_given *b, tc_op *op)
{
    if (!b->n)
        return;
    tc_attr names = {TC_ATTR_STRINGS, b->n, {.strings = b->names}};
    tc_attr words = {TC_ATTR_STRINGS, b->n, {.strings = b->words}};
    tc_op_set_attr(op, "params", names);
    tc_op_set_dims(op, "sizes", b->n, b->sizes);
    tc_op_set_attr(op, "words", words);
}

static bool is_given(const tc_given *b, const char *name)
{
    for (unsigned i = 0; i < b->n; i++)
        if (strcmp(b->names[i], name) == 0)
            return true;
    return false;
}

static const tc_param *param_of_plan(const tc_parser *p, const tc_param *like)
{
    for (unsigned i = 0; i < p->f->nparams; i++)
        if (strcmp(p->f->params[i].name, like->name) == 0 &&
            p->f->params[i].kind == like->kind)
            return &p->f->params[i];
    return NULL;
}

/* NAME=NAME for what `*` stands for. */
static void add_star(tc_parser *p, const tc_func *kernel, tc_given *b)
{
    for (unsigned i = 0; i < kernel->nparams && b->n < MOST_BINDINGS; i++) {
        const tc_param *k = &kernel->params[i];
        if (is_given(b, k->name) || tc_param_is_inferred(kernel, k) ||
            !param_of_plan(p, k))
            continue;
        b->names[b->n] = k->name;
        b->words[b->n] = k->kind == TC_PARAM_INT ? "" : k->name;
        if (k->kind == TC_PARAM_INT)
            b->sizes[b->n] = tc_dim_param(p->cx, k->name);
        b->n++;
    }
}

/* ---- The op ---- */

/* A literal becomes what the kernel takes, where that is no parameter. */
static bool fit_arguments(tc_parser *p, const tc_func *kernel,
                          const tc_operands *list, tc_value **in)
{
    bool ok = true;
    for (unsigned i = 0; i < list->n; i++) {
        const tc_type *type =
            i < kernel->body->nargs ? kernel->body->args[i]->type : NULL;
        if (type && (!tc_type_is_scalar(type) || tc_type_is_generic(type)))
            type = NULL;
        in[i] = tc_fit_value(p, &list->all[i], type);
        ok &= in[i] != NULL;
    }
    return ok;
}

static tc_op *build_launch(tc_parser *p, const tc_func *kernel, tc_loc loc,
                           const tc_given *b, const tc_operands *list)
{
    tc_value **in = tc_arena_array(p->arena, tc_value *, list->n);
    if (!kernel || !fit_arguments(p, kernel, list, in))
        return NULL;
    tc_op *op = tc_op_new(p->f, TC_LAUNCH, loc, list->n, in, 0);
    tc_parser_place(p, op, list->all);
    tc_op_set_word(op, "callee",
                   tc_arena_printf(p->arena, "@%s", kernel->name));
    tc_given_set(b, op);
    return tc_parser_emit(p, op, 0, NULL);
}

bool tc_parse_launch(tc_parser *p, tc_outcome *out)
{
    tc_given b = {0};
    tc_operands list = {0};
    p->at++;
    tc_loc loc = tc_parser_loc(p);
    if (!tc_parser_is(p, TC_TOKEN_FUNC))
        return tc_parser_expected(p, "a kernel's name, as `@name`");
    const tc_func *kernel = find_kernel(p);
    p->at++;
    if (!tc_parse_given(p, &b, true) || !tc_parser_expect(p, TC_TOKEN_LPAREN))
        return false;
    if (kernel && b.has_star)
        add_star(p, kernel, &b);
    if (!tc_parser_accept(p, TC_TOKEN_RPAREN) &&
        (!tc_parse_exprs(p, &list) || !tc_parser_expect(p, TC_TOKEN_RPAREN)))
        return false;
    *out = tc_outcome_of_op(build_launch(p, kernel, loc, &b, &list));
    return true;
}
