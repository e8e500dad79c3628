/* SPDX-License-Identifier: Apache-2.0
 *
 * Random chains of ops from loads to a product, with transposes anywhere among
 * them, of tensors that lie either way: swap-operands and
 * transpose-propagation leave the same results, bit for bit, on the CPU and at
 * machine level, with the passes and without. Then the same of plans: chains of
 * kernels that make what another one multiplies, of which transpose-plan may
 * change the order.
 *
 *   machine_orders [--seed N] [--seeds N]
 *
 * Numbers are small and whole, so that sums are exact in any order.
 */
#include "codegen/interp/interp.h"
#include "passes/passes.h"
#include "test/numerics/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NSOURCES = 3, MOST_ARGS = NSOURCES + 3, ROOM = 16384 };

static const num_type floats[] = {NUM_F8E4M3, NUM_F8E5M2, NUM_BF16, NUM_F16,
                                  NUM_F32};

/* ---- Text ---- */

typedef struct text {
    char data[ROOM];
    size_t n;
} text;

static void __attribute__((format(printf, 2, 3)))
add(text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    t->n += (size_t)vsnprintf(t->data + t->n, ROOM - t->n, fmt, args);
    va_end(args);
    if (t->n >= ROOM)
        abort();
}

/* ---- Programs ---- */

/* A source of the chain: K x N elements, or N x K (`turned`), in one piece
 * along its last dim or its first one (`columns`). */
typedef struct source {
    num_type type;
    bool turned, columns;
} source;

typedef struct problem {
    num_rng rng;
    text text;
    const char *name;
    source sources[NSOURCES];
    num_type type; /* of the product's operands */
    bool columns;  /* of operand a */
    source result;
    int32_t m, n, k;
    int values; /* made so far */
} problem;

/* A tile of the chain, K x N or N x K. */
static int chain(problem *p, int depth, bool turned);

static int leaf(problem *p, bool turned)
{
    int i = num_below(&p->rng, NSOURCES), v = p->values++;
    const source *s = &p->sources[i];
    const char *window =
        s->turned ? "0 +: %d, %%k0 +: 64" : "%%k0 +: 64, 0 +: %d";
    add(&p->text, "    %%t%d = load %%x%d[", v, i);
    add(&p->text, window, p->n);
    add(&p->text, "] boundary(0, 1)\n    %%v%d = cast(%s%%t%d%s, f32)\n", v,
        s->turned == turned ? "" : "trans(", v, s->turned == turned ? "" : ")");
    return v;
}

static int unary(problem *p, int depth, bool turned)
{
    static const char *const forms[] = {"-%%v%d",
                                        "abs(%%v%d)",
                                        "%%v%d * 0.5",
                                        "max(%%v%d, -1.0)",
                                        "cast(cast(%%v%d, bf16), f32)",
                                        "cast(cast(%%v%d, f8e5m2), f32)"};
    int x = chain(p, depth - 1, turned), v = p->values++;
    add(&p->text, "    %%v%d = ", v);
    add(&p->text, forms[num_below(&p->rng, 6)], x);
    add(&p->text, "\n");
    return v;
}

static int binary(problem *p, int depth, bool turned)
{
    static const char *const forms[] = {"%%v%d + %%v%d", "max(%%v%d, %%v%d)",
                                        "select(%%v%d > 0.0, %%v%d, 1.0)"};
    int x = chain(p, depth - 1, turned), y = chain(p, depth - 2, turned);
    int v = p->values++;
    add(&p->text, "    %%v%d = ", v);
    add(&p->text, forms[num_below(&p->rng, 3)], x, y);
    add(&p->text, "\n");
    return v;
}

/* A number for each along one axis, 64 or n of them. */
static int factor(problem *p, int depth, bool turned)
{
    int x = chain(p, depth - 1, turned), v = p->values++;
    bool last = num_below(&p->rng, 2);
    add(&p->text, "    %%v%d = %%v%d %s %%%s[%s]\n", v, x,
        num_below(&p->rng, 2) ? "*" : "+", last == turned ? "long" : "short",
        last ? "none, :" : ":, none");
    return v;
}

