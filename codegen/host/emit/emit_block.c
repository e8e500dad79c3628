/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads and stores through block pointers.
 *
 * An axis that may overrun its tensor has a range of valid positions in the
 * tile, computed once; positions outside are not touched. If the vector axis
 * has stride 1 in memory the rows are moved in vectors (with a mask, if rows
 * may overrun); otherwise, or if the machine has no masked moves of the
 * element, one element at a time.
 *
 * Of a window by indices the first axes are those of the indices: at each of
 * their positions the address moves by index * stride, and nothing is touched
 * where an index lies outside.
 */
#include "codegen/host/emit/emit.h"

#include <string.h>

typedef struct window {
    tc_emit *e;
    const tc_op *op;
    const tc_value *block;
    const tc_op *origin;
    const tc_type *shape; /* a tile type of the window's shape */
    const tc_type *elem;
    tc_value *mask, *other; /* of the op; may be NULL */
    LLVMValueRef to;        /* load: the buffer */
    LLVMValueRef base;      /* element 0 of the window */
    LLVMValueRef pad;
    LLVMValueRef contiguous;          /* i1 */
    LLVMValueRef full;                /* i1: nothing overruns */
    LLVMValueRef stride[TC_MAX_RANK]; /* of the axes, in elements */
    LLVMValueRef low[TC_MAX_RANK];    /* valid: low <= position < high */
    LLVMValueRef high[TC_MAX_RANK];   /* NULL: all are */
    unsigned nindices;                /* axes that come from indices */
} window;

static bool has_boundary(const tc_op *op, unsigned axis)
{
    const tc_attr *a = tc_op_attr(op, "boundary");
    for (unsigned i = 0; i < a->n; i++)
        if (a->ints[i] == axis)
            return true;
    return false;
}

/* ---- Checks ---- */

static const char *tensor_name(const window *w)
{
    const char *name = w->origin->in[0]->name;
    return name ? tc_arena_printf(w->e->arena, "%%%%%s", name) : "the tensor";
}

static const char *verb(const window *w)
{
    return w->op->code == TC_LOAD ? "load reads" : "store writes";
}

static void check_dropped(window *w, unsigned dim, LLVMValueRef offset,
                          LLVMValueRef size)
{
    tc_emit *e = w->e;
    LLVMValueRef ok = LLVMBuildICmp(e->b, LLVMIntULT, offset, size, "");
    const char *message = tc_arena_printf(
        e->arena, "%s index %%lld of dim %u of %s, whose size is %%lld",
        verb(w), dim, tensor_name(w));
    tc_emit_check(e, ok, tc_site_new(e, w->op, message), 2,
                  (LLVMValueRef[]){offset, size});
}

static void check_axis(window *w, unsigned axis, unsigned dim,
                       LLVMValueRef offset, LLVMValueRef size)
{
    tc_emit *e = w->e;
    unsigned side = tc_side(w->shape, axis);
    LLVMValueRef zero = tc_i64(e, 0);
    LLVMValueRef most = LLVMBuildSub(e->b, size, tc_i64(e, side), "");
    LLVMValueRef ok =
        LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntSGE, offset, zero, ""),
                     LLVMBuildICmp(e->b, LLVMIntSLE, offset, most, ""), "");
    const char *message = tc_arena_printf(
        e->arena,
        "%s %%lld to %%lld of dim %u of %s, whose size is %%lld: add "
        "boundary(%u)",
        verb(w), dim, tensor_name(w), axis);
    LLVMValueRef last = LLVMBuildAdd(e->b, offset, tc_i64(e, side - 1), "");
    tc_emit_check(e, ok, tc_site_new(e, w->op, message), 3,
                  (LLVMValueRef[]){offset, last, size});
}

/* Which positions of the axis lie in the tensor. Offsets may be any 64-bit
 * number; nothing here wraps for those in reach, and what is out of reach
 * gives an empty range. */
