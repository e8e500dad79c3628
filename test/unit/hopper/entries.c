/* SPDX-License-Identifier: Apache-2.0
 *
 * What an entry of the cache says besides code; exact targets.
 */
#include "test/unit/hopper/fixture.h"

/* At machine level: an assert, a map, a counter, a warp group that copies. */
static const char machine_text[] =
    "kernel @move(%x: tensor<[?, ?] x f16>, %n: i32) aligned(0) warps(4) "
    "shared(4104)\n"
    "    grid(1)\n"
    "{\n"
    "  assert %n > 0, \"nothing to move\"\n"
    "  %s = smem_alloc offset(0) : smem<32x64 x f16, #swizzle128>\n"
    "  %full = mbarrier_alloc arrivals(1) offset(4096) : mbarrier<1>\n"
    "  barrier\n"
    "  warp_groups registers(24, 240) producer {\n"
    "    mbarrier_arrive %full, 0 bytes(4096)\n"
    "    tma_load block %x[0 +: 32, 0 +: 64], %s, %full, 0\n"
    "    %t = next_tile %n\n"
    "    end_tiles\n"
    "  } consumer {\n"
    "    mbarrier_wait %full, 0, 0\n"
    "  }\n"
    "}\n";

static tilec_kernel *compile_machine(tilec_context *c)
{
    tilec_kernel *k;
    tilec_source source = tilec_text("test.tile", machine_text, 0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_90a";
    o.pipeline = "";
    tilec_status s = tilec_compile(c, &source, 1, &o, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(c)->message);
    return k;
}

/* ---- Threads, and the rest of what an entry says ---- */

START_TEST(blocks_have_more_threads)
{
    const char *changes[] = {"\"warps\":4,\"threads\":128",
                             "\"warps\":4,\"threads\":256",
                             "\"maps\":[]",
                             maps,
                             "\"counts\":0",
                             "\"counts\":1",
                             NULL};
    static const unsigned char more[] = {TC_GPU_MAP_BYTES, TC_GPU_MAP_BYTES, 8};
    hopper_expect_params(more, 3);
    tilec_kernel *k = hopper_compile_changed(cx, changes);
    tensor x, y;
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_uint_eq(fake->block[0], 256);
    ck_assert_uint_eq(hopper_map_of(0).address, 0x10000);
    tilec_resources r = TILEC_INIT(tilec_resources);
    ck_assert_int_eq(tilec_kernel_resources(k, &r, &last_error), TILEC_OK);
    ck_assert_uint_eq(r.warps, 4);
    ck_assert_uint_eq(r.threads, 256);
    char *json;
    ck_assert_int_eq(tilec_kernel_emit(k, "json", &json, &last_error),
                     TILEC_OK);
    ck_assert_ptr_nonnull(strstr(json, "\"threads\":\t256"));
    ck_assert_ptr_nonnull(strstr(json, "\"counts_tiles\":\ttrue"));
    ck_assert_ptr_nonnull(strstr(json, "\"parameter\":\t\"y\""));
    ck_assert_ptr_nonnull(strstr(json, "\"box\":\t[1, 32, 64]"));
    ck_assert_ptr_nonnull(strstr(json, "\"swizzle\":\t128"));
    ck_assert_ptr_nonnull(strstr(json, "aligned(x, y), mapped(x, y)"));
    tilec_free(json);
    fake->launch = 701;
    hopper_expect_says(hopper_launch(k, &x, &y, NULL), TILEC_MACHINE,
                       "256 threads");
    tilec_kernel_free(k);
}
END_TEST

/* What a TMA copy stores is written, too: it is copied back. */
START_TEST(tma_stores_write)
{
    static const char put_text[] =
        "kernel @put(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>)\n"
        "    aligned(0, 1) warps(4) grid(1) {\n"
        "  %s = smem_alloc : smem<32x32 x f32, #swizzle128>\n"
        "  tma_store block %y[0 +: 32, 0 +: 32], %s\n"
        "  tma_store_wait pending(0)\n"
        "}\n";
    tilec_kernel *k;
    tilec_source source = tilec_text("test.tile", put_text, 0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_90a";
    o.pipeline = "allocate-shared";
    o.no_load = 1;
    tilec_status s = tilec_compile(cx, &source, 1, &o, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    ck_assert_int_eq(tilec_kernel_parameter(k, 0)->written, 0);
    ck_assert_int_eq(tilec_kernel_parameter(k, 1)->written, 1);
    tilec_kernel_free(k);
}
END_TEST

/* Not as changed here, but as code generation says it. */
START_TEST(code_says_what_it_asks_for)
{
    static const unsigned char sizes[] = {8, 4, 4, 8, 8, 4, TC_GPU_MAP_BYTES,
                                          8, 8};
    uint64_t pointers[2];
    fake_map m;
    tensor x;
    hopper_make_tensor(&x, 0x10000);
    x.dl.ndim = 2;
    x.dl.dtype.code = kDLFloat;
    x.strides[0] = 40;
    x.strides[1] = 1;
    x.shape[0] = 3;
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl), tilec_int(NULL, 5)};
    memcpy(fake->sizes, sizes, (size_t)(fake->nsizes = sizeof sizes));
    tilec_kernel *k = compile_machine(cx);
    for (int i = 0; i < 2; i++) {
        tilec_status s = tilec_launch(k, args, 2, NULL, &last_error);
        ck_assert_msg(s == TILEC_OK, "%s", last_error.message);
        ck_assert_uint_eq(fake->block[0], 256);
        memcpy(&m, fake->bytes + 36, sizeof m);
        memcpy(pointers, fake->bytes + 36 + sizeof m, sizeof pointers);
        ck_assert_uint_eq(m.address, 0x10000);
        ck_assert_uint_eq(m.type, 6);
        ck_assert_uint_eq(m.rank, 2);
        ck_assert_uint_eq(m.strides[0], 80);
        ck_assert_uint_eq(m.box[0], 64);
        ck_assert_uint_eq(m.box[1], 32);
        const tc_gpu_loaded *l =
            tc_gpu_first(atomic_load(&k->gpu->variants[TC_GPU_ALIGNED]));
        ck_assert_uint_eq(pointers[1], l->report);
        ck_assert_ptr_nonnull(l->counters);
        ck_assert_ptr_nonnull(l->maps);
        /* And so it is from the cache. */
        tilec_kernel_free(k);
        tilec_context *c = hopper_new_context(FAKE_CUDA, NULL);
        k = compile_machine(c);
        tilec_context_free(c);
    }
    /* Registers would not move between the warps of linked code. */
    ck_assert_int_eq(fake->links, 0);
    ck_assert_int_eq(fake->loads, 3);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(remark_of_a_driver_without_maps)
{
    tilec_context *c = hopper_new_context(old_drivers[_i], NULL);
    c->remarks = true;
    tilec_kernel *k = compile_machine(c);
    const tilec_diagnostic *d = tilec_diagnostics(c);
    while (d && !strstr(d->message, "has no tensor maps (CUDA 12.4)"))
        d = d->next;
    ck_assert_ptr_nonnull(d);
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

START_TEST(limits_are_of_all_threads)
{
    const char *changes[] = {"\"threads\":128", "\"threads\":256", NULL};
    fake->max_threads = 255;
    tilec_context *first = hopper_new_context("/nowhere", NULL);
    tilec_kernel_free(hopper_compile(first, false));
    tilec_context_free(first);
    hopper_change_meta(changes[0], changes[1]);
    tilec_kernel *k;
    ck_assert_int_eq(hopper_compile_with(cx, true, &k), TILEC_MACHINE);
    ck_assert_ptr_nonnull(strstr(tilec_diagnostics(cx)->message,
                                 "@add has blocks of 256 threads"));
}
END_TEST

START_TEST(unsound_entries_are_made_again)
{
    static const char *const changes[][2] = {
        {"\"abi\":2", "\"abi\":1"},
        {"\"threads\":128", "\"threads\":0"},
        {"\"threads\"", "\"strands\""},
        {"\"target\":\"sm_90a\"", "\"target\":\"sm_9\""},
        {"\"maps\":[]", "\"naps\":[]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf61\",128,2,0,0,1,64,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128,2,3,0,1,64,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128,2,1,5,1,64,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128,2,0,0]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128,9,0,0,1,64,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",5,2,0,0,1,64,64]]"},
        {"\"maps\":[]", "\"maps\":[[-1,\"bf16\",128,2,0,0,1,64,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128,2,0,0,1,0,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128,2,0,0,1,1e300,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128,2,0,2147483647,1,64]]"},
        /* What divides: no step, no rows. */
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128,2,1,1,8,0,1,8,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128,2,1,1,0,8,1,8,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128,2,1,1,8,1e9,1,8,64]]"},
        /* Of no tensor of the kernel's. */
        {"\"maps\":[]", "\"maps\":[[2,\"bf16\",128,2,0,0,1,64,64]]"},
        {"\"maps\":[]", "\"maps\":[[9,\"bf16\",128,2,0,0,1,64,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"f16\",128,2,0,0,1,64,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128,1,0,0,1,64]]"},
        {"\"threads\":128", "\"threads\":130"},
        {"\"threads\":128", "\"threads\":64"}};
    int links = 0;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *change[] = {changes[i][0], changes[i][1], NULL};
        tilec_context *c = hopper_new_context(FAKE_CUDA, NULL);
        tilec_kernel_free(hopper_compile_changed(c, change));
        /* Assembled anew: a sound entry has the cubin. */
        ck_assert_int_eq(fake->links, ++links);
        tilec_context_free(c);
    }
}
END_TEST

