/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage types against their definition: casts of every code of u8, u16,
 * f8e8m0, i4, u4 and f4e2m1 (of u32 of random ones) to every type, and of every
 * type (all values of 16 bits and less) to them.
 */
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1 << 16 };

typedef enum stored {
    U8,
    U16,
    U32,
    F8E8M0,
    I4,
    U4,
    F4E2M1,
    STORED_COUNT
} stored;

static const struct {
    const char *name;
    unsigned bits;
    DLDataType dtype, also; /* also: what is taken in its place */
} infos[] = {
    [U8] = {"u8", 8, {kDLUInt, 8, 1}, {kDLUInt, 8, 1}},
    [U16] = {"u16", 16, {kDLUInt, 16, 1}, {kDLUInt, 16, 1}},
    [U32] = {"u32", 32, {kDLUInt, 32, 1}, {kDLUInt, 32, 1}},
    [F8E8M0] = {"f8e8m0", 8, {TILEC_DL_F8E8M0, 8, 1}, {kDLUInt, 8, 1}},
    [I4] = {"i4", 4, {kDLInt, 4, 2}, {kDLUInt, 8, 1}},
    [U4] = {"u4", 4, {kDLUInt, 4, 2}, {kDLInt, 8, 1}},
    [F4E2M1] = {"f4e2m1", 4, {TILEC_DL_F4E2M1, 4, 2}, {kDLUInt, 8, 1}},
};

static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

typedef struct test {
    run_counts counts;
    tilec_context *cx;
    num_rng rng;
} test;

/* ---- Definitions ---- */

static bool is_int(stored s)
{
    return s != F8E8M0 && s != F4E2M1;
}

static double value_of(stored s, uint32_t code)
{
    switch (s) {
    case F8E8M0: return code == 255 ? NAN : ldexp(1, (int)code - 127);
    case F4E2M1: return magnitudes[code & 7] * (code & 8 ? -1.0 : 1.0);
    case I4: return (double)code - (code & 8 ? 16 : 0);
    default: return code;
    }
}

static uint32_t nearest_e8m0(double x)
{
    x = fabs((double)(float)x);
    if (isnan(x))
        return 255;
    if (isinf(x))
        return 254;
    if (x == 0)
        return 0;
    int e = ilogb(x);
    double code = e + 127 + (ldexp(x, -e) >= 1.5);
    return (uint32_t)fmin(fmax(code, 0), 254);
}

static uint32_t nearest_e2m1(double x)
{
    uint32_t best = 0;
    if (isnan(x))
        return 7;
    for (uint32_t i = 1; i < 8; i++) {
        double d = fabs(fmin(fabs(x), 10) - magnitudes[i]);
        double least = fabs(fmin(fabs(x), 10) - magnitudes[best]);
        if (d < least || (d == least && i % 2 == 0))
            best = i;
    }
    return best | (signbit(x) ? 8 : 0);
}

static uint32_t code_of_float(stored s, double x)
{
    double low = s == I4 ? -8 : 0;
    double high = low + ldexp(1, (int)infos[s].bits) - 1;
    if (s == F8E8M0)
        return nearest_e8m0(x);
    if (s == F4E2M1)
        return nearest_e2m1(x);
    x = isnan(x) ? 0 : fmin(fmax(trunc(x), low), high);
    return (uint32_t)(int64_t)x & (uint32_t)(~0ull >> (64 - infos[s].bits));
}

static uint32_t code_of_int(stored s, int64_t i)
{
    if (!is_int(s))
        return code_of_float(s, (double)(float)i);
    return (uint32_t)i & (uint32_t)(~0ull >> (64 - infos[s].bits));
}

/* ---- Memory ---- */

static uint32_t read_code(stored s, const unsigned char *p, int i)
{
    uint32_t code = 0;
    if (infos[s].bits == 4)
        return p[i / 2] >> 4 * (i % 2) & 15;
    memcpy(&code, p + (size_t)i * infos[s].bits / 8, infos[s].bits / 8);
    return code;
}

static DLTensor view_of(void *data, DLDataType dtype, int64_t *shape)
{
    DLTensor t = {.data = data, .ndim = 1, .dtype = dtype, .shape = shape};
    t.device.device_type = kDLCPU;
    return t;
}

static int64_t elements(stored s)
{
    return infos[s].bits == 4 ? COUNT / 2 : COUNT;
}

static int64_t read_int(num_type t, const unsigned char *p)
{
    int64_t i = 0;
    size_t bytes = num_bytes(t);
    memcpy(&i, p, bytes);
    if (t == NUM_I1)
        return i & 1;
    return (int64_t)((uint64_t)i << (64 - 8 * bytes)) >> (64 - 8 * bytes);
}

/* All values of up to 16 bits; of wider types any bits, and numbers near those
 * that the storage types have. */
static void fill(test *t, num_type type, unsigned char *p)
{
    size_t bytes = num_bytes(type);
    for (int i = 0; i < COUNT; i++, p += bytes) {
        uint64_t bits = bytes <= 2 ? (uint64_t)i : num_next(&t->rng);
        memcpy(p, &bits, bytes);
        if (type == NUM_I1)
            *p &= 1;
        if (bytes < 4 || i % 2)
            continue;
        double x = num_below(&t->rng, 800) / 16.0 - 25;
        if (i % 4)
            x = ldexp(num_uniform(&t->rng) + 0.5,
                      num_between(&t->rng, -130, 130));
        if (num_is_float(type))
            num_write(type, p, x);
    }
}

/* ---- One pair of types ---- */

