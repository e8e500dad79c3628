/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over a cache in C: its messages, and a decode step over pages.
 * (Accuracy, layouts and lengths are tested in test/numerics/kvcache.c and
 * test/python/kvcache.py.)
 */
#include "lib/kvcache/kvcache_choice.h"
#include "test/unit/run.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, HQ = 4, HK = 2, D = 16, PAGE = 8, PAGES = 6, COLUMNS = 3 };

static float q[B * HQ * D], k[PAGES * HK * PAGE * D], v[PAGES * HK * PAGE * D];
static float o[B * HQ * D], lse[B * HQ];
/* 5 keys in page 4; 17 in pages 1, 5 and 0. */
static int32_t lens[B] = {5, 17}, table[B][COLUMNS] = {{4, -1, -1}, {1, 5, 0}};
static int64_t shapes[7][4] = {
    {B, HQ, 1, D}, {PAGES, HK, PAGE, D}, {PAGES, HK, PAGE, D},
    {B, HQ, 1, D}, {B, HQ, 1},           {B},
    {B, COLUMNS},
};
static DLTensor dl[7];
static tilec_context *cx;
static tilec_kvcache *c;

static DLTensor tensor(void *data, int ndim, int code, int64_t *shape)
{
    return (DLTensor){.data = data,
                      .device = {kDLCPU, 0},
                      .ndim = ndim,
                      .dtype = {(uint8_t)code, 32, 1},
                      .shape = shape};
}

static void randomize(float *x, size_t n)
{
    static unsigned seed = 1;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
    }
}

static void set_up(void)
{
    ck_assert_int_eq(tilec_context_new(NULL, &cx), TILEC_OK);
    randomize(q, sizeof q / sizeof *q);
    randomize(k, sizeof k / sizeof *k);
    randomize(v, sizeof v / sizeof *v);
    float *const floats[] = {q, k, v, o, lse};
    for (int i = 0; i < 5; i++)
        dl[i] = tensor(floats[i], i == 4 ? 3 : 4, kDLFloat, shapes[i]);
    dl[5] = tensor(lens, 1, kDLInt, shapes[5]);
    dl[6] = tensor(table, 2, kDLInt, shapes[6]);
    c = NULL;
}

static void tear_down(void)
{
    tilec_kvcache_free(c);
    tilec_context_free(cx);
}

static tilec_kvcache_options options(void)
{
    tilec_kvcache_options found = TILEC_INIT(tilec_kvcache_options);
    found.target = "cpu";
    found.layout = TILEC_KV_PAGED;
    return found;
}

static void plan(void)
{
    tilec_kvcache_options asked = options();
    tilec_status s = tilec_kvcache_plan(cx, &dl[0], &dl[1], &dl[2], &asked, &c);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
}

static tilec_kvcache_tensors all_tensors(void)
{
    tilec_kvcache_tensors t = TILEC_INIT(tilec_kvcache_tensors);
    t.q = &dl[0];
    t.k = &dl[1];
    t.v = &dl[2];
    t.o = &dl[3];
    t.lse = &dl[4];
    t.kv_lens = &dl[5];
    t.page_table = &dl[6];
    return t;
}

/* ---- A step ---- */

static const float *row_of(const float *cache, int b, int head, int n)
{
    int page = table[b][n / PAGE];
    return cache +
           (((size_t)page * HK + (size_t)head) * PAGE + (size_t)(n % PAGE)) * D;
}

static double reference(int b, int h, double out[D])
{
    double s[COLUMNS * PAGE], most = -INFINITY, sum = 0;
    int head = h / (HQ / HK);
    for (int n = 0; n < lens[b]; n++) {
        s[n] = 0;
        for (int d = 0; d < D; d++)
            s[n] += (double)q[(b * HQ + h) * D + d] *
                    (double)row_of(k, b, head, n)[d] / 4; /* sqrt(D) */
        most = fmax(most, s[n]);
    }
    memset(out, 0, D * sizeof *out);
    for (int n = 0; n < lens[b]; n++) {
        sum += exp(s[n] - most);
        for (int d = 0; d < D; d++)
            out[d] += exp(s[n] - most) * (double)row_of(v, b, head, n)[d];
    }
    for (int d = 0; d < D; d++)
        out[d] /= sum;
    return most + log(sum);
}

