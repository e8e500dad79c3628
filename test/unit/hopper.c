/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches of what Hopper's code asks for, by a driver that records: tensor
 * maps, counters of tiles, threads that are not of the tiles' warps; targets
 * that one kind of device runs; assemblers that give up.
 *
 * What code asks for stands in its entry of the cache, and is changed there:
 * the library takes it as it takes what was compiled.
 */
#define _GNU_SOURCE
#include "lib/gpu.h"
#include "test/fake/cuda.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(fake_map) == TC_GPU_MAP_BYTES, "a map is 128 bytes");

static const char text[] =
    "kernel @add(%x: tensor<[?, ?, 64] x bf16>, %y: tensor<[?, ?, 64] x bf16>,"
    "\n    %n: i32) grid { %s = num_sms yield min(%n, %s) }\n"
    "{\n"
    "  %r = program_id(0) * 64\n"
    "  %a = load %x[0, %r +: 64, 0 +: 64] boundary(1)\n"
    "  store %y[0, %r +: 64, 0 +: 64], %a + %a boundary(1)\n"
    "}\n";
/* At machine level: an assert, a map, a counter, a warp group that copies. */
static const char machine_text[] =
    "kernel @move(%x: tensor<[?, ?] x f16>, %n: i32) aligned(0) warps(4)\n"
    "    grid(1)\n"
    "{\n"
    "  assert %n > 0, \"nothing to move\"\n"
    "  %s = smem_alloc offset(0) : smem<32x64 x f16, #swizzle128>\n"
    "  %full = mbarrier_alloc arrivals(1) offset(4096) : mbarrier<1>\n"
    "  barrier\n"
    "  warp_groups registers(24, 240) producer {\n"
    "    mbarrier_arrive %full, 0 bytes(4096)\n"
    "    tma_load block %x[0 +: 32, 0 +: 64], %s, %full, 0\n"
    "    %t = fetch_tile\n"
    "    end_tiles\n"
    "  } consumer {\n"
    "    mbarrier_wait %full, 0, 0\n"
    "  }\n"
    "}\n";
/* A product of a warp group. */
static const char product_text[] =
    "kernel @mul(%x: tensor<[64, 64] x f16>, %y: tensor<[64, 64] x f32>)\n"
    "    grid(1)\n"
    "{\n"
    "  %a = load %x[0 +: 64, 0 +: 64]\n"
    "  %c = dot %a, %a : tile<64x64 x f32>\n"
    "  store %y[0 +: 64, 0 +: 64], %c\n"
    "}\n";
/* x in boxes of 1 x 64 x 64, y of 1 x 32 x 64. */
static const char maps[] =
    "\"maps\":[[0,\"bf16\",128,1,64,64],[1,\"bf16\",64,1,32,64]]";

static fake_cuda_state *fake;
static fake_cuda_use_fn *fake_use;
static tilec_context *cx;
static char folder[64];
static tilec_error error;

static tilec_context *new_context(const char *library, const char *ptxas)
{
    tilec_context *c;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cuda_library = library;
    o.ptxas = ptxas;
    o.cache_folder = folder;
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_OK);
    return c;
}

static void set_up(void)
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
    cx = new_context(FAKE_CUDA, NULL);
}

static void tear_down(void)
{
    size_t n;
    tc_cache cache = {.folder = folder};
    tilec_context_free(cx);
    tc_cache_clear(&cache, &n);
    rmdir(folder);
}

static tilec_kernel *compile_machine(tilec_context *c)
{
    tilec_kernel *k;
    tilec_source source = {"test.tile", machine_text, 0};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_90a";
    o.pipeline = "";
    tilec_status s = tilec_compile(c, &source, 1, &o, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(c)->message);
    return k;
}

static tilec_status compile_text(tilec_context *c, const char *program,
                                 bool loads, tilec_kernel **k)
{
    tilec_source source = {"test.tile", program, 0};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_90a";
    o.no_load = !loads;
    return tilec_compile(c, &source, 1, &o, k);
}

static tilec_status compile_with(tilec_context *c, bool loads, tilec_kernel **k)
{
    return compile_text(c, text, loads, k);
}

static tilec_kernel *must_compile(tilec_context *c, const char *program,
                                  bool loads)
{
    tilec_kernel *k;
    tilec_status s = compile_text(c, program, loads, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(c)->message);
    return k;
}

static tilec_kernel *compile(tilec_context *c, bool loads)
{
    return must_compile(c, text, loads);
}

/* In the entry of the cache that was used last, `from` becomes `to`. */
static void change_meta(const char *from, const char *to)
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
    tc_section *s = (tc_section *)tc_entry_find(&old, "meta");
    const char *at = strstr(s->data, from);
    ck_assert_msg(at != NULL, "no %s in %s", from, (const char *)s->data);
    int before = (int)(at - (const char *)s->data);
    s->size = (size_t)snprintf(meta, sizeof meta, "%.*s%s%s", before,
                               (const char *)s->data, to, at + strlen(from));
    s->data = meta;
    ck_assert(tc_entry_make(&new, old.key, old.sections, old.n));
    ck_assert(tc_cache_write(&cache, &new, why, sizeof why));
    tc_entry_free(&old);
    tc_entry_free(&new);
}

