/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over a cache of keys and values, of all layouts, against float64
 * attention of each sequence. Slots of no key are NaN, entries of no page have
 * numbers that no pool has. Each case is run for several lengths with the same
 * memory for the schedule, then with the pages in another order.
 *
 *   numerics_kvcache [--seed N] [--cases N] [--case N] [--verbose 1]
 */
#include "test/numerics/mods.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_SEQS = 40,
    MOST_POOL = 1 << 14,
    MOST_GROUP = 8,
    NOWHERE = 2147480000
};

typedef struct problem {
    num_type type, cache;
    tilec_kv_layout layout;
    bool is_ragged, heads_inside, sinks;
    bool v_in_k; /* v is the first columns of k */
    int seqs, hk, group, d, dv, page;
    int room,
        queries;    /* at most, of a sequence; queries: of each, not ragged */
    int piece, gap; /* gap: elements after each row of a cache */
    int power;      /* q is 2^power as large, and the scale as much less */
    int factors;    /* of a cache of 8 bits: 0 none, one, of heads, of rows */
    bool is_short;  /* scores are short fractions, to which biases add */
    const mask_case *mask;
    const score_case *score;
} problem;

/* Tensors of a call, in the order of `fields`. */
enum {
    Q,
    K,
    V,
    O,
    LSE,
    KV_LENS,
    CU_K,
    TABLE,
    INDPTR,
    INDICES,
    LAST,
    CU_Q,
    SINKS,
    K_FACTORS,
    V_FACTORS,
    NTENSORS
};

typedef struct batch {
    const problem *p;
    int keys[MOST_SEQS], queries[MOST_SEQS];
    int first_key[MOST_SEQS], first_query[MOST_SEQS]; /* where ragged */
    int order[MOST_POOL];                             /* of the pool's pages */
    int kept; /* a sequence that is not drawn again; -1: none */
    num_tensor t[NTENSORS];
    num_tensor q[MOST_SEQS], k[MOST_SEQS], v[MOST_SEQS]; /* [1, heads, n, d] */
    num_tensor factors[2][MOST_SEQS];                    /* [1, heads, n, 1] */
    mod_data mods;
} batch;

/* ---- Problems ---- */

#define CHOOSE(r, all) (all)[num_below(r, (int)(sizeof(all) / sizeof *(all)))]

static void choose_types(problem *p, num_rng *r)
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
static void choose_sizes(problem *p, num_rng *r)
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
static void choose_latent(problem *p, num_rng *r)
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

static problem make_problem(num_rng *r, int which)
{
    static const int powers[] = {0, 0, 0, -100, 60};
    problem p = {.layout = (tilec_kv_layout)(which % 4),
                 .is_ragged = num_below(r, 3) == 0,
                 .heads_inside = num_below(r, 2),
                 .sinks = num_below(r, 4) == 0,
                 .piece = num_below(r, 3) ? 0 : 128,
                 .gap = num_below(r, 3) ? 0 : num_between(r, 1, 16),
                 .mask = &masks[num_below(r, 2) ? num_below(r, nmasks) : 0],
                 .score = &scores[num_below(r, 2) ? num_below(r, nscores) : 0]};
    choose_types(&p, r);
    if (which % 5 == 4)
        choose_latent(&p, r);
    else
        choose_sizes(&p, r);
    p.factors = p.cache == p.type ? 0 : num_below(r, 4);
    p.power = p.type == NUM_F16 ? 0 : CHOOSE(r, powers);
    p.is_short = p.score->expression != NULL;
    return p;
}

