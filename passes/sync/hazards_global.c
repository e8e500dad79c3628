/* SPDX-License-Identifier: Apache-2.0
 *
 * Accesses to global memory by threads of one block that must come one after
 * the other.
 *
 * A program may load what any of its threads has stored. Different arguments
 * are different memory, with one exception: a kernel may be launched in place,
 * its output where its input was. Then a store through one argument may
 * overwrite values that are loaded through another, at the same offsets.
 *
 * If both accesses give each element to the same thread, or surely are at
 * different places, no barrier is needed.
 */
#include "passes/sync/hazards.h"

#include "ir/types/layout.h"
#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"

static bool is_atomic(const tc_op *op)
{
    return op->code == TC_ATOMIC || op->code == TC_ATOMIC_CAS;
}

/* A store of kind(add): of any threads in any order; what it adds to is no
 * input of a kernel that works in place. */
static bool adds_to_memory(const tc_op *op)
{
    return op->code == TC_STORE && tc_op_is_word(op, "kind", "add");
}

tc_op *tc_follow_of(const tc_op *store)
{
    tc_op *at = adds_to_memory(store) ? store->prev : NULL;
    while (at && at->nregions == 0 && tc_op_has(at, TC_PURE))
        at = at->prev;
    return at && at->code == TC_FOLLOW ? at : NULL;
}

/* Ops that update memory, of any threads in any order. */
static bool changes_in_steps(const tc_op *op)
{
    return is_atomic(op) || adds_to_memory(op);
}

/* Atomics by which other threads learn that data is there. */
static bool orders_memory(const tc_op *op)
{
    return is_atomic(op) && !tc_op_is_word(op, "order", "relaxed");
}

bool tc_reads_global(const tc_op *op)
{
    return op->code == TC_LOAD || op->code == TC_GATHER ||
           op->code == TC_ASYNC_COPY || is_atomic(op);
}

bool tc_writes_global(const tc_op *op)
{
    return op->code == TC_STORE || is_atomic(op);
}

/* ---- The same thread ---- */

/* The layout of the elements that each thread moves, if the op accesses a block
 * or a tile of pointers; else NULL. */
static const tc_layout *layout_of(const tc_op *op)
{
    switch (op->code) {
    case TC_LOAD: return op->out[0]->type->layout;
    case TC_STORE: return op->in[1]->type->layout;
    case TC_ASYNC_COPY:
        return tc_op_has_attr(op, "layout") ? tc_op_layout(op, "layout")
                                            : op->in[0]->type->layout;
    default: return NULL;
    }
}

static bool each_held_once(const tc_layout *l)
{
    return tc_layout_free_bits(l, TC_LANE) == 0 &&
           tc_layout_free_bits(l, TC_WARP) == 0;
}

static bool same_sides(const tc_op *a, const tc_op *b)
{
    const tc_attr *x = tc_op_attr(a, "sides"), *y = tc_op_attr(b, "sides");
    bool same = x->n == y->n;
    for (unsigned i = 0; same && i < x->n; i++)
        same = x->dims[i] == y->dims[i];
    return same;
}

static bool same_offsets(const tc_op *a, const tc_op *b)
{
    if (a->nin != b->nin || !same_sides(a, b))
        return false;
    for (unsigned i = 1; i < a->nin; i++)
        if (!tc_match_same_int(a->in[i], b->in[i]))
            return false;
    return true;
}

/* The `block` that makes v; NULL: a loop moves v. */
static const tc_op *fixed_block(const tc_value *v)
{
    return v->def && v->def->code == TC_BLOCK ? v->def : NULL;
}

/* Do equal offsets of the two windows mean the same places, in all steps of the
 * carrier? Of arguments they do (in place); a tensor that the kernel makes is
 * like no other one, and in each step another one where it is made there. */
static bool share_offsets(const tc_op *a, const tc_op *b, const tc_op *carrier)
{
    const tc_value *x = a->in[0], *y = b->in[0];
    if (!x->def && !y->def)
        return true;
    return x == y && !(carrier && tc_is_nested_in(x->def, carrier));
}

static bool same_threads(const tc_op *a, const tc_op *b, const tc_op *carrier)
{
    const tc_layout *l = layout_of(a);
    if (!l || l != layout_of(b) || !each_held_once(l))
        return false;
    const tc_value *x = a->in[0], *y = b->in[0];
    /* In another step the same name is another place. */
    if (carrier && ((x->def && tc_is_nested_in(x->def, carrier)) ||
                    (y->def && tc_is_nested_in(y->def, carrier))))
        return false;
    const tc_op *v = fixed_block(x), *w = fixed_block(y);
    return x == y ||
           (v && w && share_offsets(v, w, carrier) && same_offsets(v, w));
}

