/* SPDX-License-Identifier: Apache-2.0
 *
 * Small programs for what single ops do not show: control flow, memory,
 * reductions with a region, calls, atomics, errors at run time, print.
 */
#include "test/numerics/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Control flow ---- */

static void count_up(world *w)
{
    for (int k = 0; k < w->n; k++) {
        w->p[0][0] += k;
        w->p[0][1]++;
    }
}

/* Ranges that start below zero, run backwards, stand still, or would wrap. */
static void odd_ranges(world *w)
{
    for (int k = -7; k < w->n; k += 3)
        w->p[0][0] = w->p[0][0] * 10 + k;
    w->p[0][3] = 640 + 645;
    w->p[0][4] = 3;
}

static void fibonacci(world *w)
{
    int a = 0, b = 1, c = 7;
    for (int k = 0; k < w->n; k++) {
        int sum = a + b, old = c;
        a = b;
        b = sum;
        c = old - a;
    }
    w->p[0][0] = a;
    w->p[0][1] = b;
    w->p[0][2] = c;
}

/* Three tiles trade places n times. */
static void rotate(world *w)
{
    for (int x = 0; x < 16; x++)
        for (int row = 0; row < 3; row++)
            w->o[row][x] = w->x[((row - w->n) % 3 + 3) % 3][x];
}

static void nested(world *w)
{
    for (int a = 0; a < w->n; a++)
        for (int b = a; b < w->n; b++)
            w->p[0][0] += (a + b) % 2 ? a * b : b > 3 ? -b : a - b;
}

static void bare_if(world *w)
{
    if (w->n > 3)
        w->p[1][1] = w->n;
    w->p[2][2] = w->n > 0 ? w->n > 5 ? 3 : 2 : 1;
}

static void collatz(world *w)
{
    int v = w->n, steps = 0;
    for (; v > 1; steps++)
        v = v % 2 ? 3 * v + 1 : v / 2;
    w->p[0][0] = v;
    w->p[0][1] = steps;
}

/* A while in a for; its condition's side passes on other values than it got.
 */
static void while_in_for(world *w)
{
    for (int x = 0; x < 8; x++) {
        float v = w->x[0][x];
        for (int k = 0; k < w->n; k++)
            for (int c = 0; c < k; c++)
                v = v + (float)c;
        w->o[0][x] = v;
    }
}

/* Two tiles trade places in other shapes. */
static void swap_shapes(world *w)
{
    for (int x = 0; x < 8; x++) {
        w->o[0][x] = w->n % 2 ? 4 : w->x[0][x];
        w->o[1][x] = w->n > 0 ? 3 : w->x[0][x];
    }
}

static void no_result(world *w)
{
    for (int k = 0; k < w->n; k++)
        for (int x = 0; x < 8; x++)
            w->p[k][x] = w->i[k][x] * k;
}

/* ---- Programs of the grid ---- */

static void grid3(world *w)
{
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 2; c++)
                w->p[a][b * 2 + c] = a + 10 * b + 100 * c + 1000 * (5 * 3 * 2);
}

static void no_programs(world *w)
{
    (void)w;
}

/* ---- Memory ---- */

static float at(const world *w, int y, int x, float pad)
{
    return y >= 0 && y < WORLD_ROWS && x >= 0 && x < WORLD_COLUMNS ? w->x[y][x]
                                                                   : pad;
}

static void windows(world *w)
{
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 8; x++) {
            w->o[y][x] = at(w, y + w->n, x - 3, 0);
            w->o[y][x + 8] = at(w, y + 25, x + 60, -1.5f);
            w->o[y][x + 16] = at(w, y - w->n, x + 64, 9);
        }
}

static void clipped_store(world *w)
{
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 8; x++) {
            if (y >= 5)
                w->p[y - 5][WORLD_OUT - 8 + x] = 1 + y;
            if (x < 3)
                w->p[WORLD_OUT - 16 + y][WORLD_OUT - 3 + x] = 2 + x;
        }
}

