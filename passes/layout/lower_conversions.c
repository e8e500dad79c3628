/* SPDX-License-Identifier: Apache-2.0
 *
 * lower-conversions: makes communication between warps explicit, as stores to
 * and loads from shared memory.
 *
 *   %y = convert_layout %x                 %s = smem_alloc : smem<.., scratch>
 *                              becomes     smem_store %s, %x
 *                                          %y = smem_load %s
 *
 * if the conversion needs more than registers and shuffles. A reduction along
 * an axis that several warps share becomes one within each warp, and one of the
 * warps' partial results, which every thread loads completely:
 *
 *   %r = reduce %x axis(1)                 %p = reduce %x axis(1) within(warp)
 *                                          %s = smem_alloc
 *                              becomes     smem_store %s, %p
 *                                          %q = smem_load %s
 *                                          %r = reduce %q axis(1)
 *
 * A scan likewise: totals of the warps are exchanged, and combined with what
 * each has scanned:
 *
 *   %r = scan %x axis(0)                   %p, %t = scan %x .. within(warp)
 *                                          %s = smem_alloc
 *                              becomes     smem_store %s, %t
 *                                          %q = smem_load %s
 *                                          %r = scan_carry %p, %q axis(0)
 *
 * And take, by a tile of indices: what it takes from is stored where it is
 * computed, once for all that take from it:
 *
 *   %y = take %x, %i axis(0)               %s = smem_alloc : smem<.., #rows>
 *                              becomes     smem_store %s, %x
 *                                          %y = smem_take %s, %i axis(0)
 *
 * A print of tiles reads buffers too, since one thread prints:
 *
 *   print %x, %n                           %s = smem_alloc : smem<.., #rows>
 *                              becomes     smem_store %s, %x
 *                                          print %s, %n
 *
 * And histogram: counters in shared memory.
 *
 *   %y = histogram %x                      %s = smem_alloc : smem<.., #rows>
 *                              becomes     smem_store %s, 0
 *                                          smem_count %s, %x
 *                                          %y = smem_load %s
 *
 * Tests: test/ir/passes/lower-conversions.
 */
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/instructions/wgmma.h"
#include "passes/layout/conversion_scratch.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"

#include "ir/types/layout.h"

#include <string.h>

struct lowering {
    tc_pass_env *env;
    tc_map taken; /* tile -> the buffer that elements of it are taken from */
    bool changed;
};

static unsigned lower_conversions_bits_of(const tc_type *tile)
{
    return 8 * tc_type_bytes(tile->elem);
}

/* Threads of one warp group exchange what they hold, no others: a barrier of
 * the group is enough. */
static bool is_of_groups(const tc_func *f, const tc_layout *from,
                         const tc_layout *to)
{
    unsigned groups = tc_warpgroups(f->warps), a, b;
    return groups > 1 && f->warps % TC_WARPGROUP_WARPS == 0 &&
           tc_held_by_groups(from, groups, &a) &&
           tc_held_by_groups(to, groups, &b) && a == b;
}

/* Through shared memory into another layout. */
static tc_value *exchange(struct lowering *s, tc_builder *b, tc_value *x,
                          const tc_layout *to)
{
    tc_context *cx = s->env->cx;
    const tc_layout *scratch = tc_layout_scratch(
        cx, x->type->layout, to, lower_conversions_bits_of(x->type));
    tc_value *buffer = tc_build(b, TC_SMEM_ALLOC, 0, NULL,
                                tc_type_smem(cx, x->type, scratch, 0));
    tc_value *in[] = {buffer, x};
    tc_build_effect(b, TC_SMEM_STORE, 2, in);
    if (is_of_groups(b->func, x->type->layout, to))
        tc_op_set_word(tc_build_effect(b, TC_BARRIER, 0, NULL), "scope",
                       "group");
    tc_forget_speculatable(b->region);
    return tc_build(b, TC_SMEM_LOAD, 1, &buffer,
                    tc_type_with_layout(cx, x->type, to));
}

/* ---- Conversions ---- */

