/* SPDX-License-Identifier: Apache-2.0
 *
 * The producer: the loops around the TMA loads with the ops that these need,
 * and nothing else.
 *
 *   for .. carry(%count = 0) {
 *     mbarrier_wait %empty, %slot, %phase         not where it is filled once
 *     mbarrier_arrive %full, %slot bytes(16384)
 *     %buffer = smem_index %ring, %slot
 *     tma_load block %k[..], %buffer, %full, %slot
 *     ..
 *
 * A ring whose memory is aliased (lent) is released late. The copies of the
 * first step of the loop after it do not wait for that:
 *
 *   for %n0 = 0 to %n {
 *     ..                                      copies of %k
 *     if %n0 == 0 {
 *       mbarrier_wait %empty.q, ..
 *       ..                                    the copy of %q
 *     }
 *   }
 *   if 0 >= %n { .. }                         that copy, where there is no step
 */
#include "passes/warpspec/warpspec.h"

#include "passes/analysis/match.h"
#include "passes/analysis/roles.h"
#include "passes/instructions/hints.h"
#include "passes/windows/element_at.h"

static tc_value *here(void *user, tc_value *scalar)
{
    return tc_role_here(user, scalar);
}

/* The index of a row, looked up once for all copies of a step. */
static tc_value *index_of_row(tc_role_builder *e, tc_value *index, unsigned row,
                              tc_builder *b)
{
    tc_row_index *known = tc_map_get(&e->indices, index);
    for (tc_row_index *k = known; k; k = k->next)
        if (k->row == row && k->region == b->region)
            return k->v;
    tc_elements at = {.b = b, .leaf = here, .user = e};
    const tc_type *i32 = tc_type_scalar(e->s->env->cx, TC_I32);
    tc_value *position = tc_build_int(b, i32, row);
    tc_row_index *k = tc_arena_new(e->s->env->scratch, tc_row_index);
    *k = (tc_row_index){known, b->region, row,
                        tc_element_at(&at, index, &position)};
    tc_map_set(&e->indices, index, k);
    return k->v;
}

/* The windows to copy: one, or the boxes of windows by index. */
typedef struct boxes {
    unsigned n;
    tc_value **windows;
} boxes;

static tc_value *build_box(tc_role_builder *e, const tc_tma_candidate *bulk,
                           unsigned i, tc_builder *b)
{
    const tc_op *block = bulk->staged.load->in[0]->def;
    tc_value *in[TC_MAX_RANK];
    for (unsigned k = 1; k < block->nin; k++)
        in[k - 1] = block->in[k]->type->kind == TC_TILE
                        ? index_of_row(e, block->in[k], i * bulk->boxes.rows, b)
                        : tc_role_here(e, block->in[k]);
    return tc_build_row_box(b, block, &bulk->boxes, in);
}

/* Finds the boxes before the wait for a free slot, so that indices are loaded
 * meanwhile. */
static boxes find_boxes(tc_role_builder *e, const tc_tma_candidate *bulk,
                        tc_builder *b)
{
    tc_value *window = bulk->staged.load->in[0];
    unsigned rows = bulk->boxes.rows;
    boxes x = {rows ? (unsigned)tc_dim_value(window->type->dims[0]) / rows : 1,
               NULL};
    x.windows = tc_arena_array(e->s->env->scratch, tc_value *, x.n);
    for (unsigned i = 0; i < x.n; i++)
        x.windows[i] =
            rows ? build_box(e, bulk, i, b) : tc_role_here(e, window);
    return x;
}

static void issue(tc_role_builder *e, tc_ring *r, const tc_tma_candidate *bulk,
                  tc_builder *b)
{
    boxes x = find_boxes(e, bulk, b);
    if (bulk == r->bulk[0]) {
        tc_find_slot(r, b);
        uint32_t bytes = 0;
        for (unsigned i = 0; i < r->nbulk; i++)
            bytes += r->bulk[i]->bytes;
        if (r->empty)
            tc_wait_until_empty(r, b);
        tc_op_set_int(tc_build_arrive(r, b, r->full), "bytes", bytes);
    }
    for (unsigned i = 0; i < x.n; i++) {
        tc_op *load = tc_build_tma_load(r, b, x.windows[i], bulk->buffers);
        tc_hints_move("specialize-warps", load, bulk->staged.load,
                      "a TMA load goes from the L2 cache to shared memory");
        if (x.n > 1)
            tc_op_set_int(load, "row", (int64_t)i * bulk->boxes.rows);
    }
}

