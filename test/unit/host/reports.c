/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel says: failed checks and asserts with their place, prints, and
 * the errors of compiling.
 */
#include "test/unit/host/fixture.h"

#include <stdlib.h>
#include <string.h>

/* ---- At run time ---- */

static void expect_report(const char *message, unsigned line, int program)
{
    ck_assert(host.report.failed);
    ck_assert_str_eq(host.report.message, message);
    ck_assert_uint_eq(host.report.loc.line, line);
    ck_assert_int_eq(host.report.program[0], program);
}

static const char window_text[] =
    "kernel @k(%q: tensor<[?, ?, ?] x f32>, %h: i32, %r: i32)\n"
    "    grid(size(%q, 1) / 16 + 1) {\n"
    "  %i = program_id(0) * 16 + %r\n"
    "  %t = load %q[%h, %i +: 16, 0 +: 8]\n"
    "  store %q[%h, %i +: 16, 0 +: 8], %t + 1.0\n"
    "}\n";

START_TEST(load_beyond_the_end)
{
    host_compile(window_text);
    host_tensor q = host_new(4, 3, (int32_t[]){2, 100, 8});
    tc_launch_arg args[] = {host_arg(&q), host_int(1), host_int(0)};
    ck_assert(!host_launch(args));
    expect_report("load reads 96 to 111 of dim 1 of %q, whose size is 100: add "
                  "boundary(0)",
                  4, 6);
    ck_assert_float_eq(((float *)q.data)[0], 0);
    ck_assert_float_eq(((float *)q.data)[800], 1);
}
END_TEST

START_TEST(load_before_the_start)
{
    host_compile(window_text);
    host_tensor q = host_new(4, 3, (int32_t[]){2, 96, 8});
    tc_launch_arg args[] = {host_arg(&q), host_int(0), host_int(-3)};
    ck_assert(!host_launch(args));
    expect_report("load reads -3 to 12 of dim 1 of %q, whose size is 96: add "
                  "boundary(0)",
                  4, 0);
}
END_TEST

START_TEST(index_that_is_dropped)
{
    host_compile(window_text);
    host_tensor q = host_new(4, 3, (int32_t[]){2, 96, 8});
    tc_launch_arg args[] = {host_arg(&q), host_int(2), host_int(0)};
    ck_assert(!host_launch(args));
    expect_report("load reads index 2 of dim 0 of %q, whose size is 2", 4, 0);
    args[1] = host_int(-1);
    ck_assert(!host_launch(args));
    expect_report("load reads index -1 of dim 0 of %q, whose size is 2", 4, 0);
}
END_TEST

START_TEST(store_beyond_the_end)
{
    host_compile("kernel @k(%q: tensor<[?] x f32>) grid(3) {\n"
                 "  store %q[program_id(0) * 8 +: 8],\n"
                 "    splat(1.0, tile<8 x f32>)\n"
                 "}\n");
    host_tensor q = host_new(4, 1, (int32_t[]){23});
    tc_launch_arg args[] = {host_arg(&q)};
    ck_assert(!host_launch(args));
    expect_report("store writes 16 to 23 of dim 0 of %q, whose size is 23: add "
                  "boundary(0)",
                  2, 2);
}
END_TEST

START_TEST(asserts)
{
    host_compile("kernel @k(%n: i32) grid(10) {\n"
                 "  %p = program_id(0)\n"
                 "  assert %p < %n, \"100% sure: %s\"\n"
                 "  assert range(64) + %p < %n + 60,\n"
                 "    \"lanes\"\n"
                 "}\n");
    tc_launch_arg args[] = {host_int(7)};
    ck_assert(!host_launch(args));
    expect_report("assertion failed: lanes", 4, 4);
    args[0] = host_int(0);
    ck_assert(!host_launch(args));
    expect_report("assertion failed: 100% sure: %s", 3, 0);
    args[0] = host_int(13);
    ck_assert(host_launch(args));
}
END_TEST

/* One failure stops the other programs soon. */
START_TEST(failure_stops_the_launch)
{
    host_compile("kernel @k(%c: ptr<i64>) grid(1000000000, 4) {\n"
                 "  %old = atomic %c, cast(1, i64) kind(add)\n"
                 "  assert %old != 100, \"stop\"\n"
                 "}\n");
    int64_t *count = host_memory(8, true);
    tc_launch_arg args[] = {{.data = count}};
    ck_assert(!host_launch_threads(args, 2));
    ck_assert_str_eq(host.report.message, "assertion failed: stop");
    ck_assert_int_lt(*count, 100000);
}
END_TEST

