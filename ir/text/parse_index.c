/* SPDX-License-Identifier: Apache-2.0
 *
 * Brackets after an expression: a block or a gather of a tensor; new axes,
 * parts and elements of a tile.
 *
 * A window whose elements along a dim are `step` apart is a window of a tensor
 * of those elements, made here: of the dim it has every step-th one, from the
 * first that has the remainder of the offset.
 *
 *   %x[%o +: 8 step 2]      %r = rem(%o, 2)
 *                           %t = tensor(base(%x) + %r * stride(%x, 0),
 *                                       [cdiv(size(%x, 0) - %r, 2)],
 *                                       [stride(%x, 0) * 2])
 *                           %t[%o / 2 +: 8]
 *
 * An offset below 0, and a boundary, mean the same elements in both.
 */
#include "ir/text/parse.h"

#include <string.h>

/* Of an item of a block: elements `step` apart (an i32, or a literal). */
typedef struct step_item {
    bool is_stepped;
    tc_operand step;
} step_item;

typedef enum index_kind { INDEX_ALL, INDEX_NONE, INDEX_VALUE } index_kind;

typedef struct index_item {
    index_kind kind;
    const tc_dim *side; /* offset +: side; NULL: no side */
    const tc_dim *at;   /* of a part of a tile: the offset */
    int64_t step;       /* of a tile; 0: none is given */
    bool gone;          /* of a tile: the axis is left out */
    step_item apart;    /* of a tensor */
} index_item;

/* The items between the brackets. Offsets are in `offsets`, one an item. */
typedef struct index_list {
    tc_loc loc;
    unsigned n, nvalues, nsides, nsteps;
    index_item items[2 * TC_MAX_RANK];
    tc_operands offsets;
} index_list;

/* Does the item have a `+:`? */
static bool has_side(const tc_parser *p)
{
    unsigned depth = 0;
    for (unsigned i = 0;; i++) {
        tc_token_kind kind = tc_parser_peek(p, i)->kind;
        bool opens = kind == TC_TOKEN_LPAREN || kind == TC_TOKEN_LBRACKET;
        bool closes = kind == TC_TOKEN_RPAREN || kind == TC_TOKEN_RBRACKET;
        if (kind == TC_TOKEN_SIDE && depth == 0)
            return true;
        if (kind == TC_TOKEN_END || (depth == 0 && closes) ||
            (depth == 0 && kind == TC_TOKEN_COMMA))
            return false;
        depth += opens;
        depth -= closes;
    }
}

/* `16 +: 32 step 2` of a tile: where it lies is known at compile time. */
static bool parse_part(tc_parser *p, index_list *list, index_item *item)
{
    item->kind = INDEX_VALUE;
    list->nvalues++;
    if (tc_parser_is(p, TC_TOKEN_VALUE))
        return tc_error(p->cx, tc_parser_loc(p),
                        "the place of a part of a tile is known at compile "
                        "time: expected numbers and parameters, `offset +: "
                        "side`, or an index alone");
    if (!tc_parse_size(p, &item->at) || !tc_parser_expect(p, TC_TOKEN_SIDE))
        return false;
    list->nsides++;
    if (!tc_parse_size(p, &item->side))
        return false;
    if (!tc_parser_accept_word(p, "step"))
        return true;
    tc_loc loc = tc_parser_loc(p);
    return tc_parse_integer(p, &item->step) &&
           (item->step >= 1 ||
            tc_error(p->cx, loc, "slice: step %lld, expected a power of two",
                     (long long)item->step));
}

/* `offset +: side step 2` of a tensor. */
static bool parse_step(tc_parser *p, step_item *item)
{
    const tc_dim *d;
    tc_loc loc = tc_parser_loc(p);
    item->is_stepped = tc_parser_accept_word(p, "step");
    if (!item->is_stepped)
        return true;
    loc = tc_parser_loc(p);
    if (!tc_parse_size(p, &d))
        return false;
    item->step = tc_operand_dim(p, loc, d);
    return true;
}

