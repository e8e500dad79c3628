/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/windows/row_boxes.h"

#include "passes/analysis/match.h"
#include "passes/windows/element_at.h"

/* Rows of 128 bytes in the widest swizzle repeat after 8. */
enum { LEAST_ROWS = 8 };

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static bool pads_with_zero(const tc_op *load)
{
    const tc_attr *pad = tc_op_attr(load, "pad");
    return pad->kind == TC_ATTR_NONE ||
           (pad->number.is_float
                ? pad->number.f == 0 && !__builtin_signbit(pad->number.f)
                : pad->number.i == 0);
}

/* Finds the index with the longest runs that count up, and how many rows all
 * indices allow. */
static void find_rows(tc_axis_analysis *a, const tc_op *block,
                      tc_row_boxes *boxes)
{
    uint32_t side = (uint32_t)tc_dim_value(block->out[0]->type->dims[0]),
             run = 0;
    side &= 0 - side;
    for (unsigned i = 1; i < block->nin; i++) {
        if (block->in[i]->type->kind != TC_TILE)
            continue;
        const tc_axis *x = &tc_axis_info_of(a, block->in[i])->axis[0];
        if (x->run > run) {
            run = x->run;
            boxes->dim = i - 1;
        }
    }
    boxes->rows = smaller(run, side);
    for (unsigned i = 1; i < block->nin; i++)
        if (block->in[i]->type->kind == TC_TILE && i - 1 != boxes->dim)
            boxes->rows = smaller(
                boxes->rows, tc_axis_info_of(a, block->in[i])->axis[0].same);
}

/* Why rows cannot be boxes; NULL: they can, boxes->rows at a time. */
static const char *why_apart(tc_axis_analysis *a, const tc_op *block,
                             tc_row_boxes *boxes)
{
    if (tc_block_index_rank(block) != 1)
        return "its indices have several axes: reshape them, or what is "
               "loaded, to rows";
    for (unsigned i = 1; i < block->nin; i++)
        if (block->in[i]->type->kind == TC_TILE &&
            !tc_has_elements(block->in[i]))
            return "its indices are not made of loads, ranges and scalars, so "
                   "that the producer cannot compute them one by one";
    find_rows(a, block, boxes);
    return NULL;
}

const char *tc_why_no_row_boxes(tc_axis_analysis *a, const tc_op *load,
                                tc_row_boxes *boxes)
{
    if (load->nin > 1)
        return "it has a mask, which a TMA copy cannot have";
    if (!pads_with_zero(load))
        return "what is outside is not 0, and a TMA copy can only fill with "
               "zeros";
    const char *why = why_apart(a, load->in[0]->def, boxes);
    if (why || boxes->rows >= LEAST_ROWS)
        return why;
    return tc_arena_printf(a->arena,
                           "%u neighbouring rows are surely of one window, "
                           "expected %d or more",
                           boxes->rows, LEAST_ROWS);
}

bool tc_is_one_box(tc_axis_analysis *a, const tc_op *block, tc_row_boxes *boxes)
{
    const tc_attr *sides = tc_op_attr(block, "sides");
    if (why_apart(a, block, boxes) ||
        boxes->rows != tc_dim_value(block->out[0]->type->dims[0]))
        return false;
    /* The rows are the first axis. */
    for (unsigned i = 0; i < boxes->dim; i++)
        if (sides->dims[i])
            return false;
    return true;
}

tc_value *tc_build_row_box(tc_builder *b, const tc_op *block,
                           const tc_row_boxes *boxes, tc_value *const *in)
{
    const tc_attr *sides = tc_op_attr(block, "sides");
    const tc_dim *dims[TC_MAX_RANK];
    tc_value *all[1 + TC_MAX_RANK] = {block->in[0]};
    for (unsigned i = 0; i < sides->n; i++) {
        all[1 + i] = in[i];
        dims[i] = i == boxes->dim
                      ? tc_dim_const(b->func->module->cx, boxes->rows)
                      : sides->dims[i];
    }
    tc_op *box = tc_op_new(b->func, TC_BLOCK, block->loc, 1 + sides->n, all, 0);
    tc_op_set_dims(box, "sides", sides->n, dims);
    return tc_build_op(b, box, NULL);
}
