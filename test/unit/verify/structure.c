/* SPDX-License-Identifier: Apache-2.0
 *
 * Links, uses, dominance, terminators.
 */
#include "test/unit/verify/fixture.h"

/* ---- Links ---- */

START_TEST(test_broken_list_of_ops)
{
    tc_op *first = verify_neg(a), *second = verify_neg(a);
    verify_return_nothing();
    first->next = first; /* a cycle */
    verify_expect_error("body of @f: the list of ops is broken");
    first->next = second;
    tc_diags_clear(cx);
    f->body->last = second;
    verify_expect_error("body of @f: the list of ops is broken");
}
END_TEST

START_TEST(test_op_of_another_region)
{
    tc_op *op = verify_neg(a);
    verify_return_nothing();
    tc_func *g = verify_empty_func("g");
    verify_end(g->body, TC_RETURN, 0, NULL);
    op->parent = g->body;
    verify_expect_error(
        "body of @f: neg is not linked to its region or function");
}
END_TEST

START_TEST(test_op_of_unknown_code)
{
    tc_op *op = verify_neg(a);
    verify_return_nothing();
    op->code = TC_OPCODE_COUNT + 3;
    tc_diags_clear(cx);
    ck_assert(!tc_module_verify(m));
    ck_assert_ptr_nonnull(strstr(cx->diags->message, "is not known"));
}
END_TEST

START_TEST(test_result_of_another_op)
{
    tc_op *one = verify_neg(a), *two = verify_neg(a);
    verify_return_nothing();
    one->out[0]->def = two;
    verify_expect_error("neg: result 0 is not linked to its op");
}
END_TEST

START_TEST(test_argument_of_another_region)
{
    verify_return_nothing();
    f->body->args[1]->index = 0;
    verify_expect_error("body of @f: argument 1 is not linked to its region");
}
END_TEST

START_TEST(test_region_of_another_op)
{
    tc_op *one = verify_empty_if(), *two = verify_empty_if();
    verify_return_nothing();
    verify_expect_valid();
    two->regions[0] = one->regions[0];
    verify_expect_error("if: region 0 is not linked to its op");
}
END_TEST

START_TEST(test_nesting_too_deep)
{
    for (int i = 0; i < 70; i++) {
        tc_op *op = verify_empty_if();
        b = tc_builder_before(op->regions[0]->last);
    }
    verify_return_nothing();
    verify_expect_errors((const char *const[]){
        "if: region 0: nested too deeply, expected at most 66 regions",
        "if: region 1: nested too deeply, expected at most 66 regions", ""});
}
END_TEST

/* ---- Uses ---- */

START_TEST(test_use_that_is_no_operand)
{
    tc_op *op = verify_neg(a);
    verify_return_nothing();
    op->in[0] = n; /* behind the back of tc_op_set_in */
    verify_expect_errors((const char *const[]){
        "body of @f: argument 0, %a has a broken list of uses, expected each "
        "to be an operand that is this value",
        "neg: operand 0 (argument 1, %n) is not in the list of uses of its "
        "value",
        "neg: result 0 is f32, expected i32", ""});
}
END_TEST

START_TEST(test_operand_that_is_no_use)
{
    verify_neg(a);
    verify_return_nothing();
    a->uses = NULL;
    verify_expect_error(
        "neg: operand 0 (argument 0, %a) is not in the list of uses "
        "of its value");
}
END_TEST

START_TEST(test_use_by_an_op_that_stands_nowhere)
{
    tc_op *op = verify_neg(a);
    tc_op_remove(op);
    verify_return_nothing();
    verify_expect_error(
        "body of @f: argument 0, %a is used by neg, which stands "
        "nowhere in @f, expected it to be erased");
}
END_TEST

/* ---- Dominance ---- */

START_TEST(test_use_before_definition)
{
    tc_op *one = verify_neg(a), *two = verify_neg(one->out[0]);
    verify_return_nothing();
    tc_op_remove(one);
    tc_op_insert(one, f->body, two->next);
    verify_expect_error("neg: operand 0 (result 0) cannot be used here: it is "
                        "defined later");
}
END_TEST

START_TEST(test_use_of_its_own_result)
{
    tc_op *one = verify_neg(a);
    verify_return_nothing();
    tc_op_set_in(one, 0, one->out[0]);
    verify_expect_error(
        "neg: operand 0 (result 0) cannot be used here: it is this "
        "op's own result");
}
END_TEST

START_TEST(test_use_from_outside_of_a_region)
{
    tc_op *op = verify_empty_if();
    tc_builder in = tc_builder_before(op->regions[0]->last);
    tc_op *inner = verify_raw_at(&in, TC_NEG, 1, &a, 0, verify_scalar(TC_F32));
    verify_neg(inner->out[0]);
    verify_return_nothing();
    verify_expect_error("neg: operand 0 (result 0) cannot be used here: it is "
                        "defined in a region that does not enclose this op");
}
END_TEST

