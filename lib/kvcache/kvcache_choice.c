/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses tiles, stages and programs of attention over a cache. The numbers by
 * which it does are all at the head of this file; test/bench/decode.py shows
 * what another number changes.
 */
#include "lib/kvcache/kvcache_choice.h"

#include "lib/gpu/gpu.h"
#include "lib/kvcache/kvcache.h"

enum {
    /* Rows of a block: a decode has few, which wait for memory only; many rows
     * share what is loaded. */
    FEW_ROWS = 16,
    MANY_ROWS = 64,
    /* Keys of a step, and the most bytes of keys and values. */
    STEP_BYTES = 32 << 10,
    FEWEST_KEYS = 16,
    MOST_KEYS = 128,
    WARPS = 4,
    /* Columns of v of which MANY_ROWS fit in the registers of WARPS warps; more
     * take twice the warps. */
    NARROW = 256,
    /* MLA, v more columns than NARROW of k: a step loads k only. Two steps of
     * so many keys fill the shared memory of a multiprocessor. */
    LATENT_KEYS = 64,
    LATENT_STAGES = 2,
    /* With MANY_ROWS a step has as many, in one buffer that is loaded in pieces
     * as products are done with them. */
    PIECED_KEYS = 128,
    PIECED_TAIL = 32,
    /* Pages of fewer keys make loads wait for look-ups in the page table. */
    LOOKUP_KEYS = 64,
    /* Blocks per hundred resident programs that keep the GPU busy without
     * splits: where all but a few multiprocessors have a block of their own,
     * blocks are split only because lengths differ. */
    BUSY_PERCENT = 90,
    /* Pieces that are merged at once, and those of what is left: a program of
     * one warp has registers for so many and MERGED_COLUMNS columns of v. More
     * registers cost where a row has few pieces: there are many programs. */
    MERGED = 8,
    MERGED_REST = 4,
    MERGED_COLUMNS = 128,
    MANY_MERGED = 16,
    /* Where programs of fewer columns are still less than FEW_PROGRAMS, each
     * has its pieces in few rounds. */
    FEW_PROGRAMS = 1024,
    NARROW_COLUMNS = 32,
    NARROW_REST = 8,
    MOST_MERGED = 64,
    /* Programs that merge, and where blocks of many rows are split only
     * because lengths differ: mostly there is nothing to merge. */
    MERGE_PROGRAMS = 2048,
    WHOLE_PROGRAMS = 512,
    /* Stages of the ring: with two programs on a multiprocessor, with one. */
    STAGES = 3,
    STAGES_ALONE = 4
};

/* Tiles of two warp groups for many rows, by the most columns of k and v:
 * accumulators and rings have room. That a step of the tail has few keys costs
 * no time: tails of 64 and 128 keys a step were no faster. */
static const struct {
    int64_t columns, value_columns, rows, keys, tail;
    unsigned warps;
} wgmma_tiles[] = {
    {128, 128, 128, 128, 32, 8},
    {256, 256, 128, 64, 32, 8},
};

typedef struct problem {
    const DLTensor *q, *k, *v;
    const tilec_kvcache_options *options;
    const tc_target *target;
    int64_t rows; /* of a sequence: the heads of a group times queries */
} problem;

/* Of a key and its value. */
static int64_t step_bytes(const problem *p)
{
    if (p->options->v_in_k)
        return p->k->shape[3] * (p->k->dtype.bits / 8);
    return p->k->shape[3] * (p->k->dtype.bits / 8) +
           p->v->shape[3] * (p->v->dtype.bits / 8);
}

static int64_t keys_of_step(const problem *p, int64_t most)
{
    int64_t keys = most;
    while (keys > FEWEST_KEYS && keys * step_bytes(p) > STEP_BYTES)
        keys /= 2;
    return keys;
}

