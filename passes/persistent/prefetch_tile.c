/* SPDX-License-Identifier: Apache-2.0
 *
 * prefetch-tile: a producer requests the next tile before the copies of a
 * tile's last step, which wait for a slot meanwhile, instead of after them.
 *
 *   for %n0 = %a to %b step %s {     %0 = for .. carry(%next = %tiles) {
 *     .. tma_load ..                   %1 = if %n0 + %s >= %b {
 *   }                                    yield next_tile %tiles
 *   %next = next_tile %tiles  =>      } else { yield %next }
 *                                      .. tma_load ..
 *                                      yield %1
 *                                    }
 *                                    %next = if %a >= %b {
 *                                      yield next_tile %tiles
 *                                    } else { yield %0 }
 *
 * The first copies of the next tile start that much earlier. The request does
 * not come earlier still: a program with much work left would take a tile from
 * programs that are done. Tests: test/ir/passes/prefetch-tile.
 */
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/passes.h"

static const char pass[] = "prefetch-tile";

/* Copies are in its steps, not in those of loops within. */
static bool has_copies(const tc_op *loop)
{
    bool found = false;
    tc_each_op (op, loop->regions[0]) {
        if (tc_op_is_loop(op))
            return false;
        found |= op->code == TC_TMA_LOAD;
    }
    return found;
}

/* The loop right before the op, with nothing in between that matters. */
static tc_op *loop_before(const tc_op *fetch)
{
    tc_op *op = fetch->prev;
    while (op && tc_op_is_pure(op))
        op = op->prev;
    bool fits = op && op->code == TC_FOR && op->in[0]->type->kind == TC_I32 &&
                has_copies(op) && tc_value_is_visible(fetch->in[0], op);
    return fits ? op : NULL;
}

/* A new number where it is so, else `other`. */
static tc_value *fetch_if(tc_builder *b, tc_value *is, const tc_op *fetch,
                          tc_value *other)
{
    tc_op *branch = tc_op_new(b->func, TC_IF, b->loc, 1, &is, 2);
    tc_op_insert(branch, b->region, b->before);
    tc_value *next = NULL;
    for (unsigned i = 0; i < 2; i++) {
        tc_builder in = tc_builder_at_end(branch->regions[i], b->loc);
        if (i == 0)
            next = tc_build(&in, TC_NEXT_TILE, 1, fetch->in, NULL);
        tc_build_yield(&in, 0, NULL);
    }
    return tc_slots_add_result(branch, 0, next, other)->out[0];
}

/* In 64 bits: the sum may be beyond 32. */
static tc_value *is_last(tc_builder *b, const tc_op *loop, tc_value *n0)
{
    const tc_type *i64 = tc_type_scalar(b->func->module->cx, TC_I64);
    tc_value *in[] = {n0, loop->in[1], loop->in[2]};
    for (unsigned i = 0; i < 3; i++)
        in[i] = tc_build(b, TC_CAST, 1, &in[i], i64);
    return tc_build_cmp(b, "ge", tc_build_binary(b, TC_ADD, in[0], in[2]),
                        in[1]);
}

static void expand(tc_op *loop, tc_op *fetch)
{
    unsigned slot = loop->nout;
    loop = tc_slots_add(loop, 1, fetch->in, &fetch->out[0]->name);
    tc_builder b = tc_builder_before(loop->regions[0]->first);
    b.loc = fetch->loc;
    tc_value *last = is_last(&b, loop, loop->regions[0]->args[0]);
    tc_slot_set_next(loop, slot,
                     fetch_if(&b, last, fetch, tc_slot_arg(loop, slot)));
    b = tc_builder_before(fetch);
    tc_value *none = tc_build_cmp(&b, "ge", loop->in[0], loop->in[1]);
    tc_value *next = fetch_if(&b, none, fetch, loop->out[slot]);
    next->name = fetch->out[0]->name;
    tc_value_replace(fetch->out[0], next);
    tc_op_erase(fetch);
}

static bool prefetch_tile_visit(tc_pass_env *env, tc_op *op)
{
    tc_op *loop = op->code == TC_NEXT_TILE ? loop_before(op) : NULL;
    if (!loop)
        return false;
    tc_remark(env->cx, op->loc, pass,
              "the next tile is asked for before the last step's copies");
    expand(loop, op);
    return true;
}

tc_change tc_pass_prefetch_tile(tc_func *f, tc_pass_env *env)
{
    return f->warps ? tc_visit_ops(f, env, prefetch_tile_visit) : TC_UNCHANGED;
}
