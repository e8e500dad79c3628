/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/transpose/sums.h"

#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/transpose/transposes.h"

/* ---- Which products ---- */

typedef struct search {
    tc_sum *sum;
    const tc_value *carried; /* the loop's argument; NULL: there is no loop */
    unsigned uses;           /* of it, that were found */
} search;

static bool refuse(search *s, const char *why)
{
    s->sum->why = why;
    return false;
}

static void count_source(void *user, tc_value *source, bool swapped)
{
    unsigned *n = user;
    ++*n;
}

/* Is nothing but what is equal along an axis in it? */
static bool is_free_to_transpose(tc_value *v)
{
    unsigned n = 0;
    tc_each_source(v, true, count_source, &n);
    return n == 0;
}

static bool find_products(search *s, tc_value *v);

static bool find_in_operands(search *s, const tc_op *op, unsigned first)
{
    for (unsigned i = first; i < op->nin; i++)
        if (tc_is_flat(op->in[i]) && !find_products(s, op->in[i]))
            return false;
    return true;
}

/* Known even if the sum that it adds to is refused. */
static bool add_product(search *s, tc_op *dot)
{
    bool found = find_in_operands(s, dot, 2);
    if (s->sum->ndots == TC_SUM_MAX_DOTS)
        return refuse(s, "it adds up too many products");
    s->sum->dots[s->sum->ndots++] = dot;
    return found;
}

/* The products that v adds up, if it is made of these, the carried sum and
 * elementwise ops. */
static bool find_products(search *s, tc_value *v)
{
    tc_op *op = v->def;
    if (v == s->carried) {
        s->uses++;
        return true;
    }
    if (is_free_to_transpose(v))
        return true;
    if (!op || !tc_value_has_one_use(v))
        return refuse(s, "the sum of a step is used twice, or is not computed "
                         "in the step");
    if (op->code == TC_DOT)
        return add_product(s, op);
    if (!tc_op_has(op, TC_ELEMENTWISE) || !tc_passes_transposes(v))
        return refuse(s, "a step does more with it than elementwise ops");
    return find_in_operands(s, op, 0);
}

static tc_value *argument_of(const tc_value *v)
{
    return v->def->regions[0]->args[1 + v->index];
}

static unsigned count_uses(const tc_value *v)
{
    unsigned n = 0;
    tc_each_use (u, v)
        n++;
    return n;
}

static void find_in_step(search *s, const tc_value *v)
{
    const tc_op *loop = v->def;
    tc_value *next = tc_region_terminator(loop->regions[0])->in[v->index];
    s->carried = argument_of(v);
    if (!find_products(s, next))
        return;
    if (s->uses != count_uses(s->carried))
        refuse(s, "a step uses the sum of the step before for something else");
    else if (!is_free_to_transpose(loop->in[3 + v->index]))
        refuse(s, "it does not begin as one number");
}

tc_sum tc_sum_of(tc_value *v)
{
    tc_sum sum = {.value = v};
    search s = {.sum = &sum};
    tc_op *op = v->def;
    if (!tc_is_flat(v))
        return sum;
    if (op->code == TC_FOR)
        find_in_step(&s, v);
    else
        (void)add_product(&s, op);
    return sum;
}

/* ---- Transposed ---- */

static void turn_dot(tc_transposes *t, tc_op *dot)
{
    tc_builder b = tc_builder_before(dot);
    tc_value *in[3], *v = dot->out[0];
    for (unsigned i = 0; i < 2; i++)
        in[i] = tc_build(&b, TC_TRANS, 1, &dot->in[1 - i], NULL);
    if (dot->nin == 3)
        in[2] = tc_transposed(t, dot->in[2], true);
    tc_value *r = tc_build_like(
        &b, dot, in, tc_transposed_type(dot->func->module->cx, v->type));
    if (tc_dot_is_unsigned(dot, 0) != tc_dot_is_unsigned(dot, 1))
        tc_op_set_word(r->def, "unsigned",
                       tc_dot_is_unsigned(dot, 0) ? "b" : "a");
    tc_op_set_word(r->def, "operands", "swapped");
    r->name = v->name;
    r->loc = v->loc;
    tc_map_set(&t->made[true], v, r);
}

static void turn_step(const tc_sum *sum, tc_transposes *t, tc_arena *scratch)
{
    tc_value *v = sum->value, *arg = argument_of(v);
    tc_op *loop = v->def, *yield = tc_region_terminator(loop->regions[0]);
    tc_value *next = yield->in[v->index];
    tc_op_set_in(loop, 3 + v->index,
                 tc_transposed(t, loop->in[3 + v->index], true));
    arg->type = v->type = tc_transposed_type(loop->func->module->cx, v->type);
    tc_map_set(&t->made[true], arg, arg);
    for (unsigned i = 0; i < sum->ndots; i++)
        turn_dot(t, sum->dots[i]);
    tc_op_set_in(yield, v->index, tc_transposed(t, next, true));
    tc_erase_unused(next, scratch);
}

tc_value *tc_sum_turn(const tc_sum *sum, tc_arena *scratch)
{
    tc_transposes t = {.made = {{.arena = scratch}, {.arena = scratch}}};
    tc_value *v = sum->value, *turned = v;
    if (v->def->code == TC_FOR)
        turn_step(sum, &t, scratch);
    else
        for (unsigned i = 0; i < sum->ndots; i++)
            turn_dot(&t, sum->dots[i]);
    if (v->def->code != TC_FOR)
        turned = tc_map_get(&t.made[true], v);
    tc_builder b = tc_builder_after(v->def->func, turned, v->loc);
    tc_value *back = tc_build(&b, TC_TRANS, 1, &turned, NULL);
    tc_value_replace(v, back);
    tc_op_set_in(back->def, 0, turned);
    if (turned != v)
        tc_erase_unused(v, scratch);
    return back;
}

void tc_erase_unused(tc_value *v, tc_arena *scratch)
{
    tc_op *op = v->def;
    if (!op || v->uses || op->nout != 1 || !tc_op_is_pure(op))
        return;
    unsigned n = op->nin;
    tc_value **in = tc_arena_array(scratch, tc_value *, n);
    for (unsigned i = 0; i < n; i++)
        in[i] = op->in[i];
    tc_op_erase(op);
    for (unsigned i = 0; i < n; i++)
        tc_erase_unused(in[i], scratch);
}
