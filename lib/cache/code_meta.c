/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/cache/code_meta.h"

#include <string.h>

tc_func *tc_meta_kernel(const tc_module *m)
{
    tc_each_func (f, m)
        if (f->is_kernel)
            return f;
    return NULL;
}

const char *tc_meta_string_at(tc_record list, unsigned index)
{
    const char *s = tc_record_text(tc_record_at(list, index));
    return s ? s : "";
}

uint32_t tc_meta_number_at(tc_record list, unsigned index)
{
    int64_t n;
    tc_record_int(tc_record_at(list, index), 0, UINT32_MAX, &n);
    return (uint32_t)n;
}

bool tc_meta_lists(tc_record meta, const char *name, unsigned param)
{
    tc_record list = tc_record_get(meta, name);
    for (uint32_t i = 0, n = tc_record_count(list); i < n; i++) {
        unsigned index;
        if (tc_record_unsigned(tc_record_at(list, i), param, param, &index))
            return true;
    }
    return false;
}

/* The source of that name; one without a text where there is none. */
static uint32_t find_file(tc_context *cx, const char *file)
{
    if (!*file)
        return 0;
    for (unsigned i = 0; i < cx->nsources; i++)
        if (strcmp(cx->sources[i].name, file) == 0)
            return i + 1;
    return tc_source_add(cx, file, "", 0);
}

tc_loc tc_meta_place(tc_context *cx, tc_record place)
{
    uint32_t file = find_file(cx, tc_meta_string_at(place, 0));
    if (!file)
        return (tc_loc){0};
    return (tc_loc){.file = file,
                    .line = tc_meta_number_at(place, 1),
                    .col = tc_meta_number_at(place, 2)};
}

tc_func *tc_meta_read_header(tc_record meta, const char *text, size_t size,
                             tc_context *cx, tc_module *m)
{
    if (!tc_parse(m, tc_source_add(cx, "kernel", text, size)))
        return NULL;
    tc_func *f = tc_meta_kernel(m);
    tc_record places = tc_record_get(meta, "grid");
    uint32_t i = 0;
    if (f)
        tc_each_op (op, f->grid)
            op->loc = tc_meta_place(cx, tc_record_at(places, i++));
    return f;
}
