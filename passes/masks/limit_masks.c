/* SPDX-License-Identifier: Apache-2.0
 *
 * split-masks, limit-masks: masks whose conditions are limits of positions
 * along an axis (mask_limits.h).
 *
 * split-masks separates lower limits from the rest, so that elide-masks tests
 * each alone: a window has both, and few tiles need both.
 *
 *   %c = %k <= %q and %q - %k < %w        %l = %q - %k < %w
 *   %s = select %c, %x, -inf      becomes %0 = select %l, %x, -inf
 *                                         %u = %k <= %q
 *                                         %s = select %u, %0, -inf
 *
 * limit-masks then reduces the mask to one comparison an element, with a limit
 * that is computed once a row. In a loop over %n0:
 *
 *   %k = (min(%n0 + range(64), %n - 1))[none, :]
 *   %c = %k <= %q[:, none] and (%n0 + range(64) < %n)[none, :]
 * becomes
 *   %limit = min(%q, %n - 1)                                before the loop
 *   %c = range(64)[none, :] <= (%limit - %n0)[:, none]
 *
 * Both are exact. The limits must be loop-invariant; they are computed as i64
 * and cut to the range of positions, 0 to 2^31 - 1. Code generation knows which
 * part of `range` is the thread's, and which a constant. For large tiles only,
 * as in elide-masks. Tests: test/ir/passes/limit-masks, test/numerics/masks.c.
 */
#include "passes/analysis/match.h"
#include "passes/masks/mask_limits.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"

static bool is_candidate(const tc_op *op)
{
    return op->code == TC_SELECT && op->in[0]->type->kind == TC_TILE &&
           op->in[0]->type->rank == 2 &&
           tc_type_count(op->out[0]->type) >= TC_MASK_MIN_ELEMENTS;
}

/* The axis along which most parts are limits; false: none is. */
static bool find_axis(tc_arena *a, tc_value *mask, tc_mask_parts *best)
{
    unsigned most = 0;
    for (unsigned axis = 2; axis-- > 0;) {
        tc_mask_parts parts = tc_mask_parts_of(a, mask, axis);
        unsigned n = 0;
        for (unsigned i = 0; i < parts.n; i++)
            n += parts.all[i].is_limit;
        if (n > most) {
            most = n;
            *best = parts;
        }
    }
    return most > 0;
}

static bool is_lower(const tc_mask_part *p)
{
    return p->is_limit && !p->limit.is_upper;
}

/* ---- split-masks ---- */

/* Positions without their clamp: the position of min(position, most). (v is
 * one, or a comparison, sum or difference of some.) */
static tc_value *unclamped(tc_builder *b, tc_value *v, unsigned axis)
{
    tc_positions p;
    tc_value *repeated = tc_match_repeated(v, axis);
    if (repeated)
        return tc_with_axis(b, unclamped(b, repeated, axis), 1 - axis, v->type);
    const tc_op *op = v->def;
    if (v->type->rank == 1 && tc_match_positions(v, axis, &p))
        return p.most ? op->in[tc_match_op(op->in[0], TC_SPLAT) != NULL] : v;
    if (!op || op->nin != 2 || !tc_op_has(op, TC_ELEMENTWISE))
        return v;
    tc_value *in[] = {unclamped(b, op->in[0], axis),
                      unclamped(b, op->in[1], axis)};
    return tc_build_like(b, op, in, v->type);
}

/* The condition of this part; where other parts of the mask are false it may be
 * anything. */
static tc_value *condition_of(tc_builder *b, const tc_mask_part *p,
                              unsigned axis)
{
    bool clamped = p->is_limit && p->limit.at.most;
    return clamped ? unclamped(b, p->condition, axis) : p->condition;
}

static tc_value *all_of(tc_builder *b, const tc_mask_parts *parts, bool lower)
{
    tc_value *v = NULL;
    for (unsigned i = 0; i < parts->n; i++) {
        if (is_lower(&parts->all[i]) != lower)
            continue;
        tc_value *c = condition_of(b, &parts->all[i], parts->axis);
        v = tc_build_both(b, v, c);
    }
    return v;
}

static bool split(tc_pass_env *env, tc_op *select)
{
    tc_mask_parts parts = {0};
    if (!is_candidate(select) ||
        !find_axis(env->scratch, select->in[0], &parts))
        return false;
    unsigned nlower = 0;
    for (unsigned i = 0; i < parts.n; i++)
        nlower += is_lower(&parts.all[i]);
    if (nlower == 0 || nlower == parts.n)
        return false;
    tc_builder b = tc_builder_before(select);
    tc_value *lower = all_of(&b, &parts, true);
    tc_value *rest = all_of(&b, &parts, false);
    tc_op_set_in(select, 1,
                 tc_build_select(&b, lower, select->in[1], select->in[2]));
    tc_op_set_in(select, 0, rest);
    return true;
}

