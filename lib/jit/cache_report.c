/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of the cache, and why a compile does not find its code there:
 * compares the parts of its recipe with those of the nearest entry.
 */
#include "lib/files/json.h"
#include "lib/gpu/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static tc_cache cache_of(const tilec_context *cx)
{
    bool none = !cx->cache_folder || !*cx->cache_folder;
    return (tc_cache){none ? NULL : cx->cache_folder, cx->cache_most};
}

static tilec_status unreadable(const tc_cache *cache, tilec_error *error)
{
    return tc_fail(error, TILEC_MACHINE, "%s: %s", cache->folder,
                   strerror(errno));
}

/* No status of TILEC_OK: says why the folder is not used. */
static tilec_status check_folder(const tc_cache *cache, tilec_error *error)
{
    char why[TC_CACHE_WHY];
    if (tc_cache_is_safe(cache, why, sizeof why))
        return TILEC_OK;
    return tc_fail(error, TILEC_INPUT, "the cache is not used: %s", why);
}

const char *tilec_cache_folder(const tilec_context *cx)
{
    return cx ? cache_of(cx).folder : NULL;
}

/* ---- Entries and their recipes ---- */

struct opened {
    tc_entry entry;
    cJSON *recipe;  /* NULL: the file is damaged, or gone meanwhile */
    bool no_memory; /* for the recipe, which is no damage */
};

static struct opened open_entry(const tc_cache *cache, tc_key key)
{
    struct opened o = {0};
    /* Looking at an entry is no use of it. */
    if (!tc_cache_peek(cache, key, &o.entry))
        return o;
    const tc_cache_section *s = tc_entry_find(&o.entry, "recipe");
    if (s)
        o.recipe = tc_json_parse(s->data, s->size, NULL, &o.no_memory);
    return o;
}

static void close_entry(struct opened *o)
{
    cJSON_Delete(o->recipe);
    tc_entry_free(&o->entry);
}

/* "" where it has no such part. */
static const char *part_of(const struct opened *o, const char *name)
{
    const tc_cache_section *s = tc_entry_find(&o->entry, name);
    if (s && strcmp(name, "program") == 0)
        return s->data;
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(o->recipe, name);
    const char *text = cJSON_GetStringValue(value);
    return text ? text : "";
}

/* ---- Listing and clearing ---- */

tilec_status tilec_cache_list(const tilec_context *cx,
                              void (*visit)(void *user,
                                            const tilec_cache_entry *entry),
                              void *user, tilec_error *error)
{
    if (!cx || !visit)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_cache_list: an argument is NULL");
    tc_cache cache = cache_of(cx);
    tc_cache_file *files;
    size_t n;
    tilec_status s = check_folder(&cache, error);
    if (s != TILEC_OK)
        return s;
    if (!tc_cache_files(&cache, &files, &n))
        return unreadable(&cache, error);
    for (size_t i = 0; s == TILEC_OK && i < n; i++) {
        struct opened o = open_entry(&cache, files[i].key);
        tc_key_text key = tc_key_print(files[i].key);
        tilec_cache_entry e = {.size = sizeof e,
                               .key = key.text,
                               .bytes = files[i].bytes,
                               .used = files[i].used};
        if (o.recipe) {
            e.kernel = part_of(&o, "kernel");
            e.target = part_of(&o, "target");
        }
        if (o.no_memory)
            s = tc_fail_memory(error);
        else
            visit(user, &e);
        close_entry(&o);
    }
    free(files);
    return s;
}

tilec_status tilec_cache_clear(const tilec_context *cx, size_t *deleted,
                               tilec_error *error)
{
    size_t n;
    if (deleted)
        *deleted = 0;
    if (!cx)
        return tc_fail(error, TILEC_USAGE, "tilec_cache_clear: cx is NULL");
    tc_cache cache = cache_of(cx);
    tilec_status s = check_folder(&cache, error);
    if (s != TILEC_OK)
        return s;
    bool ok = tc_cache_clear(&cache, &n);
    if (deleted)
        *deleted = n;
    return ok ? TILEC_OK : unreadable(&cache, error);
}

/* ---- Why ---- */

struct why {
    tc_job *job;
    const tc_recipe *recipe;
    tc_cache cache;
    tc_text text;
};

/* Names of parts that only the entry has. */
static bool is_in(const tc_recipe *r, const char *name)
{
    for (unsigned i = 0; i < r->n; i++)
        if (strcmp(r->parts[i].name, name) == 0)
            return true;
    return false;
}

static unsigned count_differences(const struct why *w, const struct opened *o)
{
    unsigned n = 0;
    for (unsigned i = 0; i < w->recipe->n; i++) {
        const tc_recipe_part *p = &w->recipe->parts[i];
        n += strcmp(p->value, part_of(o, p->name)) != 0;
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, o->recipe)
    {
        n += !is_in(w->recipe, item->string);
    }
    return n;
}

