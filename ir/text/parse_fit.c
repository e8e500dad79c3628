/* SPDX-License-Identifier: Apache-2.0
 *
 * Completes operands that the text abbreviates: constants get their type from
 * their uses, and operands of elementwise ops are brought to one shape, as in
 * NumPy: missing leading axes and sides of 1 are repeated.
 *
 *   %s - %m[:, none] * 2.0    with %s: tile<64x32 x f32>, %m: tile<64 x f32>
 *
 *   %0 = expand_dims %m axis(1) : tile<64x1 x f32>
 *   %1 = const 2.0 : f32
 *   %2 = splat %1 : tile<64x1 x f32>
 *   %3 = mul %0, %2 : tile<64x1 x f32>
 *   %4 = broadcast %3 : tile<64x32 x f32>
 *   %5 = sub %s, %4 : tile<64x32 x f32>
 */
#include "ir/text/parse.h"

#include "ir/eval/eval.h"

#include <math.h>
#include <string.h>

void tc_parser_place(tc_parser *p, tc_op *op, const tc_operand *operands)
{
    tc_loc *locs = tc_arena_array(p->arena, tc_loc, op->nin);
    for (unsigned i = 0; i < op->nin; i++)
        locs[i] = tc_operand_span(&operands[i]);
    op->in_locs = locs;
}

tc_op *tc_parser_emit(tc_parser *p, tc_op *op, unsigned nstated,
                      const tc_type *const *stated)
{
    if (!tc_op_infer(op, nstated, stated))
        return NULL;
    tc_op_insert(op, p->b.region, p->b.before);
    return op;
}

static tc_value *parse_fit_build(tc_parser *p, tc_opcode code, tc_loc loc,
                                 unsigned n, tc_value *const *in,
                                 const tc_type *type)
{
    tc_op *op = tc_op_new(p->f, code, loc, n, in, 0);
    op = tc_parser_emit(p, op, 1, &type);
    return op ? op->out[0] : NULL;
}

/* ---- Literals ---- */

static bool fits_int(tc_kind kind, const tc_operand *o)
{
    unsigned bits = tc_scalar_infos[kind].bits;
    int64_t i = o->number.i;
    if (bits == 64)
        return true;
    if (bits == 1 || (o->is_hex && i >= 0))
        return i >= 0 && i < (int64_t)1 << bits;
    return i >= -((int64_t)1 << (bits - 1)) && i < (int64_t)1 << (bits - 1);
}

/* The number as `type` holds it; false: reported. */
static bool convert_literal(tc_parser *p, const tc_operand *o,
                            const tc_type *type, tc_number *number)
{
    tc_kind kind = type->kind;
    *number = o->number;
    if (tc_kind_is_stored(kind))
        return tc_error(p->cx, o->loc,
                        "a literal cannot stand for %s, a storage type: cast "
                        "a number to it",
                        tc_type_name(p->cx, type));
    if (kind > TC_TYPE_PARAM || (number->is_float && !tc_type_is_float(type)))
        return tc_error(p->cx, o->loc, "a %s literal cannot stand for %s",
                        number->is_float ? "float" : "whole",
                        tc_type_name(p->cx, type));
    if (kind == TC_TYPE_PARAM)
        return true;
    if (!tc_scalar_infos[kind].is_float) {
        if (!fits_int(kind, o))
            return tc_error(p->cx, o->loc, "%lld does not fit in %s%s",
                            (long long)number->i, tc_scalar_infos[kind].name,
                            kind == TC_I1 ? ", expected true or false" : "");
        if (o->is_hex)
            number->i = tc_int_wrap(kind, number->i);
        return true;
    }
    double f = number->is_float ? number->f : (double)number->i;
    *number = (tc_number){.is_float = true, .f = f};
    if (isfinite(f))
        number->f = tc_round_to(kind, f);
    if (isfinite(f) && isinf(number->f))
        return tc_error(p->cx, o->loc, "%g is out of the range of %s", f,
                        tc_scalar_infos[kind].name);
    return true;
}

static const tc_type *default_type(tc_parser *p, const tc_operand *o)
{
    return tc_type_scalar(p->cx, o->number.is_float ? TC_F32 : TC_I32);
}

static tc_value *literal_value(tc_parser *p, const tc_operand *o,
                               const tc_type *type)
{
    const tc_type *elem = type ? tc_type_elem(type) : default_type(p, o);
    tc_number number;
    if (!convert_literal(p, o, elem, &number))
        return NULL;
    tc_op *op = tc_op_new(p->f, TC_CONST, o->loc, 0, NULL, 0);
    tc_op_set_attr(op, "value",
                   (tc_attr){.kind = TC_ATTR_NUMBER, .number = number});
    op = tc_parser_emit(p, op, 1, &elem);
    if (!op || !type || type->kind != TC_TILE)
        return op ? op->out[0] : NULL;
    return parse_fit_build(p, TC_SPLAT, o->loc, 1, op->out, type);
}

