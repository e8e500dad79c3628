/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and sizes:
 *   type := i1 | ... | f64 | T | ptr<type>
 *         | tensor<[size, ...] x type [, contiguous(size)]>
 *         | tile<SIDExSIDE x type [, #layout]> | block_ptr<SIDE x type>
 *         | smem<SIDExSIDE x type, #layout [, slots]>
 *   size := product {(+|-) product}    product := factor {(*|/) factor}
 *   factor := number | NAME | (size) | -factor
 *           | (cdiv|min|max|rem)(size, size) | pow2ceil(size) | machine_sms()
 * A side is a factor, or `?` in a tensor.
 */
#include "ir/text/parse.h"
#include "ir/types/layout.h"

#include <string.h>

/* Sizes are walked recursively everywhere: this bounds their depth. */
enum { MAX_SIZE_OPS = 64 };

static const struct {
    const char *name;
    tc_dim_kind kind;
} size_functions[] = {
    {"cdiv", TC_DIM_CDIV}, {"min", TC_DIM_MIN},           {"max", TC_DIM_MAX},
    {"rem", TC_DIM_REM},   {"pow2ceil", TC_DIM_POW2CEIL},
};
enum { NSIZE_FUNCTIONS = sizeof size_functions / sizeof *size_functions };

static bool parse_sum(tc_parser *p, const tc_dim **d);
static bool parse_factor(tc_parser *p, const tc_dim **d);

static bool combine(tc_parser *p, tc_dim_kind kind, const tc_dim **a,
                    const tc_dim *b)
{
    if (++p->size_ops > MAX_SIZE_OPS)
        return tc_error(p->cx, tc_parser_loc(p),
                        "the size has more than %d operations", MAX_SIZE_OPS);
    *a = tc_dim_binary(p->cx, kind, *a, b);
    return true;
}

static bool parse_size_call(tc_parser *p, tc_dim_kind kind, const tc_dim **d)
{
    bool one = kind == TC_DIM_POW2CEIL;
    const tc_dim *b;
    p->at++;
    if (!tc_parser_expect(p, TC_TOKEN_LPAREN) || !parse_sum(p, d))
        return false;
    b = tc_dim_const(p->cx, 1);
    return (one || (tc_parser_expect(p, TC_TOKEN_COMMA) && parse_sum(p, &b))) &&
           tc_parser_expect(p, TC_TOKEN_RPAREN) && combine(p, kind, d, b);
}

static bool parse_sms(tc_parser *p, const tc_dim **d)
{
    p->at++;
    *d = tc_dim_sms(p->cx);
    return tc_parser_expect(p, TC_TOKEN_LPAREN) &&
           tc_parser_expect(p, TC_TOKEN_RPAREN);
}

static bool parse_size_number(tc_parser *p, bool negative, const tc_dim **d)
{
    const tc_token *t = tc_parser_peek(p, 0);
    uint64_t value;
    if (!tc_int_parse(p->tokens.text + t->at, t->len, &value) ||
        value > (uint64_t)INT64_MAX + negative)
        return tc_error(p->cx, tc_parser_loc(p),
                        "the size does not fit in 64 bits");
    p->at++;
    *d = tc_dim_const(p->cx, (int64_t)(negative ? 0 - value : value));
    return true;
}

static bool unknown_size_function(tc_parser *p)
{
    const char *names[NSIZE_FUNCTIONS];
    for (unsigned i = 0; i < NSIZE_FUNCTIONS; i++)
        names[i] = size_functions[i].name;
    const char *text = tc_parser_text(p, tc_parser_peek(p, 0));
    const char *near = tc_did_you_mean(p, text, NSIZE_FUNCTIONS, names);
    return tc_error(p->cx, tc_parser_loc(p),
                    "there is no function `%s` of sizes%s", text,
                    *near ? near : ", only cdiv, min, max, rem and pow2ceil");
}

static bool unknown_size(tc_parser *p)
{
    if (tc_parser_is_call(p))
        return unknown_size_function(p);
    const tc_token *t = tc_parser_peek(p, 0);
    unsigned nparams = p->f ? p->f->nparams : 0, n = 0;
    const char **names = tc_arena_array(p->arena, const char *, nparams);
    for (unsigned i = 0; i < nparams; i++)
        if (p->f->params[i].kind == TC_PARAM_INT)
            names[n++] = p->f->params[i].name;
    const char *text = tc_parser_text(p, t);
    return tc_error(p->cx, tc_parser_loc(p),
                    "`%s` is no compile-time int parameter%s", text,
                    tc_did_you_mean(p, text, n, names));
}

static bool parse_negative_size(tc_parser *p, const tc_dim **d)
{
    p->at++;
    if (tc_parser_is(p, TC_TOKEN_INT))
        return parse_size_number(p, true, d);
    const tc_dim *b;
    *d = tc_dim_const(p->cx, 0);
    return parse_factor(p, &b) && combine(p, TC_DIM_SUB, d, b);
}

static bool parse_atom(tc_parser *p, const tc_dim **d)
{
    const tc_token *t = tc_parser_peek(p, 0);
    if (tc_parser_is(p, TC_TOKEN_INT))
        return parse_size_number(p, false, d);
    if (tc_parser_is(p, TC_TOKEN_MINUS))
        return parse_negative_size(p, d);
    if (tc_parser_accept(p, TC_TOKEN_LPAREN))
        return parse_sum(p, d) && tc_parser_expect(p, TC_TOKEN_RPAREN);
    if (!tc_parser_is(p, TC_TOKEN_NAME))
        return tc_parser_expected(p, "a size");
    for (int i = 0; i < NSIZE_FUNCTIONS; i++)
        if (tc_parser_is_call(p) &&
            tc_parser_is_word(p, size_functions[i].name))
            return parse_size_call(p, size_functions[i].kind, d);
    if (tc_parser_is_call(p) && tc_parser_is_word(p, "machine_sms"))
        return parse_sms(p, d);
    if (!tc_parser_param_of_kind(p, t, TC_PARAM_INT))
        return unknown_size(p);
    *d = tc_dim_param(p->cx, tc_parser_text(p, t));
    p->at++;
    return true;
}

static bool too_deep(tc_parser *p)
{
    return tc_error(p->cx, tc_parser_loc(p),
                    "nested too deeply, at most %d levels", TC_MAX_TYPE_DEPTH);
}

static bool parse_factor(tc_parser *p, const tc_dim **d)
{
    if (p->type_depth == TC_MAX_TYPE_DEPTH)
        return too_deep(p);
    p->type_depth++;
    bool ok = parse_atom(p, d);
    p->type_depth--;
    return ok;
}

static bool parse_product(tc_parser *p, const tc_dim **d)
{
    if (!parse_factor(p, d))
        return false;
    for (;;) {
        const tc_dim *b;
        bool times = tc_parser_is(p, TC_TOKEN_STAR);
        if (!times && !tc_parser_is(p, TC_TOKEN_SLASH))
            return true;
        p->at++;
        if (!parse_factor(p, &b) ||
            !combine(p, times ? TC_DIM_MUL : TC_DIM_DIV, d, b))
            return false;
    }
}

static bool parse_sum(tc_parser *p, const tc_dim **d)
{
    if (!parse_product(p, d))
        return false;
    for (;;) {
        const tc_dim *b;
        bool plus = tc_parser_is(p, TC_TOKEN_PLUS);
        if (!plus && !tc_parser_is(p, TC_TOKEN_MINUS))
            return true;
        p->at++;
        if (!parse_product(p, &b) ||
            !combine(p, plus ? TC_DIM_ADD : TC_DIM_SUB, d, b))
            return false;
    }
}

bool tc_parse_size(tc_parser *p, const tc_dim **d)
{
    p->size_ops = 0;
    return parse_sum(p, d);
}

/* ---- Types ---- */

static bool is_shaped_word(const tc_parser *p)
{
    return tc_parser_is_word_of(p, TC_WORD_TYPE);
}

static tc_kind scalar_kind(const tc_parser *p)
{
    const tc_token *t = tc_parser_peek(p, 0);
    return t->kind == TC_TOKEN_NAME
               ? tc_kind_parse(p->tokens.text + t->at, t->len)
               : TC_KIND_COUNT;
}

bool tc_parser_at_type(const tc_parser *p)
{
    return scalar_kind(p) != TC_KIND_COUNT ||
           (is_shaped_word(p) && tc_parser_peek(p, 1)->kind == TC_TOKEN_LT) ||
           tc_parser_param_of_kind(p, tc_parser_peek(p, 0), TC_PARAM_TYPE);
}

/* The type inside a tensor, tile or pointer. */
static bool parse_elem(tc_parser *p, const tc_type **t)
{
    tc_loc loc = tc_parser_loc(p);
    if (!tc_parse_a_type(p, t))
        return false;
    return tc_type_is_scalar(*t) ||
           tc_error(p->cx, loc, "the element is %s, expected a scalar type",
                    tc_type_name(p->cx, *t));
}

static bool too_many_axes(tc_parser *p)
{
    return tc_error(p->cx, tc_parser_loc(p), "more than %d axes", TC_MAX_RANK);
}

static bool parse_tensor_dims(tc_parser *p, unsigned *n, const tc_dim **dims)
{
    *n = 0;
    if (!tc_parser_expect(p, TC_TOKEN_LBRACKET))
        return false;
    if (tc_parser_accept(p, TC_TOKEN_RBRACKET))
        return true;
    do {
        if (*n == TC_MAX_RANK)
            return too_many_axes(p);
        dims[*n] = NULL;
        if (!tc_parser_accept(p, TC_TOKEN_QUESTION) &&
            !tc_parse_size(p, &dims[*n]))
            return false;
        ++*n;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, TC_TOKEN_RBRACKET);
}

/* `contiguous(1)`: the dim with stride 1. */
static bool parse_contiguous(tc_parser *p, const tc_type **t)
{
    const tc_dim *dim;
    if (!tc_parser_expect_word(p, "contiguous") ||
        !tc_parser_expect(p, TC_TOKEN_LPAREN) || !tc_parse_size(p, &dim) ||
        !tc_parser_expect(p, TC_TOKEN_RPAREN))
        return false;
    *t = tc_type_with_contiguous(p->cx, *t, dim);
    return true;
}

/* `holds(u8)`, as lower-storage leaves it. */
static bool parse_holds(tc_parser *p, const tc_type **t)
{
    const tc_type *elem = (*t)->elem, *holds;
    p->at++;
    if (!tc_parser_expect(p, TC_TOKEN_LPAREN))
        return false;
    tc_loc loc = tc_parser_loc(p);
    if (!parse_elem(p, &holds) || !tc_parser_expect(p, TC_TOKEN_RPAREN))
        return false;
    if (!tc_kind_is_stored(holds->kind) ||
        tc_scalar_infos[holds->kind].code != elem->kind)
        return tc_error(p->cx, loc,
                        "holds(%s) in a tensor of %s, expected a storage type "
                        "whose codes are %s",
                        tc_type_name(p->cx, holds), tc_type_name(p->cx, elem),
                        tc_type_name(p->cx, elem));
    *t = tc_type_with_holds(p->cx, *t, holds);
    return true;
}

static bool parse_about_tensor(tc_parser *p, const tc_type **t)
{
    bool ok = true;
    while (ok && tc_parser_accept(p, TC_TOKEN_COMMA))
        ok = tc_parser_is_word(p, "holds") ? parse_holds(p, t)
                                           : parse_contiguous(p, t);
    return ok;
}

static bool parse_tensor(tc_parser *p, const tc_type **t)
{
    const tc_dim *dims[TC_MAX_RANK];
    const tc_type *elem;
    unsigned n;
    if (!parse_tensor_dims(p, &n, dims) || !tc_parser_expect_word(p, "x") ||
        !parse_elem(p, &elem))
        return false;
    *t = tc_type_shaped(p->cx, TC_TENSOR, n, dims, elem);
    return parse_about_tensor(p, t);
}

/* Whether a side is here, not yet the element type. */
static bool at_side(const tc_parser *p)
{
    const tc_token *t = tc_parser_peek(p, 0);
    if (t->kind != TC_TOKEN_NAME)
        return true;
    /* An unknown name counts as the side or type that is expected in its
     * place. */
    return !tc_parser_at_type(p) && !is_shaped_word(p) &&
           (tc_parser_is_call(p) ||
            tc_parser_param_of_kind(p, t, TC_PARAM_INT) ||
            tc_parser_peek(p, 1)->kind == TC_TOKEN_X);
}

/* The layout after a comma, of a tile or buffer of known sides. */
bool tc_parse_layout(tc_parser *p, const tc_type *t, const tc_layout **layout)
{
    const tc_token *token = tc_parser_peek(p, 0);
    tc_loc loc = tc_parser_loc(p);
    int32_t sides[TC_MAX_RANK];
    size_t used;
    if (token->kind != TC_TOKEN_LAYOUT)
        return tc_parser_expected(p, "a layout, as `#swizzle128`");
    if (tc_type_is_generic(t) || tc_type_count(t) <= 0)
        return tc_error(p->cx, loc, "a layout of %s, expected known sides",
                        tc_type_name(p->cx, t));
    tc_type_sides(t, sides);
    *layout =
        tc_layout_parse(p->cx, p->tokens.text + token->at, token->len, t->rank,
                        sides, 8 * tc_type_bytes(t->elem), loc, &used);
    if (!*layout)
        return false;
    p->at++;
    return used == token->len ||
           tc_error(p->cx, loc, "the layout has text after its end");
}

/* `, #layout` of a tile, `, #layout, slots` of shared memory. */
static bool parse_placement(tc_parser *p, tc_kind kind, const tc_type **t)
{
    const tc_layout *layout;
    int64_t slots = 0;
    if (kind == TC_TILE && !tc_parser_is(p, TC_TOKEN_COMMA))
        return true;
    tc_loc loc = tc_parser_loc(p);
    if (!tc_parser_expect(p, TC_TOKEN_COMMA) ||
        !tc_parse_layout(p, *t, &layout))
        return false;
    if (tc_layout_is_shared(layout) != (kind == TC_SMEM))
        return tc_error(p->cx, loc, "%s has a layout of %s, expected one of %s",
                        kind == TC_SMEM ? "shared memory" : "the tile",
                        kind == TC_SMEM ? "registers" : "shared memory",
                        kind == TC_SMEM ? "shared memory" : "registers");
    if (kind == TC_TILE) {
        *t = tc_type_with_layout(p->cx, *t, layout);
        return true;
    }
    if (tc_parser_accept(p, TC_TOKEN_COMMA)) {
        const tc_dim *d;
        loc = tc_parser_loc(p);
        if (!tc_parse_size(p, &d))
            return false;
        slots = tc_dim_value(d);
        if (slots < 1 || slots > TC_MAX_SLOTS)
            return tc_error(p->cx, loc, "expected 1 to %d slots", TC_MAX_SLOTS);
    }
    *t = tc_type_smem(p->cx, *t, layout, (unsigned)slots);
    return true;
}

static bool parse_sides(tc_parser *p, tc_kind kind, const tc_type **t)
{
    const tc_dim *dims[TC_MAX_RANK];
    const tc_type *elem;
    unsigned n = 0;
    do {
        if (n == TC_MAX_RANK)
            return too_many_axes(p);
        p->size_ops = 0;
        if (n == 0 && tc_parser_at_type(p))
            return tc_parser_expected(p, "a side, as `tile<64 x f32>`");
        if (!parse_factor(p, &dims[n++]) || !tc_parser_expect(p, TC_TOKEN_X))
            return false;
    } while (at_side(p));
    if (!parse_elem(p, &elem))
        return false;
    bool placed = kind != TC_BLOCK_PTR;
    *t = tc_type_shaped(p->cx, placed ? TC_TILE : kind, n, dims, elem);
    return !placed || parse_placement(p, kind, t);
}

static bool parse_mbarrier(tc_parser *p, const tc_type **t)
{
    tc_loc loc = tc_parser_loc(p);
    const tc_dim *d;
    if (!tc_parse_size(p, &d))
        return false;
    int64_t n = tc_dim_value(d);
    if (n < 1 || n > TC_MAX_SLOTS)
        return tc_error(p->cx, loc, "expected 1 to %d mbarriers", TC_MAX_SLOTS);
    *t = tc_type_mbarrier(p->cx, (unsigned)n);
    return true;
}

static bool parse_pointer(tc_parser *p, const tc_type **t)
{
    const tc_type *elem;
    if (!parse_elem(p, &elem))
        return false;
    *t = tc_type_ptr(p->cx, elem);
    return true;
}

static bool parse_shaped(tc_parser *p, const tc_type **t)
{
    const tc_token *word = tc_parser_peek(p, 0);
    p->at++;
    if (!tc_parser_expect(p, TC_TOKEN_LT))
        return false;
    bool ok;
    switch (p->tokens.text[word->at + 1]) {
    case 'e': ok = parse_tensor(p, t); break;
    case 't': ok = parse_pointer(p, t); break;
    case 'i': ok = parse_sides(p, TC_TILE, t); break;
    case 'm': ok = parse_sides(p, TC_SMEM, t); break;
    case 'b': ok = parse_mbarrier(p, t); break;
    default: ok = parse_sides(p, TC_BLOCK_PTR, t);
    }
    return ok && tc_parser_expect_gt(p);
}

static bool parse_type(tc_parser *p, const tc_type **t)
{
    tc_kind kind = scalar_kind(p);
    const tc_token *name = tc_parser_peek(p, 0);
    if (is_shaped_word(p))
        return parse_shaped(p, t);
    if (kind != TC_KIND_COUNT)
        *t = tc_type_scalar(p->cx, kind);
    else if (tc_parser_param_of_kind(p, name, TC_PARAM_TYPE))
        *t = tc_type_param(p->cx, tc_parser_text(p, name));
    else
        return tc_parser_unknown_type(p);
    p->at++;
    return true;
}

bool tc_parse_a_type(tc_parser *p, const tc_type **t)
{
    if (p->type_depth == TC_MAX_TYPE_DEPTH)
        return too_deep(p);
    p->type_depth++;
    bool ok = parse_type(p, t);
    p->type_depth--;
    return ok;
}

bool tc_parse_types(tc_parser *p, unsigned *n, const tc_type *const **types)
{
    const tc_type *some[TC_MAX_ARGS];
    *n = 0;
    bool list = tc_parser_accept(p, TC_TOKEN_LPAREN);
    if (!list || !tc_parser_is(p, TC_TOKEN_RPAREN)) {
        do {
            if (*n == TC_MAX_ARGS)
                return tc_error(p->cx, tc_parser_loc(p), "more than %d types",
                                TC_MAX_ARGS);
            if (!tc_parse_a_type(p, &some[(*n)++]))
                return false;
        } while (list && tc_parser_accept(p, TC_TOKEN_COMMA));
    }
    if (list && !tc_parser_expect(p, TC_TOKEN_RPAREN))
        return false;
    *types = tc_arena_copy(p->arena, some, *n * sizeof *some);
    return true;
}

const tc_type *tc_type_parse(tc_context *cx, const char *text, tc_loc loc)
{
    unsigned errors = cx->nerrors;
    const tc_type *t = NULL;
    tc_parser p = {.cx = cx, .arena = &cx->diag_arena, .where = loc};
    p.tokens = tc_lex(cx, p.arena, 0, text, strlen(text), loc);
    if (tc_parse_a_type(&p, &t) && !tc_parser_is(&p, TC_TOKEN_END))
        tc_parser_expected(&p, tc_token_kind_name(TC_TOKEN_END));
    return cx->nerrors == errors ? t : NULL;
}
