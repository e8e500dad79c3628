/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementary functions of the host against the C library's in double: some two
 * million bit patterns evenly over all floats, every float around the
 * places where something changes, and the special values. Each on the machine
 * at hand, with AVX2, and with nothing but x86-64.
 */
#include "codegen/llvm/math.h"

#include "test/unit/jit.h"
#include "test/unit/run.h"

#include <check.h>
#include <float.h>
#include <math.h>

enum { WIDTH = 16, STEP = 2003, AROUND = 2000 };

static double rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double rcp(double x)
{
    return 1 / x;
}

/* bound: largest error in ulp, 0 for the very same bits. */
static const struct function {
    const char *name;
    tc_opcode op;
    double (*exact)(double);
    double bound;
} functions[] = {
    {"exp", TC_EXP, exp, 2},    {"exp2", TC_EXP2, exp2, 2},
    {"log", TC_LOG, log, 2},    {"log2", TC_LOG2, log2, 2},
    {"tanh", TC_TANH, tanh, 2}, {"rsqrt", TC_RSQRT, rsqrt, 2},
    {"rcp", TC_RCP, rcp, 0.5},  {"sqrt", TC_SQRT, sqrt, 0.5},
    {"erf", TC_ERF, erf, 2},    {"sin", TC_SIN, sin, 1},
    {"cos", TC_COS, cos, 1},    {"floor", TC_FLOOR, floor, 0},
    {"ceil", TC_CEIL, ceil, 0}, {"round", TC_ROUND, nearbyint, 0},
    {"abs", TC_ABS, fabs, 0},
};
enum { NFUNCTIONS = sizeof functions / sizeof *functions };

static const struct jit_machine *const machines[] = {&jit_native, &jit_avx2,
                                                     &jit_baseline};
enum { NMACHINES = sizeof machines / sizeof *machines };

typedef void call_fn(const void *in, void *out);

/* void f(in, out): f of `width` elements (0: a scalar). */
static struct jit compile(const struct jit_machine *m, const struct function *f,
                          bool is_double, unsigned width)
{
    struct jit j = jit_begin(m);
    LLVMTypeRef type = is_double ? LLVMDoubleTypeInContext(j.cx)
                                 : LLVMFloatTypeInContext(j.cx);
    if (width)
        type = LLVMVectorType(type, width);
    LLVMValueRef fn = jit_function(&j, "f", 2);
    LLVMValueRef x = LLVMBuildLoad2(j.b, type, LLVMGetParam(fn, 0), "");
    LLVMSetAlignment(x, 4);
    LLVMValueRef y = tc_llvm_math(j.b, f->op, x);
    ck_assert_ptr_nonnull(y);
    LLVMSetAlignment(LLVMBuildStore(j.b, y, LLVMGetParam(fn, 1)), 4);
    LLVMBuildRetVoid(j.b);
    jit_finish(&j);
    return j;
}

