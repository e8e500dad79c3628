/* SPDX-License-Identifier: Apache-2.0
 *
 * Launching: arguments by position and name, their checks, the grid.
 *
 * A launch shares nothing with other launches but the kernel, which it only
 * reads; errors go to the caller's tilec_error. Most launches take no memory:
 * on a GPU they should cost a few microseconds in all.
 */
#include "lib/program/launch.h"

#include "lib/gpu/launch_graph_cache.h"
#include "lib/host/host_code.h"
#include "lib/program/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct launch {
    const tilec_kernel *k;
    const tilec_argument *given;
    size_t ngiven;
    tilec_error *error;
    tc_slot *slots;
    tc_launch_arg *args;
    tc_scalar *values; /* of the grid's evaluation */
    int device;        /* GPU targets: of the tensors; -1: none says */
    bool partial;      /* see tc_arguments_check */
};

#define REFUSE(l, p, fmt, ...)                                                 \
    tc_fail((l)->error, TILEC_INPUT, "argument %s: " fmt, (p)->info.name,      \
            __VA_ARGS__)

/* ---- Which argument is for which parameter ---- */

static tilec_status unknown_name(struct launch *l, const char *name)
{
    const char *names[64];
    unsigned n = l->k->nparams < 64 ? l->k->nparams : 64;
    for (unsigned i = 0; i < n; i++)
        names[i] = l->k->params[i].info.name;
    const char *near = tc_nearest_name(name, names, n);
    return tc_fail(l->error, TILEC_USAGE, "@%s has no parameter `%.64s`%s%s%s",
                   l->k->func->name, name, near ? "; did you mean `" : "",
                   near ? near : "", near ? "`?" : "");
}

static tilec_status missing(const struct launch *l, const tilec_parameter *p)
{
    const char *kernel = l->k->func->name;
    const char *dot = strchr(p->name, '.');
    if (p->captured && strncmp(p->name, "grad.", 5) == 0)
        return tc_fail(l->error, TILEC_USAGE,
                       "argument %s of @%s is missing: %s, the gradient for "
                       "what a mod captures",
                       p->name, kernel, p->type);
    /* Only numbers can stand in the expression. */
    if (p->captured && dot && strchr(p->type, '<'))
        return tc_fail(l->error, TILEC_USAGE,
                       "argument %s of @%s is missing: %s, which a mod "
                       "captures: give it by that name",
                       p->name, kernel, p->type);
    if (p->captured && dot)
        return tc_fail(l->error, TILEC_USAGE,
                       "argument %s of @%s is missing: %s, which a mod "
                       "captures: give it by that name, or a number in the "
                       "expression, `mod(%s=8)` (or 8 for `%s` in `=%s`)",
                       p->name, kernel, p->type, dot + 1, dot + 1, dot + 1);
    return tc_fail(l->error, TILEC_USAGE, "argument %s of @%s is missing: %s",
                   p->name, kernel, p->type);
}

static tilec_status launch_place(struct launch *l, const tilec_argument *args,
                                 size_t nargs)
{
    const tilec_kernel *k = l->k;
    bool named = false;
    for (size_t i = 0; i < nargs; i++) {
        named |= args[i].name != NULL;
        if (named && !args[i].name)
            return tc_fail(l->error, TILEC_USAGE,
                           "argument %zu has no name, but comes after named "
                           "ones",
                           i);
        if (!named && i >= k->nparams)
            return tc_fail(l->error, TILEC_USAGE,
                           "@%s takes %u arguments, %zu are given",
                           k->func->name, k->nparams, nargs);
        int at = named ? tc_kernel_param_index(k, args[i].name) : (int)i;
        if (at < 0)
            return unknown_name(l, args[i].name);
        if (l->slots[at].given)
            return tc_fail(l->error, TILEC_USAGE, "argument %s is given twice",
                           k->params[at].info.name);
        l->slots[at].given = &args[i];
    }
    for (unsigned i = 0; !l->partial && i < k->nparams; i++)
        if (!l->slots[i].given && !k->params[i].info.unused)
            return missing(l, &k->params[i].info);
    return TILEC_OK;
}

/* ---- Scalars ---- */

