/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier on programs that no text can express: broken links, uses,
 * dominance, missing terminators, wrong results. What text can express is in
 * test/ir/verify. One test a rule of ir/verify.c, each with its message.
 */
#include "ir/ir.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf unwind;
static tc_context *cx;
static tc_module *m;
static tc_func *f; /* func @f(%a: f32, %n: i32, %x: tile<16x8 x f32>) */
static tc_value *a, *n, *x;
static tc_builder b; /* at the end of its body, which is empty */
static const tc_loc nowhere;

static const tc_type *scalar(tc_kind kind)
{
    return tc_type_scalar(cx, kind);
}

static const tc_type *shaped(tc_kind kind, int64_t rows, int64_t cols,
                             const tc_type *elem)
{
    const tc_dim *dims[] = {tc_dim_const(cx, rows), tc_dim_const(cx, cols)};
    return tc_type_shaped(cx, kind, 2, dims, elem);
}

static void setup(void)
{
    cx = tc_context_new();
    ck_assert_ptr_nonnull(cx);
    ck_assert_int_eq(setjmp(unwind), 0);
    cx->memory.unwind = &unwind;
    m = tc_module_new(cx);
    f = tc_func_new(m, "f", false, nowhere);
    tc_func_append(m, f);
    a = tc_region_add_arg(f->body, scalar(TC_F32), "a", nowhere);
    n = tc_region_add_arg(f->body, scalar(TC_I32), "n", nowhere);
    x = tc_region_add_arg(f->body, shaped(TC_TILE, 16, 8, scalar(TC_F32)), "x",
                          nowhere);
    b = tc_builder_at_end(f->body, nowhere);
}

static void teardown(void)
{
    tc_module_free(m);
    tc_context_free(cx);
}

/* An op at the cursor of `at`, without any check. */
static tc_op *raw_at(tc_builder *at, tc_opcode code, unsigned nin,
                     tc_value *const *in, unsigned nregions,
                     const tc_type *result)
{
    tc_op *op = tc_op_new(at->func, code, nowhere, nin, in, nregions);
    tc_op_set_results(op, result ? 1 : 0, &result);
    tc_op_insert(op, at->region, at->before);
    return op;
}

static tc_op *raw(tc_opcode code, unsigned nin, tc_value *const *in,
                  unsigned nregions, const tc_type *result)
{
    return raw_at(&b, code, nin, in, nregions, result);
}

static tc_op *neg(tc_value *v)
{
    return raw(TC_NEG, 1, &v, 0, v->type);
}

static tc_op *end(tc_region *r, tc_opcode code, unsigned nin,
                  tc_value *const *in)
{
    tc_builder at = tc_builder_at_end(r, nowhere);
    return raw_at(&at, code, nin, in, 0, NULL);
}

static tc_op *return_nothing(void)
{
    return end(f->body, TC_RETURN, 0, NULL);
}

static void expect_valid(void)
{
    if (!tc_module_verify(m))
        ck_abort_msg("unexpected: %s", cx->diags->message);
    ck_assert_ptr_null(cx->diags);
}

/* Exactly these errors, in this order; "" ends the list. */
static void expect_errors(const char *const *messages)
{
    ck_assert(!tc_module_verify(m));
    const tc_diag *d = cx->diags;
    for (; **messages; messages++) {
        if (!d)
            ck_abort_msg("missing: %s", *messages);
        ck_assert_int_eq(d->severity, TC_ERROR);
        ck_assert_str_eq(d->message, *messages);
        d = d->next;
    }
    if (d)
        ck_abort_msg("unexpected: %s", d->message);
}

static void expect_error(const char *message)
{
    expect_errors((const char *const[]){message, ""});
}

/* ---- Functions and kernels ---- */

START_TEST(test_a_valid_function)
{
    tc_value *two[] = {a, a};
    tc_value *sum = raw(TC_ADD, 2, two, 0, scalar(TC_F32))->out[0];
    neg(sum);
    return_nothing();
    expect_valid();
    /* And again: the first run left nothing behind. */
    expect_valid();
}
END_TEST

START_TEST(test_two_functions_of_one_name)
{
    return_nothing();
    tc_func *g = tc_func_new(m, "f", false, nowhere);
    tc_func_append(m, g);
    end(g->body, TC_RETURN, 0, NULL);
    expect_error("@f: there are two functions of that name");
}
END_TEST

