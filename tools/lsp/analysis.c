/* SPDX-License-Identifier: Apache-2.0
 *
 * A document through parser and verifier: errors, and the names of values.
 */
#include "tools/lsp/lsp.h"

#include <string.h>

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
    d->nnames = d->room = 0;
}

void lsp_analyze(lsp_server *s, lsp_document *d)
{
    lsp_forget(d);
    d->cx = tc_context_new();
    if (!d->cx)
        longjmp(s->unwind, 1);
    d->cx->memory.unwind = &s->unwind;
    d->cx->name_seen = note_name;
    d->cx->name_user = d;
    tc_arena_init(&d->arena, &d->cx->memory);
    uint32_t source = tc_source_add(d->cx, d->uri, d->text, d->len);
    d->m = tc_module_new(d->cx);
    d->tokens = tc_lex(d->cx, &d->arena, source, d->text, d->len, (tc_loc){0});
    bool lexed = d->cx->nerrors == 0;
    if (tc_parse_tokens(d->m, d->tokens) && lexed && !tc_module_verify(d->m))
        return; /* reported */
}

/* `import "FILE"` is there: its functions are not known here. */
static bool imports(const lsp_document *d)
{
    for (uint32_t i = 0; i + 1 < d->tokens.n; i++) {
        const tc_token *t = &d->tokens.all[i];
        if (t->kind == TC_TOKEN_NAME && t->len == 6 &&
            memcmp(d->text + t->at, "import", 6) == 0 &&
            t[1].kind == TC_TOKEN_STRING)
            return true;
    }
    return false;
}

static cJSON *related_of(const lsp_document *d, const tc_diag *notes)
{
    cJSON *list = cJSON_CreateArray();
    for (const tc_diag *n = notes; n; n = n->next) {
        cJSON *item = cJSON_CreateObject(), *location;
        location = cJSON_AddObjectToObject(item, "location");
        cJSON_AddStringToObject(location, "uri", d->uri);
        cJSON_AddItemToObject(location, "range", lsp_range_of(d, n->loc));
        cJSON_AddStringToObject(item, "message", n->message);
        cJSON_AddItemToArray(list, item);
    }
    return list;
}

static cJSON *diagnostic_of(const lsp_document *d, const tc_diag *diag)
{
    enum { ERROR = 1 }; /* the protocol counts severities from 1 */
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToObject(item, "range", lsp_range_of(d, diag->loc));
    cJSON_AddNumberToObject(item, "severity", ERROR + (int)diag->severity);
    cJSON_AddStringToObject(item, "source", "tilec");
    cJSON_AddStringToObject(item, "message", diag->message);
    if (diag->notes)
        cJSON_AddItemToObject(item, "relatedInformation",
                              related_of(d, diag->notes));
    return item;
}

void lsp_publish(const lsp_document *d)
{
    cJSON *message = cJSON_CreateObject(), *params, *list;
    bool syntax_only = d->cx && imports(d);
    cJSON_AddStringToObject(message, "method",
                            "textDocument/publishDiagnostics");
    params = cJSON_AddObjectToObject(message, "params");
    cJSON_AddStringToObject(params, "uri", d->uri);
    list = cJSON_AddArrayToObject(params, "diagnostics");
    for (const tc_diag *i = d->cx ? d->cx->diags : NULL; i; i = i->next)
        if (!syntax_only || i->is_syntax)
            cJSON_AddItemToArray(list, diagnostic_of(d, i));
    lsp_write(message);
}