static float float_from(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_from(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* In units of the last place that the exact value would have as a float. An
 * exact value below the normal range may have become 0. */
static double ulp_error(float got, double exact)
{
    if (isnan(exact) || isnan(got))
        return isnan(exact) && isnan(got) ? 0 : INFINITY;
    if (fabs(exact) < FLT_MIN && got == 0)
        return 0;
    double limit = 0x1p128;
    double want = fabs(exact) > limit ? copysign(limit, exact) : exact;
    double g = isinf(got) ? copysign(limit, got) : got;
    /* Infinity for infinity only, but one rounding away counts as near. */
    if (isinf(exact) && !isinf(got))
        return INFINITY;
    int e = want ? ilogb(want) : -126;
    if (e < -126)
        e = -126;
    if (e > 127)
        e = 127;
    return fabs(g - want) / ldexp(1, e - 23);
}

struct worst {
    double error;
    float x, got;
};

static void try_points(call_fn *call, const struct function *f, const float *x,
                       struct worst *worst)
{
    float y[WIDTH];
    call(x, y);
    for (unsigned i = 0; i < WIDTH; i++) {
        double exact = f->exact(x[i]);
        double error = f->bound       ? ulp_error(y[i], exact)
                       : isnan(exact) ? (isnan(y[i]) ? 0 : INFINITY)
                       : bits_from(y[i]) == bits_from((float)exact) ? 0
                                                                    : INFINITY;
        if (error > worst->error)
            *worst = (struct worst){error, x[i], y[i]};
    }
}

static void try_range(call_fn *call, const struct function *f, uint32_t first,
                      uint64_t count, uint32_t step, struct worst *worst)
{
    float x[WIDTH];
    for (uint64_t i = 0; i < count; i += WIDTH) {
        for (unsigned k = 0; k < WIDTH; k++)
            x[k] = float_from(first + (uint32_t)(i + k) * step);
        try_points(call, f, x, worst);
    }
}

/* Where functions change their formula, their exponent, or end. */
static const float places[] = {
    0.0f,         -0.0f,       0x1p-149f,     FLT_MIN,        -FLT_MIN,
    0.5f,         1.0f,        -1.0f,         1.5f,           2.0f,
    0.6f,         0.625f,      0.9375f,       4.0f,           9.02f,
    10.0f,        20.0f,       0x1.6a09e6p0f, 0x1.6a09e6p-1f, 0.34657359f,
    -0.34657359f, 0.69314718f, 88.72283f,     89.0f,          -87.33654f,
    -88.0f,       -103.97f,    -104.0f,       127.0f,         127.5f,
    128.0f,       129.0f,      -126.0f,       -126.5f,        -127.0f,
    -149.0f,      -150.0f,     0x1p22f,       0x1.8p22f,      0x1p23f,
    -0x1p23f,     0x1p24f,     0x1p31f,       0x1p63f,        FLT_MAX,
    -FLT_MAX,     INFINITY,    -INFINITY,     3.14159265f,    1.57079633f,
    1e5f,         3.5f,        2.5f,          -2.5f,
};

static void check_function(call_fn *call, const struct function *f,
                           const char *machine)
{
    struct worst worst = {-1, 0, 0};
    try_range(call, f, 0, (UINT64_C(1) << 32) / STEP, STEP, &worst);
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
        try_range(call, f, bits_from(places[i]) - AROUND, 2 * AROUND + 16, 1,
                  &worst);
    /* Whole numbers and halves, and their neighbours. */
    for (int i = -300; i <= 300; i++)
        try_range(call, f, bits_from((float)i / 2) - 8, 16, 1, &worst);
    printf("%-8s %-6s %.3f ulp at %a\n", machine, f->name, worst.error,
           worst.x);
    ck_assert_msg(worst.error <= f->bound, "%s: %s(%a) gave %a, %g ulp off",
                  machine, f->name, worst.x, worst.got, worst.error);
}

START_TEST(f32_within_bounds)
{
    const struct jit_machine *m = machines[_i / NFUNCTIONS];
    if (!jit_can_run(m))
        return;
    const struct function *f = &functions[_i % NFUNCTIONS];
    struct jit j = compile(m, f, false, WIDTH);
    check_function((call_fn *)jit_address(&j, "f"), f, m->name);
    jit_end(&j);
}
END_TEST

/* Every width gives the numbers that width 16 gives, up to the bound. */
START_TEST(f32_any_width)
{
    static const unsigned widths[] = {0, 1, 2, 3, 4, 8, 32};
    const struct jit_machine *m = machines[_i / 7];
    unsigned width = widths[_i % 7], n = width ? width : 1;
    if (!jit_can_run(m))
        return;
    float x[32], y[32];
    for (unsigned i = 0; i < NFUNCTIONS; i++) {
        const struct function *f = &functions[i];
        struct jit j = compile(m, f, false, width);
        call_fn *call = (call_fn *)jit_address(&j, "f");
        for (uint32_t bits = 12345; bits < 0xfff00000u; bits += 0x40001) {
            for (unsigned k = 0; k < n; k++)
                x[k] = float_from(bits + 77 * k);
            call(x, y);
            for (unsigned k = 0; k < n; k++)
                if (ulp_error(y[k], f->exact(x[k])) > 2)
                    ck_abort_msg("%s(%a) gave %a", f->name, x[k], y[k]);
        }
        jit_end(&j);
    }
}
END_TEST

static bool same_double(double a, double b)
{
    return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof a);
}

START_TEST(f64_is_the_c_library)
{
    const struct jit_machine *m = machines[_i / 2];
    unsigned width = _i % 2 ? 8 : 0, n = width ? width : 1;
    if (!jit_can_run(m))
        return;
    static const double extra[8] = {0.0, -0.0,      INFINITY, -INFINITY,
                                    NAN, 0x1p-1074, DBL_MAX,  -2.5};
    double x[8], y[8];
    for (unsigned i = 0; i < NFUNCTIONS; i++) {
        const struct function *f = &functions[i];
        struct jit j = compile(m, f, true, width);
        call_fn *call = (call_fn *)jit_address(&j, "f");
        for (int t = -2000; t < 2000; t++) {
            for (unsigned k = 0; k < n; k++)
                x[k] = t < -1990 ? extra[(t + 2000 + k) % 8]
                                 : (t + 0.125 * k) * exp2(t % 37 - 18);
            call(x, y);
            for (unsigned k = 0; k < n; k++)
                if (!same_double(y[k], f->exact(x[k])))
                    ck_abort_msg("%s(%a) gave %a", f->name, x[k], y[k]);
        }
        jit_end(&j);
    }
}
END_TEST

START_TEST(only_the_listed_opcodes)
{
    struct jit j = jit_begin(&jit_native);
    LLVMValueRef fn = jit_function(&j, "f", 1);
    LLVMValueRef x = LLVMBuildLoad2(j.b, LLVMFloatTypeInContext(j.cx),
                                    LLVMGetParam(fn, 0), "");
    ck_assert_ptr_null(tc_llvm_math(j.b, TC_ADD, x));
    ck_assert_ptr_null(tc_llvm_math(j.b, TC_LOAD, x));
    LLVMBuildRetVoid(j.b);
    jit_finish(&j);
    jit_end(&j);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("math");
    TCase *c = tcase_create("math");
    tcase_add_loop_test(c, f32_within_bounds, 0, NMACHINES * NFUNCTIONS);
    tcase_add_loop_test(c, f32_any_width, 0, NMACHINES * 7);
    tcase_add_loop_test(c, f64_is_the_c_library, 0, NMACHINES * 2);
    tcase_add_test(c, only_the_listed_opcodes);
    suite_add_tcase(s, c);
    return run_suite(s);
}
