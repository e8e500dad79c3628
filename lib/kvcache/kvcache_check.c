/* SPDX-License-Identifier: Apache-2.0
 *
 * check_memory of a launch over a cache: reads lengths and tables of the device
 * and says which entry is wrong.
 *
 *   kv_lens [3, 40], page_table [[7, 1], [2, 9]], pages of 16 keys, pool of 8
 *       "page_table: entry [1, 1] is 9, expected 0 to 7: k has 8 pages"
 */
#include "lib/gpu/gpu.h"
#include "lib/kvcache/kvcache.h"
#include "lib/overlap.h"

#include <stdio.h>
#include <stdlib.h>

/* A tensor of int32 in host memory. */
typedef struct ints {
    const char *name;
    const DLTensor *tensor;
    int32_t *copy;        /* of a device's tensor: to be freed */
    const int32_t *first; /* element [0] or [0, 0] */
} ints;

typedef struct check {
    const tilec_kvcache *c;
    const tilec_kvcache_tensors *t;
    const tilec_launch_options *options;
    tilec_error *error;
} check;

/* ---- Reading ---- */

static tilec_status read_ints(const check *k, const char *name,
                              const DLTensor *t, ints *out)
{
    int64_t low, high;
    const char *data = (const char *)t->data + t->byte_offset;
    *out = (ints){.name = name, .tensor = t, .first = (const int32_t *)data};
    if (!tc_view_reach(t, &low, &high) ||
        !tc_target_is_gpu(k->c->forward->target))
        return TILEC_OK;
    size_t bytes = (size_t)(high - low + 1) * sizeof(int32_t);
    out->copy = malloc(bytes);
    if (!out->copy)
        return tc_fail_memory(k->error);
    out->first = out->copy - low;
    return tc_gpu_read(k->c->forward,
                       t->device.device_type == kDLCUDA ? t->device.device_id
                                                        : -1,
                       out->copy, data + low * (int64_t)sizeof(int32_t), bytes,
                       k->options->stream, k->error);
}

static int64_t at(const ints *x, int64_t i)
{
    return x->first[i * tc_view_stride(x->tensor, 0)];
}

static int64_t at2(const ints *x, int64_t i, int64_t j)
{
    return x->first[i * tc_view_stride(x->tensor, 0) +
                    j * tc_view_stride(x->tensor, 1)];
}

/* ---- What is right ---- */

/* Sequences one after the other: starts[b] to starts[b + 1], of `rows`. */
static tilec_status check_starts(const check *k, const ints *starts,
                                 int64_t rows, const char *of)
{
    int64_t before = 0;
    for (int64_t i = 0; i < starts->tensor->shape[0]; i++) {
        int64_t n = at(starts, i);
        if (n < before || n > rows)
            return tc_fail(k->error, TILEC_INPUT,
                           "%s: entry [%lld] is %lld, expected %lld (the entry "
                           "before it) to %lld: %s",
                           starts->name, (long long)i, (long long)n,
                           (long long)before, (long long)rows, of);
        before = n;
    }
    return TILEC_OK;
}

static tilec_status check_length(const check *k, const ints *lens, int64_t b,
                                 int64_t least, int64_t most, const char *of)
{
    int64_t n = at(lens, b);
    if (n >= least && n <= most)
        return TILEC_OK;
    return tc_fail(k->error, TILEC_INPUT,
                   "%s: entry [%lld] is %lld, expected %lld to %lld: %s",
                   lens->name, (long long)b, (long long)n, (long long)least,
                   (long long)most, of);
}

static bool is_page(const check *k, int64_t page)
{
    return page >= 0 && page < k->t->k->shape[0];
}

/* The longest that k and the table have room for. */
static tilec_status check_lengths(const check *k, const ints *lens)
{
    char of[128];
    const DLTensor *table = k->t->page_table;
    int64_t rows = k->t->k->shape[2], pages = 1;
    snprintf(of, sizeof of, "k has %lld rows", (long long)rows);
    if (k->c->layout == TILEC_KV_PAGED) {
        pages = table->shape[1];
        snprintf(of, sizeof of, "page_table has %lld columns, a page %lld keys",
                 (long long)pages, (long long)rows);
    }
    tilec_status s = TILEC_OK;
    for (int64_t b = 0; s == TILEC_OK && b < lens->tensor->shape[0]; b++)
        s = check_length(k, lens, b, 0, pages * rows, of);
    return s;
}

