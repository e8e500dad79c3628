/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of dots in an order that their instruction cannot take.
 *
 *   %v = load .. : tile<64x128 x f8e4m3>      a row in one piece
 *   dot(%p, %v)                               K is the slow axis of %v
 *
 * Elements of 16 bits are transposed by their reader, ldmatrix or the
 * descriptors of wgmma; bytes are not. If wgmma is to read a tile that a loop
 * loads by TMA, another buffer gets the tile in the order that wgmma needs:
 *
 *   smem_store %rows, %v
 *   smem_copy %rows, %columns       a separate warp group can do this
 *   mma %p, %columns, ..
 *
 * Otherwise threads read the elements one by one, so that the product is not
 * asynchronous either. The results are right, but late, which only a profiler
 * would show.
 */
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/instructions/mma.h"
#include "passes/instructions/smem_copy.h"
#include "passes/instructions/tma.h"
#include "passes/instructions/wgmma.h"
#include "passes/layout/assign_layouts.h"
#include "passes/sync/shared_memory.h"

#include <string.h>

static const char pass[] = "assign-layouts";

static const char *const words[] = {"warn", "off", "error"};

const char *tc_enforce_word(tc_enforce e)
{
    return words[e];
}

tc_enforce tc_enforce_parse(const char *word)
{
    unsigned e = 0;
    while (e < TC_ENFORCE_COUNT && strcmp(words[e], word) != 0)
        e++;
    return (tc_enforce)e;
}

unsigned tc_tile_fast_axis(const tc_placing *s, const tc_value *tile)
{
    const tc_op *load = tc_match_op(tile, TC_LOAD);
    return load ? tc_axis_vector(s->axes, load).axis : tile->type->rank - 1;
}

/* The order of bytes is that of the reshaped tile, whose rows are those of what
 * is loaded. */
static tc_operand_view view_of(const tc_placing *s, const tc_dot *d, unsigned i)
{
    tc_operand_view v = tc_operand_view_of(s, d->op->in[i]);
    if (v.reshape) {
        v.from = v.reshape->out[0];
        v.reshape = NULL;
    }
    return v;
}

bool tc_dot_is_k_major(const tc_placing *s, const tc_dot *d, unsigned i)
{
    tc_operand_view v = view_of(s, d, i);
    unsigned fast = tc_tile_fast_axis(s, v.from);
    return (v.trans ? 1 - fast : fast) == 1 - i;
}

/* ---- Another order ---- */

/* The loaded tile of which operand i is a view. */
static const tc_value *loaded(const tc_placing *s, const tc_dot *d, unsigned i)
{
    return view_of(s, d, i).from;
}

static const tc_layout *swizzled(const tc_placing *s, const tc_value *v,
                                 const unsigned order[2], unsigned bytes)
{
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(v->type, sides);
    return tc_layout_swizzled(s->cx, 2, sides, order,
                              8 * tc_type_bytes(v->type->elem), bytes);
}

/* Of a row: order[0] is the fast axis. */
static unsigned widest(const tc_value *v, const unsigned order[2])
{
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(v->type, sides);
    return tc_layout_widest_swizzle(sides[order[0]],
                                    8 * tc_type_bytes(v->type->elem));
}

/* The buffer in this order that an instruction of groups reads as operand i,
 * with the widest swizzle; NULL: none. */
static const tc_layout *readable(const tc_placing *s, const tc_dot *d,
                                 unsigned i, const char *instr,
                                 const unsigned order[2], const char **why)
{
    tc_operand_view v = view_of(s, d, i);
    const tc_value *operand = d->op->in[i];
    for (unsigned w = widest(v.from, order); w >= 32; w /= 2) {
        const tc_layout *l = swizzled(s, v.from, order, w);
        const tc_layout *view = tc_operand_view_layout(s->cx, &v, l);
        tc_wgmma_operand o;
        if (view && tc_wgmma_operand_of(
                        s->cx, tc_type_smem(s->cx, operand->type, view, 0), i,
                        instr, &o, why))
            return l;
    }
    return NULL;
}

/* Is v loaded in the dot's own loop, by a load that can be a TMA copy? Then the
 * transposer warps have the time of a step to reorder it. */
static bool comes_by_bulk(const tc_placing *s, const tc_dot *d,
                          const tc_value *v)
{
    const tc_op *load = v->def;
    return s->target->tma && s->target->stmatrix && d->loop && load &&
           load->code == TC_LOAD && load->in[0]->def &&
           load->in[0]->def->code == TC_BLOCK &&
           tc_layout_loop(load) == d->loop;
}

/* From a buffer in the order of memory to one in the other order. */
typedef struct move {
    const tc_type *from, *to;
} move;