static void dropped_dims(world *w)
{
    for (int x = 0; x < 32; x++) {
        w->o[3][x] = w->x[w->n][x + 8];
        w->o[x][40] = w->x[x][w->n];
    }
}

static void advanced(world *w)
{
    for (int k = 0; k < 4; k++)
        for (int y = 0; y < 8; y++)
            for (int x = 0; x < 16; x++)
                w->o[y][x] += w->x[y + 2 * k][x + 16 * k];
}

static void gathered(world *w)
{
    for (int k = 0; k < 64; k++) {
        int y = k - 16, x = 3 * k - 8;
        bool inside = y >= 0 && y < WORLD_ROWS && x >= 0 && x < WORLD_COLUMNS;
        w->p[0][k] = inside ? w->i[y][x] : 0;
        w->p[1][k] = inside ? w->i[y][x] : 77;
    }
    w->p[2][0] = w->i[3][5];
    w->o[3][0] = 4.5f;
}

static void pointers(world *w)
{
    const float *x = &w->x[0][0];
    for (int k = 0; k < 64; k++) {
        w->o[0][k] = x[5 * k];
        w->o[1][k] = k < 40 ? x[5 * k] : -1;
        if (k % 2)
            w->o[2][2 * k] = x[k] + 0.5f;
    }
    w->o[3][3] = x[7];
    w->o[4][0] = w->n > 3 ? x[9] : 2;
}

static void views(world *w)
{
    w->p[0][0] = WORLD_ROWS;
    w->p[0][1] = WORLD_COLUMNS;
    w->p[0][2] = WORLD_COLUMNS;
    w->p[0][3] = 1;
}

/* ---- Reductions and dots ---- */

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

/* ---- Calls ---- */

static void calls(world *w)
{
    for (int y = 0; y < 8; y++) {
        float sum = 0;
        for (int x = 0; x < 16; x++) {
            float v = w->x[y][x];
            w->o[y][x] = v < 0 ? -2 * v : v + (float)w->n;
            sum += w->o[y][x];
        }
        w->o[y][16] = sum;
    }
    w->p[0][0] = w->n < 0 ? -w->n : w->n * w->n;
}

/* A function with a loop, lane by lane. */
static void lane_loop(world *w)
{
    for (int x = 0; x < 16; x++) {
        int v = w->i[0][x];
        for (int k = 0; k < 5; k++)
            v = v % 2 ? v * 3 + k : v - k;
        w->p[0][x] = v;
    }
}

/* ---- Atomics ---- */

enum { PROGRAMS = 3000 };

static void atomics(world *w)
{
    for (int k = 0; k < PROGRAMS; k++) {
        int bin = k % 7;
        w->p[0][bin]++;
        w->o[0][bin] += 2;
        w->p[1][0] = k * 37 % 1009 > w->p[1][0] ? k * 37 % 1009 : w->p[1][0];
        w->p[1][1] = -k * 37 % 1009 < w->p[1][1] ? -k * 37 % 1009 : w->p[1][1];
        w->p[1][2] |= 1 << k % 31;
        w->p[1][3] ^= k;
        w->p[2][0]++;
    }
    w->p[1][4] = 0; /* and with 0 at the end */
    for (int k = 0; k < 64; k++)
        w->p[3][k] = k % 2 ? PROGRAMS : 0;
    for (int k = 0; k < PROGRAMS; k++)
        w->p[8 + k / WORLD_OUT][k % WORLD_OUT] = 1;
    w->o[1][0] = (float)(PROGRAMS - 1);
}

#define ARGMAX_REGION                                                          \
    "(%a: f32, %ai: i32, %b: f32, %bi: i32) {\n"                               \
    "  %first = %a > %b or (%a == %b and %ai < %bi)\n"                         \
    "  yield select(%first, %a, %b), select(%first, %ai, %bi)\n"               \
    "}\n"

