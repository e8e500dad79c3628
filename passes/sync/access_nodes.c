/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/sync/access_nodes.h"

#include "ir/types/layout.h"
#include "passes/analysis/roles.h"
#include "passes/instructions/wgmma.h"
#include "passes/sync/hazards.h"
#include "passes/target/machine_model.h"

struct reader {
    tc_arena *arena;
    uint32_t next_base; /* for buffers that have no offset yet */
    unsigned position;
};

static uint32_t base_of(struct reader *h, tc_op *alloc)
{
    if (tc_op_has_attr(alloc, "offset"))
        return (uint32_t)tc_op_int(alloc, "offset");
    uint32_t *base = alloc->data;
    if (!base) {
        alloc->data = base = tc_arena_new(h->arena, uint32_t);
        *base = h->next_base;
        h->next_base += tc_smem_bytes(alloc->out[0]->type);
    }
    return *base;
}

/* Does each group touch only its part of operand i? */
static bool touches_parts(const tc_op *op, unsigned i, unsigned *axis)
{
    unsigned groups = tc_warpgroups(op->func->warps);
    if (groups < 2 || op->func->warps % TC_WARPGROUP_WARPS)
        return false;
    const tc_layout *copied;
    switch (op->code) {
    case TC_ASYNC_COPY:
        copied = tc_op_layout(op, "layout");
        if (!copied)
            copied = op->in[0]->type->layout;
        return copied && tc_held_by_groups(copied, groups, axis);
    case TC_SMEM_STORE:
        return tc_held_by_groups(op->in[1]->type->layout, groups, axis);
    case TC_SMEM_LOAD:
        return tc_held_by_groups(op->out[0]->type->layout, groups, axis);
    case TC_SMEM_TAKE: /* whole lines along the axis of the indices */
        return tc_held_by_groups(op->out[0]->type->layout, groups, axis) &&
               *axis != (unsigned)tc_op_int(op, "axis");
    case TC_MMA: /* rows of the left operand, columns of the right one */
        return tc_wgmma_k(tc_op_word(op, "instr")) &&
               tc_held_by_groups(op->in[2]->type->layout, groups, axis) &&
               *axis == i;
    case TC_TMA_STORE:
        *axis = (unsigned)tc_op_int(op, "axis");
        return tc_op_is_word(op, "scope", "group");
    default: return false;
    }
}

/* Parts of slices, and of other sides, cannot be compared with each other. */
static bool is_sliced(const tc_value *v)
{
    while (v->def && tc_is_buffer_view(v->def)) {
        if (v->def->code == TC_SMEM_SLICE || v->def->code == TC_SMEM_RESHAPE)
            return true;
        v = v->def->in[0];
    }
    return false;
}

static void add_place(struct reader *h, tc_access_node *node, tc_buffer_use use,
                      const tc_buffer *b, unsigned operand)
{
    const tc_type *t = b->alloc->out[0]->type;
    tc_access_place *more =
        tc_arena_array(h->arena, tc_access_place, node->nplaces + 1);
    for (unsigned i = 0; i < node->nplaces; i++)
        more[i] = node->places[i];
    more[node->nplaces++] =
        (tc_access_place){.use = use,
                          .ring = b->index != NULL,
                          .first = base_of(h, b->alloc),
                          .bytes = tc_smem_bytes(t),
                          .slot_bytes = tc_smem_slot_bytes(t),
                          .slots = t->slots,
                          .index = b->index};
    tc_access_place *p = &more[node->nplaces - 1];
    if (!is_sliced(node->op->in[operand]) &&
        touches_parts(node->op, operand, &p->axis))
        p->parts = node->op->in[operand]->type->layout;
    node->places = more;
}

static void add_places(struct reader *h, tc_access_node *node)
{
    tc_op *op = node->op;
    for (unsigned i = 0; i < op->nin; i++) {
        tc_buffer_use use = tc_buffer_use_of(op, i);
        if (use == TC_BUFFER_NOT_USED)
            continue;
        tc_buffer buffers[TC_MAX_BUFFERS];
        unsigned n = tc_trace_buffers(op->in[i], buffers);
        for (unsigned k = 0; k < n && k < TC_MAX_BUFFERS; k++)
            add_place(h, node, use, &buffers[k], i);
    }
}

static tc_access_node *nodes_of(struct reader *h, const tc_region *r,
                                unsigned depth);

/* Ops that order accesses, or that barriers must not cross. */
static bool orders_accesses(const tc_op *op)
{
    return op->code == TC_BARRIER || op->code == TC_ORDER_WAIT ||
           op->code == TC_ASYNC_COMMIT || op->code == TC_ASYNC_WAIT ||
           op->code == TC_MMA_WAIT || op->code == TC_TMA_STORE_WAIT;
}

/* mbarriers are between the consumer and all other roles. */
static bool is_other_role(const tc_op *op, unsigned region)
{
    return op->code == TC_WARP_GROUPS && region != TC_CONSUMERS_REGION;
}

/* The node of the op; NULL: nothing in it matters to hazards. */
static tc_access_node *node_of(struct reader *h, tc_op *op, unsigned depth)
{
    tc_access_node node = {.op = op, .depth = depth, .position = h->position++};
    node.global = tc_reads_global(op) || tc_writes_global(op);
    add_places(h, &node);
    bool matters = node.global || node.nplaces || orders_accesses(op);
    for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++) {
        if (is_other_role(op, i))
            continue;
        node.inside[i] = nodes_of(h, op->regions[i], depth + tc_op_is_loop(op));
        matters |= node.inside[i] != NULL;
    }
    if (!matters)
        return NULL;
    op->data = tc_arena_new(h->arena, tc_access_node);
    *(tc_access_node *)op->data = node;
    return op->data;
}

static tc_access_node *nodes_of(struct reader *h, const tc_region *r,
                                unsigned depth)
{
    tc_access_node *first = NULL, **end = &first;
    tc_each_op (op, r) {
        *end = node_of(h, op, depth);
        if (*end)
            end = &(*end)->next;
    }
    return first;
}

/* Buffers without an offset come after all that have one. */
static void prepare(struct reader *h, const tc_region *r)
{
    tc_each_nested (op, r) {
        op->data = NULL;
        if (op->code == TC_SMEM_ALLOC && tc_op_has_attr(op, "offset")) {
            uint32_t end = (uint32_t)tc_op_int(op, "offset") +
                           tc_smem_bytes(op->out[0]->type);
            h->next_base = end > h->next_base ? end : h->next_base;
        }
    }
}

tc_access_node *tc_access_nodes_new(tc_arena *a, tc_func *f)
{
    struct reader h = {.arena = a};
    prepare(&h, f->body);
    return nodes_of(&h, f->body, 0);
}