tc_value *tc_fit_value(tc_parser *p, const tc_operand *o, const tc_type *type)
{
    if (o->kind == TC_OPERAND_POISON)
        return NULL;
    return o->kind == TC_OPERAND_VALUE ? o->v : literal_value(p, o, type);
}

/* The type of the first operand that has one; else of the literals. */
static const tc_type *elem_of_all(tc_parser *p, unsigned n,
                                  const tc_operand *ops)
{
    const tc_type *of_literals = NULL;
    for (unsigned i = 0; i < n; i++) {
        if (ops[i].kind == TC_OPERAND_VALUE)
            return tc_type_elem(ops[i].v->type);
        if (!of_literals || ops[i].number.is_float)
            of_literals = default_type(p, &ops[i]);
    }
    return of_literals;
}

bool tc_fit_alike(tc_parser *p, unsigned n, const tc_operand *ops,
                  tc_value **values)
{
    bool ok = true;
    const tc_type *elem = elem_of_all(p, n, ops);
    for (unsigned i = 0; i < n; i++) {
        values[i] = tc_fit_value(p, &ops[i], elem);
        ok &= values[i] != NULL;
    }
    return ok;
}

/* ---- Shapes ---- */

typedef struct shape {
    unsigned rank;
    const tc_dim *dims[TC_MAX_RANK];
    const tc_type *like; /* a tile that gave it; NULL: no tile yet */
    unsigned from;       /* the operand that is that tile */
} shape;

/* The side that both become, NULL where they cannot. */
static const tc_dim *common_side(const tc_dim *a, const tc_dim *b)
{
    if (a == b || tc_dim_is(b, 1))
        return a;
    return tc_dim_is(a, 1) ? b : NULL;
}

/* The text of an operand as what an index can follow. */
static const char *indexable(tc_parser *p, const tc_operand *o)
{
    const char *text = tc_parser_quote(p, tc_operand_span(o), "...");
    int depth = 0;
    bool loose = false;
    for (const char *s = text; *s; s++) {
        depth += *s == '(' || *s == '[';
        depth -= *s == ')' || *s == ']';
        loose |= depth == 0 && *s == ' ';
    }
    return loose ? tc_arena_printf(p->arena, "(%s)", text) : text;
}

/* ": write %m[:, none]", where new axes make the shorter tile fit. */
static const char *how_to_index(tc_parser *p, const shape *s,
                                const tc_operand *ops, unsigned i,
                                const tc_type *t)
{
    const tc_type *other = s->like;
    bool shorter = t->rank < other->rank;
    const char *index =
        tc_type_index_to(p->arena, shorter ? t : other, shorter ? other : t);
    return index ? tc_arena_printf(p->arena, ": write %s%s",
                                   indexable(p, &ops[shorter ? i : s->from]),
                                   index)
                 : "";
}

static bool widen(tc_parser *p, shape *s, const tc_operand *ops, unsigned n,
                  const tc_type *t, const char *what, tc_loc loc)
{
    shape old = *s;
    s->rank = t->rank > old.rank ? t->rank : old.rank;
    for (unsigned i = 1; i <= s->rank; i++) {
        const tc_dim *a = i <= old.rank ? old.dims[old.rank - i] : NULL;
        const tc_dim *b = i <= t->rank ? t->dims[t->rank - i] : NULL;
        const tc_dim *side = !a ? b : !b ? a : common_side(a, b);
        if (!side) {
            tc_text sides = {.arena = p->arena};
            tc_dim_print(&sides, a);
            tc_text_add(&sides, " and ");
            tc_dim_print(&sides, b);
            return tc_error(p->cx, loc,
                            "%s: %s and %s do not broadcast, their sides %s "
                            "differ%s",
                            what, tc_type_name(p->cx, old.like),
                            tc_type_name(p->cx, t), sides.data,
                            how_to_index(p, &old, ops, n, t));
        }
        s->dims[s->rank - i] = side;
    }
    if (!s->like || t->rank >= old.rank) {
        s->like = t;
        s->from = n;
    }
    return true;
}

static tc_value *add_leading_axis(tc_parser *p, tc_loc loc, tc_value *v)
{
    tc_op *op = tc_op_new(p->f, TC_EXPAND_DIMS, loc, 1, &v, 0);
    tc_op_set_int(op, "axis", 0);
    op = tc_parser_emit(p, op, 0, NULL);
    return op ? op->out[0] : NULL;
}

