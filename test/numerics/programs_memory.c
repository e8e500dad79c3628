/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that read and write memory: windows, gathers, pointers, atomics.
 */
#include "test/numerics/programs.h"

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

/* Rows, columns and pairs of rows by index, inside and outside. */
static void windows_by_index(world *w)
{
    for (int k = 0; k < 16; k++)
        for (int x = 0; x < 16; x++)
            w->o[k][x] = at(w, 5 * k - 8, x + 8, 9);
    for (int k = 0; k < 32; k++)
        for (int x = 0; x < 8; x++)
            w->o[16 + k][x] = at(w, 2 * k - 5, x + w->n, -2.5f);
    for (int k = 0; k < 16; k++)
        for (int y = 0; y < 8; y++)
            w->o[48 + k][y] = at(w, y + w->n, 6 * k - 9, 0);
    for (int k = 0; k < 8; k++)
        for (int x = 0; x < 8; x++) {
            w->o[64 + k][x] = at(w, k ? WORLD_ROWS : 0, x, 3);
            w->o[72 + k][x] = x < k && k < 7 ? at(w, 6 * k, x, 4) : 4;
        }
}

static void stores_by_index(world *w)
{
    for (int k = 0; k < 8; k++)
        for (int x = 0; x < 16; x++) {
            int y = 20 * k - 20;
            if (y >= 0 && y < WORLD_OUT && WORLD_OUT - 8 + x < WORLD_OUT)
                w->o[y][WORLD_OUT - 8 + x] = w->x[k][x];
        }
    for (int k = 0; k < 64; k++)
        for (int x = 0; x < 8; x++)
            w->p[k / 8 + 3][x] += k + 1;
    for (int k = 0; k < 4; k++)
        for (int x = 0; x < 8; x++)
            if (x != 5)
                w->p[x][64 + 3 * k] = 10 * k + x + 1;
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

/* Rows that a table of addresses points to, every other row, columns as rows, a
 * part that ends within the window. */
static void made_tensors(world *w)
{
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 16; x++) {
            w->o[y][x] = w->x[7 - y][x + w->n];
            w->o[8 + y][x] = at(w, 2 * (y + w->n) + 1, x, 0);
            w->o[16 + y][x] = x < WORLD_ROWS ? w->x[x][w->n + y] : 0;
            w->o[24 + y][x] = y < 5 && x < 9 ? w->x[3 + y][4 + x] : -2;
            if (y < 3)
                w->o[WORLD_OUT - 3 + y][2 * x] = 10 + x;
        }
    w->p[0][0] = 5, w->p[0][1] = 9, w->p[0][2] = 2;
    w->o[3][100] = w->x[4][8];
}

/* Windows of elements that are some steps apart, before the tensor and after
 * it, and stores of such. */
static void stepped(world *w)
{
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 16; x++) {
            w->o[y][x] = at(w, 2 * y + w->n - 9, x, 7);
            w->o[16 + y][x] = at(w, 3 * y - 5, w->n - 20 + 4 * x, -1);
            w->o[32 + y][x] = w->x[w->n / 4 + y][2 * x + 1];
            if (5 * x - 7 >= 0 && 5 * x - 7 < WORLD_COLUMNS)
                w->p[2 * y + 1][5 * x - 7] = y + x + 1;
        }
}

static void views(world *w)
{
    w->p[0][0] = WORLD_ROWS;
    w->p[0][1] = WORLD_COLUMNS;
    w->p[0][2] = WORLD_COLUMNS;
    w->p[0][3] = 1;
}

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