/* The kernel with changes: pairs of texts, then NULL. */
static tilec_kernel *compile_changed(tilec_context *c,
                                     const char *const *changes)
{
    tilec_context *first = new_context("/nowhere", NULL);
    tilec_kernel_free(compile(first, false));
    tilec_context_free(first);
    for (; *changes; changes += 2)
        change_meta(changes[0], changes[1]);
    return compile(c, true);
}

/* What a launch hands over before what it was changed to; the driver
 * is asked where they are when the code is loaded. */
enum { OWN_BYTES = 2 * (8 + 3 * 4 + 3 * 8) + 4 };
static void expect_params(const unsigned char *more, int n)
{
    static const unsigned char own[] = {8, 4, 4, 4, 8, 8, 8, 8,
                                        4, 4, 4, 8, 8, 8, 4};
    memcpy(fake->sizes, own, sizeof own);
    if (n)
        memcpy(fake->sizes + sizeof own, more, (size_t)n);
    fake->nsizes = (int)sizeof own + n;
}

static void expect_maps(void)
{
    static const unsigned char two[] = {TC_GPU_MAP_BYTES, TC_GPU_MAP_BYTES};
    expect_params(two, 2);
}

static tilec_kernel *compile_mapped(tilec_context *c)
{
    const char *changes[] = {"\"maps\":[]", maps, NULL};
    expect_maps();
    return compile_changed(c, changes);
}

static tilec_kernel *compile_counting(tilec_context *c)
{
    const char *changes[] = {"\"counts\":false", "\"counts\":true", NULL};
    return compile_changed(c, changes);
}

typedef struct tensor {
    DLTensor dl;
    int64_t shape[3], strides[3];
} tensor;

static void make_tensor(tensor *t, uintptr_t address)
{
    *t = (tensor){.shape = {3, 40, 64}, .strides = {64, 192, 1}};
    t->dl = (DLTensor){.data = (void *)address,
                       .device = {kDLCUDA, 0},
                       .ndim = 3,
                       .dtype = {kDLBfloat, 16, 1},
                       .shape = t->shape,
                       .strides = t->strides};
}

static tilec_status launch(const tilec_kernel *k, tensor *x, tensor *y,
                           void *stream)
{
    tilec_argument args[] = {tilec_tensor(NULL, &x->dl),
                             tilec_tensor(NULL, &y->dl), tilec_int(NULL, 5)};
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.stream = stream;
    return tilec_launch(k, args, 3, &o, &error);
}

static void expect_says(tilec_status got, tilec_status status,
                        const char *words)
{
    ck_assert_int_eq(got, status);
    ck_assert_msg(strstr(error.message, words) != NULL, "%s", error.message);
}

/* ---- Tensor maps ---- */

static fake_map map_of(int index)
{
    fake_map m;
    memcpy(&m, fake->bytes + OWN_BYTES + index * TC_GPU_MAP_BYTES, sizeof m);
    return m;
}

static bool has_any(const tilec_kernel *k)
{
    return atomic_load(&k->gpu->variants[TC_GPU_ANY]) != NULL;
}

START_TEST(maps_are_handed_over)
{
    tilec_kernel *k = compile_mapped(cx);
    tensor x, y;
    make_tensor(&x, 0x10000);
    make_tensor(&y, 0x20000);
    ck_assert_int_eq(launch(k, &x, &y, NULL), TILEC_OK);
    /* Where the driver says. */
    const tc_gpu_loaded *l = tc_gpu_first(atomic_load(&k->gpu->variants[0]));
    ck_assert_uint_ge(l->maps_at, OWN_BYTES);
    ck_assert_uint_eq(l->maps_at % TC_GPU_MAP_ALIGN, 48);
    fake_map m = map_of(0), n = map_of(1);
    ck_assert_uint_eq(m.address, 0x10000);
    ck_assert_uint_eq(m.type, 9);
    ck_assert_uint_eq(m.rank, 3);
    ck_assert_uint_eq(m.swizzle, 3);
    ck_assert_uint_eq(m.promotion, 3);
    ck_assert_uint_eq(m.interleave, 0);
    ck_assert_uint_eq(m.fill, 0);
    const unsigned long long sizes[] = {64, 40, 3}, strides[] = {384, 128};
    const unsigned boxes[2][3] = {{64, 64, 1}, {64, 32, 1}};
    ck_assert_mem_eq(m.sizes, sizes, sizeof sizes);
    ck_assert_mem_eq(m.strides, strides, sizeof strides);
    ck_assert_mem_eq(m.box, boxes[0], sizeof boxes[0]);
    ck_assert_uint_eq(n.address, 0x20000);
    ck_assert_uint_eq(n.swizzle, 2);
    ck_assert_mem_eq(n.box, boxes[1], sizeof boxes[1]);
    ck_assert(!has_any(k));
    tilec_kernel_free(k);
}
END_TEST

