/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes: boundary(0, 1) after an op in statement form, axis=1 in call
 * form. ops.def declares the values of each.
 */
#include "ir/fastmath.h"
#include "ir/text/parse.h"

#include <string.h>

/* Numbers of an attribute; the IR never needs more. */
enum { MAX_LIST = 256 };

bool tc_parse_integer(tc_parser *p, int64_t *value)
{
    tc_number number;
    bool is_hex;
    tc_loc loc = tc_parser_loc(p);
    const tc_token *t = tc_parser_peek(p, tc_parser_is(p, TC_TOKEN_MINUS));
    if (t->kind != TC_TOKEN_INT)
        return tc_parser_expected(p, "a whole number");
    if (!tc_parse_number(p, &number, &is_hex))
        return false;
    *value = number.i;
    return !number.is_float || tc_error(p->cx, loc, "expected a whole number");
}

static bool parse_bool(tc_parser *p, tc_attr *a)
{
    a->i = tc_parser_is_word(p, "true");
    return tc_parser_accept_word(p, "true") ||
           tc_parser_accept_word(p, "false") ||
           tc_parser_expected(p, "`true` or `false`");
}

static bool parse_string(tc_parser *p, const char **s)
{
    const tc_token *t = tc_parser_peek(p, 0);
    if (!tc_parser_is(p, TC_TOKEN_STRING))
        return tc_parser_expected(p, "a string");
    *s = tc_string_unescape(p->cx, p->arena, p->tokens.text + t->at, t->len);
    p->at++;
    return true;
}

/* a|b|c as names for a suggestion. */
static const char *suggest_word(tc_parser *p, const char *words,
                                const char *got)
{
    const char *names[16];
    unsigned n = 0;
    for (const char *w = words; n < 16; w++) {
        size_t len = strcspn(w, "| ");
        names[n++] = tc_string_getn(p->cx, w, len);
        w += len;
        if (*w != '|')
            break;
    }
    return tc_did_you_mean(p, got, n, names);
}

static bool parse_symbol(tc_parser *p, tc_op_parts *parts,
                         const tc_attr_decl *d, tc_attr *a)
{
    const tc_token *t = tc_parser_peek(p, 0);
    bool func = !d->words && t->kind == TC_TOKEN_FUNC;
    if (t->kind != TC_TOKEN_NAME && !func)
        return tc_parser_expected(p, d->words ? "a word" : "a name");
    const char *text = tc_parser_text(p, t);
    if (func)
        text = tc_string_get(p->cx, tc_arena_printf(p->arena, "@%s", text));
    if (d->words && !tc_words_have(d->words, text)) {
        tc_error(p->cx, tc_parser_loc(p),
                 "%s: %s(%s) is not known, expected one of %.*s%s",
                 tc_op_infos[parts->code].name, d->name, text,
                 (int)strcspn(d->words, " "), d->words,
                 suggest_word(p, d->words, text));
        parts->has_error = true;
    }
    a->s = text;
    p->at++;
    return true;
}

static bool too_long(tc_parser *p)
{
    return tc_error(p->cx, tc_parser_loc(p), "more than %d values", MAX_LIST);
}

static bool parse_ints(tc_parser *p, bool list, tc_attr *a)
{
    int64_t ints[MAX_LIST];
    if (list && tc_parser_is(p, TC_TOKEN_RPAREN))
        return true;
    do {
        if (a->n == MAX_LIST)
            return too_long(p);
        if (!tc_parse_integer(p, &ints[a->n++]))
            return false;
    } while (list && tc_parser_accept(p, TC_TOKEN_COMMA));
    a->ints = tc_arena_copy(p->arena, ints, a->n * sizeof *ints);
    return true;
}

