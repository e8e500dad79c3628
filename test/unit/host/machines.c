/* SPDX-License-Identifier: Apache-2.0
 *
 * The same kernel on several machines gives the same; many threads; running
 * out of memory at every place.
 */
#include "test/unit/host/fixture.h"

#include "codegen/host/runtime/runtime.h"
#include "passes/passes.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <string.h>
#include <time.h>

/* Softmax and product of narrow tiles: of all families something. */
static const char mixed_text[] =
    "kernel @k(%x: tensor<[?, ?] x bf16>, %w: tensor<[?, ?] x f16>,\n"
    "    %y: tensor<[?, ?] x f32>, %n: i32) grid(3) {\n"
    "  %r = program_id(0) * 24\n"
    "  %t = load %x[%r +: 24, 0 +: 40] boundary(0, 1)\n"
    "  %a = load %w[0 +: 56, 0 +: 40] boundary(0, 1)\n"
    "  %see = range(40)[none, :] / 3 + %r + range(24)[:, none] < %n\n"
    "  %s = select(%see, cast(%t, f32) * 0.25, -inf)\n"
    "  %m = max(%s, axis=1)\n"
    "  %e = exp2(%s - select(%m == -inf, 0.0, %m)[:, none])\n"
    "  %d = dot(cast(%e, f16), trans(%a))\n"
    "  %l = sum(%e, axis=1)\n"
    "  %o = tanh(%d) / (%l + 1.0)[:, none]\n"
    "  store %y[%r +: 24, 0 +: 56], %o boundary(0, 1)\n"
    "}\n";

static void run_mixed(const tc_host_options *o, unsigned threads, float *out)
{
    ck_assert_msg(host_try(mixed_text, o), "%s", host_error());
    host_tensor x = host_new(2, 2, (int32_t[]){61, 37});
    host_tensor w = host_new(2, 2, (int32_t[]){50, 37});
    host_tensor y = host_new(4, 2, (int32_t[]){61, 50});
    for (size_t i = 0; i < x.count; i++)
        ((uint16_t *)x.data)[i] = (uint16_t)(0x3f80 + i * 7 % 300);
    for (size_t i = 0; i < w.count; i++)
        ((uint16_t *)w.data)[i] = (uint16_t)(0x2c00 + i * 13 % 900);
    tc_launch_arg args[] = {host_arg(&x), host_arg(&w), host_arg(&y),
                            host_int(50)};
    ck_assert(threads ? host_launch_threads(args, threads) : host_launch(args));
    memcpy(out, y.data, y.count * sizeof *out);
    host_close();
}

START_TEST(machines_agree)
{
    static float here[61 * 50], there[61 * 50];
    run_mixed(NULL, 0, here);
    ck_assert(here[0] > 0 && here[60 * 50] == 0);
    for (unsigned i = 0; i < host_nmachines; i++) {
        run_mixed(&host_machines[i], 0, there);
        for (int j = 0; j < 61 * 50; j++)
            ck_assert_msg(fabsf(here[j] - there[j]) <= 1e-5f * fabsf(here[j]),
                          "machine %u [%d]: %g, here %g", i, j,
                          (double)there[j], (double)here[j]);
    }
    run_mixed(NULL, 5, there);
    ck_assert_mem_eq(here, there, sizeof here);
}
END_TEST

/* A loop that computes several lanes at a time reads i16 while it writes i32:
 * the two do not share scratch memory, although both take one cache line. */
START_TEST(narrow_and_wide_apart)
{
    static const char text[] =
        "kernel @k(%o: tensor<[?, ?] x bf16>) grid(1) {\n"
        "  %s = sort splat(1.0, tile<8 x bf16>) axis(0) descending(true)\n"
        "  %t = reshape %s : tile<8x1 x bf16>\n"
        "  store %o[0 +: 1, 7 - range(8)], %t\n"
        "}\n";
    for (unsigned i = 0; i < host_nmachines; i++) {
        ck_assert_msg(host_try(text, &host_machines[i]), "%s", host_error());
        host_tensor o = host_new(2, 2, (int32_t[]){1, 8});
        tc_launch_arg args[] = {host_arg(&o)};
        ck_assert(host_launch(args));
        for (int j = 0; j < 8; j++)
            ck_assert_uint_eq(((const uint16_t *)o.data)[j], 0x3f80);
        host_close();
    }
}
END_TEST

/* One kernel, launched from several threads at once. */
static void *launch_often(void *arg)
{
    const tc_launch_arg *args = arg;
    tc_host_report report;
    tc_host_launch_options o = {.threads = 3, .parallel_for = host_run};
    for (int i = 0; i < 20; i++)
        if (!tc_host_launch(host.kernel, args, (int32_t[]){64, 1, 1}, &o,
                            &report))
            return arg;
    return NULL;
}

START_TEST(launches_at_once)
{
    host_compile("kernel @k(%c: ptr<i32>) grid(64) {\n"
                 "  %old = atomic %c, 1 kind(add)\n"
                 "}\n");
    int32_t *count = host_memory(4, true);
    tc_launch_arg args[] = {{.data = count}};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, launch_often, args);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_int_eq(*count, 4 * 20 * 64);
}
END_TEST

/* Sums of floats in one order, by any number of threads; a program that fails
 * lets go of those that wait for it. */