const world_test programs_memory[] = {
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
    {.name = "windows by index",
     .grid = "1",
     .n = {0, 29, 62},
     .expect = windows_by_index,
     .body = "%y = range(16) * 5 - 8\n"
             "%a = load %x[%y, 8 +: 16] pad(9)\n"
             "store %o[0 +: 16, 0 +: 16], %a\n"
             "%two = range(4)[:, none] * 16 + range(8) * 2 - 5\n"
             "%b = load %x[%two, %n +: 8] boundary(2) pad(-2.5)\n"
             "store %o[16 +: 32, 0 +: 8], reshape(%b, tile<32x8 x f32>)\n"
             "%c = load %x[%n +: 8, range(16) * 6 - 9] boundary(1)\n"
             "store %o[48 +: 16, 0 +: 8], %c\n"
             "%far = cast(range(8), i64) * 4294967296\n"
             "%d = load %x[%far, 0 +: 8] pad(3)\n"
             "store %o[64 +: 8, 0 +: 8], %d\n"
             "%some = range(8) < range(8)[:, none]\n"
             "%win = block %x[select(range(8) < 7, range(8) * 6, -1), 0 +: 8]\n"
             "%e = load %win, %some, splat(4.0, tile<8x8 x f32>) pad(4)\n"
             "store %o[72 +: 8, 0 +: 8], %e\n"},
    {.name = "stores by index",
     .grid = "1",
     .expect = stores_by_index,
     .body = "%v = load %x[0 +: 8, 0 +: 16]\n"
             "store %o[range(8) * 20 - 20, 120 +: 16], %v boundary(1)\n"
             "%k = range(64)[:, none] + range(8) * 0\n"
             "store %p[range(64) / 8 + 3, 0 +: 8], %k + 1 kind(add)\n"
             "%w = range(4)[:, none] * 10 + range(8) + 1\n"
             "%five = range(4)[:, none] * 0 + range(8) == 5\n"
             "store %p[0 +: 8, range(4) * 3 + 64], %w, not %five\n"},
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
    {.name = "tensors made of pointers",
     .grid = "1",
     .n = {0, 5, 30},
     .expect = made_tensors,
     .body = "%s = stride(%x, 0)\n"
             "%bytes = cast(range(8), i64) * (%s * 4)\n"
             "%row = bitcast(base(%x), i64) + (%s * 28 - %bytes)\n"
             "%at = bitcast(%row, ptr<f32>)[:, none] + (range(16) + %n)\n"
             "store %o[0 +: 8, 0 +: 16], load(%at)\n"
             "%odd = tensor(base(%x) + %s, [size(%x, 0) / 2, size(%x, 1)],\n"
             "              [%s * 2, 1])\n"
             "%a = load %odd[%n +: 8, 0 +: 16] boundary(0)\n"
             "store %o[8 +: 8, 0 +: 16], %a\n"
             "%t = tensor(base(%x), [size(%x, 1), size(%x, 0)], [1, %s])\n"
             "store %o[16 +: 8, 0 +: 16], load(%t[%n +: 8, 0 +: 16])\n"
             "%p0 = bitcast(bitcast(base(%x), i64) + %s * 12 + 16, ptr<f32>)\n"
             "%part = tensor(%p0, [5, 9], [%s, 1])\n"
             "%b = load %part[0 +: 8, 0 +: 16] boundary(0, 1) pad(-2)\n"
             "store %o[24 +: 8, 0 +: 16], %b\n"
             "%so = stride(%o, 0)\n"
             "%out = tensor(base(%o) + %so * 125, [3, 16], [%so, 2])\n"
             "store %out[0 +: 8, 0 +: 16], cast(range(16), f32) + 10 "
             "boundary(0)\n"
             "store base(%p), size(%part, 0)\n"
             "store base(%p) + 1, size(%part, 1)\n"
             "store base(%p) + 2, cast(stride(%out, 1), i32)\n"
             "store base(%o) + (%so * 3 + 100), %part[1, 4]\n"},
    {.name = "windows with steps",
     .grid = "1",
     .n = {0, 1, 7, 40},
     .expect = stepped,
     .body = "%a = load %x[%n - 9 +: 16 step 2, 0 +: 16] boundary(0) pad(7)\n"
             "store %o[0 +: 16, 0 +: 16], %a\n"
             "%far = cast(%n, i64) - 20\n"
             "%b = load %x[-5 +: 16 step 3, %far +: 16 step 4]\n"
             "    boundary(0, 1) pad(-1)\n"
             "store %o[16 +: 16, 0 +: 16], %b\n"
             "%c = load %x[%n / 4 +: 16, 1 +: 16 step 2]\n"
             "store %o[32 +: 16, 0 +: 16], %c\n"
             "%d = range(16)[:, none] + range(16) + 1\n"
             "%part = tensor(base(%p), [size(%p, 0), 64], [stride(%p, 0), 1])\n"
             "store %part[1 +: 16 step 2, -7 +: 16 step 5], %d boundary(1)\n"},
    {.name = "sizes and strides",
     .grid = "1",
     .expect = views,
     .body = "store base(%p), size(%x, 0)\n"
             "store ptr_add(base(%p), 1), size(%x, 1)\n"
             "store ptr_add(base(%p), 2), cast(stride(%x, 0), i32)\n"
             "store ptr_add(base(%p), 3), cast(stride(%x, 1), i32)\n"},
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
    {0},
};
