/* SPDX-License-Identifier: Apache-2.0
 *
 * defer-atomic-adds: delays a dQ-like accumulation by one iteration. A product
 * of all warp groups that reads what the iteration has stored to shared memory,
 * and whose result is added to global memory, is computed an iteration later.
 *
 *   for %i = .. {
 *     ..
 *     %s = smem_alloc : smem<..>
 *     smem_store %s, %x
 *     %y = mma %s, %k, 0
 *     %w = block %t[%i +: 64, ..]
 *     store %w, %y kind(add)
 *     ..
 *   }
 * becomes
 *   %ring = smem_alloc barrier(split) : smem<.., 2>
 *   smem_store (slot 1 of %ring), zeros
 *   for %i = .. carry(%slot = 0, %at = M) {
 *     ..
 *     smem_store (slot %slot of %ring), %x
 *     %y = mma (the other slot of %ring), %k, 0
 *     %w = block %t[%at +: 64, ..]
 *     store %w, %y kind(add)
 *     ..
 *     yield %slot xor 1, %i
 *   }
 *   the product and the store of the last iteration
 *
 * Warp groups then meet once a step, while their products run, instead of
 * waiting for each other before that product (FlashAttention's gradients: dq
 * needs the ds of all groups). The first step adds to a window past the end of
 * the tensor, which adds nothing. Tests: test/ir/passes/defer-atomic-adds.
 */
#include "passes/analysis/effects.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/instructions/wgmma.h"
#include "passes/sync/hazards.h"
#include "passes/sync/shared_memory.h"
#include "passes/target/machine_model.h"

#include "ir/types/layout.h"

static const char pass[] = "defer-atomic-adds";

typedef struct adding {
    tc_pass_env *env;
    tc_func *f;
    tc_op *loop, *store, *block, *product;
    tc_op *follow; /* tc_follow_of the store */
    tc_op *view;   /* smem_trans, or NULL */
    tc_op *alloc, *fill;
    unsigned operand; /* of the product: the buffer */
    unsigned outside; /* of the block: the offset that leaves the tensor */
} adding;

/* ---- What is added ---- */

static bool is_of_step(const adding *a, const tc_value *v)
{
    const tc_region *r = a->loop->regions[0];
    return v->def ? v->def->parent == r : v->region == r;
}

/* The buffer is the step's own: filled once with what it has computed, read by
 * the product. */
static bool match_buffer(adding *a, unsigned operand)
{
    tc_value *v = a->product->in[operand];
    a->view = tc_match_op(v, TC_SMEM_TRANS);
    if (a->view && !tc_value_has_one_use(v))
        return false;
    v = a->view ? a->view->in[0] : v;
    a->alloc = tc_match_op(v, TC_SMEM_ALLOC);
    if (!a->alloc || a->alloc->parent != a->loop->regions[0] ||
        a->alloc->out[0]->type->slots)
        return false;
    unsigned uses = 0;
    a->fill = NULL;
    tc_each_use (u, v) {
        uses++;
        if (u->op->code == TC_SMEM_STORE && u->op->parent == a->alloc->parent)
            a->fill = u->op;
    }
    a->operand = operand;
    return uses == 2 && a->fill && !tc_match_op(a->fill->in[1], TC_LOAD);
}

static bool match_product(adding *a)
{
    tc_scalar zero;
    a->product = tc_match_op(a->store->in[1], TC_MMA);
    if (!a->product || !tc_value_has_one_use(a->store->in[1]) ||
        a->product->parent != a->store->parent ||
        !tc_wgmma_k(tc_op_word(a->product, "instr")) ||
        !tc_match_const(a->product->in[2], &zero) || zero.f != 0)
        return false;
    for (unsigned i = 0; i < 2; i++)
        if (match_buffer(a, i))
            return !is_of_step(a, a->product->in[1 - i]);
    return false;
}

/* The window's offset changes from step to step, along a dim with a checked
 * boundary. */
static bool match_window(adding *a)
{
    a->block = tc_match_op(a->store->in[0], TC_BLOCK);
    if (!a->block || a->block->in[0]->def || tc_block_index(a->block) ||
        !tc_value_has_one_use(a->block->out[0]) ||
        a->block->parent != a->store->parent)
        return false;
    const tc_attr *sides = tc_op_attr(a->block, "sides");
    const tc_attr *heeded = tc_op_attr(a->store, "boundary");
    unsigned axis = 0;
    a->outside = 0;
    for (unsigned i = 1; i < a->block->nin; i++) {
        bool is_axis = sides->dims[i - 1] != NULL;
        for (unsigned k = 0; is_axis && k < heeded->n; k++)
            if (heeded->ints[k] == axis && is_of_step(a, a->block->in[i]) &&
                a->block->in[i]->type->kind == TC_I32)
                a->outside = i;
        axis += is_axis;
    }
    return a->outside != 0;
}

