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

static void put_line(FILE *out, const tc_source *s, tc_loc loc, bool color)
{
    size_t n;
    const char *line = loc.line ? find_line(s, loc.line, &n) : NULL;
    if (!line)
        return;
    if (n && line[n - 1] == '\r')
        n--;
    fprintf(out, "%.*s\n", (int)n, line);
    if (loc.col)
        put_caret(out, line, n, loc.col, color);
}

void render_diag(FILE *out, const tc_context *cx, const tc_diag *d, bool color)
{
    const tc_source *s = source_of(cx, d->loc);
    fputs(color ? BOLD : "", out);
    if (!s)
        fputs("tilec: ", out);
    else if (d->loc.col)
        fprintf(out, "%s:%u:%u: ", s->name, d->loc.line, d->loc.col);
    else
        fprintf(out, "%s:%u: ", s->name, d->loc.line);
    fprintf(out, "%s%s: %s", color ? severities[d->severity].color : "",
            severities[d->severity].word, color ? RESET BOLD : "");
    fprintf(out, "%s%s", d->message, color ? RESET : "");
    if (d->pass)
        fprintf(out, " [%s]", d->pass);
    fputc('\n', out);
    if (s)
        put_line(out, s, d->loc, color);
    for (const tc_diag *note = d->notes; note; note = note->next)
        render_diag(out, cx, note, color);
}

void render_diags(FILE *out, const tc_context *cx)
{
    bool color = render_wants_color(out);
    for (const tc_diag *d = cx->diags; d; d = d->next)
        render_diag(out, cx, d, color);
    if (cx->nerrors > TC_MAX_ERRORS)
        fprintf(out, "tilec: %u more errors\n", cx->nerrors - TC_MAX_ERRORS);
}
