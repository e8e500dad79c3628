/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops by name, in two forms:
 *   statement   store %p, %x + 1.0 boundary(0)     dot %a, %b : tile<...>
 *   call        dot(%a, trans(%b), precision=tf32)     cast(%x, f32)
 * After the operands that an op can have, numbers and strings are its
 * attributes in order: size(%q, 1), program_id 0, assert %c, "message". In a
 * call a type states the type of the result.
 */
#include "ir/text/parse.h"

/* Reductions and scans in call form. */
static const struct {
    const char *name, *kind;
    tc_opcode code;
} short_forms[] = {{"sum", "sum", TC_REDUCE},  {"prod", "prod", TC_REDUCE},
                   {"any", "or", TC_REDUCE},   {"all", "and", TC_REDUCE},
                   {"cumsum", "sum", TC_SCAN}, {"cumprod", "prod", TC_SCAN},
                   {"cummax", "max", TC_SCAN}, {"cummin", "min", TC_SCAN}};
enum { NSHORT_FORMS = sizeof short_forms / sizeof *short_forms };

bool tc_parser_at_op(const tc_parser *p, tc_opcode *code)
{
    const tc_token *t = tc_parser_peek(p, 0);
    *code = t->kind == TC_TOKEN_NAME
                ? tc_opcode_parse(p->tokens.text + t->at, t->len)
                : TC_OPCODE_COUNT;
    return *code != TC_OPCODE_COUNT;
}

static unsigned most_operands(tc_opcode code)
{
    unsigned n = 0;
    for (const char *in = tc_op_infos[code].in; *in; in++) {
        if (in[1] == '*')
            return ~0u;
        n += *in != '?';
    }
    return n;
}

tc_outcome tc_outcome_of_op(tc_op *op)
{
    if (!op)
        return (tc_outcome){.poison = true};
    return (tc_outcome){.n = op->nout, .values = op->out};
}

tc_outcome tc_outcome_of_value(tc_parser *p, tc_value *v)
{
    if (!v)
        return (tc_outcome){.poison = true};
    return (tc_outcome){
        .n = 1, .values = tc_arena_copy(p->arena, &v, sizeof(tc_value *))};
}

void tc_parts_apply_attrs(const tc_op_parts *parts, tc_op *op)
{
    unsigned n = tc_op_nattrs(parts->code);
    for (unsigned i = 0; i < n; i++)
        if (parts->attrs[i].kind != TC_ATTR_NONE)
            op->attrs[i] = parts->attrs[i];
}

/* ---- From the parts to the op ---- */

/* The operands of a terminator: literals get the types expected. */
static bool fit_terminator(tc_parser *p, const tc_op_parts *parts,
                           tc_value **in)
{
    bool hands_over = parts->code != TC_CONDITION;
    unsigned first = parts->code == TC_BREAK_IF; /* of what is handed over */
    bool ok = true;
    for (unsigned i = 0; i < parts->in.n; i++) {
        const tc_type *type = hands_over && i >= first && i - first < p->nyields
                                  ? p->yields[i - first]
                                  : NULL;
        bool whole = type && type->kind <= TC_TILE && type->kind != TC_TENSOR;
        in[i] = tc_fit_value(p, &parts->in.all[i], whole ? type : NULL);
        ok &= in[i] != NULL;
    }
    return ok;
}

/* load %t[%i] without any side is the gather that %t[%i] is already (written
 * here: a name for it is found elsewhere). */
static bool is_gather_load(const tc_op_parts *parts)
{
    const tc_operand *o = parts->in.all;
    return parts->code == TC_LOAD && parts->in.n == 1 &&
           o->kind == TC_OPERAND_VALUE && o->v->def &&
           o->v->def->code == TC_GATHER && tc_loc_is(o->loc, o->v->loc) &&
           tc_type_elem(o->v->type)->kind != TC_PTR;
}

