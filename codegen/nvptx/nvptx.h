/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA GPUs: machine-level IR to PTX through LLVM.
 *
 * ABI of a kernel (version 1). Parameters in the order of the kernel's own,
 * each flattened: a tensor is its data pointer (64 bits), its sizes (rank x
 * i32), its strides in elements (rank x i64); a pointer 64 bits; a scalar
 * itself (i1 and i8 as 8 bits, f16 and bf16 as 16). Launched with
 * 32 * warps threads along x, shared_bytes of dynamic shared memory, and the
 * grid that the kernel's grid region gives.
 *
 * A kernel that can report (has_reports) takes one more parameter, a pointer
 * to a tc_device_report in memory the device can write, zeroed before.
 */
#ifndef TC_NVPTX_H
#define TC_NVPTX_H

#include "ir/ir.h"
#include "passes/target.h"

enum { TC_NVPTX_ABI = 1 };

typedef struct tc_nvptx_code {
    char *ptx; /* malloc'd, NUL-terminated */
    size_t ptx_len;
    const char *entry; /* name of the kernel in the PTX; interned */
    unsigned warps;
    unsigned shared_bytes; /* dynamic */
    unsigned ptxas_level;  /* of the assembler, 1 to 3; 0: its own */
    bool has_reports;
} tc_nvptx_code;

/* What a kernel's failed `assert` leaves: the first one wins. */
typedef struct tc_device_report {
    uint32_t set; /* 1 + index into the kernel's asserts, in order of
                   * the program's text */
    int32_t program[3];
} tc_device_report;

/* The one kernel of a module at machine level (after a GPU pipeline). False:
 * reported; nothing to free. */
bool tc_nvptx_compile(tc_module *m, const tc_target *target,
                      tc_nvptx_code *out) TC_MUST_CHECK;
void tc_nvptx_code_free(tc_nvptx_code *code);
/* LLVM IR as it goes into LLVM's code generation ("llvm"), or after LLVM's
 * passes ("llvm-opt"); malloc'd. NULL: reported. */
char *tc_nvptx_llvm(tc_module *m, const tc_target *target, const char *what);

#endif
