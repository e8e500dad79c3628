/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeated launches: launches like the previous one.
 *
 * Most programs launch a kernel over and over with tensors that differ only in
 * their addresses. All results of a launch's checks (names, types, shapes, the
 * variant, the grid, the bytes of the parameters) follow from its signature:
 *
 *   a name      or none, in the caller's order
 *   a number    its kind and value
 *   a tensor    device, data type, shape, strides, address modulo 16
 *
 * So a kernel keeps its last launch. In a launch with the same signature only
 * addresses, the tensor maps of moved tensors, and a counter are replaced. Any
 * other launch, or a failure, takes the usual path, which reports what is
 * wrong.
 *
 * One thread at a time uses the kept launch; another thread does not wait, but
 * takes the usual path.
 *
 * After many such launches in a row into one stream, the following ones are
 * launches of a graph of that stream (gpu_graph.c). A graph cannot run
 * concurrently with itself, as the same kernel in two streams can, and no
 * capture takes it.
 */
#include "lib/gpu/launch_graph_cache.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16 };

enum { MOST_NAME = 32 };

/* Launches in a row before a graph is worth its making: those before the first
 * ones, and at most; each in place of another takes twice as many as that
 * before. */
enum { MANY = 8, MOST = 1 << 30 };

/* Streams that have a graph. */
enum { GRAPHS = 4 };

/* The argument of a launch for one parameter. */
struct like {
    unsigned param;
    bool is_named;
    char name[MOST_NAME];
    tilec_argument given; /* of a tensor, only its kind */
    DLDevice device;
    DLDataType dtype;
    int32_t ndim;
    bool has_strides;
    int32_t sizes[TC_MAX_RANK];
    int64_t strides[TC_MAX_RANK];
};

struct tc_launch_graph {
    atomic_flag busy;
    bool is_there;
    const tc_gpu_loaded *loaded;
    const tc_gpu_meta *meta;
    int32_t grid[3];
    tc_gpu_packed packed;
    size_t nargs;
    /* How many went into that stream, one after the other; and have to before
     * it gets the graph of another. */
    tc_cu_stream stream;
    unsigned in_row, worth;
    bool has_no_graph; /* can be made */
    tc_gpu_graph *graphs[GRAPHS];
    bool is_set[GRAPHS]; /* it has the bytes */
    unsigned oldest;
    struct like likes[TC_GPU_FEW_PARAMS];  /* in the caller's order */
    tc_launch_arg args[TC_GPU_FEW_PARAMS]; /* in the kernel's */
    _Alignas(TC_GPU_MAP_ALIGN) unsigned char bytes[TC_GPU_FEW_BYTES];
};

/* ---- Is it like that one? ---- */

static bool is_same_number(const tilec_argument *a, const tilec_argument *b)
{
    return a->kind == TILEC_ARG_INT ? a->i == b->i
                                    : memcmp(&a->f, &b->f, sizeof a->f) == 0;
}

static bool is_same_shape(const struct like *k, const DLTensor *t)
{
    for (int i = 0; i < k->ndim; i++)
        if (t->shape[i] != k->sizes[i])
            return false;
    for (int i = 0; k->has_strides && i < k->ndim; i++)
        if (t->strides[i] != k->strides[i])
            return false;
    return true;
}

static uintptr_t address_of(const DLTensor *t)
{
    return (uintptr_t)t->data + (uintptr_t)t->byte_offset;
}

static bool is_same_tensor(const struct like *k, const tc_launch_arg *arg,
                           const DLTensor *t)
{
    return t && t->data && t->shape && t->ndim == k->ndim &&
           (t->strides != NULL) == k->has_strides &&
           t->device.device_type == k->device.device_type &&
           t->device.device_id == k->device.device_id &&
           t->dtype.code == k->dtype.code && t->dtype.bits == k->dtype.bits &&
           t->dtype.lanes == k->dtype.lanes &&
           (address_of(t) ^ (uintptr_t)arg->data) % ALIGNMENT == 0 &&
           is_same_shape(k, t);
}

static bool is_like(const tc_launch_graph *g, const tilec_argument *args,
                    size_t nargs)
{
    if (nargs != g->nargs)
        return false;
    for (size_t i = 0; i < nargs; i++) {
        const struct like *k = &g->likes[i];
        if ((args[i].name != NULL) != k->is_named ||
            (k->is_named && strcmp(args[i].name, k->name) != 0) ||
            args[i].kind != k->given.kind)
            return false;
        if (args[i].kind == TILEC_ARG_TENSOR
                ? !is_same_tensor(k, &g->args[k->param], args[i].tensor)
                : !is_same_number(&args[i], &k->given))
            return false;
    }
    return true;
}

