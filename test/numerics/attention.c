/* SPDX-License-Identifier: Apache-2.0
 *
 * Generated cases of forward attention against the float64 reference.
 *
 *   attention [--seed N] [--cases N] [--nightly 1] [--group G] [--case C]
 *             [--verbose 1] [--split 1]
 *
 * --split: keys are split over programs, in plans for some heads of k and rows.
 * A case (cases.h) depends on the seed, the group and its number only, so that
 * one that failed runs alone.
 */
#include "test/numerics/cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Relative error overall; a row may have four times as much. */
static double tolerance(num_type t)
{
    return t == NUM_F32 ? 2e-6 : t == NUM_F16 ? 1e-3 : 3e-3;
}

/* Running */

/* Through the attention API where the scale is the usual one; a plan has one
 * scale, so with another the kernel underneath is launched itself. max may be
 * of rank 0: not wanted; so may sinks be. */
static bool launch(const tilec_attention *plan, const attention_case *c,
                   const tensors *t, const num_tensor *max,
                   const num_tensor *sinks, const mod_data *mods,
                   tilec_error *error)
{
    enum { OWN = 7 };
    run_view q, k, v, o, lse, top, of_heads, views[MAX_CAPTURED];
    tilec_argument args[OWN + MAX_CAPTURED + 1] = {
        tilec_tensor("q", run_view_of(&q, &t->q)),
        tilec_tensor("k", run_view_of(&k, &t->k)),
        tilec_tensor("v", run_view_of(&v, &t->v)),
        tilec_tensor("o", run_view_of(&o, &t->o)),
        tilec_tensor("lse", run_view_of(&lse, &t->lse)),
        tilec_float("scale", c->scale),
        tilec_tensor("max", run_view_of(&top, max->rank ? max : &t->lse))};
    const tilec_kernel *kernel = tilec_attention_kernel(plan);
    size_t n = mod_arguments(mods, kernel, args + OWN, views);
    const DLTensor *logits = sinks->rank ? run_view_of(&of_heads, sinks) : NULL;
    if (logits)
        args[OWN + n] = tilec_tensor("sink.sinks", logits);
    if (c->scale != 1 / sqrt(c->group->dim))
        return run_launch(kernel, args, OWN + n + (logits != NULL), NULL,
                          error) == TILEC_OK;
    tilec_attention_tensors all = TILEC_INIT(tilec_attention_tensors);
    all.q = &q.dl;
    all.k = &k.dl;
    all.v = &v.dl;
    all.o = &o.dl;
    all.lse = &lse.dl;
    all.max = max->rank ? &top.dl : NULL;
    all.sinks = logits;
    all.captured = args + OWN;
    all.ncaptured = n;
    return run_forward(plan, &all, NULL, error) == TILEC_OK;
}

/* The largest excess over 2e-5 plus 3e-7 of the value (a logsumexp of 1e4 has
 * no smaller steps in f32); 1 is at the limit. Of a row's largest score
 * likewise. */
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

/* Next to a large sink all of a row may be below the normal numbers of o, or of
 * its weights, which are f32: then any number as small is right. */
static void settle_tiny(const attention_case *c, const double *want, int64_t n,
                        double *got)
{
    double normal = c->group->type == NUM_F16 ? 0x1p-14 : 0x1p-126;
    double least = fmax(normal, ldexp(1, c->power - 120));
    for (int64_t i = 0; i < n; i++)
        if (fabs(want[i]) < least && fabs(got[i]) < 1.01 * least)
            got[i] = want[i];
}

static bool check(const attention_case *c, const tensors *t,
                  const num_tensor *max, const num_tensor *sinks,
                  const mod_data *mods, char why[512])
{
    const group *g = c->group;
    ref_attention a = {.q = &t->q,
                       .k = &t->k,
                       .v = &t->v,
                       .scale = c->scale,
                       .score = g->score->reference,
                       .score_data = mods,
                       .mask = g->mask->reference,
                       .mask_data = mods};
    int64_t n = num_count(&t->o);
    double *o = malloc((size_t)(n + 1) * sizeof *o);
    double *lse = malloc((size_t)(num_count(&t->lse) + 1) * sizeof *lse);
    double *logits = sinks->rank ? num_tensor_read(sinks) : NULL;
    a.sinks = logits;
    a.max = malloc((size_t)(num_count(&t->lse) + 1) * sizeof *a.max);
    ref_attention_forward(&a, o, lse);
    double *got = num_tensor_read(&t->o);
    if (logits)
        settle_tiny(c, o, n, got);
    num_error e = num_compare(got, o, n, g->value_dim);
    double lse_worst = lse_error(&t->lse, lse);
    double max_worst = max->rank ? lse_error(max, a.max) : 0;
    /* A handful of elements is no sample of the rounding of 16 bits. */
    double limit = tolerance(g->type);
    double overall = n < 256 && g->type != NUM_F32 ? 4 * limit : limit;
    /* A row that is small next to its sink: 2^-128 has a relative error of 128
     * times that of its exponent. */
    double row = 4 * limit + (sinks->rank ? 128 * 0x1p-23 : 0);
    bool intact = num_tensor_intact(&t->o) && num_tensor_intact(&t->lse) &&
                  (!max->rank || num_tensor_intact(max));
    snprintf(why, 512,
             "error %.2e, worst row %.2e, lse %.2f of limit, max %.2f%s",
             e.overall, e.worst_row, lse_worst, max_worst,
             intact ? "" : ", wrote outside");
    free(o);
    free(lse);
    free(logits);
    free(a.max);
    free(got);
    return e.overall <= overall && e.worst_row <= row && lse_worst <= 1 &&
           max_worst <= 1 && intact;
}

