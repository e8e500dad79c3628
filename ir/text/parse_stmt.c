/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements, one after the other up to the end of their region:
 *   [%a, %b =] op %x, %y clause(1) : type, type
 *   [%a =] expression [: type]
 */
#include "ir/text/parse.h"

#include <string.h>

typedef struct names {
    unsigned n, room;
    const tc_token **all;
} names;

static void add_name(tc_parser *p, names *list, const tc_token *t)
{
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 4;
        const tc_token **more =
            tc_arena_array(p->arena, const tc_token *, list->room);
        if (list->n)
            memcpy(more, list->all, list->n * sizeof *more);
        list->all = more;
    }
    list->all[list->n++] = t;
}

/* `+=`, `*=` and their kin after a value. */
static bool at_compound_assignment(const tc_parser *p)
{
    const tc_token *op = tc_parser_peek(p, 1), *assign = tc_parser_peek(p, 2);
    bool is_op = op->kind >= TC_TOKEN_PLUS && op->kind <= TC_TOKEN_AND;
    return is_op && assign->kind == TC_TOKEN_ASSIGN && assign->glued;
}

/* A statement begins with a value, which no `=` follows. */
static bool not_a_definition(tc_parser *p)
{
    const tc_token *next = tc_parser_peek(p, 1);
    const char *name = tc_parser_text(p, tc_parser_peek(p, 0));
    if (at_compound_assignment(p))
        return tc_error(p->cx, tc_parser_loc(p),
                        "%%%s cannot be changed, for a name stands for one "
                        "value: write `%%new = %%%s %.*s ...` (a loop hands "
                        "values on by carry)",
                        name, name, (int)next->len, p->tokens.text + next->at);
    if (next->kind == TC_TOKEN_LBRACKET)
        return tc_error(p->cx, tc_parser_loc(p),
                        "expected an op or `%%name = ...`, found `%%%s[`: "
                        "memory is written by `store %%%s[...], %%value`",
                        name, name);
    return tc_parser_expected(p, "an op or `%name = ...`");
}

/* `t = ..`: its `%` is missing. */
static bool lacks_mark(tc_parser *p)
{
    const tc_token *t = tc_parser_peek(p, 0);
    if (t->kind != TC_TOKEN_NAME ||
        tc_parser_peek(p, 1)->kind != TC_TOKEN_ASSIGN)
        return false;
    const char *name = tc_parser_text(p, t);
    tc_error(p->cx, tc_parser_loc(p),
             "expected `%%%s = ...`, found `%s =`: values are written %%name",
             name, name);
    tc_scope_poison(p, t);
    return true;
}

/* %a, %b = */
static bool parse_names(tc_parser *p, names *list)
{
    if (lacks_mark(p))
        return false;
    if (!tc_parser_is(p, TC_TOKEN_VALUE))
        return true;
    unsigned next = tc_parser_peek(p, 1)->kind;
    if (next != TC_TOKEN_COMMA && next != TC_TOKEN_ASSIGN)
        return not_a_definition(p);
    do {
        const tc_token *t = tc_parser_peek(p, 0);
        if (!tc_parser_expect(p, TC_TOKEN_VALUE))
            return false;
        add_name(p, list, t);
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, TC_TOKEN_ASSIGN);
}

/* ---- The right side ---- */

/* expression : type, where a literal takes the type. */
static bool finish_expr(tc_parser *p, const tc_operand *o, tc_outcome *out)
{
    tc_loc loc = tc_parser_loc(p);
    const tc_type *type = NULL;
    if (tc_parser_accept(p, TC_TOKEN_COLON) && !tc_parse_a_type(p, &type))
        return false;
    *out = (tc_outcome){.poison = true};
    tc_value *v = tc_fit_value(p, o, type);
    if (v && type && v->type != type)
        tc_error(p->cx, loc, "the value is %s, but %s is stated",
                 tc_type_name(p->cx, v->type), tc_type_name(p->cx, type));
    else
        *out = tc_outcome_of_value(p, v);
    return true;
}

static bool parse_expr(tc_parser *p, tc_outcome *out)
{
    tc_operand o;
    return tc_parse_expr(p, &o) && finish_expr(p, &o, out);
}

