/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a kernel at machine level, where loads are `load`, `gather`,
 * `async_copy` or `tma_load`. Split loops, prologues and roles hold copies of
 * one source line: the copy in the hot loop stands for all.
 */
#include "passes/report/inspect.h"

#include "passes/analysis/axis_info.h"
#include "passes/instructions/mma.h"
#include "passes/instructions/tma.h"
#include "passes/sync/shared_memory.h"

typedef struct inspector {
    tc_pass_env *env;
    const tc_refusals *refusals;
    tc_axis_analysis *axes;
    tc_inspection out;
    uint64_t products, loads; /* of the hot loop so far */
} inspector;

/* ---- The hot loop ---- */

static int64_t side_of(const tc_value *v, unsigned axis)
{
    return tc_dim_value(v->type->dims[axis]);
}

static bool is_load(const tc_op *op)
{
    switch (op->code) {
    case TC_LOAD:
    case TC_GATHER: return op->out[0]->type->kind == TC_TILE;
    case TC_ASYNC_COPY:
    case TC_TMA_LOAD: return true;
    default: return false;
    }
}

static const tc_type *tile_of(const tc_op *op)
{
    return op->code == TC_LOAD || op->code == TC_GATHER ? op->out[0]->type
                                                        : op->in[1]->type;
}

static uint64_t products_of(const tc_op *op)
{
    return op->code == TC_MMA ? (uint64_t)(tc_type_count(op->out[0]->type) *
                                           side_of(op->in[0], 1))
                              : 0;
}

/* The hot loop: the one with the largest products, else the most loads. A loop
 * counts 16 times its step, a branch a 256th of its ops. */
static void find_hot(inspector *s, const tc_region *r, const tc_op *loop,
                     unsigned depth)
{
    enum { MOST = 8 };
    uint64_t products = 0, loads = 0;
    tc_each_op (op, r) {
        bool is_loop = tc_op_is_loop(op);
        products += products_of(op);
        if (is_load(op))
            loads += (uint64_t)tc_type_count(tile_of(op));
        unsigned inside = depth;
        if (is_loop)
            inside += depth < MOST;
        else if (op->code == TC_IF)
            inside -= depth < 2 ? depth : 2;
        for (unsigned i = 0; i < op->nregions; i++)
            find_hot(s, op->regions[i], is_loop ? op : loop, inside);
    }
    loads <<= 4 * depth;
    if (loop && (products > s->products ||
                 (products == s->products && loads > s->loads))) {
        s->products = products;
        s->loads = loads;
        s->out.loop = loop;
    }
}

/* The loop has a copy in each role. */
static bool is_hot(const inspector *s, const tc_op *op)
{
    for (op = tc_loop_around(op); op; op = tc_loop_around(op))
        if (s->out.loop && tc_loc_is(op->loc, s->out.loop->loc))
            return true;
    return false;
}

/* ---- Loads ---- */

/* Neighbours in memory that the tile has, as far as they are known. */
static unsigned contiguous_elements(const inspector *s, const tc_op *op,
                                    const tc_vector *v)
{
    if (v->elements == 1)
        return 1;
    if (op->in[0]->type->kind == TC_BLOCK_PTR)
        return (unsigned)tc_dim_value(op->in[0]->type->dims[v->axis]);
    const tc_value *index =
        op->in[op->code == TC_GATHER ? 1 + tc_type_contiguous(op->in[0]->type)
                                     : 0];
    const tc_axis_info *info = tc_axis_info_of(s->axes, index);
    return info->axis[v->axis].run;
}

static void measure(const inspector *s, tc_load_info *l)
{
    tc_tma tma;
    const char *why;
    const tc_op *op = l->op;
    unsigned bytes = tc_type_bytes(l->tile->elem);
    tc_vector v = tc_axis_vector(s->axes, op);
    const tc_layout *held = l->tile->layout;
    if (op->code == TC_ASYNC_COPY && tc_op_layout(op, "layout"))
        held = tc_op_layout(op, "layout");
    l->contiguous = bytes * contiguous_elements(s, op, &v);
    l->width = bytes * (held ? tc_access_vector(s->axes, op, held) : 1);
    if (op->code == TC_ASYNC_COPY && tc_op_has_attr(op, "bytes"))
        l->width = (unsigned)tc_op_int(op, "bytes");
    if (op->code == TC_TMA_LOAD && tc_tma_of_op(op, &tma, &why)) {
        l->width = bytes * tma.box[tma.contiguous];
        l->contiguous = bytes * (unsigned)tc_dim_value(l->tile->dims[v.axis]);
    }
}

static const char *why_not_better(const inspector *s, const tc_op *op)
{
    const char *bulk = tc_refusal_of(s->refusals, "specialize-warps", op->loc);
    const char *copy = tc_refusal_of(s->refusals, "pipeline-loops", op->loc);
    switch (op->code) {
    case TC_TMA_LOAD: return NULL;
    case TC_ASYNC_COPY: return bulk;
    case TC_GATHER: return "a gather: each element is at an index of its own";
    default: break;
    }
    if (copy || bulk)
        return copy ? copy : bulk;
    return "its tile is used in registers";
}

