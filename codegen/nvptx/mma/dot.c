/* SPDX-License-Identifier: Apache-2.0
 *
 * The op `mma` with instr(fma): every thread computes the elements of C that it
 * holds, from rows of A and columns of B in shared memory. For f32 and f64 with
 * all their bits, and for products that no tensor core takes.
 *
 * K is cut into chunks. A chunk is straight code that loads an element of A or
 * B (as a vector if the layout has one) at its first use; the chunks are a
 * loop:
 *
 *   for chunk = 0 to K / 8
 *     for k = 0 to 8
 *       for each register (row, column) of C
 *         c += a[row, 8 chunk + k] * b[8 chunk + k, column]
 */
#include "codegen/nvptx/mma/fragment.h"

#include <assert.h>
#include <string.h>

/* A or B: the elements that the thread needs, as a tile whose registers are
 * k within the chunk, then the registers of C that move along this side (rows
 * of A, columns of B), then the chunks. */
typedef struct side {
    const tc_type *elem;
    unsigned axis; /* of C and of the operand: not K */
    tc_shared_tile shared;
    unsigned first_chunk_mode; /* among the register modes */
    uint32_t inner;            /* registers of one chunk */
    unsigned *source;          /* step that brings a register */
    LLVMValueRef *values;      /* of this chunk; NULL: not loaded yet */
} side;

typedef struct dot {
    tc_gen *g;
    const tc_op *op;
    const tc_layout *c;
    const tc_type *elem; /* of C */
    uint32_t nregisters;
    int32_t k, chunk;
    side sides[2];
    LLVMValueRef *acc;
} dot;

/* ---- Set-up ---- */

/* Straight code of some hundred instructions. */
static int32_t chunk_of(int32_t k, uint32_t nregisters)
{
    int32_t power = k & -k;
    int32_t most = nregisters >= 32 ? 8 : 16;
    return power < most ? power : most;
}

/* Modes of C, seen along one axis. */
static void add_projected(tc_layout_spec *s, const tc_layout *c, tc_input in,
                          unsigned axis)
{
    for (unsigned i = 0; i < c->nmodes[in]; i++) {
        const tc_mode *m = &c->modes[in][i];
        if (in != TC_REGISTER || m->image[axis])
            tc_layout_spec_add(s, in, m->count, axis, m->image[axis]);
    }
}

static void add_powers(tc_layout_spec *s, unsigned axis, int32_t from,
                       int32_t to)
{
    for (int32_t stride = from; stride < to; stride *= 2)
        tc_layout_spec_add(s, TC_REGISTER, 2, axis, stride);
}

static const tc_layout *side_layout(dot *d, side *x)
{
    unsigned k_axis = !x->axis;
    int32_t power = d->k & -d->k;
    tc_layout_spec s = {.rank = 2};
    s.shape[k_axis] = d->k;
    s.shape[x->axis] = d->c->shape[x->axis];
    add_powers(&s, k_axis, 1, d->chunk);
    add_projected(&s, d->c, TC_REGISTER, x->axis);
    x->first_chunk_mode = s.nmodes[TC_REGISTER];
    add_powers(&s, k_axis, d->chunk, power);
    if (d->k > power)
        tc_layout_spec_add(&s, TC_REGISTER, (uint32_t)(d->k / power), k_axis,
                           power);
    add_projected(&s, d->c, TC_LANE, x->axis);
    add_projected(&s, d->c, TC_WARP, x->axis);
    return tc_layout_get(d->g->cx, &s);
}

/* Vectors stay within a chunk. */
static void keep_in_chunk(side *x)
{
    tc_shared_tile *t = &x->shared;
    unsigned n = 0;
    while (1u << n < t->access.vector &&
           t->access.modes[n] < x->first_chunk_mode)
        n++;
    t->access.vector = t->size = 1u << n;
    t->nwords = t->size * t->bits < 32 ? 1 : t->size * t->bits / 32;
    t->nsteps = tc_layout_size(t->tile, TC_REGISTER) / t->size;
}

static bool set_up_side(dot *d, unsigned operand)
{
    tc_gen *g = d->g;
    const tc_value *v = d->op->in[operand];
    side *x = &d->sides[operand];
    *x = (side){.elem = v->type->elem, .axis = operand};
    if (v->type->kind != TC_SMEM)
        return tc_gen_error(g, d->op,
                            "operand %u of instr(fma) is %s, expected shared "
                            "memory",
                            operand, tc_type_name(g->cx, v->type));
    const tc_layout *layout = side_layout(d, x);
    if (!tc_shared_tile_new(g, d->op, tc_gen_get(g, v)[0], v->type, layout,
                            false, &x->shared))
        return false;
    keep_in_chunk(x);
    x->inner =
        tc_layout_size(layout, TC_REGISTER) / (uint32_t)(d->k / d->chunk);
    x->source = tc_arena_array(g->arena, unsigned, x->inner);
    x->values = tc_arena_array(g->arena, LLVMValueRef, x->inner);
    for (unsigned i = 0; i < x->inner / x->shared.size; i++) {
        uint32_t registers[TC_STEP_ELEMENTS];
        tc_shared_tile_step(&x->shared, i, registers);
        for (unsigned n = 0; n < x->shared.size; n++)
            x->source[registers[n]] = i;
    }
    return true;
}

/* ---- One chunk ---- */

