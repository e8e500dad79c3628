/* SPDX-License-Identifier: Apache-2.0
 *
 * transpose-plan: stores the tensors of a plan's workspace in the order that
 * their readers need, if the kernels that write them can.
 *
 *   %v = workspace %z, %h, %n : tensor<[?, ?, ?, 128] x f8e4m3>
 *   launch @project(%x, %w, %v)
 *   launch @attend(%q, %k, %v, %o)         dot(%p, %vt): K is dim 2 of %v
 * becomes
 *   %1 = (%n rem 16) == 0
 *   if %1 {
 *     %v = workspace %z, %h, %n
 *         : tensor<[?, ?, ?, 128] x f8e4m3, contiguous(2)>
 *     launch @project_1(%x, %w, %v)
 *     launch @attend_1(%q, %k, %v, %o)
 *   } else {
 *     as before
 *   }
 *
 * Kernels take tensors of any strides; contiguous(..) says in which order they
 * are stored and loaded fast. The condition is there if columns of any length
 * might not be multiples of 16 bytes: vectors need that, and TMA stores write
 * up to that many bytes past the end. (Columns of cdiv(%n, 16) * 16 elements
 * are.)
 *
 * Every tensor argument of a kernel gets the order of the tensors that its
 * launches pass: launches that pass other orders get kernels of their own.
 * Results never depend on any of this. Tests: test/ir/passes/transpose-plan.
 */
#include "ir/plan.h"
#include "passes/analysis/match.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"
#include "passes/transpose/tensor_orders.h"
#include "passes/transpose/transpose_kernel.h"

static const char pass[] = "transpose-plan";

struct order {
    tc_op *workspace;
    const tc_type *before;
    tc_order_wish wish;
    const tc_func *reader; /* of the wish */
    struct order *next;
};

/* Of the tensors that a region makes, in the order in which it does. */
struct region_orders {
    tc_region *region;
    struct order *first;
    struct region_orders *next;
};

struct planner {
    tc_pass_env *env;
    tc_func *plan;
    struct region_orders *all, **end; /* inner regions first */
    bool changed;
};

/* ---- What is wished for ---- */

static bool passes_it(const tc_op *op)
{
    return op->code == TC_LAUNCH && tc_launch_kernel(op);
}

static void say_conflict(const struct planner *p, const tc_op *workspace,
                         const struct order *o, const tc_func *other,
                         const tc_op *dot)
{
    if (!p->env->cx->want_remarks)
        return;
    tc_missed(p->env->cx, workspace->loc, pass,
              "%s stays as it is: a dot of @%s wants dim %u in one piece, one "
              "of @%s another dim",
              tc_value_name(p->env->cx, workspace->out[0]), o->reader->name,
              o->wish.dim, other->name);
    tc_note(p->env->cx, o->wish.dot->loc, "this dot wants dim %u", o->wish.dim);
    tc_note(p->env->cx, dot->loc, "this dot wants another dim");
}

/* The order that all launches wish; false: there is no wish, or they differ. */
static bool find_wish(const struct planner *p, tc_op *workspace,
                      struct order *o)
{
    *o = (struct order){.workspace = workspace,
                        .before = workspace->out[0]->type};
    tc_each_use (u, workspace->out[0]) {
        if (!passes_it(u->op))
            continue;
        const tc_func *f = tc_launch_kernel(u->op);
        tc_order_wish w = tc_order_wish_of(f, u->index, p->env->target);
        if (!w.dot)
            continue;
        if (!o->reader) {
            o->wish = w;
            o->reader = f;
        }
        bool other = w.dim != o->wish.dim;
        if (other || w.other) {
            say_conflict(p, workspace, o, f, other ? w.dot : w.other);
            return false;
        }
    }
    return o->reader &&
           o->wish.dim != tc_type_contiguous(workspace->out[0]->type);
}

/* ---- Whether it can be had ---- */

