/* SPDX-License-Identifier: Apache-2.0
 *
 * If no kernel stores a tensor in the order that a launch needs, and many
 * programs of the launch read each part, a separate kernel transposes the
 * tensor first.
 *
 *   launch @attend(%q, %k, %v, %o)
 * becomes
 *   %rows = cdiv(size(%q, 2), 128)               the programs that share a part
 *   %1 = %rows >= 16 and size(%v, 2) rem 16 == 0
 *   if %1 {
 *     %v.t = workspace %z, %h, %n
 *         : tensor<[?, ?, ?, 128] x f8e4m3, contiguous(2)>
 *     launch @transposed(%v, %v.t)
 *     launch @attend(%q, %k, %v.t, %o)
 *   } else {
 *     launch @attend(%q, %k, %v, %o)
 *   }
 *
 * The kernel reads and writes each part once; each program that needs the part
 * reads it once more and multiplies it by rows of its own: with n programs to a
 * part the kernel takes 1 / n of their time. A product that reads byte by byte
 * takes twice as long (claim transposed-values), so that few programs pay for
 * the kernel; if warps next to the consumers transpose on the way in, at a cost
 * of some percent, it takes more programs.
 */
#include "passes/transpose/transpose_kernel.h"

#include "ir/plan.h"
#include "passes/analysis/match.h"
#include "passes/target/machine_model.h"
#include "passes/transpose/tensor_orders.h"

#include <string.h>

static const char pass[] = "transpose-plan";

enum {
    TILE = 128 /* bytes of a row of what the kernel moves at once */
};

struct change {
    unsigned arg;
    tc_order_wish wish;
};

struct beforehand {
    tc_pass_env *env;
    tc_context *cx;
    tc_func *plan;
    bool changed;
};

tc_value *tc_build_is_multiple(tc_builder *b, tc_value *value, unsigned n)
{
    tc_value *by = tc_build_int(b, value->type, n);
    tc_value *rest = tc_build_binary(b, TC_REM, value, by);
    return tc_build_cmp(b, "eq", rest, tc_build_int(b, value->type, 0));
}

/* ---- The kernel ---- */

static int32_t side_of(const tc_type *t, unsigned dim)
{
    int32_t most = TILE / (int32_t)tc_type_bytes(t->elem);
    int64_t n = t->dims[dim] ? tc_dim_value(t->dims[dim]) : most;
    while (most > 16 && n <= most / 2)
        most /= 2;
    return most;
}

static void write_window(tc_text *out, const tc_type *t, unsigned a, unsigned b,
                         const char *tensor)
{
    tc_text_printf(out, "%s[", tensor);
    for (unsigned i = 0; i < t->rank; i++) {
        const char *comma = i ? ", " : "";
        if (i == a || i == b)
            tc_text_printf(out, "%sprogram_id(%d) * %d +: %d", comma,
                           i == a ? 1 : 2, side_of(t, i), side_of(t, i));
        else
            tc_text_printf(out, "%s%%i%u", comma, i);
    }
    tc_text_add(out, "]");
}

/* y = x, where their dims `a` and `b`, a < b, are those in one piece. */
static const char *kernel_text(const struct beforehand *p, const char *name,
                               const tc_type *x, const tc_type *y, unsigned a,
                               unsigned b)
{
    tc_text out = {.arena = p->env->scratch};
    tc_text_printf(&out, "kernel @%s(%%x: ", name);
    tc_type_print(&out, x);
    tc_text_add(&out, ", %y: ");
    tc_type_print(&out, y);
    tc_text_add(&out, ") grid(1");
    for (unsigned i = 0; i < x->rank; i++)
        if (i != a && i != b)
            tc_text_printf(&out, " * size(%%x, %u)", i);
    tc_text_printf(&out,
                   ", cdiv(size(%%x, %u), %d), cdiv(size(%%x, %u), %d)) {\n", a,
                   side_of(x, a), b, side_of(x, b));
    const char *rest = "program_id(0)";
    for (unsigned i = x->rank; i-- > 0;) {
        if (i == a || i == b)
            continue;
        tc_text_printf(&out, "%%i%u = rem(%s, size(%%x, %u))\n", i, rest, i);
        tc_text_printf(&out, "%%r%u = %s / size(%%x, %u)\n", i, rest, i);
        rest = tc_arena_printf(p->env->scratch, "%%r%u", i);
    }
    tc_text_add(&out, "%t = load ");
    write_window(&out, x, a, b, "%x");
    tc_text_add(&out, " boundary(0, 1)\nstore ");
    write_window(&out, x, a, b, "%y");
    tc_text_add(&out, ", %t boundary(0, 1)\n}\n");
    return out.data;
}

