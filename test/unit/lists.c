/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of blocks in attention's plans: which masks get them, how many there
 * are, what is refused. That they are right: test/numerics.
 */
#include "lib/handles.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static tilec_context *cx;
static int64_t shape[4];
static DLTensor q;

static void set_up(void)
{
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.target = "cpu";
    o.cache_folder = "";
    o.remarks = 1;
    ck_assert_int_eq(tilec_context_new(&o, &cx), TILEC_OK);
    memcpy(shape, (int64_t[]){3, 4, 2048, 8}, sizeof shape);
    q = (DLTensor){.device = {kDLCPU, 0},
                   .ndim = 4,
                   .dtype = {kDLFloat, 32, 1},
                   .shape = shape};
}

static void tear_down(void)
{
    tilec_context_free(cx);
}

static tilec_attention *plan(const tilec_attention_options *o)
{
    tilec_attention *a;
    tilec_status s = tilec_attention_plan(cx, &q, &q, &q, o, &a);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    return a;
}

/* How many of a plan's kernels are that one, or a copy of it. */
static int parts(const tilec_kernel *k, const char *name)
{
    int n = 0;
    const tilec_kernel *part;
    for (size_t i = 0; (part = tilec_kernel_part(k, i)); i++)
        n += strncmp(tilec_kernel_name(part), name, strlen(name)) == 0;
    return n;
}

static const struct choice {
    const char *mask;
    int block_lists, length;
    int forward, by_key, by_query; /* lists of forward, and of backward's two */
} choices[] = {
    {"causal", 0, 2048, 0, 0, 0},
    {"document_ids", 0, 2048, 1, 1, 1},
    {"document_ids & causal", 0, 2048, 1, 1, 1},
    {"document_ids", 0, 500, 0, 0, 0},
    {"document_ids", -1, 2048, 0, 0, 0},
    {"causal", 1, 64, 1, 1, 1},
    {NULL, 1, 2048, 0, 0, 0},
    /* Unlike the queries, the keys have an end each. */
    {"ends.tile@ends", 0, 2048, 0, 1, 0},
};

static int read_ends(void *user, const char *file, char **text)
{
    *text = strdup("func @ends(%b: i32, %h: i32, %q: i32, %k: i32, %ends: "
                   "tensor<[?] x i32>) -> i1 {\n"
                   "  return %k < %ends[%q]\n"
                   "}\n");
    return 1;
}

START_TEST(lists_where_the_compiler_cannot_tell)
{
    const struct choice *c = &choices[_i];
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.mask = c->mask;
    o.block_lists = c->block_lists;
    o.backward = 1;
    o.read_source = read_ends;
    shape[2] = c->length;
    o.deterministic = _i % 2;
    tilec_attention *a = plan(&o);
    const tilec_kernel *f = tilec_attention_kernel(a),
                       *b = tilec_attention_backward_kernel(a);
    ck_assert_int_eq(parts(f, "block_lists"), c->forward);
    ck_assert_int_eq(parts(f, "attention_fwd"), c->forward);
    ck_assert_str_eq(tilec_kernel_name(f),
                     c->forward ? "attention_forward" : "attention_fwd");
    ck_assert_int_eq(parts(b, "block_lists"),
                     c->by_key + (o.deterministic && c->by_query));
    tilec_attention_free(a);
}
END_TEST

START_TEST(says_why)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.mask = "document_ids";
    tilec_attention *a = plan(&o);
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    int found = 0;
    for (; d; d = d->next)
        if (d->pass && strcmp(d->pass, "attention") == 0 &&
            strstr(d->message, "listed")) {
            found++;
            ck_assert_str_eq(
                d->message,
                "the blocks that each block of queries sees are listed: which "
                "steps this leaves empty is not known: `gather` is not linear "
                "in the index, so its range is not known");
            ck_assert_str_eq(d->file, "mods/masks.tile");
        }
    ck_assert_int_eq(found, 1);
    tilec_attention_free(a);
}
END_TEST

/* One list for all batch entries, or heads, that do not differ. */
START_TEST(as_many_lists_as_are_different)
{
    static const struct {
        const char *mask;
        unsigned lists;
    } cases[] = {{"document_ids", 1},
                 {"document_ids & !causal", 1},
                 {"prefix_lm_batch", 3},
                 {"document_ids | heads.tile@heads", 4},
                 {"prefix_lm_batch & heads.tile@heads", 12}};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    o.mask = cases[_i].mask;
    o.block_lists = 1;
    tilec_source heads =
        tilec_text("heads.tile",
                   "func @heads(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {\n"
                   "  return %k <= %q + %h\n"
                   "}\n",
                   0);
    o.sources = &heads;
    o.nsources = 1;
    tilec_attention *a = plan(&o);
    t.q = t.k = t.v = &q;
    tilec_error e = TILEC_INIT(tilec_error);
    uint64_t bytes;
    ck_assert_int_eq(tilec_attention_workspace(a, &t, &bytes, NULL, &e),
                     TILEC_OK);
    /* 16 rows of 16 blocks, as kinds and as lists, and counts. */
    ck_assert_uint_eq(bytes, cases[_i].lists * 16 * (16 + 16 + 2) * 4);
    tilec_attention_free(a);
}
END_TEST

