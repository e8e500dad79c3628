/* SPDX-License-Identifier: Apache-2.0
 *
 * What code generation for GPUs can be asked without one: that every op has an
 * emitter, and how exact the elementary functions are that the host does not
 * share. What they leave to the GPU's own instructions is exact here;
 * test/numerics/semantics.c, on a GPU, has these as they are.
 */
#include "codegen/nvptx/emit.h"
#include "codegen/nvptx/math/math.h"
#include "test/unit/jit.h"
#include "test/unit/run.h"

#include <check.h>
#include <float.h>
#include <math.h>

/* ---- Emitters ---- */

/* What no finished kernel holds: their owners take terminators, passes the
 * rest; plans are the host's. */
static bool is_gone(tc_opcode code)
{
    return (tc_op_infos[code].traits & TC_TERMINATOR) || code == TC_CALL ||
           code == TC_VJP || code == TC_DOT || code == TC_BISECT ||
           code == TC_SORT || code == TC_TAKE || code == TC_BREAK_IF ||
           code == TC_HISTOGRAM || code == TC_NUM_SMS || code == TC_WORKSPACE ||
           code == TC_FILL || code == TC_LAUNCH;
}

START_TEST(every_op_has_an_emitter)
{
    for (tc_opcode code = 0; code < TC_OPCODE_COUNT; code++)
        ck_assert_msg(tc_gen_has_emitter(code) != is_gone(code), "%s",
                      tc_op_infos[code].name);
}
END_TEST

/* ---- Functions ---- */

static const struct function {
    const char *name;
    tc_opcode op;
    bool is_64;
    long double (*exact)(long double);
    double bound, from, to; /* ulp; arguments */
} functions[] = {
    {"sin f32", TC_SIN, false, sinl, 2, -1e5, 1e5},
    {"cos f32", TC_COS, false, cosl, 2, -1e5, 1e5},
    {"sin near 0", TC_SIN, false, sinl, 2, -1, 1},
    {"exp f32", TC_EXP, false, expl, 2, -87, 88},
    {"log f32", TC_LOG, false, logl, 2, 0x1p-126, 100},
    {"log2 f32", TC_LOG2, false, log2l, 2, 0.5, 2},
    {"tanh f32", TC_TANH, false, tanhl, 2, -9, 9},
    {"erf f32", TC_ERF, false, erfl, 2, -5, 5},
    {"exp", TC_EXP, true, expl, 2, -745, 709},
    {"exp2", TC_EXP2, true, exp2l, 2, -1074, 1024},
    {"log", TC_LOG, true, logl, 2, 0, 100},
    {"log near 1", TC_LOG, true, logl, 2, 0.7, 1.5},
    {"log2", TC_LOG2, true, log2l, 3, 0, 100},
    {"log2 near 1", TC_LOG2, true, log2l, 3, 0.7, 1.5},
    {"tanh", TC_TANH, true, tanhl, 3, -20, 20},
    {"tanh near 0", TC_TANH, true, tanhl, 3, -1, 1},
    {"erf", TC_ERF, true, erfl, 3, -6, 6},
    {"sin", TC_SIN, true, sinl, 2, -1e4, 1e4},
    {"cos", TC_COS, true, cosl, 2, -1e4, 1e4},
    {"floor", TC_FLOOR, true, floorl, 0, -10, 10},
    {"sqrt", TC_SQRT, true, sqrtl, 0.51, 0, 1e10},
    {"rcp", TC_RCP, true, NULL, 0.51, 1e-10, 1e10},
};

typedef void call_fn(const void *in, void *out);

/* The GPU's instruction, if there is a call of it, is this function of x. */
static void replace(struct jit *j, const char *prefix,
                    LLVMValueRef (*make)(struct jit *j, LLVMValueRef x))
{
    LLVMValueRef old = LLVMGetFirstFunction(j->module);
    while (old && strncmp(LLVMGetValueName(old), prefix, strlen(prefix)) != 0)
        old = LLVMGetNextFunction(old);
    if (!old)
        return;
    LLVMValueRef new =
        LLVMAddFunction(j->module, "replaced", LLVMGlobalGetValueType(old));
    LLVMSetLinkage(new, LLVMInternalLinkage);
    tc_lanes_set_target(new, j->cpu, j->features);
    LLVMPositionBuilderAtEnd(j->b,
                             LLVMAppendBasicBlockInContext(j->cx, new, ""));
    LLVMBuildRet(j->b, make(j, LLVMGetParam(new, 0)));
    LLVMReplaceAllUsesWith(old, new);
    LLVMDeleteFunction(old);
}

static LLVMValueRef make_exp2(struct jit *j, LLVMValueRef x)
{
    return tc_llvm_math(j->b, TC_EXP2, x);
}

static LLVMValueRef make_rcp(struct jit *j, LLVMValueRef x)
{
    return tc_llvm_math(j->b, TC_RCP, x);
}

