/* SPDX-License-Identifier: Apache-2.0
 *
 * Asynchronous copies from global to shared memory (cp.async), and the waits
 * for them.
 *
 * The layout of a copy says which thread moves which elements: a vector of 16,
 * 8 or 4 bytes is one instruction, its address the thread's plus a multiple of
 * the strides. Outside of the boundary the source has 0 bytes, and the hardware
 * writes zeros. A copy whose condition is false does nothing at all:
 *
 *   selp.b32 n, 16, 0, %p1;
 *   @%p2 cp.async.cg.shared.global [%r1+2048], [%rd2+128], 16, n;
 */
#include "codegen/nvptx/memory/hints.h"
#include "codegen/nvptx/memory/shared.h"
#include "passes/analysis/match.h"

#include <assert.h>

typedef struct copy {
    tc_gen *g;
    const tc_op *op;
    const tc_type *smem;
    const tc_layout *layout; /* which thread copies what */
    unsigned bytes;          /* of an element */
    unsigned vector;         /* elements of an instruction */
    tc_shared_at to;
    LLVMValueRef enabled; /* i1; NULL: always */
    tc_gen_hints hints;
    LLVMValueRef zero; /* with a policy: unknown_zero */
} copy;

/* 0, as a value of each thread. ptxas 13.0 may split the address of a copy with
 * a policy in a part of each thread and one of all, and then encodes an
 * instruction that GPUs refuse. What this is merged into it does not split. */
static LLVMValueRef unknown_zero(tc_gen *g)
{
    enum { SIGN = 31 };
    LLVMValueRef lanes_below =
        tc_gen_pure_asm(g, g->i32, "mov.u32 $0, %lanemask_lt;", "=r", 0, NULL);
    return LLVMBuildLShr(g->b, lanes_below, tc_gen_i32(g, SIGN), "");
}

/* One instruction, from the address plus a constant. valid: i1, whether there
 * is anything to read (else zeros are written); NULL: yes. */
static void copy_vector(copy *c, uint32_t r, LLVMValueRef from,
                        int64_t immediate, LLVMValueRef valid)
{
    tc_gen *g = c->g;
    unsigned size = c->vector * c->bytes, n = 4;
    LLVMValueRef args[7];
    args[0] = tc_shared_at_get(&c->to, r, &args[1]);
    if (c->zero)
        args[0] = LLVMBuildOr(g->b, args[0], c->zero, "");
    args[2] = from;
    args[3] = tc_gen_i32(g, immediate);
    tc_text text = {.arena = g->arena}, constraints = {.arena = g->arena};
    tc_text_add(&constraints, "r,n,l,n");
    /* Selected here: LLVM would have a select for each part of the condition,
     * where ptxas makes a predicate of one. */
    if (valid) {
        tc_text_printf(&text, "{.reg .b32 n; selp.b32 n, %u, 0, $%u; ", size,
                       n);
        tc_text_add(&constraints, ",b");
        args[n++] = valid;
    }
    if (c->enabled) {
        tc_text_printf(&text, "@$%u ", n);
        tc_text_add(&constraints, ",b");
        args[n++] = c->enabled;
    }
    /* PTX ISA, cp.async: .cg is for 16 bytes only. */
    bool cg = size == 16 && !tc_op_is_word(c->op, "cache", "ca");
    tc_text_printf(&text, "cp.async.%s.shared.global%s [$0+$1], [$2+$3], %u",
                   cg ? "cg" : "ca", c->hints.words, size);
    tc_text_add(&text, valid ? ", n" : "");
    if (c->hints.policy) {
        tc_text_printf(&text, ", $%u", n);
        tc_text_add(&constraints, ",l");
        args[n++] = c->hints.policy;
    }
    tc_text_add(&text, valid ? ";}" : ";");
    tc_text_add(&constraints, ",~{memory}");
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text.data, constraints.data,
               n, args);
}

/* ---- From a block pointer ---- */

/* An axis of the tile: where the thread is on it, and which registers' parts
 * were met last. */
typedef struct axis {
    tc_coords lanes;
    bool boundary;
    uint32_t bits; /* the pattern of `at` */
    LLVMValueRef at;
} axis;

typedef struct window {
    tc_gen_block block;
    axis axes[TC_MAX_RANK];
    /* The address of these constants, from which the next one is reached. */
    LLVMValueRef address;
    uint32_t constants[TC_MAX_RANK], bits[TC_MAX_RANK];
    bool started;
} window;

