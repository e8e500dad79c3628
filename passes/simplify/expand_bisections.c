/* SPDX-License-Identifier: Apache-2.0
 *
 * expand-bisections: expands `bisect` into a loop.
 *
 *   %d = bisect %t, %x
 * becomes
 *   %d, %_ = for %s = 0 to bits of size(%t, 0)
 *            carry(%d0 = 0, %n = size(%t, 0)) {
 *     %half = %n - (%n >> 1)
 *     %below = %t[%d0 + %half - 1] <= %x
 *     yield select(%below, %d0 + %half, %d0), %n >> 1
 *   }
 *
 * If two of them are compared in a loop, and one is known before it, no search
 * is needed: `bisect(%t, %x) == %d`, where %d is bisect(%t, %y) or that of
 * another tensor, says that %x lies from %t[%d - 1] on and below %t[%d].
 *
 * Tests: test/ir/passes/expand-bisections, test/numerics/masks.c.
 */
#include "passes/analysis/match.h"
#include "passes/passes.h"

#include <string.h>

/* ---- Loops ---- */

static tc_value *element(tc_builder *b, tc_value *tensor, tc_value *at)
{
    tc_value *in[] = {tensor, at};
    return tc_build(b, TC_GATHER, 2, in, NULL);
}

/* How many bits n has without leading zeros. */
static tc_value *expand_bisections_bits_of(tc_builder *b, tc_value *n)
{
    tc_value *bits = tc_build_int_const(b, n->type, 0), *zero = bits;
    for (int by = 16; by; by /= 2) {
        tc_value *shift = tc_build_int_const(b, n->type, by);
        tc_value *rest = tc_build_binary(b, TC_SHR, n, shift);
        tc_value *more = tc_build_cmp(b, "gt", rest, zero);
        bits = tc_build_binary(b, TC_ADD, bits,
                               tc_build_select(b, more, shift, zero));
        n = tc_build_select(b, more, rest, n);
    }
    return tc_build_binary(b, TC_ADD, bits, n);
}

static void build_step(tc_op *loop, tc_value *tensor, tc_value *x)
{
    tc_region *r = loop->regions[0];
    tc_builder b = tc_builder_at_end(r, loop->loc);
    tc_value *at = r->args[1], *n = r->args[2];
    tc_value *one = tc_build_int_const(&b, n->type, 1);
    tc_value *rest = tc_build_binary(&b, TC_SHR, n, one);
    tc_value *half = tc_build_binary(&b, TC_SUB, n, rest);
    tc_value *last =
        tc_build_spread(&b, tc_build_binary(&b, TC_SUB, half, one), at->type);
    tc_value *e = element(&b, tensor, tc_build_binary(&b, TC_ADD, at, last));
    tc_value *next =
        tc_build_binary(&b, TC_ADD, at, tc_build_spread(&b, half, at->type));
    tc_value *out[] = {
        tc_build_select(&b, tc_build_cmp(&b, "le", e, x), next, at), rest};
    tc_build_yield(&b, 2, out);
}

static void expand(tc_op *op)
{
    tc_builder b = tc_builder_before(op);
    tc_value *tensor = op->in[0], *x = op->in[1],
             *n = tc_build_at(&b, TC_SIZE, tensor, "dim", 0);
    const tc_type *type = op->out[0]->type;
    tc_value *in[] = {
        tc_build_int_const(&b, n->type, 0), expand_bisections_bits_of(&b, n),
        tc_build_int_const(&b, n->type, 1), tc_build_int_const(&b, type, 0), n};
    tc_op *loop = tc_op_new(op->func, TC_FOR, op->loc, 5, in, 1);
    tc_region *r = loop->regions[0];
    tc_region_add_arg(r, n->type, NULL, op->loc);
    tc_region_add_arg(r, type, NULL, op->loc);
    tc_region_add_arg(r, n->type, NULL, op->loc);
    const tc_type *types[] = {type, n->type};
    tc_op_set_results(loop, 2, types);
    tc_op_insert(loop, op->parent, op);
    build_step(loop, tensor, x);
    loop->out[0]->name = op->out[0]->name;
    tc_value_replace(op->out[0], loop->out[0]);
    tc_op_erase(op);
}

/* ---- Comparisons ---- */

static bool is_reshaping(const tc_op *op)
{
    return op->code == TC_SPLAT || op->code == TC_BROADCAST ||
           op->code == TC_EXPAND_DIMS || op->code == TC_RESHAPE ||
           op->code == TC_TRANS;
}

/* The bisect whose lanes v holds, in whatever shape; NULL: none. */
static tc_op *bisect_of(const tc_value *v)
{
    while (v->def && is_reshaping(v->def))
        v = v->def->in[0];
    return tc_match_op(v, TC_BISECT);
}

/* x, in the shape that v has made of the bisect it holds. */
static tc_value *shaped_like(tc_builder *b, const tc_value *v, tc_value *x)
{
    if (v->def->code == TC_BISECT)
        return x;
    x = shaped_like(b, v->def->in[0], x);
    return tc_build_like(
        b, v->def, &x,
        tc_type_with_elem(b->func->module->cx, v->type, tc_type_elem(x->type)));
}

