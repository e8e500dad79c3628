/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: windows of any stride and place, pointers, gathers, atomics. The
 * tensors lie against guard pages.
 */
#include "test/unit/host/fixture.h"

#include <stdio.h>
#include <string.h>

/* ---- Windows ---- */

static const char copy_text[] =
    "kernel @k(%x: tensor<[?, ?] x %s>, %y: tensor<[?, ?] x %s>,\n"
    "    %r: i32, %c: i64) grid(1) {\n"
    "  %t = load %x[%r +: 16, %c +: 24] boundary(0, 1) pad(3)\n"
    "  store %y[%r +: 16, %c +: 24], %t boundary(0, 1)\n"
    "  store %y[0 +: 16, 0 +: 24], %t boundary(0, 1)\n"
    "}\n";

static void make_text(char *to, const char *text, const char *type)
{
    for (; *text; text++) {
        if (text[0] == '%' && text[1] == 's' && text[2] == '>') {
            to += sprintf(to, "%s", type);
            text++;
        } else {
            *to++ = *text;
        }
    }
    *to = 0;
}

/* Small whole numbers as elements: all types hold them. */
static void put(void *data, const char *type, int64_t i, int value)
{
    static const unsigned char f8e4m3[] = {0, 0x38, 0x40, 0x44, 0x48};
    static const uint16_t bf16[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080};
    if (strcmp(type, "f32") == 0)
        ((float *)data)[i] = (float)value;
    else if (strcmp(type, "f64") == 0)
        ((double *)data)[i] = value;
    else if (strcmp(type, "i16") == 0)
        ((int16_t *)data)[i] = (int16_t)value;
    else if (strcmp(type, "i64") == 0)
        ((int64_t *)data)[i] = value;
    else if (strcmp(type, "bf16") == 0)
        ((uint16_t *)data)[i] = bf16[value];
    else
        ((unsigned char *)data)[i] = f8e4m3[value];
}

static const struct element {
    const char *name;
    unsigned bytes;
} elements[] = {{"f32", 4}, {"f64", 8},  {"i16", 2},
                {"i64", 8}, {"bf16", 2}, {"f8e4m3", 1}};
enum { NELEMENTS = sizeof elements / sizeof *elements };

static const struct place {
    int64_t row, col;
} places[] = {
    {0, 0},         {3, 2},         {-5, -9},           {-16, 0},
    {1000, 5},      {4, -24},       {2147483640, 1},    {-2147483647 - 1, 0},
    {0, INT64_MAX}, {0, INT64_MIN}, {2, INT64_MIN + 3}, {-1, 17}};
enum { NPLACES = sizeof places / sizeof *places };

static bool is_in(int64_t i, int64_t n)
{
    return i >= 0 && i < n;
}

/* Does position `at` of a window at `from` fall on index i? */
static bool falls_on(int64_t from, int64_t at, int64_t i)
{
    return i - at == from;
}

/* One window, with row-major (order 0) or column-major tensors. */
static void copy_window(const struct element *e, struct place p, int rows,
                        int cols, int order)
{
    host_tensor x = host_new(e->bytes, 2, (int32_t[]){rows, cols});
    host_tensor y = host_new(e->bytes, 2, (int32_t[]){rows, cols});
    if (order == 1) {
        x.strides[0] = y.strides[0] = 1;
        x.strides[1] = y.strides[1] = rows;
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            put(x.data, e->name, i * x.strides[0] + j * x.strides[1],
                (i + j) % 3);
            put(y.data, e->name, i * x.strides[0] + j * x.strides[1], 4);
        }
    tc_launch_arg args[] = {host_arg(&x), host_arg(&y), host_int(p.row),
                            host_int(p.col)};
    ck_assert_msg(host_launch(args), "%s", host.report.message);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            int value = 4;
            for (int64_t a = 0; a < 16; a++)
                for (int64_t b = 0; b < 24; b++)
                    if (falls_on(p.row, a, i) && falls_on(p.col, b, j))
                        value = (i + j) % 3;
            if (i < 16 && j < 24) {
                int64_t r = (int64_t)((uint64_t)p.row + (uint64_t)i);
                int64_t c = (int64_t)((uint64_t)p.col + (uint64_t)j);
                value =
                    is_in(r, rows) && is_in(c, cols) ? (int)((r + c) % 3) : 3;
            }
            uint64_t want = 0, got = 0;
            put(&want, e->name, 0, value);
            memcpy(&got,
                   (char *)y.data +
                       (i * x.strides[0] + j * x.strides[1]) * e->bytes,
                   e->bytes);
            ck_assert_msg(got == want,
                          "%s at %lld, %lld of %dx%d order %d: [%d, %d] is "
                          "%llx, expected %llx",
                          e->name, (long long)p.row, (long long)p.col, rows,
                          cols, order, i, j, (unsigned long long)got,
                          (unsigned long long)want);
        }
}

