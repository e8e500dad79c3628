/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/loop_slots.h"

#include <assert.h>
#include <string.h>

bool tc_op_has_slots(const tc_op *op)
{
    return tc_op_is_loop(op) || op->code == TC_IF;
}

unsigned tc_slot_operands_before(const tc_op *op)
{
    return op->code == TC_FOR ? 3 : op->code == TC_IF ? 1 : 0;
}

static unsigned args_before(const tc_op *op)
{
    return op->code == TC_FOR ? 1 : 0;
}

tc_value *tc_slot_arg(const tc_op *op, unsigned i)
{
    return op->code == TC_IF ? NULL : op->regions[0]->args[args_before(op) + i];
}

tc_value *tc_slot_init(const tc_op *op, unsigned i)
{
    return op->code == TC_IF ? NULL : op->in[tc_slot_operands_before(op) + i];
}

tc_op *tc_slot_yield(const tc_op *op)
{
    return tc_region_terminator(op->regions[op->code == TC_WHILE]);
}

static void drop_operands(tc_op *yield, const bool *drop)
{
    tc_arena *a = &yield->func->module->arena;
    tc_value **in = tc_arena_array(a, tc_value *, yield->nin);
    unsigned n = 0;
    for (unsigned i = 0; i < yield->nin; i++)
        if (!drop[i])
            in[n++] = yield->in[i];
    tc_builder b = tc_builder_before(yield);
    tc_build_yield(&b, n, in);
    tc_op_erase(yield);
}

void tc_slots_unyield(tc_op *op, const bool *drop)
{
    for (unsigned i = 0; i < op->nregions; i++) {
        tc_op *last = tc_region_terminator(op->regions[i]);
        if (last->code == TC_YIELD)
            drop_operands(last, drop);
    }
}

/* A new op, not inserted yet, that takes over attributes and regions. */
static tc_op *take_over(tc_op *op, unsigned nin, tc_value *const *in)
{
    tc_op *now = tc_op_new(op->func, op->code, op->loc, nin, in, op->nregions);
    unsigned nattrs = tc_op_nattrs(op->code);
    if (nattrs)
        memcpy(now->attrs, op->attrs, nattrs * sizeof *now->attrs);
    for (unsigned i = 0; i < op->nregions; i++) {
        now->regions[i] = op->regions[i];
        now->regions[i]->op = now;
    }
    op->nregions = 0;
    return now;
}

static void take_result(tc_value *now, tc_value *old)
{
    now->name = old->name;
    now->loc = old->loc;
    tc_value_replace(old, now);
}

/* Operands that stay, in a new op. */
static tc_op *shrink(tc_op *op, const bool *drop)
{
    tc_arena *a = &op->func->module->arena;
    tc_value **in = tc_arena_array(a, tc_value *, op->nin);
    unsigned nin = 0, first = tc_slot_operands_before(op);
    for (unsigned i = 0; i < op->nin; i++)
        if (i < first || !drop[i - first])
            in[nin++] = op->in[i];
    return take_over(op, nin, in);
}

static void take_results(tc_op *now, tc_op *op, const bool *drop)
{
    const tc_type **types =
        tc_arena_array(&op->func->module->arena, const tc_type *, op->nout);
    unsigned n = 0;
    for (unsigned i = 0; i < op->nout; i++)
        if (!drop[i])
            types[n++] = op->out[i]->type;
    tc_op_set_results(now, n, types);
    n = 0;
    for (unsigned i = 0; i < op->nout; i++) {
        if (!drop[i])
            take_result(now->out[n++], op->out[i]);
    }
}

tc_op *tc_slots_remove(tc_op *op, const bool *drop)
{
    for (unsigned i = op->nout; op->code != TC_IF && i-- > 0;)
        if (drop[i])
            tc_region_remove_arg(op->regions[0], args_before(op) + i);
    tc_op *now = shrink(op, drop);
    tc_op_insert(now, op->parent, op);
    take_results(now, op, drop);
    tc_op_erase(op);
    return now;
}

