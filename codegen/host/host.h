/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU target: a kernel becomes one LLVM function that runs one program of
 * the grid; the launch runs it for all of them, on all cores.
 *
 * See README.md for how a kernel is compiled. Compiling needs the kernel's
 * context (one thread at a time); a compiled kernel is read-only, depends on
 * nothing but itself, and may be launched from any number of threads at once.
 */
#ifndef TC_HOST_H
#define TC_HOST_H

#include "ir/eval/eval.h"
#include "ir/ir.h"

typedef struct tc_host_kernel tc_host_kernel;

/* NULL options, or zero fields: the machine that this runs on. */
typedef struct tc_host_options {
    const char *cpu;       /* as LLVM calls it: "x86-64-v3" */
    const char *features;  /* "+avx512f,-fma"; only with cpu */
    uint64_t scratch_most; /* bytes of scratch a thread; 0: 1 GiB */
} tc_host_options;

/* Compiles a specialized kernel: verified, no calls, no names in types. The
 * kernel's IR is only read (but for the `data` fields). NULL: reported to the
 * context's diagnostics. */
tc_host_kernel *tc_host_compile(tc_func *kernel,
                                const tc_host_options *options);
/* Accepts NULL. No launch may be in flight. */
void tc_host_free(tc_host_kernel *k);

/* The reason why a launch stopped. */
typedef struct tc_host_report {
    bool failed;
    bool out_of_memory; /* the machine's fault, not the program's */
    tc_loc loc;         /* of the op; line 0: of none */
    int32_t program[3];
    char message[256];
} tc_host_report;

/* Calls run(task, i) for i below count, in any order and any threads, at the
 * same time or not, and returns when all calls have returned. Calls that it
 * leaves out are no failure. */
typedef void tc_host_parallel_for(void *user, size_t count,
                                  void (*run)(void *task, size_t i),
                                  void *task);

typedef struct tc_host_launch_options {
    unsigned threads; /* at most so many; 0: one a core */
    /* Runs the parts of a launch, such as tc_host_pool_run; not called for a
     * launch of one program or thread. NULL: the calling thread alone. */
    tc_host_parallel_for *parallel_for;
    void *parallel_user;
    /* A line of the kernel's `print` (without its end), from any thread, never
     * from two at once. NULL: dropped. */
    void (*print)(void *user, const char *line);
    /* Now and then, from one thread at a time: the calling one, where
     * parallel_for is the pool's. NULL: not wanted. */
    void (*progress)(void *user, int64_t done, int64_t total);
    void *user;
    uint64_t every; /* run only each such program, counted from the last one;
                     * 0: all */
} tc_host_launch_options;

/* Runs the kernel over the grid and returns when it is done. args: one for
 * each argument of the kernel. NULL options: the defaults. False: *report says
 * why; other programs may have run or not. */
bool tc_host_launch(const tc_host_kernel *k, const tc_launch_arg *args,
                    const int32_t grid[3],
                    const tc_host_launch_options *options,
                    tc_host_report *report) TC_MUST_CHECK;

/* The threads of a launch with those options (NULL: the defaults), if there
 * are programs enough: what num_sms is in a grid on the CPU. */
unsigned tc_host_threads(const tc_host_launch_options *options);

/* Bytes of scratch that each thread of a launch needs. */
uint64_t tc_host_scratch_bytes(const tc_host_kernel *k);

/* The code as text, for malloc's free: "llvm" (as given to LLVM, before its
 * passes), "llvm-opt" (after them) or "asm". NULL: reported. */
char *tc_host_emit(tc_func *kernel, const char *what,
                   const tc_host_options *options);

#endif
