/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/llvm/elementwise.h"

#include "codegen/llvm/lanes.h"

#include <string.h>

static bool is_vector(LLVMValueRef x)
{
    return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind;
}

static unsigned elementwise_bits_of(LLVMValueRef x)
{
    LLVMTypeRef t = LLVMTypeOf(x);
    return LLVMGetIntTypeWidth(is_vector(x) ? LLVMGetElementType(t) : t);
}

static LLVMValueRef int_like(const tc_elementwise *e, LLVMValueRef like,
                             int64_t value)
{
    tc_lanes l = tc_lanes_of(e->b, like);
    return tc_lanes_int(&l, (uint64_t)value);
}

static LLVMValueRef call1(const tc_elementwise *e, const char *name,
                          LLVMValueRef x)
{
    return tc_lanes_call(e->b, name, 1, &x);
}

static LLVMValueRef emit_add(const tc_elementwise *e)
{
    return tc_elementwise_combine(e->b, "sum", e->is_float, e->x, e->y);
}

static LLVMValueRef emit_sub(const tc_elementwise *e)
{
    return e->is_float ? LLVMBuildFSub(e->b, e->x, e->y, "")
                       : LLVMBuildSub(e->b, e->x, e->y, "");
}

static LLVMValueRef emit_mul(const tc_elementwise *e)
{
    return tc_elementwise_combine(e->b, "prod", e->is_float, e->x, e->y);
}

/* ---- Integer division ---- */

/* Up to 32 bits in vectors: the quotient as a double is near enough to have
 * the right floor (it is at least 1/|y| from a whole number it is not, and
 * wrong by less), and vector units divide doubles, not ints. */
static LLVMValueRef floor_div_by_double(const tc_elementwise *e)
{
    tc_lanes l = tc_lanes_of(e->b, e->x);
    LLVMContextRef cx = LLVMGetTypeContext(l.ints);
    LLVMTypeRef wide = tc_lanes_type(&l, LLVMDoubleTypeInContext(cx));
    LLVMValueRef a = LLVMBuildSIToFP(e->b, e->x, wide, "");
    LLVMValueRef b = LLVMBuildSIToFP(e->b, e->y, wide, "");
    LLVMValueRef q = LLVMBuildFDiv(e->b, a, b, "");
    q = call1(e, "llvm.floor", q);
    LLVMTypeRef type = tc_lanes_type(&l, LLVMInt64TypeInContext(cx));
    q = LLVMBuildFPToSI(e->b, q, type, "");
    return LLVMBuildTrunc(e->b, q, LLVMTypeOf(e->x), "");
}

static LLVMValueRef floor_div_by_int(const tc_elementwise *e)
{
    LLVMBuilderRef b = e->b;
    LLVMValueRef zero = int_like(e, e->x, 0);
    LLVMValueRef q = LLVMBuildSDiv(b, e->x, e->y, "");
    LLVMValueRef rest = LLVMBuildSub(b, e->x, LLVMBuildMul(b, q, e->y, ""), "");
    LLVMValueRef signs = LLVMBuildXor(b, rest, e->y, "");
    LLVMValueRef down =
        LLVMBuildAnd(b, LLVMBuildICmp(b, LLVMIntNE, rest, zero, ""),
                     LLVMBuildICmp(b, LLVMIntSLT, signs, zero, ""), "");
    LLVMValueRef one = LLVMBuildZExt(b, down, LLVMTypeOf(e->x), "");
    return LLVMBuildSub(b, q, one, "");
}

