/* SPDX-License-Identifier: Apache-2.0
 *
 * Split K: several programs share the loop of a tile (split_k.c). `split(4)`,
 * `split(stream)`, `split(auto)` of a kernel, or the binding kernel.split.
 */
#ifndef TC_SPLIT_K_H
#define TC_SPLIT_K_H

#include "passes/passes.h"

/* Is the kernel to become a plan? Not if split(auto) cannot be had. */
bool tc_splits(const tc_func *kernel, const tc_binding *bindings,
               unsigned nbindings);

/* ---- Within passes/persistent ---- */

/* A split kernel; it has one loop with products, whose results are sums. */
typedef struct tc_split {
    tc_pass_env *env;
    tc_func *kernel;
    unsigned pieces; /* or TC_SPLIT_STREAM, TC_SPLIT_AUTO */
} tc_split;

/* A launch's numbers in its plan, i32. */
typedef struct tc_split_launch {
    tc_value *tiles, *steps; /* steps NULL: not needed */
} tc_split_launch;

tc_op *tc_split_loop(const tc_func *f);
const tc_type *tc_split_parts_type(tc_context *cx);

/* split_k_pieces.c: the number of CTAs for each tile of a launch, by the cost
 * model, as ops of a plan. */
tc_value *tc_build_pieces(tc_builder *b, const tc_func *kernel,
                          const tc_pass_env *env, const tc_op *loop,
                          const tc_split_launch *l);

/* split_k_kernels.c: the kernels of pieces, which get %pieces and the parts. */
tc_func *tc_split_make_parts(tc_split *s);
tc_func *tc_split_make_merge(tc_split *s);

/* For those and stream_k.c. A copy of the kernel with arguments of these names
 * (i32), then one for the parts of each sum; *own is the first one's index. */
tc_func *tc_split_copy(tc_split *s, const char *suffix, unsigned n,
                       const char *const *names, unsigned *own);
/* `kernel_suffix`, or more if there is one of that name. */
const char *tc_split_free_name(tc_split *s, const char *suffix);
tc_value *tc_split_build_dim(tc_builder *b, const tc_dim *d);
/* x / y, rounded up; neither is negative. */
tc_value *tc_split_cdiv(tc_builder *b, tc_value *x, tc_value *y);
/* Steps of a loop from in[0] to in[1] by in[2]. */
tc_value *tc_split_build_steps(tc_builder *b, tc_value *const in[3]);
/* The loop has its steps from number `first` to `last`, i32. */
void tc_split_narrow_loop(tc_op *loop, tc_value *first, tc_value *last);
/* The rows of `parts` that hold part number `at` of a sum. */
tc_value *tc_split_window(tc_builder *b, tc_value *parts, const tc_type *sum,
                          tc_value *at);
/* Where part `piece` of the sums lies, built by the cursor. */
typedef tc_value *tc_split_place(tc_builder *b, tc_value *piece, void *data);
/* In place of the loop: its initial values and the parts of pieces `from` to
 * `to`, in their order. */
void tc_split_add_parts(tc_op *loop, tc_value *const *parts, tc_value *from,
                        tc_value *to, tc_split_place *place, void *data);
/* A scalar of the kernel's body that follows from its arguments, computed again
 * at the cursor, which may stand in the plan. The `data` of the body's values
 * remembers them: clear it before and after. */
tc_value *tc_split_build_given(tc_builder *b, tc_value *v);

/* stream_k.c: why programs cannot share tiles that way; NULL: they can. */
const char *tc_why_not_stream(const tc_func *f);
/* Builds the kernels, and in the plan their workspace and launches. */
void tc_build_stream(tc_builder *b, tc_split *s, const tc_split_launch *l);
/* split_k.c: a launch of the plan's arguments and these. */
void tc_split_build_launch(tc_builder *b, const tc_func *kernel, unsigned n,
                           tc_value *const *more);
/* Workspace for so many parts of each sum. */
void tc_split_build_parts(tc_builder *b, const tc_op *loop, tc_value *n,
                          tc_value **parts);

/* Segments that a share of stream K ends with are stored in one of two parts of
 * its program: of a tile that an earlier program begins, and of one that it
 * begins itself. */
enum { TC_STREAM_PARTS = 2 };

#endif