static bool match(adding *a, tc_op *op)
{
    a->store = op;
    a->follow = tc_follow_of(op);
    if (op->code != TC_STORE || op->nin != 2 ||
        !tc_op_is_word(op, "kind", "add") || !match_product(a))
        return false;
    if (tc_op_has_attr(op, "boundary") && match_window(a))
        return true;
    tc_missed(a->env->cx, op->loc, pass,
              "store: all warp groups wait for each other before its product: "
              "its window does not move, in 32 bits, along a dim that "
              "`boundary` names, so that the first iteration could not add "
              "outside the tensor");
    return false;
}

/* ---- Room ---- */

/* Slots that the buffer will have. */
static unsigned slots_of(const adding *a, const tc_op *alloc)
{
    unsigned hot = tc_planned_slots(a->env->options->stages);
    tc_each_use (u, alloc->out[0])
        if (u->op->code == TC_SMEM_STORE && tc_match_op(u->op->in[1], TC_LOAD))
            return alloc->parent == a->loop->regions[0] ? hot : 1;
    return alloc == a->alloc ? 2 : 1;
}

/* The ring next to what is in use while the loop runs, and the buffer from
 * which sums are added. */
static bool has_room(const adding *a)
{
    tc_lifetimes all = tc_find_lifetimes(a->env->scratch, a->f, false);
    const tc_type *sum = a->store->in[1]->type;
    uint64_t bytes = TC_DEFERRED_ADD_RESERVE +
                     (uint64_t)tc_type_count(sum) * tc_type_bytes(sum->elem);
    for (unsigned i = 0; i < all.n; i++)
        if (tc_is_nested_in(all.of[i].alloc, a->loop) ||
            tc_is_in_use_at(&all.of[i], a->store))
            bytes += (uint64_t)all.of[i].bytes * slots_of(a, all.of[i].alloc);
    return bytes <= tc_shared_limit(a->env->target);
}

/* ---- Building ---- */

static tc_value *other_slot(tc_builder *b, tc_value *ring, tc_value *slot)
{
    return tc_build_smem_index(b, ring, tc_build_with(b, TC_XOR, slot, 1));
}

/* A slot that has not been filled yet is read all the same: fills it with
 * zeros. */
static tc_value *build_ring(const adding *a, tc_builder *b)
{
    const tc_type *one = a->alloc->out[0]->type;
    const tc_type *held = a->fill->in[1]->type;
    tc_value *ring =
        tc_build(b, TC_SMEM_ALLOC, 0, NULL,
                 tc_type_smem(b->func->module->cx, one, one->layout, 2));
    tc_op_set_word(ring->def, "barrier", "split");
    tc_value *write[] = {tc_build_smem_index(b, ring, tc_build_i32(b, 1)),
                         tc_build_const(b, held, (tc_scalar){0})};
    tc_build_effect(b, TC_SMEM_STORE, 2, write);
    return ring;
}

static tc_value *end_of_dim(const adding *a, tc_builder *b)
{
    tc_op *size = tc_op_new(b->func, TC_SIZE, b->loc, 1, &a->block->in[0], 0);
    tc_op_set_int(size, "dim", a->outside - 1);
    return tc_build_op(b, size, NULL);
}

/* Builds the product of the slot's contents and its add to memory at `offsets`,
 * ordered after other programs at that step. */
static void build_add(const adding *a, tc_builder *b, tc_value *slot,
                      tc_value *const *offsets, tc_value *step)
{
    tc_value *in[3] = {a->product->in[0], a->product->in[1]};
    const tc_type *sum = a->product->out[0]->type;
    in[2] = tc_build_const(b, sum, (tc_scalar){0});
    in[a->operand] = slot;
    if (a->view)
        in[a->operand] =
            tc_build_like(b, a->view, &slot, a->view->out[0]->type);
    tc_value *write[] = {
        tc_build_like(b, a->block, offsets, a->block->out[0]->type),
        tc_build_like(b, a->product, in, sum)};
    if (a->follow) {
        tc_value *who[] = {a->follow->in[0], a->follow->in[1], step};
        tc_build_effect(b, TC_FOLLOW, 3, who);
    }
    tc_op *store = tc_op_new(b->func, TC_STORE, b->loc, 2, write, 0);
    for (unsigned i = 0; i < tc_op_nattrs(TC_STORE); i++)
        store->attrs[i] = a->store->attrs[i];
    tc_op_insert(store, b->region, b->before);
}

