/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/check.h"

#include "codegen/interp/interp.h"
#include "lib/gpu/gpu.h"
#include "lib/program/launch.h"
#include "lib/program/plan.h"
#include "tools/common/render.h"

#include <stdlib.h>
#include <string.h>

/* The interpreter's input for one argument. */
typedef struct host_arg {
    int32_t sizes[TC_MAX_RANK];
    int64_t strides[TC_MAX_RANK];
    uint64_t bytes; /* of the tensor that a pointer goes to */
} host_arg;

typedef struct checking {
    const tilec_argument *args;
    size_t nargs;
    tc_context *cx;
    tc_module *module;
    const char *text;
    bool ok, fits; /* the tensors are aligned as this variant wants them */
} checking;

/* A pointer goes to a tensor of any rank. */
static bool is_such(const DLTensor *t, const tc_type *want)
{
    const tc_type *elem = want->holds ? want->holds : want->elem;
    return t && tc_dl_holds(t->dtype, elem->kind) &&
           (want->kind == TC_PTR || (unsigned)t->ndim == want->rank);
}

static bool take_tensor(const tc_value *v, const DLTensor *t, host_arg *host,
                        tc_launch_arg *out, tc_context *cx)
{
    const tc_type *want = v->type;
    bool takes = want->kind == TC_TENSOR || want->kind == TC_PTR;
    if (!takes || !is_such(t, want))
        return tc_error(cx, v->loc, "argument %s: expected %s", v->name,
                        tc_type_name(cx, want));
    int64_t stride = 1;
    for (int i = t->ndim; i-- > 0;) {
        if (want->kind == TC_TENSOR) {
            host->sizes[i] = (int32_t)t->shape[i];
            host->strides[i] = t->strides ? t->strides[i] : stride;
        }
        stride *= t->shape[i];
    }
    host->bytes = (uint64_t)stride * tc_type_bytes(want->elem);
    *out = (tc_launch_arg){
        host->sizes, host->strides, {0}, (char *)t->data + t->byte_offset};
    return true;
}

/* Arguments that the kernel does not use may be missing. */
static bool take_argument(const checking *c, unsigned index, host_arg *host,
                          tc_launch_arg *out)
{
    const tc_value *v = c->module->first->body->args[index];
    const tilec_argument *a = NULL;
    for (size_t i = 0; i < c->nargs; i++)
        if (strcmp(c->args[i].name, v->name) == 0)
            a = &c->args[i];
    *out = (tc_launch_arg){.sizes = host->sizes, .strides = host->strides};
    if (!a && !tc_parameter_is_used(c->module->first, index))
        return true;
    if (!a)
        return tc_error(c->cx, v->loc, "argument %s is missing: %s", v->name,
                        tc_type_name(c->cx, v->type));
    if (a->kind == TILEC_ARG_TENSOR || !tc_type_is_scalar(v->type))
        return take_tensor(v, a->kind == TILEC_ARG_TENSOR ? a->tensor : NULL,
                           host, out, c->cx);
    bool is_float = a->kind == TILEC_ARG_FLOAT;
    out->scalar.i = is_float ? (int64_t)a->f : a->i;
    out->scalar.f = is_float ? a->f : (double)a->i;
    return true;
}

/* Runs under tc_guard: memory that runs out unwinds. */
static void check(void *user)
{
    checking *c = user;
    c->module = tc_module_new(c->cx);
    uint32_t source =
        tc_source_add(c->cx, "<machine>", c->text, strlen(c->text));
    if (!tc_parse(c->module, source) || !tc_module_verify(c->module))
        return;
    tc_func *f = c->module->first;
    unsigned n = f->body->nargs;
    host_arg *hosts = tc_arena_array(&c->module->arena, host_arg, n);
    tc_launch_arg *args = tc_arena_array(&c->module->arena, tc_launch_arg, n);
    uint64_t *bytes = tc_arena_array(&c->module->arena, uint64_t, n);
    bool ok = true;
    for (unsigned i = 0; i < n; i++) {
        ok &= take_argument(c, i, &hosts[i], &args[i]);
        bytes[i] = hosts[i].bytes;
    }
    tc_interp_options o = {
        .num_sms = 2, .print = show_line, .pointer_bytes = bytes};
    c->fits = !ok || tc_interp_takes(f, args);
    c->ok = ok && c->fits && tc_interp_run(f, args, &o);
}

