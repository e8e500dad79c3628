/* SPDX-License-Identifier: Apache-2.0
 *
 * Scalars that the producer sends to the consumers: values that only one thread
 * may make (next_tile), and values that take long to compute and change from
 * step to step of a loop around loops with products: the tile's coordinates,
 * which take some divisions, the bounds of loops, factors that are read from
 * memory. The consumers would wait for them, and keep all their inputs in
 * registers.
 *
 *   for %tile = .. {                    mbarrier_wait %full.ids, ..
 *     %z = div %tile, %heads            %z = smem_load_scalar ..
 *     for .. { .. mma .. }    becomes   for .. { .. mma .. }
 *     use %z, %m0                       %m0 = smem_load_scalar ..
 *   }                                   mbarrier_arrive %empty.ids, ..
 *                                       use %z, %m0
 *
 * Each is read at its first use, and again after loops with products, so that
 * these have the registers. With few warp groups all are read at the start of
 * the step, before it waits for tiles, and right after the products, so that
 * the reads can overlap the last product (overlap_epilogue.c).
 */
#include "passes/warpspec/warpspec.h"

#include "passes/analysis/match.h"
#include "passes/instructions/mma.h"
#include "passes/target/machine_model.h"

/* ---- What it costs ---- */

enum {
    DIVISION = 12,     /* cost of a division, in ops */
    READING = 32,      /* those that one of memory is worth waiting for */
    WORTH_READING = 4, /* of one scalar */
    WORTH_A_RING = 24, /* of all */
    MOST_SCALARS = 16
};

typedef struct finder {
    tc_warpspec *s;
    tc_region *region;
    tc_map costs; /* costs of the region's ops that one thread can do: more than
                * 0 */
    tc_map wanted; /* values: does a consumer want it? */
    unsigned n, saved;
    tc_value **scalars;
} finder;

static uintptr_t cost_of(const finder *x, const tc_op *op)
{
    return op ? (uintptr_t)tc_map_get(&x->costs, op) : 0;
}

static bool is_sent(const finder *x, const tc_value *v)
{
    for (unsigned i = 0; i < x->n; i++)
        if (x->scalars[i] == v)
            return true;
    return false;
}

static uintptr_t own_cost(const tc_op *op)
{
    if (op->code == TC_GATHER)
        return READING;
    bool divides = op->code == TC_DIV || op->code == TC_REM;
    tc_scalar by;
    if (divides && !tc_match_const(op->in[1], &by))
        return DIVISION;
    return op->nin == 0 ? 0 : op->out[0]->type->kind == TC_I64 ? 2 : 1;
}

/* Elements of tensors are handed over as they are: the consumers do the
 * arithmetic of floats. */
static bool is_element(const tc_op *op)
{
    return op->code == TC_GATHER && op->out[0]->type->kind < TC_TYPE_PARAM;
}

/* Whole numbers, and elements of tensors, of scalars that come from before the
 * step, or are such themselves. */
static bool is_simple(const finder *x, const tc_op *op)
{
    bool pure = tc_op_has(op, TC_PURE) && !op->nregions && op->nout == 1 &&
                op->out[0]->type->kind <= TC_I64;
    bool fits = pure || is_element(op);
    for (unsigned i = 0; fits && i < op->nin; i++) {
        const tc_op *def = op->in[i]->def;
        fits = op->in[i]->type->kind != TC_TILE &&
               (!def || def->parent != x->region || def->nin == 0 ||
                (cost_of(x, def) && def->out[0]->type->kind <= TC_I64));
    }
    return fits && (op->nin == 0 || tc_can_be_ahead(x->s, op->out[0]));
}

static void set_cost(finder *x, const tc_op *op)
{
    uintptr_t sum = own_cost(op);
    for (unsigned i = 0; i < op->nin; i++)
        if (!is_sent(x, op->in[i]) && op->in[i]->def &&
            op->in[i]->def->parent == x->region)
            sum += cost_of(x, op->in[i]->def);
    tc_map_set(&x->costs, op, (void *)sum);
}

/* ---- Who wants it ---- */

static bool is_bulk(const tc_warpspec *s, const tc_op *op)
{
    for (const tc_ring *r = s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nbulk; i++)
            if (r->bulk[i]->staged.load == op)
                return true;
    return false;
}

