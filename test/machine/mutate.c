/* SPDX-License-Identifier: Apache-2.0
 *
 * One function a rule: it looks at one line and adds what could be wrong in it.
 * A rule changes as little as it can, and never what is only speed, unless it
 * says why.
 */
#include "test/machine/mutate.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512 };

typedef struct program {
    const char *text;
    char (*lines)[LINE];
    unsigned nlines, body; /* first line of the body */
} program;

typedef struct rule_run {
    const program *p;
    mutants *out;
    const char *rule;
} rule_run;

/* ---- Lines ---- */

/* The op's name on: behind `%x = `. */
static const char *op_at(const char *line)
{
    while (*line == ' ')
        line++;
    if (*line != '%')
        return line;
    const char *equals = strstr(line, " = ");
    return equals ? equals + 3 : line;
}

static bool is_op(const char *line, const char *name)
{
    const char *at = op_at(line);
    size_t n = strlen(name);
    return strncmp(at, name, n) == 0 && (at[n] == ' ' || at[n] == 0);
}

static unsigned indent(const char *line)
{
    return (unsigned)strspn(line, " ");
}

/* Touches shared memory, or orders who does. */
static bool is_shared(const char *line)
{
    static const char *const names[] = {"async_copy", "async_wait", "mma",
                                        "smem_load", "smem_store"};
    for (int i = 0; i < 5; i++)
        if (is_op(line, names[i]))
            return true;
    return false;
}

/* Copies the value named at `at`: `%x`. */
static void name_at(const char *at, char *name)
{
    size_t n = strcspn(at, " ,)]}\n");
    snprintf(name, LINE, "%.*s", (int)n, at);
}

/* Operand i of a line's op, as `%x`; false where it has not so many. */
static bool operand(const char *line, unsigned i, const char **at, char *name)
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

/* The line that defines a value, before line i. */
static const char *definition(const program *p, const char *name, unsigned i)
{
    size_t n = strlen(name);
    while (i-- > p->body) {
        const char *at = p->lines[i] + indent(p->lines[i]);
        if (strncmp(at, name, n) == 0 && strncmp(at + n, " = ", 3) == 0)
            return p->lines[i];
    }
    return NULL;
}

/* ---- Making mutants ---- */

