/* SPDX-License-Identifier: Apache-2.0
 *
 * What swap-operands decides by: the time of a product as it stands and with
 * its operands exchanged.
 */
#ifndef TC_SWAP_OPERANDS_H
#define TC_SWAP_OPERANDS_H

#include "passes/passes.h"

typedef struct tc_product_time {
    const char *instr; /* that it would get: m64k16, m16n8k16, fma, .. */
    int64_t cycles;    /* of a step */
} tc_product_time;

/* warps: that the kernel asks for, 0: none. */
tc_product_time tc_product_time_of(const tc_pass_env *env, unsigned warps,
                                   const tc_op *dot, bool swapped);

#endif
