/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types: casts, the types in which narrow floats are computed, and
 * elements in memory and in words of 32 bits.
 *
 * Two neighbouring registers are converted together if an instruction does both
 * (cvt.rn.bf16x2.f32 and its like): operands of matrix products are packed in
 * the same way. Hardware converts fp8 if the target has it (with its tensor
 * cores' fp8), else integer arithmetic, as on the host.
 */
#include "codegen/nvptx/emit.h"

#include "codegen/llvm/convert.h"

/* ---- Vectors of two ---- */

static LLVMValueRef pair_of(tc_gen *g, LLVMValueRef low, LLVMValueRef high)
{
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(low), 2);
    LLVMValueRef v = LLVMGetPoison(type);
    v = LLVMBuildInsertElement(g->b, v, low, tc_gen_i32(g, 0), "");
    return LLVMBuildInsertElement(g->b, v, high, tc_gen_i32(g, 1), "");
}

static LLVMValueRef half_of(tc_gen *g, LLVMValueRef pair, unsigned i)
{
    return LLVMBuildExtractElement(g->b, pair, tc_gen_i32(g, i), "");
}

/* ---- fp8 in hardware, two at a time ---- */

/* cvt.rn.satfinite.e4m3x2.f32: the first operand is the high byte. Too large
 * and infinite numbers give the largest. */
static void floats_to_fp8(tc_gen *g, const tc_type *elem, const LLVMValueRef *x,
                          LLVMValueRef *to)
{
    const char *name = elem->kind == TC_F8E4M3 ? "nvvm.ff.to.e4m3x2.rn"
                                               : "nvvm.ff.to.e5m2x2.rn";
    LLVMValueRef args[] = {x[1], x[0]};
    LLVMValueRef both = tc_gen_intrinsic(g, name, 0, NULL, 2, args);
    to[0] = LLVMBuildTrunc(g->b, both, g->i8, "");
    both = LLVMBuildLShr(g->b, both, LLVMConstInt(g->i16, 8, false), "");
    to[1] = LLVMBuildTrunc(g->b, both, g->i8, "");
}

static LLVMValueRef fp8_to_halves(tc_gen *g, const tc_type *elem,
                                  const LLVMValueRef *x)
{
    const char *name = elem->kind == TC_F8E4M3 ? "nvvm.e4m3x2.to.f16x2.rn"
                                               : "nvvm.e5m2x2.to.f16x2.rn";
    LLVMValueRef low = LLVMBuildZExt(g->b, x[0], g->i16, "");
    LLVMValueRef high = LLVMBuildZExt(g->b, x[1], g->i16, "");
    high = LLVMBuildShl(g->b, high, LLVMConstInt(g->i16, 8, false), "");
    LLVMValueRef both = LLVMBuildOr(g->b, low, high, "");
    return tc_gen_intrinsic(g, name, 0, NULL, 1, &both);
}

/* ---- Between f32 and the narrow kinds, n of them ---- */

static void widen_pair(tc_gen *g, const tc_type *elem, const LLVMValueRef *x,
                       LLVMValueRef *to)
{
    LLVMValueRef halves = fp8_to_halves(g, elem, x);
    for (unsigned i = 0; i < 2; i++)
        to[i] = LLVMBuildFPExt(g->b, half_of(g, halves, i), g->f32, "");
}

static LLVMValueRef widen_one(tc_gen *g, const tc_type *elem, LLVMValueRef x)
{
    if (!tc_kind_is_f8(elem->kind))
        return LLVMBuildFPExt(g->b, x, g->f32, "");
    if (!g->target->mma_fp8)
        return tc_llvm_unpack(g->b, elem->kind, x);
    LLVMValueRef two[] = {x, LLVMConstInt(g->i8, 0, false)}, wide[2];
    widen_pair(g, elem, two, wide);
    return wide[0];
}

static LLVMValueRef narrow_one(tc_gen *g, const tc_type *elem, LLVMValueRef x)
{
    if (!tc_kind_is_f8(elem->kind))
        return LLVMBuildFPTrunc(g->b, x, tc_gen_type(g, elem), "");
    if (!g->target->mma_fp8)
        return tc_llvm_pack(g->b, elem->kind,
                            tc_llvm_round(g->b, elem->kind, x));
    LLVMValueRef two[] = {x, LLVMConstReal(g->f32, 0)}, codes[2];
    floats_to_fp8(g, elem, two, codes);
    return codes[0];
}

