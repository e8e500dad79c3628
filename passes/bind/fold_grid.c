/* SPDX-License-Identifier: Apache-2.0
 *
 * A grid of more than three axes becomes one of three: the third counts the
 * programs along all that follow the second.
 *
 *   kernel @k(%n: i32) grid {            kernel @k(%n: i32) grid {
 *     yield 4, 5, %n, 7                    %m = %n * 7 (asserted to fit)
 *   } {                                    yield 4, 5, %m
 *     %i = program_id axis(2)            } {
 *     %j = program_id axis(3)              %r = program_id axis(2)
 *                                          %i = %r % %n
 *                                          %j = %r / %n
 *
 * The body computes the sizes anew, from the arguments. Along an axis that the
 * grid does not have, the index is 0 and the number of programs 1.
 */
#include "passes/bind/fold_grid.h"

#include "passes/analysis/match.h"

enum { LAST = TC_GRID_AXES - 1 };

typedef struct fold {
    tc_func *f;
    tc_context *cx;
    unsigned n; /* axes of the grid */
    /* In the body, of axes LAST and above: */
    tc_value *sizes[TC_MAX_GRID_AXES], *ids[TC_MAX_GRID_AXES];
} fold;

static bool is_of_axis(const tc_op *op, tc_opcode code, unsigned least)
{
    return op->code == code && tc_op_int(op, "axis") >= least;
}

static bool names_more_axes(const tc_region *body)
{
    tc_each_nested (op, body)
        if (is_of_axis(op, TC_PROGRAM_ID, TC_GRID_AXES) ||
            is_of_axis(op, TC_NUM_PROGRAMS, TC_GRID_AXES))
            return true;
    return false;
}

bool tc_grid_is_folded(const tc_func *f)
{
    return tc_region_terminator(f->grid)->nin <= TC_GRID_AXES &&
           !names_more_axes(f->body);
}

/* ---- The sizes, in the body ---- */

/* An assert stays in the grid, and num_sms is known to the host alone. */
static bool can_copy(const tc_op *op)
{
    bool ok = tc_op_has(op, TC_PURE) && op->code != TC_NUM_SMS;
    for (unsigned i = 0; i < op->nin; i++)
        ok &= op->in[i]->data != NULL;
    return ok;
}

static bool copy_sizes(fold *s)
{
    tc_region *grid = s->f->grid;
    tc_op *first = s->f->body->first, *yield = tc_region_terminator(grid);
    bool ok = true;
    tc_region_clear_data(grid);
    for (unsigned i = 0; i < grid->nargs; i++)
        grid->args[i]->data = s->f->body->args[i];
    tc_each_op (op, grid)
        if (can_copy(op))
            tc_op_insert(tc_op_clone(s->f, op), s->f->body, first);
    for (unsigned i = LAST; ok && i < s->n; i++) {
        s->sizes[i] = yield->in[i]->data;
        if (!s->sizes[i])
            ok = tc_error(s->cx, yield->loc,
                          "grid axis %u depends on num_sms, expected that of "
                          "axes 0 and 1 alone, where there are more than three",
                          i);
    }
    tc_region_clear_data(grid);
    return ok;
}

/* ---- The indices ---- */

static void split_index(fold *s, tc_op *before)
{
    tc_builder b = tc_builder_before(before);
    tc_value *rest = tc_build_at(&b, TC_PROGRAM_ID, NULL, "axis", LAST);
    for (unsigned i = LAST; i + 1 < s->n; i++) {
        s->ids[i] = tc_build_binary(&b, TC_REM, rest, s->sizes[i]);
        rest = tc_build_binary(&b, TC_DIV, rest, s->sizes[i]);
    }
    s->ids[s->n - 1] = rest;
}

/* `of`: by axis; otherwise `missing`. */
static void replace(fold *s, tc_op *op, tc_value *const *of, int64_t missing)
{
    int64_t axis = tc_op_int(op, "axis");
    tc_builder b = tc_builder_before(op);
    tc_value *with = axis < s->n
                         ? of[axis]
                         : tc_build_int_const(&b, op->out[0]->type, missing);
    tc_value_replace(op->out[0], with);
    tc_op_erase(op);
}

/* Those of axis `least` and above, from the op `first` on: those before it
 * compute sizes and indices. */
static void replace_all(fold *s, tc_op *first, unsigned least)
{
    for (tc_op *op = first, *next; op; op = next) {
        next = tc_op_next_nested(op, s->f->body);
        if (is_of_axis(op, TC_PROGRAM_ID, least))
            replace(s, op, s->ids, 0);
        else if (is_of_axis(op, TC_NUM_PROGRAMS, least))
            replace(s, op, s->sizes, 1);
    }
}

/* ---- The grid ---- */

/* The number of programs along axes LAST and above. */
static tc_value *multiply(fold *s, tc_builder *b, const tc_op *yield)
{
    tc_value *zero = tc_build_i32(b, 0), *most = tc_build_i64(b, INT32_MAX),
             *total = NULL;
    for (unsigned i = LAST; i < s->n; i++) {
        tc_value *size = yield->in[i];
        tc_build_assert(
            b, tc_build_cmp(b, "ge", size, zero),
            tc_arena_printf(&s->cx->diag_arena, "grid axis %u is negative", i));
        size = tc_build_cast(b, size, TC_I64);
        total = total ? tc_build_binary(b, TC_MUL, total, size) : size;
        tc_build_assert(
            b, tc_build_cmp(b, "le", total, most),
            "more than 2^31 - 1 programs along grid axes 2 and above");
    }
    return tc_build_cast(b, total, TC_I32);
}

static void shorten_grid(fold *s)
{
    tc_op *yield = tc_region_terminator(s->f->grid);
    tc_builder b = tc_builder_before(yield);
    tc_value *in[TC_GRID_AXES] = {yield->in[0], yield->in[1]};
    in[LAST] = multiply(s, &b, yield);
    tc_build_yield(&b, TC_GRID_AXES, in);
    tc_op_erase(yield);
}

bool tc_fold_grid(tc_func *f, bool *changed)
{
    fold s = {.f = f, .cx = f->module->cx};
    tc_op *first = f->body->first;
    s.n = tc_region_terminator(f->grid)->nin;
    if (tc_grid_is_folded(f))
        return true;
    *changed = true;
    if (s.n > TC_GRID_AXES) {
        if (!copy_sizes(&s))
            return false;
        split_index(&s, first);
        shorten_grid(&s);
    }
    replace_all(&s, first, s.n > TC_GRID_AXES ? LAST : TC_GRID_AXES);
    return true;
}

void tc_fold_missing_axes(tc_func *f)
{
    fold s = {.f = f, .cx = f->module->cx};
    s.n = tc_region_terminator(f->grid)->nin;
    replace_all(&s, f->body->first, s.n);
}
