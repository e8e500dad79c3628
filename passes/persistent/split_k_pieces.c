/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model of split-k: how many CTAs share a tile, by ops that the host
 * evaluates at each launch. For p CTAs a tile,
 *
 *   ctas    = tiles p                             of the launch
 *   filled  = min(resident, ctas / SMs)           of an SM at a time
 *   rounds  = ctas / (SMs resident)
 *   loops   = rounds (steps / p) max(latency, filled work)
 *   memory  = bytes of the loop's tensors, at the memory's rate; CTAs that
 *             have an SM alone do not reach that
 *   cycles  = max(loops, memory) + rounds TC_ROUND_CYCLES
 *
 * with all quotients rounded up, and for p > 1 the time that the sums take to
 * be written, and the next kernel to add them. `latency` is a step of a CTA
 * that has an SM alone, `work` the part of it in which the SM can do nothing
 * else.
 */
#include "passes/persistent/split_k.h"

#include "passes/analysis/match.h"
#include "passes/target/machine_model.h"

/* Of a kernel: cycles, bytes and CTAs. */
typedef struct cost {
    int64_t latency, work; /* of a step */
    int64_t sums;          /* of a tile, bytes */
    int64_t sms, resident;
} cost;

/* What the ops of a step sum up to. */
typedef struct step_work {
    int64_t loads;           /* bytes */
    int64_t products, lanes; /* cycles */
} step_work;

/* ---- What a step takes ---- */

static int64_t product_cycles(const tc_target *t, const tc_op *dot)
{
    const tc_type *a = dot->in[0]->type;
    return tc_type_count(dot->out[0]->type) * tc_dim_value(a->dims[1]) *
           tc_type_bytes(a->elem) / 2 / t->products_per_cycle;
}

static int64_t tile_bytes(const tc_value *v)
{
    const tc_type *t = v->type;
    return t->kind == TC_TILE ? tc_type_count(t) * tc_type_bytes(t->elem) : 0;
}

/* Instructions for each element of an elementwise op. */
static int64_t instructions(const tc_op *op)
{
    if (!op->nout || op->out[0]->type->kind != TC_TILE ||
        !tc_op_has(op, TC_ELEMENTWISE))
        return 0;
    bool widens = op->code == TC_CAST && tc_has_int_lanes(op->in[0]) &&
                  tc_has_float_lanes(op->out[0]);
    return widens ? TC_INT_CAST_INSTRUCTIONS : 1;
}

static int64_t tile_count(const tc_op *op)
{
    return op->nout ? tc_type_count(op->out[0]->type) : 0;
}

static void add_step(const tc_target *t, const tc_region *step, step_work *w)
{
    tc_each_op (op, step) {
        for (unsigned i = 0; i < op->nregions; i++)
            add_step(t, op->regions[i], w);
        if (op->code == TC_LOAD)
            w->loads += tile_bytes(op->out[0]);
        else if (op->code == TC_DOT)
            w->products += product_cycles(t, op);
        else
            w->lanes += instructions(op) * tile_count(op) / TC_LANES_PER_CYCLE;
    }
}

