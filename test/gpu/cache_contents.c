/* SPDX-License-Identifier: Apache-2.0
 *
 * Lengths and tables that are wrong: check_memory says where, on the CPU and on
 * GPUs; without it no memory outside of the pool is read on GPUs. The pool lies
 * between NaNs; keys that lie nowhere count as zeros.
 */
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    B = 2,
    HEADS = 4,
    D = 32,
    PAGE = 16,
    PAGES = 8,
    COLUMNS = 4,
    ROW = HEADS * PAGE * D, /* elements of a page */
    AROUND = 64 * ROW,      /* NaNs on each side of a pool */
    NINTS = 16
};

/* Tensors of ints, as fields of tilec_kvcache_tensors. */
enum { LENS, CU_K, TABLE, INDPTR, INDICES, LAST, CU_Q, OFFSETS, NPLACES };
static const int sides[NPLACES][2] = {{B}, {B + 1}, {B, COLUMNS}, {B + 1},
                                      {6}, {B},     {B + 1},      {B}};
/* Of 40 and 35 keys: dense and ragged ones in a pool of the same size. */
static const int32_t right[NPLACES][NINTS] = {{40, 35},
                                              {0, 40, 75},
                                              {7, 1, 2, -9, 3, 5, 0, -9},
                                              {0, 3, 6},
                                              {7, 1, 2, 3, 5, 0},
                                              {8, 3},
                                              {0, 3, 5},
                                              {39, 34}};

/* One int that is wrong. */
static const struct {
    tilec_kv_layout layout;
    bool is_ragged; /* queries */
    int place, at;
    int32_t value;
    const char *message;
} cases[] = {
    {TILEC_KV_PAGED, false, TABLE, 5, PAGES,
     "page_table: entry [1, 1] is 8, expected 0 to 7: k has 8 pages, and "
     "sequence 1 35 keys"},
    {TILEC_KV_PAGED, false, TABLE, 0, -1, "page_table: entry [0, 0] is -1"},
    {TILEC_KV_PAGED, false, TABLE, 6, 1 << 30,
     "page_table: entry [1, 2] is 1073741824"},
    {TILEC_KV_PAGED, false, LENS, 1, 65,
     "kv_lens: entry [1] is 65, expected 0 to 64: page_table has 4 columns, a "
     "page 16 keys"},
    {TILEC_KV_PAGED, false, LENS, 0, INT32_MAX, "kv_lens: entry [0] is 2147"},
    {TILEC_KV_PAGED, false, LENS, 0, -3, "kv_lens: entry [0] is -3"},
    {TILEC_KV_PAGED, true, CU_Q, 1, 9,
     "cu_seqlens_q: entry [1] is 9, expected 0 (the entry before it) to 5: the "
     "rows of q"},
    {TILEC_KV_PAGED, true, CU_Q, 2, 2, "cu_seqlens_q: entry [2] is 2"},
    {TILEC_KV_INDEXED, false, INDICES, 4, 99,
     "kv_indices: entry [4] is 99, expected 0 to 7: k has 8 pages; it is page "
     "1 of sequence 1"},
    {TILEC_KV_INDEXED, false, INDPTR, 2, 7,
     "kv_indptr: entry [2] is 7, expected 3 (the entry before it) to 6: the "
     "entries of kv_indices"},
    {TILEC_KV_INDEXED, false, LAST, 0, 17,
     "kv_last_page_len: entry [0] is 17, expected 1 to 16: the keys of a page"},
    {TILEC_KV_DENSE, false, LENS, 1, 65,
     "kv_lens: entry [1] is 65, expected 0 to 64: k has 64 rows"},
    {TILEC_KV_PAGED, false, OFFSETS, 1, -1,
     "query_offsets: entry [1] is -1, expected 0 to 1073741823: the position "
     "of a first query"},
    {TILEC_KV_RAGGED, false, CU_K, 2, 129,
     "cu_seqlens_k: entry [2] is 129, expected 40 (the entry before it) to "
     "128: the rows of k"},
};
enum { NCASES = sizeof cases / sizeof *cases };

/* ---- Tensors ---- */

/* On the target, with its contents in `host`. */
typedef struct array {
    int64_t shape[4];
    DLTensor dl, *there;
    void *host;
} array;

static bool move(array *a, tilec_error *e)
{
    if (!run_device())
        return true;
    if (tilec_device_copy(run_device(), &a->dl, &a->there, e) != TILEC_OK)
        return false;
    a->dl.device = a->there->device;
    a->dl.data = a->there->data;
    return true;
}

