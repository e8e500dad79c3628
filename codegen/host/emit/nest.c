/* SPDX-License-Identifier: Apache-2.0
 *
 * Loop nests over tiles, and tile values at the index where a nest stands.
 *
 * A virtual value is computed at its use, once for each index. Its code goes to
 * the outermost level that the index allows: a value that depends on the row
 * only is computed once a row, as a scalar.
 *
 *   %d = sub %s, broadcast(expand_dims(%m, 1))     at (r, c..c+15):
 *     level 1, once a row:   m = load &M[r]
 *     level 2:               s = load <16 x float> &S[64 r + c]
 *                            d = s - splat(m)
 */
#include "codegen/host/emit/emit.h"
#include "codegen/llvm/lanes.h"
#include "ir/parts.h"

#include <string.h>

/* ---- Loops ---- */

tc_nest tc_nest_new(tc_emit *e, const tc_item *item)
{
    return (tc_nest){.e = e, .item = item};
}

tc_host_loop tc_loop_begin(tc_nest *n, int64_t count, int64_t step)
{
    tc_emit *e = n->e;
    tc_host_loop l = {LLVMGetInsertBlock(e->b),
                      tc_block_new(e, "loop"),
                      NULL,
                      NULL,
                      count,
                      step};
    n->blocks[n->level++] = l.before;
    tc_enter(e, l.head);
    l.at = LLVMBuildPhi(e->b, e->i64, "");
    LLVMValueRef zero = tc_i64(e, 0);
    LLVMAddIncoming(l.at, &zero, &l.before, 1);
    return l;
}

/* Values that were computed in a loop that has been left can no longer be
 * used. */
static void forget_deeper(tc_nest *n)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < n->nmemos; i++)
        if (n->memos[i].lane.level <= n->level)
            n->memos[kept++] = n->memos[i];
    n->nmemos = kept;
}

void tc_loop_end(tc_nest *n, tc_host_loop *l)
{
    tc_emit *e = n->e;
    LLVMValueRef next = LLVMBuildAdd(e->b, l->at, tc_i64(e, l->step), "");
    LLVMValueRef more =
        LLVMBuildICmp(e->b, LLVMIntULT, next, tc_i64(e, l->count), "");
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
    l->after = tc_block_new(e, "loop.end");
    LLVMBuildCondBr(e->b, more, l->head, l->after);
    LLVMAddIncoming(l->at, &next, &end, 1);
    LLVMPositionBuilderAtEnd(e->b, l->after);
    n->level--;
    forget_deeper(n);
}

/* ---- Buffers ---- */

LLVMValueRef tc_buffer_address(tc_emit *e, const tc_host_buffer *b)
{
    return tc_element(e, e->i8, e->scratch, tc_i64(e, (int64_t)b->offset));
}

LLVMValueRef tc_linear(tc_emit *e, const tc_type *t, const tc_index *index)
{
    LLVMValueRef sum = tc_i64(e, 0);
    for (unsigned i = 0; i < t->rank; i++) {
        LLVMValueRef part = LLVMBuildMul(e->b, index->at[i],
                                         tc_i64(e, tc_type_stride(t, i)), "");
        sum = LLVMBuildAdd(e->b, sum, part, "");
    }
    return sum;
}

static LLVMValueRef load_lanes(tc_emit *e, LLVMTypeRef type, LLVMValueRef base,
                               LLVMValueRef at, unsigned width, int64_t stride)
{
    LLVMValueRef x = LLVMGetPoison(LLVMVectorType(type, width));
    for (unsigned i = 0; i < width; i++) {
        LLVMValueRef lane = LLVMBuildAdd(e->b, at, tc_i64(e, i * stride), "");
        LLVMValueRef one =
            LLVMBuildLoad2(e->b, type, tc_element(e, type, base, lane), "");
        x = LLVMBuildInsertElement(e->b, x, one, tc_i64(e, i), "");
    }
    return x;
}

