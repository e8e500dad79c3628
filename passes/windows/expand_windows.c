/* SPDX-License-Identifier: Apache-2.0
 *
 * expand-windows: accesses of windows by index become accesses through
 * pointers, with a mask for indices outside.
 *
 *   %t = load %k[%page, 0 +: 128] pad(1) : tile<64x128 x bf16>
 * becomes
 *   %rows = base(%k) + cast(%page, i64) * stride(%k, 0)
 *   %at = %rows[:, none] + (range(128) * stride(%k, 1))[none, :]
 *   %t = load %at, broadcast((%page ult size(%k, 0))[:, none]) pad(1)
 *
 * Where all rows are of one window, it becomes one of scalars (one_window.c).
 * Neighbours along a contiguous side stay neighbours: threads move 16 bytes of
 * them at once (axis_vector.c). Tests: test/ir/passes/expand-windows.
 *
 * Loads that TMA copies may bring stay, and stores, whose layouts are chosen by
 * their windows; lower-windows does the same to them where specialize-warps
 * left them. The indices then lie as the tile does, so that
 * each thread has those of its rows. Tests: test/ir/passes/lower-windows.
 */
#include "passes/windows/expand_windows.h"

#include "passes/analysis/int_range.h"
#include "passes/analysis/match.h"
#include "passes/instructions/wgmma.h"
#include "passes/layout/relayout.h"
#include "passes/passes.h"
#include "passes/windows/row_boxes.h"

static const char pass[] = "expand-windows";

typedef struct expansion {
    tc_builder b;
    tc_context *cx;
    const tc_op *access, *block;
    const tc_attr *sides;
    const tc_layout *layout; /* of the tile; NULL: at tile level */
    unsigned rank, nindices; /* of the tile */
} expansion;

static tc_value *plus(expansion *x, tc_value *a, tc_value *b)
{
    return a ? tc_build_binary(&x->b, TC_ADD, a, b) : b;
}

/* The same value with a layout, at machine level: the ops that were built are
 * built again. */
static tc_value *placed(expansion *x, tc_value *v, const tc_layout *l)
{
    tc_op *op = v->def;
    tc_value *in[4];
    if (!l || v->type->kind != TC_TILE || v->type->layout == l)
        return v;
    const tc_type *type = tc_type_with_layout(x->cx, v->type, l);
    if (v->type->layout)
        return tc_build(&x->b, TC_CONVERT_LAYOUT, 1, &v, type);
    const tc_layout *below =
        tc_op_has(op, TC_ELEMENTWISE) ? l : tc_layout_of_operand(x->cx, op, l);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = placed(x, op->in[i], below);
    return tc_build_like(&x->b, op, in, type);
}

static tc_value *insert_axis(expansion *x, tc_value *v, unsigned axis,
                             const tc_layout *layout)
{
    tc_op *op = tc_op_new(x->b.func, TC_EXPAND_DIMS, x->b.loc, 1, &v, 0);
    tc_op_set_int(op, "axis", axis);
    if (!layout)
        return tc_build_op(&x->b, op, NULL);
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i <= v->type->rank; i++)
        dims[i] =
            i == axis ? tc_dim_const(x->cx, 1) : v->type->dims[i - (i > axis)];
    const tc_type *type =
        tc_type_shaped(x->cx, TC_TILE, v->type->rank + 1, dims, v->type->elem);
    return tc_build_op(&x->b, op, tc_type_with_layout(x->cx, type, layout));
}

/* The values of axes first to last - 1 of the tile in its whole shape. */
static tc_value *in_tile(expansion *x, tc_value *v, unsigned first,
                         unsigned last)
{
    const tc_type *t = x->block->out[0]->type;
    const tc_type *whole = tc_type_with_layout(
        x->cx, tc_type_shaped(x->cx, TC_TILE, t->rank, t->dims, v->type->elem),
        x->layout);
    unsigned axes[TC_MAX_RANK], n = 0;
    const tc_layout *after[TC_MAX_RANK + 1]; /* so many axes were inserted */
    for (unsigned i = 0; i < x->rank; i++)
        if (i < first || i >= last)
            axes[n++] = i;
    after[n] = x->layout;
    for (unsigned i = 0; x->layout && i < n; i++)
        after[n] = tc_layout_collapse(x->cx, after[n], axes[i]);
    for (unsigned i = n; i-- > 0;)
        after[i] =
            x->layout ? tc_layout_slice(x->cx, after[i + 1], axes[i]) : NULL;
    v = placed(x, v, after[0]);
    for (unsigned i = 0; i < n; i++)
        v = insert_axis(x, v, axes[i], after[i + 1]);
    return v->type == whole ? v : tc_build(&x->b, TC_BROADCAST, 1, &v, whole);
}

/* ---- Where ---- */

