/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of callers to a kernel on a GPU apart from launches: load,
 * synchronize, report resources.
 */
#include "lib/gpu/gpu.h"
#include "lib/program/plan.h"

#include <stdio.h>
#include <string.h>

tilec_status tilec_kernel_resources(const tilec_kernel *k, tilec_resources *out,
                                    tilec_error *error)
{
    tilec_resources r = {0};
    if (!k || !out || !tc_options_read(&r, sizeof r, out))
        return tc_fail(error, TILEC_USAGE,
                       "tilec_kernel_resources: an argument is NULL or of a "
                       "wrong size: use TILEC_INIT");
    if (k->plan)
        return tc_fail(error, TILEC_USAGE,
                       "@%s is a plan: ask its kernels (tilec_kernel_part)",
                       k->func->name);
    if (!k->gpu)
        return tc_fail(error, TILEC_USAGE,
                       "target %s takes no device's resources",
                       k->target->name);
    const tc_gpu_code *code = atomic_load(&k->gpu->variants[TC_GPU_ALIGNED]);
    const tc_gpu_meta *m = tc_gpu_code_meta(code);
    const tc_gpu_loaded *l = tc_gpu_first(code);
    size_t size = out->size;
    r = (tilec_resources){.size = size,
                          .warps = m->warps,
                          .shared_bytes = m->shared_bytes,
                          .threads = m->threads};
    if (l) {
        r.shared_bytes += l->static_shared;
        r.registers = l->registers;
        r.spilled_bytes = l->local_bytes;
        r.device = l->device->name;
    }
    memcpy(out, &r, size < sizeof r ? size : sizeof r);
    return TILEC_OK;
}

/* ---- Loading ---- */

static tilec_status fill_counters(const tilec_kernel *k, const tc_gpu_loaded *l,
                                  tilec_error *error)
{
    int code = tc_gpu_counters_fill(l->counters);
    if (!code)
        return TILEC_OK;
    return tc_fail(error, TILEC_MACHINE,
                   "@%s on %s: no counters for captured launches: %s",
                   k->func->name, l->device->name,
                   tc_cuda_error(l->cuda, code).text);
}

static tilec_status load_variants(const tilec_kernel *k,
                                  const tc_cuda_scope *scope,
                                  tilec_error *error)
{
    int n = k->func->aligned ? TC_GPU_FAR : 1;
    tilec_status s = TILEC_OK;
    for (int i = 0; s == TILEC_OK && i < n; i++) {
        tc_gpu_code *code;
        const tc_gpu_loaded *loaded;
        if (i == TC_GPU_UNEVEN && !k->func->nmultiples)
            continue;
        s = tc_gpu_variant(k, i, &code, error);
        if (s == TILEC_OK)
            s = tc_gpu_load(code, k->gpu->settings, scope, &loaded, NULL,
                            error);
        if (s == TILEC_OK && loaded->counters)
            s = fill_counters(k, loaded, error);
    }
    return s;
}

tilec_status tilec_kernel_load(const tilec_kernel *k, int device,
                               tilec_error *error)
{
    tc_cuda_scope scope;
    if (!k)
        return tc_fail(error, TILEC_USAGE, "tilec_kernel_load: kernel is NULL");
    for (unsigned i = 0; k->plan && i < k->plan->nkernels; i++) {
        tilec_status s = tilec_kernel_load(k->plan->kernels[i], device, error);
        if (s != TILEC_OK)
            return s;
    }
    if (!k->gpu)
        return TILEC_OK;
    tilec_status s = tc_gpu_enter(k, device, &scope, error);
    if (s != TILEC_OK)
        return s;
    s = load_variants(k, &scope, error);
    tc_cuda_leave(&scope);
    return s;
}

tilec_status tc_gpu_spare(const tilec_kernel *k, DLDevice device,
                          tc_cu_stream stream, void **out, tilec_error *error)
{
    int ordinal = device.device_type == kDLCUDA ? device.device_id : -1;
    tc_gpu_code *code;
    const tc_gpu_loaded *l;
    tc_cuda_scope scope;
    tilec_status s = tc_gpu_enter(k, ordinal, &scope, error);
    if (s != TILEC_OK)
        return s;
    s = tc_gpu_get_loaded(k, TC_GPU_ALIGNED, stream, &scope, &code, &l, error);
    if (s == TILEC_OK)
        *out = (void *)(uintptr_t)l->spare;
    tc_cuda_leave(&scope);
    return s;
}

/* ---- Filling ---- */

static int fill(const tc_cuda *cuda, tc_cu_address to, uint64_t pattern,
                unsigned width, uint64_t count, tc_cu_stream stream)
{
    if (pattern == 0)
        return cuda->mem_set(to, 0, count * width, stream);
    switch (width) {
    case 1: return cuda->mem_set(to, (unsigned char)pattern, count, stream);
    case 2: return cuda->mem_set16(to, (unsigned short)pattern, count, stream);
    case 4: return cuda->mem_set32(to, (unsigned)pattern, count, stream);
    default: return cuda->mem_set32(to, (unsigned)pattern, 2 * count, stream);
    }
}

