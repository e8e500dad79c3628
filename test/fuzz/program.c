/* SPDX-License-Identifier: Apache-2.0
 *
 * Control flow, the choice of statements, functions and the kernel.
 */
#include "test/fuzz/gen.h"

#include <stdlib.h>

/* Control flow */

static void statements(gen *g, int n);

typedef struct carried {
    int n;
    value init[3], arg[3], result[3];
} carried;

static carried carry_some(gen *g)
{
    carried c = {.n = num_between(&g->rng, 1, 3)};
    for (int i = 0; i < c.n; i++) {
        c.init[i] = gen_need(g, gen_any_type(g), gen_any_shape(g));
        c.arg[i] = gen_fresh(g, c.init[i].type, c.init[i].shape);
        c.result[i] = gen_fresh(g, c.init[i].type, c.init[i].shape);
    }
    return c;
}

static void list_results(gen *g, const carried *c)
{
    for (int i = 0; i < c->n; i++)
        fprintf(g->out, "%s%s", i ? ", " : "", c->result[i].name);
}

static void list_inits(gen *g, const carried *c)
{
    for (int i = 0; i < c->n; i++)
        fprintf(g->out, "%s%s = %s", i ? ", " : "", c->arg[i].name,
                c->init[i].name);
}

/* What the body hands on; sometimes the carried values in another order. */
static void yield(gen *g, const carried *c)
{
    value v[3];
    for (int i = 0; i < c->n; i++)
        v[i] = gen_need(g, c->arg[i].type, c->arg[i].shape);
    fprintf(g->out, "%*syield", g->indent, "");
    for (int i = 0; i < c->n; i++)
        fprintf(g->out, "%s %s", i ? "," : "", v[i].name);
    fputc('\n', g->out);
}

static void keep_results(gen *g, int nvalues, const carried *c)
{
    g->nvalues = nvalues;
    for (int i = 0; i < c->n; i++)
        gen_keep(g, c->result[i]);
}

/* At times: an end of the loop that comes early. */
static void break_(gen *g, const carried *c)
{
    if (num_below(&g->rng, 4))
        return;
    value condition = gen_need(g, NUM_I1, gen_shapes[0]), v[3];
    bool alone = num_below(&g->rng, 2);
    for (int i = 0; i < c->n && !alone; i++)
        v[i] = gen_need(g, c->arg[i].type, c->arg[i].shape);
    fprintf(g->out, "%*sbreak_if %s", g->indent, "", condition.name);
    for (int i = 0; i < c->n && !alone; i++)
        fprintf(g->out, ", %s", v[i].name);
    fputc('\n', g->out);
    statements(g, num_below(&g->rng, 3));
}

static void for_(gen *g)
{
    carried c = carry_some(g);
    value lo = gen_whole(g, num_between(&g->rng, -3, 3));
    value step = gen_whole(g, num_between(&g->rng, 1, 3));
    if (num_below(&g->rng, 4) == 0) {
        /* One that only the launch knows, and that may be 0 or less. */
        value limit = step;
        step = gen_fresh(g, NUM_I32, gen_shapes[0]);
        gen_line(g, "%s = min %%n, %s", step.name, limit.name);
    }
    value hi = {.name = "%n"};
    if (num_below(&g->rng, 2))
        hi = gen_whole(g, num_between(&g->rng, -3, 6));
    value i = gen_fresh(g, NUM_I32, gen_shapes[0]);
    int nvalues = g->nvalues;
    fprintf(g->out, "%*s", g->indent, "");
    list_results(g, &c);
    fprintf(g->out, " = for %s = %s to %s step %s carry(", i.name, lo.name,
            hi.name, step.name);
    list_inits(g, &c);
    fprintf(g->out, ") {\n");
    g->indent += 2;
    gen_keep(g, i);
    for (int j = 0; j < c.n; j++)
        gen_keep(g, c.arg[j]);
    statements(g, num_between(&g->rng, 1, 5));
    break_(g, &c);
    yield(g, &c);
    g->indent -= 2;
    gen_line(g, "}");
    keep_results(g, nvalues, &c);
}

static void if_(gen *g)
{
    carried c = carry_some(g);
    value condition = gen_need(g, NUM_I1, gen_shapes[0]);
    int nvalues = g->nvalues;
    fprintf(g->out, "%*s", g->indent, "");
    list_results(g, &c);
    fprintf(g->out, " = if %s {\n", condition.name);
    for (int side = 0; side < 2; side++) {
        g->indent += 2;
        statements(g, num_between(&g->rng, 0, 4));
        yield(g, &c);
        g->indent -= 2;
        gen_line(g, side ? "}" : "} else {");
        g->nvalues = nvalues;
    }
    keep_results(g, nvalues, &c);
}