/* Many rows wait for tensor cores: tiles as attention_fwd has. */
static bool choose_wgmma_tiles(const problem *p, tc_kv_choice *c)
{
    if (!p->target || !p->target->wgmma || p->q->dtype.bits != 16 ||
        p->k->dtype.bits != 16)
        return false;
    for (size_t i = 0; i < sizeof wgmma_tiles / sizeof *wgmma_tiles; i++)
        if (p->k->shape[3] <= wgmma_tiles[i].columns &&
            p->v->shape[3] <= wgmma_tiles[i].value_columns) {
            c->rows = wgmma_tiles[i].rows;
            c->keys = wgmma_tiles[i].keys;
            c->tail = wgmma_tiles[i].tail;
            c->warps = wgmma_tiles[i].warps;
            c->runs_ahead = true;
            return true;
        }
    return false;
}

static bool is_latent(const problem *p)
{
    return p->options->v_in_k && p->v->shape[3] > NARROW && p->target &&
           (p->target->wgmma || !tc_target_is_gpu(p->target)) &&
           p->k->dtype.bits == 16;
}

/* Columns come in four pieces for wgmma, and some that only scores need. */
static bool comes_in_pieces(const problem *p)
{
    enum { PIECES = 64, REST = 16 };
    int64_t d = p->k->shape[3], dv = p->v->shape[3];
    const tilec_kvcache_options *o = p->options;
    return dv % PIECES == 0 && d > dv && (d - dv) % REST == 0 &&
           !o->descale_k && !o->descale_v;
}

static void choose_latent_tiles(const problem *p, tc_kv_choice *c)
{
    c->has_many_rows = p->options->ragged_queries || p->rows > FEW_ROWS;
    c->is_pieced = c->has_many_rows && comes_in_pieces(p);
    c->rows = c->has_many_rows ? MANY_ROWS : FEW_ROWS;
    c->keys = c->is_pieced ? PIECED_KEYS : LATENT_KEYS;
    c->tail = c->is_pieced ? PIECED_TAIL : LATENT_KEYS;
    c->warps = 2 * WARPS;
}

static void choose_tiles(const problem *p, tc_kv_choice *c)
{
    if (is_latent(p)) {
        choose_latent_tiles(p, c);
        return;
    }
    c->has_many_rows = p->options->ragged_queries || p->rows > 2 * FEW_ROWS;
    if (c->has_many_rows && choose_wgmma_tiles(p, c))
        return;
    c->warps = WARPS;
    if (c->has_many_rows) {
        c->rows = MANY_ROWS;
        c->keys = keys_of_step(p, MANY_ROWS);
        if (p->v->shape[3] > NARROW)
            c->warps = 2 * WARPS;
    } else {
        c->rows = p->rows > FEW_ROWS ? 2 * FEW_ROWS : FEW_ROWS;
        c->keys = keys_of_step(p, MOST_KEYS);
    }
    c->tail = c->keys;
}

static int64_t count_blocks(const problem *p, const tc_kv_choice *c)
{
    return p->q->shape[0] * p->k->shape[1] *
           ((p->rows + c->rows - 1) / c->rows);
}

/* Do programs need pieces of blocks to keep the GPU busy? */
static bool is_split(int64_t blocks, int64_t programs)
{
    return 100 * blocks < BUSY_PERCENT * programs;
}

/* Decode waits for memory: what counts is how many bytes are in flight. Where
 * each multiprocessor gets one program, a deep ring keeps a second one away, so
 * that none stays idle. Keys that are looked up singly and pieces of constant
 * length want two programs, of which one computes while the other waits. */
