/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fuzz/mutant.h"

#include "ir/ir.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A token with the blanks before it. */
typedef struct piece {
    const char *gap, *s;
    size_t ngap, n;
} piece;

typedef struct pieces {
    tc_arena *arena;
    piece *p;
    unsigned n;
} pieces;

/* A run of lines: pieces begin .. end - 1. */
typedef struct range {
    unsigned begin, end;
} range;

/* ---- Tokens ---- */

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static size_t string_length(const char *s)
{
    size_t n = 1;
    while (s[n] && s[n] != '"' && s[n] != '\n')
        n += s[n] == '\\' && s[n + 1] ? 2 : 1;
    return n + (s[n] == '"');
}

/* A layout, with its arguments, is one token. */
static size_t layout_length(const char *s)
{
    size_t n = 1;
    int depth = 0;
    while (is_word_char(s[n]))
        n++;
    if (s[n] != '(')
        return n;
    do {
        depth += s[n] == '(' ? 1 : s[n] == ')' ? -1 : 0;
        n++;
    } while (s[n] && s[n] != '\n' && depth);
    return n;
}

static size_t token_length(const char *s)
{
    size_t n = 1;
    if (*s == '"')
        return string_length(s);
    if (*s == '#')
        return layout_length(s);
    if (*s != '%' && *s != '@' && *s != '-' && !is_word_char(*s))
        return 1;
    while (is_word_char(s[n]))
        n++;
    return n;
}

/* `64x32` of a type is two numbers with an x: its sides can change alone. */
static size_t side_length(const char *s, size_t n)
{
    size_t digits = strspn(s, "0123456789");
    if (*s == 'x' && n > 1 && strspn(s + 1, "0123456789") > 0)
        return 1;
    return digits > 0 && digits < n && s[digits] == 'x' ? digits : n;
}

static pieces split(tc_arena *a, const char *text)
{
    size_t most = strlen(text) + 1;
    pieces all = {a, tc_arena_array(a, piece, most), 0};
    while (*text) {
        piece p = {.gap = text};
        while (isspace((unsigned char)*text))
            text++;
        p.ngap = (size_t)(text - p.gap);
        p.s = text;
        p.n = *text ? side_length(text, token_length(text)) : 0;
        text += p.n;
        all.p[all.n++] = p;
    }
    return all;
}

static char *join(const pieces *all)
{
    tc_text out = {.arena = all->arena};
    tc_text_add(&out, "");
    for (unsigned i = 0; i < all->n; i++) {
        tc_text_addn(&out, all->p[i].gap, all->p[i].ngap);
        tc_text_addn(&out, all->p[i].s, all->p[i].n);
    }
    return out.data;
}

