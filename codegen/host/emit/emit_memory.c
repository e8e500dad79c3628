/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads and stores through pointers, gathers, atomics; masked vector moves.
 */
#include "codegen/host/emit/emit.h"

#include "codegen/llvm/lanes.h"

#include <llvm/Config/llvm-config.h>
#include <string.h>

static unsigned width_of(LLVMValueRef x)
{
    return tc_is_vector(x) ? LLVMGetVectorSize(LLVMTypeOf(x)) : 1;
}

/* ---- Masked moves ---- */

bool tc_has_masked_moves(tc_emit *e, const tc_type *elem)
{
    if (tc_type_bytes(elem) >= 4)
        return tc_lanes_target_has(e->b, "avx2") ||
               tc_lanes_target_has(e->b, "avx512f");
    return tc_lanes_target_has(e->b, "avx512bw") &&
           tc_lanes_target_has(e->b, "avx512vl");
}

/* Until LLVM 21 the alignment was an operand, since then it is an attribute of
 * the address. */
static LLVMValueRef masked_call(tc_emit *e, const char *name, LLVMTypeRef data,
                                LLVMTypeRef address, unsigned align,
                                unsigned where, unsigned n, LLVMValueRef *args)
{
    LLVMTypeRef types[] = {data, address};
#if LLVM_VERSION_MAJOR < 22
    LLVMValueRef all[4];
    for (unsigned i = 0, j = 0; j < n + 1; j++)
        all[j] = j == where + 1 ? tc_i32(e, align) : args[i++];
    return tc_intrinsic(e, name, 2, types, n + 1, all);
#else
    LLVMValueRef call = tc_intrinsic(e, name, 2, types, n, args);
    unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAddCallSiteAttribute(call, where + 1,
                             LLVMCreateEnumAttribute(e->llvm, kind, align));
    return call;
#endif
}

LLVMValueRef tc_masked_load(tc_emit *e, const tc_type *elem, LLVMValueRef p,
                            LLVMValueRef mask, LLVMValueRef other)
{
    unsigned width = width_of(other), bytes = tc_type_bytes(elem);
    LLVMTypeRef type = tc_vector_of(tc_memory_type(e, elem), width);
    if (!mask) {
        LLVMValueRef x = LLVMBuildLoad2(e->b, type, p, "");
        LLVMSetAlignment(x, bytes);
        return tc_from_memory(e, elem, x);
    }
    LLVMValueRef args[] = {p, mask, LLVMConstNull(type)};
    LLVMValueRef x =
        masked_call(e, "llvm.masked.load", type, e->ptr, bytes, 0, 3, args);
    return LLVMBuildSelect(e->b, mask, tc_from_memory(e, elem, x), other, "");
}

void tc_masked_store(tc_emit *e, const tc_type *elem, LLVMValueRef p,
                     LLVMValueRef mask, LLVMValueRef x)
{
    x = tc_to_memory(e, elem, x);
    unsigned bytes = tc_type_bytes(elem);
    if (!mask) {
        LLVMSetAlignment(LLVMBuildStore(e->b, x, p), bytes);
        return;
    }
    LLVMValueRef args[] = {x, p, mask};
    masked_call(e, "llvm.masked.store", LLVMTypeOf(x), e->ptr, bytes, 1, 3,
                args);
}

/* Loads from the addresses where mask (not NULL) is true, else gives `other`.
 * With a single address: for a lane that is off, scratch memory is read
 * instead. */
static LLVMValueRef load_where(tc_emit *e, const tc_type *elem, LLVMValueRef p,
                               LLVMValueRef mask, LLVMValueRef other)
{
    unsigned width = width_of(p), bytes = tc_type_bytes(elem);
    LLVMTypeRef type = tc_vector_of(tc_memory_type(e, elem), width);
    LLVMValueRef x;
    if (width == 1) {
        LLVMValueRef safe = LLVMBuildSelect(e->b, mask, p, e->scratch, "");
        x = LLVMBuildLoad2(e->b, type, safe, "");
        LLVMSetAlignment(x, bytes);
    } else {
        LLVMValueRef args[] = {p, mask, LLVMConstNull(type)};
        x = masked_call(e, "llvm.masked.gather", type, LLVMTypeOf(p), bytes, 0,
                        3, args);
    }
    return LLVMBuildSelect(e->b, mask, tc_from_memory(e, elem, x), other, "");
}

/* ---- Pointers ---- */

static LLVMValueRef always(tc_emit *e, unsigned width)
{
    return tc_splat(e, LLVMConstInt(e->i1, 1, false), width);
}

