/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/hopper/fixture.h"

const char text[] =
    "kernel @add(%x: tensor<[?, ?, 64] x bf16>, %y: tensor<[?, ?, 64] x bf16>,"
    "\n    %n: i32) grid { %s = num_sms yield min(%n, %s) }\n"
    "{\n"
    "  %r = program_id(0) * 64\n"
    "  %a = load %x[0, %r +: 64, 0 +: 64] boundary(1)\n"
    "  store %y[0, %r +: 64, 0 +: 64], %a + %a boundary(1)\n"
    "}\n";

const char maps[] =
    "\"maps\":[[0,\"bf16\",128,2,0,0,1,64,64],[1,\"bf16\",64,2,0,0,1,32,64]]";

fake_cuda_state *fake;

fake_cuda_use_fn *fake_use;

tilec_context *cx;

char folder[64];

tilec_error last_error = TILEC_INIT(tilec_error);

tilec_context *hopper_new_context(const char *library, const char *ptxas)
{
    tilec_context *c;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cuda_library = library;
    o.ptxas = ptxas;
    o.cache_folder = folder;
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_OK);
    return c;
}

void hopper_set_up(void)
{
    void *handle = dlopen(FAKE_CUDA, RTLD_NOW);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    fake_cuda_reset_fn *reset;
    fake = dlsym(handle, "fake_cuda");
    *(void **)&reset = dlsym(handle, "fake_cuda_reset");
    *(void **)&fake_use = dlsym(handle, "fake_cuda_use");
    reset();
    fake_use(-1, 0);
    strcpy(folder, "/tmp/tilec-hopper-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    cx = hopper_new_context(FAKE_CUDA, NULL);
}

void hopper_tear_down(void)
{
    size_t n;
    tc_cache cache = {.folder = folder};
    tilec_context_free(cx);
    tc_cache_clear(&cache, &n);
    rmdir(folder);
}

tilec_status hopper_compile_text(tilec_context *c, const char *program,
                                 bool loads, tilec_kernel **k)
{
    tilec_source source = tilec_text("test.tile", program, 0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_90a";
    o.no_load = !loads;
    return tilec_compile(c, &source, 1, &o, k);
}

tilec_status hopper_compile_with(tilec_context *c, bool loads, tilec_kernel **k)
{
    return hopper_compile_text(c, text, loads, k);
}

tilec_kernel *hopper_must_compile(tilec_context *c, const char *program,
                                  bool loads)
{
    tilec_kernel *k;
    tilec_status s = hopper_compile_text(c, program, loads, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(c)->message);
    return k;
}

tilec_kernel *hopper_compile(tilec_context *c, bool loads)
{
    return hopper_must_compile(c, text, loads);
}

void hopper_change_meta(const char *from, const char *to)
{
    tc_cache cache = {.folder = folder};
    tc_cache_file *files;
    tc_entry old, new;
    size_t n;
    char meta[4096], why[200];
    ck_assert(tc_cache_files(&cache, &files, &n));
    ck_assert_uint_ge(n, 1);
    ck_assert(tc_cache_read(&cache, files[0].key, &old));
    free(files);
    tc_cache_section *s = (tc_cache_section *)tc_entry_find(&old, "meta");
    cJSON *json = hopper_meta_json(s);
    char *old_meta = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    const char *at = strstr(old_meta, from);
    ck_assert_msg(at != NULL, "no %s in %s", from, old_meta);
    snprintf(meta, sizeof meta, "%.*s%s%s", (int)(at - old_meta), old_meta, to,
             at + strlen(from));
    cJSON_free(old_meta);
    json = cJSON_Parse(meta);
    ck_assert_ptr_nonnull(json);
    tc_record_writer w = hopper_meta_of(json);
    cJSON_Delete(json);
    s->size = w.size;
    s->data = w.data;
    ck_assert(tc_entry_make(&new, old.key, old.sections, old.n));
    ck_assert(tc_cache_write(&cache, &new, why, sizeof why));
    free(w.data);
    tc_entry_free(&old);
    tc_entry_free(&new);
}

tilec_kernel *hopper_compile_text_changed(tilec_context *c, const char *program,
                                          const char *const *changes)
{
    tilec_context *first = hopper_new_context("/nowhere", NULL);
    tilec_kernel_free(hopper_must_compile(first, program, false));
    tilec_context_free(first);
    for (; *changes; changes += 2)
        hopper_change_meta(changes[0], changes[1]);
    return hopper_must_compile(c, program, true);
}

tilec_kernel *hopper_compile_changed(tilec_context *c,
                                     const char *const *changes)
{
    return hopper_compile_text_changed(c, text, changes);
}

void hopper_expect_params(const unsigned char *more, int n)
{
    static const unsigned char own[] = {8, 4, 4, 4, 8, 8, 8, 8,
                                        4, 4, 4, 8, 8, 8, 4};
    memcpy(fake->sizes, own, sizeof own);
    if (n)
        memcpy(fake->sizes + sizeof own, more, (size_t)n);
    fake->nsizes = (int)sizeof own + n;
}

void hopper_make_tensor(tensor *t, uintptr_t address)
{
    *t = (tensor){.shape = {3, 40, 64}, .strides = {64, 192, 1}};
    t->dl = (DLTensor){.data = (void *)address,
                       .device = {kDLCUDA, 0},
                       .ndim = 3,
                       .dtype = {kDLBfloat, 16, 1},
                       .shape = t->shape,
                       .strides = t->strides};
}

tilec_status hopper_launch(const tilec_kernel *k, tensor *x, tensor *y,
                           void *stream)
{
    tilec_argument args[] = {tilec_tensor(NULL, &x->dl),
                             tilec_tensor(NULL, &y->dl), tilec_int(NULL, 5)};
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.stream = stream;
    return tilec_launch(k, args, 3, &o, &last_error);
}

void hopper_expect_says(tilec_status got, tilec_status status,
                        const char *words)
{
    ck_assert_int_eq(got, status);
    ck_assert_msg(strstr(last_error.message, words) != NULL, "%s",
                  last_error.message);
}

fake_map hopper_map_of(int index)
{
    fake_map m;
    memcpy(&m, fake->bytes + OWN_BYTES + index * TC_GPU_MAP_BYTES, sizeof m);
    return m;
}

const char *const old_drivers[] = {FAKE_CUDA_11, FAKE_CUDA_12};

void *hopper_handle(uintptr_t number)
{
    return (void *)number;
}