/* The program with lines first to last replaced by `lines`. */
static void add(rule_run *r, unsigned first, unsigned last, const char *lines,
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

static void replace(rule_run *r, unsigned i, const char *harmless,
                    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void replace(rule_run *r, unsigned i, const char *harmless,
                    const char *fmt, ...)
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

/* Line i with the text at `at`, of length n, replaced. */
static void replace_part(rule_run *r, unsigned i, const char *at, size_t n,
                         const char *with, const char *harmless)
{
    const char *line = r->p->lines[i];
    replace(r, i, harmless, "%.*s%s%s", (int)(at - line), line, with, at + n);
}

static void swap(rule_run *r, unsigned a, unsigned b, const char *harmless)
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

/* ---- Rules ---- */

/* The wait behind a loop that waits for its own copies: those of steps that
 * run it has waited for, those of later steps have conditions that are false.
 */
static const char *waits_for_nothing(const program *p, unsigned i)
{
    bool waits = false, conditions = true;
    char name[LINE];
    const char *at;
    unsigned depth = indent(p->lines[i]);
    if (i == 0 || indent(p->lines[i - 1]) != depth ||
        strchr(p->lines[i - 1], '}') == NULL)
        return NULL;
    for (unsigned k = i - 1; k-- > p->body && indent(p->lines[k]) > depth;) {
        waits |= is_op(p->lines[k], "async_wait");
        conditions &= !is_op(p->lines[k], "async_copy") ||
                      operand(p->lines[k], 2, &at, name);
    }
    return waits && conditions ? "the loop has waited for all its copies"
                               : NULL;
}

static void weaker_wait(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i], *at = strstr(line, "pending(");
    if (!is_op(line, "async_wait") || !at)
        return;
    replace(r, i, waits_for_nothing(r->p, i), "%.*spending(%d)",
            (int)(at - line), line, atoi(at + 8) + 1);
}

static void remove_op(rule_run *r, unsigned i, const char *name,
                      const char *harmless)
{
    if (is_op(r->p->lines[i], name))
        replace(r, i, harmless, "%s", "");
}

/* The interpreter does not try interleavings: a run without a finding is right
 * in all of them. So it is a proof for the trip counts that were tried. */
static const char in_order[] =
    "all accesses are in order by other barriers, for all trip counts tried";

static void no_wait(rule_run *r, unsigned i)
{
    remove_op(r, i, "async_wait", waits_for_nothing(r->p, i));
}

static void no_barrier(rule_run *r, unsigned i)
{
    remove_op(r, i, "barrier", in_order);
}

static void no_commit(rule_run *r, unsigned i)
{
    remove_op(r, i, "async_commit", NULL);
}

static void no_copy(rule_run *r, unsigned i)
{
    remove_op(r, i, "async_copy", NULL);
}

static void no_store(rule_run *r, unsigned i)
{
    remove_op(r, i, "smem_store", NULL);
}

/* Behind the next op of the same block that touches shared memory. */
static void later_barrier(rule_run *r, unsigned i)
{
    const program *p = r->p;
    if (!is_op(p->lines[i], "barrier"))
        return;
    for (unsigned k = i + 1; k < p->nlines; k++) {
        if (indent(p->lines[k]) != indent(p->lines[i]) ||
            strchr(p->lines[k], '{'))
            return;
        if (is_shared(p->lines[k])) {
            swap(r, i, k, in_order);
            return;
        }
    }
}

static void earlier_barrier(rule_run *r, unsigned i)
{
    const program *p = r->p;
    if (!is_op(p->lines[i], "barrier"))
        return;
    for (unsigned k = i; k-- > p->body;) {
        if (indent(p->lines[k]) != indent(p->lines[i]) ||
            strchr(p->lines[k], '{') || strchr(p->lines[k], '}'))
            return;
        if (is_shared(p->lines[k])) {
            /* A barrier may come before an op that only reads registers. */
            char text[64 * LINE];
            size_t len =
                (size_t)snprintf(text, sizeof text, "%s\n", p->lines[i]);
            for (unsigned l = k; l < i && len < sizeof text - LINE; l++)
                len += (size_t)snprintf(text + len, sizeof text - len, "%s\n",
                                        p->lines[l]);
            add(r, k, i, text, in_order);
            return;
        }
    }
}

/* The last copy of a group goes into the next group. */
static void earlier_commit(rule_run *r, unsigned i)
{
    const program *p = r->p;
    if (!is_op(p->lines[i], "async_commit"))
        return;
    for (unsigned k = i; k-- > p->body;) {
        if (strchr(p->lines[k], '{') || strchr(p->lines[k], '}') ||
            is_op(p->lines[k], "async_commit"))
            return;
        if (is_op(p->lines[k], "async_copy")) {
            swap(r, k, i, NULL);
            return;
        }
    }
}

/* Slots of the ring that line i takes one of; 0: it takes none. */
static unsigned ring_of(const rule_run *r, unsigned i, const char **slot,
                        char *name)
{
    char ring[LINE];
    const char *at;
    const char *line = r->p->lines[i];
    if (!is_op(line, "smem_index") || !operand(line, 0, &at, ring) ||
        !operand(line, 1, slot, name))
        return 0;
    const char *alloc = definition(r->p, ring, i);
    const char *end = alloc ? strrchr(alloc, '>') : NULL;
    if (!end)
        return 0;
    while (end[-1] >= '0' && end[-1] <= '9')
        end--;
    return end[-1] == ' ' && end[-2] == ',' ? (unsigned)atoi(end) : 0;
}

static void other_slot(rule_run *r, unsigned i)
{
    const char *at;
    char name[LINE], with[2 * LINE];
    unsigned n = ring_of(r, i, &at, name);
    if (n < 2)
        return;
    snprintf(with, sizeof with, "rem(%s + 1, %u)", name, n);
    replace_part(r, i, at, strlen(name), with, NULL);
}

static void smaller_ring(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i], *end = strrchr(line, '>');
    if (!is_op(line, "smem_alloc") || !end)
        return;
    const char *at = end;
    while (at[-1] >= '0' && at[-1] <= '9')
        at--;
    if (at[-1] != ' ' || at[-2] != ',' || atoi(at) < 2)
        return;
    char with[16];
    snprintf(with, sizeof with, "%d", atoi(at) - 1);
    replace_part(r, i, at, (size_t)(end - at), with, NULL);
}

