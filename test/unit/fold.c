/* SPDX-License-Identifier: Apache-2.0
 *
 * The rewrite rules of canonicalize: each case is a program that a rule is to
 * shrink (or, as important, to leave alone), interpreted before and after over
 * sample inputs: zeros of both signs, infinities, NaN, extremes and ordinary
 * numbers.
 */
#include "passes/passes.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/fold/interp.h"
#include "test/unit/run.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTS   "i8 i16 i32 i64"
#define FLOATS "f8e4m3 f16 bf16 f32 f64"

/* `$` in the text stands for each of the kinds. `nops`: how many ops are left,
 * constants and the return not counted. */
static const struct rewrite {
    const char *kinds, *text;
    unsigned nops;
} rewrites[] = {
    /* fold_lanes.c */
    {INTS, "func @f() -> $ { return (2 + 3) * 7 - 1 }", 0},
    {FLOATS, "func @f() -> $ { return (2.0 + 3.0) * 7.0 - 1.0 }", 0},
    {INTS, "func @f(%x: $) -> $ { return 3 + %x }", 1},
    {INTS, "func @f(%x: $) -> $ { return (2 * %x) * 3 }", 1},
    {"f32",
     "func @f(%x: $) -> tile<8 x $> { return exp2(splat(%x, tile<8 x $>)) }",
     2},
    {"f32 i32",
     "func @f(%x: $, %y: $) -> tile<8x8 x $> { return splat(%x, tile<8x8 x $>) "
     "* splat(%y, tile<8x8 x $>) }",
     2},
    {"f32 i32",
     "func @f(%x: tile<8x1 x $>, %y: tile<8x1 x $>) -> tile<8x8 x $> { return "
     "broadcast(%x, tile<8x8 x $>) + broadcast(%y, tile<8x8 x $>) }",
     2},
    {"f32 i32",
     "func @f(%x: tile<8x1 x $>, %y: $) -> tile<8x8 x i1> { return "
     "broadcast(%x, tile<8x8 x $>) < splat(%y, tile<8x8 x $>) }",
     3},
    {"f32 i32",
     "func @f(%x: tile<8x1 x $>, %y: tile<1x8 x $>) -> tile<8x8 x $> { return "
     "broadcast(%x, tile<8x8 x $>) + broadcast(%y, tile<8x8 x $>) }",
     3},
    {"f32",
     "func @f(%c: tile<8x1 x i1>, %x: $) -> tile<8x8 x $> { return "
     "select(broadcast(%c, tile<8x8 x i1>), splat(%x, tile<8x8 x $>), 0.0) }",
     4},
    {"f32 i32",
     "func @f(%x: tile<8 x $>, %y: tile<8 x $>) -> tile<8x1 x $> { return "
     "%x[:, none] - %y[:, none] }",
     2},
    {"f32 i32",
     "func @f(%x: tile<8 x $>, %y: $) -> tile<1x8 x i1> { return "
     "%x[none, :] < splat(%y, tile<1x8 x $>) }",
     3},
    {"f32 i32",
     "func @f(%x: tile<1 x $>, %y: tile<1 x $>) -> tile<1x1 x $> { return "
     "%x[:, none] + %y[none, :] }",
     3},

    /* fold_arith.c: ints */
    {INTS, "func @f(%x: $) -> $ { return %x + 0 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x - 0 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x - %x }", 0},
    {INTS, "func @f(%x: $) -> $ { return 0 - %x }", 1},
    {INTS, "func @f(%x: $) -> $ { return (%x + 100) + 100 }", 1},
    {INTS, "func @f(%x: $) -> $ { return (%x - 100) - 100 }", 1},
    {INTS, "func @f(%x: $, %y: $) -> $ { return %x + (-%y) }", 1},
    {INTS, "func @f(%x: $, %y: $) -> $ { return (-%x) + %y }", 1},
    {INTS, "func @f(%x: $, %y: $) -> $ { return %x - (-%y) }", 1},
    {INTS, "func @f(%x: $, %y: $) -> $ { return (%x - %y) + %y }", 0},
    {INTS, "func @f(%x: $, %y: $) -> $ { return %y + (%x - %y) }", 0},
    {INTS, "func @f(%x: $, %y: $) -> $ { return (%x + %y) - %y }", 0},
    {INTS, "func @f(%x: $, %y: $) -> $ { return (%y + %x) - %y }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x * 1 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x * 0 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x * (-1) }", 1},
    {INTS, "func @f(%x: $) -> $ { return (%x * 5) * 7 }", 1},
    {INTS, "func @f(%x: $) -> $ { return %x / 1 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x / (-1) }", 1},
    {INTS, "func @f(%x: $) -> $ { return %x / 0 }", 0},
    {INTS, "func @f(%x: $) -> $ { return 0 / %x }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x / %x }", 1},
    {INTS, "func @f(%x: $) -> $ { return (%x * 6) / 6 }", 2},
    {INTS, "func @f(%x: $) -> $ { return rem(%x, 1) }", 0},
    {INTS, "func @f(%x: $) -> $ { return rem(%x, -1) }", 0},
    {INTS, "func @f(%x: $) -> $ { return rem(%x, 0) }", 0},
    {INTS, "func @f(%x: $) -> $ { return rem(0, %x) }", 0},
    {INTS, "func @f(%x: $) -> $ { return mulhi(%x, 0) + mulhi(%x, 1) }", 0},
    {INTS, "func @f(%x: $) -> $ { return mulhi(%x, 2) }", 1},
    {INTS, "func @f(%x: $) -> $ { return min(%x, %x) + max(%x, %x) }", 1},
    {INTS, "func @f(%x: $) -> $ { return max(max(%x, 3), 5) }", 1},
    {INTS, "func @f(%x: $) -> $ { return min(min(%x, -3), 5) }", 1},
    {INTS, "func @f(%x: $) -> $ { return -(-%x) }", 0},
    {INTS, "func @f(%x: $, %y: $) -> $ { return -(%x - %y) }", 1},
    {INTS, "func @f(%x: $) -> $ { return abs(-%x) }", 1},
    {INTS, "func @f(%x: $) -> $ { return abs(abs(%x)) }", 1},
    {"i8", "func @f(%x: $) -> $ { return max(%x, -128) }", 0},
    {"i8", "func @f(%x: $) -> $ { return max(%x, 127) }", 0},
    {"i8", "func @f(%x: $) -> $ { return min(%x, 127) }", 0},
    {"i8", "func @f(%x: $) -> $ { return min(%x, -128) }", 0},
    {"i8", "func @f(%x: $) -> $ { return min(%x, -127) }", 1},

    /* fold_arith.c: floats */
    {FLOATS, "func @f(%x: $) -> $ { return %x + (-0.0) }", 0},
    {FLOATS, "func @f(%x: $) -> $ { return %x + 0.0 }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return %x - 0.0 }", 0},
    {FLOATS, "func @f(%x: $) -> $ { return %x - (-0.0) }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return -0.0 - %x }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return 0.0 - %x }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return %x - %x }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return (%x + 1.0) + 1.0 }", 2},
    {FLOATS, "func @f(%x: $, %y: $) -> $ { return %x + (-%y) }", 1},
    {FLOATS, "func @f(%x: $, %y: $) -> $ { return %x - (-%y) }", 1},
    {FLOATS, "func @f(%x: $, %y: $) -> $ { return (%x - %y) + %y }", 2},
    {FLOATS, "func @f(%x: $, %y: $) -> $ { return -(%x - %y) }", 2},
    {FLOATS, "func @f(%x: $) -> $ { return %x * 1.0 }", 0},
    {FLOATS, "func @f(%x: $) -> $ { return %x * 0.0 }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return %x * (-1.0) }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return %x / 1.0 }", 0},
    {FLOATS, "func @f(%x: $) -> $ { return %x / (-1.0) }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return %x / 4.0 }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return %x / 0.5 }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return %x / 3.0 }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return %x / 0.0 }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return max(%x, %x) }", 0},
    {"f16 bf16 f32 f64", "func @f(%x: $) -> $ { return max(%x, -inf) }", 1},
    {"f16 bf16 f32 f64", "func @f(%x: $) -> $ { return min(%x, nan) }", 0},
    {FLOATS, "func @f(%x: $, %y: $) -> $ { return fma(%x, 1.0, %y) }", 1},
    {FLOATS, "func @f(%x: $, %y: $) -> $ { return fma(1.0, %x, %y) }", 1},
    {FLOATS, "func @f(%x: $, %y: $) -> $ { return fma(%x, %y, -0.0) }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return -(-%x) }", 0},
    {FLOATS, "func @f(%x: $) -> $ { return abs(-%x) }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return floor(ceil(%x)) }", 1},
    {FLOATS, "func @f(%x: $) -> $ { return round(floor(%x)) }", 1},

    /* Arithmetic of f8e5m2 saturates infinities: what gives x back stays. */
    {"f8e5m2", "func @f(%x: $) -> $ { return %x + (-0.0) }", 1},
    {"f8e5m2", "func @f(%x: $) -> $ { return %x - 0.0 }", 1},
    {"f8e5m2", "func @f(%x: $) -> $ { return %x * 1.0 }", 1},
    {"f8e5m2", "func @f(%x: $) -> $ { return %x / 1.0 }", 1},
    {"f8e5m2", "func @f(%x: $) -> $ { return -(-%x) }", 2},
    {"f8e5m2", "func @f(%x: $) -> $ { return max(%x, %x) }", 1},
    {"f8e5m2", "func @f(%x: $, %y: $) -> $ { return %x + (-%y) }", 2},
    {"f8e5m2", "func @f(%x: $, %y: $) -> $ { return %x - (-%y) }", 2},
    {"f8e5m2", "func @f(%x: $) -> $ { return cast(%x, $) }", 1},
    {"f8e5m2", "func @f(%x: $) -> $ { return -0.0 - %x }", 1},
    {"f8e5m2", "func @f(%x: $) -> $ { return %x * (-1.0) }", 1},
    {"f8e5m2", "func @f(%x: $) -> $ { return abs(-%x) }", 1},
    {"f8e5m2", "func @f(%x: $) -> $ { return floor(ceil(%x)) }", 1},
    {"f8e5m2", "func @f(%x: $) -> $ { return %x / 4.0 }", 1},
    {"f8e5m2", "func @f(%x: $, %y: $) -> $ { return fma(%x, 1.0, %y) }", 1},
    {"f8e5m2", "func @f(%x: $, %y: $) -> $ { return fma(%x, %y, -0.0) }", 1},
    {"f8e5m2", "func @f(%c: i1, %x: $) -> $ { return select(%c, %x, %x) }", 0},

    /* fold_logic.c */
    {INTS " i1", "func @f(%x: $) -> $ { return (%x & %x) | %x }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x & 0 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x & -1 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x | 0 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x | -1 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x ^ 0 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x ^ -1 }", 1},
    {INTS " i1", "func @f(%x: $) -> $ { return %x ^ %x }", 0},
    {INTS " i1", "func @f(%x: $) -> $ { return %x & ~%x }", 0},
    {INTS " i1", "func @f(%x: $) -> $ { return ~%x | %x }", 0},
    {INTS " i1", "func @f(%x: $) -> $ { return ~~%x }", 0},
    {INTS, "func @f(%x: $) -> $ { return (%x & 12) & 10 }", 1},
    {"i1", "func @f(%x: $) -> $ { return %x and true }", 0},
    {"i1", "func @f(%x: $) -> $ { return %x and false }", 0},
    {"i1", "func @f(%x: $) -> $ { return %x or true }", 0},
    {"i1", "func @f(%x: $) -> $ { return %x == true }", 0},
    {"i1", "func @f(%x: $) -> $ { return %x != false }", 0},
    {"i1", "func @f(%x: $) -> $ { return %x == false }", 1},
    {INTS, "func @f(%x: $, %y: $) -> i1 { return not (%x < %y) }", 1},
    {INTS, "func @f(%x: $, %y: $) -> i1 { return not cmp(%x, %y, pred=ule) }",
     1},
    {FLOATS, "func @f(%x: $, %y: $) -> i1 { return not (%x < %y) }", 2},
    {FLOATS, "func @f(%x: $, %y: $) -> i1 { return not (%x == %y) }", 1},
    {INTS, "func @f(%x: $, %y: $) -> i1 { return %x < %y or %y == %x }", 1},
    {INTS, "func @f(%x: $, %y: $) -> i1 { return %x <= %y and %x != %y }", 1},
    {INTS, "func @f(%x: $, %y: $) -> i1 { return %x <= %y and %y <= %x }", 1},
    {INTS, "func @f(%x: $, %y: $) -> i1 { return %x < %y or %x > %y }", 1},
    {INTS, "func @f(%x: $, %y: $) -> i1 { return %x < %y and %y < %x }", 0},
    {INTS, "func @f(%x: $, %y: $) -> i1 { return %x <= %y or %x > %y }", 0},
    {INTS,
     "func @f(%x: $, %y: $) -> i1 { return cmp(%x, %y, pred=ult) or %x == %y }",
     1},
    {INTS,
     "func @f(%x: $, %y: $) -> i1 { return cmp(%x, %y, pred=ult) or %x < %y }",
     3},
    {FLOATS, "func @f(%x: $, %y: $) -> i1 { return %x < %y or %x == %y }", 1},
    {FLOATS, "func @f(%x: $, %y: $) -> i1 { return %x <= %y and %x != %y }", 1},
    {FLOATS, "func @f(%x: $, %y: $) -> i1 { return %x < %y or %x > %y }", 3},
    {FLOATS, "func @f(%x: $, %y: $) -> i1 { return %x <= %y or %x > %y }", 3},
    {FLOATS, "func @f(%x: $, %y: $) -> i1 { return %x < %y or %x != %y }", 1},
    {INTS, "func @f(%x: $) -> $ { return (%x << 0) + (%x >> 0) + (%x >>> 0) }",
     2},
    {INTS, "func @f(%x: $) -> $ { return %x << 64 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x >>> 64 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x >>> -1 }", 0},
    {INTS, "func @f(%x: $) -> $ { return %x >> 64 }", 1},
    {INTS, "func @f(%x: $) -> $ { return 0 >> %x }", 0},
    {INTS, "func @f(%x: $) -> i1 { return 3 < %x }", 1},
    {FLOATS, "func @f(%x: $) -> i1 { return 3.0 <= %x }", 1},
    {INTS, "func @f(%x: $) -> i1 { return cmp(3, %x, pred=ugt) }", 1},
    {INTS " i1", "func @f(%x: $) -> i1 { return %x == %x }", 0},
    {INTS, "func @f(%x: $) -> i1 { return %x <= %x and not (%x < %x) }", 0},
    {INTS, "func @f(%x: $) -> i1 { return cmp(%x, %x, pred=uge) }", 0},
    {FLOATS, "func @f(%x: $) -> i1 { return %x == %x }", 1},
    {FLOATS, "func @f(%x: $) -> i1 { return %x < %x }", 0},
    {INTS " " FLOATS,
     "func @f(%x: $, %y: $) -> $ { return select(true, %x, %y) }", 0},
    {INTS " " FLOATS,
     "func @f(%x: $, %y: $) -> $ { return select(false, %x, %y) }", 0},
    {INTS " " FLOATS,
     "func @f(%c: i1, %x: $) -> $ { return select(%c, %x, %x) }", 0},
    {"i1", "func @f(%x: $) -> $ { return select(%x, true, false) }", 0},
    {"i1", "func @f(%x: $) -> $ { return select(%x, false, true) }", 1},
    {"f32",
     "func @f(%c: i1, %x: $, %y: $) -> $ { return select(not %c, %x, %y) }", 1},
    {"f32",
     "func @f(%c: i1, %x: $, %y: $) -> $ { return select(%c, select(%c, %x, "
     "1.0), %y) }",
     1},
    {"f32",
     "func @f(%c: i1, %x: $, %y: $) -> $ { return select(%c, %x, select(%c, "
     "%y, 1.0)) }",
     1},
    {"f32",
     "func @f(%c: i1, %x: tile<8 x $>, %y: tile<8 x $>) -> tile<8 x $> { "
     "return select(splat(%c, tile<8 x i1>), %x, %y) }",
     1},
    {INTS " " FLOATS, "func @f(%x: $) -> $ { return cast(%x, $) }", 0},

    /* fold_shape.c */
    {"f32",
     "func @f(%x: tile<8x8 x $>) -> tile<8x8 x $> { return broadcast(%x, "
     "tile<8x8 x $>) }",
     0},
    {"f32",
     "func @f(%x: tile<1x1 x $>) -> tile<8x8 x $> { return "
     "broadcast(broadcast(%x, tile<8x1 x $>), tile<8x8 x $>) }",
     1},
    {"f32",
     "func @f(%x: $) -> tile<8x8 x $> { return broadcast(splat(%x, tile<8x1 x "
     "$>), tile<8x8 x $>) }",
     1},
    {"f32",
     "func @f(%x: $) -> tile<8x1 x $> { return splat(%x, tile<8 x $>)[:, none] "
     "}",
     1},
    {"f32",
     "func @f(%x: tile<8x16 x $>) -> tile<8x16 x $> { return trans(trans(%x)) "
     "}",
     0},
    {"f32",
     "func @f(%x: tile<8x16 x $>) -> tile<8x16 x $> { %a = trans %x perm(0, 1) "
     " return %a }",
     0},
    {"f32",
     "func @f(%x: tile<8x16x1 x $>) -> tile<1x8x16 x $> { %a = trans %x "
     "perm(1, 2, 0)  %b = trans %a perm(1, 2, 0)  return %b }",
     1},
    {"f32",
     "func @f(%x: tile<8x16x1 x $>) -> tile<8x16x1 x $> { %a = trans %x "
     "perm(1, 2, 0)  %b = trans %a perm(2, 0, 1)  return %b }",
     0},
    {"f32",
     "func @f(%x: $) -> tile<16x8 x $> { return trans(splat(%x, tile<8x16 x "
     "$>)) }",
     1},
    {"f32",
     "func @f(%x: tile<8x16 x $>) -> tile<8x16 x $> { return "
     "reshape(reshape(%x, tile<128 x $>), tile<8x16 x $>) }",
     0},
    {"f32",
     "func @f(%x: tile<8x16 x $>) -> tile<16x8 x $> { return "
     "reshape(reshape(%x, tile<128 x $>), tile<16x8 x $>) }",
     1},
    {"f32",
     "func @f(%x: tile<128 x $>) -> tile<8x16 x $> { return reshape(%x[:, "
     "none], tile<8x16 x $>) }",
     1},
    {"f32",
     "func @f(%x: tile<8x16 x $>) -> tile<8x16 x $> { return %x[0 +: 8, 0 +: "
     "16] }",
     0},
    {"f32",
     "func @f(%x: $) -> tile<8x8 x $> { return splat(%x, tile<8x16 x $>)[:, 8 "
     "+: 8] }",
     1},
    {"f32",
     "func @f(%x: tile<8x64 x $>) -> tile<8x8 x $> { return %x[:, 1 +: 32 step "
     "2][:, 3 +: 8 step 2] }",
     1},
    {"f32",
     "func @f(%x: tile<8x64 x $>) -> tile<8x8 x $> { return %x[:, 16 +: 32][:, "
     "5 +: 8] }",
     1},
    {"f32",
     "func @f(%x: tile<8x16 x $>, %y: tile<8x8 x $>) -> tile<8x8 x $> { return "
     "join(%x, %y, axis=1)[:, 16 +: 8] }",
     0},
    {"f32",
     "func @f(%x: tile<8x16 x $>, %y: tile<8x32 x $>) -> tile<8x8 x $> { "
     "return join(%x, %y, axis=1)[:, 18 +: 8 step 2] }",
     1},
    {"f32",
     "func @f(%x: tile<8x16 x $>, %y: tile<8x8 x $>) -> tile<8x8 x $> { return "
     "join(%x, %y, axis=1)[:, 12 +: 8] }",
     2},
    {"f32",
     "func @f(%x: tile<8x16 x $>, %y: tile<8x16 x $>) -> tile<8x16 x $> { "
     "return interleave(%x, %y, axis=1)[:, 1 +: 16 step 2] }",
     0},
    {"f32",
     "func @f(%x: tile<8x16 x $>, %y: tile<8x16 x $>) -> tile<8x8 x $> { "
     "return interleave(%x, %y, axis=1)[:, 2 +: 8 step 2] }",
     1},
    {"f32",
     "func @f(%x: tile<16x8 x $>, %y: tile<16x8 x $>) -> tile<16x8 x $> { "
     "return interleave(%x, %y, axis=0)[8 +: 16, :] }",
     2},
    {"f32 i32",
     "func @f(%x: $) -> tile<8 x $> { return max(splat(%x, tile<8x16 x $>), "
     "axis=1) }",
     1},
    {"f32 i32",
     "func @f(%x: $) -> $ { return min(splat(%x, tile<8 x $>), axis=0) }", 0},
    {"i1", "func @f(%x: $) -> $ { return any(splat(%x, tile<8 x $>), axis=0) }",
     0},
    {"f32 i32",
     "func @f(%x: $) -> $ { return sum(splat(%x, tile<8 x $>), axis=0) }", 2},
    {"f32 i32",
     "func @f(%x: tile<8x1 x $>) -> tile<8 x $> { return sum(%x, axis=1) }", 1},
    {"f32", "func @f(%t: tensor<[?, 16] x $>) -> i32 { return size(%t, 1) }",
     0},
    {"f32", "func @f(%t: tensor<[?, 16] x $>) -> i32 { return size(%t, 0) }",
     1},

    /* fold_control.c */
    {"i32",
     "func @f(%x: $) -> $ { %r = if true { yield %x + 1 } else { yield %x * 3 "
     "}  return %r }",
     1},
    {"i32",
     "func @f(%x: $) -> $ { %r = if 1 > 2 { yield %x + 1 } else { yield %x * 3 "
     "}  return %r }",
     1},
    {"i32 f32",
     "func @f(%c: i1, %x: $, %y: $) -> $ { %r = if %c { yield %x } else { "
     "yield %y }  return %r }",
     1},
    {"i32",
     "func @f(%c: i1, %x: $) -> $ { %r = if not %c { yield %x / 3 } else { "
     "yield %x * 3 }  return %r }",
     3},
    {"i32",
     "func @f(%c: i1, %x: $) -> $ { %a, %b = if %c { yield %x / 3, %x } else { "
     "yield %x * 3, %x }  return %b }",
     0},
    {"i32",
     "func @f(%c: i1, %x: $) -> $ { %a, %b = if %c { yield %x / 3, %x * 5 } "
     "else { yield %x * 3, %x }  return %b }",
     2},
    {"i32",
     "func @f(%x: $) -> $ { %r = for %i = 0 to 0 carry(%a = %x) { yield %a * "
     "%i }  return %r }",
     0},
    {"i32",
     "func @f(%x: $) -> $ { %r = for %i = %x to %x carry(%a = %x) { yield %a * "
     "%i }  return %r }",
     0},
    {"i32",
     "func @f(%x: $) -> $ { %r = for %i = 5 to 8 step 4 carry(%a = %x) { yield "
     "%a * %i }  return %r }",
     1},
    {"i32",
     "func @f(%x: $) -> $ { %r = for %i = 0 to 4 carry(%a = %x) { yield %a * 3 "
     "}  return %r }",
     2},
    {"i32",
     "func @f(%x: $) -> $ { %r, %s = for %i = 0 to 4 carry(%a = %x, %b = 5) { "
     "yield %a * %b, %b }  return %r + %s }",
     3},
    {"i32",
     "func @f(%x: $) -> $ { %r, %s = for %i = 0 to 4 carry(%a = %x, %b = %x) { "
     "yield %a * %b, %x }  return %r + %s }",
     3},
    {"i32",
     "func @f(%x: $) -> $ { %r, %s = for %i = 0 to 4 carry(%a = %x, %b = %x) { "
     "yield %a * 3, 7 }  return %r }",
     2},
    {"i32",
     "func @f(%x: $) -> $ { %r = while carry(%a = %x) { condition false } do { "
     "yield %a + 1 }  return %r }",
     0},
    {"i32",
     "func @f(%x: $) -> $ { %r, %s = while carry(%a = 0, %b = %x) { condition "
     "%a < 5 } do { yield %a + 1, %b }  return %r + %s }",
     4},
    {"i32",
     "func @f(%x: $) -> $ { assert true, \"never\"  assume 1 < 2  return %x }",
     0},
};