static void set_places(tc_region *r, tc_loc loc)
{
    tc_each_op (op, r) {
        op->loc = loc;
        for (unsigned i = 0; i < op->nout; i++)
            op->out[i]->loc = loc;
    }
    for (unsigned i = 0; i < r->nargs; i++)
        r->args[i]->loc = loc;
}

static tc_func *make_kernel(const struct beforehand *p, const tc_type *x,
                            const tc_type *y, tc_loc loc)
{
    unsigned a = tc_type_contiguous(x), b = tc_type_contiguous(y), n = 0;
    const char *name = "transposed";
    tc_module *m = p->plan->module;
    for (tc_func *f; (f = tc_func_find(m, name));
         name = tc_arena_printf(p->env->scratch, "transposed_%u", ++n))
        if (f->is_kernel && f->body->nargs == 2 &&
            f->body->args[0]->type == x && f->body->args[1]->type == y)
            return f;
    const char *text = kernel_text(p, name, x, y, a < b ? a : b, a < b ? b : a);
    if (!tc_parse(m, tc_source_add(p->cx, pass, text, strlen(text))))
        return NULL;
    tc_func *f = tc_func_find(m, name);
    f->loc = loc;
    set_places(f->body, loc);
    set_places(f->grid, loc);
    return f;
}

/* ---- How many programs read a part ---- */

/* The grid of the launch, as far as the plan can compute it: false. */
static bool build_grid(tc_builder *b, const tc_op *launch, const tc_func *f,
                       tc_value *sides[3], unsigned *n)
{
    const tc_region *grid = f->grid;
    const tc_op *yield = grid ? tc_region_terminator(grid) : NULL;
    for (unsigned i = 0; grid && i < grid->nargs; i++)
        grid->args[i]->data = i < launch->nin ? launch->in[i] : NULL;
    for (tc_op *op = grid ? grid->first : NULL; op && op != yield;
         op = op->next) {
        if (op->code == TC_ASSERT)
            continue;
        if (op->nregions || op->code == TC_NUM_SMS || !tc_op_has(op, TC_PURE))
            return false;
        tc_op_insert(tc_op_clone(b->func, op), b->region, b->before);
    }
    *n = yield ? yield->nin : 0;
    for (unsigned i = 0; i < *n; i++)
        sides[i] = yield->in[i]->data;
    return yield != NULL;
}

/* Does the kernel transpose by itself (majors.c), or read by bytes? */
static int32_t enough(const struct beforehand *p, const tc_order_wish *w)
{
    const tc_target *t = p->env->target;
    return t->tma && t->stmatrix && !w->computed ? TC_TRANSPOSED_MIN_READERS
                                                 : TC_BYTEWISE_MIN_READERS;
}

/* NULL: fewer than `least`, whatever the sizes. */
static tc_value *build_readers(tc_builder *b, tc_value *const sides[3],
                               unsigned n, unsigned axes, int32_t least)
{
    tc_value *all = NULL;
    tc_scalar known;
    for (unsigned i = 0; i < n; i++)
        if (!(axes >> i & 1) && !tc_match_int(sides[i], 1))
            all = all ? tc_build_binary(b, TC_MUL, all, sides[i]) : sides[i];
    return all && tc_match_const(all, &known) && known.i < least ? NULL : all;
}

static void erase_between(tc_op *first, tc_op *end)
{
    while (end->prev != first)
        tc_op_erase(end->prev);
}

static tc_value *build_at_least(tc_builder *b, tc_value *v, int64_t n)
{
    return tc_build_cmp(b, "ge", v, tc_build_int(b, v->type, n));
}

/* ---- The plan ---- */

static const tc_type *wanted_type(const struct beforehand *p, const tc_type *t,
                                  unsigned dim)
{
    return tc_type_with_contiguous(p->cx, t, tc_dim_const(p->cx, dim));
}

static tc_value *build_condition(const struct beforehand *p, tc_builder *b,
                                 const tc_op *launch, const struct change *c,
                                 tc_value *readers)
{
    tc_value *tensor = launch->in[c->arg];
    const tc_dim *size = tensor->type->dims[c->wish.dim];
    unsigned n = TC_VECTOR_BYTES / tc_type_bytes(tensor->type->elem);
    tc_value *in[] = {build_at_least(b, readers, enough(p, &c->wish)), NULL};
    if (size)
        return in[0];
    in[1] = tc_build_is_multiple(
        b, tc_build_at(b, TC_SIZE, tensor, "dim", c->wish.dim), n);
    return tc_build_binary(b, TC_AND, in[0], in[1]);
}

/* A tensor of the workspace like operand `arg` of the launch, filled from it.
 */
