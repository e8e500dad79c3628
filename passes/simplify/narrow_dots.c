/* SPDX-License-Identifier: Apache-2.0
 *
 * narrow-dots: a product of f32 tiles whose elements all fit a narrower float
 * becomes a product of that type, which machines compute many times faster.
 *
 *   %a = cast %x : tile<64x32 x f32>          of bf16
 *   %b = select %c, %one, %zero : tile<32x16 x f32>
 *   %r = dot %a, %b : tile<64x16 x f32>
 * becomes
 *   %b = select %c, %one, %zero : tile<32x16 x bf16>
 *   %r = dot %x, %b : tile<64x16 x f32>
 *
 * It is exact: the products of narrow elements are computed in f32 either way.
 * The analysis follows casts from narrower types, constants, selections between
 * these, and ops that only move elements. Two different narrow types become one
 * that holds both. Tests: test/ir/passes/narrow-dots.
 */
#include "passes/analysis/match.h"
#include "passes/passes.h"

/* A set of element kinds. */
typedef unsigned kinds;

/* Of equal use the first is taken. Floats of 8 bits only where the elements
 * are of that type already: not every target multiplies them. */
static const tc_kind narrow_kinds[] = {TC_BF16, TC_F16, TC_F8E4M3, TC_F8E5M2};
enum { NNARROW = sizeof narrow_kinds / sizeof *narrow_kinds };

struct operand {
    kinds fits;           /* those that hold all elements */
    kinds from;           /* those that elements are converted from */
    const tc_value *wide; /* what fits none; NULL: nothing */
};

static kinds kind_bit(tc_kind k)
{
    return 1u << k;
}

static kinds all_narrow(void)
{
    kinds all = 0;
    for (unsigned i = 0; i < NNARROW; i++)
        all |= kind_bit(narrow_kinds[i]);
    return all;
}

static kinds holding_kind(tc_kind from)
{
    kinds fits = 0;
    for (unsigned i = 0; i < NNARROW; i++)
        if (tc_cast_is_exact(from, narrow_kinds[i]))
            fits |= kind_bit(narrow_kinds[i]);
    return fits;
}

static kinds holding_number(double x)
{
    kinds fits = 0;
    for (unsigned i = 0; i < NNARROW; i++)
        if (tc_round_to(narrow_kinds[i], x) == x)
            fits |= kind_bit(narrow_kinds[i]);
    return fits;
}

static bool only_moves(const tc_op *op)
{
    return op->code == TC_SPLAT || op->code == TC_BROADCAST ||
           op->code == TC_EXPAND_DIMS || op->code == TC_TRANS ||
           op->code == TC_RESHAPE;
}

static bool is_narrow(tc_kind k)
{
    return (all_narrow() & kind_bit(k)) != 0;
}

static struct operand of_kind(tc_kind k, const tc_value *v)
{
    struct operand x = {holding_kind(k), kind_bit(k), NULL};
    if (!x.fits)
        x.wide = v;
    return x;
}

static struct operand look(const tc_value *v)
{
    tc_kind kind = tc_lane_kind(v);
    const tc_op *op = v->def;
    tc_scalar c;
    if (is_narrow(kind))
        return of_kind(kind, v);
    if (kind == TC_F32 && tc_match_const(v, &c)) {
        kinds fits = holding_number(c.f);
        return (struct operand){fits, 0, fits ? NULL : v};
    }
    if (kind == TC_F32 && op && only_moves(op))
        return look(op->in[0]);
    if (kind == TC_F32 && op && op->code == TC_CAST &&
        tc_lane_kind(op->in[0]) != TC_KIND_COUNT)
        return of_kind(tc_lane_kind(op->in[0]), v);
    if (kind != TC_F32 || !op || op->code != TC_SELECT)
        return (struct operand){0, 0, v};
    struct operand x = look(op->in[1]), y = look(op->in[2]);
    return (struct operand){x.fits & y.fits, x.from | y.from,
                            x.wide ? x.wide : y.wide};
}