static void narrow_pair(tc_gen *g, const tc_type *elem, const LLVMValueRef *x,
                        LLVMValueRef *to)
{
    if (tc_kind_is_f8(elem->kind)) {
        floats_to_fp8(g, elem, x, to);
        return;
    }
    LLVMTypeRef type = LLVMVectorType(tc_gen_type(g, elem), 2);
    LLVMValueRef both =
        LLVMBuildFPTrunc(g->b, pair_of(g, x[0], x[1]), type, "");
    to[0] = half_of(g, both, 0);
    to[1] = half_of(g, both, 1);
}

LLVMValueRef tc_gen_widen(tc_gen *g, const tc_type *elem, LLVMValueRef x)
{
    return tc_kind_is_narrow(elem->kind) ? widen_one(g, elem, x) : x;
}

LLVMValueRef tc_gen_narrow(tc_gen *g, const tc_type *elem, LLVMValueRef x)
{
    return tc_kind_is_narrow(elem->kind) ? narrow_one(g, elem, x) : x;
}

static void widen_all(tc_gen *g, const tc_type *elem, unsigned n,
                      LLVMValueRef *x)
{
    unsigned i = 0;
    if (tc_kind_is_f8(elem->kind) && g->target->mma_fp8)
        for (; i + 1 < n; i += 2)
            widen_pair(g, elem, x + i, x + i);
    for (; i < n; i++)
        x[i] = tc_gen_widen(g, elem, x[i]);
}

static void narrow_all(tc_gen *g, const tc_type *elem, unsigned n,
                       LLVMValueRef *x)
{
    unsigned i = 0;
    if (tc_kind_is_narrow(elem->kind) &&
        (!tc_kind_is_f8(elem->kind) || g->target->mma_fp8))
        for (; i + 1 < n; i += 2)
            narrow_pair(g, elem, x + i, x + i);
    for (; i < n; i++)
        x[i] = tc_gen_narrow(g, elem, x[i]);
}

/* ---- cast ---- */

/* f64 to a narrow kind rounds once: as on the host, by way of the float that
 * the narrow kind has exactly. */
static LLVMValueRef float_to_wide(tc_gen *g, const tc_type *from,
                                  const tc_type *to, LLVMValueRef x)
{
    if (to->kind == TC_F64 && from->kind != TC_F64)
        return LLVMBuildFPExt(g->b, x, g->f64, "");
    if (from->kind != TC_F64 || to->kind == TC_F64)
        return x;
    return to->kind == TC_F32 ? LLVMBuildFPTrunc(g->b, x, g->f32, "")
                              : tc_llvm_round(g->b, to->kind, x);
}

/* Where a byte was loaded with others: a vector of bytes or an int, and its
 * place there; NULL: nowhere. */
static LLVMValueRef source_of(LLVMValueRef x, unsigned *at)
{
    LLVMValueRef index = NULL, from = NULL;
    unsigned bits = 1;
    if (LLVMIsAExtractElementInst(x)) {
        from = LLVMGetOperand(x, 0);
        index = LLVMGetOperand(x, 1);
    } else if (LLVMIsATruncInst(x)) {
        from = LLVMGetOperand(x, 0);
        if (LLVMIsAInstruction(from) &&
            LLVMGetInstructionOpcode(from) == LLVMLShr) {
            index = LLVMGetOperand(from, 1);
            from = LLVMGetOperand(from, 0);
            bits = 8;
        }
    }
    if (index && !LLVMIsAConstantInt(index))
        return NULL;
    uint64_t n = index ? LLVMConstIntGetZExtValue(index) : 0;
    *at = (unsigned)(n / bits);
    return n % bits ? NULL : from;
}

/* The 32 bits of it that hold its bytes from 4 i on; NULL: it has an odd size.
 */
static LLVMValueRef word_at(tc_gen *g, LLVMValueRef source, unsigned i)
{
    LLVMTypeRef type = LLVMTypeOf(source);
    bool vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
    unsigned bits =
        vector ? 8 * LLVMGetVectorSize(type) : LLVMGetIntTypeWidth(type);
    if (bits < 32 && bits % 8 == 0) {
        type = LLVMIntTypeInContext(g->llvm, bits);
        source = vector ? LLVMBuildBitCast(g->b, source, type, "") : source;
        return LLVMBuildZExt(g->b, source, g->i32, "");
    }
    if (bits % 32)
        return NULL;
    type = LLVMVectorType(g->i32, bits / 32);
    source = LLVMBuildBitCast(g->b, source, type, "");
    return LLVMBuildExtractElement(g->b, source, tc_gen_i32(g, i), "");
}

