/* SPDX-License-Identifier: Apache-2.0
 *
 * Terminators, and the rules of single ops (verify.c, rules 21 to 34).
 * Operands, attributes and types are known to fit the signature here.
 */
#include "ir/eval/eval.h"
#include "ir/eval/stored.h"
#include "ir/types/layout.h"
#include "ir/verify/verify.h"

#include <math.h>
#include <string.h>

static const char *type_name(const tc_verifier *v, const tc_type *t)
{
    return t ? tc_type_name(v->cx, t) : "no type";
}

/* ---- Regions and what they hand over ---- */

const char *tc_region_name(tc_context *cx, const tc_region *r)
{
    tc_arena *a = &cx->diag_arena;
    if (!r->op)
        return tc_arena_printf(a, "%s of @%s",
                               r == r->func->grid ? "grid" : "body",
                               r->func->name);
    unsigned i = 0;
    while (i < r->op->nregions && r->op->regions[i] != r)
        i++;
    return tc_arena_printf(a, "%s: region %u", tc_op_name(r->op), i);
}

tc_opcode tc_expected_terminator(const tc_region *r)
{
    if (!r->op)
        return r == r->func->grid ? TC_YIELD : TC_RETURN;
    bool condition = r->op->code == TC_WHILE && r == r->op->regions[0];
    return condition ? TC_CONDITION : TC_YIELD;
}

bool tc_verify_region_count(const tc_verifier *v, const tc_op *op, unsigned n)
{
    return op->nregions == n ||
           tc_error(v->cx, op->loc, "%s: %u region%s, expected %u",
                    tc_op_name(op), op->nregions, op->nregions == 1 ? "" : "s",
                    n);
}

bool tc_verify_arg_count(const tc_verifier *v, const tc_region *r, unsigned n)
{
    return r->nargs == n ||
           tc_error(v->cx, r->op->loc, "%s has %u argument%s, expected %u",
                    tc_region_name(v->cx, r), r->nargs,
                    r->nargs == 1 ? "" : "s", n);
}

static bool check_arg_type(const tc_verifier *v, const tc_region *r, unsigned i,
                           const tc_type *want)
{
    const tc_type *got = r->args[i] ? r->args[i]->type : NULL;
    return got == want ||
           tc_error(v->cx, r->op->loc, "%s: argument %u is %s, expected %s",
                    tc_region_name(v->cx, r), i, type_name(v, got),
                    type_name(v, want));
}

/* The rules for the values that a terminator hands to op: value `i` of `n` of
 * type `got`. */
static bool check_handed_count(const tc_verifier *v, const tc_op *op,
                               unsigned n, const char *to)
{
    return op->nin == n ||
           tc_error(v->cx, op->loc, "%s: %u value%s, expected %u for %s",
                    tc_op_name(op), op->nin, op->nin == 1 ? "" : "s", n, to);
}

static bool check_handed_type(const tc_verifier *v, const tc_op *op, unsigned i,
                              const tc_type *want, const char *to)
{
    return op->in[i]->type == want ||
           tc_error(v->cx, tc_op_in_loc(op, i),
                    "%s: value %u is %s, expected %s for %s", tc_op_name(op), i,
                    type_name(v, op->in[i]->type), type_name(v, want), to);
}

static bool check_return(const tc_verifier *v, const tc_op *op)
{
    const tc_func *f = v->f;
    const char *to =
        tc_arena_printf(&v->cx->diag_arena, "%s @%s", tc_func_word(f), f->name);
    if (!check_handed_count(v, op, f->nresults, to))
        return false;
    bool ok = true;
    for (unsigned i = 0; i < f->nresults; i++)
        ok &= check_handed_type(v, op, i, f->results[i], to);
    return ok;
}

static bool check_grid_yield(const tc_verifier *v, const tc_op *op)
{
    if (op->nin < 1 || op->nin > TC_MAX_GRID_AXES)
        return tc_error(v->cx, op->loc, "yield: %u grid axes, expected 1 to %d",
                        op->nin, TC_MAX_GRID_AXES);
    bool ok = true;
    for (unsigned i = 0; i < op->nin; i++)
        ok &= check_handed_type(v, op, i, tc_type_scalar(v->cx, TC_I32),
                                "a grid axis");
    return ok;
}

