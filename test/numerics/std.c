/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of kernels/std against the C library in double precision: bit
 * patterns of f32 at even distances, and random pairs; gradients; the known
 * answers of Philox.
 *
 *   numerics_std [--every N]
 *
 * Every N-th pattern of 32 bits is tried: 1 are all of them.
 */
#include "test/numerics/run.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 20 };

/* ---- The functions ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double gelu(double x)
{
    return x * 0.5 * erfc(-x * sqrt(0.5));
}

static double gelu_tanh(double x)
{
    return 0.5 * x *
           (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double relu(double x)
{
    return x > 0 || isnan(x) ? x : 0;
}

static double round_up(double x)
{
    return floor(x + 0.5);
}

/* Errors are within `ulp` of the result, plus `share` of the argument (of
 * functions that cancel); gradients within 1e-5 of the largest of 1, the
 * argument and themselves where `is_smooth`. */
typedef struct unary {
    const char *name;
    double (*want)(double);
    double ulp, share;
    bool is_smooth;
    double least; /* results below it may be 0 */
} unary;

static const unary unaries[] = {
    {"expm1", expm1, 3, 0, true, 0},
    {"log1p", log1p, 2, 0, true, 0},
    {"atan", atan, 2, 0, true, 0},
    {"asin", asin, 3, 0, true, 0},
    {"acos", acos, 2, 0, true, 0},
    {"trunc", trunc, 0, 0, false, 0},
    {"round_away", round, 0, 0, false, 0},
    {"round_up", round_up, 0, 0, false, 0},
    {"relu", relu, 0, 0, false, 0},
    {"sigmoid", sigmoid, 4, 0, true, 0},
    {"silu", silu, 8, 0, true, 1e-35},
    {"softplus", softplus, 4, 0, true, 0},
    {"gelu", gelu, 3, 2e-7, true, 0},
    {"gelu_tanh", gelu_tanh, 3, 2e-7, true, 0},
};

static double clamp01(double x, double y)
{
    return isnan(x) ? x : fmin(fmax(x, -1), fabs(y));
}

/* `call`: of %x and %y. */
typedef struct binary {
    const char *call;
    double (*want)(double, double);
    double ulp;
} binary;

static const binary binaries[] = {
    {"@pow(%x, %y)", pow, 1},
    {"@atan2(%x, %y)", atan2, 3},
    {"@copysign(%x, %y)", copysign, 0},
    {"@clamp(%x, -1.0, abs(%y))", clamp01, 0},
};

static int32_t popcount(uint32_t x)
{
    return __builtin_popcount(x);
}

static int32_t clz(uint32_t x)
{
    return x ? __builtin_clz(x) : 32;
}

static int32_t ctz(uint32_t x)
{
    return x ? __builtin_ctz(x) : 32;
}