/* Elements from the tensor's base to each window: a scalar of the offsets, and
 * a tile of the indices. */
static tc_value *begin_of_windows(expansion *x)
{
    tc_value *all = NULL, *rows = NULL;
    for (unsigned i = 0; i < x->sides->n; i++) {
        tc_value *v = x->block->in[1 + i];
        bool tile = v->type->kind == TC_TILE;
        if (!tile && tc_match_int(v, 0))
            continue;
        tc_value *stride =
            tc_build_at(&x->b, TC_STRIDE, x->block->in[0], "dim", i);
        v = tc_build_cast(&x->b, v, TC_I64);
        if (tile)
            stride = tc_build_spread(&x->b, stride, v->type);
        tc_value **sum = tile ? &rows : &all;
        v = tc_build_binary(&x->b, TC_MUL, v, stride);
        *sum = plus(x, *sum, v);
    }
    tc_value *p = tc_build(&x->b, TC_BASE, 1, &x->block->in[0], NULL);
    if (all)
        p = tc_build_binary(&x->b, TC_PTR_ADD, p, all);
    return tc_build_binary(&x->b, TC_PTR_ADD,
                           tc_build_spread(&x->b, p, rows->type), rows);
}

static tc_value *positions_along(expansion *x, unsigned dim)
{
    return tc_build_range(&x->b, x->sides->dims[dim]);
}

static tc_value *pointers(expansion *x)
{
    tc_value *p = in_tile(x, begin_of_windows(x), 0, x->nindices);
    unsigned axis = x->nindices;
    for (unsigned i = 0; i < x->sides->n; i++) {
        if (!x->sides->dims[i])
            continue;
        tc_value *at = tc_build_cast(&x->b, positions_along(x, i), TC_I64);
        tc_value *stride =
            tc_build_at(&x->b, TC_STRIDE, x->block->in[0], "dim", i);
        at = tc_build_binary(&x->b, TC_MUL, at,
                             tc_build_spread(&x->b, stride, at->type));
        at = in_tile(x, at, axis, axis + 1);
        p = tc_build_binary(&x->b, TC_PTR_ADD, p, at);
        axis++;
    }
    return p;
}

/* ---- Inside ---- */

static bool is_never_outside(const expansion *x, const tc_value *at,
                             unsigned dim)
{
    const tc_dim *size = x->block->in[0]->type->dims[dim];
    tc_int_range r = tc_int_range_of(at);
    return size && r.low >= 0 && r.high < tc_dim_value(size);
}

/* Negative ones are large without a sign. NULL: all are. */
static tc_value *is_below_size(expansion *x, tc_value *at, unsigned dim)
{
    if (is_never_outside(x, at, dim))
        return NULL;
    tc_value *size = tc_build_cast(
        &x->b, tc_build_at(&x->b, TC_SIZE, x->block->in[0], "dim", dim),
        tc_type_elem(at->type)->kind);
    return tc_build_cmp(&x->b, "ult", at,
                        tc_build_spread(&x->b, size, at->type));
}

static bool has_boundary(const expansion *x, unsigned axis)
{
    const tc_attr *a = tc_op_attr(x->access, "boundary");
    for (unsigned i = 0; i < a->n; i++)
        if (a->ints[i] == axis)
            return true;
    return false;
}

/* NULL: all elements are. */
static tc_value *inside(expansion *x)
{
    tc_value *rows = NULL, *all = NULL;
    unsigned axis = x->nindices;
    for (unsigned i = 0; i < x->sides->n; i++)
        if (x->block->in[1 + i]->type->kind == TC_TILE)
            rows = tc_build_both(&x->b, rows,
                                 is_below_size(x, x->block->in[1 + i], i));
    if (rows)
        all = in_tile(x, rows, 0, x->nindices);
    for (unsigned i = 0; i < x->sides->n; i++) {
        if (!x->sides->dims[i] || !has_boundary(x, axis++))
            continue;
        tc_value *offset = x->block->in[1 + i];
        tc_value *at =
            tc_build_cast(&x->b, positions_along(x, i), offset->type->kind);
        at = tc_build_binary(&x->b, TC_ADD,
                             tc_build_spread(&x->b, offset, at->type), at);
        at = is_below_size(x, at, i);
        if (at)
            all = tc_build_both(&x->b, all, in_tile(x, at, axis - 1, axis));
    }
    return all;
}

/* ---- The accesses ---- */

