/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel's body as the work on one tile of many: the axes of the grid are
 * computed in the body, and the program's indices become the tile's.
 *
 *   %i = program_id axis(0)      becomes    %i = of the tile (rasterize.c)
 *   %n = num_programs axis(0)               %n = cdiv(size(%a, 0), 128)
 */
#include "passes/persistent/rasterize.h"

#include "passes/analysis/match.h"

void tc_tile_order_sizes(tc_builder *b, tc_tile_order *o)
{
    tc_func *f = b->func;
    const tc_op *yield = tc_region_terminator(f->grid);
    for (unsigned i = 0; i < f->grid->nargs; i++)
        f->grid->args[i]->data = f->body->args[i];
    tc_each_op (op, f->grid)
        for (unsigned i = 0; i < op->nout; i++)
            op->out[i]->data = NULL;
    tc_each_op (op, f->grid)
        if (tc_op_is_pure(op) && op != yield)
            tc_op_insert(tc_op_clone(f, op), b->region, b->before);
    for (unsigned i = 0; i < yield->nin; i++)
        o->sizes[i] = yield->in[i]->data;
    o->total = o->sizes[0];
    for (unsigned i = 1; i < yield->nin; i++)
        o->total = tc_build_binary(b, TC_MUL, o->total, o->sizes[i]);
}

static tc_value *size_along(const tc_tile_order *o, tc_op *op, unsigned axis)
{
    tc_builder b = tc_builder_before(op);
    return axis < o->naxes ? o->sizes[axis]
                           : tc_build_int(&b, op->out[0]->type, 1);
}

bool tc_tile_name_op(tc_op *op, tc_value *const ids[TC_GRID_AXES])
{
    bool reports = op->code == TC_ASSERT || op->code == TC_PRINT;
    if (!reports || tc_op_int(op, "of_program"))
        return false;
    tc_builder b = tc_builder_before(op);
    unsigned n = op->nin + TC_GRID_AXES;
    tc_value **in = tc_arena_array(&b.func->module->arena, tc_value *, n);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = op->in[i];
    for (unsigned i = 0; i < TC_GRID_AXES; i++)
        in[op->nin + i] = ids[i];
    tc_op *now = tc_build_effect(&b, op->code, n, in);
    for (unsigned i = 0; i < tc_op_nattrs(op->code); i++)
        now->attrs[i] = op->attrs[i];
    tc_op_set_attr(now, "of_program", (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
    tc_op_erase(op);
    return true;
}

void tc_tile_name_ids(tc_region *r, const tc_tile_order *o,
                      tc_value *const ids[TC_GRID_AXES], const tc_op *own)
{
    tc_each_nested_first (op, r) {
        bool is_id = op->code == TC_PROGRAM_ID;
        if (tc_tile_name_op(op, ids) || op == own ||
            (!is_id && op->code != TC_NUM_PROGRAMS))
            continue;
        unsigned axis = (unsigned)tc_op_int(op, "axis");
        tc_value *with = is_id ? ids[axis] : size_along(o, op, axis);
        with->name = with->name ? with->name : op->out[0]->name;
        tc_value_replace(op->out[0], with);
        tc_op_erase(op);
    }
}