/* cast (cast x : A -> B) -> C, for all kinds: right, whatever is folded. */
static const char *const kinds[] = {"i1",   "i8",     "i16",    "i32",
                                    "i64",  "f8e4m3", "f8e5m2", "f16",
                                    "bf16", "f32",    "f64"};
enum { NKINDS = 11 };

static tc_arena arena;

static void setup(void)
{
    fixture_setup();
    tc_arena_init(&arena, &cx->memory);
}

static void teardown(void)
{
    tc_arena_reset(&arena);
    fixture_teardown();
}

static void canonicalize(tc_module *m, const char *text)
{
    const tc_pass_options options = {.verify_each = true, .round_trip = true};
    ck_assert_msg(tc_run_pipeline(m, "canonicalize", &options), "%s: %s", text,
                  fixture_message(0));
}

/* ---- Sample inputs ---- */

static tc_scalar int_sample(tc_kind kind, unsigned i)
{
    static const int64_t samples[] = {
        0,         1,         -1,        2,   3,    -7,     100, INT64_MAX,
        INT64_MIN, INT32_MAX, INT32_MIN, 127, -128, 0x5555, 64};
    int64_t x = samples[i % (sizeof samples / sizeof *samples)];
    /* The extremes of the kind itself. */
    if (x == INT64_MAX || x == INT64_MIN)
        x >>= 64 - tc_scalar_infos[kind].bits;
    return (tc_scalar){.i = kind == TC_I1 ? i & 1 : tc_int_wrap(kind, x)};
}

