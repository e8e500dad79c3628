/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a serving engine that uses tilec: a paged cache of keys and
 * values, and sequences that come and go (continuous batching).
 *
 *     cc serve.c $(pkg-config --cflags --libs tilec) -lm -o serve
 *     ./serve; ./serve gpu
 *
 * With a bundle it needs no compiler: `./serve record serve.tilecb sm_90a`
 * writes one, without a GPU; `./serve gpu serve.tilecb` runs from it, linked
 * with tilec or, built with -DSERVE_ONLY, with tilec_runtime (docs/engines.md).
 *
 * A step has one new token for each sequence (decode), or whole prompts of new
 * sequences too (prefill). It finds pages for new tokens, writes lengths and
 * the page table to the device, makes a schedule, and runs append and attention
 * in each layer. Here q, k and v are random numbers, which the last request's
 * results are checked against; a model computes them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tilec.h>

enum { LAYERS = 2, HEADS = 8, KEY_HEADS = 2, DIM = 64 };
enum { PAGE = 16, PAGES = 12, COLUMNS = 8 }; /* a sequence has 8 at most */
enum { SLOTS = 3, MOST_TOKENS = 128 };       /* of a step */
enum { REQUESTS = 5, LAST = REQUESTS - 1 };

static const struct {
    int prompt, answer; /* tokens */
} requests[REQUESTS] = {{37, 12}, {5, 30}, {90, 3}, {1, 20}, {30, 34}};

/* Where kernels read it; on the CPU `there` is `host`. */
typedef struct tensor {
    DLTensor host, *there;
    int64_t shape[4];
} tensor;

typedef struct sequence {
    int request, left; /* tokens still to make */
    int length, fresh; /* keys in the cache, and those of this step */
    int npages;
    int32_t pages[COLUMNS];
} sequence;

typedef struct engine {
    tilec_device *device; /* NULL: the CPU */
    const char *record;   /* the bundle to write instead of serving, or NULL */
    tilec_append *append;
    tilec_kvcache *prefill, *decode;
    tensor k_pool[LAYERS], v_pool[LAYERS];
    tensor q, k, v, o;                   /* of a step: [tokens, heads, DIM] */
    tensor before, after, starts, table; /* int32 */
    tensor schedule, workspace;
    int nrunning, nfree, next;
    sequence running[SLOTS];
    int32_t free_pages[PAGES];
    int steps, prefills;
    double worst; /* error of the last request's tokens */
} engine;

static tilec_error error = TILEC_INIT(tilec_error);

/* ---- Tensors ---- */

static int make(const engine *e, tensor *t, int bits, int64_t a, int64_t b,
                int64_t c, int64_t d)
{
    enum { ALIGN = 256 };
    size_t bytes = (size_t)(a * b * c * d * (bits / 8));
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    *t = (tensor){.shape = {a, b, c, d}};
    t->host = (DLTensor){.data = aligned_alloc(ALIGN, bytes),
                         .device = {kDLCPU, 0},
                         .ndim = 4,
                         .dtype = {kDLFloat, (uint8_t)bits, 1},
                         .shape = t->shape};
    if (!t->host.data)
        return 0;
    memset(t->host.data, 0, bytes);
    if (e->device)
        return tilec_device_copy(e->device, &t->host, &t->there, &error) ==
               TILEC_OK;
    t->there = &t->host;
    return 1;
}

static int make_ints(const engine *e, tensor *t, int64_t rows, int64_t columns)
{
    return make(e, t, 32, rows, columns, 1, 1);
}

static void drop(const engine *e, tensor *t)
{
    if (e->device)
        tilec_device_drop(e->device, t->there);
    free(t->host.data);
}

static int write_to(const engine *e, const tensor *t)
{
    return !e->device || tilec_device_write(e->device, &t->host, t->there,
                                            &error) == TILEC_OK;
}

static int read_from(const engine *e, const tensor *t)
{
    return !e->device ||
           tilec_device_read(e->device, t->there, &t->host, &error) == TILEC_OK;
}

static void *data_of(const tensor *t)
{
    return t->there ? t->there->data : NULL;
}

/* The first elements of a tensor in other shapes. */
typedef struct view {
    DLTensor dl;
    int64_t shape[4], strides[4];
} view;

static DLTensor *view_ints(view *v, const tensor *t, int64_t rows, int ndim)
{
    *v = (view){.dl = *t->there, .shape = {rows, COLUMNS}};
    v->dl.ndim = ndim;
    v->dl.dtype.code = kDLInt;
    v->dl.shape = v->shape;
    return &v->dl;
}

