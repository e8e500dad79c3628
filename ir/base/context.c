/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/base/diag.h"

#include "ir/base/escape.h"
#include "ir/base/intern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* False: out of memory. */
static bool init(tc_context *cx)
{
    jmp_buf unwind;
    if (setjmp(unwind))
        return false;
    cx->memory.unwind = &unwind;
    cx->most_errors = TC_MAX_ERRORS;
    tc_arena_init(&cx->arena, &cx->memory);
    tc_arena_init(&cx->diag_arena, &cx->memory);
    cx->strings = tc_arena_new(&cx->arena, struct tc_intern);
    cx->types = tc_arena_new(&cx->arena, struct tc_intern);
    cx->dims = tc_arena_new(&cx->arena, struct tc_intern);
    cx->layouts = tc_arena_new(&cx->arena, struct tc_intern);
    cx->memory.unwind = NULL;
    return true;
}

tc_context *tc_context_new(void)
{
    tc_context *cx = calloc(1, sizeof *cx);
    if (cx && !init(cx)) {
        tc_context_free(cx);
        return NULL;
    }
    return cx;
}

void tc_context_free(tc_context *cx)
{
    if (!cx)
        return;
    tc_arena_reset(&cx->diag_arena);
    tc_arena_reset(&cx->arena);
    free(cx);
}

struct text_key {
    const char *s;
    size_t n;
};

static bool same_text(const void *stored, const void *key)
{
    const struct text_key *k = key;
    return strncmp(stored, k->s, k->n) == 0 &&
           ((const char *)stored)[k->n] == 0;
}

const char *tc_string_find(tc_context *cx, const char *s)
{
    struct text_key key = {s, strlen(s)};
    return tc_intern_find(cx->strings, tc_hash_bytes(0, s, key.n), same_text,
                          &key);
}

const char *tc_string_getn(tc_context *cx, const char *s, size_t n)
{
    struct text_key key = {s, n};
    uint64_t hash = tc_hash_bytes(0, s, n);
    const char *found = tc_intern_find(cx->strings, hash, same_text, &key);
    if (found)
        return found;
    char *copy = tc_arena_alloc(&cx->arena, n + 1);
    if (n)
        memcpy(copy, s, n);
    tc_intern_add(cx->strings, &cx->arena, hash, copy);
    return copy;
}

const char *tc_string_get(tc_context *cx, const char *s)
{
    return tc_string_getn(cx, s, strlen(s));
}

bool tc_loc_is(tc_loc a, tc_loc b)
{
    return a.file == b.file && a.line == b.line && a.col == b.col;
}

uint32_t tc_source_add(tc_context *cx, const char *name, const char *text,
                       size_t len)
{
    /* Powers of two: grow only when the count reaches one. */
    unsigned n = cx->nsources;
    if ((n & (n - 1)) == 0) {
        tc_source *more =
            tc_arena_array(&cx->arena, tc_source, n ? 2 * (size_t)n : 1);
        if (n)
            memcpy(more, cx->sources, n * sizeof *more);
        cx->sources = more;
    }
    char *copy = tc_arena_alloc(&cx->arena, len + 1);
    if (len)
        memcpy(copy, text, len);
    cx->sources[n] =
        (tc_source){.name = tc_string_get(cx, name), .text = copy, .len = len};
    return cx->nsources = n + 1;
}

void tc_source_alias(tc_context *cx, uint32_t number, const tc_source *from)
{
    tc_source *s = &cx->sources[number - 1];
    tc_alias *all = tc_arena_array(&cx->arena, tc_alias, from->naliases);
    for (unsigned i = 0; i < from->naliases; i++)
        all[i] = (tc_alias){tc_string_get(cx, from->aliases[i].name),
                            tc_string_get(cx, from->aliases[i].symbol)};
    s->aliases = all;
    s->naliases = from->naliases;
}

static tc_diag *new_diag(tc_context *cx, tc_severity severity, tc_loc loc,
                         const char *fmt, va_list args)
{
    tc_diag *d = tc_arena_new(&cx->diag_arena, tc_diag);
    d->severity = severity;
    d->loc = loc;
    d->message = tc_escape_in(
        &cx->diag_arena, tc_arena_vprintf(&cx->diag_arena, fmt, args), "\n\t");
    return d;
}

