/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: what a program must be, whoever made it. All violations are
 * reported, each with its location, the op, what was found and what is
 * expected. No program that the functions of ir.h can build crashes it.
 *
 * Modules and functions (verify.c)
 *   1  Functions have a name, their own: no two share one.
 *   2  No function calls itself, directly or through others (calls are
 *      inlined).
 *   3  Compile-time parameters have names of their own. A default is of the
 *      parameter's kind and uses only parameters before it; that of a function
 *      parameter is a func whose parameters begin with the signature's and
 *      whose results are the signature's.
 *   4  A parameter of a func that does not stand, by itself, as a size or an
 *      element in the type of an argument is inherited: a call of the func
 *      gives a value for it, or stands in a function that has a parameter of
 *      that name, kind and signature. What a call gives are parameters of the
 *      func, none twice, of their kinds and signatures.
 *   5  A kernel has no results; its arguments are tensors, pointers and
 *      scalars. No func returns a tensor.
 *   6  A kernel's grid region has the arguments of the kernel. It holds pure
 *      ops on scalars and sizes, and assert (not program_id, num_programs,
 *      base, loops or branches), calls of functions that hold no more, and
 *      yields 1 to 8 i32.
 *   54 tune: each name once, that of an int or block parameter of the kernel,
 *      or warps, stages, ptxas or tiles; each value once, one that the name may
 *      have; at most 4096 combinations. (verify_tune.c)
 * Types and sizes, of values, results and attributes (verify_type.c)
 *   7  Elements are scalars; of tensors and block pointers, no pointers.
 *   8  Sides of tiles and block pointers are 1, 2, 4 or positive multiples of
 *      8. They have at least one axis and at most 2^24 elements. (Those that
 *      are still generic are looked at after `bind-params`.)
 *   9  Sizes of tensors are `?` or 0 to 2^31 - 1.
 *   10 Names in types and sizes are compile-time parameters of the function, of
 *      the kind that the place asks for.
 * Structure (verify_walk.c)
 *   11 Ops, regions, arguments and results are linked to their owners, lists
 *      forwards as backwards.
 *   12 Each operand is in the list of uses of its value, and each use is an
 *      operand of an op that stands in the function.
 *   13 A value is used only where it is visible: after its definition, in the
 *      same region or one nested in it; the second region of `while` sees the
 *      values of the first.
 *   14 A region ends in a terminator, which stands nowhere else: `return` a
 *      body, `condition` the first region of `while`, `yield` all others.
 *   15 Regions nest at most 66 deep.
 *   16 No op but workspace has a tensor as a result.
 * Every op (signature.c, infer*.c; from the table ops.def)
 *   17 Operands are as many and of the kinds that the signature asks for.
 *   18 Attributes that are not optional are there; all are of the declared kind
 *      and not empty; words are among those declared.
 *   19 Results are those that the op's rule gives. (The rules of shapes are in
 *      infer_shape.c: axes in range, trans a permutation, reshape of as many
 *      elements, broadcast of sides of 1, dot's K and element types, gather and
 *      block with an offset a dim, calls that fit the function, ...)
 *   20 Ops without regions in ir.h have none.
 * Terminators (verify_op.c)
 *   21 `return` gives the function's results; that of a kernel nothing.
 *   22 `yield` gives the results of its `for`, `if` or `while`, and for a
 *      `reduce` and `scan` one element of each operand.
 * Single ops (verify_op.c)
 *   23 for: one region; its arguments are the induction variable, of the
 *      bounds' type, and the carried values. A constant step is above 0;
 *      stages is 1 or more.
 *      break_if: in the region of a `for` itself, with as many values as it
 *      carries, of their types, or none; it carries no block pointers then.
 *   24 if: two regions without arguments. The first of a speculatable one
 *      writes nothing; it may add to memory.
 *   25 while: two regions; the arguments of the first are the carried values,
 *      the second has none.
 *   26 reduce or scan with a region: its arguments are two elements of each
 *      operand, left sides first. It holds pure ops on scalars (no
 *      while, reduce, scan).
 *   27 A block pointer is a window on one tensor: `if` and `select` give none,
 *      and a carried one moves on its tensor.
 *   28 call: no more names than arguments, none twice. A call of a func has
 *      names only for functions that it gives, which capture them.
 *   29 const and pad: the number fits the type; ints unwrapped, floats neither
 *      overflow nor saturate (inf is none of f8e4m3), pointers have none.
 *   30 dim: a known size fits i32.
 *   31 load, store: boundary is for block pointers; its axes are axes of the
 *      block, none twice. What a store adds is i32, i64, f32 or f64, and of the
 *      hints to caches it has evict only. Mask and pad have the layout of the
 *      tile that is moved.
 *   32 advance: an offset a dim of the tensor. A window by indices does not
 *      move: it is no operand of `advance`, nor carried; its boundary has
 *      none of the axes of the indices.
 *   33 atomic, atomic_cas: elements are i32, i64, f16, bf16, f32 or f64.
 *   34 print: operands are scalars and tiles.
 * Machine level (35 in verify_type.c, 51 in verify_level.c, 53 in
 * verify_mark.c, the others in verify_machine.c)
 *   35 A layout has the sides of its type, of a tile over 32 lanes and the
 *      kernel's warps, of shared memory over offsets.
 *   36 smem_store, smem_load, smem_copy, async_copy, tma_load, tma_store: the
 *      same sides and elements on both sides; an async_copy from a block
 *      pointer has a layout, of that shape, which its mask has too. A tma_load
 *      with row(..) fills whole parts of the buffer's rows.
 *      smem_take: the buffer has its elements in rows, in their order; that of
 *      smem_count has i32, and one axis.
 *   37 A ring has at most 64 buffers, no view of one is chosen by select.
 *   38 mma: elements are those of the instruction (of fma: f64 only to f64),
 *      sides of all but fma multiples of 8 (M and N may be 1). Those of warp
 *      groups (m64) read operand 1 from shared memory; only they are
 *      asynchronous, and are waited for in the step that computes their operand
 *      0 in registers.
 *   39 smem_alloc: the offset is a multiple of 128; mbarrier_alloc: of 8, with
 *      1 to 2^20 - 1 arrivals.
 *   40 mbarrier_arrive: 0 to 2^20 - 1 bytes. mma_wait, async_wait,
 *      tma_store_wait: 0 or more pending.
 *   41 tma_store: what is added is f32; scope(group) is for kernels of whole
 *      warp groups, along an axis that they divide.
 *   42 smem_store_scalar, smem_load_scalar: a buffer of one element of the
 *      scalar's type.
 *   43 warp_groups: at most one, in the body of a kernel of whole warp groups,
 *      with two or three regions without arguments; registers are two multiples
 *      of 8, 24 to 256. Next to it stand allocations, barriers, fences,
 *      assume, assert and pure ops, no tiles.
 *   44 warp_groups: producer and transposer hold no tiles; the transposer
 *      writes memory by smem_copy only.
 *   45 order_wait, order_arrive: in the consumer, by pairs in a region.
 *      warpgroup_row: in the consumer, of as many rows for each group.
 *   51 A function is at one level: all tiles have layouts, or none has and no
 *      op is of the machine level (a trait of ops.def). At machine level a
 *      kernel has warps, and no function has compile-time parameters.
 *   52 barrier, follow, follow_end: not in the producer. barrier: scope(group)
 *      in the consumer, or in a kernel of whole warp groups without roles.
 *   53 mark: in a kernel with profile(..), in a role if there are any (43); its
 *      number is 1 to 65535. Of a role (or kernel without) one `begin` stands
 *      in the region itself before all other marks, one `end` after them.
 * Plans (verify_plan.c)
 *   46 A plan has arguments as a kernel has, no results and no grid. It holds
 *      workspace, fill, launch (which stand nowhere else), assert, `if` without
 *      results, and pure ops on scalars and sizes.
 *   47 workspace: a tensor of ints or floats, an i32 for each `?` of its type;
 *      order names each dim once, align is a power of two.
 *   48 fill: the number fits the element.
 *   49 launch: a kernel of the module, its own arguments (or those that mods
 *      capture too), of its types as far as both are known.
 *   50 launch: compile-time parameters are the kernel's, none twice, of their
 *      kinds; all that have no default are given or follow from the arguments.
 */
