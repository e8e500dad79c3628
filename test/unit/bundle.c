/* SPDX-License-Identifier: Apache-2.0
 *
 * Bundles: what is recorded launches with the same bits, the same records are
 * the same bytes, and whatever a file holds, loading it ends in an error with a
 * reason or in kernels. What the machine code does nobody checks: changed
 * bundles are loaded and made here, not launched.
 */
#include "lib/bundle/bundle.h"
#include "lib/tilec.h"
#include "test/unit/run.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, M = 40, D = 16, N = HEADS * M * D, ROWS = HEADS * M };

static const char program[] =
    "kernel @scale(%x: tensor<[?] x f32>, %y: tensor<[?] x f32>, %a: f32)\n"
    "    grid(cdiv(size(%x, 0), 16))\n"
    "{\n"
    "  %i = program_id(0) * 16\n"
    "  %t = load %x[%i +: 16] boundary(0)\n"
    "  store %y[%i +: 16], %t * %a boundary(0)\n"
    "}\n";

static tilec_error error;

static tilec_context *new_context(void)
{
    tilec_context *cx;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.target = "cpu";
    o.cpu = "x86-64-v2";
    o.cache_folder = "";
    ck_assert_int_eq(tilec_context_new(&o, &cx), TILEC_OK);
    error = TILEC_INIT(tilec_error);
    return cx;
}

#define OK(call)                                                               \
    do {                                                                       \
        tilec_status s_ = call;                                                \
        ck_assert_msg(s_ == TILEC_OK, "%s", error.message);                    \
    } while (0)

static void expect_error(tilec_status s, const char *text)
{
    ck_assert_int_ne(s, TILEC_OK);
    ck_assert_msg(strstr(error.message, text) != NULL, "no `%s` in: %s", text,
                  error.message);
}

/* ---- What is recorded ---- */

static float q[N], k[N], v[N], dout[N];
static int64_t shape[4] = {1, HEADS, M, D};

static DLTensor tensor(void *data, int ndim)
{
    return (DLTensor){.data = data,
                      .device = {kDLCPU, 0},
                      .ndim = ndim,
                      .dtype = {kDLFloat, 32, 1},
                      .shape = shape};
}

static tilec_status plan(tilec_context *cx, tilec_attention **out)
{
    DLTensor t = tensor(q, 4);
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.mask = "sliding_window(w=9)";
    o.score = "alibi";
    o.backward = 1;
    return tilec_attention_plan(cx, &t, &t, &t, &o, out);
}

/* Results of forward and backward, one after the other. */
typedef struct results {
    float o[N], lse[ROWS], dq[N], dk[N], dv[N];
} results;

static void run(const tilec_attention *a, results *to)
{
    float slopes[HEADS] = {0.5f, 0.25f};
    int64_t heads = HEADS;
    DLTensor tq = tensor(q, 4), tk = tensor(k, 4), tv = tensor(v, 4),
             td = tensor(dout, 4), to_o = tensor(to->o, 4),
             lse = tensor(to->lse, 3), dq = tensor(to->dq, 4),
             dk = tensor(to->dk, 4), dv = tensor(to->dv, 4),
             ts = tensor(slopes, 1);
    ts.shape = &heads;
    tilec_argument captured = tilec_tensor("slopes", &ts);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = &tq, t.k = &tk, t.v = &tv, t.o = &to_o, t.lse = &lse;
    t.dout = &td, t.dq = &dq, t.dk = &dk, t.dv = &dv;
    t.captured = &captured;
    t.ncaptured = 1;
    uint64_t forward, backward;
    OK(tilec_attention_workspace(a, &t, &forward, &backward, &error));
    t.workspace_bytes = forward > backward ? forward : backward;
    t.workspace = aligned_alloc(256, (t.workspace_bytes + 256) / 256 * 256);
    OK(tilec_attention_forward(a, &t, NULL, &error));
    OK(tilec_attention_backward(a, &t, NULL, &error));
    free(t.workspace);
}

/* A bundle of the kernel and of attention; *expected is what the compiler's
 * plan computes. The caller frees it. */
