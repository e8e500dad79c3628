/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over parts of the keys from C: float32 states, merges in place,
 * gradients of parts, against one call over all keys. On a GPU all of it is
 * captured in a graph and replayed with other numbers; on the CPU, called.
 */
#include "test/numerics/run.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, ROWS = 200, KEYS = 260, D = 64 };
enum { PARTS = 3, Q_OFFSET = 60 };
static const int starts[PARTS + 1] = {0, 128, 200, KEYS};

/* ---- Tensors of the target ---- */

enum {
    Q,
    K,
    V,
    DO,
    NINPUTS,
    STATE_O = NINPUTS, /* of parts */
    STATE_LSE,
    PART_O,
    PART_LSE,
    O,
    LSE,
    DQ,
    PART_DQ,
    DK,
    DV,
    WHOLE_STATE, /* of one call */
    WHOLE_LSE,
    WHOLE_O,
    WHOLE_DQ,
    WHOLE_DK,
    WHOLE_DV,
    COUNT
};

typedef struct tensors {
    num_tensor host[COUNT];
    run_view views[COUNT];
    DLTensor *there[COUNT];
    num_type type; /* of the inputs */
} tensors;

static void shape_of(const tensors *t, int i, num_type *type, int32_t size[4])
{
    bool of_keys = i == K || i == V || i == DK || i == DV || i == WHOLE_DK ||
                   i == WHOLE_DV;
    *type = i < NINPUTS || i == O || i == WHOLE_O ? t->type : NUM_F32;
    size[0] = BATCH;
    size[1] = of_keys ? KV_HEADS : HEADS;
    size[2] = of_keys ? KEYS : ROWS;
    size[3] = D;
}

static bool is_lse(int i)
{
    return i == STATE_LSE || i == PART_LSE || i == LSE || i == WHOLE_LSE;
}

static bool new_tensors(tensors *t, tilec_error *e)
{
    t->type = run_device() ? NUM_BF16 : NUM_F32;
    for (int i = 0; i < COUNT; i++) {
        num_type type;
        int32_t size[4];
        shape_of(t, i, &type, size);
        t->host[i] = num_tensor_new(type, is_lse(i) ? 3 : 4, size, NULL);
        run_view_of(&t->views[i], &t->host[i]);
        t->there[i] = &t->views[i].dl;
        if (run_device() &&
            tilec_device_copy(run_device(), &t->views[i].dl, &t->there[i], e))
            return false;
    }
    return true;
}

static void free_tensors(tensors *t)
{
    for (int i = 0; i < COUNT; i++) {
        if (run_device() && t->there[i])
            tilec_device_drop(run_device(), t->there[i]);
        num_tensor_free(&t->host[i]);
    }
}

/* ---- The driver ---- */

static struct driver {
    int (*stream_new)(void **stream, unsigned flags);
    int (*capture_begin)(void *stream, int mode);
    int (*capture_end)(void *stream, void **graph);
    int (*graph_make)(void **made, void *graph, unsigned long long flags);
    int (*graph_launch)(void *made, void *stream);
    int (*write)(void *to, const void *from, size_t bytes);
    int (*synchronize)(void);
    int (*retain)(void **context, int device);
    int (*set)(void *context);
} driver;

static bool find_driver(void)
{
    static const struct {
        const char *name;
        void *to;
    } functions[] = {{"cuStreamCreate", &driver.stream_new},
                     {"cuStreamBeginCapture_v2", &driver.capture_begin},
                     {"cuStreamEndCapture", &driver.capture_end},
                     {"cuGraphInstantiateWithFlags", &driver.graph_make},
                     {"cuGraphLaunch", &driver.graph_launch},
                     {"cuMemcpyHtoD_v2", &driver.write},
                     {"cuCtxSynchronize", &driver.synchronize},
                     {"cuDevicePrimaryCtxRetain", &driver.retain},
                     {"cuCtxSetCurrent", &driver.set}};
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = library ? dlsym(library, functions[i].name) : NULL;
        if (!f)
            return false;
        memcpy(functions[i].to, &f, sizeof f);
    }
    return !driver.retain(&context, tilec_device_ordinal(run_device())) &&
           !driver.set(context);
}

static bool fill(tensors *t, uint64_t seed)
{
    num_rng r = {seed};
    for (int i = 0; i < NINPUTS; i++) {
        num_tensor *x = &t->host[i];
        for (int64_t n = num_count(x), e = 0; e < n; e++)
            num_write(t->type, num_at(x, e), num_normal(&r));
        if (run_device() &&
            (driver.synchronize() ||
             driver.write(t->there[i]->data, x->data,
                          (size_t)num_count(x) * num_bytes(t->type))))
            return false;
    }
    return true;
}

/* ---- Kernels ---- */

typedef struct blocks {
    tilec_attention *plan;
    tilec_kernel *merge_into, *merge_states, *add_into;
} blocks;

