/* SPDX-License-Identifier: Apache-2.0
 *
 * specialize-warps: warp specialization: one thread of separate warps issues
 * TMA loads to shared memory; the kernel's warps compute on the tiles there.
 *
 *   for %n0 = 0 to %n step 128 {
 *     %t = load block %k[%n0] : tile<128x64 x bf16, #blocked(..)>
 *     %s = smem_alloc : smem<128x64 x bf16, #swizzle128>
 *     smem_store %s, %t
 *     .. mma of %s ..
 *   }
 *
 * becomes
 *
 *   %ring.k = smem_alloc : smem<128x64 x bf16, #swizzle128, 2>
 *   %full.k = mbarrier_alloc arrivals(1) : mbarrier<2>
 *   %empty.k = mbarrier_alloc arrivals(2) : mbarrier<2>
 *   barrier
 *   warp_groups registers(24, 240) producer {
 *     for %n0 = 0 to %n step 128 carry(%count = 0) {
 *       %slot = %count & 1
 *       mbarrier_wait %empty.k, %slot, %count >> 1 ^ 1
 *       mbarrier_arrive %full.k, %slot bytes(16384)
 *       tma_load block %k[%n0], slot %slot of %ring.k, %full.k, %slot
 *       yield %count + 1 & 3
 *     }
 *   } consumer {
 *     for %n0 = 0 to %n step 128 carry(%count = 0) {
 *       %slot = %count & 1
 *       mbarrier_wait %full.k, %slot, %count >> 1
 *       .. mma of slot %slot of %ring.k ..
 *       mbarrier_arrive %empty.k, %slot
 *       yield %count + 1 & 3
 *     }
 *   }
 *
 * If only a smem_copy reads a loaded tile (an operand in an order that no mma
 * takes), a third role does it: TMA fills one ring, the transposer fills
 * another one from it, the consumers read that (transposer.c).
 *
 * It acts if the loop around an m64 mma gets at least one TMA load. Loads that
 * TMA cannot do stay with the consumers, with a remark. slice.c finds the ops
 * that the producer needs; values that only one thread may fetch (next_tile),
 * and values that take long to compute, go from the producer to the consumers
 * through shared memory (scalar_channel.c). The mma are still synchronous.
 * Tests: test/ir/passes/specialize-warps.
 */
#include "passes/warpspec/warpspec.h"

#include "ir/types/layout.h"
#include "passes/analysis/match.h"
#include "passes/analysis/roles.h"
#include "passes/instructions/mma.h"
#include "passes/instructions/tma.h"
#include "passes/instructions/wgmma.h"
#include "passes/target/machine_model.h"

static const char pass[] = "specialize-warps";

/* ---- Which loads ---- */

static const char *why_not_each_step(const tc_op *op)
{
    for (const tc_region *r = op->parent; r->op; r = r->op->parent) {
        if (r->op->code == TC_IF)
            return "it happens under a condition";
        if (r->op->code == TC_WHILE && r == r->op->regions[0])
            return "it happens before the `while` knows that there is a step: "
                   "move it after the condition";
    }
    return NULL;
}

/* The buffer lives in the load's step, and is stored in it once. */
static const char *why_not_stored_each_step(const tc_staged *s)
{
    const tc_region *here = s->load->parent;
    if (!tc_ancestor_in(here, s->alloc))
        return "its buffer is not of the same step";
    for (const tc_region *r = s->store->parent; r != here; r = r->op->parent)
        if (r->op->code != TC_IF)
            return "it is stored in a loop after it";
    return NULL;
}

/* Windows by index: a copy for each box of rows. */
static const char *find_boxes(tc_warpspec *s, tc_tma_candidate *bulk)
{
    const tc_op *load = bulk->staged.load, *block = load->in[0]->def;
    const tc_type *buffer = bulk->staged.alloc->out[0]->type;
    tc_axis_analysis *axes =
        tc_axis_analyse(s->env->scratch, s->f, s->f->aligned);
    tc_row_boxes boxes;
    tc_tma tma;
    const char *why = tc_why_no_row_boxes(axes, load, &boxes);
    if (!why)
        tc_tma_of_rows(block, boxes.dim, boxes.rows, buffer, &tma, &why);
    if (why)
        return why;
    bulk->boxes = boxes;
    bulk->bytes =
        tma.bytes * ((uint32_t)tc_dim_value(buffer->dims[0]) / boxes.rows);
    return NULL;
}

