/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of tensors: which elements they reach, and whether a tensor that a
 * call writes shares some with another one.
 */
#ifndef TC_OVERLAP_H
#define TC_OVERLAP_H

#include "lib/handles.h"

/* In elements, also of a tensor without strides. */
int64_t tc_view_stride(const DLTensor *t, int dim);
/* The elements before and after the first one that a tensor reaches; false:
 * none at all. */
bool tc_view_reach(const DLTensor *t, int64_t *low, int64_t *high);

/* A tensor of a call, and what messages call it. */
typedef struct tc_named_tensor {
    const char *name;
    const DLTensor *tensor; /* NULL: there is none */
} tc_named_tensor;

/* Refuses a `written` whose elements are not all apart, or that surely shares
 * some with one of n others. Views that lie between each other's rows do not;
 * nor does it matter if it is the same view as `in_place` (or NULL). Tensors of
 * another rank than their strides are for others to refuse. */
tilec_status tc_check_written(const tc_named_tensor *written,
                              const tc_named_tensor *others, int n,
                              const DLTensor *in_place, tilec_error *error);

#endif
