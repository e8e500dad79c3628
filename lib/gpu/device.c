/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU for programs without a framework that manages its memory: copies
 * tensors there and back, and measures time.
 */
#include "lib/gpu/gpu.h"
#include "lib/handles.h"

#include <stdlib.h>
#include <string.h>

struct tilec_device {
    tc_cuda *cuda;
    int ordinal;
};

struct tilec_event {
    tc_cuda *cuda;
    int ordinal;
    tc_cu_event event;
};

unsigned tc_gpu_multiprocessors(const tilec_context *cx, const tc_target *t,
                                DLDevice at)
{
    if (!t || !tc_target_is_gpu(t))
        return 0;
    const tc_cuda *cuda = tc_cuda_get(cx->cuda_library);
    /* Plans in a bundle are made without the GPU that runs them. */
    if (*cuda->why_not && cx->multiprocessors)
        return cx->multiprocessors;
    if (*cuda->why_not)
        return cx->recorder ? t->multiprocessors : 0;
    int i =
        at.device_type == kDLCUDA ? at.device_id : tc_cuda_current_device(cuda);
    return i >= 0 && i < cuda->ndevices ? cuda->devices[i].sm_count : 0;
}

tilec_status tilec_device_open(const tilec_context *cx, int ordinal,
                               tilec_device **out, tilec_error *error)
{
    if (!out)
        return tc_fail(error, TILEC_USAGE, "tilec_device_open: out is NULL");
    *out = NULL;
    tc_cuda *cuda = tc_cuda_get(cx ? cx->cuda_library : NULL);
    tc_cuda_scope scope;
    if (ordinal < 0 && !*cuda->why_not)
        ordinal = tc_cuda_current_device(cuda);
    tilec_status s = tc_cuda_enter(cuda, ordinal, &scope, error);
    if (s != TILEC_OK)
        return s;
    tc_cuda_leave(&scope);
    tilec_device *d = malloc(sizeof *d);
    if (!d)
        return tc_fail_memory(error);
    *d = (tilec_device){cuda, ordinal};
    *out = d;
    return TILEC_OK;
}

void tilec_device_free(tilec_device *d)
{
    free(d);
}

const char *tilec_device_name(const tilec_device *d)
{
    return d ? d->cuda->devices[d->ordinal].name : NULL;
}

int tilec_device_ordinal(const tilec_device *d)
{
    return d ? d->ordinal : -1;
}

/* The work of a call in a context of the device that is current. */
struct work {
    const tilec_device *device;
    const char *what; /* "copy a tensor to" */
    int code;         /* of the driver */
    tc_cuda_scope scope;
};

static tilec_status begin(struct work *w, const tilec_device *d,
                          const char *what, tilec_error *error)
{
    *w = (struct work){.device = d, .what = what};
    if (!d)
        return tc_fail(error, TILEC_USAGE, "device is NULL");
    return tc_cuda_enter(d->cuda, d->ordinal, &w->scope, error);
}

static tilec_status end(const struct work *w, tilec_error *error)
{
    tc_cuda_leave(&w->scope);
    if (!w->code)
        return TILEC_OK;
    return tc_fail(error, TILEC_MACHINE, "cannot %s %s: %s", w->what,
                   tilec_device_name(w->device),
                   tc_cuda_error(w->device->cuda, w->code).text);
}

/* ---- Tensors ---- */

struct device_tensor {
    DLTensor dl; /* first: callers have a pointer to it */
    int64_t shape[TC_MAX_RANK], strides[TC_MAX_RANK];
    tc_cu_address start;
};

/* The bytes that a tensor spans, from `low` before its data pointer (or 0) to
 * `high` after it. Gaps between its elements are among them. */
struct span {
    int64_t low, high;
};

static unsigned element_bytes(const DLTensor *t)
{
    return (t->dtype.bits * (unsigned)t->dtype.lanes + 7) / 8;
}

static bool find_span(const DLTensor *t, struct span *s)
{
    int64_t bytes = element_bytes(t), stride = bytes, size;
    bool is_empty = false, overflow = false;
    *s = (struct span){0, bytes};
    for (int i = t->ndim - 1; i >= 0; i--) {
        int64_t far;
        if (t->strides)
            overflow |= __builtin_mul_overflow(t->strides[i], bytes, &stride);
        size = t->shape[i];
        is_empty |= size == 0;
        overflow |= __builtin_mul_overflow(size ? size - 1 : 0, stride, &far);
        int64_t *to = far < 0 ? &s->low : &s->high;
        overflow |= __builtin_add_overflow(*to, far, to);
        if (!t->strides)
            overflow |= __builtin_mul_overflow(stride, size, &stride);
    }
    overflow |= __builtin_sub_overflow(s->high, s->low, &size);
    if (is_empty)
        *s = (struct span){0, 0};
    return is_empty || !overflow;
}

