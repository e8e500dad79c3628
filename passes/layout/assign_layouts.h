/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of assign-layouts share:
 *
 *   classes.c  which values should have one layout
 *   dots.c     instructions and warp grids of dots
 *   operands.c where their operands come from; dots become mma
 *   orders.c   columns in the order in which the next dot wants them
 *   widened.c  operands that are widened between shared memory and the dot
 *   majors.c   operands in an order that no instruction wants
 *   choice.c   the layout of each class
 *   parts.c    slice, join, interleave: layouts in which they move nothing
 *   rows.c     rows that go through shared memory
 *   ahead.c    tiles that do, because a loop computes with them
 *   views.c    operands that are parts of a loaded tile's buffer
 *   assign_layouts.c  the order of all that, and the program rewritten
 */
#ifndef TC_ASSIGN_LAYOUTS_H
#define TC_ASSIGN_LAYOUTS_H

#include "passes/analysis/axis_info.h"
#include "passes/layout/relayout.h"
#include "passes/passes.h"

typedef struct tc_class tc_class;
typedef struct tc_tie tc_tie;
typedef struct tc_relation tc_relation;
typedef struct tc_part_relation tc_part_relation;
typedef struct tc_dot tc_dot;

/* How slice, join and interleave cut an axis: a thread holds whole units of it
 * (0: the whole side), and in each unit `step` neighbouring elements (0: any
 * number). */
typedef struct tc_cut {
    int32_t unit, step;
} tc_cut;

/* Tiles that get one layout. A forest: the root speaks for all. */
struct tc_class {
    tc_class *parent, *next; /* parent: NULL of a root */
    const tc_type *tile;     /* the sides */
    tc_dot *dot;             /* the dot whose accumulator is in the class; NULL:
                              * none */
    const tc_op *access;     /* the heaviest of global memory; NULL: none */
    const tc_op *across;     /* a store that walks another axis; NULL: none */
    uint64_t weight;         /* of it: bytes, times 16 a loop around it */
    tc_bit_order order;      /* of columns; see orders.c */
    unsigned scanned;        /* bit set of axes along which there are scans */
    tc_cut cuts[TC_MAX_RANK];
    const tc_layout *layout;
};

/* A use that ties two classes together: without it they could have different
 * layouts. */
struct tc_tie {
    tc_tie *next;
    tc_class *a, *b;
    unsigned depth; /* loops around the use */
};

/* An op on shapes: the layout of one class follows from the other's. */
struct tc_relation {
    tc_relation *next;
    tc_class *from, *to; /* of the operand, of the result */
    const tc_op *op;
};

/* slice, join, interleave: operand or result i is a part of a whole. */
struct tc_part_relation {
    tc_part_relation *next;
    tc_class *whole, *part;
    const tc_op *op;
    unsigned i;
};

struct tc_dot {
    tc_dot *next, *group; /* group: NULL of a root */
    tc_op *op;
    const tc_op *loop; /* the innermost around it; NULL: none */
    unsigned depth;
    const char *instr;
    tc_class *c;
    int64_t kept; /* registers of an operand kept all through the loop */
    const tc_value *fragments; /* that operand */
    int64_t packed; /* bytes of operand A that comes from another dot's result;
                     * 0: it does not */
    bool adds_to_product; /* to another dot's sum, in the same registers */
    /* Operands that are put into the order of a group's instruction on their
     * way from memory. */
    bool moved[2];
    /* Operands that are in shared memory in fewer bits (widened.c), and the
     * order of K that suits them. */
    bool widened[2];
    tc_bit_order k_order;
    /* Of a group's root. */
    bool along_rows;    /* rows are reduced, or go into the next dot */
    bool along_columns; /* columns are reduced */
    int wm, wn;
};

