/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of a kernel: the programs of its grid, if fewer programs than that
 * compute them one after another (persist_tiles.c). Estimates their work, and
 * orders them.
 */
#ifndef TC_RASTERIZE_H
#define TC_RASTERIZE_H

#include "passes/passes.h"

/* How a number changes from one tile to the next along an axis of the grid. */
typedef enum tc_trend {
    TC_TREND_SAME,
    TC_TREND_GROWS, /* or stays */
    TC_TREND_SHRINKS,
    TC_TREND_UNKNOWN
} tc_trend;

enum { TC_WORK_LOADS = 16 };
/* The hot loops, which hold the large products, and what they load. */
typedef struct tc_tile_work {
    tc_op *hot;                   /* NULL: there is none */
    const char *why;              /* then */
    bool follows;                 /* those before along axis 0 */
    tc_trend steps[TC_GRID_AXES]; /* of the loops */
    unsigned nloads;
    /* Of the loads in the loops: the tensor (an argument of the kernel), bytes
     * of a step, whether the window depends on program_id(axis). */
    struct tc_tile_load {
        const tc_value *tensor;
        uint32_t bytes;
        bool moves[TC_GRID_AXES];
    } loads[TC_WORK_LOADS];
} tc_tile_work;

/* tile_cost.c */
tc_tile_work tc_tile_work_of(const tc_func *f, const tc_pass_env *env);

typedef struct tc_tile_order {
    tc_raster kind;
    unsigned group; /* GROUPED: rows */
    unsigned naxes; /* of the grid */
    tc_value *sizes[TC_GRID_AXES], *total;
    tc_value *section; /* in sections: of how many; see tc_tile_order_prepare */
} tc_tile_order;

/* The one that the kernel asks for; it chooses one and says so there if the
 * kernel asks for none. Sizes and total are left to the caller. */
tc_tile_order tc_tile_order_of(tc_func *f, const tc_tile_work *work);
/* Why the kernel cannot have the order that it asks for; NULL: it can. */
const char *tc_why_not_order(const tc_func *f, const tc_tile_work *work);
/* Builds what is the same for all tiles. */
void tc_tile_order_prepare(tc_builder *b, tc_tile_order *o,
                           const tc_tile_work *work);
/* The indices of tile t. Axes that the grid does not have are 0. */
void tc_tile_order_decode(tc_builder *b, const tc_tile_order *o, tc_value *t,
                          tc_value *ids[TC_GRID_AXES]);
/* tile_program.c: the grid's axes, computed at the cursor in the kernel's body,
 * as sizes and total of the order. */
void tc_tile_order_sizes(tc_builder *b, tc_tile_order *o);
/* The region's ops are the work on the tile of these indices: program_id and
 * num_programs become indices and sizes, but for `own`. */
void tc_tile_name_ids(tc_region *r, const tc_tile_order *o,
                      tc_value *const ids[TC_GRID_AXES], const tc_op *own);
/* An op that reports the program (assert, print; no other op changes) gets the
 * tile's indices. `op` may be erased. */
bool tc_tile_name_op(tc_op *op, tc_value *const ids[TC_GRID_AXES]);
/* For remarks. */
const char *tc_tile_order_name(const tc_tile_order *o);

#endif
