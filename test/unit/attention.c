/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention interface: its messages, and that mods, captured values,
 * strides and grouped heads arrive where they should. (Accuracy is tested in
 * test/numerics.)
 */
#include "lib/handles.h"
#include "test/unit/run.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, HQ = 4, HK = 2, M = 21, N = 37, D = 24, DV = 16 };

typedef struct inputs {
    float q[B * HQ * M * D], k[B * HK * N * D], v[B * HK * N * DV];
    float o[B * HQ * M * DV], lse[B * HQ * M];
    int64_t shape[5][4];
    DLTensor dl[5];
} inputs;

static tilec_context *cx;
static inputs in;

static void set_tensor(int i, float *data, int64_t heads, int64_t length,
                       int64_t dim)
{
    in.shape[i][0] = B;
    in.shape[i][1] = heads;
    in.shape[i][2] = length;
    in.shape[i][3] = dim;
    in.dl[i] = (DLTensor){.data = data,
                          .device = {kDLCPU, 0},
                          .ndim = dim ? 4 : 3,
                          .dtype = {kDLFloat, 32, 1},
                          .shape = in.shape[i]};
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
    randomize(in.q, sizeof in.q / sizeof *in.q);
    randomize(in.k, sizeof in.k / sizeof *in.k);
    randomize(in.v, sizeof in.v / sizeof *in.v);
    set_tensor(0, in.q, HQ, M, D);
    set_tensor(1, in.k, HK, N, D);
    set_tensor(2, in.v, HK, N, DV);
    set_tensor(3, in.o, HQ, M, DV);
    set_tensor(4, in.lse, HQ, M, 0);
}

static void tear_down(void)
{
    tilec_context_free(cx);
}

static tilec_attention *plan(const char *mask, const char *score, double scale)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.mask = mask;
    o.score = score;
    o.scale = scale;
    tilec_attention *a;
    tilec_status s =
        tilec_attention_plan(cx, &in.dl[0], &in.dl[1], &in.dl[2], &o, &a);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    return a;
}

static tilec_attention_tensors all_tensors(void)
{
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = &in.dl[0];
    t.k = &in.dl[1];
    t.v = &in.dl[2];
    t.o = &in.dl[3];
    t.lse = &in.dl[4];
    return t;
}

static void forward(const tilec_attention *a, const tilec_attention_tensors *t)
{
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_status s = tilec_attention_forward(a, t, NULL, &e);
    ck_assert_msg(s == TILEC_OK, "%s", s == TILEC_OK ? "" : e.message);
}

typedef bool mask_fn(int b, int h, int q, int k);
typedef double score_fn(double s, int b, int h, int q, int k);

/* One row of the definition, in double; returns the logsumexp. */
static double reference(double scale, mask_fn *mask, score_fn *score, int b,
                        int h, int q, double out[DV])
{
    const float *x = in.q + ((b * HQ + h) * M + q) * D;
    int g = h / (HQ / HK);
    double s[N], top = -INFINITY, sum = 0;
    for (int k = 0; k < N; k++) {
        const float *y = in.k + ((b * HK + g) * N + k) * D;
        s[k] = 0;
        for (int d = 0; d < D; d++)
            s[k] += (double)x[d] * (double)y[d];
        s[k] *= scale;
        if (score)
            s[k] = score(s[k], b, h, q, k);
        if (mask && !mask(b, h, q, k))
            s[k] = -INFINITY;
        top = fmax(top, s[k]);
    }
    for (int d = 0; d < DV; d++)
        out[d] = 0;
    if (top == -INFINITY)
        return top;
    for (int k = 0; k < N; k++) {
        double p = exp(s[k] - top);
        sum += p;
        for (int d = 0; d < DV; d++)
            out[d] += p * (double)in.v[((b * HK + g) * N + k) * DV + d];
    }
    for (int d = 0; d < DV; d++)
        out[d] /= sum;
    return top + log(sum);
}