static void expand_load(expansion *x, tc_op *op)
{
    tc_value *mask = op->nin > 1 ? op->in[1] : NULL;
    tc_value *other = op->nin > 2 ? op->in[2] : NULL;
    tc_value *in[] = {pointers(x), inside(x)};
    in[1] = tc_build_both(&x->b, in[1], mask);
    tc_op *load = tc_op_new(op->func, TC_LOAD, op->loc, in[1] ? 2 : 1, in, 0);
    tc_op_set_attr(load, "pad", *tc_op_attr(op, "pad"));
    tc_op_copy_hints(load, op);
    tc_value *v = tc_build_op(&x->b, load, NULL);
    v->name = op->out[0]->name;
    /* Elements that the mask hides are `other`; elements outside are the
     * pad. */
    if (other)
        v = tc_build_select(&x->b, mask, v, other);
    tc_value_replace(op->out[0], v);
}

static void expand_store(expansion *x, tc_op *op)
{
    tc_value *in[] = {pointers(x), op->in[1], inside(x)};
    in[2] = tc_build_both(&x->b, in[2], op->nin > 2 ? op->in[2] : NULL);
    tc_op *store = tc_build_effect(&x->b, TC_STORE, in[2] ? 3 : 2, in);
    tc_op_set_attr(store, "kind", *tc_op_attr(op, "kind"));
    tc_op_copy_hints(store, op);
}

static bool is_by_index(const tc_op *op)
{
    const tc_op *block = op->code == TC_LOAD || op->code == TC_STORE
                             ? tc_match_op(op->in[0], TC_BLOCK)
                             : NULL;
    return block && tc_block_index(block);
}

/* Replaces the access's result; the old access is left to the caller. */
static void expand(tc_context *cx, tc_op *op, const tc_layout *layout)
{
    tc_op *block = op->in[0]->def;
    expansion x = {.b = tc_builder_before(op),
                   .cx = cx,
                   .access = op,
                   .block = block,
                   .layout = layout,
                   .sides = tc_op_attr(block, "sides"),
                   .rank = op->in[0]->type->rank,
                   .nindices = tc_block_index_rank(block)};
    if (op->code == TC_LOAD)
        expand_load(&x, op);
    else
        expand_store(&x, op);
}

/* ---- At tile level ---- */

/* Which TMA copies may bring, if a producer is split off: rows that products
 * of warp groups take as they are. */
static bool only_feeds_products(const tc_value *v)
{
    tc_each_use (u, v) {
        const tc_op *op = u->op;
        bool view = (op->code == TC_TRANS || op->code == TC_SLICE) &&
                    only_feeds_products(op->out[0]);
        if (!view && (op->code != TC_DOT || !tc_wgmma_suits(op)))
            return false;
    }
    return v->uses != NULL;
}

typedef struct keeper {
    tc_pass_env *env;
    tc_axis_analysis *axes;
} keeper;

static bool is_kept(const keeper *k, const tc_op *op)
{
    tc_row_boxes boxes;
    if (!k->env->target->tma || op->code != TC_LOAD ||
        !only_feeds_products(op->out[0]))
        return false;
    const char *why = tc_why_no_row_boxes(k->axes, op, &boxes);
    if (why)
        tc_missed(k->env->cx, op->loc, pass,
                  "load of windows not made TMA copies: %s", why);
    return !why;
}

static bool expand_region(keeper *k, tc_region *r)
{
    bool changed = false;
    tc_each_nested_first (op, r) {
        if (!is_by_index(op))
            continue;
        if (tc_access_one_window(k->axes, op)) {
            changed = true;
            continue;
        }
        /* Of stores the layout is chosen first (passes/layout/choice.c). */
        if (op->code == TC_STORE || is_kept(k, op))
            continue;
        expand(k->env->cx, op, NULL);
        tc_op_erase(op);
        changed = true;
    }
    return changed;
}

tc_change tc_pass_expand_windows(tc_func *f, tc_pass_env *env)
{
    keeper k = {env, tc_axis_analyse(env->scratch, f, 0)};
    return expand_region(&k, f->body) ? TC_CHANGED : TC_UNCHANGED;
}

/* ---- At machine level ---- */

/* The tiles without layouts among the ops before `end`, from `first` (NULL: all
 * of the region) on, were replaced by the same with layouts. */
static void erase_unplaced(tc_op *first, tc_op *end)
{
    for (tc_op *op = end->prev, *prev; op && op != first; op = prev) {
        prev = op->prev;
        if (op->nout == 1 && !op->out[0]->uses && tc_op_is_pure(op) &&
            op->out[0]->type->kind == TC_TILE && !op->out[0]->type->layout)
            tc_op_erase(op);
    }
}

static bool lower(tc_pass_env *env, tc_op *op)
{
    if (!is_by_index(op))
        return false;
    tc_op *first = op->prev;
    const tc_type *t = op->code == TC_LOAD ? op->out[0]->type : op->in[1]->type;
    expand(env->cx, op, t->layout);
    erase_unplaced(first, op);
    tc_op_erase(op);
    return true;
}

tc_change tc_pass_lower_windows(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, lower);
}
