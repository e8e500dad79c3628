/* SPDX-License-Identifier: Apache-2.0
 *
 * Building and changing programs: functions, regions, ops, attributes, uses,
 * visibility, copies, purity.
 */
#include "ir/ir.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static tc_module *m;
static tc_func *f; /* func @f(%a: f32, %n: i32) */
static tc_value *a, *n;
static tc_builder b;
static const tc_loc nowhere;

static const tc_type *scalar(tc_kind kind)
{
    return tc_type_scalar(cx, kind);
}

static void setup(void)
{
    fixture_setup();
    m = tc_module_new(cx);
    f = tc_func_new(m, "f", false, nowhere);
    tc_func_append(m, f);
    a = tc_region_add_arg(f->body, scalar(TC_F32), "a", nowhere);
    n = tc_region_add_arg(f->body, scalar(TC_I32), "n", nowhere);
    b = tc_builder_at_end(f->body, nowhere);
}

static void teardown(void)
{
    tc_module_free(m);
    fixture_teardown();
}

static tc_value *build(tc_opcode code, tc_value *x, tc_value *y)
{
    tc_value *in[] = {x, y};
    return tc_build(&b, code, y ? 2 : 1, in, NULL);
}

static void finish(void)
{
    tc_op *op = tc_op_new(f, TC_RETURN, nowhere, 0, NULL, 0);
    tc_op_insert(op, f->body, NULL);
}

static unsigned count_uses(const tc_value *v)
{
    unsigned count = 0;
    tc_each_use (u, v)
        count++;
    return count;
}

/* ---- Functions ---- */

START_TEST(test_free_accepts_null)
{
    tc_module_free(NULL);
}
END_TEST

START_TEST(test_functions)
{
    tc_func *g = tc_func_new(m, "g", true, nowhere);
    tc_func *h = tc_func_new(m, "h", false, nowhere);
    tc_func_append(m, g);
    tc_func_append(m, h);
    ck_assert_ptr_eq(tc_func_find(m, "g"), g);
    ck_assert_ptr_nonnull(g->grid);
    ck_assert_ptr_null(h->grid);
    tc_func_erase(g); /* in the middle, first, last */
    ck_assert_ptr_null(tc_func_find(m, "g"));
    ck_assert_ptr_eq(f->next, h);
    ck_assert_ptr_eq(h->prev, f);
    tc_func_erase(f);
    ck_assert_ptr_eq(m->first, h);
    ck_assert_ptr_null(h->prev);
    tc_func_erase(h);
    ck_assert_ptr_null(m->first);
    ck_assert_ptr_null(m->last);
}
END_TEST

/* Found is the first that is left, in whatever order they go. */
START_TEST(test_functions_of_one_name)
{
    static const unsigned orders[][4] = {
        {0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}};
    const unsigned *order = orders[_i];
    tc_func *same[4];
    for (unsigned i = 0; i < 4; i++) {
        same[i] = tc_func_new(m, "g", false, nowhere);
        tc_func_append(m, same[i]);
        tc_func_append(m, tc_func_new(m, i % 2 ? "h" : "k", false, nowhere));
    }
    for (unsigned i = 0; i < 4; i++) {
        unsigned first = 0;
        while (!same[first])
            first++;
        ck_assert_ptr_eq(tc_func_find(m, "g"), same[first]);
        tc_func_erase(same[order[i]]);
        same[order[i]] = NULL;
    }
    ck_assert_ptr_null(tc_func_find(m, "g"));
    tc_func *again = tc_func_new(m, "g", false, nowhere);
    tc_func_append(m, again);
    ck_assert_ptr_eq(tc_func_find(m, "g"), again);
    ck_assert_ptr_nonnull(tc_func_find(m, "h"));
}
END_TEST

START_TEST(test_region_arguments)
{
    tc_region *r = f->body;
    tc_value *c = tc_region_add_arg(r, scalar(TC_I1), NULL, nowhere);
    ck_assert_uint_eq(r->nargs, 3);
    ck_assert_uint_eq(c->index, 2);
    ck_assert_ptr_eq(c->region, r);
    ck_assert_ptr_null(c->def);
    tc_region_remove_arg(r, 1);
    ck_assert_uint_eq(r->nargs, 2);
    ck_assert_ptr_eq(r->args[0], a);
    ck_assert_ptr_eq(r->args[1], c);
    ck_assert_uint_eq(c->index, 1);
}
END_TEST

