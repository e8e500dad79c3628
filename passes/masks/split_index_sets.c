/* SPDX-License-Identifier: Apache-2.0
 *
 * split-index-sets: splits a loop with products that compares its counter with
 * a loop-invariant value into two loops, in which the comparison is known.
 *
 *   %r = for %i = %lo to %hi step 64    %r1 = for %i = %lo to min(%hi, %b)
 *       carry(%x = %x0) {                   step 64 carry(%x = %x0) {
 *     .. = if %i < %b { A }               A
 *          else { B }                     yield ..
 *     yield ..                          }
 *   }                          becomes  %r = for %i = %mid to %hi
 *                                           step 64 carry(%x = %r1) {
 *                                         B
 *                                         yield ..
 *                                       }
 *
 * %mid: the first step from %b on. So blocks of keys without a mask have no
 * mask code either (elide-masks makes such branches). Runs after software
 * pipelining: products in flight go from one loop to the next. At most twice
 * for a loop, as a window has two ends. Tests: test/ir/passes/split-index-sets.
 */
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/passes.h"

static const char pass[] = "split-index-sets";

/* A loop with more products (attention's gradients) needs all registers: values
 * handed from one loop to the next would be spilled. */
enum { MOST_SPLITS = 2, MOST_PRODUCTS = 2 };

/* A comparison of the counter, which has one value (`first`) in the first steps
 * and the other value in all later ones. */
typedef struct bound {
    tc_op *cmp;
    tc_value *at; /* bound of the first later step, or the one after it */
    bool first;
    bool inclusive; /* `at` itself counts among the first */
} bound;

/* ---- Comparisons ---- */

/* Does it, through and, or, decide an `if` of this region? */
static bool decides(const tc_value *v, const tc_region *r)
{
    tc_each_use (u, v) {
        const tc_op *op = u->op;
        bool logic = op->code == TC_AND || op->code == TC_OR;
        if (op->parent == r &&
            (op->code == TC_IF || (logic && decides(op->out[0], r))))
            return true;
    }
    return false;
}

static bool match_bound(const tc_op *loop, tc_op *op, bound *b)
{
    static const struct {
        const char *pred, *swapped;
        bool first, inclusive;
    } preds[] = {{"lt", "gt", true, false},
                 {"le", "ge", true, true},
                 {"ge", "le", false, false},
                 {"gt", "lt", false, true}};
    if (op->code != TC_CMP || op->in[0]->type->kind != TC_I32)
        return false;
    const tc_value *counter = loop->regions[0]->args[0];
    bool swapped = op->in[1] == counter;
    b->cmp = op;
    b->at = op->in[!swapped];
    if (op->in[swapped] != counter || !tc_value_is_visible(b->at, loop) ||
        !decides(op->out[0], loop->regions[0]))
        return false;
    for (unsigned i = 0; i < sizeof preds / sizeof *preds; i++)
        if (tc_op_is_word(op, "pred",
                          swapped ? preds[i].swapped : preds[i].pred)) {
            b->first = preds[i].first;
            b->inclusive = preds[i].inclusive;
            return true;
        }
    return false;
}

/* ---- Known comparisons ---- */

static void replace_if(tc_op *op, bool known)
{
    tc_region *r = op->regions[!known];
    tc_op *yield = tc_region_terminator(r);
    tc_region_move_before(r, op);
    for (unsigned i = 0; i < op->nout; i++)
        tc_value_replace(op->out[i], yield->in[i]);
    tc_op_erase(op);
}

/* The op that v decides: an `if` of the region, or a part of a condition. */
static tc_op *find_decided(const tc_value *v, const tc_region *r)
{
    tc_each_use (u, v) {
        tc_op *op = u->op;
        if (op->code == TC_AND || op->code == TC_OR ||
            (op->code == TC_IF && op->parent == r))
            return op;
    }
    return NULL;
}

static void know(tc_value *v, const tc_region *r, bool known)
{
    for (tc_op *op; (op = find_decided(v, r));) {
        if (op->code == TC_IF) {
            replace_if(op, known);
            continue;
        }
        bool settled = known == (op->code == TC_OR);
        tc_value *other = op->in[op->in[0] == v];
        tc_value_replace(op->out[0], settled ? v : other);
        tc_op_erase(op);
    }
}

/* ---- The two loops ---- */

/* Where the first steps end: *end bounds them, *next is the first of the
 * others. In 64 bits, where nothing wraps. */
static void build_wide_bounds(tc_builder *b, const tc_op *loop, const bound *at,
                              tc_value **end, tc_value **next)
{
    const tc_type *t = tc_type_scalar(b->func->module->cx, TC_I64);
    tc_value *lo = tc_build_cast(b, loop->in[0], TC_I64),
             *hi = tc_build_cast(b, loop->in[1], TC_I64),
             *step = tc_build_cast(b, loop->in[2], TC_I64),
             *one = tc_build_int(b, t, 1);
    tc_value *stop = tc_build_cast(b, at->at, TC_I64);
    if (at->inclusive)
        stop = tc_build_binary(b, TC_ADD, stop, one);
    stop = tc_build_binary(b, TC_MIN, stop, hi);
    bool positions = tc_op_int(loop, "by_rows");
    *end = tc_build_cast(
        b, positions ? tc_build_binary(b, TC_MAX, stop, lo) : stop, TC_I32);
    /* lo + ceil((stop - lo) / step) step, of no steps lo. */
    tc_value *span = tc_build_binary(b, TC_SUB, stop, lo);
    span = tc_build_binary(b, TC_MAX, span, tc_build_int(b, t, 0));
    tc_value *steps = tc_build_binary(b, TC_SUB, span, one);
    steps = tc_build_binary(b, TC_DIV, steps, step);
    steps = tc_build_binary(b, TC_ADD, steps, one);
    tc_value *mid =
        tc_build_binary(b, TC_ADD, lo, tc_build_binary(b, TC_MUL, steps, step));
    tc_value *begin = tc_build_binary(b, TC_MIN, mid, hi);
    /* The same if hi is below lo: by_rows promises that both are positions. */
    *next = tc_build_cast(
        b, positions ? tc_build_binary(b, TC_MAX, begin, lo) : begin, TC_I32);
}

