/* SPDX-License-Identifier: Apache-2.0
 *
 * Each call of the driver fails in turn, of code with tensor maps and a counter
 * of tiles (all else: test/unit/gpu/failures.c).
 */
#include "test/unit/hopper/fixture.h"

static unsigned nrefused;

static void note(tilec_status s)
{
    if (s == TILEC_OK)
        return;
    nrefused++;
    ck_assert_msg(s == TILEC_MACHINE, "call %d: %s", fake->fail_at,
                  last_error.message);
}

/* From the cache, where the code was changed. */
static void use_kernel(tilec_context *c)
{
    tilec_kernel *k = NULL;
    note(hopper_compile_with(c, true, &k));
    if (!k) {
        ck_assert_ptr_nonnull(tilec_diagnostics(c));
        return;
    }
    tilec_status loaded = tilec_kernel_load(k, 0, &last_error);
    note(loaded);
    for (uintptr_t i = 1; loaded == TILEC_OK && i < 4; i++) {
        tensor x, y;
        hopper_make_tensor(&x, 0x10000 * i);
        hopper_make_tensor(&y, 0x50000);
        fake->capturing = i == 3;
        note(hopper_launch(k, &x, &y, hopper_handle(0x5000)));
        fake->capturing = 0;
    }
    tilec_kernel_free(k);
}

static void use_all(void)
{
    fake->allocs = fake->frees = fake->loads = fake->unloads = 0;
    fake->lost = 0;
    nrefused = 0;
    tilec_context *c = hopper_new_context(FAKE_CUDA, NULL);
    use_kernel(c);
    tilec_context_free(c);
    /* What is in a context that cannot be made current is gone with it. */
    if (!fake->lost) {
        ck_assert_int_eq(fake->allocs, fake->frees);
        ck_assert_int_eq(fake->loads, fake->unloads);
    }
    ck_assert_int_eq(fake->pushes, fake->pops);
    ck_assert_int_eq(fake->made, fake->dropped);
}

START_TEST(each_call_of_the_driver_fails)
{
    static const unsigned char more[] = {TC_GPU_MAP_BYTES, TC_GPU_MAP_BYTES, 8};
    const char *changes[] = {"\"maps\":[]", maps, "\"counts\":0",
                             "\"counts\":1", NULL};
    int at = 0, nsaid = 0;
    hopper_expect_params(more, 3);
    tilec_kernel_free(hopper_compile_changed(cx, changes));
    tilec_context_free(cx);
    cx = NULL;
    do {
        fake->fail_at = ++at;
        fake->calls = 0;
        use_all();
        ck_assert_uint_le(nrefused, 1);
        nsaid += nrefused;
    } while (fake->calls >= at);
    fake->fail_at = 0;
    int nlaunches = fake->launches;
    use_all();
    ck_assert_uint_eq(nrefused, 0);
    ck_assert_int_eq(fake->launches, nlaunches + 3);
    ck_assert_int_gt(nsaid, 10);
}
END_TEST

void hopper_failures_tests(TCase *t)
{
    tcase_add_test(t, each_call_of_the_driver_fails);
}
