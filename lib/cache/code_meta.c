/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/cache/code_meta.h"

#include <string.h>

/* ---- Writing ---- */

static const char *file_name(const tc_context *cx, tc_loc loc)
{
    return loc.file ? cx->sources[loc.file - 1].name : "";
}

cJSON *tc_meta_add_array(cJSON *to)
{
    cJSON *a = cJSON_CreateArray();
    if (cJSON_AddItemToArray(to, a))
        return a;
    cJSON_Delete(a);
    return NULL;
}

bool tc_meta_add_item(cJSON *to, cJSON *item)
{
    if (item && cJSON_AddItemToArray(to, item))
        return true;
    cJSON_Delete(item);
    return false;
}

bool tc_meta_add_place(cJSON *to, const tc_context *cx, tc_loc loc,
                       const char *message)
{
    cJSON *a = tc_meta_add_array(to);
    return a && tc_meta_add_item(a, cJSON_CreateString(file_name(cx, loc))) &&
           tc_meta_add_item(a, cJSON_CreateNumber(loc.line)) &&
           tc_meta_add_item(a, cJSON_CreateNumber(loc.col)) &&
           (!message || tc_meta_add_item(a, cJSON_CreateString(message)));
}

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

tc_meta_facts tc_meta_facts_of(const tc_func *f)
{
    tc_arena *a = &f->module->arena;
    unsigned n = f->body->nargs;
    tc_meta_facts facts = {.written = tc_arena_array(a, bool, n),
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

bool tc_meta_add_facts(cJSON *meta, const tc_func *f,
                       const tc_meta_facts *facts)
{
    const tc_context *cx = f->module->cx;
    cJSON *written = cJSON_AddArrayToObject(meta, "written");
    cJSON *unused = cJSON_AddArrayToObject(meta, "unused");
    cJSON *grid = cJSON_AddArrayToObject(meta, "grid");
    cJSON *asserts = cJSON_AddArrayToObject(meta, "asserts");
    bool ok = written && unused && grid && asserts;
    for (unsigned i = 0; ok && i < f->body->nargs; i++) {
        if (facts->written[i])
            ok = tc_meta_add_item(written, cJSON_CreateNumber(i));
        if (ok && facts->unused[i])
            ok = tc_meta_add_item(unused, cJSON_CreateNumber(i));
    }
    tc_each_op (op, f->grid)
        ok = ok && tc_meta_add_place(grid, cx, op->loc, NULL);
    for (unsigned i = 0; ok && i < facts->nasserts; i++)
        ok = tc_meta_add_place(asserts, cx, facts->asserts[i]->loc,
                               tc_op_word(facts->asserts[i], "message"));
    return ok;
}

const char *tc_meta_header(tc_func *f)
{
    for (tc_op *op = f->body->last, *before; op; op = before) {
        before = op->prev;
        tc_op_erase(op);
    }
    tc_text text = {.arena = &f->module->arena};
    tc_func_print(&text, f, TC_PRINT_PLAIN);
    return text.data;
}

tc_func *tc_meta_kernel(const tc_module *m)
{
    tc_each_func (f, m)
        if (f->is_kernel)
            return f;
    return NULL;
}

/* ---- Reading ---- */

/* -1: there is no such number. */
static double number_of(const cJSON *j, const char *name)
{
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(j, name);
    return cJSON_IsNumber(n) ? n->valuedouble : -1;
}

const char *tc_meta_string_at(const cJSON *array, int index)
{
    const char *s = cJSON_GetStringValue(cJSON_GetArrayItem(array, index));
    return s ? s : "";
}

uint32_t tc_meta_number_at(const cJSON *array, int index)
{
    const cJSON *n = cJSON_GetArrayItem(array, index);
    return cJSON_IsNumber(n) && n->valuedouble > 0 &&
                   n->valuedouble <= UINT32_MAX
               ? (uint32_t)n->valuedouble
               : 0;
}

const char *tc_meta_text(const cJSON *j, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, name));
}

bool tc_meta_is_set(const cJSON *j, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, name));
}

bool tc_meta_read(const cJSON *j, const char *name, unsigned least,
                  unsigned most, unsigned *out)
{
    double n = number_of(j, name);
    *out = n >= least && n <= most ? (unsigned)n : 0;
    return n >= least && n <= most;
}

bool tc_meta_read_at(const cJSON *array, int index, unsigned least,
                     unsigned most, unsigned *out)
{
    const cJSON *n = cJSON_GetArrayItem(array, index);
    bool ok =
        cJSON_IsNumber(n) && n->valuedouble >= least && n->valuedouble <= most;
    *out = ok ? (unsigned)n->valuedouble : 0;
    return ok;
}

bool tc_meta_lists(const cJSON *meta, const char *name, unsigned param)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(meta, name);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (item->valueint == (int)param)
            return true;
    }
    return false;
}

static tc_loc find_place(const tc_context *cx, const cJSON *place)
{
    const char *file = tc_meta_string_at(place, 0);
    for (unsigned i = 0; i < cx->nsources; i++)
        if (strcmp(cx->sources[i].name, file) == 0)
            return (tc_loc){.file = i + 1,
                            .line = tc_meta_number_at(place, 1),
                            .col = tc_meta_number_at(place, 2)};
    return (tc_loc){0};
}

tc_func *tc_meta_read_header(const cJSON *meta, const char *text, size_t size,
                             tc_context *cx, tc_module *m)
{
    if (!tc_parse(m, tc_source_add(cx, "kernel", text, size)))
        return NULL;
    tc_func *f = tc_meta_kernel(m);
    const cJSON *place = cJSON_GetObjectItemCaseSensitive(meta, "grid");
    place = place ? place->child : NULL;
    if (f)
        tc_each_op (op, f->grid) {
            op->loc = find_place(cx, place);
            place = place ? place->next : NULL;
        }
    return f;
}
