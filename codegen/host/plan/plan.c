/* SPDX-License-Identifier: Apache-2.0
 *
 * Which values are computed as a whole (roots), and which by their consumers.
 *
 * A value becomes a root if an op needs it whole (dot's operands, values that a
 * loop carries), or if computing it at each use would cost more: in several
 * nests, again and again in a loop, or once a row for a value that has no rows.
 * Cheap values are computed at each use.
 */
#include "codegen/host/plan/plan.h"

#include "ir/parts.h"

enum {
    CHEAP = 4, /* ops of an element that may be computed twice */
    DEAR = 300 /* the most ops of one nest: this bounds its code, and the depth
                * of walks over virtual values */
};
static const unsigned NONE = 0, MANY = ~0u;

bool tc_is_tile(const tc_value *v)
{
    return v->type->kind == TC_TILE;
}

unsigned tc_side(const tc_type *t, unsigned axis)
{
    return (unsigned)tc_dim_value(t->dims[axis]);
}

unsigned tc_scratch_bytes(const tc_type *elem)
{
    if (elem->kind >= TC_F8E4M3 && elem->kind <= TC_F32)
        return 4;
    return tc_type_bytes(elem);
}

int tc_vector_axis(const tc_type *t)
{
    int axis = (int)t->rank - 1;
    while (axis >= 0 && tc_side(t, (unsigned)axis) == 1)
        axis--;
    return axis;
}

bool tc_is_exact_in(tc_kind from, tc_kind to)
{
    if (from < TC_F8E4M3 || from > TC_F32 || to < TC_F8E4M3 || to > TC_F32)
        return false;
    bool from_fp8 = from <= TC_F8E5M2, to_fp8 = to <= TC_F8E5M2;
    return from == to || to == TC_F32 || (from_fp8 && !to_fp8);
}

bool tc_is_alias(const tc_op *op)
{
    if (op->code == TC_RESHAPE)
        return true;
    return op->code == TC_CAST && tc_is_tile(op->out[0]) &&
           tc_is_exact_in(op->in[0]->type->elem->kind,
                          op->out[0]->type->elem->kind);
}

/* kind(sum) and the like, as opposed to a combining region. */
static bool is_kind_reduce(const tc_op *op)
{
    return op->code == TC_REDUCE && op->nregions == 0;
}

/* trans that swaps the axes of a matrix. */
static bool is_matrix_trans(const tc_op *op)
{
    if (op->code != TC_TRANS || op->in[0]->type->rank != 2)
        return false;
    const tc_attr *perm = tc_op_attr(op, "perm");
    return perm->kind == TC_ATTR_NONE || perm->ints[0] == 1;
}

/* A part that vectors of lanes can be read from as they are. */
static bool is_run(const tc_op *op)
{
    return op->code == TC_SLICE && tc_op_part(op, 0).step == 1;
}

/* ---- Roots ---- */

/* Ops whose tile results are computed as a whole whatever their use. */
static bool must_be_root(const tc_op *op)
{
    switch (op->code) {
    case TC_SLICE: return !is_run(op);
    case TC_JOIN:
    case TC_INTERLEAVE:
    case TC_DOT:
    case TC_REDUCE:
    case TC_SCAN:
    case TC_HISTOGRAM:
    case TC_RESHAPE:
    case TC_ATOMIC:
    case TC_ATOMIC_CAS:
    case TC_FOR:
    case TC_WHILE:
    case TC_IF: return true;
    case TC_LOAD: return op->in[0]->type->kind == TC_BLOCK_PTR;
    default: return false;
    }
}

static unsigned own_cost(const tc_op *op)
{
    switch (op->code) {
    case TC_SPLAT:
    case TC_EXPAND_DIMS:
    case TC_BROADCAST:
    case TC_SLICE:
    case TC_TRANS: return 0;
    case TC_DIV:
    case TC_REM: return tc_type_is_float(op->out[0]->type) ? 3 : 8;
    /* Machines gather 32 and 64 bits; the others go lane by lane. */
    case TC_LOAD:
    case TC_GATHER: return tc_type_bytes(op->out[0]->type->elem) < 4 ? 40 : 8;
    case TC_TAKE: return 8;
    case TC_SQRT:
    case TC_RSQRT: return 5;
    case TC_EXP:
    case TC_EXP2:
    case TC_LOG:
    case TC_LOG2:
    case TC_TANH:
    case TC_ERF:
    case TC_SIN:
    case TC_COS: return 12;
    case TC_CAST: return tc_is_alias(op) ? 0 : 2;
    default: return 1;
    }
}

