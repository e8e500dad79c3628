/* SPDX-License-Identifier: Apache-2.0
 *
 * Cache entries in memory: keys, and named sections in one block.
 */
#include "lib/cache/cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Keys ---- */

tc_key tc_key_of(const void *data, size_t size)
{
    XXH128_hash_t h = XXH3_128bits(data, size);
    return (tc_key){h.low64, h.high64};
}

bool tc_key_equal(tc_key a, tc_key b)
{
    return a.low == b.low && a.high == b.high;
}

tc_key_text tc_key_print(tc_key key)
{
    tc_key_text t;
    snprintf(t.text, sizeof t.text, "%016llx%016llx",
             (unsigned long long)key.high, (unsigned long long)key.low);
    return t;
}

/* ---- Entries in memory: the payload, and pointers into it ---- */

struct section_head {
    uint64_t name_size, data_size; /* each has a NUL after it, not counted */
};

static size_t section_room(const tc_cache_section *s)
{
    return sizeof(struct section_head) + strlen(s->name) + 1 + s->size + 1;
}

static char *cache_put(char *to, const void *from, size_t size)
{
    if (size)
        memcpy(to, from, size);
    return to + size;
}

static char *put_section(char *to, const tc_cache_section *s)
{
    struct section_head head = {strlen(s->name), s->size};
    to = cache_put(to, &head, sizeof head);
    to = cache_put(to, s->name, head.name_size);
    to = cache_put(to, "", 1);
    to = cache_put(to, s->data, s->size);
    return cache_put(to, "", 1);
}

/* Reads one section; what is left of the payload shrinks. */
static bool take_section(char **at, size_t *left, tc_cache_section *out)
{
    struct section_head head;
    if (*left < sizeof head)
        return false;
    memcpy(&head, *at, sizeof head);
    *at += sizeof head;
    *left -= sizeof head;
    if (head.name_size >= *left || head.data_size >= *left ||
        head.name_size + head.data_size + 2 > *left)
        return false;
    out->name = *at;
    out->data = *at + head.name_size + 1;
    out->size = head.data_size;
    if (out->name[head.name_size] || ((const char *)out->data)[out->size])
        return false;
    *at += head.name_size + head.data_size + 2;
    *left -= head.name_size + head.data_size + 2;
    return true;
}

bool tc_entry_open(tc_entry *out, tc_key key, void *block, size_t size)
{
    *out = (tc_entry){.key = key, .block = block};
    char *at = block;
    while (size) {
        if (out->n == TC_ENTRY_MOST_SECTIONS ||
            !take_section(&at, &size, &out->sections[out->n])) {
            tc_entry_free(out);
            return false;
        }
        out->n++;
    }
    return true;
}

void *tc_sections_join(const tc_cache_section *sections, unsigned n,
                       size_t *size)
{
    *size = 0;
    for (unsigned i = 0; i < n; i++)
        *size += section_room(&sections[i]);
    char *block = malloc(*size ? *size : 1), *at = block;
    for (unsigned i = 0; block && i < n; i++)
        at = put_section(at, &sections[i]);
    return block;
}

bool tc_entry_make(tc_entry *out, tc_key key, const tc_cache_section *sections,
                   unsigned n)
{
    size_t size;
    *out = (tc_entry){0};
    if (n > TC_ENTRY_MOST_SECTIONS)
        return false;
    void *block = tc_sections_join(sections, n, &size);
    return block && tc_entry_open(out, key, block, size);
}

void tc_entry_free(tc_entry *entry)
{
    free(entry->block);
    *entry = (tc_entry){0};
}

const tc_cache_section *tc_entry_find(const tc_entry *entry, const char *name)
{
    for (unsigned i = 0; i < entry->n; i++)
        if (strcmp(entry->sections[i].name, name) == 0)
            return &entry->sections[i];
    return NULL;
}
