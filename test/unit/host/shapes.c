/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of many shapes: reductions along each axis, moved axes, products.
 */
#include "test/unit/host/fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { A = 8, B = 16, C = 24 };

/* A kernel from x [8, 16, 24] to y, both f32 and read and written whole. */
static host_tensor x, y;

static void run(const char *text, unsigned rank, const int32_t *sizes)
{
    host_compile(text);
    x = host_new(4, 3, (int32_t[]){A, B, C});
    y = host_new(4, rank, sizes);
    for (size_t i = 0; i < x.count; i++)
        ((float *)x.data)[i] = (float)host_small();
    tc_launch_arg args[] = {host_arg(&x), host_arg(&y)};
    ck_assert(host_launch(args));
}

static float at(int a, int b, int c)
{
    return ((float *)x.data)[(a * B + b) * C + c];
}

static float got(int i)
{
    return ((float *)y.data)[i];
}

#define KERNEL(out, body)                                                      \
    "kernel @k(%x: tensor<[?, ?, ?] x f32>, %y: tensor<" out "> ) grid(1) {\n" \
    "  %t = load %x[0 +: 8, 0 +: 16, 0 +: 24]\n" body "}\n"

START_TEST(sum_last)
{
    run(KERNEL("[?, ?] x f32",
               "  store %y[0 +: 8, 0 +: 16], sum(%t, axis=2)\n"),
        2, (int32_t[]){A, B});
    for (int i = 0; i < A * B; i++) {
        float s = 0;
        for (int c = 0; c < C; c++)
            s += at(i / B, i % B, c);
        ck_assert_float_eq(got(i), s);
    }
}
END_TEST

START_TEST(max_middle)
{
    run(KERNEL(
            "[?, ?] x f32",
            "  store %y[0 +: 8, 0 +: 24], max(%t, axis=1) - min(%t, axis=1)\n"),
        2, (int32_t[]){A, C});
    for (int i = 0; i < A * C; i++) {
        float most = -100, least = 100;
        for (int b = 0; b < B; b++) {
            most = fmaxf(most, at(i / C, b, i % C));
            least = fminf(least, at(i / C, b, i % C));
        }
        ck_assert_float_eq(got(i), most - least);
    }
}
END_TEST

START_TEST(sum_first_and_all)
{
    run(KERNEL("[?, ?] x f32",
               "  %f = sum(%t, axis=0)\n"
               "  %g = sum(sum(%f, axis=1), axis=0)\n"
               "  store %y[0 +: 16, 0 +: 24], %f * 1000.0 + %g\n"),
        2, (int32_t[]){B, C});
    float all = 0;
    for (int i = 0; i < A * B * C; i++)
        all += ((float *)x.data)[i];
    for (int i = 0; i < B * C; i++) {
        float s = 0;
        for (int a = 0; a < A; a++)
            s += at(a, i / C, i % C);
        ck_assert_float_eq(got(i), s * 1000 + all);
    }
}
END_TEST

/* Position of the largest, the first of equals: two operands. */
START_TEST(argmax_of_each_axis)
{
    static const struct {
        int axis, side, stride, out[2];
        const char *text;
    } cases[] = {
#define ARGMAX(axis, side, sides, zero)                                        \
    KERNEL("[?, ?] x f32",                                                     \
           "  %i = broadcast(reshape(cast(range(" side "), f32), tile<" zero   \
           " x f32>), tile<8x16x24 x f32>)\n"                                  \
           "  %m, %j = reduce %t, %i axis(" axis                               \
           ") (%a: f32, %ai: f32, %b: f32, %bi: f32) {\n"                      \
           "    %first = %a >= %b\n"                                           \
           "    yield select(%first, %a, %b), select(%first, %ai, %bi)\n"      \
           "  }\n"                                                             \
           "  store %y[" sides "], %m * 100.0 + %j\n")
        {0, A, B * C, {B, C}, ARGMAX("0", "8", "0 +: 16, 0 +: 24", "8x1x1")},
        {1, B, C, {A, C}, ARGMAX("1", "16", "0 +: 8, 0 +: 24", "1x16x1")},
        {2, C, 1, {A, B}, ARGMAX("2", "24", "0 +: 8, 0 +: 16", "1x1x24")},
    };
    run(cases[_i].text, 2, (int32_t[]){cases[_i].out[0], cases[_i].out[1]});
    for (int i = 0; i < (int)y.count; i++) {
        int p = i / cases[_i].out[1], q = i % cases[_i].out[1];
        float best = -1000;
        int where = 0;
        for (int k = 0; k < cases[_i].side; k++) {
            float v = _i == 0   ? at(k, p, q)
                      : _i == 1 ? at(p, k, q)
                                : at(p, q, k);
            if (v > best) {
                best = v;
                where = k;
            }
        }
        ck_assert_float_eq(got(i), best * 100 + (float)where);
    }
}
END_TEST

