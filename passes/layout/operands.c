/* SPDX-License-Identifier: Apache-2.0
 *
 * Dots become mma: where their operands come from.
 *
 *   %d = dot %q, trans(%k), %c
 *
 *   %b = smem_alloc : smem<64x128 x bf16, #rows>    right after %k
 *   smem_store %b, %k
 *   %t = smem_trans %b
 *   %d = mma %q1, %t, %c instr(m16n8k16)            %q1: tile<.., #mma_a(4x1)>
 *
 * Operand A stays in registers if the same warp holds it, or if a loop does not
 * change it and there are registers for all of it. B of wgmma is always a
 * buffer.
 */
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/instructions/mma.h"
#include "passes/layout/assign_layouts.h"
#include "passes/target/machine_model.h"

#include <string.h>

static const char pass[] = "assign-layouts";

static int64_t count_of(const tc_value *v)
{
    return tc_type_count(v->type);
}

/* ---- Buffers ---- */

/* The buffer that holds v, written right after its definition. */
static tc_value *buffer_of(tc_placing *s, tc_value *v)
{
    tc_value *made = tc_map_get(&s->buffers, v);
    if (made)
        return made;
    tc_value *tile = v;
    if (!v->type->layout)
        tile = tc_relayout_get(&s->relayout, v, tc_layout_default(s, v->type));
    unsigned order[TC_MAX_RANK], rank = v->type->rank;
    unsigned fast = tc_tile_fast_axis(s, v);
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(v->type, sides);
    for (unsigned i = 0; i < rank; i++)
        order[i] = tc_dim_by_stride(rank, fast, i);
    const tc_layout *layout = tc_layout_swizzled(
        s->cx, rank, sides, order, 8 * tc_type_bytes(v->type->elem), 0);
    tc_builder b = tc_builder_after(s->f, tile, v->loc);
    if (v->def)
        b.loc = v->def->loc;
    made = tc_build(&b, TC_SMEM_ALLOC, 0, NULL,
                    tc_type_smem(s->cx, tile->type, layout, 0));
    tc_value *in[] = {made, tile};
    tc_op_insert(tc_op_new(s->f, TC_SMEM_STORE, b.loc, 2, in, 0), b.region,
                 b.before);
    tc_forget_speculatable(b.region);
    tc_map_set(&s->buffers, v, made);
    return made;
}

static bool is_before(const tc_value *v, const tc_op *loop)
{
    return loop && !tc_is_defined_in(v, loop);
}

/* 32-bit registers that an operand in this layout takes. */
static int64_t registers_of(const tc_type *t, const tc_layout *l)
{
    return (int64_t)tc_layout_size(l, TC_REGISTER) * tc_type_bytes(t->elem) / 4;
}

/* Registers of a thread that may be in use so that nothing spills. */
typedef struct budget {
    int64_t held; /* by accumulators, and operands that stay in registers */
    int64_t others, most;
} budget;

/* Before any dot is lowered. */
static bool adds_to_product(const tc_dot *d)
{
    const tc_op *sum = d->op->nin == 3 ? d->op->in[2]->def : NULL;
    return sum && sum->code == TC_DOT && sum->parent == d->op->parent;
}

/* Of the loop of `d`. */
static budget budget_of(const tc_placing *s, const tc_dot *d)
{
    bool group = tc_dot_is_group(d);
    int64_t threads = tc_threads(s->warps);
    budget b = {0, TC_SPARE_MMA_REGISTERS, TC_STEP_MAX_REGISTERS};
    if (group) /* sums stay live while the next step's are computed */
        b = (budget){0, TC_SPARE_WGMMA_REGISTERS,
                     tc_expected_consumer_registers(s->target, s->warps)};
    for (tc_dot *e = s->dots; e; e = e->next) {
        if (e->loop != d->loop)
            continue;
        b.held += e->kept;
        if (!e->adds_to_product)
            b.held += count_of(e->op->out[0]) / threads;
        if (group)
            b.held += tc_spread_registers(e->packed, s->warps);
    }
    return b;
}

static bool is_kept_through(const tc_value *v, const tc_op *loop)
{
    const tc_region *r = v->def ? v->def->parent : v->region;
    const tc_op *at = loop;
    while (at && at->parent != r)
        at = at->parent->op;
    const tc_op *op = v->def ? v->def->next : r->first;
    while (op && op != at)
        op = op->next;
    return at && op;
}

/* Registers of the loop of `d` for `fragments`, which one of its dots keeps. */
static int64_t kept_of(const tc_placing *s, const tc_dot *d,
                       const tc_value *fragments)
{
    for (const tc_dot *e = s->dots; fragments && e; e = e->next)
        if (e->loop == d->loop && e->fragments == fragments)
            return e->kept;
    return 0;
}

/* Of the loops through which what is read before them is kept, up to that of
 * `d`, the one with the fewest registers left. Fragments that a loop keeps
 * already take no more there. */
