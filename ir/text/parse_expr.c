/* SPDX-License-Identifier: Apache-2.0
 *
 * Infix expressions, straight into ops. From loose to tight:
 *   or   and   not   == != < <= > >=   |   ^   &   << >> >>>   + -   * /
 *   unary - ~ !   postfix [...]
 * Comparisons do not chain. Arithmetic on literals alone is done here, in 64
 * bits, so that `2 * 3` is a literal still and takes the type it meets.
 */
#include "ir/text/parse.h"

#include "ir/eval/eval.h"

#include <math.h>
#include <string.h>

static const struct infix {
    tc_token_kind token; /* TC_TOKEN_NAME: the op's own name */
    int level;
    tc_opcode code;
    const char *pred; /* of cmp */
} infixes[] = {
    {TC_TOKEN_NAME, 1, TC_OR, NULL},   {TC_TOKEN_NAME, 2, TC_AND, NULL},
    {TC_TOKEN_EQ, 4, TC_CMP, "eq"},    {TC_TOKEN_NE, 4, TC_CMP, "ne"},
    {TC_TOKEN_LT, 4, TC_CMP, "lt"},    {TC_TOKEN_LE, 4, TC_CMP, "le"},
    {TC_TOKEN_GT, 4, TC_CMP, "gt"},    {TC_TOKEN_GE, 4, TC_CMP, "ge"},
    {TC_TOKEN_OR, 5, TC_OR, NULL},     {TC_TOKEN_XOR, 6, TC_XOR, NULL},
    {TC_TOKEN_AND, 7, TC_AND, NULL},   {TC_TOKEN_SHL, 8, TC_SHL, NULL},
    {TC_TOKEN_SHR, 8, TC_SHR, NULL},   {TC_TOKEN_SHRU, 8, TC_SHRU, NULL},
    {TC_TOKEN_PLUS, 9, TC_ADD, NULL},  {TC_TOKEN_MINUS, 9, TC_SUB, NULL},
    {TC_TOKEN_STAR, 10, TC_MUL, NULL}, {TC_TOKEN_SLASH, 10, TC_DIV, NULL},
};
enum { NINFIXES = sizeof infixes / sizeof *infixes };
enum { LEVEL_LOOSEST = 1, LEVEL_NOT = 3, LEVEL_CMP = 4, LEVEL_UNARY = 11 };

tc_operand tc_operand_poison(tc_loc loc)
{
    return (tc_operand){.kind = TC_OPERAND_POISON, .loc = loc};
}

tc_operand tc_operand_value(tc_value *v, tc_loc loc)
{
    if (!v)
        return tc_operand_poison(loc);
    return (tc_operand){.kind = TC_OPERAND_VALUE, .loc = loc, .v = v};
}

tc_loc tc_operand_span(const tc_operand *o)
{
    return o->span.line ? o->span : o->loc;
}

static tc_operand literal(tc_loc loc, tc_number number)
{
    return (tc_operand){
        .kind = TC_OPERAND_LITERAL, .loc = loc, .number = number};
}

void tc_operands_add(tc_parser *p, tc_operands *list, tc_operand o)
{
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 4;
        tc_operand *more = tc_arena_array(p->arena, tc_operand, list->room);
        if (list->n)
            memcpy(more, list->all, list->n * sizeof *more);
        list->all = more;
    }
    list->all[list->n++] = o;
}

static bool parse_level(tc_parser *p, int level, tc_operand *out);

/* ---- Building ---- */

/* The op on these operands, literals and shapes fitted; poison if not. */
static tc_operand parse_expr_build(tc_parser *p, tc_opcode code,
                                   const char *pred, tc_loc loc, unsigned n,
                                   tc_operand *ops)
{
    tc_operands list = {ops, n, n};
    tc_value *in[3];
    if (!tc_fit_op(p, code, loc, &list, NULL, in))
        return tc_operand_poison(loc);
    tc_op *op = tc_op_new(p->f, code, loc, n, in, 0);
    if (pred)
        tc_op_set_word(op, "pred", pred);
    tc_parser_place(p, op, ops);
    op = tc_parser_emit(p, op, 0, NULL);
    return tc_operand_value(op ? op->out[0] : NULL, loc);
}