#include "ir/verify/verify.h"

#include "ir/base/map.h"
#include "ir/given.h"
#include "ir/infer/bound.h"

#include <string.h>

/* ---- Compile-time parameters ---- */

static bool error_at_param(const tc_func *f, const tc_param *p,
                           const char *problem, const char *what)
{
    tc_loc loc = p->loc.file ? p->loc : f->loc;
    return tc_error(f->module->cx, loc, "@%s: parameter `%s`: %s%s", f->name,
                    p->name, what, problem);
}

/* Of f as far as parameter `n`: what its default can see. */
static tc_func with_params_before(const tc_func *f, unsigned n)
{
    tc_func before = *f;
    before.nparams = n;
    return before;
}

static bool check_func_default(const tc_func *f, const tc_param *p)
{
    tc_arena *a = &f->module->cx->diag_arena;
    const char *name = p->symbol + (p->symbol[0] == '@');
    const tc_func *g = tc_func_find(f->module, name);
    if (!g || g->is_kernel || g->is_plan)
        return error_at_param(
            f, p, tc_arena_printf(a, "@%s is no func of this module", name),
            "default ");
    tc_signature wanted = {p->nins, p->nouts, p->ins, p->outs};
    tc_bindings b = tc_bindings_of(a, g);
    return tc_func_fits(g, &wanted, &b) ||
           error_at_param(f, p,
                          tc_arena_printf(a,
                                          "@%s does not fit the signature, "
                                          "expected its parameter types, then "
                                          "captured ones, and its results",
                                          name),
                          "default ");
}

