/* SPDX-License-Identifier: Apache-2.0
 *
 * The signature of an op: checks operands against the letters of ops.def,
 * attributes against their declarations.
 *
 * Generic programs (names in types, before `bind-params`) pass if a name could
 * be bound to something right; they are checked again after it.
 */
#include "ir/fastmath.h"

#include <assert.h>
#include <string.h>

/* ---- Operands ---- */

static bool is_pointer(const tc_type *t)
{
    return tc_type_elem(t)->kind == TC_PTR;
}

/* A scalar or a tile: an operand of ops on lanes. */
static bool has_lanes(const tc_type *t)
{
    return tc_type_is_scalar(t) || t->kind == TC_TILE;
}

static const struct letter {
    char letter;
    const char *expected;
} letters[] = {
    {'f', "a float or a tile of floats"},
    {'i', "an int (i8 to i64) or a tile of ints"},
    {'n', "an int or float, or a tile of them"},
    {'b', "i1 or a tile of i1"},
    {'x', "a scalar or a tile"},
    {'l', "a scalar or a tile"},
    {'s', "a scalar i32 or i64"},
    {'c', "a scalar i1"},
    {'p', "a pointer or a tile of pointers"},
    {'t', "a tensor"},
    {'w', "a block pointer"},
    {'v', "a tile"},
    {'m', "a block pointer, a pointer or a tile of pointers"},
    {'k', "a buffer in shared memory"},
    {'h', "a ring of mbarriers"},
    {'o', "a tile or a buffer in shared memory"},
};

static const char *expected_of(char letter)
{
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (letters[i].letter == letter)
            return letters[i].expected;
    return "a value";
}

static bool is_of_kind(char letter, const tc_type *t)
{
    switch (letter) {
    case 'a': return true;
    case 'f': return has_lanes(t) && tc_type_is_float(t);
    case 'i': return has_lanes(t) && tc_type_is_int(t);
    case 'n': return has_lanes(t) && (tc_type_is_float(t) || tc_type_is_int(t));
    case 'b': return has_lanes(t) && tc_type_is_bool(t);
    case 'x': return has_lanes(t) && !tc_type_is_stored(t);
    case 'l': return has_lanes(t);
    case 's': return t->kind == TC_I32 || t->kind == TC_I64;
    case 'c': return t->kind == TC_I1;
    case 'p': return has_lanes(t) && is_pointer(t);
    case 't': return t->kind == TC_TENSOR;
    case 'w': return t->kind == TC_BLOCK_PTR;
    case 'v': return t->kind == TC_TILE;
    case 'm': return t->kind == TC_BLOCK_PTR || is_pointer(t);
    case 'k': return t->kind == TC_SMEM;
    case 'h': return t->kind == TC_MBARRIER;
    case 'o': return t->kind == TC_TILE || t->kind == TC_SMEM;
    default: assert(!"letter of ops.def"); return false;
    }
}

/* The one type that a letter stands for, given operand 0; else NULL. */
static const tc_type *exact_type(tc_context *cx, char letter,
                                 const tc_type *first)
{
    switch (letter) {
    case '=': return first;
    case 'e': return tc_type_pointee(cx, first);
    case '#':
        if (first->kind == TC_BLOCK_PTR)
            first = tc_type_pointee(cx, first);
        return tc_type_with_elem(cx, first, tc_type_scalar(cx, TC_I1));
    default: return NULL;
    }
}

/* ": " and what to write in place of an operand of another kind; or "". */
static const char *remedy_of(const tc_op *op, unsigned i, char letter)
{
    const tc_op *def = op->in[i]->def;
    if (letter == 'm' && def && def->code == TC_GATHER)
        return ": indices alone read elements, and one is stored through a "
               "window of side 1, `%t[%i +: 1]`";
    return tc_kind_is_stored(tc_type_elem(op->in[i]->type)->kind)
               ? ": cast it first, a storage type has no arithmetic"
               : "";
}

