/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU code as sections of an entry (gpu_code.c has their form).
 */
#include "lib/cache/code_meta.h"
#include "lib/gpu/gpu.h"

#include <string.h>

static void add_map(tc_record_writer *meta, const tc_tensor_map *map)
{
    tc_record_open_list(meta, NULL);
    tc_record_add_int(meta, NULL, map->arg);
    tc_record_add_text(meta, NULL, tc_scalar_infos[map->elem].name);
    tc_record_add_int(meta, NULL, map->swizzle);
    tc_record_add_int(meta, NULL, map->contiguous);
    tc_record_add_int(meta, NULL, map->apart);
    tc_record_add_int(meta, NULL, map->nparts);
    for (unsigned d = 0; d < map->nparts; d++) {
        tc_record_add_int(meta, NULL, map->parts[d].count);
        tc_record_add_int(meta, NULL, map->parts[d].step);
    }
    for (unsigned d = 0; d < map->rank; d++)
        tc_record_add_int(meta, NULL, map->box[d]);
    tc_record_close(meta);
}

static const char *part_of(const tc_recipe *recipe, const char *name)
{
    unsigned i = 0;
    while (i < recipe->n && strcmp(recipe->parts[i].name, name) != 0)
        i++;
    return i < recipe->n ? recipe->parts[i].value : "";
}

static void add_members(tc_record_writer *meta, const tc_coding *c)
{
    const tc_nvptx_code *code = c->code;
    tc_record_add_text(meta, "entry", code->entry);
    tc_record_add_text(meta, "target", part_of(c->recipe, "target"));
    tc_record_add_int(meta, "abi", TC_NVPTX_ABI);
    tc_record_add_int(meta, "warps", code->warps);
    tc_record_add_int(meta, "threads", code->threads);
    tc_record_add_int(meta, "shared", code->shared_bytes);
    tc_record_add_int(meta, "ptxas", code->ptxas_level);
    tc_record_open_list(meta, "maps");
    for (unsigned i = 0; i < code->nmaps; i++)
        add_map(meta, &code->maps[i]);
    tc_record_close(meta);
    tc_record_add_int(meta, "counts", code->counts_tiles);
    tc_record_add_int(meta, "early", code->starts_early);
    tc_record_add_int(meta, "reports", code->has_reports);
    tc_record_add_int(meta, "records", code->profile.records);
    tc_record_add_int(meta, "writers",
                      code->profile.records ? code->profile.writers : 0);
}

bool tc_gpu_encode(tc_module *m, const tc_nvptx_code *code,
                   const tc_recipe *recipe, const tc_gpu_texts *texts,
                   tc_entry *out)
{
    tc_cache_section more[3] = {
        {"machine", texts->machine, strlen(texts->machine)},
        {"ptx", code->ptx, code->ptx_len}};
    unsigned nmore = 2;
    if (texts->marks)
        more[nmore++] =
            (tc_cache_section){"marks", texts->marks, strlen(texts->marks)};
    tc_coding c = {.f = tc_meta_kernel(m),
                   .recipe = recipe,
                   .tile = texts->tile,
                   .code = code,
                   .add = add_members,
                   .more = more,
                   .nmore = nmore};
    return tc_code_encode(&c, out);
}
