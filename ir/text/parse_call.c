/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: @f(%a, %b) of a function, mod(%a, %b, name=%c) of a function
 * parameter, where named arguments are offers to the function that is bound to
 * it. With a function of scalars, tiles among the arguments are brought to one
 * shape and it is applied lane by lane; scalars stay scalars.
 *
 * @f[N=64, mod=@g](%a, name=%c) gives values for compile-time parameters of @f;
 * named arguments are offers to the functions among them.
 *
 * `vjp f(...) seed(%s)` is the same with clauses after it; the seed is one more
 * argument.
 */
#include "ir/text/parse.h"

/* The callee, as far as it is known. */
typedef struct callee {
    const char *word; /* "@f" or "mod" */
    bool broken;      /* its header has an error */
    unsigned nins;
    const tc_type *const *ins;
    const tc_type *out; /* of its only result; else NULL */
} callee;

bool tc_parser_at_func_call(const tc_parser *p)
{
    bool keyword = tc_parser_is_word(p, "call") || tc_parser_is_word(p, "vjp");
    return tc_parser_is(p, TC_TOKEN_FUNC) ||
           (keyword && !tc_parser_is_call(p)) ||
           (tc_parser_is_call(p) &&
            tc_parser_param_of_kind(p, tc_parser_peek(p, 0), TC_PARAM_FUNC));
}

static void describe_func(tc_parser *p, const tc_func *f, callee *c)
{
    c->nins = f->body->nargs;
    const tc_type **ins = tc_arena_array(p->arena, const tc_type *, c->nins);
    for (unsigned i = 0; i < c->nins; i++)
        ins[i] = f->body->args[i]->type;
    c->ins = ins;
    c->out = f->nresults == 1 ? f->results[0] : NULL;
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
        c->out = param->nouts == 1 ? param->outs[0] : NULL;
        return;
    }
    c->word = tc_string_get(p->cx, tc_arena_printf(p->arena, "@%s", name));
    const tc_func *f = tc_map_get(&p->funcs, name);
    c->broken = !f || f == &tc_broken_func;
    if (!f)
        tc_parser_unknown_func(p);
    else if (!c->broken)
        describe_func(p, f, c);
}

/* ---- Arguments ---- */

/* A list whose last values have names. */
typedef struct arguments {
    tc_operands in;
    unsigned nnames;
} arguments;

/* The clauses after the arguments of a vjp. */
typedef struct clauses {
    bool has_seed;
    tc_operand seed;
    tc_attr accumulate;
    arguments into;
} clauses;

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

static bool parse_seed(tc_parser *p, clauses *c)
{
    if (c->has_seed)
        return tc_error(p->cx, tc_parser_loc(p), "vjp: a second seed");
    c->has_seed = true;
    p->at++;
    return tc_parser_expect(p, TC_TOKEN_LPAREN) && tc_parse_expr(p, &c->seed) &&
           tc_parser_expect(p, TC_TOKEN_RPAREN);
}

static bool parse_accumulate(tc_parser *p, clauses *c)
{
    const tc_dim *d;
    p->at++;
    if (!tc_parser_expect(p, TC_TOKEN_LPAREN) || !tc_parse_size(p, &d) ||
        !tc_parser_expect(p, TC_TOKEN_RPAREN))
        return false;
    c->accumulate = (tc_attr){.kind = TC_ATTR_DIMS,
                              .n = 1,
                              .dims = tc_arena_copy(p->arena, &d, sizeof d)};
    return true;
}

static bool parse_into(tc_parser *p, clauses *c)
{
    tc_loc loc = tc_parser_loc(p);
    p->at++;
    return parse_arguments(p, &c->into) &&
           (c->into.nnames == c->into.in.n ||
            tc_error(p->cx, loc,
                     "vjp: expected into(name=%%tensor), with the name of a "
                     "parameter"));
}

/* fastmath(ninf, nnan), also of a call */
static bool parse_fastmath(tc_parser *p, tc_op_parts *parts)
{
    int index = tc_op_attr_index(parts->code, "fastmath");
    if (!tc_parser_is_call(p) || !tc_parser_accept_word(p, "fastmath"))
        return true;
    return tc_parser_expect(p, TC_TOKEN_LPAREN) &&
           tc_parse_attr_value(p, parts, (unsigned)index, true) &&
           tc_parser_expect(p, TC_TOKEN_RPAREN);
}

static bool parse_clauses(tc_parser *p, tc_loc loc, clauses *c)
{
    for (;;) {
        bool clause = tc_parser_is_call(p), ok = false;
        if (clause && tc_parser_is_word(p, "seed"))
            ok = parse_seed(p, c);
        else if (clause && tc_parser_is_word(p, "accumulate"))
            ok = parse_accumulate(p, c);
        else if (clause && tc_parser_is_word(p, "into"))
            ok = parse_into(p, c);
        else
            break;
        if (!ok)
            return false;
    }
    return c->has_seed || tc_error(p->cx, loc,
                                   "vjp: expected seed(%%value) after the "
                                   "arguments");
}

/* ---- The ops ---- */

static bool takes_tiles(const callee *c)
{
    for (unsigned i = 0; i < c->nins; i++)
        if (c->ins[i]->kind == TC_TILE)
            return true;
    return false;
}

static bool fit_argument(tc_parser *p, const tc_operand *o, const tc_type *type,
                         tc_value **v)
{
    /* A literal for a type parameter is i32 or f32. */
    if (type && tc_type_is_generic(type))
        type = NULL;
    *v = o->kind == TC_OPERAND_POISON ? NULL : tc_fit_value(p, o, type);
    return *v != NULL;
}

