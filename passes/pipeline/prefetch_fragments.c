/* SPDX-License-Identifier: Apache-2.0
 *
 * prefetch-fragments: register double buffering: computes a product of two
 * operands in shared memory in parts along K; the fragments of a part are read
 * before the previous part is computed.
 *
 *   for .. carry(%acc0 = .., %slot = 0, %free = 2) {
 *     async_wait pending(1)
 *     async_copy .. slot %free;  async_commit
 *     %acc = mma %a[%slot], %b[%slot], %acc0
 *     yield %acc, next of %slot, %slot
 *   }
 *
 * becomes, with two parts,
 *
 *   for .. carry(%acc0 = .., %slot = 0, %free = 2, %x0 = 0, %y0 = 0) {
 *     async_wait pending(1)
 *     %x1 = smem_load %a[%slot] at(0, 0);  %y1 = smem_load %b[%slot] at(0, 0)
 *     %acc1 = mma %x0, %y0, %acc0
 *     %x2 = smem_load %a[%slot] at(0, 16);  %y2 = smem_load %b[%slot] at(16, 0)
 *     async_copy .. slot %free;  async_commit
 *     %acc2 = mma %x1, %y1, %acc1
 *     yield %acc2, next of %slot, %slot, %x2, %y2
 *   }
 *   %acc = mma %x, %y, %acc3
 *
 * So the tensor cores are busy while threads read fragments. The last part of a
 * step is computed in the next one, after the wait and the barrier, where
 * nothing else can be computed yet (ptxas would move it before the barrier of
 * the same step); in the first step it is zeros. Copies go with the second
 * half, when the fragments that are read after the barrier have arrived.
 *
 * Only loops that do nothing else: other loops have work to overlap (a
 * softmax), and no registers to hold two parts. Tests:
 * test/ir/passes/prefetch-fragments.
 */
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/instructions/mma.h"
#include "passes/passes.h"
#include "passes/pipeline/pipeline_loops.h"
#include "passes/target/machine_model.h"

static const char pass[] = "prefetch-fragments";

typedef struct ahead {
    tc_pass_env *env;
    tc_op *loop, *mma;
    unsigned slot, sum; /* carried: the rings' slot, the accumulator */
    int64_t k, part;    /* along K: of the product, of a part */
} ahead;

/* ---- Which loops ---- */

/* The index with which an operand's ring is read; NULL: it is in none. */
static tc_value *index_of(const tc_value *operand)
{
    const tc_op *op = operand->def;
    while (op && (op->code == TC_SMEM_TRANS || op->code == TC_SMEM_RESHAPE))
        op = op->in[0]->def;
    bool ring = op && op->code == TC_SMEM_INDEX && op->in[0]->def &&
                op->in[0]->def->code == TC_SMEM_ALLOC;
    return ring ? op->in[1] : NULL;
}

/* Carried value i, if v is that one. */
static bool is_carried(const tc_op *loop, const tc_value *v, unsigned *i)
{
    *i = v && v->index ? v->index - 1 : 0;
    return v && !v->def && v->region == loop->regions[0] && v->index;
}

static bool find_ops(ahead *x)
{
    tc_each_op (op, x->loop->regions[0]) {
        if (op->code == TC_MMA && !x->mma)
            x->mma = op;
        else if (op->nregions ||
                 !(op->code == TC_YIELD || op->code == TC_ASYNC_WAIT ||
                   (op->code == TC_ASYNC_COPY && !x->mma) ||
                   op->code == TC_ASYNC_COMMIT || tc_op_has(op, TC_PURE)))
            return false;
    }
    return x->mma != NULL;
}

/* The product is of 16-bit numbers, by warps, from rings that are read at the
 * same carried index, and is added to a carried value. */
static bool is_candidate(ahead *x)
{
    if (!find_ops(x) || tc_mma_bits(tc_op_word(x->mma, "instr")) != 16 ||
        tc_mma_is_group(tc_op_word(x->mma, "instr")))
        return false;
    tc_value *a = index_of(x->mma->in[0]), *b = index_of(x->mma->in[1]);
    const tc_use *use = x->mma->out[0]->uses;
    x->part = 16;
    x->k = x->mma->in[1]->type->layout->shape[0];
    return a && a == b && is_carried(x->loop, a, &x->slot) &&
           is_carried(x->loop, x->mma->in[2], &x->sum) && use && !use->next &&
           use->op == tc_slot_yield(x->loop) && use->index == x->sum &&
           x->k >= 2 * x->part;
}

/* ---- Parts of operands ---- */

static const tc_type *part_type(const ahead *x, unsigned operand)
{
    tc_context *cx = x->env->cx;
    const tc_type *t = x->mma->in[operand]->type;
    const tc_dim *dims[2] = {t->dims[0], t->dims[1]};
    dims[!operand] = tc_dim_const(cx, x->part);
    const tc_type *tile = tc_type_shaped(cx, TC_TILE, 2, dims, t->elem);
    return tc_type_with_layout(
        cx, tile,
        tc_mma_operand_of(cx, x->mma->in[2]->type->layout,
                          tc_op_word(x->mma, "instr"), tile, operand));
}

