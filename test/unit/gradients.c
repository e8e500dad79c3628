/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention interface, backward: its messages, FlexAttention's options, and
 * that gradients, captured ones among them, arrive where they should. (Accuracy
 * is tested in test/numerics.)
 */
#include "lib/handles.h"
#include "test/unit/run.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, HQ = 4, HK = 2, M = 21, N = 37, D = 24, DV = 16 };
enum { Q, K, V, O, LSE, DO, DLSE, DQ, DK, DV_, SLOPES, DSLOPES, TENSORS };
static const int64_t shapes[TENSORS][4] = {
    {B, HQ, M, D}, {B, HK, N, D},  {B, HK, N, DV}, {B, HQ, M, DV},
    {B, HQ, M},    {B, HQ, M, DV}, {B, HQ, M},     {B, HQ, M, D},
    {B, HK, N, D}, {B, HK, N, DV}, {HQ},           {HQ}};

static float data[TENSORS][B * HQ * N * D];
static int64_t sizes[TENSORS][4];
static DLTensor dl[TENSORS];
static tilec_context *cx;
static tilec_error error;
static _Alignas(256) char room[1 << 20];

static void set_up(void)
{
    unsigned seed = 1;
    ck_assert_int_eq(tilec_context_new(NULL, &cx), TILEC_OK);
    for (int i = 0; i < TENSORS; i++) {
        int rank = 0;
        for (; rank < 4 && shapes[i][rank]; rank++)
            sizes[i][rank] = shapes[i][rank];
        dl[i] = (DLTensor){.data = data[i],
                           .device = {kDLCPU, 0},
                           .ndim = rank,
                           .dtype = {kDLFloat, 32, 1},
                           .shape = sizes[i]};
        for (size_t j = 0; j < sizeof data[i] / sizeof *data[i]; j++) {
            seed = seed * 1664525u + 1013904223u;
            data[i][j] = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
        }
    }
    memset(room, 0xff, sizeof room);
}

static void tear_down(void)
{
    tilec_context_free(cx);
}

static tilec_status plan_with(tilec_attention_options *o, tilec_attention **a)
{
    return tilec_attention_plan(cx, &dl[Q], &dl[K], &dl[V], o, a);
}

static tilec_attention *plan(tilec_attention_options *o)
{
    tilec_attention *a;
    o->backward = 1;
    tilec_status s = plan_with(o, &a);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    return a;
}

static tilec_attention_tensors all_tensors(void)
{
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = &dl[Q], t.k = &dl[K], t.v = &dl[V], t.o = &dl[O], t.lse = &dl[LSE];
    t.dout = &dl[DO], t.dlse = &dl[DLSE];
    t.dq = &dl[DQ], t.dk = &dl[DK], t.dv = &dl[DV_];
    t.workspace = room;
    t.workspace_bytes = sizeof room;
    return t;
}

static void check(tilec_status s)
{
    ck_assert_msg(s == TILEC_OK, "%s", s == TILEC_OK ? "" : error.message);
}

static void refused(tilec_status got, const char *message)
{
    ck_assert_int_ne(got, TILEC_OK);
    ck_assert_str_eq(error.message, message);
}

/* ---- What comes out ---- */

/* sum(do * o) + sum(dlse * lse), by forward. */
static double loss(const tilec_attention *a, const tilec_attention_tensors *t)
{
    double sum = 0;
    check(tilec_attention_forward(a, t, NULL, &error));
    for (int i = 0; i < B * HQ * M * DV; i++)
        sum += (double)data[DO][i] * data[O][i];
    for (int i = 0; t->dlse && i < B * HQ * M; i++)
        sum += (double)data[DLSE][i] * data[LSE][i];
    return sum;
}

/* Along the gradient g of x the loss grows by the square of its norm: a step
 * of 1/64 of x's size is far above the noise of float32. */
static double slope_error(const tilec_attention *a,
                          const tilec_attention_tensors *t, int x, int g, int n)
{
    static float gradient[B * HQ * N * D];
    double square = 0, step;
    memcpy(gradient, data[g], sizeof gradient);
    for (int i = 0; i < n; i++)
        square += (double)gradient[i] * gradient[i];
    step = 0.02 / sqrt(square);
    for (int i = 0; i < n; i++)
        data[x][i] += (float)step * gradient[i];
    double up = loss(a, t);
    for (int i = 0; i < n; i++)
        data[x][i] -= (float)(2 * step) * gradient[i];
    double down = loss(a, t);
    for (int i = 0; i < n; i++)
        data[x][i] += (float)step * gradient[i];
    return fabs((up - down) / (2 * step) / square - 1);
}