static bool fit_arguments(tc_parser *p, const callee *c, const arguments *a,
                          tc_value **in)
{
    bool ok = !c->broken;
    unsigned npositional = a->in.n - a->nnames;
    for (unsigned i = 0; ok && i < a->in.n; i++)
        ok = fit_argument(p, &a->in.all[i],
                          i < npositional && i < c->nins ? c->ins[i] : NULL,
                          &in[i]);
    return ok;
}

/* Is one of the arguments that decide whether the function is applied lane by
 * lane a tile? An offer to functions given in brackets decides nothing. */
static bool has_lanes(const callee *c, const arguments *a, tc_value *const *in)
{
    unsigned n = *c->word == '@' ? a->in.n - a->nnames : a->in.n;
    for (unsigned i = 0; i < n; i++)
        if (in[i]->type->kind == TC_TILE)
            return true;
    return false;
}

static bool fit_lanes(tc_parser *p, const callee *c, const char *what,
                      tc_loc loc, unsigned n, const tc_operand *ops,
                      tc_value **in)
{
    return takes_tiles(c) || tc_fit_shapes(p, what, loc, n, ops, in, false);
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
                         const tc_given *given, const arguments *a,
                         const tc_op_parts *parts)
{
    tc_value **in = tc_arena_array(p->arena, tc_value *, a->in.n);
    if (!fit_arguments(p, c, a, in) ||
        (has_lanes(c, a, in) &&
         !fit_lanes(p, c, "call", loc, a->in.n, a->in.all, in)))
        return NULL;
    tc_op *op = tc_op_new(p->f, TC_CALL, loc, a->in.n, in, 0);
    tc_parts_apply_attrs(parts, op);
    tc_op_set_word(op, "callee", c->word);
    tc_given_set(given, op);
    if (a->nnames)
        tc_op_set_attr(op, "names", names_of(p, a));
    tc_parser_place(p, op, a->in.all);
    return tc_parser_emit(p, op, parts->nstated, parts->stated);
}

/* In the order of the op. */
static tc_operands operands_of_vjp(tc_parser *p, const arguments *a,
                                   const clauses *k)
{
    tc_operands all = {0};
    for (unsigned i = 0; i < a->in.n; i++)
        tc_operands_add(p, &all, a->in.all[i]);
    tc_operands_add(p, &all, k->seed);
    for (unsigned i = 0; i < k->into.in.n; i++)
        tc_operands_add(p, &all, k->into.in.all[i]);
    return all;
}

static tc_op *build_vjp(tc_parser *p, const callee *c, tc_loc loc,
                        const arguments *a, const clauses *k,
                        const tc_op_parts *parts)
{
    unsigned nlanes = a->in.n + 1, n = nlanes + k->into.in.n;
    tc_value **in = tc_arena_array(p->arena, tc_value *, n);
    callee none = {.nins = 0};
    tc_operands all = operands_of_vjp(p, a, k);
    if (!fit_arguments(p, c, a, in) ||
        !fit_argument(p, &k->seed, c->out, &in[a->in.n]) ||
        !fit_arguments(p, &none, &k->into, in + nlanes) ||
        !fit_lanes(p, c, "vjp", loc, nlanes, all.all, in))
        return NULL;
    tc_op *op = tc_op_new(p->f, TC_VJP, loc, n, in, 0);
    tc_parser_place(p, op, all.all);
    tc_parts_apply_attrs(parts, op);
    tc_op_set_word(op, "callee", c->word);
    if (a->nnames)
        tc_op_set_attr(op, "names", names_of(p, a));
    if (k->accumulate.kind != TC_ATTR_NONE)
        tc_op_set_attr(op, "accumulate", k->accumulate);
    if (k->into.nnames)
        tc_op_set_attr(op, "into", names_of(p, &k->into));
    return tc_parser_emit(p, op, parts->nstated, parts->stated);
}

static bool parse_given(tc_parser *p, const callee *c, bool vjp, tc_given *b)
{
    if (!tc_parser_is(p, TC_TOKEN_LBRACKET))
        return true;
    if (vjp || *c->word != '@')
        return tc_error(p->cx, tc_parser_loc(p),
                        "compile-time parameters are given in the call of a "
                        "func, as @f[N=64](..), not in that of %s",
                        vjp ? "vjp" : "a function parameter");
    return tc_parse_given(p, b, false);
}

bool tc_parse_func_call(tc_parser *p, tc_outcome *out)
{
    callee c;
    tc_given given = {0};
    arguments a = {0};
    clauses k = {0};
    bool vjp = tc_parser_accept_word(p, "vjp");
    tc_op_parts parts = {.code = vjp ? TC_VJP : TC_CALL};
    bool keyword = vjp || tc_parser_accept_word(p, "call");
    tc_loc loc = tc_parser_loc(p);
    if (!tc_parser_is(p, TC_TOKEN_FUNC) && !tc_parser_is(p, TC_TOKEN_NAME))
        return tc_parser_expected(p, "a function name");
    if (tc_parser_is(p, TC_TOKEN_NAME) &&
        !tc_parser_param_of_kind(p, tc_parser_peek(p, 0), TC_PARAM_FUNC))
        return tc_parser_unknown_op(p);
    find_callee(p, &c);
    p->at++;
    if (!parse_given(p, &c, vjp, &given) || !parse_arguments(p, &a) ||
        (vjp && !parse_clauses(p, loc, &k)) || !parse_fastmath(p, &parts) ||
        (keyword && !tc_parse_stated(p, &parts)))
        return false;
    *out = tc_outcome_of_op(vjp ? build_vjp(p, &c, loc, &a, &k, &parts)
                                : build_call(p, &c, loc, &given, &a, &parts));
    return true;
}
