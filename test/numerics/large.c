/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor above 4 GiB: offsets beyond 32 bits, in elements and in bytes. The
 * memory is reserved, and only the pages that are touched exist.
 */
#include "test/numerics/run.h"

#include <stdio.h>
#include <sys/mman.h>

enum { COLUMNS = 8192, ROWS = 1 << 19 }; /* 2^32 elements, 16 GiB of f32 */

static const char text[] =
    "kernel @far(%x: tensor<[?, ?] x f32>, %row: i32) grid(1) {\n"
    "  %a = load %x[%row, 8176 +: 8]\n"
    "  %b = %x[%row, 8184]\n"
    "  %c = load ptr_add(base(%x), cast(%row, i64) * 8192 + 8185)\n"
    "  store %x[%row, 0 +: 8], %a + %b + %c\n"
    "}\n";

static void check_row(tilec_kernel *k, const DLTensor *t, float *x, int64_t row,
                      run_counts *counts)
{
    float *at = x + row * COLUMNS;
    for (int i = 0; i < 8; i++)
        at[8176 + i] = (float)i;
    at[8184] = 100;
    at[8185] = 1000;
    tilec_argument args[] = {tilec_tensor("x", t), tilec_int("row", row)};
    tilec_error e = {0};
    tilec_status s = tilec_launch(k, args, 2, NULL, &e);
    run_check(counts, s == TILEC_OK, "row %lld: %s", (long long)row, e.message);
    bool right = true;
    for (int i = 0; i < 8; i++)
        right &= at[i] == (float)(i + 1100);
    run_check(counts, right, "row %lld", (long long)row);
}

int main(void)
{
    size_t bytes = (size_t)ROWS * COLUMNS * sizeof(float);
    float *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (x == MAP_FAILED) {
        printf("skipped: 16 GiB of addresses are not to be had\n");
        return 77;
    }
    int64_t shape[] = {ROWS, COLUMNS};
    DLTensor t = {.data = x,
                  .device = {kDLCPU, 0},
                  .ndim = 2,
                  .dtype = run_dtype(NUM_F32),
                  .shape = shape};
    run_counts counts = {0};
    tilec_context *cx;
    if (tilec_context_new(NULL, &cx) != TILEC_OK)
        return 1;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_kernel *k = run_compile(cx, text, &o);
    static const int64_t rows[] = {0, 65535, 65536, 131072, 262144, ROWS - 1};
    for (int i = 0; k && i < 6; i++)
        check_row(k, &t, x, rows[i], &counts);
    run_check(&counts, k != NULL, "does not compile");
    tilec_kernel_free(k);
    tilec_context_free(cx);
    munmap(x, bytes);
    return run_finish(&counts);
}
