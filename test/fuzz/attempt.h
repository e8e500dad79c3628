/* SPDX-License-Identifier: Apache-2.0
 *
 * One text through the compiler: parser, verifier, passes, code for a target.
 * Whatever the text, there is code or an error that blames the text.
 */
#ifndef TEST_ATTEMPT_H
#define TEST_ATTEMPT_H

#include "ir/ir.h"

enum { ATTEMPT_MOST = 1 << 20 };

/* Plain data: a parent and its child share one. */
typedef struct attempt {
    char target[16];
    char pipeline[1500];
    unsigned warps;
    bool round_trip; /* print and parse after each pass */
    char text[ATTEMPT_MOST];
    /* What came of it. */
    bool parsed, verified, passed, coded;
    char said[1000]; /* a message that blames the compiler; or "" */
} attempt;

/* Runs it in this process. False: `said` says what it should not have. */
bool attempt_run(attempt *t);

/* The passes of a pipeline, by their names: begin .. end - 1 of them, with `,`
 * between; returns how many there are in all. */
unsigned attempt_passes(const char *pipeline, unsigned begin, unsigned end,
                        char *out, size_t room);

#endif