/* ---- Ops ---- */

START_TEST(test_insertion)
{
    tc_value *one = build(TC_NEG, a, NULL);
    tc_value *three = build(TC_NEG, a, NULL);
    b.before = three->def;
    tc_value *two = build(TC_NEG, a, NULL);
    b.before = one->def;
    tc_value *zero = build(TC_NEG, a, NULL);
    const tc_value *const order[] = {zero, one, two, three};
    unsigned i = 0;
    tc_each_op (op, f->body)
        ck_assert_ptr_eq(op->out[0], order[i++]);
    ck_assert_uint_eq(i, 4);
    for (tc_op *op = f->body->last; op; op = op->prev)
        ck_assert_ptr_eq(op->out[0], order[--i]);
    ck_assert_uint_eq(i, 0);
}
END_TEST

/* An op before those in it; an op after them, while it may be erased. */
START_TEST(test_nested)
{
    tc_value *c = tc_build_int(&b, scalar(TC_I1), 1);
    tc_builder then;
    tc_op *branch = tc_build_when(&b, c, &then), *inner[3];
    inner[0] = tc_build(&then, TC_NEG, 1, &a, NULL)->def;
    inner[1] = tc_region_terminator(branch->regions[0]);
    inner[2] = tc_region_terminator(branch->regions[1]);
    tc_op *last = build(TC_NEG, a, NULL)->def;
    const tc_op *const before[] = {c->def,   branch,   inner[0],
                                   inner[1], inner[2], last};
    const tc_op *const after[] = {c->def,   inner[0], inner[1],
                                  inner[2], branch,   last};
    unsigned i = 0, k = 0;
    tc_each_nested (op, f->body)
        ck_assert_ptr_eq(op, before[i++]);
    ck_assert_uint_eq(i, 6);
    tc_each_nested (op, branch->regions[0])
        ck_assert_ptr_eq(op, inner[k++]);
    ck_assert_uint_eq(k, 2);
    i = 0;
    tc_each_nested_first (op, f->body) {
        ck_assert_ptr_eq(op, after[i++]);
        if (op != c->def)
            tc_op_erase(op);
    }
    ck_assert_uint_eq(i, 6);
    ck_assert_ptr_eq(f->body->last, c->def);
}
END_TEST

START_TEST(test_remove_keeps_operands)
{
    tc_op *op = build(TC_NEG, a, NULL)->def;
    tc_op_remove(op);
    ck_assert_ptr_null(f->body->first);
    ck_assert_ptr_null(f->body->last);
    ck_assert_ptr_null(op->parent);
    ck_assert_uint_eq(count_uses(a), 1);
    tc_op_insert(op, f->body, NULL);
    ck_assert_ptr_eq(f->body->first, op);
    tc_op_erase(op);
    ck_assert_uint_eq(count_uses(a), 0);
}
END_TEST

START_TEST(test_each_op_safe)
{
    for (int i = 0; i < 5; i++)
        build(TC_NEG, a, NULL);
    unsigned count = 0;
    tc_each_op_safe (op, f->body) {
        tc_op_erase(op);
        count++;
    }
    ck_assert_uint_eq(count, 5);
    ck_assert_ptr_null(f->body->first);
}
END_TEST

START_TEST(test_terminator)
{
    ck_assert_ptr_null(tc_region_terminator(f->body));
    build(TC_NEG, a, NULL);
    ck_assert_ptr_null(tc_region_terminator(f->body));
    finish();
    ck_assert_ptr_eq(tc_region_terminator(f->body), f->body->last);
}
END_TEST

