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
 * programs that are done. `prefetch(last_step)` of next_tile asks for it
 * (plan-schedule). Tests: test/ir/passes/prefetch-tile.
 */
#include "passes/persistent/prefetch_tile.h"

#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"

static const char pass[] = "prefetch-tile";

static bool is_copy(const tc_op *op)
{
    return op->code == TC_TMA_LOAD;
}

/* Is there such an op in the step itself, not in a branch or loop of it? */
static bool step_has(const tc_op *loop, bool (*is)(const tc_op *op))
{
    tc_each_op (op, loop->regions[0])
        if (is(op))
            return true;
    return false;
}

/* The loop right before the op, if pure ops alone stand between them. Else
 * NULL, and *why says what is in the way. */
static tc_op *loop_before(const tc_op *fetch, const char **why)
{
    tc_op *op = fetch->prev;
    while (op && tc_op_is_pure(op))
        op = op->prev;
    if (!op || !tc_op_is_loop(op))
        *why = "what precedes the request is not a loop: let the loop with the "
               "copies come last";
    else if (op->code != TC_FOR)
        *why = "the loop is a `while`, whose last step is not known before it "
               "ends: count its steps with `for`";
    else if (op->in[0]->type->kind != TC_I32)
        *why = "the loop's counter is not an i32: count in 32 bits";
    else if (step_has(op, tc_op_is_loop))
        *why = "a step of the loop holds a loop: make one loop of both";
    else if (!step_has(op, is_copy))
        *why = "the loop's steps copy nothing: let the loop with the copies "
               "come last";
    else if (!tc_value_is_visible(fetch->in[0], op))
        *why = "the number of tiles is computed after the loop: compute it "
               "before";
    else
        return op;
    return NULL;
}

bool tc_plan_request(tc_pass_env *env, tc_op *op)
{
    const char *why = NULL;
    /* Without copies of the tile there is nothing to start earlier. */
    if (!tc_op_is_word(op, "prefetch", "auto") ||
        !tc_region_has_op(op->parent, TC_TMA_LOAD))
        return false;
    if (loop_before(op, &why))
        tc_remark(env->cx, op->loc, pass,
                  "the next tile is requested before the last step's copies");
    else
        tc_missed(env->cx, op->loc, pass,
                  "the next tile is requested after the last step's copies: %s",
                  why);
    tc_op_set_word(op, "prefetch", why ? "none" : "last_step");
    return true;
}

/* Fetches a tile number if `is` holds, else gives `other`. */
static tc_value *fetch_if(tc_builder *b, tc_value *is, const tc_op *fetch,
                          tc_value *other)
{
    tc_builder then;
    tc_op *branch = tc_build_when(b, is, &then);
    tc_value *next = tc_build(&then, TC_NEXT_TILE, 1, fetch->in, NULL);
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
    const char *why = NULL;
    if (op->code != TC_NEXT_TILE || !tc_op_is_word(op, "prefetch", "last_step"))
        return false;
    tc_op *loop = loop_before(op, &why);
    if (!loop)
        return tc_error(env->cx, op->loc,
                        "next_tile: prefetch(last_step) is not possible: %s",
                        why);
    expand(loop, op);
    return true;
}

tc_change tc_pass_prefetch_tile(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, prefetch_tile_visit);
}
