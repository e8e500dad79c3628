/* SPDX-License-Identifier: Apache-2.0
 *
 * assert_shape %t, [%m, _, N], "message": an assert for each size that is
 * given.
 *
 *   %0 = size %t dim(0) : i32
 *   %1 = cmp %0, %m pred(eq) : i1
 *   assert %1 message("message: size 0 of %t")
 */
#include "ir/text/parse.h"

/* The sizes, in order; is_any: `_`. */
typedef struct shape {
    tc_operands sizes;
    bool is_any[TC_MAX_RANK];
} shape;

static bool parse_sizes(tc_parser *p, shape *s)
{
    if (!tc_parser_expect(p, TC_TOKEN_LBRACKET))
        return false;
    do {
        tc_operand o = tc_operand_poison(tc_parser_loc(p));
        bool is_any = tc_parser_accept_word(p, "_");
        if (s->sizes.n == TC_MAX_RANK)
            return tc_error(p->cx, tc_parser_loc(p),
                            "assert_shape: more than %d sizes", TC_MAX_RANK);
        if (!is_any && !tc_parse_expr(p, &o))
            return false;
        s->is_any[s->sizes.n] = is_any;
        tc_operands_add(p, &s->sizes, o);
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, TC_TOKEN_RBRACKET);
}

static bool parse_message(tc_parser *p, const char **message)
{
    const tc_token *t = tc_parser_peek(p, 1);
    *message = NULL;
    if (!tc_parser_accept(p, TC_TOKEN_COMMA))
        return true;
    if (!tc_parser_expect(p, TC_TOKEN_STRING))
        return false;
    *message =
        tc_string_unescape(p->cx, p->arena, p->tokens.text + t->at, t->len);
    return true;
}

static bool check_tensor(tc_parser *p, const tc_operand *t, const shape *s)
{
    if (t->kind == TC_OPERAND_POISON)
        return false;
    const tc_type *type = t->v->type;
    if (type->kind != TC_TENSOR)
        return tc_error(p->cx, t->loc,
                        "assert_shape: operand 0 is %s, expected a tensor",
                        tc_type_name(p->cx, type));
    return type->rank == s->sizes.n ||
           tc_error(p->cx, t->loc,
                    "assert_shape: %u size%s for %s, expected %u: write `_` "
                    "for those that may be any",
                    s->sizes.n, s->sizes.n == 1 ? "" : "s",
                    tc_type_name(p->cx, type), type->rank);
}

/* The op, inserted; NULL: reported. */
static tc_value *emit(tc_parser *p, tc_op *op)
{
    op = tc_parser_emit(p, op, 0, NULL);
    return op && op->nout ? op->out[0] : NULL;
}

static bool assert_size(tc_parser *p, tc_loc loc, tc_value *tensor,
                        const tc_operand *wanted, unsigned dim,
                        const char *message)
{
    tc_value *in[2];
    in[1] = tc_fit_value(p, wanted, tc_type_scalar(p->cx, TC_I32));
    tc_op *size = tc_op_new(p->f, TC_SIZE, loc, 1, &tensor, 0);
    tc_op_set_int(size, "dim", dim);
    in[0] = emit(p, size);
    if (!in[0] || !in[1])
        return false;
    tc_op *cmp = tc_op_new(p->f, TC_CMP, wanted->loc, 2, in, 0);
    tc_op_set_word(cmp, "pred", "eq");
    in[0] = emit(p, cmp);
    if (!in[0])
        return false;
    tc_op *op = tc_op_new(p->f, TC_ASSERT, loc, 1, in, 0);
    const char *text = tc_arena_printf(
        p->arena, "%s%ssize %u of %s", message ? message : "",
        message ? ": " : "", dim, tensor->name ? tensor->name : "it");
    tc_op_set_attr(
        op, "message",
        (tc_attr){.kind = TC_ATTR_STRING, .s = tc_string_get(p->cx, text)});
    return tc_parser_emit(p, op, 0, NULL) != NULL;
}

bool tc_parse_assert_shape(tc_parser *p, tc_outcome *out)
{
    shape s = {0};
    const char *message;
    tc_loc loc = tc_parser_loc(p);
    p->at++;
    const tc_token *name = tc_parser_peek(p, 0);
    if (!tc_parser_expect(p, TC_TOKEN_VALUE))
        return false;
    tc_operand t = tc_scope_find(p, name);
    if (!tc_parser_expect(p, TC_TOKEN_COMMA) || !parse_sizes(p, &s) ||
        !parse_message(p, &message))
        return false;
    bool ok = check_tensor(p, &t, &s);
    for (unsigned i = 0; ok && i < s.sizes.n; i++)
        if (!s.is_any[i])
            ok = assert_size(p, loc, t.v, &s.sizes.all[i], i, message);
    *out = (tc_outcome){.poison = !ok};
    return true;
}