static void lower_conversion(struct lowering *s, tc_op *op)
{
    tc_value *x = op->in[0], *y = op->out[0];
    if (tc_layout_conversion(s->env->cx, x->type->layout, y->type->layout) !=
        TC_CONVERT_SHARED)
        return;
    tc_builder b = tc_builder_before(op);
    tc_value *z = exchange(s, &b, x, y->type->layout);
    z->name = y->name;
    if (s->env->cx->want_remarks)
        tc_missed(s->env->cx, op->loc, "lower-conversions",
                  "a conversion of %s to %s goes through %lld bytes of shared "
                  "memory",
                  tc_type_name(s->env->cx, x->type),
                  tc_type_name(s->env->cx, y->type),
                  (long long)tc_type_count(x->type) *
                      tc_type_bytes(x->type->elem));
    tc_value_replace(y, z);
    tc_op_erase(op);
    s->changed = true;
}

/* ---- Reductions ---- */

const tc_layout *tc_gathered_layout(tc_context *cx, const tc_layout *parts,
                                    unsigned axis)
{
    tc_layout_spec spec = {.rank = parts->rank};
    memcpy(spec.shape, parts->shape, sizeof spec.shape);
    tc_mode *registers = spec.modes[TC_REGISTER];
    for (unsigned i = 0; i < parts->nmodes[TC_WARP]; i++) {
        tc_mode warp = parts->modes[TC_WARP][i];
        if (warp.image[axis]) {
            tc_mode *m = &registers[spec.nmodes[TC_REGISTER]++];
            *m = (tc_mode){.count = warp.count};
            m->image[axis] = warp.image[axis];
            warp.image[axis] = 0;
        }
        spec.modes[TC_WARP][spec.nmodes[TC_WARP]++] = warp;
    }
    for (unsigned i = 0; i < parts->nmodes[TC_REGISTER]; i++)
        registers[spec.nmodes[TC_REGISTER]++] = parts->modes[TC_REGISTER][i];
    memcpy(spec.modes[TC_LANE], parts->modes[TC_LANE],
           parts->nmodes[TC_LANE] * sizeof(tc_mode));
    spec.nmodes[TC_LANE] = parts->nmodes[TC_LANE];
    return tc_layout_get(cx, &spec);
}

/* A copy of the reduction or scan (its kind, its region) of other operands. */
static tc_op *combine_like(tc_builder *b, tc_op *op, tc_value *const *in,
                           bool partial)
{
    tc_op *copy = tc_op_clone(op->func, op);
    for (unsigned i = 0; i < op->nin; i++)
        tc_op_set_in(copy, i, in[i]);
    copy->nout = 0;
    if (partial)
        tc_op_set_word(copy, "within", "warp");
    bool ok = tc_op_infer(copy, 0, NULL);
    (void)ok;
    tc_op_insert(copy, b->region, b->before);
    return copy;
}

tc_op *tc_reduce_like_within(tc_op *reduce)
{
    tc_op *copy = tc_op_clone(reduce->func, reduce);
    copy->nout = 0;
    tc_op_set_word(copy, "within", "warp");
    bool ok = tc_op_infer(copy, 0, NULL);
    (void)ok;
    return copy;
}

tc_op *tc_reduce_within_warps(tc_builder *b, tc_op *reduce)
{
    tc_op *copy = tc_reduce_like_within(reduce);
    tc_op_insert(copy, b->region, b->before);
    return copy;
}

const tc_layout *tc_exchange_layout(tc_context *cx, const tc_type *parts)
{
    return tc_layout_scratch(cx, parts->layout,
                             tc_gathered_layout(cx, parts->layout, 0),
                             lower_conversions_bits_of(parts));
}

/* Sums of narrow floats are rounded once, at the end. */
static bool needs_wide(const tc_op *op)
{
    const tc_type *elem = op->in[0]->type->elem;
    return (tc_op_is_word(op, "kind", "sum") ||
            tc_op_is_word(op, "kind", "prod")) &&
           tc_kind_is_narrow(elem->kind);
}

static void replace_results(tc_builder *b, tc_op *op, tc_op *with, bool wide)
{
    for (unsigned i = 0; i < op->nin; i++) {
        tc_value *v = with->out[i];
        if (wide)
            v = tc_build_cast(b, v, tc_type_elem(op->out[i]->type)->kind);
        /* The same elements in the same threads, maybe in other registers. */
        if (v->type != op->out[i]->type)
            v = tc_build(b, TC_CONVERT_LAYOUT, 1, &v, op->out[i]->type);
        v->name = op->out[i]->name;
        tc_value_replace(op->out[i], v);
    }
}