START_TEST(programs_in_order)
{
    host_compile("kernel @k(%x: tensor<[1] x f32>, %turn: ptr<i32>,\n"
                 "    %bad: i32) grid(300) {\n"
                 "  %i = program_id(0)\n"
                 "  assert %i != %bad, \"bad\"\n"
                 "  follow %turn + %i, %turn + max(%i - 1, 0), 0\n"
                 "  store %x[0 +: 1], splat(1.0 / cast(%i + 1, f32),\n"
                 "      tile<1 x f32>) kind(add)\n"
                 "  follow_end %turn + %i, %turn + max(%i - 1, 0)\n"
                 "}\n");
    const int32_t size = 1;
    const int64_t stride = 1;
    float *x = host_memory(4, true), want = 0;
    int32_t *turn = host_memory(300 * 4, true);
    tc_launch_arg args[] = {{.sizes = &size, .strides = &stride, .data = x},
                            {.data = turn},
                            {.scalar.i = -1}};
    for (int i = 0; i < 300; i++)
        want += 1.0f / (float)(i + 1);
    for (unsigned threads = 1; threads <= 8; threads++) {
        *x = 0;
        memset(turn, 0, 300 * 4);
        ck_assert(host_launch_threads(args, threads));
        ck_assert_float_eq(*x, want);
        ck_assert_int_eq(turn[299], INT32_MAX);
    }
    memset(turn, 0, 300 * 4);
    args[2].scalar.i = 140;
    ck_assert(!host_launch_threads(args, 4));
    ck_assert_int_eq(turn[140], 0);
}
END_TEST

typedef struct following {
    tc_run_thread thread;
    int32_t own, ahead;
} following;

static void *follow_step(void *arg)
{
    following *f = arg;
    return tc_host_rt_follow(&f->thread, &f->own, &f->ahead, 5) ? f : NULL;
}

static int32_t word_of(const int32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Nothing is published while the program ahead has steps before that one to
 * do, and nothing of a step that is none. */
START_TEST(waits_before_it_publishes)
{
    tc_run r = {0};
    following f = {.thread.run = &r, .ahead = 4};
    pthread_t thread;
    void *ok;
    ck_assert(tc_host_rt_follow(&f.thread, &f.own, &f.ahead, -1));
    ck_assert_int_eq(f.own, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, follow_step, &f), 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    ck_assert_int_eq(word_of(&f.own), 0);
    __atomic_store_n(&f.ahead, 5, __ATOMIC_RELEASE);
    while (word_of(&f.own) != 5)
        sched_yield();
    __atomic_store_n(&f.ahead, 6, __ATOMIC_RELEASE);
    ck_assert_int_eq(pthread_join(thread, &ok), 0);
    ck_assert_ptr_nonnull(ok);
}
END_TEST

/* Contexts of their own compile at once. */
static void *compile_alone(void *arg)
{
    void *volatile failed = arg;
    tc_context *cx = tc_context_new();
    jmp_buf unwind;
    cx->memory.unwind = &unwind;
    if (setjmp(unwind))
        return failed;
    tc_module *m = tc_module_new(cx);
    uint32_t source =
        tc_source_add(cx, "test.tile", mixed_text, strlen(mixed_text));
    tc_pass_options none = {0};
    tc_host_kernel *k = NULL;
    if (tc_parse(m, source) && tc_run_pipeline(m, "cpu", &none))
        k = tc_host_compile(m->first, NULL);
    tc_module_free(m);
    tc_context_free(cx);
    tc_host_free(k);
    return k ? NULL : failed;
}

START_TEST(compiles_at_once)
{
    pthread_t threads[4];
    int mark = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, compile_alone, &mark);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
}
END_TEST

/* A failing allocation unwinds, and the next compile works. */
START_TEST(out_of_memory)
{
    host_compile(mixed_text);
    static jmp_buf unwind;
    static volatile unsigned long n;
    static tc_host_kernel *volatile k;
    for (n = 1, k = NULL; !k; n++) {
        host.cx->memory.unwind = &unwind;
        host.cx->memory.fail_after = n;
        if (setjmp(unwind) == 0)
            k = tc_host_compile(host.func, NULL);
        host.cx->memory.fail_after = 0;
    }
    ck_assert_uint_gt(n, 2);
    tc_host_free(k);
}
END_TEST

/* Passes may have been left out. */
static void expect_no_code(const char *text, const char *message)
{
    tc_context *cx = tc_context_new();
    tc_module *m = tc_module_new(cx);
    tc_pass_options none = {0};
    uint32_t source = tc_source_add(cx, "test.tile", text, strlen(text));
    ck_assert(tc_parse(m, source) && tc_run_pipeline(m, "inline", &none));
    ck_assert_ptr_null(tc_host_compile(m->first, NULL));
    ck_assert_str_eq(cx->diags->message, message);
    tc_module_free(m);
    tc_context_free(cx);
}

START_TEST(bisections_have_no_code)
{
    expect_no_code("kernel @k(%starts: tensor<[?] x i32>) grid(1) {\n"
                   "  print \"\", bisect(%starts, range(8))\n"
                   "}\n",
                   "@k: has a bisect, for which the CPU target has no code: "
                   "run expand-bisections before");
}
END_TEST

START_TEST(storage_types_have_no_code)
{
    expect_no_code("kernel @k(%x: tensor<[?] x u8>) grid(1) {\n"
                   "  print \"\", cast(load(%x[0 +: 8]), i32)\n"
                   "}\n",
                   "block: block_ptr<8 x u8>, of a storage type: code for the "
                   "CPU takes the ints that hold its codes, `lower-storage` "
                   "comes first");
}
END_TEST

void host_machine_tests(TCase *t)
{
    tcase_add_test(t, storage_types_have_no_code);
    tcase_add_test(t, bisections_have_no_code);
    tcase_add_test(t, machines_agree);
    tcase_add_test(t, narrow_and_wide_apart);
    tcase_add_test(t, launches_at_once);
    tcase_add_test(t, programs_in_order);
    tcase_add_test(t, waits_before_it_publishes);
    tcase_add_test(t, compiles_at_once);
    tcase_add_test(t, out_of_memory);
}