static const world_test tests[] = {
    {.name = "for counts",
     .grid = "1",
     .n = {0, 1, -3, 7, 1000},
     .expect = count_up,
     .body = "%s, %c = for %k = 0 to %n carry(%s0 = 0, %c0 = 0) {\n"
             "  yield %s0 + %k, %c0 + 1\n"
             "}\n"
             "store base(%p), %s\n"
             "store ptr_add(base(%p), 1), %c\n"},
    {.name = "for ranges",
     .grid = "1",
     .n = {0, -7, -6, -20, 9},
     .expect = odd_ranges,
     .body =
         "%a = for %k = -7 to %n step 3 carry(%a0 = 0) {\n"
         "  yield %a0 * 10 + %k\n"
         "}\n"
         "store base(%p), %a\n"
         "%b = for %k = 10 to -10 carry(%b0 = 0) { yield %b0 + 1 }\n"
         "store ptr_add(base(%p), 1), %b\n"
         "%zero = rem(%n, 1)\n"
         "%c = for %k = 0 to 10 step %zero carry(%c0 = 0) { yield %c0 + 1 }\n"
         "%d = for %k = 10 to 0 step %zero - 1 carry(%d0 = %c) { yield %d0 + 1 "
         "}\n"
         "store ptr_add(base(%p), 2), %d\n"
         "%e = for %k = 2147483640 to 2147483647 step 5 carry(%e0 = 0) {\n"
         "  yield %e0 + (%k - 2147483000)\n"
         "}\n"
         "store ptr_add(base(%p), 3), %e\n"
         "%lo = const -9223372036854775808 : i64\n"
         "%hi = const 9223372036854775807 : i64\n"
         "%step = const 9000000000000000000 : i64\n"
         "%f = for %k = %lo to %hi step %step carry(%f0 = 0) {\n"
         "  yield %f0 + 1\n"
         "}\n"
         "store ptr_add(base(%p), 4), %f\n"},
    {.name = "carried values swap",
     .grid = "1",
     .n = {0, 1, 2, 10},
     .expect = fibonacci,
     .body = "%a, %b, %c = for %k = 0 to %n\n"
             "    carry(%a0 = 0, %b0 = 1, %c0 = 7) {\n"
             "  yield %b0, %a0 + %b0, %c0 - %b0\n"
             "}\n"
             "store base(%p), %a\n"
             "store ptr_add(base(%p), 1), %b\n"
             "store ptr_add(base(%p), 2), %c\n"},
    {.name = "carried tiles rotate",
     .grid = "1",
     .n = {0, 1, 2, 3, 7},
     .expect = rotate,
     .body = "%a0 = load %x[0, 0 +: 16]\n"
             "%b0 = load %x[1, 0 +: 16]\n"
             "%c0 = load %x[2, 0 +: 16]\n"
             "%a, %b, %c = for %k = 0 to %n\n"
             "    carry(%a1 = %a0, %b1 = %b0, %c1 = %c0) {\n"
             "  yield %c1, %a1, %b1\n"
             "}\n"
             "store %o[0, 0 +: 16], %a\n"
             "store %o[1, 0 +: 16], %b\n"
             "store %o[2, 0 +: 16], %c\n"},
    {.name = "carried tiles change shape",
     .grid = "1",
     .n = {0, 1, 2, 5},
     .expect = swap_shapes,
     .body = "%t = load %x[0, 0 +: 8]\n"
             "%half = splat(3.0, tile<8 x f16>)\n"
             "%a0 = reshape %t : tile<8x1 x f32>\n"
             "%b0 = splat(4.0, tile<1x8 x f32>)\n"
             "%a, %b, %c = for %k = 0 to %n\n"
             "    carry(%a1 = %a0, %b1 = %b0, %c1 = %t) {\n"
             "  %d = reshape %a1 : tile<1x8 x f32>\n"
             "  %e = reshape %b1 : tile<8x1 x f32>\n"
             "  %f = cast %half : tile<8 x f32>\n"
             "  yield %e, %d, %f\n"
             "}\n"
             "store %o[0, 0 +: 8], reshape(%a, tile<8 x f32>)\n"
             "store %o[1, 0 +: 8], %c\n"},
    {.name = "nested for and if",
     .grid = "1",
     .n = {0, 1, 2, 9},
     .expect = nested,
     .body = "%s = for %a = 0 to %n carry(%s0 = 0) {\n"
             "  %t = for %b = %a to %n carry(%t0 = %s0) {\n"
             "    %v = if rem(%a + %b, 2) != 0 {\n"
             "      yield %a * %b\n"
             "    } else {\n"
             "      %u = if %b > 3 { yield -%b } else { yield %a - %b }\n"
             "      yield %u\n"
             "    }\n"
             "    yield %t0 + %v\n"
             "  }\n"
             "  yield %t\n"
             "}\n"
             "store base(%p), %s\n"},
    {.name = "if",
     .grid = "1",
     .n = {0, 3, 4, 9},
     .expect = bare_if,
     .body = "if %n > 3 {\n"
             "  store ptr_add(base(%p), 129), %n\n"
             "}\n"
             "%v = if %n > 0 {\n"
             "  %w = if %n > 5 { yield 3 } else { yield 2 }\n"
             "  yield %w\n"
             "} else {\n"
             "  yield 1\n"
             "}\n"
             "store ptr_add(base(%p), 258), %v\n"},
    {.name = "while",
     .grid = "1",
     .n = {0, 1, 2, 27},
     .expect = collatz,
     .body = "%v, %steps = while carry(%v0 = %n, %s0 = 0) {\n"
             "  condition %v0 > 1\n"
             "} do {\n"
             "  %odd = rem(%v0, 2) == 1\n"
             "  yield select(%odd, 3 * %v0 + 1, %v0 / 2), %s0 + 1\n"
             "}\n"
             "store base(%p), %v\n"
             "store ptr_add(base(%p), 1), %steps\n"},
    {.name = "while in for",
     .grid = "1",
     .n = {0, 1, 5},
     .expect = while_in_for,
     .body = "%t0 = load %x[0, 0 +: 8]\n"
             "%t = for %k = 0 to %n carry(%t1 = %t0) {\n"
             "  %u, %c = while carry(%u0 = %t1, %c0 = 0) {\n"
             "    %more = %u0 + cast(%c0, f32)\n"
             "    condition %c0 < %k\n"
             "  } do {\n"
             "    yield %more, %c0 + 1\n"
             "  }\n"
             "  yield %u\n"
             "}\n"
             "store %o[0, 0 +: 8], %t\n"},
    {.name = "for without results",
     .grid = "1",
     .n = {0, 1, 8},
     .expect = no_result,
     .body = "for %k = 0 to %n {\n"
             "  %t = load %i[%k, 0 +: 8]\n"
             "  store %p[%k, 0 +: 8], %t * %k\n"
             "}\n"},
    {.name = "three grid axes",
     .grid = "5, 3, 2",
     .expect = grid3,
     .body = "%a = program_id(0)\n"
             "%b = program_id(1)\n"
             "%c = program_id(2)\n"
             "%all = num_programs(0) * num_programs(1) * num_programs(2)\n"
             "%at = %a * 128 + %b * 2 + %c\n"
             "store ptr_add(base(%p), %at),\n"
             "    %a + 10 * %b + 100 * %c + 1000 * %all\n"},
    {.name = "an empty grid",
     .grid = "%n, 4",
     .expect = no_programs,
     .body = "store base(%p), 1\n"},
    {.name = "windows",
     .grid = "1",
     .n = {0, 1, 20, 31, 32, 100},
     .expect = windows,
     .body = "%a = load %x[%n +: 16, -3 +: 8] boundary(0, 1)\n"
             "store %o[0 +: 16, 0 +: 8], %a\n"
             "%b = load %x[25 +: 16, 60 +: 8] boundary(0, 1) pad(-1.5)\n"
             "store %o[0 +: 16, 8 +: 8], %b\n"
             "%c = load %x[-%n +: 16, 64 +: 8] boundary(0, 1) pad(9.0)\n"
             "store %o[0 +: 16, 16 +: 8], %c\n"},
    {.name = "clipped stores",
     .grid = "1",
     .expect = clipped_store,
     .body = "%r = broadcast(range(16)[:, none] + 1, tile<16x8 x i32>)\n"
             "store %p[-5 +: 16, size(%p, 1) - 8 +: 8], %r boundary(0)\n"
             "%c = broadcast(range(8)[none, :] + 2, tile<16x8 x i32>)\n"
             "store %p[112 +: 16, 125 +: 8], %c boundary(1)\n"},
    {.name = "dropped dims",
     .grid = "1",
     .n = {0, 7, 31},
     .expect = dropped_dims,
     .body = "%row = load %x[%n, 8 +: 32]\n"
             "store %o[3, 0 +: 32], %row\n"
             "%column = load %x[0 +: 32, %n]\n"
             "store %o[0 +: 32, 40], %column\n"},
    {.name = "advance",
     .grid = "1",
     .expect = advanced,
     .body = "%b0 = block %x[0 +: 8, 0 +: 16]\n"
             "%b, %s = for %k = 0 to 4\n"
             "    carry(%b1 = %b0, %s0 = splat(0.0, tile<8x16 x f32>)) {\n"
             "  %t = load %b1\n"
             "  yield advance(%b1, 2, 16), %s0 + %t\n"
             "}\n"
             "store %o[0 +: 8, 0 +: 16], %s\n"},
    {.name = "gather",
     .grid = "1",
     .expect = gathered,
     .body = "%y = range(64) - 16\n"
             "%c = range(64) * 3 - 8\n"
             "%a = gather %i, %y, %c\n"
             "store %p[0, 0 +: 64], %a\n"
             "%b = gather %i, %y, %c pad(77)\n"
             "store %p[1, 0 +: 64], %b\n"
             "store ptr_add(base(%p), 256), %i[3, 5]\n"
             "%d = gather %x, 2147483647, -2147483648 pad(4.5)\n"
             "store ptr_add(base(%o), 384), %d\n"},
    {.name = "tiles of pointers",
     .grid = "1",
     .n = {0, 9},
     .expect = pointers,
     .body = "%all = splat(base(%x), tile<64 x ptr<f32>>)\n"
             "%ptr = ptr_add(%all, range(64) * 5)\n"
             "%a = load %ptr\n"
             "store %o[0, 0 +: 64], %a\n"
             "%few = range(64) < 40\n"
             "%b = load %ptr, %few, splat(-1.0, tile<64 x f32>)\n"
             "store %o[1, 0 +: 64], %b\n"
             "%out = ptr_add(splat(base(%o), tile<64 x ptr<f32>>),\n"
             "               range(64) * 2 + 256)\n"
             "%c = load %x[0, 0 +: 64]\n"
             "store %out, %c + 0.5, rem(range(64), 2) == 1\n"
             "%d = load ptr_add(base(%x), 7)\n"
             "store ptr_add(base(%o), 387), %d\n"
             "%e = load ptr_add(base(%x), 9), %n > 3, 2.0\n"
             "store ptr_add(base(%o), 512), %e\n"},
    {.name = "sizes and strides",
     .grid = "1",
     .expect = views,
     .body = "store base(%p), size(%x, 0)\n"
             "store ptr_add(base(%p), 1), size(%x, 1)\n"
             "store ptr_add(base(%p), 2), cast(stride(%x, 0), i32)\n"
             "store ptr_add(base(%p), 3), cast(stride(%x, 1), i32)\n"},
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
    {.name = "calls",
     .grid = "1",
     .n = {0, 4, -3},
     .expect = calls,
     .functions =
         "func @bend(%v: f32, %by: i32) -> f32 {\n"
         "  return select(%v < 0.0, %v * -2.0, %v + cast(%by, f32))\n"
         "}\n"
         "func @square(%v: i32) -> i32 {\n"
         "  %r = if %v < 0 { yield -%v } else { yield %v * %v }\n"
         "  return %r\n"
         "}\n"
         "func @rows[M: int, N: int](%t: tile<MxN x f32>) -> tile<M x f32> {\n"
         "  return sum(%t, axis=1)\n"
         "}\n",
     .body = "%t = load %x[0 +: 8, 0 +: 16]\n"
             "%u = @bend(%t, %n)\n"
             "store %o[0 +: 8, 0 +: 16], %u\n"
             "store %o[0 +: 8, 16], @rows(%u)\n"
             "store base(%p), @square(%n)\n"},
    {.name = "a loop lane by lane",
     .grid = "1",
     .expect = lane_loop,
     .functions = "func @walk(%v: i32) -> i32 {\n"
                  "  %r = for %k = 0 to 5 carry(%r0 = %v) {\n"
                  "    %odd = (%r0 & 1) == 1\n"
                  "    yield select(%odd, %r0 * 3 + %k, %r0 - %k)\n"
                  "  }\n"
                  "  return %r\n"
                  "}\n",
     .body = "%t = load %i[0, 0 +: 16]\n"
             "store %p[0, 0 +: 16], @walk(%t)\n"},
    {.name = "atomics",
     .grid = "3000",
     .expect = atomics,
     .body =
         "%k = program_id(0)\n"
         "%bin = rem(%k, 7)\n"
         "%a = atomic ptr_add(base(%p), %bin), 1 kind(add)\n"
         "%b = atomic ptr_add(base(%o), %bin), 2.0 kind(add) order(relaxed)\n"
         "%hash = rem(%k * 37, 1009)\n"
         "%c = atomic ptr_add(base(%p), 128), %hash kind(max)\n"
         "%d = atomic ptr_add(base(%p), 129), -%hash kind(min)\n"
         "%e = atomic ptr_add(base(%p), 130), 1 << rem(%k, 31) kind(or)\n"
         "%f = atomic ptr_add(base(%p), 131), %k kind(xor)\n"
         "%g = atomic ptr_add(base(%p), 132), 0 kind(and)\n"
         "// Each ticket goes to one program.\n"
         "%ticket = atomic ptr_add(base(%p), 256), 1 kind(add)\n"
         "%h = atomic ptr_add(base(%p), 1024 + %ticket), 1 kind(add)\n"
         "%m = atomic ptr_add(base(%o), 128), cast(%hash * 0 + %k, f32) "
         "kind(max)\n"
         "%ptrs = ptr_add(splat(base(%p), tile<64 x ptr<i32>>),\n"
         "                range(64) + 384)\n"
         "%odd = rem(range(64), 2) == 1\n"
         "%l = atomic %ptrs, splat(1, tile<64 x i32>), %odd kind(add)\n"},
};

