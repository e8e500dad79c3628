/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/gpu/fixture.h"

const char scale_text[] =
    "kernel @scale(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>,\n"
    "    %p: ptr<i32>, %by: f32, %half: f16, %wide: f64, %n: i32, %long: i64,\n"
    "    %short: i16, %flag: i1)\n" SCALE_BODY;

const char careful_text[] =
    "kernel @careful(%x: tensor<[?] x f32>) grid(cdiv(size(%x, 0), 16)) {\n"
    "  %r = program_id(0) * 16\n"
    "  assert %r < 100, \"too far\"\n"
    "  store %x[%r +: 16], splat(1.0, tile<16 x f32>) boundary(0)\n"
    "  assert %r < 1000, \"much too far\"\n"
    "}\n";

fake_cuda_state *fake;

static fake_cuda_reset_fn *fake_reset;

fake_cuda_use_fn *fake_use;

tilec_context *cx;

char folder[64];

tilec_error last_error = TILEC_INIT(tilec_error);

tilec_context *gpu_new_context(const char *library)
{
    tilec_context *c;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cuda_library = library;
    o.cache_folder = folder;
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_OK);
    return c;
}

void gpu_set_up(void)
{
    void *handle = dlopen(FAKE_CUDA, RTLD_NOW);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    fake = dlsym(handle, "fake_cuda");
    *(void **)&fake_reset = dlsym(handle, "fake_cuda_reset");
    *(void **)&fake_use = dlsym(handle, "fake_cuda_use");
    fake_reset();
    fake_use(-1, 0);
    strcpy(folder, "/tmp/tilec-gpu-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    cx = gpu_new_context(FAKE_CUDA);
}

void gpu_tear_down(void)
{
    size_t n;
    tc_cache cache = {.folder = folder};
    tilec_context_free(cx);
    tc_cache_clear(&cache, &n);
    rmdir(folder);
}

tilec_status gpu_compile_with(tilec_context *c, const char *text,
                              const tilec_compile_options *options,
                              tilec_kernel **k)
{
    tilec_source source = tilec_text("test.tile", text, 0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_80";
    return tilec_compile(c, &source, 1, options ? options : &o, k);
}

tilec_kernel *gpu_compile(tilec_context *c, const char *text)
{
    tilec_kernel *k;
    tilec_status s = gpu_compile_with(c, text, NULL, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(c)->message);
    return k;
}

tilec_kernel *gpu_compile_unloaded(tilec_context *c, const char *text)
{
    tilec_kernel *k;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_80";
    o.no_load = 1;
    ck_assert_int_eq(gpu_compile_with(c, text, &o, &k), TILEC_OK);
    return k;
}

const DLTensor *gpu_make_matrix(matrix *m, int64_t rows, int64_t columns,
                                uintptr_t address)
{
    *m = (matrix){.shape = {rows, columns}, .strides = {columns, 1}};
    m->dl = (DLTensor){.data = (void *)address,
                       .device = {kDLCUDA, 0},
                       .ndim = 2,
                       .dtype = {kDLFloat, 32, 1},
                       .shape = m->shape,
                       .strides = m->strides};
    return &m->dl;
}

void gpu_make_args(tilec_argument *a, matrix *x, matrix *y, matrix *p)
{
    gpu_make_matrix(x, 40, 24, 0x1000);
    gpu_make_matrix(y, 40, 24, 0x2000);
    y->strides[0] = 64;
    gpu_make_matrix(p, 1, 1, 0x3000);
    p->dl.dtype.code = kDLInt;
    const tilec_argument args[NARGS] = {
        tilec_tensor(NULL, &x->dl), tilec_tensor(NULL, &y->dl),
        tilec_tensor(NULL, &p->dl), tilec_float(NULL, 2.5),
        tilec_float(NULL, 0.5),     tilec_float(NULL, -3.0),
        tilec_int(NULL, 7),         tilec_int(NULL, 1ll << 40),
        tilec_int(NULL, -2),        tilec_int(NULL, 1)};
    memcpy(a, args, sizeof args);
}

tilec_status gpu_launch_scale(const tilec_kernel *k,
                              const tilec_launch_options *o)
{
    tilec_argument args[NARGS];
    matrix x, y, p;
    gpu_make_args(args, &x, &y, &p);
    return tilec_launch(k, args, NARGS, o, &last_error);
}

void gpu_expect_says(tilec_status got, tilec_status status, const char *words)
{
    ck_assert_int_eq(got, status);
    ck_assert_msg(strstr(last_error.message, words) != NULL, "%s",
                  last_error.message);
}

char *gpu_emit(const tilec_kernel *k, const char *what)
{
    char *text;
    tilec_status s = tilec_kernel_emit(k, what, &text, &last_error);
    ck_assert_msg(s == TILEC_OK, "%s: %s", what, last_error.message);
    return text;
}

bool gpu_compiles(tilec_context *c, const tilec_compile_options *o,
                  const char *text, tilec_kernel **k)
{
    tc_cache cache = {.folder = folder};
    tc_cache_file *files;
    size_t before, after;
    ck_assert(tc_cache_files(&cache, &files, &before));
    free(files);
    ck_assert_int_eq(gpu_compile_with(c, text, o, k), TILEC_OK);
    ck_assert(tc_cache_files(&cache, &files, &after));
    free(files);
    return after != before;
}
