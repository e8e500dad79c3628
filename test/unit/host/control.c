/* SPDX-License-Identifier: Apache-2.0
 *
 * for, if and while with tiles: what they carry, and where it is stored.
 */
#include "test/unit/host/fixture.h"

/* A kernel with one output of 64 f32 and an int. */
#define KERNEL(body)                                                           \
    "kernel @k(%o: tensor<[?] x f32>, %n: i32) grid(1) {\n"                    \
    "  %r = cast(range(64), f32)\n" body "}\n"

static float out[64];

static void run(const char *text, int n)
{
    host_compile(text);
    host_tensor o = host_new(4, 1, (int32_t[]){64});
    tc_launch_arg args[] = {host_arg(&o), host_int(n)};
    ck_assert(host_launch(args));
    for (int i = 0; i < 64; i++)
        out[i] = ((float *)o.data)[i];
}

#define expect(i, value)                                                       \
    for (int i = 0; i < 64; i++)                                               \
    ck_assert_msg(out[i] == (float)(value), "[%d] is %g, expected %g", i,      \
                  (double)out[i], (double)(value))

START_TEST(loop_carries)
{
    run(KERNEL("  %a = for %i = 0 to %n carry(%a0 = %r) { yield %a0 + 1.0 }\n"
               "  store %o[0 +: 64], %a\n"),
        5);
    expect(i, i + 5);
}
END_TEST

START_TEST(loop_of_no_steps)
{
    run(KERNEL("  %a = for %i = 0 to %n carry(%a0 = %r) { yield %a0 + 1.0 }\n"
               "  store %o[0 +: 64], %a\n"),
        -3);
    expect(i, i);
}
END_TEST

START_TEST(loop_swaps)
{
    run(KERNEL("  %a, %b = for %i = 0 to %n\n"
               "      carry(%a0 = %r, %b0 = %r * 2.0) { yield %b0, %a0 }\n"
               "  store %o[0 +: 64], %a - %b\n"),
        3);
    expect(i, i);
}
END_TEST

START_TEST(loop_rotates)
{
    run(KERNEL("  %a, %b, %c = for %i = 0 to %n\n"
               "      carry(%a0 = %r, %b0 = %r * 2.0, %c0 = %r * 4.0) {\n"
               "    yield %b0, %c0, %a0 + 1.0\n"
               "  }\n"
               "  store %o[0 +: 64], %a + %b * 100.0 + %c * 10000.0\n"),
        2);
    expect(i, 4 * i + (i + 1) * 100 + (2 * i + 1) * 10000);
}
END_TEST

/* The old value is wanted after the new one was computed. */
START_TEST(loop_keeps_old_value)
{
    run(KERNEL("  %a, %b = for %i = 0 to %n\n"
               "      carry(%a0 = %r, %b0 = splat(0.0, tile<64 x f32>)) {\n"
               "    %a1 = exp(%a0 * 0.0) + %a0\n"
               "    %s = sum(%a1, axis=0)\n"
               "    %b1 = %b0 + %a0 + %s * 0.0\n"
               "    yield %a1, %b1\n"
               "  }\n"
               "  store %o[0 +: 64], %b\n"),
        3);
    expect(i, 3 * i + 3);
}
END_TEST

/* Rows read another row's element of what they carry. */
START_TEST(loop_reads_across)
{
    run("kernel @k(%o: tensor<[?] x f32>, %n: i32) grid(1) {\n"
        "  %r = cast(range(64), f32)\n"
        "  %m = reshape(%r, tile<8x8 x f32>)\n"
        "  %a = for %i = 0 to %n carry(%a0 = %m) {\n"
        "    yield trans(%a0) + 1.0\n"
        "  }\n"
        "  store %o[0 +: 64], reshape(%a, tile<64 x f32>)\n"
        "}\n",
        3);
    expect(i, (i % 8) * 8 + i / 8 + 3);
}
END_TEST

START_TEST(loops_in_loops)
{
    run(KERNEL("  %a = for %i = 0 to %n carry(%a0 = %r) {\n"
               "    %b = for %j = 0 to %i carry(%b0 = %a0) {\n"
               "      yield %b0 + 1.0\n"
               "    }\n"
               "    %c = for %j = 0 to 2 carry(%c0 = %a0 * 0.0) {\n"
               "      yield %c0 + %b\n"
               "    }\n"
               "    yield %c - %b\n"
               "  }\n"
               "  store %o[0 +: 64], %a\n"),
        4);
    expect(i, i + 6);
}
END_TEST

