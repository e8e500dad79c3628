/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tuned configuration a query gets.
 */
#include "lib/files/config.h"
#include "ir/base/diag.h"
#include "test/unit/run.h"

#include <check.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static int64_t v_contig_dim; /* of the queries */
static bool exact;           /* likewise */
static const char *score = "none";
static bool dropout, few;

static const char json[] =
    "{\"kernel\": \"k\", \"configs\": ["
    "{\"use\": {\"BM\": 1}},"
    "{\"target\": \"sm_80\", \"use\": {\"BM\": 2}},"
    "{\"target\": \"sm_80\", \"d\": 64, \"use\": {\"BM\": 3}},"
    "{\"target\": \"sm_80\", \"d\": 128, \"use\": {\"BM\": 4, \"warps\": 8}},"
    "{\"target\": \"sm_90\", \"d\": 128, \"use\": {\"BM\": 5}},"
    "{\"target\": \"sm_80\", \"d\": 64, \"mask\": \"masked\","
    " \"use\": {\"BM\": 6}},"
    "{\"target\": \"sm_80\", \"dtype\": \"f16\", \"d\": 32,"
    " \"use\": {\"BM\": 7}},"
    "{\"target\": \"sm_80\", \"d\": 64, \"length\": 4096,"
    " \"use\": {\"BM\": 8, \"stages\": 3, \"tiles\": \"dynamic\"}},"
    "{\"target\": \"sm_80\", \"d\": 128, \"v_contig_dim\": 2, \"use\": "
    "{\"BM\": 10}},"
    "{\"target\": \"sm_80\", \"exact\": 1, \"d\": 128, \"use\": {\"BM\": 11}},"
    "{\"target\": \"sm_80\", \"d\": 128, \"score\": \"nonlinear\","
    " \"use\": {\"BM\": 12}},"
    "{\"target\": \"sm_80\", \"d\": 128, \"score\": \"scored\","
    " \"length\": 4096, \"use\": {\"BM\": 14}},"
    "{\"target\": \"sm_80\", \"d\": 64, \"score\": \"linear\","
    " \"use\": {\"BM\": 15}},"
    "{\"target\": \"sm_80\", \"d\": 64, \"dropout\": 1,"
    " \"use\": {\"BM\": 16}},"
    "{\"target\": \"sm_80\", \"d\": 64, \"few\": 1, \"use\": {\"BM\": 17}},"
    "{\"target\": \"sm_80\", \"d\": 64, \"mask\": \"window\","
    " \"length\": 2048, \"use\": {\"BM\": 13}},"
    "{\"target\": \"sm_90\", \"d\": 256, \"use\": {\"BM\": 5, "
    "\"for.pingpong\": \"once\"}},"
    "{\"target\": \"cpu\", \"use\": {\"BM\": 9}}"
    "]}";

static tc_context *cx;

static void set_up(void)
{
    cx = tc_context_new();
}

static void tear_down(void)
{
    tc_context_free(cx);
}

static tc_config find(const char *target, const char *dtype, int64_t d,
                      const char *mask, int64_t length)
{
    tc_config_query q = {.kernel = "k",
                         .target = tc_target_get(target),
                         .dtype = dtype,
                         .d = d,
                         .dv = d,
                         .mask = mask,
                         .length = length,
                         .v_contig_dim = v_contig_dim,
                         .exact = exact,
                         .score = score,
                         .dropout = dropout,
                         .few = few};
    tc_config c;
    ck_assert(tc_config_find_in(&cx->arena, json, strlen(json), &q, &c));
    return c;
}

static int rows(const char *target, const char *dtype, int64_t d,
                const char *mask, int64_t length)
{
    tc_config c = find(target, dtype, d, mask, length);
    ck_assert_uint_eq(c.nbindings, 1);
    ck_assert_str_eq(c.bindings[0].name, "BM");
    return atoi(c.bindings[0].value);
}

