/* SPDX-License-Identifier: Apache-2.0
 *
 * The width of an access to global memory, from the facts along its axes
 * (axis_info.h).
 */
#include "passes/analysis/axis_info.h"

#include "ir/types/layout.h"

#include <assert.h>

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static const tc_axis_info *in(const tc_axis_analysis *a, const tc_op *op,
                              unsigned i)
{
    return tc_axis_info_of(a, op->in[i]);
}

/* ---- What is accessed ---- */

static const tc_value *tensor_of_pointer(const tc_value *v)
{
    while (v->def) {
        switch (v->def->code) {
        case TC_BASE: return v->def->in[0];
        case TC_PTR_ADD:
        case TC_SPLAT:
        case TC_BROADCAST:
        case TC_EXPAND_DIMS:
        case TC_TRANS:
        case TC_RESHAPE:
        case TC_CONVERT_LAYOUT: v = v->def->in[0]; break;
        default: return NULL;
        }
    }
    return NULL;
}

const tc_value *tc_tensor_argument(const tc_value *tensor)
{
    while (tensor && tensor->def)
        tensor = tensor->def->code == TC_MAKE_TENSOR
                     ? tensor_of_pointer(tensor->def->in[0])
                     : NULL;
    return tensor;
}

tc_op *tc_block_of(const tc_value *v)
{
    for (;;) {
        const tc_op *op = v->def;
        if (!op)
            op = v->region->op;
        else if (op->code == TC_BLOCK)
            return v->def;
        if (v->def && op->code == TC_ADVANCE)
            v = op->in[0];
        else if (op && op->code == TC_FOR)
            v = op->in[3 + (v->def ? v->index : v->index - 1)];
        else if (op && op->code == TC_WHILE)
            v = op->in[v->index];
        else
            return NULL;
    }
}

const tc_value *tc_accessed_tensor(const tc_op *op)
{
    const tc_value *v = op->in[0];
    if (v->type->kind == TC_TENSOR)
        return v;
    if (v->type->kind != TC_BLOCK_PTR)
        return tensor_of_pointer(v);
    tc_op *block = tc_block_of(v);
    return block ? block->in[0] : NULL;
}

bool tc_can_be_aligned(const tc_type *t)
{
    const tc_dim *unit = t->rank ? t->dims[tc_type_contiguous(t)] : NULL;
    return t->rank > 0 && tc_type_bytes(t->elem) <= 16 &&
           (!unit ||
            tc_dim_value(unit) * (int64_t)tc_type_bytes(t->elem) % 16 == 0);
}

/* ---- Alignment ---- */

/* Do so many of the value's units make a multiple of 16 bytes? */
static bool in_vectors(const tc_axis_analysis *a, const tc_value *v,
                       unsigned unit)
{
    uint64_t divisor = tc_axis_divisor(tc_axis_info_of(a, v));
    return divisor * unit % 16 == 0;
}

/* A promise, or facts about what the tensor is made of. */
static bool is_made_aligned(const tc_axis_analysis *a, const tc_value *tensor)
{
    const tc_op *op = tensor->def;
    const tc_type *t = tensor->type;
    if (op->code != TC_MAKE_TENSOR || !tc_can_be_aligned(t))
        return false;
    if (tc_op_int(op, "aligned"))
        return true;
    unsigned unit = tc_type_contiguous(t);
    const tc_axis_info *one =
        tc_axis_info_of(a, tc_made_tensor_stride(op, unit));
    bool ok = one->is_known && one->value == 1 && in_vectors(a, op->in[0], 1);
    for (unsigned i = 0; ok && i < t->rank; i++)
        ok = i == unit || in_vectors(a, tc_made_tensor_stride(op, i),
                                     tc_type_bytes(t->elem));
    return ok;
}

bool tc_is_aligned(const tc_axis_analysis *a, const tc_value *tensor)
{
    if (tensor && tensor->def)
        return is_made_aligned(a, tensor);
    return tensor && tensor->region == a->f->body && tensor->index < 64 &&
           a->aligned >> tensor->index & 1;
}

bool tc_has_whole_rows(const tc_axis_analysis *a, const tc_value *tensor)
{
    if (!tc_is_aligned(a, tensor))
        return false;
    unsigned unit = tc_type_contiguous(tensor->type);
    if (tensor->type->dims[unit])
        return true;
    if (!tensor->def)
        return !(a->f->ragged >> tensor->index & 1);
    return tc_op_int(tensor->def, "aligned") ||
           in_vectors(a, tc_made_tensor_size(tensor->def, unit),
                      tc_type_bytes(tensor->type->elem));
}

/* ---- Vectors ---- */

static const char not_aligned[] =
    "nothing is assumed of the tensor's strides and address";

unsigned tc_block_dim(const tc_op *block, unsigned axis)
{
    const tc_attr *sides = tc_op_attr(block, "sides");
    unsigned dim = 0;
    assert(axis >= tc_block_index_rank(block));
    axis -= tc_block_index_rank(block);
    for (;; dim++)
        if (sides->dims[dim] && axis-- == 0)
            return dim;
}

unsigned tc_contiguous_axis(const tc_op *block)
{
    const tc_attr *sides = tc_op_attr(block, "sides");
    if (!sides->n)
        return TC_MAX_RANK;
    unsigned kept = tc_block_index_rank(block);
    unsigned unit = tc_type_contiguous(block->in[0]->type);
    for (unsigned i = 0; i < unit; i++)
        kept += sides->dims[i] != NULL;
    return sides->dims[unit] ? kept : TC_MAX_RANK;
}