/* x / 0 is 0, x / -1 is -x (wraps); the division itself sees 1 instead. */
static LLVMValueRef emit_int_div(const tc_elementwise *e)
{
    LLVMBuilderRef b = e->b;
    LLVMValueRef zero = int_like(e, e->x, 0), one = int_like(e, e->x, 1);
    LLVMValueRef is_zero = LLVMBuildICmp(b, LLVMIntEQ, e->y, zero, "");
    LLVMValueRef is_minus =
        LLVMBuildICmp(b, LLVMIntEQ, e->y, int_like(e, e->x, -1), "");
    LLVMValueRef special = LLVMBuildOr(b, is_zero, is_minus, "");
    tc_elementwise safe = *e;
    safe.y = LLVMBuildSelect(b, special, one, e->y, "");
    bool vector = is_vector(e->x) && !LLVMIsConstant(safe.y);
    LLVMValueRef q = vector && elementwise_bits_of(e->x) <= 32
                         ? floor_div_by_double(&safe)
                         : floor_div_by_int(&safe);
    q = LLVMBuildSelect(b, is_minus, LLVMBuildNeg(b, e->x, ""), q, "");
    return LLVMBuildSelect(b, is_zero, zero, q, "");
}

static LLVMValueRef emit_div(const tc_elementwise *e)
{
    return e->is_float ? LLVMBuildFDiv(e->b, e->x, e->y, "") : emit_int_div(e);
}

static LLVMValueRef emit_rem(const tc_elementwise *e)
{
    LLVMBuilderRef b = e->b;
    if (!e->is_float)
        return LLVMBuildSub(b, e->x, LLVMBuildMul(b, emit_int_div(e), e->y, ""),
                            "");
    LLVMValueRef q = call1(e, "llvm.floor", LLVMBuildFDiv(b, e->x, e->y, ""));
    return LLVMBuildFSub(b, e->x, LLVMBuildFMul(b, q, e->y, ""), "");
}

/* ---- Unsigned ints ---- */

/* x / 0 is 0, x rem 0 is x: the division itself sees 1 instead. */
static LLVMValueRef emit_unsigned(const tc_elementwise *e, LLVMOpcode code,
                                  LLVMValueRef by_zero)
{
    LLVMValueRef zero = int_like(e, e->y, 0), one = int_like(e, e->y, 1);
    LLVMValueRef is_zero = LLVMBuildICmp(e->b, LLVMIntEQ, e->y, zero, "");
    LLVMValueRef by = LLVMBuildSelect(e->b, is_zero, one, e->y, "");
    return LLVMBuildSelect(e->b, is_zero, by_zero,
                           LLVMBuildBinOp(e->b, code, e->x, by, ""), "");
}

static LLVMValueRef emit_divu(const tc_elementwise *e)
{
    return emit_unsigned(e, LLVMUDiv, int_like(e, e->x, 0));
}

static LLVMValueRef emit_remu(const tc_elementwise *e)
{
    return emit_unsigned(e, LLVMURem, e->x);
}

static LLVMValueRef emit_minu(const tc_elementwise *e)
{
    return tc_lanes_call(e->b, "llvm.umin", 2, (LLVMValueRef[]){e->x, e->y});
}

static LLVMValueRef emit_maxu(const tc_elementwise *e)
{
    return tc_lanes_call(e->b, "llvm.umax", 2, (LLVMValueRef[]){e->x, e->y});
}

static LLVMValueRef emit_mulhi(const tc_elementwise *e)
{
    LLVMBuilderRef b = e->b;
    tc_lanes l = tc_lanes_of(b, e->x);
    LLVMContextRef cx = LLVMGetTypeContext(l.ints);
    LLVMTypeRef wide = tc_lanes_type(&l, LLVMIntTypeInContext(cx, 2 * l.bits));
    LLVMValueRef x = LLVMBuildZExt(b, e->x, wide, "");
    LLVMValueRef y = LLVMBuildZExt(b, e->y, wide, "");
    LLVMValueRef p = LLVMBuildMul(b, x, y, "");
    p = LLVMBuildLShr(b, p, int_like(e, p, l.bits), "");
    return LLVMBuildTrunc(b, p, LLVMTypeOf(e->x), "");
}

static LLVMValueRef emit_min(const tc_elementwise *e)
{
    return tc_elementwise_combine(e->b, "min", e->is_float, e->x, e->y);
}

static LLVMValueRef emit_max(const tc_elementwise *e)
{
    return tc_elementwise_combine(e->b, "max", e->is_float, e->x, e->y);
}