static void find_cost(const tc_op *op)
{
    unsigned cost = 0;
    for (unsigned i = 0; i < op->nin; i++)
        if (tc_is_tile(op->in[i]))
            cost += tc_place_of(op->in[i])->cost;
    for (unsigned i = 0; i < op->nout; i++) {
        tc_place *p = tc_place_of(op->out[i]);
        if (!tc_is_tile(op->out[i]))
            continue;
        p->cost = cost + own_cost(op);
        if (must_be_root(op) || p->cost > DEAR) {
            p->root = true;
            p->dear = p->cost > DEAR;
            p->cost = 1;
        }
    }
}

/* Broadcast along an axis outside of one that its operand has: a loop nest
 * would compute the operand again in each turn of the outer loop. */
static bool repeats(const tc_op *op)
{
    const tc_type *from = op->in[0]->type, *to = op->out[0]->type;
    bool expanded = false;
    for (unsigned i = 0; i < to->rank; i++) {
        if (expanded && tc_side(from, i) > 1)
            return true;
        expanded |= tc_side(from, i) != tc_side(to, i);
    }
    return false;
}

static void needed_by(tc_place *p, unsigned nest, unsigned epoch)
{
    p->nest = p->nest == NONE || p->nest == nest ? nest : MANY;
    if (epoch > p->needed)
        p->needed = epoch;
}

/* Does the consumer want the value as a whole, whatever it is? */
static bool wants_whole(const tc_use *u)
{
    const tc_op *op = u->op, *owner = op->parent->op;
    bool is_root = op->nout == 1 && tc_place_of(op->out[0])->root;
    switch (op->code) {
    case TC_DOT: return u->index < 2;
    case TC_TAKE: return u->index == 0;
    case TC_BLOCK: /* loads and stores read the indices, later */
    case TC_PRINT:
    case TC_RESHAPE: return true;
    case TC_YIELD: return owner && owner->code != TC_IF;
    case TC_CAST: return is_root && tc_is_alias(op);
    case TC_TRANS: return is_root && is_matrix_trans(op);
    default: return false;
    }
}

/* Adds what the use says of the value; users come before what they use. */
static void take_use(const tc_use *u, tc_place *p, const tc_region *home)
{
    const tc_op *op = u->op;
    const tc_op_plan *at = tc_op_plan_of(op);
    const tc_place *r = op->nout ? tc_place_of(op->out[0]) : NULL;
    p->nested |= op->parent != home;
    if (r && op->nregions == 0 && tc_is_tile(op->out[0]) && !r->root) {
        /* A virtual value: its consumers are the consumer's. */
        if (op->code == TC_BROADCAST && repeats(op) && p->cost > CHEAP)
            p->root = true;
        p->nested |= r->nested;
        needed_by(p, r->nest, r->needed);
        return;
    }
    /* A buffer that is written must not be read between the writes. */
    needed_by(p, at->number, at->epoch + tc_op_has(op, TC_WRITES));
}

static void find_root(tc_value *v)
{
    tc_place *p = tc_place_of(v);
    if (!tc_is_tile(v))
        return;
    p->root |= !v->def;
    tc_each_use (u, v)
        p->root |= wants_whole(u);
    const tc_region *home = v->def ? v->def->parent : v->region;
    tc_each_use (u, v)
        take_use(u, p, home);
    if (p->cost > CHEAP && (p->nest == MANY || p->nested))
        p->root = true;
    if (v->def && tc_op_has(v->def, TC_READS) &&
        (p->nested || p->needed != tc_op_plan_of(v->def)->epoch))
        p->root = true;
}

/* ---- Walks ---- */

