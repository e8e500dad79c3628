/* SPDX-License-Identifier: Apache-2.0
 *
 * The backward slice that the producer computes: all values that the addresses
 * of TMA loads, and the steps of the loops around them, depend on. One thread
 * computes it, at its own pace: so it contains only scalars, and its reads of
 * memory must give the same values earlier.
 *
 *   %page = load %table[%i]       needed (the consumer may do it too)
 *   %w = block %k[%page, ..]      needed
 *   %t = load %w                  the TMA copy
 *
 * Of loops and branches each slot is needed or not on its own.
 */
#include "passes/warpspec/warpspec.h"

#include "passes/analysis/loop_slots.h"
#include "passes/sync/hazards.h"
#include "passes/windows/element_at.h"

typedef struct slicer {
    tc_warpspec *s;
    tc_map *needed;
    const char *why; /* the reason for a refusal */
    bool is_told;    /* the value goes to the consumers */
} slicer;

static char mark;

static bool need_value(slicer *x, const tc_value *v);

static bool need_all(slicer *x, const tc_op *op, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        if (!need_value(x, op->in[i]))
            return false;
    return true;
}

/* True: seen for the first time. */
static bool take(slicer *x, const void *what)
{
    if (tc_map_get(x->needed, what))
        return false;
    tc_map_set(x->needed, what, &mark);
    return true;
}

/* ---- Memory ---- */

static tc_op *outermost_loop(const tc_op *op)
{
    tc_op *loop = NULL;
    for (tc_op *l = tc_loop_around(op); l; l = tc_loop_around(l))
        loop = l;
    return loop;
}

struct search {
    const tc_op *load, *loop; /* outermost around it, or NULL */
    bool (*is)(const tc_op *op, const tc_op *load);
    bool after; /* the load was passed */
};

/* The first op that may run before the load, or in a step before its step. */
static const tc_op *search(struct search *s, const tc_region *r)
{
    tc_each_nested (op, r) {
        s->after |= op == s->load;
        bool before = !s->after || (s->loop && tc_is_nested_in(op, s->loop));
        if (before && s->is(op, s->load))
            return op;
    }
    return NULL;
}

static const tc_op *first_before(const tc_op *load,
                                 bool (*is)(const tc_op *op, const tc_op *load))
{
    struct search s = {.load = load, .loop = outermost_loop(load), .is = is};
    return search(&s, load->func->body);
}

static bool is_assert(const tc_op *op, const tc_op *load)
{
    (void)load;
    return op->code == TC_ASSERT;
}

static bool stop(slicer *x, const char *why)
{
    x->why = why;
    return false;
}

static bool may_read_ahead(slicer *x, const tc_op *load, bool checked)
{
    const tc_op *op = first_before(load, tc_may_change_loaded);
    if (op)
        return stop(x, tc_arena_printf(
                           x->s->env->scratch,
                           "the `%s` of line %u may change what the load of "
                           "line %u reads",
                           tc_op_name(op), op->loc.line, load->loc.line));
    op = checked ? NULL : first_before(load, is_assert);
    return !op ||
           stop(x, tc_arena_printf(
                       x->s->env->scratch,
                       "its address depends on the load of line %u, and the "
                       "assert of line %u may have to come first: assert in "
                       "the grid",
                       load->loc.line, op->loc.line));
}

/* ---- Values ---- */

/* Needs the bounds of a loop, or the condition of a branch. */
static bool need_control(slicer *x, const tc_op *op)
{
    if (!take(x, op))
        return true;
    switch (op->code) {
    case TC_FOR: return need_all(x, op, 0, 3);
    case TC_IF: return need_all(x, op, 0, 1);
    default: return need_value(x, tc_region_terminator(op->regions[0])->in[0]);
    }
}

static bool need_slot(slicer *x, const tc_op *op, unsigned i)
{
    if (!take(x, op->out[i]))
        return true;
    if (!need_control(x, op) ||
        (tc_slot_init(op, i) && !need_value(x, tc_slot_init(op, i))))
        return false;
    for (unsigned r = 0; r < op->nregions; r++) {
        const tc_op *last = tc_region_terminator(op->regions[r]);
        if (last->code == TC_YIELD && !need_value(x, last->in[i]))
            return false;
    }
    return true;
}

static bool need_arg(slicer *x, const tc_value *v)
{
    const tc_op *owner = v->region->op;
    if (!owner)
        return true;
    if (owner->code == TC_FOR && v->index == 0)
        return need_control(x, owner);
    return need_slot(x, owner, v->index - (owner->code == TC_FOR));
}

static const char *maker_of(const slicer *x, const tc_value *v)
{
    const tc_op *op = v->def ? v->def : v->region->op;
    return tc_arena_printf(x->s->env->scratch, "the `%s` of line %u",
                           tc_op_name(op), op->loc.line);
}