static int64_t larger(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static cost cost_of(const tc_func *f, const tc_pass_env *env, const tc_op *loop)
{
    const tc_target *t = tc_machine(env->target);
    step_work w = {0};
    int64_t sums = 0;
    for (unsigned i = 0; i < loop->nout; i++)
        sums += tile_bytes(loop->out[i]);
    add_step(t, loop->regions[0], &w);
    const tc_pass_options *o = env->options;
    unsigned warps = tc_expected_warps(o->warps ? o->warps : f->warps, sums);
    int64_t math = larger(w.products, w.lanes * TC_LANES_PERCENT / 100);
    int64_t alone = TC_STEP_CYCLES + w.lanes * TC_LANES_ALONE_PERCENT / 100;
    return (cost){.latency = larger(alone, w.products * TC_ALONE_PERCENT / 100),
                  .work = larger(math, w.loads / TC_L2_BYTES_PER_CYCLE),
                  .sums = sums,
                  .sms = t->multiprocessors,
                  .resident = tc_resident_ctas(
                      t, warps, w.loads * TC_UNCHAINED_SLOTS, sums)};
}

/* ---- Ops of the plan ---- */

/* Rounded up. */
static tc_value *split_div(tc_builder *b, tc_value *v, int64_t n)
{
    v = tc_build_with(b, TC_ADD, v, n - 1);
    return tc_build_with(b, TC_DIV, v, n);
}

/* A launch's numbers, as i64. */
typedef struct launch {
    tc_value *tiles, *steps, *bytes;
} launch;

static tc_value *cycles_of_loops(tc_builder *b, const cost *c, int64_t p,
                                 const launch *l, tc_value *ctas,
                                 tc_value *rounds)
{
    tc_value *filled = tc_build_binary(b, TC_MIN, split_div(b, ctas, c->sms),
                                       tc_build_i64(b, c->resident));
    tc_value *step =
        tc_build_binary(b, TC_MAX, tc_build_with(b, TC_MUL, filled, c->work),
                        tc_build_i64(b, c->latency));
    tc_value *loops =
        tc_build_binary(b, TC_MUL, split_div(b, l->steps, p), step);
    loops = tc_build_binary(b, TC_MUL, loops, rounds);
    tc_value *memory =
        split_div(b, l->bytes, c->sms * TC_MEMORY_BYTES_PER_CYCLE);
    tc_value *slower =
        split_div(b, tc_build_with(b, TC_MUL, memory, TC_ALONE_PERCENT), 100);
    tc_value *is_alone = tc_build_cmp(b, "le", filled, tc_build_i64(b, 1));
    memory = tc_build_select(b, is_alone, slower, memory);
    return tc_build_binary(b, TC_MAX, loops, memory);
}

static tc_value *cycles_of(tc_builder *b, const cost *c, int64_t p,
                           const launch *l)
{
    tc_value *ctas = tc_build_with(b, TC_MUL, l->tiles, p);
    tc_value *rounds = split_div(b, ctas, c->sms * c->resident);
    int64_t stored = p > 1 ? c->sums / TC_STORE_BYTES_PER_CYCLE : 0;
    tc_value *all = tc_build_binary(
        b, TC_ADD, cycles_of_loops(b, c, p, l, ctas, rounds),
        tc_build_with(b, TC_MUL, rounds, TC_ROUND_CYCLES + stored));
    if (p == 1)
        return all;
    tc_value *merge = split_div(b, tc_build_with(b, TC_MUL, ctas, c->sums),
                                c->sms * TC_MERGE_BYTES_PER_CYCLE);
    merge = tc_build_with(b, TC_ADD, merge, TC_MERGE_CYCLES);
    return tc_build_binary(b, TC_ADD, all, merge);
}

/* ---- Bytes of the loop's tensors ---- */

static tc_value *bytes_of(tc_builder *b, tc_value *tensor)
{
    const tc_type *t = tensor->type;
    tc_value *n = tc_build_i64(b, tc_type_bytes(t->elem));
    for (unsigned i = 0; i < t->rank; i++) {
        tc_op *op = tc_op_new(b->func, TC_SIZE, b->loc, 1, &tensor, 0);
        tc_op_set_int(op, "dim", i);
        n = tc_build_binary(b, TC_MUL, n,
                            tc_build_cast(b, tc_build_op(b, op, NULL), TC_I64));
    }
    return n;
}

/* The argument of the kernel that a load reads a window of; NULL: none. */
static const tc_value *tensor_of(const tc_op *op)
{
    const tc_op *block =
        op->code == TC_LOAD ? tc_match_op(op->in[0], TC_BLOCK) : NULL;
    return block && !block->in[0]->def ? block->in[0] : NULL;
}

static void mark_tensors(const tc_region *step, bool *is_loaded)
{
    tc_each_op (op, step) {
        const tc_value *tensor = tensor_of(op);
        if (tensor)
            is_loaded[tensor->index] = true;
        for (unsigned i = 0; i < op->nregions; i++)
            mark_tensors(op->regions[i], is_loaded);
    }
}

static tc_value *bytes_of_tensors(tc_builder *b, const tc_op *loop)
{
    const tc_region *body = b->func->body;
    bool *is_loaded =
        tc_arena_array(&b->func->module->arena, bool, body->nargs);
    tc_value *sum = tc_build_i64(b, 0);
    mark_tensors(loop->regions[0], is_loaded);
    for (unsigned i = 0; i < body->nargs; i++)
        if (is_loaded[i])
            sum = tc_build_binary(b, TC_ADD, sum, bytes_of(b, body->args[i]));
    return sum;
}

tc_value *tc_build_pieces(tc_builder *b, const tc_func *kernel,
                          const tc_pass_env *env, const tc_op *loop,
                          const tc_split_launch *given)
{
    static const int64_t numbers[] = {2, 3, 4, 6, 8};
    cost c = cost_of(kernel, env, loop);
    launch l = {tc_build_cast(b, given->tiles, TC_I64),
                tc_build_cast(b, given->steps, TC_I64),
                bytes_of_tensors(b, loop)};
    tc_value *n = tc_build_int(b, given->tiles->type, 1);
    tc_value *best = cycles_of(b, &c, 1, &l);
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        tc_value *with = cycles_of(b, &c, numbers[i], &l);
        tc_value *less = tc_build_cmp(b, "lt", with, best);
        n = tc_build_select(b, less, tc_build_int(b, n->type, numbers[i]), n);
        best = tc_build_binary(b, TC_MIN, best, with);
    }
    return n;
}