static void drop(array *a)
{
    if (run_device())
        tilec_device_drop(run_device(), a->there);
    free(a->host);
}

static bool array_new(array *a, num_type type, int ndim, const int64_t *shape,
                      void *host, tilec_error *e)
{
    memcpy(a->shape, shape, (size_t)ndim * sizeof *shape);
    a->host = host;
    a->dl = (DLTensor){.data = host,
                       .device = {kDLCPU, 0},
                       .ndim = ndim,
                       .dtype = run_dtype(type),
                       .shape = a->shape};
    return move(a, e);
}

static bool ints_new(array *a, int place, int at, int32_t value, tilec_error *e)
{
    int32_t *host = malloc(sizeof right[place]);
    const int64_t shape[] = {sides[place][0], sides[place][1]};
    memcpy(host, right[place], sizeof right[place]);
    if (at >= 0)
        host[at] = value;
    return array_new(a, NUM_I32, shape[1] ? 2 : 1, shape, host, e);
}

static bool floats_new(array *a, int64_t n, bool is_pool, tilec_error *e)
{
    int64_t around = is_pool ? AROUND : 0, all = n + 2 * around;
    float *host = malloc((size_t)all * sizeof *host);
    for (int64_t i = 0; i < all; i++)
        host[i] = i < around || i >= around + n ? NAN : 1;
    return array_new(a, NUM_F32, 1, &all, host, e);
}

/* ---- A call ---- */

typedef struct call {
    array places[NPLACES], q, k, v, o;
    DLTensor views[4]; /* of q, k, v, o */
    int64_t shapes[4][4];
    tilec_kvcache_tensors t;
    tilec_kvcache *plan;
    run_room schedule, workspace;
    tilec_error error;
} call;

static void view(call *c, int i, const array *a, int64_t skip,
                 const int64_t shape[4])
{
    memcpy(c->shapes[i], shape, 4 * sizeof *shape);
    c->views[i] = a->dl;
    c->views[i].data = (float *)a->dl.data + skip;
    c->views[i].ndim = 4;
    c->views[i].shape = c->shapes[i];
}

static void make_views(call *c, tilec_kv_layout layout, bool is_ragged)
{
    const int64_t q[2][4] = {{B, HEADS, 1, D}, {1, HEADS, 5, D}};
    const int64_t k[][4] = {[TILEC_KV_DENSE] = {B, HEADS, PAGES * PAGE / B, D},
                            [TILEC_KV_RAGGED] = {1, HEADS, PAGES * PAGE, D},
                            [TILEC_KV_PAGED] = {PAGES, HEADS, PAGE, D},
                            [TILEC_KV_INDEXED] = {PAGES, HEADS, PAGE, D}};
    view(c, 0, &c->q, 0, q[is_ragged]);
    view(c, 1, &c->k, AROUND, k[layout]);
    view(c, 2, &c->v, AROUND, k[layout]);
    view(c, 3, &c->o, 0, q[is_ragged]);
}

static void make_tensors(call *c, tilec_kv_layout layout, bool is_ragged)
{
    static const bool wanted[][NPLACES] = {
        [TILEC_KV_DENSE] = {[LENS] = true},
        [TILEC_KV_RAGGED] = {[CU_K] = true},
        [TILEC_KV_PAGED] = {[LENS] = true, [TABLE] = true},
        [TILEC_KV_INDEXED] = {[INDPTR] = true, [INDICES] = true, [LAST] = true},
    };
    const DLTensor **const fields[NPLACES] = {
        &c->t.kv_lens,      &c->t.cu_seqlens_k, &c->t.page_table,
        &c->t.kv_indptr,    &c->t.kv_indices,   &c->t.kv_last_page_len,
        &c->t.cu_seqlens_q, &c->t.query_offsets};
    make_views(c, layout, is_ragged);
    c->t = (tilec_kvcache_tensors)TILEC_INIT(tilec_kvcache_tensors);
    c->t.q = &c->views[0];
    c->t.k = &c->views[1];
    c->t.v = &c->views[2];
    c->t.o = &c->views[3];
    for (int i = 0; i < NPLACES; i++)
        if (wanted[layout][i] || i == OFFSETS || (i == CU_Q && is_ragged))
            *fields[i] = &c->places[i].dl;
}

