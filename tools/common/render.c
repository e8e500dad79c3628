/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/render.h"

#include "ir/base/escape.h"

#include <cjson/cJSON.h>
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

/* Text from outside; characters of `kept` go to the terminal as they are. */
static void put_escaped(FILE *out, const char *text, size_t n, const char *kept)
{
    for (size_t at = 0, taken; at < n; at += taken) {
        char one[TC_ESCAPE_MOST];
        fwrite(one, 1, tc_escape_one(text + at, n - at, kept, one, &taken),
               out);
    }
}

/* Columns of a terminal that a character takes. */
static size_t width_of(const char *s, size_t n, size_t *taken)
{
    char one[TC_ESCAPE_MOST];
    size_t len = tc_escape_one(s, n, "\t", one, taken);
    return len == *taken && memcmp(one, s, len) == 0 ? 1 : len;
}

/* Blank up to the column: tabs stay; then ^, and ~ for what else there is of
 * the characters before the column `end`. */
static void put_caret(FILE *out, const char *line, size_t n, uint32_t col,
                      uint32_t end, bool color)
{
    size_t at = 0, taken;
    for (; at + 1 < col && at < n; at += taken)
        for (size_t w = width_of(line + at, n - at, &taken); w; w--)
            fputc(line[at] == '\t' ? '\t' : ' ', out);
    fprintf(out, "%s^", color ? "\033[1;32m" : "");
    for (bool is_first = true; at < n && (is_first || at + 1 < end);
         at += taken, is_first = false)
        for (size_t w = width_of(line + at, n - at, &taken); w > is_first; w--)
            fputc('~', out);
    fprintf(out, "%s\n", color ? RESET : "");
}

/* A diagnostic of either kind; file NULL: at no place; line NULL: no text. */
struct shown {
    const char *file, *message, *pass, *text;
    uint32_t line, col, end;
    size_t length; /* of text */
    int severity;
    bool missed;
};

/* Settings from the command line. */
static bool as_json, only_missed;

void render_as_json(void)
{
    as_json = true;
}

void render_only_missed(void)
{
    only_missed = true;
}

static void put_text(FILE *out, const struct shown *d, bool color)
{
    fputs(color ? BOLD : "", out);
    if (!d->file)
        fputs("tilec: ", out);
    else
        put_escaped(out, d->file, strlen(d->file), "");
    if (d->file && d->col)
        fprintf(out, ":%u:%u: ", d->line, d->col);
    else if (d->file)
        fprintf(out, ":%u: ", d->line);
    fprintf(out, "%s%s: %s", color ? severities[d->severity].color : "",
            severities[d->severity].word, color ? RESET BOLD : "");
    put_escaped(out, d->message, strlen(d->message), "\n\t");
    fputs(color ? RESET : "", out);
    if (d->pass)
        fprintf(out, " [%s]", d->pass);
    fputc('\n', out);
    if (!d->text)
        return;
    size_t n = d->length;
    if (n && d->text[n - 1] == '\r')
        n--;
    put_escaped(out, d->text, n, "\t");
    fputc('\n', out);
    if (d->col)
        put_caret(out, d->text, n, d->col, d->end, color);
}

/* An object of one diagnostic without its notes. NULL: out of memory. */
static cJSON *json_of(const struct shown *d)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "severity", severities[d->severity].word);
    cJSON_AddStringToObject(o, "message", d->message);
    if (d->file) {
        cJSON_AddStringToObject(o, "file", d->file);
        cJSON_AddNumberToObject(o, "line", d->line);
        cJSON_AddNumberToObject(o, "column", d->col);
        if (d->end > d->col)
            cJSON_AddNumberToObject(o, "end_column", d->end);
    }
    if (d->pass)
        cJSON_AddStringToObject(o, "pass", d->pass);
    if (d->severity == TC_REMARK)
        cJSON_AddBoolToObject(o, "missed", d->missed);
    cJSON_AddArrayToObject(o, "notes");
    return o;
}

/* Frees it. */
static void put_json(FILE *out, cJSON *o)
{
    char *text = cJSON_PrintUnformatted(o);
    fprintf(out, "%s\n",
            text ? text
                 : "{\"severity\":\"error\",\"message\":\"out of memory\"}");
    cJSON_free(text);
    cJSON_Delete(o);
}

static struct shown shown_of(const tc_context *cx, const tc_diag *d)
{
    const tc_source *s = source_of(cx, d->loc);
    struct shown shown = {.message = d->message,
                          .pass = d->pass,
                          .severity = (int)d->severity,
                          .missed = d->missed};
    if (s) {
        shown.file = s->name;
        shown.line = d->loc.line;
        shown.col = d->loc.col;
        shown.end = d->loc.end;
        if (d->loc.line)
            shown.text = find_line(s, d->loc.line, &shown.length);
    }
    return shown;
}