static bool find_move(const tc_placing *s, const tc_dot *d, unsigned i,
                      const char *instr, move *m)
{
    const tc_value *v = loaded(s, d, i);
    unsigned fast = tc_tile_fast_axis(s, v);
    const unsigned rows[] = {fast, 1 - fast}, columns[] = {1 - fast, fast};
    const char *why;
    tc_smem_copy copy;
    if (s->env->options->enforce == TC_ENFORCE_OFF || !comes_by_bulk(s, d, v))
        return false;
    const tc_layout *to = readable(s, d, i, instr, columns, &why);
    if (!to)
        return false;
    m->from =
        tc_type_smem(s->cx, v->type, swizzled(s, v, rows, widest(v, rows)), 0);
    m->to = tc_type_smem(s->cx, v->type, to, 0);
    return tc_smem_copy_of(s->cx, m->from, m->to, &copy, &why);
}

const char *tc_dot_why_not_read(const tc_placing *s, const tc_dot *d,
                                unsigned i, const char *instr, bool *moves)
{
    unsigned fast = tc_tile_fast_axis(s, loaded(s, d, i));
    const unsigned rows[] = {fast, 1 - fast};
    const char *why = "its rows are no multiples of 32 bytes";
    move m;
    *moves = false;
    if (readable(s, d, i, instr, rows, &why))
        return NULL;
    *moves = find_move(s, d, i, instr, &m);
    return *moves
               ? NULL
               : tc_arena_printf(s->scratch, "operand %c in shared memory: %s",
                                 i ? 'B' : 'A', why);
}

/* "operand B, %v," or "operand B": what is loaded has a name. */
static const char *operand_name(const tc_placing *s, const tc_value *v,
                                unsigned i)
{
    const char *letter = i ? "B" : "A";
    const tc_value *tensor =
        v->def && v->def->code == TC_LOAD ? tc_accessed_tensor(v->def) : NULL;
    return tensor ? tc_arena_printf(s->scratch, "%s, a tile of %s,", letter,
                                    tc_value_name(s->cx, tensor))
                  : letter;
}

static const char *what_happens(const tc_placing *s, const tc_dot *d,
                                const tc_value *v, unsigned i)
{
    return tc_arena_printf(
        s->scratch,
        "dot: operand %s is read from shared memory byte by byte%s: %s wants "
        "%s, such as %s",
        operand_name(s, v, i),
        s->target->wgmma ? ", by a product that is not asynchronous" : "",
        s->target->wgmma ? "m64k32" : d->instr,
        i ? "each column in one piece" : "each row in one piece",
        i ? "trans of a tile with a row for each column of B"
          : "a tile that is not transposed");
}

static void say_remedies(const tc_placing *s, tc_loc loc)
{
    tc_note(s->cx, loc,
            "remedies: whatever makes the tensor stores it with K side by side "
            "(its last dim, or the one of contiguous(..) in its type); or a "
            "kernel transposes it beforehand; or its "
            "elements have 16 bits. --enforce=off accepts it as it is");
}

static void say_moved(tc_placing *s, const tc_dot *d, unsigned i,
                      const tc_value *v)
{
    tc_missed(
        s->cx, d->op->loc, pass,
        "dot: operand %s is transposed on the way, by warps next to the "
        "products': %lld bytes in each step, and as much more shared "
        "memory; whatever makes the tensor could store it with K side by side, "
        "which costs nothing here",
        operand_name(s, v, i),
        (long long)(tc_type_count(v->type) * tc_type_bytes(v->type->elem)));
}

static tc_op *store_to(const tc_value *buffer)
{
    tc_each_use (u, buffer)
        if (u->op->code == TC_SMEM_STORE)
            return u->op;
    return NULL;
}

tc_value *tc_dot_move(tc_placing *s, const tc_dot *d, unsigned i,
                      tc_value *rows)
{
    const tc_value *v = loaded(s, d, i);
    tc_value *made = tc_map_get(&s->moved, v);
    move m;
    if (made || !find_move(s, d, i, d->instr, &m))
        return made ? made : rows;
    say_moved(s, d, i, v);
    tc_smem_set_layout(s->cx, rows, m.from->layout);
    tc_op *store = store_to(rows);
    tc_builder b = {.func = s->f,
                    .region = store->parent,
                    .before = store->next,
                    .loc = store->loc};
    made = tc_build(&b, TC_SMEM_ALLOC, 0, NULL, m.to);
    tc_value *in[] = {rows, made};
    tc_build_effect(&b, TC_SMEM_COPY, 2, in);
    tc_map_set(&s->moved, v, made);
    return made;
}

void tc_dot_enforce_major(tc_placing *s, const tc_dot *d, unsigned i)
{
    if (!tc_mma_is_k_major_only(d->instr) || tc_dot_is_k_major(s, d, i))
        return;
    const tc_value *from = loaded(s, d, i);
    const char *what = what_happens(s, d, from, i);
    tc_loc loc = d->op->loc;
    switch (s->env->options->enforce) {
    case TC_ENFORCE_ERROR: s->failed = !tc_error(s->cx, loc, "%s", what); break;
    case TC_ENFORCE_WARN: tc_warning(s->cx, loc, "%s", what); break;
    default: tc_missed(s->cx, loc, pass, "%s", what); return;
    }
    say_remedies(s, from->def ? from->def->loc : loc);
}
