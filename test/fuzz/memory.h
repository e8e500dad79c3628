/* SPDX-License-Identifier: Apache-2.0
 *
 * What a random program reads and writes.
 */
#ifndef TEST_FUZZ_MEMORY_H
#define TEST_FUZZ_MEMORY_H

#include "ir/eval/eval.h"
#include "test/fuzz/program.h"
#include "test/numerics/run.h"

/* Of each type, `rough`, of each storage type. */
enum {
    NOUTPUTS = NUM_TYPE_COUNT + 1 + STORED_COUNT,
    NARGS = 4 + NOUTPUTS + STORED_COUNT
};

/* Inputs and one set of outputs. Of storage types: the ints that they are. */
typedef struct memory {
    num_tensor fa, ia, in[STORED_COUNT], out[NOUTPUTS];
    int n;
    double x;
} memory;

memory memory_new(const program *p, uint64_t seed);
void memory_free(memory *m);
void memory_arguments(const memory *m, tc_launch_arg args[NARGS]);
/* The same for the library. */
void memory_launch(const memory *m, run_view views[NARGS],
                   tilec_argument args[NARGS]);
/* The first difference of outputs, described; NULL: none. `a` is of the program
 * as it was. */
const char *memory_difference(const memory *a, const memory *b, char text[160]);

#endif
