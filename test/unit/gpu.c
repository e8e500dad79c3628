/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU targets without a GPU: a driver that records what it is asked
 * (test/fake) stands in. What is loaded and when, what a launch hands over,
 * what each failure says.
 */
#define _GNU_SOURCE
#include "lib/gpu.h"
#include "test/fake/cuda.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char scale_text[] =
    "kernel @scale(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>,\n"
    "    %p: ptr<i32>, %by: f32, %half: f16, %wide: f64, %n: i32, %long: i64,\n"
    "    %short: i16, %flag: i1)\n"
    "    grid {\n"
    "      assert size(%x, 0) == size(%y, 0), \"x and y differ\"\n"
    "      yield cdiv(size(%x, 0), 16), %n, 1\n"
    "    }\n"
    "{\n"
    "  %r = program_id(0) * 16\n"
    "  %a = load %x[%r +: 16, 0 +: 16] boundary(0, 1)\n"
    "  store %y[%r +: 16, 0 +: 16], %a * %by boundary(0, 1)\n"
    "}\n";
static const char careful_text[] =
    "kernel @careful(%x: tensor<[?] x f32>) grid(cdiv(size(%x, 0), 16)) {\n"
    "  %r = program_id(0) * 16\n"
    "  assert %r < 100, \"too far\"\n"
    "  store %x[%r +: 16], splat(1.0, tile<16 x f32>) boundary(0)\n"
    "  assert %r < 1000, \"much too far\"\n"
    "}\n";
static const char choosy_text[] =
    "kernel @choosy(%x: tensor<[?, ?] x f32>, %n: i32) aligned(0) grid(1) {\n"
    "  store %x[0 +: 16, 0 +: 16], splat(1.0, tile<16x16 x f32>) boundary(0, "
    "1)\n"
    "}\n";

static fake_cuda_state *fake;
static fake_cuda_reset_fn *fake_reset;
static fake_cuda_use_fn *fake_use;
static tilec_context *cx;
static char folder[64];
static tilec_error error;

static tilec_context *new_context(const char *library)
{
    tilec_context *c;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cuda_library = library;
    o.cache_folder = folder;
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_OK);
    return c;
}