static const char *find_copies(tc_warpspec *s, tc_tma_candidate *bulk)
{
    const tc_staged *staged = &bulk->staged;
    const tc_value *window = staged->load->in[0];
    const tc_op *block = tc_match_op(window, TC_BLOCK);
    const char *why = NULL;
    tc_tma tma;
    if (!block)
        return "a TMA copy needs a `block` of a tensor with its offsets here, "
               "not one that is carried, or pointers";
    if (tc_block_index(block))
        return find_boxes(s, bulk);
    if (!tc_tma_of(window, staged->alloc->out[0]->type, &tma, &why))
        return why;
    bulk->bytes = tma.bytes;
    return NULL;
}

static const char *refuse(tc_warpspec *s, tc_tma_candidate *bulk)
{
    const tc_staged *staged = &bulk->staged;
    const char *why = why_not_each_step(staged->load);
    if (!why)
        why = tc_why_not_copied(staged);
    if (!why)
        why = why_not_stored_each_step(staged);
    if (why)
        return why;
    why = find_copies(s, bulk);
    if (why)
        return why;
    return tc_why_not_ahead_alone(s, staged->load);
}

static void find_loads(tc_warpspec *s, tc_region *r, tc_tma_candidate ***end)
{
    tc_each_op (op, r) {
        tc_staged staged;
        if (tc_staged_of(op, &staged)) {
            tc_tma_candidate *bulk =
                tc_arena_new(s->env->scratch, tc_tma_candidate);
            *bulk = (tc_tma_candidate){.staged = staged};
            bulk->refusal = refuse(s, bulk);
            **end = bulk;
            *end = &bulk->next;
        }
        for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
            find_loads(s, op->regions[i], end);
    }
}

/* Does some loop of m64 mma get a copy? */
static bool is_worth_it(const tc_warpspec *s)
{
    for (const tc_tma_candidate *b = s->bulk; b; b = b->next) {
        const tc_op *loop = b->staged.load->parent->op;
        if (!b->refusal && loop && tc_is_innermost_product(loop) &&
            tc_op_any(loop, tc_is_group_mma))
            return true;
    }
    return false;
}

static void say_loads(const tc_warpspec *s)
{
    tc_context *cx = s->env->cx;
    for (const tc_tma_candidate *b = s->bulk; b; b = b->next) {
        if (!b->refusal)
            continue;
        tc_refuse_load(s->env, pass, b->staged.load, b->refusal);
        if (cx->want_remarks)
            tc_missed(cx, b->staged.load->loc, pass,
                      "load of %s not made a TMA copy: %s",
                      tc_loaded_name(cx, b->staged.load), b->refusal);
    }
}

/* ---- Rings ---- */

static const char *ring_name(tc_warpspec *s, const tc_tma_candidate *b)
{
    const tc_value *tensor = tc_accessed_tensor(b->staged.load);
    const char *name = tensor && tensor->name ? tensor->name : "tile";
    return b->moved ? tc_arena_printf(s->env->scratch, "%s.rows", name) : name;
}

static tc_ring *new_ring(tc_warpspec *s, tc_op *filled_by, const char *name)
{
    tc_ring *r = tc_arena_new(s->env->scratch, tc_ring);
    *r = (tc_ring){.region = filled_by->parent,
                   .once = filled_by->parent == s->f->body,
                   .name = name};
    return r;
}

/* The one mma that reads the ring's tiles; NULL: more do, or other ops. */
static tc_op *only_mma(tc_warpspec *s, const tc_ring *r)
{
    tc_ring_uses uses = tc_find_ring_uses(s->env->scratch, r);
    return uses.first == uses.last && tc_is_group_mma(uses.first) ? uses.first
                                                                  : NULL;
}

static bool is_bulk_copied(const tc_ring *r)
{
    return !r->bulk[0]->from;
}

/* Both operands of an mma arrive together. */
static bool joins(tc_warpspec *s, const tc_ring *before, const tc_ring *r)
{
    return before && before->nbulk == 1 && is_bulk_copied(before) &&
           is_bulk_copied(r) && before->region == r->region && only_mma(s, r) &&
           only_mma(s, before) == only_mma(s, r);
}

