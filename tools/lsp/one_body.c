/* SPDX-License-Identifier: Apache-2.0
 *
 * A key typed into one body of a long text: only that body is analyzed.
 *
 * The base is the last text without errors. Functions know each other by their
 * headers and by who calls whom. While all that differs from the base lies in
 * one body and has the same calls, the other functions have no errors either.
 * A grid limits the bodies of its callees: texts whose grids call functions
 * have no base.
 */
#include "tools/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

/* ---- The base ---- */

static bool is_grid(const lsp_document *d, const tc_token *t)
{
    return t->kind == TC_TOKEN_NAME && t->len == 4 &&
           memcmp(d->text + t->at, "grid", 4) == 0;
}

static bool grids_call(const lsp_document *d)
{
    int depth = 0; /* of brackets after `grid` */
    bool inside = false;
    for (uint32_t i = 0; i < d->tokens.n; i++) {
        const tc_token *t = &d->tokens.all[i];
        bool opens = t->kind == TC_TOKEN_LPAREN || t->kind == TC_TOKEN_LBRACE;
        bool closes = t->kind == TC_TOKEN_RPAREN || t->kind == TC_TOKEN_RBRACE;
        if (inside && t->kind == TC_TOKEN_FUNC)
            return true;
        inside = (inside && (depth || opens)) || is_grid(d, t);
        depth += inside && opens;
        depth -= inside && closes;
        inside = inside && (depth || is_grid(d, t));
    }
    return false;
}

/* Without memory there is no base, and texts are analyzed as a whole. */
static void copy_base(lsp_document *d)
{
    char *copy = malloc(d->len + 1);
    free(d->base.text);
    d->base.text = copy;
    d->base.len = d->len;
    if (copy)
        memcpy(copy, d->text, d->len);
}

void lsp_keep_base(lsp_document *d)
{
    if (d->cx->diags || !d->is_linked || lsp_imports(d) || grids_call(d))
        return;
    copy_base(d);
    d->base.nfuncs = 0;
    tc_each_func (f, d->m)
        d->base.nfuncs += f->loc.file == d->file;
}

void lsp_free_base(lsp_document *d)
{
    free(d->base.text);
    d->base.text = NULL;
}

/* ---- What differs from it ---- */

typedef struct change {
    size_t from, to, base_to; /* bytes; to: in the text */
} change;

static change change_of(const lsp_document *d)
{
    const char *a = d->base.text, *b = d->text;
    size_t least = d->base.len < d->len ? d->base.len : d->len;
    size_t from = 0, same = 0;
    while (from < least && a[from] == b[from])
        from++;
    while (same < least - from &&
           a[d->base.len - same - 1] == b[d->len - same - 1])
        same++;
    if (from == d->len && from == d->base.len)
        return (change){d->base.near, d->base.near, d->base.near};
    return (change){from, d->len - same, d->base.len - same};
}

/* The next call or string outside of comments, NULL at the end. */
static const char *next_call(const char **at, const char *end)
{
    for (; *at < end; ++*at) {
        if (**at == '/' && *at + 1 < end && (*at)[1] == '/') {
            const char *stop = memchr(*at, '\n', (size_t)(end - *at));
            *at = stop ? stop : end - 1;
        } else if (**at == '@' || **at == '"') {
            return (*at)++;
        }
    }
    return NULL;
}

static size_t call_length(const char *at, const char *end)
{
    const char *stop = at;
    while (stop < end && !memchr(" \t\r\n()[]{},;=", *stop, 14))
        stop++;
    return (size_t)(stop - at);
}

static size_t line_start(const char *text, size_t at)
{
    while (at > 0 && text[at - 1] != '\n')
        at--;
    return at;
}

static size_t line_stop(const char *text, size_t len, size_t at)
{
    while (at < len && text[at] != '\n')
        at++;
    return at;
}

/* Do the changed lines call the same functions? A string may hold what looks
 * like a comment. */
static bool has_same_calls(const lsp_document *d, change c)
{
    const char *at = d->text + line_start(d->text, c.from);
    const char *end = d->text + line_stop(d->text, d->len, c.to);
    const char *base_at = d->base.text + line_start(d->base.text, c.from);
    const char *base_end =
        d->base.text + line_stop(d->base.text, d->base.len, c.base_to);
    for (;;) {
        const char *a = next_call(&at, end);
        const char *b = next_call(&base_at, base_end);
        if (!a || !b)
            return !a && !b;
        size_t n = call_length(a, end), m = call_length(b, base_end);
        if (*a == '"' || *b == '"' || n != m || memcmp(a, b, n) != 0)
            return false;
    }
}

/* ---- The body ---- */

/* False: the text must be analyzed as a whole. */
static bool analyze_body(lsp_server *s, lsp_document *d)
{
    unsigned nfuncs;
    change c = change_of(d);
    if (!has_same_calls(d, c))
        return false;
    lsp_analysis_begin(s, d);
    bool ok = d->cx->nerrors == 0 && d->is_linked;
    lsp_names_begin(d);
    tc_func *f = tc_parse_body_at(d->m, d->tokens, c.from, c.to, &nfuncs);
    lsp_names_end(d);
    if (!f || nfuncs != d->base.nfuncs || !d->is_linked || lsp_imports(d))
        return false;
    d->only = f;
    d->base.near = c.from;
    if (ok && d->cx->nerrors == 0 && tc_func_verify(f))
        copy_base(d);
    return true;
}

void lsp_update(lsp_server *s, lsp_document *d)
{
    if (!d->base.text || !analyze_body(s, d))
        lsp_analyze(s, d);
}

void lsp_analyze_rest(lsp_server *s, lsp_document *d)
{
    if (d->only)
        lsp_analyze(s, d);
}
