/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention on numbers of 8 bits, with factors of every grain, and sinks.
 *
 *   numerics_fp8 [--seed N] [--cases N] [--verbose 1]
 *
 * What is right is attention in float64 on the numbers as they are stored times
 * their factors. The limit is 1.2 of the error that rounding alone makes: of
 * the weights, times 2^8 against the largest of their row, to e4m3, and of
 * results of 8 bits.
 */
#include "test/numerics/reference.h"
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers with factors ---- */

/* Which numbers share a factor. */
typedef enum grain {
    NOTHING, /* no factors */
    TENSOR,
    HEAD,
    BATCH_HEAD,
    KEY_HEAD, /* of q: the heads that share a key head */
    BLOCK
} grain;
static const char *const functions[] = {"@no_factor",    "@per_tensor",
                                        "@per_head",     "@per_batch_head",
                                        "@per_key_head", "@per_block"};

/* Its rows side by side. */
static const num_layout columns = {"columns", {0, 1, 3, 2}, {0}, {0}};

typedef struct quantized {
    num_tensor x;      /* as stored */
    num_tensor scales; /* memory NULL: none */
    num_tensor value;  /* f64: what that means */
} quantized;

/* How heads and rows are shared out to factors. */
typedef struct sharing {
    grain grain;
    int heads, group, length, rows;
} sharing;

static num_tensor new_scales(const sharing *s, int batch)
{
    int heads = s->grain == KEY_HEAD ? s->heads / s->group : s->heads;
    int blocks = (s->length + s->rows - 1) / s->rows;
    switch (s->grain) {
    case TENSOR: return num_tensor_new(NUM_F32, 1, (int32_t[]){1}, NULL);
    case HEAD: return num_tensor_new(NUM_F32, 1, (int32_t[]){heads}, NULL);
    case BATCH_HEAD:
    case KEY_HEAD:
        return num_tensor_new(NUM_F32, 2, (int32_t[]){batch, heads}, NULL);
    case BLOCK:
        return num_tensor_new(NUM_F32, 3, (int32_t[]){batch, heads, blocks},
                              NULL);
    default: return (num_tensor){0};
    }
}

/* Which factor a row has. */
static int64_t factor_of(const sharing *s, int64_t row)
{
    int64_t at = row / s->length, h = at % s->heads;
    switch (s->grain) {
    case HEAD: return h;
    case BATCH_HEAD: return at;
    case KEY_HEAD: return at / s->group;
    case BLOCK:
        return at * ((s->length + s->rows - 1) / s->rows) +
               row % s->length / s->rows;
    default: return 0;
    }
}

/* Each factor such that its largest number is that of the type. */
static quantized quantize(const double *x, num_type type, const sharing *s,
                          const int32_t size[4], const num_layout *layout)
{
    quantized z = {num_tensor_new(type, 4, size, layout),
                   new_scales(s, size[0]),
                   num_tensor_new(NUM_F64, 4, size, NULL)};
    int64_t n = num_count(&z.x), factors = 0;
    if (z.scales.memory)
        factors = num_count(&z.scales);
    double *scale = calloc((size_t)factors + 1, sizeof *scale);
    for (int64_t i = 0; factors && i < n; i++) {
        double *f = &scale[factor_of(s, i / size[3])];
        *f = fmax(*f, fabs(x[i]) / num_round(type, 1e9));
    }
    for (int64_t i = 0; i < factors; i++) {
        num_write(NUM_F32, num_at(&z.scales, i), scale[i]);
        scale[i] = num_read(NUM_F32, num_at(&z.scales, i));
    }
    for (int64_t i = 0; i < n; i++) {
        double f = factors ? scale[factor_of(s, i / size[3])] : 1;
        num_write(type, num_at(&z.x, i), x[i] / f);
        num_write(NUM_F64, num_at(&z.value, i),
                  num_read(type, num_at(&z.x, i)) * f);
    }
    free(scale);
    return z;
}

static void quantized_free(quantized *z)
{
    num_tensor_free(&z->x);
    num_tensor_free(&z->value);
    if (z->scales.memory)
        num_tensor_free(&z->scales);
}

/* Normal numbers; where there are blocks of rows they differ in size by powers
 * of two. */
