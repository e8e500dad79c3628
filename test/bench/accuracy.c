/* SPDX-License-Identifier: Apache-2.0
 *
 * What 8 bits cost: attention on rounded q, k and v against float64 on what
 * they were before, on real activations and on inputs with outliers; by factors
 * of heads and of blocks, with q and k rotated first and not.
 *
 *   bench_accuracy [FOLDER of test/data]
 *
 * Prints two tables: that error, of o in float32; and the error against float64
 * on the rounded numbers, as a share of what it may be: 1.2 times what rounding
 * the weights alone makes. Exit code 1: more than that.
 */
#include "test/numerics/reference.h"
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Inputs ---- */

enum { BLOCK = 64, HEADS = 2, LENGTH = 512, DIM = 128 };

typedef struct input {
    const char *name;
    const char *file; /* NULL: random */
    double column;    /* added to one column of q and k */
    double factor;    /* of q */
    double outliers;  /* the size of a few of all numbers; 0: none */
    double mean;      /* of v */
} input;

static const input inputs[] = {
    {"encoder, layer 0", "encoder_l0_s128_d64_f32", 0, 1, 0, 0},
    {"encoder, layer 1", "encoder_l1_s1000_d128_bf16", 0, 1, 0, 0},
    {"normal", NULL, 0, 1, 0, 0},
    {"normal, large scores", NULL, 0, 4, 0, 0},
    {"normal, v + 2", NULL, 0, 1, 0, 2},
    {"a column of q and k + 12", NULL, 12, 1, 0, 0},
    {"one of 1000 is 10 times as large", NULL, 0, 1, 10, 0},
};

typedef struct tensors {
    num_tensor q, k, v;
    tilec_safetensors *file;
} tensors;

static num_tensor some_normal(num_rng *r, const input *in, bool is_value)
{
    int32_t size[] = {1, HEADS, LENGTH, DIM};
    num_tensor x = num_tensor_new(NUM_BF16, 4, size, NULL);
    for (int64_t i = 0; i < num_count(&x); i++) {
        double value = num_normal(r);
        if (in->outliers != 0 && num_below(r, 1000) == 0)
            value += in->outliers * num_normal(r);
        if (is_value)
            value += in->mean;
        else if (i % DIM == 5)
            value += in->column;
        num_write(NUM_BF16, num_at(&x, i), value);
    }
    return x;
}

static void scale_by(num_tensor *x, double factor)
{
    for (int64_t i = 0; i < num_count(x); i++) {
        void *at = num_at(x, i);
        num_write(x->type, at, num_read(x->type, at) * factor);
    }
}

/* A copy of the file's first heads. */
static num_tensor read_tensor(const tilec_safetensors *f, const char *name)
{
    DLTensor t;
    tilec_error error = TILEC_INIT(tilec_error);
    if (tilec_safetensors_get(f, name, &t, &error) != TILEC_OK) {
        printf("%s\n", error.message);
        exit(1);
    }
    num_type type = t.dtype.bits == 32 ? NUM_F32 : NUM_BF16;
    int32_t size[] = {1, HEADS, (int32_t)t.shape[2], (int32_t)t.shape[3]};
    num_tensor x = num_tensor_new(type, 4, size, NULL);
    size_t bytes = (size_t)num_count(&x) * t.dtype.bits / 8;
    memcpy(x.data, (const char *)t.data + t.byte_offset, bytes);
    return x;
}

static tensors make(const input *in, const char *folder)
{
    if (!in->file) {
        num_rng r = {17};
        tensors t = {.q = some_normal(&r, in, false),
                     .k = some_normal(&r, in, false),
                     .v = some_normal(&r, in, true)};
        scale_by(&t.q, in->factor);
        return t;
    }
    char path[512];
    tilec_error error = TILEC_INIT(tilec_error);
    tensors t = {.file = NULL};
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, in->file);
    if (tilec_safetensors_open(path, &t.file, &error) != TILEC_OK) {
        printf("%s\n", error.message);
        exit(1);
    }
    t.q = read_tensor(t.file, "q");
    t.k = read_tensor(t.file, "k");
    t.v = read_tensor(t.file, "v");
    return t;
}

static void free_tensors(tensors *t)
{
    num_tensor_free(&t->q);
    num_tensor_free(&t->k);
    num_tensor_free(&t->v);
    tilec_safetensors_free(t->file);
}

/* ---- Ways ---- */

typedef struct way {
    const char *name;
    num_type type; /* NUM_BF16: nothing is rounded */
    bool by_block, rotates;
    bool of_cache; /* k and v only */
} way;