/* Control flow in the combining region. */
START_TEST(region_with_branches)
{
    run(KERNEL("[?, ?] x f32",
               "  %m = reduce %t axis(1) (%a: f32, %b: f32) {\n"
               "    %s = if %a > %b { yield %a } else {\n"
               "      %r = for %i = 0 to 3 carry(%c = %b) { yield %c + 0.0 }\n"
               "      yield %r\n"
               "    }\n"
               "    yield %s\n"
               "  }\n"
               "  store %y[0 +: 8, 0 +: 24], %m\n"),
        2, (int32_t[]){A, C});
    for (int i = 0; i < A * C; i++) {
        float most = -100;
        for (int b = 0; b < B; b++)
            most = fmaxf(most, at(i / C, b, i % C));
        ck_assert_float_eq(got(i), most);
    }
}
END_TEST

/* So much arithmetic that it is cut into several nests. */
START_TEST(long_chain)
{
    static char text[40000];
    char *to = text + sprintf(text, "kernel @k(%%x: tensor<[?, ?, ?] x f32>, "
                                    "%%y: tensor<[?, ?, ?] x f32>) grid(1) {\n"
                                    "  %%v0 = load %%x[0 +: 8, 0 +: 16, "
                                    "0 +: 24]\n");
    for (int i = 0; i < 500; i++)
        to += sprintf(to,
                      "  %%v%d = max(%%v%d, trans(trans(%%v%d)) - 1.0) + "
                      "0.5\n",
                      i + 1, i, i);
    sprintf(to, "  store %%y[0 +: 8, 0 +: 16, 0 +: 24], %%v500\n}\n");
    run(text, 3, (int32_t[]){A, B, C});
    for (int i = 0; i < A * B * C; i++)
        ck_assert_float_eq(got(i), ((float *)x.data)[i] + 250);
}
END_TEST

START_TEST(permuted)
{
    run(KERNEL("[?, ?, ?] x f32", "  %p = trans %t perm(2, 0, 1)\n"
                                  "  store %y[0 +: 24, 0 +: 8, 0 +: 16], %p\n"),
        3, (int32_t[]){C, A, B});
    for (int i = 0; i < A * B * C; i++)
        ck_assert_float_eq(got(i), at(i / B % A, i % B, i / (A * B)));
}
END_TEST

START_TEST(reshaped_and_reduced)
{
    run(KERNEL("[?] x f32", "  %f = reshape(%t * 2.0, tile<128x24 x f32>)\n"
                            "  store %y[0 +: 24], sum(%f, axis=0)\n"),
        1, (int32_t[]){C});
    for (int c = 0; c < C; c++) {
        float s = 0;
        for (int i = 0; i < A * B; i++)
            s += 2 * at(i / B, i % B, c);
        ck_assert_float_eq(got(c), s);
    }
}
END_TEST

/* Several reductions and the tile itself in one pass, and one that needs them.
 */
START_TEST(one_pass)
{
    run(KERNEL("[?, ?, ?] x f32",
               "  %e = exp2(%t)\n"
               "  %s = sum(%e, axis=2)\n"
               "  %m = max(%e, axis=2)\n"
               "  %f = sum(%e, axis=0)\n"
               "  %w = reshape(%s + %m, tile<8x16x1 x f32>)\n"
               "  %v = reshape(%f, tile<1x16x24 x f32>)\n"
               "  store %y[0 +: 8, 0 +: 16, 0 +: 24], %e + %w * 2.0 + %v\n"),
        3, (int32_t[]){A, B, C});
    for (int i = 0; i < A * B * C; i++) {
        int a = i / C / B, b = i / C % B, c = i % C;
        float s = 0, m = 0, f = 0;
        for (int k = 0; k < C; k++) {
            s += exp2f(at(a, b, k));
            m = fmaxf(m, exp2f(at(a, b, k)));
        }
        for (int k = 0; k < A; k++)
            f += exp2f(at(k, b, c));
        ck_assert_float_eq_tol(got(i), exp2f(at(a, b, c)) + (s + m) * 2 + f,
                               1e-3);
    }
}
END_TEST

