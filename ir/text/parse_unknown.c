/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that mean nothing here: a misspelling, a name without its mark, or one
 * of another language. The message says what to write.
 */
#include "ir/text/foreign.h"
#include "ir/text/parse.h"

#include <string.h>

/* "; did you mean `f32`?", "; relu(x) is max(x, 0.0)"; "" of NULL. */
static const char *advice(tc_parser *p, const tc_foreign *f)
{
    if (!f)
        return "";
    const char *mean =
        f->here ? tc_arena_printf(p->arena, "; did you mean `%s`?", f->here)
                : ";";
    return f->remedy ? tc_arena_printf(p->arena, "%s %s", mean, f->remedy)
                     : mean;
}

/* ---- Ops ---- */

static bool is_scalar_type(const char *name)
{
    return tc_kind_parse(name, strlen(name)) != TC_KIND_COUNT;
}

/* float %x, int n: a declaration as in C. */
static bool at_declaration(const tc_parser *p, const char *text)
{
    const tc_token *t = tc_parser_peek(p, 0), *next = tc_parser_peek(p, 1);
    bool name = next->kind == TC_TOKEN_NAME || next->kind == TC_TOKEN_VALUE;
    return name && next->line == t->line &&
           (is_scalar_type(text) || tc_foreign_type(text));
}

/* `perm(1, 0)` after a call, which has its attributes in parentheses. */
static bool at_clause_of_call(const tc_parser *p, const char *text)
{
    const tc_token *t = tc_parser_peek(p, 0);
    bool after = p->at && t[-1].kind == TC_TOKEN_RPAREN &&
                 t[-1].line == t->line && tc_parser_is_call(p);
    for (tc_opcode c = 0; after && c < TC_OPCODE_COUNT; c++)
        if (tc_op_attr_index(c, text) >= 0)
            return true;
    return false;
}

/* `descending` after an op: the value of an attribute is missing. */
static bool at_bare_clause(const tc_parser *p, const char *text)
{
    const tc_token *t = tc_parser_peek(p, 0);
    bool after = p->at && t[-1].line == t->line && !tc_parser_is_call(p);
    for (tc_opcode c = 0; after && c < TC_OPCODE_COUNT; c++)
        if (tc_op_attr_index(c, text) >= 0)
            return true;
    return false;
}

/* The meaning that an op of that name would have here; NULL: not known. */
static const char *op_elsewhere(tc_parser *p, const char *text)
{
    const char *dot = strrchr(text, '.');
    bool call = tc_parser_is_call(p);
    if (at_declaration(p, text))
        return "; a value is named by writing `%name = ...`, its type follows";
    if (at_clause_of_call(p, text))
        return tc_arena_printf(p->arena,
                               "; attributes of a call stand in its "
                               "parentheses, as `%s=...`, lists as "
                               "`%s=(0, 1)`",
                               text, text);
    if (at_bare_clause(p, text))
        return tc_arena_printf(p->arena,
                               "; an attribute has its value in parentheses, "
                               "as `%s(true)` or `%s(1)`",
                               text, text);
    if (call && (is_scalar_type(text) || tc_foreign_type(text)))
        return "; a conversion is written `cast(x, f32)`";
    if (tc_foreign_statement(text))
        return advice(p, tc_foreign_statement(text));
    if (tc_foreign_op(text))
        return advice(p, tc_foreign_op(text));
    if (dot && tc_opcode_parse(dot + 1, strlen(dot + 1)) != TC_OPCODE_COUNT)
        return tc_arena_printf(p->arena, "; did you mean `%s`?", dot + 1);
    return NULL;
}

static const char *near_op(tc_parser *p, const char *text)
{
    const char **names = tc_arena_array(
        p->arena, const char *, TC_OPCODE_COUNT + TC_NWORDS + p->f->nparams);
    unsigned n = 0;
    for (tc_opcode c = 0; c < TC_OPCODE_COUNT; c++)
        names[n++] = tc_op_infos[c].name;
    n += tc_words_of(TC_WORD_FUNCTION, names + n);
    for (unsigned i = 0; i < p->f->nparams; i++)
        if (p->f->params[i].kind == TC_PARAM_FUNC)
            names[n++] = p->f->params[i].name;
    return tc_did_you_mean(p, text, n, names);
}

bool tc_parser_unknown_op(tc_parser *p)
{
    const char *text = tc_parser_text(p, tc_parser_peek(p, 0));
    if (tc_map_get(&p->funcs, text))
        return tc_error(p->cx, tc_parser_loc(p),
                        "there is no op `%s`; the function is called as "
                        "`@%s(...)`",
                        text, text);
    const char *elsewhere = op_elsewhere(p, text);
    return tc_error(p->cx, tc_parser_loc(p), "there is no op `%s`%s", text,
                    elsewhere ? elsewhere : near_op(p, text));
}