static bool keeps_index(const tc_op *op)
{
    return op->code != TC_EXPAND_DIMS && op->code != TC_BROADCAST &&
           op->code != TC_TRANS && op->code != TC_TAKE && !tc_op_is_parts(op);
}

static void visit_value(tc_plan *plan, tc_value *v, bool same,
                        tc_visit_fn *visit, void *user)
{
    tc_place *p = tc_place_of(v);
    if (p->seen[same] == plan->stamp)
        return;
    p->seen[same] = plan->stamp;
    if (!tc_is_tile(v) || p->root) {
        visit(user, v, same);
        return;
    }
    for (unsigned i = 0; i < v->def->nin; i++)
        visit_value(plan, v->def->in[i], same && keeps_index(v->def), visit,
                    user);
}

/* dot reads its accumulator where it writes its result, a nest its operands
 * where it computes its roots. */
static bool reads_same(const tc_op *op, unsigned index)
{
    if (op->code == TC_DOT)
        return index == 2;
    return tc_is_nest_root(op) && keeps_index(op);
}

void tc_plan_visit_op(tc_plan *plan, tc_op *op, tc_visit_fn *visit, void *user)
{
    plan->stamp++;
    for (unsigned i = 0; i < op->nin; i++) {
        visit_value(plan, op->in[i], reads_same(op, i), visit, user);
        /* An access reads the indices of its window. */
        const tc_op *block = op->in[i]->def;
        for (unsigned k = 1; block && block->code == TC_BLOCK && k < block->nin;
             k++)
            visit_value(plan, block->in[k], false, visit, user);
    }
}

bool tc_is_nest_root(const tc_op *op)
{
    if (op->code == TC_REDUCE)
        return is_kind_reduce(op);
    return op->nout == 1 && tc_is_tile(op->out[0]) && !must_be_root(op) &&
           tc_place_of(op->out[0])->root && !tc_is_alias(op) &&
           !is_matrix_trans(op);
}

/* ---- The plan ---- */

static void add_place(tc_plan *plan, tc_value *v)
{
    v->data = tc_arena_new(plan->arena, tc_place);
}

static void number_ops(tc_plan *plan, tc_region *r, unsigned *epoch)
{
    for (unsigned i = 0; i < r->nargs; i++)
        add_place(plan, r->args[i]);
    tc_each_op (op, r) {
        plan->ops[plan->nops++] = op;
        tc_op_plan *p = tc_arena_new(plan->arena, tc_op_plan);
        op->data = p;
        p->number = plan->nops;
        p->epoch = *epoch;
        for (unsigned i = 0; i < op->nout; i++)
            add_place(plan, op->out[i]);
        for (unsigned i = 0; i < op->nregions; i++)
            number_ops(plan, op->regions[i], epoch);
        *epoch += tc_op_has(op, TC_WRITES);
    }
}

static void find_roots(tc_plan *plan)
{
    for (unsigned i = 0; i < plan->nops; i++)
        find_cost(plan->ops[i]);
    for (unsigned i = plan->nops; i-- > 0;) {
        tc_op *op = plan->ops[i];
        for (unsigned j = 0; j < op->nout; j++)
            find_root(op->out[j]);
        for (unsigned j = 0; j < op->nregions; j++)
            for (unsigned k = 0; k < op->regions[j]->nargs; k++)
                find_root(op->regions[j]->args[k]);
    }
}

tc_plan *tc_plan_new(tc_func *kernel, tc_arena *arena, uint64_t scratch_most)
{
    tc_plan *plan = tc_arena_new(arena, tc_plan);
    plan->cx = kernel->module->cx;
    plan->arena = arena;
    plan->kernel = kernel;
    plan->ops = tc_arena_array(arena, tc_op *, tc_region_count(kernel->body));
    unsigned epoch = 0;
    number_ops(plan, kernel->body, &epoch);
    find_roots(plan);
    tc_plan_schedule(plan);
    if (tc_plan_buffers(plan, scratch_most))
        return plan;
    tc_plan_free(plan);
    return NULL;
}

void tc_plan_free(tc_plan *plan)
{
    tc_region_clear_all_data(plan->kernel->body);
}
