/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/files/config.h"

#include "lib/files/json.h"
#include "lib/handles.h"

#include <cjson/cJSON.h>
#include <string.h>

static const cJSON *field(const cJSON *entry, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(entry, name);
}

/* A number of the entry; 0 where it is missing. */
static int64_t number(const cJSON *entry, const char *name)
{
    const cJSON *item = field(entry, name);
    return cJSON_IsNumber(item) ? (int64_t)item->valuedouble : 0;
}

static const char *text(const cJSON *entry, const char *name)
{
    const cJSON *item = field(entry, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* How closely an entry says which masks, or score functions, it is for; -1: not
 * for this one. */
static int closeness(const cJSON *entry, const char *mod, const char *any,
                     const char *class)
{
    const char *said = text(entry, mod);
    if (!said)
        return 0;
    if (strcmp(said, class) == 0)
        return 2;
    return strcmp(said, any) == 0 && strcmp(class, "none") != 0 ? 1 : -1;
}

static int closeness_of_mask(const cJSON *entry, const tc_config_query *q)
{
    return closeness(entry, "mask", "masked", q->mask);
}

static int closeness_of_score(const cJSON *entry, const tc_config_query *q)
{
    return closeness(entry, "score", "scored", q->score);
}

static bool fits(const cJSON *entry, const tc_config_query *q)
{
    const char *dtype = text(entry, "dtype");
    const char *name = text(entry, "target");
    const tc_target *target = name ? tc_target_get(name) : q->target;
    int64_t d = number(entry, "d"), dv = number(entry, "dv"),
            v_contig_dim = number(entry, "v_contig_dim"),
            above = number(entry, "d_above");
    if (!target || (target->cpu == NULL) != (q->target->cpu == NULL))
        return false;
    bool runs = target->exact ? target == q->target
                              : target->major < q->target->major ||
                                    (target->major == q->target->major &&
                                     target->minor <= q->target->minor);
    return runs && (!dtype || strcmp(dtype, q->dtype) == 0) &&
           closeness_of_mask(entry, q) >= 0 &&
           closeness_of_score(entry, q) >= 0 &&
           (!v_contig_dim || v_contig_dim == q->v_contig_dim) &&
           (!number(entry, "exact") || q->exact) &&
           (!number(entry, "dropout") || q->dropout) &&
           (!number(entry, "few") || q->few) && (!d || d >= q->d) &&
           (!above || q->d > above) && (!dv || dv >= q->dv) &&
           number(entry, "length") <= q->length;
}

enum { NFIELDS = 11 };

/* How well an entry that fits does; the larger the better, field by field. */
typedef struct score {
    int64_t fields[NFIELDS];
} score;

static score score_of(const cJSON *entry, const tc_config_query *q)
{
    const char *name = text(entry, "target");
    const tc_target *t = name ? tc_target_get(name) : NULL;
    int64_t d = number(entry, "d"), dv = number(entry, "dv");
    return (score){
        {t ? (int64_t)(200 * t->major + 2 * t->minor + t->exact) : -1,
         number(entry, "exact") != 0, text(entry, "dtype") != NULL,
         number(entry, "v_contig_dim") != 0, d ? -d : INT64_MIN,
         dv ? -dv : INT64_MIN, number(entry, "dropout") != 0,
         number(entry, "few") != 0, closeness_of_mask(entry, q),
         closeness_of_score(entry, q), number(entry, "length")}};
}

static bool is_better(score a, score b)
{
    for (int i = 0; i < NFIELDS; i++)
        if (a.fields[i] != b.fields[i])
            return a.fields[i] > b.fields[i];
    return false;
}

/* Replaces the binding of that name, if there is one. */
static void bind(tc_config *c, tilec_binding b)
{
    unsigned i = 0;
    while (i < c->nbindings && strcmp(c->bindings[i].name, b.name) != 0)
        i++;
    if (i == TC_CONFIG_BINDINGS)
        return;
    c->bindings[i] = b;
    c->nbindings += i == c->nbindings;
}

static void take(tc_arena *a, const cJSON *entry, tc_config *out)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, field(entry, "use"))
    {
        if (cJSON_IsString(item) && strcmp(item->string, "tiles") == 0)
            out->tiles = tc_tiles_parse(item->valuestring);
        else if (cJSON_IsString(item) && strchr(item->string, '.'))
            bind(out,
                 (tilec_binding){tc_arena_printf(a, "%s", item->string),
                                 tc_arena_printf(a, "%s", item->valuestring)});
        if (!cJSON_IsNumber(item))
            continue;
        if (strcmp(item->string, "warps") == 0)
            out->warps = (unsigned)item->valueint;
        else if (strcmp(item->string, "stages") == 0)
            out->stages = (unsigned)item->valueint;
        else if (strcmp(item->string, "pair") == 0)
            out->pair = item->valueint != 0;
        else if (strcmp(item->string, "in_order") == 0)
            out->in_order = item->valueint != 0;
        else if (strcmp(item->string, "ptxas") == 0)
            out->ptxas_level = (unsigned)item->valueint;
        else
            bind(out,
                 (tilec_binding){tc_arena_printf(a, "%s", item->string),
                                 tc_arena_printf(a, "%d", item->valueint)});
    }
}

