/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeated launches, and the functions that they share with all others.
 */
#ifndef TC_LAUNCH_GRAPH_CACHE_H
#define TC_LAUNCH_GRAPH_CACHE_H

#include "lib/gpu/gpu.h"
#include "lib/program/launch.h"

/* As many parameters as most kernels have; the most bytes of one; of what
 * follows them. */
enum {
    TC_GPU_FEW_PARAMS = 24,
    TC_GPU_PARAM_BYTES = 8 + 12 * TC_MAX_RANK + 8,
    TC_GPU_BYTES_BEHIND =
        TC_GPU_MAP_ALIGN + TC_MAX_TENSOR_MAPS * TC_GPU_MAP_BYTES + 24,
    TC_GPU_FEW_BYTES =
        (TC_GPU_FEW_PARAMS * TC_GPU_PARAM_BYTES + TC_GPU_BYTES_BEHIND + 63) &
        ~63
};

/* Where things are among a launch's bytes. */
typedef struct tc_gpu_packed {
    size_t n;
    size_t counter;                      /* of tiles */
    size_t addresses[TC_GPU_FEW_PARAMS]; /* of tensors */
} tc_gpu_packed;

/* The driver's arguments, without the stream. */
typedef struct tc_gpu_call {
    const tc_gpu_loaded *loaded;
    const tc_gpu_meta *meta;
    const int32_t *grid;
    unsigned char *bytes; /* the parameters */
    size_t n;
} tc_gpu_call;

/* Its grid, threads and shared memory as the driver takes them. */
tc_cu_shape tc_gpu_shape(const tc_gpu_call *c);
/* The driver's launch; its code. */
int tc_gpu_submit(const tc_gpu_call *c, tc_cu_stream stream);

/* ---- Graphs of one kernel (gpu_graph.c) ---- */

typedef struct tc_gpu_graph tc_gpu_graph;

/* Of a call into a stream, in whose context it runs. From one thread at a time,
 * all of it. NULL: the driver makes none. */
tc_gpu_graph *tc_gpu_graph_new(const tc_gpu_call *c, tc_cu_stream stream);
/* Accepts NULL; it may run. */
void tc_gpu_graph_free(tc_gpu_graph *g);
bool tc_gpu_graph_fits(const tc_gpu_graph *g, const tc_gpu_call *c,
                       tc_cu_stream stream);
/* Other parameters for the launches to come; a code of the driver. */
int tc_gpu_graph_set(tc_gpu_graph *g, const tc_gpu_call *c);
int tc_gpu_graph_launch(const tc_gpu_graph *g);

/* ---- Launches like the one before ---- */

/* False: nothing was launched, or the driver refused it. */
bool tc_gpu_launch_again(const tilec_kernel *k, const tilec_argument *args,
                         size_t nargs, const tilec_launch_options *options);
/* Of a launch that went well, with at most TC_GPU_FEW_PARAMS parameters. */
void tc_gpu_keep_launch(const tc_gpu_request *r, const tc_gpu_loaded *loaded,
                        const tc_gpu_meta *meta, const unsigned char *bytes,
                        const tc_gpu_packed *packed);

#endif