static tc_op *finish_gather(tc_parser *p, const tc_op_parts *parts)
{
    static const char *const hints[] = {"evict", "cache"};
    tc_op *gather = parts->in.all[0].v->def;
    const tc_attr *pad = &parts->attrs[tc_op_attr_index(TC_LOAD, "pad")];
    int boundary = tc_op_attr_index(TC_LOAD, "boundary");
    if (parts->attrs[boundary].kind != TC_ATTR_NONE) {
        tc_error(p->cx, parts->loc,
                 "load: a gather has no boundary (outside of the tensor it "
                 "reads the pad); a block needs `offset +: side`");
        return NULL;
    }
    if (pad->kind != TC_ATTR_NONE)
        tc_op_set_attr(gather, "pad", *pad);
    for (unsigned i = 0; i < sizeof hints / sizeof *hints; i++) {
        const tc_attr *hint =
            &parts->attrs[tc_op_attr_index(TC_LOAD, hints[i])];
        if (hint->kind != TC_ATTR_NONE)
            tc_op_set_attr(gather, hints[i], *hint);
    }
    if (parts->nstated && parts->stated[0] != gather->out[0]->type) {
        tc_error(p->cx, parts->loc, "load: result is %s, but %s is stated",
                 tc_type_name(p->cx, gather->out[0]->type),
                 tc_type_name(p->cx, parts->stated[0]));
        return NULL;
    }
    return gather;
}

/* max(%x) of one tile reduces: of two values it is the elementwise op. */
static void reduce_one_tile(tc_parser *p, tc_op_parts *parts)
{
    const tc_operand *o = parts->in.all;
    bool extremum = parts->code == TC_MAX || parts->code == TC_MIN;
    if (extremum && parts->in.n == 1 && o->kind == TC_OPERAND_VALUE &&
        o->v->type->kind == TC_TILE)
        tc_parts_reduce(p, parts);
}

static bool is_combining(tc_opcode code)
{
    return tc_op_infos[code].syntax == TC_SYNTAX_REDUCE;
}

/* sum(%x) of a tile with one axis needs no axis=0; of others it is an error. */
static bool default_axis(tc_parser *p, tc_op_parts *parts)
{
    tc_attr *axis = &parts->attrs[tc_op_attr_index(parts->code, "axis")];
    const tc_operand *o = parts->in.all;
    const tc_type *t =
        parts->in.n && o->kind == TC_OPERAND_VALUE ? o->v->type : NULL;
    if (axis->kind != TC_ATTR_NONE || !t || t->kind != TC_TILE)
        return true;
    *axis = (tc_attr){.kind = TC_ATTR_INT, .i = 0};
    return t->rank == 1 ||
           tc_error(p->cx, parts->loc,
                    "%s: attribute `axis` is missing, expected axis=0 to "
                    "axis=%u of %s",
                    tc_op_infos[parts->code].name, t->rank - 1,
                    tc_type_name(p->cx, t));
}

static tc_op *finish(tc_parser *p, tc_op_parts *parts)
{
    if (parts->has_error)
        return NULL;
    if (is_gather_load(parts))
        return finish_gather(p, parts);
    bool along_axis = is_combining(parts->code) || parts->code == TC_SORT ||
                      parts->code == TC_TAKE;
    if (along_axis && !default_axis(p, parts))
        return NULL;
    tc_value **in = tc_arena_array(p->arena, tc_value *, parts->in.n);
    const tc_type *stated = parts->nstated == 1 ? parts->stated[0] : NULL;
    bool hands_on = tc_op_infos[parts->code].traits & TC_TERMINATOR ||
                    parts->code == TC_BREAK_IF;
    if (!(hands_on
              ? fit_terminator(p, parts, in)
              : tc_fit_op(p, parts->code, parts->loc, &parts->in, stated, in)))
        return NULL;
    /* NumPy's broadcast takes scalars too. */
    if (parts->code == TC_BROADCAST && parts->in.n == 1 &&
        tc_type_is_scalar(in[0]->type))
        parts->code = TC_SPLAT;
    tc_op *op = tc_op_new(p->f, parts->code, parts->loc, parts->in.n, in, 0);
    tc_parts_apply_attrs(parts, op);
    tc_parser_place(p, op, parts->in.all);
    return tc_parser_emit(p, op, parts->nstated, parts->stated);
}