/* Tables and powers of two, not what kernels/std/formats.tile computes. */
static int32_t bits_of(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static int32_t i4(uint32_t x)
{
    static const int8_t all[] = {0,  1,  2,  3,  4,  5,  6,  7,
                                 -8, -7, -6, -5, -4, -3, -2, -1};
    return all[x % 16];
}

static int32_t f4e2m1(uint32_t x)
{
    static const float all[] = {0,     0.5F,  1,  1.5F,  2,  3,  4,  6,
                                -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
    return bits_of(all[x % 16]);
}

static int32_t e8m0(uint32_t x)
{
    int e = (int)(x % 256);
    return e == 255 ? 0x7fc00000 : bits_of(ldexpf(1, e - 127));
}

static const struct bits {
    const char *call;
    int32_t (*want)(uint32_t);
} bits[] = {
    {"@popcount(%bits)", popcount},
    {"@clz(%bits)", clz},
    {"@ctz(%bits)", ctz},
    {"@i4(%bits)", i4},
    {"bitcast(@f4e2m1(%bits), i32)", f4e2m1},
    {"bitcast(@e8m0(%bits), i32)", e8m0},
};

/* ---- Runs ---- */

typedef struct test {
    tilec_context *cx;
    run_counts counts;
    num_tensor x, y, result, slope;
} test;

static const char unary_text[] =
    "kernel @k(%%x.all: tensor<[?] x f32>, %%result: tensor<[?] x f32>,\n"
    "          %%slope: tensor<[?] x f32>) grid { yield cdiv(size(%%x.all, 0), "
    "1024) } {\n"
    "  %%i = program_id(0) * 1024\n"
    "  %%x = load %%x.all[%%i +: 1024] boundary(0)\n"
    "  store %%result[%%i +: 1024], @%s(%%x) boundary(0)\n"
    "  store %%slope[%%i +: 1024], %s boundary(0)\n"
    "}\n";
static const char binary_text[] =
    "kernel @k(%%x.all: tensor<[?] x f32>, %%y.all: tensor<[?] x f32>,\n"
    "          %%result: tensor<[?] x f32>) grid { yield cdiv(size(%%x.all, "
    "0), 1024) } {\n"
    "  %%i = program_id(0) * 1024\n"
    "  %%x = load %%x.all[%%i +: 1024] boundary(0)\n"
    "  %%y = load %%y.all[%%i +: 1024] boundary(0)\n"
    "  store %%result[%%i +: 1024], %s boundary(0)\n"
    "}\n";
static const char bits_text[] =
    "kernel @k(%%x: tensor<[?] x i32>, %%result: tensor<[?] x i32>)\n"
    "    grid { yield cdiv(size(%%x, 0), 1024) } {\n"
    "  %%i = program_id(0) * 1024\n"
    "  %%bits = load %%x[%%i +: 1024] boundary(0)\n"
    "  store %%result[%%i +: 1024], %s boundary(0)\n"
    "}\n";

static tilec_kernel *compile(test *t, const char *name, const char *text)
{
    tilec_compile_options options = TILEC_INIT(tilec_compile_options);
    tilec_kernel *k = run_compile(t->cx, text, &options);
    run_check(&t->counts, k, "%s: does not compile", name);
    return k;
}

static bool launch(test *t, const char *name, const tilec_kernel *k,
                   const tilec_argument *args, size_t n)
{
    tilec_error error = {0};
    return run_check(&t->counts,
                     run_launch(k, args, n, NULL, &error) == TILEC_OK, "%s: %s",
                     name, error.message);
}

static float *floats(const num_tensor *t)
{
    return (float *)(void *)t->data;
}

static void fill(num_tensor *t, uint64_t first, uint64_t every)
{
    for (int i = 0; i < CHUNK; i++) {
        uint32_t word = (uint32_t)((first + (uint64_t)i) * every);
        memcpy(t->data + (size_t)i * 4, &word, 4);
    }
}

/* In units of the last place of `want`, as far as `share` of x does not explain
 * it; denormals count as 0. */
static double error_of(float got, double want, double x, double share)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : INFINITY;
    double beyond = FLT_MAX * (1 + 0x1p-25);
    if (isinf(got) || fabs(want) >= beyond)
        return fabs(want) >= FLT_MAX * (1 - 0x1p-20) &&
                       fabs((double)got) >= FLT_MAX * (1 - 0x1p-20) &&
                       !signbit(got) == !signbit(want)
                   ? 0
                   : INFINITY;
    double ulp = ldexp(1, ilogb(fmax(fabs(want), 0x1p-126)) - 23);
    double off = fabs((double)got - want) - share * fabs(x);
    if (fabs(want) < 0x1p-125 && off <= 0x1p-126)
        return 0;
    return fmax(off, 0) / ulp;
}

/* The rounding to f32 is half of a unit. */
static void check_values(test *t, const unary *u)
{
    const float *x = floats(&t->x), *got = floats(&t->result);
    for (int i = 0; i < CHUNK; i++) {
        double want = u->want(x[i]);
        if (fabs(want) < u->least && fabs((double)got[i]) < u->least)
            continue;
        double e = error_of(got[i], want, x[i], u->share);
        if (!run_check(&t->counts, e <= u->ulp,
                       "%s(%a) is %a, expected %a: %.1f ulp", u->name,
                       (double)x[i], (double)got[i], want, e))
            return;
    }
}

/* By difference quotients; x away from the ends of what f32 holds and from
 * those of the function's domain. */
static void check_slopes(test *t, const unary *u)
{
    const float *all = floats(&t->x), *got = floats(&t->slope);
    for (int i = 0; i < CHUNK; i++) {
        double x = all[i], h = 1e-6 * fmax(fabs(x), 1e-3);
        double want = (u->want(x + h) - u->want(x - h)) / (2 * h);
        if (!(fabs(x) > 1e-6 && fabs(x) < 80 && fabs(want) < 1e30) ||
            fabs(fabs(x) - 1) < 1e-3)
            continue;
        double scale = fmax(fabs(want), 1);
        if (!run_check(&t->counts, fabs((double)got[i] - want) <= 2e-5 * scale,
                       "the slope of %s at %a is %a, expected %a", u->name, x,
                       (double)got[i], want))
            return;
    }
}

static void run_unary(test *t, const unary *u, uint64_t every)
{
    char text[1024], slope[64] = "%x";
    if (u->is_smooth)
        snprintf(slope, sizeof slope,
                 "vjp @%s(%%x) seed(splat(1.0, tile<1024 x f32>))", u->name);
    snprintf(text, sizeof text, unary_text, u->name, slope);
    tilec_kernel *k = compile(t, u->name, text);
    run_view v[3];
    tilec_argument args[] = {
        tilec_tensor("x.all", run_view_of(&v[0], &t->x)),
        tilec_tensor("result", run_view_of(&v[1], &t->result)),
        tilec_tensor("slope", run_view_of(&v[2], &t->slope))};
    int failed = t->counts.failed;
    for (uint64_t at = 0; k && at * every < 1ULL << 32; at += CHUNK) {
        fill(&t->x, at, every);
        if (!launch(t, u->name, k, args, 3))
            break;
        check_values(t, u);
        if (u->is_smooth)
            check_slopes(t, u);
        if (t->counts.failed > failed)
            break;
    }
    tilec_kernel_free(k);
}

static float any_float(num_rng *r)
{
    static const float some[] = {0,         -0.0F,    1,        -1,
                                 2,         -3,       0.5F,     INFINITY,
                                 -INFINITY, NAN,      FLT_MAX,  -FLT_MAX,
                                 1e-40F,    16777217, -8388609, 1.5F};
    if (num_below(r, 8) == 0)
        return some[num_below(r, sizeof some / sizeof *some)];
    if (num_below(r, 4) == 0)
        return (float)num_between(r, -40, 40);
    uint32_t word = (uint32_t)num_next(r);
    float x;
    memcpy(&x, &word, 4);
    return num_below(r, 2) ? x : (float)(num_normal(r) * 10);
}

static void run_binary(test *t, const binary *b)
{
    char text[1024];
    snprintf(text, sizeof text, binary_text, b->call);
    tilec_kernel *k = compile(t, b->call, text);
    run_view v[3];
    tilec_argument args[] = {
        tilec_tensor("x.all", run_view_of(&v[0], &t->x)),
        tilec_tensor("y.all", run_view_of(&v[1], &t->y)),
        tilec_tensor("result", run_view_of(&v[2], &t->result))};
    num_rng rng = {7};
    for (int i = 0; i < CHUNK; i++) {
        floats(&t->x)[i] = any_float(&rng);
        floats(&t->y)[i] = any_float(&rng);
    }
    if (k && launch(t, b->call, k, args, 3))
        for (int i = 0; i < CHUNK; i++) {
            float x = floats(&t->x)[i], y = floats(&t->y)[i];
            float got = floats(&t->result)[i];
            /* Denormals may count as 0, and NaNs have no sign. */
            if (fpclassify(x) == FP_SUBNORMAL ||
                fpclassify(y) == FP_SUBNORMAL || isnan(y))
                continue;
            double e = error_of(got, b->want(x, y), 0, 0);
            if (!run_check(&t->counts, e <= b->ulp,
                           "%s of %a, %a is %a, expected %a: %.1f ulp", b->call,
                           (double)x, (double)y, (double)got, b->want(x, y), e))
                break;
        }
    tilec_kernel_free(k);
}

static void run_bits(test *t, const struct bits *b, uint64_t every)
{
    char text[1024];
    snprintf(text, sizeof text, bits_text, b->call);
    tilec_kernel *k = compile(t, b->call, text);
    num_tensor x = t->x, result = t->result;
    x.type = result.type = NUM_I32;
    run_view v[2];
    tilec_argument args[] = {
        tilec_tensor("x", run_view_of(&v[0], &x)),
        tilec_tensor("result", run_view_of(&v[1], &result))};
    fill(&t->x, 0, every);
    if (k && launch(t, b->call, k, args, 2))
        for (int i = 0; i < CHUNK; i++) {
            int32_t got;
            uint32_t word = (uint32_t)((uint64_t)i * every);
            memcpy(&got, result.data + (size_t)i * 4, 4);
            if (!run_check(&t->counts, got == b->want(word),
                           "%s(%08x) is %d, expected %d", b->call,
                           (unsigned)word, (int)got, (int)b->want(word)))
                break;
        }
    tilec_kernel_free(k);
}

/* ---- Random numbers ---- */

/* Of Random123's known answers: a counter, a key, the words after 7 and after
 * 10 rounds. */
static const struct answer {
    uint32_t counter[4], key[2], words[4];
    int rounds;
} answers[] = {
    {{0}, {0}, {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}, 7},
    {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}, 10},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
     10},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
     10},
};