static bool same(piece a, piece b)
{
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

static bool is(piece p, const char *s)
{
    return p.n == strlen(s) && memcmp(p.s, s, p.n) == 0;
}

static void put(piece *p, const char *s)
{
    p->s = s;
    p->n = strlen(s);
}

/* ---- Lines ---- */

static bool begins_line(const pieces *all, unsigned i)
{
    return i == 0 || memchr(all->p[i].gap, '\n', all->p[i].ngap);
}

static range line_at(const pieces *all, unsigned i)
{
    range r = {i, i + 1};
    while (!begins_line(all, r.begin))
        r.begin--;
    while (r.end < all->n && !begins_line(all, r.end))
        r.end++;
    return r;
}

/* With a region that the line opens. */
static range block_at(const pieces *all, unsigned i)
{
    range r = line_at(all, i);
    int depth = 0;
    for (unsigned j = r.begin; j < all->n; j++) {
        depth += is(all->p[j], "{") - is(all->p[j], "}");
        if (j + 1 >= r.end && depth <= 0)
            return (range){r.begin, line_at(all, j).end};
    }
    return r;
}

static void erase(pieces *all, range r)
{
    memmove(all->p + r.begin, all->p + r.end,
            (all->n - r.end) * sizeof *all->p);
    all->n -= r.end - r.begin;
}

static void insert(pieces *all, unsigned at, const piece *p, unsigned n)
{
    piece *more = tc_arena_array(all->arena, piece, all->n + n);
    memcpy(more, all->p, at * sizeof *more);
    memcpy(more + at, p, n * sizeof *more);
    memcpy(more + at + n, all->p + at, (all->n - at) * sizeof *more);
    all->p = more;
    all->n += n;
    if (at < all->n && !begins_line(all, at)) {
        all->p[at].gap = "\n";
        all->p[at].ngap = 1;
    }
}

/* ---- Values and their types ---- */

static bool is_name(piece p)
{
    return p.n > 1 && p.s[0] == '%';
}

/* `%x = ... : type` on a line, or `%x: type` of an argument. */
static bool is_definition(const pieces *all, unsigned i)
{
    if (!is_name(all->p[i]) || i + 1 >= all->n)
        return false;
    if (is(all->p[i + 1], ":"))
        return true;
    return begins_line(all, i) && is(all->p[i + 1], "=");
}

/* The text of its type, in the arena; "" if the line says none. */
static const char *type_at(const pieces *all, unsigned i)
{
    range r = line_at(all, i);
    unsigned from = r.end;
    int depth = 0;
    bool argument = is(all->p[i + 1], ":");
    if (argument) {
        for (from = i + 2, r.end = from; r.end < all->n; r.end++) {
            piece p = all->p[r.end];
            depth += is(p, "<") + is(p, "[") - is(p, ">") - is(p, "]");
            if (depth == 0 && (is(p, ",") || is(p, ")")))
                break;
        }
    } else {
        for (unsigned j = r.begin; j < r.end; j++)
            if (is(all->p[j], ":"))
                from = j + 1;
    }
    tc_text out = {.arena = all->arena};
    tc_text_add(&out, "");
    for (; from < r.end; from++)
        tc_text_addn(&out, all->p[from].s, all->p[from].n);
    return out.data;
}

static const char *type_of(const pieces *all, piece name)
{
    for (unsigned i = 0; i < all->n; i++)
        if (is_definition(all, i) && same(all->p[i], name))
            return type_at(all, i);
    return "";
}

/* Any other value of that type, else any other value; false: none. */
static bool other_value(const pieces *all, num_rng *r, piece name,
                        const char *type, piece *found)
{
    int like = 0, any = 0;
    piece other = {0};
    for (unsigned i = 0; i < all->n; i++) {
        piece p = all->p[i];
        if (!is_definition(all, i) || same(p, name))
            continue;
        if (num_below(r, ++any) == 0)
            other = p;
        if (*type && strcmp(type_at(all, i), type) == 0 &&
            num_below(r, ++like) == 0)
            *found = p;
    }
    if (!like)
        *found = other;
    return any > 0;
}

/* ---- Where ---- */

typedef bool is_kind(piece p);

static bool is_number(piece p)
{
    return isdigit((unsigned char)p.s[0]) ||
           (p.n > 1 && p.s[0] == '-' && isdigit((unsigned char)p.s[1]));
}

static bool is_layout(piece p)
{
    return p.n > 1 && p.s[0] == '#';
}

static bool is_word(piece p)
{
    return isalpha((unsigned char)p.s[0]) && !is(p, "x");
}

static bool is_any(piece p)
{
    return p.n > 0;
}

static const char *const types[] = {"f16", "bf16",   "f32",    "f64", "i1",
                                    "i8",  "f8e4m3", "f8e5m2", "i32", "i64"};
enum { NTYPES = sizeof types / sizeof *types };

static bool is_type(piece p)
{
    for (unsigned i = 0; i < NTYPES; i++)
        if (is(p, types[i]))
            return true;
    return false;
}

static bool is_op(piece p)
{
    for (unsigned i = 0; i < TC_OPCODE_COUNT; i++)
        if (is(p, tc_op_infos[i].name))
            return true;
    return false;
}

/* One of the kind, all as likely. */
static bool pick(const pieces *all, num_rng *r, is_kind *fits, unsigned *at)
{
    int n = 0;
    *at = 0;
    for (unsigned i = 0; i < all->n; i++)
        if (fits(all->p[i]) && num_below(r, ++n) == 0)
            *at = i;
    return n > 0;
}

/* In this place, or in all where the same stands. */
static void replace(pieces *all, num_rng *r, unsigned at, piece by)
{
    piece old = all->p[at];
    bool everywhere = num_below(r, 2);
    for (unsigned i = 0; i < all->n; i++)
        if (i == at || (everywhere && same(all->p[i], old))) {
            all->p[i].s = by.s;
            all->p[i].n = by.n;
        }
}

/* ---- Changes ---- */

typedef bool change(pieces *all, num_rng *r, const pieces *donor);

static bool change_value(pieces *all, num_rng *r, const pieces *donor)
{
    unsigned at;
    piece by;
    if (!pick(all, r, is_name, &at) ||
        !other_value(all, r, all->p[at],
                     num_below(r, 8) ? type_of(all, all->p[at]) : "", &by))
        return false;
    all->p[at].s = by.s;
    all->p[at].n = by.n;
    return true;
}

static bool change_number(pieces *all, num_rng *r, const pieces *donor)
{
    static const char *const often[] = {
        "0",  "1",  "-1",  "2",   "3",    "4",    "7",     "8",          "16",
        "32", "64", "128", "256", "1024", "4096", "65536", "2147483647", "24"};
    unsigned at, other;
    if (!pick(all, r, is_number, &at))
        return false;
    piece by = all->p[at];
    long long v = strtoll(by.s, NULL, 10);
    switch (num_below(r, 6)) {
    case 0: put(&by, often[num_below(r, 18)]); break;
    case 1: put(&by, tc_arena_printf(all->arena, "%lld", v / 2)); break;
    case 2: put(&by, tc_arena_printf(all->arena, "%lld", v % 99999 * 2)); break;
    case 3: put(&by, tc_arena_printf(all->arena, "%lld", v % 99999 + 1)); break;
    default: by = pick(all, r, is_number, &other) ? all->p[other] : by;
    }
    replace(all, r, at, by);
    return true;
}

static bool change_layout(pieces *all, num_rng *r, const pieces *donor)
{
    unsigned at, other;
    const pieces *from = num_below(r, 3) ? all : donor;
    if (!pick(all, r, is_layout, &at) || !pick(from, r, is_layout, &other))
        return false;
    piece by = from->p[other];
    if (num_below(r, 3) == 0) { /* a number of it */
        char *s = tc_arena_printf(all->arena, "%.*s", (int)all->p[at].n,
                                  all->p[at].s);
        size_t i = (size_t)num_below(r, (int)strlen(s));
        while (s[i] && !isdigit((unsigned char)s[i]))
            i++;
        if (s[i])
            s[i] = "01248"[num_below(r, 5)];
        put(&by, s);
    }
    replace(all, r, at, by);
    return true;
}

static bool drop_layout(pieces *all, num_rng *r, const pieces *donor)
{
    unsigned at;
    if (!pick(all, r, is_layout, &at) || at == 0 || !is(all->p[at - 1], ","))
        return false;
    erase(all, (range){at - 1, at + 1});
    return true;
}

static bool change_type(pieces *all, num_rng *r, const pieces *donor)
{
    unsigned at;
    piece by = {0};
    if (!pick(all, r, is_type, &at))
        return false;
    put(&by, types[num_below(r, NTYPES)]);
    replace(all, r, at, by);
    return true;
}

/* One that takes as many operands, most often. */
static bool change_op(pieces *all, num_rng *r, const pieces *donor)
{
    unsigned at, old = 0;
    if (!pick(all, r, is_op, &at))
        return false;
    while (!is(all->p[at], tc_op_infos[old].name))
        old++;
    bool alike = num_below(r, 4) > 0;
    int n = 0;
    piece by = all->p[at];
    for (unsigned i = 0; i < TC_OPCODE_COUNT; i++)
        if (i != old &&
            (!alike ||
             strlen(tc_op_infos[i].in) == strlen(tc_op_infos[old].in)) &&
            num_below(r, ++n) == 0)
            put(&by, tc_op_infos[i].name);
    all->p[at].s = by.s;
    all->p[at].n = by.n;
    return true;
}

/* A word of attributes, or any other one. */
static bool change_word(pieces *all, num_rng *r, const pieces *donor)
{
    static const char *const words[] = {
        "true", "false",   "sum",      "max",    "min",  "and",  "or",
        "fma",  "m16n8k8", "m64k16",   "m64k32", "warp", "lt",   "group",
        "add",  "set",     "m16n8k16", "m64k8",  "none", "xor",  "m16n8k32",
        "rows", "step",    "overlap",  "mul",    "eq",   "tf32", "ieee"};
    unsigned at, other;
    const pieces *from = num_below(r, 2) ? all : donor;
    if (!pick(all, r, is_word, &at) || !pick(from, r, is_word, &other))
        return false;
    piece by = from->p[other];
    if (at > 0 && is(all->p[at - 1], "("))
        put(&by, words[num_below(r, sizeof words / sizeof *words)]);
    all->p[at].s = by.s;
    all->p[at].n = by.n;
    return true;
}

/* Pieces of a clause: `name(...)`; n 0: none is there. */
static range clause_at(const pieces *all, unsigned at)
{
    range none = {0, 0};
    if (at + 2 >= all->n || !is_word(all->p[at]) || !is(all->p[at + 1], "("))
        return none;
    for (unsigned i = at + 2; i < all->n && i < at + 30; i++)
        if (is(all->p[i], ")"))
            return (range){at, i + 1};
    return none;
}

static bool drop_clause(pieces *all, num_rng *r, const pieces *donor)
{
    unsigned at;
    if (!pick(all, r, is_word, &at))
        return false;
    range c = clause_at(all, at);
    if (c.end == 0)
        return false;
    erase(all, c);
    return true;
}

/* An attribute that the op of a line may have, or one of another line. */
static bool add_clause(pieces *all, num_rng *r, const pieces *donor)
{
    static const char *const values[] = {"0",     "1",      "2",   "true",
                                         "false", "0, 1",   "16",  "64",
                                         "1, 0",  "m64k16", "fma", "group"};
    unsigned at, op = 0;
    if (!pick(all, r, is_op, &at))
        return false;
    while (!is(all->p[at], tc_op_infos[op].name))
        op++;
    const char *s = tc_op_infos[op].attrs;
    int n = 0;
    const char *chosen = NULL;
    for (; *s; s += strcspn(s, " "), s += strspn(s, " "))
        if (num_below(r, ++n) == 0)
            chosen = s;
    if (!chosen)
        return false;
    const char *kind = chosen + strcspn(chosen, ":") + 1;
    size_t len = strcspn(kind, " |");
    const char *value = values[num_below(r, 12)];
    unsigned layout;
    if (strncmp(kind, "layout", 6) == 0 && pick(all, r, is_layout, &layout))
        value = tc_arena_printf(all->arena, "%.*s", (int)all->p[layout].n,
                                all->p[layout].s);
    else if (kind[strcspn(kind, " |")] == '|' && num_below(r, 2))
        value = tc_arena_printf(all->arena, "%.*s", (int)len, kind);
    piece p = {.gap = " ", .ngap = 1};
    put(&p, tc_arena_printf(all->arena, "%.*s(%s)", (int)strcspn(chosen, "?:"),
                            chosen, value));
    range line = line_at(all, at);
    unsigned to = line.end;
    for (unsigned i = at; i < line.end; i++)
        if (is(all->p[i], ":") || is(all->p[i], "{")) {
            to = i;
            break;
        }
    piece *q = tc_arena_array(all->arena, piece, all->n + 1);
    memcpy(q, all->p, to * sizeof *q);
    q[to] = p;
    memcpy(q + to + 1, all->p + to, (all->n - to) * sizeof *q);
    all->p = q;
    all->n++;
    return true;
}

static bool swap_values(pieces *all, num_rng *r, const pieces *donor)
{
    unsigned at;
    if (!pick(all, r, is_name, &at))
        return false;
    range line = line_at(all, at);
    unsigned other = at;
    int n = 0;
    for (unsigned i = line.begin; i < line.end; i++)
        if (i != at && is_name(all->p[i]) && num_below(r, ++n) == 0)
            other = i;
    piece p = all->p[at];
    all->p[at].s = all->p[other].s;
    all->p[at].n = all->p[other].n;
    all->p[other].s = p.s;
    all->p[other].n = p.n;
    return other != at;
}

/* Those who used what a lost line defined use another value. */
static void mend(pieces *all, num_rng *r, piece name, const char *type)
{
    piece by;
    if (num_below(r, 8) == 0 || !other_value(all, r, name, type, &by))
        return;
    for (unsigned i = 0; i < all->n; i++)
        if (same(all->p[i], name)) {
            all->p[i].s = by.s;
            all->p[i].n = by.n;
        }
}

static bool drop_line(pieces *all, num_rng *r, const pieces *donor)
{
    unsigned at;
    if (!pick(all, r, is_any, &at))
        return false;
    range line = num_below(r, 2) ? line_at(all, at) : block_at(all, at);
    piece name = all->p[line.begin];
    bool defines = is_definition(all, line.begin);
    const char *type = defines ? type_at(all, line.begin) : "";
    erase(all, line);
    if (defines)
        mend(all, r, name, type);
    return true;
}

/* Names that the copy defines are its own; what it takes from another program
 * becomes what there is of that type. */
static void rename_copy(pieces *all, num_rng *r, pieces *copy,
                        const pieces *from, bool foreign)
{
    unsigned n = copy->n, number = (unsigned)num_below(r, 1000);
    bool *own = tc_arena_array(all->arena, bool, n);
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < n && !own[i]; j++)
            own[i] =
                is_name(copy->p[i]) && same(copy->p[i], copy->p[j]) &&
                (begins_line(copy, j) || (j && is(copy->p[j - 1], "for")) ||
                 (j + 1 < n && is(copy->p[j + 1], "=")));
    for (unsigned i = 0; i < n; i++) {
        piece by;
        if (own[i])
            put(&copy->p[i],
                tc_arena_printf(all->arena, "%.*s_q%u", (int)copy->p[i].n,
                                copy->p[i].s, number));
        else if (foreign && is_name(copy->p[i]) &&
                 other_value(all, r, copy->p[i], type_of(from, copy->p[i]),
                             &by))
            copy->p[i].s = by.s, copy->p[i].n = by.n;
    }
}

