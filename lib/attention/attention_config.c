/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuned configurations of attention's kernels: the query that follows from
 * tensors, mods and options.
 */
#include "lib/attention/attention.h"

#include "lib/gpu/gpu.h"
#include "lib/mods/mod_slope.h"
#include "lib/mods/mod_window.h"
#include "passes/target/machine_model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool sums_are_exact(const tc_attention_job *p)
{
    const tc_attention_tuning *t = &p->tuning;
    for (size_t i = 0; i < t->nbindings; i++)
        if (strcmp(t->bindings[i].name, "EXACT") == 0)
            return strcmp(t->bindings[i].value, "0") != 0;
    return false;
}

static const char *score_class(const tc_attention_job *p)
{
    const tc_mod *score = &p->mods.all[TC_MOD_SCORE];
    if (!score->wanted)
        return "none";
    return tc_score_class(p->arena, p->job->module, score->func.name);
}

/* 1: a step of the kernel's loop takes keys; 0: it takes queries, and keys
 * stay. */
static int step_of(const char *kernel)
{
    return strcmp(kernel, "attention_fwd") == 0 ||
           strcmp(kernel, "attention_bwd_dq") == 0;
}

static bool is_by_lists(const tc_attention_job *p, const char *kernel)
{
    return step_of(kernel) ? p->lists.of_queries : p->lists.of_keys;
}

static const char *mask_class(const tc_attention_job *p, const char *kernel)
{
    const tc_mod *mask = &p->mods.all[TC_MOD_MASK];
    if (!mask->wanted)
        return "none";
    return is_by_lists(p, kernel)
               ? "listed"
               : tc_mask_class(p->job->module, mask->func.name);
}

/* The configuration's value for a side, else the kernel's own, put there. */
static const char **side(tc_config *c, const char *name)
{
    unsigned i = 0;
    while (i < c->nbindings && strcmp(c->bindings[i].name, name) != 0)
        i++;
    assert(i < TC_CONFIG_BINDINGS); /* shipped ones have three */
    if (i == c->nbindings)
        c->bindings[c->nbindings++] = (tilec_binding){name, "64"};
    return &c->bindings[i].value;
}

/* In turn the step, to half of it, and what stays: 128x64, 128x32, 64x32, .. to
 * 8x8. Warps are meant for the tile that stays. */
static void make_smaller(tc_arena *a, const char *kernel, tc_config *c,
                         unsigned times)
{
    const char **sides[] = {side(c, "BM"), side(c, "BN")};
    int step = step_of(kernel);
    for (unsigned i = 0; i < times; i++) {
        int which = i % 2 ? !step : step;
        long n = strtol(*sides[which], NULL, 0);
        long half = n > 16 ? (n / 2 + 15) / 16 * 16 : 8;
        *sides[which] = tc_arena_printf(a, "%ld", half);
        if (which != step)
            c->warps = c->stages = c->ptxas_level = 0;
    }
}

/* No more columns of o in a program than there are. */
static void limit_columns(tc_config *c, int64_t dv)
{
    for (unsigned i = 0; i < c->nbindings; i++)
        if (strcmp(c->bindings[i].name, "BLOCK_DV") == 0 &&
            strtoll(c->bindings[i].value, NULL, 0) > (dv + 15) / 16 * 16)
            c->bindings[i] = c->bindings[--c->nbindings];
}

/* Is it a head wider than any that was tuned? By whole warps' rows one of its
 * sums takes all the registers of a thread. */
static int64_t wide(const tc_attention_job *p, const tc_config *c)
{
    int64_t d = p->r->q->shape[3], dv = p->r->v->shape[3];
    int64_t width = d > dv ? d : dv;
    bool is_gpu = p->target && tc_target_is_gpu(p->target);
    return is_gpu && width > 256 && width > c->d ? width : 0;
}

/* Smaller tiles, by as many threads as have registers for their sums: by the
 * warps that 16 rows would take they spill tens of kilobytes, and the assembler
 * takes 10 seconds for that. */
static void make_narrower(tc_arena *a, const char *kernel, tc_config *c,
                          int64_t width, unsigned smaller)
{
    make_smaller(a, kernel, c, smaller + (width <= 512 ? 2 : 4));
    c->warps = width <= 512 ? 8 : 16;
}

bool tc_attention_has_few_blocks(const DLTensor *q, const DLTensor *k,
                                 unsigned sms)
{
    double blocks = (double)q->shape[0] * (double)q->shape[1] *
                    ceil((double)q->shape[2] / TC_FEW_BLOCKS_ROWS);
    return blocks < sms && k->shape[2] < TC_FEW_BLOCKS_KEYS;
}

