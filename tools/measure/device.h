/* SPDX-License-Identifier: Apache-2.0
 *
 * The command's tensors where a kernel needs them: on the CPU unchanged, for a
 * GPU target copied to the GPU, and the kernel's outputs back.
 */
#ifndef TOOL_DEVICE_H
#define TOOL_DEVICE_H

#include "tools/common/commands.h"

enum { DEVICE_MOST_TENSORS = 80 };

typedef struct device_tensors {
    tilec_device *device; /* NULL: the CPU */
    size_t n;
    struct {
        const DLTensor *host;
        DLTensor *copy;
        bool written;
    } list[DEVICE_MOST_TENSORS];
    DLTensor *workspace; /* on the device; NULL: none */
    void *memory;        /* on the host: likewise */
} device_tensors;

/* All return exit codes, and have said what is wrong. */
int device_open(device_tensors *d, const tilec_context *cx,
                const tilec_kernel *kernel);
/* From here on *tensor is the one to launch with. */
int device_put(device_tensors *d, const DLTensor **tensor, bool written);
/* Memory of that size where the kernel runs, aligned as a workspace must be;
 * until device_close. NULL where bytes is 0. */
int device_workspace(device_tensors *d, uint64_t bytes, void **out);
/* Waits for the kernel, and reads back what it wrote into the tensors that were
 * put. */
int device_wait(const tilec_kernel *kernel);
int device_get(const device_tensors *d);
void device_close(device_tensors *d);

#endif
