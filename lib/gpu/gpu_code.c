/* SPDX-License-Identifier: Apache-2.0
 *
 * Code from the sections of an entry (gpu_encode.c writes them).
 *
 *   meta {"entry": "attention_fwd", "target": "sm_90a", "abi": 2, "warps": 8,
 *         "threads": 384, "shared": 65536, "ptxas": 0,
 *         "maps": [[argument, element, swizzle, contiguous dim, split dim,
 *                   parts, count and step of each..., box...],
 *                  [0, "bf16", 128, 3, 0, 0, 1, 1, 128, 64], ...],
 *         "counts": 1, "early": 0, "reports": 0, "records": 0,
 *         "writers": 0, "written": [3, 4],
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

/* The numbers of a list, by index, and of a map, by name. */
static bool number_at(tc_record list, unsigned index, unsigned least,
                      unsigned most, unsigned *out)
{
    return tc_record_unsigned(tc_record_at(list, index), least, most, out);
}

static bool number_of(tc_record map, const char *name, unsigned least,
                      unsigned most, unsigned *out)
{
    return tc_record_unsigned(tc_record_get(map, name), least, most, out);
}

static bool read_element(tc_record list, unsigned index, tc_kind *out)
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
static bool read_map(tc_record list, tc_tensor_map *out)
{
    enum { BEFORE_PARTS = 6, MOST_STEP = 1 << 16 };
    *out = (tc_tensor_map){0};
    if (!number_at(list, 0, 0, UINT32_MAX, &out->arg) ||
        !read_element(list, 1, &out->elem) ||
        !number_at(list, 2, 0, 128, &out->swizzle) ||
        !is_swizzle(out->swizzle) ||
        !number_at(list, 5, 0, TC_MAX_ROW_PARTS, &out->nparts))
        return false;
    unsigned box = BEFORE_PARTS + 2 * out->nparts;
    out->rank = tc_record_count(list) - box;
    if (out->rank < 1 || out->rank > TC_TMA_MAX_RANK)
        return false;
    if (!number_at(list, 3, 0, out->rank - 1, &out->contiguous) ||
        !number_at(list, 4, 0, out->rank - 1, &out->apart))
        return false;
    for (unsigned i = 0; i < out->nparts; i++)
        if (!number_at(list, BEFORE_PARTS + 2 * i, 1, TC_TMA_MAX_BOX,
                       &out->parts[i].count) ||
            !number_at(list, BEFORE_PARTS + 2 * i + 1, 1, MOST_STEP,
                       &out->parts[i].step))
            return false;
    for (unsigned i = 0; i < out->rank; i++)
        if (!number_at(list, box + i, 1, MOST_STEP, &out->box[i]))
            return false;
    return true;
}

static bool read_maps(tc_record list, tc_gpu_meta *meta)
{
    uint32_t n = tc_record_count(list);
    if (!tc_record_is_list(list) || n > TC_MAX_TENSOR_MAPS)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!read_map(tc_record_at(list, i), &meta->maps[meta->nmaps++]))
            return false;
    return true;
}

/* PTX or a cubin. */
static bool has_image(const tc_entry *e)
{
    for (unsigned i = 0; i < e->n; i++)
        if (strncmp(e->sections[i].name, "cubin ", 6) == 0)
            return true;
    return tc_entry_find(e, "ptx") != NULL;
}

static bool read_profile(tc_record meta, tc_profile_shape *s)
{
    enum { MOST_WRITERS = TC_MAX_WARPS / 4 + 2 };
    return number_of(meta, "records", 0, TC_MAX_PROFILE, &s->records) &&
           (!s->records || tc_is_profile(s->records)) &&
           number_of(meta, "writers", s->records != 0, MOST_WRITERS,
                     &s->writers);
}

static bool read_meta(tc_gpu_code *c)
{
    enum { MOST_THREADS = 1024 };
    tc_record j = c->code.meta;
    tc_gpu_meta *m = &c->meta;
    const char *target = tc_record_text(tc_record_get(j, "target"));
    m->entry = tc_record_text(tc_record_get(j, "entry"));
    m->target = target ? tc_target_get(target) : NULL;
    m->counts_tiles = tc_record_is_set(tc_record_get(j, "counts"));
    m->has_reports = tc_record_is_set(tc_record_get(j, "reports"));
    m->starts_early = tc_record_is_set(tc_record_get(j, "early"));
    return m->entry && m->target &&
           number_of(j, "abi", TC_NVPTX_ABI, TC_NVPTX_ABI, &m->abi) &&
           number_of(j, "warps", 1, TC_MAX_WARPS, &m->warps) &&
           number_of(j, "threads", 32, MOST_THREADS, &m->threads) &&
           m->threads % 32 == 0 && m->threads >= 32 * m->warps &&
           number_of(j, "shared", 0, TC_MAX_SHARED, &m->shared_bytes) &&
           number_of(j, "ptxas", 0, 3, &m->ptxas_level) &&
           read_maps(tc_record_get(j, "maps"), m) &&
           read_profile(j, &m->profile) && has_image(&c->code.entry) &&
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
    tc_record list = tc_record_get(c->code.meta, "asserts");
    tc_record a = tc_record_at(list, index);
    if (!a.at)
        return false;
    *out = (tc_gpu_assert){.file = tc_meta_string_at(a, 0),
                           .line = tc_meta_number_at(a, 1),
                           .column = tc_meta_number_at(a, 2),
                           .message = tc_meta_string_at(a, 3)};
    return true;
}
