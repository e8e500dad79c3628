/* SPDX-License-Identifier: Apache-2.0
 *
 * The program is walked with the set of accesses since the last barrier, over
 * branches (both, then the union) and round loops (until nothing is added).
 * Loops are walked in each state of their rings (ring_state.h), so that the
 * slots of one step are told apart.
 */
#include "passes/hazards.h"

#include "ir/layout.h"
#include "passes/ring_state.h"

enum access_kind {
    READ,
    WRITE,
    COPY,  /* under way */
    GLOBAL /* of global memory; no bytes are known */
};

/* An access that no barrier has followed yet. */
struct access {
    enum access_kind kind;
    uint32_t first, end; /* bytes */
    bool exact;          /* no more bytes than these */
    tc_op *op;           /* smem_store, async_copy, ... */
    tc_op *at;           /* the op from which on a barrier helps */
    tc_op *carrier;      /* the outermost loop into whose next step it came */
    unsigned age;        /* of a COPY: groups ended since, at least */
};

struct set {
    unsigned n, room;
    struct access *of;
};

struct walk {
    tc_arena *arena;
    tc_hazards found;
    unsigned room;
    uint32_t next_base; /* for buffers that have no offset yet */
    const tc_known *known;
};

/* ---- Sets ---- */

static bool same_access(const struct access *a, const struct access *b)
{
    return a->kind == b->kind && a->first == b->first && a->end == b->end &&
           a->op == b->op && a->at == b->at && a->carrier == b->carrier;
}

/* True: the set has grown (or a copy got younger). */
static bool set_add(struct walk *w, struct set *s, struct access a)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct access *old = &s->of[i];
        if (!same_access(old, &a))
            continue;
        bool younger = a.age < old->age;
        if (younger)
            old->age = a.age;
        old->exact &= a.exact;
        return younger;
    }
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 16;
        struct access *more = tc_arena_array(w->arena, struct access, s->room);
        for (unsigned i = 0; i < s->n; i++)
            more[i] = s->of[i];
        s->of = more;
    }
    s->of[s->n++] = a;
    return true;
}

static bool set_unite(struct walk *w, struct set *s, const struct set *with)
{
    bool grown = false;
    for (unsigned i = 0; i < with->n; i++)
        grown |= set_add(w, s, with->of[i]);
    return grown;
}

static struct set set_copy(struct walk *w, const struct set *s)
{
    struct set copy = {0};
    set_unite(w, &copy, s);
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
    if (!(a_store || a->code == TC_SMEM_LOAD) ||
        !(b_store || b->code == TC_SMEM_LOAD) ||
        a->in[0]->type != b->in[0]->type)
        return false;
    const tc_type *x = a_store ? a->in[1]->type : a->out[0]->type;
    const tc_type *y = b_store ? b->in[1]->type : b->out[0]->type;
    if (x->layout != y->layout)
        return false;
    /* Of several holders of an element one stores, but all load. */
    return (a_store && b_store) ||
           (tc_layout_free_bits(x->layout, TC_LANE) == 0 &&
            tc_layout_free_bits(x->layout, TC_WARP) == 0);
}

static bool is_loop(const tc_op *op)
{
    return op->code == TC_FOR || op->code == TC_WHILE;
}

/* As late as may be, but outside of loops that do not hold both ends. */
static tc_op *place_of(const struct access *from, tc_op *to)
{
    tc_op *place = to;
    for (tc_op *at = to;; at = at->parent->op) {
        tc_op *around = at->parent->op;
        if (is_loop(at))
            place = at;
        if (!around || around == from->carrier ||
            tc_is_nested_in(from->at, around))
            return place;
    }
}

