/* SPDX-License-Identifier: Apache-2.0
 *
 * The variants of a kernel that `bench` and `tune` go through: every
 * combination of the values of its axes.
 *
 *   --sweep BM=64,128 --sweep warps=4,8   (BM=64 warps=4), (BM=64 warps=8), ..
 *
 * `warps`, `stages`, `ptxas` and `tiles` are those of the compile options, any
 * other name is a compile-time parameter, or a clause of the schedule:
 * for.pingpong=none,once.
 */
#ifndef TOOL_SPACE_H
#define TOOL_SPACE_H

#include "ir/ir.h"
#include "tools/common/commands.h"

enum { SPACE_AXES = TC_MAX_TUNE_AXES, SPACE_VALUES = TC_MAX_TUNE_VALUES };

typedef struct axis {
    char name[32];
    unsigned n;
    char values[SPACE_VALUES][32];
} axis;

typedef struct space {
    unsigned naxes; /* 0: one variant, that of the command line */
    axis axes[SPACE_AXES];
} space;

/* Adds `NAME=VALUE,VALUE...`; false: it is none, or too much of it. */
bool space_add(space *s, const char *text);
/* All --sweep of the command line; the exit code. */
int space_read(space *s, const tool_args *args);
/* Leaves out what the CPU target does not have: warps and the like. */
void space_drop_gpu(space *s);
size_t space_count(const space *s);

/* One of them. Texts belong to the space. */
typedef struct variant {
    unsigned warps, stages, ptxas_level; /* 0: not said */
    tilec_tiles tiles;
    unsigned nbindings;
    tilec_binding bindings[SPACE_AXES];
    const char *values[SPACE_AXES]; /* by axis */
} variant;
variant space_at(const space *s, size_t index);
/* "BM=64 warps=4" */
typedef struct variant_text {
    char text[SPACE_AXES * 64];
} variant_text;
variant_text variant_name(const space *s, const variant *v);

#endif