static bool check_operand(const tc_op *op, unsigned i, char letter)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *got = op->in[i]->type;
    if (letter == '@') {
        tc_kind k = tc_type_elem(got)->kind;
        if ((k == TC_I32 || k == TC_I64) &&
            tc_type_same_shape(got, op->in[0]->type))
            return true;
        return tc_error(cx, tc_op_in_loc(op, i),
                        "%s: operand %u is %s, expected i32 or i64 in the "
                        "shape of %s",
                        tc_op_name(op), i, tc_op_in_type(op, i),
                        tc_op_in_type(op, 0));
    }
    const tc_type *want = exact_type(cx, letter, op->in[0]->type);
    /* A block pointer leaves the layout to the tile. */
    if (want && op->in[0]->type->kind == TC_BLOCK_PTR && got->layout)
        want = tc_type_same_sides(want, got)
                   ? tc_type_with_layout(cx, want, got->layout)
                   : want;
    if (want && want != got) {
        const char *index = tc_type_index_to(&cx->diag_arena, got, want);
        return tc_error(cx, tc_op_in_loc(op, i),
                        "%s: operand %u is %s, expected %s%s%s", tc_op_name(op),
                        i, tc_op_in_type(op, i), tc_type_name(cx, want),
                        index ? ": index it with " : "", index ? index : "");
    }
    if (!want && !is_of_kind(letter, got))
        return tc_error(cx, tc_op_in_loc(op, i),
                        "%s: operand %u is %s, expected %s%s", tc_op_name(op),
                        i, tc_op_in_type(op, i), expected_of(letter),
                        remedy_of(op, i, letter));
    return true;
}

/* How many operands the letters ask for; *most is UINT_MAX after a `*`. */
static unsigned operand_counts(const char *in, unsigned *most)
{
    unsigned least = 0;
    *most = 0;
    for (; *in; in++) {
        if (in[1] == '*') {
            *most = ~0u;
            return least;
        }
        ++*most;
        if (in[1] == '?')
            in++;
        else
            least++;
    }
    return least;
}

static bool check_operands(const tc_op *op)
{
    const char *in = tc_op_infos[op->code].in;
    unsigned most, least = operand_counts(in, &most);
    if (op->nin < least || op->nin > most)
        return tc_error(tc_op_context(op), op->loc,
                        "%s: %u operand%s, expected %s%u", tc_op_name(op),
                        op->nin, op->nin == 1 ? "" : "s",
                        most == least     ? ""
                        : op->nin < least ? "at least "
                                          : "at most ",
                        op->nin < least ? least : most);
    bool ok = true;
    for (unsigned i = 0; i < op->nin; i++) {
        /* Operands 1, 2, ... are compared with the first only if it fits. */
        if (!check_operand(op, i, *in)) {
            ok = false;
            if (i == 0)
                return false;
        }
        if (in[1] == '?')
            in += 2;
        else if (in[1] != '*')
            in++;
    }
    return ok;
}

/* ---- Attributes ---- */

static bool check_flags(const tc_op *op, const tc_attr_decl *d, unsigned flags)
{
    tc_context *cx = tc_op_context(op);
    tc_text text = {.arena = &cx->diag_arena};
    if (flags & ~d->flags) {
        tc_fastmath_print(&text, d->flags);
        return tc_error(cx, op->loc, "%s: %s: unknown flags, expected %s",
                        tc_op_name(op), d->name, text.data);
    }
    const tc_type *type = op->nin ? op->in[0]->type : NULL;
    if (!type || tc_op_is_call(op))
        return true;
    tc_kind kind = tc_type_elem(type)->kind;
    return kind > TC_LAST_SCALAR || tc_scalar_infos[kind].is_float ||
           tc_error(cx, op->loc, "%s: %s is for floats, operand 0 is %s",
                    tc_op_name(op), d->name, tc_op_in_type(op, 0));
}

static bool check_attr(const tc_op *op, unsigned i)
{
    tc_context *cx = tc_op_context(op);
    tc_attr_decl d = tc_op_attr_decl(op->code, i);
    const tc_attr *a = &op->attrs[i];
    if (a->kind == TC_ATTR_NONE)
        return d.optional ||
               tc_error(cx, op->loc, "%s: attribute `%s` is missing",
                        tc_op_name(op), d.name);
    if (a->kind != d.kind)
        return tc_error(cx, op->loc, "%s: attribute `%s` has the wrong kind",
                        tc_op_name(op), d.name);
    if (d.kind == TC_ATTR_FLAGS)
        return check_flags(op, &d, (unsigned)a->i);
    if (d.words && !tc_words_have(d.words, a->s))
        return tc_error(
            cx, op->loc, "%s: %s(%s) is not known, expected one of %.*s",
            tc_op_name(op), d.name, a->s, (int)strcspn(d.words, " "), d.words);
    return true;
}

bool tc_op_check_signature(const tc_op *op)
{
    bool ok = check_operands(op);
    unsigned n = tc_op_nattrs(op->code);
    for (unsigned i = 0; i < n; i++)
        ok &= check_attr(op, i);
    return ok;
}
