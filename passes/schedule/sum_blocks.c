/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/schedule/sum_blocks.h"

#include "ir/eval/eval.h"
#include "passes/analysis/match.h"
#include "passes/persistent/launch_cost.h"
#include "passes/persistent/split_k.h"
#include "passes/target/machine_model.h"

enum { DEEPEST = 64 };

/* ---- The loop ---- */

/* Does the value come from a product, or from what the loop carries? */
static bool comes_from_product(const tc_op *loop, const tc_value *v,
                               unsigned depth)
{
    const tc_op *op = v->def;
    if (depth == DEEPEST || (op && op->code == TC_DOT))
        return true;
    if (!op)
        return v->region == loop->regions[0] && v->type->kind == TC_TILE;
    for (unsigned i = 0; i < op->nin; i++)
        if (comes_from_product(loop, op->in[i], depth + 1))
            return true;
    return false;
}

static bool is_chained(const tc_op *loop, const tc_region *step)
{
    tc_each_op (op, step) {
        if (op->code == TC_DOT && (comes_from_product(loop, op->in[0], 0) ||
                                   comes_from_product(loop, op->in[1], 0)))
            return true;
        for (unsigned i = 0; i < op->nregions; i++)
            if (is_chained(loop, op->regions[i]))
                return true;
    }
    return false;
}

static bool is_dot(const tc_op *op)
{
    return op->code == TC_DOT;
}

const tc_op *tc_sum_loop(const tc_func *kernel)
{
    const tc_op *loop = tc_split_loop(kernel);
    if (!loop || !kernel->grid || is_chained(loop, loop->regions[0]))
        return NULL;
    for (const tc_op *op = loop->next; op; op = op->next)
        if (tc_op_any((tc_op *)op, is_dot))
            return NULL;
    return loop;
}

/* ---- Values of a launch ---- */

static tc_context *context_of(const tc_sum_candidate *c)
{
    return c->kernel->module->cx;
}

/* A dim of an argument; what examples do not tell is taken to be long. */
static int64_t size_of(const tc_sum_candidate *c, const tc_value *tensor,
                       unsigned dim)
{
    const tc_dim *d = tensor->type->dims[dim];
    int64_t n =
        d ? tc_dim_value(tc_dim_substitute(context_of(c), d, c->values)) : -1;
    const int64_t *known =
        c->launch->sizes ? c->launch->sizes[tensor->index] : NULL;
    if (n < 0)
        n = known ? known[dim] : TC_BLOCKS_LENGTH;
    return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : n;
}

static bool evaluate(const tc_sum_candidate *c, const tc_value *v,
                     unsigned depth, tc_scalar *out)
{
    const tc_op *op = v->def;
    tc_scalar in[3];
    if (!op || depth == DEEPEST || op->nregions || op->nin > 3)
        return false;
    if (op->code == TC_SIZE && !op->in[0]->def) {
        out->i = size_of(c, op->in[0], (unsigned)tc_op_int(op, "dim"));
        return true;
    }
    if (op->code == TC_DIM) {
        const tc_dim *d = tc_op_attr(op, "value")->dims[0];
        out->i = tc_dim_value(tc_dim_substitute(context_of(c), d, c->values));
        return out->i >= 0;
    }
    for (unsigned i = 0; i < op->nin; i++)
        if (!tc_type_is_scalar(op->in[i]->type) ||
            !evaluate(c, op->in[i], depth + 1, &in[i]))
            return false;
    return tc_op_has(op, TC_PURE) && tc_eval_op(op, in, out);
}

/* The number of tiles. An assert of the grid may refuse these sides. */
static bool count_tiles(const tc_sum_candidate *c, int64_t *out)
{
    tc_scalar x;
    *out = 1;
    tc_each_op (op, c->kernel->grid) {
        if (op->code == TC_ASSERT && evaluate(c, op->in[0], 0, &x) && !x.i)
            return false;
        for (unsigned i = 0; op->code == TC_YIELD && i < op->nin; i++) {
            if (!evaluate(c, op->in[i], 0, &x) || x.i < 0 || x.i > INT32_MAX ||
                *out > INT32_MAX)
                return false;
            *out *= x.i;
        }
    }
    return true;
}

