/* SPDX-License-Identifier: Apache-2.0
 *
 * Code as sections of an entry: made of a module once, read ever after.
 *
 *   meta {"entry": "attention_fwd", "target": "sm_90a", "abi": 2, "warps": 8,
 *         "threads": 384, "shared": 65536, "ptxas": 0,
 *         "maps": [[argument, element, swizzle, contiguous dim, split dim,
 *                   parts, count and step of each..., box...],
 *                  [0, "bf16", 128, 3, 0, 0, 1, 1, 128, 64], ...],
 *         "counts": true, "reports": false, "written": [3, 4],
 *         "grid": [["attention_fwd.tile", 20, 7], ...],
 *         "asserts": [["attention_fwd.tile", 31, 3, "no keys"], ...]}
 *
 * `grid` has the places of the grid's ops in their order, so that a launch that
 * the grid refuses points into the user's text.
 */
#include "lib/cache/code_meta.h"
#include "lib/gpu/gpu_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- Writing ---- */

static bool add_maps(cJSON *meta, const tc_nvptx_code *code)
{
    cJSON *maps = cJSON_AddArrayToObject(meta, "maps");
    bool ok = maps != NULL;
    for (unsigned i = 0; ok && i < code->nmaps; i++) {
        const tc_tensor_map *map = &code->maps[i];
        const char *elem = tc_scalar_infos[map->elem].name;
        cJSON *a = tc_meta_add_array(maps);
        ok = a && tc_meta_add_item(a, cJSON_CreateNumber(map->arg)) &&
             tc_meta_add_item(a, cJSON_CreateString(elem)) &&
             tc_meta_add_item(a, cJSON_CreateNumber(map->swizzle)) &&
             tc_meta_add_item(a, cJSON_CreateNumber(map->contiguous)) &&
             tc_meta_add_item(a, cJSON_CreateNumber(map->apart)) &&
             tc_meta_add_item(a, cJSON_CreateNumber(map->nparts));
        for (unsigned d = 0; ok && d < map->nparts; d++)
            ok = tc_meta_add_item(a, cJSON_CreateNumber(map->parts[d].count)) &&
                 tc_meta_add_item(a, cJSON_CreateNumber(map->parts[d].step));
        for (unsigned d = 0; ok && d < map->rank; d++)
            ok = tc_meta_add_item(a, cJSON_CreateNumber(map->box[d]));
    }
    return ok;
}

static const char *part_of(const tc_recipe *recipe, const char *name)
{
    unsigned i = 0;
    while (i < recipe->n && strcmp(recipe->parts[i].name, name) != 0)
        i++;
    return i < recipe->n ? recipe->parts[i].value : "";
}

static bool add_members(cJSON *meta, const tc_coding *c)
{
    const tc_nvptx_code *code = c->code;
    const char *target = part_of(c->recipe, "target");
    return cJSON_AddStringToObject(meta, "entry", code->entry) &&
           cJSON_AddStringToObject(meta, "target", target) &&
           cJSON_AddNumberToObject(meta, "abi", TC_NVPTX_ABI) &&
           cJSON_AddNumberToObject(meta, "warps", code->warps) &&
           cJSON_AddNumberToObject(meta, "threads", code->threads) &&
           cJSON_AddNumberToObject(meta, "shared", code->shared_bytes) &&
           cJSON_AddNumberToObject(meta, "ptxas", code->ptxas_level) &&
           add_maps(meta, code) &&
           cJSON_AddBoolToObject(meta, "counts", code->counts_tiles) &&
           cJSON_AddBoolToObject(meta, "early", code->starts_early) &&
           cJSON_AddBoolToObject(meta, "reports", code->has_reports);
}

bool tc_gpu_encode(tc_module *m, const tc_nvptx_code *code,
                   const tc_recipe *recipe, const char *tile,
                   const char *machine, tc_entry *out)
{
    tc_cache_section more[] = {{"machine", machine, strlen(machine)},
                               {"ptx", code->ptx, code->ptx_len}};
    tc_coding c = {.f = tc_meta_kernel(m),
                   .recipe = recipe,
                   .tile = tile,
                   .code = code,
                   .add = add_members,
                   .more = more,
                   .nmore = sizeof more / sizeof *more};
    return tc_code_encode(&c, out);
}

/* ---- Reading ---- */

static bool read_element(const cJSON *list, int index, tc_kind *out)
{
    int kind = 0;
    const char *name = tc_meta_string_at(list, index);
    while (kind <= TC_F64 && strcmp(tc_scalar_infos[kind].name, name) != 0)
        kind++;
    *out = (tc_kind)kind;
    return kind <= TC_F64;
}

static bool is_swizzle(unsigned bytes)
{
    return bytes == 0 || bytes == 32 || bytes == 64 || bytes == 128;
}

/* Numbers that divide, size an array or are an index must be in range: a file
 * with the right hashes may still hold anything. `arg` is checked when there is
 * a kernel. */
