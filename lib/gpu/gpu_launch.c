/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch on a GPU: which variant, which context, the parameters, the call.
 *
 * launch_graph_cache.c handles a launch like the previous one. The usual path
 * takes no memory and waits for no lock: a loaded code is looked up by the
 * current context, and the driver is given pointers into the results of the
 * checks. Another context, another device, or code that is not loaded yet take
 * the slow path; so do tensors that no tensor map can describe, which shows
 * when the parameters are assembled.
 */
#include "lib/gpu/launch_graph_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Variants ---- */

enum { ALIGNMENT = 16 }; /* bytes; see tc_func.aligned */

/* A stride along a side of one element is never walked. */
static bool is_aligned(const tc_type *t, const tc_launch_arg *a, bool ragged)
{
    unsigned bytes = tc_type_bytes(t->elem);
    if (t->rank == 0 || (uintptr_t)a->data % ALIGNMENT)
        return false;
    unsigned unit = tc_type_contiguous(t);
    if (a->strides[unit] != 1 ||
        (!ragged && (int64_t)a->sizes[unit] * bytes % ALIGNMENT))
        return false;
    for (unsigned i = 0; i < t->rank; i++)
        if (i != unit && a->sizes[i] > 1 &&
            a->strides[i] * (int64_t)bytes % ALIGNMENT)
            return false;
    return true;
}

/* See tc_func.multiples. */
static bool is_multiple(const tilec_kernel *k, const tc_multiple *m,
                        const tc_launch_arg *a)
{
    int64_t last = 0;
    for (unsigned i = 0; i < k->params[m->arg].type->rank; i++) {
        int64_t far;
        if (a->sizes[i] < 1 || a->strides[i] < 0 ||
            __builtin_mul_overflow(a->sizes[i] - 1, a->strides[i], &far) ||
            __builtin_add_overflow(last, far, &last))
            return false;
    }
    return a->sizes[m->dim] % (int64_t)m->of == 0 && last < INT32_MAX;
}

static int choose_variant(const tilec_kernel *k, const tc_launch_arg *args)
{
    for (unsigned i = 0; i < k->nparams && k->func->aligned >> i; i++)
        if ((k->func->aligned >> i & 1) &&
            !is_aligned(k->params[i].type, &args[i], k->func->ragged >> i & 1))
            return TC_GPU_ANY;
    for (unsigned i = 0; i < k->func->nmultiples; i++) {
        const tc_multiple *m = &k->func->multiples[i];
        if (!is_multiple(k, m, &args[m->arg]))
            return TC_GPU_UNEVEN;
    }
    return TC_GPU_ALIGNED;
}

/* "aligned(q, k)": of the parameters that have their bit set. */
static void add_list(tc_gpu_predicate *p, const tilec_kernel *k,
                     const char *what, uint64_t which)
{
    enum { MOST_NAME = 64 };
    size_t n = strlen(p->text), room = sizeof p->text - MOST_NAME - 16;
    const char *before = n ? ", " : "", *between = "(";
    if (!which || n > room)
        return;
    n += (size_t)sprintf(p->text + n, "%s%s", before, what);
    for (unsigned i = 0; i < k->nparams && which >> i && n < room; i++)
        if (which >> i & 1) {
            n += (size_t)sprintf(p->text + n, "%s%.*s", between, MOST_NAME,
                                 k->params[i].info.name);
            between = ", ";
        }
    strcpy(p->text + n, ")");
}

/* "multiples(k.2: 16)": of the size of a dim of a parameter. */
static void add_multiples(tc_gpu_predicate *p, const tilec_kernel *k)
{
    enum { MOST_NAME = 64 };
    for (unsigned i = 0; i < k->func->nmultiples; i++) {
        const tc_multiple *m = &k->func->multiples[i];
        size_t n = strlen(p->text);
        if (n + MOST_NAME + 64 > sizeof p->text)
            return;
        const char *before = i ? ", " : n ? ", multiples(" : "multiples(";
        sprintf(p->text + n, "%s%.*s.%u: %u%s", before, MOST_NAME,
                k->params[m->arg].info.name, m->dim, m->of,
                i + 1 == k->func->nmultiples ? ")" : "");
    }
}

