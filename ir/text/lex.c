/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/text/lex.h"

#include "ir/base/escape.h"

#include <string.h>

/* Where in `tile<...>` the lexer is. */
typedef enum shape_mode {
    NO_SHAPE,
    SHAPE_NEXT, /* after the name, `<` begins it */
    IN_SHAPE
} shape_mode;

typedef struct lexer {
    tc_context *cx;
    tc_arena *arena;
    tc_tokens out;
    uint32_t room;
    const char *at, *end, *line_start;
    uint32_t line;
    tc_loc where;
    shape_mode shape;
    unsigned parens;              /* open ones in the shape */
    unsigned open;                /* all open ones since the last brace */
    bool has_semicolon, has_hash; /* reported: once is enough */
} lexer;

/* Longest first. */
static const struct {
    char text[4];
    tc_token_kind kind;
} punctuation[] = {
    {">>>", TC_TOKEN_SHRU},    {">>", TC_TOKEN_SHR},   {"<<", TC_TOKEN_SHL},
    {"<=", TC_TOKEN_LE},       {">=", TC_TOKEN_GE},    {"==", TC_TOKEN_EQ},
    {"!=", TC_TOKEN_NE},       {"->", TC_TOKEN_ARROW}, {"+:", TC_TOKEN_SIDE},
    {"(", TC_TOKEN_LPAREN},    {")", TC_TOKEN_RPAREN}, {"[", TC_TOKEN_LBRACKET},
    {"]", TC_TOKEN_RBRACKET},  {"{", TC_TOKEN_LBRACE}, {"}", TC_TOKEN_RBRACE},
    {"<", TC_TOKEN_LT},        {">", TC_TOKEN_GT},     {"=", TC_TOKEN_ASSIGN},
    {",", TC_TOKEN_COMMA},     {":", TC_TOKEN_COLON},  {"+", TC_TOKEN_PLUS},
    {"-", TC_TOKEN_MINUS},     {"*", TC_TOKEN_STAR},   {"/", TC_TOKEN_SLASH},
    {"|", TC_TOKEN_OR},        {"^", TC_TOKEN_XOR},    {"&", TC_TOKEN_AND},
    {"~", TC_TOKEN_TILDE},     {"!", TC_TOKEN_BANG},   {"?", TC_TOKEN_QUESTION},
    {";", TC_TOKEN_SEMICOLON},
};
enum { NPUNCTUATION = sizeof punctuation / sizeof *punctuation };

