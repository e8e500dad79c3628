/* SPDX-License-Identifier: Apache-2.0 */
#include "test/machine/plan.h"

#include "codegen/interp/interp.h"
#include "lib/gpu/gpu.h"
#include "lib/program/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGS = 64 };

typedef struct arguments {
    tc_launch_arg arg[MOST_ARGS];
    int32_t sizes[MOST_ARGS][TC_MAX_RANK];
    int64_t strides[MOST_ARGS][TC_MAX_RANK];
} arguments;

static void take_tensor(arguments *to, size_t i, const DLTensor *t)
{
    int64_t stride = 1;
    for (int d = t->ndim; d-- > 0; stride *= t->shape[d]) {
        to->sizes[i][d] = (int32_t)t->shape[d];
        to->strides[i][d] = t->strides ? t->strides[d] : stride;
    }
    to->arg[i].sizes = to->sizes[i];
    to->arg[i].strides = to->strides[i];
    to->arg[i].data = (char *)t->data + t->byte_offset;
}

static void take_arguments(arguments *to, const tilec_argument *args, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const tilec_argument *a = &args[i];
        to->arg[i] = (tc_launch_arg){0};
        if (a->kind == TILEC_ARG_TENSOR)
            take_tensor(to, i, a->tensor);
        else if (a->kind == TILEC_ARG_FLOAT)
            to->arg[i].scalar.f = a->f;
        else
            to->arg[i].scalar.i = a->i;
    }
}

/* *fits: this code is for tensors that lie as these do. */
static bool interpret_text(const char *text, const arguments *args, bool *fits)
{
    tc_context *cx = tc_context_new();
    tc_module *m = tc_module_new(cx);
    tc_interp_options how = {.num_sms = 2};
    bool ok = tc_parse(m, tc_source_add(cx, "machine", text, strlen(text))) &&
              tc_module_verify(m);
    *fits = ok && tc_interp_takes(m->first, args->arg);
    ok = *fits && tc_interp_run(m->first, args->arg, &how);
    for (const tc_diag *d = cx->diags; d; d = d->next)
        if (d->severity == TC_ERROR)
            printf("%u:%u: %s\n", d->loc.line, d->loc.col, d->message);
    tc_module_free(m);
    tc_context_free(cx);
    return ok;
}

static tilec_status interpret_launch(void *user, const tilec_kernel *k,
                                     const tilec_argument *args, size_t nargs,
                                     tilec_error *error)
{
    static const int variants[] = {TC_GPU_ALIGNED, TC_GPU_UNEVEN, TC_GPU_ANY};
    arguments taken;
    tc_gpu_code *code;
    bool fits = false, ok = false;
    if (nargs > MOST_ARGS)
        return TILEC_INPUT;
    take_arguments(&taken, args, nargs);
    for (int i = 0; i < 3 && !fits; i++) {
        if (variants[i] == TC_GPU_UNEVEN && !k->func->nmultiples)
            continue;
        if (tc_gpu_variant(k, variants[i], &code, error))
            return TILEC_INPUT;
        ok = interpret_text(tc_gpu_code_text(code, "machine"), &taken, &fits);
    }
    *(bool *)user &= ok;
    return ok ? TILEC_OK : TILEC_INPUT;
}

bool plan_interpret(const tilec_kernel *plan, const tilec_argument *args,
                    size_t nargs)
{
    enum { ALIGN = 256 };
    bool ok = true;
    tc_plan_host host = {interpret_launch, &ok};
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    if (!plan->plan)
        return !interpret_launch(&ok, plan, args, nargs, &e) && ok;
    if (tilec_kernel_workspace(plan, args, nargs, &o.workspace_bytes, &e))
        return false;
    size_t room = (o.workspace_bytes + ALIGN) / ALIGN * ALIGN;
    o.workspace = aligned_alloc(ALIGN, room);
    memset(o.workspace, 0xff, room);
    ok &= !tc_plan_run_on_host(plan, args, nargs, &o, &host, &e) && ok;
    if (!ok)
        printf("%s\n", e.message);
    free(o.workspace);
    return ok;
}
