/* SPDX-License-Identifier: Apache-2.0
 *
 * Records kernels and plans of a context, and writes them as a bundle.
 *
 * A kernel becomes a record (bundle.h) as soon as its plan is made, and what
 * has the same bytes is kept once. A bundle is written in an order of its own:
 * entries by kind, name, target and key, kernels by their first use.
 */
#include "lib/bundle/bundle.h"

#include "lib/cache/code_meta.h"
#include "lib/files/replace.h"
#include "lib/program/plan.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One value, malloc'd. Of kernels of a plan `parts` are indices of the
 * recorder's list, not of a bundle's. */
typedef struct blob {
    unsigned char *data;
    size_t size;
    unsigned nparts;
    unsigned *parts;
    unsigned place; /* in the bundle, plus 1; 0: not yet there */
} blob;

typedef struct entry {
    char *kind, *name, *target, *cpu, *key;
    unsigned nsides;
    int64_t sides[TC_BUNDLE_SIDES];
    tc_record_writer facts;
    unsigned nroles;
    struct {
        char name[16];
        unsigned kernel;
    } roles[4];
} entry;

struct tc_recorder {
    unsigned nkernels, nentries;
    blob *kernels;
    entry *entries;
};

/* ---- Lists ---- */

/* Room for one more; false: out of memory. */
static bool grow(void *list, unsigned n, size_t size)
{
    void *old;
    memcpy(&old, list, sizeof old);
    if (n & (n - 1))
        return true;
    void *more = realloc(old, (n ? 2 * (size_t)n : 1) * size);
    if (more)
        memcpy(list, &more, sizeof more);
    return more != NULL;
}

static void entry_free(entry *e)
{
    free(e->kind);
    free(e->name);
    free(e->target);
    free(e->cpu);
    free(e->key);
    free(e->facts.data);
}

static void recorder_free(tc_recorder *r)
{
    for (unsigned i = 0; i < r->nkernels; i++) {
        free(r->kernels[i].data);
        free(r->kernels[i].parts);
    }
    for (unsigned i = 0; i < r->nentries; i++)
        entry_free(&r->entries[i]);
    free(r->kernels);
    free(r->entries);
    free(r);
}

/* Takes the blob; -1: out of memory. */
static int keep(tc_recorder *r, blob *b)
{
    for (unsigned i = 0; i < r->nkernels; i++) {
        const blob *k = &r->kernels[i];
        if (k->size == b->size && memcmp(k->data, b->data, b->size) == 0 &&
            k->nparts == b->nparts &&
            (!b->nparts ||
             memcmp(k->parts, b->parts, b->nparts * sizeof *b->parts) == 0)) {
            free(b->data);
            free(b->parts);
            return (int)i;
        }
    }
    if (!grow(&r->kernels, r->nkernels, sizeof *r->kernels)) {
        free(b->data);
        free(b->parts);
        return -1;
    }
    r->kernels[r->nkernels] = *b;
    return (int)r->nkernels++;
}

/* ---- Kernels ---- */

static tilec_status write_code(blob *b, const tilec_context *cx,
                               const tilec_kernel *k, tilec_error *error)
{
    tc_record_writer w = {0};
    tilec_status s = tc_bundle_add_code(&w, cx, k, error);
    *b = (blob){.data = w.data, .size = w.size};
    return s;
}

/* ---- Plans ---- */

/* The module with kernels that have no bodies: what a plan's text has to name.
 * In a context of its own, since bodies of the kernel's own are still needed.
 */
struct stripping {
    tc_context *cx;
    const tilec_kernel *k;
    tc_text text;
    bool ok;
};

static void empty(tc_func *f)
{
    for (tc_op *op = f->body->last, *before; op; op = before) {
        before = op->prev;
        tc_op_erase(op);
    }
}

static bool launches(const tc_region *r, const tc_func *kernel)
{
    tc_each_op (op, r) {
        if (op->code == TC_LAUNCH && tc_launch_kernel(op) == kernel)
            return true;
        for (unsigned i = 0; i < op->nregions; i++)
            if (launches(op->regions[i], kernel))
                return true;
    }
    return false;
}

/* Leaves the plan, and the headers of what it launches. */
static void strip(tc_module *m, const tc_func *plan)
{
    for (tc_func *f = m->first, *next; f; f = next) {
        next = f->next;
        if (f == plan)
            continue;
        if (f->is_kernel && launches(plan->body, f))
            empty(f);
        else
            tc_func_erase(f);
    }
}

