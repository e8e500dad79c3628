/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes in what warp groups and roles agree on: phases, parities, arrivals,
 * bytes, slots, fences, waits for products and for TMA copies.
 */
#include "test/machine/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_roles(const program *p)
{
    return strstr(p->text, "warp_groups") != NULL;
}

/* The next line of the same block, after i (or before it), that touches shared
 * memory; i: there is none. */
static unsigned neighbour(const program *p, unsigned i, int step)
{
    for (unsigned k = i + (unsigned)step; k >= p->body && k < p->nlines;
         k += (unsigned)step) {
        if (indent(p->lines[k]) != indent(p->lines[i]) ||
            strpbrk(p->lines[k], "{}"))
            return i;
        if (is_shared(p->lines[k]))
            return k;
    }
    return i;
}

/* Line i comes after line `to`, or before it. */
static void move(rule_run *r, unsigned i, unsigned to, const char *harmless)
{
    char text[64 * LINE];
    unsigned first = i < to ? i : to, last = i < to ? to : i;
    size_t len = 0;
    if (i == to)
        return;
    if (to < i)
        len = (size_t)snprintf(text, sizeof text, "%s\n", r->p->lines[i]);
    for (unsigned k = first; k <= last && len < sizeof text - LINE; k++)
        if (k != i)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s\n",
                                    r->p->lines[k]);
    if (to > i)
        snprintf(text + len, sizeof text - len, "%s\n", r->p->lines[i]);
    add(r, first, last, text, harmless);
}

/* ---- mbarriers ---- */

/* A scalar channel: the consumer's arrivals that the producer waited for
 * since then, for other rings, show that its message was read. And what the
 * consumer waited for that came after the message shows that it is there. */
static const char *guards_channel(const program *p, unsigned i)
{
    const char *next = p->lines[neighbour(p, i, 1)];
    return is_op(next, "smem_store_scalar") || is_op(next, "smem_load_scalar")
               ? in_order
               : NULL;
}

static bool is_made(const program *p, const char *name)
{
    for (unsigned i = p->body; i < p->nlines; i++) {
        char made[LINE];
        name_at(p->lines[i] + indent(p->lines[i]), made);
        if (is_op(p->lines[i], "mbarrier_alloc") && strcmp(made, name) == 0)
            return true;
    }
    return false;
}

/* Of rings between which a transposer copies, or by which it is told of tiles:
 * three roles agree on them, each with the other two. So where two have agreed
 * on another ring since, the third one's word may add nothing. */
static const char *goes_round(const program *p, unsigned i)
{
    const char *at;
    char name[LINE], rows[LINE + 8];
    if (!strstr(p->text, "} transposer {") ||
        !operand(p->lines[i], 0, &at, name))
        return NULL;
    snprintf(rows, sizeof rows, "%s.rows", name);
    bool channel = strstr(name, ".tile") || strstr(name, ".ids");
    return strstr(name, ".rows") || channel || is_made(p, rows) ? in_order
                                                                : NULL;
}

static void no_mbarrier_wait(rule_run *r, unsigned i)
{
    const char *channel = guards_channel(r->p, i);
    remove_op(r, i, "mbarrier_wait", channel ? channel : goes_round(r->p, i));
}

static void later_mbarrier_wait(rule_run *r, unsigned i)
{
    if (is_op(r->p->lines[i], "mbarrier_wait"))
        move(r, i, neighbour(r->p, i, 1), in_order);
}

static void other_parity(rule_run *r, unsigned i)
{
    const char *at;
    char name[LINE], with[LINE + 8];
    if (!is_op(r->p->lines[i], "mbarrier_wait") ||
        !operand(r->p->lines[i], 2, &at, name))
        return;
    snprintf(with, sizeof with, "(%s ^ 1)", name);
    replace_part(r, i, at, strlen(name), with, NULL);
}

/* Is line i in a loop? */
static bool in_loop(const program *p, unsigned i)
{
    unsigned depth = indent(p->lines[i]);
    while (i-- > p->body) {
        if (indent(p->lines[i]) >= depth)
            continue;
        depth = indent(p->lines[i]);
        if (strstr(p->lines[i], "for %") || is_op(p->lines[i], "while") ||
            strstr(p->lines[i], "} do {"))
            return true;
    }
    return false;
}

/* What comes after all loops of the consumer, in a kernel of one tile. */
static const char *is_last(const program *p, unsigned i)
{
    return is_op(p->lines[i], "mbarrier_arrive") && !in_loop(p, i)
               ? "an arrival after the last step, that nobody waits for"
               : NULL;
}

