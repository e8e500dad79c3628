/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/text/parse.h"

#include <assert.h>
#include <string.h>

const tc_token *tc_parser_peek(const tc_parser *p, uint32_t ahead)
{
    uint32_t last = p->tokens.n - 1;
    return &p->tokens.all[ahead > last - p->at ? last : p->at + ahead];
}

bool tc_parser_is(const tc_parser *p, tc_token_kind kind)
{
    return tc_parser_peek(p, 0)->kind == kind;
}

static bool is_text(const tc_parser *p, const tc_token *t, const char *word)
{
    return t->kind == TC_TOKEN_NAME && strlen(word) == t->len &&
           memcmp(p->tokens.text + t->at, word, t->len) == 0;
}

bool tc_parser_is_word(const tc_parser *p, const char *word)
{
    bool is = is_text(p, tc_parser_peek(p, 0), word);
    assert(!is || tc_word_is_any(word));
    return is;
}

bool tc_parser_is_word_of(const tc_parser *p, tc_word_class class)
{
    const tc_token *t = tc_parser_peek(p, 0);
    return t->kind == TC_TOKEN_NAME &&
           tc_word_is(class, p->tokens.text + t->at, t->len);
}

bool tc_parser_is_call(const tc_parser *p)
{
    const tc_token *paren = tc_parser_peek(p, 1);
    return tc_parser_is(p, TC_TOKEN_NAME) && paren->kind == TC_TOKEN_LPAREN &&
           paren->glued;
}

bool tc_parser_accept(tc_parser *p, tc_token_kind kind)
{
    bool is = tc_parser_is(p, kind);
    p->at += is && kind != TC_TOKEN_END;
    return is;
}

bool tc_parser_accept_word(tc_parser *p, const char *word)
{
    bool is = tc_parser_is_word(p, word);
    p->at += is;
    return is;
}

bool tc_parser_expect(tc_parser *p, tc_token_kind kind)
{
    return tc_parser_accept(p, kind) ||
           tc_parser_expected(p, tc_token_kind_name(kind));
}

bool tc_parser_expect_word(tc_parser *p, const char *word)
{
    if (tc_parser_accept_word(p, word))
        return true;
    return tc_parser_expected(p, tc_arena_printf(p->arena, "`%s`", word));
}

bool tc_parser_expect_gt(tc_parser *p)
{
    tc_token *t = &p->tokens.all[p->at];
    if (t->kind != TC_TOKEN_SHR && t->kind != TC_TOKEN_SHRU)
        return tc_parser_expect(p, TC_TOKEN_GT);
    t->kind = t->kind == TC_TOKEN_SHRU ? TC_TOKEN_SHR : TC_TOKEN_GT;
    t->at++;
    t->col++;
    t->len--;
    return true;
}

/* The token as a message quotes it. */
static const char *found(const tc_parser *p, const tc_token *t)
{
    enum { LONGEST = 40 };
    int n = t->len > LONGEST ? LONGEST : (int)t->len;
    const char *dots = t->len > LONGEST ? "..." : "";
    const char *s = p->tokens.text + t->at;
    switch (t->kind) {
    case TC_TOKEN_END: return tc_token_kind_name(TC_TOKEN_END);
    case TC_TOKEN_STRING: return "a string";
    case TC_TOKEN_VALUE:
        return tc_arena_printf(p->arena, "`%%%.*s%s`", n, s, dots);
    case TC_TOKEN_FUNC:
        return tc_arena_printf(p->arena, "`@%.*s%s`", n, s, dots);
    default: return tc_arena_printf(p->arena, "`%.*s%s`", n, s, dots);
    }
}

bool tc_parser_expected(tc_parser *p, const char *what)
{
    const tc_token *t = tc_parser_peek(p, 0);
    if (t->kind == TC_TOKEN_BAD) /* the lexer has said why */
        return false;
    unsigned errors = p->cx->nerrors;
    tc_error(p->cx, tc_parser_loc(p), "expected %s, found %s", what,
             found(p, t));
    if (errors < p->cx->most_errors)
        p->cx->last_diag->is_syntax = true;
    return false;
}

