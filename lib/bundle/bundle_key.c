/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts by which plans find their entries in a bundle, and facts that plans
 * of all kinds keep.
 *
 *   q=bf16 k=bf16 v=bf16 d=128 dv=128 mask=causal&sliding_window(w=1024)
 */
#include "lib/bundle/bundle.h"

#include "lib/cache/cache.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- Keys ---- */

struct making {
    void (*make)(const void *user, tc_text *key);
    const void *user;
    tc_text text;
};

static void run(void *arg)
{
    struct making *m = arg;
    tc_text_add(&m->text, "");
    m->make(m->user, &m->text);
}

char *tc_bundle_key(void (*make)(const void *user, tc_text *key),
                    const void *user)
{
    tc_memory memory = {0};
    tc_arena arena;
    tc_arena_init(&arena, &memory);
    struct making m = {make, user, {.arena = &arena}};
    bool ok = tc_guard(&memory, run, &m);
    while (ok && m.text.len && m.text.data[m.text.len - 1] == ' ')
        m.text.data[--m.text.len] = 0;
    char *key = ok ? strdup(m.text.data) : NULL;
    tc_arena_reset(&arena);
    return key;
}

void tc_key_add_text(tc_text *key, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    tc_text_printf(key, "%s=", name);
    for (const char *s = value; *s; s++)
        if (!isspace((unsigned char)*s))
            tc_text_addn(key, s, 1);
    tc_text_add(key, " ");
}

void tc_key_add_number(tc_text *key, const char *name, int64_t value)
{
    if (value)
        tc_text_printf(key, "%s=%lld ", name, (long long)value);
}

/* The last dim of stride 1 that has several elements; -1: there is none. */
static int contiguous_dim(const DLTensor *t)
{
    int dim = t->ndim - 1;
    if (!t->strides)
        return dim;
    while (dim >= 0 && !(t->strides[dim] == 1 && t->shape[dim] != 1))
        dim--;
    return dim;
}

void tc_key_add_tensor(tc_text *key, const char *name, const DLTensor *t)
{
    int dim = contiguous_dim(t);
    tc_text_printf(key, "%s=%s", name, tc_dtype_name(t->dtype).text);
    if (dim != t->ndim - 1 && dim >= 0)
        tc_text_printf(key, "/by-dim-%d", dim);
    tc_text_add(key, " ");
}

void tc_key_add_shape(tc_text *key, const char *name, const DLTensor *t)
{
    if (!t)
        return;
    tc_text_printf(key, "%s=%s[", name, tc_dtype_name(t->dtype).text);
    for (int i = 0; t->shape && i < t->ndim; i++)
        tc_text_printf(key, i ? ",%lld" : "%lld", (long long)t->shape[i]);
    tc_text_add(key, "] ");
}

void tc_key_add_bindings(tc_text *key, const char *name,
                         const tilec_binding *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tc_text_printf(key, "%s.", name);
        tc_key_add_text(key, list[i].name, list[i].value);
    }
}

void tc_key_add_sources(tc_text *key, const tilec_source *sources, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const tilec_source *s = &sources[i];
        if (!s->text) {
            tc_key_add_text(key, "source", s->name);
            continue;
        }
        size_t size = s->length ? s->length : strlen(s->text);
        tc_key_add_text(key, "source",
                        tc_key_print(tc_key_of(s->text, size)).text);
    }
}

/* ---- Captured values ---- */

void tc_facts_add_values(tc_record_writer *facts, const char *name,
                         const tilec_argument *values, unsigned n)
{
    tc_record_open_list(facts, name);
    for (unsigned i = 0; i < n; i++) {
        const tilec_argument *v = &values[i];
        int64_t bits = v->i;
        if (v->kind == TILEC_ARG_FLOAT)
            memcpy(&bits, &v->f, sizeof bits);
        tc_record_open_list(facts, NULL);
        tc_record_add_text(facts, NULL, v->name);
        tc_record_add_int(facts, NULL, v->kind);
        tc_record_add_int(facts, NULL, bits);
        tc_record_close(facts);
    }
    tc_record_close(facts);
}

static bool read_value(tc_record r, tc_arena *a, tilec_argument *out)
{
    const char *name = tc_record_text(tc_record_at(r, 0));
    unsigned kind;
    int64_t bits;
    if (!name ||
        !tc_record_unsigned(tc_record_at(r, 1), TILEC_ARG_INT, TILEC_ARG_FLOAT,
                            &kind) ||
        !tc_record_int(tc_record_at(r, 2), INT64_MIN, INT64_MAX, &bits))
        return false;
    name = tc_arena_string(a, name);
    double f;
    memcpy(&f, &bits, sizeof f);
    *out = kind == TILEC_ARG_INT ? tilec_int(name, bits) : tilec_float(name, f);
    return true;
}

bool tc_facts_values(tc_record facts, const char *name, tc_arena *a,
                     tilec_argument **out, unsigned *n)
{
    tc_record list = tc_record_get(facts, name);
    uint32_t count = tc_record_count(list);
    *out = tc_arena_array(a, tilec_argument, count);
    *n = count;
    for (uint32_t i = 0; i < count; i++)
        if (!read_value(tc_record_at(list, i), a, &(*out)[i]))
            return false;
    return tc_record_is_list(list);
}