static bool issue_if_bulk(tc_role_builder *e, const tc_op *load, tc_builder *b)
{
    for (tc_ring *r = e->s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nbulk; i++)
            if (r->bulk[i]->staged.load == load && !r->bulk[i]->from) {
                if (!r->after)
                    issue(e, r, r->bulk[i], b);
                return true;
            }
    return false;
}

/* ---- What comes after a loop's first step ---- */

static bool is_within(const tc_ring *r, const tc_op *op)
{
    const tc_op *in = r->region->op;
    while (in && in != op)
        in = in->parent->op;
    return in != NULL;
}

static bool has_ring(const tc_warpspec *s, const tc_op *op)
{
    for (const tc_ring *r = s->rings; r; r = r->next)
        if (is_within(r, op))
            return true;
    return false;
}

/* The loop after the load that fills the next rings; NULL: there is none, or it
 * is nested in loops whose steps wait for what is computed from the copy. */
static const tc_op *loop_after(const tc_warpspec *s, const tc_op *load)
{
    const tc_op *op = load->next;
    while (op && !has_ring(s, op))
        op = op->next;
    if (!op || op->code != TC_FOR)
        return NULL;
    for (const tc_ring *r = s->rings; r; r = r->next)
        if (is_within(r, op) && r->region != op->regions[0])
            return NULL;
    return op;
}

static void find_loops_after(tc_warpspec *s)
{
    for (tc_ring *r = s->rings; r; r = r->next)
        if (r->lent && !r->bulk[0]->from)
            r->after = loop_after(s, r->bulk[r->nbulk - 1]->staged.load);
}

/* Issues the ring's copies only if the two bounds compare so. */
static void issue_if(tc_role_builder *e, tc_ring *r, const char *pred,
                     tc_value *x, tc_value *y, tc_builder *b)
{
    b->loc = r->bulk[0]->staged.load->loc;
    tc_value *is =
        tc_build_cmp(b, pred, tc_role_here(e, x), tc_role_here(e, y));
    tc_builder then;
    tc_build_when(b, is, &then);
    for (unsigned i = 0; i < r->nbulk; i++)
        issue(e, r, r->bulk[i], &then);
}

static void issue_in_first_step(tc_role_builder *e, const tc_region *r,
                                tc_builder *b)
{
    for (tc_ring *ring = e->s->rings; ring; ring = ring->next)
        if (ring->after && ring->after->regions[0] == r)
            issue_if(e, ring, "eq", r->args[0], ring->after->in[0], b);
}

static void issue_without_step(tc_role_builder *e, const tc_op *loop,
                               tc_builder *b)
{
    for (tc_ring *ring = e->s->rings; ring; ring = ring->next)
        if (ring->after == loop)
            issue_if(e, ring, "ge", loop->in[0], loop->in[1], b);
}

/* ---- The next step, of rings with one slot ---- */

/* Of a ring with one slot the copy of the next step begins as this step's
 * products are done with it. So that it is short then, l2_prefetch(next) of the
 * loop asks the L2 cache for it now:
 *
 *   %next = add %n0, %step
 *   if %next < %end { .. tma_prefetch block %k[..], %buffer .. }
 *
 * Only where the text says so: there are twice as many requests, and blocks of
 * rows that share keys bring them to the L2 cache for each other.
 */
static bool is_refilled(const tc_ring *ring, const tc_region *r)
{
    return ring->region == r && ring->nbulk && ring->slots == 1 &&
           !ring->lent && !ring->after && ring->empty && !ring->bulk[0]->from;
}

/* Ops that the copies of r need, which may be done twice. */
static bool may_be_repeated(const tc_role_builder *e, const tc_region *r)
{
    const tc_op *last = tc_region_terminator(r);
    for (const tc_op *op = r->first; op != last; op = op->next)
        if (tc_map_get(e->needed, op) &&
            (op->nregions || (!tc_op_is_pure(op) && op->code != TC_GATHER)))
            return false;
    return true;
}

static void prefetch_boxes(tc_role_builder *e, const tc_tma_candidate *bulk,
                           tc_builder *b)
{
    boxes x = find_boxes(e, bulk, b);
    for (unsigned i = 0; i < x.n; i++) {
        tc_value *in[] = {x.windows[i], bulk->buffers};
        tc_op *op = tc_build_effect(b, TC_TMA_PREFETCH, 2, in);
        if (x.n > 1)
            tc_op_set_int(op, "row", (int64_t)i * bulk->boxes.rows);
    }
}

