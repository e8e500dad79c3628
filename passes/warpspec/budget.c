/* SPDX-License-Identifier: Apache-2.0
 *
 * The number of slots of the rings of specialize-warps.
 *
 * A ring in an innermost loop with products has at least two slots, so that one
 * is filled while the other is used; more if the options ask for it, or if the
 * loop's products do not wait for each other, so that the loop waits for memory
 * only: as many as keep the memory busy (machine_model.h), four at least. A
 * ring outside of these loops has one slot, or two if there is room and the
 * step reads its tile to the end. Rings are filled ahead, so they are always in
 * use. With all other buffers, and the scratch of conversions, they have to fit
 * into a block's shared memory. If that would cost a slot in an innermost loop,
 * a ring around it is filled less far ahead: buffers that are used after its
 * last use in a step (the end of a tile) may alias its memory until the step's
 * end. If the loop itself runs once, buffers that are used after it may alias
 * its rings.
 */
#include "passes/warpspec/warpspec.h"

#include "passes/analysis/match.h"
#include "passes/analysis/tile_loop.h"
#include "passes/target/machine_model.h"

static const char pass[] = "specialize-warps";

/* ---- Loops ---- */

static bool is_mma(const tc_op *op)
{
    return op->code == TC_MMA;
}

static bool is_loop_of_products(const tc_op *op)
{
    return tc_op_is_loop(op) && tc_op_any(op, is_mma);
}

bool tc_is_innermost_product(const tc_op *loop)
{
    if (!is_loop_of_products(loop))
        return false;
    for (unsigned i = 0; i < loop->nregions; i++)
        if (tc_region_any(loop->regions[i], is_loop_of_products))
            return false;
    return true;
}

/* Values that depend on a product of the same step. */
struct chain {
    tc_map from; /* values */
    bool found;  /* such a value is an operand (not the sum) of a product */
};

static bool comes_from(const struct chain *c, const tc_value *v)
{
    tc_buffer buffers[TC_MAX_BUFFERS];
    unsigned n =
        v->type->kind == TC_SMEM ? tc_trace_buffers((tc_value *)v, buffers) : 0;
    for (unsigned i = 0; i < n && i < TC_MAX_BUFFERS; i++)
        if (tc_map_get(&c->from, buffers[i].alloc->out[0]))
            return true;
    return tc_map_get(&c->from, v) != NULL;
}

static void mark_value(struct chain *c, tc_value *v)
{
    tc_buffer buffers[TC_MAX_BUFFERS];
    unsigned n = v->type->kind == TC_SMEM ? tc_trace_buffers(v, buffers) : 0;
    for (unsigned i = 0; i < n && i < TC_MAX_BUFFERS; i++)
        tc_map_set(&c->from, buffers[i].alloc->out[0], v);
    tc_map_set(&c->from, v, v);
}

/* Does the op, or something in it, take or make what comes from a product? */
static bool follow(struct chain *c, tc_op *op)
{
    bool any = op->code == TC_MMA;
    for (unsigned i = 0; i < op->nin; i++)
        any |= comes_from(c, op->in[i]);
    c->found |= op->code == TC_MMA &&
                (comes_from(c, op->in[0]) || comes_from(c, op->in[1]));
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            any |= follow(c, inner);
    for (unsigned i = 0; any && i < op->nout; i++)
        mark_value(c, op->out[i]);
    if (any && op->code == TC_SMEM_STORE)
        mark_value(c, op->in[0]);
    return any;
}

static bool is_chained(tc_warpspec *s, const tc_op *loop)
{
    struct chain c = {.from = {.arena = s->env->scratch}};
    for (unsigned i = 0; i < loop->nregions; i++)
        tc_each_op (op, loop->regions[i])
            follow(&c, op);
    return c.found;
}

/* ---- Bytes ---- */

static bool is_hot(const tc_ring *r)
{
    return r->region->op && tc_is_innermost_product(r->region->op);
}

/* Times: before the last use of the lent buffer, after it, after the loop that
 * frees rings. */
enum when { BEFORE, AFTER_LENDER, AFTER_LOOP, WHENS };

