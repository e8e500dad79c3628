/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that is found again; the second variant.
 */
#include "test/unit/gpu/fixture.h"

#include <sys/stat.h>

static const char choosy_text[] =
    "kernel @choosy(%x: tensor<[?, ?] x f32>, %n: i32) aligned(0) grid(1) {\n"
    "  store %x[0 +: 16, 0 +: 16], splat(1.0, tile<16x16 x f32>) boundary(0, "
    "1)\n"
    "}\n";

/* ---- The cache ---- */

START_TEST(code_is_found_again)
{
    tilec_kernel *a, *b;
    ck_assert(gpu_compiles(cx, NULL, scale_text, &a));
    /* In the context's memory: already loaded. */
    ck_assert(!gpu_compiles(cx, NULL, scale_text, &b));
    ck_assert_int_eq(fake->loads, 1);
    ck_assert_ptr_eq(atomic_load(&a->gpu->variants[0]),
                     atomic_load(&b->gpu->variants[0]));
    tilec_kernel_free(b);
    /* On the disk: loaded, not assembled. */
    tilec_context *c = gpu_new_context(FAKE_CUDA);
    ck_assert(!gpu_compiles(c, NULL, scale_text, &b));
    ck_assert_int_eq(fake->loads, 2);
    ck_assert_int_eq(fake->links, 1);
    static const char *const forms[] = {"machine", "ptx", "json", "llvm"};
    for (int i = 0; i < 4; i++) {
        char *x = gpu_emit(a, forms[i]), *y = gpu_emit(b, forms[i]);
        ck_assert_str_eq(x, y);
        tilec_free(x);
        tilec_free(y);
    }
    ck_assert_str_eq(tilec_kernel_grid_text(a), tilec_kernel_grid_text(b));
    for (size_t i = 0; i < NARGS; i++) {
        const tilec_parameter *p = tilec_kernel_parameter(a, i);
        const tilec_parameter *q = tilec_kernel_parameter(b, i);
        ck_assert_str_eq(p->name, q->name);
        ck_assert_str_eq(p->type, q->type);
        ck_assert_int_eq(p->written, q->written);
    }
    ck_assert_int_eq(tilec_kernel_parameter(b, 0)->written, 0);
    ck_assert_int_eq(tilec_kernel_parameter(b, 1)->written, 1);
    ck_assert_int_eq(gpu_launch_scale(b, NULL), TILEC_OK);
    /* Failures still point into the text. */
    tilec_argument args[NARGS];
    matrix x, y, p;
    gpu_make_args(args, &x, &y, &p);
    x.shape[0] = 41;
    gpu_expect_says(tilec_launch(b, args, NARGS, NULL, &last_error),
                    TILEC_INPUT, "x and y differ");
    ck_assert_uint_eq(last_error.line, 5);
    tilec_kernel_free(a);
    tilec_kernel_free(b);
    tilec_context_free(c);
}
END_TEST

