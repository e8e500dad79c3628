/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numeric tests share in driving libtilec: tensors as DLPack, the
 * count of what passed, messages for what did not.
 */
#ifndef TEST_RUN_H
#define TEST_RUN_H

#include "lib/tilec.h"
#include "test/numerics/number.h"

/* A view of a num_tensor for the library; valid while both stay in place. */
typedef struct run_view {
    DLTensor dl;
    int64_t shape[NUM_MAX_RANK], strides[NUM_MAX_RANK];
} run_view;
/* Fills in and returns &v->dl. */
const DLTensor *run_view_of(run_view *v, const num_tensor *t);
DLDataType run_dtype(num_type t);

typedef struct run_counts {
    int passed, failed;
} run_counts;
/* Counts; what failed is printed as `FAILED what: why`. */
bool run_check(run_counts *c, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Each row of x, along its last dim, is within `tolerance`, plus the rounding
 * to x's type, of `want`, and nothing was written outside. */
bool run_check_rows(run_counts *c, const char *name, const num_tensor *x,
                    const double *want, double tolerance);
/* Prints the last line, `N passed, N failed`; the exit status. */
int run_finish(const run_counts *c);

/* The context of a test: of the CPU target, or, where the environment says
 * TILEC_TEST_TARGET=gpu (or names a target), for a GPU. Where there is none the
 * program ends: skipped (77), or with TILEC_REQUIRE_GPU=1 failed. Freed with
 * run_context_free. */
tilec_context *run_context(void);
void run_context_free(tilec_context *cx);
/* NULL: the CPU. */
const tilec_device *run_device(void);
/* tilec_launch and tilec_attention_forward with tensors of the host, which on a
 * GPU travel there and back; returns when all is done. What wants a workspace
 * gets one. */
tilec_status run_launch(const tilec_kernel *k, const tilec_argument *args,
                        size_t nargs, const tilec_launch_options *options,
                        tilec_error *error);
tilec_status run_forward(const tilec_attention *plan,
                         const tilec_attention_tensors *tensors,
                         const tilec_launch_options *options,
                         tilec_error *error);
/* Memory of the target, full of NaNs, that later runs find as it was left. */
typedef struct run_room {
    void *host, *address; /* address: for launches */
    DLTensor *device;
    uint64_t bytes;
} run_room;
tilec_status run_room_new(run_room *r, uint64_t bytes, tilec_error *error);
void run_room_free(run_room *r);
/* Attention by the schedule in that memory: made before by the plan `dealer`,
 * or (NULL) there from an earlier run. */
tilec_status run_kvcache(const tilec_kvcache *plan,
                         const tilec_kvcache_tensors *tensors,
                         const run_room *schedule, const tilec_kvcache *dealer,
                         tilec_error *error);

/* The diagnostics of a failed compile, one a line, to stdout. */
void run_print_diagnostics(const tilec_context *cx);
/* Compiles one text; NULL: diagnostics were printed. */
tilec_kernel *run_compile(tilec_context *cx, const char *text,
                          const tilec_compile_options *options);
/* The same of a text of the library, by its name. */
tilec_kernel *run_compile_embedded(tilec_context *cx, const char *program,
                                   const tilec_compile_options *options);
/* ... of a kernel in it (NULL: the only one), with these bindings. */
tilec_kernel *run_compile_bound(tilec_context *cx, const char *program,
                                const char *kernel,
                                const tilec_binding *bindings, size_t n);
/* The value after `--name` among the arguments, or `missing`. */
long run_option(int argc, char **argv, const char *name, long missing);
double run_seconds(void);

#endif