static void expect(double scale, mask_fn *mask, score_fn *score)
{
    for (int row = 0; row < B * HQ * M; row++) {
        double out[DV];
        double lse = reference(scale, mask, score, row / (HQ * M), row / M % HQ,
                               row % M, out);
        for (int d = 0; d < DV; d++)
            ck_assert_double_eq_tol(in.o[row * DV + d], out[d], 2e-5);
        if (lse == -INFINITY)
            ck_assert(in.lse[row] == -INFINITY);
        else
            ck_assert_double_eq_tol(in.lse[row], lse, 2e-5);
    }
}

START_TEST(computes_attention)
{
    tilec_attention *a = plan(NULL, NULL, 0);
    tilec_attention_tensors t = all_tensors();
    forward(a, &t);
    expect(1 / sqrt(D), NULL, NULL);
    /* Without a place for the logsumexp. */
    memset(in.o, 0, sizeof in.o);
    t.lse = NULL;
    forward(a, &t);
    expect(1 / sqrt(D), NULL, NULL);
    ck_assert_str_eq(tilec_kernel_binding(tilec_attention_kernel(a), "D"),
                     "24");
    tilec_attention_free(a);
    a = plan(NULL, NULL, (double)NAN);
    forward(a, &t);
    tilec_attention_free(a);
    a = plan(NULL, NULL, 0.5);
    t.lse = &in.dl[4];
    forward(a, &t);
    expect(0.5, NULL, NULL);
    tilec_attention_free(a);
}
END_TEST

static bool in_window(int b, int h, int q, int k)
{
    return k <= q && q - k < 5;
}

static bool in_wide_window(int b, int h, int q, int k)
{
    return k <= q && q - k < 11;
}

static bool between_windows(int b, int h, int q, int k)
{
    return in_wide_window(b, h, q, k) && !in_window(b, h, q, k);
}

static bool to_the_right(int b, int h, int q, int k)
{
    return k <= q + (N - M);
}

START_TEST(masks_by_expression)
{
    static const struct {
        const char *text;
        mask_fn *mask;
    } cases[] = {
        {"sliding_window(w=5)", in_window},
        {"causal & sliding_window(w=5)", in_window},
        {"sliding_window(w=5) | sliding_window(w=5)", in_window},
        {"!!sliding_window(w=5)", in_window},
        {"sliding_window(w=5) | sliding_window(w=11)", in_wide_window},
        {"sliding_window(w=11) & !sliding_window(w=5)", between_windows},
        {"!(sliding_window(w=5) | !sliding_window(w=11))", between_windows},
        {"causal_bottom_right", to_the_right}};
    tilec_attention_tensors t = all_tensors();
    tilec_attention *a = plan(cases[_i].text, NULL, 0);
    forward(a, &t);
    expect(1 / sqrt(D), cases[_i].mask, NULL);
    tilec_attention_free(a);
}
END_TEST

static double cap_then_distance(double s, int b, int h, int q, int k)
{
    return 3 * tanh(s / 3) + (q - k);
}

static double distance_then_cap(double s, int b, int h, int q, int k)
{
    return 3 * tanh((s + (q - k)) / 3);
}

START_TEST(scores_apply_in_turn)
{
    tilec_attention_tensors t = all_tensors();
    tilec_attention *a = plan(NULL, "soft_cap(cap=3), relative_bias", 0);
    forward(a, &t);
    expect(1 / sqrt(D), NULL, cap_then_distance);
    tilec_attention_free(a);
    a = plan(NULL, "relative_bias, soft_cap(cap=3.0)", 0);
    forward(a, &t);
    expect(1 / sqrt(D), NULL, distance_then_cap);
    tilec_attention_free(a);
}
END_TEST