START_TEST(test_broken_list_of_functions)
{
    return_nothing();
    tc_func *g = tc_func_new(m, "g", false, nowhere);
    tc_func_append(m, g);
    g->next = f; /* a cycle */
    expect_error("@f: the list of functions is broken");
}
END_TEST

static tc_op *call(tc_func *from, const char *callee)
{
    tc_op *op = tc_op_new(from, TC_CALL, nowhere, 0, NULL, 0);
    tc_op_set_word(op, "callee", callee);
    tc_op_insert(op, from->body, NULL);
    return op;
}

static tc_func *empty_func(const char *name)
{
    tc_func *g = tc_func_new(m, name, false, nowhere);
    tc_func_append(m, g);
    return g;
}

START_TEST(test_recursion)
{
    return_nothing();
    tc_func *g = empty_func("g"), *h = empty_func("h");
    call(g, "@h");
    call(h, "@g");
    end(g->body, TC_RETURN, 0, NULL);
    end(h->body, TC_RETURN, 0, NULL);
    expect_error("call: @g calls itself (@g -> @h -> @g), expected no "
                 "recursion: use `for` or `while`");
}
END_TEST

START_TEST(test_calls_too_deep)
{
    return_nothing();
    for (int i = 0; i < 70; i++) {
        char name[16], callee[16];
        snprintf(name, sizeof name, "g%d", i);
        snprintf(callee, sizeof callee, "@g%d", i + 1);
        tc_func *g = empty_func(name);
        if (i < 69)
            call(g, callee);
        end(g->body, TC_RETURN, 0, NULL);
    }
    expect_error("call: @g64 is called through too many functions, expected "
                 "at most 64");
}
END_TEST

/* A chain whose every function calls the next twice: 2^40 paths, one look at
 * each function. */
START_TEST(test_calls_are_looked_at_once)
{
    return_nothing();
    for (int i = 0; i < 40; i++) {
        char name[16], callee[16];
        snprintf(name, sizeof name, "g%d", i);
        snprintf(callee, sizeof callee, "@g%d", i + 1);
        tc_func *g = empty_func(name);
        for (int k = 0; k < 2 && i < 39; k++)
            call(g, callee);
        end(g->body, TC_RETURN, 0, NULL);
    }
    expect_valid();
}
END_TEST

START_TEST(test_function_without_name)
{
    return_nothing();
    f->name = "";
    expect_error("a function has no name");
}
END_TEST

START_TEST(test_body_of_another_function)
{
    return_nothing();
    tc_func *g = empty_func("g");
    g->body = f->body;
    expect_error("@g: the body is missing or not linked to its function");
}
END_TEST

static tc_func *kernel(void)
{
    tc_func *k = tc_func_new(m, "k", true, nowhere);
    tc_func_append(m, k);
    end(k->body, TC_RETURN, 0, NULL);
    return k;
}

static void yield_one(tc_func *k)
{
    tc_builder at = tc_builder_at_end(k->grid, nowhere);
    tc_value *one = tc_build_int(&at, scalar(TC_I32), 1);
    end(k->grid, TC_YIELD, 1, &one);
}

START_TEST(test_kernel_with_results)
{
    return_nothing();
    tc_func *k = kernel();
    yield_one(k);
    const tc_type *t = scalar(TC_F32);
    k->nresults = 1;
    k->results = &t;
    expect_errors((const char *const[]){
        "@k: a kernel with 1 results, expected none",
        "return: 0 values, expected 1 for kernel @k", ""});
}
END_TEST

START_TEST(test_kernel_argument_types)
{
    return_nothing();
    tc_func *k = kernel();
    yield_one(k);
    tc_region_add_arg(k->body, x->type, NULL, nowhere);
    tc_region_add_arg(k->grid, x->type, NULL, nowhere);
    expect_error("@k: argument 0 is tile<16x8 x f32>, expected a tensor, a "
                 "pointer or a scalar");
}
END_TEST

START_TEST(test_grid_arguments)
{
    return_nothing();
    tc_func *k = kernel();
    yield_one(k);
    tc_region_add_arg(k->body, scalar(TC_F32), NULL, nowhere);
    expect_error("@k: the grid has 0 arguments, expected 1, those of the "
                 "kernel");
    tc_diags_clear(cx);
    tc_region_add_arg(k->grid, scalar(TC_I32), NULL, nowhere);
    expect_error("@k: argument 0 of the grid is i32, expected f32");
}
END_TEST