tc_gpu_predicate tc_gpu_predicate_of(const tilec_kernel *k, int variant)
{
    tc_gpu_predicate p = {""};
    const tc_gpu_meta *m =
        tc_gpu_code_meta(atomic_load(&k->gpu->variants[TC_GPU_ALIGNED]));
    uint64_t mapped = 0;
    for (unsigned i = 0; i < m->nmaps; i++)
        mapped |= m->maps[i].arg < 64 ? (uint64_t)1 << m->maps[i].arg : 0;
    add_list(&p, k, "aligned", k->func->aligned & ~k->func->ragged);
    add_list(&p, k, "ragged", k->func->ragged);
    add_list(&p, k, "mapped", mapped);
    if (variant == TC_GPU_ALIGNED)
        add_multiples(&p, k);
    if (!*p.text)
        strcpy(p.text, "any");
    return p;
}

/* ---- Parameters ---- */

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

/* The parameters side by side, each at a multiple of its size, tensor maps
 * where the loaded code has them. */
typedef struct packed {
    unsigned char *bytes;
    tc_gpu_packed at;
} packed;

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) & ~(to - 1);
}

static void gpu_launch_put(packed *p, const void *value, size_t size)
{
    p->at.n = round_up(p->at.n, size);
    memcpy(p->bytes + p->at.n, value, size);
    p->at.n += size;
}

