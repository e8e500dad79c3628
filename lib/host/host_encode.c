/* SPDX-License-Identifier: Apache-2.0
 *
 * Code for the CPU as sections of an entry (host_code.h).
 */
#include "lib/host/host_code.h"

static void add_args(tc_record_writer *meta, const tc_host_kernel *k)
{
    tc_record_open_list(meta, "args");
    for (unsigned i = 0; i < k->nargs; i++) {
        tc_record_open_list(meta, NULL);
        tc_record_add_int(meta, NULL, k->args[i].kind);
        tc_record_add_int(meta, NULL, k->args[i].rank);
        tc_record_close(meta);
    }
    tc_record_close(meta);
}

static void add_value(tc_record_writer *meta, const struct tc_site_value *v)
{
    tc_record_open_list(meta, NULL);
    tc_record_add_int(meta, NULL, v->kind);
    tc_record_add_int(meta, NULL, v->rank);
    for (unsigned i = 0; i < v->rank; i++)
        tc_record_add_int(meta, NULL, v->sides[i]);
    tc_record_close(meta);
}

static void add_sites(tc_record_writer *meta, const tc_context *cx,
                      const tc_host_kernel *k)
{
    tc_record_open_list(meta, "sites");
    for (unsigned i = 0; i < k->nsites; i++) {
        const tc_site *s = &k->sites[i];
        tc_meta_open_place(meta, cx, s->loc);
        tc_record_add_text(meta, NULL, s->message ? s->message : "");
        for (unsigned v = 0; v < s->nvalues; v++)
            add_value(meta, &s->values[v]);
        tc_record_close(meta);
    }
    tc_record_close(meta);
}

static void add_members(tc_record_writer *meta, const tc_coding *c)
{
    const tc_host_kernel *k = c->code;
    tc_record_add_text(meta, "target", "cpu");
    tc_record_add_int(meta, "scratch", (int64_t)k->scratch_bytes);
    tc_record_add_int(meta, "ordered", k->ordered);
    add_args(meta, k);
    add_sites(meta, c->f->module->cx, k);
}

bool tc_host_encode(tc_func *f, const tc_host_kernel *code,
                    const tc_recipe *recipe, const char *tile, tc_entry *out)
{
    tc_cache_section object = {"object", code->object, code->object_size};
    tc_coding c = {.f = f,
                   .recipe = recipe,
                   .tile = tile,
                   .code = code,
                   .add = add_members,
                   .more = &object,
                   .nmore = 1};
    return tc_code_encode(&c, out);
}
