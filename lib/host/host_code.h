/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel's code for the CPU, cached like code for GPUs (code.h). Besides the
 * sections that all code has:
 *
 *   meta    {"scratch": 4096, "ordered": 0,
 *            "args": [[kind, rank], ...],
 *            "sites": [["a.tile", 7, 3, "message %lld", [kind, rank, side..],
 *                       ...], ...]}
 *   object  ELF for the CPU of the recipe, as LLVM's assembler makes it
 *
 * Kinds are numbers of tc_kind: the recipe has the build.
 */
#ifndef TC_HOST_CODE_H
#define TC_HOST_CODE_H

#include "codegen/host/jit/compile.h"
#include "lib/cache/code.h"
#include "lib/cache/code_meta.h"

/* Linked, ready to be launched from any kernel made of it. */
typedef struct tc_host_code {
    tc_code code; /* the first */
    tc_host_kernel *kernel;
    unsigned nfiles; /* of the places in reports: tc_loc.file is one more than
                      * the index */
    const char **files;
} tc_host_code;

/* After the passes: of a kernel whose body is gone thereafter, and its code,
 * not linked. tile: its module's text. False: out of memory. */
bool tc_host_encode(tc_func *f, const tc_host_kernel *code,
                    const tc_recipe *recipe, const char *tile,
                    tc_entry *out) TC_MUST_CHECK;
/* Links a kernel's code, which is among the sections. False: `why` says why. */
typedef bool tc_host_linker(tc_host_kernel *k, const tc_entry *entry, char *why,
                            size_t room);
/* Takes the entry; one reference. NULL: it is no code, or cannot be linked:
 * `why` says why. */
tc_host_code *tc_host_decode(tc_entry *entry, tc_host_linker *link, char *why,
                             size_t room);

/* Does the code take the kernel's parameters? */
bool tc_host_fits(const tc_host_code *c, const tilec_kernel *k);

/* The CPU target's way through tc_job_finish. */
bool tc_host_finish(tc_job *job, const tilec_compile_options *options,
                    const tc_target *target, tc_func *f,
                    const tc_bound *bound) TC_MUST_CHECK;

#endif