static char *record(size_t *size, results *expected, bool kernel_first)
{
    tilec_context *cx = new_context();
    tilec_attention *a;
    tilec_kernel *scale;
    char *data;
    tilec_source source = tilec_text("scale.tile", program, 0);
    for (int i = 0; i < N; i++) {
        q[i] = (float)(i * 7 % 13) / 13 - 0.5f;
        k[i] = (float)(i * 5 % 11) / 11 - 0.5f;
        v[i] = (float)(i * 3 % 17) / 17 - 0.5f;
        dout[i] = (float)(i * 2 % 19) / 19 - 0.5f;
    }
    OK(tilec_bundle_record(cx, &error));
    for (int i = 0; i < 2; i++)
        if (kernel_first == (i == 0)) {
            ck_assert_msg(tilec_compile(cx, &source, 1, NULL, &scale) ==
                              TILEC_OK,
                          "%s", tilec_diagnostics(cx)->message);
            OK(tilec_bundle_add(cx, "scale", scale, &error));
            tilec_kernel_free(scale);
        } else {
            ck_assert_msg(plan(cx, &a) == TILEC_OK, "%s",
                          tilec_diagnostics(cx)->message);
            if (expected)
                run(a, expected);
            tilec_attention_free(a);
        }
    OK(tilec_bundle_save_memory(cx, &data, size, &error));
    tilec_context_free(cx);
    return data;
}

/* ---- Tests ---- */

START_TEST(results_are_the_compilers)
{
    static results expected, found;
    size_t size;
    char *data = record(&size, &expected, true);
    tilec_context *cx = new_context();
    tilec_attention *a;
    OK(tilec_bundle_load_memory(cx, data, size, &error));
    OK(tilec_bundle_verify(cx, &error));
    ck_assert_msg(plan(cx, &a) == TILEC_OK, "%s",
                  tilec_diagnostics(cx)->message);
    tilec_context_free(cx);
    free(data); /* a plan needs neither */
    run(a, &found);
    ck_assert_mem_eq(&found, &expected, sizeof found);
    tilec_attention_free(a);
}
END_TEST

START_TEST(a_kernel_by_name)
{
    float x[20], y[20];
    int64_t n = 20;
    size_t size;
    char *data = record(&size, NULL, true);
    tilec_context *cx = new_context();
    tilec_kernel *scale;
    OK(tilec_bundle_load_memory(cx, data, size, &error));
    OK(tilec_bundle_kernel(cx, "scale", NULL, &scale, &error));
    ck_assert_str_eq(tilec_kernel_name(scale), "scale");
    ck_assert_int_eq(tilec_kernel_parameter(scale, 1)->written, 1);
    ck_assert_int_eq(tilec_kernel_parameter(scale, 0)->written, 0);
    for (int i = 0; i < 20; i++)
        x[i] = (float)i;
    DLTensor tx = tensor(x, 1), ty = tensor(y, 1);
    tx.shape = ty.shape = &n;
    const tilec_argument args[] = {tilec_tensor(NULL, &tx),
                                   tilec_tensor(NULL, &ty),
                                   tilec_float("a", 0.5)};
    OK(tilec_launch(scale, args, 3, NULL, &error));
    for (int i = 0; i < 20; i++)
        ck_assert(y[i] == 0.5f * (float)i);
    expect_error(tilec_launch(scale, args, 2, NULL, &error),
                 "argument a of @scale is missing");
    tilec_kernel_free(scale);
    expect_error(tilec_bundle_kernel(cx, "scales", NULL, &scale, &error),
                 "no bundle has kernel `scales`; the nearest is `scale`");
    expect_error(tilec_bundle_kernel(cx, "scale", "sm_80", &scale, &error),
                 "the bundle has it for target cpu and CPU x86-64-v2");
    tilec_context_free(cx);
    free(data);
}
END_TEST

