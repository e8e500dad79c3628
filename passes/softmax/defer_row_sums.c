/* SPDX-License-Identifier: Apache-2.0
 *
 * defer-row-sums: keeps the row sums of a loop as partial sums, one for each
 * thread that shares a line, until the loop ends.
 *
 *   %sum = for .. carry(%s0 = 0) {           %parts = for .. carry(%p0 = 0) {
 *     %r = reduce %x axis(1) kind(sum)         %r = reduce %x axis(1) kind(sum)
 *     %s1 = %s0 * %f + %r                           within(thread)
 *     yield %s1                                %p1 = %p0 * %f[:, none] + %r
 *   }                                          yield %p1
 *                                            }
 *                                            %sum = reduce %parts axis(1)
 *                                                   kind(sum)
 *
 * This saves the shuffles of every step (the row sums of attention: Shah et al.
 * 2024). The factor, if there is one, must be the same for all threads that
 * share the line, as a value of the sum's shape is. Tests:
 * test/ir/passes/defer-row-sums.
 */
#include "ir/types/layout.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/passes.h"

static const char pass[] = "defer-row-sums";

/* A slot of a loop: next = carried * factor + reduce. */
typedef struct summing {
    tc_op *loop, *reduce, *add;
    tc_op *mul; /* NULL: an fma does it, or there is no factor */
    unsigned slot;
    tc_value *carried, *factor; /* factor: NULL is 1 */
    const tc_type *parts;
} summing;

static tc_op *sum_of(const tc_value *v)
{
    tc_op *op = tc_match_op(v, TC_REDUCE);
    return op && tc_value_has_one_use(v) && tc_op_is_word(op, "kind", "sum") &&
                   tc_op_is_word(op, "within", "block")
               ? op
               : NULL;
}

/* v = carried, or carried * factor. */
static bool match_scaled(summing *s, const tc_value *v)
{
    if (v == s->carried)
        return true;
    s->mul = tc_match_op(v, TC_MUL);
    if (!s->mul || !tc_value_has_one_use(v))
        return false;
    unsigned i = s->mul->in[1] == s->carried;
    s->factor = s->mul->in[1 - i];
    return s->mul->in[i] == s->carried;
}

static bool match_next(summing *s, const tc_value *next)
{
    tc_op *fma = tc_match_op(next, TC_FMA);
    s->add = fma ? fma : tc_match_op(next, TC_ADD);
    if (!s->add || !tc_value_has_one_use(next) ||
        !tc_value_has_one_use(s->carried))
        return false;
    if (fma) {
        unsigned i = fma->in[1] == s->carried;
        s->factor = fma->in[1 - i];
        s->reduce = sum_of(fma->in[2]);
        return s->reduce && fma->in[i] == s->carried;
    }
    for (unsigned i = 0; i < 2; i++) {
        s->reduce = sum_of(s->add->in[i]);
        if (s->reduce)
            return match_scaled(s, s->add->in[1 - i]);
    }
    return false;
}

/* The parts' type; false: nothing is shared, or the factor would have to be
 * held otherwise. */
static bool find_parts(tc_context *cx, summing *s)
{
    const tc_type *x = s->reduce->in[0]->type;
    unsigned axis = (unsigned)tc_op_int(s->reduce, "axis");
    if (x->rank < 2 || x->elem->kind != TC_F32)
        return false;
    const tc_layout *parts = tc_layout_partial(cx, x->layout, axis, TC_LANE);
    if (parts->shape[axis] == 1 ||
        tc_layout_slice(cx, parts, axis) != s->carried->type->layout)
        return false;
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < x->rank; i++)
        dims[i] = tc_dim_const(cx, parts->shape[i]);
    s->parts = tc_type_with_layout(
        cx, tc_type_shaped(cx, TC_TILE, x->rank, dims, x->elem), parts);
    return true;
}

/* v in each part of its line. */
static tc_value *in_parts(tc_builder *b, const summing *s, tc_value *v)
{
    int64_t axis = tc_op_int(s->reduce, "axis");
    tc_value *line = tc_build_at(b, TC_EXPAND_DIMS, v, "axis", axis);
    return tc_build(b, TC_BROADCAST, 1, &line, s->parts);
}

static tc_value *reduce_parts(tc_builder *b, const summing *s, tc_value *x,
                              const char *within)
{
    tc_op *op = tc_op_new(b->func, TC_REDUCE, s->reduce->loc, 1, &x, 0);
    tc_op_set_int(op, "axis", tc_op_int(s->reduce, "axis"));
    tc_op_set_word(op, "kind", "sum");
    tc_op_set_word(op, "within", within);
    return tc_build_op(b, op, NULL);
}

static void rewrite_step(summing *s)
{
    tc_builder b = tc_builder_before(s->add);
    tc_value *line = reduce_parts(&b, s, s->reduce->in[0], "thread");
    tc_value *before = s->carried;
    if (s->factor) {
        tc_value *in[] = {before, in_parts(&b, s, s->factor)};
        before = tc_build(&b, TC_MUL, 2, in, s->parts);
    }
    tc_value *in[] = {before, line};
    tc_value *next = tc_build(&b, TC_ADD, 2, in, s->parts);
    tc_op_set_in(tc_slot_yield(s->loop), s->slot, next);
}

static void erase_old(const summing *s)
{
    tc_op_erase(s->add);
    if (s->mul)
        tc_op_erase(s->mul);
    tc_op_erase(s->reduce);
}

static void delay(summing *s)
{
    tc_value *result = s->loop->out[s->slot];
    tc_builder b = tc_builder_before(s->loop);
    tc_op_set_in(s->loop, 3 + s->slot,
                 tc_build_const(&b, s->parts, (tc_scalar){.f = 0}));
    s->carried->type = s->parts;
    result->type = s->parts;
    rewrite_step(s);
    b.before = s->loop->next;
    tc_value *sum = reduce_parts(&b, s, result, "block");
    tc_value_replace(result, sum);
    tc_op_set_in(sum->def, 0, result);
    erase_old(s);
}

static bool visit_slot(tc_context *cx, tc_op *loop, unsigned slot)
{
    summing s = {
        .loop = loop, .slot = slot, .carried = tc_slot_arg(loop, slot)};
    if (!tc_match_float(tc_slot_init(loop, slot), 0.0) ||
        !match_next(&s, tc_slot_yield(loop)->in[slot]) ||
        s.reduce->parent != loop->regions[0] || !find_parts(cx, &s))
        return false;
    tc_remark(cx, s.reduce->loc, pass,
              "sum along axis %lld: %d parts of each line are added up in the "
              "loop, and reduced once after it",
              (long long)tc_op_int(s.reduce, "axis"),
              (int)s.parts->layout->shape[tc_op_int(s.reduce, "axis")]);
    delay(&s);
    return true;
}

static bool defer_row_sums_visit(tc_context *cx, tc_region *r)
{
    bool changed = false;
    tc_each_nested_first (op, r) {
        for (unsigned i = 0; op->code == TC_FOR && i < op->nout; i++)
            changed |= visit_slot(cx, op, i);
    }
    return changed;
}

tc_change tc_pass_defer_row_sums(tc_func *f, tc_pass_env *env)
{
    return defer_row_sums_visit(env->cx, f->body) ? TC_CHANGED : TC_UNCHANGED;
}