/* ---- limit-masks ---- */

static bool is_ready(const tc_mask_parts *parts, const tc_op *before)
{
    for (unsigned i = 0; i < parts->n; i++) {
        const tc_mask_limit *l = &parts->all[i].limit;
        const tc_value *needs[] = {l->value, l->plus, l->minus};
        for (unsigned k = 0; parts->all[i].is_limit && k < 3; k++)
            if (needs[k] && !tc_is_ready_without(needs[k], parts->axis, before))
                return false;
    }
    return true;
}

/* Before the loops around, as far as what the limits need allows; before `op`
 * where it allows none. */
static tc_builder earliest(tc_op *op, const tc_mask_parts *parts)
{
    tc_builder b = tc_builder_before(op);
    for (tc_op *at = op->parent->op; at && is_ready(parts, at);
         at = at->parent->op)
        if (at->code == TC_FOR)
            b = tc_builder_before(at);
    return b;
}

/* A term of the limit as i64, of one axis. */
static tc_value *term(tc_builder *b, tc_value *v, unsigned axis,
                      const tc_type *mask)
{
    return tc_build_cast(b, tc_without_axis(b, v, axis, mask), TC_I64);
}

/* The limit, as i32: positions are 0 or more, and an i32 holds them. */
static tc_value *limit_value(tc_builder *b, const tc_mask_limit *l,
                             unsigned axis, const tc_type *mask)
{
    tc_value *v = term(b, l->value, axis, mask);
    if (l->plus)
        v = tc_build_binary(b, TC_ADD, v, term(b, l->plus, axis, mask));
    if (l->minus)
        v = tc_build_binary(b, TC_SUB, v, term(b, l->minus, axis, mask));
    v = tc_build_with(b, TC_ADD, v, l->constant);
    int64_t low = l->is_upper ? -1 : 0;
    v = tc_build_with(b, TC_MAX, v, low);
    v = tc_build_with(b, TC_MIN, v, INT32_MAX);
    return tc_build_cast(b, v, TC_I32);
}

/* The strictest limit on that side; NULL: there is none. */
static tc_value *joined(tc_builder *b, const tc_mask_parts *parts, bool upper,
                        const tc_type *mask)
{
    tc_value *v = NULL;
    for (unsigned i = 0; i < parts->n; i++) {
        const tc_mask_part *p = &parts->all[i];
        if (!p->is_limit || p->limit.is_upper != upper)
            continue;
        tc_value *x = limit_value(b, &p->limit, parts->axis, mask);
        v = v ? tc_build_binary(b, upper ? TC_MIN : TC_MAX, v, x) : x;
    }
    return v;
}

/* range(n) <= limit - base, in the mask's shape. No int wraps: base is not
 * negative, the limit is -1 or more. */
static tc_value *comparison(tc_builder *b, const tc_positions *at,
                            tc_value *limit, bool upper, unsigned axis,
                            const tc_type *mask)
{
    tc_value *range = tc_build_range(b, mask->dims[axis]);
    tc_value *base = tc_build(b, TC_SPLAT, 1, &at->base, limit->type);
    limit = tc_build_binary(b, TC_SUB, limit, base);
    range = tc_with_axis(b, range, 1 - axis, mask);
    limit = tc_with_axis(b, limit, axis, mask);
    return tc_build_cmp(b, upper ? "le" : "ge", range, limit);
}

static bool limit(tc_pass_env *env, tc_op *select)
{
    tc_mask_parts parts = {0};
    const tc_positions *at = NULL;
    if (!is_candidate(select) ||
        !find_axis(env->scratch, select->in[0], &parts))
        return false;
    tc_builder b = tc_builder_before(select), early = earliest(select, &parts);
    if (early.before == select)
        return false; /* it would take as long as the mask */
    const tc_type *mask = select->in[0]->type;
    tc_value *v = NULL;
    for (unsigned i = 0; i < parts.n; i++)
        if (parts.all[i].is_limit)
            at = &parts.all[i].limit.at;
    if (!at->base)
        return false; /* this has been done */
    for (unsigned i = 0; i < parts.n; i++)
        if (!parts.all[i].is_limit)
            v = tc_build_both(&b, v, parts.all[i].condition);
    for (unsigned upper = 0; upper < 2; upper++) {
        tc_value *x = joined(&early, &parts, upper, mask);
        if (x)
            v = tc_build_both(&b, v,
                              comparison(&b, at, x, upper, parts.axis, mask));
    }
    tc_op_set_in(select, 0, v);
    return true;
}

tc_change tc_pass_split_masks(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, split);
}

tc_change tc_pass_limit_masks(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, limit);
}