/* Totals of all warps, combined with the scans within warps. */
static tc_op *build_carry(tc_builder *b, tc_op *op, tc_op *within,
                          tc_value *const *totals)
{
    unsigned n = op->nin;
    tc_arena *arena = &op->func->module->arena;
    tc_value **in = tc_arena_array(arena, tc_value *, 2 * n);
    memcpy(in, within->out, n * sizeof *in);
    memcpy(in + n, totals, n * sizeof *in);
    tc_op *carry =
        tc_op_new(op->func, TC_SCAN_CARRY, op->loc, 2 * n, in, op->nregions);
    tc_op_set_int(carry, "axis", tc_op_int(op, "axis"));
    if (op->nregions)
        tc_region_copy(op->func, op->regions[0], carry->regions[0]);
    else
        tc_op_set_word(carry, "kind", tc_op_word(op, "kind"));
    if (tc_op_int(op, "reverse"))
        tc_op_set_attr(carry, "reverse", *tc_op_attr(op, "reverse"));
    bool ok = tc_op_infer(carry, 0, NULL);
    (void)ok;
    tc_op_insert(carry, b->region, b->before);
    return carry;
}

/* A reduction or a scan along an axis that several warps share. */
static void lower_across_warps(struct lowering *s, tc_op *op)
{
    tc_context *cx = s->env->cx;
    const tc_layout *l = op->in[0]->type->layout;
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    if (!l || !tc_op_is_word(op, "within", "block"))
        return;
    const tc_layout *parts = tc_layout_partial(cx, l, axis, TC_WARP);
    if (parts->shape[axis] == 1)
        return;
    bool wide = needs_wide(op), scans = op->code == TC_SCAN;
    tc_builder b = tc_builder_before(op);
    tc_value **in = tc_arena_array(s->env->scratch, tc_value *, op->nin);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = wide ? tc_build_cast(&b, op->in[i], TC_F32) : op->in[i];
    tc_op *within = combine_like(&b, op, in, true);
    const tc_layout *to = tc_gathered_layout(cx, parts, axis);
    tc_value **totals = within->out + (scans ? op->nin : 0);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = exchange(s, &b, totals[i], to);
    tc_op *across = scans ? build_carry(&b, op, within, in)
                          : combine_like(&b, op, in, false);
    replace_results(&b, op, across, wide);
    tc_remark(cx, op->loc, "lower-conversions",
              scans ? "%d warps share the axis that is scanned: their totals "
                      "meet in shared memory"
                    : "%d warps share the axis that is reduced: their parts "
                      "meet in shared memory",
              parts->shape[axis]);
    tc_op_erase(op);
    s->changed = true;
}

/* ---- Elements by index ---- */

/* Do warp groups take from the lines that they have stored? */
static bool takes_within_groups(const tc_op *take)
{
    const tc_func *f = take->func;
    unsigned axis;
    return is_of_groups(f, take->in[0]->type->layout,
                        take->out[0]->type->layout) &&
           tc_held_by_groups(take->out[0]->type->layout,
                             tc_warpgroups(f->warps), &axis) &&
           axis != (unsigned)tc_op_int(take, "axis");
}