START_TEST(the_nearest_entry_is_taken)
{
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "none", 100), 3);
    ck_assert_int_eq(rows("sm_80", "bf16", 65, "none", 100), 4);
    ck_assert_int_eq(rows("sm_80", "bf16", 256, "none", 100), 2);
    ck_assert_int_eq(rows("sm_80", "f16", 32, "none", 100), 7);
    ck_assert_int_eq(rows("sm_80", "bf16", 32, "none", 100), 3);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "masked", 100), 6);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "window", 100), 6);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "window", 2048), 13);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "causal", 2048), 6);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "masked", 2048), 6);
    ck_assert_int_eq(rows("sm_80", "bf16", 128, "window", 2048), 4);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "none", 5000), 8);
    ck_assert_int_eq(rows("sm_89", "bf16", 128, "none", 100), 4);
    ck_assert_int_eq(rows("sm_90", "bf16", 128, "none", 100), 5);
    ck_assert_int_eq(rows("cpu", "bf16", 128, "none", 100), 9);
    v_contig_dim = 2;
    ck_assert_int_eq(rows("sm_80", "bf16", 128, "none", 100), 10);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "none", 5000), 10);
    ck_assert_int_eq(rows("sm_90", "bf16", 128, "none", 100), 5);
    v_contig_dim = 3;
    ck_assert_int_eq(rows("sm_80", "bf16", 128, "none", 100), 4);
    v_contig_dim = 0;
}
END_TEST

START_TEST(scores_have_classes_behind_those_of_masks)
{
    score = "nonlinear";
    ck_assert_int_eq(rows("sm_80", "bf16", 128, "none", 100), 12);
    ck_assert_int_eq(rows("sm_80", "bf16", 128, "none", 5000), 12);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "masked", 100), 6);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "none", 100), 3);
    score = "linear";
    ck_assert_int_eq(rows("sm_80", "bf16", 128, "none", 100), 4);
    ck_assert_int_eq(rows("sm_80", "bf16", 128, "none", 5000), 14);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "none", 5000), 15);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "masked", 100), 6);
    score = "none";
    ck_assert_int_eq(rows("sm_80", "bf16", 128, "none", 5000), 4);
}
END_TEST

START_TEST(dropout_counts_more_than_masks)
{
    dropout = true;
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "none", 5000), 16);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "window", 2048), 16);
    ck_assert_int_eq(rows("sm_80", "f16", 32, "none", 100), 7);
    ck_assert_int_eq(rows("sm_80", "bf16", 65, "none", 100), 4);
    dropout = false;
}
END_TEST

START_TEST(few_blocks_count_more_than_masks)
{
    few = true;
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "none", 5000), 17);
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "window", 2048), 17);
    ck_assert_int_eq(rows("sm_80", "bf16", 65, "none", 100), 4);
    dropout = true;
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "none", 5000), 16);
    dropout = few = false;
    ck_assert_int_eq(rows("sm_80", "bf16", 64, "none", 5000), 8);
}
END_TEST

START_TEST(exact_sums_want_tiles_of_their_own)
{
    ck_assert_int_eq(rows("sm_80", "bf16", 100, "none", 100), 4);
    exact = true;
    ck_assert_int_eq(rows("sm_80", "bf16", 100, "none", 100), 11);
    /* The data type that is named counts less. */
    ck_assert_int_eq(rows("sm_80", "f16", 32, "none", 100), 11);
    ck_assert_int_eq(rows("sm_80", "bf16", 200, "none", 100), 2);
    exact = false;
}
END_TEST

START_TEST(warps_and_stages_are_no_bindings)
{
    ck_assert_uint_eq(find("sm_80", "bf16", 100, "none", 1).warps, 8);
    ck_assert_uint_eq(find("sm_80", "bf16", 100, "none", 1).stages, 0);
    ck_assert_uint_eq(find("sm_80", "bf16", 64, "none", 4096).stages, 3);
}
END_TEST

START_TEST(tiles_are_a_word)
{
    ck_assert_int_eq(find("sm_80", "bf16", 100, "none", 1).tiles, TC_TILES_ANY);
    tc_config c = find("sm_80", "bf16", 64, "none", 4096);
    ck_assert_int_eq(c.tiles, TC_TILES_DYNAMIC);
}
END_TEST

