/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash tables for interning: an object is found by its content, so that
 * equality of content is equality of pointers. Open addressing; never shrinks.
 */
#ifndef TC_INTERN_H
#define TC_INTERN_H

#include "ir/base/arena.h"

typedef bool tc_same_fn(const void *stored, const void *key);

typedef struct tc_intern {
    const void **slots;
    uint64_t *hashes;
    size_t nslots, nused;
} tc_intern;

/* The stored object that is `same` as key, or NULL. */
const void *tc_intern_find(const tc_intern *t, uint64_t hash, tc_same_fn *same,
                           const void *key);
void tc_intern_add(tc_intern *t, tc_arena *a, uint64_t hash,
                   const void *object);
/* FNV-1a over bytes, to be chained through `hash` (begin with 0). */
uint64_t tc_hash_bytes(uint64_t hash, const void *bytes, size_t n);

#endif
