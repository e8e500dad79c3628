/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/mask_truth.h"

#include "passes/analysis/match.h"

#include <assert.h>
#include <string.h>

/* Of one loop's mask. The largest of our tests have 79 conditions and 149
 * truths; 1,000 conditions would become 10,000 ops before the loop. */
enum { MOST_CONDITIONS = 512, MOST_TRUTHS = 1024 };

/* ---- Building ---- */

static const tc_truth *new_truth(tc_loop *l, tc_truth_kind kind,
                                 tc_value *value)
{
    tc_truth *t = tc_arena_new(l->scratch, tc_truth);
    *t = (tc_truth){.kind = kind, .value = value, .size = 1};
    return t;
}

static const tc_truth *new_end(tc_loop *l, tc_truth_kind kind, tc_sum at)
{
    tc_truth *t = tc_arena_new(l->scratch, tc_truth);
    *t = (tc_truth){.kind = kind, .at = at, .size = 1};
    return t;
}

static const tc_truth *new_here(tc_loop *l, tc_value *value, bool no)
{
    tc_truth *t = tc_arena_new(l->scratch, tc_truth);
    *t = (tc_truth){.kind = TC_TRUTH_HERE, .value = value, .no = no, .size = 1};
    return t;
}

static const tc_truth *never(tc_loop *l)
{
    return new_truth(l, TC_TRUTH_NEVER, NULL);
}

static const tc_truth *always(tc_loop *l)
{
    return new_truth(l, TC_TRUTH_ALWAYS, NULL);
}

/* i < a and i < b is i < min(a, b), and so on; NULL where nothing fits. */
static const tc_truth *one_bound(tc_loop *l, bool and, const tc_truth *a,
                                 const tc_truth *b)
{
    if (a->kind != b->kind ||
        (a->kind != TC_TRUTH_BELOW && a->kind != TC_TRUTH_FROM))
        return NULL;
    bool least = and == (a->kind == TC_TRUTH_BELOW);
    const tc_sum *x = &a->at, *y = &b->at;
    tc_sum at = {.low = (x->low < y->low) == least ? x->low : y->low,
                 .high = (x->high < y->high) == least ? x->high : y->high};
    at.value = tc_build_binary(&l->before, least ? TC_MIN : TC_MAX,
                               tc_sum_value(l, *x), tc_sum_value(l, *y));
    return new_end(l, a->kind, at);
}

/* The end that makes `index < end` (or `index >= end`) true in all steps, or in
 * none. (An index is below INT32_MAX.) */
static tc_value *end_for(tc_loop *l, tc_truth_kind kind, bool all)
{
    bool high = (kind == TC_TRUTH_BELOW) == all;
    return tc_build_i64(&l->before, high ? INT32_MAX : INT32_MIN);
}

/* A given condition g chooses the end: i < a or g is i < (g ? all : a). */
static const tc_truth *with_given(tc_loop *l, bool and, const tc_truth *given,
                                  const tc_truth *t)
{
    tc_builder *b = &l->before;
    if (t->kind == TC_TRUTH_GIVEN)
        return new_truth(
            l, TC_TRUTH_GIVEN,
            tc_build_binary(b, and? TC_AND : TC_OR, given->value, t->value));
    if (t->kind != TC_TRUTH_BELOW && t->kind != TC_TRUTH_FROM)
        return NULL;
    tc_value *decided = end_for(l, t->kind, !and), *at = tc_sum_value(l, t->at);
    tc_value *end =
        tc_build_select(b, given->value, and? at : decided, and? decided : at);
    tc_sum sum = {end, 0, t->at.low, t->at.high};
    sum.low = sum.low < INT32_MIN ? sum.low : INT32_MIN;
    sum.high = sum.high > INT32_MAX ? sum.high : INT32_MAX;
    return new_end(l, t->kind, sum);
}

/* Is a <= b, whatever they are? */
static bool is_at_most(const tc_sum *a, const tc_sum *b)
{
    return a->high <= b->low ||
           (a->value == b->value && a->constant <= b->constant);
}

