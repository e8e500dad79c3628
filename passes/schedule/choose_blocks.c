/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/schedule/choose_blocks.h"

#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/analysis/substitute.h"
#include "passes/schedule/cost.h"
#include "passes/schedule/sum_blocks.h"

#include <string.h>

enum { MOST_BLOCKS = 4 };

/* Sides that products of warp groups can have. Others, as 80 and 112, take
 * longer than the model says. */
static const int64_t sides[] = {32, 48, 64, 96, 128, 192, 0};
/* Those of sums. */
static const int64_t sum_sides[] = {8, 16, 32, 64, 96, 128, 192, 256, 0};

typedef struct search {
    const tc_func *kernel;
    const tc_target *target;
    const tc_bindings *known;
    tc_context *cx;
    const tc_blocks_launch *launch;
    const tc_op *sums;     /* the loop, if it makes sums only */
    const tc_region *step; /* the body of the loop with the products */
    tc_bindings values;
    unsigned nfree, free[MOST_BLOCKS];
    double best; /* cycles an element; 0: none yet */
    tc_blocks *out;
} search;

/* What a candidate takes. */
typedef struct need {
    int64_t rows, columns;   /* of a step's first product */
    int64_t bytes_kept;      /* tiles in registers, of all threads */
    int64_t bytes_same;      /* of an operand that all steps share */
    int64_t ring, once;      /* bytes of loads, of others */
    double products, others; /* cycles */
    double special;          /* of others, those of special functions */
    bool fits;
} need;

/* ---- Types of a candidate ---- */

static const tc_type *type_of(const search *s, const tc_value *v)
{
    return tc_type_substitute(s->cx, v->type, &s->values);
}

static bool is_large(const tc_type *t)
{
    return t->kind == TC_TILE && t->rank == 2 && tc_dim_value(t->dims[0]) > 1 &&
           tc_dim_value(t->dims[1]) > 1;
}

static int64_t bytes_of(const tc_type *t)
{
    return tc_type_count(t) * tc_type_bytes(t->elem);
}

/* ---- The loop ---- */

static const tc_op *first_dot(const tc_region *r)
{
    tc_each_op (op, r)
        if (op->code == TC_DOT)
            return op;
    return NULL;
}

static const tc_region *find_step(const tc_region *r)
{
    tc_each_nested_first (op, r)
        if (op->code == TC_FOR && first_dot(op->regions[0]))
            return op->regions[0];
    return NULL;
}

/* ---- What a step takes ---- */

/* The load that an operand is, in another order perhaps. */
static const tc_op *load_of(const tc_value *v)
{
    const tc_op *trans = tc_match_op(v, TC_TRANS);
    return tc_match_op(trans ? trans->in[0] : v, TC_LOAD);
}

static void add_operand(const search *s, need *n, const tc_value *v)
{
    const tc_op *load = load_of(v);
    int64_t bytes = bytes_of(type_of(s, v));
    if (!load)
        n->bytes_kept += bytes;
    else if (load->parent == s->step)
        n->ring += bytes;
    else
        n->once += bytes;
    if (load && load->parent != s->step)
        n->bytes_same = bytes;
}

static void add_dot(const search *s, need *n, const tc_op *dot)
{
    const tc_type *t = type_of(s, dot->out[0]), *a = type_of(s, dot->in[0]);
    if (t->rank != 2) { /* of a batch */
        n->fits = false;
        return;
    }
    int64_t k = tc_dim_value(a->dims[1]);
    if (n->rows == 0) {
        n->rows = tc_dim_value(t->dims[0]);
        n->columns = tc_dim_value(t->dims[1]);
    }
    n->fits &= tc_dim_value(t->dims[0]) == n->rows &&
               tc_dim_value(t->dims[1]) % 8 == 0 &&
               tc_dim_value(t->dims[1]) <= 256 && k % 16 == 0 &&
               tc_type_bytes(a->elem) <= 2;
    n->products += (double)tc_type_count(t) * (double)k *
                   tc_type_bytes(a->elem) / 2 / s->target->products_per_cycle;
    if (!tc_region_yields(s->step, dot->out[0]))
        n->bytes_kept += bytes_of(t);
    add_operand(s, n, dot->in[0]);
    add_operand(s, n, dot->in[1]);
}

static bool is_special(const tc_op *op)
{
    return op->code == TC_EXP || op->code == TC_EXP2 || op->code == TC_TANH;
}

