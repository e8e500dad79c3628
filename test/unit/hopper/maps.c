/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor maps: made, kept, refused.
 */
#include "test/unit/hopper/fixture.h"

static void expect_maps(void)
{
    static const unsigned char two[] = {TC_GPU_MAP_BYTES, TC_GPU_MAP_BYTES};
    hopper_expect_params(two, 2);
}

static tilec_kernel *compile_mapped(tilec_context *c)
{
    const char *changes[] = {"\"maps\":[]", maps, NULL};
    expect_maps();
    return hopper_compile_changed(c, changes);
}

/* ---- Tensor maps ---- */

static bool has_any(const tilec_kernel *k)
{
    return atomic_load(&k->gpu->variants[TC_GPU_ANY]) != NULL;
}

START_TEST(maps_are_handed_over)
{
    tilec_kernel *k = compile_mapped(cx);
    tensor x, y;
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    /* Where the driver says. */
    const tc_gpu_loaded *l = tc_gpu_first(atomic_load(&k->gpu->variants[0]));
    ck_assert_uint_ge(l->maps_at, OWN_BYTES);
    ck_assert_uint_eq(l->maps_at % TC_GPU_MAP_ALIGN, 48);
    fake_map m = hopper_map_of(0), n = hopper_map_of(1);
    ck_assert_uint_eq(m.address, 0x10000);
    ck_assert_uint_eq(m.type, 9);
    ck_assert_uint_eq(m.rank, 3);
    ck_assert_uint_eq(m.swizzle, 3);
    ck_assert_uint_eq(m.promotion, 3);
    ck_assert_uint_eq(m.interleave, 0);
    ck_assert_uint_eq(m.fill, 0);
    const unsigned long long sizes[] = {64, 40, 3}, strides[] = {384, 128};
    const unsigned boxes[2][3] = {{64, 64, 1}, {64, 32, 1}};
    ck_assert_mem_eq(m.sizes, sizes, sizeof sizes);
    ck_assert_mem_eq(m.strides, strides, sizeof strides);
    ck_assert_mem_eq(m.box, boxes[0], sizeof boxes[0]);
    ck_assert_uint_eq(n.address, 0x20000);
    ck_assert_uint_eq(n.swizzle, 2);
    ck_assert_mem_eq(n.box, boxes[1], sizeof boxes[1]);
    ck_assert(!has_any(k));
    tilec_kernel_free(k);
}
END_TEST

/* The map's dims are by their strides. */
START_TEST(another_dim_is_the_closest)
{
    static const char program[] =
        "kernel @add(%x: tensor<[?, ?, 64] x bf16, contiguous(1)>,\n"
        "            %y: tensor<[?, ?, 64] x bf16>, %n: i32) grid(1) {\n"
        "  %a = load %x[0, 0 +: 64, 0 +: 64] boundary(1)\n"
        "  store %y[0, 0 +: 64, 0 +: 64], %a + %a boundary(1)\n"
        "}\n";
    const char *changes[] = {"\"maps\":[]",
                             "\"maps\":[[0,\"bf16\",64,1,0,0,1,32,64],"
                             "[1,\"bf16\",128,2,0,0,1,64,64]]",
                             NULL};
    expect_maps();
    tilec_kernel *k = hopper_compile_text_changed(cx, program, changes);
    tensor x, y;
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    x.strides[0] = 4000;
    x.strides[1] = 1;
    x.strides[2] = 56;
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    fake_map m = hopper_map_of(0);
    const unsigned long long sizes[] = {40, 64, 3}, strides[] = {112, 8000};
    const unsigned box[] = {32, 64, 1};
    ck_assert_mem_eq(m.sizes, sizes, sizeof sizes);
    ck_assert_mem_eq(m.strides, strides, sizeof strides);
    ck_assert_mem_eq(m.box, box, sizeof box);
    tilec_kernel_free(k);
}
END_TEST

/* Rows in another order are dims of the map; the others are counted along the
 * first one. */
START_TEST(rows_are_taken_apart)
{
    const char *changes[] = {
        "\"maps\":[]",
        "\"maps\":[[0,\"bf16\",128,2,1,3,2,4,4,1,4,8,1,32,64],"
        "[1,\"bf16\",128,2,0,0,1,64,64]]",
        NULL};
    expect_maps();
    tilec_kernel *k = hopper_compile_changed(cx, changes);
    tensor x, y;
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    fake_map m = hopper_map_of(0);
    const unsigned long long sizes[] = {2 * 64 + 64, 2, 4, 40 / 8};
    const unsigned long long strides[] = {4 * 384, 384, 8 * 384};
    const unsigned box[] = {64, 2, 4, 4};
    ck_assert_uint_eq(m.rank, 4);
    ck_assert_mem_eq(m.sizes, sizes, sizeof sizes);
    ck_assert_mem_eq(m.strides, strides, sizeof strides);
    ck_assert_mem_eq(m.box, box, sizeof box);
    ck_assert(!has_any(k));
    /* A stride that no map can have. */
    x.strides[0] = -64;
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert(has_any(k));
    tilec_kernel_free(k);
}
END_TEST

