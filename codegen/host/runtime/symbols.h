/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that code for the CPU may call, by name.
 */
#ifndef TC_HOST_SYMBOLS_H
#define TC_HOST_SYMBOLS_H

#include "codegen/llvm/libm.h"

/* The kernel's run time, and what LLVM may call on its own account; those of
 * tc_host_libm are not in it. */
extern const tc_host_symbol tc_host_runtime_symbols[];

/* Of either list; NULL: there is none of that name. */
void *tc_host_symbol_find(const char *name);

#endif
