/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors with two elements a byte: windows, stores, elements by index, sizes
 * and strides, of both orders of two dims; products of u8 and i8; a product of
 * block-scaled f4e2m1 (MXFP4) against float64.
 */
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 37, COLUMNS = 150 };

typedef struct test {
    run_counts counts;
    tilec_context *cx;
    num_rng rng;
} test;

typedef struct matrix {
    DLTensor dl;
    int64_t shape[2], strides[2];
} matrix;

/* `unit`: the dim with stride 1. */
static const DLTensor *matrix_of(matrix *m, void *data, DLDataType dtype,
                                 int64_t rows, int64_t columns, int unit)
{
    *m = (matrix){.shape = {rows, columns}};
    m->strides[unit] = 1;
    m->strides[1 - unit] = m->shape[unit];
    m->dl = (DLTensor){.data = data,
                       .ndim = 2,
                       .dtype = dtype,
                       .shape = m->shape,
                       .strides = m->strides};
    m->dl.device.device_type = kDLCPU;
    return &m->dl;
}

static bool run(test *t, const char *what, const char *text, size_t n,
                const tilec_argument *args)
{
    tilec_error error = {0};
    tilec_kernel *k = run_compile(t->cx, text, NULL);
    bool ok = k && run_launch(k, args, n, NULL, &error) == TILEC_OK;
    tilec_kernel_free(k);
    return run_check(&t->counts, ok, "%s: %s", what, error.message);
}

static void fill(test *t, unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)num_next(&t->rng);
}

/* ---- Windows ---- */

typedef enum format { I4, U4, F4E2M1, FORMAT_COUNT } format;
static const char *const names[] = {"i4", "u4", "f4e2m1"};
static const DLDataType dtypes[] = {
    {kDLInt, 4, 2}, {kDLUInt, 4, 2}, {TILEC_DL_F4E2M1, 4, 2}};

static float value_of(format f, unsigned code)
{
    static const float magnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    if (f == F4E2M1)
        return code & 8 ? -magnitudes[code & 7] : magnitudes[code];
    return (float)((int)code - (f == I4 && code & 8 ? 16 : 0));
}

/* Element of a matrix whose dim `unit` has two elements a byte. */
static unsigned code_at(const unsigned char *p, int unit, int row, int column)
{
    int at[] = {row, column};
    int line = (unit ? COLUMNS : ROWS + 1) / 2;
    int byte = at[1 - unit] * line + at[unit] / 2;
    return p[byte] >> 4 * (at[unit] % 2) & 15;
}

/* Rows are ROWS + 1 where they are packed. A window begins before the tensor
 * and ends behind it. */
static const char windows[] =
    "kernel @k(%%x: tensor<[?, ?] x %s, contiguous(%d)>,\n"
    "          %%y: tensor<[?, ?] x f32>, %%z: tensor<[?, ?] x %s, "
    "contiguous(%d)>,\n"
    "          %%g: tensor<[?, ?] x f32>, %%s: tensor<[?] x i64>)\n"
    "    grid(cdiv(size(%%x, 0), 16)) {\n"
    "  %%i = program_id(0) * 16\n"
    "  for %%k = -32 to size(%%x, 1) step 64 {\n"
    "    %%v = load %%x[%%i +: 16, %%k +: 64] boundary(0, 1)\n"
    "    store %%y[%%i +: 16, %%k +: 64], cast(%%v, f32) boundary(0, 1)\n"
    "    %%t = trans(trans(%%v))\n"
    "    store %%z[%%i +: 16, %%k +: 64], %%t boundary(0, 1)\n"
    "    %%r = %%i + range(16)\n"
    "    %%c = %%k + range(64)\n"
    "    %%at = %%x[%%r[:, none], %%c[none, :]]\n"
    "    store %%g[%%i +: 16, %%k +: 64], cast(%%at, f32) boundary(0, 1)\n"
    "  }\n"
    "  %%s.p = base(%%s)\n"
    "  store %%s.p, cast(size(%%x, 0), i64)\n"
    "  store %%s.p + 1, cast(size(%%x, 1), i64)\n"
    "  store %%s.p + 2, stride(%%x, 0)\n"
    "  store %%s.p + 3, stride(%%x, 1)\n"
    "}\n";

