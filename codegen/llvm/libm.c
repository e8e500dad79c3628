/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/llvm/libm.h"

#include <math.h>
#include <stddef.h>

const tc_host_symbol tc_host_libm[] = {{"sinf", (void *)sinf},
                                       {"cosf", (void *)cosf},
                                       {"sin", (void *)sin},
                                       {"cos", (void *)cos},
                                       {"exp", (void *)exp},
                                       {"exp2", (void *)exp2},
                                       {"log", (void *)log},
                                       {"log2", (void *)log2},
                                       {"tanh", (void *)tanh},
                                       {"erf", (void *)erf},
                                       {NULL, NULL}};