/* ---- Products ---- */

static void product(const char *type, const char *sum, int m, int n, int k,
                    bool transposed, const tc_host_options *machine)
{
    char text[1200];
    snprintf(text, sizeof text,
             "kernel @k(%%a: tensor<[?, ?] x %s>, %%b: tensor<[?, ?] x %s>,\n"
             "    %%c: tensor<[?, ?] x %s>) grid(1) {\n"
             "  %%x = load %%a[0 +: %d, 0 +: %d]\n"
             "  %%y = load %%b[0 +: %d, 0 +: %d]\n"
             "  %%z = load %%c[0 +: %d, 0 +: %d]\n"
             "  %%d = dot(%%x, %s, %%z * 2.0)\n"
             "  store %%c[0 +: %d, 0 +: %d], %%d\n"
             "}\n",
             type, type, sum, m, k, transposed ? n : k, transposed ? k : n, m,
             n, transposed ? "trans(%y)" : "%y", m, n);
    ck_assert_msg(host_try(text, machine), "%s", host_error());
    bool wide = strcmp(sum, "f64") == 0;
    host_tensor a = host_new(wide ? 8 : 4, 2, (int32_t[]){m, k});
    host_tensor b = host_new(
        wide ? 8 : 4, 2, (int32_t[]){transposed ? n : k, transposed ? k : n});
    host_tensor c = host_new(wide ? 8 : 4, 2, (int32_t[]){m, n});
    double want[64 * 80], fa[64 * 80], fb[64 * 80];
    for (size_t i = 0; i < a.count; i++)
        fa[i] = host_small();
    for (size_t i = 0; i < b.count; i++)
        fb[i] = host_small();
    for (int i = 0; i < m * n; i++) {
        double s = 2.0 * (i % 5);
        for (int j = 0; j < k; j++)
            s += fa[i / n * k + j] *
                 fb[transposed ? i % n * k + j : j * n + i % n];
        want[i] = s;
    }
    for (size_t i = 0; i < a.count; i++)
        wide ? (((double *)a.data)[i] = fa[i])
             : (double)(((float *)a.data)[i] = (float)fa[i]);
    for (size_t i = 0; i < b.count; i++)
        wide ? (((double *)b.data)[i] = fb[i])
             : (double)(((float *)b.data)[i] = (float)fb[i]);
    for (int i = 0; i < m * n; i++)
        wide ? (((double *)c.data)[i] = i % 5)
             : (double)(((float *)c.data)[i] = (float)(i % 5));
    tc_launch_arg args[] = {host_arg(&a), host_arg(&b), host_arg(&c)};
    ck_assert(host_launch(args));
    for (int i = 0; i < m * n; i++) {
        double g = wide ? ((double *)c.data)[i] : ((float *)c.data)[i];
        ck_assert_msg(g == want[i], "%dx%dx%d [%d] is %g, expected %g", m, n, k,
                      i, g, want[i]);
    }
    host_close();
}

static const int product_sizes[][3] = {
    {8, 8, 8},  {64, 64, 64}, {16, 80, 24}, {1, 16, 8},
    {8, 1, 16}, {24, 40, 1},  {56, 8, 72},  {40, 24, 80},
};

START_TEST(products)
{
    const int *s = product_sizes[_i];
    product("f32", "f32", s[0], s[1], s[2], false, NULL);
    product("f32", "f32", s[0], s[1], s[2], true, NULL);
    product("f64", "f64", s[0], s[1], s[2], false, NULL);
    product("f64", "f64", s[0], s[1], s[2], true, NULL);
    for (unsigned i = 0; i < host_nmachines - 1; i++) {
        product("f32", "f32", s[0], s[1], s[2], false, &host_machines[i]);
        product("f64", "f64", s[0], s[1], s[2], true, &host_machines[i]);
    }
}
END_TEST

void host_shape_tests(TCase *t)
{
    tcase_add_test(t, sum_last);
    tcase_add_test(t, max_middle);
    tcase_add_test(t, sum_first_and_all);
    tcase_add_loop_test(t, argmax_of_each_axis, 0, 3);
    tcase_add_test(t, region_with_branches);
    tcase_add_test(t, long_chain);
    tcase_add_test(t, permuted);
    tcase_add_test(t, reshaped_and_reduced);
    tcase_add_test(t, one_pass);
    tcase_add_loop_test(t, products, 0,
                        sizeof product_sizes / sizeof *product_sizes);
}
