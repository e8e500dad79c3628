/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that a document imports, and the embedded functions that it mentions:
 * read and parsed into the document's module, before its own text.
 */
#include "lib/program/imports.h"
#include "tools/lsp/lsp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Names of files ---- */

static int hex(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c | 0x20) : NULL;
    return at && (c < 'A' || c > 'Z' || c <= 'F') ? (int)(at - digits) : -1;
}

char *lsp_path_of(tc_arena *a, const char *uri)
{
    static const char scheme[] = "file://";
    bool is_file = strncmp(uri, scheme, sizeof scheme - 1) == 0;
    char *path = tc_arena_string(a, is_file ? uri + sizeof scheme - 1 : uri);
    char *to = path;
    for (const char *from = path; *from; from++, to++) {
        int high = is_file && *from == '%' ? hex(from[1]) : -1;
        int low = high >= 0 ? hex(from[2]) : -1;
        *to = *from;
        if (low < 0 || high + low == 0)
            continue;
        *to = (char)(16 * high + low);
        from += 2;
    }
    *to = 0;
    return path;
}

static const lsp_document *open_document(const lsp_server *s, tc_arena *a,
                                         const char *path)
{
    for (unsigned i = 0; i < s->ndocuments; i++)
        if (strcmp(lsp_path_of(a, s->documents[i].uri), path) == 0)
            return &s->documents[i];
    return NULL;
}

const char *lsp_uri_of(const lsp_server *s, tc_arena *a, const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    const lsp_document *d = open_document(s, a, path);
    if (d)
        return d->uri;
    if (*path != '/')
        return NULL;
    tc_text uri = {.arena = a};
    tc_text_add(&uri, "file://");
    for (; *path; path++)
        if (strchr(plain, *path))
            tc_text_addn(&uri, path, 1);
        else
            tc_text_printf(&uri, "%%%02X", (unsigned char)*path);
    return uri.data;
}

/* ---- Texts ---- */

struct reading {
    const lsp_server *s;
    tc_arena *arena;
};

static char *read_file(const char *path)
{
    enum { MOST = 16 << 20 };
    FILE *f = fopen(path, "rb");
    char *text = f ? malloc(MOST + 1) : NULL;
    size_t n = text ? fread(text, 1, MOST + 1, f) : 0;
    bool ok = text && n <= MOST && !ferror(f);
    if (f)
        fclose(f);
    if (ok)
        text[n] = 0;
    else
        free(text);
    return ok ? text : NULL;
}

/* An editor's text of a file is newer than the file. */
static int read_text_of(void *user, const char *path, char **text)
{
    const struct reading *r = user;
    const lsp_document *d = open_document(r->s, r->arena, path);
    *text = d ? strdup(d->text) : read_file(path);
    return *text != NULL;
}

/* ---- Documents ---- */

static bool is_import(const lsp_document *d, const tc_token *t)
{
    return t->kind == TC_TOKEN_NAME && t->len == 6 &&
           memcmp(d->text + t->at, "import", 6) == 0 &&
           t[1].kind == TC_TOKEN_STRING;
}

bool lsp_imports(const lsp_document *d)
{
    for (uint32_t i = 0; i + 1 < d->tokens.n; i++)
        if (is_import(d, &d->tokens.all[i]))
            return true;
    return false;
}

/* Whether the text names functions that it does not define. Reading others
 * takes time, and most keys are typed into texts that need none. */
static bool mentions_others(lsp_document *d)
{
    tc_map defined = {.arena = &d->arena};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < d->tokens.n; i++) {
            const tc_token *t = &d->tokens.all[i];
            if (t->kind != TC_TOKEN_FUNC)
                continue;
            const char *name = tc_string_getn(d->cx, d->text + t->at, t->len);
            if (pass == 0 && lsp_is_definition(d, t))
                tc_map_set(&defined, name, d);
            else if (pass == 1 && !tc_map_get(&defined, name))
                return true;
        }
    return false;
}

bool lsp_link(const lsp_server *s, lsp_document *d)
{
    tc_arena *a = &d->cx->arena;
    tc_job job = {.cx = d->cx};
    struct reading reading = {s, a};
    tc_reader reader = {read_text_of, &reading};
    tc_source source = {.name = d->path, .text = d->text, .len = d->len};
    if (!lsp_imports(d) && !mentions_others(d))
        return true;
    tc_texts texts = tc_texts_new(a, &source, 1);
    bool ok = tc_texts_import(&job, &reader, &texts);
    d->imports = texts.imports;
    d->nimports = texts.nimports;
    unsigned n;
    tc_source *all = tc_link(d->cx, &texts, NULL, 0, &n);
    for (unsigned i = 0; all && i < n; i++) {
        uint32_t file =
            tc_source_add(d->cx, all[i].name, all[i].text, all[i].len);
        tc_source_alias(d->cx, file, &all[i]);
        ok &= tc_parse(d->m, file);
    }
    tc_source_alias(d->cx, d->file, &source);
    return ok && all;
}

tc_loc lsp_import_loc(const lsp_document *d, const char *path)
{
    tc_loc first = {0};
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (uint32_t i = 0; i + 1 < d->tokens.n; i++) {
        const tc_token *t = &d->tokens.all[i + 1];
        if (!is_import(d, t - 1))
            continue;
        tc_loc loc = {.line = t->line, .col = t->col, .end = tc_token_end(t)};
        size_t n = strlen(name);
        if (t->len >= n && memcmp(d->text + t->at + t->len - n, name, n) == 0)
            return loc;
        first = first.line ? first : loc;
    }
    return first;
}
