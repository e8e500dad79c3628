/* SPDX-License-Identifier: Apache-2.0
 *
 * Code of any target as a cache entry: written from a kernel after its passes,
 * read as a kernel that lacks its body.
 */
#include "lib/cache/code.h"
#include "lib/cache/code_meta.h"

#include <stdlib.h>
#include <string.h>

/* ---- Writing ---- */

static tc_record_writer write_meta(const tc_coding *c,
                                   const tc_meta_facts *facts)
{
    tc_record_writer w = {0};
    tc_record_open_map(&w, NULL);
    c->add(&w, c);
    tc_meta_add_facts(&w, c->f, facts);
    tc_record_close(&w);
    return w;
}

static bool make_entry(const tc_coding *c, const tc_record_writer *meta,
                       const char *parts, const char *header, tc_entry *out)
{
    const char *program = tc_recipe_program(c->recipe);
    tc_cache_section s[TC_ENTRY_MOST_SECTIONS] = {
        {"recipe", parts, strlen(parts)},
        {"program", program, strlen(program)},
        {"meta", meta->data, meta->size},
        {"header", header, strlen(header)},
        {"tile", c->tile, strlen(c->tile)}};
    unsigned n = 5;
    for (unsigned i = 0; i < c->nmore; i++)
        s[n++] = c->more[i];
    return tc_entry_make(out, c->recipe->key, s, n);
}

bool tc_code_encode(const tc_coding *c, tc_entry *out)
{
    /* First what may unwind for want of memory, then what is malloc'd. */
    tc_meta_facts facts = tc_meta_facts_of(c->f);
    const char *header = tc_meta_header(c->f);
    tc_record_writer meta = write_meta(c, &facts);
    char *parts = tc_recipe_print(c->recipe);
    bool ok = !meta.failed && parts && make_entry(c, &meta, parts, header, out);
    free(meta.data);
    free(parts);
    return ok;
}

/* ---- Reading ---- */

tilec_kernel *tc_code_kernel(const tc_making *m, const tc_code *c,
                             tc_module *module)
{
    const tc_cache_section *header = tc_entry_find(&c->entry, "header");
    tc_func *f = tc_meta_read_header(c->meta, header->data, header->size,
                                     m->job->cx, module);
    if (!f || f->body->nargs < m->nown)
        return NULL;
    tilec_kernel *k = tc_job_kernel(m->job, m->target, f, m->bound, m->nown);
    for (unsigned i = 0; i < k->nparams; i++) {
        k->params[i].info.written = tc_meta_lists(c->meta, "written", i);
        k->params[i].info.unused = tc_meta_lists(c->meta, "unused", i);
    }
    return k;
}
