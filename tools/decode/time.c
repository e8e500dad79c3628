/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/decode/decode.h"

#include "tools/common/doubles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Several times the last cache of any chip that runs this. */
enum { ROOM = 300000000, FEWEST = 2, MOST_CAPTURED = 64 };

typedef struct timing {
    decode_batch *b;
    tilec_kvcache *plan;
    const tilec_kernel *kernel;
    device_tensors device;
    tilec_kvcache_tensors t;
    tilec_argument captured[MOST_CAPTURED];
    int64_t caches, next;
    DLTensor k, v; /* of the next launch, in */
    owned_tensor all[2];
    DLTensor *there[2]; /* all of them on the device; NULL: the CPU */
    tilec_event *start, *stop;
} timing;

/* ---- Tensors where the target is ---- */

/* All caches one after the other, equal ones. */
static int put_caches(timing *x, int which, const DLTensor *one)
{
    tilec_error e = TILEC_INIT(tilec_error);
    int64_t shape[4], bytes = (int64_t)tensor_bytes(one);
    memcpy(shape, one->shape, sizeof shape);
    shape[0] *= x->caches;
    DLTensor all = *one, part;
    all.shape = shape;
    all.data = NULL;
    if (!x->device.device &&
        !tensor_new(&x->all[which], one->dtype, 4, shape)) {
        report("no memory for %lld caches", (long long)x->caches);
        return EXIT_MACHINE;
    }
    if (x->device.device &&
        tilec_device_copy(x->device.device, &all, &x->there[which], &e))
        return report_error(&e);
    part = x->device.device ? *x->there[which] : x->all[which].dl;
    part.shape = one->shape;
    part.strides = NULL;
    for (int64_t i = 0; i < x->caches; i++) {
        part.byte_offset = (uint64_t)(i * bytes);
        if (!x->device.device)
            memcpy((char *)part.data + i * bytes, one->data, (size_t)bytes);
        else if (tilec_device_write(x->device.device, one, &part, &e))
            return report_error(&e);
    }
    *(which ? &x->v : &x->k) = part;
    return EXIT_DONE;
}

static int put_captured(timing *x)
{
    int code = EXIT_DONE;
    memcpy(x->captured, x->t.captured, x->t.ncaptured * sizeof *x->captured);
    x->t.captured = x->captured;
    for (size_t i = 0; !code && i < x->t.ncaptured; i++)
        if (x->captured[i].tensor)
            code = device_put(&x->device, &x->captured[i].tensor, false);
    return code;
}

static int put_all(timing *x)
{
    tilec_kvcache_tensors *t = &x->t;
    int code = put_caches(x, 0, t->k);
    code = code ? code : put_caches(x, 1, t->v);
    code = code ? code : device_put(&x->device, &t->q, false);
    code = code ? code : device_put(&x->device, &t->kv_lens, false);
    code = code || !t->page_table
               ? code
               : device_put(&x->device, &t->page_table, false);
    code = code ? code : device_put(&x->device, &t->o, true);
    t->k = &x->k;
    t->v = &x->v;
    return code ? code : put_captured(x);
}

/* The schedule lies before the workspace. */
static int put_memory(timing *x)
{
    enum { ALIGN = 256 };
    tilec_kvcache_tensors *t = &x->t;
    tilec_error e = TILEC_INIT(tilec_error);
    uint64_t schedule, workspace;
    if (tilec_kvcache_workspace(x->plan, t, &schedule, &workspace, &e))
        return report_error(&e);
    t->schedule_bytes = (schedule + ALIGN - 1) / ALIGN * ALIGN;
    t->workspace_bytes = workspace;
    int code = device_workspace(&x->device, t->schedule_bytes + workspace + 1,
                                &t->schedule);
    if (!code)
        t->workspace = (char *)t->schedule + t->schedule_bytes;
    return code;
}

/* ---- Launches ---- */

typedef int launch_fn(timing *x);

static int make_schedule(timing *x)
{
    tilec_error e = TILEC_INIT(tilec_error);
    return tilec_kvcache_schedule(x->plan, &x->t, NULL, &e) ? report_error(&e)
                                                            : EXIT_DONE;
}

