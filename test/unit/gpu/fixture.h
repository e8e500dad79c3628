/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts with a driver that records (test/fake), kernels small and large,
 * tensors of devices that are not there.
 */
#ifndef TEST_GPU_FIXTURE_H
#define TEST_GPU_FIXTURE_H

#define _GNU_SOURCE
#include "lib/gpu/gpu.h"
#include "test/fake/cuda.h"
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of kernels with matrices %x and %y, and %by and %n. */
#define SCALE_BODY                                                             \
    "    grid {\n"                                                             \
    "      assert size(%x, 0) == size(%y, 0), \"x and y differ\"\n"            \
    "      yield cdiv(size(%x, 0), 16), %n, 1\n"                               \
    "    }\n"                                                                  \
    "{\n"                                                                      \
    "  %r = program_id(0) * 16\n"                                              \
    "  %a = load %x[%r +: 16, 0 +: 16] boundary(0, 1)\n"                       \
    "  store %y[%r +: 16, 0 +: 16], %a * %by boundary(0, 1)\n"                 \
    "}\n"

extern const char scale_text[];
extern const char careful_text[];
extern fake_cuda_state *fake;
extern fake_cuda_use_fn *fake_use;
extern tilec_context *cx;
extern char folder[64];
extern tilec_error last_error;
tilec_context *gpu_new_context(const char *library);
void gpu_set_up(void);
void gpu_tear_down(void);
tilec_status gpu_compile_with(tilec_context *c, const char *text,
                              const tilec_compile_options *options,
                              tilec_kernel **k);
tilec_kernel *gpu_compile(tilec_context *c, const char *text);
tilec_kernel *gpu_compile_unloaded(tilec_context *c, const char *text);

/* A device tensor of no memory to speak of. */
typedef struct matrix {
    DLTensor dl;
    int64_t shape[2], strides[2];
} matrix;
const DLTensor *gpu_make_matrix(matrix *m, int64_t rows, int64_t columns,
                                uintptr_t address);

enum { NARGS = 10 };
void gpu_make_args(tilec_argument *a, matrix *x, matrix *y, matrix *p);
tilec_status gpu_launch_scale(const tilec_kernel *k,
                              const tilec_launch_options *o);
void gpu_expect_says(tilec_status got, tilec_status status, const char *words);
char *gpu_emit(const tilec_kernel *k, const char *what);

/* Only what a compile's diagnostics say tells that the passes ran. */
bool gpu_compiles(tilec_context *c, const tilec_compile_options *o,
                  const char *text, tilec_kernel **k);
void gpu_launching_tests(TCase *t);
void gpu_threads_tests(TCase *t);
void gpu_loading_tests(TCase *t);
void gpu_cache_tests(TCase *t);
void gpu_again_tests(TCase *t);
void gpu_failures_tests(TCase *t);

#endif
