/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the program with the set of accesses since the last barrier, over
 * branches (both, then the union) and around loops (until nothing is added).
 * Loops are walked in each state of their rings (ring_state.h), so that the
 * slots of one step are told apart.
 */
#include "passes/sync/hazards.h"

#include "ir/types/layout.h"
#include "passes/analysis/roles.h"
#include "passes/analysis/tile_loop.h"
#include "passes/sync/access_nodes.h"
#include "passes/target/machine_model.h"

#include <string.h>

enum access_kind {
    READ,
    WRITE,
    COPY,    /* in flight */
    READING, /* in flight */
    GLOBAL   /* of global memory; no bytes are known */
};

/* An access that no barrier has followed yet. */
struct access {
    enum access_kind kind;
    uint32_t first, end; /* bytes */
    bool exact;          /* no more bytes than these */
    /* Each warp group touches its own part alone, along this axis of the
     * buffer as it is seen here. NULL: that is not known. */
    const tc_layout *parts;
    unsigned axis;
    bool met;       /* the group's warps have met since */
    tc_op *op;      /* smem_store, async_copy, ... */
    tc_op *at;      /* the op from which on a barrier helps */
    tc_op *carrier; /* the outermost loop into whose next step it came */
    unsigned age;   /* of what is in flight: groups ended since, at least */
};

struct set {
    unsigned n, room;
    struct access *of;
};

/* Memory for LEAST << i accesses that no set uses. */
enum { LEAST = 16, SPARE_SIZES = 28 };
struct spare {
    struct spare *next;
};

/* Loops that are walked in one walk of the program, one by one, before what is
 * known of each is only added to: each level of nesting walks the loops in it
 * at least twice. */
enum { MOST_LOOPS = 4096 };

/* The result of walking a loop with the set `in`, in this walk. */
struct tc_loop_walk {
    struct set in, out;
    unsigned walk;
    bool with_all; /* since too many were walked */
};

struct tc_hazard_finder {
    tc_arena *arena;
    tc_module *m;
    tc_access_node *first;
    tc_hazards found;
    unsigned *before; /* 1 + the hazard found at the same place before it */
    unsigned room;
    unsigned walk;   /* counts */
    unsigned nloops; /* walked in this one */
    const tc_known *known;
    bool one_will_do, enough;         /* stop at the first hazard */
    struct spare *spare[SPARE_SIZES]; /* of sets that are gone */
};

/* ---- Sets ---- */

static unsigned hazards_size_of(unsigned room)
{
    unsigned size = 0;
    while ((unsigned)LEAST << size < room)
        size++;
    return size;
}

static void set_drop(tc_hazard_finder *w, struct set *s)
{
    struct spare *spare = (struct spare *)s->of;
    if (s->of) {
        spare->next = w->spare[hazards_size_of(s->room)];
        w->spare[hazards_size_of(s->room)] = spare;
    }
    *s = (struct set){0};
}

/* For n accesses: a walk makes thousands of sets, each for a moment. */
static void set_make_room(tc_hazard_finder *w, struct set *s, unsigned n)
{
    unsigned size = hazards_size_of(n);
    struct spare *spare = w->spare[size];
    struct set more = {s->n, LEAST << size, (struct access *)spare};
    if (spare)
        w->spare[size] = spare->next;
    else
        more.of = tc_arena_array(w->arena, struct access, more.room);
    if (s->n)
        memcpy(more.of, s->of, s->n * sizeof *s->of);
    set_drop(w, s);
    *s = more;
}

static bool same_access(const struct access *a, const struct access *b)
{
    return a->op == b->op && a->first == b->first && a->kind == b->kind &&
           a->end == b->end && a->at == b->at && a->carrier == b->carrier;
}

static bool is_in_flight(const struct access *a)
{
    return a->kind == COPY || a->kind == READING;
}

/* True: the set has grown (or what is in flight got younger). */
static bool set_add(tc_hazard_finder *w, struct set *s, struct access a)
{
    tc_module_spend(w->m, s->n); /* wide entries */
    for (unsigned i = 0; i < s->n; i++) {
        struct access *old = &s->of[i];
        if (!same_access(old, &a))
            continue;
        bool younger = a.age < old->age, apart = old->met && !a.met;
        if (younger)
            old->age = a.age;
        old->exact &= a.exact;
        old->met &= a.met;
        return younger || apart;
    }
    if (s->n == s->room)
        set_make_room(w, s, s->n + 1);
    s->of[s->n++] = a;
    return true;
}

static bool set_unite(tc_hazard_finder *w, struct set *s,
                      const struct set *with)
{
    bool grown = false;
    for (unsigned i = 0; i < with->n; i++)
        grown |= set_add(w, s, with->of[i]);
    return grown;
}