static bool parse_index_item(tc_parser *p, index_list *list, index_item *item,
                             bool of_tile)
{
    uint32_t first = p->at;
    tc_operand o = tc_operand_poison(tc_parser_loc(p));
    if (tc_parser_accept(p, TC_TOKEN_COLON)) {
        item->kind = INDEX_ALL;
    } else if (tc_parser_accept_word(p, "none")) {
        item->kind = INDEX_NONE;
    } else if (of_tile && has_side(p)) {
        if (!parse_part(p, list, item))
            return false;
    } else {
        item->kind = INDEX_VALUE;
        list->nvalues++;
        if (!tc_parse_expr(p, &o))
            return false;
        if (tc_parser_accept(p, TC_TOKEN_SIDE)) {
            list->nsides++;
            if (!tc_parse_size(p, &item->side) || !parse_step(p, &item->apart))
                return false;
            list->nsteps += item->apart.is_stepped;
        }
    }
    o.span = tc_parser_span(p, first);
    tc_operands_add(p, &list->offsets, o);
    return true;
}

static bool parse_index_list(tc_parser *p, index_list *list, bool of_tile)
{
    memset(list, 0, sizeof *list);
    uint32_t first = p->at++;
    do {
        if (list->n == 2 * TC_MAX_RANK)
            return tc_error(p->cx, tc_parser_loc(p), "more than %d indices",
                            2 * TC_MAX_RANK);
        if (!parse_index_item(p, list, &list->items[list->n++], of_tile))
            return false;
    } while (tc_parser_accept(p, TC_TOKEN_COMMA));
    if (tc_parser_is(p, TC_TOKEN_COLON))
        return tc_error(p->cx, tc_parser_loc(p),
                        "expected `]`, found `:`: a part is written `offset "
                        "+: side`, a whole axis of a tile `:`");
    bool ok = tc_parser_expect(p, TC_TOKEN_RBRACKET);
    list->loc = tc_parser_span(p, first);
    return ok;
}

/* Axis `axis` of a tile, at item->at, so many as item->side. */
static tc_value *slice_tile(tc_parser *p, tc_value *v, unsigned axis,
                            const index_item *item, tc_loc loc)
{
    tc_op *op = tc_op_new(p->f, TC_SLICE, loc, 1, &v, 0);
    tc_op_set_int(op, "axis", axis);
    if (!tc_dim_is(item->at, 0))
        tc_op_set_dims(op, "at", 1, &item->at);
    tc_op_set_dims(op, "side", 1, &item->side);
    if (item->step && item->step != 1)
        tc_op_set_int(op, "step", item->step);
    op = tc_parser_emit(p, op, 0, NULL);
    return op ? op->out[0] : NULL;
}

static tc_value *expand_tile(tc_parser *p, tc_value *v, unsigned axis,
                             tc_loc loc)
{
    tc_op *op = tc_op_new(p->f, TC_EXPAND_DIMS, loc, 1, &v, 0);
    tc_op_set_int(op, "axis", axis);
    op = tc_parser_emit(p, op, 0, NULL);
    return op ? op->out[0] : NULL;
}

/* ---- Elements of a tile ---- */

static tc_value *take_tile(tc_parser *p, tc_value *v, unsigned axis,
                           tc_value *index, tc_loc loc)
{
    tc_value *in[] = {v, index};
    tc_op *op = tc_op_new(p->f, TC_TAKE, loc, 2, in, 0);
    tc_op_set_int(op, "axis", axis);
    op = tc_parser_emit(p, op, 0, NULL);
    return op ? op->out[0] : NULL;
}

/* Indices of one axis go along the axis of the tile, the same for all lines. */
static tc_value *spread_index(tc_parser *p, const tc_type *t, unsigned axis,
                              tc_value *index, tc_loc loc)
{
    const tc_type *from = index->type;
    const tc_dim *dims[TC_MAX_RANK];
    if (from->kind != TC_TILE || from->rank != 1 || t->rank == 1)
        return index;
    for (unsigned i = 0; index && i < t->rank; i++) {
        dims[i] = i == axis ? from->dims[0] : t->dims[i];
        if (i != axis)
            index = expand_tile(p, index, i, loc);
    }
    if (!index)
        return NULL;
    const tc_type *to =
        tc_type_shaped(p->cx, TC_TILE, t->rank, dims, from->elem);
    if (index->type == to)
        return index;
    tc_op *op = tc_op_new(p->f, TC_BROADCAST, loc, 1, &index, 0);
    op = tc_parser_emit(p, op, 1, &to);
    return op ? op->out[0] : NULL;
}