/* Programs of three at a time add to windows that overlap, and reach beyond. */
static void added(world *w)
{
    for (int k = 0; k < PROGRAMS; k++)
        for (int r = 0; r < 8; r++)
            for (int c = 0; c < 16; c++) {
                int row = k % 9 * 16 - 4 + r, column = k % 5 * 10 + c;
                if (row >= 0 && row < WORLD_OUT)
                    w->o[row][column] += (float)(k % 3 + c);
                if (r == 0)
                    w->p[1 + k % 2][column] += k % 3;
            }
    for (int k = 0; k < 16; k++)
        w->p[0][64 + k] = k % 2 ? PROGRAMS : 0;
    w->p[0][80] = PROGRAMS;
}

/* A counter that only compare-and-swap moves. */
static void cas_counter(world *w)
{
    w->p[0][0] = PROGRAMS;
    for (int k = 0; k < PROGRAMS; k++)
        w->p[1][0] ^= k;
}

/* A comparison's bits as an f16: LLVM could not select that. */
static void mask_as_half(world *w)
{
    w->o[0][0] = w->n ? 0x1p-24f : 0;
}

static const world_test more_tests[] = {
    {.name = "store kind(add)",
     .grid = "3000",
     .expect = added,
     .body =
         "%k = program_id(0)\n"
         "%row = rem(%k, 9) * 16 - 4\n"
         "%column = rem(%k, 5) * 10\n"
         "%v = splat(rem(%k, 3), tile<8x16 x i32>) + range(16)\n"
         "store %o[%row +: 8, %column +: 16], cast(%v, f32) boundary(0) "
         "kind(add)\n"
         "store %p[1 + rem(%k, 2), %column +: 16], splat(rem(%k, 3), tile<16 x "
         "i32>) kind(add)\n"
         "%ptrs = ptr_add(splat(base(%p), tile<16 x ptr<i32>>), range(16) + "
         "64)\n"
         "%odd = rem(range(16), 2) == 1\n"
         "store %ptrs, splat(1, tile<16 x i32>), %odd kind(add)\n"
         "store ptr_add(base(%p), 80), 1 kind(add)\n"},
    {.name = "a comparison as f16",
     .grid = "1",
     .n = {0, 3},
     .expect = mask_as_half,
     .body = "%c = cast(%n, f32) != 0.0\n"
             "%bits = cast(%c, i16)\n"
             "%h = bitcast(%bits, f16)\n"
             "store base(%o), cast(%h, f32)\n"},
    {.name = "compare and swap",
     .grid = "3000",
     .expect = cas_counter,
     .body = "%seen0 = load base(%p)\n"
             "%v, %done = while carry(%v0 = %seen0, %done0 = false) {\n"
             "  condition not %done0\n"
             "} do {\n"
             "  %old = atomic_cas base(%p), %v0, %v0 + 1\n"
             "  yield %old, %old == %v0\n"
             "}\n"
             "%x1 = atomic ptr_add(base(%p), 128), %v kind(xor)\n"},
};

