/* SPDX-License-Identifier: Apache-2.0
 *
 * lazy-rescale: an online softmax keeps the number that it subtracts until a
 * score exceeds it by more than a threshold, so that most steps rescale
 * nothing.
 *
 *   for .. carry(%m0 = .., %l0 = .., %acc0 = ..) {
 *     %m = max(%m0, %now)
 *     %alpha = exp2(%m0 - %m)
 *     .. %acc0 * %alpha[:, none] ..
 * becomes
 *     %most = max(%m0, %now)
 *     %m = select(%most > %m0 + 8.0, %most, %m0)
 *     ..
 *
 * %alpha is then mostly 1 in all rows of a warp, which branches around the
 * rescaling (skip_rescale.c). The loop's results must not depend on what is
 * subtracted (shift.h). Weights are up to 2^8 instead of 1, which f16 holds,
 * too; sums are relative to the same number. Weights, sums and factors round
 * relative to their size, so the error bounds stay. That the sums are regrouped
 * is what reassoc permits: the differences that are arguments of exponentials
 * must have it.
 *
 * Applied where it gains time: to sums of 256 columns (claim skip-rescale); at
 * 64 columns, also of three warp groups, it loses up to 3 %. Tests:
 * test/ir/passes/lazy-rescale.
 */
#include "ir/fastmath.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/softmax/permits.h"
#include "passes/softmax/shift.h"
#include "passes/target/machine_model.h"

static const char pass[] = "lazy-rescale";

/* In powers of two. */
static const double THRESHOLD = 8;

/* The largest tile that the loop carries. */
static const tc_type *sums_of(const tc_op *loop)
{
    const tc_type *most = NULL;
    for (unsigned i = 0; i < loop->nout; i++) {
        const tc_type *t = loop->out[i]->type;
        if (t->kind == TC_TILE && t->rank == 2 &&
            (!most || tc_type_count(t) > tc_type_count(most)))
            most = t;
    }
    return most;
}

static bool is_worth_it(const tc_op *loop)
{
    const tc_type *t = sums_of(loop);
    return t && tc_dim_value(t->dims[1]) >= TC_LAZY_RESCALE_MIN_COLUMNS;
}

static void keep(const tc_running_max *x, double threshold)
{
    tc_value *most = x->max->out[0], *old = tc_slot_arg(x->loop, x->slot);
    tc_builder b = tc_builder_before(x->max->next);
    b.loc = x->max->loc;
    tc_value *limit = tc_build_binary(
        &b, TC_ADD, old,
        tc_build_const(&b, old->type, (tc_scalar){.f = threshold}));
    tc_value *more = tc_build_cmp(&b, "gt", most, limit);
    tc_value *kept = tc_build_select(&b, more, most, old);
    kept->name = most->name;
    most->name = NULL;
    tc_value_replace(most, kept);
    tc_op_set_in(more->def, 0, most);
    tc_op_set_in(kept->def, 1, most);
}

static bool try_loop(tc_pass_env *env, tc_op *loop, unsigned slot)
{
    tc_running_max x;
    if (!tc_match_running_max(loop, slot, &x))
        return false;
    if (!tc_permits(env, pass, x.change, TC_REASSOC,
                    "each step rescales the sums"))
        return false;
    const tc_op *use = tc_find_use_of_shift(&x, env->scratch);
    if (use) {
        tc_missed(env->cx, x.max->loc, pass,
                  "each step rescales the sums: the %s at line %u depends on "
                  "the running maximum otherwise than as what all sums are "
                  "relative to",
                  tc_op_name(use), use->loc.line);
        return false;
    }
    keep(&x, THRESHOLD / x.octaves);
    tc_remark(env->cx, x.max->loc, pass,
              "the number that is subtracted changes only if a score exceeds "
              "it by more than %g powers of two",
              THRESHOLD);
    return true;
}

static bool visit(tc_pass_env *env, tc_op *loop)
{
    if (loop->code != TC_FOR || !is_worth_it(loop))
        return false;
    for (unsigned i = 0; i < loop->nout; i++)
        if (try_loop(env, loop, i))
            return true;
    return false;
}

tc_change tc_pass_lazy_rescale(tc_func *f, tc_pass_env *env)
{
    return env->target->wgmma ? tc_visit_ops(f, env, visit) : TC_UNCHANGED;
}