/* A call may stand alone, with any number of results, or begin an expression.
 */
static bool parse_call(tc_parser *p, tc_outcome *out)
{
    tc_loc loc = tc_parser_loc(p);
    uint32_t first = p->at;
    if (!tc_parse_call(p, out))
        return false;
    if (!out->poison && out->n != 1)
        return true;
    tc_operand o = tc_operand_value(out->poison ? NULL : out->values[0], loc);
    return tc_parse_expr_from(p, first, &o) && finish_expr(p, &o, out);
}

static bool is_word_of_expr(tc_opcode code)
{
    return code == TC_NOT || code == TC_BLOCK;
}

/* A name where an op should be, and no expression is likely: `ex2 %x`. */
static bool at_unknown_op(const tc_parser *p, const names *list, tc_opcode code)
{
    const tc_token *t = tc_parser_peek(p, 0), *next = tc_parser_peek(p, 1);
    if (t->kind != TC_TOKEN_NAME || is_word_of_expr(code))
        return false;
    bool operand = next->kind == TC_TOKEN_VALUE || next->kind == TC_TOKEN_INT ||
                   next->kind == TC_TOKEN_FLOAT;
    return list->n == 0 || (operand && next->line == t->line);
}

static bool parse_right(tc_parser *p, const names *list, tc_outcome *out)
{
    tc_opcode code;
    bool op = tc_parser_at_op(p, &code);
    if (op && code == TC_FOR)
        return tc_parse_for(p, out);
    if (op && code == TC_IF)
        return tc_parse_if(p, list->n, out);
    if (op && code == TC_WHILE)
        return tc_parse_while(p, out);
    if (op && code == TC_WARP_GROUPS)
        return tc_parse_warp_groups(p, out);
    if (op && code == TC_LAUNCH)
        return tc_parse_launch(p, out);
    if (tc_parser_is_word(p, "assert_shape"))
        return tc_parse_assert_shape(p, out);
    bool terminator = op && (tc_op_infos[code].traits & TC_TERMINATOR);
    if (tc_parser_at_call(p) && !terminator)
        return parse_call(p, out);
    if (op && !is_word_of_expr(code))
        return tc_parse_op(p, out);
    return at_unknown_op(p, list, code) ? tc_parser_unknown_op(p)
                                        : parse_expr(p, out);
}

/* ---- Where a schedule has it ---- */

static bool parse_number_of(tc_parser *p, const char *word, int64_t most,
                            int64_t *n)
{
    tc_loc loc = tc_parser_loc(p);
    if (!tc_parser_expect_word(p, word) ||
        !tc_parser_expect(p, TC_TOKEN_LPAREN) || !tc_parse_integer(p, n) ||
        !tc_parser_expect(p, TC_TOKEN_RPAREN))
        return false;
    return (*n >= 0 && *n <= most) ||
           tc_error(p->cx, loc, "%s is %lld, expected 0 to %lld", word,
                    (long long)*n, (long long)most);
}

/* `stage(1) place(7)` after an op, the last of its region. */
static bool parse_place(tc_parser *p)
{
    enum { LAST_STAGE = 1, MOST_PLACES = 1 << 20 };
    int64_t stage, place;
    if (!tc_parser_is_word(p, "stage"))
        return true;
    if (!parse_number_of(p, "stage", LAST_STAGE, &stage) ||
        !parse_number_of(p, "place", MOST_PLACES, &place))
        return false;
    tc_op *op = p->b.region->last;
    if (op && tc_op_has(op, TC_TERMINATOR))
        return tc_error(p->cx, op->loc,
                        "%s: a schedule has no place for it: it ends the step",
                        tc_op_name(op));
    if (op) {
        op->stage = (unsigned)stage;
        op->place = (unsigned)place + 1;
    }
    return true;
}

/* ---- Results ---- */

static void poison_names(tc_parser *p, const names *list)
{
    for (unsigned i = 0; i < list->n; i++)
        tc_scope_poison(p, list->all[i]);
}

