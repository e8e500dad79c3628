/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiled kernel, as compile.c makes it and run.c runs it.
 */
#ifndef TC_HOST_COMPILE_H
#define TC_HOST_COMPILE_H

#include "codegen/host/runtime.h"

/* One program of the grid (see emit.c). */
typedef void tc_host_fn(const int64_t *args, void *scratch, int32_t x,
                        int32_t y, int32_t z, int32_t nx, int32_t ny,
                        int32_t nz, tc_run_thread *thread);

typedef struct tc_host_arg {
    tc_kind kind;
    unsigned rank; /* of a tensor */
} tc_host_arg;

struct tc_host_kernel {
    tc_arena arena; /* of sites and args */
    struct LLVMOrcOpaqueLLJIT *jit;
    tc_host_fn *fn;
    uint64_t scratch_bytes;
    bool ordered; /* programs may follow those before them */
    tc_site *sites;
    unsigned nargs, nwords;
    tc_host_arg *args;
};

#endif
