/* SPDX-License-Identifier: Apache-2.0
 *
 * What ops on laid-out tiles compute.
 */
#include "test/unit/interp/fixture.h"

#include <math.h>
#include <stdio.h>

/* One f32 tensor x [rows, cols] with x[i, j] = start + i * cols + j, and y. */
typedef struct pair {
    interp_tensor x, y;
} pair;

static pair run(const char *text, tc_kind kind, int rows, int cols, int yrows,
                int ycols)
{
    pair p = {interp_new(kind, 2, (const int32_t[]){rows, cols}),
              interp_new(TC_F32, 2, (const int32_t[]){yrows, ycols})};
    for (size_t i = 0; i < p.x.count; i++)
        interp_set(&p.x, i, (double)(i % 251) - 100);
    tc_launch_arg args[] = {interp_arg(&p.x), interp_arg(&p.y)};
    interp_text(text);
    interp_parse();
    interp_try(args, NULL);
    interp_expect_nothing();
    return p;
}

START_TEST(shapes)
{
    /* y[j, i] = x[i, j] + j, in another layout of the same warps. */
    pair p = run(
        "kernel @k(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>) "
        "warps(2) grid(1) {\n"
        "  %v = load %x[0 +: 8, 0 +: 32] : tile<8x32 x f32, #blocked(1x4, 4x8, "
        "2x1)>\n"
        "  %w = convert_layout %v : tile<8x32 x f32, #blocked(1x1, 4x8, 2x1)>\n"
        "  %i = range : tile<32 x i32, #slice(0 of 8, #blocked(1x1, 4x8, "
        "2x1))>\n"
        "  %f = cast(%i, f32)\n"
        "  %e = expand_dims %f axis(0)\n"
        "  %b = broadcast %e : tile<8x32 x f32, #blocked(1x1, 4x8, 2x1)>\n"
        "  %t = trans %w + %b\n"
        "  store %y[0 +: 32, 0 +: 8], %t\n"
        "}\n",
        TC_F32, 8, 32, 32, 8);
    for (size_t i = 0; i < 8; i++)
        for (size_t j = 0; j < 32; j++)
            ck_assert_double_eq(interp_get(&p.y, j * 8 + i),
                                interp_get(&p.x, i * 32 + j) + (double)j);
}
END_TEST

START_TEST(reduce_rows)
{
    pair p = run(
        "kernel @k(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>) "
        "warps(2) grid(1) {\n"
        "  %v = load %x[0 +: 8, 0 +: 32] : tile<8x32 x f32, #blocked(1x4, 4x8, "
        "2x1)>\n"
        "  %s = reduce %v axis(1) kind(sum)\n"
        "  %m = reduce %v axis(1) (%a: f32, %b: f32) {\n"
        "    yield max(%a, %b)\n"
        "  }\n"
        "  %both = %s + %m\n"
        "  store %y[0, 0 +: 8], %both\n"
        "}\n",
        TC_F32, 8, 32, 1, 8);
    for (size_t i = 0; i < 8; i++) {
        double sum = 0, most = -1e30;
        for (size_t j = 0; j < 32; j++) {
            sum += interp_get(&p.x, i * 32 + j);
            most = fmax(most, interp_get(&p.x, i * 32 + j));
        }
        ck_assert_double_eq(interp_get(&p.y, i), sum + most);
    }
}
END_TEST

/* Two warps along the axis: each its part, then through shared memory. */
START_TEST(reduce_parts)
{
    pair p = run(
        "kernel @k(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>) "
        "warps(2) shared(128) grid(1) {\n"
        "  %b = smem_alloc offset(0) : smem<8x2 x f32, #rows>\n"
        "  %v = load %x[0 +: 8, 0 +: 32] : tile<8x32 x f32, #blocked(1x2, 4x8, "
        "1x2)>\n"
        "  %p = reduce %v axis(1) kind(sum) within(warp)\n"
        "  smem_store %b, %p\n"
        "  barrier\n"
        "  %q = smem_load %b : tile<8x2 x f32, #blocked(1x2, 32x1, 2x1)>\n"
        "  %s = reduce %q axis(1) kind(sum)\n"
        "  store %y[0, 0 +: 8], %s\n"
        "}\n",
        TC_F32, 8, 32, 1, 8);
    for (size_t i = 0; i < 8; i++) {
        double sum = 0;
        for (size_t j = 0; j < 32; j++)
            sum += interp_get(&p.x, i * 32 + j);
        ck_assert_double_eq(interp_get(&p.y, i), sum);
    }
}
END_TEST