static const char *why_not(const struct planner *p, const struct order *o)
{
    tc_arena *a = p->env->scratch;
    const tc_op *w = o->workspace;
    if (tc_op_has_attr(w, "order"))
        return "its order(..) is stated";
    const tc_dim *size = w->out[0]->type->dims[o->wish.dim];
    unsigned bytes = tc_type_bytes(w->out[0]->type->elem);
    if (size && tc_dim_value(size) * bytes % TC_VECTOR_BYTES)
        return "that dim's size is no multiple of 16 bytes";
    tc_each_use (u, w->out[0]) {
        const char *why =
            passes_it(u->op) ? tc_why_not_contiguous(a, tc_launch_kernel(u->op),
                                                     u->index, o->wish.dim)
                             : NULL;
        if (why)
            return why;
    }
    return NULL;
}

static void say_order(const struct planner *p, const struct order *o,
                      const char *why)
{
    tc_context *cx = p->env->cx;
    const char *name = tc_value_name(cx, o->workspace->out[0]);
    if (!cx->want_remarks)
        return;
    if (why)
        tc_missed(cx, o->workspace->loc, pass,
                  "%s is not stored with dim %u in one piece, as a dot of @%s "
                  "wants it: %s",
                  name, o->wish.dim, o->reader->name, why);
    else
        tc_remark(cx, o->workspace->loc, pass,
                  "%s is stored with dim %u in one piece, as a dot of @%s "
                  "wants it: the kernels that make it store it so",
                  name, o->wish.dim, o->reader->name);
    tc_note(cx, o->wish.dot->loc, "the dot");
}

/* n a power of two, so that it divides what wraps, too. */
static bool is_times(const tc_value *v, int64_t n)
{
    tc_scalar factor;
    return tc_match_op(v, TC_MUL) && tc_match_const(v->def->in[1], &factor) &&
           factor.i % n == 0;
}

/* The size along the dim that is to be in one piece, where that may be no
 * multiple of 16 bytes; NULL: it is one. */
static tc_value *open_size(const struct order *o)
{
    const tc_type *t = o->workspace->out[0]->type;
    unsigned n = 0;
    for (unsigned i = 0; i < o->wish.dim; i++)
        n += t->dims[i] == NULL;
    if (t->dims[o->wish.dim] ||
        is_times(o->workspace->in[n], TC_VECTOR_BYTES / tc_type_bytes(t->elem)))
        return NULL;
    return o->workspace->in[n];
}

/* Of a region: NULL if nothing changes. */
static struct order *orders_of(struct planner *p, tc_region *r)
{
    struct order *first = NULL, **end = &first;
    tc_each_op (op, r) {
        struct order o;
        if (op->code != TC_WORKSPACE || op->out[0]->type->rank == 0 ||
            !find_wish(p, op, &o))
            continue;
        const char *why = why_not(p, &o);
        tc_value *size = open_size(&o);
        if (!why && first && size &&
            !tc_value_is_visible(size, first->workspace))
            why = "its sizes are not known where the plan decides about others";
        say_order(p, &o, why);
        if (why)
            continue;
        *end = tc_arena_new(p->env->scratch, struct order);
        **end = o;
        end = &(*end)->next;
    }
    return first;
}

static void set_order(const struct planner *p, const struct order *o)
{
    tc_value *v = o->workspace->out[0];
    v->type = tc_type_with_contiguous(p->env->cx, v->type,
                                      tc_dim_const(p->env->cx, o->wish.dim));
}

static void find_orders(struct planner *p, tc_region *r)
{
    tc_each_op (op, r)
        for (unsigned i = 0; i < op->nregions; i++)
            find_orders(p, op->regions[i]);
    struct order *first = orders_of(p, r);
    if (!first)
        return;
    for (const struct order *o = first; o; o = o->next)
        set_order(p, o);
    *p->end = tc_arena_new(p->env->scratch, struct region_orders);
    **p->end = (struct region_orders){.region = r, .first = first};
    p->end = &(*p->end)->next;
    p->changed = true;
}

/* ---- Where sizes are not known ---- */

