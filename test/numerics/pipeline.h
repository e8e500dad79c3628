/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels through a pipeline of one's choice, then run on the host: for tests
 * that compare what passes do with what the program says.
 */
#ifndef TEST_PIPELINE_H
#define TEST_PIPELINE_H

#include "codegen/host/host.h"
#include "passes/passes.h"
#include "test/numerics/number.h"

typedef struct pipeline_setting {
    const char *text, *kernel, *pipeline;
    tc_binding bindings[8];
    unsigned nbindings;
    bool print; /* remarks */
} pipeline_setting;

void pipeline_bind(pipeline_setting *s, const char *name, const char *value);
/* Compiles and launches; the arguments' memory receives the results. Where
 * `capture` is given it says what parameter `name` of the kernel is, after the
 * first nargs. False: it says why. */
bool pipeline_run(const pipeline_setting *s, const tc_launch_arg *args,
                  unsigned nargs,
                  bool (*capture)(void *user, const char *name, bool is_tensor,
                                  tc_launch_arg *arg),
                  void *user);
tc_launch_arg pipeline_tensor(const num_tensor *t);
/* A text file; the program ends where there is none. To be freed. */
char *pipeline_file(const char *path);

#endif
