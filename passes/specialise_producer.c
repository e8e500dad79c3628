/* SPDX-License-Identifier: Apache-2.0
 *
 * The producer: the loops around the bulk copies with what these need, and
 * nothing else.
 *
 *   for .. carry(%count = 0) {
 *     mbarrier_wait %empty, %slot, %phase         not where it is filled once
 *     mbarrier_arrive %full, %slot bytes(16384)
 *     %buffer = smem_index %ring, %slot
 *     tma_load block %k[..], %buffer, %full, %slot
 *     ..
 *
 * It is built beside the kernel's body, which is still what it was.
 */
#include "passes/specialise.h"

#include "passes/match.h"
#include "passes/slots.h"

#include <string.h>

typedef struct emitter {
    tc_specialiser *s;
    tc_map values; /* of the body: what they are here */
} emitter;

/* Arguments of the kernel, and what is computed before the roles, are the same
 * here. */
static tc_value *here(const emitter *e, tc_value *v)
{
    tc_value *now = tc_map_get(&e->values, v);
    return now ? now : v;
}

static void is_here(emitter *e, const tc_value *v, tc_value *now)
{
    now->name = v->name;
    tc_map_set(&e->values, v, now);
}

/* ---- Rings ---- */

static void issue(emitter *e, tc_ring *r, const tc_bulk *bulk, tc_builder *b)
{
    if (bulk == r->bulk[0]) {
        tc_find_slot(r, b);
        uint32_t bytes = 0;
        for (unsigned i = 0; i < r->nbulk; i++)
            bytes += r->bulk[i]->bytes;
        if (r->empty)
            tc_wait_until_empty(r, b);
        tc_op_set_int(tc_build_arrive(r, b, r->full), "bytes", bytes);
    }
    tc_build_tma_load(r, b, here(e, bulk->staged.load->in[0]), bulk->buffers);
}

static bool issue_if_bulk(emitter *e, const tc_op *load, tc_builder *b)
{
    for (tc_ring *r = e->s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nbulk; i++)
            if (r->bulk[i]->staged.load == load) {
                issue(e, r, r->bulk[i], b);
                return true;
            }
    return false;
}

static void begin_put(tc_ring *r, tc_builder *b)
{
    tc_find_slot(r, b);
    if (r->empty)
        tc_wait_until_empty(r, b);
}

static void put(emitter *e, const tc_ring *r, unsigned i, tc_builder *b)
{
    tc_value *in[] = {tc_build_slot(r, b, r->boxes[i]), here(e, r->scalars[i])};
    tc_op_insert(tc_op_new(b->func, TC_SMEM_PUT, b->loc, 2, in, 0), b->region,
                 b->before);
}

/* What was fetched: as late as the consumers may ask for it, as it takes some
 * time to come. */
static void put_fetched(emitter *e, const tc_region *r, const tc_op *before,
                        tc_builder *b)
{
    for (tc_ring *ring = e->s->rings; ring; ring = ring->next) {
        if (!ring->fetched || ring->region != r || ring->before != before)
            continue;
        b->loc = ring->scalars[0]->loc;
        begin_put(ring, b);
        put(e, ring, 0, b);
        tc_build_arrive(ring, b, ring->full);
    }
}

/* What was computed: at once, so that it need not be kept. */
static void put_computed(emitter *e, const tc_op *op, tc_builder *b)
{
    for (tc_ring *r = e->s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nscalars && !r->fetched; i++) {
            if (r->scalars[i]->def != op)
                continue;
            if (i == 0)
                begin_put(r, b);
            put(e, r, i, b);
            if (i + 1 == r->nscalars)
                tc_build_arrive(r, b, r->full);
        }
}

/* ---- Ops ---- */

static void emit_region(emitter *e, const tc_region *r, tc_builder *b);

static void emit_op(emitter *e, const tc_op *op, tc_builder *b)
{
    tc_value **in = tc_arena_array(e->s->env->scratch, tc_value *, op->nin);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = here(e, op->in[i]);
    is_here(e, op->out[0], tc_build_like(b, op, in, op->out[0]->type));
}

/* The operands, and arguments of the first region, before the carried ones. */
static unsigned operands_before(const tc_op *op)
{
    return op->code == TC_FOR ? 3 : op->code == TC_IF ? 1 : 0;
}

/* A loop or branch that is being built: the needed slots of the old one, then
 * the rings' counts. */
typedef struct nest {
    const tc_op *old;
    tc_op *now;
    unsigned n; /* needed slots */
    unsigned *slots;
    tc_carried_rings rings;
} nest;

static nest new_nest(emitter *e, const tc_op *op)
{
    nest x = {.old = op, .rings = tc_rings_carried_by(e->s, op)};
    x.slots = tc_arena_array(e->s->env->scratch, unsigned, op->nout);
    for (unsigned i = 0; i < op->nout; i++)
        if (tc_is_needed(e->s, op->out[i]))
            x.slots[x.n++] = i;
    return x;
}

