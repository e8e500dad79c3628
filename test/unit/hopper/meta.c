/* SPDX-License-Identifier: Apache-2.0
 *
 * The `meta` of an entry as JSON and back, so that tests can say what they
 * change.
 */
#include "test/unit/hopper/fixture.h"

#include "lib/cache/record.h"

static cJSON *read_value(tc_record r)
{
    int64_t n;
    size_t size;
    if (tc_record_int(r, INT64_MIN, INT64_MAX, &n))
        return cJSON_CreateNumber((double)n);
    if (tc_record_bytes(r, &size))
        return cJSON_CreateString(tc_record_text(r));
    bool is_list = tc_record_is_list(r);
    cJSON *j = is_list ? cJSON_CreateArray() : cJSON_CreateObject();
    for (uint32_t i = 0; i < tc_record_count(r); i += is_list ? 1 : 2)
        if (is_list)
            cJSON_AddItemToArray(j, read_value(tc_record_at(r, i)));
        else
            cJSON_AddItemToObject(j, tc_record_text(tc_record_item(r, i)),
                                  read_value(tc_record_item(r, i + 1)));
    return j;
}

cJSON *hopper_meta_json(const tc_cache_section *meta)
{
    tc_record r;
    ck_assert(tc_record_read(meta->data, meta->size, &r));
    return read_value(r);
}

static int64_t number_of(const cJSON *j)
{
    double x = j->valuedouble;
    return x > 1e18 ? INT64_MAX : x < -1e18 ? INT64_MIN : (int64_t)x;
}

static void write_value(tc_record_writer *w, const char *name, const cJSON *j)
{
    const cJSON *item;
    if (cJSON_IsNumber(j) || cJSON_IsBool(j)) {
        tc_record_add_int(w, name,
                          cJSON_IsNumber(j) ? number_of(j) : cJSON_IsTrue(j));
    } else if (cJSON_IsArray(j) || cJSON_IsObject(j)) {
        if (cJSON_IsArray(j))
            tc_record_open_list(w, name);
        else
            tc_record_open_map(w, name);
        cJSON_ArrayForEach(item, j) write_value(w, item->string, item);
        tc_record_close(w);
    } else {
        tc_record_add_text(w, name,
                           cJSON_IsString(j) ? j->valuestring : "null");
    }
}

tc_record_writer hopper_meta_of(const cJSON *json)
{
    tc_record_writer w = {0};
    write_value(&w, NULL, json);
    ck_assert(!w.failed);
    return w;
}