static bool parse_dims(tc_parser *p, bool list, tc_attr *a)
{
    const tc_dim *dims[MAX_LIST];
    if (list && tc_parser_is(p, TC_TOKEN_RPAREN))
        return true;
    do {
        if (a->n == MAX_LIST)
            return too_long(p);
        dims[a->n] = NULL;
        if (!tc_parser_accept_word(p, "_") && !tc_parse_size(p, &dims[a->n]))
            return false;
        a->n++;
    } while (list && tc_parser_accept(p, TC_TOKEN_COMMA));
    a->dims = tc_arena_copy(p->arena, dims, a->n * sizeof *dims);
    return true;
}

static bool parse_strings(tc_parser *p, bool list, tc_attr *a)
{
    const char *strings[MAX_LIST];
    if (list && tc_parser_is(p, TC_TOKEN_RPAREN))
        return true;
    do {
        if (a->n == MAX_LIST)
            return too_long(p);
        if (!parse_string(p, &strings[a->n++]))
            return false;
    } while (list && tc_parser_accept(p, TC_TOKEN_COMMA));
    a->strings = tc_arena_copy(p->arena, strings, a->n * sizeof *strings);
    return true;
}

static bool unknown_flag(tc_parser *p, const char *what, unsigned allowed)
{
    tc_text all = {.arena = p->arena};
    tc_fastmath_print(&all, allowed);
    return tc_error(p->cx, tc_parser_loc(p),
                    "%s: fastmath(%s) is not known, expected %s", what,
                    tc_parser_text(p, tc_parser_peek(p, 0)), all.data);
}

bool tc_parse_flags(tc_parser *p, const char *what, unsigned allowed, bool list,
                    unsigned *flags)
{
    do {
        const tc_token *t = tc_parser_peek(p, 0);
        if (t->kind != TC_TOKEN_NAME)
            return tc_parser_expected(p, "a flag");
        const char *word = tc_parser_text(p, t);
        unsigned flag = tc_fastmath_parse(word, strlen(word)) & allowed;
        if (!flag)
            return unknown_flag(p, what, allowed);
        *flags |= flag;
        p->at++;
    } while (list && tc_parser_accept(p, TC_TOKEN_COMMA));
    return true;
}

static bool parse_op_flags(tc_parser *p, const tc_op_parts *parts,
                           const tc_attr_decl *d, bool list, tc_attr *a)
{
    unsigned flags = 0;
    bool ok = tc_parse_flags(p, tc_op_infos[parts->code].name, d->flags, list,
                             &flags);
    a->i = flags;
    return ok;
}

/* Of tiles like what the first operand, a block pointer, points to. */
static bool parse_layout(tc_parser *p, const tc_op_parts *parts, tc_attr *a)
{
    const tc_operand *o = parts->in.all;
    if (parts->in.n == 0 || o->kind != TC_OPERAND_VALUE ||
        o->v->type->kind != TC_BLOCK_PTR)
        return tc_error(p->cx, tc_parser_loc(p),
                        "%s: a layout is for a block pointer as first operand",
                        tc_op_infos[parts->code].name);
    return tc_parse_layout(p, o->v->type, &a->layout);
}

bool tc_parse_attr_value(tc_parser *p, tc_op_parts *parts, unsigned index,
                         bool list)
{
    tc_attr_decl d = tc_op_attr_decl(parts->code, index);
    tc_attr *a = &parts->attrs[index];
    bool is_hex;
    if (a->kind != TC_ATTR_NONE)
        return tc_error(p->cx, tc_parser_loc(p), "%s: %s is given twice",
                        tc_op_infos[parts->code].name, d.name);
    a->kind = d.kind;
    switch (d.kind) {
    case TC_ATTR_INT: return tc_parse_integer(p, &a->i);
    case TC_ATTR_NUMBER: return tc_parse_number(p, &a->number, &is_hex);
    case TC_ATTR_BOOL: return parse_bool(p, a);
    case TC_ATTR_STRING: return parse_string(p, &a->s);
    case TC_ATTR_SYMBOL: return parse_symbol(p, parts, &d, a);
    case TC_ATTR_INTS: return parse_ints(p, list, a);
    case TC_ATTR_DIMS: return parse_dims(p, list, a);
    case TC_ATTR_LAYOUT: return parse_layout(p, parts, a);
    case TC_ATTR_FLAGS: return parse_op_flags(p, parts, &d, list, a);
    default: return parse_strings(p, list, a);
    }
}