static void always_copy(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i], *at;
    char name[LINE];
    if (is_op(line, "async_copy") && operand(line, 2, &at, name))
        replace_part(r, i, at, strlen(name), "true",
                     "a copy of a step that is never computed: zeros beyond "
                     "the tensor, which nobody reads and all wait for");
}

static void copy_when_not(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i], *at;
    char name[LINE], with[2 * LINE];
    if (!is_op(line, "async_copy") || !operand(line, 2, &at, name))
        return;
    snprintf(with, sizeof with, "(not %s)", name);
    replace_part(r, i, at, strlen(name), with, NULL);
}

/* boundary(0, 1) without 0, without 1. */
static void no_boundary(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i], *at = strstr(line, " boundary(");
    if (!at || !strchr(at, ')'))
        return;
    size_t n = (size_t)(strchr(at, ')') - at) + 1;
    if (strncmp(at, " boundary(0, 1)", n) == 0) {
        replace_part(r, i, at, n, " boundary(1)", NULL);
        replace_part(r, i, at, n, " boundary(0)", NULL);
    } else {
        replace_part(r, i, at, n, "", NULL);
    }
}

/* Lines from the first to the last use of a buffer and its views, with the
 * whole of loops inside of the block (at `depth`) where it is made: when it is
 * in use, at most, since each time it holds nothing at first. */
static void lifetime(const program *p, const char *name, unsigned made,
                     unsigned depth, unsigned *first, unsigned *last)
{
    char view[LINE];
    size_t n = strlen(name);
    for (unsigned i = made + 1; i < p->nlines; i++) {
        const char *at = op_at(p->lines[i]);
        while ((at = strstr(at, name)) && at[n] && !strchr(" ,)", at[n]))
            at += n;
        if (!at)
            continue;
        unsigned from = i, to = i, inner = indent(p->lines[i]);
        for (unsigned k = i; k-- > made && inner > depth;) {
            if (indent(p->lines[k]) >= inner || !strchr(p->lines[k], '{'))
                continue;
            inner = indent(p->lines[k]);
            if (inner < depth || !strstr(p->lines[k], "for %"))
                continue;
            from = k;
            while (to + 1 < p->nlines && indent(p->lines[to]) > inner)
                to++;
        }
        *first = from < *first ? from : *first;
        *last = to > *last ? to : *last;
        if (is_op(p->lines[i], "smem_index") ||
            is_op(p->lines[i], "smem_trans")) {
            name_at(p->lines[i] + indent(p->lines[i]), view);
            lifetime(p, view, i, depth, first, last);
        }
    }
}

/* Never in use at the same time. */
static bool live_apart(const program *p, unsigned a, unsigned b)
{
    unsigned first[2] = {p->nlines, p->nlines}, last[2] = {0, 0};
    unsigned at[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        char name[LINE];
        name_at(p->lines[at[i]] + indent(p->lines[at[i]]), name);
        lifetime(p, name, at[i], indent(p->lines[at[i]]), &first[i], &last[i]);
    }
    return last[0] < first[1] || last[1] < first[0];
}

/* To the place of the next buffer that lies somewhere else. */
static void other_offset(rule_run *r, unsigned i)
{
    const program *p = r->p;
    const char *at = strstr(p->lines[i], "offset(");
    if (!is_op(p->lines[i], "smem_alloc") || !at)
        return;
    for (unsigned k = p->body; k < p->nlines; k++) {
        const char *other = strstr(p->lines[k], "offset(");
        if (k == i || !is_op(p->lines[k], "smem_alloc") || !other ||
            atoi(other + 7) == atoi(at + 7) || live_apart(p, i, k))
            continue;
        char with[32];
        snprintf(with, sizeof with, "offset(%d)", atoi(other + 7));
        replace_part(r, i, at, (size_t)(strchr(at, ')') - at) + 1, with, NULL);
        return;
    }
}

