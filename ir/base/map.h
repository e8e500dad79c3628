/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash map keyed by pointers (interned strings, values): one word a key.
 */
#ifndef TC_MAP_H
#define TC_MAP_H

#include "ir/base/arena.h"

/* Zeroed but for the arena it is ready for use; it goes with the arena. */
typedef struct tc_map {
    tc_arena *arena;
    const void **keys;
    void **values;
    size_t nslots, nused;
} tc_map;

/* The value of `key`, NULL where there is none. */
void *tc_map_get(const tc_map *m, const void *key);
/* key is not NULL. */
void tc_map_set(tc_map *m, const void *key, void *value);

#endif