/* Counts to a limit; the carried values come along. */
static void while_(gen *g)
{
    carried c = carry_some(g);
    c.n = c.n > 2 ? 2 : c.n;
    value zero = gen_whole(g, 0), one = gen_whole(g, 1);
    value limit = gen_whole(g, num_between(&g->rng, 0, 5));
    value count = gen_fresh(g, NUM_I32, gen_shapes[0]);
    value done = gen_fresh(g, NUM_I32, gen_shapes[0]);
    value go = gen_fresh(g, NUM_I1, gen_shapes[0]);
    value next = gen_fresh(g, NUM_I32, gen_shapes[0]);
    int nvalues = g->nvalues;
    fprintf(g->out, "%*s%s, ", g->indent, "", done.name);
    list_results(g, &c);
    fprintf(g->out, " = while carry(%s = %s, ", count.name, zero.name);
    list_inits(g, &c);
    fprintf(g->out, ") {\n");
    g->indent += 2;
    for (int j = 0; j < c.n; j++)
        gen_keep(g, c.arg[j]);
    gen_keep(g, count);
    statements(g, num_between(&g->rng, 0, 2));
    gen_line(g, "%s = cmp %s, %s pred(lt)", go.name, count.name, limit.name);
    gen_line(g, "condition %s", go.name);
    g->indent -= 2;
    gen_line(g, "} do {");
    g->indent += 2;
    statements(g, num_between(&g->rng, 0, 4));
    gen_line(g, "%s = add %s, %s", next.name, count.name, one.name);
    value v[3];
    for (int i = 0; i < c.n; i++)
        v[i] = gen_need(g, c.arg[i].type, c.arg[i].shape);
    fprintf(g->out, "%*syield %s", g->indent, "", next.name);
    for (int i = 0; i < c.n; i++)
        fprintf(g->out, ", %s", v[i].name);
    fputc('\n', g->out);
    g->indent -= 2;
    gen_line(g, "}");
    keep_results(g, nvalues, &c);
    gen_keep(g, done);
}

/* A statement of each kind, as often as it is listed; the first few also
 * stand in functions, which know only scalars. */
typedef void statement_fn(gen *g);
static statement_fn *const simple[] = {gen_binary, gen_binary,  gen_binary,
                                       gen_unary,  gen_compare, gen_select,
                                       gen_fma,    gen_cast,    gen_bitcast};
static statement_fn *const others[] = {
    gen_binary,       gen_unary,         gen_compare, gen_select,
    gen_cast,         gen_range,         gen_expand,  gen_broadcast,
    gen_trans,        gen_reshape,       gen_slice,   gen_join,
    gen_reduce,       gen_reduce,        gen_argmax,  gen_scan,
    gen_scan_maps,    gen_sort,          gen_take,    gen_histogram,
    gen_dot,          gen_load,          gen_gather,  gen_call,
    gen_store,        gen_rough,         gen_ramp,    gen_axis,
    gen_load_windows, gen_load_pointers, gen_stored,  gen_stored,
    gen_print,        gen_atomic,        gen_promise, gen_exit};
static statement_fn *const control[] = {for_, if_, while_};

static void statements(gen *g, int n)
{
    for (int i = 0; i < n && g->nvalues < MAX_VALUES - 40; i++) {
        if (g->in_function || num_below(&g->rng, 3) == 0) {
            simple[num_below(&g->rng, sizeof simple / sizeof *simple)](g);
        } else if (g->depth < MAX_DEPTH && num_below(&g->rng, 5) == 0) {
            g->depth++;
            control[num_below(&g->rng, 3)](g);
            g->depth--;
        } else {
            others[num_below(&g->rng, sizeof others / sizeof *others)](g);
        }
    }
}

static void write_function(gen *g, int i)
{
    function *f = &g->functions[i];
    f->params[0] = gen_any_type(g);
    f->params[1] = gen_any_type(g);
    f->result = gen_any_type(g);
    gen_line(g, "func @f%d(%%p: %s, %%q: %s) -> %s {", i,
             num_name(f->params[0]), num_name(f->params[1]),
             num_name(f->result));
    g->indent = 2;
    g->nvalues = 0;
    g->in_function = true;
    gen_keep(g, (value){"%p", f->params[0], gen_shapes[0]});
    gen_keep(g, (value){"%q", f->params[1], gen_shapes[0]});
    if (!g->p.split && num_below(&g->rng, 3) == 0)
        gen_axis(g); /* a program that is split asks in the kernel */
    statements(g, num_between(&g->rng, 1, 6));
    gen_line(g, "return %s", gen_need(g, f->result, gen_shapes[0]).name);
    g->in_function = false;
    g->indent = 0;
    gen_line(g, "}");
}