/* With a sliding window of which every other row is asked for, with strides. */
START_TEST(gives_the_largest_scores)
{
    static float max[2 * B * HQ * M];
    int64_t shape[] = {B, HQ, M}, strides[] = {2 * HQ * M, 2 * M, 2};
    DLTensor d = in.dl[4];
    d.data = max;
    d.shape = shape;
    d.strides = strides;
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.mask = "sliding_window(w=5)";
    o.score = "relative_bias";
    o.max = 1;
    o.backward = 1;
    tilec_attention *a;
    ck_assert_int_eq(
        tilec_attention_plan(cx, &in.dl[0], &in.dl[1], &in.dl[2], &o, &a),
        TILEC_OK);
    tilec_attention_tensors t = all_tensors();
    forward(a, &t); /* may be left out */
    t.max = &d;
    t.lse = NULL;
    memset(in.o, 0, sizeof in.o);
    forward(a, &t);
    for (int row = 0; row < B * HQ * M; row++) {
        int q = row % M, h = row / M % HQ, b = row / (HQ * M);
        double want = -INFINITY;
        for (int k = 0; k < N; k++) {
            const float *x = in.q + row * D;
            const float *y = in.k + ((b * HK + h / (HQ / HK)) * N + k) * D;
            double s = 0;
            for (int i = 0; i < D; i++)
                s += (double)x[i] * (double)y[i];
            if (in_window(b, h, q, k))
                want = fmax(want, s / sqrt(D) + (q - k));
        }
        ck_assert_float_eq(max[2 * row + 1], 0);
        if (want == -INFINITY)
            ck_assert(max[2 * row] == -INFINITY);
        else
            ck_assert_double_eq_tol(max[2 * row], want, 2e-5);
    }
    tilec_attention_free(a);
}
END_TEST

static bool same_document(int b, int h, int q, int k)
{
    return (q >= 9) == (k >= 9) && (q >= 15) == (k >= 15);
}

START_TEST(captured_by_name)
{
    int32_t offsets[] = {0, 9, 15};
    int64_t n = 3;
    DLTensor d = {.data = offsets,
                  .device = {kDLCPU, 0},
                  .ndim = 1,
                  .dtype = {kDLInt, 32, 1},
                  .shape = &n};
    static const char *const names[] = {"offsets", "mask.offsets"};
    tilec_attention_tensors t = all_tensors();
    tilec_attention *a = plan("document", NULL, 0);
    for (int i = 0; i < 2; i++) {
        tilec_argument captured = tilec_tensor(names[i], &d);
        t.captured = &captured;
        t.ncaptured = 1;
        memset(in.o, 0, sizeof in.o);
        forward(a, &t);
        expect(1 / sqrt(D), same_document, NULL);
    }
    tilec_attention_free(a);
    /* A value of the expression can be given anew. */
    a = plan("sliding_window(w=3)", NULL, 0);
    tilec_argument w = tilec_int("w", 5);
    t.captured = &w;
    forward(a, &t);
    expect(1 / sqrt(D), in_window, NULL);
    tilec_attention_free(a);
}
END_TEST

/* Of all weights none, about half, or all are dropped; the same seed drops the
 * same ones. */
START_TEST(drops_weights)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention_tensors t = all_tensors();
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_attention *a;
    o.dropout = 1;
    ck_assert_int_eq(
        tilec_attention_plan(cx, &in.dl[0], &in.dl[1], &in.dl[2], &o, &a),
        TILEC_OK);
    ck_assert_int_eq(tilec_attention_forward(a, &t, NULL, &e), TILEC_USAGE);
    ck_assert_str_eq(e.message,
                     "argument dropout.dropout_seed of @attention_fwd is "
                     "missing: tensor<[1] x i64>, which a mod captures: give "
                     "it by that name");
    int64_t seed = 3, one = 1;
    DLTensor d = {.data = &seed,
                  .device = {kDLCPU, 0},
                  .ndim = 1,
                  .dtype = {kDLInt, 64, 1},
                  .shape = &one};
    tilec_argument args[] = {tilec_tensor("dropout_seed", &d),
                             tilec_float("dropout_p", 0)};
    t.captured = args;
    t.ncaptured = 2;
    forward(a, &t);
    expect(1 / sqrt(D), NULL, NULL);
    args[1] = tilec_float("dropout_p", 0.5);
    float first[B * HQ * M * DV];
    forward(a, &t);
    memcpy(first, in.o, sizeof first);
    seed = 4;
    forward(a, &t);
    ck_assert_mem_ne(first, in.o, sizeof first);
    seed = 3;
    forward(a, &t);
    ck_assert_mem_eq(first, in.o, sizeof first);
    args[1] = tilec_float("dropout_p", 1);
    forward(a, &t);
    for (int i = 0; i < B * HQ * M * DV; i++)
        ck_assert_double_eq(in.o[i], 0);
    tilec_attention_free(a);
}
END_TEST

