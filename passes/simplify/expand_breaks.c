/* SPDX-License-Identifier: Apache-2.0
 *
 * expand-breaks: a `for` that break_if may end early becomes a `while`; what
 * follows a break_if stands in a branch.
 *
 *   %r = for %i = %lo to %hi step %s carry(%x = %a) {
 *     A
 *     break_if %c, %b
 *     B
 *     yield %y
 *   }
 *
 *   %_, %_, %r = while carry(%i = %lo, %go = %lo < %hi and %s > 0, %x = %a) {
 *     condition %go
 *   } do {
 *     %more = %hi - %i > %s          // unsigned: they do not wrap
 *     A
 *     %go1, %x1 = if %c { yield false, %b } else { B  yield %more, %y }
 *     yield %i + %s, %go1, %x1
 *   }
 *
 * A break_if without values gives those that the step began with: %x.
 *
 * Tests: test/ir/passes/expand-breaks.
 */
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/passes.h"

typedef struct breaking {
    tc_pass_env *env;
    tc_op *loop; /* the `for` */
    unsigned n;  /* values it carries */
    tc_region *head, *body;
    const tc_type **types; /* of %go and these values */
} breaking;

/* Of %go and the carried values, by the break_if. */
static tc_value **values_of_break(const breaking *s, tc_builder *b,
                                  const tc_op *op)
{
    tc_value **values = tc_arena_array(s->env->scratch, tc_value *, 1 + s->n);
    values[0] = tc_build_int(b, s->types[0], 0);
    for (unsigned i = 0; i < s->n; i++)
        values[1 + i] = op->nin > 1 ? op->in[1 + i] : s->head->args[2 + i];
    return values;
}

static void move_after(tc_op *from, const tc_op *end, tc_region *to)
{
    for (tc_op *op = from->next, *next; op != end; op = next) {
        next = op->next;
        tc_op_remove(op);
        tc_op_insert(op, to, NULL);
    }
}

/* The ops between the region's first break_if and its yield go into a branch,
 * and so on in there. `first`: the operand of the yield that is %go. */
static void branch(breaking *s, tc_region *r, unsigned first)
{
    tc_op *op;
    while ((op = tc_break_in(r))) {
        tc_op *yield = tc_region_terminator(r);
        tc_builder b = tc_builder_before(yield);
        b.loc = op->loc;
        tc_op *choice = tc_build_if(&b, op->in[0], 1 + s->n, s->types);
        tc_builder out = tc_builder_at_end(choice->regions[0], op->loc);
        tc_build_yield(&out, 1 + s->n, values_of_break(s, &out, op));
        move_after(op, choice, choice->regions[1]);
        tc_builder on = tc_builder_at_end(choice->regions[1], yield->loc);
        tc_build_yield(&on, 1 + s->n, yield->in + first);
        for (unsigned i = 0; i <= s->n; i++) {
            choice->out[i]->name = i ? s->head->args[1 + i]->name : "go";
            tc_op_set_in(yield, first + i, choice->out[i]);
        }
        tc_op_erase(op);
        r = choice->regions[1];
        first = 0;
    }
}

/* The first region: the counter, %go, the carried values. */
static tc_op *build_while(breaking *s, tc_builder *b)
{
    tc_op *loop = s->loop;
    tc_context *cx = s->env->cx;
    const tc_type *count = loop->in[0]->type;
    tc_arena *arena = s->env->scratch;
    tc_value **in = tc_arena_array(arena, tc_value *, 2 + s->n);
    const tc_type **types = tc_arena_array(arena, const tc_type *, 2 + s->n);
    tc_value *less = tc_build_cmp(b, "lt", loop->in[0], loop->in[1]);
    tc_value *up =
        tc_build_cmp(b, "gt", loop->in[2], tc_build_int(b, count, 0));
    in[0] = loop->in[0];
    in[1] = tc_build_binary(b, TC_AND, less, up);
    types[0] = count;
    types[1] = tc_type_scalar(cx, TC_I1);
    for (unsigned i = 0; i < s->n; i++) {
        in[2 + i] = loop->in[3 + i];
        types[2 + i] = loop->out[i]->type;
    }
    s->types = types + 1;
    tc_op *op = tc_op_new(loop->func, TC_WHILE, loop->loc, 2 + s->n, in, 2);
    tc_op_set_results(op, 2 + s->n, types);
    s->head = op->regions[0];
    s->body = op->regions[1];
    for (unsigned i = 0; i < 2 + s->n; i++) {
        const tc_value *was =
            i == 1 ? NULL : loop->regions[0]->args[i ? i - 1 : 0];
        tc_region_add_arg(s->head, types[i], was ? was->name : "go",
                          was ? was->loc : loop->loc);
    }
    tc_builder end = tc_builder_at_end(s->head, loop->loc);
    tc_build_effect(&end, TC_CONDITION, 1, &s->head->args[1]);
    tc_op_insert(op, b->region, b->before);
    return op;
}

/* The steps: those of the `for`, and the counter. */
static void fill_body(breaking *s)
{
    tc_op *loop = s->loop;
    tc_region *from = loop->regions[0];
    tc_builder b = tc_builder_at_end(s->body, loop->loc);
    tc_value *i = s->head->args[0];
    tc_value *more = tc_build_cmp(
        &b, "ugt", tc_build_binary(&b, TC_SUB, loop->in[1], i), loop->in[2]);
    tc_value_replace(from->args[0], i);
    for (unsigned k = 0; k < s->n; k++)
        tc_value_replace(from->args[1 + k], s->head->args[2 + k]);
    tc_op *yield = tc_region_terminator(from);
    while (from->first != yield) {
        tc_op *op = from->first;
        tc_op_remove(op);
        tc_op_insert(op, s->body, NULL);
    }
    tc_value **next = tc_arena_array(s->env->scratch, tc_value *, 2 + s->n);
    next[0] = i;
    next[1] = more;
    for (unsigned k = 0; k < s->n; k++)
        next[2 + k] = yield->in[k];
    tc_op *end = tc_build_yield(&b, 2 + s->n, next);
    end->loc = yield->loc;
    branch(s, s->body, 1);
    b = tc_builder_before(end);
    tc_op_set_in(end, 0, tc_build_binary(&b, TC_ADD, i, loop->in[2]));
}

static bool expand(tc_pass_env *env, tc_op *op)
{
    if (op->code != TC_FOR || !tc_break_in(op->regions[0]))
        return false;
    tc_missed(env->cx, tc_break_in(op->regions[0])->loc, "expand-breaks",
              "the loop becomes a `while`: its loads do not start ahead of "
              "their step, and no mask bounds it. Where it seldom ends early, "
              "a `for` that runs to its end may be faster");
    breaking s = {.env = env, .loop = op, .n = op->nout};
    tc_builder b = tc_builder_before(op);
    tc_op *now = build_while(&s, &b);
    fill_body(&s);
    for (unsigned i = 0; i < s.n; i++) {
        now->out[2 + i]->name = op->out[i]->name;
        tc_value_replace(op->out[i], now->out[2 + i]);
    }
    tc_op_erase(op);
    return true;
}

tc_change tc_pass_expand_breaks(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, expand);
}
