/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier's rules for plans (verify.c, 46 to 50).
 */
#include "ir/given.h"
#include "ir/plan.h"
#include "ir/verify/verify.h"

#include <string.h>

/* ---- What stands where ---- */

static bool is_plan_op(const tc_op *op)
{
    return op->code == TC_WORKSPACE || op->code == TC_FILL ||
           op->code == TC_LAUNCH;
}

static bool is_host_op(const tc_op *op)
{
    if (op->code == TC_ASSERT || op->code == TC_IF ||
        tc_op_has(op, TC_TERMINATOR))
        return true;
    if (!tc_op_has(op, TC_PURE) || op->nregions || op->code == TC_BASE ||
        op->code == TC_PROGRAM_ID || op->code == TC_NUM_PROGRAMS)
        return false;
    for (unsigned i = 0; i < op->nout; i++)
        if (op->out[i] && op->out[i]->type &&
            !tc_type_is_scalar(op->out[i]->type))
            return false;
    return true;
}

bool tc_verify_plan_place(const tc_verifier *v, const tc_op *op)
{
    const char *name = tc_op_name(op);
    if (!v->f->is_plan)
        return !is_plan_op(op) ||
               tc_error(v->cx, op->loc,
                        "%s: expected it in a plan, not in a %s", name,
                        tc_func_word(v->f));
    if (op->code == TC_IF && op->nout)
        return tc_error(v->cx, op->loc,
                        "if: %u results, expected none in a plan", op->nout);
    return is_plan_op(op) || is_host_op(op) ||
           tc_error(v->cx, op->loc,
                    "%s: cannot stand in a plan, expected workspace, fill, "
                    "launch, if, assert, or pure ops on scalars and sizes",
                    name);
}

/* ---- workspace ---- */

static bool check_order(const tc_verifier *v, const tc_op *op)
{
    const tc_attr *order = tc_op_attr(op, "order");
    unsigned rank = op->out[0]->type->rank;
    uint64_t seen = 0;
    if (order->kind == TC_ATTR_NONE)
        return true;
    for (unsigned i = 0; i < order->n; i++)
        if (order->ints[i] >= 0 && order->ints[i] < rank)
            seen |= (uint64_t)1 << order->ints[i];
    if (order->n != rank || seen != ((uint64_t)1 << rank) - 1)
        return tc_error(v->cx, op->loc,
                        "workspace: order: expected each of the %u dims once, "
                        "the one that lies closest last",
                        rank);
    const tc_dim *closest = op->out[0]->type->contiguous;
    return !rank || !closest || closest->kind != TC_DIM_CONST ||
           closest->value == order->ints[rank - 1] ||
           tc_error(v->cx, op->loc,
                    "workspace: order: dim %lld lies closest, expected dim "
                    "%lld, in which %s is contiguous",
                    (long long)order->ints[rank - 1], (long long)closest->value,
                    tc_type_name(v->cx, op->out[0]->type));
}

static bool check_align(const tc_verifier *v, const tc_op *op)
{
    int64_t n = tc_op_int(op, "align");
    if (!tc_op_has_attr(op, "align") ||
        (n > 0 && n <= TC_MOST_ALIGN && (n & (n - 1)) == 0))
        return true;
    return tc_error(v->cx, op->loc,
                    "workspace: align is %lld, expected a power of two up to "
                    "%d (bytes)",
                    (long long)n, TC_MOST_ALIGN);
}

bool tc_verify_workspace(const tc_verifier *v, const tc_op *op)
{
    const tc_type *t = op->nout == 1 ? op->out[0]->type : NULL;
    if (!t || t->kind != TC_TENSOR || t->elem->kind == TC_PTR)
        return tc_error(v->cx, op->loc,
                        "workspace: result is %s, expected a tensor of ints "
                        "or floats",
                        t ? tc_type_name(v->cx, t) : "nothing");
    if (tc_kind_is_packed(t->elem->kind))
        return tc_error(v->cx, op->loc,
                        "workspace: result is %s, expected elements of whole "
                        "bytes",
                        tc_type_name(v->cx, t));
    unsigned open = 0;
    for (unsigned i = 0; i < t->rank; i++)
        open += t->dims[i] == NULL;
    if (op->nin != open)
        return tc_error(v->cx, op->loc,
                        "workspace: %u size%s, expected %u, one for each `?` "
                        "of %s",
                        op->nin, op->nin == 1 ? "" : "s", open,
                        tc_type_name(v->cx, t));
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->type->kind != TC_I32)
            return tc_error(v->cx, op->loc,
                            "workspace: size %u is %s, expected i32", i,
                            tc_type_name(v->cx, op->in[i]->type));
    return check_order(v, op) & check_align(v, op);
}

/* ---- fill ---- */

bool tc_verify_fill(const tc_verifier *v, const tc_op *op)
{
    const tc_attr *value = tc_op_attr(op, "value");
    return value->kind == TC_ATTR_NONE ||
           tc_verify_fits(v, op, "value ", value->number,
                          op->in[0]->type->elem);
}

/* ---- launch ---- */

static bool check_complete(const tc_verifier *v, const tc_op *op,
                           const tc_func *f, const tc_bindings *b)
{
    for (unsigned i = 0; i < f->nparams; i++) {
        const tc_param *p = &f->params[i];
        if (b->dims[i] || b->types[i] || p->dim || p->type || p->symbol ||
            tc_given_index(op, p->name) >= 0)
            continue;
        tc_error(v->cx, op->loc,
                 "launch: @%s needs a value for `%s`, as @%s[%s=...]", f->name,
                 p->name, f->name, p->name);
        if (p->loc.file)
            tc_note(v->cx, p->loc, "the parameter is here");
        return false;
    }
    return true;
}

bool tc_verify_launch(const tc_verifier *v, const tc_op *op)
{
    const tc_func *f = tc_launch_kernel(op);
    if (!f)
        return tc_error(v->cx, op->loc, "launch: there is no kernel %s",
                        tc_op_word(op, "callee"));
    unsigned most = f->body->nargs, least = tc_kernel_own_args(f);
    if (op->nin < least || op->nin > most)
        return tc_error(v->cx, op->loc,
                        "launch: @%s takes %u argument%s, found %u", f->name,
                        least, least == 1 ? "" : "s", op->nin);
    if (!tc_given_check(op, f))
        return false;
    tc_arena *a = &v->cx->diag_arena;
    tc_bindings b = {.n = f->nparams,
                     .names = tc_arena_array(a, const char *, f->nparams),
                     .dims = tc_arena_array(a, const tc_dim *, f->nparams),
                     .types = tc_arena_array(a, const tc_type *, f->nparams)};
    for (unsigned i = 0; i < f->nparams; i++)
        b.names[i] = f->params[i].name;
    return tc_launch_bind(op, f, &b) && check_complete(v, op, f, &b);
}