START_TEST(test_grid_axes)
{
    return_nothing();
    tc_func *k = kernel();
    end(k->grid, TC_YIELD, 0, NULL);
    expect_error("yield: 0 grid axes, expected 1 to 3");
}
END_TEST

START_TEST(test_default_of_a_later_parameter)
{
    return_nothing();
    tc_func *k = kernel();
    yield_one(k);
    tc_param params[] = {
        {.name = tc_string_get(cx, "N"), .dim = tc_dim_param(cx, "M")},
        {.name = tc_string_get(cx, "M")},
    };
    k->params = params;
    k->nparams = 2;
    expect_error("@k: parameter `N`: default: `M` is no compile-time int "
                 "parameter of @k");
    k->nparams = 0;
}
END_TEST

/* ---- Types ---- */

START_TEST(test_value_without_type)
{
    raw(TC_CONST, 0, NULL, 0, NULL);
    tc_op *op = f->body->last;
    tc_op_set_attr(op, "value", (tc_attr){.kind = TC_ATTR_NUMBER});
    const tc_type *none = NULL;
    tc_op_set_results(op, 1, &none);
    return_nothing();
    expect_error("const: result 0 has no type");
}
END_TEST

START_TEST(test_names_that_are_no_parameters)
{
    const tc_dim *dims[] = {tc_dim_param(cx, "N")};
    tc_region_add_arg(f->body,
                      tc_type_shaped(cx, TC_TILE, 1, dims, scalar(TC_F32)),
                      NULL, nowhere);
    tc_region_add_arg(f->body, tc_type_param(cx, "T"), NULL, nowhere);
    return_nothing();
    expect_errors((const char *const[]){
        "body of @f: argument 3 is tile<N x f32>: `N` is no compile-time int "
        "parameter of @f",
        "body of @f: argument 4 is T: `T` is no compile-time type parameter "
        "of @f",
        ""});
}
END_TEST

START_TEST(test_elements)
{
    const tc_type *ptr = tc_type_ptr(cx, scalar(TC_F32));
    tc_region_add_arg(f->body, shaped(TC_TENSOR, 8, 8, ptr), NULL, nowhere);
    tc_region_add_arg(f->body, tc_type_ptr(cx, x->type), NULL, nowhere);
    tc_region_add_arg(f->body, shaped(TC_TILE, 8, 8, ptr), NULL, nowhere);
    return_nothing();
    expect_errors((const char *const[]){
        "body of @f: argument 3 is tensor<[8, 8] x ptr<f32>>: pointers as "
        "elements, expected ints or floats",
        "body of @f: argument 4 is ptr<tile<16x8 x f32>>: an element that is "
        "no scalar",
        ""});
}
END_TEST

START_TEST(test_tiles_without_axes)
{
    tc_region_add_arg(f->body,
                      tc_type_shaped(cx, TC_TILE, 0, NULL, scalar(TC_F32)),
                      NULL, nowhere);
    return_nothing();
    expect_error("body of @f: argument 3 is tile< x f32>: no axes, expected "
                 "at least one");
}
END_TEST

/* ---- Links ---- */

START_TEST(test_broken_list_of_ops)
{
    tc_op *first = neg(a), *second = neg(a);
    return_nothing();
    first->next = first; /* a cycle */
    expect_error("body of @f: the list of ops is broken");
    first->next = second;
    tc_diags_clear(cx);
    f->body->last = second;
    expect_error("body of @f: the list of ops is broken");
}
END_TEST

START_TEST(test_op_of_another_region)
{
    tc_op *op = neg(a);
    return_nothing();
    tc_func *g = empty_func("g");
    end(g->body, TC_RETURN, 0, NULL);
    op->parent = g->body;
    expect_error("body of @f: neg is not linked to its region or function");
}
END_TEST

START_TEST(test_op_of_unknown_code)
{
    tc_op *op = neg(a);
    return_nothing();
    op->code = TC_OPCODE_COUNT + 3;
    tc_diags_clear(cx);
    ck_assert(!tc_module_verify(m));
    ck_assert_ptr_nonnull(strstr(cx->diags->message, "is not known"));
}
END_TEST