/* i < a and i >= b, where a <= b, is never; i < a or i >= b, where b <= a, is
 * always. */
static bool is_decided(bool and, const tc_truth *a, const tc_truth *b)
{
    if (a->kind == TC_TRUTH_FROM && b->kind == TC_TRUTH_BELOW)
        return is_decided(and, b, a);
    return a->kind == TC_TRUTH_BELOW && b->kind == TC_TRUTH_FROM &&
           (and? is_at_most(&a->at, &b->at) : is_at_most(&b->at, &a->at));
}

static const tc_truth *mask_truth_join(tc_loop *l, bool and, const tc_truth *a,
                                       const tc_truth *b)
{
    tc_truth_kind neutral = and? TC_TRUTH_ALWAYS : TC_TRUTH_NEVER;
    tc_truth_kind decides = and? TC_TRUTH_NEVER : TC_TRUTH_ALWAYS;
    if (a->kind == neutral || b->kind == decides)
        return b;
    if (b->kind == neutral || a->kind == decides)
        return a;
    if (is_decided(and, a, b))
        return new_truth(l, decides, NULL);
    const tc_truth *one = one_bound(l, and, a, b);
    if (!one && a->kind == TC_TRUTH_GIVEN)
        one = with_given(l, and, a, b);
    if (!one && b->kind == TC_TRUTH_GIVEN)
        one = with_given(l, and, b, a);
    if (one)
        return one;
    tc_truth *t = tc_arena_new(l->scratch, tc_truth);
    *t = (tc_truth){.kind = and? TC_TRUTH_BOTH : TC_TRUTH_EITHER};
    t->a = a;
    t->b = b;
    t->size = 1 + a->size + b->size;
    return t;
}

static const tc_truth *both(tc_loop *l, const tc_truth *a, const tc_truth *b)
{
    return mask_truth_join(l, true, a, b);
}

static const tc_truth *either(tc_loop *l, const tc_truth *a, const tc_truth *b)
{
    return mask_truth_join(l, false, a, b);
}

static const tc_truth *contrary(tc_loop *l, const tc_truth *t)
{
    switch (t->kind) {
    case TC_TRUTH_NEVER: return always(l);
    case TC_TRUTH_ALWAYS: return never(l);
    case TC_TRUTH_BELOW: return new_end(l, TC_TRUTH_FROM, t->at);
    case TC_TRUTH_FROM: return new_end(l, TC_TRUTH_BELOW, t->at);
    case TC_TRUTH_BOTH:
        return either(l, tc_truth_not(l, t->a), tc_truth_not(l, t->b));
    case TC_TRUTH_EITHER:
        return both(l, tc_truth_not(l, t->a), tc_truth_not(l, t->b));
    case TC_TRUTH_HERE: return new_here(l, t->value, !t->no);
    case TC_TRUTH_GIVEN: break;
    }
    return new_truth(l, TC_TRUTH_GIVEN,
                     tc_build_unary(&l->before, TC_NOT, t->value));
}

const tc_truth *tc_truth_not(tc_loop *l, const tc_truth *t)
{
    const tc_truth *no = tc_map_get(&l->contraries, t);
    if (!no) {
        no = contrary(l, t);
        tc_map_set(&l->contraries, t, (void *)no);
    }
    return no;
}

/* ---- Comparisons ---- */

static tc_sum plus(tc_sum s, int64_t c)
{
    return (tc_sum){s.value, s.constant + c, s.low + c, s.high + c};
}

/* floor(s / by) */
static tc_sum divided(tc_loop *l, tc_sum s, int64_t by)
{
    if (by == 1)
        return s;
    tc_value *v = tc_sum_value(l, s);
    v = tc_build_binary(&l->before, TC_DIV, v,
                        tc_build_int(&l->before, v->type, by));
    return (tc_sum){v, 0, tc_int_div(TC_I64, s.low, by),
                    tc_int_div(TC_I64, s.high, by)};
}