/* Two bytes of one word, each the low half of 16 bits with this high half;
 * NULL: they are not. */
static LLVMValueRef spread_pair(tc_gen *g, const LLVMValueRef *x, unsigned high)
{
    unsigned first, second;
    LLVMValueRef source = source_of(x[0], &first);
    if (!source || source_of(x[1], &second) != source ||
        first / 4 != second / 4)
        return NULL;
    LLVMValueRef word = word_at(g, source, first / 4);
    if (!word)
        return NULL;
    unsigned other = 4; /* byte 0 of the second operand */
    LLVMValueRef args[] = {
        word, tc_gen_i32(g, high),
        tc_gen_i32(g, first % 4 | other << 4 | second % 4 << 8 | other << 12)};
    return tc_gen_intrinsic(g, "nvvm.prmt", 0, NULL, 3, args);
}

/* a b + c of two halves each. */
static LLVMValueRef fma_of_bits(tc_gen *g, const tc_type *elem, LLVMValueRef a,
                                unsigned b, LLVMValueRef c)
{
    LLVMTypeRef type = LLVMVectorType(tc_gen_type(g, elem), 2);
    LLVMValueRef in[] = {a, tc_gen_i32(g, b), c};
    for (unsigned i = 0; i < 3; i++)
        in[i] = LLVMBuildBitCast(g->b, in[i], type, "");
    return tc_gen_intrinsic(
        g, elem->kind == TC_BF16 ? "nvvm.fma.rn.bf16x2" : "nvvm.fma.rn.f16x2",
        0, NULL, 3, in);
}

/* 128 + (x & 127) less 128, or less 256 where x is negative. */
static LLVMValueRef bytes_to_bf16(tc_gen *g, const tc_type *to,
                                  const LLVMValueRef *x)
{
    const unsigned minus_one = 0xbf80bf80;
    LLVMValueRef pair = spread_pair(g, x, 0x43);
    if (!pair)
        return NULL;
    LLVMValueRef sum = LLVMBuildAnd(g->b, pair, tc_gen_i32(g, 0xff7fff7f), "");
    LLVMValueRef less = LLVMBuildAnd(g->b, pair, tc_gen_i32(g, 0xff80ff80), "");
    return fma_of_bits(g, to, less, minus_one, sum);
}

/* 1024 + (x + 128) less 1152. */
static LLVMValueRef bytes_to_f16(tc_gen *g, const tc_type *to,
                                 const LLVMValueRef *x)
{
    const unsigned one = 0x3c003c00, less = 0xe480e480;
    LLVMValueRef pair = spread_pair(g, x, 0x64);
    if (!pair)
        return NULL;
    LLVMValueRef sum = LLVMBuildXor(g->b, pair, tc_gen_i32(g, 0x00800080), "");
    return fma_of_bits(g, to, sum, one, tc_gen_i32(g, less));
}

/* Two bytes that lie in one word, at once; exact. */
static bool bytes_to_halves(tc_gen *g, const tc_type *to, LLVMValueRef *x)
{
    LLVMValueRef both =
        to->kind == TC_BF16 ? bytes_to_bf16(g, to, x) : bytes_to_f16(g, to, x);
    if (!both)
        return false;
    x[0] = half_of(g, both, 0);
    x[1] = half_of(g, both, 1);
    return true;
}

/* Of 8 bits, exact: x + 128 as the last byte of 2^23 + (x + 128), which is an
 * f32. Conversions of ints run at a quarter of the rate of this. */
static LLVMValueRef byte_to_f32(tc_gen *g, LLVMValueRef x)
{
    LLVMValueRef bits = LLVMBuildXor(g->b, LLVMBuildZExt(g->b, x, g->i32, ""),
                                     tc_gen_i32(g, 0x4b000080), "");
    return LLVMBuildFSub(g->b, LLVMBuildBitCast(g->b, bits, g->f32, ""),
                         LLVMConstReal(g->f32, 8388736), "");
}

/* A float (or double) that rounds to the target kind as the int does. i8 and
 * i16 are exact in f32. */