/* Both inner loops start from the outer value; only one may be in place. */
START_TEST(loops_share_start)
{
    run(KERNEL("  %a, %b = for %i = 0 to %n carry(%a0 = %r, %b0 = %r) {\n"
               "    %x, %y = for %j = 0 to 2 carry(%x0 = %b0, %y0 = %a0) {\n"
               "      yield %x0 + 1.0, %y0 + 10.0\n"
               "    }\n"
               "    yield %x, %y\n"
               "  }\n"
               "  store %o[0 +: 64], %a + %b * 1000.0\n"),
        2);
    expect(i, (i + 22) + (i + 22) * 1000);
}
END_TEST

START_TEST(branches)
{
    static const char text[] =
        KERNEL("  %a = for %i = 0 to %n carry(%a0 = %r) {\n"
               "    %odd = (%i & 1) == 1\n"
               "    %b = if %odd { yield %a0 } else {\n"
               "      %t = exp(%a0 * 0.0) * 2.0 + %a0\n"
               "      yield %t\n"
               "    }\n"
               "    yield %b + 1.0\n"
               "  }\n"
               "  store %o[0 +: 64], %a\n");
    run(text, 5);
    expect(i, i + 6 + 5);
}
END_TEST

START_TEST(branch_of_scalars_and_tiles)
{
    run(KERNEL("  %x, %t, %c = if %n > 3 {\n"
               "    yield 7.0, %r, true\n"
               "  } else {\n"
               "    yield 8.0, %r * 2.0, false\n"
               "  }\n"
               "  store %o[0 +: 64], %t + %x + select(%c, 0.0, 100.0)\n"),
        2);
    expect(i, 2 * i + 108);
}
END_TEST

START_TEST(branch_without_results)
{
    run(KERNEL("  store %o[0 +: 64], %r\n"
               "  if %n == 1 { store %o[0 +: 64], -%r }\n"),
        1);
    expect(i, -i);
}
END_TEST

START_TEST(while_of_tiles)
{
    run(KERNEL("  %a, %k = while carry(%a0 = %r, %k0 = 0) {\n"
               "    %s = sum(%a0, axis=0)\n"
               "    %more = %s < 3000.0\n"
               "    condition %more\n"
               "  } do {\n"
               "    yield %a0 + 8.0, %k0 + 1\n"
               "  }\n"
               "  store %o[0 +: 64], %a + cast(%k, f32) * 1000.0\n"),
        0);
    /* 2016 + 512 k >= 3000 from k = 2 on */
    expect(i, i + 16 + 2000);
}
END_TEST

/* The result is what the test saw, not what it computed on the way. */
START_TEST(while_result_is_argument)
{
    run(KERNEL("  %a, %k = while carry(%a0 = %r, %k0 = 0) {\n"
               "    %t = exp(%a0 * 0.0) + %a0\n"
               "    %more = sum(%t, axis=0) < 3000.0\n"
               "    condition %more\n"
               "  } do {\n"
               "    yield %t, %k0 + 1\n"
               "  }\n"
               "  store %o[0 +: 64], %a\n"),
        0);
    /* sums 2016 + 64 (k + 1) < 3000 for k up to 14 */
    expect(i, i + 15);
}
END_TEST

START_TEST(while_swaps)
{
    run(KERNEL("  %a, %b, %k = while\n"
               "      carry(%a0 = %r, %b0 = %r * 3.0, %k0 = 0) {\n"
               "    %more = %k0 < %n\n"
               "    condition %more\n"
               "  } do {\n"
               "    yield %b0, %a0, %k0 + 1\n"
               "  }\n"
               "  store %o[0 +: 64], %a\n"),
        3);
    expect(i, 3 * i);
}
END_TEST

START_TEST(counts_near_the_end_of_i32)
{
    run(KERNEL("  %k = for %i = 2147483640 to 2147483647 step %n\n"
               "      carry(%k0 = 0) { yield %k0 + 1 }\n"
               "  %l = for %i = 0 to 9 step 0 - %n carry(%l0 = 0) {\n"
               "    yield %l0 + 1\n"
               "  }\n"
               "  store %o[0 +: 64], splat(cast(%k + %l, f32), tile<64 x f32>)"
               "\n"),
        5);
    expect(i, 2);
}
END_TEST

void host_control_tests(TCase *t)
{
    tcase_add_test(t, loop_carries);
    tcase_add_test(t, loop_of_no_steps);
    tcase_add_test(t, loop_swaps);
    tcase_add_test(t, loop_rotates);
    tcase_add_test(t, loop_keeps_old_value);
    tcase_add_test(t, loop_reads_across);
    tcase_add_test(t, loops_in_loops);
    tcase_add_test(t, loops_share_start);
    tcase_add_test(t, branches);
    tcase_add_test(t, branch_of_scalars_and_tiles);
    tcase_add_test(t, branch_without_results);
    tcase_add_test(t, while_of_tiles);
    tcase_add_test(t, while_result_is_argument);
    tcase_add_test(t, while_swaps);
    tcase_add_test(t, counts_near_the_end_of_i32);
}
