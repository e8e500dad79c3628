/* SPDX-License-Identifier: Apache-2.0
 *
 * Random masks: comparisons of linear expressions of query and key, also of
 * quotients and remainders, of scalars near and far, joined by and, or, not,
 * xor and select. Kernels that count under the mask, over keys for a block of
 * queries and over queries for a block of keys, lists of blocks, and attention
 * itself, must give the same whether the loop is cut to what the mask leaves
 * (bound-loops, elide-masks) or all of it is run.
 *
 *   numerics_masks [--seed N] [--seeds N] [--print 1]
 */
#include "test/numerics/pipeline.h"
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char plain[] =
    "bind-params,inline,canonicalize,expand-bisections,cse,dce";
static const char cut[] = "gpu-tile";

/* ---- Masks ---- */

typedef struct source {
    char text[8192];
    size_t n;
    num_rng *r;
} source;

static void add(source *s, const char *text)
{
    size_t n = strlen(text);
    if (s->n + n >= sizeof s->text)
        abort();
    memcpy(s->text + s->n, text, n + 1);
    s->n += n;
}

static void add_number(source *s, long long x)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", x);
    add(s, text);
}

static void add_one_of(source *s, const char *const *all, int n)
{
    add(s, all[num_below(s->r, n)]);
}

/* A linear expression of the scalars, as a key or query is compared with. */
static void add_offset(source *s)
{
    static const char *const scalars[] = {
        "%w",        "%u", "(%kv_len - %q_len)", "%w * 3",
        "(%u - %w)", "%b", "%ends[%b]"};
    /* Near the ends of i32 the sums wrap. */
    static const long long far[] = {2147483647, -2147483647, 2147483600,
                                    -2147483600};
    if (num_below(s->r, 2))
        add_one_of(s, scalars, 7);
    else if (num_below(s->r, 12))
        add_number(s, num_between(s->r, -90, 150));
    else
        add_number(s, far[num_below(s->r, 4)]);
}

static void add_linear(source *s, const char *v)
{
    static const char *const forms[] = {
        "%s",        "-%s",         "(%s + @)",     "(%s - @)",
        "(@ - %s)",  "%s * 2",      "(%s * 3 + @)", "%s / 16",
        "%s >> 3",   "min(%s, @)",  "max(%s, @)",   "((%s + @) / 8)",
        "%s / %d",   "rem(%s, %d)", "rem(%s, 48)",  "((@ - %s) / %d)",
        "(%s & 63)",
    };
    enum { SIMPLE = 5, FORMS = sizeof forms / sizeof *forms };
    const char *form =
        forms[num_below(s->r, num_below(s->r, 4) ? SIMPLE : FORMS)];
    for (; *form; form++) {
        char one[] = {*form, 0};
        if (*form == '@')
            add_offset(s);
        else if (form[0] == '%' && form[1] == 's')
            add(s, v), form++;
        else
            add(s, one);
    }
}

static void add_comparison(source *s)
{
    static const char *const orders[] = {
        " <= ", " < ", " >= ", " > ", " == ", " != "};
    static const char *const others[] = {
        "rem(%k, 3) == 1",
        "%k * %q > 900",
        "%k ^ %q < 20",
        "rem(%q - %k, %d) == 0",
        "%q / %d == %k / %d",
        "abs(%q / %d - %k / %d) < 2",
        "bisect(%starts, %q) == bisect(%starts, %k)",
        "bisect(%starts, %k - 9) < bisect(%starts, %q)",
        "bisect(%starts, %k) <= bisect(%starts, %q)",
        "bisect(%starts, %q) != 3",
        "bisect(%starts, %k * 2) >= %b + 1"};
    int form = num_below(s->r, 16);
    add(s, "(");
    if (form == 0) {
        add_one_of(s, others, sizeof others / sizeof *others);
    } else if (form == 1) {
        add(s, "abs(%k - %q)");
        add_one_of(s, orders, 6);
        add_offset(s);
    } else if (form <= 5) {
        add_linear(s, num_below(s->r, 3) ? "%k" : "%q");
        add_one_of(s, orders, num_below(s->r, 4) ? 4 : 6);
        add_offset(s);
    } else if (form <= 8) {
        add(s, "%q - %k");
        add_one_of(s, orders, num_below(s->r, 4) ? 4 : 6);
        add_offset(s);
    } else {
        add_linear(s, "%k");
        add_one_of(s, orders, num_below(s->r, 4) ? 4 : 6);
        add_linear(s, "%q");
    }
    add(s, ")");
}