static LLVMValueRef int_to_wide(tc_gen *g, const tc_type *from,
                                const tc_type *to, LLVMValueRef x)
{
    LLVMTypeRef wide = to->kind == TC_F64 ? g->f64 : g->f32;
    if (from->kind == TC_I1)
        return LLVMBuildUIToFP(g->b, x, wide, "");
    if (from->kind == TC_I8 && to->kind != TC_F64)
        return byte_to_f32(g, x);
    if (to->kind >= TC_F32 || from->kind <= TC_I16)
        return LLVMBuildSIToFP(g->b, x, wide, "");
    return tc_llvm_round_int(g->b, to->kind, x);
}

static LLVMValueRef float_to_int(tc_gen *g, const tc_type *to, LLVMValueRef x)
{
    LLVMTypeRef types[] = {tc_gen_type(g, to), LLVMTypeOf(x)};
    if (to->kind == TC_I1)
        return LLVMBuildFCmp(g->b, LLVMRealUNE, x, LLVMConstReal(types[1], 0),
                             "");
    return tc_gen_intrinsic(g, "fptosi.sat", 2, types, 1, &x);
}

static LLVMValueRef int_to_int(tc_gen *g, const tc_type *from,
                               const tc_type *to, LLVMValueRef x)
{
    LLVMTypeRef type = tc_gen_type(g, to);
    if (from == to)
        return x;
    if (to->kind == TC_I1)
        return LLVMBuildICmp(g->b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)),
                             "");
    if (tc_scalar_infos[to->kind].bits < tc_scalar_infos[from->kind].bits)
        return LLVMBuildTrunc(g->b, x, type, "");
    return from->kind == TC_I1 ? LLVMBuildZExt(g->b, x, type, "")
                               : LLVMBuildSExt(g->b, x, type, "");
}

/* f16 to f32 and back would be no error, but work; likewise equal kinds. fp8
 * saturates infinities even so. */
static bool keeps(const tc_type *from, const tc_type *to)
{
    return from == to && from->kind != TC_F8E5M2;
}

static void cast_one(tc_gen *g, const tc_type *from, const tc_type *to,
                     LLVMValueRef *x)
{
    if (tc_kind_is_float(to->kind))
        *x = tc_kind_is_float(from->kind) ? float_to_wide(g, from, to, *x)
                                          : int_to_wide(g, from, to, *x);
    else
        *x = tc_kind_is_float(from->kind) ? float_to_int(g, to, *x)
                                          : int_to_int(g, from, to, *x);
}

/* Bytes to 16-bit floats, two at once where they lie in one word; what is left
 * is for cast_one. */
static unsigned cast_pairs(tc_gen *g, const tc_type *from, const tc_type *to,
                           unsigned n, LLVMValueRef *x)
{
    unsigned i = 0;
    if (from->kind != TC_I8 || (to->kind != TC_BF16 && to->kind != TC_F16))
        return 0;
    while (i + 1 < n && bytes_to_halves(g, to, x + i))
        i += 2;
    return i;
}

bool tc_nvptx_cast(tc_gen *g, const tc_op *op)
{
    const tc_type *from = tc_type_elem(op->in[0]->type),
                  *to = tc_type_elem(op->out[0]->type);
    unsigned n = tc_gen_registers(op->out[0]->type);
    LLVMValueRef *in = tc_gen_get(g, op->in[0]), *x = tc_gen_set(g, op->out[0]);
    for (unsigned r = 0; r < n; r++)
        x[r] = in[r];
    if (keeps(from, to))
        return true;
    if (from->kind == TC_PTR || to->kind == TC_PTR)
        return tc_gen_error(g, op, "pointers have no cast");
    widen_all(g, from, n, x);
    unsigned done = cast_pairs(g, from, to, n, x);
    for (unsigned r = done; r < n; r++)
        cast_one(g, from, to, &x[r]);
    narrow_all(g, to, n - done, x + done);
    return !g->failed;
}

/* ---- Memory and words ---- */

LLVMTypeRef tc_gen_memory_type(tc_gen *g, const tc_type *elem)
{
    return elem->kind == TC_I1    ? g->i8
           : elem->kind == TC_PTR ? g->i64
                                  : tc_gen_type(g, elem);
}

LLVMValueRef tc_gen_to_memory(tc_gen *g, const tc_type *elem, LLVMValueRef x)
{
    if (elem->kind == TC_I1)
        return LLVMBuildZExt(g->b, x, g->i8, "");
    return elem->kind == TC_PTR ? LLVMBuildPtrToInt(g->b, x, g->i64, "") : x;
}

