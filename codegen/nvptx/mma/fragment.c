/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of mma.sync: a tile in registers, or a view of shared memory that
 * is read piece by piece.
 *
 * The layout gives the coordinates of every word, and so its place in the
 * fragment, so that any order of the modes is possible (PTX ISA, matrix
 * fragments of mma.m16n8k8, k16, k32):
 *
 *   A  word j: row g + 8 (j & 1), k in the lower or upper half (j >> 1)
 *   B  word j: column g, k in the lower or upper half (j)
 */
#include "codegen/nvptx/mma/fragment.h"
#include "passes/instructions/mma.h"

#include <stdlib.h>

/* ---- Tiles along an axis ---- */

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

tc_origins tc_origins_of(tc_gen *g, const tc_layout *l, unsigned axis,
                         int32_t size)
{
    uint32_t n = tc_layout_size(l, TC_REGISTER);
    tc_origins o = {.at = tc_arena_array(g->arena, int32_t, n)};
    for (uint32_t r = 0; r < n; r++) {
        int32_t coord[TC_MAX_RANK];
        tc_coords_first(l, r, coord);
        int32_t at = coord[axis] / size * size;
        if (tc_origins_find(&o, at) == UINT32_MAX)
            o.at[o.n++] = at;
    }
    qsort(o.at, o.n, sizeof *o.at, compare);
    return o;
}

uint32_t tc_origins_find(const tc_origins *o, int32_t at)
{
    for (uint32_t i = 0; i < o->n; i++)
        if (o->at[i] == at)
            return i;
    return UINT32_MAX;
}

/* ---- Set-up ---- */

static unsigned words_of_fragment(const tc_fragments *f)
{
    return f->is_b ? 2 : 4;
}

static uint32_t *slot(const tc_fragments *f, unsigned tile, unsigned step,
                      unsigned j)
{
    return &f->index[(tile * f->nsteps + step) * words_of_fragment(f) + j];
}

static void find_words(tc_fragments *f, const tc_origins *tiles)
{
    uint32_t n = tc_layout_size(f->layout, TC_REGISTER);
    int32_t half = 4 * (int32_t)f->unit;
    unsigned k_axis = f->is_b ? 0 : 1;
    tc_origins steps = tc_origins_of(f->g, f->layout, k_axis, 2 * half);
    f->ntiles = tiles->n;
    f->nsteps = steps.n;
    unsigned total = f->ntiles * f->nsteps * words_of_fragment(f);
    f->index = tc_arena_array(f->g->arena, uint32_t, total);
    for (unsigned i = 0; i < total; i++)
        f->index[i] = UINT32_MAX;
    for (uint32_t r = 0; r < n; r += f->unit) {
        int32_t coord[TC_MAX_RANK];
        tc_coords_first(f->layout, r, coord);
        int32_t k = coord[k_axis], x = coord[!k_axis];
        unsigned tile = tc_origins_find(tiles, x & (f->is_b ? ~7 : ~15));
        unsigned step = tc_origins_find(&steps, k / (2 * half) * (2 * half));
        unsigned upper = (unsigned)(k / half % 2);
        unsigned j = f->is_b ? upper : upper * 2 + ((unsigned)x >> 3 & 1);
        if (tile != UINT32_MAX)
            *slot(f, tile, step, j) = r / f->unit;
    }
}

/* The layout of fragments that are read from shared memory. Beyond one
 * instruction's part the tiles come first, then the steps along K: so that one
 * ldmatrix brings two tiles of B for the same step. */
static const tc_layout *reading_order(const tc_fragments *f,
                                      const tc_layout *layout)
{
    tc_layout_spec from, to;
    tc_layout_spec_of(layout, &from);
    to = from;
    to.nmodes[TC_REGISTER] = 0;
    unsigned k_axis = f->is_b ? 0 : 1;
    int32_t inside[2] = {16, 16};
    inside[k_axis] = 8 * (int32_t)f->unit;
    inside[!k_axis] = f->is_b ? 8 : 16;
    for (int pass = 0; pass < 3; pass++)
        for (unsigned i = 0; i < from.nmodes[TC_REGISTER]; i++) {
            const tc_mode *m = &from.modes[TC_REGISTER][i];
            bool within = m->image[0] < inside[0] && m->image[1] < inside[1];
            int when = within ? 0 : m->image[!k_axis] ? 1 : 2;
            if (when == pass)
                tc_layout_spec_add_mode(&to, TC_REGISTER, m);
        }
    return tc_layout_get(f->g->cx, &to);
}

static void find_sources(tc_fragments *f)
{
    uint32_t n = tc_layout_size(f->layout, TC_REGISTER);
    f->source = tc_arena_array(f->g->arena, unsigned, n);
    f->elements = tc_arena_array(f->g->arena, LLVMValueRef, n);
    for (unsigned i = 0; i < f->shared.nsteps; i++) {
        uint32_t registers[TC_STEP_ELEMENTS];
        tc_shared_tile_step(&f->shared, i, registers);
        for (unsigned k = 0; k < f->shared.size; k++)
            f->source[registers[k]] = i;
    }
}