typedef struct tc_placing {
    tc_pass_env *env;
    tc_context *cx;
    tc_arena *scratch;
    tc_func *f;
    const tc_target *target;
    unsigned warps;
    tc_axis_analysis *axes; /* with all tensors aligned that can be */
    tc_relayout relayout;
    tc_map classes; /* value, or op without a result that has one: tc_class */
    tc_class *all;
    tc_tie *ties;
    tc_relation *relations;
    tc_part_relation *parts;
    tc_dot *dots, *last_dot;
    tc_map stores; /* store: its own tc_layout, not its class's */
    tc_map
        shapes; /* reshape, slice: the tc_layout that its operand must have */
    tc_map buffers;  /* value -> the shared memory that holds it */
    tc_map moved;    /* the same, in the other order */
    tc_map computed; /* value -> itself as operand of products */
    bool failed;     /* by tc_dots_lower; reported */
} tc_placing;

/* assign_layouts.c. As many warps as leave each thread few elements and no
 * thread idle. */
unsigned tc_layout_warps_by_size(const tc_func *f);

/* classes.c */
void tc_classes_build(tc_placing *s);
tc_class *tc_class_of(tc_placing *s, const void *value_or_op); /* NULL: none */
tc_class *tc_class_root(tc_class *c);
/* The number of loops around an op, without the loop over tiles. */
unsigned tc_layout_depth(const tc_op *op);
const tc_op *tc_layout_loop(const tc_op *op);

/* dots.c */
/* Operands of one type each, and an instruction for each dot. Before classes
 * are built. */
void tc_dots_prepare(tc_placing *s);
tc_dot *tc_dot_of(const tc_placing *s, const tc_op *op);
tc_dot *tc_dot_group(tc_dot *d);
bool tc_dot_is_mma(const tc_dot *d);
bool tc_dot_is_group(const tc_dot *d); /* by wgmma */
/* After classes are built: groups; how many warps suit them; their grids. */
void tc_dots_group(tc_placing *s);
unsigned tc_dots_warps(const tc_placing *s); /* 0: no matter */
/* Is there a dot whose rows so many warps divide, in 16s? */
bool tc_dots_divide(const tc_placing *s, unsigned warps);
/* Does a grid of so many warps leave none of them idle? */
bool tc_dots_share(const tc_placing *s, unsigned warps);
void tc_dots_arrange(tc_placing *s);
/* Of shared memory, that the operands of a loop's dots take when each is loaded
 * while its last one is in use; of the loop where that is most. */
int64_t tc_dots_double_buffers(const tc_placing *s);

/* registers.c. As many warps, or twice or four times as many where the
 * accumulators would not fit in registers. */
unsigned tc_dots_spread(tc_placing *s, unsigned warps);
/* A warning where they do not fit in those of s->warps. */
void tc_dots_warn_crowded(tc_placing *s);

/* operands.c */
/* Dots become mma. After types have got layouts. */
void tc_dots_lower(tc_placing *s);
/* The buffer that holds a tile, as the dot sees it below `trans`; NULL: as it
 * is. */
tc_value *tc_dot_view(tc_placing *s, const tc_dot *d, tc_value *tile,
                      const tc_op *trans);

/* orders.c */
/* Orders of the columns of classes. After dots are arranged. */
void tc_dots_reorder(tc_placing *s);

/* widened.c */
/* Which operands are widened after shared memory, and the orders of K and of
 * the columns of classes that suit them. After dots are arranged. */
void tc_dots_widen(tc_placing *s);
/* Operand i, one of those, in registers. */
tc_value *tc_dot_widened(tc_placing *s, const tc_dot *d, unsigned i);
/* The layout of operand i in registers, in the dot's order of K; NULL: of fma,
 * and of B of wgmma. */
const tc_layout *tc_dot_operand(const tc_placing *s, const tc_dot *d,
                                unsigned i);

/* majors.c */
/* Can operand i of an instruction of groups come from shared memory? NULL: it
 * can, *moves says whether in another order than it has in global memory. */
const char *tc_dot_why_not_read(const tc_placing *s, const tc_dot *d,
                                unsigned i, const char *instr, bool *moves);
/* Operand i in the order of d's instruction: a buffer that is filled from
 * `rows`, which has it in the order of memory. */
tc_value *tc_dot_move(tc_placing *s, const tc_dot *d, unsigned i,
                      tc_value *rows);
/* Of operand i, which comes from shared memory: says, as the options want it,
 * that it is not in the order in which the dot's instruction reads it. */