/* factor * i + sum <= 0, where that is not known by now. */
static const tc_truth *solve(tc_loop *l, int64_t factor, tc_sum sum)
{
    tc_builder *b = &l->before;
    if (factor < 0) /* i >= ceil(sum / -factor) */
        return new_end(l, TC_TRUTH_FROM,
                       divided(l, plus(sum, -factor - 1), -factor));
    if (factor > 0) { /* i < floor(-sum / factor) + 1 */
        tc_sum minus;
        bool fits = tc_sum_scale(l, sum, -1, &minus);
        assert(fits);
        (void)fits;
        return new_end(l, TC_TRUTH_BELOW, plus(divided(l, minus, factor), 1));
    }
    tc_value *v = tc_sum_value(l, sum);
    tc_value *zero = tc_build_int(b, v->type, 0);
    return new_truth(l, TC_TRUTH_GIVEN, tc_build_cmp(b, "le", v, zero));
}

/* t <= 0 */
static const tc_truth *not_above_zero(tc_loop *l, const tc_limit *t)
{
    if (t->kind != TC_LIMIT_LINEAR) {
        const tc_truth *a = not_above_zero(l, t->a);
        const tc_truth *b = not_above_zero(l, t->b);
        return mask_truth_join(l, t->kind == TC_LIMIT_MAX, a, b);
    }
    if (t->by)
        return not_above_zero(l, tc_limit_undivided(l, t));
    /* floor(x / d) <= 0 where x <= d - 1 */
    int64_t up = t->divisor - 1, f = t->factor;
    int64_t most = f * (f > 0 ? l->high : l->low) + t->sum.high;
    int64_t least = f * (f > 0 ? l->low : l->high) + t->sum.low;
    if (most <= up)
        return always(l);
    if (least > up)
        return never(l);
    return solve(l, f, plus(t->sum, -up));
}

/* x + by <= y in some lane, in all lanes */
static tc_mask compare(tc_loop *l, tc_bounds x, int64_t by, tc_bounds y)
{
    const tc_limit *c = tc_limit_constant(l, by);
    const tc_limit *low =
        tc_limit_add(l, tc_limit_add(l, x.low, tc_limit_negate(l, y.high)), c);
    const tc_limit *high =
        tc_limit_add(l, tc_limit_add(l, x.high, tc_limit_negate(l, y.low)), c);
    if (!low || !high)
        return (tc_mask){NULL, NULL, NULL};
    return (tc_mask){not_above_zero(l, low), not_above_zero(l, high), NULL};
}

static tc_mask complement(tc_loop *l, tc_mask x)
{
    if (!x.any)
        return x;
    return (tc_mask){tc_truth_not(l, x.all), tc_truth_not(l, x.any), x.unknown};
}

static tc_mask combine(tc_loop *l, bool and, tc_mask x, tc_mask y)
{
    if (!x.any || !y.any)
        return (tc_mask){NULL, NULL, NULL};
    return (tc_mask){mask_truth_join(l, and, x.any, y.any),
                     mask_truth_join(l, and, x.all, y.all),
                     x.unknown ? x.unknown : y.unknown};
}

static bool is_not_negative(const tc_loop *l, const tc_limit *t)
{
    if (t->kind == TC_LIMIT_LINEAR)
        return t->factor * (t->factor > 0 ? l->low : l->high) + t->sum.low >= 0;
    bool a = is_not_negative(l, t->a), b = is_not_negative(l, t->b);
    return t->kind == TC_LIMIT_MAX ? a || b : a && b;
}

/* ---- Searches ---- */

/* The bisect in the loop whose lanes v holds; NULL: it is something else. */
static const tc_op *bisect_in_loop(const tc_loop *l, const tc_value *v)
{
    while (v->def &&
           (v->def->code == TC_SPLAT || v->def->code == TC_BROADCAST ||
            v->def->code == TC_EXPAND_DIMS || v->def->code == TC_RESHAPE ||
            v->def->code == TC_TRANS))
        v = v->def->in[0];
    const tc_op *op = tc_match_op(v, TC_BISECT);
    bool ok =
        op && !tc_loop_has_outside(l, v) && tc_loop_has_outside(l, op->in[0]);
    return ok ? op : NULL;
}

