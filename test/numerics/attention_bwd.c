/* SPDX-License-Identifier: Apache-2.0
 *
 * Generated cases of the gradients of attention against float64.
 *
 *   attention_bwd [--seed N] [--cases N] [--nightly 1] [--group G] [--case C]
 *                 [--verbose 1]
 *
 * Each case runs the plan @attention_backward all ways: dq added up; by a
 * kernel of its own; dq, dk and dv each by one. For half of the groups several
 * programs share the heads of a block of keys, be there so many or not. The
 * logsumexp and o that they are given are those of the reference, rounded to
 * their types; the reference of the gradients is given the same.
 */
#include "test/numerics/cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Plans ---- */

enum way { ADDED, PAIR, APART, WAYS };
static const char *const way_names[] = {"added", "two kernels",
                                        "three kernels"};

typedef struct plans {
    tilec_attention *of[WAYS];
    bool lse_grad, sinks;
} plans;

static bool has_sinks(int gi)
{
    return gi % 5 == 1 || gi % 5 == 3;
}

static tilec_attention *compile(tilec_context *cx, const group *g, int gi,
                                enum way way)
{
    int32_t qk[4] = {1, 1, 64, g->dim}, v[4] = {1, 1, 64, g->value_dim};
    num_tensor like = num_tensor_new(g->type, 4, qk, NULL);
    num_tensor values = num_tensor_new(g->type, 4, v, NULL);
    run_view like_view, values_view;
    const DLTensor *a = run_view_of(&like_view, &like),
                   *b = run_view_of(&values_view, &values);
    tilec_source source = tilec_text("test mods", mods_text, 0);
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.mask = g->mask->expression;
    o.score = g->score->expression;
    o.sources = &source;
    o.nsources = 1;
    o.backward = 1;
    o.deterministic = way != ADDED;
    o.sinks = has_sinks(gi);
    o.block_lists = gi % 2 ? 1 : -1;
    tilec_binding bindings[6] = {{"SPLIT", way == ADDED ? "3" : "2"}};
    size_t n = (size_t)(gi / 2 + way) % 2;
    if (way == APART) {
        static const tilec_binding apart[] = {
            {"DETERMINISTIC", "1"}, /* not by ordered additions */
            {"APART", "1"},
            {"BMV", "32"},
            {"BNV", "16"},
            {"BLOCK_DV", "48"}};
        memcpy(bindings + n, apart, sizeof apart);
        n += sizeof apart / sizeof *apart;
    }
    o.backward_bindings = bindings;
    o.nbackward_bindings = n;
    tilec_attention *plan = NULL;
    if (tilec_attention_plan(cx, a, a, b, &o, &plan) != TILEC_OK)
        run_print_diagnostics(cx);
    num_tensor_free(&like);
    num_tensor_free(&values);
    return plan;
}

/* ---- Tensors ---- */

typedef struct gradients {
    num_tensor dout, dlse, dq, dk, dv;
    num_tensor sinks, dsinks; /* of the forward pass; for no head: none */
} gradients;

static num_tensor like(const num_tensor *t, const attention_case *c, int which)
{
    return make_tensor(c, which, t->size[1], t->size[2], t->size[3]);
}

/* Of a few rows; what does not see them is to stay as it is. */
static void poison_rows(num_tensor *t, num_rng *r)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    int64_t width = t->size[3], rows = num_count(t) / width;
    for (int times = num_between(r, 0, 3); rows && times--;) {
        int64_t row = num_below(r, (int)rows);
        double x = bad[num_below(r, 3)];
        for (int64_t i = row * width; i < (row + 1) * width; i++)
            if (num_below(r, 4))
                num_write(t->type, num_at(t, i), x);
    }
}

static gradients make_gradients(const attention_case *c, num_rng *r,
                                const tensors *t, bool sinks)
{
    attention_case plain = *c; /* outputs are nobody else's memory */
    plain.shared = false;
    gradients g = {.dout = like(&t->o, c, num_below(r, 2) ? 3 : 0),
                   .dlse = num_tensor_new(NUM_F32, 3, t->lse.size, NULL),
                   .dq = like(&t->q, &plain, 0),
                   .dk = like(&t->k, &plain, 1),
                   .dv = like(&t->v, &plain, 2)};
    for (int64_t i = 0; i < num_count(&g.dout); i++)
        num_write(g.dout.type, num_at(&g.dout, i), num_normal(r));
    for (int64_t i = 0; i < num_count(&g.dlse); i++)
        num_write(NUM_F32, num_at(&g.dlse, i), num_normal(r));
    if (sinks)
        g.sinks = make_sinks(c, r);
    g.dsinks = num_tensor_new(
        NUM_F32, 1, (int32_t[]){sinks ? c->heads * c->ratio : 0}, NULL);
    return g;
}