static tilec_attention *plan(tilec_context *cx, tensors *t)
{
    static const tilec_binding forward = {"TO", "f32"},
                               backward = {"TG", "f32"};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.mask = "shifted(causal)";
    o.bindings = &forward;
    o.backward_bindings = &backward;
    o.nbindings = o.nbackward_bindings = 1;
    o.backward = o.deterministic = 1;
    tilec_attention *found = NULL;
    if (tilec_attention_plan(cx, t->there[Q], t->there[K], t->there[V], &o,
                             &found))
        run_print_diagnostics(cx);
    return found;
}

static bool make_blocks(blocks *b, tilec_context *cx, tensors *t)
{
    const tilec_binding d[] = {
        {"D", "64"}, {"T", "f32"}, {"TO", run_device() ? "bf16" : "f32"}};
    b->plan = plan(cx, t);
    b->merge_into = run_compile_bound(cx, "merge_states", "merge_into", d, 1);
    b->merge_states =
        run_compile_bound(cx, "merge_states", "merge_states", d, 3);
    b->add_into = run_compile_bound(cx, "merge_states", "add_into", d, 1);
    return b->plan && b->merge_into && b->merge_states && b->add_into;
}

static void free_blocks(blocks *b)
{
    tilec_attention_free(b->plan);
    tilec_kernel_free(b->merge_into);
    tilec_kernel_free(b->merge_states);
    tilec_kernel_free(b->add_into);
}

/* ---- Calls ---- */

typedef struct call {
    tensors *t;
    const blocks *b;
    run_room room; /* for backward */
    tilec_launch_options options;
    tilec_error error;
} call;

/* Rows [a, b) of a tensor of keys. */
static DLTensor rows(const DLTensor *x, int64_t shape[4], int a, int b)
{
    DLTensor v = *x;
    memcpy(shape, x->shape, 4 * sizeof *shape);
    shape[2] = b - a;
    v.shape = shape;
    v.data = (char *)x->data +
             (size_t)(x->strides[2] * a) * (size_t)(x->dtype.bits / 8);
    return v;
}

typedef struct views {
    DLTensor all[4];
    int64_t shapes[4][4];
    tilec_argument places[3];
} views;

static tilec_attention_tensors arguments(call *c, views *v, int a, int b)
{
    DLTensor **t = c->t->there;
    const DLTensor *of_keys[] = {t[K], t[V], t[DK], t[DV]};
    for (int i = 0; i < 4; i++)
        v->all[i] = rows(of_keys[i], v->shapes[i], a, b);
    v->places[0] = tilec_int("q_offset", Q_OFFSET);
    v->places[1] = tilec_int("k_offset", a);
    v->places[2] = tilec_int("h_offset", 0);
    tilec_attention_tensors x = TILEC_INIT(tilec_attention_tensors);
    x.q = t[Q];
    x.k = &v->all[0];
    x.v = &v->all[1];
    x.dk = &v->all[2];
    x.dv = &v->all[3];
    x.dout = t[DO];
    x.captured = v->places;
    x.ncaptured = 3;
    x.workspace = c->room.address;
    x.workspace_bytes = c->room.bytes;
    return x;
}

/* Enough for all keys is enough for some. */
static bool make_room(call *c)
{
    views v;
    tilec_attention_tensors x = arguments(c, &v, 0, KEYS);
    uint64_t bytes;
    return !tilec_attention_workspace(c->b->plan, &x, NULL, &bytes,
                                      &c->error) &&
           !run_room_new(&c->room, bytes, &c->error);
}

static bool launch(call *c, const tilec_kernel *k, tilec_argument *args,
                   size_t n)
{
    return !tilec_launch(k, args, n, &c->options, &c->error);
}

/* The state in the data type of o. */
static bool round_state(call *c, int state, int lse, int o, int lse_to)
{
    DLTensor parts = *c->t->there[state], lses = *c->t->there[lse];
    int64_t s5[5] = {1, BATCH, HEADS, ROWS, D}, s4[4] = {1, BATCH, HEADS, ROWS};
    parts.ndim = 5;
    parts.shape = s5;
    lses.ndim = 4;
    lses.shape = s4;
    parts.strides = lses.strides = NULL;
    tilec_argument args[] = {tilec_tensor(NULL, &parts),
                             tilec_tensor(NULL, &lses),
                             tilec_tensor(NULL, c->t->there[o]),
                             tilec_tensor(NULL, c->t->there[lse_to])};
    return launch(c, c->b->merge_states, args, 4);
}

static bool forward_part(call *c, int i)
{
    views v;
    DLTensor **t = c->t->there;
    tilec_attention_tensors x = arguments(c, &v, starts[i], starts[i + 1]);
    x.o = t[i ? PART_O : STATE_O];
    x.lse = t[i ? PART_LSE : STATE_LSE];
    tilec_argument args[] = {
        tilec_tensor(NULL, t[PART_O]), tilec_tensor(NULL, t[PART_LSE]),
        tilec_tensor(NULL, t[STATE_O]), tilec_tensor(NULL, t[STATE_LSE])};
    return !tilec_attention_forward(c->b->plan, &x, &c->options, &c->error) &&
           (!i || launch(c, c->b->merge_into, args, 4));
}