static bool set_equal(const struct set *a, const struct set *b)
{
    bool equal = a->n == b->n;
    for (unsigned i = 0; equal && i < a->n; i++)
        equal = same_access(&a->of[i], &b->of[i]) &&
                a->of[i].age == b->of[i].age && a->of[i].met == b->of[i].met &&
                a->of[i].exact == b->of[i].exact;
    return equal;
}

static struct set set_copy(tc_hazard_finder *w, const struct set *s)
{
    struct set copy = {0};
    if (s->n) {
        set_make_room(w, &copy, s->n);
        memcpy(copy.of, s->of, s->n * sizeof *s->of);
        copy.n = s->n;
    }
    return copy;
}

/* ---- Hazards ---- */

/* The two ops move the same elements by the same threads. */
static bool same_threads(const tc_op *a, const tc_op *b)
{
    bool a_store = a->code == TC_SMEM_STORE, b_store = b->code == TC_SMEM_STORE;
    if (a->code == TC_ASYNC_COPY && b->code == TC_ASYNC_COPY)
        return a->in[1]->type == b->in[1]->type && a->in[0] == b->in[0] &&
               tc_op_layout(a, "layout") == tc_op_layout(b, "layout");
    if (a->code == TC_ASYNC_COPY && b->code == TC_SMEM_LOAD)
        return tc_is_own_copy(a, b);
    if (b->code == TC_ASYNC_COPY && a->code == TC_SMEM_LOAD)
        return tc_is_own_copy(b, a);
    if (!(a_store || a->code == TC_SMEM_LOAD) ||
        !(b_store || b->code == TC_SMEM_LOAD) ||
        a->in[0]->type != b->in[0]->type)
        return false;
    const tc_type *x = a_store ? a->in[1]->type : a->out[0]->type;
    const tc_type *y = b_store ? b->in[1]->type : b->out[0]->type;
    if (x->layout != y->layout)
        return false;
    /* Of several holders of an element one stores, but all load; and a load
     * may be made for the other lanes of its warp (ldmatrix). */
    return (a_store && b_store) ||
           (a_store && tc_layout_free_bits(x->layout, TC_LANE) == 0 &&
            tc_layout_free_bits(x->layout, TC_WARP) == 0);
}

/* Only threads of one group access both, and they have met. */
static bool have_met(const struct access *before, const struct access *a)
{
    return before->met && before->parts == a->parts &&
           before->axis == a->axis && before->first == a->first &&
           before->end == a->end;
}

/* Moves the place out of a turn: a group that waits for others must not keep
 * them from their turn. */
static tc_op *outside_turn(const struct access *from, tc_op *at)
{
    const tc_op *op = at->prev;
    unsigned n = 1;
    for (; op && op != from->at && op->code != TC_ORDER_WAIT &&
           op->code != TC_ORDER_ARRIVE;
         n++)
        op = op->prev;
    tc_module_spend(at->func->module, n);
    return op && op->code == TC_ORDER_WAIT ? (tc_op *)op : NULL;
}

/* As late as may be, but outside of loops that do not hold both ends, and of
 * turns. */
static tc_op *place_of(const struct access *from, tc_op *to)
{
    tc_op *place = to;
    for (tc_op *at = to;; at = at->parent->op) {
        tc_op *around = at->parent->op, *turn = outside_turn(from, at);
        if (turn || tc_op_is_loop(at))
            place = turn ? turn : at;
        if (!around || around == from->carrier ||
            tc_is_nested_in(from->at, around))
            return place;
    }
}

/* The node at which hazards of a place are kept: that of the barrier, or of the
 * access. */
static tc_access_node *node_of(tc_hazard_finder *w, const tc_hazard *h)
{
    tc_access_node *node = (h->before ? h->before : h->to)->data;
    if (node->walk != w->walk)
        node->found = 0;
    node->walk = w->walk;
    return node;
}

static bool is_known(tc_hazard_finder *w, const tc_hazard *h)
{
    for (unsigned i = node_of(w, h)->found; i; i = w->before[i - 1]) {
        const tc_hazard *old = &w->found.of[i - 1];
        if (old->before == h->before && old->in_flight == h->in_flight &&
            old->carried == h->carried &&
            (h->before ? old->from == h->from : old->to == h->to))
            return true;
    }
    return false;
}

