/* SPDX-License-Identifier: Apache-2.0
 *
 * What does not load, memory, reports of asserts; code as text.
 */
#include "test/unit/gpu/fixture.h"

/* ---- Loading that fails ---- */

START_TEST(assembler_is_heard)
{
    fake->link = 218;
    fake->log = "ptxas line 7: syntax last_error\nptxas fatal: sorry";
    tilec_kernel *k;
    ck_assert_int_eq(gpu_compile_with(cx, scale_text, NULL, &k), TILEC_MACHINE);
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    ck_assert_ptr_nonnull(strstr(d->message, "CUDA_ERROR_INVALID_PTX (218"));
    ck_assert_ptr_nonnull(d->notes);
    ck_assert_str_eq(d->notes->message, "ptxas line 7: syntax last_error");
    ck_assert_str_eq(d->notes->next->message, "ptxas fatal: sorry");
    /* It compiles, and says so when it is launched. */
    k = gpu_compile_unloaded(cx, scale_text);
    gpu_expect_says(gpu_launch_scale(k, NULL), TILEC_MACHINE,
                    "the code does not assemble: CUDA_ERROR_INVALID_PTX");
    fake->link = 222;
    gpu_expect_says(gpu_launch_scale(k, NULL), TILEC_MACHINE,
                    "update the driver");
    fake->link = 0;
    fake->load = 200;
    gpu_expect_says(gpu_launch_scale(k, NULL), TILEC_MACHINE,
                    "@scale does not load on Fake 0");
    fake->load = 0;
    fake->alloc = 2;
    gpu_expect_says(gpu_launch_scale(k, NULL), TILEC_MACHINE,
                    "CUDA_ERROR_OUT_OF_MEMORY");
    fake->alloc = 0;
    ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(limits_are_explained)
{
    tilec_kernel *k = gpu_compile_unloaded(cx, scale_text);
    fake->static_shared = 300000;
    gpu_expect_says(gpu_launch_scale(k, NULL), TILEC_MACHINE,
                    "bytes of shared memory a block, but Fake 0 has 232448: "
                    "compile it with fewer stages or smaller tiles");
    fake->static_shared = 0;
    fake->max_threads = 16;
    fake->registers = 255;
    gpu_expect_says(gpu_launch_scale(k, NULL), TILEC_MACHINE,
                    "with its 255 registers a thread Fake 0 runs at most 16: "
                    "compile it with fewer warps");
    fake->max_threads = 1024;
    ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
    tilec_kernel_free(k);
}
END_TEST

/* ---- Memory and reports ---- */

START_TEST(asserts_are_reported)
{
    tilec_kernel *k = gpu_compile(cx, careful_text);
    const tc_gpu_code *code = atomic_load(&k->gpu->variants[0]);
    ck_assert(tc_gpu_code_meta(code)->has_reports);
    tc_device_report *report = (void *)(uintptr_t)tc_gpu_first(code)->report;
    ck_assert_int_eq(tilec_kernel_synchronize(k, NULL, &last_error), TILEC_OK);
    *report = (tc_device_report){2, {3, 2, 1}};
    gpu_expect_says(tilec_kernel_synchronize(k, NULL, &last_error), TILEC_INPUT,
                    "@careful: much too far");
    ck_assert_str_eq(last_error.file, "test.tile");
    ck_assert_uint_eq(last_error.line, 5);
    ck_assert_int_eq(last_error.program[0], 3);
    ck_assert_int_eq(last_error.program[2], 1);
    ck_assert_int_eq(tilec_kernel_synchronize(k, NULL, &last_error), TILEC_OK);
    *report = (tc_device_report){1, {0, 0, 0}};
    gpu_expect_says(tilec_kernel_synchronize(k, NULL, &last_error), TILEC_INPUT,
                    "too far");
    ck_assert_uint_eq(last_error.line, 3);
    fake->synchronize = 700;
    gpu_expect_says(tilec_kernel_synchronize(k, NULL, &last_error),
                    TILEC_MACHINE,
                    "@careful on Fake 0: CUDA_ERROR_ILLEGAL_ADDRESS");
    tilec_kernel_free(k);
}
END_TEST

/* The report's address is the last parameter. */
START_TEST(reports_have_an_address)
{
    tilec_kernel *k = gpu_compile(cx, careful_text);
    matrix x;
    gpu_make_matrix(&x, 40, 1, 0x1000);
    x.dl.ndim = 1;
    x.strides[0] = 1;
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl)};
    static const unsigned char sizes[] = {8, 4, 8, 8};
    memcpy(fake->sizes, sizes, fake->nsizes = 4);
    ck_assert_int_eq(tilec_launch(k, args, 1, NULL, &last_error), TILEC_OK);
    uint64_t address;
    memcpy(&address, fake->bytes + 20, sizeof address);
    ck_assert_uint_eq(address,
                      tc_gpu_first(atomic_load(&k->gpu->variants[0]))->report);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(memory_is_looked_up)
{
    tilec_kernel *k = gpu_compile(cx, scale_text);
    tilec_argument args[NARGS];
    matrix x, y, p;
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.check_memory = 1;
    gpu_make_args(args, &x, &y, &p);
    gpu_expect_says(tilec_launch(k, args, NARGS, &o, &last_error), TILEC_INPUT,
                    "argument x: its memory is not the driver's");
    tilec_device *d;
    DLTensor *mine;
    ck_assert_int_eq(tilec_device_open(cx, 0, &d, &last_error), TILEC_OK);
    DLTensor host = x.dl;
    host.data = NULL;
    ck_assert_int_eq(tilec_device_copy(d, &host, &mine, &last_error), TILEC_OK);
    x.dl.data = y.dl.data = mine->data;
    y.shape[0] = x.shape[0] = 40;
    gpu_expect_says(
        tilec_launch(k, args, NARGS, &o, &last_error), TILEC_INPUT,
        "argument y: it reaches from byte 0 to 10080 of an allocation "
        "of 3840 bytes");
    y.strides[0] = 24;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, &o, &last_error), TILEC_OK);
    /* Without elements it reaches nowhere, whatever its strides. */
    x.shape[1] = 0;
    x.strides[1] = INT64_MAX;
    ck_assert_int_eq(tilec_launch(k, args, NARGS, &o, &last_error), TILEC_OK);
    tilec_device_drop(d, mine);
    tilec_device_free(d);
    tilec_kernel_free(k);
}
END_TEST