static double *numbers(num_rng *r, const int32_t size[4], int rows)
{
    int64_t n = (int64_t)size[0] * size[1] * size[2] * size[3];
    double *x = malloc((size_t)n * sizeof *x);
    int of_block = 0;
    for (int64_t i = 0; i < n; i++) {
        if (rows && i % ((int64_t)rows * size[3]) == 0)
            of_block = num_between(r, -3, 1);
        x[i] = ldexp(num_normal(r), of_block);
    }
    return x;
}

/* Of each head, rows up to `rows` get c in their first column, others 0. */
static void set_column(double *x, const int32_t size[4], int rows, double c)
{
    int64_t n = (int64_t)size[0] * size[1] * size[2];
    for (int64_t i = 0; i < n; i++)
        x[i * size[3]] = i % size[2] < rows ? c : 0;
}

/* ---- Attention ---- */

typedef struct problem {
    const char *name;
    num_type q, k, v, o;
    grain of_q, of_k, of_v;
    int d, dv;
    bool causal;
    double scale; /* times 1 / sqrt(d); not positive: the careful way */
    bool columns; /* v is contiguous in its keys */
    bool sink;    /* the first key has by far the largest weight of each row */
    bool exact;   /* sums in f32 */
    int slack;    /* of the maxima: the kernel's RESCALE_THRESHOLD */
} problem;

static const problem problems[] = {
    {"plain", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16, NOTHING, NOTHING,
     NOTHING, 64, 64, false, 1, false, false, false, 0},
    {"tensor", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16, TENSOR, TENSOR,
     TENSOR, 128, 128, false, 1, false, false, false, 0},
    {"head", NUM_F8E4M3, NUM_F8E5M2, NUM_F8E4M3, NUM_F16, HEAD, HEAD, HEAD, 64,
     64, true, 1, false, false, false, 0},
    {"batch and key head", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16,
     KEY_HEAD, BATCH_HEAD, BATCH_HEAD, 64, 80, false, 1, false, false, false,
     0},
    {"blocks", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_F32, BLOCK, BLOCK, BLOCK,
     64, 64, true, 1, false, false, false, 0},
    {"blocks of k", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E5M2, NUM_BF16, BATCH_HEAD,
     BLOCK, HEAD, 48, 32, false, 1, false, false, false, 0},
    {"blocks of v", NUM_F8E5M2, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16, BATCH_HEAD,
     BATCH_HEAD, BLOCK, 32, 64, false, 1, false, false, false, 0},
    {"sink", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_F32, HEAD, HEAD, HEAD, 64,
     64, false, 1, false, true, false, 0},
    {"e5m2", NUM_F8E5M2, NUM_F8E5M2, NUM_F8E5M2, NUM_BF16, HEAD, HEAD, HEAD, 64,
     64, false, 1, false, false, false, 0},
    {"cache", NUM_BF16, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16, NOTHING, BATCH_HEAD,
     BATCH_HEAD, 64, 64, true, 1, false, false, false, 0},
    {"cache by blocks", NUM_F16, NUM_F8E4M3, NUM_F8E5M2, NUM_F16, NOTHING,
     BLOCK, BLOCK, 128, 128, false, 1, false, false, false, 0},
    {"with care", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16, BLOCK, BLOCK,
     BLOCK, 64, 64, true, -1, false, false, false, 0},
    {"cache with care", NUM_BF16, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16, NOTHING,
     BLOCK, BATCH_HEAD, 64, 64, false, -1, false, false, false, 0},
    {"columns", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16, BATCH_HEAD,
     BATCH_HEAD, BATCH_HEAD, 64, 128, false, 1, true, false, false, 0},
    {"columns of a cache", NUM_BF16, NUM_F8E4M3, NUM_F8E5M2, NUM_BF16, NOTHING,
     BLOCK, BLOCK, 64, 80, true, 1, true, false, false, 0},
    {"exact", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16, HEAD, HEAD, HEAD,
     64, 64, true, 1, true, false, true, 0},
    {"exact, of blocks", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_F32, BLOCK,
     BLOCK, BLOCK, 64, 136, false, 1, false, false, true, 0},
    {"to 8 bits", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, HEAD, HEAD,
     HEAD, 64, 64, true, 1, false, false, false, 0},
    {"to 8 bits, e5m2", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E5M2, NUM_F8E5M2,
     BATCH_HEAD, BLOCK, BLOCK, 64, 64, false, 1, true, false, false, 0},
    {"columns with care", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16, BLOCK,
     BLOCK, BLOCK, 64, 64, true, -1, true, false, false, 0},
    {"slack", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16, HEAD, HEAD, HEAD,
     64, 64, true, 1, true, false, false, 12},
    {"slack, steep", NUM_F8E4M3, NUM_F8E4M3, NUM_F8E4M3, NUM_F32, HEAD, BLOCK,
     HEAD, 64, 64, false, 5, false, false, false, 12},
    {"slack, cache", NUM_BF16, NUM_F8E4M3, NUM_F8E4M3, NUM_BF16, NOTHING,
     BATCH_HEAD, BLOCK, 64, 64, true, 1, false, false, false, 88},
};
enum {
    BATCH = 2,
    HEADS = 4,
    GROUP = 2,
    BQ = 32,
    BK = 32,
    Q_ROWS = 32, /* of a factor */
    K_ROWS = 64,
    V_ROWS = 32,
    MOST_EXACT = 64 /* columns of a program */
};

