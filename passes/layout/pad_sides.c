/* SPDX-License-Identifier: Apache-2.0
 *
 * pad-sides: threads share a side by powers of two. Of 1000 = 8 * 125 elements
 * two threads of 4 have a part of their own, and all others hold the same. Such
 * sides grow to a length that all threads can share; masks keep accesses and
 * reductions to the elements that there are.
 *
 *   %t = load %x[%i, 0 +: 1000] : tile<1000 x f32>
 *   %m = reduce %t axis(0) kind(sum) : f32
 *   store %y[%i, 0 +: 1000], %e
 *
 *   %on = cmp range, 1000 pred(lt) : tile<1024 x i1>
 *   %t = load %x[%i, 0 +: 1024], %on : tile<1024 x f32>
 *   %0 = select %on, %t, -0.0
 *   %m = reduce %0 axis(0) kind(sum) : f32
 *   store %y[%i, 0 +: 1024], %e, %on
 *
 * Where the tensor ends with the side, its boundary takes the place of the
 * mask. Elements past the old side hold anything between accesses: sides along
 * which that would matter are left alone (sides.h). Tests:
 * test/ir/passes/pad-sides, test/unit/sides.c.
 */
#include "ir/fastmath.h"
#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"
#include "passes/layout/assign_layouts.h"
#include "passes/layout/sides.h"
#include "passes/target/machine_model.h"

#include <math.h>
#include <string.h>

enum { MAX_REDUCED = 16 }; /* operands of a reduction, and one more */

typedef struct padding {
    tc_context *cx;
    tc_func *f;
    int64_t threads;
    tc_sides sides;
    bool changed;
} padding;

static int64_t power_of(int64_t n)
{
    return n & -n;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- How long ---- */

/* With more warps than products ask for a side is padded a little more than
 * needed. */
static int64_t threads_of(const tc_func *f, const tc_pass_env *env)
{
    unsigned warps = env->options->warps ? env->options->warps : f->warps;
    if (!warps && tc_region_has_op(f->body, TC_DOT))
        warps = TC_DEFAULT_MAX_WARPS;
    return (int64_t)tc_threads(warps ? warps : tc_layout_warps_by_size(f));
}

static tc_value *accessed(const tc_op *op)
{
    switch (op->code) {
    case TC_LOAD:
    case TC_GATHER:
    case TC_ATOMIC: return op->nout ? op->out[0] : NULL;
    case TC_STORE: return op->in[1];
    default: return NULL;
    }
}

/* The largest tile of a side, and of those the widest elements accessed. */
typedef struct most {
    const tc_value *tile;
    unsigned axis;
    int64_t count;
    unsigned bytes;
} most;

static void look_at(const padding *p, const tc_side *side, const tc_value *v,
                    most *m)
{
    for (unsigned i = 0; v && v->type->kind == TC_TILE && i < v->type->rank;
         i++) {
        int64_t count = tc_type_count(v->type);
        unsigned bytes = tc_type_bytes(v->type->elem);
        if (tc_side_of(&p->sides, v, i) != side || count < m->count ||
            (count == m->count && bytes <= m->bytes))
            continue;
        *m = (most){v, i, count, bytes};
    }
}

static void find_most(const padding *p, const tc_side *side, const tc_region *r,
                      most *m)
{
    tc_each_nested_first (op, r) {
        look_at(p, side, accessed(op), m);
    }
}

/* Elements of the tile's other axes that threads can share. */
static int64_t shared_across(const padding *p, const most *m)
{
    int64_t n = 1;
    for (unsigned i = 0; i < m->tile->type->rank; i++)
        if (i != m->axis)
            n *= power_of(tc_side_of(&p->sides, m->tile, i)->padded);
    return n;
}

enum { WORD = 4 }; /* bytes of the shortest accesses that it aims for */

/* The widest accesses for which no more than a third is added; else the least
 * that is. */
static int64_t padded(const padding *p, const most *m, int64_t side)
{
    int64_t across = shared_across(p, m), best = tc_power_from(side);
    int64_t least = m->bytes < WORD ? WORD / m->bytes : 1;
    for (int64_t n = TC_VECTOR_BYTES / m->bytes; n >= least; n /= 2) {
        int64_t part = p->threads * n / across;
        part = part < power_of(side) ? power_of(side) : part;
        part = part > tc_power_from(side) ? tc_power_from(side) : part;
        int64_t length = round_up(side, part);
        if (3 * length <= 4 * side)
            return length;
        best = length < best ? length : best;
    }
    return best;
}

static void choose(padding *p, tc_side *side)
{
    most m = {0};
    if (side->parent || side->fixed ||
        tc_power_from(side->length) == side->length)
        return;
    find_most(p, side, p->f->body, &m);
    if (!m.tile)
        return;
    side->padded = padded(p, &m, side->length);
    p->changed |= side->padded != side->length;
}

/* ---- Types ---- */

static bool is_padded(const padding *p, const tc_value *v, unsigned axis)
{
    const tc_side *side = tc_side_of(&p->sides, v, axis);
    return side && side->padded != side->length;
}

static void retype(padding *p, tc_value *v)
{
    const tc_dim *dims[TC_MAX_RANK];
    if (!tc_side_of(&p->sides, v, 0))
        return;
    for (unsigned i = 0; i < v->type->rank; i++)
        dims[i] = tc_dim_const(p->cx, tc_side_of(&p->sides, v, i)->padded);
    v->type = tc_type_shaped(p->cx, v->type->kind, v->type->rank, dims,
                             v->type->elem);
}

static void resize_block(tc_op *block)
{
    const tc_attr *sides = tc_op_attr(block, "sides");
    const tc_dim *dims[TC_MAX_RANK];
    unsigned axis = 0;
    if (tc_block_index(block))
        return;
    for (unsigned i = 0; i < sides->n; i++)
        dims[i] = sides->dims[i] ? block->out[0]->type->dims[axis++] : NULL;
    tc_op_set_dims(block, "sides", sides->n, dims);
}

static void retype_region(padding *p, const tc_region *r)
{
    for (unsigned i = 0; i < r->nargs; i++)
        retype(p, r->args[i]);
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nout; i++)
            retype(p, op->out[i]);
        if (op->code == TC_BLOCK)
            resize_block(op);
        for (unsigned i = 0; i < op->nregions; i++)
            retype_region(p, op->regions[i]);
    }
}