static bool is_wanted(finder *x, const tc_value *v);

/* Will the consumers still do the op? */
static bool is_done(finder *x, const tc_op *op)
{
    bool may_go = tc_op_has(op, TC_PURE) && !op->nregions;
    if (is_bulk(x->s, op))
        return false;
    for (unsigned i = 0; may_go && i < op->nout; i++)
        if (is_wanted(x, op->out[i]))
            return true;
    return !may_go;
}

static bool is_wanted(finder *x, const tc_value *v)
{
    static char yes, no;
    const char *known = tc_map_get(&x->wanted, v);
    if (known)
        return known == &yes;
    bool wanted = false;
    tc_each_use (u, v)
        wanted = wanted || is_done(x, u->op);
    tc_map_set(&x->wanted, v, wanted ? &yes : &no);
    return wanted;
}

/* Is v used other than to compute scalars? */
static bool is_used_as_it_is(finder *x, const tc_value *v)
{
    tc_each_use (u, v)
        if (!cost_of(x, u->op) && is_done(x, u->op))
            return true;
    return false;
}

/* ---- Finding them ---- */

static void add_if_worth_it(finder *x, tc_op *op)
{
    uintptr_t cost = cost_of(x, op);
    tc_kind kind = op->out[0]->type->kind;
    bool fits = kind == TC_I32 || kind == TC_I64 || kind == TC_F32;
    if (cost < WORTH_READING || x->n == MOST_SCALARS || !fits ||
        !is_used_as_it_is(x, op->out[0]))
        return;
    x->scalars[x->n++] = op->out[0];
    x->saved += (unsigned)cost;
}

static bool holds_copies(const tc_warpspec *s, const tc_op *op)
{
    for (const tc_ring *r = s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nbulk; i++)
            for (unsigned k = 0; k < op->nregions; k++)
                if (tc_region_contains(op->regions[k], r->bulk[i]->staged.load))
                    return true;
    return false;
}

static void find_in(tc_warpspec *s, tc_region *r)
{
    finder x = {.s = s,
                .region = r,
                .costs = {.arena = s->env->scratch},
                .wanted = {.arena = s->env->scratch}};
    x.scalars = tc_arena_array(s->env->scratch, tc_value *, MOST_SCALARS);
    /* Ops after a loop with copies would come too late: the consumers read all
     * scalars when they begin, and the loop's copies wait for them. */
    tc_op *end = r->first;
    while (end && !holds_copies(s, end))
        end = end->next;
    /* Costs come first: uses by scalars depend on them. */
    for (tc_op *op = r->first; op != end; op = op->next)
        if (is_simple(&x, op))
            set_cost(&x, op);
    for (tc_op *op = r->first; op != end; op = op->next) {
        if (cost_of(&x, op)) {
            set_cost(&x, op);
            add_if_worth_it(&x, op);
        }
    }
    if (x.saved < WORTH_A_RING)
        return;
    tc_ring *ring = tc_arena_new(s->env->scratch, tc_ring), **last = &s->rings;
    *ring = (tc_ring){
        .region = r, .name = "ids", .nscalars = x.n, .scalars = x.scalars};
    while (*last)
        last = &(*last)->next;
    *last = ring;
    for (unsigned i = 0; i < x.n; i++)
        tc_need_value(s, x.scalars[i]);
}

/* A region that is run again and again, with TMA copies in loops of it. */
static bool is_around_copies(const tc_warpspec *s, const tc_region *r)
{
    for (const tc_ring *ring = s->rings; ring; ring = ring->next)
        for (const tc_region *at = ring->region; at->op; at = at->op->parent)
            if (ring->nbulk && at != r && at->op->parent == r)
                return true;
    return false;
}

void tc_find_channel(tc_warpspec *s)
{
    tc_map seen = {.arena = s->env->scratch};
    for (const tc_ring *ring = s->rings; ring; ring = ring->next)
        for (tc_region *r = ring->region; ring->nbulk && r->op;
             r = r->op->parent) {
            bool step = r->op->code == TC_FOR || r == r->op->regions[1];
            if (tc_map_get(&seen, r) || !step || !is_around_copies(s, r))
                continue;
            tc_map_set(&seen, r, r);
            find_in(s, r);
        }
}

