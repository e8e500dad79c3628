/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads bundles (bundle.h), and says what is in them.
 */
#include "lib/bundle/bundle.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/cache/cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The head ---- */

static const char magic[8] = "tilecbnd";

static uint64_t number_at(const void *data, size_t at, int bytes)
{
    uint64_t n = 0;
    for (int i = bytes - 1; i >= 0; i--)
        n = n << 8 | ((const unsigned char *)data)[at + (size_t)i];
    return n;
}

static tilec_status not_sound(const char *name, const char *what,
                              tilec_error *error)
{
    return tc_fail(error, TILEC_INPUT,
                   "%s: is damaged: %s; make the bundle again", name, what);
}

static tilec_status check_head(const char *name, const void *data, size_t size,
                               tilec_error *error)
{
    if (size < sizeof magic || memcmp(data, magic, sizeof magic) != 0)
        return tc_fail(error, TILEC_INPUT,
                       "%s: is no bundle: expected a file that `tilec compile "
                       "--emit=bundle` wrote",
                       name);
    if (size < TC_BUNDLE_HEAD)
        return not_sound(name, "it ends in its head", error);
    unsigned format = (unsigned)number_at(data, 8, 4);
    if (format != TC_BUNDLE_FORMAT)
        return tc_fail(error, TILEC_INPUT,
                       "%s: has bundle format %u, but tilec %s reads format "
                       "%d: make it again with this version's tilec",
                       name, format, tilec_version(), TC_BUNDLE_FORMAT);
    uint64_t whole = number_at(data, 16, 8);
    if (whole != size)
        return tc_fail(error, TILEC_INPUT,
                       "%s: is damaged: it has %zu bytes, expected %llu; copy "
                       "or make it again",
                       name, size, (unsigned long long)whole);
    XXH128_hash_t h = XXH3_128bits((const char *)data + TC_BUNDLE_HEAD,
                                   size - TC_BUNDLE_HEAD);
    if (h.low64 != number_at(data, 24, 8) || h.high64 != number_at(data, 32, 8))
        return not_sound(name, "its checksum does not fit", error);
    return TILEC_OK;
}

/* ---- The payload ---- */

static bool read_text(tc_record map, const char *name, const char **out)
{
    *out = tc_record_text(tc_record_get(map, name));
    return *out != NULL;
}

static bool read_sides(tc_record list, tc_bundle_entry *e)
{
    e->nsides = tc_record_count(list);
    if (!tc_record_is_list(list) || e->nsides > TC_BUNDLE_SIDES)
        return false;
    for (unsigned i = 0; i < e->nsides; i++)
        if (!tc_record_int(tc_record_at(list, i), 0, INT64_MAX / 2,
                           &e->sides[i]))
            return false;
    return true;
}

static bool read_entry(const tc_bundle *b, tc_record r, tc_bundle_entry *e)
{
    e->bundle = b;
    e->facts = tc_record_get(r, "facts");
    e->kernels = tc_record_get(r, "kernels");
    return read_text(r, "kind", &e->kind) && read_text(r, "name", &e->name) &&
           read_text(r, "target", &e->target) && read_text(r, "cpu", &e->cpu) &&
           read_text(r, "key", &e->key) &&
           read_sides(tc_record_get(r, "sides"), e);
}

/* The same minor version: what is text in a bundle is read by its parser. */
static bool is_same_version(const char *version)
{
    const char *own = tilec_version();
    size_t n = strlen(own) - strlen(strrchr(own, '.')) + 1;
    return strncmp(version, own, n) == 0;
}

static tilec_status read_payload(tc_bundle *b, size_t size, tilec_error *error)
{
    tc_record root;
    const char *version;
    if (!tc_record_read((char *)b->data + TC_BUNDLE_HEAD, size - TC_BUNDLE_HEAD,
                        &root))
        return not_sound(b->name, "its payload is no record", error);
    if (!read_text(root, "tilec", &version))
        return not_sound(b->name, "it has no version", error);
    if (!is_same_version(version))
        return tc_fail(error, TILEC_INPUT,
                       "%s: was made by tilec %.32s, but this is %s: make it "
                       "again with this version's tilec",
                       b->name, version, tilec_version());
    tc_record kernels = tc_record_get(root, "kernels"),
              entries = tc_record_get(root, "entries");
    b->nkernels = tc_record_count(kernels);
    b->nentries = tc_record_count(entries);
    b->kernels = calloc(b->nkernels + 1, sizeof *b->kernels);
    b->entries = calloc(b->nentries + 1, sizeof *b->entries);
    if (!b->kernels || !b->entries)
        return tc_fail_memory(error);
    if (!tc_record_is_list(kernels) || !tc_record_is_list(entries))
        return not_sound(b->name, "it has no lists of kernels and entries",
                         error);
    tc_record_each(kernels, b->kernels);
    tc_record *each = calloc(b->nentries + 1, sizeof *each);
    if (!each)
        return tc_fail_memory(error);
    tc_record_each(entries, each);
    bool ok = true;
    for (unsigned i = 0; ok && i < b->nentries; i++)
        ok = read_entry(b, each[i], &b->entries[i]);
    free(each);
    return ok ? TILEC_OK : not_sound(b->name, "an entry is not sound", error);
}

/* ---- Loading ---- */

static void free_one(tc_bundle *b)
{
    free(b->name);
    free(b->data);
    free(b->kernels);
    free(b->entries);
    free(b);
}

void tc_bundles_free(tc_bundle *b)
{
    while (b) {
        tc_bundle *next = b->next;
        free_one(b);
        b = next;
    }
}

