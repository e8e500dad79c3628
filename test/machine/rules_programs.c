/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes in what orders the programs of a grid.
 */
#include "test/machine/rules.h"

#include <stdio.h>
#include <string.h>

static bool is_plain_atomic(const char *line)
{
    return is_op(line, "atomic") && !strstr(line, "order(") &&
           !strstr(line, "scope(");
}

static void weaken(rule_run *r, unsigned i, const char *to)
{
    const char *line = r->p->lines[i];
    const char *end = is_plain_atomic(line) ? strstr(line, " : ") : NULL;
    if (end)
        replace_part(r, i, end, 0, to, NULL);
}

static void weaker_atomic(rule_run *r, unsigned i)
{
    weaken(r, i, " order(relaxed)");
    weaken(r, i, " order(acquire)");
    weaken(r, i, " order(release)");
    weaken(r, i, " scope(block)");
}

/* A store after the atomic that tells of it, if not after a branch. */
static void later_store(rule_run *r, unsigned i)
{
    char text[64 * LINE];
    size_t len = 0;
    unsigned last = i + 1, level = indent(r->p->lines[i]);
    if (!is_op(r->p->lines[i], "store"))
        return;
    while (last < r->p->nlines && indent(r->p->lines[last]) == level &&
           !is_plain_atomic(r->p->lines[last]))
        last++;
    if (last == r->p->nlines || !is_plain_atomic(r->p->lines[last]) ||
        (last - i + 1) * LINE > sizeof text)
        return;
    for (unsigned k = i + 1; k <= last + 1; k++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s\n",
                                r->p->lines[k > last ? i : k]);
    add(r, i, last, text, NULL);
}

/* The programs with work end, or all do. */
static void wrong_exit(rule_run *r, unsigned i)
{
    const char *at;
    char name[LINE];
    if (!is_op(r->p->lines[i], "exit_if") ||
        !operand(r->p->lines[i], 0, &at, name))
        return;
    replace(r, i, NULL, "  %%wrong = not %s : i1\n  exit_if %%wrong", name);
    replace(r, i, NULL, "  %%wrong = const true : i1\n  exit_if %%wrong");
}

const rule rules_of_programs[] = {
    {"wrong exit", wrong_exit},
    {"weaker atomic", weaker_atomic},
    {"store after the atomic", later_store},
    {NULL, NULL},
};