static DLTensor on_device(void *data, int code, int ndim, int64_t *shape)
{
    return (DLTensor){.data = data,
                      .device = {kDLCUDA, 0},
                      .ndim = ndim,
                      .dtype = {(uint8_t)code, 32, 1},
                      .shape = shape};
}

/* check_memory of a launch over a cache reads the device's tables. */
START_TEST(tables_are_looked_up)
{
    static int32_t lens[] = {20}, table[] = {1, 4};
    static uint64_t memory[1 << 12];
    int64_t sides[4][4] = {{1, 2, 1, 16}, {4, 1, 16, 16}, {1}, {1, 2}};
    DLTensor q = on_device(memory, kDLFloat, 4, sides[0]);
    DLTensor k = on_device(memory, kDLFloat, 4, sides[1]);
    DLTensor lengths = on_device(lens, kDLInt, 1, sides[2]);
    DLTensor pages = on_device(table, kDLInt, 2, sides[3]);
    tilec_kvcache_options o = TILEC_INIT(tilec_kvcache_options);
    o.layout = TILEC_KV_PAGED;
    tilec_kvcache *plan;
    ck_assert_int_eq(tilec_kvcache_plan(cx, &q, &k, &k, &o, &plan), TILEC_OK);
    tilec_kvcache_tensors t = TILEC_INIT(tilec_kvcache_tensors);
    t.q = t.o = &q;
    t.k = t.v = &k;
    t.kv_lens = &lengths;
    t.page_table = &pages;
    t.schedule = memory;
    t.schedule_bytes = sizeof memory;
    tilec_launch_options launch = TILEC_INIT(tilec_launch_options);
    launch.check_memory = 1;
    int before = fake->synchronizes;
    gpu_expect_says(tilec_kvcache_schedule(plan, &t, &launch, &last_error),
                    TILEC_INPUT,
                    "page_table: entry [0, 1] is 4, expected 0 to "
                    "3: k has 4 pages");
    ck_assert_int_gt(fake->synchronizes, before);
    fake->synchronize = 700;
    gpu_expect_says(tilec_kvcache_schedule(plan, &t, &launch, &last_error),
                    TILEC_MACHINE, "cannot read memory of Fake 0");
    fake->synchronize = 0;
    fake->capturing = 1;
    launch.stream = memory;
    gpu_expect_says(tilec_kvcache_schedule(plan, &t, &launch, &last_error),
                    TILEC_USAGE, "check_memory: the stream is being captured");
    fake->capturing = 0;
    tilec_kvcache_free(plan);
}
END_TEST