static void check_windows(test *t, format f, int unit)
{
    int rows = unit ? ROWS : ROWS + 1;
    size_t bytes = (size_t)(rows * COLUMNS) / 2;
    unsigned char *x = malloc(bytes), *z = calloc(bytes, 1);
    float *y = calloc((size_t)(rows * COLUMNS), sizeof *y);
    float *g = calloc((size_t)(rows * COLUMNS), sizeof *g);
    int64_t s[4] = {0}, four = 4;
    char text[2048], what[64];
    fill(t, x, bytes);
    snprintf(text, sizeof text, windows, names[f], unit, names[f], unit);
    snprintf(what, sizeof what, "windows of %s, contiguous(%d)", names[f],
             unit);
    matrix m[4];
    int64_t halves[] = {unit ? rows : rows / 2, unit ? COLUMNS / 2 : COLUMNS};
    DLTensor list = {.data = s, .ndim = 1, .shape = &four};
    list.dtype = run_dtype(NUM_I64);
    list.device.device_type = kDLCPU;
    DLDataType f32 = run_dtype(NUM_F32);
    tilec_argument args[] = {
        tilec_tensor(
            "x", matrix_of(&m[0], x, dtypes[f], halves[0], halves[1], unit)),
        tilec_tensor("y", matrix_of(&m[1], y, f32, rows, COLUMNS, 1)),
        tilec_tensor(
            "z", matrix_of(&m[2], z, dtypes[f], halves[0], halves[1], unit)),
        tilec_tensor("g", matrix_of(&m[3], g, f32, rows, COLUMNS, 1)),
        tilec_tensor("s", &list)};
    bool ok = run(t, what, text, 5, args);
    for (int i = 0; ok && i < rows * COLUMNS; i++) {
        unsigned code = code_at(x, unit, i / COLUMNS, i % COLUMNS);
        float want = value_of(f, code);
        ok = run_check(&t->counts, y[i] == want && g[i] == want,
                       "%s: element %d is %g, by index %g, expected %g", what,
                       i, (double)y[i], (double)g[i], (double)want);
    }
    int64_t line = unit ? COLUMNS : rows;
    run_check(&t->counts, !ok || memcmp(x, z, bytes) == 0, "%s: stored", what);
    run_check(&t->counts,
              !ok || (s[0] == rows && s[1] == COLUMNS && s[2 + unit] == 1 &&
                      s[3 - unit] == line),
              "%s: sizes %lld, %lld, strides %lld, %lld", what, (long long)s[0],
              (long long)s[1], (long long)s[2], (long long)s[3]);
    free(x), free(y), free(z), free(g);
}

/* ---- Products of bytes ---- */

static const char product[] =
    "kernel @k[BM: int = %d, BN: int = %d, BK: int = %d](\n"
    "    %%x: tensor<[?, ?] x %s>, %%w: tensor<[?, ?] x %s>,\n"
    "    %%y: tensor<[?, ?] x i32>)\n"
    "    grid(cdiv(size(%%x, 0), BM), cdiv(size(%%w, 0), BN)) {\n"
    "  %%m = program_id(0) * BM\n"
    "  %%n = program_id(1) * BN\n"
    "  %%acc = for %%k = 0 to size(%%x, 1) step BK\n"
    "      carry(%%a = splat(0, tile<BMxBN x i32>)) {\n"
    "    %%xt = load %%x[%%m +: BM, %%k +: BK] boundary(0, 1)\n"
    "    %%wt = load %%w[%%n +: BN, %%k +: BK] boundary(0, 1)\n"
    "    yield dot(%%xt, trans(%%wt), %%a)\n"
    "  }\n"
    "  store %%y[%%m +: BM, %%n +: BN], %%acc boundary(0, 1)\n"
    "}\n";

static int byte_of(unsigned char x, bool is_unsigned)
{
    return is_unsigned ? x : (signed char)x;
}

/* Bit 0 of `which`: x is u8, bit 1: w. */
static void check_product(test *t, int which, const int *block)
{
    enum { M = 70, N = 90, K = 200 };
    static unsigned char x[M * K], w[N * K];
    static int32_t y[M * N];
    char text[1024], what[64];
    const char *kinds[] = {"i8", "u8"};
    snprintf(text, sizeof text, product, block[0], block[1], block[2],
             kinds[which & 1], kinds[which >> 1]);
    snprintf(what, sizeof what, "%s times %s, %dx%dx%d", kinds[which & 1],
             kinds[which >> 1], block[0], block[1], block[2]);
    fill(t, x, sizeof x);
    fill(t, w, sizeof w);
    DLDataType types[] = {{kDLInt, 8, 1}, {kDLUInt, 8, 1}};
    matrix m[3];
    tilec_argument args[] = {
        tilec_tensor("x", matrix_of(&m[0], x, types[which & 1], M, K, 1)),
        tilec_tensor("w", matrix_of(&m[1], w, types[which >> 1], N, K, 1)),
        tilec_tensor("y", matrix_of(&m[2], y, run_dtype(NUM_I32), M, N, 1))};
    bool ok = run(t, what, text, 3, args);
    for (int i = 0; ok && i < M * N; i++) {
        int32_t want = 0;
        for (int k = 0; k < K; k++)
            want += byte_of(x[i / N * K + k], which & 1) *
                    byte_of(w[i % N * K + k], which >> 1);
        ok =
            run_check(&t->counts, y[i] == want,
                      "%s: element %d is %d, expected %d", what, i, y[i], want);
    }
}