static bool count_steps(const tc_sum_candidate *c, int64_t *out)
{
    tc_scalar in[3];
    for (unsigned i = 0; i < 3; i++)
        if (!evaluate(c, c->loop->in[i], 0, &in[i]))
            return false;
    *out = (int64_t)tc_trip_count(in[0].i, in[1].i, in[2].i);
    return true;
}

/* All of 64 arguments add up to less than an int64. */
static const int64_t most_bytes = INT64_MAX / 128;

static int64_t bytes_of(const tc_sum_candidate *c, const tc_value *tensor)
{
    const tc_type *t = tensor->type;
    const tc_type *elem = tc_type_substitute(context_of(c), t->elem, c->values);
    int64_t n = tc_type_bytes(elem);
    for (unsigned i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(n, size_of(c, tensor, i), &n))
            return most_bytes;
    return n < most_bytes ? n : most_bytes;
}

enum { MOST_ARGUMENTS = 64 };

static int64_t bytes_of_tensors(const tc_sum_candidate *c)
{
    const tc_region *body = c->kernel->body;
    bool is_loaded[MOST_ARGUMENTS] = {false};
    int64_t sum = 0;
    if (body->nargs > MOST_ARGUMENTS)
        return 0;
    tc_mark_loaded(c->loop, is_loaded);
    for (unsigned i = 0; i < body->nargs; i++)
        sum += is_loaded[i] ? bytes_of(c, body->args[i]) : 0;
    return sum;
}

/* ---- What has room ---- */

/* Of the tiles of a candidate. */
typedef struct tiles {
    int64_t rows, columns, depth; /* of the products */
    unsigned elem;                /* bytes of a left operand's element */
    int64_t held, loads;          /* bytes of sums, of loads */
    int64_t joined; /* bytes of what the sums meet after the loop */
    bool differ;
    bool copied; /* both operands are in shared memory, as they were loaded */
} tiles;

static const tc_type *type_of(const tc_sum_candidate *c, const tc_value *v)
{
    return tc_type_substitute(context_of(c), v->type, c->values);
}

static int64_t tile_bytes(const tc_type *t)
{
    return t->kind == TC_TILE ? tc_type_count(t) * tc_type_bytes(t->elem) : 0;
}

/* Does it become the sum of another product, or what the loop carries? */
static bool is_sum(const tc_value *v)
{
    const tc_op *user = v->uses ? v->uses->op : NULL;
    return tc_value_has_one_use(v) &&
           (user->code == TC_YIELD ||
            (user->code == TC_DOT && v->uses->index == 2));
}

static void add_dot(const tc_sum_candidate *c, const tc_op *dot, tiles *t)
{
    const tc_type *sum = type_of(c, dot->out[0]), *a = type_of(c, dot->in[0]);
    if (sum->rank != 2) { /* of a batch */
        t->differ = true;
        return;
    }
    int64_t rows = tc_dim_value(sum->dims[0]);
    int64_t columns = tc_dim_value(sum->dims[1]);
    t->differ |= t->rows && (t->rows != rows || t->columns != columns);
    t->rows = rows;
    t->columns = columns;
    t->held += is_sum(dot->out[0]) ? 0 : tile_bytes(sum);
    t->depth = tc_dim_value(a->dims[1]);
    t->elem = tc_type_bytes(a->elem);
    t->copied =
        tc_is_copied_operand(dot->in[0]) && tc_is_copied_operand(dot->in[1]);
}

static void add_step(const tc_sum_candidate *c, const tc_region *step, tiles *t)
{
    tc_each_op (op, step) {
        for (unsigned i = 0; i < op->nregions; i++)
            add_step(c, op->regions[i], t);
        if (op->code == TC_DOT)
            add_dot(c, op, t);
        else if (op->code == TC_LOAD)
            t->loads += tile_bytes(type_of(c, op->out[0]));
    }
}