static void free_gradients(gradients *g)
{
    num_tensor *all[] = {&g->dout, &g->dlse,  &g->dq,    &g->dk,
                         &g->dv,   &g->sinks, &g->dsinks};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        num_tensor_free(all[i]);
}

/* o and lse as a forward kernel would have stored them, but for errors. */
static void store_forward(const ref_attention *a, tensors *t)
{
    int64_t n = num_count(&t->o), rows = num_count(&t->lse);
    double *o = malloc((size_t)(n + 1) * sizeof *o);
    double *lse = malloc((size_t)(rows + 1) * sizeof *lse);
    ref_attention_forward(a, o, lse);
    for (int64_t i = 0; i < n; i++)
        num_write(t->o.type, num_at(&t->o, i), o[i]);
    for (int64_t i = 0; i < rows; i++)
        num_write(NUM_F32, num_at(&t->lse, i), lse[i]);
    free(o);
    free(lse);
}

/* ---- Running ---- */

static bool launch(const tilec_attention *plan, const attention_case *c,
                   const tensors *t, const gradients *g, bool lse_grad,
                   const mod_data *mods, tilec_error *error)
{
    const struct {
        const char *name;
        const num_tensor *tensor;
    } all[] = {{"q", &t->q},
               {"k", &t->k},
               {"v", &t->v},
               {"o", &t->o},
               {"lse", &t->lse},
               {"do", &g->dout},
               {"dlse", lse_grad ? &g->dlse : &t->lse},
               {"dq", &g->dq},
               {"dk", &g->dk},
               {"dv", &g->dv},
               {"dsinks", &g->dsinks},
               {"sink.sinks", &g->sinks}};
    enum { MOST = sizeof all / sizeof *all };
    const tilec_kernel *k = tilec_attention_backward_kernel(plan);
    run_view views[MOST + MAX_CAPTURED];
    tilec_argument args[MOST + 2 + MAX_CAPTURED];
    size_t n = 0;
    for (; n < MOST - (g->sinks.rank == 0); n++)
        args[n] =
            tilec_tensor(all[n].name, run_view_of(&views[n], all[n].tensor));
    args[n++] = tilec_float("scale", c->scale);
    args[n++] = tilec_int("with_dlse", lse_grad);
    n += mod_arguments(mods, k, args + n, views + MOST);
    return run_launch(k, args, n, NULL, error) == TILEC_OK;
}

/* ---- Checking ---- */

/* Relative to the norm of a gradient; of 16 bits at most two roundings, that of
 * p or ds and that of the result. */
static double tolerance(num_type t)
{
    return t == NUM_F32 ? 2e-6 : t == NUM_F16 ? 1e-3 : 4e-3;
}

typedef struct result {
    const char *name;
    const num_tensor *got;
    const double *want, *size;
    double worst, worst_row; /* of the limit */
} result;

static double square(double x)
{
    return x * x;
}

/* Where no number is wanted, or one that the type does not have, none must be
 * there. */
static double difference(num_type t, double got, double want)
{
    if (isfinite(num_round(t, want)))
        return isfinite(got) ? got - want : INFINITY;
    return isfinite(got) ? INFINITY : 0;
}

/* The error by what it may be: a part of the gradient, `fine` of all that
 * cancelled in it, and `least`. */
static void compare(result *r, double limit, double fine, double least)
{
    double *got = num_tensor_read(r->got);
    int64_t n = num_count(r->got), width = r->got->size[3];
    double all = 0, room = 0, mean = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(r->want[i]) && isfinite(r->size[i]))
            mean += square(limit * r->want[i]) + square(fine * r->size[i]) +
                    square(least);
    mean = n ? mean / (double)n : 0;
    for (int64_t row = 0; row < n; row += width) {
        double sum = 0, own = 0;
        for (int64_t i = row; i < row + width; i++) {
            sum += square(difference(r->got->type, got[i], r->want[i]));
            if (isfinite(r->want[i]) && isfinite(r->size[i]))
                own += square(limit * r->want[i]) + square(fine * r->size[i]) +
                       square(least);
        }
        all += sum;
        room += own;
        own = fmax(own, mean * (double)width / 100);
        if (sum > 0)
            r->worst_row = fmax(r->worst_row, sqrt(sum / own) / 4);
    }
    r->worst = all > 0 ? sqrt(all / room) : 0;
    if (n < 256) /* a handful of elements is no sample */
        r->worst /= 4;
    free(got);
}