static void append(tc_context *cx, tc_diag *d)
{
    if (cx->last_diag)
        cx->last_diag->next = d;
    else
        cx->diags = d;
    cx->last_diag = d;
}

bool tc_error(tc_context *cx, tc_loc loc, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (cx->nerrors++ < cx->most_errors)
        append(cx, new_diag(cx, TC_ERROR, loc, fmt, args));
    va_end(args);
    return false;
}

void tc_warning(tc_context *cx, tc_loc loc, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    append(cx, new_diag(cx, TC_WARNING, loc, fmt, args));
    va_end(args);
}

void tc_note(tc_context *cx, tc_loc loc, const char *fmt, ...)
{
    if (!cx->last_diag || cx->nerrors > cx->most_errors)
        return;
    va_list args;
    va_start(args, fmt);
    tc_diag **end = &cx->last_diag->notes;
    while (*end)
        end = &(*end)->next;
    *end = new_diag(cx, TC_NOTE, loc, fmt, args);
    va_end(args);
}

static void add_remark(tc_context *cx, tc_loc loc, const char *pass,
                       bool missed, const char *fmt, va_list args)
{
    if (!cx->want_remarks)
        return;
    tc_diag *d = new_diag(cx, TC_REMARK, loc, fmt, args);
    d->pass = pass;
    d->missed = missed;
    append(cx, d);
}

void tc_remark(tc_context *cx, tc_loc loc, const char *pass, const char *fmt,
               ...)
{
    va_list args;
    va_start(args, fmt);
    add_remark(cx, loc, pass, false, fmt, args);
    va_end(args);
}

void tc_missed(tc_context *cx, tc_loc loc, const char *pass, const char *fmt,
               ...)
{
    va_list args;
    va_start(args, fmt);
    add_remark(cx, loc, pass, true, fmt, args);
    va_end(args);
}

void tc_diags_clear(tc_context *cx)
{
    cx->diags = cx->last_diag = NULL;
    cx->nerrors = 0;
    tc_arena_reset(&cx->diag_arena);
}

/* Damerau-Levenshtein distance of two short names (one swap of neighbours
 * counts 1); longer ones are far. */
enum { LONGEST = 63 };
static size_t distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST)
        return SIZE_MAX;
    unsigned char d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= na; i++)
        d[i][0] = (unsigned char)i;
    for (size_t j = 0; j <= nb; j++)
        d[0][j] = (unsigned char)j;
    for (size_t i = 1; i <= na; i++)
        for (size_t j = 1; j <= nb; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = (unsigned char)best;
        }
    return d[na][nb];
}

enum { SHORT = 6 }; /* Of shorter names a letter may be wrong. */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* In a short name a letter makes a difference: `rand` is not `and`. */
static bool may_be_typo(const char *got, const char *name)
{
    return strlen(got) >= SHORT || lower(*got) == lower(*name) ||
           (*got && got[0] == name[1] && got[1] == name[0]);
}

/* The length of the common beginning, if it is one of the names whole and the
 * rest of the other one is an ending; else 0. */
static size_t common_stem(const char *got, const char *name)
{
    enum { STEM = 3, ENDING = 4 };
    size_t n = 0;
    while (got[n] && got[n] == name[n])
        n++;
    bool stem = !name[n] ? strlen(got + n) <= ENDING : !got[n];
    return stem && n >= STEM ? n : 0;
}

static const char *nearest_stem(const char *got, const char *const *names,
                                size_t n)
{
    const char *nearest = NULL;
    size_t best = 0;
    for (size_t i = 0; i < n; i++)
        if (common_stem(got, names[i]) > best) {
            best = common_stem(got, names[i]);
            nearest = names[i];
        }
    return nearest;
}

const char *tc_nearest_name(const char *got, const char *const *names, size_t n)
{
    const char *nearest = NULL;
    size_t len = strlen(got);
    size_t best = (len < SHORT ? 1 : len / 3) + 1; /* beyond the distance of
                                                    * near names */
    for (size_t i = 0; i < n; i++) {
        size_t far = distance(got, names[i]);
        if (far < best && far < strlen(names[i]) &&
            may_be_typo(got, names[i])) {
            best = far;
            nearest = names[i];
        }
    }
    return nearest ? nearest : nearest_stem(got, names, n);
}
