/* SPDX-License-Identifier: Apache-2.0
 *
 * For p CTAs a tile,
 *
 *   ctas    = tiles p                             of the launch
 *   filled  = min(resident, ctas / SMs)           of an SM at a time
 *   rounds  = ctas / (SMs resident)
 *   loops   = rounds (steps / p) max(latency, filled work)
 *   memory  = bytes of the loop's tensors, at the memory's rate
 *   cycles  = max(loops, memory) + min(loops, memory) / TC_HIDDEN_DIVISOR
 *             + rounds (TC_ROUND_CYCLES + store) + ctas
 *
 * with all quotients rounded up, and for p > 1 the time that the next kernel
 * takes to add the sums. `latency` is a step of a CTA
 * that has an SM alone, `work` the part of it in which the SM can do nothing
 * else. A cycle for each CTA lets fewer of them win.
 */
#include "passes/persistent/launch_cost.h"

#include "passes/target/machine_model.h"

const int64_t tc_launch_pieces[] = {1, 2, 3, 4, 6, 8, 0};

/* ---- What a step takes ---- */

/* What the ops of a step sum up to. */
typedef struct step_work {
    int64_t loads;           /* bytes */
    int64_t filled;          /* with the rest of lines */
    int64_t reads;           /* of shared memory by products, bytes */
    int64_t products, lanes; /* cycles */
    int64_t chain;           /* instructions mma, each waits for the last one */
} step_work;

typedef struct reader {
    const tc_target *target;
    tc_context *cx;
    const tc_bindings *values;
    step_work work;
} reader;

static const tc_type *type_of(const reader *r, const tc_value *v)
{
    return r->values ? tc_type_substitute(r->cx, v->type, r->values) : v->type;
}

bool tc_is_copied_operand(const tc_value *v)
{
    while (v->def && (v->def->code == TC_TRANS || v->def->code == TC_RESHAPE))
        v = v->def->in[0];
    return v->def && v->def->code == TC_LOAD;
}

static void add_dot(reader *r, const tc_op *dot)
{
    const tc_type *sum = type_of(r, dot->out[0]), *a = type_of(r, dot->in[0]);
    int64_t depth = tc_dim_value(a->dims[a->rank - 1]) * tc_type_bytes(a->elem);
    r->work.products +=
        tc_type_count(sum) * depth / 2 / r->target->products_per_cycle;
    int64_t rows = tc_dim_value(sum->dims[sum->rank - 2]);
    int64_t columns = tc_dim_value(sum->dims[sum->rank - 1]);
    if (rows < TC_WARPGROUP_ROWS)
        r->work.chain += depth / (2 * TC_VECTOR_BYTES);
    else
        r->work.reads +=
            rows / TC_WARPGROUP_ROWS * depth *
            (columns +
             (tc_is_copied_operand(dot->in[0]) ? TC_WARPGROUP_ROWS : 0));
}

static int64_t tile_bytes(const reader *r, const tc_value *v)
{
    const tc_type *t = type_of(r, v);
    return t->kind == TC_TILE ? tc_type_count(t) * tc_type_bytes(t->elem) : 0;
}

/* Rows longer than a line of shared memory take whole lines. */
static void add_load(reader *r, const tc_value *v)
{
    enum { LINE = 128 };
    const tc_type *t = type_of(r, v);
    int64_t n = tile_bytes(r, v);
    int64_t row =
        n ? tc_dim_value(t->dims[t->rank - 1]) * tc_type_bytes(t->elem) : 0;
    r->work.loads += n;
    r->work.filled +=
        row > LINE ? n / row * ((row + LINE - 1) / LINE * LINE) : n;
}

static bool has_floats(const reader *r, const tc_value *v)
{
    const tc_type *t = type_of(r, v);
    return t->kind == TC_TILE && t->elem->kind <= TC_LAST_SCALAR &&
           tc_scalar_infos[t->elem->kind].is_float;
}

/* Instructions for each element of an elementwise op. */
static int64_t instructions(const reader *r, const tc_op *op)
{
    if (!op->nout || op->out[0]->type->kind != TC_TILE ||
        !tc_op_has(op, TC_ELEMENTWISE))
        return 0;
    bool widens = op->code == TC_CAST && !has_floats(r, op->in[0]) &&
                  has_floats(r, op->out[0]);
    return widens ? TC_INT_CAST_INSTRUCTIONS : 1;
}

static void add_step(reader *r, const tc_region *step)
{
    tc_each_op (op, step) {
        int64_t n = instructions(r, op);
        for (unsigned i = 0; i < op->nregions; i++)
            add_step(r, op->regions[i]);
        if (op->code == TC_LOAD)
            add_load(r, op->out[0]);
        else if (op->code == TC_DOT)
            add_dot(r, op);
        else if (n)
            r->work.lanes +=
                n * tc_type_count(type_of(r, op->out[0])) / TC_LANES_PER_CYCLE;
    }
}