static void print_whole(void *arg)
{
    struct stripping *s = arg;
    s->text = (tc_text){.arena = &s->cx->arena};
    tc_text whole = {.arena = &s->cx->arena};
    tc_module_print(&whole, s->k->module, TC_PRINT_PLAIN);
    tc_module *m = tc_module_new(s->cx);
    s->ok = tc_parse(m, tc_source_add(s->cx, "plan", whole.data, whole.len));
    if (s->ok) {
        strip(m, tc_func_find(m, s->k->func->name));
        tc_module_print(&s->text, m, TC_PRINT_PLAIN);
    }
    tc_module_free(m);
}

static void add_places(tc_record_writer *w, const tc_context *cx,
                       const tc_region *r)
{
    tc_each_op (op, r) {
        tc_meta_open_place(w, cx, op->loc);
        tc_record_close(w);
        for (unsigned i = 0; i < op->nregions; i++)
            add_places(w, cx, op->regions[i]);
    }
}

static tilec_status write_plan_text(tc_record_writer *w, const tilec_kernel *k,
                                    tilec_error *error)
{
    struct stripping s = {.cx = tc_context_new(), .k = k};
    if (!s.cx)
        return tc_fail_memory(error);
    tilec_status status = TILEC_OK;
    if (!tc_guard(&s.cx->memory, print_whole, &s))
        status = tc_fail_memory(error);
    else if (!s.ok)
        status = tc_fail(error, TILEC_INPUT,
                         "the plan @%s does not parse again: %s", k->func->name,
                         s.cx->diags ? s.cx->diags->message : "no reason");
    else
        tc_record_add_bytes(w, "text", s.text.data, s.text.len);
    tc_context_free(s.cx);
    return status;
}

static tilec_status record_kernel(tc_recorder *r, const tilec_context *cx,
                                  const tilec_kernel *k, unsigned *index,
                                  tilec_error *error);

static tilec_status write_plan(tc_recorder *r, blob *b, const tilec_context *cx,
                               const tilec_kernel *k, tilec_error *error)
{
    tc_record_writer w = {0};
    tilec_status s = TILEC_OK;
    unsigned n = k->plan->nkernels;
    *b = (blob){.nparts = n, .parts = calloc(n + 1, sizeof *b->parts)};
    if (!b->parts)
        return tc_fail_memory(error);
    for (unsigned i = 0; s == TILEC_OK && i < n; i++)
        s = record_kernel(r, cx, k->plan->kernels[i], &b->parts[i], error);
    tc_bundle_open_kernel(&w, k);
    if (s == TILEC_OK)
        s = write_plan_text(&w, k, error);
    tc_record_open_list(&w, "places");
    add_places(&w, k->cx, k->func->body);
    tc_record_close(&w);
    tc_record_close(&w);
    if (s == TILEC_OK && w.failed)
        s = tc_fail_memory(error);
    b->data = w.data;
    b->size = w.size;
    return s;
}

static tilec_status record_kernel(tc_recorder *r, const tilec_context *cx,
                                  const tilec_kernel *k, unsigned *index,
                                  tilec_error *error)
{
    blob b = {0};
    tilec_status s = k->plan ? write_plan(r, &b, cx, k, error)
                             : write_code(&b, cx, k, error);
    if (s != TILEC_OK) {
        free(b.data);
        free(b.parts);
        return s;
    }
    int at = keep(r, &b);
    *index = at < 0 ? 0 : (unsigned)at;
    return at < 0 ? tc_fail_memory(error) : TILEC_OK;
}

/* ---- Entries ---- */

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const char *const tx[] = {x->kind, x->name, x->target, x->cpu, x->key},
                      *const ty[] = {y->kind, y->name, y->target, y->cpu,
                                     y->key};
    for (int i = 0; i < 5; i++) {
        int c = strcmp(tx[i], ty[i]);
        if (c)
            return c;
    }
    if (x->nsides != y->nsides)
        return x->nsides < y->nsides ? -1 : 1;
    for (unsigned i = 0; i < x->nsides; i++)
        if (x->sides[i] != y->sides[i])
            return x->sides[i] < y->sides[i] ? -1 : 1;
    return 0;
}

