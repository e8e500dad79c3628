/* SPDX-License-Identifier: Apache-2.0
 *
 * Brackets after an expression: a block or a gather of a tensor, new axes of a
 * tile.
 */
#include "ir/text/parse.h"

#include <string.h>

typedef enum index_kind { INDEX_ALL, INDEX_NONE, INDEX_VALUE } index_kind;

typedef struct index_item {
    index_kind kind;
    const tc_dim *side; /* offset +: side; NULL: no side */
} index_item;

/* What stands between the brackets. Offsets are in `offsets`, one an item. */
typedef struct index_list {
    tc_loc loc;
    unsigned n, nvalues, nsides;
    index_item items[2 * TC_MAX_RANK];
    tc_operands offsets;
} index_list;

static bool parse_index_item(tc_parser *p, index_list *list, index_item *item)
{
    uint32_t first = p->at;
    tc_operand o = tc_operand_poison(tc_parser_loc(p));
    if (tc_parser_accept(p, TC_TOKEN_COLON)) {
        item->kind = INDEX_ALL;
    } else if (tc_parser_accept_word(p, "none")) {
        item->kind = INDEX_NONE;
    } else {
        item->kind = INDEX_VALUE;
        list->nvalues++;
        if (!tc_parse_expr(p, &o))
            return false;
        if (tc_parser_accept(p, TC_TOKEN_SIDE)) {
            list->nsides++;
            if (!tc_parse_size(p, &item->side))
                return false;
        }
    }
    o.span = tc_parser_span(p, first);
    tc_operands_add(p, &list->offsets, o);
    return true;
}

static bool parse_index_list(tc_parser *p, index_list *list)
{
    memset(list, 0, sizeof *list);
    uint32_t first = p->at++;
    do {
        if (list->n == 2 * TC_MAX_RANK)
            return tc_error(p->cx, tc_parser_loc(p), "more than %d indices",
                            2 * TC_MAX_RANK);
        if (!parse_index_item(p, list, &list->items[list->n++]))
            return false;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    bool ok = tc_parser_expect(p, TC_TOKEN_RBRACKET);
    list->loc = tc_parser_span(p, first);
    return ok;
}

/* %m[:, none] */
static tc_operand index_tile(tc_parser *p, tc_value *v, const index_list *list)
{
    unsigned nall = 0;
    for (unsigned i = 0; i < list->n; i++)
        nall += list->items[i].kind == INDEX_ALL;
    if (list->nvalues || nall != v->type->rank) {
        tc_error(p->cx, list->loc,
                 "a tile is indexed with `:` and `none` only, and %s takes "
                 "%u `:`",
                 tc_type_name(p->cx, v->type), v->type->rank);
        return tc_operand_poison(list->loc);
    }
    for (unsigned i = 0; v && i < list->n; i++) {
        if (list->items[i].kind != INDEX_NONE)
            continue;
        tc_op *op = tc_op_new(p->f, TC_EXPAND_DIMS, list->loc, 1, &v, 0);
        tc_op_set_int(op, "axis", i);
        op = tc_parser_emit(p, op, 0, NULL);
        v = op ? op->out[0] : NULL;
    }
    return tc_operand_value(v, list->loc);
}

/* %t[%z, %m0 +: BM] is a block, %t[%i, %j] a gather. */
static tc_operand index_tensor(tc_parser *p, const tc_operand *tensor,
                               index_list *list, tc_loc loc)
{
    if (list->nvalues != list->n) {
        tc_error(p->cx, list->loc,
                 "%s is indexed with offsets, found `:` or `none`",
                 tc_type_name(p->cx, tensor->v->type));
        return tc_operand_poison(loc);
    }
    tc_operands ops = {0};
    tc_operands_add(p, &ops, *tensor);
    for (unsigned i = 0; i < list->n; i++)
        tc_operands_add(p, &ops, list->offsets.all[i]);
    tc_opcode code = list->nsides ? TC_BLOCK : TC_GATHER;
    tc_value **in = tc_arena_array(p->arena, tc_value *, ops.n);
    if (!tc_fit_op(p, code, loc, &ops, NULL, in))
        return tc_operand_poison(loc);
    tc_op *op = tc_op_new(p->f, code, loc, ops.n, in, 0);
    const tc_dim *sides[2 * TC_MAX_RANK];
    for (unsigned i = 0; i < list->n; i++)
        sides[i] = list->items[i].side;
    if (code == TC_BLOCK)
        tc_op_set_dims(op, "sides", list->n, sides);
    tc_parser_place(p, op, ops.all);
    op = tc_parser_emit(p, op, 0, NULL);
    return tc_operand_value(op ? op->out[0] : NULL, loc);
}

bool tc_parse_index(tc_parser *p, tc_operand *o, bool is_block, tc_loc loc)
{
    index_list list;
    if (!parse_index_list(p, &list))
        return false;
    if (o->kind == TC_OPERAND_POISON)
        return true;
    if (tc_loc_is(loc, list.loc))
        loc = list.loc;
    tc_kind kind = o->kind == TC_OPERAND_VALUE ? o->v->type->kind : TC_I32;
    const char *got = o->kind == TC_OPERAND_VALUE
                          ? tc_type_name(p->cx, o->v->type)
                          : "a literal";
    if (kind == TC_TENSOR && is_block && !list.nsides) {
        tc_error(p->cx, list.loc,
                 "block: no side is given, expected `offset "
                 "+: side` for at least one dim");
        *o = tc_operand_poison(loc);
    } else if (kind == TC_TENSOR) {
        *o = index_tensor(p, o, &list, loc);
    } else if (kind == TC_TILE && !is_block) {
        *o = index_tile(p, o->v, &list);
    } else {
        tc_error(p->cx, list.loc, "%s cannot be indexed, expected a tensor%s",
                 got, is_block ? "" : " or a tile");
        *o = tc_operand_poison(loc);
    }
    return true;
}