static void describe(const problem *p, char text[256])
{
    static const char *const factors[] = {
        "", ", a factor", ", factors of heads", ", factors of rows"};
    static const char *const layouts[] = {"dense", "ragged", "paged",
                                          "indexed"};
    snprintf(text, 256,
             "%s, %s, %d sequences of up to %d keys, %d%s queries, heads "
             "%d/%d, dims %d/%d, %s in %s, gap %d, page %d, piece %d, mask "
             "%s, score %s%s%s%s, q times 2^%d",
             layouts[p->layout], p->heads_inside ? "rows of heads" : "heads",
             p->seqs, p->room, p->queries, p->is_ragged ? " or fewer" : "",
             p->hk * p->group, p->hk, p->d, p->dv, num_name(p->type),
             num_name(p->cache), p->gap, p->page, p->piece,
             p->mask->expression ? p->mask->expression : "-",
             p->score->expression ? p->score->expression : "-",
             p->sinks ? ", sinks" : "", p->v_in_k ? ", v in k" : "",
             factors[p->factors], p->power);
}

static double scale_of(const problem *p)
{
    return ldexp(p->is_short ? 0.0625 : 1 / sqrt(p->d), -p->power);
}

static bool has_pages(const problem *p)
{
    return p->layout >= TILEC_KV_PAGED;
}

/* Pages that a sequence has room for. */
static int most_pages(const problem *p)
{
    return (p->room + p->page - 1) / p->page;
}

static int pages_of(const problem *p, int keys)
{
    return (keys + p->page - 1) / p->page;
}

/* ---- Tensors ---- */

static void set(const num_tensor *t, int64_t i, double x)
{
    num_write(t->type, num_at(t, i), x);
}

static num_tensor ints(int rank, const int32_t *size)
{
    num_tensor t = num_tensor_new(NUM_I32, rank, size, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        set(&t, i, NOWHERE);
    return t;
}

static num_tensor ints_of(int n)
{
    return ints(1, (int32_t[]){n});
}

/* Elements that are NaN. */
static num_tensor cache_of(const problem *p, int d)
{
    num_layout outside = {"heads", {0, 1, 2, 3}, {0}, {0, 0, 0, p->gap}};
    num_layout inside = {"rows", {0, 2, 1, 3}, {0}, {0, 0, 1, p->gap}};
    int32_t size[] = {p->seqs, p->hk, p->room + 3, d};
    if (p->layout == TILEC_KV_RAGGED) {
        size[0] = 1;
        size[2] = p->seqs * p->room + 2;
    } else if (has_pages(p)) {
        size[0] = p->seqs * most_pages(p) + 3;
        size[2] = p->page;
    }
    return num_tensor_new(p->cache, 4, size,
                          p->heads_inside ? &inside : &outside);
}

static num_tensor rows_of(const problem *p, num_type type, int rank, int d)
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
        set(&t, i, ldexp(is_short ? round(2 * x) / 2 : x, power));
    }
    return t;
}

/* Lengths around the sides of pages and of blocks. */
static int draw_keys(const problem *p, num_rng *r)
{
    int side = has_pages(p) ? p->page : 64;
    const int edges[] = {0,          1,        side - 1,
                         side,       side + 1, side * num_between(r, 1, 40),
                         p->room,    p->room,  num_between(r, 0, p->room),
                         p->room / 2};
    int n = CHOOSE(r, edges);
    return n < p->room ? n : p->room;
}

/* Positions before the first key are for mods that look nothing up by them. */
static bool takes_any_position(const problem *p)
{
    return p->mask - masks < 5 && p->score - scores < 3;
}

/* As many keys as queries or more, or none. */
static void keep_positions(const problem *p, int *keys, int *queries)
{
    if (*keys >= *queries || takes_any_position(p))
        return;
    if (p->is_ragged)
        *queries = *keys;
    else
        *keys = p->room < p->queries ? 0 : p->queries;
}

static void draw_lengths(batch *b, num_rng *r)
{
    const problem *p = b->p;
    for (int i = 0, key = 0, query = 0; i < p->seqs; i++) {
        if (i != b->kept) {
            b->keys[i] = draw_keys(p, r);
            b->queries[i] =
                p->is_ragged ? num_below(r, p->queries + 1) : p->queries;
            keep_positions(p, &b->keys[i], &b->queries[i]);
        }
        b->first_key[i] = key;
        b->first_query[i] = query;
        key += b->keys[i];
        query += b->queries[i];
    }
}

