/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products and transposes of the host: small integers, so that every
 * order of summation gives the same bits; memory next to the matrices must
 * stay as it is, and A and B end at the end of a page that cannot be read on.
 */
#include "codegen/host/emit/dot.h"

#include "test/unit/jit.h"
#include "test/unit/run.h"

#include <check.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct jit_machine *const machines[] = {&jit_native, &jit_avx2,
                                                     &jit_baseline};
enum { NMACHINES = sizeof machines / sizeof *machines };

/* Memory of n bytes followed by an unreadable page. */
struct fenced {
    char *base;
    size_t size;
    void *data;
};

static struct fenced fenced_new(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = (n + page - 1) / page + 1;
    struct fenced f = {.size = pages * page};
    f.base = mmap(NULL, f.size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(f.base, MAP_FAILED);
    mprotect(f.base + f.size - page, page, PROT_NONE);
    f.data = f.base + f.size - page - n;
    return f;
}

static void fenced_free(struct fenced *f)
{
    munmap(f->base, f->size);
}

struct size {
    unsigned m, n, k, lda, ldb, ldc; /* leading dims: what is more */
};

static const struct size sizes[] = {
    {8, 8, 8, 0, 0, 0},       {80, 176, 24, 0, 0, 0}, {64, 64, 128, 0, 0, 0},
    {128, 64, 64, 3, 5, 7},   {16, 24, 8, 1, 1, 1},   {8, 40, 16, 0, 8, 0},
    {72, 8, 40, 0, 0, 16},    {1, 64, 64, 0, 0, 0},   {64, 1, 16, 0, 0, 0},
    {1, 1, 1, 0, 0, 0},       {24, 56, 1, 2, 0, 0},   {13, 29, 7, 1, 2, 3},
    {88, 104, 120, 0, 0, 0},  {2, 256, 8, 0, 0, 0},   {31, 17, 9, 0, 0, 0},
    {48, 96, 96, 16, 16, 16}, {5, 64, 3, 0, 0, 0},    {40, 136, 88, 0, 0, 0},
};
enum { NSIZES = sizeof sizes / sizeof *sizes };

/* C in memory, the callbacks' view: C = C + A B. */
struct target {
    LLVMBuilderRef b;
    LLVMTypeRef elem;
    LLVMValueRef c;
    unsigned ldc, bytes;
};

static LLVMValueRef place(const struct target *t, LLVMValueRef row,
                          LLVMValueRef col)
{
    LLVMTypeRef i64 = LLVMTypeOf(row);
    LLVMValueRef at =
        LLVMBuildMul(t->b, row, LLVMConstInt(i64, t->ldc, false), "");
    at = LLVMBuildAdd(t->b, at, col, "");
    return LLVMBuildGEP2(t->b, t->elem, t->c, &at, 1, "");
}

static LLVMValueRef load_c(void *user, LLVMValueRef row, LLVMValueRef col,
                           unsigned width)
{
    struct target *t = user;
    LLVMTypeRef type = width == 1 ? t->elem : LLVMVectorType(t->elem, width);
    LLVMValueRef v = LLVMBuildLoad2(t->b, type, place(t, row, col), "");
    LLVMSetAlignment(v, t->bytes);
    return v;
}

static void store_c(void *user, LLVMValueRef row, LLVMValueRef col,
                    LLVMValueRef vec)
{
    struct target *t = user;
    LLVMSetAlignment(LLVMBuildStore(t->b, vec, place(t, row, col)), t->bytes);
}

typedef void dot_fn(const void *a, const void *b, void *c);

static struct jit compile_dot(const struct jit_machine *m, const struct size *s,
                              bool is_double, bool has_init)
{
    struct jit j = jit_begin(m);
    LLVMTypeRef elem = is_double ? LLVMDoubleTypeInContext(j.cx)
                                 : LLVMFloatTypeInContext(j.cx);
    LLVMValueRef fn = jit_function(&j, "f", 3);
    struct target t = {.b = j.b,
                       .elem = elem,
                       .c = LLVMGetParam(fn, 2),
                       .ldc = s->n + s->ldc,
                       .bytes = is_double ? 8 : 4};
    tc_host_dot d = {.b = j.b,
                     .fn = fn,
                     .m = s->m,
                     .n = s->n,
                     .k = s->k,
                     .elem = elem,
                     .from = elem,
                     .a = LLVMGetParam(fn, 0),
                     .lda = s->k + s->lda,
                     .bmat = LLVMGetParam(fn, 1),
                     .ldb = s->n + s->ldb,
                     .init = has_init ? load_c : NULL,
                     .done = store_c,
                     .user = &t,
                     .vector_width = jit_width(&j) / (is_double ? 2 : 1),
                     .nregs = jit_nregs(&j)};
    tc_host_emit_dot(&d);
    LLVMBuildRetVoid(j.b);
    jit_finish(&j);
    return j;
}

static double get(const void *p, size_t i, bool is_double)
{
    return is_double ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void set(void *p, size_t i, bool is_double, double x)
{
    if (is_double)
        ((double *)p)[i] = x;
    else
        ((float *)p)[i] = (float)x;
}

static double small_number(size_t i)
{
    return (double)((i * 2654435761u >> 7) % 17) - 8;
}

static void check_dot(const struct jit_machine *m, const struct size *s,
                      bool is_double, bool has_init)
{
    size_t lda = s->k + s->lda, ldb = s->n + s->ldb, ldc = s->n + s->ldc;
    /* The last row of each ends where the matrix ends. */
    size_t na = (s->m - 1) * lda + s->k, nb = (s->k - 1) * ldb + s->n,
           nc = (s->m - 1) * ldc + s->n, bytes = is_double ? 8 : 4;
    struct fenced a = fenced_new(na * bytes), b = fenced_new(nb * bytes),
                  c = fenced_new(nc * bytes);
    for (size_t i = 0; i < na; i++)
        set(a.data, i, is_double, small_number(i));
    for (size_t i = 0; i < nb; i++)
        set(b.data, i, is_double, small_number(i + 5000));
    for (size_t i = 0; i < nc; i++)
        set(c.data, i, is_double, small_number(i + 9000));
    struct jit j = compile_dot(m, s, is_double, has_init);
    dot_fn *dot = (dot_fn *)jit_address(&j, "f");
    dot(a.data, b.data, c.data);
    for (size_t i = 0; i < nc; i++) {
        size_t row = i / ldc, col = i % ldc;
        double want = small_number(i + 9000);
        if (col < s->n) {
            want = has_init ? want : 0;
            for (size_t k = 0; k < s->k; k++)
                want += get(a.data, row * lda + k, is_double) *
                        get(b.data, k * ldb + col, is_double);
        }
        if (get(c.data, i, is_double) != want)
            ck_abort_msg("%s: %ux%ux%u, C[%zu, %zu] is %g, not %g", m->name,
                         s->m, s->n, s->k, row, col, get(c.data, i, is_double),
                         want);
    }
    jit_end(&j);
    fenced_free(&a);
    fenced_free(&b);
    fenced_free(&c);
}

START_TEST(dot_is_exact)
{
    const struct jit_machine *m = machines[_i / NSIZES];
    if (!jit_can_run(m))
        return;
    for (unsigned i = 0; i < 4; i++)
        check_dot(m, &sizes[_i % NSIZES], i & 1, i & 2);
}
END_TEST

/* Rounded products are kept: with FMA the error of a * a is seen. */
START_TEST(fma_where_there_is_one)
{
    static const struct size one = {1, 8, 2, 0, 0, 0};
    if (!jit_can_run(&jit_avx2))
        return;
    struct jit j = compile_dot(&jit_avx2, &one, false, false);
    float x = 1 + 0x1p-12f, square = x * x;
    float a[2] = {1, x}, b[16], c[8];
    for (unsigned i = 0; i < 8; i++) {
        b[i] = -square;
        b[8 + i] = x;
    }
    dot_fn *dot = (dot_fn *)jit_address(&j, "f");
    dot(a, b, c);
    for (unsigned i = 0; i < 8; i++)
        ck_assert_float_eq(c[i], 0x1p-24f);
    jit_end(&j);
}
END_TEST

/* ---- Transposes ---- */

static const struct transposed {
    unsigned rows, cols, more_src, more_dst;
} shapes[] = {
    {8, 8, 0, 0},   {16, 16, 0, 0}, {64, 128, 0, 0}, {24, 40, 3, 5},
    {40, 8, 0, 16}, {1, 64, 0, 0},  {64, 1, 0, 0},   {13, 29, 1, 2},
    {3, 5, 0, 0},   {88, 72, 8, 0},
};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

static LLVMTypeRef elem_of_bytes(LLVMContextRef cx, unsigned bytes)
{
    switch (bytes) {
    case 4: return LLVMFloatTypeInContext(cx);
    case 8: return LLVMDoubleTypeInContext(cx);
    default: return LLVMIntTypeInContext(cx, 8 * bytes);
    }
}

/* A float whose bytes tell where it is, and no NaN. */
static unsigned char mark(size_t i, unsigned byte)
{
    return (unsigned char)((i >> 8 * (byte % 2)) * 167 % 61 + 1);
}

static void check_transpose(const struct jit_machine *m,
                            const struct transposed *s, unsigned bytes)
{
    struct jit j = jit_begin(m);
    LLVMValueRef fn = jit_function(&j, "f", 2);
    unsigned lds = s->cols + s->more_src, ldd = s->rows + s->more_dst;
    tc_host_emit_transpose(j.b, fn, LLVMGetParam(fn, 0), s->rows, s->cols, lds,
                           LLVMGetParam(fn, 1), ldd, elem_of_bytes(j.cx, bytes),
                           jit_width(&j));
    LLVMBuildRetVoid(j.b);
    jit_finish(&j);
    size_t nsrc = (size_t)(s->rows - 1) * lds + s->cols,
           ndst = (size_t)(s->cols - 1) * ldd + s->rows;
    struct fenced src = fenced_new(nsrc * bytes),
                  dst = fenced_new(ndst * bytes);
    unsigned char *from = src.data, *to = dst.data;
    for (size_t i = 0; i < nsrc * bytes; i++)
        from[i] = mark(i / bytes, i % bytes);
    memset(to, 0xee, ndst * bytes);
    void (*f)(const void *, void *) =
        (void (*)(const void *, void *))jit_address(&j, "f");
    f(from, to);
    for (size_t i = 0; i < ndst * bytes; i++) {
        size_t c = i / bytes / ldd, r = i / bytes % ldd;
        unsigned want =
            r < s->rows ? from[(r * lds + c) * bytes + i % bytes] : 0xee;
        if (to[i] != want)
            ck_abort_msg("%s: %ux%u of %u bytes, wrong at [%zu, %zu]", m->name,
                         s->rows, s->cols, bytes, c, r);
    }
    jit_end(&j);
    fenced_free(&src);
    fenced_free(&dst);
}

START_TEST(transpose_moves_all)
{
    const struct jit_machine *m = machines[_i / NSHAPES];
    if (!jit_can_run(m))
        return;
    for (unsigned bytes = 1; bytes <= 8; bytes *= 2)
        check_transpose(m, &shapes[_i % NSHAPES], bytes);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dot");
    TCase *c = tcase_create("dot");
    tcase_add_loop_test(c, dot_is_exact, 0, NMACHINES * NSIZES);
    tcase_add_test(c, fma_where_there_is_one);
    tcase_add_loop_test(c, transpose_moves_all, 0, NMACHINES * NSHAPES);
    suite_add_tcase(s, c);
    return run_suite(s);
}