static uint32_t part(const tc_layout *l, unsigned i, uint32_t r)
{
    int32_t coord[TC_MAX_RANK];
    tc_layout_apply(l, (uint32_t[TC_INPUT_COUNT]){[TC_REGISTER] = r}, coord);
    return (uint32_t)coord[i];
}

/* Thread's place along an axis for a pattern of the register's bits that meet
 * the thread's (0 in all layouts but swizzled ones): i32 in the tensor. */
static LLVMValueRef axis_at(tc_gen *g, window *w, unsigned i, uint32_t bits)
{
    axis *a = &w->axes[i];
    if (!a->at || a->bits != bits) {
        LLVMValueRef x =
            LLVMBuildXor(g->b, a->lanes.thread, tc_gen_i32(g, bits), "");
        a->at = LLVMBuildAdd(g->b, w->block.offset[i], x, "");
        a->bits = bits;
    }
    return a->at;
}

static LLVMValueRef moved(tc_gen *g, const copy *c, LLVMValueRef address,
                          LLVMValueRef elements)
{
    LLVMValueRef bytes =
        LLVMBuildMul(g->b, elements, tc_gen_i64(g, c->bytes), "");
    return LLVMBuildGEP2(g->b, g->i8, address, &bytes, 1, "");
}

/* Elements up to a place along an axis. */
static LLVMValueRef stretch(const copy *c, const window *w, unsigned i,
                            LLVMValueRef at)
{
    tc_gen *g = c->g;
    at = LLVMBuildSExt(g->b, at, g->i64, "");
    return (int)i == w->block.unit
               ? at
               : LLVMBuildMul(g->b, at, w->block.stride[i], "");
}

static LLVMValueRef address_of(const copy *c, const window *w, LLVMValueRef *at)
{
    LLVMValueRef address = w->block.base;
    for (unsigned i = 0; i < w->block.rank; i++)
        address = moved(c->g, c, address, stretch(c, w, i, at[i]));
    return address;
}

/* For copies among products: the axis along which the window starts at the
 * counter of the loop (which starts from 0) plus a constant, while it stays in
 * place along the others; -1: there is none. */
static int counted_axis(const copy *c, const window *w, LLVMValueRef *rest)
{
    const tc_op *block = tc_match_op(c->op->in[0], TC_BLOCK);
    const tc_op *loop = c->op->parent->op;
    int found = -1;
    if (!tc_op_int(c->op, "straight") || !block || !loop ||
        loop->code != TC_FOR || !tc_match_int(loop->in[0], 0) ||
        !tc_value_is_visible(block->in[0], loop))
        return -1;
    for (unsigned i = 0; i < w->block.rank; i++) {
        const tc_value *at = block->in[1 + tc_block_dim(block, i)];
        const tc_op *add = tc_match_op(at, TC_ADD);
        tc_scalar x;
        /* An i64 is clamped and truncated by `block`, which is in the loop. */
        if (at->type->kind != TC_I32)
            return -1;
        if (tc_value_is_visible(at, loop))
            continue;
        if (found >= 0 || !add || add->in[0] != loop->regions[0]->args[0] ||
            !tc_match_const(add->in[1], &x))
            return -1;
        found = (int)i;
        *rest = tc_gen_i32(c->g, x.i);
    }
    return block->nin == 1 + w->block.rank ? found : -1;
}

/* The address of the thread's place for these patterns. What a loop counts is
 * not multiplied again in each step. */
static LLVMValueRef thread_address(const copy *c, window *w,
                                   const uint32_t *bits)
{
    tc_gen *g = c->g;
    LLVMValueRef at[TC_MAX_RANK], rest = NULL;
    LLVMBasicBlockRef here;
    int moving = counted_axis(c, w, &rest);
    if (moving < 0 || !tc_gen_go_before(g, &here)) {
        for (unsigned i = 0; i < w->block.rank; i++)
            at[i] = axis_at(g, w, i, bits[i]);
        return address_of(c, w, at);
    }
    for (int i = 0; i < (int)w->block.rank; i++) {
        at[i] = LLVMBuildXor(g->b, w->axes[i].lanes.thread,
                             tc_gen_i32(g, bits[i]), "");
        at[i] = LLVMBuildAdd(g->b, i == moving ? rest : w->block.offset[i],
                             at[i], "");
    }
    LLVMValueRef start = address_of(c, w, at);
    const tc_op *loop = c->op->parent->op;
    LLVMValueRef by =
        stretch(c, w, (unsigned)moving, tc_gen_scalar(g, loop->in[2]));
    by = LLVMBuildMul(g->b, by, tc_gen_i64(g, c->bytes), "");
    return tc_gen_count(g, here, start, by);
}

