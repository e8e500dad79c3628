/* SPDX-License-Identifier: Apache-2.0
 *
 * Narrow floats on the host, against tables of all their numbers: the nearest
 * is found by search, so nothing here shares an idea with the code under test.
 * Tried are every number, every midpoint of two neighbours and what is next to
 * these in float and in double, and random bits.
 */
#include "codegen/llvm/convert.h"

#include "test/unit/jit.h"
#include "test/unit/run.h"

#include <check.h>
#include <math.h>

enum { WIDTH = 16, NRANDOM = 10000000 };

static const struct jit_machine *const machines[] = {&jit_native, &jit_avx2,
                                                     &jit_baseline};
enum { NMACHINES = sizeof machines / sizeof *machines };

/* The numbers of a kind that are not negative: value[code] up to the largest
 * finite one, then what the next would be. */
struct table {
    tc_kind kind;
    unsigned bits, mantissa, top;
    int bias;
    bool saturates;
    double value[0x8000];
};

static struct table tables[] = {
    {.kind = TC_F16, .bits = 16, .mantissa = 10, .top = 0x7bff, .bias = 15},
    {.kind = TC_BF16, .bits = 16, .mantissa = 7, .top = 0x7f7f, .bias = 127},
    {.kind = TC_F8E4M3,
     .bits = 8,
     .mantissa = 3,
     .top = 0x7e,
     .bias = 7,
     .saturates = true},
    {.kind = TC_F8E5M2,
     .bits = 8,
     .mantissa = 2,
     .top = 0x7b,
     .bias = 15,
     .saturates = true},
};
enum { NTABLES = sizeof tables / sizeof *tables };

static void fill(struct table *t)
{
    unsigned one = 1u << t->mantissa;
    for (unsigned code = 0; code <= t->top + 1; code++) {
        unsigned e = code / one, m = code % one;
        t->value[code] = ldexp(e ? one + m : m,
                               (int)(e ? e : 1) - t->bias - (int)t->mantissa);
    }
}

/* The code of the number nearest to x >= 0; top + 1 for too large. */
static unsigned nearest(const struct table *t, long double x)
{
    unsigned lo = 0, hi = t->top + 1;
    if (x >= t->value[hi])
        return t->saturates ? t->top : hi;
    while (hi - lo > 1) {
        unsigned mid = (lo + hi) / 2;
        *(x < t->value[mid] ? &hi : &lo) = mid;
    }
    long double down = x - t->value[lo], up = t->value[hi] - x;
    unsigned code = down < up ? lo : up < down ? hi : lo % 2 ? hi : lo;
    return code > t->top && t->saturates ? t->top : code;
}

static double number(const struct table *t, unsigned code)
{
    unsigned sign = 1u << (t->bits - 1), size = code & (sign - 1);
    bool infinite = size == t->top + 1 && t->kind != TC_F8E4M3;
    double v = infinite ? INFINITY : size > t->top ? NAN : t->value[size];
    return code & sign ? -v : v;
}

static unsigned expected(const struct table *t, long double x)
{
    unsigned sign = signbit(x) ? 1u << (t->bits - 1) : 0;
    return sign | nearest(t, fabsl(x));
}

/* ---- The code under test: WIDTH numbers at a time ---- */

enum operation {
    ROUND,
    PACK,
    ROUND_F64,
    PACK_F64,
    UNPACK,
    ROUND_I32,
    ROUND_I64
};
typedef void call_fn(const void *in, void *out);

static LLVMTypeRef input_type(LLVMContextRef cx, const struct table *t,
                              enum operation op)
{
    switch (op) {
    case ROUND:
    case PACK: return LLVMFloatTypeInContext(cx);
    case ROUND_F64:
    case PACK_F64: return LLVMDoubleTypeInContext(cx);
    case UNPACK: return tc_llvm_storage(cx, t->kind);
    case ROUND_I32: return LLVMInt32TypeInContext(cx);
    default: return LLVMInt64TypeInContext(cx);
    }
}

static LLVMValueRef apply(LLVMBuilderRef b, const struct table *t,
                          enum operation op, LLVMValueRef x)
{
    switch (op) {
    case ROUND:
    case ROUND_F64: return tc_llvm_round(b, t->kind, x);
    case PACK:
    case PACK_F64: return tc_llvm_pack(b, t->kind, x);
    case UNPACK: return tc_llvm_unpack(b, t->kind, x);
    default: return tc_llvm_round_int(b, t->kind, x);
    }
}