static tc_scalar float_sample(tc_kind kind, unsigned i)
{
    static const double samples[] = {
        0.0,  -0.0,     1,         -1,  2.5,  -3,   0.1,   1e4,
        -448, INFINITY, -INFINITY, NAN, 1e-5, 6e-8, 1e-40, 127.5};
    double x = samples[i % (sizeof samples / sizeof *samples)];
    /* It has infinities, although no arithmetic gives one. */
    if (kind == TC_F8E5M2 && isinf(x))
        return (tc_scalar){.f = x};
    return (tc_scalar){.f = tc_round_to(kind, x)};
}

enum { NSAMPLES = 16 };

static tc_scalar sample(tc_kind kind, unsigned i)
{
    return tc_scalar_infos[kind].is_float ? float_sample(kind, i)
                                          : int_sample(kind, i);
}

static tile *sample_value(const tc_type *type, unsigned i)
{
    tile *t = tc_arena_new(&arena, tile);
    t->type = type;
    t->n = type->kind == TC_TILE ? tc_type_count(type) : 1;
    for (unsigned d = 0; type->kind == TC_TENSOR && d < type->rank; d++) {
        int64_t size = tc_dim_value(type->dims[d]);
        t->sizes[d] = size < 0 ? 5 + i % 3 : size;
        t->n *= t->sizes[d];
    }
    t->lanes = tc_arena_array(&arena, tc_scalar, (size_t)t->n);
    tc_kind kind = type->elem ? type->elem->kind : type->kind;
    for (int64_t lane = 0; lane < t->n; lane++)
        t->lanes[lane] = sample(kind, i + (unsigned)lane);
    return t;
}