/* A line of a text, without its end and not too long. */
static void add_line(tc_text *out, const char *line)
{
    line += strspn(line, " ");
    size_t n = strcspn(line, "\n");
    tc_text_add(out, "`");
    tc_text_addn(out, line, n < 60 ? n : 60);
    tc_text_add(out, n < 60 ? "`" : "...`");
}

/* The first line in which they differ. */
static void add_text_difference(tc_text *out, const char *here,
                                const char *there)
{
    unsigned line = 1;
    size_t n = 0, start = 0;
    for (; here[n] && here[n] == there[n]; n++)
        if (here[n] == '\n') {
            line++;
            start = n + 1;
        }
    tc_text_printf(out, "  program, line %u: ", line);
    add_line(out, here + start);
    tc_text_add(out, ", there ");
    add_line(out, there + start);
    tc_text_add(out, "\n");
}

static void add_part(tc_text *out, const char *name, const char *here,
                     const char *there)
{
    if (strcmp(here, there) == 0)
        return;
    if (strcmp(name, "program") == 0)
        add_text_difference(out, here, there);
    else if (strcmp(name, "tilec") == 0)
        tc_text_add(out, "  tilec: another build\n");
    else
        tc_text_printf(out, "  %s: %s, there %s\n", name,
                       *here ? here : "not given",
                       *there ? there : "not given");
}

static void add_differences(struct why *w, const struct opened *o)
{
    for (unsigned i = 0; i < w->recipe->n; i++)
        add_part(&w->text, w->recipe->parts[i].name, w->recipe->parts[i].value,
                 part_of(o, w->recipe->parts[i].name));
    const cJSON *item;
    cJSON_ArrayForEach(item, o->recipe)
    {
        if (!is_in(w->recipe, item->string))
            add_part(&w->text, item->string, "", part_of(o, item->string));
    }
}

/* The key of the entry for a kernel of this name that differs in least; false:
 * there is none. */
static bool find_nearest(const struct why *w, const char *kernel, tc_key *out)
{
    tc_cache_file *files;
    size_t n;
    unsigned least = UINT32_MAX;
    if (!tc_cache_files(&w->cache, &files, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct opened o = open_entry(&w->cache, files[i].key);
        unsigned differences =
            o.recipe && strcmp(part_of(&o, "kernel"), kernel) == 0
                ? count_differences(w, &o)
                : UINT32_MAX;
        if (differences < least) {
            least = differences;
            *out = files[i].key;
        }
        close_entry(&o);
    }
    free(files);
    return least != UINT32_MAX;
}

static void explain_miss(struct why *w, const char *kernel)
{
    tc_key nearest;
    tc_text_printf(&w->text, "the cache does not have it: key %s\n",
                   tc_key_print(w->recipe->key).text);
    if (!find_nearest(w, kernel, &nearest)) {
        tc_text_printf(&w->text, "no entry is of a kernel @%s\n", kernel);
        return;
    }
    tc_text_printf(&w->text, "the nearest entry, %s, differs in\n",
                   tc_key_print(nearest).text);
    struct opened o = open_entry(&w->cache, nearest);
    if (o.recipe)
        add_differences(w, &o);
    close_entry(&o);
}

static bool has_entry(const struct why *w)
{
    tc_entry entry;
    if (!tc_cache_peek(&w->cache, w->recipe->key, &entry))
        return false;
    bool same = tc_recipe_is_of(w->recipe, &entry);
    tc_entry_free(&entry);
    return same;
}

static bool build_why(tc_job *job)
{
    tc_request *r = job->request;
    const tc_target *target;
    tc_func *f;
    tc_bound bound;
    tc_recipe recipe;
    if (!tc_request_read(job) || !tc_request_configure(job) ||
        !tc_job_choose(job, &r->options, &target, &f, &bound))
        return false;
    struct why w = {.job = job,
                    .recipe = &recipe,
                    .cache = cache_of(job->owner),
                    .text = {.arena = &job->cx->arena}};
    char why[TC_CACHE_WHY];
    tc_recipe_make(job, &r->options, target, f->name, &bound, &recipe);
    tc_text_printf(&w.text, "@%s for %s: ", f->name, target->name);
    if (!tc_cache_is_safe(&w.cache, why, sizeof why)) {
        tc_text_printf(&w.text, "the cache is not used: %s\n", why);
    } else if (has_entry(&w)) {
        tc_text_printf(&w.text, "the cache has it: key %s\n",
                       tc_key_print(recipe.key).text);
    } else {
        explain_miss(&w, f->name);
    }
    r->report = strdup(w.text.data);
    return r->report || tc_job_error(job, TILEC_MACHINE, "out of memory");
}

tilec_status tilec_cache_why(tilec_context *cx, const tilec_source *sources,
                             size_t nsources,
                             const tilec_compile_options *options, char **text)
{
    return cx && text ? tc_request_report(cx, sources, nsources, options,
                                          build_why, text)
                      : TILEC_USAGE;
}