/* Tokens as [1, heads, tokens, DIM]; for a decode [tokens, heads, 1, DIM]. */
static DLTensor *view_tokens(view *v, const tensor *t, int64_t tokens,
                             int is_decode)
{
    int64_t heads = t->shape[1], row = heads * DIM;
    *v = (view){
        .dl = *t->there,
        .shape = {is_decode ? tokens : 1, heads, is_decode ? 1 : tokens, DIM},
        .strides = {row, DIM, row, 1}};
    v->dl.shape = v->shape;
    v->dl.strides = v->strides;
    return &v->dl;
}

/* ---- Pages ---- */

static int pages_for(int tokens)
{
    return (tokens + PAGE - 1) / PAGE;
}

static void take_pages(engine *e, sequence *s)
{
    while (s->npages < pages_for(s->length + s->fresh))
        s->pages[s->npages++] = e->free_pages[--e->nfree];
}

static void give_pages_back(engine *e, const sequence *s)
{
    for (int i = 0; i < s->npages; i++)
        e->free_pages[e->nfree++] = s->pages[i];
}

/* A request begins when there are pages for all that it and the others will
 * have: none has to stop half-way. */
static int has_room_for(const engine *e, int request)
{
    int wanted = pages_for(requests[request].prompt + requests[request].answer);
    for (int i = 0; i < e->nrunning; i++) {
        int r = e->running[i].request;
        wanted += pages_for(requests[r].prompt + requests[r].answer);
    }
    return e->nrunning < SLOTS && wanted <= PAGES;
}

static void begin_requests(engine *e)
{
    while (e->next < REQUESTS && has_room_for(e, e->next)) {
        e->running[e->nrunning++] =
            (sequence){.request = e->next,
                       .left = requests[e->next].answer,
                       .fresh = requests[e->next].prompt};
        e->next++;
    }
}

static void end_requests(engine *e)
{
    int kept = 0;
    for (int i = 0; i < e->nrunning; i++) {
        sequence s = e->running[i];
        s.length += s.fresh;
        s.fresh = 1;
        if (s.left-- > 0)
            e->running[kept++] = s;
        else
            give_pages_back(e, &s);
    }
    e->nrunning = kept;
}

/* ---- What a model computes ---- */

static float number(int what, int layer, int request, int at, int head, int i)
{
    enum { LONGEST = COLUMNS * PAGE };
    int n = (what * LAYERS + layer) * REQUESTS + request;
    uint32_t x = (uint32_t)(((n * LONGEST + at) * HEADS + head) * DIM + i);
    x = (x ^ x >> 16) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    return (float)((x ^ x >> 16) >> 8) / (float)(1 << 23) - 1.0f;
}

/* The new tokens of all sequences, one after the other. */
static int fill(const engine *e, const tensor *t, int what, int layer)
{
    float *to = t->host.data;
    for (int b = 0; b < e->nrunning; b++) {
        const sequence *s = &e->running[b];
        for (int at = s->length; at < s->length + s->fresh; at++)
            for (int h = 0; h < (int)t->shape[1]; h++)
                for (int i = 0; i < DIM; i++)
                    *to++ = number(what, layer, s->request, at, h, i);
    }
    return write_to(e, t);
}

/* ---- The reference ---- */

/* The largest error of one head of the newest token: it sees all keys. */
static double head_error(const sequence *s, int layer, int h, const float *o)
{
    double sum = 0, want[DIM] = {0}, worst = 0;
    int hk = h / (HEADS / KEY_HEADS), n = s->length + s->fresh;
    for (int at = 0; at < n; at++) {
        double score = 0;
        for (int i = 0; i < DIM; i++)
            score += (double)number('q', layer, s->request, n - 1, h, i) *
                     (double)number('k', layer, s->request, at, hk, i);
        double p = exp(score / sqrt(DIM)); /* |score| <= 64: no overflow */
        sum += p;
        for (int i = 0; i < DIM; i++)
            want[i] += p * (double)number('v', layer, s->request, at, hk, i);
    }
    for (int i = 0; i < DIM; i++)
        worst = fmax(worst, fabs((double)o[i] - want[i] / sum));
    return worst;
}

static int check(engine *e, int layer)
{
    if (!read_from(e, &e->o))
        return 0;
    const float *o = e->o.host.data;
    for (int b = 0; b < e->nrunning; b++) {
        const sequence *s = &e->running[b];
        o += (size_t)s->fresh * HEADS * DIM;
        for (int h = 0; s->request == LAST && h < HEADS; h++)
            e->worst =
                fmax(e->worst, head_error(s, layer, h, o + (h - HEADS) * DIM));
    }
    return 1;
}

/* ---- A step ---- */

/* Lengths before and after, where the tokens of each sequence begin, pages. The
 * number of tokens; 0: failed. */