/* A function of kernels/std is unknown only where texts are read alone. */
static const char *advice_of_func(tc_parser *p, const char *name)
{
    const tc_foreign *f = tc_foreign_op(name);
    if (f && f->remedy && strncmp(f->remedy, "write @", 7) == 0)
        return "; it is one of kernels/std, which is linked to what is "
               "compiled or run";
    return advice(p, f);
}

bool tc_parser_unknown_func(tc_parser *p)
{
    const char *name = tc_parser_text(p, tc_parser_peek(p, 0));
    unsigned n = 0;
    tc_each_func (f, p->m)
        n++;
    const char **names = tc_arena_array(p->arena, const char *, n);
    n = 0;
    tc_each_func (f, p->m)
        if (!f->is_kernel && !f->is_plan)
            names[n++] = f->name;
    const char *near = p->cx->nerrors < p->cx->most_errors
                           ? tc_nearest_name(name, names, n)
                           : NULL;
    if (!near && tc_opcode_parse(name, strlen(name)) != TC_OPCODE_COUNT)
        return tc_error(p->cx, tc_parser_loc(p),
                        "there is no function @%s; the op is written without "
                        "@, as `%s(...)`",
                        name, name);
    return tc_error(p->cx, tc_parser_loc(p), "there is no function @%s%s%s%s",
                    name, near ? "; did you mean `@" : "",
                    near ? near : advice_of_func(p, name), near ? "`?" : "");
}

/* ---- Types and values ---- */

bool tc_parser_unknown_type(tc_parser *p)
{
    if (!tc_parser_is(p, TC_TOKEN_NAME))
        return tc_parser_expected(p, "a type");
    unsigned nparams = p->f ? p->f->nparams : 0, n = 0;
    const char **names = tc_arena_array(
        p->arena, const char *, nparams + TC_LAST_SCALAR + 1 + TC_NWORDS);
    for (unsigned i = 0; i < nparams; i++)
        if (p->f->params[i].kind == TC_PARAM_TYPE)
            names[n++] = p->f->params[i].name;
    for (tc_kind k = TC_I1; k <= TC_LAST_SCALAR; k++)
        names[n++] = tc_scalar_infos[k].name;
    n += tc_words_of(TC_WORD_TYPE, names + n);
    const char *text = tc_parser_text(p, tc_parser_peek(p, 0));
    const tc_foreign *foreign = tc_foreign_type(text);
    return tc_error(p->cx, tc_parser_loc(p), "`%s` is no type%s", text,
                    foreign ? advice(p, foreign)
                            : tc_did_you_mean(p, text, n, names));
}

/* Parameters of the function of that kind, added to a list. */
static unsigned add_params(const tc_parser *p, tc_param_kind kind, unsigned n,
                           const char **names)
{
    for (unsigned i = 0; i < p->f->nparams; i++)
        if (p->f->params[i].kind == kind)
            names[n++] = p->f->params[i].name;
    return n;
}

static bool unknown_word(tc_parser *p, const char *text)
{
    const char **names =
        tc_arena_array(p->arena, const char *, p->f->nparams + TC_NWORDS + 1);
    unsigned n = add_params(p, TC_PARAM_INT, 0, names);
    n += tc_words_of(TC_WORD_LITERAL, names + n);
    names[n++] = "block";
    return tc_error(p->cx, tc_parser_loc(p),
                    "`%s` is no compile-time int parameter (values are "
                    "written %%name)%s",
                    text, tc_did_you_mean(p, text, n, names));
}

bool tc_parser_unknown_name(tc_parser *p)
{
    const tc_token *t = tc_parser_peek(p, 0);
    const char *text = tc_parser_text(p, t);
    const tc_param *param = tc_parser_param(p, t);
    if (tc_parser_at_type(p))
        return tc_parser_expected(p, "a value");
    if (param)
        return tc_error(p->cx, tc_parser_loc(p),
                        "`%s` is a function, expected `%s(...)`", text, text);
    if (tc_scope_has(p, t))
        return tc_error(p->cx, tc_parser_loc(p),
                        "`%s` is no compile-time int parameter; did you mean "
                        "the value `%%%s`?",
                        text, text);
    if (tc_foreign_looks_like_type(text))
        return tc_parser_unknown_type(p);
    return unknown_word(p, text);
}