/* @g0 calls what is bound to its parameter; @f0 fits and captures %q. */
static void write_frame(gen *g, int i)
{
    const char *in = num_name(g->functions[i].params[0]);
    const char *out = num_name(g->functions[i].result);
    gen_line(g, "func @g%d[f: func(%s) -> %s](%%p: %s) -> %s {", i, in, out, in,
             out);
    gen_line(g, "  %%r = call f(%%p) : %s", out);
    gen_line(g, "  return %%r");
    gen_line(g, "}");
}

/* One or two sums of f32, of products that are exact. Nothing else uses what it
 * carries. */
typedef struct sums {
    int n;
    bool from_number; /* in all elements the same: GPUs may transpose it */
    value init[2], arg[2], result[2];
} sums;

static value one_number(gen *g, shape s)
{
    value v = gen_fresh(g, NUM_F32, gen_shapes[0]);
    gen_line(g, "%s = const 3.0 : f32", v.name);
    return gen_splat_to(g, v, s);
}

static sums some_sums(gen *g)
{
    sums s = {.n = num_between(&g->rng, 1, 2),
              .from_number = num_below(&g->rng, 2)};
    for (int i = 0; i < s.n; i++) {
        shape to = {
            2,
            {num_below(&g->rng, 2) ? 8 : 16, num_below(&g->rng, 2) ? 8 : 16}};
        s.init[i] =
            s.from_number ? one_number(g, to) : gen_small(g, NUM_F32, to, 1023);
        s.arg[i] = gen_fresh(g, NUM_F32, to);
        s.result[i] = gen_fresh(g, NUM_F32, to);
    }
    return s;
}

static value product_added(gen *g, value sum, const char *order)
{
    static const num_type types[] = {NUM_F32, NUM_F16, NUM_BF16, NUM_F8E4M3};
    num_type t = types[num_below(&g->rng, 4)];
    int k = num_below(&g->rng, 2) ? 16 : 32;
    value a = gen_small(g, t, (shape){2, {sum.shape.side[0], k}}, 7);
    value b = gen_small(g, t, (shape){2, {k, sum.shape.side[1]}}, 7);
    value v = gen_fresh(g, NUM_F32, sum.shape);
    gen_line(g, "%s = dot %s, %s, %s%s", v.name, a.name, b.name, sum.name,
             order);
    return v;
}

static value number_added(gen *g, value sum)
{
    value x = gen_small(g, NUM_F32, sum.shape, 7);
    value v = gen_fresh(g, NUM_F32, sum.shape);
    gen_line(g, "%s = add %s, %s", v.name, sum.name, x.name);
    return v;
}

/* A loop that programs may share. */
static void shared_loop(gen *g)
{
    static const char *const orders[] = {"", " operands(keep)",
                                         " operands(swap)"};
    sums s = some_sums(g);
    value lo = gen_whole(g, num_between(&g->rng, -3, 3));
    value hi = gen_whole(g, num_between(&g->rng, -1, 12));
    value step = gen_whole(g, num_between(&g->rng, 1, 3));
    if (num_below(&g->rng, 3) == 0)
        snprintf(hi.name, sizeof hi.name, "%%n");
    value i = gen_fresh(g, NUM_I32, gen_shapes[0]);
    int nvalues = g->nvalues;
    fprintf(g->out, "%*s%s", g->indent, "", s.result[0].name);
    if (s.n > 1)
        fprintf(g->out, ", %s", s.result[1].name);
    fprintf(g->out, " = for %s = %s to %s step %s carry(%s = %s", i.name,
            lo.name, hi.name, step.name, s.arg[0].name, s.init[0].name);
    if (s.n > 1)
        fprintf(g->out, ", %s = %s", s.arg[1].name, s.init[1].name);
    fprintf(g->out, ") {\n");
    g->indent += 2;
    g->depth++;
    gen_keep(g, i);
    statements(g, num_between(&g->rng, 0, 3));
    value next[2];
    for (int j = 0; j < s.n; j++) {
        const char *order = orders[num_below(&g->rng, s.from_number ? 3 : 2)];
        next[j] = j ? s.arg[j] : product_added(g, s.arg[j], order);
        bool number = num_below(&g->rng, 2) && strcmp(order, orders[2]) != 0;
        next[j] = number ? number_added(g, next[j])
                         : product_added(g, next[j], order);
    }
    gen_line(g, "yield %s%s%s", next[0].name, s.n > 1 ? ", " : "",
             s.n > 1 ? next[1].name : "");
    g->depth--;
    g->indent -= 2;
    gen_line(g, "}");
    g->nvalues = nvalues;
    for (int j = 0; j < s.n; j++)
        gen_keep(g, s.result[j]);
}

