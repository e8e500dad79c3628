/* SPDX-License-Identifier: Apache-2.0
 *
 * CPUs that code may be made for other than the one that it is made on.
 */
#ifndef TC_HOST_CPUS_H
#define TC_HOST_CPUS_H

#include <stdbool.h>

/* From the least on, each with all that those before it have. */
typedef struct tc_host_cpu {
    const char *name;     /* as LLVM and the psABI have it: "x86-64-v3" */
    const char *features; /* as LLVM has them: "+avx,+avx2,..." */
} tc_host_cpu;

/* NULL: unknown. */
const tc_host_cpu *tc_host_cpu_get(const char *name);
/* Its index, if this machine has all its features; else, and if it is unknown,
 * -1. */
int tc_host_cpu_rank(const char *name);

#endif
