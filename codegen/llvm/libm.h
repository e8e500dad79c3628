/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of the C library that generated code may call (math.h says
 * where). Nothing here needs LLVM.
 */
#ifndef TC_LLVM_LIBM_H
#define TC_LLVM_LIBM_H

/* NULL name ends a list. */
typedef struct tc_host_symbol {
    const char *name;
    void *address;
} tc_host_symbol;
extern const tc_host_symbol tc_host_libm[];

#endif
