/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiled kernel, as compile.c and link.c make it and run.c runs it.
 */
#ifndef TC_HOST_COMPILE_H
#define TC_HOST_COMPILE_H

#include "codegen/host/runtime/runtime.h"

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
    void *object;   /* ELF, malloc'd; NULL once it is linked */
    size_t object_size;
    void *linked; /* what linked code lies in, and what gives it back: */
    void (*unlink)(tc_host_kernel *k);
    size_t linked_size;
    tc_host_fn *fn;
    uint64_t scratch_bytes;
    bool ordered; /* programs may follow those before them */
    unsigned nsites;
    tc_site *sites;
    unsigned nargs, nwords;
    tc_host_arg *args;
};

/* Once a process, before all that LLVM does. */
void tc_host_start_llvm(void);

/* kernel.c */
tc_host_arg tc_host_arg_of(const tc_type *t);
/* Of the arguments of its code, which are known. */
void tc_host_count_words(tc_host_kernel *k);

/* tc_host_compile in two steps, so that what is between them can be kept: code
 * that is not linked yet (sites, args and object are there), and the link. */
tc_host_kernel *tc_host_generate(tc_func *kernel,
                                 const tc_host_options *options);
/* False: `why` says why; tc_host_free is all that can be done. */
enum { TC_HOST_WHY = 512 };
bool tc_host_link(tc_host_kernel *k, char *why, size_t room) TC_MUST_CHECK;

/* The machine that this runs on, as LLVM calls it. */
typedef struct tc_host_machine {
    const char *triple, *cpu, *features;
} tc_host_machine;
tc_host_machine tc_host_this_machine(tc_arena *a);

#endif