static tilec_status check_int(struct launch *l, const tc_kernel_param *p,
                              const tilec_argument *a, tc_scalar *out)
{
    unsigned bits = tc_scalar_infos[p->type->kind].bits;
    if (a->kind != TILEC_ARG_INT)
        return REFUSE(l, p, "is a %s, expected an integer (%s)",
                      a->kind == TILEC_ARG_FLOAT ? "float" : "tensor",
                      p->info.type);
    int64_t low = bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1));
    int64_t high = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    if (bits == 1) {
        low = 0;
        high = 1;
    }
    if (a->i < low || a->i > high)
        return REFUSE(l, p, "%lld does not fit %s (%lld to %lld)",
                      (long long)a->i, p->info.type, (long long)low,
                      (long long)high);
    out->i = a->i;
    return TILEC_OK;
}

static tilec_status check_float(struct launch *l, const tc_kernel_param *p,
                                const tilec_argument *a, tc_scalar *out)
{
    if (a->kind != TILEC_ARG_FLOAT && a->kind != TILEC_ARG_INT)
        return REFUSE(l, p, "is a tensor, expected a number (%s)",
                      p->info.type);
    double x = a->kind == TILEC_ARG_INT ? (double)a->i : a->f;
    out->f = tc_round_to(p->type->kind, x);
    return TILEC_OK;
}

/* ---- Tensors ---- */

/* Pinned and managed memory is both the host's and the devices'. */
static bool is_anywhere(DLDeviceType t)
{
    return t == kDLCUDAHost || t == kDLCUDAManaged;
}

static tilec_status check_host(struct launch *l, const tc_kernel_param *p,
                               DLDevice d)
{
    if (d.device_type == kDLCPU || is_anywhere(d.device_type))
        return TILEC_OK;
    return REFUSE(l, p, "is on DLPack device %d, expected the CPU (%d)",
                  (int)d.device_type, (int)kDLCPU);
}

static tilec_status check_gpu(struct launch *l, const tc_kernel_param *p,
                              DLDevice d)
{
    if (is_anywhere(d.device_type))
        return TILEC_OK;
    if (d.device_type == kDLCPU)
        return REFUSE(l, p,
                      "is in host memory, but @%s runs on a GPU (%s): copy it "
                      "there (tilec_device_copy), or compile for target cpu",
                      l->k->func->name, l->k->target->name);
    if (d.device_type != kDLCUDA)
        return REFUSE(l, p, "is on DLPack device %d, expected CUDA (%d)",
                      (int)d.device_type, (int)kDLCUDA);
    if (l->device >= 0 && l->device != d.device_id)
        return REFUSE(l, p, "is on CUDA device %d, those before on device %d",
                      d.device_id, l->device);
    l->device = d.device_id;
    return TILEC_OK;
}

static tilec_status check_data(struct launch *l, const tc_kernel_param *p,
                               const DLTensor *t, bool is_empty, void **out)
{
    unsigned bytes = tc_type_bytes(p->type->elem);
    if (!t->data && !is_empty)
        return REFUSE(l, p, "%s", "data is NULL, but no dim is 0");
    uintptr_t address = (uintptr_t)t->data + (uintptr_t)t->byte_offset;
    if (address % bytes && !is_empty)
        return REFUSE(l, p, "data is not aligned to its element (%u bytes)",
                      bytes);
    *out = (void *)address;
    return TILEC_OK;
}

static tilec_status check_memory(struct launch *l, const tc_kernel_param *p,
                                 const DLTensor *t, bool is_empty, void **out)
{
    tilec_status s = tc_target_is_gpu(l->k->target)
                         ? check_gpu(l, p, t->device)
                         : check_host(l, p, t->device);
    return s ? s : check_data(l, p, t, is_empty, out);
}

/* Pointers to storage types are pointers to codes. */
static bool is_pointer_to(const tc_type *t, DLDataType given)
{
    tc_kind kind = tc_kind_from_dl(given);
    return t->kind == TC_PTR && tc_kind_is_stored(kind) &&
           !tc_kind_is_packed(kind) &&
           tc_scalar_infos[kind].code == t->elem->kind;
}

/* A byte holds two elements, of which there are less than 2^31 as well. */
static int64_t most_of_dim(const tc_type *t, unsigned dim)
{
    bool packed = t->holds && tc_kind_is_packed(t->holds->kind);
    return packed && dim == tc_type_contiguous(t) ? TC_MAX_SIZE / 2
                                                  : TC_MAX_SIZE;
}