/* The axis of a tile along which elements lie side by side in memory: of what
 * is loaded as its tensor says, else the last one. */
unsigned tc_tile_fast_axis(const tc_placing *s, const tc_value *tile);
/* Is K the fast axis of operand i in memory, below a trans? */
bool tc_dot_is_k_major(const tc_placing *s, const tc_dot *d, unsigned i);
void tc_dot_enforce_major(tc_placing *s, const tc_dot *d, unsigned i);

/* views.c */
/* An operand as a view of the buffer that holds `from`: first sliced or
 * reshaped, then transposed. */
typedef struct tc_operand_view {
    const tc_op *trans, *slice, *reshape; /* NULL: it is not */
    tc_value *from;
} tc_operand_view;
tc_operand_view tc_operand_view_of(const tc_placing *s, tc_value *operand);
/* The view's layout of a buffer with layout l; NULL: the slice is not in one
 * piece. */
const tc_layout *tc_operand_view_layout(tc_context *cx,
                                        const tc_operand_view *v,
                                        const tc_layout *l);
/* The view of the buffer, which gets a layout that has it. */
tc_value *tc_build_operand_view(tc_placing *s, const tc_operand_view *v,
                                tc_value *buffer, tc_op *before);

/* rows.c */
/* When dots have become mma. */
void tc_rows_stage(tc_placing *s, tc_region *r);

/* ahead.c */
/* Is a loaded tile used other than by going to shared memory as it is? */
bool tc_is_read_in_registers(const tc_value *v);
/* What puts a loaded tile into a buffer before the tile is read; NULL: nothing
 * does. */
tc_op *tc_early_store(const tc_op *load);
/* Can a load of a loop of products go through shared memory, ahead of its step?
 */
bool tc_load_can_be_ahead(const tc_placing *s, const tc_op *load);
/* The same, of loads that are computed with before products. */
void tc_loads_stage(tc_placing *s, tc_region *r);

/* vectors.c. The least power of two that is not below the side. */
int64_t tc_power_from(int64_t side);
/* After all types have layouts: tensors that must be aligned
 * for accesses of 16 bytes; remarks on all accesses, and a warning where a tile
 * takes more registers than there are. */
void tc_vectors_plan(tc_placing *s);
void tc_vectors_say(tc_placing *s);

/* choice.c */
void tc_layouts_choose(tc_placing *s);
/* The layout in which a scan works: its class's, if threads can go through it
 * (layout_scan.c). */
const tc_layout *tc_layout_of_scan(const tc_placing *s, const tc_op *scan);
/* The one that a class has by itself. */
const tc_layout *tc_layout_of_class(const tc_placing *s, const tc_class *c);
/* The one that suits a load's memory best. */
const tc_layout *tc_layout_of_load(const tc_placing *s, const tc_op *load);
/* The layout of a tile that nothing asks anything of. */
const tc_layout *tc_layout_default(const tc_placing *s, const tc_type *tile);

/* parts.c */
/* While classes are built: an op on parts. */
void tc_parts_relate(tc_placing *s, const tc_op *op);
/* The cuts of all classes, once they are built. */
void tc_parts_cut(tc_placing *s);
/* The smallest tile that is repeated in registers only, and the whole in the
 * layout l of that. */
const tc_type *tc_cuts_tile(tc_context *cx, const tc_type *tile,
                            const tc_cut *cuts);
const tc_layout *tc_cuts_grow(tc_context *cx, const tc_type *tile,
                              const tc_cut *cuts, const tc_layout *l);
/* The layout of the class on one side of a relation that follows from the other
 * side's; NULL: none does. */
const tc_layout *tc_part_layout(tc_placing *s, const tc_part_relation *r,
                                const tc_layout *whole);
const tc_layout *tc_whole_layout(tc_placing *s, const tc_part_relation *r,
                                 const tc_layout *part);
/* Gives the result of an op on parts a layout in which it moves nothing, after
 * its class's. */
void tc_parts_type(tc_placing *s, tc_op *op);
/* The layout that operand i must have then. */
const tc_layout *tc_parts_wanted(tc_placing *s, const tc_op *op, unsigned i);

#endif