START_TEST(test_use_from_the_sibling_region)
{
    tc_op *op = verify_empty_if();
    tc_builder then = tc_builder_before(op->regions[0]->last);
    tc_builder other = tc_builder_before(op->regions[1]->last);
    tc_op *inner =
        verify_raw_at(&then, TC_NEG, 1, &a, 0, verify_scalar(TC_F32));
    verify_raw_at(&other, TC_NEG, 1, inner->out, 0, verify_scalar(TC_F32));
    verify_return_nothing();
    verify_expect_error("neg: operand 0 (result 0) cannot be used here: it is "
                        "defined in a region that does not enclose this op");
}
END_TEST

START_TEST(test_use_from_another_function)
{
    tc_func *g = verify_empty_func("g");
    tc_value *arg =
        tc_region_add_arg(g->body, verify_scalar(TC_F32), "z", nowhere);
    verify_end(g->body, TC_RETURN, 0, NULL);
    verify_neg(arg);
    verify_return_nothing();
    /* Seen from both sides. */
    verify_expect_errors((const char *const[]){
        "neg: operand 0 (argument 0, %z) cannot be used here: it belongs to "
        "another function",
        "body of @g: argument 0, %z is used by neg, which stands "
        "nowhere in "
        "@g, expected it to be erased",
        ""});
}
END_TEST

START_TEST(test_use_of_a_detached_op)
{
    tc_op *one = tc_op_new(f, TC_NEG, nowhere, 1, &a, 0);
    const tc_type *t = verify_scalar(TC_F32);
    tc_op_set_results(one, 1, &t);
    verify_neg(one->out[0]);
    verify_return_nothing();
    verify_expect_errors((const char *const[]){
        "body of @f: argument 0, %a is used by neg, which stands "
        "nowhere in "
        "@f, expected it to be erased",
        "neg: operand 0 (result 0) cannot be used here: it comes from an op "
        "that stands nowhere",
        ""});
}
END_TEST

START_TEST(test_second_region_of_while_sees_the_first)
{
    verify_counting_while();
    verify_return_nothing();
    verify_expect_valid();
}
END_TEST

START_TEST(test_first_region_of_while_does_not_see_the_second)
{
    tc_op *op = verify_counting_while();
    tc_builder at = tc_builder_before(op->regions[1]->first);
    tc_value *late = verify_raw_at(&at, TC_NEG, 1, &n, 0, n->type)->out[0];
    tc_op_set_in(op->regions[0]->first, 0, late);
    tc_op *after = verify_neg(op->regions[0]->args[0]);
    (void)after;
    verify_return_nothing();
    verify_expect_errors((const char *const[]){
        "neg: operand 0 (result 0) cannot be used here: it is defined in a "
        "region that does not enclose this op",
        "neg: operand 0 (argument 0, %c0) cannot be used here: it is defined "
        "in a region that does not enclose this op",
        ""});
}
END_TEST

/* ---- Terminators ---- */

START_TEST(test_body_without_terminator)
{
    verify_neg(a);
    verify_expect_error("body of @f: ends in neg, expected return");
}
END_TEST

START_TEST(test_empty_body)
{
    verify_expect_error("body of @f: is empty, expected it to end in return");
}
END_TEST

START_TEST(test_terminator_in_the_middle)
{
    verify_return_nothing();
    verify_neg(a);
    verify_return_nothing();
    verify_expect_error(
        "return: stands before the end of its region, expected it "
        "to be the last op");
}
END_TEST

START_TEST(test_wrong_terminator)
{
    tc_op *op = verify_empty_if();
    tc_op_erase(op->regions[0]->last);
    verify_end(op->regions[0], TC_RETURN, 0, NULL);
    verify_return_nothing();
    verify_expect_error("if: region 0: ends in return, expected yield");
}
END_TEST

void verify_structure_tests(TCase *t)
{
    tcase_add_test(t, test_broken_list_of_ops);
    tcase_add_test(t, test_op_of_another_region);
    tcase_add_test(t, test_op_of_unknown_code);
    tcase_add_test(t, test_result_of_another_op);
    tcase_add_test(t, test_argument_of_another_region);
    tcase_add_test(t, test_region_of_another_op);
    tcase_add_test(t, test_nesting_too_deep);
    tcase_add_test(t, test_use_that_is_no_operand);
    tcase_add_test(t, test_operand_that_is_no_use);
    tcase_add_test(t, test_use_by_an_op_that_stands_nowhere);
    tcase_add_test(t, test_use_before_definition);
    tcase_add_test(t, test_use_of_its_own_result);
    tcase_add_test(t, test_use_from_outside_of_a_region);
    tcase_add_test(t, test_use_from_the_sibling_region);
    tcase_add_test(t, test_use_from_another_function);
    tcase_add_test(t, test_use_of_a_detached_op);
    tcase_add_test(t, test_second_region_of_while_sees_the_first);
    tcase_add_test(t, test_first_region_of_while_does_not_see_the_second);
    tcase_add_test(t, test_body_without_terminator);
    tcase_add_test(t, test_empty_body);
    tcase_add_test(t, test_terminator_in_the_middle);
    tcase_add_test(t, test_wrong_terminator);
}