static void build_nest(emitter *e, nest *x, tc_builder *b)
{
    tc_arena *a = &e->s->f->module->arena;
    const tc_op *op = x->old;
    unsigned first = operands_before(op), total = x->n + x->rings.n;
    tc_value **in = tc_arena_array(a, tc_value *, first + total);
    const tc_type **types = tc_arena_array(a, const tc_type *, total);
    unsigned nin = 0;
    for (; nin < first; nin++)
        in[nin] = here(e, op->in[nin]);
    for (unsigned i = 0; i < x->n; i++) {
        types[i] = op->out[x->slots[i]]->type;
        if (op->code != TC_IF)
            in[nin++] = here(e, tc_slot_init(op, x->slots[i]));
    }
    for (unsigned i = 0; i < x->rings.n; i++) {
        types[x->n + i] = (*x->rings.at[i])->type;
        in[nin++] = *x->rings.at[i];
    }
    x->now = tc_op_new(e->s->f, op->code, op->loc, nin, in, op->nregions);
    tc_op_set_results(x->now, total, types);
    tc_op_insert(x->now, b->region, b->before);
}

static void add_arg(emitter *e, tc_region *r, const tc_value *like)
{
    is_here(e, like, tc_region_add_arg(r, like->type, like->name, like->loc));
}

static void build_args(emitter *e, nest *x)
{
    tc_region *r = x->now->regions[0];
    if (x->old->code == TC_FOR)
        add_arg(e, r, x->old->regions[0]->args[0]);
    for (unsigned i = 0; i < x->n && x->old->code != TC_IF; i++)
        add_arg(e, r, tc_slot_arg(x->old, x->slots[i]));
    for (unsigned i = 0; i < x->rings.n; i++) {
        tc_value **at = x->rings.at[i];
        *at = tc_region_add_arg(r, (*at)->type, x->rings.names[i], x->old->loc);
    }
}

static void build_terminator(emitter *e, const nest *x, const tc_op *old,
                             tc_builder *b)
{
    b->loc = old->loc;
    if (old->code == TC_CONDITION) {
        tc_value *go_on = here(e, old->in[0]);
        tc_op_insert(tc_op_new(b->func, TC_CONDITION, b->loc, 1, &go_on, 0),
                     b->region, b->before);
        return;
    }
    tc_value **in =
        tc_arena_array(e->s->env->scratch, tc_value *, x->n + x->rings.n);
    for (unsigned i = 0; i < x->n; i++)
        in[i] = here(e, old->in[x->slots[i]]);
    for (unsigned i = 0; i < x->rings.n; i++)
        in[x->n + i] = *x->rings.at[i];
    tc_build_yield(b, x->n + x->rings.n, in);
}

static void emit_nest(emitter *e, const tc_op *op, tc_builder *b)
{
    nest x = new_nest(e, op);
    build_nest(e, &x, b);
    build_args(e, &x);
    for (unsigned i = 0; i < op->nregions; i++) {
        tc_builder inner = tc_builder_at_end(x.now->regions[i], op->loc);
        emit_region(e, op->regions[i], &inner);
        build_terminator(e, &x, tc_region_terminator(op->regions[i]), &inner);
    }
    for (unsigned i = 0; i < x.n; i++)
        is_here(e, op->out[x.slots[i]], x.now->out[i]);
    for (unsigned i = 0; i < x.rings.n; i++) {
        *x.rings.at[i] = x.now->out[x.n + i];
        x.now->out[x.n + i]->name = x.rings.names[i];
    }
}

/* All but the terminator. */
static void emit_region(emitter *e, const tc_region *r, tc_builder *b)
{
    const tc_op *last = tc_region_terminator(r);
    for (const tc_op *op = r->first; op && op != last && op != e->s->roles;
         op = op->next) {
        put_fetched(e, r, op, b);
        b->loc = op->loc;
        if (issue_if_bulk(e, op, b) || !tc_is_needed(e->s, op) ||
            tc_map_get(&e->s->beside, op))
            continue;
        if (op->nregions)
            emit_nest(e, op, b);
        else
            emit_op(e, op, b);
        put_computed(e, op, b);
    }
    put_fetched(e, r, NULL, b);
    b->loc = last->loc;
    tc_advance_rings(e->s, r, b);
}

void tc_build_producer(tc_specialiser *s)
{
    emitter e = {s, {.arena = s->env->scratch}};
    tc_builder b = tc_builder_at_end(s->roles->regions[0], s->roles->loc);
    tc_start_rings(s, &b);
    emit_region(&e, s->f->body, &b);
    b.loc = s->roles->loc;
    if (s->end_tiles)
        tc_op_insert(
            tc_op_new(s->f, TC_END_TILES, s->end_tiles->loc, 0, NULL, 0),
            b.region, NULL);
    tc_build_yield(&b, 0, NULL);
}
