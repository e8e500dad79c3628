/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: where the tensors of a workspace lie, what a launch does in which
 * order, what each failure says. On the CPU, and on a driver that records what
 * it is asked (test/fake).
 */
#define _GNU_SOURCE
#include "lib/program/plan.h"

#include "lib/gpu/gpu.h"
#include "test/fake/cuda.h"
#include "test/unit/run.h"

#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Memory ---- */

static uint64_t state = 7;

static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static bool overlap(const tc_piece *a, const tc_piece *b)
{
    bool in_time = a->first <= b->last && b->first <= a->last;
    return a->is_used && b->is_used && in_time &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

START_TEST(pieces_in_use_together_lie_apart)
{
    enum { MOST = 12 };
    unsigned wrong = 0;
    uint64_t shared = 0;
    for (unsigned turn = 0; turn < 2000; turn++) {
        tc_piece p[MOST];
        unsigned n = draw(MOST + 1);
        uint64_t sum = 0, end = 0;
        for (unsigned i = 0; i < n; i++) {
            unsigned first = draw(10);
            p[i] = (tc_piece){.is_used = draw(8) > 0,
                              .first = first,
                              .last = first + draw(4),
                              .bytes = draw(5) ? draw(5000) : 0,
                              .align = 256u << draw(3)};
            sum += p[i].is_used ? p[i].bytes + p[i].align : 0;
        }
        uint64_t total = tc_pieces_place(p, n);
        for (unsigned i = 0; i < n; i++) {
            for (unsigned k = 0; k < i; k++)
                wrong += overlap(&p[i], &p[k]);
            wrong += p[i].offset % p[i].align != 0;
            if (p[i].is_used && p[i].offset + p[i].bytes > end)
                end = p[i].offset + p[i].bytes;
        }
        wrong += total != end || total > sum;
        shared += sum - total;
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_gt(shared, 0);
}
END_TEST

START_TEST(pieces_share_what_is_free_again)
{
    tc_piece p[] = {{true, 1, 3, 4096, 256, 0},
                    {true, 2, 5, 2048, 256, 0},
                    {true, 4, 6, 2048, 256, 0},
                    {false, 0, 0, 1 << 20, 256, 0}};
    ck_assert_uint_eq(tc_pieces_place(p, 4), 6144);
    ck_assert_uint_eq(p[0].offset, 0);
    ck_assert_uint_eq(p[1].offset, 4096);
    ck_assert_uint_eq(p[2].offset, 0);
}
END_TEST

/* ---- Plans ---- */

static const char text[] =
    "kernel @twice[BM: int = 16](%x: tensor<[?] x f32>, %y: tensor<[?] x "
    "f32>,\n"
    "                            %by: f32) grid {\n"
    "  assert size(%x, 0) == size(%y, 0), \"x and y differ\"\n"
    "  yield cdiv(size(%x, 0), BM)\n"
    "} {\n"
    "  %at = program_id(0) * BM\n"
    "  %v = load %x[%at +: BM] boundary(0)\n"
    "  store %y[%at +: BM], %v * %by boundary(0)\n"
    "}\n"
    "plan @chain[BM: int = 16](%x: tensor<[?] x f32>, %y: tensor<[?] x f32>,\n"
    "                          %n: i32, %long: i32) {\n"
    "  assert %n > 0, \"n must be positive\"\n"
    "  %a = workspace size(%x, 0) : tensor<[?] x f32>\n"
    "  %b = workspace size(%x, 0) align(1024) : tensor<[?] x f32>\n"
    "  %c = workspace %n, size(%b, 0) : tensor<[?, ?] x i16>\n"
    "  fill %c value(-2)\n"
    "  launch @twice(%x, %a, 2.0)\n"
    "  if %long != 0 {\n"
    "    launch @twice[BM=BM](%a, %b, 3.0)\n"
    "    fill %a value(1)\n"
    "    launch @twice(%b, %y, 5)\n"
    "  } else {\n"
    "    launch @twice(%a, %y, cast(%n, f32))\n"
    "  }\n"
    "}\n"
    "plan @gaps(%x: tensor<[?, ?] x f32>, %y: tensor<[?] x f32>) {\n"
    "  fill %x\n"
    "  launch @twice(%y, %y, 1.0)\n"
    "}\n"
    "plan @empty(%x: tensor<[?] x f32>) { fill %x }\n"
    "plan @ordered(%x: tensor<[?] x f32>, %n: i32) {\n"
    "  %a = workspace %n, %n, %n order(0, 2, 1) : tensor<[?, ?, ?] x f64>\n"
    "  assert stride(%a, 1) == 1 and stride(%a, 2) == cast(%n, i64) and\n"
    "    stride(%a, 0) == cast(%n * %n, i64), \"not so\"\n"
    "  %b = workspace %n, %n : tensor<[?, 8, ?] x f32, contiguous(0)>\n"
    "  assert stride(%b, 0) == 1 and stride(%b, 2) == cast(%n, i64) and\n"
    "    stride(%b, 1) == cast(%n * %n, i64), \"not so either\"\n"
    "  %c = workspace %n, %n : tensor<[?, ?] x i8, contiguous(0)>\n"
    "  assert stride(%c, 1) == cast(cdiv(%n, 16) * 16, i64), \"no gaps\"\n"
    "  fill %c value(3)\n"
    "  launch @twice(%x, %x, 1.0)\n"
    "  fill %a\n"
    "}\n";

static tilec_context *cx;
static tilec_error error;
static fake_cuda_state *fake;
static char folder[64];

static void set_up(void)
{
    void *handle = dlopen(FAKE_CUDA, RTLD_NOW);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    fake = dlsym(handle, "fake_cuda");
    fake_cuda_reset_fn *reset;
    *(void **)&reset = dlsym(handle, "fake_cuda_reset");
    reset();
    strcpy(folder, "/tmp/tilec-plan-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cuda_library = FAKE_CUDA;
    o.cache_folder = folder;
    ck_assert_int_eq(tilec_context_new(&o, &cx), TILEC_OK);
}

static void tear_down(void)
{
    size_t n;
    tc_cache cache = {.folder = folder};
    tilec_context_free(cx);
    tc_cache_clear(&cache, &n);
    rmdir(folder);
}

static tilec_status compile_as(const char *name, const char *target,
                               tilec_kernel **k)
{
    tilec_source source = tilec_text("test.tile", text, 0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.kernel = name;
    o.target = target;
    return tilec_compile(cx, &source, 1, &o, k);
}

static tilec_kernel *compile(const char *name, const char *target)
{
    tilec_kernel *k;
    tilec_status s = compile_as(name, target, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    return k;
}

enum { N = 300 };
static float in[N], out[N];
static int64_t length = N;

static DLTensor vector(void *data, DLDeviceType device)
{
    return (DLTensor){.data = data,
                      .device = {device, 0},
                      .ndim = 1,
                      .dtype = {kDLFloat, 32, 1},
                      .shape = &length};
}

static uint64_t workspace_of(const tilec_kernel *k, int n, int is_long)
{
    DLTensor x = vector(NULL, kDLCPU);
    tilec_argument args[] = {tilec_tensor("x", &x), tilec_int("n", n),
                             tilec_int("long", is_long)};
    uint64_t bytes = 1;
    ck_assert_int_eq(
        tilec_kernel_workspace(k, args, is_long < 0 ? 2 : 3, &bytes, &error),
        TILEC_OK);
    return bytes;
}

static tilec_status run(const tilec_kernel *k, int n, int is_long,
                        void *workspace, uint64_t bytes)
{
    DLTensor x = vector(in, kDLCPU), y = vector(out, kDLCPU);
    tilec_argument args[] = {tilec_tensor("x", &x), tilec_tensor("y", &y),
                             tilec_int("n", n), tilec_int("long", is_long)};
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.workspace = workspace;
    o.workspace_bytes = bytes;
    return tilec_launch(k, args, 4, &o, &error);
}

static void check_refused(tilec_status got, tilec_status wanted,
                          const char *message)
{
    ck_assert_int_eq(got, wanted);
    ck_assert_str_eq(error.message, message);
}

/* 300 floats are 1200 bytes, rounded up to 1280 or (1024) 2048. c: n x 600. */
START_TEST(workspace_by_use)
{
    tilec_kernel *k = compile("chain", "cpu");
    /* c is filled, then free again; a lies after nothing. */
    ck_assert_uint_eq(workspace_of(k, 1, 0), 1200 + 768);
    /* a and b at once: b at 0 or 2048. */
    uint64_t both = workspace_of(k, 1, 1);
    ck_assert_uint_ge(both, 2 * 1200);
    ck_assert_uint_le(both, 2048 + 1200 + 768);
    ck_assert_uint_ge(workspace_of(k, 100, 0), 60000);
    /* Which branch is not known: room for either. */
    ck_assert_uint_eq(workspace_of(k, 1, -1), both);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(launches_in_order)
{
    tilec_kernel *k = compile("chain", "cpu");
    uint64_t bytes = workspace_of(k, 3, 1);
    char *room = aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset(room, 0xff, bytes);
    for (int i = 0; i < N; i++)
        in[i] = (float)i;
    ck_assert_int_eq(run(k, 3, 1, room, bytes), TILEC_OK);
    int wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += out[i] != 30.0f * (float)i;
    ck_assert_int_eq(run(k, 3, 0, room, bytes), TILEC_OK);
    for (int i = 0; i < N; i++)
        wrong += out[i] != 6.0f * (float)i;
    ck_assert_int_eq(wrong, 0);
    free(room);
    tilec_kernel_free(k);
}
END_TEST

/* Like the one before it or not: by numbers, sizes, and after a refusal. */
START_TEST(launches_one_after_another)
{
    static const struct {
        int n, is_long, length;
    } turns[] = {{3, 1, N},  {3, 1, N},   {3, 0, N},  {5, 0, N},  {5, 0, 70},
                 {5, 0, 70}, {-1, 0, 70}, {5, 0, 70}, {5, 1, 70}, {5, 1, N}};
    tilec_kernel *k = compile("chain", "cpu");
    uint64_t bytes = workspace_of(k, 5, -1);
    char *rooms = aligned_alloc(256, 2 * ((bytes + 255) / 256 * 256));
    for (int i = 0; i < N; i++)
        in[i] = (float)i;
    for (unsigned t = 0; t < sizeof turns / sizeof *turns; t++) {
        char *room = rooms + (t % 2 ? (bytes + 255) / 256 * 256 : 0);
        int n = turns[t].n, wrong = 0;
        length = turns[t].length;
        memset(out, 0, sizeof out);
        ck_assert_int_eq(run(k, n, turns[t].is_long, room, bytes),
                         n > 0 ? TILEC_OK : TILEC_INPUT);
        float by = n < 0 ? 0.0f : turns[t].is_long ? 30.0f : 2.0f * (float)n;
        for (int i = 0; i < N; i++)
            wrong += out[i] != (i < length ? by * (float)i : 0.0f);
        ck_assert_msg(wrong == 0, "turn %u: %d are wrong", t, wrong);
    }
    length = N;
    free(rooms);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(what_a_plan_says_of_itself)
{
    tilec_kernel *k = compile("chain", "cpu");
    ck_assert_str_eq(tilec_kernel_name(k), "chain");
    ck_assert_str_eq(tilec_kernel_binding(k, "BM"), "16");
    ck_assert_uint_eq(tilec_kernel_parameter_count(k), 4);
    ck_assert_int_eq(tilec_kernel_parameter(k, 0)->written, 0);
    ck_assert_int_eq(tilec_kernel_parameter(k, 1)->written, 1);
    /* Three launches, one kernel. */
    ck_assert_str_eq(tilec_kernel_name(tilec_kernel_part(k, 0)), "twice");
    ck_assert_ptr_null(tilec_kernel_part(k, 1));
    ck_assert_ptr_null(tilec_kernel_part(tilec_kernel_part(k, 0), 0));
    char *json, *tile;
    ck_assert_int_eq(tilec_kernel_emit(k, "json", &json, &error), TILEC_OK);
    ck_assert_ptr_nonnull(strstr(json, "\"kernels\""));
    ck_assert_int_eq(tilec_kernel_emit(k, "tile", &tile, &error), TILEC_OK);
    ck_assert_ptr_nonnull(strstr(tile, "plan @chain("));
    ck_assert_ptr_nonnull(strstr(tile, "kernel @twice("));
    tilec_free(json);
    tilec_free(tile);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(refused)
{
    tilec_kernel *k = compile("chain", "cpu");
    uint64_t bytes = workspace_of(k, 3, 0);
    char want[128];
    snprintf(want, sizeof want,
             "@chain needs a workspace of %llu bytes, 0 are given",
             (unsigned long long)bytes);
    check_refused(run(k, 3, 0, NULL, bytes), TILEC_USAGE, want);
    char *room = aligned_alloc(256, 8192);
    snprintf(want, sizeof want,
             "@chain needs a workspace of %llu bytes, %llu are given",
             (unsigned long long)bytes, (unsigned long long)bytes - 1);
    check_refused(run(k, 3, 0, room, bytes - 1), TILEC_USAGE, want);
    check_refused(run(k, 3, 0, room + 128, bytes), TILEC_USAGE,
                  "the workspace of @chain is not aligned to 256 bytes");
    check_refused(
        run(k, 0, 0, room, bytes), TILEC_INPUT,
        "launch of @chain: n must be positive: found 0, expected more than "
        "0");
    ck_assert_uint_eq(error.line, 12);
    ck_assert_str_eq(error.file, "test.tile");
    free(room);
    tilec_argument missing[] = {tilec_int("n", 3)};
    check_refused(tilec_kernel_workspace(k, missing, 1, &bytes, &error),
                  TILEC_USAGE,
                  "the workspace of @chain depends on an argument that is not "
                  "given");
    tilec_argument unknown[] = {tilec_int("m", 3)};
    check_refused(tilec_kernel_workspace(k, unknown, 1, &bytes, &error),
                  TILEC_USAGE, "@chain has no parameter `m`");
    check_refused(tilec_kernel_workspace(k, NULL, 1, &bytes, &error),
                  TILEC_USAGE, "tilec_kernel_workspace: an argument is NULL");
    int32_t grid[3];
    check_refused(tilec_kernel_grid(k, NULL, 0, grid, &error), TILEC_USAGE,
                  "@chain is a plan: its kernels have a grid each");
    char *emitted;
    check_refused(tilec_kernel_emit(k, "ptx", &emitted, &error), TILEC_USAGE,
                  "a plan for target cpu cannot emit `ptx`, only tile, "
                  "schedule, json, llvm, llvm-opt and asm");
    tilec_kernel_free(k);
}
END_TEST

START_TEST(too_large)
{
    tilec_kernel *k = compile("ordered", "cpu");
    DLTensor x = vector(in, kDLCPU);
    uint64_t bytes;
    tilec_argument args[] = {tilec_tensor("x", &x), tilec_int("n", 40)};
    ck_assert_int_eq(tilec_kernel_workspace(k, args, 2, &bytes, &error),
                     TILEC_OK);
    ck_assert_uint_eq(bytes, 8 * 40 * 40 * 40);
    args[1].i = 2000000000;
    check_refused(tilec_kernel_workspace(k, args, 2, &bytes, &error),
                  TILEC_INPUT,
                  "launch of @ordered: a tensor of its workspace is too large");
    args[1].i = -1;
    check_refused(tilec_kernel_workspace(k, args, 2, &bytes, &error),
                  TILEC_INPUT,
                  "launch of @ordered: dim 0 of a tensor of its workspace is "
                  "-1");
    tilec_kernel_free(k);
}
END_TEST

static tilec_status fill_matrix(const tilec_kernel *k, int64_t *strides)
{
    static float m[64];
    int64_t shape[2] = {4, 8};
    DLTensor x = vector(m, kDLCPU), y = vector(out, kDLCPU);
    x.ndim = 2;
    x.shape = shape;
    x.strides = strides;
    for (int i = 0; i < 64; i++)
        m[i] = 1;
    tilec_argument args[] = {tilec_tensor("x", &x), tilec_tensor("y", &y)};
    tilec_status s = tilec_launch(k, args, 2, NULL, &error);
    float sum = 0;
    for (int i = 0; i < 64; i++)
        sum += m[i];
    ck_assert_msg(sum == (s == TILEC_OK ? 32 : 64), "%g: %s", sum,
                  error.message);
    return s;
}

START_TEST(fills_what_is_dense)
{
    tilec_kernel *k = compile("gaps", "cpu");
    ck_assert_int_eq(fill_matrix(k, NULL), TILEC_OK);
    ck_assert_int_eq(fill_matrix(k, (int64_t[]){1, 4}), TILEC_OK);
    check_refused(
        fill_matrix(k, (int64_t[]){16, 1}), TILEC_INPUT,
        "launch of @gaps: fill: %x has gaps, expected a dense tensor");
    ck_assert_uint_eq(error.line, 27);
    check_refused(
        fill_matrix(k, (int64_t[]){0, 1}), TILEC_INPUT,
        "launch of @gaps: fill: %x has gaps, expected a dense tensor");
    tilec_kernel_free(k);
}
END_TEST

static void check_compile_error(const char *name, const char *message)
{
    tilec_kernel *k = (tilec_kernel *)(uintptr_t)1;
    ck_assert_int_ne(compile_as(name, "cpu", &k), TILEC_OK);
    ck_assert_ptr_null(k);
    ck_assert_str_eq(tilec_diagnostics(cx)->message, message);
}

START_TEST(which_plan)
{
    check_compile_error(NULL, "there are several kernels, name one: @twice, "
                              "@chain, @gaps, @empty, @ordered");
    check_compile_error("empty", "@empty launches no kernel");
    check_compile_error("chian",
                        "there is no kernel @chian; did you mean @chain?");
}
END_TEST

/* A plan whose kernel does not compile says so with the kernel's place. */
START_TEST(errors_of_kernels)
{
    tilec_source source =
        tilec_text("k.tile",
                   "kernel @k(%x: tensor<[?] x f32>) warps(3) grid(1) { }\n"
                   "plan @p(%x: tensor<[?] x f32>) { launch @k(%x) }\n",
                   0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_kernel *k;
    o.target = "sm_80";
    ck_assert_int_eq(tilec_compile(cx, &source, 1, &o, &k), TILEC_INPUT);
    ck_assert_uint_eq(tilec_error_count(cx), 1);
    ck_assert_str_eq(tilec_diagnostics(cx)->file, "k.tile");
    ck_assert_uint_eq(tilec_diagnostics(cx)->line, 1);
    ck_assert_ptr_nonnull(strstr(tilec_diagnostics(cx)->message, "3 warps"));
}
END_TEST

/* Of a product of these sides by a kernel with 128x128 tiles. */
static uint64_t sums_of(const tilec_kernel *k, int64_t m, int64_t n, int64_t d)
{
    int64_t shapes[3][2] = {{m, d}, {d, n}, {m, n}};
    DLTensor t[3];
    tilec_argument args[3];
    uint64_t bytes = 1;
    for (int i = 0; i < 3; i++) {
        t[i] = (DLTensor){
            .ndim = 2, .dtype = {kDLBfloat, 16, 1}, .shape = shapes[i]};
        args[i] = tilec_tensor(NULL, &t[i]);
    }
    ck_assert_int_eq(tilec_kernel_workspace(k, args, 3, &bytes, &error),
                     TILEC_OK);
    return bytes / (128 * 128 * sizeof(float));
}

/* split(auto): CTAs share tiles where these are few, and their loops long. */
START_TEST(splits_by_sizes)
{
    tilec_source source = tilec_text("matmul", NULL, 0);
    tilec_binding bindings[] = {{"T", "bf16"},
                                {"BM", "128"},
                                {"BN", "128"},
                                {"BK", "64"},
                                {"kernel.split", "auto"}};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_kernel *k;
    o.target = "sm_80";
    o.warps = 8;
    o.bindings = bindings;
    o.nbindings = 5;
    ck_assert_int_eq(tilec_compile(cx, &source, 1, &o, &k), TILEC_OK);
    ck_assert_uint_eq(sums_of(k, 128, 8192, 8192), 3 * 64);
    ck_assert_uint_eq(sums_of(k, 1, 100, 16384), 8);
    ck_assert_uint_eq(sums_of(k, 128, 8192, 256), 0);
    ck_assert_uint_eq(sums_of(k, 8192, 8192, 8192), 0);
    ck_assert_uint_eq(sums_of(k, 128, 0, 8192), 0);
    tilec_kernel_free(k);
}
END_TEST

/* Sums in f16, by a parameter, are not shared. */
START_TEST(splits_no_f16_sums)
{
    tilec_source source = tilec_text("matmul", NULL, 0);
    tilec_binding bindings[] = {{"T", "f16"},  {"TS", "f16"},
                                {"BM", "128"}, {"BN", "128"},
                                {"BK", "64"},  {"kernel.split", "auto"}};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_kernel *k;
    o.target = "sm_80";
    o.warps = 8;
    o.bindings = bindings;
    o.nbindings = 6;
    ck_assert_int_eq(tilec_compile(cx, &source, 1, &o, &k), TILEC_OK);
    ck_assert_uint_eq(sums_of(k, 128, 8192, 8192), 0);
    tilec_kernel_free(k);
}
END_TEST

/* What a launch binds and the kernel has not. */
START_TEST(errors_of_launches)
{
    tilec_source source =
        tilec_text("p.tile",
                   "kernel @k[N: int = 8](%x: tensor<[?] x f32>) grid(N) { }\n"
                   "plan @p(%x: tensor<[?] x f32>) { launch @k[M=3](%x) }\n",
                   0);
    tilec_kernel *k;
    ck_assert_int_eq(tilec_compile(cx, &source, 1, NULL, &k), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "launch: @k has no compile-time parameter `M`");
    ck_assert_uint_eq(tilec_diagnostics(cx)->line, 2);
}
END_TEST

/* Out of memory anywhere: a status, and nothing is lost. */
START_TEST(out_of_memory)
{
    tilec_kernel *k = NULL;
    tilec_status s = TILEC_MACHINE;
    for (size_t n = 1; s != TILEC_OK && n < 2000000; n += n / 2 + 1) {
        cx->memory.fail_after = n;
        s = compile_as("chain", "cpu", &k);
        ck_assert(s == TILEC_OK || s == TILEC_MACHINE);
    }
    cx->memory.fail_after = 0;
    ck_assert_int_eq(s, TILEC_OK);
    tilec_kernel_free(k);
}
END_TEST

/* ---- On a GPU ---- */

START_TEST(fills_and_launches_in_the_stream)
{
    tilec_kernel *k = compile("chain", "sm_80");
    static char room[8192] __attribute__((aligned(1024)));
    static float device_in[N], device_out[N];
    DLTensor x = vector(device_in, kDLCUDA), y = vector(device_out, kDLCUDA);
    tilec_argument args[] = {tilec_tensor("x", &x), tilec_tensor("y", &y),
                             tilec_int("n", 2), tilec_int("long", 1)};
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.workspace = room;
    o.workspace_bytes = sizeof room;
    o.stream = &fake->frees;
    fake->sets = fake->launches = 0;
    ck_assert_int_eq(tilec_launch(k, args, 4, &o, &error), TILEC_OK);
    ck_assert_int_eq(fake->launches, 3);
    ck_assert_int_eq(fake->sets, 2);
    ck_assert_ptr_eq(fake->stream, &fake->frees);
    ck_assert_ptr_eq(fake->set_stream, &fake->frees);
    ck_assert_uint_eq(fake->set_width, 4); /* the last one: a, of 1.0 */
    ck_assert_uint_eq(fake->set_count, N);
    int ones = 0;
    for (size_t i = 0; i < sizeof room / 4; i++)
        ones += ((float *)room)[i] == 1.0f;
    ck_assert_int_eq(ones, N);
    /* The same when a graph captures it. */
    fake->capturing = 1;
    fake->launches = 0;
    ck_assert_int_eq(tilec_launch(k, args, 4, &o, &error), TILEC_OK);
    ck_assert_int_eq(fake->launches, 3);
    ck_assert_int_eq(fake->capturing, 1);
    fake->capturing = 0;
    tilec_kernel_free(k);
}
END_TEST

START_TEST(kernels_come_from_the_cache)
{
    tilec_kernel_free(compile("chain", "sm_80"));
    tilec_context *other;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cuda_library = FAKE_CUDA;
    o.cache_folder = folder;
    ck_assert_int_eq(tilec_context_new(&o, &other), TILEC_OK);
    tilec_context *mine = cx;
    cx = other;
    int links = fake->links;
    tilec_kernel *k = compile("chain", "sm_80");
    ck_assert_int_eq(fake->links, links);
    ck_assert_int_eq(tilec_kernel_load(k, 0, &error), TILEC_OK);
    ck_assert_int_eq(tilec_kernel_synchronize(k, NULL, &error), TILEC_OK);
    tilec_resources r = TILEC_INIT(tilec_resources);
    check_refused(tilec_kernel_resources(k, &r, &error), TILEC_USAGE,
                  "@chain is a plan: ask its kernels (tilec_kernel_part)");
    ck_assert_int_eq(
        tilec_kernel_resources(tilec_kernel_part(k, 0), &r, &error), TILEC_OK);
    tilec_kernel_free(k);
    cx = mine;
    tilec_context_free(other);
}
END_TEST

START_TEST(wide_fills)
{
    tilec_source source =
        tilec_text("wide.tile",
                   "kernel @k(%x: tensor<[?] x f64>) grid(0) { }\n"
                   "plan @p(%x: tensor<[?] x f64>, %y: tensor<[?] x i64>) {\n"
                   "  fill %y value(-1)\n"
                   "  fill %x value(1)\n"
                   "  launch @k(%x)\n"
                   "}\n",
                   0);
    static double d[4];
    static int64_t i64[4];
    int64_t four = 4;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_kernel *k;
    o.target = "sm_80";
    ck_assert_int_eq(tilec_compile(cx, &source, 1, &o, &k), TILEC_OK);
    DLTensor x = vector(d, kDLCUDA), y = vector(i64, kDLCUDA);
    x.shape = y.shape = &four;
    x.dtype.bits = y.dtype.bits = 64;
    y.dtype.code = kDLInt;
    tilec_argument args[] = {tilec_tensor(NULL, &x), tilec_tensor(NULL, &y)};
    check_refused(tilec_launch(k, args, 2, NULL, &error), TILEC_USAGE,
                  "fill: a GPU repeats 4 bytes, and the two halves of this "
                  "8-byte number differ");
    ck_assert_int_eq(i64[3], -1);
    tilec_kernel_free(k);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plan");
    TCase *memory = tcase_create("memory"), *plans = tcase_create("plans");
    tcase_add_test(memory, pieces_in_use_together_lie_apart);
    tcase_add_test(memory, pieces_share_what_is_free_again);
    tcase_add_checked_fixture(plans, set_up, tear_down);
    tcase_add_test(plans, workspace_by_use);
    tcase_add_test(plans, launches_in_order);
    tcase_add_test(plans, launches_one_after_another);
    tcase_add_test(plans, what_a_plan_says_of_itself);
    tcase_add_test(plans, refused);
    tcase_add_test(plans, too_large);
    tcase_add_test(plans, fills_what_is_dense);
    tcase_add_test(plans, which_plan);
    tcase_add_test(plans, errors_of_kernels);
    tcase_add_test(plans, errors_of_launches);
    tcase_add_test(plans, splits_by_sizes);
    tcase_add_test(plans, splits_no_f16_sums);
    tcase_add_test(plans, out_of_memory);
    tcase_add_test(plans, fills_and_launches_in_the_stream);
    tcase_add_test(plans, kernels_come_from_the_cache);
    tcase_add_test(plans, wide_fills);
    suite_add_tcase(s, memory);
    suite_add_tcase(s, plans);
    return run_suite(s);
}