START_TEST(other_lengths_need_no_other_plan)
{
    tilec_attention *a = plan("causal", NULL, 0);
    tilec_attention_tensors t = all_tensors();
    in.shape[0][2] = in.shape[3][2] = in.shape[4][2] = 1;
    in.shape[0][0] = in.shape[1][0] = in.shape[2][0] = 1;
    in.shape[3][0] = in.shape[4][0] = 1;
    forward(a, &t);
    /* One query that sees one key: o is v. */
    for (int d = 0; d < DV; d++)
        ck_assert_float_eq_tol(in.o[d], in.v[d], 1e-6f);
    tilec_attention_free(a);
}
END_TEST

/* ---- Messages ---- */

static void expect_plan_error(const tilec_attention_options *o,
                              tilec_status status, const char *message)
{
    tilec_attention *a;
    ck_assert_int_eq(
        tilec_attention_plan(cx, &in.dl[0], &in.dl[1], &in.dl[2], o, &a),
        status);
    ck_assert_ptr_null(a);
    ck_assert_str_eq(tilec_diagnostics(cx)->message, message);
}

/* What the configurations say of gradients of bf16 on sm_90a. */
static void expect_gradients(const char *score, int64_t d, int64_t dv,
                             const char *rows, const char *deterministic)
{
    int64_t shapes[3][4] = {{1, 2, 64, d}, {1, 2, 64, d}, {1, 2, 64, dv}};
    DLTensor x[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        x[i] = in.dl[i];
        x[i].dtype = (DLDataType){kDLBfloat, 16, 1};
        x[i].shape = shapes[i];
        x[i].strides = NULL;
    }
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = "sm_90a";
    o.score = score;
    o.backward = o.no_load = o.no_cache = 1;
    tilec_attention *a;
    ck_assert_int_eq(tilec_attention_plan(cx, &x[0], &x[1], &x[2], &o, &a),
                     TILEC_OK);
    const tilec_kernel *k = tilec_attention_backward_kernel(a);
    ck_assert_str_eq(tilec_kernel_binding(k, "BM"), rows);
    ck_assert_str_eq(tilec_kernel_binding(k, "DETERMINISTIC"), deterministic);
    tilec_attention_free(a);
}

/* A slope that depends on the score takes registers. */
START_TEST(gradients_by_scores_and_heads)
{
    expect_gradients(NULL, 64, 64, "128", "0");
    expect_gradients("alibi", 64, 64, "128", "0");
    expect_gradients("soft_cap(cap=30)", 64, 64, "64", "0");
    expect_gradients("alibi, soft_cap(cap=30)", 64, 64, "64", "0");
    expect_gradients(NULL, 192, 128, "48", "1");
}
END_TEST

/* Two query heads, of bf16, on sm_90a. */
static void expect_same_bits(const char *mask, int64_t key_heads,
                             int64_t queries, const char *deterministic)
{
    int64_t shapes[2][4] = {{1, 2, queries, 128}, {1, key_heads, 1024, 128}};
    DLTensor x[2] = {in.dl[0], in.dl[1]};
    for (int i = 0; i < 2; i++) {
        x[i].dtype = (DLDataType){kDLBfloat, 16, 1};
        x[i].shape = shapes[i];
        x[i].strides = NULL;
    }
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = "sm_90a";
    o.mask = mask;
    o.backward = o.deterministic = o.no_load = o.no_cache = 1;
    tilec_attention *a;
    ck_assert_int_eq(tilec_attention_plan(cx, &x[0], &x[1], &x[1], &o, &a),
                     TILEC_OK);
    const tilec_kernel *k = tilec_attention_backward_kernel(a);
    ck_assert_str_eq(tilec_kernel_binding(k, "DETERMINISTIC"), deterministic);
    tilec_attention_free(a);
}

