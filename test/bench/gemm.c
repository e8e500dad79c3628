/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast is the dot microkernel? Tiles of the sizes that attention uses,
 * against OpenBLAS (one thread) on the same tiles and on a large matrix, in
 * turns, medians.
 *
 *   bench_gemm [native|avx2|x86-64 [MxNxK ...]]
 */
#include "codegen/host/emit/dot.h"

#include "test/unit/jit.h"

#include <cblas.h>
#include <time.h>

void openblas_set_num_threads(int n);

enum { ROUNDS = 41, LARGE = 1024, MAX_TILES = 16, ALIGN = 4096 };

struct target {
    LLVMBuilderRef b;
    LLVMValueRef c;
    unsigned ldc;
};

static LLVMValueRef place(const struct target *t, LLVMValueRef row,
                          LLVMValueRef col)
{
    LLVMTypeRef i64 = LLVMTypeOf(row);
    LLVMTypeRef f32 = LLVMFloatTypeInContext(LLVMGetTypeContext(i64));
    LLVMValueRef at =
        LLVMBuildMul(t->b, row, LLVMConstInt(i64, t->ldc, false), "");
    at = LLVMBuildAdd(t->b, at, col, "");
    return LLVMBuildGEP2(t->b, f32, t->c, &at, 1, "");
}

static LLVMValueRef load_c(void *user, LLVMValueRef row, LLVMValueRef col,
                           unsigned width)
{
    struct target *t = user;
    LLVMTypeRef f32 =
        LLVMFloatTypeInContext(LLVMGetTypeContext(LLVMTypeOf(row)));
    LLVMValueRef v = LLVMBuildLoad2(t->b, LLVMVectorType(f32, width),
                                    place(t, row, col), "");
    LLVMSetAlignment(v, 4);
    return v;
}

static void store_c(void *user, LLVMValueRef row, LLVMValueRef col,
                    LLVMValueRef vec)
{
    LLVMSetAlignment(
        LLVMBuildStore(((struct target *)user)->b, vec, place(user, row, col)),
        4);
}

typedef void gemm_fn(const void *a, const void *b, void *c);

struct tile {
    unsigned m, n, k;
    struct jit jit;
    gemm_fn *run;
    float *a, *b, *c;
    double ours[ROUNDS], blas[ROUNDS]; /* GFLOP/s */
};

static void compile(struct tile *t, const struct jit_machine *machine)
{
    t->jit = jit_begin(machine);
    struct jit *j = &t->jit;
    LLVMValueRef fn = jit_function(j, "f", 3);
    struct target target = {j->b, LLVMGetParam(fn, 2), t->n};
    tc_host_dot d = {.b = j->b,
                     .fn = fn,
                     .m = t->m,
                     .n = t->n,
                     .k = t->k,
                     .elem = LLVMFloatTypeInContext(j->cx),
                     .a = LLVMGetParam(fn, 0),
                     .lda = t->k,
                     .bmat = LLVMGetParam(fn, 1),
                     .ldb = t->n,
                     .init = load_c,
                     .done = store_c,
                     .user = &target,
                     .vector_width = jit_width(j),
                     .nregs = jit_nregs(j)};
    tc_host_emit_dot(&d);
    LLVMBuildRetVoid(j->b);
    jit_finish(j);
    t->run = (gemm_fn *)jit_address(j, "f");
}

static float *matrix(size_t n)
{
    size_t bytes = (n * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN;
    float *p = aligned_alloc(ALIGN, bytes);
    if (!p)
        abort();
    for (size_t i = 0; i < n; i++)
        p[i] = (float)((i * 7919) % 255) / 256 - 0.5f;
    return p;
}

/* Of the processor: other programs' turns on it do not count. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void blas(const struct tile *t)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)t->m, (int)t->n,
                (int)t->k, 1, t->a, (int)t->k, t->b, (int)t->n, 1, t->c,
                (int)t->n);
}

static void ours(const struct tile *t)
{
    t->run(t->a, t->b, t->c);
}

/* Some milliseconds of it. */
static double rate(const struct tile *t, void (*f)(const struct tile *))
{
    double flops = 2.0 * t->m * t->n * t->k;
    unsigned times = (unsigned)(4e8 / flops) + 1;
    f(t);
    double start = seconds();
    for (unsigned i = 0; i < times; i++)
        f(t);
    return flops * times / (seconds() - start) * 1e-9;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median(double *x)
{
    qsort(x, ROUNDS, sizeof *x, by_value);
    return x[ROUNDS / 2];
}

static void prepare(struct tile *t)
{
    t->a = matrix((size_t)t->m * t->k);
    t->b = matrix((size_t)t->k * t->n);
    t->c = matrix((size_t)t->m * t->n);
}

static void release(struct tile *t)
{
    free(t->a);
    free(t->b);
    free(t->c);
}

static unsigned parse_tiles(char **texts, int n, struct tile *tiles)
{
    static char *usual[] = {"64x64x128",  "128x64x128", "64x128x64",
                            "128x128x64", "64x64x64",   "128x128x128",
                            "64x256x64",  "64x64x256"};
    if (!n) {
        texts = usual;
        n = sizeof usual / sizeof *usual;
    }
    unsigned count = 0;
    for (int i = 0; i < n && count < MAX_TILES; i++) {
        struct tile *t = &tiles[count];
        if (sscanf(texts[i], "%ux%ux%u", &t->m, &t->n, &t->k) == 3)
            count++;
    }
    return count;
}

static const struct jit_machine *machine_named(const char *name)
{
    const struct jit_machine *all[] = {&jit_native, &jit_avx2, &jit_baseline};
    for (unsigned i = 0; i < 3; i++)
        if (!strcmp(all[i]->name, name))
            return all[i];
    return &jit_native;
}

int main(int argc, char **argv)
{
    static struct tile tiles[MAX_TILES];
    static struct tile large = {.m = LARGE, .n = LARGE, .k = LARGE};
    const struct jit_machine *m = machine_named(argc > 1 ? argv[1] : "native");
    unsigned n = parse_tiles(argv + 2, argc > 2 ? argc - 2 : 0, tiles);
    openblas_set_num_threads(1);
    prepare(&large);
    for (unsigned i = 0; i < n; i++) {
        prepare(&tiles[i]);
        compile(&tiles[i], m);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        large.blas[round] = rate(&large, blas);
        for (unsigned i = 0; i < n; i++) {
            tiles[i].ours[round] = rate(&tiles[i], ours);
            tiles[i].blas[round] = rate(&tiles[i], blas);
        }
    }
    double peak = median(large.blas);
    printf("%s: sgemm %d: %.1f GFLOP/s\n", m->name, LARGE, peak);
    for (unsigned i = 0; i < n; i++) {
        double us = median(tiles[i].ours);
        printf("%4ux%ux%u: %.1f GFLOP/s (%.0f %%), sgemm %.1f\n", tiles[i].m,
               tiles[i].n, tiles[i].k, us, 100 * us / peak,
               median(tiles[i].blas));
        jit_end(&tiles[i].jit);
        release(&tiles[i]);
    }
    release(&large);
    return 0;
}