static void run_philox(test *t, const struct answer *a)
{
    char text[1024];
    snprintf(text, sizeof text,
             "kernel @k(%%result: tensor<[?] x i32>) grid(1) {\n"
             "  %%0, %%1, %%2, %%3 = @philox%s(%d, %d, %d, %d, %d, %d)\n"
             "  store base(%%result), %%0\n"
             "  store base(%%result) + 1, %%1\n"
             "  store base(%%result) + 2, %%2\n"
             "  store base(%%result) + 3, %%3\n"
             "}\n",
             a->rounds == 7 ? "_7" : "", (int)a->counter[0], (int)a->counter[1],
             (int)a->counter[2], (int)a->counter[3], (int)a->key[0],
             (int)a->key[1]);
    tilec_kernel *k = compile(t, "philox", text);
    num_tensor result = t->result;
    result.type = NUM_I32;
    run_view v;
    tilec_argument args[] = {tilec_tensor("result", run_view_of(&v, &result))};
    if (k && launch(t, "philox", k, args, 1))
        run_check(&t->counts, memcmp(result.data, a->words, 16) == 0,
                  "philox of %d rounds of %08x: another word than expected",
                  a->rounds, (unsigned)a->counter[0]);
    tilec_kernel_free(k);
}

/* The mean of the numbers and that of their squares. */
static void run_moments(test *t, const char *call, double mean, double square)
{
    char text[1024];
    snprintf(text, sizeof text,
             "kernel @k(%%result: tensor<[?] x f32>) grid { yield "
             "cdiv(size(%%result, 0), 1024) } {\n"
             "  %%i = program_id(0) * 1024\n"
             "  store %%result[%%i +: 1024], @%s(1234567890123, %%i + "
             "range(1024)) boundary(0)\n"
             "}\n",
             call);
    tilec_kernel *k = compile(t, call, text);
    run_view v;
    tilec_argument args[] = {
        tilec_tensor("result", run_view_of(&v, &t->result))};
    if (k && launch(t, call, k, args, 1)) {
        double sum = 0, squares = 0;
        for (int i = 0; i < CHUNK; i++) {
            double x = floats(&t->result)[i];
            sum += x;
            squares += x * x;
        }
        run_check(&t->counts, fabs(sum / CHUNK - mean) < 0.005, "%s: mean %g",
                  call, sum / CHUNK);
        run_check(&t->counts, fabs(squares / CHUNK - square) < 0.01,
                  "%s: mean square %g", call, squares / CHUNK);
    }
    tilec_kernel_free(k);
}

int main(int argc, char **argv)
{
    uint64_t every = (uint64_t)run_option(argc, argv, "--every", 2053);
    test t = {.cx = run_context()};
    num_tensor *tensors[] = {&t.x, &t.y, &t.result, &t.slope};
    for (int i = 0; i < 4; i++)
        *tensors[i] = num_tensor_new(NUM_F32, 1, (int32_t[]){CHUNK}, NULL);
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++)
        run_unary(&t, &unaries[i], every);
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        run_binary(&t, &binaries[i]);
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        run_bits(&t, &bits[i], 4099);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        run_philox(&t, &answers[i]);
    run_moments(&t, "rand", 0.5, 1.0 / 3);
    run_moments(&t, "randn", 0, 1);
    for (int i = 0; i < 4; i++)
        num_tensor_free(tensors[i]);
    run_context_free(t.cx);
    return run_finish(&t.counts);
}
