/* SPDX-License-Identifier: Apache-2.0
 *
 * The same on a GPU: tensors in its memory, launches in a stream. Here tilec
 * allocates and copies; a framework has tensors of its own (DLPack, kDLCUDA)
 * and hands over its stream.
 *
 *     cc gpu.c $(pkg-config --cflags --libs tilec) -o gpu && ./gpu
 */
#include <stdio.h>
#include <stdlib.h>
#include <tilec.h>

enum { HEADS = 8, KEY_HEADS = 2, LENGTH = 1000, DIM = 64 };
enum { COUNT = HEADS * LENGTH * DIM };

static tilec_error error;
static float data[COUNT];

/* A tensor [1, heads, LENGTH, DIM] on the device; `data` stays its copy here.
 */
static DLTensor *make(const tilec_device *device, int64_t heads)
{
    int64_t shape[4] = {1, heads, LENGTH, DIM};
    DLTensor host = {.data = data,
                     .device = {kDLCPU, 0},
                     .ndim = 4,
                     .dtype = {kDLFloat, 32, 1},
                     .shape = shape};
    DLTensor *there = NULL;
    for (int64_t i = 0; i < COUNT; i++)
        data[i] = (float)((i * 7919 + heads) % 101) / 50.0f - 1.0f;
    tilec_device_copy(device, &host, &there, &error);
    return there;
}

static int read_back(const tilec_device *device, const DLTensor *from)
{
    DLTensor host = *from;
    host.data = data;
    host.device = (DLDevice){kDLCPU, 0};
    return tilec_device_read(device, from, &host, &error) == TILEC_OK;
}

/* Any number of launches, of any lengths: none waits, allocates or compiles.
 */
static int run(const tilec_attention *plan, const DLTensor *q,
               const DLTensor *k, const DLTensor *v, const DLTensor *o)
{
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    tilec_launch_options launch = TILEC_INIT(tilec_launch_options);
    t.q = q;
    t.k = k;
    t.v = v;
    t.o = o;
    launch.stream = NULL; /* a CUstream, such as PyTorch's current one */
    for (int step = 0; step < 3; step++)
        if (tilec_attention_forward(plan, &t, &launch, &error) != TILEC_OK)
            return 0;
    return tilec_kernel_synchronize(tilec_attention_kernel(plan), NULL,
                                    &error) == TILEC_OK;
}

/* For the device of the current CUDA context, or the first one. */
static tilec_attention *make_plan(const DLTensor *q, const DLTensor *k)
{
    tilec_context *cx = NULL;
    tilec_attention *plan = NULL;
    tilec_attention_options options = TILEC_INIT(tilec_attention_options);
    options.mask = "causal & sliding_window(w=256)";
    if (tilec_context_new(NULL, &cx) == TILEC_OK &&
        tilec_attention_plan(cx, q, k, k, &options, &plan) != TILEC_OK)
        fprintf(stderr, "%s\n", tilec_diagnostics(cx)->message);
    tilec_context_free(cx); /* the plan keeps all that it needs */
    return plan;
}

int main(void)
{
    tilec_device *device = NULL;
    if (tilec_device_open(NULL, -1, &device, &error) != TILEC_OK) {
        fprintf(stderr, "no GPU: %s\n", error.message);
        return 3;
    }
    DLTensor *q = make(device, HEADS), *k = make(device, KEY_HEADS),
             *v = make(device, KEY_HEADS), *o = make(device, HEADS);
    tilec_attention *plan = q && k && v && o ? make_plan(q, k) : NULL;
    int ok = plan && run(plan, q, k, v, o) && read_back(device, o);
    if (ok)
        printf("%s: the last element is %.4f\n", tilec_device_name(device),
               (double)data[COUNT - 1]);
    else
        fprintf(stderr, "gpu: %s\n", error.message);
    tilec_attention_free(plan);
    tilec_device_drop(device, q);
    tilec_device_drop(device, k);
    tilec_device_drop(device, v);
    tilec_device_drop(device, o);
    tilec_device_free(device);
    return ok ? 0 : 1;
}
