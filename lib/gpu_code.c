/* SPDX-License-Identifier: Apache-2.0
 *
 * Code as sections of an entry: made of a module once, read ever after.
 *
 *   meta {"entry": "attention_fwd", "target": "sm_90a", "abi": 2, "warps": 8,
 *         "threads": 384, "shared": 65536, "ptxas": 0,
 *         "maps": [[argument, element, swizzle, contiguous dim, dim taken
 * apart, parts, count and step of each..., box...], [0, "bf16", 128, 3, 0, 0,
 *         1, 1, 128, 64], ...], "counts": true, "reports": false, "written":
 * [3, 4], "grid": [["attention_fwd.tile", 20, 7], ...], "asserts":
 * [["attention_fwd.tile", 31, 3, "no keys"], ...]}
 *
 * `grid` has the places of the grid's ops in their order, so that a launch that
 * the grid refuses points into the text that the person wrote.
 */
#include "lib/gpu_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- Writing ---- */

static const char *file_name(const tc_context *cx, tc_loc loc)
{
    return loc.file ? cx->sources[loc.file - 1].name : "";
}

static cJSON *add_array(cJSON *to)
{
    cJSON *a = cJSON_CreateArray();
    if (cJSON_AddItemToArray(to, a))
        return a;
    cJSON_Delete(a);
    return NULL;
}

static bool add_item(cJSON *to, cJSON *item)
{
    if (item && cJSON_AddItemToArray(to, item))
        return true;
    cJSON_Delete(item);
    return false;
}

/* [file, line, column] and, where there is one, the message. */
static bool add_place(cJSON *to, const tc_context *cx, tc_loc loc,
                      const char *message)
{
    cJSON *a = add_array(to);
    return a && add_item(a, cJSON_CreateString(file_name(cx, loc))) &&
           add_item(a, cJSON_CreateNumber(loc.line)) &&
           add_item(a, cJSON_CreateNumber(loc.col)) &&
           (!message || add_item(a, cJSON_CreateString(message)));
}

/* What has to be known of a body before it goes; in the module's arena. */
struct facts {
    bool *written, *unused;
    unsigned nasserts;
    const tc_op **asserts;
};

static unsigned list_asserts(const tc_region *r, const tc_op **list)
{
    unsigned n = 0;
    tc_each_op (op, r) {
        if (op->code == TC_ASSERT && list)
            list[n] = op;
        n += op->code == TC_ASSERT;
        for (unsigned i = 0; i < op->nregions; i++)
            n += list_asserts(op->regions[i], list ? list + n : NULL);
    }
    return n;
}

static struct facts collect_facts(const tc_func *f)
{
    tc_arena *a = &f->module->arena;
    unsigned n = f->body->nargs;
    struct facts facts = {.written = tc_arena_array(a, bool, n),
                          .unused = tc_arena_array(a, bool, n)};
    for (unsigned i = 0; i < n; i++) {
        facts.written[i] = tc_value_is_written(a, f->body->args[i]);
        facts.unused[i] = !tc_parameter_is_used(f, i);
    }
    facts.asserts =
        tc_arena_array(a, const tc_op *, list_asserts(f->body, NULL));
    facts.nasserts = list_asserts(f->body, facts.asserts);
    return facts;
}

static bool add_lists(cJSON *meta, const tc_func *f, const struct facts *facts)
{
    const tc_context *cx = f->module->cx;
    cJSON *written = cJSON_AddArrayToObject(meta, "written");
    cJSON *unused = cJSON_AddArrayToObject(meta, "unused");
    cJSON *grid = cJSON_AddArrayToObject(meta, "grid");
    cJSON *asserts = cJSON_AddArrayToObject(meta, "asserts");
    bool ok = written && unused && grid && asserts;
    for (unsigned i = 0; ok && i < f->body->nargs; i++) {
        if (facts->written[i])
            ok = add_item(written, cJSON_CreateNumber(i));
        if (ok && facts->unused[i])
            ok = add_item(unused, cJSON_CreateNumber(i));
    }
    tc_each_op (op, f->grid)
        ok = ok && add_place(grid, cx, op->loc, NULL);
    for (unsigned i = 0; ok && i < facts->nasserts; i++)
        ok = add_place(asserts, cx, facts->asserts[i]->loc,
                       tc_op_word(facts->asserts[i], "message"));
    return ok;
}