/* The smem_copy in each step of the load that alone reads its buffer; NULL:
 * there is no such. */
static tc_op *transposing_copy(const tc_tma_candidate *b)
{
    tc_op *copy = NULL;
    tc_each_use (u, b->staged.alloc->out[0]) {
        if (u->op == b->staged.store)
            continue;
        if (copy || u->op->code != TC_SMEM_COPY || u->index != 0 ||
            u->op->parent != b->staged.load->parent)
            return NULL;
        copy = u->op;
    }
    return copy;
}

/* The transposer copies what the load brings to a buffer with a ring of its
 * own, if the loop's copies leave time for that. NULL: it does not. */
static tc_tma_candidate *find_moved(tc_warpspec *s, tc_tma_candidate *b)
{
    tc_op *copy = transposing_copy(b), *loop = b->staged.load->parent->op;
    tc_op *to = copy ? copy->in[1]->def : NULL;
    if (!to || to->code != TC_SMEM_ALLOC || to->parent != copy->parent || !loop)
        return NULL;
    tc_tma_candidate *made = tc_arena_new(s->env->scratch, tc_tma_candidate);
    *made =
        (tc_tma_candidate){.staged = b->staged, .bytes = b->bytes, .from = b};
    made->staged.store = copy;
    made->staged.alloc = to;
    b->moved = true;
    return made;
}

static void find_rings(tc_warpspec *s)
{
    tc_ring **end = &s->rings, *last = NULL;
    for (tc_tma_candidate *b = s->bulk, *next; b; b = next) {
        next = b->from ? b->from->next : b->next;
        if (b->refusal)
            continue;
        tc_ring *r = new_ring(s, b->staged.load, ring_name(s, b));
        b->ring = r;
        r->bulk[r->nbulk++] = b;
        if (joins(s, last, r)) {
            last->bulk[last->nbulk++] = b;
            b->ring = last;
            continue;
        }
        *end = last = r;
        end = &r->next;
        tc_tma_candidate *moved = b->from ? NULL : find_moved(s, b);
        if (moved) {
            r->name = ring_name(s, b);
            next = moved;
        }
    }
}

/* Does the kernel's body load it only to have it in registers? */
static bool is_read_before_loops(const tc_warpspec *s,
                                 const tc_tma_candidate *b)
{
    tc_each_use (u, b->staged.alloc->out[0])
        if (u->op->parent != s->f->body ||
            (u->op->code != TC_SMEM_STORE && u->op->code != TC_SMEM_LOAD))
            return false;
    return true;
}

/* Where not all rings fit, consumers load what goes to registers before the
 * loops: other buffers take the place of theirs after that. */
static void leave_brief_loads(tc_warpspec *s)
{
    for (const tc_ring *r = s->rings; r; r = r->next)
        if (r->nbulk && (r->bulk[0]->from || r->bulk[0]->moved))
            return;
    for (tc_tma_candidate *b = s->bulk; b; b = b->next) {
        if (b->refusal || !is_read_before_loops(s, b))
            continue;
        b->refusal = "the memory of its buffer is needed after it is read";
        tc_missed(s->env->cx, b->staged.load->loc, pass,
                  "load of %s not made a TMA copy: %s",
                  tc_loaded_name(s->env->cx, b->staged.load), b->refusal);
    }
    s->rings = NULL;
    find_rings(s);
}

/* ---- What only one may do ---- */

/* The first op of the region that uses the value, or something in it; NULL:
 * none but the terminator. */
static tc_op *first_use(const tc_region *r, const tc_value *v)
{
    tc_map users = {.arena = &r->func->module->arena};
    tc_each_use (u, v)
        tc_map_set(&users, tc_ancestor_in(r, u->op), u->op);
    tc_each_op (op, r)
        if (tc_map_get(&users, op))
            return tc_op_has(op, TC_TERMINATOR) ? NULL : op;
    return NULL;
}

static bool refuse_all(const tc_warpspec *s, const tc_op *op, const char *why)
{
    tc_missed(s->env->cx, op->loc, pass,
              "no TMA copies: the producer cannot do this %s: %s",
              tc_op_name(op), why);
    return false;
}