/* The index that an item is: a scalar or a tile of ints. NULL: reported. */
static tc_value *index_of_item(tc_parser *p, const tc_operand *o)
{
    tc_value *index = tc_fit_value(p, o, NULL);
    if (!index ||
        (tc_type_is_int(index->type) &&
         (index->type->kind == TC_TILE || tc_type_is_scalar(index->type))))
        return index;
    tc_error(p->cx, o->loc,
             "the index of a tile is %s, expected an int or a tile of ints",
             tc_type_name(p->cx, index->type));
    return NULL;
}

static bool takes(const index_item *item)
{
    return item->kind == INDEX_VALUE && !item->side;
}

/* One element along each axis with a scalar, which goes; then along the axis
 * with a tile of indices those. */
static tc_value *take_elements(tc_parser *p, tc_value *v, index_list *list)
{
    tc_value *by = NULL;
    unsigned axis = 0, along = 0;
    for (unsigned i = 0; v && i < list->n; i++) {
        if (list->items[i].kind == INDEX_NONE)
            continue;
        tc_value *index = NULL;
        if (takes(&list->items[i])) {
            index = index_of_item(p, &list->offsets.all[i]);
            if (!index)
                return NULL;
        }
        if (index && index->type->kind != TC_TILE) {
            v = take_tile(p, v, axis, index, list->loc);
            list->items[i].gone = true;
            continue;
        }
        if (index && by) {
            tc_error(p->cx, list->offsets.all[i].loc,
                     "a second tile of indices, expected one: reshape the tile "
                     "to one axis, and take elements %%i * N + %%j of it");
            return NULL;
        }
        by = index ? index : by;
        along = index ? axis : along;
        axis++;
    }
    if (v && by) {
        by = spread_index(p, v->type, along, by, list->loc);
        v = by ? take_tile(p, v, along, by, list->loc) : NULL;
    }
    return v;
}

/* %m[:, none], %x[:, 32 +: 32], %x[%i, :]: parts first, then elements, then new
 * axes. */
static tc_operand index_tile(tc_parser *p, tc_value *v, index_list *list)
{
    unsigned axes = 0, axis = 0;
    for (unsigned i = 0; i < list->n; i++)
        axes += list->items[i].kind != INDEX_NONE;
    if (axes != v->type->rank) {
        tc_error(p->cx, list->loc,
                 "a tile is indexed with `:`, `none`, `offset +: side` and "
                 "ints, and %s takes %u of these beside `none`",
                 tc_type_name(p->cx, v->type), v->type->rank);
        return tc_operand_poison(list->loc);
    }
    for (unsigned i = 0; v && i < list->n; i++) {
        if (list->items[i].side)
            v = slice_tile(p, v, axis, &list->items[i], list->loc);
        axis += list->items[i].kind != INDEX_NONE;
    }
    if (v && list->nvalues > list->nsides)
        v = take_elements(p, v, list);
    axis = 0;
    for (unsigned i = 0; v && i < list->n; i++) {
        if (list->items[i].kind == INDEX_NONE && v->type->kind != TC_TILE) {
            tc_error(p->cx, list->loc,
                     "`none` of an element, expected it of a tile");
            v = NULL;
        } else if (list->items[i].kind == INDEX_NONE) {
            v = expand_tile(p, v, axis, list->loc);
        }
        axis += !list->items[i].gone;
    }
    return tc_operand_value(v, list->loc);
}

/* ---- Steps ---- */

/* The values that stand for a dim of the tensor: what it has, then what is
 * made. */
typedef struct stepping {
    tc_parser *p;
    tc_loc loc;
    tc_value *base;
    bool ok;
} stepping;

static tc_value *insert(stepping *s, tc_op *op)
{
    op = s->ok ? tc_parser_emit(s->p, op, 0, NULL) : NULL;
    s->ok = op != NULL;
    return op ? op->out[0] : NULL;
}

static tc_value *binary(stepping *s, tc_opcode code, tc_value *a, tc_value *b)
{
    tc_value *in[] = {a, b};
    return s->ok ? insert(s, tc_op_new(s->p->f, code, s->loc, 2, in, 0)) : NULL;
}

static tc_value *negative(stepping *s, tc_value *a)
{
    return s->ok ? insert(s, tc_op_new(s->p->f, TC_NEG, s->loc, 1, &a, 0))
                 : NULL;
}

