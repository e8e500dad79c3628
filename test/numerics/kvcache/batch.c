/* SPDX-License-Identifier: Apache-2.0
 *
 * Problems, tensors of the sizes that they need, and the contents of sequences.
 */
#include "test/numerics/kvcache/batch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Problems ---- */

static void choose_types(kv_problem *p, num_rng *r)
{
    static const num_type types[] = {NUM_F32, NUM_F16, NUM_BF16};
    static const num_type small[] = {NUM_F8E4M3, NUM_F8E5M2};
    static const int dims[] = {16, 24, 40, 64, 64, 72, 96, 128, 128, 192, 256};
    p->type = CHOOSE(r, types);
    p->cache = num_below(r, 4) ? p->type : CHOOSE(r, small);
    p->d = CHOOSE(r, dims);
    p->dv = num_below(r, 3) ? p->d : CHOOSE(r, dims);
}

/* One in three has many sequences, as many as blocks of rows keep a GPU busy
 * without splits, but for one that is long. */
static void choose_sizes(kv_problem *p, num_rng *r)
{
    static const int pages[] = {1, 2, 5, 8, 16, 16, 24, 64, 64, 128, 256};
    static const int queries[] = {1, 1, 1, 2, 5};
    p->page = CHOOSE(r, pages);
    p->group = num_between(r, 1, MOST_GROUP);
    p->queries = p->is_ragged ? num_between(r, 1, 40) : CHOOSE(r, queries);
    if (num_below(r, 3) == 0) {
        p->seqs = num_between(r, 20, MOST_SEQS);
        p->hk = num_between(r, 4, 8);
        p->room = num_between(r, 40, 90);
        p->queries = p->is_ragged ? 3 : p->queries;
        p->d = p->dv = 64;
        return;
    }
    p->seqs = num_between(r, 1, 5);
    p->hk = num_between(r, 1, 3);
    p->room =
        num_below(r, 2) ? num_between(r, 200, 2500) : num_between(r, 1, 300);
}

/* Latent attention: many heads share one tensor. */
static void choose_latent(kv_problem *p, num_rng *r)
{
    static const int groups[] = {16, 16, 40, 64, 128}, pages[] = {1, 16, 64};
    static const int dims[][2] = {{576, 512}, {576, 512}, {192, 128}, {72, 64}};
    const int *d = CHOOSE(r, dims);
    p->v_in_k = true;
    p->hk = 1;
    p->group = CHOOSE(r, groups);
    p->page = CHOOSE(r, pages);
    p->queries = num_between(r, 1, 2);
    p->seqs = num_between(r, 1, 3);
    p->room = num_between(r, 60, 400);
    p->d = d[0];
    p->dv = d[1];
}

kv_problem kv_problem_draw(num_rng *r, int which)
{
    static const int powers[] = {0, 0, 0, -100, 60};
    kv_problem p = {.layout = (tilec_kv_layout)(which % 4),
                    .is_ragged = num_below(r, 3) == 0,
                    .heads_inside = num_below(r, 2),
                    .sinks = num_below(r, 4) == 0,
                    .piece = num_below(r, 3) ? 0 : 128,
                    .gap = num_below(r, 3) ? 0 : num_between(r, 1, 16),
                    .mask = &masks[num_below(r, 2) ? num_below(r, nmasks) : 0],
                    .score =
                        &scores[num_below(r, 2) ? num_below(r, nscores) : 0]};
    choose_types(&p, r);
    if (which % 5 == 4)
        choose_latent(&p, r);
    else
        choose_sizes(&p, r);
    p.factors = p.cache == p.type ? 0 : num_below(r, 4);
    p.power = p.type == NUM_F16 ? 0 : CHOOSE(r, powers);
    p.is_short = p.score->expression != NULL;
    p.offsets = which % 7 == 3;
    return p;
}

void kv_problem_describe(const kv_problem *p, char text[256])
{
    static const char *const factors[] = {
        "", ", a factor", ", factors of heads", ", factors of rows"};
    static const char *const layouts[] = {"dense", "ragged", "paged",
                                          "indexed"};
    snprintf(text, 256,
             "%s, %s, %d sequences of up to %d keys, %d%s queries, heads "
             "%d/%d, dims %d/%d, %s in %s, gap %d, page %d, piece %d, mask "
             "%s, score %s%s%s%s%s, q times 2^%d",
             layouts[p->layout], p->heads_inside ? "rows of heads" : "heads",
             p->seqs, p->room, p->queries, p->is_ragged ? " or fewer" : "",
             p->hk * p->group, p->hk, p->d, p->dv, num_name(p->type),
             num_name(p->cache), p->gap, p->page, p->piece,
             p->mask->expression ? p->mask->expression : "-",
             p->score->expression ? p->score->expression : "-",
             p->offsets ? ", offsets" : "", p->sinks ? ", sinks" : "",
             p->v_in_k ? ", v in k" : "", factors[p->factors], p->power);
}