START_TEST(clauses_are_bindings)
{
    tc_config c = find("sm_90", "bf16", 256, "none", 1);
    ck_assert_uint_eq(c.nbindings, 2);
    ck_assert_str_eq(c.bindings[1].name, "for.pingpong");
    ck_assert_str_eq(c.bindings[1].value, "once");
}
END_TEST

START_TEST(a_broken_text_fits_nothing)
{
    tc_config_query q = {.kernel = "k",
                         .target = tc_target_get("sm_80"),
                         .dtype = "bf16",
                         .d = 64,
                         .dv = 64,
                         .mask = "none",
                         .length = 1,
                         .score = "none"};
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{\"configs\": 3}",
        "{\"configs\": [{\"use\": 1}",
        "{\"configs\": [{\"target\": \"sm_1\", \"use\": {}}]}"};
    tc_config c;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert(
            !tc_config_find_in(&cx->arena, texts[i], strlen(texts[i]), &q, &c));
        ck_assert_uint_eq(c.nbindings, 0);
    }
}
END_TEST

START_TEST(shipped_configurations_are_read)
{
    tc_config_query q = {.kernel = "attention_fwd",
                         .target = tc_target_get("sm_80"),
                         .dtype = "bf16",
                         .d = 64,
                         .dv = 64,
                         .mask = "none",
                         .length = 1,
                         .score = "none"};
    tc_config c;
    ck_assert(tc_config_find(&cx->arena, &q, &c));
    ck_assert_uint_gt(c.nbindings, 0);
    q.kernel = "no_such_kernel";
    ck_assert(!tc_config_find(&cx->arena, &q, &c));
}
END_TEST

static void *no_memory(size_t size)
{
    (void)size;
    return NULL;
}

/* Not the same as one that is not there. */
START_TEST(no_memory_for_configurations)
{
    cJSON_Hooks none = {no_memory, free};
    tc_config_query q = {.kernel = "attention_fwd",
                         .target = tc_target_get("sm_80"),
                         .dtype = "bf16",
                         .d = 64,
                         .dv = 64,
                         .mask = "none",
                         .length = 1,
                         .score = "none",
                         false};
    tc_config c;
    jmp_buf here;
    cJSON_InitHooks(&none);
    cx->memory.unwind = &here;
    bool unwound = setjmp(here) != 0;
    if (!unwound)
        (void)tc_config_find(&cx->arena, &q, &c);
    cx->memory.unwind = NULL;
    cJSON_InitHooks(NULL);
    ck_assert(unwound);
    ck_assert(tc_config_find(&cx->arena, &q, &c));
}
END_TEST

/* What is compiled by its name alone is as configured, but for what the caller
 * says. */