static const way ways[] = {
    {"not rounded", NUM_BF16, false, false, false},
    {"e4m3 by head", NUM_F8E4M3, false, false, false},
    {"by head, rotated", NUM_F8E4M3, false, true, false},
    {"e4m3 by block", NUM_F8E4M3, true, false, false},
    {"by block, rotated", NUM_F8E4M3, true, true, false},
    {"e5m2 by head", NUM_F8E5M2, false, false, false},
    {"k, v e4m3 by block", NUM_F8E4M3, true, false, true},
};
enum { NINPUTS = sizeof inputs / sizeof *inputs };
enum { NWAYS = sizeof ways / sizeof *ways };

/* Rounded numbers, their factors, and what both mean. */
typedef struct rounded {
    num_tensor x, scales, value;
    bool is_rounded;
} rounded;

static bool launch(tilec_context *cx, const char *kernel, int d, int hadamard,
                   const num_tensor *const t[], const char *const names[],
                   size_t n)
{
    char dim[16], side[16];
    snprintf(dim, sizeof dim, "%d", d);
    snprintf(side, sizeof side, "%d", hadamard);
    const tilec_binding b[] = {{"D", dim}, {"HADAMARD", side}};
    run_view views[4];
    tilec_argument args[4];
    for (size_t i = 0; i < n; i++)
        args[i] = tilec_tensor(names[i], run_view_of(&views[i], t[i]));
    tilec_source source = tilec_text("quantize", NULL, 0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.kernel = kernel;
    o.bindings = b;
    o.nbindings = 2;
    o.examples = args;
    o.nexamples = n;
    tilec_kernel *k;
    tilec_error error = TILEC_INIT(tilec_error);
    if (tilec_compile(cx, &source, 1, &o, &k) != TILEC_OK) {
        run_print_diagnostics(cx);
        return false;
    }
    bool ok = run_launch(k, args, n, NULL, &error) == TILEC_OK;
    if (!ok)
        printf("%s: %s\n", kernel, error.message);
    tilec_kernel_free(k);
    return ok;
}

static bool fill(tilec_context *cx, const num_tensor *x, const way *w,
                 int hadamard, rounded *out)
{
    int32_t blocks[] = {1, HEADS, (x->size[2] + BLOCK - 1) / BLOCK};
    num_tensor largest = num_tensor_new(NUM_F32, 3, blocks, NULL);
    const num_tensor *all[] = {x, &out->x, &out->scales, &largest};
    const char *names[] = {"x", "y", "scales", "largest"};
    const num_tensor *first[] = {x, &largest};
    const char *first_names[] = {"x", "largest"};
    int d = x->size[3];
    bool ok = w->by_block
                  ? launch(cx, "quantize_block", d, hadamard, all, names, 3)
                  : launch(cx, "largest_of_blocks", d, hadamard, first,
                           first_names, 2) &&
                        launch(cx, "quantize_head", d, hadamard, all, names, 4);
    num_tensor_free(&largest);
    return ok;
}

static void set_value(rounded *r, bool by_block)
{
    int64_t d = r->x.size[3], length = r->x.size[2];
    int64_t blocks = (length + BLOCK - 1) / BLOCK;
    for (int64_t i = 0; i < num_count(&r->x); i++) {
        int64_t row = i / d, head = row / length;
        int64_t at = by_block ? head * blocks + row % length / BLOCK : head;
        double factor = num_read(NUM_F32, num_at(&r->scales, at));
        num_write(NUM_F64, num_at(&r->value, i),
                  num_read(r->x.type, num_at(&r->x, i)) * factor);
    }
}

static rounded round_one(tilec_context *cx, const num_tensor *x, const way *w,
                         bool rotates)
{
    int32_t blocks[] = {1, HEADS, (x->size[2] + BLOCK - 1) / BLOCK};
    rounded r = {.x = num_tensor_new(w->type, 4, x->size, NULL),
                 .scales =
                     num_tensor_new(NUM_F32, w->by_block ? 3 : 2, blocks, NULL),
                 .value = num_tensor_new(NUM_F64, 4, x->size, NULL),
                 .is_rounded = true};
    if (!fill(cx, x, w, rotates ? x->size[3] : 0, &r))
        exit(1);
    set_value(&r, w->by_block);
    return r;
}

/* q, k and v as that way gets them. */
static rounded as_it_is(const num_tensor *x)
{
    return (rounded){.x = *x, .value = *x};
}

static void free_rounded(rounded *r)
{
    if (!r->is_rounded)
        return;
    num_tensor_free(&r->x);
    num_tensor_free(&r->scales);
    num_tensor_free(&r->value);
}

/* ---- Attention ---- */

static double *attend(tilec_context *cx, rounded r[3])
{
    run_view views[7];
    const DLTensor *scales[3];
    tilec_argument factors[3];
    static const char *const names[] = {"descale_q.scales", "descale_k.scales",
                                        "descale_v.scales"};
    static const tilec_binding of_o = {"TO", "f32"};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    for (int i = 0; i < 3; i++) {
        scales[i] =
            r[i].is_rounded ? run_view_of(&views[i], &r[i].scales) : NULL;
        if (scales[i])
            factors[t.ncaptured++] = tilec_tensor(names[i], scales[i]);
    }
    o.descale_q = scales[0];
    o.descale_k = scales[1];
    o.descale_v = scales[2];
    o.enforce = TILEC_ENFORCE_OFF;
    o.bindings = &of_o;
    o.nbindings = r[0].is_rounded;
    t.captured = factors;
    t.q = run_view_of(&views[3], &r[0].x);
    t.k = run_view_of(&views[4], &r[1].x);
    t.v = run_view_of(&views[5], &r[2].x);
    num_type type = r[0].is_rounded ? NUM_F32 : r[0].x.type;
    num_tensor out = num_tensor_new(type, 4, r[0].x.size, NULL);
    t.o = run_view_of(&views[6], &out);
    tilec_attention *plan;
    tilec_error error = TILEC_INIT(tilec_error);
    if (tilec_attention_plan(cx, t.q, t.k, t.v, &o, &plan) != TILEC_OK) {
        run_print_diagnostics(cx);
        exit(1);
    }
    if (run_forward(plan, &t, NULL, &error) != TILEC_OK) {
        printf("%s\n", error.message);
        exit(1);
    }
    double *got = num_tensor_read(&out);
    tilec_attention_free(plan);
    num_tensor_free(&out);
    return got;
}

static double rounded_weight(double p)
{
    return num_round(NUM_F8E4M3, p * 256) / 256;
}

static double *right(const num_tensor *q, const num_tensor *k,
                     const num_tensor *v, bool rounds)
{
    ref_attention a = {.q = q,
                       .k = k,
                       .v = v,
                       .scale = 1 / sqrt(q->size[3]),
                       .weight = rounds ? rounded_weight : NULL};
    double *o = malloc((size_t)num_count(q) * sizeof *o);
    double *lse = malloc((size_t)num_count(q) * sizeof *lse);
    ref_attention_forward(&a, o, lse);
    free(lse);
    return o;
}

typedef struct result {
    double error, share; /* of the limit; 0: it has none */
} result;

static double error_of(const double *got, const double *want,
                       const num_tensor *like)
{
    return num_compare(got, want, num_count(like), like->size[3]).overall;
}

static result measure(tilec_context *cx, const tensors *t, const way *w,
                      const double *want)
{
    bool rounds = w->type != NUM_BF16, rounds_q = rounds && !w->of_cache;
    rounded r[] = {
        rounds_q ? round_one(cx, &t->q, w, w->rotates) : as_it_is(&t->q),
        rounds ? round_one(cx, &t->k, w, w->rotates) : as_it_is(&t->k),
        rounds ? round_one(cx, &t->v, w, false) : as_it_is(&t->v)};
    double *got = attend(cx, r);
    result found = {.error = error_of(got, want, &t->q)};
    if (rounds_q) {
        double *exact = right(&r[0].value, &r[1].value, &r[2].value, false);
        double *least = right(&r[0].value, &r[1].value, &r[2].value, true);
        found.share =
            error_of(got, exact, &t->q) / (1.2 * error_of(least, exact, &t->q));
        free(exact);
        free(least);
    }
    free(got);
    for (int i = 0; i < 3; i++)
        free_rounded(&r[i]);
    return found;
}

/* ---- Tables ---- */

static void print_head(const char *what)
{
    printf("| %s |", what);
    for (int w = 0; w < NWAYS; w++)
        printf(" %s |", ways[w].name);
    printf("\n|---|");
    for (int w = 0; w < NWAYS; w++)
        printf("---|");
    printf("\n");
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "test/data";
    tilec_context *cx = run_context();
    result found[NINPUTS][NWAYS];
    bool ok = true;
    print_head("error");
    for (int i = 0; i < NINPUTS; i++) {
        tensors t = make(&inputs[i], folder);
        double *want = right(&t.q, &t.k, &t.v, false);
        printf("| %s |", inputs[i].name);
        for (int w = 0; w < NWAYS; w++) {
            found[i][w] = measure(cx, &t, &ways[w], want);
            ok &= found[i][w].share <= 1;
            printf(" %.2g |", found[i][w].error);
            fflush(stdout);
        }
        printf("\n");
        free(want);
        free_tensors(&t);
    }
    printf("\n");
    print_head("of the limit");
    for (int i = 0; i < NINPUTS; i++) {
        printf("| %s |", inputs[i].name);
        for (int w = 0; w < NWAYS; w++)
            if (found[i][w].share > 0)
                printf(" %.2f |", found[i][w].share);
            else
                printf(" |");
        printf("\n");
    }
    run_context_free(cx);
    return ok ? 0 : 1;
}