static void set_up(void)
{
    void *handle = dlopen(FAKE_CUDA, RTLD_NOW);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    fake = dlsym(handle, "fake_cuda");
    *(void **)&fake_reset = dlsym(handle, "fake_cuda_reset");
    *(void **)&fake_use = dlsym(handle, "fake_cuda_use");
    fake_reset();
    fake_use(-1, 0);
    strcpy(folder, "/tmp/tilec-gpu-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    cx = new_context(FAKE_CUDA);
}

static void tear_down(void)
{
    size_t n;
    tc_cache cache = {.folder = folder};
    tilec_context_free(cx);
    tc_cache_clear(&cache, &n);
    rmdir(folder);
}

static tilec_status compile_with(tilec_context *c, const char *text,
                                 const tilec_compile_options *options,
                                 tilec_kernel **k)
{
    tilec_source source = {"test.tile", text, 0};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_80";
    return tilec_compile(c, &source, 1, options ? options : &o, k);
}

static tilec_kernel *compile(tilec_context *c, const char *text)
{
    tilec_kernel *k;
    tilec_status s = compile_with(c, text, NULL, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(c)->message);
    return k;
}

static tilec_kernel *compile_unloaded(tilec_context *c, const char *text)
{
    tilec_kernel *k;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_80";
    o.no_load = 1;
    ck_assert_int_eq(compile_with(c, text, &o, &k), TILEC_OK);
    return k;
}

/* A device tensor of no memory to speak of. */
typedef struct matrix {
    DLTensor dl;
    int64_t shape[2], strides[2];
} matrix;

static const DLTensor *make_matrix(matrix *m, int64_t rows, int64_t columns,
                                   uintptr_t address)
{
    *m = (matrix){.shape = {rows, columns}, .strides = {columns, 1}};
    m->dl = (DLTensor){.data = (void *)address,
                       .device = {kDLCUDA, 0},
                       .ndim = 2,
                       .dtype = {kDLFloat, 32, 1},
                       .shape = m->shape,
                       .strides = m->strides};
    return &m->dl;
}

enum { NARGS = 10 };
static void make_args(tilec_argument *a, matrix *x, matrix *y, matrix *p)
{
    make_matrix(x, 40, 24, 0x1000);
    make_matrix(y, 40, 24, 0x2000);
    y->strides[0] = 64;
    make_matrix(p, 1, 1, 0x3000);
    p->dl.dtype.code = kDLInt;
    const tilec_argument args[NARGS] = {
        tilec_tensor(NULL, &x->dl), tilec_tensor(NULL, &y->dl),
        tilec_tensor(NULL, &p->dl), tilec_float(NULL, 2.5),
        tilec_float(NULL, 0.5),     tilec_float(NULL, -3.0),
        tilec_int(NULL, 7),         tilec_int(NULL, 1ll << 40),
        tilec_int(NULL, -2),        tilec_int(NULL, 1)};
    memcpy(a, args, sizeof args);
}

static tilec_status launch_scale(const tilec_kernel *k,
                                 const tilec_launch_options *o)
{
    tilec_argument args[NARGS];
    matrix x, y, p;
    make_args(args, &x, &y, &p);
    return tilec_launch(k, args, NARGS, o, &error);
}

static void expect_says(tilec_status got, tilec_status status,
                        const char *words)
{
    ck_assert_int_eq(got, status);
    ck_assert_msg(strstr(error.message, words) != NULL, "%s", error.message);
}

/* ---- Is there a driver? ---- */

START_TEST(no_driver)
{
    tilec_context *c = new_context("/nowhere/libcuda.so.1");
    tilec_kernel *k = compile(c, scale_text);
    ck_assert_str_eq(tilec_kernel_target(k), "sm_80");
    char *ptx;
    ck_assert_int_eq(tilec_kernel_emit(k, "ptx", &ptx, &error), TILEC_OK);
    ck_assert_ptr_nonnull(strstr(ptx, ".entry"));
    tilec_free(ptx);
    expect_says(launch_scale(k, NULL), TILEC_MACHINE,
                "@scale is compiled for sm_80 and cannot run here: there is no "
                "NVIDIA driver (/nowhere/libcuda.so.1");
    expect_says(tilec_kernel_load(k, -1, &error), TILEC_MACHINE,
                "there is no NVIDIA driver");
    ck_assert_int_eq(tilec_kernel_synchronize(k, NULL, &error), TILEC_OK);
    tilec_device *d;
    expect_says(tilec_device_open(c, -1, &d, &error), TILEC_MACHINE,
                "there is no NVIDIA driver");
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

static const char *auto_target(tilec_context *c)
{
    return tc_target_find(c, "auto")->name;
}

START_TEST(driver_without_a_function)
{
    tilec_context *c = new_context(FAKE_CUDA_OLD);
    ck_assert_str_eq(auto_target(c), "cpu");
    tilec_kernel *k = compile(c, scale_text);
    expect_says(launch_scale(k, NULL), TILEC_MACHINE,
                "is too old: it has no cuLaunchKernel");
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

START_TEST(driver_does_not_start)
{
    fake->init = 100;
    tilec_kernel *k = compile(cx, scale_text);
    expect_says(launch_scale(k, NULL), TILEC_MACHINE,
                "the NVIDIA driver does not start: CUDA_ERROR_NO_DEVICE (100");
    tilec_kernel_free(k);
}
END_TEST

/* cuInit takes longer than a compile. */
START_TEST(code_that_is_not_loaded_starts_no_driver)
{
    tilec_kernel *k = compile_unloaded(cx, scale_text);
    char *ptx;
    size_t size;
    ck_assert_int_eq(tilec_kernel_emit_data(k, "ptx", &ptx, &size, NULL),
                     TILEC_OK);
    ck_assert_int_eq(fake->inits, 0);
    tilec_free(ptx);
    tilec_kernel_free(k);
    tilec_kernel_free(compile(cx, scale_text));
    ck_assert_int_eq(fake->inits, 1);
}
END_TEST

START_TEST(no_device)
{
    fake->devices = 0;
    ck_assert_str_eq(auto_target(cx), "cpu");
    tilec_kernel *k = compile(cx, scale_text);
    expect_says(launch_scale(k, NULL), TILEC_MACHINE,
                "the NVIDIA driver has no device");
    tilec_kernel_free(k);
}
END_TEST

START_TEST(auto_is_the_best_target)
{
    ck_assert_str_eq(auto_target(cx), "sm_90a");
    ck_assert_str_eq(tc_target_find(cx, "cpu")->name, "cpu");
    ck_assert_ptr_null(tc_target_find(cx, "sm_1"));
    bool found = false;
    for (size_t i = 0; tilec_target_name(i); i++)
        found |= strcmp(tilec_target_name(i), "sm_90") == 0;
    ck_assert(found);
}
END_TEST

START_TEST(an_old_device_has_none)
{
    fake->major = 7;
    ck_assert_str_eq(auto_target(cx), "cpu");
    /* Compiling for another machine is no error; running it here is. */
    tilec_kernel *k = compile(cx, scale_text);
    ck_assert_int_eq(fake->loads, 0);
    expect_says(launch_scale(k, NULL), TILEC_MACHINE,
                "does not run on CUDA device 0, Fake 0 (compute capability "
                "7.0)");
    tilec_kernel_free(k);
}
END_TEST

/* ---- Launching ---- */

/* What stands in the order of codegen/nvptx/nvptx.h. */
struct wanted {
    unsigned char bytes[256];
    size_t n;
};

static void want(struct wanted *w, const void *value, size_t size)
{
    memcpy(w->bytes + w->n, value, size);
    w->n += size;
    fake->sizes[fake->nsizes++] = (unsigned char)size;
}

static void want_int(struct wanted *w, int64_t value, size_t size)
{
    want(w, &value, size);
}

START_TEST(hands_over_parameters)
{
    struct wanted w = {.n = 0};
    float by = 2.5f;
    double wide = -3.0;
    const int64_t x[] = {0x1000, 40, 24, 24, 1}, y[] = {0x2000, 40, 24, 64, 1};
    static const unsigned sizes[] = {8, 4, 4, 8, 8};
    for (int i = 0; i < 5; i++)
        want_int(&w, x[i], sizes[i]);
    for (int i = 0; i < 5; i++)
        want_int(&w, y[i], sizes[i]);
    want_int(&w, 0x3000, 8);
    want(&w, &by, 4);
    want_int(&w, 0x3800, 2); /* 0.5 as f16 */
    want(&w, &wide, 8);
    want_int(&w, 7, 4);
    want_int(&w, 1ll << 40, 8);
    want_int(&w, -2, 2);
    want_int(&w, 1, 1);
    tilec_kernel *k = compile(cx, scale_text);
    tilec_resources r = TILEC_INIT(tilec_resources);
    ck_assert_int_eq(tilec_kernel_resources(k, &r, &error), TILEC_OK);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.stream = &o;
    ck_assert_int_eq(launch_scale(k, &o), TILEC_OK);
    ck_assert_int_eq(fake->launches, 1);
    ck_assert_uint_eq(fake->nbytes, w.n);
    ck_assert_mem_eq(fake->bytes, w.bytes, w.n);
    ck_assert_uint_eq(fake->grid[0], 3);
    ck_assert_uint_eq(fake->grid[1], 7);
    ck_assert_uint_eq(fake->grid[2], 1);
    ck_assert_uint_eq(fake->block[0], 32 * r.warps);
    ck_assert_uint_eq(fake->block[1], 1);
    ck_assert_uint_eq(fake->shared, r.shared_bytes);
    ck_assert_ptr_eq(fake->stream, &o);
    ck_assert_int_eq(fake->pushes, fake->pops);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(loads_at_compile_time)
{
    fake->registers = 123;
    fake->local_bytes = 16;
    tilec_kernel *k = compile(cx, scale_text);
    ck_assert_int_eq(fake->links, 1);
    ck_assert_int_eq(fake->loads, 1);
    char *ptx;
    ck_assert_int_eq(tilec_kernel_emit(k, "ptx", &ptx, &error), TILEC_OK);
    ck_assert_str_eq(fake->ptx, ptx);
    ck_assert_ptr_nonnull(strstr(ptx, fake->entry));
    tilec_free(ptx);
    tilec_resources r = TILEC_INIT(tilec_resources);
    ck_assert_int_eq(tilec_kernel_resources(k, &r, &error), TILEC_OK);
    ck_assert_uint_eq(r.registers, 123);
    ck_assert_uint_eq(r.spilled_bytes, 16);
    ck_assert_str_eq(r.device, "Fake 0");
    char *json;
    ck_assert_int_eq(tilec_kernel_emit(k, "json", &json, &error), TILEC_OK);
    ck_assert_ptr_nonnull(strstr(json, "\"registers\":\t123"));
    ck_assert_ptr_nonnull(strstr(json, "\"abi\":\t2"));
    tilec_free(json);
    /* Launches neither allocate nor wait nor load. */
    int allocs = fake->allocs, waits = fake->synchronizes;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(launch_scale(k, NULL), TILEC_OK);
    ck_assert_int_eq(fake->launches, 3);
    ck_assert_int_eq(fake->loads, 1);
    ck_assert_int_eq(fake->allocs, allocs);
    ck_assert_int_eq(fake->synchronizes, waits);
    tilec_kernel_free(k);
    tilec_context_free(cx);
    ck_assert_int_eq(fake->unloads, 1);
    ck_assert_int_eq(fake->frees, allocs);
    cx = NULL;
}
END_TEST

START_TEST(says_what_it_loaded)
{
    cx->remarks = true;
    fake->registers = 80;
    tilec_kernel *k = compile(cx, scale_text);
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    while (d && (!d->pass || strcmp(d->pass, "load") != 0))
        d = d->next;
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(d->severity, TILEC_REMARK);
    ck_assert_ptr_nonnull(strstr(d->message, "80 registers a thread"));
    ck_assert_ptr_nonnull(strstr(d->message, "no spills"));
    tilec_kernel_free(k);
}
END_TEST

START_TEST(empty_grids_launch_nothing)
{
    tilec_kernel *k = compile(cx, scale_text);
    tilec_argument args[NARGS];
    matrix x, y, p;
    make_args(args, &x, &y, &p);
    args[6].i = 0;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, NULL, &error), TILEC_OK);
    args[6].i = 1;
    x.shape[0] = y.shape[0] = 0;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, NULL, &error), TILEC_OK);
    ck_assert_int_eq(fake->launches, 0);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(refuses_launches)
{
    tilec_kernel *k = compile(cx, scale_text);
    tilec_argument args[NARGS];
    matrix x, y, p;
    make_args(args, &x, &y, &p);
    y.dl.device.device_type = kDLCPU;
    expect_says(tilec_launch(k, args, NARGS, NULL, &error), TILEC_INPUT,
                "argument y: is in host memory, but @scale runs on a GPU "
                "(sm_80): copy it there");
    y.dl.device.device_type = kDLCUDAManaged;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, NULL, &error), TILEC_OK);
    y.dl.device.device_type = kDLVulkan;
    expect_says(tilec_launch(k, args, NARGS, NULL, &error), TILEC_INPUT,
                "argument y: is on DLPack device 7, expected CUDA (2)");
    y.dl.device = (DLDevice){kDLCUDA, 1};
    expect_says(tilec_launch(k, args, NARGS, NULL, &error), TILEC_INPUT,
                "argument y: is on CUDA device 1, those before on device 0");
    x.dl.device.device_id = p.dl.device.device_id = 1;
    expect_says(tilec_launch(k, args, NARGS, NULL, &error), TILEC_INPUT,
                "there is no CUDA device 1, only 0 to 0");
    make_args(args, &x, &y, &p);
    args[6].i = 70000;
    expect_says(tilec_launch(k, args, NARGS, NULL, &error), TILEC_INPUT,
                "axis 1 of the grid is 70000, and a GPU takes at most 65535");
    make_args(args, &x, &y, &p);
    x.shape[0] = 41;
    expect_says(tilec_launch(k, args, NARGS, NULL, &error), TILEC_INPUT,
                "x and y differ");
    ck_assert_str_eq(error.file, "test.tile");
    ck_assert_uint_eq(error.line, 5);
    make_args(args, &x, &y, &p);
    fake->launch = 700;
    expect_says(tilec_launch(k, args, NARGS, NULL, &error), TILEC_MACHINE,
                "launch of @scale on Fake 0: CUDA_ERROR_ILLEGAL_ADDRESS (700");
    ck_assert_ptr_nonnull(strstr(error.message, "grid 3x7x1"));
    ck_assert_ptr_nonnull(strstr(error.message, "an earlier kernel"));
    tilec_kernel_free(k);
}
END_TEST

