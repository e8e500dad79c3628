/* SPDX-License-Identifier: Apache-2.0
 *
 * Generated cases of forward attention against the float64 reference.
 *
 *   attention [--seed N] [--cases N] [--nightly 1] [--group G] [--case C]
 *             [--verbose 1]
 *
 * A group is a compiled plan (dims, type, mask, score); its cases differ in
 * everything that may differ without compiling again: batch, heads, lengths,
 * strides, scale, captured values, inputs. A case depends on the seed, the
 * group and its number only, so that one that failed runs alone.
 */
#include "test/numerics/mods.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct group {
    num_type type;
    int dim, value_dim;
    const mask_case *mask;
    const score_case *score;
} group;

typedef enum input_kind {
    NORMAL,
    SHORT,   /* short binary fractions: scores are exact in f32 */
    PEAKED,  /* scores to +-1e4, exact */
    HUGE_,   /* scores near the end of what f32 (f16: its input) holds, exact */
    ZEROS,   /* q and k are 0 */
    SPECIAL, /* infinities and NaNs in v, seen by some rows or by none */
    INPUT_KINDS
} input_kind;
static const char *const input_names[] = {"normal", "short", "peaked",
                                          "huge",   "zeros", "special"};

typedef struct attention_case {
    const group *group;
    int batch, heads, ratio, m, n; /* heads of k and v; m queries, n keys */
    double scale;
    input_kind input;
    int layouts[4]; /* of q, k, v, o: index into layouts[] */
    bool shared;    /* k and v: one batch for all, by a stride of 0 */
    bool reversed;  /* k and v: keys backwards, by a negative stride */
} attention_case;

/* Dims: batch, head, position, dim. */
static const num_layout layouts[] = {
    {"dense", {0, 1, 2, 3}, {0}, {0}},
    {"bshd", {0, 2, 1, 3}, {0}, {0}},
    {"packed", {0, 2, 1, 3}, {0, 3, 0, 0}, {0, 5, 0, 0}},
    {"sliced", {0, 1, 2, 3}, {1, 1, 3, 2}, {0, 1, 2, 7}},
    {"sbhd", {2, 0, 1, 3}, {0}, {0, 0, 0, 1}},
    {"transposed", {0, 1, 3, 2}, {0, 0, 1, 0}, {0, 0, 2, 0}},
};
enum { NLAYOUTS = sizeof layouts / sizeof *layouts };

/* Relative error overall; a row may have four times as much. */
static double tolerance(num_type t)
{
    return t == NUM_F32 ? 2e-6 : t == NUM_F16 ? 1e-3 : 3e-3;
}

/* Cases */

static int any_length(num_rng *r)
{
    static const int edges[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129};
    switch (num_below(r, 4)) {
    case 0: return edges[num_below(r, sizeof edges / sizeof *edges)];
    case 1: return num_between(r, 1, 40);
    case 2: return num_between(r, 41, 150);
    default: return num_between(r, 1, 300);
    }
}

/* Scores have to be short fractions, see score_case. */
static bool is_short(const group *g)
{
    return g->type == NUM_F32 && g->score->wants_short;
}

static input_kind any_input(num_rng *r, const group *g)
{
    static const input_kind often[] = {NORMAL,  NORMAL, NORMAL, SHORT,
                                       PEAKED,  PEAKED, HUGE_,  ZEROS,
                                       SPECIAL, SPECIAL};
    input_kind kind = often[num_below(r, 10)];
    if (kind == HUGE_ && !g->score->takes_huge)
        kind = PEAKED;
    if (is_short(g) && kind == NORMAL)
        kind = SHORT;
    return kind;
}

/* The power of two near 1 / sqrt(d). */
static double short_scale(int dim)
{
    return ldexp(1, -(int)lround(log2(dim) / 2));
}

static double any_scale(num_rng *r, const group *g, input_kind kind)
{
    static const double factors[] = {1, 1, 0.5, 2, -1, 0.1};
    switch (kind) {
    case NORMAL:
    case ZEROS:
    case SPECIAL:
        if (is_short(g))
            return short_scale(g->dim);
        return factors[num_below(r, 6)] / sqrt(g->dim);
    case SHORT: return short_scale(g->dim);
    /* Products to 900, sums to about 3 * 300 * sqrt(d). */
    case PEAKED: return 8 * short_scale(g->dim);
    default: return 1;
    }
}

