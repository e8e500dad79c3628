/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions, kernels, their types.
 */
#include "test/unit/verify/fixture.h"

/* ---- Functions and kernels ---- */

START_TEST(test_a_valid_function)
{
    tc_value *two[] = {a, a};
    tc_value *sum =
        verify_raw(TC_ADD, 2, two, 0, verify_scalar(TC_F32))->out[0];
    verify_neg(sum);
    verify_return_nothing();
    verify_expect_valid();
    /* And again: the first run left nothing behind. */
    verify_expect_valid();
}
END_TEST

START_TEST(test_two_functions_of_one_name)
{
    verify_return_nothing();
    tc_func *g = tc_func_new(m, "f", false, nowhere);
    tc_func_append(m, g);
    verify_end(g->body, TC_RETURN, 0, NULL);
    verify_expect_error("@f: there are two functions of that name");
}
END_TEST

START_TEST(test_broken_list_of_functions)
{
    verify_return_nothing();
    tc_func *g = tc_func_new(m, "g", false, nowhere);
    tc_func_append(m, g);
    g->next = f; /* a cycle */
    verify_expect_error("@f: the list of functions is broken");
}
END_TEST

START_TEST(test_recursion)
{
    verify_return_nothing();
    tc_func *g = verify_empty_func("g"), *h = verify_empty_func("h");
    verify_call(g, "@h");
    verify_call(h, "@g");
    verify_end(g->body, TC_RETURN, 0, NULL);
    verify_end(h->body, TC_RETURN, 0, NULL);
    verify_expect_error("call: @g calls itself (@g -> @h -> @g), expected no "
                        "recursion: use `for` or `while`");
}
END_TEST

START_TEST(test_calls_too_deep)
{
    verify_return_nothing();
    for (int i = 0; i < 70; i++) {
        char name[16], callee[16];
        snprintf(name, sizeof name, "g%d", i);
        snprintf(callee, sizeof callee, "@g%d", i + 1);
        tc_func *g = verify_empty_func(name);
        if (i < 69)
            verify_call(g, callee);
        verify_end(g->body, TC_RETURN, 0, NULL);
    }
    verify_expect_error(
        "call: @g64 is called through too many functions, expected "
        "at most 64");
}
END_TEST

/* A chain whose every function calls the next twice: 2^40 paths, one look at
 * each function. */
START_TEST(test_calls_are_looked_at_once)
{
    verify_return_nothing();
    for (int i = 0; i < 40; i++) {
        char name[16], callee[16];
        snprintf(name, sizeof name, "g%d", i);
        snprintf(callee, sizeof callee, "@g%d", i + 1);
        tc_func *g = verify_empty_func(name);
        for (int k = 0; k < 2 && i < 39; k++)
            verify_call(g, callee);
        verify_end(g->body, TC_RETURN, 0, NULL);
    }
    verify_expect_valid();
}
END_TEST

START_TEST(test_function_without_name)
{
    verify_return_nothing();
    f->name = "";
    verify_expect_error("a function has no name");
}
END_TEST

START_TEST(test_body_of_another_function)
{
    verify_return_nothing();
    tc_func *g = verify_empty_func("g");
    g->body = f->body;
    verify_expect_error(
        "@g: the body is missing or not linked to its function");
}
END_TEST

static tc_func *kernel(void)
{
    tc_func *k = tc_func_new(m, "k", true, nowhere);
    tc_func_append(m, k);
    verify_end(k->body, TC_RETURN, 0, NULL);
    return k;
}

START_TEST(test_kernel_with_results)
{
    verify_return_nothing();
    tc_func *k = kernel();
    verify_yield_one(k);
    const tc_type *t = verify_scalar(TC_F32);
    k->nresults = 1;
    k->results = &t;
    verify_expect_errors((const char *const[]){
        "@k: a kernel with 1 results, expected none",
        "return: 0 values, expected 1 for kernel @k", ""});
}
END_TEST

START_TEST(test_kernel_argument_types)
{
    verify_return_nothing();
    tc_func *k = kernel();
    verify_yield_one(k);
    tc_region_add_arg(k->body, x->type, NULL, nowhere);
    tc_region_add_arg(k->grid, x->type, NULL, nowhere);
    verify_expect_error(
        "@k: argument 0 is tile<16x8 x f32>, expected a tensor, a "
        "pointer or a scalar");
}
END_TEST

