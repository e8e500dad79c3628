/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants, bit views and intrinsics in the shape of a value.
 */
#include "codegen/llvm/lanes.h"

#include <assert.h>
#include <string.h>

enum { MAX_WIDTH = 256 };

static LLVMValueRef current_function(LLVMBuilderRef b)
{
    return LLVMGetBasicBlockParent(LLVMGetInsertBlock(b));
}

static void set_string(LLVMValueRef fn, const char *key, const char *value)
{
    LLVMContextRef cx = LLVMGetTypeContext(LLVMTypeOf(fn));
    LLVMAttributeRef a = LLVMCreateStringAttribute(
        cx, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            a);
}

void tc_lanes_set_target(LLVMValueRef fn, const char *cpu, const char *features)
{
    set_string(fn, "target-cpu", cpu);
    set_string(fn, "target-features", features);
}

static bool lists_feature(const char *list, size_t n, const char *feature)
{
    size_t want = strlen(feature);
    for (size_t i = 0; i < n;) {
        const char *comma = memchr(list + i, ',', n - i);
        size_t len = comma ? (size_t)(comma - list) - i : n - i;
        if (len == want + 1 && list[i] == '+' &&
            !memcmp(list + i + 1, feature, want))
            return true;
        i += len + 1;
    }
    return false;
}