/* ---- Different places ---- */

static int64_t side_of(const tc_op *block, unsigned dim)
{
    const tc_dim *d = tc_op_attr(block, "sides")->dims[dim];
    return d ? tc_dim_value(d) : 1;
}

/* Along a dim, the windows of two steps of the loop have nothing in common. */
static bool differ_by_step(const tc_op *a, const tc_op *b, unsigned dim,
                           const tc_op *carrier)
{
    const tc_value *i = carrier->regions[0]->args[0];
    tc_scalar step;
    return carrier->code == TC_FOR && a->in[1 + dim] == i &&
           b->in[1 + dim] == i && tc_match_const(carrier->in[2], &step) &&
           step.i >= side_of(a, dim) && step.i >= side_of(b, dim);
}

static bool differ_by_constants(const tc_op *a, const tc_op *b, unsigned dim)
{
    tc_scalar x, y;
    if (!tc_match_const(a->in[1 + dim], &x) ||
        !tc_match_const(b->in[1 + dim], &y))
        return false;
    return x.i + side_of(a, dim) <= y.i || y.i + side_of(b, dim) <= x.i;
}

static bool apart(const tc_op *a, const tc_op *b, const tc_op *carrier)
{
    const tc_op *v = fixed_block(a->in[0]), *w = fixed_block(b->in[0]);
    if (!v || !w || v->nin != w->nin || !share_offsets(v, w, carrier))
        return false;
    for (unsigned i = 0; i + 1 < v->nin; i++)
        if (differ_by_constants(v, w, i) ||
            (carrier && differ_by_step(v, w, i, carrier)))
            return true;
    return false;
}

bool tc_surely_apart(const tc_op *a, const tc_op *b)
{
    return a->nin && b->nin && apart(a, b, NULL);
}

/* ---- The question ---- */

/* The argument of the kernel that an access goes through; NULL: not known. */
static const tc_value *argument_of(const tc_op *op)
{
    const tc_value *v = tc_accessed_tensor(op);
    if (v && (!v->def || tc_tensor_argument(v)))
        return tc_tensor_argument(v);
    v = v ? v->def->in[0] : op->in[0];
    while (v->def && v->def->nin &&
           tc_type_elem(v->def->in[0]->type)->kind == TC_PTR &&
           tc_op_has(v->def, TC_PURE))
        v = v->def->in[0];
    return !v->def && !v->region->op ? v : NULL;
}

/* Tensors of as many dims as each other, or pointers. */
static bool may_be_in_place(const tc_value *a, const tc_value *b)
{
    bool tensors = a->type->kind == TC_TENSOR && b->type->kind == TC_TENSOR;
    return !tensors || a->type->rank == b->type->rank;
}

/* May they be the same memory? Only in place: what is loaded first is stored
 * to later. */
static bool may_meet(const tc_op *a, const tc_op *b)
{
    const tc_value *x = argument_of(a), *y = argument_of(b);
    bool known = x && y;
    return !known || x == y ||
           (!tc_writes_global(a) && !changes_in_steps(b) &&
            tc_writes_global(b) && may_be_in_place(x, y));
}

bool tc_may_change_loaded(const tc_op *op, const tc_op *load)
{
    if (orders_memory(op))
        return true;
    if (!tc_writes_global(op) && op->code != TC_TMA_STORE)
        return false;
    const tc_value *x = argument_of(op), *y = argument_of(load);
    return !x || !y || x == y;
}

bool tc_may_change_loaded_in(const tc_region *r, const tc_op *load)
{
    tc_each_nested (op, r) {
        if (op->code == TC_CALL || tc_may_change_loaded(op, load))
            return true;
    }
    return false;
}

bool tc_global_conflict(const tc_op *a, const tc_op *b, const tc_op *carrier)
{
    if (changes_in_steps(a) && changes_in_steps(b))
        return false;
    if (orders_memory(a) || orders_memory(b))
        return true;
    if (!tc_writes_global(a) && !tc_writes_global(b))
        return false;
    return may_meet(a, b) && !same_threads(a, b, carrier) &&
           !apart(a, b, carrier);
}
