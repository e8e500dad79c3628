/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops with regions:
 *   %m, %l = for %i = lo to hi [step s] carry(%m0 = a, %l0 = b) [stages(2)]
 *            [schedule(in_iteration)] { ... yield %m1, %l1 }
 *   %r = if %c [speculatable] [epilogue(..)] { ... } else { ... }
 *   %x = while carry(%x0 = a) { ... condition %c } do { ... yield %x1 }
 *   %v = reduce %x axis(1) (%a: f32, %b: f32) { ... yield %c }
 *   warp_groups registers(24, 240) producer { ... } consumer { ... }
 *       transposer { ... }
 */
#include "ir/text/parse.h"

#include <string.h>

/* ---- Carried values ---- */

typedef struct carried {
    bool given;
    tc_operands inits; /* each with its name */
} carried;

static bool parse_carried(tc_parser *p, carried *c)
{
    if (c->given)
        return tc_error(p->cx, tc_parser_loc(p), "carry is given twice");
    c->given = true;
    p->at++;
    if (!tc_parser_expect(p, TC_TOKEN_LPAREN))
        return false;
    do {
        const tc_token *name = tc_parser_peek(p, 0);
        tc_operand init;
        if (!tc_parser_expect(p, TC_TOKEN_VALUE) ||
            !tc_parser_expect(p, TC_TOKEN_ASSIGN) || !tc_parse_expr(p, &init))
            return false;
        if (c->inits.n == TC_MAX_ARGS)
            return tc_error(p->cx, tc_parser_loc(p),
                            "more than %d carried values", TC_MAX_ARGS);
        init.name = name;
        tc_operands_add(p, &c->inits, init);
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, TC_TOKEN_RPAREN);
}

/* Values of the initial operands, NULL for poison; false if there is any. */
static bool fit_carried(tc_parser *p, const carried *c, tc_value **values)
{
    bool ok = true;
    for (unsigned i = 0; i < c->inits.n; i++) {
        values[i] = tc_fit_value(p, &c->inits.all[i], NULL);
        ok &= values[i] != NULL;
    }
    return ok;
}

/* An argument of the region and its name; type == NULL: the name is poison. */
static void define_arg(tc_parser *p, tc_region *r, const tc_token *name,
                       const tc_type *type)
{
    tc_value *v = NULL;
    if (type)
        v = tc_region_add_arg(r, type, tc_scope_hint(p, name),
                              tc_parser_loc_of(p, name));
    tc_scope_define(p, name, v);
}

static void define_carried(tc_parser *p, tc_region *r, const carried *c,
                           tc_value **values)
{
    for (unsigned i = 0; i < c->inits.n; i++)
        define_arg(p, r, c->inits.all[i].name,
                   values[i] ? values[i]->type : NULL);
}

/* The types that yields hand over; NULL for poison. */
static const tc_type **types_of(tc_parser *p, unsigned n, tc_value **values)
{
    const tc_type **types = tc_arena_array(p->arena, const tc_type *, n);
    for (unsigned i = 0; i < n; i++)
        types[i] = values[i] ? values[i]->type : NULL;
    return types;
}

static tc_opcode implicit_yield(unsigned nvalues)
{
    return nvalues ? TC_OPCODE_COUNT : TC_YIELD;
}

/* ---- for ---- */

typedef struct for_head {
    tc_loc loc;
    const tc_token *i;
    tc_operand bounds[3]; /* lo, hi, step */
    bool has_step;
    carried carried;
    tc_op_parts parts;
} for_head;

static bool parse_step(tc_parser *p, for_head *h)
{
    if (h->has_step)
        return tc_error(p->cx, tc_parser_loc(p), "step is given twice");
    h->has_step = true;
    p->at++;
    return tc_parse_expr(p, &h->bounds[2]);
}

static int for_attr(tc_parser *p)
{
    const char *name = tc_parser_text(p, tc_parser_peek(p, 0));
    return tc_parser_is(p, TC_TOKEN_NAME) ? tc_op_attr_index(TC_FOR, name) : -1;
}

/* `stages(2)`, `schedule(in_iteration)`. */
static bool parse_for_attr(tc_parser *p, for_head *h)
{
    unsigned index = (unsigned)for_attr(p);
    p->at++;
    return tc_parser_expect(p, TC_TOKEN_LPAREN) &&
           tc_parse_attr_value(p, &h->parts, index, true) &&
           tc_parser_expect(p, TC_TOKEN_RPAREN);
}

static bool parse_for_clauses(tc_parser *p, for_head *h)
{
    for (;;) {
        if (tc_parser_is_word(p, "step")) {
            if (!parse_step(p, h))
                return false;
        } else if (tc_parser_is_word(p, "carry")) {
            if (!parse_carried(p, &h->carried))
                return false;
        } else if (tc_parser_is(p, TC_TOKEN_LBRACE)) {
            return true;
        } else if (for_attr(p) >= 0) {
            if (!parse_for_attr(p, h))
                return false;
        } else {
            return tc_parser_expected(
                p, h->carried.given ? "`{`" : "`step`, `carry(...)` or `{`");
        }
    }
}