LLVMValueRef tc_buffer_load(tc_emit *e, const tc_host_buffer *b,
                            const tc_type *t, const tc_index *index)
{
    LLVMTypeRef type = tc_scratch_type(e, t->elem);
    LLVMValueRef base = tc_buffer_address(e, b), at = tc_linear(e, t, index);
    unsigned width = index->vector >= 0 ? index->width : 1;
    int64_t stride = width > 1 ? tc_type_stride(t, (unsigned)index->vector) : 1;
    LLVMValueRef x;
    if (stride == 1) {
        x = LLVMBuildLoad2(e->b, tc_vector_of(type, width),
                           tc_element(e, type, base, at), "");
        LLVMSetAlignment(x, tc_scratch_bytes(t->elem));
    } else {
        x = load_lanes(e, type, base, at, width, stride);
    }
    if (t->elem->kind == TC_I1)
        x = LLVMBuildICmp(e->b, LLVMIntNE, x, tc_int_like(x, 0), "");
    return x;
}

void tc_buffer_store(tc_emit *e, const tc_host_buffer *b, const tc_type *t,
                     const tc_index *index, LLVMValueRef x)
{
    tc_tile_store(e, tc_buffer_address(e, b), t, index, x);
}

void tc_tile_store(tc_emit *e, LLVMValueRef base, const tc_type *t,
                   const tc_index *index, LLVMValueRef x)
{
    LLVMTypeRef type = tc_scratch_type(e, t->elem);
    LLVMValueRef at = tc_linear(e, t, index);
    unsigned width = tc_is_vector(x) ? LLVMGetVectorSize(LLVMTypeOf(x)) : 1;
    if (t->elem->kind == TC_I1)
        x = LLVMBuildZExt(e->b, x, tc_vector_of(e->i8, width), "");
    int64_t stride = width > 1 ? tc_type_stride(t, (unsigned)index->vector) : 1;
    if (stride == 1) {
        LLVMValueRef store =
            LLVMBuildStore(e->b, x, tc_element(e, type, base, at));
        LLVMSetAlignment(store, tc_scratch_bytes(t->elem));
        return;
    }
    for (unsigned i = 0; i < width; i++) {
        LLVMValueRef lane = LLVMBuildAdd(e->b, at, tc_i64(e, i * stride), "");
        LLVMValueRef one = LLVMBuildExtractElement(e->b, x, tc_i64(e, i), "");
        LLVMBuildStore(e->b, one, tc_element(e, type, base, lane));
    }
}

/* ---- Values at an index ---- */

static bool same_index(const tc_index *a, const tc_index *b)
{
    return a->rank == b->rank && a->width == b->width &&
           a->vector == b->vector &&
           memcmp(a->at, b->at, a->rank * sizeof *a->at) == 0;
}

static const tc_lane *recall(const tc_nest *n, const tc_value *v,
                             const tc_index *index)
{
    for (unsigned i = n->nmemos; i-- > 0;)
        if (n->memos[i].value == v && same_index(&n->memos[i].index, index))
            return &n->memos[i].lane;
    return NULL;
}

static void remember(tc_nest *n, const tc_value *v, const tc_index *index,
                     tc_lane lane)
{
    if (n->nmemos == n->room) {
        n->room = n->room ? 2 * n->room : 32;
        tc_memo *more = tc_arena_array(n->e->arena, tc_memo, n->room);
        if (n->nmemos)
            memcpy(more, n->memos, n->nmemos * sizeof *more);
        n->memos = more;
    }
    n->memos[n->nmemos++] = (tc_memo){v, *index, lane};
}

static unsigned index_level(const tc_index *index)
{
    unsigned level = 0;
    for (unsigned i = 0; i < index->rank; i++)
        if (index->level[i] > level)
            level = index->level[i];
    return level;
}

/* New code goes to the end of that level's block; returns where we were. */
static LLVMBasicBlockRef go_to_level(tc_nest *n, unsigned level)
{
    LLVMBuilderRef b = n->e->b;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    if (level < n->level)
        LLVMPositionBuilderBefore(
            b, LLVMGetBasicBlockTerminator(n->blocks[level]));
    return here;
}

