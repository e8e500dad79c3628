/* SPDX-License-Identifier: Apache-2.0
 *
 * New rows in a cache, planned (append_compile.c), and what calls make of their
 * tensors (append.c).
 */
#ifndef TC_APPEND_H
#define TC_APPEND_H

#include "lib/handles.h"

enum { TC_APPEND_PLACES = 16, TC_APPEND_RANK = 4 };

/* The caller's tensors as arguments of the plan @append. */
typedef struct tc_append_arguments {
    DLTensor views[TC_APPEND_PLACES];
    int64_t shapes[TC_APPEND_PLACES][TC_APPEND_RANK];
    int64_t strides[TC_APPEND_PLACES][TC_APPEND_RANK];
    tilec_argument all[TC_APPEND_PLACES];
    size_t n;
} tc_append_arguments;
void tc_append_arguments_of(tc_append_arguments *a,
                            const tilec_append_tensors *t);
bool tc_append_computes_factors(const tilec_append_tensors *t);

/* The arguments of tilec_append_plan, which are no nonsense. */
typedef struct tc_append_request {
    const tilec_append_tensors *tensors;
    const tilec_append_options *options;
} tc_append_request;

/* How a bundle finds such a plan; the key is malloc'd, *out has it too. NULL:
 * out of memory. */
struct tc_bundle_request;
char *tc_append_key(tilec_context *cx, const tc_append_request *r,
                    struct tc_bundle_request *out);
/* append_compile.c: for tc_compiler. */
tilec_status tc_append_compile(tilec_context *cx, const tc_append_request *r,
                               tilec_kernel **out);

#endif
