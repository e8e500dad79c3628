/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels from text, compiled and launched on the host, on memory with guard
 * pages right before and after it: an access outside ends the test.
 */
#ifndef HOST_FIXTURE_H
#define HOST_FIXTURE_H

#include "codegen/host/host.h"

#include <check.h>

typedef struct host_test {
    tc_context *cx;
    tc_module *module;
    tc_func *func;
    tc_host_kernel *kernel;
    tc_host_report report;
    char printed[1 << 16];
} host_test;
extern host_test host;

/* Parses, runs the passes and compiles; errors end the test. */
void host_compile(const char *text);
/* The same for the machine of host_options (NULL: this one). Errors are left
 * in the diagnostics: false. */
bool host_try(const char *text, const tc_host_options *options);
void host_close(void);
/* Runs all programs of the kernel's own grid one after the other, on scratch
 * memory that a guard page follows; or as any launch does. */
bool host_launch(const tc_launch_arg *args);
bool host_launch_threads(const tc_launch_arg *args, unsigned threads);
/* A tc_host_parallel_for: on threads that all launches of a test share. */
void host_run(void *user, size_t count, void (*run)(void *task, size_t i),
              void *task);
void host_make_pool(void);
void host_free_pool(void);
/* The first error of the compile. */
const char *host_error(void);
/* Machines that this one can be: with AVX2 only, and the plainest. */
extern const tc_host_options host_machines[];
extern const unsigned host_nmachines;

/* Memory that ends at a guard page (at_end) or begins after one. Freed by
 * host_close. */
void *host_memory(size_t bytes, bool at_end);
/* A row-major tensor on such memory, in turns at its end and its start. */
typedef struct host_tensor {
    int32_t sizes[5];
    int64_t strides[5];
    void *data;
    size_t count;
} host_tensor;
host_tensor host_new(size_t elem_bytes, unsigned rank, const int32_t *sizes);
tc_launch_arg host_arg(const host_tensor *t);
tc_launch_arg host_int(int64_t i);
tc_launch_arg host_float(double f);

/* Pseudo-random numbers of few bits: sums of them are exact. */
int host_small(void);

void host_control_tests(TCase *t);
void host_shape_tests(TCase *t);
void host_memory_tests(TCase *t);
void host_report_tests(TCase *t);
void host_machine_tests(TCase *t);

#endif
