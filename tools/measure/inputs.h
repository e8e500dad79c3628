/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of a kernel on the command line:
 *
 *   NAME=FILE.safetensors[:TENSOR]  a tensor of a file
 *   NAME=zeros:8x128xf32            a new tensor of zeros
 *   NAME=random:8x128xf32           of random numbers, the same ones each time
 *   NAME=random:8x128xf32:order(1,0)
 *                                   the same numbers, dim 0 the closest in
 *                                   memory
 *   NAME=[0,300,800]                an i32 tensor; [0,1,1]xi8: of another type
 *   NAME=like:OTHER                 zeros in the shape and type of another
 *   NAME=3.5                        a number, true or false
 */
#ifndef TOOL_INPUTS_H
#define TOOL_INPUTS_H

#include "tools/common/commands.h"

#define INPUTS_HELP                                                            \
    "  NAME=FILE.safetensors[:TENSOR]  a tensor of a file (default: of that "  \
    "name)\n"                                                                  \
    "  NAME=zeros:8x128xf32            a new tensor of zeros\n"                \
    "  NAME=random:8x128xf32           of random numbers (floats: nearly "     \
    "normal; ints: 0 to 15)\n"                                                 \
    "  NAME=random:8x128xf32:order(1,0)  the same numbers, with dim 0 the "    \
    "closest in memory\n"                                                      \
    "  NAME=[0,300,800]                an i32 tensor; [0,1,1]xi8: of another " \
    "type\n"                                                                   \
    "  NAME=like:OTHER                 zeros in the shape and type of "        \
    "another\n"                                                                \
    "  NAME=3.5                        a number, true or false\n"

enum { INPUTS_MOST = 64 };

typedef struct input {
    char name[64];
    tilec_safetensors *file; /* of name=FILE */
    DLTensor view;
    owned_tensor own;   /* data NULL: none */
    int64_t strides[8]; /* of own, where an order was given */
    bool is_blank;      /* zeros: what a kernel leaves there is its own */
} input;

typedef struct inputs {
    const tool_command *command;
    uint64_t seed; /* of what is random */
    size_t n;
    input list[INPUTS_MOST];
    tilec_argument arguments[INPUTS_MOST];
} inputs;

/* Exit codes; what is wrong was said. */
int inputs_add(inputs *in, const char *word);
int inputs_add_tensor(inputs *in, const char *name, DLDataType dtype, int ndim,
                      const int64_t *shape, bool is_random);
/* Tensors that the kernel writes must be row-major. */
int inputs_want_rows(const inputs *in, const tilec_kernel *kernel);
/* Tensors that the kernel writes must not be the read-only mapping of a
 * file. */
int inputs_copy_written(inputs *in, const tilec_kernel *kernel);
/* NULL: there is no such tensor. */
const DLTensor *inputs_find(const inputs *in, const char *name);
void inputs_free(inputs *in);

/* Does the kernel store through the parameter of that name? */
bool kernel_writes(const tilec_kernel *kernel, const char *name);
/* "bf16"; false: there is no such type. */
bool dtype_read(const char *text, DLDataType *out);

#endif