/* The address of register r, plus *immediate bytes. From one register to the
 * next it is reached by a multiple of the strides that is the same for most:
 * one addition each. */
static LLVMValueRef address_at(const copy *c, window *w, uint32_t r,
                               int64_t *immediate)
{
    tc_gen *g = c->g;
    uint32_t bits[TC_MAX_RANK], constants[TC_MAX_RANK];
    bool same = w->started;
    for (unsigned i = 0; i < w->block.rank; i++) {
        uint32_t k = part(c->layout, i, r);
        bits[i] = k & w->axes[i].lanes.thread_bits;
        constants[i] = k - bits[i];
        same = same && bits[i] == w->bits[i];
    }
    if (!same)
        w->address = thread_address(c, w, bits);
    *immediate = 0;
    for (unsigned i = 0; i < w->block.rank; i++) {
        int64_t step = (int64_t)constants[i] - (same ? w->constants[i] : 0);
        w->bits[i] = bits[i];
        w->constants[i] = constants[i];
        if ((int)i == w->block.unit)
            *immediate = (int64_t)constants[i] * c->bytes;
        else if (step)
            w->address = moved(g, c, w->address,
                               LLVMBuildMul(g->b, w->block.stride[i],
                                            tc_gen_i64(g, step), ""));
    }
    w->started = true;
    return w->address;
}

static LLVMValueRef both(tc_gen *g, LLVMValueRef x, LLVMValueRef y)
{
    return !x ? y : !y ? x : LLVMBuildAnd(g->b, x, y, "");
}

/* i1: register r is inside of the tensor; NULL: always. Vectors are wholly
 * inside or outside. */
static LLVMValueRef inside(const copy *c, window *w, uint32_t r)
{
    tc_gen *g = c->g;
    LLVMValueRef all = NULL;
    for (unsigned i = 0; i < w->block.rank; i++) {
        if (!w->axes[i].boundary)
            continue;
        uint32_t k = part(c->layout, i, r);
        uint32_t bits = k & w->axes[i].lanes.thread_bits;
        LLVMValueRef at = LLVMBuildAdd(g->b, axis_at(g, w, i, bits),
                                       tc_gen_i32(g, k - bits), "");
        /* Below 0 is a large unsigned number. */
        all = both(g, all,
                   LLVMBuildICmp(g->b, LLVMIntULT, at, w->block.size[i], ""));
    }
    return all;
}

static window window_of(tc_gen *g, const tc_op *op, const tc_layout *layout)
{
    window w = {.block = tc_gen_block_of(g, op->in[0])};
    for (unsigned i = 0; i < w.block.rank; i++)
        w.axes[i].lanes = tc_coords_get(g, layout, i);
    const tc_attr *boundary = tc_op_attr(op, "boundary");
    for (unsigned i = 0; i < boundary->n; i++)
        w.axes[boundary->ints[i]].boundary = true;
    return w;
}

/* Elements that are side by side in the tensor, in registers and in shared
 * memory. What made a copy of pointers knows more of them than is seen here,
 * where they may have gone through shared memory. */
static unsigned vector_of(const copy *c)
{
    unsigned n = tc_op_has_attr(c->op, "bytes")
                     ? (unsigned)tc_op_int(c->op, "bytes") / c->bytes
                     : tc_gen_vector(c->g, c->op, c->layout);
    unsigned k = tc_layout_contiguous(c->to.offsets, 0, n);
    return n < k ? n : k;
}

static void copy_registers(copy c, window w, bool check)
{
    uint32_t n = tc_layout_size(c.layout, TC_REGISTER);
    for (uint32_t r = 0; r < n; r += c.vector) {
        LLVMValueRef valid = check ? inside(&c, &w, r) : NULL;
        int64_t immediate;
        LLVMValueRef from = address_at(&c, &w, r, &immediate);
        copy_vector(&c, r, from, immediate, valid);
    }
}

/* i1, the same in all threads: no boundary is in the window. NULL: none can
 * be. */