static struct jit compile(const struct jit_machine *m, const struct table *t,
                          enum operation op, unsigned width)
{
    struct jit j = jit_begin(m);
    LLVMValueRef fn = jit_function(&j, "f", 2);
    LLVMTypeRef type = input_type(j.cx, t, op);
    if (width)
        type = LLVMVectorType(type, width);
    LLVMValueRef x = LLVMBuildLoad2(j.b, type, LLVMGetParam(fn, 0), "");
    LLVMSetAlignment(x, 1);
    LLVMValueRef y = apply(j.b, t, op, x);
    LLVMSetAlignment(LLVMBuildStore(j.b, y, LLVMGetParam(fn, 1)), 1);
    LLVMBuildRetVoid(j.b);
    jit_finish(&j);
    return j;
}

/* ---- Numbers to try, gathered into vectors ---- */

/* x as all input types that can hold it; `count` of WIDTH are there. */
struct trial {
    const struct table *t;
    enum operation op;
    call_fn *call;
    unsigned count;
    float f[WIDTH];
    double d[WIDTH];
    int32_t i32[WIDTH];
    int64_t i64[WIDTH];
};

static const void *input(const struct trial *r)
{
    switch (r->op) {
    case ROUND:
    case PACK: return r->f;
    case ROUND_F64:
    case PACK_F64: return r->d;
    case ROUND_I32: return r->i32;
    default: return r->i64;
    }
}

static long double input_value(const struct trial *r, unsigned i)
{
    switch (r->op) {
    case ROUND:
    case PACK: return r->f[i];
    case ROUND_F64:
    case PACK_F64: return r->d[i];
    case ROUND_I32: return r->i32[i];
    default: return r->i64[i];
    }
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof a);
}

static void flush(struct trial *r)
{
    union {
        float f[WIDTH];
        uint16_t h[WIDTH];
        uint8_t c[WIDTH];
    } out;
    r->call(input(r), &out);
    for (unsigned i = 0; i < r->count; i++) {
        long double x = input_value(r, i);
        double want = isnan(x) ? NAN : number(r->t, expected(r->t, x));
        bool packs = r->op == PACK || r->op == PACK_F64;
        if (packs && isinf(x) && r->t->kind == TC_F8E5M2)
            want = (double)x; /* packing does not saturate it */
        unsigned code = r->t->bits == 8 ? out.c[i] : out.h[i];
        double got = packs ? number(r->t, code) : out.f[i];
        /* Check's own macros write to a file each time. */
        if (!same(got, want))
            ck_abort_msg("%La gave %a, not %a", x, got, want);
    }
    r->count = 0;
}

static void try(struct trial *r, double x)
{
    r->f[r->count] = (float)x;
    r->d[r->count] = x;
    if (++r->count == WIDTH)
        flush(r);
}

static void try_int(struct trial *r, int64_t x)
{
    r->i32[r->count] = (int32_t)x;
    r->i64[r->count] = x;
    if (++r->count == WIDTH)
        flush(r);
}

static void try_around(struct trial *r, double x)
{
    try(r, x);
    try(r, -x);
    try(r, nextafter(x, INFINITY));
    try(r, nextafter(x, -INFINITY));
    try(r, nextafterf((float)x, INFINITY));
    try(r, -nextafterf((float)x, -INFINITY));
}

static uint64_t random_bits(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *state ^ *state >> 29;
}

static void try_floats(struct trial *r)
{
    static const double special[] = {INFINITY, -INFINITY,  NAN,
                                     0x1p-149, 0x1p-1074,  0x1.fffffep127,
                                     0x1p128,  0x1.8p1023, -0x1p-140};
    for (unsigned i = 0; i < sizeof special / sizeof *special; i++)
        try(r, special[i]);
    for (unsigned code = 0; code <= r->t->top; code++) {
        double x = r->t->value[code], next = r->t->value[code + 1];
        try_around(r, x);
        try_around(r, x + (next - x) / 2);
    }
    uint64_t state = 1;
    bool from_float = r->op == ROUND || r->op == PACK;
    for (unsigned i = 0; i < (from_float ? NRANDOM : NRANDOM / 10); i++) {
        uint32_t bits = (uint32_t)random_bits(&state);
        float x;
        memcpy(&x, &bits, sizeof x);
        try(r, x);
    }
    /* Random numbers in the range of the kind, finer than float. */
    for (unsigned i = 0; i < NRANDOM / 10; i++) {
        double m = (double)random_bits(&state) * 0x1p-64;
        try(r, ldexp(1 + m, (int)(random_bits(&state) % 44) - 26));
    }
    flush(r);
}

