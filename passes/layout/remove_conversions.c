/* SPDX-License-Identifier: Apache-2.0
 *
 * remove-conversions: removes convert_layout ops, or makes them cheaper.
 *
 *   %a = convert_layout %x : #x to #a         %x, where #b is #x, else
 *   %b = convert_layout %a : #a to #b         %b = convert_layout %x
 *
 *   %r = range : .. #a                        %b = range : .. #b
 *   %b = convert_layout %r : .. #b            (all that is cheap: relayout.h)
 *
 *   %c = convert_layout %x : f32, #b          %n = cast %x : bf16, #a
 *   %n = cast %c : bf16, #b                   %c = convert_layout %n : bf16, #b
 *
 *   for .. {                                  %o1 = convert_layout %o : .. #b
 *     %p = ptr_add %k, %o : .. #a             for .. {
 *     %b = convert_layout %p : .. #b            %b = ptr_add %k1, %o1 : .. #b
 *                                             (ints and addresses of a loop)
 *
 * The third rule applies in either direction, so that the narrower elements
 * are exchanged. Each remaining conversion gets a remark. Tests:
 * test/ir/passes/remove-conversions.
 */
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/layout/relayout.h"
#include "passes/passes.h"

static const char pass[] = "remove-conversions";

struct remover {
    tc_pass_env *env;
    tc_func *f;
    tc_relayout relayout;
    bool changed;
};

static const tc_layout *layout_of(const tc_value *v)
{
    return v->type->layout;
}

static tc_value *build_convert(tc_builder *b, tc_value *v, const tc_layout *l)
{
    tc_context *cx = b->func->module->cx;
    return layout_of(v) == l ? v
                             : tc_build(b, TC_CONVERT_LAYOUT, 1, &v,
                                        tc_type_with_layout(cx, v->type, l));
}

/* ---- Rules: the value that stands for the conversion; NULL: none ---- */

static tc_value *nothing_to_do(struct remover *s, tc_op *op)
{
    return op->in[0]->type == op->out[0]->type ? op->in[0] : NULL;
}

static tc_value *of_conversion(struct remover *s, tc_op *op)
{
    tc_op *inner = tc_match_op(op->in[0], TC_CONVERT_LAYOUT);
    if (!inner)
        return NULL;
    tc_builder b = tc_builder_before(op);
    return build_convert(&b, inner->in[0], layout_of(op->out[0]));
}

static tc_value *of_cheap(struct remover *s, tc_op *op)
{
    return tc_relayout_is_cheap(&s->relayout, op->in[0])
               ? tc_relayout_get(&s->relayout, op->in[0], layout_of(op->out[0]))
               : NULL;
}

/* In each step, through shared memory: addresses and masks of rows by index.
 * What they are computed from is converted once, before the loop. */
static tc_value *of_light(struct remover *s, tc_op *op)
{
    const tc_op *loop = tc_loop_around(op);
    if (!loop || !op->in[0]->def || !tc_is_nested_in(op->in[0]->def, loop) ||
        tc_layout_conversion(s->env->cx, layout_of(op->in[0]),
                             layout_of(op->out[0])) != TC_CONVERT_SHARED ||
        !tc_relayout_is_light(op->in[0], loop))
        return NULL;
    return tc_relayout_in_loop(&s->relayout, op->in[0], layout_of(op->out[0]),
                               loop);
}

static unsigned remove_conversions_bits_of(const tc_value *v)
{
    const tc_type *elem = tc_type_elem(v->type);
    return elem->kind == TC_I1 ? 1 : 8 * tc_type_bytes(elem);
}

/* An op on lanes with one tile; its other operands are scalars. */
static bool has_one_tile(const tc_op *op)
{
    return op && tc_op_has(op, TC_ELEMENTWISE) && op->nin == 1 &&
           op->in[0]->type->kind == TC_TILE;
}

/* convert(widen(x)) becomes widen(convert(x)). */
static tc_value *of_widening(struct remover *s, tc_op *op)
{
    tc_op *widen = op->in[0]->def;
    if (!has_one_tile(widen) || remove_conversions_bits_of(widen->in[0]) >=
                                    remove_conversions_bits_of(op->out[0]))
        return NULL;
    tc_builder b = tc_builder_before(op);
    tc_value *x = build_convert(&b, widen->in[0], layout_of(op->out[0]));
    return tc_build_like(&b, widen, &x, op->out[0]->type);
}