typedef struct budget {
    tc_warpspec *s;
    tc_lifetimes others;  /* of all buffers, rings included */
    tc_ring *lender;      /* that may be lent; or NULL */
    const tc_op *freeing; /* the loop whose rings are freed after it; or NULL */
    /* The most bytes of other buffers in use at a time, and where. */
    uint64_t most[WHENS];
    const tc_op *at[WHENS];
} budget;

static bool is_of_ring(const tc_warpspec *s, const tc_op *alloc)
{
    for (const tc_ring *r = s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nbulk; i++)
            if (r->bulk[i]->staged.alloc == alloc)
                return true;
    return false;
}

static bool is_other_at(const budget *b, const tc_lifetime *l, const tc_op *op)
{
    return !is_of_ring(b->s, l->alloc) && tc_is_in_use_at(l, op);
}

static void count_op(budget *b, const tc_op *op, enum when when)
{
    uint64_t sum = tc_exchange_bytes(b->s->env->cx, op);
    for (unsigned i = 0; i < b->others.n; i++)
        if (is_other_at(b, &b->others.of[i], op))
            sum += b->others.of[i].bytes;
    if (sum > b->most[when] || !b->at[when]) {
        b->most[when] = sum;
        b->at[when] = op;
    }
}

static void count_region(budget *b, const tc_region *r, enum when when)
{
    const tc_op *last = NULL;
    if (b->lender && b->lender->region == r)
        last = tc_find_ring_uses(b->s->env->scratch, b->lender).last;
    tc_each_op (op, r) {
        if (op->nregions == 0 || tc_op_combines(op))
            count_op(b, op, when);
        else
            for (unsigned i = 0; i < op->nregions; i++)
                count_region(b, op->regions[i], when);
        if (op == b->freeing)
            when = AFTER_LOOP;
        else if (op == last && last)
            when = AFTER_LENDER;
    }
}

/* The largest ring around a loop with products, not an innermost one's. */
static tc_ring *find_lender(tc_warpspec *s)
{
    tc_ring *best = NULL;
    for (tc_ring *r = s->rings; r; r = r->next)
        if (r->nbulk && !r->once && r->slots == 1 && !is_hot(r) &&
            (!best || tc_ring_slot_bytes(best) < tc_ring_slot_bytes(r)))
            best = r;
    return best;
}

static const tc_op *loop_of(const tc_ring *r)
{
    return r->region->op;
}

/* A loop that is in no other one, whose rings only TMA copies fill; NULL: there
 * is none. */
static const tc_op *find_freeing(const tc_warpspec *s)
{
    for (const tc_ring *r = s->rings; r; r = r->next)
        if (r->nbulk && is_hot(r) && !r->bulk[0]->moved && !r->bulk[0]->from &&
            !tc_loop_around(loop_of(r)))
            return loop_of(r);
    return NULL;
}

static budget new_budget(tc_warpspec *s)
{
    budget b = {.s = s,
                .others = tc_find_lifetimes(s->env->scratch, s->f, false),
                .lender = find_lender(s),
                .freeing = find_freeing(s)};
    count_region(&b, s->f->body, BEFORE);
    return b;
}

static bool fits(const budget *b)
{
    uint64_t rings = TC_RING_GAPS, freed = 0;
    for (const tc_ring *r = b->s->rings; r; r = r->next) {
        rings +=
            (uint64_t)r->slots * (tc_ring_slot_bytes(r) + TC_SLOT_MBARRIERS);
        freed += r->freed ? (uint64_t)r->slots * tc_ring_slot_bytes(r) : 0;
    }
    const tc_ring *l = b->lender;
    uint64_t lent = l && l->lent ? tc_ring_slot_bytes(l) : 0;
    uint32_t limit = tc_shared_limit(b->s->env->target);
    return rings + b->most[BEFORE] <= limit &&
           rings - lent + b->most[AFTER_LENDER] <= limit &&
           rings - freed + b->most[AFTER_LOOP] <= limit && rings <= limit;
}

/* The op at which the most memory is in use. */
static const tc_op *fullest(const budget *b)
{
    enum when most = BEFORE;
    for (enum when i = BEFORE; i < WHENS; i++)
        most = b->most[i] > b->most[most] ? i : most;
    return b->at[most];
}

