/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/masks/mask_limits.h"

#include "passes/analysis/match.h"

#include <string.h>

/* ---- One comparison ---- */

static bool is_within_i32(int64_t low, int64_t high)
{
    return low >= INT32_MIN && high <= INT32_MAX;
}

bool tc_match_position_sum(tc_value *v, unsigned axis, tc_position_sum *s)
{
    *s = (tc_position_sum){.sign = 1};
    if (tc_match_positions(v, axis, &s->at))
        return true;
    const tc_op *op = v->def;
    if (!op || (op->code != TC_ADD && op->code != TC_SUB))
        return false;
    for (unsigned i = 0; i < 2; i++) {
        if (!tc_match_positions(op->in[i], axis, &s->at) ||
            !tc_is_same_along(op->in[1 - i], axis))
            continue;
        s->rest = op->in[1 - i];
        tc_int_range x = tc_positions_span(&s->at),
                     r = tc_int_range_of(s->rest);
        if (op->code == TC_ADD)
            return is_within_i32(x.low + r.low, x.high + r.high);
        s->sign = i == 0 ? 1 : -1;
        s->subtracts = i == 0;
        return i == 0 ? is_within_i32(x.low - r.high, x.high - r.low)
                      : is_within_i32(r.low - x.high, r.high - x.low);
    }
    return false;
}

static const char *swapped(const char *pred)
{
    static const char *const pairs[][2] = {
        {"lt", "gt"}, {"le", "ge"}, {"gt", "lt"}, {"ge", "le"}};
    for (unsigned i = 0; i < 4; i++)
        if (strcmp(pairs[i][0], pred) == 0)
            return pairs[i][1];
    return NULL;
}

/* sign * position + rest `pred` other: the position has its limit at
 * other - rest, or, of the negative one, on the other side of rest - other. */
static bool limit_of_sum(const tc_position_sum *s, tc_value *other,
                         const char *pred, tc_mask_limit *limit)
{
    if (s->sign < 0 && !(pred = swapped(pred)))
        return false;
    *limit = (tc_mask_limit){.at = s->at, .is_upper = pred[0] == 'l'};
    if (pred[1] == 't')
        limit->constant = limit->is_upper ? -1 : 1;
    if (s->sign < 0) {
        limit->value = s->rest;
        limit->minus = other;
    } else {
        limit->value = other;
        *(s->subtracts ? &limit->plus : &limit->minus) = s->rest;
    }
    return true;
}

/* Positions are of `range`, so they and what they are compared with are i32. */
static bool limit_of(tc_value *condition, unsigned axis, tc_mask_limit *limit)
{
    tc_value *repeated = tc_match_repeated(condition, axis);
    const tc_op *cmp = tc_match_op(repeated ? repeated : condition, TC_CMP);
    tc_position_sum s;
    if (!cmp)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        const char *pred = tc_op_word(cmp, "pred");
        if (i == 1 || !swapped(pred))
            pred = swapped(pred);
        if (!pred || !tc_match_position_sum(cmp->in[i], axis, &s) ||
            !tc_is_same_along(cmp->in[1 - i], axis))
            continue;
        tc_int_range x = tc_positions_span(&s.at);
        return x.low >= 0 && x.high <= INT32_MAX &&
               limit_of_sum(&s, cmp->in[1 - i], pred, limit);
    }
    return false;
}

/* ---- All of them ---- */

static unsigned count_parts(const tc_value *v)
{
    const tc_op *and = tc_match_op(v, TC_AND);
    return and? count_parts(and->in[0]) + count_parts(and->in[1]) : 1;
}

static void collect(tc_mask_parts *parts, tc_value *v)
{
    const tc_op *and = tc_match_op(v, TC_AND);
    if (!and) {
        parts->all[parts->n++].condition = v;
        return;
    }
    collect(parts, and->in[0]);
    collect(parts, and->in[1]);
}

/* The value %n of a limit `position < %n`; NULL: the limit is another. */
static const tc_value *bound_of(const tc_mask_limit *l)
{
    const tc_op *splat = tc_match_op(l->value, TC_SPLAT);
    bool plain = l->is_upper && l->constant == -1 && !l->plus && !l->minus;
    return plain && splat && !l->at.most ? splat->in[0] : NULL;
}

static bool is_one_less(const tc_value *v, const tc_value *n)
{
    const tc_op *add = tc_match_op(v, TC_ADD), *sub = tc_match_op(v, TC_SUB);
    if (sub)
        return sub->in[0] == n && tc_match_int(sub->in[1], 1);
    for (unsigned i = 0; add && i < 2; i++)
        if (add->in[i] == n && tc_match_int(add->in[1 - i], -1))
            return true;
    return false;
}

bool tc_mask_bounds(const tc_mask_parts *parts, const tc_positions *at)
{
    for (unsigned i = 0; i < parts->n; i++) {
        const tc_mask_part *p = &parts->all[i];
        const tc_value *n = p->is_limit ? bound_of(&p->limit) : NULL;
        if (n && p->limit.at.base == at->base && p->limit.at.n == at->n &&
            is_one_less(at->most, n))
            return true;
    }
    return false;
}

/* Only limits of the same positions. */
static void keep_one_base(tc_mask_parts *parts)
{
    const tc_mask_limit *first = NULL;
    for (unsigned i = 0; i < parts->n; i++) {
        tc_mask_part *p = &parts->all[i];
        if (p->is_limit && p->limit.at.most &&
            !tc_mask_bounds(parts, &p->limit.at))
            p->is_limit = false;
        if (!p->is_limit)
            continue;
        if (!first)
            first = &p->limit;
        p->is_limit = p->limit.at.base == first->at.base;
    }
}

tc_mask_parts tc_mask_parts_of(tc_arena *a, tc_value *mask, unsigned axis)
{
    tc_mask_parts parts = {axis, 0,
                           tc_arena_array(a, tc_mask_part, count_parts(mask))};
    collect(&parts, mask);
    for (unsigned i = 0; i < parts.n; i++) {
        tc_mask_part *p = &parts.all[i];
        p->is_limit = limit_of(p->condition, axis, &p->limit);
    }
    keep_one_base(&parts);
    return parts;
}