START_TEST(maps_are_kept)
{
    tilec_kernel *k = compile_mapped(cx);
    tensor x, y;
    make_tensor(&y, 0x20000);
    for (int i = 0; i < 12; i++) {
        make_tensor(&x, (uintptr_t)0x10000 + 0x1000 * (i % 4));
        ck_assert_int_eq(launch(k, &x, &y, NULL), TILEC_OK);
        ck_assert_uint_eq(map_of(0).address, (uintptr_t)x.dl.data);
    }
    ck_assert_int_eq(fake->encodes, 5);
    /* Another size or stride is another map. */
    x.shape[1]--;
    ck_assert_int_eq(launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_uint_eq(map_of(0).sizes[1], 39);
    x.strides[1] += 8;
    ck_assert_int_eq(launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_uint_eq(map_of(0).strides[0], 400);
    ck_assert_int_eq(fake->encodes, 7);
    /* More than are kept. */
    for (int i = 0; i < 40; i++) {
        make_tensor(&x, (uintptr_t)0x100000 + 0x1000 * (i % 20));
        ck_assert_int_eq(launch(k, &x, &y, NULL), TILEC_OK);
        ck_assert_uint_eq(map_of(0).address, (uintptr_t)x.dl.data);
        ck_assert_uint_eq(map_of(1).address, 0x20000);
    }
    tilec_kernel_free(k);
}
END_TEST

/* The driver takes no size of 0, and any stride where none is walked. */
START_TEST(empty_and_flat_tensors_have_maps)
{
    tilec_kernel *k = compile_mapped(cx);
    tensor x, y;
    make_tensor(&x, 0);
    make_tensor(&y, 0x20000);
    x.shape[1] = 0;
    y.shape[0] = 1;
    y.strides[0] = 7;
    ck_assert_int_eq(launch(k, &x, &y, NULL), TILEC_OK);
    fake_map m = map_of(0), n = map_of(1);
    const unsigned long long ones[] = {1, 1, 1};
    ck_assert_mem_eq(m.sizes, ones, sizeof ones);
    ck_assert_uint_eq(m.address,
                      tc_gpu_first(atomic_load(&k->gpu->variants[0]))->spare);
    ck_assert_uint_eq(n.strides[1], 384 * 40);
    /* Rows that are all the same one are walked, by strides of 0. */
    y.strides[1] = 0;
    ck_assert_int_eq(launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_uint_eq(map_of(1).strides[0], 0);
    ck_assert(!has_any(k));
    tilec_kernel_free(k);
}
END_TEST

START_TEST(what_has_no_map_takes_the_second_variant)
{
    tilec_kernel *k = compile_mapped(cx);
    tensor x, y;
    make_tensor(&x, 0x10000);
    make_tensor(&y, 0x20000);
    ck_assert_str_eq(tc_gpu_predicate_of(k).text,
                     "aligned(x, y), mapped(x, y)");
    x.strides[0] = (int64_t)1 << 39;
    ck_assert_int_eq(launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert(has_any(k));
    ck_assert_int_eq(fake->encodes, 0);
    x.strides[0] = -64;
    ck_assert_int_eq(launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_int_eq(fake->encodes, 0);
    make_tensor(&x, 0x10000);
    fake->encode = 1;
    ck_assert_int_eq(launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_int_eq(fake->encodes, 1);
    ck_assert_int_eq(fake->launches, 3);
    /* A stream that is captured wants it loaded before. */
    fake->capturing = 1;
    ck_assert_int_eq(launch(k, &x, &y, &x), TILEC_OK);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(second_variant_has_no_maps_itself)
{
    tilec_kernel *k = compile_mapped(cx);
    tensor x, y;
    make_tensor(&x, 0x10000);
    make_tensor(&y, 0x20000);
    /* As code would be that asks for maps whatever the tensors are. */
    tc_gpu_code *code = atomic_load(&k->gpu->variants[TC_GPU_ALIGNED]);
    atomic_store(&k->gpu->variants[TC_GPU_ANY], tc_gpu_code_ref(code));
    fake->encode = 1;
    expect_says(launch(k, &x, &y, NULL), TILEC_INPUT,
                "argument x: no tensor map can be made of it, and @add has no "
                "code that does without: the driver makes no tensor map of "
                "its sizes and strides");
    tilec_kernel_free(k);
}
END_TEST

/* The first makes no maps, the other does not say where they go. */
static const char *const old_drivers[] = {FAKE_CUDA_11, FAKE_CUDA_12};

START_TEST(driver_without_maps)
{
    tilec_context *c = new_context(old_drivers[_i], NULL);
    tilec_kernel *k = compile_mapped(c);
    tensor x, y;
    make_tensor(&x, 0x10000);
    make_tensor(&y, 0x20000);
    tilec_status s = launch(k, &x, &y, NULL);
    ck_assert_msg(s == TILEC_OK, "%s", error.message);
    ck_assert(has_any(k));
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

START_TEST(places_that_are_not_found)
{
    const char *changes[] = {"\"maps\":[]", maps, NULL};
    tilec_kernel *k;
    tilec_context *first = new_context("/nowhere", NULL);
    tilec_kernel_free(compile(first, false));
    tilec_context_free(first);
    change_meta(changes[0], changes[1]);
    expect_params(NULL, 0);
    ck_assert_int_eq(compile_with(cx, true, &k), TILEC_MACHINE);
    ck_assert_ptr_nonnull(
        strstr(tilec_diagnostics(cx)->message, "@add does not load on Fake 0"));
    ck_assert_int_eq(fake->unloads, fake->loads);
}
END_TEST

/* Threads that use more tensors than are kept see whole maps only. */
struct user {
    const tilec_kernel *k;
    unsigned first;
    bool ok;
};

static void *use_maps(void *arg)
{
    struct user *u = arg;
    const tc_gpu_code *code = atomic_load(&u->k->gpu->variants[0]);
    static const int32_t sizes[] = {3, 40, 64};
    static const int64_t strides[] = {64, 192, 1};
    _Alignas(TC_GPU_MAP_ALIGN) unsigned char bytes[TC_GPU_MAP_BYTES];
    u->ok = true;
    for (unsigned i = 0; i < 20000; i++) {
        uintptr_t address = 0x10000 * (1 + (i + u->first) % 10);
        tc_launch_arg args[] = {
            {.sizes = sizes, .strides = strides, .data = (void *)address}};
        fake_map m;
        const char *why = tc_gpu_map(tc_gpu_first(code), tc_gpu_code_meta(code),
                                     0, args, bytes);
        memcpy(&m, bytes, sizeof m);
        u->ok &= !why && m.address == address && m.type == 9 && m.rank == 3 &&
                 m.promotion == 3;
    }
    return NULL;
}

START_TEST(threads_share_maps)
{
    tilec_kernel *k = compile_mapped(cx);
    pthread_t threads[4];
    struct user users[4];
    for (unsigned i = 0; i < 4; i++) {
        users[i] = (struct user){k, 3 * i, false};
        pthread_create(&threads[i], NULL, use_maps, &users[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(users[i].ok);
    }
    tilec_kernel_free(k);
}
END_TEST

/* ---- Counters ---- */

static uint64_t counter_of(const tilec_kernel *k, void *stream)
{
    static const unsigned char one[] = {8};
    tensor x, y;
    uint64_t counter;
    make_tensor(&x, 0x10000);
    make_tensor(&y, 0x20000);
    expect_params(one, 1);
    tilec_status s = launch(k, &x, &y, stream);
    ck_assert_msg(s == TILEC_OK, "%s", error.message);
    memcpy(&counter, fake->bytes + OWN_BYTES, sizeof counter);
    ck_assert_uint_eq(*(uint64_t *)(uintptr_t)counter, 0);
    return counter;
}

static void *handle(uintptr_t number)
{
    return (void *)number;
}

START_TEST(streams_have_counters)
{
    tilec_kernel *k = compile_counting(cx);
    int allocs = fake->allocs;
    uint64_t a = counter_of(k, handle(0x5000)),
             b = counter_of(k, handle(0x6000));
    ck_assert_uint_ne(a, b);
    ck_assert_uint_eq(counter_of(k, handle(0x5000)), a);
    ck_assert_uint_eq(counter_of(k, handle(0x6000)), b);
    uint64_t legacy = counter_of(k, NULL);
    ck_assert(legacy != a && legacy != b);
    ck_assert_uint_eq(counter_of(k, handle(1)), legacy);
    /* The handle is another stream's now. */
    fake->epoch = 1;
    uint64_t c = counter_of(k, handle(0x5000));
    ck_assert(c != a && c != b && c != legacy);
    ck_assert_uint_eq(counter_of(k, handle(0x5000)), c);
    ck_assert_int_eq(fake->allocs, allocs);
    /* Another context has its own. */
    fake_use(0, 0);
    ck_assert_uint_ne(counter_of(k, handle(0x5000)), c);
    tilec_kernel_free(k);
}
END_TEST

static void *counter_of_thread(void *k)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    uint64_t counter = counter_of(k, handle(2));
    if (counter != counter_of(k, handle(2)))
        counter = 0;
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)counter;
}

START_TEST(threads_default_streams_have_counters)
{
    tilec_kernel *k = compile_counting(cx);
    uint64_t mine = counter_of(k, handle(2));
    void *others[2];
    for (int i = 0; i < 2; i++) {
        pthread_t t;
        pthread_create(&t, NULL, counter_of_thread, k);
        pthread_join(t, &others[i]);
        ck_assert_ptr_nonnull(others[i]);
        ck_assert_uint_ne((uintptr_t)others[i], mine);
    }
    ck_assert_ptr_ne(others[0], others[1]);
    ck_assert_uint_eq(counter_of(k, handle(2)), mine);
    tilec_kernel_free(k);
}
END_TEST

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

enum { MANY = 6000 };

START_TEST(captured_launches_have_counters)
{
    static uint64_t counters[MANY];
    tilec_kernel *k = compile_counting(cx);
    uint64_t stream = counter_of(k, handle(0x5000));
    fake->capturing = 1;
    int allocs = fake->allocs;
    for (int i = 0; i < MANY; i++) {
        counters[i] = counter_of(k, handle(0x5000));
        ck_assert_uint_ne(counters[i], stream);
        ck_assert_int_eq(fake->capturing, 1);
        ck_assert(i > 1000 || fake->allocs == allocs);
    }
    fake->capturing = 0;
    ck_assert_uint_eq(counter_of(k, handle(0x5000)), stream);
    qsort(counters, MANY, sizeof *counters, by_value);
    for (int i = 1; i < MANY; i++)
        ck_assert_uint_ge(counters[i], counters[i - 1] + 8);
    tilec_kernel_free(k);
    tilec_context_free(cx);
    cx = NULL;
    ck_assert_int_eq(fake->frees, fake->allocs);
}
END_TEST

START_TEST(captures_without_memory)
{
    tilec_kernel *k = compile_counting(cx);
    tensor x, y;
    make_tensor(&x, 0x10000);
    make_tensor(&y, 0x20000);
    fake->capturing = 1;
    fake->alloc = 2;
    tilec_status s = TILEC_OK;
    int n = 0;
    while (s == TILEC_OK && n++ < MANY)
        s = launch(k, &x, &y, handle(0x5000));
    ck_assert_int_gt(n, 1000);
    expect_says(s, TILEC_MACHINE,
                "launch of @add on Fake 0: there is no counter left for it, "
                "and no memory for more: CUDA_ERROR_OUT_OF_MEMORY");
    ck_assert_ptr_nonnull(strstr(error.message, "tilec_kernel_load"));
    fake->capturing = 0;
    expect_says(tilec_kernel_load(k, 0, &error), TILEC_MACHINE,
                "no counters for captured launches");
    fake->alloc = 0;
    ck_assert_int_eq(tilec_kernel_load(k, 0, &error), TILEC_OK);
    fake->capturing = 1;
    int allocs = fake->allocs;
    ck_assert_int_eq(launch(k, &x, &y, handle(0x5000)), TILEC_OK);
    ck_assert_int_eq(fake->allocs, allocs);
    tilec_kernel_free(k);
}
END_TEST

static void *launch_much(void *arg)
{
    tensor x, y;
    tilec_error e;
    make_tensor(&x, 0x10000);
    make_tensor(&y, 0x20000);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_int(NULL, 5)};
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    for (uintptr_t i = 0; i < 500; i++) {
        o.stream = handle(0x1000 * (1 + i % 20));
        if (tilec_launch(arg, args, 3, &o, &e))
            return NULL;
    }
    return arg;
}

START_TEST(threads_share_counters)
{
    tilec_kernel *k = compile_counting(cx);
    pthread_t t[4];
    fake->nsizes = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, launch_much, k);
    for (int i = 0; i < 4; i++) {
        void *ok;
        pthread_join(t[i], &ok);
        ck_assert_ptr_eq(ok, k);
    }
    tilec_kernel_free(k);
}
END_TEST

/* ---- Threads, and the rest of what an entry says ---- */

START_TEST(blocks_have_more_threads)
{
    const char *changes[] = {"\"warps\":4,\"threads\":128",
                             "\"warps\":4,\"threads\":256",
                             "\"maps\":[]",
                             maps,
                             "\"counts\":false",
                             "\"counts\":true",
                             NULL};
    static const unsigned char more[] = {TC_GPU_MAP_BYTES, TC_GPU_MAP_BYTES, 8};
    expect_params(more, 3);
    tilec_kernel *k = compile_changed(cx, changes);
    tensor x, y;
    make_tensor(&x, 0x10000);
    make_tensor(&y, 0x20000);
    ck_assert_int_eq(launch(k, &x, &y, NULL), TILEC_OK);
    ck_assert_uint_eq(fake->block[0], 256);
    ck_assert_uint_eq(map_of(0).address, 0x10000);
    tilec_resources r = TILEC_INIT(tilec_resources);
    ck_assert_int_eq(tilec_kernel_resources(k, &r, &error), TILEC_OK);
    ck_assert_uint_eq(r.warps, 4);
    ck_assert_uint_eq(r.threads, 256);
    char *json;
    ck_assert_int_eq(tilec_kernel_emit(k, "json", &json, &error), TILEC_OK);
    ck_assert_ptr_nonnull(strstr(json, "\"threads\":\t256"));
    ck_assert_ptr_nonnull(strstr(json, "\"counts_tiles\":\ttrue"));
    ck_assert_ptr_nonnull(strstr(json, "\"parameter\":\t\"y\""));
    ck_assert_ptr_nonnull(strstr(json, "\"box\":\t[1, 32, 64]"));
    ck_assert_ptr_nonnull(strstr(json, "\"swizzle\":\t128"));
    ck_assert_ptr_nonnull(strstr(json, "aligned(x, y), mapped(x, y)"));
    tilec_free(json);
    fake->launch = 701;
    expect_says(launch(k, &x, &y, NULL), TILEC_MACHINE, "256 threads");
    tilec_kernel_free(k);
}
END_TEST

/* What a bulk copy stores is written, too: it is copied back. */
START_TEST(bulk_stores_write)
{
    static const char text[] =
        "kernel @put(%x: tensor<[?, ?] x f32>, %y: tensor<[?, ?] x f32>)\n"
        "    aligned(0, 1) warps(4) grid(1) {\n"
        "  %s = smem_alloc : smem<32x32 x f32, #swizzle128>\n"
        "  tma_store block %y[0 +: 32, 0 +: 32], %s\n"
        "  tma_store_wait pending(0)\n"
        "}\n";
    tilec_kernel *k;
    tilec_source source = {"test.tile", text, 0};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = "sm_90a";
    o.pipeline = "allocate-shared";
    o.no_load = 1;
    tilec_status s = tilec_compile(cx, &source, 1, &o, &k);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    ck_assert_int_eq(tilec_kernel_parameter(k, 0)->written, 0);
    ck_assert_int_eq(tilec_kernel_parameter(k, 1)->written, 1);
    tilec_kernel_free(k);
}
END_TEST

/* Not as changed here, but as code generation says it. */
START_TEST(code_says_what_it_asks_for)
{
    static const unsigned char sizes[] = {8, 4, 4, 8, 8, 4, TC_GPU_MAP_BYTES,
                                          8, 8};
    uint64_t pointers[2];
    fake_map m;
    tensor x;
    make_tensor(&x, 0x10000);
    x.dl.ndim = 2;
    x.dl.dtype.code = kDLFloat;
    x.strides[0] = 40;
    x.strides[1] = 1;
    x.shape[0] = 3;
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl), tilec_int(NULL, 5)};
    memcpy(fake->sizes, sizes, (size_t)(fake->nsizes = sizeof sizes));
    tilec_kernel *k = compile_machine(cx);
    for (int i = 0; i < 2; i++) {
        tilec_status s = tilec_launch(k, args, 2, NULL, &error);
        ck_assert_msg(s == TILEC_OK, "%s", error.message);
        ck_assert_uint_eq(fake->block[0], 256);
        memcpy(&m, fake->bytes + 36, sizeof m);
        memcpy(pointers, fake->bytes + 36 + sizeof m, sizeof pointers);
        ck_assert_uint_eq(m.address, 0x10000);
        ck_assert_uint_eq(m.type, 6);
        ck_assert_uint_eq(m.rank, 2);
        ck_assert_uint_eq(m.strides[0], 80);
        ck_assert_uint_eq(m.box[0], 64);
        ck_assert_uint_eq(m.box[1], 32);
        const tc_gpu_loaded *l =
            tc_gpu_first(atomic_load(&k->gpu->variants[TC_GPU_ALIGNED]));
        ck_assert_uint_eq(pointers[1], l->report);
        ck_assert_ptr_nonnull(l->counters);
        ck_assert_ptr_nonnull(l->maps);
        /* And so it is from the cache. */
        tilec_kernel_free(k);
        tilec_context *c = new_context(FAKE_CUDA, NULL);
        k = compile_machine(c);
        tilec_context_free(c);
    }
    /* Registers would not move between the warps of linked code. */
    ck_assert_int_eq(fake->links, 0);
    ck_assert_int_eq(fake->loads, 3);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(remark_of_a_driver_without_maps)
{
    tilec_context *c = new_context(old_drivers[_i], NULL);
    c->remarks = true;
    tilec_kernel *k = compile_machine(c);
    const tilec_diagnostic *d = tilec_diagnostics(c);
    while (d && !strstr(d->message, "has no tensor maps (CUDA 12.4)"))
        d = d->next;
    ck_assert_ptr_nonnull(d);
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

START_TEST(limits_are_of_all_threads)
{
    const char *changes[] = {"\"threads\":128", "\"threads\":256", NULL};
    fake->max_threads = 255;
    tilec_context *first = new_context("/nowhere", NULL);
    tilec_kernel_free(compile(first, false));
    tilec_context_free(first);
    change_meta(changes[0], changes[1]);
    tilec_kernel *k;
    ck_assert_int_eq(compile_with(cx, true, &k), TILEC_MACHINE);
    ck_assert_ptr_nonnull(strstr(tilec_diagnostics(cx)->message,
                                 "@add has blocks of 256 threads"));
}
END_TEST

START_TEST(unsound_entries_are_made_again)
{
    static const char *const changes[][2] = {
        {"\"abi\":2", "\"abi\":1"},
        {"\"threads\":128", "\"threads\":0"},
        {"\"threads\"", "\"strands\""},
        {"\"target\":\"sm_90a\"", "\"target\":\"sm_9\""},
        {"\"maps\":[]", "\"naps\":[]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf61\",128,1,64,64]]"},
        {"\"maps\":[]", "\"maps\":[[0,\"bf16\",128]]"}};
    int links = 0;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *change[] = {changes[i][0], changes[i][1], NULL};
        tilec_context *c = new_context(FAKE_CUDA, NULL);
        tilec_kernel_free(compile_changed(c, change));
        /* Assembled anew: a sound entry has the cubin. */
        ck_assert_int_eq(fake->links, ++links);
        tilec_context_free(c);
    }
}
END_TEST

START_TEST(maps_of_no_tensor_are_refused)
{
    static const char *const wrong[] = {"\"maps\":[[2,\"bf16\",128,1,64,64]]",
                                        "\"maps\":[[9,\"bf16\",128,1,64,64]]",
                                        "\"maps\":[[0,\"f16\",128,1,64,64]]",
                                        "\"maps\":[[0,\"bf16\",128,64]]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tc_cache cache = {.folder = folder};
        size_t n;
        tilec_kernel *k;
        tilec_context *first = new_context("/nowhere", NULL);
        tilec_kernel_free(compile(first, false));
        tilec_context_free(first);
        change_meta("\"maps\":[]", wrong[i]);
        ck_assert_int_eq(compile_with(cx, true, &k), TILEC_MACHINE);
        ck_assert_str_eq(tilec_diagnostics(cx)->message,
                         "the code of @add is not sound: clear the cache");
        tc_cache_clear(&cache, &n);
        tilec_context_free(cx);
        cx = new_context(FAKE_CUDA, NULL);
    }
}
END_TEST

START_TEST(grids_know_the_device)
{
    tilec_context *c = new_context("/nowhere", NULL);
    tilec_kernel *k = compile(cx, true), *away = compile(c, true);
    tensor x, y;
    int32_t grid[3];
    make_tensor(&x, 0x10000);
    make_tensor(&y, 0x20000);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_int(NULL, 500)};
    ck_assert_int_eq(tilec_launch(k, args, 3, NULL, &error), TILEC_OK);
    ck_assert_uint_eq(fake->grid[0], 132);
    ck_assert_int_eq(tilec_kernel_grid(away, args, 3, grid, &error), TILEC_OK);
    ck_assert_int_eq(grid[0], 1);
    tilec_kernel_free(k);
    tilec_kernel_free(away);
    tilec_context_free(c);
}
END_TEST

/* ---- Code for one kind of device ---- */

START_TEST(exact_targets)
{
    const tc_target *t = tc_target_get("sm_90a");
    ck_assert(tc_gpu_fits(t, &(tc_cuda_device){.major = 9, .minor = 0}));
    ck_assert(!tc_gpu_fits(t, &(tc_cuda_device){.major = 9, .minor = 1}));
    ck_assert(!tc_gpu_fits(t, &(tc_cuda_device){.major = 10, .minor = 0}));
    ck_assert(!tc_gpu_fits(t, &(tc_cuda_device){.major = 8, .minor = 9}));
    ck_assert(tc_gpu_fits(tc_target_get("sm_90"),
                          &(tc_cuda_device){.major = 10, .minor = 0}));
    tilec_kernel_free(compile(cx, true));
    ck_assert_uint_eq(fake->target, 0x10000 + 90);
}
END_TEST

START_TEST(later_devices_do_not_run_exact_code)
{
    fake->major = 10;
    /* A driver is asked about its devices once. */
    char copy[100];
    snprintf(copy, sizeof copy, "%s/libcuda.so", folder);
    ck_assert_int_eq(symlink(FAKE_CUDA, copy), 0);
    tilec_context *c = new_context(copy, NULL);
    ck_assert_str_eq(tc_target_find(c, "auto")->name, "sm_90");
    tilec_kernel *k = compile(c, true);
    ck_assert_int_eq(fake->loads, 0);
    tensor x, y;
    make_tensor(&x, 0x10000);
    make_tensor(&y, 0x20000);
    expect_says(launch(k, &x, &y, NULL), TILEC_MACHINE,
                "@add is compiled for sm_90a and does not run on CUDA device "
                "0, Fake 0 (compute capability 10.0)");
    tilec_kernel_free(k);
    tilec_context_free(c);
    unlink(copy);
}
END_TEST

/* ---- Assemblers that give up ---- */

#define SERIAL                                                                 \
    "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async "     \
    "instructions are serialized due to insufficient register resources for "  \
    "the function 'add'"

START_TEST(losses_are_errors)
{
    static const char *const lines[][2] = {
        {SERIAL, "wgmma products are serialized: the kernel needs more "
                 "registers than there are (C7512): compile it with smaller "
                 "tiles, or more warps"},
        {"info : (C7508) Potential Performance Loss: 'setmaxnreg' ignored",
         "setmaxnreg is ignored: the registers at entry are not known (C7508)"},
        {"(C7510) x", "(C7510)"},
        {"(C7511) x", "(C7511)"},
        {"(C7514) x", "(C7514)"},
        {"(C7515) x", "(C7515)"},
        {"(C7517) x", "(C7517)"},
        {"(C7519) x", "(C7519)"},
        {"(C7513) Potential Performance Loss: wgmma.mma_async is x",
         "wgmma products are serialized"}};
    tilec_kernel *k;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        fake->whole_info = lines[i][0];
        ck_assert_int_eq(compile_text(cx, product_text, true, &k),
                         TILEC_MACHINE);
        const tilec_diagnostic *d = tilec_diagnostics(cx);
        ck_assert_msg(strstr(d->message, lines[i][1]) != NULL, "%s",
                      d->message);
        ck_assert_ptr_nonnull(strstr(d->message, "@mul would be slow: "));
        ck_assert_ptr_nonnull(d->notes);
        ck_assert_str_eq(d->notes->message, lines[i][0]);
        ck_assert_int_eq(fake->unloads, fake->loads);
    }
    fake->whole_info = "ptxas info    : Used 168 registers, used 16 barriers";
    tilec_kernel_free(must_compile(cx, product_text, true));
    ck_assert_int_eq(fake->links, 0);
}
END_TEST

static tilec_status launch_product(const tilec_kernel *k)
{
    tensor x, y;
    make_tensor(&x, 0x10000);
    x.dl.ndim = 2;
    x.dl.dtype.code = kDLFloat;
    x.shape[0] = x.shape[1] = x.strides[0] = 64;
    x.strides[1] = 1;
    y = x;
    y.dl.data = (void *)0x20000;
    y.dl.dtype.bits = 32;
    y.dl.shape = y.shape;
    y.dl.strides = y.strides;
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl)};
    return tilec_launch(k, args, 2, NULL, &error);
}

START_TEST(losses_at_a_launch)
{
    tilec_kernel *k = must_compile(cx, product_text, false);
    fake->whole_info = SERIAL;
    expect_says(launch_product(k), TILEC_MACHINE,
                "@mul would be slow: wgmma products are serialized");
    tilec_kernel_free(k);
}
END_TEST

/* Linkers speak as well. */
START_TEST(losses_of_linked_code)
{
    tilec_kernel *k;
    fake->info = SERIAL;
    ck_assert_int_eq(compile_with(cx, true, &k), TILEC_MACHINE);
    ck_assert_ptr_nonnull(strstr(tilec_diagnostics(cx)->message, "(C7512)"));
    ck_assert_int_eq(fake->loads, 0);
    /* Nothing of it is kept. */
    fake->info = "ptxas info    : Used 168 registers, used 16 barriers";
    k = compile(cx, true);
    ck_assert_int_eq(fake->links, 2);
    ck_assert_int_eq(fake->loads, 1);
    tilec_kernel_free(k);
    /* But what is good is. */
    tilec_context_free(cx);
    cx = new_context(FAKE_CUDA, NULL);
    tilec_kernel_free(compile(cx, true));
    ck_assert_int_eq(fake->links, 2);
    ck_assert_int_eq(fake->loads, 2);
}
END_TEST

/* For the driver's linker: it would lose what they are made for. */
START_TEST(products_are_never_linked)
{
    fake->info = "info : (C7504) Potential Performance Loss: 'setmaxnreg' "
                 "ignored to maintain compatibility across compilation units.";
    tilec_kernel *k = must_compile(cx, product_text, true);
    ck_assert_int_eq(fake->loads, 1);
    ck_assert_uint_eq(fake->target, 0x10000 + 90);
    ck_assert_int_eq(launch_product(k), TILEC_OK);
    fake_use(0, 0);
    ck_assert_int_eq(launch_product(k), TILEC_OK);
    ck_assert_int_eq(fake->loads, 2);
    tilec_kernel_free(k);
    /* From the cache too; its entry has no cubin. */
    tilec_context_free(cx);
    cx = new_context(FAKE_CUDA, NULL);
    k = must_compile(cx, product_text, true);
    ck_assert_int_eq(launch_product(k), TILEC_OK);
    ck_assert_int_eq(fake->loads, 3);
    /* By ptxas, where it is installed. */
    char *cubin = NULL;
    tilec_kernel_emit(k, "cubin", &cubin, &error);
    tilec_free(cubin);
    ck_assert_int_eq(fake->links, 0);
    tilec_kernel_free(k);
}
END_TEST

/* A program in the place of ptxas that says what is given. */
static void write_ptxas(const char *path, const char *says)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f,
            "#!/bin/sh\n"
            "test \"$1\" = -arch=sm_90a || exit 1\n"
            "echo \"%s\"\n"
            "for last; do :; done\n"
            "printf 'a cubin' >\"$last\"\n",
            says);
    fclose(f);
    ck_assert_int_eq(chmod(path, 0755), 0);
}

