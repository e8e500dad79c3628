/* SPDX-License-Identifier: Apache-2.0
 *
 * prefetch-loads: small loads of a loop without products run a step ahead, into
 * registers.
 *
 *   for %t = 0 to %n carry(%s = %s0) {
 *     %k = load block %x[%t, 0 +: 64]
 *     .. %s1 from %s, %k ..
 *     yield %s1
 *   }
 *
 * becomes
 *
 *   %k.first = if 0 < %n { yield load block %x[0, ..] } else { yield zeros }
 *   for %t = 0 to %n carry(%s = %s0, %k = %k.first) {
 *     %next = select (%t + 1 < %n), %t + 1, %t
 *     %k1 = load block %x[%next, 0 +: 64]
 *     .. %s1 from %s, %k ..
 *     yield %s1, %k1
 *   }
 *
 * In a recurrence each step needs the one before, and waits for its loads as
 * long as memory takes; so they are under way while the step before computes.
 * The last step loads its own once more. Loads of many bytes have company
 * enough: they stay. Tests: test/ir/passes/prefetch-loads.
 */
#include "ir/base/map.h"
#include "passes/analysis/effects.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/passes.h"
#include "passes/sync/hazards.h"
#include "passes/target/machine_model.h"

static const char pass[] = "prefetch-loads";

enum { MOST_LOADS = 16 };

typedef struct prefetcher {
    tc_pass_env *env;
    tc_op *loop;
    unsigned n;
    tc_op *loads[MOST_LOADS];
    bool changed;
} prefetcher;

/* ---- Which ---- */

static int64_t bytes_of(const tc_type *t)
{
    int64_t n = t->kind == TC_TILE ? tc_type_count(t) : 1;
    return n * tc_type_bytes(tc_type_elem(t));
}

/* It has no operands besides its address, which moves from step to step. */
static bool is_small_load(const tc_op *loop, const tc_op *op)
{
    const tc_op *block = op->code == TC_LOAD && op->nin == 1
                             ? tc_match_op(op->in[0], TC_BLOCK)
                             : NULL;
    if (op->code != TC_GATHER && (!block || tc_block_index(block)))
        return false;
    const tc_type *t = op->out[0]->type;
    if (tc_type_elem(t)->kind == TC_PTR ||
        bytes_of(t) > TC_PREFETCHED_MOST_BYTES ||
        (op->code == TC_GATHER && t->kind == TC_TILE))
        return false;
    bool moves = false;
    for (unsigned i = 0; i < op->nin; i++) {
        moves |= op->in[i]->def && op->in[i]->def->parent == loop->regions[0];
        moves |= op->in[i] == loop->regions[0]->args[0];
        if (!tc_is_known_ahead(loop, op->in[i]))
            return false;
    }
    return moves && !tc_may_change_loaded_in(loop->regions[0], op);
}

/* Each step computes from the one before, and does nothing that has to come
 * before a load. */
static bool is_recurrence(const tc_op *loop)
{
    bool carries = false;
    for (unsigned i = 0; i < loop->nout; i++)
        carries |= loop->out[i]->type->kind == TC_TILE;
    tc_each_op (op, loop->regions[0])
        if ((op->nregions && !tc_op_combines(op)) || op->code == TC_DOT ||
            op->code == TC_ASSERT || op->code == TC_PRINT ||
            op->code == TC_CALL)
            return false;
    return carries;
}

static void find_loads(prefetcher *p)
{
    int64_t all = 0;
    p->n = 0;
    tc_each_op (op, p->loop->regions[0]) {
        if (!is_small_load(p->loop, op) || p->n == MOST_LOADS)
            continue;
        all += bytes_of(op->out[0]->type);
        p->loads[p->n++] = op;
    }
    if (all > TC_PREFETCHED_ALL_BYTES)
        p->n = 0;
}

/* ---- A step ahead ---- */

