/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of which all indices but one are equal, and that one counts up, are one
 * window of scalars, such as a part of one page. An index outside puts the
 * window after the end of the rows, where its boundary lets nothing through:
 *
 *   %t = load %k[%at / 64, rem(%at, 64), 0 +: 128], %at = %i * 64 + range(64)
 * becomes
 *   %page = %i * 64 / 64
 *   %in = %page ult size(%k, 0)
 *   %row = select(%in, rem(%i * 64, 64), size(%k, 1))
 *   %t = load %k[select(%in, %page, 0), %row +: 64, 0 +: 128] boundary(0)
 */
#include "passes/windows/expand_windows.h"

#include "passes/analysis/int_range.h"
#include "passes/analysis/match.h"
#include "passes/windows/element_at.h"
#include "passes/windows/row_boxes.h"

typedef struct one {
    tc_builder b;
    const tc_op *block;
    const tc_row_boxes *boxes;
    tc_value *in[TC_MAX_RANK]; /* offsets of the window */
} one;

static tc_value *size_of(one *o, unsigned dim, const tc_type *type)
{
    tc_value *tensor = o->block->in[0];
    tc_value *size = tc_build_at(&o->b, TC_SIZE, tensor, "dim", dim);
    return tc_build_cast(&o->b, size, type->kind);
}

/* The offsets of the first row. */
static void find_offsets(one *o)
{
    tc_func *f = o->b.func;
    tc_builder top = tc_builder_before(f->body->first);
    tc_elements e = {.b = &top, .in_place = true};
    top.loc = o->b.loc;
    tc_value *row =
        tc_build_int(&top, tc_type_scalar(f->module->cx, TC_I32), 0);
    for (unsigned i = 1; i < o->block->nin; i++) {
        tc_value *v = o->block->in[i];
        o->in[i - 1] =
            v->type->kind == TC_TILE ? tc_element_at(&e, v, &row) : v;
    }
}

/* i1: the indices but that of the rows are inside; NULL: they always are. */
static tc_value *inside(one *o)
{
    tc_value *all = NULL;
    for (unsigned i = 0; i + 1 < o->block->nin; i++) {
        const tc_value *index = o->block->in[1 + i];
        const tc_dim *side = o->block->in[0]->type->dims[i];
        if (index->type->kind != TC_TILE || i == o->boxes->dim)
            continue;
        tc_int_range r = tc_int_range_of(index);
        if (side && r.low >= 0 && r.high < tc_dim_value(side))
            continue;
        tc_value *x = o->in[i];
        tc_value *in = tc_build_cmp(&o->b, "ult", x, size_of(o, i, x->type));
        all = tc_build_both(&o->b, all, in);
    }
    return all;
}

/* If an index is outside: the first element, and no rows. */
static void clamp(one *o)
{
    tc_value *in = inside(o);
    for (unsigned i = 0; in && i + 1 < o->block->nin; i++) {
        tc_value **x = &o->in[i];
        if (o->block->in[1 + i]->type->kind != TC_TILE)
            continue;
        tc_value *else_at = i == o->boxes->dim
                                ? size_of(o, i, (*x)->type)
                                : tc_build_int_const(&o->b, (*x)->type, 0);
        *x = tc_build_select(&o->b, in, *x, else_at);
    }
}

/* The rows are axis 0, as the indices were. */
static void set_boundary(tc_op *access, const tc_op *old)
{
    const tc_attr *a = tc_op_attr(old, "boundary");
    int64_t axes[TC_MAX_RANK] = {0};
    for (unsigned i = 0; i < a->n; i++)
        axes[1 + i] = a->ints[i];
    tc_op_set_ints(access, "boundary", 1 + a->n, axes);
}

bool tc_access_one_window(tc_axis_analysis *a, tc_op *access)
{
    tc_row_boxes boxes;
    const tc_op *block = access->in[0]->def;
    if (!tc_is_one_box(a, block, &boxes))
        return false;
    one o = {tc_builder_before(access), block, &boxes, {NULL}};
    find_offsets(&o);
    clamp(&o);
    tc_op_set_in(access, 0, tc_build_row_box(&o.b, block, &boxes, o.in));
    set_boundary(access, access);
    return true;
}
