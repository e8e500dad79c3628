/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/base/intern.h"

uint64_t tc_hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    hash ^= 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

const void *tc_intern_find(const tc_intern *t, uint64_t hash, tc_same_fn *same,
                           const void *key)
{
    if (!t->nslots)
        return NULL;
    for (size_t i = hash & (t->nslots - 1); t->slots[i];
         i = (i + 1) & (t->nslots - 1))
        if (t->hashes[i] == hash && same(t->slots[i], key))
            return t->slots[i];
    return NULL;
}

static void intern_place(tc_intern *t, uint64_t hash, const void *object)
{
    size_t i = hash & (t->nslots - 1);
    while (t->slots[i])
        i = (i + 1) & (t->nslots - 1);
    t->slots[i] = object;
    t->hashes[i] = hash;
}

void tc_intern_add(tc_intern *t, tc_arena *a, uint64_t hash, const void *object)
{
    if (2 * (t->nused + 1) > t->nslots) {
        /* Allocation may unwind: the table stays whole until both are there. */
        tc_intern more = *t;
        more.nslots = t->nslots ? 2 * t->nslots : 64;
        more.slots = tc_arena_array(a, const void *, more.nslots);
        more.hashes = tc_arena_array(a, uint64_t, more.nslots);
        for (size_t i = 0; i < t->nslots; i++)
            if (t->slots[i])
                intern_place(&more, t->hashes[i], t->slots[i]);
        *t = more;
    }
    intern_place(t, hash, object);
    t->nused++;
}
