/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of mma.sync that are loaded in a narrower type: 8-bit caches and
 * weights.
 *
 *   %k = load ..  : tile<64x128 x f8e4m3>
 *   %w = cast %k  : tile<64x128 x bf16>
 *   %s = dot %q, trans(%w)
 *
 * becomes
 *
 *   %b = smem_alloc                           filled by asynchronous copies
 *   smem_store %b, %k                         (pipeline-loops)
 *   %n = smem_load (smem_trans %b) : tile<128x64 x f8e4m3, ..>
 *   %w = cast %n : tile<128x64 x bf16, ..>    a fragment, in registers
 *   %s = mma %q, %w, ..
 *
 * A thread reads words of four elements, where the instruction wants two next
 * to each other along K, and another two 8 further on. Two orders make that
 * the same:
 *
 *   K is the fast axis in memory       sums run along K in another order, for
 *                                      both operands (tc_mma_depth_order)
 *   columns are (B only)               the accumulator has its columns in
 *                                      another order: ldmatrix.trans brings
 *                                      two neighbours, of two products
 *
 *   K in 16, of a thread       0 1 8 9   ->  0 1 2 3
 *   columns, of two products   0 8       ->  0 1
 */
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/instructions/mma.h"
#include "passes/layout/assign_layouts.h"
#include "passes/target/machine_model.h"

static const char pass[] = "assign-layouts";

/* ---- Which operands ---- */

static const tc_op *trans_of(const tc_dot *d, unsigned i)
{
    return tc_match_op(d->op->in[i], TC_TRANS);
}

/* The cast that makes operand i of bytes that a load of the dot's loop brings;
 * NULL: there is none. */
static tc_op *cast_of(const tc_dot *d, unsigned i)
{
    const tc_op *trans = trans_of(d, i);
    tc_op *cast = tc_match_op(trans ? trans->in[0] : d->op->in[i], TC_CAST);
    const tc_op *load = cast ? tc_match_op(cast->in[0], TC_LOAD) : NULL;
    bool in_loop = load && d->loop && tc_is_nested_in(load, d->loop);
    return in_loop && tc_type_bytes(load->out[0]->type->elem) == 1 ? cast
                                                                   : NULL;
}

static bool is_mma_16(const tc_dot *d)
{
    return d && tc_mma_bits(d->instr) == 16 && !tc_dot_is_group(d);
}

/* Is this product the only user of the loaded tile? */
static bool is_for_one(const tc_dot *d, unsigned i)
{
    const tc_op *trans = trans_of(d, i);
    const tc_op *cast = cast_of(d, i);
    return tc_value_has_one_use(cast->in[0]) &&
           tc_value_has_one_use(cast->out[0]) &&
           (!trans || tc_value_has_one_use(trans->out[0]));
}

static bool is_k_fast(const tc_placing *s, const tc_dot *d, unsigned i)
{
    unsigned fast = tc_tile_fast_axis(s, cast_of(d, i)->in[0]);
    return (trans_of(d, i) ? 1 - fast : fast) == tc_mma_depth(i);
}

/* How many warps hold each element, as the instruction wants it. */
static int64_t holders_of(const tc_placing *s, const tc_dot *d, unsigned i)
{
    const tc_type *t = d->op->in[i]->type;
    const tc_layout *l = tc_mma_operand_of(
        s->cx, tc_layout_of_class(s, tc_class_root(d->c)), d->instr, t, i);
    return tc_layout_size(l, TC_REGISTER) * tc_threads(s->warps) /
           tc_type_count(t);
}

/* Why the operand cannot be widened after shared memory, apart from orders;
 * NULL: it can. */
static const char *why_not(const tc_placing *s, const tc_dot *d, unsigned i)
{
    int64_t holders = holders_of(s, d, i), most = s->target->mma_fp8 ? 2 : 1;
    if (!is_for_one(d, i))
        return "it is needed for other things too";
    if (holders > most)
        return tc_arena_printf(s->scratch,
                               "%lld warps need each element, and each would "
                               "widen it: use fewer rows or warps",
                               (long long)holders);
    if (is_k_fast(s, d, i))
        return d->packed ? "the registers that operand A comes from say the "
                           "order of K"
                         : NULL;
    return i == 0 ? "its rows lie side by side in memory, and not K" : NULL;
}

static void widened_say(const tc_placing *s, const tc_dot *d, unsigned i,
                        const char *why)
{
    const char *elem = tc_type_name(s->cx, cast_of(d, i)->in[0]->type->elem);
    if (why)
        tc_missed(s->cx, d->op->loc, pass,
                  "dot: operand %c is widened on its way to shared memory, "
                  "which it could be copied to as %s but for this: %s",
                  "AB"[i], elem, why);
    else
        tc_remark(s->cx, d->op->loc, pass,
                  "dot: operand %c is in shared memory as %s, widened in "
                  "registers",
                  "AB"[i], elem);
}

