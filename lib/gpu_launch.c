/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch on a GPU: which variant, which context, the parameters, the call.
 *
 * The usual way takes no lock and no memory: a loaded code is looked up by the
 * current context, and the driver is given pointers into what the checks have
 * prepared. Another context, another device, or code that is not there yet go
 * the slow way.
 */
#include "lib/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Variants ---- */

enum { ALIGNMENT = 16 }; /* bytes; see tc_func.aligned */

/* A stride along a side of one element is never walked. */
static bool is_aligned(const tc_type *t, const tc_launch_arg *a)
{
    unsigned bytes = tc_type_bytes(t->elem), last = t->rank - 1;
    if (t->rank == 0 || a->strides[last] != 1 || (uintptr_t)a->data % ALIGNMENT)
        return false;
    if ((int64_t)a->sizes[last] * bytes % ALIGNMENT)
        return false;
    for (unsigned i = 0; i < last; i++)
        if (a->sizes[i] > 1 && a->strides[i] * (int64_t)bytes % ALIGNMENT)
            return false;
    return true;
}

static int choose_variant(const tilec_kernel *k, const tc_launch_arg *args)
{
    for (unsigned i = 0; i < k->nparams && k->func->aligned >> i; i++)
        if ((k->func->aligned >> i & 1) &&
            !is_aligned(k->params[i].type, &args[i]))
            return TC_GPU_ANY;
    return TC_GPU_ALIGNED;
}

tc_gpu_predicate tc_gpu_predicate_of(const tilec_kernel *k)
{
    tc_gpu_predicate p = {"any"};
    size_t n = 0;
    for (unsigned i = 0; i < k->nparams && i < 64; i++)
        if (k->func->aligned >> i & 1 && n < sizeof p.text - 80)
            n +=
                (size_t)snprintf(p.text + n, sizeof p.text - n, "%s%.64s",
                                 n ? ", " : "aligned(", k->params[i].info.name);
    if (n)
        strcpy(p.text + n, ")");
    return p;
}

/* ---- Parameters ---- */

/* As many as most kernels have, without malloc, and the most bytes of one. */
enum { FEW_PARAMS = 24, PER_PARAM = 8 + 12 * TC_MAX_RANK + 8 };

static uint64_t float_bits(tc_kind kind, double x)
{
    uint64_t bits = 0;
    float f = (float)x;
    if (kind == TC_F64)
        memcpy(&bits, &x, sizeof x);
    else if (kind == TC_F32)
        memcpy(&bits, &f, sizeof f);
    else
        bits = tc_float_to_bits(kind, x);
    return bits;
}

/* The parameters side by side, each at a multiple of its size. */
typedef struct packed {
    unsigned char *bytes;
    size_t n;
} packed;

static void put(packed *p, const void *value, size_t size)
{
    p->n = (p->n + size - 1) & ~(size - 1);
    memcpy(p->bytes + p->n, value, size);
    p->n += size;
}

/* The order of codegen/nvptx/nvptx.h. */
static void pack(const tilec_kernel *k, const tc_launch_arg *args, packed *p)
{
    for (unsigned i = 0; i < k->nparams; i++) {
        const tc_type *t = k->params[i].type;
        const tc_launch_arg *a = &args[i];
        if (t->kind == TC_TENSOR || t->kind == TC_PTR) {
            put(p, &a->data, sizeof a->data);
            for (unsigned d = 0; d < t->rank; d++)
                put(p, &a->sizes[d], sizeof a->sizes[d]);
            for (unsigned d = 0; d < t->rank; d++)
                put(p, &a->strides[d], sizeof a->strides[d]);
        } else {
            /* Little endian: the low bytes of what is wider here. */
            uint64_t bits = tc_type_is_float(t)
                                ? float_bits(t->kind, a->scalar.f)
                                : (uint64_t)a->scalar.i;
            put(p, &bits, tc_type_bytes(t));
        }
    }
}

/* ---- The call ---- */

static tilec_status explain(const tc_gpu_request *r, const tc_gpu_loaded *l,
                            const tc_gpu_meta *m, int code)
{
    const char *hint = "";
    if (code == TC_CU_ILLEGAL_ADDRESS || code == TC_CU_MISALIGNED_ADDRESS ||
        (code > TC_CU_LAUNCH_OUT_OF_RESOURCES && code < 720))
        hint = "; an earlier kernel in this context did this, which ends the "
               "context. check_memory in the launch options, or "
               "compute-sanitizer, finds it";
    else if (code == TC_CU_INVALID_CONTEXT || code == 400)
        hint = "; is the stream one of this device's?";
    else if (code == TC_CU_LAUNCH_OUT_OF_RESOURCES)
        hint = "; compile it with fewer warps";
    return tc_fail(r->error, TILEC_MACHINE,
                   "launch of @%s on %s: %s (grid %dx%dx%d, %u threads, %u "
                   "registers each, %u bytes of shared memory)%s",
                   r->k->func->name, l->device->name,
                   tc_cuda_error(l->cuda, code).text, r->grid[0], r->grid[1],
                   r->grid[2], 32 * m->warps, l->registers, m->shared_bytes,
                   hint);
}

