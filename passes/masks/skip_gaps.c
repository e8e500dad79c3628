/* SPDX-License-Identifier: Apache-2.0
 *
 * skip-gaps: makes a loop over several ranges of its index jump from one range
 * to the next.
 *
 *   for %i = 0 to %n step 64 carry(%a = %x) {
 *     %c = %i < %p or (%i >= %s and %i < %e)
 *     %b = if %c speculatable { ... } else { yield %a }
 *     yield %b
 *   }
 * becomes, with the ranges in order and apart from each other,
 *   for %t = 0 to %n0 + %n1 carry(%a = %x) {            (steps of each)
 *     %i = (%t < %n0 ? %t : %t + %jump) * 64
 *     ...
 *   }
 *
 * bound-loops leaves such conditions if a mask has several ranges: a prefix and
 * a window, say. The order of the steps stays. Tests: test/ir/passes/skip-gaps,
 * test/numerics/masks.c.
 */
#include "passes/analysis/mask_truth.h"
#include "passes/analysis/match.h"
#include "passes/masks/guarded_step.h"
#include "passes/passes.h"

/* More ranges than that are not worth the ops. */
enum { MOST = 4 };

/* start <= index < end, i64 from before the loop; NULL: no bound. */
typedef struct range {
    tc_value *start, *end;
} range;

typedef struct ranges {
    range all[MOST];
    unsigned n;
} ranges;

/* ---- The ranges of a condition ---- */

static tc_value *inner(tc_loop *l, bool start, tc_value *a, tc_value *b)
{
    if (!a || !b)
        return a ? a : b;
    return tc_build_binary(&l->before, start ? TC_MAX : TC_MIN, a, b);
}

static bool intersect(tc_loop *l, const ranges *a, const ranges *b, ranges *out)
{
    out->n = 0;
    if (a->n * b->n > MOST)
        return false;
    for (unsigned i = 0; i < a->n; i++)
        for (unsigned j = 0; j < b->n; j++)
            out->all[out->n++] =
                (range){inner(l, true, a->all[i].start, b->all[j].start),
                        inner(l, false, a->all[i].end, b->all[j].end)};
    return true;
}

/* False: they are too many. */
static bool ranges_of(tc_loop *l, const tc_truth *t, ranges *out)
{
    ranges a, b;
    *out = (ranges){.n = 1};
    switch (t->kind) {
    case TC_TRUTH_HERE: return false;
    case TC_TRUTH_NEVER: out->n = 0; return true;
    case TC_TRUTH_ALWAYS: return true;
    case TC_TRUTH_BELOW:
    case TC_TRUTH_FROM:
    case TC_TRUTH_GIVEN: {
        tc_hull hull = tc_truth_hull(l, t);
        out->all[0] = (range){hull.low, hull.high};
        return true;
    }
    case TC_TRUTH_BOTH:
        return ranges_of(l, t->a, &a) && ranges_of(l, t->b, &b) &&
               intersect(l, &a, &b, out);
    case TC_TRUTH_EITHER: break;
    }
    if (!ranges_of(l, t->a, &a) || !ranges_of(l, t->b, &b) || a.n + b.n > MOST)
        return false;
    *out = a;
    for (unsigned i = 0; i < b.n; i++)
        out->all[out->n++] = b.all[i];
    return true;
}

/* ---- Their steps ---- */

/* Number of the first step whose index is at least v: i64, 0 to `steps`. */
static tc_value *step_of(tc_loop *l, tc_value *v, tc_value *steps,
                         tc_value *none)
{
    tc_builder *b = &l->before;
    tc_scalar step;
    if (!v)
        return none;
    tc_match_const(l->op->in[2], &step);
    tc_value *away =
        tc_build_binary(b, TC_SUB, v, tc_build_cast(b, l->op->in[0], TC_I64));
    away = tc_build_binary(b, TC_ADD, away, tc_build_i64(b, step.i - 1));
    away = tc_build_binary(b, TC_DIV, away, tc_build_i64(b, step.i));
    return tc_build_binary(b, TC_MAX, tc_build_binary(b, TC_MIN, away, steps),
                           tc_build_i64(b, 0));
}

static void number_steps(tc_loop *l, ranges *r)
{
    tc_builder *b = &l->before;
    tc_scalar step;
    tc_match_const(l->op->in[2], &step);
    tc_value *zero = tc_build_i64(b, 0);
    tc_value *length =
        tc_build_binary(b, TC_SUB, tc_build_cast(b, l->op->in[1], TC_I64),
                        tc_build_cast(b, l->op->in[0], TC_I64));
    length = tc_build_binary(b, TC_ADD, length, tc_build_i64(b, step.i - 1));
    tc_value *steps = tc_build_binary(
        b, TC_MAX, tc_build_binary(b, TC_DIV, length, tc_build_i64(b, step.i)),
        zero);
    for (unsigned i = 0; i < r->n; i++) {
        range *x = &r->all[i];
        x->start = step_of(l, x->start, steps, zero);
        x->end = step_of(l, x->end, steps, steps);
    }
}