static void grow_found(tc_hazard_finder *w)
{
    w->room = w->room ? 2 * w->room : 16;
    tc_hazard *more = tc_arena_array(w->arena, tc_hazard, w->room);
    unsigned *before = tc_arena_array(w->arena, unsigned, w->room);
    if (w->found.n) {
        memcpy(more, w->found.of, w->found.n * sizeof *more);
        memcpy(before, w->before, w->found.n * sizeof *before);
    }
    w->found.of = more;
    w->before = before;
}

static void add_hazard(tc_hazard_finder *w, const tc_hazard *h)
{
    tc_access_node *node = node_of(w, h);
    if (w->found.n == w->room)
        grow_found(w);
    w->before[w->found.n] = node->found;
    w->found.of[w->found.n] = *h;
    node->found = ++w->found.n;
}

static void report(tc_hazard_finder *w, const struct access *from, tc_op *to)
{
    tc_hazard h = {.from = from->at, .to = to};
    tc_module_spend(w->m, 64);
    if (is_in_flight(from)) {
        h.in_flight = from->op;
    } else {
        h.before = place_of(from, to);
        const tc_access_node *place = h.before->data, *start = from->at->data;
        h.loop = tc_loop_around(h.before);
        h.depth = place->depth;
        h.position = place->position;
        h.from_position = start->position;
        h.carried = from->carrier && tc_is_nested_in(to, from->carrier);
        w->enough |= w->one_will_do;
    }
    if (!is_known(w, &h))
        add_hazard(w, &h);
}

/* Programs of a grid are in no order, and do not need each other's results:
 * nor do tiles that one program computes one after the other. */
static bool is_of_other_tile(const struct access *before)
{
    return before->carrier && tc_is_tile_loop(before->carrier);
}

static void check_global(tc_hazard_finder *w, const struct set *s,
                         const struct access *a)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->of[i].kind == GLOBAL && !is_of_other_tile(&s->of[i]) &&
            tc_global_conflict(s->of[i].op, a->op, s->of[i].carrier))
            report(w, &s->of[i], a->op);
}

static bool is_read(const struct access *a)
{
    return a->kind == READ || a->kind == READING;
}

static void check(tc_hazard_finder *w, const struct set *s,
                  const struct access *a)
{
    tc_module_spend(w->m, s->n);
    for (unsigned i = 0; i < s->n; i++) {
        const struct access *b = &s->of[i];
        bool overlap = a->first < b->end && b->first < a->end;
        if (!overlap || (is_read(a) && is_read(b)) || have_met(b, a))
            continue;
        /* Of a slot not known nothing is said of what is in flight: that may
         * well be in another one. */
        if (is_in_flight(b) ? a->exact && b->exact
                            : !(a->first == b->first && a->end == b->end &&
                                same_threads(b->op, a->op)))
            report(w, b, a->op);
    }
}

/* ---- Accesses of an op ---- */

static struct access access_to(tc_hazard_finder *w, const tc_access_place *p)
{
    int64_t slot;
    if (p->ring && tc_known_int(w->known, p->index, &slot) && slot >= 0 &&
        slot < p->slots) {
        uint32_t first = p->first + (uint32_t)slot * p->slot_bytes;
        return (struct access){
            .first = first, .end = first + p->slot_bytes, .exact = true};
    }
    return (struct access){
        .first = p->first, .end = p->first + p->bytes, .exact = !p->ring};
}

static void visit_place(tc_hazard_finder *w, struct set *s, tc_op *op,
                        const tc_access_place *p)
{
    static const enum access_kind kinds[] = {[TC_BUFFER_READ] = READ,
                                             [TC_BUFFER_WRITTEN] = WRITE,
                                             [TC_BUFFER_COPIED_TO] = COPY,
                                             [TC_BUFFER_READ_FROM_NOW] =
                                                 READING};
    struct access a = access_to(w, p);
    a.parts = a.exact ? p->parts : NULL;
    a.axis = p->axis;
    a.kind = kinds[p->use];
    a.op = a.at = op;
    check(w, s, &a);
    set_add(w, s, a);
}

/* Ends a group of asynchronous ops: earlier ops of that kind are one group
 * older. */
static void end_group(struct set *s, tc_opcode waited_for_by)
{
    for (unsigned i = 0; i < s->n; i++)
        if (is_in_flight(&s->of[i]) &&
            tc_waited_for_by(s->of[i].op) == waited_for_by)
            s->of[i].age++;
}

static void visit_access(tc_hazard_finder *w, struct set *s,
                         tc_access_node *node)
{
    if (node->global) {
        struct access a = {.kind = GLOBAL, .op = node->op, .at = node->op};
        check_global(w, s, &a);
        set_add(w, s, a);
    }
    for (unsigned i = 0; i < node->nplaces; i++)
        visit_place(w, s, node->op, &node->places[i]);
    tc_opcode wait = tc_waited_for_by(node->op);
    if (wait == TC_MMA_WAIT || wait == TC_TMA_STORE_WAIT)
        end_group(s, wait);
}

