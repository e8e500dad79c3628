/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of blocks, of every mask of the library, against the mask evaluated
 * everywhere: kernels/block_mask.tile for both directions, and attention that
 * visits what it lists.
 *
 *   numerics_lists [--seed N] [--cases N] [--mask N] [--print 1]
 */
#include "test/numerics/mods.h"
#include "test/numerics/pipeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    const mask_case *mask;
    char binding[64];
    int batch, heads, m, n, bq, bk;
    mod_data mods;
    run_counts *counts;
    uint64_t seed;
    bool print;
    const num_tensor *list, *number; /* of the queries' blocks */
} problem;

static bool sees(const problem *p, int b, int h, int q, int k)
{
    ref_position at = {.b = b, .h = h, .q = q, .k = k};
    at.q_len = p->m;
    at.k_len = p->n;
    at.data = &p->mods;
    return p->mask->reference(&at);
}

/* ---- What the functions capture ---- */

static bool capture(void *user, const char *name, bool is_tensor,
                    tc_launch_arg *arg)
{
    const problem *p = user;
    const char *last = strrchr(name, '.') + 1;
    if (strcmp(name, "blocks.list") == 0)
        *arg = pipeline_tensor(p->list);
    else if (strcmp(name, "blocks.counts") == 0)
        *arg = pipeline_tensor(p->number);
    else if (strcmp(name, "blocks.row_side") == 0)
        *arg = (tc_launch_arg){.scalar.i = p->bq};
    else if (strcmp(name, "blocks.column_side") == 0)
        *arg = (tc_launch_arg){.scalar.i = p->bk};
    else if (!is_tensor)
        *arg = (tc_launch_arg){.scalar.i = mod_int(&p->mods, last)};
    else if (mod_tensor(&p->mods, last))
        *arg = pipeline_tensor(mod_tensor(&p->mods, last));
    else
        return false;
    return true;
}

static char *text_of(const char *const *paths)
{
    char *text = calloc(1, 1 << 18);
    strcpy(text, mods_text);
    for (; *paths; paths++) {
        char *one = pipeline_file(*paths);
        strcat(text, one);
        free(one);
    }
    return text;
}

/* ---- Lists ---- */

static int blocks(int length, int side)
{
    return (length + side - 1) / side;
}

/* 0 empty, 1 needs the mask, 2 full: of queries the last one stands for those
 * after it. */
static int kind_of(const problem *p, int b, int h, int i, int j)
{
    bool any = false, all = true;
    for (int q = i * p->bq; q < (i + 1) * p->bq && q < p->m; q++)
        for (int k = j * p->bk; k < (j + 1) * p->bk; k++) {
            bool see = k < p->n && sees(p, b, h, q, k);
            any |= see;
            all &= see;
        }
    return any ? 1 + all : 0;
}

static int at4(const num_tensor *t, int b, int h, int i, int j)
{
    int64_t at = ((int64_t)b * t->size[1] + h) * t->size[2] + i;
    return (int)num_read(NUM_I32, num_at(t, at * t->size[3] + j));
}

static bool row_is_right(const problem *p, const num_tensor *number,
                         const num_tensor *list, bool by_key, int b, int h,
                         int row)
{
    int columns = list->size[3], n[3] = {0};
    for (int j = 0; j < columns; j++) {
        int kind = by_key ? kind_of(p, b, h, j, row) : kind_of(p, b, h, row, j);
        int at = kind == 1 ? n[1] : columns - 1 - n[2];
        if (kind && at4(list, b, h, row, at) != j)
            return false;
        n[kind]++;
    }
    return at4(number, b, h, row, 0) == n[1] &&
           at4(number, b, h, row, 1) == n[2];
}