/* Two warps along the axis: each its piece, backwards; then the totals. */
START_TEST(scan_pieces)
{
    pair p = run(
        "kernel @k(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>) "
        "warps(2) shared(128) grid(1) {\n"
        "  %b = smem_alloc offset(0) : smem<8x2 x f32, #rows>\n"
        "  %v = load %x[0 +: 8, 0 +: 32] : tile<8x32 x f32, #blocked(1x4, 8x4, "
        "1x2)>\n"
        "  %p, %t = scan %v axis(1) kind(sum) reverse(true) within(warp)\n"
        "  smem_store %b, %t\n"
        "  barrier\n"
        "  %q = smem_load %b : tile<8x2 x f32, #bases(register [(0,1)], "
        "lane [(0,0), (0,0), (1,0), (2,0), (4,0)], warp [(0,0)])>\n"
        "  %s = scan_carry %p, %q axis(1) kind(sum) reverse(true)\n"
        "  store %y[0 +: 8, 0 +: 32], %s\n"
        "}\n",
        TC_F32, 8, 32, 8, 32);
    for (size_t i = 0; i < 8; i++) {
        double sum = 0;
        for (size_t j = 32; j-- > 0;) {
            sum += interp_get(&p.x, i * 32 + j);
            ck_assert_double_eq(interp_get(&p.y, i * 32 + j), sum);
        }
    }
}
END_TEST

/* x times its transpose: operands in registers. */
START_TEST(mma_registers)
{
    pair p = run(
        "kernel @k(%x: tensor<[?, ?] x bf16>, %y: tensor<[?, ?] x f32>) "
        "warps(2) grid(1) {\n"
        "  %a = load %x[0 +: 32, 0 +: 16] : tile<32x16 x bf16, #mma_a(2x1)>\n"
        "  %s = load %x[0 +: 8, 0 +: 16] : tile<8x16 x bf16, #blocked(1x4, "
        "8x4, 1x2)>\n"
        "  %z = splat(0.5, tile<32x8 x f32, #mma(2x1)>)\n"
        "  %t = trans %s\n"
        "  %b = convert_layout %t : tile<16x8 x bf16, #mma_b(2x1)>\n"
        "  %c = mma %a, %b, %z instr(m16n8k16)\n"
        "  store %y[0 +: 32, 0 +: 8], %c\n"
        "}\n",
        TC_BF16, 32, 16, 32, 8);
    for (size_t i = 0; i < 32; i++)
        for (size_t j = 0; j < 8; j++) {
            double sum = 0.5;
            for (size_t k = 0; k < 16; k++)
                sum +=
                    interp_get(&p.x, i * 16 + k) * interp_get(&p.x, j * 16 + k);
            ck_assert_double_eq(interp_get(&p.y, i * 8 + j), sum);
        }
}
END_TEST