/* One buffer is less work for the driver than a pointer to each parameter. */
static tilec_status call_with(const tc_gpu_request *r, const tc_gpu_loaded *l,
                              const tc_gpu_meta *m, unsigned char *bytes)
{
    packed p = {bytes, 0};
    pack(r->k, r->args, &p);
    if (m->has_reports)
        put(&p, &l->report, sizeof l->report);
    void *extra[] = {TC_CU_PARAMS_AT, bytes, TC_CU_PARAMS_SIZE, &p.n,
                     TC_CU_PARAMS_END};
    int code =
        l->cuda->launch(l->function, (unsigned)r->grid[0], (unsigned)r->grid[1],
                        (unsigned)r->grid[2], 32 * m->warps, 1, 1,
                        m->shared_bytes, r->options->stream, NULL, extra);
    return code ? explain(r, l, m, code) : TILEC_OK;
}

static tilec_status call(const tc_gpu_request *r, const tc_gpu_code *code,
                         const tc_gpu_loaded *l)
{
    const tc_gpu_meta *m = tc_gpu_code_meta(code);
    unsigned nparams = r->k->nparams;
    if (nparams <= FEW_PARAMS) {
        unsigned char bytes[(FEW_PARAMS + 1) * PER_PARAM];
        return call_with(r, l, m, bytes);
    }
    unsigned char *bytes = malloc((nparams + 1) * (size_t)PER_PARAM);
    tilec_status s =
        bytes ? call_with(r, l, m, bytes) : tc_fail_memory(r->error);
    free(bytes);
    return s;
}

/* ---- Checks ---- */

static tilec_status check_grid(const tc_gpu_request *r)
{
    for (int i = 1; i < 3; i++)
        if (r->grid[i] > 65535)
            return tc_fail(r->error, TILEC_INPUT,
                           "launch of @%s: axis %d of the grid is %d, and a "
                           "GPU takes at most 65535 there: let axis 0 be the "
                           "long one",
                           r->k->func->name, i, r->grid[i]);
    return TILEC_OK;
}

/* The bytes before and behind the data pointer that a tensor reaches. */
static void reach(const tc_type *t, const tc_launch_arg *a, int64_t *low,
                  int64_t *high)
{
    int64_t bytes = tc_type_bytes(t->elem);
    *low = 0;
    *high = bytes;
    for (unsigned i = 0; i < t->rank; i++) {
        int64_t span = ((int64_t)a->sizes[i] - 1) * a->strides[i] * bytes;
        *(span < 0 ? low : high) += span;
        if (a->sizes[i] == 0)
            *low = *high = 0;
        if (a->sizes[i] == 0)
            return;
    }
}

static tilec_status check_tensor(const tc_gpu_request *r, const tc_cuda *cuda,
                                 int device, unsigned i)
{
    const tc_kernel_param *p = &r->k->params[i];
    const tc_launch_arg *a = &r->args[i];
    tc_cu_address at = (uintptr_t)a->data, start = 0;
    size_t size = 0;
    int ordinal = device, type = 0;
    int64_t low, high;
    reach(p->type, a, &low, &high);
    if (low == high)
        return TILEC_OK;
    if (cuda->mem_attribute(&type, TC_CU_POINTER_MEMORY_TYPE, at) ||
        cuda->mem_attribute(&ordinal, TC_CU_POINTER_ORDINAL, at))
        return tc_fail(r->error, TILEC_INPUT,
                       "argument %s: its memory is not the driver's: the "
                       "tensor says that it is on a CUDA device, the address "
                       "does not",
                       p->info.name);
    if (ordinal != device && type == 2) /* 2: a device's own */
        return tc_fail(r->error, TILEC_INPUT,
                       "argument %s: its memory is on CUDA device %d, the "
                       "launch on %d",
                       p->info.name, ordinal, device);
    if (cuda->mem_attribute(&start, TC_CU_POINTER_RANGE_START, at) ||
        cuda->mem_attribute(&size, TC_CU_POINTER_RANGE_SIZE, at))
        return TILEC_OK;
    if (at + (uint64_t)low < start || at + (uint64_t)high > start + size)
        return tc_fail(r->error, TILEC_INPUT,
                       "argument %s: it reaches from byte %lld to %lld of an "
                       "allocation of %zu bytes",
                       p->info.name, (long long)(at - start) + (long long)low,
                       (long long)(at - start) + (long long)high, size);
    return TILEC_OK;
}