static void compare(void)
{
    for (int b = 0; b < B; b++)
        for (int h = 0; h < HQ; h++) {
            double want[D], rows = reference(b, h, want);
            ck_assert_double_eq_tol(lse[b * HQ + h], rows, 1e-5);
            for (int d = 0; d < D; d++)
                ck_assert_double_eq_tol(o[(b * HQ + h) * D + d], want[d], 1e-5);
        }
}

START_TEST(a_step_over_pages)
{
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_kvcache_tensors t = all_tensors();
    uint64_t schedule, workspace;
    plan();
    ck_assert_int_eq(tilec_kvcache_workspace(c, &t, &schedule, &workspace, &e),
                     TILEC_OK);
    t.schedule = aligned_alloc(256, (schedule + 255) / 256 * 256);
    t.workspace = aligned_alloc(256, (workspace + 255) / 256 * 256);
    t.schedule_bytes = schedule;
    t.workspace_bytes = workspace;
    for (int step = 0; step < 3; step++, lens[1]--) {
        ck_assert_int_eq(tilec_kvcache_schedule(c, &t, NULL, &e), TILEC_OK);
        ck_assert_int_eq(tilec_kvcache_attention(c, &t, NULL, &e), TILEC_OK);
        compare();
    }
    /* lse may be left out. */
    t.lse = NULL;
    ck_assert_int_eq(tilec_kvcache_attention(c, &t, NULL, &e), TILEC_OK);
    /* A captured value that nobody asked for, a workspace and a schedule that
     * are too small are found. */
    const tilec_argument w = tilec_int("w", 3);
    t.captured = &w;
    t.ncaptured = 1;
    ck_assert_int_eq(tilec_kvcache_attention(c, &t, NULL, &e), TILEC_USAGE);
    ck_assert_ptr_nonnull(strstr(e.message, "no mod captures `w`"));
    t.ncaptured = 0;
    t.workspace_bytes--;
    ck_assert_int_eq(tilec_kvcache_attention(c, &t, NULL, &e), TILEC_USAGE);
    ck_assert_ptr_nonnull(strstr(e.message, "workspace has"));
    t.schedule_bytes = 0;
    ck_assert_int_eq(tilec_kvcache_schedule(c, &t, NULL, &e), TILEC_USAGE);
    ck_assert_ptr_nonnull(strstr(e.message, "schedule has 0 bytes"));
    free(t.schedule);
    free(t.workspace);
}
END_TEST

/* ---- Messages ---- */

static void refused(const tilec_kvcache_options *asked, const char *message)
{
    tilec_kvcache *made;
    ck_assert_int_ne(
        tilec_kvcache_plan(cx, &dl[0], &dl[1], &dl[2], asked, &made), TILEC_OK);
    ck_assert_ptr_null(made);
    ck_assert_msg(strstr(tilec_diagnostics(cx)->message, message), "%s",
                  tilec_diagnostics(cx)->message);
}

START_TEST(plans_that_are_refused)
{
    tilec_kvcache_options asked = options();
    asked.piece = 100;
    refused(&asked, "multiple of 128");
    asked = options();
    asked.layout = (tilec_kv_layout)7;
    refused(&asked, "layout is none");
    asked = options();
    asked.mask = "causl";
    refused(&asked, "causl");
    asked = options();
    asked.size = 4;
    refused(&asked, "wrong size");
    asked = options();
    shapes[0][1] = 5;
    refused(&asked, "q has 5 heads, k 2");
    shapes[0][1] = HQ;
    shapes[0][3] = 17;
    refused(&asked, "dim 3 is 16, expected 17");
    shapes[0][3] = D;
    dl[0].ndim = 3;
    refused(&asked, "rank is 3");
    dl[0].ndim = 4;
    dl[1].dtype.bits = 16;
    refused(&asked, "data type is f16, expected f32");
    dl[1].dtype.bits = 32;
    shapes[1][2] = 0;
    refused(&asked, "a page has 0 keys");
    shapes[1][2] = PAGE;
    ck_assert_int_eq(tilec_kvcache_plan(cx, NULL, &dl[1], &dl[2], &asked, &c),
                     TILEC_USAGE);
    ck_assert_int_eq(tilec_kvcache_plan(NULL, NULL, NULL, NULL, NULL, &c),
                     TILEC_USAGE);
}
END_TEST