static tilec_status check_table(const check *k, const ints *lens,
                                const ints *table)
{
    int64_t page = k->t->k->shape[2];
    for (int64_t b = 0; b < table->tensor->shape[0]; b++)
        for (int64_t i = 0; i * page < at(lens, b); i++)
            if (!is_page(k, at2(table, b, i)))
                return tc_fail(
                    k->error, TILEC_INPUT,
                    "%s: entry [%lld, %lld] is %lld, expected 0 to %lld: k has "
                    "%lld pages, and sequence %lld %lld keys",
                    table->name, (long long)b, (long long)i,
                    (long long)at2(table, b, i),
                    (long long)k->t->k->shape[0] - 1,
                    (long long)k->t->k->shape[0], (long long)b,
                    (long long)at(lens, b));
    return TILEC_OK;
}

/* The last page of each sequence that has pages has keys. */
static tilec_status check_last_pages(const check *k, const ints *indptr,
                                     const ints *last)
{
    tilec_status s = TILEC_OK;
    for (int64_t b = 0; s == TILEC_OK && b < last->tensor->shape[0]; b++)
        if (at(indptr, b) < at(indptr, b + 1))
            s = check_length(k, last, b, 1, k->t->k->shape[2],
                             "the keys of a page");
    return s;
}

static tilec_status check_indices(const check *k, const ints *indptr,
                                  const ints *indices)
{
    int64_t n = indptr->tensor->shape[0] - 1;
    for (int64_t b = 0; b < n; b++)
        for (int64_t i = at(indptr, b); i < at(indptr, b + 1); i++)
            if (!is_page(k, at(indices, i)))
                return tc_fail(
                    k->error, TILEC_INPUT,
                    "%s: entry [%lld] is %lld, expected 0 to %lld: k has %lld "
                    "pages; it is page %lld of sequence %lld",
                    indices->name, (long long)i, (long long)at(indices, i),
                    (long long)k->t->k->shape[0] - 1,
                    (long long)k->t->k->shape[0],
                    (long long)(i - at(indptr, b)), (long long)b);
    return TILEC_OK;
}

/* ---- By layout ---- */

static tilec_status check_ragged(const check *k, const char *name,
                                 const DLTensor *starts, int64_t rows,
                                 const char *of)
{
    ints x;
    tilec_status s = read_ints(k, name, starts, &x);
    if (s == TILEC_OK)
        s = check_starts(k, &x, rows, of);
    free(x.copy);
    return s;
}

static tilec_status check_counted(const check *k)
{
    ints lens, table = {0};
    tilec_status s = read_ints(k, "kv_lens", k->t->kv_lens, &lens);
    if (s == TILEC_OK)
        s = check_lengths(k, &lens);
    if (s == TILEC_OK && k->c->layout == TILEC_KV_PAGED) {
        s = read_ints(k, "page_table", k->t->page_table, &table);
        if (s == TILEC_OK)
            s = check_table(k, &lens, &table);
    }
    free(lens.copy);
    free(table.copy);
    return s;
}

static tilec_status check_indexed(const check *k)
{
    const DLTensor *all = k->t->kv_indices;
    ints indptr, indices = {0}, last = {0};
    tilec_status s = read_ints(k, "kv_indptr", k->t->kv_indptr, &indptr);
    if (s == TILEC_OK)
        s = check_starts(k, &indptr, all->shape[0],
                         "the entries of kv_indices");
    if (s == TILEC_OK)
        s = read_ints(k, "kv_last_page_len", k->t->kv_last_page_len, &last);
    if (s == TILEC_OK)
        s = check_last_pages(k, &indptr, &last);
    if (s == TILEC_OK)
        s = read_ints(k, "kv_indices", all, &indices);
    if (s == TILEC_OK)
        s = check_indices(k, &indptr, &indices);
    free(indptr.copy);
    free(indices.copy);
    free(last.copy);
    return s;
}

static tilec_status check_offsets(const check *k)
{
    enum { MOST = (1 << 30) - 1 };
    ints x;
    tilec_status s = read_ints(k, "query_offsets", k->t->query_offsets, &x);
    for (int64_t b = 0; s == TILEC_OK && b < x.tensor->shape[0]; b++)
        s = check_length(k, &x, b, 0, MOST, "the position of a first query");
    free(x.copy);
    return s;
}

tilec_status tc_kv_check(const tilec_kvcache *c, const tilec_kvcache_tensors *t,
                         const tilec_launch_options *options,
                         tilec_error *error)
{
    check k = {c, t, options, error};
    tilec_status s = TILEC_OK;
    if (c->ragged_queries)
        s = check_ragged(&k, "cu_seqlens_q", t->cu_seqlens_q, t->q->shape[2],
                         "the rows of q");
    if (s == TILEC_OK && c->has_offsets)
        s = check_offsets(&k);
    if (s != TILEC_OK)
        return s;
    if (c->layout == TILEC_KV_RAGGED)
        return check_ragged(&k, "cu_seqlens_k", t->cu_seqlens_k, t->k->shape[2],
                            "the rows of k");
    return c->layout == TILEC_KV_INDEXED ? check_indexed(&k)
                                         : check_counted(&k);
}
