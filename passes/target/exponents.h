/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be rounded otherwise: values that only matter as arguments of
 * exponentials that get rounded themselves (fuse_exp2_scale.c says how far).
 */
#ifndef TC_EXPONENTS_H
#define TC_EXPONENTS_H

#include "ir/ir.h"
#include "passes/target/target.h"

/* Does a value become a float of 16 bits or less, lane by lane? */
bool tc_feeds_narrow(const tc_value *v);

/* scale * tanh(x), where `tanh` is that op on a tile of f32, and scale a scalar
 * or NULL, for 1: rounded otherwise, by 2^-13 at most; as a product by 1 / l.
 */
tc_value *tc_build_tanh(tc_builder *b, const tc_op *tanh, tc_value *scale,
                        double l);

/* Is a scalar above 0, finite, no NaN? Or is it tc_is_magnitude? Then a factor
 * of tiles can go out of maxima. */
bool tc_keeps_order(const tc_value *scalar);

/* factor_sign.c: d * f with the sign of the scalar f, if it may be negative, in
 * d: the other factor keeps the order of tiles, unless f is no finite number.
 * Is v such a factor? */
tc_value *tc_build_by_magnitude(tc_builder *b, tc_value *d, tc_value *f,
                                bool is_signed);
bool tc_is_magnitude(const tc_value *v);

/* linear_bias.c: step * j for each column j of a product that nothing is added
 * to; the new product. Is that faster than a sum? */
bool tc_can_add_linear_bias(const tc_target *target, unsigned warps,
                            const tc_op *dot);
tc_value *tc_add_ramp(tc_builder *b, const tc_op *dot, tc_value *step);

#endif
