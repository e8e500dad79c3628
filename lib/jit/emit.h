/* SPDX-License-Identifier: Apache-2.0
 *
 * What tilec_kernel_emit is made of: a kernel's forms (emit.c), and a plan's
 * (emit_plan.c).
 */
#ifndef TC_EMIT_H
#define TC_EMIT_H

#include "lib/program/plan.h"

typedef struct tc_emission {
    const tilec_kernel *k;
    const char *what;
    tilec_error *error;
    char *text; /* malloc'd, with a NUL after it */
    size_t size;
} tc_emission;

typedef tilec_status tc_emit_fn(tc_emission *e);

/* Takes a copy. */
tilec_status tc_emit_copy(tc_emission *e, const void *data, size_t size);
/* The cubin that the program `ptxas` makes of PTX; level 0: its own. */
tilec_status tc_emit_assembled(tc_emission *e, const char *ptxas,
                               unsigned level, const char *ptx);

/* Of a plan: its own text, where that is asked for, and that of each kernel. */
tilec_status tc_emit_parts(tc_emission *e);
/* One module of all its kernels; a launch takes one of each kernel. */
tilec_status tc_emit_linked_ptx(tc_emission *e);
tilec_status tc_emit_linked_cubin(tc_emission *e);

#endif
