/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/text/foreign.h"

#include <stddef.h>
#include <string.h>

#define UNSIGNED                                                               \
    "its bits are those of i64, and ops say where they mean unsigned"
#define NARROW                                                                 \
    "the narrowest ints are i4 and u4: keep several in one, with shifts"
#define NO_FLOAT                                                               \
    "floats are f4e2m1, f8e4m3, f8e5m2, f8e8m0, f16, bf16, f32 "               \
    "and f64"
#define SHAPED "write tile<64x32 x f32>, or tensor<[?, ?] x f32>"

static const tc_foreign types[] = {
    {"float", "f32", NULL},
    {"float32", "f32", NULL},
    {"fp32", "f32", NULL},
    {"single", "f32", NULL},
    {"double", "f64", NULL},
    {"float64", "f64", NULL},
    {"fp64", "f64", NULL},
    {"half", "f16", NULL},
    {"float16", "f16", NULL},
    {"fp16", "f16", NULL},
    {"bfloat16", "bf16", NULL},
    {"bfloat", "bf16", NULL},
    {"fp8", "f8e4m3", NULL},
    {"f8", "f8e4m3", NULL},
    {"float8", "f8e4m3", NULL},
    {"e4m3", "f8e4m3", NULL},
    {"fp8e4m3", "f8e4m3", NULL},
    {"fp8e4nv", "f8e4m3", NULL},
    {"f8e4m3fn", "f8e4m3", NULL},
    {"fp8_e4m3", "f8e4m3", NULL},
    {"float8e4nv", "f8e4m3", NULL},
    {"float8e4m3", "f8e4m3", NULL},
    {"float8_e4m3", "f8e4m3", NULL},
    {"float8_e4m3fn", "f8e4m3", NULL},
    {"e5m2", "f8e5m2", NULL},
    {"fp8e5", "f8e5m2", NULL},
    {"fp8e5m2", "f8e5m2", NULL},
    {"fp8_e5m2", "f8e5m2", NULL},
    {"float8e5", "f8e5m2", NULL},
    {"float8e5m2", "f8e5m2", NULL},
    {"float8_e5m2", "f8e5m2", NULL},
    {"bool", "i1", NULL},
    {"int1", "i1", NULL},
    {"u1", "i1", NULL},
    {"char", "i8", NULL},
    {"int8", "i8", NULL},
    {"short", "i16", NULL},
    {"int16", "i16", NULL},
    {"int", "i32", NULL},
    {"int32", "i32", NULL},
    {"long", "i64", NULL},
    {"int64", "i64", NULL},
    {"index", "i64", NULL},
    {"ui8", "u8", NULL},
    {"uint8", "u8", NULL},
    {"byte", "u8", NULL},
    {"ui16", "u16", NULL},
    {"uint16", "u16", NULL},
    {"ui32", "u32", NULL},
    {"uint32", "u32", NULL},
    {"unsigned", "u32", NULL},
    {"u64", "i64", UNSIGNED},
    {"ui64", "i64", UNSIGNED},
    {"uint64", "i64", UNSIGNED},
    {"size_t", "i64", UNSIGNED},
    {"usize", "i64", UNSIGNED},
    {"i2", NULL, NARROW},
    {"int2", NULL, NARROW},
    {"int4", "i4", NULL},
    {"u2", NULL, NARROW},
    {"uint4", "u4", NULL},
    {"f4", "f4e2m1", NULL},
    {"fp4", "f4e2m1", NULL},
    {"mxfp4", "f4e2m1", NULL},
    {"nvfp4", "f4e2m1", NULL},
    {"f6", NULL, NO_FLOAT},
    {"fp6", NULL, NO_FLOAT},
    {"e8m0", "f8e8m0", NULL},
    {"f8e3m4", NULL, NO_FLOAT},
    {"f80", NULL, NO_FLOAT},
    {"f128", NULL, NO_FLOAT},
    {"complex", NULL, NO_FLOAT},
    {"complex64", NULL, NO_FLOAT},
    {"complex128", NULL, NO_FLOAT},
    {"tf32", "f32", "dot takes f32 with precision=tf32"},
    {"vector", NULL, SHAPED},
    {"array", NULL, SHAPED},
    {"memref", NULL, SHAPED},
    {"Tensor", NULL, SHAPED},
    {"pointer", NULL, "write ptr<f32>"},
    {"void", NULL, "what gives nothing states no result"},
    {"str", NULL, "texts stand in print and assert only"},
    {"string", NULL, "texts stand in print and assert only"},
};