/* ---- Contexts ---- */

START_TEST(callers_contexts_stay)
{
    fake->devices = 2;
    tilec_kernel *k = compile_unloaded(cx, scale_text);
    ck_assert_int_eq(fake->loads, 0);
    /* None: the primary one, for the length of the call. */
    ck_assert_int_eq(launch_scale(k, NULL), TILEC_OK);
    ck_assert_int_eq(fake->retains, 1);
    ck_assert_int_eq(fake->pushes, fake->pops);
    ck_assert_int_eq(fake->loads, 1);
    /* The primary one is current: nothing is pushed. */
    fake_use(0, 1);
    int pushes = fake->pushes;
    ck_assert_int_eq(launch_scale(k, NULL), TILEC_OK);
    ck_assert_int_eq(fake->pushes, pushes);
    ck_assert_int_eq(fake->loads, 1);
    /* Another one of the device: code of its own. */
    fake_use(0, 0);
    ck_assert_int_eq(launch_scale(k, NULL), TILEC_OK);
    ck_assert_int_eq(launch_scale(k, NULL), TILEC_OK);
    ck_assert_int_eq(fake->pushes, pushes);
    ck_assert_int_eq(fake->loads, 2);
    ck_assert_int_eq(fake->links, 1);
    /* One of another device: the tensors' device counts. */
    fake_use(1, 1);
    ck_assert_int_eq(launch_scale(k, NULL), TILEC_OK);
    ck_assert_int_eq(fake->current, 0);
    ck_assert_int_eq(fake->pushes, pushes + 1);
    ck_assert_int_eq(fake->loads, 2);
    tilec_argument args[NARGS];
    matrix x, y, p;
    make_args(args, &x, &y, &p);
    x.dl.device.device_id = y.dl.device.device_id = 1;
    p.dl.device.device_id = 1;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, NULL, &error), TILEC_OK);
    ck_assert_int_eq(fake->current, 1);
    ck_assert_int_eq(fake->loads, 3);
    ck_assert_int_eq(fake->links, 1); /* the same kind of device */
    tilec_kernel_free(k);
}
END_TEST