/* v where the counter is `at`. */
static tc_value *at_step(prefetcher *p, tc_builder *b, tc_map *made,
                         tc_value *v, tc_value *at)
{
    const tc_region *r = p->loop->regions[0];
    if (v == r->args[0])
        return at;
    if (!v->def || v->def->parent != r)
        return v;
    tc_value *known = tc_map_get(made, v);
    if (known)
        return known;
    tc_op *op = v->def;
    tc_value **in = tc_arena_array(p->env->scratch, tc_value *, op->nin + 1);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = at_step(p, b, made, op->in[i], at);
    b->loc = op->loc;
    known = tc_build_like(b, op, in, v->type);
    tc_map_set(made, v, known);
    return known;
}

static void load_at(prefetcher *p, tc_builder *b, tc_value *at,
                    tc_value *out[MOST_LOADS])
{
    tc_map made = {.arena = p->env->scratch};
    for (unsigned i = 0; i < p->n; i++)
        out[i] = at_step(p, b, &made, p->loads[i]->out[0], at);
}

/* The loads of the first step, if there is one. */
static void load_first(prefetcher *p, tc_value *first[MOST_LOADS])
{
    const tc_type *types[MOST_LOADS];
    tc_value *made[MOST_LOADS];
    tc_builder b = tc_builder_before(p->loop);
    tc_value *is = tc_build_cmp(&b, "lt", p->loop->in[0], p->loop->in[1]);
    for (unsigned i = 0; i < p->n; i++)
        types[i] = p->loads[i]->out[0]->type;
    tc_op *branch = tc_build_if(&b, is, p->n, types);
    tc_builder some = tc_builder_at_end(branch->regions[0], b.loc);
    load_at(p, &some, p->loop->in[0], made);
    tc_build_yield(&some, p->n, made);
    tc_builder none = tc_builder_at_end(branch->regions[1], b.loc);
    for (unsigned i = 0; i < p->n; i++)
        made[i] = tc_build_const(&none, types[i], (tc_scalar){0});
    tc_build_yield(&none, p->n, made);
    for (unsigned i = 0; i < p->n; i++)
        first[i] = branch->out[i];
}

/* The counter of the next step; of the last one its own. */
static tc_value *next_counter(prefetcher *p, tc_builder *b)
{
    tc_value *i = p->loop->regions[0]->args[0], *step = p->loop->in[2];
    tc_value *left = tc_build_binary(b, TC_SUB, p->loop->in[1], i);
    tc_value *more = tc_build_cmp(b, "ugt", left, step);
    return tc_build_select(b, more, tc_build_binary(b, TC_ADD, i, step), i);
}

static void expand(prefetcher *p)
{
    const char *names[MOST_LOADS];
    tc_value *first[MOST_LOADS], *next[MOST_LOADS];
    unsigned at = p->loop->nout;
    for (unsigned i = 0; i < p->n; i++)
        names[i] = p->loads[i]->out[0]->name;
    load_first(p, first);
    p->loop = tc_slots_add(p->loop, p->n, first, names);
    tc_builder top = tc_builder_before(p->loop->regions[0]->first);
    load_at(p, &top, next_counter(p, &top), next);
    for (unsigned i = 0; i < p->n; i++) {
        tc_op *load = p->loads[i];
        tc_remark(p->env->cx, load->loc, pass, "%s: a step ahead, in registers",
                  tc_op_name(load));
        tc_slot_set_next(p->loop, at + i, next[i]);
        tc_value_replace(load->out[0], tc_slot_arg(p->loop, at + i));
        tc_op_erase(load);
    }
    tc_forget_speculatable(p->loop->parent);
    p->changed = true;
}

/* ---- The walk ---- */

static void prefetch_loads_visit(prefetcher *p, tc_region *r)
{
    tc_each_op_safe (op, r) {
        for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
            prefetch_loads_visit(p, op->regions[i]);
        if (op->code != TC_FOR || !is_recurrence(op))
            continue;
        p->loop = op;
        find_loads(p);
        if (p->n)
            expand(p);
    }
}

tc_change tc_pass_prefetch_loads(tc_func *f, tc_pass_env *env)
{
    prefetcher p = {.env = env};
    if (!env->target->shared_per_block)
        return TC_UNCHANGED;
    prefetch_loads_visit(&p, f->body);
    return p.changed ? TC_CHANGED : TC_UNCHANGED;
}