tc_loc tc_parser_loc_of(const tc_parser *p, const tc_token *t)
{
    if (!p->tokens.file)
        return p->where;
    return (tc_loc){p->tokens.file, t->line, t->col, tc_token_end(t)};
}

tc_loc tc_parser_loc(const tc_parser *p)
{
    return tc_parser_loc_of(p, tc_parser_peek(p, 0));
}

tc_loc tc_parser_span(const tc_parser *p, uint32_t first)
{
    const tc_token *t = &p->tokens.all[first];
    tc_loc span = tc_parser_loc_of(p, t);
    uint32_t last = p->at > first ? p->at - 1 : first;
    while (p->tokens.all[last].line != t->line)
        last--;
    if (p->tokens.file)
        span.end = tc_token_end(&p->tokens.all[last]);
    return span;
}

const char *tc_parser_quote(const tc_parser *p, tc_loc span,
                            const char *otherwise)
{
    enum { LONGEST = 32 };
    const tc_token *t = p->tokens.all;
    if (!p->tokens.file || span.file != p->tokens.file ||
        span.end <= span.col || span.end - span.col > LONGEST)
        return otherwise;
    while (t->kind != TC_TOKEN_END &&
           (t->line != span.line || t->col != span.col))
        t++;
    bool sigil = t->kind == TC_TOKEN_VALUE || t->kind == TC_TOKEN_FUNC;
    return tc_arena_printf(p->arena, "%.*s", (int)(span.end - span.col),
                           p->tokens.text + t->at - sigil);
}

/* What the module calls the function that the text calls `name`. */
static const char *symbol_of(const tc_parser *p, const char *name)
{
    const tc_source *s =
        p->tokens.file ? &p->cx->sources[p->tokens.file - 1] : NULL;
    for (unsigned i = 0; s && i < s->naliases; i++)
        if (s->aliases[i].name == name)
            return s->aliases[i].symbol;
    return name;
}

const char *tc_parser_text(const tc_parser *p, const tc_token *t)
{
    const char *text = tc_string_getn(p->cx, p->tokens.text + t->at, t->len);
    return t->kind == TC_TOKEN_FUNC ? symbol_of(p, text) : text;
}

bool tc_parser_at_top(const tc_parser *p)
{
    return tc_parser_peek(p, 1)->kind == TC_TOKEN_FUNC &&
           (tc_parser_is_word(p, "func") || tc_parser_is_word(p, "kernel") ||
            tc_parser_is_word(p, "plan") || tc_parser_is_word(p, "params"));
}

static bool is_opening(const tc_parser *p)
{
    tc_token_kind kind = tc_parser_peek(p, 0)->kind;
    return kind == TC_TOKEN_LPAREN || kind == TC_TOKEN_LBRACKET ||
           kind == TC_TOKEN_LBRACE;
}

static bool is_closing(const tc_parser *p)
{
    tc_token_kind kind = tc_parser_peek(p, 0)->kind;
    return kind == TC_TOKEN_RPAREN || kind == TC_TOKEN_RBRACKET ||
           kind == TC_TOKEN_RBRACE;
}

void tc_parser_skip_nested(tc_parser *p)
{
    uint32_t open = 0;
    while (!tc_parser_is(p, TC_TOKEN_END) && !tc_parser_at_top(p)) {
        if (is_opening(p))
            open++;
        else if (is_closing(p) && open)
            open--;
        p->at++;
        if (open == 0)
            return;
    }
}

static bool is_first_of_line(const tc_parser *p)
{
    return p->at == 0 ||
           p->tokens.all[p->at - 1].line != p->tokens.all[p->at].line;
}

/* %a, %b = */
static bool at_definition(const tc_parser *p)
{
    enum { MOST = 64 }; /* a longer list is found by its last names */
    for (uint32_t i = 0; i < 2 * MOST; i += 2) {
        if (tc_parser_peek(p, i)->kind != TC_TOKEN_VALUE)
            return false;
        unsigned after = tc_parser_peek(p, i + 1)->kind;
        if (after != TC_TOKEN_COMMA)
            return after == TC_TOKEN_ASSIGN;
    }
    return false;
}

bool tc_parser_at_new_statement(const tc_parser *p)
{
    return is_first_of_line(p) && at_definition(p);
}