/* Which operand is the mbarrier; -1: none. */
static int mbarrier_operand(const char *line)
{
    return is_op(line, "tma_load") ? 2
           : is_op(line, "mbarrier_wait") || is_op(line, "mbarrier_arrive")
               ? 0
               : -1;
}

static void other_slot(rule_run *r, unsigned i)
{
    const char *at;
    char name[LINE], with[LINE + 24];
    int ring = mbarrier_operand(r->p->lines[i]);
    unsigned n = ring < 0 ? 0 : slots_of(r, i, (unsigned)ring);
    if (n < 2 || !operand(r->p->lines[i], (unsigned)ring + 1, &at, name))
        return;
    snprintf(with, sizeof with, "rem(%s + 1, %u)", name, n);
    bool arrives = is_op(r->p->lines[i], "mbarrier_arrive");
    const char *last = is_last(r->p, i);
    replace_part(r, i, at, strlen(name), with,
                 last || !arrives ? last : goes_round(r->p, i));
}

/* The next ring of mbarriers in the program, after the last the first one. */
static void other_mbarrier(rule_run *r, unsigned i)
{
    const program *p = r->p;
    const char *at;
    char name[LINE], first[LINE] = "", other[LINE] = "";
    int ring = mbarrier_operand(p->lines[i]);
    bool found = false;
    if (ring < 0 || !operand(p->lines[i], (unsigned)ring, &at, name))
        return;
    for (unsigned k = p->body; k < p->nlines && !*other; k++) {
        char made[LINE];
        if (!is_op(p->lines[k], "mbarrier_alloc"))
            continue;
        name_at(p->lines[k] + indent(p->lines[k]), made);
        if (found)
            strcpy(other, made);
        if (!*first)
            strcpy(first, made);
        found |= strcmp(made, name) == 0;
    }
    if (!*other)
        strcpy(other, first);
    bool waits = is_op(p->lines[i], "mbarrier_wait");
    if (found && strcmp(other, name) != 0)
        replace_part(r, i, at, strlen(name), other,
                     waits ? goes_round(p, i) : is_last(p, i));
}

static void no_arrival(rule_run *r, unsigned i)
{
    remove_op(r, i, "mbarrier_arrive", is_last(r->p, i));
}

static void two_arrivals(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i];
    if (is_op(line, "mbarrier_arrive"))
        replace(r, i, is_last(r->p, i), "%s\n%s", line, line);
}

static void earlier_arrival(rule_run *r, unsigned i)
{
    if (is_op(r->p->lines[i], "mbarrier_arrive"))
        move(r, i, neighbour(r->p, i, -1), in_order);
}

static void change_number(rule_run *r, unsigned i, const char *word, int by)
{
    const char *line = r->p->lines[i], *at = strstr(line, word);
    char with[16];
    if (!at)
        return;
    at += strlen(word);
    snprintf(with, sizeof with, "%d", atoi(at) + by);
    replace_part(r, i, at, strcspn(at, ")>"), with, NULL);
}

static void other_bytes(rule_run *r, unsigned i)
{
    if (!is_op(r->p->lines[i], "mbarrier_arrive"))
        return;
    change_number(r, i, " bytes(", 16);
    change_number(r, i, " bytes(", -16);
}

static void no_bytes(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i], *at = strstr(line, " bytes(");
    if (is_op(line, "mbarrier_arrive") && at)
        replace_part(r, i, at, strcspn(at, ")") + 1, "", NULL);
}

static void other_arrivals(rule_run *r, unsigned i)
{
    if (!is_op(r->p->lines[i], "mbarrier_alloc"))
        return;
    change_number(r, i, "arrivals(", 1);
    if (!strstr(r->p->lines[i], "arrivals(1)"))
        change_number(r, i, "arrivals(", -1);
}

static void fewer_mbarriers(rule_run *r, unsigned i)
{
    if (is_op(r->p->lines[i], "mbarrier_alloc") &&
        !strstr(r->p->lines[i], "mbarrier<1>"))
        change_number(r, i, "mbarrier<", -1);
}

/* ---- Slots and phases that go round ---- */

static bool is_constant(const program *p, const char *name, unsigned i,
                        const char *what)
{
    const char *made = definition(p, name, i);
    return made && strstr(made, what);
}

