/* SPDX-License-Identifier: Apache-2.0
 *
 * Drivers, devices, contexts; what a launch hands over.
 */
#include "test/unit/gpu/fixture.h"

/* ---- Is there a driver? ---- */

START_TEST(no_driver)
{
    tilec_context *c = gpu_new_context("/nowhere/libcuda.so.1");
    tilec_kernel *k = gpu_compile(c, scale_text);
    ck_assert_str_eq(tilec_kernel_target(k), "sm_80");
    char *ptx;
    ck_assert_int_eq(tilec_kernel_emit(k, "ptx", &ptx, &last_error), TILEC_OK);
    ck_assert_ptr_nonnull(strstr(ptx, ".entry"));
    tilec_free(ptx);
    gpu_expect_says(
        gpu_launch_scale(k, NULL), TILEC_MACHINE,
        "@scale is compiled for sm_80 and cannot run here: there is no "
        "NVIDIA driver (/nowhere/libcuda.so.1");
    gpu_expect_says(tilec_kernel_load(k, -1, &last_error), TILEC_MACHINE,
                    "there is no NVIDIA driver");
    ck_assert_int_eq(tilec_kernel_synchronize(k, NULL, &last_error), TILEC_OK);
    tilec_device *d;
    gpu_expect_says(tilec_device_open(c, -1, &d, &last_error), TILEC_MACHINE,
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
    tilec_context *c = gpu_new_context(FAKE_CUDA_OLD);
    ck_assert_str_eq(auto_target(c), "cpu");
    tilec_kernel *k = gpu_compile(c, scale_text);
    gpu_expect_says(gpu_launch_scale(k, NULL), TILEC_MACHINE,
                    "is too old: it has no cuLaunchKernel");
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

START_TEST(driver_does_not_start)
{
    fake->init = 100;
    tilec_kernel *k = gpu_compile(cx, scale_text);
    gpu_expect_says(
        gpu_launch_scale(k, NULL), TILEC_MACHINE,
        "the NVIDIA driver does not start: CUDA_ERROR_NO_DEVICE (100");
    tilec_kernel_free(k);
}
END_TEST

/* cuInit takes longer than a compile. */
START_TEST(code_that_is_not_loaded_starts_no_driver)
{
    tilec_kernel *k = gpu_compile_unloaded(cx, scale_text);
    char *ptx;
    size_t size;
    ck_assert_int_eq(tilec_kernel_emit_data(k, "ptx", &ptx, &size, NULL),
                     TILEC_OK);
    ck_assert_int_eq(fake->inits, 0);
    tilec_free(ptx);
    tilec_kernel_free(k);
    tilec_kernel_free(gpu_compile(cx, scale_text));
    ck_assert_int_eq(fake->inits, 1);
}
END_TEST

START_TEST(no_device)
{
    fake->devices = 0;
    ck_assert_str_eq(auto_target(cx), "cpu");
    tilec_kernel *k = gpu_compile(cx, scale_text);
    gpu_expect_says(gpu_launch_scale(k, NULL), TILEC_MACHINE,
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
    /* Compiling for another machine is no last_error; running it here is. */
    tilec_kernel *k = gpu_compile(cx, scale_text);
    ck_assert_int_eq(fake->loads, 0);
    gpu_expect_says(gpu_launch_scale(k, NULL), TILEC_MACHINE,
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
    tilec_kernel *k = gpu_compile(cx, scale_text);
    tilec_resources r = TILEC_INIT(tilec_resources);
    ck_assert_int_eq(tilec_kernel_resources(k, &r, &last_error), TILEC_OK);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.stream = &o;
    ck_assert_int_eq(gpu_launch_scale(k, &o), TILEC_OK);
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
    tilec_kernel *k = gpu_compile(cx, scale_text);
    ck_assert_int_eq(fake->links, 1);
    ck_assert_int_eq(fake->loads, 1);
    char *ptx;
    ck_assert_int_eq(tilec_kernel_emit(k, "ptx", &ptx, &last_error), TILEC_OK);
    ck_assert_str_eq(fake->ptx, ptx);
    ck_assert_ptr_nonnull(strstr(ptx, fake->entry));
    tilec_free(ptx);
    tilec_resources r = TILEC_INIT(tilec_resources);
    ck_assert_int_eq(tilec_kernel_resources(k, &r, &last_error), TILEC_OK);
    ck_assert_uint_eq(r.registers, 123);
    ck_assert_uint_eq(r.spilled_bytes, 16);
    ck_assert_str_eq(r.device, "Fake 0");
    char *json;
    ck_assert_int_eq(tilec_kernel_emit(k, "json", &json, &last_error),
                     TILEC_OK);
    ck_assert_ptr_nonnull(strstr(json, "\"registers\":\t123"));
    ck_assert_ptr_nonnull(strstr(json, "\"abi\":\t2"));
    tilec_free(json);
    /* Launches neither allocate nor wait nor load. */
    int allocs = fake->allocs, waits = fake->synchronizes;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
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
    tilec_kernel *k = gpu_compile(cx, scale_text);
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
    tilec_kernel *k = gpu_compile(cx, scale_text);
    tilec_argument args[NARGS];
    matrix x, y, p;
    gpu_make_args(args, &x, &y, &p);
    args[6].i = 0;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, NULL, &last_error), TILEC_OK);
    args[6].i = 1;
    x.shape[0] = y.shape[0] = 0;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, NULL, &last_error), TILEC_OK);
    ck_assert_int_eq(fake->launches, 0);
    tilec_kernel_free(k);
}
END_TEST