static tc_value *as(stepping *s, tc_value *v, tc_kind kind)
{
    const tc_type *t = tc_type_scalar(s->p->cx, kind);
    if (!s->ok || v->type == t)
        return v;
    tc_op *op = tc_op_new(s->p->f, TC_CAST, s->loc, 1, &v, 0);
    op = tc_parser_emit(s->p, op, 1, &t);
    s->ok = op != NULL;
    return op ? op->out[0] : NULL;
}

static tc_value *of_dim(stepping *s, tc_opcode code, tc_value *tensor,
                        unsigned dim)
{
    tc_op *op = tc_op_new(s->p->f, code, s->loc, 1, &tensor, 0);
    tc_op_set_int(op, "dim", dim);
    return insert(s, op);
}

/* Of a compile-time parameter: goes where its value is known, and fits. */
static void require_positive(stepping *s, tc_value *step)
{
    tc_op *zero = tc_op_new(s->p->f, TC_DIM, s->loc, 0, NULL, 0);
    const tc_dim *none = tc_dim_const(s->p->cx, 0);
    tc_op_set_dims(zero, "value", 1, &none);
    tc_value *in[] = {step, insert(s, zero)};
    tc_op *cmp = s->ok ? tc_op_new(s->p->f, TC_CMP, s->loc, 2, in, 0) : NULL;
    if (!cmp)
        return;
    tc_op_set_word(cmp, "pred", "gt");
    tc_value *ok = insert(s, cmp);
    tc_op *op = ok ? tc_op_new(s->p->f, TC_ASSERT, s->loc, 1, &ok, 0) : NULL;
    if (!op)
        return;
    const char *message =
        tc_string_get(s->p->cx, "block: expected a step of 1 or more");
    tc_op_set_attr(op, "message",
                   (tc_attr){.kind = TC_ATTR_STRING, .s = message});
    s->ok = tc_parser_emit(s->p, op, 0, NULL) != NULL;
}

/* Moves the base to the first element, and gives the sizes and strides of every
 * step-th one; the offset becomes one among these. */
static void step_dim(stepping *s, tc_value *step, tc_value **offset,
                     tc_value **size, tc_value **stride)
{
    tc_value *wide = s->ok ? as(s, step, (*offset)->type->kind) : NULL;
    tc_value *rest = binary(s, TC_REM, *offset, wide);
    tc_value *first = s->ok ? as(s, rest, TC_I64) : NULL;
    *offset = binary(s, TC_DIV, *offset, wide);
    s->base = binary(s, TC_PTR_ADD, s->base, binary(s, TC_MUL, first, *stride));
    tc_value *left =
        s->ok ? binary(s, TC_SUB, *size, as(s, rest, TC_I32)) : NULL;
    *size = negative(s, binary(s, TC_DIV, negative(s, left), step));
    *stride = s->ok ? binary(s, TC_MUL, *stride, as(s, step, TC_I64)) : NULL;
}

static bool check(stepping *s, const tc_operand *tensor, const step_item *item,
                  const tc_operand *offset)
{
    tc_context *cx = s->p->cx;
    if (item->step.kind == TC_OPERAND_POISON ||
        offset->kind == TC_OPERAND_POISON)
        return false;
    if (item->step.kind == TC_OPERAND_LITERAL && item->step.number.i < 1)
        return tc_error(cx, item->step.loc,
                        "block: a step of %lld, expected 1 or more",
                        (long long)item->step.number.i);
    if (offset->kind == TC_OPERAND_VALUE && offset->v->type->kind != TC_I32 &&
        offset->v->type->kind != TC_I64)
        return tc_error(cx, offset->loc,
                        "block: an offset of %s is %s, expected i32 or i64 "
                        "before a side",
                        tc_type_name(cx, tensor->v->type),
                        tc_type_name(cx, offset->v->type));
    return true;
}

/* What the new tensor is made of, so far. */
typedef struct made {
    unsigned nsizes;
    const tc_dim *dims[TC_MAX_RANK];
    tc_value *sizes[TC_MAX_RANK], *strides[TC_MAX_RANK];
} made;