START_TEST(test_result_of_another_op)
{
    tc_op *one = neg(a), *two = neg(a);
    return_nothing();
    one->out[0]->def = two;
    expect_error("neg: result 0 is not linked to its op");
}
END_TEST

START_TEST(test_argument_of_another_region)
{
    return_nothing();
    f->body->args[1]->index = 0;
    expect_error("body of @f: argument 1 is not linked to its region");
}
END_TEST

/* An if whose regions end in yield. */
static tc_op *empty_if(void)
{
    tc_value *in[] = {n, n};
    tc_op *c = raw(TC_CMP, 2, in, 0, scalar(TC_I1));
    tc_op_set_word(c, "pred", "eq");
    tc_op *op = raw(TC_IF, 1, c->out, 2, NULL);
    end(op->regions[0], TC_YIELD, 0, NULL);
    end(op->regions[1], TC_YIELD, 0, NULL);
    return op;
}

START_TEST(test_region_of_another_op)
{
    tc_op *one = empty_if(), *two = empty_if();
    return_nothing();
    expect_valid();
    two->regions[0] = one->regions[0];
    expect_error("if: region 0 is not linked to its op");
}
END_TEST

START_TEST(test_nesting_too_deep)
{
    for (int i = 0; i < 70; i++) {
        tc_op *op = empty_if();
        b = tc_builder_before(op->regions[0]->last);
    }
    return_nothing();
    expect_errors((const char *const[]){
        "if: region 0: nested too deeply, expected at most 66 regions",
        "if: region 1: nested too deeply, expected at most 66 regions", ""});
}
END_TEST

/* ---- Uses ---- */

START_TEST(test_use_that_is_no_operand)
{
    tc_op *op = neg(a);
    return_nothing();
    op->in[0] = n; /* behind the back of tc_op_set_in */
    expect_errors((const char *const[]){
        "body of @f: argument 0, %a has a broken list of uses, expected each "
        "to be an operand that is this value",
        "neg: operand 0 (argument 1, %n) is not in the list of uses of its "
        "value",
        "neg: result 0 is f32, expected i32", ""});
}
END_TEST

START_TEST(test_operand_that_is_no_use)
{
    neg(a);
    return_nothing();
    a->uses = NULL;
    expect_error("neg: operand 0 (argument 0, %a) is not in the list of uses "
                 "of its value");
}
END_TEST

START_TEST(test_use_by_an_op_that_stands_nowhere)
{
    tc_op *op = neg(a);
    tc_op_remove(op);
    return_nothing();
    expect_error("body of @f: argument 0, %a is used by neg, which stands "
                 "nowhere in @f, expected it to be erased");
}
END_TEST

/* ---- Dominance ---- */

START_TEST(test_use_before_definition)
{
    tc_op *one = neg(a), *two = neg(one->out[0]);
    return_nothing();
    tc_op_remove(one);
    tc_op_insert(one, f->body, two->next);
    expect_error("neg: operand 0 (result 0) cannot be used here: it is "
                 "defined later");
}
END_TEST

START_TEST(test_use_of_its_own_result)
{
    tc_op *one = neg(a);
    return_nothing();
    tc_op_set_in(one, 0, one->out[0]);
    expect_error("neg: operand 0 (result 0) cannot be used here: it is this "
                 "op's own result");
}
END_TEST

START_TEST(test_use_from_outside_of_a_region)
{
    tc_op *op = empty_if();
    tc_builder in = tc_builder_before(op->regions[0]->last);
    tc_op *inner = raw_at(&in, TC_NEG, 1, &a, 0, scalar(TC_F32));
    neg(inner->out[0]);
    return_nothing();
    expect_error("neg: operand 0 (result 0) cannot be used here: it is "
                 "defined in a region that does not enclose this op");
}
END_TEST

START_TEST(test_use_from_the_sibling_region)
{
    tc_op *op = empty_if();
    tc_builder then = tc_builder_before(op->regions[0]->last);
    tc_builder other = tc_builder_before(op->regions[1]->last);
    tc_op *inner = raw_at(&then, TC_NEG, 1, &a, 0, scalar(TC_F32));
    raw_at(&other, TC_NEG, 1, inner->out, 0, scalar(TC_F32));
    return_nothing();
    expect_error("neg: operand 0 (result 0) cannot be used here: it is "
                 "defined in a region that does not enclose this op");
}
END_TEST