static tc_value *broadcast(tc_parser *p, tc_loc loc, tc_value *v,
                           const shape *s, bool splat)
{
    const tc_type *elem = tc_type_elem(v->type);
    if (!tc_type_is_scalar(elem) || (v->type->kind != TC_TILE && !splat))
        return v;
    const tc_type *type =
        tc_type_shaped(p->cx, TC_TILE, s->rank, s->dims, elem);
    if (v->type->kind != TC_TILE)
        return parse_fit_build(p, TC_SPLAT, loc, 1, &v, type);
    while (v && v->type->rank < s->rank)
        v = add_leading_axis(p, loc, v);
    return !v || tc_type_same_sides(v->type, type)
               ? v
               : parse_fit_build(p, TC_BROADCAST, loc, 1, &v, type);
}

bool tc_fit_shapes(tc_parser *p, const char *what, tc_loc loc, unsigned n,
                   const tc_operand *ops, tc_value **values, bool splat)
{
    shape s = {0};
    for (unsigned i = 0; i < n; i++)
        if (values[i]->type->kind == TC_TILE &&
            !widen(p, &s, ops, i, values[i]->type, what, loc))
            return false;
    bool ok = true;
    for (unsigned i = 0; s.like && i < n; i++) {
        values[i] = broadcast(p, loc, values[i], &s, splat);
        ok &= values[i] != NULL;
    }
    return ok;
}

/* The value in the shape of `type`, if it broadcasts to that; else as it is,
 * for tc_op_infer to complain about. */
static tc_value *fit_to(tc_parser *p, tc_loc loc, tc_value *v,
                        const tc_type *type)
{
    if (type->kind != TC_TILE)
        return v;
    shape s = {.rank = type->rank, .like = type};
    memcpy(s.dims, type->dims, type->rank * sizeof *s.dims);
    if (v->type->kind == TC_TILE) {
        if (v->type->rank > s.rank)
            return v;
        for (unsigned i = 1; i <= v->type->rank; i++) {
            const tc_dim *side = v->type->dims[v->type->rank - i];
            if (side != s.dims[s.rank - i] && !tc_dim_is(side, 1))
                return v;
        }
    }
    return broadcast(p, loc, v, &s, true);
}

/* ---- Ops ---- */

/* The letter of ops.def for operand i, 0 where there is none. */
static char letter_of(tc_opcode code, unsigned i)
{
    const char *in = tc_op_infos[code].in;
    for (; *in; in++) {
        if (in[1] == '*' || i-- == 0)
            return *in;
        in += in[1] == '?';
    }
    return 0;
}

/* Operands whose elements must be the same type: the first and those with
 * letter `=`; the two values of select. */
static bool is_in_group(tc_opcode code, unsigned i)
{
    if (code == TC_SELECT)
        return i > 0;
    return i == 0 || letter_of(code, i) == '=';
}

/* The operands of the group copied together, and their number. */
static unsigned group_of(tc_opcode code, const tc_operands *ops,
                         tc_operand *group)
{
    unsigned n = 0;
    for (unsigned i = 0; i < ops->n; i++)
        if (is_in_group(code, i))
            group[n++] = ops->all[i];
    return n;
}

static bool check_one_elem(tc_parser *p, tc_opcode code, tc_loc loc, unsigned n,
                           const tc_operand *group)
{
    const tc_type *first = NULL;
    for (unsigned i = 0; i < n; i++) {
        if (group[i].kind != TC_OPERAND_VALUE)
            continue;
        const tc_type *t = tc_type_elem(group[i].v->type);
        if (first && t != first && tc_type_is_scalar(t) &&
            tc_type_is_scalar(first))
            return tc_error(p->cx, loc,
                            "%s: operands of %s and %s, expected one type: "
                            "cast one of them",
                            tc_op_infos[code].name, tc_type_name(p->cx, first),
                            tc_type_name(p->cx, t));
        if (!first)
            first = t;
    }
    return true;
}

/* A float literal next to ints: which of them is to be cast? */
static bool check_literals(tc_parser *p, tc_opcode code, unsigned n,
                           const tc_operand *group)
{
    const tc_operand *value = NULL, *literal = NULL;
    for (unsigned i = 0; i < n; i++) {
        if (group[i].kind == TC_OPERAND_VALUE && !value)
            value = &group[i];
        if (group[i].kind == TC_OPERAND_LITERAL && group[i].number.is_float &&
            !literal)
            literal = &group[i];
    }
    if (!value || !literal || !tc_type_is_int(value->v->type))
        return true;
    return tc_error(p->cx, tc_operand_span(literal),
                    "%s: a float literal cannot stand for %s: write "
                    "cast(%s, f32)",
                    tc_op_infos[code].name,
                    tc_type_name(p->cx, tc_type_elem(value->v->type)),
                    tc_parser_quote(p, tc_operand_span(value), "..."));
}