static bool at_keyword(const tc_parser *p)
{
    tc_opcode code;
    return tc_parser_is_word(p, "assert_shape") ||
           (!tc_parser_is_call(p) && tc_parser_at_op(p, &code));
}

/* name = .., which lacks a %. */
static bool at_unmarked_definition(const tc_parser *p)
{
    return tc_parser_is(p, TC_TOKEN_NAME) &&
           tc_parser_peek(p, 1)->kind == TC_TOKEN_ASSIGN;
}

/* Parentheses and brackets left open between `start` and the cursor. */
static uint32_t open_parens(const tc_parser *p, uint32_t start)
{
    uint32_t open = 0;
    for (uint32_t i = start; i < p->at; i++) {
        unsigned kind = p->tokens.all[i].kind;
        if (kind == TC_TOKEN_LPAREN || kind == TC_TOKEN_LBRACKET)
            open++;
        else if ((kind == TC_TOKEN_RPAREN || kind == TC_TOKEN_RBRACKET) && open)
            open--;
    }
    return open;
}

/* The column of the first token in the line of token i. */
static uint32_t indent_of(const tc_parser *p, uint32_t i)
{
    while (i > 0 && p->tokens.all[i - 1].line == p->tokens.all[i].line)
        i--;
    return p->tokens.all[i].col;
}

/* The first `{` after `open` whose `}` begins its line in the column of one
 * around it: likely the one that lacks its own; `open` if there is none. */
static uint32_t unclosed_brace(const tc_parser *p, uint32_t open)
{
    uint32_t stack[TC_MAX_REGION_DEPTH], n = 0;
    for (uint32_t i = open; i < p->at; i++) {
        const tc_token *t = &p->tokens.all[i];
        if (t->kind == TC_TOKEN_LBRACE && n == TC_MAX_REGION_DEPTH)
            return open;
        if (t->kind == TC_TOKEN_LBRACE)
            stack[n++] = i;
        if (t->kind != TC_TOKEN_RBRACE || n == 0)
            continue;
        uint32_t closed = stack[--n], indent = indent_of(p, closed);
        for (uint32_t k = 0; k < n; k++)
            if (t->line != t[-1].line && t->col < indent &&
                t->col == indent_of(p, stack[k]))
                return closed;
    }
    return open;
}

bool tc_parser_expect_brace(tc_parser *p, uint32_t open)
{
    unsigned errors = p->cx->nerrors;
    const tc_token *here = tc_parser_peek(p, 0);
    if (tc_parser_accept(p, TC_TOKEN_RBRACE))
        return true;
    if (p->ended == here)
        return false;
    p->ended = here;
    tc_parser_expected(p, tc_token_kind_name(TC_TOKEN_RBRACE));
    uint32_t inner = unclosed_brace(p, open);
    if (p->cx->nerrors > errors && inner != open)
        tc_note(p->cx, tc_parser_loc_of(p, &p->tokens.all[inner]),
                "this `{` may lack its `}`: the one that closes it is indented "
                "less");
    if (p->cx->nerrors > errors)
        tc_note(p->cx, tc_parser_loc_of(p, &p->tokens.all[open]),
                "the `{` is here");
    return false;
}

void tc_parser_recover(tc_parser *p, uint32_t start)
{
    if (p->cx->nerrors >= p->cx->most_errors)
        p->at = p->tokens.n - 1;
    uint32_t open = open_parens(p, start);
    if (p->at > start && tc_parser_at_new_statement(p))
        return;
    while (!tc_parser_is(p, TC_TOKEN_END) &&
           !tc_parser_is(p, TC_TOKEN_RBRACE) && !tc_parser_at_top(p)) {
        if (p->at > start && is_first_of_line(p) &&
            ((open == 0 && (at_definition(p) || at_unmarked_definition(p))) ||
             at_keyword(p)))
            return;
        if (tc_parser_is(p, TC_TOKEN_LBRACE)) {
            tc_parser_skip_nested(p);
            open = 0;
            continue;
        }
        if (is_opening(p))
            open++;
        else if (is_closing(p) && open)
            open--;
        if (tc_parser_is(p, TC_TOKEN_VALUE))
            tc_scope_poison(p, tc_parser_peek(p, 0));
        p->at++;
    }
}