/* Sizes that are no multiples: a variant of their own, aligned as the first. */
START_TEST(sizes_choose_the_variant)
{
    tilec_kernel *k = compile_mapped(cx);
    tc_func *f = (tc_func *)(uintptr_t)k->func;
    tensor x, y;
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    /* The others are made as the first one was. */
    ck_assert_int_eq(k->gpu->options.enforce, TILEC_ENFORCE_WARN);
    f->multiples[f->nmultiples++] = (tc_multiple){0, 1, 8};
    ck_assert_str_eq(tc_gpu_predicate_of(k, TC_GPU_ALIGNED).text,
                     "aligned(x, y), mapped(x, y), multiples(x.1: 8)");
    ck_assert_str_eq(tc_gpu_predicate_of(k, TC_GPU_UNEVEN).text,
                     "aligned(x, y), mapped(x, y)");
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_ptr_null(atomic_load(&k->gpu->variants[TC_GPU_UNEVEN]));
    x.shape[1] = 39;
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_ptr_nonnull(atomic_load(&k->gpu->variants[TC_GPU_UNEVEN]));
    ck_assert(!has_any(k));
    /* Elements too far from the first. */
    atomic_store(&k->gpu->variants[TC_GPU_ANY], NULL);
    x.shape[1] = 40;
    x.strides[0] = (int64_t)1 << 30;
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert(!has_any(k));
    tilec_kernel_free(k);
}
END_TEST

START_TEST(maps_are_kept)
{
    tilec_kernel *k = compile_mapped(cx);
    tensor x, y;
    hopper_make_tensor(&y, 0x20000);
    for (int i = 0; i < 12; i++) {
        hopper_make_tensor(&x, (uintptr_t)0x10000 + 0x1000 * (i % 4));
        ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
        ck_assert_uint_eq(hopper_map_of(0).address, (uintptr_t)x.dl.data);
    }
    ck_assert_int_eq(fake->encodes, 5);
    /* Another size or stride is another map. */
    x.shape[1]--;
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_uint_eq(hopper_map_of(0).sizes[1], 39);
    x.strides[1] += 8;
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_uint_eq(hopper_map_of(0).strides[0], 400);
    ck_assert_int_eq(fake->encodes, 7);
    /* More than are kept. */
    for (int i = 0; i < 40; i++) {
        hopper_make_tensor(&x, (uintptr_t)0x100000 + 0x1000 * (i % 20));
        ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
        ck_assert_uint_eq(hopper_map_of(0).address, (uintptr_t)x.dl.data);
        ck_assert_uint_eq(hopper_map_of(1).address, 0x20000);
    }
    tilec_kernel_free(k);
}
END_TEST

/* The driver takes no size of 0, and any stride where none is walked. */
START_TEST(empty_and_flat_tensors_have_maps)
{
    tilec_kernel *k = compile_mapped(cx);
    tensor x, y;
    hopper_make_tensor(&x, 0);
    hopper_make_tensor(&y, 0x20000);
    x.shape[1] = 0;
    y.shape[0] = 1;
    y.strides[0] = 7;
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    fake_map m = hopper_map_of(0), n = hopper_map_of(1);
    const unsigned long long ones[] = {1, 1, 1};
    ck_assert_mem_eq(m.sizes, ones, sizeof ones);
    ck_assert_uint_eq(m.address,
                      tc_gpu_first(atomic_load(&k->gpu->variants[0]))->spare);
    ck_assert_uint_eq(n.strides[1], 384 * 40);
    /* Rows that are all the same one are walked, by strides of 0. */
    y.strides[1] = 0;
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_uint_eq(hopper_map_of(1).strides[0], 0);
    ck_assert(!has_any(k));
    tilec_kernel_free(k);
}
END_TEST

