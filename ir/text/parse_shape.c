/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of sizes.
 *
 * assert_shape %t, [%m, _, N], "message": an assert for each size that is
 * given.
 *
 *   %0 = size %t dim(0) : i32
 *   %1 = cmp %0, %m pred(eq) : i1
 *   assert %1 message("message: size 0 of %t")
 *
 * tensor(%p, [%m, D], [%s, 1]): the tensor with these sizes and strides at a
 * pointer. Sizes that are known at compile time become those of the type.
 *
 *   %t = tensor %p, %m, %s, %one : tensor<[?, D] x f16>
 */
#include "ir/text/parse.h"

/* ---- assert_shape ---- */

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

/* ---- tensor ---- */

typedef struct made_sizes {
    unsigned n;
    const tc_dim *dims[TC_MAX_RANK]; /* NULL: `?` */
} made_sizes;

/* Up to the comma or bracket that ends an item of a list: is it a size
 * expression, without values and calls? */
static bool is_known_size(const tc_parser *p)
{
    unsigned depth = 0;
    for (uint32_t ahead = 0;; ahead++) {
        const tc_token *t = tc_parser_peek(p, ahead);
        bool ends = t->kind == TC_TOKEN_COMMA || t->kind == TC_TOKEN_RBRACKET;
        if ((ends && !depth) || t->kind == TC_TOKEN_END)
            return true;
        if (t->kind == TC_TOKEN_VALUE || t->kind == TC_TOKEN_FUNC)
            return false;
        depth += t->kind == TC_TOKEN_LPAREN;
        depth -= t->kind == TC_TOKEN_RPAREN && depth;
    }
}

static bool parse_made_sizes(tc_parser *p, made_sizes *s, tc_operands *in)
{
    if (!tc_parser_expect(p, TC_TOKEN_LBRACKET))
        return false;
    do {
        tc_operand o;
        if (s->n == TC_MAX_RANK)
            return tc_error(p->cx, tc_parser_loc(p),
                            "tensor: more than %d sizes", TC_MAX_RANK);
        if (is_known_size(p)) {
            if (!tc_parse_size(p, &s->dims[s->n]))
                return false;
        } else {
            if (!tc_parse_expr(p, &o))
                return false;
            tc_operands_add(p, in, o);
        }
        s->n++;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, TC_TOKEN_RBRACKET);
}

static bool parse_strides(tc_parser *p, const made_sizes *s, tc_operands *in)
{
    unsigned n = 0;
    tc_loc loc = tc_parser_loc(p);
    if (!tc_parser_expect(p, TC_TOKEN_LBRACKET))
        return false;
    do {
        tc_operand o;
        if (!tc_parse_expr(p, &o))
            return false;
        tc_operands_add(p, in, o);
        n++;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    if (n != s->n)
        return tc_error(p->cx, loc,
                        "tensor: %u stride%s for %u size%s, expected one a dim",
                        n, n == 1 ? "" : "s", s->n, s->n == 1 ? "" : "s");
    return tc_parser_expect(p, TC_TOKEN_RBRACKET);
}

static bool parse_aligned(tc_parser *p, bool *aligned)
{
    *aligned = false;
    if (!tc_parser_accept(p, TC_TOKEN_COMMA))
        return true;
    if (!tc_parser_accept_word(p, "aligned") ||
        !tc_parser_accept(p, TC_TOKEN_ASSIGN))
        return tc_parser_expected(p, "`aligned=true`, or the end of the call");
    *aligned = tc_parser_is_word(p, "true");
    return tc_parser_accept_word(p, "true") ||
           tc_parser_accept_word(p, "false") ||
           tc_parser_expected(p, "true or false");
}

/* Sizes are i32 and strides i64, literals too; what they are else is
 * reported by the op. */
static bool fit(tc_parser *p, const tc_operands *in, unsigned nsizes,
                tc_value **to)
{
    bool ok = true;
    for (unsigned i = 0; i < in->n; i++) {
        const tc_type *t = tc_type_scalar(p->cx, i <= nsizes ? TC_I32 : TC_I64);
        bool literal = i && in->all[i].kind == TC_OPERAND_LITERAL;
        to[i] = tc_fit_value(p, &in->all[i], literal ? t : NULL);
        ok &= to[i] != NULL;
    }
    return ok;
}

static tc_value *build(tc_parser *p, tc_loc loc, const made_sizes *s,
                       const tc_operands *in, bool aligned)
{
    tc_value **to = tc_arena_array(p->arena, tc_value *, in->n);
    if (!fit(p, in, in->n - 1 - s->n, to))
        return NULL;
    const tc_type *pointer = to[0]->type;
    if (pointer->kind != TC_PTR) {
        tc_error(p->cx, in->all[0].loc,
                 "tensor: operand 0 is %s, expected one pointer",
                 tc_type_name(p->cx, pointer));
        return NULL;
    }
    const tc_type *type =
        tc_type_shaped(p->cx, TC_TENSOR, s->n, s->dims, pointer->elem);
    tc_op *op = tc_op_new(p->f, TC_MAKE_TENSOR, loc, in->n, to, 0);
    if (aligned)
        tc_op_set_attr(op, "aligned", (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
    tc_parser_place(p, op, in->all);
    op = tc_parser_emit(p, op, 1, &type);
    return op ? op->out[0] : NULL;
}

bool tc_parse_tensor(tc_parser *p, tc_outcome *out)
{
    tc_loc loc = tc_parser_loc(p);
    tc_operands in = {0};
    tc_operand pointer;
    made_sizes s = {0};
    bool aligned;
    p->at += 2;
    if (!tc_parse_expr(p, &pointer))
        return false;
    tc_operands_add(p, &in, pointer);
    if (!tc_parser_expect(p, TC_TOKEN_COMMA) || !parse_made_sizes(p, &s, &in) ||
        !tc_parser_expect(p, TC_TOKEN_COMMA) || !parse_strides(p, &s, &in) ||
        !parse_aligned(p, &aligned) || !tc_parser_expect(p, TC_TOKEN_RPAREN))
        return false;
    *out = tc_outcome_of_value(p, build(p, loc, &s, &in, aligned));
    return true;
}