static LLVMValueRef emit_and(const tc_elementwise *e)
{
    return LLVMBuildAnd(e->b, e->x, e->y, "");
}

static LLVMValueRef emit_or(const tc_elementwise *e)
{
    return LLVMBuildOr(e->b, e->x, e->y, "");
}

static LLVMValueRef emit_xor(const tc_elementwise *e)
{
    return LLVMBuildXor(e->b, e->x, e->y, "");
}

/* ---- Shifts: LLVM's are undefined by the width and more ---- */

static LLVMValueRef in_range(const tc_elementwise *e)
{
    return LLVMBuildICmp(e->b, LLVMIntULT, e->y,
                         int_like(e, e->y, elementwise_bits_of(e->x)), "");
}

/* Some amount in range; y if y is. LLVM 22 knows that PTX's shifts clamp their
 * amount, and drops the guard: wrongly so of an i64, whose upper half PTX does
 * not see (llvm-project #201165). It knows no masked amount. */
static LLVMValueRef some_amount(const tc_elementwise *e, LLVMValueRef ok)
{
    if (elementwise_bits_of(e->y) == 64)
        return LLVMBuildAnd(e->b, e->y, int_like(e, e->y, 63), "");
    return LLVMBuildSelect(e->b, ok, e->y, int_like(e, e->y, 0), "");
}

static LLVMValueRef emit_shl(const tc_elementwise *e)
{
    LLVMValueRef zero = int_like(e, e->x, 0), ok = in_range(e);
    LLVMValueRef by = some_amount(e, ok);
    return LLVMBuildSelect(e->b, ok, LLVMBuildShl(e->b, e->x, by, ""), zero,
                           "");
}

static LLVMValueRef emit_shr(const tc_elementwise *e)
{
    LLVMValueRef most = int_like(e, e->x, elementwise_bits_of(e->x) - 1);
    LLVMValueRef by = LLVMBuildSelect(e->b, in_range(e), e->y, most, "");
    return LLVMBuildAShr(e->b, e->x, by, "");
}

static LLVMValueRef emit_shru(const tc_elementwise *e)
{
    LLVMValueRef zero = int_like(e, e->x, 0), ok = in_range(e);
    LLVMValueRef by = some_amount(e, ok);
    return LLVMBuildSelect(e->b, ok, LLVMBuildLShr(e->b, e->x, by, ""), zero,
                           "");
}

/* ---- One operand, fma ---- */

static LLVMValueRef emit_fma(const tc_elementwise *e)
{
    return tc_lanes_call(e->b, "llvm.fma", 3,
                         (LLVMValueRef[]){e->x, e->y, e->z});
}

static LLVMValueRef emit_neg(const tc_elementwise *e)
{
    return e->is_float ? LLVMBuildFNeg(e->b, e->x, "")
                       : LLVMBuildNeg(e->b, e->x, "");
}

static LLVMValueRef emit_not(const tc_elementwise *e)
{
    return LLVMBuildNot(e->b, e->x, "");
}

static LLVMValueRef emit_abs(const tc_elementwise *e)
{
    if (e->is_float)
        return call1(e, "llvm.fabs", e->x);
    LLVMValueRef negative =
        LLVMBuildICmp(e->b, LLVMIntSLT, e->x, int_like(e, e->x, 0), "");
    return LLVMBuildSelect(e->b, negative, LLVMBuildNeg(e->b, e->x, ""), e->x,
                           "");
}

/* ---- Comparison and choice ---- */

