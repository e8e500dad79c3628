/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of reductions with a region and by name, and of dots.
 */
#include "test/numerics/programs.h"

static void argmax(world *w)
{
    for (int y = 0; y < 16; y++) {
        int best = 0;
        for (int x = 1; x < 32; x++)
            if (w->x[y][x] > w->x[y][best])
                best = x;
        w->o[0][y] = w->x[y][best];
        w->p[0][y] = best;
    }
    for (int x = 0; x < 32; x++) {
        int best = 0;
        for (int y = 1; y < 16; y++)
            if (w->x[y][x] > w->x[best][x])
                best = y;
        w->o[1][x] = w->x[best][x];
        w->p[1][x] = best;
    }
}

static void welford(world *w)
{
    for (int y = 0; y < 8; y++) {
        double mean = 0, m2 = 0;
        for (int x = 0; x < 64; x++)
            mean += w->x[y][x] / 64;
        for (int x = 0; x < 64; x++)
            m2 += (w->x[y][x] - mean) * (w->x[y][x] - mean);
        w->o[0][y] = (float)mean;
        w->o[1][y] = (float)m2;
        w->o[2][y] = 64;
    }
}

static void sugar(world *w)
{
    float total = 0;
    bool any = false, all = true;
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 16; x++) {
            total += w->x[y][x];
            w->o[1][y] =
                x == 0 || w->x[y][x] > w->o[1][y] ? w->x[y][x] : w->o[1][y];
            w->o[2][x] =
                y == 0 || w->x[y][x] < w->o[2][x] ? w->x[y][x] : w->o[2][x];
            any |= w->x[y][x] == 8;
            all &= w->x[y][x] > -8;
        }
    w->o[0][0] = total;
    w->p[0][0] = any;
    w->p[0][1] = all;
}

static void dots(world *w)
{
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 8; x++) {
            float a = 0, b = w->x[y][x];
            for (int k = 0; k < 24; k++)
                a += w->x[y][k] * w->x[k][x];
            for (int k = 0; k < 8; k++)
                b += w->x[k][y] * w->x[x][k];
            w->o[y][x] = a;
            w->o[y][x + 8] = b;
            w->o[y][x + 16] = a;
            w->o[y][x + 24] = a;
            w->o[y][x + 32] = a;
        }
}

#define ARGMAX_REGION                                                          \
    "(%a: f32, %ai: i32, %b: f32, %bi: i32) {\n"                               \
    "  %first = %a > %b or (%a == %b and %ai < %bi)\n"                         \
    "  yield select(%first, %a, %b), select(%first, %ai, %bi)\n"               \
    "}\n"

/* A comparison's bits as an f16: LLVM could not select that. */
static void mask_as_half(world *w)
{
    w->o[0][0] = w->n ? 0x1p-24f : 0;
}

const world_test programs_values[] = {
    {.name = "argmax",
     .grid = "1",
     .expect = argmax,
     .body = "%t = load %x[0 +: 16, 0 +: 32]\n"
             "%columns = broadcast(range(32)[none, :], tile<16x32 x i32>)\n"
             "%rows = broadcast(range(16)[:, none], tile<16x32 x i32>)\n"
             "%v, %at = reduce %t, %columns axis(1) " ARGMAX_REGION
             "store %o[0, 0 +: 16], %v\n"
             "store %p[0, 0 +: 16], %at\n"
             "%u, %au = reduce %t, %rows axis(0) " ARGMAX_REGION
             "store %o[1, 0 +: 32], %u\n"
             "store %p[1, 0 +: 32], %au\n"},
    {.name = "mean and variance",
     .grid = "1",
     .tolerance = 1e-5,
     .expect = welford,
     .body =
         "%t = load %x[0 +: 8, 0 +: 64]\n"
         "%zero = splat(0.0, tile<8x64 x f32>)\n"
         "%one = splat(1.0, tile<8x64 x f32>)\n"
         "%m, %s, %c = reduce %t, %zero, %one axis(1)\n"
         "    (%ma: f32, %sa: f32, %ca: f32, %mb: f32, %sb: f32, %cb: f32) {\n"
         "  %d = %mb - %ma\n"
         "  %cc = %ca + %cb\n"
         "  yield %ma + %d * (%cb / %cc),\n"
         "        %sa + %sb + %d * %d * (%ca * %cb / %cc), %cc\n"
         "}\n"
         "store %o[0, 0 +: 8], %m\n"
         "store %o[1, 0 +: 8], %s\n"
         "store %o[2, 0 +: 8], %c\n"},
    {.name = "reductions by name",
     .grid = "1",
     .expect = sugar,
     .body = "%t = load %x[0 +: 8, 0 +: 16]\n"
             "store base(%o), sum(sum(%t, axis=1), axis=0)\n"
             "store %o[1, 0 +: 8], max(%t, axis=1)\n"
             "store %o[2, 0 +: 16], min(%t, axis=0)\n"
             "%any = any(any(%t == 8.0, axis=0), axis=0)\n"
             "%all = all(all(%t > -8.0, axis=1), axis=0)\n"
             "store base(%p), cast(%any, i32)\n"
             "store ptr_add(base(%p), 1), cast(%all, i32)\n"},
    {.name = "dots",
     .grid = "1",
     .expect = dots,
     .body = "%a = load %x[0 +: 16, 0 +: 24]\n"
             "%b = load %x[0 +: 24, 0 +: 8]\n"
             "store %o[0 +: 16, 0 +: 8], dot(%a, %b)\n"
             "%c = load %x[0 +: 8, 0 +: 16]\n"
             "%d = load %x[0 +: 8, 0 +: 8]\n"
             "%e = load %x[0 +: 16, 0 +: 8]\n"
             "store %o[0 +: 16, 8 +: 8], dot(trans(%c), trans(%d), %e)\n"
             "store %o[0 +: 16, 16 +: 8], dot(cast(%a, f16), cast(%b, f16))\n"
             "store %o[0 +: 16, 24 +: 8],\n"
             "    dot(cast(%a, f8e4m3), cast(%b, bf16))\n"
             "store %o[0 +: 16, 32 +: 8],\n"
             "    cast(dot(cast(%a, f64), cast(%b, f64)), f32)\n"},
    {.name = "a comparison as f16",
     .grid = "1",
     .n = {0, 3},
     .expect = mask_as_half,
     .body = "%c = cast(%n, f32) != 0.0\n"
             "%bits = cast(%c, i16)\n"
             "%h = bitcast(%bits, f16)\n"
             "store base(%o), cast(%h, f32)\n"},
    {0},
};
