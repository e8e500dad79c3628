/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of a tile by index: read where they lie in the tile's buffer.
 *
 *   take %x, %j axis(1)     at (r, c..c+7):  x[64 r + j], x[64 r + j'], ..
 */
#include "codegen/host/emit/emit.h"
#include "codegen/llvm/lanes.h"

/* What an index of the result says of the operand's axes. */
typedef struct source {
    tc_emit *e;
    const tc_type *type;
    unsigned axis, width;
    bool dropped; /* the result has no such axis */
    const tc_index *index;
} source;

/* The axis of the result along which operand axis a lies. */
static unsigned axis_in_result(const source *s, unsigned a)
{
    return s->dropped && a > s->axis ? a - 1 : a;
}

/* Lanes of the position but for what the index along the axis adds. */
static LLVMValueRef position_of_line(const source *s)
{
    tc_emit *e = s->e;
    LLVMValueRef sum = tc_i64(e, 0), lanes[64];
    int64_t step = 0;
    for (unsigned a = 0; a < s->type->rank; a++) {
        unsigned i = axis_in_result(s, a);
        if (a == s->axis)
            continue;
        LLVMValueRef part = LLVMBuildMul(
            e->b, s->index->at[i], tc_i64(e, tc_type_stride(s->type, a)), "");
        sum = LLVMBuildAdd(e->b, sum, part, "");
        if (s->index->vector == (int)i)
            step = tc_type_stride(s->type, a);
    }
    sum = tc_splat(e, sum, s->width);
    if (s->width == 1 || step == 0)
        return sum;
    for (unsigned i = 0; i < s->width; i++)
        lanes[i] = tc_i64(e, i * step);
    return LLVMBuildAdd(e->b, sum, LLVMConstVector(lanes, s->width), "");
}

static LLVMValueRef load_each(const source *s, LLVMValueRef base,
                              LLVMValueRef at)
{
    tc_emit *e = s->e;
    LLVMTypeRef type = tc_scratch_type(e, s->type->elem);
    if (s->width == 1)
        return LLVMBuildLoad2(e->b, type, tc_element(e, type, base, at), "");
    LLVMValueRef x = LLVMGetPoison(LLVMVectorType(type, s->width));
    for (unsigned i = 0; i < s->width; i++) {
        LLVMValueRef lane = LLVMBuildExtractElement(e->b, at, tc_i64(e, i), "");
        LLVMValueRef one =
            LLVMBuildLoad2(e->b, type, tc_element(e, type, base, lane), "");
        x = LLVMBuildInsertElement(e->b, x, one, tc_i64(e, i), "");
    }
    return x;
}

LLVMValueRef tc_emit_take_lanes(tc_emit *e, const tc_op *op,
                                const tc_index *index, LLVMValueRef by)
{
    const tc_type *t = op->in[0]->type;
    source s = {e,
                t,
                (unsigned)tc_op_int(op, "axis"),
                1,
                op->in[1]->type->kind != TC_TILE,
                index};
    bool along = index->vector == (int)s.axis && !s.dropped;
    if (index->vector >= 0 && (!along || tc_is_vector(by)))
        s.width = index->width;
    by = tc_splat(e, tc_to_i64(e, by), s.width);
    LLVMValueRef side = tc_splat(e, tc_i64(e, tc_side(t, s.axis)), s.width);
    LLVMValueRef stride =
        tc_splat(e, tc_i64(e, tc_type_stride(t, s.axis)), s.width);
    /* Unsigned: negative ones are beyond the end. */
    LLVMValueRef inside = LLVMBuildICmp(e->b, LLVMIntULT, by, side, "");
    LLVMValueRef safe =
        LLVMBuildSelect(e->b, inside, by, LLVMConstNull(LLVMTypeOf(by)), "");
    LLVMValueRef at = LLVMBuildAdd(e->b, position_of_line(&s),
                                   LLVMBuildMul(e->b, safe, stride, ""), "");
    LLVMValueRef x =
        load_each(&s, tc_buffer_address(e, tc_buffer_of(op->in[0])), at);
    if (t->elem->kind == TC_I1)
        x = LLVMBuildICmp(e->b, LLVMIntNE, x, tc_int_like(x, 0), "");
    tc_number pad = {0};
    if (tc_op_has_attr(op, "pad"))
        pad = tc_op_attr(op, "pad")->number;
    return LLVMBuildSelect(
        e->b, inside, x, tc_splat(e, tc_literal(e, t->elem, pad), s.width), "");
}

void tc_emit_take(tc_emit *e, tc_op *op)
{
    const tc_index none = {.width = 1, .vector = -1};
    tc_set_scalar(e, op->out[0],
                  tc_emit_take_lanes(e, op, &none, tc_scalar_of(e, op->in[1])));
}
