/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel with and without marks: both are launched on the same inputs and
 * give the same results, both are timed in turns; then one launch with marks
 * leaves its rings.
 */
#include "tools/profile/profile.h"

#include "lib/gpu/gpu_profile.h"
#include "lib/handles.h"
#include "tools/common/doubles.h"
#include "tools/common/progress.h"
#include "tools/measure/workload.h"

#include <stdlib.h>
#include <string.h>

typedef struct version {
    built b;
    DLTensor *copies[INPUTS_MOST]; /* on the device, of tensors */
    tilec_argument args[INPUTS_MOST];
    owned_tensor results[INPUTS_MOST]; /* on the host, of what is written */
    DLTensor *room;                    /* its workspace */
    uint64_t room_bytes;
} version;

typedef struct measuring {
    workload *w;
    tilec_context *cx;
    tilec_device *device;
    tilec_event *start, *stop;
    version plain, marked;
} measuring;

/* ---- Building ---- */

/* Of a plan the last one. */
static const tilec_kernel *main_kernel(const tilec_kernel *k)
{
    const tilec_kernel *part;
    for (size_t i = 0; (part = tilec_kernel_part(k, i)); i++)
        if (!tilec_kernel_part(k, i + 1))
            return part;
    return k;
}

static int build(measuring *m, const variant *v, version *out)
{
    tilec_status s = workload_build(m->w, m->cx, NULL, v, true, &out->b);
    return s ? report_compile(m->cx, s) : EXIT_DONE;
}

static int build_both(measuring *m, unsigned records)
{
    char text[16];
    snprintf(text, sizeof text, "%u", records);
    variant marks = {.nbindings = 1, .bindings = {{"kernel.profile", text}}};
    int code = build(m, NULL, &m->plain);
    if (code)
        return code;
    const char *target = tilec_kernel_target(m->plain.b.kernel);
    if (strcmp(target, "cpu") == 0) {
        report("target cpu has no warp roles to profile: give a GPU's target "
               "on a machine that has it (`tilec bench` times the kernel here, "
               "`tilec compile --emit=schedule --target sm_90a` shows the "
               "modelled step)");
        return EXIT_USAGE;
    }
    return build(m, &marks, &m->marked);
}

/* ---- Tensors ---- */

static int place(measuring *m, version *v)
{
    const workload *w = m->w;
    tilec_error e = TILEC_INIT(tilec_error);
    memcpy(v->args, w->in.arguments, sizeof v->args);
    for (size_t i = 0; i < w->in.n; i++) {
        const DLTensor *t = w->in.arguments[i].tensor;
        if (!t)
            continue;
        if (kernel_writes(v->b.kernel, w->in.list[i].name) &&
            !tensor_new(&v->results[i], t->dtype, t->ndim, t->shape)) {
            report("no memory for the results");
            return EXIT_MACHINE;
        }
        if (tilec_device_copy(m->device, t, &v->copies[i], &e))
            return report_error(&e);
        v->args[i].tensor = v->copies[i];
    }
    if (workload_workspace(w, &v->b, &v->room_bytes, &e))
        return report_error(&e);
    int64_t bytes = (int64_t)v->room_bytes;
    DLTensor like = {.ndim = 1, .dtype = {kDLInt, 8, 1}, .shape = &bytes};
    return bytes && tilec_device_copy(m->device, &like, &v->room, &e)
               ? report_error(&e)
               : EXIT_DONE;
}

static int open_device(measuring *m)
{
    tilec_error e = TILEC_INIT(tilec_error);
    return tilec_device_open(m->cx, -1, &m->device, &e) ||
                   tilec_event_new(m->device, &m->start, &e) ||
                   tilec_event_new(m->device, &m->stop, &e)
               ? report_error(&e)
               : EXIT_DONE;
}

static void version_free(measuring *m, version *v)
{
    for (size_t i = 0; i < INPUTS_MOST; i++) {
        tilec_device_drop(m->device, v->copies[i]);
        free(v->results[i].dl.data);
    }
    tilec_device_drop(m->device, v->room);
    built_free(&v->b);
}

/* ---- Launches ---- */

static int launch(measuring *m, version *v)
{
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    tilec_error e = TILEC_INIT(tilec_error);
    o.workspace = v->room ? v->room->data : NULL;
    o.workspace_bytes = v->room_bytes;
    return workload_launch(m->w, &v->b, v->args, &o, &e) ? report_error(&e)
                                                         : EXIT_DONE;
}

static int wait_for(version *v)
{
    tilec_error e = TILEC_INIT(tilec_error);
    return tilec_kernel_synchronize(v->b.kernel, NULL, &e) ? report_error(&e)
                                                           : EXIT_DONE;
}

