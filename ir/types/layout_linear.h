/* SPDX-License-Identifier: Apache-2.0
 *
 * The base of the algebra of layouts: maps of coordinates that are applied
 * after a layout, mode by mode.
 *
 * Composition, offsets and solve all have the form g(a(index)), where g takes
 * the coordinates of `a` apart into digits (modes of another layout) and gives
 * each digit a value. The image of a mode of `a` is then the sum of the values
 * of its digits, and the result is a layout if that holds for all indices at
 * once: no digit may overflow, and one that several modes of `a` flip (they
 * xor) must have a value that is xored in the result too.
 */
#ifndef TC_LAYOUT_LINEAR_H
#define TC_LAYOUT_LINEAR_H

#include "ir/types/layout.h"

enum { TC_MAX_DIGITS = 64 }; /* bits of a set */

/* A digit 0 or 1 of g: its value, and how many modes of `a` flip it. */
typedef struct tc_digit {
    int32_t value[TC_MAX_RANK];
    unsigned users;
} tc_digit;

typedef struct tc_linear {
    tc_layout_spec spec;        /* the result; rank and shape are set */
    int32_t xored[TC_MAX_RANK]; /* g xors the values of digits below it */
    unsigned ndigits;
    tc_digit digits[TC_MAX_DIGITS];
    unsigned nadded; /* parts of images that g adds, one a mode */
    int32_t added[TC_MAX_DIGITS][TC_MAX_RANK];
    bool fails;
} tc_linear;

/* Appends the image of a mode of `a`: it flips a set of digits and adds `add`.
 */
void tc_linear_put(tc_linear *r, tc_input in, uint32_t count, uint64_t flips,
                   const int32_t add[TC_MAX_RANK]);
/* The result, or NULL if it is not linear. */
const tc_layout *tc_linear_end(tc_linear *r, tc_context *cx);

/* Coordinates taken apart at a period of one's own for each axis (at most that
 * of the layout): bits below it of all axes side by side, and what is above. */
typedef struct tc_split {
    unsigned rank, shift[TC_MAX_RANK];
    int32_t period[TC_MAX_RANK];
} tc_split;
/* At the smaller periods of the two. */
tc_split tc_split_of(const tc_layout *a, const tc_layout *b);
uint32_t tc_split_low(const tc_split *s, const int32_t *image);
int32_t tc_split_high(const tc_split *s, const int32_t *image, unsigned axis);
bool tc_split_is_low(const tc_split *s, const int32_t *image);
/* May the images of l be added from the split's periods on, where l xors up to
 * its own? (No bit in between is in two images.) */
bool tc_split_suits(const tc_split *s, const tc_layout *l);

#endif
