/* SPDX-License-Identifier: Apache-2.0
 *
 * A compile that looks for its code: among the context's codes, then in the
 * folder; and keeps what it has made.
 */
#include "lib/cache/code.h"

#include <string.h>

/* ---- The codes of a context ---- */

static tc_code *find_kept(tilec_context *owner, tc_key key)
{
    for (unsigned i = 0; i < owner->ncodes; i++) {
        tc_code *c = owner->codes[i];
        if (!tc_key_equal(c->entry.key, key))
            continue;
        memmove(owner->codes + 1, owner->codes, i * sizeof *owner->codes);
        owner->codes[0] = c;
        return tc_code_ref(c);
    }
    return NULL;
}

void tc_making_keep(const tc_making *m, tc_code *c)
{
    tilec_context *owner = m->job->owner;
    tc_code *old = find_kept(owner, c->entry.key);
    if (old) {
        /* At the front now; made anew on demand. */
        tc_code_unref(old);
        tc_code_unref(old);
        owner->codes[0] = tc_code_ref(c);
        return;
    }
    if (owner->ncodes == TC_CODES_KEPT)
        tc_code_unref(owner->codes[--owner->ncodes]);
    memmove(owner->codes + 1, owner->codes,
            owner->ncodes * sizeof *owner->codes);
    owner->codes[0] = tc_code_ref(c);
    owner->ncodes++;
}

tc_code *tc_making_find(const tc_making *m)
{
    tc_code *c = find_kept(m->job->owner, m->recipe.key);
    if (!c || tc_recipe_is_of(&m->recipe, &c->entry))
        return c;
    tc_code_unref(c);
    return NULL;
}

/* ---- The disk ---- */

/* Drops a folder that must not be used, and warns of it once a context. */
static void check_folder(tc_making *m)
{
    tc_job *job = m->job;
    char why[TC_CACHE_WHY];
    if (m->options->no_cache || tc_cache_is_safe(&m->cache, why, sizeof why))
        return;
    m->cache.folder = NULL;
    if (!job->owner->warned_of_cache)
        m->unsafe = tc_arena_string(&job->cx->arena, why);
    job->owner->warned_of_cache = true;
}

tc_making tc_making_begin(tc_job *job, const tilec_compile_options *options,
                          const tc_target *target, const char *kernel,
                          const tc_bound *bound)
{
    const tilec_context *owner = job->owner;
    tc_making m = {.job = job,
                   .options = options,
                   .target = target,
                   .bound = bound,
                   .kernel = kernel,
                   .cache.most = owner->cache_most};
    if (owner->cache_folder && *owner->cache_folder)
        m.cache.folder = tc_arena_string(&job->cx->arena, owner->cache_folder);
    check_folder(&m);
    return m;
}

void tc_making_end(const tc_making *m)
{
    if (m->unsafe)
        tc_warning(m->job->cx, (tc_loc){0}, "the cache is not used: %s",
                   m->unsafe);
}

bool tc_making_may_read(const tc_making *m)
{
    const tilec_compile_options *o = m->options;
    return !o->no_cache && !o->on_pass && !o->verify_each &&
           !m->job->cx->want_remarks;
}

bool tc_making_may_write(const tc_making *m)
{
    const tc_diag *d = m->job->cx->diags;
    while (d && d->severity == TC_REMARK)
        d = d->next;
    return !m->options->no_cache && !d;
}

bool tc_making_read(const tc_making *m, tc_entry *out)
{
    if (!tc_cache_read(&m->cache, m->recipe.key, out))
        return false;
    if (tc_recipe_is_of(&m->recipe, out))
        return true;
    tc_entry_free(out);
    return false;
}

bool tc_making_publish(const tc_making *m, const tc_entry *entry)
{
    char why[TC_CACHE_WHY];
    if (!m->cache.folder)
        return false;
    if (tc_cache_write(&m->cache, entry, why, sizeof why))
        return true;
    tc_missed(m->job->cx, (tc_loc){0}, "cache",
              "the code of @%s is not kept: %s", m->kernel, why);
    return false;
}