static bool read_map(const cJSON *list, tc_tensor_map *out)
{
    enum { BEFORE_PARTS = 6, MOST_STEP = 1 << 16 };
    *out = (tc_tensor_map){0};
    if (!tc_meta_read_at(list, 0, 0, UINT32_MAX, &out->arg) ||
        !read_element(list, 1, &out->elem) ||
        !tc_meta_read_at(list, 2, 0, 128, &out->swizzle) ||
        !is_swizzle(out->swizzle) ||
        !tc_meta_read_at(list, 5, 0, TC_MAX_ROW_PARTS, &out->nparts))
        return false;
    int box = BEFORE_PARTS + 2 * (int)out->nparts;
    int rank = cJSON_GetArraySize(list) - box;
    if (rank < 1 || rank > TC_TMA_MAX_RANK)
        return false;
    out->rank = (unsigned)rank;
    if (!tc_meta_read_at(list, 3, 0, out->rank - 1, &out->contiguous) ||
        !tc_meta_read_at(list, 4, 0, out->rank - 1, &out->apart))
        return false;
    for (int i = 0; i < (int)out->nparts; i++)
        if (!tc_meta_read_at(list, BEFORE_PARTS + 2 * i, 1, TC_TMA_MAX_BOX,
                             &out->parts[i].count) ||
            !tc_meta_read_at(list, BEFORE_PARTS + 2 * i + 1, 1, MOST_STEP,
                             &out->parts[i].step))
            return false;
    for (int i = 0; i < rank; i++)
        if (!tc_meta_read_at(list, box + i, 1, MOST_STEP, &out->box[i]))
            return false;
    return true;
}

static bool read_maps(const cJSON *j, tc_gpu_meta *meta)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(j, "maps");
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (meta->nmaps == TC_MAX_TENSOR_MAPS ||
            !read_map(item, &meta->maps[meta->nmaps++]))
            return false;
    }
    return list != NULL;
}

static bool read_meta(tc_gpu_code *c)
{
    enum { MOST_THREADS = 1024 };
    const cJSON *j = c->code.meta;
    tc_gpu_meta *m = &c->meta;
    const char *target = tc_meta_text(j, "target");
    m->entry = tc_meta_text(j, "entry");
    m->target = target ? tc_target_get(target) : NULL;
    m->counts_tiles = tc_meta_is_set(j, "counts");
    m->has_reports = tc_meta_is_set(j, "reports");
    m->starts_early = tc_meta_is_set(j, "early");
    return m->entry && m->target &&
           tc_meta_read(j, "abi", TC_NVPTX_ABI, TC_NVPTX_ABI, &m->abi) &&
           tc_meta_read(j, "warps", 1, TC_MAX_WARPS, &m->warps) &&
           tc_meta_read(j, "threads", 32, MOST_THREADS, &m->threads) &&
           m->threads % 32 == 0 && m->threads >= 32 * m->warps &&
           tc_meta_read(j, "shared", 0, TC_MAX_SHARED, &m->shared_bytes) &&
           tc_meta_read(j, "ptxas", 0, 3, &m->ptxas_level) && read_maps(j, m) &&
           tc_entry_find(&c->code.entry, "ptx") &&
           tc_entry_find(&c->code.entry, "header");
}

static void drop(tc_code *code)
{
    tc_gpu_code *c = (tc_gpu_code *)code;
    tc_gpu_unload(c);
    pthread_mutex_destroy(&c->lock);
}

tc_gpu_code *tc_gpu_code_new(tc_entry *entry, bool is_kept)
{
    tc_gpu_code *c = (tc_gpu_code *)tc_code_new(sizeof *c, entry, drop);
    if (!c)
        return NULL;
    c->is_kept = is_kept;
    atomic_init(&c->loaded, NULL);
    pthread_mutex_init(&c->lock, NULL);
    if (read_meta(c))
        return c;
    tc_gpu_code_unref(c);
    return NULL;
}

tc_gpu_code *tc_gpu_code_ref(tc_gpu_code *c)
{
    tc_code_ref(&c->code);
    return c;
}

void tc_gpu_code_unref(tc_gpu_code *c)
{
    tc_code_unref(c ? &c->code : NULL);
}

const tc_gpu_meta *tc_gpu_code_meta(const tc_gpu_code *c)
{
    return &c->meta;
}

const char *tc_gpu_code_text(const tc_gpu_code *c, const char *name)
{
    return tc_code_text(&c->code, name);
}

size_t tc_gpu_code_size(const tc_gpu_code *c, const char *name)
{
    return tc_code_size(&c->code, name);
}

bool tc_gpu_code_assert(const tc_gpu_code *c, unsigned index,
                        tc_gpu_assert *out)
{
    const cJSON *list =
        cJSON_GetObjectItemCaseSensitive(c->code.meta, "asserts");
    const cJSON *a = cJSON_GetArrayItem(list, (int)index);
    if (!a)
        return false;
    *out = (tc_gpu_assert){.file = tc_meta_string_at(a, 0),
                           .line = tc_meta_number_at(a, 1),
                           .column = tc_meta_number_at(a, 2),
                           .message = tc_meta_string_at(a, 3)};
    return true;
}