static const char early_text[] =
    "kernel @early(%x: tensor<[?] x f32>) early grid(3) {\n"
    "  store %x[program_id(0) +: 1], splat(1.0, tile<1 x f32>) boundary(0)\n"
    "}\n";

static tilec_status launch_early(tilec_context *c, const char *target)
{
    int64_t size = 3;
    DLTensor x = {.data = (void *)0x1000,
                  .device = {kDLCUDA, 0},
                  .ndim = 1,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = &size};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_kernel *k;
    o.target = target;
    ck_assert_int_eq(gpu_compile_with(c, early_text, &o, &k), TILEC_OK);
    tilec_argument arg = tilec_tensor("x", &x);
    tilec_status s = tilec_launch(k, &arg, 1, NULL, &last_error);
    tilec_kernel_free(k);
    return s;
}

/* The driver is told; one that knows no such attribute launches it later. */
START_TEST(starts_early)
{
    ck_assert_int_eq(launch_early(cx, "sm_90a"), TILEC_OK);
    ck_assert_int_eq(fake->launches, 1);
    ck_assert_int_eq(fake->early, 1);
    ck_assert_uint_eq(fake->grid[0], 3);
    ck_assert_ptr_nonnull(strstr(fake->ptx, "griddepcontrol.wait;"));
    ck_assert_int_eq(launch_early(cx, "sm_80"), TILEC_OK);
    ck_assert_ptr_null(strstr(fake->ptx, "griddepcontrol"));
    ck_assert_int_eq(fake->launches, 2);
    ck_assert_int_eq(fake->early, 1);
}
END_TEST

/* Programs along axis 0, which go through all tiles: a variant of its own, that
 * is compiled and loaded with the first such launch. */
