/* SPDX-License-Identifier: Apache-2.0
 *
 * What a name stands for, and which names there are.
 */
#include "lib/program/link.h"
#include "tools/lsp/lsp.h"

#include <string.h>

/* ---- Hover ---- */

static const char *words_of(tc_arena *a, tc_opcode code)
{
    const tc_op_info *op = &tc_op_infos[code];
    return tc_arena_printf(a, "%s%s%s\n\n%s", op->name,
                           *op->attrs ? " attributes: " : "", op->attrs,
                           op->summary);
}

/* NULL: nothing is known. */
static const char *describe(const lsp_server *s, lsp_document *d,
                            const tc_token *t)
{
    tc_text text = {.arena = &d->arena};
    const lsp_name *name = lsp_name_at(d, t);
    if (name && name->v && name->v->type) {
        tc_text_printf(&text, "%%%.*s: %s", (int)t->len, d->text + t->at,
                       tc_type_name(d->cx, name->v->type));
        lsp_add_compiled(s, d, t, name->definition, &text);
        return text.data;
    }
    if (!t || t->kind != TC_TOKEN_NAME)
        return NULL;
    tc_opcode code = tc_opcode_parse(d->text + t->at, t->len);
    if (code == TC_OPCODE_COUNT)
        return NULL;
    tc_text_add(&text, words_of(&d->arena, code));
    lsp_add_compiled(s, d, t, (tc_loc){.line = t->line}, &text);
    return text.data;
}

cJSON *lsp_hover(const lsp_server *s, lsp_document *d, size_t at)
{
    const tc_token *t = lsp_token_at(d, at);
    const char *text = describe(s, d, t);
    if (!text)
        return cJSON_CreateNull();
    cJSON *hover = cJSON_CreateObject();
    cJSON *contents = cJSON_AddObjectToObject(hover, "contents");
    cJSON_AddStringToObject(contents, "kind", "plaintext");
    cJSON_AddStringToObject(contents, "value", text);
    cJSON_AddItemToObject(hover, "range",
                          lsp_range(d, lsp_token_start(t), t->at + t->len));
    return hover;
}

/* ---- Completion ---- */

/* The protocol's CompletionItemKind. */
enum { FUNCTION = 3, VARIABLE = 6, PROPERTY = 10, KEYWORD = 14, TYPE = 25 };

static void offer(cJSON *list, const char *label, int kind, const char *detail)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "label", label);
    cJSON_AddNumberToObject(item, "kind", kind);
    if (detail)
        cJSON_AddStringToObject(item, "detail", detail);
    cJSON_AddItemToArray(list, item);
}

const tc_func *lsp_function_at(const lsp_document *d, size_t at)
{
    const tc_func *found = NULL;
    for (const tc_func *f = d->m ? d->m->first : NULL; f; f = f->next)
        if (f->loc.file == d->file &&
            lsp_offset_of(d, f->loc.line, f->loc.col) <= at)
            found = f;
    return found;
}

/* Values defined in the function before the byte. */
static void offer_values(const lsp_document *d, cJSON *list, size_t at)
{
    const tc_func *f = lsp_function_at(d, at);
    size_t from = f ? lsp_offset_of(d, f->loc.line, f->loc.col) : 0;
    for (size_t i = 0; i < d->nnames; i++) {
        const lsp_name *n = &d->names[i];
        size_t place = lsp_offset_of(d, n->at.line, n->at.col);
        if (!tc_loc_is(n->at, n->definition) || place < from || place >= at ||
            !n->v || !n->v->name)
            continue;
        offer(list, n->v->name, VARIABLE, tc_type_name(d->cx, n->v->type));
    }
}

/* Functions of the text, of the files that it imports, and embedded mods. */
static void offer_functions(lsp_document *d, cJSON *list)
{
    unsigned n;
    for (const tc_func *f = d->m ? d->m->first : NULL; f; f = f->next)
        if (f->loc.file == d->file)
            offer(list, f->name, FUNCTION, tc_func_word(f));
    for (unsigned i = 0; i < d->nimports; i++) {
        const tc_source *file = &d->imports[i];
        tc_definition *all =
            tc_definitions(&d->arena, file->text, file->len, &n);
        for (unsigned k = 0; k < n; k++)
            offer(list, all[k].name, FUNCTION, file->name);
    }
    const char **mods = tc_mod_names(&d->arena, &n);
    for (unsigned i = 0; i < n; i++)
        offer(list, mods[i], FUNCTION, "mod of the library");
}