START_TEST(ptxas_is_heard)
{
    char path[100];
    tilec_kernel *k;
    snprintf(path, sizeof path, "%s/ptxas", folder);
    write_ptxas(path, SERIAL);
    tilec_context *c = new_context(FAKE_CUDA, path);
    ck_assert_int_eq(compile_text(c, product_text, true, &k), TILEC_MACHINE);
    ck_assert_ptr_nonnull(strstr(tilec_diagnostics(c)->message, "(C7512)"));
    ck_assert_str_eq(tilec_diagnostics(c)->notes->message, SERIAL);
    write_ptxas(path, "ptxas info    : Used 168 registers");
    tilec_kernel_free(must_compile(c, product_text, true));
    ck_assert_int_eq(fake->links, 0);
    ck_assert_int_eq(fake->loads, 1);
    tilec_context_free(c);
    /* Its cubin is kept. */
    write_ptxas(path, SERIAL);
    c = new_context(FAKE_CUDA, path);
    tilec_kernel_free(must_compile(c, product_text, true));
    ck_assert_int_eq(fake->loads, 2);
    tilec_context_free(c);
    unlink(path);
}
END_TEST

static void add_map_tests(TCase *c)
{
    tcase_add_test(c, maps_are_handed_over);
    tcase_add_test(c, maps_are_kept);
    tcase_add_test(c, empty_and_flat_tensors_have_maps);
    tcase_add_test(c, what_has_no_map_takes_the_second_variant);
    tcase_add_test(c, second_variant_has_no_maps_itself);
    tcase_add_loop_test(c, driver_without_maps, 0, 2);
    tcase_add_test(c, places_that_are_not_found);
    tcase_add_test(c, threads_share_maps);
}