START_TEST(empty_and_huge_grids)
{
    host_compile("kernel @k(%n: i32) grid(%n, 2147483647, 2147483647) {\n"
                 "  assert false, \"ran\"\n"
                 "}\n");
    tc_launch_arg args[] = {host_int(0)};
    ck_assert(host_launch_threads(args, 2));
    args[0] = host_int(2147483647);
    ck_assert(!host_launch_threads(args, 2));
    ck_assert_ptr_nonnull(strstr(host.report.message, "too many programs"));
}
END_TEST

START_TEST(prints)
{
    host_compile("kernel @k(%x: i64, %f: f32) grid(1, 2) {\n"
                 "  print \"values\", %x, %f, %f > 1.0\n"
                 "  if program_id(1) == 1 {\n"
                 "    %t = reshape(range(8), tile<8x1 x i32>)\n"
                 "    print \"tile\", cast(cast(%t, f32) * 0.5, f16), %x\n"
                 "  }\n"
                 "}\n");
    tc_launch_arg args[] = {host_int(-5), host_float(1.5)};
    ck_assert(host_launch(args));
    ck_assert_str_eq(host.printed, "program (0, 0, 0): values -5 1.5 1\n"
                                   "program (0, 1, 0): values -5 1.5 1\n"
                                   "program (0, 1, 0): tile -5\n"
                                   "  [0, :] 0\n"
                                   "  [1, :] 0.5\n"
                                   "  [2, :] 1\n"
                                   "  [3, :] 1.5\n"
                                   "  [4, :] 2\n"
                                   "  [5, :] 2.5\n"
                                   "  [6, :] 3\n"
                                   "  [7, :] 3.5\n");
}
END_TEST

/* ---- When compiling ---- */

START_TEST(too_much_scratch)
{
    static const char text[] =
        "kernel @k(%x: tensor<[?, ?] x f32>) grid(1) {\n"
        "  %t = load %x[0 +: 1024, 0 +: 1024]\n"
        "  %s = sum(%t, axis=0)\n"
        "  store %x[0 +: 1024, 0 +: 1024], %t - %s[none, :]\n"
        "}\n";
    tc_host_options o = {.scratch_most = 1 << 20};
    ck_assert(!host_try(text, &o));
    ck_assert_str_eq(host_error(),
                     "kernel @k needs 4.0 MiB of scratch memory a thread, the "
                     "limit is 1.0 MiB: make its tiles smaller");
    ck_assert_str_eq(host.cx->diags->notes->message,
                     "tile<1024x1024 x f32> takes 4.0 MiB");
    ck_assert_uint_eq(host.cx->diags->notes->loc.line, 2);
}
END_TEST

START_TEST(texts)
{
    host_compile("kernel @k(%x: tensor<[?] x f32>) grid(1) {\n"
                 "  store %x[0 +: 8], splat(1.0, tile<8 x f32>)\n"
                 "}\n");
    jmp_buf unwind;
    host.cx->memory.unwind = &unwind;
    if (setjmp(unwind))
        ck_abort();
    static const char *const kinds[][2] = {{"llvm", "define void @kernel"},
                                           {"llvm-opt", "define void @kernel"},
                                           {"asm", "kernel:"}};
    for (int i = 0; i < 3; i++) {
        char *text = tc_host_emit(host.func, kinds[i][0], NULL);
        ck_assert_ptr_nonnull(text);
        ck_assert_ptr_nonnull(strstr(text, kinds[i][1]));
        free(text);
    }
    ck_assert_ptr_null(tc_host_emit(host.func, "ptx", NULL));
    ck_assert_str_eq(host_error(), "the CPU target has no \"ptx\", expected "
                                   "llvm, llvm-opt or asm");
}
END_TEST

void host_report_tests(TCase *t)
{
    tcase_add_test(t, load_beyond_the_end);
    tcase_add_test(t, load_before_the_start);
    tcase_add_test(t, index_that_is_dropped);
    tcase_add_test(t, store_beyond_the_end);
    tcase_add_test(t, asserts);
    tcase_add_test(t, failure_stops_the_launch);
    tcase_add_test(t, empty_and_huge_grids);
    tcase_add_test(t, prints);
    tcase_add_test(t, too_much_scratch);
    tcase_add_test(t, texts);
}
