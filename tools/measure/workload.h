/* SPDX-License-Identifier: Apache-2.0
 *
 * The launches of `bench` and `tune`: a kernel and its tensors, its amount of
 * work, and its expected results, from the CPU target.
 *
 *   attention --shape 4x32x4096x64 [--kv-heads 8] [--mask causal] [NAME=...]
 *   FILE.tile[@kernel] a=random:4096x4096xbf16 ...
 */
#ifndef TOOL_WORKLOAD_H
#define TOOL_WORKLOAD_H

#include "tools/measure/inputs.h"
#include "tools/measure/program.h"
#include "tools/measure/space.h"

#define WORKLOAD_OPTIONS                                                       \
    {"--shape", "BxHxMxD",                                                     \
     "attention: batch, heads, length of q (and of k), head dim"},             \
        {"--kv-heads", "N", "heads of k and v (default: those of q)"},         \
        {"--kv-length", "N", "length of k and v (default: that of q)"},        \
        {"--dv", "N", "head dim of v (default: that of q)"},                   \
        {"--dtype", "TYPE",                                                    \
         "of q, k, v, o (default: bf16; of 8 bits: o bf16, v by columns)"},    \
        {"--mask", "MASK", "as in `tilec attention`"},                         \
        {"--score", "SCORE", "as in `tilec attention`"},                       \
        {"--lists", "WHEN", LISTS_HELP},                                       \
        {"--flops", "N", "of a launch, where they are not to be counted"},     \
        {"--seed", "N", "of the random tensors (default: 0)"},                 \
        {"--check-seconds", "X",                                               \
         "how long the CPU may take for a reference; beyond that\n"            \
         "it computes a sample (default: 2; 0: nothing is checked)"},          \
        {"--tolerance", "X", "relative error of a result that is right"},      \
        {"--sweep", "NAME=A,B,...",                                            \
         "all of these values of a compile-time parameter (of none\n"          \
         "that changes the result), of warps or stages; each --sweep\n"        \
         "with all values of the others"},                                     \
        {"-D", "NAME=VALUE",                                                   \
         "bind a compile-time parameter: a size, a type, @func"},              \
        {"--target", "TARGET", TARGET_HELP},                                   \
        {"--warps", "N", "GPU targets: warps of a block, 1 to 32"},            \
        {"--stages", "N", "GPU targets: stages of pipelined loops"},           \
        {"--tiles", "HOW", TILES_HELP},                                        \
        {"--precision", "P",                                                   \
         "GPU targets: of products of f32: ieee, tf32 or tf32x3"},             \
    {                                                                          \
        "--no-cache", NULL, "GPU targets: compile anew, and keep nothing"      \
    }

typedef struct workload {
    const tool_args *args;
    program program;
    inputs in;
    bool is_attention;
    int64_t batch, heads, length, dim, kv_heads, kv_length, dv;
    const char *mask, *score; /* NULL: none */
    int lists;                /* as block_lists of tilec_attention_options */
    char dtype[16];           /* of the kernel's parameter T; "": it has none */
    char kernel[64]; /* its name; from here on set by workload_prepare */
    char name[400];  /* "attention 4x32x4096x64 bf16, mask causal" */

    double bytes; /* of all tensors, once */
    double flops; /* 0: not known */
    char flops_from[96];

    bool needs_no_check; /* set before workload_prepare */
    bool is_checked;
    char checked[160]; /* what is */
    double tolerance;  /* 0: by type */
    bool is_sample;
    owned_tensor want[INPUTS_MOST]; /* of what the kernel writes */
} workload;

/* Reads the command line and makes the tensors. Exit code; workload_free in
 * any case. */
int workload_read(workload *w, const tool_args *args);
/* Runs the CPU target for `want`, and counts. Nothing here touches a GPU. */
int workload_prepare(workload *w, const space *s);
void workload_free(workload *w);

/* A kernel for the workload. */
typedef struct built {
    tilec_attention *plan;
    tilec_kernel *own;
    const tilec_kernel *kernel; /* whichever there is */
} built;
/* target NULL: that of the command line; else it is for a reference, which may
 * leave programs out, and so goes by no list. What is wrong is in cx. */
tilec_status workload_build(const workload *w, tilec_context *cx,
                            const char *target, const variant *v, bool load,
                            built *out);
void built_free(built *b);
/* args: as many as w->in.n, in that order. options: with a workspace where
 * workload_workspace says so. */
tilec_status workload_launch(const workload *w, const built *b,
                             const tilec_argument *args,
                             const tilec_launch_options *options,
                             tilec_error *error);
tilec_status workload_workspace(const workload *w, const built *b,
                                uint64_t *bytes, tilec_error *error);

/* Of the results `got` (one for each argument, NULL: not written): the largest
 * error, and where it is beyond the tolerance, why (else ""). */
typedef struct verdict {
    double error;
    char why[200];
} verdict;
verdict workload_check(const workload *w, const DLTensor *const *got);

#endif
