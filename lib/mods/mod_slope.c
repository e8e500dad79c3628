/* SPDX-License-Identifier: Apache-2.0
 *
 * A score function is linear (not curved) if its first parameter is only added
 * to, multiplied by, and selected by values that do not depend on it.
 */
#include "lib/mods/mod_slope.h"

#include "ir/base/map.h"

enum { MOST_DEPTH = 16 };

struct walk {
    tc_map active; /* what depends on the parameter */
    unsigned depth;
};

static bool is_nonlinear(const struct walk *caller, const tc_func *f,
                         const bool *active);

static bool is_active(const struct walk *w, const tc_op *op, unsigned i)
{
    return i < op->nin && tc_map_get(&w->active, op->in[i]);
}

static unsigned count_active(const struct walk *w, const tc_op *op)
{
    unsigned n = 0;
    for (unsigned i = 0; i < op->nin; i++)
        n += is_active(w, op, i);
    return n;
}

static bool is_call_curved(const struct walk *w, const tc_op *op)
{
    const tc_func *f = tc_op_callee(op);
    unsigned named = tc_op_attr(op, "names")->n;
    if (!f || w->depth == MOST_DEPTH || op->nin > f->body->nargs + named)
        return true;
    bool *active = tc_arena_array(w->active.arena, bool, f->body->nargs);
    for (unsigned i = 0; i < op->nin; i++) {
        if (is_active(w, op, i) && i >= op->nin - named)
            return true;
        if (i < f->body->nargs)
            active[i] = is_active(w, op, i);
    }
    return is_nonlinear(w, f, active);
}

/* Of an op with active operands. */
static bool is_op_curved(const struct walk *w, const tc_op *op)
{
    switch (op->code) {
    case TC_ADD:
    case TC_SUB:
    case TC_NEG:
    case TC_CAST:
    case TC_YIELD:
    case TC_RETURN: return false;
    case TC_MUL: return count_active(w, op) > 1;
    case TC_DIV: return is_active(w, op, 1);
    case TC_FMA: return is_active(w, op, 0) && is_active(w, op, 1);
    case TC_SELECT: return is_active(w, op, 0);
    case TC_CALL: return is_call_curved(w, op);
    default: return true;
    }
}

static bool is_nonlinear(const struct walk *caller, const tc_func *f,
                         const bool *active)
{
    struct walk w = {{.arena = caller->active.arena}, caller->depth + 1};
    for (unsigned i = 0; i < f->body->nargs; i++)
        if (active[i])
            tc_map_set(&w.active, f->body->args[i], f->body->args[i]);
    tc_each_op (op, f->body) {
        if (op->nregions)
            return true;
        if (!count_active(&w, op))
            continue;
        if (is_op_curved(&w, op))
            return true;
        for (unsigned i = 0; i < op->nout; i++)
            tc_map_set(&w.active, op->out[i], op->out[i]);
    }
    return false;
}

const char *tc_score_class(tc_arena *a, const tc_module *m,
                           const char *function)
{
    const tc_func *f = tc_func_find(m, function);
    const struct walk w = {{.arena = a}, 0};
    if (!f || !f->body->nargs)
        return "nonlinear";
    bool *active = tc_arena_array(a, bool, f->body->nargs);
    active[0] = true;
    return is_nonlinear(&w, f, active) ? "nonlinear" : "linear";
}
