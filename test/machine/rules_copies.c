/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes in shared memory, copies and barriers.
 */
#include "test/machine/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The wait after a loop that waits for its own copies: those of steps that
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

/* After the next op of the same block that touches shared memory. */
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

static void other_slot(rule_run *r, unsigned i)
{
    const char *at;
    char name[LINE], with[2 * LINE];
    unsigned n = slots_of(r, i, 0);
    if (!is_op(r->p->lines[i], "smem_index") || n < 2 ||
        !operand(r->p->lines[i], 1, &at, name))
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

/* The last side of a tensor that the kernel has, as a number; 0: unknown. */
static int last_side(const program *p, const char *name)
{
    char text[LINE + 16];
    snprintf(text, sizeof text, "%s: tensor<[", name);
    const char *at = strstr(p->lines[0], text);
    const char *end = at ? strchr(at, ']') : NULL;
    while (end && end[-1] >= '0' && end[-1] <= '9')
        end--;
    return end ? atoi(end) : 0;
}

/* A window that ends in the tensor along its last axis, the only one that the
 * op gives a boundary. */
static const char *ends_in_tensor(const program *p, unsigned i,
                                  const char *boundary)
{
    char name[LINE], tensor[LINE], offset[LINE];
    const char *at, *last = NULL;
    int axes = -1;
    if (!operand(p->lines[i], 0, &at, name))
        return NULL;
    const char *block = definition(p, name, i);
    if (!block || !is_op(block, "block"))
        return NULL;
    for (at = block; (at = strstr(at, " +: ")); at += 4, axes++)
        last = at;
    if (!last || atoi(boundary + strlen(" boundary(")) != axes)
        return NULL;
    snprintf(tensor, sizeof tensor, "%.*s", (int)strcspn(op_at(block) + 6, "["),
             op_at(block) + 6);
    at = last;
    while (at[-1] != ' ' && at[-1] != '[')
        at--;
    snprintf(offset, sizeof offset, "%.*s", (int)(last - at), at);
    const char *first = definition(p, offset, i);
    first = first ? strstr(first, " = const ") : NULL;
    bool inside = first && atoi(first + strlen(" = const ")) >= 0 &&
                  atoi(first + strlen(" = const ")) + atoi(last + 4) <=
                      last_side(p, tensor);
    return inside ? "the window ends in the tensor" : NULL;
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
        replace_part(r, i, at, n, "", ends_in_tensor(r->p, i, at));
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
            is_op(p->lines[i], "smem_trans") ||
            is_op(p->lines[i], "smem_slice")) {
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
    /* The offset after which the first side stands that is not the last. */
    for (const char *s = at; (s = strstr(s, " +: ")); s += 4) {
        const char *start = s;
        while (start[-1] != ' ' && start[-1] != '[')
            start--;
        snprintf(name, sizeof name, "%.*s + 8", (int)(s - start), start);
        if (*start == '%')
            replace_part(r, i, start, (size_t)(s - start), name, NULL);
    }
}

/* A number out of a list, as that of sections is: slots are counted. */
static bool is_out_of_list(const program *p, const char *name, unsigned i)
{
    char choice[LINE];
    const char *made = definition(p, name, i), *at;
    if (!made || !is_op(made, "select"))
        return made && strstr(made, "= const ");
    for (unsigned k = 1; k <= 2; k++)
        if (!operand(made, k, &at, choice) || !is_out_of_list(p, choice, i))
            return false;
    return true;
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
    bool order = is_out_of_list(r->p, x, i) && is_out_of_list(r->p, y, i);
    replace(r, i, order ? "the same tiles in another order" : NULL,
            "%.*s%s, %s : i32", (int)(a - line), line, y, x);
}

/* The branch for no steps at all, as the whole kernel has none: it hands slots
 * and phases on that nobody uses. */
static const char *is_never_used(const program *p, unsigned i)
{
    char name[LINE];
    const char *at;
    unsigned k = i - 1, depth = indent(p->lines[k]);
    if (strcmp(p->lines[k] + depth, "} else {") != 0)
        return NULL;
    while (k > p->body &&
           (indent(p->lines[k]) != depth || !is_op(p->lines[k], "if")))
        k--;
    if (!operand(p->lines[k], 0, &at, name))
        return NULL;
    const char *made = definition(p, name, k);
    return made && indent(made) < depth ? "slots and phases without a step"
                                        : NULL;
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
    if (before && strcmp(before + 2, last + 2) != 0)
        replace(r, i, is_never_used(r->p, i), "%.*s, %s, %s",
                (int)(before - line), line, last + 2, before + 2);
}

const rule rules_of_copies[] = {
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
    {NULL, NULL},
};
