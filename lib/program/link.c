/* SPDX-License-Identifier: Apache-2.0
 *
 * Linking is by name and on the text: each `@name` that a text mentions and
 * does not define is looked up in the embedded texts. Of a file only the
 * needed functions are kept; the others become blanks, so that lines and
 * columns stay those of the file:
 *
 *     func @causal(...) -> i1 {          func @causal(...) -> i1 {
 *       ...                                ...
 *     }                            ->    }
 *     func @sliding_window(...)
 */
#include "lib/program/link.h"

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
        defs[i] =
            (tc_definition){copy_name(a, name), is_word(keyword, "kernel"),
                            is_word(keyword, "plan"), keyword.begin, len};
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

/* A file besides the sources and which of its functions are wanted. */
struct library_file {
    tc_source source;
    tc_definition *defs;
    bool *wanted;
    unsigned ndefs, nwanted;
};

struct linker {
    tc_arena *arena;
    struct library_file *files;
    unsigned nfiles;
    tc_definition **own; /* of each source */
    unsigned *nown, nsources;
};

/* Functions of any kernel; masks and score functions, which may use them;
 * kernels. */
enum { STD = 1 << 0, MODS = 1 << 1, KERNELS = 1 << 2 };

static int kind_of(const tc_embedded *e)
{
    return strncmp(e->name, "mods/", 5) == 0  ? MODS
           : strncmp(e->name, "std/", 4) == 0 ? STD
                                              : KERNELS;
}

static void read_file(struct linker *l, const tc_source *s)
{
    struct library_file *f = &l->files[l->nfiles++];
    f->source = *s;
    f->defs = tc_definitions(l->arena, s->text, s->len, &f->ndefs);
    f->wanted = tc_arena_array(l->arena, bool, f->ndefs);
}

static void read_files(struct linker *l, int kinds)
{
    for (const tc_embedded *e = tc_embedded_texts; e->name; e++)
        if (kind_of(e) & kinds)
            read_file(l, &(tc_source){e->file, e->text, e->len});
}

/* In that order, in which they are parsed, too: of functions with the same name
 * the first is taken. */
static void read_library(struct linker *l, const tc_texts *texts, int kinds)
{
    unsigned n = texts->nimports;
    for (const tc_embedded *e = tc_embedded_texts; e->name; e++)
        n++;
    l->files = tc_arena_array(l->arena, struct library_file, n);
    for (unsigned i = 0; i < texts->nimports; i++)
        read_file(l, &texts->imports[i]);
    for (int kind = STD; kind <= KERNELS; kind <<= 1)
        read_files(l, kinds & kind);
}

static bool same_name(const char *name, struct token t)
{
    return strncmp(name, t.name, t.n) == 0 && name[t.n] == 0;
}

static bool is_own(const struct linker *l, struct token symbol)
{
    for (unsigned i = 0; i < l->nsources; i++)
        for (unsigned j = 0; j < l->nown[i]; j++)
            if (same_name(l->own[i][j].name, symbol))
                return true;
    return false;
}

static void want_text(struct linker *l, const char *text, size_t len);

static void want(struct linker *l, struct token symbol)
{
    if (is_own(l, symbol))
        return;
    for (unsigned i = 0; i < l->nfiles; i++) {
        struct library_file *f = &l->files[i];
        for (unsigned j = 0; j < f->ndefs; j++) {
            if (!same_name(f->defs[j].name, symbol))
                continue;
            if (f->wanted[j])
                return;
            f->wanted[j] = true;
            f->nwanted++;
            want_text(l, f->source.text + f->defs[j].begin,
                      f->defs[j].end - f->defs[j].begin);
            return;
        }
    }
}

static void want_text(struct linker *l, const char *text, size_t len)
{
    struct cursor c = {text, 0, len};
    for (struct token t = next(&c); t.kind; t = next(&c))
        if (t.kind == '@')
            want(l, t);
}

static tc_source excerpt(tc_arena *a, const struct library_file *f)
{
    char *text = tc_arena_copy(a, f->source.text, f->source.len + 1);
    for (unsigned i = 0; i < f->ndefs; i++)
        for (size_t at = f->defs[i].begin; !f->wanted[i] && at < f->defs[i].end;
             at++)
            if (text[at] != '\n')
                text[at] = ' ';
    return (tc_source){f->source.name, text, f->source.len};
}

static bool has_plan(const struct linker *l)
{
    for (unsigned i = 0; i < l->nsources; i++)
        for (unsigned j = 0; j < l->nown[i]; j++)
            if (l->own[i][j].is_plan)
                return true;
    return false;
}

tc_source *tc_link(tc_arena *a, const tc_texts *texts, const char *const *names,
                   unsigned nnames, unsigned *n)
{
    const tc_source *sources = texts->sources;
    struct linker l = {.arena = a, .nsources = texts->nsources};
    l.own = tc_arena_array(a, tc_definition *, l.nsources);
    l.nown = tc_arena_array(a, unsigned, l.nsources);
    for (unsigned i = 0; i < l.nsources; i++)
        l.own[i] =
            tc_definitions(a, sources[i].text, sources[i].len, &l.nown[i]);
    read_library(&l, texts, MODS | STD | (has_plan(&l) ? KERNELS : 0));
    for (unsigned i = 0; i < l.nsources; i++)
        want_text(&l, sources[i].text, sources[i].len);
    for (unsigned i = 0; i < nnames; i++)
        want(&l, (struct token){'@', 0, names[i], strlen(names[i])});
    tc_source *out = tc_arena_array(a, tc_source, l.nfiles);
    *n = 0;
    /* An import may mention what is embedded, but not the other way round. */
    for (unsigned i = texts->nimports; i < l.nfiles; i++)
        if (l.files[i].nwanted)
            out[(*n)++] = excerpt(a, &l.files[i]);
    for (unsigned i = 0; i < texts->nimports; i++)
        if (l.files[i].nwanted)
            out[(*n)++] = excerpt(a, &l.files[i]);
    return out;
}

const char **tc_mod_names(tc_arena *a, unsigned *n)
{
    struct linker l = {.arena = a};
    read_library(&l, &(tc_texts){0}, MODS);
    *n = 0;
    for (unsigned i = 0; i < l.nfiles; i++)
        *n += l.files[i].ndefs;
    const char **names = tc_arena_array(a, const char *, *n);
    for (unsigned i = 0, k = 0; i < l.nfiles; i++)
        for (unsigned j = 0; j < l.files[i].ndefs; j++)
            names[k++] = l.files[i].defs[j].name;
    return names;
}