static void check_slopes(const tilec_attention *a, tilec_attention_tensors *t)
{
    (void)loss(a, t);
    check(tilec_attention_backward(a, t, NULL, &error));
    ck_assert_double_le(slope_error(a, t, Q, DQ, B * HQ * M * D), 0.01);
    ck_assert_double_le(slope_error(a, t, K, DK, B * HK * N * D), 0.01);
    ck_assert_double_le(slope_error(a, t, V, DV_, B * HK * N * DV), 0.01);
}

START_TEST(gradients_are_slopes)
{
    for (int deterministic = 0; deterministic < 2; deterministic++) {
        tilec_attention_options o = TILEC_INIT(tilec_attention_options);
        o.mask = "causal_bottom_right | sliding_window(w=9)";
        o.score = "soft_cap(cap=3)";
        o.deterministic = deterministic;
        tilec_attention *a = plan(&o);
        tilec_attention_tensors t = all_tensors();
        check_slopes(a, &t);
        t.dlse = NULL;
        check_slopes(a, &t);
        tilec_attention_free(a);
    }
}
END_TEST

START_TEST(captured_gradients)
{
    static float sum[HQ];
    for (int deterministic = 0; deterministic < 2; deterministic++) {
        tilec_attention_options o = TILEC_INIT(tilec_attention_options);
        o.score = "alibi, soft_cap(cap=5)";
        o.captured_gradients = 1;
        o.deterministic = deterministic;
        tilec_attention *a = plan(&o);
        tilec_attention_tensors t = all_tensors();
        tilec_argument captured = tilec_tensor("slopes", &dl[SLOPES]),
                       gradient = tilec_tensor("slopes", &dl[DSLOPES]);
        t.captured = &captured;
        t.ncaptured = 1;
        t.captured_grads = &gradient;
        t.ncaptured_grads = 1;
        ck_assert_str_eq(tilec_attention_gradient(a, 0)->name,
                         "grad.score.slopes");
        ck_assert_int_eq(tilec_attention_gradient(a, 0)->ndim, 1);
        /* That of the cap, a number, may be left out. */
        ck_assert_str_eq(tilec_attention_gradient(a, 1)->name,
                         "grad.score.cap");
        ck_assert_ptr_null(tilec_attention_gradient(a, 2));
        check_slopes(a, &t);
        ck_assert_double_le(slope_error(a, &t, SLOPES, DSLOPES, HQ), 0.01);
        if (deterministic)
            for (int i = 0; i < HQ; i++)
                ck_assert_float_eq_tol(data[DSLOPES][i], sum[i],
                                       1e-4f * fabsf(sum[i]) + 1e-4f);
        memcpy(sum, data[DSLOPES], sizeof sum);
        gradient.name = "mask.slopes";
        refused(tilec_attention_backward(a, &t, NULL, &error),
                "there is no gradient for `mask.slopes`");
        gradient.name = NULL;
        refused(tilec_attention_backward(a, &t, NULL, &error),
                "captured gradient 0 has no name");
        t.ncaptured_grads = 0;
        refused(tilec_attention_backward(a, &t, NULL, &error),
                "argument grad.score.slopes of @attention_backward is missing: "
                "tensor<[?] x f32>, the gradient for what a mod captures");
        tilec_attention_free(a);
    }
}
END_TEST

START_TEST(sinks)
{
    static float first[HQ];
    static int64_t fewer[] = {HQ - 1};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention *plain = plan(&o);
    o.sinks = 1;
    o.mask = "causal";
    tilec_attention *a = plan(&o);
    tilec_attention_tensors t = all_tensors();
    t.sinks = &dl[SLOPES], t.dsinks = &dl[DSLOPES];
    check_slopes(a, &t);
    ck_assert_double_le(slope_error(a, &t, SLOPES, DSLOPES, HQ), 0.01);
    for (int turn = 0; turn < 3; turn++) {
        check(tilec_attention_backward(a, &t, NULL, &error));
        ck_assert(!turn || memcmp(first, data[DSLOPES], sizeof first) == 0);
        memcpy(first, data[DSLOPES], sizeof first);
    }
    t.dsinks = NULL; /* not wanted */
    memset(data[DSLOPES], 0, sizeof first);
    check_slopes(a, &t);
    ck_assert_float_eq(data[DSLOPES][0], 0);
    t.dsinks = &dl[DSLOPES];
    refused(tilec_attention_backward(plain, &t, NULL, &error),
            "tilec_attention_backward: the plan takes no sinks: it was made "
            "without that option");
    t.sinks = NULL;
    refused(tilec_attention_forward(a, &t, NULL, &error),
            "tilec_attention_forward: sinks is NULL, which the plan was made "
            "for");
    DLTensor short_one = dl[SLOPES];
    short_one.shape = fewer;
    t.sinks = &short_one;
    refused(tilec_attention_backward(a, &t, NULL, &error),
            "argument sinks: dim 0 is 3, expected 4 (heads of q)");
    t.sinks = &dl[Q];
    refused(tilec_attention_forward(a, &t, NULL, &error),
            "argument sinks: rank is 4, expected 1 (heads of q)");
    tilec_attention_free(plain);
    tilec_attention_free(a);
}
END_TEST

