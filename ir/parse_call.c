/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: @f(%a, %b) of a function, mod(%a, %b, name=%c) of a function
 * parameter, where named arguments are offers to whatever is bound to it. With
 * a function of scalars, tiles among the arguments are brought to one shape
 * and it is applied lane by lane; scalars stay scalars.
 */
#include "ir/parse.h"

/* Who is called, as far as it is known. */
typedef struct callee {
    const char *word; /* "@f" or "mod" */
    bool broken;      /* its header has an error */
    unsigned nins;
    const tc_type *const *ins;
} callee;

bool tc_parser_at_func_call(const tc_parser *p)
{
    return tc_parser_is(p, TC_TOKEN_FUNC) ||
           (tc_parser_is_word(p, "call") && !tc_parser_is_call(p)) ||
           (tc_parser_is_call(p) &&
            tc_parser_param_of_kind(p, tc_parser_peek(p, 0), TC_PARAM_FUNC));
}

static bool unknown_func(tc_parser *p, const char *name)
{
    unsigned n = 0;
    tc_each_func (f, p->m)
        n++;
    const char **names = tc_arena_array(p->arena, const char *, n);
    n = 0;
    tc_each_func (f, p->m)
        if (!f->is_kernel)
            names[n++] = f->name;
    const char *near =
        p->cx->nerrors < TC_MAX_ERRORS ? tc_nearest_name(name, names, n) : NULL;
    return tc_error(p->cx, tc_parser_loc(p), "there is no function @%s%s%s%s",
                    name, near ? "; did you mean `@" : "", near ? near : "",
                    near ? "`?" : "");
}

static void describe_func(tc_parser *p, const tc_func *f, callee *c)
{
    c->nins = f->body->nargs;
    const tc_type **ins = tc_arena_array(p->arena, const tc_type *, c->nins);
    for (unsigned i = 0; i < c->nins; i++)
        ins[i] = f->body->args[i]->type;
    c->ins = ins;
}

static void find_callee(tc_parser *p, callee *c)
{
    const tc_token *t = tc_parser_peek(p, 0);
    const char *name = tc_parser_text(p, t);
    const tc_param *param = tc_parser_param_of_kind(p, t, TC_PARAM_FUNC);
    *c = (callee){.word = name};
    if (param) {
        c->nins = param->nins;
        c->ins = param->ins;
        return;
    }
    c->word = tc_string_get(p->cx, tc_arena_printf(p->arena, "@%s", name));
    const tc_func *f = tc_map_get(&p->funcs, name);
    c->broken = !f || f == &tc_broken_func;
    if (!f)
        unknown_func(p, name);
    else if (!c->broken)
        describe_func(p, f, c);
}

/* ---- Arguments ---- */

typedef struct arguments {
    tc_operands in;
    unsigned nnames; /* the last ones have names */
} arguments;

static bool parse_argument(tc_parser *p, arguments *a)
{
    tc_operand o;
    const tc_token *name = NULL;
    if (tc_parser_is(p, TC_TOKEN_NAME) &&
        tc_parser_peek(p, 1)->kind == TC_TOKEN_ASSIGN) {
        name = tc_parser_peek(p, 0);
        a->nnames++;
        p->at += 2;
    } else if (a->nnames) {
        return tc_error(p->cx, tc_parser_loc(p),
                        "named arguments come after all others, expected "
                        "`name=value`");
    }
    if (!tc_parse_expr(p, &o))
        return false;
    o.name = name;
    tc_operands_add(p, &a->in, o);
    return true;
}

static bool parse_arguments(tc_parser *p, arguments *a)
{
    if (!tc_parser_expect(p, TC_TOKEN_LPAREN))
        return false;
    if (tc_parser_accept(p, TC_TOKEN_RPAREN))
        return true;
    do {
        if (!parse_argument(p, a))
            return false;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, TC_TOKEN_RPAREN);
}

/* ---- The op ---- */

static bool takes_tiles(const callee *c)
{
    for (unsigned i = 0; i < c->nins; i++)
        if (c->ins[i]->kind == TC_TILE)
            return true;
    return false;
}

static bool fit_arguments(tc_parser *p, const callee *c, tc_loc loc,
                          const arguments *a, tc_value **in)
{
    bool ok = !c->broken;
    unsigned npositional = a->in.n - a->nnames;
    for (unsigned i = 0; i < a->in.n; i++) {
        const tc_operand *o = &a->in.all[i];
        ok &= o->kind != TC_OPERAND_POISON;
        const tc_type *type = i < npositional && i < c->nins ? c->ins[i] : NULL;
        /* A literal for a type parameter is i32 or f32. */
        if (type && tc_type_is_generic(type))
            type = NULL;
        in[i] = ok ? tc_fit_value(p, o, type) : NULL;
        ok &= in[i] != NULL;
    }
    if (!ok || takes_tiles(c))
        return ok;
    return tc_fit_shapes(p, "call", loc, a->in.n, in, false);
}

static tc_attr names_of(tc_parser *p, const arguments *a)
{
    const char **names = tc_arena_array(p->arena, const char *, a->nnames);
    const tc_operand *first = a->in.all + a->in.n - a->nnames;
    for (unsigned i = 0; i < a->nnames; i++)
        names[i] = tc_parser_text(p, first[i].name);
    return (tc_attr){.kind = TC_ATTR_STRINGS, .n = a->nnames, .strings = names};
}

static tc_op *build_call(tc_parser *p, const callee *c, tc_loc loc,
                         const arguments *a, const tc_op_parts *parts)
{
    tc_value **in = tc_arena_array(p->arena, tc_value *, a->in.n);
    if (!fit_arguments(p, c, loc, a, in))
        return NULL;
    tc_op *op = tc_op_new(p->f, TC_CALL, loc, a->in.n, in, 0);
    tc_op_set_word(op, "callee", c->word);
    if (a->nnames)
        tc_op_set_attr(op, "names", names_of(p, a));
    return tc_parser_emit(p, op, parts->nstated, parts->stated);
}

bool tc_parse_func_call(tc_parser *p, tc_outcome *out)
{
    callee c;
    arguments a = {0};
    tc_op_parts parts = {.code = TC_CALL};
    bool keyword = tc_parser_accept_word(p, "call");
    tc_loc loc = tc_parser_loc(p);
    if (!tc_parser_is(p, TC_TOKEN_FUNC) && !tc_parser_is(p, TC_TOKEN_NAME))
        return tc_parser_expected(p, "a function name");
    if (tc_parser_is(p, TC_TOKEN_NAME) &&
        !tc_parser_param_of_kind(p, tc_parser_peek(p, 0), TC_PARAM_FUNC))
        return tc_parser_unknown_op(p);
    find_callee(p, &c);
    p->at++;
    if (!parse_arguments(p, &a) || (keyword && !tc_parse_stated(p, &parts)))
        return false;
    *out = tc_outcome_of_op(build_call(p, &c, loc, &a, &parts));
    return true;
}