static bool check_yield(const tc_verifier *v, const tc_op *op)
{
    const tc_op *owner = op->parent->op;
    if (!owner)
        return check_grid_yield(v, op);
    bool combines = tc_op_combines(owner);
    unsigned n = combines ? tc_op_ncombined(owner) : owner->nout;
    const char *to =
        tc_arena_printf(&v->cx->diag_arena, "the `%s`", tc_op_name(owner));
    if (!check_handed_count(v, op, n, to))
        return false;
    bool ok = true;
    for (unsigned i = 0; i < n; i++) {
        const tc_value *want = combines ? owner->in[i] : owner->out[i];
        const tc_type *t = want ? want->type : NULL;
        if (t)
            ok &=
                check_handed_type(v, op, i, combines ? tc_type_elem(t) : t, to);
    }
    return ok;
}

bool tc_verify_terminator(const tc_verifier *v, const tc_op *op)
{
    /* A wrong or misplaced one was reported as such. */
    if (op != op->parent->last ||
        op->code != tc_expected_terminator(op->parent))
        return true;
    switch (op->code) {
    case TC_RETURN: return check_return(v, op);
    case TC_YIELD: return check_yield(v, op);
    default: return true;
    }
}

/* ---- Where a block pointer comes from ---- */

/* Beyond that many steps the program is broken, or not worth a look. */
enum { MOST_STEPS = 256 };

/* The initial value of a carried one, NULL if `value` is none. */
static const tc_value *initial(const tc_value *value)
{
    const tc_op *op = value->def      ? value->def
                      : value->region ? value->region->op
                                      : NULL;
    if (!op || (op->code != TC_FOR && op->code != TC_WHILE))
        return NULL;
    bool is_for = op->code == TC_FOR;
    unsigned skip = is_for ? 3 : 0;
    unsigned i = value->index;
    if (is_for && !value->def)
        i--; /* the induction variable is an int */
    return i + skip < op->nin ? op->in[i + skip] : NULL;
}

/* The tensor that a block pointer is a window on; NULL: not known. */
static const tc_value *tensor_of(const tc_value *value)
{
    for (int steps = 0; value && steps < MOST_STEPS; steps++) {
        const tc_op *op = value->def;
        if (op && op->code == TC_BLOCK)
            return op->nin ? op->in[0] : NULL;
        if (op && op->code == TC_ADVANCE)
            value = op->nin ? op->in[0] : NULL;
        else
            value = initial(value);
    }
    return NULL;
}

/* A carried block pointer may move, but stays on its tensor. */
static bool check_windows(const tc_verifier *v, const tc_op *op,
                          const tc_region *r, unsigned skip)
{
    const tc_op *yield = r->last;
    bool ok = true;
    if (!yield || yield->code != TC_YIELD)
        return true;
    for (unsigned i = 0; i < yield->nin && i + skip < op->nin; i++) {
        if (op->in[i + skip]->type->kind != TC_BLOCK_PTR || !yield->in[i])
            continue;
        const tc_value *from = tensor_of(op->in[i + skip]);
        const tc_value *to = tensor_of(yield->in[i]);
        if (from && to && from != to)
            ok = tc_error(v->cx, yield->loc,
                          "%s: carried block pointer %u moves from %s to %s, "
                          "expected a window on one tensor",
                          tc_op_name(op), i, tc_value_name(v->cx, from),
                          tc_value_name(v->cx, to));
    }
    return ok;
}

/* ---- Structure ---- */

/* Warp groups take turns at products that run into the next step. */
static bool check_turns(const tc_verifier *v, const tc_op *op)
{
    const char *turns = tc_op_word(op, "pingpong");
    const char *schedule = tc_op_word(op, "schedule");
    bool overlaps =
        strcmp(schedule, "auto") == 0 || strcmp(schedule, "modulo") == 0;
    return overlaps || strcmp(turns, "auto") == 0 ||
           strcmp(turns, "none") == 0 ||
           tc_error(
               v->cx, op->loc,
               "for: pingpong(%s) needs products that run into the next "
               "step, which schedule(%s) has none of: write pingpong(none)",
               turns, schedule);
}