static void shuffle(batch *b, num_rng *r)
{
    int n = b->t[K].size[0];
    for (int i = 0; i < n && i < MOST_POOL; i++) {
        int j = num_below(r, i + 1);
        b->order[i] = b->order[j];
        b->order[j] = i;
    }
}

/* By shape: of rows as the cache has them. */
static num_tensor factors_of(const batch *b)
{
    int heads = b->p->factors > 1 ? b->p->hk : 1;
    const int32_t *rows = b->t[K].size;
    int32_t size[] = {rows[0], rows[1], rows[2], 1};
    if (b->p->factors == 3)
        return num_tensor_new(NUM_F32, 4, size, NULL);
    return num_tensor_new(NUM_F32, 1, &heads, NULL);
}

static void make_tensors(batch *b, num_rng *r)
{
    const problem *p = b->p;
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
    b->t[TABLE] = ints(2, (int32_t[]){p->seqs, most_pages(p) + 1});
    b->t[INDPTR] = ints_of(p->seqs + 1);
    b->t[INDICES] = ints_of(p->seqs * most_pages(p) + 1);
    b->t[LAST] = ints_of(p->seqs);
    b->t[CU_Q] = ints_of(p->seqs + 1);
    b->t[SINKS] =
        num_tensor_new(NUM_F32, 1, (int32_t[]){p->hk * p->group}, NULL);
    for (int i = 0; i < p->hk * p->group; i++)
        set(&b->t[SINKS], i, num_below(r, 4) ? 3 * num_normal(r) : -INFINITY);
    for (int i = 0; i < p->seqs; i++) {
        b->q[i] = b->k[i] = b->v[i] = (num_tensor){0};
    }
}

static void free_sequences(batch *b)
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

static void free_batch(batch *b)
{
    b->kept = -1;
    free_sequences(b);
    for (int i = 0; i < NTENSORS; i++)
        if (i != V || !b->p->v_in_k)
            num_tensor_free(&b->t[i]);
    mod_data_free(&b->mods);
}

/* Of all keys, or of a head's. Those of values also small ones. */
static int factor_power(const problem *p, int head, int which)
{
    int power = p->factors == 2 ? -(head % 3) - which : -1 - which;
    return which && p->power ? power - 12 : power;
}

/* Powers of 2: scores stay short. Those of all and of heads are the same for
 * all sequences, and in all steps. */