/* bisect(t, x) <= at where x is below this: t[at], or what no x reaches. */
static const tc_limit *end_of_piece(tc_loop *l, tc_value *t, tc_value *at)
{
    static const int64_t FAR = (int64_t)1 << 40;
    tc_builder *b = &l->before;
    tc_value *n = tc_build_at(b, TC_SIZE, t, "dim", 0);
    tc_value *gather[] = {t, at};
    tc_value *e = tc_build(b, TC_GATHER, 2, gather, NULL);
    e = tc_build_cast(b, e, TC_I64);
    const char *preds[] = {"ge", "lt"};
    tc_value *with[] = {tc_build_cast(b, n, TC_I64), tc_build_i64(b, 0)};
    for (int i = 0; i < 2; i++) {
        tc_value *inside = tc_build_cmp(b, preds[i], at, with[i]);
        tc_value *outside = tc_build_i64(b, i ? -FAR : FAR);
        e = tc_build_select(b, inside, outside, e);
    }
    return tc_limit_of_sum(l, (tc_sum){e, 0, -FAR, FAR});
}

/* The ends of the pieces y + by; ends ascend with y. */
static tc_bounds ends_of_pieces(tc_loop *l, tc_value *t, tc_bounds y,
                                int64_t by)
{
    const tc_limit *c = tc_limit_constant(l, by);
    tc_value *low = tc_limit_value(l, tc_limit_add(l, y.low, c));
    tc_value *high = tc_limit_value(l, tc_limit_add(l, y.high, c));
    if (!low || !high)
        return (tc_bounds){NULL, NULL};
    return (tc_bounds){end_of_piece(l, t, low), end_of_piece(l, t, high)};
}

/* A search in the loop, compared with what does not change, is a comparison of
 * what is searched for: bisect(t, x) <= y where x < t[y]. */
static tc_mask of_bisects(tc_loop *l, const tc_op *op)
{
    const char *pred = tc_op_word(op, "pred");
    const tc_op *search = bisect_in_loop(l, op->in[0]);
    bool swapped = !search;
    if (swapped)
        search = bisect_in_loop(l, op->in[1]);
    if (!search || pred[0] == 'u' || search->in[0]->type->elem->kind != TC_I32)
        return (tc_mask){NULL, NULL, NULL};
    tc_bounds x = tc_bounds_of(l, search->in[1]);
    tc_bounds y = tc_bounds_of(l, op->in[swapped ? 0 : 1]);
    tc_bounds end = ends_of_pieces(l, search->in[0], y, 0);
    tc_bounds start = ends_of_pieces(l, search->in[0], y, -1);
    if (!x.low || !end.low || !start.low)
        return (tc_mask){NULL, NULL, NULL};
    bool less = pred[0] == (swapped ? 'g' : 'l');
    if (pred[1] == 't') /* below, above */
        return less ? compare(l, x, 1, start) : compare(l, end, 0, x);
    tc_mask most = compare(l, x, 1, end), least = compare(l, start, 0, x);
    if (pred[0] == 'l' || pred[0] == 'g')
        return less ? most : least;
    tc_mask equal = combine(l, true, most, least);
    return pred[0] == 'e' ? equal : complement(l, equal);
}

/* An order, by its name. */
static tc_mask ordered(tc_loop *l, const char *pred, tc_bounds x, tc_bounds y)
{
    if (strcmp(pred, "lt") == 0)
        return compare(l, x, 1, y);
    if (strcmp(pred, "le") == 0)
        return compare(l, x, 0, y);
    if (strcmp(pred, "gt") == 0)
        return compare(l, y, 1, x);
    if (strcmp(pred, "ge") == 0)
        return compare(l, y, 0, x);
    tc_mask equal = combine(l, true, compare(l, x, 0, y), compare(l, y, 0, x));
    return strcmp(pred, "eq") == 0 ? equal : complement(l, equal);
}

static tc_mask visit(tc_loop *l, tc_value *v);

/* The tile of i1 whose true lanes v counts (the sum of its cast); NULL: v is no
 * such sum. */