/* 2: in order. */
START_TEST(same_bits_by_masks_and_shared_heads)
{
    expect_same_bits(NULL, 1, 1024, "2");
    expect_same_bits("sliding_window(w=600)", 2, 1024, "2");
    expect_same_bits("sliding_window(w=600)", 1, 1024, "1");
    expect_same_bits("shifted(causal)", 1, 512, "2");
    expect_same_bits("shifted(document_causal)", 1, 512, "1");
}
END_TEST

START_TEST(plan_refuses)
{
    tilec_attention *a = (tilec_attention *)cx;
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    ck_assert_int_eq(tilec_attention_plan(NULL, NULL, NULL, NULL, NULL, &a),
                     TILEC_USAGE);
    ck_assert_ptr_null(a);
    ck_assert_int_eq(tilec_attention_plan(cx, NULL, NULL, NULL, NULL, &a),
                     TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "tilec_attention_plan: q, k or v is NULL");
    o.size = 2;
    expect_plan_error(&o, TILEC_USAGE,
                      "tilec_attention_plan: options have a wrong size: use "
                      "TILEC_INIT");
    o = TILEC_INIT(tilec_attention_options);
    o.nsources = 1;
    expect_plan_error(&o, TILEC_USAGE, "tilec_attention_plan: sources is NULL");
    o = TILEC_INIT(tilec_attention_options);
    tilec_binding b = {NULL, "1"};
    o.bindings = &b;
    o.nbindings = 1;
    expect_plan_error(&o, TILEC_USAGE,
                      "tilec_attention_plan: a binding has no name or no "
                      "value");
    o = TILEC_INIT(tilec_attention_options);
    o.tiles = (tilec_tiles)(TILEC_TILES_DYNAMIC + 1);
    expect_plan_error(&o, TILEC_USAGE,
                      "tilec_attention_plan: enforce is none of "
                      "tilec_enforce, or tiles none of tilec_tiles");
    o = TILEC_INIT(tilec_attention_options);
    o.stages = 17;
    expect_plan_error(&o, TILEC_USAGE,
                      "tilec_attention_plan: expected at most 16 stages, a "
                      "ptxas_level of at most 3");
    o = TILEC_INIT(tilec_attention_options);
    o.target = "vax";
    expect_plan_error(&o, TILEC_USAGE,
                      "there is no target `vax`, expected auto or one of cpu, "
                      "sm_80, sm_86, sm_89, sm_90, sm_90a");
    in.dl[0].ndim = 3;
    expect_plan_error(NULL, TILEC_INPUT,
                      "argument q: rank is 3, expected 4 (batch, heads, "
                      "length, dim)");
    in.dl[0].ndim = 4;
    in.dl[2].shape = NULL;
    expect_plan_error(NULL, TILEC_USAGE, "argument v: shape is NULL");
    in.dl[2].shape = in.shape[2];
    const int64_t length = in.shape[1][2];
    in.shape[1][2] = INT64_MAX;
    expect_plan_error(NULL, TILEC_INPUT,
                      "argument k: dim 2 is 9223372036854775807, expected 0 to "
                      "2147418112");
    in.shape[1][2] = -1;
    expect_plan_error(NULL, TILEC_INPUT,
                      "argument k: dim 2 is -1, expected 0 to 2147418112");
    in.shape[1][2] = length;
    in.shape[0][3] = 0;
    expect_plan_error(NULL, TILEC_INPUT,
                      "argument q: dim 3 is 0, expected 1 to 1024");
    in.shape[0][3] = 32;
    expect_plan_error(NULL, TILEC_INPUT,
                      "argument k: dim 3 is 24, but D is 32 (from q)");
    in.shape[0][3] = D;
    in.dl[0].dtype = (DLDataType){kDLFloat, 64, 1};
    expect_plan_error(NULL, TILEC_INPUT,
                      "argument q: data type is f64, expected f32, f16, bf16, "
                      "f8e4m3 or f8e5m2");
    in.dl[0].dtype = in.dl[2].dtype;
    in.dl[1].dtype = (DLDataType){kDLBfloat, 16, 1};
    expect_plan_error(
        NULL, TILEC_INPUT,
        "argument k: data type is bf16, expected f32 (as q), f8e4m3 "
        "or f8e5m2");
}
END_TEST

