/* SPDX-License-Identifier: Apache-2.0
 *
 * Where sequences lie in a cache: rows, pages, and the tables that say so.
 */
#include "test/numerics/kvcache/batch.h"

#include <math.h>
#include <string.h>

/* Rows of heads of `from` [1, heads, n, d] to row `row` of entry z of `to`, or
 * as many rows back. */
static void copy_rows(const num_tensor *from, int n0, const num_tensor *to,
                      int z, int row, int count)
{
    int heads = from->size[1], d = from->size[3];
    size_t bytes = (size_t)d * num_bytes(from->type);
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < count; i++) {
            int64_t a = ((int64_t)h * from->size[2] + n0 + i) * d;
            int64_t c = (((int64_t)z * heads + h) * to->size[2] + row + i) * d;
            memcpy(num_at(to, c), num_at(from, a), bytes);
        }
}

static void place_keys(const kv_batch *b, int i, const num_tensor *from,
                       const num_tensor *to)
{
    const kv_problem *p = b->p;
    int n = b->keys[i];
    if (p->layout == TILEC_KV_DENSE)
        copy_rows(from, 0, to, i, 0, n);
    if (p->layout == TILEC_KV_RAGGED)
        copy_rows(from, 0, to, 0, b->first_key[i], n);
    for (int j = 0; kv_has_pages(p) && j < kv_pages(p, n); j++) {
        int left = n - j * p->page;
        copy_rows(from, j * p->page, to, b->order[i * kv_most_pages(p) + j], 0,
                  left < p->page ? left : p->page);
    }
}

/* Nothing is left of what was there before. */
static void poison(const num_tensor *t)
{
    memset(t->memory, 0xff, t->bytes);
}

static void nowhere(const num_tensor *t)
{
    for (int64_t i = 0; i < num_count(t); i++)
        kv_set(t, i, NOWHERE);
}

static void place_tables(kv_batch *b)
{
    const kv_problem *p = b->p;
    nowhere(&b->t[TABLE]);
    nowhere(&b->t[INDICES]);
    for (int i = 0, at = 0; i < p->seqs; i++) {
        int pages = kv_pages(p, b->keys[i]);
        kv_set(&b->t[KV_LENS], i, b->keys[i]);
        kv_set(&b->t[CU_K], i, b->first_key[i]);
        kv_set(&b->t[CU_K], i + 1, b->first_key[i] + b->keys[i]);
        kv_set(&b->t[OFFSETS], i, b->offset[i]);
        kv_set(&b->t[CU_Q], i, b->first_query[i]);
        kv_set(&b->t[CU_Q], i + 1, b->first_query[i] + b->queries[i]);
        kv_set(&b->t[INDPTR], i, at);
        kv_set(&b->t[INDPTR], i + 1, at + pages);
        kv_set(&b->t[LAST], i, pages ? b->keys[i] - (pages - 1) * p->page : 0);
        for (int j = 0; j < pages; j++) {
            int page = b->order[i * kv_most_pages(p) + j];
            kv_set(&b->t[TABLE], (int64_t)i * b->t[TABLE].size[1] + j, page);
            kv_set(&b->t[INDICES], at + j, page);
        }
        at += pages;
    }
}

void kv_place(kv_batch *b)
{
    const kv_problem *p = b->p;
    const int all[] = {Q, K, V, O, LSE, K_FACTORS, V_FACTORS};
    for (int i = 0; i < 7; i++)
        poison(&b->t[all[i]]);
    for (int i = 0; i < 2 && p->factors < 3; i++)
        for (int h = 0; h < b->t[K_FACTORS + i].size[0]; h++)
            kv_set(&b->t[K_FACTORS + i], h, ldexp(1, kv_factor_power(p, h, i)));
    place_tables(b);
    for (int i = 0; i < p->seqs; i++) {
        place_keys(b, i, &b->k[i], &b->t[K]);
        if (!p->v_in_k)
            place_keys(b, i, &b->v[i], &b->t[V]);
        for (int j = 0; j < 2 && p->factors == 3; j++)
            place_keys(b, i, &b->factors[j][i], &b->t[K_FACTORS + j]);
        copy_rows(&b->q[i], 0, &b->t[Q], p->is_ragged ? 0 : i,
                  p->is_ragged ? b->first_query[i] : 0, b->queries[i]);
    }
}
