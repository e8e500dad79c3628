/* SPDX-License-Identifier: Apache-2.0
 *
 * shift-tiles: where later programs have more steps, the partial tile of rows
 * is the first one: rows of padding come before row 0, in whole blocks of a
 * warp group's rows.
 *
 *   %i = program_id axis(0) movable(true) : i32
 *   %m0 = mul %i, 192
 *   %rows = splat(%m0) + range(192)
 *   for %n0 = 0 to min(%n, %m0 + 192) step 128 { .. }
 *   store (block %o[%z, %h, %m0 +: 192, ..]), %x boundary(0)
 * becomes
 *   %m0 = mul(%i, 192) - (192 - %m rem 192) rem 192 / 64 * 64
 *   %rows = max(splat(%m0) + range(192), 0)
 *   ..
 *
 * bind-params says which programs may begin elsewhere: those that count blocks
 * of a `block` parameter. %m0 may be an offset of windows that are checked
 * there, part of positions and of a loop's ends, nothing else: not the index of
 * a list or of a factor. Sides that are powers of two stay: most lengths are
 * multiples of them. Tests: test/ir/passes/shift-tiles.
 */
#include "passes/analysis/match.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"

static const char pass[] = "shift-tiles";

enum { MOST = 8, DEPTH = 12 };

typedef struct shifting {
    tc_op *begin; /* %i * side */
    int64_t side;
    const tc_op *store; /* the `block` of a store */
    unsigned dim;
    unsigned npositions, nloops;
    tc_op *positions[MOST], *loops[MOST]; /* loops from %begin on */
    bool is_uneven;                       /* steps depend on the program */
} shifting;

/* ---- Uses of the begin ---- */

static bool is_checked(const tc_op *access, unsigned axis)
{
    const tc_attr *a = tc_op_has_attr(access, "boundary")
                           ? tc_op_attr(access, "boundary")
                           : NULL;
    for (unsigned i = 0; a && i < a->n; i++)
        if (a->ints[i] == axis)
            return access->code == TC_LOAD || access->code == TC_STORE;
    return false;
}

/* A window of so many rows from the begin on, checked there? */
static bool is_window(shifting *s, const tc_op *block, unsigned dim)
{
    const tc_attr *sides = tc_op_attr(block, "sides");
    unsigned axis = 0;
    for (unsigned i = 0; i < dim; i++)
        axis += sides->dims[i] != NULL;
    if (!sides->dims[dim] || tc_dim_value(sides->dims[dim]) != s->side)
        return false;
    tc_each_use (u, block->out[0]) {
        if (u->index != 0 || !is_checked(u->op, axis))
            return false;
        if (u->op->code == TC_STORE && !block->in[0]->def) {
            s->store = block;
            s->dim = dim;
        }
    }
    return true;
}

static bool has_product(const tc_region *r)
{
    tc_each_op (op, r) {
        if (op->code == TC_DOT)
            return true;
        for (unsigned i = 0; i < op->nregions; i++)
            if (has_product(op->regions[i]))
                return true;
    }
    return false;
}

/* Positions, or what is compared with them. */
static bool are_positions(shifting *s, const tc_value *splat, bool is_begin)
{
    tc_each_use (u, splat) {
        if (u->op->code == TC_CMP)
            continue;
        if (u->op->code != TC_ADD || !is_begin || s->npositions == MOST)
            return false;
        s->positions[s->npositions++] = u->op;
    }
    return true;
}

static bool is_end(shifting *s, tc_op *loop, unsigned index, bool is_begin)
{
    bool known = is_begin || tc_op_has_attr(loop, "by_rows");
    s->is_uneven |=
        loop->in[0] != s->begin->out[0] && has_product(loop->regions[0]);
    if (index != 0)
        return index == 1;
    if (is_begin && s->nloops < MOST)
        s->loops[s->nloops++] = loop;
    return known && s->nloops < MOST;
}

static bool follow(shifting *s, const tc_value *v, bool is_begin,
                   unsigned depth);