/* Takes the entry, in place of one for the same request. */
static tilec_status add_entry(tc_recorder *r, entry *e, tilec_error *error)
{
    if (!e->kind || !e->name || !e->target || !e->cpu || !e->key ||
        !grow(&r->entries, r->nentries, sizeof *r->entries)) {
        entry_free(e);
        return tc_fail_memory(error);
    }
    for (unsigned i = 0; i < r->nentries; i++)
        if (compare_entries(&r->entries[i], e) == 0) {
            entry_free(&r->entries[i]);
            r->entries[i] = *e;
            return TILEC_OK;
        }
    r->entries[r->nentries++] = *e;
    return TILEC_OK;
}

static entry new_entry(const char *kind, const char *name, const char *target,
                       const char *cpu, const char *key)
{
    return (entry){.kind = strdup(kind),
                   .name = strdup(name),
                   .target = strdup(target),
                   .cpu = strdup(cpu),
                   .key = strdup(key)};
}

tilec_status tc_bundle_record(tilec_context *cx, const tc_bundle_request *q,
                              const char *name, tc_record_writer *facts,
                              const tc_bundle_role *roles, unsigned nroles,
                              tilec_error *error)
{
    tc_recorder *r = cx->recorder;
    bool is_gpu = tc_target_is_gpu(q->target);
    entry e = new_entry(q->kind, name, q->target->name,
                        is_gpu || !cx->cpu ? "" : cx->cpu, q->key);
    e.nsides = q->nsides;
    memcpy(e.sides, q->sides, sizeof e.sides);
    if (facts)
        e.facts = *facts;
    tilec_status s = facts && facts->failed ? tc_fail_memory(error) : TILEC_OK;
    for (unsigned i = 0; s == TILEC_OK && i < nroles; i++) {
        if (!roles[i].kernel)
            continue;
        snprintf(e.roles[e.nroles].name, sizeof e.roles->name, "%s",
                 roles[i].role);
        s = record_kernel(r, cx, roles[i].kernel, &e.roles[e.nroles++].kernel,
                          error);
    }
    if (s == TILEC_OK)
        return add_entry(r, &e, error);
    entry_free(&e);
    return s;
}

/* ---- From bundles ---- */

static tilec_status keep_kernel(tc_recorder *r, const tc_bundle *b,
                                unsigned index, unsigned *out,
                                tilec_error *error);

/* All members of a plan but its parts. */
static void copy_members(tc_record_writer *w, tc_record r)
{
    tc_record_open_map(w, NULL);
    for (uint32_t i = 0; i < tc_record_count(r); i += 2) {
        const char *name = tc_record_text(tc_record_item(r, i));
        if (strcmp(name, "parts") != 0)
            tc_record_add_value(w, name, tc_record_item(r, i + 1));
    }
    tc_record_close(w);
}

static tilec_status keep_parts(tc_recorder *r, const tc_bundle *b,
                               unsigned index, tc_record parts, blob *out,
                               tilec_error *error)
{
    tilec_status s = TILEC_OK;
    out->nparts = tc_record_count(parts);
    out->parts = calloc(out->nparts + 1, sizeof *out->parts);
    if (!out->parts)
        return tc_fail_memory(error);
    for (uint32_t i = 0; s == TILEC_OK && i < out->nparts; i++) {
        unsigned part;
        if (index == 0 ||
            !tc_record_unsigned(tc_record_at(parts, i), 0, index - 1, &part))
            return tc_fail(error, TILEC_INPUT,
                           "%s: a part of kernel %u is not before it", b->name,
                           index);
        s = keep_kernel(r, b, part, &out->parts[i], error);
    }
    return s;
}

static tilec_status keep_kernel(tc_recorder *r, const tc_bundle *b,
                                unsigned index, unsigned *out,
                                tilec_error *error)
{
    tc_record k = b->kernels[index], parts = tc_record_get(k, "parts");
    tc_record_writer w = {0};
    blob new = {0};
    copy_members(&w, k);
    tilec_status s = w.failed ? tc_fail_memory(error) : TILEC_OK;
    if (s == TILEC_OK && parts.at)
        s = keep_parts(r, b, index, parts, &new, error);
    new.data = w.data;
    new.size = w.size;
    if (s != TILEC_OK) {
        free(new.data);
        free(new.parts);
        return s;
    }
    int at = keep(r, &new);
    *out = at < 0 ? 0 : (unsigned)at;
    return at < 0 ? tc_fail_memory(error) : TILEC_OK;
}