static void choose_programs(const problem *p, int64_t sms, tc_kv_choice *c)
{
    const tilec_kvcache_options *o = p->options;
    int64_t blocks = count_blocks(p, c);
    bool looks_up = o->layout >= TILEC_KV_PAGED && p->k->shape[2] < LOOKUP_KEYS;
    bool wants_two = blocks > sms || looks_up || o->piece;
    bool alone = c->has_many_rows || is_latent(p);
    c->per_sm = !alone && wants_two ? 2 : 1;
    /* Next to the atomic of a merge in the kernel no load is a TMA copy, which
     * many rows want. */
    c->merges_apart =
        c->has_many_rows || o->piece || is_split(blocks, c->per_sm * sms);
    if (is_latent(p))
        c->stages = c->is_pieced ? 1 : LATENT_STAGES;
    else if (!c->has_many_rows)
        c->stages = c->per_sm > 1 ? STAGES : STAGES_ALONE;
}

/* Pieces of constant length are added alike in any batch. */
static void choose_merge(const problem *p, int64_t sms, tc_kv_choice *c)
{
    int64_t blocks = count_blocks(p, c), pieces = c->per_sm * sms;
    int64_t programs = p->q->shape[0] * p->q->shape[1] * p->q->shape[2] *
                       (p->v->shape[3] / NARROW_COLUMNS);
    c->many = MERGED;
    c->parts = MERGED_REST;
    c->columns = MERGED_COLUMNS;
    c->programs = MERGE_PROGRAMS;
    if (p->options->piece || p->options->ragged_queries)
        return;
    if (c->has_many_rows && !is_split(blocks, pieces))
        c->programs = WHOLE_PROGRAMS;
    if (pieces < MANY_MERGED * blocks)
        return;
    c->many = MANY_MERGED;
    if (programs > FEW_PROGRAMS)
        return;
    while (c->many < MOST_MERGED && pieces >= 2 * c->many * blocks)
        c->many *= 2;
    c->parts = NARROW_REST;
    c->columns = NARROW_COLUMNS;
}

tc_kv_choice tc_kv_choose(const DLTensor *q, const DLTensor *k,
                          const DLTensor *v, const tilec_kvcache_options *o,
                          const tc_target *target, unsigned sms)
{
    int64_t group = q->shape[1] / k->shape[1];
    problem p = {q, k, v, o, target, q->shape[2] * group};
    tc_kv_choice c = {0};
    choose_tiles(&p, &c);
    c.by_heads = c.has_many_rows && c.rows % group == 0;
    choose_programs(&p, sms, &c);
    choose_merge(&p, sms, &c);
    return c;
}

void tc_kv_make_smaller(tc_kv_choice *c, int64_t group)
{
    enum { FEWEST_STAGES = 2, FEWEST_ROWS = 16, LEAST_KEYS = 8 };
    if (c->stages > FEWEST_STAGES) {
        c->stages = FEWEST_STAGES;
    } else if (c->rows > FEWEST_ROWS) {
        c->rows /= 2;
        c->by_heads = c->by_heads && c->rows % group == 0;
    } else if (c->keys > LEAST_KEYS) {
        c->keys /= 2;
        c->tail = c->tail < c->keys ? c->tail : c->keys;
    } else {
        c->stages = 1;
    }
}

static bool has_sides(const DLTensor *t)
{
    return t && t->ndim == 4 && t->shape;
}

int64_t tilec_kvcache_variant(const tilec_context *cx, const DLTensor *q,
                              const DLTensor *k, const DLTensor *v,
                              const tilec_kvcache_options *options)
{
    tilec_kvcache_options o;
    if (!cx || !has_sides(q) || !has_sides(k) || !has_sides(v) ||
        !tc_options_read(&o, sizeof o, options) || k->shape[1] < 1 ||
        q->shape[1] < k->shape[1])
        return -1;
    const tc_target *target =
        tc_target_find(cx, o.target ? o.target : cx->target);
    tc_kv_choice c = tc_kv_choose(
        q, k, v, &o, target, tc_gpu_multiprocessors(cx, target, q->device));
    int64_t sides = c.rows * 8 + c.per_sm * 2 + c.merges_apart;
    return (sides * 2 + (c.programs == WHOLE_PROGRAMS)) * 2 * MOST_MERGED +
           c.many + (c.columns == NARROW_COLUMNS);
}