/* The same elements, of a kind that holds them. */
static tc_value *narrowed(tc_builder *b, tc_value *v, const tc_type *elem)
{
    tc_context *cx = b->func->module->cx;
    tc_op *op = v->def;
    const tc_type *type = tc_type_with_elem(cx, v->type, elem);
    tc_scalar c;
    if (v->type == type)
        return v;
    if (is_narrow(tc_lane_kind(v)))
        return tc_build(b, TC_CAST, 1, &v, type);
    if (tc_match_const(v, &c))
        return tc_build_const(b, type, c);
    if (op->code == TC_CAST)
        return op->in[0]->type == type ? op->in[0]
                                       : tc_build(b, TC_CAST, 1, op->in, type);
    tc_value *in[] = {op->in[0], NULL, NULL};
    if (op->code == TC_SELECT) {
        in[1] = narrowed(b, op->in[1], elem);
        in[2] = narrowed(b, op->in[2], elem);
    } else {
        in[0] = narrowed(b, op->in[0], elem);
    }
    return tc_build_like(b, op, in, type);
}

static bool narrow_dots_choose(struct operand x, struct operand y,
                               tc_kind *kind)
{
    kinds wide_enough = kind_bit(TC_BF16) | kind_bit(TC_F16);
    kinds fits = x.fits & y.fits & (wide_enough | x.from | y.from);
    for (unsigned i = NNARROW; i-- > 0;)
        if (fits & (x.from | y.from) & kind_bit(narrow_kinds[i])) {
            *kind = narrow_kinds[i];
            return true;
        }
    for (unsigned i = 0; i < NNARROW; i++)
        if (fits & kind_bit(narrow_kinds[i])) {
            *kind = narrow_kinds[i];
            return true;
        }
    return false;
}

/* A remark if one operand prevents it, or if each of the two could be narrowed
 * alone. */
static void explain(tc_pass_env *env, const tc_op *dot, struct operand x,
                    struct operand y)
{
    const tc_value *wide = x.wide ? x.wide : y.wide;
    if ((x.wide && y.wide) || (!x.from && !y.from))
        return;
    if (!wide)
        tc_missed(env->cx, dot->loc, "narrow-dots",
                  "dot stays as it is: no type of 16 bits or less holds the "
                  "elements of both operands");
    else
        tc_missed(env->cx, dot->loc, "narrow-dots",
                  "dot stays in f32: operand %d is `%s` in f32; cast it to the "
                  "type of the other if its rounding may be seen",
                  x.wide ? 0 : 1,
                  wide->def ? tc_op_name(wide->def) : "carried");
}

static bool try_dot(tc_pass_env *env, tc_op *dot)
{
    tc_kind a = tc_lane_kind(dot->in[0]), b = tc_lane_kind(dot->in[1]), kind;
    if (dot->in[0]->type->elem == dot->in[1]->type->elem && a != TC_F32)
        return false;
    if (a == TC_KIND_COUNT || b == TC_KIND_COUNT)
        return false;
    struct operand x = look(dot->in[0]), y = look(dot->in[1]);
    if (!narrow_dots_choose(x, y, &kind)) {
        explain(env, dot, x, y);
        return false;
    }
    tc_builder builder = tc_builder_before(dot);
    const tc_type *elem = tc_type_scalar(env->cx, kind);
    tc_value *in[] = {narrowed(&builder, dot->in[0], elem),
                      narrowed(&builder, dot->in[1], elem),
                      dot->nin == 3 ? dot->in[2] : NULL};
    tc_value *r = tc_build(&builder, TC_DOT, dot->nin, in, dot->out[0]->type);
    r->name = dot->out[0]->name;
    tc_value_replace(dot->out[0], r);
    tc_op_erase(dot);
    return true;
}

static bool narrow_dots_visit(tc_pass_env *env, tc_op *op)
{
    return op->code == TC_DOT && try_dot(env, op);
}

tc_change tc_pass_narrow_dots(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, narrow_dots_visit);
}