static LLVMValueRef all_inside(const copy *c, const window *w)
{
    tc_gen *g = c->g;
    LLVMValueRef all = NULL;
    for (unsigned i = 0; i < w->block.rank; i++) {
        if (!w->axes[i].boundary)
            continue;
        LLVMValueRef side = tc_gen_i32(g, c->layout->shape[i]);
        LLVMValueRef size = w->block.size[i];
        LLVMValueRef last = LLVMBuildSub(g->b, size, side, "");
        all = both(g, all, LLVMBuildICmp(g->b, LLVMIntSGE, size, side, ""));
        all =
            both(g, all,
                 LLVMBuildICmp(g->b, LLVMIntULE, w->block.offset[i], last, ""));
    }
    return all && LLVMIsAConstantInt(all) ? NULL : all;
}

/* Most windows have no boundary in them and need no check of each row: a branch
 * tests that, unless it would keep instructions of products from being
 * interleaved with the copies. */
static void copy_block(copy *c, const window *w)
{
    tc_gen *g = c->g;
    LLVMValueRef all = tc_op_int(c->op, "straight") ? NULL : all_inside(c, w);
    if (!all) {
        copy_registers(*c, *w, true);
        return;
    }
    LLVMBasicBlockRef within = tc_gen_block_new(g, "copy.inside");
    LLVMBasicBlockRef edge = tc_gen_block_new(g, "copy.edge");
    LLVMBasicBlockRef end = tc_gen_block_new(g, "copy.end");
    LLVMBuildCondBr(g->b, all, within, edge);
    LLVMPositionBuilderAtEnd(g->b, within);
    copy_registers(*c, *w, false);
    LLVMBuildBr(g->b, end);
    LLVMPositionBuilderAtEnd(g->b, edge);
    copy_registers(*c, *w, true);
    LLVMBuildBr(g->b, end);
    LLVMPositionBuilderAtEnd(g->b, end);
}

/* ---- From a tile of pointers ---- */

static void copy_pointers(copy *c, const LLVMValueRef *from,
                          const LLVMValueRef *mask)
{
    uint32_t n = tc_layout_size(c->layout, TC_REGISTER);
    for (uint32_t r = 0; r < n; r += c->vector)
        copy_vector(c, r, from[r], 0, mask ? mask[r] : NULL);
}

/* ---- The ops ---- */

bool tc_nvptx_async_copy(tc_gen *g, const tc_op *op)
{
    if (g->role == TC_ROLE_PRODUCER)
        return tc_gen_error(g, op, "in the producer, which is one thread");
    bool block = op->in[0]->type->kind == TC_BLOCK_PTR;
    copy c = {.g = g,
              .op = op,
              .smem = op->in[1]->type,
              .bytes = tc_type_bytes(op->in[1]->type->elem),
              .vector = 1,
              .hints = tc_gen_hints_of(g, op)};
    if (c.hints.policy)
        c.zero = unknown_zero(g);
    c.layout = block ? tc_op_layout(op, "layout") : op->in[0]->type->layout;
    const tc_layout *offsets =
        tc_layout_offsets(g->cx, c.smem->layout, c.layout);
    if (!offsets)
        return tc_gen_error(g, op, "%s has no linear addresses for this layout",
                            tc_type_name(g->cx, c.smem));
    c.to = tc_shared_at_new(g, tc_gen_get(g, op->in[1])[0], offsets, c.bytes);
    c.enabled = both(g, op->nin > 2 ? tc_gen_scalar(g, op->in[2]) : NULL,
                     tc_coords_owner(g, c.layout));
    window w = {0};
    c.vector = vector_of(&c);
    if (block)
        w = window_of(g, op, c.layout);
    if (c.vector * c.bytes < 4)
        return tc_gen_error(g, op, "%u contiguous bytes, expected 4, 8 or 16",
                            c.vector * c.bytes);
    if (block)
        copy_block(&c, &w);
    else
        copy_pointers(&c, tc_gen_get(g, op->in[0]),
                      op->nin > 3 ? tc_gen_get(g, op->in[3]) : NULL);
    return true;
}

static bool plain(tc_gen *g, const char *text)
{
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text, "~{memory}", 0, NULL);
    return true;
}

bool tc_nvptx_async_commit(tc_gen *g, const tc_op *op)
{
    return plain(g, "cp.async.commit_group;");
}

bool tc_nvptx_async_wait(tc_gen *g, const tc_op *op)
{
    return plain(g, tc_arena_printf(g->arena, "cp.async.wait_group %lld;",
                                    (long long)tc_op_int(op, "pending")));
}