static bool state_one(tc_parser *p, tc_op_parts *parts, tc_loc loc,
                      const tc_type *t)
{
    if (parts->nstated)
        return tc_error(p->cx, loc,
                        "%s: %s is a second result type after %s, expected "
                        "one",
                        tc_op_infos[parts->code].name, tc_type_name(p->cx, t),
                        tc_type_name(p->cx, parts->stated[0]));
    parts->nstated = 1;
    parts->stated = tc_arena_copy(p->arena, &t, sizeof t);
    return true;
}

/* ---- Elements of the list ---- */

/* The first attribute of the op of that kind not given yet, or -1. Optional
 * ones are given by name only: a number too many must not become one. */
static int next_attr(const tc_op_parts *parts, tc_attr_kind kind)
{
    unsigned n = tc_op_nattrs(parts->code);
    for (unsigned i = 0; i < n; i++) {
        tc_attr_decl d = tc_op_attr_decl(parts->code, i);
        if (parts->attrs[i].kind == TC_ATTR_NONE && !d.optional &&
            d.kind == kind)
            return (int)i;
    }
    return -1;
}

/* The attribute that the next element is by its place, or -1. */
static int attr_by_place(const tc_parser *p, const tc_op_parts *parts)
{
    if (tc_parser_is(p, TC_TOKEN_STRING))
        return next_attr(parts, TC_ATTR_STRING);
    unsigned most = is_combining(parts->code) ? 1 : most_operands(parts->code);
    if (parts->in.n < most)
        return -1;
    unsigned sign = tc_parser_is(p, TC_TOKEN_MINUS);
    return tc_parser_peek(p, sign)->kind == TC_TOKEN_INT
               ? next_attr(parts, TC_ATTR_INT)
               : -1;
}

static bool parse_element(tc_parser *p, tc_op_parts *parts)
{
    int index = attr_by_place(p, parts);
    if (index >= 0)
        return tc_parse_attr_value(p, parts, (unsigned)index, false);
    tc_operand o;
    if (!tc_parse_expr(p, &o))
        return false;
    tc_operands_add(p, &parts->in, o);
    return true;
}

/* ---- Ops whose elements are no operands ---- */

/* After a comma: a size, not a type or name=value of a call. */
static bool at_another_size(const tc_parser *p)
{
    tc_parser q = *p;
    q.at++;
    return tc_parser_is(p, TC_TOKEN_COMMA) && !tc_parser_at_type(&q) &&
           tc_parser_peek(p, 2)->kind != TC_TOKEN_ASSIGN;
}

/* end - start; N of start + N, so that the type is that of other tiles of N. */
static const tc_dim *extent(tc_parser *p, const tc_dim *start,
                            const tc_dim *end)
{
    if (tc_dim_is(start, 0))
        return end;
    if (end->kind == TC_DIM_ADD && (end->a == start || end->b == start))
        return end->a == start ? end->b : end->a;
    return tc_dim_binary(p->cx, TC_DIM_SUB, end, start);
}

/* range(BN), range(8, 16), range(tile<64 x i32>) */
static bool parse_range_side(tc_parser *p, tc_op_parts *parts)
{
    tc_loc loc = tc_parser_loc(p);
    const tc_dim *side;
    if (!tc_parse_size(p, &side))
        return false;
    if (!parts->nstated && at_another_size(p)) {
        parts->start = side;
        p->at++;
        if (!tc_parse_size(p, &side))
            return false;
        side = extent(p, parts->start, side);
    }
    if (at_another_size(p))
        return tc_error(p->cx, loc,
                        "range: a third size, expected `range(side)` or "
                        "`range(start, end)`");
    const tc_type *i32 = tc_type_scalar(p->cx, TC_I32);
    return state_one(p, parts, loc,
                     tc_type_shaped(p->cx, TC_TILE, 1, &side, i32));
}

static bool parse_const_value(tc_parser *p, tc_op_parts *parts)
{
    tc_operand o = {.kind = TC_OPERAND_LITERAL, .loc = tc_parser_loc(p)};
    bool is_bool =
        tc_parser_is_word(p, "true") || tc_parser_is_word(p, "false");
    if (!tc_parse_number(p, &o.number, &o.is_hex))
        return false;
    if (is_bool && !state_one(p, parts, o.loc, tc_type_scalar(p->cx, TC_I1)))
        return false;
    tc_operands_add(p, &parts->in, o);
    return true;
}