static int64_t larger(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

/* From a step's data to the next one's, if nothing else is in the way. */
static int64_t least_latency(const step_work *w)
{
    if (w->lanes)
        return TC_STEP_CYCLES + w->lanes * TC_LANES_ALONE_PERCENT / 100;
    return w->chain ? TC_MMA_STEP_CYCLES + w->chain * TC_MMA_CYCLES
                    : TC_WGMMA_STEP_CYCLES;
}

tc_launch_cost tc_launch_cost_of(const tc_target *target, const tc_func *kernel,
                                 const tc_op *loop, const tc_bindings *values,
                                 unsigned warps)
{
    reader r = {.target = target, .cx = kernel->module->cx, .values = values};
    int64_t sums = 0;
    for (unsigned i = 0; i < loop->nout; i++)
        sums += tile_bytes(&r, loop->out[i]);
    add_step(&r, loop->regions[0]);
    step_work w = r.work;
    warps = tc_expected_warps(warps, sums);
    /* Other ops take turns with products, but for a part of their time. */
    int64_t shared = w.lanes / 4;
    int64_t math =
        larger(w.products + shared, w.lanes * TC_LANES_PERCENT / 100);
    int64_t alone =
        larger(least_latency(&w), w.products * TC_ALONE_PERCENT / 100 + shared);
    int64_t fill = larger(w.filled / TC_RING_BYTES_PER_CYCLE,
                          (w.filled + w.reads) / TC_SHARED_BYTES_PER_CYCLE);
    return (tc_launch_cost){
        .latency = larger(alone, fill),
        .work = larger(math, fill),
        .sums = sums,
        .sms = target->multiprocessors,
        .resident = tc_resident_ctas(target, warps,
                                     w.loads * TC_UNCHAINED_SLOTS, sums)};
}

/* ---- Arithmetic of counts ---- */

static tc_count known(int64_t n)
{
    return (tc_count){.n = n};
}

static tc_value *as_op(tc_builder *b, tc_count c)
{
    return c.op ? c.op : tc_build_i64(b, c.n);
}

/* Saturates: nobody launches so much. */
static int64_t fold(tc_opcode code, int64_t x, int64_t y)
{
    static const int64_t most = INT64_MAX / 4;
    int64_t n = code == TC_DIV   ? x / y
                : code == TC_MIN ? (x < y ? x : y)
                                 : larger(x, y);
    bool overflows = code == TC_ADD   ? __builtin_add_overflow(x, y, &n)
                     : code == TC_MUL ? __builtin_mul_overflow(x, y, &n)
                                      : false;
    return overflows || n > most ? most : n;
}

static tc_count calculate(tc_builder *b, tc_opcode code, tc_count x, tc_count y)
{
    if (!x.op && !y.op)
        return known(fold(code, x.n, y.n));
    return (tc_count){.op = tc_build_binary(b, code, as_op(b, x), as_op(b, y))};
}

static tc_count with(tc_builder *b, tc_opcode code, tc_count x, int64_t n)
{
    return calculate(b, code, x, known(n));
}

/* Rounded up. */
static tc_count quotient(tc_builder *b, tc_count x, int64_t n)
{
    return with(b, TC_DIV, with(b, TC_ADD, x, n - 1), n);
}

/* ---- The launch ---- */

static tc_count cycles_of_loops(tc_builder *b, const tc_launch_cost *c,
                                int64_t p, const tc_launch_counts *l,
                                tc_count ctas, tc_count rounds)
{
    tc_count filled = with(b, TC_MIN, quotient(b, ctas, c->sms), c->resident);
    tc_count step =
        with(b, TC_MAX, with(b, TC_MUL, filled, c->work), c->latency);
    tc_count loops = calculate(b, TC_MUL, quotient(b, l->steps, p), step);
    loops = calculate(b, TC_MUL, loops, rounds);
    tc_count memory =
        quotient(b, l->bytes, c->sms * TC_RING_MEMORY_BYTES_PER_CYCLE);
    tc_count hidden = calculate(b, TC_MIN, loops, memory);
    return calculate(b, TC_ADD, calculate(b, TC_MAX, loops, memory),
                     with(b, TC_DIV, hidden, TC_HIDDEN_DIVISOR));
}

tc_count tc_launch_cycles(tc_builder *b, const tc_launch_cost *c,
                          int64_t pieces, const tc_launch_counts *l)
{
    tc_count ctas = with(b, TC_MUL, l->tiles, pieces);
    tc_count rounds = quotient(b, ctas, c->sms * c->resident);
    int64_t stored = c->sums / (pieces > 1 ? TC_STORE_BYTES_PER_CYCLE
                                           : TC_RESULT_BYTES_PER_CYCLE);
    tc_count all =
        calculate(b, TC_ADD, cycles_of_loops(b, c, pieces, l, ctas, rounds),
                  with(b, TC_MUL, rounds, TC_ROUND_CYCLES + stored));
    all = calculate(b, TC_ADD, all, ctas);
    if (pieces == 1)
        return all;
    tc_count merge = quotient(b, with(b, TC_MUL, ctas, c->sums),
                              c->sms * TC_MERGE_BYTES_PER_CYCLE);
    return calculate(b, TC_ADD, all, with(b, TC_ADD, merge, TC_MERGE_CYCLES));
}

/* ---- Tensors of the loop ---- */

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

void tc_mark_loaded(const tc_op *loop, bool *is_loaded)
{
    mark_tensors(loop->regions[0], is_loaded);
}