START_TEST(an_embedded_kernel_is_configured)
{
    int64_t shape[2] = {4096, 4096}, square[2] = {4096, 4096};
    DLTensor t = {.ndim = 2, .dtype = {kDLBfloat, 16, 1}, .shape = shape};
    DLTensor b = t;
    b.shape = square;
    tilec_argument examples[] = {tilec_tensor("a", &t), tilec_tensor("b", &b),
                                 tilec_tensor("c", &t)};
    tilec_binding own[] = {{"BN", "32"}};
    tilec_context_options co = {.size = sizeof co, .cache_folder = ""};
    tilec_compile_options o = {.size = sizeof o,
                               .target = "sm_80",
                               .bindings = own,
                               .nbindings = 1,
                               .examples = examples,
                               .nexamples = 3,
                               .no_load = 1};
    tc_config_query q = {.kernel = "matmul",
                         .target = tc_target_get("sm_80"),
                         .dtype = "bf16",
                         .mask = "none",
                         .length = 4096,
                         .score = "none"};
    tilec_source source = tilec_text("matmul", NULL, 0);
    tilec_resources taken = TILEC_INIT(tilec_resources);
    tilec_context *tilec;
    tilec_kernel *k;
    tc_config c;
    ck_assert(tc_config_find(&cx->arena, &q, &c));
    ck_assert_str_eq(c.bindings[0].name, "BM");
    ck_assert_int_eq(tilec_context_new(&co, &tilec), TILEC_OK);
    ck_assert_int_eq(tilec_compile(tilec, &source, 1, &o, &k), TILEC_OK);
    ck_assert_str_eq(tilec_kernel_binding(k, "BM"), c.bindings[0].value);
    ck_assert_str_eq(tilec_kernel_binding(k, "BN"), "32");
    ck_assert_int_eq(tilec_kernel_resources(k, &taken, NULL), TILEC_OK);
    ck_assert_uint_eq(taken.warps, c.warps);
    tilec_kernel_free(k);
    /* Other rows, and who shares them is open again. */
    tilec_binding rows[] = {{"BM", "64"}, {"BN", "64"}};
    ck_assert(!tc_config_suits(&c, rows, 2) && tc_config_suits(&c, own, 1));
    o.bindings = rows;
    o.nbindings = 2;
    ck_assert_int_eq(tilec_compile(tilec, &source, 1, &o, &k), TILEC_OK);
    ck_assert_int_eq(tilec_kernel_resources(k, &taken, NULL), TILEC_OK);
    ck_assert_uint_lt(taken.warps, c.warps);
    tilec_kernel_free(k);
    o.bindings = own;
    o.nbindings = 1;
    /* Its text from a file is anybody's kernel. */
    source.text = tilec_embedded_text("matmul");
    ck_assert_int_eq(tilec_compile(tilec, &source, 1, &o, &k), TILEC_OK);
    ck_assert_str_eq(tilec_kernel_binding(k, "BM"), "64");
    tilec_kernel_free(k);
    /* By the cost model, with tiles for few rows. */
    source.text = NULL;
    o.target = "sm_90a";
    o.nbindings = 0;
    shape[0] = 16;
    ck_assert_int_eq(tilec_compile(tilec, &source, 1, &o, &k), TILEC_OK);
    ck_assert_str_eq(tilec_kernel_binding(k, "BM"), "16");
    tilec_kernel_free(k);
    o.nexamples = 0; /* not known */
    tilec_binding type[] = {{"T", "bf16"}};
    o.bindings = type;
    o.nbindings = 1;
    ck_assert_int_eq(tilec_compile(tilec, &source, 1, &o, &k), TILEC_OK);
    ck_assert_str_eq(tilec_kernel_binding(k, "BM"), "128");
    tilec_kernel_free(k);
    tilec_context_free(tilec);
}
END_TEST

START_TEST(a_data_type_that_is_named_comes_before_dims)
{
    static const char text[] =
        "{\"configs\": [{\"d\": 64, \"use\": {\"BM\": 1}},"
        "{\"dtype\": \"f32\", \"use\": {\"BM\": 2}}]}";
    tc_config_query q = {.kernel = "k",
                         .target = tc_target_get("sm_80"),
                         .dtype = "f32",
                         .d = 64,
                         .dv = 64,
                         .mask = "none",
                         .length = 1,
                         .score = "none"};
    tc_config c;
    ck_assert(tc_config_find_in(&cx->arena, text, strlen(text), &q, &c));
    ck_assert_str_eq(c.bindings[0].value, "2");
    q.dtype = "bf16";
    ck_assert(tc_config_find_in(&cx->arena, text, strlen(text), &q, &c));
    ck_assert_str_eq(c.bindings[0].value, "1");
}
END_TEST

/* ---- What is added to the best ---- */