static const tc_value *buffer_of(const tc_op *op)
{
    if (op->code == TC_ASYNC_COPY || op->code == TC_TMA_LOAD)
        return op->in[1];
    tc_each_use (u, op->out[0])
        if (u->op->code == TC_SMEM_STORE && u->index == 1)
            return u->op->in[0];
    return NULL;
}

static bool same_access(const tc_buffer_access *a, const tc_buffer_access *b)
{
    return a->op->code == b->op->code && a->by_descriptor == b->by_descriptor &&
           a->by_matrices == b->by_matrices && a->bytes == b->bytes &&
           a->ways == b->ways;
}

static void find_accesses(const inspector *s, tc_load_info *l, tc_op *alloc)
{
    enum { MOST = 32 };
    tc_buffer_access all[MOST];
    unsigned n = tc_buffer_accesses(s->env, alloc, MOST, all);
    for (unsigned i = 0; i < n; i++) {
        unsigned k = 0;
        while (k < l->naccesses && !same_access(&all[i], &l->accesses[k]))
            k++;
        if (k == l->naccesses && k < TC_MOST_INSPECTED)
            l->accesses[l->naccesses++] = all[i];
    }
}

/* The copy that moves the buffer's contents on to another buffer; NULL:
 * none. */
static const tc_op *moved_to(const tc_value *buffer)
{
    tc_buffer to[TC_MAX_BUFFERS];
    tc_each_use (u, buffer) {
        const tc_op *found = NULL;
        if (u->op->code == TC_SMEM_COPY && u->index == 0 &&
            tc_trace_buffers(u->op->in[1], to))
            found = to[0].alloc;
        else if (tc_is_buffer_view(u->op))
            found = moved_to(u->op->out[0]);
        if (found)
            return found;
    }
    return NULL;
}

static void describe_load(const inspector *s, tc_load_info *l, const tc_op *op)
{
    tc_buffer buffers[TC_MAX_BUFFERS];
    const tc_value *buffer = buffer_of(op);
    *l = (tc_load_info){.op = op,
                        .hot = is_hot(s, op),
                        .tile = tile_of(op),
                        .copying = op->code == TC_TMA_LOAD ? TC_COPIED_BY_TMA
                                   : op->code == TC_ASYNC_COPY
                                       ? TC_COPIED_ASYNC
                                       : TC_COPIED_BY_THREADS,
                        .why = why_not_better(s, op),
                        .next = l->next};
    measure(s, l);
    if (!buffer || tc_trace_buffers((tc_value *)(uintptr_t)buffer, buffers) < 1)
        return;
    l->alloc = buffers[0].alloc;
    l->moved = moved_to(l->alloc->out[0]);
    find_accesses(s, l, buffers[0].alloc);
}

static void add_load(inspector *s, const tc_op *op)
{
    tc_load_info **at = &s->out.loads;
    while (*at &&
           !(tc_loc_is((*at)->op->loc, op->loc) && (*at)->op->code == op->code))
        at = &(*at)->next;
    if (*at && ((*at)->hot || !is_hot(s, op)))
        return;
    if (!*at)
        *at = tc_arena_new(s->env->scratch, tc_load_info);
    describe_load(s, *at, op);
}

/* ---- Products ---- */

static tc_order order_of(const tc_value *v, unsigned i)
{
    if (v->type->kind != TC_SMEM)
        return TC_IN_REGISTERS;
    const tc_layout *l = v->type->layout;
    unsigned k_axis = 1 - i;
    bool k_fast =
        l->nmodes[TC_OFFSET] && l->modes[TC_OFFSET][0].image[k_axis] != 0;
    return k_fast ? TC_K_MAJOR : TC_MN_MAJOR;
}

static void add_product(inspector *s, const tc_op *op)
{
    tc_product_info **at = &s->out.products;
    while (*at && !tc_loc_is((*at)->op->loc, op->loc))
        at = &(*at)->next;
    if (*at && (*at)->op->parent == op->parent)
        (*at)->k += (int32_t)side_of(op->in[0], 1); /* another part of it */
    if (*at && ((*at)->hot || !is_hot(s, op)))
        return;
    tc_product_info *next = *at ? (*at)->next : NULL;
    if (!*at)
        *at = tc_arena_new(s->env->scratch, tc_product_info);
    **at = (tc_product_info){
        .op = op,
        .hot = is_hot(s, op),
        .m = (int32_t)side_of(op->out[0], 0),
        .n = (int32_t)side_of(op->out[0], 1),
        .k = (int32_t)side_of(op->in[0], 1),
        .order = {order_of(op->in[0], 0), order_of(op->in[1], 1)},
        .k_only = tc_mma_is_k_major_only(tc_op_word(op, "instr")),
        .next = next};
}

static void inspect_visit(inspector *s, const tc_region *r)
{
    tc_each_nested (op, r) {
        if (is_load(op))
            add_load(s, op);
        if (op->code == TC_MMA)
            add_product(s, op);
    }
}

tc_inspection tc_inspect(tc_func *f, tc_pass_env *env,
                         const tc_refusals *refusals)
{
    inspector s = {.env = env,
                   .refusals = refusals,
                   .axes = tc_axis_analyse(env->scratch, f, f->aligned)};
    find_hot(&s, f->body, NULL, 2);
    inspect_visit(&s, f->body);
    return s.out;
}