START_TEST(nothing_is_loaded_into_a_capture)
{
    tilec_kernel *k = compile_unloaded(cx, scale_text);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.stream = &o;
    fake->capturing = 1;
    expect_says(launch_scale(k, &o), TILEC_USAGE,
                "its stream is being captured, and its code is not loaded on "
                "this device yet: call tilec_kernel_load before");
    ck_assert_int_eq(fake->loads, 0);
    ck_assert_int_eq(tilec_kernel_load(k, 0, &error), TILEC_OK);
    int allocs = fake->allocs, loads = fake->loads;
    ck_assert_int_ge(loads, 1);
    ck_assert_int_eq(launch_scale(k, &o), TILEC_OK);
    ck_assert_int_eq(fake->loads, loads);
    ck_assert_int_eq(fake->allocs, allocs);
    tilec_kernel_free(k);
}
END_TEST

static void *launch_once(void *arg)
{
    for (int i = 0; i < 20; i++)
        if (launch_scale(arg, NULL) != TILEC_OK)
            return NULL;
    return arg;
}

START_TEST(threads_load_once)
{
    tilec_kernel *k = compile_unloaded(cx, scale_text);
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, launch_once, k);
    for (int i = 0; i < 4; i++) {
        void *ok;
        pthread_join(t[i], &ok);
        ck_assert_ptr_eq(ok, k);
    }
    ck_assert_int_eq(fake->loads, 1);
    tilec_kernel_free(k);
}
END_TEST

/* ---- Loading that fails ---- */