/* From the instruction's order of columns and of K to the operand's. */
typedef struct order_pair {
    tc_bit_order columns, depth;
} order_pair;
typedef struct orders {
    order_pair to, from;
} orders;

static orders orders_of(tc_gen *g, const tc_op *op, unsigned operand)
{
    orders o = {.to.depth = tc_mma_depth_order(g->cx, op)};
    tc_mma_plain(op->in[2]->type->layout, &o.to.columns);
    o.to.columns.n = operand == 1 ? o.to.columns.n : 0;
    o.from.columns = tc_bit_order_inverse(&o.to.columns);
    o.from.depth = tc_bit_order_inverse(&o.to.depth);
    return o;
}

static const tc_layout *reordered(tc_gen *g, const tc_layout *l,
                                  unsigned operand, const order_pair *o)
{
    unsigned depth = tc_mma_depth(operand);
    l = tc_layout_reorder(g->cx, l, 1 - depth, &o->columns);
    return tc_layout_reorder(g->cx, l, depth, &o->depth);
}

bool tc_fragments_new(tc_gen *g, const tc_op *op, unsigned operand,
                      const tc_origins *tiles, tc_fragments *out)
{
    const tc_value *v = op->in[operand];
    const tc_type *t = v->type;
    unsigned bits = tc_type_bytes(t->elem) * 8;
    tc_fragments f = {.g = g, .elem = t->elem, .is_b = operand == 1};
    f.unit = 32 / bits;
    f.layout = tc_mma_operand(g->cx, op, operand);
    if (t->kind == TC_TILE && t->layout != f.layout)
        return tc_gen_error(g, op,
                            "operand %u is %s, not in the layout that goes "
                            "with %s",
                            operand, tc_type_name(g->cx, t),
                            tc_type_name(g->cx, op->out[0]->type));
    /* Except where they are read, columns and K are the instruction's. */
    orders o = orders_of(g, op, operand);
    f.layout = reordered(g, f.layout, operand, &o.from);
    if (t->kind == TC_TILE) {
        f.registers = tc_gen_get(g, v);
    } else {
        f.layout = reading_order(&f, f.layout);
        if (!tc_shared_tile_new(g, op, tc_gen_get(g, v)[0], t,
                                reordered(g, f.layout, operand, &o.to),
                                g->target->ldmatrix, &f.shared))
            return false;
        find_sources(&f);
    }
    find_words(&f, tiles);
    f.words = tc_arena_array(g->arena, LLVMValueRef,
                             tc_layout_size(f.layout, TC_REGISTER) / f.unit);
    *out = f;
    return true;
}

/* ---- Fetching ---- */

/* The words of one step of the access become words of fragments where they are
 * such; else their elements are kept until all of a word are there. */
static void read_step(tc_fragments *f, unsigned step)
{
    tc_shared_tile *t = &f->shared;
    LLVMValueRef words[TC_STEP_WORDS], elements[TC_STEP_ELEMENTS];
    uint32_t registers[TC_STEP_ELEMENTS];
    tc_shared_tile_load(t, step, words);
    tc_shared_tile_step(t, step, registers);
    bool whole = t->size >= f->unit;
    for (unsigned k = 0; whole && k < t->size; k++)
        whole = registers[k] % f->unit == k % f->unit &&
                registers[k] / f->unit ==
                    registers[k / f->unit * f->unit] / f->unit;
    for (unsigned k = 0; whole && k < t->size; k += f->unit)
        f->words[registers[k] / f->unit] = words[k / f->unit];
    if (whole)
        return;
    tc_words_unpack(f->g, f->elem, t->size, elements, words);
    for (unsigned k = 0; k < t->size; k++)
        f->elements[registers[k]] = elements[k];
}

static void read_word(tc_fragments *f, uint32_t word)
{
    uint32_t first = word * f->unit;
    for (uint32_t r = first; r < first + f->unit; r++)
        if (!f->words[word] && !f->elements[r])
            read_step(f, f->source[r]);
    if (!f->words[word])
        tc_gen_pack(f->g, f->elem, f->unit, &f->elements[first],
                    &f->words[word]);
}

LLVMValueRef tc_fragments_get(tc_fragments *f, unsigned tile, unsigned step,
                              unsigned j)
{
    uint32_t word = *slot(f, tile, step, j);
    if (word == UINT32_MAX)
        return tc_gen_i32(f->g, 0);
    if (f->words[word])
        return f->words[word];
    if (f->registers)
        tc_gen_pack(f->g, f->elem, f->unit, &f->registers[word * f->unit],
                    &f->words[word]);
    else
        read_word(f, word);
    return f->words[word];
}
