/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of single ops.
 */
#include "test/unit/verify/fixture.h"

/* ---- Ops ---- */

START_TEST(test_result_types)
{
    tc_op *op = verify_neg(a);
    op->out[0]->type = verify_scalar(TC_F16);
    verify_return_nothing();
    verify_expect_error("neg: result 0 is f16, expected f32");
}
END_TEST

START_TEST(test_missing_results)
{
    verify_raw(TC_NEG, 1, &a, 0, NULL);
    verify_return_nothing();
    verify_expect_error("neg: 0 results, expected 1");
}
END_TEST

START_TEST(test_regions_of_ops_that_have_none)
{
    verify_raw(TC_NEG, 1, &a, 1, verify_scalar(TC_F32));
    tc_op *op = f->body->last;
    verify_end(op->regions[0], TC_YIELD, 1, &a);
    verify_return_nothing();
    verify_expect_error("neg: 1 region, expected 0");
}
END_TEST

START_TEST(test_missing_attribute)
{
    verify_raw(TC_CONST, 0, NULL, 0, verify_scalar(TC_F32));
    verify_return_nothing();
    verify_expect_error("const: attribute `value` is missing");
}
END_TEST

START_TEST(test_attribute_of_the_wrong_kind)
{
    tc_op *op = verify_raw(TC_CONST, 0, NULL, 0, verify_scalar(TC_F32));
    tc_op_set_int(op, "value", 1);
    verify_return_nothing();
    verify_expect_error("const: attribute `value` has the wrong kind");
}
END_TEST

START_TEST(test_empty_attribute)
{
    tc_value *in[] = {n, n};
    tc_op *op = verify_raw(TC_CMP, 2, in, 0, verify_scalar(TC_I1));
    tc_op_set_attr(op, "pred", (tc_attr){.kind = TC_ATTR_SYMBOL});
    verify_return_nothing();
    verify_expect_error("cmp: attribute `pred` is empty");
}
END_TEST

START_TEST(test_tensors_are_no_results)
{
    tc_value *t = tc_region_add_arg(
        f->body, verify_shaped(TC_TENSOR, 8, 8, verify_scalar(TC_F32)), "t",
        nowhere);
    tc_value *in[] = {n, n};
    tc_op *c = verify_raw(TC_CMP, 2, in, 0, verify_scalar(TC_I1));
    tc_op_set_word(c, "pred", "eq");
    tc_value *sel[] = {c->out[0], t, t};
    verify_raw(TC_SELECT, 3, sel, 0, t->type);
    verify_return_nothing();
    verify_expect_errors((const char *const[]){
        "select: result 0 is tensor<[8, 8] x f32>, expected no tensor "
        "(tensors are parameters, or made by `tensor`)",
        "select: operands are tensor<[8, 8] x f32>, expected scalars or tiles "
        "(of a block pointer choose the offsets)",
        ""});
}
END_TEST

/* for %i = n to n step n carry(%c = a) { yield %c } */
static tc_op *loop(void)
{
    tc_value *in[] = {n, n, n, a};
    tc_op *op = verify_raw(TC_FOR, 4, in, 1, verify_scalar(TC_F32));
    tc_region_add_arg(op->regions[0], verify_scalar(TC_I32), "i", nowhere);
    tc_value *c =
        tc_region_add_arg(op->regions[0], verify_scalar(TC_F32), "c", nowhere);
    verify_end(op->regions[0], TC_YIELD, 1, &c);
    return op;
}

START_TEST(test_for_arguments)
{
    tc_op *op = loop();
    verify_return_nothing();
    verify_expect_valid();
    op->regions[0]->args[0]->type = verify_scalar(TC_I64);
    verify_expect_error("for: region 0: argument 0 is i64, expected i32");
    tc_diags_clear(cx);
    op->regions[0]->args[0]->type = verify_scalar(TC_I32);
    tc_region_add_arg(op->regions[0], verify_scalar(TC_F32), NULL, nowhere);
    verify_expect_error("for: region 0 has 3 arguments, expected 2");
}
END_TEST