/* o is multiplied by it. */
#define OUT_SCALE 0.375

/* Every other problem. */
static bool has_sinks(const problem *p)
{
    return (p - problems) % 2;
}

static bool is_8_bit(num_type t)
{
    return t == NUM_F8E4M3 || t == NUM_F8E5M2;
}

typedef struct bindings {
    char sides[7][16];
    tilec_binding all[24];
    size_t n;
} bindings;

static void bind(bindings *b, const char *name, const char *value)
{
    b->all[b->n++] = (tilec_binding){name, value};
}

static void bind_sides(bindings *b, const problem *p)
{
    static const char *const names[] = {"BM",
                                        "BN",
                                        "SCALE_BLOCK_Q",
                                        "SCALE_BLOCK_K",
                                        "SCALE_BLOCK_V",
                                        "BLOCK_DV",
                                        "RESCALE_THRESHOLD"};
    int sides[] = {BQ,
                   BK,
                   Q_ROWS,
                   p->of_k == BLOCK ? K_ROWS : 0,
                   p->of_v == BLOCK ? V_ROWS : 0,
                   p->exact && p->dv > MOST_EXACT ? MOST_EXACT
                                                  : (p->dv + 15) / 16 * 16,
                   p->slack};
    for (int i = 0; i < 7; i++) {
        snprintf(b->sides[i], sizeof b->sides[i], "%d", sides[i]);
        bind(b, names[i], b->sides[i]);
    }
    bind(b, "TO", num_name(p->o));
    bind(b, "scale_o", functions[TENSOR]);
    bind(b, "descale_q", functions[p->of_q]);
    bind(b, "descale_k", functions[p->of_k]);
    bind(b, "descale_v", functions[p->of_v]);
}

/* The kernel by itself, or after a copy of v. */
static tilec_kernel *attention(tilec_context *cx, const problem *p, bool copied)
{
    char d[16], dv[16];
    bool narrow = is_8_bit(p->q);
    bindings b = {.n = 0};
    snprintf(d, sizeof d, "%d", p->d);
    snprintf(dv, sizeof dv, "%d", p->dv);
    bind_sides(&b, p);
    bind(&b, "D", d);
    bind(&b, "DV", dv);
    bind(&b, "T", num_name(p->q));
    bind(&b, "TK", num_name(p->k));
    bind(&b, "TV", num_name(p->v));
    bind(&b, "TP", narrow ? "f8e4m3" : num_name(p->q));
    bind(&b, "P_SHIFT", narrow ? "8" : "0");
    bind(&b, "V_CONTIG_DIM", p->columns ? "2" : "3");
    bind(&b, "EXACT", p->exact ? "1" : "0");
    bind(&b, "mask_mod", p->causal ? "@causal" : "@no_mask");
    bind(&b, "sink", has_sinks(p) ? "@head_sinks" : "@no_sink");
    return run_compile_bound(cx, copied ? "attention" : "attention_fwd",
                             copied ? "copied_attention" : "attention_fwd",
                             b.all, b.n);
}

