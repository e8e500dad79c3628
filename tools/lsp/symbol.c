/* SPDX-License-Identifier: Apache-2.0
 *
 * Where names are defined and used. Those of values come from the parser, which
 * knows their scopes; those of functions from the tokens.
 */
#include "tools/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

size_t lsp_token_start(const tc_token *t)
{
    bool mark = t->kind == TC_TOKEN_VALUE || t->kind == TC_TOKEN_FUNC ||
                t->kind == TC_TOKEN_STRING;
    return t->at - mark;
}

const tc_token *lsp_token_at(const lsp_document *d, size_t at)
{
    const tc_token *found = NULL;
    for (uint32_t i = 0; d->cx && i + 1 < d->tokens.n; i++) {
        const tc_token *t = &d->tokens.all[i];
        if (lsp_token_start(t) > at)
            break;
        if (at <= (size_t)t->at + t->len)
            found = t;
    }
    return found;
}

const lsp_name *lsp_name_at(const lsp_document *d, const tc_token *t)
{
    for (size_t i = 0; t && t->kind == TC_TOKEN_VALUE && i < d->nnames; i++)
        if (d->names[i].at.line == t->line && d->names[i].at.col == t->col)
            return &d->names[i];
    return NULL;
}

/* ---- Functions ---- */

bool lsp_is_definition(const lsp_document *d, const tc_token *t)
{
    static const char *const words[] = {"func", "kernel", "plan", "params"};
    if (t == d->tokens.all || t[-1].kind != TC_TOKEN_NAME)
        return false;
    for (int i = 0; i < 4; i++)
        if (strlen(words[i]) == t[-1].len &&
            memcmp(words[i], d->text + t[-1].at, t[-1].len) == 0)
            return true;
    return false;
}

static bool is_same_function(const lsp_document *d, const tc_token *a,
                             const tc_token *b)
{
    return a->kind == TC_TOKEN_FUNC && a->len == b->len &&
           memcmp(d->text + a->at, d->text + b->at, a->len) == 0;
}

/* ---- Places ---- */

/* Takes each place of the symbol once. */
typedef void take_place(const lsp_document *d, cJSON *list, size_t from,
                        size_t to, const void *user);

static void take_name(const lsp_document *d, tc_loc at, cJSON *list,
                      take_place *take, const void *user)
{
    take(d, list, lsp_offset_of(d, at.line, at.col),
         lsp_offset_of(d, at.line, at.end), user);
}

/* A kernel's arguments are defined in its header, its grid and its body: their
 * definition is one place. */
static void each_value(const lsp_document *d, const lsp_name *name, cJSON *list,
                       take_place *take, const void *user)
{
    take_name(d, name->definition, list, take, user);
    for (size_t i = 0; i < d->nnames; i++) {
        const lsp_name *n = &d->names[i];
        if (tc_loc_is(n->definition, name->definition) &&
            !tc_loc_is(n->at, n->definition))
            take_name(d, n->at, list, take, user);
    }
}

static void each_function(const lsp_document *d, const tc_token *t, cJSON *list,
                          take_place *take, const void *user)
{
    for (uint32_t i = 0; i < d->tokens.n; i++) {
        const tc_token *other = &d->tokens.all[i];
        if (is_same_function(d, other, t))
            take(d, list, lsp_token_start(other), other->at + other->len, user);
    }
}

/* False: the token is no symbol. */
static bool each_place(const lsp_document *d, const tc_token *t, cJSON *list,
                       take_place *take, const void *user)
{
    const lsp_name *name = lsp_name_at(d, t);
    if (name)
        each_value(d, name, list, take, user);
    else if (t && t->kind == TC_TOKEN_FUNC)
        each_function(d, t, list, take, user);
    else
        return false;
    return true;
}

/* ---- Requests ---- */

