/* SPDX-License-Identifier: Apache-2.0
 *
 * The rings that the marks of a profiled kernel write (codegen/nvptx/nvptx.h).
 */
#ifndef TC_GPU_PROFILE_H
#define TC_GPU_PROFILE_H

#include "lib/gpu/gpu.h"

/* Bytes of one ring; of all rings and heads. */
size_t tc_profile_ring_bytes(const tc_profile_shape *s);
size_t tc_profile_bytes(const tc_profile_shape *s);

/* Zeroed memory for them on the current context's device. A code of the
 * driver. */
int tc_gpu_profile_new(tc_gpu_loaded *l, const tc_profile_shape *s);

/* What the launches of a kernel left. The texts and data are malloc'd. */
typedef struct tc_gpu_profile {
    tc_profile_shape shape;
    char *marks; /* the table of lib/program/marks.h */
    void *data;  /* tc_profile_bytes */
} tc_gpu_profile;
void tc_gpu_profile_free(tc_gpu_profile *p);

/* Of a kernel that was compiled with profile(..) and launched: reads the rings
 * after all work in the stream, or zeroes them. */
tilec_status tc_gpu_profile_read(const tilec_kernel *k, void *stream,
                                 tc_gpu_profile *out, tilec_error *error);
tilec_status tc_gpu_profile_clear(const tilec_kernel *k, void *stream,
                                  tilec_error *error);

#endif