/* Reads the arguments in place of the operands of range, dim and const. */
static bool parse_special(tc_parser *p, tc_op_parts *parts)
{
    switch (parts->code) {
    case TC_RANGE: return parse_range_side(p, parts);
    case TC_DIM: return tc_parse_attr_value(p, parts, 0, false);
    default: return parse_const_value(p, parts);
    }
}

static bool is_special(tc_opcode code)
{
    return code == TC_RANGE || code == TC_DIM || code == TC_CONST;
}

static tc_outcome finish_const(tc_parser *p, const tc_op_parts *parts)
{
    const tc_type *type = parts->nstated == 1 ? parts->stated[0] : NULL;
    if (parts->has_error)
        return (tc_outcome){.poison = true};
    if (parts->in.n != 1) {
        tc_error(p->cx, parts->loc, "const: expected a number");
        return (tc_outcome){.poison = true};
    }
    if (type && (!tc_type_is_scalar(type) || type->kind == TC_PTR)) {
        tc_error(p->cx, parts->loc,
                 "const: type is %s, expected an int or float type",
                 tc_type_name(p->cx, type));
        return (tc_outcome){.poison = true};
    }
    tc_operand o = parts->in.all[0];
    o.loc = parts->loc;
    return tc_outcome_of_value(p, tc_fit_value(p, &o, type));
}

/* range(start, end) is start + range(end - start). */
static tc_outcome finish_range(tc_parser *p, tc_op_parts *parts)
{
    tc_op *range = finish(p, parts);
    if (!range || !parts->start || tc_dim_is(parts->start, 0))
        return tc_outcome_of_op(range);
    tc_operand ops[] = {
        tc_operand_dim(p, parts->loc, parts->start),
        tc_operand_value(range->out[0], parts->loc),
    };
    tc_operands list = {ops, 2, 2};
    tc_value *in[2];
    if (!tc_fit_op(p, TC_ADD, parts->loc, &list, NULL, in))
        return (tc_outcome){.poison = true};
    tc_op *sum = tc_op_new(p->f, TC_ADD, parts->loc, 2, in, 0);
    return tc_outcome_of_op(tc_parser_emit(p, sum, 0, NULL));
}

/* Builds the op when all parts are read. */
static tc_outcome finish_any(tc_parser *p, tc_op_parts *parts)
{
    switch (parts->code) {
    case TC_CONST: return finish_const(p, parts);
    case TC_RANGE: return finish_range(p, parts);
    default: return tc_outcome_of_op(finish(p, parts));
    }
}

/* ---- Statement form ---- */