static void repeat_ops(tc_role_builder *e, const tc_region *r, tc_builder *b)
{
    const tc_op *last = tc_region_terminator(r);
    for (const tc_op *op = r->first; op != last; op = op->next)
        if (tc_map_get(e->needed, op) && !tc_map_get(&e->s->both, op))
            tc_role_emit(e, op, b);
    for (tc_ring *ring = e->s->rings; ring; ring = ring->next)
        for (unsigned i = 0; is_refilled(ring, r) && i < ring->nbulk; i++)
            prefetch_boxes(e, ring->bulk[i], b);
}

static bool is_prefetching(const tc_role_builder *e, const tc_op *loop)
{
    if (!tc_op_is_word(loop, "l2_prefetch", "next"))
        return false;
    if (may_be_repeated(e, loop->regions[0]))
        return true;
    tc_missed(e->s->env->cx, loop->loc, "specialize-warps",
              "for: l2_prefetch(next) is not obeyed: the addresses of a "
              "step are computed by loops, branches or loads");
    return false;
}

/* At the end of step r. */
static void prefetch_next(tc_role_builder *e, const tc_region *r, tc_builder *b)
{
    tc_op *loop = r->op;
    if (!loop || loop->code != TC_FOR || !is_prefetching(e, loop))
        return;
    const tc_op *yield = tc_region_terminator(r);
    b->loc = loop->loc;
    tc_value *next = tc_build_binary(b, TC_ADD, tc_role_here(e, r->args[0]),
                                     tc_role_here(e, loop->in[2]));
    tc_value *goes_on =
        tc_build_cmp(b, "lt", next, tc_role_here(e, loop->in[1]));
    tc_builder in;
    tc_build_when(b, goes_on, &in);
    tc_arena *a = e->s->env->scratch;
    tc_role_builder then = *e;
    then.outer = e;
    then.values = then.indices = (tc_map){.arena = a};
    tc_map_set(&then.values, r->args[0], next);
    for (unsigned i = 0; i < yield->nin; i++)
        tc_map_set(&then.values, r->args[1 + i], tc_role_here(e, yield->in[i]));
    repeat_ops(&then, r, &in);
}

/* ---- The scalar channel ---- */

static void begin_put(tc_ring *r, tc_builder *b)
{
    tc_find_slot(r, b);
    if (r->empty)
        tc_wait_until_empty(r, b);
}

static void producer_put(tc_role_builder *e, const tc_ring *r, unsigned i,
                         tc_builder *b)
{
    tc_value *in[] = {tc_build_slot(r, b, r->boxes[i]),
                      tc_role_here(e, r->scalars[i])};
    tc_build_effect(b, TC_SMEM_STORE_SCALAR, 2, in);
}

/* Sends fetched tile numbers to the consumers as late as possible, as a fetch
 * takes some time. */
static void put_fetched(tc_role_builder *e, const tc_region *r,
                        const tc_op *before, tc_builder *b)
{
    for (tc_ring *ring = e->s->rings; ring; ring = ring->next) {
        if (!ring->fetched || ring->region != r || ring->before != before)
            continue;
        b->loc = ring->scalars[0]->loc;
        begin_put(ring, b);
        producer_put(e, ring, 0, b);
        tc_build_arrive(ring, b, ring->full);
    }
}

/* Sends computed scalars at once, so that they need not be kept. */
static void put_computed(tc_role_builder *e, const tc_op *op, tc_builder *b)
{
    for (tc_ring *r = e->s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nscalars && !r->fetched; i++) {
            if (r->scalars[i]->def != op)
                continue;
            if (i == 0)
                begin_put(r, b);
            producer_put(e, r, i, b);
            if (i + 1 == r->nscalars)
                tc_build_arrive(r, b, r->full);
        }
}

static void before(tc_role_builder *e, const tc_region *r, const tc_op *op,
                   tc_builder *b)
{
    if (!op)
        issue_in_first_step(e, r, b);
    put_fetched(e, r, op, b);
    if (!op)
        prefetch_next(e, r, b);
}

static void after(tc_role_builder *e, const tc_op *op, tc_builder *b)
{
    issue_without_step(e, op, b);
    put_computed(e, op, b);
}

void tc_build_producer(tc_warpspec *s)
{
    find_loops_after(s);
    tc_role_builder e = {.s = s,
                         .needed = &s->needed,
                         .values = {.arena = s->env->scratch},
                         .indices = {.arena = s->env->scratch},
                         .before = before,
                         .instead = issue_if_bulk,
                         .after = after};
    tc_builder b = tc_builder_at_end(tc_producer(s->roles), s->roles->loc);
    tc_build_role(&e, &b);
    if (s->end_tiles)
        tc_op_insert(
            tc_op_new(s->f, TC_END_TILES, s->end_tiles->loc, 0, NULL, 0),
            b.region, NULL);
    tc_build_yield(&b, 0, NULL);
}
