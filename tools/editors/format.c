/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines: where each begins. The rest of a line is spacing.c.
 */
#include "tools/editors/format.h"

#include <string.h>

enum { LEVEL = 2, CONTINUED = 4, MOST_BLANK_LINES = 1 };

/* A column in the text as it was, and as it becomes. */
typedef struct column {
    uint32_t old, new;
} column;

/* A bracket that is open; `<` of a type, too. */
typedef struct open_bracket {
    uint8_t kind;
    bool is_last;     /* nothing follows it on its line */
    column line;      /* the indentation of its line */
    column after;     /* of what follows it */
    column statement; /* of `{`: of the statement that it is part of */
    uint32_t level;   /* of `{`: the indentation of what is in it */
    uint32_t closed;  /* .. and of its `}` */
} open_bracket;

typedef struct formatter {
    tc_context *cx;
    tc_arena *arena;
    pieces t;
    tc_text *out;
    open_bracket *open;
    uint32_t nopen, room;
    const piece *prev, *before; /* the two tokens before: no comments */
    bool prev_is_prefix, prev_is_key, prev_opens_type;
    column statement, line; /* indentation of the latest */
    const piece *statement_first;
    column operands, right; /* of the statement: after its word, after `=` */
    size_t line_start;      /* in out */
} formatter;

static const open_bracket *innermost(const formatter *f)
{
    return f->nopen ? &f->open[f->nopen - 1] : NULL;
}

/* `(` or `[`; not `{`, and not the `<` of a type. */
static bool is_list(const open_bracket *b)
{
    return b && (b->kind == TC_TOKEN_LPAREN || b->kind == TC_TOKEN_LBRACKET);
}

static const open_bracket *innermost_block(const formatter *f)
{
    for (uint32_t i = f->nopen; i-- > 0;)
        if (f->open[i].kind == TC_TOKEN_LBRACE)
            return &f->open[i];
    return NULL;
}

static bool in_list(const formatter *f)
{
    for (uint32_t i = f->nopen; i-- > 0;)
        if (f->open[i].kind != TC_TOKEN_LT)
            return is_list(&f->open[i]);
    return false;
}

/* ---- Where a line begins ---- */

/* Of a line that continues a list: one of the places that an author may choose,
 * if he did, else below the first item. */
static uint32_t indent_in_list(const formatter *f, const open_bracket *b,
                               uint32_t old)
{
    column places[] = {
        {f->statement.old + CONTINUED, f->statement.new + CONTINUED},
        {b->line.old + CONTINUED, b->line.new + CONTINUED},
        b->after};
    unsigned n = b->is_last ? 2 : 3;
    for (unsigned i = 0; i < n; i++)
        if (places[i].old == old)
            return places[i].new;
    return b->is_last ? places[0].new : places[2].new;
}

/* The same outside of all lists. */
static uint32_t indent_in_statement(const formatter *f, uint32_t old)
{
    if (old == f->statement.old)
        return f->statement.new + CONTINUED;
    return old == f->operands.old ? f->operands.new
           : old == f->right.old  ? f->right.new
                                  : f->statement.new + CONTINUED;
}

static bool is_block_word(const piece *p)
{
    return piece_is(p, "else") || piece_is(p, "do") ||
           piece_is(p, "consumer") || piece_is(p, "transposer");
}

/* The indentation of a line that begins with token i; *begins: a statement
 * does. */
static uint32_t indent_of_token(const formatter *f, uint32_t i, bool *begins)
{
    const piece *p = &f->t.all[i];
    const open_bracket *b = innermost(f), *block = innermost_block(f);
    uint32_t level = block ? block->level : 0;
    *begins = false;
    if (p->kind == TC_TOKEN_RBRACE && block)
        return block->closed;
    if (b && b->kind != TC_TOKEN_LBRACE) {
        if (piece_closes(p))
            return b->line.new;
        return indent_in_list(f, b, p->col);
    }
    if (p->kind == TC_TOKEN_END)
        return level;
    *begins = pieces_begin(&f->t, i, f->prev, b == NULL);
    if (*begins)
        return level;
    if (p->kind == TC_TOKEN_LBRACE ||
        (f->prev && f->prev->kind == TC_TOKEN_RBRACE && is_block_word(p)))
        return f->statement.new;
    return indent_in_statement(f, p->col);
}

