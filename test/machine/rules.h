/* SPDX-License-Identifier: Apache-2.0
 *
 * What rules for mutants are made of: one looks at a line of a program and adds
 * what could be wrong in it. A rule changes as little as it can, and never what
 * is only speed, unless it says why.
 */
#ifndef TEST_MACHINE_RULES_H
#define TEST_MACHINE_RULES_H

#include "test/machine/mutate.h"

#include <stdbool.h>

enum { LINE = 512 };

typedef struct program {
    const char *text;
    char (*lines)[LINE];
    unsigned nlines, body; /* first line of the body */
} program;

typedef struct rule_run {
    const program *p;
    mutants *out;
    const char *rule;
} rule_run;

typedef struct rule {
    const char *name;
    void (*run)(rule_run *r, unsigned line);
} rule;

/* End in an entry without a name. */
extern const rule rules_of_copies[];   /* rules_copies.c: all targets */
extern const rule rules_of_roles[];    /* rules_roles.c: warp groups */
extern const rule rules_of_programs[]; /* rules_programs.c: the grid */
extern const rule rules_of_marks[];    /* rules_marks.c: profile(..) */

/* ---- Lines ---- */

/* The op's name on: after `%x = `. */
const char *op_at(const char *line);
bool is_op(const char *line, const char *name);
unsigned indent(const char *line);
/* Touches shared memory, or orders who does. */
bool is_shared(const char *line);
/* Copies the value named at `at`: `%x`. */
void name_at(const char *at, char *name);
/* Operand i of a line's op, as `%x`; false where it has not so many. */
bool operand(const char *line, unsigned i, const char **at, char *name);
/* The line that defines a value, before line i. */
const char *definition(const program *p, const char *name, unsigned i);
/* Slots of the ring that an operand is; 0: it is none. */
unsigned slots_of(const rule_run *r, unsigned i, unsigned ring);

/* ---- Making mutants ---- */

/* The program with lines first to last replaced by `lines`. */
void add(rule_run *r, unsigned first, unsigned last, const char *lines,
         const char *harmless);
/* Line i replaced; by nothing: left out. */
void replace(rule_run *r, unsigned i, const char *harmless, const char *fmt,
             ...) __attribute__((format(printf, 4, 5)));
/* Line i with the text at `at`, of length n, replaced. */
void replace_part(rule_run *r, unsigned i, const char *at, size_t n,
                  const char *with, const char *harmless);
/* Lines a and b change places. */
void swap(rule_run *r, unsigned a, unsigned b, const char *harmless);
void remove_op(rule_run *r, unsigned i, const char *name, const char *harmless);

/* The interpreter does not try interleavings: a run without a finding is right
 * in all of them. So it is a proof for the trip counts that were tried. */
extern const char in_order[];

#endif