static void copy_windows(const tc_host_options *machine, unsigned element)
{
    char text[1000];
    make_text(text, copy_text, elements[element].name);
    ck_assert_msg(host_try(text, machine), "%s", host_error());
    for (unsigned p = 0; p < NPLACES; p++)
        for (int order = 0; order < 2; order++) {
            copy_window(&elements[element], places[p], 16, 24, order);
            copy_window(&elements[element], places[p], 19, 25, order);
            copy_window(&elements[element], places[p], 3, 5, order);
            copy_window(&elements[element], places[p], 40, 1, order);
        }
    host_close();
}

START_TEST(windows)
{
    copy_windows(NULL, (unsigned)_i);
    copy_windows(&host_machines[0], (unsigned)_i);
    copy_windows(&host_machines[1], (unsigned)_i);
}
END_TEST

/* A block pointer that a loop carries. */
START_TEST(moving_window)
{
    host_compile(
        "kernel @k(%x: tensor<[?, ?] x f32>, %y: tensor<[?] x f32>, %n: i32)\n"
        "    grid(1) {\n"
        "  %w = block %x[0 +: 8, 0 +: 8]\n"
        "  %z = splat(0.0, tile<8x8 x f32>)\n"
        "  %b, %s = for %i = 0 to 3 carry(%b0 = %w, %s0 = %z) {\n"
        "    %t = load %b0\n"
        "    %b1 = advance %b0, 0, select(%i == %n, 16, 8)\n"
        "    yield %b1, %s0 + %t\n"
        "  }\n"
        "  store %y[0 +: 8], sum(%s, axis=0)\n"
        "}\n");
    host_tensor x = host_new(4, 2, (int32_t[]){8, 40});
    host_tensor y = host_new(4, 1, (int32_t[]){8});
    for (int i = 0; i < 320; i++)
        ((float *)x.data)[i] = (float)(i % 40);
    tc_launch_arg args[] = {host_arg(&x), host_arg(&y), host_int(1)};
    ck_assert(host_launch(args));
    for (int j = 0; j < 8; j++) /* columns j, j + 8, j + 24 */
        ck_assert_float_eq(((float *)y.data)[j], (float)(8 * (3 * j + 32)));
}
END_TEST

/* A load must see what a store before it wrote, and not what comes later. */
START_TEST(order_of_loads_and_stores)
{
    host_compile("kernel @k(%x: tensor<[?] x f32>, %n: i32) grid(1) {\n"
                 "  %i = range(64)\n"
                 "  %p = %n * 0 + %i\n"
                 "  %a = %x[%p]\n"
                 "  store %x[0 +: 64], %x[63 - %p] * 2.0\n"
                 "  %b = %x[%p]\n"
                 "  store %x[0 +: 64], %a * 100.0 + %b\n"
                 "}\n");
    host_tensor x = host_new(4, 1, (int32_t[]){64});
    for (int i = 0; i < 64; i++)
        ((float *)x.data)[i] = (float)i;
    tc_launch_arg args[] = {host_arg(&x), host_int(1)};
    ck_assert(host_launch(args));
    for (int i = 0; i < 64; i++)
        ck_assert_float_eq(((float *)x.data)[i],
                           (float)(i * 100 + (63 - i) * 2));
}
END_TEST

/* ---- Pointers and gathers ---- */

START_TEST(pointers)
{
    for (unsigned m = 0; m < host_nmachines; m++) {
        static const char text[] =
            "kernel @k(%p: ptr<f32>, %q: ptr<bf16>, %n: i32) grid(1) {\n"
            "  %i = range(32)\n"
            "  %ps = ptr_add(splat(%p, tile<32 x ptr<f32>>), %i * 3)\n"
            "  %on = %i < %n\n"
            "  %v = load %ps, %on, splat(-1.0, tile<32 x f32>)\n"
            "  %qs = ptr_add(splat(%q, tile<32 x ptr<bf16>>), 31 - %i)\n"
            "  store %qs, cast(%v, bf16), %i > 1\n"
            "  %one = load %p\n"
            "  store %q, cast(%one + 5.0, bf16), %n > 0\n"
            "}\n";
        ck_assert_msg(host_try(text, &host_machines[m]), "%s", host_error());
        float *p = host_memory(3 * 19 * 4 + 4, true);
        uint16_t *q = host_memory(32 * 2, true);
        for (int i = 0; i < 58; i++)
            p[i] = (float)i;
        tc_launch_arg args[] = {{.data = p}, {.data = q}, host_int(20)};
        ck_assert(host_launch(args));
        ck_assert_uint_eq(q[0], 0x40a0); /* 5 */
        for (int i = 2; i < 31; i++) {
            float want = i < 20 ? (float)(3 * i) : -1;
            uint32_t bits;
            memcpy(&bits, &want, 4);
            ck_assert_uint_eq(q[31 - i], bits >> 16);
        }
        ck_assert_uint_eq(q[31], 0);
        host_close();
    }
}
END_TEST

