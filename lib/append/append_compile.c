/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles the plan @append: its compile-time parameters follow from which
 * tensors there are.
 */
#include "lib/append/append.h"

#include "lib/bundle/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "append";

enum { NUMBERS = 10 };
struct bindings {
    tilec_binding *all;
    size_t n;
    char text[NUMBERS][24];
};

static void bind(struct bindings *b, size_t *used, const char *name,
                 int64_t value)
{
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->all[i].name, name) == 0)
            return;
    snprintf(b->text[*used], sizeof b->text[*used], "%lld", (long long)value);
    b->all[b->n++] = (tilec_binding){name, b->text[(*used)++]};
}

static void bind_all(struct bindings *b, const tilec_append_tensors *t,
                     const tilec_append_options *o, bool on_cpu)
{
    size_t used = 0;
    for (size_t i = 0; i < o->nbindings; i++)
        b->all[b->n++] = o->bindings[i];
    bind(b, &used, "R", t->cos ? 2 * t->cos->shape[1] : 0);
    bind(b, &used, "R0", o->rotary_offset);
    bind(b, &used, "INTERLEAVED", o->interleaved != 0);
    bind(b, &used, "RAGGED", t->cu_seqlens != NULL);
    bind(b, &used, "PAGED", t->kv_indices ? 2 : t->page_table != NULL);
    bind(b, &used, "QUERIES", t->q != NULL);
    bind(b, &used, "VALUES", t->v != NULL);
    bind(b, &used, "POSITIONS", t->positions != NULL);
    bind(b, &used, "SCALES",
         t->k_scales ? 1 + tc_append_computes_factors(t) : 0);
    bind(b, &used, "CHECK", on_cpu);
}

static tilec_status compile(tilec_context *cx, const tilec_append_tensors *t,
                            const tilec_append_options *o, tilec_kernel **out)
{
    tc_append_arguments a;
    struct bindings b = {
        malloc((o->nbindings + NUMBERS) * sizeof *b.all), 0, {{0}}};
    const tc_target *target = tc_target_find(cx, o->target);
    tilec_source source = tilec_text(program, NULL, 0);
    if (!b.all)
        return tc_say(cx, TILEC_MACHINE, "tilec_append_plan: out of memory");
    tc_append_arguments_of(&a, t);
    bind_all(&b, t, o, target && !tc_target_is_gpu(target));
    tilec_compile_options c = TILEC_INIT(tilec_compile_options);
    c.kernel = program;
    c.target = o->target;
    c.bindings = b.all;
    c.nbindings = b.n;
    c.examples = a.all;
    c.nexamples = a.n;
    c.no_load = o->no_load;
    c.no_cache = o->no_cache;
    tilec_status s = tilec_compile(cx, &source, 1, &c, out);
    free(b.all);
    return s;
}

static tilec_status record(tilec_context *cx, const tc_append_request *r,
                           const tilec_kernel *k, tilec_error *error)
{
    tc_bundle_request request;
    char *key = tc_append_key(cx, r, &request);
    if (!key)
        return tc_fail_memory(error);
    const tc_bundle_role role = {"kernel", k};
    tilec_status s = tc_bundle_record(cx, &request, "", NULL, &role, 1, error);
    free(key);
    return s;
}

tilec_status tc_append_compile(tilec_context *cx, const tc_append_request *r,
                               tilec_kernel **out)
{
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_status s = compile(cx, r->tensors, r->options, out);
    if (s != TILEC_OK || !cx->recorder)
        return s;
    s = record(cx, r, *out, &error);
    if (s == TILEC_OK)
        return s;
    tilec_kernel_free(*out);
    *out = NULL;
    return tc_say(cx, s, error.message);
}
