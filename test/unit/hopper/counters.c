/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of tiles: one a stream or captured launch.
 */
#include "test/unit/hopper/fixture.h"

static tilec_kernel *compile_counting(tilec_context *c)
{
    const char *changes[] = {"\"counts\":0", "\"counts\":1", NULL};
    return hopper_compile_changed(c, changes);
}

/* ---- Counters ---- */

static uint64_t counter_of(const tilec_kernel *k, void *stream)
{
    static const unsigned char one[] = {8};
    tensor x, y;
    uint64_t counter;
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    hopper_expect_params(one, 1);
    tilec_status s = hopper_launch(k, &x, &y, stream);
    ck_assert_msg(s == TILEC_OK, "%s", last_error.message);
    memcpy(&counter, fake->bytes + OWN_BYTES, sizeof counter);
    ck_assert_uint_eq(*(uint64_t *)(uintptr_t)counter, 0);
    return counter;
}

START_TEST(streams_have_counters)
{
    tilec_kernel *k = compile_counting(cx);
    int allocs = fake->allocs;
    uint64_t a = counter_of(k, hopper_handle(0x5000)),
             b = counter_of(k, hopper_handle(0x6000));
    ck_assert_uint_ne(a, b);
    ck_assert_uint_eq(counter_of(k, hopper_handle(0x5000)), a);
    ck_assert_uint_eq(counter_of(k, hopper_handle(0x6000)), b);
    uint64_t legacy = counter_of(k, NULL);
    ck_assert(legacy != a && legacy != b);
    ck_assert_uint_eq(counter_of(k, hopper_handle(1)), legacy);
    /* The handle is another stream's now. */
    fake->epoch = 1;
    uint64_t c = counter_of(k, hopper_handle(0x5000));
    ck_assert(c != a && c != b && c != legacy);
    ck_assert_uint_eq(counter_of(k, hopper_handle(0x5000)), c);
    ck_assert_int_eq(fake->allocs, allocs);
    /* Another context has its own. */
    fake_use(0, 0);
    ck_assert_uint_ne(counter_of(k, hopper_handle(0x5000)), c);
    tilec_kernel_free(k);
}
END_TEST

static void *counter_of_thread(void *k)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    uint64_t counter = counter_of(k, hopper_handle(2));
    if (counter != counter_of(k, hopper_handle(2)))
        counter = 0;
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)counter;
}

START_TEST(threads_default_streams_have_counters)
{
    tilec_kernel *k = compile_counting(cx);
    uint64_t mine = counter_of(k, hopper_handle(2));
    void *others[2];
    for (int i = 0; i < 2; i++) {
        pthread_t t;
        pthread_create(&t, NULL, counter_of_thread, k);
        pthread_join(t, &others[i]);
        ck_assert_ptr_nonnull(others[i]);
        ck_assert_uint_ne((uintptr_t)others[i], mine);
    }
    ck_assert_ptr_ne(others[0], others[1]);
    ck_assert_uint_eq(counter_of(k, hopper_handle(2)), mine);
    tilec_kernel_free(k);
}
END_TEST

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

enum { MANY = 6000 };

START_TEST(captured_launches_have_counters)
{
    static uint64_t counters[MANY];
    tilec_kernel *k = compile_counting(cx);
    uint64_t stream = counter_of(k, hopper_handle(0x5000));
    fake->capturing = 1;
    int allocs = fake->allocs;
    for (int i = 0; i < MANY; i++) {
        counters[i] = counter_of(k, hopper_handle(0x5000));
        ck_assert_uint_ne(counters[i], stream);
        ck_assert_int_eq(fake->capturing, 1);
        ck_assert(i > 1000 || fake->allocs == allocs);
    }
    fake->capturing = 0;
    ck_assert_uint_eq(counter_of(k, hopper_handle(0x5000)), stream);
    qsort(counters, MANY, sizeof *counters, by_value);
    for (int i = 1; i < MANY; i++)
        ck_assert_uint_ge(counters[i], counters[i - 1] + 8);
    tilec_kernel_free(k);
    tilec_context_free(cx);
    cx = NULL;
    ck_assert_int_eq(fake->frees, fake->allocs);
}
END_TEST

START_TEST(captures_without_memory)
{
    tilec_kernel *k = compile_counting(cx);
    tensor x, y;
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    fake->capturing = 1;
    fake->alloc = 2;
    tilec_status s = TILEC_OK;
    int n = 0;
    while (s == TILEC_OK && n++ < MANY)
        s = hopper_launch(k, &x, &y, hopper_handle(0x5000));
    ck_assert_int_gt(n, 1000);
    hopper_expect_says(
        s, TILEC_MACHINE,
        "launch of @add on Fake 0: there is no counter left for it, "
        "and no memory for more: CUDA_ERROR_OUT_OF_MEMORY");
    ck_assert_ptr_nonnull(strstr(last_error.message, "tilec_kernel_load"));
    fake->capturing = 0;
    hopper_expect_says(tilec_kernel_load(k, 0, &last_error), TILEC_MACHINE,
                       "no counters for captured launches");
    fake->alloc = 0;
    ck_assert_int_eq(tilec_kernel_load(k, 0, &last_error), TILEC_OK);
    fake->capturing = 1;
    int allocs = fake->allocs;
    ck_assert_int_eq(hopper_launch(k, &x, &y, hopper_handle(0x5000)), TILEC_OK);
    ck_assert_int_eq(fake->allocs, allocs);
    tilec_kernel_free(k);
}
END_TEST

static void *launch_much(void *arg)
{
    tensor x, y;
    tilec_error e = TILEC_INIT(tilec_error);
    hopper_make_tensor(&x, 0x10000);
    hopper_make_tensor(&y, 0x20000);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_int(NULL, 5)};
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    for (uintptr_t i = 0; i < 500; i++) {
        o.stream = hopper_handle(0x1000 * (1 + i % 20));
        if (tilec_launch(arg, args, 3, &o, &e))
            return NULL;
    }
    return arg;
}

START_TEST(threads_share_counters)
{
    tilec_kernel *k = compile_counting(cx);
    pthread_t t[4];
    fake->nsizes = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, launch_much, k);
    for (int i = 0; i < 4; i++) {
        void *ok;
        pthread_join(t[i], &ok);
        ck_assert_ptr_eq(ok, k);
    }
    tilec_kernel_free(k);
}
END_TEST

void hopper_counters_tests(TCase *t)
{
    tcase_add_test(t, streams_have_counters);
    tcase_add_test(t, captured_launches_have_counters);
    tcase_add_test(t, captures_without_memory);
}

void hopper_counters_threads_tests(TCase *t)
{
    tcase_add_test(t, threads_default_streams_have_counters);
    tcase_add_test(t, threads_share_counters);
}