static tilec_status check_dtype(struct launch *l, const tc_kernel_param *p,
                                const DLTensor *t)
{
    const tc_type *elem = p->type->holds ? p->type->holds : p->type->elem;
    if (tc_dl_holds(t->dtype, elem->kind) || is_pointer_to(p->type, t->dtype))
        return TILEC_OK;
    return REFUSE(l, p, "data type is %s, expected %s%s",
                  tc_dtype_name(t->dtype).text,
                  tc_scalar_infos[elem->kind].name,
                  tc_kind_is_packed(elem->kind) ? ", or bytes of two" : "");
}

static tilec_status check_shape(struct launch *l, const tc_kernel_param *p,
                                const DLTensor *t, tc_slot *slot,
                                bool *is_empty)
{
    if (t->ndim < 0 || (unsigned)t->ndim != p->type->rank)
        return REFUSE(l, p, "rank is %d, expected %u", t->ndim, p->type->rank);
    if (t->ndim && !t->shape)
        return tc_fail(l->error, TILEC_USAGE, "argument %s: shape is NULL",
                       p->info.name);
    for (int i = 0; i < t->ndim; i++) {
        int64_t n = t->shape[i];
        if (n < 0)
            return REFUSE(l, p, "dim %d is %lld, expected 0 or more", i,
                          (long long)n);
        int64_t most = most_of_dim(p->type, (unsigned)i);
        if (n > most)
            return REFUSE(l, p, "dim %d is %lld, expected at most %lld", i,
                          (long long)n, (long long)most);
        if (p->info.shape[i] >= 0 && n != p->info.shape[i])
            return REFUSE(l, p, "dim %d is %lld, expected %lld", i,
                          (long long)n, (long long)p->info.shape[i]);
        slot->sizes[i] = (int32_t)n;
        *is_empty |= n == 0;
    }
    return TILEC_OK;
}

/* Row-major where none are given. The furthest element, in bytes, must be an
 * int64: kernels compute addresses without looking again. */
static tilec_status check_strides(struct launch *l, const tc_kernel_param *p,
                                  const DLTensor *t, tc_slot *slot)
{
    int64_t dense = 1, far = 0;
    bool overflow = false;
    for (int i = t->ndim - 1; i >= 0; i--) {
        int64_t n = slot->sizes[i], span;
        slot->strides[i] = t->strides ? t->strides[i] : dense;
        int64_t stride = slot->strides[i];
        overflow |= stride == INT64_MIN;
        stride = stride < 0 && !overflow ? -stride : stride;
        overflow |= __builtin_mul_overflow(n ? n - 1 : 0, stride, &span);
        overflow |= __builtin_add_overflow(far, span, &far);
        if (!t->strides)
            overflow |= __builtin_mul_overflow(dense, n ? n : 1, &dense);
    }
    overflow |= __builtin_mul_overflow(far, 8, &far);
    return overflow
               ? REFUSE(l, p, "%s", "its strides reach beyond 64-bit addresses")
               : TILEC_OK;
}

static tilec_status check_tensor(struct launch *l, const tc_kernel_param *p,
                                 tc_slot *slot, tc_launch_arg *out)
{
    if (slot->given->kind != TILEC_ARG_TENSOR)
        return REFUSE(l, p, "is a number, expected %s", p->info.type);
    const DLTensor *t = slot->given->tensor;
    if (!t)
        return tc_fail(l->error, TILEC_USAGE, "argument %s: tensor is NULL",
                       p->info.name);
    bool is_empty = false;
    tilec_status s = check_dtype(l, p, t);
    if (s == TILEC_OK && p->type->kind == TC_TENSOR)
        s = check_shape(l, p, t, slot, &is_empty);
    if (s == TILEC_OK && p->type->kind == TC_TENSOR)
        s = check_strides(l, p, t, slot);
    if (s == TILEC_OK && !l->partial)
        s = check_memory(l, p, t, is_empty, &out->data);
    out->sizes = slot->sizes;
    out->strides = slot->strides;
    return s;
}

/* An argument that nothing reads: a tensor without elements, 0. */
static void leave_out(tc_slot *slot, tc_launch_arg *out)
{
    memset(slot, 0, sizeof *slot);
    *out = (tc_launch_arg){.sizes = slot->sizes, .strides = slot->strides};
}