/* [B, M, H, D] in memory, gradients in the order of what they belong to. */
START_TEST(strides_of_any_order)
{
    static const int all[] = {Q, K, V, O, DO, DQ, DK, DV_};
    static float want[3][B * HQ * N * D];
    int64_t strides[TENSORS][4];
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention *a = plan(&o);
    tilec_attention_tensors t = all_tensors();
    (void)loss(a, &t);
    check(tilec_attention_backward(a, &t, NULL, &error));
    for (int i = 0; i < 3; i++)
        memcpy(want[i], data[DQ + i], sizeof want[i]);
    for (int i = 0; i < 8; i++) {
        static float copy[B * HQ * N * D];
        const int64_t *s = sizes[all[i]];
        int64_t *to = strides[all[i]];
        memcpy(copy, data[all[i]], sizeof copy);
        to[0] = s[1] * s[2] * s[3], to[1] = s[3], to[2] = s[1] * s[3],
        to[3] = 1;
        for (int64_t j = 0; j < s[0] * s[1] * s[2] * s[3]; j++) {
            int64_t d = j % s[3], m = j / s[3] % s[2], h = j / s[3] / s[2];
            data[all[i]][h / s[1] * to[0] + h % s[1] * to[1] + m * to[2] + d] =
                copy[j];
        }
        dl[all[i]].strides = to;
    }
    check(tilec_attention_backward(a, &t, NULL, &error));
    double most = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t *s = sizes[DQ + i], *to = strides[DQ + i];
        for (int64_t j = 0; j < s[0] * s[1] * s[2] * s[3]; j++) {
            int64_t d = j % s[3], m = j / s[3] % s[2], h = j / s[3] / s[2];
            double got = data[DQ + i][h / s[1] * to[0] + h % s[1] * to[1] +
                                      m * to[2] + d];
            most = fmax(most, fabs(got - want[i][j]));
        }
    }
    ck_assert_double_le(most, 1e-5);
    tilec_attention_free(a);
}
END_TEST

START_TEST(deterministic_bits)
{
    static float first[3][B * HQ * N * D];
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.deterministic = 1;
    tilec_attention *a = plan(&o);
    tilec_attention_tensors t = all_tensors();
    (void)loss(a, &t);
    int differ = 0;
    for (int turn = 0; turn < 4; turn++) {
        check(tilec_attention_backward(a, &t, NULL, &error));
        for (int i = 0; i < 3; i++) {
            differ += turn && memcmp(first[i], data[DQ + i], sizeof first[i]);
            memcpy(first[i], data[DQ + i], sizeof first[i]);
        }
    }
    ck_assert_int_eq(differ, 0);
    tilec_attention_free(a);
}
END_TEST

/* ---- Workspace and calls that are wrong ---- */

START_TEST(workspace)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention *a = plan(&o);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    uint64_t forward = 1, backward = 0;
    refused(tilec_attention_workspace(a, &t, &forward, &backward, &error),
            "tilec_attention_workspace: q, k or v is NULL");
    t.q = &dl[Q], t.k = &dl[K], t.v = &dl[V];
    check(tilec_attention_workspace(a, &t, &forward, &backward, &error));
    ck_assert_uint_eq(forward, 0);
    /* At least the f32 sum of dq and two numbers a row. */
    ck_assert_uint_ge(backward, 4 * B * HQ * M * (D + 2));
    check(tilec_attention_workspace(a, &t, NULL, NULL, &error));
    t = all_tensors();
    t.workspace_bytes = backward - 1;
    ck_assert_int_eq(tilec_attention_backward(a, &t, NULL, &error),
                     TILEC_USAGE);
    ck_assert_ptr_nonnull(
        strstr(error.message, "@attention_backward needs a workspace of "));
    t.workspace_bytes = backward;
    t.dlse = NULL;
    (void)loss(a, &t);
    check(tilec_attention_backward(a, &t, NULL, &error));
    tilec_attention_free(a);
}
END_TEST