/* What an `if` runs; NULL: not known. */
static const tc_region *branch_of(const tc_sum_candidate *c, const tc_op *op)
{
    tc_scalar x;
    return op->code == TC_IF && evaluate(c, op->in[0], 0, &x)
               ? op->regions[x.i ? 0 : 1]
               : NULL;
}

/* Tiles that are loaded after the loop, such as a residual. */
static void add_joined(const tc_sum_candidate *c, const tc_op *first, tiles *t)
{
    for (const tc_op *op = first; op; op = op->next) {
        const tc_region *taken = branch_of(c, op);
        for (unsigned i = 0; i < op->nregions; i++)
            if (!taken || taken == op->regions[i])
                add_joined(c, op->regions[i]->first, t);
        if (op->code == TC_LOAD && op->out[0]->type->rank == 2)
            t->joined += tile_bytes(type_of(c, op->out[0]));
    }
}

static bool is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* Do wgmma, or mma for fewer rows, compute such products, with rows of operands
 * that fill the lines of shared memory? */
static bool suits_products(const tiles *t)
{
    enum { LINE = 128, MOST_COLUMNS = 256 };
    int64_t line = t->depth * t->elem;
    bool few = t->rows == TC_WARP_ROWS || t->rows == 2 * TC_WARP_ROWS;
    return !t->differ && t->rows && is_power_of_two(t->depth) && line >= LINE &&
           line <= 4 * LINE && t->columns <= MOST_COLUMNS &&
           (few ? t->copied && t->columns % 32 == 0 &&
                      t->columns * line <= TC_MMA_STEP_BYTES
                : t->rows % TC_WARPGROUP_ROWS == 0 && t->columns % 8 == 0);
}

/* Registers for the sums, a ring of several steps. */
static bool has_room(const tc_sum_candidate *c, const tiles *t, unsigned warps)
{
    int64_t registers = tc_spread_registers(t->held + t->joined, warps);
    return registers + TC_SPARE_WGMMA_REGISTERS <
               tc_expected_consumer_registers(c->target, warps) &&
           t->loads * TC_STAGES_ALONE + TC_STORE_RESERVE <=
               c->target->shared_per_block;
}

/* ---- The cost ---- */

static bool can_split(const tc_sum_candidate *c, const tiles *t)
{
    return c->launch->may_split && is_power_of_two(t->rows);
}

static void try_warps(const tc_sum_candidate *c, const tiles *t,
                      const tc_launch_counts *l, unsigned warps,
                      tc_sum_cost *best)
{
    if (!has_room(c, t, warps))
        return;
    tc_launch_cost cost =
        tc_launch_cost_of(c->target, c->kernel, c->loop, c->values, warps);
    for (const int64_t *p = tc_launch_pieces; *p; p++) {
        if (*p > 1 && (!can_split(c, t) || l->steps.n < *p))
            return;
        int64_t n = tc_launch_cycles(NULL, &cost, *p, l).n;
        n += *p > 1 ? n / 100 * TC_SPLIT_GAIN_PERCENT : 0;
        if (!best->warps || n < best->cycles)
            *best = (tc_sum_cost){n, warps, *p};
    }
}

bool tc_sum_cost_of(const tc_sum_candidate *c, tc_sum_cost *out)
{
    tiles t = {0};
    tc_launch_counts l = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    *out = (tc_sum_cost){0};
    for (unsigned i = 0; i < c->loop->nout; i++)
        t.held += tile_bytes(type_of(c, c->loop->out[i]));
    add_step(c, c->loop->regions[0], &t);
    add_joined(c, c->loop->next, &t);
    if (!suits_products(&t) || !count_tiles(c, &l.tiles.n) ||
        !count_steps(c, &l.steps.n))
        return false;
    l.bytes.n = bytes_of_tensors(c);
    int64_t groups = t.rows / TC_WARPGROUP_ROWS;
    for (unsigned n = groups > 1 ? 2 : 1; n <= 3; n++)
        if (n == 1 || (groups % n == 0 && groups / n <= 2))
            try_warps(c, &t, &l, n * TC_WARPGROUP_WARPS, out);
    return out->warps != 0;
}