static bool add_maps(cJSON *meta, const tc_nvptx_code *code)
{
    cJSON *maps = cJSON_AddArrayToObject(meta, "maps");
    bool ok = maps != NULL;
    for (unsigned i = 0; ok && i < code->nmaps; i++) {
        const tc_tensor_map *map = &code->maps[i];
        const char *elem = tc_scalar_infos[map->elem].name;
        cJSON *a = add_array(maps);
        ok = a && add_item(a, cJSON_CreateNumber(map->arg)) &&
             add_item(a, cJSON_CreateString(elem)) &&
             add_item(a, cJSON_CreateNumber(map->swizzle)) &&
             add_item(a, cJSON_CreateNumber(map->contiguous)) &&
             add_item(a, cJSON_CreateNumber(map->apart)) &&
             add_item(a, cJSON_CreateNumber(map->nparts));
        for (unsigned d = 0; ok && d < map->nparts; d++)
            ok = add_item(a, cJSON_CreateNumber(map->parts[d].count)) &&
                 add_item(a, cJSON_CreateNumber(map->parts[d].step));
        for (unsigned d = 0; ok && d < map->rank; d++)
            ok = add_item(a, cJSON_CreateNumber(map->box[d]));
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

static char *print_meta(const tc_func *f, const tc_nvptx_code *code,
                        const tc_recipe *recipe, const struct facts *facts)
{
    const char *target = part_of(recipe, "target");
    cJSON *meta = cJSON_CreateObject();
    bool ok = meta && cJSON_AddStringToObject(meta, "entry", code->entry) &&
              cJSON_AddStringToObject(meta, "target", target) &&
              cJSON_AddNumberToObject(meta, "abi", TC_NVPTX_ABI) &&
              cJSON_AddNumberToObject(meta, "warps", code->warps) &&
              cJSON_AddNumberToObject(meta, "threads", code->threads) &&
              cJSON_AddNumberToObject(meta, "shared", code->shared_bytes) &&
              cJSON_AddNumberToObject(meta, "ptxas", code->ptxas_level) &&
              add_maps(meta, code) &&
              cJSON_AddBoolToObject(meta, "counts", code->counts_tiles) &&
              cJSON_AddBoolToObject(meta, "reports", code->has_reports) &&
              add_lists(meta, f, facts);
    char *text = ok ? cJSON_PrintUnformatted(meta) : NULL;
    cJSON_Delete(meta);
    return text;
}

/* The kernel with nothing in its body; printed to the module's arena. */
static const char *print_header(tc_func *f)
{
    for (tc_op *op = f->body->last, *before; op; op = before) {
        before = op->prev;
        tc_op_erase(op);
    }
    tc_text text = {.arena = &f->module->arena};
    tc_func_print(&text, f, TC_PRINT_PLAIN);
    return text.data;
}

static tc_func *kernel_of(const tc_module *m)
{
    tc_each_func (f, m)
        if (f->is_kernel)
            return f;
    return NULL;
}

bool tc_gpu_encode(tc_module *m, const tc_nvptx_code *code,
                   const tc_recipe *recipe, const char *tile,
                   const char *machine, tc_entry *out)
{
    tc_func *f = kernel_of(m);
    const char *program = tc_recipe_program(recipe);
    /* First what may unwind for want of memory, then what is malloc'd. */
    struct facts facts = collect_facts(f);
    const char *header = print_header(f);
    char *meta = print_meta(f, code, recipe, &facts),
         *parts = tc_recipe_print(recipe);
    bool ok = meta && parts;
    if (ok) {
        tc_section s[] = {{"recipe", parts, strlen(parts)},
                          {"program", program, strlen(program)},
                          {"meta", meta, strlen(meta)},
                          {"header", header, strlen(header)},
                          {"tile", tile, strlen(tile)},
                          {"machine", machine, strlen(machine)},
                          {"ptx", code->ptx, code->ptx_len}};
        ok = tc_entry_make(out, recipe->key, s, sizeof s / sizeof *s);
    }
    free(meta);
    free(parts);
    return ok;
}

/* ---- Reading ---- */

/* -1: there is no such number. */
static double number_of(const cJSON *j, const char *name)
{
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(j, name);
    return cJSON_IsNumber(n) ? n->valuedouble : -1;
}

static const char *string_at(const cJSON *array, int index)
{
    const char *s = cJSON_GetStringValue(cJSON_GetArrayItem(array, index));
    return s ? s : "";
}

/* 0: there is no such number. */
static uint32_t number_at(const cJSON *array, int index)
{
    const cJSON *n = cJSON_GetArrayItem(array, index);
    return cJSON_IsNumber(n) && n->valuedouble > 0 &&
                   n->valuedouble <= UINT32_MAX
               ? (uint32_t)n->valuedouble
               : 0;
}

static const char *text_of(const cJSON *j, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, name));
}