/* Masks and choices cost nothing: most steps skip them. */
static double cycles_of(const search *s, const tc_op *op)
{
    const tc_type *t = type_of(s, op->nin ? op->in[0] : op->out[0]);
    double n = (double)tc_type_count(t);
    if (is_special(op))
        return n / s->target->special_per_cycle;
    bool is_free =
        op->code == TC_CMP || op->code == TC_SELECT || op->code == TC_AND;
    return !is_free && (tc_op_has(op, TC_ELEMENTWISE) || tc_op_combines(op))
               ? n / TC_LANES_PER_CYCLE
               : 0;
}

static bool is_computed(const search *s, const tc_op *op)
{
    return op->nout && op->code != TC_DOT &&
           is_large(type_of(s, op->nin && op->code == TC_REDUCE ? op->in[0]
                                                                : op->out[0]));
}

static need need_of(const search *s)
{
    need n = {.fits = true};
    tc_each_op (op, s->step) {
        if (op->code == TC_DOT)
            add_dot(s, &n, op);
        else if (is_computed(s, op)) {
            n.others += cycles_of(s, op);
            n.special += is_special(op) ? cycles_of(s, op) : 0;
        }
    }
    const tc_op *loop = s->step->op;
    for (unsigned i = 0; i < loop->nout; i++)
        if (is_large(type_of(s, loop->out[i])))
            n.bytes_kept += bytes_of(type_of(s, loop->out[i]));
    return n;
}

/* ---- Candidates ---- */

static unsigned warps_of(const need *n)
{
    return (unsigned)(n->rows / TC_WARPGROUP_ROWS * TC_WARPGROUP_WARPS);
}

/* Have threads registers for the step's tiles, `more` bytes and `spare` others?
 */
static bool has_room(const search *s, const need *n, int64_t more,
                     int64_t spare)
{
    unsigned warps = warps_of(n);
    return tc_spread_registers(n->bytes_kept + more, warps) + spare <=
           tc_expected_consumer_registers(s->target, warps);
}

static bool fits(const search *s, const need *n)
{
    unsigned groups = tc_warpgroups(warps_of(n));
    int64_t shared = n->ring * TC_CHAINED_SLOTS + n->once + TC_STORE_RESERVE;
    return n->fits && n->rows % TC_WARPGROUP_ROWS == 0 && groups >= 2 &&
           groups <= 3 && n->columns <= TC_BLOCKS_MAX_COLUMNS &&
           has_room(s, n, 0, TC_BLOCKS_SPARE_REGISTERS) &&
           shared <= s->target->shared_per_block;
}

/* The operand of a select whose condition is of constants; NULL: it is not. */
static const tc_value *chosen(const search *s, const tc_op *select)
{
    const tc_op *cmp = tc_match_op(select->in[0], TC_CMP);
    const tc_op *dim = cmp ? tc_match_op(cmp->in[0], TC_DIM) : NULL;
    tc_scalar c;
    if (!dim || !tc_match_const(cmp->in[1], &c) ||
        !tc_op_is_word(cmp, "pred", "ne"))
        return NULL;
    const tc_dim *d =
        tc_dim_substitute(s->cx, tc_op_attr(dim, "value")->dims[0], &s->values);
    return select->in[tc_dim_value(d) != c.i ? 1 : 2];
}

/* Has one program more steps than another? Then the last one has the most. */
static bool depends_on_program(const search *s, const tc_value *v)
{
    const tc_op *op = v->def;
    if (!op || op->nregions)
        return false;
    const tc_value *one = op->code == TC_SELECT ? chosen(s, op) : NULL;
    if (one)
        return depends_on_program(s, one);
    bool found = op->code == TC_PROGRAM_ID;
    for (unsigned i = 0; i < op->nin && !found; i++)
        found = depends_on_program(s, op->in[i]);
    return found;
}

static int64_t length_of(const search *s)
{
    return s->launch->length ? s->launch->length : TC_BLOCKS_LENGTH;
}

/* How much more than there is whole steps of n take. */
static double waste(const search *s, int64_t n)
{
    int64_t length = length_of(s);
    return (double)((length + n - 1) / n * n) / (double)length;
}

/* Programs of half of the columns on average: the part of them that a step at
 * the edge computes for nothing. */
static double edge(const search *s, const need *n)
{
    return (double)(n->rows + n->columns) / (double)length_of(s);
}

/* Of a step for each element that is used. If one program has more steps than
 * another, rows that are not there are in the longest one. */