static tc_value *counted(tc_value *v)
{
    while (tc_match_op(v, TC_REDUCE) && tc_op_is_word(v->def, "kind", "sum"))
        v = v->def->in[0];
    tc_op *cast = tc_match_op(v, TC_CAST);
    bool is_i1 = cast && tc_lane_kind(cast->in[0]) == TC_I1;
    return is_i1 && cast->in[0]->type->kind == TC_TILE ? cast->in[0] : NULL;
}

/* Is a count above 0? */
static tc_mask of_count(tc_loop *l, const tc_op *op)
{
    tc_value *all = counted(op->in[0]);
    if (!all || !tc_match_int(op->in[1], 0) ||
        op->in[0]->type->kind == TC_TILE ||
        !(tc_op_is_word(op, "pred", "gt") || tc_op_is_word(op, "pred", "ne")))
        return (tc_mask){NULL, NULL, NULL};
    return visit(l, all);
}

static tc_mask of_cmp(tc_loop *l, const tc_op *op)
{
    tc_mask found = of_bisects(l, op);
    if (!found.any)
        found = of_count(l, op);
    if (found.any)
        return found;
    tc_bounds x = tc_bounds_of(l, op->in[0]), y = tc_bounds_of(l, op->in[1]);
    const char *pred = tc_op_word(op, "pred");
    if (!x.low || !y.low)
        return (tc_mask){NULL, NULL, NULL};
    if (pred[0] == 'u') { /* the same as signed, without a sign */
        if (!is_not_negative(l, x.low) || !is_not_negative(l, y.low))
            return (tc_mask){NULL, NULL, NULL};
        pred++;
    }
    return ordered(l, pred, x, y);
}

/* ---- Conditions ---- */

static tc_mask of_same(tc_loop *l, const tc_op *op)
{
    return visit(l, op->in[0]);
}

static tc_mask of_not(tc_loop *l, const tc_op *op)
{
    return complement(l, visit(l, op->in[0]));
}

static tc_mask of_and(tc_loop *l, const tc_op *op)
{
    return combine(l, true, visit(l, op->in[0]), visit(l, op->in[1]));
}

static tc_mask of_or(tc_loop *l, const tc_op *op)
{
    return combine(l, false, visit(l, op->in[0]), visit(l, op->in[1]));
}

/* c ? x : y */
static tc_mask choose(tc_loop *l, tc_mask c, tc_mask x, tc_mask y)
{
    return combine(l, false, combine(l, true, c, x),
                   combine(l, true, complement(l, c), y));
}

static tc_mask of_xor(tc_loop *l, const tc_op *op)
{
    tc_mask x = visit(l, op->in[0]), y = visit(l, op->in[1]);
    return choose(l, x, complement(l, y), y);
}

static tc_mask of_select(tc_loop *l, const tc_op *op)
{
    return choose(l, visit(l, op->in[0]), visit(l, op->in[1]),
                  visit(l, op->in[2]));
}

/* any, all: what holds in some lane (in all lanes) before, does after. */
static tc_mask of_reduce(tc_loop *l, const tc_op *op)
{
    bool known =
        tc_op_is_word(op, "kind", "or") || tc_op_is_word(op, "kind", "and");
    return known ? visit(l, op->in[0]) : (tc_mask){NULL, NULL, NULL};
}

typedef tc_mask mask_fn(tc_loop *l, const tc_op *op);
static mask_fn *const by_op[TC_OPCODE_COUNT] = {
    [TC_CMP] = of_cmp,          [TC_NOT] = of_not,
    [TC_AND] = of_and,          [TC_OR] = of_or,
    [TC_XOR] = of_xor,          [TC_SELECT] = of_select,
    [TC_SPLAT] = of_same,       [TC_BROADCAST] = of_same,
    [TC_EXPAND_DIMS] = of_same, [TC_RESHAPE] = of_same,
    [TC_TRANS] = of_same,       [TC_REDUCE] = of_reduce,
};