static bool is_pointer(const tc_operand *o)
{
    return o->kind == TC_OPERAND_VALUE &&
           tc_type_elem(o->v->type)->kind == TC_PTR;
}

static tc_operand build_ptr_add(tc_parser *p, tc_opcode code, tc_loc loc,
                                tc_operand *ops)
{
    if (is_pointer(&ops[1])) {
        tc_operand swap = ops[0];
        ops[0] = ops[1];
        ops[1] = swap;
    }
    if (code == TC_SUB && ops[1].kind == TC_OPERAND_LITERAL)
        ops[1].number.i = (int64_t)(0 - (uint64_t)ops[1].number.i);
    else if (code == TC_SUB)
        ops[1] = parse_expr_build(p, TC_NEG, NULL, loc, 1, &ops[1]);
    return parse_expr_build(p, TC_PTR_ADD, NULL, loc, 2, ops);
}

static bool fold_floats(tc_opcode code, double a, double b, double *out)
{
    switch (code) {
    case TC_ADD: *out = a + b; return true;
    case TC_SUB: *out = a - b; return true;
    case TC_MUL: *out = a * b; return true;
    case TC_DIV:
        /* Division by a literal zero: left to the op, which defines it. */
        if (b != 0)
            *out = a / b;
        return b != 0;
    default: return false;
    }
}

static bool fold_ints(tc_opcode code, int64_t a, int64_t b, int64_t *out)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (code) {
    case TC_ADD: *out = (int64_t)(x + y); return true;
    case TC_SUB: *out = (int64_t)(x - y); return true;
    case TC_MUL: *out = (int64_t)(x * y); return true;
    case TC_DIV: *out = tc_int_div(TC_I64, a, b); return true;
    default: return false;
    }
}

static bool fold_literals(tc_opcode code, const tc_operand *a,
                          const tc_operand *b, tc_number *out)
{
    if (a->kind != TC_OPERAND_LITERAL || b->kind != TC_OPERAND_LITERAL)
        return false;
    out->is_float = a->number.is_float || b->number.is_float;
    if (!out->is_float)
        return fold_ints(code, a->number.i, b->number.i, &out->i);
    double x = a->number.is_float ? a->number.f : (double)a->number.i;
    double y = b->number.is_float ? b->number.f : (double)b->number.i;
    return fold_floats(code, x, y, &out->f);
}

static tc_operand build_infix(tc_parser *p, const struct infix *infix,
                              tc_loc loc, tc_operand a, tc_operand b)
{
    tc_operand ops[] = {a, b};
    tc_number number = {0};
    if (fold_literals(infix->code, &a, &b, &number))
        return literal(a.loc, number);
    bool moves = infix->code == TC_ADD || infix->code == TC_SUB;
    bool pointers = is_pointer(&a) || (is_pointer(&b) && infix->code == TC_ADD);
    if (moves && pointers)
        return build_ptr_add(p, infix->code, loc, ops);
    return parse_expr_build(p, infix->code, infix->pred, loc, 2, ops);
}

/* ---- Literals and names ---- */

static bool parse_int_literal(tc_parser *p, bool negative, tc_number *number,
                              bool *is_hex)
{
    const tc_token *t = tc_parser_peek(p, 0);
    const char *s = p->tokens.text + t->at;
    uint64_t value;
    *is_hex = t->len > 2 && (s[1] | 0x20) == 'x' && !negative;
    if (!tc_int_parse(s, t->len, &value) ||
        (!*is_hex && value > (uint64_t)INT64_MAX + negative))
        return tc_error(p->cx, tc_parser_loc(p),
                        "the number does not fit in 64 bits");
    p->at++;
    *number = (tc_number){.i = (int64_t)(negative ? 0 - value : value)};
    return true;
}

static bool parse_float_literal(tc_parser *p, bool negative, tc_number *number)
{
    const tc_token *t = tc_parser_peek(p, 0);
    double f = tc_float_parse(p->arena, p->tokens.text + t->at, t->len);
    if (isinf(f))
        return tc_error(p->cx, tc_parser_loc(p),
                        "the number is out of the range of f64");
    p->at++;
    *number = (tc_number){.is_float = true, .f = negative ? -f : f};
    return true;
}