/* ---- Synchronisation ---- */

/* A barrier of each warp group by itself, where there are several. */
static bool is_of_groups(const tc_op *barrier)
{
    return tc_op_is_word(barrier, "scope", "group") &&
           tc_warpgroups(barrier->func->warps) > 1;
}

static void pass_barrier(struct set *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->n; i++)
        if (is_in_flight(&s->of[i]))
            s->of[n++] = s->of[i];
    s->n = n;
}

/* Notes that the warps of each group have met. */
static void meet_in_groups(struct set *s)
{
    for (unsigned i = 0; i < s->n; i++)
        s->of[i].met |= s->of[i].parts && !is_in_flight(&s->of[i]);
}

static bool ends_at(const struct access *a, const tc_op *wait, int64_t pending)
{
    return is_in_flight(a) && a->age > pending &&
           tc_waited_for_by(a->op) == wait->code;
}

static void wait_for(tc_hazard_finder *w, struct set *s, tc_op *op)
{
    struct set now = {0};
    int64_t pending = tc_op_int(op, "pending");
    unsigned n = 0;
    while (n < s->n && !ends_at(&s->of[n], op, pending))
        n++;
    if (n == s->n)
        return;
    for (unsigned i = 0; i < s->n; i++) {
        struct access a = s->of[i];
        if (ends_at(&a, op, pending)) {
            a.kind = a.kind == COPY ? WRITE : READ;
            a.at = op;
            a.carrier = NULL;
            a.age = 0;
        }
        set_add(w, &now, a);
    }
    set_drop(w, s);
    *s = now;
}

/* ---- The walk ---- */

static void walk_nodes(tc_hazard_finder *w, struct set *s,
                       tc_access_node *first);

/* At the end of a step, what was done in it becomes what was done in an
 * earlier one. */
static void go_round(tc_hazard_finder *w, struct set *s, tc_op *loop)
{
    struct set now = {0};
    for (unsigned i = 0; i < s->n; i++) {
        struct access a = s->of[i];
        bool outer =
            a.carrier && a.carrier != loop && tc_is_nested_in(loop, a.carrier);
        if (!outer && tc_is_nested_in(a.at, loop))
            a.carrier = loop;
        set_add(w, &now, a);
    }
    set_drop(w, s);
    *s = now;
}

static tc_ring_states states_of(tc_hazard_finder *w, tc_access_node *node)
{
    if (w->known)
        return tc_find_ring_states(w->arena, node->op, w->known);
    if (!node->states) {
        node->states = tc_arena_new(w->arena, tc_ring_states);
        *node->states = tc_find_ring_states(w->arena, node->op, NULL);
    }
    return *node->states;
}

static void walk_for(tc_hazard_finder *w, struct set *s, tc_access_node *node)
{
    const tc_known *outer = w->known;
    tc_ring_states states = states_of(w, node);
    struct set *entry = tc_arena_array(w->arena, struct set, states.n);
    bool *visited = tc_arena_array(w->arena, bool, states.n);
    struct set at = set_copy(w, s);
    for (unsigned k = 0; set_unite(w, &entry[k], &at) || !visited[k];
         k = k + 1 < states.n ? k + 1 : states.again) {
        tc_known known = {states.nvalues, states.values, states.are[k],
                          states.certain[k], outer};
        visited[k] = true;
        set_drop(w, &at);
        at = set_copy(w, &entry[k]);
        w->known = states.nvalues ? &known : outer;
        walk_nodes(w, &at, node->inside[0]);
        w->known = outer;
        set_unite(w, s, &at);
        go_round(w, &at, node->op);
    }
    set_drop(w, &at);
    for (unsigned k = 0; k < states.n; k++)
        set_drop(w, &entry[k]);
}

static void walk_while(tc_hazard_finder *w, struct set *s, tc_access_node *node)
{
    struct set entry = {0}, out = {0}, at = *s;
    for (bool first = true; set_unite(w, &entry, &at) || first; first = false) {
        set_drop(w, &at);
        at = set_copy(w, &entry);
        walk_nodes(w, &at, node->inside[0]);
        set_unite(w, &out, &at);
        walk_nodes(w, &at, node->inside[1]);
        go_round(w, &at, node->op);
    }
    set_drop(w, &at);
    set_drop(w, &entry);
    *s = out;
}