static void put_in_order(tc_loop *l, range *x, range *y)
{
    tc_builder *b = &l->before;
    tc_value *ok = tc_build_cmp(b, "le", x->start, y->start);
    range first = {tc_build_select(b, ok, x->start, y->start),
                   tc_build_select(b, ok, x->end, y->end)};
    range second = {tc_build_select(b, ok, y->start, x->start),
                    tc_build_select(b, ok, y->end, x->end)};
    *x = first;
    *y = second;
}

/* Ascending, none before the end of the one before it. */
static void set_apart(tc_loop *l, ranges *r)
{
    tc_builder *b = &l->before;
    for (unsigned i = 0; i < r->n; i++)
        for (unsigned j = 0; j + 1 < r->n - i; j++)
            put_in_order(l, &r->all[j], &r->all[j + 1]);
    for (unsigned i = 0; i < r->n; i++) {
        range *x = &r->all[i];
        if (i)
            x->start = tc_build_binary(b, TC_MAX, x->start, x[-1].end);
        x->end = tc_build_binary(b, TC_MAX, x->end, x->start);
    }
}

/* ---- The loop ---- */

static tc_value *as_index(tc_loop *l, tc_value *v)
{
    return tc_build(&l->before, TC_CAST, 1, &v,
                    l->op->regions[0]->args[0]->type);
}

/* %t counts the steps of all ranges; what it stands for is computed in the
 * loop. */
static void jump(tc_loop *l, const ranges *r)
{
    tc_builder *b = &l->before;
    tc_op *loop = l->op;
    tc_value *t = loop->regions[0]->args[0];
    tc_value *first = loop->in[0], *step = loop->in[2];
    tc_value *ends[MOST], *shifts[MOST], *done = tc_build_i64(b, 0);
    for (unsigned i = 0; i < r->n; i++) {
        const range *x = &r->all[i];
        shifts[i] = as_index(l, tc_build_binary(b, TC_SUB, x->start, done));
        done = tc_build_binary(b, TC_ADD, done,
                               tc_build_binary(b, TC_SUB, x->end, x->start));
        ends[i] = as_index(l, done);
    }
    tc_value *index =
        tc_region_add_arg(loop->regions[0], t->type, NULL, t->loc);
    tc_value_replace(t, index);
    tc_builder in = tc_builder_before(loop->regions[0]->first);
    tc_value *shift = shifts[r->n - 1];
    for (unsigned i = r->n - 1; i--;)
        shift = tc_build_select(&in, tc_build_cmp(&in, "lt", t, ends[i]),
                                shifts[i], shift);
    tc_value *v = tc_build_binary(&in, TC_ADD, t, shift);
    v = tc_build_binary(&in, TC_MUL, v, step);
    v = tc_build_binary(&in, TC_ADD, first, v);
    v->name = t->name;
    t->name = "t";
    tc_value_replace(index, v);
    tc_region_remove_arg(loop->regions[0], loop->regions[0]->nargs - 1);
    tc_op_set_in(loop, 0, tc_build_int(b, t->type, 0));
    tc_op_set_in(loop, 1, ends[r->n - 1]);
    tc_op_set_in(loop, 2, tc_build_int(b, t->type, 1));
    ends[r->n - 1]->name = "steps";
}

static bool try_loop(tc_pass_env *env, tc_op *loop)
{
    tc_op *branch = tc_guarded_step_of(loop);
    if (!branch)
        return false;
    tc_loop l;
    const char *why;
    ranges r;
    if (!tc_op_int(branch, "speculatable") ||
        !tc_loop_open(&l, loop, env->scratch, &why))
        return false;
    tc_mask mask = tc_mask_of(&l, branch->in[0]);
    if (mask.unknown || tc_truth_is_range(mask.any))
        return true; /* what was built is dead */
    if (!ranges_of(&l, mask.any, &r)) {
        tc_missed(env->cx, loop->loc, "skip-gaps",
                  "the loop runs over the gaps between its ranges: they are "
                  "more than %d",
                  MOST);
        return true;
    }
    number_steps(&l, &r);
    set_apart(&l, &r);
    tc_guarded_step_unguard(branch);
    jump(&l, &r);
    tc_remark(env->cx, loop->loc, "skip-gaps",
              "the loop jumps from one range to the next: %u of them", r.n);
    return true;
}

tc_change tc_pass_skip_gaps(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, try_loop);
}