/* These reduce as well, with axis=1. */
static bool is_extremum(tc_opcode code)
{
    return code == TC_MIN || code == TC_MAX;
}

static bool unknown_attr(tc_parser *p, const tc_op_parts *parts)
{
    const char *names[TC_MAX_ATTRS];
    tc_attr_decl decls[TC_MAX_ATTRS];
    unsigned n = tc_op_nattrs(parts->code);
    tc_text all = {.arena = p->arena};
    for (unsigned i = 0; i < n; i++) {
        decls[i] = tc_op_attr_decl(parts->code, i);
        names[i] = decls[i].name;
        tc_text_printf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *got = tc_parser_text(p, tc_parser_peek(p, 0));
    if (n == 0 && is_extremum(parts->code)) {
        names[n++] = "axis";
        tc_text_add(&all, "axis");
    }
    return tc_error(p->cx, tc_parser_loc(p),
                    "%s has no attribute `%s`, expected %s%s",
                    tc_op_infos[parts->code].name, got, n ? all.data : "none",
                    tc_did_you_mean(p, got, n, names));
}

/* An op or a function begins the next statement, or `stage(..) place(..)` ends
 * this one; other names with `(` are meant as attributes. */
static bool at_next_statement(const tc_parser *p)
{
    tc_opcode code;
    return tc_parser_at_op(p, &code) || tc_parser_at_func_call(p) ||
           tc_parser_is_word(p, "stage");
}

bool tc_parse_clauses(tc_parser *p, tc_op_parts *parts)
{
    while (tc_parser_is(p, TC_TOKEN_NAME) &&
           tc_parser_peek(p, 1)->kind == TC_TOKEN_LPAREN) {
        const char *name = tc_parser_text(p, tc_parser_peek(p, 0));
        int index = tc_op_attr_index(parts->code, name);
        if (index < 0 && at_next_statement(p))
            return true;
        if (index < 0)
            return unknown_attr(p, parts);
        p->at += 2;
        if (!tc_parse_attr_value(p, parts, (unsigned)index, true) ||
            !tc_parser_expect(p, TC_TOKEN_RPAREN))
            return false;
    }
    return true;
}

void tc_parts_reduce(tc_parser *p, tc_op_parts *parts)
{
    const char *kind = tc_string_get(p->cx, tc_op_infos[parts->code].name);
    parts->code = TC_REDUCE;
    parts->attrs[tc_op_attr_index(TC_REDUCE, "kind")] =
        (tc_attr){.kind = TC_ATTR_SYMBOL, .s = kind};
}

/* max(%x, axis=1) reduces, max(%x, %y) does not. */
static void turn_into_reduce(tc_parser *p, tc_op_parts *parts, const char *name)
{
    if (is_extremum(parts->code) && strcmp(name, "axis") == 0 &&
        parts->in.n == 1)
        tc_parts_reduce(p, parts);
}

bool tc_parse_key_value(tc_parser *p, tc_op_parts *parts)
{
    const char *name = tc_parser_text(p, tc_parser_peek(p, 0));
    turn_into_reduce(p, parts, name);
    int index = tc_op_attr_index(parts->code, name);
    if (index < 0)
        return unknown_attr(p, parts);
    p->at += 2;
    /* perm=(1, 0) and perm=[1, 0] */
    bool brackets = tc_parser_accept(p, TC_TOKEN_LBRACKET);
    bool list = brackets || tc_parser_accept(p, TC_TOKEN_LPAREN);
    return tc_parse_attr_value(p, parts, (unsigned)index, list) &&
           (!list || tc_parser_expect(p, brackets ? TC_TOKEN_RBRACKET
                                                  : TC_TOKEN_RPAREN));
}