static bool backward_part(call *c, int i)
{
    views v;
    DLTensor **t = c->t->there;
    tilec_attention_tensors x = arguments(c, &v, starts[i], starts[i + 1]);
    x.o = t[O];
    x.lse = t[LSE];
    x.dq = t[i ? PART_DQ : DQ];
    tilec_argument args[] = {tilec_tensor(NULL, t[PART_DQ]),
                             tilec_tensor(NULL, t[DQ])};
    return !tilec_attention_backward(c->b->plan, &x, &c->options, &c->error) &&
           (!i || launch(c, c->b->add_into, args, 2));
}

static bool by_parts(call *c)
{
    bool ok = true;
    for (int i = 0; ok && i < PARTS; i++)
        ok = forward_part(c, i);
    ok = ok && round_state(c, STATE_O, STATE_LSE, O, LSE);
    for (int i = 0; ok && i < PARTS; i++)
        ok = backward_part(c, i);
    return ok;
}

static bool at_once(call *c)
{
    views v;
    DLTensor **t = c->t->there;
    tilec_attention_tensors x = arguments(c, &v, 0, KEYS);
    x.o = t[WHOLE_STATE];
    x.lse = t[WHOLE_LSE];
    if (tilec_attention_forward(c->b->plan, &x, &c->options, &c->error) ||
        !round_state(c, WHOLE_STATE, WHOLE_LSE, WHOLE_O, WHOLE_LSE))
        return false;
    x.o = t[WHOLE_O];
    x.dq = t[WHOLE_DQ];
    x.dk = t[WHOLE_DK];
    x.dv = t[WHOLE_DV];
    return !tilec_attention_backward(c->b->plan, &x, &c->options, &c->error);
}

/* ---- Results ---- */

static bool read_back(call *c, int i)
{
    return !run_device() || !tilec_device_read(run_device(), c->t->there[i],
                                               &c->t->views[i].dl, &c->error);
}

static double off(call *c, int i, int whole)
{
    double sum = 0, all = 0;
    if (!read_back(c, i) || !read_back(c, whole))
        return INFINITY;
    const num_tensor *x = &c->t->host[i], *w = &c->t->host[whole];
    for (int64_t n = num_count(x), e = 0; e < n; e++) {
        double y = num_read(w->type, num_at(w, e));
        double d = num_read(x->type, num_at(x, e)) - y;
        sum += d * d;
        all += y * y;
    }
    return sqrt(sum / all);
}

static void check(call *c, const char *when, run_counts *counts)
{
    static const struct {
        const char *name;
        int part, whole;
    } pairs[] = {{"o", STATE_O, WHOLE_STATE},
                 {"lse", LSE, WHOLE_LSE},
                 {"dq", DQ, WHOLE_DQ},
                 {"dk", DK, WHOLE_DK},
                 {"dv", DV, WHOLE_DV}};
    double most = run_device() ? 4e-3 : 2e-6;
    bool ok = at_once(c) && (!run_device() ||
                             !tilec_kernel_synchronize(
                                 c->b->add_into, c->options.stream, &c->error));
    run_check(counts, ok, "%s: at once: %s", when, c->error.message);
    for (size_t i = 0; ok && i < sizeof pairs / sizeof *pairs; i++) {
        double e = off(c, pairs[i].part, pairs[i].whole);
        run_check(counts, e < most, "%s: %s is off by %g", when, pairs[i].name,
                  e);
    }
}

static void test_graph(call *c, run_counts *counts)
{
    void *graph, *made, *stream = c->options.stream;
    bool ok = !driver.capture_begin(stream, 0) && by_parts(c);
    run_check(counts, ok, "capture: %s", c->error.message);
    ok = ok && !driver.capture_end(stream, &graph) &&
         !driver.graph_make(&made, graph, 0);
    run_check(counts, ok, "capture: no graph");
    for (uint64_t seed = 2; ok && seed < 4; seed++) {
        ok = fill(c->t, seed) && !driver.graph_launch(made, stream);
        run_check(counts, ok, "replay %d", (int)seed);
        check(c, "replay", counts);
    }
}

int main(void)
{
    static tensors t;
    run_counts counts = {0};
    tilec_context *cx = run_context();
    blocks b = {0};
    call c = {.t = &t, .b = &b, .options = TILEC_INIT(tilec_launch_options)};
    bool ok = !run_device() ||
              (find_driver() && !driver.stream_new(&c.options.stream, 1));
    run_check(&counts, ok, "the driver");
    ok = ok && new_tensors(&t, &c.error) && fill(&t, 1) &&
         make_blocks(&b, cx, &t);
    run_check(&counts, ok, "kernels: %s", c.error.message);
    ok = ok && make_room(&c) && by_parts(&c);
    run_check(&counts, ok, "parts: %s", c.error.message);
    if (ok)
        check(&c, "called", &counts);
    if (ok && run_device())
        test_graph(&c, &counts);
    run_room_free(&c.room);
    free_blocks(&b);
    free_tensors(&t);
    run_context_free(cx);
    return run_finish(&counts);
}