/* Tiles are the outermost iterations of a program. */
static bool check_over_tiles(const tc_verifier *v, const tc_op *op)
{
    const tc_op *around = op->parent->op;
    while (around && !tc_op_is_loop(around))
        around = around->parent->op;
    return !tc_op_int(op, "over_tiles") || !around ||
           tc_op_int(around, "over_tiles") ||
           tc_error(v->cx, op->loc,
                    "%s: over_tiles(true) stands in a loop without it, "
                    "expected tiles of the grid to be the outermost loop",
                    tc_op_name(op));
}

static bool check_for(const tc_verifier *v, const tc_op *op)
{
    if (!tc_verify_region_count(v, op, 1) ||
        !tc_verify_arg_count(v, op->regions[0], op->nin - 2))
        return false;
    const tc_region *r = op->regions[0];
    bool ok = check_arg_type(v, r, 0, op->in[0]->type);
    for (unsigned i = 3; i < op->nin; i++)
        ok &= check_arg_type(v, r, i - 2, op->in[i]->type);
    const tc_op *step = op->in[2]->def;
    if (step && step->code == TC_CONST &&
        step->attrs[0].kind == TC_ATTR_NUMBER && step->attrs[0].number.i <= 0)
        ok = tc_error(v->cx, tc_op_in_loc(op, 2),
                      "for: step is %lld, expected more than 0",
                      (long long)step->attrs[0].number.i);
    if (tc_op_has_attr(op, "stages") && tc_op_int(op, "stages") < 1)
        ok = tc_error(v->cx, op->loc, "for: stages is %lld, expected 1 or more",
                      (long long)tc_op_int(op, "stages"));
    return check_turns(v, op) && check_over_tiles(v, op) &&
           check_windows(v, op, r, 3) && ok;
}

static bool check_if(const tc_verifier *v, const tc_op *op)
{
    bool ok = tc_verify_region_count(v, op, 2) &&
              tc_verify_arg_count(v, op->regions[0], 0) &
                  tc_verify_arg_count(v, op->regions[1], 0);
    for (unsigned i = 0; i < op->nout; i++)
        if (op->out[i]->type->kind == TC_BLOCK_PTR)
            ok = tc_error(v->cx, op->loc,
                          "if: result %u is a block pointer, expected none (a "
                          "block pointer is a window on one tensor; choose "
                          "its offsets)",
                          i);
    return ok;
}

static bool check_while(const tc_verifier *v, const tc_op *op)
{
    if (!tc_verify_region_count(v, op, 2) ||
        !tc_verify_arg_count(v, op->regions[0], op->nin))
        return false;
    bool ok = tc_verify_arg_count(v, op->regions[1], 0);
    for (unsigned i = 0; i < op->nin; i++)
        ok &= check_arg_type(v, op->regions[0], i, op->in[i]->type);
    return check_over_tiles(v, op) && check_windows(v, op, op->regions[1], 0) &&
           ok;
}

static bool check_combiner(const tc_verifier *v, const tc_op *op)
{
    unsigned n = tc_op_ncombined(op);
    /* tc_op_check_results: a kind or a region, not both. */
    if (op->nregions == 0)
        return true;
    if (!tc_verify_region_count(v, op, 1) ||
        !tc_verify_arg_count(v, op->regions[0], 2 * n))
        return false;
    bool ok = true;
    for (unsigned i = 0; i < 2 * n; i++)
        ok &= check_arg_type(v, op->regions[0], i,
                             tc_type_elem(op->in[i % n]->type));
    return ok;
}

static bool check_distinct(const tc_verifier *v, const tc_op *op,
                           const char *attr)
{
    const tc_attr *names = tc_op_attr(op, attr);
    for (unsigned i = 0; i < names->n; i++)
        for (unsigned k = 0; k < i; k++)
            if (strcmp(names->strings[i], names->strings[k]) == 0)
                return tc_error(v->cx, op->loc,
                                "%s: argument `%s` is given twice",
                                tc_op_name(op), names->strings[i]);
    return true;
}