/* ---- Reading it ---- */

/* The uses by the op of the region, or in it, become uses of what was read. */
static void use_read(const tc_region *r, tc_op *op, tc_value *v, tc_value *read)
{
    for (tc_use *u = v->uses, *next; u; u = next) {
        next = u->next;
        if (tc_ancestor_in(r, u->op) == op)
            tc_op_set_in(u->op, u->index, read);
    }
}

static bool is_used_in(const tc_region *r, const tc_op *op, const tc_value *v)
{
    tc_each_use (u, v)
        if (tc_ancestor_in(r, u->op) == op)
            return true;
    return false;
}

bool tc_reads_channel_early(const tc_func *f)
{
    return tc_warpgroups(f->warps) <= TC_EARLY_CHANNEL_MAX_GROUPS;
}

/* The place in the step where its slot is known, before all other ops. */
static tc_op *step_begins(const tc_ring *r)
{
    const tc_op *slot = r->at->def;
    return slot && slot->parent == r->region ? slot->next : r->region->first;
}

static void read_before_use(const tc_ring *r, unsigned i, tc_map *reads)
{
    tc_value *v = r->scalars[i], *read = NULL;
    bool early = tc_reads_channel_early(v->def->func);
    tc_op *at = early ? step_begins(r) : NULL;
    tc_each_op (op, r->region) {
        if (v->uses && is_used_in(r->region, op, v)) {
            if (!read) {
                tc_builder b = tc_builder_before(early ? at : op);
                b.loc = op->loc;
                tc_value *box = tc_build_slot(r, &b, r->boxes[i]);
                read = tc_build(&b, TC_SMEM_LOAD_SCALAR, 1, &box, NULL);
                read->name = v->name;
                tc_map_set(reads, read->def, read);
            }
            use_read(r->region, op, v, read);
        }
        if (op->nregions && tc_op_any(op, tc_is_group_mma)) {
            read = NULL;
            at = op->next;
        }
    }
}

static bool releases_channel(const tc_warpspec *s, const tc_op *op)
{
    for (const tc_ring *r = s->rings; r; r = r->next)
        if (op->code == TC_MBARRIER_ARRIVE && r->nscalars &&
            op->in[0] == r->empty)
            return true;
    return false;
}

/* The next place where the warps of a group meet to release other scalars, if
 * only reads of scalars come before it; NULL: there is none. */
static tc_op *next_meeting(const tc_warpspec *s, tc_op *op)
{
    if (!tc_reads_channel_early(s->f))
        return NULL;
    while (op->code == TC_MBARRIER_WAIT || op->code == TC_SMEM_LOAD_SCALAR ||
           tc_op_is_pure(op))
        op = op->next;
    return op->code == TC_BARRIER && releases_channel(s, op->next) ? op : NULL;
}

static void wait_and_release(const tc_warpspec *s, const tc_ring *r,
                             const tc_map *reads)
{
    tc_op *first = NULL, *last = NULL;
    tc_each_op (op, r->region) {
        if (!tc_map_get(reads, op))
            continue;
        last = op;
        if (!first)
            first = op;
    }
    if (!first)
        first = tc_region_terminator(r->region);
    tc_builder b = tc_builder_before(first);
    tc_wait_until_full(r, &b);
    if (!r->empty)
        return;
    tc_op *next = last ? last->next : first, *meeting = next_meeting(s, next);
    tc_builder after = tc_builder_before(meeting ? meeting->next : next);
    if (!meeting)
        tc_op_set_word(tc_build_group_barrier(&after), "guards", "scalars");
    tc_build_arrive(r, &after, r->empty);
}

void tc_read_channel(tc_warpspec *s, tc_ring *r)
{
    tc_map reads = {.arena = s->env->scratch};
    tc_builder b = tc_builder_before(r->region->first);
    tc_find_slot(r, &b);
    /* In reverse order, as a scalar may be computed from earlier ones. */
    for (unsigned i = r->nscalars; i-- > 0;) {
        tc_op *def = r->scalars[i]->def;
        read_before_use(r, i, &reads);
        if (tc_op_has(def, TC_PURE))
            tc_erase_if_dead(s->env->scratch, def);
        else
            tc_op_erase(def);
    }
    wait_and_release(s, r, &reads);
}