/* What kind of value a compile-time parameter takes, and its default. */
static const char *words_of_param(lsp_document *d, const tc_param *p)
{
    static const char *const kinds[] = {[TC_PARAM_INT] = "int",
                                        [TC_PARAM_TYPE] = "type",
                                        [TC_PARAM_FUNC] = "func"};
    const char *kind = p->is_block ? "block" : kinds[p->kind];
    tc_text text = {.arena = &d->arena};
    tc_text_add(&text, kind);
    if (p->dim || p->type || p->symbol)
        tc_text_add(&text, " = ");
    if (p->dim)
        tc_dim_print(&text, p->dim);
    else if (p->type)
        tc_text_add(&text, tc_type_name(d->cx, p->type));
    else if (p->symbol)
        tc_text_printf(&text, "@%s", p->symbol + (*p->symbol == '@'));
    return text.data;
}

/* The function in whose brackets the byte stands: @f[BM=64, */
static const tc_func *bracketed_at(lsp_document *d, size_t at)
{
    unsigned open = 0;
    for (uint32_t i = d->tokens.n; i-- > 1;) {
        const tc_token *t = &d->tokens.all[i];
        if (t->at >= at || t->kind == TC_TOKEN_END)
            continue;
        if (t->kind == TC_TOKEN_LBRACE || t->kind == TC_TOKEN_RBRACE)
            return NULL;
        open += t->kind == TC_TOKEN_RBRACKET;
        if (t->kind != TC_TOKEN_LBRACKET || (open && open--))
            continue;
        bool callee =
            t[-1].kind == TC_TOKEN_FUNC && !lsp_is_definition(d, &t[-1]);
        return callee ? tc_func_find(d->m, tc_arena_printf(&d->arena, "%.*s",
                                                           (int)t[-1].len,
                                                           d->text + t[-1].at))
                      : NULL;
    }
    return NULL;
}

static void offer_params(lsp_document *d, cJSON *list, const tc_func *f)
{
    for (unsigned i = 0; f && i < f->nparams; i++)
        offer(list, f->params[i].name, VARIABLE,
              words_of_param(d, &f->params[i]));
}

/* Of the ops that stand before the byte on its line. */
static void offer_attributes(const lsp_document *d, cJSON *list, size_t at)
{
    size_t line = at;
    while (line > 0 && d->text[line - 1] != '\n')
        line--;
    for (uint32_t i = 0; i < d->tokens.n && d->tokens.all[i].at < at; i++) {
        const tc_token *t = &d->tokens.all[i];
        tc_opcode code = t->kind == TC_TOKEN_NAME && t->at >= line
                             ? tc_opcode_parse(d->text + t->at, t->len)
                             : TC_OPCODE_COUNT;
        unsigned n = code < TC_OPCODE_COUNT ? tc_op_nattrs(code) : 0;
        for (unsigned k = 0; k < n; k++)
            offer(list, tc_op_attr_decl(code, k).name, PROPERTY,
                  tc_op_infos[code].name);
    }
}

static void offer_words(lsp_document *d, cJSON *list, size_t at)
{
    static const char *const types[] = {"tensor", "tile", "block_ptr", "ptr"};
    static const char *const keywords[] = {"func",   "kernel", "plan",
                                           "params", "import", "grid"};
    offer_params(d, list, bracketed_at(d, at));
    offer_attributes(d, list, at);
    offer_params(d, list, lsp_function_at(d, at));
    for (tc_opcode c = 0; c < TC_OPCODE_COUNT; c++)
        offer(list, tc_op_infos[c].name, FUNCTION, tc_op_infos[c].summary);
    for (tc_kind k = TC_I1; k <= TC_LAST_SCALAR; k++)
        offer(list, tc_scalar_infos[k].name, TYPE, NULL);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        offer(list, types[i], TYPE, NULL);
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        offer(list, keywords[i], KEYWORD, NULL);
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (c >= '0' && c <= '9');
}

cJSON *lsp_complete(const lsp_server *s, lsp_document *d, size_t at)
{
    cJSON *list = cJSON_CreateArray();
    size_t start = at;
    while (start > 0 && is_word(d->text[start - 1]))
        start--;
    char mark = start > 0 ? d->text[start - 1] : 0;
    if (mark == '%')
        offer_values(d, list, at);
    else if (mark == '@')
        offer_functions(d, list);
    else
        offer_words(d, list, at);
    return list;
}
