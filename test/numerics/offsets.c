/* SPDX-License-Identifier: Apache-2.0
 *
 * Random score functions: sums of a multiple of the score, or of its tanh, and
 * of values of its row, its column and its head, and of differences of
 * positions. Attention must give the same whether what rows and columns add is
 * computed apart and tanh by another formula (hoist-biases), or each element
 * for itself.
 *
 *   numerics_offsets [--seed N] [--seeds N] [--print 1]
 */
#include "test/numerics/pipeline.h"
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char plain[] =
    "bind-params,inline,canonicalize,expand-bisections,cse,dce";
static const char split[] = "gpu-tile";

enum { DIM = 16, MOST_LENGTH = 300 };

/* ---- Score functions ---- */

/* $ is a factor. */
static const char *const terms[] = {
    "%row[%q]",
    "%column[%k]",
    "%row[%q]",
    "$ * cast(%k - %q, f32)",
    "$ * cast(%k - %q, f32)",
    "$ * cast(%q - %k, f32)",
    "cast(%q + (%u - %k), f32) * $",
    "$ * cast(%k + %u, f32)",
    "%row[%h] * $",
    "$ * cast(max(%q - %k, 0), f32)",
    "$",
    "%row[%q] * $ * cast(%k - %q, f32)",
    "(-(%column[%k] * $))",
    "cast(-(%k / 16), f32)",
    "$ * (%row[%q] - %column[%k])",
};
static const char *const factors[] = {"%slope", "%slope", "-0.25", "%f"};
static const char *const bodies[] = {
    "%score",
    "%score",
    "%score * 0.5",
    "%score * %f",
    "%cap * tanh(%score / %cap)",
    "%cap * tanh(%score * (1.0 / %cap))",
    "20.0 * tanh(%score * 0.05)",
    "tanh(%score * %f)",
    "%cap * tanh(%score * %f, approx=true)",
    "%score * 0.5 - tanh(%score)",
    "-%score",
};
static const char *const masks[] = {
    "true",    "%k <= %q", "%k <= %q and %q - %k < 70", "rem(%q + %k, 3) != 0",
    "%k < %u",
};
#define ANY(r, all) (all)[num_below(r, sizeof(all) / sizeof *(all))]

typedef struct source {
    char text[4096];
    size_t n;
} source;

static void add(source *s, const char *text, const char *factor)
{
    for (; *text; text++) {
        size_t n = *text == '$' ? strlen(factor) : 1;
        if (s->n + n >= sizeof s->text)
            abort();
        memcpy(s->text + s->n, *text == '$' ? factor : text, n);
        s->n += n;
    }
    s->text[s->n] = 0;
}

static void add_mods(source *s, num_rng *r)
{
    bool capped = num_below(r, 8) == 0;
    add(s,
        "func @score(%score: f32, %b: i32, %h: i32, %q: i32, %k: i32,\n"
        "            %slope: f32, %f: f32, %cap: f32, %u: i32,\n"
        "            %row: tensor<[?] x f32>, %column: tensor<[?] x f32>)\n"
        "    -> f32 {\n  return ",
        "");
    add(s, capped ? "%cap * tanh((" : "", "");
    add(s, ANY(r, bodies), "");
    for (int i = num_between(r, 1, 3); i > 0; i--) {
        add(s, num_below(r, 3) ? " + " : " - ", "");
        add(s, ANY(r, terms), ANY(r, factors));
    }
    add(s, capped ? ") * (1.0 / %cap))" : "", "");
    add(s,
        "\n}\n"
        "func @mask(%b: i32, %h: i32, %q: i32, %k: i32, %u: i32) -> i1 {\n"
        "  return ",
        "");
    add(s, ANY(r, masks), "");
    add(s, "\n}\n", "");
}

/* ---- What they capture ---- */

typedef struct captured {
    double slope, f, cap;
    int u;
    num_tensor row, column;
} captured;

static bool capture(void *user, const char *name, bool is_tensor,
                    tc_launch_arg *arg)
{
    const captured *c = user;
    const char *dot = strchr(name, '.');
    if (!dot)
        return false;
    *arg = (tc_launch_arg){0};
    if (is_tensor)
        *arg = pipeline_tensor(strcmp(dot, ".row") ? &c->column : &c->row);
    else if (!strcmp(dot, ".u"))
        arg->scalar.i = c->u;
    else
        arg->scalar.f = !strcmp(dot, ".slope") ? c->slope
                        : !strcmp(dot, ".f")   ? c->f
                                               : c->cap;
    return true;
}

/* Some hide their row or column, or nearly so. */
static num_tensor new_biases(num_rng *r)
{
    num_tensor t =
        num_tensor_new(NUM_F32, 1, (int32_t[]){MOST_LENGTH + 1}, NULL);
    int hides = num_below(r, 8);
    for (int i = 0; i <= MOST_LENGTH; i++) {
        double x = num_normal(r);
        if (hides < 2 && num_below(r, 10) == 0)
            x = hides ? -1e4 : -INFINITY;
        num_write(NUM_F32, num_at(&t, i), x);
    }
    return t;
}