START_TEST(test_grid_arguments)
{
    verify_return_nothing();
    tc_func *k = kernel();
    verify_yield_one(k);
    tc_region_add_arg(k->body, verify_scalar(TC_F32), NULL, nowhere);
    verify_expect_error(
        "@k: the grid has 0 arguments, expected 1, those of the "
        "kernel");
    tc_diags_clear(cx);
    tc_region_add_arg(k->grid, verify_scalar(TC_I32), NULL, nowhere);
    verify_expect_error("@k: argument 0 of the grid is i32, expected f32");
}
END_TEST

START_TEST(test_grid_axes)
{
    verify_return_nothing();
    tc_func *k = kernel();
    verify_end(k->grid, TC_YIELD, 0, NULL);
    verify_expect_error("yield: 0 grid axes, expected 1 to 8");
}
END_TEST

START_TEST(test_default_of_a_later_parameter)
{
    verify_return_nothing();
    tc_func *k = kernel();
    verify_yield_one(k);
    tc_param params[] = {
        {.name = tc_string_get(cx, "N"), .dim = tc_dim_param(cx, "M")},
        {.name = tc_string_get(cx, "M")},
    };
    k->params = params;
    k->nparams = 2;
    verify_expect_error(
        "@k: parameter `N`: default: `M` is no compile-time int "
        "parameter of @k");
    k->nparams = 0;
}
END_TEST

/* ---- Types ---- */

START_TEST(test_value_without_type)
{
    verify_raw(TC_CONST, 0, NULL, 0, NULL);
    tc_op *op = f->body->last;
    tc_op_set_attr(op, "value", (tc_attr){.kind = TC_ATTR_NUMBER});
    const tc_type *none = NULL;
    tc_op_set_results(op, 1, &none);
    verify_return_nothing();
    verify_expect_error("const: result 0 has no type");
}
END_TEST

START_TEST(test_names_that_are_no_parameters)
{
    const tc_dim *dims[] = {tc_dim_param(cx, "N")};
    tc_region_add_arg(
        f->body, tc_type_shaped(cx, TC_TILE, 1, dims, verify_scalar(TC_F32)),
        NULL, nowhere);
    tc_region_add_arg(f->body, tc_type_param(cx, "T"), NULL, nowhere);
    verify_return_nothing();
    verify_expect_errors((const char *const[]){
        "body of @f: argument 3 is tile<N x f32>: `N` is no compile-time int "
        "parameter of @f",
        "body of @f: argument 4 is T: `T` is no compile-time type parameter "
        "of @f",
        ""});
}
END_TEST

START_TEST(test_elements)
{
    const tc_type *ptr = tc_type_ptr(cx, verify_scalar(TC_F32));
    tc_region_add_arg(f->body, verify_shaped(TC_TENSOR, 8, 8, ptr), NULL,
                      nowhere);
    tc_region_add_arg(f->body, tc_type_ptr(cx, x->type), NULL, nowhere);
    tc_region_add_arg(f->body, verify_shaped(TC_TILE, 8, 8, ptr), NULL,
                      nowhere);
    verify_return_nothing();
    verify_expect_errors((const char *const[]){
        "body of @f: argument 3 is tensor<[8, 8] x ptr<f32>>: pointers as "
        "elements, expected ints or floats",
        "body of @f: argument 4 is ptr<tile<16x8 x f32>>: an element that is "
        "no scalar",
        ""});
}
END_TEST

START_TEST(test_tiles_without_axes)
{
    tc_region_add_arg(
        f->body, tc_type_shaped(cx, TC_TILE, 0, NULL, verify_scalar(TC_F32)),
        NULL, nowhere);
    verify_return_nothing();
    verify_expect_error(
        "body of @f: argument 3 is tile< x f32>: no axes, expected "
        "at least one");
}
END_TEST

void verify_functions_tests(TCase *t)
{
    tcase_add_test(t, test_a_valid_function);
    tcase_add_test(t, test_two_functions_of_one_name);
    tcase_add_test(t, test_broken_list_of_functions);
    tcase_add_test(t, test_recursion);
    tcase_add_test(t, test_calls_too_deep);
    tcase_add_test(t, test_calls_are_looked_at_once);
    tcase_add_test(t, test_function_without_name);
    tcase_add_test(t, test_body_of_another_function);
    tcase_add_test(t, test_kernel_with_results);
    tcase_add_test(t, test_kernel_argument_types);
    tcase_add_test(t, test_grid_arguments);
    tcase_add_test(t, test_grid_axes);
    tcase_add_test(t, test_default_of_a_later_parameter);
    tcase_add_test(t, test_value_without_type);
    tcase_add_test(t, test_names_that_are_no_parameters);
    tcase_add_test(t, test_elements);
    tcase_add_test(t, test_tiles_without_axes);
}
