/* SPDX-License-Identifier: Apache-2.0
 *
 * Code as sections of an entry: made of a module once, read ever after.
 *
 *   meta {"entry": "attention_fwd", "abi": 1, "warps": 4, "shared": 65536,
 *         "reports": false, "written": [3, 4],
 *         "grid": [["attention_fwd.tile", 20, 7], ...],
 *         "asserts": [["attention_fwd.tile", 31, 3, "no keys"], ...]}
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
    bool *written;
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
    struct facts facts = {.written = tc_arena_array(a, bool, n)};
    for (unsigned i = 0; i < n; i++)
        facts.written[i] = tc_value_is_written(a, f->body->args[i]);
    facts.asserts =
        tc_arena_array(a, const tc_op *, list_asserts(f->body, NULL));
    facts.nasserts = list_asserts(f->body, facts.asserts);
    return facts;
}

static bool add_lists(cJSON *meta, const tc_func *f, const struct facts *facts)
{
    const tc_context *cx = f->module->cx;
    cJSON *written = cJSON_AddArrayToObject(meta, "written");
    cJSON *grid = cJSON_AddArrayToObject(meta, "grid");
    cJSON *asserts = cJSON_AddArrayToObject(meta, "asserts");
    bool ok = written && grid && asserts;
    for (unsigned i = 0; ok && i < f->body->nargs; i++)
        if (facts->written[i])
            ok = add_item(written, cJSON_CreateNumber(i));
    tc_each_op (op, f->grid)
        ok = ok && add_place(grid, cx, op->loc, NULL);
    for (unsigned i = 0; ok && i < facts->nasserts; i++)
        ok = add_place(asserts, cx, facts->asserts[i]->loc,
                       tc_op_word(facts->asserts[i], "message"));
    return ok;
}

static char *print_meta(const tc_func *f, const tc_nvptx_code *code,
                        const struct facts *facts)
{
    cJSON *meta = cJSON_CreateObject();
    bool ok = meta && cJSON_AddStringToObject(meta, "entry", code->entry) &&
              cJSON_AddNumberToObject(meta, "abi", TC_NVPTX_ABI) &&
              cJSON_AddNumberToObject(meta, "warps", code->warps) &&
              cJSON_AddNumberToObject(meta, "shared", code->shared_bytes) &&
              cJSON_AddNumberToObject(meta, "ptxas", code->ptxas_level) &&
              cJSON_AddBoolToObject(meta, "reports", code->has_reports) &&
              add_lists(meta, f, facts);
    char *text = ok ? cJSON_PrintUnformatted(meta) : NULL;
    cJSON_Delete(meta);
    return text;
}

static char *print_recipe(const tc_recipe *recipe)
{
    cJSON *j = cJSON_CreateObject();
    bool ok = j != NULL;
    for (unsigned i = 0; ok && i + 1 < recipe->n; i++)
        ok = cJSON_AddStringToObject(j, recipe->parts[i].name,
                                     recipe->parts[i].value);
    char *text = ok ? cJSON_PrintUnformatted(j) : NULL;
    cJSON_Delete(j);
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
    const char *program = recipe->parts[recipe->n - 1].value;
    /* First what may unwind for want of memory, then what is malloc'd. */
    struct facts facts = collect_facts(f);
    const char *header = print_header(f);
    char *meta = print_meta(f, code, &facts), *parts = print_recipe(recipe);
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

static bool read_meta(tc_gpu_code *c)
{
    const tc_section *s = tc_entry_find(&c->entry, "meta");
    c->json = s ? cJSON_Parse(s->data) : NULL;
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(c->json, "entry");
    double warps = number_of(c->json, "warps");
    double shared = number_of(c->json, "shared");
    double level = number_of(c->json, "ptxas");
    c->meta.entry = cJSON_GetStringValue(entry);
    if (!c->meta.entry || number_of(c->json, "abi") != TC_NVPTX_ABI ||
        warps < 1 || warps > TC_MAX_WARPS || shared < 0 ||
        shared > TC_MAX_SHARED || level < 0 || level > 3 ||
        !tc_entry_find(&c->entry, "ptx") || !tc_entry_find(&c->entry, "header"))
        return false;
    c->meta.abi = TC_NVPTX_ABI;
    c->meta.warps = (unsigned)warps;
    c->meta.shared_bytes = (unsigned)shared;
    c->meta.ptxas_level = (unsigned)level;
    c->meta.has_reports =
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c->json, "reports"));
    return true;
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

bool tc_gpu_code_writes(const tc_gpu_code *c, unsigned param)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->json, "written");
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (item->valueint == (int)param)
            return true;
    }
    return false;
}

static const char *string_at(const cJSON *array, int index)
{
    const char *s = cJSON_GetStringValue(cJSON_GetArrayItem(array, index));
    return s ? s : "";
}

static uint32_t number_at(const cJSON *array, int index)
{
    const cJSON *n = cJSON_GetArrayItem(array, index);
    return cJSON_IsNumber(n) && n->valuedouble > 0 ? (uint32_t)n->valuedouble
                                                   : 0;
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
            return (tc_loc){i + 1, number_at(place, 1), number_at(place, 2)};
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