typedef tc_value *rule_fn(struct remover *s, tc_op *op);
static rule_fn *const rules[] = {nothing_to_do, of_conversion, of_cheap,
                                 of_light, of_widening};

/* narrow(convert(x)) becomes convert(narrow(x)); the op is `narrow`. */
static tc_value *before_conversion(tc_op *op)
{
    if (!has_one_tile(op) || op->nout != 1)
        return NULL;
    tc_op *convert = tc_match_op(op->in[0], TC_CONVERT_LAYOUT);
    if (!convert ||
        remove_conversions_bits_of(op->out[0]) >=
            remove_conversions_bits_of(op->in[0]) ||
        op->in[0]->uses->next)
        return NULL;
    tc_builder b = tc_builder_before(op);
    tc_value *x = convert->in[0];
    tc_context *cx = op->func->module->cx;
    x = tc_build_like(&b, op, &x,
                      tc_type_with_layout(cx, op->out[0]->type, layout_of(x)));
    return build_convert(&b, x, layout_of(op->out[0]));
}

/* ---- Loops ---- */

/* Out of all loops and branches that do not define what is converted. */
static bool hoist(tc_op *op)
{
    tc_op *to = NULL;
    for (tc_region *r = op->parent; r->op && !tc_is_defined_under(op->in[0], r);
         r = r->op->parent)
        if (tc_op_is_loop(r->op))
            to = r->op;
    if (!to)
        return false;
    tc_op_remove(op);
    tc_op_insert(op, to->parent, to);
    return true;
}

/* ---- The walk ---- */

static void replace(struct remover *s, tc_op *op, tc_value *with)
{
    if (!with->name && with->def)
        with->name = op->out[0]->name;
    tc_value_replace(op->out[0], with);
    tc_op_erase(op);
    s->changed = true;
}

static bool visit_convert(struct remover *s, tc_op *op)
{
    for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++) {
        tc_value *with = rules[i](s, op);
        if (with) {
            replace(s, op, with);
            return true;
        }
    }
    return hoist(op);
}

static bool visit_op(struct remover *s, tc_op *op)
{
    if (op->code == TC_CONVERT_LAYOUT)
        return visit_convert(s, op);
    tc_value *with = before_conversion(op);
    if (with)
        replace(s, op, with);
    return with != NULL;
}

static bool remove_conversions_visit(struct remover *s, tc_region *r)
{
    bool again = false;
    tc_each_nested_first (op, r)
        again |= visit_op(s, op);
    return again;
}

static void remove_conversions_say(struct remover *s, const tc_op *op)
{
    tc_context *cx = s->env->cx;
    const tc_type *t = op->out[0]->type;
    switch (tc_layout_conversion(cx, layout_of(op->in[0]), t->layout)) {
    case TC_CONVERT_NOTHING:
        tc_remark(cx, op->loc, pass, "convert_layout: costs nothing");
        break;
    case TC_CONVERT_REGISTERS:
        tc_remark(cx, op->loc, pass,
                  "convert_layout: registers of a thread change places");
        break;
    case TC_CONVERT_SHUFFLES:
        tc_remark(cx, op->loc, pass, "convert_layout: shuffles in a warp");
        break;
    case TC_CONVERT_SHARED:
        tc_remark(cx, op->loc, pass,
                  "convert_layout: %s through %lld bytes of shared memory",
                  tc_type_name(cx, tc_type_with_layout(cx, t, NULL)),
                  (long long)(tc_type_count(t) * tc_type_bytes(t->elem)));
        break;
    }
}

static void say_all(struct remover *s, const tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (op->code == TC_CONVERT_LAYOUT)
            remove_conversions_say(s, op);
    }
}

tc_change tc_pass_remove_conversions(tc_func *f, tc_pass_env *env)
{
    struct remover s = {.env = env, .f = f};
    s.relayout = (tc_relayout){.cx = env->cx, .arena = env->scratch};
    while (remove_conversions_visit(&s, f->body)) {
        tc_region_sweep(f->body);
        s.changed = true;
        s.relayout = (tc_relayout){.cx = env->cx, .arena = env->scratch};
    }
    if (env->cx->want_remarks)
        say_all(&s, f->body);
    return s.changed ? TC_CHANGED : TC_UNCHANGED;
}