/* ---- Masks ---- */

/* In which lanes of a tile like this an axis holds what it held before. */
static tc_value *mask_along(tc_builder *b, const tc_type *like, unsigned axis,
                            int64_t length)
{
    tc_value *at = tc_build_range(b, like->dims[axis]);
    tc_value *end = tc_build_int_const(b, at->type, length);
    return tc_build_along(b, tc_build_cmp(b, "lt", at, end), axis, like);
}

/* Does the tensor of a block end with the side, or before? */
static bool ends_with(const tc_op *op, unsigned axis, int64_t length)
{
    tc_op *block = tc_match_op(op->in[0], TC_BLOCK);
    if (!block)
        return false;
    unsigned dim = tc_block_dim(block, axis);
    const tc_dim *size = block->in[0]->type->dims[dim];
    return size && tc_dim_value(size) <= length &&
           tc_match_int(block->in[1 + dim], 0);
}

static void add_boundary(tc_op *op, unsigned axis)
{
    const tc_attr *old = tc_op_attr(op, "boundary");
    int64_t axes[TC_MAX_RANK];
    unsigned n = 0;
    bool placed = false;
    for (unsigned i = 0; i < old->n; i++) {
        if (!placed && old->ints[i] >= axis) {
            axes[n++] = axis;
            placed = true;
        }
        if (old->ints[i] != axis)
            axes[n++] = old->ints[i];
    }
    if (!placed)
        axes[n++] = axis;
    tc_op_set_ints(op, "boundary", n, axes);
}

/* The mask that an access of `tile` needs; NULL: none. */
static tc_value *mask_of(padding *p, tc_op *op, const tc_value *tile)
{
    tc_builder b = tc_builder_before(op);
    tc_value *mask = NULL;
    for (unsigned i = 0; i < tile->type->rank; i++) {
        if (!is_padded(p, tile, i))
            continue;
        int64_t length = tc_side_of(&p->sides, tile, i)->length;
        if (ends_with(op, i, length))
            add_boundary(op, i);
        else
            mask =
                tc_build_both(&b, mask, mask_along(&b, tile->type, i, length));
    }
    return mask;
}

/* The op with one more operand, in its place. */
static void replace_with_mask(padding *p, tc_op *op, tc_value *mask)
{
    tc_value *in[4];
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = op->in[i];
    in[op->nin] = mask;
    tc_op *new = tc_op_new(op->func, op->code, op->loc, op->nin + 1, in, 0);
    for (unsigned i = 0; i < tc_op_nattrs(op->code); i++)
        new->attrs[i] = op->attrs[i];
    if (op->nout) {
        tc_op_set_results(new, 1, &op->out[0]->type);
        new->out[0]->name = op->out[0]->name;
    }
    tc_op_insert(new, op->parent, op);
    if (op->nout) {
        tc_value_replace(op->out[0], new->out[0]);
        tc_map_set(&p->sides.of, new->out[0],
                   tc_map_get(&p->sides.of, op->out[0]));
    }
    tc_op_erase(op);
}