START_TEST(what_has_no_map_takes_the_second_variant)
{
    tilec_kernel *k = compile_mapped(cx);
    tensor x, y;
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    ck_assert_str_eq(tc_gpu_predicate_of(k, TC_GPU_ALIGNED).text,
                     "aligned(x, y), mapped(x, y)");
    x.strides[0] = (int64_t)1 << 39;
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert(has_any(k));
    ck_assert_int_eq(fake->encodes, 0);
    x.strides[0] = -64;
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_int_eq(fake->encodes, 0);
    hopper_make_tensor(&x, 0x10000);
    fake->encode = 1;
    ck_assert_int_eq(hopper_launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_int_eq(fake->encodes, 1);
    ck_assert_int_eq(fake->launches, 3);
    /* A stream that is captured wants it loaded before. */
    fake->capturing = 1;
    ck_assert_int_eq(hopper_launch(k, &x, &y, &x), TILEC_OK);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(second_variant_has_no_maps_itself)
{
    tilec_kernel *k = compile_mapped(cx);
    tensor x, y;
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    /* As code would be that asks for maps whatever the tensors are. */
    tc_gpu_code *code = atomic_load(&k->gpu->variants[TC_GPU_ALIGNED]);
    atomic_store(&k->gpu->variants[TC_GPU_ANY], tc_gpu_code_ref(code));
    fake->encode = 1;
    hopper_expect_says(
        hopper_launch(k, &x, &y, NULL), TILEC_INPUT,
        "argument x: no tensor map can be made of it, and @add has no "
        "code that does without: the driver makes no tensor map of "
        "its sizes and strides");
    tilec_kernel_free(k);
}
END_TEST

START_TEST(driver_without_maps)
{
    tilec_context *c = hopper_new_context(old_drivers[_i], NULL);
    tilec_kernel *k = compile_mapped(c);
    tensor x, y;
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    tilec_status s = hopper_launch(k, &x, &y, NULL);
    ck_assert_msg(s == TILEC_OK, "%s", last_error.message);
    ck_assert(has_any(k));
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

START_TEST(places_that_are_not_found)
{
    const char *changes[] = {"\"maps\":[]", maps, NULL};
    tilec_kernel *k;
    tilec_context *first = hopper_new_context("/nowhere", NULL);
    tilec_kernel_free(hopper_compile(first, false));
    tilec_context_free(first);
    hopper_change_meta(changes[0], changes[1]);
    hopper_expect_params(NULL, 0);
    ck_assert_int_eq(hopper_compile_with(cx, true, &k), TILEC_MACHINE);
    ck_assert_ptr_nonnull(
        strstr(tilec_diagnostics(cx)->message, "@add does not load on Fake 0"));
    ck_assert_int_eq(fake->unloads, fake->loads);
}
END_TEST

/* Threads that use more tensors than are kept see whole maps only. */
struct user {
    const tilec_kernel *k;
    unsigned first;
    bool ok;
};

static void *use_maps(void *arg)
{
    struct user *u = arg;
    const tc_gpu_code *code = atomic_load(&u->k->gpu->variants[0]);
    static const int32_t sizes[] = {3, 40, 64};
    static const int64_t strides[] = {64, 192, 1};
    _Alignas(TC_GPU_MAP_ALIGN) unsigned char bytes[TC_GPU_MAP_BYTES];
    u->ok = true;
    for (unsigned i = 0; i < 20000; i++) {
        uintptr_t address = 0x10000 * (1 + (i + u->first) % 10);
        tc_launch_arg args[] = {
            {.sizes = sizes, .strides = strides, .data = (void *)address}};
        fake_map m;
        const char *why = tc_gpu_map(tc_gpu_first(code), tc_gpu_code_meta(code),
                                     0, args, bytes);
        memcpy(&m, bytes, sizeof m);
        u->ok &= !why && m.address == address && m.type == 9 && m.rank == 3 &&
                 m.promotion == 3;
    }
    return NULL;
}

START_TEST(threads_share_maps)
{
    tilec_kernel *k = compile_mapped(cx);
    pthread_t threads[4];
    struct user users[4];
    for (unsigned i = 0; i < 4; i++) {
        users[i] = (struct user){k, 3 * i, false};
        pthread_create(&threads[i], NULL, use_maps, &users[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(users[i].ok);
    }
    tilec_kernel_free(k);
}
END_TEST

void hopper_maps_tests(TCase *t)
{
    tcase_add_test(t, maps_are_handed_over);
    tcase_add_test(t, another_dim_is_the_closest);
    tcase_add_test(t, rows_are_taken_apart);
    tcase_add_test(t, sizes_choose_the_variant);
    tcase_add_test(t, maps_are_kept);
    tcase_add_test(t, empty_and_flat_tensors_have_maps);
    tcase_add_test(t, what_has_no_map_takes_the_second_variant);
    tcase_add_test(t, second_variant_has_no_maps_itself);
    tcase_add_loop_test(t, driver_without_maps, 0, 2);
    tcase_add_test(t, places_that_are_not_found);
}

void hopper_maps_threads_tests(TCase *t)
{
    tcase_add_test(t, threads_share_maps);
}