static bool parse_for_head(tc_parser *p, for_head *h)
{
    p->at++;
    h->i = tc_parser_peek(p, 0);
    h->parts.code = TC_FOR;
    h->bounds[2] =
        (tc_operand){.kind = TC_OPERAND_LITERAL, .loc = h->loc, .number.i = 1};
    return tc_parser_expect(p, TC_TOKEN_VALUE) &&
           tc_parser_expect(p, TC_TOKEN_ASSIGN) &&
           tc_parse_expr(p, &h->bounds[0]) && tc_parser_expect_word(p, "to") &&
           tc_parse_expr(p, &h->bounds[1]) && parse_for_clauses(p, h);
}

/* In the order of the op. */
static const tc_operand *operands_of(tc_parser *p, const for_head *h)
{
    tc_operands list = {0};
    for (unsigned i = 0; i < 3; i++)
        tc_operands_add(p, &list, h->bounds[i]);
    for (unsigned i = 0; i < h->carried.inits.n; i++)
        tc_operands_add(p, &list, h->carried.inits.all[i]);
    return list.all;
}

static bool parse_for_body(tc_parser *p, for_head *h, tc_outcome *out)
{
    unsigned n = h->carried.inits.n;
    tc_value **in = tc_arena_array(p->arena, tc_value *, 3 + n);
    bool ok = tc_fit_alike(p, 3, h->bounds, in);
    ok &= fit_carried(p, &h->carried, in + 3);
    /* With poison among the operands the body is read for its errors only. */
    tc_op *op = tc_op_new(p->f, TC_FOR, h->loc, ok ? 3 + n : 0, in, 1);
    tc_parts_apply_attrs(&h->parts, op);
    tc_parser_place(p, op, operands_of(p, h));
    tc_region *body = op->regions[0];
    unsigned mark = tc_scope_open(p);
    define_arg(p, body, h->i, in[0] ? in[0]->type : NULL);
    define_carried(p, body, &h->carried, in + 3);
    bool read =
        tc_parse_region(p, body, implicit_yield(n), n, types_of(p, n, in + 3));
    tc_scope_close(p, mark);
    *out = tc_outcome_of_op(ok && read ? tc_parser_emit(p, op, 0, NULL) : NULL);
    return read;
}

bool tc_parse_for(tc_parser *p, tc_outcome *out)
{
    for_head *h = tc_arena_new(p->arena, for_head);
    h->loc = tc_parser_loc(p);
    return parse_for_head(p, h) && parse_for_body(p, h, out);
}

/* ---- if ---- */

static bool parse_branch(tc_parser *p, tc_region *r, tc_opcode implicit,
                         const tc_op *like)
{
    unsigned n = like ? like->nin : 0;
    unsigned mark = tc_scope_open(p);
    bool ok = tc_parse_region(p, r, implicit, n,
                              types_of(p, n, like ? like->in : NULL));
    tc_scope_close(p, mark);
    return ok;
}

static bool parse_else(tc_parser *p, tc_op *op, tc_opcode implicit)
{
    const tc_op *yield = tc_region_terminator(op->regions[0]);
    if (tc_parser_accept_word(p, "else"))
        return parse_branch(p, op->regions[1], implicit, yield);
    if (yield && yield->nin)
        tc_error(p->cx, op->loc,
                 "if: the first region yields %u value%s, expected `else`",
                 yield->nin, yield->nin == 1 ? "" : "s");
    tc_op *none = tc_op_new(p->f, TC_YIELD, op->loc, 0, NULL, 0);
    tc_op_insert(none, op->regions[1], NULL);
    return true;
}