/* Elements in their order. */
static tc_value *store_in_rows(struct lowering *s, tc_builder *b, tc_value *x)
{
    tc_context *cx = s->env->cx;
    int32_t sides[TC_MAX_RANK];
    unsigned order[TC_MAX_RANK], rank = x->type->rank;
    tc_type_sides(x->type, sides);
    for (unsigned i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
    const tc_layout *rows = tc_layout_swizzled(
        cx, rank, sides, order, lower_conversions_bits_of(x->type), 0);
    tc_value *buffer =
        tc_build(b, TC_SMEM_ALLOC, 0, NULL, tc_type_smem(cx, x->type, rows, 0));
    tc_value *in[] = {buffer, x};
    tc_build_effect(b, TC_SMEM_STORE, 2, in);
    return buffer;
}

static tc_value *buffer_of_taken(struct lowering *s, tc_op *take)
{
    tc_context *cx = s->env->cx;
    tc_value *x = take->in[0], *buffer = tc_map_get(&s->taken, x);
    if (buffer)
        return buffer;
    tc_builder b = tc_builder_after(take->func, x, take->loc);
    buffer = store_in_rows(s, &b, x);
    if (takes_within_groups(take))
        tc_op_set_word(tc_build_effect(&b, TC_BARRIER, 0, NULL), "scope",
                       "group");
    tc_forget_speculatable(b.region);
    tc_map_set(&s->taken, x, buffer);
    tc_remark(cx, take->loc, "lower-conversions",
              "take: the elements come from %lld bytes of shared memory",
              (long long)tc_type_count(x->type) * tc_type_bytes(x->type->elem));
    return buffer;
}

static void lower_take(struct lowering *s, tc_op *op)
{
    tc_value *in[] = {buffer_of_taken(s, op), op->in[1]};
    tc_op *taken = tc_op_new(op->func, TC_SMEM_TAKE, op->loc, 2, in, 0);
    tc_op_set_int(taken, "axis", tc_op_int(op, "axis"));
    if (tc_op_has_attr(op, "pad"))
        tc_op_set_attr(taken, "pad", *tc_op_attr(op, "pad"));
    tc_builder b = tc_builder_before(op);
    tc_value *y = tc_build_op(&b, taken, NULL);
    y->name = op->out[0]->name;
    tc_value_replace(op->out[0], y);
    tc_op_erase(op);
    s->changed = true;
}

/* ---- print ---- */

static void lower_print(struct lowering *s, tc_op *op)
{
    tc_builder b = tc_builder_before(op);
    for (unsigned i = 0; i < op->nin; i++) {
        if (op->in[i]->type->kind != TC_TILE)
            continue;
        tc_op_set_in(op, i, store_in_rows(s, &b, op->in[i]));
        s->changed = true;
    }
}

/* ---- Counters ---- */

static void lower_histogram(struct lowering *s, tc_op *op)
{
    tc_context *cx = s->env->cx;
    const tc_type *t = op->out[0]->type;
    const unsigned order[] = {0};
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(t, sides);
    const tc_layout *rows = tc_layout_swizzled(cx, 1, sides, order, 32, 0);
    tc_builder b = tc_builder_before(op);
    tc_value *buffer =
        tc_build(&b, TC_SMEM_ALLOC, 0, NULL, tc_type_smem(cx, t, rows, 0));
    tc_value *zeros[] = {buffer, tc_build_int_const(&b, t, 0)};
    tc_value *count[] = {buffer, op->in[0]};
    tc_build_effect(&b, TC_SMEM_STORE, 2, zeros);
    tc_build_effect(&b, TC_SMEM_COUNT, 2, count);
    tc_value *y = tc_build(&b, TC_SMEM_LOAD, 1, &buffer, t);
    y->name = op->out[0]->name;
    tc_value_replace(op->out[0], y);
    tc_forget_speculatable(b.region);
    tc_remark(cx, op->loc, "lower-conversions",
              "histogram: counted in %lld bytes of shared memory",
              (long long)tc_type_count(t) * 4);
    tc_op_erase(op);
    s->changed = true;
}

/* ---- The walk ---- */

static void lower_conversions_visit(struct lowering *s, tc_region *r)
{
    tc_each_op_safe (op, r) {
        if (op->code == TC_CONVERT_LAYOUT)
            lower_conversion(s, op);
        else if (op->code == TC_REDUCE || op->code == TC_SCAN)
            lower_across_warps(s, op);
        else if (op->code == TC_TAKE)
            lower_take(s, op);
        else if (op->code == TC_PRINT)
            lower_print(s, op);
        else if (op->code == TC_HISTOGRAM)
            lower_histogram(s, op);
        else
            for (unsigned i = 0; i < op->nregions; i++)
                lower_conversions_visit(s, op->regions[i]);
    }
}

tc_change tc_pass_lower_conversions(tc_func *f, tc_pass_env *env)
{
    struct lowering s = {.env = env, .taken = {.arena = env->scratch}};
    lower_conversions_visit(&s, f->body);
    return s.changed ? TC_CHANGED : TC_UNCHANGED;
}