static void go_back(tc_nest *n, LLVMBasicBlockRef here)
{
    LLVMPositionBuilderAtEnd(n->e->b, here);
}

/* The index in the operand of an op that only moves elements. */
static tc_index operand_index(const tc_op *op, const tc_index *index,
                              LLVMValueRef zero)
{
    const tc_type *from = op->in[0]->type;
    tc_index to = *index;
    to.rank = from->rank;
    if (op->code == TC_BROADCAST) {
        for (unsigned i = 0; i < from->rank; i++) {
            if (tc_side(from, i) != 1)
                continue;
            to.at[i] = zero;
            to.level[i] = 0;
            if (to.vector == (int)i)
                to.vector = -1;
        }
        return to;
    }
    const tc_attr *perm = op->code == TC_TRANS ? tc_op_attr(op, "perm") : NULL;
    unsigned axis =
        op->code == TC_EXPAND_DIMS ? (unsigned)tc_op_int(op, "axis") : 0;
    for (unsigned i = 0; i < index->rank; i++) {
        unsigned j = i;
        if (op->code == TC_EXPAND_DIMS) {
            if (i == axis)
                continue;
            j = i - (i > axis);
        } else if (perm->kind != TC_ATTR_NONE) {
            j = (unsigned)perm->ints[i];
        } else if (i + 2 >= index->rank) {
            j = 2 * index->rank - 3 - i;
        }
        to.at[j] = index->at[i];
        to.level[j] = index->level[i];
        if (index->vector == (int)i)
            to.vector = (int)j;
    }
    if (op->code == TC_EXPAND_DIMS && index->vector == (int)axis)
        to.vector = -1;
    return to;
}

/* An index further on along an axis. The sum is made where the index is. */
static tc_index moved_index(tc_nest *n, const tc_index *index,
                            tc_tile_part part)
{
    tc_index to = *index;
    LLVMBasicBlockRef here = go_to_level(n, index->level[part.axis]);
    to.at[part.axis] =
        LLVMBuildAdd(n->e->b, index->at[part.axis], tc_i64(n->e, part.at), "");
    go_back(n, here);
    return to;
}

static tc_lane eval_range(tc_nest *n, const tc_index *index)
{
    tc_emit *e = n->e;
    tc_lane r = {NULL, index_level(index)};
    LLVMBasicBlockRef here = go_to_level(n, r.level);
    r.x = LLVMBuildTrunc(e->b, index->at[0], e->i32, "");
    if (index->vector == 0 && index->width > 1) {
        LLVMValueRef iota[64];
        for (unsigned i = 0; i < index->width; i++)
            iota[i] = tc_i32(e, i);
        r.x = LLVMBuildAdd(e->b, tc_splat(e, r.x, index->width),
                           LLVMConstVector(iota, index->width), "");
    }
    go_back(n, here);
    return r;
}

/* start + step * index, of operands that are scalars. */
static tc_lane eval_ramp(tc_nest *n, const tc_op *op, const tc_index *index)
{
    tc_emit *e = n->e;
    tc_lane r = eval_range(n, index);
    LLVMBasicBlockRef here = go_to_level(n, r.level);
    unsigned width = tc_is_vector(r.x) ? index->width : 1;
    LLVMValueRef start = tc_splat(e, tc_scalar_of(e, op->in[0]), width);
    LLVMValueRef step = tc_splat(e, tc_scalar_of(e, op->in[1]), width);
    r.x = LLVMBuildSIToFP(e->b, r.x, LLVMTypeOf(start), "");
    tc_lanes l = tc_lanes_of(e->b, start);
    r.x = tc_lanes_fma(&l, r.x, step, start);
    go_back(n, here);
    return r;
}

static tc_lane eval_buffer(tc_nest *n, const tc_value *v, const tc_index *index)
{
    tc_lane r = {NULL, index_level(index)};
    LLVMBasicBlockRef here = go_to_level(n, r.level);
    r.x = tc_buffer_load(n->e, tc_buffer_of(v), v->type, index);
    go_back(n, here);
    return r;
}