START_TEST(long_axes_behind_the_first)
{
    tilec_kernel *k = gpu_compile(cx, scale_text);
    tilec_argument args[NARGS];
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    matrix x, y, p;
    gpu_make_args(args, &x, &y, &p);
    ck_assert_int_eq(tilec_launch(k, args, NARGS, NULL, &last_error), TILEC_OK);
    ck_assert_uint_eq(fake->grid[1], 7);
    int loads = fake->loads;
    ck_assert_ptr_null(strstr(fake->ptx, "nctaid"));
    args[6].i = 70000;
    o.stream = (void *)8;
    fake->capturing = 1;
    gpu_expect_says(tilec_launch(k, args, NARGS, &o, &last_error), TILEC_USAGE,
                    "launch such a grid once before");
    fake->capturing = 0;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, &o, &last_error), TILEC_OK);
    ck_assert_int_eq(fake->loads, loads + 1);
    ck_assert_ptr_nonnull(strstr(fake->ptx, "nctaid.x"));
    ck_assert_uint_gt(fake->grid[0], 3);
    ck_assert_uint_le(fake->grid[0], 3 * 70000);
    ck_assert_uint_eq(fake->grid[1] * fake->grid[2], 1);
    ck_assert_int_eq(tilec_launch(k, args, NARGS, &o, &last_error), TILEC_OK);
    ck_assert_int_eq(fake->loads, loads + 1);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(refuses_launches)
{
    tilec_kernel *k = gpu_compile(cx, scale_text);
    tilec_argument args[NARGS];
    matrix x, y, p;
    gpu_make_args(args, &x, &y, &p);
    y.dl.device.device_type = kDLCPU;
    gpu_expect_says(tilec_launch(k, args, NARGS, NULL, &last_error),
                    TILEC_INPUT,
                    "argument y: is in host memory, but @scale runs on a GPU "
                    "(sm_80): copy it there");
    y.dl.device.device_type = kDLCUDAManaged;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, NULL, &last_error), TILEC_OK);
    y.dl.device.device_type = kDLVulkan;
    gpu_expect_says(tilec_launch(k, args, NARGS, NULL, &last_error),
                    TILEC_INPUT,
                    "argument y: is on DLPack device 7, expected CUDA (2)");
    y.dl.device = (DLDevice){kDLCUDA, 1};
    gpu_expect_says(
        tilec_launch(k, args, NARGS, NULL, &last_error), TILEC_INPUT,
        "argument y: is on CUDA device 1, those before on device 0");
    x.dl.device.device_id = p.dl.device.device_id = 1;
    gpu_expect_says(tilec_launch(k, args, NARGS, NULL, &last_error),
                    TILEC_INPUT, "there is no CUDA device 1, only 0 to 0");
    gpu_make_args(args, &x, &y, &p);
    args[6].i = INT32_MAX;
    gpu_expect_says(tilec_launch(k, args, NARGS, NULL, &last_error),
                    TILEC_INPUT,
                    "a grid of 3x2147483647x1 programs is too large");
    gpu_make_args(args, &x, &y, &p);
    x.shape[0] = 41;
    gpu_expect_says(tilec_launch(k, args, NARGS, NULL, &last_error),
                    TILEC_INPUT, "x and y differ");
    ck_assert_str_eq(last_error.file, "test.tile");
    ck_assert_uint_eq(last_error.line, 5);
    gpu_make_args(args, &x, &y, &p);
    fake->launch = 700;
    gpu_expect_says(
        tilec_launch(k, args, NARGS, NULL, &last_error), TILEC_MACHINE,
        "launch of @scale on Fake 0: CUDA_ERROR_ILLEGAL_ADDRESS (700");
    ck_assert_ptr_nonnull(strstr(last_error.message, "grid 3x7x1"));
    ck_assert_ptr_nonnull(strstr(last_error.message, "an earlier kernel"));
    tilec_kernel_free(k);
}
END_TEST

/* ---- Contexts ---- */

START_TEST(callers_contexts_stay)
{
    fake->devices = 2;
    tilec_kernel *k = gpu_compile_unloaded(cx, scale_text);
    ck_assert_int_eq(fake->loads, 0);
    /* None: the primary one, for the length of the call. */
    ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
    ck_assert_int_eq(fake->retains, 1);
    ck_assert_int_eq(fake->pushes, fake->pops);
    ck_assert_int_eq(fake->loads, 1);
    /* The primary one is current: nothing is pushed. */
    fake_use(0, 1);
    int pushes = fake->pushes;
    ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
    ck_assert_int_eq(fake->pushes, pushes);
    ck_assert_int_eq(fake->loads, 1);
    /* Another one of the device: code of its own. */
    fake_use(0, 0);
    ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
    ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
    ck_assert_int_eq(fake->pushes, pushes);
    ck_assert_int_eq(fake->loads, 2);
    ck_assert_int_eq(fake->links, 1);
    /* One of another device: the tensors' device counts. */
    fake_use(1, 1);
    ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
    ck_assert_int_eq(fake->current, 0);
    ck_assert_int_eq(fake->pushes, pushes + 1);
    ck_assert_int_eq(fake->loads, 2);
    tilec_argument args[NARGS];
    matrix x, y, p;
    gpu_make_args(args, &x, &y, &p);
    x.dl.device.device_id = y.dl.device.device_id = 1;
    p.dl.device.device_id = 1;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, NULL, &last_error), TILEC_OK);
    ck_assert_int_eq(fake->current, 1);
    ck_assert_int_eq(fake->loads, 3);
    ck_assert_int_eq(fake->links, 1); /* the same kind of device */
    tilec_kernel_free(k);
}
END_TEST