static bool splits_keys; /* the option */

/* Of one group in three. */
static int lists_of(int gi)
{
    return gi % 3 == 2 && !splits_keys ? 1 : -1;
}

/* Of every other group; then every other case wants it. */
static bool gives_max(int gi)
{
    return gi % 2 && !splits_keys;
}

/* Of two groups in five. */
static bool has_sinks(int gi)
{
    return gi % 5 == 1 || gi % 5 == 4;
}

static void run_case(const tilec_attention *plan, const group *g, int gi,
                     int ci, const case_options *o, run_counts *counts)
{
    num_rng r = {o->seed * 1000003 + (uint64_t)gi * 1009 + (uint64_t)ci};
    attention_case c = make_case(&r, g);
    mod_data mods;
    mod_data_init(&mods, &r, c.batch, c.heads * c.ratio, c.m, c.n);
    tensors t = make_tensors(&c, &r, &mods);
    num_tensor max = {0}, sinks = {0};
    if (has_sinks(gi))
        sinks = make_sinks(&c, &r);
    if (gives_max(gi) && (ci % 2 || c.scale != 1 / sqrt(g->dim)))
        max = num_tensor_new(NUM_F32, 3, t.lse.size, NULL);
    char text[512], why[512];
    tilec_error error = {0};
    describe_case(&c, text);
    bool ok = launch(plan, &c, &t, &max, &sinks, &mods, &error);
    if (ok)
        ok = check(&c, &t, &max, &sinks, &mods, why);
    else
        snprintf(why, sizeof why, "launch: %s", error.message);
    run_check(counts, ok, "--seed %llu --group %d --case %d: %s: %s",
              (unsigned long long)o->seed, gi, ci, text, why);
    if (ok && o->verbose)
        printf("passed %d.%d: %s: %s\n", gi, ci, text, why);
    free_tensors(&t);
    num_tensor_free(&max);
    num_tensor_free(&sinks);
    mod_data_free(&mods);
}

static tilec_attention *plan_group(tilec_context *cx, const group *g, int gi)
{
    /* Where keys are split, cases with other heads take the usual way. */
    int heads = splits_keys ? 1 + gi % 2 : 1, rows = gi / 2 % 2 ? 40 : 1;
    num_tensor q =
        num_tensor_new(g->type, 4, (int32_t[]){1, heads, rows, g->dim}, NULL);
    num_tensor k =
        num_tensor_new(g->type, 4, (int32_t[]){1, 1, 1, g->dim}, NULL);
    num_tensor v =
        num_tensor_new(g->type, 4, (int32_t[]){1, 1, 1, g->value_dim}, NULL);
    run_view views[3];
    const tilec_binding split = {"SPLIT_KEYS", "true"};
    tilec_source source = tilec_text("test mods", mods_text, 0);
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.mask = g->mask->expression;
    o.score = g->score->expression;
    o.sources = &source;
    o.nsources = 1;
    o.max = gives_max(gi);
    o.sinks = has_sinks(gi);
    o.block_lists = lists_of(gi);
    tilec_binding bindings[1];
    o.bindings = bindings;
    o.kernel_options = &split;
    o.nkernel_options = splits_keys;
    /* As configurations for GPUs have it. */
    if (gi / 3 % 2 && !splits_keys)
        bindings[o.nbindings++] = (tilec_binding){
            "RESCALE_THRESHOLD", g->type == NUM_BF16 ? "1280" : "240"};
    tilec_attention *plan = NULL;
    if (tilec_attention_plan(cx, run_view_of(&views[0], &q),
                             run_view_of(&views[1], &k),
                             run_view_of(&views[2], &v), &o, &plan) != TILEC_OK)
        run_print_diagnostics(cx);
    num_tensor_free(&q);
    num_tensor_free(&k);
    num_tensor_free(&v);
    return plan;
}

static void run_group(tilec_context *cx, const group *g, int gi,
                      const case_options *o, run_counts *counts)
{
    bool is_left_out = splits_keys && !o->nightly && gi % 7 != 3;
    if (o->only_group >= 0 ? gi != o->only_group : is_left_out)
        return;
    tilec_attention *plan = plan_group(cx, g, gi);
    run_check(counts, plan, "group %d: does not compile", gi);
    for (int ci = 0; plan && ci < o->cases; ci++)
        if (o->only_case < 0 || ci == o->only_case)
            run_case(plan, g, gi, ci, o, counts);
    tilec_attention_free(plan);
}

static const num_type types[] = {NUM_F32, NUM_F16, NUM_BF16};

/* All dims, with types, masks and scores in turn. */
static int run_dims(tilec_context *cx, int gi, const case_options *o,
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
static int run_mods(tilec_context *cx, int gi, const case_options *o,
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
    case_options o = read_case_options(argc, argv, 6, 20);
    splits_keys = run_option(argc, argv, "split", 0);
    tilec_context *cx = run_context();
    run_counts counts = {0};
    int gi = run_dims(cx, 0, &o, &counts);
    run_mods(cx, gi, &o, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
