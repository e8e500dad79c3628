/* SPDX-License-Identifier: Apache-2.0
 *
 * Which function of which file a name in a text means, and taking what is
 * missing from imported files, the embedded mods and kernels/std.
 */
#ifndef TC_LINK_H
#define TC_LINK_H

#include "lib/program/definitions.h"

/* What a program consists of before it is linked. */
typedef struct tc_texts {
    tc_source *sources, *imports;
    unsigned nsources, nimports;
    /* Texts that are linked to the same module have been parsed into it, NULL:
     * none have. Embedded texts will be, and keep their names. */
    const tc_module *before;
    bool more_to_come;
} tc_texts;

/* A function that a binding or a mod expression names. */
typedef struct tc_wanted {
    const char *file; /* NULL: of any */
    const char *name; /* in: in the file; out: in the module */
} tc_wanted;

/* The texts to be parsed before the sources: of each import, and of each
 * embedded file of std/ and mods/, that is needed, the functions that sources
 * or `names` mention and no source defines (and what those call), each at its
 * own line. Where a source has a plan, the other embedded texts too, for the
 * kernels that it launches.
 *
 * A name means the function of the same file; else that of a file which the
 * text imports, of another text before it, of std/, mods/, kernels/. Functions
 * of one name live in one module by aliases (tc_source), which sources get,
 * too. NULL: reported; two files have a function of that name. */
tc_source *tc_link(tc_context *cx, const tc_texts *texts, tc_wanted *names,
                   unsigned nnames, unsigned *n) TC_MUST_CHECK;

/* Names of all functions in the embedded mods. */
const char **tc_mod_names(tc_arena *a, unsigned *n);

#endif
