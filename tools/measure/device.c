/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/measure/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int device_open(device_tensors *d, const tilec_context *cx,
                const tilec_kernel *kernel)
{
    tilec_error e = TILEC_INIT(tilec_error);
    if (strcmp(tilec_kernel_target(kernel), "cpu") == 0)
        return EXIT_DONE;
    return tilec_device_open(cx, -1, &d->device, &e) ? report_error(&e)
                                                     : EXIT_DONE;
}

int device_put(device_tensors *d, const DLTensor **tensor, bool written)
{
    tilec_error e = TILEC_INIT(tilec_error);
    if (!d->device)
        return EXIT_DONE;
    if (d->n == DEVICE_MOST_TENSORS) {
        report("more than %d tensors", DEVICE_MOST_TENSORS);
        return EXIT_USAGE;
    }
    DLTensor *copy;
    if (tilec_device_copy(d->device, *tensor, &copy, &e))
        return report_error(&e);
    d->list[d->n].host = *tensor;
    d->list[d->n].copy = copy;
    d->list[d->n++].written = written;
    *tensor = copy;
    return EXIT_DONE;
}

int device_workspace(device_tensors *d, uint64_t bytes, void **out)
{
    enum { ALIGN = 256 };
    int64_t shape = (int64_t)bytes;
    DLTensor like = {.ndim = 1, .dtype = {kDLInt, 8, 1}, .shape = &shape};
    tilec_error e = TILEC_INIT(tilec_error);
    *out = NULL;
    if (bytes == 0)
        return EXIT_DONE;
    if (d->device) {
        if (tilec_device_copy(d->device, &like, &d->workspace, &e))
            return report_error(&e);
        *out = d->workspace->data;
        return EXIT_DONE;
    }
    *out = d->memory =
        aligned_alloc(ALIGN, (size_t)(bytes + ALIGN - 1) / ALIGN * ALIGN);
    if (!*out)
        report("no memory for the workspace, %llu "
               "bytes",
               (unsigned long long)bytes);
    return *out ? EXIT_DONE : EXIT_MACHINE;
}

int device_wait(const tilec_kernel *kernel)
{
    tilec_error e = TILEC_INIT(tilec_error);
    return tilec_kernel_synchronize(kernel, NULL, &e) ? report_error(&e)
                                                      : EXIT_DONE;
}

int device_get(const device_tensors *d)
{
    tilec_error e = TILEC_INIT(tilec_error);
    for (size_t i = 0; i < d->n; i++)
        if (d->list[i].written &&
            tilec_device_read(d->device, d->list[i].copy, d->list[i].host, &e))
            return report_error(&e);
    return EXIT_DONE;
}

void device_close(device_tensors *d)
{
    for (size_t i = 0; i < d->n; i++)
        tilec_device_drop(d->device, d->list[i].copy);
    tilec_device_drop(d->device, d->workspace);
    free(d->memory);
    tilec_device_free(d->device);
    *d = (device_tensors){0};
}