static void add_mask(source *s, int depth)
{
    static const char *const joins[] = {" and ", " and ", " or ", " ^ "};
    int form = num_below(s->r, 8);
    if (depth == 0 || form == 0) {
        add_comparison(s);
        return;
    }
    add(s, form == 1 ? "(not " : form == 2 ? "select(" : "(");
    add_mask(s, depth - 1);
    for (int i = 0; i < (form == 1 ? 0 : form == 2 ? 2 : 1); i++) {
        if (form == 2)
            add(s, ", ");
        else
            add_one_of(s, joins, 4);
        add_mask(s, depth - 1);
    }
    add(s, ")");
}

/* ---- Kernels ---- */

/* A block of rows, for each the sum over the columns that it sees, and how many
 * steps that took; rows are queries, or keys. */
static const char counting[] =
    "kernel @count[BM: int, BN: int,\n"
    "              mask_mod: func(i32, i32, i32, i32) -> i1](\n"
    "    %%rows: tensor<[?] x i32>, %%columns: tensor<[?] x i32>,\n"
    "    %%sums: tensor<[?] x i32>, %%steps: tensor<[?] x i32>)\n"
    "    grid(cdiv(size(%%rows, 0), BM)) {\n"
    "  %%m0 = program_id(0) * BM\n"
    "  %%m = size(%%rows, 0)\n"
    "  %%n = size(%%columns, 0)\n"
    "  %%row = min(%%m0 + range(BM), %%m - 1)\n"
    "  %%sum, %%visits = for %%n0 = 0 to %%n step BN\n"
    "      carry(%%sum0 = splat(0, tile<BM x i32>), %%visits0 = 0) {\n"
    "    %%ct = load %%columns[%%n0 +: BN] boundary(0)\n"
    "    %%column = min(%%n0 + range(BN), %%n - 1)\n"
    "    %%see = mask_mod(1, 0, %s)\n"
    "    %%sum1, %%visits1 = if any(any(%%see, axis=1)) speculatable {\n"
    "      %%x = %%row[:, none] * 7 + %%ct[none, :]\n"
    "      %%inside = (%%n0 + range(BN) < %%n)[none, :]\n"
    "      %%y = select(%%see and %%inside, %%x, 0)\n"
    "      yield %%sum0 + sum(%%y, axis=1), %%visits0 + 1\n"
    "    } else {\n"
    "      yield %%sum0, %%visits0\n"
    "    }\n"
    "    yield %%sum1, %%visits1\n"
    "  }\n"
    "  store %%sums[%%m0 +: BM], %%sum boundary(0)\n"
    "  store ptr_add(base(%%steps), program_id(0)), %%visits\n"
    "}\n";

static const char by_query[] = "%row[:, none], %column[none, :], "
                               "q_len=%m, kv_len=%n";
static const char by_key[] = "%column[none, :], %row[:, none], "
                             "q_len=%n, kv_len=%m";

static num_tensor new_ints(num_rng *r, int n, int low, int high)
{
    num_tensor t = num_tensor_new(NUM_I32, 1, (int32_t[]){n}, NULL);
    for (int i = 0; i < n; i++)
        num_write(NUM_I32, num_at(&t, i), num_between(r, low, high));
    return t;
}

/* ---- The two kernels, cut and not ---- */

/* What the mask captures, in the order of its parameters. */
enum { NCAPTURED = 5 };
typedef struct captured {
    tc_launch_arg all[NCAPTURED];
} captured;

typedef struct totals {
    run_counts counts;
    int64_t steps, visited, needed;
} totals;

static int random_length(num_rng *r)
{
    static const int lengths[] = {0, 1, 7, 32, 63, 64, 65, 96, 128, 200, 256};
    return num_below(r, 3) ? lengths[num_below(r, 11)] : num_between(r, 0, 300);
}