/* One that changes no result. */
static void write_clause(gen *g)
{
    static const char *const clauses[] = {
        "ptxas(1)", "ctas(1)",       "ctas(2)",        "ctas(4)",
        "early",    "tiles(static)", "tiles(dynamic)", "tiles(none)"};
    if (num_below(&g->rng, 2))
        gen_line(g, "    %s", clauses[num_below(&g->rng, 8)]);
}

/* Nothing of it may be left in what is run. */
static void write_tuning(gen *g)
{
    static const char *const axes[] = {"warps=1, 2", "stages=2", "ptxas=1, 3",
                                       "tiles=none, dynamic"};
    const char *before = "    tune(";
    for (int i = 0; i < 4; i++)
        if (num_below(&g->rng, 8) == 0) {
            fprintf(g->out, "%s%s", before, axes[i]);
            before = "; ";
        }
    fputs(*before == ';' ? ")\n" : "", g->out);
}

static void write_kernel(gen *g, int n)
{
    gen_line(g, "kernel @random(%%fa: tensor<[?, ?] x f32>, "
                "%%ia: tensor<[?, ?] x i32>, %%n: i32, %%x: f32,");
    for (int t = 0; t < NUM_TYPE_COUNT; t++)
        gen_line(g, "    %%out_%s: tensor<[?, ?] x %s>,", num_name(t),
                 num_name(t));
    gen_line(g, "    %%rough: tensor<[?, ?] x f32>,");
    for (int io = 0; io < 2; io++)
        for (int s = 0; s < STORED_COUNT; s++)
            gen_line(g, "    %%%s_%s: tensor<[?, ?] x %s>%s", io ? "out" : "in",
                     stored_infos[s].name, stored_infos[s].name,
                     io && s == STORED_COUNT - 1 ? ")" : ",");
    if (num_below(&g->rng, 2))
        write_clause(g);
    else
        write_tuning(g);
    gen_line(g, "    grid(%d%s) {", PROGRAM_GRID,
             g->p.split || num_below(&g->rng, 4) ? "" : ", 1, 1, 1, 1");
    g->indent = 2;
    g->nvalues = 0;
    gen_line(g, "%%pid = program_id axis(0)");
    gen_keep(g, (value){"%pid", NUM_I32, gen_shapes[0]});
    gen_keep(g, (value){"%n", NUM_I32, gen_shapes[0]});
    gen_keep(g, (value){"%x", NUM_F32, gen_shapes[0]});
    gen_load(g);
    gen_load(g);
    if (g->p.split) {
        g->is_pure = true;
        statements(g, num_below(&g->rng, 4));
        shared_loop(g);
        g->is_pure = false;
    }
    statements(g, n);
    for (int i = 0; i < g->nvalues; i += 1 + num_below(&g->rng, 3))
        gen_store_value(g, g->values[i]);
    gen_line(g, "return");
    g->indent = 0;
    gen_line(g, "}");
}

program program_new(uint64_t seed, int n)
{
    static const char *const splits[] = {"1", "2", "5", "auto", "stream"};
    gen g = {.rng = {seed * 0x9e3779b97f4a7c15u + 1}};
    size_t length;
    if (num_below(&g.rng, 4) == 0)
        g.p.split = splits[num_below(&g.rng, 5)];
    g.out = open_memstream(&g.p.text, &length);
    for (int i = 0; i < 2; i++) {
        write_function(&g, i);
        write_frame(&g, i);
    }
    write_kernel(&g, n);
    fclose(g.out);
    for (int t = 0; t < NUM_TYPE_COUNT; t++)
        g.p.slots[t] += g.p.slots[t] == 0;
    g.p.rough += g.p.rough == 0;
    for (int s = 0; s < STORED_COUNT; s++)
        g.p.stored[s] += g.p.stored[s] ? 0 : 2;
    return g.p;
}

void program_free(program *p)
{
    free(p->text);
    p->text = NULL;
}