/* An op whose operands are all wanted at its own index. */
static tc_lane eval_lanes(tc_nest *n, const tc_op *op, const tc_index *index)
{
    tc_emit *e = n->e;
    LLVMValueRef *in = tc_arena_array(e->arena, LLVMValueRef, op->nin);
    tc_lane r = {NULL, 0};
    bool vectors = false;
    for (unsigned i = 0; i < op->nin; i++) {
        if (op->in[i]->type->kind == TC_TENSOR)
            continue;
        tc_lane lane = tc_eval(n, op->in[i], index);
        in[i] = lane.x;
        r.level = lane.level > r.level ? lane.level : r.level;
        vectors |= tc_is_vector(lane.x);
    }
    LLVMBasicBlockRef here = go_to_level(n, r.level);
    unsigned width = vectors ? index->width : 1;
    for (unsigned i = 0; i < op->nin; i++)
        if (in[i])
            in[i] = tc_splat(e, in[i], width);
    if (op->code == TC_GATHER)
        r.x = tc_emit_gather_lanes(e, op, in, width);
    else if (op->code == TC_LOAD)
        r.x = tc_emit_pointer_lanes(e, op, in, width);
    else
        r.x = tc_emit_lanes(e, op, in);
    go_back(n, here);
    return r;
}

/* Where the indices and the other axes are known. */
static tc_lane eval_take(tc_nest *n, const tc_op *op, const tc_index *index)
{
    tc_lane by = tc_is_tile(op->in[1])
                     ? tc_eval(n, op->in[1], index)
                     : (tc_lane){tc_scalar_of(n->e, op->in[1]), 0};
    tc_lane r = {NULL, index_level(index)};
    r.level = by.level > r.level ? by.level : r.level;
    LLVMBasicBlockRef here = go_to_level(n, r.level);
    r.x = tc_emit_take_lanes(n->e, op, index, by.x);
    go_back(n, here);
    return r;
}

static tc_lane eval_virtual(tc_nest *n, tc_value *v, const tc_index *index)
{
    const tc_op *op = v->def;
    switch (op->code) {
    case TC_SPLAT: return (tc_lane){tc_scalar_of(n->e, op->in[0]), 0};
    case TC_RANGE: return eval_range(n, index);
    case TC_RAMP: return eval_ramp(n, op, index);
    case TC_EXPAND_DIMS:
    case TC_BROADCAST:
    case TC_TRANS: {
        tc_index inner = operand_index(op, index, tc_i64(n->e, 0));
        return tc_eval(n, op->in[0], &inner);
    }
    case TC_SLICE: {
        tc_index inner = moved_index(n, index, tc_op_part(op, 0));
        return tc_eval(n, op->in[0], &inner);
    }
    case TC_TAKE: return eval_take(n, op, index);
    default: return eval_lanes(n, op, index);
    }
}

tc_lane tc_eval(tc_nest *n, tc_value *v, const tc_index *index)
{
    if (!tc_is_tile(v))
        return (tc_lane){tc_scalar_of(n->e, v), 0};
    const tc_lane *known = recall(n, v, index);
    if (known)
        return *known;
    const tc_place *p = tc_place_of(v);
    /* A root of another nest is in its buffer; one of this nest is computed
     * now. */
    bool stored =
        p->root && (!n->item || p->item != n->item ||
                    n->item->kind != TC_ITEM_NEST || v->def->code == TC_REDUCE);
    tc_lane r = stored ? eval_buffer(n, v, index) : eval_virtual(n, v, index);
    remember(n, v, index, r);
    return r;
}

LLVMValueRef tc_eval_full(tc_nest *n, tc_value *v, const tc_index *index)
{
    LLVMValueRef x = tc_eval(n, v, index).x;
    return tc_splat(n->e, x, index->vector >= 0 ? index->width : 1);
}
