/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of a launch, of kernels and of plans.
 */
#ifndef TC_LAUNCH_H
#define TC_LAUNCH_H

#include "lib/handles.h"

/* The prepared argument for one parameter. */
typedef struct tc_slot {
    const tilec_argument *given; /* NULL: missing, where that is allowed */
    int32_t sizes[TC_MAX_RANK];
    int64_t strides[TC_MAX_RANK];
} tc_slot;

/* Sorts the arguments by parameter and checks them; slots and args are one a
 * parameter. partial: some may be missing, and it is all the same where the
 * data are. *device: of the tensors on GPUs; -1 where none says. */
tilec_status tc_arguments_check(const tilec_kernel *k,
                                const tilec_argument *args, size_t nargs,
                                bool partial, tc_slot *slots,
                                tc_launch_arg *out, int *device,
                                tilec_error *error);
/* Where it went wrong. */
void tc_error_place(tilec_error *error, const tilec_kernel *k, tc_loc loc);

#endif