static tilec_status prepare(struct launch *l, const tilec_argument *args,
                            size_t nargs)
{
    tilec_status s = launch_place(l, args, nargs);
    for (unsigned i = 0; s == TILEC_OK && i < l->k->nparams; i++) {
        const tc_kernel_param *p = &l->k->params[i];
        tc_slot *slot = &l->slots[i];
        if (!slot->given)
            leave_out(slot, &l->args[i]);
        else if (p->info.kind == TILEC_PARAM_INT)
            s = check_int(l, p, slot->given, &l->args[i].scalar);
        else if (p->info.kind == TILEC_PARAM_FLOAT)
            s = check_float(l, p, slot->given, &l->args[i].scalar);
        else
            s = check_tensor(l, p, slot, &l->args[i]);
    }
    return s;
}

tilec_status tc_arguments_check(const tilec_kernel *k,
                                const tilec_argument *args, size_t nargs,
                                bool partial, tc_slot *slots,
                                tc_launch_arg *out, int *device,
                                tilec_error *error)
{
    struct launch l = {.k = k,
                       .error = error,
                       .slots = slots,
                       .args = out,
                       .device = -1,
                       .partial = partial};
    memset(out, 0, k->nparams * sizeof *out);
    for (unsigned i = 0; i < k->nparams; i++)
        slots[i].given = NULL;
    tilec_status s = prepare(&l, args, nargs);
    *device = l.device;
    return s;
}

/* ---- The grid ---- */

void tc_error_place(tilec_error *error, const tilec_kernel *k, tc_loc loc)
{
    if (loc.file)
        tc_error_at(error, k->cx->sources[loc.file - 1].name, loc.line,
                    loc.col);
}

/* The number of programs that run concurrently; o NULL: no launch, only its
 * grid. */
static int32_t num_sms(const struct launch *l, const tilec_launch_options *o)
{
    tc_host_launch_options h = {.threads = o ? (unsigned)o->threads : 0};
    if (!tc_grid_asks_sms(l->k->grid))
        return 1;
    return l->k->gpu ? tc_gpu_num_sms(l->k, l->device)
                     : (int32_t)tc_host_threads(&h);
}

static tilec_status
evaluate_grid(struct launch *l, const tilec_launch_options *o, int32_t grid[3])
{
    tc_grid_failure failure;
    if (tc_grid_run(l->k->grid, l->args, num_sms(l, o), l->values, grid,
                    &failure))
        return TILEC_OK;
    tc_fail(l->error, TILEC_INPUT, "%s", failure.message);
    tc_error_place(l->error, l->k, failure.loc);
    return TILEC_INPUT;
}

/* ---- Entries ---- */

/* Files are the code's, which other kernels may share. */
static void place_report(tilec_error *error, const tc_host_code *c, tc_loc loc)
{
    if (loc.file)
        tc_error_at(error, c->files[loc.file - 1], loc.line, loc.col);
}

static tilec_status run_host(struct launch *l, const int32_t grid[3],
                             const tilec_launch_options *o)
{
    tc_host_report report = {0};
    const tc_workers *w = &l->k->workers;
    tc_host_launch_options h = {.threads = (unsigned)o->threads,
                                .parallel_for = w->parallel_for,
                                .parallel_user = w->user,
                                .print = o->print,
                                .progress = o->progress,
                                .user = o->user,
                                .every = (uint64_t)o->every};
    if (tc_host_launch(l->k->host, l->args, grid, &h, &report))
        return TILEC_OK;
    if (report.out_of_memory)
        return tc_fail(l->error, TILEC_MACHINE, "%s", report.message);
    tc_fail(l->error, TILEC_INPUT, "%s", report.message);
    place_report(l->error, l->k->host_code, report.loc);
    tc_error_program(l->error, report.program);
    return TILEC_INPUT;
}

static tilec_status launch_run(struct launch *l, const int32_t grid[3],
                               const tilec_launch_options *o)
{
    if (!l->k->gpu)
        return run_host(l, grid, o);
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
        return TILEC_OK;
    tc_gpu_request r = {.k = l->k,
                        .given = l->given,
                        .ngiven = l->ngiven,
                        .slots = l->slots,
                        .args = l->args,
                        .device = l->device,
                        .grid = grid,
                        .options = o,
                        .error = l->error};
    return tc_gpu_launch(&r);
}

static tilec_status prepare_and_run(struct launch *l,
                                    const tilec_argument *args, size_t nargs,
                                    const tilec_launch_options *o,
                                    int32_t grid[3])
{
    memset(l->args, 0, l->k->nparams * sizeof *l->args);
    for (unsigned i = 0; i < l->k->nparams; i++)
        l->slots[i].given = NULL;
    tilec_status s = prepare(l, args, nargs);
    if (s == TILEC_OK)
        s = evaluate_grid(l, o, grid);
    if (s == TILEC_OK && o)
        s = launch_run(l, grid, o);
    return s;
}

