/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/growth/texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL                                                                 \
    "kernel @k(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>, "           \
    "%t: tensor<[?] x i32>, %n: i32, %a: f32) grid(1) {\n"
#define LOAD(sides) "%v0 = load %x[0 +: " sides "] boundary(0, 1)\n"
#define STORE(value, sides)                                                    \
    "store %y[0 +: " sides "], " value " boundary(0, 1)\n}\n"
#define MASK                                                                   \
    "func @m(%b: i32, %h: i32, %q: i32, %k: i32, %t: tensor<[?] x i32>) -> "   \
    "i1 {\n"
#define SCORE                                                                  \
    "func @s(%s0: f32, %b: i32, %h: i32, %q: i32, %k: i32, "                   \
    "%t: tensor<[?] x f32>) -> f32 {\n"
#define FORWARD                                                                \
    .kernel = "attention_fwd", .bindings = {"D=64", "T=bf16", "mask_mod=@m"}
#define SCORED                                                                 \
    .kernel = "attention_fwd", .bindings = {"D=64", "T=bf16", "score_mod=@s"}

const struct growth_case growth_cases[] = {
    /* Functions. */
    {.name = "calls-twice",
     "func @f0(%a: i32) -> i32 { return %a * 3 + 1 }\n",
     "func @f$i(%a: i32) -> i32 { return @f$p(%a) + @f$p(%a + 1) }\n",
     NULL,
     NULL,
     "kernel @k(%n: i32) grid(1) { print \"r\", @f$l(%n) }\n",
     25},
    {.name = "calls-sixteen",
     "func @f0(%a: f32) -> f32 { return %a * 3.0 + 1.0 }\n",
     "func @f$i(%a: f32) -> f32 { return @f$p(%a) + @f$p(%a + 1.0) + "
     "@f$p(%a + 2.0) + @f$p(%a + 3.0) + @f$p(%a + 4.0) + @f$p(%a + 5.0) + "
     "@f$p(%a + 6.0) + @f$p(%a + 7.0) + @f$p(%a + 8.0) + @f$p(%a + 9.0) + "
     "@f$p(%a + 10.0) + @f$p(%a + 11.0) + @f$p(%a + 12.0) + @f$p(%a + 13.0) + "
     "@f$p(%a + 14.0) + @f$p(%a + 15.0) }\n",
     NULL,
     NULL,
     KERNEL LOAD("64, 0 +: 64") STORE("@f$l(%v0)", "64, 0 +: 64"),
     4},
    {.name = "calls-of-tiles",
     "func @f0(%a: f32) -> f32 { return %a * 3.0 + 1.0 }\n",
     "func @f$i(%a: f32) -> f32 { return @f$p(%a) + @f$p(%a + 1.0) }\n",
     NULL,
     NULL,
     KERNEL LOAD("64, 0 +: 64") STORE("@f$l(%v0)", "64, 0 +: 64"),
     12},
    {.name = "calls-derived",
     "func @f0(%a: f32) -> f32 { return tanh(%a * 3.0) }\n",
     "func @f$i(%a: f32) -> f32 { return @f$p(%a) * @f$p(%a + 1.0) }\n",
     NULL,
     NULL,
     KERNEL LOAD("64, 0 +: 64") "%g = vjp @f$l(%v0) seed(1.0)\n" STORE(
         "%g", "64, 0 +: 64"),
     20},
    {.name = "functions",
     KERNEL "}\n",
     "func @f$i(%a: f32) -> f32 { return %a }\n"},
    {.name = "kernels",
     KERNEL "}\n",
     "kernel @k$i(%x: tensor<[?] x f32>) grid(1) { }\n"},
    {.name = "kernel-arguments",
     "kernel @k(%a: i32",
     ", %b$i: tensor<[?] x f32>",
     NULL,
     NULL,
     ") grid(1) { }\n"},
    {.name = "kernel-scalars",
     "kernel @k(%a0: i32",
     ", %a$i: i32",
     ") grid(1) {\n",
     "print \"a\", %a$i\n",
     "}\n"},
    {.name = "size-doubling",
     "kernel @k[A0: int = 1",
     ", A$i: int = A$p + A$p",
     NULL,
     NULL,
     "](%x: tensor<[?] x f32>) grid(1) { print \"a\", A$l }\n",
     30},
    {.name = "sizes",
     "kernel @k[A0: int = 1",
     ", A$i: int = A$p + 1",
     NULL,
     NULL,
     "](%x: tensor<[?] x f32>) grid(1) { print \"a\", A$l }\n"},

    /* Control. */
    {.name = "ifs-nested",
     KERNEL,
     "if %n > $i {\n",
     LOAD("64, 0 +: 64") "store %y[0 +: 64, 0 +: 64], %v0 * 2.0 boundary(0, "
                         "1)\n",
     "}\n",
     "}\n",
     60},
    {.name = "ifs-of-tiles",
     KERNEL LOAD("64, 0 +: 64"),
     "%v$i = if %n > $i { yield %v$p * 2.0 } else { yield %v$p + 1.0 }\n",
     NULL,
     NULL,
     STORE("%v$l", "64, 0 +: 64")},
    {.name = "ifs-of-scalars",
     KERNEL "%s0 = %a\n",
     "%s$i = if %n > $i { yield %s$p * 2.0 } else { yield %s$p + 1.0 }\n",
     NULL,
     NULL,
     "print \"s\", %s$l\n}\n"},
    {.name = "fors-nested",
     KERNEL "%c0 = load %x[0 +: 64, 0 +: 64] boundary(0, 1)\n",
     "%v$i = for %i$i = 0 to %n carry(%c$i = %c$p) {\n",
     "%v$e = exp(%c$l)\n",
     "yield %v$n }\n",
     STORE("%v1", "64, 0 +: 64"),
     60},
    {.name = "fors-in-fors",
     KERNEL,
     "for %i$i = 0 to %n {\n",
     "%v = load %x[%i$l +: 64, %i1 +: 64] boundary(0, 1)\n"
     "store %y[%i$l +: 64, %i1 +: 64], %v boundary(0, 1)\n",
     "}\n",
     "}\n",
     60},
    {.name = "fors-of-tiles",
     KERNEL LOAD("64, 0 +: 64"),
     "%v$i = for %i$i = 0 to %n step 64 carry(%c$i = %v$p) {\n"
     "%u$i = load %x[%i$i +: 64, 0 +: 64] boundary(0, 1)\n"
     "yield %c$i + %u$i }\n",
     NULL,
     NULL,
     STORE("%v$l", "64, 0 +: 64")},
    {.name = "fors-of-dots",
     "kernel @k(%x: tensor<[?, ?] x bf16>, %y: tensor<[?, ?] x f32>, %n: i32) "
     "grid(1) {\n%v0 = splat(0.0, tile<64x64 x f32>)\n",
     "%v$i = for %i$i = 0 to %n step 64 carry(%c$i = %v$p) {\n"
     "%l$i = load %x[0 +: 64, %i$i +: 64] boundary(0, 1)\n"
     "%r$i = load %x[%i$i +: 64, 0 +: 64] boundary(0, 1)\n"
     "yield dot(%l$i, %r$i, %c$i) }\n",
     NULL,
     NULL,
     STORE("%v$l", "64, 0 +: 64")},
    {.name = "loop-of-dots",
     "kernel @k(%x: tensor<[?, ?] x bf16>, %y: tensor<[?, ?] x f32>, %n: i32) "
     "grid(1) {\n%z = splat(0.0, tile<64x64 x f32>)\n"
     "%v = for %i = 0 to %n step 64 carry(%v0 = %z) stages(4) {\n"
     "%l = load %x[0 +: 64, %i +: 64] boundary(0, 1)\n",
     "%r$i = load %x[%i + $i +: 64, 0 +: 64] boundary(0, 1)\n"
     "%v$i = dot(%l, %r$i, %v$p)\n",
     NULL,
     NULL,
     "yield %v$l }\n" STORE("%v", "64, 0 +: 64")},
    {.name = "loop-carries",
     KERNEL "%r0",
     ", %r$i",
     " = for %i = 0 to %n carry(%c0 = 0.0",
     ", %c$i = %a",
     ") {\nyield %c0 * %c1",
     0},
    {.name = "whiles-nested",
     KERNEL,
     "%w$i = while carry(%n$i = %n) {\n"
     "condition %n$i > $i\n} do {\n",
     "print \"n\", %n1\n",
     "yield 0 }\n",
     "}\n",
     60},

    /* Wide tiles. */
    {.name = "wide",
     KERNEL LOAD("4096, 0 +: 4096") STORE("%v0 * 2.0", "4096, 0 +: 4096")},
    {.name = "wide-chain",
     KERNEL LOAD("4096, 0 +: 4096"),
     "%v$i = %v$p * %a + %v0\n",
     NULL,
     NULL,
     STORE("%v$l", "4096, 0 +: 4096")},
    {.name = "wide-chain-of-20",
     KERNEL LOAD("4096, 0 +: 4096"),
     "%v$i = %v$p * %a + %v0\n",
     NULL,
     NULL,
     STORE("%v$l", "4096, 0 +: 4096"),
     20},
    {.name = "wide-1024",
     KERNEL LOAD("1024, 0 +: 1024"),
     "%v$i = %v$p * %a + %v0\n",
     NULL,
     NULL,
     STORE("%v$l", "1024, 0 +: 1024")},
    {.name = "wide-256",
     KERNEL LOAD("256, 0 +: 256"),
     "%v$i = exp(%v$p) + %v0\n",
     NULL,
     NULL,
     STORE("%v$l", "256, 0 +: 256")},
    {.name = "chain",
     KERNEL LOAD("64, 0 +: 64"),
     "%v$i = %v$p * %a + %v$p\n",
     NULL,
     NULL,
     STORE("%v$l", "64, 0 +: 64")},
    {.name = "chain-exp",
     KERNEL LOAD("64, 0 +: 64"),
     "%v$i=exp(%v$p)\n",
     NULL,
     NULL,
     STORE("%v$l", "64, 0 +: 64")},
    {.name = "chain-kept",
     KERNEL LOAD("64, 0 +: 64"),
     "%v$i=tanh(%v$p)\n",
     "%w$e = %v0\n",
     "%w$i=%w$n+%v$i\n",
     STORE("%w1", "64, 0 +: 64")},
    {.name = "chain-erf-f64",
     "kernel @k(%x: tensor<[?, ?] x f64>, %y: tensor<[?, ?] x f64>) grid(1) "
     "{\n" LOAD("64, 0 +: 64"),
     "%v$i=erf(%v$p)\n",
     NULL,
     NULL,
     STORE("%v$l", "64, 0 +: 64")},
    {.name = "chain-casts",
     KERNEL LOAD("64, 0 +: 64"),
     "%v$i=cast(cast(%v$p, f8e4m3), f32) + %v$p\n",
     NULL,
     NULL,
     STORE("%v$l", "64, 0 +: 64")},
    {.name = "chain-negations",
     KERNEL "%v = -%a",
     "*-%a",
     NULL,
     NULL,
     "\nprint \"v\", %v\n}\n"},
    {.name = "row",
     "kernel @k(%x: tensor<[?] x f32>) grid(1) {\n"
     "%v = load %x[0 +: 16777216] boundary(0)\n"
     "store %x[0 +: 16777216], exp(%v) boundary(0)\n}\n"},
    {.name = "wide-sum",
     KERNEL LOAD("4096, 0 +: 4096") "print \"s\", sum(sum(%v0, "
                                    "axis=1))\n}\n"},
    {.name = "wide-region",
     KERNEL LOAD(
         "64, 0 +: 4096") "%r = reduce %v0 axis(1) (%p0: f32, %q: f32) {\n",
     "%p$i = min(%p$p, %q) + max(%p$p, %q)\n",
     NULL,
     NULL,
     "yield %p$l }\nprint \"s\", sum(%r)\n}\n"},
    {.name = "wide-trans",
     KERNEL LOAD("4096, 0 +: 4096") STORE("trans(%v0)", "4096, 0 +: 4096")},
    {.name = "wide-reshape",
     KERNEL LOAD("4096, 0 +: 4096") "%w = reshape %v0 : tile<16384x1024 x "
                                    "f32>\n" STORE("%w", "16384, 0 +: 1024")},
    {.name = "wide-gather",
     KERNEL "%k = range(4096)\n"
            "%v = gather %t, %k * 3 + %k[:, none]\n" STORE("cast(%v, f32)",
                                                           "4096, 0 +: 4096")},
    {.name = "wide-atomic",
     "kernel @k(%p: ptr<f32>) grid(1) {\n"
     "%at = %p + range(4194304)\n"
     "%o = atomic %at, splat(1.0, tile<4194304 x f32>) "
     "kind(add)\n}\n"},
    {.name = "wide-masked",
     "kernel @k(%p: ptr<f32>, %n: i32) grid(1) {\n%i = range(4194304)\n"
     "%at = %p + %i\n%v = load %at, %i < %n, 0.0\n"
     "store %at, %v * 2.0, %i < %n\n}\n"},
    {.name = "wide-dot",
     KERNEL LOAD("1024, 0 +: 1024") STORE("dot(%v0, %v0)", "1024, 0 +: 1024")},
    {.name = "axes",
     KERNEL "%v0 = splat(%a, tile<8x8x8x8x8x8x8x8 x f32>)\n",
     "%v$i = trans(%v$p) + %v$p\n",
     NULL,
     NULL,
     "%s = reshape %v$l : tile<4096x4096 x f32>\n" STORE("%s",
                                                         "4096, 0 +: 4096"),
     4},
    {.name = "conversions",
     KERNEL LOAD("128, 0 +: 128"),
     "%v$i = trans(%v$p) + %v$p\n",
     NULL,
     NULL,
     STORE("%v$l", "128, 0 +: 128")},

    /* Many ops. */
    {.name = "dots",
     "kernel @k(%x: tensor<[?, ?] x bf16>, %y: tensor<[?, ?] x f32>) grid(1) "
     "{\n%l = load %x[0 +: 64, 0 +: 64] boundary(0, 1)\n"
     "%v0 = splat(0.0, tile<64x64 x f32>)\n",
     "%v$i = dot(%l, %l, %v$p * 2.0)\n",
     NULL,
     NULL,
     STORE("%v$l", "64, 0 +: 64")},
    {.name = "dots-of-dots",
     "kernel @k(%x: tensor<[?, ?] x bf16>, %y: tensor<[?, ?] x f32>) grid(1) "
     "{\n%l0 = load %x[0 +: 64, 0 +: 64] boundary(0, 1)\n",
     "%l$i = cast(dot(%l$p, trans(%l$p)), bf16)\n",
     NULL,
     NULL,
     STORE("cast(%l$l, f32)", "64, 0 +: 64")},
    {.name = "dots-ieee",
     KERNEL LOAD("64, 0 +: 64"),
     "%v$i = dot(%v$p, %v0)\n",
     NULL,
     NULL,
     STORE("%v$l", "64, 0 +: 64")},
    {.name = "loads",
     KERNEL LOAD("64, 0 +: 64"),
     "%u$i = load %x[$i +: 64, 0 +: 64] boundary(0, 1)\n"
     "%v$i = %v$p + %u$i\n",
     NULL,
     NULL,
     STORE("%v$l", "64, 0 +: 64")},
    {.name = "loads-kept",
     KERNEL,
     "%u$i = load %x[$i +: 8, 0 +: 8]\n",
     "%w$e = 0.0\n",
     "%w$i=%w$n+sum(%u$i, axis=1)\n",
     "print \"s\", sum(%w1)\n}\n"},
    {.name = "stores",
     KERNEL LOAD("64, 0 +: 64"),
     "store %y[$i +: 64, 0 +: 64], %v0 boundary(0, 1)\n",
     NULL,
     NULL,
     "}\n"},
    {.name = "sums",
     KERNEL LOAD("64, 0 +: 64") "%s0 = %a\n",
     "%s$i = sum(sum(%v0 * %s$p, axis=0))\n",
     NULL,
     NULL,
     "print \"s\", %s$l\n}\n"},
    {.name = "constants",
     KERNEL "%s0 = %a\n",
     "%s$i=%s$p+$i.5\n",
     NULL,
     NULL,
     "print \"s\", %s$l\n}\n"},
    {.name = "asserts", KERNEL, "assert %n != $i, \"$i\"\n", NULL, NULL, "}\n"},
    {.name = "assumes",
     KERNEL,
     "assume %n != $i\n",
     NULL,
     NULL,
     "print \"n\", %n\n}\n"},
    {.name = "prints", KERNEL, "print \"$i\", %n\n", NULL, NULL, "}\n"},
    {.name = "gathers",
     KERNEL "%s0 = %n\n",
     "%s$i=%t[%s$p]\n",
     NULL,
     NULL,
     "print \"s\", %s$l\n}\n"},
    {.name = "gathers-of-tiles",
     KERNEL "%s0 = range(256)\n",
     "%s$i=%t[%s$p + $i]\n",
     NULL,
     NULL,
     "print \"s\", sum(%s$l)\n}\n"},
    {.name = "bisects",
     KERNEL "%s0 = %n\n",
     "%s$i=bisect(%t,%s$p)\n",
     NULL,
     NULL,
     "print \"s\", %s$l\n}\n"},
    {.name = "bisects-of-tiles",
     KERNEL "%s0 = range(256)\n",
     "%s$i=bisect(%t,%s$p + $i)\n",
     NULL,
     NULL,
     "print \"s\", sum(%s$l)\n}\n"},
    {.name = "atomics",
     "kernel @k(%p: ptr<i32>) grid(1) {\n%s0 = 1\n",
     "%s$i = atomic %p + $i, %s$p kind(add)\n",
     NULL,
     NULL,
     "}\n"},
    {.name = "programs-follow",
     "kernel @k(%p: ptr<i32>) grid(1) {\n",
     "follow %p + $i, %p + $p, $i\n",
     NULL,
     NULL,
     "}\n"},

    /* Values that are used twice each: 2^n ways through them. */
    {.name = "twice-scalars",
     KERNEL "%i0 = %n\n",
     "%i$i = %i$p * 3 + %i$p\n",
     NULL,
     NULL,
     "%v0 = load %x[%i$l +: 64, 0 +: 64] boundary(0, 1)\n" STORE(
         "%v0", "64, 0 +: 64")},
    {.name = "twice-minima",
     KERNEL "%i0 = %n\n",
     "%i$i = min(%i$p, $i) + max(%i$p, 3) / 2\n",
     NULL,
     NULL,
     "for %j = 0 to %i$l step 64 {\n"
     "%v = load %x[%j +: 64, 0 +: 64] boundary(0, 1)\n"
     "store %y[%j +: 64, 0 +: 64], %v boundary(0, 1)\n}\n}\n"},
    {.name = "twice-masks",
     KERNEL LOAD("64, 0 +: 64") "%k = range(64)\n%m0 = %k < %n\n",
     "%m$i = (%m$p and %k > $i) or (%m$p and %k < %n + $i)\n",
     NULL,
     NULL,
     STORE("select(%m$l, %v0, 0.0)", "64, 0 +: 64")},
    {.name = "twice-selects",
     KERNEL LOAD("64, 0 +: 64") "%k = range(64)\n",
     "%v$i = select(%k < $i, %v$p, exp2(%v$p))\n",
     NULL,
     NULL,
     STORE("%v$l", "64, 0 +: 64")},
    {.name = "twice-ints",
     KERNEL "%k0 = range(64)\n",
     "%k$i = min(%k$p, $i) + rem(%k$p, 7)\n",
     NULL,
     NULL,
     "print \"s\", sum(%t[%k$l])\n}\n"},
    {.name = "twice-indices",
     "func @f(%k0: i32, %t: tensor<[?] x i32>) -> i32 {\n",
     "%k$i = min(%k$p, $i) + %k$p * 3\n",
     NULL,
     NULL,
     "return %t[%k$l]\n}\n" KERNEL "print \"s\", sum(@f(range(64), %t))\n}\n"},
    {.name = "twice-loops",
     KERNEL "%k = range(64)\n"
            "for %j = 0 to %n step 64 {\n"
            "%m0 = %j + %k < %n\n",
     "%m$i = (%m$p and %j + %k > $i) or (%m$p and %j < %n - $i)\n",
     NULL,
     NULL,
     "if any(%m$l) speculatable {\n"
     "store %y[0 +: 64, 0 +: 64], splat(1.0, tile<64x64 x f32>) kind(add) "
     "boundary(0, 1)\n}\n}\n}\n"},
    {.name = "twice-bounds",
     KERNEL "%v0 = load %x[0 +: 64, 0 +: 64]\n",
     "%v$i = tanh(%v$p) * %v$p\n",
     NULL,
     NULL,
     "%m = max(%v$l, axis=1, max_slack=80)\n"
     "print \"s\", sum(sum(exp2(%v$l - %m[:, none]), axis=1))\n}\n"},

    /* Masks and scores. */
    {.name = "mask-terms",
     MASK "return %k == 0",
     " or %k == $i",
     NULL,
     NULL,
     "}\n",
     FORWARD},
    {.name = "mask-windows",
     MASK "return %k == %q",
     " or (%k <= %q + $i and %q - %k < $i)",
     NULL,
     NULL,
     "}\n",
     FORWARD},
    {.name = "mask-windows-and",
     MASK "return %k == %q",
     " and (%k <= %q + $i or %q - %k < $i)",
     NULL,
     NULL,
     "}\n",
     FORWARD},
    {.name = "mask-twice",
     MASK "%m0 = %k <= %q\n",
     "%m$i = (%m$p and %k > $i) or (%m$p and %q - %k < $i)\n",
     NULL,
     NULL,
     "return %m$l }\n",
     FORWARD},
    {.name = "mask-gathers",
     MASK "return %t[%k] > 0",
     " or %t[%k + $i] == %t[%q]",
     NULL,
     NULL,
     "}\n",
     FORWARD},
    {.name = "mask-bisects",
     MASK "return %k == %q",
     " or bisect(%t, %q + $i) == bisect(%t, %k)",
     NULL,
     NULL,
     "}\n",
     FORWARD},
    {.name = "mask-ifs",
     MASK "%m0 = %k <= %q\n",
     "%m$i = if %k > %q + $i { yield %m$p and %k > $i } else { yield %m$p }\n",
     NULL,
     NULL,
     "return %m$l }\n",
     FORWARD},
    {.name = "mask-ifs-nested",
     MASK,
     "%m$i = if %k > %q + $i {\n",
     "%m$e = %k == 3\n",
     "yield %m$n } else { yield %q == $i }\n",
     "return %m1 }\n",
     60,
     FORWARD},
    {.name = "score-chain",
     SCORE,
     "%s$i = %s$p * 0.5 + tanh(%s$p)\n",
     NULL,
     NULL,
     "return %s$l }\n",
     SCORED},
    {.name = "score-gathers",
     SCORE,
     "%s$i = %s$p + %t[%q - %k + $i]\n",
     NULL,
     NULL,
     "return %s$l }\n",
     SCORED},
    {.name = "score-ifs",
     SCORE,
     "%s$i = if %k > $i { yield %s$p * 0.5 } else { yield exp(%s$p) }\n",
     NULL,
     NULL,
     "return %s$l }\n",
     SCORED},

    /* Gradients. */
    {.name = "gradient-chain",
     "func @f(%s0: f32) -> f32 {\n",
     "%s$i = %s$p * 0.5 + tanh(%s$p)\n",
     NULL,
     NULL,
     "return %s$l }\n" KERNEL LOAD("64, 0 +: 64")
         STORE("vjp @f(%v0) seed(1.0)", "64, 0 +: 64")},
    {.name = "gradient-ifs",
     "func @f(%s0: f32) -> f32 {\n",
     "%s$i = if %s$p > $i.5 { yield %s$p * 0.5 } else { yield exp(%s$p) }\n",
     NULL,
     NULL,
     "return %s$l }\n" KERNEL LOAD("64, 0 +: 64")
         STORE("vjp @f(%v0) seed(1.0)", "64, 0 +: 64")},
    {.name = "gradient-fors",
     "func @f(%s0: f32) -> f32 {\n",
     "%s$i = for %i$i = 0 to 9 carry(%c$i = %s$p) { yield tanh(%c$i) }\n",
     NULL,
     NULL,
     "return %s$l }\n" KERNEL LOAD("64, 0 +: 64")
         STORE("vjp @f(%v0) seed(1.0)", "64, 0 +: 64")},
    {.name = "gradient-fors-nested",
     "func @f(%c0: f32) -> f32 {\n",
     "%s$i = for %i$i = 0 to 9 carry(%c$i = %c$p) {\n",
     "%s$e = tanh(%c$l)\n",
     "yield %s$n }\n",
     "return %s1 }\n" KERNEL LOAD("64, 0 +: 64")
         STORE("vjp @f(%v0) seed(1.0)", "64, 0 +: 64"),
     6},
    {.name = "gradient-gathers",
     "func @f(%s0: f32, %i: i32, %t: tensor<[?] x f32>) -> f32 {\n",
     "%s$i = %s$p * %t[%i + $i]\n",
     NULL,
     NULL,
     "return %s$l }\n"
     "kernel @k(%t: tensor<[?] x f32>, %g: tensor<[?] x f32>) grid(1) {\n"
     "%d = vjp @f(0.5, range(64), %t) seed(1.0) into(t=%g)\n"
     "print \"d\", sum(%d)\n}\n"},
    {.name = "gradient-of-scores",
     SCORE,
     "%s$i = %s$p * 0.5 + tanh(%s$p)\n",
     NULL,
     NULL,
     "return %s$l }\n",
     0,
     "attention_bwd",
     {"D=64", "T=bf16", "score_mod=@s"}},

    /* Plans. */
    {.name = "plan-launches",
     "kernel @c[N: int](%x: tensor<[?] x f32>) grid(1) {\n"
     "%v = load %x[0 +: N] boundary(0)\n"
     "store %x[0 +: N], %v * 2.0 boundary(0)\n}\n"
     "plan @k(%x: tensor<[?] x f32>) {\n",
     "launch @c[N=8*$i](%x)\n",
     NULL,
     NULL,
     "}\n"},
    {.name = "plan-launches-alike",
     "kernel @c[N: int](%x: tensor<[?] x f32>) grid(1) {\n"
     "%v = load %x[0 +: N] boundary(0)\n"
     "store %x[0 +: N], %v * 2.0 boundary(0)\n}\n"
     "plan @k(%x: tensor<[?] x f32>) {\n",
     "launch @c[N=8](%x)\n",
     NULL,
     NULL,
     "}\n"},
    {.name = "plan-workspaces",
     "plan @k(%x: tensor<[?] x f32>) {\n",
     "%w$i = workspace size(%x, 0) + $i : tensor<[?] x f32>\n",
     NULL,
     "fill %w$i\n",
     "}\n"},
    {.name = "plan-ifs",
     "plan @k(%x: tensor<[?] x f32>) {\n",
     "if size(%x, 0) > $i { fill %x }\n",
     NULL,
     NULL,
     "}\n"},
    {.name = "plan-ifs-nested",
     "plan @k(%x: tensor<[?] x f32>) {\n",
     "if size(%x, 0) > $i {\n",
     NULL,
     "} else { fill %x value($i) }\n",
     "}\n",
     60},
    {.name = "plan-scalars",
     "plan @k(%x: tensor<[?] x f32>) {\n%n0 = size(%x, 0)\n",
     "%n$i = %n$p * 3 + %n$p\n",
     NULL,
     NULL,
     "assert %n$l > 0, \"n\"\nfill %x\n}\n"},

    /* Machine level. */
    {.name = "machine-buffers",
     "kernel @k(%x: tensor<[64, 64] x f16>) warps(4) grid(1) {\n",
     "%b$i = smem_alloc : smem<8x8 x f16, #rows>\n",
     "%v = splat(1.0, tile<8x8 x f16, #blocked(1x1, 4x8, 4x1)>)\n",
     "smem_store %b$i, %v\n",
     "}\n",
     .gpu_only = true},
    {.name = "machine-stores",
     "kernel @k(%x: tensor<[64, 64] x f16>) warps(4) grid(1) {\n"
     "%b = smem_alloc : smem<64x64 x f16, #rows>\n"
     "%v0 = load %x[0 +: 64, 0 +: 64] : tile<64x64 x f16, #blocked(1x8, 4x8, "
     "4x1)>\n",
     "smem_store %b, %v$p\n%v$i = smem_load %b : tile<64x64 x f16, "
     "#blocked(1x8, 4x8, 4x1)>\n",
     NULL,
     NULL,
     "store %x[0 +: 64, 0 +: 64], %v$l\n}\n",
     .gpu_only = true},
    {.name = "machine-barriers",
     "kernel @k(%n: i32) warps(4) grid(1) {\n",
     "barrier\n",
     NULL,
     NULL,
     "}\n",
     .gpu_only = true},
    {.name = "machine-converts",
     "kernel @k(%p: ptr<f32>) warps(4) grid(1) {\n"
     "%w0 = splat(1.0, tile<64x64 x f32, #blocked(8x1, 16x2, 1x4)>)\n",
     "%v$i = convert_layout(%w$p, tile<64x64 x f32, #blocked(1x8, 4x8, 4x1)>)\n"
     "%w$i = convert_layout(%v$i, tile<64x64 x f32, #blocked(8x1, 16x2, "
     "1x4)>)\n",
     NULL,
     NULL,
     "print \"s\", sum(sum(%w$l, axis=1))\n}\n",
     .gpu_only = true},
    {.name = "machine-roles",
     "kernel @k(%n: i32) warps(4) grid(1) {\n",
     "warp_groups producer {\n} consumer {\n}\n",
     NULL,
     NULL,
     "}\n",
     .gpu_only = true},
    {.name = "machine-wide",
     "kernel @k(%x: tensor<[?, ?] x f32>) warps(4) grid(1) {\n"
     "%v0 = load %x[0 +: 4096, 0 +: 4096] boundary(0, 1) : tile<4096x4096 x "
     "f32, #blocked(1x8, 4x8, 4x1)>\n",
     "%v$i = exp(%v$p)\n",
     NULL,
     NULL,
     "print \"s\", sum(sum(%v$l, axis=1))\n}\n",
     8,
     .gpu_only = true},
};
const unsigned growth_ncases = sizeof growth_cases / sizeof *growth_cases;