/* place -1: all is right. */
static bool call_new(call *c, tilec_context *cx, tilec_kv_layout layout,
                     bool is_ragged, int place, int at, int32_t value)
{
    enum { ROWS = 5 * HEADS * D };
    tilec_kvcache_options o = TILEC_INIT(tilec_kvcache_options);
    o.layout = layout;
    o.ragged_queries = is_ragged;
    o.query_offsets = 1;
    bool ok = floats_new(&c->q, ROWS, false, &c->error) &&
              floats_new(&c->o, ROWS, false, &c->error) &&
              floats_new(&c->k, PAGES * ROW, true, &c->error) &&
              floats_new(&c->v, PAGES * ROW, true, &c->error);
    for (int i = 0; ok && i < NPLACES; i++)
        ok = ints_new(&c->places[i], i, i == place ? at : -1, value, &c->error);
    make_tensors(c, layout, is_ragged);
    if (ok && tilec_kvcache_plan(cx, c->t.q, c->t.k, c->t.v, &o, &c->plan)) {
        run_print_diagnostics(cx);
        return false;
    }
    ok = ok && !tilec_kvcache_workspace(c->plan, &c->t, &c->t.schedule_bytes,
                                        &c->t.workspace_bytes, &c->error);
    ok = ok && !run_room_new(&c->schedule, c->t.schedule_bytes, &c->error) &&
         !run_room_new(&c->workspace, c->t.workspace_bytes, &c->error);
    c->t.schedule = c->schedule.address;
    c->t.workspace = c->workspace.address;
    return ok;
}

static void call_free(call *c)
{
    array *const all[] = {&c->q, &c->k, &c->v, &c->o};
    for (int i = 0; i < 4; i++)
        drop(all[i]);
    for (int i = 0; i < NPLACES; i++)
        drop(&c->places[i]);
    run_room_free(&c->schedule);
    run_room_free(&c->workspace);
    tilec_kvcache_free(c->plan);
}

static tilec_status run(call *c, int check_memory)
{
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.check_memory = check_memory;
    tilec_status s = tilec_kvcache_schedule(c->plan, &c->t, &o, &c->error);
    s = s ? s : tilec_kvcache_attention(c->plan, &c->t, &o, &c->error);
    if (s == TILEC_OK && run_device())
        s = tilec_device_synchronize(run_device(), &c->error);
    return s;
}

/* ---- Tests ---- */

/* All elements of o are between 0 (only keys that lie nowhere) and 1. */
static bool is_of_the_pool(call *c)
{
    float *o = c->o.host;
    DLTensor host = c->o.dl;
    host.data = o;
    host.device = (DLDevice){kDLCPU, 0};
    if (run_device() &&
        tilec_device_read(run_device(), &c->o.dl, &host, &c->error))
        return false;
    for (int64_t i = 0; i < c->o.shape[0]; i++)
        if (!(o[i] >= 0 && o[i] <= 1.0001f))
            return false;
    return true;
}

static void test_case(tilec_context *cx, int i, run_counts *counts)
{
    call *c = calloc(1, sizeof *c);
    bool ok = call_new(c, cx, cases[i].layout, cases[i].is_ragged,
                       cases[i].place, cases[i].at, cases[i].value);
    run_check(counts, ok, "case %d: %s", i, c->error.message);
    tilec_status s = ok ? run(c, 1) : TILEC_OK;
    run_check(counts,
              s == TILEC_INPUT && strstr(c->error.message, cases[i].message),
              "case %d: status %d, \"%s\", expected \"%s\"", i, (int)s,
              c->error.message, cases[i].message);
    /* On the CPU kernels have asserts of their own. */
    if (ok && run_device())
        run_check(counts, run(c, 0) == TILEC_OK && is_of_the_pool(c),
                  "case %d, not checked: %s", i, c->error.message);
    call_free(c);
    free(c);
}

static void test_right(tilec_context *cx, run_counts *counts)
{
    for (int layout = 0; layout <= TILEC_KV_INDEXED; layout++)
        for (int is_ragged = 0; is_ragged < 2; is_ragged++) {
            call *c = calloc(1, sizeof *c);
            bool ok =
                call_new(c, cx, (tilec_kv_layout)layout, is_ragged, -1, 0, 0) &&
                run(c, 1) == TILEC_OK && is_of_the_pool(c);
            run_check(counts, ok, "layout %d, ragged queries %d: %s", layout,
                      is_ragged, c->error.message);
            call_free(c);
            free(c);
        }
}

int main(void)
{
    run_counts counts = {0};
    tilec_context *cx = run_context();
    test_right(cx, &counts);
    for (int i = 0; i < NCASES; i++)
        test_case(cx, i, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