static bool take_step(stepping *s, const step_item *item, tc_operand *offset,
                      tc_value **size, tc_value **stride)
{
    const tc_type *i32 = tc_type_scalar(s->p->cx, TC_I32);
    bool literal = offset->kind == TC_OPERAND_LITERAL;
    tc_value *at = tc_fit_value(s->p, offset, literal ? i32 : NULL);
    tc_value *step = tc_fit_value(s->p, &item->step, i32);
    s->ok &= at && step;
    if (s->ok && item->step.kind != TC_OPERAND_LITERAL)
        require_positive(s, step);
    if (s->ok)
        step_dim(s, step, &at, size, stride);
    *offset = tc_operand_value(at, offset->loc);
    return s->ok;
}

static bool add_dim(stepping *s, const tc_operand *tensor, unsigned dim,
                    const step_item *item, tc_operand *offset, made *m)
{
    const tc_dim *known = tensor->v->type->dims[dim];
    tc_value *size = NULL;
    m->dims[dim] = item->is_stepped ? NULL : known;
    m->strides[dim] = of_dim(s, TC_STRIDE, tensor->v, dim);
    if (s->ok && !m->dims[dim])
        size = of_dim(s, TC_SIZE, tensor->v, dim);
    if (s->ok && item->is_stepped &&
        (!check(s, tensor, item, offset) ||
         !take_step(s, item, offset, &size, &m->strides[dim])))
        return false;
    if (size)
        m->sizes[m->nsizes++] = size;
    return s->ok;
}

static tc_value *build(const stepping *s, const tc_value *from, const made *m)
{
    tc_parser *p = s->p;
    const tc_type *t = from->type;
    tc_value *in[1 + 2 * TC_MAX_RANK] = {s->base};
    unsigned nin = 1;
    for (unsigned i = 0; i < m->nsizes; i++)
        in[nin++] = m->sizes[i];
    for (unsigned i = 0; i < t->rank; i++)
        in[nin++] = m->strides[i];
    const tc_type *type =
        tc_type_shaped(p->cx, TC_TENSOR, t->rank, m->dims, t->elem);
    if (t->contiguous)
        type = tc_type_with_contiguous(p->cx, type, t->contiguous);
    tc_op *op = tc_op_new(p->f, TC_MAKE_TENSOR, s->loc, nin, in, 0);
    op = tc_parser_emit(p, op, 1, &type);
    if (op && from->name)
        op->out[0]->name = tc_string_get(
            p->cx, tc_arena_printf(p->arena, "%s.step", from->name));
    return op ? op->out[0] : NULL;
}

/* The tensor of every step-th element is made from an address, and half a byte
 * has none. */
static bool check_step_of_packed(tc_parser *p, const tc_type *t,
                                 const index_list *list, tc_loc loc)
{
    if (tc_kind_is_packed(t->elem->kind))
        for (unsigned i = 0; i < list->n; i++)
            if (list->items[i].apart.is_stepped)
                return tc_error(
                    p->cx, loc,
                    "block: `step` along dim %u of %s, expected none: a byte "
                    "holds two elements; load the whole window and take a part "
                    "of the tile, as `%%v[0 +: 32 step 2]`",
                    i, tc_type_name(p->cx, t));
    return true;
}

/* The tensor that a block with such items is a window of; their offsets become
 * those in it. NULL: reported. */
static tc_value *step_tensor(tc_parser *p, const tc_operand *tensor,
                             index_list *list, tc_loc loc)
{
    tc_value *v = tensor->v;
    stepping s = {p, loc, NULL, true};
    made m = {0};
    if (list->n != v->type->rank) /* the block reports it */
        return v;
    if (!check_step_of_packed(p, v->type, list, loc))
        return NULL;
    s.base = insert(&s, tc_op_new(p->f, TC_BASE, loc, 1, &v, 0));
    for (unsigned i = 0; s.ok && i < list->n; i++)
        if (!add_dim(&s, tensor, i, &list->items[i].apart,
                     &list->offsets.all[i], &m))
            return NULL;
    return s.ok ? build(&s, v, &m) : NULL;
}

/* ---- Tensors ---- */

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
    tc_operand from = *tensor;
    if (list->nsteps) {
        from.v = step_tensor(p, tensor, list, loc);
        if (!from.v)
            return tc_operand_poison(loc);
    }
    tc_operands_add(p, &ops, from);
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
    bool of_tile =
        !is_block && o->kind == TC_OPERAND_VALUE && o->v->type->kind == TC_TILE;
    if (!parse_index_list(p, &list, of_tile))
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