const struct growth_case *growth_find(const char *name)
{
    for (unsigned i = 0; i < growth_ncases; i++)
        if (strcmp(growth_cases[i].name, name) == 0)
            return &growth_cases[i];
    return NULL;
}

/* ---- Making them ---- */

struct text {
    char *data; /* NULL: only count */
    size_t len;
};

static void add(struct text *t, const char *s, size_t n)
{
    if (t->data)
        memcpy(t->data + t->len, s, n);
    t->len += n;
}

static int number_of(char letter, int i, int last)
{
    switch (letter) {
    case 'p': return i - 1;
    case 'n': return i + 1;
    case 'l': return last;
    case 'e': return last + 1;
    default: return i;
    }
}

static void add_piece(struct text *t, const char *s, unsigned i, unsigned last)
{
    for (; s && *s; s++) {
        char number[16];
        if (*s != '$') {
            add(t, s, 1);
            continue;
        }
        int n = number_of(*++s, (int)i, (int)last);
        add(t, number, (size_t)snprintf(number, sizeof number, "%d", n));
    }
}

static void add_all(struct text *t, const struct growth_case *c, unsigned n)
{
    add_piece(t, c->head, 1, n);
    for (unsigned i = 1; c->piece && i <= n; i++)
        add_piece(t, c->piece, i, n);
    add_piece(t, c->middle, 1, n);
    for (unsigned i = n; c->close && i >= 1; i--)
        add_piece(t, c->close, i, n);
    add_piece(t, c->tail, 1, n);
}