static bool check_signature_types(const tc_func *f, const tc_param *p)
{
    const char *problem = NULL;
    for (unsigned i = 0; !problem && i < p->nins; i++)
        problem = tc_type_problem(f, p->ins[i]);
    for (unsigned i = 0; !problem && i < p->nouts; i++)
        problem = tc_type_problem(f, p->outs[i]);
    return !problem || error_at_param(f, p, problem, "signature: ");
}

static bool check_default(const tc_func *f, unsigned i)
{
    const tc_param *p = &f->params[i];
    tc_func before = with_params_before(f, i);
    const char *problem = NULL;
    if (p->kind == TC_PARAM_INT && p->dim)
        problem = tc_default_problem(&before, p->dim);
    if (p->kind == TC_PARAM_TYPE && p->type)
        problem = tc_type_is_scalar(p->type) && p->type->kind != TC_PTR
                      ? tc_type_problem(&before, p->type)
                      : "expected an element type";
    if (problem)
        return error_at_param(f, p, problem, "default: ");
    if (p->kind != TC_PARAM_FUNC)
        return true;
    return check_signature_types(f, p) &&
           (!p->symbol || check_func_default(f, p));
}

static bool check_params(const tc_func *f)
{
    bool ok = true;
    for (unsigned i = 0; i < f->nparams; i++) {
        const tc_param *p = &f->params[i];
        if (!p->name || !*p->name)
            return tc_error(f->module->cx, f->loc,
                            "@%s: parameter %u has no name", f->name, i);
        for (unsigned k = 0; k < i; k++)
            if (strcmp(p->name, f->params[k].name) == 0)
                ok = error_at_param(f, p, "", "there are two of that name");
        ok &= check_default(f, i);
    }
    return ok;
}

/* ---- Functions ---- */

static bool check_results_of_func(const tc_func *f)
{
    bool ok = true;
    tc_context *cx = f->module->cx;
    for (unsigned i = 0; i < f->nresults; i++) {
        const char *problem = tc_type_problem(f, f->results[i]);
        if (!problem && f->results[i]->kind == TC_TENSOR)
            problem = "expected no tensor (tensors are parameters, or made by "
                      "`tensor`)";
        if (problem)
            ok = tc_error(cx, f->loc, "@%s: result %u is %s: %s", f->name, i,
                          f->results[i] ? tc_type_name(cx, f->results[i])
                                        : "nothing",
                          problem);
    }
    return ok;
}

