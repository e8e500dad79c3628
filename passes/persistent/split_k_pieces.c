/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model of split-k: how many CTAs share a tile, by ops that the host
 * evaluates at each launch. For p CTAs a tile,
 *
 *   ctas    = tiles p                             of the launch
 *   filled  = min(resident, ctas / SMs)           of an SM at a time
 *   rounds  = ctas / (SMs resident)
 *   cycles  = rounds (steps / p) max(latency, filled work)
 *             + TC_MERGE_CYCLES + the time that the sums' bytes take,  if p > 1
 *
 * with all quotients rounded up. `latency` is a step of a CTA that has an SM
 * alone, `work` the part of it in which the SM can do nothing else.
 */
#include "passes/persistent/split_k.h"

#include "passes/analysis/match.h"
#include "passes/target/machine_model.h"

/* Of a kernel: cycles, bytes and CTAs. */
typedef struct cost {
    int64_t latency, work; /* of a step */
    int64_t sums;          /* of a tile's sums, written and read once */
    int64_t sms, resident;
} cost;

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

/* Elementwise ops of tiles as large as an operand; casts of sums are not. */
static bool computes(const tc_op *op)
{
    return op->nout && op->out[0]->type->kind == TC_TILE &&
           tc_op_has(op, TC_ELEMENTWISE);
}

static void add_step(const tc_target *t, const tc_region *step, int64_t *loads,
                     int64_t *products, int64_t *lanes)
{
    tc_each_op (op, step) {
        for (unsigned i = 0; i < op->nregions; i++)
            add_step(t, op->regions[i], loads, products, lanes);
        if (op->code == TC_LOAD)
            *loads += tile_bytes(op->out[0]);
        else if (op->code == TC_DOT)
            *products += product_cycles(t, op);
        else if (computes(op))
            *lanes += tc_type_count(op->out[0]->type) / TC_LANES_PER_CYCLE;
    }
}

static unsigned warps_of(const tc_func *f, const tc_pass_options *o,
                         int64_t sums)
{
    unsigned asked = o->warps ? o->warps : f->warps;
    bool few =
        tc_spread_registers(sums, TC_DEFAULT_WARPS) <= TC_SPLIT_FEW_REGISTERS;
    return asked ? asked : few ? TC_DEFAULT_WARPS : TC_DEFAULT_MAX_WARPS;
}

/* CTAs that fit an SM: by the rings' bytes, and by registers, of which several
 * warp groups take all. */
static int64_t resident(const tc_target *t, unsigned warps, int64_t loads,
                        int64_t sums)
{
    int64_t ring =
        loads * TC_UNCHAINED_SLOTS + TC_BLOCK_RESERVE + TC_CHANNEL_RESERVE;
    int64_t registers = tc_spread_registers(sums, warps) +
                        TC_SPARE_WGMMA_REGISTERS + TC_SPARE_REGISTERS;
    int64_t by_registers =
        t->registers_per_sm / (registers * tc_threads(warps + 1));
    int64_t by_bytes = t->shared_per_sm / ring;
    int64_t n = by_registers < by_bytes ? by_registers : by_bytes;
    return n < 1 || tc_warpgroups(warps) > 1 ? 1 : n;
}

static cost cost_of(const tc_func *f, const tc_pass_env *env, const tc_op *loop)
{
    const tc_target *t = tc_machine(env->target);
    int64_t loads = 0, products = 0, lanes = 0, sums = 0;
    for (unsigned i = 0; i < loop->nout; i++)
        sums += tile_bytes(loop->out[i]);
    add_step(t, loop->regions[0], &loads, &products, &lanes);
    int64_t memory = loads / TC_SM_BYTES_PER_CYCLE;
    int64_t work = memory > products ? memory : products;
    return (cost){
        .latency = TC_STEP_CYCLES + products + TC_LANES_LATENCY * lanes,
        .work = work > lanes ? work : lanes,
        .sums = sums,
        .sms = t->multiprocessors,
        .resident = resident(t, warps_of(f, env->options, sums), loads, sums)};
}

/* ---- Ops of the plan ---- */

static tc_value *number(tc_builder *b, int64_t n)
{
    return tc_build_int(b, tc_type_scalar(b->func->module->cx, TC_I64), n);
}

static tc_value *wide(tc_builder *b, tc_value *v)
{
    return tc_build(b, TC_CAST, 1, &v,
                    tc_type_scalar(b->func->module->cx, TC_I64));
}

static tc_value *split_mul(tc_builder *b, tc_value *v, int64_t n)
{
    return tc_build_binary(b, TC_MUL, v, number(b, n));
}

/* Rounded up. */
static tc_value *split_div(tc_builder *b, tc_value *v, int64_t n)
{
    v = tc_build_binary(b, TC_ADD, v, number(b, n - 1));
    return tc_build_binary(b, TC_DIV, v, number(b, n));
}

static tc_value *cycles_of(tc_builder *b, const cost *c, int64_t p,
                           tc_value *tiles, tc_value *steps)
{
    tc_value *ctas = split_mul(b, tiles, p);
    tc_value *filled = tc_build_binary(b, TC_MIN, split_div(b, ctas, c->sms),
                                       number(b, c->resident));
    tc_value *step = tc_build_binary(b, TC_MAX, split_mul(b, filled, c->work),
                                     number(b, c->latency));
    tc_value *rounds = split_div(b, ctas, c->sms * c->resident);
    tc_value *all = tc_build_binary(b, TC_MUL, split_div(b, steps, p), step);
    all = tc_build_binary(b, TC_MUL, all, rounds);
    if (p == 1)
        return all;
    tc_value *bytes = split_mul(b, ctas, c->sums);
    tc_value *merge = split_div(b, bytes, c->sms * TC_MERGE_BYTES_PER_CYCLE);
    merge = tc_build_binary(b, TC_ADD, merge, number(b, TC_MERGE_CYCLES));
    return tc_build_binary(b, TC_ADD, all, merge);
}

tc_value *tc_build_pieces(tc_builder *b, const tc_func *kernel,
                          const tc_pass_env *env, const tc_op *loop,
                          tc_value *tiles, tc_value *steps)
{
    static const int64_t numbers[] = {2, 3, 4, 6, 8};
    cost c = cost_of(kernel, env, loop);
    tc_value *n = tc_build_int(b, tiles->type, 1), *best;
    tiles = wide(b, tiles);
    steps = wide(b, steps);
    best = cycles_of(b, &c, 1, tiles, steps);
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        tc_value *with = cycles_of(b, &c, numbers[i], tiles, steps);
        tc_value *less = tc_build_cmp(b, "lt", with, best);
        n = tc_build_select(b, less, tc_build_int(b, n->type, numbers[i]), n);
        best = tc_build_binary(b, TC_MIN, best, with);
    }
    return n;
}