static void report(struct walk *w, const struct access *from, tc_op *to)
{
    tc_hazard h = {.from = from->at, .to = to};
    if (from->kind == COPY)
        h.copy = from->op;
    else
        h.before = place_of(from, to);
    for (unsigned i = 0; i < w->found.n; i++) {
        const tc_hazard *old = &w->found.of[i];
        if (old->before == h.before && old->copy == h.copy &&
            (h.before || old->to == to))
            return;
    }
    if (w->found.n == w->room) {
        w->room = w->room ? 2 * w->room : 16;
        tc_hazard *more = tc_arena_array(w->arena, tc_hazard, w->room);
        for (unsigned i = 0; i < w->found.n; i++)
            more[i] = w->found.of[i];
        w->found.of = more;
    }
    w->found.of[w->found.n++] = h;
}

static void check_global(struct walk *w, const struct set *s,
                         const struct access *a)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->of[i].kind == GLOBAL &&
            tc_global_conflict(s->of[i].op, a->op, s->of[i].carrier))
            report(w, &s->of[i], a->op);
}

static void check(struct walk *w, const struct set *s, const struct access *a)
{
    for (unsigned i = 0; i < s->n; i++) {
        const struct access *b = &s->of[i];
        bool overlap = a->first < b->end && b->first < a->end;
        if (!overlap || (a->kind == READ && b->kind == READ))
            continue;
        /* Of a slot not known nothing is said of copies under way: they may
         * well go to another one. */
        if (b->kind == COPY ? a->exact && b->exact
                            : !(a->first == b->first && a->end == b->end &&
                                same_threads(b->op, a->op)))
            report(w, b, a->op);
    }
}

/* ---- Accesses of an op ---- */

static uint32_t base_of(struct walk *w, tc_op *alloc)
{
    if (tc_op_has_attr(alloc, "offset"))
        return (uint32_t)tc_op_int(alloc, "offset");
    uint32_t *base = alloc->data;
    if (!base) {
        alloc->data = base = tc_arena_new(w->arena, uint32_t);
        *base = w->next_base;
        w->next_base += tc_smem_bytes(alloc->out[0]->type);
    }
    return *base;
}

static struct access range_of(struct walk *w, const tc_buffer *b)
{
    const tc_type *t = b->alloc->out[0]->type;
    uint32_t base = base_of(w, b->alloc);
    uint32_t slot_bytes = tc_smem_slot_bytes(t);
    int64_t slot;
    if (b->index && tc_known_int(w->known, b->index, &slot) && slot >= 0 &&
        slot < t->slots) {
        base += (uint32_t)slot * slot_bytes;
        return (struct access){
            .first = base, .end = base + slot_bytes, .exact = true};
    }
    return (struct access){
        .first = base, .end = base + tc_smem_bytes(t), .exact = !b->index};
}

static void visit_buffer(struct walk *w, struct set *s, tc_op *op,
                         tc_buffer_use use, const tc_buffer *b)
{
    struct access a = range_of(w, b);
    a.kind = use == TC_BUFFER_READ      ? READ
             : use == TC_BUFFER_WRITTEN ? WRITE
                                        : COPY;
    a.op = a.at = op;
    check(w, s, &a);
    set_add(w, s, a);
}

static void visit_global(struct walk *w, struct set *s, tc_op *op)
{
    struct access a = {.kind = GLOBAL, .op = op, .at = op};
    if (!tc_reads_global(op) && !tc_writes_global(op))
        return;
    check_global(w, s, &a);
    set_add(w, s, a);
}

static void visit_operands(struct walk *w, struct set *s, tc_op *op)
{
    visit_global(w, s, op);
    for (unsigned i = 0; i < op->nin; i++) {
        tc_buffer_use use = tc_buffer_use_of(op, i);
        if (use == TC_BUFFER_NOT_USED)
            continue;
        tc_buffer buffers[TC_MAX_BUFFERS];
        unsigned n = tc_trace_buffers(op->in[i], buffers);
        for (unsigned k = 0; k < n && k < TC_MAX_BUFFERS; k++)
            visit_buffer(w, s, op, use, &buffers[k]);
    }
}

/* ---- Synchronisation ---- */