static void mask_access(padding *p, tc_op *op)
{
    tc_value *tile = accessed(op);
    unsigned at = op->code == TC_LOAD ? 1 : 2; /* of the mask */
    if (!tile || tile->type->kind != TC_TILE || op->code == TC_GATHER)
        return;
    tc_value *mask = mask_of(p, op, tile);
    tc_builder b = tc_builder_before(op);
    if (mask && op->nin > at)
        tc_op_set_in(op, at, tc_build_both(&b, op->in[at], mask));
    else if (mask)
        replace_with_mask(p, op, mask);
}

/* What a reduction of that kind leaves as it is. Of floats max and min take NaN
 * for no number; -0.0 is what sums start from. */
static tc_scalar neutral_of(const padding *p, const tc_op *op, tc_kind kind)
{
    const char *word = tc_op_word(op, "kind");
    /* An exclusive scan gives it where it begins. */
    bool begins = op->code == TC_SCAN && tc_op_int(op, "exclusive");
    bool no_nan = begins || p->f->fastmath & TC_NNAN;
    unsigned bits = tc_scalar_infos[kind].bits;
    int64_t least = kind == TC_I1 ? 0 : -((int64_t)1 << (bits - 1));
    int64_t largest = kind == TC_I1 ? 1 : -(least + 1);
    const struct {
        const char *word;
        tc_scalar x;
    } table[] = {{"sum", {0, begins ? 0.0 : -0.0}},
                 {"prod", {1, 1}},
                 {"max", {least, no_nan ? -INFINITY : NAN}},
                 {"min", {largest, no_nan ? INFINITY : NAN}},
                 {"and", {kind == TC_I1 ? 1 : -1, 0}}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(word, table[i].word) == 0)
            return table[i].x;
    return (tc_scalar){0, 0}; /* or, xor */
}

/* Of a scan those elements alone that come after padding. */
static void mask_reduce(padding *p, tc_op *op)
{
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    if (op->code == TC_SCAN && !tc_op_int(op, "reverse"))
        return;
    tc_builder b = tc_builder_before(op);
    for (unsigned i = 0; i < op->nin; i++) {
        tc_value *v = op->in[i];
        if (!is_padded(p, v, axis))
            continue;
        int64_t length = tc_side_of(&p->sides, v, axis)->length;
        tc_value *on = mask_along(&b, v->type, axis, length);
        tc_scalar x = neutral_of(p, op, tc_lane_kind(v));
        x.f = tc_kind_is_float(tc_lane_kind(v))
                  ? tc_round_to(tc_lane_kind(v), x.f)
                  : 0;
        tc_op_set_in(
            op, i, tc_build_select(&b, on, v, tc_build_const(&b, v->type, x)));
    }
}

/* Indices of what is added are outside, as they were. */
static void mask_take(padding *p, tc_op *op)
{
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    if (!is_padded(p, op->in[0], axis))
        return;
    int64_t length = tc_side_of(&p->sides, op->in[0], axis)->length;
    tc_value *index = op->in[1];
    unsigned bits = tc_scalar_infos[tc_lane_kind(index)].bits;
    if (bits < 32 && length >> (bits - 1))
        return; /* no index is as large */
    tc_builder b = tc_builder_before(op);
    tc_value *inside = tc_build_cmp(
        &b, "lt", index, tc_build_int_const(&b, index->type, length));
    tc_op_set_in(op, 1,
                 tc_build_select(&b, inside, index,
                                 tc_build_int_const(&b, index->type, -1)));
}

/* What is added is counted nowhere. */
static void mask_histogram(padding *p, tc_op *op)
{
    for (unsigned axis = 0; axis < op->in[0]->type->rank; axis++) {
        tc_value *v = op->in[0];
        if (!is_padded(p, v, axis))
            continue;
        int64_t length = tc_side_of(&p->sides, v, axis)->length;
        tc_builder b = tc_builder_before(op);
        tc_value *on = mask_along(&b, v->type, axis, length);
        tc_value *none = tc_build_int_const(&b, v->type, -1);
        tc_op_set_in(op, 0, tc_build_select(&b, on, v, none));
    }
}

/* ---- Combiners of the user ---- */

/* One more operand says which elements there are: of two the combiner is given
 * both, or the one that there is stays.
 *
 *   reduce %t axis(0) (%a, %b) { yield f(%a, %b) }
 *
 *   reduce %t, %is axis(0) (%a, %p, %b, %q) {
 *     yield select(%p and %q, f(%a, %b), select(%p, %a, %b)), %p or %q
 *   }
 */
