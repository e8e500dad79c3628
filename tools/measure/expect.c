/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/measure/expect.h"

#include "tools/common/render.h"

#include <stdlib.h>
#include <string.h>

struct expectation {
    struct expectation *next;
    tc_severity severity;
    uint32_t line, at; /* where it is expected (0: nowhere), where it stands */
    const char *text;
    size_t len;
    bool met;
};

struct expect {
    FILE *out;
    tc_context *cx;
    uint32_t source;
    struct expectation *first, **end;
    bool ok;
};

static const char *const words[] = {
    [TC_ERROR] = "error",
    [TC_WARNING] = "warning",
    [TC_REMARK] = "remark",
    [TC_NOTE] = "note",
};

/* Past `word` where the text begins with it, else NULL. */
static const char *after(const char *s, const char *word)
{
    size_t n = strlen(word);
    return strncmp(s, word, n) == 0 ? s + n : NULL;
}

/* The line that `@...` means; *s is moved after it. */
static uint32_t read_line(const char **s, uint32_t here)
{
    const char *p;
    if (**s != '@')
        return here;
    ++*s;
    if ((p = after(*s, "above")) || (p = after(*s, "below"))) {
        uint32_t line = **s == 'a' ? here - 1 : here + 1;
        *s = p;
        return line;
    }
    if ((p = after(*s, "unknown"))) {
        *s = p;
        return 0;
    }
    bool relative = **s == '+' || **s == '-';
    char *end;
    long n = strtol(*s, &end, 10);
    *s = end;
    return (uint32_t)(relative ? here + n : n);
}

static void complain(struct expect *e, uint32_t line, const char *what,
                     const char *text, size_t n)
{
    fprintf(e->out, "%s:%u: %s%.*s\n", e->cx->sources[e->source - 1].name, line,
            what, (int)n, text);
    e->ok = false;
}

/* `s` stands after `expected-`. */
static void read_expectation(struct expect *e, const char *s, uint32_t here)
{
    const char *start = s, *p = NULL;
    struct expectation *x = tc_arena_new(&e->cx->arena, struct expectation);
    for (int k = 0; k < 4 && !p; k++)
        if ((p = after(s, words[k])))
            x->severity = (tc_severity)k;
    if (p) {
        x->line = read_line(&p, here);
        p += strspn(p, " ");
        p = after(p, "{{");
    }
    const char *close = p ? strstr(p, "}}") : NULL;
    if (!close) {
        complain(e, here, "not understood: expected-", start,
                 strcspn(start, "\n"));
        return;
    }
    x->at = here;
    x->text = p;
    x->len = (size_t)(close - p);
    *e->end = x;
    e->end = &x->next;
}

static void read_expectations(struct expect *e, const char *s)
{
    uint32_t line = 1;
    bool comment = false;
    for (; *s; s++) {
        const char *p;
        if (*s == '\n') {
            line++;
            comment = false;
        } else if (after(s, "//")) {
            comment = true;
        } else if (comment && (p = after(s, "expected-"))) {
            read_expectation(e, p, line);
        }
    }
}

static bool holds(const char *message, const char *text, size_t n)
{
    for (; strlen(message) >= n; message++)
        if (memcmp(message, text, n) == 0)
            return true;
    return false;
}

static bool meets(const struct expect *e, const tc_diag *d,
                  const struct expectation *x)
{
    bool here = d->loc.file == e->source ? x->line == d->loc.line
                                         : d->loc.file == 0 && x->line == 0;
    return here && x->severity == d->severity && !x->met &&
           holds(d->message, x->text, x->len);
}

static void check_diag(struct expect *e, const tc_diag *d)
{
    bool met = false;
    for (struct expectation *x = e->first; x && !met; x = x->next)
        if (meets(e, d, x))
            met = x->met = true;
    for (const tc_diag *note = d->notes; note; note = note->next)
        check_diag(e, note);
    if (met || d->severity == TC_NOTE)
        return;
    fputs("not expected: ", e->out);
    render_diag(e->out, e->cx, d, false);
    e->ok = false;
}

bool expect_check(FILE *out, tc_context *cx, uint32_t source)
{
    struct expect e = {out, cx, source, NULL, NULL, true};
    e.end = &e.first;
    read_expectations(&e, cx->sources[source - 1].text);
    for (const tc_diag *d = cx->diags; d; d = d->next)
        check_diag(&e, d);
    for (const struct expectation *x = e.first; x; x = x->next)
        if (!x->met)
            complain(&e, x->at, "expected but did not arise: ", x->text,
                     x->len);
    return e.ok;
}
