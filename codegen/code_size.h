/* SPDX-License-Identifier: Apache-2.0
 *
 * A bound on the code of a kernel: LLVM's passes and its code generator take
 * time and memory by the instruction, and a tile of a GPU kernel has one for
 * each of a thread's registers.
 *
 * Before emission the ops are weighed, and during emission the instructions are
 * counted now and then; more than TC_MOST_INSTRUCTIONS (ir/base/limits.h) are
 * an error, at the line that has most of them.
 */
#ifndef TC_CODE_SIZE_H
#define TC_CODE_SIZE_H

#include "ir/growth.h"

#include <llvm-c/Core.h>

typedef struct tc_code_size {
    const tc_func *kernel;
    LLVMModuleRef module;
    tc_weigh_fn *weigh; /* a lower bound of the op's instructions; NULL: 1 an
                         * op */
    const char *remedy;
    uint64_t since; /* weights since the last count */
} tc_code_size;

/* False, reported: the weights alone are more than there may be. */
bool tc_code_size_expect(const tc_code_size *s,
                         tc_arena *scratch) TC_MUST_CHECK;
/* Code was made of op. False, reported: it has become too much. */
bool tc_code_size_take(tc_code_size *s, const tc_op *op,
                       tc_arena *scratch) TC_MUST_CHECK;

#endif