/* ---- Block scales ---- */

static const char scaled[] =
    "kernel @k[BM: int = %d, BN: int = 64, BK: int = %d](\n"
    "    %%x: tensor<[?, ?] x bf16>, %%w: tensor<[?, ?] x f4e2m1>,\n"
    "    %%e: tensor<[?, ?] x f8e8m0>, %%y: tensor<[?, ?] x f32>)\n"
    "    grid(cdiv(size(%%w, 0), BN), cdiv(size(%%x, 0), BM)) {\n"
    "  %%n = program_id(0) * BN\n"
    "  %%m = program_id(1) * BM\n"
    "  %%acc = for %%k = 0 to size(%%x, 1) step BK\n"
    "      carry(%%a = splat(0.0, tile<BNxBM x f32>)) {\n"
    "    %%xt = load %%x[%%m +: BM, %%k +: BK] boundary(0, 1)\n"
    "    %%wt = load %%w[%%n +: BN, %%k +: BK] boundary(0, 1)\n"
    "    %%et = load %%e[%%n +: BN, %%k / 32 +: BK / 32] boundary(0, 1)\n"
    "    %%es = broadcast(cast(%%et, bf16)[:, :, none], "
    "tile<BNx(BK / 32)x32 x bf16>)\n"
    "    %%ws = cast(%%wt, bf16) * reshape(%%es, tile<BNxBK x bf16>)\n"
    "    yield dot(%%ws, trans(%%xt), %%a)\n"
    "  }\n"
    "  store %%y[%%m +: BM, %%n +: BN], trans(%%acc) boundary(0, 1)\n"
    "}\n";

static void check_scaled(test *t, int bm, int bk)
{
    enum { M = 50, N = 130, K = 320 };
    static uint16_t x[M * K];
    static unsigned char w[N * K / 2], e[N * K / 32];
    static float y[M * N];
    static double got[M * N], want[M * N];
    char text[2048], what[64];
    fill(t, w, sizeof w);
    for (int i = 0; i < M * K; i++)
        x[i] = (uint16_t)num_to_bits(NUM_BF16, num_normal(&t->rng));
    for (int i = 0; i < N * K / 32; i++)
        e[i] = (unsigned char)num_between(&t->rng, 120, 133);
    snprintf(text, sizeof text, scaled, bm, bk);
    snprintf(what, sizeof what, "f4e2m1 with scales, %dx64x%d", bm, bk);
    matrix m[4];
    tilec_argument args[] = {
        tilec_tensor("x", matrix_of(&m[0], x, run_dtype(NUM_BF16), M, K, 1)),
        tilec_tensor("w", matrix_of(&m[1], w, dtypes[F4E2M1], N, K / 2, 1)),
        tilec_tensor("e",
                     matrix_of(&m[2], e, (DLDataType){TILEC_DL_F8E8M0, 8, 1}, N,
                               K / 32, 1)),
        tilec_tensor("y", matrix_of(&m[3], y, run_dtype(NUM_F32), M, N, 1))};
    if (!run(t, what, text, 4, args))
        return;
    for (int i = 0; i < M * N; i++) {
        int row = i / N, n = i % N;
        want[i] = 0;
        got[i] = (double)y[i];
        for (int k = 0; k < K; k++) {
            unsigned code = w[(n * K + k) / 2] >> 4 * (k % 2) & 15;
            want[i] += num_from_bits(NUM_BF16, x[row * K + k]) *
                       (double)value_of(F4E2M1, code) *
                       ldexp(1, e[n * (K / 32) + k / 32] - 127);
        }
    }
    num_error off = num_compare(got, want, M * N, N);
    run_check(&t->counts, off.overall < 2e-6 && off.worst_row < 8e-6,
              "%s: error %g, of a row %g", what, off.overall, off.worst_row);
}

int main(void)
{
    static const int blocks[][3] = {{64, 64, 64},
                                    {128, 128, 128},
                                    {16, 16, 32},
                                    {8, 24, 16},
                                    {128, 64, 32}};
    test t = {.cx = run_context(), .rng = {2}};
    for (format f = 0; f < FORMAT_COUNT; f++)
        for (int unit = 0; unit < 2; unit++)
            check_windows(&t, f, unit);
    for (int which = 0; which < 4; which++)
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
            check_product(&t, which, blocks[i]);
    check_scaled(&t, 16, 64);
    check_scaled(&t, 64, 128);
    run_context_free(t.cx);
    return run_finish(&t.counts);
}
