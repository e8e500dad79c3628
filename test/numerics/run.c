/* SPDX-License-Identifier: Apache-2.0 */
#include "test/numerics/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

DLDataType run_dtype(num_type t)
{
    uint8_t bits = (uint8_t)(8 * num_bytes(t));
    switch (t) {
    case NUM_I1: return (DLDataType){TILEC_DL_BOOL, 8, 1};
    case NUM_F8E4M3: return (DLDataType){TILEC_DL_F8E4M3, 8, 1};
    case NUM_F8E5M2: return (DLDataType){TILEC_DL_F8E5M2, 8, 1};
    case NUM_BF16: return (DLDataType){kDLBfloat, 16, 1};
    case NUM_F16:
    case NUM_F32:
    case NUM_F64: return (DLDataType){kDLFloat, bits, 1};
    default: return (DLDataType){kDLInt, bits, 1};
    }
}

const DLTensor *run_view_of(run_view *v, const num_tensor *t)
{
    for (int d = 0; d < t->rank; d++) {
        v->shape[d] = t->size[d];
        v->strides[d] = t->stride[d];
    }
    v->dl = (DLTensor){.data = t->data,
                       .ndim = t->rank,
                       .dtype = run_dtype(t->type),
                       .shape = v->shape,
                       .strides = v->strides};
    v->dl.device.device_type = kDLCPU;
    return &v->dl;
}