START_TEST(test_attributes)
{
    tc_op *op = tc_op_new(f, TC_ATOMIC, nowhere, 0, NULL, 0);
    /* Optional words have their default. */
    ck_assert_str_eq(tc_op_word(op, "order"), "acq_rel");
    ck_assert_ptr_null(tc_op_word(op, "kind"));
    ck_assert(!tc_op_has_attr(op, "kind"));
    tc_op_set_word(op, "kind", "xor");
    ck_assert(tc_op_is_word(op, "kind", "xor"));
    ck_assert(!tc_op_is_word(op, "kind", "or"));
    ck_assert_ptr_eq(tc_op_word(op, "kind"), tc_string_get(cx, "xor"));
    op = tc_op_new(f, TC_LOAD, nowhere, 0, NULL, 0);
    int64_t axes[] = {0, 2};
    tc_op_set_ints(op, "boundary", 2, axes);
    axes[0] = 7;
    ck_assert_uint_eq(tc_op_attr(op, "boundary")->n, 2);
    ck_assert_int_eq(tc_op_attr(op, "boundary")->ints[0], 0);
    op = tc_op_new(f, TC_SIZE, nowhere, 0, NULL, 0);
    ck_assert_int_eq(tc_op_int(op, "dim"), 0);
    tc_op_set_int(op, "dim", 3);
    ck_assert_int_eq(tc_op_int(op, "dim"), 3);
    const tc_dim *side = NULL;
    op = tc_op_new(f, TC_BLOCK, nowhere, 0, NULL, 0);
    tc_op_set_dims(op, "sides", 1, &side);
    ck_assert_ptr_null(tc_op_attr(op, "sides")->dims[0]);
}
END_TEST

START_TEST(test_builder)
{
    tc_value *i = tc_build_int(&b, scalar(TC_I64), -3);
    tc_value *x = tc_build_float(&b, scalar(TC_F16), 0.5);
    ck_assert_ptr_eq(i->type, scalar(TC_I64));
    ck_assert_int_eq(tc_op_attr(i->def, "value")->number.i, -3);
    ck_assert(tc_op_attr(x->def, "value")->number.is_float);
    const tc_dim *side = tc_dim_const(cx, 8);
    const tc_type *t = tc_type_shaped(cx, TC_TILE, 1, &side, scalar(TC_F16));
    tc_value *tile = tc_build(&b, TC_SPLAT, 1, &x, t);
    ck_assert_ptr_eq(tile->type, t);
    tc_builder before = tc_builder_before(tile->def);
    tc_value *neg = tc_build(&before, TC_NEG, 1, &x, NULL);
    ck_assert_ptr_eq(neg->def->next, tile->def);
    finish();
    ck_assert(tc_module_verify(m));
}
END_TEST

/* ---- Uses ---- */

START_TEST(test_uses_of_one_op_with_the_same_value_twice)
{
    tc_value *sum = build(TC_ADD, a, a);
    ck_assert_uint_eq(count_uses(a), 2);
    tc_value *other = build(TC_NEG, a, NULL);
    tc_op_set_in(sum->def, 1, other);
    ck_assert_uint_eq(count_uses(a), 2);
    ck_assert_uint_eq(count_uses(other), 1);
    ck_assert_uint_eq(other->uses->index, 1);
    ck_assert_ptr_eq(other->uses->op, sum->def);
    tc_op_set_in(sum->def, 1, other); /* the same again */
    ck_assert_uint_eq(count_uses(other), 1);
}
END_TEST

START_TEST(test_replace)
{
    tc_value *one = build(TC_NEG, a, NULL);
    tc_value *sum = build(TC_ADD, one, one);
    build(TC_MUL, sum, one);
    b.before = one->def;
    tc_value *two = build(TC_ABS, a, NULL);
    tc_value_replace(one, two);
    ck_assert_ptr_null(one->uses);
    ck_assert_uint_eq(count_uses(two), 3);
    tc_op_erase(one->def);
    b.before = NULL;
    finish();
    ck_assert(tc_module_verify(m));
}
END_TEST