START_TEST(other_wishes_are_other_code)
{
    tilec_kernel *k;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_80";
    ck_assert(gpu_compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
    ck_assert(!gpu_compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
    o.warps = 2;
    ck_assert(gpu_compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
    o.target = "sm_90";
    ck_assert(gpu_compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
    o.stages = 3;
    ck_assert(gpu_compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
    o.float32_precision = "tf32";
    ck_assert(gpu_compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
    /* A comment at the end of a line moves nothing. */
    char text[2048];
    snprintf(text, sizeof text, "%s// the end\n", scale_text);
    ck_assert(!gpu_compiles(cx, &o, text, &k));
    tilec_kernel_free(k);
    o.no_cache = 1;
    o.stages = 4;
    ck_assert(!gpu_compiles(cx, &o, scale_text, &k)); /* it is not kept */
    tilec_kernel_free(k);
    o.no_cache = 0;
    ck_assert(gpu_compiles(cx, &o, scale_text, &k));
    tilec_kernel_free(k);
}
END_TEST

static void count_events(void *user, const tilec_pass_event *event)
{
    (void)event;
    ++*(int *)user;
}

START_TEST(those_who_watch_see_passes)
{
    int events = 0;
    tilec_kernel *k;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_80";
    o.on_pass = count_events;
    o.user = &events;
    for (int i = 0; i < 2; i++) {
        events = 0;
        ck_assert_int_eq(gpu_compile_with(cx, scale_text, &o, &k), TILEC_OK);
        ck_assert_int_gt(events, 0);
        tilec_kernel_free(k);
    }
}
END_TEST

START_TEST(damaged_code_is_made_again)
{
    tilec_kernel *k;
    tc_cache cache = {.folder = folder};
    tc_cache_file *files;
    size_t n;
    tilec_kernel_free(gpu_compile(cx, scale_text));
    ck_assert(tc_cache_files(&cache, &files, &n));
    ck_assert_uint_eq(n, 1);
    char path[200];
    snprintf(path, sizeof path, "%s/%s.tilec", folder,
             tc_key_print(files->key).text);
    ck_assert_int_eq(truncate(path, (long)files->bytes - 1), 0);
    /* A sound file that holds something else. */
    for (int i = 0; i < 2; i++) {
        tilec_context *c = gpu_new_context(FAKE_CUDA);
        ck_assert_int_eq(gpu_compile_with(c, scale_text, NULL, &k), TILEC_OK);
        ck_assert_int_eq(fake->links, 2 + i);
        ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
        tilec_kernel_free(k);
        tilec_context_free(c);
        tc_cache_section s = {"meta", "{}", 2};
        tc_entry e;
        char why[100];
        ck_assert(tc_entry_make(&e, files->key, &s, 1));
        ck_assert(tc_cache_write(&cache, &e, why, sizeof why));
        tc_entry_free(&e);
    }
    free(files);
}
END_TEST

/* A sound entry under the key of another program: whoever makes one has code of
 * their own in it. */
START_TEST(code_of_another_recipe_is_made_again)
{
    tc_cache cache = {.folder = folder};
    static const char *const parts[] = {"program", "recipe"};
    tilec_kernel_free(gpu_compile(cx, scale_text));
    for (int i = 0; i < 2; i++) {
        tilec_context *c = gpu_new_context(FAKE_CUDA);
        tc_cache_file *files;
        size_t n;
        tc_entry old, e;
        char why[TC_CACHE_WHY];
        ck_assert(tc_cache_files(&cache, &files, &n));
        ck_assert(tc_cache_read(&cache, files->key, &old));
        tc_cache_section *s = (tc_cache_section *)tc_entry_find(&old, parts[i]);
        char *other = strdup(s->data);
        char *at = strstr(other, i ? "\"kernel\":\"scale\"" : "scale");
        ck_assert_ptr_nonnull(at);
        strchr(at, 's')[0] = 'S';
        s->data = other;
        ck_assert(tc_entry_make(&e, old.key, old.sections, old.n));
        ck_assert(tc_cache_write(&cache, &e, why, sizeof why));
        free(files);
        free(other);
        tc_entry_free(&old);
        tc_entry_free(&e);
        int links = fake->links;
        tilec_kernel_free(gpu_compile(c, scale_text));
        ck_assert_int_eq(fake->links, links + 1);
        tilec_context_free(c);
        /* It is there again. */
        c = gpu_new_context(FAKE_CUDA);
        tilec_kernel_free(gpu_compile(c, scale_text));
        ck_assert_int_eq(fake->links, links + 1);
        tilec_context_free(c);
    }
}
END_TEST

static const tilec_diagnostic *warning_of(tilec_context *c)
{
    const tilec_diagnostic *d = tilec_diagnostics(c);
    while (d && d->severity != TILEC_WARNING)
        d = d->next;
    return d;
}

START_TEST(folders_of_others_are_not_used)
{
    tilec_kernel_free(gpu_compile(cx, scale_text));
    tilec_context *c = gpu_new_context(FAKE_CUDA);
    tilec_kernel *k;
    ck_assert_int_eq(chmod(folder, 0777), 0);
    int links = fake->links;
    k = gpu_compile(c, scale_text);
    ck_assert_int_eq(fake->links, links + 1);
    ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
    ck_assert_ptr_nonnull(warning_of(c));
    ck_assert_ptr_nonnull(
        strstr(warning_of(c)->message,
               "the cache is not used: all users may write to the folder "
               "(mode 0777)"));
    ck_assert_ptr_nonnull(strstr(warning_of(c)->message, folder));
    tilec_kernel_free(k);
    /* Said once a context; code is kept in its memory all the same. */
    k = gpu_compile(c, scale_text);
    ck_assert_int_eq(fake->links, links + 1);
    ck_assert_ptr_null(warning_of(c));
    tilec_kernel_free(k);
    ck_assert_int_eq(tilec_cache_list(c, NULL, NULL, &last_error), TILEC_USAGE);
    size_t n = 9;
    gpu_expect_says(tilec_cache_clear(c, &n, &last_error), TILEC_INPUT,
                    "the cache is not used: all users may write");
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(chmod(folder, 0700), 0);
    tilec_context_free(c);
    c = gpu_new_context(FAKE_CUDA);
    k = gpu_compile(c, scale_text);
    ck_assert_int_eq(fake->links, links + 1);
    ck_assert_ptr_null(warning_of(c));
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

START_TEST(no_place_for_a_cache)
{
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    tilec_context *c;
    tilec_kernel *k;
    o.cuda_library = FAKE_CUDA;
    o.cache_folder = "/dev/null/cache";
    o.remarks = 1;
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_OK);
    ck_assert_int_eq(gpu_compile_with(c, scale_text, NULL, &k), TILEC_OK);
    const tilec_diagnostic *d = tilec_diagnostics(c);
    while (d && (!d->pass || strcmp(d->pass, "cache") != 0))
        d = d->next;
    ck_assert_ptr_nonnull(d);
    ck_assert_str_eq(d->message, "the code of @scale is not kept: "
                                 "/dev/null/cache: Not a directory");
    tilec_kernel_free(k);
    tilec_context_free(c);
    o.cache_folder = "";
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_OK);
    ck_assert_int_eq(gpu_compile_with(c, scale_text, NULL, &k), TILEC_OK);
    ck_assert_int_eq(gpu_launch_scale(k, NULL), TILEC_OK);
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

START_TEST(contexts_forget_the_oldest)
{
    tilec_kernel *k;
    for (unsigned i = 0; i < TC_CODES_KEPT + 5; i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "kernel @k(%%x: tensor<[?] x f32>) grid(%u) {\n"
                 "  store %%x[0 +: 16], splat(1.0, tile<16 x f32>) "
                 "boundary(0)\n}\n",
                 i + 1);
        k = gpu_compile_unloaded(cx, text);
        tilec_kernel_free(k);
    }
    ck_assert_uint_eq(cx->ncodes, TC_CODES_KEPT);
}
END_TEST

/* ---- Variants ---- */

START_TEST(other_tensors_get_a_variant)
{
    tilec_kernel *k = gpu_compile(cx, choosy_text);
    matrix x;
    gpu_make_matrix(&x, 16, 16, 0x1000);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl), tilec_int(NULL, 1)};
    if (!k->func->aligned) {
        /* The passes found nothing to ask for. */
        tilec_kernel_free(k);
        return;
    }
    ck_assert_str_eq(tc_gpu_predicate_of(k, TC_GPU_ALIGNED).text, "aligned(x)");
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &last_error), TILEC_OK);
    ck_assert_ptr_null(atomic_load(&k->gpu->variants[TC_GPU_ANY]));
    x.dl.data = (void *)0x1004;
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &last_error), TILEC_OK);
    ck_assert_ptr_nonnull(atomic_load(&k->gpu->variants[TC_GPU_ANY]));
    int loads = fake->loads;
    x.dl.data = (void *)0x1000;
    x.strides[0] = 18;
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &last_error), TILEC_OK);
    x.shape[0] = 1; /* its stride is never walked */
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &last_error), TILEC_OK);
    ck_assert_int_eq(fake->loads, loads);
    tilec_kernel_free(k);
}
END_TEST