static int get_results(measuring *m, version *v)
{
    tilec_error e = TILEC_INIT(tilec_error);
    int code = launch(m, v);
    code = code ? code : wait_for(v);
    for (size_t i = 0; !code && i < m->w->in.n; i++)
        if (v->results[i].dl.data &&
            tilec_device_read(m->device, v->copies[i], &v->results[i].dl, &e))
            code = report_error(&e);
    return code;
}

static bool are_same(const measuring *m)
{
    for (size_t i = 0; i < m->w->in.n; i++) {
        const DLTensor *a = &m->plain.results[i].dl;
        const DLTensor *b = &m->marked.results[i].dl;
        if (a->data && memcmp(a->data, b->data, tensor_bytes(a)) != 0)
            return false;
    }
    return true;
}

/* ---- Times ---- */

enum { WARM_UPS = 3, TOGETHER = 10 };

static int time_launches(measuring *m, version *v, unsigned n, double *us)
{
    tilec_error e = TILEC_INIT(tilec_error);
    double ms = 0;
    if (tilec_event_record(m->start, NULL, &e))
        return report_error(&e);
    for (unsigned i = 0; i < n; i++) {
        int code = launch(m, v);
        if (code)
            return code;
    }
    if (tilec_event_record(m->stop, NULL, &e) ||
        tilec_event_elapsed(m->start, m->stop, &ms, &e))
        return report_error(&e);
    *us = 1e3 * ms / n;
    return EXIT_DONE;
}

/* In turns, so that both have the same clocks; medians. */
static int time_both(measuring *m, unsigned runs, recording *out)
{
    double *us = malloc(2 * runs * sizeof *us), warm;
    int code = us ? EXIT_DONE : EXIT_MACHINE;
    for (int i = 0; !code && i < 2; i++)
        code = time_launches(m, i ? &m->marked : &m->plain, WARM_UPS, &warm);
    for (unsigned i = 0; !code && i < runs; i++) {
        code = time_launches(m, &m->plain, TOGETHER, &us[i]);
        if (!code)
            code = time_launches(m, &m->marked, TOGETHER, &us[runs + i]);
        progress_tick();
    }
    if (!code) {
        sort_doubles(us, runs);
        sort_doubles(us + runs, runs);
        out->us = us[runs / 2];
        out->us_marked = us[runs + runs / 2];
    }
    free(us);
    return code;
}

/* ---- The rings ---- */

static int get_rings(measuring *m, recording *out)
{
    const tilec_kernel *k = main_kernel(m->marked.b.kernel);
    tilec_error e = TILEC_INIT(tilec_error);
    tc_gpu_profile p;
    if (tc_gpu_profile_clear(k, NULL, &e))
        return report_error(&e);
    int code = launch(m, &m->marked);
    if (code)
        return code;
    if (tc_gpu_profile_read(k, NULL, &p, &e))
        return report_error(&e);
    return recording_take(out, &p.shape, p.marks, p.data);
}

static int measure(measuring *m, unsigned records, unsigned runs,
                   recording *out)
{
    int code = build_both(m, records);
    code = code ? code : open_device(m);
    code = code ? code : place(m, &m->plain);
    code = code ? code : place(m, &m->marked);
    code = code ? code : get_results(m, &m->plain);
    code = code ? code : get_results(m, &m->marked);
    if (code)
        return code;
    snprintf(out->device, sizeof out->device, "%s",
             tilec_device_name(m->device));
    snprintf(out->workload, sizeof out->workload, "%s", m->w->name);
    out->same = are_same(m);
    progress_show("timing @%s", m->w->kernel);
    code = time_both(m, runs, out);
    progress_end();
    return code ? code : get_rings(m, out);
}

int measure_profile(const tool_args *args, unsigned records, unsigned runs,
                    recording *out)
{
    workload *w = calloc(1, sizeof *w);
    measuring *m = calloc(1, sizeof *m);
    space *none = calloc(1, sizeof *none);
    int code = w && m && none ? workload_read(w, args) : EXIT_MACHINE;
    if (!code) {
        w->needs_no_check = true;
        code = workload_prepare(w, none);
    }
    if (!code && tilec_context_new(NULL, &m->cx)) {
        report("out of memory");
        code = EXIT_MACHINE;
    }
    if (!code) {
        m->w = w;
        code = measure(m, records, runs, out);
        version_free(m, &m->plain);
        version_free(m, &m->marked);
        tilec_event_free(m->start);
        tilec_event_free(m->stop);
        tilec_device_free(m->device);
        tilec_context_free(m->cx);
    }
    if (w)
        workload_free(w);
    free(w);
    free(m);
    free(none);
    return code;
}