/* ---- Errors while running ---- */

static void run_failures(tilec_context *cx, run_counts *counts)
{
    world_run_failure(cx, "assert", "4",
                      "%k = program_id(0)\n"
                      "assert %k < %n, \"too many programs\"\n",
                      2, "too many programs", 2, counts);
    world_run_failure(cx, "assert of a tile", "1",
                      "%t = load %i[0, 0 +: 64]\n"
                      "assert %t != %t + 0 * %n, \"all lanes\"\n",
                      1, "all lanes", 2, counts);
    world_run_failure(cx, "load beyond the end", "1",
                      "%t = load %x[%n +: 16, 0 +: 8]\n"
                      "store %o[0 +: 16, 0 +: 8], %t\n",
                      20, "boundary(0)", 1, counts);
    world_run_failure(cx, "load before the start", "1",
                      "%t = load %x[0 +: 16, %n +: 8] boundary(0)\n"
                      "store %o[0 +: 16, 0 +: 8], %t\n",
                      -1, "boundary(1)", 1, counts);
    world_run_failure(cx, "store beyond the end", "1",
                      "%t = load %x[0 +: 16, 0 +: 8]\n"
                      "store %o[0 +: 16, %n +: 8], %t boundary(0)\n",
                      121, "boundary(1)", 2, counts);
    world_run_failure(cx, "dropped offset", "1",
                      "%t = load %x[%n, 0 +: 8]\n"
                      "store %o[0, 0 +: 8], %t\n",
                      32, "%x", 1, counts);
    world_run_failure(cx, "negative dropped offset", "1",
                      "%t = load %x[0 +: 8, %n]\n"
                      "store %o[0, 0 +: 8], %t\n",
                      -1, "%x", 1, counts);
}

static void run_prints(tilec_context *cx, run_counts *counts)
{
    /* There it is the driver that prints. */
    if (run_device())
        return;
    char *text = world_run_print(cx, "print", "1",
                                 "print \"the value\", %n\n"
                                 "%t = load %i[0, 0 +: 8]\n"
                                 "print \"a tile\", %t, 2.5\n",
                                 -42, counts);
    run_check(counts, strstr(text, "the value") && strstr(text, "-42"),
              "print: no value in: %s", text);
    run_check(counts, strstr(text, "a tile") && strstr(text, "2.5"),
              "print: no tile in: %s", text);
    free(text);
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    run_counts counts = {0};
    tilec_context *cx = run_context();
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        world_run(cx, &tests[i], &counts);
    for (size_t i = 0; i < sizeof more_tests / sizeof *more_tests; i++)
        world_run(cx, &more_tests[i], &counts);
    run_failures(cx, &counts);
    run_prints(cx, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
