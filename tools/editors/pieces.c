/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/editors/pieces.h"

#include "ir/ir.h"

#include <string.h>

typedef struct reader {
    tc_arena *arena;
    pieces out;
    uint32_t room;
    const char *at, *line_start;
    uint32_t newlines, blanks;
} reader;

static void add(reader *r, uint8_t kind, const char *s, uint32_t len)
{
    pieces *t = &r->out;
    if (t->n == r->room) {
        r->room = r->room ? 2 * r->room : 256;
        piece *more = tc_arena_array(r->arena, piece, r->room);
        if (t->n)
            memcpy(more, t->all, t->n * sizeof *more);
        t->all = more;
    }
    t->all[t->n++] = (piece){.kind = kind,
                             .glued = !r->newlines && !r->blanks,
                             .s = s,
                             .len = len,
                             .newlines = r->newlines + (t->n == 1),
                             .blanks = r->blanks,
                             .col = (uint32_t)(s - r->line_start)};
    r->newlines = r->blanks = 0;
    r->at = s + len;
}

/* Blanks and comments up to `end`. */
static void read_gap(reader *r, const char *end)
{
    while (r->at < end) {
        const char *s = r->at;
        if (*s == '/') {
            const char *eol = memchr(s, '\n', (size_t)(end - s));
            const char *last = eol ? eol : end;
            while (last[-1] == ' ' || last[-1] == '\t' || last[-1] == '\r')
                last--;
            add(r, PIECE_COMMENT, s, (uint32_t)(last - s));
            r->at = eol ? eol : end;
            continue;
        }
        r->at++;
        if (*s == '\n') {
            r->newlines++;
            r->blanks = 0;
            r->line_start = r->at;
        } else if (*s == ' ' || *s == '\t') {
            r->blanks++;
        }
    }
}

pieces pieces_of(tc_context *cx, tc_arena *a, uint32_t source)
{
    const tc_source *s = &cx->sources[source - 1];
    tc_tokens tokens = tc_lex(cx, a, source, s->text, s->len, (tc_loc){0});
    reader r = {.arena = a, .at = s->text, .line_start = s->text};
    if (s->len >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0)
        r.line_start = r.at += 3;
    for (uint32_t i = 0; i + 1 < tokens.n; i++) {
        const tc_token *t = &tokens.all[i];
        bool string = t->kind == TC_TOKEN_STRING;
        bool marked =
            string || t->kind == TC_TOKEN_VALUE || t->kind == TC_TOKEN_FUNC;
        const char *start = s->text + t->at - marked;
        read_gap(&r, start);
        add(&r, t->kind, start, t->len + marked + string);
    }
    read_gap(&r, s->text + s->len);
    add(&r, TC_TOKEN_END, r.at, 0);
    return r.out;
}

bool piece_is(const piece *p, const char *text)
{
    return strlen(text) == p->len && memcmp(p->s, text, p->len) == 0;
}

bool piece_opens(const piece *p)
{
    return p->kind == TC_TOKEN_LPAREN || p->kind == TC_TOKEN_LBRACKET ||
           p->kind == TC_TOKEN_LBRACE;
}

bool piece_closes(const piece *p)
{
    return p->kind == TC_TOKEN_RPAREN || p->kind == TC_TOKEN_RBRACKET ||
           p->kind == TC_TOKEN_RBRACE;
}

uint32_t pieces_token(const pieces *t, uint32_t i)
{
    while (t->all[i].kind == PIECE_COMMENT)
        i++;
    return i;
}

bool piece_ends_operand(const piece *p)
{
    switch (p->kind) {
    case TC_TOKEN_NAME:
    case TC_TOKEN_VALUE:
    case TC_TOKEN_FUNC:
    case TC_TOKEN_INT:
    case TC_TOKEN_FLOAT:
    case TC_TOKEN_STRING:
    case TC_TOKEN_LAYOUT:
    case TC_TOKEN_RPAREN:
    case TC_TOKEN_RBRACKET:
    case TC_TOKEN_RBRACE:
    case TC_TOKEN_GT: return true;
    default: return false;
    }
}

static uint32_t after(const pieces *t, uint32_t i)
{
    return t->all[i].kind == TC_TOKEN_END ? i : pieces_token(t, i + 1);
}

bool pieces_at_definition(const pieces *t, uint32_t i)
{
    while (t->all[i].kind == TC_TOKEN_VALUE) {
        i = after(t, i);
        if (t->all[i].kind != TC_TOKEN_COMMA)
            return t->all[i].kind == TC_TOKEN_ASSIGN;
        i = after(t, i);
    }
    return false;
}

static bool is_one_of(const piece *p, size_t n, const char *const *words)
{
    for (size_t i = 0; i < n; i++)
        if (piece_is(p, words[i]))
            return true;
    return false;
}

/* Words inside of a statement, some of them names of ops, too. */
static bool is_inner_word(const piece *p)
{
    static const char *const words[] = {
        "to",       "step",       "carry", "else",     "do",    "and",
        "or",       "not",        "block", "stage",    "place", "producer",
        "consumer", "transposer", "grid",  "registers"};
    return is_one_of(p, sizeof words / sizeof *words, words);
}

/* `boundary` of `boundary(0)`. */
static bool is_clause(const piece *p)
{
    for (int i = 0; i < TC_OPCODE_COUNT; i++)
        for (const char *a = tc_op_infos[i].attrs; *a;) {
            size_t n = strcspn(a, "?:");
            if (n == p->len && memcmp(a, p->s, n) == 0)
                return true;
            a += strcspn(a, " ");
            a += strspn(a, " ");
        }
    return false;
}

static bool begins_function(const pieces *t, uint32_t i)
{
    static const char *const words[] = {"func", "kernel", "plan", "params"};
    const piece *p = &t->all[i], *next = &t->all[after(t, i)];
    if (p->kind != TC_TOKEN_NAME)
        return false;
    if (next->kind == TC_TOKEN_STRING)
        return piece_is(p, "import");
    return next->kind == TC_TOKEN_FUNC &&
           is_one_of(p, sizeof words / sizeof *words, words);
}

/* After these a function's name continues the statement. */
static bool takes_function(const piece *p)
{
    static const char *const words[] = {"launch", "call", "vjp"};
    return p->kind == TC_TOKEN_NAME &&
           is_one_of(p, sizeof words / sizeof *words, words);
}

bool pieces_begin(const pieces *t, uint32_t i, const piece *prev, bool top)
{
    const piece *p = &t->all[i], *next = &t->all[after(t, i)];
    if (top || begins_function(t, i))
        return begins_function(t, i);
    if (!prev || prev->kind == TC_TOKEN_LBRACE)
        return true;
    if (!piece_ends_operand(prev))
        return false;
    if (p->kind == TC_TOKEN_VALUE)
        return pieces_at_definition(t, i);
    if (p->kind == TC_TOKEN_FUNC)
        return !takes_function(prev);
    if (p->kind != TC_TOKEN_NAME)
        return false;
    if (is_inner_word(p))
        return false;
    if (next->kind == TC_TOKEN_LPAREN && next->glued)
        return !is_clause(p);
    return piece_is(p, "assert_shape") ||
           tc_opcode_parse(p->s, p->len) != TC_OPCODE_COUNT;
}