static double cycles(const search *s, const need *n)
{
    double reads = has_room(s, n, n->bytes_same, TC_SPARE_WGMMA_REGISTERS)
                       ? 0
                       : (double)n->bytes_same / TC_OPERAND_BYTES_PER_CYCLE;
    /* Special functions that take as long as products are waited for: a group
     * has them only while the others leave them. */
    double groups =
        (double)tc_warpgroups(warps_of(n)) - (n->special >= n->products);
    double more = n->products > n->others ? n->products : n->others;
    double less = n->products + n->others - more;
    double step = more + less / groups + reads + TC_STEP_CYCLES;
    double unused = waste(s, n->columns);
    if (!depends_on_program(s, s->step->op->in[1]))
        unused *= waste(s, n->rows);
    else if (n->rows & (n->rows - 1)) /* shift-tiles pads the shortest one */
        unused *= 1 + edge(s, n);
    else
        unused *= waste(s, n->rows) * (waste(s, n->rows) + edge(s, n));
    return step * unused / (double)(n->rows * n->columns);
}

/* Defaults may follow from the sides. */
static void set_defaults(search *s)
{
    for (unsigned i = 0; i < s->kernel->nparams; i++) {
        const tc_param *p = &s->kernel->params[i];
        if (s->known->dims[i] || s->known->types[i] || p->is_block)
            continue;
        if (p->dim)
            s->values.dims[i] = tc_dim_substitute(s->cx, p->dim, &s->values);
        if (p->type)
            s->values.types[i] = tc_type_substitute(s->cx, p->type, &s->values);
    }
}

/* False: it does not fit. */
static bool cost_of_sums(const search *s, double *cycles, tc_blocks *b)
{
    tc_sum_candidate c = {s->kernel, s->sums, s->target, &s->values, s->launch};
    tc_sum_cost cost;
    if (!tc_sum_cost_of(&c, &cost))
        return false;
    *cycles = 1 + (double)cost.cycles; /* 0: none yet */
    b->warps = cost.warps;
    b->pieces = cost.pieces;
    return true;
}

static bool cost_of(const search *s, double *cost, tc_blocks *b)
{
    if (s->sums)
        return cost_of_sums(s, cost, b);
    need n = need_of(s);
    if (!fits(s, &n))
        return false;
    *cost = cycles(s, &n);
    b->warps = warps_of(&n);
    b->pieces = 1;
    return true;
}

static void try_candidate(search *s)
{
    tc_blocks b;
    double c;
    set_defaults(s);
    if (!cost_of(s, &c, &b) || (s->best != 0 && c >= s->best))
        return;
    s->best = c;
    s->out->warps = b.warps;
    s->out->pieces = b.pieces;
    memcpy(s->out->values.dims, s->values.dims,
           s->values.n * sizeof *s->values.dims);
}

static void try_all(search *s, unsigned at)
{
    if (at == s->nfree) {
        try_candidate(s);
        return;
    }
    for (const int64_t *side = s->sums ? sum_sides : sides; *side; side++) {
        s->values.dims[s->free[at]] = tc_dim_const(s->cx, *side);
        try_all(s, at + 1);
    }
}

/* ---- The interface ---- */

static bool is_free(const tc_func *kernel, const tc_bindings *known, unsigned i)
{
    return kernel->params[i].is_block && !known->dims[i];
}

bool tc_has_free_blocks(const tc_func *kernel, const tc_bindings *known)
{
    for (unsigned i = 0; i < kernel->nparams; i++)
        if (is_free(kernel, known, i))
            return true;
    return false;
}

bool tc_choose_blocks(const tc_func *kernel, const tc_target *target,
                      const tc_bindings *known, const tc_blocks_launch *launch,
                      tc_arena *scratch, tc_blocks *out)
{
    search s = {.kernel = kernel,
                .target = target,
                .known = known,
                .cx = kernel->module->cx,
                .launch = launch,
                .sums = target->wgmma ? tc_sum_loop(kernel) : NULL,
                .step = target->wgmma ? find_step(kernel->body) : NULL,
                .values = tc_bindings_of(scratch, kernel),
                .out = out};
    *out = (tc_blocks){.values = tc_bindings_of(scratch, kernel)};
    for (unsigned i = 0; i < kernel->nparams; i++) {
        s.values.dims[i] = known->dims[i];
        s.values.types[i] = known->types[i];
        if (is_free(kernel, known, i) && s.nfree < MOST_BLOCKS)
            s.free[s.nfree++] = i;
    }
    if (!s.step || !tc_has_free_blocks(kernel, known))
        return false;
    try_all(&s, 0);
    return s.best != 0;
}