/* ---- What a remark says of it ---- */

static void add_name(tc_text *text, const char *name, uint64_t bytes)
{
    tc_text_printf(text, "%s%s %llu", text->len ? ", " : "", name,
                   (unsigned long long)bytes);
}

/* Bytes of the rings of a region, a slot each; of the others all slots. */
static const char *list_rings(const budget *b, const tc_region *region)
{
    tc_text text = {.arena = b->s->env->scratch};
    for (const tc_ring *r = b->s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nbulk && r->region == region; i++)
            add_name(&text,
                     tc_loaded_name(b->s->env->cx, r->bulk[i]->staged.load),
                     r->bulk[i]->staged.bytes);
    return text.data;
}

/* Lists the other rings for a message; NULL region: all rings. */
static const char *list_others(const budget *b, const tc_region *region)
{
    tc_context *cx = b->s->env->cx;
    tc_text text = {.arena = b->s->env->scratch};
    for (const tc_ring *r = b->s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nbulk && r->region != region; i++)
            add_name(&text, tc_loaded_name(cx, r->bulk[i]->staged.load),
                     (uint64_t)r->slots * r->bulk[i]->staged.bytes);
    const tc_op *at = fullest(b);
    for (unsigned i = 0; at && i < b->others.n; i++) {
        const tc_lifetime *l = &b->others.of[i];
        if (is_other_at(b, l, at))
            add_name(&text, tc_value_name(cx, l->alloc->out[0]), l->bytes);
    }
    uint64_t exchange = at ? tc_exchange_bytes(cx, at) : 0;
    if (exchange)
        add_name(&text, tc_op_name(at), exchange);
    return text.len ? text.data : "nothing";
}

static void say_fewer(const budget *b, const tc_ring *r, unsigned wanted)
{
    const tc_target *target = b->s->env->target;
    tc_missed(b->s->env->cx, r->region->op->loc, pass,
              "%u slots instead of %u: each takes bytes of shared memory for "
              "%s, next to %s, and a block of %s has %u: smaller tiles take "
              "less",
              r->slots, wanted, list_rings(b, r->region),
              list_others(b, r->region), target->name, tc_shared_limit(target));
}

static void say_nothing_fits(const budget *b)
{
    const tc_target *target = b->s->env->target;
    tc_missed(b->s->env->cx, b->s->f->loc, pass,
              "no TMA copies: buffers that are filled ahead share no memory, "
              "the bytes of %s are too many, a block of %s has %u: smaller "
              "tiles take less",
              list_others(b, NULL), target->name, tc_shared_limit(target));
}

/* ---- Slots ---- */

/* The slots that the program or the options ask for; 0: none. */
static unsigned asked_slots(const tc_warpspec *s, const tc_ring *r)
{
    const tc_op *loop = r->region->op;
    const tc_pass_options *o = s->env->options;
    unsigned n = 0;
    if (is_hot(r) && o->stages)
        n = o->stages;
    else if (loop && loop->code == TC_FOR)
        n = (unsigned)tc_op_int(loop, "stages");
    return n < TC_MAX_ASKED_SLOTS ? n : TC_MAX_ASKED_SLOTS;
}

/* All rings of a region have equally many. */
static void set_slots(tc_warpspec *s, const tc_region *region, unsigned n)
{
    for (tc_ring *r = s->rings; r; r = r->next)
        if (r->region == region && r->nbulk)
            r->slots = n;
}

static void set_first_slots(tc_warpspec *s)
{
    for (tc_ring *r = s->rings; r; r = r->next) {
        unsigned asked = r->nbulk ? asked_slots(s, r) : 0;
        r->asked = asked != 0;
        r->slots = r->once ? 1 : asked ? asked : is_hot(r) || !r->nbulk ? 2 : 1;
    }
}

/* The ring whose region may best do with fewer slots: with the most of them,
 * outer loops before inner ones. NULL: all have one. */
