/* SPDX-License-Identifier: Apache-2.0
 *
 * Active values: floats that depend on a differentiated parameter. Their
 * adjoints are kept separately for each op with regions.
 */
#include "passes/grad/reverse.h"

#include <string.h>

/* ---- Activity ---- */

/* Marks v where it can have a derivative. Does that add anything? */
static bool activate(tc_adjoints *a, tc_value *v)
{
    if (!tc_type_is_float(v->type) || tc_is_active(a, v))
        return false;
    tc_map_set(&a->active, v, v);
    return true;
}

static bool activate_region(tc_adjoints *a, tc_region *r);

/* `to[i]` where `from[i]` is active. */
static bool activate_each(tc_adjoints *a, unsigned n, tc_value **from,
                          tc_value **to)
{
    bool more = false;
    for (unsigned i = 0; i < n; i++)
        if (tc_is_active(a, from[i]))
            more |= activate(a, to[i]);
    return more;
}

/* Loops carry activity from step to step. */
static bool activate_loop(tc_adjoints *a, tc_op *op, unsigned first_in,
                          unsigned first_arg)
{
    tc_region *head = op->regions[0], *body = op->regions[op->nregions - 1];
    tc_value **args = head->args + first_arg;
    bool more = activate_each(a, op->nout, op->in + first_in, args), grows;
    do {
        grows = false;
        for (unsigned i = 0; i < op->nregions; i++)
            grows |= activate_region(a, op->regions[i]);
        grows |=
            activate_each(a, op->nout, tc_region_terminator(body)->in, args);
        more |= grows;
    } while (grows);
    return more | activate_each(a, op->nout, args, op->out);
}

static bool activate_op(tc_adjoints *a, tc_op *op)
{
    bool more = false;
    if (op->code == TC_FOR)
        return activate_loop(a, op, 3, 1);
    if (op->code == TC_WHILE)
        return activate_loop(a, op, 0, 0);
    for (unsigned i = 0; i < op->nregions; i++) {
        more |= activate_region(a, op->regions[i]);
        more |=
            op->code == TC_IF &&
            activate_each(a, op->nout, tc_region_terminator(op->regions[i])->in,
                          op->out);
    }
    if (op->code == TC_IF)
        return more;
    for (unsigned i = 0; i < op->nin; i++)
        for (unsigned k = 0; k < op->nout; k++)
            if (tc_is_active(a, op->in[i]))
                more |= activate(a, op->out[k]);
    return more;
}

static bool activate_region(tc_adjoints *a, tc_region *r)
{
    bool more = false;
    tc_each_op (op, r)
        more |= activate_op(a, op);
    return more;
}

void tc_gradient_activate(tc_adjoints *a, tc_region *r)
{
    activate_region(a, r);
}

/* ---- Active values of outside that a region uses ---- */

static bool is_inside(const tc_op *op, const tc_value *v)
{
    for (unsigned i = 0; i < op->nregions; i++)
        if (v->def ? tc_region_contains(op->regions[i], v->def)
                   : v->region == op->regions[i] ||
                         (v->region->op &&
                          tc_region_contains(op->regions[i], v->region->op)))
            return true;
    return false;
}

static void add_outer(tc_adjoints *a, tc_outers *o, tc_value *v)
{
    for (unsigned i = 0; i < o->n; i++)
        if (o->all[i] == v)
            return;
    if (o->n == o->room) {
        o->room = o->room ? 2 * o->room : 8;
        tc_value **more = tc_arena_array(a->sums.arena, tc_value *, o->room);
        if (o->n)
            memcpy(more, o->all, o->n * sizeof *more);
        o->all = more;
    }
    o->all[o->n++] = v;
}

static void find_outers(tc_adjoints *a, const tc_op *owner, tc_region *r,
                        tc_outers *o)
{
    tc_each_nested (op, r) {
        for (unsigned i = 0; i < op->nin; i++)
            if (tc_is_active(a, op->in[i]) &&
                tc_type_is_scalar(op->in[i]->type) &&
                !is_inside(owner, op->in[i]))
                add_outer(a, o, op->in[i]);
    }
}

tc_outers tc_outers_of(tc_adjoints *a, const tc_op *op)
{
    tc_outers o = {0};
    for (unsigned i = 0; i < op->nregions; i++)
        find_outers(a, op, op->regions[i], &o);
    o.sums = tc_arena_array(a->sums.arena, tc_value *, o.n);
    return o;
}

void tc_outers_set_aside(tc_adjoints *a, tc_outers *o)
{
    for (unsigned i = 0; i < o->n; i++) {
        o->sums[i] = tc_adjoint(a, o->all[i]);
        tc_map_set(&a->sums, o->all[i], NULL);
    }
}

tc_value **tc_outers_take_back(tc_adjoints *a, const tc_outers *o)
{
    tc_value **inner = tc_arena_array(a->sums.arena, tc_value *, o->n);
    for (unsigned i = 0; i < o->n; i++) {
        inner[i] = tc_adjoint(a, o->all[i]);
        tc_map_set(&a->sums, o->all[i], o->sums[i]);
    }
    return inner;
}