static void make_transposed(struct beforehand *p, tc_op *launch,
                            const struct change *c, tc_func *kernel)
{
    tc_builder b = tc_builder_before(launch);
    tc_value *from = launch->in[c->arg], *sizes[TC_MAX_RANK];
    unsigned n = 0;
    for (unsigned i = 0; i < from->type->rank; i++)
        if (!from->type->dims[i])
            sizes[n++] = tc_build_at(&b, TC_SIZE, from, "dim", i);
    tc_value *to = tc_build(&b, TC_WORKSPACE, n, sizes,
                            wanted_type(p, from->type, c->wish.dim));
    to->name = from->name;
    tc_value *in[] = {from, to};
    tc_op *fill = tc_op_new(b.func, TC_LAUNCH, b.loc, 2, in, 0);
    tc_op_set_results(fill, 0, NULL);
    tc_op_set_word(fill, "callee",
                   tc_arena_printf(p->env->scratch, "@%s", kernel->name));
    tc_op_insert(fill, b.region, b.before);
    tc_op_set_in(launch, c->arg, to);
}

tc_op *tc_branch_before(tc_op *op, tc_value *condition)
{
    tc_builder b = tc_builder_before(op), then;
    tc_op *branch = tc_build_when(&b, condition, &then);
    tc_region_clear_data(b.func->body);
    return branch;
}

tc_op *tc_branch_take(tc_op *branch, tc_op *op)
{
    tc_region *const *r = branch->regions;
    tc_op *other = tc_op_clone(branch->func, op);
    tc_op_insert(other, r[1], tc_region_terminator(r[1]));
    tc_op_remove(op);
    tc_op_insert(op, r[0], tc_region_terminator(r[0]));
    return other;
}

static void transpose_kernel_say(const struct beforehand *p,
                                 const tc_op *launch, const struct change *c,
                                 const char *why)
{
    const char *name = tc_value_name(p->cx, launch->in[c->arg]);
    if (!p->cx->want_remarks)
        return;
    if (why)
        tc_missed(p->cx, launch->loc, pass,
                  "launch: %s is passed as it is, although a dot wants dim %u "
                  "in one piece: %s",
                  name, c->wish.dim, why);
    else
        tc_remark(p->cx, launch->loc, pass,
                  "launch: a kernel beforehand stores %s with dim %u in one "
                  "piece, as a dot wants it, where %d programs or more read "
                  "each part",
                  name, c->wish.dim, enough(p, &c->wish));
    tc_note(p->cx, c->wish.dot->loc, "the dot");
}

static void change_launch(struct beforehand *p, tc_op *launch,
                          const struct change *c)
{
    const tc_func *f = tc_launch_kernel(launch);
    const tc_type *t = launch->in[c->arg]->type;
    tc_builder b = tc_builder_before(launch);
    tc_value *sides[3], *readers = NULL;
    unsigned n;
    tc_op *before = launch->prev;
    tc_region_clear_data(p->plan->body);
    tc_region_clear_data(f->grid);
    if (build_grid(&b, launch, f, sides, &n))
        readers =
            build_readers(&b, sides, n, c->wish.axes, enough(p, &c->wish));
    if (!readers) {
        erase_between(before, launch);
        transpose_kernel_say(p, launch, c, "no programs share what they read");
        return;
    }
    tc_func *kernel =
        make_kernel(p, t, wanted_type(p, t, c->wish.dim), launch->loc);
    transpose_kernel_say(p, launch, c, NULL);
    tc_value *condition = build_condition(p, &b, launch, c, readers);
    tc_branch_take(tc_branch_before(launch, condition), launch);
    make_transposed(p, launch, c, kernel);
    p->changed = true;
}

static bool wants(const struct beforehand *p, const tc_op *launch,
                  struct change *c)
{
    const tc_type *t = launch->in[c->arg]->type;
    if (t->kind != TC_TENSOR || !t->rank)
        return false;
    c->wish =
        tc_order_wish_of(tc_launch_kernel(launch), c->arg, p->env->target);
    const tc_dim *size = c->wish.dot ? t->dims[c->wish.dim] : NULL;
    return c->wish.dot && !c->wish.other &&
           c->wish.dim != tc_type_contiguous(t) &&
           (!size ||
            tc_dim_value(size) * tc_type_bytes(t->elem) % TC_VECTOR_BYTES == 0);
}

static void transpose_kernel_visit(struct beforehand *p, tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (op->code != TC_LAUNCH || !tc_launch_kernel(op))
            continue;
        struct change c = {0};
        while (c.arg < op->nin && !wants(p, op, &c))
            c.arg++;
        if (c.arg < op->nin)
            change_launch(p, op, &c);
    }
}

bool tc_transpose_beforehand(tc_pass_env *env, tc_func *plan)
{
    struct beforehand p = {.env = env, .cx = env->cx, .plan = plan};
    transpose_kernel_visit(&p, plan->body);
    return p.changed;
}