START_TEST(test_for_regions)
{
    tc_value *in[] = {n, n, n};
    verify_raw(TC_FOR, 3, in, 0, NULL);
    verify_return_nothing();
    verify_expect_error("for: 0 regions, expected 1");
}
END_TEST

START_TEST(test_for_results)
{
    tc_op *op = loop();
    op->out[0]->type = verify_scalar(TC_F16);
    verify_return_nothing();
    verify_expect_errors((const char *const[]){
        "yield: value 0 is f32, expected f16 for the `for`",
        "for: result 0 is f16, expected f32", ""});
}
END_TEST

START_TEST(test_if_regions)
{
    tc_op *op = verify_empty_if();
    op->nregions = 1;
    verify_return_nothing();
    verify_expect_error("if: 1 region, expected 2");
    tc_diags_clear(cx);
    op->nregions = 2;
    tc_region_add_arg(op->regions[1], verify_scalar(TC_F32), NULL, nowhere);
    verify_expect_error("if: region 1 has 1 argument, expected 0");
}
END_TEST

START_TEST(test_while_regions)
{
    tc_op *op = verify_counting_while();
    verify_return_nothing();
    tc_region_add_arg(op->regions[1], verify_scalar(TC_F32), NULL, nowhere);
    verify_expect_error("while: region 1 has 1 argument, expected 0");
    tc_diags_clear(cx);
    tc_region_remove_arg(op->regions[1], 0);
    tc_region_add_arg(op->regions[0], verify_scalar(TC_F32), NULL, nowhere);
    verify_expect_error("while: region 0 has 2 arguments, expected 1");
}
END_TEST

START_TEST(test_reduce_region)
{
    tc_op *op = verify_raw(TC_REDUCE, 1, &x, 1, verify_scalar(TC_F32));
    op->out[0]->type = tc_type_shaped(cx, TC_TILE, 1, x->type->dims + 1,
                                      verify_scalar(TC_F32));
    tc_op_set_int(op, "axis", 0);
    tc_value *left =
        tc_region_add_arg(op->regions[0], verify_scalar(TC_F32), "l", nowhere);
    tc_op *yield = verify_end(op->regions[0], TC_YIELD, 1, &left);
    verify_return_nothing();
    verify_expect_error("reduce: region 0 has 1 argument, expected 2");
    tc_diags_clear(cx);
    tc_value *right =
        tc_region_add_arg(op->regions[0], verify_scalar(TC_I32), "r", nowhere);
    verify_expect_error("reduce: region 0: argument 1 is i32, expected f32");
    tc_diags_clear(cx);
    right->type = verify_scalar(TC_F32);
    verify_expect_valid();
    tc_op_set_in(yield, 0, n);
    verify_expect_error("yield: value 0 is i32, expected f32 for the `reduce`");
}
END_TEST

START_TEST(test_argument_names)
{
    tc_param p = {.name = tc_string_get(cx, "mod"), .kind = TC_PARAM_FUNC};
    tc_func *k = tc_func_new(m, "k", true, nowhere);
    tc_func_append(m, k);
    verify_yield_one(k);
    k->params = &p;
    k->nparams = 1;
    tc_op *op = verify_call(k, "mod");
    const char *names[] = {"one"};
    tc_op_set_attr(
        op, "names",
        (tc_attr){.kind = TC_ATTR_STRINGS, .n = 1, .strings = names});
    verify_end(k->body, TC_RETURN, 0, NULL);
    verify_return_nothing();
    verify_expect_error("call: 1 argument names, expected at most 0");
    k->nparams = 0;
}
END_TEST

