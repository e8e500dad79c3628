/* SPDX-License-Identifier: Apache-2.0
 *
 * version-in-bounds: loop versioning. If copies stand among products
 * (prefetch-fragments), their boundary checks take the tensor cores' time, as
 * each instruction among products does. So a loop whose windows all lie inside
 * gets a version without checks.
 *
 *   for .. {                            if (all windows lie inside) {
 *     async_copy .. boundary(0, 1)        for .. { async_copy .. }
 *     ..                       becomes  } else {
 *   }                                     for .. { async_copy .. boundary(0, 1)
 *                                       } }
 *
 * The test runs once, before the loop: of offsets that stay, and of those that
 * advance with the loop's counter, which end where it ends. Test:
 * test/ir/passes/version-in-bounds.
 */
#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"
#include "passes/passes.h"
#include "passes/pipeline/pipeline_loops.h"

static const char pass[] = "version-in-bounds";

typedef struct asking {
    tc_op *loop;
    tc_builder b;  /* before it */
    tc_value *all; /* i1; NULL: nothing was asked */
} asking;

static void ask(asking *x, tc_value *question)
{
    x->all =
        x->all ? tc_build_binary(&x->b, TC_AND, x->all, question) : question;
}

static tc_value *int_of(asking *x, int64_t i)
{
    return tc_build_int(&x->b, x->loop->in[0]->type, i);
}

/* 0 <= at <= size - side */
static void ask_fixed(asking *x, tc_value *at, tc_value *size, int64_t side)
{
    tc_value *last = tc_build_binary(&x->b, TC_SUB, size, int_of(x, side));
    ask(x, tc_build_cmp(&x->b, "ge", at, int_of(x, 0)));
    ask(x, tc_build_cmp(&x->b, "le", at, last));
}

/* In `for %k = 0 to %n` an offset %k + c of a copy that is made where %n - %k
 * is more than c. NULL: it is one; else why not. */
static const char *not_counter(const asking *x, const tc_op *copy,
                               const tc_value *at, int64_t side)
{
    const tc_op *loop = x->loop, *add = tc_match_op(at, TC_ADD);
    const tc_op *cmp = copy->nin > 2 ? tc_match_op(copy->in[2], TC_CMP) : NULL;
    const tc_op *sub = cmp ? tc_match_op(cmp->in[0], TC_SUB) : NULL;
    const tc_value *k = loop->regions[0]->args[0];
    tc_scalar c, step;
    if (!add || !sub || !tc_op_is_word(cmp, "pred", "ugt") ||
        sub->in[0] != loop->in[1] || sub->in[1] != k || add->in[0] != k ||
        !tc_match_same_int(add->in[1], cmp->in[1]) ||
        !tc_match_const(add->in[1], &c))
        return "its offset is not the loop's counter, and not the same in all "
               "steps: index the tensor with the counter itself";
    if (!tc_match_int(loop->in[0], 0))
        return "the loop does not begin at 0: let it count from 0";
    if (!tc_match_const(loop->in[2], &step) || c.i % side || step.i % side)
        return "the loop's step is not a multiple of the window's side: take "
               "a step of whole windows";
    return NULL;
}

/* The counter's end is a multiple of the side, and not after the tensor's. */
static void ask_counter(asking *x, tc_value *size, int64_t side)
{
    tc_value *end = x->loop->in[1];
    tc_value *rest = tc_build_binary(&x->b, TC_REM, end, int_of(x, side));
    ask(x, tc_build_cmp(&x->b, "eq", rest, int_of(x, 0)));
    ask(x, tc_build_cmp(&x->b, "le", end, size));
}

static tc_value *version_in_bounds_size_of(asking *x, tc_value *tensor,
                                           unsigned dim)
{
    tc_op *size = tc_op_new(x->b.func, TC_SIZE, x->b.loc, 1, &tensor, 0);
    tc_op_set_int(size, "dim", dim);
    return tc_build_op(&x->b, size, x->loop->in[0]->type);
}

/* An axis of a copy's window. */
typedef struct side {
    tc_value *tensor, *at;
    unsigned dim; /* of the tensor */
    int64_t n;
    bool fixed;
} side;