static bool is_set(const cJSON *j, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, name));
}

/* The number of that name, if it is one from `least` to `most`. */
static bool read_number(const cJSON *j, const char *name, unsigned least,
                        unsigned most, unsigned *out)
{
    double n = number_of(j, name);
    *out = n >= least && n <= most ? (unsigned)n : 0;
    return n >= least && n <= most;
}

/* The number at `index`, if it is one from `least` to `most`. */
static bool read_at(const cJSON *array, int index, unsigned least,
                    unsigned most, unsigned *out)
{
    const cJSON *n = cJSON_GetArrayItem(array, index);
    bool ok =
        cJSON_IsNumber(n) && n->valuedouble >= least && n->valuedouble <= most;
    *out = ok ? (unsigned)n->valuedouble : 0;
    return ok;
}

static bool read_element(const cJSON *list, int index, tc_kind *out)
{
    int kind = 0;
    const char *name = string_at(list, index);
    while (kind <= TC_F64 && strcmp(tc_scalar_infos[kind].name, name) != 0)
        kind++;
    *out = (tc_kind)kind;
    return kind <= TC_F64;
}

static bool is_swizzle(unsigned bytes)
{
    return bytes == 0 || bytes == 32 || bytes == 64 || bytes == 128;
}

/* What divides, sizes an array or is an index is in its range: a file with the
 * right hashes may still hold anything. `arg` is looked at when there is a
 * kernel. */
static bool read_map(const cJSON *list, tc_tensor_map *out)
{
    enum { BEFORE_PARTS = 6, MOST_STEP = 1 << 16 };
    *out = (tc_tensor_map){0};
    if (!read_at(list, 0, 0, UINT32_MAX, &out->arg) ||
        !read_element(list, 1, &out->elem) ||
        !read_at(list, 2, 0, 128, &out->swizzle) || !is_swizzle(out->swizzle) ||
        !read_at(list, 5, 0, TC_MAX_ROW_PARTS, &out->nparts))
        return false;
    int box = BEFORE_PARTS + 2 * (int)out->nparts;
    int rank = cJSON_GetArraySize(list) - box;
    if (rank < 1 || rank > TC_TMA_MAX_RANK)
        return false;
    out->rank = (unsigned)rank;
    if (!read_at(list, 3, 0, out->rank - 1, &out->contiguous) ||
        !read_at(list, 4, 0, out->rank - 1, &out->apart))
        return false;
    for (int i = 0; i < (int)out->nparts; i++)
        if (!read_at(list, BEFORE_PARTS + 2 * i, 1, TC_TMA_MAX_BOX,
                     &out->parts[i].count) ||
            !read_at(list, BEFORE_PARTS + 2 * i + 1, 1, MOST_STEP,
                     &out->parts[i].step))
            return false;
    for (int i = 0; i < rank; i++)
        if (!read_at(list, box + i, 1, MOST_STEP, &out->box[i]))
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
    const tc_section *s = tc_entry_find(&c->entry, "meta");
    const cJSON *j = c->json = s ? cJSON_Parse(s->data) : NULL;
    tc_gpu_meta *m = &c->meta;
    const char *target = text_of(j, "target");
    m->entry = text_of(j, "entry");
    m->target = target ? tc_target_get(target) : NULL;
    m->counts_tiles = is_set(j, "counts");
    m->has_reports = is_set(j, "reports");
    return m->entry && m->target &&
           read_number(j, "abi", TC_NVPTX_ABI, TC_NVPTX_ABI, &m->abi) &&
           read_number(j, "warps", 1, TC_MAX_WARPS, &m->warps) &&
           read_number(j, "threads", 32, MOST_THREADS, &m->threads) &&
           m->threads % 32 == 0 && m->threads >= 32 * m->warps &&
           read_number(j, "shared", 0, TC_MAX_SHARED, &m->shared_bytes) &&
           read_number(j, "ptxas", 0, 3, &m->ptxas_level) && read_maps(j, m) &&
           tc_entry_find(&c->entry, "ptx") &&
           tc_entry_find(&c->entry, "header");
}

