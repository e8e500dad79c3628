/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA GPUs: machine-level IR to PTX through LLVM.
 *
 * ABI of a kernel (version 2). Parameters in the order of the kernel's own,
 * each flattened: a tensor is its data pointer (64 bits), its sizes (rank x
 * i32), its strides in elements (rank x i64); a pointer 64 bits; a scalar
 * itself (i1 and i8 as 8 bits, f16 and bf16 as 16). Launched with `threads`
 * threads along x, shared_bytes of dynamic shared memory, and the grid that the
 * kernel's grid region gives. After the kernel's own parameters follow
 *
 *   nmaps tensor maps, 128 bytes each at multiples of 64, made of maps[i]
 *   counts_tiles: a pointer to two u32 in device memory, zero before the launch
 *     and after it; launches that may overlap in time need two of them each
 *   has_reports: a pointer to a tc_device_report in memory the device can
 *     write, zeroed before
 *   profile.records: a pointer to the rings of marks (tc_profile_shape)
 */
#ifndef TC_NVPTX_H
#define TC_NVPTX_H

#include "ir/ir.h"
#include "passes/instructions/tma.h"
#include "passes/target/target.h"

enum { TC_NVPTX_ABI = 2 };

/* A tensor map that the host makes: of argument `arg` of the kernel, a tensor,
 * in boxes; the map's dims are ordered by their strides (tc_dim_by_stride).
 * Elements outside are filled with zeros. */
typedef struct tc_tensor_map {
    unsigned arg;
    tc_kind elem;
    unsigned rank;       /* of the tensor, 1 to 5 */
    unsigned contiguous; /* its dim with stride 1 */
    uint32_t box[5];     /* elements, in the order of the tensor's dims */
    unsigned swizzle;    /* bytes: 0, 32, 64 or 128 */
    /* Rows taken apart (passes/instructions/tma.h): the map's dims are the
     * contiguous one, along which all but dim `apart` are counted, and the
     * parts. */
    unsigned apart, nparts;
    tc_row_part parts[TC_MAX_ROW_PARTS];
} tc_tensor_map;
enum { TC_MAX_TENSOR_MAPS = 16 };

/* Where `mark` writes. Of each of the first TC_PROFILE_PROGRAMS programs each
 * writer, a warp group or a role, has a ring of `records` tc_profile_record, a
 * power of two; after all rings follow as many tc_profile_head. Program p,
 * writer w have number p * writers + w. Memory is aligned to a ring's bytes and
 * zero before the launch. The consumer's warp groups are the first writers,
 * then come the producer and the transposer. */
enum { TC_PROFILE_PROGRAMS = 512 };
typedef struct tc_profile_record {
    uint32_t clock, mark; /* the mark's number; 0: not written */
} tc_profile_record;
typedef struct tc_profile_head {
    uint64_t begin_ns;    /* of the device's timer */
    uint32_t begin_clock; /* of the multiprocessor, low half */
    uint32_t sm;          /* with TC_PROFILE_BEGUN */
    uint64_t end_ns;
    uint32_t end_clock;
    uint32_t next; /* bytes from the ring's begin, with TC_PROFILE_ENDED */
} tc_profile_head;
#define TC_PROFILE_BEGUN 0x80000000u
#define TC_PROFILE_ENDED 1u
typedef struct tc_profile_shape {
    unsigned records, writers; /* records 0: no marks */
} tc_profile_shape;

typedef struct tc_nvptx_code {
    char *ptx; /* malloc'd, NUL-terminated */
    size_t ptx_len;
    const char *entry;     /* name of the kernel in the PTX; interned */
    unsigned warps;        /* of tiles */
    unsigned threads;      /* of a block: 32 * warps, and a producer's 128 */
    unsigned shared_bytes; /* dynamic */
    unsigned nmaps;
    tc_tensor_map maps[TC_MAX_TENSOR_MAPS];
    bool counts_tiles;
    unsigned ptxas_level; /* of the assembler, 1 to 3; 0: its own */
    bool has_reports;
    tc_profile_shape profile;
    bool starts_early; /* launched with programmatic serialization */
} tc_nvptx_code;

/* The record that a kernel's failed `assert` leaves: the first failure wins. */
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
/* One module of PTX, malloc'd, of the kernels of a plan: of what tc_nvptx_llvm
 * gives of each ("llvm-opt"). plan: the place of errors. NULL: reported. */
char *tc_nvptx_link(tc_context *cx, const tc_func *plan,
                    const tc_target *target, const char *const *texts,
                    unsigned n);

#endif