static tilec_status check_tensor(const DLTensor *t, struct span *s,
                                 const char *what, tilec_error *error)
{
    if (!t || t->ndim < 0 || t->ndim > TC_MAX_RANK || (t->ndim && !t->shape))
        return tc_fail(error, TILEC_USAGE,
                       "%s: tensor is NULL, has no shape, or more than %d dims",
                       what, TC_MAX_RANK);
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] < 0)
            return tc_fail(error, TILEC_INPUT,
                           "%s: dim %d is %lld, expected 0 or more", what, i,
                           (long long)t->shape[i]);
    if (!find_span(t, s))
        return tc_fail(error, TILEC_INPUT,
                       "%s: its strides reach beyond 64-bit addresses", what);
    return TILEC_OK;
}

/* Checks the memory of a tensor from or to which bytes are copied. */
static tilec_status check_data(const DLTensor *t, const struct span *s,
                               const char *what, tilec_error *error)
{
    if (!t->data && s->low != s->high)
        return tc_fail(error, TILEC_INPUT, "%s: data is NULL, but no dim is 0",
                       what);
    return TILEC_OK;
}

static tilec_status check_host(const DLTensor *t, const char *what,
                               tilec_error *error)
{
    DLDeviceType type = t->device.device_type;
    if (type != kDLCPU && type != kDLCUDAHost && type != kDLCUDAManaged)
        return tc_fail(error, TILEC_INPUT,
                       "%s: the host's tensor is on DLPack device %d, expected "
                       "the CPU (%d)",
                       what, (int)type, (int)kDLCPU);
    return TILEC_OK;
}

static struct device_tensor *new_tensor(const DLTensor *like)
{
    struct device_tensor *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    int64_t dense = 1;
    for (int i = like->ndim - 1; i >= 0; i--) {
        t->shape[i] = like->shape[i];
        t->strides[i] = like->strides ? like->strides[i] : dense;
        (void)__builtin_mul_overflow(dense, like->shape[i], &dense);
    }
    t->dl = (DLTensor){.ndim = like->ndim,
                       .dtype = like->dtype,
                       .shape = t->shape,
                       .strides = t->strides};
    return t;
}

static const char *data_of(const DLTensor *t)
{
    return (const char *)t->data + t->byte_offset;
}

/* To device memory (from NULL: zeros), for any stream to see: the driver itself
 * may return once it has the bytes, which other streams than the default one
 * don't wait for. */
static int send(const tilec_device *d, uintptr_t to, const void *from,
                size_t size)
{
    int code = from ? d->cuda->mem_to_device(to, from, size)
                    : d->cuda->mem_set(to, 0, size, NULL);
    return code ? code : d->cuda->stream_synchronize(NULL);
}

tilec_status tilec_device_copy(const tilec_device *d, const DLTensor *host,
                               DLTensor **out, tilec_error *error)
{
    static const char what[] = "tilec_device_copy";
    struct span span;
    struct work w;
    if (!out)
        return tc_fail(error, TILEC_USAGE, "%s: out is NULL", what);
    *out = NULL;
    tilec_status s = check_tensor(host, &span, what, error);
    if (s == TILEC_OK && host->data)
        s = check_host(host, what, error);
    if (s == TILEC_OK)
        s = begin(&w, d, "copy a tensor to", error);
    if (s != TILEC_OK)
        return s;
    struct device_tensor *t = new_tensor(host);
    size_t size = (size_t)(span.high - span.low);
    if (t)
        w.code = d->cuda->mem_alloc(&t->start, size ? size : 1);
    if (t && !w.code && size)
        w.code = send(d, t->start, host->data ? data_of(host) + span.low : NULL,
                      size);
    s = t ? end(&w, error) : tc_fail_memory(error);
    if (!t)
        tc_cuda_leave(&w.scope);
    if (s != TILEC_OK) {
        if (t && t->start)
            tilec_device_drop(d, &t->dl);
        else
            free(t);
        return s;
    }
    t->dl.device = (DLDevice){kDLCUDA, d->ordinal};
    t->dl.data = (void *)(uintptr_t)(t->start - (uint64_t)span.low);
    *out = &t->dl;
    return TILEC_OK;
}

void tilec_device_drop(const tilec_device *d, DLTensor *tensor)
{
    struct device_tensor *t = (struct device_tensor *)tensor;
    struct work w;
    if (!t)
        return;
    if (begin(&w, d, "free", NULL) == TILEC_OK) {
        d->cuda->mem_free(t->start);
        tc_cuda_leave(&w.scope);
    }
    free(t);
}