static void find_range(window *w, unsigned axis, LLVMValueRef offset,
                       LLVMValueRef size)
{
    tc_emit *e = w->e;
    LLVMValueRef zero = tc_i64(e, 0);
    LLVMValueRef side = tc_i64(e, tc_side(w->shape, axis));
    LLVMValueRef low =
        tc_intrinsic(e, "llvm.smax", 1, (LLVMTypeRef[]){e->i64}, 2,
                     (LLVMValueRef[]){offset, LLVMBuildNeg(e->b, side, "")});
    low = LLVMBuildNeg(e->b, low, "");
    low = tc_intrinsic(e, "llvm.smax", 1, (LLVMTypeRef[]){e->i64}, 2,
                       (LLVMValueRef[]){low, zero});
    LLVMValueRef before = LLVMBuildICmp(e->b, LLVMIntSLT, offset, size, "");
    LLVMValueRef rest = LLVMBuildSub(e->b, size, offset, "");
    /* (Far below 0 the difference wraps, but then low is the side.) */
    rest = tc_intrinsic(e, "llvm.umin", 1, (LLVMTypeRef[]){e->i64}, 2,
                        (LLVMValueRef[]){rest, side});
    w->low[axis] = low;
    w->high[axis] = LLVMBuildSelect(e->b, before, rest, zero, "");
    LLVMValueRef whole = LLVMBuildAnd(
        e->b, LLVMBuildICmp(e->b, LLVMIntEQ, low, zero, ""),
        LLVMBuildICmp(e->b, LLVMIntEQ, w->high[axis], side, ""), "");
    w->full = LLVMBuildAnd(e->b, w->full, whole, "");
}

static LLVMTypeRef element_type(const window *w)
{
    return LLVMArrayType(w->e->i8, tc_type_bytes(w->elem));
}

/* The vectors' axis may be one of the indices, whose windows lie apart. */
static LLVMValueRef is_contiguous(const window *w)
{
    tc_emit *e = w->e;
    int vector = tc_vector_axis(w->shape);
    if (vector < (int)w->nindices)
        return LLVMConstInt(e->i1, vector < 0, false);
    return LLVMBuildICmp(e->b, LLVMIntEQ, w->stride[vector], tc_i64(e, 1), "");
}

static window window_of(tc_emit *e, tc_op *op)
{
    tc_value *block = op->in[0];
    window w = {.e = e, .op = op, .block = block};
    w.origin = tc_block_origin(block);
    w.shape = block->type;
    w.elem = block->type->elem;
    w.full = LLVMConstInt(e->i1, 1, false);
    const tc_attr *sides = tc_op_attr(w.origin, "sides");
    w.nindices = tc_block_index_rank(w.origin);
    unsigned rank = sides->n, axis = w.nindices;
    LLVMValueRef *parts = tc_place_of(block)->parts;
    LLVMValueRef *size = parts + 1, *stride = size + rank;
    LLVMValueRef *offset = stride + rank;
    LLVMValueRef start = tc_i64(e, 0);
    for (unsigned i = 0; i < w.nindices; i++)
        w.stride[i] = tc_i64(e, 0);
    for (unsigned i = 0; i < rank; i++) {
        if (tc_is_tile(w.origin->in[1 + i]))
            continue;
        LLVMValueRef part = LLVMBuildMul(e->b, offset[i], stride[i], "");
        start = LLVMBuildAdd(e->b, start, part, "");
        if (!sides->dims[i]) {
            check_dropped(&w, i, offset[i], size[i]);
            continue;
        }
        w.stride[axis] = stride[i];
        if (has_boundary(op, axis))
            find_range(&w, axis, offset[i], size[i]);
        else
            check_axis(&w, axis, i, offset[i], size[i]);
        axis++;
    }
    w.base = tc_element(e, element_type(&w), parts[0], start);
    w.contiguous = is_contiguous(&w);
    return w;
}

/* ---- Positions ---- */

/* Adds the elements to the windows of the indices at this position; *inside:
 * i1, whether all of them are; NULL: there are none. */