static double mma_error(const char *instr)
{
    static char text[2048];
    snprintf(
        text, sizeof text,
        "kernel @k(%%x: tensor<[?, ?] x f32>, %%y: tensor<[?, ?] x f32>) "
        "warps(1) shared(2048) grid(1) {\n"
        "  %%s = smem_alloc offset(0) : smem<16x16 x f32, #rows>\n"
        "  %%v = load %%x[0 +: 16, 0 +: 16] : tile<16x16 x f32, #blocked(1x4, "
        "8x4, 1x1)>\n"
        "  %%three = splat(3.0, tile<16x16 x f32, #blocked(1x4, 8x4, 1x1)>)\n"
        "  smem_store %%s, %%v / %%three\n"
        "  barrier\n"
        "  %%t = smem_trans %%s\n"
        "  %%z = splat(0.0, tile<16x16 x f32, #mma(1x1)>)\n"
        "  %%c = mma %%s, %%t, %%z %s\n"
        "  store %%y[0 +: 16, 0 +: 16], %%c\n"
        "}\n",
        instr);
    pair p = run(text, TC_F32, 16, 16, 16, 16);
    double error = 0, size = 0;
    for (size_t i = 0; i < 16; i++)
        for (size_t j = 0; j < 16; j++) {
            double sum = 0;
            for (size_t k = 0; k < 16; k++)
                sum += interp_get(&p.x, i * 16 + k) *
                       interp_get(&p.x, j * 16 + k) / 9;
            double off = interp_get(&p.y, i * 16 + j) - sum;
            error += off * off;
            size += sum * sum;
        }
    return sqrt(error / size);
}

START_TEST(mma_precisions)
{
    double ieee = mma_error("instr(fma)");
    double tf32 = mma_error("instr(m16n8k8) precision(tf32)");
    double tf32x3 = mma_error("instr(m16n8k8) precision(tf32x3)");
    ck_assert_double_lt(ieee, 3e-7);
    ck_assert_double_lt(tf32x3, 1e-6);
    ck_assert_double_lt(tf32, 1e-3);
    ck_assert_double_gt(tf32, 1e-6);
}
END_TEST

START_TEST(mma_wants_its_layouts)
{
    interp_text(
        "kernel @k(%x: tensor<[?, ?] x bf16>) warps(2) grid(1) {\n"
        "  %a = load %x[0 +: 32, 0 +: 16] : tile<32x16 x bf16, #mma_a(1x2)>\n"
        "  %b = load %x[0 +: 16, 0 +: 8] : tile<16x8 x bf16, #mma_b(2x1)>\n"
        "  %z = splat(0.5, tile<32x8 x f32, #mma(2x1)>)\n"
        "  %c = mma %a, %b, %z instr(m16n8k16)\n"
        "}\n");
    interp_parse();
    interp_tensor x = interp_new(TC_BF16, 2, (const int32_t[]){32, 16});
    tc_launch_arg arg = interp_arg(&x);
    ck_assert(!interp_try(&arg, NULL));
    interp_expect("operand 0 is not laid out as the instruction reads it",
                  "%c = mma", "%a = load");
}
END_TEST

START_TEST(convert_across_warps)
{
    interp_text(
        "kernel @k(%x: tensor<[?, ?] x bf16>) warps(2) grid(1) {\n"
        "  %a = load %x[0 +: 32, 0 +: 16] : tile<32x16 x bf16, #mma_a(2x1)>\n"
        "  %b = convert_layout %a : tile<32x16 x bf16, #blocked(1x1, 8x4, "
        "2x1)>\n"
        "}\n");
    interp_parse();
    interp_tensor x = interp_new(TC_BF16, 2, (const int32_t[]){32, 16});
    tc_launch_arg arg = interp_arg(&x);
    ck_assert(!interp_try(&arg, NULL));
    interp_expect("needs an element that its warp does not hold",
                  "%b = convert_layout", NULL);
}
END_TEST

START_TEST(control)
{
    ck_assert_str_eq(
        interp_print("kernel @k() warps(1) grid(1) {\n"
                     "  %a, %b = for %i = 0 to 5 carry(%a0 = 0, %b0 = 1) {\n"
                     "    yield %b0, %a0 + %b0\n"
                     "  }\n"
                     "  print \"fib\", %a, %b\n"
                     "  %n = while carry(%m = 100) { condition %m > 3 } do {\n"
                     "    yield %m / 2\n"
                     "  }\n"
                     "  print \"n\", %n, 0.5, num_programs(0) > 1\n"
                     "  %x = if %n > 2 { yield 1 } else { yield 2 }\n"
                     "  print \"x\", %x\n"
                     "}\n"),
        "program (0, 0, 0): fib 5 8\n"
        "program (0, 0, 0): n 3 0.5 0\n"
        "program (0, 0, 0): x 1\n");
    ck_assert_str_eq(
        interp_print("kernel @k() warps(2) grid(1) {\n"
                     "  %r = range : tile<8 x i32, #blocked(1, 32, 2)>\n"
                     "  print \"r\", %r, 1.5\n"
                     "}\n"),
        "program (0, 0, 0): r 1.5\n"
        "  [:] 0 1 2 3 4 5 6 7\n");
}
END_TEST