/* Where the tiles of narrower heads take more shared memory than there is. */
START_TEST(wide_heads_take_smaller_tiles)
{
    static const struct {
        const char *target;
        DLDataType type;
        int64_t dim;
        const char *rows, *columns;
        bool is_said; /* after others had been tried */
        const char *warps;
    } cases[] = {
        {"sm_86", {kDLBfloat, 16, 1}, 256, "64", "48", true, "warps(4)"},
        {"sm_80", {kDLBfloat, 16, 1}, 512, "32", "32", false, "warps(8)"},
        {"sm_90a", {kDLBfloat, 16, 1}, 512, "128", "64", false, "warps(8)"},
        {"sm_90a", {kDLBfloat, 16, 1}, 1024, "16", "16", false, "warps(16)"},
        {"sm_86", {kDLFloat, 32, 1}, 1024, "8", "8", true, "warps(16)"}};
    tilec_context_options c = TILEC_INIT(tilec_context_options);
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention *a;
    tilec_context_free(cx);
    c.remarks = 1;
    ck_assert_int_eq(tilec_context_new(&c, &cx), TILEC_OK);
    o.target = cases[_i].target;
    o.no_load = o.no_cache = 1;
    for (int i = 0; i < 3; i++) {
        in.shape[i][3] = cases[_i].dim;
        in.dl[i].dtype = cases[_i].type;
    }
    ck_assert_int_eq(
        tilec_attention_plan(cx, &in.dl[0], &in.dl[1], &in.dl[2], &o, &a),
        TILEC_OK);
    const tilec_kernel *k = tilec_attention_kernel(a);
    ck_assert_str_eq(tilec_kernel_binding(k, "BM"), cases[_i].rows);
    ck_assert_str_eq(tilec_kernel_binding(k, "BN"), cases[_i].columns);
    char *text;
    ck_assert_int_eq(tilec_kernel_emit(k, "machine", &text, NULL), TILEC_OK);
    ck_assert_ptr_nonnull(strstr(text, cases[_i].warps));
    tilec_free(text);
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    while (d && !strstr(d->message, "tiles smaller than configured"))
        d = d->next;
    ck_assert_int_eq(d != NULL, cases[_i].is_said);
    tilec_attention_free(a);
}
END_TEST

static DLDataType type_of(const tilec_attention *a, const char *name)
{
    const tilec_kernel *k = tilec_attention_kernel(a);
    for (size_t i = 0, n = tilec_kernel_parameter_count(k); i < n; i++)
        if (strcmp(tilec_kernel_parameter(k, i)->name, name) == 0)
            return tilec_kernel_parameter(k, i)->dtype;
    ck_abort_msg("no parameter %s", name);
}

/* By one kernel, and with lists; also where o is of another type. */
START_TEST(numbers_of_8_bits)
{
    const DLDataType e4m3 = {TILEC_DL_F8E4M3, 8, 1}, f32 = {kDLFloat, 32, 1};
    const tilec_binding bindings[] = {{"descale_k", "@per_batch_head"},
                                      {"TO", "f32"}};
    for (int i = 0; i < 4; i++) {
        tilec_attention *a;
        tilec_attention_options o = TILEC_INIT(tilec_attention_options);
        o.mask = "document";
        o.block_lists = i % 2 ? 1 : -1;
        o.bindings = bindings;
        o.nbindings = 1 + (size_t)(i / 2);
        in.dl[0].dtype = in.dl[1].dtype = in.dl[2].dtype = e4m3;
        ck_assert_int_eq(
            tilec_attention_plan(cx, &in.dl[0], &in.dl[1], &in.dl[2], &o, &a),
            TILEC_OK);
        ck_assert_int_eq(type_of(a, "v").code, e4m3.code);
        ck_assert_int_eq(type_of(a, "o").code, i / 2 ? kDLFloat : kDLBfloat);
        ck_assert_int_eq(type_of(a, "descale_k.scales").bits, 32);
        tilec_attention_free(a);
        in.dl[0].dtype = f32; /* a quantised cache */
        ck_assert_int_eq(
            tilec_attention_plan(cx, &in.dl[0], &in.dl[1], &in.dl[2], &o, &a),
            TILEC_OK);
        ck_assert_int_eq(type_of(a, "o").bits, 32);
        tilec_attention_free(a);
    }
}
END_TEST

