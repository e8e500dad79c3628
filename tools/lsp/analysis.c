/* SPDX-License-Identifier: Apache-2.0
 *
 * A document through parser and verifier: errors, and the names of values.
 */
#include "tools/lsp/lsp.h"

#include <string.h>

enum { MOST_ERRORS = 1000 };

static void note_name(void *user, tc_loc at, tc_loc definition,
                      const tc_value *v)
{
    lsp_document *d = user;
    if (d->nnames == d->room) {
        size_t room = d->room ? 2 * d->room : 256;
        lsp_name *more = tc_arena_array(&d->arena, lsp_name, room);
        if (d->nnames)
            memcpy(more, d->names, d->nnames * sizeof *more);
        d->names = more;
        d->room = room;
    }
    d->names[d->nnames++] = (lsp_name){at, definition, v};
}

void lsp_forget(lsp_document *d)
{
    if (d->cx) {
        tc_arena_reset(&d->arena);
        tc_module_free(d->m);
        tc_context_free(d->cx);
    }
    d->cx = NULL;
    d->m = NULL;
    d->names = NULL;
    d->imports = NULL;
    d->nimports = 0;
    d->is_linked = true;
    d->only = NULL;
    d->nnames = d->room = 0;
}

void lsp_analysis_begin(lsp_server *s, lsp_document *d)
{
    lsp_forget(d);
    d->cx = tc_context_new();
    if (!d->cx)
        longjmp(s->unwind, 1);
    d->cx->memory.unwind = &s->unwind;
    d->cx->most_errors = MOST_ERRORS;
    tc_arena_init(&d->arena, &d->cx->memory);
    d->path = lsp_path_of(&d->arena, d->uri);
    d->m = tc_module_new(d->cx);
    d->file = tc_source_add(d->cx, d->path, d->text, d->len);
    d->tokens = tc_lex(d->cx, &d->arena, d->file, d->text, d->len, (tc_loc){0});
    d->is_linked = lsp_link(s, d);
}

void lsp_names_begin(lsp_document *d)
{
    d->cx->name_seen = note_name;
    d->cx->name_user = d;
}

void lsp_names_end(lsp_document *d)
{
    d->cx->name_seen = NULL;
}

void lsp_analyze(lsp_server *s, lsp_document *d)
{
    lsp_analysis_begin(s, d);
    bool ok = d->cx->nerrors == 0;
    lsp_names_begin(d);
    ok &= tc_parse_tokens(d->m, d->tokens);
    lsp_names_end(d);
    if (ok && d->is_linked && tc_module_verify(d->m))
        lsp_keep_base(d);
}

/* An error of another file stands at the import of that file. */
static bool is_here(const lsp_document *d, tc_loc loc)
{
    return !loc.file || loc.file == d->file ||
           strcmp(d->cx->sources[loc.file - 1].name, d->path) == 0;
}

static tc_loc loc_here(const lsp_document *d, tc_loc loc)
{
    return is_here(d, loc)
               ? loc
               : lsp_import_loc(d, d->cx->sources[loc.file - 1].name);
}

static const char *message_of(const lsp_document *d, const tc_diag *diag)
{
    const tc_loc *at = &diag->loc;
    tc_arena *a = &d->cx->diag_arena;
    return is_here(d, *at) ? diag->message
                           : tc_arena_printf(a, "%s:%u:%u: %s",
                                             d->cx->sources[at->file - 1].name,
                                             at->line, at->col, diag->message);
}

static cJSON *related_of(const lsp_document *d, const tc_diag *notes)
{
    cJSON *list = cJSON_CreateArray();
    for (const tc_diag *n = notes; n; n = n->next) {
        cJSON *item = cJSON_CreateObject(), *location;
        location = cJSON_AddObjectToObject(item, "location");
        cJSON_AddStringToObject(location, "uri", d->uri);
        cJSON_AddItemToObject(location, "range",
                              lsp_range_of(d, loc_here(d, n->loc)));
        cJSON_AddStringToObject(item, "message", message_of(d, n));
        cJSON_AddItemToArray(list, item);
    }
    return list;
}

static cJSON *diagnostic_of(const lsp_document *d, const tc_diag *diag)
{
    enum { ERROR = 1 }; /* the protocol counts severities from 1 */
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToObject(item, "range",
                          lsp_range_of(d, loc_here(d, diag->loc)));
    cJSON_AddNumberToObject(item, "severity", ERROR + (int)diag->severity);
    cJSON_AddStringToObject(item, "source", "tilec");
    cJSON_AddStringToObject(item, "message", message_of(d, diag));
    if (diag->notes)
        cJSON_AddItemToObject(item, "relatedInformation",
                              related_of(d, diag->notes));
    return item;
}

/* Without an imported file its functions are not known, which is said once. */
static bool is_shown(const lsp_document *d, const tc_diag *diag)
{
    return d->is_linked || diag->is_syntax || diag->loc.file != d->file;
}

void lsp_publish(const lsp_document *d)
{
    cJSON *message = cJSON_CreateObject(), *params, *list;
    cJSON_AddStringToObject(message, "method",
                            "textDocument/publishDiagnostics");
    params = cJSON_AddObjectToObject(message, "params");
    cJSON_AddStringToObject(params, "uri", d->uri);
    list = cJSON_AddArrayToObject(params, "diagnostics");
    for (const tc_diag *i = d->cx ? d->cx->diags : NULL; i; i = i->next)
        if (is_shown(d, i))
            cJSON_AddItemToArray(list, diagnostic_of(d, i));
    lsp_write(message);
}