bool tc_lanes_target_has(LLVMBuilderRef b, const char *feature)
{
    static const char key[] = "target-features";
    LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(
        current_function(b), (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
        key, sizeof key - 1);
    if (!a)
        return false;
    unsigned n;
    const char *list = LLVMGetStringAttributeValue(a, &n);
    return lists_feature(list, n, feature);
}

/* Features that 64-bit Arm and NVIDIA's GPUs always have, and x86 only in later
 * machines. */
static bool is_no_x86(LLVMBuilderRef b)
{
    const char *triple =
        LLVMGetTarget(LLVMGetGlobalParent(current_function(b)));
    return triple &&
           (!strncmp(triple, "aarch64", 7) || !strncmp(triple, "nvptx", 5));
}

static bool has_fma(LLVMBuilderRef b)
{
    return tc_lanes_target_has(b, "fma") || is_no_x86(b);
}

bool tc_lanes_has_round(LLVMBuilderRef b)
{
    return tc_lanes_target_has(b, "sse4.1") || is_no_x86(b);
}

LLVMTypeRef tc_lanes_type(const tc_lanes *l, LLVMTypeRef scalar)
{
    return l->width ? LLVMVectorType(scalar, l->width) : scalar;
}

static unsigned lanes_bits_of(LLVMTypeRef elem)
{
    switch (LLVMGetTypeKind(elem)) {
    case LLVMDoubleTypeKind: return 64;
    case LLVMFloatTypeKind: return 32;
    case LLVMHalfTypeKind: return 16;
    default: return LLVMGetIntTypeWidth(elem);
    }
}

static LLVMTypeRef float_of(LLVMContextRef cx, unsigned bits)
{
    return bits == 64   ? LLVMDoubleTypeInContext(cx)
           : bits == 32 ? LLVMFloatTypeInContext(cx)
           : bits == 16 ? LLVMHalfTypeInContext(cx)
                        : NULL;
}

tc_lanes tc_lanes_of(LLVMBuilderRef b, LLVMValueRef x)
{
    tc_lanes l = {.b = b};
    LLVMTypeRef elem = LLVMTypeOf(x);
    LLVMContextRef cx = LLVMGetTypeContext(elem);
    if (LLVMGetTypeKind(elem) == LLVMVectorTypeKind) {
        l.width = LLVMGetVectorSize(elem);
        elem = LLVMGetElementType(elem);
    }
    l.bits = lanes_bits_of(elem);
    l.ints = tc_lanes_type(&l, LLVMIntTypeInContext(cx, l.bits));
    LLVMTypeRef f = float_of(cx, l.bits);
    l.floats = f ? tc_lanes_type(&l, f) : NULL;
    return l;
}

static LLVMValueRef splat(const tc_lanes *l, LLVMValueRef constant)
{
    if (!l->width)
        return constant;
    assert(l->width <= MAX_WIDTH);
    LLVMValueRef all[MAX_WIDTH];
    for (unsigned i = 0; i < l->width; i++)
        all[i] = constant;
    return LLVMConstVector(all, l->width);
}

static LLVMTypeRef scalar_of(LLVMTypeRef t)
{
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

LLVMValueRef tc_lanes_float(const tc_lanes *l, double value)
{
    return splat(l, LLVMConstReal(scalar_of(l->floats), value));
}

LLVMValueRef tc_lanes_int(const tc_lanes *l, uint64_t value)
{
    if (l->bits < 64)
        value &= (UINT64_C(1) << l->bits) - 1;
    return splat(l, LLVMConstInt(scalar_of(l->ints), value, false));
}

LLVMValueRef tc_lanes_as_int(const tc_lanes *l, LLVMValueRef x)
{
    return LLVMBuildBitCast(l->b, x, l->ints, "");
}

LLVMValueRef tc_lanes_as_float(const tc_lanes *l, LLVMValueRef bits)
{
    return LLVMBuildBitCast(l->b, bits, l->floats, "");
}

LLVMValueRef tc_lanes_call(LLVMBuilderRef b, const char *name, unsigned nargs,
                           LLVMValueRef *args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    assert(id);
    LLVMTypeRef type = LLVMTypeOf(args[0]);
    LLVMModuleRef m = LLVMGetGlobalParent(current_function(b));
    bool overloaded = LLVMIntrinsicIsOverloaded(id);
    LLVMValueRef fn =
        LLVMGetIntrinsicDeclaration(m, id, &type, overloaded ? 1 : 0);
    return LLVMBuildCall2(b, LLVMGlobalGetValueType(fn), fn, args, nargs, "");
}

LLVMValueRef tc_lanes_fma(const tc_lanes *l, LLVMValueRef a, LLVMValueRef b,
                          LLVMValueRef c)
{
    if (!has_fma(l->b))
        return LLVMBuildFAdd(l->b, LLVMBuildFMul(l->b, a, b, ""), c, "");
    return tc_lanes_call(l->b, "llvm.fma", 3, (LLVMValueRef[]){a, b, c});
}

LLVMValueRef tc_lanes_abs(const tc_lanes *l, LLVMValueRef x)
{
    return tc_lanes_call(l->b, "llvm.fabs", 1, &x);
}

LLVMValueRef tc_lanes_copysign(const tc_lanes *l, LLVMValueRef size,
                               LLVMValueRef sign)
{
    return tc_lanes_call(l->b, "llvm.copysign", 2,
                         (LLVMValueRef[]){size, sign});
}

/* ---- Arithmetic ---- */

LLVMValueRef tc_lanes_add(const tc_lanes *l, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildFAdd(l->b, a, b, "");
}

LLVMValueRef tc_lanes_sub(const tc_lanes *l, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildFSub(l->b, a, b, "");
}

LLVMValueRef tc_lanes_mul(const tc_lanes *l, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildFMul(l->b, a, b, "");
}

LLVMValueRef tc_lanes_div(const tc_lanes *l, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildFDiv(l->b, a, b, "");
}

LLVMValueRef tc_lanes_choose(const tc_lanes *l, LLVMValueRef x,
                             LLVMRealPredicate pred, double limit,
                             LLVMValueRef yes, LLVMValueRef no)
{
    LLVMValueRef c = LLVMBuildFCmp(l->b, pred, x, tc_lanes_float(l, limit), "");
    return LLVMBuildSelect(l->b, c, yes, no, "");
}

LLVMValueRef tc_lanes_at_most(const tc_lanes *l, LLVMValueRef x, double limit)
{
    return tc_lanes_choose(l, x, LLVMRealOGT, limit, tc_lanes_float(l, limit),
                           x);
}

LLVMValueRef tc_lanes_at_least(const tc_lanes *l, LLVMValueRef x, double limit)
{
    return tc_lanes_choose(l, x, LLVMRealOLT, limit, tc_lanes_float(l, limit),
                           x);
}

LLVMValueRef tc_lanes_nearest(const tc_lanes *l, LLVMValueRef x)
{
    return tc_lanes_call(l->b, "llvm.roundeven", 1, &x);
}

LLVMValueRef tc_lanes_poly(const tc_lanes *l, LLVMValueRef x, unsigned n,
                           const double *c)
{
    LLVMValueRef p = tc_lanes_float(l, c[n - 1]);
    for (unsigned i = n - 1; i-- > 0;)
        p = tc_lanes_fma(l, p, x, tc_lanes_float(l, c[i]));
    return p;
}