static LLVMValueRef add_indices(const window *w, tc_walk *walk,
                                const tc_index *index, LLVMValueRef sum,
                                LLVMValueRef *inside)
{
    tc_emit *e = w->e;
    unsigned rank = w->origin->nin - 1;
    LLVMValueRef *size = tc_place_of(w->block)->parts + 1;
    tc_index at = *index;
    at.rank = w->nindices;
    at.vector = -1;
    *inside = NULL;
    for (unsigned i = 0; i < rank; i++) {
        if (!tc_is_tile(w->origin->in[1 + i]))
            continue;
        LLVMValueRef x = tc_eval(&walk->nest, w->origin->in[1 + i], &at).x;
        x = tc_to_i64(e, x);
        /* Unsigned: negative ones are beyond the end. */
        LLVMValueRef ok = LLVMBuildICmp(e->b, LLVMIntULT, x, size[i], "");
        *inside = *inside ? LLVMBuildAnd(e->b, *inside, ok, "") : ok;
        x = LLVMBuildMul(e->b, x, size[rank + i], "");
        sum = LLVMBuildAdd(e->b, sum, x, "");
    }
    return sum;
}

/* Address of the element at the index; *inside as above. */
static LLVMValueRef address_at(const window *w, tc_walk *walk,
                               const tc_index *index, LLVMValueRef *inside)
{
    tc_emit *e = w->e;
    LLVMValueRef sum = tc_i64(e, 0);
    *inside = NULL;
    if (w->nindices)
        sum = add_indices(w, walk, index, sum, inside);
    for (unsigned i = w->nindices; i < index->rank; i++) {
        if (tc_side(w->shape, i) == 1)
            continue;
        LLVMValueRef part = LLVMBuildMul(e->b, index->at[i], w->stride[i], "");
        sum = LLVMBuildAdd(e->b, sum, part, "");
    }
    return tc_element(e, element_type(w), w->base, sum);
}

/* Positions within the range, for lanes along the vector axis. */
static LLVMValueRef axis_mask(const window *w, const tc_index *index,
                              unsigned axis)
{
    tc_emit *e = w->e;
    LLVMValueRef at = index->at[axis], low = w->low[axis];
    LLVMValueRef span = LLVMBuildSub(e->b, w->high[axis], low, "");
    /* (An empty range with low above high: the span would wrap.) */
    LLVMValueRef empty =
        LLVMBuildICmp(e->b, LLVMIntSLE, w->high[axis], low, "");
    span = LLVMBuildSelect(e->b, empty, tc_i64(e, 0), span, "");
    LLVMValueRef from = LLVMBuildSub(e->b, at, low, "");
    if (index->vector != (int)axis)
        return LLVMBuildICmp(e->b, LLVMIntULT, from, span, "");
    /* Sides fit 32 bits, and so do positions relative to low. */
    LLVMValueRef iota[64];
    for (unsigned i = 0; i < index->width; i++)
        iota[i] = tc_i32(e, i);
    from = tc_splat(e, LLVMBuildTrunc(e->b, from, e->i32, ""), index->width);
    from = LLVMBuildAdd(e->b, from, LLVMConstVector(iota, index->width), "");
    span = tc_splat(e, LLVMBuildTrunc(e->b, span, e->i32, ""), index->width);
    return LLVMBuildICmp(e->b, LLVMIntULT, from, span, "");
}

/* Lanes that are in the tensor; NULL: all. by_index: i1 or NULL. */
static LLVMValueRef valid_lanes(const window *w, const tc_index *index,
                                LLVMValueRef by_index)
{
    tc_emit *e = w->e;
    unsigned width = index->vector >= 0 ? index->width : 1;
    LLVMValueRef mask = by_index ? tc_splat(e, by_index, width) : NULL;
    for (unsigned i = 0; i < index->rank; i++) {
        if (!w->high[i])
            continue;
        LLVMValueRef one = tc_splat(e, axis_mask(w, index, i), width);
        mask = mask ? LLVMBuildAnd(e->b, mask, one, "") : one;
    }
    return mask;
}

/* The valid lanes, and the op's own mask. */
static LLVMValueRef active_lanes(const window *w, tc_walk *walk,
                                 LLVMValueRef valid, unsigned u)
{
    if (!w->mask)
        return valid;
    LLVMValueRef own = tc_eval_full(&walk->nest, w->mask, &walk->index[u]);
    return valid ? LLVMBuildAnd(w->e->b, valid, own, "") : own;
}

/* ---- The two ways ---- */

typedef void move_fn(window *w, tc_walk *walk, unsigned u, bool vectors);