static budget fullest(const tc_placing *s, const tc_dot *d, const tc_value *v,
                      const tc_value *fragments)
{
    budget most = budget_of(s, d);
    for (const tc_dot *e = s->dots; e && e != d; e = e->next) {
        budget b = budget_of(s, e);
        b.held -= kept_of(s, e, fragments);
        if (is_kept_through(v, e->loop) &&
            b.held + b.others - b.most > most.held + most.others - most.most)
            most = b;
    }
    return most;
}

/* What fills the buffer: a store, or else its first user. */
static tc_op *filled_by(tc_value *buffer)
{
    tc_op *store = buffer->uses->op;
    tc_each_use (u, buffer)
        if (u->op->code == TC_SMEM_STORE)
            store = u->op;
    return store;
}

/* One tile for all dots that read it; NULL: no dot does yet. */
static tc_value *read_after(const tc_op *store, const tc_value *buffer,
                            const tc_layout *l)
{
    for (tc_op *op = store->next; op && op->code == TC_SMEM_LOAD; op = op->next)
        if (op->in[0] == buffer && op->out[0]->type->layout == l)
            return op->out[0];
    return NULL;
}

/* An operand A that a loop does not change, in shared memory: its fragments are
 * read once, before the loop, if there are registers for them. */
static tc_value *keep_fragments(tc_placing *s, tc_dot *d, tc_value *v,
                                tc_value *buffer, const tc_layout *l)
{
    if (!l || !is_before(v, d->loop))
        return NULL;
    tc_op *store = filled_by(buffer);
    tc_value *fragments = read_after(store, buffer, l);
    int64_t more = registers_of(v->type, l);
    budget b = fullest(s, d, v, fragments);
    bool fits = b.held + more + b.others <= b.most;
    (fits ? tc_remark : tc_missed)(
        s->cx, d->op->loc, pass,
        "dot: operand A is the same in every step: %s (%lld registers "
        "for it, %lld for accumulators%s, %lld others, expected at most "
        "%lld)",
        fits ? "kept in registers" : "read from shared memory each time",
        (long long)more, (long long)b.held,
        tc_dot_is_group(d) ? " and products' operands" : "",
        (long long)b.others, (long long)b.most);
    if (!fits)
        return NULL;
    d->kept = more;
    tc_builder at = {.func = s->f,
                     .region = store->parent,
                     .before = store->next,
                     .loc = store->loc};
    if (!fragments)
        fragments = tc_build(&at, TC_SMEM_LOAD, 1, &buffer,
                             tc_type_with_layout(s->cx, v->type, l));
    d->fragments = fragments;
    return fragments;
}

/* From registers of the same warp, in the layout of the fragments; NULL: other
 * warps hold what is needed. */
static tc_value *from_registers(tc_placing *s, const tc_dot *d, tc_value *v,
                                unsigned i, const tc_layout *l)
{
    const tc_layout *from = v->type->layout;
    if (!l || !from || tc_relayout_is_cheap(&s->relayout, v))
        return NULL;
    tc_conversion c = tc_layout_conversion(s->cx, from, l);
    if (c == TC_CONVERT_SHARED)
        return NULL;
    tc_remark(s->cx, d->op->loc, pass, "dot: operand %s stays in registers%s",
              i ? "B" : "A",
              c == TC_CONVERT_SHUFFLES ? ", exchanged by shuffles" : "");
    return tc_relayout_get(&s->relayout, v, l);
}

/* ---- Computed in registers ---- */

/* Of ops that give a tile lane by lane, or its lanes in other places. */
static bool keeps_lanes(const tc_op *op)
{
    return op->nout == 1 && !op->nregions && tc_op_has(op, TC_PURE) &&
           (tc_op_has(op, TC_ELEMENTWISE) || op->code == TC_EXPAND_DIMS ||
            op->code == TC_BROADCAST || op->code == TC_TRANS);
}

/* Can it be computed in any layout, from what the loop loads and from values
 * from before it? *loads counts its loads. */
static bool is_computed(tc_placing *s, const tc_dot *d, const tc_value *v,
                        unsigned *loads)
{
    if (tc_relayout_is_cheap(&s->relayout, v) || is_before(v, d->loop))
        return true;
    if (!v->def || v->def->parent->op != d->loop)
        return false;
    if (v->def->code == TC_LOAD) {
        (*loads)++;
        return tc_load_can_be_ahead(s, v->def);
    }
    if (!keeps_lanes(v->def))
        return false;
    for (unsigned i = 0; i < v->def->nin; i++)
        if (v->def->in[i]->type->kind == TC_TILE &&
            !is_computed(s, d, v->def->in[i], loads))
            return false;
    return true;
}

static tc_value *compute(tc_placing *s, const tc_dot *d, tc_value *v,
                         const tc_layout *l);

static tc_value *compute_op(tc_placing *s, const tc_dot *d, tc_op *op,
                            const tc_layout *l)
{
    const tc_type *t = tc_type_with_layout(s->cx, op->out[0]->type, l);
    tc_builder b = tc_builder_before(d->op);
    b.loc = op->loc;
    if (op->code == TC_LOAD) {
        tc_value *buffer = buffer_of(s, op->out[0]);
        return tc_build(&b, TC_SMEM_LOAD, 1, &buffer, t);
    }
    tc_value **in = tc_arena_array(s->scratch, tc_value *, op->nin + 1);
    const tc_layout *below =
        tc_op_has(op, TC_ELEMENTWISE) ? l : tc_layout_of_operand(s->cx, op, l);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = op->in[i]->type->kind == TC_TILE
                    ? compute(s, d, op->in[i], below)
                    : op->in[i];
    return tc_build_like(&b, op, in, t);
}