static tilec_status keep_entry(tc_recorder *r, const tc_bundle_entry *from,
                               tilec_error *error)
{
    const tc_bundle *b = from->bundle;
    entry e =
        new_entry(from->kind, from->name, from->target, from->cpu, from->key);
    e.nsides = from->nsides;
    memcpy(e.sides, from->sides, sizeof e.sides);
    if (from->facts.at)
        tc_record_add_value(&e.facts, NULL, from->facts);
    tilec_status s = e.facts.failed ? tc_fail_memory(error) : TILEC_OK;
    uint32_t n = tc_record_count(from->kernels);
    for (uint32_t i = 0; s == TILEC_OK && i < n && e.nroles < 4; i += 2) {
        unsigned index;
        if (b->nkernels == 0 ||
            !tc_record_unsigned(tc_record_item(from->kernels, i + 1), 0,
                                b->nkernels - 1, &index)) {
            s = tc_fail(error, TILEC_INPUT, "%s: entry `%s` is not sound",
                        b->name, from->key);
            break;
        }
        snprintf(e.roles[e.nroles].name, sizeof e.roles->name, "%s",
                 tc_record_text(tc_record_item(from->kernels, i)));
        s = keep_kernel(r, b, index, &e.roles[e.nroles++].kernel, error);
    }
    if (s == TILEC_OK)
        return add_entry(r, &e, error);
    entry_free(&e);
    return s;
}

/* ---- The file ---- */

/* After its parts. */
static void place_kernel(tc_recorder *r, unsigned index, unsigned *order,
                         unsigned *n)
{
    blob *b = &r->kernels[index];
    if (b->place)
        return;
    for (unsigned i = 0; i < b->nparts; i++)
        place_kernel(r, b->parts[i], order, n);
    order[(*n)++] = index;
    b->place = *n;
}

static void add_kernel(tc_record_writer *w, const tc_recorder *r, const blob *b)
{
    tc_record whole = {b->data};
    tc_record_open_map(w, NULL);
    for (uint32_t i = 0; i < tc_record_count(whole); i += 2)
        tc_record_add_value(w, tc_record_text(tc_record_item(whole, i)),
                            tc_record_item(whole, i + 1));
    if (b->parts) {
        tc_record_open_list(w, "parts");
        for (unsigned i = 0; i < b->nparts; i++)
            tc_record_add_int(w, NULL, r->kernels[b->parts[i]].place - 1);
        tc_record_close(w);
    }
    tc_record_close(w);
}

static void write_entry(tc_record_writer *w, const tc_recorder *r,
                        const entry *e)
{
    tc_record_open_map(w, NULL);
    tc_record_add_text(w, "kind", e->kind);
    tc_record_add_text(w, "name", e->name);
    tc_record_add_text(w, "target", e->target);
    tc_record_add_text(w, "cpu", e->cpu);
    tc_record_add_text(w, "key", e->key);
    tc_record_open_list(w, "sides");
    for (unsigned i = 0; i < e->nsides; i++)
        tc_record_add_int(w, NULL, e->sides[i]);
    tc_record_close(w);
    if (e->facts.data)
        tc_record_add_value(w, "facts", (tc_record){e->facts.data});
    tc_record_open_map(w, "kernels");
    for (unsigned i = 0; i < e->nroles; i++)
        tc_record_add_int(w, e->roles[i].name,
                          r->kernels[e->roles[i].kernel].place - 1);
    tc_record_close(w);
    tc_record_close(w);
}

static void write_payload(tc_record_writer *w, tc_recorder *r, unsigned *order)
{
    unsigned n = 0;
    qsort(r->entries, r->nentries, sizeof *r->entries, compare_entries);
    for (unsigned i = 0; i < r->nkernels; i++)
        r->kernels[i].place = 0;
    for (unsigned i = 0; i < r->nentries; i++)
        for (unsigned k = 0; k < r->entries[i].nroles; k++)
            place_kernel(r, r->entries[i].roles[k].kernel, order, &n);
    tc_record_open_map(w, NULL);
    tc_record_add_text(w, "tilec", tilec_version());
    tc_record_open_list(w, "kernels");
    for (unsigned i = 0; i < n; i++)
        add_kernel(w, r, &r->kernels[order[i]]);
    tc_record_close(w);
    tc_record_open_list(w, "entries");
    for (unsigned i = 0; i < r->nentries; i++)
        write_entry(w, r, &r->entries[i]);
    tc_record_close(w);
    tc_record_close(w);
}

static void put_number(unsigned char *to, uint64_t n, int bytes)
{
    for (int i = 0; i < bytes; i++, n >>= 8)
        to[i] = (unsigned char)n;
}

