/* SPDX-License-Identifier: Apache-2.0
 *
 * Which functions a text defines and mentions, and taking from imported files,
 * the embedded mods and kernels/std those that are missing.
 */
#ifndef TC_LINK_H
#define TC_LINK_H

#include "lib/handles.h"

/* A function or kernel in a text: the bytes from its keyword to the keyword of
 * the next one. */
typedef struct tc_definition {
    const char *name;
    bool is_kernel, is_plan;
    size_t begin, end;
} tc_definition;

/* A first glance, without parsing: text with errors gives what can be seen. */
tc_definition *tc_definitions(tc_arena *a, const char *text, size_t len,
                              unsigned *n);

/* A word of the file itself, in front of a string. */
typedef struct tc_import {
    const char *file; /* as it stands there */
    size_t at, len;   /* of the string with its quotes */
} tc_import;
tc_import *tc_imports_of(tc_arena *a, const char *text, size_t len,
                         unsigned *n);

/* What a program consists of before it is linked. */
typedef struct tc_texts {
    tc_source *sources, *imports;
    unsigned nsources, nimports;
} tc_texts;

/* The texts to be parsed before the sources: of each import, and of each
 * embedded file of std/ and mods/, that is needed, the functions that sources
 * or `names` mention and no source defines (and what those call), each at its
 * own line. Where a source has a plan, the other embedded texts too, for the
 * kernels that it launches. */
tc_source *tc_link(tc_arena *a, const tc_texts *texts, const char *const *names,
                   unsigned nnames, unsigned *n);

/* Names of all functions in the embedded mods. */
const char **tc_mod_names(tc_arena *a, unsigned *n);

#endif