static bool at_special_float(const tc_parser *p)
{
    return !tc_parser_is_call(p) &&
           (tc_parser_is_word(p, "inf") || tc_parser_is_word(p, "nan"));
}

static bool parse_unsigned(tc_parser *p, bool negative, tc_number *number,
                           bool *is_hex)
{
    *is_hex = false;
    if (tc_parser_is(p, TC_TOKEN_INT))
        return parse_int_literal(p, negative, number, is_hex);
    if (tc_parser_is(p, TC_TOKEN_FLOAT))
        return parse_float_literal(p, negative, number);
    if (!at_special_float(p))
        return tc_parser_expected(p, "a number");
    double f = tc_parser_is_word(p, "inf") ? (double)INFINITY : (double)NAN;
    p->at++;
    *number = (tc_number){.is_float = true, .f = negative ? -f : f};
    return true;
}

bool tc_parse_number(tc_parser *p, tc_number *number, bool *is_hex)
{
    *is_hex = false;
    *number = (tc_number){.i = tc_parser_is_word(p, "true")};
    if (tc_parser_accept_word(p, "true") || tc_parser_accept_word(p, "false"))
        return true;
    bool negative = tc_parser_accept(p, TC_TOKEN_MINUS);
    return parse_unsigned(p, negative, number, is_hex);
}

static bool at_literal(const tc_parser *p, uint32_t ahead)
{
    tc_parser q = *p;
    q.at += ahead;
    return tc_parser_is(&q, TC_TOKEN_INT) || tc_parser_is(&q, TC_TOKEN_FLOAT) ||
           at_special_float(&q);
}

static tc_operand build_bool(tc_parser *p, tc_loc loc, bool value)
{
    tc_operand o = literal(loc, (tc_number){.i = value});
    return tc_operand_value(tc_fit_value(p, &o, tc_type_scalar(p->cx, TC_I1)),
                            loc);
}

tc_operand tc_operand_dim(tc_parser *p, tc_loc loc, const tc_dim *d)
{
    if (d->kind == TC_DIM_CONST)
        return literal(loc, (tc_number){.i = d->value});
    tc_op *op = tc_op_new(p->f, TC_DIM, loc, 0, NULL, 0);
    tc_op_set_dims(op, "value", 1, &d);
    op = tc_parser_emit(p, op, 0, NULL);
    return tc_operand_value(op ? op->out[0] : NULL, loc);
}

/* cdiv(a, b) is no op: -floor(-a / b) rounds up without overflow. */
static tc_operand build_cdiv(tc_parser *p, tc_loc loc, const tc_operands *list)
{
    tc_value *in[2];
    tc_operand ops[2];
    for (unsigned i = 0; i < list->n; i++)
        if (list->all[i].kind == TC_OPERAND_POISON)
            return tc_operand_poison(loc);
    if (list->n != 2) {
        tc_error(p->cx, loc, "cdiv: %u operand%s, expected 2", list->n,
                 list->n == 1 ? "" : "s");
        return tc_operand_poison(loc);
    }
    if (!tc_fit_alike(p, 2, list->all, in))
        return tc_operand_poison(loc);
    for (int i = 0; i < 2; i++) {
        if (!tc_type_is_int(in[i]->type)) {
            tc_error(p->cx, loc, "cdiv: operand %d is %s, expected ints", i,
                     tc_type_name(p->cx, in[i]->type));
            return tc_operand_poison(loc);
        }
        ops[i] = tc_operand_value(in[i], list->all[i].loc);
    }
    ops[0] = parse_expr_build(p, TC_NEG, NULL, loc, 1, ops);
    ops[0] = parse_expr_build(p, TC_DIV, NULL, loc, 2, ops);
    return parse_expr_build(p, TC_NEG, NULL, loc, 1, ops);
}

