/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of mod expressions to a tree.
 */
#include "lib/mods/mods_tree.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parentheses and `!` recurse, and so does whoever walks the tree. */
enum { DEEPEST = 64, MOST_USES = 256 };

struct parser {
    tc_job *job;
    tc_arena *arena;
    tc_mod_expr *e;
    const char *at;
    tc_mod_node **last; /* where the next use is linked */
    unsigned depth;
    bool is_placed; /* inside of shifted(..) or mapped(..) */
};

tc_loc tc_mod_place(const tc_mod_expr *e, const char *at, size_t n)
{
    uint32_t col = (uint32_t)(at - e->text) + 1;
    return (tc_loc){
        .file = e->source, .line = 1, .col = col, .end = col + (uint32_t)n};
}

static tc_loc here(const struct parser *p, const char *at)
{
    return tc_mod_place(p->e, at, strcspn(at, " \t,|&()"));
}

static bool expected(struct parser *p, const char *what)
{
    size_t n = strcspn(p->at, " \t,|&()");
    n = *p->at && n == 0 ? 1 : n;
    if (*p->at)
        return tc_error(p->job->cx, here(p, p->at), "found `%.*s`, expected %s",
                        (int)(n > 40 ? 40 : n), p->at, what);
    return tc_error(p->job->cx, here(p, p->at),
                    "the expression ends, expected %s", what);
}

static bool eat(struct parser *p, char c)
{
    p->at += strspn(p->at, " \t");
    if (*p->at != c)
        return false;
    p->at++;
    p->at += strspn(p->at, " \t");
    return true;
}

static size_t name_length(const char *s)
{
    size_t n = 0;
    if (isalpha((unsigned char)*s) || *s == '_')
        while (isalnum((unsigned char)s[n]) || s[n] == '_')
            n++;
    return n;
}

static const char *take(struct parser *p, size_t n)
{
    const char *s = tc_string_getn(p->job->cx, p->at, n);
    p->at += n;
    return s;
}

static tc_mod_node *new_node(struct parser *p, tc_mod_node_kind kind,
                             tc_mod_node *a, tc_mod_node *b)
{
    tc_mod_node *node = tc_arena_new(p->arena, tc_mod_node);
    *node = (tc_mod_node){.kind = kind, .a = a, .b = b, .at = p->at};
    return node;
}

/* A number in full: `10`, `-1.5e3`, `inf`. */
static bool parse_number(struct parser *p, tc_number *out)
{
    const char *s = p->at;
    char *end;
    errno = 0;
    out->i = strtoll(s, &end, 0);
    bool is_int = end != s && errno == 0;
    size_t nint = is_int ? (size_t)(end - s) : 0;
    out->f = strtod(s, &end);
    size_t n = (size_t)(end - s);
    if (n == 0 && !is_int)
        return false;
    out->is_float = n > nint;
    if (!out->is_float) {
        out->f = (double)out->i;
        n = nint;
    }
    char after = s[n];
    if (isalnum((unsigned char)after) || after == '_' || after == '.')
        return false;
    p->at += n;
    return true;
}

static bool parse_value(struct parser *p, tc_mod_arg *arg)
{
    arg->is_number = parse_number(p, &arg->number);
    if (arg->is_number)
        return true;
    size_t n = name_length(p->at);
    if (n == 0)
        return expected(p, "a number, or the name of a captured buffer");
    arg->rename = take(p, n);
    bool is_true = strcmp(arg->rename, "true") == 0;
    if (is_true || strcmp(arg->rename, "false") == 0) {
        arg->is_number = true;
        arg->number = (tc_number){false, is_true, is_true};
    }
    return true;
}

static bool parse_arg(struct parser *p, tc_mod_node *use)
{
    size_t n = name_length(p->at);
    const char *start = p->at;
    const char *after = start + n + strspn(start + n, " \t");
    if (n == 0 || *after != '=')
        return expected(p, "NAME=VALUE");
    tc_mod_arg *arg = tc_arena_new(p->arena, tc_mod_arg);
    arg->at = start;
    arg->name = take(p, n);
    for (tc_mod_arg *other = use->args; other; other = other->next)
        if (other->name == arg->name)
            return tc_error(p->job->cx, here(p, start), "`%s` is given twice",
                            arg->name);
    arg->next = use->args;
    use->args = arg;
    return eat(p, '=') && parse_value(p, arg);
}

static bool parse_args(struct parser *p, tc_mod_node *use)
{
    if (eat(p, ')'))
        return true;
    do {
        if (!parse_arg(p, use))
            return false;
    } while (eat(p, ','));
    return eat(p, ')') || expected(p, "`,` or `)`");
}

/* `causal`, `@causal`, `my masks.tile@f` has no blanks: a file's name ends at
 * what could be an operator. */
static tc_mod_node *parse_use(struct parser *p)
{
    p->at += strspn(p->at, " \t");
    const char *start = p->at;
    size_t n = strcspn(start, " \t,|&!()");
    const char *sign = NULL;
    for (size_t i = 0; i < n; i++)
        if (start[i] == '@')
            sign = start + i;
    const char *name = sign ? sign + 1 : start;
    size_t len = name_length(name);
    if (len == 0 || len != (size_t)(start + n - name)) {
        expected(p, p->e->kind == TC_MOD_MASK ? "a mask function"
                                              : "a score function");
        return NULL;
    }
    if (p->e->nuses == MOST_USES) {
        tc_error(p->job->cx, here(p, start),
                 "the expression names more than %d functions", MOST_USES);
        return NULL;
    }
    tc_mod_node *use = new_node(p, TC_MOD_USE, NULL, NULL);
    if (sign && sign != start)
        use->file = tc_string_getn(p->job->cx, start, (size_t)(sign - start));
    p->at = name;
    use->name = use->symbol = take(p, len);
    use->is_placed = p->is_placed;
    if (eat(p, '(') && !parse_args(p, use))
        return NULL;
    *p->last = use;
    p->last = &use->next_use;
    p->e->nuses++;
    return use;
}