static tc_config add(const tc_config_query *q, int64_t longest, bool splits)
{
    static const char text[] =
        "{\"configs\": [{\"use\": {\"BM\": 64, \"warps\": 4}}],"
        " \"also\": ["
        "{\"target\": \"sm_80\", \"d_above\": 64, \"longest\": 512,"
        " \"use\": {\"pair\": 1}},"
        "{\"target\": \"sm_80\", \"splits\": 1, \"mask\": \"masked\","
        " \"use\": {\"stages\": 3}},"
        "{\"dtype\": \"f32\", \"longest\": 0,"
        " \"use\": {\"BM\": 32, \"BN\": 16}}]}";
    tc_config c;
    tc_config_work w = {.longest = longest, .splits = splits};
    ck_assert(tc_config_find_in(&cx->arena, text, strlen(text), q, &c));
    tc_config_add_in(&cx->arena, text, strlen(text), q, &w, &c);
    return c;
}

/* Head dims above that of the entry, and lengths up to its own. */
START_TEST(entries_of_also_add_what_they_use)
{
    tc_config_query q = {.kernel = "k",
                         .target = tc_target_get("sm_80"),
                         .dtype = "bf16",
                         .d = 128,
                         .dv = 128,
                         .mask = "none",
                         .score = "none",
                         false};
    tc_config c = add(&q, 512, false);
    ck_assert(c.pair);
    ck_assert_uint_eq(c.warps, 4);
    ck_assert_uint_eq(c.stages, 0);
    ck_assert(!add(&q, 513, false).pair);
    q.d = 64;
    ck_assert(!add(&q, 512, false).pair);
}
END_TEST

/* Only calls with split heads, and a mask. */
START_TEST(entries_of_also_know_split_heads)
{
    tc_config_query q = {.kernel = "k",
                         .target = tc_target_get("sm_90a"),
                         .dtype = "bf16",
                         .d = 64,
                         .dv = 64,
                         .mask = "causal",
                         .score = "none",
                         false};
    ck_assert_uint_eq(add(&q, 4096, true).stages, 3);
    ck_assert_uint_eq(add(&q, 4096, false).stages, 0);
    q.mask = "none";
    ck_assert_uint_eq(add(&q, 4096, true).stages, 0);
}
END_TEST

/* A binding that the best one has is replaced. */
START_TEST(entries_of_also_bind)
{
    tc_config_query q = {.kernel = "k",
                         .target = tc_target_get("sm_80"),
                         .dtype = "f32",
                         .d = 64,
                         .dv = 64,
                         .mask = "none",
                         .score = "none",
                         false};
    tc_config c = add(&q, 0, false);
    ck_assert_uint_eq(c.nbindings, 2);
    ck_assert_str_eq(c.bindings[0].name, "BM");
    ck_assert_str_eq(c.bindings[0].value, "32");
    ck_assert_str_eq(c.bindings[1].value, "16");
}
END_TEST

static const struct shipped {
    const char *target, *dtype, *mask;
    int64_t d, longest;
    bool splits, pair;
} shipped[] = {
    {"sm_90a", "bf16", "causal", 128, 512, false, true},
    {"sm_90a", "f16", "window", 80, 16, false, true},
    {"sm_90a", "bf16", "masked", 320, 512, false, true},
    {"sm_90a", "bf16", "none", 320, 4096, false, true},
    {"sm_90a", "f16", "causal", 512, 4096, false, true},
    {"sm_90a", "bf16", "none", 520, 4096, false, false},
    {"sm_90a", "f32", "none", 512, 4096, false, false},
    {"sm_90a", "bf16", "causal", 128, 513, false, false},
    {"sm_90a", "bf16", "causal", 128, 4096, true, true},
    {"sm_90a", "f16", "causal", 65, 4096, true, true},
    {"sm_90a", "bf16", "causal", 64, 512, true, false},
    {"sm_90a", "bf16", "none", 128, 512, true, false},
    {"sm_90a", "f32", "causal", 128, 512, true, false},
    {"sm_90", "bf16", "causal", 128, 512, true, false},
    {"sm_80", "bf16", "causal", 128, 512, true, false},
    {"cpu", "bf16", "causal", 128, 512, true, false},
};