/* The parts of a call that tc_op_check_results takes for granted. */
static bool check_call(const tc_verifier *v, const tc_op *op)
{
    const tc_attr *names = tc_op_attr(op, "names");
    if (names->n > op->nin)
        return tc_error(v->cx, op->loc,
                        "%s: %u argument names, expected at most %u",
                        tc_op_name(op), names->n, op->nin);
    if (!check_distinct(v, op, "names") ||
        (op->code == TC_VJP && !check_distinct(v, op, "into")))
        return false;
    const char *callee = tc_op_word(op, "callee");
    const tc_func *f = tc_op_callee(op);
    bool ok = !f || f->body;
    for (unsigned i = 0; f && f->body && i < f->body->nargs; i++)
        ok &= !tc_type_problem(f, f->body->args[i]->type);
    for (unsigned i = 0; f && i < f->nresults; i++)
        ok &= !tc_type_problem(f, f->results[i]);
    return ok || tc_error(v->cx, op->loc,
                          "%s: the types of %s's parameters or results are "
                          "wrong, expected them to be right",
                          tc_op_name(op), callee);
}

/* ---- Numbers ---- */

/* Whether a literal can stand for a value of the kind. Floats are rounded, but
 * must not become infinite (or saturate) by it. */
static bool number_fits(tc_number n, tc_kind kind)
{
    int64_t code;
    if (kind == TC_TYPE_PARAM)
        return true;
    if (tc_kind_is_stored(kind))
        return tc_stored_code(kind, n, &code);
    const tc_scalar_info *info = &tc_scalar_infos[kind];
    if (!info->is_float) {
        int64_t i = n.i;
        if (n.is_float)
            return false;
        return kind == TC_I1 ? i == 0 || i == 1 : tc_int_wrap(kind, i) == i;
    }
    double x = n.is_float ? n.f : (double)n.i;
    if (isnan(x))
        return true;
    if (isinf(x))
        return kind != TC_F8E4M3;
    /* Rounding to fp8 saturates, which a literal should not do unseen. */
    double largest = tc_kind_is_f8(kind) ? tc_round_to(kind, 1e30) : INFINITY;
    return fabs(x) <= largest && isfinite(tc_round_to(kind, x));
}

static const char *number_name(const tc_verifier *v, tc_number n)
{
    tc_text out = {.arena = &v->cx->diag_arena};
    if (n.is_float)
        tc_number_print(&out, n.f, TC_F64);
    else
        tc_text_printf(&out, "%lld", (long long)n.i);
    return out.data;
}

bool tc_verify_fits(const tc_verifier *v, const tc_op *op, const char *what,
                    tc_number n, const tc_type *elem)
{
    /* A float literal of an int type is told apart by tc_op_check_results. */
    return number_fits(n, elem->kind) ||
           tc_error(v->cx, op->loc, "%s: %s%s does not fit %s", tc_op_name(op),
                    what, number_name(v, n), tc_type_name(v->cx, elem));
}

static bool check_const(const tc_verifier *v, const tc_op *op)
{
    const tc_type *t = op->nout == 1 ? op->out[0]->type : NULL;
    tc_number n = tc_op_attr(op, "value")->number;
    /* Other types, other mistakes: see rule_const in infer.c. */
    if (!t || t->kind > TC_LAST_SCALAR || (n.is_float && !tc_type_is_float(t)))
        return true;
    return tc_verify_fits(v, op, "", n, t);
}

static bool check_dim(const tc_verifier *v, const tc_op *op)
{
    const tc_attr *a = tc_op_attr(op, "value");
    const tc_dim *d = a->n == 1 ? a->dims[0] : NULL;
    if (!d || d->kind != TC_DIM_CONST ||
        (d->value >= INT32_MIN && d->value <= INT32_MAX))
        return true;
    return tc_error(v->cx, op->loc, "dim: %lld does not fit i32",
                    (long long)d->value);
}

/* ---- Memory ---- */