static const char text[] =
    "kernel @k(%%x: tensor<[?] x %s>, %%y: tensor<[?] x %s>)\n"
    "    grid(cdiv(size(%%x, 0), 1024)) {\n"
    "  %%i = program_id(0) * 1024\n"
    "  %%v = load %%x[%%i +: 1024] boundary(0)\n"
    "  store %%y[%%i +: 1024], cast(%%v, %s) boundary(0)\n"
    "}\n";

static bool run(test *t, const char *from, const char *to, DLTensor *x,
                DLTensor *y)
{
    char source[512];
    tilec_error error = {0};
    snprintf(source, sizeof source, text, from, to, to);
    tilec_kernel *k = run_compile(t->cx, source, NULL);
    tilec_argument args[] = {tilec_tensor("x", x), tilec_tensor("y", y)};
    bool ok = k && run_launch(k, args, 2, NULL, &error) == TILEC_OK;
    tilec_kernel_free(k);
    return run_check(&t->counts, ok, "%s to %s: %s", from, to, error.message);
}

/* A denormal that a GPU counts as 0. */
static bool is_denormal(num_type to, double want)
{
    return want != 0 && fabs(want) < 0x1p-126 && to != NUM_F64;
}

static bool holds(num_type to, const unsigned char *p, stored s, double value)
{
    int64_t got = read_int(to, p);
    if (to == NUM_I1)
        return is_denormal(to, value) || got == (value != 0);
    if (num_is_float(to))
        return isnan(value) ? isnan(num_read(to, p))
                            : num_read(to, p) == num_round(to, value);
    unsigned bits = 8 * (unsigned)num_bytes(to);
    if (is_int(s))
        return got == (int64_t)((uint64_t)(int64_t)value << (64 - bits)) >>
                          (64 - bits);
    double most = ldexp(1, (int)bits - 1);
    if (isnan(value))
        return got == 0;
    return value >= most ? got == (int64_t)(~0ull >> (65 - bits))
                         : got == (int64_t)value;
}

static void check_from(test *t, stored s, num_type to)
{
    int64_t nx = elements(s), ny = COUNT;
    unsigned char *x = malloc(COUNT * 4), *y = calloc(COUNT, 8);
    for (int i = 0; i < COUNT; i++) { /* each code, also in each half */
        uint32_t code = s == U32 ? (uint32_t)num_next(&t->rng) : (uint32_t)i;
        if (infos[s].bits == 4)
            x[i / 2] = (unsigned char)(i / 2);
        else
            memcpy(x + (size_t)i * infos[s].bits / 8, &code, infos[s].bits / 8);
    }
    DLTensor from = view_of(x, infos[s].also, &nx);
    DLTensor result = view_of(y, run_dtype(to), &ny);
    bool ok = run(t, infos[s].name, num_name(to), &from, &result);
    for (int i = 0; ok && i < COUNT; i++) {
        const unsigned char *p = y + (size_t)i * num_bytes(to);
        uint32_t code = read_code(s, x, i);
        double want = value_of(s, code);
        ok = run_check(&t->counts, holds(to, p, s, want),
                       "%s 0x%x (%g) to %s: %g, 0x%llx", infos[s].name, code,
                       want, num_name(to), num_read(to, p),
                       (long long)read_int(to, p));
    }
    free(x);
    free(y);
}

static void check_to(test *t, num_type from, stored s)
{
    int64_t nx = COUNT, ny = elements(s);
    unsigned char *x = malloc((size_t)COUNT * 8), *y = calloc(COUNT, 4);
    fill(t, from, x);
    DLTensor source = view_of(x, run_dtype(from), &nx);
    DLTensor result = view_of(y, infos[s].dtype, &ny);
    bool ok = run(t, num_name(from), infos[s].name, &source, &result);
    for (int i = 0; ok && i < COUNT; i++) {
        const unsigned char *p = x + (size_t)i * num_bytes(from);
        uint32_t want = num_is_float(from) ? code_of_float(s, num_read(from, p))
                                           : code_of_int(s, read_int(from, p));
        uint32_t got = read_code(s, y, i);
        ok = run_check(&t->counts, got == want,
                       "%s %g (0x%llx) to %s: 0x%x, expected 0x%x",
                       num_name(from), num_read(from, p),
                       (long long)read_int(from, p), infos[s].name, got, want);
    }
    free(x);
    free(y);
}

static void check_between(test *t, stored from, stored to)
{
    int64_t nx = elements(from), ny = elements(to);
    unsigned char *x = malloc(COUNT * 4), *y = calloc(COUNT, 4);
    for (int i = 0; i < COUNT * 4; i++)
        x[i] = (unsigned char)num_next(&t->rng);
    DLTensor source = view_of(x, infos[from].dtype, &nx);
    DLTensor result = view_of(y, infos[to].dtype, &ny);
    bool ok = run(t, infos[from].name, infos[to].name, &source, &result);
    for (int i = 0; ok && i < COUNT; i++) {
        uint32_t code = read_code(from, x, i), got = read_code(to, y, i);
        double value = value_of(from, code);
        uint32_t want = from == to     ? code
                        : is_int(from) ? code_of_int(to, (int64_t)value)
                                       : code_of_float(to, value);
        ok = run_check(&t->counts, got == want,
                       "%s 0x%x to %s: 0x%x, expected 0x%x", infos[from].name,
                       code, infos[to].name, got, want);
    }
    free(x);
    free(y);
}

int main(void)
{
    test t = {.cx = run_context(), .rng = {1}};
    for (stored s = 0; s < STORED_COUNT; s++) {
        for (num_type n = 0; n < NUM_TYPE_COUNT; n++) {
            check_from(&t, s, n);
            check_to(&t, n, s);
        }
        for (stored to = 0; to < STORED_COUNT; to++)
            check_between(&t, s, to);
    }
    run_context_free(t.cx);
    return run_finish(&t.counts);
}