START_TEST(tensors_travel)
{
    tilec_device *d;
    ck_assert_int_eq(tilec_device_open(cx, -1, &d, &last_error), TILEC_OK);
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
    ck_assert_int_eq(tilec_device_copy(d, &a, &there, &last_error), TILEC_OK);
    ck_assert_int_eq(there->device.device_type, kDLCUDA);
    ck_assert_int_eq(there->strides[0], -3);
    ck_assert_int_eq(tilec_device_read(d, there, &b, &last_error), TILEC_OK);
    for (int i = 0; i < 5; i++)
        ck_assert(to[i] == from[i]); /* the gap at 2 too */
    ck_assert(to[5] == 9);
    from[4] = 40;
    ck_assert_int_eq(tilec_device_write(d, &a, there, &last_error), TILEC_OK);
    ck_assert_int_eq(tilec_device_read(d, there, &b, &last_error), TILEC_OK);
    ck_assert(to[4] == 40);
    ck_assert_int_eq(tilec_device_fill(d, there, 0, NULL, &last_error),
                     TILEC_OK);
    ck_assert_int_eq(tilec_device_read(d, there, &b, &last_error), TILEC_OK);
    ck_assert(to[0] == 0 && to[4] == 0 && to[5] == 9);
    shape[0] = 3;
    gpu_expect_says(tilec_device_read(d, there, &b, &last_error), TILEC_INPUT,
                    "differ in shape");
    tilec_device_drop(d, there);
    /* Zeros, that other streams see too. */
    shape[0] = 2;
    b.data = NULL;
    int nwaits = fake->synchronizes;
    ck_assert_int_eq(tilec_device_copy(d, &b, &there, &last_error), TILEC_OK);
    ck_assert_int_eq(fake->synchronizes, nwaits + 1);
    tilec_device_drop(d, there);
    fake->alloc = 2;
    gpu_expect_says(tilec_device_copy(d, &a, &there, &last_error),
                    TILEC_MACHINE,
                    "cannot copy a tensor to Fake 0: CUDA_ERROR_OUT_OF_MEMORY");
    fake->alloc = 0;
    shape[1] = 0;
    ck_assert_int_eq(tilec_device_copy(d, &a, &there, &last_error), TILEC_OK);
    tilec_device_drop(d, there);
    tilec_event *e[2];
    double ms;
    ck_assert_int_eq(tilec_event_new(d, &e[0], &last_error), TILEC_OK);
    ck_assert_int_eq(tilec_event_new(d, &e[1], &last_error), TILEC_OK);
    ck_assert_int_eq(tilec_event_record(e[0], NULL, &last_error), TILEC_OK);
    ck_assert_int_eq(tilec_event_record(e[1], NULL, &last_error), TILEC_OK);
    ck_assert_int_eq(tilec_event_elapsed(e[0], e[1], &ms, &last_error),
                     TILEC_OK);
    ck_assert(ms == 1.5);
    tilec_event_free(e[0]);
    tilec_event_free(e[1]);
    ck_assert_int_eq(tilec_device_synchronize(d, &last_error), TILEC_OK);
    tilec_device_free(d);
}
END_TEST

