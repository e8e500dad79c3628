/* SPDX-License-Identifier: Apache-2.0
 *
 * A context, a small kernel, its tensors; a compile that must succeed or fail.
 */
#ifndef TEST_API_FIXTURE_H
#define TEST_API_FIXTURE_H

#include "lib/handles.h"
#include <check.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

extern const char scale_text[];
extern tilec_context *cx;
void api_make_context(void);
void api_free_context(void);
tilec_status api_compile_text(tilec_context *c, const char *text,
                              const char *const *bindings, size_t n,
                              tilec_kernel **out);
tilec_kernel *api_scale_kernel(tilec_context *c);

typedef struct matrix {
    DLTensor dl;
    int64_t shape[2];
    float data[64 * 8];
} matrix;
void api_fill(matrix *m, int64_t rows, float value);
void api_compiling_tests(TCase *t);
void api_launching_tests(TCase *t);
void api_limits_tests(TCase *t);
void api_sizes_tests(TCase *t);
void api_workers_tests(TCase *t);
void api_kept_tests(TCase *t);

#endif