static void load_rows(problem *p)
{
    add(&p->text,
        "  %%long = load %%r[0 +: 64]\n"
        "  %%short = load %%r[0 +: %d]\n",
        p->n);
}

static int turn(problem *p, int depth, bool turned)
{
    int x = chain(p, depth - 1, !turned), v = p->values++;
    add(&p->text, "    %%v%d = trans(%%v%d)\n", v, x);
    return v;
}

static int chain(problem *p, int depth, bool turned)
{
    typedef int form(problem *, int, bool);
    static form *const forms[] = {unary, binary, factor, turn, turn};
    if (depth <= 0 || num_below(&p->rng, 8) == 0)
        return leaf(p, turned);
    return forms[num_below(&p->rng, 5)](p, depth, turned);
}

static const char *piece(bool columns)
{
    return columns ? ", contiguous(0)" : "";
}

static void add_sources(problem *p)
{
    for (int i = 0; i < NSOURCES; i++)
        add(&p->text, "%%x%d: tensor<[?, ?] x %s%s>, ", i,
            num_name(p->sources[i].type), piece(p->sources[i].columns));
    add(&p->text, "%%r: tensor<[?] x f32>, ");
}

static void add_result(problem *p)
{
    add(&p->text, "%%a: tensor<[?, ?] x %s%s>, %%c: tensor<[?, ?] x %s%s>)",
        num_name(p->type), piece(p->columns), num_name(p->result.type),
        piece(p->result.columns));
}

/* What is done with a sum before it is stored. */
static void store_sum(problem *p)
{
    static const char *const forms[] = {"%sum", "%sum * 0.5 + %short[none, :]",
                                        "max(%sum, %long[:, none])",
                                        "trans(trans(%sum) * %long[none, :])",
                                        "select(%sum > 0.0, %sum, -%sum)"};
    add(&p->text,
        "  %%end = cast(%s, %s)\n"
        "  store %%c[%%m0 +: 64, 0 +: %d], %%end boundary(0, 1)\n}\n",
        forms[num_below(&p->rng, 5)], num_name(p->result.type), p->n);
}

/* c = a b, where b is a chain: in one kernel. */
static void write_kernel(problem *p)
{
    const char *type = num_name(p->type);
    bool turned = num_below(&p->rng, 2);
    add(&p->text, "kernel @chain(");
    add_sources(p);
    add_result(p);
    add(&p->text, "\n    grid(cdiv(size(%%a, 0), 64))\n{\n"
                  "  %%m0 = program_id(0) * 64\n");
    load_rows(p);
    add(&p->text,
        "  %%sum = for %%k0 = 0 to size(%%a, 1) step 64 carry(%%acc = "
        "splat(0.0, tile<64x%d x f32>)) {\n"
        "    %%at = load %%a[%%m0 +: 64, %%k0 +: 64] boundary(0, 1)\n",
        p->n);
    int v = chain(p, num_between(&p->rng, 1, 5), turned);
    add(&p->text,
        "    %%b = cast(%%v%d, %s)\n"
        "    yield dot(%%at, %s, %%acc)\n  }\n",
        v, type, turned ? "trans(%b)" : "%b");
    store_sum(p);
}