/* Of a kernel or plan: tensors, pointers and scalars, and no results. */
static bool check_launched(const tc_func *f)
{
    tc_context *cx = f->module->cx;
    bool ok = f->nresults == 0 ||
              tc_error(cx, f->loc, "@%s: a %s with %u results, expected none",
                       f->name, tc_func_word(f), f->nresults);
    for (unsigned i = 0; i < f->body->nargs; i++) {
        const tc_value *arg = f->body->args[i];
        const tc_type *t = arg->type;
        bool fits = !t || t->kind == TC_TENSOR ||
                    (tc_type_is_scalar(t) && !tc_kind_is_stored(t->kind));
        if (!fits)
            ok = tc_error(cx, arg->loc.file ? arg->loc : f->loc,
                          "@%s: argument %u is %s, expected a tensor, a "
                          "pointer or a scalar%s",
                          f->name, i, tc_type_name(cx, t),
                          tc_kind_is_stored(t->kind) ? ", i1 to f64" : "");
    }
    return ok;
}

static bool check_kernel(const tc_func *f)
{
    tc_context *cx = f->module->cx;
    bool ok = check_launched(f) & tc_verify_tune(f);
    if (f->grid->nargs != f->body->nargs)
        return tc_error(cx, f->loc,
                        "@%s: the grid has %u arguments, expected %u, those "
                        "of the kernel",
                        f->name, f->grid->nargs, f->body->nargs);
    for (unsigned i = 0; i < f->body->nargs; i++) {
        const tc_type *got = f->grid->args[i]->type,
                      *want = f->body->args[i]->type;
        if (got != want && got && want)
            ok = tc_error(
                cx, f->loc, "@%s: argument %u of the grid is %s, expected %s",
                f->name, i, tc_type_name(cx, got), tc_type_name(cx, want));
    }
    return ok;
}

/* A region of a function hangs on the function and not on an op. */
static bool check_root(const tc_func *f, const tc_region *r, const char *what)
{
    return (r && r->func == f && !r->op) ||
           tc_error(f->module->cx, f->loc,
                    "@%s: the %s is missing or not linked to its function",
                    f->name, what);
}

bool tc_func_verify(const tc_func *f)
{
    tc_context *cx = f->module->cx;
    if (!f->name || !*f->name)
        return tc_error(cx, f->loc, "a function has no name");
    if (!check_root(f, f->body, "body") ||
        (f->is_kernel && !check_root(f, f->grid, "grid")) || !check_params(f))
        return false;
    bool ok = f->is_kernel ? check_kernel(f)
              : f->is_plan ? check_launched(f)
                           : check_results_of_func(f);
    tc_verifier v = {.cx = cx, .f = f};
    ok &= tc_verify_region(&v, f->body);
    v = (tc_verifier){.cx = cx, .f = f, .in_grid = true};
    if (f->is_kernel)
        ok &= tc_verify_region(&v, f->grid);
    return ok && tc_verify_level(&v);
}

/* ---- Modules ---- */

static bool check_names(const tc_module *m)
{
    tc_map seen = {0};
    bool ok = true;
    tc_each_func (f, m) {
        seen.arena = &f->module->arena; /* m is const, its memory is not */
        const tc_func *other = f->name ? tc_map_get(&seen, f->name) : NULL;
        if (other) {
            ok = tc_error(m->cx, f->loc,
                          "@%s: there are two functions of that name", f->name);
            if (other->loc.file)
                tc_note(m->cx, other->loc, "the other one is here");
        } else if (f->name) {
            tc_map_set(&seen, f->name, f);
        }
    }
    return ok;
}

/* Depth first. seen: a function to itself while it is on the path of calls, to
 * the map when it is done. */
struct calls {
    const tc_module *m;
    tc_map seen;
    unsigned depth;
    const tc_func *path[TC_MAX_CALL_DEPTH];
};

static bool check_recursion(struct calls *c, tc_func *f);