static void add_location(const lsp_document *d, cJSON *list, size_t from,
                         size_t to, const void *user)
{
    cJSON *location = cJSON_CreateObject();
    cJSON_AddStringToObject(location, "uri", d->uri);
    cJSON_AddItemToObject(location, "range", lsp_range(d, from, to));
    cJSON_AddItemToArray(list, location);
}

/* Of a function that another file defines; lines of its text are those of the
 * file. */
static void add_foreign(const lsp_server *s, lsp_document *d, cJSON *list,
                        const tc_token *t)
{
    const char *name =
        tc_arena_printf(&d->arena, "%.*s", (int)t->len, d->text + t->at);
    const tc_func *f = tc_func_find(d->m, name);
    if (!f || !f->loc.file || f->loc.file == d->file)
        return;
    const tc_source *source = &d->cx->sources[f->loc.file - 1];
    const char *uri = lsp_uri_of(s, &d->arena, source->name);
    if (!uri)
        return;
    lsp_document there = {.uri = (char *)uri};
    char *text = strdup(source->text);
    if (!text || !lsp_text_set(&there, text, source->len))
        tc_memory_fail(&d->cx->memory);
    cJSON *location = cJSON_CreateObject();
    cJSON_AddStringToObject(location, "uri", uri);
    cJSON_AddItemToObject(location, "range", lsp_range_of(&there, f->loc));
    cJSON_AddItemToArray(list, location);
    free(there.text);
    free(there.lines);
}

/* The beginning of the file that `import "FILE"` names. */
static void add_file(const lsp_server *s, lsp_document *d, cJSON *list,
                     const tc_token *t)
{
    for (unsigned i = 0; i < d->nimports; i++) {
        const char *path = d->imports[i].name;
        tc_loc loc = lsp_import_loc(d, path);
        if (loc.line != t->line || loc.col != t->col)
            continue;
        lsp_document there = {.text = "", .nlines = 1, .lines = (size_t[]){0}};
        cJSON *location = cJSON_CreateObject();
        const char *uri = lsp_uri_of(s, &d->arena, path);
        cJSON_AddStringToObject(location, "uri", uri ? uri : path);
        cJSON_AddItemToObject(location, "range", lsp_range(&there, 0, 0));
        cJSON_AddItemToArray(list, location);
        return;
    }
}

cJSON *lsp_definition(const lsp_server *s, lsp_document *d, size_t at)
{
    const tc_token *t = lsp_token_at(d, at);
    const lsp_name *name = lsp_name_at(d, t);
    cJSON *list = cJSON_CreateArray();
    if (name)
        take_name(d, name->definition, list, add_location, NULL);
    for (uint32_t i = 0; t && t->kind == TC_TOKEN_FUNC && i < d->tokens.n;
         i++) {
        const tc_token *other = &d->tokens.all[i];
        if (is_same_function(d, other, t) && lsp_is_definition(d, other))
            add_location(d, list, lsp_token_start(other),
                         other->at + other->len, NULL);
    }
    if (t && t->kind == TC_TOKEN_FUNC && !cJSON_GetArraySize(list))
        add_foreign(s, d, list, t);
    if (t && t->kind == TC_TOKEN_STRING)
        add_file(s, d, list, t);
    return list;
}

cJSON *lsp_references(const lsp_server *s, lsp_document *d, size_t at)
{
    cJSON *list = cJSON_CreateArray();
    each_place(d, lsp_token_at(d, at), list, add_location, NULL);
    return list;
}

/* After the mark. */
static void add_edit(const lsp_document *d, cJSON *list, size_t from, size_t to,
                     const void *user)
{
    cJSON *edit = cJSON_CreateObject();
    cJSON_AddItemToObject(edit, "range", lsp_range(d, from + 1, to));
    cJSON_AddStringToObject(edit, "newText", user);
    cJSON_AddItemToArray(list, edit);
}

void lsp_add_edits(const lsp_document *d, cJSON *list, size_t at,
                   const char *name)
{
    each_place(d, lsp_token_at(d, at), list, add_edit, name);
}