static void walk_window(window *w, bool vectors, unsigned unroll, move_fn *move)
{
    tc_walk walk = tc_walk_new(w->e, NULL, w->shape, vectors ? w->e->width : 1,
                               vectors ? unroll : 1);
    tc_walk_outer(&walk);
    tc_walk_inner(&walk);
    tc_walk_spread(&walk);
    for (unsigned u = 0; u < walk.count; u++)
        move(w, &walk, u, vectors);
    tc_walk_end_inner(&walk);
    tc_walk_end_outer(&walk);
}

static bool is_bounded(const window *w)
{
    for (unsigned i = 0; i < w->shape->rank; i++)
        if (w->high[i])
            return true;
    return w->mask || w->nindices;
}

static void move_window(window *w, unsigned unroll, move_fn *move)
{
    tc_emit *e = w->e;
    LLVMValueRef fast = w->contiguous;
    if (is_bounded(w) && !tc_has_masked_moves(e, w->elem))
        fast = w->mask || w->nindices ? LLVMConstInt(e->i1, 0, false)
                                      : LLVMBuildAnd(e->b, fast, w->full, "");
    if (tc_vector_axis(w->shape) < (int)w->nindices) {
        walk_window(w, false, 1, move);
        return;
    }
    LLVMBasicBlockRef vectors = tc_block_new(e, "vectors");
    LLVMBasicBlockRef elements = tc_block_new(e, "elements");
    LLVMBasicBlockRef after = tc_block_new(e, "moved");
    LLVMBuildCondBr(e->b, fast, vectors, elements);
    LLVMPositionBuilderAtEnd(e->b, vectors);
    walk_window(w, true, unroll, move);
    LLVMBuildBr(e->b, after);
    LLVMPositionBuilderAtEnd(e->b, elements);
    walk_window(w, false, 1, move);
    LLVMBuildBr(e->b, after);
    LLVMPositionBuilderAtEnd(e->b, after);
}

/* Without masked moves the vectors are only for windows that are full. */
static bool needs_mask(const window *w, bool vectors)
{
    return !vectors || tc_has_masked_moves(w->e, w->elem);
}

/* Loads one element if `ok`; otherwise another address is read. */
static LLVMValueRef guarded_load(const window *w, LLVMValueRef p,
                                 LLVMValueRef ok)
{
    tc_emit *e = w->e;
    if (ok)
        p = LLVMBuildSelect(e->b, ok, p, w->to, "");
    LLVMValueRef x = LLVMBuildLoad2(e->b, tc_memory_type(e, w->elem), p, "");
    LLVMSetAlignment(x, tc_type_bytes(w->elem));
    return tc_from_memory(e, w->elem, x);
}

static void load_at(window *w, tc_walk *walk, unsigned u, bool vectors)
{
    tc_emit *e = w->e;
    const tc_index *index = &walk->index[u];
    unsigned width = index->vector >= 0 ? index->width : 1;
    LLVMValueRef by_index, p = address_at(w, walk, index, &by_index);
    LLVMValueRef valid =
        needs_mask(w, vectors) ? valid_lanes(w, index, by_index) : NULL;
    LLVMValueRef active = active_lanes(w, walk, valid, u);
    LLVMValueRef pad = tc_splat(e, w->pad, width), x;
    if (width > 1) {
        x = tc_masked_load(e, w->elem, p, active, pad);
    } else {
        x = guarded_load(w, p, active);
        if (active)
            x = LLVMBuildSelect(e->b, active, x, pad, "");
    }
    if (w->other) {
        LLVMValueRef own = tc_eval_full(&walk->nest, w->mask, index);
        LLVMValueRef other = tc_eval_full(&walk->nest, w->other, index);
        x = LLVMBuildSelect(e->b, own, x, other, "");
    }
    tc_tile_store(e, w->to, w->shape, index, x);
}

/* ---- Loads of one shape share their code ---- */

static const char *load_name(const window *w, tc_number pad)
{
    tc_arena *a = w->e->arena;
    const char *name =
        tc_arena_printf(a, "load_%s", tc_scalar_infos[w->elem->kind].name);
    for (unsigned i = 0; i < w->shape->rank; i++)
        name = tc_arena_printf(a, "%s_%u%s", name, tc_side(w->shape, i),
                               w->high[i] ? "b" : "");
    double x = pad.is_float ? pad.f : 0;
    uint64_t bits = (uint64_t)pad.i;
    if (pad.is_float)
        memcpy(&bits, &x, sizeof bits);
    return tc_arena_printf(a, "%s_%s%llx", name, pad.is_float ? "f" : "i",
                           (unsigned long long)bits);
}

