/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/program/definitions.h"

#include <ctype.h>
#include <string.h>

/* Tokens, as far as linking cares. */
struct cursor {
    const char *text;
    size_t at, len;
};

struct token {
    char kind; /* 'w' word, '@' symbol, '"', `{`, `}`, or 0 at the end */
    size_t begin;
    const char *name; /* of a word or symbol, in a string */
    size_t n;
};

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static void skip_line(struct cursor *c)
{
    while (c->at < c->len && c->text[c->at] != '\n')
        c->at++;
}

static void skip_string(struct cursor *c)
{
    for (c->at++; c->at < c->len && c->text[c->at] != '"'; c->at++) {
        if (c->text[c->at] == '\n')
            return;
        if (c->text[c->at] == '\\')
            c->at++;
    }
    c->at++;
}

static size_t skip_name(struct cursor *c)
{
    size_t from = c->at;
    while (c->at < c->len && is_name(c->text[c->at]))
        c->at++;
    return c->at - from;
}

static struct token next(struct cursor *c)
{
    while (c->at < c->len) {
        size_t begin = c->at;
        const char *p = c->text + begin;
        if (*p == '/' && begin + 1 < c->len && p[1] == '/') {
            skip_line(c);
        } else if (*p == '"') {
            skip_string(c);
            return (struct token){'"', begin, p + 1, c->at - begin - 1};
        } else if (*p == '@' || *p == '%') {
            c->at++;
            size_t n = skip_name(c);
            if (*p == '@' && n)
                return (struct token){'@', begin, p + 1, n};
        } else if (is_name(*p)) {
            size_t n = skip_name(c);
            return (struct token){'w', begin, p, n};
        } else {
            c->at++;
            if (*p == '{' || *p == '}')
                return (struct token){*p, begin, NULL, 0};
        }
    }
    return (struct token){0, c->len, NULL, 0};
}

static bool is_word(struct token t, const char *word)
{
    return t.kind == 'w' && t.n == strlen(word) &&
           memcmp(t.name, word, t.n) == 0;
}

static char *copy_name(tc_arena *a, struct token t)
{
    char *s = tc_arena_alloc(a, t.n + 1);
    memcpy(s, t.name, t.n);
    return s;
}

/* Keywords stand outside of braces; there a word before a symbol is one. */
static bool next_definition(struct cursor *c, struct token *keyword,
                            struct token *name)
{
    int depth = 0;
    for (struct token t = next(c); t.kind; t = next(c)) {
        depth += (t.kind == '{') - (t.kind == '}' && depth > 0);
        if (depth || !(is_word(t, "func") || is_word(t, "kernel") ||
                       is_word(t, "plan") || is_word(t, "params")))
            continue;
        size_t back = c->at;
        *keyword = t;
        *name = next(c);
        if (name->kind == '@')
            return true;
        c->at = back;
    }
    return false;
}

tc_definition *tc_definitions(tc_arena *a, const char *text, size_t len,
                              unsigned *n)
{
    struct token keyword, name;
    *n = 0;
    for (struct cursor c = {text, 0, len};
         next_definition(&c, &keyword, &name);)
        ++*n;
    tc_definition *defs = tc_arena_array(a, tc_definition, *n);
    struct cursor c = {text, 0, len};
    for (unsigned i = 0; next_definition(&c, &keyword, &name); i++) {
        if (i)
            defs[i - 1].end = keyword.begin;
        defs[i] = (tc_definition){.name = copy_name(a, name),
                                  .is_kernel = is_word(keyword, "kernel"),
                                  .is_plan = is_word(keyword, "plan"),
                                  .is_pack = is_word(keyword, "params"),
                                  .begin = keyword.begin,
                                  .end = len,
                                  .at = name.begin};
    }
    return defs;
}

tc_import *tc_imports_of(tc_arena *a, const char *text, size_t len, unsigned *n)
{
    int depth = 0;
    unsigned room = 4;
    tc_import *all = tc_arena_array(a, tc_import, room);
    struct cursor c = {text, 0, len};
    struct token last = {0};
    *n = 0;
    for (struct token t = next(&c); t.kind; last = t, t = next(&c)) {
        depth += (t.kind == '{') - (t.kind == '}' && depth > 0);
        size_t quotes = t.kind == '"' && t.n && t.name[t.n - 1] == '"' ? 2 : 0;
        if (depth || !quotes || !is_word(last, "import"))
            continue;
        if (*n == room) {
            tc_import *more = tc_arena_array(a, tc_import, room *= 2);
            memcpy(more, all, *n * sizeof *more);
            all = more;
        }
        t.n--;
        all[(*n)++] = (tc_import){copy_name(a, t), t.begin, t.n + quotes};
    }
    return all;
}

/* ---- Mentions ---- */

bool tc_next_mention(const tc_source *s, size_t end, tc_mention *m)
{
    struct cursor c = {s->text, m->at + m->len, end};
    for (struct token t = next(&c); t.kind; t = next(&c))
        if (t.kind == '@') {
            *m = (tc_mention){t.name, t.begin, t.n + 1};
            return true;
        }
    return false;
}

/* ---- Places ---- */

tc_loc tc_source_place(tc_context *cx, const tc_source *s, size_t at,
                       size_t len)
{
    tc_loc loc = {.file = tc_source_add(cx, s->name, s->text, s->len),
                  .line = 1,
                  .col = 1};
    for (size_t i = 0; i < at; i++, loc.col++)
        if (s->text[i] == '\n')
            loc.line++, loc.col = 0;
    loc.end = loc.col + (uint32_t)len;
    return loc;
}