START_TEST(gathers)
{
    for (unsigned m = 0; m < host_nmachines; m++) {
        static const char text[] =
            "kernel @k(%x: tensor<[?, ?] x i16>, %e: tensor<[?] x f32>,\n"
            "    %y: tensor<[?, ?] x i32>, %n: i64) grid(1) {\n"
            "  %i = cast(range(8), i64)[:, none] * %n\n"
            "  %j = cast(range(16), i64)[none, :] - 4\n"
            "  %g = gather %x, broadcast(%i, tile<8x16 x i64>), "
            "broadcast(%j, tile<8x16 x i64>) pad(-7)\n"
            "  %one = %x[1, 2]\n"
            "  %none = %e[%n]\n"
            "  store %y[0 +: 8, 0 +: 16], cast(%g, i32) * 10 + cast(%one, i32)"
            " + cast(%none, i32)\n"
            "}\n";
        ck_assert_msg(host_try(text, &host_machines[m]), "%s", host_error());
        host_tensor x = host_new(2, 2, (int32_t[]){5, 9});
        host_tensor e = host_new(4, 1, (int32_t[]){0});
        host_tensor y = host_new(4, 2, (int32_t[]){8, 16});
        for (int i = 0; i < 45; i++)
            ((int16_t *)x.data)[i] = (int16_t)i;
        static const int64_t steps[] = {1, -1, INT64_MAX, (int64_t)1 << 61};
        for (int s = 0; s < 4; s++) {
            tc_launch_arg args[] = {host_arg(&x), host_arg(&e), host_arg(&y),
                                    host_int(steps[s])};
            ck_assert(host_launch(args));
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 16; j++) {
                    int64_t r = (int64_t)((uint64_t)i * (uint64_t)steps[s]);
                    int want = r >= 0 && r < 5 && j >= 4 && j < 13
                                   ? (int)r * 9 + j - 4
                                   : -7;
                    ck_assert_int_eq(((int32_t *)y.data)[i * 16 + j],
                                     want * 10 + 11);
                }
        }
        host_close();
    }
}
END_TEST

/* ---- Atomics ---- */

START_TEST(atomics)
{
    host_compile(
        "kernel @k(%i: ptr<i32>, %f: ptr<f32>, %h: ptr<f16>, %b: ptr<bf16>,\n"
        "    %m: ptr<i64>) grid(400) {\n"
        "  %p = program_id(0)\n"
        "  %r = range(8)\n"
        "  %old = atomic %i, 1 kind(add)\n"
        "  %fs = ptr_add(splat(%f, tile<8 x ptr<f32>>), %r)\n"
        "  %a = atomic %fs, splat(1.0, tile<8 x f32>), %r > 3 kind(add)\n"
        "  %hs = ptr_add(splat(%h, tile<8 x ptr<f16>>), %r)\n"
        "  %c = atomic %hs, splat(cast(2.0, f16), tile<8 x f16>) kind(add)\n"
        "  %bs = ptr_add(splat(%b, tile<8 x ptr<bf16>>), %r)\n"
        "  %d = atomic %bs, cast(cast(%r + %p, f32), bf16) kind(max)\n"
        "  %e = atomic %m, cast(%p, i64) kind(min)\n"
        "  %m1 = ptr_add(%m, 1)\n"
        "  %g = atomic_cas %m1, cast(%old, i64), cast(%old, i64) + 1\n"
        "}\n");
    int32_t *i = host_memory(4, true);
    float *f = host_memory(32, true);
    uint16_t *h = host_memory(16, true), *b = host_memory(16, true);
    int64_t *m = host_memory(16, true);
    m[0] = 1000;
    tc_launch_arg args[] = {
        {.data = i}, {.data = f}, {.data = h}, {.data = b}, {.data = m}};
    ck_assert(host_launch_threads(args, 4));
    ck_assert_int_eq(*i, 400);
    for (int k = 0; k < 8; k++) {
        ck_assert_float_eq(f[k], k > 3 ? 400 : 0);
        ck_assert_uint_eq(h[k], 0x6240); /* 800 */
    }
    ck_assert_uint_eq(b[0], 0x43c8); /* 400: 399 rounded */
    ck_assert_int_eq(m[0], 0);
}
END_TEST

void host_memory_tests(TCase *t)
{
    tcase_add_loop_test(t, windows, 0, NELEMENTS);
    tcase_add_test(t, moving_window);
    tcase_add_test(t, order_of_loads_and_stores);
    tcase_add_test(t, pointers);
    tcase_add_test(t, gathers);
    tcase_add_test(t, atomics);
}
