/* SPDX-License-Identifier: Apache-2.0
 *
 * A result against a reference.
 *
 * Tolerances (relative error ||got - ref|| / ||ref|| over the tensor, by the
 * type of the result): f32 2e-6, f16 1e-3, bf16 3e-3, f64 1e-12, fp8 0.1. With
 * `absolute` the largest difference instead: 2e-5 (the logsumexp).
 */
#ifndef TOOL_COMPARE_H
#define TOOL_COMPARE_H

#include "lib/tilec.h"

#include <stdbool.h>

#define TOLERANCE_ABSOLUTE 2e-5
/* Where q, k or v were rounded to 8 bits and the reference is of what they were
 * before. A logsumexp is off by as much as a score, which has some steps of
 * 1/16 of its summands. */
#define TOLERANCE_NARROW          0.1
#define TOLERANCE_NARROW_ABSOLUTE 1.5
/* Element i of a row-major tensor. */
double tensor_element(const DLTensor *t, int64_t i);

/* The relative one; 0 of ints. */
double tolerance_of(DLDataType dtype);

typedef struct difference {
    double relative, largest;
    int64_t where;    /* of the largest */
    int64_t strange;  /* infinities and NaNs that do not agree */
    int64_t compared; /* elements */
} difference;
/* Of row-major tensors of one shape. before: what stood in `ref` at first; an
 * element that still does is not compared. NULL: all are. */
difference measure(const DLTensor *got, const DLTensor *ref,
                   const DLTensor *before);

/* Prints a line (a JSON object with `json`); false: beyond `most` (0: the
 * tolerance), or the shapes differ (said on stderr). Infinities and NaNs must
 * agree. */
bool compare(const char *name, const DLTensor *got, const char *ref_name,
             const DLTensor *ref, double most, bool absolute, bool json);

#endif
