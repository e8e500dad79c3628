/* SPDX-License-Identifier: Apache-2.0
 *
 * Rename: which names may take the place of another, and the edits.
 */
#include "tools/lsp/lsp.h"

#include <string.h>

static bool is_name(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    size_t n = strspn(s, letters);
    while (n && s[n] && strchr("0123456789", s[n]))
        n += 1 + strspn(s + n + 1, letters);
    return n && !s[n];
}

/* `func @return` can be parsed, but says something else to a reader. Values may
 * have the name of an op: `%sum = sum(%x)`. */
static bool is_word(const char *name, bool is_value)
{
    static const char *const keywords[] = {
        "func", "kernel", "plan",  "params", "import", "grid", "for",
        "if",   "else",   "while", "call",   "launch", "true", "false",
        "inf",  "nan",    "none",  "not",    "and",    "or"};
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keywords[i], name) == 0)
            return true;
    return !is_value &&
           (tc_opcode_parse(name, strlen(name)) < TC_OPCODE_COUNT ||
            tc_kind_parse(name, strlen(name)) != TC_KIND_COUNT);
}

static bool has_text(const lsp_document *d, size_t at, size_t len,
                     const char *name)
{
    return len == strlen(name) && memcmp(d->text + at, name, len) == 0;
}

/* Another value of the function: one that is not visible today may be moved. */
static bool is_other_value(const lsp_document *d, const lsp_name *renamed,
                           const char *name)
{
    size_t here = lsp_offset_of(d, renamed->at.line, renamed->at.col);
    const tc_func *f = lsp_function_at(d, here);
    for (size_t i = 0; i < d->nnames; i++) {
        const lsp_name *n = &d->names[i];
        size_t at = lsp_offset_of(d, n->at.line, n->at.col);
        if (tc_loc_is(n->at, n->definition) &&
            !tc_loc_is(n->definition, renamed->definition) &&
            has_text(d, at + 1, n->at.end - n->at.col - 1, name) &&
            lsp_function_at(d, at) == f)
            return true;
    }
    return false;
}

static bool is_defined_here(const lsp_document *d, const char *name)
{
    for (uint32_t i = 0; i < d->tokens.n; i++) {
        const tc_token *t = &d->tokens.all[i];
        if (t->kind == TC_TOKEN_FUNC && has_text(d, t->at, t->len, name) &&
            lsp_is_definition(d, t))
            return true;
    }
    return false;
}

/* NULL: the function may have that name. */
static const char *function_refusal(lsp_document *d, const tc_token *t,
                                    const char *name)
{
    const char *old =
        tc_arena_printf(&d->arena, "%.*s", (int)t->len, d->text + t->at);
    if (!is_defined_here(d, old))
        return tc_arena_printf(&d->arena,
                               "@%s is defined in another file: rename it "
                               "there",
                               old);
    if (strcmp(old, name) != 0 &&
        (is_defined_here(d, name) || tc_func_find(d->m, name)))
        return tc_arena_printf(&d->arena, "there is a function @%s already",
                               name);
    return NULL;
}

static const char *refusal(lsp_document *d, const tc_token *t, const char *name)
{
    const lsp_name *value = lsp_name_at(d, t);
    if (!value && (!t || t->kind != TC_TOKEN_FUNC))
        return "expected a value or a function at the cursor";
    if (!is_name(name))
        return "expected a name of letters, digits and _ that begins with a "
               "letter or _";
    if (is_word(name, value != NULL))
        return tc_arena_printf(&d->arena,
                               "`%s` is a word of the language, expected "
                               "another name",
                               name);
    if (!value)
        return function_refusal(d, t, name);
    return is_other_value(d, value, name)
               ? tc_arena_printf(&d->arena,
                                 "there is a value %%%s in this function "
                                 "already",
                                 name)
               : NULL;
}

cJSON *lsp_rename(lsp_document *d, const cJSON *params, size_t at,
                  const char **why)
{
    const cJSON *word = cJSON_GetObjectItemCaseSensitive(params, "newName");
    const char *name = cJSON_IsString(word) ? word->valuestring : "";
    name += *name == '%' || *name == '@';
    *why = refusal(d, lsp_token_at(d, at), name);
    if (*why)
        return NULL;
    cJSON *result = cJSON_CreateObject();
    cJSON *changes = cJSON_AddObjectToObject(result, "changes");
    lsp_add_edits(d, cJSON_AddArrayToObject(changes, d->uri), at, name);
    return result;
}
