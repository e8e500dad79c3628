/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/render.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOLD  "\033[1m"
#define RESET "\033[0m"

static const struct {
    const char *word, *color;
} severities[] = {
    [TC_ERROR] = {"error", "\033[1;31m"},
    [TC_WARNING] = {"warning", "\033[1;35m"},
    [TC_REMARK] = {"remark", "\033[1;34m"},
    [TC_NOTE] = {"note", "\033[1;36m"},
};

bool render_wants_color(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");
    return isatty(fileno(out)) && !(no_color && *no_color);
}

static const tc_source *source_of(const tc_context *cx, tc_loc loc)
{
    return loc.file && loc.file <= cx->nsources ? &cx->sources[loc.file - 1]
                                                : NULL;
}

/* The text of a line, without its end; *n is its length. */
static const char *find_line(const tc_source *s, uint32_t line, size_t *n)
{
    const char *at = s->text, *end = s->text + s->len;
    while (--line) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline)
            return NULL;
        at = newline + 1;
    }
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    *n = (size_t)((newline ? newline : end) - at);
    return at;
}

/* Blank up to the column: tabs stay, other characters become a blank each
 * (bytes 10xxxxxx continue a UTF-8 character). */
static void put_caret(FILE *out, const char *line, size_t n, uint32_t col,
                      bool color)
{
    for (size_t i = 0; i + 1 < col && i < n; i++)
        if (((unsigned char)line[i] & 0xc0) != 0x80)
            fputc(line[i] == '\t' ? '\t' : ' ', out);
    fprintf(out, "%s^%s\n", color ? "\033[1;32m" : "", color ? RESET : "");
}

/* A diagnostic of either kind; file NULL: at no place; line NULL: no text. */
struct shown {
    const char *file, *message, *pass, *text;
    uint32_t line, col;
    size_t length; /* of text */
    int severity;
};

static void put(FILE *out, const struct shown *d, bool color)
{
    fputs(color ? BOLD : "", out);
    if (!d->file)
        fputs("tilec: ", out);
    else if (d->col)
        fprintf(out, "%s:%u:%u: ", d->file, d->line, d->col);
    else
        fprintf(out, "%s:%u: ", d->file, d->line);
    fprintf(out, "%s%s: %s", color ? severities[d->severity].color : "",
            severities[d->severity].word, color ? RESET BOLD : "");
    fprintf(out, "%s%s", d->message, color ? RESET : "");
    if (d->pass)
        fprintf(out, " [%s]", d->pass);
    fputc('\n', out);
    if (!d->text)
        return;
    size_t n = d->length;
    if (n && d->text[n - 1] == '\r')
        n--;
    fprintf(out, "%.*s\n", (int)n, d->text);
    if (d->col)
        put_caret(out, d->text, n, d->col, color);
}

void render_diag(FILE *out, const tc_context *cx, const tc_diag *d, bool color)
{
    const tc_source *s = source_of(cx, d->loc);
    struct shown shown = {
        .message = d->message, .pass = d->pass, .severity = (int)d->severity};
    if (s) {
        shown.file = s->name;
        shown.line = d->loc.line;
        shown.col = d->loc.col;
        if (d->loc.line)
            shown.text = find_line(s, d->loc.line, &shown.length);
    }
    put(out, &shown, color);
    for (const tc_diag *note = d->notes; note; note = note->next)
        render_diag(out, cx, note, color);
}

static void more_errors(FILE *out, size_t nerrors)
{
    if (nerrors > TC_MAX_ERRORS)
        fprintf(out, "tilec: %zu more errors\n", nerrors - TC_MAX_ERRORS);
}

void render_diags(FILE *out, const tc_context *cx)
{
    bool color = render_wants_color(out);
    for (const tc_diag *d = cx->diags; d; d = d->next)
        render_diag(out, cx, d, color);
    more_errors(out, cx->nerrors);
}

static void put_public(FILE *out, const tilec_diagnostic *d, bool color)
{
    struct shown shown = {.file = d->file,
                          .message = d->message,
                          .pass = d->pass,
                          .text = d->source,
                          .line = d->line,
                          .col = d->column,
                          .length = d->source ? strlen(d->source) : 0,
                          .severity = (int)d->severity};
    put(out, &shown, color);
    for (const tilec_diagnostic *note = d->notes; note; note = note->next)
        put_public(out, note, color);
}

void render_list(FILE *out, const tilec_diagnostic *list, size_t nerrors)
{
    bool color = render_wants_color(out);
    for (const tilec_diagnostic *d = list; d; d = d->next)
        put_public(out, d, color);
    more_errors(out, nerrors);
}