static bool same_scalar(tc_kind kind, tc_scalar a, tc_scalar b)
{
    if (!tc_scalar_infos[kind].is_float)
        return a.i == b.i;
    return (isnan(a.f) && isnan(b.f)) ||
           (a.f == b.f && signbit(a.f) == signbit(b.f));
}

static void compare(const tile *a, const tile *b, const char *text)
{
    tc_kind kind = tc_type_elem(a->type)->kind;
    for (int64_t lane = 0; lane < a->n; lane++)
        ck_assert_msg(same_scalar(kind, a->lanes[lane], b->lanes[lane]),
                      "%s: lane %lld: %lld %a, became %lld %a", text,
                      (long long)lane, (long long)a->lanes[lane].i,
                      a->lanes[lane].f, (long long)b->lanes[lane].i,
                      b->lanes[lane].f);
}

/* All combinations of samples for up to three arguments. */
static void compare_programs(const tc_func *before, const tc_func *after,
                             const char *text)
{
    unsigned nargs = before->body->nargs, total = 1;
    for (unsigned i = 0; i < nargs; i++)
        total *= NSAMPLES;
    ck_assert(nargs <= 3);
    for (unsigned k = 0; k < total; k++) {
        tile *args[3];
        for (unsigned i = 0, rest = k; i < nargs; i++, rest /= NSAMPLES)
            args[i] =
                sample_value(before->body->args[i]->type, rest % NSAMPLES);
        tile **a = interp_run(&arena, before, args);
        tile **b = interp_run(&arena, after, args);
        ck_assert_msg(a && b, "%s: cannot be interpreted", text);
        for (unsigned i = 0; i < before->nresults; i++)
            compare(a[i], b[i], text);
        tc_arena_reset(&arena);
    }
}

