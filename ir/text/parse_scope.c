/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/text/parse.h"

#include <string.h>

const tc_func tc_broken_func;

unsigned tc_scope_open(tc_parser *p)
{
    return p->scope.n;
}

void tc_scope_close(tc_parser *p, unsigned mark)
{
    while (p->scope.n > mark)
        p->scope.visible[--p->scope.n]->visible = false;
}

static void make_visible(tc_parser *p, tc_scope_name *name)
{
    tc_scope *s = &p->scope;
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        tc_scope_name **more =
            tc_arena_array(p->arena, tc_scope_name *, s->room);
        if (s->n)
            memcpy(more, s->visible, s->n * sizeof *more);
        s->visible = more;
    }
    s->visible[s->n++] = name;
    name->visible = true;
}

static tc_scope_name *parse_scope_find(tc_parser *p, const tc_token *t)
{
    return tc_map_get(&p->scope.names, tc_parser_text(p, t));
}

static void seen(const tc_parser *p, tc_loc at, const tc_scope_name *name)
{
    if (p->cx->name_seen)
        p->cx->name_seen(p->cx->name_user, at, name->loc, name->v);
}

void tc_scope_define(tc_parser *p, const tc_token *t, tc_value *v)
{
    tc_loc loc = tc_parser_loc_of(p, t);
    const char *text = tc_parser_text(p, t);
    tc_scope_name *name = parse_scope_find(p, t);
    if (name && name->visible) {
        if (name->v && v) {
            tc_error(p->cx, loc,
                     "%%%s is defined already, and a name stands "
                     "for one value",
                     text);
            tc_note(p->cx, name->loc, "%%%s is defined here", text);
        }
        if (!name->v)
            name->v = v;
        seen(p, loc, name);
        return;
    }
    if (!name) {
        name = tc_arena_new(p->arena, tc_scope_name);
        name->name = text;
        tc_map_set(&p->scope.names, text, name);
    }
    name->v = v;
    name->loc = loc;
    make_visible(p, name);
    seen(p, loc, name);
}

void tc_scope_poison(tc_parser *p, const tc_token *t)
{
    tc_scope_name *name = parse_scope_find(p, t);
    if (!name || !name->visible)
        tc_scope_define(p, t, NULL);
}

static void report_unknown(tc_parser *p, const tc_token *t)
{
    tc_scope *s = &p->scope;
    const char *text = tc_parser_text(p, t);
    const tc_scope_name *ended = parse_scope_find(p, t);
    tc_loc loc = tc_parser_loc_of(p, t);
    if (p->cx->nerrors >= p->cx->most_errors) {
        tc_error(p->cx, loc, "%%%s is not defined", text);
    } else if (ended) {
        tc_error(p->cx, loc,
                 "%%%s is not visible here: yield it from the "
                 "region that defines it",
                 text);
        tc_note(p->cx, ended->loc, "%%%s is defined here", text);
    } else {
        const char **names = tc_arena_array(p->arena, const char *, s->n);
        unsigned n = 0;
        for (unsigned i = 0; i < s->n; i++)
            if (s->visible[i]->v)
                names[n++] = s->visible[i]->name;
        const char *near = tc_nearest_name(text, names, n);
        tc_error(p->cx, loc, "%%%s is not defined%s%s%s", text,
                 near ? "; did you mean `%" : "", near ? near : "",
                 near ? "`?" : "");
    }
}

tc_operand tc_scope_find(tc_parser *p, const tc_token *t)
{
    tc_loc loc = tc_parser_loc_of(p, t);
    const tc_scope_name *name = parse_scope_find(p, t);
    if (name && name->visible) {
        seen(p, loc, name);
        return tc_operand_value(name->v, loc);
    }
    report_unknown(p, t);
    /* Once is enough. */
    tc_scope_define(p, t, NULL);
    return tc_operand_poison(loc);
}

bool tc_scope_has(tc_parser *p, const tc_token *t)
{
    const tc_scope_name *name = parse_scope_find(p, t);
    return name && name->visible;
}

const char *tc_scope_hint(tc_parser *p, const tc_token *t)
{
    const char *text = tc_parser_text(p, t);
    return text[strspn(text, "0123456789")] ? text : NULL;
}

const char *tc_did_you_mean(tc_parser *p, const char *got, unsigned n,
                            const char *const *names)
{
    /* Not worth the time for errors that nobody will see. */
    if (p->cx->nerrors >= p->cx->most_errors)
        return "";
    const char *near = tc_nearest_name(got, names, n);
    return near ? tc_arena_printf(p->arena, "; did you mean `%s`?", near) : "";
}

const tc_param *tc_parser_param(const tc_parser *p, const tc_token *t)
{
    if (!p->f || t->kind != TC_TOKEN_NAME)
        return NULL;
    for (unsigned i = 0; i < p->f->nparams; i++) {
        const char *name = p->f->params[i].name;
        if (strlen(name) == t->len &&
            memcmp(name, p->tokens.text + t->at, t->len) == 0)
            return &p->f->params[i];
    }
    return NULL;
}

const tc_param *tc_parser_param_of_kind(const tc_parser *p, const tc_token *t,
                                        tc_param_kind kind)
{
    const tc_param *param = tc_parser_param(p, t);
    return param && param->kind == kind ? param : NULL;
}