/* Adds to the list, or, where `take` is set, reads from it. */
static void pass(LLVMValueRef *list, unsigned *n, LLVMValueRef *x, bool take)
{
    if (take)
        *x = list[*n];
    else
        list[*n] = *x;
    ++*n;
}

/* The arguments of a shared load function: all values that its code depends
 * on. */
static unsigned pass_window(window *w, LLVMValueRef *list, bool take)
{
    unsigned n = 0;
    pass(list, &n, &w->to, take);
    pass(list, &n, &w->base, take);
    pass(list, &n, &w->contiguous, take);
    pass(list, &n, &w->full, take);
    for (unsigned i = 0; i < w->shape->rank; i++) {
        pass(list, &n, &w->stride[i], take);
        if (w->high[i]) {
            pass(list, &n, &w->low[i], take);
            pass(list, &n, &w->high[i], take);
        }
    }
    return n;
}

static void call_load(window w, tc_number pad)
{
    enum { MOST = 4 + 3 * TC_MAX_RANK };
    tc_emit *e = w.e;
    LLVMValueRef args[MOST], params[MOST];
    LLVMTypeRef types[MOST];
    unsigned n = pass_window(&w, args, false);
    for (unsigned i = 0; i < n; i++)
        types[i] = LLVMTypeOf(args[i]);
    tc_function f;
    if (tc_function_begin(e, &f, load_name(&w, pad), n, types)) {
        LLVMGetParams(f.fn, params);
        pass_window(&w, params, true);
        move_window(&w, 4, load_at);
        tc_function_end(e, &f);
    }
    tc_function_call(e, f.fn, n, args);
}

void tc_emit_block_load(tc_emit *e, tc_op *op)
{
    window w = window_of(e, op);
    tc_number pad = {0};
    if (tc_op_has_attr(op, "pad"))
        pad = tc_op_attr(op, "pad")->number;
    w.pad = tc_literal(e, w.elem, pad);
    w.to = tc_buffer_address(e, tc_buffer_of(op->out[0]));
    w.mask = op->nin > 1 ? op->in[1] : NULL;
    w.other = op->nin > 2 ? op->in[2] : NULL;
    if (w.mask || w.nindices)
        move_window(&w, 4, load_at);
    else
        call_load(w, pad);
}

/* One element if `ok`. */
static void guarded_store(window *w, LLVMValueRef p, LLVMValueRef ok,
                          LLVMValueRef x)
{
    tc_emit *e = w->e;
    LLVMBasicBlockRef skip = NULL;
    if (ok) {
        LLVMBasicBlockRef write = tc_block_new(e, "write");
        skip = tc_block_new(e, "written");
        LLVMBuildCondBr(e->b, ok, write, skip);
        LLVMPositionBuilderAtEnd(e->b, write);
    }
    tc_store_one(e, w->op, w->elem, p, x);
    if (ok)
        tc_enter(e, skip);
}

static void store_at(window *w, tc_walk *walk, unsigned u, bool vectors)
{
    const tc_index *index = &walk->index[u];
    LLVMValueRef by_index, p = address_at(w, walk, index, &by_index);
    LLVMValueRef x = tc_eval_full(&walk->nest, w->op->in[1], index);
    LLVMValueRef valid =
        needs_mask(w, vectors) ? valid_lanes(w, index, by_index) : NULL;
    LLVMValueRef active = active_lanes(w, walk, valid, u);
    if (index->vector >= 0)
        tc_masked_store(w->e, w->elem, p, active, x);
    else
        guarded_store(w, p, active, x);
}

void tc_emit_block_store(tc_emit *e, tc_op *op)
{
    window w = window_of(e, op);
    w.mask = op->nin > 2 ? op->in[2] : NULL;
    if (tc_op_is_word(op, "kind", "add"))
        walk_window(&w, false, 1, store_at);
    else
        move_window(&w, 1, store_at);
}