static void draw_factors(batch *b, int i, num_rng *r)
{
    int32_t size[] = {1, b->p->hk, b->keys[i], 1};
    for (int which = 0; which < 2; which++) {
        num_tensor *t = &b->factors[which][i];
        *t = num_tensor_new(NUM_F32, 4, size, NULL);
        for (int64_t k = 0; k < num_count(t); k++) {
            int head = (int)(k / size[2]);
            int power = b->p->factors == 3 ? num_between(r, -2, 0)
                                           : factor_power(b->p, head, which);
            set(t, k, b->p->factors ? ldexp(1, power) : 1);
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

static void draw_sequences(batch *b, num_rng *r)
{
    const problem *p = b->p;
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

/* ---- Where sequences lie ---- */

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

static void place_keys(const batch *b, int i, const num_tensor *from,
                       const num_tensor *to)
{
    const problem *p = b->p;
    int n = b->keys[i];
    if (p->layout == TILEC_KV_DENSE)
        copy_rows(from, 0, to, i, 0, n);
    if (p->layout == TILEC_KV_RAGGED)
        copy_rows(from, 0, to, 0, b->first_key[i], n);
    for (int j = 0; has_pages(p) && j < pages_of(p, n); j++) {
        int left = n - j * p->page;
        copy_rows(from, j * p->page, to, b->order[i * most_pages(p) + j], 0,
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
        set(t, i, NOWHERE);
}

static void place_tables(batch *b)
{
    const problem *p = b->p;
    nowhere(&b->t[TABLE]);
    nowhere(&b->t[INDICES]);
    for (int i = 0, at = 0; i < p->seqs; i++) {
        int pages = pages_of(p, b->keys[i]);
        set(&b->t[KV_LENS], i, b->keys[i]);
        set(&b->t[CU_K], i, b->first_key[i]);
        set(&b->t[CU_K], i + 1, b->first_key[i] + b->keys[i]);
        set(&b->t[CU_Q], i, b->first_query[i]);
        set(&b->t[CU_Q], i + 1, b->first_query[i] + b->queries[i]);
        set(&b->t[INDPTR], i, at);
        set(&b->t[INDPTR], i + 1, at + pages);
        set(&b->t[LAST], i, pages ? b->keys[i] - (pages - 1) * p->page : 0);
        for (int j = 0; j < pages; j++) {
            int page = b->order[i * most_pages(p) + j];
            set(&b->t[TABLE], (int64_t)i * b->t[TABLE].size[1] + j, page);
            set(&b->t[INDICES], at + j, page);
        }
        at += pages;
    }
}

static void place(batch *b)
{
    const problem *p = b->p;
    const int all[] = {Q, K, V, O, LSE, K_FACTORS, V_FACTORS};
    for (int i = 0; i < 7; i++)
        poison(&b->t[all[i]]);
    for (int i = 0; i < 2 && p->factors < 3; i++)
        for (int h = 0; h < b->t[K_FACTORS + i].size[0]; h++)
            set(&b->t[K_FACTORS + i], h, ldexp(1, factor_power(p, h, i)));
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

/* ---- What is right ---- */

/* What mods are told of a sequence. */
typedef struct shifted {
    const batch *b;
    int sequence;
} shifted;

static ref_position moved(const ref_position *at)
{
    const shifted *s = at->data;
    ref_position p = *at;
    p.b = s->sequence;
    p.q += at->k_len - at->q_len;
    p.q_len = at->k_len;
    p.data = &s->b->mods;
    return p;
}

static bool mask_at(const ref_position *at)
{
    const shifted *s = at->data;
    ref_position p = moved(at);
    return s->b->p->mask->reference(&p);
}

static double score_at(double x, const ref_position *at)
{
    const shifted *s = at->data;
    ref_position p = moved(at);
    return s->b->p->score->reference(x, &p);
}

/* Each row times its factor. */
static num_tensor times(const num_tensor *x, const num_tensor *factors)
{
    num_tensor y = num_tensor_new(NUM_F64, 4, x->size, NULL);
    for (int64_t i = 0; i < num_count(x); i++)
        set(&y, i,
            num_read(x->type, num_at(x, i)) *
                num_read(NUM_F32, num_at(factors, i / x->size[3])));
    return y;
}

static void reference(const batch *b, int i, const double *sinks, double *o,
                      double *lse)
{
    shifted s = {b, i};
    num_tensor k = times(&b->k[i], &b->factors[0][i]);
    num_tensor v = times(&b->v[i], &b->factors[1][i]);
    ref_attention a = {.q = &b->q[i],
                       .k = &k,
                       .v = &v,
                       .scale = scale_of(b->p),
                       .score = b->p->score->reference ? score_at : NULL,
                       .score_data = &s,
                       .mask = b->p->mask->reference ? mask_at : NULL,
                       .mask_data = &s,
                       .sinks = sinks};
    ref_attention_forward(&a, o, lse);
    num_tensor_free(&k);
    num_tensor_free(&v);
}

/* The row-major index of a row of head h in o and lse. */
static int64_t row_index(const batch *b, int i, int h, int query)
{
    const problem *p = b->p;
    int z = p->is_ragged ? 0 : i;
    int row = p->is_ragged ? b->first_query[i] + query : query;
    return ((int64_t)z * b->t[LSE].size[1] + h) * b->t[LSE].size[2] + row;
}

static bool is_lse(double got, double want)
{
    return got == want || fabs(got - want) <= 2e-5 + 3e-7 * fabs(want);
}

/* README.md has these. */
static double tolerance(num_type t)
{
    return t == NUM_F32 ? 2e-6 : t == NUM_F16 ? 1e-3 : 3e-3;
}

static bool compare_sequence(const batch *b, int i, const double *o,
                             const double *lse, const double *sinks,
                             char why[256])
{
    const problem *p = b->p;
    int heads = p->hk * p->group, m = b->queries[i], dv = p->dv;
    int64_t n = (int64_t)heads * m;
    double *want = calloc((size_t)(n * dv + 1), sizeof *want);
    double *got = calloc((size_t)(n * dv + 1), sizeof *got);
    double *sums = calloc((size_t)(n + 1), sizeof *sums);
    bool ok = true;
    reference(b, i, sinks, want, sums);
    for (int64_t j = 0; j < n; j++) {
        int64_t row = row_index(b, i, (int)(j / m), (int)(j % m));
        memcpy(got + j * dv, o + row * dv, (size_t)dv * sizeof *got);
        if (ok && !is_lse(lse[row], sums[j])) {
            snprintf(why, 256, "sequence %d, %d keys: lse is %g, should be %g",
                     i, b->keys[i], lse[row], sums[j]);
            ok = false;
        }
    }
    num_error e = num_compare(got, want, n * dv, dv);
    double limit = tolerance(p->type);
    double row = 4 * limit + (sinks ? 128 * 0x1p-23 : 0);
    bool few = n * dv < 256 && p->type != NUM_F32;
    if (ok && !(e.overall <= (few ? row : limit) && e.worst_row <= row)) {
        snprintf(why, 256, "sequence %d, %d keys: error %.2e, worst row %.2e",
                 i, b->keys[i], e.overall, e.worst_row);
        ok = false;
    }
    free(want);
    free(got);
    free(sums);
    return ok;
}

/* Rows of no sequence are as they were: NaN. */
static bool is_rest_untouched(const batch *b, const double *lse)
{
    const problem *p = b->p;
    const num_tensor *t = &b->t[LSE];
    int last = p->seqs - 1;
    int rows =
        p->is_ragged ? b->first_query[last] + b->queries[last] : t->size[2];
    bool ok = true;
    for (int64_t i = 0; i < num_count(t); i++)
        ok &= i % t->size[2] < rows || isnan(lse[i]);
    return ok && num_tensor_intact(&b->t[O]) && num_tensor_intact(t);
}

static bool compare(const batch *b, char why[256])
{
    double *o = num_tensor_read(&b->t[O]), *lse = num_tensor_read(&b->t[LSE]);
    double *sinks = b->p->sinks ? num_tensor_read(&b->t[SINKS]) : NULL;
    bool ok = is_rest_untouched(b, lse);
    if (!ok)
        snprintf(why, 256, "writes rows of no sequence");
    for (int i = 0; ok && i < b->p->seqs; i++)
        ok = compare_sequence(b, i, o, lse, sinks, why);
    free(o);
    free(lse);
    free(sinks);
    return ok;
}

/* ---- Running ---- */

/* Without the last dim of those of rows, which is 1. */
static const DLTensor *factors_view(run_view *v, const num_tensor *t)
{
    run_view_of(v, t);
    v->dl.ndim = t->rank == 4 ? 3 : 1;
    return &v->dl;
}

static tilec_kvcache *make_plan(tilec_context *cx, const batch *b)
{
    const problem *p = b->p;
    tilec_source source = tilec_text("test mods", mods_text, 0);
    tilec_kvcache_options o = TILEC_INIT(tilec_kvcache_options);
    run_view views[5];
    tilec_kvcache *plan = NULL;
    o.scale = scale_of(p);
    if (p->factors) {
        o.descale_k = factors_view(&views[3], &b->t[K_FACTORS]);
        o.descale_v = factors_view(&views[4], &b->t[V_FACTORS]);
    }
    o.mask = p->mask->expression;
    o.score = p->score->expression;
    o.sources = &source;
    o.nsources = 1;
    o.layout = p->layout;
    o.ragged_queries = p->is_ragged;
    o.piece = p->piece;
    o.sinks = p->sinks;
    o.v_in_k = p->v_in_k;
    if (tilec_kvcache_plan(cx, run_view_of(&views[0], &b->t[Q]),
                           run_view_of(&views[1], &b->t[K]),
                           run_view_of(&views[2], &b->t[V]), &o,
                           &plan) != TILEC_OK)
        run_print_diagnostics(cx);
    return plan;
}

/* Views of all tensors that the layout has. */
static tilec_kvcache_tensors tensors_of(const batch *b, run_view *views)
{
    static const bool wanted[][NTENSORS] = {
        [TILEC_KV_DENSE] = {[KV_LENS] = true},
        [TILEC_KV_RAGGED] = {[CU_K] = true},
        [TILEC_KV_PAGED] = {[KV_LENS] = true, [TABLE] = true},
        [TILEC_KV_INDEXED] = {[INDPTR] = true, [INDICES] = true, [LAST] = true},
    };
    const problem *p = b->p;
    tilec_kvcache_tensors t = TILEC_INIT(tilec_kvcache_tensors);
    const DLTensor **const fields[NTENSORS] = {&t.q,
                                               &t.k,
                                               &t.v,
                                               &t.o,
                                               &t.lse,
                                               &t.kv_lens,
                                               &t.cu_seqlens_k,
                                               &t.page_table,
                                               &t.kv_indptr,
                                               &t.kv_indices,
                                               &t.kv_last_page_len,
                                               &t.cu_seqlens_q,
                                               &t.sinks,
                                               &t.descale_k,
                                               &t.descale_v};
    for (int i = 0; i < NTENSORS; i++)
        if (i <= LSE || wanted[p->layout][i] || (i == CU_Q && p->is_ragged) ||
            (i == SINKS && p->sinks))
            *fields[i] = run_view_of(&views[i], &b->t[i]);
    for (int i = K_FACTORS; i <= V_FACTORS && p->factors; i++)
        *fields[i] = factors_view(&views[i], &b->t[i]);
    return t;
}

typedef struct run {
    const tilec_kvcache *plan;
    batch *b;
    run_room schedule;
    char why[256];
} run;

static bool launch(run *r, bool makes_schedule)
{
    run_view views[NTENSORS], captured_views[MAX_CAPTURED];
    tilec_argument captured[MAX_CAPTURED];
    tilec_error error = {0};
    tilec_kvcache_tensors t = tensors_of(r->b, views);
    t.captured = captured;
    t.ncaptured = mod_arguments(&r->b->mods, tilec_kvcache_kernel(r->plan),
                                captured, captured_views);
    tilec_status s = TILEC_OK;
    if (!r->schedule.host) {
        uint64_t bytes;
        s = tilec_kvcache_workspace(r->plan, &t, &bytes, NULL, &error);
        s = s ? s : run_room_new(&r->schedule, bytes, &error);
    }
    s = s ? s : run_kvcache(r->plan, &t, &r->schedule, makes_schedule, &error);
    if (s != TILEC_OK)
        snprintf(r->why, sizeof r->why, "%.200s", error.message);
    return s == TILEC_OK;
}

static bool is_same(const num_tensor *t, const double *before)
{
    double *now = num_tensor_read(t);
    bool same = true;
    for (int64_t i = 0, n = num_count(t); i < n; i++)
        same &= now[i] == before[i] || (isnan(now[i]) && isnan(before[i]));
    free(now);
    return same;
}

/* Once more, of the same sequences: the same bits. */
static bool repeat(run *r, bool makes_schedule, const char *after)
{
    batch *b = r->b;
    double *o = num_tensor_read(&b->t[O]), *lse = num_tensor_read(&b->t[LSE]);
    place(b);
    bool ok = launch(r, makes_schedule);
    if (ok && !(is_same(&b->t[O], o) && is_same(&b->t[LSE], lse))) {
        snprintf(r->why, sizeof r->why, "not the same bits %s", after);
        ok = false;
    }
    free(o);
    free(lse);
    return ok;
}

/* The rows of a sequence in o, then in lse. */
static double *results_of(const batch *b, int i)
{
    int heads = b->t[LSE].size[1], m = b->queries[i], dv = b->p->dv;
    double *all = malloc(((size_t)heads * m * (dv + 1) + 1) * sizeof *all);
    size_t n = 0;
    for (int j = 0; j < heads * m; j++) {
        int64_t row = row_index(b, i, j / m, j % m);
        for (int d = 0; d <= dv; d++)
            all[n++] =
                d < dv ? num_read(b->p->type, num_at(&b->t[O], row * dv + d))
                       : num_read(NUM_F32, num_at(&b->t[LSE], row));
    }
    return all;
}

/* Pieces of constant length: a sequence has the same bits, whatever the others
 * are. */
static bool run_others(run *r, num_rng *rng)
{
    batch *b = r->b;
    int i = num_below(rng, b->p->seqs);
    double *before = results_of(b, i);
    size_t n = (size_t)b->t[LSE].size[1] * (size_t)b->queries[i] *
               (size_t)(b->p->dv + 1);
    b->kept = i;
    draw_sequences(b, rng);
    b->kept = -1;
    place(b);
    bool ok = launch(r, true) && compare(b, r->why);
    double *after = results_of(b, i);
    if (ok && memcmp(before, after, n * sizeof *before) != 0) {
        snprintf(r->why, sizeof r->why,
                 "sequence %d has other bits next to others", i);
        ok = false;
    }
    free(before);
    free(after);
    return ok;
}

/* Lengths, then others with the memory of that schedule; a second layer by the
 * same schedule, other pages. */
static bool run_steps(run *r, num_rng *rng)
{
    enum { STEPS = 3 };
    bool ok = true;
    shuffle(r->b, rng);
    for (int i = 0; ok && i < STEPS; i++) {
        draw_sequences(r->b, rng);
        place(r->b);
        ok = launch(r, true) && compare(r->b, r->why);
        ok = ok && repeat(r, false, "of a second run by one schedule");
    }
    if (ok && r->b->p->piece)
        ok = run_others(r, rng);
    shuffle(r->b, rng);
    return ok && repeat(r, true, "with pages in another order");
}

static void run_case(tilec_context *cx, uint64_t seed, int which, bool verbose,
                     run_counts *counts)
{
    num_rng r = {seed * 1000003 + (uint64_t)which * 1009};
    problem p = make_problem(&r, which);
    batch *b = calloc(1, sizeof *b);
    char text[256];
    describe(&p, text);
    b->p = &p;
    b->kept = -1;
    mod_data_init(&b->mods, &r, p.seqs, p.hk * p.group, p.room, p.room);
    make_tensors(b, &r);
    run x = {.plan = make_plan(cx, b), .b = b};
    if (!x.plan)
        snprintf(x.why, sizeof x.why, "does not compile");
    bool ok = x.plan && run_steps(&x, &r);
    run_check(counts, ok, "--seed %llu --case %d: %s: %s",
              (unsigned long long)seed, which, text, x.why);
    if (ok && verbose)
        printf("passed %d: %s\n", which, text);
    tilec_kvcache_free((tilec_kvcache *)x.plan);
    run_room_free(&x.schedule);
    free_batch(b);
    free(b);
}

int main(int argc, char **argv)
{
    run_counts counts = {0};
    uint64_t seed = (uint64_t)run_option(argc, argv, "seed", 1);
    int cases = (int)run_option(argc, argv, "cases", 40);
    int only = (int)run_option(argc, argv, "case", -1);
    bool verbose = run_option(argc, argv, "verbose", 0);
    tilec_context *cx = run_context();
    for (int i = 0; i < cases || i == only; i++)
        if (only < 0 || i == only)
            run_case(cx, seed, i, verbose, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