START_TEST(test_given_values)
{
    tc_param p = {.name = tc_string_get(cx, "N"), .kind = TC_PARAM_INT};
    tc_func *g = verify_empty_func("g");
    verify_end(g->body, TC_RETURN, 0, NULL);
    g->params = &p;
    g->nparams = 1;
    tc_op *op = verify_call(f, "@g");
    const char *names[] = {"N"};
    const tc_dim *eight = tc_dim_const(cx, 8);
    tc_attr strings = {.kind = TC_ATTR_STRINGS, .n = 1, .strings = names};
    tc_op_set_attr(op, "params", strings);
    tc_op_set_dims(op, "sizes", 1, &eight);
    verify_return_nothing();
    verify_expect_error("call: params, sizes and words differ in number");
    tc_diags_clear(cx);
    tc_op_set_attr(op, "words", strings);
    verify_expect_valid();
    g->nparams = 0;
}
END_TEST

static void build_const(const tc_type *type, tc_number number)
{
    tc_op *op = verify_raw(TC_CONST, 0, NULL, 0, type);
    tc_op_set_attr(op, "value",
                   (tc_attr){.kind = TC_ATTR_NUMBER, .number = number});
}

START_TEST(test_constants_fit)
{
    build_const(verify_scalar(TC_I1), (tc_number){.i = 2});
    build_const(verify_scalar(TC_I8), (tc_number){.i = 128});
    build_const(verify_scalar(TC_I8), (tc_number){.i = -128});
    build_const(verify_scalar(TC_I64), (tc_number){.i = INT64_MIN});
    build_const(verify_scalar(TC_F16),
                (tc_number){.is_float = true, .f = 65536});
    build_const(verify_scalar(TC_F16),
                (tc_number){.is_float = true, .f = 65504});
    build_const(verify_scalar(TC_F8E4M3),
                (tc_number){.is_float = true, .f = INFINITY});
    build_const(verify_scalar(TC_F8E4M3),
                (tc_number){.is_float = true, .f = 448});
    build_const(verify_scalar(TC_F8E5M2),
                (tc_number){.is_float = true, .f = 60000});
    build_const(verify_scalar(TC_F8E5M2),
                (tc_number){.is_float = true, .f = NAN});
    build_const(verify_scalar(TC_F32),
                (tc_number){.is_float = true, .f = 1e39});
    build_const(verify_scalar(TC_F32), (tc_number){.i = 3});
    verify_return_nothing();
    verify_expect_errors((const char *const[]){
        "const: 2 does not fit i1", "const: 128 does not fit i8",
        "const: 65536.0 does not fit f16", "const: inf does not fit f8e4m3",
        "const: 60000.0 does not fit f8e5m2", "const: 1e39 does not fit f32",
        ""});
}
END_TEST

/* After so many only the count goes up. */
START_TEST(test_every_violation_is_reported)
{
    for (int i = 0; i < TC_MAX_ERRORS + 5; i++)
        verify_neg(a)->out[0]->type = verify_scalar(TC_F16);
    verify_return_nothing();
    ck_assert(!tc_module_verify(m));
    ck_assert_uint_eq(cx->nerrors, TC_MAX_ERRORS + 5);
}
END_TEST

void verify_ops_tests(TCase *t)
{
    tcase_add_test(t, test_result_types);
    tcase_add_test(t, test_missing_results);
    tcase_add_test(t, test_regions_of_ops_that_have_none);
    tcase_add_test(t, test_missing_attribute);
    tcase_add_test(t, test_attribute_of_the_wrong_kind);
    tcase_add_test(t, test_empty_attribute);
    tcase_add_test(t, test_tensors_are_no_results);
    tcase_add_test(t, test_for_arguments);
    tcase_add_test(t, test_for_regions);
    tcase_add_test(t, test_for_results);
    tcase_add_test(t, test_if_regions);
    tcase_add_test(t, test_while_regions);
    tcase_add_test(t, test_reduce_region);
    tcase_add_test(t, test_argument_names);
    tcase_add_test(t, test_given_values);
    tcase_add_test(t, test_constants_fit);
    tcase_add_test(t, test_every_violation_is_reported);
}
