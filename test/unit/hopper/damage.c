/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of the cache with sound hashes that hold anything: each field of what
 * an entry says of its code, changed to values that size, divide or index
 * badly. The code is compiled again or launched as it says; nothing breaks,
 * which sanitizers see best.
 */
#include "test/unit/hopper/fixture.h"

#include <cjson/cJSON.h>

static const char *const values[] = {
    "0",          "1",          "-1",      "2",      "3",     "7",
    "31",         "33",         "255",     "256",    "65536", "65537",
    "2147483647", "2147483648", "1e300",   "null",   "\"\"",  "true",
    "[]",         "{}",         "\"f32\"", "[0,0,0]"};
enum { NVALUES = sizeof values / sizeof *values };

/* The base: a map of rows taken apart, one of rows as they come. */
static cJSON *base;
static tc_entry good;

static void read_base(void)
{
    tc_cache cache = {.folder = folder};
    tc_cache_file *files;
    size_t n;
    tilec_context *first = hopper_new_context("/nowhere", NULL);
    tilec_kernel_free(hopper_compile(first, false));
    tilec_context_free(first);
    hopper_change_meta("\"maps\":[]",
                       "\"maps\":[[0,\"bf16\",128,2,1,3,2,4,4,1,4,8,1,32,64],"
                       "[1,\"bf16\",128,2,0,0,1,64,64]]");
    ck_assert(tc_cache_files(&cache, &files, &n));
    ck_assert_uint_eq(n, 1);
    ck_assert(tc_cache_read(&cache, files->key, &good));
    free(files);
    base = hopper_meta_json(tc_entry_find(&good, "meta"));
    ck_assert_ptr_nonnull(base);
}

static void write_meta(const cJSON *meta)
{
    tc_cache cache = {.folder = folder};
    tc_entry e;
    char why[TC_CACHE_WHY];
    tc_cache_section sections[TC_ENTRY_MOST_SECTIONS];
    tc_record_writer w = hopper_meta_of(meta);
    memcpy(sections, good.sections, good.n * sizeof *sections);
    for (unsigned i = 0; i < good.n; i++)
        if (strcmp(sections[i].name, "meta") == 0) {
            sections[i].data = w.data;
            sections[i].size = w.size;
        }
    ck_assert(tc_entry_make(&e, good.key, sections, good.n));
    ck_assert(tc_cache_write(&cache, &e, why, sizeof why));
    tc_entry_free(&e);
    free(w.data);
}

/* Compiles and launches with what lies in the cache; false: its code was not
 * sound, which is said. */
static bool use(void)
{
    tilec_kernel *k;
    tilec_context *c = hopper_new_context(FAKE_CUDA, NULL);
    tilec_status s = hopper_compile_with(c, true, &k);
    if (s == TILEC_OK) {
        tensor x, y;
        hopper_make_tensor(&x, 0x10000);
        hopper_make_tensor(&y, 0x20000);
        /* Whatever the driver says to it: an error of this launch. */
        s = hopper_launch(k, &x, &y, NULL);
        ck_assert(s == TILEC_OK || *last_error.message);
        char *json;
        ck_assert_int_eq(tilec_kernel_emit(k, "json", &json, &last_error),
                         TILEC_OK);
        tilec_free(json);
        tilec_kernel_free(k);
    } else {
        ck_assert_ptr_nonnull(tilec_diagnostics(c));
    }
    tilec_context_free(c);
    return s == TILEC_OK;
}

/* Each item below j becomes each value. */
static unsigned change_all(cJSON *parent)
{
    unsigned n = 0;
    for (int i = 0; i < cJSON_GetArraySize(parent); i++) {
        cJSON *item = cJSON_GetArrayItem(parent, i);
        n += change_all(item);
        for (int v = 0; v < NVALUES; v++) {
            cJSON *old = cJSON_Duplicate(item, 1),
                  *new = cJSON_Parse(values[v]);
            ck_assert(old && new);
            if (cJSON_IsObject(parent)) {
                char name[64];
                snprintf(name, sizeof name, "%s", item->string);
                cJSON_ReplaceItemInObjectCaseSensitive(parent, name, new);
                write_meta(base);
                use();
                cJSON_ReplaceItemInObjectCaseSensitive(parent, name, old);
            } else {
                cJSON_ReplaceItemInArray(parent, i, new);
                write_meta(base);
                use();
                cJSON_ReplaceItemInArray(parent, i, old);
            }
            item = cJSON_GetArrayItem(parent, i);
            n++;
        }
    }
    return n;
}

START_TEST(any_field_may_be_anything)
{
    static const unsigned char more[] = {128, 128};
    hopper_expect_params(more, 2);
    read_base();
    write_meta(base);
    ck_assert(use());
    /* 11 fields, two maps of 15 and 9 numbers, and some lists. */
    ck_assert_uint_gt(change_all(base), 40 * NVALUES);
    write_meta(base);
    ck_assert(use());
    cJSON_Delete(base);
    tc_entry_free(&good);
}
END_TEST

void hopper_damage_tests(TCase *t)
{
    tcase_add_test(t, any_field_may_be_anything);
}