/* Sums that come out alike in every run take room by the gradient's size. */
START_TEST(workspace_of_captured_gradients)
{
    enum { WIDTH = 9 };
    static float table[HQ * WIDTH], gradient[HQ * WIDTH];
    int64_t shape[] = {HQ, WIDTH};
    DLTensor of[2];
    for (int i = 0; i < 2; i++)
        of[i] = (DLTensor){.data = i ? gradient : table,
                           .device = {kDLCPU, 0},
                           .ndim = 2,
                           .dtype = {kDLFloat, 32, 1},
                           .shape = shape};
    tilec_argument captured = tilec_tensor("table", &of[0]),
                   grad = tilec_tensor("table", &of[1]);
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.score = "relative_bias_table";
    o.deterministic = 1;
    o.captured_gradients = 1;
    tilec_attention *a = plan(&o);
    tilec_attention_tensors t = all_tensors();
    uint64_t few, many;
    t.captured = &captured;
    t.ncaptured = 1;
    refused(tilec_attention_workspace(a, &t, NULL, &few, &error),
            "the workspace of @attention_backward depends on an argument that "
            "is not given");
    t.captured_grads = &grad;
    t.ncaptured_grads = 1;
    check(tilec_attention_workspace(a, &t, NULL, &few, &error));
    shape[1] = 100 * WIDTH;
    check(tilec_attention_workspace(a, &t, NULL, &many, &error));
    ck_assert_uint_ge(many, few + 8 * HQ * 99 * WIDTH);
    shape[1] = WIDTH;
    t.workspace_bytes = few;
    (void)loss(a, &t);
    check(tilec_attention_backward(a, &t, NULL, &error));
    double sum = 0;
    for (int i = 0; i < HQ * WIDTH; i++)
        sum += fabs(gradient[i]);
    ck_assert_double_gt(sum, 0.1);
    tilec_attention_free(a);
}
END_TEST

START_TEST(calls_that_are_wrong)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention *a = plan(&o), *none;
    tilec_attention_tensors t = all_tensors();
    t.dout = NULL;
    refused(tilec_attention_backward(a, &t, NULL, &error),
            "tilec_attention_backward: q, k, v, o, lse or dout is NULL");
    t = all_tensors();
    t.dk = NULL;
    refused(tilec_attention_backward(a, &t, NULL, &error),
            "tilec_attention_backward: dq, dk or dv is NULL");
    t = all_tensors();
    t.ncaptured_grads = 1;
    refused(tilec_attention_backward(a, &t, NULL, &error),
            "tilec_attention_backward: captured is NULL");
    refused(tilec_attention_backward(NULL, &t, NULL, &error),
            "tilec_attention_backward: plan or tensors is NULL or of a wrong "
            "size: use TILEC_INIT");
    t = all_tensors();
    sizes[DQ][2]--;
    refused(tilec_attention_backward(a, &t, NULL, &error),
            "launch of @attention_backward: dq must have the shape of q: size "
            "2 of dq: found 20, expected 21");
    tilec_attention_free(a);
    o.backward = 0;
    ck_assert_int_eq(plan_with(&o, &none), TILEC_OK);
    uint64_t bytes;
    refused(tilec_attention_backward(none, &t, NULL, &error),
            "tilec_attention_backward: the plan has no backward: it was made "
            "without that option");
    refused(tilec_attention_workspace(none, &t, NULL, &bytes, &error),
            "tilec_attention_workspace: the plan has no backward: it was made "
            "without that option");
    ck_assert_ptr_null(tilec_attention_backward_kernel(none));
    ck_assert_ptr_null(tilec_attention_gradient(none, 0));
    tilec_attention_free(none);
    o.deterministic = 1;
    ck_assert_int_eq(plan_with(&o, &none), TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "tilec_attention_plan: deterministic and "
                     "captured_gradients are of backward, which is not asked "
                     "for");
}
END_TEST

/* ---- FlexAttention's options ---- */