/* Takes the data, which is malloc'd. */
static tilec_status add(tilec_context *cx, const char *name, void *data,
                        size_t size, tilec_error *error)
{
    tc_bundle *b = calloc(1, sizeof *b);
    if (!b) {
        free(data);
        return tc_fail_memory(error);
    }
    b->data = data;
    b->name = strdup(*name ? name : "the bundle in memory");
    tilec_status s = b->name ? check_head(b->name, data, size, error)
                             : tc_fail_memory(error);
    if (s == TILEC_OK)
        s = read_payload(b, size, error);
    if (s != TILEC_OK) {
        free_one(b);
        return s;
    }
    b->name[0] = *name ? b->name[0] : 0;
    b->next = cx->bundles;
    cx->bundles = b;
    return TILEC_OK;
}

static tilec_status read_file(const char *path, FILE *f, void **data,
                              size_t *size, tilec_error *error)
{
    long n = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
    if (n < 0 || fseek(f, 0, SEEK_SET))
        return tc_fail(error, TILEC_MACHINE, "%s: %s", path, strerror(errno));
    *data = malloc((size_t)n + 1);
    if (!*data)
        return tc_fail_memory(error);
    *size = fread(*data, 1, (size_t)n, f);
    if (!ferror(f))
        return TILEC_OK;
    free(*data);
    return tc_fail(error, TILEC_MACHINE, "%s: %s", path, strerror(errno));
}

tilec_status tilec_bundle_load(tilec_context *cx, const char *path,
                               tilec_error *error)
{
    if (!cx || !path)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_bundle_load: context or path is NULL");
    FILE *f = fopen(path, "rb");
    if (!f)
        return tc_fail(error, TILEC_INPUT, "%s: %s", path, strerror(errno));
    void *data = NULL;
    size_t size = 0;
    tilec_status s = read_file(path, f, &data, &size, error);
    fclose(f);
    return s == TILEC_OK ? add(cx, path, data, size, error) : s;
}

tilec_status tilec_bundle_load_memory(tilec_context *cx, const void *data,
                                      size_t size, tilec_error *error)
{
    if (!cx || (size && !data))
        return tc_fail(error, TILEC_USAGE,
                       "tilec_bundle_load_memory: context or data is NULL");
    void *copy = malloc(size + 1);
    if (!copy)
        return tc_fail_memory(error);
    if (size)
        memcpy(copy, data, size);
    return add(cx, "", copy, size, error);
}

/* ---- What is in them ---- */

typedef struct tally {
    XXH3_state_t *hash;
    uint64_t bytes;
    unsigned depth;
} tally;

static void count_kernel(const tc_bundle *b, unsigned index, tally *t)
{
    enum { MOST_DEPTH = 4 };
    tc_record r = b->kernels[index];
    size_t n = tc_record_size(r);
    t->bytes += n;
    tc_record parts = tc_record_get(r, "parts"),
              variants = tc_record_get(r, "variants"),
              text = tc_record_get(r, "text");
    /* Not the numbers of its parts, which are the bundle's. */
    tc_record of = parts.at ? text : variants;
    XXH3_128bits_update(t->hash, of.at, tc_record_size(of));
    if (t->depth == MOST_DEPTH)
        return;
    t->depth++;
    for (uint32_t i = 0, all = tc_record_count(parts); i < all; i++) {
        unsigned part;
        if (index &&
            tc_record_unsigned(tc_record_at(parts, i), 0, index - 1, &part))
            count_kernel(b, part, t);
    }
    t->depth--;
}

static void hash_text(tally *t, const char *text)
{
    XXH3_128bits_update(t->hash, text, strlen(text) + 1);
}

static tc_key_text count(const tc_bundle_entry *e, tally *t)
{
    const tc_bundle *b = e->bundle;
    XXH3_128bits_reset(t->hash);
    hash_text(t, e->key);
    hash_text(t, e->target);
    if (e->facts.at)
        XXH3_128bits_update(t->hash, e->facts.at, tc_record_size(e->facts));
    /* A map of roles and indices. */
    for (uint32_t i = 1; b->nkernels && i < tc_record_count(e->kernels);
         i += 2) {
        unsigned index;
        if (tc_record_unsigned(tc_record_item(e->kernels, i), 0,
                               b->nkernels - 1, &index))
            count_kernel(b, index, t);
    }
    XXH128_hash_t h = XXH3_128bits_digest(t->hash);
    return tc_key_print((tc_key){h.low64, h.high64});
}

tilec_status tilec_bundle_list(const tilec_context *cx,
                               void (*visit)(void *user,
                                             const tilec_bundle_entry *entry),
                               void *user, tilec_error *error)
{
    if (!cx || !visit)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_bundle_list: context or visit is NULL");
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return tc_fail_memory(error);
    for (const tc_bundle *b = cx->bundles; b; b = b->next)
        for (unsigned i = 0; i < b->nentries; i++) {
            const tc_bundle_entry *e = &b->entries[i];
            tally t = {.hash = state};
            tc_key_text hash = count(e, &t);
            tilec_bundle_entry given = {.size = sizeof given,
                                        .file = b->name,
                                        .kind = e->kind,
                                        .name = e->name,
                                        .target = e->target,
                                        .cpu = e->cpu,
                                        .request = e->key,
                                        .sides = e->sides,
                                        .nsides = e->nsides,
                                        .hash = hash.text,
                                        .bytes = t.bytes};
            visit(user, &given);
        }
    XXH3_freeState(state);
    return TILEC_OK;
}