static unsigned char *join(const tc_record_writer *w, size_t *size)
{
    *size = TC_BUNDLE_HEAD + w->size;
    unsigned char *all = calloc(1, *size);
    if (!all)
        return NULL;
    XXH128_hash_t h = XXH3_128bits(w->data, w->size);
    memcpy(all, "tilecbnd", 8);
    put_number(all + 8, TC_BUNDLE_FORMAT, 4);
    put_number(all + 16, *size, 8);
    put_number(all + 24, h.low64, 8);
    put_number(all + 32, h.high64, 8);
    memcpy(all + TC_BUNDLE_HEAD, w->data, w->size);
    return all;
}

static tilec_status recorder_of(tilec_context *cx, const char *function,
                                tilec_error *error)
{
    if (cx && cx->recorder)
        return TILEC_OK;
    return tc_fail(error, TILEC_USAGE,
                   "%s: the context records nothing: call tilec_bundle_record "
                   "first",
                   function);
}

tilec_status tilec_bundle_save_memory(tilec_context *cx, char **data,
                                      size_t *size, tilec_error *error)
{
    tilec_status s = recorder_of(cx, "tilec_bundle_save_memory", error);
    if (s != TILEC_OK || !data || !size)
        return s ? s
                 : tc_fail(error, TILEC_USAGE,
                           "tilec_bundle_save_memory: data or size is NULL");
    tc_record_writer w = {0};
    unsigned *order = calloc(cx->recorder->nkernels + 1, sizeof *order);
    if (order)
        write_payload(&w, cx->recorder, order);
    *data = order && !w.failed ? (char *)join(&w, size) : NULL;
    free(order);
    free(w.data);
    return *data ? TILEC_OK
                 : tc_fail(error, TILEC_MACHINE,
                           "no memory for the bundle, or it is beyond 4 GiB");
}

static bool write_file(const char *place, const char *data, size_t size)
{
    tc_replace file;
    bool ok = tc_replace_begin(&file, place, place, 0666) &&
              tc_replace_write(&file, data, size) &&
              tc_replace_publish(&file, false);
    tc_replace_end(&file);
    return ok;
}

tilec_status tilec_bundle_save(tilec_context *cx, const char *path,
                               tilec_error *error)
{
    char *data;
    size_t size;
    struct stat st;
    if (!path)
        return tc_fail(error, TILEC_USAGE, "tilec_bundle_save: path is NULL");
    tilec_status s = tilec_bundle_save_memory(cx, &data, &size, error);
    if (s != TILEC_OK)
        return s;
    char *place = tc_replace_place(path, &st);
    if (!place || !write_file(place, data, size))
        s = tc_fail(error, TILEC_MACHINE, "%s: %s", path, strerror(errno));
    free(place);
    free(data);
    return s;
}

/* ---- Recording ---- */

tilec_status tilec_bundle_record(tilec_context *cx, tilec_error *error)
{
    if (!cx)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_bundle_record: context is NULL");
    if (cx->recorder)
        return TILEC_OK;
    cx->recorder = calloc(1, sizeof *cx->recorder);
    if (!cx->recorder)
        return tc_fail_memory(error);
    cx->drop_recorder = recorder_free;
    return TILEC_OK;
}

tilec_status tilec_bundle_add(tilec_context *cx, const char *name,
                              const tilec_kernel *k, tilec_error *error)
{
    tilec_status s = recorder_of(cx, "tilec_bundle_add", error);
    if (s != TILEC_OK)
        return s;
    if (!name || !*name || !k)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_bundle_add: name or kernel is NULL");
    tc_bundle_request r = {.kind = "kernel", .key = name, .target = k->target};
    tc_bundle_role role = {"kernel", k};
    return tc_bundle_record(cx, &r, name, NULL, &role, 1, error);
}

tilec_status tilec_bundle_keep(tilec_context *cx, tilec_error *error)
{
    tilec_status s = recorder_of(cx, "tilec_bundle_keep", error);
    if (s != TILEC_OK)
        return s;
    /* The one that was loaded last is the first, and stays. */
    unsigned n = 0;
    for (const tc_bundle *b = cx->bundles; b; b = b->next)
        n++;
    while (s == TILEC_OK && n--) {
        const tc_bundle *b = cx->bundles;
        for (unsigned i = 0; i < n; i++)
            b = b->next;
        for (unsigned i = 0; s == TILEC_OK && i < b->nentries; i++)
            s = keep_entry(cx->recorder, &b->entries[i], error);
    }
    return s;
}