/* The order of codegen/nvptx/nvptx.h. */
static void pack_own(const tilec_kernel *k, const tc_launch_arg *args,
                     packed *p)
{
    for (unsigned i = 0; i < k->nparams; i++) {
        const tc_type *t = k->params[i].type;
        const tc_launch_arg *a = &args[i];
        if (t->kind == TC_TENSOR || t->kind == TC_PTR) {
            gpu_launch_put(p, &a->data, sizeof a->data);
            if (i < TC_GPU_FEW_PARAMS)
                p->at.addresses[i] = p->at.n - sizeof a->data;
            for (unsigned d = 0; d < t->rank; d++)
                gpu_launch_put(p, &a->sizes[d], sizeof a->sizes[d]);
            for (unsigned d = 0; d < t->rank; d++)
                gpu_launch_put(p, &a->strides[d], sizeof a->strides[d]);
        } else {
            /* Little endian: the low bytes of what is wider here. */
            uint64_t bits = tc_type_is_float(t)
                                ? float_bits(t->kind, a->scalar.f)
                                : (uint64_t)a->scalar.i;
            gpu_launch_put(p, &bits, tc_type_bytes(t));
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
                   r->grid[2], m->threads, l->registers, m->shared_bytes, hint);
}

/* The launch, and the code variants that it may use. */
struct attempt {
    const tc_gpu_request *r;
    const tc_gpu_meta *meta;
    const tc_gpu_loaded *loaded;
    unsigned unmapped;   /* parameter that has no tensor map, because: */
    const char *why_not; /* NULL: all have */
};

static bool pack_maps(struct attempt *t, packed *p)
{
    if (t->meta->nmaps)
        p->at.n = t->loaded->maps_at;
    for (unsigned i = 0; i < t->meta->nmaps; i++) {
        t->why_not =
            tc_gpu_map(t->loaded, t->meta, i, t->r->args, p->bytes + p->at.n);
        t->unmapped = t->meta->maps[i].arg;
        if (t->why_not)
            return false;
        p->at.n += TC_GPU_MAP_BYTES;
    }
    return true;
}

static tilec_status pack_counter(const struct attempt *t, packed *p)
{
    tc_cu_address counter;
    int code =
        tc_gpu_counter(t->loaded->counters, t->r->options->stream, &counter);
    if (code)
        return tc_fail(t->r->error, TILEC_MACHINE,
                       "launch of @%s on %s: there is no counter left for it, "
                       "and no memory for more: %s. A captured launch keeps "
                       "one; tilec_kernel_load, outside of captures, makes "
                       "room",
                       t->r->k->func->name, t->loaded->device->name,
                       tc_cuda_error(t->loaded->cuda, code).text);
    gpu_launch_put(p, &counter, sizeof counter);
    p->at.counter = p->at.n - sizeof counter;
    return TILEC_OK;
}

tc_cu_shape tc_gpu_shape(const tc_gpu_call *c)
{
    return (tc_cu_shape){.gx = (unsigned)c->grid[0],
                         .gy = (unsigned)c->grid[1],
                         .gz = (unsigned)c->grid[2],
                         .bx = c->meta->threads,
                         .by = 1,
                         .bz = 1,
                         .shared = c->meta->shared_bytes};
}

/* Its programs wait for the kernel before it themselves (tc_func.early). */
static int submit_early(const tc_gpu_call *c, tc_cu_stream stream, void **extra)
{
    tc_cu_launch_attribute early = {.what = TC_CU_LAUNCH_EARLY, .value = 1};
    tc_cu_launch launch = {.shape = tc_gpu_shape(c),
                           .stream = stream,
                           .attributes = &early,
                           .nattributes = 1};
    return c->loaded->cuda->launch_with(&launch, c->loaded->function, NULL,
                                        extra);
}

/* One buffer is less work for the driver than a pointer to each parameter. */
int tc_gpu_submit(const tc_gpu_call *c, tc_cu_stream stream)
{
    size_t n = c->n;
    void *extra[] = {TC_CU_PARAMS_AT, c->bytes, TC_CU_PARAMS_SIZE, &n,
                     TC_CU_PARAMS_END};
    if (c->meta->starts_early && c->loaded->cuda->launch_with)
        return submit_early(c, stream, extra);
    tc_cu_shape s = tc_gpu_shape(c);
    return c->loaded->cuda->launch(c->loaded->function, s.gx, s.gy, s.gz, s.bx,
                                   s.by, s.bz, s.shared, stream, NULL, extra);
}

static tilec_status call_with(struct attempt *t, unsigned char *bytes)
{
    const tc_gpu_request *r = t->r;
    const tc_gpu_loaded *l = t->loaded;
    const tc_gpu_meta *m = t->meta;
    packed p = {.bytes = bytes};
    pack_own(r->k, r->args, &p);
    if (!pack_maps(t, &p))
        return TILEC_OK;
    tilec_status s = m->counts_tiles ? pack_counter(t, &p) : TILEC_OK;
    if (s != TILEC_OK)
        return s;
    if (m->has_reports)
        gpu_launch_put(&p, &l->report, sizeof l->report);
    if (m->profile.records)
        gpu_launch_put(&p, &l->ring, sizeof l->ring);
    tc_gpu_call c = {l, m, r->grid, bytes, p.at.n};
    int code = tc_gpu_submit(&c, r->options->stream);
    if (code)
        return explain(r, l, m, code);
    if (r->k->nparams <= TC_GPU_FEW_PARAMS)
        tc_gpu_keep_launch(r, l, m, bytes, &p.at);
    return TILEC_OK;
}

/* Does nothing where t->why_not says why. */
static tilec_status gpu_launch_call(struct attempt *t)
{
    unsigned nparams = t->r->k->nparams;
    if (nparams <= TC_GPU_FEW_PARAMS) {
        _Alignas(8) unsigned char bytes[TC_GPU_FEW_BYTES];
        return call_with(t, bytes);
    }
    size_t size = nparams * (size_t)TC_GPU_PARAM_BYTES + TC_GPU_BYTES_BEHIND;
    unsigned char *bytes = malloc(size);
    tilec_status s = bytes ? call_with(t, bytes) : tc_fail_memory(t->r->error);
    free(bytes);
    return s;
}

/* ---- Checks ---- */

enum { MOST_BEHIND_AXIS_0 = 65535 };

static bool is_far(const int32_t grid[3])
{
    return grid[1] > MOST_BEHIND_AXIS_0 || grid[2] > MOST_BEHIND_AXIS_0;
}

/* As many programs as fill the device, for all tiles of the grid. */
static tilec_status set_far_grid(const tc_gpu_request *r, int32_t grid[3])
{
    enum { MOST = INT32_MAX - (1 << 16), A_MULTIPROCESSOR = 16 };
    int64_t tiles;
    if (__builtin_mul_overflow((int64_t)r->grid[0] * r->grid[1],
                               (int64_t)r->grid[2], &tiles) ||
        tiles > MOST)
        return tc_fail(r->error, TILEC_INPUT,
                       "launch of @%s: a grid of %dx%dx%d programs is too "
                       "large: axes 1 and 2 are at most %d, or all together %d",
                       r->k->func->name, r->grid[0], r->grid[1], r->grid[2],
                       MOST_BEHIND_AXIS_0, MOST);
    int64_t n = (int64_t)tc_gpu_num_sms(r->k, r->device) * A_MULTIPROCESSOR;
    grid[0] = (int32_t)(n < tiles ? n : tiles);
    grid[1] = grid[2] = 1;
    return TILEC_OK;
}

/* The bytes before and after the data pointer that a tensor reaches. */
static void reach(const tc_type *t, const tc_launch_arg *a, int64_t *low,
                  int64_t *high)
{
    int64_t bytes = tc_type_bytes(t->elem);
    *low = 0;
    *high = bytes;
    for (unsigned i = 0; i < t->rank; i++) {
        if (a->sizes[i] == 0) {
            *low = *high = 0;
            return;
        }
        int64_t span = ((int64_t)a->sizes[i] - 1) * a->strides[i] * bytes;
        *(span < 0 ? low : high) += span;
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

tilec_status tc_gpu_get_loaded(const tilec_kernel *k, int which,
                               tc_cu_stream stream, const tc_cuda_scope *scope,
                               tc_gpu_code **code, const tc_gpu_loaded **loaded,
                               tilec_error *error)
{
    int capturing = 0;
    *code =
        atomic_load_explicit(&k->gpu->variants[which], memory_order_acquire);
    *loaded = *code ? tc_gpu_find(*code, scope->context.number) : NULL;
    if (*loaded)
        return TILEC_OK;
    if (stream && !scope->cuda->stream_capturing(stream, &capturing) &&
        capturing)
        return tc_fail(error, TILEC_USAGE,
                       "launch of @%s: its stream is being captured, and its "
                       "code is not loaded on this device yet: %s before",
                       k->func->name,
                       which == TC_GPU_FAR ? "launch such a grid once"
                                           : "call tilec_kernel_load");
    tilec_status s = tc_gpu_variant(k, which, code, error);
    return s == TILEC_OK ? tc_gpu_load(*code, k->gpu->settings, scope, loaded,
                                       NULL, error)
                         : s;
}

static tilec_status launch_slowly(struct attempt *t, int which)
{
    const tc_gpu_request *r = t->r;
    tc_cuda_scope scope;
    tc_gpu_code *code;
    tilec_status s = tc_gpu_enter(r->k, r->device, &scope, r->error);
    if (s != TILEC_OK)
        return s;
    s = tc_gpu_get_loaded(r->k, which, r->options->stream, &scope, &code,
                          &t->loaded, r->error);
    if (s == TILEC_OK && r->options->check_memory)
        s = check_memory(r, scope.cuda, scope.device->ordinal);
    if (s == TILEC_OK) {
        t->meta = tc_gpu_code_meta(code);
        s = gpu_launch_call(t);
    }
    tc_cuda_leave(&scope);
    return s;
}

static tilec_status launch_variant(struct attempt *t, int which)
{
    const tc_gpu_request *r = t->r;
    const tc_gpu_code *code =
        atomic_load_explicit(&r->k->gpu->variants[which], memory_order_acquire);
    const tc_gpu_loaded *l = code ? tc_gpu_first(code) : NULL;
    if (!l || r->options->check_memory)
        return launch_slowly(t, which);
    t->loaded = tc_gpu_find(code, tc_cuda_current(l->cuda));
    if (!t->loaded ||
        (r->device >= 0 && r->device != t->loaded->device->ordinal))
        return launch_slowly(t, which);
    t->meta = tc_gpu_code_meta(code);
    return gpu_launch_call(t);
}

static tilec_status launch_far(const tc_gpu_request *r)
{
    int32_t grid[3];
    tc_gpu_request far = *r;
    struct attempt t = {.r = &far};
    tilec_status s = set_far_grid(r, grid);
    far.grid = grid;
    return s == TILEC_OK ? launch_variant(&t, TC_GPU_FAR) : s;
}

tilec_status tc_gpu_launch(const tc_gpu_request *r)
{
    tilec_status s;
    if (is_far(r->grid))
        return launch_far(r);
    struct attempt t = {.r = r};
    int which = choose_variant(r->k, r->args);
    s = launch_variant(&t, which);
    if (t.why_not && which == TC_GPU_ALIGNED && r->k->func->nmultiples) {
        t.why_not = NULL;
        which = TC_GPU_UNEVEN;
        s = launch_variant(&t, which);
    }
    if (t.why_not && which != TC_GPU_ANY) {
        t.why_not = NULL;
        s = launch_variant(&t, TC_GPU_ANY);
    }
    if (!t.why_not)
        return s;
    return tc_fail(r->error, TILEC_INPUT,
                   "argument %s: no tensor map can be made of it, and @%s has "
                   "no code that does without: %s",
                   r->k->params[t.unmapped].info.name, r->k->func->name,
                   t.why_not);
}