static bool copy_lines(pieces *all, num_rng *r, const pieces *from,
                       bool foreign)
{
    unsigned at, to;
    if (!pick(from, r, is_any, &at) || !pick(all, r, is_any, &to))
        return false;
    range line = num_below(r, 3) ? line_at(from, at) : block_at(from, at);
    pieces copy = {all->arena, NULL, line.end - line.begin};
    copy.p = tc_arena_copy(all->arena, from->p + line.begin,
                           copy.n * sizeof *copy.p);
    if (copy.n < 2000)
        rename_copy(all, r, &copy, from, foreign);
    insert(all, line_at(all, to).begin, copy.p, copy.n);
    return true;
}

static bool copy_line(pieces *all, num_rng *r, const pieces *donor)
{
    return copy_lines(all, r, all, false);
}

static bool take_line(pieces *all, num_rng *r, const pieces *donor)
{
    return copy_lines(all, r, donor, true);
}

static bool move_line(pieces *all, num_rng *r, const pieces *donor)
{
    unsigned at, to;
    if (!pick(all, r, is_any, &at))
        return false;
    range line = num_below(r, 2) ? line_at(all, at) : block_at(all, at);
    unsigned n = line.end - line.begin;
    piece *copy =
        tc_arena_copy(all->arena, all->p + line.begin, n * sizeof *copy);
    erase(all, line);
    if (!all->n || !pick(all, r, is_any, &to))
        return false;
    if (num_below(r, 2)) { /* near by */
        to = line.begin + (unsigned)num_below(r, 60);
        to = to < 30 ? 0 : to - 30;
        to = to < all->n ? to : all->n - 1;
    }
    insert(all, line_at(all, to).begin, copy, n);
    return true;
}