/* Random edits; the verifier's rules on links are the reference. */
START_TEST(test_random_edits)
{
    enum { STEPS = 4000 };
    srand(1);
    finish();
    tc_op *end = f->body->last;
    for (int step = 0; step < STEPS; step++) {
        tc_value *seen[400] = {a};
        unsigned nseen = 1;
        for (tc_op *op = f->body->first; op != end && nseen < 400;
             op = op->next)
            seen[nseen++] = op->out[0];
        unsigned i = (unsigned)rand() % nseen, k = (unsigned)rand() % nseen;
        switch (rand() % 5) {
        case 0:
        case 1:
            b.before = end;
            build(TC_ADD, seen[i], seen[k]);
            break;
        case 2: /* backwards only */
            if (seen[i]->def && k < i)
                tc_op_set_in(seen[i]->def, (unsigned)rand() % 2, seen[k]);
            break;
        case 3:
            if (seen[i]->def && k < i)
                tc_value_replace(seen[i], seen[k]);
            break;
        default:
            if (seen[i]->def && !seen[i]->uses)
                tc_op_erase(seen[i]->def);
        }
        if (step % 50 == 0)
            ck_assert(tc_func_verify(f));
    }
    ck_assert(tc_module_verify(m));
    ck_assert_ptr_null(cx->diags);
}
END_TEST

/* ---- Regions ---- */

/* for %i = n to n step n { %x = neg a  yield } */
static tc_op *loop(tc_value **inner)
{
    tc_value *in[] = {n, n, n};
    tc_op *op = tc_op_new(f, TC_FOR, nowhere, 3, in, 1);
    tc_op_insert(op, b.region, b.before);
    tc_region_add_arg(op->regions[0], scalar(TC_I32), "i", nowhere);
    tc_builder body = tc_builder_at_end(op->regions[0], nowhere);
    *inner = tc_build(&body, TC_NEG, 1, &a, NULL);
    tc_build_yield(&body, 0, NULL);
    return op;
}

START_TEST(test_visibility)
{
    tc_value *before = build(TC_NEG, a, NULL), *inner, *other;
    tc_op *op = loop(&inner);
    tc_value *after = build(TC_NEG, a, NULL);
    tc_op *second = loop(&other);
    tc_value *i = op->regions[0]->args[0];
    tc_op *end = tc_region_terminator(op->regions[0]);
    ck_assert(tc_value_is_visible(a, before->def));
    ck_assert(tc_value_is_visible(before, op));
    ck_assert(tc_value_is_visible(before, end));
    ck_assert(tc_value_is_visible(i, inner->def));
    ck_assert(tc_value_is_visible(inner, end));
    ck_assert(!tc_value_is_visible(inner, inner->def));
    ck_assert(!tc_value_is_visible(after, end));
    ck_assert(!tc_value_is_visible(inner, after->def));
    ck_assert(!tc_value_is_visible(i, op));
    ck_assert(!tc_value_is_visible(i, other->def));
    ck_assert(tc_value_is_visible(after, second));
    ck_assert(tc_region_contains(f->body, inner->def));
    ck_assert(tc_region_contains(op->regions[0], inner->def));
    ck_assert(!tc_region_contains(second->regions[0], inner->def));
    ck_assert(!tc_region_contains(op->regions[0], op));
}
END_TEST

START_TEST(test_visibility_in_while)
{
    tc_op *op = tc_op_new(f, TC_WHILE, nowhere, 1, &n, 2);
    tc_op_insert(op, f->body, NULL);
    tc_value *i =
        tc_region_add_arg(op->regions[0], scalar(TC_I32), "i", nowhere);
    tc_builder one = tc_builder_at_end(op->regions[0], nowhere);
    tc_value *x = tc_build(&one, TC_NEG, 1, &i, NULL);
    tc_builder two = tc_builder_at_end(op->regions[1], nowhere);
    tc_value *y = tc_build(&two, TC_NEG, 1, &i, NULL);
    ck_assert(tc_value_is_visible(i, y->def));
    ck_assert(tc_value_is_visible(x, y->def));
    ck_assert(!tc_value_is_visible(y, x->def));
}
END_TEST

START_TEST(test_erase_takes_regions_along)
{
    tc_value *inner;
    tc_op *op = loop(&inner);
    ck_assert_uint_eq(count_uses(a), 1);
    ck_assert_uint_eq(count_uses(n), 3);
    tc_op_erase(op);
    ck_assert_uint_eq(count_uses(a), 0);
    ck_assert_uint_eq(count_uses(n), 0);
    ck_assert_ptr_null(f->body->first);
}
END_TEST

