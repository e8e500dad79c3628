/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicates and builders that rewrite rules share.
 */
#ifndef TC_MATCH_H
#define TC_MATCH_H

#include "ir/eval/eval.h"

/* The kind of the elements; TC_KIND_COUNT of pointers and of names. */
tc_kind tc_lane_kind(const tc_value *v);
/* i1 to i64; floats. False while the type is a name. */
bool tc_has_int_lanes(const tc_value *v);
bool tc_has_float_lanes(const tc_value *v);

/* A constant, or a tile with one constant in every lane. */
bool tc_match_const(const tc_value *v, tc_scalar *x);
bool tc_match_int(const tc_value *v, int64_t i);
/* Tells -0 from +0. */
bool tc_match_float(const tc_value *v, double f);
/* The op that defines v if it is that one, else NULL. */
tc_op *tc_match_op(const tc_value *v, tc_opcode code);

/* The value before it was broadcast to v's shape. */
tc_value *tc_match_unbroadcast(tc_value *v);
/* The same constant, or the same value. */
bool tc_match_same_int(const tc_value *a, const tc_value *b);

/* Does every value of `from` keep its value in `to`? Both are i1 to f64. */
bool tc_cast_is_exact(tc_kind from, tc_kind to);

/* A constant of a scalar type, or a tile of it. */
tc_value *tc_build_const(tc_builder *b, const tc_type *type, tc_scalar x);
tc_value *tc_build_int_const(tc_builder *b, const tc_type *type, int64_t i);
tc_value *tc_build_i32(tc_builder *b, int64_t i);
tc_value *tc_build_i64(tc_builder *b, int64_t i);
/* An op of one result like `op` (code, attributes), on other operands. */
tc_value *tc_build_like(tc_builder *b, const tc_op *op, tc_value *const *in,
                        const tc_type *type);
tc_value *tc_build_unary(tc_builder *b, tc_opcode code, tc_value *x);
tc_value *tc_build_binary(tc_builder *b, tc_opcode code, tc_value *x,
                          tc_value *y);
/* Of x and a constant of its type. */
tc_value *tc_build_with(tc_builder *b, tc_opcode code, tc_value *x, int64_t i);
/* x and y; the other one where one is NULL. */
tc_value *tc_build_both(tc_builder *b, tc_value *x, tc_value *y);
tc_value *tc_build_cmp(tc_builder *b, const char *pred, tc_value *x,
                       tc_value *y);
tc_value *tc_build_select(tc_builder *b, tc_value *condition, tc_value *x,
                          tc_value *y);

/* The type of `like`, with other elements. */
const tc_type *tc_build_type(const tc_builder *b, const tc_type *like,
                             tc_kind elem);
/* Ints as wide as t's floats; t itself if it is of ints. */
const tc_type *tc_bits_type(tc_context *cx, const tc_type *t);
/* v itself if it has such elements. */
tc_value *tc_build_cast(tc_builder *b, tc_value *v, tc_kind elem);
tc_value *tc_build_bitcast(tc_builder *b, tc_value *v, const tc_type *type);
/* A scalar in all lanes of a tile of that shape and layout; itself if `like` is
 * no tile. */
tc_value *tc_build_spread(tc_builder *b, tc_value *v, const tc_type *like);
/* An op of v (of nothing: NULL) with an attribute, as `axis` or `dim`. */
tc_value *tc_build_at(tc_builder *b, tc_opcode code, tc_value *v,
                      const char *attr, int64_t i);
tc_value *tc_build_reduce(tc_builder *b, tc_value *v, unsigned axis,
                          const char *kind);
/* 0 to n - 1, as i32. */
tc_value *tc_build_range(tc_builder *b, const tc_dim *n);
/* A line of lanes as that axis of a tile of the shape of `like`, repeated along
 * its other axes. */
tc_value *tc_build_along(tc_builder *b, tc_value *line, unsigned axis,
                         const tc_type *like);
tc_op *tc_build_assert(tc_builder *b, tc_value *condition, const char *message);
/* An element of a ring in shared memory. */
tc_value *tc_build_smem_index(tc_builder *b, tc_value *ring, tc_value *index);

#endif
