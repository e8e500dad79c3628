/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries of ops and of all ops nested in regions.
 */
#include "ir/ir.h"

const char *tc_op_name(const tc_op *op)
{
    return tc_op_infos[op->code].name;
}

tc_context *tc_op_context(const tc_op *op)
{
    return op->func->module->cx;
}

tc_loc tc_op_in_loc(const tc_op *op, unsigned i)
{
    bool known = op->in_locs && i < op->nin && op->in_locs[i].line;
    return known ? op->in_locs[i] : op->loc;
}

const char *tc_op_in_type(const tc_op *op, unsigned i)
{
    return tc_type_name(tc_op_context(op), op->in[i]->type);
}

const tc_value *tc_block_index(const tc_op *block)
{
    for (unsigned i = 1; i < block->nin; i++)
        if (block->in[i]->type->kind == TC_TILE)
            return block->in[i];
    return NULL;
}

unsigned tc_block_index_rank(const tc_op *block)
{
    const tc_value *index = tc_block_index(block);
    return index ? index->type->rank : 0;
}

static unsigned sizes_before(const tc_type *tensor, unsigned dim)
{
    unsigned n = 0;
    for (unsigned i = 0; i < dim; i++)
        n += !tensor->dims[i];
    return n;
}

unsigned tc_made_tensor_sizes(const tc_type *tensor)
{
    return sizes_before(tensor, tensor->rank);
}

tc_value *tc_made_tensor_size(const tc_op *op, unsigned dim)
{
    const tc_type *t = op->out[0]->type;
    return t->dims[dim] ? NULL : op->in[1 + sizes_before(t, dim)];
}

tc_value *tc_made_tensor_stride(const tc_op *op, unsigned dim)
{
    return op->in[1 + tc_made_tensor_sizes(op->out[0]->type) + dim];
}

unsigned tc_op_nreported(const tc_op *op)
{
    return op->nin - (tc_op_int(op, "of_program") ? TC_GRID_AXES : 0);
}

bool tc_dot_is_unsigned(const tc_op *op, unsigned i)
{
    return tc_op_is_word(op, "unsigned", "both") ||
           tc_op_is_word(op, "unsigned", i ? "b" : "a");
}

bool tc_op_is_loop(const tc_op *op)
{
    return op->code == TC_FOR || op->code == TC_WHILE;
}

/* The first region of the op from i on that is not empty; NULL: none. */
static const tc_region *region_from(const tc_op *op, unsigned i)
{
    while (i < op->nregions && !op->regions[i]->first)
        i++;
    return i < op->nregions ? op->regions[i] : NULL;
}

/* The one after `before`. */
static const tc_region *next_region(const tc_op *op, const tc_region *before)
{
    unsigned i = 0;
    while (op->regions[i++] != before)
        continue;
    return region_from(op, i);
}

tc_op *tc_op_next_nested(const tc_op *op, const tc_region *r)
{
    const tc_region *in = region_from(op, 0);
    while (!in && !op->next) {
        const tc_region *done = op->parent;
        if (done == r)
            return NULL;
        op = done->op;
        in = next_region(op, done);
    }
    return in ? in->first : op->next;
}

tc_op *tc_region_innermost(const tc_region *r)
{
    tc_op *op = r->first;
    for (const tc_region *in; op && (in = region_from(op, 0));)
        op = in->first;
    return op;
}

tc_op *tc_op_next_innermost(const tc_op *op, const tc_region *r)
{
    if (op->next) {
        const tc_region *in = region_from(op->next, 0);
        return in ? tc_region_innermost(in) : op->next;
    }
    if (op->parent == r)
        return NULL;
    const tc_region *in = next_region(op->parent->op, op->parent);
    return in ? tc_region_innermost(in) : op->parent->op;
}

bool tc_op_any(const tc_op *op, bool (*is)(const tc_op *op))
{
    if (is(op))
        return true;
    for (unsigned i = 0; i < op->nregions; i++)
        if (tc_region_any(op->regions[i], is))
            return true;
    return false;
}

bool tc_region_any(const tc_region *r, bool (*is)(const tc_op *op))
{
    tc_each_op (op, r) {
        tc_module_spend(r->func->module, 1);
        if (tc_op_any(op, is))
            return true;
    }
    return false;
}

bool tc_region_has_op(const tc_region *r, tc_opcode code)
{
    tc_each_nested (op, r)
        if (op->code == code)
            return true;
    return false;
}

unsigned tc_region_count(const tc_region *r)
{
    unsigned n = 0;
    tc_each_op (op, r) {
        n++;
        for (unsigned i = 0; i < op->nregions; i++)
            n += tc_region_count(op->regions[i]);
    }
    return n;
}

static void clear_data(tc_region *r, bool of_ops)
{
    for (unsigned i = 0; i < r->nargs; i++)
        r->args[i]->data = NULL;
    tc_each_op (op, r) {
        if (of_ops)
            op->data = NULL;
        for (unsigned i = 0; i < op->nout; i++)
            op->out[i]->data = NULL;
        for (unsigned i = 0; i < op->nregions; i++)
            clear_data(op->regions[i], of_ops);
    }
}

void tc_region_clear_data(tc_region *r)
{
    clear_data(r, false);
}

void tc_region_clear_all_data(tc_region *r)
{
    clear_data(r, true);
}

bool tc_op_is_used(const tc_op *op)
{
    for (unsigned i = 0; i < op->nout; i++)
        if (op->out[i]->uses)
            return true;
    return false;
}