tilec_status tc_gpu_fill(const tilec_kernel *k, int device, void *data,
                         uint64_t pattern, unsigned width, uint64_t count,
                         void *stream, tilec_error *error)
{
    tc_cuda_scope scope;
    if (width == 8 && (uint32_t)pattern != pattern >> 32)
        return tc_fail(error, TILEC_USAGE,
                       "fill: a GPU repeats 4 bytes, and the two halves of "
                       "this 8-byte number differ");
    tilec_status s = tc_gpu_enter(k, device, &scope, error);
    if (s != TILEC_OK)
        return s;
    int code = fill(scope.cuda, (uintptr_t)data, pattern, width, count, stream);
    if (code)
        s = tc_fail(error, TILEC_MACHINE, "fill on %s: %s", scope.device->name,
                    tc_cuda_error(scope.cuda, code).text);
    tc_cuda_leave(&scope);
    return s;
}

/* ---- Reading ---- */

static tilec_status read_there(const tc_cuda_scope *scope, void *to,
                               const void *from, size_t bytes, void *stream,
                               tilec_error *error)
{
    const tc_cuda *cuda = scope->cuda;
    int capturing = 0;
    if (stream && !cuda->stream_capturing(stream, &capturing) && capturing)
        return tc_fail(error, TILEC_USAGE,
                       "check_memory: the stream is being captured, so that "
                       "nothing can be read now: check a launch before that");
    int code = cuda->stream_synchronize(stream);
    if (!code)
        code = cuda->mem_to_host(to, (uintptr_t)from, bytes);
    if (code)
        return tc_fail(error, TILEC_MACHINE, "cannot read memory of %s: %s",
                       scope->device->name, tc_cuda_error(cuda, code).text);
    return TILEC_OK;
}

tilec_status tc_gpu_read(const tilec_kernel *k, int device, void *to,
                         const void *from, size_t bytes, void *stream,
                         tilec_error *error)
{
    tc_cuda_scope scope;
    tilec_status s = tc_gpu_enter(k, device, &scope, error);
    if (s != TILEC_OK)
        return s;
    s = read_there(&scope, to, from, bytes, stream, error);
    tc_cuda_leave(&scope);
    return s;
}

/* ---- Waiting ---- */

static tilec_status say_failed(const tilec_kernel *k, const tc_gpu_code *code,
                               const tc_device_report *report,
                               tilec_error *error)
{
    tc_gpu_assert a = {.message = "an assert failed", .file = ""};
    (void)tc_gpu_code_assert(code, report->set - 1, &a);
    tc_fail(error, TILEC_INPUT, "@%s: %s", k->func->name, a.message);
    tc_error_at(error, a.file, a.line, a.column);
    tc_error_program(error, report->program);
    return TILEC_INPUT;
}

/* In l's context: reads the report, and makes room for the next one. */
static tilec_status read_report(const tilec_kernel *k, const tc_gpu_code *code,
                                const tc_gpu_loaded *l, tc_cu_stream stream,
                                tilec_error *error)
{
    tc_device_report report = {0};
    int failed = l->cuda->stream_synchronize(stream);
    bool reports = tc_gpu_code_meta(code)->has_reports;
    if (!failed && reports)
        failed = l->cuda->mem_to_host(&report, l->report, sizeof report);
    if (!failed && report.set)
        failed = l->cuda->mem_set(l->report, 0, sizeof report, stream);
    if (failed)
        return tc_fail(error, TILEC_MACHINE, "@%s on %s: %s", k->func->name,
                       l->device->name, tc_cuda_error(l->cuda, failed).text);
    return report.set ? say_failed(k, code, &report, error) : TILEC_OK;
}

/* The default streams (the driver's numbers 0 to 2) are those of whichever
 * context is current; any other is of one context. */
static bool is_of(tc_cu_stream stream, const tc_gpu_loaded *l)
{
    tc_cu_context cx;
    return (uintptr_t)stream <= 2 || l->cuda->stream_context(stream, &cx) ||
           cx == l->context.handle;
}

static tilec_status wait_for(const tilec_kernel *k, const tc_gpu_code *code,
                             tc_cu_stream stream, tilec_error *error)
{
    tilec_status s = TILEC_OK;
    const tc_gpu_loaded *l = tc_gpu_first(code);
    for (; s == TILEC_OK && l; l = l->next) {
        tc_cu_context popped;
        /* A context that cannot be made current is gone. */
        if (!is_of(stream, l) || !tc_cuda_resume(l->cuda, &l->context))
            continue;
        s = read_report(k, code, l, stream, error);
        l->cuda->context_pop(&popped);
    }
    return s;
}

tilec_status tilec_kernel_synchronize(const tilec_kernel *k, void *stream,
                                      tilec_error *error)
{
    if (!k)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_kernel_synchronize: kernel is NULL");
    tilec_status s = TILEC_OK;
    for (unsigned i = 0; k->plan && s == TILEC_OK && i < k->plan->nkernels; i++)
        s = tilec_kernel_synchronize(k->plan->kernels[i], stream, error);
    for (int i = 0; k->gpu && s == TILEC_OK && i < TC_GPU_VARIANTS; i++) {
        const tc_gpu_code *code = atomic_load(&k->gpu->variants[i]);
        if (code)
            s = wait_for(k, code, stream, error);
    }
    return s;
}