/* One that is gone has taken along what was in it; another one by its handle
 * has nothing of that. */
START_TEST(a_context_by_the_handle_of_another)
{
    ck_assert_ptr_nonnull(fake_use(0, 0));
    tilec_context *c = gpu_new_context(FAKE_CUDA);
    tilec_kernel *k = gpu_compile_unloaded(c, careful_text);
    ck_assert_int_eq(tilec_kernel_load(k, -1, &last_error), TILEC_OK);
    ck_assert_int_eq(tilec_kernel_load(k, -1, &last_error), TILEC_OK);
    int loads = fake->loads;
    fake->age = 100;
    ck_assert_int_eq(tilec_kernel_load(k, -1, &last_error), TILEC_OK);
    ck_assert_int_eq(tilec_kernel_load(k, -1, &last_error), TILEC_OK);
    ck_assert_int_eq(fake->loads, 2 * loads);
    int nwaits = fake->synchronizes;
    ck_assert_int_eq(tilec_kernel_synchronize(k, NULL, &last_error), TILEC_OK);
    ck_assert_int_eq(fake->synchronizes, nwaits + loads);
    tilec_kernel_free(k);
    tilec_context_free(c);
    ck_assert_int_eq(fake->unloads, loads);
    ck_assert_int_eq(fake->frees, fake->allocs / 2);
    ck_assert_int_eq(fake->pushes, fake->pops);
}
END_TEST

START_TEST(nothing_is_loaded_into_a_capture)
{
    tilec_kernel *k = gpu_compile_unloaded(cx, scale_text);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.stream = &o;
    fake->capturing = 1;
    gpu_expect_says(
        gpu_launch_scale(k, &o), TILEC_USAGE,
        "its stream is being captured, and its code is not loaded on "
        "this device yet: call tilec_kernel_load before");
    ck_assert_int_eq(fake->loads, 0);
    ck_assert_int_eq(tilec_kernel_load(k, 0, &last_error), TILEC_OK);
    int allocs = fake->allocs, loads = fake->loads;
    ck_assert_int_ge(loads, 1);
    ck_assert_int_eq(gpu_launch_scale(k, &o), TILEC_OK);
    ck_assert_int_eq(fake->loads, loads);
    ck_assert_int_eq(fake->allocs, allocs);
    tilec_kernel_free(k);
}
END_TEST

/* Somebody else captures when a kernel is freed. */
START_TEST(nothing_that_is_freed_ends_a_capture)
{
    tilec_context *c = gpu_new_context(FAKE_CUDA);
    tilec_kernel *k = gpu_compile(c, scale_text);
    ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
    fake->frees = 0;
    fake->capturing = 1;
    tilec_kernel_free(k);
    tilec_context_free(c);
    ck_assert_int_gt(fake->frees, 0);
    ck_assert_int_eq(fake->capturing, 1);
}
END_TEST

static void *launch_once(void *arg)
{
    for (int i = 0; i < 20; i++)
        if (gpu_launch_scale(arg, NULL) != TILEC_OK)
            return NULL;
    return arg;
}

START_TEST(threads_load_once)
{
    tilec_kernel *k = gpu_compile_unloaded(cx, scale_text);
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

void gpu_launching_tests(TCase *t)
{
    tcase_add_test(t, no_driver);
    tcase_add_test(t, driver_without_a_function);
    tcase_add_test(t, driver_does_not_start);
    tcase_add_test(t, code_that_is_not_loaded_starts_no_driver);
    tcase_add_test(t, no_device);
    tcase_add_test(t, auto_is_the_best_target);
    tcase_add_test(t, an_old_device_has_none);
    tcase_add_test(t, hands_over_parameters);
    tcase_add_test(t, loads_at_compile_time);
    tcase_add_test(t, says_what_it_loaded);
    tcase_add_test(t, empty_grids_launch_nothing);
    tcase_add_test(t, starts_early);
    tcase_add_test(t, long_axes_behind_the_first);
    tcase_add_test(t, refuses_launches);
    tcase_add_test(t, callers_contexts_stay);
    tcase_add_test(t, a_context_by_the_handle_of_another);
    tcase_add_test(t, nothing_is_loaded_into_a_capture);
    tcase_add_test(t, nothing_that_is_freed_ends_a_capture);
}

void gpu_threads_tests(TCase *t)
{
    tcase_add_test(t, threads_load_once);
}