static tilec_status check_memory(const tc_gpu_request *r, const tc_cuda *cuda,
                                 int device)
{
    tilec_status s = TILEC_OK;
    for (unsigned i = 0; s == TILEC_OK && i < r->k->nparams; i++)
        if (r->k->params[i].type->kind == TC_TENSOR)
            s = check_tensor(r, cuda, device, i);
    return s;
}

/* ---- The ways ---- */

tilec_status tc_gpu_enter(const tilec_kernel *k, int device,
                          tc_cuda_scope *scope, tilec_error *error)
{
    tc_cuda *cuda = tc_cuda_get(k->gpu->settings->cuda_library);
    if (*cuda->why_not)
        return tc_fail(error, TILEC_MACHINE,
                       "@%s is compiled for %s and cannot run here: %s",
                       k->func->name, k->target->name, cuda->why_not);
    if (device < 0)
        device = tc_cuda_current_device(cuda);
    if (device < cuda->ndevices &&
        !tc_gpu_fits(k->target, &cuda->devices[device]))
        return tc_fail(error, TILEC_MACHINE,
                       "@%s is compiled for %s and does not run on CUDA "
                       "device %d, %s (compute capability %u.%u): compile it "
                       "for that",
                       k->func->name, k->target->name, device,
                       cuda->devices[device].name, cuda->devices[device].major,
                       cuda->devices[device].minor);
    return tc_cuda_enter(cuda, device, scope, error);
}

int32_t tc_gpu_num_sms(const tilec_kernel *k, int device)
{
    /* The driver of what is loaded: no need to take the lock of its list. */
    const tc_gpu_code *code = atomic_load_explicit(
        &k->gpu->variants[TC_GPU_ALIGNED], memory_order_acquire);
    const tc_gpu_loaded *l = code ? tc_gpu_first(code) : NULL;
    const tc_cuda *cuda =
        l ? l->cuda : tc_cuda_get(k->gpu->settings->cuda_library);
    if (*cuda->why_not)
        return 1;
    if (device < 0)
        device = tc_cuda_current_device(cuda);
    bool is_known = device < cuda->ndevices && cuda->devices[device].sm_count;
    return is_known ? (int32_t)cuda->devices[device].sm_count : 1;
}

static tilec_status get_loaded(const tc_gpu_request *r, int which,
                               const tc_cuda_scope *scope, tc_gpu_code **code,
                               const tc_gpu_loaded **loaded)
{
    int capturing = 0;
    *code =
        atomic_load_explicit(&r->k->gpu->variants[which], memory_order_acquire);
    *loaded = *code ? tc_gpu_find(*code, scope->context) : NULL;
    if (*loaded)
        return TILEC_OK;
    if (r->options->stream &&
        !scope->cuda->stream_capturing(r->options->stream, &capturing) &&
        capturing)
        return tc_fail(r->error, TILEC_USAGE,
                       "launch of @%s: its stream is being captured, and its "
                       "code is not loaded on this device yet: call "
                       "tilec_kernel_load before",
                       r->k->func->name);
    tilec_status s = tc_gpu_variant(r->k, which, code, r->error);
    return s == TILEC_OK ? tc_gpu_load(*code, r->k->gpu->settings, scope,
                                       loaded, NULL, r->error)
                         : s;
}

static tilec_status launch_slowly(const tc_gpu_request *r, int which)
{
    tc_cuda_scope scope;
    tc_gpu_code *code;
    const tc_gpu_loaded *loaded;
    tilec_status s = tc_gpu_enter(r->k, r->device, &scope, r->error);
    if (s != TILEC_OK)
        return s;
    s = get_loaded(r, which, &scope, &code, &loaded);
    if (s == TILEC_OK && r->options->check_memory)
        s = check_memory(r, scope.cuda, scope.device->ordinal);
    if (s == TILEC_OK)
        s = call(r, code, loaded);
    tc_cuda_leave(&scope);
    return s;
}

tilec_status tc_gpu_launch(const tc_gpu_request *r)
{
    tilec_status s = check_grid(r);
    if (s != TILEC_OK)
        return s;
    int which = choose_variant(r->k, r->args);
    const tc_gpu_code *code =
        atomic_load_explicit(&r->k->gpu->variants[which], memory_order_acquire);
    const tc_gpu_loaded *l = code ? tc_gpu_first(code) : NULL;
    tc_cu_context cx = NULL;
    if (l && !r->options->check_memory && !l->cuda->context_get(&cx) && cx &&
        (l = tc_gpu_find(code, cx)) &&
        (r->device < 0 || r->device == l->device->ordinal))
        return call(r, code, l);
    return launch_slowly(r, which);
}