/* The same shape and strides: the same bytes. */
static tilec_status check_pair(const DLTensor *host, const DLTensor *there,
                               struct span *span, const char *what,
                               tilec_error *error)
{
    struct span other;
    tilec_status s = check_tensor(host, span, what, error);
    if (s == TILEC_OK)
        s = check_tensor(there, &other, what, error);
    if (s == TILEC_OK)
        s = check_host(host, what, error);
    if (s == TILEC_OK)
        s = check_data(host, span, what, error);
    if (s == TILEC_OK)
        s = check_data(there, &other, what, error);
    if (s != TILEC_OK)
        return s;
    bool same = host->ndim == there->ndim && span->low == other.low &&
                span->high == other.high &&
                element_bytes(host) == element_bytes(there);
    for (int i = 0; same && i < host->ndim; i++)
        same = host->shape[i] == there->shape[i];
    return same ? TILEC_OK
                : tc_fail(error, TILEC_INPUT,
                          "%s: the tensors differ in shape, strides or data "
                          "type",
                          what);
}

tilec_status tilec_device_read(const tilec_device *d, const DLTensor *from,
                               const DLTensor *host, tilec_error *error)
{
    struct span span;
    struct work w;
    tilec_status s = check_pair(host, from, &span, "tilec_device_read", error);
    if (s == TILEC_OK)
        s = begin(&w, d, "read a tensor of", error);
    if (s != TILEC_OK)
        return s;
    size_t size = (size_t)(span.high - span.low);
    if (size)
        w.code =
            d->cuda->mem_to_host((void *)(uintptr_t)(data_of(host) + span.low),
                                 (uintptr_t)(data_of(from) + span.low), size);
    return end(&w, error);
}

tilec_status tilec_device_write(const tilec_device *d, const DLTensor *host,
                                const DLTensor *to, tilec_error *error)
{
    struct span span;
    struct work w;
    tilec_status s = check_pair(host, to, &span, "tilec_device_write", error);
    if (s == TILEC_OK)
        s = begin(&w, d, "write a tensor of", error);
    if (s != TILEC_OK)
        return s;
    size_t size = (size_t)(span.high - span.low);
    if (size)
        w.code = send(d, (uintptr_t)(data_of(to) + span.low),
                      data_of(host) + span.low, size);
    return end(&w, error);
}

tilec_status tilec_device_fill(const tilec_device *d, const DLTensor *t,
                               int byte, void *stream, tilec_error *error)
{
    struct span span;
    struct work w;
    static const char what[] = "tilec_device_fill";
    tilec_status s = check_tensor(t, &span, what, error);
    if (s == TILEC_OK)
        s = check_data(t, &span, what, error);
    if (s == TILEC_OK)
        s = begin(&w, d, "fill a tensor of", error);
    if (s != TILEC_OK)
        return s;
    size_t size = (size_t)(span.high - span.low);
    if (size)
        w.code = d->cuda->mem_set((uintptr_t)(data_of(t) + span.low),
                                  (unsigned char)byte, size, stream);
    return end(&w, error);
}

tilec_status tilec_device_synchronize(const tilec_device *d, tilec_error *error)
{
    struct work w;
    tilec_status s = begin(&w, d, "wait for", error);
    if (s != TILEC_OK)
        return s;
    w.code = d->cuda->context_synchronize();
    return end(&w, error);
}

/* ---- Events ---- */

tilec_status tilec_event_new(const tilec_device *d, tilec_event **out,
                             tilec_error *error)
{
    struct work w;
    if (!out)
        return tc_fail(error, TILEC_USAGE, "tilec_event_new: out is NULL");
    *out = NULL;
    tilec_status s = begin(&w, d, "make an event on", error);
    if (s != TILEC_OK)
        return s;
    tilec_event *e = calloc(1, sizeof *e);
    if (e) {
        *e = (tilec_event){d->cuda, d->ordinal, NULL};
        w.code = d->cuda->event_new(&e->event, 0);
    }
    s = end(&w, error);
    if (!e)
        return tc_fail_memory(error);
    if (s == TILEC_OK)
        *out = e;
    else
        free(e);
    return s;
}

void tilec_event_free(tilec_event *e)
{
    if (!e)
        return;
    e->cuda->event_free(e->event);
    free(e);
}

tilec_status tilec_event_record(tilec_event *e, void *stream,
                                tilec_error *error)
{
    struct work w;
    if (!e)
        return tc_fail(error, TILEC_USAGE, "tilec_event_record: event is NULL");
    tilec_device d = {e->cuda, e->ordinal};
    tilec_status s = begin(&w, &d, "record an event on", error);
    if (s != TILEC_OK)
        return s;
    w.code = e->cuda->event_record(e->event, stream);
    return end(&w, error);
}

tilec_status tilec_event_elapsed(const tilec_event *from, const tilec_event *to,
                                 double *milliseconds, tilec_error *error)
{
    struct work w;
    float f = 0;
    if (!from || !to || !milliseconds)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_event_elapsed: an argument is NULL");
    tilec_device d = {to->cuda, to->ordinal};
    tilec_status s = begin(&w, &d, "read an event of", error);
    if (s != TILEC_OK)
        return s;
    w.code = to->cuda->event_synchronize(to->event);
    if (!w.code)
        w.code = to->cuda->event_elapsed(&f, from->event, to->event);
    *milliseconds = f;
    return end(&w, error);
}