static void combine_region(tc_op *old, tc_op *new)
{
    tc_region *from = old->regions[0], *to = new->regions[0];
    unsigned n = old->nin;
    for (unsigned i = 0; i < 2 * (n + 1); i++) {
        bool is_last = i % (n + 1) == n;
        const tc_value *was = is_last ? NULL : from->args[i - i / (n + 1)];
        tc_region_add_arg(to, was ? was->type : new->in[n]->type->elem,
                          was ? was->name : NULL, old->loc);
    }
    for (unsigned i = 0; i < 2 * n; i++)
        tc_value_replace(from->args[i], to->args[i + i / n]);
    while (from->first) {
        tc_op *op = from->first;
        tc_op_remove(op);
        tc_op_insert(op, to, NULL);
    }
    tc_op *yield = tc_region_terminator(to);
    tc_builder b = tc_builder_before(yield);
    tc_value *p = to->args[n], *q = to->args[2 * n + 1], *out[MAX_REDUCED];
    tc_value *zero = tc_build_int(&b, p->type, 0);
    tc_value *is_p = tc_build_cmp(&b, "ne", p, zero);
    tc_value *are_both =
        tc_build_cmp(&b, "ne", tc_build_binary(&b, TC_AND, p, q), zero);
    for (unsigned i = 0; i < n; i++) {
        tc_value *one =
            tc_build_select(&b, is_p, to->args[i], to->args[n + 1 + i]);
        out[i] = tc_build_select(&b, are_both, yield->in[i], one);
    }
    out[n] = tc_build_binary(&b, TC_OR, p, q);
    tc_op_erase(yield);
    b = tc_builder_at_end(to, old->loc);
    tc_build_yield(&b, n + 1, out);
}

/* 1 in lanes that there are, else 0. */
static tc_value *presence_of(padding *p, tc_builder *b, const tc_value *v,
                             unsigned axis)
{
    int64_t length = tc_side_of(&p->sides, v, axis)->length;
    tc_value *on = mask_along(b, v->type, axis, length);
    return tc_build_cast(b, on, TC_I32);
}

static void mask_combiner(padding *p, tc_op *op)
{
    unsigned axis = (unsigned)tc_op_int(op, "axis"), n = op->nin;
    tc_value *in[MAX_REDUCED];
    if (!is_padded(p, op->in[0], axis))
        return;
    tc_builder b = tc_builder_before(op);
    for (unsigned i = 0; i < n; i++)
        in[i] = op->in[i];
    in[n] = presence_of(p, &b, in[0], axis);
    tc_op *new = tc_op_new(op->func, TC_REDUCE, op->loc, n + 1, in, 1);
    for (unsigned i = 0; i < tc_op_nattrs(op->code); i++)
        new->attrs[i] = op->attrs[i];
    const tc_type *types[MAX_REDUCED];
    for (unsigned i = 0; i < n; i++)
        types[i] = op->out[i]->type;
    types[n] = tc_build_type(&b, types[0], TC_I32);
    tc_op_set_results(new, n + 1, types);
    combine_region(op, new);
    tc_op_insert(new, op->parent, op);
    for (unsigned i = 0; i < n; i++) {
        new->out[i]->name = op->out[i]->name;
        tc_value_replace(op->out[i], new->out[i]);
        tc_map_set(&p->sides.of, new->out[i],
                   tc_map_get(&p->sides.of, op->out[i]));
    }
    tc_op_erase(op);
}

static void mask_region(padding *p, const tc_region *r)
{
    tc_each_op_safe (op, r) {
        for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
            mask_region(p, op->regions[i]);
        if (op->code == TC_REDUCE && op->nregions)
            mask_combiner(p, op);
        else if (op->code == TC_REDUCE || op->code == TC_SCAN)
            mask_reduce(p, op);
        else if (op->code == TC_TAKE)
            mask_take(p, op);
        else if (op->code == TC_HISTOGRAM)
            mask_histogram(p, op);
        else
            mask_access(p, op);
    }
}

tc_change tc_pass_pad_sides(tc_func *f, tc_pass_env *env)
{
    padding p = {.cx = env->cx, .f = f};
    if (tc_func_machine_op(f))
        return TC_UNCHANGED;
    tc_sides_build(&p.sides, f, env->scratch);
    p.threads = threads_of(f, env);
    for (tc_side *side = p.sides.all; side; side = side->next)
        choose(&p, side);
    if (!p.changed)
        return TC_UNCHANGED;
    retype_region(&p, f->body);
    mask_region(&p, f->body);
    return TC_CHANGED;
}
