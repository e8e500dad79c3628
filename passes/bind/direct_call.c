/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/bind/direct_call.h"

#include "ir/fastmath.h"

#include <string.h>

tc_value *tc_call_offer(const tc_op *call, const char *name)
{
    const tc_attr *names = tc_op_attr(call, "names");
    unsigned first = tc_call_npositional(call);
    for (unsigned i = 0; i < names->n; i++)
        if (strcmp(names->strings[i], name) == 0)
            return call->in[first + i];
    return NULL;
}

void tc_call_replace(tc_op *op, tc_op *with)
{
    tc_arena *a = &op->func->module->arena;
    const tc_type **types = tc_arena_array(a, const tc_type *, op->nout);
    for (unsigned i = 0; i < op->nout; i++)
        types[i] = op->out[i]->type;
    tc_op_set_results(with, op->nout, types);
    tc_op_insert(with, op->parent, op);
    for (unsigned i = 0; i < op->nout; i++) {
        with->out[i]->name = op->out[i]->name;
        tc_value_replace(op->out[i], with->out[i]);
    }
    tc_op_erase(op);
}

tc_op *tc_call_direct(tc_arena *scratch, tc_op *call, const tc_func *f,
                      tc_value *const *in)
{
    bool vjp = call->code == TC_VJP;
    unsigned n = f->body->nargs;
    tc_value **all = tc_arena_array(scratch, tc_value *, n + 1);
    memcpy(all, in, n * sizeof *all);
    if (vjp)
        all[n++] = call->in[tc_vjp_seed(call)];
    tc_op *direct = tc_op_new(call->func, call->code, call->loc, n, all, 0);
    tc_op_set_fastmath(direct, tc_op_own_fastmath(call));
    tc_op_set_word(direct, "callee", tc_arena_printf(scratch, "@%s", f->name));
    if (vjp)
        tc_op_set_attr(direct, "accumulate", *tc_op_attr(call, "accumulate"));
    tc_call_replace(call, direct);
    return direct;
}