static bool drop_token(pieces *all, num_rng *r, const pieces *donor)
{
    unsigned at;
    if (!pick(all, r, is_any, &at))
        return false;
    erase(all, (range){at, at + 1});
    return true;
}

static bool take_token(pieces *all, num_rng *r, const pieces *donor)
{
    unsigned at, other;
    if (!pick(all, r, is_any, &at) || !pick(donor, r, is_any, &other))
        return false;
    all->p[at].s = donor->p[other].s;
    all->p[at].n = donor->p[other].n;
    return true;
}

static change *const changes[] = {
    change_value,  change_value,  change_value,  change_number, change_number,
    change_number, change_layout, change_layout, change_layout, change_type,
    change_type,   change_op,     change_op,     change_word,   change_word,
    drop_clause,   drop_clause,   add_clause,    add_clause,    swap_values,
    drop_line,     drop_line,     drop_line,     copy_line,     copy_line,
    take_line,     take_line,     move_line,     move_line,     drop_layout,
    drop_token,    take_token};

char *mutant_new(tc_arena *a, num_rng *r, const char *text, const char *donor)
{
    pieces all = split(a, text), from = split(a, donor);
    int wanted = num_below(r, 2) ? 1 : num_between(r, 1, 5);
    for (int tries = 0; wanted && tries < 50 && all.n; tries++)
        wanted -= changes[num_below(r, sizeof changes / sizeof *changes)](
            &all, r, &from);
    return join(&all);
}