double kv_scale(const kv_problem *p)
{
    return ldexp(p->is_short ? 0.0625 : 1 / sqrt(p->d), -p->power);
}

bool kv_has_pages(const kv_problem *p)
{
    return p->layout >= TILEC_KV_PAGED;
}

/* Pages that a sequence has room for. */
int kv_most_pages(const kv_problem *p)
{
    return (p->room + p->page - 1) / p->page;
}

int kv_pages(const kv_problem *p, int keys)
{
    return (keys + p->page - 1) / p->page;
}

/* ---- Tensors ---- */

void kv_set(const num_tensor *t, int64_t i, double x)
{
    num_write(t->type, num_at(t, i), x);
}

static num_tensor ints(int rank, const int32_t *size)
{
    num_tensor t = num_tensor_new(NUM_I32, rank, size, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        kv_set(&t, i, NOWHERE);
    return t;
}

static num_tensor ints_of(int n)
{
    return ints(1, (int32_t[]){n});
}

/* Elements that are NaN. */
static num_tensor cache_of(const kv_problem *p, int d)
{
    num_layout outside = {"heads", {0, 1, 2, 3}, {0}, {0, 0, 0, p->gap}};
    num_layout inside = {"rows", {0, 2, 1, 3}, {0}, {0, 0, 1, p->gap}};
    int32_t size[] = {p->seqs, p->hk, p->room + 3, d};
    if (p->layout == TILEC_KV_RAGGED) {
        size[0] = 1;
        size[2] = p->seqs * p->room + 2;
    } else if (kv_has_pages(p)) {
        size[0] = p->seqs * kv_most_pages(p) + 3;
        size[2] = p->page;
    }
    return num_tensor_new(p->cache, 4, size,
                          p->heads_inside ? &inside : &outside);
}

static num_tensor rows_of(const kv_problem *p, num_type type, int rank, int d)
{
    int32_t size[] = {p->seqs, p->hk * p->group, p->queries, d};
    if (p->is_ragged) {
        size[0] = 1;
        size[2] = p->seqs * p->queries + 1;
    }
    return num_tensor_new(type, rank, size, NULL);
}

static num_tensor sequence_of(num_rng *r, num_type type, bool is_short,
                              int heads, int n, int d, int power)
{
    num_tensor t = num_tensor_new(type, 4, (int32_t[]){1, heads, n, d}, NULL);
    for (int64_t i = 0; i < num_count(&t); i++) {
        double x = num_normal(r);
        kv_set(&t, i, ldexp(is_short ? round(2 * x) / 2 : x, power));
    }
    return t;
}

/* Lengths around the sides of pages and of blocks. */
static int draw_keys(const kv_problem *p, num_rng *r)
{
    int side = kv_has_pages(p) ? p->page : 64;
    const int edges[] = {0,          1,        side - 1,
                         side,       side + 1, side * num_between(r, 1, 40),
                         p->room,    p->room,  num_between(r, 0, p->room),
                         p->room / 2};
    int n = CHOOSE(r, edges);
    return n < p->room ? n : p->room;
}

/* Positions before the first key are for mods that look nothing up by them. */
static bool takes_any_position(const kv_problem *p)
{
    return p->mask - masks < 5 && p->score - scores < 3;
}

/* As many keys as queries or more, or none. */
static void keep_positions(const kv_problem *p, int *keys, int *queries)
{
    if (*keys >= *queries || takes_any_position(p))
        return;
    if (p->is_ragged)
        *queries = *keys;
    else
        *keys = p->room < p->queries ? 0 : p->queries;
}

/* Mods that look something up by it find it up to `room`. */
static int draw_offset(const kv_problem *p, int queries, num_rng *r)
{
    int most = p->room > queries ? p->room - queries : 0;
    return p->offsets ? num_between(r, 0, most) : 0;
}

static void draw_lengths(kv_batch *b, num_rng *r)
{
    const kv_problem *p = b->p;
    for (int i = 0, key = 0, query = 0; i < p->seqs; i++) {
        if (i != b->kept) {
            b->keys[i] = draw_keys(p, r);
            b->queries[i] =
                p->is_ragged ? num_below(r, p->queries + 1) : p->queries;
            keep_positions(p, &b->keys[i], &b->queries[i]);
            b->offset[i] = draw_offset(p, b->queries[i], r);
        }
        b->first_key[i] = key;
        b->first_query[i] = query;
        key += b->keys[i];
        query += b->queries[i];
    }
}

void kv_shuffle_pages(kv_batch *b, num_rng *r)
{
    int n = b->t[K].size[0];
    for (int i = 0; i < n && i < MOST_POOL; i++) {
        int j = num_below(r, i + 1);
        b->order[i] = b->order[j];
        b->order[j] = i;
    }
}

/* By shape: of rows as the cache has them. */
static num_tensor factors_of(const kv_batch *b)
{
    int heads = b->p->factors > 1 ? b->p->hk : 1;
    const int32_t *rows = b->t[K].size;
    int32_t size[] = {rows[0], rows[1], rows[2], 1};
    if (b->p->factors == 3)
        return num_tensor_new(NUM_F32, 4, size, NULL);
    return num_tensor_new(NUM_F32, 1, &heads, NULL);
}

void kv_batch_init(kv_batch *b, num_rng *r)
{
    const kv_problem *p = b->p;
    b->t[Q] = rows_of(p, p->type, 4, p->d);
    b->t[O] = rows_of(p, p->type, 4, p->dv);
    b->t[LSE] = rows_of(p, NUM_F32, 3, 0);
    b->t[K] = cache_of(p, p->d);
    b->t[V] = p->v_in_k ? b->t[K] : cache_of(p, p->dv);
    b->t[V].size[3] = p->dv;
    b->t[K_FACTORS] = factors_of(b);
    b->t[V_FACTORS] = factors_of(b);
    b->t[KV_LENS] = ints_of(p->seqs);
    b->t[CU_K] = ints_of(p->seqs + 1);
    b->t[TABLE] = ints(2, (int32_t[]){p->seqs, kv_most_pages(p) + 1});
    b->t[INDPTR] = ints_of(p->seqs + 1);
    b->t[INDICES] = ints_of(p->seqs * kv_most_pages(p) + 1);
    b->t[LAST] = ints_of(p->seqs);
    b->t[CU_Q] = ints_of(p->seqs + 1);
    b->t[OFFSETS] = ints_of(p->seqs);
    b->t[SINKS] =
        num_tensor_new(NUM_F32, 1, (int32_t[]){p->hk * p->group}, NULL);
    for (int i = 0; i < p->hk * p->group; i++)
        kv_set(&b->t[SINKS], i,
               num_below(r, 4) ? 3 * num_normal(r) : -INFINITY);
    for (int i = 0; i < p->seqs; i++) {
        b->q[i] = b->k[i] = b->v[i] = (num_tensor){0};
    }
}

static void free_sequences(kv_batch *b)
{
    for (int i = 0; i < b->p->seqs; i++) {
        if (i == b->kept)
            continue;
        num_tensor_free(&b->q[i]);
        num_tensor_free(&b->k[i]);
        num_tensor_free(&b->v[i]);
        num_tensor_free(&b->factors[0][i]);
        num_tensor_free(&b->factors[1][i]);
    }
}

void kv_batch_free(kv_batch *b)
{
    b->kept = -1;
    free_sequences(b);
    for (int i = 0; i < NTENSORS; i++)
        if (i != V || !b->p->v_in_k)
            num_tensor_free(&b->t[i]);
    mod_data_free(&b->mods);
}

/* Of all keys, or of a head's. Those of values also small ones. */
int kv_factor_power(const kv_problem *p, int head, int which)
{
    int power = p->factors == 2 ? -(head % 3) - which : -1 - which;
    return which && p->power ? power - 12 : power;
}

/* Powers of 2: scores stay short. Those of all and of heads are the same for
 * all sequences, and in all steps. */
static void draw_factors(kv_batch *b, int i, num_rng *r)
{
    int32_t size[] = {1, b->p->hk, b->keys[i], 1};
    for (int which = 0; which < 2; which++) {
        num_tensor *t = &b->factors[which][i];
        *t = num_tensor_new(NUM_F32, 4, size, NULL);
        for (int64_t k = 0; k < num_count(t); k++) {
            int head = (int)(k / size[2]);
            int power = b->p->factors == 3 ? num_between(r, -2, 0)
                                           : kv_factor_power(b->p, head, which);
            kv_set(t, k, b->p->factors ? ldexp(1, power) : 1);
        }
    }
}

/* The first ones. */
static void copy_columns(const num_tensor *from, const num_tensor *to)
{
    int d = to->size[3];
    for (int64_t i = 0; i < num_count(to); i++)
        memcpy(num_at(to, i), num_at(from, i / d * from->size[3] + i % d),
               num_bytes(to->type));
}

void kv_draw_sequences(kv_batch *b, num_rng *r)
{
    const kv_problem *p = b->p;
    bool is_short = p->is_short;
    int heads = p->hk * p->group;
    free_sequences(b);
    draw_lengths(b, r);
    for (int i = 0; i < p->seqs; i++) {
        int m = b->queries[i], n = b->keys[i];
        if (i == b->kept)
            continue;
        b->q[i] = sequence_of(r, p->type, is_short, heads, m, p->d, p->power);
        b->k[i] = sequence_of(r, p->cache, is_short, p->hk, n, p->d, 0);
        b->v[i] = sequence_of(r, p->cache, false, p->hk, n, p->dv, 0);
        if (p->v_in_k)
            copy_columns(&b->k[i], &b->v[i]);
        draw_factors(b, i, r);
    }
}