static void try_ints(struct trial *r)
{
    uint64_t state = 7;
    for (int64_t i = -70000; i < 70000; i++)
        try_int(r, i);
    for (unsigned i = 0; i < NRANDOM / 10; i++) {
        uint64_t bits = random_bits(&state);
        int shift = (int)(random_bits(&state) % 64);
        try_int(r, (int64_t)bits >> shift);
        /* Near the midpoint of two numbers with few mantissa bits. */
        int64_t half = (int64_t)(0x101 + 2 * (bits % 128)) << (shift % 54);
        try_int(r, half + (int64_t)(bits >> 62) - 1);
    }
    try_int(r, INT64_MIN);
    try_int(r, INT64_MAX);
    try_int(r, INT32_MIN);
    try_int(r, INT32_MAX);
    flush(r);
}

static void run(const struct jit_machine *m, const struct table *t,
                enum operation op)
{
    if (!jit_can_run(m))
        return;
    struct jit j = compile(m, t, op, WIDTH);
    struct trial r = {
        .t = t, .op = op, .call = (call_fn *)jit_address(&j, "f")};
    if (op == ROUND_I32 || op == ROUND_I64)
        try_ints(&r);
    else
        try_floats(&r);
    jit_end(&j);
}

#define CASE(name, op)                                                         \
    START_TEST(name)                                                           \
    {                                                                          \
        run(machines[_i / NTABLES], &tables[_i % NTABLES], op);                \
    }                                                                          \
    END_TEST
CASE(rounding_of_floats, ROUND)
CASE(packing_of_floats, PACK)
CASE(rounding_of_doubles, ROUND_F64)
CASE(packing_of_doubles, PACK_F64)
CASE(rounding_of_i32, ROUND_I32)
CASE(rounding_of_i64, ROUND_I64)

/* Every bit pattern, at every width: the number it stands for, and back. */
START_TEST(unpacking)
{
    static const unsigned widths[] = {0, 1, 2, 3, 4, 8, 16, 32};
    const struct jit_machine *m = machines[_i / NTABLES];
    const struct table *t = &tables[_i % NTABLES];
    if (!jit_can_run(m))
        return;
    for (unsigned w = 0; w < sizeof widths / sizeof *widths; w++) {
        struct jit j = compile(m, t, UNPACK, widths[w]);
        struct jit k = compile(m, t, PACK, widths[w]);
        call_fn *unpack = (call_fn *)jit_address(&j, "f");
        call_fn *pack = (call_fn *)jit_address(&k, "f");
        unsigned n = widths[w] ? widths[w] : 1;
        for (unsigned code = 0; code < 1u << t->bits; code += n) {
            uint16_t in[32], back[32];
            float out[32];
            for (unsigned i = 0; i < n; i++)
                t->bits == 8 ? (((uint8_t *)in)[i] = (uint8_t)(code + i))
                             : (in[i] = (uint16_t)(code + i));
            unpack(in, out);
            pack(out, back);
            for (unsigned i = 0; i < n; i++) {
                unsigned c = (code + i) % (1u << t->bits);
                unsigned again = t->bits == 8 ? ((uint8_t *)back)[i] : back[i];
                double want = number(t, c);
                if (!same(out[i], want))
                    ck_abort_msg("%#x gave %a, not %a", c, out[i], want);
                /* A NaN keeps its sign: bits of e4m3 all come back. */
                bool is_nan = isnan(number(t, again)) &&
                              (again ^ c) >> (t->bits - 1) == 0;
                if (isfinite(want) ? again != c : isnan(want) && !is_nan)
                    ck_abort_msg("%#x came back as %#x", c, again);
            }
        }
        jit_end(&j);
        jit_end(&k);
    }
}
END_TEST

int main(void)
{
    for (unsigned i = 0; i < NTABLES; i++)
        fill(&tables[i]);
    Suite *s = suite_create("convert");
    TCase *c = tcase_create("convert");
    tcase_add_loop_test(c, rounding_of_floats, 0, NMACHINES * NTABLES);
    tcase_add_loop_test(c, packing_of_floats, 0, NMACHINES * NTABLES);
    tcase_add_loop_test(c, rounding_of_doubles, 0, NMACHINES * NTABLES);
    tcase_add_loop_test(c, packing_of_doubles, 0, NMACHINES * NTABLES);
    tcase_add_loop_test(c, rounding_of_i32, 0, NMACHINES * NTABLES);
    tcase_add_loop_test(c, rounding_of_i64, 0, NMACHINES * NTABLES);
    tcase_add_loop_test(c, unpacking, 0, NMACHINES * NTABLES);
    suite_add_tcase(s, c);
    return run_suite(s);
}