/* ---- Adding ---- */

static void grow_yield(tc_op *yield, unsigned n, tc_value *const *args)
{
    tc_arena *a = &yield->func->module->arena;
    tc_value **in = tc_arena_array(a, tc_value *, yield->nin + n);
    memcpy(in, yield->in, yield->nin * sizeof *in);
    for (unsigned i = 0; i < n; i++)
        in[yield->nin + i] = args[i];
    tc_builder b = tc_builder_before(yield);
    tc_build_yield(&b, yield->nin + n, in);
    tc_op_erase(yield);
}

/* The op with n operands more, which takes over the regions. */
static tc_op *grow(tc_op *op, unsigned n, tc_value *const *init)
{
    tc_arena *a = &op->func->module->arena;
    tc_value **in = tc_arena_array(a, tc_value *, op->nin + n);
    memcpy(in, op->in, op->nin * sizeof *in);
    for (unsigned i = 0; i < n; i++)
        in[op->nin + i] = init[i];
    return take_over(op, op->nin + n, in);
}

tc_op *tc_slots_add(tc_op *op, unsigned n, tc_value *const *init,
                    const char *const *names)
{
    assert(tc_op_is_loop(op));
    unsigned nout = op->nout;
    tc_arena *a = &op->func->module->arena;
    const tc_type **types = tc_arena_array(a, const tc_type *, nout + n);
    tc_value **args = tc_arena_array(a, tc_value *, n);
    for (unsigned i = 0; i < nout; i++)
        types[i] = op->out[i]->type;
    for (unsigned i = 0; i < n; i++) {
        types[nout + i] = init[i]->type;
        args[i] =
            tc_region_add_arg(op->regions[0], init[i]->type, names[i], op->loc);
    }
    grow_yield(tc_slot_yield(op), n, args);
    tc_op *now = grow(op, n, init);
    tc_op_set_results(now, nout + n, types);
    tc_op_insert(now, op->parent, op);
    for (unsigned i = 0; i < nout; i++)
        take_result(now->out[i], op->out[i]);
    for (unsigned i = 0; i < n; i++)
        now->out[nout + i]->name = names[i];
    tc_op_erase(op);
    return now;
}

tc_op *tc_slots_add_result(tc_op *op, unsigned from, tc_value *v,
                           tc_value *other)
{
    assert(op->code == TC_IF);
    unsigned nout = op->nout;
    const tc_type **types =
        tc_arena_array(&op->func->module->arena, const tc_type *, nout + 1);
    for (unsigned i = 0; i < nout; i++)
        types[i] = op->out[i]->type;
    types[nout] = v->type;
    for (unsigned i = 0; i < 2; i++)
        grow_yield(tc_region_terminator(op->regions[i]), 1,
                   i == from ? &v : &other);
    tc_op *now = take_over(op, op->nin, op->in);
    tc_op_set_results(now, nout + 1, types);
    tc_op_insert(now, op->parent, op);
    for (unsigned i = 0; i < nout; i++)
        take_result(now->out[i], op->out[i]);
    tc_op_erase(op);
    return now;
}

void tc_slot_set_next(tc_op *op, unsigned i, tc_value *next)
{
    tc_op_set_in(tc_slot_yield(op), i, next);
}

bool tc_region_yields(const tc_region *r, const tc_value *v)
{
    const tc_op *yield = tc_region_terminator(r);
    for (unsigned i = 0; i < yield->nin; i++)
        if (yield->in[i] == v)
            return true;
    return false;
}

void tc_region_move_before(tc_region *r, tc_op *op)
{
    tc_each_op_safe (inner, r) {
        if (tc_op_has(inner, TC_TERMINATOR))
            continue;
        tc_op_remove(inner);
        tc_op_insert(inner, op->parent, op);
    }
}