START_TEST(grids_know_the_device)
{
    tilec_context *c = hopper_new_context("/nowhere", NULL);
    tilec_kernel *k = hopper_compile(cx, true), *away = hopper_compile(c, true);
    tensor x, y;
    int32_t grid[3];
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_int(NULL, 500)};
    ck_assert_int_eq(tilec_launch(k, args, 3, NULL, &last_error), TILEC_OK);
    ck_assert_uint_eq(fake->grid[0], 132);
    ck_assert_int_eq(tilec_kernel_grid(away, args, 3, grid, &last_error),
                     TILEC_OK);
    ck_assert_int_eq(grid[0], 1);
    tilec_kernel_free(k);
    tilec_kernel_free(away);
    tilec_context_free(c);
}
END_TEST

/* ---- Code for one kind of device ---- */

START_TEST(exact_targets)
{
    const tc_target *t = tc_target_get("sm_90a");
    ck_assert(tc_gpu_fits(t, &(tc_cuda_device){.major = 9, .minor = 0}));
    ck_assert(!tc_gpu_fits(t, &(tc_cuda_device){.major = 9, .minor = 1}));
    ck_assert(!tc_gpu_fits(t, &(tc_cuda_device){.major = 10, .minor = 0}));
    ck_assert(!tc_gpu_fits(t, &(tc_cuda_device){.major = 8, .minor = 9}));
    ck_assert(tc_gpu_fits(tc_target_get("sm_90"),
                          &(tc_cuda_device){.major = 10, .minor = 0}));
    tilec_kernel_free(hopper_compile(cx, true));
    ck_assert_uint_eq(fake->target, 0x10000 + 90);
}
END_TEST

