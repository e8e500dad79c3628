/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/base/map.h"

/* Where `key` is, or the free slot where it would go. */
static size_t slot_of(const tc_map *m, const void *key)
{
    uint64_t hash = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(hash >> 20) & (m->nslots - 1);
    while (m->keys[i] && m->keys[i] != key)
        i = (i + 1) & (m->nslots - 1);
    return i;
}

void *tc_map_get(const tc_map *m, const void *key)
{
    return m->nslots ? m->values[slot_of(m, key)] : NULL;
}

static void grow(tc_map *m)
{
    tc_map old = *m;
    m->nslots = old.nslots ? 2 * old.nslots : 32;
    m->keys = tc_arena_array(m->arena, const void *, m->nslots);
    m->values = tc_arena_array(m->arena, void *, m->nslots);
    for (size_t i = 0; i < old.nslots; i++)
        if (old.keys[i]) {
            size_t to = slot_of(m, old.keys[i]);
            m->keys[to] = old.keys[i];
            m->values[to] = old.values[i];
        }
}

void tc_map_set(tc_map *m, const void *key, void *value)
{
    if (2 * (m->nused + 1) > m->nslots)
        grow(m);
    size_t i = slot_of(m, key);
    m->nused += !m->keys[i];
    m->keys[i] = key;
    m->values[i] = value;
}