START_TEST(assembler_is_heard)
{
    fake->link = 218;
    fake->log = "ptxas line 7: syntax error\nptxas fatal: sorry";
    tilec_kernel *k;
    ck_assert_int_eq(compile_with(cx, scale_text, NULL, &k), TILEC_MACHINE);
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    ck_assert_ptr_nonnull(strstr(d->message, "CUDA_ERROR_INVALID_PTX (218"));
    ck_assert_ptr_nonnull(d->notes);
    ck_assert_str_eq(d->notes->message, "ptxas line 7: syntax error");
    ck_assert_str_eq(d->notes->next->message, "ptxas fatal: sorry");
    /* It compiles, and says so when it is launched. */
    k = compile_unloaded(cx, scale_text);
    expect_says(launch_scale(k, NULL), TILEC_MACHINE,
                "the code does not assemble: CUDA_ERROR_INVALID_PTX");
    fake->link = 222;
    expect_says(launch_scale(k, NULL), TILEC_MACHINE, "update the driver");
    fake->link = 0;
    fake->load = 200;
    expect_says(launch_scale(k, NULL), TILEC_MACHINE,
                "@scale does not load on Fake 0");
    fake->load = 0;
    fake->alloc = 2;
    expect_says(launch_scale(k, NULL), TILEC_MACHINE,
                "CUDA_ERROR_OUT_OF_MEMORY");
    fake->alloc = 0;
    ck_assert_int_eq(launch_scale(k, NULL), TILEC_OK);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(limits_are_explained)
{
    tilec_kernel *k = compile_unloaded(cx, scale_text);
    fake->static_shared = 300000;
    expect_says(launch_scale(k, NULL), TILEC_MACHINE,
                "bytes of shared memory a block, but Fake 0 has 232448: "
                "compile it with fewer stages or smaller tiles");
    fake->static_shared = 0;
    fake->max_threads = 16;
    fake->registers = 255;
    expect_says(launch_scale(k, NULL), TILEC_MACHINE,
                "with its 255 registers a thread Fake 0 runs at most 16: "
                "compile it with fewer warps");
    fake->max_threads = 1024;
    ck_assert_int_eq(launch_scale(k, NULL), TILEC_OK);
    tilec_kernel_free(k);
}
END_TEST

/* ---- Memory and reports ---- */

START_TEST(asserts_are_reported)
{
    tilec_kernel *k = compile(cx, careful_text);
    const tc_gpu_code *code = atomic_load(&k->gpu->variants[0]);
    ck_assert(tc_gpu_code_meta(code)->has_reports);
    tc_device_report *report = (void *)(uintptr_t)tc_gpu_first(code)->report;
    ck_assert_int_eq(tilec_kernel_synchronize(k, NULL, &error), TILEC_OK);
    *report = (tc_device_report){2, {3, 2, 1}};
    expect_says(tilec_kernel_synchronize(k, NULL, &error), TILEC_INPUT,
                "@careful: much too far");
    ck_assert_str_eq(error.file, "test.tile");
    ck_assert_uint_eq(error.line, 5);
    ck_assert_int_eq(error.program[0], 3);
    ck_assert_int_eq(error.program[2], 1);
    ck_assert_int_eq(tilec_kernel_synchronize(k, NULL, &error), TILEC_OK);
    *report = (tc_device_report){1, {0, 0, 0}};
    expect_says(tilec_kernel_synchronize(k, NULL, &error), TILEC_INPUT,
                "too far");
    ck_assert_uint_eq(error.line, 3);
    fake->synchronize = 700;
    expect_says(tilec_kernel_synchronize(k, NULL, &error), TILEC_MACHINE,
                "@careful on Fake 0: CUDA_ERROR_ILLEGAL_ADDRESS");
    tilec_kernel_free(k);
}
END_TEST

/* The report's address is the last parameter. */
START_TEST(reports_have_an_address)
{
    tilec_kernel *k = compile(cx, careful_text);
    matrix x;
    make_matrix(&x, 40, 1, 0x1000);
    x.dl.ndim = 1;
    x.strides[0] = 1;
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl)};
    static const unsigned char sizes[] = {8, 4, 8, 8};
    memcpy(fake->sizes, sizes, fake->nsizes = 4);
    ck_assert_int_eq(tilec_launch(k, args, 1, NULL, &error), TILEC_OK);
    uint64_t address;
    memcpy(&address, fake->bytes + 20, sizeof address);
    ck_assert_uint_eq(address,
                      tc_gpu_first(atomic_load(&k->gpu->variants[0]))->report);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(memory_is_looked_up)
{
    tilec_kernel *k = compile(cx, scale_text);
    tilec_argument args[NARGS];
    matrix x, y, p;
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.check_memory = 1;
    make_args(args, &x, &y, &p);
    expect_says(tilec_launch(k, args, NARGS, &o, &error), TILEC_INPUT,
                "argument x: its memory is not the driver's");
    tilec_device *d;
    DLTensor *mine;
    ck_assert_int_eq(tilec_device_open(cx, 0, &d, &error), TILEC_OK);
    DLTensor host = x.dl;
    host.data = NULL;
    ck_assert_int_eq(tilec_device_copy(d, &host, &mine, &error), TILEC_OK);
    x.dl.data = y.dl.data = mine->data;
    y.shape[0] = x.shape[0] = 40;
    expect_says(tilec_launch(k, args, NARGS, &o, &error), TILEC_INPUT,
                "argument y: it reaches from byte 0 to 10080 of an allocation "
                "of 3840 bytes");
    y.strides[0] = 24;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, &o, &error), TILEC_OK);
    tilec_device_drop(d, mine);
    tilec_device_free(d);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(tensors_travel)
{
    tilec_device *d;
    ck_assert_int_eq(tilec_device_open(cx, -1, &d, &error), TILEC_OK);
    ck_assert_str_eq(tilec_device_name(d), "Fake 0");
    float from[6] = {0, 1, 2, 3, 4, 5}, to[6] = {9, 9, 9, 9, 9, 9};
    int64_t shape[2] = {2, 2}, strides[2] = {-3, 1};
    DLTensor a = {.data = from + 3,
                  .device = {kDLCPU, 0},
                  .ndim = 2,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = shape,
                  .strides = strides};
    DLTensor b = a, *there;
    b.data = to + 3;
    ck_assert_int_eq(tilec_device_copy(d, &a, &there, &error), TILEC_OK);
    ck_assert_int_eq(there->device.device_type, kDLCUDA);
    ck_assert_int_eq(there->strides[0], -3);
    ck_assert_int_eq(tilec_device_read(d, there, &b, &error), TILEC_OK);
    for (int i = 0; i < 5; i++)
        ck_assert(to[i] == from[i]); /* the gap at 2 too */
    ck_assert(to[5] == 9);
    from[4] = 40;
    ck_assert_int_eq(tilec_device_write(d, &a, there, &error), TILEC_OK);
    ck_assert_int_eq(tilec_device_read(d, there, &b, &error), TILEC_OK);
    ck_assert(to[4] == 40);
    ck_assert_int_eq(tilec_device_fill(d, there, 0, NULL, &error), TILEC_OK);
    ck_assert_int_eq(tilec_device_read(d, there, &b, &error), TILEC_OK);
    ck_assert(to[0] == 0 && to[4] == 0 && to[5] == 9);
    shape[0] = 3;
    expect_says(tilec_device_read(d, there, &b, &error), TILEC_INPUT,
                "differ in shape");
    tilec_device_drop(d, there);
    fake->alloc = 2;
    expect_says(tilec_device_copy(d, &a, &there, &error), TILEC_MACHINE,
                "cannot copy a tensor to Fake 0: CUDA_ERROR_OUT_OF_MEMORY");
    fake->alloc = 0;
    shape[1] = 0;
    ck_assert_int_eq(tilec_device_copy(d, &a, &there, &error), TILEC_OK);
    tilec_device_drop(d, there);
    tilec_event *e[2];
    double ms;
    ck_assert_int_eq(tilec_event_new(d, &e[0], &error), TILEC_OK);
    ck_assert_int_eq(tilec_event_new(d, &e[1], &error), TILEC_OK);
    ck_assert_int_eq(tilec_event_record(e[0], NULL, &error), TILEC_OK);
    ck_assert_int_eq(tilec_event_record(e[1], NULL, &error), TILEC_OK);
    ck_assert_int_eq(tilec_event_elapsed(e[0], e[1], &ms, &error), TILEC_OK);
    ck_assert(ms == 1.5);
    tilec_event_free(e[0]);
    tilec_event_free(e[1]);
    ck_assert_int_eq(tilec_device_synchronize(d, &error), TILEC_OK);
    tilec_device_free(d);
}
END_TEST

