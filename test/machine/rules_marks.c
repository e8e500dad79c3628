/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes in the marks of a profile: no ring, no begin or end of a role, no
 * number. Which section has a mark is no matter of results.
 */
#include "test/machine/rules.h"

#include <stdio.h>
#include <string.h>

static const char only_shown[] =
    "a mark says where a section begins; no thread sees it";

/* Of the marks that only say where a section begins. */
static const char *why_harmless(const char *line)
{
    bool is_bound = strstr(line, "kind(begin)") || strstr(line, "kind(end)");
    return is_bound ? NULL : only_shown;
}

static void no_mark(rule_run *r, unsigned i)
{
    remove_op(r, i, "mark", why_harmless(r->p->lines[i]));
}

/* A ring begins once, and after its end nothing is written. */
static void two_marks(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i];
    if (is_op(line, "mark"))
        replace(r, i, why_harmless(line), "%s\n%s", line, line);
}

/* 0 stands for a record that was not written. */
static void no_number(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i], *at = strstr(line, "number(");
    if (!is_op(line, "mark") || !at)
        return;
    at += strlen("number(");
    replace_part(r, i, at, strcspn(at, ")"), "0", NULL);
    replace_part(r, i, at, strcspn(at, ")"), "65536", NULL);
}

/* What begins is a section, what ends is one: the role has no such mark. */
static void other_kind(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i], *at = strstr(line, "kind(");
    if (!is_op(line, "mark") || !at)
        return;
    at += strlen("kind(");
    replace_part(r, i, at, strcspn(at, ")"), "math", why_harmless(line));
}

/* Of the first mark: the clause that gives all of them their rings. */
static void no_ring(rule_run *r, unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (is_op(r->p->lines[k], "mark"))
            return;
    for (unsigned k = 0; k < i; k++) {
        const char *at = strstr(r->p->lines[k], " profile(");
        if (at && is_op(r->p->lines[i], "mark"))
            replace_part(r, k, at, strcspn(at, ")") + 1, "", NULL);
    }
}

const rule rules_of_marks[] = {
    {"no mark", no_mark},     {"two marks", two_marks},
    {"no number", no_number}, {"other kind of mark", other_kind},
    {"no ring", no_ring},     {NULL, NULL},
};
