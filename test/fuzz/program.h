/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs: well-typed tile IR with control flow, whose results are
 * exact, so that two ways to run one must agree bit for bit.
 *
 * Exact means: float sums and dots only over small whole numbers; no op whose
 * result is only good to some ulps, except where it goes straight to memory
 * (`rough` outputs); no bits of a NaN are looked at.
 */
#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include "test/numerics/number.h"

enum {
    PROGRAM_GRID = 3,
    PROGRAM_AXES = 8,
    PROGRAM_ROWS = 40,
    PROGRAM_COLUMNS = 33
};

/* Storage types. `holds`: ints as wide, or of two elements. */
typedef enum stored_type {
    STORED_U8,
    STORED_U16,
    STORED_U32,
    STORED_F8E8M0,
    STORED_I4,
    STORED_U4,
    STORED_F4E2M1,
    STORED_COUNT
} stored_type;
typedef struct stored_info {
    const char *name;
    num_type holds;
    bool packed, is_float;
} stored_info;
extern const stored_info stored_infos[STORED_COUNT];

/* The kernel is @random(%fa: f32 [ROWS, COLUMNS], %ia: i32 the same, %n: i32,
 * %x: f32, one [GRID, slots[t]] tensor of each type in the order of num_type,
 * %rough: f32 [GRID, rough], one [ROWS, COLUMNS or one more] tensor of each
 * storage type, then one [GRID, stored[s]] of each), launched on a grid of GRID
 * programs. If `split` is set, its first products are in a loop that programs
 * may share, bound as kernel.split. */
typedef struct program {
    char *text;
    const char *split; /* the clause that it may have as well; NULL: none */
    int slots[NUM_TYPE_COUNT]; /* at least 1 each */
    int rough;
    int stored[STORED_COUNT]; /* at least 2 each, even */
} program;

program program_new(uint64_t seed, int statements);
void program_free(program *p);

#endif
