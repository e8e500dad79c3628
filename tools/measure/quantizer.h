/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors to numbers of 8 bits and their factors, by kernels/quantize.tile.
 */
#ifndef TOOL_QUANTIZER_H
#define TOOL_QUANTIZER_H

#include "tools/common/commands.h"

/* How numbers are rounded: options that commands share. */
typedef struct quantizer {
    tilec_context *cx;
    const char *target; /* as --target */
    DLDataType type;    /* of the numbers */
    int rows;           /* that share a factor; 0: all of a head */
    bool rotates;       /* q and k first, by as many columns as divide D */
} quantizer;

#define QUANTIZE_ROWS_HELP                                                     \
    "rows that share a factor: 16, 32, 64 or 128\n"                            \
    "(default: all of a head)"
#define QUANTIZE_ROTATE_HELP                                                   \
    "rotate q and k first, by a Hadamard matrix:\n"                            \
    "spreads outliers of single columns"

typedef struct quantized {
    owned_tensor numbers, scales;
    int64_t strides[4]; /* of numbers by columns */
} quantized;

/* Exit codes; what is wrong was said. Of a type's name; rows, --rotate. */
int quantizer_read(const tool_args *args, const char *type, quantizer *out);
/* `what`: q, k or v, of four dims; v lies by columns if so wished. */
int quantize(const quantizer *z, char what, const DLTensor *x, bool by_columns,
             quantized *out);
void quantized_free(quantized *z);

/* Is it of 8 bits? */
bool is_narrow(DLDataType type);

#endif