bool tc_verify_boundary(const tc_verifier *v, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    if (!tc_op_has_attr(op, "boundary"))
        return true;
    if (t->kind != TC_BLOCK_PTR)
        return tc_error(v->cx, op->loc,
                        "%s: boundary is given for %s, expected a block "
                        "pointer (pointers take a mask)",
                        tc_op_name(op), tc_type_name(v->cx, t));
    const tc_attr *a = tc_op_attr(op, "boundary");
    const tc_op *block = op->in[0]->def;
    int64_t indices =
        block && block->code == TC_BLOCK ? tc_block_index_rank(block) : 0;
    unsigned seen = 0;
    for (unsigned i = 0; i < a->n; i++) {
        if (a->ints[i] < 0 || a->ints[i] >= t->rank)
            return tc_error(v->cx, op->loc,
                            "%s: boundary axis %lld is out of range, expected "
                            "0 to %d, an axis of %s",
                            tc_op_name(op), (long long)a->ints[i],
                            (int)t->rank - 1, tc_type_name(v->cx, t));
        if (a->ints[i] < indices)
            return tc_error(v->cx, op->loc,
                            "%s: boundary axis %lld is one of the window's "
                            "indices, which are always checked: leave it out",
                            tc_op_name(op), (long long)a->ints[i]);
        if (seen & 1u << a->ints[i])
            return tc_error(v->cx, op->loc,
                            "%s: boundary axis %lld is given twice",
                            tc_op_name(op), (long long)a->ints[i]);
        seen |= 1u << a->ints[i];
    }
    return true;
}

static bool pad_fits(const tc_verifier *v, const tc_op *op, const tc_type *elem)
{
    const tc_attr *pad = tc_op_attr(op, "pad");
    if (pad->kind == TC_ATTR_NONE)
        return true;
    if (elem->kind == TC_PTR)
        return tc_error(v->cx, op->loc,
                        "%s: a pad is given for pointers, expected ints or "
                        "floats",
                        tc_op_name(op));
    return tc_verify_fits(v, op, "pad ", pad->number, elem);
}

static bool check_pad(const tc_verifier *v, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    return pad_fits(v, op, t->kind == TC_TILE ? t->elem->elem : t->elem);
}

static bool check_take(const tc_verifier *v, const tc_op *op)
{
    return pad_fits(v, op, op->in[0]->type->elem);
}

bool tc_verify_places(const tc_verifier *v, const tc_op *op,
                      const tc_layout *layout)
{
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_type *t = op->in[i]->type;
        if (t->kind == TC_TILE && t->layout != layout)
            return tc_error(
                v->cx, op->loc, "%s: operand %u is %s, expected %s",
                tc_op_name(op), i, tc_type_name(v->cx, t),
                tc_type_name(v->cx, tc_type_with_layout(v->cx, t, layout)));
    }
    return true;
}

static bool check_load(const tc_verifier *v, const tc_op *op)
{
    return tc_verify_places(v, op, op->out[0]->type->layout) &
           tc_verify_boundary(v, op) & check_pad(v, op);
}

/* The types that GPUs add to memory in one step. */
static bool check_store(const tc_verifier *v, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    const tc_type *elem =
        t->kind == TC_BLOCK_PTR ? t->elem : tc_type_elem(t)->elem;
    bool fits = !tc_op_is_word(op, "kind", "add") ||
                elem->kind == TC_TYPE_PARAM || elem->kind == TC_I32 ||
                elem->kind == TC_I64 || elem->kind == TC_F32 ||
                elem->kind == TC_F64;
    if (!fits)
        tc_error(v->cx, op->loc,
                 "store: kind(add) to %s, expected i32, i64, f32 or f64",
                 tc_type_name(v->cx, elem));
    const char *cache = tc_op_hint(op, "cache");
    bool said = !cache || !tc_op_is_word(op, "kind", "add");
    if (!said)
        tc_error(v->cx, op->loc,
                 "store: cache(%s) with kind(add), which adds in the L2 cache: "
                 "of the hints it has evict only",
                 cache);
    return tc_verify_places(v, op, op->in[1]->type->layout) &
           tc_verify_boundary(v, op) & fits & said;
}

/* Operands `first` and the next one, and the step after them. */
bool tc_verify_follow(const tc_verifier *v, const tc_op *op, unsigned first)
{
    for (unsigned i = first; i < op->nin; i++) {
        const tc_type *t = op->in[i]->type;
        bool is_step = i == first + 2;
        if (is_step ? t->kind != TC_I32
                    : t->kind != TC_PTR || t->elem->kind != TC_I32)
            return tc_error(v->cx, tc_op_in_loc(op, i),
                            "%s: operand %u is %s, expected %s", tc_op_name(op),
                            i, tc_type_name(v->cx, t),
                            is_step ? "i32" : "ptr<i32>");
    }
    return true;
}