START_TEST(test_use_from_another_function)
{
    tc_func *g = empty_func("g");
    tc_value *arg = tc_region_add_arg(g->body, scalar(TC_F32), "z", nowhere);
    end(g->body, TC_RETURN, 0, NULL);
    neg(arg);
    return_nothing();
    /* Seen from both sides. */
    expect_errors((const char *const[]){
        "neg: operand 0 (argument 0, %z) cannot be used here: it belongs to "
        "another function",
        "body of @g: argument 0, %z is used by neg, which stands nowhere in "
        "@g, expected it to be erased",
        ""});
}
END_TEST

START_TEST(test_use_of_a_detached_op)
{
    tc_op *one = tc_op_new(f, TC_NEG, nowhere, 1, &a, 0);
    const tc_type *t = scalar(TC_F32);
    tc_op_set_results(one, 1, &t);
    neg(one->out[0]);
    return_nothing();
    expect_errors((const char *const[]){
        "body of @f: argument 0, %a is used by neg, which stands nowhere in "
        "@f, expected it to be erased",
        "neg: operand 0 (result 0) cannot be used here: it comes from an op "
        "that stands nowhere",
        ""});
}
END_TEST

/* while carry(%c0 = n) { %s = neg %c0  condition } do { yield %s } */
static tc_op *counting_while(void)
{
    tc_op *op = raw(TC_WHILE, 1, &n, 2, scalar(TC_I32));
    tc_value *c0 =
        tc_region_add_arg(op->regions[0], scalar(TC_I32), "c0", nowhere);
    tc_builder at = tc_builder_at_end(op->regions[0], nowhere);
    tc_value *s = raw_at(&at, TC_NEG, 1, &c0, 0, c0->type)->out[0];
    tc_value *in[] = {s, c0};
    tc_op *c = raw_at(&at, TC_CMP, 2, in, 0, scalar(TC_I1));
    tc_op_set_word(c, "pred", "lt");
    end(op->regions[0], TC_CONDITION, 1, c->out);
    end(op->regions[1], TC_YIELD, 1, &s);
    return op;
}

START_TEST(test_second_region_of_while_sees_the_first)
{
    counting_while();
    return_nothing();
    expect_valid();
}
END_TEST

