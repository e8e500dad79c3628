/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention compiles for GPUs, forward, gradients and the gradients of captured
 * tensors, over a cache a decode and a prefill, whatever the data type and the
 * head dim: for each of them there are tiles that fit into shared memory. (No
 * assembler is needed.)
 *
 *     attention_fits [--all 1] [--gradients 0] [--verbose 1]
 */
#include "test/numerics/run.h"

#include <stdio.h>

static const char mods[] =
    "func @squashed(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32,\n"
    "               %bias: tensor<[?, ?] x f32>, %gain: tensor<[?] x f32>)\n"
    "    -> f32 {\n"
    "  return tanh(%s * %gain[%h]) * 2.0 + %bias[%q, %k]\n"
    "}\n";

static const char *const targets[] = {"sm_90a", "sm_80", "sm_86"};
static const num_type types[] = {NUM_BF16, NUM_F32, NUM_F16};
/* D, DV; the few of a plain run first. */
static const int dims[][2] = {{256, 256}, {512, 512}, {576, 512}, {16, 16},
                              {32, 32},   {64, 64},   {80, 80},   {96, 96},
                              {128, 128}, {160, 160}, {192, 128}, {192, 192},
                              {320, 320}, {384, 384}, {448, 448}};
static const struct {
    const char *name, *score, *mask;
    int captured, deterministic;
} ways[] = {{"gradients", NULL, NULL, 0, 0},
            {"gradients, causal, in one order", NULL, "causal", 0, 1},
            {"captured tensors", "squashed", NULL, 1, 0},
            {"captured tensors, in one order", "squashed", "causal", 1, 1}};
enum {
    TARGETS = 3,
    TYPES = 3,
    FEW = 2, /* dims and types of a plain run */
    WAYS = 4,
    CAPTURED = 2,
    DIMS = sizeof dims / sizeof *dims
};

static DLTensor tensor(num_type type, int64_t shape[4])
{
    return (DLTensor){.device = {kDLCPU, 0},
                      .ndim = 4,
                      .dtype = run_dtype(type),
                      .shape = shape};
}

static bool compiles(tilec_context *cx, const char *target, num_type type,
                     const int dim[2], int way)
{
    int64_t qk[4] = {1, 2, 300, dim[0]}, v4[4] = {1, 2, 300, dim[1]};
    DLTensor q = tensor(type, qk), v = tensor(type, v4);
    tilec_source source = tilec_text("mods", mods, 0);
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention *plan;
    o.target = target;
    o.score = ways[way].score;
    o.mask = ways[way].mask;
    o.sources = &source;
    o.nsources = 1;
    o.backward = 1;
    o.captured_gradients = ways[way].captured;
    o.deterministic = ways[way].deterministic;
    o.no_load = o.no_cache = 1;
    bool ok = tilec_attention_plan(cx, &q, &q, &v, &o, &plan) == TILEC_OK;
    tilec_attention_free(plan);
    return ok;
}

/* Over pages of 16 keys, 4 query heads to a key head; is_narrow: of 8 bits. */
static bool cache_compiles(tilec_context *cx, const char *target, num_type type,
                           const int dim[2], int64_t queries, bool is_narrow)
{
    int64_t q4[4] = {2, 8, queries, dim[0]}, k4[4] = {40, 2, 16, dim[0]};
    int64_t v4[4] = {40, 2, 16, dim[1]};
    num_type cached = is_narrow ? NUM_F8E4M3 : type;
    DLTensor q = tensor(type, q4), k = tensor(cached, k4);
    DLTensor v = tensor(cached, v4);
    tilec_kvcache_options o = TILEC_INIT(tilec_kvcache_options);
    tilec_kvcache *plan;
    o.target = target;
    o.layout = TILEC_KV_PAGED;
    o.mask = "causal";
    o.no_load = o.no_cache = 1;
    bool ok = tilec_kvcache_plan(cx, &q, &k, &v, &o, &plan) == TILEC_OK;
    tilec_kvcache_free(plan);
    return ok;
}

static void check_cache(tilec_context *cx, run_counts *counts,
                        const char *target, num_type type, const int dim[2])
{
    for (int way = 0; way < 4; way++) {
        int64_t queries = way / 2 ? 100 : 1;
        bool ok = cache_compiles(cx, target, type, dim, queries, way % 2);
        run_check(counts, ok, "%s, %s, head dim %d/%d, %d queries%s: %s",
                  target, num_name(type), dim[0], dim[1], (int)queries,
                  way % 2 ? " over 8 bits" : "",
                  ok ? "" : tilec_diagnostics(cx)->message);
    }
}

static void check(tilec_context *cx, run_counts *counts, const char *target,
                  num_type type, const int dim[2], int way, bool verbose)
{
    double start = run_seconds();
    bool ok = compiles(cx, target, type, dim, way);
    run_check(counts, ok, "%s, %s, head dim %d/%d, %s: %s", target,
              num_name(type), dim[0], dim[1], ways[way].name,
              ok ? "" : tilec_diagnostics(cx)->message);
    if (verbose)
        printf("%.2f s: %s %s %d/%d %s\n", run_seconds() - start, target,
               num_name(type), dim[0], dim[1], ways[way].name);
}

int main(int argc, char **argv)
{
    run_counts counts = {0};
    bool all = run_option(argc, argv, "all", 0);
    bool gradients = run_option(argc, argv, "gradients", 1);
    bool verbose = run_option(argc, argv, "verbose", 0);
    tilec_context *cx;
    if (tilec_context_new(NULL, &cx) != TILEC_OK)
        return 1;
    int ntypes = all ? TYPES : FEW, ndims = all ? DIMS : FEW;
    for (int t = 0; t < (all ? TARGETS : 1); t++)
        for (int i = 0; i < ntypes * ndims; i++) {
            check_cache(cx, &counts, targets[t], types[i % ntypes],
                        dims[i / ntypes]);
            for (int w = 0; w < WAYS && gradients; w++)
                if (all || w == CAPTURED)
                    check(cx, &counts, targets[t], types[i % ntypes],
                          dims[i / ntypes], w, verbose);
        }
    tilec_context_free(cx);
    return run_finish(&counts);
}