static void add_counter_tests(TCase *c)
{
    tcase_add_test(c, streams_have_counters);
    tcase_add_test(c, threads_default_streams_have_counters);
    tcase_add_test(c, captured_launches_have_counters);
    tcase_add_test(c, captures_without_memory);
    tcase_add_test(c, threads_share_counters);
}

int main(void)
{
    Suite *s = suite_create("hopper");
    TCase *c = tcase_create("hopper");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 300);
    add_map_tests(c);
    add_counter_tests(c);
    tcase_add_test(c, blocks_have_more_threads);
    tcase_add_test(c, bulk_stores_write);
    tcase_add_test(c, code_says_what_it_asks_for);
    tcase_add_loop_test(c, remark_of_a_driver_without_maps, 0, 2);
    tcase_add_test(c, limits_are_of_all_threads);
    tcase_add_test(c, unsound_entries_are_made_again);
    tcase_add_test(c, maps_of_no_tensor_are_refused);
    tcase_add_test(c, grids_know_the_device);
    tcase_add_test(c, exact_targets);
    tcase_add_test(c, later_devices_do_not_run_exact_code);
    tcase_add_test(c, losses_are_errors);
    tcase_add_test(c, losses_at_a_launch);
    tcase_add_test(c, losses_of_linked_code);
    tcase_add_test(c, products_are_never_linked);
    tcase_add_test(c, ptxas_is_heard);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