static attention_case make_case(num_rng *r, const group *g)
{
    static const int ratios[] = {1, 1, 2, 3, 5, 7, 4};
    attention_case c = {.group = g, .input = any_input(r, g)};
    c.batch = num_between(r, 1, 3);
    c.heads = num_between(r, 1, 3);
    c.ratio = ratios[num_below(r, 7)];
    while (c.batch * c.heads * c.ratio > 9)
        c.batch > 1 ? c.batch-- : c.heads > 1 ? c.heads-- : c.ratio--;
    c.m = any_length(r);
    c.n = any_length(r);
    if (num_below(r, 40) == 0)
        c.n = 0;
    if (num_below(r, 60) == 0)
        c.m = 0;
    c.scale = any_scale(r, g, c.input);
    for (int i = 0; i < 4; i++)
        c.layouts[i] = num_below(r, 2) ? 0 : num_below(r, NLAYOUTS);
    c.shared = num_below(r, 8) == 0;
    c.reversed = num_below(r, 8) == 0;
    return c;
}

static void describe(const attention_case *c, char text[512])
{
    const group *g = c->group;
    snprintf(text, 512,
             "%s d=%d dv=%d mask=%s score=%s b=%d h=%dx%d m=%d n=%d scale=%g "
             "input=%s q=%s k=%s v=%s o=%s%s%s",
             num_name(g->type), g->dim, g->value_dim,
             g->mask->expression ? g->mask->expression : "none",
             g->score->expression ? g->score->expression : "none", c->batch,
             c->heads, c->ratio, c->m, c->n, c->scale, input_names[c->input],
             layouts[c->layouts[0]].name, layouts[c->layouts[1]].name,
             layouts[c->layouts[2]].name, layouts[c->layouts[3]].name,
             c->shared ? " shared" : "", c->reversed ? " reversed" : "");
}

/* Inputs */

typedef struct tensors {
    num_tensor q, k, v, o, lse;
} tensors;

/* Small whole numbers by a power of two: exact in every type. */
static double whole_by(num_rng *r, int limit, int exponent)
{
    return ldexp(num_between(r, -limit, limit), exponent);
}

static double any_key(num_rng *r, const attention_case *c)
{
    bool f16 = c->group->type == NUM_F16;
    switch (c->input) {
    case SHORT: return whole_by(r, 8, -2);
    case PEAKED: return whole_by(r, 30, 0);
    case HUGE_: return whole_by(r, 3, f16 ? 13 : 57);
    case ZEROS: return 0;
    default: return is_short(c->group) ? whole_by(r, 8, -2) : num_normal(r);
    }
}

static void fill(num_tensor *t, num_rng *r, const attention_case *c,
                 double (*any)(num_rng *, const attention_case *))
{
    for (int64_t i = 0, n = num_count(t); i < n; i++)
        num_write(t->type, num_at(t, i), any(r, c));
}

static double any_value(num_rng *r, const attention_case *c)
{
    return num_normal(r);
}

/* What no key beyond the mask may bring in. Keys are poisoned for whole
 * columns of v; a mask by length gets all of its hidden keys poisoned. */
static void poison(num_tensor *v, num_rng *r, int n)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int times = num_between(r, 1, 4); n && times--;) {
        int key = num_below(r, 3) ? n - 1 - num_below(r, (n + 3) / 4)
                                  : num_below(r, n);
        double x = bad[num_below(r, 3)];
        for (int64_t i = 0, count = num_count(v); i < count; i++)
            if (i / v->size[3] % n == key && num_below(r, 4))
                num_write(v->type, num_at(v, i), x);
    }
}

static void poison_hidden(num_tensor *x, const num_tensor *lengths)
{
    int64_t row = x->size[3], n = x->size[2];
    for (int64_t i = 0, count = num_count(x); i < count; i++) {
        int64_t b = i / (row * n * x->size[1]);
        if (i / row % n >= num_read(NUM_I32, num_at(lengths, b)))
            num_write(x->type, num_at(x, i), NAN);
    }
}

static num_tensor make_tensor(const attention_case *c, int which, int heads,
                              int length, int dim)
{
    bool keys = which == 1 || which == 2;
    int32_t size[] = {keys && c->shared ? 1 : c->batch, heads, length, dim};
    num_tensor t =
        num_tensor_new(c->group->type, 4, size, &layouts[c->layouts[which]]);
    if (keys && c->shared) {
        t.size[0] = c->batch;
        t.stride[0] = 0;
    }
    if (keys && c->reversed && length) {
        t.data += (length - 1) * t.stride[2] * (int64_t)num_bytes(t.type);
        t.stride[2] = -t.stride[2];
    }
    return t;
}