/* Are all sizes that are open multiples of 16 bytes? NULL: none is open. */
static tc_value *build_condition(tc_builder *b, const struct order *o)
{
    tc_value *all = NULL;
    for (; o; o = o->next) {
        tc_value *size = open_size(o);
        if (!size)
            continue;
        unsigned bytes = tc_type_bytes(o->before->elem);
        tc_value *is = tc_build_is_multiple(b, size, TC_VECTOR_BYTES / bytes);
        all = all ? tc_build_binary(b, TC_AND, all, is) : is;
    }
    return all;
}

/* Puts the ops from the first workspace on into both branches of an `if`; in
 * the second one the orders stay as they were. */
static void branch_off(tc_value *condition, const struct order *orders)
{
    tc_op *first = orders->workspace;
    tc_op *branch = tc_branch_before(first, condition);
    for (tc_op *op = first, *next; op; op = next) {
        next = op->next;
        if (tc_op_has(op, TC_TERMINATOR))
            break;
        tc_branch_take(branch, op);
    }
    for (const struct order *o = orders; o; o = o->next)
        ((tc_value *)o->workspace->out[0]->data)->type = o->before;
}

static void guard_orders(const struct planner *p)
{
    for (const struct region_orders *all = p->all; all; all = all->next) {
        tc_builder b = tc_builder_before(all->first->workspace);
        tc_value *condition = build_condition(&b, all->first);
        if (condition)
            branch_off(condition, all->first);
    }
}

/* ---- Kernels for what they get ---- */

static const tc_type *like_passed(tc_context *cx, const tc_type *own,
                                  const tc_type *passed)
{
    if (own->kind != TC_TENSOR || !own->rank || passed->kind != TC_TENSOR)
        return own;
    return tc_type_with_contiguous(
        cx, own, tc_dim_const(cx, tc_type_contiguous(passed)));
}

static bool fits(tc_context *cx, const tc_func *f, const tc_op *launch)
{
    for (unsigned i = 0; i < launch->nin; i++) {
        const tc_type *own = f->body->args[i]->type;
        if (like_passed(cx, own, launch->in[i]->type) != own)
            return false;
    }
    return true;
}

static void retype(tc_context *cx, tc_func *f, const tc_op *launch)
{
    for (unsigned i = 0; i < launch->nin; i++) {
        tc_value *own = f->body->args[i];
        own->type = like_passed(cx, own->type, launch->in[i]->type);
        if (f->grid)
            f->grid->args[i]->type = own->type;
    }
}

/* A kernel that a launch got before, and the one it was made from. */
struct version {
    const tc_func *from;
    tc_func *kernel;
    struct version *next;
};

static tc_func *version_for(struct planner *p, struct version **all,
                            tc_op *launch)
{
    tc_context *cx = p->env->cx;
    tc_func *f = tc_launch_kernel(launch);
    bool taken = false;
    for (struct version *v = *all; v; v = v->next) {
        if (v->from == f && fits(cx, v->kernel, launch))
            return v->kernel;
        taken |= v->from == f;
    }
    struct version *v = tc_arena_new(p->env->scratch, struct version);
    *v = (struct version){f, taken ? tc_kernel_copy(f) : f, *all};
    *all = v;
    p->changed |= !fits(cx, v->kernel, launch);
    retype(cx, v->kernel, launch);
    return v->kernel;
}

static void pass_orders(struct planner *p, struct version **all, tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (!passes_it(op))
            continue;
        const tc_func *f = version_for(p, all, op);
        tc_op_set_word(op, "callee",
                       tc_arena_printf(p->env->scratch, "@%s", f->name));
    }
}

tc_change tc_pass_transpose_plan(tc_module *m, tc_pass_env *env)
{
    struct planner p = {.env = env};
    struct version *versions = NULL;
    if (env->options->enforce == TC_ENFORCE_OFF)
        return TC_UNCHANGED;
    tc_each_func (f, m) {
        if (!f->is_plan || f->nparams)
            continue;
        p.plan = f;
        p.all = NULL;
        p.end = &p.all;
        find_orders(&p, f->body);
        p.changed |= tc_transpose_beforehand(env, f);
        guard_orders(&p);
        pass_orders(&p, &versions, f->body);
    }
    return p.changed ? TC_CHANGED : TC_UNCHANGED;
}
