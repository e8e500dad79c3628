/* SPDX-License-Identifier: Apache-2.0
 *
 * Asynchronous mma. Until it is awaited, an mma reads its operands in shared
 * memory and no op may use its result, except as the accumulator of another
 * mma. They end in the order of their starts. A result that no mma_wait has
 * returned stays unusable, even after a wait for others: only a mma_wait keeps
 * uses of a value after it.
 */
#include "codegen/interp/state.h"
#include "passes/instructions/mma.h"

#include <string.h>

static bool is_async(const tc_op *op)
{
    return op->code == TC_MMA && tc_op_int(op, "async");
}

static const tc_op *product_op(const tc_interp *it, const tc_ivalue *v)
{
    return it->sync.products[v->product].op;
}

/* The registers of a result that has become another's accumulator are gone. */
static bool check_taken(tc_interp *it, const tc_op *op, const tc_ivalue *v)
{
    const tc_iproduct *p = &it->sync.products[v->product];
    return !v->product || !p->taken ||
           tc_interp_find(it, op, p->taken, "taken here",
                          "uses the result of an asynchronous mma that became "
                          "the accumulator of another one");
}

bool tc_interp_products_ok(tc_interp *it, const tc_op *op)
{
    /* Control flow passes the values on unchanged. */
    if (it->sync.nproducts == 0 || tc_op_has(op, TC_TERMINATOR) ||
        tc_op_is_loop(op) || op->code == TC_MMA_WAIT)
        return true;
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_ivalue *v = tc_ivalue_of(op->in[i]);
        if (!v->product || (i == 2 && is_async(op)))
            continue;
        if (!tc_interp_find(it, op, product_op(it, v), "it starts here",
                            "uses the result of an asynchronous mma that no "
                            "mma_wait has handed on"))
            return false;
    }
    return true;
}

bool tc_interp_product_start(tc_interp *it, const tc_op *op)
{
    tc_isync *s = &it->sync;
    const tc_ivalue *c = tc_ivalue_of(op->in[2]);
    if (!tc_is_group_mma(op))
        return true;
    if (!check_taken(it, op, c))
        return false;
    if (s->nproducts + 1 >= s->room_products) {
        uint32_t room = 2 * s->room_products + 64;
        tc_iproduct *more = tc_arena_array(&it->arena, tc_iproduct, room);
        if (s->room_products)
            memcpy(more, s->products, s->room_products * sizeof *more);
        s->products = more;
        s->room_products = room;
    }
    s->products[++s->nproducts] = (tc_iproduct){.op = op};
    if (c->product)
        s->products[c->product].taken = op;
    for (unsigned g = 0; g < s->nconsumers; g++)
        s->now[tc_clock_products(s, g)] = s->nproducts;
    return true;
}

/* All but the newest `pending` are over. */
static void wait_for(tc_interp *it, uint32_t pending)
{
    tc_isync *s = &it->sync;
    if (s->nproducts < pending || s->nproducts - pending <= s->products_done)
        return;
    s->products_done = s->nproducts - pending;
    for (unsigned g = 0; g < s->nconsumers; g++) {
        unsigned products = tc_clock_products(s, g);
        s->known[tc_actor_group(g)][products] = s->products_done;
        s->known[tc_actor_first(s, g)][products] = s->products_done;
    }
}

void tc_interp_product_end(tc_interp *it, const tc_op *op)
{
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    out->product = is_async(op) ? it->sync.nproducts : 0;
    if (tc_is_group_mma(op) && !out->product)
        wait_for(it, 0);
}

bool tc_interp_mma_wait(tc_interp *it, const tc_op *op)
{
    wait_for(it, (uint32_t)tc_op_int(op, "pending"));
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_ivalue *in = tc_ivalue_of(op->in[i]);
        tc_ivalue *out = tc_ivalue_of(op->out[i]);
        if (!check_taken(it, op, in))
            return false;
        tc_interp_copy(out, in);
        if (out->product <= it->sync.products_done)
            out->product = 0;
    }
    return true;
}

bool tc_interp_products_end(tc_interp *it)
{
    tc_isync *s = &it->sync;
    return s->products_done == s->nproducts ||
           tc_interp_find(it, s->products[s->nproducts].op, NULL, NULL,
                          "still in flight at the end");
}