START_TEST(calls_that_are_refused)
{
    tilec_error e = TILEC_INIT(tilec_error);
    uint64_t n;
    plan();
    tilec_kvcache_tensors t = all_tensors();
    t.page_table = NULL;
    ck_assert_int_eq(tilec_kvcache_workspace(c, &t, &n, &n, &e), TILEC_USAGE);
    ck_assert_ptr_nonnull(strstr(e.message, "page_table is NULL"));
    t = all_tensors();
    dl[6].ndim = 1;
    ck_assert_int_eq(tilec_kvcache_workspace(c, &t, &n, &n, &e), TILEC_INPUT);
    ck_assert_ptr_nonnull(strstr(e.message, "rank is 1, expected 2"));
    dl[6].ndim = 2;
    dl[5].dtype.bits = 64;
    ck_assert_int_eq(tilec_kvcache_workspace(c, &t, &n, &n, &e), TILEC_INPUT);
    ck_assert_ptr_nonnull(strstr(e.message, "i64, expected i32"));
    dl[5].dtype.bits = 32;
    /* All tensors are of as many sequences. */
    const struct {
        int tensor, dim;
        int64_t side;
        const char *message;
    } wrong[] = {
        {0, 0, B + 1, "argument q: dim 0 is 3, expected 2, as kv_lens says"},
        {6, 0, B - 1, "page_table: dim 0 is 1, expected 2, as kv_lens says"},
        {5, 0, -1, "kv_lens: dim 0 is -1, expected 0 to"},
        {1, 2, 1ll << 40, "argument k: dim 2 is 1099511627776, expected 0 to"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t *side = &shapes[wrong[i].tensor][wrong[i].dim], right = *side;
        *side = wrong[i].side;
        ck_assert_int_eq(tilec_kvcache_workspace(c, &t, &n, &n, &e),
                         TILEC_INPUT);
        ck_assert_msg(strstr(e.message, wrong[i].message), "%s", e.message);
        *side = right;
    }
    /* Sizes do not wrap: lse alone has 2^35 bytes. */
    shapes[0][2] = 1 << 30;
    shapes[6][1] = 1 << 30;
    ck_assert_int_eq(tilec_kvcache_workspace(c, &t, &n, &n, &e), TILEC_OK);
    ck_assert_uint_ge(n, 1ull << 35);
    shapes[0][2] = 1;
    shapes[6][1] = COLUMNS;
    /* Offsets of a plan without them. */
    uint64_t room = 1 << 20;
    t.schedule = t.workspace = aligned_alloc(256, room);
    t.schedule_bytes = t.workspace_bytes = room;
    t.query_offsets = &dl[5];
    ck_assert_int_eq(tilec_kvcache_attention(c, &t, NULL, &e), TILEC_USAGE);
    ck_assert_ptr_nonnull(strstr(e.message, "query_offsets: expected none"));
    free(t.schedule);
    t.q = NULL;
    ck_assert_int_eq(tilec_kvcache_schedule(c, &t, NULL, &e), TILEC_USAGE);
    t = all_tensors();
    ck_assert_int_eq(tilec_kvcache_schedule(NULL, &t, NULL, &e), TILEC_USAGE);
}
END_TEST

/* Of bf16 caches of 8 heads of k on a GPU of 132 multiprocessors. */
static tc_kv_choice chosen(int64_t batch, int64_t group, int64_t queries,
                           int64_t page, int64_t dim)
{
    int64_t q_sides[4] = {batch, 8 * group, queries, dim};
    int64_t k_sides[4] = {100, 8, page, dim};
    DLTensor q4 = tensor(NULL, 4, kDLBfloat, q_sides);
    DLTensor k4 = tensor(NULL, 4, kDLBfloat, k_sides);
    q4.dtype.bits = k4.dtype.bits = 16;
    tilec_kvcache_options asked = options();
    return tc_kv_choose(&q4, &k4, &k4, &asked, tc_target_get("sm_90a"), 132);
}

START_TEST(what_a_plan_chooses)
{
    static const struct {
        int64_t batch, group, queries, page, dim; /* then what is expected */
        tc_kv_choice
            want; /* many rows, by heads, merges apart, runs ahead, .. */
    } cases[] = {
        /* 8 blocks: 16 pieces of each. */
        {1,
         4,
         1,
         64,
         128,
         {0, 0, 1, 0, 0, 16, 64, 64, 4, 4, 1, 16, 8, 32, 2048}},
        /* More programs than are few. */
        {1,
         16,
         1,
         64,
         512,
         {0, 0, 1, 0, 0, 16, 16, 16, 4, 4, 1, 16, 4, 128, 2048}},
        /* 32 blocks: splits, in one program of each multiprocessor. */
        {4,
         4,
         1,
         64,
         128,
         {0, 0, 1, 0, 0, 16, 64, 64, 4, 4, 1, 8, 4, 128, 2048}},
        /* 120 blocks, over 90 % of 132. */
        {15,
         4,
         1,
         64,
         128,
         {0, 0, 0, 0, 0, 16, 64, 64, 4, 4, 1, 8, 4, 128, 2048}},
        /* 136: two programs of each, which are not full; and 240, full. */
        {17,
         4,
         1,
         64,
         128,
         {0, 0, 1, 0, 0, 16, 64, 64, 4, 3, 2, 8, 4, 128, 2048}},
        {30,
         4,
         1,
         64,
         128,
         {0, 0, 0, 0, 0, 16, 64, 64, 4, 3, 2, 8, 4, 128, 2048}},
        /* Small pages are looked up. */
        {4,
         4,
         1,
         16,
         128,
         {0, 0, 1, 0, 0, 16, 64, 64, 4, 3, 2, 8, 4, 128, 2048}},
        {4,
         17,
         1,
         64,
         64,
         {0, 0, 1, 0, 0, 32, 128, 128, 4, 4, 1, 8, 4, 128, 2048}},
        /* Many rows: tiles of two warp groups, and where they do not fit. */
        {4,
         4,
         100,
         64,
         128,
         {1, 1, 1, 1, 0, 128, 128, 32, 8, 0, 1, 8, 4, 128, 512}},
        {4,
         4,
         100,
         64,
         192,
         {1, 1, 1, 1, 0, 128, 64, 32, 8, 0, 1, 8, 4, 128, 512}},
        {4,
         3,
         100,
         64,
         512,
         {1, 0, 1, 0, 0, 64, 16, 16, 8, 0, 1, 8, 4, 128, 512}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tc_kv_choice want = cases[i].want;
        tc_kv_choice got =
            chosen(cases[i].batch, cases[i].group, cases[i].queries,
                   cases[i].page, cases[i].dim);
        ck_assert_int_eq(got.has_many_rows, want.has_many_rows);
        ck_assert_int_eq(got.by_heads, want.by_heads);
        ck_assert_int_eq(got.merges_apart, want.merges_apart);
        ck_assert_int_eq(got.runs_ahead, want.runs_ahead);
        ck_assert_int_eq(got.rows, want.rows);
        ck_assert_int_eq(got.keys, want.keys);
        ck_assert_int_eq(got.tail, want.tail);
        ck_assert_uint_eq(got.warps, want.warps);
        ck_assert_uint_eq(got.stages, want.stages);
        ck_assert_uint_eq(got.per_sm, want.per_sm);
        ck_assert_uint_eq(got.many, want.many);
        ck_assert_uint_eq(got.parts, want.parts);
        ck_assert_uint_eq(got.columns, want.columns);
        ck_assert_uint_eq(got.programs, want.programs);
    }
}
END_TEST

/* v in the first columns of k. */
static tc_kv_choice chosen_latent_of(int64_t batch, int64_t heads, int64_t dim,
                                     int64_t dv)
{
    int64_t q_sides[] = {batch, heads, 1, dim},
            k_sides[] = {batch, 1, 8192, dim}, v_sides[] = {batch, 1, 8192, dv};
    DLTensor q4 = tensor(NULL, 4, kDLBfloat, q_sides);
    DLTensor k4 = tensor(NULL, 4, kDLBfloat, k_sides);
    DLTensor v4 = tensor(NULL, 4, kDLBfloat, v_sides);
    q4.dtype.bits = k4.dtype.bits = v4.dtype.bits = 16;
    tilec_kvcache_options asked = options();
    asked.v_in_k = 1;
    return tc_kv_choose(&q4, &k4, &v4, &asked, tc_target_get("sm_90a"), 132);
}

static tc_kv_choice chosen_latent(int64_t heads, int64_t dim, int64_t dv)
{
    return chosen_latent_of(16, heads, dim, dv);
}

/* 32 blocks of 64 rows want pieces; 128 are pieces only if lengths differ. */
START_TEST(few_programs_merge_blocks_that_are_mostly_whole)
{
    tc_kv_choice split = chosen_latent_of(16, 128, 576, 512),
                 whole = chosen_latent_of(64, 128, 576, 512);
    ck_assert(split.merges_apart && whole.merges_apart);
    ck_assert_uint_eq(split.programs, 2048);
    ck_assert_uint_eq(whole.programs, 512);
}
END_TEST

START_TEST(columns_of_many_rows_come_in_pieces)
{
    tc_kv_choice got = chosen_latent(128, 576, 512);
    ck_assert(got.is_pieced);
    ck_assert_int_eq(got.rows, 64);
    ck_assert_int_eq(got.keys, 128);
    ck_assert_uint_eq(got.stages, 1);
    ck_assert(!chosen_latent(16, 576, 512).is_pieced);  /* few rows */
    ck_assert(!chosen_latent(128, 512, 512).is_pieced); /* no other columns */
    ck_assert(!chosen_latent(128, 576, 480).is_pieced); /* of 64 */
}
END_TEST

/* Where v is something else than columns of k: another pointer, offset, stride,
 * length or more columns. */
START_TEST(values_outside_of_keys_are_refused)
{
    tilec_kvcache_options asked = options();
    tilec_error e = TILEC_INIT(tilec_error);
    int64_t strides[] = {HK * PAGE * D, PAGE * D, D, 1}, v_sides[4];
    uint64_t n;
    asked.v_in_k = 1;
    refused(&asked, "argument v: is not the first columns of k");
    DLTensor apart = dl[2];
    dl[2].data = k;
    dl[2].shape = memcpy(v_sides, shapes[1], sizeof v_sides);
    v_sides[3] = D / 2;
    refused(&asked, "argument v: is not the first columns of k"); /* packed */
    dl[2].strides = strides;
    ck_assert_int_eq(tilec_kvcache_plan(cx, &dl[0], &dl[1], &dl[2], &asked, &c),
                     TILEC_OK);
    shapes[3][3] = D / 2;
    tilec_kvcache_tensors t = all_tensors();
    ck_assert_int_eq(tilec_kvcache_workspace(c, &t, &n, &n, &e), TILEC_OK);
    dl[2].byte_offset = 4;
    ck_assert_int_eq(tilec_kvcache_workspace(c, &t, &n, &n, &e), TILEC_INPUT);
    ck_assert_ptr_nonnull(strstr(e.message, "not the first columns of k"));
    dl[2].byte_offset = 0;
    strides[2]++;
    ck_assert_int_eq(tilec_kvcache_workspace(c, &t, &n, &n, &e), TILEC_INPUT);
    strides[2]--;
    v_sides[2]--;
    ck_assert_int_eq(tilec_kvcache_workspace(c, &t, &n, &n, &e), TILEC_INPUT);
    shapes[3][3] = D;
    dl[2] = apart;
}
END_TEST

static void refused_view(const tilec_kvcache_tensors *t, const char *message)
{
    tilec_error e = TILEC_INIT(tilec_error);
    ck_assert_int_eq(tilec_kvcache_attention(c, t, NULL, &e), TILEC_INPUT);
    ck_assert_msg(strstr(e.message, message), "%s", e.message);
}

/* Results in memory of something else, or of which elements are one. */
START_TEST(views_that_overlap_are_refused)
{
    enum { ROOM = 1 << 20, PADDED = 3 };
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_kvcache_tensors t = all_tensors();
    int64_t strides[4] = {HQ * D, D, D, 1};
    float *both = calloc((size_t)B * HQ * D * PADDED, sizeof *both);
    DLTensor apart = dl[3];
    plan();
    t.schedule = aligned_alloc(256, ROOM);
    t.workspace = aligned_alloc(256, ROOM);
    t.schedule_bytes = t.workspace_bytes = ROOM;
    ck_assert_int_eq(tilec_kvcache_schedule(c, &t, NULL, &e), TILEC_OK);
    dl[3].data = k + 5; /* inside of it, k being dense */
    refused_view(&t, "argument o: overlaps argument k in memory: expected "
                     "memory of its own, as it is written");
    dl[3].data = v;
    refused_view(&t, "argument o: overlaps argument v");
    dl[3].data = t.workspace;
    refused_view(&t, "workspace: overlaps argument o");
    dl[3].data = q + D; /* not the same view */
    refused_view(&t, "argument o: overlaps argument q");
    dl[3] = apart;
    dl[3].strides = strides;
    strides[1] = 0;
    refused_view(&t, "argument o: dim 1 has stride 0 and size 4");
    /* In place of q, and between the rows of another tensor: no overlap. */
    strides[1] = PADDED * D;
    strides[0] = HQ * strides[1];
    dl[3].data = both;
    dl[4].data = both + D;
    dl[4].strides = (int64_t[]){strides[0], strides[1], 1};
    ck_assert_int_eq(tilec_kvcache_attention(c, &t, NULL, &e), TILEC_OK);
    memcpy(both, q, sizeof q);
    dl[4] = tensor(lse, 3, kDLFloat, shapes[4]);
    dl[3] = apart;
    ck_assert_int_eq(tilec_kvcache_attention(c, &t, NULL, &e), TILEC_OK);
    compare();
    dl[0].data = dl[3].data = both;
    ck_assert_int_eq(tilec_kvcache_attention(c, &t, NULL, &e), TILEC_OK);
    ck_assert_int_eq(memcmp(both, o, sizeof o), 0);
    free(t.schedule);
    free(t.workspace);
    free(both);
}
END_TEST

static int64_t variant(void)
{
    tilec_kvcache_options asked = options();
    return tilec_kvcache_variant(cx, &dl[0], &dl[1], &dl[2], &asked);
}

START_TEST(variants_tell_plans_apart)
{
    int64_t one = variant();
    ck_assert_int_ge(one, 0);
    shapes[0][2] = 8; /* 16 rows of a group of 2 are still few */
    ck_assert_int_eq(variant(), one);
    shapes[0][2] = 9;
    ck_assert_int_ne(variant(), one);
    shapes[0][2] = 1;
    dl[1].ndim = 3;
    ck_assert_int_eq(variant(), -1);
    dl[1].ndim = 4;
    ck_assert_int_eq(tilec_kvcache_variant(NULL, &dl[0], &dl[1], &dl[2], NULL),
                     -1);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("kvcache");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_step_over_pages);
    tcase_add_test(tc, what_a_plan_chooses);
    tcase_add_test(tc, few_programs_merge_blocks_that_are_mostly_whole);
    tcase_add_test(tc, columns_of_many_rows_come_in_pieces);
    tcase_add_test(tc, values_outside_of_keys_are_refused);
    tcase_add_test(tc, views_that_overlap_are_refused);
    tcase_add_test(tc, variants_tell_plans_apart);
    tcase_add_test(tc, plans_that_are_refused);
    tcase_add_test(tc, calls_that_are_refused);
    Suite *s = suite_create("kvcache");
    suite_add_tcase(s, tc);
    return run_suite(s);
}