bool tc_parse_if(tc_parser *p, unsigned nnames, tc_outcome *out)
{
    tc_loc loc = tc_parser_loc(p);
    tc_operand condition;
    p->at++;
    if (!tc_parse_expr(p, &condition))
        return false;
    tc_value *c = tc_fit_value(p, &condition, NULL);
    tc_op *op = tc_op_new(p->f, TC_IF, loc, c ? 1 : 0, &c, 2);
    tc_parser_place(p, op, &condition);
    if (tc_parser_accept_word(p, "speculatable"))
        tc_op_set_attr(op, "speculatable",
                       (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
    tc_op_parts *parts = tc_arena_new(p->arena, tc_op_parts);
    parts->code = TC_IF;
    if (!tc_parse_clauses(p, parts))
        return false;
    tc_parts_apply_attrs(parts, op);
    tc_opcode implicit = implicit_yield(nnames);
    if (!parse_branch(p, op->regions[0], implicit, NULL) ||
        !parse_else(p, op, implicit))
        return false;
    /* A poisoned yield leaves the results unknown. */
    bool known = c && tc_region_terminator(op->regions[0]);
    *out = tc_outcome_of_op(known ? tc_parser_emit(p, op, 0, NULL) : NULL);
    return true;
}

/* ---- while ---- */

static bool parse_while_regions(tc_parser *p, tc_op *op, unsigned n,
                                const tc_type **types)
{
    return tc_parse_region(p, op->regions[0], TC_OPCODE_COUNT, 0, NULL) &&
           tc_parser_expect_word(p, "do") &&
           tc_parse_region(p, op->regions[1], implicit_yield(n), n, types);
}

bool tc_parse_while(tc_parser *p, tc_outcome *out)
{
    tc_loc loc = tc_parser_loc(p);
    carried *c = tc_arena_new(p->arena, carried);
    p->at++;
    if (tc_parser_is_word(p, "carry") && !parse_carried(p, c))
        return false;
    tc_op_parts *parts = tc_arena_new(p->arena, tc_op_parts);
    parts->code = TC_WHILE;
    if (!tc_parse_clauses(p, parts))
        return false;
    unsigned n = c->inits.n;
    tc_value **in = tc_arena_array(p->arena, tc_value *, n);
    bool ok = fit_carried(p, c, in);
    tc_op *op = tc_op_new(p->f, TC_WHILE, loc, ok ? n : 0, in, 2);
    tc_parts_apply_attrs(parts, op);
    tc_parser_place(p, op, c->inits.all);
    /* The second region sees what the first one computed. */
    unsigned mark = tc_scope_open(p);
    define_carried(p, op->regions[0], c, in);
    bool read = parse_while_regions(p, op, n, types_of(p, n, in));
    tc_scope_close(p, mark);
    *out = tc_outcome_of_op(ok && read ? tc_parser_emit(p, op, 0, NULL) : NULL);
    return read;
}

/* ---- warp_groups ---- */

static bool parse_role(tc_parser *p, tc_region *r, const char *word)
{
    unsigned mark = tc_scope_open(p);
    bool ok = tc_parser_expect_word(p, word) &&
              tc_parse_region(p, r, TC_YIELD, 0, NULL);
    tc_scope_close(p, mark);
    return ok;
}

bool tc_parse_warp_groups(tc_parser *p, tc_outcome *out)
{
    tc_op_parts parts = {.code = TC_WARP_GROUPS, .loc = tc_parser_loc(p)};
    p->at++;
    if (!tc_parse_clauses(p, &parts))
        return false;
    tc_op *op = tc_op_new(p->f, TC_WARP_GROUPS, parts.loc, 0, NULL, 3);
    tc_parts_apply_attrs(&parts, op);
    bool read = parse_role(p, op->regions[0], "producer") &&
                parse_role(p, op->regions[1], "consumer");
    if (read && tc_parser_is_word(p, "transposer"))
        read = parse_role(p, op->regions[2], "transposer");
    else
        op->nregions = 2;
    *out = tc_outcome_of_op(read ? tc_parser_emit(p, op, 0, NULL) : NULL);
    return read;
}

/* ---- reduce, scan ---- */

static bool parse_reduce_arg(tc_parser *p, tc_region *r)
{
    const tc_token *name = tc_parser_peek(p, 0);
    const tc_type *type;
    if (!tc_parser_expect(p, TC_TOKEN_VALUE) ||
        !tc_parser_expect(p, TC_TOKEN_COLON) || !tc_parse_a_type(p, &type))
        return false;
    if (r->nargs == TC_MAX_ARGS)
        return tc_error(p->cx, tc_parser_loc(p), "more than %d arguments",
                        TC_MAX_ARGS);
    define_arg(p, r, name, type);
    return true;
}

static bool parse_reduce_args(tc_parser *p, tc_region *r)
{
    p->at++;
    do {
        if (!parse_reduce_arg(p, r))
            return false;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    return tc_parser_expect(p, TC_TOKEN_RPAREN);
}

static bool parse_reduce_region(tc_parser *p, tc_region *r)
{
    unsigned mark = tc_scope_open(p);
    bool ok = parse_reduce_args(p, r);
    if (ok) {
        unsigned n = r->nargs / 2;
        ok = tc_parse_region(p, r, TC_OPCODE_COUNT, n, types_of(p, n, r->args));
    }
    tc_scope_close(p, mark);
    return ok;
}

bool tc_parse_reduce(tc_parser *p, tc_op_parts *parts, tc_outcome *out)
{
    bool region = tc_parser_is(p, TC_TOKEN_LPAREN);
    tc_value **in = tc_arena_array(p->arena, tc_value *, parts->in.n);
    bool ok = !parts->has_error &&
              tc_fit_op(p, parts->code, parts->loc, &parts->in, NULL, in);
    tc_op *op = tc_op_new(p->f, parts->code, parts->loc, ok ? parts->in.n : 0,
                          in, region);
    tc_parser_place(p, op, parts->in.all);
    unsigned failed = p->nfailed;
    if ((region && !parse_reduce_region(p, op->regions[0])) ||
        !tc_parse_stated(p, parts))
        return false;
    tc_parts_apply_attrs(parts, op);
    ok &= p->nfailed == failed && !parts->has_error;
    *out = tc_outcome_of_op(
        ok ? tc_parser_emit(p, op, parts->nstated, parts->stated) : NULL);
    return true;
}
