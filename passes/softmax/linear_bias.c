/* SPDX-License-Identifier: Apache-2.0
 *
 * A bias that is linear along the columns of a product of 16-bit tiles, added
 * by the tensor cores:
 *
 *   dot(%a, %b) + %step * range(128)[none, :]
 * becomes
 *   dot(%a, %b, dot(%x, %y), linear_bias=true)
 *   %x   64x16, each row   hi mid lo 0 ..   bf16, whose sum is %step
 *   %y   16x128, the first three rows       0 1 2 .. 127
 *
 * That is a product of the smallest depth there is, which takes less than an
 * fma for each element (claim linear-bias): the fma delays the inputs of the
 * other group's products. Positions up to 256 are exact in bf16, and three such
 * numbers have f32's digits. A product of more than 128 columns of its own
 * leaves no registers for %x (claim linear-bias-depth).
 */
#include "passes/analysis/match.h"
#include "passes/target/exponents.h"
#include "passes/target/machine_model.h"

enum { DEPTH = 16, PARTS = 3 };

static const tc_type *bf16(tc_builder *b)
{
    return tc_type_scalar(b->func->module->cx, TC_BF16);
}

/* The number as PARTS numbers of bf16, and zeros. */
static tc_value *build_parts(tc_builder *b, tc_value *step, const tc_type *type)
{
    tc_value *at = tc_build_range(b, type->dims[1]), *row = NULL;
    for (unsigned i = 0; i < PARTS; i++) {
        tc_value *part = tc_build_cast(b, step, TC_BF16);
        step = tc_build_binary(b, TC_SUB, step, tc_build_cast(b, part, TC_F32));
        part = tc_build_spread(b, part, at->type);
        tc_value *rest =
            row ? row : tc_build_const(b, part->type, (tc_scalar){.f = 0});
        tc_value *here =
            tc_build_cmp(b, "eq", at, tc_build_int_const(b, at->type, i));
        row = tc_build_select(b, here, part, rest);
    }
    return tc_build_along(b, row, 1, type);
}

static tc_value *build_positions(tc_builder *b, const tc_type *type)
{
    tc_value *row = tc_build_range(b, type->dims[0]);
    tc_value *counts =
        tc_build_cmp(b, "lt", row, tc_build_int_const(b, row->type, PARTS));
    tc_value *at = tc_build_cast(b, tc_build_range(b, type->dims[1]), TC_BF16);
    return tc_build_select(b, tc_build_along(b, counts, 0, type),
                           tc_build_along(b, at, 1, type),
                           tc_build_const(b, type, (tc_scalar){.f = 0}));
}

static bool is_16_bits(const tc_value *v)
{
    tc_kind kind = tc_lane_kind(v);
    return kind == TC_BF16 || kind == TC_F16;
}

bool tc_can_add_linear_bias(const tc_target *target, unsigned warps,
                            const tc_op *dot)
{
    const tc_type *t = dot->out[0]->type;
    int64_t rows = tc_dim_value(t->dims[0]), columns = tc_dim_value(t->dims[1]);
    int64_t depth = tc_dim_value(dot->in[0]->type->dims[1]);
    return target->wgmma && dot->code == TC_DOT && dot->nin == 2 &&
           is_16_bits(dot->in[0]) && is_16_bits(dot->in[1]) && warps > 0 &&
           warps % TC_WARPGROUP_WARPS == 0 && rows > 0 &&
           rows % (TC_WARP_ROWS * warps) == 0 && columns > 0 &&
           columns <= TC_LINEAR_BIAS_MAX_COLUMNS &&
           depth <= TC_LINEAR_BIAS_MAX_DEPTH;
}

tc_value *tc_add_ramp(tc_builder *b, const tc_op *dot, tc_value *step)
{
    tc_context *cx = b->func->module->cx;
    const tc_type *t = dot->out[0]->type;
    const tc_dim *depth = tc_dim_const(cx, DEPTH);
    const tc_dim *left[] = {t->dims[0], depth}, *right[] = {depth, t->dims[1]};
    tc_value *in[] = {
        build_parts(b, step, tc_type_shaped(cx, TC_TILE, 2, left, bf16(b))),
        build_positions(b, tc_type_shaped(cx, TC_TILE, 2, right, bf16(b)))};
    tc_value *sum[] = {dot->in[0], dot->in[1], tc_build(b, TC_DOT, 2, in, t)};
    tc_op *both = tc_op_new(b->func, TC_DOT, dot->loc, 3, sum, 0);
    tc_op_set_attr(both, "precision", *tc_op_attr(dot, "precision"));
    tc_op_set_attr(both, "linear_bias",
                   (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
    return tc_build_op(b, both, NULL);
}