#define NO_THREADS "a program has no threads: it computes whole tiles"
#define SCAN       "write scan %v axis(0) kind(sum), or cumsum(%v, axis=0)"
/* A function of kernels/std. */
#define STD(call)  "write @" call ", a function of the library"
#define PART       "write x[:, 32 +: 32]: the offset is known at compile time"
#define WITH_TILE  "write x[:, %j], %j an int or a tile of ints"
#define WITH_SORT  "write %v, %i = sort %x, range(64) axis(0)"
#define WITH_INDEX "write reduce %v, range(64) axis(0) (..) { yield .. }"
#define EMPTY_TILE "write splat(0.0, tile<64x32 x f32>)"
#define CONVERT    "write cast(x, f32)"
#define SIZE       "write size(%t, 0) of a tensor"
#define NORMALIZE                                                              \
    "write exp(x - max(x, axis=1)[:, none]) and divide by its "                \
    "sum"
#define AND          "write `a and b`"
#define OR           "write `a or b`"
#define NOT          "write `not a`"
#define ATOMIC(kind) "write atomic(%p, %v, kind=" kind ")"

static const tc_foreign ops[] = {
    /* Functions. */
    {"relu", NULL, STD("relu(x)")},
    {"gelu", NULL, STD("gelu(x) or @gelu_tanh(x)")},
    {"silu", NULL, STD("silu(x)")},
    {"swish", NULL, STD("silu(x)")},
    {"sigmoid", NULL, STD("sigmoid(x)")},
    {"softplus", NULL, STD("softplus(x)")},
    {"softmax", NULL, NORMALIZE},
    {"pow", NULL, STD("pow(x, y)")},
    {"power", NULL, STD("pow(x, y)")},
    {"asin", NULL, STD("asin(x)")},
    {"acos", NULL, STD("acos(x)")},
    {"atan", NULL, STD("atan(x)")},
    {"atan2", NULL, STD("atan2(y, x)")},
    {"copysign", NULL, STD("copysign(x, y)")},
    {"square", NULL, "square(x) is x * x"},
    {"tan", NULL, "tan(x) is sin(x) / cos(x)"},
    {"sinh", NULL, "sinh(x) is 0.5 * (exp(x) - exp(-x))"},
    {"cosh", NULL, "cosh(x) is 0.5 * (exp(x) + exp(-x))"},
    {"erfc", NULL, "erfc(x) is 1.0 - erf(x)"},
    {"log10", NULL, "log10(x) is log2(x) * 0.30103"},
    {"log1p", NULL, STD("log1p(x)")},
    {"expm1", NULL, STD("expm1(x)")},
    {"exp10", NULL, "exp10(x) is exp2(x * 3.3219281)"},
    {"sign", NULL, "sign(x) is select(x > 0.0, 1.0, -1.0), and 0 of 0"},
    {"trunc", NULL, STD("trunc(x)")},
    {"clamp", NULL, STD("clamp(x, lo, hi)")},
    {"clip", NULL, STD("clamp(x, lo, hi)")},
    {"isnan", NULL, STD("isnan(x)")},
    {"isinf", NULL, STD("isinf(x)")},
    {"isfinite", NULL, STD("isfinite(x)")},
    {"reciprocal", "rcp", NULL},
    {"maximum", "max", NULL},
    {"minimum", "min", NULL},
    {"fmax", "max", NULL},
    {"fmin", "min", NULL},
    {"amax", "max", NULL},
    {"amin", "min", NULL},
    {"absolute", "abs", NULL},
    {"fabs", "abs", NULL},
    {"fabsf", "abs", NULL},
    {"negative", "neg", NULL},
    {"rint", "round", NULL},
    {"mod", "rem", NULL},
    {"fmod", "rem", NULL},
    {"remainder", "rem", NULL},
    {"fdiv", "div", NULL},
    {"umulhi", "mulhi", NULL},
    {"mad", "fma", NULL},
    /* Comparing and choosing. */
    {"where", "select", "write select(c, a, b)"},
    {"eq", NULL, "write `a == b`"},
    {"ne", NULL, "write `a != b`"},
    {"lt", NULL, "write `a < b`"},
    {"le", NULL, "write `a <= b`"},
    {"gt", NULL, "write `a > b`"},
    {"ge", NULL, "write `a >= b`"},
    {"equal", NULL, "write `a == b`"},
    {"less", NULL, "write `a < b`"},
    {"greater", NULL, "write `a > b`"},
    {"logical_and", "and", AND},
    {"logical_or", "or", OR},
    {"logical_not", "not", NOT},
    {"bitwise_and", "and", AND},
    {"bitwise_or", "or", OR},
    {"bitwise_not", "not", NOT},
    {"bitwise_xor", "xor", NULL},
    {"popc", NULL, STD("popcount(x)")},
    {"popcount", NULL, STD("popcount(x)")},
    {"clz", NULL, STD("clz(x)")},
    {"ctlz", NULL, STD("clz(x)")},
    {"ffs", NULL, STD("ctz(x), which counts from 0")},
    /* Tiles. */
    {"arange", "range",
     "write range(64): 0 to 63, to which an offset is added"},
    {"iota", "range", "write range(64): 0 to 63"},
    {"linspace", "ramp", "write ramp(0.0, 0.5, tile<32 x f32>)"},
    {"zeros", NULL, EMPTY_TILE},
    {"zeros_like", NULL, EMPTY_TILE},
    {"ones", NULL, "write splat(1.0, tile<64x32 x f32>)"},
    {"ones_like", NULL, "write splat(1.0, tile<64x32 x f32>)"},
    {"full", NULL, "write splat(value, tile<64x32 x f32>)"},
    {"full_like", NULL, "write splat(value, tile<64x32 x f32>)"},
    {"fill_like", NULL, "write splat(value, tile<64x32 x f32>)"},
    {"empty", NULL, EMPTY_TILE},
    {"transpose", "trans", NULL},
    {"permute", "trans", "write trans(x, perm=(1, 0))"},
    {"view", "reshape", NULL},
    {"ravel", "reshape", NULL},
    {"flatten", "reshape", NULL},
    {"squeeze", "reshape", NULL},
    {"unsqueeze", NULL, "write x[:, none]"},
    {"broadcast_to", "broadcast", NULL},
    {"expand", "broadcast", NULL},
    {"cat", "join", "write join(x, y, axis=1)"},
    {"concat", "join", "write join(x, y, axis=1)"},
    {"concatenate", "join", "write join(x, y, axis=1)"},
    {"stack", "join", "write join(x, y, axis=0)"},
    {"split", "slice", PART},
    {"chunk", "slice", PART},
    {"extract", "slice", PART},
    {"extract_slice", "slice", PART},
    {"take_along_axis", "take", WITH_TILE},
    {"take_along_dim", "take", WITH_TILE},
    {"index_select", "take", WITH_TILE},
    {"deinterleave", "slice", "write x[:, 0 +: 32 step 2]"},
    {"mean", NULL, "write sum(x, axis=1) and divide by the length"},
    {"argmax", NULL, WITH_INDEX},
    {"argmin", NULL, WITH_INDEX},
    {"associative_scan", "scan", SCAN},
    {"prefix_sum", "scan", SCAN},
    {"argsort", "sort", WITH_SORT},
    {"topk", "sort", "write sort(x, axis=0, descending=true, first=8)"},
    {"bincount", "histogram", "write histogram(%x, tile<256 x i32>)"},
    {"histc", "histogram", "write histogram(%bins, tile<256 x i32>)"},
    {"matmul", "dot", NULL},
    {"mm", "dot", NULL},
    {"bmm", "dot", NULL},
    {"gemm", "dot", NULL},
    {"einsum", "dot", NULL},
    {"outer", NULL, "write x[:, none] * y[none, :]"},
    {"dot_scaled", "dot", "cast the operands and multiply by their factors"},
    {"rand", NULL, STD("rand(seed, i)")},
    {"randn", NULL, STD("randn(seed, i)")},
    {"randint", NULL, STD("randint(seed, i)")},
    {"philox", NULL, STD("philox(c0, c1, c2, c3, k0, k1)")},
    {"dropout", NULL, "compare @rand(seed, i) with the probability"},
    {"float", NULL, CONVERT},
    {"int", NULL, "write cast(x, i32)"},
    {"to", NULL, CONVERT},
    {"astype", NULL, CONVERT},
    {"convert", NULL, CONVERT},
    {"len", NULL, SIZE},
    {"shape", NULL, SIZE},
    {"numel", NULL, SIZE},
    {"ceildiv", "cdiv", NULL},
    {"ceil_div", "cdiv", NULL},
    {"next_power_of_2", NULL, "sides need not be powers of two"},
    /* Memory. */
    {"make_block_ptr", "block", "write block %t[%i +: 64, 0 +: 32]"},
    {"make_tensor_descriptor", "tensor", "write tensor(%p, [%m, 64], [64, 1])"},
    {"atomic_add", NULL, ATOMIC("add")},
    {"atomicAdd", NULL, ATOMIC("add")},
    {"atomic_max", NULL, ATOMIC("max")},
    {"atomic_min", NULL, ATOMIC("min")},
    {"atomic_and", NULL, ATOMIC("and")},
    {"atomic_or", NULL, ATOMIC("or")},
    {"atomic_xor", NULL, ATOMIC("xor")},
    {"atomic_xchg", NULL, ATOMIC("exchange")},
    /* The launch, debugging. */
    {"pid", "program_id", NULL},
    {"blockIdx", NULL, "write program_id(0)"},
    {"block_idx", NULL, "write program_id(0)"},
    {"gridDim", NULL, "write num_programs(0)"},
    {"threadIdx", NULL, NO_THREADS},
    {"thread_id", NULL, NO_THREADS},
    {"lane_id", NULL, NO_THREADS},
    {"warp_id", NULL, NO_THREADS},
    {"syncthreads", NULL, NO_THREADS},
    {"__syncthreads", NULL, NO_THREADS},
    {"debug_barrier", NULL, NO_THREADS},
    {"device_print", "print", NULL},
    {"static_print", "print", NULL},
    {"printf", "print", "write print \"text\", %v"},
    {"device_assert", "assert", NULL},
    {"static_assert", "assert", NULL},
    {"asm", NULL, "there is no inline assembly"},
    {"inline_asm", NULL, "there is no inline assembly"},
    {"inline_asm_elementwise", NULL, "there is no inline assembly"},
};