/* Where the type says which dim has stride 1, that is looked at. */
START_TEST(columns_side_by_side)
{
    static const char text[] =
        "kernel @k(%x: tensor<[?, ?] x f32, contiguous(0)>, %n: i32) grid(1) "
        "{\n"
        "  %v = load %x[0 +: 64, 0 +: 16] boundary(0, 1)\n"
        "  store %x[0 +: 64, 0 +: 16], %v * 2.0 boundary(0, 1)\n"
        "}\n";
    tilec_kernel *k = gpu_compile(cx, text);
    matrix x;
    gpu_make_matrix(&x, 16, 24, 0x1000);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl), tilec_int(NULL, 1)};
    x.strides[0] = 1;
    x.strides[1] = 16;
    ck_assert_str_eq(tc_gpu_predicate_of(k, TC_GPU_ALIGNED).text, "aligned(x)");
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &last_error), TILEC_OK);
    ck_assert_ptr_null(atomic_load(&k->gpu->variants[TC_GPU_ANY]));
    x.strides[0] = 24;
    x.strides[1] = 1;
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &last_error), TILEC_OK);
    ck_assert_ptr_nonnull(atomic_load(&k->gpu->variants[TC_GPU_ANY]));
    tilec_kernel_free(k);
}
END_TEST

/* Columns of any length, whole 16 bytes apart. */
START_TEST(columns_that_end_anywhere)
{
    static const char text[] =
        "kernel @k(%x: tensor<[?, ?] x f32, contiguous(0)>, %n: i32) ragged(0) "
        "grid(1) { print \"x\", %n }\n";
    tilec_kernel *k = gpu_compile(cx, text);
    matrix x;
    gpu_make_matrix(&x, 15, 24, 0x1000);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl), tilec_int(NULL, 1)};
    x.strides[0] = 1;
    x.strides[1] = 16;
    ck_assert_str_eq(tc_gpu_predicate_of(k, TC_GPU_ALIGNED).text, "ragged(x)");
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &last_error), TILEC_OK);
    ck_assert_ptr_null(atomic_load(&k->gpu->variants[TC_GPU_ANY]));
    x.strides[1] = 15;
    ck_assert_int_eq(tilec_launch(k, args, 2, NULL, &last_error), TILEC_OK);
    ck_assert_ptr_nonnull(atomic_load(&k->gpu->variants[TC_GPU_ANY]));
    tilec_kernel_free(k);
}
END_TEST