static bool has_room(const ahead *x)
{
    unsigned room = tc_max_registers(x->env->target, x->loop->func->warps);
    unsigned sum = TC_SPARE_MMA_REGISTERS +
                   tc_layout_size(x->mma->out[0]->type->layout, TC_REGISTER);
    for (unsigned i = 0; i < 2; i++) {
        const tc_layout *part = part_type(x, i)->layout;
        if (!part)
            return false; /* no accumulator of that instruction */
        /* two parts, two numbers a register */
        sum += tc_layout_size(part, TC_REGISTER);
    }
    if (sum > room)
        tc_missed(x->env->cx, x->mma->loc, pass,
                  "operands are read when they are needed: reading them a part "
                  "ahead takes about %u registers of a thread, which has %u: "
                  "more warps or a smaller tile",
                  sum, room);
    return sum <= room;
}

static tc_value *read_part(const ahead *x, tc_builder *b, unsigned operand,
                           tc_value *buffer, int64_t k)
{
    tc_op *op = tc_op_new(b->func, TC_SMEM_LOAD, b->loc, 1, &buffer, 0);
    int64_t at[2] = {0, 0};
    at[!operand] = k;
    tc_op_set_ints(op, "at", 2, at);
    return tc_build_op(b, op, part_type(x, operand));
}

/* ---- The loop ---- */

static tc_value *multiply(const ahead *x, tc_builder *b, tc_value *parts[2],
                          tc_value *acc)
{
    tc_value *in[] = {parts[0], parts[1], acc};
    return tc_build_like(b, x->mma, in, x->mma->out[0]->type);
}

/* Moves the copies before the product to before `to`. */
static void move_copies(const ahead *x, tc_op *to)
{
    tc_each_op_safe (op, x->loop->regions[0]) {
        bool copy = op->code == TC_ASYNC_COPY;
        if (op == x->mma)
            return;
        if (!copy && op->code != TC_ASYNC_COMMIT)
            continue;
        if (copy)
            tc_op_set_attr(op, "straight",
                           (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
        tc_op_remove(op);
        tc_op_insert(op, to->parent, to);
    }
}

/* The loop carries the last parts of a step; before it there are none. */
static void carry_parts(ahead *x)
{
    tc_builder b = tc_builder_before(x->loop);
    tc_value *none[2];
    for (unsigned i = 0; i < 2; i++) {
        const tc_type *t = part_type(x, i);
        tc_value *zero = tc_build_float(&b, t->elem, 0);
        none[i] = tc_build(&b, TC_SPLAT, 1, &zero, t);
    }
    x->loop = tc_slots_add(x->loop, 2, none,
                           (const char *const[]){"a_part", "b_part"});
}

static void multiply_last(const ahead *x, unsigned carried)
{
    tc_builder b = tc_builder_before(x->loop->next);
    tc_value *sum = x->loop->out[x->sum];
    b.loc = x->mma->loc;
    /* A place for the product, which must not become its own operand. */
    tc_value *all = multiply(x, &b, &x->loop->out[carried], x->mma->in[2]);
    tc_value_replace(sum, all);
    tc_op_set_in(all->def, 2, sum);
}

static void expand(ahead *x)
{
    unsigned carried = x->loop->nout;
    carry_parts(x);
    tc_op *yield = tc_slot_yield(x->loop);
    tc_builder b = tc_builder_before(yield);
    b.loc = x->mma->loc;
    tc_value *acc = x->mma->in[2], *parts[2];
    parts[0] = tc_slot_arg(x->loop, carried);
    parts[1] = tc_slot_arg(x->loop, carried + 1);
    for (int64_t k = 0; k < x->k; k += x->part) {
        tc_value *next[2];
        for (unsigned i = 0; i < 2; i++)
            next[i] = read_part(x, &b, i, x->mma->in[i], k);
        if (k == x->k / 2 / x->part * x->part)
            move_copies(x, yield);
        acc = multiply(x, &b, parts, acc);
        parts[0] = next[0];
        parts[1] = next[1];
    }
    for (unsigned i = 0; i < 2; i++)
        tc_slot_set_next(x->loop, carried + i, parts[i]);
    multiply_last(x, carried);
    tc_value_replace(x->mma->out[0], acc);
    tc_op_erase(x->mma);
}

static bool prefetch_fragments_visit(tc_pass_env *env, tc_op *op)
{
    ahead x = {.env = env, .loop = op};
    if (op->code != TC_FOR || !is_candidate(&x) || !has_room(&x))
        return false;
    tc_remark(env->cx, x.mma->loc, pass,
              "operands are read a part of %lld ahead of their products",
              (long long)x.part);
    expand(&x);
    return true;
}

tc_change tc_pass_prefetch_fragments(tc_func *f, tc_pass_env *env)
{
    return env->target->ldmatrix
               ? tc_visit_ops(f, env, prefetch_fragments_visit)
               : TC_UNCHANGED;
}