static void expect_forward_error(const tilec_attention *a,
                                 const tilec_attention_tensors *t,
                                 tilec_status status, const char *message)
{
    tilec_error e = TILEC_INIT(tilec_error);
    ck_assert_int_eq(tilec_attention_forward(a, t, NULL, &e), status);
    ck_assert_str_eq(e.message, message);
}

START_TEST(forward_refuses)
{
    tilec_attention *a = plan("document & sliding_window", "alibi", 0);
    tilec_attention_tensors t = all_tensors();
    expect_forward_error(NULL, &t, TILEC_USAGE,
                         "tilec_attention_forward: plan or tensors is NULL or "
                         "of a wrong size: use TILEC_INIT");
    t.o = NULL;
    expect_forward_error(a, &t, TILEC_USAGE,
                         "tilec_attention_forward: q, k, v or o is NULL");
    t = all_tensors();
    t.ncaptured = 1;
    expect_forward_error(a, &t, TILEC_USAGE,
                         "tilec_attention_forward: captured is NULL");
    tilec_argument args[2] = {tilec_int("ww", 1), tilec_int("w", 2)};
    t.captured = args;
    expect_forward_error(a, &t, TILEC_USAGE, "no mod captures `ww`");
    args[0].name = NULL;
    expect_forward_error(a, &t, TILEC_USAGE, "captured argument 0 has no name");
    t.captured = args + 1;
    expect_forward_error(a, &t, TILEC_USAGE,
                         "argument score.slopes of @attention_fwd is missing: "
                         "tensor<[?] x f32>, which a mod captures: give it by "
                         "that name");
    tilec_attention_free(a);
    a = plan(NULL, NULL, 0);
    t = all_tensors();
    t.max = t.lse;
    expect_forward_error(a, &t, TILEC_USAGE,
                         "tilec_attention_forward: the plan gives no max: it "
                         "was made without that option");
    t.max = NULL;
    const DLTensor *own = t.o;
    t.o = t.v;
    expect_forward_error(a, &t, TILEC_INPUT,
                         "argument o: overlaps argument v in memory: expected "
                         "memory of its own, as it is written");
    t.o = own;
    in.shape[1][2] = N - 1;
    expect_forward_error(
        a, &t, TILEC_INPUT,
        "launch of @attention_fwd: k and v must have the same "
        "heads and length: size 2 of v: found 37, expected 36");
    tilec_attention_free(a);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("attention");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, computes_attention);
    tcase_add_loop_test(t, masks_by_expression, 0, 8);
    tcase_add_test(t, scores_apply_in_turn);
    tcase_add_test(t, gives_the_largest_scores);
    tcase_add_test(t, captured_by_name);
    tcase_add_test(t, drops_weights);
    tcase_add_test(t, other_lengths_need_no_other_plan);
    tcase_add_test(t, numbers_of_8_bits);
    tcase_add_test(t, same_bits_by_masks_and_shared_heads);
    tcase_add_test(t, gradients_by_scores_and_heads);
    tcase_add_loop_test(t, wide_heads_take_smaller_tiles, 0, 5);
    tcase_add_test(t, plan_refuses);
    tcase_add_test(t, forward_refuses);
    Suite *s = suite_create("attention");
    suite_add_tcase(s, t);
    return run_suite(s);
}