static void check_counts(totals *t, pipeline_setting *s, num_rng *r,
                         const captured *c, uint64_t seed)
{
    static const char *const sides[] = {"32", "64", "128"};
    int m = random_length(r), n = random_length(r);
    const char *bm = sides[1 + num_below(r, 2)], *bn = sides[num_below(r, 2)];
    num_tensor rows = new_ints(r, m, 0, 0), columns = new_ints(r, n, -99, 99);
    num_tensor sums[2], steps[2];
    bool ok = true;
    s->kernel = "count";
    s->nbindings = 0;
    pipeline_bind(s, "BM", bm);
    pipeline_bind(s, "BN", bn);
    pipeline_bind(s, "mask_mod", "@mask");
    for (int i = 0; i < 2; i++) {
        sums[i] = new_ints(r, m, -1, -1);
        steps[i] = new_ints(r, 16, 0, 0);
        tc_launch_arg args[4 + NCAPTURED] = {
            pipeline_tensor(&rows), pipeline_tensor(&columns),
            pipeline_tensor(&sums[i]), pipeline_tensor(&steps[i])};
        memcpy(args + 4, c->all, sizeof c->all);
        s->pipeline = i ? cut : plain;
        ok &= pipeline_run(s, args, 4 + NCAPTURED, NULL, NULL);
    }
    for (int i = 0; ok && i < m; i++)
        ok = num_read(NUM_I32, num_at(&sums[0], i)) ==
             num_read(NUM_I32, num_at(&sums[1], i));
    int across = (n + atoi(bn) - 1) / atoi(bn);
    for (int i = 0; ok && i < (m + atoi(bm) - 1) / atoi(bm); i++) {
        int needed = (int)num_read(NUM_I32, num_at(&steps[0], i));
        int visited = (int)num_read(NUM_I32, num_at(&steps[1], i));
        ok = needed <= visited && visited <= across;
        t->needed += needed;
        t->visited += visited;
        t->steps += across;
    }
    run_check(&t->counts, ok, "count, seed %llu: M=%d N=%d BM=%s BN=%s\n%s",
              (unsigned long long)seed, m, n, bm, bn, s->text);
    num_tensor_free(&rows);
    num_tensor_free(&columns);
    for (int i = 0; i < 2; i++) {
        num_tensor_free(&sums[i]);
        num_tensor_free(&steps[i]);
    }
}

/* ---- Lists of blocks ---- */

static bool same_ints(const num_tensor *a, const num_tensor *b)
{
    bool same = true;
    for (int64_t i = 0; i < num_count(a); i++)
        same &=
            num_read(NUM_I32, num_at(a, i)) == num_read(NUM_I32, num_at(b, i));
    return same;
}

