/* SPDX-License-Identifier: Apache-2.0
 *
 * Code for the CPU from the sections of an entry. What links it is the caller's
 * to say: LLVM, or the loader of images.
 */
#include "lib/host/host_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIDE = 1 << 24, MOST_SCRATCH = 1 << 30 };

static bool read_kind(tc_record list, unsigned index, tc_kind *out)
{
    unsigned kind;
    bool ok = tc_record_unsigned(tc_record_at(list, index), 0,
                                 TC_KIND_COUNT - 1, &kind);
    *out = (tc_kind)kind;
    return ok;
}

static bool read_rank(tc_record list, unsigned *out)
{
    return tc_record_unsigned(tc_record_at(list, 1), 0, TC_MAX_RANK, out);
}

static bool read_arg(tc_record a, tc_host_arg *out)
{
    return read_kind(a, 0, &out->kind) && read_rank(a, &out->rank);
}

static bool read_value(tc_record a, struct tc_site_value *out)
{
    if (!read_kind(a, 0, &out->kind) || !read_rank(a, &out->rank) ||
        tc_record_count(a) != 2 + out->rank)
        return false;
    for (unsigned i = 0; i < out->rank; i++)
        if (!tc_record_int(tc_record_at(a, 2 + i), 1, MOST_SIDE,
                           &out->sides[i]))
            return false;
    return true;
}

/* 0: no file. There is room for one a site. */
static uint32_t find_file(tc_host_code *c, const char *name)
{
    if (!*name)
        return 0;
    for (unsigned i = 0; i < c->nfiles; i++)
        if (strcmp(c->files[i], name) == 0)
            return i + 1;
    c->files[c->nfiles++] = name;
    return c->nfiles;
}

enum { BEFORE_VALUES = 4 }; /* file, line, column, message */

static bool read_site(tc_host_code *c, tc_record list, tc_site *out)
{
    uint32_t n = tc_record_count(list);
    if (n < BEFORE_VALUES)
        return false;
    n -= BEFORE_VALUES;
    *out = (tc_site){.loc = {.file = find_file(c, tc_meta_string_at(list, 0)),
                             .line = tc_meta_number_at(list, 1),
                             .col = tc_meta_number_at(list, 2)},
                     .message = tc_meta_string_at(list, 3),
                     .nvalues = n};
    out->values = tc_arena_array(&c->kernel->arena, struct tc_site_value, n);
    for (uint32_t i = 0; i < n; i++)
        if (!read_value(tc_record_at(list, BEFORE_VALUES + i), &out->values[i]))
            return false;
    return true;
}

static bool read_sites(tc_host_code *c, tc_record list)
{
    tc_host_kernel *k = c->kernel;
    uint32_t n = tc_record_count(list);
    if (!tc_record_is_list(list))
        return false;
    c->files = tc_arena_array(&k->arena, const char *, n);
    k->sites = tc_arena_array(&k->arena, tc_site, n);
    for (uint32_t i = 0; i < n; i++)
        if (!read_site(c, tc_record_at(list, i), &k->sites[k->nsites++]))
            return false;
    return true;
}

static bool read_args(tc_host_kernel *k, tc_record list)
{
    uint32_t n = tc_record_count(list);
    if (!tc_record_is_list(list))
        return false;
    k->args = tc_arena_array(&k->arena, tc_host_arg, n);
    for (uint32_t i = 0; i < n; i++)
        if (!read_arg(tc_record_at(list, i), &k->args[k->nargs++]))
            return false;
    return true;
}

/* Runs with an unwind point. */
struct decoding {
    tc_host_code *c;
    bool ok;
};

static void read_kernel(void *arg)
{
    struct decoding *d = arg;
    tc_host_code *c = d->c;
    tc_record meta = c->code.meta;
    unsigned scratch;
    c->kernel->ordered = tc_record_is_set(tc_record_get(meta, "ordered"));
    d->ok = tc_record_unsigned(tc_record_get(meta, "scratch"), 0, MOST_SCRATCH,
                               &scratch) &&
            read_args(c->kernel, tc_record_get(meta, "args")) &&
            read_sites(c, tc_record_get(meta, "sites")) &&
            tc_entry_find(&c->code.entry, "header");
    c->kernel->scratch_bytes = scratch;
}

static bool read_code(tc_host_code *c)
{
    tc_memory memory = {0};
    struct decoding d = {.c = c};
    c->kernel = calloc(1, sizeof *c->kernel);
    if (!c->code.meta.at || !c->kernel)
        return false;
    tc_arena_init(&c->kernel->arena, &memory);
    bool ok = tc_guard(&memory, read_kernel, &d) && d.ok;
    c->kernel->arena.memory = NULL;
    return ok;
}

static void drop(tc_code *code)
{
    tc_host_code *c = (tc_host_code *)code;
    tc_host_free(c->kernel);
}

tc_host_code *tc_host_decode(tc_entry *entry, tc_host_linker *link, char *why,
                             size_t room)
{
    tc_host_code *c = (tc_host_code *)tc_code_new(sizeof *c, entry, drop);
    snprintf(why, room, "%s", c ? "it is not sound" : "out of memory");
    if (c && read_code(c) && link(c->kernel, &c->code.entry, why, room))
        return c;
    tc_code_unref((tc_code *)c);
    return NULL;
}

bool tc_host_fits(const tc_host_code *c, const tilec_kernel *k)
{
    bool fit = k->nparams == c->kernel->nargs;
    for (unsigned i = 0; fit && i < k->nparams; i++) {
        tc_host_arg a = tc_host_arg_of(k->params[i].type);
        fit = a.kind == c->kernel->args[i].kind &&
              a.rank == c->kernel->args[i].rank;
    }
    return fit;
}