/* The same where the step is a power of two: in the few ops that stand between
 * the two loops. */
static void build_bounds(tc_builder *b, const tc_op *loop, const bound *at,
                         tc_value **end, tc_value **next)
{
    tc_value *lo = loop->in[0], *step = loop->in[2];
    tc_scalar by;
    if (!tc_match_const(step, &by) || (by.i & (by.i - 1))) {
        build_wide_bounds(b, loop, at, end, next);
        return;
    }
    /* Of no steps lo. */
    tc_value *hi = tc_build_binary(b, TC_MAX, loop->in[1], lo);
    tc_value *stop = tc_build_binary(b, TC_MIN, at->at, hi);
    if (at->inclusive) {
        tc_value *less = tc_build_cmp(b, "lt", at->at, hi);
        tc_value *after =
            tc_build_binary(b, TC_ADD, at->at, tc_build_int(b, lo->type, 1));
        stop = tc_build_select(b, less, after, hi);
    }
    *end = stop = tc_build_binary(b, TC_MAX, stop, lo);
    /* A sum that wraps would be after hi. */
    tc_value *rest = tc_build_binary(b, TC_SUB, lo, stop);
    rest =
        tc_build_binary(b, TC_AND, rest, tc_build_int(b, lo->type, by.i - 1));
    tc_value *mid = tc_build_binary(b, TC_ADD, stop, rest);
    tc_value *wraps = tc_build_cmp(b, "lt", mid, stop);
    mid = tc_build_binary(b, TC_MIN, mid, hi);
    *next = tc_build_select(b, wraps, hi, mid);
}

/* The comparison in a copy of its loop. */
static tc_op *same_op(const tc_op *loop, const tc_op *copy, const tc_op *op)
{
    tc_op *to = copy->regions[0]->first;
    for (const tc_op *from = loop->regions[0]->first; from != op;
         from = from->next)
        to = to->next;
    return to;
}

/* Splits the loop: the result has the first steps, `loop` keeps the later
 * ones. */
static tc_op *split(tc_op *loop, const bound *at)
{
    tc_builder b = tc_builder_before(loop);
    tc_value *end, *next;
    build_bounds(&b, loop, at, &end, &next);
    tc_op *first = tc_op_clone(loop->func, loop);
    tc_op_insert(first, loop->parent, loop);
    tc_op_set_in(first, 1, end);
    tc_op_set_in(loop, 0, next);
    for (unsigned i = 0; i < loop->nout; i++) {
        tc_op_set_in(loop, 3 + i, first->out[i]);
        loop->out[i]->data = NULL; /* what is cloned next needs no copy */
    }
    tc_op *cmp = same_op(loop, first, at->cmp);
    know(cmp->out[0], first->regions[0], at->first);
    know(at->cmp->out[0], loop->regions[0], !at->first);
    return first;
}

/* ---- Loops ---- */

/* Products that need registers for a sum of their own: those that add to
 * another product's sum are not counted. */
static unsigned count_products(const tc_region *r)
{
    unsigned n = 0;
    tc_each_op (op, r) {
        const tc_op *sum = op->code == TC_MMA ? op->in[2]->def : NULL;
        n += op->code == TC_MMA && tc_op_int(op, "async") &&
             !(sum && sum->code == TC_MMA && sum->parent == r);
    }
    return n;
}

static bool has_products(const tc_op *loop)
{
    unsigned n = count_products(loop->regions[0]);
    return n > 0 && n <= MOST_PRODUCTS;
}

static bool find_bound(const tc_op *loop, bound *b)
{
    int64_t step;
    tc_scalar x;
    if (!tc_match_const(loop->in[2], &x) || loop->in[0]->type->kind != TC_I32)
        return false;
    step = x.i;
    tc_each_op (op, loop->regions[0])
        if (step > 0 && match_bound(loop, op, b))
            return true;
    return false;
}

static unsigned split_all(tc_context *cx, tc_op *loop, unsigned most)
{
    bound b;
    if (!most || !has_products(loop) || !find_bound(loop, &b))
        return 0;
    tc_remark(cx, b.cmp->loc, pass,
              "the loop is split here, into steps in which this is true and "
              "steps in which it is not");
    tc_op *first = split(loop, &b);
    split_all(cx, first, most - 1);
    split_all(cx, loop, most - 1);
    return 1;
}

static bool split_index_sets_visit(tc_pass_env *env, tc_op *op)
{
    return op->code == TC_FOR && split_all(env->cx, op, MOST_SPLITS) > 0;
}

tc_change tc_pass_split_index_sets(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, split_index_sets_visit);
}