static captured new_captured(num_rng *r)
{
    static const double slopes[] = {0.25, -0.05, 0.0039, 0.5, 0, -4, 1e-20};
    static const double scales[] = {0.5, 1, 5, 50, -3, 255, 257, 1000};
    static const double fs[] = {1, 0.125, -0.5, 0.0625, 0};
    return (captured){ANY(r, slopes),           ANY(r, fs),    ANY(r, scales),
                      num_between(r, -20, 300), new_biases(r), new_biases(r)};
}

/* ---- Attention ---- */

static num_tensor new_normal(num_rng *r, int length)
{
    num_tensor t =
        num_tensor_new(NUM_BF16, 4, (int32_t[]){1, 2, length, DIM}, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        num_write(NUM_BF16, num_at(&t, i), num_normal(r));
    return t;
}

/* Infinite where rows see nothing. */
static void drop_equal(double *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if ((isinf(x[i]) && x[i] == y[i]) || (isnan(x[i]) && isnan(y[i])))
            x[i] = y[i] = 0;
}

static bool same_outputs(const num_tensor *a, const num_tensor *b)
{
    double *x = num_tensor_read(a), *y = num_tensor_read(b);
    drop_equal(x, y, num_count(a));
    num_error e = num_compare(x, y, num_count(a), DIM);
    free(x);
    free(y);
    return e.overall <= 3e-3 && e.worst_row <= 1.2e-2;
}

/* A score may be off by 2^-13 where it is a multiple of tanh. */
static bool same_sums(const num_tensor *a, const num_tensor *b)
{
    double *x = num_tensor_read(a), *y = num_tensor_read(b);
    drop_equal(x, y, num_count(a));
    bool ok = true;
    for (int64_t i = 0; i < num_count(a); i++)
        ok &= fabs(x[i] - y[i]) <= 0x1p-13 + 1e-6 * fabs(y[i]);
    free(x);
    free(y);
    return ok;
}

static void run_seed(run_counts *counts, uint64_t seed, const char *attention,
                     bool print)
{
    num_rng r = {seed};
    source s = {.n = 0};
    add_mods(&s, &r);
    captured c = new_captured(&r);
    int m = num_between(&r, 1, MOST_LENGTH),
        n = num_between(&r, 1, MOST_LENGTH);
    num_tensor q = new_normal(&r, m), k = new_normal(&r, n),
               v = new_normal(&r, n), o[2], lse[2];
    size_t size = s.n + strlen(attention) + 1;
    char *text = malloc(size);
    snprintf(text, size, "%s%s", s.text, attention);
    if (print)
        printf("%s", s.text);
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        o[i] = new_normal(&r, m);
        lse[i] = num_tensor_new(NUM_F32, 3, (int32_t[]){1, 2, m}, NULL);
        pipeline_setting setting = {.text = text,
                                    .kernel = "attention_fwd",
                                    .pipeline = i ? split : plain,
                                    .print = print};
        pipeline_bind(&setting, "D", "16");
        pipeline_bind(&setting, "BN", "32");
        pipeline_bind(&setting, "score_mod", "@score");
        pipeline_bind(&setting, "mask_mod", "@mask");
        tc_launch_arg args[] = {
            pipeline_tensor(&q),      pipeline_tensor(&k),
            pipeline_tensor(&v),      pipeline_tensor(&o[i]),
            pipeline_tensor(&lse[i]), {.scalar.f = 0.25},
            pipeline_tensor(&lse[i])};
        ok &= pipeline_run(&setting, args, 7, capture, &c);
    }
    ok = ok && same_outputs(&o[1], &o[0]) && same_sums(&lse[1], &lse[0]);
    run_check(counts, ok, "seed %llu: M=%d N=%d slope %g f %g cap %g u %d\n%s",
              (unsigned long long)seed, m, n, c.slope, c.f, c.cap, c.u, s.text);
    free(text);
    num_tensor *all[] = {&q,      &k,      &v,     &o[0],    &o[1],
                         &lse[0], &lse[1], &c.row, &c.column};
    for (int i = 0; i < 9; i++)
        num_tensor_free(all[i]);
}

int main(int argc, char **argv)
{
    long first = run_option(argc, argv, "seed", 1);
    long seeds = run_option(argc, argv, "seeds", 16);
    char *attention = pipeline_file("kernels/attention_fwd.tile");
    run_counts counts = {0};
    for (long seed = first; seed < first + seeds; seed++)
        run_seed(&counts, (uint64_t)seed * 7919, attention,
                 run_option(argc, argv, "print", 0));
    free(attention);
    return run_finish(&counts);
}