/* A value that another name has already keeps that one. */
static void name_value(tc_parser *p, const tc_token *t, tc_value *v)
{
    if (v->def && !v->name) {
        v->name = tc_scope_hint(p, t);
        v->loc = tc_parser_loc_of(p, t);
    }
    tc_scope_define(p, t, v);
}

static void bind(tc_parser *p, const names *list, const tc_outcome *out,
                 tc_loc loc)
{
    if (out->poison) {
        poison_names(p, list);
    } else if (list->n && list->n != out->n) {
        tc_error(p->cx, loc, "%u name%s for %u result%s", list->n,
                 list->n == 1 ? "" : "s", out->n, out->n == 1 ? "" : "s");
        poison_names(p, list);
    } else {
        for (unsigned i = 0; i < list->n; i++)
            name_value(p, list->all[i], out->values[i]);
    }
}

static void parse_statement(tc_parser *p)
{
    names list = {0};
    tc_outcome out = {0};
    uint32_t start = p->at;
    tc_loc loc = tc_parser_loc(p);
    if (parse_names(p, &list) && parse_right(p, &list, &out) &&
        parse_place(p)) {
        bind(p, &list, &out, loc);
        p->nfailed += out.poison;
        return;
    }
    p->nfailed++;
    poison_names(p, &list);
    tc_parser_recover(p, start);
}

/* ---- Regions ---- */

static const char *name_of_region(const tc_region *r)
{
    if (r->op)
        return tc_op_name(r->op);
    return r == r->func->grid ? "grid" : tc_func_word(r->func);
}

/* Adds the terminator that may be left out. `clean`: no statement failed, so
 * that a missing one is one. */
static void end_region(tc_parser *p, tc_region *r, tc_opcode implicit,
                       bool clean)
{
    if (tc_region_terminator(r) || !clean)
        return;
    if (implicit == TC_OPCODE_COUNT) {
        tc_error(p->cx, tc_parser_loc(p), "%s: the region ends without `%s`",
                 name_of_region(r),
                 r->op && r->op->code == TC_WHILE && r == r->op->regions[0]
                     ? "condition"
                 : r->op || r == r->func->grid ? "yield"
                                               : "return");
        return;
    }
    tc_op *op = tc_op_new(p->f, implicit, tc_parser_loc(p), 0, NULL, 0);
    tc_op_insert(op, r, NULL);
}

static void parse_statements(tc_parser *p)
{
    while (!tc_parser_is(p, TC_TOKEN_RBRACE) &&
           !tc_parser_is(p, TC_TOKEN_END) && !tc_parser_at_top(p)) {
        uint32_t start = p->at;
        const tc_op *last = p->b.region->last;
        if (last && tc_op_has(last, TC_TERMINATOR) &&
            p->cx->nerrors < p->cx->most_errors)
            tc_error(p->cx, tc_parser_loc(p),
                     "nothing can follow `%s`, expected `}`", tc_op_name(last));
        parse_statement(p);
        if (p->cx->nerrors >= p->cx->most_errors)
            p->at = p->tokens.n - 1;
        else if (p->at == start)
            p->at++;
    }
}

bool tc_parse_region(tc_parser *p, tc_region *r, tc_opcode implicit,
                     unsigned nyields, const tc_type *const *yields)
{
    if (p->region_depth == TC_MAX_REGION_DEPTH)
        return tc_error(p->cx, tc_parser_loc(p),
                        "regions are nested too deeply, at most %d levels",
                        TC_MAX_REGION_DEPTH);
    uint32_t open = p->at;
    if (!tc_parser_expect(p, TC_TOKEN_LBRACE))
        return false;
    tc_builder outer_b = p->b;
    unsigned outer_n = p->nyields, failed = p->nfailed;
    const tc_type *const *outer_yields = p->yields;
    p->b = tc_builder_at_end(r, tc_parser_loc(p));
    p->nyields = nyields;
    p->yields = yields;
    p->region_depth++;
    parse_statements(p);
    end_region(p, r, implicit, p->nfailed == failed);
    p->region_depth--;
    p->b = outer_b;
    p->nyields = outer_n;
    p->yields = outer_yields;
    return tc_parser_expect_brace(p, open);
}