/* ---- The cache ---- */

static char *emit(const tilec_kernel *k, const char *what)
{
    char *text;
    tilec_status s = tilec_kernel_emit(k, what, &text, &error);
    ck_assert_msg(s == TILEC_OK, "%s: %s", what, error.message);
    return text;
}

/* Only what a compile's diagnostics say tells that the passes ran. */
static bool compiles(tilec_context *c, const tilec_compile_options *o,
                     const char *text, tilec_kernel **k)
{
    tc_cache cache = {.folder = folder};
    tc_cache_file *files;
    size_t before, after;
    ck_assert(tc_cache_files(&cache, &files, &before));
    free(files);
    ck_assert_int_eq(compile_with(c, text, o, k), TILEC_OK);
    ck_assert(tc_cache_files(&cache, &files, &after));
    free(files);
    return after != before;
}

START_TEST(code_is_found_again)
{
    tilec_kernel *a, *b;
    ck_assert(compiles(cx, NULL, scale_text, &a));
    /* In the context's memory: already loaded. */
    ck_assert(!compiles(cx, NULL, scale_text, &b));
    ck_assert_int_eq(fake->loads, 1);
    ck_assert_ptr_eq(atomic_load(&a->gpu->variants[0]),
                     atomic_load(&b->gpu->variants[0]));
    tilec_kernel_free(b);
    /* On the disk: loaded, not assembled. */
    tilec_context *c = new_context(FAKE_CUDA);
    ck_assert(!compiles(c, NULL, scale_text, &b));
    ck_assert_int_eq(fake->loads, 2);
    ck_assert_int_eq(fake->links, 1);
    static const char *const forms[] = {"machine", "ptx", "json", "llvm"};
    for (int i = 0; i < 4; i++) {
        char *x = emit(a, forms[i]), *y = emit(b, forms[i]);
        ck_assert_str_eq(x, y);
        tilec_free(x);
        tilec_free(y);
    }
    ck_assert_str_eq(tilec_kernel_grid_text(a), tilec_kernel_grid_text(b));
    for (size_t i = 0; i < NARGS; i++) {
        const tilec_parameter *p = tilec_kernel_parameter(a, i);
        const tilec_parameter *q = tilec_kernel_parameter(b, i);
        ck_assert_str_eq(p->name, q->name);
        ck_assert_str_eq(p->type, q->type);
        ck_assert_int_eq(p->written, q->written);
    }
    ck_assert_int_eq(tilec_kernel_parameter(b, 0)->written, 0);
    ck_assert_int_eq(tilec_kernel_parameter(b, 1)->written, 1);
    ck_assert_int_eq(launch_scale(b, NULL), TILEC_OK);
    /* Failures still point into the text. */
    tilec_argument args[NARGS];
    matrix x, y, p;
    make_args(args, &x, &y, &p);
    x.shape[0] = 41;
    expect_says(tilec_launch(b, args, NARGS, NULL, &error), TILEC_INPUT,
                "x and y differ");
    ck_assert_uint_eq(error.line, 5);
    tilec_kernel_free(a);
    tilec_kernel_free(b);
    tilec_context_free(c);
}
END_TEST