/* The functions from g to the end of the path, which calls g again. */
static bool report_cycle(struct calls *c, const tc_op *op, const tc_func *g)
{
    tc_text cycle = {.arena = &c->m->cx->diag_arena};
    unsigned i = 0;
    while (c->path[i] != g)
        i++;
    for (; i < c->depth; i++)
        tc_text_printf(&cycle, "@%s -> ", c->path[i]->name);
    return tc_error(c->m->cx, op->loc,
                    "call: @%s calls itself (%s@%s), expected no recursion: "
                    "use `for` or `while`",
                    g->name, cycle.data, g->name);
}

static bool check_callee(struct calls *c, const tc_op *op, tc_func *g)
{
    tc_context *cx = c->m->cx;
    if (tc_map_get(&c->seen, g) == g)
        return report_cycle(c, op, g);
    if (c->depth == TC_MAX_CALL_DEPTH)
        return tc_error(cx, op->loc,
                        "call: @%s is called through too many functions, "
                        "expected at most %d",
                        g->name, TC_MAX_CALL_DEPTH);
    return check_recursion(c, g);
}

/* A call of f also calls the functions that it gives: they are inlined where it
 * stands. */
static bool check_given_funcs(struct calls *c, const tc_op *op,
                              const tc_func *f)
{
    bool ok = true;
    for (unsigned i = 0; i < f->nparams; i++) {
        tc_func *g = tc_given_callee(op, &f->params[i]);
        if (g)
            ok &= check_callee(c, op, g);
    }
    return ok;
}

static bool check_calls_in(struct calls *c, const tc_region *r)
{
    bool ok = true;
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nregions; i++)
            ok &= check_calls_in(c, op->regions[i]);
        tc_func *g = tc_op_callee(op);
        if (g)
            ok &= check_callee(c, op, g) & check_given_funcs(c, op, g);
    }
    return ok;
}

/* The first op of the function that no grid may hold; NULL: all may. */
static const tc_op *unfit_for_grid(const tc_func *f)
{
    tc_each_op (op, f->body)
        if (!tc_op_has(op, TC_TERMINATOR) && !tc_verify_fits_grid(op))
            return op;
    return NULL;
}

/* A function that a grid calls may hold the same ops as a grid, and no
 * calls. */
static bool check_called_by_grid(const tc_module *m, const tc_op *call)
{
    const tc_func *f = tc_op_callee(call);
    const tc_op *unfit = f ? unfit_for_grid(f) : NULL;
    if (f && !unfit)
        return true;
    tc_error(m->cx, call->loc,
             "call: %s cannot be called in a grid, expected a func of pure ops "
             "on scalars and sizes, or assert",
             tc_op_word(call, "callee"));
    if (unfit)
        tc_note(m->cx, unfit->loc, "it holds `%s`", tc_op_name(unfit));
    return false;
}

static bool check_calls_of_grid(const tc_module *m, const tc_func *f)
{
    bool ok = true;
    tc_each_op (op, f->grid)
        ok &= op->code != TC_CALL || check_called_by_grid(m, op);
    return ok;
}

static bool check_recursion(struct calls *c, tc_func *f)
{
    if (tc_map_get(&c->seen, f))
        return true;
    tc_map_set(&c->seen, f, f);
    c->path[c->depth++] = f;
    bool ok = check_calls_in(c, f->body);
    c->depth--;
    tc_map_set(&c->seen, f, &c->seen);
    return ok;
}

static bool check_list(const tc_module *m)
{
    const tc_func *prev = NULL;
    for (const tc_func *f = m->first; f; prev = f, f = f->next)
        if (f->module != m || f->prev != prev)
            return tc_error(m->cx, f->loc,
                            "@%s: the list of functions is broken", f->name);
    return m->last == prev ||
           tc_error(m->cx, (tc_loc){0}, "the list of functions is broken");
}

bool tc_module_verify(const tc_module *m)
{
    if (!check_list(m))
        return false;
    bool ok = check_names(m);
    tc_each_func (f, m)
        ok &= tc_func_verify(f);
    /* Only a program whose lists can be walked is searched for cycles. */
    struct calls c = {.m = m};
    if (ok)
        tc_each_func (f, m) {
            c.seen.arena = &f->module->arena;
            ok &= check_recursion(&c, f);
            ok &= !f->grid || check_calls_of_grid(m, f);
        }
    return ok;
}