/* One variant of the kernel; *fits: that was the one for these tensors. */
static int check_variant(const tilec_kernel *k, int which,
                         const tilec_argument *args, size_t nargs, bool *fits)
{
    tc_gpu_code *code;
    tilec_error e = TILEC_INIT(tilec_error);
    if (tc_gpu_variant(k, which, &code, &e))
        return report_error(&e);
    checking c = {.args = args,
                  .nargs = nargs,
                  .cx = tc_context_new(),
                  .text = tc_gpu_code_text(code, "machine"),
                  .fits = true};
    bool ran = c.cx && tc_guard(&c.cx->memory, check, &c);
    if (ran)
        render_diags(stderr, c.cx);
    else
        report("out of memory");
    tc_module_free(c.module);
    tc_context_free(c.cx);
    *fits = c.fits;
    return !ran ? EXIT_MACHINE : c.ok ? EXIT_DONE : EXIT_INPUT;
}

/* What a launch would refuse of those that are given is refused alike. */
static int check_arguments(const tilec_kernel *k, const tilec_argument *args,
                           size_t nargs)
{
    tilec_error e = TILEC_INIT(tilec_error);
    tc_slot *slots = calloc(k->nparams, sizeof *slots);
    tc_launch_arg *out = calloc(k->nparams, sizeof *out);
    int device, code = EXIT_DONE;
    if (!slots || !out) {
        report("out of memory");
        code = EXIT_MACHINE;
    } else if (tc_arguments_check(k, args, nargs, true, slots, out, &device,
                                  &e)) {
        code = report_error(&e);
    }
    free(slots);
    free(out);
    return code;
}

/* A kernel: the variant for these tensors. */
static int check_kernel(const tilec_kernel *k, const tilec_argument *args,
                        size_t nargs)
{
    bool fits;
    int code = check_variant(k, TC_GPU_ALIGNED, args, nargs, &fits);
    if (!fits && k->func->nmultiples)
        code = check_variant(k, TC_GPU_UNEVEN, args, nargs, &fits);
    if (!fits)
        code = check_variant(k, TC_GPU_ANY, args, nargs, &fits);
    if (!fits)
        report("@%s asks for tensors that are "
               "`aligned`, which these are not: addresses and "
               "strides of multiples of 16 bytes",
               tilec_kernel_name(k));
    return code;
}

/* ---- Plans ---- */

typedef struct checked_plan {
    unsigned nlaunches;
    int code; /* of the launch that failed, whose findings are printed */
} checked_plan;

/* A plan gives arguments in the order of the kernel's parameters. */
static tilec_status check_launch(void *user, const tilec_kernel *k,
                                 const tilec_argument *args, size_t nargs,
                                 tilec_error *error)
{
    checked_plan *c = user;
    tilec_argument *named = calloc(nargs + 1, sizeof *named);
    if (!named) {
        report("out of memory");
        c->code = EXIT_MACHINE;
        return TILEC_MACHINE;
    }
    for (size_t i = 0; i < nargs; i++) {
        named[i] = args[i];
        named[i].name = k->params[i].info.name;
    }
    c->nlaunches++;
    c->code = check_kernel(k, named, nargs);
    free(named);
    return c->code ? TILEC_INPUT : TILEC_OK;
}

/* NaN, and ints far from 0, where nothing is written. */
static void *workspace_of(size_t bytes)
{
    size_t whole = (bytes + TC_LEAST_ALIGN) / TC_LEAST_ALIGN * TC_LEAST_ALIGN;
    void *memory = aligned_alloc(TC_LEAST_ALIGN, whole);
    if (memory)
        memset(memory, 0xff, whole);
    return memory;
}

static int check_plan(const tilec_kernel *k, const tilec_argument *args,
                      size_t nargs)
{
    checked_plan c = {0};
    tc_plan_host host = {check_launch, &c};
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    if (tilec_kernel_workspace(k, args, nargs, &o.workspace_bytes, &e))
        return report_error(&e);
    o.workspace = workspace_of(o.workspace_bytes);
    if (!o.workspace) {
        report("no memory for the workspace");
        return EXIT_MACHINE;
    }
    tilec_status st = tc_plan_run_on_host(k, args, nargs, &o, &host, &e);
    free(o.workspace);
    if (c.code)
        return c.code;
    if (st)
        return report_error(&e);
    render_line(stderr, "%s: the schedules of %u launches for %s have no races",
                tilec_kernel_name(k), c.nlaunches, tilec_kernel_target(k));
    return EXIT_DONE;
}

int check_schedule(const tilec_kernel *k, const tilec_argument *args,
                   size_t nargs)
{
    if (!tc_target_is_gpu(k->target)) {
        report("--check-schedule is for GPU targets, as "
               "--target sm_80");
        return EXIT_USAGE;
    }
    if (k->plan)
        return check_plan(k, args, nargs);
    int code = check_arguments(k, args, nargs);
    if (code)
        return code;
    code = check_kernel(k, args, nargs);
    if (code == EXIT_DONE)
        render_line(stderr, "%s: the schedule for %s has no races",
                    tilec_kernel_name(k), tilec_kernel_target(k));
    return code;
}