static void erase_old(const adding *a)
{
    tc_op *old[] = {a->store, a->product, a->view,
                    a->block, a->alloc,   a->follow};
    for (unsigned i = 0; i < sizeof old / sizeof *old; i++)
        if (old[i])
            tc_op_erase(old[i]);
}

/* After the loop, if it had any step. */
static tc_builder build_if_run(const adding *a)
{
    tc_builder b = {.func = a->f,
                    .region = a->loop->parent,
                    .before = a->loop->next,
                    .loc = a->store->loc};
    tc_value *any = tc_build_cmp(&b, "lt", a->loop->in[0], a->loop->in[1]);
    tc_builder then;
    tc_op_set_word(tc_build_when(&b, any, &then), "epilogue", "join");
    return then;
}

static void delay(adding *a)
{
    enum { MOST = 1 + TC_MAX_RANK + 1 };
    tc_builder b = tc_builder_before(a->loop);
    b.loc = a->store->loc;
    tc_value *ring = build_ring(a, &b), *init[MOST] = {tc_build_i32(&b, 0)};
    const char *names[MOST] = {NULL};
    tc_value *now[MOST], *offsets[MOST], *last[MOST];
    tc_value **earlier[MOST], **latest[MOST];
    tc_value *step = NULL, *last_step = NULL;
    unsigned n = 1;
    for (unsigned i = 0; i < a->block->nin; i++) {
        offsets[i] = last[i] = a->block->in[i];
        if (i == 0 || !is_of_step(a, a->block->in[i]))
            continue;
        now[n] = a->block->in[i];
        earlier[n] = &offsets[i];
        latest[n] = &last[i];
        init[n++] = i == a->outside
                        ? end_of_dim(a, &b)
                        : tc_build_int(&b, a->block->in[i]->type, 0);
    }
    if (a->follow) {
        step = last_step = a->follow->in[2];
        now[n] = step;
        earlier[n] = &step;
        latest[n] = &last_step;
        init[n++] =
            tc_build_i32(&b, -1); /* before the first step of any program */
    }
    unsigned first = a->loop->nout;
    a->loop = tc_slots_add(a->loop, n, init, names);
    for (unsigned i = 1; i < n; i++) {
        *earlier[i] = tc_slot_arg(a->loop, first + i);
        *latest[i] = a->loop->out[first + i];
        tc_slot_set_next(a->loop, first + i, now[i]);
    }

    tc_value *slot = tc_slot_arg(a->loop, first);
    tc_builder in = tc_builder_before(a->fill);
    tc_op_set_in(a->fill, 0, tc_build_smem_index(&in, ring, slot));
    in = tc_builder_before(a->store);
    tc_value *other = tc_build_with(&in, TC_XOR, slot, 1);
    build_add(a, &in, tc_build_smem_index(&in, ring, other), offsets, step);
    tc_slot_set_next(a->loop, first, other);

    tc_builder after = build_if_run(a);
    build_add(a, &after, other_slot(&after, ring, a->loop->out[first]), last,
              last_step);
    erase_old(a);
    tc_forget_speculatable(a->loop->regions[0]);
    tc_forget_speculatable(a->loop->parent);
}

/* ---- The walk ---- */

static bool try_loop(tc_func *f, tc_pass_env *env, tc_op *loop)
{
    adding a = {.env = env, .f = f, .loop = loop};
    tc_each_op (op, loop->regions[0]) {
        if (!match(&a, op))
            continue;
        if (!has_room(&a)) {
            tc_missed(env->cx, op->loc, pass,
                      "store: all warp groups wait for each other before its "
                      "product: no shared memory for %u bytes more",
                      tc_smem_bytes(a.alloc->out[0]->type));
            continue;
        }
        tc_remark(env->cx, op->loc, pass,
                  "store: a step later, so that warp groups need not wait for "
                  "each other before its product");
        delay(&a);
        return true;
    }
    return false;
}

tc_change tc_pass_defer_atomic_adds(tc_func *f, tc_pass_env *env)
{
    if (!env->target->wgmma || !env->target->tma ||
        env->options->any_alignment || tc_warpgroups(f->warps) <= 1)
        return TC_UNCHANGED;
    bool changed = false;
    tc_each_nested_first (op, f->body)
        changed |= op->code == TC_FOR && try_loop(f, env, op);
    return changed ? TC_CHANGED : TC_UNCHANGED;
}