typedef struct wanted {
    double *dq, *dk, *dv, *dq_size, *dk_size, *dv_size;
    double *dsinks, *dsinks_size;
} wanted;

static wanted want_gradients(const ref_attention *a, const tensors *t,
                             const gradients *g, bool lse_grad)
{
    size_t nq = (size_t)num_count(&t->q) + 1, nk = (size_t)num_count(&t->k) + 1;
    size_t nv = (size_t)num_count(&t->v) + 1;
    size_t nh = (size_t)num_count(&g->dsinks) + 1;
    wanted w = {malloc(nq * sizeof(double)), malloc(nk * sizeof(double)),
                malloc(nv * sizeof(double)), malloc(nq * sizeof(double)),
                malloc(nk * sizeof(double)), malloc(nv * sizeof(double)),
                malloc(nh * sizeof(double)), malloc(nh * sizeof(double))};
    ref_gradients all = {
        &t->o,     &t->lse,   &g->dout, lse_grad ? &g->dlse : NULL,
        w.dq,      w.dk,      w.dv,     w.dq_size,
        w.dk_size, w.dv_size, w.dsinks, w.dsinks_size};
    ref_attention_backward(a, &all);
    return w;
}

static void free_wanted(wanted *w)
{
    double *all[] = {w->dq,      w->dk,      w->dv,     w->dq_size,
                     w->dk_size, w->dv_size, w->dsinks, w->dsinks_size};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Where exponents are folded (16 bits), p changes by the rounding of the
 * logsumexp; of those that are too large for that (7e5), by nothing. */
static double fine_of(const tensors *t)
{
    double most = 0;
    for (int64_t i = 0; i < num_count(&t->lse); i++) {
        double x = fabs(num_read(NUM_F32, num_at(&t->lse, i)));
        if (x < 7e5)
            most = fmax(most, x);
    }
    return 1e-6 + (t->q.type == NUM_F32 ? 6e-8 : 2e-7) * most;
}

/* Next to a large sink all weights may be too small for their type. */
static double least_of(const attention_case *c, const gradients *g)
{
    return !g->sinks.rank ? 0 : c->group->type == NUM_F16 ? 0x1p-20 : 1e-36;
}

/* Sums in f32 of what is right to `fine`, or too small for f32. */
static bool check_sinks(const tensors *t, const gradients *g, const wanted *w)
{
    double *got = num_tensor_read(&g->dsinks);
    bool ok = num_tensor_intact(&g->dsinks);
    for (int64_t i = 0; i < num_count(&g->dsinks); i++) {
        double d = difference(NUM_F32, got[i], w->dsinks[i]);
        ok &= d == 0 || fabs(d) <= fine_of(t) * w->dsinks_size[i] + 1e-36;
    }
    free(got);
    return ok;
}

static bool check(const attention_case *c, const tensors *t, const gradients *g,
                  const wanted *w, char why[512])
{
    result results[] = {{"dq", &g->dq, w->dq, w->dq_size, 0, 0},
                        {"dk", &g->dk, w->dk, w->dk_size, 0, 0},
                        {"dv", &g->dv, w->dv, w->dv_size, 0, 0}};
    bool ok = true;
    int at = 0;
    for (int i = 0; i < 3; i++) {
        result *r = &results[i];
        compare(r, tolerance(c->group->type), fine_of(t), least_of(c, g));
        bool intact = num_tensor_intact(r->got);
        at += snprintf(why + at, 512 - (size_t)at, "%s%s %.2f, row %.2f%s",
                       i ? ", " : "of the limit: ", r->name, r->worst,
                       r->worst_row, intact ? "" : ", wrote outside");
        ok &= r->worst <= 1 && r->worst_row <= 1 && intact;
    }
    bool sinks = check_sinks(t, g, w);
    snprintf(why + at, 512 - (size_t)at, ", dsinks %s", sinks ? "ok" : "wrong");
    ok &= sinks;
    return ok;
}

static void poison_output(num_tensor *t)
{
    for (int64_t i = 0; i < num_count(t); i++)
        num_write(t->type, num_at(t, i), NAN);
}

static bool run_way(const plans *p, const attention_case *c, const tensors *t,
                    gradients *g, const mod_data *mods, enum way way, char *why)
{
    tilec_error error = {0};
    poison_output(&g->dq);
    poison_output(&g->dk);
    poison_output(&g->dv);
    poison_output(&g->dsinks);
    if (launch(p->of[way], c, t, g, p->lse_grad, mods, &error))
        return true;
    snprintf(why, 512, "launch: %s", error.message);
    return false;
}

static void run_case(const plans *p, const group *g, int gi, int ci,
                     const case_options *o, run_counts *counts)
{
    num_rng r = {o->seed * 1000003 + (uint64_t)gi * 1009 + (uint64_t)ci};
    attention_case c = make_case(&r, g);
    /* With keys that are alike dq is 0, and what is computed mere rounding;
     * those that rise are for running maxima. */
    if (c.input == ALIKE || c.input == RISING)
        c.input = PEAKED;
    c.power = 0;
    mod_data mods;
    mod_data_init(&mods, &r, c.batch, c.heads * c.ratio, c.m, c.n);
    tensors t = make_tensors(&c, &r, &mods);
    gradients d = make_gradients(&c, &r, &t, p->sinks);
    if (c.input == SPECIAL) {
        poison_rows(&t.q, &r);
        poison_rows(&d.dout, &r);
    }
    ref_attention a = {.q = &t.q,
                       .k = &t.k,
                       .v = &t.v,
                       .scale = c.scale,
                       .score = g->score->reference,
                       .score_data = &mods,
                       .mask = g->mask->reference,
                       .mask_data = &mods};
    double *logits = p->sinks ? num_tensor_read(&d.sinks) : NULL;
    a.sinks = logits;
    store_forward(&a, &t);
    wanted w = want_gradients(&a, &t, &d, p->lse_grad);
    char text[512], why[512];
    describe_case(&c, text);
    for (int way = 0; way < WAYS; way++) {
        bool ok = run_way(p, &c, &t, &d, &mods, way, why) &&
                  check(&c, &t, &d, &w, why);
        run_check(counts, ok, "--seed %llu --group %d --case %d: %s%s: %s: %s",
                  (unsigned long long)o->seed, gi, ci, way_names[way],
                  p->lse_grad ? ", gradient of lse" : "", text, why);
        if (ok && o->verbose)
            printf("passed %d.%d: %s: %s\n", gi, ci, text, why);
    }
    free(logits);
    free_wanted(&w);
    free_gradients(&d);
    free_tensors(&t);
    mod_data_free(&mods);
}

static void run_group(tilec_context *cx, const group *g, int gi,
                      const case_options *o, run_counts *counts)
{
    if (o->only_group >= 0 && gi != o->only_group)
        return;
    plans p = {.lse_grad = gi % 3 == 0, .sinks = has_sinks(gi)};
    bool ok = true;
    for (int i = 0; i < WAYS; i++)
        ok &= (p.of[i] = compile(cx, g, gi, i)) != NULL;
    run_check(counts, ok, "group %d: does not compile", gi);
    for (int ci = 0; ok && ci < o->cases; ci++)
        if (o->only_case < 0 || ci == o->only_case)
            run_case(&p, g, gi, ci, o, counts);
    for (int i = 0; i < WAYS; i++)
        tilec_attention_free(p.of[i]);
}

static const num_type types[] = {NUM_F32, NUM_F16, NUM_BF16};

static int run_dims(tilec_context *cx, int gi, const case_options *o,
                    run_counts *counts)
{
    static const int dims[][2] = {
        {64, 64},   {128, 128}, {192, 128}, {8, 8},    {40, 72},   {80, 80},
        {256, 256}, {16, 200},  {96, 32},   {72, 40},  {112, 112}, {24, 8},
        {176, 48},  {56, 160},  {32, 32},   {248, 248}};
    int n = o->nightly ? 16 : 6;
    for (int i = 0; i < n; i++)
        for (int t = 0; t < (o->nightly ? 3 : 1); t++, gi++) {
            group g = {types[(i + t) % 3], dims[i][0], dims[i][1],
                       &masks[gi % 10], &scores[gi % 3]};
            run_group(cx, &g, gi, o, counts);
        }
    return gi;
}

static int run_mods(tilec_context *cx, int gi, const case_options *o,
                    run_counts *counts)
{
    for (int m = 0; m < nmasks; m++)
        for (int s = 0; s < nscores; s++) {
            if (!o->nightly && (s != m % nscores || m % 2))
                continue;
            group g = {types[(m + s) / 2 % 3], 64, 64, &masks[m], &scores[s]};
            run_group(cx, &g, gi++, o, counts);
        }
    return gi;
}

int main(int argc, char **argv)
{
    case_options o = read_case_options(argc, argv, 4, 10);
    tilec_context *cx = run_context();
    run_counts counts = {0};
    int gi = run_dims(cx, 0, &o, &counts);
    run_mods(cx, gi, &o, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