bool run_check(run_counts *c, bool ok, const char *fmt, ...)
{
    if (ok) {
        c->passed++;
        return true;
    }
    c->failed++;
    va_list args;
    va_start(args, fmt);
    printf("FAILED ");
    vprintf(fmt, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
    return false;
}

bool run_check_rows(run_counts *c, const char *name, const num_tensor *x,
                    const double *want, double tolerance)
{
    double *got = num_tensor_read(x);
    int width = x->size[x->rank - 1];
    num_error e = num_compare(got, want, num_count(x), width);
    bool ok = e.worst_row <= tolerance + 1.2 * num_half_step(x->type);
    free(got);
    return run_check(c, ok && num_tensor_intact(x),
                     "%s, %lld rows of %d %s: worst row %.2e%s", name,
                     (long long)(num_count(x) / width), width,
                     num_name(x->type), e.worst_row,
                     num_tensor_intact(x) ? "" : ", wrote outside");
}

int run_finish(const run_counts *c)
{
    printf("%d passed, %d failed\n", c->passed, c->failed);
    return c->failed || !c->passed;
}

/* ---- Targets ---- */

/* One in a program; NULL: the CPU. */
static tilec_device *the_device;

static void skip(const tilec_error *e)
{
    const char *must = getenv("TILEC_REQUIRE_GPU");
    bool fails = must && strcmp(must, "1") == 0;
    printf("%s: %s\n", fails ? "FAILED" : "skipped", e->message);
    exit(fails ? 1 : 77);
}

tilec_context *run_context(void)
{
    const char *target = getenv("TILEC_TEST_TARGET");
    bool any = target && strcmp(target, "gpu") == 0;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    tilec_context *cx;
    tilec_error e = TILEC_INIT(tilec_error);
    o.target = any ? "auto" : target && *target ? target : "cpu";
    if (tilec_context_new(&o, &cx) != TILEC_OK) {
        printf("FAILED: no context for target %s\n", o.target);
        exit(1);
    }
    if (strcmp(o.target, "cpu") == 0)
        return cx;
    if (tilec_device_open(cx, -1, &the_device, &e) != TILEC_OK)
        skip(&e);
    printf("on %s\n", tilec_device_name(the_device));
    return cx;
}

void run_context_free(tilec_context *cx)
{
    tilec_device_free(the_device);
    the_device = NULL;
    tilec_context_free(cx);
}

const tilec_device *run_device(void)
{
    return the_device;
}

/* Tensors that travel. */
enum { MOST_TENSORS = 64 };
typedef struct trip {
    int n;
    struct {
        const DLTensor *host;
        DLTensor *copy;
        bool written;
    } list[MOST_TENSORS];
} trip;

static tilec_status go(trip *t, const DLTensor **tensor, bool written,
                       tilec_error *error)
{
    DLTensor *copy;
    if (!*tensor || t->n == MOST_TENSORS)
        return TILEC_OK;
    tilec_status s = tilec_device_copy(the_device, *tensor, &copy, error);
    if (s != TILEC_OK)
        return s;
    t->list[t->n].host = *tensor;
    t->list[t->n].copy = copy;
    t->list[t->n++].written = written;
    *tensor = copy;
    return TILEC_OK;
}

/* Also after a failure: what an assert left undone is looked at. */
static tilec_status come_back(trip *t, const tilec_kernel *k, tilec_status s,
                              tilec_error *error)
{
    if (s == TILEC_OK)
        s = tilec_kernel_synchronize(k, NULL, error);
    for (int i = 0; i < t->n; i++) {
        if (t->list[i].written && s == TILEC_OK)
            s = tilec_device_read(the_device, t->list[i].copy, t->list[i].host,
                                  error);
        tilec_device_drop(the_device, t->list[i].copy);
    }
    return s;
}

static bool is_written(const tilec_kernel *k, const char *name, size_t position)
{
    const tilec_parameter *p;
    for (size_t i = 0; (p = tilec_kernel_parameter(k, i)); i++)
        if (name ? strcmp(p->name, name) == 0 : i == position)
            return p->written;
    return false;
}

static tilec_launch_options checked(const tilec_launch_options *options)
{
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    if (options)
        o = *options;
    o.check_memory = 1;
    return o;
}

tilec_status run_room_new(run_room *r, uint64_t bytes, tilec_error *error)
{
    *r = (run_room){.bytes = bytes};
    if (bytes == 0)
        return TILEC_OK;
    int64_t size = (int64_t)(bytes + 255) / 256 * 256;
    r->host = aligned_alloc(256, (size_t)size);
    memset(r->host, 0xff, (size_t)size);
    r->address = r->host;
    if (!the_device)
        return TILEC_OK;
    DLTensor like = {.data = r->host,
                     .device = {kDLCPU, 0},
                     .ndim = 1,
                     .dtype = {kDLInt, 8, 1},
                     .shape = &size};
    tilec_status s = tilec_device_copy(the_device, &like, &r->device, error);
    r->address = s == TILEC_OK ? r->device->data : NULL;
    return s;
}

void run_room_free(run_room *r)
{
    free(r->host);
    if (r->device)
        tilec_device_drop(the_device, r->device);
}

/* A launch's workspace: what is read there was written. */
static tilec_status make_room_for(run_room *r, const tilec_kernel *k,
                                  const tilec_argument *args, size_t nargs,
                                  tilec_launch_options *o, tilec_error *error)
{
    tilec_status s =
        tilec_kernel_workspace(k, args, nargs, &o->workspace_bytes, error);
    s = s ? s : run_room_new(r, o->workspace_bytes, error);
    o->workspace = r->address;
    return s;
}

static tilec_status launch_here(const tilec_kernel *k,
                                const tilec_argument *args, size_t nargs,
                                const tilec_launch_options *options,
                                tilec_error *error)
{
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    run_room r = {0};
    if (options)
        o = *options;
    tilec_status s = make_room_for(&r, k, args, nargs, &o, error);
    if (s == TILEC_OK)
        s = tilec_launch(k, args, nargs, &o, error);
    run_room_free(&r);
    return s;
}

tilec_status run_launch(const tilec_kernel *k, const tilec_argument *args,
                        size_t nargs, const tilec_launch_options *options,
                        tilec_error *error)
{
    if (!the_device)
        return launch_here(k, args, nargs, options, error);
    tilec_argument moved[MOST_TENSORS] = {0};
    tilec_launch_options o = checked(options);
    run_room r = {0};
    trip t = {.n = 0};
    tilec_status s = make_room_for(&r, k, args, nargs, &o, error);
    for (size_t i = 0; s == TILEC_OK && i < nargs; i++) {
        moved[i] = args[i];
        if (args[i].kind == TILEC_ARG_TENSOR)
            s = go(&t, &moved[i].tensor, is_written(k, args[i].name, i), error);
    }
    if (s == TILEC_OK)
        s = tilec_launch(k, moved, nargs, &o, error);
    s = come_back(&t, k, s, error);
    run_room_free(&r);
    return s;
}

tilec_status run_forward(const tilec_attention *plan,
                         const tilec_attention_tensors *tensors,
                         const tilec_launch_options *options,
                         tilec_error *error)
{
    tilec_attention_tensors a = *tensors;
    tilec_argument captured[MOST_TENSORS];
    tilec_launch_options o = checked(options);
    trip t = {.n = 0};
    run_room r = {0};
    tilec_status s = tilec_attention_workspace(plan, tensors,
                                               &a.workspace_bytes, NULL, error);
    s = s ? s : run_room_new(&r, a.workspace_bytes, error);
    a.workspace = r.address;
    if (s == TILEC_OK && !the_device)
        s = tilec_attention_forward(plan, &a, options, error);
    if (s != TILEC_OK || !the_device) {
        run_room_free(&r);
        return s;
    }
    s = go(&t, &a.q, false, error);
    s = s ? s : go(&t, &a.k, false, error);
    s = s ? s : go(&t, &a.v, false, error);
    s = s ? s : go(&t, &a.o, true, error);
    s = s ? s : go(&t, &a.lse, true, error);
    s = s ? s : go(&t, &a.max, true, error);
    s = s ? s : go(&t, &a.sinks, false, error);
    for (size_t i = 0; s == TILEC_OK && i < a.ncaptured; i++) {
        captured[i] = a.captured[i];
        if (captured[i].kind == TILEC_ARG_TENSOR)
            s = go(&t, &captured[i].tensor, false, error);
    }
    a.captured = captured;
    if (s == TILEC_OK)
        s = tilec_attention_forward(plan, &a, &o, error);
    s = come_back(&t, tilec_attention_kernel(plan), s, error);
    run_room_free(&r);
    return s;
}

static tilec_status go_all(trip *t, tilec_kvcache_tensors *a,
                           tilec_argument *captured, tilec_error *error)
{
    const struct {
        const DLTensor **tensor;
        bool written;
    } all[] = {{&a->q, false},
               {&a->k, false},
               {&a->v, false},
               {&a->o, true},
               {&a->lse, true},
               {&a->kv_lens, false},
               {&a->cu_seqlens_k, false},
               {&a->page_table, false},
               {&a->kv_indptr, false},
               {&a->kv_indices, false},
               {&a->kv_last_page_len, false},
               {&a->cu_seqlens_q, false},
               {&a->query_offsets, false},
               {&a->sinks, false},
               {&a->descale_k, false},
               {&a->descale_v, false}};
    tilec_status s = TILEC_OK;
    for (size_t i = 0; s == TILEC_OK && i < sizeof all / sizeof *all; i++)
        s = go(t, all[i].tensor, all[i].written, error);
    for (size_t i = 0; s == TILEC_OK && i < a->ncaptured; i++) {
        captured[i] = a->captured[i];
        if (captured[i].kind == TILEC_ARG_TENSOR)
            s = go(t, &captured[i].tensor, false, error);
    }
    a->captured = captured;
    return s;
}

tilec_status run_kvcache(const tilec_kvcache *plan,
                         const tilec_kvcache_tensors *tensors,
                         const run_room *schedule, const tilec_kvcache *dealer,
                         tilec_error *error)
{
    tilec_kvcache_tensors a = *tensors;
    tilec_argument captured[MOST_TENSORS];
    tilec_launch_options o = checked(NULL);
    trip t = {.n = 0};
    run_room r = {0};
    a.schedule = schedule->address;
    a.schedule_bytes = schedule->bytes;
    tilec_status s =
        tilec_kvcache_workspace(plan, tensors, NULL, &a.workspace_bytes, error);
    s = s ? s : run_room_new(&r, a.workspace_bytes, error);
    a.workspace = r.address;
    DLTensor part;
    bool v_in_k = a.v->data == a.k->data;
    a.v = the_device && v_in_k ? NULL : a.v;
    if (the_device)
        s = s ? s : go_all(&t, &a, captured, error);
    if (!a.v && s == TILEC_OK) { /* a view of where k is now */
        part = *a.k;
        part.shape = tensors->v->shape;
        a.v = &part;
    }
    if (dealer)
        s = s ? s : tilec_kvcache_schedule(dealer, &a, &o, error);
    s = s ? s : tilec_kvcache_attention(plan, &a, &o, error);
    if (the_device)
        s = come_back(&t, tilec_kvcache_kernel(plan), s, error);
    run_room_free(&r);
    return s;
}

/* ---- Messages ---- */

void run_print_diagnostics(const tilec_context *cx)
{
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    for (; d; d = d->next) {
        printf("%s:%u:%u: %s\n", d->file ? d->file : "-", d->line, d->column,
               d->message);
        if (d->source)
            printf("    %s\n", d->source);
    }
}

static tilec_kernel *compile(tilec_context *cx, const tilec_source *source,
                             const tilec_compile_options *options)
{
    tilec_kernel *k = NULL;
    if (tilec_compile(cx, source, 1, options, &k) != TILEC_OK)
        run_print_diagnostics(cx);
    return k;
}

tilec_kernel *run_compile(tilec_context *cx, const char *text,
                          const tilec_compile_options *options)
{
    tilec_source source = tilec_text("test", text, 0);
    return compile(cx, &source, options);
}

tilec_kernel *run_compile_embedded(tilec_context *cx, const char *program,
                                   const tilec_compile_options *options)
{
    tilec_source source = tilec_text(program, NULL, 0);
    return compile(cx, &source, options);
}

tilec_kernel *run_compile_bound(tilec_context *cx, const char *program,
                                const char *kernel,
                                const tilec_binding *bindings, size_t n)
{
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.kernel = kernel;
    o.bindings = bindings;
    o.nbindings = n;
    return run_compile_embedded(cx, program, &o);
}

long run_option(int argc, char **argv, const char *name, long missing)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
            return strtol(argv[i + 1], NULL, 0);
    return missing;
}

double run_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