static bool check_follow(const tc_verifier *v, const tc_op *op)
{
    return tc_verify_follow(v, op, 0);
}

static bool check_advance(const tc_verifier *v, const tc_op *op)
{
    const tc_value *tensor = tensor_of(op->in[0]);
    unsigned noffsets = op->nin - 1;
    if (tensor && tensor->type && tensor->type->kind == TC_TENSOR &&
        noffsets != tensor->type->rank)
        return tc_error(
            v->cx, op->loc,
            "advance: %u given, expected %u offsets, one a dim of %s", noffsets,
            tensor->type->rank, tc_type_name(v->cx, tensor->type));
    /* From a parameter: the tensor is not known, but has these dims at least.
     */
    unsigned least = op->in[0]->type->rank;
    return noffsets >= least ||
           tc_error(
               v->cx, op->loc,
               "advance: %u given, expected an offset a dim of the tensor, "
               "%u or more",
               noffsets, least);
}

/* The windows of indices lie where they are made. */
static bool check_block(const tc_verifier *v, const tc_op *op)
{
    bool ok = true;
    if (!tc_block_index(op))
        return true;
    tc_each_use (u, op->out[0])
        if (u->op->code == TC_ADVANCE || tc_op_is_loop(u->op) ||
            u->op->code == TC_YIELD)
            ok = tc_error(v->cx, tc_op_in_loc(u->op, u->index),
                          "%s: operand %u is a window by indices, which cannot "
                          "move: compute the indices, and make the block "
                          "where it is accessed",
                          tc_op_name(u->op), u->index);
    return ok;
}

/* The atomics that GPUs can do in one step. */
static bool check_atomic(const tc_verifier *v, const tc_op *op)
{
    const tc_type *elem = tc_type_elem(op->in[0]->type)->elem;
    bool fits = elem->kind == TC_TYPE_PARAM || elem->kind == TC_I32 ||
                elem->kind == TC_I64 ||
                (elem->kind >= TC_F16 && elem->kind <= TC_F64);
    return fits ||
           tc_error(v->cx, op->loc,
                    "%s: elements are %s, expected i32, i64, f16, bf16, f32 or "
                    "f64",
                    tc_op_name(op), tc_type_name(v->cx, elem));
}

static bool check_select(const tc_verifier *v, const tc_op *op)
{
    tc_kind k = op->in[1]->type->kind;
    return (k != TC_BLOCK_PTR && k != TC_TENSOR && k != TC_SMEM) ||
           tc_error(v->cx, op->loc,
                    "select: operands are %s, expected scalars or tiles (of a "
                    "block pointer choose the offsets)",
                    tc_type_name(v->cx, op->in[1]->type));
}

static bool check_program(const tc_verifier *v, const tc_op *op)
{
    bool named = tc_op_int(op, "of_program");
    bool ok = !named || op->nin >= TC_GRID_AXES;
    for (unsigned i = 0; named && ok && i < TC_GRID_AXES; i++)
        ok = op->in[op->nin - 1 - i]->type->kind == TC_I32;
    return ok || tc_error(v->cx, op->loc,
                          "%s: of_program, expected the three numbers of the "
                          "program, i32, as its last operands",
                          tc_op_name(op));
}

static bool check_assert(const tc_verifier *v, const tc_op *op)
{
    if (!check_program(v, op))
        return false;
    return tc_op_nreported(op) == 1 ||
           tc_error(v->cx, op->loc,
                    "assert: %u operands, expected one condition",
                    tc_op_nreported(op));
}

static bool check_print(const tc_verifier *v, const tc_op *op)
{
    bool ok = check_program(v, op);
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_type *t = op->in[i]->type;
        bool staged = t->kind == TC_SMEM && op->func->warps;
        if (t->kind != TC_TILE && !staged && !tc_type_is_scalar(t))
            ok = tc_error(v->cx, tc_op_in_loc(op, i),
                          "print: operand %u is %s, expected a scalar or a "
                          "tile",
                          i, tc_type_name(v->cx, t));
    }
    return ok;
}