static unsigned count_ops(const tc_region *r)
{
    unsigned n = 0;
    tc_each_op (op, r) {
        n += op->code != TC_CONST && !tc_op_has(op, TC_TERMINATOR);
        for (unsigned i = 0; i < op->nregions; i++)
            n += count_ops(op->regions[i]);
    }
    return n;
}

static char *replace(const char *text, char mark, const char *with)
{
    tc_text out = {.arena = &cx->arena};
    for (; *text; text++)
        if (*text == mark)
            tc_text_add(&out, with);
        else
            tc_text_addn(&out, text, 1);
    return out.data;
}

static void check_text(const char *text, int nops)
{
    tc_module *before = fixture_parse(text), *after = fixture_parse(text);
    canonicalize(after, text);
    unsigned left = count_ops(after->first->body);
    ck_assert_msg(nops < 0 || left == (unsigned)nops,
                  "%s: %u ops are left, expected %d", text, left, nops);
    compare_programs(before->first, after->first, text);
    tc_module_free(before);
    tc_module_free(after);
}

START_TEST(test_rewrite)
{
    const struct rewrite *r = &rewrites[_i];
    char list[64];
    strcpy(list, r->kinds);
    char *rest;
    for (char *kind = strtok_r(list, " ", &rest); kind;
         kind = strtok_r(NULL, " ", &rest))
        check_text(replace(r->text, '$', kind), (int)r->nops);
}
END_TEST