static void walk_if(tc_hazard_finder *w, struct set *s, tc_access_node *node)
{
    struct set other = set_copy(w, s);
    walk_nodes(w, s, node->inside[0]);
    walk_nodes(w, &other, node->inside[1]);
    set_unite(w, s, &other);
    set_drop(w, &other);
}

static void walk_steps(tc_hazard_finder *w, struct set *s, tc_access_node *node)
{
    w->nloops++;
    if (node->op->code == TC_FOR)
        walk_for(w, s, node);
    else
        walk_while(w, s, node);
}

static struct tc_loop_walk *walk_of(tc_hazard_finder *w, tc_access_node *node)
{
    if (!node->last)
        node->last = tc_arena_new(w->arena, struct tc_loop_walk);
    struct tc_loop_walk *l = node->last;
    if (l->walk != w->walk) {
        set_drop(w, &l->in);
        set_drop(w, &l->out);
        *l = (struct tc_loop_walk){.walk = w->walk};
    }
    return l;
}

/* Walks with the union of all sets that ever went in, in any state of rings: so
 * the loop is walked at most once for each access that is new to it. */
static void walk_with_all(tc_hazard_finder *w, struct set *s,
                          tc_access_node *node)
{
    const tc_known *known = w->known;
    struct tc_loop_walk *l = walk_of(w, node);
    bool first = !l->with_all;
    l->with_all = true;
    bool grown = set_unite(w, &l->in, s);
    if (grown || first) {
        set_drop(w, s);
        *s = set_copy(w, &l->in);
        w->known = NULL;
        walk_steps(w, s, node);
        w->known = known;
        set_unite(w, &l->out, s);
    }
    set_drop(w, s);
    *s = set_copy(w, &l->out);
}

/* Inner loops are met again and again; they are walked only if the set is
 * new. */
static void walk_loop(tc_hazard_finder *w, struct set *s, tc_access_node *node)
{
    if (w->nloops > MOST_LOOPS) {
        walk_with_all(w, s, node);
        return;
    }
    bool may_keep = !w->known;
    struct tc_loop_walk *last = node->last;
    if (may_keep && last && last->walk == w->walk && set_equal(&last->in, s)) {
        set_drop(w, s);
        *s = set_copy(w, &last->out);
        return;
    }
    struct set in = set_copy(w, s);
    walk_steps(w, s, node);
    struct tc_loop_walk *l = may_keep ? walk_of(w, node) : NULL;
    if (!l || l->with_all) {
        set_drop(w, &in);
        return;
    }
    set_drop(w, &l->in);
    set_drop(w, &l->out);
    l->in = in;
    l->out = set_copy(w, s);
}

static void walk_nodes(tc_hazard_finder *w, struct set *s,
                       tc_access_node *first)
{
    for (tc_access_node *node = first; node && !w->enough; node = node->next) {
        tc_module_spend(w->m, 1 + s->n);
        if (node->barrier)
            pass_barrier(s);
        switch (node->op->code) {
        case TC_FOR:
        case TC_WHILE: walk_loop(w, s, node); break;
        case TC_IF: walk_if(w, s, node); break;
        case TC_WARP_GROUPS:
            walk_nodes(w, s, node->inside[TC_CONSUMERS_REGION]);
            break;
        case TC_BARRIER:
            if (is_of_groups(node->op))
                meet_in_groups(s);
            else
                pass_barrier(s);
            break;
        case TC_ASYNC_COMMIT: end_group(s, TC_ASYNC_WAIT); break;
        case TC_ASYNC_WAIT:
        case TC_MMA_WAIT:
        case TC_TMA_STORE_WAIT: wait_for(w, s, node->op); break;
        default: visit_access(w, s, node); break;
        }
    }
}

static void walk_all(tc_hazard_finder *h, bool one_will_do)
{
    struct set none = {0};
    h->found = (tc_hazards){0};
    h->room = 0;
    h->walk++;
    h->nloops = 0;
    h->one_will_do = one_will_do;
    h->enough = false;
    walk_nodes(h, &none, h->first);
    set_drop(h, &none);
}

tc_hazards tc_find_hazards(tc_hazard_finder *h)
{
    walk_all(h, false);
    return h->found;
}

bool tc_needs_barrier(tc_hazard_finder *h)
{
    walk_all(h, true);
    return h->enough;
}

void tc_assume_barrier(tc_op *before, bool there)
{
    tc_access_node *node = before->data;
    node->barrier = there;
}

tc_hazard_finder *tc_hazard_finder_new(tc_arena *a, tc_func *f)
{
    tc_hazard_finder *h = tc_arena_new(a, tc_hazard_finder);
    h->arena = a;
    h->m = f->module;
    h->first = tc_access_nodes_new(a, f);
    return h;
}