/* ---- Attention ---- */

static DLTensor shaped(DLDataType type, int ndim, int64_t *shape,
                       uintptr_t address)
{
    return (DLTensor){.data = (void *)address,
                      .device = {kDLCUDA, 0},
                      .ndim = ndim,
                      .dtype = type,
                      .shape = shape};
}

/* Nobody wants the logsumexp: all rows of it go to one place, and nothing is
 * allocated for the launch. */
START_TEST(attention_without_a_logsumexp)
{
    DLDataType bf16 = {kDLBfloat, 16, 1};
    int64_t shape[4] = {1, 2, 128, 64};
    DLTensor q = shaped(bf16, 4, shape, 0x10000);
    DLTensor k = shaped(bf16, 4, shape, 0x20000);
    DLTensor v = shaped(bf16, 4, shape, 0x30000);
    DLTensor o = shaped(bf16, 4, shape, 0x40000);
    tilec_attention_options options = TILEC_INIT(tilec_attention_options);
    tilec_attention *plan;
    options.target = "sm_80";
    options.mask = "causal & sliding_window(w=100)";
    tilec_status s = tilec_attention_plan(cx, &q, &k, &v, &options, &plan);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = &q, t.k = &k, t.v = &v, t.o = &o;
    static const unsigned char tensor4[] = {8, 4, 4, 4, 4, 8, 8, 8, 8};
    static const unsigned char tensor3[] = {8, 4, 4, 4, 8, 8, 8};
    for (int i = 0; i < 4; i++)
        memcpy(fake->sizes + 9 * i, tensor4, 9);
    memcpy(fake->sizes + 36, tensor3, 7);
    fake->nsizes = 43;
    int allocs = fake->allocs;
    s = tilec_attention_forward(plan, &t, NULL, &last_error);
    ck_assert_msg(s == TILEC_OK, "%s", last_error.message);
    ck_assert_int_eq(fake->launches, 1);
    ck_assert_int_eq(fake->allocs, allocs);
    const tilec_kernel *kernel = tilec_attention_kernel(plan);
    const tc_gpu_code *code = atomic_load(&kernel->gpu->variants[0]);
    uint64_t lse, stride;
    memcpy(&lse, fake->bytes + 4 * 56, sizeof lse);
    memcpy(&stride, fake->bytes + 4 * 56 + 20, sizeof stride);
    ck_assert_uint_eq(lse, tc_gpu_first(code)->spare);
    ck_assert_uint_eq(stride, 0);
    ck_assert_ptr_null(atomic_load(&kernel->gpu->variants[TC_GPU_ANY]));
    /* The second variant is compiled from the same texts. */
    o.data = (void *)0x40002;
    s = tilec_attention_forward(plan, &t, NULL, &last_error);
    ck_assert_msg(s == TILEC_OK, "%s", last_error.message);
    ck_assert_ptr_nonnull(atomic_load(&kernel->gpu->variants[TC_GPU_ANY]));
    /* q on the host is what the message is about. */
    q.device.device_type = kDLCPU;
    gpu_expect_says(tilec_attention_forward(plan, &t, NULL, &last_error),
                    TILEC_INPUT, "argument q: is in host memory");
    tilec_attention_free(plan);
}
END_TEST