static num_tensor new_table(int rows, int columns)
{
    num_tensor t =
        num_tensor_new(NUM_I32, 4, (int32_t[]){1, 1, rows, columns}, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        num_write(NUM_I32, num_at(&t, i), -1);
    return t;
}

static void check_kinds(totals *t, pipeline_setting *s, num_rng *r,
                        const captured *c, uint64_t seed)
{
    static const char *const sides[] = {"32", "64", "128"};
    int m = 1 + random_length(r), n = 1 + random_length(r);
    const char *bq = sides[num_below(r, 3)], *bk = sides[num_below(r, 3)];
    int rows = (m - 1) / atoi(bq) + 1, columns = (n - 1) / atoi(bk) + 1;
    bool ok = true;
    num_tensor kinds[2];
    s->kernel = "block_kinds";
    s->nbindings = 0;
    pipeline_bind(s, "BQ", bq);
    pipeline_bind(s, "BK", bk);
    pipeline_bind(s, "mask_mod", "@mask");
    for (int i = 0; i < 2; i++) {
        kinds[i] = new_table(rows, columns);
        tc_launch_arg args[3 + NCAPTURED] = {
            pipeline_tensor(&kinds[i]), {.scalar.i = m}, {.scalar.i = n}};
        memcpy(args + 3, c->all, sizeof c->all);
        s->pipeline = i ? cut : plain;
        ok &= pipeline_run(s, args, 3 + NCAPTURED, NULL, NULL);
    }
    ok = ok && same_ints(&kinds[0], &kinds[1]);
    run_check(&t->counts, ok, "kinds, seed %llu: M=%d N=%d BQ=%s BK=%s\n%s",
              (unsigned long long)seed, m, n, bq, bk, s->text);
    num_tensor_free(&kinds[0]);
    num_tensor_free(&kinds[1]);
}

/* ---- Attention ---- */

static num_tensor new_normal(num_rng *r, int length, int dim)
{
    num_tensor t =
        num_tensor_new(NUM_BF16, 4, (int32_t[]){1, 1, length, dim}, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        num_write(NUM_BF16, num_at(&t, i), num_normal(r));
    return t;
}

static bool same_floats(const num_tensor *a, const num_tensor *b, int width)
{
    double *x = num_tensor_read(a), *y = num_tensor_read(b);
    bool ok = true;
    for (int64_t i = 0; i < num_count(a); i++)
        if (isinf(x[i]) && x[i] == y[i])
            x[i] = y[i] = 0; /* rows that see nothing */
    num_error e = num_compare(x, y, num_count(a), width);
    ok = e.overall <= 3e-3 && e.worst_row <= 1.2e-2;
    free(x);
    free(y);
    return ok;
}

static void check_attention(totals *t, pipeline_setting *s, num_rng *r,
                            const captured *c, uint64_t seed)
{
    int m = 1 + random_length(r), n = 1 + random_length(r);
    num_tensor q = new_normal(r, m, 16), k = new_normal(r, n, 16),
               v = new_normal(r, n, 16), o[2], lse[2];
    bool ok = true;
    s->kernel = "attention_fwd";
    s->nbindings = 0;
    pipeline_bind(s, "D", "16");
    pipeline_bind(s, "BN", "32");
    pipeline_bind(s, "mask_mod", "@mask");
    for (int i = 0; i < 2; i++) {
        o[i] = new_normal(r, m, 16);
        lse[i] = num_tensor_new(NUM_F32, 3, (int32_t[]){1, 1, m}, NULL);
        tc_launch_arg args[7 + NCAPTURED] = {
            pipeline_tensor(&q),      pipeline_tensor(&k),
            pipeline_tensor(&v),      pipeline_tensor(&o[i]),
            pipeline_tensor(&lse[i]), {.scalar.f = 0.25},
            pipeline_tensor(&lse[i])};
        memcpy(args + 7, c->all, sizeof c->all);
        s->pipeline = i ? cut : plain;
        ok &= pipeline_run(s, args, 7 + NCAPTURED, NULL, NULL);
    }
    ok =
        ok && same_floats(&o[1], &o[0], 16) && same_floats(&lse[1], &lse[0], 1);
    run_check(&t->counts, ok, "attention, seed %llu: M=%d N=%d\n%s",
              (unsigned long long)seed, m, n, s->text);
    num_tensor_free(&q);
    num_tensor_free(&k);
    num_tensor_free(&v);
    for (int i = 0; i < 2; i++) {
        num_tensor_free(&o[i]);
        num_tensor_free(&lse[i]);
    }
}

/* What a mask is tried in, besides the counting kernel. */
typedef struct programs {
    char *attention, *lists;
} programs;

static void run_seed(totals *t, uint64_t seed, const programs *p, bool print)
{
    num_rng r = {seed};
    num_tensor ends = new_ints(&r, 4, -20, 260);
    num_tensor starts = new_ints(&r, num_below(&r, 9), 0, 0);
    for (int i = 0, at = num_between(&r, -9, 40); i < starts.size[0]; i++) {
        num_write(NUM_I32, num_at(&starts, i), at);
        at += num_below(&r, 5) ? num_between(&r, 1, 90) : 0;
    }
    int w = num_below(&r, 8) ? num_between(&r, -20, 150) : INT32_MAX;
    int u = num_between(&r, -20, 300);
    int d = num_below(&r, 12) ? num_between(&r, 1, 140)
                              : num_between(&r, -3, 1 << 25);
    captured c = {{{.scalar.i = w},
                   {.scalar.i = u},
                   {.scalar.i = d},
                   pipeline_tensor(&ends),
                   pipeline_tensor(&starts)}};
    source mask = {.r = &r};
    add(&mask, "func @mask(%b: i32, %h: i32, %q: i32, %k: i32, %q_len: i32,\n"
               "           %kv_len: i32, %w: i32, %u: i32, %d: i32,\n"
               "           %ends: tensor<[?] x i32>,\n"
               "           %starts: tensor<[?] x i32>) -> i1 {\n  return ");
    add_mask(&mask, num_between(&r, 0, 3));
    add(&mask, "\n}\n");
    int which = num_below(&r, 8);
    const char *whole = which == 0 ? p->attention : which < 3 ? p->lists : NULL;
    size_t n = strlen(whole ? whole : counting) + mask.n + 200;
    char *text = malloc(n);
    memcpy(text, mask.text, mask.n);
    if (whole)
        snprintf(text + mask.n, n - mask.n, "%s", whole);
    else
        snprintf(text + mask.n, n - mask.n, counting,
                 num_below(&r, 2) ? by_query : by_key);
    pipeline_setting s = {.text = text, .print = print};
    if (print)
        printf("%s", mask.text);
    if (which == 0)
        check_attention(t, &s, &r, &c, seed);
    else if (whole)
        check_kinds(t, &s, &r, &c, seed);
    else
        check_counts(t, &s, &r, &c, seed);
    free(text);
    num_tensor_free(&ends);
    num_tensor_free(&starts);
}

int main(int argc, char **argv)
{
    long first = run_option(argc, argv, "seed", 1);
    long seeds = run_option(argc, argv, "seeds", 150);
    programs p = {pipeline_file("kernels/attention_fwd.tile"),
                  pipeline_file("kernels/block_mask.tile")};
    totals t = {0};
    for (long seed = first; seed < first + seeds; seed++)
        run_seed(&t, (uint64_t)seed * 7919, &p,
                 run_option(argc, argv, "print", 0));
    free(p.attention);
    free(p.lists);
    printf("steps of all loops %lld, visited %lld, needed %lld\n",
           (long long)t.steps, (long long)t.visited, (long long)t.needed);
    return run_finish(&t.counts);
}