void render_diag(FILE *out, const tc_context *cx, const tc_diag *d, bool color)
{
    struct shown shown = shown_of(cx, d);
    put_text(out, &shown, color);
    for (const tc_diag *note = d->notes; note; note = note->next)
        render_diag(out, cx, note, color);
}

static cJSON *diag_json(const tc_context *cx, const tc_diag *d)
{
    struct shown shown = shown_of(cx, d);
    cJSON *o = json_of(&shown), *notes = cJSON_GetObjectItem(o, "notes");
    for (const tc_diag *note = d->notes; note; note = note->next)
        cJSON_AddItemToArray(notes, diag_json(cx, note));
    return o;
}

/* Remarks on what was done come after all else, where they are shown. */
static bool is_background(int severity, bool missed)
{
    return severity == TC_REMARK && !missed;
}

static void put_rest(FILE *out, size_t nerrors, size_t hidden)
{
    if (nerrors > TC_MAX_ERRORS)
        render_message(out, TC_NOTE, "%zu more errors",
                       nerrors - TC_MAX_ERRORS);
    if (hidden && !as_json)
        render_message(out, TC_NOTE,
                       "%zu more remarks, on what was done: --remarks=all",
                       hidden);
}

void render_diags(FILE *out, const tc_context *cx)
{
    bool color = render_wants_color(out);
    size_t hidden = 0;
    for (int background = 0; background < 2; background++)
        for (const tc_diag *d = cx->diags; d; d = d->next) {
            if (is_background(d->severity, d->missed) != background)
                continue;
            if (background && only_missed)
                hidden++;
            else if (as_json)
                put_json(out, diag_json(cx, d));
            else
                render_diag(out, cx, d, color);
        }
    put_rest(out, cx->nerrors, hidden);
}

static struct shown shown_of_public(const tilec_diagnostic *d)
{
    return (struct shown){.file = d->file,
                          .message = d->message,
                          .pass = d->pass,
                          .text = d->source,
                          .line = d->line,
                          .col = d->column,
                          .end = d->end_column,
                          .length = d->source ? strlen(d->source) : 0,
                          .severity = (int)d->severity,
                          .missed = d->missed};
}

static void put_public(FILE *out, const tilec_diagnostic *d, bool color)
{
    struct shown shown = shown_of_public(d);
    put_text(out, &shown, color);
    for (const tilec_diagnostic *note = d->notes; note; note = note->next)
        put_public(out, note, color);
}

static cJSON *public_json(const tilec_diagnostic *d)
{
    struct shown shown = shown_of_public(d);
    cJSON *o = json_of(&shown), *notes = cJSON_GetObjectItem(o, "notes");
    for (const tilec_diagnostic *note = d->notes; note; note = note->next)
        cJSON_AddItemToArray(notes, public_json(note));
    return o;
}

void render_list(FILE *out, const tilec_diagnostic *list, size_t nerrors)
{
    bool color = render_wants_color(out);
    size_t hidden = 0;
    for (int background = 0; background < 2; background++)
        for (const tilec_diagnostic *d = list; d; d = d->next) {
            if (is_background((int)d->severity, d->missed) != background)
                continue;
            if (background && only_missed)
                hidden++;
            else if (as_json)
                put_json(out, public_json(d));
            else
                put_public(out, d, color);
        }
    put_rest(out, nerrors, hidden);
}

void render_message_v(FILE *out, int severity, const char *fmt, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, args);
    struct shown d = {.message = text, .severity = severity};
    if (as_json)
        put_json(out, json_of(&d));
    else
        put_text(out, &d, render_wants_color(out));
}

void render_message(FILE *out, int severity, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    render_message_v(out, severity, fmt, args);
    va_end(args);
}

void render_line(FILE *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (as_json) {
        render_message_v(out, TC_NOTE, fmt, args);
    } else {
        vfprintf(out, fmt, args);
        fputc('\n', out);
    }
    va_end(args);
}

void render_usage(FILE *out, const char *command, const char *text)
{
    const char *blank = command ? " " : "";
    if (!command)
        command = "";
    if (as_json)
        render_message(out, TC_ERROR, "tilec%s%s: %s", blank, command, text);
    else
        fprintf(out, "tilec%s%s: %s\n`tilec%s%s --help` lists %s\n", blank,
                command, text, blank, command,
                *blank ? "what it takes" : "them");
}