static bool take_fetch(tc_warpspec *s, tc_op *fetch)
{
    const char *why = why_not_each_step(fetch);
    if (!why)
        why = tc_why_not_ahead_alone(s, fetch);
    if (why)
        return refuse_all(s, fetch, why);
    tc_ring *r = new_ring(s, fetch, "tile");
    r->fetched = true;
    r->nscalars = 1;
    r->scalars = fetch->out;
    r->before = first_use(fetch->parent, fetch->out[0]);
    tc_ring **end = &s->rings;
    while (*end)
        end = &(*end)->next;
    *end = r;
    return true;
}

/* Finds the ops of dynamic tile scheduling (the launch's tile counter). False:
 * the producer cannot run them. */
static bool take_tiles(tc_warpspec *s, tc_region *r)
{
    tc_each_op (op, r) {
        if (op->code == TC_NEXT_TILE && !take_fetch(s, op))
            return false;
        if (op->code == TC_END_TILES) {
            if (r != s->f->body)
                return refuse_all(s, op, "it is not in the kernel's body");
            s->end_tiles = op;
        }
        for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
            if (!take_tiles(s, op->regions[i]))
                return false;
    }
    return true;
}

/* ---- Before the roles ---- */

static tc_value *build_mbarriers(const tc_ring *r, tc_builder *b,
                                 const char *what, unsigned arrivals)
{
    tc_context *cx = b->func->module->cx;
    tc_op *op = tc_op_new(b->func, TC_MBARRIER_ALLOC, b->loc, 0, NULL, 0);
    tc_op_set_int(op, "arrivals", arrivals);
    if (r->nscalars)
        tc_op_set_word(op, "guards", "scalars");
    tc_value *v = tc_build_op(b, op, tc_type_mbarrier(cx, r->slots));
    v->name = tc_string_get(
        cx, tc_arena_printf(&cx->diag_arena, "%s.%s", what, r->name));
    return v;
}

static tc_value *build_ring(const tc_ring *r, tc_builder *b,
                            const tc_type *elements, const tc_layout *l,
                            const char *name)
{
    tc_context *cx = b->func->module->cx;
    const tc_type *tile = tc_type_shaped(cx, TC_TILE, elements->rank,
                                         elements->dims, elements->elem);
    const tc_type *t = tc_type_smem(cx, tile, l, r->slots > 1 ? r->slots : 0);
    tc_value *v = tc_build(b, TC_SMEM_ALLOC, 0, NULL, t);
    v->name =
        tc_string_get(cx, tc_arena_printf(&cx->diag_arena, "ring.%s", name));
    return v;
}

static tc_value *build_box(const tc_ring *r, tc_builder *b,
                           const tc_type *scalar)
{
    tc_context *cx = b->func->module->cx;
    const int32_t shape[] = {1};
    const unsigned order[] = {0};
    const tc_dim *one = tc_dim_const(cx, 1);
    const tc_type *tile = tc_type_shaped(cx, TC_TILE, 1, &one, scalar);
    const tc_layout *rows =
        tc_layout_swizzled(cx, 1, shape, order, 8 * tc_type_bytes(scalar), 0);
    return build_ring(r, b, tile, rows, r->name);
}

static void build_boxes(tc_warpspec *s, tc_ring *r, tc_builder *b)
{
    r->boxes = tc_arena_array(s->env->scratch, tc_value *, r->nscalars);
    for (unsigned i = 0; i < r->nscalars; i++)
        r->boxes[i] = build_box(r, b, r->scalars[i]->type);
}

/* Arrivals after which a slot is empty. */
static unsigned releases(const tc_warpspec *s, const tc_ring *r)
{
    bool moved = r->nbulk && r->bulk[0]->moved;
    return moved ? 1 : s->groups + r->for_transposer;
}