START_TEST(test_clone)
{
    tc_value *inner;
    tc_op *op = loop(&inner);
    tc_op_set_int(op, "stages", 3);
    inner->name = "x";
    n->data = NULL;
    tc_value *one = tc_build_int(&b, scalar(TC_I32), 1);
    n->data = one; /* operands are mapped */
    tc_op *copy = tc_op_clone(f, op);
    n->data = NULL;
    ck_assert_ptr_null(copy->parent);
    ck_assert_int_eq(tc_op_int(copy, "stages"), 3);
    ck_assert_ptr_eq(copy->in[0], one);
    ck_assert_uint_eq(copy->regions[0]->nargs, 1);
    ck_assert_ptr_ne(copy->regions[0], op->regions[0]);
    const tc_op *neg = copy->regions[0]->first;
    ck_assert_ptr_ne(neg->out[0], inner);
    ck_assert_str_eq(neg->out[0]->name, "x");
    ck_assert_ptr_eq(neg->in[0], a);
    ck_assert_ptr_eq(inner->data, neg->out[0]);
    tc_op_insert(copy, f->body, NULL);
    finish();
    ck_assert(tc_module_verify(m));
}
END_TEST

START_TEST(test_clone_into_another_function)
{
    tc_value *one = build(TC_NEG, a, NULL);
    tc_value *two = build(TC_ADD, one, a);
    finish();
    tc_func *g = tc_func_new(m, "g", false, nowhere);
    tc_func_append(m, g);
    a->data = tc_region_add_arg(g->body, scalar(TC_F32), "z", nowhere);
    tc_each_op (op, f->body)
        tc_op_insert(tc_op_clone(g, op), g->body, NULL);
    tc_each_op (op, g->body)
        ck_assert_ptr_eq(op->func, g);
    ck_assert_ptr_eq(((tc_value *)two->data)->def->in[0], one->data);
    ck_assert_ptr_eq(((tc_value *)two->data)->def->in[1], a->data);
    ck_assert(tc_module_verify(m));
}
END_TEST

START_TEST(test_purity)
{
    tc_value *inner;
    tc_op *op = loop(&inner);
    ck_assert(tc_op_is_pure(inner->def));
    ck_assert(tc_op_is_pure(op));
    tc_op *print = tc_op_new(f, TC_PRINT, nowhere, 0, NULL, 0);
    tc_op_insert(print, op->regions[0], inner->def);
    ck_assert(!tc_op_is_pure(print));
    ck_assert(!tc_op_is_pure(op));
    /* A loop that may not end is no pure op. */
    tc_op *loop = tc_op_new(f, TC_WHILE, nowhere, 0, NULL, 2);
    ck_assert(!tc_op_is_pure(loop));
}
END_TEST

static void add_ops(TCase *t)
{
    tcase_add_test(t, test_free_accepts_null);
    tcase_add_test(t, test_functions);
    tcase_add_loop_test(t, test_functions_of_one_name, 0, 4);
    tcase_add_test(t, test_region_arguments);
    tcase_add_test(t, test_insertion);
    tcase_add_test(t, test_nested);
    tcase_add_test(t, test_remove_keeps_operands);
    tcase_add_test(t, test_each_op_safe);
    tcase_add_test(t, test_terminator);
    tcase_add_test(t, test_attributes);
    tcase_add_test(t, test_builder);
}

static void add_uses(TCase *t)
{
    tcase_add_test(t, test_uses_of_one_op_with_the_same_value_twice);
    tcase_add_test(t, test_replace);
    tcase_add_test(t, test_random_edits);
}

static void add_regions(TCase *t)
{
    tcase_add_test(t, test_visibility);
    tcase_add_test(t, test_visibility_in_while);
    tcase_add_test(t, test_erase_takes_regions_along);
    tcase_add_test(t, test_clone);
    tcase_add_test(t, test_clone_into_another_function);
    tcase_add_test(t, test_purity);
}

int main(void)
{
    Suite *s = suite_create("module");
    static void (*const add[])(TCase *) = {add_ops, add_uses, add_regions};
    static const char *const cases[] = {"ops", "uses", "regions"};
    for (int i = 0; i < 3; i++) {
        TCase *t = tcase_create(cases[i]);
        tcase_add_checked_fixture(t, setup, teardown);
        add[i](t);
        suite_add_tcase(s, t);
    }
    return run_suite(s);
}