/* Comments stand where the line after them begins; the last of a block, in it.
 */
static uint32_t indent_of_line(const formatter *f, uint32_t i, bool *begins)
{
    uint32_t token = pieces_token(&f->t, i);
    const piece *p = &f->t.all[token];
    const open_bracket *block = innermost_block(f);
    if (token == i)
        return indent_of_token(f, i, begins);
    *begins = false;
    bool ends_block = p->kind == TC_TOKEN_RBRACE || p->kind == TC_TOKEN_END;
    if (ends_block && !is_list(innermost(f)))
        return block ? block->level : 0;
    if (is_list(innermost(f)))
        return indent_in_list(f, innermost(f), f->t.all[i].col);
    bool unused;
    return indent_of_token(f, token, &unused);
}

/* ---- Brackets ---- */

/* `grid {` is a block of its line, if that is indented like a clause; others
 * belong to the statement. */
static column block_base(const formatter *f)
{
    bool grid = f->prev && piece_is(f->prev, "grid");
    return grid && f->line.new <= f->statement.new + CONTINUED ? f->line
                                                               : f->statement;
}

static void open_at(formatter *f, uint32_t i, uint8_t kind, uint32_t end_col)
{
    const piece *p = &f->t.all[i];
    if (f->nopen == f->room) {
        f->room = f->room ? 2 * f->room : 32;
        open_bracket *more = tc_arena_array(f->arena, open_bracket, f->room);
        if (f->nopen)
            memcpy(more, f->open, f->nopen * sizeof *more);
        f->open = more;
    }
    column base = block_base(f);
    f->open[f->nopen++] = (open_bracket){.kind = kind,
                                         .is_last = p[1].newlines > 0 ||
                                                    p[1].kind == PIECE_COMMENT,
                                         .line = f->line,
                                         .after = {p->col + 1, end_col},
                                         .statement = f->statement,
                                         .level = base.new + LEVEL,
                                         .closed = base.new};
}

static void close_types(formatter *f, unsigned n)
{
    while (n-- && f->nopen && innermost(f)->kind == TC_TOKEN_LT)
        f->nopen--;
}

static unsigned count_of_closed(const piece *p)
{
    return p->kind == TC_TOKEN_GT     ? 1
           : p->kind == TC_TOKEN_SHR  ? 2
           : p->kind == TC_TOKEN_SHRU ? 3
                                      : 0;
}

static bool closes_type(const formatter *f, const piece *p)
{
    unsigned n = count_of_closed(p);
    return n && f->nopen >= n && f->open[f->nopen - n].kind == TC_TOKEN_LT &&
           innermost(f)->kind == TC_TOKEN_LT;
}

static uint8_t partner(uint8_t closing)
{
    return closing == TC_TOKEN_RPAREN     ? TC_TOKEN_LPAREN
           : closing == TC_TOKEN_RBRACKET ? TC_TOKEN_LBRACKET
                                          : TC_TOKEN_LBRACE;
}

/* What a token opens and closes. */
static void follow_brackets(formatter *f, uint32_t i, bool opens_type)
{
    const piece *p = &f->t.all[i];
    uint32_t end_col = (uint32_t)(f->out->len - f->line_start);
    if (piece_opens(p) || opens_type) {
        open_at(f, i, opens_type ? TC_TOKEN_LT : p->kind, end_col);
    } else if (closes_type(f, p)) {
        close_types(f, count_of_closed(p));
    } else if (piece_closes(p)) {
        close_types(f, f->nopen); /* a comparison that looked like a type */
        if (!innermost(f) || innermost(f)->kind != partner(p->kind))
            return;
        if (p->kind == TC_TOKEN_RBRACE)
            f->statement = innermost(f)->statement;
        f->nopen--;
    }
}

/* ---- Pieces ---- */