START_TEST(later_devices_do_not_run_exact_code)
{
    fake->major = 10;
    /* A driver is asked about its devices once. */
    char copy[100];
    snprintf(copy, sizeof copy, "%s/libcuda.so", folder);
    ck_assert_int_eq(symlink(FAKE_CUDA, copy), 0);
    tilec_context *c = hopper_new_context(copy, NULL);
    ck_assert_str_eq(tc_target_find(c, "auto")->name, "sm_90");
    tilec_kernel *k = hopper_compile(c, true);
    ck_assert_int_eq(fake->loads, 0);
    tensor x, y;
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    hopper_expect_says(
        hopper_launch(k, &x, &y, NULL), TILEC_MACHINE,
        "@add is compiled for sm_90a and does not run on CUDA device "
        "0, Fake 0 (compute capability 10.0)");
    tilec_kernel_free(k);
    tilec_context_free(c);
    unlink(copy);
}
END_TEST

void hopper_entries_tests(TCase *t)
{
    tcase_add_test(t, blocks_have_more_threads);
    tcase_add_test(t, tma_stores_write);
    tcase_add_test(t, code_says_what_it_asks_for);
    tcase_add_loop_test(t, remark_of_a_driver_without_maps, 0, 2);
    tcase_add_test(t, limits_are_of_all_threads);
    tcase_add_test(t, unsound_entries_are_made_again);
    tcase_add_test(t, grids_know_the_device);
    tcase_add_test(t, exact_targets);
    tcase_add_test(t, later_devices_do_not_run_exact_code);
}