static bool parse_cdiv(tc_parser *p, tc_outcome *out)
{
    tc_loc loc = tc_parser_loc(p);
    tc_operands list = {0};
    p->at += 2;
    if (!tc_parse_exprs(p, &list) || !tc_parser_expect(p, TC_TOKEN_RPAREN))
        return false;
    *out = tc_outcome_of_value(p, build_cdiv(p, loc, &list).v);
    return true;
}

bool tc_parser_at_call(const tc_parser *p)
{
    return tc_parser_is_call(p) || tc_parser_at_func_call(p);
}

bool tc_parse_call(tc_parser *p, tc_outcome *out)
{
    if (tc_parser_at_func_call(p))
        return tc_parse_func_call(p, out);
    if (tc_parser_is_word(p, "cdiv"))
        return parse_cdiv(p, out);
    if (tc_parser_is_word(p, "tensor"))
        return tc_parse_tensor(p, out);
    return tc_parse_call_form(p, out);
}

static bool parse_call_value(tc_parser *p, tc_operand *out)
{
    tc_loc loc = tc_parser_loc(p);
    tc_outcome r;
    if (!tc_parse_call(p, &r))
        return false;
    *out = tc_operand_value(r.n == 1 && !r.poison ? r.values[0] : NULL, loc);
    if (!r.poison && r.n != 1)
        tc_error(p->cx, loc, "the call has %s, expected one result",
                 r.n ? "several results" : "no result");
    return true;
}

static bool parse_name(tc_parser *p, tc_operand *out)
{
    const tc_token *t = tc_parser_peek(p, 0);
    tc_loc loc = tc_parser_loc(p);
    if (tc_parser_is_word(p, "true") || tc_parser_is_word(p, "false")) {
        *out = build_bool(p, loc, tc_parser_is_word(p, "true"));
    } else if (tc_parser_param_of_kind(p, t, TC_PARAM_INT)) {
        *out =
            tc_operand_dim(p, loc, tc_dim_param(p->cx, tc_parser_text(p, t)));
    } else {
        return tc_parser_unknown_name(p);
    }
    p->at++;
    return true;
}

/* ---- The levels ---- */

static bool parse_parenthesised(tc_parser *p, tc_operand *out)
{
    p->at++;
    return tc_parse_expr(p, out) && tc_parser_expect(p, TC_TOKEN_RPAREN);
}

static bool parse_primary(tc_parser *p, tc_operand *out)
{
    tc_loc loc = tc_parser_loc(p);
    if (at_literal(p, 0)) {
        *out = literal(loc, (tc_number){0});
        return parse_unsigned(p, false, &out->number, &out->is_hex);
    }
    if (tc_parser_is(p, TC_TOKEN_VALUE) && !tc_parser_at_new_statement(p)) {
        *out = tc_scope_find(p, tc_parser_peek(p, 0));
        p->at++;
        return true;
    }
    if (tc_parser_at_call(p))
        return parse_call_value(p, out);
    if (tc_parser_is(p, TC_TOKEN_LPAREN))
        return parse_parenthesised(p, out);
    if (tc_parser_is(p, TC_TOKEN_NAME))
        return parse_name(p, out);
    return tc_parser_expected(p, "a value");
}

/* block %q[%z, %m0 +: BM] */
static bool parse_block(tc_parser *p, tc_operand *out)
{
    tc_loc loc = tc_parser_loc(p);
    p->at++;
    if (!parse_primary(p, out))
        return false;
    if (!tc_parser_is(p, TC_TOKEN_LBRACKET))
        return tc_parser_expected(p, "`[`");
    return tc_parse_index(p, out, true, loc);
}

static bool parse_postfix(tc_parser *p, tc_operand *out)
{
    bool block = tc_parser_is_word(p, "block") && !tc_parser_is_call(p);
    if (!(block ? parse_block(p, out) : parse_primary(p, out)))
        return false;
    while (tc_parser_is(p, TC_TOKEN_LBRACKET))
        if (!tc_parse_index(p, out, false, tc_parser_loc(p)))
            return false;
    return true;
}

