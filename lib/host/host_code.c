/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/host/host_code.h"

#include "codegen/host/jit/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writing ---- */

static bool add_number(cJSON *to, double n)
{
    return tc_meta_add_item(to, cJSON_CreateNumber(n));
}

static bool add_args(cJSON *meta, const tc_host_kernel *k)
{
    cJSON *args = cJSON_AddArrayToObject(meta, "args");
    bool ok = args != NULL;
    for (unsigned i = 0; ok && i < k->nargs; i++) {
        cJSON *a = tc_meta_add_array(args);
        ok = a && add_number(a, k->args[i].kind) &&
             add_number(a, k->args[i].rank);
    }
    return ok;
}

static bool add_value(cJSON *site, const struct tc_site_value *v)
{
    cJSON *a = tc_meta_add_array(site);
    bool ok = a && add_number(a, v->kind) && add_number(a, v->rank);
    for (unsigned i = 0; ok && i < v->rank; i++)
        ok = add_number(a, (double)v->sides[i]);
    return ok;
}

static bool add_sites(cJSON *meta, const tc_context *cx,
                      const tc_host_kernel *k)
{
    cJSON *sites = cJSON_AddArrayToObject(meta, "sites");
    bool ok = sites != NULL;
    for (unsigned i = 0; ok && i < k->nsites; i++) {
        const tc_site *s = &k->sites[i];
        ok = tc_meta_add_place(sites, cx, s->loc, s->message ? s->message : "");
        cJSON *site = cJSON_GetArrayItem(sites, (int)i);
        for (unsigned v = 0; ok && v < s->nvalues; v++)
            ok = add_value(site, &s->values[v]);
    }
    return ok;
}

static bool add_members(cJSON *meta, const tc_coding *c)
{
    const tc_host_kernel *k = c->code;
    return cJSON_AddStringToObject(meta, "target", "cpu") &&
           cJSON_AddNumberToObject(meta, "scratch", (double)k->scratch_bytes) &&
           cJSON_AddBoolToObject(meta, "ordered", k->ordered) &&
           add_args(meta, k) && add_sites(meta, c->f->module->cx, k);
}

bool tc_host_encode(tc_func *f, const tc_host_kernel *code,
                    const tc_recipe *recipe, const char *tile, tc_entry *out)
{
    tc_cache_section object = {"object", code->object, code->object_size};
    tc_coding c = {.f = f,
                   .recipe = recipe,
                   .tile = tile,
                   .code = code,
                   .add = add_members,
                   .more = &object,
                   .nmore = 1};
    return tc_code_encode(&c, out);
}

/* ---- Reading ---- */

enum { MOST_SIDE = 1 << 24, MOST_SCRATCH = 1 << 30 };

static int host_code_size_of(const cJSON *list)
{
    return cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1;
}

static bool read_kind(const cJSON *list, int index, tc_kind *out)
{
    unsigned kind;
    bool ok = tc_meta_read_at(list, index, 0, TC_KIND_COUNT - 1, &kind);
    *out = (tc_kind)kind;
    return ok;
}

static bool read_arg(const cJSON *a, tc_host_arg *out)
{
    return read_kind(a, 0, &out->kind) &&
           tc_meta_read_at(a, 1, 0, TC_MAX_RANK, &out->rank);
}

static bool read_value(const cJSON *a, struct tc_site_value *out)
{
    if (!read_kind(a, 0, &out->kind) ||
        !tc_meta_read_at(a, 1, 0, TC_MAX_RANK, &out->rank) ||
        host_code_size_of(a) != 2 + (int)out->rank)
        return false;
    for (unsigned i = 0; i < out->rank; i++) {
        unsigned side;
        if (!tc_meta_read_at(a, 2 + (int)i, 1, MOST_SIDE, &side))
            return false;
        out->sides[i] = side;
    }
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

static bool read_site(tc_host_code *c, const cJSON *list, tc_site *out)
{
    int n = host_code_size_of(list) - BEFORE_VALUES;
    if (n < 0)
        return false;
    *out = (tc_site){.loc = {.file = find_file(c, tc_meta_string_at(list, 0)),
                             .line = tc_meta_number_at(list, 1),
                             .col = tc_meta_number_at(list, 2)},
                     .message = tc_meta_string_at(list, 3),
                     .nvalues = (unsigned)n};
    out->values =
        tc_arena_array(&c->kernel->arena, struct tc_site_value, (unsigned)n);
    for (int i = 0; i < n; i++)
        if (!read_value(cJSON_GetArrayItem(list, BEFORE_VALUES + i),
                        &out->values[i]))
            return false;
    return true;
}

static bool read_sites(tc_host_code *c, const cJSON *list)
{
    tc_host_kernel *k = c->kernel;
    const cJSON *item;
    if (host_code_size_of(list) < 0)
        return false;
    c->files = tc_arena_array(&k->arena, const char *,
                              (unsigned)host_code_size_of(list));
    k->sites =
        tc_arena_array(&k->arena, tc_site, (unsigned)host_code_size_of(list));
    cJSON_ArrayForEach(item, list)
    {
        if (!read_site(c, item, &k->sites[k->nsites++]))
            return false;
    }
    return true;
}

static bool read_args(tc_host_kernel *k, const cJSON *list)
{
    const cJSON *item;
    if (host_code_size_of(list) < 0)
        return false;
    k->args = tc_arena_array(&k->arena, tc_host_arg,
                             (unsigned)host_code_size_of(list));
    cJSON_ArrayForEach(item, list)
    {
        if (!read_arg(item, &k->args[k->nargs++]))
            return false;
    }
    return true;
}

static const cJSON *list_of(const tc_host_code *c, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(c->code.meta, name);
}

static bool read_object(tc_host_code *c)
{
    const tc_cache_section *s = tc_entry_find(&c->code.entry, "object");
    c->kernel->object = s && s->size ? malloc(s->size) : NULL;
    if (!c->kernel->object)
        return false;
    memcpy(c->kernel->object, s->data, s->size);
    c->kernel->object_size = s->size;
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
    unsigned scratch;
    c->kernel->ordered = tc_meta_is_set(c->code.meta, "ordered");
    d->ok = tc_meta_read(c->code.meta, "scratch", 0, MOST_SCRATCH, &scratch) &&
            read_args(c->kernel, list_of(c, "args")) &&
            read_sites(c, list_of(c, "sites")) &&
            tc_entry_find(&c->code.entry, "header") &&
            tc_entry_find(&c->code.entry, "tile") && read_object(c);
    c->kernel->scratch_bytes = scratch;
}

static bool read_code(tc_host_code *c)
{
    tc_memory memory = {0};
    struct decoding d = {.c = c};
    c->kernel = calloc(1, sizeof *c->kernel);
    if (!c->code.meta || !c->kernel)
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

tc_host_code *tc_host_decode(tc_entry *entry, char *why, size_t room)
{
    tc_host_code *c = (tc_host_code *)tc_code_new(sizeof *c, entry, drop);
    snprintf(why, room, "%s", c ? "it is not sound" : "out of memory");
    if (c && read_code(c) && tc_host_link(c->kernel, why, room))
        return c;
    tc_code_unref((tc_code *)c);
    return NULL;
}
