/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of other languages (Triton, CUDA, NumPy, PyTorch, C, Python) that
 * authors of kernels may write, and their names in this language.
 */
#ifndef TC_FOREIGN_H
#define TC_FOREIGN_H

#include <stdbool.h>

typedef struct tc_foreign {
    const char *name;
    const char *here;   /* its name in this language, or NULL */
    const char *remedy; /* what to write; NULL where `here` says all */
} tc_foreign;

/* NULL: not in the table. The part after the last dot counts: tl.arange. */
const tc_foreign *tc_foreign_op(const char *name);
const tc_foreign *tc_foreign_type(const char *name);
/* Is it a word that begins a declaration or statement in other languages: def,
 * let, break? */
const tc_foreign *tc_foreign_statement(const char *name);
/* One of the table, or made like a type: bf, f, i or u and a number. */
bool tc_foreign_looks_like_type(const char *name);

#endif