/* As the library plans it; masks by lists of blocks. */
static tilec_attention *planned(tilec_context *cx, const problem *p)
{
    num_type types[] = {p->q, p->k, p->v};
    int dims[] = {p->d, p->d, p->dv};
    num_tensor like[3];
    run_view views[3];
    bindings b = {.n = 0};
    bind_sides(&b, p);
    for (int i = 0; i < 3; i++) {
        like[i] = num_tensor_new(types[i], 4, (int32_t[]){1, 1, 16, dims[i]},
                                 i == 2 && p->columns ? &columns : NULL);
        run_view_of(&views[i], &like[i]);
    }
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.bindings = b.all;
    o.nbindings = b.n;
    tilec_binding exact = {"EXACT_SUMS", p->exact ? "true" : "false"};
    o.kernel_options = &exact;
    o.nkernel_options = 1;
    o.sinks = has_sinks(p);
    o.mask = p->causal ? "causal" : NULL;
    o.block_lists = p->causal ? 1 : 0;
    tilec_attention *plan = NULL;
    if (tilec_attention_plan(cx, &views[0].dl, &views[1].dl, &views[2].dl, &o,
                             &plan) != TILEC_OK)
        run_print_diagnostics(cx);
    for (int i = 0; i < 3; i++)
        num_tensor_free(&like[i]);
    return plan;
}

typedef struct tensors {
    quantized q, k, v;
    num_tensor o, lse, scale_o, sinks;
} tensors;

static tensors make_tensors(num_rng *r, const problem *p)
{
    int m = num_between(r, 30, 100), n = num_between(r, 40, 300);
    /* Columns of whole 16 bytes, or not. */
    if (p->columns && n % 2 == 0)
        n = n / 16 * 16;
    int32_t qs[] = {BATCH, HEADS, m, p->d};
    int32_t ks[] = {BATCH, HEADS / GROUP, n, p->d};
    int32_t vs[] = {BATCH, HEADS / GROUP, n, p->dv};
    sharing of_q = {p->of_q, HEADS, GROUP, m, Q_ROWS};
    sharing of_k = {p->of_k, HEADS / GROUP, 1, n, K_ROWS};
    sharing of_v = {p->of_v, HEADS / GROUP, 1, n, V_ROWS};
    double *q = numbers(r, qs, 0), *k = numbers(r, ks, 0);
    double *v = numbers(r, vs, p->of_v == BLOCK ? V_ROWS : 0);
    if (p->sink) {
        set_column(q, qs, m, 4);
        set_column(k, ks, 1, 12);
    }
    tensors t = {
        quantize(q, p->q, &of_q, qs, NULL),
        quantize(k, p->k, &of_k, ks, NULL),
        quantize(v, p->v, &of_v, vs, p->columns ? &columns : NULL),
        num_tensor_new(p->o, 4, (int32_t[]){BATCH, HEADS, m, p->dv}, NULL),
        num_tensor_new(NUM_F32, 3, qs, NULL),
        num_tensor_new(NUM_F32, 1, (int32_t[]){1}, NULL),
        num_tensor_new(NUM_F32, 1, (int32_t[]){HEADS}, NULL)};
    for (int i = 0; i < HEADS; i++)
        num_write(NUM_F32, num_at(&t.sinks, i),
                  i ? 4 + 2 * num_normal(r) : -INFINITY);
    num_write(NUM_F32, t.scale_o.data, OUT_SCALE);
    free(q);
    free(k);
    free(v);
    return t;
}

static void free_tensors(tensors *t)
{
    quantized_free(&t->q);
    quantized_free(&t->k);
    quantized_free(&t->v);
    num_tensor_free(&t->o);
    num_tensor_free(&t->lse);
    num_tensor_free(&t->scale_o);
    num_tensor_free(&t->sinks);
}

static bool launch(const tilec_kernel *kernel, const problem *p,
                   const tensors *t, double scale, tilec_error *error)
{
    const quantized *factors[] = {&t->q, &t->k, &t->v};
    static const char *const names[] = {"descale_q.scales", "descale_k.scales",
                                        "descale_v.scales"};
    run_view views[10];
    tilec_argument args[12] = {
        tilec_tensor("q", run_view_of(&views[0], &t->q.x)),
        tilec_tensor("k", run_view_of(&views[1], &t->k.x)),
        tilec_tensor("v", run_view_of(&views[2], &t->v.x)),
        tilec_tensor("o", run_view_of(&views[3], &t->o)),
        tilec_tensor("lse", run_view_of(&views[4], &t->lse)),
        tilec_float("scale", scale),
        tilec_tensor("max", &views[4].dl),
        tilec_tensor("scale_o.scales", run_view_of(&views[8], &t->scale_o))};
    size_t n = 8;
    for (int i = 0; i < 3; i++)
        if (factors[i]->scales.memory)
            args[n++] = tilec_tensor(
                names[i], run_view_of(&views[5 + i], &factors[i]->scales));
    if (has_sinks(p))
        args[n++] =
            tilec_tensor("sink.sinks", run_view_of(&views[9], &t->sinks));
    return run_launch(kernel, args, n, NULL, error) == TILEC_OK;
}