static void pass_barrier(struct set *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->n; i++)
        if (s->of[i].kind == COPY)
            s->of[n++] = s->of[i];
    s->n = n;
}

static void end_group(struct set *s)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->of[i].kind == COPY)
            s->of[i].age++;
}

static void wait_for_copies(struct walk *w, struct set *s, tc_op *op)
{
    struct set now = {0};
    int64_t pending = tc_op_int(op, "pending");
    for (unsigned i = 0; i < s->n; i++) {
        struct access a = s->of[i];
        if (a.kind == COPY && a.age > pending) {
            a.kind = WRITE;
            a.at = op;
            a.carrier = NULL;
            a.age = 0;
        }
        set_add(w, &now, a);
    }
    *s = now;
}

/* ---- The walk ---- */

static void walk_region(struct walk *w, struct set *s, tc_region *r);

/* At the end of a step, what was done in it becomes what was done in an
 * earlier one. */
static void go_round(struct walk *w, struct set *s, tc_op *loop)
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
    *s = now;
}

static void walk_for(struct walk *w, struct set *s, tc_op *loop)
{
    const tc_known *outer = w->known;
    tc_ring_states states = tc_find_ring_states(w->arena, loop, outer);
    struct set *entry = tc_arena_array(w->arena, struct set, states.n);
    bool *visited = tc_arena_array(w->arena, bool, states.n);
    struct set at = set_copy(w, s);
    for (unsigned k = 0; set_unite(w, &entry[k], &at) || !visited[k];
         k = k + 1 < states.n ? k + 1 : states.again) {
        tc_known known = {states.nvalues, states.values, states.are[k],
                          states.certain[k], outer};
        visited[k] = true;
        at = set_copy(w, &entry[k]);
        w->known = &known;
        walk_region(w, &at, loop->regions[0]);
        w->known = outer;
        set_unite(w, s, &at);
        go_round(w, &at, loop);
    }
}

static void walk_while(struct walk *w, struct set *s, tc_op *loop)
{
    struct set entry = {0}, out = {0}, at = *s;
    for (bool first = true; set_unite(w, &entry, &at) || first; first = false) {
        at = set_copy(w, &entry);
        walk_region(w, &at, loop->regions[0]);
        set_unite(w, &out, &at);
        walk_region(w, &at, loop->regions[1]);
        go_round(w, &at, loop);
    }
    *s = out;
}

static void walk_if(struct walk *w, struct set *s, tc_op *op)
{
    struct set other = set_copy(w, s);
    walk_region(w, s, op->regions[0]);
    walk_region(w, &other, op->regions[1]);
    set_unite(w, s, &other);
}

static void walk_region(struct walk *w, struct set *s, tc_region *r)
{
    tc_each_op (op, r)
        switch (op->code) {
        case TC_FOR: walk_for(w, s, op); break;
        case TC_WHILE: walk_while(w, s, op); break;
        case TC_IF: walk_if(w, s, op); break;
        case TC_BARRIER: pass_barrier(s); break;
        case TC_ASYNC_COMMIT: end_group(s); break;
        case TC_ASYNC_WAIT: wait_for_copies(w, s, op); break;
        default: visit_operands(w, s, op); break;
        }
}

/* Buffers without an offset come behind all that have one. */
static void prepare(struct walk *w, const tc_region *r)
{
    tc_each_op (op, r) {
        op->data = NULL;
        if (op->code == TC_SMEM_ALLOC && tc_op_has_attr(op, "offset")) {
            uint32_t end = (uint32_t)tc_op_int(op, "offset") +
                           tc_smem_bytes(op->out[0]->type);
            w->next_base = end > w->next_base ? end : w->next_base;
        }
        for (unsigned i = 0; i < op->nregions; i++)
            prepare(w, op->regions[i]);
    }
}

tc_hazards tc_find_hazards(tc_arena *a, tc_func *f)
{
    struct walk w = {.arena = a};
    struct set none = {0};
    prepare(&w, f->body);
    walk_region(&w, &none, f->body);
    return w.found;
}