static void begin_line(formatter *f, uint32_t i)
{
    const piece *p = &f->t.all[i];
    bool begins, ends = p->kind == TC_TOKEN_END;
    bool in_front = f->out->len == 0; /* of the text */
    const piece *last = i ? &f->t.all[i - 1] : NULL;
    uint32_t indent = indent_of_line(f, i, &begins);
    bool blank = p->newlines > MOST_BLANK_LINES && !ends && last &&
                 last->kind != TC_TOKEN_LBRACE && p->kind != TC_TOKEN_RBRACE;
    if (!in_front)
        tc_text_add(f->out, blank ? "\n\n" : "\n");
    if (ends)
        return;
    f->line_start = f->out->len;
    for (uint32_t k = 0; k < indent; k++)
        tc_text_add(f->out, " ");
    if (p->kind == PIECE_COMMENT)
        return;
    f->line = (column){p->col, indent};
    if (!begins && (p->kind != TC_TOKEN_LBRACE || f->nopen))
        return;
    f->statement = (column){p->col, indent};
    f->statement_first = p;
    f->operands = f->right = f->statement;
}

/* A statement after another one on its line is set apart. */
static bool begins_within_line(const formatter *f, uint32_t i)
{
    const open_bracket *b = innermost(f);
    return (!b || b->kind == TC_TOKEN_LBRACE) && f->prev &&
           piece_ends_operand(f->prev) && f->prev->kind != TC_TOKEN_RBRACE &&
           pieces_at_definition(&f->t, i);
}

static uint32_t blanks_before(const formatter *f, uint32_t i, bool opens_type)
{
    const piece *p = &f->t.all[i];
    if (p->kind == PIECE_COMMENT) /* a column of them stays one */
        return p->blanks ? p->blanks : 1;
    if (begins_within_line(f, i))
        return p->blanks > 1 ? 3 : 1;
    format_spacing s = {.a_is_prefix = f->prev_is_prefix,
                        .a_is_key = f->prev_is_key,
                        .a_opens_type = f->prev_opens_type,
                        .b_opens_type = opens_type,
                        .b_closes_type = closes_type(f, p),
                        .in_list = in_list(f),
                        .before_a = f->before};
    return format_blanks(&f->t, i, &s);
}

/* Where a line that continues the statement may begin. */
static void note_column(formatter *f, const piece *p)
{
    column here = {p->col, (uint32_t)(f->out->len - f->line_start)};
    const open_bracket *b = innermost(f);
    if (p->kind == PIECE_COMMENT || (b && b->kind != TC_TOKEN_LBRACE))
        return;
    if (f->prev && f->prev == f->statement_first)
        f->operands = here;
    else if (f->prev && f->prev->kind == TC_TOKEN_ASSIGN)
        f->right = here;
}

static void put(formatter *f, uint32_t i)
{
    const piece *p = &f->t.all[i];
    bool is_token = p->kind != PIECE_COMMENT;
    bool opens_type = is_token && format_opens_type(p, f->prev);
    bool is_prefix = is_token && format_is_prefix(p, f->prev);
    bool is_key = is_token && format_is_key(&f->t, i, in_list(f));
    bool comment_before = i && f->t.all[i - 1].kind == PIECE_COMMENT;
    if (p->newlines || comment_before || i == 0)
        begin_line(f, i);
    else
        for (uint32_t n = blanks_before(f, i, opens_type); n--;)
            tc_text_add(f->out, " ");
    note_column(f, p);
    tc_text_addn(f->out, p->s, p->len);
    if (!is_token)
        return;
    follow_brackets(f, i, opens_type);
    f->before = f->prev;
    f->prev = p;
    f->prev_is_prefix = is_prefix;
    f->prev_is_key = is_key;
    f->prev_opens_type = opens_type;
}

/* ---- The form of the text ---- */

static tc_loc loc_of(const formatter *f, uint32_t source, const piece *p)
{
    const tc_source *s = &f->cx->sources[source - 1];
    tc_loc loc = {.file = source, .line = 1, .col = p->col + 1};
    for (const char *c = s->text; c < p->s; c++)
        loc.line += *c == '\n';
    loc.end = loc.col + p->len;
    return loc;
}