static tc_mod_node *parse_or(struct parser *p);

static tc_mod_node *parse_nested(struct parser *p, bool is_not);

static tc_mod_node *parse_steps(struct parser *p);

/* ---- shifted(..), mapped(..) ---- */

static const struct {
    const char *name;
    tc_mod_node_kind kind;
} places[] = {{"shifted", TC_MOD_SHIFTED}, {"mapped", TC_MOD_MAPPED}};

/* Whether `shifted(` or `mapped(` comes next: which of them, or -1. */
static int eat_place(struct parser *p)
{
    size_t n = name_length(p->at);
    const char *after = p->at + n + strspn(p->at + n, " \t");
    for (int i = 0; i < 2; i++)
        if (*after == '(' && n == strlen(places[i].name) &&
            memcmp(p->at, places[i].name, n) == 0) {
            p->at = after + 1;
            return i;
        }
    return -1;
}

static tc_mod_node *parse_placed(struct parser *p, int place)
{
    if (p->is_placed) {
        tc_error(p->job->cx, here(p, p->at),
                 "positions are given twice: `shifted` and `mapped` do not "
                 "nest");
        return NULL;
    }
    p->is_placed = true;
    tc_mod_node *a = p->e->kind == TC_MOD_MASK ? parse_or(p) : parse_steps(p);
    p->is_placed = false;
    if (!a || eat(p, ')'))
        return a ? new_node(p, places[place].kind, a, NULL) : NULL;
    expected(p, p->e->kind == TC_MOD_MASK ? "`&`, `|` or `)`" : "`,` or `)`");
    return NULL;
}

static tc_mod_node *parse_use_or_place(struct parser *p)
{
    p->at += strspn(p->at, " \t");
    int place = eat_place(p);
    return place < 0 ? parse_use(p) : parse_placed(p, place);
}

static tc_mod_node *parse_not(struct parser *p)
{
    bool is_not = eat(p, '!');
    if (!is_not && !eat(p, '('))
        return parse_use_or_place(p);
    if (p->depth == DEEPEST) {
        tc_error(p->job->cx, here(p, p->at),
                 "the expression is nested deeper than %d", DEEPEST);
        return NULL;
    }
    p->depth++;
    tc_mod_node *node = parse_nested(p, is_not);
    p->depth--;
    return node;
}

static tc_mod_node *parse_nested(struct parser *p, bool is_not)
{
    tc_mod_node *a = is_not ? parse_not(p) : parse_or(p);
    if (!a || is_not)
        return a ? new_node(p, TC_MOD_NOT, a, NULL) : NULL;
    if (eat(p, ')'))
        return a;
    expected(p, "`&`, `|` or `)`");
    return NULL;
}

/* One level of binary operators: operands by `sub`, joined by `sign`. */
static tc_mod_node *parse_joined(struct parser *p, char sign,
                                 tc_mod_node_kind kind,
                                 tc_mod_node *(*sub)(struct parser *))
{
    tc_mod_node *a = sub(p);
    while (a && eat(p, sign)) {
        tc_mod_node *b = sub(p);
        a = b ? new_node(p, kind, a, b) : NULL;
    }
    return a;
}

static tc_mod_node *parse_and(struct parser *p)
{
    return parse_joined(p, '&', TC_MOD_AND, parse_not);
}

static tc_mod_node *parse_or(struct parser *p)
{
    return parse_joined(p, '|', TC_MOD_OR, parse_and);
}

static tc_mod_node *parse_steps(struct parser *p)
{
    return parse_joined(p, ',', TC_MOD_THEN, parse_use_or_place);
}

bool tc_mods_parse(tc_job *job, tc_mod_kind kind, const char *text,
                   tc_mod_expr *out)
{
    const char *name = kind == TC_MOD_MASK ? "<mask>" : "<score>";
    *out = (tc_mod_expr){.kind = kind};
    out->source = tc_source_add(job->cx, name, text, strlen(text));
    out->text = job->cx->sources[out->source - 1].text;
    tc_mod_node *first = NULL;
    struct parser p = {.job = job,
                       .arena = &job->cx->arena,
                       .e = out,
                       .at = out->text,
                       .last = &first};
    out->root = kind == TC_MOD_MASK ? parse_or(&p) : parse_steps(&p);
    if (!out->root)
        return false;
    p.at += strspn(p.at, " \t");
    if (*p.at)
        return expected(&p, kind == TC_MOD_MASK ? "`&`, `|` or the end"
                                                : "`,` or the end");
    out->uses = tc_arena_array(p.arena, tc_mod_node *, out->nuses);
    unsigned i = 0;
    for (tc_mod_node *use = first; use; use = use->next_use)
        out->uses[i++] = use;
    return true;
}

const char *tc_mod_name(const tc_mod_node *use)
{
    return use->name;
}

void tc_mod_link(tc_mod_node *use, const char *symbol)
{
    use->symbol = symbol;
}

const char *tc_mod_file(const tc_mod_node *use)
{
    return use->file;
}

tc_loc tc_mod_loc(const tc_mod_expr *e, const tc_mod_node *use)
{
    return tc_mod_place(e, use->at, strlen(use->name));
}