static int describe_batch(engine *e)
{
    int32_t *before = e->before.host.data, *after = e->after.host.data,
            *starts = e->starts.host.data, *table = e->table.host.data;
    for (int b = 0; b < e->nrunning; b++) {
        sequence *s = &e->running[b];
        take_pages(e, s);
        before[b] = s->length;
        after[b] = s->length + s->fresh;
        starts[b + 1] = starts[b] + s->fresh;
        memcpy(table + (size_t)b * COLUMNS, s->pages, sizeof s->pages);
    }
    int ok = write_to(e, &e->before) && write_to(e, &e->after) &&
             write_to(e, &e->starts) && write_to(e, &e->table);
    return ok ? starts[e->nrunning] : 0;
}

/* The tensors of a step, and the views that they are. */
typedef struct batch {
    tilec_append_tensors append;
    tilec_kvcache_tensors attention;
    view q, k, v, o, before, after, starts, table;
} batch;

static void view_batch(engine *e, batch *b, int sequences, int tokens,
                       int is_decode)
{
    b->append = TILEC_INIT(tilec_append_tensors);
    b->append.k = view_tokens(&b->k, &e->k, tokens, 0);
    b->append.v = view_tokens(&b->v, &e->v, tokens, 0);
    b->append.cu_seqlens = view_ints(&b->starts, &e->starts, sequences + 1, 1);
    b->append.kv_lens = view_ints(&b->before, &e->before, sequences, 1);
    b->append.page_table = view_ints(&b->table, &e->table, sequences, 2);
    b->attention = TILEC_INIT(tilec_kvcache_tensors);
    b->attention.q = view_tokens(&b->q, &e->q, tokens, is_decode);
    b->attention.o = view_tokens(&b->o, &e->o, tokens, is_decode);
    b->attention.kv_lens = view_ints(&b->after, &e->after, sequences, 1);
    b->attention.page_table = b->append.page_table;
    b->attention.cu_seqlens_q = is_decode ? NULL : b->append.cu_seqlens;
    b->attention.schedule = data_of(&e->schedule);
    b->attention.schedule_bytes = (uint64_t)e->schedule.shape[0];
    b->attention.workspace = data_of(&e->workspace);
    b->attention.workspace_bytes = (uint64_t)e->workspace.shape[0];
}

static void choose_layer(engine *e, batch *b, int layer)
{
    b->append.k_cache = b->attention.k = e->k_pool[layer].there;
    b->append.v_cache = b->attention.v = e->v_pool[layer].there;
}

static int run_layer(engine *e, const tilec_kvcache *plan, batch *b, int layer)
{
    choose_layer(e, b, layer);
    return fill(e, &e->q, 'q', layer) && fill(e, &e->k, 'k', layer) &&
           fill(e, &e->v, 'v', layer) &&
           tilec_append_run(e->append, &b->append, NULL, &error) == TILEC_OK &&
           tilec_kvcache_attention(plan, &b->attention, NULL, &error) ==
               TILEC_OK &&
           check(e, layer);
}

static int step(engine *e)
{
    begin_requests(e);
    int tokens = describe_batch(e), is_decode = tokens == e->nrunning;
    const tilec_kvcache *plan = is_decode ? e->decode : e->prefill;
    batch b;
    view_batch(e, &b, e->nrunning, tokens, is_decode);
    choose_layer(e, &b, 0);
    int ok = tokens && tilec_kvcache_schedule(plan, &b.attention, NULL,
                                              &error) == TILEC_OK;
    for (int layer = 0; ok && layer < LAYERS; layer++)
        ok = run_layer(e, plan, &b, layer);
    end_requests(e);
    e->steps++;
    e->prefills += !is_decode;
    return ok;
}

/* ---- Plans and memory ---- */

static int make_tensors(engine *e)
{
    int ok = 1;
    for (int i = 0; i < LAYERS; i++)
        ok = ok && make(e, &e->k_pool[i], 32, PAGES, KEY_HEADS, PAGE, DIM) &&
             make(e, &e->v_pool[i], 32, PAGES, KEY_HEADS, PAGE, DIM);
    return ok && make(e, &e->q, 32, MOST_TOKENS, HEADS, DIM, 1) &&
           make(e, &e->o, 32, MOST_TOKENS, HEADS, DIM, 1) &&
           make(e, &e->k, 32, MOST_TOKENS, KEY_HEADS, DIM, 1) &&
           make(e, &e->v, 32, MOST_TOKENS, KEY_HEADS, DIM, 1) &&
           make_ints(e, &e->before, SLOTS, 1) &&
           make_ints(e, &e->after, SLOTS, 1) &&
           make_ints(e, &e->starts, SLOTS + 1, 1) &&
           make_ints(e, &e->table, SLOTS, COLUMNS);
}