static LLVMValueRef pad_of(tc_emit *e, const tc_op *op, const tc_type *elem,
                           unsigned width)
{
    tc_number pad = {0};
    if (tc_op_has_attr(op, "pad"))
        pad = tc_op_attr(op, "pad")->number;
    LLVMValueRef x =
        elem->kind == TC_PTR ? LLVMConstNull(e->ptr) : tc_literal(e, elem, pad);
    return tc_splat(e, x, width);
}

LLVMValueRef tc_emit_pointer_lanes(tc_emit *e, const tc_op *op,
                                   LLVMValueRef *in, unsigned width)
{
    const tc_type *elem = tc_type_elem(op->out[0]->type);
    LLVMValueRef mask = op->nin > 1 ? in[1] : always(e, width);
    LLVMValueRef other = op->nin > 2 ? in[2] : pad_of(e, op, elem, width);
    return load_where(e, elem, in[0], mask, other);
}

void tc_emit_load(tc_emit *e, tc_op *op)
{
    if (op->in[0]->type->kind == TC_BLOCK_PTR) {
        tc_emit_block_load(e, op);
        return;
    }
    LLVMValueRef in[3];
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = tc_scalar_of(e, op->in[i]);
    tc_set_scalar(e, op->out[0], tc_emit_pointer_lanes(e, op, in, 1));
}

/* Lanes where the mask operand (NULL: none) is on, one after the other. */
typedef struct lane_block {
    LLVMBasicBlockRef after;
} lane_block;

static lane_block begin_lane(tc_emit *e, LLVMValueRef on)
{
    lane_block l = {NULL};
    if (!on)
        return l;
    LLVMBasicBlockRef inside = tc_block_new(e, "lane");
    l.after = tc_block_new(e, "lane.end");
    LLVMBuildCondBr(e->b, on, inside, l.after);
    LLVMPositionBuilderAtEnd(e->b, inside);
    return l;
}

static void end_lane(tc_emit *e, lane_block l)
{
    if (l.after)
        tc_enter(e, l.after);
}

void tc_store_one(tc_emit *e, const tc_op *op, const tc_type *elem,
                  LLVMValueRef p, LLVMValueRef x)
{
    x = tc_to_memory(e, elem, x);
    if (tc_op_is_word(op, "kind", "add"))
        LLVMBuildAtomicRMW(e->b,
                           tc_type_is_float(elem) ? LLVMAtomicRMWBinOpFAdd
                                                  : LLVMAtomicRMWBinOpAdd,
                           p, x, LLVMAtomicOrderingMonotonic, false);
    else
        LLVMSetAlignment(LLVMBuildStore(e->b, x, p), tc_type_bytes(elem));
}

static void store_element(tc_emit *e, const tc_op *op, const tc_type *elem,
                          LLVMValueRef p, LLVMValueRef x, LLVMValueRef on)
{
    lane_block l = begin_lane(e, on);
    tc_store_one(e, op, elem, p, x);
    end_lane(e, l);
}

/* Vectors by scatter, which machines do lane by lane in the order of lanes. */
static void store_lanes(tc_emit *e, tc_op *op, tc_nest *nest,
                        const tc_index *index)
{
    const tc_type *elem = tc_type_elem(op->in[1]->type);
    LLVMValueRef p = tc_eval_full(nest, op->in[0], index);
    LLVMValueRef x = tc_eval_full(nest, op->in[1], index);
    LLVMValueRef on = op->nin > 2 ? tc_eval_full(nest, op->in[2], index) : NULL;
    unsigned width = width_of(p);
    if (width == 1) {
        store_element(e, op, elem, p, x, on);
        return;
    }
    x = tc_to_memory(e, elem, x);
    LLVMValueRef args[] = {x, p, on ? on : always(e, width)};
    masked_call(e, "llvm.masked.scatter", LLVMTypeOf(x), LLVMTypeOf(p),
                tc_type_bytes(elem), 1, 3, args);
}

void tc_emit_store(tc_emit *e, tc_op *op)
{
    if (op->in[0]->type->kind == TC_BLOCK_PTR) {
        tc_emit_block_store(e, op);
        return;
    }
    if (!tc_is_tile(op->in[0])) {
        store_element(e, op, op->in[1]->type, tc_scalar_of(e, op->in[0]),
                      tc_scalar_of(e, op->in[1]),
                      op->nin > 2 ? tc_scalar_of(e, op->in[2]) : NULL);
        return;
    }
    unsigned width = tc_op_is_word(op, "kind", "add") ? 1 : e->width;
    tc_walk w = tc_walk_new(e, NULL, op->in[0]->type, width, 1);
    tc_walk_outer(&w);
    tc_walk_inner(&w);
    store_lanes(e, op, &w.nest, &w.index[0]);
    tc_walk_end_inner(&w);
    tc_walk_end_outer(&w);
}