static int attend(timing *x)
{
    tilec_error e = TILEC_INIT(tilec_error);
    const decode_batch *b = x->b;
    x->k.byte_offset = (uint64_t)x->next * tensor_bytes(&b->k.dl);
    x->v.byte_offset = (uint64_t)x->next * tensor_bytes(&b->v.dl);
    x->next = (x->next + 1) % x->caches;
    return tilec_kvcache_attention(x->plan, &x->t, NULL, &e) ? report_error(&e)
                                                             : EXIT_DONE;
}

/* Microseconds of one of n launches in a row. */
static int time_launches(timing *x, launch_fn *launch, int64_t n, double *us)
{
    tilec_error e = TILEC_INIT(tilec_error);
    bool is_gpu = x->device.device != NULL;
    double ms = 0, begin = seconds_now();
    int code = EXIT_DONE;
    if (is_gpu && tilec_event_record(x->start, NULL, &e))
        return report_error(&e);
    for (int64_t i = 0; !code && i < n; i++)
        code = launch(x);
    if (!code && is_gpu &&
        (tilec_event_record(x->stop, NULL, &e) ||
         tilec_event_elapsed(x->start, x->stop, &ms, &e)))
        return report_error(&e);
    *us = (is_gpu ? 1e3 * ms : 1e6 * (seconds_now() - begin)) / (double)n;
    return code;
}

/* What an event costs must not show: launches of 300 us are timed together. */
static int measure(timing *x, launch_fn *launch, double *median, double *least)
{
    enum { TOGETHER_US = 300, MOST_TOGETHER = 200, MOST_RUNS = 1000 };
    double us, times[MOST_RUNS];
    int64_t runs = x->b->o->runs, n = 0, together = 1;
    int code = time_launches(x, launch, x->device.device ? 3 : 1, &us);
    if (x->device.device && us < TOGETHER_US)
        together = (int64_t)fmin(MOST_TOGETHER, ceil(TOGETHER_US / us));
    double begin = seconds_now();
    while (!code && n < runs && (n < 3 || seconds_now() - begin < 5))
        code = time_launches(x, launch, together, &times[n++]);
    if (code)
        return code;
    sort_doubles(times, (size_t)n);
    *median = n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
    *least = times[0];
    return EXIT_DONE;
}

/* ---- All of it ---- */

static int open_device(timing *x, tilec_context *cx, decode_times *out)
{
    tilec_error e = TILEC_INIT(tilec_error);
    int code = decode_plan(x->b, cx, x->b->o->target, &x->plan);
    if (code)
        return code;
    x->kernel = tilec_kvcache_kernel(x->plan);
    snprintf(out->target, sizeof out->target, "%s",
             tilec_kernel_target(x->kernel));
    code = device_open(&x->device, cx, x->kernel);
    if (code || !x->device.device) {
        machine_name(out->device, sizeof out->device);
        return code;
    }
    snprintf(out->device, sizeof out->device, "%s",
             tilec_device_name(x->device.device));
    return tilec_event_new(x->device.device, &x->start, &e) ||
                   tilec_event_new(x->device.device, &x->stop, &e)
               ? report_error(&e)
               : EXIT_DONE;
}

static int run_all(timing *x, decode_times *out)
{
    double least;
    int code = put_all(x);
    code = code ? code : put_memory(x);
    code = code ? code : make_schedule(x);
    code = code ? code : attend(x);
    code = code ? code : device_wait(x->kernel);
    code = code ? code : device_get(&x->device);
    code = code ? code : measure(x, make_schedule, &out->schedule_us, &least);
    code = code ? code : measure(x, attend, &out->us, &out->fastest_us);
    return code ? code : device_wait(x->kernel);
}

int decode_time(decode_batch *b, decode_times *out)
{
    timing x = {.b = b, .t = decode_tensors(b)};
    tilec_context *cx;
    if (tilec_context_new(NULL, &cx)) {
        report("out of memory");
        return EXIT_MACHINE;
    }
    x.caches = (int64_t)(ROOM / decode_bytes(b->o)) + 1;
    x.caches = x.caches < FEWEST ? FEWEST : x.caches;
    out->caches = x.caches;
    int code = open_device(&x, cx, out);
    code = code ? code : run_all(&x, out);
    for (int i = 0; i < 2; i++) {
        tilec_device_drop(x.device.device, x.there[i]);
        free(x.all[i].dl.data);
    }
    tilec_event_free(x.start);
    tilec_event_free(x.stop);
    device_close(&x.device);
    tilec_kvcache_free(x.plan);
    tilec_context_free(cx);
    return code;
}