/* The same with a kernel that makes b, and maybe another that copies it. */
static void write_plan(problem *p)
{
    const char *type = num_name(p->type);
    static const int sides[] = {8, 16, 64, 64};
    int side = sides[num_below(&p->rng, 4)];
    bool copied = num_below(&p->rng, 2);
    add(&p->text, "kernel @make(");
    add_sources(p);
    add(&p->text,
        "%%y: tensor<[?, 64] x %s>) grid(cdiv(size(%%y, 0), 64)) {\n"
        "  %%k0 = program_id(0) * 64\n",
        type);
    load_rows(p);
    int v = chain(p, num_between(&p->rng, 0, 4), false);
    add(&p->text,
        "  store %%y[%%k0 +: 64, 0 +: 64], cast(%%v%d, %s) boundary(0)\n}\n", v,
        type);
    add(&p->text,
        "kernel @copy(%%x: tensor<[?, 64] x %s>, %%y: tensor<[?, 64] x %s>) "
        "grid(cdiv(size(%%y, 0), %d)) {\n"
        "  %%v = load %%x[program_id(0) * %d +: %d, 0 +: 64] boundary(0)\n"
        "  store %%y[program_id(0) * %d +: %d, 0 +: 64], -%%v boundary(0)\n}\n",
        type, type, side, side, side, side, side);
    add(&p->text,
        "kernel @multiply(%%a: tensor<[?, ?] x %s%s>, %%b: tensor<[?, 64] x "
        "%s>, %%c: tensor<[?, ?] x %s>) grid(cdiv(size(%%a, 0), 64)) {\n"
        "  %%m0 = program_id(0) * 64\n"
        "  %%sum = for %%k0 = 0 to size(%%a, 1) step 64 carry(%%acc = "
        "splat(0.0, tile<64x64 x f32>)) {\n"
        "    %%at = load %%a[%%m0 +: 64, %%k0 +: 64] boundary(0, 1)\n"
        "    %%bt = load %%b[%%k0 +: 64, 0 +: 64] boundary(0)\n"
        "    yield dot(%%at, %%bt, %%acc)\n  }\n"
        "  store %%c[%%m0 +: 64, 0 +: 64], cast(%%sum, %s) boundary(0, 1)\n}\n",
        type, piece(p->columns), type, num_name(p->result.type),
        num_name(p->result.type));
    add(&p->text, "plan @chain(");
    add_sources(p);
    add_result(p);
    add(&p->text,
        " {\n  %%b = workspace size(%%a, 1) : tensor<[?, 64] x %s>\n"
        "  launch @make(%%x0, %%x1, %%x2, %%r, %%b)\n",
        type);
    if (copied)
        add(&p->text,
            "  %%b2 = workspace size(%%a, 1) : tensor<[?, 64] x %s>\n"
            "  launch @copy(%%b, %%b2)\n",
            type);
    add(&p->text, "  launch @multiply(%%a, %%%s, %%c)\n}\n",
        copied ? "b2" : "b");
}

static problem *problem_new(uint64_t seed, bool is_plan)
{
    problem *p = calloc(1, sizeof *p);
    p->rng.state = seed;
    p->type = floats[num_below(&p->rng, 5)];
    if (num_below(&p->rng, 2))
        p->type = floats[num_below(&p->rng, 2)]; /* those that mind */
    p->columns = num_below(&p->rng, 4) == 0;
    p->m = num_below(&p->rng, 3) ? 64 * num_between(&p->rng, 1, 5)
                                 : num_between(&p->rng, 1, 320);
    p->n = is_plan ? 64 : 32 << num_below(&p->rng, 3);
    p->k = num_below(&p->rng, 2) ? 128 : num_between(&p->rng, 1, 190);
    for (int i = 0; i < NSOURCES; i++)
        p->sources[i] = (source){.type = floats[num_below(&p->rng, 5)],
                                 .turned = num_below(&p->rng, 2),
                                 .columns = num_below(&p->rng, 3) == 0};
    p->result = (source){.type = floats[num_below(&p->rng, 5)],
                         .columns = num_below(&p->rng, 2)};
    (is_plan ? write_plan : write_kernel)(p);
    return p;
}

/* ---- Data ---- */

/* Each line begins at a multiple of 16 bytes, whatever its length. */
static num_tensor tensor_new(num_rng *r, num_type type, int32_t rows,
                             int32_t columns, bool by_columns)
{
    int32_t size[] = {rows, columns};
    int line = by_columns ? 0 : 1;
    num_layout layout = {.order = {1 - line, line}};
    layout.behind[line] = (16 - size[line] % 16) % 16;
    num_tensor t = num_tensor_new(type, 2, size, &layout);
    for (int64_t i = 0; i < num_count(&t); i++)
        num_write(type, num_at(&t, i), num_between(r, -2, 2));
    return t;
}

typedef struct data {
    num_tensor tensors[MOST_ARGS];
} data;

