/* SPDX-License-Identifier: Apache-2.0
 *
 * merge-windows: a loaded tile of windows that is reshaped to rows is loaded as
 * rows, each with an index of its own.
 *
 *   %pages = load %table[%b, %i +: 4]
 *   %t = load %k[%pages, 0 +: 16, %h, 0 +: 128] : tile<4x16x128 x bf16>
 *   %r = reshape %t : tile<64x128 x bf16>
 * becomes
 *   %page = gather %table, %b, %i + range(64) / 16
 *   %slot = 0 + rem(range(64), 16)
 *   %r = load %k[%page, %slot, %h, 0 +: 128] : tile<64x128 x bf16>
 *
 * So products and copies see one tile of rows. The axes of the result that are
 * made of several, up to the last one of these, become axes of indices; the
 * others stay those of sides. Tests: test/ir/passes/merge-windows.
 */
#include "ir/base/map.h"
#include "passes/analysis/match.h"
#include "passes/passes.h"
#include "passes/windows/element_at.h"

typedef struct merge {
    tc_op *load, *block;
    tc_op *cast;               /* between load and reshape; or NULL */
    const tc_type *from, *to;  /* tiles */
    unsigned nindices;         /* axes of `from` that are of indices */
    unsigned nfrom, nto;       /* leading axes that become indices */
    tc_builder top;            /* for positions */
    tc_value *at[TC_MAX_RANK]; /* of a row, on the axes of `from` */
} merge;

/* The axes at the end that both have: they stay axes of sides. */
static bool find_axes(merge *m)
{
    unsigned from = m->from->rank, to = m->to->rank;
    while (from > m->nindices && to > 0 &&
           m->from->dims[from - 1] == m->to->dims[to - 1]) {
        from--;
        to--;
    }
    bool one = to == 0; /* one window: its first side has the rows */
    m->nfrom = from + one;
    m->nto = to + one;
    return m->nfrom < m->from->rank;
}

static bool find_merge(merge *m, tc_op *op)
{
    tc_op *cast = tc_match_op(op->in[0], TC_CAST);
    tc_op *load = tc_match_op(cast ? cast->in[0] : op->in[0], TC_LOAD);
    tc_op *block = load ? tc_match_op(load->in[0], TC_BLOCK) : NULL;
    if (!block || load->nin > 1 || !tc_value_has_one_use(load->out[0]) ||
        !tc_value_has_one_use(op->in[0]))
        return false;
    *m = (merge){.load = load,
                 .block = block,
                 .cast = cast,
                 .from = load->out[0]->type,
                 .to = op->out[0]->type,
                 .nindices = tc_block_index_rank(block)};
    return m->nindices && find_axes(m);
}

/* The leading axes of a tile as a type of i32. */
static const tc_type *leading(tc_context *cx, const tc_type *t, unsigned n)
{
    return tc_type_shaped(cx, TC_TILE, n, t->dims, tc_type_scalar(cx, TC_I32));
}

/* Where each row of the result is in the tile that is reshaped. */
static void find_positions(merge *m)
{
    tc_context *cx = m->top.func->module->cx;
    const tc_type *rows = leading(cx, m->to, m->nto);
    tc_value *at[TC_MAX_RANK];
    for (unsigned i = 0; i < m->nto; i++) {
        tc_value *line = tc_build_range(&m->top, rows->dims[i]);
        at[i] = tc_build_along(&m->top, line, i, rows);
    }
    tc_positions_before_reshape(&m->top, leading(cx, m->from, m->nfrom), rows,
                                at, m->at);
}

/* The index of each row: computed for the row, or else moved to it. */
static tc_value *index_of_rows(merge *m, tc_value *index, tc_builder *b)
{
    tc_context *cx = b->func->module->cx;
    if (tc_has_elements(index)) {
        tc_elements e = {.b = &m->top, .in_place = true};
        return tc_element_at(&e, index, m->at);
    }
    const tc_type *elem = index->type->elem;
    for (unsigned i = m->nindices; i < m->nfrom; i++)
        index = tc_build_at(b, TC_EXPAND_DIMS, index, "axis", i);
    const tc_type *all =
        tc_type_with_elem(cx, leading(cx, m->from, m->nfrom), elem);
    if (index->type != all)
        index = tc_build(b, TC_BROADCAST, 1, &index, all);
    return tc_build(b, TC_RESHAPE, 1, &index,
                    tc_type_with_elem(cx, leading(cx, m->to, m->nto), elem));
}

/* The position of each row along a dim that had a side. */
static tc_value *offset_of_rows(merge *m, tc_value *offset, unsigned axis,
                                tc_builder *b)
{
    tc_value *at = tc_build_cast(b, m->at[axis], offset->type->kind);
    if (tc_match_int(offset, 0))
        return at;
    return tc_build_binary(b, TC_ADD, tc_build_spread(b, offset, at->type), at);
}

static tc_value *build_block(merge *m, tc_builder *b)
{
    const tc_attr *sides = tc_op_attr(m->block, "sides");
    const tc_dim *dims[TC_MAX_RANK] = {NULL};
    tc_value *in[1 + TC_MAX_RANK] = {m->block->in[0]};
    unsigned axis = m->nindices;
    for (unsigned i = 0; i < sides->n; i++) {
        tc_value *v = in[1 + i] = m->block->in[1 + i];
        if (v->type->kind == TC_TILE)
            in[1 + i] = index_of_rows(m, v, b);
        else if (sides->dims[i] && axis++ < m->nfrom)
            in[1 + i] = offset_of_rows(m, v, axis - 1, b);
        else
            dims[i] = sides->dims[i];
    }
    tc_op *block =
        tc_op_new(b->func, TC_BLOCK, m->block->loc, 1 + sides->n, in, 0);
    tc_op_set_dims(block, "sides", sides->n, dims);
    return tc_build_op(b, block, NULL);
}

/* The boundary of the axes that stay; the indices need none. */
static void set_boundary(const merge *m, tc_op *load)
{
    const tc_attr *old = tc_op_attr(m->load, "boundary");
    int64_t axes[TC_MAX_RANK];
    unsigned n = 0;
    for (unsigned i = 0; i < old->n; i++)
        if (old->ints[i] >= m->nfrom)
            axes[n++] = old->ints[i] - m->nfrom + m->nto;
    if (n)
        tc_op_set_ints(load, "boundary", n, axes);
}

static bool merge_windows(tc_pass_env *env, tc_op *op)
{
    merge m;
    (void)env;
    if (op->code != TC_RESHAPE || !find_merge(&m, op))
        return false;
    m.top = tc_builder_before(op->func->body->first);
    m.top.loc = m.block->loc;
    find_positions(&m);
    tc_builder b = tc_builder_before(m.load);
    tc_value *window = build_block(&m, &b);
    tc_op *load = tc_op_new(op->func, TC_LOAD, m.load->loc, 1, &window, 0);
    tc_op_set_attr(load, "pad", *tc_op_attr(m.load, "pad"));
    tc_op_copy_hints(load, m.load);
    set_boundary(&m, load);
    tc_value *rows = tc_build_op(&b, load, NULL);
    rows->name = m.load->out[0]->name;
    if (m.cast) {
        b = tc_builder_before(op);
        rows = tc_build_like(&b, m.cast, &rows, op->out[0]->type);
    }
    tc_value_replace(op->out[0], rows);
    tc_op_erase(op);
    if (m.cast)
        tc_op_erase(m.cast);
    tc_op_erase(m.load);
    return true;
}

tc_change tc_pass_merge_windows(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, merge_windows);
}