const char *tc_token_kind_name(tc_token_kind kind)
{
    static const char *const named[] = {
        [TC_TOKEN_END] = "the end of the text",
        [TC_TOKEN_BAD] = "an unreadable character",
        [TC_TOKEN_NAME] = "a name",
        [TC_TOKEN_VALUE] = "a value name",
        [TC_TOKEN_FUNC] = "a function name",
        [TC_TOKEN_INT] = "a whole number",
        [TC_TOKEN_FLOAT] = "a number",
        [TC_TOKEN_STRING] = "a string",
        [TC_TOKEN_LAYOUT] = "a layout",
        [TC_TOKEN_X] = "`x`",
        [TC_TOKEN_LPAREN] = "`(`",
        [TC_TOKEN_RPAREN] = "`)`",
        [TC_TOKEN_LBRACKET] = "`[`",
        [TC_TOKEN_RBRACKET] = "`]`",
        [TC_TOKEN_LBRACE] = "`{`",
        [TC_TOKEN_RBRACE] = "`}`",
        [TC_TOKEN_LT] = "`<`",
        [TC_TOKEN_GT] = "`>`",
        [TC_TOKEN_LE] = "`<=`",
        [TC_TOKEN_GE] = "`>=`",
        [TC_TOKEN_EQ] = "`==`",
        [TC_TOKEN_NE] = "`!=`",
        [TC_TOKEN_SHL] = "`<<`",
        [TC_TOKEN_SHR] = "`>>`",
        [TC_TOKEN_SHRU] = "`>>>`",
        [TC_TOKEN_ARROW] = "`->`",
        [TC_TOKEN_ASSIGN] = "`=`",
        [TC_TOKEN_COMMA] = "`,`",
        [TC_TOKEN_SEMICOLON] = "`;`",
        [TC_TOKEN_COLON] = "`:`",
        [TC_TOKEN_SIDE] = "`+:`",
        [TC_TOKEN_PLUS] = "`+`",
        [TC_TOKEN_MINUS] = "`-`",
        [TC_TOKEN_STAR] = "`*`",
        [TC_TOKEN_SLASH] = "`/`",
        [TC_TOKEN_OR] = "`|`",
        [TC_TOKEN_XOR] = "`^`",
        [TC_TOKEN_AND] = "`&`",
        [TC_TOKEN_TILDE] = "`~`",
        [TC_TOKEN_BANG] = "`!`",
        [TC_TOKEN_QUESTION] = "`?`",
    };
    return named[kind];
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static char peek(const lexer *l, size_t ahead)
{
    return (size_t)(l->end - l->at) > ahead ? l->at[ahead] : 0;
}

static tc_loc loc_here(const lexer *l)
{
    if (!l->out.file)
        return l->where;
    return (tc_loc){.file = l->out.file,
                    .line = l->line,
                    .col = (uint32_t)(l->at - l->line_start) + 1};
}

/* Of the next n bytes. */
static tc_loc loc_of_next(const lexer *l, size_t n)
{
    tc_loc loc = loc_here(l);
    if (loc.file == l->out.file)
        loc.end = loc.col + (uint32_t)n;
    return loc;
}

static void new_line(lexer *l)
{
    l->line++;
    l->line_start = l->at;
}

/* Appends the token from `at` to `at + len`, of which [skip, skip + inside) is
 * kept, and goes after it. */
static void push(lexer *l, tc_token_kind kind, bool glued, size_t len,
                 size_t skip, size_t inside)
{
    if (l->out.n == l->room) {
        l->room = l->room ? 2 * l->room : 256;
        tc_token *more = tc_arena_array(l->arena, tc_token, l->room);
        if (l->out.n)
            memcpy(more, l->out.all, l->out.n * sizeof *more);
        l->out.all = more;
    }
    l->out.all[l->out.n++] = (tc_token){
        .kind = (uint8_t)kind,
        .glued = glued,
        .at = (uint32_t)(l->at + skip - l->out.text),
        .len = (uint32_t)inside,
        .line = l->line,
        .col = (uint32_t)(l->at - l->line_start) + 1,
    };
    l->at += len;
}

static void skip_line(lexer *l)
{
    const char *eol = memchr(l->at, '\n', (size_t)(l->end - l->at));
    l->at = eol ? eol : l->end;
}

/* Layouts begin with `#` too, after a comma or a parenthesis. */
static bool at_hash_comment(const lexer *l)
{
    const tc_token *last = l->out.n ? &l->out.all[l->out.n - 1] : NULL;
    bool inside =
        last && (last->kind == TC_TOKEN_COMMA || last->kind == TC_TOKEN_LPAREN);
    return *l->at == '#' && (!is_letter(peek(l, 1)) ||
                             (!inside && (!last || last->line != l->line)));
}

/* `;` and `# ...`, which are blanks of other languages; true if there was one:
 * reported, and read as a blank. */
static bool skip_foreign_blank(lexer *l)
{
    if (*l->at == ';' && !l->open) {
        if (!l->has_semicolon)
            tc_error(l->cx, loc_here(l),
                     "unexpected character `;`: statements need none between "
                     "them");
        l->has_semicolon = true;
        l->at++;
        return true;
    }
    if (!at_hash_comment(l))
        return false;
    if (!l->has_hash)
        tc_error(l->cx, loc_here(l),
                 "unexpected character `#`: comments begin with `//`");
    l->has_hash = true;
    skip_line(l);
    return true;
}

/* True if there was any. */
static bool skip_blanks(lexer *l)
{
    const char *start = l->at;
    while (l->at < l->end) {
        char c = *l->at;
        if (c == '\n') {
            l->at++;
            new_line(l);
        } else if (c == ' ' || c == '\t' || c == '\r') {
            l->at++;
        } else if (c == '/' && peek(l, 1) == '/') {
            skip_line(l);
        } else if (!skip_foreign_blank(l)) {
            break;
        }
    }
    return l->at != start;
}

static bool in_sides(const lexer *l)
{
    return l->shape == IN_SHAPE && l->parens == 0;
}

/* Length of the name at `s`; in sides it ends at `x`, unless it is `max(`. */
static size_t name_length(const lexer *l, const char *s)
{
    const char *p = s;
    bool sides = in_sides(l);
    if (sides && l->end - s >= 4 && memcmp(s, "max(", 4) == 0)
        return 3;
    for (; p < l->end; p++) {
        /* Names of ops may have parts: mbarrier.wait. */
        bool dot = !sides && *p == '.' && l->end - p > 1 && is_letter(p[1]);
        if (!dot && !is_letter(*p) && !is_digit(*p))
            break;
        if (sides && *p == 'x')
            break;
    }
    return (size_t)(p - s);
}

static void lex_name(lexer *l, bool glued)
{
    if (in_sides(l) && *l->at == 'x') {
        push(l, TC_TOKEN_X, glued, 1, 0, 1);
        return;
    }
    size_t n = name_length(l, l->at);
    bool shaped = (n == 4 && memcmp(l->at, "tile", 4) == 0) ||
                  (n == 4 && memcmp(l->at, "smem", 4) == 0) ||
                  (n == 9 && memcmp(l->at, "block_ptr", 9) == 0);
    push(l, TC_TOKEN_NAME, glued, n, 0, n);
    if (shaped)
        l->shape = SHAPE_NEXT;
}

static const char *skip_digits(const lexer *l, const char *p)
{
    while (p < l->end && is_digit(*p))
        p++;
    return p;
}

/* After `.5e-3` at p; p itself where there is no fraction or exponent. */
static const char *skip_fraction(const lexer *l, const char *p)
{
    if (l->end - p >= 2 && *p == '.' && is_digit(p[1]))
        p = skip_digits(l, p + 1);
    if (p < l->end && (*p == 'e' || *p == 'E')) {
        const char *e = p + 1;
        e += e < l->end && (*e == '-' || *e == '+');
        if (e < l->end && is_digit(*e))
            p = skip_digits(l, e);
    }
    return p;
}

static void lex_number(lexer *l, bool glued)
{
    tc_token_kind kind = TC_TOKEN_INT;
    const char *p = l->at;
    bool prefix = !in_sides(l) && *p == '0' && (peek(l, 1) | 0x20) == 'x';
    bool complete = true;
    if (prefix) {
        for (p += 2; p < l->end && is_hex(*p); p++)
            ;
        complete = p - l->at > 2;
    } else {
        const char *whole = p = skip_digits(l, p);
        if (!in_sides(l))
            p = skip_fraction(l, p);
        kind = p > whole ? TC_TOKEN_FLOAT : TC_TOKEN_INT;
    }
    /* 12abc, 0x and 1.5f are no numbers. */
    if (!in_sides(l) && (!complete || is_letter(p < l->end ? *p : 0))) {
        while (p < l->end && (is_letter(*p) || is_digit(*p)))
            p++;
        int n = p - l->at > 40 ? 40 : (int)(p - l->at);
        tc_error(l->cx, loc_of_next(l, (size_t)(p - l->at)),
                 "`%.*s` is not a number", n, l->at);
        kind = TC_TOKEN_BAD;
    }
    push(l, kind, glued, (size_t)(p - l->at), 0, (size_t)(p - l->at));
}

/* %name, @name */
static void lex_sigil(lexer *l, bool glued)
{
    bool value = *l->at == '%';
    size_t n = 1;
    while (is_letter(peek(l, n)) || is_digit(peek(l, n)) || peek(l, n) == '.')
        n++;
    tc_token_kind kind = value ? TC_TOKEN_VALUE : TC_TOKEN_FUNC;
    if (n == 1) {
        tc_error(l->cx, loc_here(l), "expected a name after `%c`%s", *l->at,
                 value ? " (the remainder is rem(a, b))" : "");
        kind = TC_TOKEN_BAD;
    }
    push(l, kind, glued, n, 1, n - 1);
}

/* The length of the escape at s (a backslash), 0 if there is no such. */
static size_t escape_length(const char *s, size_t n)
{
    if (n < 2)
        return 0;
    if (s[1] == 'x')
        return n >= 4 && is_hex(s[2]) && is_hex(s[3]) &&
                       !(s[2] == '0' && s[3] == '0')
                   ? 4
                   : 0;
    return memchr("\\\"nrt", s[1], 5) ? 2 : 0;
}

/* The length of one character or escape inside a string; 0: there is no such.
 */
static size_t character_length(const char *s, size_t n)
{
    if (*s == '\\')
        return escape_length(s, n);
    bool control = (unsigned char)*s < ' ' && *s != '\t';
    return control ? 0 : tc_utf8_length(s, n);
}

static bool bad_character(lexer *l, size_t n)
{
    tc_loc at = loc_here(l);
    at.col += l->out.file ? (uint32_t)n : 0;
    return tc_error(l->cx, at,
                    l->at[n] == '\\'
                        ? "unknown escape, expected one of \\n \\t \\r \\\" "
                          "\\\\ \\x01 to \\xff"
                        : "a string holds UTF-8 (other bytes: \\x01 to \\xff)");
}

static void lex_string(lexer *l, bool glued)
{
    size_t n = 1, left = (size_t)(l->end - l->at);
    bool ok = true;
    while (n < left && l->at[n] != '"' && l->at[n] != '\n') {
        size_t len = character_length(l->at + n, left - n);
        ok = ok && (len || bad_character(l, n));
        n += len ? len : 1;
    }
    bool closed = n < left && l->at[n] == '"';
    if (!closed)
        ok = tc_error(l->cx, loc_here(l),
                      "the string does not end, expected `\"` on this line");
    size_t len = closed ? n + 1 : n;
    push(l, ok ? TC_TOKEN_STRING : TC_TOKEN_BAD, glued, len, 1, n - 1);
}

/* From a `'` to the next one on the line. */
static size_t quoted_length(const lexer *l)
{
    size_t n = 1, left = (size_t)(l->end - l->at);
    while (n < left && l->at[n] != '\'' && l->at[n] != '\n')
        n++;
    return n < left && l->at[n] == '\'' ? n + 1 : 1;
}

static void lex_unknown(lexer *l, bool glued)
{
    size_t n = tc_utf8_length(l->at, (size_t)(l->end - l->at));
    if (n == 0 || (unsigned char)*l->at < ' ')
        tc_error(l->cx, loc_here(l), "unexpected byte 0x%02x",
                 (unsigned char)*l->at);
    else
        tc_error(l->cx, loc_here(l), "unexpected character `%.*s`%s", (int)n,
                 l->at, *l->at == '\'' ? ": texts are written \"..\"" : "");
    if (*l->at == '\'')
        n = quoted_length(l);
    push(l, TC_TOKEN_BAD, glued, n ? n : 1, 0, n ? n : 1);
}

static void follow_shape(lexer *l, tc_token_kind kind)
{
    if (l->shape == SHAPE_NEXT) {
        l->shape = kind == TC_TOKEN_LT ? IN_SHAPE : NO_SHAPE;
        l->parens = 0;
    } else if (kind == TC_TOKEN_LPAREN) {
        l->parens++;
    } else if (kind == TC_TOKEN_RPAREN && l->parens) {
        l->parens--;
    } else if (kind == TC_TOKEN_GT || kind == TC_TOKEN_LBRACE ||
               kind == TC_TOKEN_RBRACE || kind == TC_TOKEN_ASSIGN ||
               kind == TC_TOKEN_COLON || kind == TC_TOKEN_RPAREN) {
        /* `>`, or what cannot stand in a type: it was never closed. */
        l->shape = NO_SHAPE;
    }
}

/* `;` separates in parentheses alone; a brace ends those left open. */
static void count_open(lexer *l, tc_token_kind kind)
{
    if (kind == TC_TOKEN_LBRACE || kind == TC_TOKEN_RBRACE)
        l->open = 0;
    l->open += kind == TC_TOKEN_LPAREN;
    l->open -= kind == TC_TOKEN_RPAREN && l->open;
}

static void lex_punctuation(lexer *l, bool glued)
{
    size_t left = (size_t)(l->end - l->at);
    for (int i = 0; i < NPUNCTUATION; i++) {
        if (punctuation[i].text[0] != *l->at)
            continue;
        size_t n = strlen(punctuation[i].text);
        if (n > left || memcmp(punctuation[i].text, l->at, n) != 0)
            continue;
        /* `>` closes a type: tile<64 x ptr<f32>> */
        if (in_sides(l) && *l->at == '>' && n > 1)
            continue;
        tc_token_kind kind = punctuation[i].kind;
        push(l, kind, glued, n, 0, n);
        count_open(l, kind);
        if (l->shape != NO_SHAPE)
            follow_shape(l, kind);
        return;
    }
    lex_unknown(l, glued);
}

/* #name and what is in parentheses after it. */
static void lex_layout(lexer *l, bool glued)
{
    size_t n = 1, left = (size_t)(l->end - l->at), depth = 0;
    while (n < left && (is_letter(l->at[n]) || is_digit(l->at[n])))
        n++;
    for (size_t i = n; i < left && (depth || l->at[i] == '('); i++) {
        if (l->at[i] == '\n')
            break;
        depth += l->at[i] == '(';
        depth -= l->at[i] == ')';
        if (!depth) {
            n = i + 1;
            break;
        }
    }
    push(l, TC_TOKEN_LAYOUT, glued, n, 0, n);
}

static void lex_token(lexer *l, bool glued)
{
    char c = *l->at;
    /* Only `<` directly after the name makes a shape of what follows. */
    if (l->shape == SHAPE_NEXT && c != '<')
        l->shape = NO_SHAPE;
    if (is_letter(c))
        lex_name(l, glued);
    else if (is_digit(c))
        lex_number(l, glued);
    else if (c == '%' || c == '@')
        lex_sigil(l, glued);
    else if (c == '"')
        lex_string(l, glued);
    else if (c == '#' && is_letter(peek(l, 1)))
        lex_layout(l, glued);
    else
        lex_punctuation(l, glued);
}

uint32_t tc_token_end(const tc_token *t)
{
    bool sigil = t->kind == TC_TOKEN_VALUE || t->kind == TC_TOKEN_FUNC;
    return t->col + t->len + sigil + (t->kind == TC_TOKEN_STRING ? 2 : 0);
}

/* The end stands after the last token, not on an empty line after it. */
static void push_end(lexer *l)
{
    push(l, TC_TOKEN_END, false, 0, 0, 0);
    if (l->out.n == 1)
        return;
    tc_token *end = &l->out.all[l->out.n - 1];
    end->line = end[-1].line;
    end->col = tc_token_end(&end[-1]);
}

tc_tokens tc_lex(tc_context *cx, tc_arena *a, uint32_t file, const char *text,
                 size_t len, tc_loc where)
{
    lexer l = {.cx = cx,
               .arena = a,
               .out = {.text = text, .file = file},
               .at = text,
               .end = text + len,
               .line_start = text,
               .line = 1,
               .where = where};
    if (len > INT32_MAX) {
        tc_error(cx, loc_here(&l), "the text is longer than 2 GiB");
        l.end = text;
    }
    /* A byte order mark, as some editors write it. */
    if (l.end - l.at >= 3 && memcmp(l.at, "\xef\xbb\xbf", 3) == 0)
        l.at += 3;
    for (;;) {
        bool glued = !skip_blanks(&l);
        if (l.at == l.end)
            break;
        lex_token(&l, glued);
    }
    push_end(&l);
    return l.out;
}