/* ---- Again ---- */

/* Into g->args and the bytes; moved: bits of those that are elsewhere now. */
static uint64_t put_addresses(tc_launch_graph *g, const tilec_argument *args)
{
    uint64_t moved = 0;
    for (size_t i = 0; i < g->nargs; i++) {
        unsigned param = g->likes[i].param;
        if (args[i].kind != TILEC_ARG_TENSOR)
            continue;
        void *data = (void *)address_of(args[i].tensor);
        if (data == g->args[param].data)
            continue;
        g->args[param].data = data;
        memcpy(g->bytes + g->packed.addresses[param], &data, sizeof data);
        moved |= (uint64_t)1 << param;
    }
    return moved;
}

static bool put_maps(tc_launch_graph *g, uint64_t moved)
{
    unsigned char *to = g->bytes + g->loaded->maps_at;
    for (unsigned i = 0; i < g->meta->nmaps; i++)
        if ((moved >> g->meta->maps[i].arg & 1) &&
            tc_gpu_map(g->loaded, g->meta, i, g->args,
                       to + (size_t)i * TC_GPU_MAP_BYTES))
            return false;
    return true;
}

static bool put_counter(tc_launch_graph *g, tc_cu_stream stream)
{
    tc_cu_address counter;
    if (tc_gpu_counter(g->loaded->counters, stream, &counter))
        return false;
    unsigned char *to = g->bytes + g->packed.counter;
    if (memcmp(to, &counter, sizeof counter) != 0)
        memset(g->is_set, 0, sizeof g->is_set);
    memcpy(to, &counter, sizeof counter);
    return true;
}

/* A thread's own default stream is another one in each thread. */
static bool are_many(tc_launch_graph *g, tc_cu_stream stream)
{
    if (stream != g->stream)
        g->in_row = 0;
    g->stream = stream;
    g->in_row += g->in_row < MOST;
    return g->in_row >= MANY && (uintptr_t)stream != TC_CU_STREAM_PER_THREAD;
}

/* Is a capture of the stream in progress? The stream that all threads share is
 * never captured. */
static bool is_captured(const tc_cuda *cuda, tc_cu_stream stream)
{
    int status = 0;
    return (uintptr_t)stream > TC_CU_STREAM_LEGACY &&
           (cuda->stream_capturing(stream, &status) || status);
}

/* The graph of the stream, else the one that is to be replaced. */
static unsigned place_of(const tc_launch_graph *g, const tc_gpu_call *c)
{
    unsigned i = 0;
    while (i < GRAPHS && g->graphs[i] &&
           !tc_gpu_graph_fits(g->graphs[i], c, g->stream))
        i++;
    return i < GRAPHS ? i : g->oldest;
}

/* NULL: it is none. Many streams that take turns with many launches each soon
 * keep what they have. */
static tc_gpu_graph *graph_of(tc_launch_graph *g, const tc_gpu_call *c,
                              unsigned at)
{
    if (g->graphs[at] && tc_gpu_graph_fits(g->graphs[at], c, g->stream))
        return g->graphs[at];
    if (g->has_no_graph || (g->graphs[at] && g->in_row < g->worth))
        return NULL;
    if (g->graphs[at]) {
        g->worth = 2 * g->worth < MOST ? 2 * g->worth : MOST;
        g->oldest = (at + 1) % GRAPHS;
    }
    tc_gpu_graph_free(g->graphs[at]);
    g->graphs[at] = tc_gpu_graph_new(c, g->stream);
    g->has_no_graph = !g->graphs[at];
    g->is_set[at] = g->graphs[at] != NULL;
    return g->graphs[at];
}

/* A code of the driver. */
static int submit(tc_launch_graph *g, tc_cu_stream stream)
{
    tc_gpu_call c = {g->loaded, g->meta, g->grid, g->bytes, g->packed.n};
    if (!are_many(g, stream) || is_captured(g->loaded->cuda, stream))
        return tc_gpu_submit(&c, stream);
    unsigned at = place_of(g, &c);
    tc_gpu_graph *graph = graph_of(g, &c, at);
    if (!graph || (!g->is_set[at] && tc_gpu_graph_set(graph, &c)))
        return tc_gpu_submit(&c, stream);
    g->is_set[at] = true;
    return tc_gpu_graph_launch(graph);
}

