/* SPDX-License-Identifier: Apache-2.0 */
#include "test/machine/rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lines ---- */

const char *op_at(const char *line)
{
    while (*line == ' ')
        line++;
    if (*line != '%')
        return line;
    const char *equals = strstr(line, " = ");
    return equals ? equals + 3 : line;
}

bool is_op(const char *line, const char *name)
{
    const char *at = op_at(line);
    size_t n = strlen(name);
    return strncmp(at, name, n) == 0 && (at[n] == ' ' || at[n] == 0);
}

unsigned indent(const char *line)
{
    return (unsigned)strspn(line, " ");
}

bool is_shared(const char *line)
{
    static const char *const names[] = {
        "async_copy",        "async_wait",       "mma",
        "smem_load",         "smem_store",       "mma_wait",
        "smem_store_scalar", "smem_load_scalar", "mbarrier_wait",
        "mbarrier_arrive",   "tma_load",         "tma_store",
        "fence_async",       "tma_store_wait",   "next_tile",
        "smem_copy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_op(line, names[i]))
            return true;
    return false;
}

void name_at(const char *at, char *name)
{
    size_t n = strcspn(at, " ,)]}\n");
    snprintf(name, LINE, "%.*s", (int)n, at);
}

bool operand(const char *line, unsigned i, const char **at, char *name)
{
    const char *s = op_at(line);
    const char *end = strpbrk(s, "(");
    for (s = strchr(s, ' '); s && i > 0; i--)
        s = strchr(s + 1, ',');
    if (!s || (end && s > end))
        return false;
    while (*s == ' ' || *s == ',')
        s++;
    *at = s;
    name_at(s, name);
    return *s == '%';
}

const char *definition(const program *p, const char *name, unsigned i)
{
    size_t n = strlen(name);
    while (i-- > p->body) {
        const char *at = p->lines[i] + indent(p->lines[i]);
        if (strncmp(at, name, n) == 0 && strncmp(at + n, " = ", 3) == 0)
            return p->lines[i];
    }
    return NULL;
}

unsigned slots_of(const rule_run *r, unsigned i, unsigned ring)
{
    char name[LINE];
    const char *at;
    if (!operand(r->p->lines[i], ring, &at, name))
        return 0;
    const char *alloc = definition(r->p, name, i);
    const char *end = alloc ? strrchr(alloc, '>') : NULL;
    if (!end)
        return 0;
    while (end[-1] >= '0' && end[-1] <= '9')
        end--;
    bool ring_of_buffers = end[-1] == ' ' && end[-2] == ',';
    return ring_of_buffers || end[-1] == '<' ? (unsigned)atoi(end) : 0;
}

/* ---- Making mutants ---- */

void add(rule_run *r, unsigned first, unsigned last, const char *lines,
         const char *harmless)
{
    mutants *m = r->out;
    if (m->n == m->room) {
        m->room = 2 * m->room + 64;
        m->of = realloc(m->of, m->room * sizeof *m->of);
    }
    mutant *x = &m->of[m->n++];
    *x = (mutant){.line = first + 1, .harmless = harmless};
    const char *line = r->p->lines[first];
    snprintf(x->what, sizeof x->what, "%s: line %u: %.120s", r->rule, first + 1,
             line + indent(line));
    size_t room = strlen(r->p->text) + strlen(lines) + 16, len = 0;
    x->text = malloc(room);
    x->text[0] = 0;
    for (unsigned i = 0; i < r->p->nlines; i++) {
        if (i == first)
            len += (size_t)snprintf(x->text + len, room - len, "%s", lines);
        if (i < first || i > last)
            len += (size_t)snprintf(x->text + len, room - len, "%s\n",
                                    r->p->lines[i]);
    }
}

void replace(rule_run *r, unsigned i, const char *harmless, const char *fmt,
             ...)
{
    char text[3 * LINE];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text - 1, fmt, args);
    va_end(args);
    if (n > 0)
        strcpy(text + n, "\n");
    add(r, i, i, n > 0 ? text : "", harmless);
}

void replace_part(rule_run *r, unsigned i, const char *at, size_t n,
                  const char *with, const char *harmless)
{
    const char *line = r->p->lines[i];
    replace(r, i, harmless, "%.*s%s%s", (int)(at - line), line, with, at + n);
}

void swap(rule_run *r, unsigned a, unsigned b, const char *harmless)
{
    char text[64 * LINE];
    size_t len = 0;
    for (unsigned i = a; i <= b && len < sizeof text - LINE; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s\n",
                                r->p->lines[i == a   ? b
                                            : i == b ? a
                                                     : i]);
    add(r, a, b, text, harmless);
}

void remove_op(rule_run *r, unsigned i, const char *name, const char *harmless)
{
    if (is_op(r->p->lines[i], name))
        replace(r, i, harmless, "%s", "");
}

const char in_order[] =
    "all accesses are in order by other barriers, for all trip counts tried";

/* ---- All of them ---- */

static program split(const char *text)
{
    program p = {.text = text};
    unsigned n = 1;
    for (const char *s = text; *s; s++)
        n += *s == '\n';
    p.lines = calloc(n, sizeof *p.lines);
    for (const char *s = text; *s;) {
        size_t len = strcspn(s, "\n");
        char *line = p.lines[p.nlines];
        snprintf(line, LINE, "%.*s", (int)len, s);
        if (p.body == 0 && strcmp(line, "} {") == 0)
            p.body = p.nlines + 1;
        p.nlines++;
        s += len + (s[len] == '\n');
    }
    return p;
}

static void apply(const program *p, const rule *rules, mutants *out)
{
    for (; rules->name; rules++) {
        rule_run r = {p, out, rules->name};
        for (unsigned i = 0; i < p->nlines; i++)
            if (i >= p->body || i == 0)
                rules->run(&r, i);
    }
}

mutants mutants_of(const char *text)
{
    mutants out = {0};
    program p = split(text);
    apply(&p, rules_of_copies, &out);
    apply(&p, rules_of_roles, &out);
    apply(&p, rules_of_programs, &out);
    apply(&p, rules_of_marks, &out);
    free(p.lines);
    return out;
}

void mutants_free(mutants *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->of[i].text);
    free(m->of);
    *m = (mutants){0};
}