/* Not even for that place. */
START_TEST(attention_loads_nothing_into_a_capture)
{
    DLDataType bf16 = {kDLBfloat, 16, 1};
    int64_t shape[4] = {1, 2, 128, 64};
    DLTensor q = shaped(bf16, 4, shape, 0x10000);
    DLTensor o = shaped(bf16, 4, shape, 0x40000);
    tilec_attention_options options = TILEC_INIT(tilec_attention_options);
    tilec_attention *plan;
    options.target = "sm_80";
    options.no_load = 1;
    ck_assert_int_eq(tilec_attention_plan(cx, &q, &q, &q, &options, &plan),
                     TILEC_OK);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = t.k = t.v = &q, t.o = &o;
    tilec_launch_options in = TILEC_INIT(tilec_launch_options);
    in.stream = &in;
    fake->capturing = 1;
    gpu_expect_says(tilec_attention_forward(plan, &t, &in, &last_error),
                    TILEC_USAGE, "call tilec_kernel_load before");
    ck_assert_int_eq(fake->loads, 0);
    ck_assert_int_eq(fake->capturing, 1);
    const tilec_kernel *k = tilec_attention_kernel(plan);
    ck_assert_int_eq(tilec_kernel_load(k, 0, &last_error), TILEC_OK);
    ck_assert_int_eq(tilec_attention_forward(plan, &t, &in, &last_error),
                     TILEC_OK);
    tilec_attention_free(plan);
}
END_TEST

/* By lists it is three kernels, and the last one has the place. */
START_TEST(attention_by_lists_without_a_logsumexp)
{
    DLDataType bf16 = {kDLBfloat, 16, 1};
    int64_t shape[4] = {1, 2, 128, 64};
    DLTensor q = shaped(bf16, 4, shape, 0x10000);
    DLTensor k = shaped(bf16, 4, shape, 0x20000);
    DLTensor v = shaped(bf16, 4, shape, 0x30000);
    DLTensor o = shaped(bf16, 4, shape, 0x40000);
    tilec_attention_options options = TILEC_INIT(tilec_attention_options);
    tilec_attention *plan;
    options.target = "sm_80";
    options.mask = "causal";
    options.block_lists = 1;
    options.warps = 2;
    tilec_status s = tilec_attention_plan(cx, &q, &k, &v, &options, &plan);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = &q, t.k = &k, t.v = &v, t.o = &o;
    ck_assert_int_eq(tilec_attention_workspace(plan, &t, &t.workspace_bytes,
                                               NULL, &last_error),
                     TILEC_OK);
    t.workspace = (void *)0x50000;
    int allocs = fake->allocs;
    s = tilec_attention_forward(plan, &t, NULL, &last_error);
    ck_assert_msg(s == TILEC_OK, "%s", last_error.message);
    ck_assert_int_eq(fake->launches, 3);
    ck_assert_int_eq(fake->allocs, allocs);
    /* The options are of attention's kernel alone. */
    tilec_resources r[3] = {TILEC_INIT(tilec_resources),
                            TILEC_INIT(tilec_resources),
                            TILEC_INIT(tilec_resources)};
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(tilec_kernel_resources(
                             tilec_kernel_part(tilec_attention_kernel(plan), i),
                             &r[i], &last_error),
                         TILEC_OK);
    ck_assert_uint_gt(r[0].warps, 2);
    ck_assert_uint_eq(r[2].warps, 2);
    tilec_attention_free(plan);
}
END_TEST

/* ---- Out of memory ---- */

START_TEST(out_of_memory_at_each_place)
{
    unsigned long n = 1;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_80";
    o.no_cache = 1;
    for (;; n += n < 400 ? 1 : n / 40) {
        tilec_kernel *k = NULL;
        cx->memory.fail_after = n;
        tilec_status s = gpu_compile_with(cx, careful_text, &o, &k);
        bool reached = cx->memory.fail_after == 0;
        cx->memory.fail_after = 0;
        if (!reached) {
            ck_assert_int_eq(s, TILEC_OK);
            tilec_kernel_free(k);
            break;
        }
        ck_assert_int_eq(s, TILEC_MACHINE);
        ck_assert_ptr_null(k);
    }
    ck_assert_uint_gt(n, 1);
    tilec_kernel_free(gpu_compile(cx, careful_text));
}
END_TEST

void gpu_cache_tests(TCase *t)
{
    tcase_add_test(t, code_is_found_again);
    tcase_add_test(t, other_wishes_are_other_code);
    tcase_add_test(t, those_who_watch_see_passes);
    tcase_add_test(t, damaged_code_is_made_again);
    tcase_add_test(t, code_of_another_recipe_is_made_again);
    tcase_add_test(t, folders_of_others_are_not_used);
    tcase_add_test(t, no_place_for_a_cache);
    tcase_add_test(t, contexts_forget_the_oldest);
    tcase_add_test(t, other_tensors_get_a_variant);
    tcase_add_test(t, columns_side_by_side);
    tcase_add_test(t, columns_that_end_anywhere);
    tcase_add_test(t, attention_without_a_logsumexp);
    tcase_add_test(t, attention_loads_nothing_into_a_capture);
    tcase_add_test(t, attention_by_lists_without_a_logsumexp);
    tcase_add_test(t, out_of_memory_at_each_place);
}