/* False: what is kept may be half of one launch and half of another. */
static bool launch_kept(tc_launch_graph *g, const tilec_argument *args,
                        tc_cu_stream stream)
{
    uint64_t moved = put_addresses(g, args);
    if (moved)
        memset(g->is_set, 0, sizeof g->is_set);
    return put_maps(g, moved) &&
           (!g->meta->counts_tiles || put_counter(g, stream)) &&
           !submit(g, stream);
}

bool tc_gpu_launch_again(const tilec_kernel *k, const tilec_argument *args,
                         size_t nargs, const tilec_launch_options *options)
{
    tc_launch_graph *g =
        atomic_load_explicit(&k->gpu->again, memory_order_acquire);
    bool done = false;
    if (!g || options->check_memory ||
        atomic_flag_test_and_set_explicit(&g->busy, memory_order_acquire))
        return false;
    if (g->is_there && is_like(g, args, nargs) &&
        tc_cuda_current(g->loaded->cuda) == g->loaded->context.number)
        g->is_there = done = launch_kept(g, args, options->stream);
    atomic_flag_clear_explicit(&g->busy, memory_order_release);
    return done;
}

/* ---- Keeping ---- */

static bool keep_name(struct like *k, const char *name)
{
    k->is_named = name != NULL;
    if (!name)
        return true;
    size_t n = strlen(name);
    if (n >= MOST_NAME)
        return false;
    memcpy(k->name, name, n + 1);
    return true;
}

/* False: launches of it are not kept. */
static bool keep_argument(struct like *k, tc_launch_arg *arg, unsigned param,
                          const tc_kernel_param *p, const tilec_argument *given)
{
    *k = (struct like){.param = param, .given = *given};
    if (p->type->kind == TC_PTR || !keep_name(k, given->name))
        return false;
    if (given->kind != TILEC_ARG_TENSOR)
        return true;
    const DLTensor *t = given->tensor;
    k->device = t->device;
    k->dtype = t->dtype;
    k->ndim = t->ndim;
    k->has_strides = t->strides != NULL;
    memcpy(k->sizes, arg->sizes, (size_t)t->ndim * sizeof *k->sizes);
    memcpy(k->strides, arg->strides, (size_t)t->ndim * sizeof *k->strides);
    arg->sizes = k->sizes;
    arg->strides = k->strides;
    return true;
}

/* An argument that was left out stays left out: its sizes belonged to the
 * launch that is gone. */
static bool keep_arguments(tc_launch_graph *g, const tc_gpu_request *r)
{
    g->nargs = r->ngiven;
    if (r->ngiven > TC_GPU_FEW_PARAMS)
        return false;
    for (unsigned i = 0; i < r->k->nparams; i++) {
        const tilec_argument *given = r->slots[i].given;
        g->args[i] = given ? r->args[i] : (tc_launch_arg){0};
        if (given && !keep_argument(&g->likes[given - r->given], &g->args[i], i,
                                    &r->k->params[i], given))
            return false;
    }
    return true;
}

static tc_launch_graph *room_for(const tilec_kernel *k)
{
    tc_launch_graph *g = atomic_load(&k->gpu->again), *none = NULL;
    if (g)
        return g;
    g = aligned_alloc(TC_GPU_MAP_ALIGN, sizeof *g);
    if (!g)
        return NULL;
    atomic_flag_clear(&g->busy);
    g->is_there = false;
    memset(g->is_set, 0, sizeof g->is_set);
    g->has_no_graph = k->gpu->settings->no_graphs;
    memset(g->graphs, 0, sizeof g->graphs);
    g->oldest = 0;
    g->in_row = 0;
    g->worth = MANY;
    if (atomic_compare_exchange_strong(&k->gpu->again, &none, g))
        return g;
    free(g);
    return none;
}

void tc_gpu_keep_launch(const tc_gpu_request *r, const tc_gpu_loaded *loaded,
                        const tc_gpu_meta *meta, const unsigned char *bytes,
                        const tc_gpu_packed *packed)
{
    tc_launch_graph *g = room_for(r->k);
    if (!g || atomic_flag_test_and_set_explicit(&g->busy, memory_order_acquire))
        return;
    g->is_there = keep_arguments(g, r);
    g->loaded = loaded;
    g->meta = meta;
    memcpy(g->grid, r->grid, sizeof g->grid);
    g->packed = *packed;
    memcpy(g->bytes, bytes, packed->n);
    g->in_row = 0;
    memset(g->is_set, 0, sizeof g->is_set);
    atomic_flag_clear_explicit(&g->busy, memory_order_release);
}

void tc_launch_graph_free(tc_launch_graph *g)
{
    if (g)
        for (unsigned i = 0; i < GRAPHS; i++)
            tc_gpu_graph_free(g->graphs[i]);
    free(g);
}