LLVMValueRef tc_gen_from_memory(tc_gen *g, const tc_type *elem, LLVMValueRef x)
{
    if (elem->kind == TC_I1)
        return LLVMBuildICmp(g->b, LLVMIntNE, x, LLVMConstInt(g->i8, 0, false),
                             "");
    return elem->kind == TC_PTR ? LLVMBuildIntToPtr(g->b, x, g->ptr1, "") : x;
}

/* The result of a conversion of two numbers, if these two bytes are still its
 * halves (floats_to_fp8); NULL: they are not. */
static LLVMValueRef both_of(LLVMValueRef low, LLVMValueRef high)
{
    if (!LLVMIsATruncInst(low) || !LLVMIsATruncInst(high))
        return NULL;
    LLVMValueRef both = LLVMGetOperand(low, 0);
    LLVMValueRef shift = LLVMGetOperand(high, 0);
    if (LLVMGetTypeKind(LLVMTypeOf(both)) != LLVMIntegerTypeKind ||
        LLVMGetIntTypeWidth(LLVMTypeOf(both)) != 16 ||
        !LLVMIsAInstruction(shift) ||
        LLVMGetInstructionOpcode(shift) != LLVMLShr ||
        LLVMGetOperand(shift, 0) != both)
        return NULL;
    LLVMValueRef by = LLVMGetOperand(shift, 1);
    bool half = LLVMIsAConstantInt(by) && LLVMConstIntGetZExtValue(by) == 8;
    return half ? both : NULL;
}

/* Two halves as a word, in the block that computes them: a conversion writes
 * half of a register there, and another instruction is needed elsewhere. */
static LLVMValueRef word_of(tc_gen *g, LLVMValueRef low, LLVMValueRef high)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef there =
        LLVMIsAInstruction(low) ? LLVMGetInstructionParent(low) : here;
    LLVMValueRef end = LLVMGetBasicBlockTerminator(there);
    bool same = LLVMIsAInstruction(high) &&
                LLVMGetInstructionParent(high) == there && end;
    if (same)
        LLVMPositionBuilderBefore(g->b, end);
    LLVMValueRef halves[] = {low, high};
    LLVMValueRef word = tc_gen_pure_asm(g, g->i32, "mov.b32 $0, {$1, $2};",
                                        "=r,h,h", 2, halves);
    LLVMPositionBuilderAtEnd(g->b, here);
    return word;
}

static LLVMValueRef pack_bytes(tc_gen *g, const tc_type *elem,
                               const LLVMValueRef *x)
{
    LLVMValueRef low = both_of(x[0], x[1]), high = both_of(x[2], x[3]);
    /* LLVM would see the halves in words that go round in loops too, but not
     * put them together again after the phi. */
    if (low && high)
        return word_of(g, low, high);
    LLVMValueRef word = tc_gen_i32(g, 0);
    for (unsigned i = 0; i < 4; i++) {
        LLVMValueRef byte = tc_gen_to_memory(g, elem, x[i]);
        byte = LLVMBuildZExt(g->b, byte, g->i32, "");
        byte = LLVMBuildShl(g->b, byte, tc_gen_i32(g, 8 * i), "");
        word = LLVMBuildOr(g->b, word, byte, "");
    }
    return word;
}

void tc_gen_pack(tc_gen *g, const tc_type *elem, unsigned n,
                 const LLVMValueRef *x, LLVMValueRef *words)
{
    unsigned each = 4 / tc_type_bytes(elem);
    for (unsigned i = 0; i < n / each; i++, x += each)
        words[i] = each == 4
                       ? pack_bytes(g, elem, x)
                       : LLVMBuildBitCast(
                             g->b, each == 2 ? pair_of(g, x[0], x[1]) : x[0],
                             g->i32, "");
}

void tc_gen_unpack(tc_gen *g, const tc_type *elem, unsigned n, LLVMValueRef *x,
                   const LLVMValueRef *words)
{
    unsigned each = 4 / tc_type_bytes(elem);
    LLVMTypeRef type = tc_gen_memory_type(g, elem);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef w = words[i / each];
        unsigned at = i % each;
        if (each == 4) {
            w = LLVMBuildLShr(g->b, w, tc_gen_i32(g, 8 * at), "");
            w = LLVMBuildTrunc(g->b, w, g->i8, "");
        } else if (each == 2) {
            w = LLVMBuildBitCast(g->b, w, LLVMVectorType(type, 2), "");
            w = half_of(g, w, at);
        } else {
            w = LLVMBuildBitCast(g->b, w, type, "");
        }
        x[i] = tc_gen_from_memory(g, elem, w);
    }
}