static void build_allocs(tc_warpspec *s, tc_builder *b)
{
    for (tc_ring *r = s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nbulk; i++) {
            const tc_op *alloc = r->bulk[i]->staged.alloc;
            const tc_type *t = alloc->out[0]->type;
            b->loc = alloc->loc;
            r->bulk[i]->buffers =
                build_ring(r, b, t, t->layout, ring_name(s, r->bulk[i]));
            if (r->freed)
                tc_op_set_attr(r->bulk[i]->buffers->def, "freed",
                               (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
        }
    for (tc_ring *r = s->rings; r; r = r->next) {
        b->loc = r->nbulk ? r->bulk[0]->staged.load->loc : r->scalars[0]->loc;
        build_boxes(s, r, b);
        r->full = build_mbarriers(r, b, "full", 1);
        if (!r->once)
            r->empty = build_mbarriers(r, b, "empty", releases(s, r));
    }
    b->loc = s->f->loc;
    tc_build_effect(b, TC_BARRIER, 0, NULL);
}

/* Scalars of the body that the producer needs and that are computed from such
 * scalars only. */
static void find_common_scalars(tc_warpspec *s)
{
    tc_each_op (op, s->f->body) {
        bool fits =
            tc_is_needed(s, op) && tc_op_has(op, TC_PURE) && op->nregions == 0;
        for (unsigned i = 0; fits && i < op->nin; i++)
            fits =
                !op->in[i]->def || tc_map_get(&s->both, op->in[i]->def) != NULL;
        if (fits)
            tc_map_set(&s->both, op, op);
    }
}

/* What decides whether the program ends at once, which is before the roles. */
static bool decides_before(tc_warpspec *s, tc_op *op)
{
    bool fits = op->parent == s->f->body && !op->nregions &&
                (tc_op_has(op, TC_PURE) || op->code == TC_GATHER ||
                 op->code == TC_EXIT_IF);
    for (unsigned i = 0; i < op->nout; i++)
        fits &= op->out[i]->type->kind != TC_TILE;
    for (unsigned i = 0; fits && i < op->nin; i++)
        fits = !op->in[i]->def || tc_map_get(&s->both, op->in[i]->def) ||
               decides_before(s, op->in[i]->def);
    if (fits)
        tc_map_set(&s->both, op, op);
    return fits;
}

/* Scalars that the kernel reads before an exit are read before it by all
 * threads: what a program waits for, it waits for once. */
static bool take_exits(tc_warpspec *s)
{
    const tc_op *last = NULL;
    tc_each_op (op, s->f->body)
        if (op->code == TC_EXIT_IF)
            last = op;
    for (tc_op *op = s->f->body->first; last && op != last->next;
         op = op->next) {
        bool decides = op->code == TC_EXIT_IF;
        if ((decides || op->code == TC_GATHER) && !decides_before(s, op) &&
            decides)
            return refuse_all(s, op,
                              "what decides it is not made of scalars that "
                              "all threads can compute");
    }
    return true;
}

/* A product of 16-bit numbers that reads operand A from shared memory. */
static bool reads_a(const tc_op *op)
{
    return op->code == TC_MMA && tc_wgmma_k(tc_op_word(op, "instr")) == 16 &&
           op->in[0]->type->kind == TC_SMEM;
}

static bool has_transposer(const tc_warpspec *s)
{
    for (const tc_ring *r = s->rings; r; r = r->next)
        if (r->nbulk && !is_bulk_copied(r))
            return true;
    return false;
}

/* A thread's registers are counted in eights, and all threads of the block have
 * equally many at first. What the producer gives back the consumers take: 24
 * and 240 of 168 for two groups, 32 and 160 of 128 for three. One group has
 * nothing to gain. Consumers that read operand A of 16 bits from shared memory
 * do with 232, and the producer of 24 would spill what it keeps of tiles so
 * large; those of 8 bits are half as many boxes, and their weights want
 * registers. */
static void set_registers(const tc_warpspec *s)
{
    unsigned fewest =
        has_transposer(s) ? TC_TRANSPOSER_MIN_REGISTERS : TC_ROLE_MIN_REGISTERS;
    bool keeps = tc_region_any(s->f->body, reads_a);
    tc_role_registers r;
    if (!tc_split_registers(s->env->target, s->groups, fewest, keeps, &r))
        return;
    const int64_t registers[] = {r.producer, r.consumer};
    tc_op_set_ints(s->roles, "registers", 2, registers);
}

/* ---- The whole ---- */

/* Marks the copies that the transposer does. */
static void mark_moving(tc_warpspec *s)
{
    for (const tc_ring *r = s->rings; r; r = r->next)
        if (r->nbulk && !is_bulk_copied(r))
            tc_need_in_transposer(s, r->bulk[0]->staged.store);
}

static void mark_needed(tc_warpspec *s)
{
    for (const tc_ring *r = s->rings; r; r = r->next) {
        for (unsigned i = 0; i < r->nscalars; i++)
            tc_need_in_producer(s, r->scalars[i]->def);
        for (unsigned i = 0; i < r->nbulk; i++)
            tc_need_in_producer(s, r->bulk[i]->staged.load);
    }
}

static void say_made(const tc_warpspec *s, const tc_ring *r)
{
    for (unsigned i = 0; i < r->nbulk; i++)
        tc_remark(s->env->cx, r->bulk[i]->staged.load->loc, pass,
                  r->bulk[i]->from
                      ? "tiles of %s put into the order of products by the "
                        "transposer: ring of %u, %u bytes%s"
                      : "load of %s made a TMA copy: ring of %u, %u bytes%s",
                  tc_loaded_name(s->env->cx, r->bulk[i]->staged.load), r->slots,
                  r->slots * r->bulk[i]->staged.bytes,
                  r->freed ? ", which others use after the loop" : "");
    for (unsigned i = 0; i < r->nscalars; i++)
        tc_remark(s->env->cx, r->scalars[i]->loc, pass,
                  "%s is computed by the producer only, which hands it over",
                  tc_value_name(s->env->cx, r->scalars[i]));
}

/* From the body's begin to `end`. */
static void move_to_consumer(tc_warpspec *s, const tc_op *end)
{
    tc_region *r = tc_consumers(s->roles);
    for (tc_op *op = s->f->body->first, *next; op != end; op = next) {
        next = op->next;
        if (tc_map_get(&s->both, op))
            continue;
        tc_op_remove(op);
        tc_op_insert(op, r, NULL);
    }
    tc_builder b = tc_builder_at_end(r, s->f->loc);
    tc_build_yield(&b, 0, NULL);
}

static void specialize(tc_warpspec *s)
{
    for (const tc_ring *r = s->rings; r && s->env->cx->want_remarks;
         r = r->next)
        say_made(s, r);
    find_common_scalars(s);
    tc_op *last = tc_region_terminator(s->f->body);
    s->roles = tc_op_new(s->f, TC_WARP_GROUPS, s->f->loc, 0, NULL,
                         has_transposer(s) ? 3 : 2);
    set_registers(s);
    tc_op_insert(s->roles, s->f->body, last);
    tc_op *before = s->roles->prev;
    tc_builder b = tc_builder_before(s->roles);
    build_allocs(s, &b);
    tc_build_producer(s);
    if (has_transposer(s))
        tc_build_transposer(s);
    move_to_consumer(s, before->next);
    if (s->end_tiles)
        tc_op_erase(s->end_tiles);
    tc_build_consumer(s);
}

static bool may_act(const tc_func *f, const tc_target *target)
{
    if (!target->tma || f->warps % TC_WARPGROUP_WARPS ||
        f->warps + TC_WARPGROUP_WARPS > TC_MAX_WARPS)
        return false;
    bool found = false;
    tc_each_op (op, f->body) {
        if (op->code == TC_WARP_GROUPS)
            return false;
        found |= tc_op_any(op, tc_is_group_mma);
    }
    return found;
}

bool tc_plan_rings(tc_warpspec *s, tc_func *f, tc_pass_env *env, bool say)
{
    if (!may_act(f, env->target))
        return false;
    *s = (tc_warpspec){.env = env,
                       .f = f,
                       .groups = tc_warpgroups(f->warps),
                       .needed = {.arena = env->scratch},
                       .moving = {.arena = env->scratch},
                       .both = {.arena = env->scratch}};
    bool want_remarks = env->cx->want_remarks;
    env->cx->want_remarks = want_remarks && say;
    tc_tma_candidate **end = &s->bulk;
    find_loads(s, f->body, &end);
    if (say)
        say_loads(s);
    bool ok = is_worth_it(s);
    if (ok) {
        find_rings(s);
        if (!tc_may_fit(s))
            leave_brief_loads(s);
        ok = take_tiles(s, f->body) && take_exits(s);
    }
    if (ok) {
        mark_needed(s);
        tc_find_channel(s);
        mark_moving(s);
        ok = tc_choose_slots(s);
    }
    env->cx->want_remarks = want_remarks;
    return ok;
}

tc_change tc_pass_specialize_warps(tc_func *f, tc_pass_env *env)
{
    tc_warpspec s;
    if (!tc_plan_rings(&s, f, env, true))
        return TC_UNCHANGED;
    specialize(&s);
    return TC_CHANGED;
}