/* A plan for batches like this one, and what the largest one needs. */
static tilec_kvcache *make_plan(const engine *e, tilec_context *cx,
                                const batch *b, uint64_t *schedule,
                                uint64_t *workspace)
{
    const tilec_kvcache_tensors *t = &b->attention;
    tilec_kvcache_options o = TILEC_INIT(tilec_kvcache_options);
    o.layout = TILEC_KV_PAGED;
    o.ragged_queries = t->cu_seqlens_q != NULL;
    o.mask = "causal";
    o.no_load = e->record != NULL;
    tilec_kvcache *plan = NULL;
    uint64_t s = 0, w = 0;
    if (tilec_kvcache_plan(cx, t->q, t->k, t->v, &o, &plan) != TILEC_OK ||
        tilec_kvcache_workspace(plan, t, &s, &w, &error) != TILEC_OK)
        return plan;
    *schedule = s > *schedule ? s : *schedule;
    *workspace = w > *workspace ? w : *workspace;
    return plan;
}

static int make_plans(engine *e, tilec_context *cx)
{
    uint64_t schedule = 0, workspace = 0;
    tilec_append_options o = TILEC_INIT(tilec_append_options);
    batch b;
    o.no_load = e->record != NULL;
    view_batch(e, &b, SLOTS, MOST_TOKENS, 0);
    choose_layer(e, &b, 0);
    tilec_append_plan(cx, &b.append, &o, &e->append);
    e->prefill = make_plan(e, cx, &b, &schedule, &workspace);
    view_batch(e, &b, SLOTS, SLOTS, 1);
    choose_layer(e, &b, 0);
    e->decode = make_plan(e, cx, &b, &schedule, &workspace);
    return e->append && e->prefill && e->decode && schedule && workspace &&
           make(e, &e->schedule, 8, (int64_t)schedule, 1, 1, 1) &&
           make(e, &e->workspace, 8, (int64_t)workspace, 1, 1, 1);
}

#ifdef SERVE_ONLY
static int save(const engine *e, tilec_context *cx)
{
    return 0; /* the runtime records nothing */
}

static int begin_record(tilec_context *cx)
{
    return 0;
}
#else
static int save(const engine *e, tilec_context *cx)
{
    return tilec_bundle_save(cx, e->record, &error) == TILEC_OK;
}

static int begin_record(tilec_context *cx)
{
    return tilec_bundle_record(cx, &error) == TILEC_OK;
}
#endif

static int serve(engine *e, tilec_context *cx)
{
    int ok = make_tensors(e) && make_plans(e, cx);
    if (tilec_diagnostics(cx))
        fprintf(stderr, "%s\n", tilec_diagnostics(cx)->message);
    if (ok && e->record)
        return save(e, cx);
    for (e->nfree = 0; e->nfree < PAGES; e->nfree++)
        e->free_pages[e->nfree] = e->nfree;
    while (ok && (e->nrunning || e->next < REQUESTS))
        ok = step(e);
    if (!ok && error.message[0])
        fprintf(stderr, "%s\n", error.message);
    return ok;
}

static void drop_all(engine *e)
{
    tensor *const all[] = {
        &e->k_pool[0], &e->k_pool[1], &e->v_pool[0], &e->v_pool[1], &e->q,
        &e->k,         &e->v,         &e->o,         &e->before,    &e->after,
        &e->starts,    &e->table,     &e->schedule,  &e->workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        drop(e, all[i]);
    tilec_append_free(e->append);
    tilec_kvcache_free(e->prefill);
    tilec_kvcache_free(e->decode);
    tilec_device_free(e->device);
}

/* serve [cpu | gpu] [BUNDLE], serve record BUNDLE TARGET */
int main(int argc, char **argv)
{
    int on_gpu = argc > 1 && strcmp(argv[1], "gpu") == 0;
    int records = argc > 3 && strcmp(argv[1], "record") == 0;
    static engine e;
    tilec_context *cx = NULL;
    tilec_context_options options = TILEC_INIT(tilec_context_options);
    options.target = records ? argv[3] : on_gpu ? NULL : "cpu";
    options.cpu = records ? "x86-64-v3" : NULL;
    e.record = records ? argv[2] : NULL;
    if (on_gpu && tilec_device_open(NULL, -1, &e.device, &error) != TILEC_OK) {
        fprintf(stderr, "no GPU: %s\n", error.message);
        return 3;
    }
    int ok = tilec_context_new(&options, &cx) == TILEC_OK;
    if (ok && records)
        ok = begin_record(cx);
    else if (ok && argc > 2)
        ok = tilec_bundle_load(cx, argv[2], &error) == TILEC_OK;
    if (ok)
        ok = serve(&e, cx);
    else
        fprintf(stderr, "%s\n", error.message);
    if (ok && !records)
        printf("%d requests in %d steps, %d of them with prompts; %d of %d "
               "pages are free; largest error %.1e\n",
               REQUESTS, e.steps, e.prefills, e.nfree, PAGES, e.worst);
    drop_all(&e);
    tilec_context_free(cx);
    return ok && (records || (e.worst > 0 && e.worst < 1e-4)) ? 0 : 1;
}
