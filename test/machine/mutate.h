/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants: a machine-level program with one thing changed, made mechanically
 * from its printed lines.
 */
#ifndef TEST_MACHINE_MUTATE_H
#define TEST_MACHINE_MUTATE_H

#include <stddef.h>

typedef struct mutant {
    char *text;
    char what[200]; /* the rule, and the line that it changed */
    unsigned line;  /* of the original, from 1 */
    /* Why this change may be one of speed only; NULL: it is a mistake. */
    const char *harmless;
} mutant;

typedef struct mutants {
    mutant *of;
    size_t n, room;
} mutants;

/* All mutants of a program, in the order of the rules. */
mutants mutants_of(const char *text);
void mutants_free(mutants *m);

#endif