/* Each bracket has its partner. */
static bool check_brackets(formatter *f, uint32_t source)
{
    const pieces *t = &f->t;
    const piece **open = tc_arena_array(f->arena, const piece *, t->n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        const piece *p = &t->all[i];
        if (piece_opens(p))
            open[n++] = p;
        if (piece_closes(p) && (n == 0 || open[--n]->kind != partner(p->kind)))
            return tc_error(f->cx, loc_of(f, source, p),
                            "`%.*s` closes nothing that is open", (int)p->len,
                            p->s);
    }
    return n == 0 || tc_error(f->cx, loc_of(f, source, open[n - 1]),
                              "`%.*s` is never closed", (int)open[n - 1]->len,
                              open[n - 1]->s);
}

/* Keeps errors of form. */
static void keep_syntax_errors(tc_context *cx)
{
    tc_diag **at = &cx->diags;
    cx->last_diag = NULL;
    cx->nerrors = 0;
    while (*at) {
        if ((*at)->is_syntax) {
            cx->last_diag = *at;
            cx->nerrors++;
            at = &(*at)->next;
        } else {
            *at = (*at)->next;
        }
    }
}

/* The errors that the parser has for the text. */
static bool parse(formatter *f, uint32_t source)
{
    tc_diags_clear(f->cx);
    tc_module *m = tc_module_new(f->cx);
    bool ok = tc_parse(m, source);
    tc_module_free(m);
    return ok;
}

/* *valid: the parser has no errors, of form or other. */
static bool check_form(formatter *f, uint32_t source, bool *valid)
{
    *valid = parse(f, source);
    if (*valid)
        return true;
    keep_syntax_errors(f->cx);
    if (f->cx->nerrors)
        return false;
    tc_diags_clear(f->cx);
    return check_brackets(f, source);
}

static tc_text formatted(formatter *f)
{
    tc_text text = {.arena = f->arena};
    f->out = &text;
    tc_text_add(&text, "");
    for (uint32_t i = 0; i < f->t.n; i++)
        put(f, i);
    return text;
}

/* The same tokens, so the same program: what has been moved is blanks. */
static bool is_same(const pieces *a, const pieces *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++) {
        const piece *x = &a->all[i], *y = &b->all[i];
        bool call =
            i && x->kind == TC_TOKEN_LPAREN && x[-1].kind == TC_TOKEN_NAME;
        same = x->kind == y->kind && x->len == y->len &&
               memcmp(x->s, y->s, x->len) == 0 &&
               (!call || x->glued == y->glued);
    }
    return same;
}

/* Formatted once more it stays as it is. */
static bool is_stable(const formatter *f, uint32_t source)
{
    formatter g = {.cx = f->cx, .arena = f->arena};
    bool unused;
    g.t = pieces_of(g.cx, g.arena, source);
    bool ok = g.cx->nerrors == 0 && check_form(&g, source, &unused);
    tc_diags_clear(g.cx);
    if (!ok)
        return false;
    tc_text text = formatted(&g);
    const tc_source *s = &g.cx->sources[source - 1];
    return text.len == s->len && memcmp(text.data, s->text, text.len) == 0;
}

/* A text with errors, though none of form, may be one whose tokens do not tell
 * its lines (`%a &= %b`): where the result would not last, its errors are the
 * answer. */
bool format_text(tc_context *cx, tc_arena *a, uint32_t source, tc_text *out)
{
    formatter f = {.cx = cx, .arena = a};
    bool valid;
    f.t = pieces_of(cx, a, source);
    if (cx->nerrors || !check_form(&f, source, &valid))
        return false;
    tc_text text = formatted(&f);
    uint32_t again =
        tc_source_add(cx, cx->sources[source - 1].name, text.data, text.len);
    pieces t = pieces_of(cx, a, again);
    bool same = is_same(&f.t, &t);
    if (!same && valid)
        return tc_error(cx, (tc_loc){.file = source, .line = 1, .col = 1},
                        "fmt would change the program: this is a bug in "
                        "tilec");
    if (!valid && (!same || !is_stable(&f, again)))
        return parse(&f, source);
    tc_text_addn(out, text.data, text.len);
    return true;
}