/* A scalar i32 op of something that is not 0: its second operand. */
static bool is_step(const program *p, unsigned i, const char *op,
                    const char **at, char *name)
{
    const char *line = p->lines[i];
    size_t n = strlen(line);
    char first[LINE];
    return has_roles(p) && is_op(line, op) && n > 6 &&
           strcmp(line + n - 6, " : i32") == 0 && operand(line, 0, at, first) &&
           operand(line, 1, at, name) &&
           !is_constant(p, first, i, "= const 0 : i32") &&
           !is_constant(p, name, i, "= const 0 : i32");
}

static void other_phase(rule_run *r, unsigned i)
{
    const char *at;
    char name[LINE];
    if (is_step(r->p, i, "xor", &at, name))
        replace_part(r, i, op_at(r->p->lines[i]), 3, "or", NULL);
}

/* Slots and phases by the bits of a count: always 0, or too many bits. */
static void other_count(rule_run *r, unsigned i)
{
    const char *at;
    char name[LINE];
    if (is_step(r->p, i, "and", &at, name) ||
        is_step(r->p, i, "shru", &at, name))
        replace_part(r, i, at, strlen(name), "0", NULL);
}

/* The other one of 0 and 1, of what a loop of a role begins with. */
static void other_begin(rule_run *r, unsigned i)
{
    const program *p = r->p;
    const char *at = strstr(p->lines[i], "carry(");
    if (!has_roles(p) || !at)
        return;
    while ((at = strstr(at, " = "))) {
        char name[LINE];
        at += 3;
        name_at(at, name);
        bool zero = is_constant(p, name, i, "= const 0 : i32");
        if (zero || is_constant(p, name, i, "= const 1 : i32"))
            replace_part(r, i, at, strlen(name), zero ? "1" : "0", NULL);
    }
}

/* ---- Products ---- */

static void weaker_mma_wait(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i];
    if (is_op(line, "mma_wait") || is_op(line, "tma_store_wait"))
        change_number(r, i, "pending(", 1);
}

static void later_mma_wait(rule_run *r, unsigned i)
{
    if (is_op(r->p->lines[i], "mma_wait"))
        move(r, i, neighbour(r->p, i, 1), in_order);
}

/* (Not those that hand values on.) */
static void no_mma_wait(rule_run *r, unsigned i)
{
    if (r->p->lines[i][indent(r->p->lines[i])] != '%')
        remove_op(r, i, "mma_wait", in_order);
}

static void not_awaited(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i], *at = strstr(line, " : ");
    if (is_op(line, "mma") && strstr(line, "instr(m64") && at &&
        !strstr(line, "async("))
        replace_part(r, i, at, 0, " async(true)", NULL);
}

/* ---- TMA copies, fences ---- */

static void no_load(rule_run *r, unsigned i)
{
    remove_op(r, i, "tma_load", NULL);
}

static void two_loads(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i];
    if (is_op(line, "tma_load"))
        replace(r, i, NULL, "%s\n%s", line, line);
}

/* The number of a part of the buffer's rows; -1: all of them. */
static int row_of(const char *line)
{
    const char *at = is_op(line, "tma_load") ? strstr(line, " row(") : NULL;
    return at ? atoi(at + 5) : -1;
}

/* A box goes to the rows of the next one, the last one to those of the first.
 */
static void other_row(rule_run *r, unsigned i)
{
    const program *p = r->p;
    const char *at = strstr(p->lines[i], " row(");
    int row = row_of(p->lines[i]);
    int next = i + 1 < p->nlines ? row_of(p->lines[i + 1]) : -1;
    char with[16];
    if (row < 0 || (row == 0 && next < 0))
        return;
    snprintf(with, sizeof with, "%d", next > row ? next : 0);
    replace_part(r, i, at + 5, strcspn(at + 5, ")"), with, NULL);
}

/* The window of a box begins at the next page. */
static void other_page(rule_run *r, unsigned i)
{
    const program *p = r->p;
    const char *at = strchr(p->lines[i], '[');
    char made[LINE], use[LINE + 16], name[LINE], with[LINE + 8];
    if (!is_op(p->lines[i], "block") || !at || at[1] != '%')
        return;
    name_at(p->lines[i] + indent(p->lines[i]), made);
    snprintf(use, sizeof use, "tma_load %s, ", made);
    bool is_box = false;
    for (unsigned k = i; k < p->nlines; k++)
        is_box |= strstr(p->lines[k], use) && row_of(p->lines[k]) >= 0;
    name_at(at + 1, name);
    snprintf(with, sizeof with, "(%s + 1)", name);
    if (is_box)
        replace_part(r, i, at + 1, strlen(name), with, NULL);
}