/* Which casts may be skipped depends on three kinds: all are tried. */
START_TEST(test_casts_of_casts)
{
    for (int b = 0; b < NKINDS; b++)
        for (int c = 0; c < NKINDS; c++) {
            char text[160];
            snprintf(
                text, sizeof text,
                "func @f(%%x: %s) -> %s { return cast(cast(%%x, %s), %s) }",
                kinds[_i], kinds[c], kinds[b], kinds[c]);
            check_text(text, -1);
        }
}
END_TEST

/* Those that must fold: exact ones, there and back. */
START_TEST(test_exact_casts_fold)
{
    static const char *const pairs[][2] = {
        {"f16", "f32"}, {"bf16", "f32"}, {"f8e4m3", "f16"}, {"f8e4m3", "bf16"},
        {"f32", "f64"}, {"i8", "i32"},   {"i1", "i64"},     {"i16", "f32"},
        {"i32", "f64"}, {"i1", "f8e4m3"}};
    for (int i = 0; i < 10; i++) {
        char text[160];
        snprintf(text, sizeof text,
                 "func @f(%%x: %s) -> %s { return cast(cast(%%x, %s), %s) }",
                 pairs[i][0], pairs[i][0], pairs[i][1], pairs[i][0]);
        check_text(text, 0);
    }
}
END_TEST

int main(void)
{
    int n = sizeof rewrites / sizeof *rewrites;
    Suite *s = suite_create("fold");
    TCase *t = tcase_create("rules");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, test_rewrite, 0, n);
    tcase_add_loop_test(t, test_casts_of_casts, 0, NKINDS);
    tcase_add_test(t, test_exact_casts_fold);
    suite_add_tcase(s, t);
    return run_suite(s);
}