START_TEST(shipped_pairs)
{
    const struct shipped *s = &shipped[_i];
    tc_config_query q = {.kernel = "attention_bwd",
                         .target = tc_target_get(s->target),
                         .dtype = s->dtype,
                         .d = s->d,
                         .dv = s->d,
                         .mask = s->mask,
                         .length = s->longest,
                         .score = "none",
                         false};
    tc_config_work w = {.longest = s->longest, .splits = s->splits};
    tc_config c;
    (void)tc_config_find(&cx->arena, &q, &c);
    ck_assert(!c.pair);
    tc_config_add(&cx->arena, &q, &w, &c);
    ck_assert_int_eq(c.pair, s->pair);
    q.kernel = "no_such_kernel";
    c.pair = false;
    tc_config_add(&cx->arena, &q, &w, &c);
    ck_assert(!c.pair);
}
END_TEST

static bool adds_in_order(const char *mask, int64_t d, bool uneven)
{
    tc_config_query q = {.kernel = "attention_bwd",
                         .target = tc_target_get("sm_90a"),
                         .dtype = "bf16",
                         .d = d,
                         .dv = d,
                         .mask = mask,
                         .length = 4096,
                         .score = "none"};
    tc_config_work w = {.longest = 4096, .uneven = uneven};
    tc_config c;
    ck_assert(tc_config_find(&cx->arena, &q, &c));
    tc_config_add(&cx->arena, &q, &w, &c);
    ck_assert(!c.pair);
    return c.in_order;
}

START_TEST(uneven_tiles_of_shared_heads_take_two_kernels)
{
    ck_assert(!adds_in_order("causal", 128, true));
    ck_assert(!adds_in_order("masked", 128, true));
    ck_assert(adds_in_order("causal", 128, false));
    ck_assert(adds_in_order("none", 128, true));
    ck_assert(adds_in_order("causal", 64, true));
}
END_TEST

/* Lists are mostly of blocks of 128 rows: of 192, which masks else take, few
 * would be full. */
START_TEST(lists_have_tiles_of_128_rows)
{
    const char *dtype = _i ? "f16" : "bf16";
    tc_config_query q = {.kernel = "attention_fwd",
                         .target = tc_target_get("sm_90a"),
                         .dtype = dtype,
                         .d = 64,
                         .dv = 64,
                         .length = 8192,
                         .score = "none"};
    static const char *const masks[] = {"masked", "listed"}, *const rows[] = {
                                                                 "192", "128"};
    for (int i = 0; i < 2; i++) {
        tc_config c;
        q.mask = masks[i];
        ck_assert(tc_config_find(&cx->arena, &q, &c));
        ck_assert_str_eq(c.bindings[0].name, "BM");
        ck_assert_str_eq(c.bindings[0].value, rows[i]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("config");
    TCase *t = tcase_create("config");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, the_nearest_entry_is_taken);
    tcase_add_test(t, scores_have_classes_behind_those_of_masks);
    tcase_add_test(t, dropout_counts_more_than_masks);
    tcase_add_test(t, few_blocks_count_more_than_masks);
    tcase_add_test(t, exact_sums_want_tiles_of_their_own);
    tcase_add_test(t, warps_and_stages_are_no_bindings);
    tcase_add_test(t, tiles_are_a_word);
    tcase_add_test(t, clauses_are_bindings);
    tcase_add_test(t, a_broken_text_fits_nothing);
    tcase_add_test(t, shipped_configurations_are_read);
    suite_add_tcase(s, t);
    tcase_add_test(t, an_embedded_kernel_is_configured);
    tcase_add_test(t, no_memory_for_configurations);
    tcase_add_test(t, a_data_type_that_is_named_comes_before_dims);
    tcase_add_test(t, entries_of_also_add_what_they_use);
    tcase_add_test(t, entries_of_also_know_split_heads);
    tcase_add_test(t, entries_of_also_bind);
    tcase_add_loop_test(t, shipped_pairs, 0, sizeof shipped / sizeof *shipped);
    tcase_add_test(t, uneven_tiles_of_shared_heads_take_two_kernels);
    tcase_add_loop_test(t, lists_have_tiles_of_128_rows, 0, 2);
    return run_suite(s);
}
