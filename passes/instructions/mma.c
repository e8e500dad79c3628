/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/instructions/mma.h"
#include "passes/instructions/wgmma.h"

#include <string.h>

/* Warps along rows and along columns, as an accumulator's layout has them. */
static void count_warps(const tc_layout *c, int *wm, int *wn)
{
    *wm = *wn = 1;
    for (unsigned i = 0; i < c->nmodes[TC_WARP]; i++) {
        const tc_mode *m = &c->modes[TC_WARP][i];
        *(m->image[0] ? wm : wn) *= (int)m->count;
    }
}

bool tc_mma_grid(const tc_layout *c, int *wm, int *wn)
{
    if (c->rank != 2 || tc_layout_is_shared(c))
        return false;
    count_warps(c, wm, wn);
    return tc_layout_mma_c(c->cx, c->shape, *wm, *wn) == c;
}

const tc_layout *tc_mma_plain(const tc_layout *c, tc_bit_order *columns)
{
    int wm, wn;
    *columns = (tc_bit_order){0};
    /* Groups side by side are an order of warps side by side. */
    if (!c || c->rank != 2 || tc_layout_is_shared(c) ||
        tc_wgmma_grid(c, &wm, &wn))
        return c;
    count_warps(c, &wm, &wn);
    const tc_layout *plain = tc_layout_mma_c(c->cx, c->shape, wm, wn);
    if (tc_layout_order_of(plain, c, 1, columns))
        return plain;
    *columns = (tc_bit_order){0};
    return c;
}

const tc_type *tc_mma_plain_operand(tc_context *cx, const tc_type *t,
                                    unsigned i, const tc_bit_order *columns)
{
    tc_bit_order back = tc_bit_order_inverse(columns);
    if (i != 1 || !columns->n || t->rank != 2 || !t->layout)
        return t;
    const tc_layout *l = tc_layout_reorder(cx, t->layout, 1, &back);
    if (!l)
        return t;
    return t->kind == TC_SMEM ? tc_type_smem(cx, t, l, t->slots)
                              : tc_type_with_layout(cx, t, l);
}

static const struct {
    const char *name;
    unsigned bits;
} instrs[] = {{"m16n8k8", 32}, {"m16n8k16", 16}, {"m16n8k32", 8},
              {"m64k8", 32},   {"m64k16", 16},   {"m64k32", 8}};

unsigned tc_mma_bits(const char *instr)
{
    for (unsigned i = 0; i < sizeof instrs / sizeof *instrs; i++)
        if (strcmp(instrs[i].name, instr) == 0)
            return instrs[i].bits;
    return 0;
}

bool tc_mma_is_k_major_only(const char *instr)
{
    return tc_mma_bits(instr) == 8;
}

bool tc_mma_is_group(const char *instr)
{
    return strncmp(instr, "m64", 3) == 0;
}

bool tc_is_group_mma(const tc_op *op)
{
    return op->code == TC_MMA && tc_mma_is_group(tc_op_word(op, "instr"));
}

const tc_layout *tc_mma_operand_of(tc_context *cx, const tc_layout *c,
                                   const char *instr, const tc_type *tile,
                                   unsigned i)
{
    int wm, wn;
    int32_t sides[TC_MAX_RANK];
    unsigned bits = tc_mma_bits(instr);
    tc_bit_order columns;
    c = tc_mma_plain(c, &columns);
    tc_type_sides(tile, sides);
    if (tc_mma_is_group(instr))
        return i || !bits || !tc_wgmma_grid(c, &wm, &wn)
                   ? NULL
                   : tc_layout_wgmma_a(cx, sides, wm, wn, bits);
    if (!bits || !tc_mma_grid(c, &wm, &wn))
        return NULL;
    return i == 0
               ? tc_layout_mma_a(cx, sides, wm, wn, bits)
               : tc_layout_reorder(cx, tc_layout_mma_b(cx, sides, wm, wn, bits),
                                   1, &columns);
}

/* The operand's layout as the accumulator's says it, K as it comes. */
static const tc_layout *straight_operand(tc_context *cx, const tc_op *mma,
                                         unsigned i)
{
    return tc_mma_operand_of(cx, mma->in[2]->type->layout,
                             tc_op_word(mma, "instr"), mma->in[i]->type, i);
}

tc_bit_order tc_mma_depth_order(tc_context *cx, const tc_op *mma)
{
    tc_bit_order order = {0};
    if (tc_is_group_mma(mma))
        return order;
    for (unsigned i = 0; i < 2 && !order.n; i++) {
        const tc_type *t = mma->in[i]->type;
        const tc_layout *l =
            t->kind == TC_TILE ? straight_operand(cx, mma, i) : NULL;
        if (l && (!t->layout ||
                  !tc_layout_order_of(l, t->layout, tc_mma_depth(i), &order)))
            order.n = 0;
    }
    return order;
}

const tc_layout *tc_mma_operand(tc_context *cx, const tc_op *mma, unsigned i)
{
    tc_bit_order order = tc_mma_depth_order(cx, mma);
    const tc_layout *l = straight_operand(cx, mma, i);
    return l && order.n ? tc_layout_reorder(cx, l, tc_mma_depth(i), &order) : l;
}

tc_op *tc_mma_issue(tc_op *product, bool used)
{
    tc_value *sum = product->out[0];
    tc_op *wait =
        tc_op_new(product->func, TC_MMA_WAIT, product->loc, 1, &sum, 0);
    tc_op_set_attr(product, "async", (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
    tc_op_set_int(wait, "pending", 0);
    tc_op_set_results(wait, 1, &sum->type);
    tc_op_insert(wait, product->parent, product->next);
    if (!used)
        return wait;
    wait->out[0]->name = sum->name;
    sum->name = NULL;
    tc_value_replace(sum, wait->out[0]);
    tc_op_set_in(wait, 0, sum);
    return wait;
}
