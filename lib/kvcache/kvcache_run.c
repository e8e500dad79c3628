/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs planned attention over a cache: the sizes of what the schedule says, and
 * the arguments of the kernels.
 *
 *   schedule memory    items [13, W], counters [R x HK]
 *   workspace          partial results: o_parts [partials, HK, BM, DV] and
 *                      lse_parts [partials, HK, BM]; lse, where none is wanted
 */
#include "lib/kvcache/kvcache.h"
#include "lib/mods/captured.h"
#include "lib/overlap.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256, ITEM_ROWS = 13 };

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Of a tensor of 32-bit elements; more than there is, where it overflows. */
static uint64_t bytes_of(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t sides[] = {a, b, c, d};
    uint64_t bytes = sizeof(float);
    for (int i = 0; i < 4; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)sides[i], &bytes))
            return UINT64_MAX / 16;
    return bytes < UINT64_MAX / 16 ? bytes : UINT64_MAX / 16;
}

static int64_t divided(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* ---- The tensors that say where things are ---- */

#define FIELD(name) offsetof(tilec_kvcache_tensors, name)
static const DLTensor *field(const tilec_kvcache_tensors *t, size_t offset)
{
    const DLTensor *found;
    memcpy(&found, (const char *)t + offset, sizeof found);
    return found;
}

/* A tensor of the caller, and the captured parameters that it is. */
struct place {
    const char *name;
    size_t offset;
    int ndim;
    const char *parameters[2];
};

static const struct place lens = {
    "kv_lens", FIELD(kv_lens), 1, {"key_count.lens"}};
static const struct place table = {
    "page_table", FIELD(page_table), 2, {"key_place.table"}};
static const struct place starts = {"cu_seqlens_k",
                                    FIELD(cu_seqlens_k),
                                    1,
                                    {"key_count.starts", "key_place.starts"}};
static const struct place indptr = {
    "kv_indptr", FIELD(kv_indptr), 1, {"key_count.indptr", "key_place.indptr"}};
static const struct place indices = {
    "kv_indices", FIELD(kv_indices), 1, {"key_place.indices"}};
static const struct place last = {"kv_last_page_len",
                                  FIELD(kv_last_page_len),
                                  1,
                                  {"key_count.last_page_len"}};
static const struct place queries = {
    "cu_seqlens_q", FIELD(cu_seqlens_q), 1, {"query_span.starts"}};
static const struct place offsets = {
    "query_offsets", FIELD(query_offsets), 1, {"query_position.query_offsets"}};

/* By layout; the first one has an element for each sequence (cu_seqlens_k one
 * more). */
enum { PLACES = 3 };
static const struct place *const places[][PLACES] = {
    [TILEC_KV_DENSE] = {&lens},
    [TILEC_KV_RAGGED] = {&starts},
    [TILEC_KV_PAGED] = {&lens, &table},
    [TILEC_KV_INDEXED] = {&last, &indptr, &indices},
};

static tilec_status check_place(const struct place *p,
                                const tilec_kvcache_tensors *t,
                                const char *function, tilec_error *error)
{
    const DLTensor *given = field(t, p->offset);
    if (!given)
        return tc_fail(error, TILEC_USAGE,
                       "%s: %s is NULL, expected a tensor of i32", function,
                       p->name);
    if (given->ndim != p->ndim || !given->shape)
        return tc_fail(error, TILEC_INPUT, "%s: rank is %d, expected %d",
                       p->name, given->ndim, p->ndim);
    if (tc_kind_from_dl(given->dtype) != TC_I32)
        return tc_fail(error, TILEC_INPUT, "%s: data type is %s, expected i32",
                       p->name, tc_dtype_name(given->dtype).text);
    return TILEC_OK;
}

/* ---- k and v of one tensor ---- */

bool tc_kv_is_in(const DLTensor *v, const DLTensor *k)
{
    bool same = v->data == k->data && v->byte_offset == k->byte_offset &&
                v->dtype.code == k->dtype.code &&
                v->dtype.bits == k->dtype.bits && v->shape[3] <= k->shape[3];
    for (int d = 0; same && d < 4; d++)
        same = (d == 3 || v->shape[d] == k->shape[d]) &&
               tc_view_stride(v, d) == tc_view_stride(k, d);
    return same;
}

/* ---- Sizes ---- */

struct sizes {
    int64_t batch;
    int64_t parts;  /* pieces that keep the GPU busy, a key head */
    int64_t rows;   /* at most, of a block of rows */
    int64_t splits; /* blocks of rows with several pieces, at most */
    int64_t items, partials, counters;
    uint64_t schedule_bytes, o_bytes, lse_parts_bytes, lse_bytes;
};

/* The keys that a sequence has room for; a schedule counts to 2^30. */
static int64_t most_keys(const tilec_kvcache *c, const tilec_kvcache_tensors *t)
{
    enum { MOST = 1 << 30 };
    int64_t pages = 1, keys;
    if (c->layout == TILEC_KV_PAGED)
        pages = t->page_table->shape[1];
    if (c->layout == TILEC_KV_INDEXED)
        pages = t->kv_indices->shape[0];
    if (__builtin_mul_overflow(pages, t->k->shape[2], &keys) || keys > MOST)
        return MOST;
    return keys;
}

static int64_t batch_of(const tilec_kvcache *c, const tilec_kvcache_tensors *t)
{
    int64_t n = field(t, places[c->layout][0]->offset)->shape[0];
    return c->layout == TILEC_KV_RAGGED ? n - 1 : n;
}

/* Pieces that keep the GPU busy. */
static int64_t parts_of(const tilec_kvcache *c, int64_t heads)
{
    enum { ON_CPU = 8 };
    int64_t programs = c->sms ? (int64_t)c->sms * c->per_sm : ON_CPU;
    return programs > heads ? programs / heads : 1;
}

/* Items, blocks with several pieces and their pieces, at most. */
static void find_items(const tilec_kvcache *c, const tilec_kvcache_tensors *t,
                       struct sizes *s)
{
    int64_t blocks = divided(t->q->shape[2] * c->group, c->block);
    int64_t all = c->ragged_queries ? s->batch + blocks : s->batch * blocks;
    if (c->piece) {
        int64_t pieces = divided(most_keys(c, t) + 1, c->piece);
        s->items = s->partials = all * (pieces > 1 ? pieces : 1);
        s->splits = all;
        return;
    }
    /* There are twice as many pieces where lengths differ, by so much that it
     * takes more than two sequences of as many queries. A piece is the keys
     * divided by their number at least, and what is split is longer by half: it
     * has less than twice as many pieces as the keys divided by that. Programs
     * of items that there are not cost the time of a launch. */
    enum { ALIKE = 2 };
    bool differs = s->batch > ALIKE || c->ragged_queries;
    int64_t pieces = (differs ? 2 : 1) * s->parts;
    s->items = all + pieces;
    s->partials = 2 * pieces;
    s->splits = all < pieces ? all : pieces;
}

/* An odd number of items: their rows are not aligned to 16 bytes, so that each
 * thread of the schedule makes one item. It is faster than the fewer stores of
 * threads that make four. */
static int64_t made_odd(int64_t items)
{
    return items | 1;
}

static void find_sizes(const tilec_kvcache *c, const tilec_kvcache_tensors *t,
                       struct sizes *s)
{
    const int64_t *q = t->q->shape;
    int64_t heads = t->k->shape[1] > 1 ? t->k->shape[1] : 1;
    s->batch = batch_of(c, t);
    s->parts = parts_of(c, heads);
    s->rows =
        q[2] * c->group < c->block && !c->by_heads ? q[2] * c->group : c->block;
    find_items(c, t, s);
    s->items = made_odd(s->items);
    s->counters = s->splits * heads;
    s->schedule_bytes = aligned(bytes_of(s->items, ITEM_ROWS, 1, 1)) +
                        bytes_of(s->counters, 1, 1, 1);
    s->o_bytes =
        aligned(bytes_of(s->partials, heads, c->block, t->v->shape[3]));
    s->lse_parts_bytes = aligned(bytes_of(s->partials, heads, c->block, 1));
    s->lse_bytes = bytes_of(q[0], q[1], q[2], 1);
}

/* ---- A call ---- */

/* Arguments of the kernels' own; all of a plan with few captured values. */
enum { OWN = 10, FEW = 96 };

struct call {
    const tilec_kvcache *c;
    const tilec_kvcache_tensors *t;
    struct sizes sizes;
    tilec_argument few[FEW], *args, *captured;
    size_t nargs;
    DLTensor items, counters, o_parts, lse_parts, lse;
    int64_t shapes[5][4];
    tilec_error *error;
};

static tilec_status check_tensors(const tilec_kvcache_tensors *t,
                                  tilec_error *error)
{
    const DLTensor *const all[] = {t->q, t->k, t->v};
    for (int i = 0; i < 3; i++) {
        if (all[i]->ndim != 4 || !all[i]->shape)
            return tc_fail(error, TILEC_INPUT,
                           "argument %c: rank is %d, expected 4", "qkv"[i],
                           all[i] -> ndim);
        for (int d = 0; d < 4; d++)
            if (all[i]->shape[d] < 0 || all[i]->shape[d] > TC_MAX_SIZE)
                return tc_fail(error, TILEC_INPUT,
                               "argument %c: dim %d is %lld, expected 0 to %d",
                               "qkv"[i], d, (long long)all[i] -> shape[d],
                               TC_MAX_SIZE);
    }
    return TILEC_OK;
}

/* A side of a tensor that follows from how many sequences there are. */
static tilec_status check_side(const char *name, int64_t found,
                               int64_t expected, const char *of,
                               tilec_error *error)
{
    if (found == expected)
        return TILEC_OK;
    return tc_fail(error, TILEC_INPUT,
                   "%s: dim 0 is %lld, expected %lld, as %s says", name,
                   (long long)found, (long long)expected, of);
}

/* All tensors are of as many sequences: kernels index by them. */
static tilec_status check_batch(const tilec_kvcache *c,
                                const tilec_kvcache_tensors *t,
                                tilec_error *error)
{
    const struct place *first = places[c->layout][0];
    int64_t n = batch_of(c, t);
    if (n < 0 || n > TC_MAX_SIZE)
        return tc_fail(error, TILEC_INPUT,
                       "%s: dim 0 is %lld, expected %d to %d", first->name,
                       (long long)field(t, first->offset)->shape[0],
                       c->layout == TILEC_KV_RAGGED, TC_MAX_SIZE);
    const struct {
        bool applies;
        const char *name;
        const DLTensor *tensor;
        int64_t expected;
    } sides[] = {
        {true, "argument q", t->q, c->ragged_queries ? 1 : n},
        {c->ragged_queries, "cu_seqlens_q", t->cu_seqlens_q, n + 1},
        {c->has_offsets, "query_offsets", t->query_offsets, n},
        {c->layout == TILEC_KV_DENSE, "argument k", t->k, n},
        {c->layout == TILEC_KV_RAGGED, "argument k", t->k, 1},
        {c->layout == TILEC_KV_PAGED, "page_table", t->page_table, n},
        {c->layout == TILEC_KV_INDEXED, "kv_indptr", t->kv_indptr, n + 1}};
    tilec_status s = TILEC_OK;
    for (size_t i = 0; s == TILEC_OK && i < sizeof sides / sizeof *sides; i++)
        if (sides[i].applies)
            s = check_side(sides[i].name, sides[i].tensor->shape[0],
                           sides[i].expected, first->name, error);
    return s;
}

static tilec_status read_call(struct call *call, const tilec_kvcache *c,
                              const tilec_kvcache_tensors *from,
                              const char *function, tilec_kvcache_tensors *t,
                              tilec_error *error)
{
    *call = (struct call){.c = c, .t = t, .error = error};
    if (!c || !from || !tc_options_read(t, sizeof *t, from))
        return tc_fail(error, TILEC_USAGE,
                       "%s: plan or tensors is NULL or of a wrong size: use "
                       "TILEC_INIT",
                       function);
    if (!t->q || !t->k || !t->v)
        return tc_fail(error, TILEC_USAGE, "%s: q, k or v is NULL", function);
    if (t->ncaptured && !t->captured)
        return tc_fail(error, TILEC_USAGE, "%s: captured is NULL", function);
    if (!tc_arguments_fit(t->captured, t->ncaptured))
        return tc_fail(error, TILEC_USAGE,
                       "%s: an argument has a wrong size: use tilec_tensor, "
                       "tilec_int or tilec_float",
                       function);
    tilec_status s = check_tensors(t, error);
    if (s == TILEC_OK && c->v_in_k && !tc_kv_is_in(t->v, t->k))
        return tc_fail(error, TILEC_INPUT,
                       "argument v: is not the first columns of k, as in the "
                       "plan: expected its data, sides but for dim 3, and "
                       "strides");
    for (int i = 0; s == TILEC_OK && i < PLACES; i++)
        if (places[c->layout][i])
            s = check_place(places[c->layout][i], t, function, error);
    if (s == TILEC_OK && c->ragged_queries)
        s = check_place(&queries, t, function, error);
    if (s == TILEC_OK && c->has_offsets)
        s = check_place(&offsets, t, function, error);
    if (s == TILEC_OK)
        s = check_batch(c, t, error);
    if (s == TILEC_OK)
        find_sizes(c, t, &call->sizes);
    return s;
}

static DLTensor dense(const struct call *c, void *data, uint8_t code, int rank,
                      int64_t shape[4])
{
    return (DLTensor){.data = data,
                      .device = c->t->q->device,
                      .ndim = rank,
                      .dtype = {code, 32, 1},
                      .shape = shape};
}

static tilec_status place_schedule(struct call *c, const char *function)
{
    const tilec_kvcache_tensors *t = c->t;
    if (t->schedule_bytes < c->sizes.schedule_bytes || !t->schedule)
        return tc_fail(c->error, TILEC_USAGE,
                       "%s: schedule has %llu bytes, expected %llu", function,
                       (unsigned long long)t->schedule_bytes,
                       (unsigned long long)c->sizes.schedule_bytes);
    char *at = t->schedule;
    const struct sizes *s = &c->sizes;
    c->shapes[0][0] = ITEM_ROWS;
    c->shapes[0][1] = s->items;
    c->shapes[1][0] = s->counters;
    c->items = dense(c, at, kDLInt, 2, c->shapes[0]);
    at += aligned(bytes_of(s->items, ITEM_ROWS, 1, 1));
    c->counters = dense(c, at, kDLInt, 1, c->shapes[1]);
    return TILEC_OK;
}

static void add_tensor(struct call *c, const char *name, const DLTensor *t)
{
    c->args[c->nargs++] = tilec_tensor(name, t);
}

static void add_int(struct call *c, const char *name, int64_t n)
{
    c->args[c->nargs++] = tilec_int(name, n);
}

static void add_place(struct call *c, const tilec_kernel *k,
                      const struct place *p)
{
    for (int i = 0; p && i < 2; i++)
        if (p->parameters[i] && tc_kernel_param_index(k, p->parameters[i]) >= 0)
            add_tensor(c, p->parameters[i], field(c->t, p->offset));
}

static void add_places(struct call *c, const tilec_kernel *k)
{
    for (int i = 0; i < PLACES; i++)
        add_place(c, k, places[c->c->layout][i]);
    if (c->c->ragged_queries)
        add_place(c, k, &queries);
    if (c->c->has_offsets)
        add_place(c, k, &offsets);
}

/* Room for all arguments, in which end_call ends: no malloc for a few. */
static tilec_status begin_arguments(struct call *c, const tilec_kernel *k)
{
    size_t n = 2 * (size_t)k->nparams + OWN;
    c->nargs = 0;
    c->args = n > FEW ? malloc(n * sizeof *c->args) : c->few;
    if (!c->args)
        return tc_fail_memory(c->error);
    memset(c->args, 0, n * sizeof *c->args);
    c->captured = c->args + k->nparams + OWN;
    return TILEC_OK;
}

static tilec_status end_call(struct call *c, tilec_status s)
{
    if (c->args != c->few)
        free(c->args);
    return s;
}

static tilec_status place_captured(struct call *c)
{
    const tilec_kernel *k = c->c->forward;
    tc_captured_values(k, c->c->values, c->c->nvalues, c->captured);
    return tc_captured_place(k, c->t->captured, c->t->ncaptured, c->captured,
                             c->error);
}

/* Captured values of mods; the launch names missing ones. */
static tilec_status add_captured(struct call *c)
{
    const tilec_kernel *k = c->c->forward;
    tilec_status s = place_captured(c);
    for (unsigned i = k->nown; s == TILEC_OK && i < k->nparams; i++)
        if (c->captured[i].name)
            c->args[c->nargs++] = c->captured[i];
    return s;
}

/* What the schedule's `reach` captures is what the mask captures. */
static tilec_status add_reach(struct call *c)
{
    static const char reach[] = "reach.";
    enum { PREFIX = sizeof reach - 1 };
    const tilec_kernel *k = c->c->schedule;
    char name[256];
    tilec_status s = c->c->has_reach ? place_captured(c) : TILEC_OK;
    for (unsigned i = k->nown; s == TILEC_OK && i < k->nparams; i++) {
        const char *own = k->params[i].info.name;
        if (strncmp(own, reach, PREFIX) != 0)
            continue;
        snprintf(name, sizeof name, "mask.%s", own + PREFIX);
        int at = tc_kernel_param_index(c->c->forward, name);
        if (at < 0 || !c->captured[at].name)
            return tc_fail(c->error, TILEC_USAGE,
                           "tilec_kvcache_schedule: argument %s is missing: "
                           "the mask says which keys are dealt",
                           name);
        c->args[c->nargs] = c->captured[at];
        c->args[c->nargs++].name = own;
    }
    return s;
}

/* ---- The calls ---- */

/* Of options that are wrong the launch says so. */
static tilec_status check_contents(const struct call *c,
                                   const tilec_launch_options *options)
{
    tilec_launch_options o = {0};
    if (!tc_options_read(&o, sizeof o, options) || !o.check_memory)
        return TILEC_OK;
    return tc_kv_check(c->c, c->t, &o, c->error);
}

static tilec_status run_schedule(struct call *c,
                                 const tilec_launch_options *options)
{
    const tilec_kernel *k = c->c->schedule;
    tilec_status s = begin_arguments(c, c->c->forward);
    if (s != TILEC_OK)
        return s;
    add_tensor(c, "items", &c->items);
    add_tensor(c, "counters", &c->counters);
    add_int(c, "batch", c->sizes.batch);
    add_int(c, "parts", c->sizes.parts);
    add_int(c, "queries", c->t->q->shape[2]);
    add_int(c, "keys", most_keys(c->c, c->t));
    add_places(c, k);
    s = add_reach(c);
    if (s == TILEC_OK)
        s = tilec_launch(k, c->args, c->nargs, options, c->error);
    return end_call(c, s);
}

tilec_status tilec_kvcache_schedule(const tilec_kvcache *c,
                                    const tilec_kvcache_tensors *tensors,
                                    const tilec_launch_options *options,
                                    tilec_error *error)
{
    static const char name[] = "tilec_kvcache_schedule";
    tilec_kvcache_tensors t = {0};
    struct call call;
    tilec_status s = read_call(&call, c, tensors, name, &t, error);
    if (s == TILEC_OK)
        s = place_schedule(&call, name);
    if (s == TILEC_OK)
        s = check_contents(&call, options);
    return s == TILEC_OK ? run_schedule(&call, options) : s;
}

tilec_status tilec_kvcache_workspace(const tilec_kvcache *c,
                                     const tilec_kvcache_tensors *tensors,
                                     uint64_t *schedule, uint64_t *workspace,
                                     tilec_error *error)
{
    tilec_kvcache_tensors t = {0};
    struct call call;
    tilec_status s =
        read_call(&call, c, tensors, "tilec_kvcache_workspace", &t, error);
    if (s != TILEC_OK)
        return s;
    const struct sizes *z = &call.sizes;
    if (schedule)
        *schedule = z->schedule_bytes;
    if (workspace)
        *workspace = z->o_bytes + z->lse_parts_bytes + z->lse_bytes;
    return TILEC_OK;
}

/* Where the caller wants no lse, it goes to the end of the workspace. */
static tilec_status place_workspace(struct call *c, const char *function)
{
    const tilec_kvcache_tensors *t = c->t;
    const struct sizes *z = &c->sizes;
    uint64_t all =
        z->o_bytes + z->lse_parts_bytes + (t->lse ? 0 : z->lse_bytes);
    if (t->workspace_bytes < all || !t->workspace)
        return tc_fail(c->error, TILEC_USAGE,
                       "%s: workspace has %llu bytes, expected %llu", function,
                       (unsigned long long)t->workspace_bytes,
                       (unsigned long long)all);
    const int64_t parts[4] = {z->partials, t->k->shape[1], c->c->block,
                              t->v->shape[3]};
    char *at = t->workspace;
    memcpy(c->shapes[2], parts, sizeof parts);
    memcpy(c->shapes[3], parts, sizeof parts);
    memcpy(c->shapes[4], t->q->shape, sizeof parts);
    c->o_parts = dense(c, at, kDLFloat, 4, c->shapes[2]);
    c->lse_parts = dense(c, at + z->o_bytes, kDLFloat, 3, c->shapes[3]);
    at += z->o_bytes + z->lse_parts_bytes;
    c->lse = dense(c, at, kDLFloat, 3, c->shapes[4]);
    return TILEC_OK;
}

static void add_own(struct call *c)
{
    const tilec_kvcache_tensors *t = c->t;
    add_tensor(c, "q", t->q);
    add_tensor(c, "k", t->k);
    add_tensor(c, "v", t->v);
    add_tensor(c, "items", &c->items);
    add_tensor(c, "counters", &c->counters);
    add_tensor(c, "o", t->o);
    add_tensor(c, "lse", t->lse ? t->lse : &c->lse);
    add_tensor(c, "o_parts", &c->o_parts);
    add_tensor(c, "lse_parts", &c->lse_parts);
    c->args[c->nargs++] = tilec_float("scale", c->c->scale);
    if (c->c->has_sinks)
        add_tensor(c, "sink.sinks", t->sinks);
    if (c->c->has_factors[0])
        add_tensor(c, "descale_k.factors", t->descale_k);
    if (c->c->has_factors[1])
        add_tensor(c, "descale_v.factors", t->descale_v);
    add_places(c, c->c->forward);
}

static tilec_status run_forward(struct call *c,
                                const tilec_launch_options *options)
{
    const tilec_kernel *k = c->c->forward;
    tilec_status s = begin_arguments(c, k);
    if (s != TILEC_OK)
        return s;
    add_own(c);
    s = add_captured(c);
    if (s == TILEC_OK)
        s = tilec_launch(k, c->args, c->nargs, options, c->error);
    return end_call(c, s);
}

static tilec_status run_merge(struct call *c,
                              const tilec_launch_options *options)
{
    const tilec_argument args[] = {
        tilec_tensor("o_parts", &c->o_parts),
        tilec_tensor("lse_parts", &c->lse_parts),
        tilec_tensor("items", &c->items),
        tilec_tensor("o", c->t->o),
        tilec_tensor("lse", c->t->lse ? c->t->lse : &c->lse),
        tilec_int("rows", c->sizes.rows),
        tilec_int("blocks", c->sizes.splits),
        tilec_tensor("sink.sinks", c->t->sinks)};
    size_t n = sizeof args / sizeof *args - (c->c->has_sinks ? 0 : 1);
    return tilec_launch(c->c->merge, args, n, options, c->error);
}

static tilec_status run_attention(struct call *c,
                                  const tilec_launch_options *options)
{
    tilec_status s = run_forward(c, options);
    return s == TILEC_OK && c->c->merge ? run_merge(c, options) : s;
}

/* Checks that all tensors are given with which the plan was made, and no
 * others. */
static tilec_status check_options(const struct call *c, const char *function)
{
    const tilec_kvcache_tensors *t = c->t;
    const struct {
        const char *name;
        const DLTensor *given;
        bool is_wanted;
    } all[] = {{"sinks", t->sinks, c->c->has_sinks},
               {"descale_k", t->descale_k, c->c->has_factors[0]},
               {"descale_v", t->descale_v, c->c->has_factors[1]},
               {"query_offsets", t->query_offsets, c->c->has_offsets}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((all[i].given != NULL) != all[i].is_wanted)
            return tc_fail(c->error, TILEC_USAGE,
                           "%s: %s: expected %s, as the plan was made",
                           function, all[i].name,
                           all[i].is_wanted ? "a tensor" : "none");
    return TILEC_OK;
}

/* Memory of bytes as a tensor. */
static DLTensor room(void *at, int64_t *bytes)
{
    return (DLTensor){
        .data = at, .ndim = 1, .dtype = {kDLUInt, 8, 1}, .shape = bytes};
}

/* Refuses results that lie where something else does. */
static tilec_status check_views(const struct call *c)
{
    const tilec_kvcache_tensors *t = c->t;
    int64_t bytes[2] = {(int64_t)c->sizes.schedule_bytes,
                        (int64_t)(c->sizes.o_bytes + c->sizes.lse_parts_bytes)};
    DLTensor schedule = room(t->schedule, &bytes[0]);
    DLTensor workspace = room(t->workspace, &bytes[1]);
    const tc_named_tensor all[] = {
        {"workspace", &workspace},    {"argument o", t->o},
        {"argument lse", t->lse},     {"argument q", t->q},
        {"argument k", t->k},         {"argument v", t->v},
        {"the schedule", &schedule},  {"kv_lens", t->kv_lens},
        {"page_table", t->page_table}};
    enum { ALL = sizeof all / sizeof *all, WRITTEN = 3 };
    tilec_status s = TILEC_OK;
    for (int i = 0; s == TILEC_OK && i < WRITTEN; i++)
        s = tc_check_written(&all[i], all + i + 1, ALL - i - 1, t->q, c->error);
    return s;
}

tilec_status tilec_kvcache_attention(const tilec_kvcache *c,
                                     const tilec_kvcache_tensors *tensors,
                                     const tilec_launch_options *options,
                                     tilec_error *error)
{
    static const char name[] = "tilec_kvcache_attention";
    tilec_kvcache_tensors t = {0};
    struct call call;
    tilec_status s = read_call(&call, c, tensors, name, &t, error);
    if (s == TILEC_OK)
        s = place_schedule(&call, name);
    if (s == TILEC_OK)
        s = place_workspace(&call, name);
    if (s == TILEC_OK && !t.o)
        s = tc_fail(error, TILEC_USAGE, "%s: o is NULL", name);
    if (s == TILEC_OK)
        s = check_options(&call, name);
    if (s == TILEC_OK)
        s = check_views(&call);
    if (s == TILEC_OK)
        s = check_contents(&call, options);
    return s == TILEC_OK ? run_attention(&call, options) : s;
}