/* The first and the last value of the piece of t with the number that `bisect`
 * gives, which may be one of another tensor: beyond t's pieces no value is. */
struct piece {
    tc_value *first, *last;
};

static struct piece piece_of(tc_op *bisect, tc_value *t)
{
    tc_builder b = tc_builder_before(bisect->next);
    tc_value *d = bisect->out[0];
    tc_kind kind = t->type->elem->kind;
    const tc_type *type = tc_build_type(&b, d->type, kind);
    int64_t most = kind == TC_I64 ? INT64_MAX : INT32_MAX;
    tc_value *none = tc_build_int_const(&b, type, most);
    tc_value *before = tc_build_with(&b, TC_SUB, d, 1);
    tc_value *end =
        tc_build_spread(&b, tc_build_at(&b, TC_SIZE, t, "dim", 0), d->type);
    tc_value *start = element(&b, t, before), *next = element(&b, t, d);
    next = tc_build_with(&b, TC_SUB, next, 1);
    if (t != bisect->in[0])
        start =
            tc_build_select(&b, tc_build_cmp(&b, "le", d, end), start, none);
    return (struct piece){
        tc_build_select(
            &b, tc_build_cmp(&b, "gt", d, tc_build_int_const(&b, d->type, 0)),
            start, tc_build_int_const(&b, type, -most - 1)),
        tc_build_select(&b, tc_build_cmp(&b, "lt", d, end), next, none)};
}

static const tc_op *loop_around(const tc_op *op)
{
    op = op->parent->op;
    while (op && op->code != TC_FOR && op->code != TC_WHILE)
        op = op->parent->op;
    return op;
}

/* The same with the operands exchanged. */
static const char *mirrored(const char *pred)
{
    static const char *const pairs[][2] = {
        {"lt", "gt"}, {"gt", "lt"}, {"le", "ge"}, {"ge", "le"}};
    for (int i = 0; i < 4; i++)
        if (strcmp(pred, pairs[i][0]) == 0)
            return pairs[i][1];
    return pred;
}

/* x, in the loop, against the piece. */
static tc_value *against(tc_builder *b, const char *pred, tc_value *x,
                         struct piece p)
{
    if (strcmp(pred, "ge") == 0 || strcmp(pred, "lt") == 0)
        return tc_build_cmp(b, pred, x, p.first);
    if (strcmp(pred, "le") == 0 || strcmp(pred, "gt") == 0)
        return tc_build_cmp(b, pred, x, p.last);
    tc_value *in = tc_build_binary(b, TC_AND, tc_build_cmp(b, "ge", x, p.first),
                                   tc_build_cmp(b, "le", x, p.last));
    return strcmp(pred, "eq") == 0 ? in : tc_build_unary(b, TC_NOT, in);
}

static void compare_pieces(tc_op *cmp)
{
    const tc_op *loop = loop_around(cmp);
    tc_op *known[2];
    const char *pred = tc_op_word(cmp, "pred");
    if (pred[0] == 'u' || !loop)
        return;
    for (int i = 0; i < 2; i++)
        if (!(known[i] = bisect_of(cmp->in[i])))
            return;
    unsigned at = tc_value_is_visible(known[1]->out[0], loop) ? 0 : 1;
    tc_value *tensor = known[at]->in[0];
    if (!tc_value_is_visible(known[1 - at]->out[0], loop) ||
        tc_value_is_visible(known[at]->out[0], loop) ||
        !tc_value_is_visible(tensor, known[1 - at]))
        return;
    struct piece p = piece_of(known[1 - at], tensor);
    tc_builder b = tc_builder_before(cmp);
    tc_value *x = shaped_like(&b, cmp->in[at], known[at]->in[1]);
    p.first = shaped_like(&b, cmp->in[1 - at], p.first);
    p.last = shaped_like(&b, cmp->in[1 - at], p.last);
    tc_value *r = against(&b, at ? mirrored(pred) : pred, x, p);
    tc_value_replace(cmp->out[0], r);
    tc_op_erase(cmp);
}

/* ---- The pass ---- */

static void expand_bisections_visit(tc_region *r, tc_opcode code,
                                    void (*change)(tc_op *op))
{
    tc_each_nested_first (op, r) {
        if (op->code == code)
            change(op);
    }
}

static void erase_unused(tc_op *op)
{
    if (!op->out[0]->uses)
        tc_op_erase(op);
}

tc_change tc_pass_expand_bisections(tc_func *f, tc_pass_env *env)
{
    (void)env;
    if (!tc_region_has_op(f->body, TC_BISECT))
        return TC_UNCHANGED;
    expand_bisections_visit(f->body, TC_CMP, compare_pieces);
    expand_bisections_visit(f->body, TC_BISECT, erase_unused);
    expand_bisections_visit(f->body, TC_BISECT, expand);
    return TC_CHANGED;
}