/* ---- gather ---- */

LLVMValueRef tc_emit_gather_lanes(tc_emit *e, const tc_op *op, LLVMValueRef *in,
                                  unsigned width)
{
    const tc_value *tensor = op->in[0];
    const tc_type *elem = tensor->type->elem;
    LLVMValueRef inside = always(e, width);
    LLVMValueRef at = tc_splat(e, tc_i64(e, 0), width);
    for (unsigned i = 0; i < tensor->type->rank; i++) {
        LLVMValueRef index = tc_to_i64(e, in[1 + i]);
        LLVMValueRef size = tc_splat(e, tc_tensor_size(tensor, i), width);
        LLVMValueRef stride = tc_splat(e, tc_tensor_stride(tensor, i), width);
        /* Unsigned: negative ones are beyond the end. */
        LLVMValueRef ok = LLVMBuildICmp(e->b, LLVMIntULT, index, size, "");
        inside = LLVMBuildAnd(e->b, inside, ok, "");
        at = LLVMBuildAdd(e->b, at, LLVMBuildMul(e->b, index, stride, ""), "");
    }
    LLVMTypeRef unit = LLVMArrayType(e->i8, tc_type_bytes(elem));
    LLVMValueRef p = tc_element(e, unit, tc_tensor_base(tensor), at);
    return load_where(e, elem, p, inside, pad_of(e, op, elem, width));
}

void tc_emit_gather(tc_emit *e, tc_op *op)
{
    LLVMValueRef in[1 + TC_MAX_RANK] = {0};
    for (unsigned i = 1; i < op->nin; i++)
        in[i] = tc_scalar_of(e, op->in[i]);
    tc_set_scalar(e, op->out[0], tc_emit_gather_lanes(e, op, in, 1));
}

/* ---- Atomics, one element at a time ---- */

static LLVMAtomicOrdering order_of(const tc_op *op)
{
    if (tc_op_is_word(op, "order", "relaxed"))
        return LLVMAtomicOrderingMonotonic;
    if (tc_op_is_word(op, "order", "acquire"))
        return LLVMAtomicOrderingAcquire;
    if (tc_op_is_word(op, "order", "release"))
        return LLVMAtomicOrderingRelease;
    return LLVMAtomicOrderingAcquireRelease;
}

/* A failed exchange only reads. */
static LLVMAtomicOrdering read_order(LLVMAtomicOrdering order)
{
    if (order == LLVMAtomicOrderingRelease)
        return LLVMAtomicOrderingMonotonic;
    return order == LLVMAtomicOrderingAcquireRelease ? LLVMAtomicOrderingAcquire
                                                     : order;
}

static LLVMTypeRef bits_type(tc_emit *e, const tc_type *elem)
{
    return LLVMIntTypeInContext(e->llvm, 8 * tc_type_bytes(elem));
}

static LLVMValueRef to_bits(tc_emit *e, const tc_type *elem, LLVMValueRef x)
{
    return LLVMBuildBitCast(e->b, tc_to_memory(e, elem, x), bits_type(e, elem),
                            "");
}

static LLVMValueRef from_bits(tc_emit *e, const tc_type *elem, LLVMValueRef x)
{
    x = LLVMBuildBitCast(e->b, x, tc_memory_type(e, elem), "");
    return tc_from_memory(e, elem, x);
}

static LLVMValueRef exchange(tc_emit *e, const tc_op *op, LLVMValueRef p,
                             LLVMValueRef expected, LLVMValueRef next)
{
    LLVMAtomicOrdering order = order_of(op);
    return LLVMBuildAtomicCmpXchg(e->b, p, expected, next, order,
                                  read_order(order), false);
}

/* Floats, and other kinds without an instruction: read, combine,
 * compare-exchange until it succeeds. */
