/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/measure/quantizer.h"

#include "lib/handles.h"
#include "tools/measure/device.h"
#include "tools/measure/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool is_narrow(DLDataType type)
{
    return type.bits == 8 && (type.code == (uint8_t)TILEC_DL_F8E4M3 ||
                              type.code == (uint8_t)TILEC_DL_F8E5M2);
}

int quantizer_read(const tool_args *args, const char *type, quantizer *out)
{
    const char *rows = tool_value(args, "--rows");
    char *end = NULL;
    out->target = tool_value(args, "--target");
    out->rotates = tool_has(args, "--rotate");
    if (!dtype_read(type, &out->type) || !is_narrow(out->type))
        return tool_usage(args->command,
                          "the type is `%s`, expected f8e4m3 or f8e5m2", type);
    long n = rows ? strtol(rows, &end, 10) : 0;
    out->rows = (int)n;
    if (rows && (*end || (n != 16 && n != 32 && n != 64 && n != 128)))
        return tool_usage(args->command,
                          "--rows is `%s`, expected 16, 32, 64 or 128", rows);
    return EXIT_DONE;
}

/* ---- Kernels ---- */

enum { MOST_TENSORS = 4 };
enum { ROWS = 64 };           /* of a block where a head has one factor */
enum { MOST_COLUMNS = 1024 }; /* of a head; attention takes no more */

/* A kernel of quantize.tile to run, with its tensors by name; those that it
 * does not write come first. */
typedef struct step {
    const char *kernel;
    size_t n, nread;
    tilec_argument args[MOST_TENSORS];
} step;

static void give(step *s, const char *name, const DLTensor *t)
{
    s->args[s->n++] = tilec_tensor(name, t);
}

static tilec_status compile(const quantizer *z, const step *s, int hadamard,
                            tilec_kernel **kernel)
{
    char rows[16], side[16];
    snprintf(rows, sizeof rows, "%d", z->rows ? z->rows : ROWS);
    snprintf(side, sizeof side, "%d", hadamard);
    const tilec_binding bindings[] = {{"BM", rows}, {"HADAMARD", side}};
    const tilec_source source = tilec_text("quantize", NULL, 0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.kernel = s->kernel;
    o.target = z->target;
    o.bindings = bindings;
    o.nbindings = 2;
    o.examples = s->args;
    o.nexamples = s->n;
    return tilec_compile(z->cx, &source, 1, &o, kernel);
}

static int launch(const quantizer *z, step *s, const tilec_kernel *kernel)
{
    device_tensors device = {0};
    tilec_error e = TILEC_INIT(tilec_error);
    int code = device_open(&device, z->cx, kernel);
    for (size_t i = 0; !code && i < s->n; i++)
        code = device_put(&device, &s->args[i].tensor, i >= s->nread);
    if (!code && tilec_launch(kernel, s->args, s->n, NULL, &e))
        code = report_error(&e);
    code = code ? code : device_wait(kernel);
    code = code ? code : device_get(&device);
    device_close(&device);
    return code;
}

static int run_step(const quantizer *z, step *s, int hadamard)
{
    tilec_kernel *kernel;
    tilec_status status = compile(z, s, hadamard, &kernel);
    int code = status ? report_compile(z->cx, status) : launch(z, s, kernel);
    tilec_kernel_free(kernel);
    return code;
}

static int by_block(const quantizer *z, const DLTensor *x, int hadamard,
                    quantized *out)
{
    step s = {.kernel = "quantize_block", .nread = 1};
    give(&s, "x", x);
    give(&s, "y", &out->numbers.dl);
    give(&s, "scales", &out->scales.dl);
    return run_step(z, &s, hadamard);
}

static int by_head(const quantizer *z, const DLTensor *x, int hadamard,
                   owned_tensor *largest, quantized *out)
{
    step find = {.kernel = "largest_of_blocks", .nread = 1};
    give(&find, "x", x);
    give(&find, "largest", &largest->dl);
    int code = run_step(z, &find, hadamard);
    step s = {.kernel = "quantize_head", .nread = 2};
    give(&s, "x", x);
    give(&s, "largest", &largest->dl);
    give(&s, "y", &out->numbers.dl);
    give(&s, "scales", &out->scales.dl);
    return code ? code : run_step(z, &s, hadamard);
}

/* ---- Tensors ---- */

/* Whole 16 bytes to a column, for TMA copies. */
static bool new_by_columns(quantized *q, DLDataType type, const int64_t size[4])
{
    int64_t room = (size[2] + 15) / 16 * 16;
    int64_t memory[] = {size[0], size[1], size[3], room};
    if (!tensor_new(&q->numbers, type, 4, memory))
        return false;
    memcpy(q->numbers.shape, size, 4 * sizeof *size);
    q->strides[3] = room;
    q->strides[2] = 1;
    q->strides[1] = room * size[3];
    q->strides[0] = q->strides[1] * size[1];
    q->numbers.dl.strides = q->strides;
    return true;
}

static bool new_tensors(const quantizer *z, const DLTensor *x, bool by_columns,
                        owned_tensor *largest, quantized *out)
{
    const DLDataType f32 = {kDLFloat, 32, 1};
    int rows = z->rows ? z->rows : ROWS;
    int64_t of_blocks[] = {x->shape[0], x->shape[1],
                           (x->shape[2] + rows - 1) / rows};
    return (by_columns ? new_by_columns(out, z->type, x->shape)
                       : tensor_new(&out->numbers, z->type, 4, x->shape)) &&
           tensor_new(&out->scales, f32, z->rows ? 3 : 2, of_blocks) &&
           tensor_new(largest, f32, 3, of_blocks);
}

static bool is_wide(DLDataType type)
{
    return (type.code == kDLFloat || type.code == kDLBfloat) &&
           (type.bits == 16 || type.bits == 32);
}

int quantize(const quantizer *z, char what, const DLTensor *x, bool by_columns,
             quantized *out)
{
    owned_tensor largest = {0};
    int code;
    if (x->ndim != 4 || !is_wide(x->dtype)) {
        report("%c has %d dims of %s, expected [batch, heads, "
               "length, dim] of f16, bf16 or f32 to quantise",
               what, x->ndim, tc_dtype_name(x->dtype).text);
        return EXIT_INPUT;
    }
    if (x->shape[3] < 1 || x->shape[3] > MOST_COLUMNS) {
        report("dim 3 of %c is %lld, expected 1 to %d to "
               "quantise",
               what, (long long)x->shape[3], MOST_COLUMNS);
        return EXIT_INPUT;
    }
    /* The largest power of two that divides D. */
    int64_t side = z->rotates && what != 'v' ? x->shape[3] & -x->shape[3] : 0;
    if (!new_tensors(z, x, by_columns, &largest, out)) {
        report("no memory for %c in 8 bits", what);
        code = EXIT_MACHINE;
    } else if (z->rows) {
        code = by_block(z, x, (int)side, out);
    } else {
        code = by_head(z, x, (int)side, &largest, out);
    }
    free(largest.dl.data);
    return code;
}

void quantized_free(quantized *z)
{
    free(z->numbers.dl.data);
    free(z->scales.dl.data);
}
