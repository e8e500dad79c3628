/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/verify/fixture.h"

tc_module *m;

tc_func *f; /* func @f(%a: f32, %n: i32, %x: tile<16x8 x f32>) */
tc_value *a, *n, *x;

tc_builder b; /* at the end of its body, which is empty */
static const tc_loc nowhere;

const tc_type *verify_scalar(tc_kind kind)
{
    return tc_type_scalar(cx, kind);
}

const tc_type *verify_shaped(tc_kind kind, int64_t rows, int64_t cols,
                             const tc_type *elem)
{
    const tc_dim *dims[] = {tc_dim_const(cx, rows), tc_dim_const(cx, cols)};
    return tc_type_shaped(cx, kind, 2, dims, elem);
}

void verify_setup(void)
{
    fixture_setup();
    m = tc_module_new(cx);
    f = tc_func_new(m, "f", false, nowhere);
    tc_func_append(m, f);
    a = tc_region_add_arg(f->body, verify_scalar(TC_F32), "a", nowhere);
    n = tc_region_add_arg(f->body, verify_scalar(TC_I32), "n", nowhere);
    x = tc_region_add_arg(f->body,
                          verify_shaped(TC_TILE, 16, 8, verify_scalar(TC_F32)),
                          "x", nowhere);
    b = tc_builder_at_end(f->body, nowhere);
}

void verify_teardown(void)
{
    tc_module_free(m);
    fixture_teardown();
}

tc_op *verify_raw_at(tc_builder *at, tc_opcode code, unsigned nin,
                     tc_value *const *in, unsigned nregions,
                     const tc_type *result)
{
    tc_op *op = tc_op_new(at->func, code, nowhere, nin, in, nregions);
    tc_op_set_results(op, result ? 1 : 0, &result);
    tc_op_insert(op, at->region, at->before);
    return op;
}

tc_op *verify_raw(tc_opcode code, unsigned nin, tc_value *const *in,
                  unsigned nregions, const tc_type *result)
{
    return verify_raw_at(&b, code, nin, in, nregions, result);
}

tc_op *verify_neg(tc_value *v)
{
    return verify_raw(TC_NEG, 1, &v, 0, v->type);
}

tc_op *verify_end(tc_region *r, tc_opcode code, unsigned nin,
                  tc_value *const *in)
{
    tc_builder at = tc_builder_at_end(r, nowhere);
    return verify_raw_at(&at, code, nin, in, 0, NULL);
}

tc_op *verify_return_nothing(void)
{
    return verify_end(f->body, TC_RETURN, 0, NULL);
}

void verify_expect_valid(void)
{
    if (!tc_module_verify(m))
        ck_abort_msg("unexpected: %s", cx->diags->message);
    ck_assert_ptr_null(cx->diags);
}

void verify_expect_errors(const char *const *messages)
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

void verify_expect_error(const char *message)
{
    verify_expect_errors((const char *const[]){message, ""});
}

tc_op *verify_call(tc_func *from, const char *callee)
{
    tc_op *op = tc_op_new(from, TC_CALL, nowhere, 0, NULL, 0);
    tc_op_set_word(op, "callee", callee);
    tc_op_insert(op, from->body, NULL);
    return op;
}

tc_func *verify_empty_func(const char *name)
{
    tc_func *g = tc_func_new(m, name, false, nowhere);
    tc_func_append(m, g);
    return g;
}

void verify_yield_one(tc_func *k)
{
    tc_builder at = tc_builder_at_end(k->grid, nowhere);
    tc_value *one = tc_build_int(&at, verify_scalar(TC_I32), 1);
    verify_end(k->grid, TC_YIELD, 1, &one);
}

tc_op *verify_empty_if(void)
{
    tc_value *in[] = {n, n};
    tc_op *c = verify_raw(TC_CMP, 2, in, 0, verify_scalar(TC_I1));
    tc_op_set_word(c, "pred", "eq");
    tc_op *op = verify_raw(TC_IF, 1, c->out, 2, NULL);
    verify_end(op->regions[0], TC_YIELD, 0, NULL);
    verify_end(op->regions[1], TC_YIELD, 0, NULL);
    return op;
}

tc_op *verify_counting_while(void)
{
    tc_op *op = verify_raw(TC_WHILE, 1, &n, 2, verify_scalar(TC_I32));
    tc_value *c0 =
        tc_region_add_arg(op->regions[0], verify_scalar(TC_I32), "c0", nowhere);
    tc_builder at = tc_builder_at_end(op->regions[0], nowhere);
    tc_value *s = verify_raw_at(&at, TC_NEG, 1, &c0, 0, c0->type)->out[0];
    tc_value *in[] = {s, c0};
    tc_op *c = verify_raw_at(&at, TC_CMP, 2, in, 0, verify_scalar(TC_I1));
    tc_op_set_word(c, "pred", "lt");
    verify_end(op->regions[0], TC_CONDITION, 1, c->out);
    verify_end(op->regions[1], TC_YIELD, 1, &s);
    return op;
}