static void no_bulk_store(rule_run *r, unsigned i)
{
    remove_op(r, i, "tma_store", NULL);
}

static void no_store_wait(rule_run *r, unsigned i)
{
    remove_op(r, i, "tma_store_wait", NULL);
}

static void later_store_wait(rule_run *r, unsigned i)
{
    if (is_op(r->p->lines[i], "tma_store_wait"))
        move(r, i, neighbour(r->p, i, 1), in_order);
}

static const char no_reader[] =
    "nothing that it shows is read or overwritten asynchronously, for all trip "
    "counts tried";

static void no_fence(rule_run *r, unsigned i)
{
    remove_op(r, i, "fence_async", no_reader);
}

static void later_fence(rule_run *r, unsigned i)
{
    if (is_op(r->p->lines[i], "fence_async"))
        move(r, i, neighbour(r->p, i, 1), no_reader);
}

static void groups_apart(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i];
    if (has_roles(r->p) && is_op(line, "barrier") && !strstr(line, "scope"))
        replace(r, i, in_order, "%s scope(group)", line);
}

/* ---- Tiles ---- */

static void no_put(rule_run *r, unsigned i)
{
    remove_op(r, i, "smem_store_scalar",
              "it says which work may be left out, and none is");
}

static void later_put(rule_run *r, unsigned i)
{
    if (is_op(r->p->lines[i], "smem_store_scalar"))
        move(r, i, neighbour(r->p, i, 1), in_order);
}

static void earlier_put(rule_run *r, unsigned i)
{
    if (is_op(r->p->lines[i], "smem_store_scalar"))
        move(r, i, neighbour(r->p, i, -1), in_order);
}

static void later_get(rule_run *r, unsigned i)
{
    if (is_op(r->p->lines[i], "smem_load_scalar"))
        move(r, i, neighbour(r->p, i, 1), in_order);
}

static void earlier_get(rule_run *r, unsigned i)
{
    if (is_op(r->p->lines[i], "smem_load_scalar"))
        move(r, i, neighbour(r->p, i, -1), in_order);
}

static void no_end(rule_run *r, unsigned i)
{
    remove_op(r, i, "end_tiles", NULL);
}

/* Of the first next_tile: another one is for loops without steps. */
static void skipped_tile(rule_run *r, unsigned i)
{
    const char *line = r->p->lines[i];
    for (unsigned k = 0; k < i; k++)
        if (is_op(r->p->lines[k], "next_tile"))
            return;
    if (is_op(line, "next_tile"))
        replace(r, i, NULL, "%.*s%%skipped = %s\n%s", (int)indent(line), line,
                op_at(line), line);
}

const rule rules_of_roles[] = {
    {"no mbarrier_wait", no_mbarrier_wait},
    {"mbarrier_wait later", later_mbarrier_wait},
    {"other parity", other_parity},
    {"other slot of mbarriers", other_slot},
    {"other mbarrier", other_mbarrier},
    {"no arrival", no_arrival},
    {"two arrivals", two_arrivals},
    {"arrival earlier", earlier_arrival},
    {"other bytes", other_bytes},
    {"no bytes", no_bytes},
    {"other arrivals", other_arrivals},
    {"fewer mbarriers", fewer_mbarriers},
    {"other phase", other_phase},
    {"other count", other_count},
    {"other begin", other_begin},
    {"wait for fewer mma or stores", weaker_mma_wait},
    {"mma_wait later", later_mma_wait},
    {"no mma_wait", no_mma_wait},
    {"mma not waited for", not_awaited},
    {"no TMA load", no_load},
    {"two TMA loads", two_loads},
    {"other rows of the buffer", other_row},
    {"other page", other_page},
    {"no TMA store", no_bulk_store},
    {"no tma_store_wait", no_store_wait},
    {"tma_store_wait later", later_store_wait},
    {"no fence", no_fence},
    {"fence later", later_fence},
    {"groups apart", groups_apart},
    {"no scalar sent", no_put},
    {"scalar sent later", later_put},
    {"scalar sent earlier", earlier_put},
    {"scalar read later", later_get},
    {"scalar read earlier", earlier_get},
    {"no end of tiles", no_end},
    {"a tile skipped", skipped_tile},
    {NULL, NULL},
};