static tc_ring *deepest(tc_warpspec *s)
{
    tc_ring *best = NULL;
    for (tc_ring *r = s->rings; r; r = r->next)
        if (r->nbulk && r->slots > 1 &&
            (!best || r->slots > best->slots ||
             (r->slots == best->slots && is_hot(best) && !is_hot(r))))
            best = r;
    return best;
}

/* A ring that only the transposer reads is free again as soon as its tile has
 * been copied: it loses slots first. NULL: all have one. */
static tc_ring *soonest(tc_warpspec *s)
{
    for (tc_ring *r = s->rings; r; r = r->next)
        if (r->nbulk && r->bulk[0]->moved && r->slots > 1)
            return r;
    return NULL;
}

static bool shrink_to_fit(const budget *b)
{
    while (!fits(b)) {
        tc_ring *rows = soonest(b->s);
        if (rows) {
            rows->slots--;
            continue;
        }
        const tc_ring *r = deepest(b->s);
        if (!r)
            return false;
        set_slots(b->s, r->region, r->slots - 1);
    }
    return true;
}

static void say_all_fewer(const budget *b, const unsigned *wanted)
{
    const tc_region *said = NULL;
    unsigned i = 0;
    for (const tc_ring *r = b->s->rings; r; r = r->next, i++) {
        if (r->slots < wanted[i] && r->region != said)
            say_fewer(b, r, wanted[i]);
        said = r->region;
    }
}

/* Does a CTA share its multiprocessor with no other? It computes many tiles, or
 * its warp groups take all registers. */
static bool is_alone(const tc_warpspec *s)
{
    return s->groups > 1 || tc_region_any(s->f->body, tc_is_tile_loop);
}

/* Is it known that the loop takes fewer steps than that? */
static bool is_short(const tc_op *loop, unsigned steps)
{
    tc_scalar ends[3];
    for (unsigned i = 0; i < 3; i++)
        if (loop->code != TC_FOR || !tc_match_const(loop->in[i], &ends[i]))
            return false;
    return tc_trip_count(ends[0].i, ends[1].i, ends[2].i) < steps;
}

/* Does the loop load tiles that TMA copies cannot bring? Their rings get what
 * memory is left, and are the ones that it waits for. */
static bool loads_otherwise(const tc_warpspec *s, const tc_region *loop)
{
    for (const tc_tma_candidate *c = s->bulk; c; c = c->next)
        if (c->refusal && tc_region_contains(loop, c->staged.load))
            return true;
    return false;
}

/* Slots of `bytes` with which two CTAs fit on a multiprocessor, and room of one
 * slot for what else they have. */
static unsigned half_slots(const tc_warpspec *s, uint64_t bytes)
{
    uint64_t room = s->env->target->shared_per_sm / 2 - TC_BLOCK_RESERVE -
                    TC_CHANNEL_RESERVE;
    return (unsigned)(room / bytes) - (room >= bytes);
}

/* Slots that keep the loop's memory busy. CTAs that share a multiprocessor do
 * that together, and a short loop is not worth more. */
static unsigned busy_slots(const tc_warpspec *s, const tc_region *loop)
{
    uint64_t bytes = 0;
    for (const tc_ring *r = s->rings; r; r = r->next)
        bytes += r->region == loop && r->nbulk ? tc_ring_slot_bytes(r) : 0;
    unsigned n = tc_busy_slots(bytes);
    if (!is_alone(s) && half_slots(s, bytes) < n)
        n = half_slots(s, bytes);
    bool is_worth_it = n > TC_UNCHAINED_SLOTS && !is_short(loop->op, n) &&
                       !loads_otherwise(s, loop);
    return is_worth_it ? n : TC_UNCHAINED_SLOTS;
}

/* As many as there is room and use for. */
static void grow(const budget *b)
{
    for (tc_ring *r = b->s->rings; r; r = r->next) {
        if (!r->nbulk || !is_hot(r) || r->asked ||
            r->slots < TC_CHAINED_SLOTS || is_chained(b->s, r->region->op))
            continue;
        unsigned most = busy_slots(b->s, r->region);
        while (r->slots < most) {
            set_slots(b->s, r->region, r->slots + 1);
            if (!fits(b)) {
                set_slots(b->s, r->region, r->slots - 1);
                break;
            }
        }
    }
}