START_TEST(other_wishes_are_other_code)
{
    tilec_kernel *k;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_80";
    ck_assert(compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
    ck_assert(!compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
    o.warps = 2;
    ck_assert(compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
    o.target = "sm_90";
    ck_assert(compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
    o.stages = 3;
    ck_assert(compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
    /* A comment at the end of a line moves nothing. */
    char text[sizeof scale_text + 16];
    snprintf(text, sizeof text, "%s// the end\n", scale_text);
    ck_assert(!compiles(cx, &o, text, &k));
    tilec_kernel_free(k);
    o.no_cache = 1;
    o.stages = 4;
    ck_assert(!compiles(cx, &o, scale_text, &k)); /* it is not kept */
    tilec_kernel_free(k);
    o.no_cache = 0;
    ck_assert(compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
}
END_TEST

static void count_events(void *user, const tilec_pass_event *event)
{
    (void)event;
    ++*(int *)user;
}

START_TEST(those_who_watch_see_passes)
{
    int events = 0;
    tilec_kernel *k;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_80";
    o.on_pass = count_events;
    o.user = &events;
    for (int i = 0; i < 2; i++) {
        events = 0;
        ck_assert_int_eq(compile_with(cx, scale_text, &o, &k), TILEC_OK);
        ck_assert_int_gt(events, 0);
        tilec_kernel_free(k);
    }
}
END_TEST

START_TEST(damaged_code_is_made_again)
{
    tilec_kernel *k;
    tc_cache cache = {.folder = folder};
    tc_cache_file *files;
    size_t n;
    tilec_kernel_free(compile(cx, scale_text));
    ck_assert(tc_cache_files(&cache, &files, &n));
    ck_assert_uint_eq(n, 1);
    char path[200];
    snprintf(path, sizeof path, "%s/%s.tilec", folder,
             tc_key_print(files->key).text);
    ck_assert_int_eq(truncate(path, (long)files->bytes - 1), 0);
    /* A sound file that holds something else. */
    for (int i = 0; i < 2; i++) {
        tilec_context *c = new_context(FAKE_CUDA);
        ck_assert_int_eq(compile_with(c, scale_text, NULL, &k), TILEC_OK);
        ck_assert_int_eq(fake->links, 2 + i);
        ck_assert_int_eq(launch_scale(k, NULL), TILEC_OK);
        tilec_kernel_free(k);
        tilec_context_free(c);
        tc_section s = {"meta", "{}", 2};
        tc_entry e;
        char why[100];
        ck_assert(tc_entry_make(&e, files->key, &s, 1));
        ck_assert(tc_cache_write(&cache, &e, why, sizeof why));
        tc_entry_free(&e);
    }
    free(files);
}
END_TEST

START_TEST(no_place_for_a_cache)
{
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    tilec_context *c;
    tilec_kernel *k;
    o.cuda_library = FAKE_CUDA;
    o.cache_folder = "/dev/null/cache";
    o.remarks = 1;
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_OK);
    ck_assert_int_eq(compile_with(c, scale_text, NULL, &k), TILEC_OK);
    const tilec_diagnostic *d = tilec_diagnostics(c);
    while (d && (!d->pass || strcmp(d->pass, "cache") != 0))
        d = d->next;
    ck_assert_ptr_nonnull(d);
    ck_assert_str_eq(d->message, "the code of @scale is not kept: "
                                 "/dev/null/cache: Not a directory");
    tilec_kernel_free(k);
    tilec_context_free(c);
    o.cache_folder = "";
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_OK);
    ck_assert_int_eq(compile_with(c, scale_text, NULL, &k), TILEC_OK);
    ck_assert_int_eq(launch_scale(k, NULL), TILEC_OK);
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

START_TEST(contexts_forget_the_oldest)
{
    tilec_kernel *k;
    for (unsigned i = 0; i < TC_CODES_KEPT + 5; i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "kernel @k(%%x: tensor<[?] x f32>) grid(%u) {\n"
                 "  store %%x[0 +: 16], splat(1.0, tile<16 x f32>) "
                 "boundary(0)\n}\n",
                 i + 1);
        k = compile_unloaded(cx, text);
        tilec_kernel_free(k);
    }
    ck_assert_uint_eq(cx->ncodes, TC_CODES_KEPT);
}
END_TEST

/* ---- Variants ---- */

START_TEST(other_tensors_get_a_variant)
{
    tilec_kernel *k = compile(cx, choosy_text);
    matrix x;
    make_matrix(&x, 16, 16, 0x1000);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl), tilec_int(NULL, 1)};
    if (!k->func->aligned) {
        /* The passes found nothing to ask for. */
        tilec_kernel_free(k);
        return;
    }
    ck_assert_str_eq(tc_gpu_predicate_of(k).text, "aligned(x)");
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &error), TILEC_OK);
    ck_assert_ptr_null(atomic_load(&k->gpu->variants[TC_GPU_ANY]));
    x.dl.data = (void *)0x1004;
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &error), TILEC_OK);
    ck_assert_ptr_nonnull(atomic_load(&k->gpu->variants[TC_GPU_ANY]));
    int loads = fake->loads;
    x.dl.data = (void *)0x1000;
    x.strides[0] = 18;
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &error), TILEC_OK);
    x.shape[0] = 1; /* its stride is never walked */
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &error), TILEC_OK);
    ck_assert_int_eq(fake->loads, loads);
    tilec_kernel_free(k);
}
END_TEST

/* ---- Attention ---- */

static DLTensor shaped(DLDataType type, int ndim, int64_t *shape,
                       uintptr_t address)
{
    return (DLTensor){.data = (void *)address,
                      .device = {kDLCUDA, 0},
                      .ndim = ndim,
                      .dtype = type,
                      .shape = shape};
}

/* Nobody wants the logsumexp: all rows of it go to one place, and nothing is
 * allocated for the launch. */
