/* SPDX-License-Identifier: Apache-2.0
 *
 * What the last compile made of a line: layouts and remarks. A kernel is
 * compiled, up to code generation, when one asks about its text for the first
 * time. While the text has errors, lines that stay as they were keep what the
 * compile before said.
 */
#include "lib/inspect/lines.h"
#include "tools/common/commands.h"
#include "tools/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

void lsp_compiled_free(lsp_document *d)
{
    cJSON_Delete(d->compiled.lines);
    free(d->compiled.text);
    free(d->compiled.kernel);
    d->compiled.lines = NULL;
    d->compiled.text = d->compiled.kernel = NULL;
}

/* ---- A compile ---- */

/* The kernel that holds the byte, else the first one of the text. */
static const tc_func *kernel_at(const lsp_document *d, size_t at)
{
    const tc_func *f = lsp_function_at(d, at);
    if (f && f->is_kernel)
        return f;
    for (f = d->m->first; f; f = f->next)
        if (f->is_kernel && f->loc.file == d->file)
            return f;
    return NULL;
}

/* {"lines": ..} without lines: "error" says why. */
static cJSON *compile(const lsp_server *s, const lsp_document *d,
                      const tc_func *kernel)
{
    tilec_context_options none = TILEC_INIT(tilec_context_options);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_source source = tilec_text(d->path, d->text, d->len);
    tilec_context *cx;
    char *json = NULL;
    cJSON *lines = NULL;
    o.kernel = kernel->name;
    o.target = s->target;
    o.bindings = s->bindings;
    o.nbindings = s->nbindings;
    o.read_source = read_source;
    if (tilec_context_new(&none, &cx))
        return NULL;
    if (tc_inspect_lines(cx, &source, &o, &json) == TILEC_OK)
        lines = cJSON_Parse(json);
    const tilec_diagnostic *e = tilec_diagnostics(cx);
    if (!lines && e) {
        lines = cJSON_CreateObject();
        cJSON_AddStringToObject(lines, "kernel", kernel->name);
        cJSON_AddStringToObject(lines, "target", s->target);
        cJSON_AddStringToObject(lines, "error", e->message);
    }
    tilec_free(json);
    tilec_context_free(cx);
    return lines;
}

static bool is_compiled(const lsp_document *d, const char *kernel)
{
    return d->compiled.lines && d->compiled.len == d->len &&
           memcmp(d->compiled.text, d->text, d->len) == 0 &&
           strcmp(d->compiled.kernel, kernel) == 0;
}

static void compile_again(const lsp_server *s, lsp_document *d, size_t at)
{
    const tc_func *kernel = d->cx->nerrors ? NULL : kernel_at(d, at);
    if (!kernel || is_compiled(d, kernel->name))
        return;
    lsp_compiled_free(d);
    d->compiled.lines = compile(s, d, kernel);
    d->compiled.kernel = strdup(kernel->name);
    d->compiled.text = malloc(d->len + 1);
    if (!d->compiled.text || !d->compiled.kernel) {
        lsp_compiled_free(d);
        return;
    }
    memcpy(d->compiled.text, d->text, d->len);
    d->compiled.text[d->len] = 0;
    d->compiled.len = d->len;
}

/* ---- A line of it ---- */

static const char *line_of(const char *text, unsigned line, size_t *n)
{
    while (line-- > 1) {
        const char *end = strchr(text, '\n');
        if (!end)
            return NULL;
        text = end + 1;
    }
    *n = strcspn(text, "\n");
    return text;
}

static bool is_as_compiled(const lsp_document *d, unsigned line)
{
    size_t n, m;
    const char *a = line_of(d->text, line, &n);
    const char *b = line_of(d->compiled.text, line, &m);
    return a && b && n == m && memcmp(a, b, n) == 0;
}

static unsigned line_number(const cJSON *item)
{
    return (unsigned)cJSON_GetNumberValue(
        cJSON_GetObjectItemCaseSensitive(item, "line"));
}

static const char *string_of(const cJSON *item, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, name));
}

/* Copies of %x in other roles and stages are %x_1, %x_2. */
static bool is_name(const char *compiled, const tc_token *t, const char *text)
{
    return compiled && strncmp(compiled, text + t->at, t->len) == 0 &&
           (!compiled[t->len] ||
            (compiled[t->len] == '_' &&
             !compiled[t->len + 1 +
                       strspn(compiled + t->len + 1, "0123456789")]));
}

/* Of a value by its name, else by the last one that its line makes. */
static const char *type_of(const lsp_document *d, const tc_token *t,
                           unsigned line)
{
    const char *type = NULL;
    bool named = false;
    cJSON *v;
    cJSON_ArrayForEach(
        v, cJSON_GetObjectItemCaseSensitive(d->compiled.lines, "values"))
    {
        bool is = is_name(string_of(v, "name"), t, d->text);
        if (line_number(v) != line || (named && !is))
            continue;
        named |= is;
        type = string_of(v, "type");
    }
    return type;
}

static void add_remarks(const lsp_document *d, tc_text *out, unsigned line)
{
    cJSON *r;
    cJSON_ArrayForEach(
        r, cJSON_GetObjectItemCaseSensitive(d->compiled.lines, "remarks"))
    {
        if (line_number(r) == line)
            tc_text_printf(
                out, "\n%s%s",
                cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(r, "missed"))
                    ? "missed: "
                    : "",
                string_of(r, "message"));
    }
}

void lsp_add_compiled(const lsp_server *s, lsp_document *d, const tc_token *t,
                      tc_loc definition, tc_text *out)
{
    compile_again(s, d, t->at);
    const cJSON *all = d->compiled.lines;
    if (!all || !is_as_compiled(d, definition.line) ||
        !is_as_compiled(d, t->line))
        return;
    const char *error = string_of(all, "error"), *type = NULL;
    if (t->kind == TC_TOKEN_VALUE)
        type = type_of(d, t, definition.line);
    tc_text said = {.arena = &d->arena};
    add_remarks(d, &said, t->line);
    if (!error && !type && !said.len)
        return;
    tc_text_printf(out, "\n\n@%s for %s:", string_of(all, "kernel"),
                   string_of(all, "target"));
    if (error)
        tc_text_printf(out, " not compiled: %s", error);
    if (type)
        tc_text_printf(out, "\n%s", type);
    if (said.len)
        tc_text_add(out, said.data);
}