/* A ring outside of the inner loops whose tile is read by loops gets another
 * slot: it is free only at the step's end, and the next tile arrives
 * meanwhile. */
static void grow_outer(const budget *b)
{
    for (tc_ring *r = b->s->rings; r; r = r->next) {
        if (!r->nbulk || r->once || is_hot(r) || r->asked || r->lent ||
            r->slots > 1 || tc_is_read_at_once(b->s->env->scratch, r))
            continue;
        set_slots(b->s, r->region, 2);
        if (!fits(b))
            set_slots(b->s, r->region, 1);
    }
}

static unsigned hot_slots(const tc_warpspec *s)
{
    unsigned sum = 0;
    for (const tc_ring *r = s->rings; r; r = r->next)
        sum += is_hot(r) ? r->slots : 0;
    return sum;
}

static void copy_slots(tc_warpspec *s, unsigned *to, const unsigned *from)
{
    unsigned i = 0;
    for (tc_ring *r = s->rings; r; r = r->next, i++) {
        if (to)
            to[i] = r->slots;
        if (from)
            r->slots = from[i];
    }
}

static void say_lent(const tc_warpspec *s, const tc_ring *r)
{
    const tc_op *load = r->bulk[0]->staged.load;
    tc_missed(s->env->cx, load->loc, pass,
              "load of %s waits for the end of the step before: its %u bytes "
              "are reused by buffers after its last use",
              tc_loaded_name(s->env->cx, load), tc_ring_slot_bytes(r));
}

static void free_rings(const budget *b, bool freed)
{
    for (tc_ring *r = b->s->rings; r; r = r->next)
        if (r->nbulk && loop_of(r) == b->freeing && b->freeing)
            r->freed = freed;
}

/* Takes slots away, or frees a loop's rings after it where that saves slots. */
static bool shrink_or_free(budget *b, const unsigned *wanted, unsigned *fewer)
{
    bool fit = shrink_to_fit(b);
    unsigned without = fit ? hot_slots(b->s) : 0;
    copy_slots(b->s, fewer, wanted);
    free_rings(b, true);
    if (b->freeing && without < hot_slots(b->s) && shrink_to_fit(b) &&
        hot_slots(b->s) > without)
        return true;
    free_rings(b, false);
    copy_slots(b->s, NULL, fewer);
    return fit;
}

/* Takes slots away, or lends memory where that saves slots. */
static bool shrink(budget *b, unsigned n, const unsigned *wanted)
{
    unsigned *fewer = tc_arena_array(b->s->env->scratch, unsigned, n);
    bool fit = shrink_or_free(b, wanted, fewer);
    unsigned without = fit ? hot_slots(b->s) : 0;
    copy_slots(b->s, fewer, wanted);
    if (!b->lender || without == hot_slots(b->s)) {
        copy_slots(b->s, NULL, fewer);
        return fit;
    }
    b->lender->lent = true;
    if (shrink_to_fit(b) && hot_slots(b->s) > without) {
        say_lent(b->s, b->lender);
        return true;
    }
    b->lender->lent = false;
    copy_slots(b->s, NULL, fewer);
    return fit;
}

bool tc_may_fit(tc_warpspec *s)
{
    budget b = new_budget(s);
    uint64_t rings = TC_RING_GAPS;
    for (const tc_ring *r = s->rings; r; r = r->next)
        rings += tc_ring_slot_bytes(r) + TC_SLOT_MBARRIERS;
    return rings + b.most[BEFORE] <= tc_shared_limit(s->env->target);
}

bool tc_choose_slots(tc_warpspec *s)
{
    set_first_slots(s);
    budget b = new_budget(s);
    unsigned n = 0;
    for (const tc_ring *r = s->rings; r; r = r->next)
        n++;
    unsigned *wanted = tc_arena_array(s->env->scratch, unsigned, n);
    copy_slots(s, wanted, NULL);
    if (!shrink(&b, n, wanted)) {
        say_nothing_fits(&b);
        return false;
    }
    say_all_fewer(&b, wanted);
    grow(&b);
    grow_outer(&b);
    return true;
}