static data data_new(const problem *p, uint64_t seed)
{
    data d;
    num_rng r = {seed};
    for (int i = 0; i < NSOURCES; i++) {
        const source *s = &p->sources[i];
        d.tensors[i] = tensor_new(&r, s->type, s->turned ? p->n : p->k,
                                  s->turned ? p->k : p->n, s->columns);
    }
    int32_t n = 128;
    d.tensors[NSOURCES] = num_tensor_new(NUM_F32, 1, &n, NULL);
    for (int64_t i = 0; i < n; i++)
        num_write(NUM_F32, num_at(&d.tensors[NSOURCES], i),
                  (double)(1 << num_below(&r, 3)) / 2);
    d.tensors[NSOURCES + 1] = tensor_new(&r, p->type, p->m, p->k, p->columns);
    d.tensors[NSOURCES + 2] =
        tensor_new(&r, p->result.type, p->m, p->n, p->result.columns);
    return d;
}

static void data_free(data *d)
{
    for (int i = 0; i < MOST_ARGS; i++)
        num_tensor_free(&d->tensors[i]);
}

static bool same(const data *want, const data *have)
{
    const num_tensor *x = &want->tensors[MOST_ARGS - 1],
                     *y = &have->tensors[MOST_ARGS - 1];
    for (int64_t i = 0; i < num_count(x); i++) {
        if (memcmp(num_at(x, i), num_at(y, i), num_bytes(x->type)) == 0)
            continue;
        printf("element %lld is %g, expected %g\n", (long long)i,
               num_read(x->type, num_at(y, i)),
               num_read(x->type, num_at(x, i)));
        return false;
    }
    return true;
}

/* ---- Runs ---- */

static bool run_on_cpu(tilec_context *cx, const char *program, const data *d)
{
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.kernel = "chain";
    tilec_kernel *k = run_compile(cx, program, &o);
    run_view views[MOST_ARGS];
    tilec_argument args[MOST_ARGS];
    for (int i = 0; i < MOST_ARGS; i++)
        args[i] = tilec_tensor(NULL, run_view_of(&views[i], &d->tensors[i]));
    tilec_error error = {0};
    bool ok = k && run_launch(k, args, MOST_ARGS, NULL, &error) == TILEC_OK;
    if (!ok)
        printf("cpu: %s\n", error.message);
    tilec_kernel_free(k);
    return ok;
}

/* The module after some passes; NULL: said why. */
typedef struct module {
    tc_context *cx;
    tc_module *m;
} module;

static module passes_run(const problem *p, const char *pipeline,
                         const tc_pass_options *o)
{
    module made = {.cx = tc_context_new()};
    made.m = tc_module_new(made.cx);
    const char *s = p->text.data;
    if (tc_parse(made.m, tc_source_add(made.cx, "chain", s, strlen(s))) &&
        tc_run_pipeline(made.m, pipeline, o))
        return made;
    for (const tc_diag *d = made.cx->diags; d; d = d->next)
        if (d->severity == TC_ERROR)
            printf("%u:%u: %s\n", d->loc.line, d->loc.col, d->message);
    tc_module_free(made.m);
    made.m = NULL;
    return made;
}

static void module_free(module *m)
{
    tc_module_free(m->m);
    tc_context_free(m->cx);
}

/* As the pass leaves it, run on the CPU. */
static bool changed_is_same(tilec_context *cx, const problem *p,
                            const char *pass, const data *want, uint64_t seed,
                            int *changed)
{
    tc_pass_options o = {.target = tc_target_get("sm_90a"),
                         .verify_each = true,
                         .round_trip = true};
    module before = passes_run(p, "dce", &o), after = passes_run(p, pass, &o);
    bool ok = before.m && after.m;
    if (ok) {
        tc_text x = {.arena = &before.m->arena}, y = {.arena = &after.m->arena};
        tc_module_print(&x, before.m, TC_PRINT_PLAIN);
        tc_module_print(&y, after.m, TC_PRINT_PLAIN);
        *changed += strcmp(x.data, y.data) != 0;
        data d = data_new(p, seed);
        ok = run_on_cpu(cx, y.data, &d) && same(want, &d);
        data_free(&d);
    }
    module_free(&before);
    module_free(&after);
    return ok;
}

static const char *passes_of(const char *name)
{
    unsigned i = 0;
    while (i + 1 < tc_npass_infos && strcmp(tc_pass_infos[i].name, name) != 0)
        i++;
    return tc_pass_infos[i].passes;
}