static void odd_offset(rule_run *r, unsigned i)
{
    const char *at = strstr(r->p->lines[i], "offset(");
    if (!is_op(r->p->lines[i], "smem_alloc") || !at)
        return;
    char with[32];
    snprintf(with, sizeof with, "offset(%d)", atoi(at + 7) + 8);
    replace_part(r, i, at, (size_t)(strchr(at, ')') - at) + 1, with, NULL);
}

/* Beyond what the kernel asks for. */
static void less_shared(rule_run *r, unsigned i)
{
    const char *at = strstr(r->p->lines[i], " shared(");
    if (!at || strncmp(r->p->lines[i], "kernel", 6) != 0)
        return;
    char with[32];
    snprintf(with, sizeof with, " shared(%d)", atoi(at + 8) - 128);
    replace_part(r, i, at, (size_t)(strchr(at, ')') - at) + 1, with, NULL);
}

/* One element a piece: of 16 bits, too few for cp.async. */
static void narrow_copy(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i], *at = strstr(line, "#blocked(1x8,");
    if (is_op(line, "async_copy") && at)
        replace_part(r, i, at, 13, "#blocked(1x1,", NULL);
}

/* The window of the next step: what the copy gets its data from. */
static void other_step(rule_run *r, unsigned i)
{
    const program *p = r->p;
    const char *line = p->lines[i], *at = strchr(line, '[');
    char name[LINE];
    if (!is_op(line, "block") || !at)
        return;
    /* The offset behind which the first side stands that is not the last. */
    for (const char *s = at; (s = strstr(s, " +: ")); s += 4) {
        const char *start = s;
        while (start[-1] != ' ' && start[-1] != '[')
            start--;
        snprintf(name, sizeof name, "%.*s + 8", (int)(s - start), start);
        if (*start == '%')
            replace_part(r, i, start, (size_t)(s - start), name, NULL);
    }
}

static void other_choice(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i], *a, *b;
    char x[LINE], y[LINE];
    size_t n = strlen(line);
    if (!is_op(line, "select") || n < 6 ||
        strcmp(line + n - 6, " : i32") != 0 || !operand(line, 1, &a, x) ||
        !operand(line, 2, &b, y))
        return;
    replace(r, i, NULL, "%.*s%s, %s : i32", (int)(a - line), line, y, x);
}

/* The last two values that a loop hands over, the other way round. */
static void other_order(rule_run *r, unsigned i)
{
    char line[LINE];
    strcpy(line, r->p->lines[i]);
    char *last = is_op(line, "yield") ? strrchr(line, ',') : NULL;
    if (!last || indent(line) < 4)
        return;
    *last = 0;
    char *before = strrchr(line, ',');
    if (before)
        replace(r, i, NULL, "%.*s, %s, %s", (int)(before - line), line,
                last + 2, before + 2);
}

static const struct {
    const char *name;
    void (*run)(rule_run *r, unsigned line);
} rules[] = {
    {"wait for less", weaker_wait},
    {"no wait", no_wait},
    {"no barrier", no_barrier},
    {"barrier later", later_barrier},
    {"barrier earlier", earlier_barrier},
    {"no commit", no_commit},
    {"commit earlier", earlier_commit},
    {"other slot", other_slot},
    {"ring smaller", smaller_ring},
    {"copy always", always_copy},
    {"copy when not", copy_when_not},
    {"no copy", no_copy},
    {"copies too narrow", narrow_copy},
    {"no store", no_store},
    {"no boundary", no_boundary},
    {"place of another buffer", other_offset},
    {"place not aligned", odd_offset},
    {"too little shared memory", less_shared},
    {"other window", other_step},
    {"other choice", other_choice},
    {"other order", other_order},
};

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

mutants mutants_of(const char *text)
{
    mutants out = {0};
    program p = split(text);
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        rule_run r = {&p, &out, rules[k].name};
        for (unsigned i = 0; i < p.nlines; i++)
            if (i >= p.body || i == 0)
                rules[k].run(&r, i);
    }
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