static struct jit compile(const struct function *f)
{
    struct jit j = jit_begin(&jit_native);
    LLVMTypeRef type =
        f->is_64 ? LLVMDoubleTypeInContext(j.cx) : LLVMFloatTypeInContext(j.cx);
    LLVMValueRef fn = jit_function(&j, "f", 2);
    LLVMValueRef x = LLVMBuildLoad2(j.b, type, LLVMGetParam(fn, 0), "");
    LLVMValueRef y = tc_nvptx_math(j.b, f->op, x);
    ck_assert_ptr_nonnull(y);
    LLVMBuildStore(j.b, y, LLVMGetParam(fn, 1));
    LLVMBuildRetVoid(j.b);
    replace(&j, "llvm.nvvm.ex2.approx", make_exp2);
    replace(&j, "llvm.nvvm.rcp.approx", make_rcp);
    jit_finish(&j);
    return j;
}

static double call(call_fn *fn, bool is_64, double x)
{
    double y64;
    float x32 = (float)x, y32;
    if (!is_64) {
        fn(&x32, &y32);
        return y32;
    }
    fn(&x, &y64);
    return y64;
}

static double ulp_error(double got, long double exact, bool is_64)
{
    int mantissa = is_64 ? 52 : 23, least = is_64 ? -1022 : -126;
    double rounded = is_64 ? (double)exact : (float)exact;
    if (isnan(rounded) || isinf(rounded))
        return isnan(rounded) == isnan(got) && (isnan(got) || got == rounded)
                   ? 0
                   : INFINITY;
    int e = exact == 0 ? least : ilogbl(exact);
    if (e < least)
        e = least;
    return (double)(fabsl((long double)got - exact) / ldexpl(1, e - mantissa));
}

static long double exact_of(const struct function *f, double x)
{
    return f->exact ? f->exact(x) : 1 / (long double)x;
}

START_TEST(functions_within_bounds)
{
    const struct function *f = &functions[_i];
    struct jit j = compile(f);
    call_fn *fn = (call_fn *)jit_address(&j, "f");
    double worst = 0, at = 0;
    enum { POINTS = 200000 };
    for (int i = 0; i <= POINTS; i++) {
        double x = f->from + (f->to - f->from) * i / POINTS;
        x = f->is_64 ? x : (float)x;
        double e = ulp_error(call(fn, f->is_64, x), exact_of(f, x), f->is_64);
        if (e > worst) {
            worst = e;
            at = x;
        }
    }
    printf("%-12s %.3f ulp at %a\n", f->name, worst, at);
    ck_assert_msg(worst <= f->bound, "%s(%a) is %g ulp off", f->name, at,
                  worst);
    jit_end(&j);
}
END_TEST

/* What 0, infinities, NaN and subnormals give. */
START_TEST(special_values)
{
    static const double places[] = {
        0.0,       -0.0,    INFINITY, -INFINITY, NAN,      0x1p-1074,
        0x1p-1030, -1,      0x1p1023, -0x1p1023, 1,        2,
        0x1p-1022, 710,     -746,     1024.5,    0x1p-126, 0x1p-149,
        -0x1p-130, FLT_MAX, -FLT_MAX, DBL_MAX,   -DBL_MAX};
    const struct function *f = &functions[_i];
    struct jit j = compile(f);
    call_fn *fn = (call_fn *)jit_address(&j, "f");
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        double x = f->is_64 ? places[i] : (float)places[i];
        double got = call(fn, f->is_64, x);
        long double exact = exact_of(f, x);
        double e = ulp_error(got, exact, f->is_64);
        /* Subnormal results of f32 may be 0. */
        bool flushed = !f->is_64 && got == 0 && fabsl(exact) < 0x1p-126L;
        ck_assert_msg(flushed || e <= f->bound + 1,
                      "%s(%a) is %a, expected %La", f->name, x, got, exact);
    }
    jit_end(&j);
}
END_TEST

/* tanh(x f) near 0, absolutely, for factors of any size; with 1 added, too. */
START_TEST(tanh_near_0)
{
    const tc_tanh_fit *fit = &tc_tanh_fits[_i];
    struct jit j = jit_begin(&jit_native);
    LLVMTypeRef type = LLVMFloatTypeInContext(j.cx);
    static const double factors[] = {1, -1, 1 / 30.0, 0x1p-12, -0x1p12};
    enum { N = sizeof factors / sizeof *factors };
    LLVMValueRef k[TC_TANH_COEFFICIENTS];
    char name[] = "f0";
    for (unsigned i = 0; i < N; i++) {
        name[1] = (char)('0' + i);
        LLVMValueRef f = jit_function(&j, name, 2);
        LLVMValueRef x = LLVMBuildLoad2(j.b, type, LLVMGetParam(f, 0), "");
        tc_nvptx_tanh_coefficients(j.b, fit, LLVMConstReal(type, factors[i]),
                                   k);
        LLVMValueRef addend = i % 2 ? LLVMConstReal(type, 1) : NULL;
        LLVMBuildStore(j.b, tc_nvptx_tanh_near(j.b, fit, x, k, addend),
                       LLVMGetParam(f, 1));
        LLVMBuildRetVoid(j.b);
    }
    jit_finish(&j);
    for (unsigned i = 0; i < N; i++) {
        name[1] = (char)('0' + i);
        call_fn *fn = (call_fn *)jit_address(&j, name);
        double f = (float)factors[i], most = fit->most / fabs(f);
        for (int n = -20000; n <= 20000; n++) {
            double x = (float)(most * n / 20000);
            double e = fabs(call(fn, false, x) - (tanh(x * f) + i % 2));
            ck_assert_msg(e <= 0x1p-21, "%a * %a: %a off", x, f, e);
        }
    }
    jit_end(&j);
}
END_TEST

