/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/bind/exact_sums.h"

#include "passes/analysis/match.h"

#include <assert.h>

const tc_type *tc_exact_bins(tc_context *cx, const tc_type *tensor)
{
    const tc_dim *dims[TC_MAX_RANK];
    assert(tensor->rank < TC_MAX_RANK);
    for (unsigned i = 0; i < tensor->rank; i++)
        dims[i] = tensor->dims[i];
    dims[tensor->rank] = tc_dim_const(cx, TC_BINS);
    return tc_type_shaped(cx, TC_TENSOR, tensor->rank + 1, dims,
                          tc_type_scalar(cx, TC_I64));
}

/* ---- Adding ---- */

static tc_value *is(tc_builder *b, const char *pred, tc_value *x, int64_t i)
{
    return tc_build_cmp(b, pred, x, tc_build_int_const(b, x->type, i));
}

/* A float in parts. */
struct parts {
    tc_value *negative, *special; /* i1 */
    tc_value *bin;                /* i32 */
    tc_value *number;             /* i64 */
};

static struct parts take_apart(tc_builder *b, tc_value *g)
{
    tc_value *bits =
        tc_build_bitcast(b, g, tc_bits_type(b->func->module->cx, g->type));
    tc_value *exponent =
        tc_build_with(b, TC_AND, tc_build_with(b, TC_SHRU, bits, 23), 0xff);
    tc_value *fraction = tc_build_with(b, TC_AND, bits, 0x7fffff);
    tc_value *whole = tc_build_with(b, TC_OR, fraction, 0x800000);
    /* Denormals have the smallest exponent, and no leading one. */
    tc_value *denormal = is(b, "eq", exponent, 0);
    tc_value *digits = tc_build_select(b, denormal, fraction, whole);
    tc_value *scale =
        tc_build_with(b, TC_SUB, tc_build_with(b, TC_MAX, exponent, 1), 1);
    tc_value *wide = tc_build_cast(b, digits, TC_I64);
    tc_value *shift =
        tc_build_cast(b, tc_build_with(b, TC_AND, scale, 7), TC_I64);
    struct parts p = {.negative = is(b, "lt", bits, 0),
                      .special = is(b, "eq", exponent, 0xff)};
    tc_value *number = tc_build_binary(b, TC_SHL, wide, shift);
    number = tc_build_select(b, p.negative, tc_build_unary(b, TC_NEG, number),
                             number);
    tc_value *infinity = tc_build_select(
        b, p.negative, tc_build_int_const(b, number->type, (int64_t)1 << 40),
        tc_build_int_const(b, number->type, 1 << 20));
    tc_value *count =
        tc_build_select(b, is(b, "ne", fraction, 0),
                        tc_build_int_const(b, number->type, 1), infinity);
    tc_value *bin = tc_build_with(b, TC_SHR, scale, 3);
    p.number = tc_build_select(b, p.special, count, number);
    p.bin = tc_build_select(b, p.special,
                            tc_build_int_const(b, bin->type, TC_BINS - 1), bin);
    return p;
}

void tc_exact_add(tc_builder *b, tc_value *at, tc_value *stride, tc_value *g,
                  tc_value *condition)
{
    struct parts p = take_apart(b, g);
    tc_value *offset = tc_build_cast(b, p.bin, TC_I64);
    stride = tc_build_spread(b, stride, offset->type);
    offset = tc_build_binary(b, TC_MUL, offset, stride);
    tc_value *counts = is(b, "ne", p.number, 0);
    if (condition)
        counts = tc_build_binary(b, TC_AND, condition, counts);
    tc_value *in[] = {tc_build_binary(b, TC_PTR_ADD, at, offset), p.number,
                      counts};
    tc_op *op = tc_op_new(b->func, TC_ATOMIC, b->loc, 3, in, 0);
    tc_op_set_word(op, "kind", "add");
    tc_op_set_word(op, "order", "relaxed");
    tc_build_op(b, op, NULL);
}

/* ---- The sums ---- */

static const char one_sum[] =
    "func @exact.sum(%at: ptr<i64>, %inside: i1) -> f32 {\n"
    "  %zero = const 0.0 : f64\n"
    "  %unit = const 1.401298464324817e-45 : f64\n"
    "  %sum, %end = for %b = 0 to 32 carry(%s = %zero, %u = %unit) {\n"
    "    %n = load ptr_add(%at, %b), %inside, 0\n"
    "    yield fma(cast(%n, f64), %u, %s), %u * 256.0\n"
    "  }\n"
    "  %c = load ptr_add(%at, 32), %inside, 0\n"
    "  %above = (%c >> 20 & 0xfffff) != 0\n"
    "  %below = (%c >> 40) != 0\n"
    "  %none = (%c & 0xfffff) != 0 or %above and %below\n"
    "  %infinite = select(%above, inf, select(%below, -inf, cast(%sum, f32)))\n"
    "  return select(%none, nan, %infinite)\n"
    "}\n";

static void add_dims(tc_text *t, unsigned rank)
{
    for (unsigned i = 0; i < rank; i++)
        tc_text_add(t, i ? ", ?" : "?");
}

static void write_kernel(tc_text *t, const char *name, unsigned rank)
{
    tc_text_printf(t, "kernel @%s(%%bins: tensor<[", name);
    add_dims(t, rank);
    tc_text_printf(t, ", %d] x i64>, %%sums: tensor<[", TC_BINS);
    add_dims(t, rank);
    tc_text_add(t, "] x f32>) grid(cdiv(1");
    for (unsigned i = 0; i < rank; i++)
        tc_text_printf(t, " * size(%%sums, %u)", i);
    tc_text_printf(t, ", 64)) {\n  %%e%u = program_id(0) * 64 + range(64)\n",
                   rank);
    /* The element's indices, from the last on. */
    for (unsigned i = rank; i-- > 0;)
        tc_text_printf(t,
                       "  %%i%u = cast(rem(%%e%u, size(%%sums, %u)), i64)\n"
                       "  %%e%u = %%e%u / size(%%sums, %u)\n",
                       i, i + 1, i, i, i + 1, i);
    tc_text_printf(t, "  %%inside = %%e0 == 0\n");
    static const char *const tensors[] = {"bins", "sums"};
    for (unsigned k = 0; k < 2; k++) {
        tc_text_printf(t, "  %%at.%s = base(%%%s)", tensors[k], tensors[k]);
        for (unsigned i = 0; i < rank; i++)
            tc_text_printf(t, " + %%i%u * stride(%%%s, %u)", i, tensors[k], i);
        tc_text_add(t, "\n");
    }
    tc_text_add(t, "  %before = load %at.sums, %inside, 0.0\n"
                   "  store %at.sums, %before + @exact.sum(%at.bins, %inside), "
                   "%inside\n}\n");
}

tc_func *tc_exact_kernel(tc_module *m, unsigned rank)
{
    tc_text t = {.arena = &m->cx->arena};
    const char *name = tc_arena_printf(t.arena, "exact.sums_%u", rank);
    tc_func *f = tc_func_find(m, name);
    if (f)
        return f;
    if (!tc_func_find(m, "exact.sum"))
        tc_text_add(&t, one_sum);
    write_kernel(&t, name, rank);
    uint32_t source =
        tc_source_add(m->cx, "<sums of gradients>", t.data, t.len);
    bool ok = tc_parse(m, source);
    assert(ok && "exact sums: a kernel that does not parse");
    (void)ok;
    return tc_func_find(m, name);
}