static num_tensor new_i32(int rank, const int32_t *size)
{
    num_tensor t = num_tensor_new(NUM_I32, rank, size, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        num_write(NUM_I32, num_at(&t, i), -1);
    return t;
}

static void check_lists(problem *p, bool by_key, num_tensor *number,
                        num_tensor *list)
{
    static const char *const files[] = {"kernels/mods/masks.tile",
                                        "kernels/block_mask.tile", NULL};
    char *text = text_of(files), bq[16], bk[16];
    int rows = by_key ? blocks(p->n, p->bk) : blocks(p->m, p->bq);
    int columns = by_key ? blocks(p->m, p->bq) : blocks(p->n, p->bk);
    *number = new_i32(4, (int32_t[]){p->batch, p->heads, rows, 2});
    *list = new_i32(4, (int32_t[]){p->batch, p->heads, rows, columns});
    snprintf(bq, sizeof bq, "%d", p->bq);
    snprintf(bk, sizeof bk, "%d", p->bk);
    num_tensor kinds =
        new_i32(4, (int32_t[]){p->batch, p->heads, blocks(p->m, p->bq),
                               blocks(p->n, p->bk)});
    pipeline_setting find = {
        .text = text, .kernel = "block_kinds", .pipeline = "gpu-tile"};
    pipeline_setting put = {
        .text = text, .kernel = "block_lists", .pipeline = "gpu-tile"};
    find.print = put.print = p->print;
    pipeline_bind(&find, "BQ", bq);
    pipeline_bind(&find, "BK", bk);
    pipeline_bind(&find, "mask_mod", p->binding);
    pipeline_bind(&put, "BY_KEY", by_key ? "1" : "0");
    tc_launch_arg args[] = {
        pipeline_tensor(&kinds), {.scalar.i = p->m}, {.scalar.i = p->n}};
    tc_launch_arg results[] = {pipeline_tensor(&kinds), pipeline_tensor(number),
                               pipeline_tensor(list)};
    bool ok = pipeline_run(&find, args, 3, capture, p) &&
              pipeline_run(&put, results, 3, capture, p);
    num_tensor_free(&kinds);
    for (int b = 0; ok && b < p->batch; b++)
        for (int h = 0; ok && h < p->heads; h++)
            for (int row = 0; ok && row < rows; row++)
                ok = row_is_right(p, number, list, by_key, b, h, row);
    ok &= num_tensor_intact(number) && num_tensor_intact(list);
    run_check(p->counts, ok, "lists of %s, seed %llu: M=%d N=%d %dx%d%s",
              p->binding, (unsigned long long)p->seed, p->m, p->n, p->bq, p->bk,
              by_key ? " by key" : "");
    free(text);
}

/* ---- Attention ---- */

enum { DIM = 16 };

static num_tensor new_normal(num_rng *r, const problem *p, int length)
{
    num_tensor t = num_tensor_new(
        NUM_F32, 4, (int32_t[]){p->batch, p->heads, length, DIM}, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        num_write(NUM_F32, num_at(&t, i), num_normal(r));
    return t;
}

/* Values of keys that no query of their batch and head sees. */
static void set_hidden(const problem *p, num_tensor *v, double x)
{
    for (int at = 0; at < p->batch * p->heads * p->n; at++) {
        int k = at % p->n, h = at / p->n % p->heads;
        bool seen = false;
        for (int q = 0; q < p->m && !seen; q++)
            seen = sees(p, at / p->n / p->heads, h, q, k);
        for (int d = 0; d < DIM && !seen; d++)
            num_write(NUM_F32, num_at(v, (int64_t)at * DIM + d), x);
    }
}

static bool same_floats(const num_tensor *a, const num_tensor *b, int width)
{
    double *x = num_tensor_read(a), *y = num_tensor_read(b);
    for (int64_t i = 0; i < num_count(a); i++)
        if (isinf(x[i]) && x[i] == y[i])
            x[i] = y[i] = 0; /* rows that see nothing */
    num_error e = num_compare(x, y, num_count(a), width);
    free(x);
    free(y);
    return e.overall <= 2e-6 && e.worst_row <= 8e-6;
}

/* With lists, and NaN where nothing is seen; and over all keys. */
static void check_attention(problem *p, num_rng *r)
{
    static const char *const files[] = {"kernels/mods/masks.tile",
                                        "kernels/mods/blocks.tile",
                                        "kernels/attention_fwd.tile", NULL};
    char *text = text_of(files);
    num_tensor q = new_normal(r, p, p->m), k = new_normal(r, p, p->n),
               v = new_normal(r, p, p->n), o[2], lse[2];
    int32_t rows[] = {p->batch, p->heads, p->m};
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        o[i] = new_normal(r, p, p->m);
        lse[i] = num_tensor_new(NUM_F32, 3, rows, NULL);
        set_hidden(p, &v, i ? NAN : 0);
        pipeline_setting s = {.text = text, .kernel = "attention_fwd"};
        s.pipeline = i ? "gpu-tile"
                       : "bind-params,inline,canonicalize,expand-bisections,"
                         "cse,dce";
        s.print = p->print;
        pipeline_bind(&s, "D", "16");
        pipeline_bind(&s, "T", "f32");
        pipeline_bind(&s, "BN", "32");
        pipeline_bind(&s, "mask_mod", p->binding);
        if (i)
            pipeline_bind(&s, "blocks", "@listed_blocks");
        tc_launch_arg args[] = {
            pipeline_tensor(&q),      pipeline_tensor(&k),
            pipeline_tensor(&v),      pipeline_tensor(&o[i]),
            pipeline_tensor(&lse[i]), {.scalar.f = 0.25},
            pipeline_tensor(&lse[i])};
        ok &= pipeline_run(&s, args, 7, capture, p);
    }
    /* An lse may be near 0, where its own size says little: by heads. */
    ok = ok && same_floats(&o[1], &o[0], DIM) &&
         same_floats(&lse[1], &lse[0], p->m);
    run_check(p->counts, ok, "attention of %s, seed %llu: M=%d N=%d %dx%d",
              p->binding, (unsigned long long)p->seed, p->m, p->n, p->bq,
              p->bk);
    num_tensor *all[] = {&q, &k, &v, &o[0], &o[1], &lse[0], &lse[1]};
    for (int i = 0; i < 7; i++)
        num_tensor_free(all[i]);
    free(text);
}

static void run_case(const mask_case *mask, uint64_t seed, bool print,
                     run_counts *counts)
{
    static const int sides[] = {64, 64, 128, 192, 256};
    num_rng r = {seed};
    problem p = {.mask = mask, .counts = counts, .seed = seed, .print = print};
    snprintf(p.binding, sizeof p.binding, "@%s", mask->expression);
    p.batch = num_between(&r, 1, 2);
    p.heads = num_between(&r, 1, 2);
    p.m = num_between(&r, 1, 500);
    p.n = num_below(&r, 3) ? p.m : num_between(&r, 1, 500);
    p.bq = sides[num_below(&r, 5)];
    p.bk = sides[num_below(&r, 5)];
    mod_data_init(&p.mods, &r, p.batch, p.heads, p.m, p.n);
    num_tensor number[2], list[2];
    for (int by_key = 0; by_key < 2; by_key++)
        check_lists(&p, by_key, &number[by_key], &list[by_key]);
    p.number = &number[0];
    p.list = &list[0];
    check_attention(&p, &r);
    for (int i = 0; i < 2; i++) {
        num_tensor_free(&number[i]);
        num_tensor_free(&list[i]);
    }
    mod_data_free(&p.mods);
}

int main(int argc, char **argv)
{
    long seed = run_option(argc, argv, "seed", 1);
    long cases = run_option(argc, argv, "cases", 1);
    long only = run_option(argc, argv, "mask", -1);
    run_counts counts = {0};
    for (int i = 0; i < nmasks; i++) {
        const char *name = masks[i].expression;
        if (!name || strpbrk(name, "!&|(") || (only >= 0 && i != only))
            continue;
        for (long c = 0; c < cases; c++)
            run_case(&masks[i], (uint64_t)(seed * 1000 + c * 100 + i),
                     run_option(argc, argv, "print", 0), &counts);
    }
    return run_finish(&counts);
}