static tensors make_tensors(const attention_case *c, num_rng *r,
                            const mod_data *mods)
{
    const group *g = c->group;
    int heads = c->heads * c->ratio;
    tensors t = {
        make_tensor(c, 0, heads, c->m, g->dim),
        make_tensor(c, 1, c->heads, c->n, g->dim),
        make_tensor(c, 2, c->heads, c->n, g->value_dim),
        make_tensor(c, 3, heads, c->m, g->value_dim),
        num_tensor_new(NUM_F32, 3, (int32_t[]){c->batch, heads, c->m}, NULL)};
    fill(&t.q, r, c, any_key);
    fill(&t.k, r, c, any_key);
    fill(&t.v, r, c, any_value);
    if (c->input != SPECIAL)
        return t;
    if (g->mask->expression && strstr(g->mask->expression, "short_keys") &&
        !c->shared) {
        poison_hidden(&t.v, &mods->lengths);
        poison_hidden(&t.k, &mods->lengths);
    } else {
        poison(&t.v, r, c->n);
    }
    return t;
}

static void free_tensors(tensors *t)
{
    num_tensor_free(&t->q);
    num_tensor_free(&t->k);
    num_tensor_free(&t->v);
    num_tensor_free(&t->o);
    num_tensor_free(&t->lse);
}

/* Running */

/* Through the attention API where the scale is the usual one; a plan has one
 * scale, so with another the kernel underneath is launched itself. */
static bool launch(const tilec_attention *plan, const attention_case *c,
                   const tensors *t, const mod_data *mods, tilec_error *error)
{
    run_view q, k, v, o, lse, views[MAX_CAPTURED];
    tilec_argument args[6 + MAX_CAPTURED] = {
        tilec_tensor("q", run_view_of(&q, &t->q)),
        tilec_tensor("k", run_view_of(&k, &t->k)),
        tilec_tensor("v", run_view_of(&v, &t->v)),
        tilec_tensor("o", run_view_of(&o, &t->o)),
        tilec_tensor("lse", run_view_of(&lse, &t->lse)),
        tilec_float("scale", c->scale)};
    const tilec_kernel *kernel = tilec_attention_kernel(plan);
    size_t n = mod_arguments(mods, kernel, args + 6, views);
    if (c->scale != 1 / sqrt(c->group->dim))
        return run_launch(kernel, args, 6 + n, NULL, error) == TILEC_OK;
    tilec_attention_tensors all = TILEC_INIT(tilec_attention_tensors);
    all.q = &q.dl;
    all.k = &k.dl;
    all.v = &v.dl;
    all.o = &o.dl;
    all.lse = &lse.dl;
    all.captured = args + 6;
    all.ncaptured = n;
    return run_forward(plan, &all, NULL, error) == TILEC_OK;
}

/* The largest excess over 2e-5 plus 3e-7 of the value (a logsumexp of 1e4 has
 * no smaller steps in f32); 1 is at the limit. */
static double lse_error(const num_tensor *lse, const double *want)
{
    double worst = 0, *got = num_tensor_read(lse);
    for (int64_t i = 0, n = num_count(lse); i < n; i++) {
        double d = got[i] == want[i] ? 0 : fabs(got[i] - want[i]);
        if (isinf(want[i]) && d != 0)
            worst = INFINITY;
        else
            worst = fmax(worst, isnan(d) ? INFINITY
                                         : d / (2e-5 + 3e-7 * fabs(want[i])));
    }
    free(got);
    return worst;
}

static bool check(const attention_case *c, const tensors *t,
                  const mod_data *mods, char why[512])
{
    const group *g = c->group;
    ref_attention a = {&t->q,
                       &t->k,
                       &t->v,
                       c->scale,
                       g->score->reference,
                       mods,
                       g->mask->reference,
                       mods};
    int64_t n = num_count(&t->o);
    double *o = malloc((size_t)(n + 1) * sizeof *o);
    double *lse = malloc((size_t)(num_count(&t->lse) + 1) * sizeof *lse);
    ref_attention_forward(&a, o, lse);
    double *got = num_tensor_read(&t->o);
    num_error e = num_compare(got, o, n, g->value_dim);
    double lse_worst = lse_error(&t->lse, lse);
    /* A handful of elements is no sample of the rounding of 16 bits. */
    double limit = tolerance(g->type);
    double overall = n < 256 && g->type != NUM_F32 ? 4 * limit : limit;
    bool intact = num_tensor_intact(&t->o) && num_tensor_intact(&t->lse);
    snprintf(why, 512, "error %.2e, worst row %.2e, lse %.2f of limit%s",
             e.overall, e.worst_row, lse_worst,
             intact ? "" : ", wrote outside");
    free(o);
    free(lse);
    free(got);
    return e.overall <= overall && e.worst_row <= 4 * limit && lse_worst <= 1 &&
           intact;
}