static size_t length_of(const struct growth_case *c, unsigned n)
{
    struct text t = {0};
    add_all(&t, c, n);
    return t.len;
}

/* The most pieces that fit. */
static unsigned count_pieces(const struct growth_case *c)
{
    unsigned low = 1, high = c->most ? c->most : GROWTH_MOST;
    if (!c->piece || length_of(c, high) <= GROWTH_MOST)
        return high;
    while (high - low > 1) {
        unsigned mid = (low + high) / 2;
        *(length_of(c, mid) <= GROWTH_MOST ? &low : &high) = mid;
    }
    return low;
}

char *growth_text(const struct growth_case *c, unsigned pieces)
{
    struct text t = {.data = calloc(1, GROWTH_MOST + 1)};
    if (!t.data)
        abort();
    add_all(&t, c, pieces ? pieces : count_pieces(c));
    return t.data;
}

tilec_status growth_compile(tilec_context *cx, const struct growth_case *c,
                            const char *target, unsigned pieces,
                            tilec_kernel **out)
{
    char *text = growth_text(c, pieces);
    tilec_source sources[] = {tilec_text(c->kernel, NULL, 0),
                              tilec_text(c->name, text, 0)};
    tilec_binding bindings[GROWTH_BINDINGS];
    char names[GROWTH_BINDINGS][32];
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = target;
    o.kernel = c->kernel ? c->kernel : "k";
    o.bindings = bindings;
    o.no_load = o.no_cache = 1;
    for (unsigned i = 0; i < GROWTH_BINDINGS && c->bindings[i]; i++) {
        size_t n = strcspn(c->bindings[i], "=");
        snprintf(names[i], sizeof names[i], "%.*s", (int)n, c->bindings[i]);
        bindings[i] = (tilec_binding){names[i], c->bindings[i] + n + 1};
        o.nbindings++;
    }
    unsigned first = c->kernel == NULL;
    tilec_status status =
        tilec_compile(cx, sources + first, 2 - first, &o, out);
    free(text);
    return status;
}