static LLVMValueRef emit_cmp(const tc_elementwise *e)
{
    static const struct {
        const char *name;
        LLVMIntPredicate is_signed, is_unsigned;
        LLVMRealPredicate real;
    } preds[] = {
        {"eq", LLVMIntEQ, LLVMIntEQ, LLVMRealOEQ},
        {"ne", LLVMIntNE, LLVMIntNE, LLVMRealUNE},
        {"lt", LLVMIntSLT, LLVMIntULT, LLVMRealOLT},
        {"le", LLVMIntSLE, LLVMIntULE, LLVMRealOLE},
        {"gt", LLVMIntSGT, LLVMIntUGT, LLVMRealOGT},
        {"ge", LLVMIntSGE, LLVMIntUGE, LLVMRealOGE},
    };
    const char *pred = tc_op_word(e->op, "pred");
    /* true is 1, above false; an i1 of LLVM would be -1. */
    bool is_unsigned =
        e->elem->kind == TC_I1 || e->elem->kind == TC_PTR || pred[0] == 'u';
    pred += pred[0] == 'u';
    unsigned i = 0;
    while (strcmp(preds[i].name, pred) != 0)
        i++;
    if (e->is_float)
        return LLVMBuildFCmp(e->b, preds[i].real, e->x, e->y, "");
    return LLVMBuildICmp(
        e->b, is_unsigned ? preds[i].is_unsigned : preds[i].is_signed, e->x,
        e->y, "");
}

static LLVMValueRef emit_select(const tc_elementwise *e)
{
    return LLVMBuildSelect(e->b, e->x, e->y, e->z, "");
}

/* ---- The table ---- */

typedef LLVMValueRef element_fn(const tc_elementwise *e);

static element_fn *const emitters[TC_OPCODE_COUNT] = {
    [TC_ADD] = emit_add,   [TC_SUB] = emit_sub,       [TC_MUL] = emit_mul,
    [TC_DIV] = emit_div,   [TC_REM] = emit_rem,       [TC_MULHI] = emit_mulhi,
    [TC_MIN] = emit_min,   [TC_MAX] = emit_max,       [TC_AND] = emit_and,
    [TC_OR] = emit_or,     [TC_XOR] = emit_xor,       [TC_SHL] = emit_shl,
    [TC_SHR] = emit_shr,   [TC_SHRU] = emit_shru,     [TC_FMA] = emit_fma,
    [TC_NEG] = emit_neg,   [TC_NOT] = emit_not,       [TC_ABS] = emit_abs,
    [TC_CMP] = emit_cmp,   [TC_SELECT] = emit_select, [TC_DIVU] = emit_divu,
    [TC_REMU] = emit_remu, [TC_MINU] = emit_minu,     [TC_MAXU] = emit_maxu,
};

tc_elementwise tc_elementwise_of(LLVMBuilderRef b, const tc_op *op,
                                 LLVMValueRef *in)
{
    const tc_type *elem = tc_type_elem(op->in[0]->type);
    return (tc_elementwise){.b = b,
                            .op = op,
                            .elem = elem,
                            .is_float = tc_kind_is_float(elem->kind),
                            .x = in[0],
                            .y = op->nin > 1 ? in[1] : NULL,
                            .z = op->nin > 2 ? in[2] : NULL};
}

LLVMValueRef tc_elementwise_emit(const tc_elementwise *e)
{
    element_fn *emit = emitters[e->op->code];
    return emit ? emit(e) : NULL;
}

LLVMValueRef tc_elementwise_combine(LLVMBuilderRef b, const char *kind,
                                    bool is_float, LLVMValueRef x,
                                    LLVMValueRef y)
{
    LLVMValueRef in[] = {x, y};
    if (strcmp(kind, "sum") == 0 || strcmp(kind, "add") == 0)
        return is_float ? LLVMBuildFAdd(b, x, y, "")
                        : LLVMBuildAdd(b, x, y, "");
    if (strcmp(kind, "prod") == 0)
        return is_float ? LLVMBuildFMul(b, x, y, "")
                        : LLVMBuildMul(b, x, y, "");
    if (strcmp(kind, "max") == 0)
        return tc_lanes_call(b, is_float ? "llvm.maxnum" : "llvm.smax", 2, in);
    if (strcmp(kind, "min") == 0)
        return tc_lanes_call(b, is_float ? "llvm.minnum" : "llvm.smin", 2, in);
    if (strcmp(kind, "and") == 0)
        return LLVMBuildAnd(b, x, y, "");
    if (strcmp(kind, "or") == 0)
        return LLVMBuildOr(b, x, y, "");
    return LLVMBuildXor(b, x, y, "");
}
