/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of an inference engine that uses tilec: plans attention once, then
 * runs it on batches of any length, without compiling again.
 *
 *     cc engine.c $(pkg-config --cflags --libs tilec) -o engine && ./engine
 */
#include <stdio.h>
#include <stdlib.h>
#include <tilec.h>

enum { HEADS = 8, KEY_HEADS = 2, DIM = 64 };

/* A float32 tensor [batch, heads, length, DIM] on the CPU. */
typedef struct tensor {
    DLTensor dl;
    int64_t shape[4];
} tensor;

static int make(tensor *t, int64_t batch, int64_t heads, int64_t length)
{
    *t = (tensor){.shape = {batch, heads, length, DIM}};
    int64_t n = batch * heads * length * DIM;
    float *data = malloc((size_t)n * sizeof *data);
    for (int64_t i = 0; data && i < n; i++)
        data[i] = (float)((i * 7919 + heads) % 101) / 50.0f - 1.0f;
    t->dl = (DLTensor){.data = data,
                       .device = {kDLCPU, 0},
                       .ndim = 4,
                       .dtype = {kDLFloat, 32, 1},
                       .shape = t->shape};
    return data != NULL;
}

/* The library says what is wrong as data; showing it is up to the engine. */
static void show_diagnostics(const tilec_context *cx)
{
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    for (; d; d = d->next)
        fprintf(stderr, "%s:%u:%u: %s\n", d->file ? d->file : "tilec", d->line,
                d->column, d->message);
}

static int run_batch(const tilec_attention *plan, int64_t batch, int64_t length)
{
    tensor q, k, v, o;
    int ok = make(&q, batch, HEADS, length);
    ok &= make(&k, batch, KEY_HEADS, length);
    ok &= make(&v, batch, KEY_HEADS, length);
    ok &= make(&o, batch, HEADS, length);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = &q.dl;
    t.k = &k.dl;
    t.v = &v.dl;
    t.o = &o.dl;
    tilec_error error = TILEC_INIT(tilec_error);
    if (ok && tilec_attention_forward(plan, &t, NULL, &error) != TILEC_OK) {
        fprintf(stderr, "launch: %s\n", error.message);
        ok = 0;
    }
    if (ok)
        printf("batch %lld, length %4lld: o[0] = %f\n", (long long)batch,
               (long long)length, (double)((float *)o.dl.data)[0]);
    free(q.dl.data);
    free(k.dl.data);
    free(v.dl.data);
    free(o.dl.data);
    return ok;
}

/* A plan needs tensors only for their data types and head dims. */
static tilec_attention *make_plan(tilec_context *cx)
{
    int64_t shape[4] = {1, HEADS, 1024, DIM};
    DLTensor like = {.device = {kDLCPU, 0},
                     .ndim = 4,
                     .dtype = {kDLFloat, 32, 1},
                     .shape = shape};
    tilec_attention_options options = TILEC_INIT(tilec_attention_options);
    options.mask = "sliding_window(w=256)";
    options.score = "soft_cap(cap=30)";
    tilec_attention *plan = NULL;
    if (tilec_attention_plan(cx, &like, &like, &like, &options, &plan) !=
        TILEC_OK)
        show_diagnostics(cx);
    return plan;
}

int main(void)
{
    tilec_context *cx = NULL;
    tilec_context_options options = TILEC_INIT(tilec_context_options);
    options.target = "cpu"; /* where these tensors are; see gpu.c */
    if (tilec_context_new(&options, &cx) != TILEC_OK)
        return 3;
    tilec_attention *plan = make_plan(cx);
    /* The plan keeps all that it needs. */
    tilec_context_free(cx);
    int ok = plan && run_batch(plan, 2, 300) && run_batch(plan, 1, 1000);
    tilec_attention_free(plan);
    return ok ? 0 : 1;
}