/* Of numbers from 1 on, which soft caps take. */
START_TEST(reciprocals_by_steps)
{
    struct jit j = jit_begin(&jit_native);
    LLVMTypeRef type = LLVMFloatTypeInContext(j.cx);
    LLVMValueRef f = jit_function(&j, "f", 2);
    LLVMValueRef x = LLVMBuildLoad2(j.b, type, LLVMGetParam(f, 0), "");
    LLVMBuildStore(j.b, tc_nvptx_rcp_by_steps(j.b, x), LLVMGetParam(f, 1));
    LLVMBuildRetVoid(j.b);
    jit_finish(&j);
    call_fn *fn = (call_fn *)jit_address(&j, "f");
    for (int e = 0; e <= 126; e++)
        for (int i = 0; i < (e < 3 ? 100000 : e < 126 ? 1000 : 1); i++) {
            double a = (float)ldexp(1 + i / (e < 3 ? 1e5 : 1e3), e);
            double got = call(fn, false, a);
            ck_assert_msg(ulp_error(got, 1 / (long double)a, false) <= 2,
                          "%a: %a", a, got);
        }
    ck_assert(call(fn, false, INFINITY) <= 0x1p-125);
    ck_assert(call(fn, false, INFINITY) >= 0);
    ck_assert(isnan(call(fn, false, NAN)));
    jit_end(&j);
}
END_TEST

/* ---- Angles ---- */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005 + 1442695040888963407;
    return *state ^ *state >> 29;
}

/* Any bits; every other time as near to a multiple of pi/2 as there is a number
 * (of those below 2^60). */
static double some_angle(uint64_t *state, bool is_64, bool near_zero)
{
    uint64_t bits = next_random(state);
    uint32_t bits32 = (uint32_t)bits;
    double x;
    float x32;
    memcpy(&x, &bits, sizeof x);
    memcpy(&x32, &bits32, sizeof x32);
    if (!near_zero)
        return is_64 ? x : x32;
    long double half_pi = acosl(-1) / 2;
    long double n = rintl(ldexpl(1 + (long double)(bits & 0xffffff) / 0x1p24L,
                                 (int)(bits >> 58)));
    return is_64 ? (double)(n * half_pi) : (float)(n * half_pi);
}

static const struct angle {
    const char *name;
    tc_opcode op;
    bool is_64;
    long double (*exact)(long double);
} angles[] = {{"sin f32", TC_SIN, false, sinl},
              {"cos f32", TC_COS, false, cosl},
              {"sin", TC_SIN, true, sinl},
              {"cos", TC_COS, true, cosl}};

START_TEST(angles_of_any_size)
{
    /* The floats and doubles that are nearest to a multiple of pi/2, and both
     * sides of where reduction goes another way. */
    static const double places[] = {
        16367173 * 0x1p72,    6381956970095103 * 0x1p797,
        0x1.fffffep16,        0x1p17,
        0x1.fffffffffffffp30, 0x1p31};
    enum { NPLACES = sizeof places / sizeof *places, POINTS = 200000 };
    const struct angle *a = &angles[_i];
    struct function f = {.op = a->op, .is_64 = a->is_64};
    struct jit j = compile(&f);
    call_fn *fn = (call_fn *)jit_address(&j, "f");
    uint64_t state = 1;
    for (int i = 0; i < POINTS; i++) {
        double x =
            i < NPLACES ? places[i] : some_angle(&state, a->is_64, i % 2 != 0);
        x = a->is_64 ? x : (float)x;
        double got = call(fn, a->is_64, x);
        ck_assert_msg(ulp_error(got, a->exact(x), a->is_64) <= 2,
                      "%s(%a) is %a, expected %La", a->name, x, got,
                      a->exact(x));
    }
    jit_end(&j);
}
END_TEST

int main(void)
{
    int n = sizeof functions / sizeof *functions;
    Suite *s = suite_create("nvptx");
    TCase *c = tcase_create("nvptx");
    tcase_add_test(c, every_op_has_an_emitter);
    tcase_add_loop_test(c, functions_within_bounds, 0, n);
    tcase_add_loop_test(c, special_values, 0, n);
    tcase_add_test(c, reciprocals_by_steps);
    tcase_add_loop_test(c, tanh_near_0, 0, TC_TANH_FITS);
    tcase_add_loop_test(c, angles_of_any_size, 0, 4);
    suite_add_tcase(s, c);
    return run_suite(s);
}