tc_gpu_code *tc_gpu_code_new(tc_entry *entry, bool is_kept)
{
    tc_gpu_code *c = calloc(1, sizeof *c);
    if (!c) {
        tc_entry_free(entry);
        return NULL;
    }
    c->entry = *entry;
    c->is_kept = is_kept;
    *entry = (tc_entry){0};
    atomic_init(&c->references, 1);
    atomic_init(&c->loaded, NULL);
    pthread_mutex_init(&c->lock, NULL);
    if (read_meta(c))
        return c;
    tc_gpu_code_unref(c);
    return NULL;
}

tc_gpu_code *tc_gpu_code_ref(tc_gpu_code *c)
{
    atomic_fetch_add(&c->references, 1);
    return c;
}

void tc_gpu_code_unref(tc_gpu_code *c)
{
    if (!c || atomic_fetch_sub(&c->references, 1) != 1)
        return;
    tc_gpu_unload(c);
    cJSON_Delete(c->json);
    tc_entry_free(&c->entry);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

tc_key tc_gpu_code_key(const tc_gpu_code *c)
{
    return c->entry.key;
}

bool tc_gpu_code_is_of(const tc_gpu_code *c, const tc_recipe *recipe)
{
    return tc_recipe_is_of(recipe, &c->entry);
}

const tc_gpu_meta *tc_gpu_code_meta(const tc_gpu_code *c)
{
    return &c->meta;
}

const char *tc_gpu_code_text(const tc_gpu_code *c, const char *name)
{
    const tc_section *s = tc_entry_find(&c->entry, name);
    return s ? s->data : "";
}

size_t tc_gpu_code_size(const tc_gpu_code *c, const char *name)
{
    const tc_section *s = tc_entry_find(&c->entry, name);
    return s ? s->size : 0;
}

static bool is_listed(const tc_gpu_code *c, const char *name, unsigned param)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->json, name);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (item->valueint == (int)param)
            return true;
    }
    return false;
}

bool tc_gpu_code_writes(const tc_gpu_code *c, unsigned param)
{
    return is_listed(c, "written", param);
}

bool tc_gpu_code_ignores(const tc_gpu_code *c, unsigned param)
{
    return is_listed(c, "unused", param);
}

bool tc_gpu_code_assert(const tc_gpu_code *c, unsigned index,
                        tc_gpu_assert *out)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->json, "asserts");
    const cJSON *a = cJSON_GetArrayItem(list, (int)index);
    if (!a)
        return false;
    *out = (tc_gpu_assert){.file = string_at(a, 0),
                           .line = number_at(a, 1),
                           .column = number_at(a, 2),
                           .message = string_at(a, 3)};
    return true;
}

static tc_loc find_place(const tc_context *cx, const cJSON *place)
{
    const char *file = string_at(place, 0);
    for (unsigned i = 0; i < cx->nsources; i++)
        if (strcmp(cx->sources[i].name, file) == 0)
            return (tc_loc){.file = i + 1,
                            .line = number_at(place, 1),
                            .col = number_at(place, 2)};
    return (tc_loc){0};
}

tc_func *tc_gpu_code_header(const tc_gpu_code *c, tc_context *cx, tc_module *m)
{
    const tc_section *s = tc_entry_find(&c->entry, "header");
    if (!tc_parse(m, tc_source_add(cx, "kernel", s->data, s->size)))
        return NULL;
    tc_func *f = kernel_of(m);
    const cJSON *place = cJSON_GetObjectItemCaseSensitive(c->json, "grid");
    place = place ? place->child : NULL;
    if (f)
        tc_each_op (op, f->grid) {
            op->loc = find_place(cx, place);
            place = place ? place->next : NULL;
        }
    return f;
}