START_TEST(kernel_options)
{
    const tilec_binding given[] = {
        {"BLOCK_M", "32"},       {"BLOCK_N", "16"},
        {"BLOCK_M1", "16"},      {"BLOCK_N1", "32"},
        {"bwd_BLOCK_M2", "48"},  {"fwd_BLOCK_N2", "96"},
        {"num_warps", "4"},      {"bwd_num_warps", "8"},
        {"num_stages", "2"},     {"FLOAT32_PRECISION", "'tf32x3'"},
        {"PRESCALE_QK", "True"}, {"ROWS_GUARANTEED_SAFE", "false"}};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.kernel_options = given;
    o.nkernel_options = sizeof given / sizeof *given;
    o.deterministic = 1;
    tilec_attention *a = plan(&o);
    const tilec_kernel *f = tilec_attention_kernel(a),
                       *b = tilec_attention_backward_kernel(a);
    ck_assert_str_eq(tilec_kernel_binding(f, "BM"), "32");
    ck_assert_str_eq(tilec_kernel_binding(f, "BN"), "16");
    ck_assert_str_eq(tilec_kernel_binding(b, "BM"), "16");
    ck_assert_str_eq(tilec_kernel_binding(b, "BN"), "32");
    ck_assert_str_eq(tilec_kernel_binding(b, "BMQ"), "48");
    ck_assert_str_eq(tilec_kernel_binding(b, "BNQ"), "64");
    tilec_attention_tensors t = all_tensors();
    check_slopes(a, &t);
    tilec_attention_free(a);
}
END_TEST

static const struct wrong_option {
    tilec_binding given;
    const char *message;
} wrong_options[] = {
    {{"BLOCKM", "32"},
     "there is no kernel option `BLOCKM`, did you mean `BLOCK_M`?; there are "
     "BLOCK_M, BLOCK_N, BLOCK_M1, BLOCK_N1, BLOCK_M2, BLOCK_N2, "
     "SPARSE_Q_BLOCK_SIZE, SPARSE_KV_BLOCK_SIZE, num_warps, num_stages, "
     "FLOAT32_PRECISION, PRESCALE_QK, ROWS_GUARANTEED_SAFE, EXACT_SUMS, "
     "COPY_VALUES, SPLIT_KEYS, each also as fwd_.. and bwd_.."},
    {{"BLOCK_M", "0"},
     "kernel option BLOCK_M is `0`, expected a multiple of 8, 8 to 1024"},
    {{"num_warps", "8x"},
     "kernel option num_warps is `8x`, expected a whole number, 1 to 32"},
    {{"fwd_num_stages", "99"},
     "kernel option fwd_num_stages is `99`, expected a whole number, 1 to 16"},
    {{"FLOAT32_PRECISION", "tf16"},
     "kernel option FLOAT32_PRECISION is `tf16`, expected ieee, tf32 or "
     "tf32x3"},
    {{"PRESCALE_QK", "yes"},
     "kernel option PRESCALE_QK is `yes`, expected true or false"},
    {{"BLOCK_M", NULL},
     "tilec_attention_plan: a kernel option has no name or no value"},
};

START_TEST(kernel_options_that_are_wrong)
{
    const struct wrong_option *w = &wrong_options[_i];
    tilec_attention *a;
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.kernel_options = &w->given;
    o.nkernel_options = 1;
    ck_assert_int_eq(plan_with(&o, &a), TILEC_USAGE);
    ck_assert_ptr_null(a);
    ck_assert_str_eq(tilec_diagnostics(cx)->message, w->message);
}
END_TEST

/* All kernels have the score function, and each is compiled by itself. */
START_TEST(warnings_are_said_once)
{
    tilec_source source =
        tilec_text("wrapping.tile",
                   "func @wrapping(%score: f32, %b: i32, %h: i32, %q: i32, "
                   "%k: i32, %t: tensor<[?] x f32>) -> f32 {\n"
                   "  return %score + %t[(%q * 70000) / 2]\n}\n",
                   0);
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.score = "wrapping";
    o.sources = &source;
    o.nsources = 1;
    tilec_attention *a = plan(&o);
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(d->severity, TILEC_WARNING);
    ck_assert_uint_eq(d->line, 2);
    ck_assert_str_eq(d->message,
                     "index 0 of %t, (%q * 70000) / 2, reads element 192902984 "
                     "for %b = 1, %h = 1, %q = 1048575, %k = 0, as an int "
                     "wraps there: compute it in 64 bits");
    ck_assert_ptr_null(d->next);
    tilec_attention_free(a);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gradients");
    TCase *c = tcase_create("gradients");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, gradients_are_slopes);
    tcase_add_test(c, captured_gradients);
    tcase_add_test(c, sinks);
    tcase_add_test(c, strides_of_any_order);
    tcase_add_test(c, deterministic_bits);
    tcase_add_test(c, workspace);
    tcase_add_test(c, workspace_of_captured_gradients);
    tcase_add_test(c, calls_that_are_wrong);
    tcase_add_test(c, kernel_options);
    tcase_add_test(c, warnings_are_said_once);
    tcase_add_loop_test(c, kernel_options_that_are_wrong, 0,
                        sizeof wrong_options / sizeof *wrong_options);
    suite_add_tcase(s, c);
    return run_suite(s);
}