bool tc_parse_stated(tc_parser *p, tc_op_parts *parts)
{
    const tc_type *types[64];
    unsigned n = 0;
    if (!tc_parser_accept(p, TC_TOKEN_COLON))
        return true;
    do {
        if (n == 64)
            return tc_error(p->cx, tc_parser_loc(p), "more than 64 types");
        if (!tc_parse_a_type(p, &types[n++]))
            return false;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    /* range 64 and const true have a type of their own. */
    if (parts->nstated && (n != 1 || types[0] != parts->stated[0])) {
        tc_error(p->cx, parts->loc, "%s: result is %s, but %s is stated",
                 tc_op_infos[parts->code].name,
                 tc_type_name(p->cx, parts->stated[0]),
                 tc_type_name(p->cx, types[0]));
        parts->has_error = true;
    }
    parts->nstated = n;
    parts->stated = tc_arena_copy(p->arena, types, n * sizeof *types);
    return true;
}

/* Whether a list of operands follows, not yet a clause, types or the end. */
static bool at_operands(const tc_parser *p, const tc_op_parts *parts)
{
    unsigned kind = tc_parser_peek(p, 0)->kind;
    bool none = most_operands(parts->code) == 0 &&
                next_attr(parts, TC_ATTR_INT) < 0 && !is_special(parts->code);
    tc_opcode code;
    bool next_op = tc_parser_at_op(p, &code) && !tc_parser_is_call(p) &&
                   code != TC_NOT && code != TC_BLOCK;
    if (none || next_op || kind == TC_TOKEN_COLON || kind == TC_TOKEN_RBRACE ||
        kind == TC_TOKEN_END)
        return false;
    bool clause =
        kind == TC_TOKEN_NAME && tc_parser_peek(p, 1)->kind == TC_TOKEN_LPAREN;
    return !clause ||
           tc_op_attr_index(parts->code,
                            tc_parser_text(p, tc_parser_peek(p, 0))) < 0;
}

static bool parse_operands(tc_parser *p, tc_op_parts *parts)
{
    if (!at_operands(p, parts))
        return true;
    if (is_special(parts->code))
        return parse_special(p, parts);
    do {
        if (!parse_element(p, parts))
            return false;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return true;
}

bool tc_parse_op(tc_parser *p, tc_outcome *out)
{
    tc_op_parts parts = {.loc = tc_parser_loc(p)};
    if (!tc_parser_at_op(p, &parts.code))
        return tc_parser_unknown_op(p);
    p->at++;
    if (!parse_operands(p, &parts) || !tc_parse_clauses(p, &parts))
        return false;
    if (is_combining(parts.code))
        return tc_parse_reduce(p, &parts, out);
    if (!tc_parse_stated(p, &parts))
        return false;
    *out = finish_any(p, &parts);
    return true;
}

/* ---- Call form ---- */

static bool is_statement_only(tc_opcode code)
{
    tc_syntax syntax = tc_op_infos[code].syntax;
    return syntax == TC_SYNTAX_FOR || syntax == TC_SYNTAX_IF ||
           syntax == TC_SYNTAX_WHILE || syntax == TC_SYNTAX_WARP_GROUPS ||
           syntax == TC_SYNTAX_CALL || syntax == TC_SYNTAX_VJP ||
           syntax == TC_SYNTAX_BLOCK || syntax == TC_SYNTAX_LAUNCH;
}

static bool find_callable(tc_parser *p, tc_op_parts *parts)
{
    for (int i = 0; i < NSHORT_FORMS; i++)
        if (tc_parser_is_word(p, short_forms[i].name)) {
            parts->code = short_forms[i].code;
            parts->attrs[tc_op_attr_index(parts->code, "kind")] =
                (tc_attr){.kind = TC_ATTR_SYMBOL,
                          .s = tc_string_get(p->cx, short_forms[i].kind)};
            return true;
        }
    if (!tc_parser_at_op(p, &parts->code))
        return tc_parser_unknown_op(p);
    return !is_statement_only(parts->code) ||
           tc_error(p->cx, tc_parser_loc(p), "`%s` cannot be written as a call",
                    tc_op_infos[parts->code].name);
}

static bool parse_call_element(tc_parser *p, tc_op_parts *parts)
{
    if (tc_parser_is(p, TC_TOKEN_NAME) &&
        tc_parser_peek(p, 1)->kind == TC_TOKEN_ASSIGN)
        return tc_parse_key_value(p, parts);
    if (tc_parser_at_type(p)) {
        tc_loc loc = tc_parser_loc(p);
        const tc_type *t;
        return tc_parse_a_type(p, &t) && state_one(p, parts, loc, t);
    }
    if (is_special(parts->code))
        return parse_special(p, parts);
    return parse_element(p, parts);
}

static bool parse_call_elements(tc_parser *p, tc_op_parts *parts)
{
    if (tc_parser_accept(p, TC_TOKEN_RPAREN))
        return true;
    do {
        if (!parse_call_element(p, parts))
            return false;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, TC_TOKEN_RPAREN);
}

bool tc_parse_call_form(tc_parser *p, tc_outcome *out)
{
    tc_op_parts parts = {.loc = tc_parser_loc(p)};
    bool known = find_callable(p, &parts);
    p->at++;
    if (!known) {
        tc_parser_skip_nested(p);
        *out = (tc_outcome){.poison = true};
        return true;
    }
    p->at++;
    if (!parse_call_elements(p, &parts))
        return false;
    reduce_one_tile(p, &parts);
    *out = finish_any(p, &parts);
    return true;
}