/* Most kernels have few parameters and short grids: no malloc for them. */
enum { FEW = 24, SHORT = 64 };

static tilec_status prepare_and(const tilec_kernel *k,
                                const tilec_argument *args, size_t nargs,
                                const tilec_launch_options *o, int32_t grid[3],
                                tilec_error *error)
{
    tc_slot few_slots[FEW];
    tc_launch_arg few_args[FEW];
    tc_scalar few_values[SHORT];
    struct launch l = {.k = k,
                       .given = args,
                       .ngiven = nargs,
                       .error = error,
                       .slots = few_slots,
                       .args = few_args,
                       .values = few_values,
                       .device = -1};
    unsigned room = tc_grid_room(k->grid);
    bool is_large = k->nparams > FEW || room > SHORT;
    if (!is_large)
        return prepare_and_run(&l, args, nargs, o, grid);
    l.slots = malloc((k->nparams + 1) * sizeof *l.slots);
    l.args = malloc((k->nparams + 1) * sizeof *l.args);
    l.values = malloc((room + 1) * sizeof *l.values);
    tilec_status s = l.slots && l.args && l.values
                         ? prepare_and_run(&l, args, nargs, o, grid)
                         : tc_fail_memory(error);
    free(l.slots);
    free(l.args);
    free(l.values);
    return s;
}

static tilec_status wrong_size(const char *function, tilec_error *error)
{
    return tc_fail(error, TILEC_USAGE,
                   "%s: an argument has a wrong size: use tilec_tensor, "
                   "tilec_int or tilec_float",
                   function);
}

tilec_status tilec_launch(const tilec_kernel *k, const tilec_argument *args,
                          size_t nargs, const tilec_launch_options *options,
                          tilec_error *error)
{
    tilec_launch_options o = {0};
    if (!k || (nargs && !args))
        return tc_fail(error, TILEC_USAGE,
                       "tilec_launch: kernel or args is "
                       "NULL");
    if (!tc_arguments_fit(args, nargs))
        return wrong_size("tilec_launch", error);
    if (!tc_options_read(&o, sizeof o, options))
        return tc_fail(error, TILEC_USAGE,
                       "tilec_launch: options have a wrong size: use "
                       "TILEC_INIT");
    bool is_gpu = tc_target_is_gpu(k->target);
    if (o.stream && !is_gpu)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_launch: target %s has no streams",
                       k->target->name);
    if (o.threads < 0)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_launch: threads is %d, expected 0 or more",
                       o.threads);
    if (o.every < 0 || (o.every && is_gpu))
        return tc_fail(error, TILEC_USAGE,
                       o.every < 0 ? "tilec_launch: every is below 0"
                                   : "tilec_launch: every is for the CPU "
                                     "target");
    if (k->plan)
        return tc_plan_launch(k, args, nargs, &o, error);
    if (k->gpu && tc_gpu_launch_again(k, args, nargs, &o))
        return TILEC_OK;
    int32_t grid[3];
    return prepare_and(k, args, nargs, &o, grid, error);
}

tilec_status tilec_kernel_workspace(const tilec_kernel *k,
                                    const tilec_argument *args, size_t nargs,
                                    uint64_t *bytes, tilec_error *error)
{
    if (!k || !bytes || (nargs && !args))
        return tc_fail(error, TILEC_USAGE,
                       "tilec_kernel_workspace: an argument is NULL");
    *bytes = 0;
    if (!tc_arguments_fit(args, nargs))
        return wrong_size("tilec_kernel_workspace", error);
    return k->plan ? tc_plan_workspace(k, args, nargs, bytes, error) : TILEC_OK;
}

tilec_status tilec_kernel_grid(const tilec_kernel *k,
                               const tilec_argument *args, size_t nargs,
                               int32_t grid[3], tilec_error *error)
{
    if (!k || !grid || (nargs && !args))
        return tc_fail(error, TILEC_USAGE,
                       "tilec_kernel_grid: an argument is NULL");
    if (!tc_arguments_fit(args, nargs))
        return wrong_size("tilec_kernel_grid", error);
    if (k->plan)
        return tc_fail(error, TILEC_USAGE,
                       "@%s is a plan: its kernels have a grid each",
                       k->func->name);
    return prepare_and(k, args, nargs, NULL, grid, error);
}