/* A condition from before the loop: reduced there by any and by all. */
static tc_mask of_outside(tc_loop *l, tc_value *v)
{
    return (tc_mask){new_truth(l, TC_TRUTH_GIVEN, tc_loop_reduce(l, v, "or")),
                     new_truth(l, TC_TRUTH_GIVEN, tc_loop_reduce(l, v, "and")),
                     NULL};
}

static tc_mask give_up(tc_loop *l, const tc_value *v)
{
    l->too_long = l->too_long ? l->too_long : v;
    return (tc_mask){always(l), never(l), l->too_long};
}

/* Conditions that use each other more than once would make truths that double
 * from one to the next. */
static tc_mask within_size(tc_loop *l, tc_mask x, const tc_value *v)
{
    bool fits = x.any->size <= MOST_TRUTHS && x.all->size <= MOST_TRUTHS;
    return fits ? x : give_up(l, v);
}

static tc_mask find(tc_loop *l, tc_value *v)
{
    tc_scalar c;
    tc_mask x = {NULL, NULL, NULL};
    bool outside = tc_loop_has_outside(l, v);
    if (tc_match_const(v, &c))
        return (tc_mask){c.i ? always(l) : never(l), c.i ? always(l) : never(l),
                         NULL};
    if (v->def && by_op[v->def->code] && (!outside || v->type->kind == TC_TILE))
        x = by_op[v->def->code](l, v->def);
    if ((!x.any || x.unknown) && outside)
        x = of_outside(l, v);
    if (!x.any && l->asks_here && !outside && v->type->kind != TC_TILE)
        x.any = x.all = new_here(l, v, false);
    return x.any ? within_size(l, x, v) : (tc_mask){always(l), never(l), v};
}

static tc_mask visit(tc_loop *l, tc_value *v)
{
    tc_mask *known = tc_map_get(&l->truths, v);
    if (!known) {
        known = tc_arena_new(l->scratch, tc_mask);
        bool room = l->nconditions++ < MOST_CONDITIONS;
        *known = room ? find(l, v) : give_up(l, v);
        tc_map_set(&l->truths, v, known);
    }
    return *known;
}

tc_mask tc_mask_of(tc_loop *l, tc_value *condition)
{
    tc_mask x = visit(l, condition);
    if (!l->sure)
        return x;
    const tc_truth *sure = new_truth(l, TC_TRUTH_GIVEN, l->sure);
    if (x.any->kind != TC_TRUTH_ALWAYS)
        x.any = either(l, x.any, tc_truth_not(l, sure));
    if (x.all->kind != TC_TRUTH_NEVER)
        x.all = both(l, x.all, sure);
    return x;
}

/* ---- Ranges ---- */

static tc_value *far_away(tc_loop *l, bool high)
{
    return tc_build_i64(&l->before, high ? INT32_MAX : INT32_MIN);
}

static tc_value *outermost(tc_loop *l, bool and, bool low, tc_value *a,
                           tc_value *b)
{
    if (!a || !b)
        return and? (a ? a : b) : NULL;
    return tc_build_binary(&l->before, and == low ? TC_MAX : TC_MIN, a, b);
}

tc_hull tc_truth_hull(tc_loop *l, const tc_truth *t)
{
    switch (t->kind) {
    case TC_TRUTH_HERE:
    case TC_TRUTH_ALWAYS: return (tc_hull){NULL, NULL};
    case TC_TRUTH_BELOW: return (tc_hull){NULL, tc_sum_value(l, t->at)};
    case TC_TRUTH_FROM: return (tc_hull){tc_sum_value(l, t->at), NULL};
    case TC_TRUTH_NEVER:
        return (tc_hull){far_away(l, true), far_away(l, false)};
    case TC_TRUTH_GIVEN: {
        tc_value *min = far_away(l, false), *max = far_away(l, true);
        return (tc_hull){tc_build_select(&l->before, t->value, min, max),
                         tc_build_select(&l->before, t->value, max, min)};
    }
    case TC_TRUTH_BOTH:
    case TC_TRUTH_EITHER: break;
    }
    tc_hull a = tc_truth_hull(l, t->a), b = tc_truth_hull(l, t->b);
    bool and = t->kind == TC_TRUTH_BOTH;
    return (tc_hull){outermost(l, and, true, a.low, b.low),
                     outermost(l, and, false, a.high, b.high)};
}