typedef struct options {
    uint64_t seed;
    int cases, only_group, only_case;
    bool nightly, verbose;
} options;

static void run_case(const tilec_attention *plan, const group *g, int gi,
                     int ci, const options *o, run_counts *counts)
{
    num_rng r = {o->seed * 1000003 + (uint64_t)gi * 1009 + (uint64_t)ci};
    attention_case c = make_case(&r, g);
    mod_data mods;
    mod_data_init(&mods, &r, c.batch, c.heads * c.ratio, c.m, c.n);
    tensors t = make_tensors(&c, &r, &mods);
    char text[512], why[512];
    tilec_error error = {0};
    describe(&c, text);
    bool ok = launch(plan, &c, &t, &mods, &error);
    if (ok)
        ok = check(&c, &t, &mods, why);
    else
        snprintf(why, sizeof why, "launch: %s", error.message);
    run_check(counts, ok, "--seed %llu --group %d --case %d: %s: %s",
              (unsigned long long)o->seed, gi, ci, text, why);
    if (ok && o->verbose)
        printf("passed %d.%d: %s: %s\n", gi, ci, text, why);
    free_tensors(&t);
    mod_data_free(&mods);
}

static tilec_attention *plan_group(tilec_context *cx, const group *g)
{
    num_tensor qk =
        num_tensor_new(g->type, 4, (int32_t[]){1, 1, 1, g->dim}, NULL);
    num_tensor v =
        num_tensor_new(g->type, 4, (int32_t[]){1, 1, 1, g->value_dim}, NULL);
    run_view view_qk, view_v;
    const DLTensor *a = run_view_of(&view_qk, &qk);
    const DLTensor *b = run_view_of(&view_v, &v);
    tilec_source source = {.name = "test mods", .text = mods_text};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.mask = g->mask->expression;
    o.score = g->score->expression;
    o.sources = &source;
    o.nsources = 1;
    tilec_attention *plan = NULL;
    if (tilec_attention_plan(cx, a, a, b, &o, &plan) != TILEC_OK)
        run_print_diagnostics(cx);
    num_tensor_free(&qk);
    num_tensor_free(&v);
    return plan;
}

static void run_group(tilec_context *cx, const group *g, int gi,
                      const options *o, run_counts *counts)
{
    if (o->only_group >= 0 && gi != o->only_group)
        return;
    tilec_attention *plan = plan_group(cx, g);
    run_check(counts, plan, "group %d: does not compile", gi);
    for (int ci = 0; plan && ci < o->cases; ci++)
        if (o->only_case < 0 || ci == o->only_case)
            run_case(plan, g, gi, ci, o, counts);
    tilec_attention_free(plan);
}

static const num_type types[] = {NUM_F32, NUM_F16, NUM_BF16};

/* All dims, with types, masks and scores in turn. */
static int run_dims(tilec_context *cx, int gi, const options *o,
                    run_counts *counts)
{
    for (int i = 1; i <= 32; i++)
        for (int t = 0; t < (o->nightly ? 3 : 1); t++, gi++) {
            int value_dim = gi % 3 ? i * 8 : 8 * (1 + (i * 7 + 4) % 32);
            group g = {types[(i + t) % 3], i * 8, value_dim,
                       &masks[gi % nmasks], &scores[gi * 3 / 2 % nscores]};
            run_group(cx, &g, gi, o, counts);
        }
    return gi;
}

/* Every mask with every score (nightly), or each with one of the others. */
static int run_mods(tilec_context *cx, int gi, const options *o,
                    run_counts *counts)
{
    for (int m = 0; m < nmasks; m++)
        for (int s = 0; s < nscores; s++) {
            if (!o->nightly && s != m % nscores)
                continue;
            group g = {types[(m + s) / 2 % 3], 64, 64, &masks[m], &scores[s]};
            run_group(cx, &g, gi++, o, counts);
        }
    return gi;
}

int main(int argc, char **argv)
{
    bool nightly = run_option(argc, argv, "nightly", 0);
    options o = {.seed = (uint64_t)run_option(argc, argv, "seed", 1),
                 .cases =
                     (int)run_option(argc, argv, "cases", nightly ? 20 : 6),
                 .only_group = (int)run_option(argc, argv, "group", -1),
                 .only_case = (int)run_option(argc, argv, "case", -1),
                 .nightly = nightly,
                 .verbose = run_option(argc, argv, "verbose", 0)};
    printf("seed %llu\n", (unsigned long long)o.seed);
    tilec_context *cx = run_context();
    run_counts counts = {0};
    int gi = run_dims(cx, 0, &o, &counts);
    run_mods(cx, gi, &o, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