/* Deletes root. */
static bool find_in(tc_arena *a, cJSON *root, const tc_config_query *query,
                    tc_config *out)
{
    const cJSON *entry, *best = NULL;
    *out = (tc_config){0};
    cJSON_ArrayForEach(entry, field(root, "configs"))
    {
        if (fits(entry, query) &&
            (!best || is_better(score_of(entry, query), score_of(best, query))))
            best = entry;
    }
    if (best) {
        out->d = number(best, "d");
        take(a, best, out);
    }
    bool found = best != NULL;
    cJSON_Delete(root);
    return found;
}

/* NULL: the text is no JSON. */
static cJSON *parse(tc_arena *a, const char *json, size_t len)
{
    bool no_memory;
    cJSON *root = tc_json_parse(json, len, NULL, &no_memory);
    if (no_memory)
        tc_memory_fail(a->memory);
    return root;
}

/* The embedded texts are JSON: a failure to parse means a lack of memory. NULL:
 * the kernel has none. */
static cJSON *parse_embedded(tc_arena *a, const char *kernel)
{
    const tc_embedded *e = tc_embedded_configs;
    while (e->name && strcmp(e->name, kernel) != 0)
        e++;
    if (!e->name)
        return NULL;
    cJSON *root = cJSON_ParseWithLength(e->text, e->len);
    if (!root)
        tc_memory_fail(a->memory);
    return root;
}

bool tc_config_find_in(tc_arena *a, const char *json, size_t len,
                       const tc_config_query *query, tc_config *out)
{
    return find_in(a, parse(a, json, len), query, out);
}

bool tc_config_find(tc_arena *a, const tc_config_query *query, tc_config *out)
{
    return find_in(a, parse_embedded(a, query->kernel), query, out);
}

/* ---- What is added to the best ---- */

static bool fits_work(const cJSON *entry, const tc_config_work *w)
{
    const cJSON *longest = field(entry, "longest");
    return (!cJSON_IsNumber(longest) ||
            (double)w->longest <= longest->valuedouble) &&
           (!number(entry, "splits") || w->splits) &&
           (!number(entry, "uneven") || w->uneven);
}

/* Deletes root. */
static void add_in(tc_arena *a, cJSON *root, const tc_config_query *query,
                   const tc_config_work *work, tc_config *c)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, field(root, "also"))
    {
        if (fits(entry, query) && fits_work(entry, work))
            take(a, entry, c);
    }
    cJSON_Delete(root);
}

void tc_config_add_in(tc_arena *a, const char *json, size_t len,
                      const tc_config_query *query, const tc_config_work *work,
                      tc_config *c)
{
    add_in(a, parse(a, json, len), query, work, c);
}

void tc_config_add(tc_arena *a, const tc_config_query *query,
                   const tc_config_work *work, tc_config *c)
{
    add_in(a, parse_embedded(a, query->kernel), query, work, c);
}

bool tc_config_suits(const tc_config *c, const tilec_binding *bindings,
                     size_t n)
{
    const char *rows = NULL;
    for (unsigned k = 0; k < c->nbindings; k++)
        if (strcmp(c->bindings[k].name, "BM") == 0)
            rows = c->bindings[k].value;
    for (size_t i = 0; rows && i < n; i++)
        if (bindings[i].name && strcmp(bindings[i].name, "BM") == 0)
            return bindings[i].value && strcmp(bindings[i].value, rows) == 0;
    return true;
}
