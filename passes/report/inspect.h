/* SPDX-License-Identifier: Apache-2.0
 *
 * What became of a kernel's loads and products, for tuning.
 */
#ifndef TC_INSPECT_H
#define TC_INSPECT_H

#include "passes/layout/assign_shared.h"

typedef enum tc_copying {
    TC_COPIED_BY_THREADS, /* through registers: the loading threads wait */
    TC_COPIED_ASYNC,      /* cp.async */
    TC_COPIED_BY_TMA      /* TMA */
} tc_copying;

enum { TC_MOST_INSPECTED = 8 };
typedef struct tc_load_info tc_load_info;
struct tc_load_info {
    const tc_op *op;
    bool hot;            /* in the hot loop */
    const tc_type *tile; /* its sides and elements, maybe of a buffer */
    unsigned contiguous; /* bytes next to each other in memory, as far as known
                          */
    unsigned width;      /* bytes that an access moves; of a TMA copy, that it
                          * moves of a row */
    tc_copying copying;
    const char *why;    /* why the access is no wider; NULL: it is the best */
    const tc_op *alloc; /* of its buffer; NULL: it has none */
    const tc_op *moved; /* of the buffer that smem_copy moves it to; or NULL */
    unsigned naccesses; /* of the buffer, no two the same */
    tc_buffer_access accesses[TC_MOST_INSPECTED];
    tc_load_info *next;
};

/* Operands of a product. */
typedef enum tc_order {
    TC_IN_REGISTERS,
    TC_K_MAJOR, /* in shared memory: K is the fast axis */
    TC_MN_MAJOR
} tc_order;

typedef struct tc_product_info tc_product_info;
struct tc_product_info {
    const tc_op *op; /* mma */
    bool hot;
    int32_t m, n, k;
    tc_order order[2]; /* of A, B */
    bool k_only;       /* the instruction takes K-major operands only */
    tc_product_info *next;
};

/* Each source line once, in the order of the program. */
typedef struct tc_inspection {
    const tc_op *loop; /* the hot one: where most products are, else loads */
    tc_load_info *loads;
    tc_product_info *products;
} tc_inspection;

/* f: after the passes of a GPU. Lives in env->scratch. */
tc_inspection tc_inspect(tc_func *f, tc_pass_env *env,
                         const tc_refusals *refusals);

#endif
