/* SPDX-License-Identifier: Apache-2.0
 *
 * A function is at one level (verify.c, rule 51): at tile level tiles have no
 * layouts, at machine level all have, over the warps that the kernel names.
 */
#include "ir/verify/verify.h"

static bool is_bare(const tc_value *v)
{
    return v->type->kind == TC_TILE && !v->type->layout;
}

static bool is_placed(const tc_value *v)
{
    return v->type->kind == TC_TILE && v->type->layout;
}

/* The first value among results and arguments of regions. */
static const tc_value *find_value(const tc_region *r,
                                  bool (*is)(const tc_value *v))
{
    const tc_value *found = NULL;
    for (unsigned i = 0; i < r->nargs; i++)
        if (is(r->args[i]))
            return r->args[i];
    for (const tc_op *op = r->first; op && !found; op = op->next) {
        for (unsigned i = 0; i < op->nout; i++)
            if (is(op->out[i]))
                return op->out[i];
        for (unsigned i = 0; i < op->nregions && !found; i++)
            found = find_value(op->regions[i], is);
    }
    return found;
}

const tc_value *tc_func_bare_tile(const tc_func *f)
{
    return find_value(f->body, is_bare);
}

static const tc_op *find_machine_op(const tc_region *r)
{
    const tc_op *found = NULL;
    for (const tc_op *op = r->first; op && !found; op = op->next) {
        bool is_one = tc_op_has(op, TC_MACHINE);
        for (unsigned i = 0; i < op->nout; i++)
            is_one |= is_placed(op->out[i]);
        if (is_one)
            return op;
        for (unsigned i = 0; i < op->nregions && !found; i++)
            found = find_machine_op(op->regions[i]);
    }
    return found;
}

const tc_op *tc_func_machine_op(const tc_func *f)
{
    return find_machine_op(f->body);
}

bool tc_verify_level(const tc_verifier *v)
{
    const tc_value *bare = tc_func_bare_tile(v->f);
    const tc_op *op = tc_func_machine_op(v->f);
    if (op && bare) {
        tc_loc at = bare->def ? bare->def->loc : op->loc;
        tc_error(v->cx, at,
                 "%s%s without a layout in a function of the machine level: "
                 "expected a layout of every tile, or of none and no op of "
                 "that level",
                 bare->def ? tc_op_name(bare->def) : "an argument: ",
                 bare->def ? ": a tile" : "a tile");
        tc_note(v->cx, op->loc, "%s is of the machine level", tc_op_name(op));
        return false;
    }
    return !op || !v->f->is_kernel || v->f->warps ||
           tc_error(v->cx, op->loc,
                    "%s: at machine level, in a kernel without warps(n), "
                    "which says for how many warps it is",
                    tc_op_name(op));
}