/* The type that literals of the group get. */
static const tc_type *group_elem(tc_parser *p, tc_opcode code, unsigned n,
                                 const tc_operand *group, const tc_type *stated)
{
    bool typed = false;
    for (unsigned i = 0; i < n; i++)
        typed |= group[i].kind == TC_OPERAND_VALUE;
    bool as_stated = tc_op_infos[code].out[0] == '=' || code == TC_SELECT;
    if (!typed && stated && as_stated)
        return tc_type_elem(stated);
    if (!typed && letter_of(code, 0) == 'f')
        return tc_type_scalar(p->cx, TC_F32);
    return elem_of_all(p, n, group);
}

static bool fit_lanes(tc_parser *p, tc_opcode code, tc_loc loc,
                      const tc_operands *ops, const tc_type *stated,
                      tc_value **in)
{
    tc_operand *group = tc_arena_array(p->arena, tc_operand, ops->n);
    unsigned ngroup = group_of(code, ops, group);
    if (!check_one_elem(p, code, loc, ngroup, group) ||
        !check_literals(p, code, ngroup, group))
        return false;
    const tc_type *elem = group_elem(p, code, ngroup, group, stated);
    bool ok = true;
    for (unsigned i = 0; i < ops->n; i++) {
        const tc_type *wanted = is_in_group(code, i) ? elem : NULL;
        in[i] = tc_fit_value(p, &ops->all[i], wanted);
        ok &= in[i] != NULL;
    }
    if (!ok)
        return false;
    /* A scalar condition selects whole values. */
    bool whole = code == TC_SELECT && ops->n && in[0]->type->kind != TC_TILE;
    return tc_fit_shapes(p, tc_op_infos[code].name, loc, ops->n - whole,
                         ops->all + whole, in + whole, true);
}

/* The type that operand i has to have, where operand 0 says that. */
static const tc_type *wanted_type(tc_parser *p, char letter,
                                  const tc_type *first)
{
    bool memory =
        first->kind == TC_BLOCK_PTR || tc_type_elem(first)->kind == TC_PTR;
    if (!memory)
        return letter == '=' ? first : NULL;
    if (first->kind == TC_BLOCK_PTR)
        first = tc_type_shaped(p->cx, TC_TILE, first->rank, first->dims,
                               first->elem);
    else if (letter == 'e')
        first = tc_type_with_elem(p->cx, first, tc_type_elem(first)->elem);
    if (letter == '#')
        return tc_type_with_elem(p->cx, first, tc_type_scalar(p->cx, TC_I1));
    return letter == 'e' ? first : NULL;
}

static bool fit_each(tc_parser *p, tc_opcode code, tc_loc loc,
                     const tc_operands *ops, const tc_type *stated,
                     tc_value **in)
{
    bool ok = true;
    for (unsigned i = 0; i < ops->n; i++) {
        const tc_type *wanted = NULL;
        if ((code == TC_SPLAT || code == TC_RAMP) && stated)
            wanted = tc_type_elem(stated);
        else if (i && in[0])
            wanted = wanted_type(p, letter_of(code, i), in[0]->type);
        /* A literal is built as a scalar and then spread like any other. */
        in[i] =
            tc_fit_value(p, &ops->all[i], wanted ? tc_type_elem(wanted) : NULL);
        if (in[i] && i && wanted)
            in[i] = fit_to(p, loc, in[i], wanted);
        ok &= in[i] != NULL;
    }
    if (ok && (code == TC_GATHER || code == TC_BLOCK) && ops->n > 1)
        return tc_fit_shapes(p, tc_op_infos[code].name, loc, ops->n - 1,
                             ops->all + 1, in + 1, code == TC_GATHER);
    if (ok && code == TC_BROADCAST && ops->n == 1 && stated) {
        /* The op wants all axes there. */
        while (in[0] && in[0]->type->kind == TC_TILE &&
               in[0]->type->rank < stated->rank)
            in[0] = add_leading_axis(p, loc, in[0]);
        ok = in[0] != NULL;
    }
    return ok;
}

bool tc_fit_op(tc_parser *p, tc_opcode code, tc_loc loc, const tc_operands *ops,
               const tc_type *stated, tc_value **in)
{
    bool lanes = tc_op_infos[code].traits & TC_ELEMENTWISE;
    /* The literals of a poisoned op would only add to the list. */
    for (unsigned i = 0; i < ops->n; i++)
        if (ops->all[i].kind == TC_OPERAND_POISON)
            return false;
    return lanes ? fit_lanes(p, code, loc, ops, stated, in)
                 : fit_each(p, code, loc, ops, stated, in);
}