static bool parse_negative(tc_parser *p, tc_operand *out)
{
    tc_loc loc = tc_parser_loc(p);
    p->at++;
    if (at_literal(p, 0)) {
        *out = literal(loc, (tc_number){0});
        return parse_unsigned(p, true, &out->number, &out->is_hex);
    }
    if (!parse_level(p, LEVEL_UNARY, out))
        return false;
    tc_operand zero = literal(loc, (tc_number){0});
    if (out->kind == TC_OPERAND_LITERAL && out->number.is_float)
        out->number.f = -out->number.f;
    else if (!fold_literals(TC_SUB, &zero, out, &out->number))
        *out = parse_expr_build(p, TC_NEG, NULL, loc, 1, out);
    return true;
}

static bool parse_not(tc_parser *p, int level, tc_operand *out)
{
    tc_loc loc = tc_parser_loc(p);
    p->at++;
    if (!parse_level(p, level, out))
        return false;
    *out = parse_expr_build(p, TC_NOT, NULL, loc, 1, out);
    return true;
}

static bool parse_prefix(tc_parser *p, int level, tc_operand *out)
{
    if (level <= LEVEL_NOT && tc_parser_is_word(p, "not") &&
        !tc_parser_is_call(p))
        return parse_not(p, LEVEL_NOT, out);
    if (tc_parser_is(p, TC_TOKEN_TILDE) || tc_parser_is(p, TC_TOKEN_BANG))
        return parse_not(p, LEVEL_UNARY, out);
    if (tc_parser_is(p, TC_TOKEN_MINUS))
        return parse_negative(p, out);
    return parse_postfix(p, out);
}

/* The infix operator here, of at least that level. */
static const struct infix *find_infix(const tc_parser *p, int level)
{
    unsigned kind = tc_parser_peek(p, 0)->kind;
    if (kind == TC_TOKEN_NAME && tc_parser_is_call(p))
        return NULL;
    for (int i = 0; i < NINFIXES; i++)
        if (infixes[i].token == kind && infixes[i].level >= level &&
            (kind != TC_TOKEN_NAME ||
             tc_parser_is_word(p, tc_op_infos[infixes[i].code].name)))
            return &infixes[i];
    return NULL;
}

/* `first`: the token where *inout begins. */
static bool parse_infixes(tc_parser *p, int level, uint32_t first,
                          tc_operand *inout)
{
    const struct infix *infix;
    inout->span = tc_parser_span(p, first);
    bool compared = false;
    while ((infix = find_infix(p, level))) {
        tc_loc loc = tc_parser_loc(p);
        if (infix->level == LEVEL_CMP && compared)
            return tc_error(p->cx, loc,
                            "comparisons do not chain, expected `and` or "
                            "parentheses");
        compared = infix->level == LEVEL_CMP;
        p->at++;
        tc_operand right;
        if (!parse_level(p, infix->level + 1, &right))
            return false;
        *inout = build_infix(p, infix, loc, *inout, right);
        inout->span = tc_parser_span(p, first);
    }
    return true;
}

static bool parse_level(tc_parser *p, int level, tc_operand *out)
{
    if (p->expr_depth == TC_MAX_EXPR_DEPTH)
        return tc_error(p->cx, tc_parser_loc(p),
                        "nested too deeply, at most %d levels",
                        TC_MAX_EXPR_DEPTH);
    p->expr_depth++;
    uint32_t first = p->at;
    bool ok =
        parse_prefix(p, level, out) && parse_infixes(p, level, first, out);
    p->expr_depth--;
    return ok;
}

bool tc_parse_expr(tc_parser *p, tc_operand *out)
{
    return parse_level(p, LEVEL_LOOSEST, out);
}

bool tc_parse_expr_from(tc_parser *p, uint32_t first, tc_operand *inout)
{
    while (tc_parser_is(p, TC_TOKEN_LBRACKET))
        if (!tc_parse_index(p, inout, false, tc_parser_loc(p)))
            return false;
    return parse_infixes(p, LEVEL_LOOSEST, first, inout);
}

bool tc_parse_exprs(tc_parser *p, tc_operands *list)
{
    do {
        tc_operand o;
        if (!tc_parse_expr(p, &o))
            return false;
        tc_operands_add(p, list, o);
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return true;
}