static bool cannot(slicer *x, const tc_value *v)
{
    return stop(x, tc_arena_printf(
                       x->s->env->scratch,
                       "its address, or a loop around it, depends on %s, which "
                       "%s computes: only scalars that come from scalars can "
                       "be computed ahead by one thread",
                       tc_value_name(x->s->env->cx, v), maker_of(x, v)));
}

/* Its elements, one by one. */
static bool need_elements(slicer *x, const tc_value *v)
{
    const tc_op *op = v->def;
    bool reads = op && (op->code == TC_LOAD || op->code == TC_GATHER);
    if (!op || !tc_has_elements(v))
        return cannot(x, v);
    if (reads && !may_read_ahead(x, op, true))
        return false;
    if (op->code == TC_LOAD)
        return need_all(x, op->in[0]->def, 0, op->in[0]->def->nin);
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->type->kind == TC_TILE ? !need_elements(x, op->in[i])
                                             : !need_value(x, op->in[i]))
            return false;
    return true;
}

/* Windows by index: the producer computes a block for each box. */
static bool need_windows(slicer *x, const tc_op *block)
{
    for (unsigned i = 0; i < block->nin; i++)
        if (block->in[i]->type->kind == TC_TILE
                ? !need_elements(x, block->in[i])
                : !need_value(x, block->in[i]))
            return false;
    return true;
}

static bool need_result(slicer *x, const tc_value *v)
{
    const tc_op *op = v->def;
    if (op->code == TC_BLOCK && tc_block_index(op))
        return need_windows(x, op);
    if (tc_op_has_slots(op) && v->type->kind != TC_TILE)
        return need_slot(x, op, v->index);
    bool reads = op->code == TC_LOAD || op->code == TC_GATHER;
    bool fits = (tc_op_has(op, TC_PURE) && !op->nregions) || reads ||
                op->code == TC_NEXT_TILE;
    for (unsigned i = 0; i < op->nin; i++)
        fits &= op->in[i]->type->kind != TC_TILE;
    if (!fits || v->type->kind == TC_TILE || op->nout != 1)
        return cannot(x, v);
    if (!take(x, op))
        return true;
    if (reads && !may_read_ahead(x, op, op->code == TC_GATHER))
        return false;
    return need_all(x, op, 0, op->nin);
}

static bool is_sent(const tc_warpspec *s, const tc_value *v)
{
    for (const tc_ring *r = s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nscalars; i++)
            if (r->scalars[i] == v)
                return true;
    return false;
}

static bool need_value(slicer *x, const tc_value *v)
{
    if (x->is_told && is_sent(x->s, v)) {
        take(x, v);
        return true;
    }
    return v->def ? need_result(x, v) : need_arg(x, v);
}

/* ---- An op and what is around it ---- */

static bool need_op(slicer *x, const tc_op *op)
{
    if (op->code == TC_LOAD && !may_read_ahead(x, op, true))
        return false;
    if (!need_all(x, op, 0, op->nin))
        return false;
    for (const tc_op *loop = tc_loop_around(op); loop;
         loop = tc_loop_around(loop))
        if (!need_control(x, loop))
            return false;
    return true;
}

const char *tc_why_not_ahead_alone(tc_warpspec *s, const tc_op *op)
{
    tc_map needed = {.arena = s->env->scratch};
    slicer x = {s, &needed, NULL, false};
    need_op(&x, op);
    return x.why;
}

void tc_need_in_producer(tc_warpspec *s, const tc_op *op)
{
    slicer x = {s, &s->needed, NULL, false};
    need_op(&x, op);
    if (op->code == TC_NEXT_TILE)
        take(&x, op);
}

void tc_need_in_transposer(tc_warpspec *s, const tc_op *copy)
{
    slicer x = {s, &s->moving, NULL, true};
    for (const tc_op *loop = tc_loop_around(copy); loop;
         loop = tc_loop_around(loop))
        need_control(&x, loop);
    for (tc_ring *r = s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nscalars; i++)
            r->for_transposer |= tc_map_get(&s->moving, r->scalars[i]) != NULL;
}

bool tc_can_be_ahead(tc_warpspec *s, const tc_value *v)
{
    tc_map needed = {.arena = s->env->scratch};
    slicer x = {s, &needed, NULL, false};
    return need_value(&x, v);
}

void tc_need_value(tc_warpspec *s, const tc_value *v)
{
    slicer x = {s, &s->needed, NULL, false};
    need_value(&x, v);
}

bool tc_is_needed(const tc_warpspec *s, const void *op_or_value)
{
    return tc_map_get(&s->needed, op_or_value) != NULL;
}