enum { BOUNDED_BELOW = 1, BOUNDED_ABOVE = 2, BROKEN = 4 };

static unsigned shape(const tc_truth *t)
{
    switch (t->kind) {
    case TC_TRUTH_HERE: return BROKEN;
    case TC_TRUTH_BELOW: return BOUNDED_ABOVE;
    case TC_TRUTH_FROM: return BOUNDED_BELOW;
    case TC_TRUTH_BOTH: return shape(t->a) | shape(t->b);
    case TC_TRUTH_EITHER: break;
    default: return 0;
    }
    unsigned a = shape(t->a), b = shape(t->b);
    bool one_way = a == b && a != (BOUNDED_BELOW | BOUNDED_ABOVE);
    return a | b | (a && b && !one_way ? BROKEN : 0);
}

bool tc_truth_is_range(const tc_truth *t)
{
    return !(shape(t) & BROKEN);
}

/* The index is an i32 below INT32_MAX, so its limits may be clamped to that:
 * the comparisons have the same results. */
static tc_value *compared(tc_loop *l, const tc_truth *t, tc_builder *b)
{
    tc_value *i = l->op->regions[0]->args[0];
    tc_value *v = tc_sum_value(l, t->at);
    if (t->at.low < INT32_MIN)
        v = tc_build_binary(&l->before, TC_MAX, v, far_away(l, false));
    if (t->at.high > INT32_MAX)
        v = tc_build_binary(&l->before, TC_MIN, v, far_away(l, true));
    v = tc_build(&l->before, TC_CAST, 1, &v, i->type);
    return tc_build_cmp(b, t->kind == TC_TRUTH_BELOW ? "lt" : "ge", i, v);
}

tc_value *tc_truth_value(tc_loop *l, const tc_truth *t, tc_builder *b)
{
    const tc_type *i1 = tc_type_scalar(b->func->module->cx, TC_I1);
    switch (t->kind) {
    case TC_TRUTH_NEVER: return tc_build_int(b, i1, 0);
    case TC_TRUTH_ALWAYS: return tc_build_int(b, i1, 1);
    case TC_TRUTH_GIVEN: return t->value;
    case TC_TRUTH_HERE:
        return t->no ? tc_build_unary(b, TC_NOT, t->value) : t->value;
    case TC_TRUTH_BELOW:
    case TC_TRUTH_FROM: return compared(l, t, b);
    case TC_TRUTH_BOTH:
    case TC_TRUTH_EITHER: break;
    }
    return tc_build_binary(b, t->kind == TC_TRUTH_BOTH ? TC_AND : TC_OR,
                           tc_truth_value(l, t->a, b),
                           tc_truth_value(l, t->b, b));
}

/* ---- Reasons ---- */

/* The cause, for messages: the first operand whose bounds are unknown. */
static const tc_value *culprit(tc_loop *l, const tc_value *v)
{
    for (unsigned i = 0; v->def && i < v->def->nin; i++) {
        tc_value *in = v->def->in[i];
        bool is_int = tc_lane_kind(in) > TC_I1 && tc_has_int_lanes(in);
        if (is_int && !tc_loop_has_outside(l, in) && !tc_bounds_of(l, in).low)
            return culprit(l, in);
    }
    return v;
}

const char *tc_truth_why(tc_loop *l, const tc_value *unknown)
{
    tc_context *cx = l->before.func->module->cx;
    if (unknown == l->too_long)
        return tc_arena_printf(l->scratch,
                               "it has more than %d conditions, or more than "
                               "%d with those that are used again",
                               MOST_CONDITIONS, MOST_TRUTHS);
    const tc_value *v = culprit(l, unknown);
    if (!v->def)
        return tc_arena_printf(l->scratch, "%s is carried from step to step",
                               tc_value_name(cx, v));
    return tc_arena_printf(
        l->scratch,
        "`%s` is not linear in the index, so its range is not known",
        tc_op_name(v->def));
}
