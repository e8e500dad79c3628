/* SPDX-License-Identifier: Apache-2.0
 *
 * Out of memory; several threads.
 */
#include "test/unit/api/fixture.h"

/* ---- Out of memory ---- */

/* Each allocation of a compile fails in turn. */
START_TEST(out_of_memory_is_a_status)
{
    static const char *const b[] = {"D", "8"};
    unsigned long n = 1;
    for (;; n += n < 400 ? 1 : n / 40) {
        tilec_kernel *k = NULL;
        cx->memory.fail_after = n;
        tilec_status s = api_compile_text(cx, scale_text, b, 1, &k);
        bool reached = cx->memory.fail_after == 0;
        cx->memory.fail_after = 0;
        if (!reached) {
            ck_assert_int_eq(s, TILEC_OK);
            tilec_kernel_free(k);
            break;
        }
        ck_assert_int_eq(s, TILEC_MACHINE);
        ck_assert_ptr_null(k);
        ck_assert_str_eq(tilec_diagnostics(cx)->message, "out of memory");
        ck_assert_uint_eq(tilec_error_count(cx), 1);
    }
    ck_assert_uint_gt(n, 1);
    /* The context is as good as new. */
    tilec_kernel_free(api_scale_kernel(cx));
}
END_TEST

/* ---- Threads ---- */

static void *launch_many(void *arg)
{
    const tilec_kernel *k = arg;
    matrix x, y;
    tilec_error e = TILEC_INIT(tilec_error);
    for (int i = 0; i < 20; i++) {
        api_fill(&x, 40, (float)i);
        api_fill(&y, 40, 0);
        tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                                 tilec_tensor(NULL, &y.dl),
                                 tilec_float(NULL, i), tilec_int(NULL, i)};
        if (tilec_launch(k, args, 4, NULL, &e) != TILEC_OK)
            return "launch failed";
        for (int64_t j = 0; j < 320; j++)
            if (y.data[j] != x.data[j] * (float)i + (float)i)
                return "a wrong value";
        x.shape[0] = 3;
        if (tilec_launch(k, args, 4, NULL, &e) != TILEC_INPUT ||
            strcmp(
                e.message,
                "launch of @scale: x and y must have the same rows: found 3, "
                "expected 40") != 0)
            return "a wrong last_error";
        char *text;
        if (i % 10 == 0) {
            if (tilec_kernel_emit(k, "tile", &text, &e) != TILEC_OK)
                return "emit failed";
            tilec_free(text);
        }
    }
    return NULL;
}

static void *compile_some(void *arg)
{
    static const char *const b[] = {"D", "8"};
    (void)arg;
    for (int i = 0; i < 3; i++) {
        tilec_context *c;
        tilec_kernel *k, *bad;
        if (tilec_context_new(NULL, &c) != TILEC_OK)
            return "no context";
        if (api_compile_text(c, "kernel @bad", NULL, 0, &bad) != TILEC_INPUT ||
            !tilec_diagnostics(c))
            return "no diagnostics";
        if (api_compile_text(c, scale_text, b, 1, &k) != TILEC_OK)
            return "no kernel";
        tilec_context_free(c);
        void *wrong = launch_many(k);
        tilec_kernel_free(k);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static void run_twice(void *(*run)(void *), void *arg)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run, arg), 0);
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_msg(!wrong, "%s", (char *)wrong);
    }
}

START_TEST(two_contexts_on_two_threads)
{
    run_twice(compile_some, NULL);
}
END_TEST

START_TEST(one_kernel_from_two_threads)
{
    tilec_kernel *k = api_scale_kernel(cx);
    run_twice(launch_many, k);
    tilec_kernel_free(k);
}
END_TEST

void api_limits_tests(TCase *t)
{
    tcase_add_test(t, out_of_memory_is_a_status);
    tcase_add_test(t, two_contexts_on_two_threads);
    tcase_add_test(t, one_kernel_from_two_threads);
}
