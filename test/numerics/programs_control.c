/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of control flow: loops, branches, programs of a grid, calls.
 */
#include "test/numerics/programs.h"

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

/* A program stores again if its number is below n. */
static void few_programs(world *w)
{
    for (int a = 0; a < 8; a++)
        for (int b = 0; b < 4; b++) {
            int sum = w->n;
            for (int k = 0; k < 8; k++)
                sum += w->i[b][k];
            w->p[0][a * 8 + b] = a < w->n ? a + b : sum;
        }
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

const world_test programs_control[] = {
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
    {.name = "programs that end at once",
     .grid = "8, 4",
     .n = {0, 3, 9},
     .expect = few_programs,
     .body = "%a = program_id(0)\n"
             "%b = program_id(1)\n"
             "%t = load %i[%b, 0 +: 8]\n"
             "store ptr_add(base(%p), %a * 8 + %b), sum(%t) + %n\n"
             "exit_if %a >= %n\n"
             "store ptr_add(base(%p), %a * 8 + %b), %a + %b\n"},
    {.name = "an empty grid",
     .grid = "%n, 4",
     .expect = no_programs,
     .body = "store base(%p), 1\n"},
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
    {0},
};