/* The pipeline "gpu", which begins with "gpu-schedule", as that one does with
 * "gpu-tile", with the passes or without. */
static void pipeline_of(bool with, char to[2048])
{
    static const char name[] = "swap-operands,transpose-propagation,";
    const char *tile = passes_of("gpu-tile"), *at = strstr(tile, name);
    snprintf(to, 2048, "%.*s%s%s%s%s", (int)(at - tile), tile, with ? name : "",
             at + strlen(name), passes_of("gpu-schedule") + strlen("gpu-tile"),
             passes_of("gpu") + strlen("gpu-schedule"));
}

/* For tensors that are aligned, if these are. */
static module machine_of(const problem *p, bool with, const tc_launch_arg *args,
                         tc_pass_options *o)
{
    char pipeline[2048];
    pipeline_of(with, pipeline);
    module made = passes_run(p, pipeline, o);
    if (!made.m || tc_interp_takes(tc_func_find(made.m, "chain"), args))
        return made;
    module_free(&made);
    o->any_alignment = true;
    return passes_run(p, pipeline, o);
}

static bool machine_is_same(const problem *p, const data *want, bool with,
                            uint64_t seed)
{
    static const char *const targets[] = {"sm_80", "sm_89", "sm_90a", "sm_90a"};
    data d = data_new(p, seed);
    tc_launch_arg args[MOST_ARGS];
    for (int i = 0; i < MOST_ARGS; i++) {
        const num_tensor *t = &d.tensors[i];
        args[i] = (tc_launch_arg){
            .data = t->data, .sizes = t->size, .strides = t->stride};
    }
    tc_pass_options o = {.target = tc_target_get(targets[seed % 4]),
                         .stages = 1 + (unsigned)seed % 3};
    module made = machine_of(p, with, args, &o);
    tc_interp_options how = {
        .order = (tc_interp_order)(seed % TC_INTERP_ORDER_COUNT), .seed = seed};
    bool ok = made.m != NULL;
    if (ok && !tc_interp_run(tc_func_find(made.m, "chain"), args, &how)) {
        for (const tc_diag *e = made.cx->diags; e; e = e->next)
            if (e->severity == TC_ERROR)
                printf("%u:%u: %s\n", e->loc.line, e->loc.col, e->message);
        ok = false;
    }
    ok = ok && same(want, &d) && num_tensor_intact(&d.tensors[MOST_ARGS - 1]);
    if (!ok)
        printf("on %s, %s the pass\n", o.target->name,
               with ? "with" : "without");
    module_free(&made);
    data_free(&d);
    return ok;
}

static bool run_seed(tilec_context *cx, uint64_t seed, bool is_plan,
                     int *changed)
{
    problem *p = problem_new(seed, is_plan);
    const char *pass = is_plan ? "bind-plan,transpose-plan"
                               : "bind-params,swap-operands,"
                                 "transpose-propagation,dce";
    data want = data_new(p, seed);
    bool ok = run_on_cpu(cx, p->text.data, &want) &&
              changed_is_same(cx, p, pass, &want, seed, changed);
    if (ok && !is_plan)
        ok = machine_is_same(p, &want, true, seed) &&
             machine_is_same(p, &want, false, seed);
    if (!ok)
        printf("seed %llu, %d x %d x %d:\n%s", (unsigned long long)seed, p->m,
               p->n, p->k, p->text.data);
    data_free(&want);
    free(p);
    return ok;
}

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)run_option(argc, argv, "seed", 1);
    long seeds = run_option(argc, argv, "seeds", 60);
    run_counts counts = {0};
    tilec_context *cx = run_context();
    int changed[2] = {0};
    for (long i = 0; i < seeds; i++)
        for (int plan = 0; plan < 2; plan++)
            if (run_seed(cx, seed + (uint64_t)i, plan, &changed[plan]))
                counts.passed++;
            else
                counts.failed++;
    printf("changed: %d kernels, %d plans\n", changed[0], changed[1]);
    run_check(&counts,
              seeds < 20 ||
                  (changed[0] >= seeds / 8 && changed[1] >= seeds / 8),
              "the passes changed too little to be tested");
    run_context_free(cx);
    return run_finish(&counts);
}
