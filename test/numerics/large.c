/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor above 4 GiB: offsets beyond 32 bits, in elements and in bytes. On
 * the CPU the memory is reserved, and only the pages that are touched exist; a
 * GPU has it.
 */
#include "test/numerics/run.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { COLUMNS = 8192, ROWS = 1 << 19 }; /* 2^32 elements, 16 GiB of f32 */

static const char text[] =
    "kernel @far(%x: tensor<[?, ?] x f32>, %row: i32) grid(1) {\n"
    "  %a = load %x[%row, 8176 +: 8]\n"
    "  %b = %x[%row, 8184]\n"
    "  %c = load ptr_add(base(%x), cast(%row, i64) * 8192 + 8185)\n"
    "  store %x[%row, 0 +: 8], %a + %b + %c\n"
    "}\n";

/* A row of the large tensor, and the same on the host. */
typedef struct rows {
    DLTensor there, here;
    int64_t shape[1];
    float values[COLUMNS];
} rows;

static void find_row(rows *r, const DLTensor *x, int64_t row)
{
    r->shape[0] = COLUMNS;
    r->there = *x;
    r->there.ndim = 1;
    r->there.shape = r->shape;
    r->there.strides = NULL;
    r->there.data = (float *)x->data + row * COLUMNS;
    r->here = r->there;
    r->here.device = (DLDevice){kDLCPU, 0};
    r->here.data = r->values;
}

static void write_row(const rows *r)
{
    tilec_error e = TILEC_INIT(tilec_error);
    if (!run_device())
        memcpy(r->there.data, r->values, sizeof r->values);
    else if (tilec_device_write(run_device(), &r->here, &r->there, &e))
        printf("%s\n", e.message);
}

static void read_row(rows *r)
{
    tilec_error e = TILEC_INIT(tilec_error);
    if (!run_device())
        memcpy(r->values, r->there.data, sizeof r->values);
    else if (tilec_device_read(run_device(), &r->there, &r->here, &e))
        printf("%s\n", e.message);
}

static void check_row(tilec_kernel *k, const DLTensor *x, int64_t row,
                      run_counts *counts)
{
    static rows r;
    find_row(&r, x, row);
    memset(r.values, 0, sizeof r.values);
    for (int i = 0; i < 8; i++)
        r.values[8176 + i] = (float)i;
    r.values[8184] = 100;
    r.values[8185] = 1000;
    write_row(&r);
    tilec_argument args[] = {tilec_tensor("x", x), tilec_int("row", row)};
    tilec_error e = {0};
    tilec_status s = tilec_launch(k, args, 2, NULL, &e);
    s = s ? s : tilec_kernel_synchronize(k, NULL, &e);
    run_check(counts, s == TILEC_OK, "row %lld: %s", (long long)row, e.message);
    read_row(&r);
    bool right = true;
    for (int i = 0; i < 8; i++)
        right &= r.values[i] == (float)(i + 1100);
    run_check(counts, right, "row %lld", (long long)row);
}

static void check_rows(tilec_context *cx, const DLTensor *x, run_counts *counts)
{
    tilec_kernel *k = run_compile(cx, text, NULL);
    static const int64_t rows_[] = {0, 65535, 65536, 131072, 262144, ROWS - 1};
    for (int i = 0; k && i < 6; i++)
        check_row(k, x, rows_[i], counts);
    run_check(counts, k != NULL, "does not compile");
    tilec_kernel_free(k);
}

static int skip(const char *why)
{
    printf("skipped: %s\n", why);
    return 77;
}

int main(void)
{
    size_t bytes = (size_t)ROWS * COLUMNS * sizeof(float);
    int64_t shape[] = {ROWS, COLUMNS};
    DLTensor x = {.device = {kDLCPU, 0},
                  .ndim = 2,
                  .dtype = run_dtype(NUM_F32),
                  .shape = shape};
    run_counts counts = {0};
    tilec_context *cx = run_context();
    DLTensor *there = NULL;
    tilec_error e = TILEC_INIT(tilec_error);
    if (run_device() && tilec_device_copy(run_device(), &x, &there, &e))
        return skip(e.message);
    if (!run_device())
        x.data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (x.data == MAP_FAILED)
        return skip("16 GiB of addresses are not to be had");
    check_rows(cx, there ? there : &x, &counts);
    if (there)
        tilec_device_drop(run_device(), there);
    else
        munmap(x.data, bytes);
    run_context_free(cx);
    return run_finish(&counts);
}