static double rounded_weight(double p)
{
    return num_round(NUM_F8E4M3, p * 256) / 256;
}

static bool causal(const ref_position *at)
{
    return at->k <= at->q;
}

/* o within the limit, and lse. */
static bool is_right(const problem *p, const tensors *t, double scale,
                     char why[512])
{
    ref_attention a = {.q = &t->q.value,
                       .k = &t->k.value,
                       .v = &t->v.value,
                       .scale = scale,
                       .mask = p->causal ? causal : NULL};
    double *sinks = num_tensor_read(&t->sinks);
    a.sinks = has_sinks(p) ? sinks : NULL;
    int64_t n = num_count(&t->o), rows = num_count(&t->lse);
    double *want = malloc((size_t)n * sizeof *want);
    double *rounded = malloc((size_t)n * sizeof *rounded);
    double *lse = malloc((size_t)rows * sizeof *lse);
    ref_attention_forward(&a, want, lse);
    a.weight = rounded_weight;
    ref_attention_forward(&a, rounded, lse);
    double *got = num_tensor_read(&t->o), *got_lse = num_tensor_read(&t->lse);
    double worst = 0;
    for (int64_t i = 0; i < rows; i++)
        worst = fmax(worst,
                     fabs(got_lse[i] - lse[i]) / (2e-5 + 3e-7 * fabs(lse[i])));
    for (int64_t i = 0; i < n; i++) {
        got[i] /= OUT_SCALE;
        if (is_8_bit(p->o))
            rounded[i] = num_round(p->o, rounded[i] * OUT_SCALE) / OUT_SCALE;
    }
    num_error e = num_compare(got, want, n, p->dv);
    num_error least = num_compare(rounded, want, n, p->dv);
    double limit = is_8_bit(p->q)     ? 1.2 * least.overall
                   : p->q == NUM_BF16 ? 3e-3
                                      : 1e-3;
    bool intact = num_tensor_intact(&t->o) && num_tensor_intact(&t->lse);
    snprintf(why, 512, "error %.2e, limit %.2e, lse %.2f of limit%s", e.overall,
             limit, worst, intact ? "" : ", wrote outside");
    free(sinks);
    free(want);
    free(rounded);
    free(lse);
    free(got);
    free(got_lse);
    return e.overall <= limit && worst <= 1 && intact;
}

typedef struct options {
    uint64_t seed;
    int cases;
    bool verbose;
} options;

static void run_cases(const tilec_kernel *kernel, const char *way,
                      const problem *p, const options *o, run_counts *counts)
{
    double scale = p->scale / sqrt(p->d);
    run_check(counts, kernel, "%s, %s: does not compile", p->name, way);
    for (int i = 0; kernel && i < o->cases; i++) {
        num_rng r = {o->seed * 1000003 + (uint64_t)i};
        tensors t = make_tensors(&r, p);
        char why[512];
        tilec_error error = {0};
        bool ok = launch(kernel, p, &t, scale, &error);
        if (ok)
            ok = is_right(p, &t, scale, why);
        else
            snprintf(why, sizeof why, "launch: %s", error.message);
        run_check(counts, ok, "%s, %s, case %d, seed %llu: %s", p->name, way, i,
                  (unsigned long long)o->seed, why);
        if (ok && o->verbose)
            printf("passed %s, %s, case %d: %s\n", p->name, way, i, why);
        free_tensors(&t);
    }
}

static void run_problem(tilec_context *cx, const problem *p, const options *o,
                        run_counts *counts)
{
    for (int copied = 0; copied < 2; copied++) {
        tilec_kernel *kernel = attention(cx, p, copied);
        run_cases(kernel, copied ? "v copied" : "a kernel", p, o, counts);
        tilec_kernel_free(kernel);
    }
    tilec_attention *plan = planned(cx, p);
    run_cases(plan ? tilec_attention_kernel(plan) : NULL, "planned", p, o,
              counts);
    tilec_attention_free(plan);
}

int main(int argc, char **argv)
{
    options o = {.seed = (uint64_t)run_option(argc, argv, "seed", 1),
                 .cases = (int)run_option(argc, argv, "cases", 2),
                 .verbose = run_option(argc, argv, "verbose", 0)};
    tilec_context *cx = run_context();
    run_counts counts = {0};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        run_problem(cx, &problems[i], &o, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