/* Positions end well before ints wrap. */
START_TEST(ends_that_are_no_positions)
{
    static const struct {
        const char *lo, *hi;
        bool fits;
    } ends[] = {{"0", "9", true},
                {"2147483000", "2147418112", true},
                {"-1", "9", false},
                {"9", "-1", true},
                {"9", "-2147418113", false},
                {"2147418000", "2147418113", false}};
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++) {
        interp_text("kernel @k() warps(1) grid(1) {\n"
                    "  for %i = LO to HI step 64 by_rows(true) {\n"
                    "  }\n"
                    "}\n");
        interp_change("LO", ends[i].lo);
        interp_change("HI", ends[i].hi);
        interp_parse();
        ck_assert(interp_try(NULL, NULL) == ends[i].fits);
        if (ends[i].fits)
            interp_expect_nothing();
        else
            interp_expect("expected 0 or more, and ends within 2147418112 of 0",
                          "for %i", NULL);
    }
}
END_TEST

/* Every element once, though four threads hold each. */
START_TEST(atomics)
{
    pair p =
        run("kernel @k(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>) "
            "warps(2) grid(1) {\n"
            "  %i = range : tile<16 x i32, #blocked(1, 32, 2)>\n"
            "  %p = splat(base(%y), tile<16 x ptr<f32>, #blocked(1, 32, 2)>)\n"
            "  %at = ptr_add %p, %i\n"
            "  %one = splat(1.0, tile<16 x f32, #blocked(1, 32, 2)>)\n"
            "  %first = atomic %at, %one kind(add)\n"
            "  %old = atomic %at, %one kind(add)\n"
            "  store %at, %old + %one\n"
            "}\n",
            TC_F32, 1, 1, 1, 16);
    for (size_t i = 0; i < 16; i++)
        ck_assert_double_eq(interp_get(&p.y, i), 2);
}
END_TEST

/* Once each, inside of the tensor; by different threads with no barrier. */
START_TEST(stores_that_add)
{
    pair p =
        run("kernel @k(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>) "
            "warps(2) grid(3) {\n"
            "  %one = splat(1.0, tile<8x8 x f32, #blocked(1x1, 4x8, 2x1)>)\n"
            "  %two = splat(2.0, tile<8x8 x f32, #blocked(1x1, 8x4, 1x2)>)\n"
            "  store %y[0 +: 8, 0 +: 8], %one boundary(0) kind(add)\n"
            "  store %y[0 +: 8, 0 +: 8], %two boundary(0) kind(add)\n"
            "}\n",
            TC_F32, 1, 1, 5, 8);
    for (size_t i = 0; i < 40; i++)
        ck_assert_double_eq(interp_get(&p.y, i), 9);
}
END_TEST

void interp_value_tests(TCase *t)
{
    tcase_add_test(t, shapes);
    tcase_add_test(t, reduce_rows);
    tcase_add_test(t, reduce_parts);
    tcase_add_test(t, scan_pieces);
    tcase_add_test(t, mma_registers);
    tcase_add_test(t, mma_precisions);
    tcase_add_test(t, mma_wants_its_layouts);
    tcase_add_test(t, convert_across_warps);
    tcase_add_test(t, control);
    tcase_add_test(t, ends_that_are_no_positions);
    tcase_add_test(t, atomics);
    tcase_add_test(t, stores_that_add);
}
