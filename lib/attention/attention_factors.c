/* SPDX-License-Identifier: Apache-2.0
 *
 * The factors of 8-bit numbers: the shape of their tensor decides which
 * function of mods/descales.tile reads them.
 *
 *     descale_k [2, 4, 8] of k [2, 4, 1000, 64]
 *
 * binds descale_k=@per_block and SCALE_BLOCK_K=128: a head has 8 blocks of 128
 * keys.
 */
#include "lib/attention/attention.h"

#include <stdlib.h>
#include <string.h>

/* Of less the kernel has no tiles. */
enum { FEWEST_ROWS = 16 };

/* A tensor of factors, and the tensor that they are of. */
struct factors {
    const char *parameter, *rows; /* rows NULL: never by block */
    const DLTensor *scales, *of;
    int64_t key_heads; /* that the heads of q share; 0: not of q */
};

static int64_t divided(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The power of two of which `blocks` make `length` rows; 0: none does. Where a
 * head is one block, one that each tile's side divides. */
static int64_t rows_of(int64_t length, int64_t blocks)
{
    int64_t rows = FEWEST_ROWS;
    if (blocks < 1 || blocks > length || length > TC_MAX_SIZE)
        return 0;
    if (blocks == 1)
        rows = 1024;
    while (rows * blocks < length)
        rows *= 2;
    return divided(length, rows) == blocks ? rows : 0;
}

static const char *function_of(const struct factors *f)
{
    const int64_t *size = f->scales->shape, *of = f->of->shape;
    switch (f->scales->ndim) {
    case 1:
        if (size[0] == 1)
            return "@per_tensor";
        return size[0] == of[1] ? "@per_head" : NULL;
    case 2:
        if (size[0] != of[0])
            return NULL;
        if (size[1] == of[1])
            return "@per_batch_head";
        return f->key_heads && size[1] == f->key_heads ? "@per_key_head" : NULL;
    case 3:
        return f->rows && size[0] == of[0] && size[1] == of[1] &&
                       rows_of(of[2], size[2])
                   ? "@per_block"
                   : NULL;
    default: return NULL;
    }
}

static bool wrong_shape(tc_job *job, const struct factors *f)
{
    tc_text shape = {.arena = &job->cx->diag_arena};
    for (int i = 0; i < f->scales->ndim; i++)
        tc_text_printf(&shape, "%s%lld", i ? ", " : "",
                       (long long)f->scales->shape[i]);
    const int64_t *of = f->of->shape;
    tc_text key_heads = {.arena = &job->cx->diag_arena};
    if (f->key_heads && f->key_heads != of[1])
        tc_text_printf(&key_heads, ", [%lld, %lld]", (long long)of[0],
                       (long long)f->key_heads);
    return tc_job_error(
        job, TILEC_INPUT,
        "argument %s: the shape is [%s], expected [1], [%lld], [%lld, %lld]%s"
        "%s",
        f->parameter, shape.data ? shape.data : "", (long long)of[1],
        (long long)of[0], (long long)of[1],
        key_heads.data ? key_heads.data : "",
        f->rows ? " or one for each block of a power of two of rows" : "");
}

static bool bind_one(tc_job *job, const struct factors *f,
                     tc_attention_factors *out)
{
    if (!f->scales)
        return true;
    if (f->scales->ndim && !f->scales->shape)
        return tc_job_error(job, TILEC_USAGE, "argument %s: shape is NULL",
                            f->parameter);
    const char *function = function_of(f);
    if (!function)
        return wrong_shape(job, f);
    out->bindings[out->n++] = (tilec_binding){f->parameter, function};
    if (f->scales->ndim < 3)
        return true;
    int64_t blocks = f->scales->shape[2];
    const char *rows = tc_arena_printf(
        &job->cx->arena, "%lld", (long long)rows_of(f->of->shape[2], blocks));
    out->bindings[out->n++] = (tilec_binding){f->rows, rows};
    return true;
}

bool tc_attention_find_factors(tc_job *job, const tilec_attention_options *o,
                               const DLTensor *q, const DLTensor *k,
                               const DLTensor *v, tc_attention_factors *out)
{
    const struct factors all[] = {
        {"descale_q", "SCALE_BLOCK_Q", o->descale_q, q, k->shape[1]},
        {"descale_k", "SCALE_BLOCK_K", o->descale_k, k, 0},
        {"descale_v", "SCALE_BLOCK_V", o->descale_v, v, 0},
        {"scale_o", NULL, o->scale_o, q, k->shape[1]},
    };
    *out = (tc_attention_factors){0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!bind_one(job, &all[i], out))
            return false;
    return true;
}

/* The largest power of two up to `side` that divides `rows`. */
static long common_side(long side, long rows)
{
    long common = 1;
    while (2 * common <= side && rows % (2 * common) == 0)
        common *= 2;
    return common;
}

static tilec_binding *attention_factors_find(tilec_binding *all, size_t n,
                                             const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

void tc_attention_fit_sides(tc_arena *arena, tilec_binding *all, size_t n)
{
    static const char *const pairs[][2] = {{"BM", "SCALE_BLOCK_Q"},
                                           {"BN", "SCALE_BLOCK_K"},
                                           {"BN", "SCALE_BLOCK_V"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        tilec_binding *side = attention_factors_find(all, n, pairs[i][0]),
                      *rows = attention_factors_find(all, n, pairs[i][1]);
        if (!side || !rows)
            continue;
        long is = strtol(side->value, NULL, 0),
             of = strtol(rows->value, NULL, 0);
        if (is > 0 && of % is != 0)
            side->value = tc_arena_printf(arena, "%ld", common_side(is, of));
    }
}