/* The register of a side that register r of C needs. */
static uint32_t side_register(const dot *d, const side *x, uint32_t r,
                              uint32_t k)
{
    uint32_t at = k, weight = (uint32_t)d->chunk;
    for (unsigned i = 0; i < d->c->nmodes[TC_REGISTER]; i++) {
        const tc_mode *m = &d->c->modes[TC_REGISTER][i];
        if (m->image[x->axis]) {
            at += r % m->count * weight;
            weight *= m->count;
        }
        r /= m->count;
    }
    return at;
}

static LLVMValueRef element(dot *d, side *x, uint32_t r)
{
    tc_gen *g = d->g;
    if (x->values[r])
        return x->values[r];
    LLVMValueRef words[TC_STEP_WORDS], elements[TC_STEP_ELEMENTS];
    uint32_t registers[TC_STEP_ELEMENTS];
    tc_shared_tile_load(&x->shared, x->source[r], words);
    tc_shared_tile_step(&x->shared, x->source[r], registers);
    tc_words_unpack(g, x->elem, x->shared.size, elements, words);
    for (unsigned i = 0; i < x->shared.size; i++) {
        LLVMValueRef v = tc_gen_widen(g, x->elem, elements[i]);
        if (d->elem->kind == TC_F64)
            v = LLVMBuildFPExt(g->b, v, g->f64, "");
        x->values[registers[i]] = v;
    }
    return x->values[r];
}

static void multiply_chunk(dot *d)
{
    LLVMTypeRef type = tc_gen_type(d->g, d->elem);
    for (int32_t k = 0; k < d->chunk; k++)
        for (uint32_t r = 0; r < d->nregisters; r++) {
            LLVMValueRef args[3];
            for (unsigned i = 0; i < 2; i++)
                args[i] =
                    element(d, &d->sides[i],
                            side_register(d, &d->sides[i], r, (uint32_t)k));
            args[2] = d->acc[r];
            d->acc[r] =
                type == d->g->i32
                    ? LLVMBuildAdd(d->g->b, args[2],
                                   LLVMBuildMul(d->g->b, args[0], args[1], ""),
                                   "")
                    : tc_gen_intrinsic(d->g, "fma", 1, &type, 3, args);
        }
}

/* ---- All chunks ---- */

/* Moves both sides' addresses to the chunk. */
static void enter_chunk(dot *d, LLVMValueRef chunk)
{
    for (unsigned i = 0; i < 2; i++) {
        side *x = &d->sides[i];
        const tc_layout *offsets = x->shared.at.offsets;
        unsigned n = offsets->nmodes[TC_REGISTER] - x->first_chunk_mode;
        tc_shared_at_index(&x->shared.at,
                           offsets->modes[TC_REGISTER] + x->first_chunk_mode, n,
                           chunk);
    }
}

static void multiply_chunks(dot *d)
{
    tc_gen *g = d->g;
    LLVMTypeRef type = tc_gen_type(g, d->elem);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef loop = tc_gen_block_new(g, "dot");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "dot.end");
    tc_gen_enter(g, loop);
    LLVMValueRef chunk = LLVMBuildPhi(g->b, g->i32, "chunk");
    LLVMValueRef zero = tc_gen_i32(g, 0);
    LLVMAddIncoming(chunk, &zero, &before, 1);
    LLVMValueRef *phis = tc_arena_array(g->arena, LLVMValueRef, d->nregisters);
    for (uint32_t r = 0; r < d->nregisters; r++) {
        phis[r] = LLVMBuildPhi(g->b, type, "");
        LLVMAddIncoming(phis[r], &d->acc[r], &before, 1);
        d->acc[r] = phis[r];
    }
    enter_chunk(d, chunk);
    multiply_chunk(d);
    LLVMValueRef next = LLVMBuildAdd(g->b, chunk, tc_gen_i32(g, 1), "");
    LLVMBasicBlockRef last = LLVMGetInsertBlock(g->b);
    LLVMAddIncoming(chunk, &next, &last, 1);
    for (uint32_t r = 0; r < d->nregisters; r++)
        LLVMAddIncoming(phis[r], &d->acc[r], &last, 1);
    LLVMValueRef more = LLVMBuildICmp(g->b, LLVMIntULT, next,
                                      tc_gen_i32(g, d->k / d->chunk), "");
    tc_gen_forbid_unrolling(g, LLVMBuildCondBr(g->b, more, loop, after));
    LLVMPositionBuilderAtEnd(g->b, after);
}

bool tc_gen_dot(tc_gen *g, const tc_op *op)
{
    const tc_type *t = op->out[0]->type;
    dot d = {.g = g,
             .op = op,
             .c = t->layout,
             .elem = t->elem,
             .nregisters = tc_gen_registers(t)};
    if (t->elem->kind != TC_F32 && t->elem->kind != TC_F64 &&
        t->elem->kind != TC_I32)
        return tc_gen_error(g, op, "instr(fma) to %s, expected f32, f64 or i32",
                            tc_type_name(g->cx, t));
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(op->in[0]->type, sides);
    d.k = sides[1];
    d.chunk = chunk_of(d.k, d.nregisters);
    if (!set_up_side(&d, 0) || !set_up_side(&d, 1))
        return false;
    d.acc = tc_gen_set(g, op->out[0]);
    memcpy(d.acc, tc_gen_get(g, op->in[2]), d.nregisters * sizeof *d.acc);
    if (d.k == d.chunk)
        multiply_chunk(&d);
    else
        multiply_chunks(&d);
    return true;
}
