/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/cache/code.h"

#include <stdlib.h>
#include <string.h>

tc_code *tc_code_new(size_t size, tc_entry *entry, void (*drop)(tc_code *code))
{
    tc_code *c = calloc(1, size);
    if (!c) {
        tc_entry_free(entry);
        return NULL;
    }
    atomic_init(&c->references, 1);
    c->entry = *entry;
    c->drop = drop;
    *entry = (tc_entry){0};
    const tc_cache_section *meta = tc_entry_find(&c->entry, "meta");
    if (meta)
        tc_record_read(meta->data, meta->size, &c->meta);
    return c;
}

tc_code *tc_code_ref(tc_code *c)
{
    atomic_fetch_add(&c->references, 1);
    return c;
}

void tc_code_unref(tc_code *c)
{
    if (!c || atomic_fetch_sub(&c->references, 1) != 1)
        return;
    c->drop(c);
    tc_entry_free(&c->entry);
    free(c);
}

const char *tc_code_text(const tc_code *c, const char *name)
{
    const tc_cache_section *s = tc_entry_find(&c->entry, name);
    return s ? s->data : "";
}

size_t tc_code_size(const tc_code *c, const char *name)
{
    const tc_cache_section *s = tc_entry_find(&c->entry, name);
    return s ? s->size : 0;
}