START_TEST(test_first_region_of_while_does_not_see_the_second)
{
    tc_op *op = counting_while();
    tc_builder at = tc_builder_before(op->regions[1]->first);
    tc_value *late = raw_at(&at, TC_NEG, 1, &n, 0, n->type)->out[0];
    tc_op_set_in(op->regions[0]->first, 0, late);
    tc_op *after = neg(op->regions[0]->args[0]);
    (void)after;
    return_nothing();
    expect_errors((const char *const[]){
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
    neg(a);
    expect_error("body of @f: ends in neg, expected return");
}
END_TEST

START_TEST(test_empty_body)
{
    expect_error("body of @f: is empty, expected it to end in return");
}
END_TEST

START_TEST(test_terminator_in_the_middle)
{
    return_nothing();
    neg(a);
    return_nothing();
    expect_error("return: stands before the end of its region, expected it "
                 "to be the last op");
}
END_TEST

START_TEST(test_wrong_terminator)
{
    tc_op *op = empty_if();
    tc_op_erase(op->regions[0]->last);
    end(op->regions[0], TC_RETURN, 0, NULL);
    return_nothing();
    expect_error("if: region 0: ends in return, expected yield");
}
END_TEST

/* ---- Ops ---- */

START_TEST(test_result_types)
{
    tc_op *op = neg(a);
    op->out[0]->type = scalar(TC_F16);
    return_nothing();
    expect_error("neg: result 0 is f16, expected f32");
}
END_TEST

START_TEST(test_missing_results)
{
    raw(TC_NEG, 1, &a, 0, NULL);
    return_nothing();
    expect_error("neg: 0 results, expected 1");
}
END_TEST

START_TEST(test_regions_of_ops_that_have_none)
{
    raw(TC_NEG, 1, &a, 1, scalar(TC_F32));
    tc_op *op = f->body->last;
    end(op->regions[0], TC_YIELD, 1, &a);
    return_nothing();
    expect_error("neg: 1 region, expected 0");
}
END_TEST

START_TEST(test_missing_attribute)
{
    raw(TC_CONST, 0, NULL, 0, scalar(TC_F32));
    return_nothing();
    expect_error("const: attribute `value` is missing");
}
END_TEST

START_TEST(test_attribute_of_the_wrong_kind)
{
    tc_op *op = raw(TC_CONST, 0, NULL, 0, scalar(TC_F32));
    tc_op_set_int(op, "value", 1);
    return_nothing();
    expect_error("const: attribute `value` has the wrong kind");
}
END_TEST

START_TEST(test_empty_attribute)
{
    tc_value *in[] = {n, n};
    tc_op *op = raw(TC_CMP, 2, in, 0, scalar(TC_I1));
    tc_op_set_attr(op, "pred", (tc_attr){.kind = TC_ATTR_SYMBOL});
    return_nothing();
    expect_error("cmp: attribute `pred` is empty");
}
END_TEST

START_TEST(test_tensors_are_no_results)
{
    tc_value *t = tc_region_add_arg(
        f->body, shaped(TC_TENSOR, 8, 8, scalar(TC_F32)), "t", nowhere);
    tc_value *in[] = {n, n};
    tc_op *c = raw(TC_CMP, 2, in, 0, scalar(TC_I1));
    tc_op_set_word(c, "pred", "eq");
    tc_value *sel[] = {c->out[0], t, t};
    raw(TC_SELECT, 3, sel, 0, t->type);
    return_nothing();
    expect_errors((const char *const[]){
        "select: result 0 is tensor<[8, 8] x f32>, expected no tensor "
        "(tensors are parameters only)",
        "select: operands are tensor<[8, 8] x f32>, expected scalars or tiles "
        "(of a block pointer choose the offsets)",
        ""});
}
END_TEST

/* for %i = n to n step n carry(%c = a) { yield %c } */
static tc_op *loop(void)
{
    tc_value *in[] = {n, n, n, a};
    tc_op *op = raw(TC_FOR, 4, in, 1, scalar(TC_F32));
    tc_region_add_arg(op->regions[0], scalar(TC_I32), "i", nowhere);
    tc_value *c =
        tc_region_add_arg(op->regions[0], scalar(TC_F32), "c", nowhere);
    end(op->regions[0], TC_YIELD, 1, &c);
    return op;
}

START_TEST(test_for_arguments)
{
    tc_op *op = loop();
    return_nothing();
    expect_valid();
    op->regions[0]->args[0]->type = scalar(TC_I64);
    expect_error("for: region 0: argument 0 is i64, expected i32");
    tc_diags_clear(cx);
    op->regions[0]->args[0]->type = scalar(TC_I32);
    tc_region_add_arg(op->regions[0], scalar(TC_F32), NULL, nowhere);
    expect_error("for: region 0 has 3 arguments, expected 2");
}
END_TEST

START_TEST(test_for_regions)
{
    tc_value *in[] = {n, n, n};
    raw(TC_FOR, 3, in, 0, NULL);
    return_nothing();
    expect_error("for: 0 regions, expected 1");
}
END_TEST

START_TEST(test_for_results)
{
    tc_op *op = loop();
    op->out[0]->type = scalar(TC_F16);
    return_nothing();
    expect_errors((const char *const[]){
        "yield: value 0 is f32, expected f16 for the `for`",
        "for: result 0 is f16, expected f32", ""});
}
END_TEST

START_TEST(test_if_regions)
{
    tc_op *op = empty_if();
    op->nregions = 1;
    return_nothing();
    expect_error("if: 1 region, expected 2");
    tc_diags_clear(cx);
    op->nregions = 2;
    tc_region_add_arg(op->regions[1], scalar(TC_F32), NULL, nowhere);
    expect_error("if: region 1 has 1 argument, expected 0");
}
END_TEST

START_TEST(test_while_regions)
{
    tc_op *op = counting_while();
    return_nothing();
    tc_region_add_arg(op->regions[1], scalar(TC_F32), NULL, nowhere);
    expect_error("while: region 1 has 1 argument, expected 0");
    tc_diags_clear(cx);
    tc_region_remove_arg(op->regions[1], 0);
    tc_region_add_arg(op->regions[0], scalar(TC_F32), NULL, nowhere);
    expect_error("while: region 0 has 2 arguments, expected 1");
}
END_TEST

START_TEST(test_reduce_region)
{
    tc_op *op = raw(TC_REDUCE, 1, &x, 1, scalar(TC_F32));
    op->out[0]->type =
        tc_type_shaped(cx, TC_TILE, 1, x->type->dims + 1, scalar(TC_F32));
    tc_op_set_int(op, "axis", 0);
    tc_value *left =
        tc_region_add_arg(op->regions[0], scalar(TC_F32), "l", nowhere);
    tc_op *yield = end(op->regions[0], TC_YIELD, 1, &left);
    return_nothing();
    expect_error("reduce: region 0 has 1 argument, expected 2");
    tc_diags_clear(cx);
    tc_value *right =
        tc_region_add_arg(op->regions[0], scalar(TC_I32), "r", nowhere);
    expect_error("reduce: region 0: argument 1 is i32, expected f32");
    tc_diags_clear(cx);
    right->type = scalar(TC_F32);
    expect_valid();
    tc_op_set_in(yield, 0, n);
    expect_error("yield: value 0 is i32, expected f32 for the `reduce`");
}
END_TEST

START_TEST(test_argument_names)
{
    tc_param p = {.name = tc_string_get(cx, "mod"), .kind = TC_PARAM_FUNC};
    tc_func *k = tc_func_new(m, "k", true, nowhere);
    tc_func_append(m, k);
    yield_one(k);
    k->params = &p;
    k->nparams = 1;
    tc_op *op = call(k, "mod");
    const char *names[] = {"one"};
    tc_op_set_attr(
        op, "names",
        (tc_attr){.kind = TC_ATTR_STRINGS, .n = 1, .strings = names});
    end(k->body, TC_RETURN, 0, NULL);
    return_nothing();
    expect_error("call: 1 argument names, expected at most 0");
    k->nparams = 0;
}
END_TEST

static void build_const(const tc_type *type, tc_number number)
{
    tc_op *op = raw(TC_CONST, 0, NULL, 0, type);
    tc_op_set_attr(op, "value",
                   (tc_attr){.kind = TC_ATTR_NUMBER, .number = number});
}

START_TEST(test_constants_fit)
{
    build_const(scalar(TC_I1), (tc_number){.i = 2});
    build_const(scalar(TC_I8), (tc_number){.i = 128});
    build_const(scalar(TC_I8), (tc_number){.i = -128});
    build_const(scalar(TC_I64), (tc_number){.i = INT64_MIN});
    build_const(scalar(TC_F16), (tc_number){.is_float = true, .f = 65536});
    build_const(scalar(TC_F16), (tc_number){.is_float = true, .f = 65504});
    build_const(scalar(TC_F8E4M3),
                (tc_number){.is_float = true, .f = INFINITY});
    build_const(scalar(TC_F8E4M3), (tc_number){.is_float = true, .f = 448});
    build_const(scalar(TC_F8E5M2), (tc_number){.is_float = true, .f = 60000});
    build_const(scalar(TC_F8E5M2), (tc_number){.is_float = true, .f = NAN});
    build_const(scalar(TC_F32), (tc_number){.is_float = true, .f = 1e39});
    build_const(scalar(TC_F32), (tc_number){.i = 3});
    return_nothing();
    expect_errors((const char *const[]){
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
        neg(a)->out[0]->type = scalar(TC_F16);
    return_nothing();
    ck_assert(!tc_module_verify(m));
    ck_assert_uint_eq(cx->nerrors, TC_MAX_ERRORS + 5);
}
END_TEST

static void add_ops(TCase *t)
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
    tcase_add_test(t, test_constants_fit);
    tcase_add_test(t, test_every_violation_is_reported);
}

static void add_structure(TCase *t)
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

static void add_functions(TCase *t)
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

int main(void)
{
    Suite *s = suite_create("verify");
    static void (*const add[])(TCase *) = {add_functions, add_structure,
                                           add_ops};
    static const char *const names[] = {"functions", "structure", "ops"};
    for (int i = 0; i < 3; i++) {
        TCase *t = tcase_create(names[i]);
        tcase_add_checked_fixture(t, setup, teardown);
        add[i](t);
        suite_add_tcase(s, t);
    }
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