static bool may_use(shifting *s, tc_op *op, unsigned index, bool is_begin,
                    unsigned depth)
{
    switch (op->code) {
    case TC_BLOCK: return is_begin && is_window(s, op, index - 1);
    case TC_SPLAT: return are_positions(s, op->out[0], is_begin);
    case TC_FOR: return is_end(s, op, index, is_begin);
    case TC_CMP: return true;
    case TC_ADD:
    case TC_SUB:
    case TC_MUL:
    case TC_DIV:
    case TC_REM:
    case TC_MIN:
    case TC_MAX:
    case TC_NEG:
    case TC_CAST:
    case TC_SELECT: return follow(s, op->out[0], false, depth + 1);
    default: return false;
    }
}

static bool follow(shifting *s, const tc_value *v, bool is_begin,
                   unsigned depth)
{
    tc_each_use (u, v)
        if (depth == DEPTH || !may_use(s, u->op, u->index, is_begin, depth))
            return false;
    return true;
}

/* ---- The rewrite ---- */

static tc_value *size_of(tc_builder *b, const shifting *s)
{
    return tc_build_at(b, TC_SIZE, s->store->in[0], "dim", s->dim);
}

/* (side - rows rem side) rem side, whole blocks of it */
static tc_value *padding(tc_builder *b, const shifting *s)
{
    tc_value *rest = tc_build_with(b, TC_REM, size_of(b, s), s->side);
    tc_value *rows = tc_build_binary(
        b, TC_SUB, tc_build_int_const(b, rest->type, s->side), rest);
    rows = tc_build_with(b, TC_REM, rows, s->side);
    return tc_build_with(b, TC_MUL,
                         tc_build_with(b, TC_DIV, rows, TC_WARPGROUP_ROWS),
                         TC_WARPGROUP_ROWS);
}

/* Elsewhere v is the new value, which is computed from v. */
static void put_after(tc_value *v, tc_value *now)
{
    now->name = v->name;
    v->name = NULL;
    tc_value_replace(v, now);
    tc_op_set_in(now->def, 0, v);
}

static void clamp(tc_op *op)
{
    tc_builder b = tc_builder_before(op->next);
    put_after(op->out[0], tc_build_with(&b, TC_MAX, op->out[0], 0));
}

static void shift(const shifting *s)
{
    for (unsigned i = 0; i < s->npositions; i++)
        clamp(s->positions[i]);
    tc_builder b = tc_builder_before(s->begin->next);
    tc_value *old = s->begin->out[0];
    tc_value *now = tc_build_binary(&b, TC_SUB, old, padding(&b, s));
    put_after(old, now);
    for (unsigned i = 0; i < s->nloops; i++) {
        tc_builder at = tc_builder_before(s->loops[i]);
        tc_op_set_in(s->loops[i], 0, tc_build_with(&at, TC_MAX, now, 0));
    }
}

/* ---- The pass ---- */

static bool is_movable(const tc_op *mul, int64_t *side)
{
    const tc_op *id = tc_match_op(mul->in[0], TC_PROGRAM_ID);
    tc_scalar x;
    if (!id || !tc_op_int(id, "movable") || !tc_match_const(mul->in[1], &x))
        return false;
    *side = x.i;
    return (x.i & (x.i - 1)) != 0 && x.i % TC_WARPGROUP_ROWS == 0;
}

static bool visit(tc_pass_env *env, tc_op *mul)
{
    shifting s = {.begin = mul};
    if (mul->code != TC_MUL || !is_movable(mul, &s.side) ||
        !follow(&s, mul->out[0], true, 0) || !s.is_uneven || !s.store)
        return false;
    tc_remark(env->cx, mul->loc, pass,
              "if %lld does not divide the rows, rows of padding come first: "
              "the first program has the fewest steps",
              (long long)s.side);
    shift(&s);
    return true;
}

tc_change tc_pass_shift_tiles(tc_func *f, tc_pass_env *env)
{
    return env->target->wgmma ? tc_visit_ops(f, env, visit) : TC_UNCHANGED;
}