START_TEST(same_records_are_the_same_bytes)
{
    size_t size, other_size, again_size;
    char *data = record(&size, NULL, true),
         *other = record(&other_size, NULL, false), *again;
    ck_assert_uint_eq(size, other_size);
    ck_assert_mem_eq(data, other, size);
    tilec_context *cx = new_context();
    OK(tilec_bundle_load_memory(cx, data, size, &error));
    OK(tilec_bundle_load_memory(cx, data, size, &error));
    OK(tilec_bundle_record(cx, &error));
    OK(tilec_bundle_keep(cx, &error));
    OK(tilec_bundle_save_memory(cx, &again, &again_size, &error));
    ck_assert_uint_eq(again_size, size);
    ck_assert_mem_eq(again, data, size);
    tilec_context_free(cx);
    free(data);
    free(other);
    free(again);
}
END_TEST

START_TEST(calls_that_are_wrong)
{
    tilec_context *cx = new_context();
    char *data;
    size_t size;
    expect_error(tilec_bundle_save_memory(cx, &data, &size, &error),
                 "records nothing");
    expect_error(tilec_bundle_load(cx, "/nowhere/x.tilecb", &error),
                 "/nowhere/x.tilecb: No such file");
    expect_error(tilec_bundle_load_memory(cx, "hello, world", 12, &error),
                 "is no bundle");
    expect_error(tilec_bundle_load_memory(cx, "", 0, &error), "is no bundle");
    tilec_context_free(cx);
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cpu = "pentium";
    ck_assert_int_eq(tilec_context_new(&o, &cx), TILEC_USAGE);
    /* Code for this machine alone is nothing to ship. */
    o.cpu = NULL;
    o.target = "cpu";
    ck_assert_int_eq(tilec_context_new(&o, &cx), TILEC_OK);
    tilec_attention *a;
    OK(tilec_bundle_record(cx, &error));
    ck_assert_int_eq(plan(cx, &a), TILEC_USAGE);
    ck_assert_ptr_nonnull(
        strstr(tilec_diagnostics(cx)->message, "give the context a cpu"));
    tilec_context_free(cx);
}
END_TEST

static tilec_status load(const char *data, size_t size)
{
    tilec_context *cx = new_context();
    tilec_status s = tilec_bundle_load_memory(cx, data, size, &error);
    if (s == TILEC_OK)
        s = tilec_bundle_verify(cx, &error);
    tilec_context_free(cx);
    return s;
}

START_TEST(damage_is_found)
{
    size_t size;
    char *data = record(&size, NULL, true);
    OK(load(data, size));
    expect_error(load(data, size - 1), "is damaged");
    expect_error(load(data, 20), "it ends in its head");
    data[size / 2] ^= 1;
    expect_error(load(data, size), "its checksum does not fit");
    data[size / 2] ^= 1;
    data[8]++;
    expect_error(load(data, size), "has bundle format 2");
    free(data);
}
END_TEST

static void seal(char *data, size_t size)
{
    XXH128_hash_t h =
        XXH3_128bits(data + TC_BUNDLE_HEAD, size - TC_BUNDLE_HEAD);
    const uint64_t words[] = {h.low64, h.high64};
    for (int i = 0; i < 16; i++)
        data[24 + i] = (char)(words[i / 8] >> (i % 8 * 8));
}

/* With the right checksum anything may be in it. */
START_TEST(anything_may_be_in_it)
{
    static const unsigned char values[] = {0, 1, 0x7f, 0xff, 'l', 's'};
    size_t size, refused = 0, tried = 0;
    char *data = record(&size, NULL, true);
    /* Not each byte of code: steps that meet every part. */
    for (size_t at = TC_BUNDLE_HEAD; at < size; at += 1 + at % 397) {
        char old = data[at];
        data[at] = (char)values[at % sizeof values];
        seal(data, size);
        if (load(data, size) != TILEC_OK) {
            refused++;
            ck_assert_uint_gt(strlen(error.message), 0);
        }
        tried++;
        data[at] = old;
    }
    seal(data, size);
    OK(load(data, size));
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_gt(tried, refused);
    free(data);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bundle");
    TCase *t = tcase_create("bundle");
    tcase_add_test(t, results_are_the_compilers);
    tcase_add_test(t, a_kernel_by_name);
    tcase_add_test(t, same_records_are_the_same_bytes);
    tcase_add_test(t, calls_that_are_wrong);
    tcase_add_test(t, damage_is_found);
    tcase_add_test(t, anything_may_be_in_it);
    suite_add_tcase(s, t);
    return run_suite(s);
}