/* NULL, or why nothing can be asked before the loop. */
static const char *find_side(const asking *x, const tc_op *copy, unsigned axis,
                             side *s)
{
    const tc_op *block = tc_match_op(copy->in[0], TC_BLOCK);
    if (!block || !tc_value_is_visible(block->in[0], x->loop))
        return "its window is carried from step to step: make it in each step, "
               "of the loop's counter";
    s->tensor = block->in[0];
    s->dim = tc_block_dim(block, axis);
    s->at = block->in[1 + s->dim];
    s->n = block->out[0]->type->dims[axis]->value;
    s->fixed = tc_value_is_visible(s->at, x->loop);
    if (s->at->type != x->loop->in[0]->type)
        return "its offset has another integer type than the loop's counter: "
               "give them the same";
    return s->fixed ? NULL : not_counter(x, copy, s->at, s->n);
}

static void ask_side(asking *x, const side *s)
{
    tc_value *size = version_in_bounds_size_of(x, s->tensor, s->dim);
    if (s->fixed)
        ask_fixed(x, s->at, size, s->n);
    else
        ask_counter(x, size, s->n);
}

static bool is_checked(const tc_op *op)
{
    return op->code == TC_ASYNC_COPY && tc_op_int(op, "straight") &&
           tc_op_attr(op, "boundary")->n;
}

static void say_checked(const asking *x, const tc_op *copy, unsigned axis,
                        const char *why)
{
    tc_context *cx = x->b.func->module->cx;
    if (cx->want_remarks)
        tc_missed(cx, copy->loc, pass,
                  "the copy of %s checks boundary %u in each step: %s",
                  tc_loaded_name(cx, copy), axis, why);
}

/* Can the tests of all copies be made before the loop? `now`: builds them. */
static bool ask_all(asking *x, bool now)
{
    tc_each_op (op, x->loop->regions[0]) {
        const tc_attr *axes =
            is_checked(op) ? tc_op_attr(op, "boundary") : NULL;
        for (unsigned i = 0; axes && i < axes->n; i++) {
            side s;
            const char *why = find_side(x, op, (unsigned)axes->ints[i], &s);
            if (why) {
                say_checked(x, op, (unsigned)axes->ints[i], why);
                return false;
            }
            if (now)
                ask_side(x, &s);
        }
    }
    return true;
}

static void version_in_bounds_put(tc_op *loop, tc_region *r)
{
    tc_op_insert(loop, r, NULL);
    tc_builder b = tc_builder_at_end(r, loop->loc);
    tc_build_yield(&b, loop->nout, loop->out);
}

static void expand(tc_pass_env *env, const asking *x)
{
    tc_op *loop = x->loop;
    const tc_type **types =
        tc_arena_array(env->scratch, const tc_type *, loop->nout);
    for (unsigned i = 0; i < loop->nout; i++)
        types[i] = loop->out[i]->type;
    tc_builder b = tc_builder_before(loop);
    tc_op *branch = tc_build_if(&b, x->all, loop->nout, types);
    for (unsigned i = 0; i < loop->nout; i++)
        tc_value_replace(loop->out[i], branch->out[i]);
    tc_region_clear_data(loop->func->body);
    tc_op *twin = tc_op_clone(x->b.func, loop);
    tc_region_clear_data(loop->func->body);
    tc_op_remove(loop);
    version_in_bounds_put(twin, branch->regions[0]);
    version_in_bounds_put(loop, branch->regions[1]);
    tc_each_op (op, twin->regions[0])
        if (is_checked(op))
            tc_op_set_attr(op, "boundary", (tc_attr){.kind = TC_ATTR_NONE});
}

/* Is the loop one of two versions already? */
static bool is_other(const tc_op *loop)
{
    const tc_op *branch = loop->parent->op;
    return branch && branch->code == TC_IF &&
           loop->parent == branch->regions[1] &&
           branch->regions[0]->first->code == TC_FOR;
}

static bool version_in_bounds_visit(tc_pass_env *env, tc_op *op)
{
    asking x = {.loop = op};
    if (op->code != TC_FOR || is_other(op))
        return false;
    x.b = tc_builder_before(op);
    if (!ask_all(&x, false) || !ask_all(&x, true) || !x.all)
        return false;
    tc_remark(env->cx, op->loc, pass,
              "copies check no boundary where all windows lie inside");
    expand(env, &x);
    return true;
}

tc_change tc_pass_version_in_bounds(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, version_in_bounds_visit);
}