/* All threads of the program go the same way, and none waits for another. */
static bool check_exit_if(const tc_verifier *v, const tc_op *op)
{
    bool ends = op->func->is_kernel && op->parent == op->func->body;
    if (!ends || op->in[0]->type->kind == TC_TILE)
        return tc_error(v->cx, op->loc,
                        "exit_if: %s, expected a scalar, in the body of a "
                        "kernel",
                        ends ? "of a tile" : "in a region or a function");
    return true;
}

/* What goes out of a loop early is what it carries. */
static bool check_break_if(const tc_verifier *v, const tc_op *op)
{
    const tc_op *loop = op->parent->op;
    if (!loop || loop->code != TC_FOR)
        return tc_error(
            v->cx, op->loc,
            "break_if: in %s, expected it in a `for`, not in a "
            "region inside: let the region yield the condition",
            loop ? tc_arena_printf(&v->cx->diag_arena, "`%s`", tc_op_name(loop))
                 : "a body");
    if (tc_op_int(loop, "over_tiles"))
        return tc_error(v->cx, op->loc,
                        "break_if: in a loop over tiles, expected one whose "
                        "steps run in their order");
    if (op->nin > 1 && op->nin - 1 != loop->nout)
        return tc_error(v->cx, op->loc,
                        "break_if: %u values, expected %u, as the loop "
                        "carries, or none",
                        op->nin - 1, loop->nout);
    bool ok = true;
    for (unsigned i = 0; i < loop->nout; i++) {
        if (loop->out[i]->type->kind == TC_BLOCK_PTR)
            ok = tc_error(v->cx, op->loc,
                          "break_if: the loop carries a block pointer, "
                          "expected none: carry its offsets");
        else if (op->nin > 1)
            ok &= check_handed_type(v, op, 1 + i, loop->out[i]->type,
                                    "the `for`");
    }
    return ok;
}

/* ---- The table ---- */

typedef bool check_fn(const tc_verifier *v, const tc_op *op);

static check_fn *const extra[TC_OPCODE_COUNT] = {
    [TC_BLOCK] = check_block,
    [TC_FOR] = check_for,
    [TC_IF] = check_if,
    [TC_WHILE] = check_while,
    [TC_REDUCE] = check_combiner,
    [TC_SCAN] = check_combiner,
    [TC_SCAN_CARRY] = check_combiner,
    [TC_CALL] = check_call,
    [TC_CONST] = check_const,
    [TC_DIM] = check_dim,
    [TC_ADVANCE] = check_advance,
    [TC_LOAD] = check_load,
    [TC_STORE] = check_store,
    [TC_GATHER] = check_pad,
    [TC_TAKE] = check_take,
    [TC_SMEM_TAKE] = check_take,
    [TC_ATOMIC] = check_atomic,
    [TC_ATOMIC_CAS] = check_atomic,
    [TC_SELECT] = check_select,
    [TC_ASSERT] = check_assert,
    [TC_PRINT] = check_print,
    [TC_EXIT_IF] = check_exit_if,
    [TC_BREAK_IF] = check_break_if,
    [TC_VJP] = check_call,
    [TC_WORKSPACE] = tc_verify_workspace,
    [TC_FILL] = tc_verify_fill,
    [TC_LAUNCH] = tc_verify_launch,
    [TC_FOLLOW] = check_follow,
    [TC_FOLLOW_END] = check_follow,
};

static bool owns_regions(const tc_op *op)
{
    return op->code == TC_FOR || op->code == TC_IF || op->code == TC_WHILE ||
           tc_op_combines(op) || op->code == TC_WARP_GROUPS;
}

bool tc_verify_op_rules(const tc_verifier *v, const tc_op *op)
{
    if (!owns_regions(op) && !tc_verify_region_count(v, op, 0))
        return false;
    if (op->place && !op->func->warps)
        return tc_error(v->cx, op->loc,
                        "%s: stage(%u) place(%u), expected it in a kernel with "
                        "warps and layouts: `tilec opt -p gpu-schedule` makes "
                        "it",
                        tc_op_name(op), op->stage, op->place - 1);
    return (!extra[op->code] || extra[op->code](v, op)) &&
           tc_verify_machine_op(v, op);
}