/* Lanes of `mask` operands must agree in a vector. */
static uint32_t equal_lanes(const tc_axis_analysis *a, const tc_op *op,
                            unsigned first, unsigned end, unsigned axis,
                            uint32_t most)
{
    for (unsigned i = first; i < end; i++)
        if (op->in[i]->type->kind == TC_TILE)
            most = smaller(most, in(a, op, i)->axis[axis].same);
    return most;
}

static tc_vector block_vector(const tc_axis_analysis *a, const tc_op *op,
                              uint32_t most)
{
    const tc_type *t = op->in[0]->type;
    tc_op *block = tc_block_of(op->in[0]);
    tc_vector r = {t->rank - 1, 1, NULL};
    unsigned axis = block ? tc_contiguous_axis(block) : TC_MAX_RANK;
    if (axis == TC_MAX_RANK) {
        r.why = "the block has one element of the tensor's contiguous dim";
        return r;
    }
    r.axis = axis;
    if (!tc_is_aligned(a, block->in[0])) {
        r.why = tc_can_be_aligned(block->in[0]->type)
                    ? not_aligned
                    : "rows of the tensor are not multiples of 16 bytes";
        return r;
    }
    if (!tc_has_whole_rows(a, block->in[0])) {
        r.why = "the tensor may end within 16 bytes";
        return r;
    }
    const tc_axis_info *info = in(a, op, 0);
    uint32_t offset =
        info->axis[tc_type_contiguous(block->in[0]->type)].divisor;
    uint32_t length = (uint32_t)tc_dim_value(t->dims[axis]);
    uint32_t side = length & (0 - length);
    unsigned mask = op->code == TC_LOAD ? 1 : 2;
    uint32_t same = most;
    bool masked = op->code == TC_LOAD || op->code == TC_STORE;
    if (masked && op->nin > mask)
        same = equal_lanes(a, op, mask, mask + 1, axis, most);
    r.elements = smaller(smaller(smaller(offset, side), same), most);
    if (same < most)
        r.why = "the mask differs within 16 bytes";
    else if (side < most)
        r.why = "rows of the tile are not multiples of 16 bytes";
    else if (offset < most)
        r.why = "the offset along its contiguous dim may be no multiple of 16 "
                "bytes";
    return r;
}

static unsigned longest_run(const tc_axis_info *info)
{
    unsigned best = info->rank - 1;
    for (unsigned i = info->rank; i-- > 0;)
        if (info->axis[i].run > info->axis[best].run)
            best = i;
    return best;
}

static tc_vector pointer_vector(const tc_axis_analysis *a, const tc_op *op,
                                uint32_t most)
{
    const tc_axis_info *p = in(a, op, 0);
    unsigned axis = longest_run(p);
    tc_vector r = {axis, 1, NULL};
    uint32_t run = smaller(p->axis[axis].run, most);
    uint32_t bytes = p->axis[axis].divisor / p->step;
    unsigned mask = op->code == TC_LOAD ? 1 : 2;
    uint32_t same = most;
    if (op->code == TC_ASYNC_COPY)
        same = equal_lanes(a, op, 3, op->nin, axis, most);
    else if (op->nin > mask)
        same = equal_lanes(a, op, mask, mask + 1, axis, most);
    r.elements = larger(1, smaller(smaller(run, bytes), same));
    if (op->code == TC_ATOMIC || op->code == TC_ATOMIC_CAS)
        r.elements = 1;
    else if (run < most)
        r.why = "the pointers do not count up by one";
    else if (bytes < most)
        r.why = "the addresses may be no multiples of 16 bytes";
    else if (same < most)
        r.why = "the mask differs within 16 bytes";
    return r;
}

static tc_vector gather_vector(const tc_axis_analysis *a, const tc_op *op,
                               uint32_t most)
{
    unsigned at = 1 + tc_type_contiguous(op->in[0]->type);
    const tc_axis_info *index = in(a, op, at);
    unsigned axis = longest_run(index);
    tc_vector r = {axis, 1, not_aligned};
    if (!tc_has_whole_rows(a, op->in[0]))
        return r;
    uint32_t run = smaller(index->axis[axis].run, index->axis[axis].divisor);
    uint32_t same = smaller(equal_lanes(a, op, 1, at, axis, most),
                            equal_lanes(a, op, at + 1, op->nin, axis, most));
    r.elements = smaller(smaller(run, same), most);
    r.why = r.elements == most ? NULL : "the indices do not count up by one";
    return r;
}

tc_vector tc_axis_vector(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    const tc_type *elem = t->kind == TC_TILE ? t->elem->elem : t->elem;
    uint32_t most = larger(1, 16 / tc_type_bytes(elem));
    if (t->kind == TC_TENSOR)
        return op->nin > 1 && op->in[1]->type->kind == TC_TILE
                   ? gather_vector(a, op, most)
                   : (tc_vector){0, 1, NULL};
    if (t->kind == TC_BLOCK_PTR)
        return block_vector(a, op, most);
    return t->kind == TC_TILE ? pointer_vector(a, op, most)
                              : (tc_vector){0, 1, NULL};
}

/* ---- What is done ---- */

unsigned tc_access_vector(const tc_axis_analysis *a, const tc_op *op,
                          const tc_layout *l)
{
    tc_vector v = tc_axis_vector(a, op);
    return v.elements <= 1 ? 1 : tc_layout_contiguous(l, v.axis, v.elements);
}

/* PTX ISA, red: vectors of f32 since sm_90. */
unsigned tc_added_at_once(const tc_target *target, const tc_type *elem,
                          unsigned n)
{
    return target->major >= 9 && elem->kind == TC_F32 ? n : 1;
}