START_TEST(attention_without_a_logsumexp)
{
    DLDataType bf16 = {kDLBfloat, 16, 1};
    int64_t shape[4] = {1, 2, 128, 64};
    DLTensor q = shaped(bf16, 4, shape, 0x10000);
    DLTensor k = shaped(bf16, 4, shape, 0x20000);
    DLTensor v = shaped(bf16, 4, shape, 0x30000);
    DLTensor o = shaped(bf16, 4, shape, 0x40000);
    tilec_attention_options options = TILEC_INIT(tilec_attention_options);
    tilec_attention *plan;
    options.target = "sm_80";
    options.mask = "causal & sliding_window(w=100)";
    tilec_status s = tilec_attention_plan(cx, &q, &k, &v, &options, &plan);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = &q, t.k = &k, t.v = &v, t.o = &o;
    static const unsigned char tensor4[] = {8, 4, 4, 4, 4, 8, 8, 8, 8};
    static const unsigned char tensor3[] = {8, 4, 4, 4, 8, 8, 8};
    for (int i = 0; i < 4; i++)
        memcpy(fake->sizes + 9 * i, tensor4, 9);
    memcpy(fake->sizes + 36, tensor3, 7);
    fake->nsizes = 43;
    int allocs = fake->allocs;
    s = tilec_attention_forward(plan, &t, NULL, &error);
    ck_assert_msg(s == TILEC_OK, "%s", error.message);
    ck_assert_int_eq(fake->launches, 1);
    ck_assert_int_eq(fake->allocs, allocs);
    const tilec_kernel *kernel = tilec_attention_kernel(plan);
    const tc_gpu_code *code = atomic_load(&kernel->gpu->variants[0]);
    uint64_t lse, stride;
    memcpy(&lse, fake->bytes + 4 * 56, sizeof lse);
    memcpy(&stride, fake->bytes + 4 * 56 + 20, sizeof stride);
    ck_assert_uint_eq(lse, tc_gpu_first(code)->spare);
    ck_assert_uint_eq(stride, 0);
    ck_assert_ptr_null(atomic_load(&kernel->gpu->variants[TC_GPU_ANY]));
    /* The second variant is compiled from the same texts. */
    o.data = (void *)0x40002;
    s = tilec_attention_forward(plan, &t, NULL, &error);
    ck_assert_msg(s == TILEC_OK, "%s", error.message);
    ck_assert_ptr_nonnull(atomic_load(&kernel->gpu->variants[TC_GPU_ANY]));
    /* q on the host is what the message is about. */
    q.device.device_type = kDLCPU;
    expect_says(tilec_attention_forward(plan, &t, NULL, &error), TILEC_INPUT,
                "argument q: is in host memory");
    tilec_attention_free(plan);
}
END_TEST

/* ---- Out of memory ---- */

START_TEST(out_of_memory_at_each_place)
{
    unsigned long n = 1;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_80";
    o.no_cache = 1;
    for (;; n += n < 400 ? 1 : n / 40) {
        tilec_kernel *k = NULL;
        cx->memory.fail_after = n;
        tilec_status s = compile_with(cx, careful_text, &o, &k);
        bool reached = cx->memory.fail_after == 0;
        cx->memory.fail_after = 0;
        if (!reached) {
            ck_assert_int_eq(s, TILEC_OK);
            tilec_kernel_free(k);
            break;
        }
        ck_assert_int_eq(s, TILEC_MACHINE);
        ck_assert_ptr_null(k);
    }
    ck_assert_uint_gt(n, 1);
    tilec_kernel_free(compile(cx, careful_text));
}
END_TEST

/* ---- Forms ---- */

START_TEST(emits)
{
    tilec_kernel *k = compile(cx, scale_text);
    char *data;
    size_t size;
    ck_assert_int_eq(tilec_kernel_emit_data(k, "cubin", &data, &size, &error),
                     TILEC_OK);
    ck_assert_uint_eq(size, 7);
    ck_assert_mem_eq(data, "a cubin", 7);
    tilec_free(data);
    ck_assert_int_eq(fake->links, 1);
    expect_says(tilec_kernel_emit(k, "cubin", &data, &error), TILEC_USAGE,
                "a cubin is no text");
    expect_says(tilec_kernel_emit(k, "asm", &data, &error), TILEC_USAGE,
                "target sm_80 cannot emit `asm`, only tile, machine, json, "
                "llvm, llvm-opt, ptx, cubin and sass");
    char *llvm = emit(k, "llvm");
    ck_assert_ptr_nonnull(strstr(llvm, "define"));
    tilec_free(llvm);
    tilec_kernel_free(k);
}
END_TEST

static void add_launch_tests(TCase *c)
{
    tcase_add_test(c, hands_over_parameters);
    tcase_add_test(c, loads_at_compile_time);
    tcase_add_test(c, says_what_it_loaded);
    tcase_add_test(c, empty_grids_launch_nothing);
    tcase_add_test(c, refuses_launches);
    tcase_add_test(c, callers_contexts_stay);
    tcase_add_test(c, nothing_is_loaded_into_a_capture);
    tcase_add_test(c, threads_load_once);
    tcase_add_test(c, assembler_is_heard);
    tcase_add_test(c, limits_are_explained);
    tcase_add_test(c, asserts_are_reported);
    tcase_add_test(c, reports_have_an_address);
    tcase_add_test(c, memory_is_looked_up);
    tcase_add_test(c, tensors_travel);
}

int main(void)
{
    Suite *s = suite_create("gpu");
    TCase *c = tcase_create("gpu");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 300);
    tcase_add_test(c, no_driver);
    tcase_add_test(c, driver_without_a_function);
    tcase_add_test(c, driver_does_not_start);
    tcase_add_test(c, no_device);
    tcase_add_test(c, code_that_is_not_loaded_starts_no_driver);
    tcase_add_test(c, auto_is_the_best_target);
    tcase_add_test(c, an_old_device_has_none);
    add_launch_tests(c);
    tcase_add_test(c, code_is_found_again);
    tcase_add_test(c, other_wishes_are_other_code);
    tcase_add_test(c, those_who_watch_see_passes);
    tcase_add_test(c, damaged_code_is_made_again);
    tcase_add_test(c, no_place_for_a_cache);
    tcase_add_test(c, contexts_forget_the_oldest);
    tcase_add_test(c, other_tensors_get_a_variant);
    tcase_add_test(c, attention_without_a_logsumexp);
    tcase_add_test(c, out_of_memory_at_each_place);
    tcase_add_test(c, emits);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