static LLVMValueRef combine_loop(tc_emit *e, const tc_op *op, LLVMValueRef p,
                                 LLVMValueRef x)
{
    const tc_type *elem = tc_type_elem(op->out[0]->type);
    LLVMTypeRef bits = bits_type(e, elem);
    LLVMValueRef first = LLVMBuildLoad2(e->b, bits, p, "");
    LLVMSetAlignment(first, tc_type_bytes(elem));
    LLVMSetOrdering(first, LLVMAtomicOrderingMonotonic);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
    LLVMBasicBlockRef again = tc_block_new(e, "again");
    LLVMBasicBlockRef done = tc_block_new(e, "exchanged");
    tc_enter(e, again);
    LLVMValueRef seen = LLVMBuildPhi(e->b, bits, "");
    LLVMAddIncoming(seen, &first, &before, 1);
    LLVMValueRef old = from_bits(e, elem, seen);
    LLVMValueRef next = x;
    if (!tc_op_is_word(op, "kind", "exchange"))
        next = tc_rounded(
            e, elem, tc_emit_combine(e, tc_op_word(op, "kind"), elem, old, x));
    LLVMValueRef pair = exchange(e, op, p, seen, to_bits(e, elem, next));
    LLVMValueRef found = LLVMBuildExtractValue(e->b, pair, 0, "");
    LLVMValueRef held = LLVMBuildExtractValue(e->b, pair, 1, "");
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
    LLVMAddIncoming(seen, &found, &end, 1);
    LLVMBuildCondBr(e->b, held, done, again);
    LLVMPositionBuilderAtEnd(e->b, done);
    return old;
}

static LLVMValueRef atomic_rmw(tc_emit *e, const tc_op *op, LLVMValueRef p,
                               LLVMValueRef x)
{
    static const struct {
        const char *kind;
        LLVMAtomicRMWBinOp op;
    } kinds[] = {
        {"add", LLVMAtomicRMWBinOpAdd},       {"max", LLVMAtomicRMWBinOpMax},
        {"min", LLVMAtomicRMWBinOpMin},       {"and", LLVMAtomicRMWBinOpAnd},
        {"or", LLVMAtomicRMWBinOpOr},         {"xor", LLVMAtomicRMWBinOpXor},
        {"exchange", LLVMAtomicRMWBinOpXchg},
    };
    unsigned i = 0;
    while (!tc_op_is_word(op, "kind", kinds[i].kind))
        i++;
    return LLVMBuildAtomicRMW(e->b, kinds[i].op, p, x, order_of(op), false);
}

/* An ordinary compare: floats by value would never find a NaN. */
static LLVMValueRef atomic_cas(tc_emit *e, const tc_op *op, LLVMValueRef *in)
{
    const tc_type *elem = tc_type_elem(op->out[0]->type);
    LLVMValueRef pair = exchange(e, op, in[0], to_bits(e, elem, in[1]),
                                 to_bits(e, elem, in[2]));
    return from_bits(e, elem, LLVMBuildExtractValue(e->b, pair, 0, ""));
}

static LLVMValueRef atomic_element(tc_emit *e, const tc_op *op,
                                   LLVMValueRef *in)
{
    if (op->code == TC_ATOMIC_CAS)
        return atomic_cas(e, op, in);
    if (tc_type_is_int(op->out[0]->type))
        return atomic_rmw(e, op, in[0], in[1]);
    return combine_loop(e, op, in[0], in[1]);
}

/* The old value; 0 where the mask is off. */
static LLVMValueRef atomic_masked(tc_emit *e, const tc_op *op, LLVMValueRef *in)
{
    bool masked = op->code == TC_ATOMIC && op->nin > 2;
    if (!masked)
        return atomic_element(e, op, in);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
    lane_block l = begin_lane(e, in[2]);
    LLVMValueRef old = atomic_element(e, op, in);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
    end_lane(e, l);
    LLVMValueRef x = LLVMBuildPhi(e->b, LLVMTypeOf(old), "");
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(old));
    LLVMAddIncoming(x, &zero, &before, 1);
    LLVMAddIncoming(x, &old, &end, 1);
    return x;
}

void tc_emit_atomic(tc_emit *e, tc_op *op)
{
    LLVMValueRef in[4];
    tc_value *v = op->out[0];
    if (!tc_is_tile(op->in[0])) {
        for (unsigned i = 0; i < op->nin; i++)
            in[i] = tc_scalar_of(e, op->in[i]);
        tc_set_scalar(e, v, atomic_masked(e, op, in));
        return;
    }
    tc_walk w = tc_walk_new(e, NULL, v->type, 1, 1);
    tc_walk_outer(&w);
    tc_walk_inner(&w);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = tc_eval_full(&w.nest, op->in[i], &w.index[0]);
    LLVMValueRef old = atomic_masked(e, op, in);
    tc_buffer_store(e, tc_buffer_of(v), v->type, &w.index[0], old);
    tc_walk_end_inner(&w);
    tc_walk_end_outer(&w);
}