static tc_config_query query_of(const tc_attention_job *p, const char *kernel)
{
    const tc_attention_request *r = p->r;
    tc_dtype_text dtype = tc_dtype_name(r->q->dtype);
    return (tc_config_query){
        .kernel = kernel,
        .target = p->target,
        .dtype = tc_arena_printf(p->arena, "%s", dtype.text),
        .d = r->q->shape[3],
        .dv = r->v->shape[3],
        .v_contig_dim = p->copies_values ? 2 : tc_contiguous_dim(r->v),
        .mask = mask_class(p, kernel),
        .score = score_class(p),
        .dropout = r->options.dropout != 0,
        .length = r->k->shape[2],
        .exact = sums_are_exact(p),
        .few = tc_attention_has_few_blocks(
            r->q, r->k,
            tc_gpu_multiprocessors(p->job->owner, p->target, r->q->device)),
    };
}

bool tc_attention_config(const tc_attention_job *p, const char *kernel,
                         tc_config *config)
{
    const tc_attention_request *r = p->r;
    tc_config_query query = query_of(p, kernel);
    bool is_found = tc_config_find(p->arena, &query, config);
    unsigned smaller = r->smaller[r->direction];
    int64_t width = wide(p, config);
    limit_columns(config, r->v->shape[3]);
    if (width)
        make_narrower(p->arena, kernel, config, width, smaller);
    else if (smaller)
        make_smaller(p->arena, kernel, config, smaller);
    return is_found || smaller || width;
}

/* The kernels of captured gradients hold q, do, k and v of a tile at once. What
 * a mod needs besides comes out of what is left over. */
void tc_attention_captured_sides(const tc_attention_job *p, int64_t sides[2])
{
    enum { SIDE = 64, LEAST = 8, LEFT_OVER = 8 << 10 };
    const tc_attention_request *r = p->r;
    int64_t columns =
        (r->q->shape[3] + 15) / 16 * 16 + (r->v->shape[3] + 15) / 16 * 16;
    int64_t row = columns * (r->q->dtype.bits / 8), room = INT64_MAX;
    unsigned smaller = r->smaller[TC_BACKWARD];
    if (p->target && tc_target_is_gpu(p->target))
        room = (int64_t)p->target->shared_per_block - LEFT_OVER;
    sides[0] = sides[1] = SIDE;
    for (int turn = 1; sides[0] > LEAST; turn = !turn) {
        if ((sides[0] + sides[1]) * row <= room && smaller-- == 0)
            break;
        sides[turn] /= 2;
    }
}

/* The most keys in a program's block. */
static int64_t block_of(const tc_config *c)
{
    for (unsigned i = 0; i < c->nbindings; i++)
        if (strcmp(c->bindings[i].name, "BN") == 0)
            return strtoll(c->bindings[i].value, NULL, 0);
    return 0;
}

static bool reads_tensor(const tc_func *mask)
{
    for (unsigned i = 0; i < mask->body->nargs; i++)
        if (mask->body->args[i]->type->kind == TC_TENSOR)
            return true;
    return false;
}

/* Do query heads share key heads, and does the work of blocks of keys differ?
 * Of more keys than queries, as in parts of a sequence, a mask hides few, but
 * where it reads a tensor, as where documents begin. */
static bool is_uneven(const tc_attention_job *p)
{
    const DLTensor *q = p->r->q, *k = p->r->k;
    const tc_mod *mask = &p->mods.all[TC_MOD_MASK];
    const tc_func *f =
        mask->wanted ? tc_func_find(p->job->module, mask->func.name) : NULL;
    return f && q->shape[1] > k->shape[1] &&
           (q->shape[2] >= k->shape[2] || reads_tensor(f));
}

static tc_config_work work_of(const tc_attention_job *p, const tc_config *c)
{
    int64_t queries = p->r->q->shape[2], keys = p->r->k->shape[2];
    int64_t block = block_of(c);
    return (tc_config_work){.longest = queries > keys ? queries : keys,
                            .uneven = is_uneven(p),
                            .splits = block > 0 &&
                                      tc_attention_split_of(p, block) > 1};
}

/* What attention_bwd uses, with what its tiles determine. */
static bool find_backward(const tc_attention_job *p, tc_config *c)
{
    static const char kernel[] = "attention_bwd";
    if (!p->target || !tc_attention_config(p, kernel, c))
        return false;
    tc_config_query query = query_of(p, kernel);
    tc_config_work work = work_of(p, c);
    tc_config_add(p->arena, &query, &work, c);
    return true;
}

bool tc_attention_prefers_pair(const tc_attention_job *p)
{
    tc_config c;
    return !p->r->options.captured_gradients && find_backward(p, &c) && c.pair;
}

bool tc_attention_adds_in_order(const tc_attention_job *p)
{
    tc_config c;
    return p->r->options.deterministic && !p->lists.of_keys &&
           !p->r->smaller[TC_BACKWARD] && !tc_attention_prefers_pair(p) &&
           find_backward(p, &c) && c.in_order;
}
