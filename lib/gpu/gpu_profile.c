/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/gpu/gpu_profile.h"

#include <stdlib.h>
#include <string.h>

size_t tc_profile_ring_bytes(const tc_profile_shape *s)
{
    return s->records * sizeof(tc_profile_record);
}

size_t tc_profile_bytes(const tc_profile_shape *s)
{
    return (size_t)TC_PROFILE_PROGRAMS * s->writers *
           (tc_profile_ring_bytes(s) + sizeof(tc_profile_head));
}

int tc_gpu_profile_new(tc_gpu_loaded *l, const tc_profile_shape *s)
{
    size_t ring = tc_profile_ring_bytes(s);
    int code = tc_cuda_zeros(l->cuda, tc_profile_bytes(s) + ring, &l->rings);
    if (code)
        l->rings = 0;
    l->ring = (l->rings + ring - 1) / ring * ring;
    return code;
}

void tc_gpu_profile_free(tc_gpu_profile *p)
{
    free(p->marks);
    free(p->data);
    *p = (tc_gpu_profile){0};
}

/* ---- Reading ---- */

typedef int visit_fn(const tc_gpu_loaded *l, const tc_gpu_code *code,
                     tc_cu_stream stream, tc_gpu_profile *p);

static int clear(const tc_gpu_loaded *l, const tc_gpu_code *code,
                 tc_cu_stream stream, tc_gpu_profile *p)
{
    (void)p;
    return l->cuda->mem_set(
        l->ring, 0, tc_profile_bytes(&tc_gpu_code_meta(code)->profile), stream);
}

static bool has_begun(const tc_gpu_profile *p)
{
    size_t n = (size_t)TC_PROFILE_PROGRAMS * p->shape.writers;
    const tc_profile_head *heads =
        (const void *)((const char *)p->data +
                       n * tc_profile_ring_bytes(&p->shape));
    for (size_t i = 0; i < n; i++)
        if (heads[i].sm & TC_PROFILE_BEGUN)
            return true;
    return false;
}

/* Of the variants of a kernel the one that was launched. */
static int read_rings(const tc_gpu_loaded *l, const tc_gpu_code *code,
                      tc_cu_stream stream, tc_gpu_profile *p)
{
    if (p->data)
        return 0;
    p->shape = tc_gpu_code_meta(code)->profile;
    size_t bytes = tc_profile_bytes(&p->shape);
    p->data = malloc(bytes);
    p->marks = strdup(tc_gpu_code_text(code, "marks"));
    int failed = p->data && p->marks ? l->cuda->stream_synchronize(stream)
                                     : TC_CU_OUT_OF_MEMORY;
    if (!failed)
        failed = l->cuda->mem_to_host(p->data, l->ring, bytes);
    if (failed || !has_begun(p))
        tc_gpu_profile_free(p);
    return failed;
}

/* Whether any code of the kernel has rings where it is loaded: *any. */
static tilec_status each_ring(const tilec_kernel *k, tc_cu_stream stream,
                              visit_fn *visit, tc_gpu_profile *p, bool *any,
                              tilec_error *error)
{
    *any = false;
    for (int i = 0; k->gpu && i < TC_GPU_VARIANTS; i++) {
        const tc_gpu_code *code = atomic_load(&k->gpu->variants[i]);
        const tc_gpu_loaded *l = code ? tc_gpu_first(code) : NULL;
        tc_cu_context popped;
        if (!l || !l->ring || !tc_cuda_resume(l->cuda, &l->context))
            continue;
        int failed = visit(l, code, stream, p);
        l->cuda->context_pop(&popped);
        *any = true;
        if (failed)
            return tc_fail(error, TILEC_MACHINE, "profile of @%s on %s: %s",
                           k->func->name, l->device->name,
                           tc_cuda_error(l->cuda, failed).text);
    }
    return TILEC_OK;
}

static tilec_status has_none(const tilec_kernel *k, tilec_error *error)
{
    return tc_fail(error, TILEC_USAGE,
                   "@%s has no marks on a device: expected a kernel of a GPU "
                   "target that was compiled with the binding "
                   "kernel.profile=2048, and launched",
                   k->func->name);
}

tilec_status tc_gpu_profile_read(const tilec_kernel *k, void *stream,
                                 tc_gpu_profile *out, tilec_error *error)
{
    bool any;
    *out = (tc_gpu_profile){0};
    tilec_status s = each_ring(k, stream, read_rings, out, &any, error);
    return s == TILEC_OK && !out->data ? has_none(k, error) : s;
}

tilec_status tc_gpu_profile_clear(const tilec_kernel *k, void *stream,
                                  tilec_error *error)
{
    bool any;
    tilec_status s = each_ring(k, stream, clear, NULL, &any, error);
    return s == TILEC_OK && !any ? has_none(k, error) : s;
}
