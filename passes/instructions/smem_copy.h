/* SPDX-License-Identifier: Apache-2.0
 *
 * smem_copy: which buffers it copies, and by what matrices. For passes and code
 * generation.
 */
#ifndef TC_SMEM_COPY_H
#define TC_SMEM_COPY_H

#include "ir/ir.h"
#include "ir/types/layout.h"

/* Bytes that lie along one axis, `along`, come to lie along the other one, in
 * steps of 4 matrices. Inputs of read and write: lane, whose row of a matrix is
 * read or written, and register, the step: those of one band first, then the
 * bands. The coordinate is the row's first element in the buffer. */
typedef struct tc_smem_copy {
    unsigned along;
    const tc_layout *read, *write;
    unsigned nsteps; /* of a band */
    unsigned nbands;
    /* The first register modes of `read` and `write` that count bands. */
    unsigned read_bands, write_bands;
} tc_smem_copy;

/* from, to: smem. False: there is no such way, *why says what stands against
 * it. */
bool tc_smem_copy_of(tc_context *cx, const tc_type *from, const tc_type *to,
                     tc_smem_copy *out, const char **why);

#endif