#define NO_JUMP "there is no jump out of a loop: `while` has a condition"
#define NAMED   "a value is named by writing %name = .."
#define FUNC    "a function is written func @name(%x: f32) -> f32 { .. }"

static const tc_foreign statements[] = {
    {"break", "break_if", "write break_if %c in a `for`"},
    {"continue", NULL, "there is no jump in a loop: write `if`"},
    {"goto", NULL, NO_JUMP},
    {"elif", NULL, "write else { .. if .. }"},
    {"switch", NULL, "write `if` for each case"},
    {"pass", NULL, "an empty region is { }"},
    {"let", NULL, NAMED},
    {"var", NULL, NAMED},
    {"auto", NULL, NAMED},
    {"val", NULL, NAMED},
    {"def", NULL, FUNC},
    {"fn", NULL, FUNC},
    {"function", NULL, FUNC},
    {"void", NULL, FUNC},
    {"__global__", NULL,
     "a kernel is written kernel @name(..) grid(..) { .. }"},
    {"__device__", NULL, FUNC},
    {"import", NULL, "a text is complete in itself"},
    {"from", NULL, "a text is complete in itself"},
    {"include", NULL, "a text is complete in itself"},
};

static const tc_foreign *foreign_find(const tc_foreign *table, size_t n,
                                      const char *name)
{
    const char *dot = strrchr(name, '.');
    name = dot ? dot + 1 : name;
    for (size_t i = 0; i < n; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const tc_foreign *tc_foreign_op(const char *name)
{
    return foreign_find(ops, sizeof ops / sizeof *ops, name);
}

const tc_foreign *tc_foreign_type(const char *name)
{
    return foreign_find(types, sizeof types / sizeof *types, name);
}

const tc_foreign *tc_foreign_statement(const char *name)
{
    return foreign_find(statements, sizeof statements / sizeof *statements,
                        name);
}

bool tc_foreign_looks_like_type(const char *name)
{
    static const char *const begins[] = {"i",   "u",    "f",     "bf",    "fp",
                                         "int", "uint", "float", "bfloat"};
    if (tc_foreign_type(name))
        return true;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t n = strlen(begins[i]), digits;
        digits = strncmp(name, begins[i], n) == 0
                     ? strspn(name + n, "0123456789")
                     : 0;
        if (digits && (!name[n + digits] || name[n + digits] == 'e'))
            return true;
    }
    return false;
}