START_TEST(tensors_that_cannot_travel)
{
    tilec_device *d;
    ck_assert_int_eq(tilec_device_open(cx, 0, &d, &last_error), TILEC_OK);
    float from[4] = {0};
    int64_t shape[2] = {2, 2}, strides[2] = {2, 1};
    DLTensor a = {.data = from,
                  .device = {kDLCPU, 0},
                  .ndim = 2,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = shape,
                  .strides = strides};
    DLTensor b = a, *there, *other;
    ck_assert_int_eq(tilec_device_copy(d, &a, &there, &last_error), TILEC_OK);
    b.data = NULL;
    gpu_expect_says(tilec_device_read(d, there, &b, &last_error), TILEC_INPUT,
                    "data is NULL, but no dim is 0");
    gpu_expect_says(tilec_device_write(d, &b, there, &last_error), TILEC_INPUT,
                    "data is NULL, but no dim is 0");
    gpu_expect_says(tilec_device_fill(d, &b, 0, NULL, &last_error), TILEC_INPUT,
                    "data is NULL, but no dim is 0");
    gpu_expect_says(
        tilec_device_copy(d, there, &other, &last_error), TILEC_INPUT,
        "the host's tensor is on DLPack device 2, expected the CPU (1)");
    gpu_expect_says(tilec_device_read(d, there, there, &last_error),
                    TILEC_INPUT, "the host's tensor is on DLPack device 2");
    gpu_expect_says(tilec_device_write(d, there, there, &last_error),
                    TILEC_INPUT, "the host's tensor is on DLPack device 2");
    tilec_device_drop(d, there);
    shape[1] = -1;
    gpu_expect_says(tilec_device_copy(d, &a, &there, &last_error), TILEC_INPUT,
                    "dim 1 is -1, expected 0 or more");
    /* Each way an int64 of bytes, but not both. */
    shape[0] = shape[1] = 3;
    strides[0] = (int64_t)1 << 59;
    strides[1] = -strides[0];
    gpu_expect_says(tilec_device_copy(d, &a, &there, &last_error), TILEC_INPUT,
                    "its strides reach beyond 64-bit addresses");
    tilec_device_free(d);
}
END_TEST

/* ---- Forms ---- */

START_TEST(emits)
{
    tilec_kernel *k = gpu_compile(cx, scale_text);
    char *data;
    size_t size;
    ck_assert_int_eq(
        tilec_kernel_emit_data(k, "cubin", &data, &size, &last_error),
        TILEC_OK);
    ck_assert_uint_eq(size, 7);
    ck_assert_mem_eq(data, "a cubin", 7);
    tilec_free(data);
    ck_assert_int_eq(fake->links, 1);
    gpu_expect_says(tilec_kernel_emit(k, "cubin", &data, &last_error),
                    TILEC_USAGE, "a cubin is no text");
    gpu_expect_says(
        tilec_kernel_emit(k, "asm", &data, &last_error), TILEC_USAGE,
        "target sm_80 cannot emit `asm`, only tile, machine, "
        "schedule, timeline, json, llvm, llvm-opt, ptx, cubin and sass");
    char *llvm = gpu_emit(k, "llvm");
    ck_assert_ptr_nonnull(strstr(llvm, "define"));
    tilec_free(llvm);
    tilec_kernel_free(k);
}
END_TEST

void gpu_loading_tests(TCase *t)
{
    tcase_add_test(t, assembler_is_heard);
    tcase_add_test(t, limits_are_explained);
    tcase_add_test(t, asserts_are_reported);
    tcase_add_test(t, reports_have_an_address);
    tcase_add_test(t, memory_is_looked_up);
    tcase_add_test(t, tables_are_looked_up);
    tcase_add_test(t, tensors_travel);
    tcase_add_test(t, tensors_that_cannot_travel);
    tcase_add_test(t, emits);
}
