/* SPDX-License-Identifier: Apache-2.0
 *
 * Each call of the driver fails in turn: what was to be done says so or does
 * without, nothing is left behind, and the next attempt is a whole one.
 */
#include "test/unit/gpu/fixture.h"

static unsigned nrefused;

static bool works(tilec_status s)
{
    if (s == TILEC_OK)
        return true;
    nrefused++;
    ck_assert_int_eq(s, TILEC_MACHINE);
    ck_assert_uint_gt(strlen(last_error.message), 0);
    return false;
}

static void use_tensors(const tilec_device *d)
{
    float from[4] = {1, 2, 3, 4}, to[4];
    int64_t shape[] = {4};
    DLTensor a = {.data = from,
                  .device = {kDLCPU, 0},
                  .ndim = 1,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = shape},
             b = a, *there = NULL;
    b.data = to;
    if (works(tilec_device_copy(d, &a, &there, &last_error))) {
        (void)works(tilec_device_write(d, &a, there, &last_error));
        (void)works(tilec_device_read(d, there, &b, &last_error));
        (void)works(tilec_device_fill(d, there, 7, NULL, &last_error));
        tilec_device_drop(d, there);
    } else {
        ck_assert_ptr_null(there);
    }
    a.data = NULL;
    if (works(tilec_device_copy(d, &a, &there, &last_error)))
        tilec_device_drop(d, there);
}

static void use_events(const tilec_device *d)
{
    tilec_event *e = NULL;
    double ms;
    if (!works(tilec_event_new(d, &e, &last_error))) {
        ck_assert_ptr_null(e);
        return;
    }
    (void)works(tilec_event_record(e, NULL, &last_error));
    (void)works(tilec_event_elapsed(e, e, &ms, &last_error));
    tilec_event_free(e);
}

static void use_device(void)
{
    tilec_device *d = NULL;
    if (!works(tilec_device_open(cx, 0, &d, &last_error))) {
        ck_assert_ptr_null(d);
        return;
    }
    use_tensors(d);
    use_events(d);
    (void)works(tilec_device_synchronize(d, &last_error));
    tilec_device_free(d);
}

/* Loaded by the compile or, where that may not, by the first launch. */
static void use_kernel(bool loads_late)
{
    tilec_kernel *k = NULL;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_80";
    o.no_cache = 1;
    o.no_load = loads_late;
    tilec_status s = gpu_compile_with(cx, careful_text, &o, &k);
    if (s != TILEC_OK) {
        ck_assert_int_eq(s, TILEC_MACHINE);
        ck_assert_ptr_nonnull(tilec_diagnostics(cx));
        ck_assert_ptr_null(k);
        nrefused++;
        return;
    }
    matrix x;
    gpu_make_matrix(&x, 40, 1, 0x1000);
    x.dl.ndim = 1;
    x.strides[0] = 1;
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl)};
    tilec_launch_options in = TILEC_INIT(tilec_launch_options);
    in.stream = &x;
    /* Often enough to become graphs, once. */
    for (int i = 0; i < (loads_late ? 2 : 12); i++) {
        (void)works(tilec_launch(k, args, 1, &in, &last_error));
        (void)works(tilec_kernel_synchronize(k, &x, &last_error));
    }
    (void)works(tilec_kernel_load(k, -1, &last_error));
    tilec_kernel_free(k);
}

static void use_all(void)
{
    use_device();
    use_kernel(false);
    use_kernel(true);
}

static void forget(void)
{
    fake->allocs = fake->frees = fake->loads = fake->unloads = 0;
    fake->lost = fake->made = fake->dropped = 0;
    nrefused = 0;
}

static void expect_nothing_left(void)
{
    int mode = 0;
    tc_cuda *cuda = tc_cuda_get(FAKE_CUDA);
    /* What is in a context that cannot be made current is gone with it. */
    if (!fake->lost) {
        ck_assert_int_eq(fake->allocs, fake->frees);
        ck_assert_int_eq(fake->loads, fake->unloads);
        ck_assert_int_eq(fake->made, fake->dropped);
    }
    ck_assert_int_eq(fake->pushes, fake->pops);
    ck_assert_int_eq(cuda->thread_capture_mode(&mode), 0);
    ck_assert_int_eq(mode, 0);
}

START_TEST(each_call_of_the_driver_fails)
{
    int at = 0, nsaid = 0;
    static const unsigned char sizes[] = {8, 4, 8, 8};
    memcpy(fake->sizes, sizes, fake->nsizes = 4);
    do {
        fake->fail_at = ++at;
        fake->calls = 0;
        forget();
        use_all();
        ck_assert_uint_le(nrefused, 3);
        nsaid += nrefused > 0;
        expect_nothing_left();
    } while (fake->calls >= at);
    fake->fail_at = 0;
    forget();
    use_all();
    ck_assert_uint_eq(nrefused, 0);
    expect_nothing_left();
    ck_assert_int_gt(nsaid, 30);
}
END_TEST

void gpu_failures_tests(TCase *t)
{
    tcase_add_test(t, each_call_of_the_driver_fails);
}
