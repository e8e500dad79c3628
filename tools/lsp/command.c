/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec lsp: requests, one after the other, until `exit`.
 */
#include "tools/common/commands.h"
#include "tools/editors/format.h"
#include "tools/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

static const cJSON *get(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

static const char *string_of(const cJSON *o, const char *name)
{
    return cJSON_GetStringValue(get(o, name));
}

static lsp_document *find(lsp_server *s, const cJSON *params)
{
    const char *uri = string_of(get(params, "textDocument"), "uri");
    for (unsigned i = 0; uri && i < s->ndocuments; i++)
        if (strcmp(s->documents[i].uri, uri) == 0)
            return &s->documents[i];
    return NULL;
}

/* ---- Documents ---- */

static void drop(lsp_server *s, lsp_document *d)
{
    lsp_forget(d);
    lsp_free_base(d);
    lsp_compiled_free(d);
    free(d->uri);
    free(d->text);
    free(d->lines);
    *d = s->documents[--s->ndocuments];
    /* The parser's observer holds the document's address. */
    if (d->cx)
        d->cx->name_user = d;
    if (d->cx)
        d->cx->name_seen = NULL;
}

static void did_open(lsp_server *s, const cJSON *params)
{
    const char *uri = string_of(get(params, "textDocument"), "uri");
    const char *text = string_of(get(params, "textDocument"), "text");
    if (!uri || !text || find(s, params) || s->ndocuments == LSP_MOST_DOCUMENTS)
        return;
    lsp_document *d = &s->documents[s->ndocuments];
    *d = (lsp_document){.uri = strdup(uri)};
    char *copy = strdup(text);
    if (!d->uri || !copy || !lsp_text_set(d, copy, strlen(copy)))
        longjmp(s->unwind, 1);
    s->ndocuments++;
    lsp_analyze(s, d);
    lsp_publish(d);
}

static void did_change(lsp_server *s, const cJSON *params)
{
    lsp_document *d = find(s, params);
    const cJSON *change;
    if (!d)
        return;
    lsp_forget(d);
    cJSON_ArrayForEach(change, get(params, "contentChanges"))
    {
        lsp_text_change(d, change);
    }
    lsp_update(s, d);
    lsp_publish(d);
}

/* Texts that import the file see what is new in it. */
static void did_save(lsp_server *s, const cJSON *params)
{
    for (unsigned i = 0; i < s->ndocuments; i++) {
        lsp_document *d = &s->documents[i];
        if (!lsp_imports(d))
            continue;
        lsp_analyze(s, d);
        lsp_publish(d);
    }
}

static void did_close(lsp_server *s, const cJSON *params)
{
    lsp_document *d = find(s, params);
    if (!d)
        return;
    lsp_forget(d);
    lsp_publish(d); /* without an analysis: none */
    drop(s, d);
}

/* ---- Requests ---- */

/* {"target": "sm_90a", "bindings": {"D": "128"}} */
static void configure(lsp_server *s, const cJSON *params)
{
    s->settings = cJSON_Duplicate(get(params, "initializationOptions"), true);
    const cJSON *bindings = get(s->settings, "bindings"), *b;
    const char *target = string_of(s->settings, "target");
    s->target = target ? target : "sm_90a";
    size_t n = (size_t)cJSON_GetArraySize(bindings);
    s->bindings = calloc(n + 1, sizeof *s->bindings);
    if (!s->bindings)
        longjmp(s->unwind, 1);
    cJSON_ArrayForEach(b, bindings)
    {
        if (cJSON_IsString(b) && b->string)
            s->bindings[s->nbindings++] =
                (tilec_binding){b->string, b->valuestring};
    }
}

static cJSON *capabilities(void)
{
    return cJSON_Parse(
        "{\"capabilities\":{\"positionEncoding\":\"utf-16\","
        "\"textDocumentSync\":{\"openClose\":true,\"change\":2,\"save\":true},"
        "\"hoverProvider\":true,\"definitionProvider\":true,"
        "\"referencesProvider\":true,\"renameProvider\":true,"
        "\"documentFormattingProvider\":true,"
        "\"completionProvider\":{\"triggerCharacters\":[\"%\",\"@\",\"[\"]}},"
        "\"serverInfo\":{\"name\":\"tilec\"}}");
}

/* NULL where the text has no valid form: it stays. */
static cJSON *format(lsp_document *d)
{
    tc_text out = {.arena = &d->arena};
    uint32_t source = tc_source_add(d->cx, d->uri, d->text, d->len);
    cJSON *edits = cJSON_CreateArray();
    tc_diags_clear(d->cx);
    if (!format_text(d->cx, &d->arena, source, &out) || !out.data)
        return edits;
    cJSON *edit = cJSON_CreateObject();
    cJSON_AddItemToObject(edit, "range", lsp_range(d, 0, d->len));
    cJSON_AddStringToObject(edit, "newText", out.data);
    cJSON_AddItemToArray(edits, edit);
    return edits;
}

/* Those about a place in a document. */
static const struct {
    const char *method;
    cJSON *(*run)(const lsp_server *s, lsp_document *d, size_t at);
} places[] = {{"textDocument/hover", lsp_hover},
              {"textDocument/definition", lsp_definition},
              {"textDocument/references", lsp_references},
              {"textDocument/completion", lsp_complete},
              {"textDocument/rename", NULL}}; /* lsp_rename */

static void answer_about(lsp_server *s, int which, const cJSON *id,
                         const cJSON *params)
{
    lsp_document *d = find(s, params);
    const char *why = NULL;
    size_t at;
    if (!d || !lsp_offset(d, get(params, "position"), &at)) {
        lsp_fail(id, LSP_INVALID_PARAMS,
                 d ? "expected a position" : "the document is not open");
        return;
    }
    /* One types names of values of one body. */
    if (places[which].run != lsp_complete || lsp_function_at(d, at) != d->only)
        lsp_analyze_rest(s, d);
    cJSON *result = places[which].run ? places[which].run(s, d, at)
                                      : lsp_rename(d, params, at, &why);
    if (result)
        lsp_reply(id, result);
    else
        lsp_fail(id, LSP_INVALID_PARAMS, why);
}

static void request(lsp_server *s, const cJSON *id, const char *method,
                    const cJSON *params)
{
    enum { NPLACES = sizeof places / sizeof *places };
    int which = 0;
    while (which < NPLACES && strcmp(places[which].method, method) != 0)
        which++;
    if (strcmp(method, "initialize") == 0 && !s->initialized) {
        s->initialized = true;
        configure(s, params);
        lsp_reply(id, capabilities());
    } else if (!s->initialized) {
        lsp_fail(id, LSP_NOT_INITIALIZED, "expected `initialize` first");
    } else if (s->shut_down || strcmp(method, "initialize") == 0) {
        lsp_fail(id, LSP_INVALID_REQUEST, "not at this time");
    } else if (strcmp(method, "shutdown") == 0) {
        s->shut_down = true;
        lsp_reply(id, cJSON_CreateNull());
    } else if (which < NPLACES) {
        answer_about(s, which, id, params);
    } else if (strcmp(method, "textDocument/formatting") != 0) {
        lsp_fail(id, LSP_UNKNOWN_METHOD, "there is no such method");
    } else if (find(s, params)) {
        lsp_reply(id, format(find(s, params)));
    } else {
        lsp_fail(id, LSP_INVALID_PARAMS, "the document is not open");
    }
}

static void notification(lsp_server *s, const char *method, const cJSON *params)
{
    static const struct {
        const char *method;
        void (*run)(lsp_server *s, const cJSON *params);
    } known[] = {{"textDocument/didOpen", did_open},
                 {"textDocument/didChange", did_change},
                 {"textDocument/didSave", did_save},
                 {"textDocument/didClose", did_close}};
    for (int i = 0; i < 4 && s->initialized && !s->shut_down; i++)
        if (strcmp(known[i].method, method) == 0)
            known[i].run(s, params);
}

/* False: `exit`. */
static bool handle(lsp_server *s, const char *text)
{
    cJSON *message = cJSON_Parse(text);
    const char *method = string_of(message, "method");
    const cJSON *id = get(message, "id");
    bool go_on = !method || strcmp(method, "exit") != 0;
    if (!message)
        lsp_fail(NULL, LSP_PARSE_ERROR, "the message is no JSON");
    else if (!method && !get(message, "result") && !get(message, "error"))
        lsp_fail(id, LSP_INVALID_REQUEST, "expected a method");
    else if (method && id)
        request(s, id, method, get(message, "params"));
    else if (method)
        notification(s, method, get(message, "params"));
    cJSON_Delete(message);
    return go_on;
}

static void serve(lsp_server *s)
{
    bool bad, go_on = true;
    char *text;
    while (go_on && (text = lsp_read(&bad))) {
        if (bad)
            lsp_fail(NULL, LSP_PARSE_ERROR,
                     "expected a header `Content-Length: BYTES`");
        else
            go_on = handle(s, text);
        free(text);
    }
}

static int lsp_run(const tool_args *args)
{
    lsp_server *s = calloc(1, sizeof *s);
    if (!s || setjmp(s->unwind)) {
        report("out of memory");
        return EXIT_MACHINE;
    }
    serve(s);
    while (s->ndocuments)
        drop(s, &s->documents[s->ndocuments - 1]);
    int code = s->shut_down ? EXIT_DONE : EXIT_INPUT;
    cJSON_Delete(s->settings);
    free(s->bindings);
    free(s);
    return code;
}

static const tool_option options[] = {
    {"--stdio", NULL, "the only way to talk, and the default"}, {0}};

const tool_command tool_lsp = {
    "lsp",
    "",
    "Answers editors: the language server protocol.",
    "On standard input and output: errors as one types, formatting, hover,\n"
    "definition, references, rename, completion.\n",
    options,
    lsp_run};