/* What a GPU needs is asked of tensors that may still be at the host. */
START_TEST(workspace_of_tensors_anywhere)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    o.mask = "document_ids";
    o.target = "sm_80";
    o.block_lists = o.no_load = 1;
    tilec_attention *a = plan(&o);
    t.q = t.k = t.v = &q;
    tilec_error e = TILEC_INIT(tilec_error);
    uint64_t bytes;
    ck_assert_int_eq(tilec_attention_workspace(a, &t, &bytes, NULL, &e),
                     TILEC_OK);
    ck_assert_uint_eq(bytes, 16 * (16 + 16 + 2) * 4);
    tilec_attention_free(a);
}
END_TEST

static const struct {
    const char *name, *value, *message;
} sides[] = {
    {"SPARSE_Q_BLOCK_SIZE", "100",
     "kernel option SPARSE_Q_BLOCK_SIZE is `100`, expected a multiple of 8 "
     "below 128, or of 128"},
    {"bwd_SPARSE_KV_BLOCK_SIZE", "192",
     "kernel option bwd_SPARSE_KV_BLOCK_SIZE is `192`, expected a multiple of "
     "8 below 128, or of 128"},
};

START_TEST(refuses_sides)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention *a;
    tilec_binding option = {sides[_i].name, sides[_i].value};
    o.mask = "causal";
    o.block_lists = 1;
    o.kernel_options = &option;
    o.nkernel_options = 1;
    ck_assert_int_eq(tilec_attention_plan(cx, &q, &q, &q, &o, &a), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message, sides[_i].message);
}
END_TEST

START_TEST(refuses_calls)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    tilec_binding side = {"SPARSE_Q_BLOCK_SIZE", "32"};
    tilec_error e = TILEC_INIT(tilec_error);
    float *room = calloc(3 * 4 * 2048 * 8, sizeof *room);
    memcpy(shape, (int64_t[]){1, 1, 64, 8}, sizeof shape);
    q.data = room;
    t.q = t.k = t.v = t.o = &q;
    o.mask = "causal";
    o.block_lists = 1;
    tilec_attention *a = plan(&o);
    ck_assert_int_eq(tilec_attention_forward(a, &t, NULL, &e), TILEC_USAGE);
    ck_assert_str_eq(
        e.message,
        "@attention_forward needs a workspace of 516 bytes, 0 are given");
    tilec_attention_free(a);
    o.kernel_options = &side;
    o.nkernel_options = 1;
    a = plan(&o);
    t.workspace = aligned_alloc(256, 4096);
    t.workspace_bytes = 4096;
    ck_assert_int_eq(tilec_attention_forward(a, &t, NULL, &e), TILEC_INPUT);
    ck_assert_str_eq(e.message, "launch of @attention_forward: the blocks of a "
                                "list must be multiples of the kernel's: found "
                                "32, expected 0");
    tilec_attention_free(a);
    free(t.workspace);
    free(room);
}
END_TEST

/* Wherever memory ends, nothing of what was tried aside is left. */
START_TEST(out_of_memory_is_a_status)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention *a = NULL;
    tilec_status s = TILEC_MACHINE;
    o.mask = "document_ids";
    for (unsigned long n = 1; s == TILEC_MACHINE; n += 1 + n) {
        cx->memory.fail_after = n;
        s = tilec_attention_plan(cx, &q, &q, &q, &o, &a);
        cx->memory.fail_after = 0;
        if (s != TILEC_OK) {
            ck_assert_int_eq(s, TILEC_MACHINE);
            ck_assert_str_eq(tilec_diagnostics(cx)->message, "out of memory");
        }
    }
    tilec_attention_free(a);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("lists");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_loop_test(t, lists_where_the_compiler_cannot_tell, 0,
                        sizeof choices / sizeof *choices);
    tcase_add_test(t, says_why);
    tcase_add_loop_test(t, as_many_lists_as_are_different, 0, 5);
    tcase_add_test(t, workspace_of_tensors_anywhere);
    tcase_add_loop_test(t, refuses_sides, 0, sizeof sides / sizeof *sides);
    tcase_add_test(t, refuses_calls);
    tcase_add_test(t, out_of_memory_is_a_status);
    Suite *s = suite_create("lists");
    suite_add_tcase(s, t);
    return run_suite(s);
}