/* ---- Orders ---- */

/* Four elements of a thread side by side: bits of K are those of registers 0
 * and 3, then those of lanes. */
static const tc_bit_order by_words = {.n = 4, .to = {0, 2, 3, 1}};

/* Columns of two products side by side: the lowest bit of columns that
 * registers count becomes bit 0. False: there is none. */
static bool find_columns(const tc_layout *b, tc_bit_order *o)
{
    enum { LANES = 3 }; /* 8 columns of a product */
    for (unsigned bit = LANES; bit < TC_MAX_ORDER_BITS; bit++)
        for (unsigned i = 0; i < b->nmodes[TC_REGISTER]; i++) {
            const tc_mode *m = &b->modes[TC_REGISTER][i];
            if (m->count != 2 || m->image[1] != 1 << bit ||
                b->period[1] % (2 << bit))
                continue;
            o->n = bit + 1;
            for (unsigned k = 0; k < bit; k++)
                o->to[k] = (uint8_t)(k + 1);
            o->to[bit] = 0;
            return true;
        }
    return false;
}

static bool is_operand_a(tc_placing *s, const tc_class *c)
{
    for (const tc_dot *d = s->dots; d; d = d->next)
        if (tc_class_of(s, d->op->in[0]) == c)
            return true;
    return false;
}

static bool wants_columns(const tc_placing *s, const tc_dot *d,
                          const tc_class *c)
{
    return tc_class_root(d->c) == c && d->widened[1] && !is_k_fast(s, d, 1);
}

/* The order of columns of all products whose accumulators are in the class;
 * NULL: it is found. */
static const char *why_no_columns(tc_placing *s, tc_class *c, tc_bit_order *o)
{
    if (c->order.n || is_operand_a(s, c))
        return "another product says the order of its columns";
    for (const tc_dot *d = s->dots; d; d = d->next)
        if (tc_class_root(d->c) == c && !wants_columns(s, d, c))
            return "the sum is that of another product too, with columns in "
                   "another order";
    const tc_layout *b =
        tc_mma_operand_of(s->cx, tc_layout_of_class(s, c), c->dot->instr,
                          c->dot->op->in[1]->type, 1);
    return find_columns(b, o) ? NULL
                              : "its columns lie side by side in memory, and a "
                                "warp has no even number of products along "
                                "them: use fewer warps";
}

static void choose_columns(tc_placing *s, tc_class *c)
{
    tc_bit_order order = {0};
    const char *why = why_no_columns(s, c, &order);
    for (tc_dot *d = s->dots; d; d = d->next)
        if (wants_columns(s, d, c)) {
            widened_say(s, d, 1, why);
            d->widened[1] = !why;
        }
    if (!why)
        c->order = order;
}

static void choose_operand(tc_placing *s, tc_dot *d, unsigned i)
{
    if (!is_mma_16(d) || !cast_of(d, i))
        return;
    const char *why = why_not(s, d, i);
    d->widened[i] = !why;
    if (why || is_k_fast(s, d, i))
        widened_say(s, d, i, why);
    if (!why && is_k_fast(s, d, i))
        d->k_order = by_words;
}

void tc_dots_widen(tc_placing *s)
{
    for (tc_dot *d = s->dots; d; d = d->next)
        for (unsigned i = 0; i < 2; i++)
            choose_operand(s, d, i);
    for (tc_class *c = s->all; c; c = c->next)
        if (!c->parent && is_mma_16(c->dot))
            choose_columns(s, c);
}

/* ---- The operand ---- */

const tc_layout *tc_dot_operand(const tc_placing *s, const tc_dot *d,
                                unsigned i)
{
    const tc_layout *l = tc_mma_operand_of(s->cx, d->op->out[0]->type->layout,
                                           d->instr, d->op->in[i]->type, i);
    return l && d->k_order.n
               ? tc_layout_reorder(s->cx, l, tc_mma_depth(i), &d->k_order)
               : l;
}

tc_value *tc_dot_widened(tc_placing *s, const tc_dot *d, unsigned i)
{
    tc_op *cast = cast_of(d, i);
    const tc_op *trans = trans_of(d, i);
    tc_value *v = tc_dot_view(s, d, cast->in[0], trans);
    const tc_type *t =
        tc_type_with_layout(s->cx, d->op->in[i]->type, tc_dot_operand(s, d, i));
    tc_builder b = tc_builder_before(d->op);
    b.loc = cast->loc;
    v = tc_build(&b, TC_SMEM_LOAD, 1, &v,
                 tc_type_with_elem(s->cx, t, cast->in[0]->type->elem));
    return tc_build_like(&b, cast, &v, t);
}