/* Once for all dots of a region. */
static tc_value *compute(tc_placing *s, const tc_dot *d, tc_value *v,
                         const tc_layout *l)
{
    if (v->type->layout == l || is_before(v, d->loop) ||
        tc_relayout_is_cheap(&s->relayout, v))
        return tc_relayout_get(&s->relayout, v, l);
    tc_value *made = tc_map_get(&s->computed, v);
    if (!made || made->type->layout != l)
        made = compute_op(s, d, v->def, l);
    tc_map_set(&s->computed, v, made);
    return made;
}

/* Operand A that is computed from what the loop loads: each warp computes its
 * rows, from shared memory. NULL: it is not, or others hold them too. */
static tc_value *computed(tc_placing *s, const tc_dot *d, unsigned i,
                          const tc_layout *l)
{
    tc_value *v = d->op->in[i];
    unsigned loads = 0;
    if (i != 0 || !l || !d->loop || !tc_dot_is_group(d) ||
        tc_dot_group((tc_dot *)d)->wn > 1 || !v->def ||
        v->def->code == TC_LOAD || v->def->code == TC_TRANS ||
        !is_computed(s, d, v, &loads) || !loads)
        return NULL;
    tc_remark(s->cx, d->op->loc, pass,
              "dot: operand A is computed in registers from what is loaded");
    return compute(s, d, v, l);
}

tc_value *tc_dot_view(tc_placing *s, const tc_dot *d, tc_value *from,
                      const tc_op *trans)
{
    tc_operand_view view = {.trans = trans, .from = from};
    return tc_build_operand_view(s, &view, buffer_of(s, from), d->op);
}

static tc_value *operand(tc_placing *s, tc_dot *d, unsigned i)
{
    tc_value *v = d->op->in[i];
    if (d->widened[i])
        return tc_dot_widened(s, d, i);
    const tc_layout *l = tc_dot_operand(s, d, i);
    tc_value *kept = from_registers(s, d, v, i, l);
    if (kept)
        return kept;
    if (i == 0 && l && tc_dot_is_group(d) &&
        tc_relayout_is_cheap(&s->relayout, v)) /* each warp computes its own */
        return tc_relayout_get(&s->relayout, v, l);
    kept = computed(s, d, i, l);
    if (kept)
        return kept;
    tc_operand_view view = tc_operand_view_of(s, v);
    tc_value *buffer = buffer_of(s, view.from);
    if (d->moved[i])
        buffer = tc_dot_move(s, d, i, buffer);
    else
        tc_dot_enforce_major(s, d, i);
    if (i == 0 && view.from == v)
        kept = keep_fragments(s, d, v, buffer, l);
    return kept ? kept : tc_build_operand_view(s, &view, buffer, d->op);
}

static tc_value *accumulator(tc_placing *s, const tc_dot *d)
{
    const tc_op *op = d->op;
    const tc_type *t = op->out[0]->type;
    if (op->nin == 3)
        return tc_relayout_get(&s->relayout, op->in[2], t->layout);
    tc_builder b = tc_builder_before(d->op);
    tc_value *zero = tc_type_is_int(t->elem) ? tc_build_int(&b, t->elem, 0)
                                             : tc_build_float(&b, t->elem, 0.0);
    return tc_build(&b, TC_SPLAT, 1, &zero, t);
}

static void lower(tc_placing *s, tc_dot *d)
{
    tc_op *op = d->op;
    tc_value *in[3];
    for (unsigned i = 0; i < 2; i++)
        in[i] = operand(s, d, i);
    in[2] = accumulator(s, d);
    tc_builder b = tc_builder_before(op);
    tc_op *mma = tc_op_new(s->f, TC_MMA, op->loc, 3, in, 0);
    tc_op_set_word(mma, "instr", d->instr);
    tc_op_set_attr(mma, "linear_bias", *tc_op_attr(op, "linear_bias"));
    tc_op_set_word(mma, "unsigned", tc_op_word(op, "unsigned"));
    if (tc_op_is_word(op, "operands", "swapped"))
        tc_op_set_word(mma, "operands", "swapped");
    if (strcmp(d->instr, "m16n8k8") == 0)
        tc_op_set_word(mma, "precision", tc_op_word(op, "precision"));
    tc_value *result = tc_build_op(&b, mma, NULL);
    result->name = op->out[0]->name;
    result->loc = op->out[0]->loc;
    tc_value_replace(op->out[0], result);
    tc_op_erase(op);
}

void tc_dots_lower(tc_placing *s)
{
    s->buffers.arena = s->computed.arena = s->scratch;
    for (tc_dot *d = s->dots; d; d = d->next)
        d->adds_to_product = adds_to_product(d);
    for (tc_dot *d = s->dots; d; d = d->next)
        lower(s, d);
}
